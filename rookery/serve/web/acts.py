"""What somebody at the desk does to a sitting: commands, quotes, the answer, and handing it in.

Each says in a sentence what it could not do; nothing is kept of what did nothing. It knows nothing
of HTML, and of where the work is kept.
"""

from typing import NamedTuple

from rookery.browse.find import Span
from rookery.browse.passages import sentences
from rookery.browse.quoting import as_typed
from rookery.browse.window import Window
from rookery.cite.syntax import BadSyntax, parse_numbered
from rookery.draft.rollout import episode_of
from rookery.records import Answer, Episode
from rookery.serve.desk import NO_ROOM
from rookery.serve.typed import FIND, command_of
from rookery.serve.web.pointing import NotNamed, command_for, trimmed
from rookery.serve.web.sittings import Work

LONGEST = 100_000
"""characters of an answer"""
NO_QUOTES = "quote something first: an answer rests on quotes"
NO_COMMAND = (
    "this is no command. Commands are Search, Find in page:, Quote:, Clicked on link and its "
    "number, Scrolled down 1, Scrolled up 1, Top, Back and End: Answer, Nonsense or Controversial"
)
UNCITED = "no quote is cited: write [1] behind what quote 1 says"
Highlight = tuple[Span, str]


class Lint(NamedTuple):
    """Something about an answer that its writer may want to change."""

    sentence: str
    bars: bool
    """it cannot be handed in like this"""


def say(work: Work, line: str) -> str:
    """Does what a command says that was typed; why not, where it did nothing."""
    command = command_of(line)
    if command is None:
        return NO_COMMAND
    return do(work, command)


def do(work: Work, command: str) -> str:
    """Does what a command says; why not, where it did nothing."""
    sitting, before = work.sitting, work.sitting.shown
    if why := _barred(work, command):
        return why
    sitting.say(command)
    after = sitting.shown
    if sitting.wanted is not None or work.ending or after.past != before.past:
        return ""
    sitting.undo()
    return after.note


def quote(work: Work, start: int, end: int) -> str:
    """Quotes exactly what is shown of text[start:end] of the page; why not, where it cannot."""
    sitting, shown, view = work.sitting, work.sitting.shown, work.view()
    if view is None or work.ending or sitting.wanted is not None:
        return "only a page that was opened can be quoted: click on a link first"
    window = Window(shown.text, shown.start, shown.end)
    finder = work.views.of(view.page, sitting.task.rules).finder
    try:
        span = trimmed(view.page, window, start, end)
        command = command_for(view.page, finder, window, list(view.parts(shown.start)), span)
    except NotNamed as error:
        return str(error)
    room = sitting.task.rules.quoted - sum(len(quoted.text) for quoted in shown.quotes)
    wanted = view.page.quote(*span)
    if len(wanted.text) > room and wanted not in shown.quotes:
        return NO_ROOM.format(room).replace("answer with a", "begin to answer")
    return do(work, command)


def undo(work: Work) -> str:
    """Takes the last command back."""
    return "" if work.sitting.undo() else "there is nothing to take back"


def write(work: Work, text: str) -> str:
    """Keeps the answer as far as it is written."""
    if len(text) > LONGEST:
        return f"this is longer than {LONGEST:,} characters: shorten it, then save it again"
    work.sitting.write(text)
    return ""


def lints(work: Work, text: str) -> list[Lint]:
    """What is to be said about an answer before it is handed in."""
    if not text.strip():
        return [Lint("there is no answer yet: write one, or go back to reading", True)]
    try:
        answer = parse_numbered(text.strip(), work.sitting.shown.quotes)
    except BadSyntax as error:
        return [Lint(f"the answer {error}", True)]
    return [Lint(sentence, False) for sentence in _advice(answer)]


def episode(work: Work) -> Episode:
    """The demonstration, with every prompt, as `rookery browse` would save it."""
    sitting = work.sitting
    steps, browsed = sitting.rerun(lambda library: library)
    return episode_of(sitting.task, work.place.person, steps, browsed)


def choosable(work: Work) -> list[Span]:
    """The sentences and headings in the window, to be quoted without pointing at them."""
    view, shown = work.view(), work.sitting.shown
    if view is None:
        return []
    found = sentences(view.page, shown.start, shown.end)
    headings = [
        (max(block.start, shown.start), min(block.end, shown.end))
        for block in view.page.blocks
        if block.kind in ("heading", "caption") and block.start < shown.end
    ]
    seen = [(part.start, part.end) for part in view.parts(shown.start) if part.start < part.end]
    return sorted(
        span
        for span in {*found, *headings}
        if any(low < span[1] and span[0] < high for low, high in seen)
    )


def highlights(work: Work) -> list[Highlight]:
    """What is quoted and found in the window."""
    view, shown = work.view(), work.sitting.shown
    if view is None:
        return []
    marked: list[Highlight] = [
        ((quoted.start, quoted.end), "quoted")
        for quoted in shown.quotes
        if (quoted.digest, quoted.url) == (shown.digest, shown.url)
    ]
    last = work.sitting.last
    if last.startswith(FIND):
        finder = work.views.of(view.page, work.sitting.task.rules).finder
        for reading in as_typed(last.removeprefix(FIND)):
            found: list[Highlight] = []
            for span in finder.following(reading, shown.start, spaced=True):
                if span[0] >= shown.end:
                    break
                found.append((span, "found"))
            if found:
                return marked + found
    return marked


def _barred(work: Work, command: str) -> str:
    """Why a command would do nothing, or nothing that is meant."""
    shown = work.sitting.shown
    if work.sitting.wanted is not None:
        return "wait for the page, or leave off"
    if work.ending:
        return "browsing has ended: go back to reading first"
    if command == "End: Answer" and not shown.quotes:
        return NO_QUOTES
    if command.startswith("Scrolled down") and shown.scrollbar[1] >= 100:
        return "this is the end of the page"
    if (command.startswith("Scrolled up") or command == "Top") and not shown.scrollbar[0]:
        return "this is the top of the page"
    return ""


def _advice(answer: Answer) -> list[str]:
    if not answer.claims:
        return [UNCITED]
    cited = {number for claim in answer.claims for number in claim.quotes}
    unused = [f"[{n}]" for n in range(1, len(answer.quotes) + 1) if n - 1 not in cited]
    advice = [f"not cited yet: {', '.join(unused)}"] if unused else []
    at, bare = 0, 0
    for paragraph in answer.text.split("\n\n"):
        end = at + len(paragraph)
        bare += bool(paragraph.strip()) and not any(
            claim.start < end and at < claim.end for claim in answer.claims
        )
        at = end + 2
    if bare:
        advice.append(f"{bare} paragraph{'s' * (bare > 1)} without a citation")
    return advice

"""Commands that a person gives in a demonstration, at a prompt or on a web page: browser
commands, quotes of a marked span, the answer.

What is marked is a span of the page, never words: the words are cut from the page here, and the
command is the one that a model would have to write. Each function returns a sentence that says why
it did nothing, or an empty string; nothing is stored of a command that did nothing.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from rookery.browser.browser import (
    ABBREVIATION_MARK,
    BrowserRequest,
    BrowserSearch,
    build_episode,
    find_quote,
    read_typed_text,
)
from rookery.browser.browser_commands import parse_command
from rookery.browser.page_view import ViewWindow, WindowPart, WindowText, truncate_line
from rookery.pages.page_text import neutralize_text
from rookery.pages.passages import find_sentences
from rookery.pages.text_folding import Span, TextFinder, fold_text
from rookery.quotes.citation_syntax import CitationSyntaxError, parse_numbered
from rookery.records import Answer, Episode, Page
from rookery.shell.browser_session import FIND_PREFIX, BrowserSession, parse_typed_command

MAX_WHOLE_QUOTE = 200
"""characters of a quote that is said in full"""
MIN_QUOTE_ENDS = 40
"""characters, at least, of the beginning and of the end of one that is abbreviated"""
ONLY_PAGES = "only a page that was opened can be quoted: click on a link first"
NO_WORDS = "there are no words in what you marked"
NOT_IN_WINDOW = "this is not in the window any more: mark it again"
QUOTE_IN_PARTS_HINT = "the page holds more between these words than it shows: quote them in parts"
NO_ROOM_HINT = "there is room for {} more characters of quotes: quote less, or begin to answer"
SAME_WORDS = (
    "the same words stand further up in this window, and a quote takes those: mark a little more, "
    "until no other place reads the same, or scroll until the other place is out of sight"
)
UNWRITABLE = "this holds characters that cannot be typed: mark what stands on either side of them"
# Between ideographs a line may end anywhere, and each can be chosen as words can.
_IDEOGRAPH = (
    "\u2e80-\u312f\u3190-\u31ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff"
)
WORD = re.compile(rf"[{_IDEOGRAPH}][\u0300-\u036f\u3099\u309a\ufe00-\ufe0f]*|[^\s{_IDEOGRAPH}]+")
"""a run of letters that can be chosen as one"""


class UnquotableSpanError(ValueError):
    """No command quotes exactly this span; the message says why."""


def trim_span(page: Page, window: ViewWindow, start: int, end: int) -> Span:
    """Return a span of the page's text without white space and invisible characters at its ends.

    It is widened so that no letter is cut from its combining marks. Raises UnquotableSpanError if
    nothing is left, or if it is not in the window.
    """
    if not window.start <= start <= end <= window.end:
        raise UnquotableSpanError(NOT_IN_WINDOW)
    folded = fold_text(page.text[window.start : window.end])
    _, _, starts, ends = folded.changes
    low, high = start - window.start, end - window.start
    cut = bisect_right(starts, low) - 1
    if cut >= 0 and low < ends[cut]:
        low = starts[cut]
    first, last = folded.from_source_offset(low), folded.from_source_offset(high)
    words = folded.text[first:last]
    first += len(words) - len(words.lstrip())
    last -= len(words) - len(words.rstrip())
    if first >= last:
        raise UnquotableSpanError(NO_WORDS)
    low, high = folded.to_source_span(first, last)
    return window.start + low, window.start + high


def find_quote_command(
    page: Page, finder: TextFinder, window: ViewWindow, parts: list[WindowPart], span: Span
) -> str:
    """Return the command "Quote: ..." that quotes exactly the whole words of this trimmed span.

    It gives the window's text, or only its first and last words if it is long. Raises
    UnquotableSpanError if no such command does.
    """
    start, end = span
    covered = [part for part in parts if part.start < part.end]
    if "".join(page.text[start:end].split()) != "".join(
        "".join(page.text[max(part.start, start) : min(part.end, end)].split())
        for part in covered
        if part.start < end and start < part.end
    ):
        raise UnquotableSpanError(QUOTE_IN_PARTS_HINT)
    shown_text, copied = _get_shown_text(parts, start, end), WindowText(page, parts)
    for words in _list_phrasings(shown_text, page.text[start:end]):
        command = f"Quote: {words}"
        parsed = parse_command(command)
        quote = find_quote(finder, parsed.argument, window.start, copied) if parsed else None
        if quote == finder.widen_to_words(span):
            return str(parsed)
    raise UnquotableSpanError(SAME_WORDS if parse_command(f"Quote: {shown_text}") else UNWRITABLE)


def _get_shown_text(parts: list[WindowPart], start: int, end: int) -> str:
    """Return the text of a span as the window shows it, without link and image markers."""
    words: list[str] = []
    for part in parts:
        low, high = max(part.start, start), min(part.end, end)
        if low < high:
            words.append(part.text[low - part.start : high - part.start])
        elif part.start == part.end and start < part.start < end and _is_gap(part):
            words.append(part.text if part.text.isspace() else " ")
    return "".join(words)


def _is_gap(part: WindowPart) -> bool:
    return part.text.isspace() or part.text == " | "


def _list_phrasings(shown_text: str, exact: str) -> Iterator[str]:
    """Yield texts that may name the span, the preferred one first."""
    if len(shown_text) > MAX_WHOLE_QUOTE:  # its first and last words, with a mark between them
        words = [match.span() for match in WORD.finditer(shown_text)]
        front = min((end for _, end in words if end >= MIN_QUOTE_ENDS), default=len(shown_text))
        tails = (start for start, _ in words if len(shown_text) - start >= MIN_QUOTE_ENDS)
        back = max(tails, default=0)
        if front < back:
            yield f"{shown_text[:front]}{ABBREVIATION_MARK}{shown_text[back:]}"
    yield shown_text
    yield exact


MAX_ANSWER_CHARACTERS = 100_000
"""maximum characters of an answer"""
MAX_REQUEST_CHARACTERS = 200
"""maximum characters shown of a query or address"""
NO_QUOTES = "quote something first: an answer rests on quotes"
NO_COMMAND = (
    "this is no command. Commands are Search, Find in page:, Quote:, Clicked on link and its "
    "number, Scrolled down 1, Scrolled up 1, Top, Back and End: Answer, Nonsense or Controversial"
)
UNCITED = "no quote is cited: write [1] after what quote 1 says"
Highlight = tuple[Span, str]
"""a span of the page, and the name of its style"""


class AnswerLint(NamedTuple):
    """A remark on an answer that its writer may want to heed."""

    sentence: str
    bars: bool
    """True if the answer cannot be handed in like this"""


def run_typed_command(session: BrowserSession, line: str) -> str:
    """Parse and run a typed command; return why it did nothing, or an empty string."""
    command = parse_typed_command(line)
    if command is None:
        return NO_COMMAND
    return run_browser_command(session, command)


def run_browser_command(session: BrowserSession, command: str) -> str:
    """Run a browser command; return why it did nothing, or an empty string."""
    return _explain_refusal(session, command) or session.run_command(command)


def quote_window_span(session: BrowserSession, start: int, end: int) -> str:
    """Quote text[start:end] of the open page; return why it cannot be, or an empty string.

    The span must lie in the window.
    """
    observation, view = session.observation, session.find_shown_view()
    if view is None or session.ending or session.pending_request is not None:
        return ONLY_PAGES
    window = ViewWindow(observation.text, observation.start, observation.end)
    finder = session.views.get_opened(view.page, session.task.rules).finder
    parts = list(view.iter_parts(observation.start))
    try:
        span = trim_span(view.page, window, start, end)
        command = find_quote_command(view.page, finder, window, parts, span)
    except UnquotableSpanError as error:
        return str(error)
    room = session.task.rules.quoted - sum(len(quoted.text) for quoted in observation.quotes)
    chosen = view.page.quote_whole_words(*span)
    if len(chosen.text) > room and chosen not in observation.quotes:
        return NO_ROOM_HINT.format(room)
    return run_browser_command(session, command)


def undo_last_command(session: BrowserSession) -> str:
    """Undo the last command; return why not, or an empty string."""
    return "" if session.undo() else "there is nothing to undo"


def save_draft_answer(session: BrowserSession, text: str) -> str:
    """Store the draft of the answer; return why not (it is too long), or an empty string."""
    if len(text) > MAX_ANSWER_CHARACTERS:
        return (
            f"this is longer than {MAX_ANSWER_CHARACTERS:,} characters: shorten it, "
            "then save it again"
        )
    session.save_draft(text)
    return ""


def lint_answer(session: BrowserSession, text: str) -> list[AnswerLint]:
    """Return remarks on an answer: the fault that bars it from being handed in, or advice.

    Empty if there is nothing to remark.
    """
    if not text.strip():
        return [AnswerLint("there is no answer yet: write one, or go back to reading", True)]
    try:
        answer = parse_numbered(text.strip(), session.observation.quotes)
    except CitationSyntaxError as error:
        return [AnswerLint(f"the answer {error}", True)]
    return [AnswerLint(sentence, False) for sentence in _list_advice(answer)]


def make_demonstration_episode(session: BrowserSession, person: str) -> Episode:
    """Return the demonstration of a person as an Episode with the prompt of every step."""
    steps, browsed = session.replay_session()
    return build_episode(session.task, person, steps, browsed)


def describe_request(request: BrowserRequest) -> tuple[str, str]:
    """Return a request to the library in words: "Searching for" or "Opening", and the object."""
    doing = "Searching for" if isinstance(request, BrowserSearch) else "Opening"
    return doing, neutralize_text(truncate_line(request[0], MAX_REQUEST_CHARACTERS))


def list_quotable_spans(session: BrowserSession) -> list[Span]:
    """Return the spans of the sentences, headings and captions in the window, in order.

    They are offsets in the page's text, cut off at the ends of the window. Empty if no page is
    open.
    """
    view, observation = session.find_shown_view(), session.observation
    if view is None:
        return []
    sentences = find_sentences(view.page, observation.start, observation.end)
    headings = [
        (max(block.start, observation.start), min(block.end, observation.end))
        for block in view.page.blocks
        if block.kind in ("heading", "caption") and block.start < observation.end
    ]
    visible = [
        (part.start, part.end)
        for part in view.iter_parts(observation.start)
        if part.start < part.end
    ]
    return sorted(
        span
        for span in {*sentences, *headings}
        if any(low < span[1] and span[0] < high for low, high in visible)
    )


def list_highlights(session: BrowserSession) -> list[Highlight]:
    """Return the page's quoted spans, then those in the window that the last command found.

    Only `Find in page` finds spans. On search results, whose text is no page's, they are spans of
    the text that is shown.
    """
    view, observation = session.find_shown_view(), session.observation
    marked: list[Highlight] = [
        ((quoted.start, quoted.end), "quoted")
        for quoted in observation.quotes
        if view and (quoted.digest, quoted.url) == (observation.digest, observation.url)
    ]
    last = session.last_command
    if not last.startswith(FIND_PREFIX):
        return marked
    if view:
        finder = session.views.get_opened(view.page, session.task.rules).finder
        start, end = observation.start, observation.end
    else:
        finder, start, end = TextFinder(observation.text), 0, len(observation.text)
    for reading in read_typed_text(last.removeprefix(FIND_PREFIX)):
        matches = finder.find_all(reading, start, spaced=True)
        spans = list(takewhile(lambda span: span[0] < end, matches))
        if spans:
            return marked + [(span, "found") for span in spans]
    return marked


def _explain_refusal(session: BrowserSession, command: str) -> str:
    """Return why a command would do nothing, or something that is not meant; empty if it is
    fine."""
    observation = session.observation
    if session.pending_request is not None:
        return "wait for the page, or cancel it"
    if session.ending:
        return "browsing has ended: go back to reading first"
    if command == "End: Answer" and not observation.quotes:
        return NO_QUOTES
    if command.startswith("Scrolled down") and observation.scrollbar[1] >= 100:
        return "this is the end of the page"
    if (command.startswith("Scrolled up") or command == "Top") and not observation.scrollbar[0]:
        return "this is the top of the page"
    return ""


def _list_advice(answer: Answer) -> list[str]:
    """Return remarks on missing citations: none at all, unused quotes, paragraphs without."""
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

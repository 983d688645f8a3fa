"""Answers and checks as a person reads them in a terminal.

It only formats: it is given records and a console, and knows nothing of how they came about.
"""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from rich.console import Console
from rich.text import Text

from rookery.browse.selection import REASONS, SkippedFiles
from rookery.browse.words import question_terms, terms
from rookery.cite.place import deep_link, place
from rookery.cite.verify import ClaimedVerdict, TextVerdict, Verdict
from rookery.records import Answer, Episode, Failure, Mark, Page, Quote, Record
from rookery.serve.command_line import UNWRAPPED

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What turns the direction of a line, or is there and cannot be seen. Joiners stay: Persian and
# emoji need them.
_UNSEEN = re.compile(
    "[\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
_WORD = re.compile(r"[^\W_]+")
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)", re.IGNORECASE)
_RAISED = {"sup": "^", "sub": "_"}

INDENT = " " * 4
SHOWN = 60
"""characters of a checked quote on its line"""
TOLD = 5
"""failures that are told in full; the others are only counted"""
NAMED = 3
"""files that are named of those left out for one reason"""


class StreamConsole(Console):
    """Standard output or error: lines are broken only for a terminal, and nothing moves elsewhere.

    Rich itself takes what is piped for a terminal of 80 columns, and ends the process with 1 where
    a reader closes the pipe; here BrokenPipeError is raised.
    """

    def __init__(self, stderr: bool = False) -> None:
        terminal = (sys.stderr if stderr else sys.stdout).isatty()
        super().__init__(
            stderr=stderr,
            highlight=False,
            width=None if terminal else UNWRAPPED,
            force_interactive=None if terminal else False,
        )

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError again, for the main function to end quietly."""
        raise


def clean(text: str) -> str:
    """Page text made harmless for a terminal: no control, direction or unseen characters."""
    return _UNSEEN.sub("", harmless(text))


def harmless(text: str) -> str:
    """The same with only control characters replaced, one by one, so that offsets still hold."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def as_json(record: Record) -> str:
    """The record as one line of JSON that commands no terminal: JSON itself escapes only a part."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", record.to_json())


def show_answer(
    console: Console, episode: Episode, pages: Sequence[Page | None], verdicts: Sequence[Verdict]
) -> None:
    """The answer with numbered citations, then each quote with its source and its check.

    `pages` are those of the quotes, in their order, None where one is not to be had.
    """
    answer = episode.answer
    if answer is None:
        return
    views = [view(quote, page) for quote, page in zip(answer.quotes, pages, strict=True)]
    print_indented(console, Text(), _numbered(answer, views))
    if answer.declined and answer.quotes:
        console.print("\nRejected as too weak an answer, the nearest that was found:", style="red")
    wanted = set(question_terms(episode.question.text))
    for number, (quote, page, verdict) in enumerate(
        zip(answer.quotes, pages, verdicts, strict=True), 1
    ):
        console.print()
        mark = ("  ✗ ", "red") if answer.declined else (f"[{number}] ", "bold cyan")
        print_indented(console, Text.assemble(mark), _marked(views[number - 1], wanted))
        _show_source(console, quote, page, verdict)


def _show_source(console: Console, quote: Quote, page: Page | None, verdict: Verdict) -> None:
    where = place(page, quote.start) if page else ""
    about = clean(" · ".join(part for part in (_line(quote.title), where) if part))
    print_indented(console, Text(INDENT), Text.assemble((about, "italic"), _outcome(verdict)))
    link = Text.assemble(INDENT, (clean(deep_link(quote, page)), "blue"))
    console.print(link, soft_wrap=True)  # a link that is broken into lines cannot be opened


def print_indented(console: Console, mark: Text, text: Text) -> None:
    """Print a text behind a mark, in lines that begin under each other and end without spaces."""
    for line in text.wrap(console, max(20, console.width - len(mark))):
        line.rstrip()
        console.print(mark + line, soft_wrap=True)
        mark = Text(" " * len(mark))


def view(quote: Quote, page: Page | None) -> str:
    """The quote's words as its page shows them: raised 9 as ^9, a row's cells apart, clean.

    Only for the eye. What is stored, checked and linked is the quote itself.
    """
    changes = [] if page is None or page.digest != quote.digest else _changes(quote, page)
    shown, last = "", 0
    for start, end, put in changes:
        shown += quote.text[last:start] + put
        last = end
    return clean(re.sub(r"\s*\n\s*\n\s*", "\n", shown + quote.text[last:]))


def _changes(quote: Quote, page: Page) -> list[tuple[int, int, str]]:
    """What a view of the quote has in place of quote.text[start:end], in the order of the text."""
    size = len(quote.text)
    raised = [
        (mark.start - quote.start, mark.start - quote.start, _RAISED[mark.kind])
        for mark in page.marks
        if mark.kind in _RAISED
        and 0 < mark.start - quote.start < size
        and _is_raised(quote.text, mark, mark.start - quote.start)
    ]
    gaps = [
        (before.end - quote.start, after.start - quote.start, " | ")
        for before, after in pairwise(page.blocks)
        if before.kind == after.kind == "cell"
        and quote.start < before.end
        and after.start < quote.end
        and "\t" in page.text[before.end : after.start]
    ]
    return sorted({*raised, *gaps})


def _is_raised(text: str, mark: Mark, at: int) -> bool:
    """Whether to say so: `10^9` and `H_2O`, but neither `19th` nor the number of a footnote."""
    inside = text[at : at + mark.end - mark.start]
    joined = text[at - 1].isalnum() or text[at - 1] in ")]}"
    ordinal = _ORDINAL.fullmatch(text[at - 1] + inside)
    return joined and not ordinal and inside[:1] not in ("", "[", "(", "*")


def summary(episode: Episode, verdicts: Sequence[Verdict]) -> str:
    """One line: what was verified, how sure the answer is, and what could not be read."""
    answer = episode.answer
    parts = [f"method {episode.by}"]
    if answer is None:
        parts.insert(0, WITHOUT_ANSWER.get(episode.stop, f"no answer: {episode.stop}"))
    else:
        good = sum(verdict.verified for verdict in verdicts)
        quotes = f"{good} of {len(verdicts)} quote{'s' * (len(verdicts) != 1)} verified"
        score = [f"score {answer.score:.2f}"] if answer.score is not None else []
        parts = [*["declined"] * answer.declined, *[quotes, *score] * bool(verdicts), *parts]
    early = [failure for failure in episode.failures if failure.outcome == "stopped_early"]
    parts += [failure.detail.partition(":")[0] for failure in early]
    if episode.failures:
        noted = "noted" if episode.by in BY_MODELS else "not read"
        parts.append(f"{noted}: {', '.join(reasons(episode.failures))}")
    return " · ".join(parts)


BY_MODELS = ("webgpt", "gophercite", "webglm")
WITHOUT_ANSWER = {
    "no_evidence": "no evidence",
    "no_claim": "no answer: the question assumes no claim that could be denied",
    "bad_syntax": "no answer: what the model wrote cites nothing that it was shown",
    "no_quotes": "no answer: the model quoted nothing to answer from",
    "max_actions": "no answer: the model's actions ran out before it quoted anything",
    "nonsense": "no answer: the model takes the question for nonsense",
    "controversial": "no answer: the model takes the question for controversial",
    "stuck": "no answer: the model went round in circles",
    "policy_failed": "no answer: the model could not be asked",
}


def reasons(failures: Sequence[Failure]) -> list[str]:
    """How often each thing went wrong, the most frequent first: `3 timed_out`."""
    counted = Counter(failure.outcome for failure in failures)
    return [f"{n} {outcome}" for outcome, n in counted.most_common()]


def show_failures(console: Console, failures: Sequence[Failure]) -> None:
    """Why things could not be had, each reason once, and how many more there are."""
    said = list(dict.fromkeys(f"{f.what}: {f.detail or f.outcome}" for f in failures))
    for sentence in said[:TOLD]:
        console.print(f"rookery: {clean(sentence)}", markup=False, soft_wrap=True)
    if len(said) > TOLD:
        console.print(f"rookery: and {len(said) - TOLD} more", markup=False)


def skipped_line(skipped: Sequence[SkippedFiles]) -> str:
    """How many files were left out, and why, with names; empty where none was."""
    parts = []
    for one in skipped:
        names = [each.rstrip("/").rpartition("/")[2] for each in one.examples[:NAMED]]
        more = ["…"] if one.count > len(names) else []
        parts.append(f"{one.count:,} {REASONS[one.reason]} ({', '.join([*names, *more])})")
    return f"left out: {'; '.join(parts)}" if parts else ""


def show_checked(console: Console, verdict: Verdict | ClaimedVerdict | TextVerdict) -> None:
    """One checked quote on one line, and below it its source and what is to be said of it."""
    if isinstance(verdict, Verdict):
        text, source = verdict.quote.text, [verdict.quote.url] if verdict.detail else []
    elif isinstance(verdict, ClaimedVerdict):
        claimed, text = verdict.claimed, verdict.claimed.text
        source = [claimed.where, claimed.url or claimed.title or "no source named"]
    else:
        text, source = verdict.text, []
    short = clean(_line(text))
    cut = short if len(short) <= SHOWN else short[: SHOWN - 1].rstrip() + "…"
    style = OUTCOME_STYLES.get(verdict.outcome, "red")
    console.print(Text.assemble((f"{verdict.outcome:16}", style), f"“{cut}”"), soft_wrap=True)
    if why := ": ".join(filter(None, [*source, verdict.detail])):
        console.print(Text(" " * 16 + clean(_line(why))), soft_wrap=True)


OUTCOME_STYLES = {"verified": "green", "not_quoted": "yellow", "not_judged": "yellow"}


def _outcome(verdict: Verdict) -> tuple[str, str]:
    if verdict.verified:
        return " · verified", "green"
    return f" · NOT VERIFIED: {clean(verdict.detail)}", "bold red"


def _line(text: str) -> str:
    return " ".join(text.split())


def _numbered(answer: Answer, views: Sequence[str]) -> Text:
    """The answer's text, each claim with its marks close behind it, never alone on a line."""
    shown, last = Text(), 0
    for claim in answer.claims:
        shown.append(clean(answer.text[last : claim.start]))
        shown.append(_claim(answer, answer.text[claim.start : claim.end], claim.quotes, views))
        shown.append("".join(f"[{number + 1}]" for number in claim.quotes), "bold cyan")
        last = claim.end
    return shown.append(clean(answer.text[last:]))


def _claim(answer: Answer, said: str, numbers: Sequence[int], views: Sequence[str]) -> str:
    """A claim that is one of its quotes is shown as that quote is."""
    for number in numbers:
        if _line(answer.quotes[number].text) == said:
            return _line(views[number])
    return clean(said)


def _marked(text: str, wanted: set[str]) -> Text:
    """The quote in quotation marks, the question's words in bold."""
    shown, last = Text("“"), 0
    for word in _WORD.finditer(text):
        if wanted.intersection(terms(word.group())):
            shown.append(text[last : word.start()])
            shown.append(word.group(), "bold yellow")
            last = word.end()
    return shown.append(text[last:] + "”")

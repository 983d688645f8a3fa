"""Show answers, checks and progress in a terminal.

An unchecked text of a model must not be read as a quote: while it is written, whatever stands where
the answer syntaxes have quotes is not shown.
"""

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote

import msgspec
from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.status import Status
from rich.table import Column
from rich.text import Text

from rookery.answers.answer_results import split_remarks
from rookery.answers.methods import MODEL_METHODS
from rookery.errors import Outcome
from rookery.evidence.calibration import word_score
from rookery.evidence.claim_support import ClaimVerdict
from rookery.pages.file_selection import SKIP_REASONS, SkippedGroup
from rookery.pages.page_text import join_separator
from rookery.pages.search_terms import find_language, get_question_terms, split_terms
from rookery.quotes.answer_types import split_answering_words
from rookery.quotes.quote_links import describe_location, make_deep_link, shorten_line
from rookery.quotes.verification import ClaimedVerdict, TextVerdict, Verdict
from rookery.records import Answer, Claim, Episode, Failure, Mark, Page, Quote, Record
from rookery.shell.quote_layout import QuoteLayout, lay_out_quote
from rookery.text_escaping import escape_json_controls, sanitize_text
from rookery.typed_files import read_text_table
from rookery.written_values import format_count

if TYPE_CHECKING:
    from rookery.models.openai_protocol import SpendingTotal

_WORD = re.compile(r"[^\W_]+")
_ORDINAL = re.compile(r"\d(?:st|nd|rd|th)", re.IGNORECASE)
_SCRIPT_SIGNS = {"sup": "^", "sub": "_"}

INDENT = " " * 4
MAX_QUOTE_CHARACTERS = 60
"""characters of a checked quote on its line"""
UNWRAPPED_COLUMNS = 1_000_000
"""columns of what is piped: whoever reads it (grep, a pager, an editor) breaks its own lines"""
MAX_FAILURES_SHOWN = 5
"""failures that are told in full; the others are only counted"""
MAX_FILES_NAMED = 3
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
            width=None if terminal else UNWRAPPED_COLUMNS,
            force_interactive=None if terminal else False,
        )

    def print_note(self, text: str) -> None:
        """Print a faint line."""
        print_wrapped(self, text, "dim")

    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError again, for the main function to end quietly."""
        raise


def to_terminal_json(record: Record) -> str:
    """Return the record as one line of JSON in which all control characters are escaped.

    JSON itself escapes only a part of them, and the others could command a terminal.
    """
    return escape_json_controls(record.to_json())


def show_answer(
    console: Console, episode: Episode, pages: Sequence[Page | None], verdicts: Sequence[Verdict]
) -> None:
    """Print the answer with numbered citations, what is remarked on them, then each quote with its
    source and its check.

    A quote that is a part of the answer already is not printed again.
    `pages` are those of the quotes, in their order, None where one is not to be had. Nothing is
    printed where there is no answer.
    """
    answer = episode.answer
    if answer is None:
        return
    views = [format_quote(quote, page) for quote, page in zip(answer.quotes, pages, strict=True)]
    if answer.stored_certain is False:
        console.print("A possible answer, to be checked:", style="yellow")
    question = episode.question.text
    quotes = zip(answer.quotes, pages, strict=True)
    tables = [_format_table_quote(lay_out_quote(*each, question), console.width) for each in quotes]
    print_indented(console, Text(), _format_cited_text(answer, views, tables, question))
    for remark in split_remarks(episode)[1]:
        console.print(sanitize_text(f"\nNote: {remark}"), style="yellow", markup=False)
    printed = {quote for claim in answer.claims for quote in _list_quoted(answer, claim)}
    if answer.declined and not answer.quotes:
        console.print("Try other words; --passages shows what was searched.")
    elif answer.declined:
        nearest = "The closest that was found:"
        if is_declined_by_model(episode):
            nearest = "The model found no answer in what it was shown. The nearest of that:"
        console.print(f"\n{nearest}", style="red")
    if answer.citations == "unchecked":
        console.print(
            "\nUnchecked: the model cites nothing that it was shown. It was shown:", style="red"
        )
    for number, (quote, page, verdict) in enumerate(
        zip(answer.quotes, pages, verdicts, strict=True), 1
    ):
        console.print()
        uncited = answer.declined or answer.citations == "unchecked"
        mark = ("  – ", "") if uncited else (f"[{number}] ", "bold cyan")
        if number - 1 not in printed:
            language = find_language(page.text if page else quote.text)
            highlighted = _highlight_terms(views[number - 1], question, language)
            print_indented(console, Text.assemble(mark), highlighted)
            mark = (INDENT, "")
        _show_source(console, mark, quote, page, verdict)


def is_declined_by_model(episode: Episode) -> bool:
    """Tell whether a model said that there is no answer; else its score was too low."""
    answer = episode.answer
    return bool(answer and answer.declined and answer.score is None and episode.by in MODEL_METHODS)


def _list_quoted(answer: Answer, claim: Claim) -> Iterator[int]:
    """Yield the numbers of the quotes that a claim consists of."""
    text = _collapse_whitespace(answer.text[claim.start : claim.end])
    return (each for each in claim.quotes if _collapse_whitespace(answer.quotes[each].text) == text)


def _show_source(
    console: Console, mark: tuple[str, str], quote: Quote, page: Page | None, verdict: Verdict
) -> None:
    where = describe_location(page, quote.start) if page else ""
    # A text whose title is the quote itself is named by its file.
    title = unquote(quote.url).rpartition("/")[2] if quote.title == quote.text else quote.title
    about = sanitize_text(" · ".join(filter(None, (_collapse_whitespace(title), where))))
    print_indented(
        console, Text.assemble(mark), Text.assemble((about, "italic"), _format_outcome(verdict))
    )
    link = Text.assemble(INDENT, (sanitize_text(make_deep_link(quote, page)), "blue"))
    console.print(link, soft_wrap=True)  # a link that is broken into lines cannot be opened


def print_wrapped(console: Console, text: str, style: str = "") -> None:
    """Print a line, which a terminal gets broken between words, under its own indentation.

    A longer word, such as an address, stays whole, so that it can be copied.
    """
    indent = " " * (len(text) - len(text.lstrip(" ")))
    print_indented(console, Text(indent), Text(text[len(indent) :], style, overflow="ignore"))


def print_indented(console: Console, mark: Text, text: Text) -> None:
    """Print a text behind a mark, in lines that begin under each other and end without spaces."""
    for line in text.wrap(console, max(20, console.width - len(mark))):
        line.rstrip()
        console.print(mark + line, soft_wrap=True)
        mark = Text(" " * len(mark))


def format_quote(quote: Quote, page: Page | None) -> str:
    """Return the quote's words as its page shows them: raised 9 as ^9, a row's cells apart, clean.

    Only for the eye. What is stored, checked and linked is the quote itself.
    """
    laid_out = lay_out_quote(quote, page).text
    changes = _list_display_changes(quote, page) if page and page.digest == quote.digest else []
    text, last = "", 0
    for start, end, put in changes:
        text += laid_out[last:start] + put
        last = end
    return sanitize_text(re.sub(r"\s*\n\s*\n\s*", "\n", text + laid_out[last:]))


def _format_table_quote(layout: QuoteLayout, width: int) -> Text | None:
    """Return the rows of a table under the names of their columns, with the cell or row that
    answers in bold; None for other quotes and for tables that are wider."""
    if not layout.rows:
        return None
    names = layout.names or ("",) * len(layout.rows[0])
    cells = [[sanitize_text(_collapse_whitespace(cell)) for cell in row] for row in layout.rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    if sum(widths) + 2 * len(widths) > width:
        return None
    text = Text()
    if layout.names:
        padded = zip(map(sanitize_text, names), widths, strict=True)
        text.append("  ".join(name.ljust(wide) for name, wide in padded).rstrip() + "\n", "dim")
    for number, row in enumerate(cells):
        for column, (cell, wide) in enumerate(zip(row, widths, strict=True)):
            answers = number == layout.row and (
                column == layout.column or (layout.column is None and len(cells) > 1)
            )
            text.append(cell, "bold yellow" if answers else "").append(" " * (wide + 2 - len(cell)))
        text.rstrip()
        text.append("\n" * (number + 1 < len(cells)))
    return text


def _list_display_changes(quote: Quote, page: Page) -> list[tuple[int, int, str]]:
    """Return the replacements that a display makes in quote.text[start:end], in the order of the
    text."""
    size = len(quote.text)
    raised = [
        (mark.start - quote.start, mark.start - quote.start, _SCRIPT_SIGNS[mark.kind])
        for mark in page.marks
        if mark.kind in _SCRIPT_SIGNS
        and 0 < mark.start - quote.start < size
        and _is_raised(quote.text, mark, mark.start - quote.start)
    ]
    gaps = [
        (before.end - quote.start, after.start - quote.start, join_separator(gap, before, after))
        for before, after in pairwise(page.blocks)
        if before.kind == after.kind == "cell"
        and quote.start < before.end
        and after.start < quote.end
        and "\t" in (gap := page.text[before.end : after.start])
    ]
    return sorted({*raised, *gaps})


def _is_raised(text: str, mark: Mark, at: int) -> bool:
    """Return whether a raised or lowered number is marked: `10^9` and `H_2O`, but neither `19th`
    nor the number of a footnote."""
    inside = text[at : at + mark.end - mark.start]
    joined = text[at - 1].isalnum() or text[at - 1] in ")]}"
    ordinal = _ORDINAL.fullmatch(text[at - 1] + inside)
    return joined and not ordinal and inside[:1] not in ("", "[", "(", "*")


def summarize_answer(episode: Episode, verdicts: Sequence[Verdict]) -> str:
    """Return one line: what was verified, how sure the answer is, and what could not be read."""
    answer = episode.answer
    parts = [f"method {episode.by}"] * (episode.by != "extract")
    if answer is None:
        parts.insert(0, describe_missing_answer(episode))
    else:
        good = sum(verdict.verified for verdict in verdicts)
        quotes = f"{good} of {format_count(len(verdicts), 'quote')} verified"
        score = [word_score(episode)] if answer.score is not None else []
        unchecked = answer.citations == "unchecked"
        parts = [
            *["declined"] * answer.declined,
            *["possible"] * (answer.stored_certain is False),
            *["citations unchecked"] * unchecked,
            *[quotes, *score] * bool(verdicts),
            *parts,
        ]
    if failures := (split_remarks(episode)[0] if answer else episode).failures:
        by_model = any(each in MODEL_METHODS for each in (episode.by, failures[-1].what))
        noted = "noted" if by_model else "not read"
        files = [f for f in failures if f.what[:1] == "/" and f.outcome not in OUTCOME_WORDS]
        names = [sanitize_text(f.what.rpartition("/")[2]) for f in files[:MAX_FILES_NAMED]]
        hidden = len(files) - len(names)
        more = [f"and {format_count(hidden, 'other file')}"] if hidden else []
        others = [each for each in failures if each not in files]
        parts.append(f"{noted}: {', '.join([*names, *more, *format_failure_counts(others)])}")
    return " · ".join(parts)


def format_spending(spent: "SpendingTotal") -> str:
    """Return what models took, as the end of a line: ` · 2 calls, 912 tokens read, 40 written`.

    Empty where no model was asked.
    """
    if not spent.requests:
        return ""
    cost = f", costs {spent.money:.4g}" if spent.money else ""
    calls = format_count(spent.requests, "call")
    return f" · {calls}, {spent.prompt:,} tokens read, {spent.said:,} written{cost}"


def warn_of_recipients(console: Console, models: Sequence[str]) -> None:
    """Print that passages of documents are sent to these models; nothing where there are none."""
    if models:
        what = "your question and passages of your documents are sent to"
        print_wrapped(console, f"rookery: {what} {', '.join(models)}")


NO_ANSWER_MESSAGES = read_text_table(Path(__file__).with_name("missing_answers.txt"))
"""why an episode has no answer, by how it stopped"""


def describe_missing_answer(episode: Episode) -> str:
    """Return why an episode has no answer, in a few words."""
    return NO_ANSWER_MESSAGES.get(episode.stop, f"no answer: {episode.stop}")


def format_failure_counts(
    failures: Sequence[Failure], translate: Callable[[str], str] = str
) -> list[str]:
    """Format counts of failures, the most frequent first: `3 timed out`.

    `translate` receives the words without their number.
    """
    counted = Counter(failure.outcome for failure in failures)
    words = {
        outcome: OUTCOME_WORDS.get(outcome, (outcome.replace("_", " "),) * 2) for outcome in counted
    }
    return [f"{n} {translate(words[outcome][n > 1])}" for outcome, n in counted.most_common()]


OUTCOME_WORDS: Mapping[str, tuple[str, str]] = {
    Outcome.UNSUPPORTED: (
        "sentence taken out, which no quote supports",
        "sentences taken out, which no quote supports",
    ),
    Outcome.CITATION_NOTED: ("remark on its citations", "remarks on its citations"),
    Outcome.NOT_WRITTEN: ("answer quoted, as the model wrote none that is supported",) * 2,
    Outcome.SEARCH_FAILED: ("search failed", "searches failed"),
    Outcome.SHARD_FAILED: ("shard of the library missing", "shards of the library missing"),
}
"""words for outcomes that are no codes to the reader: for one, and for several"""


def show_failures(console: Console, failures: Sequence[Failure]) -> None:
    """Print why things could not be read, each reason once, and how many more there are.

    At most MAX_FAILURES_SHOWN reasons are printed.
    """
    said = list(dict.fromkeys(f"{f.what}: {f.detail or f.outcome}" for f in failures))
    for sentence in said[:MAX_FAILURES_SHOWN]:
        print_wrapped(console, f"rookery: {sanitize_text(sentence)}")
    if len(said) > MAX_FAILURES_SHOWN:
        console.print(f"rookery: and {len(said) - MAX_FAILURES_SHOWN} more", markup=False)


def format_skipped_files(skipped: Sequence[SkippedGroup]) -> str:
    """Format how many files were left out, why, and examples; empty if none was."""
    parts = []
    for one in skipped:
        names = [each.rstrip("/").rpartition("/")[2] for each in one.examples[:MAX_FILES_NAMED]]
        more = ["…"] if one.count > len(names) else []
        parts.append(f"{one.count:,} {SKIP_REASONS[one.reason]} ({', '.join([*names, *more])})")
    return f"left out: {'; '.join(parts)}" if parts else ""


def show_verdict(console: Console, verdict: Verdict | ClaimedVerdict | TextVerdict) -> None:
    """Print one checked quote on one line, and below it its source and remarks."""
    if isinstance(verdict, Verdict):
        text, url = verdict.quote.text, verdict.quote.url
        source = [url] if verdict.detail and url not in verdict.detail else []
    elif isinstance(verdict, ClaimedVerdict):
        claimed, text = verdict.claimed, verdict.claimed.text
        source = [claimed.where, claimed.url or claimed.title or "no source named"]
    else:
        text, source = verdict.text, []
    _show_outcome(
        console, verdict.outcome, text, ": ".join(filter(None, [*source, verdict.detail]))
    )


def show_claim_verdict(console: Console, verdict: ClaimVerdict) -> None:
    """Print one judged claim on one line, and below it its probabilities or why it has none."""
    shares = msgspec.structs.asdict(verdict.support) if verdict.support else {}
    said = ", ".join(f"{name} {share:.2f}" for name, share in shares.items())
    _show_outcome(console, verdict.outcome, verdict.claim, verdict.detail or said)


def _show_outcome(console: Console, outcome: str, text: str, why: str) -> None:
    cut = shorten_line(sanitize_text(text), MAX_QUOTE_CHARACTERS)
    mark = Text(f"{outcome:16}", OUTCOME_STYLES.get(outcome, "red"))
    print_indented(console, mark, Text(f"“{cut}”"))
    if why:
        print_wrapped(console, " " * 16 + sanitize_text(_collapse_whitespace(why)))


OUTCOME_STYLES = {"verified": "green"} | dict.fromkeys(
    ("not_quoted", "not_judged", "neither", "uncited", "unverified"), "yellow"
)


def _format_outcome(verdict: Verdict) -> tuple[str, str]:
    if verdict.verified:
        return " · verified", "green"
    return f" · NOT VERIFIED: {sanitize_text(verdict.detail)}", "bold red"


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())


def _format_cited_text(
    answer: Answer, views: Sequence[str], tables: Sequence[Text | None], question: str
) -> Text:
    """Return the answer's text, with marks close behind each claim, never alone on a line.

    In claims that are quotes, the words that the question asks for are bold, and rows of tables
    stand under the names of their columns.
    """
    text, last = Text(), 0
    for claim in answer.claims:
        text.append(sanitize_text(answer.text[last : claim.start]))
        claim_text = answer.text[claim.start : claim.end]
        is_folded = "\n" not in claim_text
        for number in _list_quoted(answer, claim):
            begins_line = answer.text[: claim.start][-1:] in ("", "\n")
            if begins_line and (table := tables[number]):
                text.append(table)
                break
            view = _collapse_whitespace(views[number]) if is_folded else views[number]
            for piece, answers in split_answering_words(view, question):
                text.append(piece, "bold yellow" if answers else "")
            break
        else:
            text.append(sanitize_text(claim_text))
        for number in claim.quotes:
            doubtful = number in claim.doubtful
            text.append(
                *((f"[{number + 1}?]", "yellow") if doubtful else (f"[{number + 1}]", "bold cyan"))
            )
        last = claim.end
    return text.append(sanitize_text(answer.text[last:]))


def _highlight_terms(text: str, question: str, language: str) -> Text:
    """Return the quote in quotation marks, the question's words in bold."""
    wanted = set(get_question_terms(question, language))
    shown, last = Text("“"), 0
    for word in _WORD.finditer(text):
        if wanted.intersection(split_terms(word.group(), language)):
            shown.append(text[last : word.start()])
            shown.append(word.group(), "bold yellow")
            last = word.end()
    return shown.append(text[last:] + "”")


def format_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines, with columns as wide as their widest cell.

    The first row has the heads; columns that are empty below it are left out.
    """
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    for row in zip(*columns, strict=True):
        yield "  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip()


LIVE_LINES = 6
"""of the latest that are shown"""
# A title and a quote, a command that quotes, marks of citations; each perhaps not finished yet.
_QUOTED_TEXT = r"(?:[^\\]|\\.|\\\Z)*?"
_QUOTED = re.compile(
    rf">?%\({_QUOTED_TEXT}(?:\)%\[{_QUOTED_TEXT}(?:\]%|\Z)|\Z)|(?<=^Quote)[: ].*\Z|%<|>%|\[\d*\]?",
    re.DOTALL | re.MULTILINE,
)


def remove_quotes(text: str) -> str:
    """Return the text of a model without its quotes and citation marks.

    Quotes are those in the syntax of methods, `%(title)%[quote]%` or the command `Quote`, whole or
    begun; words in quotation marks stay.
    """
    return _QUOTED.sub("", text)


class LiveDisplay:
    """A line that moves in a terminal, and below it what is being written."""

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._what = what
        self._status = Status(what, console=console)

    def show_text(self, text: str) -> None:
        """Show the end of a model's text so far, without its quotes, replacing earlier text."""
        shown = sanitize_text(remove_quotes(text)).strip()[-LIVE_LINES * self._console.width :]
        self._status.update(Text.assemble("writing\n", (shown, "dim")) if shown else self._what)

    def show_command(self, command: str) -> None:
        """Print a model's command, without what it quotes, on a line that stays."""
        self._console.print(f"› {sanitize_text(remove_quotes(command))}", style="dim", markup=False)
        self._status.update(self._what)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()


DELAY = 1.0
"""seconds of work before the bar is shown"""


class NarrowProgress(Progress):
    """Progress bars that leave two columns free for the ^C that a terminal writes behind them.

    At the edge it would begin a line of its own, and a part of the bar would stay.
    """

    def get_renderable(self) -> RenderableType:
        """Return the bars."""
        # Without a task rich has no console yet.
        return Constrain(super().get_renderable(), self.console.width - 2 if self.tasks else None)


class ProgressBar:
    """A progress bar on a terminal that appears only when work takes longer than a second."""

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._what = what
        self._since = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, count: int, total: int, now: str = "") -> None:
        """Show that `count` of `total` items are ready, and which item is being worked on now."""
        if self._bar is None:
            if time.monotonic() - self._since < DELAY or not self._console.is_interactive:
                return
            name = Column(no_wrap=True, overflow="ellipsis")
            self._bar = NarrowProgress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(table_column=Column(min_width=9, no_wrap=True)),
                TextColumn("{task.fields[now]}", table_column=name),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task(self._what, total=total, now="")
            self._bar.start()
        assert self._task is not None
        label = escape(sanitize_text(now.rpartition("/")[2]))
        self._bar.update(self._task, completed=count, total=total or None, now=label)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

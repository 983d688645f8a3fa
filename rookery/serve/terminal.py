"""Answers and checks as a person reads them in a terminal.

It only formats: it is given records and a console, and knows nothing of how they came about.
"""

import re
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from rookery.browse.words import question_terms, terms
from rookery.cite.foreign import Claimed
from rookery.cite.place import deep_link, place
from rookery.cite.verify import Verdict
from rookery.records import Answer, Episode, Failure, Page

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069]")
_WORD = re.compile(r"\w+")


def clean(text: str) -> str:
    """Page text made harmless for a terminal: no control or direction characters."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def show_answer(
    console: Console, episode: Episode, pages: Sequence[Page | None], verdicts: Sequence[Verdict]
) -> None:
    """The answer with numbered citations, then each quote with its source and its check.

    `pages` are those of the quotes, in their order, None where one is not to be had.
    """
    answer = episode.answer
    if answer is None:
        return
    console.print(_numbered(answer))
    if answer.declined and answer.quotes:
        console.print("\nThe nearest that was found, and not good enough:", style="dim")
    wanted = set(question_terms(episode.question.text))
    for number, (quote, page, verdict) in enumerate(
        zip(answer.quotes, pages, verdicts, strict=True), 1
    ):
        console.print()
        console.print(Text(f"[{number}] ", style="bold") + _marked(quote.text, wanted))
        where = place(page, quote.start) if page else ""
        about = " · ".join(part for part in (clean(quote.title), where) if part)
        console.print(Padding(Text(about, style="italic") + _outcome(verdict), (0, 0, 0, 4)))
        link = Text(deep_link(quote, page), style="blue", overflow="fold")
        console.print(Padding(link, (0, 0, 0, 4)), soft_wrap=True)


def summary(episode: Episode, verdicts: Sequence[Verdict]) -> str:
    """One line: what was verified, how sure the answer is, and what could not be read."""
    answer = episode.answer
    good = sum(verdict.outcome == "verified" for verdict in verdicts)
    parts = [episode.by]
    if answer is not None:
        parts = [f"{good} of {len(verdicts)} quotes verified", f"score {answer.score:.2f}", *parts]
        if answer.declined:
            parts.insert(0, "declined")
    return " · ".join([*parts, *reasons(episode.failures)])


def reasons(failures: Sequence[Failure]) -> list[str]:
    """How often each thing went wrong, the most frequent first: `3 timed_out`."""
    count: dict[str, int] = {}
    for failure in failures:
        count[failure.outcome] = count.get(failure.outcome, 0) + 1
    return [f"{n} {outcome}" for outcome, n in sorted(count.items(), key=lambda item: -item[1])]


def show_verdict(console: Console, verdict: Verdict) -> None:
    """One checked quote on one line, and why where it failed."""
    short = clean(" ".join(verdict.quote.text.split()))
    cut = short if len(short) <= 60 else short[:57] + "..."
    line = Text(f"{verdict.outcome:16}", style=_style(verdict.outcome)) + Text(f"“{cut}”")
    console.print(line, soft_wrap=True)
    if verdict.outcome != "verified":
        console.print(Text(f"{'':16}{verdict.quote.url}: {verdict.detail}"), soft_wrap=True)


def show_claimed(console: Console, claimed: Claimed, outcome: str, detail: str) -> None:
    """One quoted string of another tool's answer: whether its source holds it."""
    short = clean(" ".join(claimed.text.split()))
    cut = short if len(short) <= 60 else short[:57] + "..."
    console.print(Text(f"{outcome:16}", style=_style(outcome)) + Text(f"“{cut}”"), soft_wrap=True)
    source = clean(claimed.url or claimed.title or "no source named")
    console.print(Text(f"{'':16}{claimed.where}: {source}: {detail}"), soft_wrap=True)


def _style(outcome: str) -> str:
    return "green" if outcome in ("verified", "ok") else "red"


def _outcome(verdict: Verdict) -> Text:
    if verdict.outcome == "verified":
        return Text(" · verified", style="green")
    return Text(f" · NOT VERIFIED: {verdict.detail}", style="bold red")


def _numbered(answer: Answer) -> Text:
    shown, last = Text(), 0
    for claim in answer.claims:
        shown.append(clean(answer.text[last : claim.end]))
        shown.append(" " + "".join(f"[{number + 1}]" for number in claim.quotes), style="bold cyan")
        last = claim.end
    return shown.append(clean(answer.text[last:]))


def _marked(text: str, wanted: set[str]) -> Text:
    """The quote in quotation marks, the question's words in bold."""
    shown = Text("“")
    last = 0
    text = clean(text)
    for word in _WORD.finditer(text):
        if wanted.intersection(terms(word.group())):
            shown.append(text[last : word.start()])
            shown.append(word.group(), style="bold yellow")
            last = word.end()
    return shown.append(text[last:] + "”")

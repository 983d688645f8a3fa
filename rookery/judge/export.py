"""Comparisons and episodes in the formats that training libraries read, and back from them.

TRL and others take JSON lines: {prompt, chosen, rejected} for preferences, {prompt, completion} for
supervised fine-tuning. It knows nothing of what is learnt from them.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import msgspec

from rookery.cite.syntax import with_marks
from rookery.judge.lines import read_lines
from rookery.records import (
    Answer,
    Claim,
    Comparison,
    Completion,
    Episode,
    Failed,
    Failure,
    Question,
    Step,
)


class Preference(msgspec.Struct, frozen=True):
    """One of two completions was preferred."""

    prompt: str
    chosen: str
    rejected: str


class Demonstration(msgspec.Struct, frozen=True):
    """What is to be said to a prompt."""

    prompt: str
    completion: str


Row = Preference | Demonstration


class Exported(NamedTuple):
    """Rows, and what these formats cannot hold, by the reason."""

    rows: list[Row]
    left_out: Counter[str]


def shown(answer: Answer) -> str:
    """The answer, each claim's numbers behind it, and below it the quotes that it cites."""
    cited = sorted({number for claim in answer.claims for number in claim.quotes})
    numbers = {number: place for place, number in enumerate(cited, 1)}

    def mark(claim: Claim) -> str:
        return " " + "".join(f"[{numbers[each]}]" for each in claim.quotes) if claim.quotes else ""

    quotes = [answer.quotes[number] for number in cited]
    below = [f"[{at}] {quote.title}: {quote.text}" for at, quote in enumerate(quotes, 1)]
    return "\n\n".join([with_marks(answer, mark), *(["\n".join(below)] if below else [])])


def preferences(
    comparisons: Iterable[Comparison],
    prompt: Callable[[Question], str] = lambda question: question.text,
    write: Callable[[Answer], str] = shown,
) -> Exported:
    """Every pair of answers of which one was preferred, the better one as chosen.

    Of k answers these are up to k(k-1)/2 pairs, each with the same say, where one comparison had
    one say. A pair of equal weights is left out: these formats know no ties, and how much better an
    answer is they do not say either. So is a pair that reads the same.
    """
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    for comparison in comparisons:
        weighed = list(zip(comparison.answers, comparison.weights, strict=True))
        for (one, ours), (other, theirs) in combinations(weighed, 2):
            better, worse = (one, other) if ours > theirs else (other, one)
            row = Preference(prompt(comparison.question), write(better), write(worse))
            if ours == theirs:
                left_out["pairs of equal weight"] += 1
            elif row.chosen == row.rejected:
                left_out["pairs of answers that read the same"] += 1
            else:
                rows.append(row)
    return Exported(rows, left_out)


def demonstrations(episodes: Iterable[Episode]) -> Exported:
    """Every step of these episodes: its prompt, and what was said to it."""
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    for episode in episodes:
        for step in episode.steps:
            if step.prompt:
                rows.append(Demonstration(step.prompt, step.said.text))
            else:
                left_out["steps whose prompt is not stored"] += 1
    return Exported(rows, left_out)


def write_rows(rows: Iterable[Row], path: Path) -> None:
    """Writes JSON lines: all of them, or the file is as it was. Raises Failed (not_written)."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as file:
            file.writelines(msgspec.json.encode(row) + b"\n" for row in rows)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        detail = f"make room, or allow writing there, and run again ({error.strerror})"
        raise Failed(Failure(str(path), "not_written", detail)) from error
    finally:
        new.unlink(missing_ok=True)


class _Message(msgspec.Struct):
    content: str


_Text = str | list[_Message]


class _Preferred(msgspec.Struct):
    prompt: _Text
    chosen: _Text
    rejected: _Text


class _Demonstrated(msgspec.Struct):
    prompt: _Text
    completion: _Text


def read_preferences(path: Path, by: str) -> Iterator[Comparison]:
    """Each {prompt, chosen, rejected} as a comparison of two answers without quotes.

    Each is a text, or a conversation of one message. Other columns are read over. Raises Failed:
    not_found, bad_line, many_messages.
    """
    for number, row in enumerate(read_lines(path, _Preferred), 1):
        said = [_text(each, path, number) for each in (row.prompt, row.chosen, row.rejected)]
        answers = (Answer(said[1]), Answer(said[2]))
        yield Comparison(Question(str(number), said[0], source=path.name), answers, (1.0, 0.0), by)


def read_demonstrations(path: Path, by: str) -> Iterator[Episode]:
    """Each {prompt, completion} as an episode of one step, whose answer is the completion.

    As `read_preferences` otherwise.
    """
    for number, row in enumerate(read_lines(path, _Demonstrated), 1):
        prompt, said = (_text(each, path, number) for each in (row.prompt, row.completion))
        question = Question(str(number), prompt, source=path.name)
        yield Episode(question, by, (Step(prompt, Completion(said)),), Answer(said))


def _text(value: _Text, path: Path, number: int) -> str:
    if isinstance(value, str):
        return value
    if len(value) != 1:
        detail = (
            f"row {number} has a conversation of {len(value)} messages where one is read: write "
            "the prompt as one message or text, and only the last one as its completion"
        )
        raise Failed(Failure(str(path), "many_messages", detail))
    return value[0].content

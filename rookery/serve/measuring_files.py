"""Files of judgements, answers and rewards that `rookery measure` reads, and whose they are.

It knows nothing of what is measured.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TypeVar

import msgspec

from rookery.judge.lines import read_lines
from rookery.records import Answer, Comparison, Episode, Failed, Failure, Question, Rating

T = TypeVar("T")
_Names = defaultdict[tuple[str, str], dict[str, None]]
"""of systems, in their order, by the texts of question and answer"""
SHOWN = 60
"""characters of a text that is told"""


class Attempt(msgspec.Struct, frozen=True):
    """What is read of an Episode, or of a line that `rookery ask --batch` wrote."""

    question: Question
    answer: Answer | None
    by: str = ""

    @property
    def said(self) -> str:
        """The answer's text; empty where there is none or it was declined."""
        return "" if self.answer is None or self.answer.declined else self.answer.text


class Rewards(msgspec.Struct, frozen=True):
    """Rewards of several answers to one question: a line of what `best-of` and `frontier` read."""

    rewards: tuple[float, ...]
    validations: tuple[float, ...] = ()
    by: str = ""

    def __post_init__(self) -> None:
        if not self.rewards or len(self.validations) not in (0, len(self.rewards)):
            raise ValueError(f"{len(self.rewards)} rewards, {len(self.validations)} validations")


Owned = TypeVar("Owned", Attempt, Rewards, Episode)


def records(path: Path, kind: type[T]) -> list[T]:
    """The records of a file. Raises Failed: not_found, bad_line, empty."""
    found = list(read_lines(path, kind))
    if not found:
        raise Failed(Failure(str(path), "empty", "there is no line in it: name another file"))
    return found


def by_system(files: Sequence[str], kind: type[Owned]) -> dict[str, list[Owned]]:
    """The records of each system. Its name is that before the file's (NAME=FILE), or what the
    records say (`by`), or the file's own.

    Raises Failed as `records` does, and same_name for two files that would be one system.
    """
    found: dict[str, list[Owned]] = {}
    unnamed = Counter(path.stem for name, path in map(named, files) if not name)
    for name, path in map(named, files):
        for record in records(path, kind):
            system = name or record.by or path.stem
            if system == path.stem and unnamed[system] > 1:
                detail = f"two files are called {system}: say which is which, as in NAME={path}"
                raise Failed(Failure(str(path), "same_name", detail))
            found.setdefault(system, []).append(record)
    return found


def named(argument: str) -> tuple[str, Path]:
    """NAME=FILE as both; the name is empty where there is none."""
    name, equal, rest = argument.partition("=")
    return (name, Path(rest)) if equal and not Path(argument).exists() else ("", Path(argument))


class Writers:
    """Who wrote an answer, told by the texts of question and answer.

    What is no answer may be a quote of one: people rate it as if it were an answer.
    """

    def __init__(self, systems: Mapping[str, Sequence[Attempt]]) -> None:
        self._answers: _Names = defaultdict(dict)
        self._quotes: _Names = defaultdict(dict)
        for name, attempts in systems.items():
            for asked, answer in ((each.question.text, each.answer) for each in attempts):
                if answer is not None:
                    self._answers[asked, answer.text][name] = None
                    for quote in answer.quotes:
                        self._quotes[asked, quote.text][name] = None

    def of(self, question: Question, answer: Answer) -> tuple[str, ...]:
        """All that gave this answer. Raises Failed (unknown_system) where none did."""
        key = (question.text, answer.text)
        names = self._answers.get(key) or self._quotes.get(key)
        if not names:
            said, asked = (text[:SHOWN] for text in (answer.text, question.text))
            detail = (
                f'no file of --systems has the answer "{said}" to "{asked}": add the one it is in'
            )
            raise Failed(Failure("--systems", "unknown_system", detail))
        return tuple(names)

    def each(self, comparison: Comparison) -> tuple[str, ...]:
        """Who wrote each answer of a comparison: where several said the same, each a different."""
        options = [self.of(comparison.question, answer) for answer in comparison.answers]
        apart = (names for names in product(*options) if len(set(names)) == len(names))
        return next(apart, tuple(names[0] for names in options))


def signed(comparisons: Iterable[Comparison], writers: Writers) -> Iterator[Comparison]:
    """Comparisons whose answers are the names of who wrote them."""
    for each in comparisons:
        names = tuple(map(Answer, writers.each(each)))
        yield msgspec.structs.replace(each, answers=names)


def rated_by_system(files: Sequence[str], systems: Sequence[str]) -> dict[str, list[Rating]]:
    """The ratings of each system's answers; without `systems` a file is of one system.

    Raises Failed as `by_system` and `Writers.of` do.
    """
    writers = Writers(by_system(systems, Attempt)) if systems else None
    found: defaultdict[str, list[Rating]] = defaultdict(list)
    for name, path in map(named, files):
        for each in records(path, Rating):
            for whose in writers.of(each.question, each.answer) if writers else [name or path.stem]:
                found[whose].append(each)
    return dict(found)


class Batch(msgspec.Struct, frozen=True):
    """A line of metrics.jsonl, as `rookery learn reinforce` writes it."""

    reward: float | None
    kl: float | None


def steps_of(run: Path) -> list[tuple[float, float]]:
    """KL and reward of each batch of a run of `rookery learn reinforce`. Raises Failed."""
    path = run / "metrics.jsonl" if run.is_dir() else run
    return [
        (each.kl, each.reward)
        for each in records(path, Batch)
        if each.kl is not None and each.reward is not None
    ]

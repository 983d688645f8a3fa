"""What people were asked while a policy learns, and what they said, each on the disk before it is
used.

It knows nothing of policies and rewards.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from rookery.judge.lines import read_lines
from rookery.records import Answer, Comparison, Question, Record


class Asked(Record, frozen=True):
    """One thing that people are asked: which of these answers is the best."""

    number: int
    """in the run. A labeller who keeps what was said to it can give that again, should a run be
    killed between hearing a label and keeping it"""
    question: Question
    answers: tuple[Answer, ...]
    """two or more, in no order that says whose they are"""


class Request(Record, frozen=True):
    """What is asked, and what nobody is told who is asked."""

    asked: Asked
    learnt: tuple[bool, ...]
    """of each answer, whether the policy gave it, and not its reference"""


class Round(Record, frozen=True):
    """Requests that were drawn together: all of them are kept or none."""

    groups: int
    """of answers that were drawn so far, those of earlier rounds among them; some were no use"""
    requests: tuple[Request, ...]


class Kept:
    """The requests and labels in a folder, the label of each request at its number.

    A line that a kill has cut is taken away. With `writes` False another process writes, and what
    is added is only remembered. Raises Failed (bad_line), and OSError where nothing can be written.
    """

    def __init__(self, folder: Path, writes: bool = True) -> None:
        self._rounds = folder / "requests.jsonl"
        self._labels = folder / "labels.jsonl"
        self._writes = writes
        for place in (self._rounds, self._labels) if writes else ():
            place.touch()
            _mend(place)
        rounds = list(read_lines(self._rounds, Round))
        self.groups = rounds[-1].groups if rounds else 0
        self.requests = [request for each in rounds for request in each.requests]
        self.labels = list(read_lines(self._labels, Comparison))

    def add_round(self, drawn: Round) -> None:
        """Keeps requests before anybody is asked."""
        self._append(self._rounds, drawn)
        self.groups = drawn.groups
        self.requests += drawn.requests

    def add_label(self, label: Comparison) -> None:
        """Keeps the label of the first request that has none. Raises ValueError for another's."""
        asked = self.requests[len(self.labels)].asked
        if (label.question, label.answers) != (asked.question, asked.answers):
            raise ValueError(
                f"this is no label of request {asked.number}: give them in their order"
            )
        self._append(self._labels, label)
        self.labels.append(label)

    def waiting(self, count: int) -> list[Asked]:
        """Of the first so many requests, those that have no label yet."""
        return [request.asked for request in self.requests[len(self.labels) : count]]

    def wins(self) -> list[float]:
        """Of each label that compares as many answers of the policy as of its reference, in their
        order, the share of its weight that the policy has."""
        return [
            sum(weight for weight, ours in zip(label.weights, request.learnt, strict=True) if ours)
            for label, request in zip(self.labels, self.requests, strict=False)
            if 2 * sum(request.learnt) == len(request.learnt)
        ]

    def _append(self, place: Path, record: Record) -> None:
        if self._writes:
            with place.open("ab") as lines:
                lines.write(record.to_json().encode() + b"\n")
                lines.flush()
                os.fsync(lines.fileno())


def write_lines(place: Path, records: Sequence[Record]) -> None:
    """Writes a file of these lines, whole or not at all."""
    new = place.with_name(f"{place.name}.new")
    with new.open("wb") as lines:
        lines.writelines(record.to_json().encode() + b"\n" for record in records)
        lines.flush()
        os.fsync(lines.fileno())
    new.replace(place)


def _mend(place: Path) -> None:
    """Cuts a last line that has no end."""
    with place.open("r+b") as lines:
        content = lines.read()
        lines.truncate(content.rfind(b"\n") + 1)

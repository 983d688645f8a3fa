"""Questions read from files and from people. It knows nothing of how they are answered."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from rookery.records import Question

LONGEST = 10_000
"""characters of a question"""
LINE = 64_000_000
"""bytes of a line, with the pages that a question may bring along"""


def asked(text: str, identity: str = "1") -> Question:
    """The question a person typed. Raises ValueError where there is none, or it is a document."""
    text = " ".join(text.encode("utf-8", "replace").decode().split())  # a shell passes any bytes
    if not text:
        raise ValueError('the question is empty: type it in quotes, as in rookery ask "Why ...?"')
    if len(text) > LONGEST:
        raise ValueError(
            f"the question has {len(text):,} characters and at most {LONGEST:,} are taken: "
            "put documents into a folder and name it with --in"
        )
    return Question(identity, text)


def bundled_questions() -> Path:
    """Questions to the bundled little web, most with gold answers and the file they stand in."""
    return Path(__file__).parent / "corvids.jsonl"


def questions(path: Path) -> Iterator[Question]:
    """One question a line of a JSONL file: `id`, `text`, and any other field of a Question.

    `-` is standard input. Raises ValueError naming the line that is not a question, or whose id
    was used before.
    """
    if str(path) == "-":
        yield from _each(sys.stdin.buffer, "standard input")
        return
    with path.open("rb") as lines:
        yield from _each(lines, str(path))


def _each(file: BinaryIO, name: str) -> Iterator[Question]:
    seen: dict[str, int] = {}
    for number, line in enumerate(iter(lambda: file.readline(LINE), b""), 1):
        if not line.strip():
            continue
        question = _parsed(line, f"{name}, line {number}")
        if question.id in seen:
            raise ValueError(
                f"{name}, line {number}: the id {question.id!r} was used in line "
                f"{seen[question.id]}: give each question its own"
            )
        seen[question.id] = number
        yield question


def _parsed(line: bytes, where: str) -> Question:
    try:
        question = Question.from_json(line)
        asked(question.text)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ValueError(
            f"{where}: not a question ({error}); write lines like "
            '{"id": "1", "text": "Why do crows bring gifts?"}'
        ) from error
    return question

"""Questions read from files and from people. It knows nothing of how they are answered."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rookery.records import Question

LONGEST = 10_000
"""characters of a question"""


def asked(text: str, identity: str = "1") -> Question:
    """The question a person typed. Raises ValueError where there is none, or it is a document."""
    text = " ".join(text.split())
    if not text:
        raise ValueError('the question is empty: type it in quotes, as in rookery ask "Why ...?"')
    if len(text) > LONGEST:
        raise ValueError(
            f"the question has {len(text):,} characters and at most {LONGEST:,} are taken: "
            "put documents into a folder and name it with --in"
        )
    return Question(identity, text)


def questions(path: Path) -> Iterator[Question]:
    """One question a line of a JSONL file: `id`, `text`, and any other field of a Question.

    Raises ValueError naming the line that is not one, or whose id was used before.
    """
    seen: dict[str, int] = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            question = _parsed(line, f"{path}, line {number}")
            if question.id in seen:
                raise ValueError(
                    f"{path}, line {number}: the id {question.id!r} was used in line "
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

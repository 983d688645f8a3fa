"""Questions of Stack Exchange with all their answers and votes, as threads for `judge.thumbs`.

It knows nothing of comparisons.
"""

import lzma
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rookery.browse.assemble import page_of
from rookery.browse.html import read_html
from rookery.judge.thumbs import Post, Thread
from rookery.records import Failed, Failure


class _Answer(msgspec.Struct):
    body_html: str
    score: int
    created: str


class _Asked(msgspec.Struct):
    site: str
    id: str
    title: str
    answers: list[_Answer]


def read_forum(path: Path) -> Iterator[Thread]:
    """The threads of a file with a question and all its answers as JSON a line; a name that ends in
    `.xz` is unpacked. What is asked is the title.

    Raises Failed: not_found, bad_line.
    """
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                yield _thread(line, f"{path}, line {number}")
    except (OSError, EOFError, lzma.LZMAError) as error:
        detail = f"the forum cannot be read ({error}): check the path"
        raise Failed(Failure(str(path), "not_found", detail)) from error


def _thread(line: bytes, place: str) -> Thread:
    try:
        asked = msgspec.json.decode(line, type=_Asked)
        answers = tuple(
            Post(_text(each.body_html), each.score, each.created) for each in asked.answers
        )
    except ValueError as error:
        detail = f"it is no question with id, title and answers ({error}): take the line out"
        raise Failed(Failure(place, "bad_line", detail)) from error
    return Thread(f"{asked.site}/{asked.id}", asked.title, answers, asked.site)


def _text(html: str) -> str:
    """All of it: a post has no navigation to be left out."""
    return page_of(read_html(f"<body>{html}</body>"), "", whole=True).text.strip()

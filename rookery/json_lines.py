"""Read files of JSON lines as values of one type."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from rookery.errors import Failed, Outcome
from rookery.records import Failure, prepare_type

MAX_LINE_BYTES = 512_000_000
"""maximum bytes of a line"""
T = TypeVar("T")


def read_json_lines(path: Path, kind: type[T]) -> Iterator[T]:
    """Yield the value of each line that is not blank, decoded as `kind`.

    Raises Failed: not_found; bad_line, which names the line.
    """
    decoder = msgspec.json.Decoder(prepare_type(kind))
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(iter(lambda: lines.readline(MAX_LINE_BYTES), b""), 1):
                if line.strip():
                    yield _decode_line(line, decoder, f"{path}, line {number}")
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): check the path"
        raise Failed(Failure(str(path), Outcome.NOT_FOUND, detail)) from error


def _decode_line(line: bytes, decoder: msgspec.json.Decoder[T], where: str) -> T:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, ValueError) as error:
        name = decoder.type.__name__.strip("_")
        detail = f"no {name} ({error}): write it again, or take the line out"
        raise Failed(Failure(where, Outcome.BAD_LINE, detail)) from error

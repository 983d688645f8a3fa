"""The whole records of a WARC file in their order, up to the first damage.

It knows nothing of pages. The format is read with the parts of warcio, not with its iterator:
that one prints warnings, takes what is cut for whole, and refuses files compressed as a whole.
"""

import re
import zlib
from collections.abc import Iterator
from gzip import GzipFile
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from warcio.digestverifyingreader import DigestChecker, DigestVerifyingReader
from warcio.limitreader import LimitReader
from warcio.statusandheaders import (
    StatusAndHeaders,
    StatusAndHeadersParser,
    StatusAndHeadersParserException,
)

from rookery.records import Failed, Failure

_DAMAGE = (EOFError, OSError, ValueError, zlib.error, StatusAndHeadersParserException)
_DIGEST = re.compile(r"sha1:([A-Z2-7]{32}|[\da-fA-F]{40})|sha256:([A-Z2-7]{52}={4}|[\da-fA-F]{64})")
"""the spellings in which warcio can check a digest"""
_HEAD = 256 * 1024
"""bytes of the headers of one record"""
_PIECE = 64 * 1024


class WarcRecord(NamedTuple):
    """One whole record."""

    kind: str
    """response, resource, revisit, conversion, metadata, ..."""
    headers: StatusAndHeaders
    block: bytes
    """what follows the headers; left out of a record of a kind that is not wanted"""
    done: int
    """bytes of the file that had been read by then"""

    @property
    def url(self) -> str:
        return self.said("WARC-Target-URI")

    def said(self, name: str) -> str:
        """The header of this name, without the brackets of wget; empty where there is none."""
        return str(self.headers.get_header(name, "")).removeprefix("<").removesuffix(">")


def records(path: Path, wanted: frozenset[str], most: int) -> Iterator[WarcRecord | Failure]:
    """The records of the file, with a Failure for each of more than `most` bytes (too_large) or
    with another digest than it names (malformed), and a last one for damage (malformed, truncated).

    Raises Failed (unreadable): the file cannot be opened or does not begin with a whole record.
    """
    found = False
    try:
        with path.open("rb") as file:
            try:
                for record in _whole(file, wanted, most):
                    found = True
                    yield record
            except _DAMAGE as error:
                if found:
                    yield _damage(path, file.tell(), error)
    except OSError as error:
        detail = f"it cannot be read ({error.strerror or error}): check the path"
        raise Failed(Failure(str(path), "unreadable", detail)) from error
    if not found:
        detail = "there is no whole WARC record in it: name a file that a crawler wrote as WARC"
        if path.name.endswith(".zst"):
            detail = "what zstd has compressed is not read: unpack it with zstd -d first"
        raise Failed(Failure(str(path), "unreadable", detail))


def _damage(path: Path, place: int, error: Exception) -> Failure:
    cut = isinstance(error, EOFError)
    what = "it ends within a record" if cut else f"it is damaged before byte {place:,}"
    detail = f"{what}; what came before is read, the rest is not"
    return Failure(str(path), "truncated" if cut else "malformed", detail)


def _whole(
    file: BufferedReader, wanted: frozenset[str], most: int
) -> Iterator[WarcRecord | Failure]:
    stream = GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file
    parser = StatusAndHeadersParser(["WARC/"])
    line = _line(stream)
    while line:
        headers = parser.parse(LimitReader(stream, _HEAD), line)
        kind, size = headers.get_header("WARC-Type", "").lower(), _size(headers)
        kept = kind in wanted and size <= most
        block, proven = _block(stream, headers, size, kept)
        whole = WarcRecord(kind, headers, block, file.tell())
        record: WarcRecord | Failure = whole
        if kind in wanted and not kept:
            record = Failure(whole.url, "too_large", f"{size:,} bytes; at most {most:,} are read")
        elif proven is False:
            record = Failure(whole.url, "malformed", "its content has another digest than it names")
        # Whether a record without a digest is whole, only what comes next can show.
        waiting = kept and proven is None
        if not waiting:
            yield record
        line = _line(stream)
        if waiting:
            if not b"WARC/".startswith(line[:5]):
                raise ValueError
            yield record


def _line(stream: GzipFile | BufferedReader) -> bytes:
    """The next line that is not empty; nothing at the end of the file."""
    lines = iter(lambda: stream.readline(_HEAD), b"")
    return next((line for line in lines if line.strip()), b"")


def _size(headers: StatusAndHeaders) -> int:
    size = headers.get_header("Content-Length", "")
    if not re.fullmatch("[0-9]{1,15}", size):
        raise ValueError
    return int(size)


def _block(
    stream: GzipFile | BufferedReader, headers: StatusAndHeaders, size: int, kept: bool
) -> tuple[bytes, bool | None]:
    """The content of a record (nothing if it is not kept), and whether its digest is right."""
    digest, checker = headers.get_header("WARC-Block-Digest", ""), DigestChecker()
    known = digest if kept and _DIGEST.fullmatch(digest) else None
    rest = DigestVerifyingReader(stream, size, checker, block_digest=known)
    block = rest.read() if kept else b""
    while rest.limit and rest.read(_PIECE):
        pass
    if rest.limit:
        raise EOFError
    return block, checker.passed

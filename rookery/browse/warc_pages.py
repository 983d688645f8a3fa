"""The records of a WARC file as pages: what an answer or a text of it brings.

It knows what a record holds, not how it is found in the file. It knows nothing of searching.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

import httpcore
from warcio.bufferedreaders import ChunkedDataException, ChunkedDataReader
from warcio.statusandheaders import StatusAndHeadersParser

from rookery.browse.answer import check_status, header, redirection
from rookery.browse.decode import PIECE, decoded
from rookery.browse.documents import read_text
from rookery.browse.encoding import decode
from rookery.browse.limits import ReadLimits
from rookery.browse.network import target
from rookery.browse.outcomes import FetchError
from rookery.browse.read import read
from rookery.browse.warc_records import WarcRecord, records
from rookery.browse.warc_write import in_utc, laid_out
from rookery.records import Failed, Failure, Page

_LIMITS = ReadLimits()
_PAGES = frozenset(("response", "resource", "revisit", "conversion"))
_ANSWER = re.compile(rb"HTTP/[\d.]+ +[1-5]\d\d\b")
_CHUNK = re.compile(rb"[\da-fA-F]{1,8}[ \t]*(?:;[^\r\n]*)?\r\n")
_STYLE_OR_SCRIPT = re.compile(r"text/css|(?:text|application)/(?:x-)?(?:java|ecma)script")


class Moved(NamedTuple):
    """An address that led to another, or to the same content, when the file was written."""

    url: str
    to: str


Entry: TypeAlias = Page | Failure | Moved


def read_warc(path: Path, limits: ReadLimits = _LIMITS) -> Iterator[Page | Failure]:
    """The pages of a WARC file, compressed or not, in its order; a Failure for what is none.

    Pages come from HTTP answers (`response`, `resource`) and from extracted text (`conversion`:
    Common Crawl's WET, `write_warc`); a `revisit` is no page of its own. Failures are records
    that cannot be read, with the outcomes of `browse.outcomes` and `browse.read`, and damage
    (malformed, truncated), behind which nothing is read. Raises Failed (unreadable): the file
    cannot be opened or is no WARC.
    """
    return (entry for _, entry in entries(path, limits) if not isinstance(entry, Moved))


def entries(path: Path, limits: ReadLimits = _LIMITS) -> Iterator[tuple[int, Entry]]:
    """What `read_warc` gives and what has moved, each with the bytes of the file read so far."""
    done = 0
    # The text and the layout of the largest page may take more room than its source.
    found = records(path, _PAGES | {"metadata"}, 2 * limits.bytes)
    for record, after in pairwise(chain(found, [None])):
        if isinstance(record, Failure):
            yield done, record
        elif record and record.kind in _PAGES:
            done = record.done
            layout = after if isinstance(after, WarcRecord) else None
            if entry := _entry(record, layout, limits):
                yield done, entry


def _entry(record: WarcRecord, after: WarcRecord | None, limits: ReadLimits) -> Entry | None:
    """What came of a record; None where no page can be.

    Logs, answers of name servers and pictures of pages have addresses that no page has.
    """
    url = record.url
    try:
        if after and (page := laid_out(record, after)):
            return page
        if url.lower().startswith("file:"):
            return _read(record, url.partition("#")[0], limits)
        if url.lower().startswith(("http:", "https:")):
            return _read(record, url := target(url).url, limits)
        return None
    except FetchError as error:
        return Failure(url, error.outcome, error.detail)
    except Failed as refused:
        return refused.failure
    except Exception as error:  # a parser may raise anything; it is recorded, not hidden
        return Failure(url, "crashed", repr(error)[:500])


def _read(record: WarcRecord, url: str, limits: ReadLimits) -> Page | Moved:
    if record.kind == "revisit":
        return _revisited(record, url)
    if record.said("WARC-Truncated") or record.said("WARC-Segment-Number"):
        raise FetchError("truncated", "the file has only a part of it, or has it in parts")
    date, kind, data = in_utc(record.said("WARC-Date")), record.said("Content-Type"), record.block
    if record.kind == "conversion" and kind.lower().startswith("text/plain"):
        return read_text(decode(data, kind, False), url, date)
    if record.kind == "response":
        said, body = _answer(data)
        if to := _target(said, url):
            return Moved(url, to)
        kind, data = header(said, b"content-type"), _body(said, body, limits.bytes)
    if _STYLE_OR_SCRIPT.match(kind.lower()):
        raise FetchError("unsupported_type", f"{kind} holds no text to quote")
    return read(data, url, kind, date, limits)


def _revisited(record: WarcRecord, url: str) -> Moved:
    """Where the same content was seen, unless the record has an answer of its own."""
    said = _answer(record.block)[0] if record.block else None
    if said and said.status != 304 and (to := _target(said, url)):
        return Moved(url, to)
    if seen := record.said("WARC-Refers-To-Target-URI"):
        return Moved(url, target(seen).url)
    raise FetchError("not_found", "it was seen before, but the file does not say at which address")


def _answer(block: bytes) -> tuple[httpcore.Response, bytes]:
    """The head of an HTTP answer, and its body as it was sent."""
    if not _ANSWER.match(block):
        raise FetchError("malformed", "it is no answer of HTTP")
    stream = BytesIO(block)
    said = StatusAndHeadersParser([], verify=False).parse(stream)
    headers = [(name.encode(), value.encode()) for name, value in said.headers]
    return httpcore.Response(int(said.get_statuscode()), headers=headers), stream.read()


def _target(said: httpcore.Response, url: str) -> str:
    """Where the answer leads, if anywhere; FetchError for an error."""
    to = redirection(said, target(url))
    if to is None:
        check_status(said)
    return target(to).url if to else ""


def _body(said: httpcore.Response, body: bytes, limit: int) -> bytes:
    """The content of an answer. Crawlers may have undone an encoding that they still name."""
    encoding, length = header(said, b"content-encoding"), header(said, b"content-length")
    if "chunked" in header(said, b"transfer-encoding").lower():
        body = _dechunked(body)
    elif not encoding and re.fullmatch("[0-9]{1,15}", length) and len(body) < int(length):
        raise FetchError("truncated", "the server ended its answer early")
    if encoding.lower() in ("gzip", "x-gzip") and not body.startswith(b"\x1f\x8b"):
        encoding = ""
    pieces = (body[at : at + PIECE] for at in range(0, len(body), PIECE))
    return b"".join(decoded(pieces, encoding, limit))


def _dechunked(body: bytes) -> bytes:
    if not _CHUNK.match(body):
        return body
    try:
        return bytes(ChunkedDataReader(BytesIO(body), raise_exceptions=True).read())
    except ChunkedDataException:
        raise FetchError("truncated", "its chunks are cut off or do not fit together") from None

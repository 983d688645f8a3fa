"""Pages as records of a WARC file, a text for any tool and a layout for us, and back again.

It knows nothing of what others write, nor of searching.
"""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

import msgspec
from warcio.warcwriter import WARCWriter

from rookery import __version__
from rookery.browse.archive import worded
from rookery.browse.limits import failed
from rookery.browse.network import KEPT
from rookery.browse.warc_records import WarcRecord
from rookery.records import Page


def write_warc(pages: Iterable[Page], path: Path) -> int:
    """Writes the pages as a WARC file, compressed by the record if its name ends in .gz.

    Each is a `conversion` record, its text for any tool to read, and a `metadata` record, from
    which `read_warc` makes the same Page again. Rookery does not keep the bytes that a server
    sent, so there are no `response` records. The same pages give the same bytes. The file
    replaces one of its name when it is complete; a killed process leaves only `*.new`. Returns
    the number of pages. Raises Failed: disk_full, unreadable_archive (no such folder), malformed
    (a page with half a character, which no file can hold).
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    software = f"software: rookery/{__version__}\r\nformat: WARC File Format 1.1\r\n"
    count = 0
    try:
        with worded(path), draft.open("wb") as file:
            zipped = path.name.lower().endswith(".gz")
            writer = WARCWriter(file, gzip=zipped, warc_version="1.1")
            _write(writer, "warcinfo", "application/warc-fields", software.encode(), {})
            for page in pages:
                _write_page(writer, page)
                count += 1
        with worded(path):
            draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return count


def _write_page(writer: WARCWriter, page: Page) -> None:
    about = msgspec.to_builtins(page)
    try:
        text, layout = about.pop("text").encode(), msgspec.json.encode(about)
    except UnicodeEncodeError as error:
        detail = f"it holds half a character, which cannot be written ({error.reason})"
        raise failed(page.url, "malformed", detail) from error
    named = {"WARC-Target-URI": quote(page.url, safe=KEPT + "#")}
    if date := in_utc(page.fetched):
        named["WARC-Date"] = date.replace("+00:00", "Z")
    number = f"<urn:uuid:{uuid5(NAMESPACE_URL, layout.decode())}>"
    known = named | {"WARC-Record-ID": number}
    _write(writer, "conversion", "text/plain; charset=utf-8", text, known)
    _write(writer, "metadata", "application/json", layout, named | {"WARC-Refers-To": number})


def _write(writer: WARCWriter, kind: str, content: str, block: bytes, said: dict[str, str]) -> None:
    number = f"<urn:uuid:{uuid5(NAMESPACE_URL, kind + block.decode())}>"
    said = {"WARC-Record-ID": number, "WARC-Date": "1970-01-01T00:00:00Z"} | said
    record = writer.create_warc_record(
        "", kind, BytesIO(block), len(block), content, warc_headers_dict=said
    )
    writer.write_record(record)


def laid_out(text: WarcRecord, after: WarcRecord) -> Page | None:
    """The page that `write_warc` made a text of, if `after` is its layout.

    Anyone may have written it: raises Failed (malformed) where the two make no proper page.
    """
    number = text.said("WARC-Record-ID")
    if (text.kind, after.kind, after.said("WARC-Refers-To")) != ("conversion", "metadata", number):
        return None
    try:
        about = msgspec.json.decode(after.block, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        about = {}
    if "digest" not in about:
        return None  # what another program says of a text
    try:
        page = msgspec.convert(about | {"text": text.block.decode()}, Page)
    except (msgspec.ValidationError, UnicodeDecodeError):
        page = None
    if page is None or not _fits(page):
        raise failed(text.url, "malformed", "its text and its layout are not of one page")
    return page


def _fits(page: Page) -> bool:
    spans = [(block.start, block.end) for block in page.blocks]
    spans += [(link.start, link.end) for link in page.links]
    spans += [(mark.start, mark.end) for mark in page.marks]
    inside = all(0 <= start <= end <= len(page.text) for start, end in spans)
    ordered = all(one.end <= two.start for one, two in pairwise(page.blocks))
    schemes = ("http:", "https:", "file:")
    return inside and ordered and all(link.url.lower().startswith(schemes) for link in page.links)


def in_utc(written: str) -> str:
    """The date as pages have theirs, in UTC to the second; empty where it is none."""
    try:
        moment = datetime.fromisoformat(written)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        return ""

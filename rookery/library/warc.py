"""Read WARC files, and search one as a library.

Only whole records up to the first damage are read. The format is read with the parts of warcio, not
with its iterator: that one prints warnings, takes truncated records for whole ones, and refuses
files compressed as a whole.
"""

import os
import re
import shutil
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime
from gzip import GzipFile
from hashlib import sha256
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import NamedTuple, TypeAlias

import httpcore
import msgspec
from warcio.bufferedreaders import ChunkedDataException, ChunkedDataReader
from warcio.digestverifyingreader import DigestChecker, DigestVerifyingReader
from warcio.limitreader import LimitReader
from warcio.statusandheaders import (
    StatusAndHeaders,
    StatusAndHeadersParser,
    StatusAndHeadersParserException,
)

from rookery.errors import Failed, Outcome
from rookery.library import search_index as indexing
from rookery.library.page_archive import PageArchive, translate_storage_errors
from rookery.library.search_index import (
    IndexNote,
    SearchIndex,
    hold_lock,
    record_index_use,
    translate_index_errors,
)
from rookery.network.access_rules import FetchError, normalize_url
from rookery.network.http_response import (
    PIECE_BYTES,
    check_status,
    decode_content,
    read_header,
    read_redirect,
)
from rookery.pages.page_parts import ReadLimits
from rookery.pages.passages import READER_FORMAT
from rookery.pages.reader_processes import PageJob, ReaderPool
from rookery.records import Failure, Hit, Library, Page, digest_of, prepare_type
from rookery.typed_files import require_regular_file

_DAMAGE_ERRORS = (EOFError, OSError, ValueError, zlib.error, StatusAndHeadersParserException)
_DIGEST_PATTERN = re.compile(
    r"sha1:([A-Z2-7]{32}|[\da-fA-F]{40})|sha256:([A-Z2-7]{52}={4}|[\da-fA-F]{64})"
)
"""the spellings in which warcio can check a digest"""
_MAX_HEADER_BYTES = 256 * 1024
"""bytes of the headers of one record"""
_PIECE_BYTES = 64 * 1024


class WarcRecord(NamedTuple):
    """One complete WARC record."""

    kind: str
    """response, resource, revisit, conversion, metadata, ..."""
    headers: StatusAndHeaders
    block: bytes
    """what follows the headers; left out of a record of a kind that is not wanted"""
    done: int
    """bytes of the file that had been read by then"""

    @property
    def url(self) -> str:
        """Address that the record is of; empty if it has none."""
        return self.get_header("WARC-Target-URI")

    def get_header(self, name: str) -> str:
        """Return the header of this name, without the brackets of wget; empty without one."""
        return str(self.headers.get_header(name, "")).removeprefix("<").removesuffix(">")


def read_warc_records(
    path: Path, kinds: frozenset[str], most: int
) -> Iterator[WarcRecord | Failure]:
    """Yield the records of a WARC file; those of kinds that are not `kinds` without their block.

    In place of a wanted record of more than `most` bytes (too_large), or with another digest than
    it names (malformed), comes a Failure, and for damage to the file a last one (malformed,
    truncated). Raises Failed (unreadable): the file cannot be opened or does not begin with a whole
    record.
    """
    any_record = False
    try:
        with require_regular_file(path).open("rb") as file:
            try:
                for record in _iter_whole_records(file, kinds, most):
                    any_record = True
                    yield record
            except _DAMAGE_ERRORS as error:
                if any_record:
                    yield _describe_damage(path, file.tell(), error)
    except OSError as error:
        detail = f"it cannot be read ({error.strerror or error}): check the path"
        raise Failed(Failure(str(path), Outcome.UNREADABLE, detail)) from error
    if not any_record:
        detail = "there is no whole WARC record in it: name a file that a crawler wrote as WARC"
        if path.name.endswith(".zst"):
            detail = "what zstd has compressed is not read: unpack it with zstd -d first"
        raise Failed(Failure(str(path), Outcome.UNREADABLE, detail))


def _describe_damage(path: Path, place: int, error: Exception) -> Failure:
    cut = isinstance(error, EOFError)
    what = "it ends within a record" if cut else f"it is damaged before byte {place:,}"
    detail = f"{what}; what came before is read, the rest is not"
    return Failure(str(path), Outcome.TRUNCATED if cut else Outcome.MALFORMED, detail)


def _iter_whole_records(
    file: BufferedReader, kinds: frozenset[str], most: int
) -> Iterator[WarcRecord | Failure]:
    stream = GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file
    parser = StatusAndHeadersParser(["WARC/"])
    line = _next_line(stream)
    while line:
        headers = parser.parse(LimitReader(stream, _MAX_HEADER_BYTES), line)
        kind, size = headers.get_header("WARC-Type", "").lower(), _parse_size(headers)
        keep_block = kind in kinds and size <= most
        block, proven = _read_block(stream, headers, size, keep_block)
        whole = WarcRecord(kind, headers, block, file.tell())
        record: WarcRecord | Failure = whole
        if kind in kinds and not keep_block:
            detail = f"{size:,} bytes; at most {most:,} are read"
            record = Failure(whole.url, Outcome.TOO_LARGE, detail)
        elif proven is False:
            detail = "its content has another digest than it names"
            record = Failure(whole.url, Outcome.MALFORMED, detail)
        # Whether a record without a digest is whole, only what comes next can show.
        waiting = keep_block and proven is None
        if not waiting:
            yield record
        line = _next_line(stream)
        if waiting:
            if not b"WARC/".startswith(line[:5]):
                raise ValueError
            yield record


def _next_line(stream: GzipFile | BufferedReader) -> bytes:
    """Return the next line that is not empty; nothing at the end of the file."""
    lines = iter(lambda: stream.readline(_MAX_HEADER_BYTES), b"")
    return next((line for line in lines if line.strip()), b"")


def _parse_size(headers: StatusAndHeaders) -> int:
    size = headers.get_header("Content-Length", "")
    if not re.fullmatch("[0-9]{1,15}", size):
        raise ValueError
    return int(size)


def _read_block(
    stream: GzipFile | BufferedReader, headers: StatusAndHeaders, size: int, keep_block: bool
) -> tuple[bytes, bool | None]:
    """Return the content of a record (nothing if it is not kept), and whether its digest is
    right."""
    digest, checker = headers.get_header("WARC-Block-Digest", ""), DigestChecker()
    known_digest = digest if keep_block and _DIGEST_PATTERN.fullmatch(digest) else None
    rest = DigestVerifyingReader(stream, size, checker, block_digest=known_digest)
    block = rest.read() if keep_block else b""
    while rest.limit and rest.read(_PIECE_BYTES):
        pass
    if rest.limit:
        raise EOFError
    return block, checker.passed


def convert_to_utc(written: str) -> str:
    """Return a date in the form that pages have: UTC, to the second; empty if it is not a date.

    A date without a time zone is taken as UTC.
    """
    try:
        moment = datetime.fromisoformat(written)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        return ""


_READ_LIMITS = ReadLimits()
_READ_AHEAD = os.cpu_count() or 1
"""records that are read at the same time"""
_PAGE_KINDS = frozenset(("response", "resource", "revisit", "conversion"))
_STATUS_LINE = re.compile(rb"HTTP/[\d.]+ +[1-5]\d\d\b")
_CHUNK_HEAD = re.compile(rb"[\da-fA-F]{1,8}[ \t]*(?:;[^\r\n]*)?\r\n")
_STYLE_OR_SCRIPT = re.compile(r"text/css|(?:text|application)/(?:x-)?(?:java|ecma)script")


class WarcRedirect(NamedTuple):
    """An address that led to another, or to the same content, when the file was written."""

    url: str
    to: str


WarcEntry: TypeAlias = Page | Failure | WarcRedirect


def iter_warc_entries(
    path: Path, limits: ReadLimits = _READ_LIMITS, readers: ReaderPool | None = None
) -> Iterator[tuple[int, WarcEntry]]:
    """Yield the pages, failures and redirects of a WARC file, each with the bytes read so far.

    They are in the order of the file, compressed or not, and read some records ahead. Pages come
    from HTTP answers (`response`, `resource`) and from extracted text (`conversion`: Common Crawl's
    WET); a `revisit` is no page of its own. Failures are records that cannot be read, with the
    outcomes of `network.access_rules` and `pages.page_reader`, and damage (malformed, truncated),
    behind which nothing is read. `readers` are processes that are warm already; without them, some
    are started for this file. Raises Failed (unreadable): the file cannot be opened or is no WARC.
    """
    begun = deque[tuple[int, Future[WarcEntry | None]]]()
    with (
        ThreadPoolExecutor(_READ_AHEAD) as threads,
        nullcontext(readers) if readers else ReaderPool() as pool,
    ):
        bytes_read = 0
        for record in read_warc_records(path, _PAGE_KINDS, 2 * limits.bytes):
            if isinstance(record, WarcRecord):
                bytes_read = record.done
            begun.append((bytes_read, threads.submit(_read_entry, record, limits, pool)))
            if len(begun) > _READ_AHEAD:
                yield from _take_entry(begun)
        while begun:
            yield from _take_entry(begun)


def _take_entry(
    begun: deque[tuple[int, "Future[WarcEntry | None]"]],
) -> Iterator[tuple[int, WarcEntry]]:
    done, result = begun.popleft()
    if entry := result.result():
        yield done, entry


def _read_entry(
    record: WarcRecord | Failure, limits: ReadLimits, readers: ReaderPool
) -> WarcEntry | None:
    """Return the page, failure or moved address of a record; None if it cannot hold a page.

    Logs, answers of name servers and pictures of pages have addresses that no page has.
    """
    if isinstance(record, Failure):
        return record
    url, place = record.url, record.url.lower()
    if record.kind not in _PAGE_KINDS or not place.startswith(("file:", "http:", "https:")):
        return None
    try:
        url = url.partition("#")[0] if place.startswith("file:") else normalize_url(url).url
        return _read_record(record, url, limits, readers)
    except FetchError as error:
        return Failure(url, error.outcome, error.detail)
    except Failed as refused:
        return refused.failure
    except Exception as error:  # a parser may raise anything; it is recorded, not hidden
        return Failure(url, Outcome.CRASHED, repr(error)[:500])


def _read_record(
    record: WarcRecord, url: str, limits: ReadLimits, readers: ReaderPool
) -> Page | WarcRedirect:
    if record.kind == "revisit":
        return _read_revisit(record, url)
    if record.get_header("WARC-Truncated") or record.get_header("WARC-Segment-Number"):
        raise FetchError(Outcome.TRUNCATED, "the file has only a part of it, or has it in parts")
    date, data = convert_to_utc(record.get_header("WARC-Date")), record.block
    kind = record.get_header("Content-Type")
    if record.kind == "conversion" and kind.lower().startswith("text/plain"):
        return readers.read_page(PageJob(data, url, kind, date, limits, extracted=True))
    if record.kind == "response":
        response, body = _parse_http_response(data)
        if to := _find_redirect(response, url):
            return WarcRedirect(url, to)
        kind = read_header(response, b"content-type")
        data = _decode_body(response, body, limits.bytes)
    if _STYLE_OR_SCRIPT.match(kind.lower()):
        raise FetchError(Outcome.UNSUPPORTED_TYPE, f"{kind} holds no text to quote")
    return readers.read_page(PageJob(data, url, kind, date, limits))


def _read_revisit(record: WarcRecord, url: str) -> WarcRedirect:
    """Return the address at which the same content was seen, unless the record has its own
    response."""
    response = _parse_http_response(record.block)[0] if record.block else None
    if response and response.status != 304 and (to := _find_redirect(response, url)):
        return WarcRedirect(url, to)
    if original_url := record.get_header("WARC-Refers-To-Target-URI"):
        return WarcRedirect(url, normalize_url(original_url).url)
    detail = "it was seen before, but the file does not say at which address"
    raise FetchError(Outcome.NOT_FOUND, detail)


def _parse_http_response(block: bytes) -> tuple[httpcore.Response, bytes]:
    """Return the head of an HTTP answer, and its body as it was sent."""
    if not _STATUS_LINE.match(block):
        raise FetchError(Outcome.MALFORMED, "it is no answer of HTTP")
    stream = BytesIO(block)
    said = StatusAndHeadersParser([], verify=False).parse(stream)
    headers = [(name.encode(), value.encode()) for name, value in said.headers]
    return httpcore.Response(int(said.get_statuscode()), headers=headers), stream.read()


def _find_redirect(response: httpcore.Response, url: str) -> str:
    """Return the address that the response leads to, or "". Raises FetchError for an error
    status."""
    to = read_redirect(response, normalize_url(url))
    if to is None:
        check_status(response)
    return normalize_url(to).url if to else ""


def _decode_body(response: httpcore.Response, body: bytes, limit: int) -> bytes:
    """Return the content of an answer. Crawlers may have undone an encoding that they still
    name."""
    encoding = read_header(response, b"content-encoding")
    length = read_header(response, b"content-length")
    if "chunked" in read_header(response, b"transfer-encoding").lower():
        body = _decode_chunks(body)
    elif not encoding and re.fullmatch("[0-9]{1,15}", length) and len(body) < int(length):
        raise FetchError(Outcome.TRUNCATED, "the server ended its answer early")
    if encoding.lower() in ("gzip", "x-gzip") and not body.startswith(b"\x1f\x8b"):
        encoding = ""
    pieces = (body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES))
    return b"".join(decode_content(pieces, encoding, limit))


def _decode_chunks(body: bytes) -> bytes:
    if not _CHUNK_HEAD.match(body):
        return body
    try:
        return bytes(ChunkedDataReader(BytesIO(body), raise_exceptions=True).read())
    except ChunkedDataException:
        detail = "its chunks are cut off or do not fit together"
        raise FetchError(Outcome.TRUNCATED, detail) from None


WARC_FORMAT = "1"
"""of what is stored of a file; raise it and every file is read anew"""
_PAGES_AT_ONCE = 16
_MAX_REDIRECTS = 10

ProgressCallback = Callable[[int, int, str], None]


class WarcContents(msgspec.Struct):
    """Summary of the contents of a WARC file, written after everything else is stored."""

    pages: dict[str, tuple[str, str]] = {}
    """by address, old ones included: the page's own address and its digest"""
    failures: list[Failure] = []


class WarcLibrary(Library):
    """The pages of the WARC file `path`: of several versions of one address, the last.

    They go to `archive`, the index below `cache` (a folder that may be deleted at any time).
    Opening it reads a file that is new or changed; `progress` hears (bytes read, bytes of the
    file, the address). `failures` are the records that could not be read. Raises `Failed`:
    not_found, unreadable, empty_library, or what the archive raises.
    """

    skipped: Sequence[Failure] = ()
    """always empty: every record that holds a page is read"""

    def __init__(
        self,
        path: Path,
        archive: PageArchive,
        cache: Path,
        progress: ProgressCallback | None = None,
    ) -> None:
        self._path = path
        self._archive = archive
        self._progress = progress or (lambda count, total, what: None)
        self.index_folder = cache / "warcs" / _hash_name(os.path.realpath(path))
        """folder of the library's index in the cache"""
        stored_index = self._open_stored()
        if not stored_index:
            self._read_or_wait()
        note = IndexNote("warc", (Path(os.path.realpath(path)).as_uri(),), time.time())
        record_index_use(self.index_folder, note, changed=not stored_index)
        if not self._contents.pages:
            detail = f"no record of it could be read as a page ({len(self.failures)} failed)"
            raise Failed(Failure(str(path), Outcome.EMPTY_LIBRARY, detail))

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The records that could not be read, each with its reason."""
        return tuple(self._contents.failures)

    def contents_digest(self) -> str:
        """Return a digest of the addresses and texts of all pages."""
        return digest_of("\n".join(sorted(map(" ".join, self._contents.pages.values()))))

    def count_pages(self) -> int:
        """Return the number of pages, each of them once whatever addresses lead to it."""
        return len(set(self._contents.pages.values()))

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the k best passages of the pages, best first, by words and static vectors.

        A text at two addresses is found once.
        """
        with translate_index_errors(self.index_folder):
            return self._index.search(query, k)

    def fetch(self, url: str) -> Page:
        """Return the page at this address, or at the one that it redirected to.

        Raises Failed: url_not_shown for other addresses, not_in_archive.
        """
        stored_page = self._contents.pages.get(_normalize_address(url))
        if stored_page is None:
            detail = "it is no page of this file: open addresses that a search showed"
            raise Failed(Failure(url, Outcome.URL_NOT_SHOWN, detail))
        page = self._archive.find_page(stored_page[1], stored_page[0])
        if page is None:
            detail = f"the archive has lost it: delete {self.index_folder} to read the file again"
            raise Failed(Failure(url, Outcome.NOT_IN_ARCHIVE, detail))
        return page

    def _open_stored(self) -> bool:
        """Open what was read of the file as it is now; False if none or in another archive."""
        place = self.index_folder / self._compute_stamp()
        try:
            stored = (place / "contents.json").read_bytes()
            self._contents = msgspec.json.decode(stored, type=prepare_type(WarcContents))
            with translate_index_errors(place):
                self._index = SearchIndex(place)
        except (OSError, ValueError, msgspec.DecodeError, Failed):
            return False
        any_page = next(iter(self._contents.pages.values()), None)
        return any_page is None or self._archive.find_page(any_page[1], any_page[0]) is not None

    def _compute_stamp(self) -> str:
        """Return a digest that changes when the file or the version of this program changes."""
        try:
            about = self._path.stat()
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            outcome = Outcome.NOT_FOUND if missing else Outcome.UNREADABLE
            detail = f"there is no such file, or no way to it ({error.strerror}): check the path"
            raise Failed(Failure(str(self._path), outcome, detail)) from error
        formats = f"{WARC_FORMAT} {indexing.INDEX_FORMAT} {READER_FORMAT}"
        return _hash_name(f"{formats} {about.st_size} {about.st_mtime_ns}")

    def _read_or_wait(self) -> None:
        """Read the file, or waits for who is reading it."""
        waiting = "another process is reading this file; waiting for it to finish"
        with hold_lock(self.index_folder / "lock", lambda: self._progress(0, 0, waiting)):
            if not self._open_stored():
                self._build_index(self.index_folder / self._compute_stamp())

    def _build_index(self, place: Path) -> None:
        """Read the file into a new index, the only one that is left once it is whole."""
        shutil.rmtree(place, ignore_errors=True)
        self._contents = self._archive_pages()
        with translate_index_errors(place):
            self._index, indexed_urls = SearchIndex(place), set[str]()
            for url, digest in self._contents.pages.values():
                if digest not in indexed_urls and (page := self._archive.find_page(digest, url)):
                    indexed_urls.add(digest)
                    self._index.add(page)
            self._index.commit()
        with translate_storage_errors(place):
            (place / "contents.json").write_bytes(msgspec.json.encode(self._contents))
        for old in {*self.index_folder.glob("*/")} - {place}:
            shutil.rmtree(old, ignore_errors=True)

    def _archive_pages(self) -> WarcContents:
        """Keep all pages of the file, and record the last version of each."""
        contents, moved = WarcContents(), dict[str, str]()
        total, batch = self._path.stat().st_size, list[Page]()
        for bytes_read, entry in iter_warc_entries(self._path):
            if isinstance(entry, Page):
                batch.append(entry)
                contents.pages[_normalize_address(entry.url)] = (entry.url, entry.digest)
            elif isinstance(entry, WarcRedirect):
                moved[entry.url] = entry.to
            else:
                contents.failures.append(entry)
            if len(batch) == _PAGES_AT_ONCE:
                self._archive.store_pages(batch)
                batch.clear()
            what = entry.what if isinstance(entry, Failure) else entry.url
            self._progress(bytes_read, total, what)
        self._archive.store_pages(batch)
        _add_redirects(moved, contents.pages)
        return contents


def _hash_name(of: str) -> str:
    return sha256(os.fsencode(of)).hexdigest()[:32]


def _normalize_address(url: str) -> str:
    """Return the address in its normal form, without a fragment."""
    try:
        return normalize_url(url).url
    except FetchError:
        return url.partition("#")[0]


def _add_redirects(moved: dict[str, str], pages: dict[str, tuple[str, str]]) -> None:
    """Add the addresses that led to a page."""
    for asked, to in moved.items():
        for _ in range(_MAX_REDIRECTS):
            if to in pages or to not in moved:
                break
            to = moved[to]
        if to in pages:
            pages.setdefault(asked, pages[to])

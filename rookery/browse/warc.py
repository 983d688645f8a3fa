"""A WARC file as a library, indexed once.

What is indexed counts only when it is complete.
"""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from rookery.browse import index as indexing
from rookery.browse.archive import Archive, worded
from rookery.browse.cache import IndexNote, alone, index_worded, note_use
from rookery.browse.index import Index
from rookery.browse.network import target
from rookery.browse.outcomes import FetchError
from rookery.browse.warc_pages import Moved, entries, read_warc
from rookery.browse.warc_write import write_warc
from rookery.records import Failed, Failure, Hit, Page, digest_of

__all__ = ["Warc", "read_warc", "write_warc"]

FORMAT = "1"
"""of what is stored of a file, and of what its pages are; raise it and every file is read anew"""
_PAGES_AT_ONCE = 16
_REDIRECTS = 10

Progress = Callable[[int, int, str], None]


class WarcContents(msgspec.Struct):
    """What a file was found to hold: written last, when all else is in its place."""

    pages: dict[str, tuple[str, str]] = {}
    """by address, old ones included: the page's own address and its digest"""
    failures: list[Failure] = []


class Warc:
    """The pages of the WARC file `path`: of several versions of one address, the last.

    They go to `archive`, the index below `cache` (a folder that may be deleted at any time).
    Opening it reads a file that is new or changed; `progress` hears (bytes read, bytes of the
    file, the address). `failures` are the records that could not be read. Raises `Failed`:
    not_found, unreadable, empty_library, or what the archive raises.
    """

    def __init__(
        self, path: Path, archive: Archive, cache: Path, progress: Progress | None = None
    ) -> None:
        self._path = path
        self._archive = archive
        self._progress = progress or (lambda done, total, what: None)
        self._place = cache / "warcs" / _name(os.path.realpath(path))
        known = self._opened()
        if not known:
            self._read()
        address = Path(os.path.realpath(path)).as_uri()
        note_use(self._place, IndexNote("warc", (address,), time.time()), changed=not known)
        if not self._contents.pages:
            detail = f"no record of it could be read as a page ({len(self.failures)} failed)"
            raise Failed(Failure(str(path), "empty_library", detail))

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The records that were skipped, each with its reason."""
        return tuple(self._contents.failures)

    def contents_digest(self) -> str:
        """Digest of the addresses and texts of all pages: it changes whenever one of them does."""
        return digest_of("\n".join(sorted(map(" ".join, self._contents.pages.values()))))

    def count_pages(self) -> int:
        """The number of pages, each of them once whatever addresses lead to it."""
        return len(set(self._contents.pages.values()))

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """The k best passages of the pages, by BM25. A text at two addresses is found once."""
        with index_worded(self._place):
            return self._index.search(query, k)

    def fetch(self, url: str) -> Page:
        """The page at this address or at the one that it led to; Failed (url_not_shown) else."""
        known = self._contents.pages.get(_address(url))
        if known is None:
            detail = "it is no page of this file: open addresses that a search showed"
            raise Failed(Failure(url, "url_not_shown", detail))
        page = self._archive.page(known[1], known[0])
        if page is None:
            detail = f"the archive has lost it: delete {self._place} to read the file again"
            raise Failed(Failure(url, "not_in_archive", detail))
        return page

    def _opened(self) -> bool:
        """Opens what was read of the file as it is now; False if none or in another archive."""
        place = self._place / self._stamp()
        try:
            stored = (place / "contents.json").read_bytes()
            self._contents = msgspec.json.decode(stored, type=WarcContents)
            self._index = Index(place)
        except (OSError, ValueError, msgspec.DecodeError):
            return False
        shown = next(iter(self._contents.pages.values()), None)
        return shown is None or self._archive.page(shown[1], shown[0]) is not None

    def _stamp(self) -> str:
        """What tells, without reading the file, that it is still the same, and that we are."""
        try:
            about = self._path.stat()
        except OSError as error:
            outcome = "not_found" if isinstance(error, FileNotFoundError) else "unreadable"
            detail = f"there is no such file, or no way to it ({error.strerror}): check the path"
            raise Failed(Failure(str(self._path), outcome, detail)) from error
        return _name(f"{FORMAT} {indexing.FORMAT} {about.st_size} {about.st_mtime_ns}")

    def _read(self) -> None:
        """Reads the file, or waits for who is reading it."""
        waiting = "another process is reading this file; waiting for it to finish"
        with worded(self._place):
            self._place.mkdir(parents=True, exist_ok=True)
        with alone(self._place / "lock", lambda: self._progress(0, 0, waiting)):
            if not self._opened():
                self._build(self._place / self._stamp())

    def _build(self, place: Path) -> None:
        """Reads the file into a new index, the only one that is left."""
        for old in self._place.glob("*/"):
            shutil.rmtree(old, ignore_errors=True)
        self._contents = self._archived()
        with index_worded(place):
            self._index, shown = Index(place), set[str]()
            for url, digest in self._contents.pages.values():
                if digest not in shown and (page := self._archive.page(digest, url)):
                    shown.add(digest)
                    self._index.add(page)
            self._index.commit()
        with worded(place):
            (place / "contents.json").write_bytes(msgspec.json.encode(self._contents))

    def _archived(self) -> WarcContents:
        """Keeps all pages of the file, and notes the last version of each."""
        contents, moved = WarcContents(), dict[str, str]()
        total, batch = self._path.stat().st_size, list[Page]()
        for done, entry in entries(self._path):
            if isinstance(entry, Page):
                batch.append(entry)
                contents.pages[_address(entry.url)] = (entry.url, entry.digest)
            elif isinstance(entry, Moved):
                moved[entry.url] = entry.to
            else:
                contents.failures.append(entry)
            if len(batch) == _PAGES_AT_ONCE:
                self._archive.keep_all(batch)
                batch.clear()
            self._progress(done, total, entry.what if isinstance(entry, Failure) else entry.url)
        self._archive.keep_all(batch)
        _follow(moved, contents.pages)
        return contents


def _name(of: str) -> str:
    return sha256(os.fsencode(of)).hexdigest()[:32]


def _address(url: str) -> str:
    """The address in its normal form, without a fragment."""
    try:
        return target(url).url
    except FetchError:
        return url.partition("#")[0]


def _follow(moved: dict[str, str], pages: dict[str, tuple[str, str]]) -> None:
    """Adds the addresses that led to a page."""
    for asked, to in moved.items():
        for _ in range(_REDIRECTS):
            if to in pages or to not in moved:
                break
            to = moved[to]
        if to in pages:
            pages.setdefault(asked, pages[to])

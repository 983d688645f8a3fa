"""A library of the documents in a folder, indexed once and kept true to the files.

Pages live in the archive, passages in the index, and the manifest says which files both are true
of; in that order they are written, so that an indexer killed at any moment leaves at most work to
do again.
"""

import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Self
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from rookery.browse import index as indexing
from rookery.browse.archive import Archive, worded
from rookery.browse.cache import IndexNote, alone, index_worded, note_use
from rookery.browse.index import Index
from rookery.browse.manifest import Changes, Manifest, Row, order_copies
from rookery.browse.readers import FileLimits, Job, Reading, read_all, read_file, too_large
from rookery.browse.selection import READERS, Selection
from rookery.records import Failed, Failure, Hit, Page, digest_of

FORMAT = "3"
"""of the manifest and of what the page readers make; raise it and every folder is read anew"""
_CHEAP = frozenset(ending.encode() for ending in READERS if ending not in ("pdf", "docx"))
_PAGES_AT_ONCE = 64
_NAMED = 3
"""files that are named where none could be read"""
_FILE_BYTES = 4096
"""what opening and recording a file costs, as bytes of it"""

Progress = Callable[[int, int, str], None]


class FolderLimits(msgspec.Struct, frozen=True):
    """What a folder may cost."""

    file: FileLimits = FileLimits()
    processes: int = os.cpu_count() or 1
    """that read files at the same time, at most"""
    few: int = 24
    """so many small text files are read without starting another process"""
    small: int = 256 * 1024
    """bytes of a small file"""
    commit_bytes: int = 16 * 2**20
    """of files, each a little larger than it is, after which what was done is made lasting: the
    most that a killed indexer has to do again"""


class Folder:
    """The files that can be read below `directory` (a folder, a file, or several of both).

    Their pages go to `archive`, the index below `cache` (a folder that may be deleted at any
    time). Opening it reads what is new or changed; `progress` hears (files done, files to do, the
    file). Of files with one text, the one nearest to the top is searched, the first by name among
    equals. `failures` are the files that could not be read, `skipped` those that are left out.
    Raises `Failed`: empty_library, not_found, bad_pattern, or what the archive raises.
    """

    def __init__(
        self,
        directory: Path | Sequence[Path],
        archive: Archive,
        cache: Path,
        progress: Progress | None = None,
        limits: FolderLimits = FolderLimits(),
        selection: Selection = Selection(),
    ) -> None:
        self._selection = selection
        self._roots = _roots([directory] if isinstance(directory, Path) else directory)
        self._archive = archive
        self._progress = progress or (lambda done, total, what: None)
        self._limits = limits
        self._place = cache / "folders" / _index_name(self._roots, selection)
        self._manifest: Manifest | None = None
        self._index: Index | None = None
        self._unreadable: list[Failure] = []
        self._pages: list[Page] = []  # read, but not yet in the archive
        self._added: dict[str, bytes] = {}  # to the index since the last commit: path by digest
        self._forgotten: set[bytes] = set()  # paths whose passages were removed since then
        try:
            self.refresh()
        except BaseException:
            self.close()
            raise

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The files and folders that could not be read, each with its reason."""
        rows = self._open_manifest().failed()
        failed = [Failure(os.fsdecode(row.path), row.outcome, row.detail) for row in rows]
        return (*self._unreadable, *failed)

    @property
    def skipped(self) -> tuple[Failure, ...]:
        """The files and folders that are left out, each with its reason, by path.

        Outcomes: hidden, ignored, excluded, empty, unsupported_type, binary, minified, copy.
        """
        return self._open_manifest().left_out()

    def count_pages(self) -> int:
        """The number of files that were read, copies included."""
        return len(self._open_manifest().digests())

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """The k best passages of the files, by BM25."""
        with index_worded(self._place):
            return self._open_index().search(query, k)

    def fetch(self, url: str) -> Page:
        """The page of the file at this `file://` address; Failed (url_not_shown) for others."""
        path = _path(url)
        row = self._open_manifest().row(path) if path else None
        if row is None:
            detail = "it is no file of this library: open addresses that a search showed"
            raise Failed(Failure(url, "url_not_shown", detail))
        if row.outcome:
            raise Failed(Failure(url, row.outcome, row.detail))
        return self._archive.page(row.digest, _url(row.path)) or self._restore(row)

    def contents_digest(self) -> str:
        """Digest of the texts of all files and their paths below the folders: it changes whenever
        one of them does, and not when the folder is moved."""
        found = []
        for row in self._open_manifest().read_files():
            root = next((root for root in self._roots if row.path.startswith(root)), b"")
            found.append(f"{os.fsdecode(row.path.removeprefix(root))} {row.digest}")
        return digest_of("\n".join(sorted(found)))

    def refresh(self) -> None:
        """Makes the index true to the files. Costs one look at each where nothing changed."""
        changed = not self._usable() or bool(self._changes())
        if changed:
            with self._alone():
                if not self._usable():
                    self._start_over()
                changes = self._changes()
                self._apply(changes)
                if changes.skipped is not None:
                    self._open_manifest().record_skipped(changes.skipped)
        with index_worded(self._place):
            self._open_index().commit()  # shows what other processes have added, too
        patterns = (self._selection.glob, self._selection.exclude)
        note = IndexNote("folder", tuple(map(_url, self._roots)), time.time(), *patterns)
        note_use(self._place, note, changed)
        self._require_pages()

    def close(self) -> None:
        """Lets go of the cache's files."""
        if self._manifest is not None:
            self._manifest.close()
        self._manifest = self._index = None
        self._pages.clear()
        self._added.clear()
        self._forgotten.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process changes the index meanwhile; what fails half-way is not kept open."""
        waiting = "another process is indexing this folder; waiting for it to finish"
        with worded(self._place):
            self._place.mkdir(parents=True, exist_ok=True)
        with alone(self._place / "lock", lambda: self._progress(0, 0, waiting)):
            self.close()  # the process that had the lock may have begun a new manifest
            try:
                yield
            except BaseException:
                self.close()
                raise

    def _usable(self) -> bool:
        """Whether index and manifest are there, whole, and of this version's format."""
        if not (self._place / "index" / "meta.json").is_file():
            return False
        try:
            self._open_index()
            return self._open_manifest().format() == _format()
        except (Failed, ValueError) as error:
            if isinstance(error, Failed) and error.failure.outcome != "unreadable_archive":
                raise
            return False

    def _start_over(self) -> None:
        self.close()
        for name in ("manifest.sqlite", "manifest.sqlite-wal", "manifest.sqlite-shm"):
            (self._place / name).unlink(missing_ok=True)
        shutil.rmtree(self._place / "index", ignore_errors=True)
        with index_worded(self._place):
            self._open_index()
        self._open_manifest().begin(_format())

    def _open_manifest(self) -> Manifest:
        self._manifest = self._manifest or Manifest(self._place / "manifest.sqlite")
        return self._manifest

    def _open_index(self) -> Index:
        # No `or`: an empty Index is false.
        self._index = Index(self._place / "index") if self._index is None else self._index
        return self._index

    def _changes(self) -> Changes:
        changes = self._open_manifest().changes(self._roots, self._selection)
        self._unreadable = changes.unreadable
        for failure in changes.unreadable:
            if os.fsencode(failure.what) in self._roots:
                raise Failed(failure)  # a disk that is not mounted is no folder without files
        return changes

    def _require_pages(self) -> None:
        if self._open_manifest().has_pages():
            return
        failed, skipped = self.failures, self.skipped
        named = "; ".join(f"{one.what}: {one.detail}" for one in (*failed, *skipped)[:_NAMED])
        detail = (
            f"no file could be read ({len(failed)} failed, {len(skipped)} left out"
            f"{', such as ' * bool(named)}{named}); HTML, PDF, DOCX, Markdown and text are read"
        )
        raise Failed(Failure(", ".join(map(os.fsdecode, self._roots)), "empty_library", detail))

    def _apply(self, changes: Changes) -> None:
        """Removes and reads what changed, and commits after each so many bytes of files."""
        for row in changes.gone:
            self._forget(row)
        gone, done, size = changes.gone, list[Row](), 0
        fresh = sorted(changes.fresh, key=order_copies)
        for number, row in enumerate(self._readings(fresh), 1):
            done.append(row)
            size += row.stamp.size + _FILE_BYTES
            if size >= self._limits.commit_bytes:
                self._commit(done, gone)
                gone, done, size = [], [], 0
            self._progress(number, len(changes.fresh), os.fsdecode(row.path))
        self._commit(done, gone)

    def _readings(self, rows: Sequence[Row]) -> Iterator[Row]:
        """Reads these files, archives and indexes their pages; gives their new rows."""
        largest = self._limits.file.largest
        for row in rows:
            if row.stamp.size > largest:
                yield self._failed(row, too_large(row.path, largest))
        waiting = {row.path: row for row in rows if row.stamp.size <= largest}
        jobs = [Job(path, _url(path), row.sha256) for path, row in waiting.items()]
        processes = _processes(list(waiting.values()), self._limits)
        for reading in read_all(jobs, self._limits.file, processes):
            yield self._take(waiting.pop(reading.job.path), reading)

    def _take(self, row: Row, reading: Reading) -> Row:
        if reading.failure is not None:
            return self._failed(row, reading.failure)
        if reading.page is None:
            return row  # touched, but with the same content
        self._pages.append(reading.page)
        if len(self._pages) >= _PAGES_AT_ONCE:
            self._keep_pages()
        self._forget(row)
        digest, holders = reading.page.digest, self._open_manifest().holders(reading.page.digest)
        # A text that another file has, too, is not added: `_commit` decides whose it is.
        if digest not in self._added and all(held.path == row.path for held in holders):
            self._added[digest] = row.path
            with index_worded(self._place):
                self._open_index().add_entries(reading.page.url, reading.entries)
        return row._replace(sha256=reading.sha256, digest=reading.page.digest)

    def _failed(self, row: Row, failure: Failure) -> Row:
        self._forget(row)
        return Row(row.folder, row.name, row.stamp, "", "", failure.outcome, failure.detail)

    def _forget(self, row: Row) -> None:
        # Also for a new file: an indexer killed before its manifest was written may have added it.
        self._forgotten.add(row.path)
        with index_worded(self._place):
            self._open_index().remove(_url(row.path))

    def _keep_pages(self) -> None:
        self._archive.keep_all(self._pages)
        self._pages.clear()

    def _commit(self, rows: Sequence[Row], gone: Sequence[Row]) -> None:
        self._keep_pages()
        self._index_copies_once(rows, gone)
        with index_worded(self._place):
            self._open_index().commit()
        self._open_manifest().record(rows, gone)

    def _index_copies_once(self, rows: Sequence[Row], gone: Sequence[Row]) -> None:
        """Has the first of the files with one text indexed, where these changes made it another.

        Passages that were added and removed again would count as holding their words until
        tantivy merges its segments, so that nothing is moved without need.
        """
        manifest = self._open_manifest()
        changed = {row.path: row for row in (*gone, *rows)}
        after = defaultdict[str, list[Row]](list)
        for row in rows:
            after[row.digest].append(row)
        former = (manifest.row(path) for path in changed)
        for digest in {*after, *(row.digest for row in former if row)} - {""}:
            before = manifest.holders(digest)
            held = [*(row for row in before if row.path not in changed), *after[digest]]
            known = min(before, key=order_copies).path if before else b""
            indexed = self._added.get(digest) or (b"" if known in self._forgotten else known)
            first = min(held, key=order_copies, default=None)
            if first is None or first.path == indexed:
                continue
            url = _url(first.path)
            page = self._archive.page(digest, url)
            page = page or read_file(Job(first.path, url), self._limits.file).page
            if page is not None:  # else it changed just now, and the next opening reads it
                with index_worded(self._place):
                    if indexed:
                        self._open_index().remove(_url(indexed))
                    self._open_index().add(page)
        self._added.clear()
        self._forgotten.clear()

    def _restore(self, row: Row) -> Page:
        """Reads a file again whose page the archive has lost, or never had."""
        with self._alone():
            self._apply(Changes([row._replace(sha256="")], [], []))
        return self.fetch(_url(row.path))


def _index_name(roots: Sequence[bytes], selection: Selection) -> str:
    """The folder of an index: another for other places and for another selection of files."""
    patterns = b"" if selection == Selection() else b"\0\0" + msgspec.json.encode(selection)
    return sha256(b"\0".join(roots) + patterns).hexdigest()[:32]


def _format() -> str:
    return f"{FORMAT}.{indexing.FORMAT}"


def _processes(rows: Sequence[Row], limits: FolderLimits) -> int:
    """How many processes are worth starting; none for a few small files of safe types."""
    safe = all(row.stamp.size <= limits.small and _extension(row) in _CHEAP for row in rows)
    return 0 if safe and len(rows) <= limits.few else min(limits.processes, len(rows))


def _extension(row: Row) -> bytes:
    return row.name.rpartition(b".")[2].lower()


def _roots(paths: Sequence[Path]) -> list[bytes]:
    """The real paths, without those that lie within another."""
    for path in paths:
        if not path.exists():
            detail = "there is no such file or folder: check the path"
            raise Failed(Failure(str(path), "not_found", detail))
    real = sorted({os.path.realpath(os.fsencode(path)) for path in paths})
    return [root for root in real if not any(root.startswith(other + b"/") for other in real)]


def _url(path: bytes) -> str:
    return Path(os.fsdecode(path)).as_uri()


def _path(url: str) -> bytes:
    """The path that a `file://` address names; empty where it names none here."""
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return b""
    return os.path.normpath(unquote_to_bytes(parts.path))

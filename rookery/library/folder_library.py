"""A library of the documents in a folder, indexed once and updated where files change.

A SQLite manifest beside the search index has a row for each indexed file: folder, name, size, time
of modification and digest. Files are read by `pages.reader_processes`.
"""

import os
import shutil
import sqlite3
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from rookery.errors import Failed, Outcome
from rookery.library import search_index as indexing
from rookery.library.page_archive import (
    PageArchive,
    begin_transaction,
    connect_sqlite,
    translate_storage_errors,
)
from rookery.library.search_index import (
    IndexNote,
    SearchIndex,
    hold_lock,
    record_index_use,
    translate_index_errors,
)
from rookery.pages.file_selection import (
    DOCUMENT_READERS,
    READER_OF_ENDING,
    FileStamp,
    leads_out,
    list_folders,
)
from rookery.pages.passages import READER_FORMAT
from rookery.pages.reader_processes import (
    FileLimits,
    ReadJob,
    ReadResult,
    build_too_large,
    read_jobs,
)
from rookery.records import Failure, Hit, Page, digest_of
from rookery.settings import FileSelection

# Paths are bytes here: a name need not be valid text, and scanning is quicker so.
# ruff: noqa: PTH118


T = TypeVar("T")
_TABLES = (
    "create table if not exists about (format text not null)",
    "create table if not exists files (folder blob, name blob, size int, mtime_ns int,"
    " sha256 text, digest text, outcome text, detail text, primary key (folder, name))"
    " without rowid",
    "create index if not exists files_by_digest on files (digest)",
    "create table if not exists skipped (folder blob, name blob, outcome text, detail text,"
    " primary key (folder, name)) without rowid",
)
_TICK_NS = 50_000_000
"""a file changed within this time of the look at it may change again and keep its time"""


LEFT_OUT_OUTCOMES = frozenset((Outcome.UNSUPPORTED_TYPE, Outcome.BINARY, Outcome.MINIFIED))
"""outcomes of files that were opened and are of no kind that is read: skipped, not failed"""


class ManifestRow(NamedTuple):
    """One file. `digest` is of its page; `outcome` and `detail` are of its failure."""

    folder: bytes
    name: bytes
    stamp: FileStamp
    sha256: str = ""
    digest: str = ""
    outcome: str = ""
    detail: str = ""

    @property
    def path(self) -> bytes:
        """Path of the file."""
        return os.path.join(self.folder, self.name)


SkipReasons = Mapping[tuple[bytes, bytes], tuple[str, str]]
"""by (folder, name) of a file or folder that is left out: the outcome and the detail"""


class FolderChanges(NamedTuple):
    """Files to read, to remove and to leave out so that the index matches the folder again."""

    changed: list[ManifestRow]
    """new or perhaps changed; `sha256` and `digest` are of what is indexed now"""
    deleted: list[ManifestRow]
    unreadable: list[Failure]
    """folders that could not be entered"""
    skipped: SkipReasons | None = None
    """what is left out; None where that is what is recorded"""

    def __bool__(self) -> bool:
        """Tell whether there is anything to do."""
        return bool(self.changed or self.deleted or self.skipped is not None)


def order_copies(row: ManifestRow) -> tuple[int, bytes]:
    """Return the sort key of files with one text, the first of which is the one that is searched.

    It is the one nearest to the top, of equals the first by path.
    """
    return row.path.count(b"/"), row.path


class FolderManifest:
    """The rows of one folder's index, in the SQLite file `path`, made where it does not exist.

    Threads may share one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # From Python 3.12 on, threads that run one statement of a connection at the same time get
        # each other's rows, SQLITE_MISUSE or a crash: the statement is cached, and bound again
        # while it runs (https://github.com/python/cpython/issues/118172).
        self._lock = threading.RLock()
        with translate_storage_errors(path):
            self._connection = connect_sqlite(path)
            for statement in _TABLES:
                self._connection.execute(statement)

    def read_format(self) -> str:
        """Return the format in which the index was written; empty where it was not begun."""
        rows = self._fetch_rows("select format from about")
        return str(rows[0][0]) if rows else ""

    def begin_index(self, written: str) -> None:
        """Record the format of a new, empty index."""
        with self._begin_write() as file:
            file.execute("insert into about values (?)", (written,))

    def forget_contents(self, written: str) -> None:
        """Have every file count as changed, and record the format that it is to be read in."""
        with self._begin_write() as file:
            file.execute("update files set mtime_ns = -1, sha256 = ''")
            file.execute("update about set format = ?", (written,))

    def record_files(self, rows: Iterable[ManifestRow], deleted: Iterable[ManifestRow]) -> None:
        """Delete the rows of `deleted`, then add or replace those of `rows`, in one transaction."""
        with self._begin_write() as file:
            for row in deleted:
                where = (row.folder, row.name)
                file.execute("delete from files where folder = ? and name = ?", where)
            for folder, name, stamp, *rest in rows:
                insert = "insert or replace into files values (?, ?, ?, ?, ?, ?, ?, ?)"
                file.execute(insert, (folder, name, *stamp, *rest))

    def find_row(self, path: bytes) -> ManifestRow | None:
        """Return the row of the file at this path; None if it has none."""
        folder, name = os.path.split(path)
        return next(iter(self._select_rows("where folder = ? and name = ?", (folder, name))), None)

    def list_failed(self) -> tuple[Failure, ...]:
        """Return the files that could not be read, but for kinds that are never read."""
        rows = self._select_rows("where outcome != ''")
        failed = (row for row in rows if row.outcome not in LEFT_OUT_OUTCOMES)
        return tuple(
            Failure(r.path.decode("utf-8", "replace"), r.outcome, r.detail) for r in failed
        )

    def list_left_out(self) -> tuple[Failure, ...]:
        """Return the files and folders that are left out, copies of others included, by path."""
        named = [(b"/".join(where), *why) for where, why in self.load_skipped().items()]
        rows = self._select_rows("where outcome != ''")
        kinds = [(r.path, r.outcome, r.detail) for r in rows if r.outcome in LEFT_OUT_OUTCOMES]
        copies = [
            (row.path, "copy", f"the same text as {first.path.decode('utf-8', 'replace')}")
            for first, *others in (sorted(rows, key=order_copies) for rows in self._find_copies())
            for row in others
        ]
        left_out = sorted((*named, *kinds, *copies))
        # For people and for JSON: a name need not be valid text.
        return tuple(Failure(path.decode("utf-8", "replace"), *why) for path, *why in left_out)

    def load_skipped(self) -> SkipReasons:
        """Return the files and folders that are left out unopened, with outcome and detail."""
        rows = self._fetch_rows("select * from skipped")
        return {(folder, name): (outcome, detail) for folder, name, outcome, detail in rows}

    def record_skipped(self, skipped: SkipReasons) -> None:
        """Record the files and folders that are left out, replacing the earlier record."""
        rows = [(*where, *why) for where, why in skipped.items()]
        with self._begin_write() as file:
            file.execute("delete from skipped")
            file.executemany("insert into skipped values (?, ?, ?, ?)", rows)

    def find_by_digest(self, digest: str) -> list[ManifestRow]:
        """Return the files whose text has this digest."""
        return self._select_rows("where digest = ?", (digest,))

    def _find_copies(self) -> Iterator[list[ManifestRow]]:
        # Wherever that is more than one file, the files that have one text.
        find = "select digest from files where digest != '' group by digest having count(*) > 1"
        return (self.find_by_digest(digest) for (digest,) in self._fetch_rows(find))

    def list_digests(self) -> list[str]:
        """Return the digest of each file that was read; of copies, the same one."""
        rows = self._fetch_rows("select digest from files where outcome = ''")
        return [digest for (digest,) in rows]

    def list_read_files(self) -> list[ManifestRow]:
        """Return the files that were read."""
        return self._select_rows("where outcome = ''")

    def has_pages(self) -> bool:
        """Return whether any file was read."""
        return bool(self._select_rows("where outcome = '' limit 1"))

    def find_changes(
        self, roots: Sequence[bytes], selection: FileSelection, shard: "DocumentShard | None" = None
    ) -> FolderChanges:
        """Return the differences between the rows and the selected files below `roots`.

        Of a `shard`, only its files are looked at. A file is changed if its size or time differs
        from its row or if it was unreadable then. One changed a moment ago will count as changed
        again the next time. Files in folders that can no longer be entered count as deleted.
        Nothing is recorded. Raises Failed (bad_pattern).
        """
        changes = FolderChanges([], [], [])
        visited = set()
        skipped: dict[tuple[bytes, bytes], tuple[str, str]] = {}
        newest = time.time_ns() - _TICK_NS
        for folder, files, left_out in list_folders(roots, selection, changes.unreadable):
            visited.add(folder)
            if shard is not None:
                files = shard.select_names(folder, files)
                left_out = shard.select_names(folder, left_out)
            skipped.update(((folder, name), why) for name, why in left_out.items())
            rows = {row.name: row for row in self._select_rows("where folder = ?", (folder,))}
            changes.deleted.extend(row for name, row in rows.items() if name not in files)
            for name, stamp in files.items():
                row = rows.get(name)
                if row and row.stamp == stamp and row.outcome != Outcome.UNREADABLE:
                    continue
                # A time that cannot be trusted is never equal to one that is seen.
                recorded = stamp if stamp.mtime_ns < newest else FileStamp(stamp.size, -1)
                good = row if row and not row.outcome else ManifestRow(folder, name, stamp)
                changes.changed.append(good._replace(stamp=recorded))
        stored = {folder for (folder,) in self._fetch_rows("select distinct folder from files")}
        for folder in stored - visited:
            changes.deleted.extend(self._select_rows("where folder = ?", (folder,)))
        return changes._replace(skipped=None if skipped == self.load_skipped() else skipped)

    def close(self) -> None:
        """Close the manifest's SQLite file."""
        with self._lock:
            self._connection.close()

    def _select_rows(self, where: str, values: tuple[bytes | str, ...] = ()) -> list[ManifestRow]:
        rows = self._fetch_rows(f"select * from files {where}", values)
        return [
            ManifestRow(folder, name, FileStamp(size, mtime), *rest)
            for folder, name, size, mtime, *rest in rows
        ]

    def _fetch_rows(self, query: str, values: tuple[bytes | str, ...] = ()) -> list[Any]:
        with self._lock, translate_storage_errors(self._path):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _begin_write(self) -> Iterator[sqlite3.Connection]:
        """Hold the lock and give the connection, in a transaction."""
        with self._lock, translate_storage_errors(self._path), begin_transaction(self._connection):
            yield self._connection


def get_shard_number(path: bytes, shards: int) -> int:
    """Return the number, below `shards`, of the shard to which the file at this path belongs."""
    return zlib.crc32(path) % shards


class DocumentShard(NamedTuple):
    """One of several parts of the files of a library, and the folder of its index."""

    number: int
    """from 0 on"""
    shards: int
    """how many parts there are"""
    folder: Path

    def holds_file(self, path: bytes) -> bool:
        """Return whether the file at this path belongs to the part."""
        return get_shard_number(path, self.shards) == self.number

    def select_names(self, folder: bytes, names: Mapping[bytes, T]) -> dict[bytes, T]:
        """Return the entries of `names` whose files in this folder belong to the part."""
        join, holds = os.path.join, self.holds_file
        return {name: each for name, each in names.items() if holds(join(folder, name))}


FOLDER_FORMAT = "4"
"""of the manifest; raise it and the index of every folder is made anew"""
_SAFE_EXTENSIONS = frozenset(
    ending.encode() for ending, reader in READER_OF_ENDING.items() if reader not in DOCUMENT_READERS
)
_PAGES_AT_ONCE = 64
_EXAMPLES_NAMED = 3
"""files that are named where none could be read"""
_FILE_COST_BYTES = 4096
"""what opening and recording a file costs, as bytes of it"""

ProgressCallback = Callable[[int, int, str], None]


class FolderLimits(msgspec.Struct, frozen=True):
    """Limits on reading the files of a folder."""

    file: FileLimits = FileLimits()
    processes: int = os.cpu_count() or 1
    """that read files at the same time, at most"""
    few_files: int = 24
    """so many small text files are read by one process: starting another takes longer"""
    small_file_bytes: int = 256 * 1024
    """bytes of a small file"""
    commit_bytes: int = 16 * 2**20
    """of files, each a little larger than it is, after which what was done is made lasting: the
    most that a killed indexer has to do again"""


class FolderLibrary:
    """The files that can be read below `directory` (a folder, a file, or several of both).

    Their pages go to `archive`, the index below `cache` (a folder that may be deleted at any
    time). Opening it reads what is new or changed; `progress` hears (files done, files to do, the
    file). Of files with one text, the one nearest to the top is searched, the first by name among
    equals. `failures` are the files that could not be read, `skipped` those that are left out. With
    a `shard`, it has that part of the files, which may be none, and its index is in the shard's own
    folder. Threads may share one. Raises `Failed`: empty_library, not_found, bad_pattern, or what
    the archive raises.
    """

    def __init__(
        self,
        directory: Path | Sequence[Path],
        archive: PageArchive,
        cache: Path,
        progress: ProgressCallback | None = None,
        limits: FolderLimits = FolderLimits(),
        selection: FileSelection = FileSelection(),
        shard: DocumentShard | None = None,
    ) -> None:
        self._selection = selection
        self._shard = shard
        self._roots = resolve_roots([directory] if isinstance(directory, Path) else directory)
        self._archive = archive
        self._progress = progress or (lambda count, total, what: None)
        self._limits = limits
        self.index_folder = cache / "folders" / _hash_selection(self._roots, selection)
        """folder of the library's index in the cache"""
        if shard is not None:
            self.index_folder = shard.folder
        self._lock = threading.RLock()  # held to use the manifest and to change it and the index
        self._indexing_lock = threading.Lock()  # held by the thread that changes them, or waits to
        self._manifest: FolderManifest | None = None
        self._index: SearchIndex | None = None
        self._unreadable: list[Failure] = []
        self._unstored_pages: list[Page] = []  # read, but not yet in the archive
        # Added to the index since the last commit: path by digest.
        self._added_paths: dict[str, bytes] = {}
        self._removed_paths: set[bytes] = set()  # paths whose passages were removed since then
        try:
            self.refresh()
        except BaseException:
            self.close()
            raise

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The files and folders that could not be read, each with its reason."""
        with self._lock:
            return (*self._unreadable, *self._open_manifest().list_failed())

    @property
    def skipped(self) -> tuple[Failure, ...]:
        """The files and folders that are left out, each with its reason, by path.

        Outcomes: hidden, ignored, excluded, empty, unsupported_type, binary, minified, copy.
        """
        with self._lock:
            return self._open_manifest().list_left_out()

    def count_pages(self) -> int:
        """Return the number of files that were read, copies included."""
        with self._lock:
            return len(self._open_manifest().list_digests())

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the k best passages of the files, best first, by words and static vectors."""
        with translate_index_errors(self.index_folder):
            return self._open_index().search(query, k)

    def fetch(self, url: str) -> Page:
        """Return the page of the file at this `file://` address.

        A page that the archive has lost is read from the file again, and the index updated. Raises
        Failed: url_not_shown for what is no file of the library, or the reason why this one could
        not be read.
        """
        path = convert_url_to_path(url)
        with self._lock:
            row = self._open_manifest().find_row(path) if path else None
        if row is None:
            detail = "it is no file of this library: open addresses that a search showed"
            raise Failed(Failure(url, Outcome.URL_NOT_SHOWN, detail))
        if row.outcome:
            raise Failed(Failure(url, row.outcome, row.detail))
        return self._archive.find_page(row.digest, _path_to_url(row.path)) or self._reread_file(row)

    def contents_digest(self) -> str:
        """Return a digest of the texts of all files and of their paths below the folders.

        It changes whenever one of them does, and not when the folder is moved.
        """
        contents = []
        with self._lock:
            rows = self._open_manifest().list_read_files()
        for row in rows:
            root = next((root for root in self._roots if row.path.startswith(root)), b"")
            contents.append(f"{os.fsdecode(row.path.removeprefix(root))} {row.digest}")
        return digest_of("\n".join(sorted(contents)))

    def refresh(self) -> None:
        """Bring the index up to date: read new and changed files, and remove deleted ones.

        Where nothing changed, only sizes and times are read. Waits while another process or thread
        is indexing the folder. Raises Failed: empty_library where no file could be read, or why one
        of the folders named cannot be entered.
        """
        with self._lock:
            changed = self._read_format() != _join_formats() or bool(self._find_changes())
            changed = changed or self._lacks_vectors()
        if changed:
            with self._hold_index_lock():
                if (written := self._read_format()) != _join_formats():
                    if written.split(".")[:2] == _join_formats().split(".")[:2]:
                        # The index serves until each file is read again, and if that fails.
                        self._open_manifest().forget_contents(_join_formats())
                    else:
                        if (self.index_folder / "manifest.sqlite").is_file():
                            reason = "another version made this index: all files are read again"
                            self._progress(0, 0, reason)
                        self._start_over()
                changes = self._find_changes()
                self._apply_changes(changes)
                if changes.skipped is not None:
                    self._open_manifest().record_skipped(changes.skipped)
                if self._lacks_vectors():  # whoever indexed was killed before it computed them
                    with translate_index_errors(self.index_folder):
                        self._open_index().renew_vectors()
        with self._lock, translate_index_errors(self.index_folder):
            self._open_index().commit()  # shows what other processes have added, too
        selected = msgspec.structs.astuple(self._selection)
        note = IndexNote("folder", tuple(map(_path_to_url, self._roots)), time.time(), *selected)
        record_index_use(self.index_folder, note, changed)
        self._require_pages()

    def close(self) -> None:
        """Close the manifest and the index, but not the archive; a later call opens them again."""
        with self._lock:
            if self._manifest is not None:
                self._manifest.close()
            self._manifest = self._index = None
            self._unstored_pages.clear()
            self._added_paths.clear()
            self._removed_paths.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _hold_index_lock(self) -> Iterator[None]:
        """Lock the index against other processes and threads; what fails half-way is not kept
        open."""
        waiting = "another process is indexing this folder; waiting for it to finish"
        # In this order, so that threads that only read do not wait for another process.
        with (
            self._indexing_lock,
            hold_lock(self.index_folder / "lock", lambda: self._progress(0, 0, waiting)),
            self._lock,
        ):
            self.close()  # the process that had the lock may have begun a new manifest
            try:
                yield
            except BaseException:
                self.close()
                raise

    def _read_format(self) -> str:
        """Return the format of index and manifest; empty where they are missing or damaged."""
        if not (self.index_folder / "index" / "meta.json").is_file():
            return ""
        try:
            with translate_index_errors(self.index_folder):
                self._open_index()
            return self._open_manifest().read_format()
        except Failed as failed:
            if failed.failure.outcome not in (Outcome.UNREADABLE_ARCHIVE, Outcome.INDEX_FAILED):
                raise
            return ""

    def _start_over(self) -> None:
        self.close()
        for name in ("manifest.sqlite", "manifest.sqlite-wal", "manifest.sqlite-shm"):
            (self.index_folder / name).unlink(missing_ok=True)
        shutil.rmtree(self.index_folder / "index", ignore_errors=True)
        with translate_index_errors(self.index_folder):
            self._open_index()
        self._open_manifest().begin_index(_join_formats())

    def _open_manifest(self) -> FolderManifest:
        # The caller holds the lock, also while it uses what it is given.
        self._manifest = self._manifest or FolderManifest(self.index_folder / "manifest.sqlite")
        return self._manifest

    def _open_index(self) -> SearchIndex:
        with self._lock:
            if self._index is None:
                self._index = SearchIndex(self.index_folder / "index", self._shard is not None)
            return self._index

    def _lacks_vectors(self) -> bool:
        with translate_index_errors(self.index_folder):
            return self._shard is None and self._open_index().needs_vectors()

    def _find_changes(self) -> FolderChanges:
        changes = self._open_manifest().find_changes(self._roots, self._selection, self._shard)
        self._unreadable = changes.unreadable
        for failure in changes.unreadable:
            if os.fsencode(failure.what) in self._roots:
                raise Failed(failure)  # a disk that is not mounted is no folder without files
        return changes

    def _require_pages(self) -> None:
        with self._lock:
            if self._shard is not None or self._open_manifest().has_pages():
                return
        failed, skipped = self.failures, self.skipped
        examples, places = (*failed, *skipped)[:_EXAMPLES_NAMED], map(os.fsdecode, self._roots)
        named = "; ".join(f"{one.what}: {one.detail}" for one in examples)
        detail = (
            f"no file could be read ({len(failed)} failed, {len(skipped)} left out"
            f"{', such as ' * bool(named)}{named}); HTML, PDF, Office documents, "
            "e-books, mail, Markdown and text are read"
        )
        raise Failed(Failure(", ".join(places), Outcome.EMPTY_LIBRARY, detail))

    def _apply_changes(self, changes: FolderChanges) -> None:
        """Remove and read what changed, and commits after each so many bytes of files."""
        for row in changes.deleted:
            self._remove_passages(row)
        deleted, read_rows, size = changes.deleted, list[ManifestRow](), 0
        fresh = sorted(changes.changed, key=order_copies)
        for number, row in enumerate(self._read_files(fresh), 1):
            read_rows.append(row)
            size += row.stamp.size + _FILE_COST_BYTES
            if size >= self._limits.commit_bytes:
                self._commit(read_rows, deleted)
                deleted, read_rows, size = [], [], 0
            self._progress(number, len(changes.changed), os.fsdecode(row.path))
        self._commit(read_rows, deleted)

    def _read_files(self, rows: Sequence[ManifestRow]) -> Iterator[ManifestRow]:
        """Read these files, archive and index their pages; yield their new rows."""
        largest = self._limits.file.largest
        for row in rows:
            if row.stamp.size > largest:
                yield self._record_failure(row, build_too_large(row.path, largest))
        waiting = {row.path: row for row in rows if row.stamp.size <= largest}
        jobs = [ReadJob(path, _path_to_url(path), row.sha256) for path, row in waiting.items()]
        processes = _count_processes(list(waiting.values()), self._limits)
        for reading in read_jobs(jobs, self._limits.file, processes):
            yield self._accept_reading(waiting.pop(reading.job.path), reading)

    def _accept_reading(self, row: ManifestRow, reading: ReadResult) -> ManifestRow:
        if reading.failure is not None:
            return self._record_failure(row, reading.failure)
        if reading.page is None:
            return row  # touched, but with the same content
        self._unstored_pages.append(reading.page)
        if len(self._unstored_pages) >= _PAGES_AT_ONCE:
            self._store_pages()
        self._remove_passages(row)
        digest = reading.page.digest
        holders = self._open_manifest().find_by_digest(digest)
        # A text that another file has, too, is not added: `_commit` decides whose it is.
        if digest not in self._added_paths and all(holder.path == row.path for holder in holders):
            self._added_paths[digest] = row.path
            with translate_index_errors(self.index_folder):
                self._open_index().add_entries(reading.page.url, reading.entries)
        return row._replace(sha256=reading.sha256, digest=reading.page.digest)

    def _record_failure(self, row: ManifestRow, failure: Failure) -> ManifestRow:
        self._remove_passages(row)
        return ManifestRow(row.folder, row.name, row.stamp, "", "", failure.outcome, failure.detail)

    def _remove_passages(self, row: ManifestRow) -> None:
        # Also for a new file: an indexer killed before its manifest was written may have added it.
        self._removed_paths.add(row.path)
        with translate_index_errors(self.index_folder):
            self._open_index().remove(_path_to_url(row.path))

    def _store_pages(self) -> None:
        self._archive.store_pages(self._unstored_pages)
        self._unstored_pages.clear()

    def _commit(self, rows: Sequence[ManifestRow], deleted: Sequence[ManifestRow]) -> None:
        self._store_pages()
        self._index_copies(rows, deleted)
        with translate_index_errors(self.index_folder):
            self._open_index().commit()
        self._open_manifest().record_files(rows, deleted)

    def _index_copies(self, rows: Sequence[ManifestRow], deleted: Sequence[ManifestRow]) -> None:
        """Has the first of the files with one text indexed, where these changes made it another.

        Passages that were added and removed again would count as holding their words until
        tantivy merges its segments, so that nothing is moved without need.
        """
        manifest = self._open_manifest()
        changed = {row.path: row for row in (*deleted, *rows)}
        after = defaultdict[str, list[ManifestRow]](list)
        for row in rows:
            after[row.digest].append(row)
        former = (manifest.find_row(path) for path in changed)
        for digest in {*after, *(row.digest for row in former if row)} - {""}:
            before = manifest.find_by_digest(digest)
            holders = [*(row for row in before if row.path not in changed), *after[digest]]
            indexed_path = min(before, key=order_copies).path if before else b""
            remaining = b"" if indexed_path in self._removed_paths else indexed_path
            indexed = self._added_paths.get(digest) or remaining
            first = min(holders, key=order_copies, default=None)
            if first is None or first.path == indexed:
                continue
            url = _path_to_url(first.path)
            page = self._archive.find_page(digest, url)
            if page is None:
                [reading] = read_jobs([ReadJob(first.path, url)], self._limits.file, 1)
                page = reading.page
            if page is not None:  # else it changed just now, and the next opening reads it
                with translate_index_errors(self.index_folder):
                    if indexed:
                        self._open_index().remove(_path_to_url(indexed))
                    self._open_index().add(page)
        self._added_paths.clear()
        self._removed_paths.clear()

    def _reread_file(self, row: ManifestRow) -> Page:
        """Read a file again whose page the archive has lost, or never had."""
        url = _path_to_url(row.path)
        if not self._selection.follow_links and leads_out(row.path, self._roots):
            detail = "a link that leads out of the folder has taken its place"
            raise Failed(Failure(url, Outcome.LEADS_OUT, detail))
        with self._hold_index_lock():
            if self._archive.find_page(row.digest, url) is None:  # else another thread has read it
                self._apply_changes(FolderChanges([row._replace(sha256="")], [], []))
        return self.fetch(url)


def _hash_selection(roots: Sequence[bytes], selection: FileSelection) -> str:
    """Return the folder of an index: another for other places and for another selection of
    files."""
    patterns = b"" if selection == FileSelection() else b"\0\0" + msgspec.json.encode(selection)
    return sha256(b"\0".join(roots) + patterns).hexdigest()[:32]


def _join_formats() -> str:
    return f"{FOLDER_FORMAT}.{indexing.INDEX_FORMAT}.{READER_FORMAT}"


def _count_processes(rows: Sequence[ManifestRow], limits: FolderLimits) -> int:
    """Return the number of reader processes to start; one for a few small text files."""
    small = all(
        row.stamp.size <= limits.small_file_bytes
        and row.name.rpartition(b".")[2].lower() in _SAFE_EXTENSIONS
        for row in rows
    )
    return min(1 if small and len(rows) <= limits.few_files else limits.processes, len(rows))


def resolve_roots(paths: Sequence[Path]) -> list[bytes]:
    """Return the real paths as bytes, sorted, without those that lie within another.

    Raises Failed (not_found) where one does not exist.
    """
    for path in paths:
        if not (path.is_file() or path.is_dir()):
            detail = "there is no such file or folder: check the path"
            raise Failed(Failure(str(path), Outcome.NOT_FOUND, detail))
    real = sorted({os.path.realpath(os.fsencode(path)) for path in paths})
    return [root for root in real if not any(root.startswith(other + b"/") for other in real)]


def _path_to_url(path: bytes) -> str:
    return Path(os.fsdecode(path)).as_uri()


def convert_url_to_path(url: str) -> bytes:
    """Return the path that a `file://` address names, without `..`; it need not exist.

    Empty for other addresses and for files of other machines.
    """
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return b""
    return os.path.normpath(unquote_to_bytes(parts.path))

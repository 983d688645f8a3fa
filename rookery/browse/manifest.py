"""What is indexed of a folder: one row a file, in SQLite, beside the search index it vouches for.

It knows files by folder, name, size and time. It reads none of them.
"""
# Paths are bytes here: a name need not be valid text, and scanning is quicker so.
# ruff: noqa: PTH113, PTH116, PTH118

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rookery.browse.archive import connect, transaction, worded
from rookery.records import Failure

_TABLES = (
    "create table if not exists about (format text not null)",
    "create table if not exists files (folder blob, name blob, size int, mtime_ns int,"
    " sha256 text, digest text, outcome text, detail text, primary key (folder, name))"
    " without rowid",
)
_TICK_NS = 50_000_000
"""A file changed within this time of the look at it may change again and keep its time."""


class Stamp(NamedTuple):
    """What tells, without opening a file, that it is still the same."""

    size: int
    mtime_ns: int


class Row(NamedTuple):
    """One file. `digest` is of its page; `outcome` and `detail` are of its failure."""

    folder: bytes
    name: bytes
    stamp: Stamp
    sha256: str = ""
    digest: str = ""
    outcome: str = ""
    detail: str = ""

    @property
    def path(self) -> bytes:
        return os.path.join(self.folder, self.name)


class Changes(NamedTuple):
    """What must be done to make the index true again."""

    fresh: list[Row]
    """new or perhaps changed; `sha256` and `digest` are of what is indexed now"""
    gone: list[Row]
    unreadable: list[Failure]
    """folders that could not be entered"""


class Manifest:
    """The rows of one folder's index, in the SQLite file `path`, made where it does not exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with worded(path):
            self._file = connect(path)
            for statement in _TABLES:
                self._file.execute(statement)

    def format(self) -> str:
        """The format in which the index was written; empty where it was not begun."""
        with worded(self._path):
            row = self._file.execute("select format from about").fetchone()
        return str(row[0]) if row else ""

    def begin(self, written: str) -> None:
        """Declares the (empty) index to be written in this format."""
        with worded(self._path), transaction(self._file):
            self._file.execute("insert into about values (?)", (written,))

    def record(self, rows: Iterable[Row], gone: Iterable[Row]) -> None:
        """Says what the index now holds, all of it or nothing."""
        with worded(self._path), transaction(self._file):
            for row in gone:
                where = (row.folder, row.name)
                self._file.execute("delete from files where folder = ? and name = ?", where)
            for folder, name, stamp, *rest in rows:
                self._file.execute(
                    "insert or replace into files values (?, ?, ?, ?, ?, ?, ?, ?)",
                    (folder, name, *stamp, *rest),
                )

    def row(self, path: bytes) -> Row | None:
        """What is known of the file at this path."""
        folder, name = os.path.split(path)
        return next(self._rows("where folder = ? and name = ?", (folder, name)), None)

    def failed(self) -> Iterator[Row]:
        """The files that could not be read."""
        return self._rows("where outcome != ''")

    def read_files(self) -> Iterator[Row]:
        """The files that were read."""
        return self._rows("where outcome = ''")

    def has_pages(self) -> bool:
        """Whether any file was read."""
        return next(self._rows("where outcome = '' limit 1"), None) is not None

    def changes(self, roots: Sequence[bytes], wanted: frozenset[bytes]) -> Changes:
        """Compares the rows with the files below `roots` that have a wanted extension."""
        changes = Changes([], [], [])
        visited = set()
        newest = time.time_ns() - _TICK_NS
        for folder, files in _walk(roots, wanted, changes.unreadable):
            visited.add(folder)
            rows = {row.name: row for row in self._rows("where folder = ?", (folder,))}
            changes.gone.extend(row for name, row in rows.items() if name not in files)
            for name, stamp in files.items():
                known = rows.get(name)
                if known is None or known.stamp != stamp or known.outcome == "unreadable":
                    # A time that cannot be trusted is never equal to one that is seen.
                    kept = stamp if stamp.mtime_ns < newest else Stamp(stamp.size, -1)
                    good = known if known and not known.outcome else Row(folder, name, kept)
                    changes.fresh.append(good._replace(stamp=kept))
        for folder in self._folders() - visited:
            changes.gone.extend(self._rows("where folder = ?", (folder,)))
        return changes

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()

    def _folders(self) -> set[bytes]:
        with worded(self._path):
            return {folder for (folder,) in self._file.execute("select distinct folder from files")}

    def _rows(self, where: str, values: tuple[bytes, ...] = ()) -> Iterator[Row]:
        with worded(self._path):
            for folder, name, size, mtime, *rest in self._file.execute(
                f"select * from files {where}", values
            ):
                yield Row(folder, name, Stamp(size, mtime), *rest)


def _walk(
    roots: Sequence[bytes], wanted: frozenset[bytes], unreadable: list[Failure]
) -> Iterator[tuple[bytes, dict[bytes, Stamp]]]:
    """Each folder once, however many links lead to it, with the stamps of its wanted files."""
    waiting = deque(root for root in roots if not os.path.isfile(root))
    linked: deque[bytes] = deque()
    seen: set[tuple[int, int]] = set()
    while waiting or linked:
        folder = (waiting or linked).popleft()
        try:
            about = os.stat(folder)
            if (about.st_dev, about.st_ino) not in seen:
                seen.add((about.st_dev, about.st_ino))
                yield folder, _files(folder, wanted, waiting, linked)
        except OSError as error:
            detail = f"this folder cannot be entered ({error.strerror})"
            unreadable.append(Failure(os.fsdecode(folder), "unreadable", detail))
    yield from _named(roots)


def _files(
    folder: bytes, wanted: frozenset[bytes], waiting: deque[bytes], linked: deque[bytes]
) -> dict[bytes, Stamp]:
    files = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(b"."):
                continue
            try:
                if entry.is_dir():
                    # Links last, so that a file is found at its own path first.
                    (linked if entry.is_symlink() else waiting).append(entry.path)
                elif entry.name.rpartition(b".")[2].lower() in wanted and entry.is_file():
                    about = entry.stat()
                    files[entry.name] = Stamp(about.st_size, about.st_mtime_ns)
            except OSError:
                continue  # a link to itself, or gone since it was listed
    return files


def _named(roots: Sequence[bytes]) -> Iterator[tuple[bytes, dict[bytes, Stamp]]]:
    """The roots that are files, by folder; whoever names a file wants it, whatever its name."""
    found: dict[bytes, dict[bytes, Stamp]] = {}
    for root in roots:
        if os.path.isfile(root):
            folder, name = os.path.split(root)
            about = os.stat(root)
            found.setdefault(folder, {})[name] = Stamp(about.st_size, about.st_mtime_ns)
    yield from found.items()

"""What is indexed of a folder: one row a file, in SQLite, beside the search index it vouches for.

Files are known by folder, name, size and time; none is read here.
"""
# Paths are bytes here: a name need not be valid text, and scanning is quicker so.
# ruff: noqa: PTH118

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rookery.browse.archive import connect, transaction, worded
from rookery.browse.selection import Selection, Stamp, list_folders
from rookery.records import Failure

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
"""A file changed within this time of the look at it may change again and keep its time."""


LEFT_OUT = frozenset(("unsupported_type", "binary", "minified"))
"""Outcomes of files that were opened and are of no kind that is read: skipped, not failed."""


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


Skipped = Mapping[tuple[bytes, bytes], tuple[str, str]]
"""By (folder, name) of a file or folder that is left out: the outcome and the detail."""


class Changes(NamedTuple):
    """What must be done to make the index true again."""

    fresh: list[Row]
    """new or perhaps changed; `sha256` and `digest` are of what is indexed now"""
    gone: list[Row]
    unreadable: list[Failure]
    """folders that could not be entered"""
    skipped: Skipped | None = None
    """what is left out; None where that is what is recorded"""

    def __bool__(self) -> bool:
        """Tell whether there is anything to do."""
        return bool(self.fresh or self.gone or self.skipped is not None)


def order_copies(row: Row) -> tuple[int, bytes]:
    """Sort key of files with one text; the first is searched: nearest to the top, then by name."""
    return row.path.count(b"/"), row.path


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
        return (row for row in self._rows("where outcome != ''") if row.outcome not in LEFT_OUT)

    def left_out(self) -> tuple[Failure, ...]:
        """The files and folders that are left out, copies of others included, by path."""
        named = [(b"/".join(where), *why) for where, why in self.skipped().items()]
        opened = self._rows("where outcome != ''")
        kinds = [(row.path, row.outcome, row.detail) for row in opened if row.outcome in LEFT_OUT]
        copies = [
            (row.path, "copy", f"the same text as {first.path.decode('utf-8', 'replace')}")
            for first, *others in (sorted(rows, key=order_copies) for rows in self._copied())
            for row in others
        ]
        found = sorted((*named, *kinds, *copies))
        # For people and for JSON: a name need not be valid text.
        return tuple(Failure(path.decode("utf-8", "replace"), *why) for path, *why in found)

    def skipped(self) -> Skipped:
        """What is left out without being opened."""
        with worded(self._path):
            rows = self._file.execute("select * from skipped").fetchall()
        return {(folder, name): (outcome, detail) for folder, name, outcome, detail in rows}

    def record_skipped(self, skipped: Skipped) -> None:
        """Says what is left out, in place of what was recorded before."""
        rows = [(*where, *why) for where, why in skipped.items()]
        with worded(self._path), transaction(self._file):
            self._file.execute("delete from skipped")
            self._file.executemany("insert into skipped values (?, ?, ?, ?)", rows)

    def holders(self, digest: str) -> list[Row]:
        """The files whose text has this digest."""
        return list(self._rows("where digest = ?", (digest,)))

    def _copied(self) -> Iterator[list[Row]]:
        # Wherever that is more than one file, the files that have one text.
        find = "select digest from files where digest != '' group by digest having count(*) > 1"
        with worded(self._path):
            digests = self._file.execute(find).fetchall()
        return (self.holders(digest) for (digest,) in digests)

    def digests(self) -> list[str]:
        """The digest of each file that was read; of copies, the same one."""
        with worded(self._path):
            rows = self._file.execute("select digest from files where outcome = ''").fetchall()
        return [digest for (digest,) in rows]

    def read_files(self) -> Iterator[Row]:
        """The files that were read."""
        return self._rows("where outcome = ''")

    def has_pages(self) -> bool:
        """Whether any file was read."""
        return next(self._rows("where outcome = '' limit 1"), None) is not None

    def changes(self, roots: Sequence[bytes], selection: Selection) -> Changes:
        """Compares the rows with the files below `roots` that are selected."""
        changes = Changes([], [], [])
        visited = set()
        skipped: dict[tuple[bytes, bytes], tuple[str, str]] = {}
        newest = time.time_ns() - _TICK_NS
        for folder, files, left_out in list_folders(roots, selection, changes.unreadable):
            visited.add(folder)
            skipped.update(((folder, name), why) for name, why in left_out.items())
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
        return changes._replace(skipped=None if skipped == self.skipped() else skipped)

    def close(self) -> None:
        """Lets go of the file."""
        self._file.close()

    def _folders(self) -> set[bytes]:
        with worded(self._path):
            return {folder for (folder,) in self._file.execute("select distinct folder from files")}

    def _rows(self, where: str, values: tuple[bytes | str, ...] = ()) -> Iterator[Row]:
        with worded(self._path):
            for folder, name, size, mtime, *rest in self._file.execute(
                f"select * from files {where}", values
            ):
                yield Row(folder, name, Stamp(size, mtime), *rest)

"""Sittings that are not finished, kept on disk deed by deed, so that no death of a process and no
closed terminal loses one.

It knows nothing of what a deed does.
"""

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from rookery.browse.archive import packed, unpacked, worded
from rookery.browse.rules import Task
from rookery.records import Failed, Failure, Record
from rookery.serve.session import Settings
from rookery.serve.sitting import Deed

SUFFIX = ".sitting"


class Begun(Record, frozen=True, tag=True):
    """How a sitting began."""

    name: str
    """of its session in the recording"""
    task: Task
    settings: Settings
    out: str
    """the file of demonstrations that it is for"""


_row = msgspec.msgpack.Decoder(Begun | Deed)


class Unfinished:
    """One sitting in the SQLite file `path`, which this process alone holds until it is closed.

    A deed is there for good when `keep` returns. Every method raises `Failed`: disk_full,
    archive_busy (another process goes on with this sitting) or unreadable_archive.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: list[bytes] = []
        with worded(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            with worded(path):
                # Held by the system for as long as the process lives, and no longer.
                self._file.execute("pragma locking_mode = exclusive")
                self._file.execute("begin exclusive")
                self._file.execute(
                    "create table if not exists kept (number integer primary key, body blob)"
                )
                self._file.execute("commit")
        except Failed:
            self._file.close()
            raise

    def keep(self, deed: Begun | Deed) -> None:
        """Adds how it begins, first of all, or what was done, with all that could not be added
        before."""
        self._waiting.append(packed(deed))
        with worded(self._path):
            while self._waiting:
                self._file.execute("insert into kept (body) values (?)", (self._waiting[0],))
                del self._waiting[0]

    def read(self) -> tuple[Begun, list[Deed]]:
        """How it began and what was done."""
        with worded(self._path):
            rows = self._file.execute("select body from kept order by number").fetchall()
        try:
            begun, *deeds = (unpacked(body, _row) for (body,) in rows)
            if not isinstance(begun, Begun):
                raise ValueError("it has no beginning")
        except (ValueError, zlib.error, msgspec.MsgspecError) as error:
            detail = f"it is no unfinished sitting of this version: delete it ({error})"
            raise Failed(Failure(str(self._path), "unreadable_archive", detail)) from error
        return begun, [deed for deed in deeds if not isinstance(deed, Begun)]

    def delete(self) -> None:
        """It is finished, or dropped."""
        self.close()
        self._path.unlink(missing_ok=True)
        # Of a process that was killed; SQLite leaves it where nothing was written since.
        self._path.with_name(f"{self._path.name}-journal").unlink(missing_ok=True)

    def close(self) -> None:
        """Lets other processes go on with it."""
        self._file.close()


def unfinished(folder: Path) -> Iterator[Unfinished]:
    """The sittings in a folder that no living process holds, the latest first, each open."""
    for path in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        with suppress(Failed):
            yield Unfinished(path)

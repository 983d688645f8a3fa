"""What libraries that keep an index on disk share: one writer at a time, a note of what the index
is of, and worded errors.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from rookery.browse.archive import worded
from rookery.records import Failed, Failure


@contextmanager
def alone(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds the lock `path` against all other processes; calls `waiting` if one has it now.

    The system takes the lock from a process that dies, so a killed one never blocks another.
    """
    with worded(path):
        lock = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        told = False
        while not _locked(lock, path):
            if not told:
                waiting()
            told = True
            time.sleep(0.05)
        yield
    finally:
        lock.close()


def _locked(lock: sqlite3.Connection, path: Path) -> bool:
    try:
        lock.execute("begin exclusive")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            return False
        with worded(path):
            raise
    return True


@contextmanager
def index_worded(place: Path) -> Iterator[None]:
    """Turns the errors of a search index below `place` into `Failed`: disk_full, index_failed."""
    try:
        yield
    except (ValueError, OSError) as error:
        full = any(sign in str(error) for sign in _FULL)
        outcome = "disk_full" if full else "index_failed"
        advice = "make room" if full else f"delete {place}"
        detail = f"the search index cannot be used: {advice} and run again ({error})"
        raise Failed(Failure(str(place), outcome, detail)) from error


_FULL = ("No space left", "os error 28", "File too large", "os error 27")

NOTE = "place.json"


class IndexNote(msgspec.Struct, frozen=True):
    """What the index in a folder of the cache is of; its file has the time of the last use."""

    kind: str
    """folder, site or warc"""
    addresses: tuple[str, ...]
    """of the folders and files (`file://`), or of the site"""
    refreshed: float
    """when the index was last made or changed, in seconds since 1970"""
    glob: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """the patterns by which files are selected"""


def note_use(directory: Path, note: IndexNote, changed: bool) -> None:
    """Notes that an index was used now, and changed or not. What cannot be written is let be."""
    path = directory / NOTE
    with suppress(OSError):
        if not changed and path.is_file():
            os.utime(path)
            return
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_bytes(msgspec.json.encode(note))
        draft.replace(path)


def read_note(directory: Path) -> IndexNote | None:
    """The note of an index; None where there is none that can be read."""
    try:
        return msgspec.json.decode((directory / NOTE).read_bytes(), type=IndexNote)
    except (OSError, msgspec.MsgspecError):
        return None

"""What libraries that keep an index on disk share: one writer at a time, and worded errors.

It knows neither files nor pages.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

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

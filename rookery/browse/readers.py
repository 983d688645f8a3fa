"""Reads many files into pages, in processes of their own where that is faster or safer.

The process that reads a file also prepares its passages for the index, the larger part of the work.
A file that hangs or kills its reader, or needs too much memory, costs that file and nothing else.
"""

import hashlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from pathlib import Path
from socket import socketpair
from typing import TypeAlias

import msgspec

from rookery.browse.index import IndexEntry, index_entries
from rookery.records import Failed, Failure, Page

Line: TypeAlias = "Connection[bytes, bytes]"

_HEAD = 64 * 1024
"""bytes by which a file is found to be binary"""
_TYPES = {"html": "text/html", "htm": "text/html", "xhtml": "application/xhtml+xml"}
"""of fragments that do not begin like HTML"""


class FileLimits(msgspec.Struct, frozen=True):
    """What one file may cost."""

    largest: int = 64 * 2**20
    """bytes of a file; a larger one is not read"""
    seconds: float = 60.0
    """to read one file (where files are read in processes of their own)"""
    memory: int = 768 * 2**20
    """bytes that a reading process may use (where the system can hold it to that)"""


class Job(msgspec.Struct, frozen=True, array_like=True):
    """One file to read. `known` is the SHA-256 of the content that has been read before."""

    path: bytes
    url: str
    known: str = ""


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """What became of a file: a page, a failure, or neither where the content is the known one."""

    job: Job
    sha256: str = ""
    page: Page | None = None
    failure: Failure | None = None
    entries: list[IndexEntry] = []
    """the page's passages, for the index"""


def read_all(jobs: Iterable[Job], limits: FileLimits, processes: int) -> Iterator[Reading]:
    """Reads every job, in any order; within this process where `processes` is 0."""
    if processes == 0 or os.name != "posix":
        yield from (read_file(job, limits) for job in jobs)
        return
    rest = iter(jobs)
    readers = [_Reader(limits) for _ in range(processes)]
    busy: dict[Line, _Reader] = {}
    try:
        for reader, job in zip(readers, rest, strict=False):
            busy[reader.give(job)] = reader
        while busy:
            for ready in wait(list(busy)):
                reader = busy[ready]  # type: ignore[index]
                reading = reader.take()
                if reading is None:
                    continue
                del busy[ready]  # type: ignore[arg-type]
                for job in itertools.islice(rest, 1):
                    busy[reader.give(job)] = reader
                yield reading
    finally:
        for reader in readers:
            reader.stop()


def read_file(job: Job, limits: FileLimits) -> Reading:
    """Reads one file within this process."""
    name = os.fsdecode(job.path)
    try:
        data = _content(job.path, limits.largest)
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 == job.known:
            return Reading(job, sha256)
    except Failed as failed:
        return Reading(job, failure=msgspec.structs.replace(failed.failure, what=name))
    except OSError as error:
        return Reading(job, failure=Failure(name, "unreadable", error.strerror or str(error)))
    try:
        page = _page(job, data)
        return Reading(job, sha256, page, entries=index_entries(page))
    except Failed as failed:
        return Reading(job, sha256, failure=msgspec.structs.replace(failed.failure, what=name))
    except MemoryError:
        detail = f"reading it needs more than {limits.memory >> 20} MB of memory"
        return Reading(job, sha256, failure=Failure(name, "too_large", detail))
    except Exception as error:  # a parser may raise anything; it is recorded, not hidden
        return Reading(job, sha256, failure=Failure(name, "crashed", repr(error)[:500]))


def _content(path: bytes, largest: int) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 (a path of bytes may be no valid text)
        data = file.read(_HEAD)
        if len(data) == _HEAD:
            _require_readable(path, data)
            data += file.read(largest + 1 - _HEAD)
    if len(data) > largest:
        raise Failed(too_large(path, largest))
    return data


def _require_readable(path: bytes, head: bytes) -> None:
    """Raises Failed for a file that is binary by its first bytes, before the rest is read."""
    from rookery.browse.read import read, sniff

    url = Path(os.fsdecode(path)).as_uri()
    document = b"%PDF-" in head[:1024] or head.startswith((b"PK", b"\xd0\xcf\x11\xe0"))
    if not document and not sniff(head, url):
        read(head, url)


def too_large(path: bytes, largest: int) -> Failure:
    """The failure of a file above the limit."""
    return Failure(os.fsdecode(path), "too_large", f"it has more than {largest:,} bytes")


def _page(job: Job, data: bytes) -> Page:
    from rookery.browse.read import read

    now = datetime.now(UTC).isoformat(timespec="seconds")
    ending = os.fsdecode(job.path).rpartition(".")[2].lower()
    page = read(data, job.url, _TYPES.get(ending, ""), now)
    page.to_json().encode()  # what cannot be written down cannot be kept
    return page


class _Reader:
    """A process that reads one file at a time. It dies with the file that kills it."""

    def __init__(self, limits: FileLimits) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Line

    def give(self, job: Job) -> "Line":
        """Hands over a job; the connection becomes ready when `take` has something to take."""
        self._job = job
        with suppress(BrokenPipeError, ConnectionResetError):  # `take` will say that it has died
            if self._process is None or self._process.poll() is not None:
                self.stop()
                self._start()
                self._line.send_bytes(msgspec.msgpack.encode(self._limits))
            self._line.send_bytes(msgspec.msgpack.encode(job))
        return self._line

    def take(self) -> Reading | None:
        """The reading of the job given last; None: not yet, the process has just begun."""
        try:
            message = self._line.recv_bytes()
        except (EOFError, OSError):
            return Reading(self._job, failure=self._post_mortem())
        if not message:
            self._begun = True
            return None
        return msgspec.msgpack.decode(message, type=Reading)

    def stop(self) -> None:
        """Ends the process, whatever it is doing."""
        if self._process is not None:
            self._line.close()
            self._process.kill()
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        ours, theirs = socketpair()
        with theirs:
            # Not multiprocessing: it would run the user's main module again in the child.
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE, repr(sys.path), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._begun = False
        self._line = Connection(ours.detach())

    def _post_mortem(self) -> Failure:
        name = os.fsdecode(self._job.path)
        code = self._process.wait() if self._process else 0
        if not self._begun and code >= 0:
            # It ended by itself, which is not this file's fault: every other file would fail with
            # it. One that a signal ended may have begun, and its word of that be lost with it.
            detail = f"{sys.executable} ended with code {code}; rookery must be importable in it"
            raise Failed(Failure(name, "no_reader", detail))
        if code == -signal.SIGALRM:
            detail = f"reading it took more than {self._limits.seconds:g} s"
            return Failure(name, "timed_out", detail)
        return Failure(name, "crashed", f"the process that read it ended with code {code}")


_SERVE = (
    "import ast, sys; sys.path[:] = ast.literal_eval(sys.argv[1]); "
    "from rookery.browse.readers import serve; serve(int(sys.argv[2]))"
)


def serve(line: int) -> None:
    """The life of a reading process: limits first, then jobs, until the other end is gone."""
    with Connection(line) as connection:
        try:
            import rookery.browse.read  # noqa: F401 (what it needs does not count as the file's)

            connection.send_bytes(b"")
            limits = msgspec.msgpack.decode(connection.recv_bytes(), type=FileLimits)
            _hold_memory(limits.memory)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            while True:
                job = msgspec.msgpack.decode(connection.recv_bytes(), type=Job)
                # The default action of the alarm ends the process even inside C code.
                signal.setitimer(signal.ITIMER_REAL, limits.seconds)
                reading = msgspec.msgpack.encode(read_file(job, limits))
                signal.setitimer(signal.ITIMER_REAL, 0)
                connection.send_bytes(reading)
        except (EOFError, OSError):
            return


def _hold_memory(size: int) -> None:
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most == resource.RLIM_INFINITY or size < most:
        resource.setrlimit(resource.RLIMIT_DATA, (size, most))

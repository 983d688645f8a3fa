"""Read many files into pages, in processes of their own where that is faster or safer.

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

from rookery.browse.search_index import IndexEntry, build_index_entries
from rookery.records import Failed, Failure, Page

ReaderConnection: TypeAlias = "Connection[bytes, bytes]"

_HEAD = 64 * 1024
"""bytes by which a file is found to be binary"""
_TYPES = {"html": "text/html", "htm": "text/html", "xhtml": "application/xhtml+xml"}
"""of fragments that do not begin like HTML"""


class FileLimits(msgspec.Struct, frozen=True):
    """Limits of reading one file: bytes, seconds and memory."""

    largest: int = 64 * 2**20
    """bytes of a file; a larger one is not read"""
    seconds: float = 60.0
    """to read one file (where files are read in processes of their own)"""
    memory: int = 768 * 2**20
    """bytes that a reading process may use (where the system can hold it to that)"""


class ReadJob(msgspec.Struct, frozen=True, array_like=True):
    """One file to read. `known` is the SHA-256 of the content that has been read before."""

    path: bytes
    url: str
    known: str = ""


class ReadResult(msgspec.Struct, frozen=True, array_like=True):
    """The result of reading a file: a page, a failure, or neither if its content is the known
    one."""

    job: ReadJob
    sha256: str = ""
    page: Page | None = None
    failure: Failure | None = None
    entries: list[IndexEntry] = []
    """the page's passages, for the index"""


def read_jobs(jobs: Iterable[ReadJob], limits: FileLimits, processes: int) -> Iterator[ReadResult]:
    """Yield the result of each job, as it is finished, read by so many processes.

    Where `processes` is 0, or the system is not POSIX, files are read here and in order. Raises
    Failed (no_reader) if processes cannot start.
    """
    if processes == 0 or os.name != "posix":
        yield from (read_file(job, limits) for job in jobs)
        return
    rest = iter(jobs)
    readers = [_ReaderProcess(limits) for _ in range(processes)]
    busy: dict[ReaderConnection, _ReaderProcess] = {}
    try:
        for reader, job in zip(readers, rest, strict=False):
            busy[reader.send_job(job)] = reader
        while busy:
            for ready in wait(list(busy)):
                reader = busy[ready]  # type: ignore[index]
                reading = reader.take_result()
                if reading is None:
                    continue
                del busy[ready]  # type: ignore[arg-type]
                for job in itertools.islice(rest, 1):
                    busy[reader.send_job(job)] = reader
                yield reading
    finally:
        for reader in readers:
            reader.stop()


def read_file(job: ReadJob, limits: FileLimits) -> ReadResult:
    """Read one file in this process; what goes wrong is returned as the result's failure.

    The result has neither page nor failure if the content is the one that `job.known` names.
    """
    name = os.fsdecode(job.path)
    try:
        data = _read_content(job.path, limits.largest)
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 == job.known:
            return ReadResult(job, sha256)
    except Failed as failed:
        return ReadResult(job, failure=msgspec.structs.replace(failed.failure, what=name))
    except OSError as error:
        return ReadResult(job, failure=Failure(name, "unreadable", error.strerror or str(error)))
    try:
        page = _read_job_page(job, data)
        return ReadResult(job, sha256, page, entries=build_index_entries(page))
    except Failed as failed:
        return ReadResult(job, sha256, failure=msgspec.structs.replace(failed.failure, what=name))
    except MemoryError:
        detail = f"reading it needs more than {limits.memory >> 20} MB of memory"
        return ReadResult(job, sha256, failure=Failure(name, "too_large", detail))
    except Exception as error:  # a parser may raise anything; it is recorded, not hidden
        return ReadResult(job, sha256, failure=Failure(name, "crashed", repr(error)[:500]))


def _read_content(path: bytes, largest: int) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 (a path of bytes may be no valid text)
        data = file.read(_HEAD)
        if len(data) == _HEAD:
            _require_readable(path, data)
            data += file.read(largest + 1 - _HEAD)
    if len(data) > largest:
        raise Failed(build_too_large(path, largest))
    return data


def _require_readable(path: bytes, head: bytes) -> None:
    """Raise Failed for a file that is binary by its first bytes, before the rest is read."""
    from rookery.browse.page_reader import detect_type, read_page

    url = Path(os.fsdecode(path)).as_uri()
    document = b"%PDF-" in head[:1024] or head.startswith((b"PK", b"\xd0\xcf\x11\xe0"))
    if not document and not detect_type(head, url):
        read_page(head, url)


def build_too_large(path: bytes, largest: int) -> Failure:
    """Return the failure of a file that has more than `largest` bytes."""
    return Failure(os.fsdecode(path), "too_large", f"it has more than {largest:,} bytes")


def _read_job_page(job: ReadJob, data: bytes) -> Page:
    from rookery.browse.page_reader import read_page

    now = datetime.now(UTC).isoformat(timespec="seconds")
    ending = os.fsdecode(job.path).rpartition(".")[2].lower()
    page = read_page(data, job.url, _TYPES.get(ending, ""), now)
    page.to_json().encode()  # what cannot be written down cannot be kept
    return page


class _ReaderProcess:
    """A process that reads one file at a time. It dies with the file that kills it."""

    def __init__(self, limits: FileLimits) -> None:
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._line: ReaderConnection

    def send_job(self, job: ReadJob) -> "ReaderConnection":
        """Hand over a job; the connection becomes ready when `take_result` can read something."""
        self._job = job
        # If it has died, `take_result` will say so.
        with suppress(BrokenPipeError, ConnectionResetError):
            if self._process is None or self._process.poll() is not None:
                self.stop()
                self._start()
                self._line.send_bytes(msgspec.msgpack.encode(self._limits))
            self._line.send_bytes(msgspec.msgpack.encode(job))
        return self._line

    def take_result(self) -> ReadResult | None:
        """Return the reading of the job given last; None: not yet, the process has just begun."""
        try:
            message = self._line.recv_bytes()
        except (EOFError, OSError):
            return ReadResult(self._job, failure=self._describe_death())
        if not message:
            self._begun = True
            return None
        return msgspec.msgpack.decode(message, type=ReadResult)

    def stop(self) -> None:
        """End the process, whatever it is doing."""
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

    def _describe_death(self) -> Failure:
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
    "from rookery.browse.reader_processes import serve_jobs; serve_jobs(int(sys.argv[2]))"
)


def serve_jobs(line: int) -> None:
    """Run a reader process: take its limits, then read jobs until the connection is closed.

    `line` is the file descriptor of the connection.
    """
    with Connection(line) as connection:
        try:
            import rookery.browse.page_reader  # noqa: F401 (what it needs does not count as the file's)

            connection.send_bytes(b"")
            limits = msgspec.msgpack.decode(connection.recv_bytes(), type=FileLimits)
            _limit_memory(limits.memory)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            while True:
                job = msgspec.msgpack.decode(connection.recv_bytes(), type=ReadJob)
                # The default action of the alarm ends the process even inside C code.
                signal.setitimer(signal.ITIMER_REAL, limits.seconds)
                reading = msgspec.msgpack.encode(read_file(job, limits))
                signal.setitimer(signal.ITIMER_REAL, 0)
                connection.send_bytes(reading)
        except (EOFError, OSError):
            return


def _limit_memory(size: int) -> None:
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most == resource.RLIM_INFINITY or size < most:
        resource.setrlimit(resource.RLIMIT_DATA, (size, most))

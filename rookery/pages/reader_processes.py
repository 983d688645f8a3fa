"""Read pages in warm processes of their own, with limits on time and memory.

A page that hangs or kills its reader, or needs too much memory, costs that page and nothing else.
`ReaderPool` reads bytes for any number of threads; `read_jobs` reads many files, and prepares their
passages for the index in the same process, the larger part of the work.
"""

import gc
import hashlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from pathlib import Path
from socket import socketpair
from typing import Self, TypeAlias

import msgspec

from rookery.errors import Failed, Outcome
from rookery.pages.page_parts import ReadLimits
from rookery.pages.passages import IndexEntry, build_index_entries
from rookery.pages.text_documents import read_text
from rookery.records import Failure, Page, prepare_type
from rookery.typed_files import require_regular_file

ReaderConnection: TypeAlias = "Connection[bytes, bytes]"

_HEAD = 64 * 1024
"""bytes by which a file is found to be binary"""
_TYPES = {"html": "text/html", "htm": "text/html", "xhtml": "application/xhtml+xml"}
"""of fragments that do not begin like HTML"""
_BLOATED = 128 * 2**20
"""bytes of memory that a process may hold after a page; with more, another takes its place"""
_PROGRAM = 64 * 2**20
"""bytes of the limit of memory for the program's own files, which the system does not count"""
_PATIENCE = 0.2
"""seconds in which no process of a pool becomes free, after which it starts one more"""


class FileLimits(msgspec.Struct, frozen=True, array_like=True):
    """Limits of reading one file or page: bytes, seconds and memory."""

    largest: int = 64 * 2**20
    """bytes of a file; a larger one is not read"""
    seconds: float = 60.0
    """to read one file (where it is read in another process)"""
    memory: int = 2**30
    """bytes that a reading process may use (where the system can hold it to that)"""


class ReadJob(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One file to read. `known` is the SHA-256 of the content that has been read before."""

    path: bytes
    url: str
    known: str = ""

    @property
    def name(self) -> str:
        """Path of the file, as failures name it."""
        return os.fsdecode(self.path)


class PageJob(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The bytes of one page to read, and what is known about them."""

    data: bytes
    url: str
    content_type: str = ""
    fetched: str = ""
    limits: ReadLimits = ReadLimits()
    extracted: bool = False
    """text that another program has taken from a page: read as it is, whatever it looks like"""

    @property
    def name(self) -> str:
        """Address of the page, as failures name it."""
        return self.url


class ReadResult(msgspec.Struct, frozen=True, array_like=True):
    """The result of reading a file or page: a page, a failure, or neither if a file's content is
    the known one."""

    job: ReadJob
    """of a page, its address alone"""
    sha256: str = ""
    page: Page | None = None
    failure: Failure | None = None
    entries: list[IndexEntry] = []
    """the passages of a file's page, for the index"""


class _Order(msgspec.Struct, frozen=True, array_like=True):
    """A job and its limits, as they are sent to a reader process."""

    job: ReadJob | PageJob
    limits: FileLimits


class ReaderPool:
    """Reads pages in warm processes; safe to share between threads, each of which reads at once.

    Processes are started when pages come: `processes` of them, and one more whenever none becomes
    free for a moment, so that pages that hang do not keep others waiting. A process uses at most
    `memory` bytes. On systems other than POSIX, pages are read in the calling process.
    """

    def __init__(
        self, processes: int = os.cpu_count() or 1, memory: int = FileLimits().memory
    ) -> None:
        self._processes = processes
        self._memory = memory
        self._changed = threading.Condition()
        self._idle: list[_ReaderProcess] = []
        self._busy: list[_ReaderProcess] = []
        self._taken = 0.0
        """when a process was last given a page, in time.monotonic()"""
        self._closed = False
        self._stop_idle = weakref.finalize(self, _stop_readers, self._idle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def start(self) -> None:
        """Start a process if there is none yet, so that it is ready when the first page comes.

        Where the system starts none, the first page tries again, and says so.
        """
        with self._changed, suppress(Failed):
            if os.name == "posix" and not (self._idle or self._busy or self._closed):
                self._idle.append(_ReaderProcess(self._memory))
                self._idle[0].start("")

    def read_page(self, job: PageJob, seconds: float = FileLimits().seconds) -> Page:
        """Return the page that these bytes are, read within so many seconds.

        It waits for the page. Raises Failed with the outcomes of `page_reader.read_page`, and
        timed_out, too_large (it needs too much memory), crashed, no_reader (the process ends as it
        starts, or the system starts none); RuntimeError once the pool is closed. Time and memory
        are not bounded on systems other than POSIX.
        """
        until = time.monotonic() + seconds
        limits = FileLimits(seconds=seconds, memory=self._memory)
        if os.name != "posix":
            result = _read_bytes(job, limits)
        else:
            reader = self._take_reader()
            try:
                result = reader.read(_Order(job, limits), until)
            finally:
                self._put_back(reader)
        if result.failure is not None:
            raise Failed(result.failure)
        assert result.page is not None  # bytes that are not a file's are always read
        return result.page

    def close(self) -> None:
        """End all processes; a page that another thread is reading fails (crashed).

        The pool cannot be used again.
        """
        with self._changed:
            self._closed = True
            self._stop_idle()
            for reader in self._busy:
                reader.kill_process()

    def _take_reader(self) -> "_ReaderProcess":
        with self._changed:
            while not self._closed and not self._idle and len(self._busy) >= self._processes:
                seconds_left = self._taken + _PATIENCE - time.monotonic()
                if seconds_left <= 0:
                    break
                self._changed.wait(seconds_left)
            if self._closed:
                raise RuntimeError("this ReaderPool is closed; make a new one")
            reader = self._idle.pop() if self._idle else _ReaderProcess(self._memory)
            self._busy.append(reader)
            self._taken = time.monotonic()
            return reader

    def _put_back(self, reader: "_ReaderProcess") -> None:
        with self._changed:
            self._busy.remove(reader)
            kept = not self._closed and len(self._idle) < self._processes
            if kept:
                self._idle.append(reader)
            self._changed.notify()
        if not kept:
            reader.stop()


def _stop_readers(readers: "list[_ReaderProcess]") -> None:
    while readers:
        readers.pop().stop()


def read_jobs(jobs: Iterable[ReadJob], limits: FileLimits, processes: int) -> Iterator[ReadResult]:
    """Yield the result of each job, as it is finished and in no order, read by so many processes.

    Jobs are taken as processes become free, and the processes end with the iteration. Where
    `processes` is 0, or the system is not POSIX, files are read here and in order, as `read_file`
    does. Raises Failed (no_reader) if processes end as they start, or where the system starts none.
    """
    if processes == 0 or os.name != "posix":
        yield from (read_file(job, limits) for job in jobs)
        return
    rest = iter(jobs)
    readers = [_ReaderProcess(limits.memory) for _ in range(processes)]
    busy: dict[ReaderConnection, _ReaderProcess] = {}
    try:
        for reader, job in zip(readers, rest, strict=False):
            busy[reader.send(_Order(job, limits))] = reader
        while busy:
            for ready in wait(list(busy)):
                reader = busy[ready]  # type: ignore[index]
                reading = reader.take_result()
                if reading is None:
                    continue
                del busy[ready]  # type: ignore[arg-type]
                for job in itertools.islice(rest, 1):
                    busy[reader.send(_Order(job, limits))] = reader
                yield reading
    finally:
        _stop_readers(readers)


def read_file(job: ReadJob, limits: FileLimits) -> ReadResult:
    """Read one file in this process; what goes wrong is returned as the result's failure.

    The result has neither page nor failure if the content is the one that `job.known` names. Of the
    limits only `largest` is enforced here.
    """
    sha256 = ""
    try:
        data = _read_content(job.path, limits.largest)
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 == job.known:
            return ReadResult(job, sha256)
        page = _read_file_page(job, data)
        return ReadResult(job, sha256, page, entries=build_index_entries(page))
    except Exception as error:  # a parser may raise anything; it is recorded, not hidden
        return ReadResult(job, sha256, failure=_describe_error(error, job, limits))


def _read_bytes(job: PageJob, limits: FileLimits) -> ReadResult:
    """Read one page in this process; what goes wrong is returned as the result's failure."""
    from rookery.pages.page_reader import read_page
    from rookery.pages.text_encoding import decode_text

    try:
        if job.extracted:
            page = read_text(decode_text(job.data, job.content_type, False), job.url, job.fetched)
        else:
            page = read_page(job.data, job.url, job.content_type, job.fetched, job.limits)
        return ReadResult(_name_job(job), page=page)
    except Exception as error:  # a parser may raise anything; it is recorded, not hidden
        return ReadResult(_name_job(job), failure=_describe_error(error, job, limits))


def _name_job(job: ReadJob | PageJob) -> ReadJob:
    return job if isinstance(job, ReadJob) else ReadJob(b"", job.url)


def _describe_error(error: Exception, job: ReadJob | PageJob, limits: FileLimits) -> Failure:
    if isinstance(error, Failed):
        return msgspec.structs.replace(error.failure, what=job.name)
    if isinstance(error, OSError) and isinstance(job, ReadJob):
        return Failure(job.name, Outcome.UNREADABLE, error.strerror or str(error))
    if isinstance(error, MemoryError):
        detail = f"reading it needs more than {limits.memory >> 20:,} MB of memory"
        return Failure(job.name, Outcome.TOO_LARGE, detail)
    if isinstance(error, UnicodeEncodeError):
        detail = f"it holds half a character, which cannot be written ({error.reason})"
        return Failure(job.name, Outcome.MALFORMED, detail)
    return Failure(job.name, Outcome.CRASHED, repr(error)[:500])


def _read_content(path: bytes, largest: int) -> bytes:
    with open(require_regular_file(path), "rb") as file:  # noqa: PTH123 (see there)
        data = file.read(_HEAD)
        if len(data) == _HEAD:
            _require_readable(path, data)
            data += file.read(largest + 1 - _HEAD)
    if len(data) > largest:
        raise Failed(build_too_large(path, largest))
    return data


def _require_readable(path: bytes, head: bytes) -> None:
    """Raise Failed for a file that is binary by its first bytes, before the rest is read."""
    from rookery.pages.page_reader import detect_type, read_page

    url = Path(os.fsdecode(path)).as_uri()
    document = b"%PDF-" in head[:1024] or head.startswith((b"PK", b"\xd0\xcf\x11\xe0"))
    if not document and not detect_type(head, url):
        read_page(head, url)


def build_too_large(path: bytes, largest: int) -> Failure:
    """Return the failure of a file that has more than `largest` bytes."""
    return Failure(os.fsdecode(path), Outcome.TOO_LARGE, f"it has more than {largest:,} bytes")


def _read_file_page(job: ReadJob, data: bytes) -> Page:
    from rookery.pages.page_reader import read_page

    now = datetime.now(UTC).isoformat(timespec="seconds")
    ending = job.name.rpartition(".")[2].lower()
    page = read_page(data, job.url, _TYPES.get(ending, ""), now)
    page.to_json().encode()  # what cannot be written down cannot be kept
    return page


class _ReaderProcess:
    """A process that reads one page at a time. It dies with the page that kills it, and the next
    job starts another."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._process: subprocess.Popen[bytes] | None = None
        self._line: ReaderConnection
        self._begun = False
        """it has said that it can take a job"""

    def read(self, order: _Order, until: float) -> ReadResult:
        """Return the result of a job; it ends at a moment of time.monotonic() at the latest."""
        self._prepare_process(order)
        sent = False
        while True:
            if self._begun and not sent:
                self._send_order()
                sent = True
            if not self._line.poll(max(0.0, until - time.monotonic())):
                self.stop()
                return self._make_failure(self._describe_timeout())
            result = self.take_result()
            if result is not None:
                return result

    def send(self, order: _Order) -> "ReaderConnection":
        """Hand over a job; the connection becomes ready when `take_result` can read something."""
        self._prepare_process(order)
        self._send_order()
        return self._line

    def take_result(self) -> ReadResult | None:
        """Return the result of the job given last; None: not yet, the process has just begun."""
        try:
            message = self._line.recv_bytes()
        except (EOFError, OSError):
            return self._make_failure(self._describe_death())
        if not message:
            self._begun = True
            return None
        return msgspec.msgpack.decode(message, type=prepare_type(ReadResult))

    def start(self, name: str) -> None:
        """Start the process, for the page or file of this name. Raises Failed (no_reader)."""
        try:
            parent_socket, child_socket = socketpair()
            with parent_socket, child_socket:
                self._process = subprocess.Popen(
                    build_worker_command(serve_jobs, child_socket.fileno(), self._memory),
                    pass_fds=[child_socket.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                self._line = Connection(parent_socket.detach())
        except OSError as error:
            detail = f"no process can be started to read it ({error.strerror}): end other programs"
            raise Failed(Failure(name, Outcome.NO_READER, detail)) from error
        self._begun = False

    def kill_process(self) -> None:
        """End the process from another thread than the one that waits for its result."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._line.close()
            self._process.kill()
            self._process.wait()
            self._process = None

    def _prepare_process(self, order: _Order) -> None:
        self._order = order
        if not self._is_alive():
            self.stop()
            self.start(order.job.name)

    def _is_alive(self) -> bool:
        """Tell whether the process lives and, after an earlier job, has asked for another."""
        if self._process is None or self._process.poll() is not None:
            return False
        try:
            return not self._begun or (self._line.poll(10) and not self._line.recv_bytes())
        except (EOFError, OSError):
            return False

    def _send_order(self) -> None:
        # If it has died, `take_result` will say so.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._line.send_bytes(msgspec.msgpack.encode(self._order))

    def _make_failure(self, failure: Failure) -> ReadResult:
        return ReadResult(_name_job(self._order.job), failure=failure)

    def _describe_timeout(self) -> Failure:
        detail = f"reading it took more than {self._order.limits.seconds:.3g} s"
        return Failure(self._order.job.name, Outcome.TIMED_OUT, detail)

    def _describe_death(self) -> Failure:
        name = self._order.job.name
        code = self._process.wait() if self._process else 0
        if not self._begun and code >= 0:
            # It ended by itself, which is not this page's fault: every other would fail with it.
            # One that a signal ended may have begun, and its word of that be lost with it.
            detail = f"{sys.executable} ended with code {code}; rookery must be importable in it"
            raise Failed(Failure(name, Outcome.NO_READER, detail))
        if code == -signal.SIGALRM:
            return self._describe_timeout()
        if code == -signal.SIGABRT:
            # Libraries in C and C++ end their process where Python would raise MemoryError.
            detail = f"its reader gave up, as it does when {self._memory >> 20:,} MB are not enough"
            return Failure(name, Outcome.TOO_LARGE, detail)
        ended = signal.Signals(-code).name if code < 0 else f"code {code}"
        return Failure(name, Outcome.CRASHED, f"the process that read it ended with {ended}")


_CALL = (
    "import ast, importlib, sys; sys.path[:] = ast.literal_eval(sys.argv[1]); "
    "getattr(importlib.import_module(sys.argv[2]), sys.argv[3])(*map(int, sys.argv[4:]))"
)


def build_worker_command(serve: Callable[..., None], *numbers: int) -> list[str]:
    """Return the command of a Python process that calls a function of a module with these numbers.

    Not multiprocessing: it would run the user's main module again in the child.
    """
    call = [sys.executable, "-c", _CALL, repr(sys.path), serve.__module__, serve.__name__]
    return [*call, *map(str, numbers)]


def serve_jobs(line: int, memory: int) -> None:
    """Run a reader process: read jobs until the connection is closed.

    `line` is the file descriptor of the connection, `memory` the bytes that may be used. An empty
    message asks for the next job; a process that holds too much memory ends instead.
    """
    with Connection(line) as connection, suppress(EOFError, OSError):
        import rookery.pages.page_reader  # noqa: F401 (what it needs does not count as the page's)

        gc.freeze()  # these two save a fiftieth of the time
        gc.set_threshold(50_000)
        _limit_memory(memory)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        while _read_memory_in_use() < _BLOATED:
            connection.send_bytes(b"")
            connection.send_bytes(_run_order(connection.recv_bytes()))


def _run_order(message: bytes) -> bytes:
    order = msgspec.msgpack.decode(message, type=prepare_type(_Order))
    job, limits = order.job, order.limits
    # The default action of the alarm ends the process even inside C code.
    signal.setitimer(signal.ITIMER_REAL, limits.seconds)
    try:
        read = read_file(job, limits) if isinstance(job, ReadJob) else _read_bytes(job, limits)
        return msgspec.msgpack.encode(read)
    except (MemoryError, UnicodeEncodeError) as error:  # of what was read, while it was encoded
        failure = _describe_error(error, job, limits)
        return msgspec.msgpack.encode(ReadResult(_name_job(job), failure=failure))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit_memory(size: int) -> None:
    import resource

    size -= _PROGRAM
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most == resource.RLIM_INFINITY or size < most:
        resource.setrlimit(resource.RLIMIT_DATA, (size, most))


def _read_memory_in_use() -> int:
    """Return the bytes of memory that this process holds; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")

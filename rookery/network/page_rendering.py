"""Render pages that need JavaScript in a local Chromium, whose every request is made by a Fetcher.

Chromium runs below a process of its own (`network.chromium_worker`), which has no way to the
network but to ask here, and which is ended with all its children when the page is there or its
time is up.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from tempfile import TemporaryDirectory
from typing import TypeAlias

import msgspec

from rookery.errors import Failed, Outcome
from rookery.network.access_rules import FetchError, normalize_url
from rookery.network.fetcher import Fetcher, FetchResponse
from rookery.records import Failure, prepare_type

WorkerConnection: TypeAlias = "Connection[bytes, bytes]"

_DOCUMENT_TYPES = ("text/html", "application/xhtml+xml")
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class RenderLimits(msgspec.Struct, frozen=True):
    """Limits of rendering one page."""

    seconds: float = 30.0
    """for all of it, the start of Chromium included"""
    settle: float = 3.0
    """seconds after loading for which requests that are under way are waited for"""
    memory: int = 1 << 30
    """bytes of data that each process of Chromium may have"""
    bytes: int = 20_000_000
    """of the page as its scripts leave it"""
    requests: int = 300
    """that a page may make"""
    received: int = 60_000_000
    """bytes of all answers to them"""
    documents: int = 10
    """that scripts may lead on to"""
    parallel: int = 6
    """requests at a time"""
    browsers: int = 2
    """pages rendered at a time"""


class RenderJob(msgspec.Struct, frozen=True, tag=True):
    """A page for the worker to render."""

    url: str
    chromium: str
    """path of the program; empty: the one that Playwright installed"""
    user_agent: str
    limits: RenderLimits


class RenderRequest(msgspec.Struct, frozen=True, tag=True):
    """A request that the page makes."""

    number: int
    url: str
    accept: str = "*/*"
    document: bool = False
    """it would take the page's place"""


class RenderReply(msgspec.Struct, frozen=True, tag=True):
    """The answer to a request. One without `url` was refused."""

    number: int
    url: str = ""
    content_type: str = ""
    data: bytes = b""


class RenderResult(msgspec.Struct, frozen=True, tag=True):
    """The page as scripts left it, as HTML in UTF-8, or why there is none."""

    html: bytes = b""
    outcome: str = ""
    detail: str = ""


class ChromiumRenderer:
    """Renders pages; threads may share one.

    Requests are made by `others`, which opens public addresses only; where the page is in a private
    network itself, the Fetcher that fetched it makes those to its own origin. So a page reads
    nothing else in a private network, even where the user may open it.
    """

    def __init__(
        self, others: Fetcher, user_agent: str, limits: RenderLimits = RenderLimits()
    ) -> None:
        self._others = others
        self._user_agent = user_agent
        self._limits = limits
        self._slots = threading.BoundedSemaphore(limits.browsers)

    def render_page(self, fetcher: Fetcher, page: FetchResponse) -> FetchResponse:
        """Return a fetched page as its scripts leave it. Raises Failed.

        Outcomes: no_renderer, timed_out, too_large, too_many_redirects, crashed.
        """
        if find_spec("playwright") is None:
            detail = "install it with pip install 'rookery[render]', and Chromium, for --render"
            raise Failed(Failure(page.url, Outcome.NO_RENDERER, detail))
        with self._slots:
            rendering = _Rendering(fetcher, self._others, page, self._limits)
            with TemporaryDirectory(prefix="rookery-render-") as place:
                result = rendering.run(find_chromium(), self._user_agent, Path(place))
        if result.outcome:
            raise Failed(Failure(page.url, result.outcome, result.detail))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return FetchResponse(
            rendering.document_url, 200, "text/html; charset=utf-8", result.html, now
        )


def find_chromium() -> str:
    """Return the path of an installed Chromium or Chrome; empty if there is none on the PATH."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), "")


class _Rendering:
    """One page that is being rendered, and what its requests have used up."""

    def __init__(
        self, fetcher: Fetcher, others: Fetcher, page: FetchResponse, limits: RenderLimits
    ) -> None:
        self._own, self._others, self._page, self._limits = fetcher, others, page, limits
        self._origin = normalize_url(page.url).origin
        self._lock = threading.Lock()
        self._requests = 0
        self._received = 0
        self._followed: dict[str, FetchResponse] = {page.url: page}
        self.document_url = page.url

    def run(self, chromium: str, user_agent: str, place: Path) -> RenderResult:
        until = time.monotonic() + self._limits.seconds
        parent_socket, child_socket = socketpair()
        with child_socket:
            process = _start_worker(child_socket.fileno(), place)
        requests = ThreadPoolExecutor(self._limits.parallel)
        with Connection(parent_socket.detach()) as line:
            try:
                job = RenderJob(self._page.url, chromium, user_agent, self._limits)
                line.send_bytes(msgspec.msgpack.encode(job))
                while line.poll(max(0.0, until - time.monotonic())):
                    message = _message_decoder.decode(line.recv_bytes())
                    if isinstance(message, RenderResult):
                        return message
                    requests.submit(self._send_reply, line, message)
                detail = f"its scripts had not ended after {self._limits.seconds:g} s"
                return RenderResult(outcome=Outcome.TIMED_OUT, detail=detail)
            except (EOFError, OSError):
                code = process.poll()
                detail = f"the process that rendered it ended ({code}); rookery doctor says more"
                return RenderResult(outcome=Outcome.CRASHED, detail=detail)
            finally:
                _kill_tree(process)
                requests.shutdown(wait=False, cancel_futures=True)

    def _send_reply(self, line: WorkerConnection, request: RenderRequest) -> None:
        reply = self._answer(request)
        with suppress(OSError), self._lock:  # the worker may be gone by now
            line.send_bytes(msgspec.msgpack.encode(reply))

    def _answer(self, request: RenderRequest) -> RenderReply:
        try:
            got = self._fetch(request)
        except (Failed, FetchError, ValueError, RuntimeError):
            return RenderReply(request.number)
        with self._lock:
            self._received += len(got.data)
            if self._received > self._limits.received:
                return RenderReply(request.number)
            if request.document:
                if not got.content_type.lower().startswith(_DOCUMENT_TYPES):
                    return RenderReply(request.number)  # the browser would save it as a file
                self._followed[got.url] = got
                self.document_url = got.url
        return RenderReply(request.number, got.url, got.content_type, got.data)

    def _fetch(self, request: RenderRequest) -> FetchResponse:
        target = normalize_url(request.url)
        if request.document and target.url in self._followed:
            return self._followed[target.url]
        with self._lock:
            self._requests += 1
            if self._requests > self._limits.requests:
                raise FetchError(Outcome.TOO_LARGE, "the page makes too many requests")
        request_key = (target.url, request.accept, request.document)
        try:
            return self._others.fetch_resource(*request_key, within_origin=False)
        except Failed as failed:
            if failed.failure.outcome != Outcome.BLOCKED_ADDRESS or target.origin != self._origin:
                raise
        return self._own.fetch_resource(*request_key, within_origin=True)


_message_decoder = msgspec.msgpack.Decoder(prepare_type(RenderRequest | RenderResult))

_SERVE = (
    "import ast, sys; sys.path[:] = ast.literal_eval(sys.argv[1]); "
    "from rookery.network.chromium_worker import serve_rendering; serve_rendering(int(sys.argv[2]))"
)


def _start_worker(line: int, place: Path) -> "subprocess.Popen[bytes]":
    """Start the worker with a folder for all that it writes, and without the keys of this one."""
    environment = {
        "PATH": os.pathsep.join(os.get_exec_path()),
        "HOME": str(place),
        "TMPDIR": str(place),
        "PLAYWRIGHT_BROWSERS_PATH": str(Path.home() / ".cache/ms-playwright"),
    }
    return subprocess.Popen(
        [sys.executable, "-c", _SERVE, repr(sys.path), str(line)],
        pass_fds=[line],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _kill_tree(process: "subprocess.Popen[bytes]") -> None:
    """End the worker and all processes below it: Chromium leaves the worker's process group."""
    for number in _list_descendants(process.pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(number, signal.SIGKILL)
    process.kill()
    process.wait()


def _list_descendants(pid: int) -> list[int]:
    """Return the processes below one, as /proc knows them; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(status.read_text("utf-8", "replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(status.parent.name))
    descendants, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        descendants += below
        waiting += below
    return descendants

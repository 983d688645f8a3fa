"""Render pages that need JavaScript in a local Chromium, whose every request is made by a Fetcher.

Chromium runs below a process of its own (`serve_rendering`), which has no way to the network but to
ask here, and which is ended with all its children when the page is there or its time is up.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from rookery.errors import Failed, Outcome
from rookery.network.access_rules import FetchError, normalize_url
from rookery.network.fetcher import Fetcher, FetchResponse
from rookery.pages.reader_processes import build_worker_command
from rookery.records import Failure, prepare_type

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Frame, Page, Playwright, Route

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
    waiting: float = 120.0
    """seconds for which a page waits while others are rendered"""


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
        """Return a fetched page as its scripts leave it: HTML in UTF-8 without the scripts.

        Its URL is where the scripts have led. It waits while `limits.browsers` other pages are
        rendered, `limits.waiting` seconds at most, and then `limits.seconds`. Raises Failed:
        no_renderer, timed_out, too_large, too_many_redirects, crashed.
        """
        if find_spec("playwright") is None:
            detail = "install it with pip install 'rookery[render]', and Chromium, for --render"
            raise Failed(Failure(page.url, Outcome.NO_RENDERER, detail))
        if not self._slots.acquire(timeout=self._limits.waiting):
            detail = "other pages that are rendered took all the time: try again later"
            raise Failed(Failure(page.url, Outcome.TIMED_OUT, detail))
        try:
            rendering = _Rendering(fetcher, self._others, page, self._limits)
            # Where no more files can be opened, the folder cannot be emptied either.
            with TemporaryDirectory(prefix="rookery-render-", ignore_cleanup_errors=True) as place:
                result = rendering.run(find_chromium(), self._user_agent, Path(place))
        finally:
            self._slots.release()
        if result.outcome:
            raise Failed(Failure(page.url, result.outcome, result.detail))
        now, url = datetime.now(UTC).isoformat(timespec="milliseconds"), rendering.document_url
        return FetchResponse(url, 200, "text/html; charset=utf-8", result.html, now)


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
        try:
            parent_socket, child_socket = socketpair()
            with parent_socket, child_socket:
                process = _start_worker(child_socket.fileno(), place)
                connection = Connection(parent_socket.detach())
        except OSError as error:
            detail = f"no process can be started to render it ({error.strerror})"
            return RenderResult(outcome=Outcome.CRASHED, detail=f"{detail}: end other programs")
        requests = ThreadPoolExecutor(self._limits.parallel)
        with connection as line:
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
_reply_decoder = msgspec.msgpack.Decoder(prepare_type(RenderReply))


def _start_worker(line: int, place: Path) -> "subprocess.Popen[bytes]":
    """Start the worker with a folder for all that it writes, and without the keys of this one."""
    environment = {
        "PATH": os.pathsep.join(os.get_exec_path()),
        "HOME": str(place),
        "TMPDIR": str(place),
        "PLAYWRIGHT_BROWSERS_PATH": str(Path.home() / ".cache/ms-playwright"),
    }
    return subprocess.Popen(
        build_worker_command(serve_rendering, line),
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


# The process below which Chromium runs: it passes on every request and answers none itself.

_ARGUMENTS = [
    # What interception does not see finds no proxy, and a proxy is wanted for every address.
    "--proxy-server=http://proxy.invalid:9",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--renderer-process-limit=2",
]
_TEXTLESS = {"image", "media", "font", "texttrack", "eventsource", "websocket", "ping", "manifest"}
"""kinds of requests that bring no text, or never end"""
_FILE_BYTES = 256 * 2**20
"""largest file that Chromium may write"""
_LEAD_ON = b"<!doctype html><script>location.replace(%s)</script>"

AskParent = Callable[[RenderRequest], Awaitable[RenderReply]]


def serve_rendering(line: int) -> None:
    """Run a worker process: take a job, pass requests on, send the result, and end.

    `line` is the file descriptor of the connection.
    """
    with Connection(line) as connection:
        job = msgspec.msgpack.decode(connection.recv_bytes(), type=prepare_type(RenderJob))
        _limit_resources(job)
        try:
            asyncio.run(_run_job(connection, job))
        except Exception as error:  # whatever the browser's driver raises
            connection.send_bytes(msgspec.msgpack.encode(_describe_error(error, job)))


def _limit_resources(job: RenderJob) -> None:
    import resource

    limits = {resource.RLIMIT_DATA: job.limits.memory, resource.RLIMIT_FSIZE: _FILE_BYTES}
    for kind, size in (limits | {resource.RLIMIT_CORE: 0}).items():
        _, most = resource.getrlimit(kind)
        if most == resource.RLIM_INFINITY or size < most:
            resource.setrlimit(kind, (size, size))
    # If the one who waits is gone, nobody ends this process but itself.
    signal.alarm(round(job.limits.seconds) + 10)


async def _run_job(connection: WorkerConnection, job: RenderJob) -> None:
    from playwright.async_api import async_playwright

    loop = asyncio.get_running_loop()
    waiting: dict[int, asyncio.Future[RenderReply]] = {}

    def take_replies() -> None:
        while True:
            try:
                reply = _reply_decoder.decode(connection.recv_bytes())
            except (EOFError, OSError):
                os._exit(1)  # nobody waits for the page any more
            loop.call_soon_threadsafe(waiting[reply.number].set_result, reply)

    async def ask_parent(request: RenderRequest) -> RenderReply:
        number = len(waiting)
        waiting[number] = loop.create_future()
        numbered = msgspec.structs.replace(request, number=number)
        connection.send_bytes(msgspec.msgpack.encode(numbered))
        return await waiting[number]

    threading.Thread(target=take_replies, daemon=True).start()
    async with async_playwright() as playwright:
        result = await _render(playwright, job, ask_parent)
        connection.send_bytes(msgspec.msgpack.encode(result))  # before it is closed, which may hang


async def _render(playwright: "Playwright", job: RenderJob, ask: AskParent) -> RenderResult:
    from playwright.async_api import Error

    try:
        browser = await playwright.chromium.launch(
            executable_path=job.chromium or None,
            args=_ARGUMENTS,
            chromium_sandbox=os.geteuid() != 0,  # it refuses to start as root
        )
    except Error as error:
        detail = "Chromium does not start: install it (apt install chromium, or playwright install"
        reason = str(error).partition("\n")[0]  # playwright draws a box below it
        detail = f"{detail} chromium): {reason}"[:400]
        return RenderResult(outcome=Outcome.NO_RENDERER, detail=detail)
    context = await browser.new_context(
        user_agent=job.user_agent, service_workers="block", accept_downloads=False
    )
    page = await context.new_page()
    ended: asyncio.Future[RenderResult] = asyncio.get_running_loop().create_future()

    def end_early(result: RenderResult) -> None:
        if not ended.done():
            ended.set_result(result)

    page.on("crash", lambda _: end_early(_describe_crash(job)))
    await _intercept_requests(context, page, job, ask, end_early)
    reading = asyncio.ensure_future(_read_dom(page, job))
    await asyncio.wait([reading, ended], return_when=asyncio.FIRST_COMPLETED)
    return ended.result() if ended.done() else reading.result()


async def _intercept_requests(
    context: "BrowserContext",
    page: "Page",
    job: RenderJob,
    ask: AskParent,
    end_early: Callable[[RenderResult], None],
) -> None:
    """Pass the requests of the page to `ask`, and refuse those of other windows and frames.

    `end_early` receives the result where scripts lead on to too many documents.
    """
    documents: list[str] = []

    async def handle_route(route: "Route") -> None:
        request = route.request
        if not request.is_navigation_request():
            passed_on = request.method == "GET" and request.resource_type not in _TEXTLESS
            reply = await _ask_for(route, ask, False) if passed_on else None
            if reply is None:
                await route.abort("blockedbyclient")
            else:
                await route.fulfill(headers=_build_headers(route, reply), body=reply.data)
            return
        documents.append(request.url)
        if len(documents) > job.limits.documents:
            detail = f"its scripts lead on to more than {job.limits.documents} pages"
            end_early(RenderResult(outcome=Outcome.TOO_MANY_REDIRECTS, detail=detail))
        passed_on = request.method == "GET" and page.main_frame == _find_frame(route)
        reply = await _ask_for(route, ask, True) if passed_on else None
        if reply is None:
            await route.fulfill(status=204)  # the page stays where it is
        elif reply.url == request.url.partition("#")[0]:
            await route.fulfill(headers=_build_headers(route, reply), body=reply.data)
        else:
            # A redirect: the page must have the address that it came from.
            body = _LEAD_ON % msgspec.json.encode(reply.url).replace(b"<", b"\\u003c")
            await route.fulfill(content_type="text/html", body=body)

    await context.route("**/*", handle_route)
    await context.route_web_socket(re.compile(".*"), lambda socket: socket.close())
    context.on("page", lambda other: asyncio.ensure_future(other.close()))


async def _ask_for(route: "Route", ask: AskParent, document: bool) -> RenderReply | None:
    """Return the answer to a request; None where it is refused."""
    url = route.request.url
    if not url.startswith(("http:", "https:")):
        return None
    accept = route.request.headers.get("accept", "*/*")
    reply = await ask(RenderRequest(0, url, accept, document))
    return reply if reply.url else None


def _build_headers(route: "Route", reply: RenderReply) -> dict[str, str]:
    """Return headers that let every script read the answer, which came without cookies."""
    return {
        "Content-Type": reply.content_type,
        "Access-Control-Allow-Origin": route.request.headers.get("origin", "*"),
        "Access-Control-Allow-Credentials": "true",
    }


def _find_frame(route: "Route") -> "Frame | None":
    """Return the frame that a document is for; None for that of a new window."""
    from playwright.async_api import Error

    try:
        return route.request.frame
    except Error:
        return None


async def _read_dom(page: "Page", job: RenderJob) -> RenderResult:
    from playwright.async_api import Error

    load, settle = job.limits.seconds * 1000 / 3, job.limits.settle * 1000
    await page.goto(job.url, wait_until="commit", timeout=job.limits.seconds * 1000)
    html = None
    while html is None:
        if page.is_closed():
            return RenderResult(outcome=Outcome.CRASHED, detail="the browser ended before the page")
        with suppress(Error):  # it does not come where the page would have left for what is refused
            await page.wait_for_load_state("load", timeout=load)
        with suppress(Error):  # some pages ask for ever
            await page.wait_for_load_state("networkidle", timeout=settle)
        with suppress(Error):  # it may be leaving for another page
            html = await page.content()
    if not page.url.startswith(("http:", "https:")):  # Chromium's own page about an error
        detail = f"the browser shows {page.url[:80]} instead"
        return RenderResult(outcome=Outcome.CRASHED, detail=detail)
    data = _strip_scripts(html).encode("utf-8", "replace")
    if len(data) > job.limits.bytes:
        detail = f"its scripts made a page of more than {job.limits.bytes:,} bytes"
        return RenderResult(outcome=Outcome.TOO_LARGE, detail=detail)
    return RenderResult(data)


def _strip_scripts(html: str) -> str:
    """Leave out scripts, which have done their work, and what stands for them where none run."""
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(html)
    for node in tree.css("script:not([type='application/ld+json']), noscript"):
        node.decompose()
    return tree.html or ""


def _describe_crash(job: RenderJob) -> RenderResult:
    size = job.limits.memory >> 20
    detail = f"its scripts needed more than {size} MB of memory, or brought the browser down"
    return RenderResult(outcome=Outcome.TOO_LARGE, detail=detail)


def _describe_error(error: Exception, job: RenderJob) -> RenderResult:
    said = str(error)
    if "crash" in said.lower():
        return _describe_crash(job)
    if "Timeout" in said:
        detail = f"its scripts had not ended after {job.limits.seconds:g} s"
        return RenderResult(outcome=Outcome.TIMED_OUT, detail=detail)
    return RenderResult(outcome=Outcome.CRASHED, detail=f"the browser failed: {said[:300]}")

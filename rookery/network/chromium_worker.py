"""The process below which Chromium renders one page: it passes on every request and answers none
itself."""

import asyncio
import os
import re
import resource
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import msgspec

from rookery.errors import Outcome
from rookery.network.page_rendering import (
    RenderJob,
    RenderReply,
    RenderRequest,
    RenderResult,
    WorkerConnection,
)
from rookery.records import prepare_type

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Frame, Page, Playwright, Route

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
    for kind, size in (
        (resource.RLIMIT_DATA, job.limits.memory),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
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
                reply = msgspec.msgpack.decode(
                    connection.recv_bytes(), type=prepare_type(RenderReply)
                )
            except (EOFError, OSError):
                os._exit(1)  # nobody waits for the page any more
            loop.call_soon_threadsafe(waiting[reply.number].set_result, reply)

    async def ask_parent(request: RenderRequest) -> RenderReply:
        number = len(waiting)
        waiting[number] = loop.create_future()
        connection.send_bytes(
            msgspec.msgpack.encode(msgspec.structs.replace(request, number=number))
        )
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
        return RenderResult(
            outcome=Outcome.NO_RENDERER, detail=f"{detail} chromium): {reason}"[:400]
        )
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
        return RenderResult(
            outcome=Outcome.CRASHED, detail=f"the browser shows {page.url[:80]} instead"
        )
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

"""What stands before every page: headers, the origin of what is sent, its size and its rate.

It knows nothing of people and of what the pages say.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SAFE = ("GET", "HEAD", "OPTIONS")
STATIC = "/static/"
UPLOADS = "/documents"
PROGRAMS = ("/v1", "/search", "/retrieve", "/mcp")
"""addresses that look at keys, sizes and rates themselves, and say what is wrong their own way"""
Refuse = Callable[[Scope, int, str], ASGIApp]
"""a page that says why not: of what was asked, the status, and a sentence"""


class Limits(msgspec.Struct, frozen=True):
    """How much one visitor may send."""

    body: int = 2_000_000
    """bytes of one form"""
    uploaded: int = 50_000_000
    """bytes of documents that are sent at once"""
    sent: int = 600
    """forms a minute from one session"""
    entered: int = 30
    """tries to enter a minute from one address"""
    watched: int = 10_000
    """visitors whose rate is remembered; beyond, those seen longest ago are forgotten"""


def refused(scope: Scope, status: int, sentence: str) -> ASGIApp:
    """The plainest page that says why not."""
    return PlainTextResponse(sentence, status)


class Guard:
    """Lets through what a page of ours sent, as far as the limits go; sets the headers of all.

    Unsafe methods must come from our own pages: Sec-Fetch-Site says so, or else Origin is Host
    (ASVS 3.5.1). `state.nonce` is new for every answer; only scripts that carry it run.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits = Limits(),
        refuse: Refuse = refused,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app = app
        self.limits = limits
        self.refuse = refuse
        self._rates = _Rates(limits.watched, clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        nonce = scope.setdefault("state", {})["nonce"] = secrets.token_urlsafe(16)
        static = scope["path"].startswith(STATIC)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _set_headers(MutableHeaders(scope=message), nonce, static)
            await send(message)

        app, body = self.app, _Body(receive, self._most(scope))
        asked = scope["method"] not in SAFE and not for_programs(scope["path"])
        if asked and (problem := self._problem(scope)):
            app = self.refuse(scope, *problem)
        try:
            await app(scope, body.receive, guarded)
        except TooMuch:
            sentence = "That is more than can be sent at once. Shorten it, then send it again."
            await self.refuse(scope, 413, sentence)(scope, receive, guarded)

    def _most(self, scope: Scope) -> int:
        return self.limits.uploaded if scope["path"] == UPLOADS else self.limits.body

    def _problem(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        if not same_origin(headers):
            return 403, "This was sent from another site. Open the desk itself and send it there."
        if _declared(headers) > self._most(scope):
            return 413, "That is more than can be sent at once. Shorten it, then send it again."
        address = (scope.get("client") or ("", 0))[0]
        visitor = f"{address} {headers.get('cookie', '')}"
        entering = scope["path"].startswith("/enter/")
        often = self.limits.entered if entering else self.limits.sent
        if not self._rates.admits(f"enter {address}" if entering else visitor, often):
            return 429, "That was very quick. Wait a minute, then send it again: nothing is lost."
        return None


class TooMuch(Exception):
    """A body that goes on beyond the limit."""


class _Body:
    """What is received, as long as it stays below a size in bytes."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._left = limit

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise TooMuch
        return message


class _Rates:
    """How often each visitor came in the last minute, as a bucket that fills up again."""

    def __init__(self, watched: int, clock: Callable[[], float]) -> None:
        self._watched = watched
        self._clock = clock
        self._buckets: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def admits(self, visitor: str, often: int) -> bool:
        key, now = hash(visitor), self._clock()
        left, at = self._buckets.pop(key, (float(often), now))
        left = min(float(often), left + (now - at) * often / 60)
        self._buckets[key] = (left - 1 if left >= 1 else left, now)
        if len(self._buckets) > self._watched:
            self._buckets.popitem(last=False)
        return left >= 1


def for_programs(path: str) -> bool:
    """Whether programs ask at this address, and not pages."""
    return any(path == each or path.startswith(f"{each}/") for each in PROGRAMS)


def same_origin(headers: Headers) -> bool:
    """Whether a page of this very site sent it, as far as the browser says."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    # Programs that are no browser send neither; they hold no cookie that a page could misuse.
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")


def _declared(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 19 else 0


def _set_headers(headers: MutableHeaders, nonce: str, static: bool) -> None:
    headers["Content-Security-Policy"] = policy(nonce)
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "same-origin"  # without any, Origin would be null
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    headers["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
    headers.setdefault("Cache-Control", "no-store")
    if static and headers["Cache-Control"] == "no-store":
        headers["Cache-Control"] = "no-cache"


def policy(nonce: str) -> str:
    """What a page may load and run: its own files, and of scripts those that it names itself."""
    return (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "object-src 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types htmx"
    )

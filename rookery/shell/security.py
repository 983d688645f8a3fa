"""Security middleware: response headers, origin check, size and rate limits of forms."""

import ipaddress
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rookery.shell.languages import mark_text

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
STATIC_PREFIX = "/static/"
UPLOAD_PATH = "/documents"
API_PATHS = ("/v1", "/search", "/retrieve", "/mcp")
"""paths of the API, which check keys, sizes and rates themselves and answer errors in JSON"""
TOO_LARGE = mark_text("That is more than can be sent at once. Shorten it, then send it again.")
FOREIGN_FORM = mark_text("This was sent from another site. Open the desk itself and send it there.")
TOO_FREQUENT = mark_text("That was very quick. Wait a minute, then send it again: nothing is lost.")
RefusalPage = Callable[[Scope, int, str], ASGIApp]
"""makes the page of a refusal from the scope, a status and a sentence"""


class VisitorLimits(msgspec.Struct, frozen=True):
    """Limits on requests of one visitor."""

    body: int = 2_000_000
    """maximum bytes of one form"""
    uploaded: int = 50_000_000
    """maximum bytes of documents uploaded at once"""
    sent: int = 600
    """maximum forms per minute of one session"""
    entered: int = 30
    """maximum sign-in attempts per minute from one network address"""
    watched: int = 10_000
    """number of visitors whose rate is tracked; beyond it, the least recent are forgotten"""


def build_plain_refusal(scope: Scope, status: int, sentence: str) -> ASGIApp:
    """Return a plain-text response with a status and a sentence."""
    return PlainTextResponse(sentence, status)


class SecurityMiddleware:
    """ASGI middleware that refuses forged, oversized and too frequent forms and sets headers.

    Unsafe methods must come from our own pages: Sec-Fetch-Site says so, or else Origin equals Host
    (ASVS 3.5.1). `state.nonce` is new for every response; only scripts that carry it run.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: VisitorLimits = VisitorLimits(),
        refuse: RefusalPage = build_plain_refusal,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.app = app
        self.limits = limits
        self.refuse = refuse
        self._rates = TokenBuckets(clock, limits.watched)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, and answer 403, 413 or 429 in place of the application."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        nonce = scope.setdefault("state", {})["nonce"] = secrets.token_urlsafe(16)
        static = scope["path"].startswith(STATIC_PREFIX)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _set_headers(MutableHeaders(scope=message), nonce, static)
            await send(message)

        app, body = self.app, _LimitedBody(receive, self._choose_body_limit(scope))
        needs_token = scope["method"] not in SAFE_METHODS and not is_api_path(scope["path"])
        if needs_token and (problem := self._find_problem(scope)):
            app = self.refuse(scope, *problem)
        try:
            await app(scope, body.receive_part, send_with_headers)
        except BodyTooLargeError:
            await self.refuse(scope, 413, TOO_LARGE)(scope, receive, send_with_headers)

    def _choose_body_limit(self, scope: Scope) -> int:
        return self.limits.uploaded if scope["path"] == UPLOAD_PATH else self.limits.body

    def _find_problem(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        if not is_same_origin(headers):
            return 403, FOREIGN_FORM
        if read_content_length(headers) > self._choose_body_limit(scope):
            return 413, TOO_LARGE
        address = (scope.get("client") or ("", 0))[0]
        visitor = f"{address} {headers.get('cookie', '')}"
        entering = scope["path"].startswith("/enter/")
        often = self.limits.entered if entering else self.limits.sent
        if self._rates.take_token(f"enter {address}" if entering else visitor, often):
            return 429, TOO_FREQUENT
        return None


class BodyTooLargeError(Exception):
    """The body of a request exceeds its size limit."""


class _LimitedBody:
    """A receive channel that raises BodyTooLargeError beyond a number of bytes."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._left = limit

    async def receive_part(self) -> Message:
        """Return the next message. Raises BodyTooLargeError beyond the limit."""
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise BodyTooLargeError
        return message


class TokenBuckets:
    """Requests per minute of each client of this process, as token buckets. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, watched: int = 10_000) -> None:
        self._clock = clock
        self._watched = watched
        self._lock = threading.Lock()
        self._buckets: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def take_token(self, client: str, often: float) -> float:
        """Count a request and return 0; beyond `often` a minute only return the seconds to wait."""
        key, now = hash(client), self._clock()
        with self._lock:
            left, at = self._buckets.pop(key, (often, now))
            left = min(often, left + (now - at) * often / 60)
            self._buckets[key] = (left - (left >= 1), now)
            if len(self._buckets) > self._watched:
                self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) * 60 / often


def is_api_path(path: str) -> bool:
    """Return True if a path belongs to the API and not to a page."""
    return any(path == each or path.startswith(f"{each}/") for each in API_PATHS)


def is_loopback(host: str) -> bool:
    """Return True if a host, an address or a name, is this very machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_same_origin(headers: Headers) -> bool:
    """Return True if the headers show a page of this site, or no browser, as the sender."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    # Clients other than browsers send neither header; they hold no cookie to misuse.
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")


def read_content_length(headers: Headers) -> int:
    """Return the number of bytes that a request says it has; 0 if it says none, or no number.

    It is no limit on what comes: requests need not say it.
    """
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 19 else 0


def _set_headers(headers: MutableHeaders, nonce: str, static: bool) -> None:
    headers["Content-Security-Policy"] = build_content_policy(nonce)
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "same-origin"  # with no-referrer, Origin would be null
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    headers["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
    headers.setdefault("Cache-Control", "no-store")
    if static and headers["Cache-Control"] == "no-store":
        headers["Cache-Control"] = "no-cache"


def build_content_policy(nonce: str) -> str:
    """Return the Content-Security-Policy: own files only, and scripts with this nonce."""
    return (
        f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self'; "
        "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "object-src 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )

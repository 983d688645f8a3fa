"""Around the whole application: an id for each request, a line in the log, a count; and what a
proxy says of who asked.

It knows nothing of what is asked and answered.
"""

import ipaddress
import logging
import re
import secrets
import time
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from rookery.serve.web.health import Health
from rookery.serve.web.log_lines import REQUEST, REQUESTS
from rookery.serve.web.metrics import Counting

_LOG = logging.getLogger(REQUESTS)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
ID = "X-Request-Id"
_ID = re.compile(r"[\w.:-]{8,64}", re.ASCII)
_HOST = re.compile(r"[\w.-]+(:\d{1,5})?|\[[\da-f:.]+\](:\d{1,5})?", re.ASCII | re.IGNORECASE)


class Watched:
    """An application, watched. With `behind_proxy`, all that comes is taken to come through a proxy
    whose X-Forwarded-* headers are true; without, they mean nothing. `folder` is where workers tell
    each other what they counted."""

    def __init__(
        self, app: Starlette, behind_proxy: bool = False, folder: Path | None = None
    ) -> None:
        self._app = app
        self._behind_proxy = behind_proxy
        self._counting = Counting(folder)
        self._own = Health(app, self._counting).addresses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the life of the application."""
        if scope["type"] == "http":
            await self._watch(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._counting.write()

    async def _watch(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        identity = secrets.token_urlsafe(12)
        if self._behind_proxy:
            identity = _identity(headers) or identity
            scope = _as_forwarded(scope, headers)
        REQUEST.set(identity)
        begun, status, size = time.monotonic(), 499, 0  # 499: who asked was gone before the answer

        async def sending(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[ID] = identity
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._answer(scope, receive, sending)
        finally:
            seconds = time.monotonic() - begun
            self._tell(scope, status, size, seconds)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = self._own.get(scope["path"])
        if own is None:
            await self._app(scope, receive, send)
        elif scope["method"] in ("GET", "HEAD"):
            await (await own(Request(scope)))(scope, receive, send)
        else:
            await PlainTextResponse("GET it.\n", 405, {"Allow": "GET"})(scope, receive, send)

    def _tell(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        """Of an address only its pattern is kept: the rest may be a token, or a question."""
        route = getattr(scope.get("route"), "path", "")
        route = scope["path"] if scope["path"] in self._own else route or "none"
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._counting.add(method, route, status, seconds)
        if _LOG.isEnabledFor(logging.INFO):
            client = (scope.get("client") or ("",))[0]
            about = {"method": method, "route": route, "status": status, "client": client}
            about |= {"ms": round(1e3 * seconds, 1), "bytes": size}
            _LOG.info("request", extra={"request": about})


def _identity(headers: Headers) -> str:
    """The id that a proxy gave, where it is one."""
    said = headers.get(ID, "")
    return said if _ID.fullmatch(said) else ""


def _as_forwarded(scope: Scope, headers: Headers) -> Scope:
    """What was asked of the proxy. Of several addresses the last is the one that it saw itself."""
    said: dict[str, Any] = {"client": _client(headers)}
    scheme = headers.get("x-forwarded-proto", "").strip().lower()
    if scheme in ("http", "https"):
        said["scheme"] = scheme
    host = headers.get("x-forwarded-host", "").strip()
    if _HOST.fullmatch(host):
        others = [(name, value) for name, value in scope["headers"] if name != b"host"]
        said["headers"] = [*others, (b"host", host.encode())]
    return {**scope, **said}


def _client(headers: Headers) -> tuple[str, int] | None:
    """Who asked the proxy; None, where it does not say: not this very machine, at least."""
    said = ",".join(headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(said.strip("[]"))), 0
    except ValueError:
        return None

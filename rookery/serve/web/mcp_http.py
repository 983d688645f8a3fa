"""MCP at /mcp (streamable HTTP): one message a POST, answered as JSON or, where it takes long, as
events.

Requests of the revision of 2026-07-28 stand alone; those before it may carry the session id that
`initialize` gave. It knows nothing of what the messages mean, except which ask for work.
"""

import asyncio
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from rookery.browse.places import is_url
from rookery.judge.store import Store
from rookery.records import Failed, Failure
from rookery.serve.mcp import (
    BROKEN,
    CANCELLED,
    INVALID,
    NO_METHOD,
    STATELESS,
    Json,
    Protocol,
    Refusal,
    decoded,
    error,
    id_of,
)
from rookery.serve.mcp_browsers import Source
from rookery.serve.mcp_tools import Caller, Tools
from rookery.serve.web.answering import answering_of
from rookery.serve.web.api_door import at_home
from rookery.serve.web.api_errors import Refused
from rookery.serve.web.api_keys import Key, Rates, admitted, give_back, spend
from rookery.serve.web.guard import same_origin
from rookery.serve.web.libraries import Gone
from rookery.serve.web.mcp_headers import (
    VERSION,
    own_version,
    require_known,
    require_same_said_twice,
)
from rookery.serve.web.wanted import EXTRACT, Answered, Wanted

JSON, EVENTS = "application/json", "text/event-stream"
SESSION = "mcp-session-id"
OURS = re.compile(r"[\w-]{32}")
ALLOW = {"Allow": "POST, DELETE"}


class McpLimits(msgspec.Struct, frozen=True):
    """How much programs may ask."""

    body: int = 4_000_000
    """bytes of a message"""
    reading: float = 30.0
    """seconds in which it must have come"""
    at_once: int = 16
    """calls that are worked on at the same time; others wait"""
    patience: float = 2.0
    """seconds after which an answer is sent as events, so that the connection is kept"""
    ping: float = 10.0
    """seconds between signs of life"""
    ended: int = 10_000
    """sessions of which it is remembered that they were ended"""


class Visit(NamedTuple):
    """One POST that was let in."""

    request: Request
    key: Key
    message: Any
    session: str
    gone: threading.Event
    """set once nobody waits for an answer"""

    @property
    def caller(self) -> Caller:
        """Whose the browser sessions are, and how questions are answered."""
        answer = partial(_answer, self.request, self.key, self.gone.is_set)
        at = f"{str(self.request.base_url).rstrip('/')}/pages/"
        return Caller(self.key.name, answer, partial(_shown, at), partial(_meant, at))

    @property
    def stateless(self) -> bool:
        """Whether the message says its own revision."""
        return self.request.headers.get(VERSION) in STATELESS or own_version(self.message) != ""

    @property
    def is_call(self) -> bool:
        """Whether it may take long."""
        return isinstance(self.message, list) or (
            isinstance(self.message, dict) and self.message.get("method") == "tools/call"
        )


def routes(limits: McpLimits = McpLimits()) -> list[Route]:
    """The one address."""
    return [Route("/mcp", Address(limits))]


class Address:
    """Starlette takes it as an application of its own."""

    def __init__(self, limits: McpLimits = McpLimits()) -> None:
        self._limits = limits
        self._rates = Rates()
        self._room = CapacityLimiter(limits.at_once)
        self._protocol: Protocol | None = None
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._under_way: dict[tuple[str, str | int], threading.Event] = {}
        self._working: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        request = Request(scope, receive, send)
        try:
            await self._done(request, receive, send)
        except Refused as refused:
            headers = dict(refused.response(request.url.path).headers)
            problem = error(Refusal(INVALID, str(refused)))
            kept = {name: headers[name] for name in _TOLD if name in headers}
            await _json(problem, refused.status, kept)(scope, receive, send)
        except Refusal as refusal:
            await _json(error(refusal), 400)(scope, receive, send)
        except ClientDisconnect:
            return

    async def _done(self, request: Request, receive: Receive, send: Send) -> None:
        key = await self._let_in(request)
        if request.method == "POST":
            await self._posted(request, key, receive, send)
        elif request.method == "DELETE":
            await self._end(request)(request.scope, receive, send)
        else:
            # Nothing is ever said without being asked: there is no stream to listen to.
            response = _json(error(Refusal(INVALID, "send messages with POST")), 405, ALLOW)
            await response(request.scope, receive, send)

    async def _let_in(self, request: Request) -> Key:
        """Who asks. Raises Refused (401, 403, 429)."""
        if not same_origin(request.headers):
            raise Refused(403, "A page of another site may not ask here.")
        store: Store = request.app.state.desk.store
        said = request.headers.get("authorization", "")
        key = await run_in_threadpool(admitted, store, said, at_home(request))
        self._rates.admit(key)
        return key

    def _end(self, request: Request) -> Response:
        if SESSION not in request.headers:
            raise Refused(400, "Name the session to end in the header Mcp-Session-Id.")
        self._require_session(request)
        self._ended[request.headers[SESSION]] = None
        if len(self._ended) > self._limits.ended:
            self._ended.popitem(last=False)
        return Response(status_code=204)

    def _require_session(self, request: Request) -> None:
        """Nothing hangs on a session, so that one may go on with another process of ours. Raises
        Refused (404) for one that was ended."""
        named = request.headers.get(SESSION)
        if named is not None and (named in self._ended or not OURS.fullmatch(named)):
            raise Refused(404, "There is no such session any more: initialize a new one.")

    async def _posted(self, request: Request, key: Key, receive: Receive, send: Send) -> None:
        accepts = request.headers.get("accept", "*/*").lower()
        plain = JSON in accepts or "*/*" in accepts or "application/*" in accepts
        events = EVENTS in accepts
        if not plain and not events:
            raise Refused(406, f"Accept {JSON} or {EVENTS}.")
        message = decoded(await self._body(request))
        session = request.headers.get(SESSION, "")
        visit = Visit(request, key, message, session, threading.Event())
        if visit.stateless:
            require_same_said_twice(request.headers, message)
        else:
            self._require_session(request)
            require_known(request.headers, message)
        self._note_cancelled(visit)
        protocol = self._opened(request)
        if visit.is_call:
            await self._worked_on(visit, protocol, (plain, events), receive, send)
            return
        reply = protocol.reply(message, visit.caller)
        headers = {SESSION: secrets.token_urlsafe(24)} if _is_handshake(reply) else {}
        response = _json(reply, _status(reply, visit), headers)
        if not plain and reply is not None:
            response = Response(_event(reply), 200, headers, EVENTS)
        await response(request.scope, receive, send)

    async def _worked_on(
        self,
        visit: Visit,
        protocol: Protocol,
        accepted: tuple[bool, bool],
        receive: Receive,
        send: Send,
    ) -> None:
        """Answers a call: as JSON if it can be and is done soon, else as events."""
        plain, events = accepted
        name = (visit.session, id_of(visit.message))
        if name[1] is not None:
            self._under_way[visit.session, name[1]] = visit.gone
        work = asyncio.create_task(self._work(visit, protocol))
        left = asyncio.create_task(_left(receive, visit.gone))
        self._working.add(work)  # it is worked on even where nobody waits
        work.add_done_callback(self._working.discard)
        try:
            patience = (self._limits.patience if plain else 0.0) if events else None
            await asyncio.wait({work, left}, timeout=patience, return_when="FIRST_COMPLETED")
            if work.done() and plain:
                reply = work.result()
                await _json(reply, _status(reply, visit))(visit.request.scope, receive, send)
            elif not left.done():
                await self._stream(work, left, send)
        finally:
            left.cancel()
            if not work.done():  # however it came to that
                visit.gone.set()
            if name[1] is not None:
                self._under_way.pop((visit.session, name[1]), None)

    async def _work(self, visit: Visit, protocol: Protocol) -> Any:
        return await to_thread.run_sync(_replied, visit, protocol, limiter=self._room)

    async def _stream(
        self, work: "asyncio.Task[Any]", left: "asyncio.Task[None]", send: Send
    ) -> None:
        kind = [(b"content-type", EVENTS.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        while True:
            await asyncio.wait(
                {work, left}, timeout=self._limits.ping, return_when="FIRST_COMPLETED"
            )
            if left.done():
                return
            body = _event(work.result()) if work.done() else b": still at work\n\n"
            more = not work.done()
            await send({"type": "http.response.body", "body": body, "more_body": more})
            if not more:
                return

    def _note_cancelled(self, visit: Visit) -> None:
        message = visit.message
        if isinstance(message, dict) and message.get("method") == CANCELLED and visit.session:
            params = message.get("params")
            named = params.get("requestId") if isinstance(params, dict) else None
            if isinstance(named, str | int) and (visit.session, named) in self._under_way:
                self._under_way[visit.session, named].set()

    def _opened(self, request: Request) -> Protocol:
        if self._protocol is None:
            source = Source(request.app.state.desk.settings)
            request.app.state.closing.append(source.close)
            self._protocol = Protocol(Tools(source, EXTRACT))
        return self._protocol

    async def _body(self, request: Request) -> bytes:
        """The message. Raises Refused (408, 413, 415)."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise Refused(415, f"Send JSON, with Content-Type: {JSON}.")
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(self._limits.reading):
                async for part in request.stream():
                    parts.append(part)
                    size += len(part)
                    if size > self._limits.body:
                        raise Refused(413, f"Send at most {self._limits.body:,} bytes at once.")
        except TimeoutError:
            raise Refused(408, "The message took too long to arrive.") from None
        return b"".join(parts)


_TOLD = ("retry-after", "www-authenticate")


def _shown(at: str, url: str, digest: str) -> str:
    """Where a page is for who is elsewhere: of a file here, no path is told."""
    if is_url(url) or not url:
        return url
    return f"{at}{digest}" if digest else unquote(url).rpartition("/")[2]


def _meant(at: str, address: str) -> str:
    digest = address.removeprefix(at)
    return digest if digest != address and re.fullmatch("[0-9a-f]{32}", digest) else ""


def _answer(request: Request, key: Key, gone: Callable[[], bool], wanted: Wanted) -> Answered:
    """The answer to a question, within the budget of a key. Raises Failed and Gone."""
    store: Store = request.app.state.desk.store
    try:
        spend(store, key)
    except Refused as refused:
        raise Failed(Failure("answer", "no_budget", str(refused))) from refused
    try:
        return answering_of(request).now(wanted, gone=gone)
    except BaseException:
        give_back(store, key)
        raise


def _replied(visit: Visit, protocol: Protocol) -> Json | list[Json] | None:
    """The answer to one message or to each of a list; None where nobody waits any longer."""
    if visit.gone.is_set():
        return None
    try:
        if not isinstance(visit.message, list):
            return protocol.reply(visit.message, visit.caller)
        replies = [protocol.reply(message, visit.caller) for message in visit.message]
        return [reply for reply in replies if reply is not None] or None
    except Gone:
        return None


async def _left(receive: Receive, gone: threading.Event) -> None:
    """Until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()


def _is_handshake(reply: Json | None) -> bool:
    return reply is not None and "protocolVersion" in reply.get("result", {})


def _status(reply: Any, visit: Visit) -> int:
    if reply is None:
        return 202
    code = reply.get("error", {}).get("code") if isinstance(reply, dict) else None
    if code is None or code == BROKEN:
        return 200 if code is None else 500
    if visit.stateless:
        return 404 if code == NO_METHOD else 400
    return 400 if code == INVALID else 200


def _json(reply: Any, status: int, headers: dict[str, str] | None = None) -> Response:
    if reply is None:
        return Response(status_code=status, headers=headers)
    return Response(msgspec.json.encode(reply), status, headers, JSON)


def _event(reply: Any) -> bytes:
    if reply is None:
        return b": nothing\n\n"
    return b"event: message\ndata: " + msgspec.json.encode(reply) + b"\n\n"

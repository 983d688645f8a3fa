"""MCP over HTTP at /mcp: a message is a POST, answered as JSON or, if it takes long, as events."""

import asyncio
import base64
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from rookery.desk.store import Store
from rookery.errors import Failed, Outcome
from rookery.library.libraries import is_url
from rookery.records import Failure, Hit, Library, Page
from rookery.server.api.answer_sessions import EXTRACT_METHOD, AnswerOutcome, QuestionRequest
from rookery.server.api.answer_workers import AnswerService, get_answer_service
from rookery.server.api.endpoints import (
    EVENT_STREAM_TYPE,
    JSON_TYPE,
    STREAM_HEADERS,
    ApiError,
    ApiKey,
    authenticate_request,
    encode_event,
    read_limited_body,
)
from rookery.server.api.questions import charge_answer, run_until_disconnect
from rookery.server.mcp.protocol import (
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    STATELESS_VERSIONS,
    McpError,
    McpProtocol,
    build_error_reply,
    check_batch,
    decode_message,
    is_call,
    read_agreed_version,
    read_cancelled_id,
    read_message_version,
    read_request_id,
)
from rookery.server.mcp.tools import McpLibrary, McpTools, ToolCaller
from rookery.settings import Settings
from rookery.shell.security import TokenBuckets

VERSION_HEADER = "mcp-protocol-version"
DEFAULT_VERSION = "2025-03-26"
"""revision of a client that sends no version header"""
_ENCODED_HEADER = re.compile(r"=\?base64\?([A-Za-z0-9+/=]*)\?=")


def require_known_version(headers: Headers, message: Any) -> None:
    """Check the version header and the batch size for revisions with a handshake.

    Raises McpError (INVALID_REQUEST).
    """
    version = headers.get(VERSION_HEADER, DEFAULT_VERSION)
    if version not in HANDSHAKE_VERSIONS:
        versions = ", ".join(HANDSHAKE_VERSIONS)
        raise McpError(
            INVALID_REQUEST,
            f"this MCP-Protocol-Version is not supported here: use one of {versions}",
        )
    check_batch(message, version)


def require_matching_headers(headers: Headers, message: Any) -> None:
    """Check that headers and message agree, for revisions in which both carry the same values.

    Proxies route by the headers and we act on the message, so a difference is refused.
    Notifications are not checked. Raises McpError: HEADER_MISMATCH, or INVALID_REQUEST for a list
    of messages.
    """
    if not isinstance(message, dict):
        raise McpError(INVALID_REQUEST, "this revision of the protocol takes one message at a time")
    if "id" not in message:
        return
    expected = {VERSION_HEADER: read_message_version(message), "mcp-method": message.get("method")}
    if message.get("method") == "tools/call":
        params = message.get("params")
        expected["mcp-name"] = params.get("name") if isinstance(params, dict) else None
    for header, value in expected.items():
        if _decode_header(headers.get(header)) != value:
            raise McpError(HEADER_MISMATCH, f"the header {header} differs from the message")


def _decode_header(value: str | None) -> str | None:
    """Decode a header value; non-ASCII values are sent as =?base64?...?=."""
    encoded = _ENCODED_HEADER.fullmatch(value or "")
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except ValueError:
        return None


SESSION_HEADER = "mcp-session-id"
SESSION_ID = re.compile(r"[\w-]{32}")
ALLOW_HEADER = {"Allow": "POST, DELETE"}


class McpLimits(msgspec.Struct, frozen=True):
    """Limits on requests of MCP clients."""

    body: int = 4_000_000
    """maximum bytes of a message"""
    reading: float = 30.0
    """seconds within which the whole message must arrive"""
    at_once: int = 16
    """number of calls that run at the same time; others wait"""
    patience: float = 2.0
    """seconds without a result after which the response becomes an event stream, to keep the
    connection alive"""
    ping: float = 10.0
    """seconds between keep-alive comments in an event stream"""
    ended: int = 10_000
    """number of ended session ids to remember"""


class McpHttpRequest(NamedTuple):
    """One authenticated POST request and its decoded message."""

    request: Request
    key: ApiKey
    message: Any
    session: str
    cancelled: threading.Event
    """set once the client has cancelled the call, has left, or has its reply"""

    @property
    def caller(self) -> ToolCaller:
        """The caller that tools see: its session owner, question answering and page addresses."""
        answer = partial(_answer_question, self.request, self.key, self.cancelled.is_set)
        at = f"{str(self.request.base_url).rstrip('/')}/pages/"
        return ToolCaller(
            self.key.name, answer, partial(_build_public_url, at), partial(_parse_page_url, at)
        )

    @property
    def stateless(self) -> bool:
        """True if the headers or the message name a revision without a handshake."""
        return (
            self.request.headers.get(VERSION_HEADER) in STATELESS_VERSIONS
            or read_message_version(self.message) is not msgspec.UNSET
        )


def build_mcp_routes(limits: McpLimits = McpLimits()) -> list[Route]:
    """Return the route of /mcp."""
    return [Route("/mcp", McpEndpoint(limits))]


class McpEndpoint:
    """ASGI application for /mcp. Starlette mounts it as an endpoint of its own."""

    def __init__(self, limits: McpLimits = McpLimits()) -> None:
        self._limits = limits
        self._rates = TokenBuckets()
        self._call_limiter = CapacityLimiter(limits.at_once)
        self._protocol: McpProtocol | None = None
        self._ended_sessions: OrderedDict[str, None] = OrderedDict()
        self._running_calls: dict[asyncio.Task[Any], McpHttpRequest] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one HTTP request; errors become JSON-RPC error replies."""
        request, ended = Request(scope, receive, send), threading.Event()
        try:
            response = await self._respond_safely(request, ended)
            await response(scope, receive, send)
        except ClientDisconnect:
            return
        finally:
            ended.set()  # the call goes on if the client left

    async def _respond_safely(self, request: Request, ended: threading.Event) -> Response:
        try:
            return await self._handle_request(request, ended)
        except ApiError as refused:
            headers = dict(refused.to_response().headers)
            kept = {name: headers[name] for name in _KEPT_HEADERS if name in headers}
            return _build_error_response(str(refused), refused.status, kept)
        except McpError as refusal:
            return _build_json_response(build_error_reply(refusal), 400)

    async def _handle_request(self, request: Request, ended: threading.Event) -> Response:
        key = await authenticate_request(request, self._rates)
        match request.method:
            case "POST":
                return await self._handle_post(request, key, ended)
            case "DELETE":
                return self._end_session(request)
        # The server never sends unasked, so a GET has no stream to listen to.
        return _build_error_response("send messages with POST", 405, ALLOW_HEADER)

    def _end_session(self, request: Request) -> Response:
        if SESSION_HEADER not in request.headers:
            raise ApiError(400, "Name the session to end in the header Mcp-Session-Id.")
        self._require_session(request)
        self._ended_sessions[request.headers[SESSION_HEADER]] = None
        if len(self._ended_sessions) > self._limits.ended:
            self._ended_sessions.popitem(last=False)
        return Response(status_code=204)

    def _require_session(self, request: Request) -> None:
        """Raise ApiError (404) for a session id that was ended or is malformed.

        Sessions have no state here, so any worker process may continue one.
        """
        named = request.headers.get(SESSION_HEADER)
        if named is not None and (named in self._ended_sessions or not SESSION_ID.fullmatch(named)):
            raise ApiError(404, "There is no such session any more: initialize a new one.")

    async def _handle_post(self, request: Request, key: ApiKey, ended: threading.Event) -> Response:
        accepts = request.headers.get("accept", "*/*").lower()
        plain = JSON_TYPE in accepts or "*/*" in accepts or "application/*" in accepts
        events = EVENT_STREAM_TYPE in accepts
        if not plain and not events:
            raise ApiError(406, f"Accept {JSON_TYPE} or {EVENT_STREAM_TYPE}.")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON_TYPE:
            raise ApiError(415, f"Send JSON, with Content-Type: {JSON_TYPE}.")
        limits = self._limits
        body = await read_limited_body(request, limits.body, limits.reading, "message")
        message = decode_message(body)
        session = request.headers.get(SESSION_HEADER, "")
        visit = McpHttpRequest(request, key, message, session, ended)
        if visit.stateless:
            require_matching_headers(request.headers, message)
        else:
            self._require_session(request)
            require_known_version(request.headers, message)
        self._cancel_call(session, read_cancelled_id(message))
        protocol = self._open_protocol(request)
        if is_call(message):
            return await self._answer_call(visit, protocol, plain, events)
        reply = protocol.answer_message(message, visit.caller)
        headers = {SESSION_HEADER: secrets.token_urlsafe(24)} if read_agreed_version(reply) else {}
        if not plain and reply is not None:
            return Response(encode_event(reply, "message"), 200, headers, EVENT_STREAM_TYPE)
        return _build_json_response(reply, _choose_status(reply, visit), headers)

    async def _answer_call(
        self, visit: McpHttpRequest, protocol: McpProtocol, plain: bool, events: bool
    ) -> Response:
        """Answer a call: as JSON if the client accepts it and the call is quick, else as events."""
        work = asyncio.create_task(self._run_call(visit, protocol))
        self._running_calls[work] = visit  # keeps the task alive: it goes on if the client leaves
        work.add_done_callback(self._running_calls.pop)
        patience = (self._limits.patience if plain else 0.0) if events else None
        try:
            reply = await run_until_disconnect(
                visit.request, asyncio.wait_for(asyncio.shield(work), patience)
            )
        except TimeoutError:
            return StreamingResponse(
                self._stream_events(work),
                headers={"Content-Type": EVENT_STREAM_TYPE, **STREAM_HEADERS},
            )
        return _build_json_response(reply, _choose_status(reply, visit))

    async def _run_call(self, visit: McpHttpRequest, protocol: McpProtocol) -> Any:
        def reply_unless_cancelled() -> Any:
            if visit.cancelled.is_set():
                return None
            return protocol.answer_message(visit.message, visit.caller)

        return await to_thread.run_sync(reply_unless_cancelled, limiter=self._call_limiter)

    async def _stream_events(self, work: asyncio.Task[Any]) -> AsyncIterator[bytes]:
        """Yield comments while a call runs, then its reply."""
        while not (await asyncio.wait({work}, timeout=self._limits.ping))[0]:
            yield b": still at work\n\n"
        reply = work.result()
        yield b": nothing\n\n" if reply is None else encode_event(reply, "message")

    def _cancel_call(self, session: str, identity: str | int | None) -> None:
        """Cancel the running call of a session that has this id, if there is one."""
        if not session or identity is None:
            return
        for call in self._running_calls.values():
            if (call.session, read_request_id(call.message)) == (session, identity):
                call.cancelled.set()

    def _open_protocol(self, request: Request) -> McpProtocol:
        if self._protocol is None:
            settings: Settings = request.app.state.desk.settings
            places = ServedPlaces(get_answer_service(request)) if settings.places else None
            source = McpLibrary(settings, library=places)
            request.app.state.closing.append(source.close)
            self._protocol = McpProtocol(McpTools(source, EXTRACT_METHOD))
        return self._protocol


class ServedPlaces(Library):
    """The places that questions without a place are answered from, as they are at each use."""

    def __init__(self, answering: AnswerService) -> None:
        self._answering = answering

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Search the places as they are now. Raises Failed as their library does."""
        with self._answering.open_library(QuestionRequest(query)) as library:
            return library.search(query, k)

    def fetch(self, url: str) -> Page:
        """Return a page of the places as they are now. Raises Failed as their library does."""
        with self._answering.open_library(QuestionRequest(url)) as library:
            return library.fetch(url)


_KEPT_HEADERS = ("retry-after", "www-authenticate")


def _build_public_url(at: str, url: str, digest: str) -> str:
    """Return a page's address for a remote client; local files get an address of this server."""
    if is_url(url) or not url:
        return url
    return f"{at}{digest}" if digest else unquote(url).rpartition("/")[2]


def _parse_page_url(at: str, address: str) -> str:
    digest = address.removeprefix(at)
    return digest if digest != address and re.fullmatch("[0-9a-f]{32}", digest) else ""


def _answer_question(
    request: Request, key: ApiKey, disconnected: Callable[[], bool], inquiry: QuestionRequest
) -> AnswerOutcome:
    """Answer a question within a key's budget. Raises Failed and AnswerCancelledError."""
    store: Store = request.app.state.desk.store
    work = partial(get_answer_service(request).answer_now, inquiry, disconnected=disconnected)
    try:
        return charge_answer(store, key, work, disconnected)
    except ApiError as refused:
        raise Failed(Failure("answer", Outcome.NO_BUDGET, str(refused))) from refused


def _choose_status(reply: Any, visit: McpHttpRequest) -> int:
    if reply is None:
        return 202
    code = reply.get("error", {}).get("code") if isinstance(reply, dict) else None
    if code is None or code == INTERNAL_ERROR:
        return 200 if code is None else 500
    if visit.stateless:
        return 404 if code == METHOD_NOT_FOUND else 400
    return 400 if code == INVALID_REQUEST else 200


def _build_error_response(sentence: str, status: int, headers: dict[str, str]) -> Response:
    reply = build_error_reply(McpError(INVALID_REQUEST, sentence))
    return _build_json_response(reply, status, headers)


def _build_json_response(
    reply: Any, status: int, headers: dict[str, str] | None = None
) -> Response:
    if reply is None:
        return Response(status_code=status, headers=headers)
    return Response(msgspec.json.encode(reply), status, headers, JSON_TYPE)

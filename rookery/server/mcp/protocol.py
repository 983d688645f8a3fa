"""Model Context Protocol (MCP): messages in every revision in use, over standard input and HTTP.

Revisions up to 2025-11-25 begin with the `initialize` handshake. Revision 2026-07-28 has none:
every request carries its version in `_meta`. Over HTTP, at /mcp, a message is a POST, answered as
JSON or, if it takes long, as events.
"""

import asyncio
import base64
import hmac
import logging
import os
import queue
import re
import secrets
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from rookery.desk.page_endpoints import make_public_url
from rookery.desk.store import Store
from rookery.errors import Failed, Outcome
from rookery.library.libraries import is_url
from rookery.records import Failure, Hit, Library, Page, decode_json
from rookery.server.api.answer_queue import AnswerService, get_answer_service
from rookery.server.api.answer_sessions import (
    AnswerCancelledError,
    AnswerOutcome,
    EventKind,
    QuestionRequest,
    SharedSessionPool,
    list_capabilities,
    resolve_settings,
)
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
from rookery.server.mcp.tools import McpLibrary, McpTools, ToolArgumentsError, ToolCaller
from rookery.settings import Settings
from rookery.shell.security import TokenBuckets
from rookery.version import __version__

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""revisions that begin with an `initialize` handshake, oldest first"""
STATELESS_VERSIONS = ("2026-07-28",)
"""revisions without a handshake, in which every request carries its version"""
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
"""JSON-RPC error codes"""
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
"""error codes of MCP revision 2026-07-28"""
META_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY, CAPABILITIES_KEY = f"{META_PREFIX}protocolVersion", f"{META_PREFIX}clientCapabilities"
CANCELLED_METHOD = "notifications/cancelled"
TOOL_LIST_TTL = 60_000
"""milliseconds for which a client may cache the list of tools"""
INSTRUCTIONS = " ".join(Path(__file__).with_name("instructions.txt").read_text("utf-8").split())
NEXT_STEPS: Mapping[str, str] = {
    Outcome.URL_NOT_SHOWN: "Search first, then open what a search or a page shows.",
    Outcome.NOT_IN_ARCHIVE: "This server is offline: open another result.",
    Outcome.NO_BUDGET: "",
}
"""suggested next step for a failed tool call, by the outcome of the failure"""
DEFAULT_NEXT_STEP = "Open another result, or search in other words."
_LOG = logging.getLogger("rookery.mcp")
JsonObject = dict[str, Any]


class McpError(Exception):
    """A JSON-RPC error: a code, a message and optional data."""

    def __init__(self, code: int, message: str, data: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class McpRequest(NamedTuple):
    """A parsed JSON-RPC request, or a notification where `id` is None."""

    id: str | int | None
    method: str
    params: Mapping[str, Any]
    version: Any
    """the protocol revision that it names; UNSET in revisions with a handshake"""


def decode_message(data: bytes) -> Any:
    """Decode a message from JSON. Raises McpError: PARSE_ERROR; INVALID_REQUEST for a list."""
    try:
        message = decode_json(data, Any)
    except ValueError as error:
        raise McpError(PARSE_ERROR, f"this cannot be read as JSON: {error}") from error
    if isinstance(message, list):
        raise McpError(INVALID_REQUEST, "send one message at a time, and no list")
    return message


def parse_request(message: Any) -> McpRequest | None:
    """Parse a JSON-RPC message into a request or a notification; None for a response.

    A notification has the id None. Raises McpError (INVALID_REQUEST).
    """
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise McpError(INVALID_REQUEST, 'a message is an object with "jsonrpc": "2.0"')
    if "method" not in message and ("result" in message or "error" in message):
        return None
    method, params = message.get("method"), message.get("params", {})
    if not isinstance(method, str) or not isinstance(params, dict):
        raise McpError(
            INVALID_REQUEST, "a request has a method, which is a string, and params, an object"
        )
    identity = read_request_id(message)
    if identity is None and "id" in message:
        raise McpError(INVALID_REQUEST, "the id of a request is a string or a whole number")
    return McpRequest(identity, method, params, read_message_version(message))


def read_request_id(message: Any) -> str | int | None:
    """Return the message's `id` where it is a string or an integer, else None."""
    identity = message.get("id") if isinstance(message, dict) else None
    return identity if isinstance(identity, str) or type(identity) is int else None


def read_message_version(message: Any) -> Any:
    """Return the revision in a message's `_meta`; UNSET if there is none."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get(VERSION_KEY, msgspec.UNSET) if isinstance(meta, dict) else msgspec.UNSET


def read_cancelled_id(message: Any) -> str | int | None:
    """Return the id of the request that a message cancels; None for every other message."""
    if not isinstance(message, dict) or message.get("method") != CANCELLED_METHOD:
        return None
    params = message.get("params")
    identity = params.get("requestId") if isinstance(params, dict) else None
    return identity if isinstance(identity, str | int) else None


def read_agreed_version(reply: Any) -> str:
    """Return the revision that a reply to `initialize` names; an empty string for other replies."""
    result = reply.get("result") if isinstance(reply, dict) else None
    return str(result.get("protocolVersion", "")) if result else ""


def is_call(message: Any) -> bool:
    """Return True for tool calls, which may take long."""
    called = isinstance(message, dict) and message.get("method") == "tools/call"
    return called and read_request_id(message) is not None


def build_error_reply(refusal: McpError, identity: str | int | None = None) -> JsonObject:
    """Build the JSON-RPC error reply for a message that could not be answered."""
    problem: JsonObject = {"code": refusal.code, "message": str(refusal)}
    if refusal.data is not None:
        problem["data"] = refusal.data
    return {"jsonrpc": "2.0", "id": identity, "error": problem}


class McpProtocol:
    """The protocol logic of one MCP server. Safe to use from many threads."""

    def __init__(self, tools: McpTools) -> None:
        self.tools = tools
        self._tool_list = tools.describe_tools()

    def answer_message(self, message: Any, caller: ToolCaller) -> JsonObject | None:
        """Answer one decoded message; errors become JSON-RPC error replies.

        Notifications, responses and calls that were cancelled have no answer: None.
        """
        try:
            request = parse_request(message)
            if request is None or request.id is None:
                return None
            result = self._dispatch_request(request, caller)
            return {"jsonrpc": "2.0", "id": request.id, "result": result}
        except AnswerCancelledError:
            return None
        except McpError as error:
            refusal = error
        except Exception:
            _LOG.exception("a request")
            refusal = McpError(INTERNAL_ERROR, "something went wrong here, not with you")
        return build_error_reply(refusal, read_request_id(message))

    def _dispatch_request(self, request: McpRequest, caller: ToolCaller) -> JsonObject:
        """Return the `result` of a request. Raises McpError."""
        stateless = request.version is not msgspec.UNSET and request.method != "initialize"
        if stateless:
            _require_version(request)
        match request.method:
            case "initialize":
                return _negotiate_version(request)
            case "ping" if not stateless:
                return {}
            case "server/discover" if stateless:
                result = {"supportedVersions": list(STATELESS_VERSIONS), **_describe_server()}
            case "tools/list":
                result = self._list_tools(request)
            case "tools/call":
                result = self._call_tool(request, caller)
            case _:
                raise McpError(METHOD_NOT_FOUND, f"there is no method {request.method[:80]} here")
        if not stateless:
            return result
        if request.method != "tools/call":
            result |= {"ttlMs": TOOL_LIST_TTL, "cacheScope": "private"}
        about = {f"{META_PREFIX}serverInfo": _build_server_info()}
        return {**result, "resultType": "complete", "_meta": about}

    def _list_tools(self, request: McpRequest) -> JsonObject:
        if request.params.get("cursor") is not None:
            raise McpError(INVALID_PARAMS, "the list of tools has one page: ask without a cursor")
        return {"tools": self._tool_list}

    def _call_tool(self, request: McpRequest, caller: ToolCaller) -> JsonObject:
        """Run a tool and return its result; failures become results with `isError`."""
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str) or name not in self.tools.list_names():
            names = ", ".join(self.tools.list_names())
            raise McpError(INVALID_PARAMS, f"there is no tool {str(name)[:80]!r} here: use {names}")
        try:
            result = self.tools.call_tool(name, {} if arguments is None else arguments, caller)
        except ToolArgumentsError as wrong:
            return _build_tool_error(str(wrong))
        except Failed as failed:
            return _build_tool_error(describe_failure(failed.failure))
        except AnswerCancelledError:
            raise
        except Exception:
            _LOG.exception("%s", name)
            return _build_tool_error("Something went wrong here, not with you: try another way.")
        content = [{"type": "text", "text": result.text}]
        structured = msgspec.to_builtins(result.structured)
        return {"content": content, "structuredContent": structured, "isError": False}


def describe_failure(failure: Failure) -> str:
    """Return a sentence for the model: the thing that failed, the reason, and a next step."""
    says_it = ": " in failure.detail and failure.outcome not in NEXT_STEPS
    step = "" if says_it else NEXT_STEPS.get(failure.outcome, DEFAULT_NEXT_STEP)
    why = failure.detail or failure.outcome
    return f"{failure.what[:200]}: {why} ({failure.outcome}). {step}".rstrip()


def _build_tool_error(sentence: str) -> JsonObject:
    return {"content": [{"type": "text", "text": sentence}], "isError": True}


def _negotiate_version(request: McpRequest) -> JsonObject:
    """Return the result of `initialize`: the client's revision if we have it, else our newest."""
    requested = request.params.get("protocolVersion")
    if not isinstance(requested, str):
        supported = {"supported": list(HANDSHAKE_VERSIONS)}
        raise McpError(INVALID_PARAMS, "initialize says a protocolVersion", supported)
    version = requested if requested in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    return {"protocolVersion": version, "serverInfo": _build_server_info(), **_describe_server()}


def _describe_server() -> JsonObject:
    return {"capabilities": {"tools": {"listChanged": False}}, "instructions": INSTRUCTIONS}


def _build_server_info() -> JsonObject:
    return {"name": "rookery", "title": "Rookery", "version": __version__}


def _require_version(request: McpRequest) -> None:
    """Raise McpError unless the request's own revision is one of STATELESS_VERSIONS."""
    if not isinstance(request.version, str):
        raise McpError(INVALID_PARAMS, f"{VERSION_KEY} is a string")
    if CAPABILITIES_KEY not in request.params["_meta"]:
        raise McpError(INVALID_PARAMS, f"_meta lacks {CAPABILITIES_KEY}")
    if request.version not in STATELESS_VERSIONS:
        data = {"supported": list(STATELESS_VERSIONS), "requested": request.version[:40]}
        raise McpError(
            UNSUPPORTED_VERSION, "this revision of the protocol is not supported here", data
        )


STDIO_OWNER = "standard input"
SendBytes = Callable[[bytes], None]


class StdioLimits(msgspec.Struct, frozen=True):
    """Limits on the messages and calls of one client."""

    line: int = 4_000_000
    """maximum bytes of one message"""
    at_once: int = 8
    """number of calls that run at the same time"""
    waiting: int = 256
    """maximum number of calls that wait; further ones are refused"""


def serve_stdio(settings: Settings, any_address: bool = False) -> None:
    """Serve MCP on standard input and output until standard input ends and all calls are answered.

    Whatever else this process writes to standard output, also afterwards, goes to standard error.
    """
    send = _claim_stdout()
    source, answers = McpLibrary(settings, any_address), StdioAnswerer(settings)
    connection = StdioConnection(McpProtocol(McpTools(source)), answers, send)
    connection.run(read_stdio_lines(sys.stdin.buffer, connection.limits.line))
    answers.close()
    source.close()


def _claim_stdout() -> SendBytes:
    """Return a function that writes to standard output; redirect all other output to stderr."""
    out = os.dup(1)
    os.dup2(2, 1)

    def send_bytes(data: bytes) -> None:
        left = memoryview(data)
        with suppress(BrokenPipeError):  # a client that stops reading also closes our input
            while left:
                left = left[os.write(out, left) :]

    return send_bytes


def read_stdio_lines(stream: BinaryIO, longest: int) -> Iterator[bytes | None]:
    """Yield the non-empty lines of a stream; None for each line longer than `longest` bytes."""
    while line := stream.readline(longest):
        if len(line) < longest or line.endswith(b"\n"):
            if line.strip():
                yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(longest)
        yield None


class StdioAnswerer:
    """Answers questions with the command line's settings, without a store."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._capabilities = list_capabilities(settings)
        self._sessions = SharedSessionPool()

    def __call__(self, disconnected: Callable[[], bool], inquiry: QuestionRequest) -> AnswerOutcome:
        """Answer a question in this thread.

        Raises Failed, and AnswerCancelledError at the next event once `disconnected()` is true.
        """
        settings = resolve_settings(self._settings, self._capabilities, inquiry)

        def check_cancelled(kind: EventKind, data: dict[str, Any]) -> None:
            if disconnected():
                raise AnswerCancelledError

        return self._sessions.answer_question(settings, inquiry, check_cancelled)

    def close(self) -> None:
        """Close libraries and models."""
        self._sessions.close()


@dataclass(eq=False)
class StdioConnection:
    """One client. Tool calls run on worker threads; other messages are answered at once."""

    protocol: McpProtocol
    answer: Callable[[Callable[[], bool], QuestionRequest], AnswerOutcome]
    send: SendBytes
    limits: StdioLimits = field(default_factory=StdioLimits)

    def __post_init__(self) -> None:
        self._lock, self._write_lock = threading.Lock(), threading.Lock()
        self._cancellations: dict[str | int, threading.Event] = {}
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(self.limits.waiting)

    def run(self, received: Iterator[bytes | None]) -> None:
        """Handle messages until `received` ends and every call has been answered."""
        # Daemon threads: an interrupted process must not wait for calls.
        hands = [
            threading.Thread(target=self._run_worker, daemon=True)
            for _ in range(self.limits.at_once)
        ]
        for hand in hands:
            hand.start()
        for line in received:
            self._handle_line(line)
        for _ in hands:
            self._queue.put(None)
        for hand in hands:
            hand.join()

    def _handle_line(self, line: bytes | None) -> None:
        try:
            if line is None:
                raise McpError(INVALID_REQUEST, f"a message has at most {self.limits.line:,} bytes")
            message = decode_message(line)
        except McpError as refusal:
            self._send(build_error_reply(refusal))
            return
        identity = read_request_id(message)
        if not is_call(message):
            self._reply_immediately(message)
        elif self._queue.full():  # and stays so until a call ends: nobody else adds to it
            sentence = "too much is asked at once: wait for some answers, then ask again"
            self._send(build_error_reply(McpError(INTERNAL_ERROR, sentence), identity))
        else:
            cancelled = threading.Event()
            assert identity is not None  # of every call
            with self._lock:
                self._cancellations[identity] = cancelled
            self._queue.put(partial(self._reply_to, message, cancelled))

    def _reply_immediately(self, message: Any) -> None:
        """Answer a message that is not a tool call, and apply cancellations."""
        identity = read_cancelled_id(message)
        with self._lock:
            if identity is not None and identity in self._cancellations:
                self._cancellations[identity].set()
        caller = ToolCaller(STDIO_OWNER, partial(self.answer, lambda: False))
        reply = self.protocol.answer_message(message, caller)
        if reply is not None:
            self._send(reply)

    def _run_worker(self) -> None:
        while (work := self._queue.get()) is not None:
            work()

    def _reply_to(self, message: Any, cancelled: threading.Event) -> None:
        caller = ToolCaller(STDIO_OWNER, partial(self.answer, cancelled.is_set))
        reply = None if cancelled.is_set() else self.protocol.answer_message(message, caller)
        identity = read_request_id(message)
        with self._lock:  # the client may reuse the id once it has the answer
            if identity is not None and self._cancellations.get(identity) is cancelled:
                del self._cancellations[identity]
        if reply is not None and not cancelled.is_set():
            self._send(reply)

    def _send(self, reply: JsonObject) -> None:
        data = msgspec.json.encode(reply) + b"\n"
        with self._write_lock:
            self.send(data)


VERSION_HEADER = "mcp-protocol-version"
DEFAULT_VERSION = "2025-03-26"
"""revision of a client that sends no version header"""
_ENCODED_HEADER = re.compile(r"=\?base64\?([A-Za-z0-9+/=]*)\?=")


def require_known_version(headers: Headers) -> None:
    """Check the version header of revisions with a handshake. Raises McpError (INVALID_REQUEST)."""
    version = headers.get(VERSION_HEADER, DEFAULT_VERSION)
    if version not in HANDSHAKE_VERSIONS:
        versions = ", ".join(HANDSHAKE_VERSIONS)
        raise McpError(
            INVALID_REQUEST,
            f"this MCP-Protocol-Version is not supported here: use one of {versions}",
        )


def require_matching_headers(headers: Headers, message: Any) -> None:
    """Check that headers and message agree, for revisions in which both carry the same values.

    Proxies route by the headers and we act on the message, so a difference is refused.
    Notifications are not checked. Raises McpError (HEADER_MISMATCH).
    """
    if not isinstance(message, dict) or "id" not in message:
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
NONCE_CHARACTERS = 16
ALLOW_HEADER = {"Allow": "POST"}


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
        at = make_public_url(self.request, "/pages/")
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
        if request.method == "POST":
            return await self._handle_post(request, key, ended)
        # The server never sends unasked, so a GET has no stream to listen to; and sessions, which
        # hold nothing, need no DELETE.
        return _build_error_response("send messages with POST", 405, ALLOW_HEADER)

    def _require_session(self, request: Request, key: ApiKey) -> None:
        """Raise ApiError (404) for a session id that was not given to this key.

        Sessions have no state here, so any worker process may continue one.
        """
        named = request.headers.get(SESSION_HEADER)
        own = _make_session_id(key, (named or "")[:NONCE_CHARACTERS])
        if named is not None and named != own:
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
            self._require_session(request, key)
            require_known_version(request.headers)
        self._cancel_call(visit)
        protocol = self._open_protocol(request)
        if is_call(message):
            return await self._answer_call(visit, protocol, plain, events)
        reply = protocol.answer_message(message, visit.caller)
        headers = {SESSION_HEADER: _make_session_id(key)} if read_agreed_version(reply) else {}
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

    def _cancel_call(self, visit: McpHttpRequest) -> None:
        """Cancel the call that a message names, if its session and key are the message's own."""
        named = (visit.key.token, visit.session, read_cancelled_id(visit.message))
        if not visit.session or named[2] is None:
            return
        for call in self._running_calls.values():
            if (call.key.token, call.session, read_request_id(call.message)) == named:
                call.cancelled.set()

    def _open_protocol(self, request: Request) -> McpProtocol:
        if self._protocol is None:
            settings: Settings = request.app.state.desk.settings
            answering = get_answer_service(request)
            places = ServedPlaces(answering) if settings.places else None
            source = McpLibrary(settings, library=places)
            request.app.state.closing.append(source.close)
            self._protocol = McpProtocol(McpTools(source, answering.capabilities.default_method))
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


def _make_session_id(key: ApiKey, nonce: str = "") -> str:
    """Return the id of a key's session: a nonce, new if none is given, and its HMAC by the key."""
    nonce = nonce or secrets.token_hex(NONCE_CHARACTERS // 2)
    return nonce + hmac.new(key.token.encode(), nonce.encode(), "sha256").hexdigest()[:32]


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

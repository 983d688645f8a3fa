"""The parts that all endpoints of the API share: errors, keys, budgets, limits, bodies, responses.

The shape of errors is OpenAI's, `{"error": {message, type, param, code}}`, which Perplexity shares;
/retrieve uses Search-R1's, `{"detail": ...}`, and /v1/messages Anthropic's. Errors reveal no stack,
path or key of this machine and no words of a model's server.
"""

import asyncio
import base64
import hashlib
import logging
import math
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from sqlalchemy import Connection, insert, select, update
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from rookery.desk import accounts
from rookery.desk.store import RETRY_SECONDS, Store
from rookery.desk.tables import keys
from rookery.desk.tables import people as those_here
from rookery.errors import Failed, Outcome
from rookery.records import Episode, Failure, decode_json, describe_json_error, prepare_type
from rookery.shell.security import TokenBuckets, is_loopback, is_same_origin, read_content_length
from rookery.typed_files import read_text_table

_LOG = logging.getLogger("rookery.api")
INTERNAL_ERROR_MESSAGE = "Something went wrong here, not with you. Try again later."
_ERROR_PATH = re.compile(r" - at `\$\.?([^`]*)`$")
_MISSING_FIELD = re.compile(r"missing required field `([^`]+)`")


class ErrorDetail(msgspec.Struct, frozen=True):
    """Content of an error in OpenAI's shape."""

    message: str
    """one sentence that says what to do next"""
    type: str
    """kind of the error"""
    param: str | None = None
    """the field of the request that is wrong; null if none is"""
    code: str | None = None
    """code of the error; null if it has none"""


class ErrorBody(msgspec.Struct, frozen=True):
    """An error in the shape of the OpenAI API."""

    error: ErrorDetail


class PlainError(msgspec.Struct, frozen=True):
    """An error in the shape of Search-R1's server."""

    detail: str
    """one sentence that says what to do next"""


class AnthropicErrorDetail(msgspec.Struct, frozen=True):
    """Content of an error in Anthropic's shape."""

    type: str
    """kind of the error"""
    message: str
    """one sentence that says what to do next"""


class AnthropicErrorBody(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """An error in the shape of Anthropic's API."""

    error: AnthropicErrorDetail


ApiErrorBody = ErrorBody | PlainError | AnthropicErrorBody


class ApiError(Exception):
    """An API request that is answered with an error."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        param: str | None = None,
        after: int = 0,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.detail = ErrorDetail(message, _choose_error_type(status, code), param, code)
        self.retry_after = after
        """Seconds until another try may succeed; 0 if unknown."""

    def to_response(self, shape: type[ApiErrorBody] = ErrorBody) -> Response:
        """Return the HTTP response, in the error shape of a protocol."""
        body = msgspec.json.encode(self.build_body(shape))
        return Response(body, self.status, self._build_headers(), "application/json")

    def build_body(self, shape: type[ApiErrorBody]) -> ApiErrorBody:
        """Return the body of the response, in the error shape of a protocol."""
        if shape is PlainError:
            return PlainError(self.detail.message)
        if shape is AnthropicErrorBody:
            kind = _choose_anthropic_error_type(self.status)
            return AnthropicErrorBody(AnthropicErrorDetail(kind, self.detail.message))
        return ErrorBody(self.detail)

    def _build_headers(self) -> dict[str, str]:
        headers = {}
        if self.retry_after:
            headers["Retry-After"] = str(self.retry_after)
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if self.detail.code in FINAL_CODES or self.status in (501, 507):
            headers["x-should-retry"] = "false"  # OpenAI's clients obey this header
        return headers


FINAL_CODES = ("insufficient_quota",)
"""codes of errors that retrying cannot cure, although their status suggests it"""


def _choose_error_type(status: int, code: str | None) -> str:
    if code in FINAL_CODES:
        return str(code)
    return {
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        429: "rate_limit_error",
    }.get(status, "invalid_request_error" if status < 500 else "server_error")


def _choose_anthropic_error_type(status: int) -> str:
    kinds = {413: "request_too_large", 503: "overloaded_error", 504: "timeout_error"}
    other = "api_error" if status >= 500 else _choose_error_type(status, None)
    return kinds.get(status, other)


def convert_validation_error(error: msgspec.ValidationError, status: int = 400) -> ApiError:
    """Convert a validation error into an API error that names the field."""
    said = str(error)
    found = _ERROR_PATH.search(said)
    parent, missing = found[1] if found else "", _MISSING_FIELD.search(said)
    param = ".".join(part for part in (parent, missing[1] if missing else "") if part)
    return ApiError(status, f"{describe_json_error(error)}.", "invalid_type", param or None)


_ERRORS = read_text_table(Path(__file__).with_name("outcome_errors.txt"))
OUTCOME_ERRORS: Mapping[str, tuple[int, str]] = {
    outcome: (int(error[:3]), error[4:]) for outcome, error in _ERRORS.items()
}
"""status and sentence by outcome of a failure; its own detail may reveal something about this
machine"""


def convert_failure(failure: Failure) -> ApiError:
    """Convert a failure into an API error; unknown outcomes become 500."""
    status, message = OUTCOME_ERRORS.get(failure.outcome, (500, INTERNAL_ERROR_MESSAGE))
    code = failure.outcome if failure.outcome in OUTCOME_ERRORS else None
    retried = status == 503 and failure.outcome != Outcome.SPENDING_CAP
    retried = retried or failure.outcome == Outcome.MODEL_UNREACHABLE
    return ApiError(status, message, code, after=RETRY_SECONDS if retried else 0)


def convert_exception(error: Exception, where: str) -> ApiError:
    """Convert any exception into an API error, and log the details that it hides."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, Failed):
        _LOG.warning("%s: %s", where, error)
        return convert_failure(error.failure)
    _LOG.error("%s", where, exc_info=error)
    return ApiError(500, INTERNAL_ERROR_MESSAGE)


def build_timeout_error() -> ApiError:
    """Return the API error (504) for an answer that took too long."""
    return ApiError(*OUTCOME_ERRORS["timed_out"], "timed_out")


def build_unknown_model_error(name: str) -> ApiError:
    """Return the API error (404) for a model that is not offered."""
    message = f"There is no model {name[:80]!r} here: GET /v1/models says which there are."
    return ApiError(404, message, "model_not_found", "model")


KEY_PREFIX = "rk-"
LOCAL_NAME = "this machine"
"""name of clients on a loopback address before any key exists"""


class ApiKey(NamedTuple):
    """An API key as stored, or NO_KEY where none is needed."""

    token: str
    """SHA-256 of the key in hexadecimal digits; empty for NO_KEY"""
    name: str
    person: str
    per_minute: int | None = None
    """maximum requests per minute; None: no limit"""
    budget: float | None = None
    """maximum number of answers in total; None: no limit"""
    spent: float = 0.0
    """number of answers charged so far"""


NO_KEY = ApiKey("", LOCAL_NAME, LOCAL_NAME)


def create_api_key(
    store: Store, name: str, per_minute: int | None = None, budget: float | None = None
) -> str:
    """Create an API key and return it; a key of the same name is replaced. Raises Failed.

    This is the only time that the key itself is available. `per_minute` limits its requests,
    `budget` its answers in total. A person of this name is added as a reader if there is none. The
    key that it replaces works no more, and none of the new one's budget is spent.
    """
    token, now = KEY_PREFIX + secrets.token_urlsafe(32), store.clock()
    ensure_reader(store, name)
    row = {"name": name, "person": name, "made": now, "per_minute": per_minute}
    with store.begin_write() as connection:
        row |= {"token": _hash_token(token), "budget": budget, "spent": 0.0, "ended": None}
        if connection.execute(update(keys).where(keys.c.name == name).values(row)).rowcount == 0:
            connection.execute(insert(keys).values(row))
        accounts.write_audit_entry(connection, name, "key", name, now)
    return token


def revoke_api_key(store: Store, name: str) -> None:
    """Revoke the key of this name. Raises Failed (no_key_named)."""
    now, its = store.clock(), (keys.c.name == name) & keys.c.ended.is_(None)
    with store.begin_write() as connection:
        if connection.execute(update(keys).where(its).values(ended=now)).rowcount == 0:
            detail = "no key in use has this name: look at its spelling"
            raise Failed(Failure(name, Outcome.NO_KEY_NAMED, detail))
        accounts.write_audit_entry(connection, name, "key revoked", name, now)


def ensure_reader(store: Store, name: str) -> None:
    """Add a person with the role of a reader unless the name exists. Raises Failed."""
    try:
        accounts.add_person(store, name, "reader")
    except Failed as failed:
        if failed.failure.outcome != Outcome.ALREADY:
            raise


def authenticate_key(store: Store, authorization: str, open_here: bool) -> ApiKey:
    """Return the stored API key of an Authorization header: one in use, of a person still here.

    The key is sent as Bearer, or as the password of Basic by clients that are given an address
    alone (https://any:KEY@host). With `open_here`, return NO_KEY while no key has ever been
    created. Raises ApiError (401).
    """
    token = _read_token(authorization)
    with store.begin_read() as connection:
        if open_here and connection.scalar(select(keys.c.name)) is None:
            return NO_KEY  # clients without a key send a placeholder
        in_use = (keys.c.token == _hash_token(token)) & keys.c.ended.is_(None)
        query = select(keys).join(those_here).where(in_use, those_here.c.gone.is_(None))
        row = connection.execute(query).first() if token else None
    if row is None:
        message = "Send a key of this server in a header, as 'Authorization: Bearer KEY'."
        if authorization:
            message = "This key is unknown or was revoked. " + message
        raise ApiError(401, message, "invalid_api_key")
    return ApiKey(row.token, row.name, row.person, row.per_minute, row.budget, row.spent)


def read_authorization(headers: Headers) -> str:
    """Return the Authorization header; without it, the key that Anthropic's clients send."""
    key = headers.get("x-api-key", "")
    return headers.get("authorization", f"Bearer {key}" if key else "")


def _read_token(authorization: str) -> str:
    """Return the key of an Authorization header; empty where it has none."""
    kind, _, value = authorization.strip().partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        with suppress(ValueError):
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
    return ""


BUDGET_SPENT = "The budget of this key is spent. Ask whoever runs this server for more."


def spend_budget(store: Store, key: ApiKey, answers: int = 1) -> None:
    """Charge answers to a key's budget, if any. Raises ApiError (429) if too few are left."""
    if key.budget is None:
        return
    its = (keys.c.token == key.token) & (keys.c.spent + answers <= keys.c.budget)
    with store.begin_write() as connection:
        done = connection.execute(update(keys).where(its).values(spent=keys.c.spent + answers))
    if done.rowcount == 0:
        raise ApiError(429, BUDGET_SPENT, "insufficient_quota")


def require_budget(key: ApiKey) -> None:
    """Raise ApiError (429) if a key had no answer left when the request came.

    A stream that has begun can no longer say so by its status.
    """
    if key.budget is not None and key.spent + 1 > key.budget:
        raise ApiError(429, BUDGET_SPENT, "insufficient_quota")


def refund_budget(store: Store, key: ApiKey) -> None:
    """Give back one answer that was charged to a key's budget; nothing if it has none."""
    if key.budget is None:
        return
    with store.begin_write() as connection:
        refund_key(connection, key.token)


def refund_key(connection: Connection, token: str) -> None:
    """Give back one answer that was charged to the key with this token's digest, if it exists."""
    its = (keys.c.token == token) & (keys.c.spent >= 1)
    connection.execute(update(keys).where(its).values(spent=keys.c.spent - 1))


def is_answer_charged(episode: Episode | None, text_sent: bool = False) -> bool:
    """Return True if an answer counts against its key's budget; False if it is given back.

    Answers and declines count. Without an episode the answer was refused, failed or was cancelled:
    it counts only if it was cancelled after some text of the model was sent (`text_sent`). An
    episode whose model could not be called does not count.
    """
    if episode is None:
        return text_sent
    return episode.stop != Outcome.POLICY_FAILED


def require_rate(buckets: TokenBuckets, key: ApiKey) -> None:
    """Count a request of a key. Raises ApiError (429) with Retry-After if it comes too early."""
    often = key.per_minute
    if often is not None and (seconds := buckets.take_token(key.token, often)):
        message = f"This key may make {often} requests a minute. Wait, then send it again."
        raise ApiError(429, message, "rate_limit_exceeded", after=max(1, math.ceil(seconds)))


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


JSON_TYPE = "application/json"
EVENT_STREAM_TYPE = "text/event-stream"
PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""headers that only proxies send: behind one, a loopback address says nothing about the client"""


Done = TypeVar("Done")
OperationHandler = Callable[["ApiRequest"], Awaitable[Response]]


class ApiLimits(msgspec.Struct, frozen=True):
    """Limits on requests of API clients."""

    body: int = 1_000_000
    """maximum bytes of a request body"""
    reading: float = 30.0
    """seconds within which the body must arrive"""
    answering: float = 600.0
    """seconds within which an answer must be complete"""
    answers: int = 8
    """number of answers handled at the same time; the others wait in order of arrival"""
    searches: int = 8
    """number of searches that run at the same time"""
    waiting: int = 1000
    """maximum number of requests that wait; further ones are refused"""


class EndpointContext(NamedTuple):
    """Rate limits, size limits and thread limits that all endpoints share."""

    rates: TokenBuckets
    limits: ApiLimits
    answers: CapacityLimiter
    """threads for answers: slow work has its own, so that quick requests never wait for it"""
    searches: CapacityLimiter


class ApiRequest(NamedTuple):
    """An authenticated API request with its parsed body."""

    request: Request
    key: ApiKey
    body: Any
    """the body as the operation's `request_type`; None if it has none"""
    ignored: tuple[str, ...]
    """names of the fields that were sent but have no effect here"""
    context: EndpointContext

    async def run_limited(self, threads: CapacityLimiter, work: Callable[[], Done]) -> Done:
        """Run a function in one of these threads. Raises ApiError (503) if too many wait."""
        if threads.statistics().tasks_waiting >= self.context.limits.waiting:
            raise convert_failure(Failure("the request", Outcome.BUSY))
        return await run_sync(work, limiter=threads)

    @property
    def store(self) -> Store:
        """Database of the application."""
        store: Store = self.request.app.state.desk.store
        return store


class ApiOperation(NamedTuple):
    """One method at one path, as served and as described in the OpenAPI document."""

    method: str
    path: str
    name: str
    handler: OperationHandler
    """handles a request; its docstring begins with the summary of the operation"""
    response_type: Any
    """type of the response body; None if it is not described"""
    request_type: type[Any] | None = None
    """type of the request body; None if there is none"""
    streams: bool = False
    """True if the response may also be an event stream"""
    record_parameter: str = ""
    """parameter by which other operations take the id of the response, which may then be 202 with
    an unfinished record"""
    error_type: type[ApiErrorBody] = ErrorBody
    """type of the body of errors; with PlainError, a wrong type is 422"""

    @property
    def validation_status(self) -> int:
        """Status of a body that does not fit `request_type`."""
        return 422 if self.error_type is PlainError else 400


class ApiEndpoint:
    """ASGI application for the operations at one path. Starlette mounts it as an endpoint of its
    own."""

    def __init__(self, operations: Iterable[ApiOperation], door: EndpointContext) -> None:
        self._by_method = {each.method: each for each in operations}
        self._error_type = next(iter(self._by_method.values())).error_type
        self._context = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one HTTP request."""
        request = Request(scope, receive, send)
        response = await self._respond_safely(request)
        await response(scope, receive, send)

    async def _respond_safely(self, request: Request) -> Response:
        path = request.url.path
        try:
            return await self._handle_request(request)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:
            return convert_exception(error, path).to_response(self._error_type)

    async def _handle_request(self, request: Request) -> Response:
        operation = self._by_method.get("GET" if request.method == "HEAD" else request.method)
        if operation is None:
            return self._refuse_method(request)
        key = await authenticate_request(request, self._context.rates)
        body, ignored = None, tuple[str, ...]()
        if operation.request_type is not None:
            body, ignored = await self._parse_body(request, operation, operation.request_type)
        return await operation.handler(ApiRequest(request, key, body, ignored, self._context))

    def _refuse_method(self, request: Request) -> Response:
        allowed = ", ".join(sorted(self._by_method))
        message = f"{request.method[:20]} does nothing here: use {allowed}."
        response = ApiError(405, message, "method_not_allowed").to_response(self._error_type)
        response.headers["Allow"] = allowed
        return response

    async def _parse_body(
        self, request: Request, operation: ApiOperation, takes: type[Any]
    ) -> tuple[Any, tuple[str, ...]]:
        """Return the parsed body and the names of its ignored fields. Raises ApiError."""
        limits = self._context.limits
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON_TYPE and not kind.endswith("+json"):
            raise ApiError(415, f"Send JSON, with Content-Type: {JSON_TYPE}.", "not_json")
        if read_content_length(request.headers) > limits.body:
            raise _build_size_error(limits.body)
        sent = decode_body(await read_limited_body(request, limits.body, limits.reading))
        try:
            body = msgspec.convert(sent, prepare_type(takes))
        except msgspec.ValidationError as error:
            raise convert_validation_error(error, operation.validation_status) from error
        names = {field.encode_name for field in msgspec.structs.fields(takes)}
        return body, tuple(str(name)[:80] for name in sent if name not in names)[:50]


async def authenticate_request(request: HTTPConnection, rates: TokenBuckets) -> ApiKey:
    """Return the client's API key, and count the request against the key's rate limit.

    Raises ApiError: 401 without a valid key, 403 for a page of another site, 429 above the rate
    limit. Clients on this machine need no key before the first one is created.
    """
    if not is_same_origin(request.headers):
        raise ApiError(403, "A page of another site may not ask here.", "cross_origin")
    store = request.app.state.desk.store
    authorization = read_authorization(request.headers)
    key = await run_in_threadpool(authenticate_key, store, authorization, is_local_request(request))
    require_rate(rates, key)
    return key


async def read_limited_body(
    request: Request, limit: int, seconds: float, what: str = "request"
) -> bytes:
    """Return the body of a request, read within a limit of bytes and of time.

    Raises ApiError: 413 for more than `limit` bytes, 408 after `seconds`; and ClientDisconnect.
    `what` is the word for the body in the message.
    """
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise _build_size_error(limit)
    except TimeoutError:
        raise ApiError(408, f"The {what} took too long to arrive.", "timed_out") from None
    return b"".join(parts)


def _build_size_error(limit: int) -> ApiError:
    return ApiError(413, f"Send at most {limit:,} bytes at once.", "too_large")


def decode_body(body: bytes) -> Any:
    """Decode a JSON body; whole floats such as 3.0 become integers. Raises ApiError (400)."""
    try:
        return _convert_whole_floats(decode_json(body, Any))
    except (ValueError, RecursionError) as error:
        why = describe_json_error(error)
        raise ApiError(400, f"The body cannot be read as JSON: {why}.", "bad_json") from error


def _convert_whole_floats(value: Any) -> Any:
    """Convert floats without a fraction to integers: JSON has one number type, msgspec two."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_convert_whole_floats(each) for each in value]
    if isinstance(value, dict):
        return {name: _convert_whole_floats(each) for name, each in value.items()}
    return value


def is_local_request(request: HTTPConnection) -> bool:
    """Return True if a request comes from this machine, as far as can be known.

    It must carry no proxy header, and its Host must name this machine, since another name would be
    DNS rebinding.
    """
    if any(name in request.headers for name in PROXY_HEADERS):
        return False
    ends = [request.scope.get("server"), request.scope.get("client")]
    names = [end[0] for end in ends if end] + [request.url.hostname or ""]
    return len(names) == len(ends) + 1 and all(is_loopback(name) for name in names)


EventFrames = AsyncGenerator[tuple[str, Any] | bytes, None]
"""name (empty for none) and data of each event: a record, or a string sent as it is; bytes are
events that are encoded already, and comments"""
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""headers that keep proxies from buffering events"""


def build_json_response(body: Any, status: int = 200) -> Response:
    """Return a JSON response with a record as its body."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def build_event_response(frames: EventFrames) -> Response:
    """Return a response of server-sent events; a client that disconnects closes `frames`."""
    return StreamingResponse(
        _encode_frames(frames), headers=STREAM_HEADERS, media_type="text/event-stream"
    )


async def _encode_frames(frames: EventFrames) -> AsyncIterator[bytes]:
    try:
        async for frame in frames:
            yield frame if isinstance(frame, bytes) else encode_event(frame[1], frame[0])
    finally:
        await frames.aclose()


def encode_event(data: Any, name: str = "", number: int | None = None) -> bytes:
    """Encode a server-sent event: a record as JSON, or a string as it is; `number` is its id.

    The string and the name must have no line breaks, which would end the event.
    """
    head = b"" if number is None else b"id: %d\n" % number
    head += f"event: {name}\n".encode() if name else b""
    body = data.encode() if isinstance(data, str) else msgspec.json.encode(data)
    return b"%sdata: %s\n\n" % (head, body)

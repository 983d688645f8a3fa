"""The way in for programs: who asks, how often, and a body read as what it must be.

A module of the API has `operations() -> list[Operation]`, from which both the routes and the
OpenAPI document are made. A handler is given a Call and gives a Response; what it raises becomes an
error in the shape of its convention. It knows nothing of questions and answers.
"""

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import msgspec
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rookery.judge.store import Store
from rookery.records import Failure
from rookery.serve.web.api_errors import Refused, failed, worded, wrong_type
from rookery.serve.web.api_keys import Key, Rates, admitted
from rookery.serve.web.guard import same_origin

JSON = "application/json"
EVENTS = "text/event-stream"
PROXIED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""headers that only a proxy sends: its own loopback address says nothing of who asks"""


Done = TypeVar("Done")
Handler = Callable[["Call"], Awaitable[Response]]


class ApiLimits(msgspec.Struct, frozen=True):
    """How much a program may ask."""

    body: int = 1_000_000
    """bytes of a request"""
    reading: float = 30.0
    """seconds in which its body must have come"""
    answering: float = 600.0
    """seconds in which an answer must be there"""
    answers: int = 8
    """questions that are taken up at the same time, of which the server works on some; the others
    wait in the order in which they came"""
    searches: int = 8
    """searches at the same time"""
    waiting: int = 1000
    """requests that may wait; more are refused"""


class Call(NamedTuple):
    """A request that was let in."""

    request: Request
    key: Key
    body: Any
    """what the operation takes"""
    ignored: tuple[str, ...]
    """fields that were sent and mean nothing here"""
    limits: ApiLimits
    rooms: "Rooms"

    async def at_length(self, what: Callable[[], Done]) -> Done:
        """An answer, made beside the loop. Raises Refused (503)."""
        return await self._within(self.rooms.answers, what)

    async def meanwhile(self, what: Callable[[], Done]) -> Done:
        """A search, made beside the loop. Raises Refused (503)."""
        return await self._within(self.rooms.searches, what)

    async def in_thread(self, what: Callable[[], Done]) -> Done:
        """What is soon done, beside the loop."""
        return await run_in_threadpool(what)

    async def _within(self, room: CapacityLimiter, what: Callable[[], Done]) -> Done:
        if room.statistics().tasks_waiting >= self.limits.waiting:
            raise failed(Failure("the request", "busy"))
        return await run_sync(what, limiter=room)

    @property
    def store(self) -> Store:
        """The store of the application."""
        store: Store = self.request.app.state.desk.store
        return store


class Operation(NamedTuple):
    """What one method does at one address."""

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    gives: Any
    """the type of the body of the answer"""
    takes: type[Any] | None = None
    """the type of the body"""
    streams: bool = False
    """whether it may also give events"""
    later: bool = False
    """whether it may also say that it is under way"""
    leads: Mapping[str, str] = MappingProxyType({})
    """operations that take the id of what this gives, and the parameter of each that it is"""
    plain: bool = False
    """whether its errors are those of Search-R1's server, which answers a wrong type with 422"""


class Rooms(NamedTuple):
    """Threads for what takes long, so that nothing quick waits for it."""

    answers: CapacityLimiter
    searches: CapacityLimiter


class Door(NamedTuple):
    """What all addresses share."""

    rates: Rates
    limits: ApiLimits
    rooms: Rooms


class Address:
    """All that can be done at one address. Starlette takes it as an application of its own."""

    def __init__(self, operations: Iterable[Operation], door: Door) -> None:
        self._by_method = {each.method: each for each in operations}
        self._rates, self._limits, self._rooms = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        request = Request(scope, receive, send)
        response = await self._response(request)
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        path = request.url.path
        try:
            return await self._done(request)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:
            return worded(error, path).response(path)

    async def _done(self, request: Request) -> Response:
        operation = self._by_method.get("GET" if request.method == "HEAD" else request.method)
        if operation is None:
            return self._no_method(request)
        key = await self._let_in(request)
        body, ignored = None, tuple[str, ...]()
        if operation.takes is not None:
            body, ignored = await self._body(request, operation, operation.takes)
        return await operation.handler(Call(request, key, body, ignored, self._limits, self._rooms))

    def _no_method(self, request: Request) -> Response:
        allowed = ", ".join(sorted(self._by_method))
        message = f"{request.method[:20]} does nothing here: use {allowed}."
        response = Refused(405, message, "method_not_allowed").response(request.url.path)
        response.headers["Allow"] = allowed
        return response

    async def _let_in(self, request: Request) -> Key:
        """Who asks. Raises Refused (401, 403, 429)."""
        if not same_origin(request.headers):
            raise Refused(403, "A page of another site may not ask here.", "cross_origin")
        store = request.app.state.desk.store
        said = request.headers.get("authorization", "")
        key = await run_in_threadpool(admitted, store, said, at_home(request))
        self._rates.admit(key)
        return key

    async def _body(
        self, request: Request, operation: Operation, takes: type[Any]
    ) -> tuple[Any, tuple[str, ...]]:
        """The body, and the names of what is not taken of it. Raises Refused."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON and not kind.endswith("+json"):
            raise Refused(415, f"Send JSON, with Content-Type: {JSON}.", "not_json")
        sent = decoded(await self._sent(request))
        try:
            body = msgspec.convert(sent, takes)
        except msgspec.ValidationError as error:
            raise wrong_type(error, 422 if operation.plain else 400) from error
        known = {field.encode_name for field in msgspec.structs.fields(takes)}
        return body, tuple(str(name)[:80] for name in sent if name not in known)[:50]

    async def _sent(self, request: Request) -> bytes:
        limit, parts, size = self._limits.body, list[bytes](), 0
        too_much = Refused(413, f"Send at most {limit:,} bytes at once.", "too_large")
        if _declared(request.headers) > limit:
            raise too_much
        try:
            async with asyncio.timeout(self._limits.reading):
                async for part in request.stream():
                    parts.append(part)
                    size += len(part)
                    if size > limit:
                        raise too_much
        except TimeoutError:
            raise Refused(408, "The request took too long to arrive.", "timed_out") from None
        return b"".join(parts)


def decoded(body: bytes) -> Any:
    """What stands in JSON. Raises Refused (400)."""
    try:
        return _whole(msgspec.json.decode(body))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        why = "it goes too deep" if isinstance(error, RecursionError) else str(error)
        raise Refused(400, f"The body cannot be read as JSON: {why}.", "bad_json") from error


def _whole(value: Any) -> Any:
    """The same, 3.0 being 3: JSON knows but one kind of number."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {name: _whole(each) for name, each in value.items()}
    return value


def _declared(headers: Headers) -> int:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 19 else 0


def at_home(request: Request) -> bool:
    """Whether somebody on this very machine asks, as far as can be known: no proxy, and a name of
    this machine as Host (another would be DNS rebinding)."""
    if any(name in request.headers for name in PROXIED):
        return False
    ends = [request.scope.get("server"), request.scope.get("client")]
    names = [end[0] for end in ends if end] + [request.url.hostname or ""]
    return len(names) == len(ends) + 1 and all(_loopback(name) for name in names)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"

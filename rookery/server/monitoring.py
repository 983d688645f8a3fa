"""Server logs, metrics and health checks, and the middleware around the application that writes
them.

Logs are JSON lines, each with the id of its request and without secrets: tokens and keys,
passwords and query strings of URLs, and values of SQL statements are cut out. The middleware also
reads the X-Forwarded-* headers of a proxy.
"""

import ipaddress
import logging
import os
import re
import secrets
import sys
import time
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import msgspec
from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Histogram,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy import JSON, Connection, cast, func, select, type_coerce
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from rookery.desk.store import Store
from rookery.desk.tables import answers, slots
from rookery.errors import Failed
from rookery.server.api.answer_queue import AnswerService
from rookery.server.api.answer_sessions import QuestionRequest
from rookery.server.api.endpoints import (
    ApiError,
    authenticate_key,
    build_json_response,
    is_local_request,
    read_authorization,
)

REQUEST_ID: ContextVar[str] = ContextVar("REQUEST", default="")
"""id of the current request; empty outside of one"""
REQUEST_LOGGER = "rookery.requests"
"""name of the logger of finished requests"""
REDACTED = "[...]"
_SECRETS = (
    (re.compile(r"(/enter/)[^\s/?\"']+"), rf"\1{REDACTED}"),
    (re.compile(r"\brk-[\w-]{8,}"), REDACTED),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]+"), rf"\1 {REDACTED}"),
    (re.compile(r"(?i)\b(cookie|authorization|x-api-key)(['\"]?\s*[:=]\s*).*"), rf"\1\2{REDACTED}"),
    (re.compile(r"(\w://[^\s/:@]*):[^\s/@]+@"), rf"\1:{REDACTED}@"),
    (re.compile(r"(\w://[^\s?\"']+\?)[^\s\"')]+"), rf"\1{REDACTED}"),
    (re.compile(r"\[parameters: .*"), f"[parameters: {REDACTED}]"),
    (re.compile(r"(?s)(DETAIL: ).*"), rf"\1{REDACTED}"),  # PostgreSQL repeats row values here
)


class JsonLogFormatter(logging.Formatter):
    """Logging formatter for JSON lines; `extra={"request": ...}` supplies the fields itself."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"at": at, "level": record.levelname.lower()}
        line |= {"id": REQUEST_ID.get()} if REQUEST_ID.get() else {}
        request = getattr(record, "request", None)
        if request is None:
            line |= {"logger": record.name, "message": redact_secrets(record.getMessage())}
        else:
            line |= request
        if record.exc_info:
            line["trace"] = redact_secrets(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


def redact_secrets(text: str) -> str:
    """Return the text without tokens, keys, passwords, query strings and SQL values."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


def configure_json_logging() -> None:
    """Log JSON lines to standard error: every finished request, otherwise warnings and errors.

    Takes the place of all handlers of the root logger.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLogFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(REQUEST_LOGGER).setLevel(logging.INFO)


disable_created_metrics()  # type: ignore[no-untyped-call]
MULTIPROCESS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""variable of the environment that names the folder in which processes share their metrics"""
LATENCY_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""upper bounds of the latency histogram, in seconds"""
SETTLED_SECONDS = 60.0
"""seconds after which no more answers appear with an earlier end time, so that their counts are
final"""


class RequestMetrics:
    """Finished requests of this process, or of all that share PROMETHEUS_MULTIPROC_DIR.

    That variable must be set before prometheus_client is loaded.
    """

    def __init__(self) -> None:
        own = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("rookery_requests", "Finished requests.", labels, registry=own)
        about = "Seconds from a request to the end of its response, streams included."
        self._seconds = Histogram(
            "rookery_request_seconds", about, ("route",), registry=own, buckets=LATENCY_BOUNDS
        )
        self.registry = own
        """collects the metrics of all these processes, those that have ended among them"""
        if MULTIPROCESS_FOLDER in os.environ:
            self.registry = CollectorRegistry()
            MultiProcessCollector(self.registry)  # type: ignore[no-untyped-call]

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a finished request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)


class OutcomeCounter:
    """Counts answers of a store by outcome, scanning finished ones only once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._until = 0.0
        self._settled = Tally[str]()

    def count_outcomes(self) -> dict[str, int]:
        """Return the number of finished answers by outcome; one thread may call it at a time.

        The outcome is the `stop` of the episode, or "declined", or "failed" without an episode.
        Raises Failed as the store does.
        """
        until = self._store.clock() - SETTLED_SECONDS
        with self._store.begin_read() as connection:
            old = _count_stops(connection, self._until, until)
            new = _count_stops(connection, until, float("inf"))
        self._settled += old
        self._until = until
        return self._settled + new


def _count_stops(connection: Connection, after: float, until: float) -> Tally[str]:
    body = answers.c.episode
    postgresql = connection.dialect.name == "postgresql"
    record = cast(body, JSON) if postgresql else type_coerce(body, JSON)
    declined = record["answer"]["declined"].as_boolean()
    stop = record["stop"].as_string()
    span = (answers.c.ended > after) & (answers.c.ended <= until)
    query = select(stop, declined, func.count()).where(span).group_by(stop, declined)
    counts = Tally[str]()
    for name, no, count in connection.execute(query):
        counts["failed" if name is None else "declined" if no else name] += count
    return counts


class AnswerMetrics(Collector):
    """Answers of a store by how they ended, and its queue, at one moment."""

    def __init__(self, store: Store, ended: Mapping[str, int]) -> None:
        self._store = store
        self._ended = ended

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families. Raises Failed as the store does."""
        answered = CounterMetricFamily(
            "rookery_answers", "Finished stored answers by outcome.", labels=("stop",)
        )
        for stop, count in sorted(self._ended.items()):
            answered.add_metric((stop,), count)
        yield answered
        yield from _collect_queue(self._store)


def _collect_queue(store: Store) -> Iterator[Metric]:
    now = store.clock()
    is_leased = (answers.c.state == "going") & (answers.c.until >= now)
    is_waiting = answers.c.state.in_(("asked", "going")) & ~is_leased
    items = slots.c.person.is_not(None) & ~slots.c.done & (slots.c.until >= now)
    with store.begin_read() as connection:
        waiting, going = (
            connection.scalar(select(func.count()).select_from(answers).where(which)) or 0
            for which in (is_waiting, is_leased)
        )
        leased = connection.scalar(select(func.count()).select_from(slots).where(items)) or 0
    yield GaugeMetricFamily("rookery_waiting", "Questions that wait for a worker.", value=waiting)
    leases = GaugeMetricFamily(
        "rookery_leases", "Leased answers and labelling items.", labels=("of",)
    )
    leases.add_metric(("answers",), going)
    leases.add_metric(("items",), leased)
    yield leases


_HEALTH_LOG = logging.getLogger("rookery.health")
READY = "ready"


class HealthEndpoints:
    """Health and metrics endpoints of an application.

    /healthz and /readyz are public and answer only fixed words. /metrics is for requests from this
    machine and for holders of an API key.
    """

    def __init__(self, app: Starlette, requests: RequestMetrics) -> None:
        self._app = app
        self._store: Store = app.state.desk.store
        self._requests = requests
        self._outcomes = OutcomeCounter(self._store)
        self._counting_lock = Lock()
        self._library_lock = Lock()
        # Threads of its own: a busy server is still a healthy one.
        self._limiter = CapacityLimiter(4)
        self.handlers = {
            "/healthz": self._serve_health,
            "/readyz": self._serve_readiness,
            "/metrics": self._serve_metrics,
        }
        """handlers of health, readiness and metrics by path"""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for one of the paths."""
        response: Response = PlainTextResponse("GET it.\n", 405, {"Allow": "GET"})
        if scope["method"] in ("GET", "HEAD"):
            response = await self.handlers[scope["path"]](Request(scope))
        await response(scope, receive, send)

    async def _serve_health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _serve_readiness(self, request: Request) -> Response:
        states = await run_sync(self._check_parts, limiter=self._limiter)
        ready = all(state == READY for state in states.values())
        return build_json_response(states, 200 if ready else 503)

    async def _serve_metrics(self, request: Request) -> Response:
        try:
            return await run_sync(self._build_metrics, request, limiter=self._limiter)
        except ApiError as refused:
            return PlainTextResponse(f"{refused.detail.message}\n", 401)
        except Failed as failed:
            _HEALTH_LOG.error("/metrics: %s", failed)
            return PlainTextResponse("The store cannot be read.\n", 503)

    def _build_metrics(self, request: Request) -> Response:
        if not is_local_request(request):
            authenticate_key(self._store, read_authorization(request.headers), open_here=False)
        with self._counting_lock:
            ended = self._outcomes.count_outcomes()
        collectors = (self._requests.registry, AnswerMetrics(self._store, ended))
        body = b"".join(map(generate_latest, collectors))
        return Response(body, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    def _check_parts(self) -> dict[str, str]:
        states = {"store": self._check_store()}
        if hasattr(self._app.state, "answering"):
            states["library"] = self._check_library()
        return states

    def _check_store(self) -> str:
        """Open the store anew, so that damage since its opening is noticed."""
        try:
            Store(self._store.place).close()
        except Failed as failed:
            return failed.failure.outcome
        return READY

    def _check_library(self) -> str:
        # While the library opens, only one probe waits for it.
        if not self._library_lock.acquire(blocking=False):
            return "opening"
        try:
            answering: AnswerService = self._app.state.answering
            with answering.open_library(QuestionRequest("")):
                return READY
        except Failed as failed:
            return failed.failure.outcome
        finally:
            self._library_lock.release()


_LOG = logging.getLogger(REQUEST_LOGGER)
KNOWN_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""HTTP methods that are counted by name; all others count as `other`"""
REQUEST_ID_HEADER = "X-Request-Id"
"""header with the request id"""
_REQUEST_ID_PATTERN = re.compile(r"[\w.:-]{8,64}", re.ASCII)
_HOST_PATTERN = re.compile(r"([\w.-]+|\[[\da-f:.]+\])(?::(\d{1,5}))?", re.ASCII | re.IGNORECASE)


class ObservabilityMiddleware:
    """ASGI middleware that logs and counts each request and answers health checks.

    With `behind_proxy` every request is taken to come through a proxy whose X-Forwarded-* headers
    are true; without, they are ignored.
    """

    def __init__(self, app: Starlette, behind_proxy: bool = False) -> None:
        self._app = app
        self._behind_proxy = behind_proxy
        self._metrics = RequestMetrics()
        self._health = HealthEndpoints(app, self._metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request, or the lifespan of the application."""
        if scope["type"] == "http":
            await self._handle_http(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _handle_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give the request an id, serve it, then log and count it."""
        headers = Headers(scope=scope)
        identity = secrets.token_urlsafe(12)
        if self._behind_proxy:
            identity = _get_proxy_request_id(headers) or identity
            scope = _apply_forwarded_headers(scope, headers)
        REQUEST_ID.set(identity)
        # 499 stays if the client disconnects before the answer.
        begun, status, size = time.monotonic(), 499, 0

        async def send_counted(message: Message) -> None:
            """Send a message; note the status and size, and add the id to the headers."""
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = identity
            size += len(message.get("body", b""))
            await send(message)

        served = self._health if scope["path"] in self._health.handlers else self._app
        try:
            await served(scope, receive, send_counted)
        finally:
            seconds = time.monotonic() - begun
            self._log_request(scope, status, size, seconds)

    def _log_request(self, scope: Scope, status: int, size: int, seconds: float) -> None:
        """Log and count the request under its route's pattern: the rest of the path may be a token,
        or a question."""
        route = getattr(scope.get("route"), "path", "")
        route = scope["path"] if scope["path"] in self._health.handlers else route or "none"
        method = scope["method"] if scope["method"] in KNOWN_METHODS else "other"
        self._metrics.add(method, route, status, seconds)
        if _LOG.isEnabledFor(logging.INFO):
            client = (scope.get("client") or ("",))[0]
            about = {"method": method, "route": route, "status": status, "client": client}
            about |= {"ms": round(1e3 * seconds, 1), "bytes": size}
            _LOG.info("request", extra={"request": about})


def _get_proxy_request_id(headers: Headers) -> str:
    """Return the request id that the proxy gave; empty if it gave none that is valid."""
    said = headers.get(REQUEST_ID_HEADER, "")
    return said if _REQUEST_ID_PATTERN.fullmatch(said) else ""


def _apply_forwarded_headers(scope: Scope, headers: Headers) -> Scope:
    """Return the scope with the client, scheme and host that the proxy was asked with."""
    forwarded: dict[str, Any] = {"client": _get_forwarded_client(headers)}
    scheme = headers.get("x-forwarded-proto", "").strip().lower()
    if scheme in ("http", "https"):
        forwarded["scheme"] = scheme
    host = headers.get("x-forwarded-host", "").strip()
    if named := _HOST_PATTERN.fullmatch(host):
        others = [(name, value) for name, value in scope["headers"] if name != b"host"]
        forwarded["headers"] = [*others, (b"host", host.encode())]
        forwarded["server"] = named[1].strip("[]"), int(named[2]) if named[2] else None
    return {**scope, **forwarded}


def _get_forwarded_client(headers: Headers) -> tuple[str, int] | None:
    """Return the last address of X-Forwarded-For, the one that the proxy saw itself; None if it is
    missing or no address."""
    said = ",".join(headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()
    try:
        return str(ipaddress.ip_address(said.strip("[]"))), 0
    except ValueError:
        return None

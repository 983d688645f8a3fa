"""Pages and answers from the web, under one policy: bounded, polite, and each failure named.

It knows no search engine and reads no page itself. The outcomes are listed in `outcomes`.
"""

import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from datetime import UTC, datetime
from typing import NamedTuple, Self
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass
from zlib import crc32

import httpcore
import msgspec

from rookery import __version__
from rookery.browse.answer import (
    HTTPCORE_ERRORS,
    check_status,
    header,
    named,
    redirection,
)
from rookery.browse.decode import ACCEPTED, decoded
from rookery.browse.network import (
    PORTS,
    GuardedBackend,
    Resolve,
    Target,
    check_numeric,
    left,
    system_resolve,
    target,
    trust,
)
from rookery.browse.outcomes import FetchError
from rookery.browse.robots import Robots, Turns
from rookery.records import Failed, Failure, Page

USER_AGENT = f"rookery/{__version__} (reads pages in order to quote them)"

TEXTLESS = ("image/", "audio/", "video/", "font/")

Headers = Sequence[tuple[str, str]]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much one fetch may take. What passes a limit fails; nothing is ever cut short."""

    bytes: int = 20_000_000
    """of a body, both as it is sent and after decompression"""
    seconds: float = 20.0
    """for one fetch as a whole: waiting for a turn, robots.txt, redirects, the last byte"""
    connect: float = 10.0
    """seconds for one connection, its TLS included"""
    redirects: int = 10
    """that are followed"""
    url: int = 8192
    """characters of an address"""
    per_host: int = 2
    """requests to one host at a time"""
    connections: int = 64
    """to all hosts at a time"""
    robots: int = 500 * 1024
    """bytes of a robots.txt that are read; the rest of it is ignored (RFC 9309, section 2.5)"""
    delay: float = 10.0
    """seconds between requests: a Crawl-delay above this counts as this"""


LIMITS = Limits()


class Response(msgspec.Struct, frozen=True):
    """What a server answered, decompressed."""

    url: str
    """after redirects, without a fragment"""
    status: int
    """200 to 299, never 206"""
    content_type: str
    """as the server wrote it; empty where it said nothing"""
    data: bytes
    fetched: str
    """UTC, ISO 8601"""


class _Want(NamedTuple):
    """How one fetch is made, beyond its address."""

    headers: Headers = ()
    polite: bool = False
    """whether robots.txt is asked"""
    refused: tuple[str, ...] = ()
    """beginnings of content types whose body is not even read"""
    cut: int | None = None
    """bytes after which the body is left unread, where it may be"""


class Fetcher:
    """Fetches from the public internet over http and https; safe to share between threads.

    `allow_private`: True also permits loopback and local networks, a tuple only the hosts named
    in it. `use_proxy` takes proxies from the environment (HTTPS_PROXY and so on); it is then the
    proxy that resolves names, so that only numeric hosts can be checked here. `obey_robots`
    concerns `page` alone. `tls` and `resolve` replace the system's trust and its resolver.
    """

    def __init__(
        self,
        limits: Limits = LIMITS,
        allow_private: bool | tuple[str, ...] = False,
        use_proxy: bool = False,
        obey_robots: bool = True,
        user_agent: str = USER_AGENT,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve = system_resolve,
    ) -> None:
        tls = tls or trust()
        self._limits = limits
        self._allow_private = allow_private
        self._obey_robots = obey_robots
        self._user_agent = user_agent
        backend = GuardedBackend(allow_private, resolve)
        self._direct = [_pool(tls, backend) for _ in range(POOLS)]
        self._proxied = _proxies(tls, limits.connections) if use_proxy else {}
        self._turns = Turns(limits.per_host)
        self._connections = Turns(limits.connections)
        self._robots = Robots(self._robots_text, user_agent)
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every connection; a fetch that another thread has under way fails soon after."""
        self._closed.set()
        for pool in (*self._direct, *self._proxied.values()):
            pool.close()

    def get(self, url: str, headers: Headers = ()) -> Response:
        """The answer at this address, robots.txt or not: for interfaces that are made for programs.

        The headers go to the address's own origin only, never to another that it redirects to.
        Raises Failed; ValueError for headers that HTTP forbids.
        """
        return self._had(url, _Want(headers))

    def page(self, url: str) -> Page:
        """The page at this address, where robots.txt permits it. Raises Failed."""
        from rookery.browse.read import read

        got = self._had(url, _Want(polite=self._obey_robots, refused=TEXTLESS))
        return read(got.data, got.url, got.content_type, got.fetched)

    def _had(self, url: str, want: _Want) -> Response:
        try:
            return self._follow(url, want, time.monotonic() + self._limits.seconds)
        except FetchError as error:
            raise Failed(Failure(url, error.outcome, error.detail)) from None

    def _follow(self, url: str, want: _Want, until: float) -> Response:
        first = here = target(url, self._limits.url)
        seen: set[str] = set()
        while here.url not in seen and len(seen) <= self._limits.redirects:
            seen.add(here.url)
            try:
                sent = want.headers if here.origin == first.origin else ()
                got = self._hop(here, want._replace(headers=sent), until)
                if isinstance(got, Response):
                    return got
                here = target(got, self._limits.url)
            except FetchError as error:
                if here is first:
                    raise
                detail = f"redirected to {here.url}: {error.detail}"
                raise FetchError(error.outcome, detail) from None
        how = "in a circle" if here.url in seen else f"more than {self._limits.redirects} times"
        raise FetchError("too_many_redirects", f"the server redirects {how}, at last to {here.url}")

    def _hop(self, here: Target, want: _Want, until: float) -> Response | str:
        """One request: what it brought, or the address to which it redirects."""
        delay = self._robots.check(here, until) if want.polite else 0.0
        with (
            self._turns.turn(here.host, min(delay, self._limits.delay), until),
            self._connections.turn("all hosts", 0.0, until),
        ):
            try:
                answer = self._send(here, want.headers, until)
            except HTTPCORE_ERRORS as error:
                raise named(error, here.host) from None
            try:
                return redirection(answer, here) or self._response(answer, here, want)
            except HTTPCORE_ERRORS as error:
                raise named(error, here.host, answer) from None
            finally:
                answer.close()

    def _send(self, here: Target, headers: Headers, until: float) -> httpcore.Response:
        """The answer's head. Where a kept connection has died, a new one is made."""
        events: list[str] = []
        pool = self._pool(here)
        try:
            return pool.handle_request(self._request(here, headers, until, events))
        except (httpcore.ReadError, httpcore.RemoteProtocolError):
            if "connection.connect_tcp.started" in events:
                raise
        return pool.handle_request(self._request(here, headers, until, events))

    def _pool(self, here: Target) -> httpcore.ConnectionPool:
        if self._closed.is_set():
            raise RuntimeError("this Fetcher is closed; make a new one")
        proxy = self._proxied.get(here.scheme)
        if proxy is None or proxy_bypass(here.host):
            return self._direct[crc32(here.host.encode()) % POOLS]
        check_numeric(here.host, self._allow_private)
        return proxy

    def _request(
        self, here: Target, headers: Headers, until: float, events: list[str]
    ) -> httpcore.Request:
        def note(event: str, _: object) -> None:
            events.append(event)

        connected = min(until, time.monotonic() + self._limits.connect)
        moments = {"connect": connected, "read": until, "write": until, "pool": left(until)}
        own = (
            ("Host", here.authority),
            ("User-Agent", self._user_agent),
            ("Accept", "text/html, application/xhtml+xml, */*;q=0.8"),
            ("Accept-Encoding", ACCEPTED),
        )
        given = {name.lower() for name, _ in headers}
        port = None if here.port == PORTS[here.scheme] else here.port
        return httpcore.Request(
            "GET",
            httpcore.URL(scheme=here.scheme, host=here.host, port=port, target=here.path),
            headers=[*(pair for pair in own if pair[0].lower() not in given), *headers],
            extensions={"timeout": moments, "trace": note},
        )

    def _response(self, answer: httpcore.Response, here: Target, want: _Want) -> Response:
        check_status(answer)
        kind = header(answer, b"content-type")
        if kind.lower().startswith(want.refused or "\0"):
            raise FetchError("unsupported_type", f"{kind} holds no text to quote")
        data = self._body(answer, want.cut)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return Response(here.url, answer.status, kind, data, now)

    def _body(self, answer: httpcore.Response, cut: int | None) -> bytes:
        limit, length = self._limits.bytes, header(answer, b"content-length")
        if cut is None and length.isdecimal() and int(length) > limit:
            detail = f"the server announces {length} bytes; raise Limits.bytes to read them"
            raise FetchError("too_large", detail)
        encoding = header(answer, b"content-encoding")
        pieces, size = [], 0
        for piece in decoded(answer.iter_stream(), encoding, limit):
            pieces.append(piece)
            size += len(piece)
            if cut is not None and size >= cut:
                break
        return b"".join(pieces)[:cut]

    def _robots_text(self, url: str, until: float) -> str:
        """A robots.txt as far as the limit goes, without the line that the limit cuts."""
        cut = self._limits.robots
        data = self._follow(url, _Want(cut=cut), until).data
        text = data.decode("utf-8-sig", errors="replace")
        return text if len(data) < cut else text.rpartition("\n")[0]


KEEP_ALIVE = 15.0
"""seconds for which an unused connection is kept"""


POOLS = 64
"""among which hosts are shared out: for each request, a pool looks at every connection it has"""
IDLE = 4
"""connections that a pool keeps unused"""


def _pool(tls: ssl.SSLContext, backend: GuardedBackend) -> httpcore.ConnectionPool:
    return httpcore.ConnectionPool(
        tls,
        max_connections=None,
        max_keepalive_connections=IDLE,
        keepalive_expiry=KEEP_ALIVE,
        network_backend=backend,
    )


def _proxies(tls: ssl.SSLContext, connections: int) -> dict[str, httpcore.ConnectionPool]:
    """A pool for each scheme for which the environment names a proxy, private or not."""
    found = getproxies()
    return {scheme: _proxy(found[scheme], tls, connections) for scheme in PORTS if scheme in found}


def _proxy(url: str, tls: ssl.SSLContext, connections: int) -> httpcore.ConnectionPool:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError(f"the proxy {parts.hostname or url} must have an http:// address")
    login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    port = parts.port or PORTS[parts.scheme]
    return httpcore.HTTPProxy(
        httpcore.URL(scheme=parts.scheme, host=parts.hostname, port=port, target="/"),
        proxy_auth=login,
        ssl_context=tls,
        proxy_ssl_context=tls if parts.scheme == "https" else None,
        max_connections=connections,
        keepalive_expiry=KEEP_ALIVE,
        network_backend=GuardedBackend(allow_private=(parts.hostname,)),
    )


def fetch_all(
    fetch: Callable[[str], Page],
    urls: Sequence[str],
    seconds: float,
    parallel: int = 8,
    per_host: int = 2,
) -> list[Page | Failure]:
    """What `fetch` brings from each address, in their order, after `seconds` at the latest.

    `parallel` fetches run at a time, `per_host` of them on one host. What has not come by then
    is a Failure (timed_out); its thread is left behind and keeps nothing from ending. What
    `fetch` raises besides Failed is raised here.
    """
    work = _Work(urls, per_host)
    for _ in range(min(parallel, len(work.results))):
        threading.Thread(target=work.run, args=(fetch,), name="fetch_all", daemon=True).start()
    try:
        wait(work.results.values(), timeout=seconds)
    finally:
        work.stop()
    late = f"not here after the {seconds:g} seconds for all pages; allow more time"
    return [_settled(work.results[url], Failure(url, "timed_out", late)) for url in urls]


def _settled(result: "Future[Page]", late: Failure) -> Page | Failure:
    if not result.done():
        return late
    try:
        return result.result()
    except Failed as failed:
        return failed.failure


class _Work:
    """Addresses still to be fetched, and what came of the others; shared by some threads."""

    def __init__(self, urls: Sequence[str], per_host: int) -> None:
        self.results: dict[str, Future[Page]] = {url: Future() for url in urls}
        self._waiting = list(self.results)
        self._busy: Counter[str] = Counter()
        self._per_host = per_host
        self._changed = threading.Condition()

    def run(self, fetch: Callable[[str], Page]) -> None:
        while (url := self._take()) is not None:
            try:
                self.results[url].set_result(fetch(url))
            except BaseException as error:  # raised again by the one who asks for the result
                self.results[url].set_exception(error)
            self._leave(url)

    def stop(self) -> None:
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()

    def _take(self) -> str | None:
        with self._changed:
            while self._waiting:
                free = (url for url in self._waiting if self._busy[_host(url)] < self._per_host)
                if (url := next(free, None)) is not None:
                    self._waiting.remove(url)
                    self._busy[_host(url)] += 1
                    return url
                self._changed.wait()
            return None

    def _leave(self, url: str) -> None:
        with self._changed:
            self._busy[_host(url)] -= 1
            self._changed.notify_all()


def _host(url: str) -> str:
    """The host that a fetch of this address will occupy; without one, nothing is shared."""
    try:
        return urlsplit(url).hostname or url
    except ValueError:
        return url

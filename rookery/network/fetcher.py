"""Fetch pages from the web: bounded, polite (robots.txt, RFC 9309; a delay for each host), with
every failure named."""

import re
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple, Self
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass
from zlib import crc32

import httpcore
import msgspec
from protego import Protego

from rookery.errors import Failed, Outcome
from rookery.network.access_rules import (
    DEFAULT_PORTS,
    FetchError,
    GuardedBackend,
    NormalizedUrl,
    ResolveHost,
    check_numeric_host,
    get_seconds_left,
    make_tls_context,
    normalize_url,
    resolve_with_system,
)
from rookery.network.http_response import (
    ACCEPTED_ENCODINGS,
    HTTPCORE_ERRORS,
    FetchCookies,
    check_status,
    classify_http_error,
    decode_content,
    parse_retry_after,
    read_header,
    read_redirect,
)
from rookery.pages.reader_processes import PageJob, ReaderPool
from rookery.records import Failure, Page
from rookery.version import __version__

FetchText = Callable[[str, float], str]
"""the text at a URL, had before a moment of time.monotonic(); raises FetchError"""

RULES_LIFETIME = 24 * 3600.0
"""seconds for which rules may be kept (RFC 9309, section 2.4)"""

RETRY_AFTER = 60.0
"""seconds after which a robots.txt that could not be had is tried again"""

KEPT_SITES = 1000
"""sites whose rules are kept at once"""

CONNECTION_OUTCOMES = frozenset(
    map(Outcome, "timed_out unresolved refused tls_failed blocked_address".split())
)
"""outcomes that the page itself would meet too, and that say more than "robots" does"""


class RobotsRules(NamedTuple):
    """The rules of one site's robots.txt."""

    parsed: Protego | None
    """None: nothing may be fetched"""
    why: str = ""


class _SiteRules:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rules: RobotsRules | None = None
        self.until = 0.0


class RobotsCache:
    """The robots.txt of every site that is asked about, each read once a day at most."""

    def __init__(self, read: FetchText, user_agent: str) -> None:
        self._read = read
        self._product_token = parse_product_token(user_agent)
        self._sites: dict[str, _SiteRules] = {}
        self._lock = threading.Lock()

    def check_permission(self, target: NormalizedUrl, until: float) -> float:
        """Return the Crawl-delay of the site's robots.txt in seconds, 0 without one.

        `until` is a moment of time.monotonic(). Raises FetchError: robots (it forbids the URL, or
        could not be read), timed_out after `until`, or the reason why the host cannot be reached.
        """
        rules = self._get_rules(target, until)
        if rules.parsed is None:
            raise FetchError(Outcome.ROBOTS, rules.why)
        if not rules.parsed.can_fetch(target.url, self._product_token):
            detail = f"robots.txt of {target.origin} forbids it to {self._product_token}"
            raise FetchError(Outcome.ROBOTS, f"{detail}; ask its owner")
        return rules.parsed.crawl_delay(self._product_token) or 0.0

    def list_sitemaps(self, target: NormalizedUrl, until: float) -> tuple[str, ...]:
        """Return the sitemaps that the site's robots.txt names; none if it could not be read.

        `until` is a moment of time.monotonic(). Raises FetchError: timed_out, or the reason why the
        host cannot be reached.
        """
        rules = self._get_rules(target, until)
        return tuple(rules.parsed.sitemaps) if rules.parsed else ()

    def _get_rules(self, target: NormalizedUrl, until: float) -> RobotsRules:
        site = self._get_site(target.origin)
        if not site.lock.acquire(timeout=get_seconds_left(until) or 0.0):
            detail = f"robots.txt of {target.origin} did not come in time"
            raise FetchError(Outcome.TIMED_OUT, detail)
        try:
            if site.rules is None or site.until < time.monotonic():
                site.rules = self._fetch_rules(target.origin, until)
                lifetime = RETRY_AFTER if site.rules.parsed is None else RULES_LIFETIME
                site.until = time.monotonic() + lifetime
            return site.rules
        finally:
            site.lock.release()

    def _get_site(self, origin: str) -> _SiteRules:
        with self._lock:
            site = self._sites.pop(origin, None) or _SiteRules()
            self._sites[origin] = site  # the last one asked about is the last one dropped
            if len(self._sites) > KEPT_SITES:
                del self._sites[next(iter(self._sites))]
            return site

    def _fetch_rules(self, origin: str, until: float) -> RobotsRules:
        try:
            text = self._read(f"{origin}/robots.txt", until)
        except FetchError as error:
            if error.outcome in CONNECTION_OUTCOMES:
                raise
            if permits_all_robots(error.outcome):
                return RobotsRules(Protego.parse(""))
            why = f"robots.txt of {origin} could not be had ({error.outcome}); try again later"
            return RobotsRules(None, why)
        return RobotsRules(Protego.parse(merge_other_agents(text, self._product_token)))


def permits_all_robots(outcome: str) -> bool:
    """Return whether a robots.txt that failed with this outcome permits everything.

    `outcome` is a failure's, such as http_404. Client errors, and redirects that are endless or
    lead to no web address, count as an absent file (RFC 9309, section 2.3.1.3); a server that is
    overloaded (429) or broken (5xx), breaks off or is not there has not said yes.
    """
    absent = outcome.startswith(("http_3", "http_4")) and outcome != "http_429"
    nowhere = (Outcome.TOO_MANY_REDIRECTS, Outcome.UNSUPPORTED_SCHEME, Outcome.INVALID_URL)
    return absent or outcome in nowhere


def parse_product_token(user_agent: str) -> str:
    """Return a robot's name in robots.txt: "rookery" of "rookery/0.1 (...)"; "*" without one."""
    found = re.match(r"[A-Za-z_-]+", user_agent.strip())
    return found[0].lower() if found else "*"


USER_AGENT_LINE = re.compile(r"\s*user[ -]?agent\s*[:\s]\s*([^#]*)", re.IGNORECASE)


def merge_other_agents(text: str, token: str) -> str:
    """Return a robots.txt with all robots that are neither `token` nor * under one name.

    The parser keeps every rule once for each robot that it is for: some thousand names before
    some thousand rules would take gigabytes.
    """
    lines = []
    for line in text.splitlines():
        agent = USER_AGENT_LINE.match(line)
        name = agent[1].strip().lower() if agent else ""
        others = agent is not None and name != "*" and parse_product_token(name) != token
        lines.append("User-agent: another" if others else line)
    return "\n".join(lines)


class HostRateLimiter:
    """Limits the requests to each host: how many run at a time, and the seconds between two
    starts.

    Above MOST_HOSTS hosts, those are forgotten for which nothing runs, waits or is due.
    """

    MOST_HOSTS = 1000

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lock = threading.Lock()
        self._slots: dict[str, threading.BoundedSemaphore] = {}
        self._users = Counter[str]()
        """requests to each host that run or wait"""
        self._next_start: dict[str, float] = {}

    @contextmanager
    def hold_slot(self, host: str, delay: float, until: float) -> Iterator[None]:
        """Wait for a place and for the delay of the last start that had one; hold the place.

        `delay` is the seconds from this start to the next. A start with a delay of 0 does not wait
        and leaves the wait that is due as it is. Raises FetchError (timed_out) where the wait would
        end after `until`.
        """
        with self._lock:
            place = self._slots.setdefault(host, threading.BoundedSemaphore(self._at_once))
            self._users[host] += 1
        try:
            if not place.acquire(timeout=get_seconds_left(until) or 0.0):
                raise FetchError(Outcome.TIMED_OUT, f"other requests to {host} took all the time")
            try:
                self._wait_for_delay(host, delay, until)
                yield
            finally:
                place.release()
        finally:
            with self._lock:
                self._users[host] -= 1
                self._forget_idle_hosts()

    def _forget_idle_hosts(self) -> None:
        now = time.monotonic()
        for host in list(self._slots) if len(self._slots) > self.MOST_HOSTS else ():
            if not self._users[host] and self._next_start.get(host, now) <= now:
                del self._slots[host], self._users[host]
                self._next_start.pop(host, None)

    def _wait_for_delay(self, host: str, delay: float, until: float) -> None:
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next_start.get(host, now)) if delay else now
            if start > until:
                detail = f"{host} wants {delay:g} seconds between requests"
                raise FetchError(Outcome.TIMED_OUT, detail)
            if delay:  # another request, as for robots.txt, leaves the wait that is due
                self._next_start[host] = start + delay
        time.sleep(start - now)


USER_AGENT = f"rookery/{__version__} (reads pages in order to quote them)"


def build_user_agent(contact: str) -> str:
    """Return the User-Agent with an address at which the owners of sites can reach the user.

    `contact` is a mail or web address; empty leaves it out. Raises Failed (bad_contact).
    """
    if not contact:
        return USER_AGENT
    if not re.fullmatch(r"[!-'*-~]{3,200}", contact) or not re.search(r"@|\.", contact):
        detail = "give one mail address or web address, such as you@example.org"
        raise Failed(Failure(contact, Outcome.BAD_CONTACT, detail))
    return f"{USER_AGENT[:-1]}; contact: {contact})"


BUSY_OUTCOMES = frozenset(("http_429", "http_503"))
BUSY_PAUSES = (1.0, 2.0, 4.0)
"""seconds after which a page of a server that is busy is asked for again, where it names no time"""

TEXTLESS_TYPES = ("image/", "audio/", "video/", "font/")

HttpHeaders = Sequence[tuple[str, str]]

RenderPage = Callable[["Fetcher", "FetchResponse"], "FetchResponse"]
"""from a page that needs scripts to the page as they leave it; raises Failed"""


class FetchLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one fetch. A response above a limit is a failure; nothing is cut short."""

    bytes: int = 20_000_000
    """of a body, both as it is sent and after decompression"""
    seconds: float = 20.0
    """for one fetch as a whole: waiting for a turn, robots.txt, redirects, the last byte, and
    reading the page"""
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


DEFAULT_FETCH_LIMITS = FetchLimits()


class FetchResponse(msgspec.Struct, frozen=True):
    """A server's response, decompressed."""

    url: str
    """after redirects, without a fragment"""
    status: int
    """200 to 299, never 206"""
    content_type: str
    """as the server wrote it; empty where it said nothing"""
    data: bytes
    fetched: str
    """UTC, ISO 8601"""


class _FetchOptions(NamedTuple):
    """Options of one fetch besides its address."""

    headers: HttpHeaders = ()
    obey_robots: bool = False
    """whether robots.txt is asked"""
    refused_types: tuple[str, ...] = ()
    """beginnings of content types whose body is not even read"""
    cut_after: int | None = None
    """bytes after which the body is left unread, where it may be"""
    within_origin: bool = False
    """whether redirects to another origin are refused"""


class Fetcher:
    """Fetches from the public internet over http and https; safe to share between threads.

    `allow_private`: True also permits loopback and local networks, a tuple only the hosts named
    in it. `use_proxy` takes proxies from the environment (HTTPS_PROXY and so on); it is then the
    proxy that resolves names, so that only numeric hosts can be checked here. `obey_robots`
    concerns `fetch_page` alone, and so does `render`, to which pages are handed that show no text
    without scripts. `tls` and `resolve` replace the system's trust and its resolver.
    """

    def __init__(
        self,
        limits: FetchLimits = DEFAULT_FETCH_LIMITS,
        allow_private: bool | tuple[str, ...] = False,
        use_proxy: bool = False,
        obey_robots: bool = True,
        user_agent: str = USER_AGENT,
        tls: ssl.SSLContext | None = None,
        resolve: ResolveHost = resolve_with_system,
        render: RenderPage | None = None,
    ) -> None:
        tls = tls or make_tls_context()
        self._limits = limits
        self._allow_private = allow_private
        self._obey_robots = obey_robots
        self._user_agent = user_agent
        self._render = render
        backend = GuardedBackend(allow_private, resolve)
        self._direct_pools = [_make_pool(tls, backend) for _ in range(POOL_COUNT)]
        self._proxy_pools = _make_proxy_pools(tls, limits.connections) if use_proxy else {}
        self._host_limiter = HostRateLimiter(limits.per_host)
        self._connection_limiter = HostRateLimiter(limits.connections)
        self._robots = RobotsCache(self._fetch_robots_text, user_agent)
        self._readers = ReaderPool()
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End every connection and reader; a fetch that another thread has under way fails soon.

        Later fetches raise RuntimeError.
        """
        self._closed.set()
        for pool in (*self._direct_pools, *self._proxy_pools.values()):
            pool.close()
        self._readers.close()

    def fetch_response(self, url: str, headers: HttpHeaders = ()) -> FetchResponse:
        """Return the response at this address, robots.txt or not: for interfaces made for programs.

        It may be of any type; a busy server is not asked again. Redirects are followed; the headers
        go to the address's own origin only. Raises Failed with an outcome of FetchError or
        `http_<status>`; ValueError for headers that HTTP forbids.
        """
        until = time.monotonic() + self._limits.seconds
        return self._fetch_or_fail(url, _FetchOptions(headers), until)

    def fetch_resource(
        self, url: str, accept: str, document: bool, within_origin: bool
    ) -> FetchResponse:
        """Return what a page that is rendered asks for; for a document, robots.txt is asked.

        `within_origin` refuses redirects to another origin; pictures, sound, films and fonts are
        refused always (unsupported_type). Raises Failed as `fetch_response`.
        """
        obey_robots = document and self._obey_robots
        headers = (("Accept", accept),)
        options = _FetchOptions(headers, obey_robots, TEXTLESS_TYPES, within_origin=within_origin)
        return self._fetch_or_fail(url, options, time.monotonic() + self._limits.seconds)

    def fetch_page(self, url: str) -> Page:
        """Return the page at this address, as far as robots.txt permits it.

        Its URL is the one after redirects. A Fetcher made with `obey_robots` False does not ask
        robots.txt. A busy server (429, 503) is asked again, three times at most, after the pause
        that it names or growing ones. The page is read in another process, within the time that the
        fetch has left; rendering takes time of its own. Raises Failed with the outcomes of
        `fetch_response` and of `ReaderPool.read_page`.
        """
        until = time.monotonic() + self._limits.seconds
        options = _FetchOptions(obey_robots=self._obey_robots, refused_types=TEXTLESS_TYPES)
        self._readers.start()  # its start costs no time while the server is waited for
        got = self._fetch_patiently(url, options, until)
        try:
            return self._read_fetched(got, until - time.monotonic())
        except Failed as failed:
            if self._render is None or failed.failure.outcome != Outcome.NEEDS_JAVASCRIPT:
                raise
        return self._read_fetched(self._render(self, got), self._limits.seconds)

    def list_sitemaps(self, url: str) -> tuple[str, ...]:
        """Return the addresses of sitemaps that the site's robots.txt names, else the usual one.

        The usual one need not exist; without `obey_robots` it is the only one. Empty where the
        address is wrong or the site cannot be reached.
        """
        named: tuple[str, ...] = ()
        try:
            target = normalize_url(url, self._limits.url)
            if self._obey_robots:
                until = time.monotonic() + self._limits.seconds
                named = self._robots.list_sitemaps(target, until)
        except FetchError:
            return ()
        return named or (f"{target.origin}/sitemap.xml",)

    def _read_fetched(self, got: FetchResponse, seconds: float) -> Page:
        job = PageJob(got.data, got.url, got.content_type, got.fetched)
        return self._readers.read_page(job, seconds)

    def _fetch_patiently(self, url: str, want: _FetchOptions, until: float) -> FetchResponse:
        """Fetch; ask a server that is busy again after the time that it names, or growing pauses,
        while they end before `until`."""
        for pause in BUSY_PAUSES:
            try:
                return self._fetch_or_fail(url, want, until)
            except Failed as failed:
                retry_after = parse_retry_after(failed.failure.detail)
                pause = pause if retry_after is None else max(retry_after, 0.1)
                busy = failed.failure.outcome in BUSY_OUTCOMES
                if not busy or time.monotonic() + pause > until or self._closed.wait(pause):
                    raise
        return self._fetch_or_fail(url, want, until)

    def _fetch_or_fail(self, url: str, want: _FetchOptions, until: float) -> FetchResponse:
        try:
            return self._follow_redirects(url, want, until)
        except FetchError as error:
            raise Failed(Failure(url, error.outcome, error.detail)) from None

    def _follow_redirects(self, url: str, want: _FetchOptions, until: float) -> FetchResponse:
        first = current = normalize_url(url, self._limits.url)
        # A site may set a cookie and redirect to the same address: that is no circle.
        cookies = FetchCookies()
        visited: set[tuple[str, str]] = set()
        while (step := (current.url, cookies.write_header(current))) not in visited and len(
            visited
        ) <= self._limits.redirects:
            visited.add(step)
            try:
                sent = want.headers if current.origin == first.origin else ()
                if step[1] and not any(name.lower() == "cookie" for name, _ in sent):
                    sent = (*sent, ("Cookie", step[1]))
                got = self._request_once(current, want._replace(headers=sent), until, cookies)
                if isinstance(got, FetchResponse):
                    return got
                current = normalize_url(got, self._limits.url)
                if want.within_origin and current.origin != first.origin:
                    raise FetchError(Outcome.BLOCKED_ADDRESS, "it is at another origin")
            except FetchError as error:
                if current is first:
                    raise
                detail = f"redirected to {current.url}: {error.detail}"
                raise FetchError(error.outcome, detail) from None
        often = f"more than {self._limits.redirects} times"
        how = "in a circle" if step in visited else often
        detail = f"the server redirects {how}, at last to {current.url}"
        raise FetchError(Outcome.TOO_MANY_REDIRECTS, detail)

    def _request_once(
        self, url: NormalizedUrl, want: _FetchOptions, until: float, cookies: FetchCookies
    ) -> FetchResponse | str:
        """Make one request; return its response, or the address to which it redirects.

        Cookies that the server sets are added to `cookies`.
        """
        delay = self._robots.check_permission(url, until) if want.obey_robots else 0.0
        with (
            self._host_limiter.hold_slot(url.host, min(delay, self._limits.delay), until),
            self._connection_limiter.hold_slot("all hosts", 0.0, until),
        ):
            try:
                answer = self._send_request(url, want.headers, until)
            except HTTPCORE_ERRORS as error:
                raise classify_http_error(error, url.host) from None
            cookies.add_from(answer, url)
            try:
                return read_redirect(answer, url) or self._read_response(answer, url, want)
            except HTTPCORE_ERRORS as error:
                raise classify_http_error(error, url.host, answer) from None
            finally:
                answer.close()

    def _send_request(
        self, url: NormalizedUrl, headers: HttpHeaders, until: float
    ) -> httpcore.Response:
        """Return the answer's head. Where a kept connection has died, a new one is made."""
        events: list[str] = []
        pool = self._choose_pool(url)
        try:
            return pool.handle_request(self._build_request(url, headers, until, events))
        except (httpcore.ReadError, httpcore.RemoteProtocolError):
            if "connection.connect_tcp.started" in events:
                raise
        return pool.handle_request(self._build_request(url, headers, until, events))

    def _choose_pool(self, url: NormalizedUrl) -> httpcore.ConnectionPool:
        if self._closed.is_set():
            raise RuntimeError("this Fetcher is closed; make a new one")
        proxy = self._proxy_pools.get(url.scheme)
        if proxy is None or proxy_bypass(url.host):
            return self._direct_pools[crc32(url.host.encode()) % POOL_COUNT]
        check_numeric_host(url.host, self._allow_private)
        return proxy

    def _build_request(
        self, url: NormalizedUrl, headers: HttpHeaders, until: float, events: list[str]
    ) -> httpcore.Request:
        connected = min(until, time.monotonic() + self._limits.connect)
        timeouts: dict[str, float | None] = {"connect": connected, "read": until, "write": until}
        timeouts["pool"] = get_seconds_left(until)
        own = (
            ("Host", url.authority),
            ("User-Agent", self._user_agent),
            ("Accept", "text/html, application/xhtml+xml, */*;q=0.8"),
            ("Accept-Encoding", ACCEPTED_ENCODINGS),
        )
        given_names = {name.lower() for name, _ in headers}
        port = None if url.port == DEFAULT_PORTS[url.scheme] else url.port
        return httpcore.Request(
            "GET",
            httpcore.URL(scheme=url.scheme, host=url.host, port=port, target=url.path),
            headers=[*(pair for pair in own if pair[0].lower() not in given_names), *headers],
            extensions={"timeout": timeouts, "trace": lambda event, _: events.append(event)},
        )

    def _read_response(
        self, answer: httpcore.Response, url: NormalizedUrl, want: _FetchOptions
    ) -> FetchResponse:
        check_status(answer)
        kind = read_header(answer, b"content-type")
        if kind.lower().startswith(want.refused_types or "\0"):
            raise FetchError(Outcome.UNSUPPORTED_TYPE, f"{kind} holds no text to quote")
        data = self._read_body(answer, want.cut_after)
        # Two answers of one address are told apart by their times.
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return FetchResponse(url.url, answer.status, kind, data, now)

    def _read_body(self, answer: httpcore.Response, cut: int | None) -> bytes:
        limit, length = self._limits.bytes, read_header(answer, b"content-length")
        if cut is None and length.isdecimal() and int(length) > limit:
            detail = f"the server announces {length} bytes; raise FetchLimits.bytes to read them"
            raise FetchError(Outcome.TOO_LARGE, detail)
        encoding = read_header(answer, b"content-encoding")
        pieces, size = [], 0
        for piece in decode_content(answer.iter_stream(), encoding, limit):
            pieces.append(piece)
            size += len(piece)
            if cut is not None and size >= cut:
                break
        return b"".join(pieces)[:cut]

    def _fetch_robots_text(self, url: str, until: float) -> str:
        """Return a robots.txt as far as the limit goes, without the line that the limit cuts."""
        cut = self._limits.robots
        data = self._follow_redirects(url, _FetchOptions(cut_after=cut), until).data
        text = data.decode("utf-8-sig", errors="replace")
        return text if len(data) < cut else text.rpartition("\n")[0]


KEEP_ALIVE_SECONDS = 15.0
"""seconds for which an unused connection is kept"""


POOL_COUNT = 64
"""among which hosts are shared out: for each request, a pool looks at every connection it has"""
IDLE_PER_POOL = 4
"""connections that a pool keeps unused"""


def _make_pool(tls: ssl.SSLContext, backend: GuardedBackend) -> httpcore.ConnectionPool:
    return httpcore.ConnectionPool(
        tls,
        max_connections=None,
        max_keepalive_connections=IDLE_PER_POOL,
        keepalive_expiry=KEEP_ALIVE_SECONDS,
        network_backend=backend,
    )


def _make_proxy_pools(tls: ssl.SSLContext, connections: int) -> dict[str, httpcore.ConnectionPool]:
    """Return a pool for each scheme for which the environment names a proxy, private or not."""
    proxies = {scheme: url for scheme, url in getproxies().items() if scheme in DEFAULT_PORTS}
    return {scheme: _make_proxy_pool(url, tls, connections) for scheme, url in proxies.items()}


def _make_proxy_pool(url: str, tls: ssl.SSLContext, connections: int) -> httpcore.ConnectionPool:
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"the proxy {parts.hostname or url} must have an http:// address")
    login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    return httpcore.HTTPProxy(
        httpcore.URL(scheme=parts.scheme, host=parts.hostname, port=port, target="/"),
        proxy_auth=login,
        ssl_context=tls,
        proxy_ssl_context=tls if parts.scheme == "https" else None,
        max_connections=connections,
        keepalive_expiry=KEEP_ALIVE_SECONDS,
        network_backend=GuardedBackend(allow_private=(parts.hostname,)),
    )


def fetch_pages(
    fetch: Callable[[str], Page],
    urls: Sequence[str],
    seconds: float,
    parallel: int = 8,
    per_host: int = 2,
) -> list[Page | Failure]:
    """Return the page or the failure of each address, in order, after `seconds` at the latest.

    `parallel` calls of `fetch` run at a time, `per_host` of them on one host. What has not come by
    then is a Failure (timed_out); its thread is left behind and keeps nothing from ending. What
    `fetch` raises besides Failed is raised here.
    """
    work = _FetchQueue(urls, per_host)
    for _ in range(min(parallel, len(work.results))):
        threading.Thread(None, work.run_fetches, "fetch_pages", (fetch,), daemon=True).start()
    try:
        wait(work.results.values(), timeout=seconds)
    finally:
        work.stop()
    late = f"not here after the {seconds:g} seconds for all pages; allow more time"
    return [_get_result(work.results[url], Failure(url, Outcome.TIMED_OUT, late)) for url in urls]


def _get_result(result: "Future[Page]", late: Failure) -> Page | Failure:
    if not result.done():
        return late
    try:
        return result.result()
    except Failed as failed:
        return failed.failure


class _FetchQueue:
    """Addresses still to be fetched, and what came of the others; shared by some threads."""

    def __init__(self, urls: Sequence[str], per_host: int) -> None:
        self.results: dict[str, Future[Page]] = {url: Future() for url in urls}
        self._waiting = list(self.results)
        self._busy: Counter[str] = Counter()
        self._per_host = per_host
        self._changed = threading.Condition()

    def run_fetches(self, fetch: Callable[[str], Page]) -> None:
        while (url := self._take_url()) is not None:
            try:
                self.results[url].set_result(fetch(url))
            except BaseException as error:  # raised again by the one who asks for the result
                self.results[url].set_exception(error)
            self._release_host(url)

    def stop(self) -> None:
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()

    def _take_url(self) -> str | None:
        with self._changed:
            while self._waiting:
                free = (url for url in self._waiting if self._busy[_get_host(url)] < self._per_host)
                if (url := next(free, None)) is not None:
                    self._waiting.remove(url)
                    self._busy[_get_host(url)] += 1
                    return url
                self._changed.wait()
            return None

    def _release_host(self, url: str) -> None:
        with self._changed:
            self._busy[_get_host(url)] -= 1
            self._changed.notify_all()


def _get_host(url: str) -> str:
    """Return the host that a fetch of this address will occupy; without one, nothing is shared."""
    try:
        return urlsplit(url).hostname or url
    except ValueError:
        return url

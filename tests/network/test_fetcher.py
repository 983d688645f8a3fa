"""The fetcher against real servers on loopback: each hostile one gets its outcome in time."""

import contextlib
import gzip
import socket
import ssl
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import brotli
import httpcore
import pytest
from servers import NOT_FOUND, PAGE, Route, Server, Visit, redirect, reply, serving

from rookery.errors import Failed
from rookery.network.access_rules import FetchError, normalize_url
from rookery.network.fetcher import Fetcher, FetchLimits, HostRateLimiter, fetch_pages
from rookery.network.http_response import FetchCookies
from rookery.records import Failure, Page

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIMITS = FetchLimits(bytes=2_000_000, seconds=60.0)
FETCH_OUTCOMES = frozenset(
    "invalid_url unsupported_scheme blocked_address unresolved refused tls_failed timed_out "
    "robots too_many_redirects too_large truncated malformed unsupported_type".split()
)


@pytest.fixture
def fetcher() -> Iterator[Fetcher]:
    with Fetcher(LIMITS, allow_private=True) as fetcher:
        yield fetcher


def failure(fetch: Callable[[str], object], url: str) -> Failure:
    with pytest.raises(Failed) as caught:
        fetch(url)
    found = caught.value.failure
    assert found.what == url
    assert found.detail
    assert found.outcome in FETCH_OUTCOMES or found.outcome.startswith("http_")
    return found


def outcome(fetcher: Fetcher, url: str) -> str:
    return failure(fetcher.fetch_response, url).outcome


def fetched(body: bytes) -> Page:
    return Page("http://h/", "", body.decode())


# What should work


def test_an_answer_with_its_address_type_and_time(fetcher: Fetcher) -> None:
    routes = {"/a?q=%C3%A9": PAGE, "/old": redirect("/a?q=\u00e9#part".encode().decode("latin-1"))}
    with serving(routes) as server:
        got = fetcher.fetch_response(server.url("/old"))
        assert got.url == server.url("/a?q=%C3%A9")
        assert (got.status, got.content_type) == (200, "text/html; charset=utf-8")
        assert got.data == PAGE.partition(b"\r\n\r\n")[2]
        assert got.fetched.endswith("+00:00")
        assert server.visits[0].headers["host"] == f"127.0.0.1:{server.port}"
        assert server.visits[0].headers["user-agent"].startswith("rookery/")


@pytest.mark.parametrize(
    ("name", "encode"), [("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstd.compress)]
)
def test_compressed_bodies(fetcher: Fetcher, name: str, encode: Callable[[bytes], bytes]) -> None:
    text = b"All crows. " * 30_000
    with serving({"/": reply(encode(text), Content_Encoding=name)}) as server:
        assert fetcher.fetch_response(server.url()).data == text
        assert name in server.visits[0].headers["accept-encoding"]


def test_chunked_and_unmeasured_bodies(fetcher: Fetcher) -> None:
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )

    def until_closed(visit: Visit) -> None:
        visit.send(b"HTTP/1.0 200 OK\r\n\r\nto the end")

    with serving({"/chunked": chunked, "/closed": until_closed}) as server:
        assert fetcher.fetch_response(server.url("/chunked")).data == b"abcde"
        assert fetcher.fetch_response(server.url("/closed")).data == b"to the end"


def test_an_answer_without_a_body(fetcher: Fetcher) -> None:
    routes = {
        "/204": b"HTTP/1.1 204 No Content\r\n\r\n",
        "/304": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    }
    with serving(routes) as server:
        assert fetcher.fetch_response(server.url("/204")).data == b""
        assert outcome(fetcher, server.url("/304")) == "http_304"
        assert fetcher.fetch_response(server.url("/204")).content_type == ""


def test_connections_are_kept_and_dead_ones_replaced(fetcher: Fetcher) -> None:
    def close_late(visit: Visit) -> None:
        visit.send(PAGE)
        if len(visit.server.visits) == 1:
            visit.connection.recv(100)  # takes the next request and never answers it

    with serving({"/": PAGE, "/once": close_late}) as server:
        for _ in range(3):
            fetcher.fetch_response(server.url())
        assert len(server.connections) == 1
    with serving({"*": close_late}) as server:
        assert fetcher.fetch_response(server.url()).status == 200
        assert fetcher.fetch_response(server.url()).status == 200
        assert len(server.connections) == 2


def test_headers_reach_their_own_host_and_no_other(fetcher: Fetcher) -> None:
    secret = (("Authorization", "Bearer x"), ("X-Token", "y"), ("Accept", "application/json"))
    with serving({"/": PAGE}) as other:
        routes = {"/here": redirect("/there"), "/there": redirect(other.url())}
        with serving(routes) as server:
            fetcher.fetch_response(server.url("/here"), secret)
            for visit in server.visits:
                assert visit.headers["authorization"] == "Bearer x"
                assert visit.headers["accept"] == "application/json"
        assert not {"authorization", "x-token"} & set(other.visits[0].headers)
        assert other.visits[0].headers["accept"] != "application/json"
        with pytest.raises(ValueError, match="line break"):
            fetcher.fetch_response(other.url(), [("X", "a\r\nHost: b")])


# Addresses


def test_loopback_is_refused_unless_allowed_and_no_byte_is_sent() -> None:
    with serving({"/": PAGE}) as server, Fetcher(LIMITS) as fetcher:
        assert outcome(fetcher, server.url()) == "blocked_address"
        assert outcome(fetcher, server.url(host="localhost")) == "blocked_address"
        assert outcome(fetcher, server.url(host="[::ffff:127.0.0.1]")) == "blocked_address"
        assert outcome(fetcher, server.url(host="2130706433")) == "blocked_address"
        assert "--allow-private" in failure(fetcher.fetch_response, server.url()).detail
        assert server.connections == []


def test_a_redirect_is_checked_like_any_address() -> None:
    with serving({"/": PAGE}) as inner:
        routes = {
            "/private": redirect(inner.url()),
            "/metadata": redirect("http://169.254.169.254/latest/meta-data/"),
            "/file": redirect("file:///etc/passwd"),
            "/ftp": redirect("ftp://example.org/"),
            "/login": redirect(inner.url(host="user:pass@127.0.0.1")),
            "/nowhere": redirect("http://[/"),
        }
        named = ("front.example",)
        with (
            serving(routes) as outer,
            Fetcher(LIMITS, allow_private=named, resolve=lambda *_: ["127.0.0.1"]) as fetcher,
        ):

            def fetch_outcome(path: str) -> str:
                return outcome(fetcher, outer.url(path, host="front.example"))

            assert fetch_outcome("/private") == "blocked_address"
            assert fetch_outcome("/metadata") == "blocked_address"
            assert fetch_outcome("/file") == "unsupported_scheme"
            assert fetch_outcome("/ftp") == "unsupported_scheme"
            assert fetch_outcome("/login") == "invalid_url"
            assert fetch_outcome("/nowhere") == "invalid_url"
        assert inner.connections == []


def test_a_name_that_changes_its_address_gains_nothing() -> None:
    answers = [["127.0.0.1"], ["169.254.169.254"]]
    with (
        serving({"/": reply(b"first", Connection="close")}) as server,
        Fetcher(LIMITS, allow_private=True, resolve=lambda *_: answers.pop(0)) as fetcher,
    ):
        url = server.url(host="rebind.example")
        assert fetcher.fetch_response(url).data == b"first"
        assert server.visits[0].headers["host"] == f"rebind.example:{server.port}"
        assert outcome(fetcher, url) == "blocked_address"


def test_other_schemes_logins_and_unknown_hosts() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with Fetcher(LIMITS, resolve=unknown) as fetcher:
        assert outcome(fetcher, "file:///etc/passwd") == "unsupported_scheme"
        assert outcome(fetcher, "http://me:secret@example.org/") == "invalid_url"
        assert outcome(fetcher, "http://nowhere.example/") == "unresolved"


def test_a_port_where_nobody_listens(fetcher: Fetcher) -> None:
    with serving({}) as server:
        url = server.url()
    assert outcome(fetcher, url) == "refused"


# Redirects


def test_redirects_end(fetcher: Fetcher) -> None:
    def onward(visit: Visit) -> None:
        visit.send(redirect(f"{visit.path}x"))

    routes: dict[str, Route] = {
        "/a": redirect("/b"),
        "/b": redirect("/a"),
        "*": onward,
        "/none": reply(b"", "302 No"),
    }
    with serving(routes) as server:
        assert outcome(fetcher, server.url("/a")) == "too_many_redirects"
        assert server.paths() == ["/a", "/b"]
        assert outcome(fetcher, server.url("/endless")) == "too_many_redirects"
        assert len(server.visits) == 2 + 1 + LIMITS.redirects
        assert outcome(fetcher, server.url("/none")) == "http_302"


@pytest.mark.parametrize("status", ["301 Moved", "303 See", "307 Temporary", "308 Permanent"])
def test_every_kind_of_redirect_is_followed(fetcher: Fetcher, status: str) -> None:
    with serving({"/old/": redirect("../new?x=1#y", status), "/new?x=1": PAGE}) as server:
        assert fetcher.fetch_response(server.url("/old/")).url == server.url("/new?x=1")


def test_a_location_that_is_no_utf8_stays_what_it_is(fetcher: Fetcher) -> None:
    routes = {"/old": redirect("/caf\xe9 \xff"), "/caf%E9%20%FF": PAGE}
    with serving(routes) as server:
        assert fetcher.fetch_response(server.url("/old")).url == server.url("/caf%E9%20%FF")


# Sizes and lengths


@pytest.mark.parametrize(
    ("name", "encode"),
    [
        ("gzip", gzip.compress),
        ("br", lambda data: brotli.compress(data, quality=3)),
        ("zstd", zstd.compress),
    ],
)
def test_bombs(fetcher: Fetcher, name: str, encode: Callable[[bytes], bytes]) -> None:
    body = encode(bytes(100_000_000))
    with serving({"/": reply(body, Content_Encoding=name)}) as server:
        tracemalloc.start()
        assert outcome(fetcher, server.url()) == "too_large"
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 3 * LIMITS.bytes


def test_bodies_beyond_the_limit(fetcher: Fetcher) -> None:
    def endless(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            visit.send(b"8000\r\n" + bytes(0x8000) + b"\r\n")

    announced = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
    exact = reply(bytes(LIMITS.bytes))
    with serving({"/endless": endless, "/announced": announced, "/exact": exact}) as server:
        assert outcome(fetcher, server.url("/endless")) == "too_large"
        assert outcome(fetcher, server.url("/announced")) == "too_large"
        assert len(fetcher.fetch_response(server.url("/exact")).data) == LIMITS.bytes


def test_lies_about_length(fetcher: Fetcher) -> None:
    def short(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")

    def cut_chunk(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nonly this")

    def reset(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
        visit.reset()

    def silent(visit: Visit) -> None:
        pass

    longer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nthis and what nobody asked for"
    routes: dict[str, Route] = {
        "/short": short,
        "/chunk": cut_chunk,
        "/reset": reset,
        "/silent": silent,
    }
    with serving({**routes, "/longer": longer, "/": PAGE}) as server:
        for path in routes:
            assert outcome(fetcher, server.url(path)) == "truncated", path
        assert fetcher.fetch_response(server.url("/longer")).data == b"this"
        assert (
            fetcher.fetch_response(server.url()).status == 200
        )  # the rest is no answer to anything


def test_what_is_not_http(fetcher: Fetcher) -> None:
    def says(answer: bytes) -> Callable[[Visit], None]:
        return lambda visit: visit.send(answer)

    routes: dict[str, Route] = {
        "/ssh": says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
        "/length": says(b"HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n"),
        "/two": says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        "/chunk": says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n"),
        "/gzip": reply(b"<p>not compressed at all</p>", Content_Encoding="gzip"),
        "/rot13": reply(b"<p>", Content_Encoding="rot13"),
    }
    with serving(routes) as server:
        for path in routes:
            assert outcome(fetcher, server.url(path)) == "malformed", path


def test_huge_headers(fetcher: Fetcher) -> None:
    def huge(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 1_000_000)

    def many(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            visit.send(b"X: y\r\n" * 1000)

    with serving({"/huge": huge, "/many": many}) as server:
        assert outcome(fetcher, server.url("/huge")) == "too_large"
        assert outcome(fetcher, server.url("/many")) == "too_large"


@pytest.mark.parametrize("status", [206, 401, 403, 404, 418, 429, 500, 503])
def test_statuses(fetcher: Fetcher, status: int) -> None:
    with serving({"/": reply(b"<p>x", f"{status} Hm", Retry_After="17")}) as server:
        found = failure(fetcher.fetch_response, server.url())
        assert found.outcome == f"http_{status}"
        assert "17" in found.detail


def test_a_server_that_is_busy_is_asked_again(fetcher: Fetcher) -> None:
    waits = iter((reply(b"", "503 Busy"), reply(b"", "429 Slow", Retry_After="1"), PAGE))
    with serving({"/": lambda visit: visit.send(next(waits))}) as server:
        assert "Crows" in fetcher.fetch_page(server.url()).title
        times = [visit.at for visit in server.visits if visit.path == "/"]
        assert all(0.9 < after - before < 2.5 for before, after in pairwise(times))
    with serving({"/": reply(b"", "503 Busy", Retry_After="3600")}) as server:
        assert failure(fetcher.fetch_page, server.url()).outcome == "http_503"
        assert [visit.path for visit in server.visits].count("/") == 1


def test_a_fetch_keeps_its_cookies_to_itself_and_to_their_host(fetcher: Fetcher) -> None:
    def ask(visit: Visit) -> None:
        seen = visit.headers.get("cookie", "")
        if "seen=1; b=2" in seen:
            visit.send(PAGE if visit.path == "/" else redirect(away))
            return
        answer = redirect(visit.path).replace(b"\r\n\r\n", b"\r\nSet-Cookie: b=2\r\n\r\n")
        more = b"\r\nSet-Cookie: seen=1; Path=/; HttpOnly\r\nSet-Cookie: s=3; Secure\r\n"
        visit.send(answer.replace(b"\r\n", more, 1))

    with serving({"/": ask, "/away": ask}) as server, serving({"/": PAGE}) as other:
        away = other.url(host="localhost")
        assert fetcher.fetch_response(server.url()).url == server.url()
        assert fetcher.fetch_response(server.url()).url == server.url()
        sent = [visit.headers.get("cookie") for visit in server.visits]
        assert sent == [None, "seen=1; b=2", None, "seen=1; b=2"]
        assert fetcher.fetch_response(server.url("/away")).url == away
        assert "cookie" not in other.visits[0].headers


def test_a_cookie_that_changes_nothing_is_a_circle(fetcher: Fetcher) -> None:
    again = redirect("/").replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=1\r\n\r\n")
    gone = again.replace(b"a=1", b"a=1; Max-Age=0")
    with serving({"/": again}) as server:
        assert outcome(fetcher, server.url()) == "too_many_redirects"
        assert len(server.visits) == 2
    with serving({"/": gone}) as server:
        assert outcome(fetcher, server.url()) == "too_many_redirects"
        assert len(server.visits) == 1


def cookies_after(*headers: str) -> str:
    """What is sent once responses have set these cookies."""
    cookies, url = FetchCookies(), normalize_url("https://a.org/")
    for header in headers:
        response = httpcore.Response(200, headers=[(b"Set-Cookie", header.encode())])
        cookies.add_from(response, url)
    return cookies.write_header(url)


@pytest.mark.parametrize(
    ("gone", "options"),
    [
        (True, "Expires=Wed, 21 Oct 2015 07:28:00 GMT"),
        (True, "expires=Thursday, 01-Jan-70 00:00:00 GMT; path=/"),
        (True, "Expires=Thu, 01 Jan 1970 00:00:00 GMT"),
        (True, "Expires=Fri, 31 Dec 2999 23:59:59 GMT; Max-Age=0"),
        (True, "max-age = -1"),
        (True, "Max-Age=5; Max-Age=0"),
        (False, "Expires=Fri, 31 Dec 2999 23:59:59 GMT"),
        (False, "Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60"),
        (False, "Expires=0"),
        (False, "Expires=Wed, 99 Xyz 0000 07:28:00 GMT"),
        (False, "Comment=expired in 1970; Max-Age=soon"),
        (False, "Max-Age=060"),
    ],
)
def test_a_cookie_is_withdrawn_by_a_time_that_has_passed(gone: bool, options: str) -> None:
    assert cookies_after("a=1", f"a=2; {options}", "b=3") == ("b=3" if gone else "a=2; b=3")


# Time


def test_drips_end_when_the_time_is_up() -> None:
    def head(visit: Visit) -> None:
        visit.drip(PAGE, 0.02)

    def body(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
        visit.drip(bytes(9999), 0.02)

    def hints(visit: Visit) -> None:
        for _ in range(3000):
            if not visit.server.closing.wait(0.02):
                visit.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")

    def onward(visit: Visit) -> None:
        visit.server.closing.wait(0.1)
        visit.send(redirect(f"{visit.path}x"))

    limits = FetchLimits(seconds=0.4)
    routes = {"/head": head, "/body": body, "/hints": hints, "*": onward}
    with serving(routes) as server, Fetcher(limits, allow_private=True) as fetcher:
        for path in ("/head", "/body", "/hints", "/onward"):
            began = time.monotonic()
            assert outcome(fetcher, server.url(path)) == "timed_out", path
            assert time.monotonic() - began > 0.3, path


def test_closing_ends_what_another_thread_waits_for() -> None:
    def never(visit: Visit) -> None:
        visit.server.closing.wait(120)

    results: list[str] = []
    with serving({"*": never}) as server:
        fetcher = Fetcher(FetchLimits(seconds=120), allow_private=True)
        thread = threading.Thread(target=lambda: results.append(outcome(fetcher, server.url())))
        thread.start()
        while not server.visits:
            time.sleep(0.01)
        fetcher.close()
        thread.join(60)
        assert results == ["truncated"]
        with pytest.raises(RuntimeError, match="closed"):
            fetcher.fetch_response(server.url())


# Pages


def test_a_page_is_read_where_robots_permit_it(fetcher: Fetcher) -> None:
    robots = reply(b"User-agent: rookery\nDisallow: /no/", kind="text/plain")
    routes = {"/robots.txt": robots, "/yes": PAGE, "/to": redirect("/no/2"), "/no/1": PAGE}
    with serving(routes) as server:
        page = fetcher.fetch_page(server.url("/yes"))
        assert "shows it to its mate" in page.text
        assert page.url == server.url("/yes")
        assert failure(fetcher.fetch_page, server.url("/no/1")).outcome == "robots"
        assert failure(fetcher.fetch_page, server.url("/to")).outcome == "robots"
        assert server.paths() == ["/robots.txt", "/yes", "/to"]
        assert fetcher.fetch_response(server.url("/no/1")).status == 200
        with Fetcher(LIMITS, allow_private=True, obey_robots=False) as rude:
            assert rude.fetch_page(server.url("/no/1")).title == "Crows"


def test_robots_files_that_are_missing_broken_moved_or_endless(fetcher: Fetcher) -> None:
    def endless(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        rules = b"User-agent: *\nDisallow: /no\n" + b"# and so on\n" * 2000
        while True:
            visit.send(b"%x\r\n%s\r\n" % (len(rules), rules))

    broken = reply(b"", "503 Service Unavailable")
    with serving({"/robots.txt": NOT_FOUND, "*": PAGE}) as server:
        assert fetcher.fetch_page(server.url("/no")).title == "Crows"
    with serving({"/robots.txt": broken, "*": PAGE}) as server:
        assert failure(fetcher.fetch_page, server.url("/no")).outcome == "robots"
        assert server.paths() == ["/robots.txt"]
    with serving({"/robots.txt": endless, "*": PAGE}) as server:
        assert failure(fetcher.fetch_page, server.url("/no")).outcome == "robots"
        assert fetcher.fetch_page(server.url("/yes")).title == "Crows"
        with serving({"/robots.txt": redirect(server.url("/robots.txt")), "*": PAGE}) as moved:
            assert failure(fetcher.fetch_page, moved.url("/no")).outcome == "robots"


def test_a_crawl_delay_is_kept_up_to_its_limit() -> None:
    robots = reply(b"User-agent: *\nCrawl-delay: 3600", kind="text/plain")
    limits = FetchLimits(seconds=60, delay=0.15)
    with (
        serving({"/robots.txt": robots, "*": PAGE}) as server,
        Fetcher(limits, allow_private=True) as fetcher,
    ):
        begun = []
        for path in ("/1", "/2", "/3"):
            begun.append(time.monotonic())
            fetcher.fetch_page(server.url(path))
        asked = [visit.at for visit in server.visits[1:]]
        assert asked[1] - begun[0] >= 0.15
        assert asked[2] - begun[1] >= 0.15
        assert asked[2] - begun[0] < 60, "an hour was asked for"


def test_hosts_at_which_nothing_is_due_are_forgotten() -> None:
    limiter, hour = HostRateLimiter(1), time.monotonic() + 3600
    with limiter.hold_slot("busy.org", 0.0, hour), limiter.hold_slot("due.org", 1800, hour):
        for number in range(3 * limiter.MOST_HOSTS):
            with limiter.hold_slot(f"{number}.org", 1e-9, hour):
                pass
            with contextlib.suppress(FetchError), limiter.hold_slot("busy.org", 0.0, 0.0):
                raise AssertionError("it has one place")
    known = (limiter._slots, limiter._users, limiter._next_start)
    assert all(len(names) <= limiter.MOST_HOSTS + 2 for names in known)
    assert {"busy.org", "due.org"} <= set(limiter._slots)
    with pytest.raises(FetchError), limiter.hold_slot("due.org", 1800, time.monotonic() + 60):
        pass


def test_a_request_without_a_delay_leaves_the_wait_that_is_due() -> None:
    limiter = HostRateLimiter(2)
    begun = time.monotonic()
    starts = []
    for delay in (0.3, 0.0, 0.3, 0.0, 0.3):
        with limiter.hold_slot("a.org", delay, begun + 60):
            starts.append(time.monotonic() - begun)
    assert starts[2] >= 0.3
    assert starts[4] >= 0.6
    hour = time.monotonic() + 3600
    with limiter.hold_slot("b.org", 1800, hour):
        pass
    with limiter.hold_slot("b.org", 0.0, hour):
        assert time.monotonic() < hour - 1800, "robots.txt itself does not wait"


def test_robots_of_another_port_does_not_shorten_a_hosts_crawl_delay() -> None:
    robots = reply(b"User-agent: *\nCrawl-delay: 1", kind="text/plain")
    with (
        serving({"/robots.txt": robots, "*": PAGE}) as server,
        serving({"/robots.txt": robots, "*": PAGE}) as other,
        Fetcher(FetchLimits(seconds=60, delay=0.4), allow_private=True) as fetcher,
    ):
        begun = time.monotonic()
        fetcher.fetch_page(server.url("/1"))
        fetcher.fetch_page(other.url("/1"))  # its robots.txt is fetched between the two pages
        assert other.visits[-1].at - begun >= 0.4


def test_a_declared_video_is_not_even_downloaded(fetcher: Fetcher) -> None:
    def video(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 200 OK\r\nContent-Type: Video/mp4\r\nContent-Length: 999999\r\n\r\n")
        visit.server.closing.wait(10)

    with serving({"/film": video}) as server:
        assert failure(fetcher.fetch_page, server.url("/film")).outcome == "unsupported_type"


# Many at once


def test_all_results_in_order_with_failures_and_repetitions(fetcher: Fetcher) -> None:
    with serving({"/a": PAGE, "/b": PAGE}) as server:
        urls = [server.url(path) for path in ("/a", "/missing", "/b", "/a")]
        got = fetch_pages(fetcher.fetch_page, [*urls, "http://[", "mailto:x"], 5)
        found = [each.outcome if isinstance(each, Failure) else each.url for each in got]
        assert found == [
            urls[0], "http_404", urls[2], urls[0], "invalid_url", "unsupported_scheme",
        ]  # fmt: skip
        assert server.paths().count("/a") == 1
    assert fetch_pages(fetcher.fetch_page, [], 5) == []


@pytest.mark.slow
def test_the_deadline_returns_what_has_come() -> None:
    def never(visit: Visit) -> None:
        visit.server.closing.wait(10)

    with serving({"*": PAGE}) as good, serving({"*": never}) as bad:
        with Fetcher(allow_private=True, obey_robots=False) as fetcher:
            urls = [bad.url(f"/{number}") for number in range(10)] + [
                good.url("/a", host="localhost")
            ]
            fetcher.fetch_page(good.url("/warm", host="localhost"))  # starts the reader
            got = fetch_pages(fetcher.fetch_page, urls, 5)
        assert isinstance(got[-1], Page)  # ten that hang on one host do not hold up another
        assert [each.outcome for each in got if isinstance(each, Failure)] == ["timed_out"] * 10
        assert len(bad.visits) == 2


def test_hosts_are_visited_in_parallel_and_each_by_few() -> None:
    lock, now, most = threading.Lock(), 0, 0
    six = threading.Barrier(6)  # two of each host: nobody goes on before all are there
    busy: dict[str, int] = {}

    def fetch(url: str) -> Page:
        nonlocal now, most
        host = url.split("/")[2]
        with lock:
            now, busy[host] = now + 1, busy.get(host, 0) + 1
            most = max(most, now)
            assert busy[host] <= 2
        six.wait(60)
        with lock:
            now, busy[host] = now - 1, busy[host] - 1
        return Page(url, "", "text")

    urls = [f"http://host{number % 3}/{number}" for number in range(24)]
    got = fetch_pages(fetch, urls, 60, parallel=8)
    assert [each.url for each in got if isinstance(each, Page)] == urls
    assert most == 6


def test_a_fault_in_the_function_is_not_hidden() -> None:
    def wrong(url: str) -> Page:
        raise KeyError(url)

    with pytest.raises(KeyError):
        fetch_pages(wrong, ["http://h/"], 5)


PROGRAM = """
import sys
from rookery.network.fetcher import Fetcher, FetchLimits, HostRateLimiter, fetch_pages
from rookery.network.http_response import FetchCookies
fetcher = Fetcher(FetchLimits(seconds=60), allow_private=True, obey_robots=False)
print([str(each.outcome) for each in fetch_pages(fetcher.fetch_page, sys.argv[1:], 0.3)])
"""


def test_a_program_ends_though_a_server_drips() -> None:
    def drip(visit: Visit) -> None:
        visit.drip(PAGE * 100, 0.05)

    with serving({"*": drip}) as server:
        command = [sys.executable, "-c", PROGRAM, server.url()]
        done = subprocess.run(command, capture_output=True, timeout=120, check=True)
        assert done.stdout.strip() == b"['timed_out']"


# TLS


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of its own making for crow.example, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=crow.example", "-addext", "subjectAltName=DNS:crow.example"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run([*command.split(), *names, *files], capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("needs the openssl command to make a certificate")
    return certificate, key


def tls_server(pair: tuple[Path, Path], names: list[str | None]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    context.sni_callback = lambda _, name, __: names.append(name)
    return context


def local_server(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


def test_tls_sees_the_name_and_not_the_address(pair: tuple[Path, Path]) -> None:
    asked: list[str | None] = []
    trusting = ssl.create_default_context(cafile=pair[0])
    with (
        serving({"/": PAGE}, tls_server(pair, asked)) as server,
        Fetcher(LIMITS, allow_private=True, tls=trusting, resolve=local_server) as fetcher,
    ):
        assert fetcher.fetch_response(server.url(host="crow.example")).status == 200
        assert asked == ["crow.example"]
        assert server.visits[0].headers["host"] == f"crow.example:{server.port}"
        assert outcome(fetcher, server.url(host="rook.example")) == "tls_failed"
        assert asked[1] == "rook.example"


def test_an_untrusted_certificate_is_refused(pair: tuple[Path, Path]) -> None:
    with (
        serving({"/": PAGE}, tls_server(pair, [])) as server,
        Fetcher(LIMITS, allow_private=True, resolve=local_server) as fetcher,
    ):
        found = failure(fetcher.fetch_response, server.url(host="crow.example"))
        assert found.outcome == "tls_failed"
        assert "self-signed" in found.detail


def test_a_handshake_that_never_comes_times_out() -> None:
    with serving({}) as silent, Fetcher(FetchLimits(connect=0.3), allow_private=True) as fetcher:
        # the server waits for a whole head of HTTP, which a handshake never is
        assert outcome(fetcher, silent.url().replace("http:", "https:")) == "timed_out"


# Proxies


def proxied(monkeypatch: pytest.MonkeyPatch, proxy: Server) -> None:
    monkeypatch.setenv("http_proxy", proxy.url().replace("://", "://me:secret@"))
    monkeypatch.setenv("no_proxy", "direct.example")


def test_proxies_are_used_only_where_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({"*": PAGE}) as proxy, serving({"*": PAGE}) as server:
        proxied(monkeypatch, proxy)
        with Fetcher(LIMITS, allow_private=("direct.example",), resolve=local_server) as fetcher:
            fetcher.fetch_response(server.url(host="direct.example"))
            assert outcome(fetcher, "http://proxied.example/") == "blocked_address"
        assert proxy.visits == []
        private = ("direct.example",)
        with Fetcher(LIMITS, private, use_proxy=True, resolve=local_server) as fetcher:
            assert fetcher.fetch_response("http://proxied.example/a").status == 200
            fetcher.fetch_response(server.url(host="direct.example"))
            assert outcome(fetcher, "http://127.0.0.1/") == "blocked_address"
            assert outcome(fetcher, "http://localhost/") == "blocked_address"
        assert proxy.paths() == ["http://proxied.example/a"]
        assert proxy.visits[0].headers["proxy-authorization"].startswith("Basic ")
        assert proxy.visits[0].headers["host"] == "proxied.example"
        assert len(server.visits) == 2


def test_a_tunnel_through_a_proxy_still_ends_at_the_named_server(
    monkeypatch: pytest.MonkeyPatch, pair: tuple[Path, Path]
) -> None:
    asked: list[str | None] = []
    with serving({"/": PAGE}, tls_server(pair, asked)) as server:

        def tunnel(visit: Visit) -> None:
            with socket.create_connection(("127.0.0.1", server.port)) as far:
                visit.send(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=pump, args=(far, visit.connection))
                back.start()
                pump(visit.connection, far)
                back.join(5)

        refusing = reply(b"", "407 Login")
        with serving({f"crow.example:{server.port}": tunnel, "*": refusing}) as proxy:
            monkeypatch.setenv("https_proxy", proxy.url())
            trusting = ssl.create_default_context(cafile=pair[0])
            with Fetcher(LIMITS, use_proxy=True, tls=trusting) as fetcher:
                assert fetcher.fetch_response(server.url(host="crow.example")).status == 200
                assert outcome(fetcher, "https://rook.example/") == "refused"
            assert asked == ["crow.example"]


def pump(near: socket.socket, far: socket.socket) -> None:
    """Carries bytes from one to the other until either ends, then ends both."""
    with contextlib.suppress(OSError):
        while data := near.recv(65536):
            far.sendall(data)
    for each in (near, far):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)

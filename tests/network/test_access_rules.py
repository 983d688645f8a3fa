"""Which addresses and URLs are permitted, and that what was checked is what is connected to."""

import contextlib
import ipaddress
import socket
import threading
import time

import httpcore
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from servers import PAGE, serving

from rookery.network.access_rules import (
    FetchError,
    GuardedBackend,
    ResolveHost,
    check_addresses,
    check_numeric_host,
    classify_address,
    normalize_url,
    resolve_with_system,
)


def outcome_of(url: str) -> str:
    with pytest.raises(FetchError) as caught:
        normalize_url(url)
    return caught.value.outcome


PUBLIC = """
8.8.8.8 1.1.1.1 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.1 192.0.1.1 223.255.255.255
2606:4700::1111 2a00:1450:4001::1 2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::808:808
2002:808:808::1
""".split()

PRIVATE = """
127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.127.255.255
::1 fd12:3456::1 fc00::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9d:1 64:ff9b::7f00:1
64:ff9b::a00:1 2002:7f00:1::1 2002:c0a8:101::1 2606:4700::5efe:127.0.0.1
2606:4700::200:5efe:10.0.0.1
""".split()

SPECIAL = """
0.0.0.0 0.1.2.3 169.254.169.254 169.254.0.1 192.0.0.1 192.0.0.192 192.0.2.1 198.18.0.1 198.19.0.1
198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 168.63.129.16
100.100.100.200 192.88.99.1
:: ::8.8.8.8 ::127.0.0.1 fe80::1 fe80::1%eth0 ::1%lo fec0::1 ff02::1 2001:db8::1 3fff::1 100::1
2001:10::1 2001:20::1 5f00::1 4000::1 fd00:ec2::254 64:ff9b:1::808:808 64:ff9b:1:7f00:0:100::
::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 ::ffff:0:8.8.8.8 127.1 localhost 0x7f.1
""".split()


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    assert classify_address(address) == "public"


@pytest.mark.parametrize("address", PRIVATE)
def test_private(address: str) -> None:
    assert classify_address(address) == "private"


@pytest.mark.parametrize("address", SPECIAL)
def test_special(address: str) -> None:
    assert classify_address(address) == "special"


def teredo(server: str, client: str) -> str:
    hidden = int(ipaddress.IPv4Address(client)) ^ 0xFFFFFFFF
    number = 0x20010000 << 96 | int(ipaddress.IPv4Address(server)) << 64 | hidden
    return str(ipaddress.IPv6Address(number))


def test_teredo_shows_both_its_server_and_its_client() -> None:
    assert classify_address(teredo("8.8.8.8", "1.1.1.1")) == "public"
    assert classify_address(teredo("127.0.0.1", "1.1.1.1")) == "private"
    assert classify_address(teredo("8.8.8.8", "10.0.0.1")) == "private"
    assert classify_address(teredo("10.0.0.1", "169.254.169.254")) == "special"


@given(st.ip_addresses(v=4))
def test_no_address_is_public_that_the_standard_library_thinks_is_not(
    ip: ipaddress.IPv4Address,
) -> None:
    if classify_address(str(ip)) == "public":
        assert ip.is_global
        assert not ip.is_multicast


@given(st.ip_addresses(v=6))
@example(ipaddress.IPv6Address("fc00::5efe:8.8.8.8"))
def test_the_same_for_version_6(ip: ipaddress.IPv6Address) -> None:
    carried = ip.sixtofour or ip.ipv4_mapped or ip.teredo
    if classify_address(str(ip)) == "public" and not carried:
        assert ip.is_global
        assert not any([ip.is_multicast, ip.is_link_local, ip.is_site_local])


@given(st.ip_addresses(v=4))
def test_whatever_carries_an_address_stands_as_it_does(ip: ipaddress.IPv4Address) -> None:
    wrapped = [f"::ffff:{ip}", f"64:ff9b::{ip}"]
    wrapped.append(str(ipaddress.IPv6Address(0x2002 << 112 | int(ip) << 80)))
    wrapped += [teredo(str(ip), "8.8.8.8"), teredo("8.8.8.8", str(ip))]
    assert {classify_address(each) for each in wrapped} == {classify_address(str(ip))}


def test_one_bad_address_spoils_all() -> None:
    check_addresses("h", ["8.8.8.8", "1.1.1.1"], False)
    for bad in ("127.0.0.1", "::1", "169.254.169.254"):
        with pytest.raises(FetchError, match="blocked_address"):
            check_addresses("h", ["8.8.8.8", bad], False)


def test_private_addresses_are_allowed_by_name_or_all_but_special_ones_never() -> None:
    check_addresses("h", ["127.0.0.1", "10.0.0.1"], True)
    check_addresses("h", ["127.0.0.1"], ("H", "other"))
    with pytest.raises(FetchError, match="blocked_address"):
        check_addresses("h", ["127.0.0.1"], ("other",))
    for special in ("169.254.169.254", "0.0.0.0", "::", "fe80::1", "224.0.0.1"):
        with pytest.raises(FetchError, match="never read"):
            check_addresses("h", [special], True)


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "0"])
def test_numbers_that_are_addresses_are_resolved_and_refused(host: str) -> None:
    with pytest.raises(FetchError, match="blocked_address"):
        GuardedBackend().connect_tcp(host, 80, time.monotonic() + 60)
    with pytest.raises(FetchError, match="blocked_address"):
        check_numeric_host(host, False)


def test_behind_a_proxy_numeric_and_local_hosts_are_still_refused() -> None:
    for host in ("localhost", "a.localhost.", "127.0.0.1", "::1", "169.254.169.254"):
        with pytest.raises(FetchError, match="blocked_address"):
            check_numeric_host(host, False)
    check_numeric_host("example.org", False)
    check_numeric_host("127.0.0.1", True)


def test_the_checked_address_is_connected_to_and_the_name_resolved_once() -> None:
    answers = [["127.0.0.1"], ["10.255.255.1"]]
    asked: list[str] = []

    def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers.pop(0)

    with serving({"*": PAGE}) as server:
        backend = GuardedBackend(True, rebinding)
        stream = backend.connect_tcp("rebind.example", server.port, time.monotonic() + 60)
        assert stream.get_extra_info("server_addr") == ("127.0.0.1", server.port)
        stream.close()
    assert asked == ["rebind.example"]


def test_a_mixed_answer_connects_to_nothing() -> None:
    with serving({"*": PAGE}) as server:
        backend = GuardedBackend(False, lambda host, port: ["8.8.8.8", "127.0.0.1"])
        with pytest.raises(FetchError, match=r"127\.0\.0\.1, which is not on the public internet"):
            backend.connect_tcp("mixed.example", server.port, time.monotonic() + 60)
        assert server.connections == []


def test_a_dead_address_leaves_time_for_the_next() -> None:
    with serving({"*": PAGE}) as server:
        backend = GuardedBackend(True, lambda host, port: ["127.255.255.255", "127.0.0.1"])
        stream = backend.connect_tcp("two.example", server.port, time.monotonic() + 60)
        assert stream.get_extra_info("server_addr")[0] == "127.0.0.1"
        stream.close()


def test_names_that_do_not_resolve() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    resolvers: list[ResolveHost] = [unknown, lambda host, port: []]
    for resolve in resolvers:
        with pytest.raises(FetchError, match="unresolved"):
            GuardedBackend(False, resolve).connect_tcp("no.example", 80, time.monotonic() + 60)


def test_a_resolver_that_hangs_is_left_behind() -> None:
    done, ended = threading.Event(), threading.Event()

    def hanging(host: str, port: int) -> list[str]:
        done.wait(60)
        ended.set()
        return ["8.8.8.8"]

    with pytest.raises(FetchError, match="timed_out"):
        GuardedBackend(False, hanging).connect_tcp("slow.example", 80, time.monotonic() + 0.1)
    assert not ended.is_set()
    done.set()


def test_sockets_of_this_machine_are_refused() -> None:
    with pytest.raises(FetchError, match="blocked_address"):
        GuardedBackend(True).connect_unix_socket("/run/anything.sock")


def test_it_serves_any_httpcore_pool() -> None:
    with (
        serving({"*": PAGE}) as server,
        httpcore.ConnectionPool(network_backend=GuardedBackend(True)) as pool,
    ):
        until = time.monotonic() + 60
        timeout = {"connect": until, "read": until, "write": until}
        answer = pool.request("GET", server.url(), extensions={"timeout": timeout})
        assert answer.status == 200


def test_the_system_resolver_gives_plain_addresses() -> None:
    assert resolve_with_system("127.0.0.1", 80) == ["127.0.0.1"]


def test_urls_are_put_in_order() -> None:
    assert normalize_url("HTTP://Example.ORG:80#top").url == "http://example.org/"
    assert (
        normalize_url("https://example.org:8443/a b?q=é#x").url
        == "https://example.org:8443/a%20b?q=%C3%A9"
    )
    assert normalize_url(" http://h/a%20b\n").url == "http://h/a%20b"
    assert normalize_url("http://bücher.example/").host == "xn--bcher-kva.example"
    assert normalize_url("http://b%C3%BCcher.example/").host == "xn--bcher-kva.example"
    assert normalize_url("http://[2001:DB8::1]:81/").authority == "[2001:db8::1]:81"
    assert normalize_url("http://h?q").path == "/?q"
    assert normalize_url("https://h:80/").authority == "h:80"


@pytest.mark.parametrize(
    "url",
    """http:// http:///path http://:80/ http://a..b/ http://[::1 http://h:99999/ http://h:0/ http://h:x/
    http://user@h/ http://user:secret@h/ http://:@h/ http://a\\@b/ http://a%2Fb/ http://a%00b/
    http://\ud800/ http://h/\ud800 http://%ff/ http://exa_mple^/""".split(),
)
def test_addresses_that_cannot_be(url: str) -> None:
    assert outcome_of(url) == "invalid_url"


def test_long_addresses_and_other_schemes() -> None:
    assert outcome_of("http://h/" + "a" * 8192) == "invalid_url"
    assert outcome_of("http://" + "a" * 300 + "/") == "invalid_url"
    for url in ("file:///etc/passwd", "ftp://h/", "gopher://h/", "h/page", "", "javascript:1"):
        assert outcome_of(url) == "unsupported_scheme"


@given(st.text(max_size=60))
def test_no_text_breaks_the_reading_of_addresses(text: str) -> None:
    for url in (text, f"http://{text}", f"http://h/{text}"):
        with contextlib.suppress(FetchError):
            found = normalize_url(url)
            assert found.url.isascii()
            assert not set(found.url) & set(' \r\n\t\0<>"')
            assert normalize_url(found.url) == found

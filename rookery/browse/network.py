"""What may be asked of the network: which addresses, by which URLs, until when.

The policy sits where connections are made, so nothing that asks for a page can forget it. It
knows neither HTTP nor pages.
"""

import contextlib
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import certifi
import httpcore

from rookery.browse.outcomes import FetchError

Resolve = Callable[[str, int], Sequence[str]]
"""from a host and a port to numeric addresses; raises OSError where there are none"""

Option = tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]

PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """A URL that may be asked for, in the form in which it is asked. Its fragment is gone."""

    scheme: str
    host: str
    """in lower case and ASCII; an IPv6 address without its brackets"""
    port: int
    path: str
    """with the query"""

    @property
    def authority(self) -> str:
        """The Host header: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port as a URL without a path."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """The whole as one string."""
        return self.origin + self.path


def target(url: str, longest: int = 8192) -> Target:
    """The URL taken apart, checked and put in its normal form; what is not ASCII is encoded.

    Raises FetchError: invalid_url (longer than `longest` characters; no host; a user name or
    password, which would end up in logs and citations) or unsupported_scheme.
    """
    if len(url) > longest:
        raise FetchError("invalid_url", f"the address has more than {longest:,} characters")
    try:
        parts = urlsplit(re.sub(r"[\t\r\n]", "", url).strip())
        port, host, scheme = parts.port, parts.hostname or "", parts.scheme.lower()
        path = quote(parts.path or "/", safe=KEPT)
        query = "?" + quote(parts.query, safe=KEPT) if parts.query else ""
    except ValueError as error:  # includes text that is no Unicode
        raise FetchError("invalid_url", f"the address cannot be read: {error}") from None
    if scheme not in PORTS:
        detail = f"{scheme or 'no scheme'}: only http:// and https:// are opened"
        raise FetchError("unsupported_scheme", detail)
    if parts.username is not None or parts.password is not None:
        raise FetchError("invalid_url", "take the user name and password out of the address")
    if port == 0:
        raise FetchError("invalid_url", "port 0 cannot be connected to")
    return Target(scheme, _ascii_host(host), port or PORTS[scheme], path + query)


KEPT = "%/:=&?~+!$,;'@()*[]|"
"""what stays as it is in a path: an escape that is there already must not be escaped again"""


def _ascii_host(host: str) -> str:
    if ":" in host:
        return host  # IPv6: urlsplit has seen its brackets, the resolver will see the rest
    try:
        name = unquote(host, errors="strict").encode("idna").decode().lower()
    except UnicodeError:
        name = ""
    if not re.fullmatch(r"[a-z0-9_-][a-z0-9._-]{0,252}", name):
        raise FetchError("invalid_url", f"{host[:80]!r} is not the name of a host")
    return name


# Which addresses


def _networks4(*names: str) -> tuple[IPv4Network, ...]:
    return tuple(map(IPv4Network, names))


def _networks6(*names: str) -> tuple[IPv6Network, ...]:
    return tuple(map(IPv6Network, names))


# The registries of special addresses are written out: ipaddress.is_global changed its mind
# between versions of Python, and knows nothing of an address inside an address.
CLOUD4 = _networks4("100.100.100.200/32", "168.63.129.16/32", "192.0.0.0/24")
CLOUD6 = _networks6("fd00:ec2::/32", "fd20:ce::/32")
PRIVATE4 = _networks4("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12")
PRIVATE4 += _networks4("192.168.0.0/16")
SPECIAL4 = _networks4("0.0.0.0/8", "169.254.0.0/16", "192.0.2.0/24", "192.88.99.0/24")
SPECIAL4 += _networks4("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24")
SPECIAL4 += _networks4("224.0.0.0/4", "240.0.0.0/4")
PRIVATE6 = _networks6("::1/128", "fc00::/7")
SPECIAL6 = _networks6("2001::/23", "2001:db8::/32", "3fff::/20")
GLOBAL6 = IPv6Network("2000::/3")
TEREDO, SIXTOFOUR = IPv6Network("2001::/32"), IPv6Network("2002::/16")
NAT64, MAPPED = IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0/96")
CARRIERS = (TEREDO, SIXTOFOUR, NAT64, MAPPED)


def standing(address: str) -> str:
    """What an address is: "public", "private" (loopback and local networks) or "special".

    Special is what no page is ever on: link-local, multicast, unspecified, reserved, the metadata
    services of clouds, anything with a scope, anything unreadable. An address that carries
    others (IPv4 in IPv6) is as bad as the worst of them.
    """
    if "%" in address:
        return "special"
    try:
        ip = ip_address(address)
    except ValueError:
        return "special"
    return _standing4(ip) if isinstance(ip, IPv4Address) else _standing6(ip)


def _standing4(ip: IPv4Address) -> str:
    if _within(ip, CLOUD4 + SPECIAL4):
        return "special"
    return "private" if _within(ip, PRIVATE4) else "public"


def _standing6(ip: IPv6Address) -> str:
    found = [_standing_of_prefix(ip), *map(_standing4, _carried(ip))]
    return max(found, key=WORSE.index)


def _standing_of_prefix(ip: IPv6Address) -> str:
    if _within(ip, CARRIERS):
        return "public"
    if _within(ip, CLOUD6):
        return "special"
    if _within(ip, PRIVATE6):
        return "private"
    return "public" if ip in GLOBAL6 and not _within(ip, SPECIAL6) else "special"


def _carried(ip: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses inside an IPv6 one: where a packet to it may really go.

    The local-use NAT64 prefix 64:ff9b:1::/48 is not here: where in it the address lies is the
    network's choice, so it stays special as a whole; so do the IPv4-compatible ones, ::/96.
    """
    if ip.ipv4_mapped is not None:
        return [ip.ipv4_mapped]
    if ip in SIXTOFOUR and ip.sixtofour is not None:
        return [ip.sixtofour]
    if ip in TEREDO and ip.teredo is not None:
        return list(ip.teredo)  # the server, and the client with its bits turned back
    if ip in NAT64:
        return [IPv4Address(int(ip) & 0xFFFFFFFF)]
    if int(ip) >> 32 & 0xFDFFFFFF == 0x5EFE:  # ISATAP, under any prefix
        return [IPv4Address(int(ip) & 0xFFFFFFFF)]
    return []


def _within(ip: IPv4Address | IPv6Address, networks: Iterable[IPv4Network | IPv6Network]) -> bool:
    return any(ip in network for network in networks)


WORSE = ["public", "private", "special"]


def check(host: str, addresses: Sequence[str], allow_private: bool | tuple[str, ...]) -> None:
    """Nothing where every address may be connected to; otherwise FetchError (blocked_address).

    `allow_private`: True permits private addresses to every host, a tuple to the hosts in it.
    """
    allowed = allow_private is True or (allow_private and host in map(str.lower, allow_private))
    for address in addresses:
        found = standing(address)
        if found == "special":
            detail = f"{host} has the address {address}, on which pages are never read"
            raise FetchError("blocked_address", detail)
        if found == "private" and not allowed:
            detail = f"{host} has the address {address}, which is not on the public internet"
            advice = "allow private addresses (--allow-private) if it is yours"
            raise FetchError("blocked_address", f"{detail}; {advice}")


def check_numeric(host: str, allow_private: bool | tuple[str, ...]) -> None:
    """`check` without resolving, where a proxy will do that: numeric and local names only."""
    if host.rstrip(".").rpartition(".")[2] == "localhost":
        check(host, ["127.0.0.1"], allow_private)
    try:
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return
    check(host, [str(entry[4][0]) for entry in found], allow_private)


# Connections


def system_resolve(host: str, port: int) -> list[str]:
    """The addresses of a host as the operating system knows them, in its order."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def trust() -> ssl.SSLContext:
    """TLS that trusts what this system trusts, or certifi's list where the system has none."""
    context = ssl.create_default_context()
    folder = ssl.get_default_verify_paths().capath
    listed = folder is not None and any(Path(folder).iterdir())
    if not context.cert_store_stats()["x509_ca"] and not listed:
        context.load_verify_locations(certifi.where())
    return context


def left(until: float | None) -> float | None:
    """Seconds until a moment of time.monotonic(), never more than it is. None: no limit.

    Raises FetchError (timed_out) where the moment has passed.
    """
    if until is None:
        return None
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise FetchError("timed_out", "the time for this page was up")
    return seconds


class GuardedBackend(httpcore.NetworkBackend):
    """Connections for an httpcore pool, made to checked addresses only and ended by the clock.

    A host is resolved once, all its addresses are checked, and one of those is connected to: what
    the name means a moment later is of no account. URL, Host header and the name that TLS
    asks for stay as they are. Every timeout given here is a moment of time.monotonic(), not a
    number of seconds, so that one request has one end, however slowly its bytes drip.
    """

    def __init__(
        self, allow_private: bool | tuple[str, ...] = False, resolve: Resolve = system_resolve
    ) -> None:
        self._allow_private = allow_private
        self._resolve = resolve
        self._tcp = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Option] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to one of the host's addresses. Raises FetchError or httpcore's errors."""
        addresses = _resolved(self._resolve, host, port, timeout)
        check(host, addresses, self._allow_private)
        for rest in range(len(addresses), 0, -1):
            seconds = left(timeout)
            try:
                stream = self._tcp.connect_tcp(
                    addresses[-rest],
                    port,
                    None if seconds is None else seconds / rest,  # a dead one leaves time for all
                    local_address,
                    socket_options,
                )
                return TimedStream(stream)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if rest == 1:
                    raise
        raise FetchError("unresolved", f"{host} has no address")

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Option] | None = None,
    ) -> httpcore.NetworkStream:
        """Always refused: FetchError (blocked_address)."""
        raise FetchError("blocked_address", "a socket of this machine is never connected to")


def _resolved(resolve: Resolve, host: str, port: int, until: float | None) -> list[str]:
    """The addresses, waited for no longer than `until`: the system's resolver has no timeout."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    answer: Future[list[str]] = Future()

    def ask() -> None:
        try:
            answer.set_result(list(resolve(host, port)))
        except Exception as error:  # handed over and raised by the one who waits
            answer.set_exception(error)

    threading.Thread(target=ask, name=f"resolve {host}", daemon=True).start()
    try:
        return answer.result(left(until))
    except TimeoutError:
        raise FetchError("timed_out", f"the name {host} was not resolved in time") from None
    except (OSError, UnicodeError) as error:
        detail = f"{host} could not be resolved ({error}); check the spelling and the network"
        raise FetchError("unresolved", detail) from None


class TimedStream(httpcore.NetworkStream):
    """A stream whose every wait ends at the moment that it is given, whatever came before it."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self._ended = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come, at most max_bytes; nothing where the other side has ended."""
        data = self._stream.read(max_bytes, left(timeout))
        self._ended = not data
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Sends all of it."""
        self._stream.write(buffer, left(timeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """The same connection, encrypted. Raises FetchError (tls_failed)."""
        try:
            return TimedStream(self._stream.start_tls(ssl_context, server_hostname, left(timeout)))
        except httpcore.ConnectError as error:
            detail = f"no trusted TLS connection to {server_hostname}: {error}"
            raise FetchError("tls_failed", detail) from None

    def close(self) -> None:
        """Ends the connection, and the wait of any thread that reads from it."""
        raw = self._stream.get_extra_info("socket")
        if isinstance(raw, socket.socket):
            with contextlib.suppress(OSError):  # it may have ended already
                # not SSLSocket.shutdown, which would let a waiting thread read on unencrypted
                socket.socket.shutdown(raw, socket.SHUT_RDWR)
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        """As httpcore has it, and "ended": whether the other side has closed."""
        return self._ended if info == "ended" else self._stream.get_extra_info(info)

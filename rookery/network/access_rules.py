"""Network access rules: which URLs and addresses may be connected to, and for how long.

They are applied where connections are made, so that no caller can leave them out.
"""

import contextlib
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import certifi
import httpcore

from rookery.errors import Outcome

ResolveHost = Callable[[str, int], Sequence[str]]
"""from a host and a port to numeric addresses; raises OSError where there are none"""

SocketOption = (
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
)

DEFAULT_PORTS = {"http": 80, "https": 443}


class NormalizedUrl(NamedTuple):
    """Parts of a URL that may be requested, in normal form and without its fragment."""

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
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme, host and port as a URL without a path."""
        return f"{self.scheme}://{self.authority}"

    @property
    def url(self) -> str:
        """The whole URL as one string."""
        return self.origin + self.path


def normalize_url(url: str, longest: int = 8192) -> NormalizedUrl:
    """Return the URL taken apart, checked and put in its normal form; what is not ASCII is encoded.

    Raises FetchError: invalid_url (longer than `longest` characters; no host; a user name or
    password, which would end up in logs and citations) or unsupported_scheme.
    """
    if len(url) > longest:
        raise FetchError(Outcome.INVALID_URL, f"the address has more than {longest:,} characters")
    try:
        parts = urlsplit(re.sub(r"[\t\r\n]", "", url).strip())
        port, host, scheme = parts.port, parts.hostname or "", parts.scheme.lower()
        path = quote(parts.path or "/", safe=URL_SAFE_CHARACTERS)
        query = "?" + quote(parts.query, safe=URL_SAFE_CHARACTERS) if parts.query else ""
    except ValueError as error:  # includes text that is no Unicode
        raise FetchError(Outcome.INVALID_URL, f"the address cannot be read: {error}") from None
    if scheme not in DEFAULT_PORTS:
        detail = f"{scheme or 'no scheme'}: only http:// and https:// are opened"
        raise FetchError(Outcome.UNSUPPORTED_SCHEME, detail)
    if parts.username is not None or parts.password is not None:
        raise FetchError(Outcome.INVALID_URL, "take the user name and password out of the address")
    if port == 0:
        raise FetchError(Outcome.INVALID_URL, "port 0 cannot be connected to")
    return NormalizedUrl(scheme, _encode_host(host), port or DEFAULT_PORTS[scheme], path + query)


URL_SAFE_CHARACTERS = "%/:=&?~+!$,;'@()*[]|"
"""what stays as it is in a path: an escape that is there already must not be escaped again"""


def _encode_host(host: str) -> str:
    if ":" in host:
        return host  # IPv6: urlsplit has seen its brackets, the resolver will see the rest
    try:
        name = unquote(host, errors="strict").encode("idna").decode().lower()
    except UnicodeError:
        name = ""
    if not re.fullmatch(r"[a-z0-9_-][a-z0-9._-]{0,252}", name):
        raise FetchError(Outcome.INVALID_URL, f"{host[:80]!r} is not the name of a host")
    return name


# Which addresses


def _parse_networks(names: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(map(ip_network, names.split()))


TEREDO, SIXTOFOUR = IPv6Network("2001::/32"), IPv6Network("2002::/16")
NAT64, MAPPED = IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0/96")
# The registries of special addresses are written out: ipaddress.is_global changed its mind
# between versions of Python, and knows nothing of an address inside an address.
SPECIAL = (
    "100.100.100.200/32 168.63.129.16/32 192.0.0.0/24 0.0.0.0/8 169.254.0.0/16 192.0.2.0/24"
    " 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
    " fd00:ec2::/32 fd20:ce::/32 2001::/23 2001:db8::/32 3fff::/20"
)
PRIVATE = "10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.168.0.0/16 ::1/128 fc00::/7"
CLASSES_OF_NETWORKS = (
    ("public", (TEREDO, SIXTOFOUR, NAT64, MAPPED)),  # as bad as the addresses inside
    ("special", _parse_networks(SPECIAL)),
    ("private", _parse_networks(PRIVATE)),
    ("public", _parse_networks("0.0.0.0/0 2000::/3")),
)
"""of an address the first that holds it counts; what is in none is special"""


def classify_address(address: str) -> str:
    """Classify an IP address as "public", "private" (loopback and local networks) or "special".

    Special is what no page is ever on: link-local, multicast, unspecified, reserved, the metadata
    services of clouds, anything with a scope, anything unreadable. An address that carries
    others (IPv4 in IPv6) is as bad as the worst of them.
    """
    try:
        ip = None if "%" in address else ip_address(address)
    except ValueError:
        ip = None
    if ip is None:
        return "special"
    inside = _extract_ipv4(ip) if isinstance(ip, IPv6Address) else []
    return max(map(_classify_alone, (ip, *inside)), key=ADDRESS_CLASSES.index)


def _classify_alone(ip: IPv4Address | IPv6Address) -> str:
    classes = (name for name, networks in CLASSES_OF_NETWORKS if any(ip in one for one in networks))
    return next(classes, "special")


def _extract_ipv4(ip: IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses inside an IPv6 one: where a packet to it may really go.

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


ADDRESS_CLASSES = ["public", "private", "special"]


def check_addresses(
    host: str, addresses: Sequence[str], allow_private: bool | tuple[str, ...]
) -> None:
    """Raise FetchError (blocked_address) unless every address may be connected to.

    `allow_private`: True permits private addresses to every host, a tuple to the hosts in it.
    """
    allowed = allow_private is True or (allow_private and host in map(str.lower, allow_private))
    for address in addresses:
        address_kind = classify_address(address)
        if address_kind == "special":
            detail = f"{host} has the address {address}, on which pages are never read"
            raise FetchError(Outcome.BLOCKED_ADDRESS, detail)
        if address_kind == "private" and not allowed:
            detail = f"{host} has the address {address}, which is not on the public internet"
            advice = "allow private addresses (--allow-private) if it is yours"
            raise FetchError(Outcome.BLOCKED_ADDRESS, f"{detail}; {advice}")


def check_numeric_host(host: str, allow_private: bool | tuple[str, ...]) -> None:
    """Raise FetchError (blocked_address) for a numeric or local host that may not be connected to.

    No name is resolved: a proxy will do that.
    """
    if host.rstrip(".").rpartition(".")[2] == "localhost":
        check_addresses(host, ["127.0.0.1"], allow_private)
    try:
        resolved = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return
    check_addresses(host, [str(entry[4][0]) for entry in resolved], allow_private)


# Connections


def resolve_with_system(host: str, port: int) -> list[str]:
    """Return the addresses of a host as the operating system knows them, in its order, each once.

    It blocks as long as the system takes. Raises OSError where there are none.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def make_tls_context() -> ssl.SSLContext:
    """Return a TLS context that trusts the system's certificates or, if it has none, certifi's."""
    context = ssl.create_default_context()
    folder = ssl.get_default_verify_paths().capath
    listed = folder is not None and any(Path(folder).iterdir())
    if not context.cert_store_stats()["x509_ca"] and not listed:
        context.load_verify_locations(certifi.where())
    return context


def get_seconds_left(until: float | None) -> float | None:
    """Return the seconds until a moment of time.monotonic(); None if there is no limit.

    Raises FetchError (timed_out) where the moment has passed.
    """
    if until is None:
        return None
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise FetchError(Outcome.TIMED_OUT, "the time for this page was up")
    return seconds


class GuardedBackend(httpcore.NetworkBackend):
    """Connections for an httpcore pool, made to checked addresses only and ended by the clock.

    A host is resolved once, all its addresses are checked, and one of those is connected to: what
    the name means a moment later is of no account. URL, Host header and the name that TLS
    asks for stay as they are. Every timeout given here is a moment of time.monotonic(), not a
    number of seconds, so that one request has one end, however slowly its bytes drip.
    """

    def __init__(
        self,
        allow_private: bool | tuple[str, ...] = False,
        resolve: ResolveHost = resolve_with_system,
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
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.NetworkStream:
        """Resolve a host, check its addresses, and return a connection to the first that answers.

        No address is tried if one of them is blocked. `timeout` is a moment of time.monotonic();
        None sets no limit. Raises FetchError (unresolved, blocked_address, timed_out) or httpcore's
        errors.
        """
        addresses = _resolve_in_time(self._resolve, host, port, timeout)
        check_addresses(host, addresses, self._allow_private)
        for rest in range(len(addresses), 0, -1):
            seconds = get_seconds_left(timeout)
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
        raise FetchError(Outcome.UNRESOLVED, f"{host} has no address")

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.NetworkStream:
        """Raise FetchError (blocked_address): Unix sockets are always refused."""
        raise FetchError(Outcome.BLOCKED_ADDRESS, "a socket of this machine is never connected to")


def _resolve_in_time(resolve: ResolveHost, host: str, port: int, until: float | None) -> list[str]:
    """Return the addresses, waited for no longer than `until`: the system's resolver has no
    timeout."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    answer: Future[list[str]] = Future()

    def resolve_host() -> None:
        try:
            answer.set_result(list(resolve(host, port)))
        except Exception as error:  # handed over and raised by the one who waits
            answer.set_exception(error)

    threading.Thread(target=resolve_host, name=f"resolve {host}", daemon=True).start()
    try:
        return answer.result(get_seconds_left(until))
    except TimeoutError:
        raise FetchError(Outcome.TIMED_OUT, f"the name {host} was not resolved in time") from None
    except (OSError, UnicodeError) as error:
        detail = f"{host} could not be resolved ({error}); check the spelling and the network"
        raise FetchError(Outcome.UNRESOLVED, detail) from None


class TimedStream(httpcore.NetworkStream):
    """Network stream on which every wait ends at a given moment, however much has arrived by
    then."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self._ended = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Wait for bytes until the moment `timeout`, and return at most `max_bytes` of them.

        Empty if the other side has closed the connection. Raises FetchError (timed_out) if the
        moment is past already, and httpcore.ReadTimeout if it comes meanwhile.
        """
        data = self._stream.read(max_bytes, get_seconds_left(timeout))
        self._ended = not data
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all bytes of the buffer, until the moment `timeout`.

        Raises FetchError (timed_out) if the moment is past already, and httpcore.WriteTimeout if it
        comes meanwhile.
        """
        self._stream.write(buffer, get_seconds_left(timeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Return the connection encrypted, with TLS begun by the moment `timeout`.

        Raises FetchError (tls_failed).
        """
        try:
            seconds = get_seconds_left(timeout)
            return TimedStream(self._stream.start_tls(ssl_context, server_hostname, seconds))
        except httpcore.ConnectError as error:
            detail = f"no trusted TLS connection to {server_hostname}: {error}"
            raise FetchError(Outcome.TLS_FAILED, detail) from None

    def close(self) -> None:
        """Close the connection and end the wait of any thread that reads from it."""
        raw = self._stream.get_extra_info("socket")
        if isinstance(raw, socket.socket):
            with contextlib.suppress(OSError):  # it may have ended already
                # not SSLSocket.shutdown, which would let a waiting thread read on unencrypted
                socket.socket.shutdown(raw, socket.SHUT_RDWR)
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        """Return information as httpcore names it; "ended" is whether the other side has closed."""
        return self._ended if info == "ended" else self._stream.get_extra_info(info)


class FetchError(Exception):
    """Failure of one request, with its outcome.

    invalid_url: the address is unreadable, too long, or holds a user name or password.
    unsupported_scheme: it is neither http nor https. blocked_address: the host, or one of its
    addresses, is not on the public internet. unresolved: the host has no address. refused: no
    connection could be made. tls_failed: the certificate or the TLS is not in order. timed_out: the
    time for this page, or for all pages together, was up. robots: robots.txt forbids this address,
    or could not be had. too_many_redirects: in a circle, or too often. too_large: the body, after
    decompression, or the headers pass the limit. truncated: the connection ended before the answer
    was complete. malformed: the answer breaks the rules of HTTP or of its own compression.
    unsupported_type: what is declared holds no text, such as a video. http_<status>: an answer that
    is no page (http_404, http_503, ...). And the outcomes of `rookery.pages.page_reader.read_page`.
    """

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(f"{outcome}: {detail}")
        self.outcome = outcome
        self.detail = detail

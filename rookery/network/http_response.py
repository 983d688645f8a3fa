"""Errors, redirects and headers of an HTTP response, read before its body, and the body's content
encodings, decoded piece by piece, so that a decompression bomb is never whole in memory."""

import re
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from email.utils import mktime_tz, parsedate_to_datetime, parsedate_tz
from urllib.parse import quote, urljoin

import brotli
import httpcore

from rookery.errors import Outcome
from rookery.network.access_rules import URL_SAFE_CHARACTERS, FetchError, NormalizedUrl

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})

HTTPCORE_ERRORS = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
)


def classify_http_error(
    error: Exception, host: str, answer: httpcore.Response | None = None
) -> FetchError:
    """Return the FetchError that an exception of httpcore, before or within a body, stands for.

    `answer` is the response, if its head had come. Raises ValueError where a header that the caller
    gave is not allowed in HTTP.
    """
    if isinstance(error, httpcore.LocalProtocolError):
        raise ValueError("a header that was given holds what HTTP forbids, such as a line break")
    if isinstance(error, httpcore.TimeoutException):
        detail = f"{host} was too slow; raise FetchLimits.seconds or try later"
        return FetchError(Outcome.TIMED_OUT, detail)
    if isinstance(error, httpcore.ConnectError | httpcore.ProxyError):
        return FetchError(Outcome.REFUSED, f"no connection to {host}: {error}; try again later")
    if getattr(error.args[0] if error.args else None, "error_status_hint", 0) == 431:
        detail = f"the headers that {host} sends are beyond all measure"
        return FetchError(Outcome.TOO_LARGE, detail)
    if isinstance(error, httpcore.NetworkError) or _has_peer_closed(error, answer):
        return FetchError(Outcome.TRUNCATED, f"{host} ended its answer early ({error}); try again")
    return FetchError(Outcome.MALFORMED, f"{host} does not speak proper HTTP: {error}")


def _has_peer_closed(error: Exception, answer: httpcore.Response | None) -> bool:
    if answer is None:  # httpcore says in its own words that nothing came, and else cites h11
        return bool(error.args) and isinstance(error.args[0], str)
    return bool(answer.extensions["network_stream"].get_extra_info("ended"))


def read_redirect(answer: httpcore.Response, url: NormalizedUrl) -> str | None:
    """Return the absolute address that a response redirects to; None if it does not redirect.

    Bytes beyond ASCII are percent-encoded. Raises FetchError (invalid_url) where it is no address.
    """
    locations = [value for name, value in answer.headers if name.lower() == b"location"]
    if answer.status not in REDIRECT_STATUSES or not locations:
        return None
    try:
        return urljoin(url.url, quote(locations[0].strip(), safe=URL_SAFE_CHARACTERS + "#"))
    except ValueError as error:
        raise FetchError(Outcome.INVALID_URL, f"it redirects to no address: {error}") from None


_MOST_COOKIES = 50
_LONGEST_COOKIE = 4096


class FetchCookies:
    """The cookies of one fetch with its redirects, each sent only to the host that set it."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], tuple[str, bool]] = {}

    def add_from(self, answer: httpcore.Response, url: NormalizedUrl) -> None:
        """Keep the cookies that a response sets, and forget those that it withdraws.

        Cookies beyond 50, and those that are not ASCII or have more than 4,096 characters, are
        passed over.
        """
        for _, header in (pair for pair in answer.headers if pair[0].lower() == b"set-cookie"):
            pair, *options = header.decode("latin-1").split(";")
            name, equals, value = (part.strip() for part in pair.partition("="))
            named = (one.partition("=") for one in options)
            about = {option.strip().lower(): text.strip() for option, _, text in named}
            if not (name and equals and pair.isascii() and len(pair) <= _LONGEST_COOKIE):
                continue
            if _is_withdrawn(about.get("max-age", ""), about.get("expires", "")):
                self._values.pop((url.host, name), None)
            elif len(self._values) < _MOST_COOKIES or (url.host, name) in self._values:
                self._values[url.host, name] = (value, "secure" in about)

    def write_header(self, url: NormalizedUrl) -> str:
        """Return the value of the header Cookie for a request; empty where there are none."""
        sent = (
            f"{name}={value}"
            for (host, name), (value, secure) in self._values.items()
            if host == url.host and (url.scheme == "https" or not secure)
        )
        return "; ".join(sent)


def _is_withdrawn(max_age: str, expires: str) -> bool:
    """Return whether a cookie is no longer valid; Max-Age decides over Expires (RFC 6265, 5.3)."""
    if re.fullmatch(r"-?\d{1,18}", max_age, re.ASCII):
        return int(max_age) <= 0
    with suppress(ValueError, OverflowError):  # what is no date is passed over
        date = parsedate_tz(expires)
        return date is not None and mktime_tz(date) <= time.time()
    return False


def check_status(answer: httpcore.Response) -> None:
    """Raise FetchError (http_<status>) unless the status is 200 to 299, and not 206 (a part)."""
    if 200 <= answer.status < 300 and answer.status != 206:
        return
    later = read_header(answer, b"retry-after")[:40]
    advice = STATUS_ADVICE.get(answer.status, "")
    detail = f"the server answered {answer.status}{advice}"
    raise FetchError(f"http_{answer.status}", detail + (f" (after: {later})" if later else ""))


def parse_retry_after(detail: str) -> float | None:
    """Return the seconds that a server's Retry-After asks to wait; None where it asked nothing.

    `detail` is, or holds, a sentence of `check_status`; the header is a number or an HTTP date.
    """
    match = re.search(r"\(after: ([^)]*)\)", detail)
    if match is None:
        return None
    if re.fullmatch(r"\d{1,9}", match[1].strip()):
        return float(match[1])
    try:
        moment = parsedate_to_datetime(match[1])
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - time.time())


STATUS_ADVICE = {
    401: ": it wants a login or a key",
    403: ": it refuses this program or this address",
    404: ": there is no such page",
    410: ": the page is gone for good",
    429: ": too many requests; wait before the next",
    503: ": it is overloaded; try again later",
}


def read_header(answer: httpcore.Response, name: bytes) -> str:
    """Return the header of this name, repeated ones joined by commas; empty where there is none.

    `name` is in lower case.
    """
    values = [value for key, value in answer.headers if key.lower() == name]
    return ", ".join(value.decode("latin-1") for value in values)


BodyDecoder = Callable[[Iterable[bytes]], Iterator[bytes]]

ACCEPTED_ENCODINGS = "gzip, deflate, br, zstd"
"""what a request may say that it accepts"""

PIECE_BYTES = 64 * 1024
"""bytes that one step of a decoder may produce (brotli rounds it up)"""

MOST_MEMBERS = 1000
"""gzip members or zstd frames in one body: more is not a page but a way to burn time"""

WINDOW_LOG = 23
"""8 MB, the largest zstd window that HTTP allows (RFC 9659)"""

MOST_ENCODINGS = 3
"""encodings on top of each other"""


def decode_content(chunks: Iterable[bytes], encoding: str, limit: int) -> Iterator[bytes]:
    """Yield the body without its Content-Encoding, in pieces; an empty body needs no encoding.

    No stage may produce more than `limit` bytes. Raises FetchError: too_large, malformed (not
    what the encoding says, or an unknown one), truncated (the compressed stream has no end).
    """
    written = (name.strip().lower() for name in encoding.split(","))
    names = [name for name in written if name not in NO_ENCODING]
    if len(names) > MOST_ENCODINGS:
        raise FetchError(Outcome.MALFORMED, f"the body is encoded {len(names)} times over")
    if unknown := next((name for name in reversed(names) if name not in BODY_DECODERS), ""):
        detail = f"the server sent the encoding {unknown[:40]!r}, not asked for"
        raise FetchError(Outcome.MALFORMED, detail)
    pieces = limit_size(chunks, limit)
    for name in reversed(names):
        pieces = limit_size(BODY_DECODERS[name](pieces), limit)
    return pieces


def limit_size(chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """Yield the chunks as they are, while all together have at most `limit` bytes.

    Raises FetchError (too_large) in place of the one that passes the limit.
    """
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            detail = f"the body has more than {limit:,} bytes; raise FetchLimits.bytes to read it"
            raise FetchError(Outcome.TOO_LARGE, detail)
        yield chunk


def _decode_gzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    stream, members, begun = zlib.decompressobj(wbits=31), 1, False
    for chunk in chunks:
        begun = begun or bool(chunk)
        while chunk:
            if stream.eof:
                chunk = chunk.lstrip(b"\0")  # members may be padded
                if chunk[:1] != b"\x1f":
                    break  # what follows the last member is ignored by every reader of gzip
                stream, members = zlib.decompressobj(wbits=31), _count_member(members, "gzip")
            yield _decode_piece(stream.decompress, chunk)
            chunk = stream.unused_data if stream.eof else stream.unconsumed_tail
        yield from _drain_stream(stream)
    if begun and not stream.eof:
        raise _build_truncated_error("gzip")


def _decode_deflate(chunks: Iterable[bytes]) -> Iterator[bytes]:
    stream, head = None, b""
    for chunk in chunks:
        if stream is None:
            head += chunk
            if len(head) < 2:
                continue
            stream, chunk = zlib.decompressobj(wbits=15 if _has_zlib_header(head) else -15), head
        while chunk and not stream.eof:
            yield _decode_piece(stream.decompress, chunk)
            chunk = stream.unconsumed_tail
        yield from _drain_stream(stream)
    if head and (stream is None or not stream.eof):
        raise _build_truncated_error("deflate")


def _has_zlib_header(head: bytes) -> bool:
    # "deflate" means zlib, yet many servers send the bare stream that zlib wraps
    return head[0] & 15 == 8 and int.from_bytes(head[:2]) % 31 == 0


def _decode_piece(
    decode: Callable[..., bytes], data: bytes, limit_name: str = "max_length"
) -> bytes:
    try:
        return decode(data, **{limit_name: PIECE_BYTES})
    except (zlib.error, brotli.error, zstd.ZstdError) as error:
        raise FetchError(Outcome.MALFORMED, f"the compressed body is broken: {error}") from None


def _drain_stream(stream: "zlib._Decompress") -> Iterator[bytes]:
    # the input may be used up while a full piece of output still waits inside
    while not stream.eof and (piece := _decode_piece(stream.decompress, b"")):
        yield piece


def _decode_brotli(chunks: Iterable[bytes]) -> Iterator[bytes]:
    stream, begun = brotli.Decompressor(), False
    for chunk in chunks:
        begun = begun or bool(chunk)
        piece = b""
        while chunk or piece or not stream.can_accept_more_data():
            if stream.is_finished():
                return
            yield (piece := _decode_piece(stream.process, chunk, "output_buffer_limit"))
            chunk = b""
    if begun and not stream.is_finished():
        raise _build_truncated_error("brotli")


def _decode_zstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    stream, frames, begun = _zstd_stream(), 1, False
    for chunk in chunks:
        begun = begun or bool(chunk)
        while chunk or not (stream.eof or stream.needs_input):
            if stream.eof:
                stream, frames = _zstd_stream(), _count_member(frames, "zstd")
            yield _decode_piece(stream.decompress, chunk)
            chunk = stream.unused_data if stream.eof else b""
    if begun and not stream.eof:
        raise _build_truncated_error("zstd")


def _zstd_stream() -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG})


def _count_member(members: int, name: str) -> int:
    if members == MOST_MEMBERS:
        raise FetchError(Outcome.MALFORMED, f"{name} in more than {MOST_MEMBERS} members")
    return members + 1


def _build_truncated_error(name: str) -> FetchError:
    return FetchError(Outcome.TRUNCATED, f"the {name} stream stops before its end")


NO_ENCODING = frozenset({"", "identity", "none", "binary", "7bit", "8bit", "utf-8", "utf8"})
"""what servers write that encode nothing; only the first two are meant by the standard"""

BODY_DECODERS: dict[str, BodyDecoder] = {"gzip": _decode_gzip, "x-gzip": _decode_gzip}
BODY_DECODERS |= {"deflate": _decode_deflate, "br": _decode_brotli, "zstd": _decode_zstd}

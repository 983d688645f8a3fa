"""Content encodings undone piece by piece, so that no bomb is ever whole in memory.

It knows compression only: neither HTTP nor what the bytes mean.
"""

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator

import brotli

from rookery.browse.outcomes import FetchError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Decoder = Callable[[Iterable[bytes]], Iterator[bytes]]

ACCEPTED = "gzip, deflate, br, zstd"
"""what a request may say that it accepts"""

PIECE = 64 * 1024
"""bytes that one step of a decoder may produce (brotli rounds it up)"""

MEMBERS = 1000
"""gzip members or zstd frames in one body: more is not a page but a way to burn time"""

WINDOW_LOG = 23
"""8 MB, the largest zstd window that HTTP allows (RFC 9659)"""

DEPTH = 3
"""encodings on top of each other"""


def decoded(chunks: Iterable[bytes], encoding: str, limit: int) -> Iterator[bytes]:
    """The body without its Content-Encoding, in pieces; an empty body needs no encoding.

    No stage may produce more than `limit` bytes. Raises FetchError: too_large, malformed (not
    what the encoding says, or an unknown one), truncated (the compressed stream has no end).
    """
    names = _names(encoding)
    if len(names) > DEPTH:
        raise FetchError("malformed", f"the body is encoded {len(names)} times over")
    stages = [_decoder(name) for name in reversed(names)]
    pieces = capped(chunks, limit)
    for stage in stages:
        pieces = capped(stage(pieces), limit)
    return pieces


def capped(chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    """The same chunks. Raises FetchError (too_large) in place of the one that passes the limit."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            detail = f"the body has more than {limit:,} bytes; raise Limits.bytes to read it"
            raise FetchError("too_large", detail)
        yield chunk


def _names(encoding: str) -> list[str]:
    names = (name.strip().lower() for name in encoding.split(","))
    return [name for name in names if name not in NO_ENCODING]


def _decoder(name: str) -> Decoder:
    if name not in DECODERS:
        raise FetchError("malformed", f"the server sent the encoding {name[:40]!r}, not asked for")
    return DECODERS[name]


def _gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    stream, members, begun = zlib.decompressobj(wbits=31), 1, False
    for chunk in chunks:
        begun = begun or bool(chunk)
        while chunk:
            if stream.eof:
                chunk = chunk.lstrip(b"\0")  # members may be padded
                if chunk[:1] != b"\x1f":
                    break  # what follows the last member is ignored by every reader of gzip
                stream, members = zlib.decompressobj(wbits=31), _next(members, "gzip")
            yield _inflated(stream, chunk)
            chunk = stream.unused_data if stream.eof else stream.unconsumed_tail
        yield from _drained(stream)
    if begun and not stream.eof:
        raise _cut("gzip")


def _inflate(chunks: Iterable[bytes]) -> Iterator[bytes]:
    stream, head = None, b""
    for chunk in chunks:
        if stream is None:
            head += chunk
            if len(head) < 2:
                continue
            stream, chunk = zlib.decompressobj(wbits=15 if _zlib(head) else -15), head
        while chunk and not stream.eof:
            yield _inflated(stream, chunk)
            chunk = stream.unconsumed_tail
        yield from _drained(stream)
    if head and (stream is None or not stream.eof):
        raise _cut("deflate")


def _zlib(head: bytes) -> bool:
    # "deflate" means zlib, yet many servers send the bare stream that zlib wraps
    return head[0] & 15 == 8 and int.from_bytes(head[:2]) % 31 == 0


def _inflated(stream: "zlib._Decompress", data: bytes) -> bytes:
    try:
        return stream.decompress(data, PIECE)
    except zlib.error as error:
        raise FetchError("malformed", f"the compressed body is broken: {error}") from None


def _drained(stream: "zlib._Decompress") -> Iterator[bytes]:
    # the input may be used up while a full piece of output still waits inside
    while not stream.eof and (piece := _inflated(stream, b"")):
        yield piece


def _unbrotli(chunks: Iterable[bytes]) -> Iterator[bytes]:
    stream, begun = brotli.Decompressor(), False
    for chunk in chunks:
        begun = begun or bool(chunk)
        piece = b""
        while chunk or piece or not stream.can_accept_more_data():
            if stream.is_finished():
                return
            yield (piece := _unbrotlied(stream, chunk))
            chunk = b""
    if begun and not stream.is_finished():
        raise _cut("brotli")


def _unbrotlied(stream: "brotli.Decompressor", data: bytes) -> bytes:
    try:
        piece: bytes = stream.process(data, output_buffer_limit=PIECE)
    except brotli.error as error:
        raise FetchError("malformed", f"the compressed body is broken: {error}") from None
    return piece


def _unzstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    stream, frames, begun = _zstd_stream(), 1, False
    for chunk in chunks:
        begun = begun or bool(chunk)
        while chunk or not (stream.eof or stream.needs_input):
            if stream.eof:
                stream, frames = _zstd_stream(), _next(frames, "zstd")
            yield _unzstded(stream, chunk)
            chunk = stream.unused_data if stream.eof else b""
    if begun and not stream.eof:
        raise _cut("zstd")


def _zstd_stream() -> zstd.ZstdDecompressor:
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG})


def _unzstded(stream: zstd.ZstdDecompressor, data: bytes) -> bytes:
    try:
        return stream.decompress(data, PIECE)
    except zstd.ZstdError as error:
        raise FetchError("malformed", f"the compressed body is broken: {error}") from None


def _next(members: int, name: str) -> int:
    if members == MEMBERS:
        raise FetchError("malformed", f"{name} in more than {MEMBERS} members")
    return members + 1


def _cut(name: str) -> FetchError:
    return FetchError("truncated", f"the {name} stream stops before its end")


NO_ENCODING = frozenset({"", "identity", "none", "binary", "7bit", "8bit", "utf-8", "utf8"})
"""what servers write that encode nothing; only the first two are meant by the standard"""

DECODERS: dict[str, Decoder] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _inflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}

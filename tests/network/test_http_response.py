"""Content encodings: round trips in pieces, bombs, broken and endless streams."""

import gzip
import os
import random
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.network.access_rules import FetchError
from rookery.network.http_response import PIECE_BYTES, decode_content

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LIMIT = 1_000_000


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "X-GZip": gzip.compress,
    "deflate": zlib.compress,
    "deflate ": raw_deflate,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "identity": bytes,
    "": bytes,
}


def sliced(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def undone(data: bytes, encoding: str, size: int = 1000, limit: int = LIMIT) -> bytes:
    return b"".join(decode_content(sliced(data, size), encoding, limit))


def outcome(data: bytes, encoding: str, size: int = 1000, limit: int = LIMIT) -> str:
    with pytest.raises(FetchError) as caught:
        undone(data, encoding, size, limit)
    return caught.value.outcome


@given(st.binary(max_size=3000), st.sampled_from(sorted(ENCODERS)), st.integers(1, 700))
def test_every_encoding_round_trips_however_it_is_cut(data: bytes, name: str, size: int) -> None:
    assert undone(ENCODERS[name](data), name, size) == data


@pytest.mark.parametrize("name", ["gzip", "deflate", "deflate ", "br", "zstd"])
def test_output_far_larger_than_one_piece_comes_whole(name: str) -> None:
    # the input is used up long before the output: nothing may stay inside the decoder
    data = bytes(5 * PIECE_BYTES) + random.Random(0).randbytes(PIECE_BYTES) + b"the end"
    assert undone(ENCODERS[name](data), name, 1 << 20) == data


def test_no_output_stays_inside_where_the_input_ends_just_after_a_piece() -> None:
    for size in range(PIECE_BYTES - 3, PIECE_BYTES + 260, 7):
        assert undone(raw_deflate(bytes(size)), "deflate", 1 << 20) == bytes(size)
        assert undone(zlib.compress(bytes(size)), "deflate", 1 << 20) == bytes(size)


def test_encodings_on_top_of_each_other_are_undone_in_reverse() -> None:
    data = os.urandom(5000)
    assert undone(brotli.compress(gzip.compress(data)), "gzip, br") == data
    assert outcome(b"x", "gzip, gzip, gzip, gzip") == "malformed"


def test_members_and_frames_follow_each_other() -> None:
    assert undone(gzip.compress(b"one") + b"\0\0" + gzip.compress(b"two"), "gzip", 7) == b"onetwo"
    assert undone(gzip.compress(b"one") + b"trailing", "gzip", 7) == b"one"
    assert undone(zstd.compress(b"one") + zstd.compress(b"two"), "zstd", 5) == b"onetwo"
    assert outcome(gzip.compress(b"") * 1001, "gzip") == "malformed"
    assert outcome(zstd.compress(b"") * 1001, "zstd") == "malformed"


@pytest.mark.parametrize("name", ["gzip", "deflate", "deflate ", "br", "zstd"])
def test_a_stream_without_its_end_is_truncated(name: str) -> None:
    whole = ENCODERS[name](random.Random(1).randbytes(20_000))
    for kept in (1, 2, len(whole) // 2, len(whole) - 1):
        assert outcome(whole[:kept], name) == "truncated", kept
    assert undone(b"", name) == b""


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_what_is_not_what_it_says_is_malformed(name: str) -> None:
    assert outcome(b"<!doctype html><p>plain after all</p>" * 9, name) == "malformed"
    assert outcome(b"abc", "compress") == "malformed"


def test_a_window_larger_than_http_allows_is_refused() -> None:
    options: dict[int, int] = {zstd.CompressionParameter.window_log: 27}
    stream = zstd.ZstdCompressor(options=options)
    data = stream.compress(bytes(20_000_000)) + stream.flush()
    assert outcome(data, "zstd", limit=30_000_000) == "malformed"


def bomb(size: int) -> Iterator[bytes]:
    """Gigabytes of zeros as gzip, made while it is read."""
    stream = zlib.compressobj(9, wbits=31)
    yield stream.compress(bytes(1 << 20))
    block = zlib.compressobj(9, wbits=-15)
    step = block.compress(bytes(1 << 20)) + block.flush(zlib.Z_FULL_FLUSH)
    yield stream.flush(zlib.Z_FULL_FLUSH)
    for _ in range(size >> 20):
        yield step


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_ends_at_the_limit_in_little_memory(name: str) -> None:
    data = ENCODERS[name](bytes(60_000_000))
    assert len(data) < 70_000
    tracemalloc.start()
    assert outcome(data, name, 1 << 20, limit=2_000_000) == "too_large"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


def test_ten_gigabytes_of_zeros_cost_no_time_and_no_memory() -> None:
    given = 0
    tracemalloc.start()
    parts = decode_content(bomb(10 << 30), "gzip", 20_000_000)
    with pytest.raises(FetchError) as caught:  # noqa: PT012 (what it gave before counts)
        for part in parts:
            given += len(part)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.outcome == "too_large"
    assert peak < 4_000_000
    assert given <= 20_000_000  # of ten gigabytes: the rest was not unpacked


def test_a_bomb_inside_another_ends_at_the_limit() -> None:
    data = gzip.compress(gzip.compress(bytes(50_000_000)))
    assert outcome(data, "gzip, gzip", limit=1_000_000) == "too_large"


def test_endless_input_without_output_ends_at_the_limit() -> None:
    skippable = b"\x50\x2a\x4d\x18" + (60_000).to_bytes(4, "little") + bytes(60_000)
    assert outcome(skippable * 20, "zstd", 65536, limit=500_000) in ("too_large", "malformed")

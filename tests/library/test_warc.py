"""WARC files: what each record brings, what damage costs, and the file as a library."""

import gzip
import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
import zlib
from base64 import b32encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import brotli
import pytest
from damaging import damage_columns
from hypothesis import given
from hypothesis import strategies as st
from pdf_files import write_pdf
from stage import Said, stage

from rookery.errors import Failed
from rookery.library.libraries import open_places
from rookery.library.page_archive import PageArchive
from rookery.library.warc import WarcEntry, WarcLibrary, WarcRedirect, iter_warc_entries
from rookery.network.fetcher import Fetcher
from rookery.pages.page_parts import ReadLimits
from rookery.pages.page_reader import read_page
from rookery.pages.reader_processes import ReaderPool
from rookery.records import Failure, Page

posix = pytest.mark.skipif(os.name != "posix", reason="kills a process")

Headers = Sequence[tuple[str, str]]
HTML = (("Content-Type", "text/html; charset=utf-8"),)
DATE = "2024-05-01T10:20:30Z"
FETCHED = "2024-05-01T10:20:30+00:00"
SITE = "http://birds.example/"


def html(text: str) -> bytes:
    return f"<!doctype html><title>Birds</title><p>{text}</p>".encode()


class Crawl:
    """A WARC file, written by hand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = io.BytesIO()
        self.places: list[int] = []

    def add(
        self,
        kind: str,
        name: str,
        block: bytes = b"",
        headers: Headers | None = None,
        status: str = "200 OK",
        **fields: str,
    ) -> str:
        """Writes one record; underscores in the names of headers stand for hyphens."""
        if headers:
            lines = [f"HTTP/1.1 {status}", *(f"{key}: {value}" for key, value in headers), "", ""]
            block = "\r\n".join(lines).encode() + block
        self.places.append(self.file.tell())
        about = {
            "WARC-Type": kind,
            "WARC-Record-ID": f"<urn:test:{len(self.places)}>",
            "WARC-Date": DATE,
            "WARC-Target-URI": name if ":" in name else SITE + name,
            "WARC-Block-Digest": f"sha1:{b32encode(hashlib.sha1(block).digest()).decode()}",
        }
        about |= {key.replace("_", "-"): value for key, value in fields.items()}
        about["Content-Length"] = str(len(block))
        lines = ["WARC/1.1", *(f"{key}: {value}" for key, value in about.items()), "", ""]
        self.write("\r\n".join(lines).encode() + block + b"\r\n\r\n")
        return about["WARC-Record-ID"]

    def write(self, record: bytes) -> None:
        zipped = self.path.suffix == ".gz"
        self.file.write(zlib.compress(record, wbits=31) if zipped else record)

    def page(self, name: str, text: str, **more: str) -> str:
        return self.add("response", name, html(text), HTML, **more)

    def finish(self) -> Path:
        self.path.write_bytes(self.file.getvalue())
        return self.path


@pytest.fixture(params=["crawl.warc", "crawl.warc.gz"])
def crawl(tmp_path: Path, request: pytest.FixtureRequest) -> Crawl:
    return Crawl(tmp_path / request.param)


READERS = ReaderPool()
"""kept warm for the tests that read hundreds of files"""


@pytest.fixture(scope="module", autouse=True)
def end_readers() -> Iterator[None]:
    yield
    READERS.close()


def read_warc(
    path: Path, limits: ReadLimits = ReadLimits(), readers: ReaderPool | None = None
) -> Iterator[Page | Failure]:
    entries: Iterator[WarcEntry] = (e for _, e in iter_warc_entries(path, limits, readers))
    return (entry for entry in entries if not isinstance(entry, WarcRedirect))


def pages(entries: Iterable[Page | Failure]) -> list[Page]:
    return [entry for entry in entries if isinstance(entry, Page)]


def outcomes(path: Path, limits: ReadLimits = ReadLimits()) -> dict[str, str]:
    entries = read_warc(path, limits)
    return {entry.what: entry.outcome for entry in entries if isinstance(entry, Failure)}


def chunked(body: bytes) -> bytes:
    size = len(body) // 2 + 1
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x;x=y\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


# What is a page


@pytest.mark.slow
def test_answers_are_read_as_if_they_were_fetched(crawl: Crawl) -> None:
    raven = html("The raven croaks.")
    answers: list[tuple[str, bytes, Headers, bytes]] = [
        ("plain", raven, HTML, raven),
        ("gzip", gzip.compress(raven), (*HTML, ("Content-Encoding", "gzip")), raven),
        ("br", brotli.compress(raven), (*HTML, ("content-encoding", "br")), raven),
        ("chunks", chunked(raven), (*HTML, ("Transfer-Encoding", "chunked")), raven),
        ("a.txt", b"A raven.\n\nA jay.", [("Content-Type", "text/plain")], b"A raven.\n\nA jay."),
        ("a.pdf", write_pdf([["The rook caws."]]), [("Content-Type", "application/pdf")], b""),
    ]
    both = (*HTML, ("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip"))
    answers.append(("both", chunked(gzip.compress(raven)), both, raven))
    for name, body, headers, _ in answers:
        crawl.add("response", name, body, headers)
    expected = [
        read_page(data or body, SITE + name, dict(headers)["Content-Type"], FETCHED)
        for name, body, headers, data in answers
    ]
    assert list(read_warc(crawl.finish())) == expected


def test_resources_and_extracted_text_are_pages(crawl: Crawl) -> None:
    crawl.add("resource", "a.html", html("The raven croaks."), Content_Type="text/html")
    text = "Jays\n\n<p>The jay plants oaks — often.</p>"
    for name in ("b.html", "c.pdf"):
        crawl.add("conversion", name, text.encode(), Content_Type="text/plain")
    raven, *jays = pages(read_warc(crawl.finish()))
    assert raven.text == "The raven croaks."
    assert [jay.text for jay in jays] == [text, text]
    assert {jay.title for jay in jays} == {"Jays"}
    assert {jay.fetched for jay in jays} == {FETCHED}


def test_what_is_no_page_passes_in_silence(crawl: Crawl) -> None:
    crawl.add("warcinfo", "", b"software: test", Content_Type="application/warc-fields")
    crawl.add("response", "dns:birds.example", b"20240501\n127.0.0.1", Content_Type="text/dns")
    crawl.add("request", "a", b"GET /a HTTP/1.1\r\n\r\n", Content_Type="application/http")
    crawl.page("a", "The raven croaks.")
    crawl.add("metadata", "a", b"via: http://x/", Content_Type="application/warc-fields")
    crawl.add("resource", "metadata://gnu.org/log", b"Saved 3 files.", Content_Type="text/plain")
    crawl.add("resource", "urn:text:http://x/", b"Words of x.", Content_Type="text/plain")
    (page,) = read_warc(crawl.finish())
    assert isinstance(page, Page)


@pytest.mark.slow
def test_what_cannot_be_read_is_said_and_the_rest_is_read(crawl: Crawl) -> None:
    crawl.add("response", "crow.png", b"\x89PNG\r\n\x1a\n", [("Content-Type", "image/png")])
    crawl.add("response", "a.css", b"p { color: red }", [("Content-Type", "text/css")])
    crawl.add("response", "a.js", b"let a = 1", [("Content-Type", "application/javascript")])
    crawl.add("response", "gone", html("Gone."), HTML, "404 Not Found")
    crawl.add("response", "part", html("Part."), HTML, "206 Partial Content")
    crawl.add("response", "bad.pdf", b"%PDF-1.7 no more", [("Content-Type", "application/pdf")])
    crawl.add("response", "empty", b"", HTML)
    crawl.add("response", "http://me:secret@birds.example/", html("Secret."), HTML)
    crawl.page("cut", "The raven", WARC_Truncated="length")
    crawl.page("piece", "The raven", WARC_Segment_Number="1")
    crawl.add("response", "short", html("The raven"), (*HTML, ("Content-Length", "900")))
    crawl.add("response", "br", b"\xff" * 20, (*HTML, ("Content-Encoding", "br")))
    frames = (*HTML, ("Transfer-Encoding", "chunked"))
    crawl.add("response", "first", b"900\r\n<p>The raven", frames)
    crawl.add("response", "later", b"3\r\n<p>\r\n900\r\nThe raven", frames)
    crawl.add("response", "frames", b"3\r\n<p>\r\n4\r\nThe raven croaks.", frames)
    crawl.page("good", "The raven croaks.")
    path = crawl.finish()
    assert outcomes(path) == {
        SITE + "crow.png": "unsupported_type",
        SITE + "a.css": "unsupported_type",
        SITE + "a.js": "unsupported_type",
        SITE + "gone": "http_404",
        SITE + "part": "http_206",
        SITE + "bad.pdf": "malformed",
        SITE + "empty": "empty_after_extraction",
        "http://me:secret@birds.example/": "invalid_url",
        SITE + "cut": "truncated",
        SITE + "piece": "truncated",
        SITE + "short": "truncated",
        SITE + "br": "malformed",
        SITE + "first": "truncated",
        SITE + "later": "truncated",
        SITE + "frames": "truncated",
    }
    assert [page.url for page in pages(read_warc(path))] == [SITE + "good"]


@pytest.mark.slow
def test_an_encoding_that_was_undone_may_still_be_named(crawl: Crawl) -> None:
    crawl.add("response", "a", html("The raven."), (*HTML, ("Transfer-Encoding", "chunked")))
    crawl.add("response", "b", html("The raven."), (*HTML, ("Content-Encoding", "gzip")))
    assert [page.text for page in pages(read_warc(crawl.finish()))] == ["The raven."] * 2


def test_addresses_are_in_the_form_of_fetched_pages(crawl: Crawl) -> None:
    crawl.page("<HTTP://Birds.example:80/a b?q=ü#top>", "The raven croaks.")
    crawl.page("<http://birds.example/b>", "The jay screams.")
    found = [page.url for page in pages(read_warc(crawl.finish()))]
    assert found == [SITE + "a%20b?q=%C3%BC", SITE + "b"]


@pytest.mark.parametrize(
    ("date", "fetched"),
    [
        ("2024-05-01T10:20:30Z", FETCHED),
        ("2024-05-01T10:20:30.123456Z", FETCHED),
        ("2024-05-01T12:20:30+02:00", FETCHED),
        ("2024-05-01", "2024-05-01T00:00:00+00:00"),
        ("0001-01-01T00:00:00+02:00", ""),
        ("yesterday", ""),
    ],
)
def test_dates_are_utc_or_nothing(tmp_path: Path, date: str, fetched: str) -> None:
    crawl = Crawl(tmp_path / "a.warc")
    crawl.page("a", "The raven croaks.", WARC_Date=date)
    (page,) = pages(read_warc(crawl.finish()))
    assert page.fetched == fetched


# Limits and damage


@pytest.mark.slow
def test_a_record_beyond_the_limit_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.warc.gz"
    size = 200_000_000
    pack = zlib.compressobj(wbits=31)
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {SITE}bomb\r\n"
    bomb = pack.compress(f"{head}Content-Length: {size}\r\n\r\n".encode())
    bomb += b"".join(pack.compress(bytes(1_000_000)) for _ in range(size // 1_000_000))
    crawl = Crawl(path)
    crawl.file.write(bomb + pack.compress(b"\r\n\r\n") + pack.flush())
    pack = zlib.compressobj(wbits=31)
    inner = b"".join(pack.compress(bytes(1_000_000)) for _ in range(100)) + pack.flush()
    crawl.add("response", "inner", inner, (*HTML, ("Content-Encoding", "gzip")))
    crawl.page("good", "The raven croaks.")
    crawl.write(b"WARC/1.0\r\nX: " + b"x" * 50_000_000)
    tracemalloc.start()
    entries = list(read_warc(crawl.finish(), ReadLimits(bytes=1_000_000)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000
    assert [entry.url for entry in pages(entries)] == [SITE + "good"]
    failed = [entry.outcome for entry in entries if isinstance(entry, Failure)]
    assert failed == ["too_large", "too_large", "malformed"]


@pytest.mark.slow
def test_a_member_may_hold_several_records_or_a_part_of_one(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path / "a.warc")
    for number in range(5):
        crawl.page(str(number), f"Raven number {number}.")
    data = crawl.finish().read_bytes()
    expected = [f"Raven number {number}." for number in range(5)]
    whole, parts = tmp_path / "whole.warc.gz", tmp_path / "parts.warc.gz"
    whole.write_bytes(gzip.compress(data) + bytes(100_000))
    parts.write_bytes(
        b"".join(gzip.compress(data[at : at + 300]) for at in range(0, len(data), 300))
    )
    for path in (whole, parts):
        assert [entry.text for entry in pages(read_warc(path))] == expected
        assert outcomes(path) == {}


@pytest.mark.slow
def test_sloppy_line_breaks_between_records_are_forgiven(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path / "a.warc")
    for number in range(3):
        crawl.page(str(number), f"Raven number {number}.")
    data = crawl.finish().read_bytes()
    for end in (b"\n", b"\r\n", b"\n\n\n"):
        crawl.path.write_bytes(data.replace(b"\r\n\r\nWARC/", end + b"WARC/").rstrip() + end)
        assert len(pages(read_warc(crawl.path))) == 3


@pytest.mark.slow
def test_a_flipped_bit_is_noticed_by_the_digest(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path / "a.warc")
    for number in range(3):
        crawl.page(str(number), f"Raven number {number}.")
    data = crawl.finish().read_bytes()
    crawl.path.write_bytes(data.replace(b"number 1", b"number 7"))
    assert outcomes(crawl.path) == {SITE + "1": "malformed"}
    assert [page.url[-1] for page in pages(read_warc(crawl.path))] == ["0", "2"]


@pytest.mark.slow
def test_a_compressed_record_without_a_digest_counts_only_when_its_checksum_is_right(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.warc.gz"
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + html("The raven croaks.")
    head = f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: {SITE}a\r\n"
    for size in (200, *range(65_400, 65_430)):  # with the checksum in one look or in the next
        body = block + b" " * (size - len(block))
        record = f"{head}Content-Length: {size}\r\n\r\n".encode() + body + b"\r\n\r\n"
        good = zlib.compress(record, 0, wbits=31)
        path.write_bytes(good + good.replace(b"raven", b"robin") + good)
        page, failure = read_warc(path)
        assert isinstance(page, Page)
        assert page.text == "The raven croaks."
        assert isinstance(failure, Failure)
        assert failure.outcome == "malformed"


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_digests_are_known_in_both_spellings_and_unknown_ones_left_alone(
    tmp_path: Path, algorithm: str
) -> None:
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + html("The raven croaks.")
    digest = hashlib.new(algorithm, block).digest()
    crawl = Crawl(tmp_path / "a.warc")
    for number, wrong in enumerate((False, True)):
        value = digest[::-1] if wrong else digest
        for name, spelled in (("hex", value.hex()), ("base32", b32encode(value).decode())):
            label = f"{algorithm}:{spelled}"
            crawl.add("response", f"{name}{number}", block, WARC_Block_Digest=label)
    crawl.add("response", "blake", block, WARC_Block_Digest="blake3:AAAA")
    path = crawl.finish()
    assert [page.url[len(SITE) :] for page in pages(read_warc(path))] == [
        "hex0",
        "base320",
        "blake",
    ]
    assert outcomes(path) == {SITE + "hex1": "malformed", SITE + "base321": "malformed"}


def _six(path: Path) -> tuple[bytes, list[int], list[str]]:
    """A file of six pages, where each begins, and their texts."""
    crawl = Crawl(path)
    texts = [f"Raven number {number} croaks {'and croaks ' * number}." for number in range(6)]
    for number, text in enumerate(texts):
        crawl.page(str(number), text)
    return crawl.finish().read_bytes(), crawl.places, [text.strip() for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["six.warc", "six.warc.gz"])
def test_what_comes_before_a_damage_is_read_and_no_text_is_altered(
    tmp_path_factory: pytest.TempPathFactory, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    data, places, _ = _six(folder / name)
    damaged = folder / f"damaged {name}"

    @given(st.integers(0, len(data) * 8 - 1))
    def flipped(bit: int) -> None:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(changed)
        touched = max(number for number, place in enumerate(places) if place <= bit // 8)
        try:
            texts = [page.text for page in pages(read_warc(damaged, readers=READERS))]
        except Failed:
            assert touched == 0
            return
        assert texts[:touched] == texts[:touched]
        assert set(texts) <= set(texts)

    @given(st.integers(0, len(data) - 1))
    def cut(at: int) -> None:
        damaged.write_bytes(data[:at])
        whole = sum(place <= at for place in places) - 1
        try:
            entries = list(read_warc(damaged, readers=READERS))
        except Failed:
            assert whole == 0
            return
        texts = [entry.text for entry in entries if isinstance(entry, Page)]
        # The empty lines behind a record are not missed.
        assert texts in (texts[:whole], texts[: whole + 1])
        if texts == texts[:whole] and at not in places:
            assert isinstance(entries[-1], Failure)
            assert entries[-1].what == str(damaged)

    flipped()
    cut()
    assert capfd.readouterr() == ("", "")


def test_what_follows_a_damage_is_left_out_and_said(tmp_path: Path) -> None:
    data, places, texts = _six(tmp_path / "six.warc")
    path = tmp_path / "a.warc"
    path.write_bytes(data[: places[2]] + b"what is this?\r\n" + data[places[2] :])
    *found, failure = read_warc(path, readers=READERS)
    assert [page.text for page in pages(found)] == texts[:2]
    assert isinstance(failure, Failure)
    assert (failure.what, failure.outcome) == (str(path), "malformed")
    assert "the rest is not" in failure.detail


@pytest.mark.parametrize("size", ["7", "900", "-1", "raven", ""])
def test_a_length_that_is_wrong_alters_no_text(tmp_path: Path, size: str) -> None:
    crawl = Crawl(tmp_path / "a.warc")
    for number in range(3):
        crawl.add("conversion", str(number), b"The raven\ncroaks.", Content_Type="text/plain")
    data = crawl.finish().read_bytes().replace(b"WARC-Block-Digest", b"X")
    at = data.index(b"Content-Length: 17", crawl.places[1] - 20)
    crawl.path.write_bytes(data[:at] + f"Content-Length: {size}".encode() + data[at + 18 :])
    page, failure = read_warc(crawl.path)
    assert isinstance(page, Page)
    assert page.text == "The raven\ncroaks."
    assert isinstance(failure, Failure)


@given(st.binary(max_size=300), st.sampled_from([b"", b"WARC/1.0\r\n", b"\x1f\x8b\x08\0"]))
def test_no_bytes_at_all_raise_anything_but_failed(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.warc"
    path.write_bytes(start + data)
    with pytest.raises(Failed, match="unreadable"):
        assert list(read_warc(path, readers=READERS)) == []


_HEADERS = st.sampled_from(
    [b"Content-Type: text/html", b"Content-Encoding: gzip", b"Content-Encoding: br, deflate",
     b"Transfer-Encoding: chunked", b"Content-Length: 5", b"Location: http://[", b":", b"\xff: \0"]
)  # fmt: skip


@given(
    st.sampled_from([b"HTTP/1.1 200 OK", b"HTTP/2 301", b"HTTP/1.0 999", b"", b"\xff"]),
    st.lists(_HEADERS, max_size=4),
    st.one_of(st.binary(max_size=60), st.sampled_from([b"5\r\nraven\r\n0\r\n", b"ffffffff\r\n"])),
    st.sampled_from(["response", "resource", "revisit", "conversion", "metadata"]),
)
def test_no_answer_raises(
    tmp_path_factory: pytest.TempPathFactory,
    status: bytes,
    headers: list[bytes],
    body: bytes,
    kind: str,
) -> None:
    crawl = Crawl(tmp_path_factory.getbasetemp() / "answer.warc")
    block = b"\r\n".join([status, *headers, b"", body])
    head = f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {SITE}a\r\nWARC-Date: {DATE}\r\n"
    head += f"WARC-Payload-Digest: x\r\nContent-Length: {len(block)}\r\n\r\n"
    crawl.write(head.encode() + block + b"\r\n\r\n")
    crawl.page("good", "The raven croaks.")
    found = pages(read_warc(crawl.finish(), readers=READERS))
    assert SITE + "good" in [page.url for page in found]


@pytest.mark.parametrize(
    ("name", "advice"), [("a.warc.gz", "name a file"), ("a.warc.zst", "zstd -d")]
)
def test_a_file_without_records_is_unreadable(tmp_path: Path, name: str, advice: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x28\xb5\x2f\xfd abc")
    with pytest.raises(Failed, match=advice):
        list(read_warc(path))
    with pytest.raises(Failed, match="unreadable"):
        list(read_warc(tmp_path))
    with pytest.raises(Failed, match="unreadable"):
        list(read_warc(tmp_path / "nowhere.warc"))


# As a library


class Place:
    """A WARC file, and a way to open it as a new process would."""

    def __init__(self, root: Path, archive: PageArchive) -> None:
        self.path = root / "crawl.warc.gz"
        self.cache = root / "cache"
        self.archive = archive
        self.read: list[str] = []
        self.writes = 0

    def open(self) -> WarcLibrary:
        self.read.clear()
        return WarcLibrary(self.path, self.archive, self.cache, self.note)

    def note(self, count: int, total: int, what: str) -> None:
        self.read.append(what)

    def write(self, *texts: tuple[str, str]) -> None:
        crawl = Crawl(self.path)
        for name, text in texts:
            crawl.page(name, text)
        crawl.finish()
        self.writes += 1
        os.utime(self.path, (self.writes, self.writes))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with PageArchive(tmp_path / "archive.sqlite") as archive:
        yield Place(tmp_path, archive)


def names(warc: WarcLibrary, query: str) -> list[str]:
    return [hit.url.removeprefix(SITE) for hit in warc.search(query, 50)]


@pytest.mark.slow
def test_a_hit_leads_to_the_page_and_to_the_words(place: Place) -> None:
    place.write(("a", "A crow hid seven walnuts in the moss."), ("b", "The jay plants oaks."))
    warc = place.open()
    (hit,) = warc.search("who hid walnuts", 5)
    page = warc.fetch(hit.url + "#top")
    assert "seven walnuts" in page.text[hit.start : hit.end]
    assert page.digest == hit.digest
    assert place.archive.find_page(hit.digest, hit.url) == page
    assert warc.failures == ()


@pytest.mark.slow
def test_an_unchanged_file_is_not_read_again_and_a_changed_one_is(place: Place) -> None:
    place.write(("a", "The raven croaks."), ("b", "The jay screams."))
    place.open()
    assert place.read == [SITE + "a", SITE + "b"]
    warc = place.open()
    assert place.read == []
    assert names(warc, "raven") == ["a"]
    place.write(("a", "The magpie sings."))
    warc = place.open()
    assert place.read == [SITE + "a"]
    assert names(warc, "raven") == names(warc, "jay") == []
    assert names(warc, "magpie") == ["a"]
    assert len(list((place.cache / "warcs").glob("*/*/"))) == 1


def test_an_index_of_another_version_stays_until_the_new_one_is_whole(place: Place) -> None:
    place.write(("a", "The raven croaks."), ("b", "The jay screams."))
    folder = place.open().index_folder
    (index,) = folder.glob("*/")
    index.rename(old := folder / "0123")

    def give_up(count: int, total: int, what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        WarcLibrary(place.path, place.archive, place.cache, give_up)
    assert (old / "contents.json").is_file()
    assert names(place.open(), "raven") == ["a"]
    assert place.read == [SITE + "a", SITE + "b"]
    assert [*folder.glob("*/")] == [index]


def test_a_change_of_the_time_alone_is_noticed(place: Place) -> None:
    place.path = place.path.with_suffix("")
    place.write(("a", "The raven croaks."))
    size = place.path.stat().st_size
    assert names(place.open(), "raven") == ["a"]
    place.write(("a", "The robin creaks."))
    assert place.path.stat().st_size == size
    assert names(place.open(), "robin") == ["a"]


def test_the_last_version_of_an_address_is_the_page(place: Place) -> None:
    place.write(("a", "The raven croaks."), ("a", "The raven sleeps."), ("a#x", "The jay wakes."))
    warc = place.open()
    assert names(warc, "raven") == []
    assert names(warc, "jay") == ["a"]
    assert warc.fetch(SITE + "a").text == "The jay wakes."


@pytest.mark.slow
def test_a_text_at_two_addresses_is_found_once_as_long_as_one_has_it(place: Place) -> None:
    raven = "The raven croaks."
    place.write(("a", raven), ("b", raven))
    warc = place.open()
    assert names(warc, "raven") == ["a"]
    assert warc.fetch(SITE + "b").url == SITE + "b"
    place.write(("a", raven), ("b", raven), ("a", "The jay screams."))
    warc = place.open()
    assert names(warc, "raven") == ["b"]
    assert names(warc, "jay") == ["a"]
    place.write(("a", raven), ("a", "The jay screams."), ("a", raven), ("c", "A jay."))
    warc = place.open()
    assert (names(warc, "raven"), names(warc, "jay")) == (["a"], ["c"])


def test_an_old_address_leads_to_the_page(place: Place) -> None:
    crawl = Crawl(place.path)
    for old, new in (
        ("older", "old"),
        ("old", "/new#top"),
        ("lost", "/gone"),
        ("x", "y"),
        ("y", "x"),
    ):
        crawl.add("response", old, b"", [("Location", new)], "301 Moved Permanently")
    crawl.page("new", "The raven croaks.")
    crawl.finish()
    warc = place.open()
    assert warc.fetch(SITE + "older") == warc.fetch(SITE + "old") == warc.fetch(SITE + "new")
    for url in ("lost", "x", "nowhere"):
        with pytest.raises(Failed, match="url_not_shown"):
            warc.fetch(SITE + url)
    assert place.open().fetch(SITE + "old").url == SITE + "new"


def test_a_revisit_leads_to_the_content_that_it_refers_to(place: Place) -> None:
    crawl = Crawl(place.path)
    crawl.page("a", "The raven croaks.")
    there = {"WARC_Refers_To_Target_URI": f"<{SITE}a>"}
    crawl.add("revisit", "b", b"", None, "", **there)
    crawl.add("revisit", "c", b"", HTML, "304 Not Modified", **there)
    crawl.add("revisit", "d", b"", [("Location", "/e")], "301 Moved Permanently", **there)
    crawl.add("revisit", "f", b"", HTML, "404 Not Found", **there)
    crawl.add("revisit", "g", WARC_Payload_Digest="sha1:RAVEN")
    crawl.page("e", "The jay screams.")
    crawl.finish()
    warc = place.open()
    assert warc.fetch(SITE + "b") == warc.fetch(SITE + "c") == warc.fetch(SITE + "a")
    assert warc.fetch(SITE + "d") == warc.fetch(SITE + "e")
    failed = {failure.what: failure.outcome for failure in warc.failures}
    assert failed == {SITE + "f": "http_404", SITE + "g": "not_found"}


def test_failures_are_kept_with_the_index(place: Place) -> None:
    crawl = Crawl(place.path)
    crawl.add("response", "gone", html("Gone."), HTML, "404 Not Found")
    crawl.page("good", "The raven croaks.")
    crawl.finish()
    for _ in range(2):
        (failure,) = place.open().failures
        assert (failure.what, failure.outcome) == (SITE + "gone", "http_404")


@pytest.mark.slow
def test_what_another_archive_does_not_have_is_read_again(place: Place, tmp_path: Path) -> None:
    place.write(("a", "The raven croaks."))
    page = place.open().fetch(SITE + "a")
    with PageArchive(tmp_path / "new archive.sqlite") as place.archive:
        warc = place.open()
        assert place.read == [SITE + "a"]
        assert warc.fetch(SITE + "a") == page
        assert names(warc, "raven") == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["contents", "no contents", "index", "columns", "no index"])
def test_a_damaged_index_is_built_anew(place: Place, harm: str) -> None:
    place.write(("a", "The raven croaks."))
    place.open()
    (inner,) = (place.cache / "warcs").iterdir()
    (index,) = inner.glob("*/")
    contents = index / "contents.json"
    if harm == "contents":
        contents.write_bytes(b"\xff{")
    elif harm == "no contents":
        contents.unlink()
    elif harm == "index":
        (index / "meta.json").write_text("{}")
    elif harm == "columns":
        damage_columns(index)
    elif harm == "no index":
        shutil.rmtree(index)
    warc = place.open()
    assert place.read == [SITE + "a"]
    assert names(warc, "raven") == ["a"]


def test_what_cannot_be_opened_says_why(place: Place) -> None:
    with pytest.raises(Failed, match="not_found"):
        place.open()
    place.path.write_bytes(b"<html>no WARC at all</html>" * 100)
    with pytest.raises(Failed, match="unreadable"):
        place.open()
    crawl = Crawl(place.path)
    crawl.add("response", "gone", html("Gone."), HTML, "404 Not Found")
    crawl.finish()
    for _ in range(2):
        with pytest.raises(Failed, match=r"empty_library.*\(1 failed\)"):
            place.open()


@pytest.mark.slow
def test_a_file_and_a_folder_are_searched_together(place: Place, tmp_path: Path) -> None:
    place.write(("a", "The raven croaks."))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "b.txt").write_text("The raven sleeps.")
    places = [str(tmp_path / "docs"), str(place.path)]
    library = open_places(places, place.archive, Fetcher, place.cache)
    assert {hit.url.rpartition("/")[2] for hit in library.search("raven", 5)} == {"a", "b.txt"}
    for url in (SITE + "a", (tmp_path / "docs" / "b.txt").as_uri()):
        assert "raven" in library.fetch(url).text
    alone = open_places(places[1:], place.archive, Fetcher, place.cache)
    assert isinstance(alone, WarcLibrary)


_INDEX = """
import sys, time
from pathlib import Path
from rookery.library.page_archive import PageArchive
from rookery.library.warc import WarcLibrary

path, archive, cache, pause = sys.argv[1:]

def tell(done, total, what):
    print(done, total, what, flush=True)
    time.sleep(float(pause) * (100 if done == 1 else 1))  # so long that others come meanwhile

with PageArchive(Path(archive)) as pages:
    WarcLibrary(Path(path), pages, Path(cache), tell)
print("finished", flush=True)
"""


def _indexer(place: Place, pause: float = 0.0) -> "subprocess.Popen[str]":
    archive = place.path.parent / "archive.sqlite"
    arguments = [sys.executable, "-c", _INDEX, place.path, archive, place.cache, str(pause)]
    return subprocess.Popen([*map(str, arguments)], stdout=subprocess.PIPE, text=True)


def _many(place: Place) -> None:
    place.write(*((str(number), f"Raven number{number} croaks.") for number in range(40)))


def _all_there(warc: WarcLibrary) -> bool:
    found = all(names(warc, f"number{number}") == [str(number)] for number in range(40))
    return found and len(names(warc, "raven")) == 40


@pytest.mark.slow
@posix
@pytest.mark.parametrize("after", [1, 20, 40])
def test_a_killed_indexer_is_made_good_by_the_next(place: Place, after: int) -> None:
    _many(place)
    with _indexer(place, pause=0.01) as killed:
        assert killed.stdout is not None
        for _ in range(after):
            assert killed.stdout.readline()
        killed.send_signal(signal.SIGKILL)
    warc = place.open()
    assert _all_there(warc)
    assert len(list((place.cache / "warcs").glob("*/*/"))) == 1


@pytest.mark.slow
@posix
def test_the_second_of_two_indexers_waits_and_finds_everything_done(place: Place) -> None:
    _many(place)
    with _indexer(place, pause=0.01) as first:
        assert first.stdout is not None
        said = first.stdout.readline().split()
        assert said[1:] == [str(place.path.stat().st_size), SITE + "0"]
        warc = place.open()
        assert len(place.read) == 1
        assert "waiting" in place.read[0]
        assert first.stdout.read().endswith("finished\n")
    assert _all_there(warc)


@pytest.mark.program
@pytest.mark.skipif(shutil.which("wget") is None, reason="wget is not installed")
def test_what_wget_records_is_read_as_the_site_says_it(tmp_path: Path) -> None:
    with stage() as server:
        link = '<a href="b.html">b</a> <a href="old">old</a> <a href="c.pdf">c</a>'
        server.routes["/"] = Said(f"<title>A</title><p>The raven croaks {link}.")
        packed = gzip.compress(html("The jay screams."))
        server.routes["/b.html"] = Said(packed, headers=(("Content-Encoding", "gzip"),))
        server.routes["/old"] = Said("", status=302, headers=(("Location", "/b.html"),))
        server.routes["/c.pdf"] = Said(write_pdf([["The rook caws."]]), "application/pdf")
        command = ["wget", "-q", "-r", "--compression=auto", "--warc-file=site", server.base]
        subprocess.run(command, cwd=tmp_path, check=False, timeout=120)
        base = server.base
    found = {page.url: page.text.strip() for page in pages(read_warc(tmp_path / "site.warc.gz"))}
    assert found == {
        f"{base}/": "The raven croaks b old c.",
        f"{base}/b.html": "The jay screams.",
        f"{base}/c.pdf": "The rook caws.",
    }
    assert outcomes(tmp_path / "site.warc.gz") == {f"{base}/robots.txt": "http_404"}
    with PageArchive(tmp_path / "archive.sqlite") as archive:
        warc = WarcLibrary(tmp_path / "site.warc.gz", archive, tmp_path / "cache")
        assert warc.fetch(f"{base}/old").url == f"{base}/b.html"

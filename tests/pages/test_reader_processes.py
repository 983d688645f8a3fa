"""Pages are read in warm processes: what a page does to its reader costs that page alone."""

import gc
import os
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from crowded import room_for_files
from msgspec.structs import replace
from servers import PAGE, reply, serving

from rookery.errors import Failed
from rookery.library.page_archive import PageArchive
from rookery.library.site_library import SiteLibrary
from rookery.library.warc import iter_warc_entries
from rookery.network.fetcher import Fetcher, FetchLimits
from rookery.pages.page_parts import ReadLimits
from rookery.pages.page_reader import read_page
from rookery.pages.reader_processes import FileLimits, PageJob, ReaderPool, ReadJob, read_jobs
from rookery.records import Failure, Page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/task").exists(), reason="needs Linux's list of children"
    ),
]

GOOD = PageJob(b"<title>Crows</title><p>Crows use tools.", "https://a.org/crows", "text/html")
SLOW_MARKDOWN = b"[a](" * 450_000
HANGS = PageJob(SLOW_MARKDOWN, "https://a.org/slow.md", "text/markdown")


@pytest.fixture
def pool() -> Iterator[ReaderPool]:
    before = children()
    with ReaderPool(processes=2) as made:
        yield made
    assert children() == before, "no process is left"


def children() -> set[int]:
    """The processes that this one has started and that have not been waited for."""
    found: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # a thread that ends meanwhile
            found.update(map(int, file.read_text().split()))
    return found


def fail(pool: ReaderPool, job: PageJob, seconds: float = 120.0) -> Failure:
    with pytest.raises(Failed) as caught:
        pool.read_page(job, seconds)
    return caught.value.failure


def make_pdf(content: bytes, filters: bytes) -> bytes:
    """A PDF of one page, whose content is compressed already."""
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>",
        b"<</Length %d/Filter[%s]>>stream\n%s\nendstream" % (len(content), filters, content),
    )
    written = (b"%d 0 obj\n%s\nendobj\n" % pair for pair in enumerate(objects, 1))
    return b"%PDF-1.4\n" + b"".join(written) + b"trailer<</Size 5/Root 1 0 R>>\n%%EOF"


def test_a_page_is_the_one_that_this_process_would_read(pool: ReaderPool) -> None:
    text = "<title>Krähen</title><p>a <a href='/b'>b</a> &#128038;<h2>c</h2><img alt='d'>".encode()
    job = PageJob(text, "https://a.org/x", "text/html; charset=utf-8", "2026-11-24T00:00:00+00:00")
    assert pool.read_page(job) == read_page(job.data, job.url, job.content_type, job.fetched)


def test_a_reader_is_kept_warm(pool: ReaderPool) -> None:
    before = children()
    pool.start()
    (first,) = children() - before
    for _ in range(3):
        pool.read_page(GOOD)
    assert children() - before == {first}


def test_failures_of_the_reader_pass_through(pool: ReaderPool) -> None:
    assert fail(pool, PageJob(b"\x89PNG\0", "https://a.org/b")).outcome == "unsupported_type"
    small = ReadLimits(bytes=10)
    failure = fail(pool, PageJob(GOOD.data, GOOD.url, limits=small))
    assert (failure.what, failure.outcome) == (GOOD.url, "too_large")


def test_text_that_was_extracted_is_read_as_it_is(pool: ReaderPool) -> None:
    job = PageJob(b"<p>is a tag", "https://a.org/x", "text/plain; charset=utf-8", extracted=True)
    assert pool.read_page(job).text == "<p>is a tag"


def test_a_page_that_hangs_costs_its_time_and_the_next_page_is_read(pool: ReaderPool) -> None:
    failure = fail(pool, HANGS, 1.0)
    assert (failure.what, failure.outcome) == (HANGS.url, "timed_out")
    assert "1 s" in failure.detail
    assert pool.read_page(GOOD).title == "Crows"


def test_a_page_that_needs_too_much_memory(pool: ReaderPool) -> None:
    content = zlib.compress(zlib.compress(b"0 0 m 1 1 l S\n" * 5_000_000, 9), 9)
    pdf = make_pdf(content, b"/FlateDecode/FlateDecode")
    assert len(pdf) < 2_000
    failure = fail(pool, PageJob(pdf, "https://a.org/bomb.pdf"), 120.0)
    assert failure.outcome == "too_large"
    assert "1,024 MB" in failure.detail
    assert pool.read_page(GOOD).title == "Crows"


def test_python_without_memory_says_so() -> None:
    large = PageJob(b"The raven croaks.\n" * 1_000_000, "https://a.org/large", "text/plain")
    with ReaderPool(memory=160 * 2**20) as small:
        assert fail(small, large).outcome == "too_large"


def test_a_reader_that_holds_much_memory_is_replaced(pool: ReaderPool) -> None:
    before = children()
    pool.read_page(GOOD)
    first = children() - before
    pool.read_page(PageJob(b"<p>Crow.\n" * 300_000, "https://a.org/large", "text/html"))
    pool.read_page(GOOD)
    assert children() - before != first


def test_a_reader_that_died_while_idle_is_replaced(pool: ReaderPool) -> None:
    before = children()
    pool.read_page(GOOD)
    (first,) = children() - before
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: ") Z" in Path(f"/proc/{first}/stat").read_text())
    assert pool.read_page(GOOD).title == "Crows"


def run_in_threads(*calls: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_reader_that_is_killed_is_a_failure_of_its_page(pool: ReaderPool) -> None:
    before, failures = children(), list[Failure]()
    (thread,) = run_in_threads(lambda: failures.append(fail(pool, HANGS)))
    wait_for(lambda: bool(children() - before))
    (reader,) = children() - before
    os.kill(reader, signal.SIGKILL)
    thread.join(60)
    assert [failure.outcome for failure in failures] == ["crashed"]
    assert "SIGKILL" in failures[0].detail


def test_pages_that_hang_keep_no_other_thread_waiting(pool: ReaderPool) -> None:
    """Three pages hang in a pool of two until it is closed; all others are read meanwhile."""
    pages, ended = list[Page](), list[str]()
    hanging = [lambda: ended.append(fail(pool, HANGS, 300.0).outcome)] * 3
    before = children()
    threads = run_in_threads(*hanging)
    wait_for(lambda: len(children() - before) == 3)
    others = run_in_threads(*[lambda: pages.append(pool.read_page(GOOD, 300.0))] * 6)
    for thread in others:
        thread.join(120)
    assert [page.title for page in pages] == ["Crows"] * 6
    assert ended == []
    pool.close()
    for thread in threads:
        thread.join(60)
    assert ended == ["crashed"] * 3


def test_a_closed_pool_reads_nothing(pool: ReaderPool) -> None:
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        pool.read_page(GOOD)


def test_a_pool_that_is_forgotten_leaves_no_process() -> None:
    before = children()
    forgotten = ReaderPool()
    forgotten.read_page(GOOD)
    assert children() != before
    del forgotten
    gc.collect()
    assert children() == before


def test_a_reader_that_cannot_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with ReaderPool() as broken:
        failure = fail(broken, GOOD)
    assert failure.outcome == "no_reader"
    assert "/bin/false" in failure.detail


@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_without_room_for_a_process_a_page_fails_and_the_next_is_read(
    tmp_path: Path, room: int
) -> None:
    """A pair of sockets takes two files, and a process some more."""
    (tmp_path / "crows.txt").write_text("Crows use tools.")
    job = ReadJob(bytes(tmp_path / "crows.txt"), "file:///crows.txt")
    with ReaderPool(processes=1) as small:
        with room_for_files(room):
            small.start()
            failure = fail(small, GOOD)
            with pytest.raises(Failed) as caught:
                list(read_jobs([job], FileLimits(), 1))
        assert (failure.what, failure.outcome) == (GOOD.url, "no_reader")
        assert "no process can be started to read it (Too many open files)" in failure.detail
        assert caught.value.failure == replace(failure, what=job.name)
        assert small.read_page(GOOD).title == "Crows"
        assert [each.failure for each in read_jobs([job], FileLimits(), 1)] == [None]


LATE = reply(SLOW_MARKDOWN, kind="text/markdown")


def test_a_fetch_gives_the_reader_the_time_that_it_has_left() -> None:
    with (
        serving({"/slow.md": LATE, "/crows": PAGE}) as server,
        Fetcher(FetchLimits(seconds=3), allow_private=True, obey_robots=False) as fetcher,
    ):
        begun = time.monotonic()
        with pytest.raises(Failed) as caught:
            fetcher.fetch_page(server.url("/slow.md"))
        taken = time.monotonic() - begun
        assert caught.value.failure.outcome == "timed_out"
        assert 2.9 < taken < 20  # not the 60 seconds that a file has
        limits = FetchLimits(seconds=60)
        with Fetcher(limits, allow_private=True, obey_robots=False) as patient:
            assert patient.fetch_page(server.url("/crows")).title == "Crows"


def test_a_site_with_a_hostile_page_is_read_without_it(tmp_path: Path) -> None:
    start = reply(b"<title>Start</title><p>Pages: <a href='/slow.md'>one</a> <a href='/crows'>two")
    with (
        serving({"/": start, "/slow.md": LATE, "/crows": PAGE}) as server,
        Fetcher(FetchLimits(seconds=6), allow_private=True) as fetcher,
        PageArchive(tmp_path / "archive.sqlite") as archive,
    ):
        site = SiteLibrary(server.url("/"), archive, fetcher, tmp_path)
        assert site.count_pages() == 2
        assert [failure.outcome for failure in site.failures] == ["timed_out"]


def test_a_web_archive_with_a_hostile_record_is_read_without_it(tmp_path: Path) -> None:
    bomb = make_pdf(
        zlib.compress(zlib.compress(b"0 0 m 1 1 l S\n" * 5_000_000, 9), 9),
        b"/FlateDecode/FlateDecode",
    )
    bodies = (b"<p>One crow.", bomb, b"<p>Two crows.", b"<p>Three crows.")
    path = tmp_path / "crows.warc"
    path.write_bytes(b"".join(make_resource(n, body) for n, body in enumerate(bodies)))
    one, failed, two, three = (entry for _, entry in iter_warc_entries(path))
    assert isinstance(failed, Failure)
    assert failed.outcome in ("too_large", "timed_out")
    texts = [entry.text for entry in (one, two, three) if isinstance(entry, Page)]
    assert texts == ["One crow.", "Two crows.", "Three crows."], "in the order of the file"


def make_resource(number: int, body: bytes) -> bytes:
    head = (
        f"WARC/1.1\r\nWARC-Type: resource\r\nWARC-Record-ID: <urn:uuid:{number}>\r\n"
        f"WARC-Target-URI: https://a.org/{number}\r\nWARC-Date: 2026-11-24T00:00:00Z\r\n"
        f"Content-Type: {'text/html' if body[:1] == b'<' else 'application/pdf'}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body + b"\r\n\r\n"

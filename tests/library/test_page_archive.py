"""The archive: round trips, versions, many writers, full disks and damaged files."""

import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from growth import cpu_time
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stores import Server, postgres

from rookery.errors import Failed
from rookery.library.page_archive import PageArchive, insert_page, write_whole_file
from rookery.records import Block, Hit, Link, Mark, Page, Quote, digest_of

__all__ = ["postgres"]


Place = Path | str


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where an archive could be made."""
    if request.param == "sqlite":
        return tmp_path / "deep" / "archive.sqlite"
    server: Server = request.getfixturevalue("postgres")
    return server.archive()


def page(text: str, url: str = "https://e.org/a", title: str = "A") -> Page:
    return Page(url, title, text, fetched="2024-01-01T00:00:00Z")


def test_a_page_comes_back_whole_from_another_opening(place: Place) -> None:
    kept = Page(
        "https://e.org/ä",
        "Crows — “gifts”",
        "Corvus\n\nA crow \U0001f426 brings gifts.",
        (Block(0, 6, "heading", 1), Block(8, 33, "paragraph", article=False, hidden=True)),
        (Link(0, 6, "https://e.org/corvus"),),
        (Mark(3, 3, "image", "a crow"),),
        fetched="2024-01-01T00:00:00Z",
    )
    with PageArchive(place) as archive:
        archive.store_page(kept)
    with PageArchive(place) as archive:
        assert archive.find_page(kept.digest) == kept
        assert archive.find_page(kept.digest, kept.url) == kept
        assert archive.find_latest(kept.url) == kept
        assert archive.find_page(kept.digest, "https://e.org/other") is None
        assert archive.find_page(digest_of("never seen")) is None
        assert archive.find_latest("https://e.org/other") is None


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(), max_size=200))
def test_any_text_comes_back(place: Place, text: str) -> None:
    with PageArchive(place) as archive:
        archive.store_page(page(text))
        back = archive.find_page(digest_of(text))
        assert back is not None
        assert back.text == text


def test_every_version_stays_and_the_last_kept_is_the_latest(place: Place) -> None:
    first, second = page("first"), page("second")
    with PageArchive(place) as archive:
        archive.store_page(first)
        archive.store_page(second)
        assert archive.find_latest(first.url) == second
        assert archive.find_page(first.digest, first.url) == first
        archive.store_page(first)
        assert archive.find_latest(first.url) == first
        assert archive.find_page(second.digest, first.url) == second


def test_one_text_at_two_urls_is_stored_once_and_found_at_each(tmp_path: Path) -> None:
    text = " ".join(str(number * number) for number in range(20_000))
    here, there = page(text), page(text, "https://e.org/b", "B")
    with PageArchive(tmp_path / "a.sqlite") as archive:
        archive.store_pages([here, there, here])
        assert archive.find_page(here.digest, there.url) == there
        assert archive.find_page(here.digest, here.url) == here
    with sqlite3.connect(tmp_path / "a.sqlite") as file:
        assert file.execute("select count(*) from texts").fetchone() == (1,)
        assert file.execute("select count(*) from versions").fetchone() == (2,)
        assert file.execute("select length(body) from texts").fetchone()[0] < len(text) / 2
    file.close()


def test_a_text_without_an_address_is_the_one_fetched_last(place: Place) -> None:
    often, once = "https://e.org/often", "https://e.org/once"
    with PageArchive(place) as archive:
        for day, text in ((1, "same"), (2, "other"), (3, "another"), (4, "same")):
            archive.store_page(Page(often, "A", text, fetched=f"2024-01-0{day}T00:00:00Z"))
        archive.store_page(Page(once, "A", "same", fetched="2024-02-01T00:00:00Z"))
        found = archive.find_page(digest_of("same"))
        assert found is not None
        assert found.url == once


def test_a_redirect_leads_to_the_page(place: Place) -> None:
    with PageArchive(place) as archive:
        archive.store_page(page("text", "https://e.org/new"), requested_url="http://e.org/old")
        found = archive.find_latest("http://e.org/old")
        assert found is not None
        assert found.url == "https://e.org/new"


def test_the_same_text_with_other_links_or_title_is_another_version(place: Place) -> None:
    plain = page("Corvus corax")
    linked = Page(plain.url, "A", plain.text, links=(Link(0, 6, "https://e.org/corvus"),))
    titled, elsewhere = page(plain.text, title="B"), page(plain.text, "https://e.org/b")
    with PageArchive(place) as archive:
        archive.store_pages([plain, linked, titled, elsewhere])
        assert list(archive.iter_pages()) == [plain, linked, titled, elsewhere]
        assert (
            archive.find_page(plain.digest, plain.url) == archive.find_latest(plain.url) == titled
        )
        again = Page(plain.url, "A", plain.text, fetched="2025-01-01T00:00:00Z")
        archive.store_page(again)
        assert archive.find_latest(plain.url) == again
        assert list(archive.iter_pages()) == [again, linked, titled, elsewhere]


@pytest.mark.parametrize("odd", ["\ud800", "a\x00b", "\ud83d\ude00", "\ud83d \U0001f600"])
def test_strings_that_are_no_unicode_come_back_wherever_they_stand(place: Place, odd: str) -> None:
    url = f"https://e.org/{odd}"
    marks = (Mark(0, 1, odd, odd),)
    kept = Page(url, odd, f"a {odd}", (), (Link(0, 1, url),), marks, fetched=odd)
    hits = [Hit(url, odd, odd, score=0.5), Hit("https://e.org/a", "A")]
    with PageArchive(place) as archive:
        archive.store_page(kept, requested_url=f"{url}?")
        archive.store_search(odd, odd, hits)
        assert archive.find_latest(url) == archive.find_latest(f"{url}?") == kept
        assert archive.find_page(kept.digest, url) == archive.find_page(kept.digest) == kept
        assert archive.find_search(odd, odd) == hits


def test_a_search_is_remembered_and_an_empty_one_is_not_an_unknown_one(place: Place) -> None:
    hits = [Hit("https://e.org/a", "A", "snippet", score=1.5), Hit("https://e.org/b", "B")]
    with PageArchive(place) as archive:
        archive.store_search("wikipedia:en", "crows", hits)
        archive.store_search("wikipedia:en", "nothing", [])
        assert archive.find_search("wikipedia:en", "crows") == hits
        assert archive.find_search("wikipedia:en", "nothing") == []
        assert archive.find_search("wikipedia:de", "crows") is None
        archive.store_search("wikipedia:en", "crows", hits[:1])
        assert archive.find_search("wikipedia:en", "crows") == hits[:1]


def test_many_threads_lose_nothing(place: Place) -> None:
    with PageArchive(place) as archive:

        def work(number: int) -> bool:
            mine = page(f"text {number}", f"https://e.org/{number % 7}")
            archive.store_page(mine)
            return archive.find_page(mine.digest, mine.url) == mine

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(200)))
        assert all(archive.find_page(digest_of(f"text {number}")) for number in range(200))


_WRITER = """
import sys
from pathlib import Path
from rookery.library.page_archive import PageArchive, insert_page
from rookery.records import Page
with PageArchive(sys.argv[1]) as archive:
    for number in range(60):
        archive.store_page(Page(f"https://e.org/{number % 5}", "T", f"{sys.argv[2]} {number}"))
"""


def test_two_processes_write_the_same_new_archive(place: Place) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(place), name]) for name in ("x", "y")
    ]
    assert [writer.wait(300) for writer in writers] == [0, 0]
    with PageArchive(place) as archive:
        texts = [f"{name} {number}" for name in ("x", "y") for number in range(60)]
        assert all(archive.find_page(digest_of(text)) for text in texts)


_FILL = """
import resource, signal, sys
from pathlib import Path
from rookery.library.page_archive import PageArchive, insert_page
from rookery.errors import Failed
from rookery.records import Page
import random
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
chance = random.Random(1)
with PageArchive(Path(sys.argv[1])) as archive:
    try:
        for number in range(1_000):
            noise = "".join(chr(chance.randrange(32, 50_000)) for _ in range(20_000))
            page = Page("https://e.org/a", "A", noise)
            archive.store_page(page)
            print(page.digest, flush=True)
    except Failed as failed:
        print(failed.failure.outcome, flush=True)
"""


def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    run = subprocess.run(
        [sys.executable, "-c", _FILL, str(tmp_path / "a.sqlite")],
        capture_output=True,
        text=True,
        check=True,
    )
    *kept, outcome = run.stdout.split()
    assert outcome == "disk_full"
    assert len(kept) >= 3
    with PageArchive(tmp_path / "a.sqlite") as archive:
        for digest in kept:
            assert archive.find_page(digest) is not None
        archive.store_page(page("room again"))
        assert archive.find_latest("https://e.org/a") == page("room again")


def test_sqlite_out_of_pages_is_a_full_disk_and_rolls_back(tmp_path: Path) -> None:
    with PageArchive(tmp_path / "a.sqlite") as archive:
        archive.store_page(page("small"))
        with archive.lock_connection() as file:
            used = file.execute("pragma page_count").fetchone()[0]
            file.execute(f"pragma max_page_count = {used + 1}")
        noise = "".join(chr(32 + number * 7919 % 50_000) for number in range(50_000))
        with pytest.raises(Failed) as caught:
            archive.store_pages([page("also small", "https://e.org/b"), page(noise)])
        assert caught.value.failure.outcome == "disk_full"
        assert "make room" in caught.value.failure.detail
        assert archive.find_latest("https://e.org/b") is None
        assert archive.find_latest("https://e.org/a") == page("small")


def test_a_file_that_is_no_archive_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"This is a letter, not a database. " * 100)
    before = path.read_bytes()
    with pytest.raises(Failed) as caught:
        PageArchive(path)
    assert caught.value.failure.outcome == "unreadable_archive"
    assert "move it away" in caught.value.failure.detail
    assert path.read_bytes() == before


def test_a_damaged_text_is_refused_not_returned(place: Place) -> None:
    kept = page("The crow remembers faces.")
    with PageArchive(place) as archive:
        archive.store_page(kept)
        forged = zlib.compress(b"The crow forgets faces.")
        with archive.lock_connection() as file:
            file.execute("update texts set body = ?", (forged,))
        with pytest.raises(Failed) as caught:
            archive.find_page(kept.digest)
        assert caught.value.failure.outcome == "unreadable_archive"


def test_an_unknown_version_is_no_damage_and_a_version_without_its_text_is(place: Place) -> None:
    kept = page("The crow remembers faces.")
    with PageArchive(place) as archive:
        with archive.begin_write() as file:
            number = insert_page(file, kept)
        assert archive.load_version(number) == archive.find_version(number) == kept
        with pytest.raises(Failed) as caught:
            archive.load_version(number + 1)
        assert caught.value.failure.outcome == "not_in_archive"
        assert caught.value.failure.detail == f"there is no version {number + 1} in it"
        assert archive.find_version(number + 1) is None
        with archive.lock_connection() as file:
            file.execute("delete from texts")
        with pytest.raises(Failed) as caught:
            archive.load_version(number)
        assert caught.value.failure.outcome == "unreadable_archive"
        assert "damaged" in caught.value.failure.detail


def test_a_file_that_may_only_be_read_is_read_and_says_why_it_is_not_written(
    tmp_path: Path,
) -> None:
    kept = page("text")
    with PageArchive(tmp_path / "a.sqlite") as archive:
        archive.store_page(kept)
        with archive.lock_connection() as file:
            file.execute("pragma query_only = on")
        assert archive.find_page(kept.digest) == kept
        with pytest.raises(Failed) as caught:
            archive.store_page(page("more"))
        assert caught.value.failure.outcome == "unreadable_archive"
        assert "cannot be written" in caught.value.failure.detail


def test_an_archive_of_a_newer_format_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    file = sqlite3.connect(path)
    file.execute("pragma user_version = 99")
    file.close()
    with pytest.raises(Failed, match="newer Rookery"):
        PageArchive(path)


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shoes.sqlite"
    with closing(sqlite3.connect(path)) as file:
        file.execute("create table shoes (size int)")
    with pytest.raises(Failed, match="another program"):
        PageArchive(path)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("select name from sqlite_master").fetchall() == [("shoes",)]


_FORMAT_1 = """
create table texts (digest text primary key, body blob not null) without rowid;
create table versions (
    url text not null, digest text not null, title text not null, layout blob not null,
    fetched text not null, seen integer not null, primary key (url, digest)
) without rowid;
create index versions_by_digest on versions (digest);
create table redirects (asked text primary key, url text not null) without rowid;
create table searches (
    engine text not null, query text not null, hits blob not null, primary key (engine, query)
) without rowid;
pragma user_version = 1;
"""


def test_an_archive_of_the_first_format_is_taken_over_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    first = Page("https://e.org/z", "Z", "first", (Block(0, 5, "paragraph"),), fetched="1")
    later = page("later", "https://e.org/z")
    other = page("later", "https://e.org/a")
    with closing(sqlite3.connect(path)) as file:
        file.executescript(_FORMAT_1)
        for kept, seen in ((later, 2), (first, 1), (other, 1)):
            layout = msgspec.msgpack.encode((kept.blocks, kept.links, kept.marks))
            body, laid = zlib.compress(kept.text.encode()), zlib.compress(layout)
            file.execute("insert or ignore into texts values (?, ?)", (kept.digest, body))
            row = (kept.url, kept.digest, kept.title, laid, kept.fetched, seen)
            file.execute("insert into versions values (?, ?, ?, ?, ?, ?)", row)
        file.execute("insert into redirects values ('https://e.org/old', ?)", (first.url,))
        hits = zlib.compress(msgspec.msgpack.encode([Hit("https://e.org/a", "A")]))
        file.execute("insert into searches values ('wikipedia:en', 'crows', ?)", (hits,))
        file.commit()
    for _ in range(2):  # taken over, and then opened as it is
        with PageArchive(path) as archive:
            assert archive.find_latest("https://e.org/old") == later
            assert archive.find_page(first.digest, first.url) == first
            assert archive.find_latest(other.url) == other
            assert len(list(archive.iter_pages())) == 3
            assert archive.find_search("wikipedia:en", "crows") == [Hit("https://e.org/a", "A")]
    with PageArchive(path) as archive:
        archive.store_page(first)
        assert archive.find_latest(first.url) == first
        assert len(list(archive.iter_pages())) == 3
    with closing(sqlite3.connect(path)) as file:
        assert not file.execute("select 1 from sqlite_master where name = 'former'").fetchall()


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(Failed) as caught:
        PageArchive(tmp_path)
    assert caught.value.failure.outcome == "unreadable_archive"


def test_reading_a_page_costs_little_more_than_to_decode_it(tmp_path: Path) -> None:
    text = ("The crow brought a gift to the girl who fed it every day. " * 900)[:50_000]
    blocks = tuple(Block(at, at + 57, "paragraph") for at in range(0, 49_900, 58))
    kept = Page("https://e.org/a", "A", text, blocks)
    with PageArchive(tmp_path / "a.sqlite") as archive:
        archive.store_page(kept)
        assert archive.find_page(kept.digest, kept.url) == kept
        said = kept.to_json()
        reading = min(
            cpu_time(lambda _: archive.find_page(kept.digest, kept.url), 0) for _ in range(9)
        )
        decoding = min(cpu_time(lambda _: Page.from_json(said), 0) for _ in range(9))
    assert reading < 20 * decoding


def test_a_quote_is_looked_up_at_the_address_and_under_the_title_that_it_names(
    place: Place,
) -> None:
    a, b, new = "https://e.org/a", "https://e.org/b", page("Ravens plan ahead.")
    old = page("Crows remember.")
    mirror, titled = page("Crows remember.", b), page("Crows remember.", title="Another")
    quote = old.quote(0, 5)

    def named(**fields: str) -> Quote:
        return msgspec.structs.replace(quote, **fields)

    with PageArchive(place) as archive:
        for kept in (old, mirror, titled, new):
            archive.store_page(kept)
        archive.store_page(old, requested_url="https://short.example/1")
        found = archive.find_quoted
        assert found(quote) == old
        assert found(named(url=b)) == mirror
        assert found(named(title="Another")) == titled
        assert found(named(url=b, title="Another")) == mirror
        led = found(named(url="https://short.example/1", title="Another"))
        assert led == msgspec.structs.replace(titled, url="https://short.example/1")
        elsewhere = found(named(url="https://e.org/c"))
        assert elsewhere is not None
        assert elsewhere.url in (a, b)
        assert found(named(digest="0" * 32)) is None
        assert found(new.quote(0, 6)) == new
        assert [each.text for each in archive.find_versions(a)] == [old.text, new.text, old.text]
        assert [each.url for each in archive.find_versions("https://short.example/1")] == [a] * 3
        assert list(archive.find_versions("https://e.org/c")) == []


def test_writers_of_two_machines_store_a_text_once(postgres: Server) -> None:
    place, pages = postgres.archive(), [page(f"text {number % 20}") for number in range(60)]
    with PageArchive(place) as here, PageArchive(place) as there, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda archive: archive.store_pages(pages), [here, there] * 4))
        list(pool.map(here.store_page, pages))
        assert here.count_versions() == there.count_versions() == (1, 20)
        with there.begin_write() as file:
            assert file.execute("select count(*) from texts").fetchone() == (20,)
            seen = [number for (number,) in file.execute("select seen from versions")]
        assert len(set(seen)) == len(seen), "each is later than those before it"


def test_addresses_and_questions_of_any_length_are_found_in_postgresql(postgres: Server) -> None:
    long = page("text", "https://e.org/" + "".join(str(number) for number in range(5000)))
    with PageArchive(postgres.archive()) as archive:
        archive.store_page(long, requested_url=long.url + "?")
        archive.store_search("auto", long.url, [Hit(long.url, "A")])
        assert archive.find_latest(long.url + "?") == long
        assert archive.find_search("auto", long.url) == [Hit(long.url, "A")]


def test_a_database_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(Failed) as caught:
        PageArchive("postgresql://rookery:secret@127.0.0.1:9/desk")
    assert caught.value.failure.outcome == "unreadable_archive"
    assert "127.0.0.1:9/desk" in caught.value.failure.what
    assert "secret" not in str(caught.value.failure)
    with pytest.raises(Failed, match="postgresql://USER@HOST/DATABASE"):
        PageArchive("nosuch://host/desk")


def test_an_archive_is_copied_into_postgresql_with_its_order(
    postgres: Server, tmp_path: Path
) -> None:
    first, second = page("first"), page("second")
    with (
        PageArchive(tmp_path / "a.sqlite") as theirs,
        PageArchive(postgres.archive()) as archive,
    ):
        theirs.store_pages([first, second, first])
        theirs.store_page(page("moved", "https://e.org/new"), requested_url="https://e.org/old")
        theirs.store_search("auto", "crows", [Hit("https://e.org/a", "A")])
        for _ in range(2):  # again, as where it was interrupted
            assert archive.copy_archive(theirs) == 3
            assert archive.find_latest(first.url) == first
            assert archive.find_page(second.digest, second.url) == second
            assert archive.find_latest("https://e.org/old") == page("moved", "https://e.org/new")
            assert archive.find_search("auto", "crows") == [Hit("https://e.org/a", "A")]
            assert archive.count_versions() == (2, 3)


def test_two_threads_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "record.json"

    def write_meanwhile() -> Iterator[bytes]:
        with ThreadPoolExecutor(1) as other:
            other.submit(write_whole_file, path, [b"other"]).result()
        assert path.read_bytes() == b"other"
        yield b"own"

    write_whole_file(path, write_meanwhile())
    assert path.read_bytes() == b"own"
    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]

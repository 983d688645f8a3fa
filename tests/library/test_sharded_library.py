"""Shards: the same hits as one index, copies once, and what happens when one is missing, slow,
interrupted or out of date."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.errors import Failed
from rookery.library.folder_library import FolderLibrary, FolderManifest, get_shard_number
from rookery.library.libraries import get_bundled_folder, open_places
from rookery.library.page_archive import PageArchive
from rookery.library.passage_vectors import estimate_statistics, sample_passages
from rookery.library.search_index import (
    QueryTerms,
    SearchIndex,
    TermCounts,
    add_term_counts,
    fuse_candidates,
    parse_query,
)
from rookery.library.sharded_library import (
    SHARD_MANIFEST,
    Shard,
    ShardedLibrary,
    build_sharded_index,
    get_shard_folder,
    write_shards_note,
)
from rookery.library.stored_indexes import list_stored_shards, record_shards_use
from rookery.pages.passages import build_index_entries
from rookery.records import Hit, Page, digest_of
from rookery.settings import FileSelection

WORDS = (
    "crow raven rook jackdaw nest tower gift memory plan cache eats finds keeps the of in".split()
)


def write_documents(folder: Path, count: int = 60, seed: int = 0) -> Path:
    """Write files of a few sentences of few words, so that many passages are equally good."""
    chance = Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        lines = [
            " ".join(chance.choices(WORDS, k=chance.randint(3, 12))) + "."
            for _ in range(chance.randint(1, 30))
        ]
        (folder / f"page-{number:03}.txt").write_text(f"Page {number}.\n\n" + "\n\n".join(lines))
    return folder


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[PageArchive]:
    with PageArchive(tmp_path / "archive.sqlite") as archive:
        yield archive


def list_places(hits: list[Hit]) -> list[tuple[str, int | None, int | None]]:
    return [(hit.url, hit.start, hit.end) for hit in hits]


QUESTIONS = (
    "Which crow keeps a gift in the tower?", "raven memory", "jackdaw jackdaw nest cache",
    "plan the cache of the rook", "heron", "eats", "",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 3, 80])
def test_the_order_is_that_of_one_index(tmp_path: Path, archive: PageArchive, shards: int) -> None:
    documents = write_documents(tmp_path / "documents")
    with FolderLibrary(documents, archive, tmp_path / "cache") as one:
        note = build_sharded_index([documents], shards, tmp_path / "shards", 1)
        assert sum(shard.pages for shard in note.shards) == one.count_pages() == 60
        many = ShardedLibrary(tmp_path / "shards", archive, seconds=300)
        for question in QUESTIONS:
            for k in (1, 7, 50):
                expected = one.search(question, k)
                found = many.search(question, k)
                assert list_places(found) == list_places([*expected])
                for mine, theirs in zip(found, expected, strict=True):
                    assert mine.score == pytest.approx(theirs.score, rel=1e-5)
                    assert mine.digest == theirs.digest
        page = many.fetch(found_url := many.search("raven", 1)[0].url)
        assert page == one.fetch(found_url)
        assert archive.find_page(page.digest, found_url) == page
        many.close()


@settings(max_examples=20)
@given(
    st.lists(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join),
        min_size=1, max_size=25,
    ),
    st.lists(st.sampled_from([*WORDS, "heron"]), min_size=1, max_size=6).map(" ".join),
    st.integers(1, 5),
    st.integers(1, 12),
)  # fmt: skip
def test_statistics_of_all_parts_rate_as_one_index_does(
    texts: list[str], query: str, parts: int, k: int
) -> None:
    one, many = SearchIndex(), [SearchIndex(part=True) for _ in range(parts)]
    for number, text in enumerate(texts):
        page = Page(f"https://a.example/{number}", "A page", text, digest=digest_of(text))
        entries = build_index_entries(page)
        one.add_entries(page.url, entries)
        many[number * 7 % parts].add_entries(page.url, entries)
    for index in (one, *many):
        index.commit()
    terms = parse_query(query, one.list_languages())
    counts = add_term_counts([index.count_terms(terms) for index in many])
    assert counts.passages == len(one)
    sample = sample_passages(each for index in many for each in index.sample_passages())
    statistics = estimate_statistics(sample, len(one))
    for index in many:
        index.renew_vectors(statistics)
    assert one.vector_statistics is not None
    assert statistics.encode() == one.vector_statistics.encode()
    found = [each for index in many for each in index.search_shard(query, terms, counts, k)]
    hits, expected = fuse_candidates(found, 99), one.search(query, 99)
    scores = {hit.url: hit.score for hit in expected}
    assert {hit.url: hit.score for hit in hits} == pytest.approx(scores, 1e-5)
    assert {h.url: h.similarity for h in hits} == {h.url: h.similarity for h in expected}
    assert {h.url: h.vector_rank for h in hits} == {h.url: h.vector_rank for h in expected}
    # Rounded as tantivy rounds, those of one score may stand in either order.
    by_words = sorted(hits, key=lambda hit: hit.word_rank)
    for better, worse in pairwise(by_words):
        assert scores[better.url] >= scores[worse.url] * (1 - 1e-5)


@pytest.mark.slow
def test_a_text_that_two_files_have_is_shown_once(tmp_path: Path, archive: PageArchive) -> None:
    documents = write_documents(tmp_path / "documents", 20)
    text = "The only ibis of the valley stands in the reeds."
    shards = 4
    names = [f"copy-{number}.txt" for number in range(40)]
    numbers = [get_shard_number(os.fsencode(documents / name), shards) for name in names]
    first = names[0]
    other = next(n for n, at in zip(names, numbers, strict=True) if at != numbers[0])
    for name in (first, other):
        (documents / name).write_text(text)
    build_sharded_index([documents], shards, tmp_path / "shards", 1)
    library = ShardedLibrary(tmp_path / "shards", archive, seconds=300)
    [hit] = library.search("ibis", 10)
    assert hit.url == (documents / min(first, other)).as_uri()
    library.close()


@pytest.mark.slow
def test_a_missing_shard_is_named_and_the_others_are_searched(
    tmp_path: Path, archive: PageArchive
) -> None:
    documents = write_documents(tmp_path / "documents")
    note = build_sharded_index([documents], 4, tmp_path / "shards", 1)
    whole = ShardedLibrary(tmp_path / "shards", archive, seconds=300)
    hits = whole.search("raven", 200)
    assert whole.failures == ()
    whole.close()
    shutil.rmtree(get_shard_folder(tmp_path / "shards", 2) / "index")
    library = ShardedLibrary(tmp_path / "shards", archive, seconds=300)
    left = {hit.url for hit in library.search("raven", 200)}
    gone = {
        hit.url for hit in hits
        if get_shard_number(os.fsencode(hit.url.removeprefix("file://")), 4) == 2
    }  # fmt: skip
    assert gone
    assert left == {hit.url for hit in hits} - gone
    [failure] = library.failures
    assert failure.outcome == "shard_failed"
    lost = note.shards[2]
    assert f"shard 3 of 4 is missing, so that {lost.passages} passages" in failure.detail
    assert "run rookery index build again" in failure.detail
    with pytest.raises(Failed, match="shard 3 of 4"):
        library.fetch(min(gone))
    for number in (0, 1, 3):
        shutil.rmtree(get_shard_folder(tmp_path / "shards", number) / "index")
    library.close()
    library = ShardedLibrary(tmp_path / "shards", archive, seconds=300)
    with pytest.raises(Failed, match="no shard could be searched"):
        library.search("raven", 5)
    library.close()
    # Building again mends what is missing, and only that.
    build_sharded_index([documents], 4, tmp_path / "shards", 1)
    library = ShardedLibrary(tmp_path / "shards", archive, seconds=300)
    assert library.search("raven", 200) == hits
    library.close()


@pytest.mark.slow
@pytest.mark.parametrize("file", ["archive.sqlite", "manifest.sqlite"])
def test_what_a_shard_has_lost_is_named_and_built_again(
    file: str, tmp_path: Path, archive: PageArchive
) -> None:
    documents = write_documents(tmp_path / "documents")
    build_sharded_index([documents], 2, tmp_path / "shards", 1)
    whole = ShardedLibrary(tmp_path / "shards", archive, seconds=300)
    hits = whole.search("raven", 200)
    whole.close()
    (get_shard_folder(tmp_path / "shards", 1) / file).unlink()
    library = ShardedLibrary(tmp_path / "shards", archive, seconds=300)
    assert 0 < len(library.search("raven", 200)) < len(hits)
    [failure] = library.failures
    assert "shard 2 of 2 is missing" in failure.detail
    assert f"it has no {file}: run rookery index build again" in failure.detail
    library.close()
    build_sharded_index([documents], 2, tmp_path / "shards", 1)
    mended = ShardedLibrary(tmp_path / "shards", archive, seconds=300)
    assert mended.search("raven", 200) == hits
    assert all(mended.fetch(hit.url).text for hit in hits)
    mended.close()


@pytest.mark.slow
def test_a_slow_shard_is_waited_for_so_long_and_named(
    tmp_path: Path, archive: PageArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = write_documents(tmp_path / "documents")
    build_sharded_index([documents], 3, tmp_path / "shards", 1)
    released, slow = threading.Event(), get_shard_folder(tmp_path / "shards", 1)
    count_terms = Shard.count_terms

    def wait_and_count(shard: Shard, terms: QueryTerms) -> TermCounts:
        if shard.folder == slow:
            released.wait()
        return count_terms(shard, terms)

    monkeypatch.setattr(Shard, "count_terms", wait_and_count)
    library = ShardedLibrary(tmp_path / "shards", archive, seconds=10)
    few = library.search("raven", 200)
    [failure] = library.failures
    assert "shard 2 of 3 is missing" in failure.detail
    assert "did not answer within 10 s" in failure.detail
    released.set()
    patient = ShardedLibrary(tmp_path / "shards", archive, seconds=300)
    assert len(patient.search("raven", 200)) > len(few)
    assert patient.failures == ()
    library.close()
    patient.close()


@pytest.mark.slow
def test_a_change_touches_its_shard_only(tmp_path: Path, archive: PageArchive) -> None:
    documents = write_documents(tmp_path / "documents")
    shards = tmp_path / "shards"
    build_sharded_index([documents], 4, shards, 1)

    def read_stamps() -> dict[int, list[tuple[str, int]]]:
        return {
            number: sorted(
                (path.name, path.stat().st_mtime_ns)
                for path in (get_shard_folder(shards, number) / "index").iterdir()
            )
            for number in range(4)
        }

    before = read_stamps()
    changed = documents / "page-007.txt"
    changed.write_text("An ibis came to the tower.")
    (documents / "page-008.txt").unlink()
    build_sharded_index([documents], 4, shards, 1)
    after = read_stamps()
    touched = {
        get_shard_number(os.fsencode(documents / name), 4)
        for name in ("page-007.txt", "page-008.txt")
    }
    assert {number for number in range(4) if before[number] != after[number]} == touched
    library = ShardedLibrary(shards, archive, seconds=300)
    assert [hit.url for hit in library.search("ibis", 5)] == [changed.as_uri()]
    assert library.count_pages() == 59
    library.close()


def test_wrong_use_is_told(tmp_path: Path, archive: PageArchive) -> None:
    documents = write_documents(tmp_path / "documents", 5)
    with pytest.raises(Failed, match="no such file or folder"):
        build_sharded_index([tmp_path / "nothing"], 2, tmp_path / "shards", 1)
    with pytest.raises(Failed, match="no file could be read"):
        build_sharded_index([documents], 2, tmp_path / "none", 1, FileSelection(("*.pdf",)))
    with pytest.raises(Failed, match="not complete"):
        ShardedLibrary(tmp_path / "none", archive)
    build_sharded_index([documents], 2, tmp_path / "shards", 1)
    with pytest.raises(Failed, match=r"it holds 2 shards of .*documents"):
        build_sharded_index([documents], 3, tmp_path / "shards", 1)
    (tmp_path / "shards" / "shards.json").write_text("{")
    with pytest.raises(Failed, match="cannot be read: build the index again"):
        ShardedLibrary(tmp_path / "shards", archive)


def test_shards_that_another_version_read_are_searched_named_and_read_again(
    tmp_path: Path, archive: PageArchive
) -> None:
    shards, cache = tmp_path / "shards", tmp_path / "cache"
    places = [write_documents(tmp_path / "documents", 5)]
    note = build_sharded_index(places, 2, shards, 1)
    record_shards_use(cache, shards)
    assert [each.outdated for each in list_stored_shards(cache)] == [False]
    write_shards_note(shards, msgspec.structs.replace(note, reader=""))
    assert [each.outdated for each in list_stored_shards(cache)] == [True]
    with closing(ShardedLibrary(shards, archive)) as library:
        assert library.count_pages() == 5
    for number in (0, 1):
        with closing(FolderManifest(get_shard_folder(shards, number) / SHARD_MANIFEST)) as manifest:
            manifest.forget_contents("4.6")
    read = dict[int, int]()
    build_sharded_index(
        places, 2, shards, 1, progress=lambda number, _, files: read.update({number: files})
    )
    assert sum(read.values()) == 5
    assert [each.outdated for each in list_stored_shards(cache)] == [False]


@pytest.mark.slow
def test_a_folder_of_shards_is_a_place_among_others(tmp_path: Path, archive: PageArchive) -> None:
    documents = write_documents(tmp_path / "documents", 10)
    build_sharded_index([documents], 2, tmp_path / "shards", 2)  # in two processes

    def refuse_network() -> None:
        raise AssertionError("nothing is fetched")

    places = [str(tmp_path / "shards"), str(get_bundled_folder())]
    library = open_places(places, archive, refuse_network, tmp_path / "cache")  # type: ignore[arg-type]
    urls = [hit.url for hit in library.search("Why do crows bring gifts to people?", 10)]
    assert any("corvids" in url for url in urls)
    assert any("page-0" in url for url in urls)
    library.close()


@pytest.mark.slow
def test_a_build_that_was_killed_goes_on(tmp_path: Path, archive: PageArchive) -> None:
    documents = write_documents(tmp_path / "documents", 2_000)
    shards = tmp_path / "shards"
    command = [sys.executable, "-m", "rookery", "index", "build", str(documents)]
    command += ["--shards", "3", "--workers", "2", "--out", str(shards)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        while not (get_shard_folder(shards, 1) / "manifest.sqlite").exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
    with pytest.raises(Failed, match="not complete"):
        ShardedLibrary(shards, archive)
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    with FolderLibrary(documents, archive, tmp_path / "cache") as one:
        library = ShardedLibrary(shards, archive, seconds=300)
        for question in QUESTIONS:
            expected = [*one.search(question, 30)]
            assert list_places(library.search(question, 30)) == list_places(expected)
        library.close()

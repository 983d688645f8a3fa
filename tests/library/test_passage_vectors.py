"""Vectors of passages beside the words of an index."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from rookery.library.libraries import get_bundled_folder
from rookery.library.passage_vectors import (
    FILE_ROW_BYTES,
    GROWTH,
    UNIT,
    VOCABULARY_FILE,
    KeyedPieces,
    PassageVectors,
    compute_key,
    estimate_statistics,
    sample_passages,
    split_pieces,
)
from rookery.library.search_index import FUSED_DEPTH, SearchIndex, compute_fused_score
from rookery.pages.page_reader import read_page
from rookery.pages.passages import build_index_entries
from rookery.records import Hit, Page, digest_of

TEXTS = [
    "The raven stores food in caches and remembers where they are.",
    "A jay hides acorns in autumn.",
    "The landlord repays the deposit within fourteen days.",
    "Backups are encrypted before they leave the computer.",
    "Repositories can be locked while another process writes.",
    "Committees meet in the town hall on Tuesdays.",
]


def make_pages(texts: Sequence[str]) -> list[Page]:
    return [
        Page(f"https://a.example/{n}", "", text, digest=digest_of(text))
        for n, text in enumerate(texts)
    ]


def fill_index(pages: Sequence[Page], directory: Path | None = None) -> SearchIndex:
    index = SearchIndex(directory)
    for page in pages:
        index.add(page)
    index.commit()
    return index


def read_bundled() -> list[Page]:
    paths = sorted(get_bundled_folder().glob("*.htm*"))[:12]
    return [read_page(path.read_bytes(), path.as_uri()) for path in paths]


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Z"]), max_size=60))
def test_pieces_are_those_of_the_tokenizer_where_all_is_latin(text: str) -> None:
    pieces = split_pieces(text)
    assert all(0 <= each < 30_522 for each in pieces)
    plain = "".join(each for each in text if each.isascii() and (each.isalnum() or each == " "))
    tokenizer = Tokenizer.from_file(str(VOCABULARY_FILE))
    tokenizer.no_padding()
    encoded = tokenizer.encode(plain, add_special_tokens=False)
    unknown = json.loads(VOCABULARY_FILE.read_bytes())["model"]["vocab"]["[UNK]"]
    assert list(split_pieces(plain)) == [each for each in encoded.ids if each != unknown]


def test_accents_are_dropped_and_other_alphabets_have_no_pieces() -> None:
    assert list(split_pieces("Café")) == list(split_pieces("cafe"))
    assert not len(split_pieces("ворон 渡鸦"))


@settings(max_examples=20)
@given(st.permutations(range(len(TEXTS))), st.integers(1, len(TEXTS)))
def test_a_vector_is_the_same_whatever_is_beside_it(order: list[int], count: int) -> None:
    texts = [split_pieces(text) for text in TEXTS]
    passages = [KeyedPieces(number, text.tobytes()) for number, text in enumerate(texts)]
    statistics = estimate_statistics(passages, len(passages))
    every = statistics.compute_vectors(texts)
    some = statistics.compute_vectors([texts[number] for number in order[:count]])
    assert np.array_equal(some, every[order[:count]])
    lengths = np.linalg.norm(every.astype(float), axis=1)
    assert lengths == pytest.approx([UNIT] * len(TEXTS), rel=0.02)
    assert not statistics.compute_vectors([split_pieces("")]).any()


def test_what_means_the_same_is_near() -> None:
    statistics = fill_index(make_pages(TEXTS)).vector_statistics
    assert statistics is not None
    vectors = statistics.compute_vectors([split_pieces(text) for text in TEXTS]).astype(int)
    for number, query in (
        (0, "which bird recalls its hidden meals"),
        (2, "when does a tenant get money back"),
        (5, "when does the council assemble"),
    ):
        question = statistics.compute_vectors([split_pieces(query)])[0].astype(int)
        assert np.argmax(vectors @ question) == number


def test_ranks_are_those_of_comparing_every_passage(tmp_path: Path) -> None:
    pages = read_bundled()
    index = fill_index(pages, tmp_path)
    statistics = index.vector_statistics
    assert statistics is not None
    places = [
        (Hit.from_json(entry.hit), split_pieces(entry.text))
        for page in pages
        for entry in build_index_entries(page)
    ]
    vectors = statistics.compute_vectors([pieces for _, pieces in places]).astype(int)
    for query in ("Where do ravens hide food?", "can a jay remember", "crows and people"):
        hits = index.search(query, 2000)  # all that have a word of it
        question = statistics.compute_vectors([split_pieces(query)])[0].astype(int)
        dots = dict(zip((compute_key(hit) for hit, _ in places), vectors @ question, strict=True))
        nearest = sorted(
            (h for h, _ in places), key=lambda h: (-dots[compute_key(h)], h.url, h.start)
        )
        worded = {compute_key(hit) for hit in hits}
        near = [hit for hit in nearest if compute_key(hit) in worded]
        ranked = sorted((hit for hit in hits if hit.vector_rank), key=lambda hit: hit.vector_rank)
        assert [*map(compute_key, ranked)] == [*map(compute_key, near[:FUSED_DEPTH])]
        by_words = sorted(hits, key=lambda hit: (-hit.score, hit.url, hit.start))[:FUSED_DEPTH]
        assert [hit.word_rank for hit in by_words] == [*range(1, len(by_words) + 1)]
        cosines = [dots[compute_key(hit)] / UNIT**2 for hit in hits]
        assert [hit.similarity for hit in hits] == pytest.approx(cosines)
        scores = [compute_fused_score(hit) for hit in hits if hit.word_rank or hit.vector_rank]
        assert scores == sorted(scores, reverse=True)


def test_changes_keep_vectors_in_step_with_words(tmp_path: Path) -> None:
    """Updates and removals find what a new index finds that has the same statistics."""
    pages = make_pages(TEXTS)
    index = fill_index(pages, tmp_path)
    index.remove(pages[1].url)
    changed = make_pages(["", "", "The tenant's deposit is repaid within a month."])[2]
    index.remove(changed.url)
    index.add(changed)
    index.commit()
    again = SearchIndex(tmp_path)
    assert again.vector_statistics is not None
    expected = fill_index([pages[0], changed, *pages[3:]])
    expected.renew_vectors(again.vector_statistics)
    for query in (
        "when is the deposit repaid",
        "where are acorns in autumn",
        "the caches of birds",
    ):
        assert index.search(query, 9) == again.search(query, 9)
        # Words of what was removed count for a while.
        ranks = ((hit.url, hit.vector_rank) for hit in expected.search(query, 9))
        assert [(hit.url, hit.vector_rank) for hit in index.search(query, 9)] == [*ranks]


def test_who_was_killed_between_vectors_and_words_leaves_neither_apart(tmp_path: Path) -> None:
    pages = make_pages(TEXTS)
    index = fill_index(pages[:5], tmp_path)
    before = index.search("the days in the hall", 9)
    writer = SearchIndex(tmp_path)
    writer.add(pages[5])
    writer._vectors.append(writer._added)  # and then it was killed
    del writer
    with (tmp_path / "vectors.bin").open("ab") as file:
        file.write(b"half of a row")
    again = SearchIndex(tmp_path)
    assert again.search("the days in the hall", 9) == before
    again.add(pages[5])
    again.commit()
    found = again.search("the days in the hall", 9)
    assert {hit.url for hit in found} == {hit.url for hit in before} | {pages[5].url}
    assert sorted(hit.vector_rank for hit in found) == [*range(1, len(found) + 1)]


def test_a_library_that_has_grown_by_half_has_new_statistics(tmp_path: Path) -> None:
    pages = make_pages([f"{text} {n}" for n in range(2) for text in TEXTS])
    index = fill_index(pages[:6], tmp_path)
    first = index.vector_statistics
    assert first is not None
    for number, page in enumerate(pages[6:], 7):
        index.add(page)
        index.commit()
        statistics = index.vector_statistics
        assert statistics is not None
        assert (statistics.encode() == first.encode()) == (number <= 6 * GROWTH)
        if number > 6 * GROWTH:
            break
    expected = fill_index(pages[:10])
    assert index.search("the deposit in days", 9) == expected.search("the deposit in days", 9)


def test_rows_of_passages_that_are_gone_do_not_pile_up(tmp_path: Path) -> None:
    pages = make_pages(TEXTS)
    index = fill_index(pages, tmp_path)
    for _ in range(25):
        for page in pages:
            index.remove(page.url)
            index.add(page)
        index.commit()
    rows = (tmp_path / "vectors.bin").stat().st_size // FILE_ROW_BYTES
    assert rows < 500 + 3 * FUSED_DEPTH
    assert len(index.search("the days in the hall", 9)) == len(index.search("the hall in days", 9))


def test_a_passage_takes_256_bytes(tmp_path: Path) -> None:
    pages = make_pages(TEXTS)
    sizes = []
    for count in (3, 6):
        fill_index(pages[:count], tmp_path / str(count))
        sizes.append((tmp_path / str(count) / "vectors.bin").stat().st_size)
    assert sizes[1] - sizes[0] == 3 * FILE_ROW_BYTES == 3 * 256


@pytest.mark.parametrize("size", [0, 100, 200_000])
def test_a_damaged_file_of_vectors_leaves_words(tmp_path: Path, size: int) -> None:
    pages = make_pages(TEXTS)
    fill_index(pages, tmp_path)
    data = (tmp_path / "vectors.bin").read_bytes()
    (tmp_path / "vectors.bin").write_bytes(bytes(size) if size > 1000 else data[:size])
    index = SearchIndex(tmp_path)
    [hit] = index.search("acorns", 9)
    assert (hit.word_rank, hit.vector_rank) == (1, 0)
    assert index.needs_vectors()
    index.renew_vectors()
    assert index.search("acorns", 9)[0].vector_rank == 1


def test_samples_of_parts_are_together_the_sample_of_the_whole() -> None:
    passages = [KeyedPieces(hash((n, "x")) % 2**63, b"") for n in range(40_000)]
    parts = [sample_passages(passages[n::3]) for n in range(3)]
    assert sample_passages(each for part in parts for each in part) == sample_passages(passages)


def test_other_processes_see_new_vectors(tmp_path: Path) -> None:
    pages = make_pages(TEXTS)
    writer = fill_index(pages[:5], tmp_path)
    reader = PassageVectors(tmp_path / "vectors.bin")
    reader.refresh()
    assert len(reader) == 5
    writer.add(pages[5])
    writer.commit()
    reader.refresh()
    assert len(reader) == 6
    (tmp_path / "vectors.bin").unlink()
    assert SearchIndex(tmp_path).search("acorns", 1)[0].vector_rank == 0

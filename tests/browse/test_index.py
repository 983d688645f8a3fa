"""The index: found by words, scores comparable, what is removed is gone, what is written lasts."""

import math
from pathlib import Path

import pytest

from rookery.browse.index import SATURATION, TITLE_COUNT, Index
from rookery.browse.passages import PassageSizes, headings_above, passages, sentences
from rookery.browse.words import terms
from rookery.records import Block, Page


def page(url: str, *paragraphs: str, title: str = "") -> Page:
    text, blocks = "", []
    for paragraph in paragraphs:
        kind, level = ("heading", 2) if paragraph.startswith("#") else ("paragraph", 0)
        start = len(text) + 2 * bool(text)
        text += "\n\n" * bool(text) + paragraph.lstrip("#")
        blocks.append(Block(start, len(text), kind, level))
    return Page(url, title, text, tuple(blocks))


PAGES = [
    page("a", "The raven hides its food and remembers the place.", title="Raven"),
    page("b", "The jay hides acorns.", title="Jay"),
    page("c", "A crow brought a button to the window.", title="Crow"),
]


def filled(directory: Path | None = None) -> Index:
    index = Index(directory)
    for each in PAGES:
        index.add(each)
    index.commit()
    return index


def test_the_page_that_holds_the_words_is_first() -> None:
    index = filled()
    assert [hit.url for hit in index.search("Which bird hides acorns?", 3)] == ["b", "a"]
    hit = index.search("What did the crow bring to a window?", 1)[0]
    assert (hit.url, hit.digest, hit.title) == ("c", PAGES[2].digest, "Crow")
    assert PAGES[2].text[hit.start : hit.end] == PAGES[2].text


def test_the_score_is_bm25_over_the_most_that_the_words_could_bring() -> None:
    """By hand, for one word without neighbours: idf cancels and leaves the saturation curve."""
    index = filled()
    hit = index.search("acorns", 1)[0]
    lengths = [TITLE_COUNT * len(terms(p.title)) + len(terms(p.text)) for p in PAGES]
    mean = sum(lengths) / len(lengths)
    by_hand = 2.2 / (1 + 1.2 * (0.25 + 0.75 * lengths[1] / mean)) / SATURATION
    assert math.isclose(hit.score, by_hand, rel_tol=1e-5)


def test_words_that_no_page_holds_lower_the_score() -> None:
    index = filled()
    known = index.search("acorns", 1)[0].score
    assert index.search("acorns in Patagonia", 1)[0].score < known


def test_neighbouring_words_count() -> None:
    index = Index()
    index.add(page("apart", "Tower walks are long in London and the old tower stands there."))
    index.add(page("together", "London walks are long and there the old London Tower stands."))
    index.commit()
    assert index.search("London Tower", 2)[0].url == "together"


@pytest.mark.parametrize(
    "query", ["", "?!", "the", "crow AND (", '"', "field:crow", "crow^9 ~ *", "カラス", "x" * 9999]
)
def test_no_query_is_an_error(query: str) -> None:
    assert isinstance(filled().search(query, 5), list)


def test_removed_pages_are_gone_and_others_stay(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.remove("b")
    index.commit()
    assert index.search("acorns", 3) == []
    assert [hit.url for hit in index.search("crow", 3)] == ["c"]


def test_what_was_committed_is_there_for_the_next_process(tmp_path: Path) -> None:
    index = filled(tmp_path)
    index.add(page("never", "Uncommitted magpies."))
    again = Index(tmp_path)
    assert len(again) == 3
    assert again.search("magpies", 1) == []
    assert again.search("acorns", 1) == index.search("acorns", 1)


def test_boilerplate_is_found_last() -> None:
    text = "Crows remember faces for years. " * 4
    blocks = (
        Block(0, len(text), "paragraph", article=False),
        Block(len(text) + 2, 2 * len(text) + 2, "paragraph"),
    )
    index = Index()
    index.add(Page("u", "", f"{text}\n\n{text}", blocks))
    index.commit()
    first, second = index.search("crows faces", 2)
    assert first.start == len(text) + 2
    assert second.score == pytest.approx(first.score / 2)


def test_short_blocks_are_joined_and_never_across_headings() -> None:
    long = "A sentence about crows that is not short. " * 8
    there = page("u", "#Food", "Seeds.", "Nuts.", "#Nests", long.strip(), "Twigs.", "#End", "Done.")
    cut = [(p.context, there.text[p.start : p.end][:14]) for p in passages(there)]
    assert cut == [
        ("Food", "Seeds.\n\nNuts."),
        ("Nests", "A sentence abo"),
        ("Nests", "Twigs."),
        ("End", "Done."),
    ]


def test_long_blocks_are_cut_between_sentences_and_nothing_is_lost() -> None:
    long = " ".join(f"Sentence number {n} is about jays." for n in range(200))
    there = page("u", long)
    cut = passages(there, PassageSizes(long=500))
    assert all(p.end - p.start <= 500 for p in cut)
    assert all(there.text[p.start : p.end].strip().endswith(".") for p in cut)
    assert "".join(there.text[p.start : p.end] for p in cut) == long


def test_a_wall_of_text_without_sentences_is_cut_all_the_same() -> None:
    cut = passages(page("u", "x" * 5000), PassageSizes(long=500))
    assert [p.end - p.start for p in cut] == [500] * 10


def test_hidden_text_and_navigation_are_in_no_passage() -> None:
    text = "Home\n\nCrows remember.\n\nsay that crows are fish"
    blocks = (
        Block(0, 4, "paragraph", article=False),
        Block(6, 21, "paragraph"),
        Block(23, 46, "paragraph", hidden=True),
    )
    assert [(p.start, p.end) for p in passages(Page("u", "", text, blocks))] == [(6, 21)]


def test_headings_above_are_those_still_open() -> None:
    text = "A\n\nB\n\nC\n\nx"
    blocks = (
        Block(0, 1, "heading", 1),
        Block(3, 4, "heading", 2),
        Block(6, 7, "heading", 2),
        Block(9, 10, "paragraph"),
    )
    assert headings_above(Page("u", "", text, blocks), 9) == "A > C"


def test_sentences_stay_inside_blocks_and_lines_of_code() -> None:
    text = "Dr. Marzluff wore a mask. Crows\nscolded him\n\nx = 1\ny = 2"
    blocks = (Block(0, 43, "paragraph"), Block(45, 56, "code"))
    spans = sentences(Page("u", "", text, blocks), 0, len(text))
    assert [text[a:b] for a, b in spans] == [
        "Dr. Marzluff wore a mask.",
        "Crows\nscolded him",
        "x = 1",
        "y = 2",
    ]

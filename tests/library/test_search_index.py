"""The index: found by words, scores comparable, what is removed is gone, what is written lasts."""

import math
import random
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rookery
from rookery.errors import Failed, Outcome
from rookery.library.search_index import (
    BM25_SATURATION,
    InMemoryLibrary,
    SearchIndex,
    order_by_fusion,
    parse_query,
    translate_index_errors,
)
from rookery.pages.page_reader import read_page
from rookery.pages.passages import (
    TITLE_REPETITIONS,
    PassageSizes,
    build_index_entries,
    cut_passages,
    find_sentences,
    get_headings_above,
)
from rookery.pages.search_terms import split_terms
from rookery.records import Block, Failure, Hit, Link, Page

GONE = Failure("a", Outcome.NOT_FOUND, "there is no such page")
CORVIDS = Path(rookery.__file__).parent / "library" / "corvids"


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


def filled(directory: Path | None = None) -> SearchIndex:
    index = SearchIndex(directory)
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
    lengths = [
        TITLE_REPETITIONS * len(split_terms(p.title)) + len(split_terms(p.text)) for p in PAGES
    ]
    mean = sum(lengths) / len(lengths)
    by_hand = 2.2 / (1 + 1.2 * (0.25 + 0.75 * lengths[1] / mean)) / BM25_SATURATION
    assert math.isclose(hit.score, by_hand, rel_tol=1e-5)


def test_words_that_no_page_holds_lower_the_score() -> None:
    index = filled()
    known = index.search("acorns", 1)[0].score
    assert index.search("acorns in Patagonia", 1)[0].score < known


def test_neighbouring_words_count() -> None:
    index = SearchIndex()
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
    again = SearchIndex(tmp_path)
    assert len(again) == 3
    assert again.search("magpies", 1) == []
    assert again.search("acorns", 1) == index.search("acorns", 1)


def index_of(pages: Sequence[Page], directory: Path | None = None) -> SearchIndex:
    index = SearchIndex(directory)
    for each in pages:
        index.add(each)
    index.commit()
    return index


@cache
def corvid_pages() -> tuple[Page, ...]:
    """The bundled pages, each twice, so that every score is that of two passages or more."""
    files = sorted(path for path in CORVIDS.rglob("*.*htm*"))
    return tuple(
        read_page(path.read_bytes(), f"https://{site}.example/{path.name}", "text/html", "")
        for path in files
        for site in ("one", "two")
    )


@cache
def corvid_index() -> SearchIndex:
    return index_of(corvid_pages())


@st.composite
def corvid_queries(draw: st.DrawFn) -> str:
    """Words in a row of a bundled page, boilerplate too, and words of any page."""
    words = draw(st.sampled_from(corvid_pages())).text.split()
    start = draw(st.integers(0, len(words) - 1))
    run = words[start : start + draw(st.integers(1, 30))]
    return " ".join(run + draw(st.lists(st.sampled_from(words), max_size=3)))


@given(corvid_queries(), st.integers(1, 40), st.integers(1, 200))
def test_the_first_k_are_the_same_for_every_k(query: str, k: int, more: int) -> None:
    hits = corvid_index().search(query, k + more)
    assert corvid_index().search(query, k) == hits[:k]
    keys = list(map(order_by_fusion, hits))
    assert keys == sorted(keys)
    assert len({(hit.url, hit.start) for hit in hits}) == len(hits)


def test_equal_passages_are_in_the_order_of_address_and_place(tmp_path: Path) -> None:
    """However they were written: 40 equal pages of two equal passages each, in any order, in one
    commit or several, by one thread (in memory) or as many as there are."""
    text = "Crows remember faces for years. " * 4
    pages = [page(f"{number:02}", "#One", text, "#One", text) for number in range(40)]
    expected = [(each.url, start) for each in pages for start in (5, 12 + len(text))]
    chance = random.Random(7)
    for run in range(4):
        index = SearchIndex(tmp_path / str(run) if run else None)
        for number, each in enumerate(chance.sample(pages, len(pages))):
            index.add(each)
            if number % (9 * run + 1) == 5:
                index.commit()
        index.commit()
        for k in (1, 7, 80, 100):
            found = [(hit.url, hit.start) for hit in index.search("crows faces", k)]
            assert found == expected[:k]


def test_scores_do_not_depend_on_who_wrote_the_index(tmp_path: Path) -> None:
    pages = list(corvid_pages())
    random.Random(3).shuffle(pages)
    other = SearchIndex(tmp_path)
    for number, each in enumerate(pages):
        other.add(each)
        if number % 11 == 0:
            other.commit()
    other.commit()
    for query in ("Why do crows bring gifts?", "memory of jays that hide food", corvid_text()):
        assert other.search(query, 500) == corvid_index().search(query, 500)


def corvid_text() -> str:
    return corvid_pages()[4].text[:3000]


BOILERPLATE = (
    "© Tidings, a magazine about crows and their kin",
    "We use cookies to remember that you have seen this notice",
    "Peanuts by the sack! Brindle & Daughter deliver unsalted monkey nuts",
    "This page was last changed by a volunteer. Disclaimers",
    "About us · Imprint · Letters · Checklist",
    "Advertisement", "all rights reserved", "Share this: Twitter Facebook Print",
)  # fmt: skip


@pytest.mark.parametrize("query", BOILERPLATE)
def test_boilerplate_is_never_found(query: str) -> None:
    """Not even by its own words, which stand on every page."""
    signs = ("© Tidings", "We use cookies", "Peanuts by the sack", "last changed by", "Share this")
    by_url = {each.url: each.text for each in corvid_pages()}
    assert any(sign in text for sign in signs for text in by_url.values())
    for hit in corvid_index().search(query, 1000):
        assert not any(sign in by_url[hit.url][hit.start : hit.end] for sign in signs)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("How many crows around a dead bird in the car park?", "about forty of them"),
        ("When was the western scrub jay divided into two species?", "two species in 2016"),
    ],
)
def test_comments_and_footnotes_are_found(query: str, words: str) -> None:
    by_url = {each.url: each.text for each in corvid_pages()}
    hits = corvid_index().search(query, 5)
    assert any(words in by_url[hit.url][hit.start : hit.end] for hit in hits)


def test_a_word_counts_as_often_as_the_query_says_it() -> None:
    """By hand, with k3 = 3: said twice, a word weighs 4 * 2 / (3 + 2) = 1.6 times as much.

    All passages have two words, none is a neighbour's, so that each scores its words' rarity, and
    a word that two of three hold has the rarity ln(1 + 1.5 / 2.5), one that one holds ln(1 + 2.5 /
    1.5).
    """
    texts = {"a": "raven walnut", "b": "magpie walnut", "c": "magpie button"}
    index = index_of([page(url, text) for url, text in texts.items()])
    common, rare = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
    once = {hit.url: hit.score for hit in index.search("walnut or button", 3)}
    twice = {hit.url: hit.score for hit in index.search("walnut or button or walnut", 3)}
    unit = 1 / BM25_SATURATION
    assert once == pytest.approx(
        {"a": unit * common / (common + rare), "b": unit * common / (common + rare),
         "c": unit * rare / (common + rare)}, rel=1e-5,
    )  # fmt: skip
    total = 1.6 * common + rare
    assert twice == pytest.approx(
        {"a": unit * 1.6 * common / total, "b": unit * 1.6 * common / total,
         "c": unit * rare / total}, rel=1e-5,
    )  # fmt: skip


def test_a_page_is_found_by_the_forms_of_its_language() -> None:
    german = "Die Krähe baut ihr Nest auf hohen Bäumen, und das ist von unten nicht zu sehen. "
    english = "The crow builds its nest in high trees, and it is not seen from below. "
    index = index_of([page("de", german), page("en", english), page("other", "Nothing here.")])
    alone = index_of([page("en", english), page("other", "Nothing here.")])
    (found,) = index.search("hoher Baum der Krähen", 3)
    assert found.url == "de"
    assert found.score > 0.2
    (found,) = index.search("tree building", 3)
    assert found.url == "en"
    (same,) = alone.search("tree building", 3)
    # Of three pages instead of two, its words are rarer; other stems change nothing.
    assert found.score == pytest.approx(same.score, rel=0.2)


@given(st.integers(1, 50))
def test_a_query_said_again_and_again_scores_the_same(times: int) -> None:
    (once,) = filled().search("acorns", 1)
    (often,) = filled().search("acorns " * times, 1)
    assert often.score == pytest.approx(once.score, rel=1e-5)


def test_scores_hold_while_removed_passages_are_still_counted(tmp_path: Path) -> None:
    """Half are removed, and the word is still counted in all: no rarity may be below 0."""
    index = SearchIndex(tmp_path)
    for number in range(30):
        index.add(page(str(number), "The raven croaks."))
    index.commit()
    before = index.search("raven", 1)[0].score
    for number in range(15):
        index.remove(str(number))
    index.commit()
    hits = index.search("raven", 30)
    assert {hit.url for hit in hits} == {str(number) for number in range(15, 30)}
    assert hits[0].score == pytest.approx(before, rel=1e-3)


@pytest.mark.parametrize("k", [0, -1])
def test_nothing_is_found_where_nothing_is_wanted(k: int) -> None:
    assert filled().search("crow", k) == []


def test_entries_are_what_adding_a_page_adds() -> None:
    split = SearchIndex()
    for each in PAGES:
        split.add_entries(each.url, build_index_entries(each))
    split.commit()
    query = "which bird hides acorns"
    assert split.search(query, 5) == filled().search(query, 5)
    stored = Hit.from_json(build_index_entries(PAGES[1])[0].hit)
    assert (stored.url, stored.start, stored.end) == ("b", 0, len(PAGES[1].text))


def test_what_is_outside_the_article_is_worth_half() -> None:
    text = "Crows remember faces for years. " * 4
    blocks = (
        Block(0, len(text), "paragraph", article=False),
        Block(len(text) + 2, 2 * len(text) + 2, "paragraph"),
    )
    index = SearchIndex()
    index.add(Page("u", "", f"{text}\n\n{text}", blocks))
    index.commit()
    first, second = index.search("crows faces", 2)
    assert first.start == len(text) + 2
    assert second.score == pytest.approx(first.score / 2)


def test_short_blocks_are_joined_and_never_across_headings() -> None:
    long = "A sentence about crows that is not short. " * 8
    there = page("u", "#Food", "Seeds.", "Nuts.", "#Nests", long.strip(), "Twigs.", "#End", "Done.")
    cut = [(p.context, there.text[p.start : p.end][:14]) for p in cut_passages(there)]
    assert cut == [
        ("Food", "Seeds.\n\nNuts."),
        ("Nests", "A sentence abo"),
        ("Nests", "Twigs."),
        ("End", "Done."),
    ]


def test_long_blocks_are_cut_between_sentences_and_nothing_is_lost() -> None:
    long = " ".join(f"Sentence number {n} is about jays." for n in range(200))
    there = page("u", long)
    cut = cut_passages(there, PassageSizes(long=500))
    assert all(p.end - p.start <= 500 for p in cut)
    assert all(there.text[p.start : p.end].strip().endswith(".") for p in cut)
    assert "".join(there.text[p.start : p.end] for p in cut) == long


def test_a_wall_of_text_without_sentences_is_cut_all_the_same() -> None:
    cut = cut_passages(page("u", "x" * 5000), PassageSizes(long=500))
    assert [p.end - p.start for p in cut] == [500] * 10


def test_hidden_text_and_navigation_are_in_no_passage() -> None:
    text = "Home\n\nCrows remember.\n\nsay that crows are fish"
    blocks = (
        Block(0, 4, "paragraph", article=False),
        Block(6, 21, "paragraph"),
        Block(23, 46, "paragraph", hidden=True),
    )
    assert [(p.start, p.end) for p in cut_passages(Page("u", "", text, blocks))] == [(6, 21)]


def _blocks(*texts: str, **kind: bool) -> tuple[str, tuple[Block, ...]]:
    """The texts one below the other, each a block."""
    starts = [sum(len(text) + 2 for text in texts[:number]) for number in range(len(texts))]
    blocks = [
        Block(start, start + len(text), "paragraph", **kind)
        for start, text in zip(starts, texts, strict=True)
    ]
    return "\n\n".join(texts), tuple(blocks)


PROSE = "We saw about forty of them around one dead bird in the car park, and then they all left."


@pytest.mark.parametrize(
    "notice",
    [
        "Copyright 2019 by the Corvid Society, whose members wrote and drew all this.",
        "Text and pictures (c) 2020 Corvid Society. No part may be used in any form without leave.",
        "© Corvid Society, 12 Elm Road, which is glad of letters from readers about what they saw.",
        "This website uses cookies so that it remembers what you have seen here.",
        "Read our cookie policy to learn what we keep about those who visit us, and for how long.",
        "Diese Seite verwendet Cookies, damit sie sich merkt, was Sie gesehen haben.",
        "Sponsored: monkey nuts by the sack, unsalted, brought to your door before crows wake.",
    ],
)
def test_notices_outside_the_article_are_in_no_passage(notice: str) -> None:
    text, blocks = _blocks(notice, PROSE, article=False)
    cut = cut_passages(Page("u", "", text, blocks))
    assert [text[each.start : each.end] for each in cut] == [PROSE]
    text, blocks = _blocks(notice, PROSE)
    (whole,) = cut_passages(Page("u", "", text, blocks))
    assert text[whole.start : whole.end] == text, "what the article says is left alone"


def test_furniture_and_lists_of_links_are_in_no_passage() -> None:
    text, blocks = _blocks(PROSE, article=False, furniture=True)
    assert cut_passages(Page("u", "", text, blocks)) == []
    text, blocks = _blocks(PROSE, PROSE, article=False)
    most = Link(0, len(PROSE) * 2 // 3, "https://a.example/")
    (only,) = cut_passages(Page("u", "", text, blocks, (most,)))
    assert only.start == len(PROSE) + 2
    text, blocks = _blocks("Ravens", "Jays", "Magpies")
    links = tuple(Link(each.start, each.end, "https://a.example/") for each in blocks)
    assert cut_passages(Page("u", "", text, blocks, links)) == []
    assert len(cut_passages(Page("u", "", text, blocks, links[:2]))) == 1


def test_headings_above_are_those_still_open() -> None:
    text = "A\n\nB\n\nC\n\nx"
    blocks = (
        Block(0, 1, "heading", 1),
        Block(3, 4, "heading", 2),
        Block(6, 7, "heading", 2),
        Block(9, 10, "paragraph"),
    )
    assert get_headings_above(Page("u", "", text, blocks), 9) == "A > C"


def test_sentences_stay_inside_blocks_and_lines_of_code() -> None:
    text = "Dr. Marzluff wore a mask. Crows\nscolded him\n\nx = 1\ny = 2"
    blocks = (Block(0, 43, "paragraph"), Block(45, 56, "code"))
    spans = find_sentences(Page("u", "", text, blocks), 0, len(text))
    assert [text[a:b] for a, b in spans] == [
        "Dr. Marzluff wore a mask.",
        "Crows\nscolded him",
        "x = 1",
        "y = 2",
    ]


def damages(directory: Path, flips: int) -> Iterator[tuple[Path, bytes | None]]:
    """Each file of an index as damage leaves it: gone (None), cut, and with a byte changed."""
    chance = random.Random(0)
    for path in sorted(directory.iterdir(), key=lambda path: (path.suffix, path.name)):
        data = path.read_bytes()
        yield path, None
        for size in sorted({0, 1, len(data) // 3, len(data) // 2, len(data) - 1} - {len(data), -1}):
            yield path, data[:size]
        for at in chance.sample(range(len(data)), min(flips, len(data))):
            yield path, data[:at] + bytes([data[at] ^ chance.randrange(1, 256)]) + data[at + 1 :]


def use_index(directory: Path, writes: bool) -> str:
    """Open, search and, where it is said, change an index; what ended it, or nothing."""
    try:
        with translate_index_errors(directory):
            index = SearchIndex(directory)
            index.search("raven food", 5)
            index.search("jay acorns", 5)
            terms = parse_query("crow window", index.list_languages())
            index.search_shard("crow window", terms, index.count_terms(terms), 5)
            if writes:
                index.remove("a")
                index.commit()
    except Failed as failed:
        cause = type(failed.__cause__).__name__
        clear = f"delete {directory} and run again" in failed.failure.detail
        return cause if clear and failed.failure.outcome == "index_failed" else str(failed)
    return ""


@pytest.mark.slow
def test_whatever_is_damaged_in_an_index_is_a_sentence(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    index = SearchIndex(whole)
    index._threads = 1  # so that the same bytes are damaged everywhere
    for each in PAGES:
        index.add(each)
    index.commit()
    assert use_index(whole, writes=False) == ""
    causes = set[str]()
    for number, (path, data) in enumerate(damages(whole, flips=48)):
        # A place of its own: threads that merge may still write where the one before was.
        damaged = shutil.copytree(whole, tmp_path / str(number))
        place = damaged / path.name
        place.unlink() if data is None else place.write_bytes(data)
        # What is changed within a file may end the process where tantivy's threads merge it.
        causes.add(use_index(damaged, writes=data is None or len(data) < path.stat().st_size))
        shutil.rmtree(damaged, ignore_errors=True)
    assert {"", "ValueError", "PanicException"} <= causes
    assert causes <= {"", "ValueError", "PanicException", "DecodeError", "UnicodeDecodeError"}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), AttributeError(), Failed(GONE)])
def test_what_is_no_damage_passes(error: BaseException, tmp_path: Path) -> None:
    with pytest.raises(type(error)) as caught, translate_index_errors(tmp_path):
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    "query", ["What broke on 27 February 2026?", "What broke on 27.2.2026?", "Broke 2/27/2026?"]
)
def test_a_day_is_found_in_whatever_form_it_is_written(query: str) -> None:
    days = ("2026-02-26", "2026-02-27", "2025-02-27", "2026-03-27")
    pages = [Page(url=f"https://log.example/{day}", title="", text=f"{day} ERROR") for day in days]
    best, *_ = InMemoryLibrary(pages).search(query, 4)
    assert best.url.endswith("2026-02-27")


def test_a_number_is_found_with_and_without_separators() -> None:
    texts = {"right": "Total 1.983,60", "wrong": "Item 1983 and 60 others"}
    pages = [Page(url=f"https://sum.example/{n}", title="", text=t) for n, t in texts.items()]
    best, *_ = InMemoryLibrary(pages).search("What costs 1,983.60 dollars?", 2)
    assert best.url.endswith("right")

"""Quotations with gaps: where their pieces stand, and what they leave out."""

import time
from itertools import pairwise, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rookery.quotes.verification import (
    find_gaps,
    find_quote_pieces,
    find_whole_words,
    is_quote_too_short,
)
from rookery.records import Block, Page, is_word_edge


def page(*paragraphs: str, hidden: int = -1) -> Page:
    """A page of these paragraphs."""
    text = "\n\n".join(paragraphs)
    blocks, at = [], 0
    for number, paragraph in enumerate(paragraphs):
        end = at + len(paragraph)
        blocks.append(Block(at, end, "paragraph", hidden=number == hidden))
        at = end + 2
    return Page("https://a.example/", "Drugs", text, tuple(blocks))


DRUGS = page(
    "The new drug does not cure cancer in mice. The old drug, which was tested in the same "
    "laboratory, does cure cancer in rats.",
    "Magpies sing in the morning. Wait... they said that this is all.",
)


@pytest.mark.parametrize(
    ("text", "pieces", "gaps"),
    [
        (
            "The new drug does ... cure cancer",
            ["The new drug does", "cure cancer"],
            ["not"],
        ),
        ("the NEW drug […] cancer in rats", ["The new drug", "cancer in rats"], None),
        ("cure cancer (...) does cure", ["cure cancer", "does cure"], None),
        ("The old drug . . . does cure", ["The old drug", "does cure"], None),
        ("The old drug[..]does cure", ["The old drug", "does cure"], None),
        ("The old drug [snip] does cure", ["The old drug", "does cure"], None),
        ("The old drug …… does cure", ["The old drug", "does cure"], None),
        ("… The old drug …", ["The old drug"], []),
        ("...in the morning. Wait… they said", ["in the morning. Wait... they said"], []),
        (
            "Magpies sing [...] Wait... they said",
            ["Magpies sing", "Wait... they said"],
            ["in the morning."],
        ),
        ("does cure cancer ... The new drug", [], []),
        ("The new drug ... does always cure", [], []),
        ("… [...] ...", [], []),
        ("", [], []),
    ],
)
def test_pieces_stand_in_the_order_of_the_page(
    text: str, pieces: list[str], gaps: list[str] | None
) -> None:
    quotes = find_quote_pieces(DRUGS, text)
    assert [quote.text for quote in quotes] == pieces
    assert gaps is None or list(find_gaps(DRUGS, quotes)) == gaps
    assert all(one.end <= two.start for one, two in pairwise(quotes))


def test_of_several_places_the_one_is_taken_that_leaves_out_least() -> None:
    said = page(
        "The birds are not to be seen here.", "The birds are shy. The birds are often seen here."
    )
    quotes = find_quote_pieces(said, "birds are … seen here.")
    assert find_gaps(said, quotes) == ("often",)


@pytest.mark.slow
@example("bb bba ba", ["bb", "ba"])
@given(st.text("ab ", min_size=1, max_size=24), st.lists(st.text("ab", min_size=1), max_size=3))
def test_pieces_are_found_where_any_order_of_places_has_them(text: str, pieces: list[str]) -> None:
    """Against every choice of places; one piece or none is no quotation with gaps."""
    quoted = " ... ".join(pieces)
    starts = [
        [
            at
            for at in range(len(text))
            if text.startswith(p, at) and is_word_edge(text, at) and is_word_edge(text, at + len(p))
        ]
        for p in pieces
    ]
    possible = [
        places
        for places in product(*starts)
        if all(a + len(p) <= b for a, b, p in zip(places, places[1:], pieces, strict=False))
    ]
    quotes = find_quote_pieces(Page("https://a.example/", "", text), quoted)
    assert bool(quotes) == bool(pieces and possible)
    if len(pieces) > 1 and quotes:
        least = min(places[-1] + len(pieces[-1]) - places[0] for places in possible)
        assert quotes[-1].end - quotes[0].start == least


@pytest.mark.parametrize(
    ("text", "start", "end", "words"),
    [
        ("Crows don’t sleep", 0, 17, ["Crows", "don’t", "sleep"]),
        ("Crows don’t sleep", 2, 11, ["don’t"]),
        ("about 3.5 metres", 6, 7, []),
        ("about 3.5 metres", 6, 9, ["3.5"]),
        ("हिन्दी भाषा है", 0, 14, ["हिन्दी", "भाषा", "है"]),
        ("a-b c_d", 0, 7, ["a-b", "c", "d"]),
    ],
)
def test_only_whole_words_count(text: str, start: int, end: int, words: list[str]) -> None:
    assert find_whole_words(text, start, end) == words


@pytest.mark.parametrize(
    ("text", "quoted", "short"),
    [
        ("The capital is Paris.", "Paris", False),
        ("Paris. We saw Paris there.", "Paris", False),
        ("Paris. We saw it.", "Paris", True),
        ("We found it.\n\nSeventeen birds", "Seventeen birds", False),
        ("Yes.", "Yes.", True),
        ("They do sleep.", "They do sleep.", False),
        ("นกกามีความจำดีมาก", "นกกามีความจำ", False),
        ("까마귀는 얼굴을 기억한다", "까마귀는 얼굴을 기억한다", False),
        ("...!?", "...!?", True),
    ],
)
def test_a_quote_needs_three_words_a_number_or_a_name(text: str, quoted: str, short: bool) -> None:
    start = text.index(quoted)
    assert is_quote_too_short(text, start, start + len(quoted)) is short


@pytest.mark.parametrize(
    "text",
    ["." * 100_000, "[" + "." * 100_000, "[ " * 50_000, " " * 100_000, "a ... " * 20_000,
     "[" + " " * 100_000, ". " * 100_000, "a … " * 40],
    ids=lambda text: text[:6],
)  # fmt: skip
def test_no_quotation_is_slow(text: str) -> None:
    """Whatever it is, it costs a multiple of the same length of words that are not there."""
    said = page("a b " * 20_000)
    seconds = []
    for quotation in ("ab" * (len(text) // 2), text):
        began = time.process_time()
        for _ in range(3):
            find_quote_pieces(said, quotation)
        seconds.append(time.process_time() - began)
    assert seconds[1] < 300 * seconds[0]

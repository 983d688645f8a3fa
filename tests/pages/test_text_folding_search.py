"""Finding on a page, against a search that is as plain as possible."""

import re
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rookery.browser.browser import find_in_page, find_quote
from rookery.pages.text_folding import CHUNK_LENGTH, TextFinder, fold_text

LETTERS = 'aAb \n\t\u00ad“"-–½1é'


def spans(text: str, phrase: str, spaced: bool) -> set[tuple[int, int]]:
    """Every span of the text that folds to `phrase`: tried one by one."""
    space = " " if spaced else ""
    plain = re.sub(" ", space, fold_text(phrase).text.strip())
    return {
        (start, end)
        for start in range(len(text))
        for end in range(start + 1, len(text) + 1)
        if plain and re.sub(" ", space, fold_text(text[start:end]).text.strip()) == plain
    }


@given(
    st.text(LETTERS, max_size=24),
    st.text(LETTERS, min_size=1, max_size=5),
    st.integers(0, 24),
    st.booleans(),
)
@example("a b", "ab", 0, False)
@example("a\u00ad b", "AB", 1, False)
@example("½", "1", 0, True)
def test_what_is_found_is_there_and_what_is_there_is_found(
    text: str, wanted: str, after: int, spaced: bool
) -> None:
    finder = TextFinder(text)
    places = (*finder.find_all(wanted, after, spaced), *finder.find_all(wanted, 0, spaced))
    found = next(iter(places), None)
    there = spans(text, wanted, spaced)
    assert found in there if found else not there


def test_the_first_one_after_a_place_is_found_and_then_the_first_of_all() -> None:
    finder = TextFinder("crow one, crow two, crow three")
    assert [finder.find("crow", after) for after in (0, 1, 10, 11, 20, 21)] == [
        (0, 4), (10, 14), (10, 14), (20, 24), (20, 24), (0, 4),
    ]  # fmt: skip


def test_what_is_left_out_is_not_found() -> None:
    finder = TextFinder("a secret and a secret", [(0, 8)])
    assert finder.find("secret", 0) == (15, 21)
    assert finder.find("secret and", 0) is None


@pytest.mark.slow
def test_a_long_text_finds_what_a_plain_search_finds() -> None:
    random = Random(3)
    words = [f"{random.choice('bcdfg')}{random.choice('aeiou')}{n}" for n in range(4000)]
    text = " ".join(random.choice(words) for _ in range(120_000))
    assert len(text) > 8 * CHUNK_LENGTH
    finder = TextFinder(text)
    for _ in range(300):
        start = random.randrange(len(text) - 60)
        wanted = text[start : start + random.randrange(3, 60)].strip()
        after = random.randrange(len(text))
        expected = text.find(wanted, after)
        expected = expected if expected >= 0 else text.find(wanted)
        assert finder.find(wanted, after) == (expected, expected + len(wanted))
        assert finder.find(f"{wanted}%", after) is None


@pytest.mark.parametrize("edge", range(-6, 7))
def test_a_text_across_the_edge_of_a_chunk_is_found(edge: int) -> None:
    place = CHUNK_LENGTH + edge
    text = "x" * place + "needle" + "x" * (2 * CHUNK_LENGTH)
    assert TextFinder(text).find("needle", 0) == (place, place + 6)
    assert TextFinder(text).find("needle", place + 1) == (place, place + 6)


def test_an_abbreviation_takes_the_nearest_end_after_its_start() -> None:
    text = "so end. It begins here, goes on and so end. And so end."
    assert find_quote(TextFinder(text), "It begins━so end", 0) == (8, 42)
    assert find_quote(TextFinder(text), "It begins ━ so end", 30) == (8, 42)
    assert find_quote(TextFinder(text), "And━begins", 0) is None


def test_a_dash_that_is_on_the_page_is_taken_as_it_is() -> None:
    text = "one — two, then one and two"
    assert find_quote(TextFinder(text), "one — two", 0) == (0, 9)
    assert find_quote(TextFinder(text), "then ━ two", 0) == (11, 27)
    assert find_quote(TextFinder(text), "then — two", 0) is None


def test_ruby_and_cells_are_quoted_as_they_are_shown() -> None:
    assert find_quote(TextFinder("漢字を読む"), "漢字(かんじ)を", 0) == (0, 3)
    assert find_quote(TextFinder("Name\tAge"), "Name | Age", 0) == (0, 8)
    assert find_in_page(TextFinder("x2 and y"), "x^2", 0) == (0, 2)


def test_nothing_names_nothing() -> None:
    for wanted in ("", " ", "\u00ad", "━", "—━—", "【0†】"):
        assert find_in_page(TextFinder("some text"), wanted, 0) is None
        assert find_quote(TextFinder("some text"), wanted, 0) is None

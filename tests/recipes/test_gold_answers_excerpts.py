"""Excerpts: whole sentences in a row, of the wanted lengths, none twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.gold_answers import cut_excerpts
from rookery.pages.passages import find_sentences
from rookery.records import Page

TEXT = "One two three. Four five. Six seven eight nine ten eleven twelve. Thirteen. Fourteen it is."


def test_sentences_are_joined_while_they_fit() -> None:
    assert cut_excerpts(TEXT, 1, 5) == [
        "One two three. Four five.",
        "Thirteen. Fourteen it is.",
    ]
    assert cut_excerpts(TEXT, 4, 4) == ["Thirteen. Fourteen it is."]


def test_a_sentence_that_is_too_long_is_in_none_and_ends_the_one_before() -> None:
    text = "Crows are clever. A jay hides nuts, seeds and many other things. It remembers."
    assert cut_excerpts(text, 2, 4) == ["Crows are clever.", "It remembers."]


def test_a_text_that_fits_is_one_excerpt() -> None:
    assert cut_excerpts(TEXT, 1, 100) == [TEXT]
    assert cut_excerpts("", 1, 5) == cut_excerpts("  \n ", 1, 5) == []


@pytest.mark.parametrize(("least", "most"), [(0, 3), (4, 3)])
def test_lengths_that_nothing_has_are_refused(least: int, most: int) -> None:
    with pytest.raises(ValueError, match="words"):
        cut_excerpts(TEXT, least, most)


@given(
    st.lists(st.integers(1, 9), max_size=30),
    st.integers(1, 6),
    st.integers(0, 12),
)
def test_excerpts_are_whole_sentences_in_order_and_none_could_be_longer(
    lengths: list[int], least: int, more: int
) -> None:
    said = [" ".join(["Word"] * (length - 1) + [f"w{at}."]) for at, length in enumerate(lengths)]
    text = " ".join(said)
    most = least + more
    found = cut_excerpts(text, least, most)
    spans = find_sentences(Page("", "", text), 0, len(text))
    starts, ends = {low for low, _ in spans}, {high for _, high in spans}
    at = 0
    for each in found:
        at = text.index(each, at)
        assert at in starts
        assert at + len(each) in ends
        assert least <= len(each.split()) <= most
        at += len(each)
        rest = [text[low:high] for low, high in spans if low >= at]
        assert not rest or len(each.split()) + len(rest[0].split()) > most

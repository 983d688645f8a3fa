"""Strings are found exactly, or exactly after folding, and never nearly."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rookery.pages.text_folding import fold_text, locate_quote
from rookery.records import Page, is_word_edge

TYPESET = "The crow – “clever”, they say – doesn’t forget.\n\nIt re\u00admembers eﬃcient faces."


def page(text: str) -> Page:
    return Page("https://crows.example/", "Crows", text)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("crow – “clever”", "crow – “clever”"),
        ('the CROW - "clever", they say - doesn\'t', "The crow – “clever”, they say – doesn’t"),
        ("forget. It remembers efficient", "forget.\n\nIt re\u00admembers eﬃcient"),
        ("  forget. ", "forget."),
        ("remembers", "re\u00admembers"),
    ],
)
def test_a_quote_is_in_the_characters_of_the_page(wanted: str, found: str) -> None:
    quote = locate_quote(page(TYPESET), wanted)
    assert quote is not None
    assert quote.text == found == TYPESET[quote.start : quote.end]


@pytest.mark.parametrize(
    "wanted",
    ["", "  \n", "\u00ad", "The crow does forget", "doesn't forgt", "the crow … forget", "eff"],
)
def test_what_is_not_there_word_for_word_is_not_found(wanted: str) -> None:
    assert locate_quote(page(TYPESET), wanted) is None


def test_a_negation_is_not_its_sentence() -> None:
    said = page("Ravens do not share their food with strangers in the winter months.")
    assert (
        locate_quote(said, "Ravens do share their food with strangers in the winter months.")
        is None
    )


def test_half_a_character_is_not_a_match() -> None:
    assert locate_quote(page("It weighs about ½ kg"), "weighs ABOUT 1") is None
    assert locate_quote(page("It weighs about ½ kg, or about 1 lb"), "ABOUT 1") is not None


def test_an_exact_occurrence_goes_before_a_folded_one() -> None:
    quote = locate_quote(page("CROWS fly. Crows fly."), "Crows fly")
    assert quote is not None
    assert quote.start == 11


def test_of_several_the_first_at_or_after_is_taken_else_the_first() -> None:
    crows = page("caw Caw caw CAW caw")
    exact = [locate_quote(crows, "caw", after) for after in (0, 1, 8, 16, 17)]
    assert [quote and quote.start for quote in exact] == [0, 8, 8, 16, 0]
    folded = [locate_quote(crows, "cAw", after) for after in (0, 1, 4, 12, 13, 17)]
    assert [quote and quote.start for quote in folded] == [0, 4, 4, 12, 16, 0]


def test_the_fold_of_a_page_can_be_given() -> None:
    said = page(TYPESET)
    folded = fold_text(TYPESET)
    assert locate_quote(said, "remembers", folded=folded) == locate_quote(said, "remembers")


letters = st.text(st.sampled_from("aAb ﬁßé\u0301\u00ad\n½1’'"), max_size=30)


@given(letters, letters, st.integers(0, 60))
def test_what_is_found_folds_to_what_was_wanted(text: str, wanted: str, after: int) -> None:
    quote = locate_quote(page(text), wanted, after)
    if quote is not None:
        assert fold_text(quote.text).text.strip() == fold_text(wanted).text.strip()


@given(st.text(max_size=30), st.data())
def test_every_slice_of_a_page_is_found(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    wanted = text[start : data.draw(st.integers(start, len(text)))]
    at = start + len(wanted) - len(wanted.lstrip())
    assume(is_word_edge(text, at) and is_word_edge(text, at + len(wanted.strip())))
    quote = locate_quote(page(text), wanted, start)
    if fold_text(wanted).text.strip():
        assert quote is not None
        assert quote.text == wanted.strip()
        assert quote.start >= start
    else:
        assert quote is None

"""Search terms: what is the same word for a search, in several scripts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.browse.search_terms import (
    LONGEST_TERM,
    count_question_terms,
    get_keywords,
    get_question_terms,
    join_pairs,
    split_terms,
)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("The crows were building nests", "the CROW were builds nest"),
        ("Café Beyoncé", "cafe beyonce"),
        ("ﬁnding", "finding"),
        ("мирные вороны", "мирный ворона"),
        ("Ａｅｓｏｐ", "aesop"),
    ],
)
def test_forms_of_a_word_are_one_term(text: str, same: str) -> None:
    assert split_terms(text) == split_terms(same)


def test_words_by_hand() -> None:
    assert split_terms("A crow's nest, 30 cm wide.") == [
        "a",
        "crow",
        "s",
        "nest",
        "30",
        "cm",
        "wide",
    ]
    assert split_terms("カラスは") == ["カラ", "ラス", "スは"]
    assert split_terms("नमस्ते दुनिया")[1].startswith("दुन")
    assert len(split_terms("नमस्ते दुनिया")) == 2
    assert split_terms("—!…") == []


def test_a_question_keeps_what_it_is_about() -> None:
    assert get_question_terms("How many seeds does a nutcracker hide? How many?") == [
        "seed",
        "nutcrack",
        "hide",
    ]
    assert get_question_terms("who are you") == ["who", "are", "you"]


def test_a_question_keeps_how_often_it_says_a_word() -> None:
    counts = count_question_terms("Do crows know a crow's face? The face of the crow?")
    assert list(counts.items()) == [("crow", 3), ("know", 1), ("face", 2)]
    assert count_question_terms("who are you, who?") == {"who": 2, "are": 1, "you": 1}


def test_keywords_are_as_they_were_written() -> None:
    assert get_keywords("Why do Clark's nutcrackers hide seeds?") == [
        "Clark's",
        "nutcrackers",
        "hide",
        "seeds",
    ]
    assert get_keywords("Who are you?") == ["Who", "are", "you"]


def test_pairs_skip_question_words() -> None:
    assert join_pairs(split_terms("the tower of London ravens")) == ["tower_london", "london_raven"]
    assert join_pairs(["raven"]) == []


@pytest.mark.slow
@given(st.text(max_size=200))
def test_any_text_has_terms_of_bounded_length_and_no_spaces(text: str) -> None:
    found = split_terms(text)
    assert all(0 < len(term) <= LONGEST_TERM and not term.isspace() for term in found)
    assert split_terms(text) == found
    assert set(get_question_terms(text)) <= set(found)


def test_words_of_comparing_are_left_out_where_what_is_compared_is_left() -> None:
    asked = "What is the difference between a crow and a raven?"
    assert get_question_terms(asked) == get_question_terms("crow raven")
    assert get_question_terms("How do they differ?") == ["differ"]
    assert get_question_terms("What is the difference to a crow?") == ["differ", "crow"]

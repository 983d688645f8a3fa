"""Search terms: what is the same word for a search, in several scripts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.browse.words import LONGEST, keywords, pairs, question_counts, question_terms, terms


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
    assert terms(text) == terms(same)


def test_words_by_hand() -> None:
    assert terms("A crow's nest, 30 cm wide.") == ["a", "crow", "s", "nest", "30", "cm", "wide"]
    assert terms("カラスは") == ["カラ", "ラス", "スは"]
    assert terms("नमस्ते दुनिया")[1].startswith("दुन")
    assert len(terms("नमस्ते दुनिया")) == 2
    assert terms("—!…") == []


def test_a_question_keeps_what_it_is_about() -> None:
    assert question_terms("How many seeds does a nutcracker hide? How many?") == [
        "seed",
        "nutcrack",
        "hide",
    ]
    assert question_terms("who are you") == ["who", "are", "you"]


def test_a_question_keeps_how_often_it_says_a_word() -> None:
    counts = question_counts("Do crows know a crow's face? The face of the crow?")
    assert list(counts.items()) == [("crow", 3), ("know", 1), ("face", 2)]
    assert question_counts("who are you, who?") == {"who": 2, "are": 1, "you": 1}


def test_keywords_are_as_they_were_written() -> None:
    assert keywords("Why do Clark's nutcrackers hide seeds?") == [
        "Clark's",
        "nutcrackers",
        "hide",
        "seeds",
    ]
    assert keywords("Who are you?") == ["Who", "are", "you"]


def test_pairs_skip_question_words() -> None:
    assert pairs(terms("the tower of London ravens")) == ["tower_london", "london_raven"]
    assert pairs(["raven"]) == []


@given(st.text(max_size=200))
def test_any_text_has_terms_of_bounded_length_and_no_spaces(text: str) -> None:
    found = terms(text)
    assert all(0 < len(term) <= LONGEST and not term.isspace() for term in found)
    assert terms(text) == found
    assert set(question_terms(text)) <= set(found)

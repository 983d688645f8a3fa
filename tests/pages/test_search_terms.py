"""Search terms: what is the same word for a search, in several scripts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.pages.search_terms import (
    LANGUAGES,
    LONGEST_TERM,
    count_question_terms,
    find_language,
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


SENTENCES = {
    "english": "The crow is one of the birds that use tools, and it is known for this.",
    "german": "Die Krähe ist einer der Vögel, die Werkzeuge benutzen, und dafür ist sie bekannt.",
    "french": "La corneille est un des oiseaux qui se servent des outils, et elle est connue.",
    "spanish": "El cuervo es uno de los pájaros que usan herramientas, y por eso es conocido.",
    "portuguese": "O corvo não é uma das aves que usam ferramentas do homem, mas os outros são.",
    "italian": "Il corvo è uno degli uccelli che usano gli attrezzi, e non è il solo della specie.",
    "catalan": "El corb és un dels ocells que fan servir les eines, i amb això és conegut.",
    "dutch": "De kraai is een van de vogels die gereedschap gebruiken, en dat is niet het enige.",
    "swedish": "Kråkan är en av de fåglar som använder verktyg, och det är inte allt.",
    "danish": "Kragen er en af de fugle, som bruger redskaber, og det er ikke alt fra den.",
    "norwegian": "Kråka er en av de fuglene som bruker redskap, og å gjøre det er ikke lett.",
    "finnish": "Varis on lintu, joka käyttää työkaluja, ja se on myös tunnettu, mutta ei yksin.",
    "hungarian": "A varjú az a madár, amely eszközöket használ, és nem csak ez van meg benne.",
    "romanian": "Cioara este o pasăre care folosește unelte, și nu este din cele cu pene la fel.",
    "turkish": "Karga alet kullanan bir kuştur ve bu ile bilinir, daha çok da bunun için.",
    "czech": "Vrána je pták, který používá nástroje, a to se o ní ví, ale není jako jiní.",
    "polish": "Wrona to jest ptak, który używa narzędzi, i nie jest to jak u innych, ale się wie.",
    "indonesian": "Gagak adalah burung yang memakai alat, dan itu tidak ada pada burung ini.",
}


def test_the_language_of_a_text() -> None:
    assert {name: find_language(text) for name, text in SENTENCES.items()} == {
        name: name for name in LANGUAGES
    }
    for text in ("", "12 + 30", "Corvus corax, Pica pica", "Вороны узнают лица.", "カラスは"):
        assert find_language(text) == "english"


def test_words_are_stemmed_in_their_language() -> None:
    assert split_terms("Krähen Nestern", "german") == split_terms("Krähe Nester", "german")
    assert split_terms("Krähen", "german") != split_terms("Krähe", "english")
    assert split_terms("вороны", "german") == split_terms("ворона")


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
@settings(max_examples=100)
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

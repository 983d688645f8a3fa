"""The claim that a question assumes, and the side that a sentence takes by its words alone."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sides_pairs import PAIRS

from rookery.draft.stance import SentenceContext, detect_stance, extract_claim
from rookery.records import Failed


@pytest.mark.parametrize(
    ("question", "claim"),
    [
        ("Do crows hold grudges?", "crows hold grudges"),
        ("Why do crows bring gifts to people?", "crows bring gifts to people"),
        ("Is coffee bad for the heart?", "coffee is bad for the heart"),
        ("Can crows recognise faces?", "crows can recognise faces"),
        ("How do crows recognise faces?", "crows recognise faces"),
        ("Crows hold grudges.", "Crows hold grudges"),
        ("Does the full moon affect sleep?", "the full moon affects sleep"),
        ("Does every crow carry a key?", "every crow carries a key"),
        ("Does VACUUM lock the table?", "VACUUM locks the table"),
        ("Does it REINDEX all tables?", "it does REINDEX all tables"),
        ("Did Napoleon die of poison?", "Napoleon did die of poison"),
        ("Did Houston use to be the capital?", "Houston used to be the capital"),
        ("Is the Great Wall visible from space?", "the Great Wall is visible from space"),
        ("Is the moon landing a hoax?", "the moon landing is a hoax"),
        ("Is Pluto a planet?", "Pluto is a planet"),
        ("Why don’t birds fall off branches?", "birds do not fall off branches"),
        ("Why can't penguins fly?", "penguins cannot fly"),
        ("Isn't coffee bad for you, or not?", "coffee is bad for you"),
        ("Has anyone ever climbed Everest alone?", "someone has climbed Everest alone"),
        ("Is it true that magpies steal rings?", "magpies steal rings"),
        ("I heard that crows hold grudges. Is that true?", "crows hold grudges"),
        ("Explain why crows bring gifts", "crows bring gifts"),
        ("Should children be vaccinated?", "children should be vaccinated"),
    ],
)
def test_a_question_assumes_a_claim(question: str, claim: str) -> None:
    assert extract_claim(question) == claim


@pytest.mark.parametrize(
    "question",
    [
        "Who wrote Hamlet?",
        "How many seeds does a nutcracker hide?",
        "When did the dodo die out?",
        "How do I feed a crow?",
        "Is coffee good or bad?",
        "Is it safe?",
        "Is",
        "?!",
        "",
        "List ten crows",
        "Do crows hold grudges " * 100,
    ],
)
def test_a_question_that_assumes_no_claim_says_what_to_do(question: str) -> None:
    with pytest.raises(Failed) as failed:
        extract_claim(question)
    assert failed.value.failure.outcome == "no_claim"
    assert "state one" in failed.value.failure.detail


@given(st.text(max_size=200) | st.lists(st.sampled_from("do is not the why it or, ever".split())))
def test_any_question_has_a_claim_or_none(question: str | list[str]) -> None:
    text = question if isinstance(question, str) else " ".join(question)
    with suppress(Failed):
        claim = extract_claim(text)
        assert claim == " ".join(claim.split()) != ""


def test_a_side_is_right_nine_times_in_ten_by_words_alone() -> None:
    judged = [(side, detect_stance(claim, SentenceContext(said))) for side, claim, said in PAIRS]
    for side in ("for", "against"):
        right = [true == side for true, found in judged if found == side]
        assert len(right) >= 25
        assert sum(right) / len(right) >= 0.9


@pytest.mark.parametrize(
    ("claim", "sentence", "side"),
    [
        ("penguins cannot fly", "Penguins cannot fly.", "for"),
        ("penguins cannot fly", "Penguins can fly.", "against"),
        ("penguins cannot fly", "It is a myth that penguins cannot fly.", "neither"),
        ("few crows hold grudges", "Few crows hold grudges.", "for"),
        ("the moon landing was a hoax", "The moon landing was no hoax.", "against"),
        ("crows are smarter than dogs", "Dogs are smarter than crows.", "neither"),
        ("cats chase dogs", "Cats are chased by dogs.", "neither"),
        ("water is unsafe", "The water is safe.", "against"),
        ("cats have nine lives", "Cats with owners visit nine houses in their lives.", "neither"),
        ("crows talk", "They talk all day.", "neither"),
        ("crows hold grudges", "", "neither"),
        ("カラスは恨みを忘れない", "カラスは賢い。", "neither"),
        ("crows hold grudges", "Crows " + "and crows " * 100 + "hold grudges.", "neither"),
    ],
)
def test_words_take_a_side_only_where_they_say_the_claim(
    claim: str, sentence: str, side: str
) -> None:
    assert detect_stance(claim, SentenceContext(sentence)) == side


def test_what_stands_round_a_sentence_may_take_it_back() -> None:
    said = "Crows hold grudges."
    claim = "crows hold grudges"
    assert detect_stance(claim, SentenceContext(said, above="Crows")) == "for"
    assert detect_stance(claim, SentenceContext(said, above="Myths about crows")) == "neither"
    assert detect_stance(claim, SentenceContext(said, before="Common misconceptions:")) == "neither"
    assert detect_stance(claim, SentenceContext(said, after="This is not true.")) == "neither"
    assert detect_stance(claim, SentenceContext(said, after="This helps them.")) == "for"


def test_a_pronoun_stands_for_what_the_page_is_about() -> None:
    claim = "crows hold grudges"
    said = "They do not hold grudges."
    assert detect_stance(claim, SentenceContext(said, above="Crows")) == "against"
    assert detect_stance(claim, SentenceContext(said, above="Ravens")) == "neither"
    assert detect_stance(claim, SentenceContext("Ravens hold grudges.", above="Crows")) == "neither"

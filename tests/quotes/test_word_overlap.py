"""ROUGE: worked by hand, counted by brute force, and compared with the reference implementation."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.quotes.word_overlap import (
    WordOverlap,
    compute_rouge_n,
    split_words,
)

CAT = split_words("The cat sat on the mat.")
DOG = split_words("The cat lay on the mat.")
FEW = st.lists(st.sampled_from(["a", "crow", "jay", "of", "oak"]), max_size=9)
ENGLISH = st.text("aeimnorst TE.,'-019\n", max_size=80)


def test_overlaps_worked_by_hand() -> None:
    """Five of six words; "the cat", "on the" and "the mat" of five pairs."""
    assert compute_rouge_n(CAT, DOG) == WordOverlap(5 / 6, 5 / 6)
    assert compute_rouge_n(CAT, DOG, 2) == WordOverlap(3 / 5, 3 / 5)
    assert compute_rouge_n(CAT, DOG, 3) == WordOverlap(1 / 4, 1 / 4)


def test_a_word_counts_as_often_as_both_have_it() -> None:
    overlap = compute_rouge_n(split_words("the the the"), split_words("the cat"))
    assert overlap == WordOverlap(1 / 3, 1 / 2)
    assert overlap.f1 == pytest.approx(0.4)


@pytest.mark.parametrize("pair", [([], []), (CAT, []), ([], CAT), (["a"], ["b"])])
def test_nothing_shared_is_nothing(pair: tuple[list[str], list[str]]) -> None:
    for overlap in (compute_rouge_n(*pair), compute_rouge_n(*pair, 2)):
        assert (overlap.precision, overlap.recall, overlap.f1) == (0, 0, 0)


def test_a_run_has_a_word_at_least() -> None:
    with pytest.raises(ValueError, match="at least one"):
        compute_rouge_n(CAT, DOG, 0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Don't stop: 3.5 km!", ["don", "t", "stop", "3", "5", "km"]),
        ("Don’t stop – ever_more", ["don", "t", "stop", "ever", "more"]),
        ("Größe, naïve, cre\u00adature", ["größe", "naïve", "creature"]),
        ("cafe\u0301 = café", ["café", "café"]),
        ("Вороны помнят лица", ["вороны", "помнят", "лица"]),
        ("काला कौवा", ["काला", "कौवा"]),
        ("GPT模型 会", ["gpt", "模", "型", "会"]),
        ("", []),
    ],
)
def test_words_of_any_script(text: str, found: list[str]) -> None:
    assert split_words(text) == found


def test_stems_are_porters_and_short_words_are_left_alone() -> None:
    said = split_words("Ponies are hopping, relational days was", stem=True)
    assert said == ["poni", "are", "hop", "relat", "dai", "was"]


def shared_by_crossing_out(one: Sequence[str], other: Sequence[str], n: int) -> int:
    left = [tuple(other[at : at + n]) for at in range(len(other) - n + 1)]
    shared = 0
    for at in range(len(one) - n + 1):
        if (run := tuple(one[at : at + n])) in left:
            left.remove(run)
            shared += 1
    return shared


@given(FEW, FEW, st.integers(1, 4))
def test_shared_runs_are_those_of_brute_force(one: list[str], other: list[str], n: int) -> None:
    overlap = compute_rouge_n(one, other, n)
    shared = shared_by_crossing_out(one, other, n)
    assert overlap.precision * max(1, len(one) - n + 1) == pytest.approx(shared)
    assert overlap.recall * max(1, len(other) - n + 1) == pytest.approx(shared)


@pytest.fixture(scope="module")
def peer() -> Any:
    return pytest.importorskip("rouge_score.rouge_scorer")


@given(said=ENGLISH, reference=ENGLISH)
def test_the_reference_implementation_agrees(peer: Any, said: str, reference: str) -> None:
    scorer = peer.RougeScorer(["rouge1", "rouge2"])
    assert_same(scorer.score(reference, said), split_words(said), split_words(reference))


def test_it_agrees_on_stems_with_the_published_algorithm(peer: Any) -> None:
    class Porter:
        def __init__(self) -> None:
            stem = pytest.importorskip("nltk.stem.porter").PorterStemmer
            self._stemmer = stem(stem.ORIGINAL_ALGORITHM)

        def tokenize(self, text: str) -> list[str]:
            found = "".join(letter if letter.isalnum() else " " for letter in text.lower()).split()
            return [self._stemmer.stem(word) if len(word) > 3 else word for word in found]

    said = "Crows remembering faces were studied for days by relational psychologists, reportedly."
    reference = "A study reported that crows remember the face of the psychologist daily."
    scorer = peer.RougeScorer(["rouge1", "rouge2"], tokenizer=Porter())
    stemmed = split_words(said, stem=True), split_words(reference, stem=True)
    assert_same(scorer.score(reference, said), *stemmed)
    assert (
        compute_rouge_n(*stemmed).f1 > compute_rouge_n(split_words(said), split_words(reference)).f1
    )


def assert_same(expected: Any, texts: list[str], reference: list[str]) -> None:
    ours = {
        "rouge1": compute_rouge_n(texts, reference),
        "rouge2": compute_rouge_n(texts, reference, 2),
    }
    for name, overlap in ours.items():
        assert overlap.precision == pytest.approx(expected[name].precision, abs=1e-12)
        assert overlap.recall == pytest.approx(expected[name].recall, abs=1e-12)
        assert overlap.f1 == pytest.approx(expected[name].fmeasure, abs=1e-12)

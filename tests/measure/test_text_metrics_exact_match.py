"""Exact match and F1: the official normalisations worked by hand, and their averages."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.measure.intervals import estimate_share
from rookery.measure.text_metrics import (
    compute_token_f1,
    is_exact_match,
    measure_exactness,
    normalize_squad,
)

WORDS = st.lists(st.sampled_from(["the", "crow", "jay", "a", "oak.", "U.S.", "An"]), max_size=6)


@pytest.mark.parametrize(
    ("answer", "squad"),
    [
        ("The U.S.", "us"),
        ("a well-known Author!", "wellknown author"),
        ("An apple, a day", "apple day"),
        ("Theatre another man", "theatre another man"),
        ("snake_case", "snakecase"),
        ("‘Twas the Night´s `end’", "‘twas night´s end’"),
        ("it's", "its"),
        ("$1,500", "1500"),
        ("“quoted”", "“quoted”"),
        ("Vitamin A", "vitamin"),
        ("a-the b", "athe b"),
        ("  two\n lines\t", "two lines"),
        ("The", ""),
        ("Ærøskøbing", "ærøskøbing"),
    ],
)
def test_normalisation_worked_by_hand(answer: str, squad: str) -> None:
    assert normalize_squad(answer) == squad


@given(st.text(max_size=40))
def test_one_more_normalisation_of_squad_takes_articles_at_most(answer: str) -> None:
    once = normalize_squad(answer)
    assert normalize_squad(once) == once
    assert once == " ".join(once.split())


def test_f1_worked_by_hand() -> None:
    """Two of three words said, two of four accepted."""
    assert compute_token_f1("the big black crow", ["black crow of Rome"]) == pytest.approx(4 / 7)
    assert compute_token_f1("crow crow", ["crow jay"]) == pytest.approx(1 / 2)


def test_the_best_accepted_answer_counts() -> None:
    assert compute_token_f1("black crow", ["jay", "the crow", "a black crow"]) == 1
    assert is_exact_match("Crow", ["jay", "the crow"])
    assert not is_exact_match("Crow", ["jay", "crows"])


def test_two_empty_answers_match_and_share_nothing() -> None:
    """As the evaluation of SQuAD 1.1 has it: nothing in common is no F1."""
    assert is_exact_match("the", ["an"])
    assert compute_token_f1("the", ["an"]) == 0


def f1_by_counting(answer: str, gold: str) -> float:
    ours, theirs = normalize_squad(answer).split(), normalize_squad(gold).split()
    common = (Counter(ours) & Counter(theirs)).total()
    if not common:
        return 0.0
    precision, recall = common / len(ours), common / len(theirs)
    return 2 * precision * recall / (precision + recall)


@given(WORDS.map(" ".join), st.lists(WORDS.map(" ".join), min_size=1, max_size=4))
def test_f1_is_that_of_counting(said: str, golds: list[str]) -> None:
    expected = max(f1_by_counting(said, gold) for gold in golds)
    assert compute_token_f1(said, golds) == pytest.approx(expected, abs=1e-12)
    if is_exact_match(said, golds) and normalize_squad(said):
        assert compute_token_f1(said, golds) == pytest.approx(1)


@pytest.mark.parametrize("golds", [[], "crow"])
def test_accepted_answers_are_a_list_of_one_at_least(golds: list[str] | str) -> None:
    for measured in (is_exact_match, compute_token_f1):
        with pytest.raises(ValueError, match="a list"):
            measured("crow", golds)
    with pytest.raises(ValueError, match="a list"):
        measure_exactness(["crow"], [golds])


def test_many_answers_worked_by_hand() -> None:
    found = measure_exactness(
        ["The crow", "It was a jay, in 1912.", "owl", "old crow"],
        [["crow"], ["jay", "a bird"], ["rook"], ["crow"]],
    )
    assert found["exact match"] == estimate_share(1, 4)
    assert found["held"] == estimate_share(3, 4)
    assert found["F1"].value == pytest.approx((1 + 2 / 6 + 0 + 2 / 3) / 4)
    assert found["F1"].count == 4

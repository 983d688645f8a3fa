"""Measures of an order, worked by hand and by brute force."""

import math
from itertools import permutations

import pytest

from rookery.evidence.ranking_metrics import (
    compute_expected_hit,
    compute_expected_ndcg,
    compute_pair_accuracy,
    compute_spearman,
    score_rankings,
)


def test_spearman_is_the_formula_where_nothing_is_tied() -> None:
    worths = (0.1, 0.2, 0.3, 0.4)
    for predicted in permutations(worths):
        apart = sum((a - b) ** 2 * 100 for a, b in zip(worths, predicted, strict=True))
        expected = 1 - 6 * apart / (4 * 15)
        assert compute_spearman(worths, predicted) == pytest.approx(expected)


def test_spearman_shares_ranks_among_ties() -> None:
    # Ranks 0.5 0.5 2 and 0 1 2: covariance 1.5, variances 1.5 and 2.
    assert compute_spearman((0, 0, 1), (1, 2, 3)) == pytest.approx(1.5 / math.sqrt(1.5 * 2))
    assert compute_spearman((1, 1, 1), (1, 2, 3)) is None
    assert compute_spearman((1,), (2,)) is None


def test_accuracy_counts_pairs_of_different_worth() -> None:
    assert compute_pair_accuracy((1, 0.5, 0), (3, 2, 1)) == 1.0
    assert compute_pair_accuracy((1, 0.5, 0), (2, 3, 1)) == pytest.approx(2 / 3)
    assert (
        compute_pair_accuracy((1, 0, 0), (1, 1, 2)) == 0.25
    )  # one tie, one wrong; the zeros are no pair
    assert compute_pair_accuracy((1, 1), (1, 2)) is None


def test_ndcg_discounts_by_the_logarithm_of_the_place() -> None:
    assert compute_expected_ndcg((1, 0.5, 0), (3, 2, 1)) == 1.0
    whole = 1 + 0.5 / math.log2(3)
    assert compute_expected_ndcg((1, 0.5, 0), (1, 2, 3)) == pytest.approx(
        (0.5 / math.log2(3) + 0.5) / whole
    )
    assert compute_expected_ndcg((0, 0), (1, 2)) is None


def test_recall_asks_for_one_of_those_worth_most() -> None:
    assert compute_expected_hit((0, 1, 1, 0), (4, 3, 2, 1), 1) == 0.0
    assert compute_expected_hit((0, 1, 1, 0), (4, 3, 2, 1), 2) == 1.0
    assert compute_expected_hit((1, 1), (1, 2), 1) is None


def test_a_question_of_which_nothing_can_be_said_does_not_count() -> None:
    found = score_rankings([(1, 0), (0, 0)], [(1, 2), (1, 2)])
    assert found == {
        "spearman": pytest.approx(-1),
        "accuracy": 0.0,
        "ndcg": pytest.approx(1 / math.log2(3)),
        "recall_1": 0.0,
        "recall_5": 1.0,
    }
    assert score_rankings([(0, 0)], [(1, 2)]) == {}

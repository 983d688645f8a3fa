"""Rankings against scipy, scikit-learn, and every order that ties allow."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import groupby, permutations, product
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score

from rookery.evidence.ranking_metrics import (
    compute_expected_hit,
    compute_expected_ndcg,
    compute_normalised_ndcg,
    compute_recall_at_k,
    compute_reciprocal_rank,
)
from rookery.measure.intervals import estimate_mean
from rookery.measure.ranking import make_ranking_figure, measure_rankings

Measure = Callable[[Sequence[float], Sequence[float]], float | None]
rankings = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6)


def over_all_orders(worths: Sequence[float], predicted: Sequence[float], measure: Measure) -> float:
    """The mean over every order in which the ranker's ties may come."""
    numbers = sorted(range(len(worths)), key=lambda at: -predicted[at])
    tied = [list(each) for _, each in groupby(numbers, key=lambda at: predicted[at])]
    figures = []
    for order in product(*(permutations(each) for each in tied)):
        inside = [worths[at] for each in order for at in each]
        measured = measure(inside, range(len(inside), 0, -1))
        assert measured is not None
        figures.append(Fraction(measured))
    return float(sum(figures) / len(figures))


@pytest.mark.parametrize("seed", range(5))
def test_ndcg_and_spearman_are_those_of_the_reference_packages(seed: int) -> None:
    random = np.random.default_rng(seed)
    worths, predicted = random.integers(0, 6, 40), random.integers(0, 9, 40)  # with ties
    assert compute_expected_ndcg(worths.tolist(), predicted.tolist()) == pytest.approx(
        ndcg_score([worths], [predicted]), abs=1e-12, rel=0
    )
    found = measure_rankings([worths.tolist()], [predicted.tolist()])
    assert found["spearman"].value == pytest.approx(
        spearmanr(worths, predicted).statistic, abs=1e-12, rel=0
    )


def test_the_reciprocal_rank_of_one_good_thing_is_scikit_learn_s() -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        good_N, predicted_N = np.eye(7)[random.integers(7)], random.permutation(7)
        expected = label_ranking_average_precision_score([good_N], [predicted_N])
        told = compute_reciprocal_rank(good_N.tolist(), predicted_N.tolist())
        assert told == pytest.approx(expected, abs=1e-12, rel=0)


@given(rankings, st.integers(1, 6))
def test_ties_count_as_the_mean_of_their_orders(ranking: list[tuple[int, int]], k: int) -> None:
    worths, predicted = zip(*ranking, strict=True)
    measures: list[Measure] = [
        compute_expected_ndcg,
        compute_normalised_ndcg,
        compute_reciprocal_rank,
    ]
    measures += [
        lambda w, p: compute_expected_hit(w, p, k),
        lambda w, p: compute_recall_at_k(w, p, k),
    ]
    for measure in measures:
        told = measure(worths, predicted)
        if told is not None:
            expected = over_all_orders(worths, predicted, measure)
            assert told == pytest.approx(expected, abs=1e-12, rel=0)


@given(rankings)
def test_normalised_ndcg_is_0_in_the_worst_order_and_1_in_the_best(
    ranking: list[tuple[int, int]],
) -> None:
    worths = [worth for worth, _ in ranking]
    every = {
        compute_normalised_ndcg(order, range(len(order), 0, -1)) for order in permutations(worths)
    }
    if len(set(worths)) == 1:
        assert every == {None}
    else:
        known = [each for each in every if each is not None]
        assert (min(known), max(known)) == (0, 1)
        assert len(known) == len(every)


def test_normalised_ndcg_agrees_with_what_webglm_prints() -> None:
    """Its table 7: five references a question, and two columns that only the worst order explains.

    One line goes through all four pairs, and it is 0 far below what a random order reaches.
    """
    whole, scaled = [0.8254, 0.7628, 0.8116, 0.9199], [0.4605, 0.2677, 0.4175, 0.7529]
    slope, shift = np.polyfit(whole, scaled, 1)
    assert slope * 1 + shift == pytest.approx(1, abs=0.002)
    random_one = scaled[2]  # Spearman -0.016
    assert random_one > 0.4
    worths = [0.9, 0.5, 0.3, 0.2, 0.0]
    level = [1.0] * 5
    assert compute_normalised_ndcg(worths, level) == pytest.approx(
        fmean(each for order in permutations(worths)
              if (each := compute_normalised_ndcg(order, [5, 4, 3, 2, 1])) is not None)
    )  # fmt: skip
    assert 0.4 < (compute_normalised_ndcg(worths, level) or 0) < 0.5


def test_worked_by_hand() -> None:
    worths, predicted = [0, 2, 1, 2, 0], [5, 4, 3, 2, 1]
    assert [compute_expected_hit(worths, predicted, k) for k in (1, 2, 5)] == [0, 1, 1]
    assert [compute_recall_at_k(worths, predicted, k) for k in (1, 2, 3, 4)] == pytest.approx(
        [0, 1 / 3, 2 / 3, 1]
    )
    assert compute_reciprocal_rank(worths, predicted) == 0.5


def test_a_ranker_that_says_nothing_is_worth_what_chance_is() -> None:
    """Also where the best thing stands first in the data."""
    worths, level = [1, 0, 0, 0], [0.0] * 4
    assert compute_expected_hit(worths, level, 1) == 0.25
    assert compute_recall_at_k(worths, level, 2) == 0.5
    assert compute_reciprocal_rank(worths, level) == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert (compute_expected_ndcg(worths, level) or 1) < 0.65


def test_where_all_are_alike_nothing_can_be_said() -> None:
    for measure in (compute_normalised_ndcg, compute_reciprocal_rank):
        assert measure([1, 1], [2, 1]) is None
    assert compute_expected_hit([1, 1], [2, 1], 1) is None
    assert compute_recall_at_k([0, 0], [2, 1], 1) is None
    assert compute_expected_ndcg([0, 0], [2, 1]) is None
    for first in (compute_expected_hit, compute_recall_at_k):
        with pytest.raises(ValueError, match="k is 1 or more"):
            first([1, 0], [1, 0], 0)


def test_questions_of_which_nothing_can_be_said_do_not_count() -> None:
    worths = [[1, 0, 0], [1, 1, 1], [0, 0, 2]]
    predicted = [[3, 2, 1], [3, 2, 1], [3, 2, 1]]
    found = measure_rankings(worths, predicted, ks=(1,))
    assert found["hit 1"] == estimate_mean([1, 0])
    assert found["pairs"] == estimate_mean([1, 0])
    assert found["recall 1"] == estimate_mean([1, 1 / 3, 0])
    assert "recall 5" not in found
    assert measure_rankings([[1, 1]], [[1, 2]], ks=()) == {"NDCG": estimate_mean([1])}


def test_the_figure_puts_methods_side_by_side() -> None:
    good = measure_rankings([[2, 1, 0]] * 3, [[3, 2, 1]] * 3, ks=(1,))
    bad = measure_rankings([[2, 1, 0]] * 3, [[1, 2, 3]] * 3, ks=(1,))
    del bad["pairs"]
    figure = make_ranking_figure({"good": good, "bad": bad}, "3 questions.")
    assert figure.picture.places == tuple(good)
    assert ("spearman", "bad", -1.0, None, None, 3) in figure.rows
    lines = {line.name: dict(line.points) for line in figure.picture.lines}
    assert len(lines["good"]) == len(good)
    assert 0.0 not in lines["bad"]  # pairs are not known of it
    assert lines["bad"][float(figure.picture.places.index("normalised NDCG"))] == 0

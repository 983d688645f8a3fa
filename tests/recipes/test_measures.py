"""Measures of the recipes, by hand, by brute force and beside scipy's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from widths import get_ends, holds

from recipes.measures import (
    correlate_scores,
    estimate_auroc,
    interpolate_best_of_n,
    make_curves_figure,
    measure_pair_accuracy,
)
from rookery.measure.intervals import Estimate


def test_an_area_by_hand() -> None:
    assert estimate_auroc([3, 1], [2, 0]).value == 0.75
    assert estimate_auroc([1], [1]) == Estimate(0.5, None, None, 2)
    # Good ones lie above 4/5, 1, 1, 1 and 1 of the bad ones, bad ones below 1, 1, 1, 1 and 4/5 of
    # the good: variances of .008; Student's t of eight degrees of freedom is 2.306.
    found = estimate_auroc([3, 5, 6, 7, 8], [0, 1, 2, 2, 4])
    assert found.value == pytest.approx(24 / 25)
    assert found.low == pytest.approx(24 / 25 - 2.306004 * math.sqrt(2 * 0.008 / 5))
    assert (found.high, found.count) == (1.0, 10)
    with pytest.raises(ValueError, match="good and a bad"):
        estimate_auroc([1.0], [])


scores = st.lists(st.integers(-3, 3), min_size=1, max_size=30)


@given(scores, scores)
def test_an_area_is_the_statistic_of_mann_and_whitney(good: list[int], bad: list[int]) -> None:
    found = estimate_auroc(good, bad)
    wanted = stats.mannwhitneyu(good, bad, method="asymptotic").statistic / len(good) / len(bad)
    assert found.value == pytest.approx(wanted)
    turned = estimate_auroc([-each for each in good], [-each for each in bad])
    assert turned.value == pytest.approx(1 - found.value)
    if found.low is not None:
        low, high = get_ends(found)
        assert 0 <= low <= found.value <= high <= 1
        assert get_ends(turned) == pytest.approx((1 - high, 1 - low))


def test_the_interval_of_an_area_holds_it_as_often_as_it_says() -> None:
    chance, true = np.random.default_rng(0), stats.norm.cdf(1 / math.sqrt(2))
    held = 0
    for _ in range(400):
        found = estimate_auroc(chance.normal(1, 1, 60).tolist(), chance.normal(0, 1, 40).tolist())
        held += holds(found, true)
    assert 0.91 < held / 400 < 0.98


def test_between_two_n_the_reward_is_interpolated_and_beyond_the_last_it_is_that_one() -> None:
    """Best of 1 is at 0 nats, best of 2 at log 2 - 1/2 = .193."""
    half = (math.log(2) - 0.5) / 2
    assert interpolate_best_of_n([0.0, 3.0], half) == pytest.approx(1.5)
    assert interpolate_best_of_n([0.0, 3.0], 8.0) == 3.0
    assert interpolate_best_of_n([1.0, 3.0], -0.1) == 1.0


def test_pairs_share_no_answer_and_ties_are_half_right() -> None:
    # Of (1, 2), (4, 3) and (5, 5) the first is right, the second wrong, the third tied; 9 is alone.
    assert measure_pair_accuracy([1, 2, 4, 3, 5, 5, 9], [0, 1, 0, 1, 0, 1, 0]) == 0.5
    assert measure_pair_accuracy([1, 2, 3, 4], [0, 1, 5, 6]) == 1.0


def test_scores_correlate_with_what_is_like_them() -> None:
    rising = [1.0, 2.0, 3.0]
    found = correlate_scores({"a": rising, "b": [2.0, 4.0, 6.0], "c": [3.0, 2.0, 1.0]})
    assert found == pytest.approx({("a", "b"): 1.0, ("a", "c"): -1.0, ("b", "c"): -1.0})


def test_a_line_without_points_is_left_out_of_the_picture() -> None:
    points = [(1.0, Estimate(0.5, 0.4, 0.6, 9)), (2.0, Estimate(0.7, None, None, 1))]
    figure = make_curves_figure("it", "It", "says", {"a": points, "b": []}, ("x", "y"))
    assert figure.rows == (("a", 1.0, 0.5, 0.4, 0.6), ("a", 2.0, 0.7, None, None))
    assert [line.name for line in figure.picture.lines] == ["a"]

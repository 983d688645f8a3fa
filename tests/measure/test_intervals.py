"""Intervals against other packages, values worked out by hand, and many experiments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from widths import get_ends

from bench.intervals import SHAPES, Shape, measure_coverage
from rookery.measure.intervals import (
    Estimate,
    estimate_mean,
    estimate_share,
    get_t_quantile,
)


@pytest.mark.parametrize(
    ("wins", "count", "low", "high"),
    [(8, 10, 0.443905, 0.974789), (0, 10, 0.0, 0.308497), (5, 5, 0.478176, 1.0)],
)
def test_a_share_has_the_interval_of_clopper_and_pearson(
    wins: int, count: int, low: float, high: float
) -> None:
    found = estimate_share(wins, count)
    assert found.value == wins / count
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)


@given(st.integers(5, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_is_that_of_scipy_and_mirrored_for_losses(trial: tuple[int, int]) -> None:
    wins, count = trial
    oracle = stats.binomtest(wins, count).proportion_ci(method="exact")
    won, lost = get_ends(estimate_share(wins, count)), get_ends(estimate_share(count - wins, count))
    assert won == pytest.approx((oracle.low, oracle.high), abs=1e-9)
    assert (1 - lost[1], 1 - lost[0]) == pytest.approx(won, abs=1e-12)
    assert 0 <= won[0] <= wins / count <= won[1] <= 1


def test_a_tie_is_half_a_win() -> None:
    low, tied, high = (get_ends(estimate_share(wins, 10)) for wins in (2, 2.5, 3))
    assert estimate_share(2.5, 10).value == 0.25
    assert low[0] < tied[0] < high[0]
    assert low[1] < tied[1] < high[1]


@pytest.mark.parametrize(("wins", "count"), [(0, 0), (-1, 5), (6, 5)])
def test_what_is_no_share_is_refused(wins: int, count: int) -> None:
    with pytest.raises(ValueError, match="is not a share"):
        estimate_share(wins, count)


@pytest.mark.parametrize("freedom", [1, 4, 5, 19, 200, 100_000])
def test_the_quantile_of_student_is_that_of_scipy(freedom: int) -> None:
    assert get_t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-9)


def test_a_mean_has_the_interval_of_student() -> None:
    """Of 1, 2, 4, 8 and 16: mean 6.2, deviation 6.0992, t of four degrees of freedom 2.77645."""
    found = estimate_mean([1.0, 2.0, 4.0, 8.0, 16.0])
    assert get_ends(found) == pytest.approx((-1.37313, 13.77313), abs=1e-5)
    values = np.random.default_rng(0).normal(size=40)
    oracle = stats.ttest_1samp(values, 0).confidence_interval()
    assert get_ends(estimate_mean(values.tolist())) == pytest.approx((oracle.low, oracle.high))


def test_questions_count_and_not_their_answers() -> None:
    """Four answers to each of six questions: as six means; of unequal numbers, values weigh."""
    values = np.random.default_rng(1).normal(size=(6, 4)) + np.arange(6)[:, None]
    groups = [at // 4 for at in range(24)]
    found = estimate_mean(values.ravel().tolist(), groups)
    assert get_ends(found) == pytest.approx(get_ends(estimate_mean(values.mean(1).tolist())))
    assert found.count == 24
    uneven = estimate_mean([1.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b"])
    assert uneven == Estimate(0.75, None, None, 4)


def test_single_zeros_and_ones_have_the_exact_interval() -> None:
    values = [1.0] * 12 + [0.0] * 3
    assert estimate_mean(values) == estimate_share(12, 15)
    low, high = get_ends(estimate_mean(values, least=-1.0))
    # The lower end leaves room for a value of -1.
    assert low < get_ends(estimate_share(12, 15))[0] - 0.05
    assert high == pytest.approx(get_ends(estimate_share(12, 15))[1], abs=0.01)


def test_values_that_pile_up_at_a_bound_are_not_certain() -> None:
    """All of twenty are 1/2: a weight more has Beta(1, 20), whose upper end is 1 - .025 ** .05."""
    more = (1 - 0.025**0.05) / 2
    assert get_ends(estimate_mean([0.5] * 20)) == pytest.approx((0.5 - more, 0.5 + more), abs=0.005)
    assert get_ends(estimate_mean([1.0] * 10))[0] == pytest.approx(0.025**0.1)
    assert estimate_mean([3.0] * 20) == Estimate(3.0, None, None, 20)
    assert estimate_mean([1.0] * 20, least=None).low is None


@pytest.mark.parametrize("found", [estimate_share(3, 4), estimate_mean([0.1, 0.5, 0.3, 0.7])])
def test_fewer_than_five_have_no_interval(found: Estimate) -> None:
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_intervals_hold_the_truth_as_often_as_they_say(shape: Shape) -> None:
    """300 experiments have an error of .013."""
    for size in (5, 20):
        assert measure_coverage(shape, size, 300)[0] > 0.95 - 3 * 0.013


def test_a_mean_of_nothing_and_groups_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="no value"):
        estimate_mean([])
    with pytest.raises(ValueError, match="2 values need as many groups, not 1"):
        estimate_mean([1.0, 2.0], ["q"])

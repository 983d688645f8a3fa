"""Intervals against other packages, values worked out by hand, and many experiments."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rookery.measure.intervals import (
    Estimate,
    estimate_mean,
    estimate_share,
)

EXPERIMENTS = 150


@pytest.mark.parametrize(
    ("wins", "count", "low", "high"),
    [(8, 10, 0.490162, 0.943318), (0, 10, 0.0, 0.277533), (1, 1, 0.206549, 1.0)],
)
def test_a_share_has_the_interval_of_wilson(wins: int, count: int, low: float, high: float) -> None:
    found = estimate_share(wins, count)
    assert found.value == wins / count
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_is_that_of_scipy_and_mirrored_for_losses(trial: tuple[int, int]) -> None:
    wins, count = trial
    oracle = stats.binomtest(wins, count).proportion_ci(method="wilson")
    won, lost = estimate_share(wins, count), estimate_share(count - wins, count)
    assert (won.low, won.high) == pytest.approx((oracle.low, oracle.high), abs=1e-12)
    assert (1 - lost.high, 1 - lost.low) == pytest.approx((won.low, won.high), abs=1e-12)
    assert -1e-15 <= won.low <= won.value <= won.high <= 1 + 1e-15


def test_a_tie_is_half_a_win() -> None:
    low, tied, high = estimate_share(2, 10), estimate_share(2.5, 10), estimate_share(3, 10)
    assert tied.value == 0.25
    assert low.low < tied.low < high.low
    assert low.high < tied.high < high.high


@pytest.mark.parametrize(("wins", "count"), [(0, 0), (-1, 5), (6, 5)])
def test_what_is_no_share_is_refused(wins: int, count: int) -> None:
    with pytest.raises(ValueError, match="is not a share"):
        estimate_share(wins, count)


def _held(chance: np.random.Generator, grouped: bool) -> bool:
    """Whether the interval of one experiment holds the true mean, which is 0: forty questions,
    whose four answers are as alike as those of one question are."""
    questions = chance.normal(size=40)
    values = (questions[:, None] + 0.5 * chance.normal(size=(40, 4))).ravel().tolist()
    groups = [at // 4 for at in range(160)] if grouped else None
    found = estimate_mean(values, groups, seed=int(chance.integers(2**31)))
    return found.low <= 0 <= found.high


@pytest.mark.slow
def test_the_interval_of_a_mean_holds_the_truth_95_times_in_100() -> None:
    chance = np.random.default_rng(5)
    held = sum(_held(chance, grouped=True) for _ in range(EXPERIMENTS))
    error = math.sqrt(0.95 * 0.05 / EXPERIMENTS)
    assert abs(held / EXPERIMENTS - 0.95) < 3 * error


def test_without_groups_what_belongs_together_is_trusted_too_much() -> None:
    chance = np.random.default_rng(6)
    held = sum(_held(chance, grouped=False) for _ in range(50))
    assert held < 45  # 0.95 is missed by more than three times its error


def test_a_mean_weighs_values_and_not_groups() -> None:
    found = estimate_mean([1.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b"])
    assert (found.value, found.count) == (0.75, 4)
    assert (found.low, found.high) == (0.0, 1.0)  # both of one group, at times


def test_the_bootstrap_of_few_values_is_near_that_of_all_samples() -> None:
    """Of three values there are 27 samples: their means are enumerated."""
    values = [0.0, 1.0, 5.0]
    means = sorted(Fraction(int(a + b + c), 3) for a in values for b in values for c in values)
    exact = np.quantile([float(each) for each in means], [0.025, 0.975], method="inverted_cdf")
    found = estimate_mean(values)
    assert (found.low, found.high) == pytest.approx(tuple(exact), abs=1e-9)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = np.random.default_rng(0).normal(size=50).tolist()
    assert (
        estimate_mean(values, seed=3)
        == estimate_mean(values, seed=3)
        != estimate_mean(values, seed=4)
    )


def test_one_group_alone_has_no_interval() -> None:
    assert estimate_mean([1.0, 2.0], ["q", "q"]) == Estimate(1.5, 1.5, 1.5, 2)


def test_a_mean_of_nothing_and_groups_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="no value"):
        estimate_mean([])
    with pytest.raises(ValueError, match="2 values need as many groups, not 1"):
        estimate_mean([1.0, 2.0], ["q"])

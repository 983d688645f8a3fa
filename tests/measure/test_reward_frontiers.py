"""The best of n against every set of n that there is, and against plain drawing."""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.measure.intervals import Estimate, estimate_mean
from rookery.measure.reward_frontiers import (
    compute_best_of_n_kl,
    estimate_best_of_n,
    estimate_best_of_n_curve,
    make_best_of_n_figure,
)


def enumerated(rewards: Sequence[float], validations: Sequence[float], n: int) -> float:
    """The mean over all sets of n, of which those of the highest reward are chosen alike."""
    chosen = []
    for drawn in combinations(range(len(rewards)), n):
        most = max(rewards[at] for at in drawn)
        best = [Fraction(validations[at]) for at in drawn if rewards[at] == most]
        chosen.append(sum(best) / len(best))
    return float(Fraction(sum(chosen)) / len(chosen))


@pytest.mark.parametrize("N", [1, 2, 3, 7, 12])
def test_it_is_the_mean_over_every_set_of_n(N: int) -> None:
    random = np.random.default_rng(N)
    rewards_N, validations_N = random.normal(size=N), random.normal(size=N)
    answers = rewards_N.tolist(), validations_N.tolist()
    expected = [enumerated(*answers, n) for n in range(1, N + 1)]
    assert estimate_best_of_n(rewards_N, validations_N).tolist() == pytest.approx(
        expected, abs=1e-12, rel=0
    )


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-4, 4)), min_size=1, max_size=8))
def test_answers_of_equal_reward_are_chosen_alike(answers: list[tuple[int, int]]) -> None:
    rewards, validations = zip(*answers, strict=True)
    expected = [enumerated(rewards, validations, n) for n in range(1, len(answers) + 1)]
    assert estimate_best_of_n(rewards, validations).tolist() == pytest.approx(
        expected, abs=1e-12, rel=0
    )


def test_the_order_in_which_answers_come_does_not_matter() -> None:
    answers = [(1.0, 4.0), (1.0, 0.0), (2.0, 1.0), (0.0, 3.0)]
    first = estimate_best_of_n(*zip(*answers, strict=True)).tolist()
    for order in permutations(answers):
        assert estimate_best_of_n(*zip(*order, strict=True)).tolist() == pytest.approx(
            first, abs=1e-12
        )


def test_worked_by_hand() -> None:
    """Of the pairs of 1, 2, 3 the best is 3 twice and 2 once."""
    assert estimate_best_of_n([3, 1, 2], [30, 10, 20]).tolist() == pytest.approx([20, 80 / 3, 30])
    assert estimate_best_of_n([3, 1, 2], [0, 0, 6]).tolist() == pytest.approx([2, 2, 0])


def test_of_one_it_is_the_mean_and_of_all_the_best() -> None:
    random = np.random.default_rng(5)
    rewards_N, validations_N = random.normal(size=(2, 500))
    found_N = estimate_best_of_n(rewards_N, validations_N)
    assert found_N[0] == pytest.approx(validations_N.mean(), abs=1e-12)
    assert found_N[-1] == validations_N[rewards_N.argmax()]


def test_large_numbers_are_as_exact_as_the_paper_s_fractions() -> None:
    N = 300
    validations_N = np.random.default_rng(6).normal(size=N)
    found_N = estimate_best_of_n(np.arange(N), validations_N)
    for n in (2, 16, 64, 150, 299):
        exact = sum(
            Fraction(math.comb(at, n - 1), math.comb(N, n)) * Fraction(value)
            for at, value in enumerate(validations_N.tolist())
        )
        assert found_N[n - 1] == pytest.approx(float(exact), abs=1e-12)


def test_many_questions_at_once_are_each_by_itself() -> None:
    random = np.random.default_rng(7)
    rewards_QN, validations_QN = random.integers(0, 4, (5, 9)), random.normal(size=(5, 9))
    found_QN = estimate_best_of_n(rewards_QN, validations_QN)
    assert found_QN.shape == (5, 9)
    for at in range(5):
        alone_N = estimate_best_of_n(rewards_QN[at], validations_QN[at])
        assert found_QN[at].tolist() == pytest.approx(alone_N.tolist(), abs=1e-14)


def test_drawing_comes_to_the_same() -> None:
    """Unbiased: over many samples of N = 6, its mean is that of the best of n = 3 drawn afresh."""
    random = np.random.default_rng(8)
    validations_QN = random.normal(size=(20_000, 6))
    rewards_QN = validations_QN + random.normal(size=(20_000, 6))
    foretold = estimate_best_of_n(rewards_QN, validations_QN)[:, 2].mean()
    fresh_QN = random.normal(size=(20_000, 3))
    chosen_Q = (fresh_QN + random.normal(size=(20_000, 3))).argmax(1)
    drawn = np.take_along_axis(fresh_QN, chosen_Q[:, None], 1).mean()
    assert foretold == pytest.approx(drawn, abs=4 * 0.85 / math.sqrt(20_000))


def test_every_answer_counts_so_that_it_varies_less_than_drawing() -> None:
    random = np.random.default_rng(9)
    rewards_QN = random.normal(size=(4000, 16))
    ours_Q = estimate_best_of_n(rewards_QN, rewards_QN)[:, 3]
    naive_Q = rewards_QN.reshape(4000, 4, 4).max(2).mean(1)
    one_Q = rewards_QN[:, :4].max(1)
    assert ours_Q.var() < naive_Q.var() < one_Q.var()


def test_an_answer_that_is_never_to_be_chosen_may_have_no_reward() -> None:
    assert estimate_best_of_n([-math.inf, 1.0, 2.0], [100.0, 1.0, 2.0])[
        1:
    ].tolist() == pytest.approx([(1 + 2 + 2) / 3, 2])


@pytest.mark.parametrize(
    ("rewards", "validations"), [([1, 2], [1]), ([], []), ([math.nan], [1]), ([1], [math.inf])]
)
def test_what_cannot_be_measured_is_refused(rewards: list[float], validations: list[float]) -> None:
    with pytest.raises(ValueError, match="reward"):
        estimate_best_of_n(rewards, validations)


def test_a_curve_is_the_mean_over_questions_however_many_answers_each_has() -> None:
    rewards = [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 0.0, 1.0]]
    validations = [[1.0, 2.0, 3.0], [5.0, 4.0, 3.0, 2.0, 1.0], [0.0, 1.0, 0.0]]
    each = [estimate_best_of_n(*one) for one in zip(rewards, validations, strict=True)]
    found = estimate_best_of_n_curve(rewards, validations)
    assert list(found) == [1, 2, 3]
    for n, estimate in found.items():
        assert estimate == estimate_mean([float(one[n - 1]) for one in each])
    assert list(estimate_best_of_n_curve(rewards, validations, at=(2,))) == [2]
    for wrong in ((4,), (0, 1)):
        with pytest.raises(ValueError, match="from 1 to 3"):
            estimate_best_of_n_curve(rewards, validations, at=wrong)
    with pytest.raises(ValueError, match="fewest"):
        estimate_best_of_n_curve([], [])


def test_kl_is_that_of_the_tilted_distribution() -> None:
    """The best of n of many equally likely answers, enumerated."""
    M = 200_000
    place_M = np.arange(1, M + 1) / M
    for n in (1, 2, 5, 64):
        chance_M = place_M**n - (place_M - 1 / M) ** n
        exact = float((chance_M * np.log(np.maximum(chance_M * M, 1e-300))).sum())
        assert compute_best_of_n_kl(n) == pytest.approx(exact, abs=1e-3)
    assert compute_best_of_n_kl(1) == 0


def point(value: float) -> Estimate:
    return Estimate(value, value - 0.1, value + 0.1, 20)


Curves = dict[str, dict[int, Estimate]]
CURVES: Curves = {
    "small": {1: point(0.0), 4: point(0.3), 16: point(0.4)},
    "large": {1: point(0.2), 4: point(0.6), 16: point(0.9)},
}


def test_figures_have_the_points_with_their_intervals() -> None:
    seen = {"small": {4: point(0.25)}}
    figure = make_best_of_n_figure(CURVES, "20 questions.", realised=seen)
    assert [line.name for line in figure.picture.lines] == [
        "small, estimated",
        "large, estimated",
        "small, realised",
    ]
    assert figure.picture.lines[2].style == "points"
    assert figure.rows[1] == (
        "small, estimated",
        4,
        compute_best_of_n_kl(4),
        0.3,
        0.3 - 0.1,
        0.3 + 0.1,
        20,
    )
    assert len(figure.rows) == 7
    assert [line.name for line in make_best_of_n_figure(CURVES, "").picture.lines] == [
        "small",
        "large",
    ]

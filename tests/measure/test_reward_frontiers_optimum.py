"""The optimum of reward against KL, by enumeration of small worlds and from samples of them."""

import math
from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy
from widths import half_width, holds

from rookery.measure.figures import Figure
from rookery.measure.intervals import Estimate
from rookery.measure.reward_frontiers import (
    OptimalPolicy,
    ReachedPoint,
    find_optimal_policies,
    make_frontier_figure,
    tilt_policy,
)
from rookery.measure.reward_frontiers import compute_best_of_n_kl as kl_of_best

BETAS = (0.05, 0.2, 0.5, 1.0, 3.0, 100.0)
WORLD = st.lists(st.tuples(st.floats(-3, 3), st.integers(1, 9)), min_size=2, max_size=6)


def unpacked(world: list[tuple[float, int]]) -> tuple[list[float], list[float]]:
    """The rewards of the answers of a world, and their chances."""
    rewards, weights = zip(*world, strict=True)
    return list(rewards), [each / sum(weights) for each in weights]


def sample_evenly(world: Sequence[tuple[float, int]]) -> list[float]:
    """The rewards of samples in which each answer stands as often as its chance says."""
    return [reward for reward, weight in world for _ in range(weight)]


def interpolate_reward(best: Sequence[OptimalPolicy], kl: float) -> float:
    """The optimal reward at this KL, linearly between the points."""
    points = sorted((each.kl.value, each.reward.value) for each in best)
    return float(np.interp(kl, [x for x, _ in points], [y for _, y in points]))


@given(WORLD, st.sampled_from(BETAS))
def test_the_optimum_is_the_first_policy_weighed_by_reward(
    world: list[tuple[float, int]], beta: float
) -> None:
    rewards, chances = unpacked(world)
    weights = [p * math.exp(r / beta) for r, p in zip(rewards, chances, strict=True)]
    best = [weight / sum(weights) for weight in weights]
    found = tilt_policy(sample_evenly(world), beta)
    assert found.reward == pytest.approx(float(np.dot(best, rewards)), abs=1e-12)
    assert found.kl == pytest.approx(entropy(best, chances), abs=1e-12)


@given(WORLD, st.sampled_from(BETAS), st.lists(st.floats(0.01, 1), min_size=6, max_size=6))
def test_no_policy_is_better_for_its_price(
    world: list[tuple[float, int]], beta: float, other: list[float]
) -> None:
    rewards, chances = unpacked(world)
    policy = np.array(other[: len(rewards)]) / sum(other[: len(rewards)])
    found = tilt_policy(sample_evenly(world), beta)
    theirs = float(policy @ rewards) - beta * float(entropy(policy, chances))
    assert found.reward - beta * found.kl >= theirs - 1e-9


def test_no_policy_of_a_grid_has_more_reward_at_its_kl() -> None:
    world = [(0.0, 5), (1.0, 3), (3.0, 2)]
    rewards, chances = unpacked(world)
    best = find_optimal_policies([sample_evenly(world)], np.geomspace(0.02, 500, 200).tolist())
    for one, two in product(range(1, 40), repeat=2):
        policy = np.array([one, two, 40 - one - two]) / 40
        kl = float(entropy(policy, chances)) if policy.min() > 0 else math.inf
        if best[0].kl.value <= kl <= best[-1].kl.value:
            assert float(policy @ rewards) <= interpolate_reward(best, kl) + 1e-3


def test_a_dear_nat_leaves_the_first_policy_and_a_cheap_one_the_best_answer() -> None:
    rewards = sample_evenly([(0.0, 5), (1.0, 3), (1000.0, 2)])
    dear, cheap = tilt_policy(rewards, 1e9), tilt_policy(rewards, 1e-3)
    assert dear[:2] == pytest.approx((0.0, 200.3), abs=1e-3)
    assert cheap[:2] == pytest.approx((-math.log(0.2), 1000.0), abs=1e-9)


@given(WORLD)
def test_more_kl_is_more_reward(world: list[tuple[float, int]]) -> None:
    found = find_optimal_policies([sample_evenly(world)], BETAS)
    for one, other in pairwise(found):
        assert one.beta > other.beta
        assert one.kl.value <= other.kl.value + 1e-12
        assert one.reward.value <= other.reward.value + 1e-12


def test_samples_give_the_optimum_within_the_intervals() -> None:
    # Two kinds of questions, half of each, of eight answers.
    chance = np.random.default_rng(11)
    rewards_KA = chance.normal(size=(2, 8))
    counts_KA = 1 + chance.integers(9, size=(2, 8))
    chances_KA = counts_KA / counts_KA.sum(1, keepdims=True)
    betas = [0.5, 1.0, 2.0]
    worlds = [np.repeat(*pair).tolist() for pair in zip(rewards_KA, counts_KA, strict=True)]
    exact = find_optimal_policies(worlds, betas)
    kinds = [0, 1] * 100
    sampled = [chance.choice(rewards_KA[k], p=chances_KA[k], size=2000).tolist() for k in kinds]
    for true, found in zip(exact, find_optimal_policies(sampled, betas), strict=True):
        assert found.known
        assert holds(found.kl, true.kl.value)
        assert holds(found.reward, true.reward.value)
        assert half_width(found.reward) < 0.2


def test_few_samples_do_not_know_the_optimum_far_away() -> None:
    chance = np.random.default_rng(2)
    rewards = chance.normal(size=(20, 200)).tolist()
    near, far = find_optimal_policies(rewards, [1.0, 0.1])
    assert near.known
    assert near.kl.value == pytest.approx(0.5, abs=0.1)  # of normal rewards 1 / (2 beta^2)
    assert not far.known  # where it would be 50, and is less than log 200
    assert far.kl.value < math.log(200)


def test_the_best_of_n_is_below_the_optimum_and_not_far() -> None:
    rewards = np.linspace(0, 1, 2001)
    best = find_optimal_policies([rewards.tolist()], np.geomspace(0.02, 20, 150).tolist())
    for n in (2, 4, 16):
        expected = n / (n + 1)  # of uniform rewards
        assert 0 < interpolate_reward(best, kl_of_best(n)) - expected < 0.02


@pytest.mark.parametrize(
    ("rewards", "beta"),
    [([], 1.0), ([1.0], 0.0), ([1.0, float("inf")], 1.0), ([1.0], float("nan"))],
)
def test_what_is_no_policy_is_refused(rewards: list[float], beta: float) -> None:
    with pytest.raises(ValueError):
        tilt_policy(rewards, beta)


def test_a_figure_has_runs_best_of_n_and_the_optimum_where_it_is_known() -> None:
    one = Estimate(1.0, 0.9, 1.1, 5)
    chance = np.random.default_rng(2)
    best = find_optimal_policies(chance.normal(size=(20, 200)).tolist(), [1.0, 0.1])
    figure = make_frontier_figure({"run": [ReachedPoint(2.0, one)]}, best, "says", {4: one})
    assert [(line.name, line.style) for line in figure.picture.lines] == [
        ("run", "points"),
        ("best of n", "line"),
        ("optimum", "dashed"),
    ]
    assert [row[0] for row in figure.rows] == ["run", "best of n", "optimum"]
    assert figure.rows[1][1] == pytest.approx(math.log(4) - 0.75)
    assert Figure.from_json(figure.to_json()) == figure  # no number of numpy's is in it

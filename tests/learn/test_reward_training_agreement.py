"""Agreement of rewards with people, by hand and on people who are made up."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.learn.reward_training import (
    ScoredComparison,
    fit_inverse_temperature,
    measure_preference_agreement,
    measure_rating_prediction,
)

REWARDS = st.lists(st.floats(-5, 5), min_size=2, max_size=5)


def test_four_comparisons_by_two_raters_are_as_a_hand_counts_them() -> None:
    judged = [
        ScoredComparison((1.0, 0.0), (2.0, 0.0), "ada"),  # right
        ScoredComparison((0.0, 1.0), (2.0, 0.0), "ada"),  # wrong
        ScoredComparison((0.5, 0.5), (0.0, 0.0), "ada"),  # a tie, foretold
        ScoredComparison((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), "bob"),  # right, of three
    ]
    found = measure_preference_agreement(judged)
    assert (found.comparisons, found.ties) == (4, 1)
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.credit == pytest.approx((1 + 0 + 0.5 + 1) / 4)
    sure = math.log(1 + math.exp(-2))
    of_three = math.log(2 + math.e) - 1
    assert found.loss == pytest.approx((sure + sure + 2 + math.log(2) + of_three) / 4)
    # Three bins: e / (e + 2) = 0.576 and 0.5 in one, and twice 0.881.
    even, likely = found.bins
    assert (even.comparisons, even.credit) == (2, 0.75)
    assert even.chance == pytest.approx((0.5 + math.e / (math.e + 2)) / 2)
    assert (likely.comparisons, likely.credit) == (2, 0.5)
    chance = 1 / (1 + math.exp(-2))
    assert found.error == pytest.approx(abs(even.chance - 0.75) / 2 + (chance - 0.5) / 2)
    ada, bob = found.raters
    assert (ada.by, ada.comparisons, ada.accuracy, ada.credit, ada.first) == (
        "ada",
        3,
        0.5,
        0.5,
        0.5,
    )
    assert (bob.by, bob.accuracy, bob.first) == ("bob", 1.0, 0.0)


def test_where_all_rewards_are_one_each_answer_is_as_likely_right() -> None:
    found = measure_preference_agreement(
        [ScoredComparison((1.0, 0.0, 0.0, 0.0), (3.0,) * 4, "eve")]
    )
    assert found.accuracy == 0.25
    assert found.loss == pytest.approx(math.log(4))


def test_only_ties_have_no_accuracy() -> None:
    found = measure_preference_agreement([ScoredComparison((0.5, 0.5), (1.0, 0.0), "eve")])
    assert found.accuracy is None
    assert found.raters[0].first is None
    assert found.credit == 0.5


@pytest.mark.parametrize("judged", [[], [ScoredComparison((1.0, 0.0), (math.nan, 0.0), "eve")]])
def test_nothing_and_what_is_no_number_cannot_be_measured(judged: list[ScoredComparison]) -> None:
    with pytest.raises(ValueError):
        measure_preference_agreement(judged)


@given(REWARDS, st.floats(-100, 100), st.data())
def test_what_all_rewards_have_in_common_changes_nothing(
    rewards: list[float], shift: float, data: st.DataObject
) -> None:
    best = data.draw(st.integers(0, len(rewards) - 1))
    weights = [float(place == best) for place in range(len(rewards))]
    one = ScoredComparison(weights, rewards, "eve")
    other = ScoredComparison(weights, [reward + shift for reward in rewards], "eve")
    assert one.compute_loss(1.3) == pytest.approx(other.compute_loss(1.3), abs=1e-9)
    assert sum(one.compute_probabilities(1.3)) == pytest.approx(1)
    assert one.compute_loss(1.3) == pytest.approx(
        -math.log(one.compute_probabilities(1.3)[best]), abs=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("planted", [0.25, 1.0, 3.0])
def test_the_scale_of_people_who_are_made_up_is_found_again(planted: float) -> None:
    chance = Random(1)
    judged = []
    for _ in range(4000):
        rewards = (chance.gauss(0, 1), chance.gauss(0, 1))
        first = chance.random() < 1 / (1 + math.exp(planted * (rewards[1] - rewards[0])))
        judged.append(ScoredComparison((float(first), float(not first)), rewards, "eve"))
    found = fit_inverse_temperature(judged)
    assert found == pytest.approx(planted, rel=0.1)
    assert measure_preference_agreement(judged, found).error < 0.03
    for other in (found / 2, found * 2):
        assert (
            measure_preference_agreement(judged, found).loss
            < measure_preference_agreement(judged, other).loss
        )
        assert (
            measure_preference_agreement(judged, found).error
            < measure_preference_agreement(judged, other).error
        )


def test_a_few_comparisons_that_are_all_foretold_make_nobody_certain() -> None:
    judged = [ScoredComparison((1.0, 0.0), (0.1, 0.0), "eve")] * 10
    assert 0.1 * fit_inverse_temperature(judged) == pytest.approx(
        math.log(11), abs=1e-6
    )  # 11 of 12 (Platt)


def test_a_reward_that_is_always_wrong_is_worth_next_to_nothing() -> None:
    assert fit_inverse_temperature(
        [ScoredComparison((0.0, 1.0), (1.0, 0.0), "eve")] * 10
    ) == pytest.approx(1 / 64)


def test_what_is_foretold_of_ratings_is_as_a_hand_counts_it() -> None:
    found = measure_rating_prediction([2.0, -1.0, 0.5, -3.0], [1.0, 1.0, 0.0, 0.0])
    losses = [math.log(1 + math.exp(x)) for x in (-2.0, 1.0, 0.5, -3.0)]
    assert found.loss == pytest.approx(sum(losses) / 4)
    assert found.accuracy == 0.5
    assert found.area == 0.75  # of four pairs, -1 is not above 0.5
    assert measure_rating_prediction([1.0], [1.0]).area is None
    assert measure_rating_prediction([1000.0, -1000.0], [0.0, 1.0]).loss == 1000.0

"""Choosing: the best of n, by reward or by likelihood, and when drawing more would not pay."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.answers.best_of_n import (
    ScoredChoice,
    StoppingRule,
    choose_best,
    choose_best_answer,
    choose_sequentially,
    compute_expected_gain,
    mean_logprob,
    sum_logprob,
)
from rookery.errors import Failed
from rookery.records import Answer, Completion, Question

ASKED = Question("1", "Why do crows scold?")
NAN, INFINITE = math.nan, math.inf
ANY_SCORE = st.floats() | st.sampled_from([0.0, 1.0, NAN])


def by_text(question: Question, answer: Answer) -> float:
    """The reward of an answer that says its reward."""
    assert question is ASKED
    return float(answer.text)


def saying(scores: Sequence[float]) -> list[Answer]:
    return [Answer(repr(score)) for score in scores]


@given(st.lists(ANY_SCORE, max_size=12))
def test_the_best_is_the_first_of_the_highest_finite_reward(scores: list[float]) -> None:
    finite = sorted((-score, number) for number, score in enumerate(scores) if math.isfinite(score))
    if not finite:
        with pytest.raises(Failed):
            choose_best_answer(ASKED, saying(scores), by_text)
        return
    choice = choose_best_answer(ASKED, saying(scores), by_text)
    assert choice.number == finite[0][1]
    assert choice.chosen == saying(scores)[choice.number]
    assert choice.score == -finite[0][0] == max(filter(math.isfinite, choice.scores))
    assert len(choice.scores) == len(scores)


@pytest.mark.parametrize(
    ("scores", "detail"),
    [([], "there is no answer: draw"), ([NAN, -INFINITE], "none of 2 answers has a finite score")],
)
def test_where_none_can_be_chosen_it_is_said_why(scores: list[float], detail: str) -> None:
    with pytest.raises(Failed, match=detail) as failed:
        choose_best_answer(ASKED, saying(scores), by_text)
    assert failed.value.failure.outcome == "no_score"


SHORT = Completion("Yes.", (1, 2), (-1.0, -1.0))
LONG = Completion("They remember.", (1, 2, 3, 4), (-0.75, -0.75, -0.75, -0.75))
SILENT = Completion("No idea.", (1, 2))


def test_the_mean_forgives_length_and_the_sum_does_not() -> None:
    assert (sum_logprob(SHORT), sum_logprob(LONG)) == (-2.0, -3.0)
    assert choose_best([SHORT, LONG], sum_logprob).chosen is SHORT
    assert choose_best([SHORT, LONG], mean_logprob).chosen is LONG


def test_the_likelihood_of_an_episode_is_that_of_all_its_tokens() -> None:
    assert sum_logprob(SHORT, LONG) == -5.0
    assert mean_logprob(SHORT, LONG) == pytest.approx(-5 / 6)


def test_what_has_no_log_probabilities_is_not_the_likeliest() -> None:
    for likelihood in (sum_logprob, mean_logprob):
        assert math.isnan(likelihood(SILENT))
        assert math.isnan(likelihood(LONG, SILENT))
        assert choose_best([SILENT, SHORT], likelihood).chosen is SHORT
        with pytest.raises(Failed):
            choose_best([SILENT, SILENT], likelihood)


def gain_by_summing(scores: Sequence[float], spread: float, weight: int) -> float:
    """The mean of what Student's t exceeds the best by, its density summed over thin slices."""
    size = len(scores)
    mean = sum(scores) / size
    freedom = size - 1 + (weight if spread else 0)
    squares = sum((score - mean) ** 2 for score in scores) + (weight if spread else 0) * spread**2
    scale = math.sqrt(squares / freedom * (1 + 1 / size))
    height = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
    slices, total = 40_000, 0.0
    for number in range(slices):
        share = (number + 0.5) / slices
        over, width = share / (1 - share), 1 / (1 - share) ** 2 / slices
        t = (max(scores) - mean) / scale + over
        total += over * height * (1 + t * t / freedom) ** (-(freedom + 1) / 2) * width
    return total * scale


@pytest.mark.parametrize("spread", [0.0, 0.7])
@pytest.mark.parametrize(
    "scores", [(1.0, 2.0, 4.0), (0.1, 0.2, 0.2, 0.9), (5.0, 1.0, -3.0, 2.0, 2.0, 0.0, 1.0, 4.0)]
)
def test_the_expected_gain_is_that_of_students_t(scores: tuple[float, ...], spread: float) -> None:
    gain = compute_expected_gain(scores, spread, 3)
    assert gain == pytest.approx(gain_by_summing(scores, spread, 3), rel=1e-3)


def test_the_expected_gain_says_how_little_it_knows() -> None:
    assert (
        compute_expected_gain([])
        == compute_expected_gain([1.0])
        == compute_expected_gain([1.0, 3.0])
        == INFINITE
    )
    assert compute_expected_gain([2.0, 2.0, 2.0]) == 0
    assert compute_expected_gain([2.0, 2.0, 2.0], spread=1.0) > 0.1
    known = [1.0, 2.0, 3.0, 4.0]
    assert (
        compute_expected_gain([*known, NAN, NAN, NAN, -INFINITE])
        == compute_expected_gain(known) / 2
    )


@given(st.lists(st.integers(-50, 50).map(float), min_size=4, max_size=9), st.integers(-9, 9))
def test_the_expected_gain_moves_and_grows_with_the_scale(scores: list[float], by: int) -> None:
    gain = compute_expected_gain(scores)
    assert compute_expected_gain([score + by for score in scores]) == pytest.approx(gain, abs=1e-9)
    assert compute_expected_gain([3 * score for score in scores]) == pytest.approx(
        3 * gain, abs=1e-9
    )


Source = Callable[[int], Sequence[Answer]]


def score(answer: Answer) -> float:
    return by_text(ASKED, answer)


def source(scores: Sequence[float], sizes: list[int]) -> Source:
    """Answers with these rewards, in order; how many were asked for at a time goes into `sizes`."""
    remaining = saying(scores)

    def sample(size: int) -> Sequence[Answer]:
        sizes.append(size)
        drawn = remaining[:size]
        del remaining[:size]
        return drawn

    return sample


def draw_best(
    scores: Sequence[float], settings: StoppingRule
) -> tuple[ScoredChoice[Answer], list[int]]:
    asked: list[int] = []
    return choose_sequentially(source(scores, asked), score, settings), asked


RISING = [float(number) for number in range(20)]


def test_what_costs_nothing_is_drawn_to_the_end() -> None:
    found, asked = draw_best(RISING, StoppingRule(cost=0.0, most=20, batch=8))
    assert asked == [4, 8, 8]
    assert (found.number, found.score, found.stop, found.saved) == (19, 19.0, "most", 0.0)


def test_what_costs_too_much_is_drawn_no_more_than_least() -> None:
    found, asked = draw_best(RISING, StoppingRule(cost=100.0, most=20, least=5))
    assert asked == [5]
    assert (found.number, found.stop, found.saved) == (4, "enough", 0.75)
    every, _ = draw_best(RISING, StoppingRule(cost=100.0, most=5, least=5))
    assert (every.stop, every.saved) == ("most", 0.0)


def test_answers_that_are_all_alike_are_not_drawn_again_and_again() -> None:
    found, _ = draw_best([2.0] * 64, StoppingRule(cost=0.01))
    assert (len(found.scores), found.number, found.stop) == (4, 0, "enough")
    lucky, _ = draw_best([0.0] * 8 + [1.0] * 56, StoppingRule(cost=0.02, spread=0.3))
    assert lucky.score == 1.0


def test_a_source_that_runs_dry_ends_the_search() -> None:
    found, asked = draw_best(RISING[:6], StoppingRule(cost=0.0, most=20, batch=4))
    assert asked == [4, 4]
    assert (found.number, found.stop, found.saved) == (5, "exhausted", 0.7)
    with pytest.raises(Failed, match="there is no answer"):
        draw_best([], StoppingRule(cost=0.0))


def test_a_source_that_gives_too_many_is_cut_short() -> None:
    settings = StoppingRule(cost=0.0, most=6, least=6)
    found = choose_sequentially(lambda size: saying(RISING), score, settings)
    assert (len(found.scores), found.score) == (6, 5.0)


def test_rewards_that_are_no_numbers_are_drawn_past() -> None:
    found, _ = draw_best([NAN] * 10 + RISING, StoppingRule(cost=0.1, most=20))
    assert found.number >= 10
    with pytest.raises(Failed, match="none of 20 answers has a finite score"):
        draw_best([NAN] * 30, StoppingRule(cost=0.1, most=20))


@pytest.mark.parametrize("wrong", [{"most": 0}, {"least": 0}, {"batch": 0}])
def test_settings_under_which_nothing_is_drawn_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        StoppingRule(0.1, **wrong)


@given(st.lists(ANY_SCORE, max_size=30), st.floats(0, 3), st.integers(1, 9), st.integers(1, 9))
def test_the_best_of_what_was_drawn_is_chosen(
    scores: list[float], cost: float, least: int, batch: int
) -> None:
    settings = StoppingRule(cost, most=20, least=least, batch=batch)
    try:
        found, asked = draw_best(scores, settings)
    except Failed:
        return
    assert repr(found.scores) == repr(tuple(scores[: len(found.scores)]))
    assert found.number == choose_best_answer(ASKED, saying(found.scores), by_text).number
    assert len(found.scores) == min(sum(asked), len(scores)) <= 20
    assert found.saved == pytest.approx(1 - len(found.scores) / 20)


# What is saved and what it costs, for rewards that are normal with spreads that differ by question.

COST = 0.03
MOST = 64


def questions(count_of: int) -> list[list[float]]:
    random = Random(7)
    spreads = [math.exp(random.gauss(0, 0.5)) for _ in range(count_of)]
    return [[random.gauss(0, spread) for _ in range(MOST)] for spread in spreads]


def net(rewards: Sequence[float], drawn_of_each: float) -> float:
    return sum(rewards) / len(rewards) - COST * drawn_of_each


def test_stopping_early_loses_less_reward_than_it_saves() -> None:
    """Better than any fixed n, of which nobody would know the best beforehand."""
    every = questions(300)
    fixed = {n: net([max(scores[:n]) for scores in every], n) for n in range(1, MOST + 1)}
    ways = [draw_best(scores, StoppingRule(COST, MOST, spread=1.0))[0] for scores in every]
    size = sum(len(found.scores) for found in ways) / len(ways)
    ours = net([found.score for found in ways], size)
    lost = sum(max(s) - found.score for s, found in zip(every, ways, strict=True)) / len(every)
    assert sum(found.saved for found in ways) / len(ways) > 0.6
    assert lost < 0.7
    assert ours > max(fixed.values())
    assert ours > fixed[MOST] + 0.5


def test_drawing_is_cut_short_the_sooner_the_dearer_it_is() -> None:
    sizes = [
        sum(len(draw_best(scores, StoppingRule(cost))[0].scores) for scores in questions(40))
        for cost in (0.3, 0.1, 0.03, 0.01, 0.0)
    ]
    assert all(a < b for a, b in pairwise(sizes))
    assert sizes[-1] == 40 * MOST

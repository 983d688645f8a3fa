"""Choosing: the best of n, by reward or by likelihood."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rookery.answers.best_of_n import (
    choose_best_answer,
    mean_logprob,
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


def test_the_likelihood_is_the_mean_over_tokens_so_that_length_is_forgiven() -> None:
    assert (mean_logprob(SHORT), mean_logprob(LONG)) == (-1.0, -0.75)
    assert math.isnan(mean_logprob(SILENT))

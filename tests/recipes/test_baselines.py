"""Rankings of a forum's answers that are made without a model."""

import math

import pytest

from recipes.baselines import score_by_length, score_by_time
from recipes.vote_comparisons import ForumPost, ForumThread
from rookery.measure.ranking import measure_rankings


def test_answers_of_a_forum_are_ranked_by_length_and_time() -> None:
    thread = ForumThread(
        "1",
        "Why?",
        (
            ForumPost("Because it is so.", 3, "2014-01-21T12:00:00"),
            ForumPost("No.", 9, "2014-01-21T12:30:00+01:00"),
            ForumPost("Nobody knows when this was said.", 5),
        ),
    )
    assert score_by_length(thread) == [17, 3, 32]
    assert score_by_time(thread)[1] == score_by_time(thread)[0] + 1800  # half an hour earlier
    assert score_by_time(thread)[2] == -math.inf
    found = measure_rankings([[post.votes for post in thread.answers]], [score_by_time(thread)])
    assert found["pairs"].value == pytest.approx(2 / 3)
    assert found["spearman"].value == pytest.approx(0.5)

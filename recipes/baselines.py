"""Baselines that need no training: rankings of a forum's answers without a model."""

import math

from recipes.vote_comparisons import ForumThread


def score_by_length(thread: ForumThread) -> list[float]:
    """Return a score for each answer on a forum: its number of characters."""
    return [float(len(post.text)) for post in thread.answers]


def score_by_time(thread: ForumThread) -> list[float]:
    """Return a score for each answer on a forum, higher for those posted earlier.

    Answers of unknown time come last. A time without a zone is UTC.
    """
    times = (post.timestamp for post in thread.answers)
    return [-math.inf if time is None else -time for time in times]

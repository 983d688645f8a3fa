"""Measures of the recipes, by hand, by brute force and beside scipy's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from widths import get_ends, half_width, holds

from recipes.measures import (
    CopiedStretch,
    estimate_auroc,
    estimate_best_of_n_gain,
    find_longest_stretch,
    make_copy_map_figure,
)
from rookery.measure.intervals import Estimate
from rookery.measure.reward_frontiers import estimate_best_of_n_curve
from rookery.quotes.word_overlap import split_words

SOURCE = "Crows hide seeds in autumn. A crow remembers where it hid them. Jays do so too."
TEXTS = st.lists(st.sampled_from("crow jay of oak hid".split()), max_size=9).map(" ".join)


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


def test_a_gain_is_compared_question_by_question() -> None:
    """Questions differ much more than answers, which widens the curve and not the gain."""
    random = np.random.default_rng(10)
    rewards_QN = random.normal(size=(50, 8)) + 20 * random.normal(size=(50, 1))
    rows = rewards_QN.tolist()
    gained, reached = estimate_best_of_n_gain(rows, rows), estimate_best_of_n_curve(rows, rows)
    assert gained[1] == Estimate(0, None, None, 50)
    assert gained[8].value == pytest.approx(reached[8].value - reached[1].value)
    assert half_width(gained[8]) < half_width(reached[8]) / 10
    # The greatest of 8 normal values is 1.4236 on average.
    assert holds(gained[8], 1.4236)


def longest_by_force(text: str, source: str) -> CopiedStretch:
    words, source_words = split_words(text), split_words(source)
    each = [
        CopiedStretch(i, j, length)
        for i in range(len(words))
        for j in range(len(source_words))
        for length in range(1, len(words) - i + 1)
        if words[i : i + length] == source_words[j : j + length]
    ]
    return min(
        each, key=lambda one: (-one.length, one.said, one.source), default=CopiedStretch(0, 0, 0)
    )


@given(TEXTS, TEXTS)
def test_the_longest_stretch_is_that_of_brute_force(said: str, source: str) -> None:
    assert find_longest_stretch(said, source) == longest_by_force(said, source)


def test_words_that_a_long_source_has_often_count_too() -> None:
    assert find_longest_stretch("rook of the", "of the oak jay " * 100) == CopiedStretch(1, 0, 2)


def test_places_are_points_of_a_row_each_shorter_sources_first() -> None:
    said = ["Crows hide seeds. It hides them: it hid them.", "a jay flew by"]
    figure = make_copy_map_figure(said, [SOURCE, "a jay flew"], "two texts")
    first, last, ends = figure.picture.lines
    assert first.points == ((0, 0), (0, 1), (9, 1))
    assert last.points == ((2, 0), (2, 1), (11, 1))
    assert ends.points == ((3, 0), (16, 1))
    assert figure.rows == ((0, 3, 4, 2, 1), (1, 16, 9, 4, 2))


def test_what_stands_apart_in_either_text_is_two_stretches() -> None:
    apart = make_copy_map_figure(["oak jay owl owl jay hid"], ["oak jay owl jay hid"], "one text")
    assert apart.rows == ((0, 5, 6, 4, 2),)
    assert apart.picture.lines[0].points == ((0, 0), (2, 0))


def test_a_text_that_copies_nothing_has_an_empty_row() -> None:
    assert make_copy_map_figure(["owl"], [SOURCE], "one text").rows == ((0, 16, 1, 0, 0),)

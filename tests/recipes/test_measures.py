"""Measures of the recipes, by hand, by brute force and beside scipy's."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from widths import half_width

from recipes.measures import (
    CopiedStretch,
    estimate_area_over_runs,
    estimate_auroc,
    estimate_best_of_n_gain,
    estimate_mean_over_runs,
    find_longest_stretch,
    make_copy_map_figure,
)
from rookery.measure.coverage import ScoredAnswers, estimate_coverage_area
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.measure.reward_frontiers import estimate_best_of_n_curve
from rookery.quotes.word_overlap import split_words

SOURCE = "Crows hide seeds in autumn. A crow remembers where it hid them. Jays do so too."
TEXTS = st.lists(st.sampled_from("crow jay of oak hid".split()), max_size=9).map(" ".join)


def test_an_area_by_hand() -> None:
    assert estimate_auroc([3, 1], [2, 0]).value == 0.75
    assert estimate_auroc([1], [1]) == Estimate(0.5, 0.5, 0.5, 2)
    # Good ones lie above 2/3, 1 and 1 of the bad ones, bad ones below 1, 1 and 2/3 of the good.
    found = estimate_auroc([2, 4, 5], [0, 1, 3])
    assert found.value == pytest.approx(8 / 9)
    assert found.low == pytest.approx(8 / 9 - 1.959964 * math.sqrt(2 * (1 / 27) / 3))
    assert (found.high, found.count) == (1.0, 6)
    with pytest.raises(ValueError, match="good and a bad"):
        estimate_auroc([1.0], [])


scores = st.lists(st.integers(-3, 3), min_size=1, max_size=30)


@given(scores, scores)
def test_an_area_is_the_statistic_of_mann_and_whitney(good: list[int], bad: list[int]) -> None:
    found = estimate_auroc(good, bad)
    wanted = stats.mannwhitneyu(good, bad, method="asymptotic").statistic / len(good) / len(bad)
    assert found.value == pytest.approx(wanted)
    assert 0 <= found.low <= found.value <= found.high <= 1
    turned = estimate_auroc([-each for each in good], [-each for each in bad])
    mirrored = 1 - found.high, 1 - found.low
    assert (turned.low, turned.high) == pytest.approx(mirrored)


def test_the_interval_of_an_area_holds_it_as_often_as_it_says() -> None:
    chance, true = np.random.default_rng(0), stats.norm.cdf(1 / math.sqrt(2))
    held = 0
    for _ in range(400):
        found = estimate_auroc(chance.normal(1, 1, 60).tolist(), chance.normal(0, 1, 40).tolist())
        held += found.low <= true <= found.high
    assert 0.91 < held / 400 < 0.98


def test_the_area_of_one_run_is_its_area_and_of_two_their_mean() -> None:
    good = [float(at % 3 == 0) for at in range(30)]
    told, lot = ScoredAnswers(good, good), ScoredAnswers([0.0] * 30, good)
    one, other = (estimate_coverage_area(each).value for each in (told, lot))
    assert estimate_area_over_runs([told]).value == pytest.approx(one)
    both = estimate_area_over_runs([told, lot])
    assert both.value == pytest.approx((one + other) / 2)
    assert both.low <= other + 0.2 < one <= both.high + 0.1  # either run may be drawn twice
    gain = estimate_area_over_runs([told, told], [lot.scores, lot.scores])
    assert gain.value == pytest.approx(one - other)
    assert estimate_area_over_runs([lot], [lot.scores]).high == 0
    with pytest.raises(ValueError, match="an answer to each question"):
        estimate_area_over_runs([told, ScoredAnswers([1.0], [1.0])])


def test_a_gain_is_compared_question_by_question() -> None:
    """Questions differ much more than answers, which widens the curve and not the gain."""
    random = np.random.default_rng(10)
    rewards_QN = random.normal(size=(50, 8)) + 20 * random.normal(size=(50, 1))
    rows = rewards_QN.tolist()
    gained, reached = estimate_best_of_n_gain(rows, rows), estimate_best_of_n_curve(rows, rows)
    assert gained[1] == Estimate(0, 0, 0, 50)
    assert gained[8].value == pytest.approx(reached[8].value - reached[1].value)
    assert half_width(gained[8]) < half_width(reached[8]) / 10
    # The greatest of 8 normal values is 1.4236 on average.
    assert gained[8].low < 1.4236 < gained[8].high


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


def test_runs_and_groups_are_drawn_anew_for_each_sample() -> None:
    """Of two runs with two groups each there are sixteen equally likely samples. The lowest is the
    first run's first value alone, the highest the second's second."""
    found = estimate_mean_over_runs([[0.0, 1.0], [2.0, 4.0]], [["a", "b"], ["a", "b"]])
    assert found == Estimate(1.75, 0.0, 4.0, 4)


def test_what_runs_differ_in_is_in_the_interval_and_more_groups_do_not_narrow_it() -> None:
    groups = [[f"{at}" for at in range(400)]] * 2
    found = estimate_mean_over_runs([[0.0] * 400, [1.0] * 400], groups)
    assert (found.value, found.low, found.high) == (0.5, 0.0, 1.0)


def test_of_one_run_the_interval_is_that_of_its_groups() -> None:
    values, groups = [0.0, 1.0, 1.0, 0.0, 1.0], ["a", "a", "b", "c", "d"]
    assert estimate_mean_over_runs([values], [groups]) == estimate_mean(values, groups)


def test_a_group_that_one_run_lacks_counts_where_it_is() -> None:
    found = estimate_mean_over_runs([[1.0], [3.0, 5.0]], [["a"], ["a", "b"]])
    assert (found.value, found.count) == (3.0, 3)
    assert 1.0 <= found.low < found.high <= 5.0
    with pytest.raises(ValueError, match="no value"):
        estimate_mean_over_runs([[], []], [[], []])

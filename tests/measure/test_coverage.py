"""Curves of coverage and quality, by hand, by brute force, and beside scikit-learn's."""

from itertools import pairwise, permutations
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from widths import half_width, holds

from rookery.measure.coverage import (
    MAX_LINE_POINTS,
    MIN_COVERAGE_DRAWN,
    ScoredAnswers,
    compute_coverage_curve,
    estimate_coverage_area,
    estimate_quality_at,
    make_coverage_figure,
)
from rookery.measure.figures import Figure
from rookery.measure.intervals import Estimate, estimate_share

FEW = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=6)


def scored(pairs: list[tuple[int, bool]]) -> ScoredAnswers:
    return ScoredAnswers([score for score, _ in pairs], [good for _, good in pairs])


def by_lot(pairs: list[tuple[int, bool]]) -> np.ndarray:
    """The quality of the 1, 2, ... N best, the mean over every order that the scores allow."""
    orders = [
        [good for _, good in order]
        for order in permutations(pairs)
        if all(one[0] >= other[0] for one, other in pairwise(order))
    ]
    counts = np.arange(1, len(pairs) + 1)
    found: np.ndarray = np.mean([np.cumsum(order) / counts for order in orders], axis=0)
    return found


@given(FEW)
def test_a_curve_is_what_each_threshold_brings(pairs: list[tuple[int, bool]]) -> None:
    found = compute_coverage_curve(scored(pairs))
    assert [each.threshold for each in found] == sorted({s for s, _ in pairs}, reverse=True)
    for each in found:
        kept = [good for score, good in pairs if score >= each.threshold]
        assert each.coverage == pytest.approx(len(kept) / len(pairs), abs=1e-12)
        assert each.quality == estimate_share(sum(kept), len(kept))


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=40))
def test_qualities_are_the_precisions_of_scikit_learn(pairs: list[tuple[int, bool]]) -> None:
    if not any(good for _, good in pairs):
        return  # it warns that recall means nothing
    from sklearn.metrics import precision_recall_curve  # takes seconds

    scores, good = scored(pairs)
    precision, _, thresholds = precision_recall_curve(good, scores)
    ours = {
        each.threshold: each.quality.value
        for each in compute_coverage_curve(ScoredAnswers(scores, good))
    }
    theirs = dict(zip(thresholds.tolist(), precision.tolist(), strict=False))
    assert ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.slow
@given(FEW)
@settings(max_examples=25)
def test_equal_scores_are_a_lot(pairs: list[tuple[int, bool]]) -> None:
    expected = by_lot(pairs)
    for number, quality in enumerate(expected, 1):
        found = estimate_quality_at(scored(pairs), number / len(pairs))
        assert found.value == pytest.approx(quality, abs=1e-12)
        assert found.count == number
    assert estimate_coverage_area([scored(pairs)]).value == pytest.approx(
        expected.mean(), abs=1e-12
    )


def test_an_area_by_hand() -> None:
    assert estimate_coverage_area(
        [ScoredAnswers([4, 3, 2, 1], [1, 1, 0, 0])]
    ).value == pytest.approx((1 + 1 + 2 / 3 + 0.5) / 4)
    assert estimate_coverage_area(
        [ScoredAnswers([1, 2, 3, 4], [1, 1, 0, 0])]
    ).value == pytest.approx((1 / 3 + 0.5) / 4)


def test_a_share_is_rounded_up_to_whole_answers() -> None:
    answers = ScoredAnswers([3, 2, 1], [1, 0, 0])
    assert estimate_quality_at(answers, 0.01).value == 1.0
    assert estimate_quality_at(answers, 1 / 3).value == 1.0
    assert estimate_quality_at(answers, 0.34) == estimate_share(1, 2)


def test_only_the_order_of_scores_counts() -> None:
    chance = np.random.default_rng(1)
    scores, good = chance.normal(size=50), (chance.random(50) < 0.5).tolist()
    plain, bent = (ScoredAnswers(each.tolist(), good) for each in (scores, np.exp(3 * scores)))
    assert estimate_coverage_area([plain]) == estimate_coverage_area([bent])
    assert [each.quality for each in compute_coverage_curve(plain)] == [
        each.quality for each in compute_coverage_curve(bent)
    ]


def test_the_area_of_several_runs_is_their_mean() -> None:
    good = [float(at % 3 == 0) for at in range(30)]
    told, lot = ScoredAnswers(good, good), ScoredAnswers([0.0] * 30, good)
    one, other = (estimate_coverage_area([each]) for each in (told, lot))
    assert estimate_coverage_area([told, lot]).value == pytest.approx((one.value + other.value) / 2)
    gain = estimate_coverage_area([told, told], [lot, lot])
    assert gain.value == pytest.approx(one.value - other.value)
    assert gain.count == 60
    # Runs that are alike say no more than one of them.
    assert half_width(gain) == pytest.approx(half_width(estimate_coverage_area([told], [lot])))
    assert estimate_coverage_area([lot], [lot]) == Estimate(0.0, None, None, 30)
    with pytest.raises(ValueError, match="an answer to each question"):
        estimate_coverage_area([told, ScoredAnswers([1.0], [1.0])])


@pytest.mark.slow
def test_the_interval_of_an_area_holds_the_true_one_about_95_times_in_100() -> None:
    chance = np.random.default_rng(3)
    held = 0
    for _ in range(100):
        scores = chance.random(80)
        good = (chance.random(80) < scores).tolist()
        found = estimate_coverage_area([ScoredAnswers(scores.tolist(), good)])
        held += holds(found, 0.75)  # the mean of (1 + threshold) / 2
    assert held >= 89


@pytest.mark.parametrize(
    ("scores", "good"),
    [([], []), ([1.0], [1.0, 0.0]), ([float("nan")], [1.0]), ([1.0], [2.0]), ([1.0], [-0.5])],
)
def test_what_is_no_score_or_label_is_refused(scores: list[float], good: list[float]) -> None:
    with pytest.raises(ValueError):
        compute_coverage_curve(ScoredAnswers(scores, good))
    with pytest.raises(ValueError):
        estimate_coverage_area([ScoredAnswers(scores, good)])


def test_a_figure_has_a_line_and_a_row_for_each_score() -> None:
    chance = np.random.default_rng(0)
    scores, good = chance.random(1000).tolist(), (chance.random(1000) < 0.6).tolist()
    figure = make_coverage_figure(
        {"reward": ScoredAnswers(scores, good), "flat": ScoredAnswers([0.0] * 1000, good)},
        "says",
    )
    reward, flat = figure.picture.lines
    assert len(reward.points) <= MAX_LINE_POINTS + 1
    assert reward.points[0][0] > MIN_COVERAGE_DRAWN  # where it would jump with each answer
    assert reward.points[-1] == pytest.approx((1.0, fmean(good)))
    assert flat.points == reward.points[-1:]
    assert [row[0] for row in figure.rows] == ["reward", "flat"]
    assert figure.rows[0][5] == figure.rows[1][5] == pytest.approx(fmean(good))
    assert Figure.from_json(figure.to_json()) == figure  # no number of numpy's is in it

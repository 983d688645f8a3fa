"""Coverage against quality: selective answering, where the lowest scores are declined.

Scores are compared by their curves and the area under them (GopherCite, figures 4 and 11).
`evidence.calibration` chooses the threshold itself.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rookery.measure.figures import Figure, FigureLine, FigurePicture, TableCell, make_line
from rookery.measure.intervals import (
    MIN_GROUPS,
    Estimate,
    compute_jackknife_reach,
    estimate_share,
    list_jackknife_rests,
)
from rookery.records import Record

MAX_LINE_POINTS = 200
"""most points of a line in a picture"""
TABLED_COVERAGES = (1.0, 0.9, 0.7, 0.5, 0.3)
"""coverages in the table"""
AnswerIndices = np.ndarray | slice
"""indices of answers, possibly repeated; a slice for all"""

MIN_COVERAGE_DRAWN = 0.02
"""coverage below which a line is not drawn, since single answers would make it jump"""


class ScoredAnswers(NamedTuple):
    """Scores of answers, and how good each is, from 0 to 1."""

    scores: Sequence[float]
    good: Sequence[float]


class CoveragePoint(Record, frozen=True):
    """Coverage and quality at one threshold."""

    threshold: float
    coverage: float
    """share of the answers whose score reaches the threshold"""
    quality: Estimate
    """share of these that is good"""


def compute_coverage_curve(scored: ScoredAnswers) -> tuple[CoveragePoint, ...]:
    """Return coverage and quality at every distinct score, the highest threshold first.

    Intervals are exact, pointwise. Raises ValueError without an answer, if scores are not
    finite, or if there is not one label from 0 to 1 for each score.
    """
    ranked = group_by_score(scored)
    counts_T, good_T = _sum_tiers(ranked)
    total = len(ranked.good_N)
    steps = zip(*(each.tolist() for each in (ranked.thresholds_T, counts_T, good_T)), strict=True)
    return tuple(
        CoveragePoint(threshold, count / total, estimate_share(min(good, count), count))
        for threshold, count, good in steps
    )


def estimate_quality_at(scored: ScoredAnswers, coverage: float) -> Estimate:
    """Return the quality of the best-scored answers that make up this share of all (rounded up).

    Among equal scores the answered ones are drawn by lot, and this is the expectation. The interval
    is exact. Raises ValueError as `compute_coverage_curve`, and if coverage is not in (0, 1].
    """
    ranked = group_by_score(scored)
    count = _count_answered(coverage, len(ranked.good_N))
    return estimate_share(min(count * float(compute_qualities(ranked)[count - 1]), count), count)


def estimate_coverage_area(
    runs: Sequence[ScoredAnswers], less: Sequence[ScoredAnswers] = ()
) -> Estimate:
    """Return the area under the curve, the mean quality over all numbers of answers given; of
    several runs that answer the same questions in the same order, the mean.

    A random score has the quality of all answers; 1 minus the area is the area under the
    risk-coverage curve. Equal scores are treated as in `estimate_quality_at`. With `less`, other
    scores of each run's answers, it is the area less theirs. The interval is the jackknife's over
    questions. Raises ValueError as `compute_coverage_curve`, and if runs have different numbers of
    answers.
    """
    count = len(runs[0].good)
    if any(len(each.good) != count for each in runs):
        raise ValueError("every run has an answer to each question, in the same order")
    ranked, lower = ([group_by_score(each) for each in some] for some in (runs, less))

    def average_areas(at: AnswerIndices) -> float:
        areas = [[compute_qualities(one, at).mean() for one in some] for some in (ranked, lower)]
        return float(np.mean(areas[0]) - (np.mean(areas[1]) if less else 0.0))

    value, half = average_areas(slice(None)), 0.0
    if count >= MIN_GROUPS:
        without = [average_areas(rest) for rest in list_jackknife_rests(count)]
        half = float(compute_jackknife_reach(without))
    if half < 1e-12:
        return Estimate(value, None, None, count * len(runs))
    least = -1.0 if less else 0.0
    return Estimate(value, max(least, value - half), min(1.0, value + half), count * len(runs))


def make_coverage_figure(scored: Mapping[str, ScoredAnswers], says: str) -> Figure:
    """Make the figure of the curves of named scores, with their areas and a few points as a table.

    `says` begins the caption. Points of very small coverage are not drawn, and of a long curve only
    some are. Raises ValueError as `compute_coverage_curve`.
    """
    lines = [_make_line(each, compute_coverage_curve(answers)) for each, answers in scored.items()]
    return Figure(
        "coverage",
        "Quality of what is answered, by how much is answered",
        f"{says} Intervals of curves are exact, each for itself; of areas, the jackknife's.",
        (
            *("score", "answers", "area", "low", "high"),
            *(f"quality at {at:.0%}" for at in TABLED_COVERAGES),
        ),
        tuple(_make_row(each, answers) for each, answers in scored.items()),
        FigurePicture("curves", tuple(lines), "share answered", "share of these that is good"),
        "GopherCite, figures 4 and 11",
    )


class _ScoreTiers(NamedTuple):
    """Answers in tiers of equal scores, the highest first."""

    thresholds_T: np.ndarray
    tiers_N: np.ndarray
    """tier of each answer"""
    good_N: np.ndarray


def group_by_score(scored: ScoredAnswers) -> _ScoreTiers:
    """Group answers in tiers of equal scores, the highest tier first.

    Raises ValueError as `compute_coverage_curve`.
    """
    scores_N, good_N = (np.asarray(each, dtype=float) for each in scored)
    if not len(scores_N) or scores_N.shape != good_N.shape:
        raise ValueError(f"{len(scores_N)} scores and {len(good_N)} labels: give each score one")
    if not np.isfinite(scores_N).all() or not ((good_N >= 0) & (good_N <= 1)).all():
        raise ValueError("scores are finite numbers, and labels numbers from 0 to 1")
    lowest_first_T, tiers_N = np.unique(-scores_N, return_inverse=True)
    return _ScoreTiers(-lowest_first_T, tiers_N, good_N)


def _count_answered(coverage: float, of: int) -> int:
    if not 0 < coverage <= 1:
        raise ValueError(f"coverage lies above 0 and is at most 1, not {coverage}")
    return max(1, math.ceil(coverage * of - 1e-9))


def _sum_tiers(
    ranked: _ScoreTiers, at: AnswerIndices = slice(None)
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many of these answers reach each threshold, and how many of them are good."""
    tiers, size = ranked.tiers_N[at], len(ranked.thresholds_T)
    good_T = np.bincount(tiers, ranked.good_N[at], size)
    return np.bincount(tiers, minlength=size).cumsum(), good_T.cumsum()


def compute_qualities(ranked: _ScoreTiers, at: AnswerIndices = slice(None)) -> np.ndarray:
    """Return the quality of the 1, 2, ... N best-scored of these answers.

    Within a tier each answer counts as good as the tier's mean, so that the number of good ones
    grows linearly.
    """
    counts_T, good_T = _sum_tiers(ranked, at)
    numbers_N = np.arange(1.0, counts_T[-1] + 1)
    found_N = np.interp(numbers_N, np.append(0, counts_T), np.append(0.0, good_T))
    qualities_N: np.ndarray = found_N / numbers_N
    return qualities_N


def _make_line(name: str, points: Sequence[CoveragePoint]) -> FigureLine:
    seen = [point for point in points if point.coverage > MIN_COVERAGE_DRAWN]
    step = math.ceil(len(seen) / MAX_LINE_POINTS)
    shown = [*seen[: len(seen) - 1 : step], seen[-1]]
    return make_line(name, ((point.coverage, point.quality) for point in shown))


def _make_row(name: str, scored: ScoredAnswers) -> tuple[TableCell, ...]:
    whole = estimate_coverage_area([scored])
    qualities = (estimate_quality_at(scored, at).value for at in TABLED_COVERAGES)
    return (name, whole.count, whole.value, whole.low, whole.high, *qualities)

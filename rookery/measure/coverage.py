"""Coverage against quality: how good answers are when those that score least are declined.

It knows nothing of where scores and labels come from, nor which threshold keeps a promise: that is
`draft.decline`'s. Several scores are told apart by their curves and the area under them
(GopherCite, figures 4 and 11).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rookery.draft.curve import FEWEST
from rookery.measure.figure import Cell, Figure, Line, Picture
from rookery.measure.interval import LEVEL, Estimate, share
from rookery.records import Record

DRAWS = 1000
"""samples of the bootstrap"""
DRAWN = 200
"""points of a line in a picture"""
TABLED = (1.0, 0.9, 0.7, 0.5, 0.3)
"""coverages that a table shows"""
Draw = np.ndarray | slice
"""numbers of some answers, repeated or not"""


class Scored(NamedTuple):
    """Answers, each with its score and with how good it is, from 0 to 1."""

    scores: Sequence[float]
    good: Sequence[float]


class Attempted(Record, frozen=True):
    """What a threshold brings."""

    threshold: float
    coverage: float
    """share of the answers whose score reaches it"""
    quality: Estimate
    """share of these that is good"""


def curve(scored: Scored) -> tuple[Attempted, ...]:
    """Every threshold that makes a difference, the highest first; equal scores stand or fall
    together. Intervals are Wilson's, each for itself. Raises ValueError without an answer, where
    labels are not one a score, or where one of them is no number from 0 to 1."""
    ranked = _ranked(scored)
    counts_T, good_T = _sums(ranked)
    total = len(ranked.good_N)
    steps = zip(*(each.tolist() for each in (ranked.thresholds_T, counts_T, good_T)), strict=True)
    return tuple(
        Attempted(threshold, count / total, share(min(good, count), count))
        for threshold, count, good in steps
    )


def quality_at(scored: Scored, coverage: float) -> Estimate:
    """The quality of the best-scored answers that make up this share of all (rounded up).

    Among equal scores it is decided by lot who is answered: it is the mean over all lots. The
    interval is Wilson's. Raises ValueError as `curve`, and where coverage is not above 0 and at
    most 1.
    """
    ranked = _ranked(scored)
    count = _answered(coverage, len(ranked.good_N))
    return share(min(count * float(_qualities(ranked)[count - 1]), count), count)


def area(scored: Scored, seed: int = 0) -> Estimate:
    """The area under the curve: the mean quality over all numbers of answers that may be given.

    A score that says nothing has the quality of all answers; what is not reached of 1 is the area
    under the curve of risk against coverage. Equal scores are a lot, as in `quality_at`. The
    interval is the bootstrap's over answers. Raises ValueError as `curve`.
    """
    ranked = _ranked(scored)
    return _bootstrapped(lambda at: float(_qualities(ranked, at).mean()), len(ranked.good_N), seed)


def area_gain(
    ours: Sequence[float], theirs: Sequence[float], good: Sequence[float], seed: int = 0
) -> Estimate:
    """How much more area one score has than another of the same answers. The interval is the
    bootstrap's, each of its samples being the same answers for both."""
    one, other = _ranked(Scored(ours, good)), _ranked(Scored(theirs, good))
    return _bootstrapped(
        lambda at: float((_qualities(one, at) - _qualities(other, at)).mean()), len(good), seed
    )


def gain(scored: Scored, coverage: float, seed: int = 0) -> Estimate:
    """How much better the answers are where the rest is declined than where none is; the interval
    is the bootstrap's over answers. Raises ValueError as `quality_at`."""
    ranked = _ranked(scored)
    count = _answered(coverage, len(ranked.good_N))

    def more(at: Draw) -> float:
        qualities_N = _qualities(ranked, at)
        return float(qualities_N[count - 1] - qualities_N[-1])

    return _bootstrapped(more, len(ranked.good_N), seed)


def coverage_figure(
    scored: Mapping[str, Scored],
    says: str,
    name: str = "coverage",
    title: str = "Quality of what is answered, by how much is answered",
    beside: Mapping[str, float] | None = None,
) -> Figure:
    """Curves of named scores with their intervals, and as a table their areas and a few points.

    `beside`: qualities of what attempts all questions, such as people; drawn dashed, as in
    GopherCite's figure 4.
    """
    beside = beside or {}
    lines = [_line(each, curve(answers)) for each, answers in scored.items()]
    flat = [Line(each, ((0.0, y), (1.0, y)), style="dashed") for each, y in beside.items()]
    rows: list[tuple[Cell, ...]] = [_row(each, answers) for each, answers in scored.items()]
    rows += [(each, None, None, None, None, y, *[None] * 4) for each, y in beside.items()]
    return Figure(
        name,
        title,
        f"{says} Intervals of curves are Wilson's, each for itself; of areas, the bootstrap's.",
        ("score", "answers", "area", "low", "high", *(f"quality at {at:.0%}" for at in TABLED)),
        tuple(rows),
        Picture("curves", (*lines, *flat), "share answered", "share of these that is good"),
        "GopherCite, figures 4 and 11",
    )


class _Ranked(NamedTuple):
    """Answers in tiers of equal scores, the highest first."""

    thresholds_T: np.ndarray
    tiers_N: np.ndarray
    """of each answer, its tier"""
    good_N: np.ndarray


def _ranked(scored: Scored) -> _Ranked:
    scores_N, good_N = (np.asarray(each, dtype=float) for each in scored)
    if not len(scores_N) or scores_N.shape != good_N.shape:
        raise ValueError(f"{len(scores_N)} scores and {len(good_N)} labels: give each score one")
    if not np.isfinite(scores_N).all() or not ((good_N >= 0) & (good_N <= 1)).all():
        raise ValueError("scores are finite numbers, and labels numbers from 0 to 1")
    lowest_first_T, tiers_N = np.unique(-scores_N, return_inverse=True)
    return _Ranked(-lowest_first_T, tiers_N, good_N)


def _answered(coverage: float, of: int) -> int:
    if not 0 < coverage <= 1:
        raise ValueError(f"coverage lies above 0 and is at most 1, not {coverage}")
    return max(1, math.ceil(coverage * of - 1e-9))


def _sums(ranked: _Ranked, at: Draw = slice(None)) -> tuple[np.ndarray, np.ndarray]:
    """How many of these answers reach each threshold, and how many of them are good."""
    tiers, size = ranked.tiers_N[at], len(ranked.thresholds_T)
    good_T = np.bincount(tiers, ranked.good_N[at], size)
    return np.bincount(tiers, minlength=size).cumsum(), good_T.cumsum()


def _qualities(ranked: _Ranked, at: Draw = slice(None)) -> np.ndarray:
    """The quality of the 1, 2, ... N best-scored of these. Within a tier each answer drawn is as
    good as the mean of the tier, so that the count of good ones grows by straight lines."""
    counts_T, good_T = _sums(ranked, at)
    numbers_N = np.arange(1.0, counts_T[-1] + 1)
    found_N = np.interp(numbers_N, np.append(0, counts_T), np.append(0.0, good_T))
    qualities_N: np.ndarray = found_N / numbers_N
    return qualities_N


def _bootstrapped(statistic: Callable[[Draw], float], count: int, seed: int) -> Estimate:
    """A number of some answers, with the percentile interval of the bootstrap over answers."""
    chance = np.random.default_rng(seed)
    found = [statistic(chance.integers(count, size=count)) for _ in range(DRAWS)]
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(statistic(slice(None)), float(low), float(high), count)


def _line(name: str, points: Sequence[Attempted]) -> Line:
    seen = [point for point in points if point.coverage > FEWEST]
    step = math.ceil(len(seen) / DRAWN)
    shown = [*seen[: len(seen) - 1 : step], seen[-1]]
    return Line(
        name,
        tuple((point.coverage, point.quality.value) for point in shown),
        tuple(point.quality.low for point in shown),
        tuple(point.quality.high for point in shown),
    )


def _row(name: str, scored: Scored) -> tuple[Cell, ...]:
    whole = area(scored)
    qualities = (quality_at(scored, at).value for at in TABLED)
    return (name, whole.count, whole.value, whole.low, whole.high, *qualities)

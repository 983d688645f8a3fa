"""Estimates with 95 % confidence intervals: shares (Wilson), means and differences (bootstrap),
areas under the ROC curve (DeLong).

Values that belong together (of one question, or of one person) are given a common group, and the
bootstrap resamples groups, not values.
"""

from collections.abc import Hashable, Sequence
from statistics import fmean

import numpy as np

from rookery.measure.agreement import CONFIDENCE_LEVEL, compute_wilson_interval
from rookery.records import Record

INTERVAL_ENDS = ((1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2)
"""shares of the bootstrap's samples that lie below the ends of an interval"""
BOOTSTRAP_SAMPLES = 10_000
"""samples of the bootstrap"""


class Estimate(Record, frozen=True):
    """Number with its 95 % confidence interval."""

    value: float
    low: float
    high: float
    count: int
    """number of values that it is made from"""


def estimate_share(wins: float, count: int) -> Estimate:
    """Return the share wins / count with Wilson's interval; ties may count half.

    Raises ValueError for a count below 1 or wins outside 0 to count.
    """
    if count < 1 or not 0 <= wins <= count:
        raise ValueError(
            f"{wins} of {count} is not a share: give a count of at least 1, and 0 to that many wins"
        )
    return Estimate(wins / count, *compute_wilson_interval(wins, count), count)


def estimate_mean(
    values: Sequence[float], groups: Sequence[Hashable] | None = None, seed: int = 0
) -> Estimate:
    """Return a mean with the percentile interval of the bootstrap over groups.

    Without `groups`, each value is a group. One group alone has no interval: low and high are the
    mean. Raises ValueError without a value.
    """
    if not values:
        raise ValueError("there is no value to take the mean of")
    sums_G, counts_G = _sum_groups(values, groups if groups is not None else range(len(values)))
    drawn_D = _bootstrap_means(sums_G, counts_G, seed)
    low, high = np.quantile(drawn_D, INTERVAL_ENDS)
    observed = fmean(values)
    return Estimate(observed, min(observed, float(low)), max(observed, float(high)), len(values))


def estimate_mean_over_runs(
    values: Sequence[Sequence[float]], groups: Sequence[Sequence[Hashable]], seed: int = 0
) -> Estimate:
    """Return the mean over several runs (seeds) of the same groups, with an interval over both.

    Each sample of the bootstrap draws runs and groups anew, independently: a value counts as often
    as its run and its group were drawn together (Owen 2007, the pigeonhole bootstrap). One run is
    `estimate_mean`; of two or three runs the interval shows too little of what other runs would
    give, since runs that were not made cannot be drawn. Raises ValueError as `estimate_mean`.
    """
    if len(values) == 1:
        return estimate_mean(values[0], groups[0], seed)
    numbers = {
        group: at for at, group in enumerate(dict.fromkeys(each for row in groups for each in row))
    }
    if not numbers:
        raise ValueError("there is no value to take the mean of")
    sums_RG, counts_RG = (np.zeros((len(values), len(numbers))) for _ in range(2))
    for run, (row, row_groups) in enumerate(zip(values, groups, strict=True)):
        places = [numbers[group] for group in row_groups]
        np.add.at(sums_RG[run], places, np.asarray(row, dtype=float))
        np.add.at(counts_RG[run], places, 1.0)
    chance, resampled = np.random.default_rng(seed), []
    for _ in range(BOOTSTRAP_SAMPLES // 500):
        runs_DR, groups_DG = (
            chance.multinomial(size, np.full(size, 1 / size), 500) for size in sums_RG.shape
        )
        total_D, count_D = (((runs_DR @ each) * groups_DG).sum(1) for each in (sums_RG, counts_RG))
        resampled.append(total_D[count_D > 0] / count_D[count_D > 0])
    low, high = np.quantile(np.concatenate(resampled), INTERVAL_ENDS)
    observed, count = float(sums_RG.sum() / counts_RG.sum()), sum(map(len, values))
    return Estimate(observed, min(observed, float(low)), max(observed, float(high)), count)


def _sum_groups(
    values: Sequence[float], groups: Sequence[Hashable]
) -> tuple[np.ndarray, np.ndarray]:
    numbers: dict[Hashable, int] = {}
    places = [numbers.setdefault(group, len(numbers)) for group in groups]
    if len(places) != len(values):
        raise ValueError(f"{len(values)} values need as many groups, not {len(places)}")
    sums_G = np.bincount(places, weights=np.asarray(values, dtype=float))
    return sums_G, np.bincount(places).astype(float)


def _bootstrap_means(sums_G: np.ndarray, counts_G: np.ndarray, seed: int) -> np.ndarray:
    """Return the mean of each bootstrap sample, computed in chunks so that memory stays small."""
    chance, size = np.random.default_rng(seed), len(sums_G)
    found = []
    for start in range(0, BOOTSTRAP_SAMPLES, 500):
        picked = chance.integers(size, size=(min(500, BOOTSTRAP_SAMPLES - start), size))
        found.append(sums_G[picked].sum(1) / counts_G[picked].sum(1))
    return np.concatenate(found)

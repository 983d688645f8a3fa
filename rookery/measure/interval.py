"""Estimates with their intervals: of a share, of a mean, of the difference of two.

It knows nothing of what was counted. What belongs together (several values of one question, several
labels of one person) is given as a group, and groups are drawn anew, not values.
"""

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist, fmean

import numpy as np

from rookery.records import Record

LEVEL = 0.95
DRAWS = 10_000
"""samples of the bootstrap"""


class Estimate(Record, frozen=True):
    """A number, and the interval that holds the true one 95 times in 100."""

    value: float
    low: float
    high: float
    count: int
    """of the values that it is made from"""

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def apart_from(self, other: "Estimate") -> bool:
        """Whether the intervals do not touch: stricter than a test of the difference."""
        return self.low > other.high or other.low > self.high


def share(wins: float, count: int) -> Estimate:
    """A share with Wilson's interval; ties may count half. Raises ValueError without a trial."""
    if count < 1 or not 0 <= wins <= count:
        raise ValueError(f"{wins} of {count} is no share")
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    seen, weight = wins / count, z * z / count
    middle = (seen + weight / 2) / (1 + weight)
    half = z * math.sqrt(seen * (1 - seen) / count + weight / (4 * count)) / (1 + weight)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Estimate(seen, min(seen, low), max(seen, high), count)


def mean(
    values: Sequence[float], groups: Sequence[Hashable] | None = None, seed: int = 0
) -> Estimate:
    """A mean with the percentile interval of the bootstrap over groups (each value is one where
    none are given). One group alone has no interval: low and high are the mean.

    Raises ValueError without a value.
    """
    if not values:
        raise ValueError("there is no value to take the mean of")
    sums_G, counts_G = _grouped(values, groups if groups is not None else range(len(values)))
    drawn_D = _drawn(sums_G, counts_G, seed)
    low, high = np.quantile(drawn_D, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    seen = fmean(values)
    return Estimate(seen, min(seen, float(low)), max(seen, float(high)), len(values))


def difference(ours: Sequence[float], theirs: Sequence[float], seed: int = 0) -> Estimate:
    """How much more the first is in the mean, pair by pair, with the interval of `mean`."""
    return mean([one - other for one, other in zip(ours, theirs, strict=True)], seed=seed)


def _grouped(values: Sequence[float], groups: Sequence[Hashable]) -> tuple[np.ndarray, np.ndarray]:
    numbers: dict[Hashable, int] = {}
    places = [numbers.setdefault(group, len(numbers)) for group in groups]
    if len(places) != len(values):
        raise ValueError(f"{len(values)} values need as many groups, not {len(places)}")
    sums_G = np.bincount(places, weights=np.asarray(values, dtype=float))
    return sums_G, np.bincount(places).astype(float)


def _drawn(sums_G: np.ndarray, counts_G: np.ndarray, seed: int) -> np.ndarray:
    """The mean of each sample of the bootstrap, a few at a time so that memory stays small."""
    chance, size = np.random.default_rng(seed), len(sums_G)
    found = []
    for start in range(0, DRAWS, 500):
        picked = chance.integers(size, size=(min(500, DRAWS - start), size))
        found.append(sums_G[picked].sum(1) / counts_G[picked].sum(1))
    return np.concatenate(found)

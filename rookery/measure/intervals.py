"""Statistics with 95 % confidence intervals: shares (Wilson), means (bootstrap), and agreement
(Krippendorff's alpha, Cohen's kappa, half credit, side bias).

Where a statistic of agreement is undefined, `UndefinedStatistic` with the reason takes its place.
Values that belong together (of one question, or of one person) are given a common group, and the
bootstrap resamples groups, not values.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate
from random import Random
from statistics import NormalDist, fmean, quantiles
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from rookery.records import Record

BOOTSTRAP_ROUNDS = 1000
"""bootstrap resamples for an interval"""
MIN_JACKKNIFE_ITEMS, MAX_JACKKNIFE_KINDS = 1000, 100
"""with more items than MIN_JACKKNIFE_ITEMS, of fewer kinds than MAX_JACKKNIFE_KINDS, an interval
comes from the jackknife"""
CONFIDENCE_LEVEL = 0.95
"""coverage of the intervals"""
_NORMAL_QUANTILE = NormalDist().inv_cdf((1 + CONFIDENCE_LEVEL) / 2)
"""quantile of the normal distribution for CONFIDENCE_LEVEL"""
LabelValue = str | float
MeasurementLevel = Literal["nominal", "ordinal", "interval"]
"""level of measurement: nominal values only differ, ordinal ones have an order, interval ones have
distances"""
ValueCounts = frozenset[tuple[LabelValue, int]]
"""the values given to one item, with the count of each"""
T = TypeVar("T")
V = TypeVar("V", bound=Hashable)


class UndefinedStatistic(Record, frozen=True):
    """Marks a statistic that has no value, with the reason."""

    reason: str


_NOTHING_IN_COMMON = UndefinedStatistic("they judged no item in common")


class ConfidenceInterval(NamedTuple):
    """Confidence interval at CONFIDENCE_LEVEL."""

    low: float
    high: float


Statistic = Callable[[Sequence[T]], float | UndefinedStatistic]
IntervalMethod = Callable[[Sequence[T], Statistic[T]], ConfidenceInterval | UndefinedStatistic]


class AgreementEstimate(Record, frozen=True):
    """A statistic over items, with its interval."""

    value: float | UndefinedStatistic
    items: int
    low: float | None = None
    """lower end of the interval over items; None: there is no interval"""
    high: float | None = None


class SideBias(Record, frozen=True):
    """Share of preferences for the answer shown first; one half is expected."""

    first: int
    judged: int
    """preferences without a tie"""
    share: float
    low: float
    """lower end of Wilson's interval"""
    high: float
    chance: float
    """probability that a fair coin deviates at least as far from half: exact two-sided binomial
    test"""


def count_values(row: Mapping[str, LabelValue]) -> ValueCounts:
    """Count how many people gave each value to one item; `row` holds the values by person."""
    return frozenset(Counter(row.values()).items())


def compute_krippendorff_alpha(
    units: Iterable[ValueCounts], level: MeasurementLevel = "nominal"
) -> float | UndefinedStatistic:
    """Compute Krippendorff's alpha: 1 for perfect agreement, 0 for agreement as by chance.

    Each unit is an item: its values, counted by `count_values`. Undefined without an item judged
    twice, or if all values are the same. Raises ValueError for texts where `level` needs numbers.
    """
    # Items with the same values are counted together: few values make few patterns, however many
    # items there are.
    patterns = [
        (unit, times) for unit, times in Counter(units).items() if _count_judgements(unit) > 1
    ]
    totals: Counter[LabelValue] = Counter()
    for each, times in patterns:
        totals.update({value: count * times for value, count in each})
    if not totals:
        return UndefinedStatistic("no item was judged by two people")
    if len(totals) == 1:
        return UndefinedStatistic(f"unanimous: everybody always said {next(iter(totals))}")
    apart = _compute_distances(totals, level)
    observed = math.fsum(
        times * _sum_distances(each, apart) / (_count_judgements(each) - 1)
        for each, times in patterns
    )
    expected = _sum_distances(totals.items(), apart)
    return 1 - (totals.total() - 1) * observed / expected


def _count_judgements(unit: ValueCounts) -> int:
    return sum(count for _, count in unit)


def _sum_distances(
    counts: Iterable[tuple[LabelValue, int]], apart: Mapping[tuple[LabelValue, LabelValue], float]
) -> float:
    """Sum the distances of all ordered pairs of these values."""
    listed = list(counts)
    pairs = ((a, n, b, m) for a, n in listed for b, m in listed if a != b)
    return math.fsum(n * m * apart[a, b] for a, n, b, m in pairs)


def _compute_distances(
    totals: Mapping[LabelValue, int], level: MeasurementLevel
) -> dict[tuple[LabelValue, LabelValue], float]:
    if level == "nominal":
        return {(a, b): 1.0 for a in totals for b in totals if a != b}
    values = sorted(_require_number(value) for value in totals)
    places = dict(zip(values, values, strict=True))
    if level == "ordinal":
        # The ordinal distance is the number of values between the two, with the two themselves
        # counted half each (Krippendorff).
        ends = accumulate(totals[value] for value in values)
        places = {value: end - totals[value] / 2 for value, end in zip(values, ends, strict=True)}
    return {(a, b): (places[a] - places[b]) ** 2 for a in values for b in values}


def _require_number(value: LabelValue) -> float:
    if isinstance(value, str):
        raise ValueError(f"{value!r} is no number: texts can only be compared as nominal")
    return value


def compute_cohen_kappa(pairs: Sequence[tuple[V, V]]) -> float | UndefinedStatistic:
    """Compute Cohen's kappa of two people (agreement beyond chance) from their labels of each item.

    Undefined without a pair of labels, or if both gave one and the same label to everything.
    """
    if not pairs:
        return _NOTHING_IN_COMMON
    ones: Counter[V] = Counter()
    others: Counter[V] = Counter()
    observed, size = 0, len(pairs)
    for (one, other), times in Counter(pairs).items():
        ones[one] += times
        others[other] += times
        observed += times * (one == other)
    # Integers up to the last division, so that equal shares compare equal.
    expected = sum(count * others[value] for value, count in ones.items())
    if expected == size * size:
        return UndefinedStatistic(f"unanimous: both always said {pairs[0][0]}")
    return (observed * size - expected) / (size * size - expected)


def compute_half_credit_agreement(
    pairs: Sequence[tuple[float, float]],
) -> float | UndefinedStatistic:
    """Compute the share of items on which two people prefer the same answer; a tie may count half.

    A pair holds the preferences of the two for one item, from -2 (the first answer) to 2. Much
    better counts as better, and a tie against a preference as half (WebGPT, appendix C).
    """
    if not pairs:
        return _NOTHING_IN_COMMON
    credits = (times * compute_pair_credit(*pair) for pair, times in Counter(pairs).items())
    return sum(credits) / len(pairs)


def compute_pair_credit(one: float, other: float) -> float:
    """Return 1 if two preferences agree, 1/2 if only one is a tie, 0 if they are opposite.

    Numbers below 0 prefer the first answer, above 0 the second; 0 is a tie.
    """
    return 1 - abs(get_sign(one) - get_sign(other)) / 2


def get_sign(number: float) -> int:
    """Return -1, 0 or 1 for a number below, at or above 0."""
    return (number > 0) - (number < 0)


def compute_exact_agreement(pairs: Sequence[tuple[V, V]]) -> float | UndefinedStatistic:
    """Compute the share of items on which two people gave the same label (Ziegler, table 9)."""
    if not pairs:
        return _NOTHING_IN_COMMON
    return sum(times for (a, b), times in Counter(pairs).items() if a == b) / len(pairs)


def choose_majority_label(votes: Sequence[V], labels: Sequence[V]) -> V:
    """Return the label with the most votes; ties go to the label that stands first in `labels`.

    With labels (False, True), a tie is False (GopherCite, appendix C.1). Raises ValueError without
    votes, or for a vote that is not among the labels.
    """
    if not votes or not set(votes) <= set(labels):
        raise ValueError(f"votes {list(votes)} are to be some of {list(labels)}")
    counts = Counter(votes)
    return max(labels, key=lambda label: counts[label])  # the first of equals


def estimate_side_bias(first: int, judged: int) -> SideBias | None:
    """Estimate the bias towards the answer shown first, which got `first` of `judged` preferences.

    With Wilson's interval, and an exact binomial test against one half. None if `judged` is 0.
    """
    if not judged:
        return None
    low, high = compute_wilson_interval(first, judged)
    tail = ways = 1
    for count in range(min(first, judged - first)):
        ways = ways * (judged - count) // (count + 1)
        tail += ways
    return SideBias(first, judged, first / judged, low, high, min(1.0, 2 * tail / 2**judged))


def compute_wilson_interval(count: float, of: int) -> ConfidenceInterval:
    """Compute Wilson's 95 % interval of the share `count / of`; a tie may count half.

    `of` is above 0; `estimate_share` checks both.
    """
    share, weight = count / of, _NORMAL_QUANTILE * _NORMAL_QUANTILE / of
    middle = (share + weight / 2) / (1 + weight)
    spread = math.sqrt(share * (1 - share) / of + weight / (4 * of))
    half = _NORMAL_QUANTILE * spread / (1 + weight)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return ConfidenceInterval(min(share, low), max(share, high))


def bootstrap_interval(
    items: Sequence[T], statistic: Statistic[T], rounds: int = BOOTSTRAP_ROUNDS, seed: int = 0
) -> ConfidenceInterval | UndefinedStatistic:
    """Compute a 95 % percentile bootstrap interval of a statistic by resampling items.

    Items are resampled, with replacement, and not judgements, since judgements of one item depend
    on each other. Resamples with an undefined statistic are left out. Undefined for fewer than two
    items, or where fewer than two resamples have a value.
    """
    if len(items) < 2:
        return UndefinedStatistic("one item says nothing of others")
    random = Random(seed)
    statistics = (statistic(random.choices(items, k=len(items))) for _ in range(rounds))
    values = [value for value in statistics if not isinstance(value, UndefinedStatistic)]
    if len(values) < 2:
        return UndefinedStatistic("too few draws of these items give a number")
    fortieths = quantiles(values, n=40, method="inclusive")  # 2.5 % each
    return ConfidenceInterval(fortieths[0], fortieths[-1])


def jackknife_interval(
    items: Sequence[V], statistic: Statistic[V], least: float = -math.inf
) -> ConfidenceInterval | UndefinedStatistic:
    """Compute a 95 % normal jackknife interval of a statistic, clipped to [`least`, 1].

    Meant for many statistics over few distinct items, such as those of every pair of people: it
    evaluates the statistic once for each distinct item, not BOOTSTRAP_ROUNDS times. Undefined where
    the statistic is, or becomes so when one item is left out.
    """
    value, without = statistic(items), []
    for item, times in Counter(items).items():
        rest = list(items)
        rest.remove(item)
        statistic_without = statistic(rest)
        if isinstance(statistic_without, UndefinedStatistic):
            return UndefinedStatistic("it rests on one item")
        without += [statistic_without] * times
    if isinstance(value, UndefinedStatistic):
        return value
    mean = math.fsum(without) / len(items)
    squares = math.fsum((each - mean) ** 2 for each in without)
    half = _NORMAL_QUANTILE * math.sqrt(squares * (len(items) - 1) / len(items))
    return ConfidenceInterval(max(least, value - half), min(1.0, value + half))


def resample_interval(
    items: Sequence[V], statistic: Statistic[V], rounds: int = BOOTSTRAP_ROUNDS
) -> ConfidenceInterval | UndefinedStatistic:
    """Compute a 95 % interval: the jackknife's for many items of few kinds, else the bootstrap's.

    The two are then practically equal, and the jackknife is much faster.
    """
    if len(items) > MIN_JACKKNIFE_ITEMS and len(set(items)) < MAX_JACKKNIFE_KINDS:
        return jackknife_interval(items, statistic)
    return bootstrap_interval(items, statistic, rounds)


def estimate_statistic(
    items: Sequence[T], statistic: Statistic[T], interval: IntervalMethod[T] | None = None
) -> AgreementEstimate:
    """Compute a statistic over items, with its interval if `interval` is given and defined."""
    value, found = statistic(items), None
    if interval is not None and not isinstance(value, UndefinedStatistic):
        found = interval(items, statistic)
    ends = found if isinstance(found, ConfidenceInterval) else (None, None)
    return AgreementEstimate(value, len(items), *ends)


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
    mean. Raises ValueError without a value, and if there is not one group for each value.
    """
    if not values:
        raise ValueError("there is no value to take the mean of")
    sums_G, counts_G = _sum_groups(values, groups if groups is not None else range(len(values)))
    drawn_D = _bootstrap_means(sums_G, counts_G, seed)
    low, high = np.quantile(drawn_D, INTERVAL_ENDS)
    observed = fmean(values)
    return Estimate(observed, min(observed, float(low)), max(observed, float(high)), len(values))


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

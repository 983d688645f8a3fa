"""Statistics with 95 % confidence intervals: shares (exact), means (Student's t, or Gaffke's bound
where values pile up between 0 and 1), and agreement (Krippendorff's alpha, Cohen's kappa, half
credit, side bias; jackknife).

Where a statistic of agreement is undefined, `UndefinedStatistic` with the reason takes its place.
Values that belong together (of one question, or of one person) are given a common group; groups
count in an interval, not values, and fewer than MIN_GROUPS have none. `python -m bench intervals`
simulates how often intervals hold the truth.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate
from statistics import fmean
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from rookery.records import Record

CONFIDENCE_LEVEL = 0.95
"""coverage of the intervals"""
MIN_GROUPS = 5
"""fewest groups that have an interval"""
PILED_SHARE = 0.2
"""share of the groups with one and the same mean from which values count as piled up"""
GAFFKE_DRAWS = 10_000
MAX_JACKKNIFE_PARTS = 100
"""most parts of the items of which each is left out once"""
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
    """lower end of the exact interval"""
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


def compute_pair_credit(one: float, other: float) -> float:
    """Return 1 if two preferences agree, 1/2 if only one is a tie, 0 if they are opposite.

    Numbers below 0 prefer the first answer, above 0 the second; 0 is a tie. Much better counts as
    better (WebGPT, appendix C).
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

    With its interval, and an exact binomial test against one half. None if `judged` is 0.
    """
    if not judged:
        return None
    low, high = compute_exact_interval(first, judged)
    tail = ways = 1
    for count in range(min(first, judged - first)):
        ways = ways * (judged - count) // (count + 1)
        tail += ways
    return SideBias(first, judged, first / judged, low, high, min(1.0, 2 * tail / 2**judged))


def compute_exact_interval(count: float, of: int) -> ConfidenceInterval:
    """Compute the exact 95 % interval (Clopper and Pearson) of the share `count / of`.

    A tie may count half. `of` is above 0; `estimate_share` checks both.
    """
    tail = (1 - CONFIDENCE_LEVEL) / 2
    low = _find_beta_quantile(tail, count, of - count + 1) if count > 0 else 0.0
    high = 1 - _find_beta_quantile(tail, of - count, count + 1) if count < of else 1.0
    return ConfidenceInterval(low, high)


@cache
def get_t_quantile(freedom: int) -> float:
    """Return how many standard errors an interval of Student's t reaches to either side."""
    share = _find_beta_quantile(1 - CONFIDENCE_LEVEL, freedom / 2, 0.5)
    return math.sqrt(freedom * (1 / share - 1))


@cache
def _find_beta_quantile(share: float, a: float, b: float) -> float:
    """Return where the beta distribution reaches a share, by Newton's steps within a bracket."""
    low, high, x = 0.0, 1.0, a / (a + b)
    log_scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    while high - low > 1e-14:
        log_power = log_scale + a * math.log(x) + b * math.log1p(-x)
        gap = _sum_beta(x, a, b, log_power) - share
        low, high = (x, high) if gap < 0 else (low, x)
        step = gap * x * (1 - x) * math.exp(-log_power)
        if abs(step) < 1e-13 * x:
            break
        x = x - step if low < x - step < high else (low + high) / 2
    return x


def _sum_beta(x: float, a: float, b: float, log_power: float) -> float:
    """Return the share of the beta distribution below x, by its continued fraction, which
    converges in some sqrt(a + b) terms below the mean."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _sum_beta(1 - x, b, a, log_power)
    fraction = 1.0
    for m in range(10 + int(3 * math.sqrt(a + b)), -1, -1):
        even = (m + 1) * (b - m - 1) * x / ((a + 2 * m + 1) * (a + 2 * m + 2))
        odd = (a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        fraction = 1 - odd / (1 + even / fraction)
    return math.exp(log_power) / (a * fraction)


def jackknife_interval(
    items: Sequence[V], statistic: Statistic[V], least: float = -math.inf
) -> ConfidenceInterval | UndefinedStatistic:
    """Compute a 95 % jackknife interval of a statistic, clipped to [`least`, 1].

    Items count, and not judgements, since judgements of one item depend on each other. Each item is
    left out once or, of more than MAX_JACKKNIFE_PARTS different ones, each of so many parts.
    Undefined for fewer than MIN_GROUPS items, and where the statistic is, or becomes so when one
    part is left out.
    """
    if len(items) < MIN_GROUPS:
        return UndefinedStatistic(f"fewer than {MIN_GROUPS} items say nothing of others")
    value, without = statistic(items), list[float]()
    for rest, times in _list_rests(items):
        statistic_without = statistic(rest)
        if isinstance(statistic_without, UndefinedStatistic):
            return UndefinedStatistic("it rests on one item")
        without += [statistic_without] * times
    if isinstance(value, UndefinedStatistic):
        return value
    half = float(compute_jackknife_reach(without))
    return ConfidenceInterval(max(least, value - half), min(1.0, value + half))


def _list_rests(items: Sequence[V]) -> list[tuple[list[V], int]]:
    """Return the items without one of each kind, with the number of that kind; of many kinds, the
    items without each of MAX_JACKKNIFE_PARTS parts."""
    kinds = Counter(items)
    if len(kinds) > MAX_JACKKNIFE_PARTS:
        return [([items[at] for at in rest], 1) for rest in list_jackknife_rests(len(items))]
    rests = [(list(items), times) for times in kinds.values()]
    for kind, (rest, _) in zip(kinds, rests, strict=True):
        rest.remove(kind)
    return rests


def list_jackknife_rests(count: int) -> list[npt.NDArray[np.int64]]:
    """Return the numbers 0 to `count` - 1 without each of as many parts, or MAX_JACKKNIFE_PARTS,
    drawn by lot."""
    parts = min(count, MAX_JACKKNIFE_PARTS)
    part_N = np.random.default_rng(0).permutation(count) % parts
    return [np.flatnonzero(part_N != part) for part in range(parts)]


def compute_jackknife_reach(without: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return how far an interval reaches to either side of a statistic, or of several.

    The first axis of `without` has their values without each part of the data.
    """
    values = np.asarray(without, dtype=float)
    size = len(values)
    squares: npt.NDArray[np.float64] = ((values - values.mean(0)) ** 2).sum(0)
    return get_t_quantile(size - 1) * np.sqrt(squares * (size - 1) / size)


def estimate_statistic(
    items: Sequence[T], statistic: Statistic[T], interval: IntervalMethod[T] | None = None
) -> AgreementEstimate:
    """Compute a statistic over items, with its interval if `interval` is given and defined."""
    value, found = statistic(items), None
    if interval is not None and not isinstance(value, UndefinedStatistic):
        found = interval(items, statistic)
    ends = found if isinstance(found, ConfidenceInterval) else (None, None)
    return AgreementEstimate(value, len(items), *ends)


class Estimate(Record, frozen=True):
    """Number with its 95 % confidence interval."""

    value: float
    low: float | None
    """lower end; None: there is no interval, since groups are fewer than MIN_GROUPS or do not
    differ"""
    high: float | None
    count: int
    """number of values that it is made from"""


def estimate_share(wins: float, count: int) -> Estimate:
    """Return the share wins / count with its exact interval; ties may count half.

    Raises ValueError for a count below 1 or wins outside 0 to count.
    """
    if count < 1 or not 0 <= wins <= count:
        raise ValueError(
            f"{wins} of {count} is not a share: give a count of at least 1, and 0 to that many wins"
        )
    low, high = compute_exact_interval(wins, count) if count >= MIN_GROUPS else (None, None)
    return Estimate(wins / count, low, high, count)


def estimate_mean(
    values: Sequence[float], groups: Sequence[Hashable] | None = None, least: float | None = 0.0
) -> Estimate:
    """Return a mean with its interval over groups; without `groups`, each value is a group.

    It is Student's t on the groups' means. Where these lie between `least` and 1, and a fifth of
    them or more are the same, it is Gaffke's (2005) interval, which assumes nothing else: a group
    more, at the one bound or the other, and random weights. Of single zeros and ones that is the
    exact one. `least` is -1 for differences of shares, and None where nothing bounds the values.
    Of values as skewed as waiting times (exponential), Student's t holds the mean of 5 in .87, of
    20 in .91 and of 100 in .94 of all cases. Raises ValueError without a value, and if there is
    not one group for each value.
    """
    if not values:
        raise ValueError("there is no value to take the mean of")
    sums_G, counts_G = _sum_groups(values, groups if groups is not None else range(len(values)))
    low, high = _bound_mean(sums_G, counts_G, least)
    return Estimate(fmean(values), low, high, len(values))


def estimate_credits(credits: Sequence[Sequence[float]]) -> AgreementEstimate:
    """Return the mean credit, 0 to 1, of pairs of judgements, from those of each item."""
    if not credits:
        return AgreementEstimate(_NOTHING_IN_COMMON, 0)
    groups = [item for item, each in enumerate(credits) for _ in each]
    mean = estimate_mean([credit for each in credits for credit in each], groups)
    return AgreementEstimate(mean.value, len(credits), mean.low, mean.high)


def _sum_groups(
    values: Sequence[float], groups: Sequence[Hashable]
) -> tuple[np.ndarray, np.ndarray]:
    numbers: dict[Hashable, int] = {}
    places = [numbers.setdefault(group, len(numbers)) for group in groups]
    if len(places) != len(values):
        raise ValueError(f"{len(values)} values need as many groups, not {len(places)}")
    sums_G = np.bincount(places, weights=np.asarray(values, dtype=float))
    return sums_G, np.bincount(places).astype(float)


def _bound_mean(
    sums_G: np.ndarray, counts_G: np.ndarray, least: float | None
) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of sums_G.sum() / counts_G.sum(), or None twice."""
    means_G, size = (sums_G / counts_G).round(9), len(sums_G)
    kinds_U, times_U = np.unique(means_G, return_counts=True)
    piled = times_U.max() >= max(2, PILED_SHARE * size)
    if least is None or not least <= kinds_U[0] <= kinds_U[-1] <= 1:
        piled = False
    if size < MIN_GROUPS or (len(kinds_U) == 1 and not piled):
        return None, None
    if least == 0 and {*sums_G} <= {0, 1} and {*counts_G} == {1}:
        return compute_exact_interval(float(sums_G.sum()), size)
    usual = counts_G.mean()
    if least is None or not piled:
        errors_G = (sums_G - sums_G.sum() / counts_G.sum() * counts_G) / usual
        half = get_t_quantile(size - 1) * math.sqrt(errors_G.var(ddof=1) / size)
        mean = float(sums_G.sum() / counts_G.sum())
        return mean - half, mean + half
    chance, ends = np.random.default_rng(0), []
    kinds_2U, times_U = np.unique((sums_G, counts_G), axis=1, return_counts=True)
    for _ in range(GAFFKE_DRAWS // 500):  # so that memory stays small
        weights_DU = chance.standard_gamma(times_U, (500, len(times_U)))
        more_D = usual * chance.standard_gamma(1.0, 500)
        sums_D, counts_D = kinds_2U @ weights_DU.T
        ends.append((sums_D + np.array([[least], [1.0]]) * more_D) / (counts_D + more_D))
    low_D, high_D = np.hstack(ends)
    tail = (1 - CONFIDENCE_LEVEL) / 2
    return float(np.quantile(low_D, tail)), float(np.quantile(high_D, 1 - tail))

"""How far people agree, and how sure that is. It knows nothing of forms and of stores.

Where a number would mean nothing, its place is taken by the reason.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from random import Random
from typing import Literal, NamedTuple, TypeVar

from rookery.records import Record

ROUNDS = 1000
"""times that items are drawn anew for an interval"""
MANY, KINDS = 1000, 100
"""from how many items of how few kinds on an interval is not drawn"""
SURE = 0.95
"""how often an interval is to hold the number"""
_Z = 1.959963984540054
"""of the normal distribution, for SURE"""
Value = str | float
Level = Literal["nominal", "ordinal", "interval"]
"""whether values only differ; have an order; or have distances"""
Unit = frozenset[tuple[Value, int]]
"""one item's values, and how often each was given"""
T = TypeVar("T")
V = TypeVar("V", bound=Hashable)


class Undefined(Record, frozen=True):
    """There is no such number."""

    reason: str


_NOTHING_IN_COMMON = Undefined("they judged no item in common")


class Interval(NamedTuple):
    """Where a number lies, by SURE."""

    low: float
    high: float


class Measured(Record, frozen=True):
    """A number that items gave."""

    value: float | Undefined
    items: int
    low: float | None = None
    """of its interval over items; None: there is none"""
    high: float | None = None


class Side(Record, frozen=True):
    """How often the answer that was shown first was preferred. Half is to be expected."""

    first: int
    judged: int
    """ties are not counted"""
    share: float
    low: float
    """of Wilson's interval"""
    high: float
    chance: float
    """that a fair coin falls as far from half, or farther: the exact two-sided binomial test"""


def krippendorff_alpha(
    table: Iterable[Mapping[str, Value]], level: Level = "nominal"
) -> float | Undefined:
    """Krippendorff's alpha: 1 where all agree, 0 where they do as if by chance.

    A row is an item: the values by the people who gave them. Who did not judge an item is not in
    its row. Raises ValueError for texts where an order is needed.
    """
    return alpha_of([unit(row) for row in table], level)


def unit(row: Mapping[str, Value]) -> Unit:
    """An item as `alpha_of` takes it: by whom is no matter."""
    return frozenset(Counter(row.values()).items())


def alpha_of(units: Iterable[Unit], level: Level = "nominal") -> float | Undefined:
    """Krippendorff's alpha of items."""
    # Few values make few patterns, however many items there are.
    patterns = [(unit, times) for unit, times in Counter(units).items() if _size(unit) > 1]
    totals: Counter[Value] = Counter()
    for each, times in patterns:
        totals.update({value: count * times for value, count in each})
    if not totals:
        return Undefined("no item was judged by two people")
    if len(totals) == 1:
        return Undefined(f"unanimous: everybody always said {next(iter(totals))}")
    apart = _distances(totals, level)
    observed = math.fsum(
        times * _apart(each, apart) / (_size(each) - 1) for each, times in patterns
    )
    expected = _apart(totals.items(), apart)
    return 1 - (totals.total() - 1) * observed / expected


def _size(unit: Unit) -> int:
    return sum(count for _, count in unit)


def _apart(
    counts: Iterable[tuple[Value, int]], apart: Mapping[tuple[Value, Value], float]
) -> float:
    """The distances of all pairs of these."""
    listed = list(counts)
    pairs = ((a, n, b, m) for a, n in listed for b, m in listed if a != b)
    return math.fsum(n * m * apart[a, b] for a, n, b, m in pairs)


def _distances(totals: Mapping[Value, int], level: Level) -> dict[tuple[Value, Value], float]:
    if level == "nominal":
        return {(a, b): 1.0 for a in totals for b in totals if a != b}
    values = sorted(_number(value) for value in totals)
    if level == "interval":
        return {(a, b): (a - b) ** 2 for a in values for b in values}
    # As many values lie between two as there are below the one and not below the other, the two
    # themselves half each.
    below, middles = 0, {}
    for value in values:
        middles[value] = below + totals[value] / 2
        below += totals[value]
    return {(a, b): (middles[a] - middles[b]) ** 2 for a in values for b in values}


def _number(value: Value) -> float:
    if isinstance(value, str):
        raise ValueError(f"{value!r} is no number: texts can only be compared as nominal")
    return value


def cohen_kappa(pairs: Sequence[tuple[V, V]]) -> float | Undefined:
    """Cohen's kappa of two people who judged the same items: agreement beyond that of chance."""
    if not pairs:
        return _NOTHING_IN_COMMON
    ones: Counter[V] = Counter()
    others: Counter[V] = Counter()
    observed, size = 0, len(pairs)
    for (one, other), times in Counter(pairs).items():
        ones[one] += times
        others[other] += times
        observed += times * (one == other)
    # In whole numbers, so that what is exact stays so.
    expected = sum(count * others[value] for value, count in ones.items())
    if expected == size * size:
        return Undefined(f"unanimous: both always said {pairs[0][0]}")
    return (observed * size - expected) / (size * size - expected)


def half_credit(pairs: Sequence[tuple[float, float]]) -> float | Undefined:
    """How often two people prefer the same answer, from -2 or -1 (the one) to 1 or 2 (the other).

    Much better counts as better, and a tie agrees with a preference by half (WebGPT, appendix C).
    """
    if not pairs:
        return _NOTHING_IN_COMMON
    return sum(times * credit(a, b) for (a, b), times in Counter(pairs).items()) / len(pairs)


def credit(one: float, other: float) -> float:
    """1 where two people prefer the same answer, or none; half where only one of them does."""
    return 1 - abs(_sign(one) - _sign(other)) / 2


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def same(pairs: Sequence[tuple[V, V]]) -> float | Undefined:
    """How often two people say the very same (Ziegler, table 9)."""
    if not pairs:
        return _NOTHING_IN_COMMON
    return sum(times for (a, b), times in Counter(pairs).items() if a == b) / len(pairs)


def majority(votes: Sequence[V], labels: Sequence[V]) -> V:
    """What most voted for; of those with equally many votes, what stands first among the labels.

    With the labels False and True, a tie is False (GopherCite, appendix C.1). Raises ValueError
    where there are no votes, or one for something else.
    """
    if not votes or not set(votes) <= set(labels):
        raise ValueError(f"votes {list(votes)} are to be some of {list(labels)}")
    counts = Counter(votes)
    return max(labels, key=lambda label: counts[label])  # the first of equals


def side_bias(first: int, judged: int) -> Side | None:
    """How often the answer shown first was preferred, of so many judgements without a tie; None:
    there are none."""
    if not judged:
        return None
    low, high = wilson(first, judged)
    tail = ways = 1
    for count in range(min(first, judged - first)):
        ways = ways * (judged - count) // (count + 1)
        tail += ways
    return Side(first, judged, first / judged, low, high, min(1.0, 2 * tail / 2**judged))


def wilson(count: int, of: int) -> Interval:
    """Wilson's interval of a share."""
    share, square = count / of, _Z * _Z
    middle = (share + square / (2 * of)) / (1 + square / of)
    half = _Z / (1 + square / of) * math.sqrt(share * (1 - share) / of + square / (4 * of * of))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def bootstrap(
    items: Sequence[T],
    statistic: Callable[[Sequence[T]], float | Undefined],
    rounds: int = ROUNDS,
    seed: int = 0,
) -> Interval | Undefined:
    """Where a number lies when so many items are drawn anew, with replacement: percentiles.

    What two people made of one item belongs together, so items are drawn and not judgements. Draws
    for which the number is undefined do not count.
    """
    if len(items) < 2:
        return Undefined("one item says nothing of others")
    random = Random(seed)
    drawn = (statistic(random.choices(items, k=len(items))) for _ in range(rounds))
    found = sorted(value for value in drawn if not isinstance(value, Undefined))
    if not found:
        return Undefined("no draw of these items gives a number")
    return Interval(_quantile(found, (1 - SURE) / 2), _quantile(found, (1 + SURE) / 2))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Between neighbours, in proportion."""
    at = share * (len(ordered) - 1)
    below, above = ordered[math.floor(at)], ordered[math.ceil(at)]
    return below + (above - below) * (at - math.floor(at))


def jackknife(
    items: Sequence[V],
    statistic: Callable[[Sequence[V]], float | Undefined],
    least: float = -math.inf,
) -> Interval | Undefined:
    """Where a number lies, from what it is without each one of the items, as if it were normal;
    not below the least that it can be.

    For many numbers of items that are few and alike, such as those of each two people: it takes
    one step for each kind of item, and not a thousand.
    """
    value, without = statistic(items), []
    for item, times in Counter(items).items():
        rest = list(items)
        rest.remove(item)
        left = statistic(rest)
        if isinstance(left, Undefined):
            return Undefined("it rests on one item")
        without += [left] * times
    if isinstance(value, Undefined):
        return value
    mean = math.fsum(without) / len(items)
    squares = math.fsum((each - mean) ** 2 for each in without)
    half = _Z * math.sqrt(squares * (len(items) - 1) / len(items))
    return Interval(max(least, value - half), min(1.0, value + half))


def interval_of(
    items: Sequence[V], statistic: Callable[[Sequence[V]], float | Undefined], rounds: int = ROUNDS
) -> Interval | Undefined:
    """The bootstrap's interval; or the jackknife's, for so many items of so few kinds that the two
    are the same and the bootstrap is slow."""
    if len(items) > MANY and len(set(items)) < KINDS:
        return jackknife(items, statistic)
    return bootstrap(items, statistic, rounds)


def measured(
    items: Sequence[T],
    statistic: Callable[[Sequence[T]], float | Undefined],
    interval: Callable[
        [Sequence[T], Callable[[Sequence[T]], float | Undefined]], Interval | Undefined
    ]
    | None = None,
) -> Measured:
    """The number of these items, with its interval if one is wanted."""
    value = statistic(items)
    if isinstance(value, Undefined) or interval is None:
        return Measured(value, len(items))
    found = interval(items, statistic)
    if isinstance(found, Undefined):
        return Measured(value, len(items))
    return Measured(value, len(items), found.low, found.high)

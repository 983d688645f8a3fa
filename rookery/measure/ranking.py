"""How well a ranking finds and orders what is of worth, question by question, with intervals.

It knows nothing of what is ranked. Where a ranker gives several the same score, each of their
orders is as likely: a ranker that says nothing is worth what a random one is.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from statistics import fmean

import msgspec

from rookery.cite.ordered import accuracy, spearman
from rookery.measure.figure import Figure, bars
from rookery.measure.interval import Estimate, mean

Numbers = Sequence[float]


def ranked(
    worths: Sequence[Numbers], predicted: Sequence[Numbers], ks: Sequence[int] = (1, 5)
) -> dict[str, Estimate]:
    """Every measure, in the mean over the questions of which it can be said, with its interval.

    One row a question: what each thing is worth, and what it is predicted to be. `pairs` is the
    share of pairs in the right order; `hit K` how often one of the things worth most is among the
    first K; `recall K` the share of what is worth more than 0 that is there.
    WebGLM's tables 7 and 9 have accuracy, Spearman, NDCG and normalised NDCG; the accuracy of
    table 7 (19% for a ranker whose Spearman is about 0) can only be `hit 1`, that of table 9 only
    `pairs`.
    """
    measures: dict[str, Callable[[Numbers, Numbers], float | None]] = {
        "pairs": accuracy,
        "spearman": spearman,
        "NDCG": ndcg,
        "normalised NDCG": normalised_ndcg,
        "reciprocal rank": reciprocal_rank,
        **{f"hit {k}": partial(hit, k=k) for k in ks},
        **{f"recall {k}": partial(recall, k=k) for k in ks},
    }
    both = list(zip(worths, predicted, strict=True))
    told = {name: [measure(*each) for each in both] for name, measure in measures.items()}
    known = {name: [one for one in each if one is not None] for name, each in told.items()}
    return {name: mean(each) for name, each in known.items() if each}


def ndcg(worths: Numbers, predicted: Numbers) -> float | None:
    """Normalised discounted cumulative gain, the gain being the worth; None where none has any.

    1 for the best order. Worths are 0 or more.
    """
    best = _discounted(sorted(worths, reverse=True))
    return _discounted(_in_order(worths, predicted)) / best if best else None


def normalised_ndcg(worths: Numbers, predicted: Numbers) -> float | None:
    """NDCG between that of the worst order, 0, and that of the best, 1; None where all are alike.

    WebGLM does not say what it takes for 0. In its table 7, NDCG 0.8254, 0.7628, 0.8116 and 0.9199
    stand beside 0.4605, 0.2677, 0.4175 and 0.7529: a line that reaches 0 at 0.68 and 1 at 1, far
    below the NDCG of a ranker whose Spearman is 0, so that it is the worst order and no random one.
    """
    low, high = _discounted(sorted(worths)), _discounted(sorted(worths, reverse=True))
    if low == high:
        return None
    return (_discounted(_in_order(worths, predicted)) - low) / (high - low)


def hit(worths: Numbers, predicted: Numbers, k: int) -> float | None:
    """How likely one of those worth most is among the first k; None where all are worth the same.

    0 or 1 unless the ranker's ties decide. Raises ValueError for k below 1.
    """
    if min(worths) == max(worths):
        return None
    return math.fsum(_first(worths, predicted)[: _at_least_one(k)])


def recall(worths: Numbers, predicted: Numbers, k: int) -> float | None:
    """The share of those worth more than 0 that is among the first k; None where none is.

    Raises ValueError for k below 1.
    """
    good = [float(worth > 0) for worth in worths]
    found = math.fsum(_in_order(good, predicted)[: _at_least_one(k)])
    return found / sum(good) if any(good) else None


def reciprocal_rank(worths: Numbers, predicted: Numbers) -> float | None:
    """1 / the place of the first of those worth most, the mean of it where ties decide; None where
    all are worth the same."""
    if min(worths) == max(worths):
        return None
    return math.fsum(chance / place for place, chance in enumerate(_first(worths, predicted), 1))


def ranking_figure(
    methods: Mapping[str, Mapping[str, Estimate]],
    says: str,
    name: str = "ranking",
    title: str = "Rankings",
) -> Figure:
    """What `ranked` says of several methods, side by side (WebGLM, table 7)."""
    measures = dict.fromkeys(measure for each in methods.values() for measure in each)
    found = {
        (method, measure): each[measure]
        for measure in measures
        for method, each in methods.items()
        if measure in each
    }
    return Figure(
        name,
        title,
        says,
        ("measure", "method", "value", "low", "high", "questions"),
        tuple(
            (measure, method, *msgspec.structs.astuple(estimate))
            for (method, measure), estimate in found.items()
        ),
        bars(found, "mean over questions"),
        "WebGLM, table 7",
    )


def _at_least_one(k: int) -> int:
    if k < 1:
        raise ValueError(f"the first {k} are none: k is 1 or more")
    return k


def _discounted(gains: Numbers) -> float:
    return math.fsum(gain / math.log2(at + 2) for at, gain in enumerate(gains))


def _tied(worths: Numbers, predicted: Numbers) -> list[list[float]]:
    """The worths, best predicted first, those of one prediction together."""
    both = sorted(zip(predicted, worths, strict=True), reverse=True)
    return [[worth for _, worth in tied] for _, tied in groupby(both, key=lambda each: each[0])]


def _in_order(worths: Numbers, predicted: Numbers) -> list[float]:
    """The worth to be expected at each place."""
    return [fmean(tied) for tied in _tied(worths, predicted) for _ in tied]


def _first(worths: Numbers, predicted: Numbers) -> list[float]:
    """How likely each place is the first to hold one of those worth most."""
    found: list[float] = []
    most = max(worths)
    for tied in _tied(worths, predicted):
        size, good = len(tied), tied.count(most)
        if good:
            ways = [math.comb(size - place, good - 1) for place in range(1, size + 1)]
            return [*found, *(way / math.comb(size, good) for way in ways)]
        found += [0.0] * size
    return found

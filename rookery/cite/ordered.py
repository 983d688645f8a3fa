"""How well predictions put references into the order of their worth, question by question.

It knows nothing of where predictions come from.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from statistics import StatisticsError, correlation, fmean

Numbers = Sequence[float]


def measured(worths: Sequence[Numbers], predicted: Sequence[Numbers]) -> dict[str, float]:
    """Of each question's references, a mean over the questions of which it can be said.

    `spearman`, `accuracy` (pairs in the right order) and `ndcg` are those of WebGLM's table 7;
    `recall_k` is how often one of those worth most is among the first k.
    """
    both = list(zip(worths, predicted, strict=True))
    told = {
        "spearman": [spearman(*each) for each in both],
        "accuracy": [accuracy(*each) for each in both],
        "ndcg": [ndcg(*each) for each in both],
        "recall_1": [recall(*each, 1) for each in both],
        "recall_5": [recall(*each, 5) for each in both],
    }
    known = {name: [one for one in each if one is not None] for name, each in told.items()}
    return {name: fmean(each) for name, each in known.items() if each}


def spearman(worths: Numbers, predicted: Numbers) -> float | None:
    """The correlation of ranks, -1 to 1; None where either are all the same."""
    try:
        return correlation(_ranks(worths), _ranks(predicted))
    except StatisticsError:
        return None


def accuracy(worths: Numbers, predicted: Numbers) -> float | None:
    """The share of pairs of different worth that are predicted in this order; a tie is half."""
    pairs = combinations(zip(worths, predicted, strict=True), 2)
    apart = [(a - b, x - y) for (a, x), (b, y) in pairs if a != b]
    right = [1.0 if worth * seen > 0 else 0.5 if seen == 0 else 0.0 for worth, seen in apart]
    return fmean(right) if right else None


def ndcg(worths: Numbers, predicted: Numbers) -> float | None:
    """Normalised discounted cumulative gain, 0 to 1, worth being the gain; None where none is."""
    best = _gain(worths, worths)
    return _gain(worths, predicted) / best if best else None


def recall(worths: Numbers, predicted: Numbers, k: int) -> float | None:
    """1 where one of those worth most is among the first k, else 0; None where none is less."""
    if min(worths) == max(worths):
        return None
    return float(max(worths) in [worths[number] for number in _order(predicted)[:k]])


def _gain(worths: Numbers, by: Numbers) -> float:
    order = _order(by)
    return math.fsum(worths[number] / math.log2(at + 2) for at, number in enumerate(order))


def _order(numbers: Numbers) -> list[int]:
    return sorted(range(len(numbers)), key=lambda number: -numbers[number])


def _ranks(numbers: Numbers) -> list[float]:
    """From 0; those that are equal share the mean of their ranks."""
    places: dict[float, list[int]] = {}
    for rank, number in enumerate(sorted(numbers)):
        places.setdefault(number, []).append(rank)
    return [fmean(places[number]) for number in numbers]

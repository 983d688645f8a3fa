"""Metrics of predicted rankings against known worths: Spearman, pair accuracy, NDCG, hit and
recall at k, reciprocal rank.

Items to which a ranker gives the same score are taken in random order, in expectation, so that a
constant ranker scores as a random one.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations, groupby
from statistics import StatisticsError, correlation, fmean

Numbers = Sequence[float]
RankingMetric = Callable[[Numbers, Numbers], float | None]
"""(worths, predicted scores) of one question -> its value; None where it is not defined"""


def score_rankings(worths: Sequence[Numbers], predicted: Sequence[Numbers]) -> dict[str, float]:
    """Return the mean of each metric over the questions that it is defined for.

    One row a question: the worths of its references, and the predicted ones. `spearman`, `accuracy`
    (pairs in the right order) and `ndcg` are those of WebGLM's table 7; `recall_k` is how often a
    reference of the greatest worth is among the first k. A metric that is defined for no question
    is left out.
    """
    measures: dict[str, RankingMetric] = {
        "spearman": compute_spearman,
        "accuracy": compute_pair_accuracy,
        "ndcg": compute_expected_ndcg,
        "recall_1": partial(compute_expected_hit, k=1),
        "recall_5": partial(compute_expected_hit, k=5),
    }
    scores = apply_ranking_metrics(measures, worths, predicted)
    return {name: fmean(each) for name, each in scores.items()}


def apply_ranking_metrics(
    measures: Mapping[str, RankingMetric], worths: Sequence[Numbers], predicted: Sequence[Numbers]
) -> dict[str, list[float]]:
    """Return the values of each metric, one for each question for which it is defined.

    A metric that is defined for none is left out.
    """
    pairs = list(zip(worths, predicted, strict=True))
    values = {name: [measure(*each) for each in pairs] for name, measure in measures.items()}
    defined = {name: [one for one in each if one is not None] for name, each in values.items()}
    return {name: each for name, each in defined.items() if each}


def compute_spearman(worths: Numbers, predicted: Numbers) -> float | None:
    """Return Spearman's rank correlation, -1 to 1; None where either side is constant."""
    try:
        return correlation(_assign_ranks(worths), _assign_ranks(predicted))
    except StatisticsError:
        return None


def compute_pair_accuracy(worths: Numbers, predicted: Numbers) -> float | None:
    """Return the share of pairs of different worth that are predicted in this order; a tie is half.

    None if all worths are equal.
    """
    pairs = combinations(zip(worths, predicted, strict=True), 2)
    apart = [(a - b, x - y) for (a, x), (b, y) in pairs if a != b]
    right = [1.0 if worth * seen > 0 else 0.5 if seen == 0 else 0.0 for worth, seen in apart]
    return fmean(right) if right else None


def compute_expected_ndcg(worths: Numbers, predicted: Numbers) -> float | None:
    """Return the expected NDCG of one question, the gain being the worth; None if no item has any.

    1 for the best order. Worths are 0 or more.
    """
    best = _sum_discounted_gain(sorted(worths, reverse=True))
    return _sum_discounted_gain(compute_expected_worths(worths, predicted)) / best if best else None


def compute_normalised_ndcg(worths: Numbers, predicted: Numbers) -> float | None:
    """Return NDCG scaled from 0 for the worst order to 1 for the best; None for equal worths.

    WebGLM does not say what it takes for 0. In its table 7, NDCG 0.8254, 0.7628, 0.8116 and 0.9199
    stand beside 0.4605, 0.2677, 0.4175 and 0.7529: a line that reaches 0 at 0.68 and 1 at 1, far
    below the NDCG of a ranker whose Spearman is 0. So 0 is the worst order, not a random one.
    """
    low, high = (
        _sum_discounted_gain(sorted(worths)),
        _sum_discounted_gain(sorted(worths, reverse=True)),
    )
    if low == high:
        return None
    return (_sum_discounted_gain(compute_expected_worths(worths, predicted)) - low) / (high - low)


def compute_expected_hit(worths: Numbers, predicted: Numbers, k: int) -> float | None:
    """Return the chance that an item of the greatest worth is among the first k.

    0 or 1 unless the ranker's ties decide; None if all worths are equal. Raises ValueError for k
    below 1.
    """
    if min(worths) == max(worths):
        return None
    return math.fsum(_compute_first_chances(worths, predicted)[: _require_positive(k)])


def compute_recall_at_k(worths: Numbers, predicted: Numbers, k: int) -> float | None:
    """Return the expected share, of the items worth more than 0, that is among the first k.

    None if there are none. Raises ValueError for k below 1.
    """
    good = [float(worth > 0) for worth in worths]
    found = math.fsum(compute_expected_worths(good, predicted)[: _require_positive(k)])
    return found / sum(good) if any(good) else None


def compute_reciprocal_rank(worths: Numbers, predicted: Numbers) -> float | None:
    """Return the expected 1 / rank of the first item of the greatest worth.

    None if all worths are equal.
    """
    if min(worths) == max(worths):
        return None
    return math.fsum(
        chance / place for place, chance in enumerate(_compute_first_chances(worths, predicted), 1)
    )


def compute_expected_worths(worths: Numbers, predicted: Numbers) -> list[float]:
    """Return the expected worth at each rank, best predicted first."""
    return [fmean(tied) for tied in _group_ties(worths, predicted) for _ in tied]


def _require_positive(k: int) -> int:
    if k < 1:
        raise ValueError(f"k is 1 or more, not {k}")
    return k


def _sum_discounted_gain(gains: Numbers) -> float:
    return math.fsum(gain / math.log2(at + 2) for at, gain in enumerate(gains))


def _group_ties(worths: Numbers, predicted: Numbers) -> list[list[float]]:
    """Return the worths, best predicted first, in groups of equal predictions."""
    both = sorted(zip(predicted, worths, strict=True), reverse=True)
    return [[worth for _, worth in tied] for _, tied in groupby(both, key=lambda each: each[0])]


def _compute_first_chances(worths: Numbers, predicted: Numbers) -> list[float]:
    """Return the chance of each rank to be the first that holds an item of the greatest worth."""
    chances: list[float] = []
    most = max(worths)
    for tied in _group_ties(worths, predicted):
        size, good = len(tied), tied.count(most)
        if good:
            ways = [math.comb(size - place, good - 1) for place in range(1, size + 1)]
            return [*chances, *(way / math.comb(size, good) for way in ways)]
        chances += [0.0] * size
    return chances


def _assign_ranks(numbers: Numbers) -> list[int]:
    """Return twice the rank of each number, up to a constant; equal numbers share their mean."""
    ordered = sorted(numbers)
    return [bisect_left(ordered, number) + bisect_right(ordered, number) for number in numbers]

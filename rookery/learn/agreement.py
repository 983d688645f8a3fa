"""How well rewards agree with people: loss, accuracy, calibration, rater by rater.

It knows nothing of models, and of answers only what they scored.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

BINS = 10
STEEPEST = 64.0
"""rewards are never stretched or shrunk by more to make odds of them"""


class Judged(NamedTuple):
    """What somebody preferred, and how the same answers were rewarded."""

    weights: Sequence[float]
    rewards: Sequence[float]
    by: str

    @property
    def tied(self) -> bool:
        """Whether several answers were found as good as the best."""
        return sum(weight == max(self.weights) for weight in self.weights) > 1

    def chances(self, scale: float) -> list[float]:
        """Of each answer to be preferred, where differences of rewards, times `scale`, are
        log-odds."""
        highest = max(self.rewards)
        odds = [math.exp(scale * (reward - highest)) for reward in self.rewards]
        return [each / sum(odds) for each in odds]

    def loss(self, scale: float) -> float:
        """Cross-entropy of the weights over these chances, in nats."""
        highest = max(self.rewards)
        total = math.log(sum(math.exp(scale * (reward - highest)) for reward in self.rewards))
        pairs = zip(self.weights, self.rewards, strict=True)
        return sum(weight * (total - scale * (reward - highest)) for weight, reward in pairs)

    def credit(self) -> float:
        """The weight of the answer with the highest reward: half for either of two that tied."""
        best = [number for number, reward in enumerate(self.rewards) if reward == max(self.rewards)]
        return sum(self.weights[number] for number in best) / len(best)

    def right(self) -> float:
        """1 where the answer that was preferred has the highest reward, 0 where it has not."""
        best = [number for number, reward in enumerate(self.rewards) if reward == max(self.rewards)]
        return sum(self.weights[number] == max(self.weights) for number in best) / len(best)


class Bin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Comparisons of which a model was about as certain."""

    comparisons: int
    chance: float
    """the mean of what it gave the answers that it rewarded most"""
    credit: float
    """how often people preferred these, a tie being half of it"""


class Rater(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One person's comparisons, or those of one model."""

    by: str
    comparisons: int
    accuracy: float | None
    """of the rewards, ties left out; None: there are only ties"""
    credit: float
    """the same, a tie being half of it"""
    first: float | None
    """how often the answer that was shown first was preferred, ties left out: near 0 or 1, the
    order may have been all that was judged"""


class Agreement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of rewards with comparisons that they were not learnt from."""

    comparisons: int
    ties: int
    loss: float
    """cross-entropy in nats; log 2 = 0.693 for pairs is knowing nothing"""
    accuracy: float | None
    """how often the highest reward is that of the answer preferred, ties left out"""
    credit: float
    """the same, a tie being half of it"""
    error: float
    """expected calibration error: by how much the chance of the answer rewarded most misses how
    often it was preferred, over 10 bins by that chance"""
    bins: tuple[Bin, ...]
    """from the least certain to the most"""
    raters: tuple[Rater, ...]
    """from the one who judged most to the one who judged least"""


class Foretold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How well whether an answer is good was foretold."""

    answers: int
    loss: float
    """binary cross-entropy in nats; log 2 = 0.693 is knowing nothing"""
    accuracy: float
    area: float | None
    """under the ROC curve (GopherCite, appendix E): how often a good answer has a higher logit than
    one that is not; None: all are alike"""


def foretold(logits: Sequence[float], good: Sequence[float]) -> Foretold:
    """How these logits foretell what is 1 for good answers and 0 for others; one at least."""
    pairs = list(zip(logits, good, strict=True))
    yes = [logit for logit, value in pairs if value]
    no = [logit for logit, value in pairs if not value]
    wins = sum((one > other) + (one == other) / 2 for one in yes for other in no)
    return Foretold(
        len(pairs),
        _mean([_softplus(-logit if value else logit) for logit, value in pairs]),
        _mean([float((logit > 0) == bool(value)) for logit, value in pairs]),
        wins / (len(yes) * len(no)) if yes and no else None,
    )


def _softplus(logit: float) -> float:
    return max(logit, 0.0) + math.log1p(math.exp(-abs(logit)))


def agreement(judged: Sequence[Judged], scale: float = 1.0) -> Agreement:
    """Agreement, where differences of rewards, times `scale`, are taken as log-odds.

    Raises ValueError where there is nothing to measure, or a reward is no finite number.
    """
    if not judged:
        raise ValueError("there are no comparisons")
    if not all(math.isfinite(reward) for each in judged for reward in each.rewards):
        raise ValueError("a reward is no finite number")
    bins = _bins(judged, scale)
    error = sum(each.comparisons * abs(each.chance - each.credit) for each in bins)
    return Agreement(
        comparisons=len(judged),
        ties=sum(each.tied for each in judged),
        loss=_mean([each.loss(scale) for each in judged]),
        accuracy=_accuracy(judged),
        credit=_mean([each.credit() for each in judged]),
        error=error / len(judged),
        bins=bins,
        raters=_raters(judged),
    )


def steepness(judged: Sequence[Judged]) -> float:
    """What rewards are to be multiplied by so that their differences are log-odds: the number with
    the least loss on these comparisons (the inverse of a softmax's temperature).

    Each answer of a comparison is taken as preferred once more than it was, as Platt (1999) has
    it: ten comparisons that are all foretold do not make certain of the eleventh. Between 1/64 and
    64.
    """
    softer = [each._replace(weights=_softened(each.weights, len(judged))) for each in judged]
    low, high = -math.log(STEEPEST), math.log(STEEPEST)
    for _ in range(50):
        middle = (low + high) / 2
        if _slope(softer, math.exp(middle)) > 0:
            high = middle
        else:
            low = middle
    return math.exp((low + high) / 2)


def _softened(weights: Sequence[float], count: int) -> list[float]:
    return [(weight * count + 1) / (count + len(weights)) for weight in weights]


def _slope(judged: Sequence[Judged], scale: float) -> float:
    """Of the loss, which is convex in the scale."""
    return sum(
        (chance - weight) * reward
        for each in judged
        for chance, weight, reward in zip(
            each.chances(scale), each.weights, each.rewards, strict=True
        )
    )


def _bins(judged: Sequence[Judged], scale: float) -> tuple[Bin, ...]:
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for each in judged:
        chance = max(each.chances(scale))
        found[min(int(chance * BINS), BINS - 1)].append((chance, each.credit()))
    return tuple(
        Bin(len(inside), *(_mean(column) for column in zip(*inside, strict=True)))
        for _, inside in sorted(found.items())
    )


def _raters(judged: Sequence[Judged]) -> tuple[Rater, ...]:
    by: dict[str, list[Judged]] = defaultdict(list)
    for each in judged:
        by[each.by].append(each)
    raters = [
        Rater(
            name,
            len(theirs),
            _accuracy(theirs),
            _mean([each.credit() for each in theirs]),
            _first(theirs),
        )
        for name, theirs in sorted(by.items())
    ]
    return tuple(sorted(raters, key=lambda rater: -rater.comparisons))


def _accuracy(judged: Sequence[Judged]) -> float | None:
    clear = [each.right() for each in judged if not each.tied]
    return _mean(clear) if clear else None


def _first(judged: Sequence[Judged]) -> float | None:
    clear = [float(each.weights[0] == max(each.weights)) for each in judged if not each.tied]
    return _mean(clear) if clear else None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)

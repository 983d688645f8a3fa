"""Samples of the WebGPT recipe as three judge them: the known answers, and two reward models.

It knows nothing of what is found.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from recipes.webgpt_data import is_right
from recipes.webgpt_stages import Samples
from rookery.learn.scorer import Scorer
from rookery.learn.worlds import Scores, worths
from rookery.measure.battle import Match, win_rate_figure
from rookery.measure.bestofn import best_of_figure, compute_figure, curve, gain
from rookery.measure.figure import Figure
from rookery.measure.interval import Estimate, mean
from rookery.records import Question, Record

NEVER = -1e9
"""the reward of what is no answer, so that it is chosen last"""
CLONED, LEARNT = "cloned", "PPO"
Numbers = list[list[float]]
"""of each question, of each of its samples"""


class Pool(Record, frozen=True):
    """Samples to each question, as three judge them."""

    right: Numbers
    """1 or 0, by the known answers"""
    reward: Numbers
    """by which the best is chosen"""
    validation: Numbers
    """by the model that learnt from other questions, as log-odds; of no answer, the worst seen"""


def pool(asked: Sequence[Question], samples: Samples, reward: Scores, validation: Scores) -> Pool:
    """How samples are judged."""
    right = [
        [float(is_right(question, answer)) for answer in answers]
        for question, answers in zip(asked, samples, strict=True)
    ]
    seen = _scored(asked, samples, validation)
    worst = min((each for row in seen for each in row if each != NEVER), default=0.0)
    return Pool(
        right, _scored(asked, samples, reward), [[max(each, worst) for each in row] for row in seen]
    )


def _scored(asked: Sequence[Question], samples: Samples, scores: Scores) -> Numbers:
    pairs = zip(asked, samples, strict=True)
    found = iter(worths(scores, [(one, answer) for one, some in pairs for answer in some]))
    return [[NEVER if (one := next(found)) is None else one for _ in some] for some in samples]


def odds(reward: Path) -> Scores:
    """The rewards of a model, stretched so that differences are log-odds."""
    scorer = Scorer(reward)
    return lambda pairs: [scorer.scale.odds * each for each in scorer.scores(pairs)]


def chosen(pool: Pool, n: int) -> list[float]:
    """Of each question, how often the best by reward of n fresh samples is right."""
    return [fmean(_best(*each, n)) for each in zip(pool.reward, pool.right, strict=True)]


def _best(rewards: Sequence[float], right: Sequence[float], n: int) -> Iterator[float]:
    for start in range(0, len(rewards) - n + 1, n):
        best = max(rewards[start : start + n])
        tied = [right[at] for at in range(start, start + n) if rewards[at] == best]
        yield fmean(tied)


def preference(gains: Estimate) -> Estimate:
    """How often log-odds foretell that the one is preferred to the other."""
    low, value, high = (1 / (1 + math.exp(-each)) for each in (gains.low, gains.value, gains.high))
    return Estimate(value, low, high, gains.count)


def figures(
    pools: Mapping[str, Pool], fresh: Mapping[str, Pool], costs: Mapping[str, float], n: int
) -> Iterator[Figure]:
    """Best of n, foretold and realised; as people would prefer it; what a budget buys; PPO."""
    ns = [2**power for power in range(n.bit_length()) if 2**power <= n]
    count = len(next(iter(pools.values())).right)
    says = f"{count} questions that nothing was learnt from, {n} samples each, and {n} fresh ones."
    foretold = {name: curve(each.reward, each.right, ns) for name, each in pools.items()}
    seen = {name: {k: mean(chosen(each, k)) for k in ns} for name, each in fresh.items()}
    yield best_of_figure(foretold, says, seen, worth="share of right answers")
    cloned, again = pools[CLONED], fresh[CLONED]
    odds = gain(cloned.reward, cloned.validation, ns)
    one = chosen(again, 1)
    won = {
        k: mean([0.5 + (x - y) / 2 for x, y in zip(chosen(again, k), one, strict=True)]) for k in ns
    }
    yield best_of_figure(
        {CLONED: {k: preference(each) for k, each in odds.items()}},
        f"{says} Foretold by a reward model that learnt from other questions.",
        {CLONED: won},
        "preferred-best-of-n",
        "How often the best of n is preferred to one sample",
        "preferred",
    )
    priced = {name: foretold[name] for name in costs}
    yield compute_figure(priced, costs, says, "weights of layers, times samples")
    yield win_rate_figure(_matches(fresh, n), CLONED, says, title="The cloned policy's one sample")


def _matches(fresh: Mapping[str, Pool], n: int) -> list[Match]:
    """The first sample of the cloned policy against what others give."""
    one = [row[0] for row in fresh[CLONED].right]
    others = {f"{name}, best of {n}": each for name, each in fresh.items()}
    given = {name: [float(round(x)) for x in chosen(each, n)] for name, each in others.items()}
    given["PPO, one sample"] = [row[0] for row in fresh[LEARNT].right]
    return [
        Match(CLONED, name, 0.5 + (theirs - ours) / 2, f"{number}")
        for name, some in given.items()
        for number, (ours, theirs) in enumerate(zip(some, one, strict=True))
    ]

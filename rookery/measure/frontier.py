"""Reward against KL: how much reward a policy can have at a distance from where it started.

The best policy at a distance is known: the first one, each answer weighed by e^(reward / beta)
(Ziegler, section 3.1.1). It knows nothing of policies; it is given rewards of answers that the
first policy gave.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from rookery.measure.bestofn import kl as kl_of_best
from rookery.measure.figure import Cell, Figure, Line, Picture
from rookery.measure.interval import Estimate, mean
from rookery.records import Record

ENOUGH = 10.0
"""samples of a question that must have a say, or the optimum is not known there"""
Contexts = Sequence[Sequence[float]]
"""numbers of each answer to each question"""


class Tilted(NamedTuple):
    """The first policy's answers to one question, weighed by e^(reward / beta)."""

    kl: float
    """from the first policy, in nats"""
    reward: float
    effective: float
    """of how many samples of equal weight it is worth as much"""


class Optimum(Record, frozen=True):
    """The most reward that any policy can have at this distance, over all questions."""

    beta: float
    """the price of a nat of KL in rewards"""
    kl: Estimate
    """nats a question"""
    reward: Estimate
    effective: float
    """samples with a say, in all but a quarter of the questions; infinite where all answers are
    enumerated"""

    @property
    def known(self) -> bool:
        """Whether enough samples have a say: N of them cannot show a KL above log N."""
        return self.effective >= ENOUGH


class Reached(NamedTuple):
    """Where one run, or one moment of a run, came to."""

    kl: float
    reward: Estimate


def tilted(rewards: Sequence[float], beta: float, chances: Sequence[float] | None = None) -> Tilted:
    """The best policy for reward - beta KL on one question.

    `rewards` are of samples of the first policy; or, with `chances`, of all its answers, and then
    the outcome is exact. Raises ValueError without rewards, where one is not finite, for beta not
    above 0, and for chances that are not one a reward, all positive, summing to 1.
    """
    rewards_N = np.asarray(rewards, dtype=float)
    if not len(rewards_N) or not np.isfinite(rewards_N).all() or not beta > 0:
        raise ValueError(
            f"beta is above 0 and rewards are finite: {beta}, {len(rewards_N)} rewards"
        )
    chances_N = _chances(len(rewards_N), chances)
    # Less the highest reward, so that no power is too great for a float.
    powers_N = (rewards_N - rewards_N.max()) / beta
    whole = float(chances_N @ np.exp(powers_N))
    weights_N = chances_N * np.exp(powers_N) / whole
    kl = float(weights_N @ powers_N - np.log(whole))
    effective = 1 / float(weights_N @ weights_N) if chances is None else float("inf")
    return Tilted(max(kl, 0.0), float(weights_N @ rewards_N), effective)


def optimum(
    rewards: Contexts, betas: Sequence[float], chances: Contexts | None = None, seed: int = 0
) -> tuple[Optimum, ...]:
    """The best policies for these prices, the highest first: KL and reward, means over questions.

    As `tilted` question by question, by self-normalised importance weights where answers are
    sampled. Intervals are the bootstrap's over questions; that few samples make both KL and reward
    too small where they grow large is not in them, and `known` says where that begins. One question
    alone has no interval.
    """
    odds: Sequence[Sequence[float] | None] = (
        chances if chances is not None else [None] * len(rewards)
    )
    found = []
    for beta in sorted(betas, reverse=True):
        each = [tilted(row, beta, its) for row, its in zip(rewards, odds, strict=True)]
        kl, reward = (mean([one[at] for one in each], seed=seed) for at in (0, 1))
        effective = float(np.quantile([one.effective for one in each], 0.25, method="lower"))
        found.append(Optimum(beta, kl, reward, effective))
    return tuple(found)


def reward_at(best: Sequence[Optimum], kl: float) -> float:
    """The most reward at this distance, on straight lines between the points that are known.

    Raises ValueError beyond them: sample more answers, or ask for more betas.
    """
    points = sorted((each.kl.value, each.reward.value) for each in best if each.known)
    if not points or not points[0][0] <= kl <= points[-1][0]:
        ends = f"from {points[0][0]:.3g} to {points[-1][0]:.3g}" if points else "nowhere"
        raise ValueError(f"the optimum is known {ends}, not at a KL of {kl:.3g} nats")
    kls, rewards = zip(*points, strict=True)
    return float(np.interp(kl, kls, rewards))


def frontier_figure(
    runs: Mapping[str, Sequence[Reached]],
    best: Sequence[Optimum],
    says: str,
    best_of: Mapping[int, Estimate] | None = None,
    name: str = "frontier",
    title: str = "Reward against distance from the first policy",
) -> Figure:
    """What runs reached, the optimum where it is known, and the best of n samples at its KL of
    log n - (n - 1) / n."""
    known = [each for each in best if each.known]
    series = {"best of n": [Reached(kl_of_best(n), each) for n, each in (best_of or {}).items()]}
    optimal = {"optimum": [Reached(each.kl.value, each.reward) for each in known]}
    lines = [_line(each, points, "points") for each, points in runs.items()]
    lines += [_line(each, points, "line") for each, points in series.items() if points]
    lines += [_line(each, points, "dashed") for each, points in optimal.items() if points]
    rows = [
        _row(each, reached)
        for each, points in {**runs, **series, **optimal}.items()
        for reached in points
    ]
    return Figure(
        name,
        title,
        f"{says} The optimum is shown as far as {ENOUGH:g} samples of a question have a say in it.",
        ("policy", "KL, nats", "reward", "low", "high"),
        tuple(rows),
        Picture("curves", tuple(lines), "KL from the first policy, nats", "reward"),
        "Ziegler, figure 3",
    )


def _chances(count: int, given: Sequence[float] | None) -> np.ndarray:
    """The same for each sample, where none are given."""
    chances_N = np.asarray([1 / count] * count if given is None else given, dtype=float)
    if len(chances_N) != count or (chances_N <= 0).any() or abs(chances_N.sum() - 1) > 1e-9:
        raise ValueError("chances are positive, one a reward, and sum to 1")
    return chances_N


def _row(name: str, reached: Reached) -> tuple[Cell, ...]:
    return name, reached.kl, reached.reward.value, reached.reward.low, reached.reward.high


def _line(name: str, points: Sequence[Reached], style: Literal["line", "points", "dashed"]) -> Line:
    return Line(
        name,
        tuple((point.kl, point.reward.value) for point in points),
        tuple(point.reward.low for point in points),
        tuple(point.reward.high for point in points),
        style,
    )

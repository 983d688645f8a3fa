"""Reward against its price: best-of-n sampling, and optimal policies against KL.

Best of n is estimated for every n from N answers to each question: a reward model chooses, and a
validation reward model, trained on other data, scores the chosen answer (WebGPT, appendix I). The
best policy at a KL distance is the initial policy with each answer weighted by e^(reward / beta)
(Ziegler, section 3.1.1), estimated from rewards of the initial policy's answers.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from rookery.evidence.ranking_metrics import compute_expected_worths
from rookery.measure.figures import Figure, FigurePicture, LineStyle, make_line
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.records import Record

Array = npt.NDArray[np.float64]
BestOfNCurve = Mapping[int, Estimate]
"""validation reward of the best of n, by n"""


def estimate_best_of_n(rewards: npt.ArrayLike, validations: npt.ArrayLike) -> Array:
    """Return the expected validation reward of the best of n answers by reward, for n = 1..N.

    The mean over all sets of n of these N answers, which is unbiased (WebGPT, appendix I); answers
    of equal reward are chosen equally often. Both arrays have the same shape, with the answers to
    one question on the last axis; so has the result, with n - 1 in the place of the answer. A
    reward may be infinite, for an answer never to be chosen. Raises ValueError for other shapes or
    NaN.
    """
    by, of = np.asarray(rewards, float), np.asarray(validations, float)
    if by.shape != of.shape or 0 in (by.ndim, by.size):
        raise ValueError(
            f"rewards {by.shape} and validation rewards {of.shape} are to be of the same answers, "
            "one at least"
        )
    if np.isnan(by).any() or not np.isfinite(of).all():
        raise ValueError("a reward is not a number: leave out the answers that have none")
    N = by.shape[-1]
    rows = zip(of.reshape(-1, N).tolist(), by.reshape(-1, N).tolist(), strict=True)
    best_first_QN = np.array([compute_expected_worths(*each) for each in rows])
    return (best_first_QN[:, ::-1] @ _compute_order_weights(N).T).reshape(by.shape)


def estimate_best_of_n_curve(
    rewards: Sequence[Sequence[float]],
    validations: Sequence[Sequence[float]],
    at: Sequence[int] = (),
) -> dict[int, Estimate]:
    """Return the mean of `estimate_best_of_n` over questions, with intervals, for each n of `at`.

    If `at` is empty, n is 1, 2, 4, ... and N, the fewest answers to any question. Intervals are
    over questions. Raises ValueError as `estimate_best_of_n`, for an n that is not
    from 1 to N, and without a question.
    """
    return average_over_questions(
        [estimate_best_of_n(*each) for each in zip(rewards, validations, strict=True)], at
    )


def compute_best_of_n_kl(n: int) -> float:
    """Return the KL of the best of n from one sample, in nats, for any reward without ties.

    It is log n - (n - 1)/n (Stiennon and others, 2020, appendix G.3).
    """
    return math.log(n) - (n - 1) / n


def make_best_of_n_figure(
    curves: Mapping[str, BestOfNCurve],
    says: str,
    realised: Mapping[str, BestOfNCurve] | None = None,
    name: str = "best-of-n",
    title: str = "Best of n",
    worth: str = "validation reward",
) -> Figure:
    """Make the figure of estimated and, if known, realised reward by n (WebGPT, figure 5).

    `says` is the caption.
    """
    kinds: list[tuple[str, LineStyle, Mapping[str, BestOfNCurve]]] = [
        ("estimated", "line", curves),
        ("realised", "points", realised or {}),
    ]
    series = [
        (f"{model}, {kind}" if realised else model, style, points)
        for kind, style, each in kinds
        for model, points in each.items()
    ]
    rows = [
        (label, n, compute_best_of_n_kl(n), *msgspec.structs.astuple(each))
        for label, _, points in series
        for n, each in points.items()
    ]
    lines = [make_line(label, points.items(), style) for label, style, points in series]
    return Figure(
        name,
        title,
        says,
        ("policy", "n", "KL (nats)", worth, "low", "high", "questions"),
        tuple(rows),
        FigurePicture("curves", tuple(lines), x="n, answers drawn", y=worth, log_x=True),
        "WebGPT, figure 5 and appendix I",
    )


def average_over_questions(
    question_rewards: Sequence[Array], at: Sequence[int], least: float | None = 0.0
) -> dict[int, Estimate]:
    """Return the mean over questions of the rewards at each n of `at`, with intervals, by n.

    A question's rewards are those of n = 1, 2, ..., in this order. If `at` is empty, n is 1, 2, 4,
    ... and N, the fewest that a question has. Intervals are over questions; `least` is the rewards'
    lower bound as `estimate_mean` has it. Raises
    ValueError for an n that is not from 1 to N, and without a question.
    """
    most = min(map(len, question_rewards), default=0)
    ns = at or sorted({*(2**power for power in range(most.bit_length())), most})
    if not 1 <= min(ns) <= max(ns) <= most:
        raise ValueError(f"n is from 1 to {most}, the fewest answers that a question has")
    return {
        n: estimate_mean([float(each[n - 1]) for each in question_rewards], least=least) for n in ns
    }


def _compute_order_weights(N: int) -> Array:
    """Return the chance that the i-th lowest of N is the best of n drawn, at [n - 1, i - 1].

    It is C(i-1, n-1) / C(N, n). From one i to the one below, it shrinks by (i - n) / (i - 1), down
    to 0 where i is n; the products never overflow, as the binomials would.
    """
    n_N1 = np.arange(1, N + 1)[:, None]
    i_N = np.arange(N, 1, -1)[None, :]
    shrunk_NN = np.maximum(i_N - n_N1, 0) / (i_N - 1)
    return np.cumprod(np.hstack([n_N1 / N, shrunk_NN]), axis=1)[:, ::-1]


MIN_EFFECTIVE_SAMPLES = 10.0
"""least effective sample size of a question; below it the optimum counts as unknown"""


class TiltedPolicy(NamedTuple):
    """Initial policy's answers to one question, weighted by e^(reward / beta)."""

    kl: float
    """KL from the initial policy, in nats"""
    reward: float
    effective: float
    """effective sample size"""


class OptimalPolicy(Record, frozen=True):
    """Highest mean reward of any policy at this KL, over all questions."""

    beta: float
    """price of a nat of KL in rewards"""
    kl: Estimate
    """nats a question"""
    reward: Estimate
    effective: float
    """lower quartile over questions of the effective sample size"""

    @property
    def known(self) -> bool:
        """True if enough samples count: N of them cannot show a KL above log N."""
        return self.effective >= MIN_EFFECTIVE_SAMPLES


class ReachedPoint(NamedTuple):
    """KL and reward of one run, or of one moment of a run."""

    kl: float
    reward: Estimate


def tilt_policy(rewards: Sequence[float], beta: float) -> TiltedPolicy:
    """Return KL, reward and effective sample size of the best policy for reward - beta * KL.

    It is that of one question. `rewards` are of samples of the initial policy. Raises ValueError
    without rewards, if one is not finite, and if beta is not above 0.
    """
    rewards_N = np.asarray(rewards, dtype=float)
    if not len(rewards_N) or not np.isfinite(rewards_N).all() or not beta > 0:
        raise ValueError(
            f"beta is above 0 and rewards are finite: {beta}, {len(rewards_N)} rewards"
        )
    # Subtract the highest reward, so that exp cannot overflow.
    powers_N = (rewards_N - rewards_N.max()) / beta
    mean = float(np.exp(powers_N).mean())
    weights_N = np.exp(powers_N) / (len(rewards_N) * mean)
    kl = float(weights_N @ powers_N - np.log(mean))
    effective = 1 / float(weights_N @ weights_N)
    return TiltedPolicy(max(kl, 0.0), float(weights_N @ rewards_N), effective)


def find_optimal_policies(
    rewards: Sequence[Sequence[float]], betas: Sequence[float]
) -> tuple[OptimalPolicy, ...]:
    """Return mean KL and reward of the best policy for each price of KL, highest price first.

    `rewards` has those of each question, which is treated as in `tilt_policy`, by self-normalised
    importance weights. Intervals are over questions. They do not include the bias of few samples,
    which makes large KL and reward too small; `known` says where that begins.
    """
    policies = []
    for beta in sorted(betas, reverse=True):
        each = [tilt_policy(row, beta) for row in rewards]
        kl, reward = (estimate_mean([one[at] for one in each]) for at in (0, 1))
        effective = float(np.quantile([one.effective for one in each], 0.25, method="lower"))
        policies.append(OptimalPolicy(beta, kl, reward, effective))
    return tuple(policies)


def make_frontier_figure(
    runs: Mapping[str, Sequence[ReachedPoint]],
    best: Sequence[OptimalPolicy],
    says: str,
    best_of: Mapping[int, Estimate] | None = None,
    name: str = "frontier",
    title: str = "Reward against distance from the first policy",
) -> Figure:
    """Make the figure of runs, the known optimum, and the best of n by KL (Ziegler, figure 3).

    `says` begins the caption.
    """
    best_found = [ReachedPoint(compute_best_of_n_kl(n), of) for n, of in (best_of or {}).items()]
    known_points = [ReachedPoint(each.kl.value, each.reward) for each in best if each.known]
    series: list[tuple[str, LineStyle, Sequence[ReachedPoint]]] = [
        *((run, "points", points) for run, points in runs.items()),
        ("best of n", "line", best_found),
        ("optimum", "dashed", known_points),
    ]
    lines = [make_line(label, points, style) for label, style, points in series if points]
    rows = [
        (label, kl, reward.value, reward.low, reward.high)
        for label, _, points in series
        for kl, reward in points
    ]
    return Figure(
        name,
        title,
        f"{says} The optimum is shown where its effective sample size is at least "
        f"{MIN_EFFECTIVE_SAMPLES:g}.",
        ("policy", "KL, nats", "reward", "low", "high"),
        tuple(rows),
        FigurePicture("curves", tuple(lines), "KL from the first policy, nats", "reward"),
        "Ziegler, figure 3",
    )

"""What the best of n answers is worth, foretold for every n from N answers to each question.

A reward chooses; a validation reward, learnt from other data, says what the chosen one is worth.
It knows nothing of where answers and rewards come from.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec
import numpy as np
import numpy.typing as npt

from rookery.measure.figure import Figure, Line, Picture
from rookery.measure.interval import Estimate, mean
from rookery.records import Record

Array = npt.NDArray[np.float64]
Curve = Mapping[int, Estimate]
"""the worth of the best of n, for some n"""


class Bought(Record, frozen=True):
    """The most that a budget buys."""

    model: str
    n: int
    """answers drawn, of which the best is given"""
    cost: float
    """of these n answers, in the unit of the costs"""
    worth: Estimate


def best_of(rewards: npt.ArrayLike, validations: npt.ArrayLike) -> Array:
    """The validation reward expected of the answer with the highest reward among n, for n = 1..N.

    The mean over all sets of n of these N answers, which is unbiased (WebGPT, appendix I); answers
    of equal reward are chosen equally often. Both are of one shape, of which the last axis is the
    answers to one question, and so is the result, with n - 1 in the place of the answer. A reward
    may be infinite, for an answer never to be chosen. Raises ValueError for other shapes or NaN.
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
    rows = zip(by.reshape(-1, N), of.reshape(-1, N), strict=True)
    sorted_QN = np.stack([_sorted(*each) for each in rows])
    return (sorted_QN @ _chosen(N).T).reshape(by.shape)


def curve(
    rewards: Sequence[Sequence[float]],
    validations: Sequence[Sequence[float]],
    at: Sequence[int] = (),
    seed: int = 0,
) -> dict[int, Estimate]:
    """The mean of `best_of` over questions, with intervals by question, for each n of `at`.

    Where `at` is empty, n is 1, 2, 4, ... and N, the fewest answers to any question. Raises
    ValueError for an n beyond that.
    """
    return _means([best_of(*each) for each in zip(rewards, validations, strict=True)], at, seed)


def gain(
    rewards: Sequence[Sequence[float]],
    validations: Sequence[Sequence[float]],
    at: Sequence[int] = (),
    seed: int = 0,
) -> dict[int, Estimate]:
    """By how much the best of n exceeds one sample, question by question; else as `curve`.

    Where rewards are log odds, sigmoid of it is how often people should prefer it (WebGPT, fig. 5).
    """
    found = [best_of(*each) for each in zip(rewards, validations, strict=True)]
    return _means([each - each[0] for each in found], at, seed)


def kl(n: int) -> float:
    """How far the best of n is from one sample, in nats, for any reward without ties:
    log n - (n - 1)/n (Stiennon and others, 2020, appendix G.3)."""
    return math.log(n) - (n - 1) / n


def compute_optimal(
    curves: Mapping[str, Curve], costs: Mapping[str, float], budget: float
) -> Bought:
    """The model and n that are worth most and cost no more than the budget (WebGPT, figure 8).

    `costs` is what one answer of each model costs, such as floating point operations with those of
    the reward model. Of equal worth, the cheapest. Raises ValueError where it buys no answer.
    """
    affordable = [each for each in _offers(curves, costs) if each.cost <= budget]
    if not affordable:
        raise ValueError(f"a budget of {budget:g} buys no answer: the cheapest costs more")
    return max(affordable, key=lambda each: (each.worth.value, -each.cost))


def frontier(curves: Mapping[str, Curve], costs: Mapping[str, float]) -> list[Bought]:
    """What each budget buys, cheapest first: nothing else is worth as much for as little."""
    found: list[Bought] = []
    for each in sorted(_offers(curves, costs), key=lambda one: (one.cost, -one.worth.value)):
        if not found or each.worth.value > found[-1].worth.value:
            found.append(each)
    return found


def best_of_figure(
    curves: Mapping[str, Curve],
    says: str,
    realised: Mapping[str, Curve] | None = None,
    name: str = "best-of-n",
    title: str = "Best of n",
    worth: str = "validation reward",
) -> Figure:
    """The foretold worth over n, and what was realised where that is known (WebGPT, figure 5)."""
    told = [(model, "foretold", each) for model, each in curves.items()]
    seen = [(model, "realised", each) for model, each in (realised or {}).items()]
    rows = [
        (f"{model}, {kind}" if seen else model, n, kl(n), *msgspec.structs.astuple(each))
        for model, kind, points in told + seen
        for n, each in points.items()
    ]
    lines = [_line(f"{model}, foretold" if seen else model, each) for model, _, each in told]
    lines += [
        msgspec.structs.replace(_line(f"{model}, realised", each), style="points")
        for model, _, each in seen
    ]
    return Figure(
        name,
        title,
        says,
        ("policy", "n", "KL (nats)", worth, "low", "high", "questions"),
        tuple(rows),
        Picture("curves", tuple(lines), x="n, answers drawn", y=worth, log_x=True),
        "WebGPT, figure 5 and appendix I",
    )


def compute_figure(
    curves: Mapping[str, Curve],
    costs: Mapping[str, float],
    says: str,
    unit: str = "floating point operations",
    name: str = "compute",
    title: str = "What a budget buys",
) -> Figure:
    """Worth over cost for every model and n, and the frontier of both (WebGPT, figure 8)."""
    best = frontier(curves, costs)
    lines = [
        _line(model, {n * costs[model]: each for n, each in points.items()})
        for model, points in curves.items()
    ]
    lines.append(
        Line("frontier", tuple((each.cost, each.worth.value) for each in best), style="dashed")
    )
    rows = [
        (
            each.model,
            each.n,
            each.cost,
            *msgspec.structs.astuple(each.worth),
            "yes" if each in best else "",
        )
        for each in _offers(curves, costs)
    ]
    return Figure(
        name,
        title,
        says,
        ("model", "n", unit, "worth", "low", "high", "questions", "on the frontier"),
        tuple(rows),
        Picture("curves", tuple(lines), x=unit, y="worth", log_x=True),
        "WebGPT, figure 8",
    )


def _means(found: Sequence[Array], at: Sequence[int], seed: int) -> dict[int, Estimate]:
    most = min(map(len, found), default=0)
    ns = at or sorted({*(2**power for power in range(most.bit_length())), most})
    if not 1 <= min(ns) <= max(ns) <= most:
        raise ValueError(f"n is from 1 to {most}, the fewest answers that a question has")
    return {n: mean([float(each[n - 1]) for each in found], seed=seed) for n in ns}


def _sorted(rewards_N: Array, validations_N: Array) -> list[float]:
    """Validation rewards in the order of the rewards; those of equal ones are their mean."""
    order = np.argsort(rewards_N, kind="stable")
    found: list[float] = []
    for _, tied in groupby(order, key=lambda at: rewards_N[at]):
        values = [float(validations_N[at]) for at in tied]
        found += [math.fsum(values) / len(values)] * len(values)
    return found


def _chosen(N: int) -> Array:
    """How likely the i-th lowest of N is the best of n drawn: C(i-1, n-1) / C(N, n), at n-1, i-1.

    From one i to the one below, this shrinks by (i - n) / (i - 1), down to 0 where i is n.
    """
    n_N1 = np.arange(1, N + 1)[:, None]
    i_N = np.arange(N, 1, -1)[None, :]
    shrunk_NN = np.maximum(i_N - n_N1, 0) / (i_N - 1)
    return np.cumprod(np.hstack([n_N1 / N, shrunk_NN]), axis=1)[:, ::-1]


def _offers(curves: Mapping[str, Curve], costs: Mapping[str, float]) -> list[Bought]:
    return [
        Bought(model, n, n * costs[model], worth)
        for model, points in curves.items()
        for n, worth in points.items()
    ]


def _line(name: str, points: Mapping[int, Estimate] | Mapping[float, Estimate]) -> Line:
    return Line(
        name,
        tuple((float(x), each.value) for x, each in points.items()),
        tuple(each.low for each in points.values()),
        tuple(each.high for each in points.values()),
    )

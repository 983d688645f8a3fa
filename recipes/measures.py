"""Measures that only recipes and benchmarks take: areas under the ROC curve (DeLong), the
best of n, agreement of rewards, and figures of curves."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from rookery.learn.training_run import load_run_metrics
from rookery.measure.figures import Figure, FigurePicture, make_line
from rookery.measure.intervals import MIN_GROUPS, Estimate, get_t_quantile
from rookery.measure.reward_frontiers import (
    compute_best_of_n_kl,
)


def estimate_auroc(good: Sequence[float], bad: Sequence[float]) -> Estimate:
    """Return the area under the ROC curve: how often a good one scores above a bad one, ties half.

    The interval is DeLong's (1988), over good ones and bad ones, cut off at 0 and 1; None for fewer
    than MIN_GROUPS of either, or all apart. Raises ValueError without a good or a bad one.
    """
    if not good or not bad:
        raise ValueError("an area needs a good and a bad one at least")
    above_G, above_B = _share_below(good, bad), 1 - _share_below(bad, good)
    value = float(above_G.mean())
    size = len(good) + len(bad)
    error = sum(float(each.var(ddof=1)) / len(each) for each in (above_G, above_B) if len(each) > 1)
    if min(len(good), len(bad)) < MIN_GROUPS or not error:
        return Estimate(value, None, None, size)
    reach = get_t_quantile(size - 2) * error**0.5
    return Estimate(value, max(0.0, value - reach), min(1.0, value + reach), size)


def _share_below(scores: Sequence[float], others: Sequence[float]) -> np.ndarray:
    """Return for each score the share of the others that are below it, ties half."""
    ordered, places = np.sort(others), np.asarray(scores)
    below = np.searchsorted(ordered, places, "left") + np.searchsorted(ordered, places, "right")
    return below / (2 * len(ordered))


def interpolate_best_of_n(curve: Sequence[float], kl: float) -> float:
    """Return the reward of the best of n at a KL in nats, from the rewards for n = 1, 2, ...

    Beyond the KL of the largest n it is the reward of that one.
    """
    return float(np.interp(kl, [compute_best_of_n_kl(n + 1) for n in range(len(curve))], curve))


def measure_pair_accuracy(rewards: Sequence[float], hidden: Sequence[float]) -> float:
    """Return how often a reward ranks two answers as a hidden reward does, ties half.

    Pairs are of the first and second, the third and fourth, and so on, so that none share an
    answer.
    """
    signs_P, hidden_P = (
        np.sign(np.diff(np.reshape(each[: len(each) // 2 * 2], (-1, 2))))
        for each in (rewards, hidden)
    )
    return float((0.5 + signs_P * hidden_P / 2).mean())


def correlate_scores(scores: Mapping[str, Sequence[float]]) -> dict[tuple[str, str], float]:
    """Return Pearson's correlation of each two of several scores of the same answers."""
    names = list(scores)
    matrix = np.corrcoef([scores[name] for name in names])
    return {
        (names[one], names[other]): float(matrix[one, other])
        for one, other in combinations(range(len(names)), 2)
    }


def make_curves_figure(
    name: str,
    title: str,
    says: str,
    lines: Mapping[str, Sequence[tuple[float, Estimate]]],
    axes: tuple[str, str],
    log_x: bool = False,
) -> Figure:
    """Make a figure of lines with their intervals; `says` is the caption, `axes` name x and y."""
    rows = [
        (line, x, each.value, each.low, each.high)
        for line, points in lines.items()
        for x, each in points
    ]
    curves = tuple(make_line(line, points) for line, points in lines.items() if points)
    picture = FigurePicture("curves", curves, *axes, log_x=log_x)
    return Figure(name, title, says, ("line", *axes, "low", "high"), tuple(rows), picture)


def make_training_figure(runs: Mapping[str, Path], says: str) -> Figure:
    """Make the figure of the reward by batch of named runs of reinforcement, from their folders."""
    lines = {
        name: [
            (one["step"] + 1, Estimate(one["reward"], None, None, 1))
            for one in load_run_metrics(folder)
        ]
        for name, folder in runs.items()
    }
    return make_curves_figure("rewards", "Reward by batch", says, lines, ("batch", "reward"))

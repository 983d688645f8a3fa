"""Is the promise of a calibrated threshold kept, and what does it cost in questions answered?

Needs no data: draws 1,000 sets of labelled answers for each model of scores and number of labels,
calibrates on each, and compares with what is true of the model. Prints tables and writes
bench/results/decline.json. Beside the fallback procedure, which `calibrate` uses, stand three
others on the same labels: one start (fixed-sequence testing), Bonferroni over 20 thresholds, and no
correction at all, which breaks its promise too often where no threshold is good enough. "True
best" is the coverage of the lowest threshold that is good enough in truth: no labels show it, since
a bound stays below the share that is seen.

    python -m bench.decline [--runs N]
"""

import argparse
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bench.report import show, sized, write
from rookery.draft.decline import Calibration, Point, at_least, calibrate, fewest_labels

WANTED, CONFIDENCE = 0.9, 0.95
SIZES = sized((20, 100, 300, 1000), (20, 100))
MOST = SIZES[-1]
POPULATION = sized(400_000, 4_000)
GRID = 20
WITHIN = 0.05
"""of the best coverage in hindsight: what is aimed at with the most labels"""

Numbers = npt.NDArray[np.float64]


class Scored(NamedTuple):
    """How answers score, and how likely one with a given score is good."""

    draw: Callable[[np.random.Generator, int], Numbers]
    good: Callable[[Numbers], Numbers]


def _uniform(random: np.random.Generator, count: int) -> Numbers:
    return random.random(count)


def _normal(random: np.random.Generator, count: int) -> Numbers:
    return random.normal(size=count)


def _logistic(offset: float, slope: float) -> Callable[[Numbers], Numbers]:
    return lambda score: 1 / (1 + np.exp(-offset - slope * score))


def _always(share: float) -> Callable[[Numbers], Numbers]:
    return lambda score: np.full_like(score, share)


MODELS = {
    "steep": Scored(_normal, _logistic(1.0, 6.0)),
    "sharp": Scored(_normal, _logistic(1.5, 3.0)),
    "calibrated": Scored(lambda random, count: random.beta(4, 1, count), lambda score: score),
    "blurred": Scored(_normal, _logistic(1.7, 0.8)),
    "shallow": Scored(_uniform, lambda score: 0.82 + 0.16 * score),
    "proud at the top": Scored(_uniform, lambda s: np.where(s > 0.97, 0.7, 0.6 + 0.4 * s)),
    "five grades": Scored(lambda random, count: random.integers(1, 6, count) / 5, lambda s: s**0.3),
    "one score": Scored(lambda random, count: np.ones(count), _always(0.93)),
    "just too bad": Scored(_uniform, _always(WANTED - 1e-4)),
    "all good": Scored(_uniform, _always(1.0)),
    "all bad": Scored(_uniform, _always(0.0)),
}


class Truth:
    """What each threshold brings in a whole population."""

    def __init__(self, model: Scored) -> None:
        scores = np.sort(model.draw(np.random.default_rng(0), POPULATION))[::-1]
        self._falling = (-scores).tolist()
        self._shares = (np.cumsum(model.good(scores)) / np.arange(1, POPULATION + 1)).tolist()

    def reached(self, threshold: float) -> tuple[float, float]:
        """The coverage of this threshold, and the share that is good of what it lets pass."""
        count = bisect_right(self._falling, -threshold)
        return count / POPULATION, self._shares[count - 1] if count else 1.0

    def best(self) -> float:
        """The coverage of the lowest threshold that is good enough."""
        thresholds = [-self._falling[at] for at in range(0, POPULATION, POPULATION // 2000)]
        found = [self.reached(threshold) for threshold in thresholds]
        return max((coverage for coverage, share in found if share >= WANTED), default=0.0)


def fallback(calibration: Calibration) -> float | None:
    return calibration.threshold


def one_start(calibration: Calibration) -> float | None:
    kept = None
    for point in calibration.curve:
        if _reached(point, calibration) < fewest_labels(WANTED, CONFIDENCE):
            continue
        if not _passes(point, calibration, 1 - CONFIDENCE):
            break
        kept = point.threshold
    return kept


def bonferroni(calibration: Calibration) -> float | None:
    every = len(calibration.curve)
    chosen = [calibration.curve[every * number // GRID - 1] for number in range(1, GRID + 1)]
    return _lowest(chosen, calibration, (1 - CONFIDENCE) / GRID)


def uncorrected(calibration: Calibration) -> float | None:
    return _lowest(calibration.curve, calibration, 1 - CONFIDENCE)


METHODS = {
    "fallback": fallback,
    "one start": one_start,
    "Bonferroni": bonferroni,
    "uncorrected": uncorrected,
}


def _lowest(points: Sequence[Point], calibration: Calibration, risk: float) -> float | None:
    kept = [point.threshold for point in points if _passes(point, calibration, risk)]
    return kept[-1] if kept else None


def _passes(point: Point, calibration: Calibration, risk: float) -> bool:
    reached = _reached(point, calibration)
    return round(point.share * reached) >= _needed(reached, risk)


def _reached(point: Point, calibration: Calibration) -> int:
    return round(point.coverage * calibration.labels)


@cache
def _needed(count: int, risk: float) -> int:
    """Good ones among `count` that show the wanted share."""
    return bisect_left(range(count + 1), -risk, key=lambda good: -at_least(good, count, WANTED))


def trial(model: Scored, truth: Truth, labels: int, runs: int) -> dict[str, dict[str, float]]:
    """Each method over so many calibrations: how often it promises, how often what it promises is
    not true, and its mean coverage, 0 where it promises nothing."""
    random = np.random.default_rng(labels)
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
    for _ in range(runs):
        scores = model.draw(random, labels)
        good = random.random(labels) < model.good(scores)
        calibration = calibrate(scores.tolist(), good.tolist(), WANTED, CONFIDENCE)
        for name, method in METHODS.items():
            threshold = method(calibration)
            seen[name].append((0.0, 1.0) if threshold is None else truth.reached(threshold))
    return {
        name: {
            "promised": sum(coverage > 0 for coverage, _ in pairs) / runs,
            "broken": sum(share < WANTED for _, share in pairs) / runs,
            "coverage": sum(coverage for coverage, _ in pairs) / runs,
        }
        for name, pairs in seen.items()
    }


def speed(labels: int) -> float:
    """Seconds of CPU for one calibration."""
    random = np.random.default_rng(0)
    scores = MODELS["sharp"].draw(random, labels)
    good = (random.random(labels) < MODELS["sharp"].good(scores)).tolist()
    begun = time.process_time()
    calibrate(scores.tolist(), good)
    return time.process_time() - begun


def tell(rows: dict[str, dict[str, float]], title: str) -> None:
    print(f"\n{title}")
    show(list(next(iter(rows.values()))), rows)


def _near(ours: dict[str, float], theirs: dict[str, float]) -> list[str]:
    return [name for name, coverage in ours.items() if theirs[name] - coverage <= WITHIN]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=sized(1000, 2))
    runs = parser.parse_args().runs
    truths = {name: Truth(model) for name, model in MODELS.items()}
    best = {name: truth.best() for name, truth in truths.items()}
    trials = {
        labels: {name: trial(model, truths[name], labels, runs) for name, model in MODELS.items()}
        for labels in SIZES
    }
    for labels, found in trials.items():
        rows = {name: {**ours["fallback"], "true best": best[name]} for name, ours in found.items()}
        tell(rows, f"{labels} labels: {WANTED} wanted, confidence {CONFIDENCE}, {runs} runs")
    for figure in ("coverage", "broken"):
        rows = {
            name: {method: each[figure] for method, each in found.items()}
            for name, found in trials[MOST].items()
        }
        tell(rows, f"{figure} of each method, {MOST} labels")
    ours = {name: found["fallback"]["coverage"] for name, found in trials[MOST].items()}
    free = {name: found["uncorrected"]["coverage"] for name, found in trials[MOST].items()}
    broken = max(each["fallback"]["broken"] for found in trials.values() for each in found.values())
    seconds = speed(sized(100_000, 1_000))
    print(f"\nbroken most often: {broken:.3f}; 100,000 labels: {seconds:.2f} s")
    print(f"within {WITHIN:g} of the true best: {', '.join(_near(ours, best))}")
    print(f"within {WITHIN:g} of a search that costs nothing: {', '.join(_near(ours, free))}")
    write(
        "decline",
        {
            "wanted": WANTED,
            "confidence": CONFIDENCE,
            "runs": runs,
            "broken_most_often": broken,
            "target_broken": 1 - CONFIDENCE,
            "true_best": best,
            "within": WITHIN,
            "near_true_best": _near(ours, best),
            "near_uncorrected": _near(ours, free),
            "trials": trials,
            "seconds_for_100000_labels": seconds,
        },
    )


if __name__ == "__main__":
    main()

"""Calibrated declining: how often the promised precision is kept, and its cost in questions
answered.

Needs no data: draws 1,000 sets of labelled answers for each model of scores and number of labels,
calibrates on each, and compares with the truth of the model. Prints tables and writes
bench/results/decline.json. Beside the fallback procedure, which `calibrate` uses, stand three
others on the same labels: one start (fixed-sequence testing), Bonferroni over 20 thresholds, and no
correction, which breaks its promise too often where no threshold is good enough. "True best" is the
coverage of the lowest threshold that is truly good enough: no labels can show it, since a bound
stays below the observed share.

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

from bench.report import choose_size, print_table, write_results
from rookery.evidence.calibration import (
    Calibration,
    CalibrationPoint,
    calibrate_threshold,
    compute_binomial_tail,
    count_required_labels,
)

WANTED, CONFIDENCE = 0.9, 0.95
SIZES = choose_size((20, 100, 300, 1000), (20, 100))
MOST = SIZES[-1]
POPULATION = choose_size(400_000, 4_000)
GRID = 20
WITHIN = 0.05
"""Aimed distance from the best coverage in hindsight, with the most labels."""

Numbers = npt.NDArray[np.float64]


class ScoreModel(NamedTuple):
    """Distribution of scores, and probability that an answer with a given score is good."""

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
    "steep": ScoreModel(_normal, _logistic(1.0, 6.0)),
    "sharp": ScoreModel(_normal, _logistic(1.5, 3.0)),
    "calibrated": ScoreModel(lambda random, count: random.beta(4, 1, count), lambda score: score),
    "blurred": ScoreModel(_normal, _logistic(1.7, 0.8)),
    "shallow": ScoreModel(_uniform, lambda score: 0.82 + 0.16 * score),
    "proud at the top": ScoreModel(_uniform, lambda s: np.where(s > 0.97, 0.7, 0.6 + 0.4 * s)),
    "five grades": ScoreModel(
        lambda random, count: random.integers(1, 6, count) / 5, lambda s: s**0.3
    ),
    "one score": ScoreModel(lambda random, count: np.ones(count), _always(0.93)),
    "just too bad": ScoreModel(_uniform, _always(WANTED - 1e-4)),
    "all good": ScoreModel(_uniform, _always(1.0)),
    "all bad": ScoreModel(_uniform, _always(0.0)),
}


class Truth:
    """True coverage and precision of each threshold, from a large population."""

    def __init__(self, model: ScoreModel) -> None:
        scores = np.sort(model.draw(np.random.default_rng(0), POPULATION))[::-1]
        self._falling = (-scores).tolist()
        self._shares = (np.cumsum(model.good(scores)) / np.arange(1, POPULATION + 1)).tolist()

    def measure_threshold(self, threshold: float) -> tuple[float, float]:
        """Return the coverage of a threshold, and the share of good answers among those it lets
        pass."""
        count = bisect_right(self._falling, -threshold)
        return count / POPULATION, self._shares[count - 1] if count else 1.0

    def find_best_coverage(self) -> float:
        """Return the coverage of the lowest threshold that is good enough."""
        thresholds = [-self._falling[at] for at in range(0, POPULATION, POPULATION // 2000)]
        found = [self.measure_threshold(threshold) for threshold in thresholds]
        return max((coverage for coverage, share in found if share >= WANTED), default=0.0)


def choose_by_fallback(calibration: Calibration) -> float | None:
    """Choose the threshold of `calibrate` itself."""
    return calibration.threshold


def choose_by_one_start(calibration: Calibration) -> float | None:
    """Choose by fixed-sequence testing from the highest threshold; None: none passes."""
    kept = None
    for point in calibration.curve:
        if _count_reached(point, calibration) < count_required_labels(WANTED, CONFIDENCE):
            continue
        if not _passes(point, calibration, 1 - CONFIDENCE):
            break
        kept = point.threshold
    return kept


def choose_by_bonferroni(calibration: Calibration) -> float | None:
    """Choose the lowest of 20 thresholds that passes at the corrected risk; None: none passes."""
    every = len(calibration.curve)
    chosen = [calibration.curve[every * number // GRID - 1] for number in range(1, GRID + 1)]
    return _find_lowest(chosen, calibration, (1 - CONFIDENCE) / GRID)


def choose_uncorrected(calibration: Calibration) -> float | None:
    """Choose the lowest threshold that passes without correction; None: none passes."""
    return _find_lowest(calibration.curve, calibration, 1 - CONFIDENCE)


METHODS = {
    "fallback": choose_by_fallback,
    "one start": choose_by_one_start,
    "Bonferroni": choose_by_bonferroni,
    "uncorrected": choose_uncorrected,
}


def _find_lowest(
    points: Sequence[CalibrationPoint], calibration: Calibration, risk: float
) -> float | None:
    kept = [point.threshold for point in points if _passes(point, calibration, risk)]
    return kept[-1] if kept else None


def _passes(point: CalibrationPoint, calibration: Calibration, risk: float) -> bool:
    reached = _count_reached(point, calibration)
    return round(point.share * reached) >= _count_needed(reached, risk)


def _count_reached(point: CalibrationPoint, calibration: Calibration) -> int:
    return round(point.coverage * calibration.labels)


@cache
def _count_needed(count: int, risk: float) -> int:
    """Return how many good ones among `count` show the wanted share at this risk."""
    return bisect_left(
        range(count + 1), -risk, key=lambda good: -compute_binomial_tail(good, count, WANTED)
    )


def run_trial(
    model: ScoreModel, truth: Truth, labels: int, runs: int
) -> dict[str, dict[str, float]]:
    """Run each method on many calibrations; return how often it promises, how often it breaks the
    promise, and its mean coverage (0 where it promises nothing)."""
    random = np.random.default_rng(labels)
    seen: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
    for _ in range(runs):
        scores = model.draw(random, labels)
        good = random.random(labels) < model.good(scores)
        calibration = calibrate_threshold(scores.tolist(), good.tolist(), WANTED, CONFIDENCE)
        for name, method in METHODS.items():
            threshold = method(calibration)
            seen[name].append(
                (0.0, 1.0) if threshold is None else truth.measure_threshold(threshold)
            )
    return {
        name: {
            "promised": sum(coverage > 0 for coverage, _ in pairs) / runs,
            "broken": sum(share < WANTED for _, share in pairs) / runs,
            "coverage": sum(coverage for coverage, _ in pairs) / runs,
        }
        for name, pairs in seen.items()
    }


def time_calibration(labels: int) -> float:
    """Measure CPU seconds of one calibration."""
    random = np.random.default_rng(0)
    scores = MODELS["sharp"].draw(random, labels)
    good = (random.random(labels) < MODELS["sharp"].good(scores)).tolist()
    begun = time.process_time()
    calibrate_threshold(scores.tolist(), good)
    return time.process_time() - begun


def print_trial_table(rows: dict[str, dict[str, float]], title: str) -> None:
    """Print a titled table."""
    print(f"\n{title}")
    print_table(list(next(iter(rows.values()))), rows)


def _list_near(ours: dict[str, float], theirs: dict[str, float]) -> list[str]:
    return [name for name, coverage in ours.items() if theirs[name] - coverage <= WITHIN]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=choose_size(1000, 2))
    runs = parser.parse_args().runs
    truths = {name: Truth(model) for name, model in MODELS.items()}
    best = {name: truth.find_best_coverage() for name, truth in truths.items()}
    trials = {
        labels: {
            name: run_trial(model, truths[name], labels, runs) for name, model in MODELS.items()
        }
        for labels in SIZES
    }
    for labels, found in trials.items():
        rows = {name: {**ours["fallback"], "true best": best[name]} for name, ours in found.items()}
        print_trial_table(
            rows, f"{labels} labels: {WANTED} wanted, confidence {CONFIDENCE}, {runs} runs"
        )
    for figure in ("coverage", "broken"):
        rows = {
            name: {method: each[figure] for method, each in found.items()}
            for name, found in trials[MOST].items()
        }
        print_trial_table(rows, f"{figure} of each method, {MOST} labels")
    ours = {name: found["fallback"]["coverage"] for name, found in trials[MOST].items()}
    free = {name: found["uncorrected"]["coverage"] for name, found in trials[MOST].items()}
    broken = max(each["fallback"]["broken"] for found in trials.values() for each in found.values())
    seconds = time_calibration(choose_size(100_000, 1_000))
    print(f"\nbroken most often: {broken:.3f}; 100,000 labels: {seconds:.2f} s")
    print(f"within {WITHIN:g} of the true best: {', '.join(_list_near(ours, best))}")
    print(f"within {WITHIN:g} of a search that costs nothing: {', '.join(_list_near(ours, free))}")
    write_results(
        "decline",
        {
            "wanted": WANTED,
            "confidence": CONFIDENCE,
            "runs": runs,
            "broken_most_often": broken,
            "target_broken": 1 - CONFIDENCE,
            "true_best": best,
            "within": WITHIN,
            "near_true_best": _list_near(ours, best),
            "near_uncorrected": _list_near(ours, free),
            "trials": trials,
            "seconds_for_100000_labels": seconds,
        },
    )


if __name__ == "__main__":
    main()

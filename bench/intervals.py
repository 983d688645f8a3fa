"""How often intervals of means and shares hold the truth, and how wide they are.

Needs no data: draws thousands of experiments for each shape of values and number of questions, and
counts those whose interval holds the shape's true mean. Prints a table and writes
bench/results/intervals.json.

    python -m bench.intervals [--runs N]
"""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.report import choose_size, print_table, write_results
from rookery.measure.intervals import Estimate, estimate_mean

SIZES = choose_size((5, 10, 20, 50, 100, 200), (5, 20))
RUNS = choose_size(4000, 100)
LEAST, MOST = 0.93, 0.97
"""Aimed coverage at least, and at most but for exact and bounded intervals."""

Numbers = npt.NDArray[np.float64] | npt.NDArray[np.int64]


class Shape(NamedTuple):
    """Distribution of a question's values, with its true mean."""

    name: str
    truth: float
    draw: Callable[[np.random.Generator, int], Numbers]
    """rows of one question's values"""
    kind: str
    """interval that is used"""
    least: float | None = None
    """bound of the values, as `estimate_mean` has it"""


def _draw_recalls(random: np.random.Generator, size: int) -> Numbers:
    return np.where(random.random(size) < 0.9, 1.0, random.integers(0, 5, size) / 4)


def _draw_differences(random: np.random.Generator, size: int) -> Numbers:
    return random.choice([0.0, 1.0, -1.0], size, p=[0.8, 0.15, 0.05])


SHAPES = (
    Shape("rewards (normal)", 0.0, lambda random, size: random.normal(size=size), "Student's t"),
    Shape(
        "lengths (gamma of shape 4)",
        4,
        lambda random, size: random.gamma(4, size=size),
        "Student's t",
    ),
    Shape(
        "four samples a question",
        0.0,
        lambda random, size: random.normal(size=(size, 1)) + random.normal(size=(size, 4)),
        "Student's t",
    ),
    Shape(
        "share of a tenth", 0.1, lambda random, size: random.binomial(1, 0.1, size), "exact", 0.0
    ),
    Shape("recall, nine in ten of 1", 0.95, _draw_recalls, "bounded", 0.0),
    Shape("differences of right and wrong", 0.1, _draw_differences, "bounded", -1.0),
)


def measure_coverage(shape: Shape, size: int, runs: int) -> tuple[float, float]:
    """Return the share of experiments on so many questions whose interval holds the truth, and the
    mean width."""
    random, held, wide = np.random.default_rng(size), 0, 0.0
    for _ in range(runs):
        values = np.reshape(shape.draw(random, size), (size, -1))
        groups = np.repeat(range(size), values.shape[1]).tolist()
        found: Estimate = estimate_mean(values.ravel().tolist(), groups, shape.least)
        if found.low is not None and found.high is not None:
            held += found.low <= shape.truth <= found.high
            wide += found.high - found.low
    return held / runs, wide / runs


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.intervals", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="experiments of each")
    runs = parser.parse_args().runs
    rows: dict[str, dict[str, Any]] = {}
    for shape in SHAPES:
        measured = {size: measure_coverage(shape, size, runs) for size in SIZES}
        rows[f"{shape.name}; {shape.kind}"] = {
            **{f"n = {size}": covered for size, (covered, _) in measured.items()},
            **{f"width, {size}": measured[size][1] for size in (SIZES[0], SIZES[-1])},
        }
    print_table(list(next(iter(rows.values()))), rows)
    shares = [
        (row[f"n = {size}"], shape.kind)
        for shape, row in zip(SHAPES, rows.values(), strict=True)
        for size in SIZES
    ]
    write_results(
        "intervals",
        {
            "runs": runs,
            "rows": rows,
            "least": min(share for share, _ in shares),
            "most": max(share for share, kind in shares if kind == "Student's t"),
            "targets": {"least": LEAST, "most": MOST},
        },
    )


if __name__ == "__main__":
    main()

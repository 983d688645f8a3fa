"""How near does training come to the best policy there is, and what does a step cost?

Needs no data: the worlds are so small that all that can be said in them is listed, so that the
expected reward, the KL from the reference and the best trade of one for the other are exact
(tests/learn/enumerable.py). Each run begins with another random model and other prompts. The gap
is what a policy's reward less beta times its KL lacks to the best. "in order" is a harder rule,
without a target; "A2C, KL in the loss" follows GopherCite, and its best is another one, since the
loss does not see where a token leads. Prints a table and writes bench/results/optimum.json.

    python -m bench.optimum [--seeds N]
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import transformers

from bench.report import ROOT, show, sized, write
from rookery.learn.reinforce import ReinforceSettings, a2c, ppo, rloo

sys.path.insert(0, str(ROOT / "tests" / "learn"))

from enumerable import BETA, EPISODES, Browsing, Recipe, Rule, a2c_like_ppo, trial

COUNT = sized(EPISODES, 256)
"""episodes of a run"""


def a2c_in_the_loss(**given: Any) -> ReinforceSettings:
    """The same trade: alpha times the KL beside 1 - alpha times the rest."""
    return a2c(alpha=BETA / (1 + BETA), **given)


WORLDS: dict[str, Callable[[int], Rule | Browsing]] = {
    "one step": Rule,
    "two steps": Browsing,
    "in order": partial(Rule, ordered=True),
}
RUNS: dict[str, tuple[str, Recipe, float | None]] = {
    "PPO": ("one step", ppo, 0.12),
    "A2C": ("one step", a2c_like_ppo, 0.20),
    "RLOO": ("one step", rloo, 0.20),
    "A2C, KL in the loss": ("one step", a2c_in_the_loss, None),
    "PPO, two steps": ("two steps", ppo, 0.12),
    "A2C, two steps": ("two steps", a2c_like_ppo, 0.20),
    "RLOO, two steps": ("two steps", rloo, 0.20),
    "PPO, in order": ("in order", ppo, None),
}


def run(name: str, seeds: int) -> dict[str, float]:
    """The mean gap, and that of each seed."""
    world, recipe, _ = RUNS[name]
    begun = time.perf_counter()
    trials = []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            trials.append(trial(recipe, WORLDS[world](seed), seed, Path(folder), COUNT))
    seconds = (time.perf_counter() - begun) / seeds
    return {
        "start": fmean(each.start for each in trials),
        "gap": fmean(each.gap for each in trials),
        **{f"seed {seed}": each.gap for seed, each in enumerate(trials)},
        "below": float(all(each.below for each in trials)),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=sized(5, 1))
    seeds = parser.parse_args().seeds
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    found = {name: run(name, seeds) for name in RUNS}
    print(f"gap to the best policy after {COUNT:,} episodes, beta {BETA}")
    show(list(found["PPO"]), found)
    targets = {name: most for name, (_, _, most) in RUNS.items() if most is not None}
    for name, most in targets.items():
        print(f"{name}: {found[name]['gap']:.3f} of at most {most}")
    figures = {"episodes": COUNT, "beta": BETA, "seeds": seeds, "runs": found}
    write("optimum", {**figures, "targets": targets})


if __name__ == "__main__":
    main()

"""Training against a known optimum: remaining gap, and cost of a step.

Needs no data: the environments are so small that every possible response is listed, so that the
expected reward, the KL from the reference and the best trade-off are exact
(tests/helpers/enumerable.py). Each run begins with another random model and other prompts. The gap
is how far a policy's reward minus beta times its KL stays below the best possible. "in order" is a
harder rule without a target; "A2C, KL in the loss" follows GopherCite, and its optimum is another
one, since the loss does not see where a token leads. Prints a table and writes
bench/results/optimum.json.

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

from bench.report import ROOT, choose_size, print_table, write_results
from rookery.learn.policy_gradient import (
    ReinforcementSettings,
    make_a2c_settings,
    make_ppo_settings,
    make_rloo_settings,
)

sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from enumerable import BETA, EPISODES, Browsing, Recipe, Rule, a2c_like_ppo, trial

COUNT = choose_size(EPISODES, 256)
"""Episodes of a run."""


def make_a2c_kl_in_loss(**given: Any) -> ReinforcementSettings:
    """Return A2C settings of the same trade-off in the loss: alpha times the KL beside 1 - alpha
    times the rest."""
    return make_a2c_settings(alpha=BETA / (1 + BETA), **given)


WORLDS: dict[str, Callable[[int], Rule | Browsing]] = {
    "one step": Rule,
    "two steps": Browsing,
    "in order": partial(Rule, ordered=True),
}
RUNS: dict[str, tuple[str, Recipe, float | None]] = {
    "PPO": ("one step", make_ppo_settings, 0.12),
    "A2C": ("one step", a2c_like_ppo, 0.20),
    "RLOO": ("one step", make_rloo_settings, 0.20),
    "A2C, KL in the loss": ("one step", make_a2c_kl_in_loss, None),
    "PPO, two steps": ("two steps", make_ppo_settings, 0.12),
    "A2C, two steps": ("two steps", a2c_like_ppo, 0.20),
    "RLOO, two steps": ("two steps", make_rloo_settings, 0.20),
    "PPO, in order": ("in order", make_ppo_settings, None),
}


def run_recipe(name: str, seeds: int) -> dict[str, float]:
    """Run a recipe on several seeds; return the mean gap, and that of each seed."""
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
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=choose_size(5, 1))
    seeds = parser.parse_args().seeds
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    found = {name: run_recipe(name, seeds) for name in RUNS}
    print(f"gap to the best policy after {COUNT:,} episodes, beta {BETA}")
    print_table(list(found["PPO"]), found)
    targets = {name: most for name, (_, _, most) in RUNS.items() if most is not None}
    for name, most in targets.items():
        print(f"{name}: {found[name]['gap']:.3f} of at most {most}")
    figures = {"episodes": COUNT, "beta": BETA, "seeds": seeds, "runs": found}
    write_results("optimum", {**figures, "targets": targets})


if __name__ == "__main__":
    main()

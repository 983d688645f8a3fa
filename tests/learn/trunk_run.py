"""Two steps of PPO with frozen layers in the browsing world, in double precision, in as many
processes as torchrun starts.

torchrun --nproc_per_node 2 trunk_run.py MODEL OUT
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from double import double_precision
from enumerable import Browsing
from safetensors.torch import load_file

from rookery.learn.models import Trained
from rookery.learn.optimise import Optimising
from rookery.learn.reinforce import ReinforceSettings, ppo, reinforce
from rookery.learn.sample import Sampling


def in_two(**given: Any) -> ReinforceSettings:
    """PPO with two minibatches, which are others in every epoch."""
    return ppo(**{"minibatches": 2} | given)


def settings(
    model: str, recipe: Callable[..., ReinforceSettings] = in_two, **changes: Any
) -> ReinforceSettings:
    """With pieces that do not fit, and episodes that cannot be halved."""
    usual = {
        "policy": Trained(model, frozen=0.67),
        "steps": 2,
        "episodes": 17,
        "piece": 5,
        "optimising": Optimising(rate=1e-3),
        "sampling": Sampling(tokens=4),
        "value_width": 16,
        "every": 2,
    }
    return recipe(**usual | changes)


def metrics(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def apart(one: Path, other: Path) -> float:
    """The largest difference between the weights of two runs."""
    found, expected = (load_file(out / "model" / "model.safetensors") for out in (one, other))
    return max((found[name] - weight).abs().max().item() for name, weight in expected.items())


if __name__ == "__main__":
    with double_precision():
        reinforce(settings(sys.argv[1]), Browsing(0), Path(sys.argv[2]))

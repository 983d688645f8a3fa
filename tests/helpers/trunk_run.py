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

from rookery.learn.decoding import SamplingSettings
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.reinforcement_learning import train_by_reinforcement
from rookery.learn.reinforcement_settings import ReinforcementSettings, make_ppo_settings


def in_two(**given: Any) -> ReinforcementSettings:
    """PPO with two minibatches, which are others in every epoch."""
    return make_ppo_settings(**{"minibatches": 2} | given)


def settings(
    model: str, recipe: Callable[..., ReinforcementSettings] = in_two, **changes: Any
) -> ReinforcementSettings:
    """With pieces that do not fit, and episodes that cannot be halved."""
    usual = {
        "policy": TrainedModelSettings(model, frozen=0.67),
        "steps": 2,
        "episodes": 17,
        "piece": 5,
        "optimising": OptimizerSettings(rate=1e-3),
        "sampling": SamplingSettings(max_tokens=4),
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
        train_by_reinforcement(settings(sys.argv[1]), Browsing(0), Path(sys.argv[2]))

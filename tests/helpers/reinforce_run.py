"""Two steps of each recipe in the browsing world, in double precision, in as many processes as
torchrun starts.

torchrun --nproc_per_node 2 reinforce_run.py MODEL OUT
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from double import double_precision
from enumerable import Browsing

from rookery.learn.decoding import SamplingSettings
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.policy_gradient import (
    ReinforcementSettings,
    make_a2c_settings,
    make_ppo_settings,
    make_rloo_settings,
)
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.reinforcement_learning import train_by_reinforcement

RECIPES: dict[str, Callable[..., ReinforcementSettings]] = {
    "ppo": partial(make_ppo_settings, epochs=2, minibatches=2),
    "a2c": make_a2c_settings,
    "rloo": make_rloo_settings,
}


def settings(name: str, model: str) -> ReinforcementSettings:
    """With pieces that do not fit, and episodes that cannot be halved."""
    return RECIPES[name](
        policy=TrainedModelSettings(model),
        steps=2,
        episodes=17,
        piece=5,
        optimising=OptimizerSettings(rate=1e-3),
        sampling=SamplingSettings(max_tokens=4),
        value_width=16,
        target=1.0,
        every=1,
    )


if __name__ == "__main__":
    with double_precision():
        for name in RECIPES:
            train_by_reinforcement(
                settings(name, sys.argv[1]), Browsing(0), Path(sys.argv[2]) / name
            )

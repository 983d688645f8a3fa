"""Four batches through a server, in as many processes as torchrun starts.

torchrun --nproc_per_node 2 served_run.py MODEL ADDRESS OUT
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from enumerable import BETA, Rule

from rookery.learn.decoding import SamplingSettings
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.policy_gradient import ReinforcementSettings, make_rloo_settings
from rookery.learn.pretrained_models import TrainedModelSettings
from rookery.learn.reinforcement_learning import train_by_reinforcement


def settings(model: str, address: str | tuple[str, ...]) -> ReinforcementSettings:
    """Episodes that learn something in a few batches."""
    return make_rloo_settings(
        policy=TrainedModelSettings(model),
        steps=4,
        episodes=16,
        optimising=OptimizerSettings(rate=2e-3),
        sampling=SamplingSettings(max_tokens=4),
        server=address,
        beta=BETA,
        every=2,
    )


if __name__ == "__main__":
    train_by_reinforcement(settings(sys.argv[1], sys.argv[2]), Rule(0).world(8), Path(sys.argv[3]))

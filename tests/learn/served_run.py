"""Four batches through a server, in as many processes as torchrun starts.

torchrun --nproc_per_node 2 served_run.py MODEL ADDRESS OUT
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from enumerable import BETA, Rule

from rookery.learn.models import Trained
from rookery.learn.optimise import Optimising
from rookery.learn.reinforce import ReinforceSettings, reinforce, rloo
from rookery.learn.sample import Sampling


def settings(model: str, address: str) -> ReinforceSettings:
    """Episodes that learn something in a few batches."""
    return rloo(
        policy=Trained(model),
        steps=4,
        episodes=16,
        optimising=Optimising(rate=2e-3),
        sampling=Sampling(tokens=4),
        server=address,
        beta=BETA,
        every=2,
    )


if __name__ == "__main__":
    reinforce(settings(sys.argv[1], sys.argv[2]), Rule(0).world(8), Path(sys.argv[3]))

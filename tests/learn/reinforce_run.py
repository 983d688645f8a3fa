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

from rookery.learn.models import Trained
from rookery.learn.optimise import Optimising
from rookery.learn.reinforce import ReinforceSettings, a2c, ppo, reinforce, rloo
from rookery.learn.sample import Sampling

RECIPES: dict[str, Callable[..., ReinforceSettings]] = {
    "ppo": partial(ppo, epochs=2, minibatches=2),
    "a2c": a2c,
    "rloo": rloo,
}


def settings(name: str, model: str) -> ReinforceSettings:
    """With pieces that do not fit, and episodes that cannot be halved."""
    return RECIPES[name](
        policy=Trained(model),
        steps=2,
        episodes=17,
        piece=5,
        optimising=Optimising(rate=1e-3),
        sampling=Sampling(tokens=4),
        value_width=16,
        target=1.0,
        every=1,
    )


if __name__ == "__main__":
    with double_precision():
        for name in RECIPES:
            reinforce(settings(name, sys.argv[1]), Browsing(0), Path(sys.argv[2]) / name)

"""How a policy learns from rewards: the settings, and those of the papers.

It knows nothing of how they are followed.
"""

from typing import Literal
from urllib.parse import urlsplit

import msgspec

from rookery.learn.models import Trained
from rookery.learn.optimise import Optimising
from rookery.learn.sample import Sampling


class ReinforceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a policy learns from rewards. What is not said is as in Ziegler (section 2.2, and the
    code that came with it)."""

    policy: Trained
    steps: int
    """batches of episodes"""
    reference: str = ""
    """the folder of the model that the KL is measured from; empty: the policy's"""
    optimising: Optimising = Optimising(rate=1.41e-5, adam="tf", epsilon=1e-5)
    """its steps are `epochs` times `minibatches` for each batch of episodes"""
    sampling: Sampling = Sampling()
    """the temperature divides the logits of the policy and of the reference everywhere"""
    server: str = ""
    """the address of a vLLM that samples, such as http://127.0.0.1:8000 (see `learn.served`);
    empty: this process does"""
    episodes: int = 512
    """in a batch"""
    epochs: int = 4
    """how often a batch is learnt from"""
    minibatches: int = 1
    """in an epoch"""
    piece: int = 64
    """rows that the model is given at once; more take more memory and change nothing"""
    chunk: int | None = None
    """tokens of an action, at most: longer ones become several (WebGPT, appendix E: 64)"""
    clip: float | None = 0.2
    """how far the ratio of probabilities may gain from 1; None: any way"""
    value: Literal["separate", "shared"] = "separate"
    """the value network: a model of its own, or a head on the policy (GopherCite, appendix F.1)"""
    value_model: str = ""
    """the folder that a separate one begins as, such as a reward model; empty: the policy's"""
    value_width: int = 2048
    """of the two hidden layers of a shared one"""
    value_clip: float | None = 0.2
    value_weight: float = 0.1
    """of its loss beside the policy's"""
    advantage: Literal["gae", "rloo"] = "gae"
    """rloo: without a value network, measured against the others of an episode's group"""
    gamma: float = 1.0
    trace: float = msgspec.field(default=0.95, name="lambda")
    count: Literal["token", "action"] = "token"
    """what gamma and lambda count (WebGPT, appendix E: actions)"""
    whiten_rewards: bool = True
    """variance 1 over a batch, the KL among them; the value network then has one scale to learn"""
    whiten_advantages: bool = True
    """mean 0 and variance 1 over a batch"""
    kl: Literal["reward", "loss"] = "reward"
    """where the KL counts: in each token's reward, times beta; or in the loss"""
    alpha: float = 0.1
    """its share of the loss, where it counts there (GopherCite, section 2.8)"""
    beta: float = 0.1
    """at first"""
    target: float | None = None
    """the KL of an episode, in nats, that beta is changed for; None: beta stays"""
    gain: float = 0.1
    """how fast beta follows: the K_β of Ziegler, whose code has 0.051"""
    budget: float | None = None
    """the KL of an episode, in nats, at which training ends (WebGPT, appendix E)"""
    no_answer: float = -1.0
    """the reward of an episode without an answer"""
    seed: int = 0
    every: int = 10
    """steps from one checkpoint to the next"""
    shown: int = 2
    """episodes of a batch whose words are kept"""

    def __post_init__(self) -> None:
        counts = (self.steps, self.episodes, self.epochs, self.minibatches, self.piece, self.every)
        if min(counts) < 1 or (self.chunk is not None and self.chunk < 1):
            raise ValueError(
                "steps, episodes, epochs, minibatches, piece, every and chunk are 1 at least"
            )
        if self.sampling.temperature <= 0:
            raise ValueError("sampling.temperature must be more than 0, or nothing is tried out")
        if self.target is not None and self.target <= 0:
            raise ValueError("target is a KL of more than 0 nats; leave it out for a fixed beta")
        if not 0 <= self.alpha <= 1:
            raise ValueError("alpha is a share from 0 to 1")
        parts = urlsplit(self.server)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if self.server and not (known and self.server.isascii()):
            raise ValueError("server must be an address such as http://127.0.0.1:8000")


def ppo(settings: ReinforceSettings) -> ReinforceSettings:
    """With Ziegler's PPO (section 2.2, and its code): four epochs of one minibatch."""
    return msgspec.structs.replace(
        settings,
        epochs=4,
        minibatches=1,
        clip=0.2,
        value="separate",
        value_clip=0.2,
        value_weight=0.1,
        advantage="gae",
        gamma=1.0,
        trace=0.95,
        count="token",
        whiten_rewards=True,
        whiten_advantages=True,
        kl="reward",
    )


def webgpt(settings: ReinforceSettings) -> ReinforceSettings:
    """With WebGPT's PPO (appendix E): one epoch, and time counted in actions of 64 tokens."""
    return msgspec.structs.replace(
        ppo(settings),
        epochs=1,
        minibatches=128,
        chunk=64,
        count="action",
        whiten_rewards=False,
        beta=0.02,
        target=None,
    )


def a2c(settings: ReinforceSettings) -> ReinforceSettings:
    """With GopherCite's A2C (section 2.8, appendix F): one epoch, nothing clipped, the value
    network a head that predicts the final reward, the KL in the loss."""
    return msgspec.structs.replace(
        settings,
        epochs=1,
        minibatches=1,
        clip=None,
        value="shared",
        value_clip=None,
        advantage="gae",
        gamma=1.0,
        trace=1.0,
        whiten_rewards=False,
        whiten_advantages=False,
        kl="loss",
        alpha=0.1,
        no_answer=-2.0,
    )


def rloo(settings: ReinforceSettings) -> ReinforceSettings:
    """With leave-one-out advantages in place of a value network (Ahmadian and others, 2024)."""
    return msgspec.structs.replace(
        settings,
        epochs=1,
        minibatches=1,
        clip=None,
        advantage="rloo",
        whiten_advantages=False,
        kl="reward",
    )

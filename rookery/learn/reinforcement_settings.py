"""Settings of reinforcement learning, and the papers' values of them.

`PPO_DEFAULTS`, `WEBGPT_PPO_DEFAULTS`, `A2C_DEFAULTS` and `RLOO_DEFAULTS` are tables of defaults
under what a user sets: `make_ppo_settings` and its siblings apply them to keyword arguments,
`typed_files.merge_tables` to the tables of a TOML file.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from rookery.learn.decoding import SamplingSettings
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.pretrained_models import TrainedModelSettings


class ReinforcementSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of reinforcement learning. Defaults are Ziegler's (section 2.2, and the code
    released with it)."""

    policy: TrainedModelSettings
    steps: int
    """batches of episodes"""
    reference: str = ""
    """the folder of the model that the KL is measured from; empty: the policy's"""
    optimising: OptimizerSettings = OptimizerSettings(rate=1.41e-5, adam="tf", epsilon=1e-5)
    """its steps are `epochs` times `minibatches` for each batch of episodes"""
    sampling: SamplingSettings = SamplingSettings()
    """the temperature divides the logits of the policy and of the reference everywhere"""
    server: str | tuple[str, ...] = ""
    """the address of a vLLM that samples, such as http://127.0.0.1:8000, or a list of several (see
    `learn.vllm_sampler`); empty: this process does"""
    weights_host: str = ""
    """the name or address at which the servers reach this machine, such as 10.0.0.5, and a port
    where it must be a certain one, as in 10.0.0.5:8901: they download the weights from there;
    empty: they find the run's folder by the path that it has here"""
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
    """with kl = "loss", the share of the KL in it (GopherCite, section 2.8)"""
    beta: float = 0.1
    """at first"""
    target: float | None = None
    """the KL of an episode, in nats, that beta is changed for; None: beta stays"""
    gain: float = 0.1
    """how fast beta follows: the K_β of Ziegler, whose code has 0.051"""
    budget: float | None = None
    """the KL of an episode, in nats, at which training ends (WebGPT, appendix E)"""
    check: int = 0
    """batches from one validation to the next; 0: none. Each plays questions that were held out,
    and the policy with the highest mean reward there, of those within the budget, is written
    (WebGPT, appendix E); without validations it is the last"""
    validation_episodes: int = 64
    """in a validation: the same ones, drawn from the same seeds, each time"""
    patience: int | None = None
    """validations in a row without a better one, after which training ends; None: it does not"""
    no_answer: float = -1.0
    """the reward of an episode without an answer"""
    bad_syntax: float | None = None
    """what is subtracted from the reward of a text that breaks the syntax of answers, which is
    scored as it stands (GopherCite, appendix F.1: 2); None: such a text has the reward
    `no_answer`"""
    seed: int = 0
    every: int | None = None
    """steps from one checkpoint to the next; None: as `ResumableRun.iterate_steps` has it"""
    shown: int = 2
    """episodes of a batch whose words are kept"""

    def __post_init__(self) -> None:
        if fault := next(self._find_faults(), ""):
            raise ValueError(fault)

    def _find_faults(self) -> Iterator[str]:
        """Sentences about what cannot be meant, or with which nothing could be learnt."""
        counts = (self.steps, self.episodes, self.epochs, self.minibatches, self.piece)
        more = (self.value_width, 1 if self.every is None else self.every, self.chunk or 1)
        often = (self.validation_episodes, 1 if self.patience is None else self.patience)
        if min(*counts, *more, *often) < 1 or self.chunk == 0 or min(self.shown, self.check) < 0:
            yield (
                "steps, episodes, epochs, minibatches, piece, chunk, every, value_width, "
                "validation_episodes and patience must be 1 or more, shown and check 0 or more"
            )
        if self.patience is not None and not self.check:
            yield "patience counts validations: set check to 1 or more, or leave patience out"
        if self.minibatches > self.episodes:
            yield (
                f"minibatches ({self.minibatches}) must not be more than episodes "
                f"({self.episodes}): set fewer minibatches or more episodes"
            )
        if self.sampling.temperature <= 0:
            yield "sampling.temperature must be more than 0, or nothing is tried out"
        if self.sampling.dtype:
            yield "what is trained is what samples: set policy.dtype and not sampling.dtype"
        if self.servers and self.sampling.top_p is not None:
            yield "a server does not say which tokens top_p left: leave it or server out"
        penalty = 0.0 if self.bad_syntax is None else self.bad_syntax
        numbers = (self.value_weight, self.beta, self.gain, penalty, self.no_answer)
        if not all(map(math.isfinite, numbers)) or min(numbers[:4]) < 0:
            yield (
                "value_weight, beta, gain and bad_syntax must be numbers from 0 on, "
                "no_answer a number"
            )
        if not (0 <= self.gamma <= 1 and 0 <= self.trace <= 1):
            yield "gamma and lambda must be from 0 to 1"
        for name in ("clip", "value_clip", "budget"):
            if (limit := getattr(self, name)) is not None and not limit > 0:
                yield f"{name} must be more than 0, or nothing is learnt"
        if not 0 <= self.alpha <= 1:
            yield "alpha must be a share from 0 to 1"
        if self.policy.dropout:
            yield (
                "policy.dropout must be 0: with dropout a policy is not as likely to say what it "
                "said, before anything is learnt (Ziegler, section 2.2, trains without)"
            )
        yield from self._find_combination_faults()
        if not all(map(_is_address, self.servers)):
            yield "server must be an address such as http://127.0.0.1:8000, or a list of them"
        if len(set(self.servers)) < len(self.servers):
            yield "server names an address twice: name each once"
        if self.weights_host and not self.servers:
            yield "weights_host sends weights to servers: set server, or leave it out"
        host = self.weights_host
        if host and ("/" in host or not _is_address(f"http://{host}")):
            yield "weights_host must be a host, or a host and a port, such as 10.0.0.5:8901"

    @property
    def servers(self) -> tuple[str, ...]:
        """The addresses of the servers that sample; empty: none does."""
        if isinstance(self.server, str):
            return (self.server,) if self.server else ()
        return self.server

    def _find_combination_faults(self) -> Iterator[str]:
        """Yield sentences about settings that do not go together."""
        if self.kl == "loss" and self.alpha == 1:
            yield "with alpha = 1 the KL is the whole loss and no reward counts: set it below 1"
        if self.target is not None and self.target <= 0:
            yield "target is a KL of more than 0 nats; leave it out for a fixed beta"
        if self.target is not None and not (self.beta > 0 and 0 < self.gain < 5):
            yield "for a target, beta must be more than 0 and gain between 0 and 5, or beta stays"
        if self.advantage == "rloo":
            if self.episodes < 2:
                yield 'advantage = "rloo" compares episodes: set episodes to 2 or more'
            if self.value_model:
                yield 'advantage = "rloo" has no value network: leave value_model out'
            return
        if self.value_weight == 0:
            yield (
                "with value_weight = 0 the value network learns nothing: set it above 0, or "
                'advantage = "rloo" to do without one'
            )
        if self.value == "shared" and self.value_model:
            yield 'value = "shared" is a head on the policy: leave value_model out, or "separate"'


def _is_address(text: str) -> bool:
    parts = urlsplit(text)
    known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    return bool(known and text.isascii())


PPO_DEFAULTS: Mapping[str, Any] = {}
"""Ziegler, section 2.2, and the code that came with it: four epochs of one minibatch, the defaults
of `ReinforcementSettings`"""
WEBGPT_PPO_DEFAULTS: Mapping[str, Any] = {
    "epochs": 1,
    "minibatches": 128,
    "chunk": 64,
    "count": "action",
    "whiten_rewards": False,
    "beta": 0.02,
}
"""WebGPT, appendix E: PPO of one epoch, with time counted in actions of 64 tokens"""
A2C_DEFAULTS: Mapping[str, Any] = {
    "epochs": 1,
    "clip": None,
    "value": "shared",
    "value_clip": None,
    "trace": 1.0,
    "whiten_rewards": False,
    "whiten_advantages": False,
    "kl": "loss",
    "no_answer": -2.0,
    "bad_syntax": 2.0,
}
"""GopherCite, section 2.8 and appendix F: one epoch, nothing clipped, the value network a head that
predicts the final reward, the KL in the loss, 2 off the reward for bad syntax"""
RLOO_DEFAULTS: Mapping[str, Any] = {
    "epochs": 1,
    "clip": None,
    "advantage": "rloo",
    "whiten_advantages": False,
}
"""leave-one-out advantages in place of a value network (Ahmadian and others, 2024)"""


def make_ppo_settings(**overrides: Any) -> ReinforcementSettings:
    """Return settings with Ziegler's PPO as the defaults; given values take precedence."""
    return ReinforcementSettings(**{**PPO_DEFAULTS, **overrides})


def make_webgpt_settings(**overrides: Any) -> ReinforcementSettings:
    """Return settings with WebGPT's PPO as the defaults; given values take precedence."""
    return ReinforcementSettings(**{**WEBGPT_PPO_DEFAULTS, **overrides})


def make_a2c_settings(**overrides: Any) -> ReinforcementSettings:
    """Return settings with GopherCite's A2C as the defaults; given values take precedence."""
    return ReinforcementSettings(**{**A2C_DEFAULTS, **overrides})


def make_rloo_settings(**overrides: Any) -> ReinforcementSettings:
    """Return settings with RLOO's advantages as the defaults; given values take precedence."""
    return ReinforcementSettings(**{**RLOO_DEFAULTS, **overrides})

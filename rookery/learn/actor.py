"""A policy and its value network as one module, and the frozen reference beside it.

It knows nothing of episodes and losses.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import msgspec
import torch
from torch import Tensor, nn

from rookery.learn.models import Trained, read_model
from rookery.learn.rows import Batch, action_logits, action_logits_and_states, action_values
from rookery.learn.trunk import Trunk, trunk_of

Value = Literal["separate", "shared", "none"]


class Actor(nn.Module):
    """A causal language model, and what says how much reward is to come before each token.

    The value network is a model of its own, or a small head on the policy's last hidden states, or
    there is none.
    """

    def __init__(self, policy: nn.Module, critic: nn.Module | None, shared: bool) -> None:
        super().__init__()
        self.policy: Any = policy
        self.critic: Any = critic
        self.shared = shared

    def forward(self, batch: Batch, temperature: float) -> tuple[Tensor, Tensor | None]:
        """Logits, B × A × V, and values, B × A."""
        if not self.shared:
            logits_BAV = action_logits(self.policy, batch, temperature)
            return logits_BAV, None if self.critic is None else action_values(self.critic, batch)
        logits_BAV, states_BAD = action_logits_and_states(self.policy, batch, temperature)
        return logits_BAV, self.critic(states_BAD.float())[..., 0]


class Made(NamedTuple):
    """What a run begins with."""

    actor: Actor
    reference: Any
    """a model of its own; None: the policy without what LoRA added"""
    trunk: Trunk | None = None
    """the frozen layers that they have in common"""


def make(
    policy: Trained, value: Value, value_model: str, value_width: int, reference: str, seed: int
) -> Made:
    """Reads the networks. What is new in them depends on the seed alone.

    A shared value network has two hidden layers of `value_width` (GopherCite, appendix F.1); all
    values are 0 at first. Where the policy's lower layers are frozen, a reference and a separate
    value network that begin with the same ones share them. Raises Failed as `read_model` does.
    """
    with _seeded(seed):
        speaker: Any = read_model(policy)
        critic: Any = None
        if value == "separate":
            start = msgspec.structs.replace(policy, model=value_model or policy.model)
            critic = read_model(start, "token")
        elif value == "shared":
            critic = _head(speaker.config.get_text_config().hidden_size, value_width)
        frozen: Any = None
        if reference or not policy.lora:
            frozen = read_model(Trained(reference or policy.model, dtype=policy.dtype))
            frozen.requires_grad_(False).eval()
    actor = Actor(speaker, critic, value == "shared")
    # Nothing is dropped out either way; transformers recompute in training mode alone.
    actor.train(policy.recompute)
    beside = [frozen, critic if value == "separate" else None]
    return Made(actor, frozen, trunk_of(speaker, [each for each in beside if each is not None]))


def reference_logits(made: Made, batch: Batch, temperature: float) -> Tensor:
    """What the reference predicts, B × A × V, without gradients."""
    with torch.no_grad():
        if made.reference is not None:
            return action_logits(made.reference, batch, temperature)
        with made.actor.policy.disable_adapter():
            return action_logits(made.actor.policy, batch, temperature)


def _head(width: int, hidden: int) -> nn.Sequential:
    last = nn.Linear(hidden, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(
        nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), last
    )


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield

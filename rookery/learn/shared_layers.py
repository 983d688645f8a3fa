"""Shared layers (a frozen trunk): they are computed once for a batch of episodes, while the policy
samples or when the first network reads it, and not in each epoch and by each network.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, Self

from torch import Tensor, nn

from rookery.learn.pretrained_models import get_embeddings, get_layers

MOST_KEPT_BYTES = 2**29
"""of hidden states, of a batch of episodes: where there are more, all is computed each time"""


def list_frozen_layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a model, from the first on, that learn nothing, nor do the embeddings
    below them."""
    layers = list(takewhile(_is_frozen, get_layers(model)))
    return layers if all(map(_is_frozen, get_embeddings(model).values())) else []


def _is_frozen(module: nn.Module) -> bool:
    return not any(weight.requires_grad for weight in module.parameters())


class LowerStates:
    """The hidden states of a batch above the shared layers: the first network that needs them
    computes them, and the others take them from here."""

    def __init__(self, states_BTD: Tensor | None = None) -> None:
        self.states_BTD = states_BTD

    @contextmanager
    def share_layers(self, networks: Sequence[Sequence[nn.Module]]) -> Iterator[Self]:
        """Let networks, of which the shared layers are given, pass these over within a `with`
        block, once the states are known; yield itself. Layers that return more than states are
        computed."""
        for layers in networks:
            for layer in layers:
                layer.forward = self._make_forward(layer.forward, layer is layers[-1])
        try:
            yield self
        finally:
            for layer in (layer for layers in networks for layer in layers):
                del layer.forward

    def _make_forward(self, compute: Any, is_last: bool) -> Any:
        def forward(states_BTD: Tensor, *args: Any, **more: Any) -> Any:
            if self.states_BTD is not None:
                return self.states_BTD if is_last else states_BTD
            output = compute(states_BTD, *args, **more)
            if is_last and isinstance(output, Tensor):
                self.states_BTD = output.detach()
            return output

        return forward


class StateRecorder:
    """Records the hidden states that a layer gives while actions are sampled, until `bytes_left` of
    them are kept."""

    def __init__(self, layer: nn.Module) -> None:
        self.layer = layer
        self.bytes_left = MOST_KEPT_BYTES

    @contextmanager
    def record(self) -> Iterator[list[Tensor]]:
        """Yield a list to which each call of the layer within the `with` block adds its states,
        B × T × D. Nothing is added by a layer that returns more than states."""
        states: list[Tensor] = []

        def add_output(_: nn.Module, __: Any, output: Any) -> None:
            if isinstance(output, Tensor) and self.bytes_left > 0:
                states.append(output)

        hook = self.layer.register_forward_hook(add_output)
        try:
            yield states
        finally:
            hook.remove()

"""Frozen lower layers that several models share: computed once for each row of a batch of episodes.

Their output is the same throughout training, so that later passes start above them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn

from rookery.learn.action_batches import ActionBatch, ActionRow, collate_rows, make_model_inputs
from rookery.learn.minibatches import MicroBatch
from rookery.learn.pretrained_models import get_decoder, get_embeddings, get_layers


class SharedLayers:
    """The first `size` layers, whose weights several models share, so that they are computed once.

    Nothing but these layers is left out: each model sees to its embeddings, positions and masks
    itself, so that it hardly matters of which kind it is.
    """

    def __init__(self, models: Sequence[Any], size: int) -> None:
        self._decoder = get_decoder(models[0])
        self._upper_layers = list(get_layers(models[0])[size:])
        self._lower_layers = [layer for model in models for layer in get_layers(model)[:size]]
        self._last_layer = self._lower_layers[size - 1]

    def compute_states(self, batch: ActionBatch) -> Tensor:
        """Return the output of the last shared layer, B × T × D; 0 where there is no token."""
        found: list[Tensor] = []
        told = self._last_layer.register_forward_hook(lambda *seen: found.append(seen[-1]))
        try:
            with _replace_forward(
                self._upper_layers, lambda hidden_states, *_, **__: hidden_states
            ):
                self._decoder(**make_model_inputs(batch))
        finally:
            told.remove()
        return found[0].masked_fill(~batch.seen_BT[..., None], 0.0)

    @contextmanager
    def resume_from_states(self, states_BTD: Tensor) -> Iterator[None]:
        """Make the models inside continue from these states, whatever the lower layers would
        compute."""
        with _replace_forward(self._lower_layers, lambda *_, **__: states_BTD):
            yield

    @torch.no_grad()
    def reproduces_outputs(self, model: Any, batch: ActionBatch) -> bool:
        """Return whether a model gives the same outputs when it continues from the states."""
        decoder, seen_BT = get_decoder(model), batch.seen_BT
        try:
            whole_BTD = decoder(**make_model_inputs(batch))[0]
            with self.resume_from_states(self.compute_states(batch)):
                above_BTD = decoder(**make_model_inputs(batch))[0]
        except Exception:  # there is no end to what layers may give each other
            return False
        apart = (whole_BTD - above_BTD)[seen_BT].abs().max()
        return bool(apart <= 1e-5 * whole_BTD[seen_BT].abs().max())

    def depends_on_weights(self, weights: Sequence[Tensor], batch: ActionBatch) -> bool:
        """Return whether the states depend on any of these weights."""
        states_BTD = self.compute_states(batch)
        if not states_BTD.requires_grad:
            return False
        found = torch.autograd.grad(states_BTD.sum(), weights, allow_unused=True)
        return any(each is not None for each in found)


@contextmanager
def _replace_forward(layers: Sequence[Any], forward: Callable[..., Tensor]) -> Iterator[None]:
    """Replace the forward pass of these layers inside."""
    held = [vars(layer).get("forward") for layer in layers]
    for layer in layers:
        layer.forward = forward
    try:
        yield
    finally:
        for layer, own in zip(layers, held, strict=True):
            if own is None:
                del layer.forward
            else:
                layer.forward = own


def find_shared_layers(policy: Any, others: Sequence[Any]) -> SharedLayers | None:
    """Return the layers of a policy, from the first on, in which nothing learns, nor in what comes
    before.

    Other models with the same weights there, embeddings too, share them: they get the policy's in
    place of their own. None where there are no such layers, or where a pass that begins above them
    does not come to what a whole one comes to.
    """
    size = count_frozen_layers(policy)
    if not size:
        return None
    probe, alone = _make_probe_batch(policy), SharedLayers([policy], size)
    learning = [weight for weight in policy.parameters() if weight.requires_grad]
    if not alone.reproduces_outputs(policy, probe) or alone.depends_on_weights(learning, probe):
        return None
    ours = _get_lower_weights(policy, size)
    alike = [
        other
        for other in others
        if _are_weights_equal(ours, _get_lower_weights(other, size))
        and SharedLayers([policy, other], size).reproduces_outputs(other, probe)
    ]
    return share_lower_layers(policy, alike, size)


def count_frozen_layers(model: nn.Module) -> int:
    """Return how many layers, from the first on, have no weight that learns."""
    return sum(1 for _ in takewhile(_is_frozen, get_layers(model)))


def share_lower_layers(policy: Any, others: Sequence[Any], size: int) -> SharedLayers:
    """Give other models the policy's embeddings and first `size` layers in place of their own."""
    ours = _get_lower_weights(policy, size)
    for other in others:
        _replace_weights(other, _get_lower_weights(other, size), ours)
    return SharedLayers([policy, *others], size)


def _is_frozen(module: nn.Module) -> bool:
    return not any(weight.requires_grad for weight in module.parameters())


def _make_probe_batch(model: Any) -> ActionBatch:
    """Rows of several lengths, with padding."""
    ids = model.config.get_text_config().vocab_size
    said = [number * 7919 % ids for number in range(24)]
    rows = [
        ActionRow(said[:9], said[9:12]),
        ActionRow(said[12:13], said[13:18]),
        ActionRow(said[18:22], said[22:]),
    ]
    return collate_rows(rows, 0)


def _get_lower_weights(model: nn.Module, size: int) -> dict[str, nn.Parameter]:
    """Return the weights of the embeddings and the first layers, by name."""
    layers = {str(number): layer for number, layer in enumerate(get_layers(model)[:size])}
    return {
        f"{place} {name}": weight
        for place, module in {**get_embeddings(model), **layers}.items()
        for name, weight in module.named_parameters()
    }


def _are_weights_equal(ours: dict[str, nn.Parameter], theirs: dict[str, nn.Parameter]) -> bool:
    return ours.keys() == theirs.keys() and all(
        torch.equal(ours[name], theirs[name]) for name in ours
    )


def _replace_weights(
    model: nn.Module, old: dict[str, nn.Parameter], new: dict[str, nn.Parameter]
) -> None:
    """Wherever the model has one of the old weights; a head may be tied to the embeddings."""
    places = {id(weight): new[name] for name, weight in old.items()}
    for module in model.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            if id(weight) in places:
                setattr(module, name, places[id(weight)])


class HiddenStateCache:
    """Hidden states of the shared layers for the rows of one batch of episodes; empty without
    shared layers."""

    def __init__(self, trunk: SharedLayers | None) -> None:
        self._shared_layers = trunk
        self._states: dict[int, Tensor] = {}
        """of each row, without padding: the next piece that it is in may have more or less"""

    @contextmanager
    def resume_micro_batch(self, piece: MicroBatch) -> Iterator[None]:
        """Make the models inside continue from the cached states of a micro-batch's rows."""
        if self._shared_layers is None:
            yield
            return
        with torch.no_grad():
            states_BTD = self._get_states(self._shared_layers, piece)
        with self._shared_layers.resume_from_states(states_BTD):
            yield

    def _get_states(self, trunk: SharedLayers, piece: MicroBatch) -> Tensor:
        seen_BT = piece.batch.seen_BT
        if not self._states.keys() >= set(piece.rows) or not piece.rows:
            states_BTD = trunk.compute_states(piece.batch)
            rows = torch.split(states_BTD[seen_BT], seen_BT.sum(-1).tolist())
            self._states.update(zip(piece.rows, rows, strict=False))
            return states_BTD
        states_ND = torch.cat([self._states[row] for row in piece.rows])
        states_BTD = states_ND.new_zeros(*seen_BT.shape, states_ND.shape[-1])
        states_BTD[seen_BT] = states_ND
        return states_BTD

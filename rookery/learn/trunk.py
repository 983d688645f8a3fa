"""The frozen lower layers that a policy, its reference and its value network have in common.

What comes out of them stays the same while the rest learns. So it is computed once for each row of
a batch of episodes, and later passes begin above them. It knows nothing of episodes and of losses.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn

from rookery.learn.models import decoder_of, embeddings_of, layers_of
from rookery.learn.portions import Piece
from rookery.learn.rows import Batch, Row, collate, inputs


class Trunk:
    """The first layers, `size` of them, of models in which they do the same.

    Nothing but these layers is left out: each model sees to its embeddings, positions and masks
    itself, so that it hardly matters of which kind it is.
    """

    def __init__(self, models: Sequence[Any], size: int) -> None:
        self._decoder = decoder_of(models[0])
        self._above = list(layers_of(models[0])[size:])
        self._passed = [layer for model in models for layer in layers_of(model)[:size]]
        self._last = self._passed[size - 1]

    def states(self, batch: Batch) -> Tensor:
        """What comes out of the last of the layers, B × T × D; 0 where there is no token."""
        found: list[Tensor] = []
        told = self._last.register_forward_hook(lambda *seen: found.append(seen[-1]))
        try:
            with _instead(self._above, lambda hidden_states, *_, **__: hidden_states):
                self._decoder(**inputs(batch))
        finally:
            told.remove()
        return found[0].masked_fill(~batch.seen_BT[..., None], 0.0)

    @contextmanager
    def passed(self, states_BTD: Tensor) -> Iterator[None]:
        """Within it, the models go on from these states, whatever came before."""
        with _instead(self._passed, lambda *_, **__: states_BTD):
            yield

    @torch.no_grad()
    def serves(self, model: Any, batch: Batch) -> bool:
        """Whether one of the models comes to the same when it goes on from the states."""
        decoder, seen_BT = decoder_of(model), batch.seen_BT
        try:
            whole_BTD = decoder(**inputs(batch))[0]
            with self.passed(self.states(batch)):
                above_BTD = decoder(**inputs(batch))[0]
        except Exception:  # there is no end to what layers may give each other
            return False
        apart = (whole_BTD - above_BTD)[seen_BT].abs().max()
        return bool(apart <= 1e-5 * whole_BTD[seen_BT].abs().max())

    def learns(self, weights: Sequence[Tensor], batch: Batch) -> bool:
        """Whether one of these weights has a say in the states."""
        states_BTD = self.states(batch)
        if not states_BTD.requires_grad:
            return False
        found = torch.autograd.grad(states_BTD.sum(), weights, allow_unused=True)
        return any(each is not None for each in found)


@contextmanager
def _instead(layers: Sequence[Any], forward: Callable[..., Tensor]) -> Iterator[None]:
    """Within it, the layers do this in place of what they do."""
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


def trunk_of(policy: Any, others: Sequence[Any]) -> Trunk | None:
    """The layers of a policy, from the first on, in which nothing learns, nor in what comes before.

    Other models with the same weights there, embeddings too, share them: they get the policy's in
    place of their own. None where there are no such layers, or where a pass that begins above them
    does not come to what a whole one comes to.
    """
    size = sum(1 for _ in takewhile(_is_still, layers_of(policy)))
    if not size:
        return None
    probe, alone = _probe(policy), Trunk([policy], size)
    learning = [weight for weight in policy.parameters() if weight.requires_grad]
    if not alone.serves(policy, probe) or alone.learns(learning, probe):
        return None
    ours, sharing = _weights(policy, size), [policy]
    for other in others:
        theirs = _weights(other, size)
        if _equal(ours, theirs) and Trunk([policy, other], size).serves(other, probe):
            _replace(other, theirs, ours)
            sharing.append(other)
    return Trunk(sharing, size)


def _is_still(module: nn.Module) -> bool:
    return not any(weight.requires_grad for weight in module.parameters())


def _probe(model: Any) -> Batch:
    """Rows of several lengths, with padding on both sides."""
    ids = model.config.get_text_config().vocab_size
    said = [number * 7919 % ids for number in range(24)]
    rows = [Row(said[:9], said[9:12]), Row(said[12:13], said[13:18]), Row(said[18:22], said[22:])]
    return collate(rows, 0)


def _weights(model: nn.Module, size: int) -> dict[str, nn.Parameter]:
    """Of the embeddings and the first layers."""
    layers = {str(number): layer for number, layer in enumerate(layers_of(model)[:size])}
    return {
        f"{place} {name}": weight
        for place, module in {**embeddings_of(model), **layers}.items()
        for name, weight in module.named_parameters()
    }


def _equal(ours: dict[str, nn.Parameter], theirs: dict[str, nn.Parameter]) -> bool:
    return ours.keys() == theirs.keys() and all(
        torch.equal(ours[name], theirs[name]) for name in ours
    )


def _replace(model: nn.Module, old: dict[str, nn.Parameter], new: dict[str, nn.Parameter]) -> None:
    """Wherever the model has one of the old weights; a head may be tied to the embeddings."""
    places = {id(weight): new[name] for name, weight in old.items()}
    for module in model.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            if id(weight) in places:
                setattr(module, name, places[id(weight)])


class Kept:
    """What a trunk makes of the rows of one batch of episodes; without a trunk, nothing."""

    def __init__(self, trunk: Trunk | None) -> None:
        self._trunk = trunk
        self._states: dict[int, Tensor] = {}
        """of each row, without padding: the next piece that it is in may have more or less"""

    @contextmanager
    def under(self, piece: Piece) -> Iterator[None]:
        """Within it, models go on from what the trunk made of the rows of this piece."""
        if self._trunk is None:
            yield
            return
        with torch.no_grad():
            states_BTD = self._of(self._trunk, piece)
        with self._trunk.passed(states_BTD):
            yield

    def _of(self, trunk: Trunk, piece: Piece) -> Tensor:
        seen_BT = piece.batch.seen_BT
        if not self._states.keys() >= set(piece.rows) or not piece.rows:
            states_BTD = trunk.states(piece.batch)
            rows = torch.split(states_BTD[seen_BT], seen_BT.sum(-1).tolist())
            self._states.update(zip(piece.rows, rows, strict=False))
            return states_BTD
        states_ND = torch.cat([self._states[row] for row in piece.rows])
        states_BTD = states_ND.new_zeros(*seen_BT.shape, states_ND.shape[-1])
        states_BTD[seen_BT] = states_ND
        return states_BTD

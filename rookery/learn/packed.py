"""Rows of different lengths computed together: side by side with little padding, or packed.

Packed, rows stand one behind the other, without padding. Attention is then computed between all
tokens of a piece and what belongs to other rows is masked, which costs more than padding does,
unless the model's kernel (flash attention) skips it. It knows nothing of what is learnt.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rookery.learn.rows import Batch, Row, action_logits, logprobs

_ALIKE = {torch.float32: 1e-4, torch.float64: 1e-4}
"""how far log-probabilities may lie apart that only rounding makes different"""


class Packed(NamedTuple):
    """Rows one behind the other in one sequence: R tokens, A of them tokens of actions."""

    tokens_1R: Tensor
    positions_1R: Tensor
    """of each token in its own row: where they begin again, so does a row"""
    places_A: Tensor
    """of the token before each token of an action: there a model predicts it"""
    actions_A: Tensor


def pack(rows: Sequence[Row], device: torch.device | str = "cpu") -> Packed:
    """The rows one behind the other."""
    tokens: list[int] = []
    positions: list[int] = []
    places: list[int] = []
    actions: list[int] = []
    for row in rows:
        size = len(row.context) + len(row.action)
        first = len(tokens) + len(row.context) - 1
        places += range(first, first + len(row.action))
        positions += range(size)
        tokens += [*row.context, *row.action]
        actions += row.action
    made = [torch.tensor(each, device=device) for each in (tokens, positions, places, actions)]
    return Packed(made[0][None], made[1][None], made[2], made[3])


def packed_logits(model: Any, packed: Packed) -> Tensor:
    """What a causal language model predicts for each token of the actions, A × V, as float32.

    Without an attention mask, transformers take a position of 0 for the beginning of another
    sequence, and let no token look back across it (`find_packed_sequence_indices`).
    """
    said = model(
        input_ids=packed.tokens_1R,
        position_ids=packed.positions_1R,
        logits_to_keep=packed.places_A,
        use_cache=False,
    )
    logits_AV: Tensor = said.logits[0].float()
    return logits_AV


@torch.inference_mode()
def can_pack(model: Any) -> bool:
    """Whether a row means the same to this model behind another one as alone.

    It is tried, with eight tokens: models that look back by other means than attention, or count
    positions themselves, would mix the rows.
    """
    device, dtype = next((each.device, each.dtype) for each in model.parameters())
    other, row = Row([5, 3, 8], [2]), Row([7, 4, 9], [6])
    try:
        alone_V = packed_logits(model, pack([row], device))[-1]
        behind_V = packed_logits(model, pack([other, row], device))[-1]
    except (TypeError, ValueError, RuntimeError, IndexError):  # it takes no such arguments
        return False
    apart = (alone_V.log_softmax(-1) - behind_V.log_softmax(-1)).abs().max()
    return bool(apart <= _ALIKE.get(dtype, 0.05))


def cut(rows: Sequence[Row], tokens: int, packing: bool) -> list[list[Row]]:
    """The rows in pieces of at most so many tokens, padding included, or of one row each.

    Packed, every row goes into the fullest piece that has room for it, the longest first. Side by
    side, rows of similar length make a piece.
    """
    ordered = sorted(rows, key=_size, reverse=True)
    return _filled(ordered, tokens) if packing else _alike(ordered, tokens)


def _size(row: Row) -> int:
    return len(row.context) + len(row.action)


def _filled(ordered: Sequence[Row], tokens: int) -> list[list[Row]]:
    pieces: list[list[Row]] = []
    room: list[int] = []
    for row in ordered:
        size = _size(row)
        fitting = [number for number, left in enumerate(room) if left >= size]
        if fitting:
            number = min(fitting, key=lambda number: room[number])
            pieces[number].append(row)
            room[number] -= size
        else:
            pieces.append([row])
            room.append(tokens - size)
    return pieces


def _alike(ordered: Sequence[Row], tokens: int) -> list[list[Row]]:
    pieces: list[list[Row]] = []
    for row in ordered:
        if pieces and _side_by_side([*pieces[-1], row]) <= tokens:
            pieces[-1].append(row)
        else:
            pieces.append([row])
    return pieces


def _side_by_side(rows: Sequence[Row]) -> int:
    """Tokens of these rows as `beside` lays them, padding included."""
    return len(rows) * max(map(_size, rows))


def beside(rows: Sequence[Row], pad: int, device: torch.device | str = "cpu") -> Batch:
    """The rows side by side, their ends in one column: rows as long as each other need no padding,
    however much of each is its action."""
    size, said = max(map(_size, rows)), max(len(row.action) for row in rows)
    tokens_BT = torch.full((len(rows), size), pad)
    seen_BT = torch.zeros(tokens_BT.shape, dtype=torch.bool)
    said_BA = torch.zeros((len(rows), said), dtype=torch.bool)
    for number, row in enumerate(rows):
        tokens_BT[number, size - _size(row) :] = torch.tensor([*row.context, *row.action])
        seen_BT[number, size - _size(row) :] = True
        said_BA[number, said - len(row.action) :] = True
    tokens_BT, seen_BT, said_BA = (each.to(device) for each in (tokens_BT, seen_BT, said_BA))
    return Batch(tokens_BT, seen_BT, tokens_BT[:, -said:], said_BA, None)


def padding(pieces: Sequence[Sequence[Row]], packing: bool) -> float:
    """The share of what is computed that is no token of any row."""
    said = sum(_size(row) for piece in pieces for row in piece)
    return 0.0 if packing else 1 - said / sum(map(_side_by_side, pieces))


def predicted(model: Any, rows: Sequence[Row], pad: int, packing: bool) -> tuple[Tensor, Tensor]:
    """Of each token of the actions of a piece, its log-probability and whether it is the likeliest.

    In no order that is promised.
    """
    device = next(model.parameters()).device
    if packing:
        together = pack(rows, device)
        logits_AV, actions_A = packed_logits(model, together), together.actions_A
        logprobs_A = logits_AV.log_softmax(-1).gather(-1, actions_A[:, None])[:, 0]
        return logprobs_A, logits_AV.argmax(-1) == actions_A
    batch = beside(rows, pad, device)
    logits_BAV = action_logits(model, batch)
    hits_BA = logits_BAV.argmax(-1) == batch.actions_BA
    return logprobs(logits_BAV, batch)[batch.said_BA], hits_BA[batch.said_BA]

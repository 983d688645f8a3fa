"""Cut rows of different lengths into minibatches and micro-batches, padded or packed.

Packed, rows stand one behind the other, without padding. Attention is then computed between all
tokens of a piece and what belongs to other rows is masked, which costs more than padding does,
unless the model's kernel (flash attention) skips it. Every number of processes cuts them alike.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rookery.learn.action_batches import (
    ActionBatch,
    ActionRow,
    PredictedTokens,
    collate_allowed,
    collate_rows,
    compute_action_states,
    compute_in_chunks,
    compute_logits,
    count_vocabulary,
    select_logprobs,
)

_LOGPROB_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4}
"""how far log-probabilities may lie apart that only rounding makes different"""


def pack_rows(rows: Sequence[ActionRow], device: torch.device | str = "cpu") -> ActionBatch:
    """Pack rows one after the other into one sequence; positions begin again with each row."""
    tokens: list[int] = []
    positions: list[int] = []
    places: list[int] = []
    actions: list[int] = []
    for row in rows:
        first = len(tokens) + len(row.context) - 1
        places += range(first, first + len(row.action))
        positions += range(row.size)
        tokens += [*row.context, *row.action]
        actions += row.action
    tensors = [torch.tensor(each, device=device) for each in (tokens, positions, places, actions)]
    tokens_T, positions_T, places_N, actions_N = tensors
    allowed = collate_allowed(rows, device)
    return ActionBatch(tokens_T[None], positions_T[None], None, places_N, actions_N, allowed)


@torch.inference_mode()
def can_pack(model: Any) -> bool:
    """Return whether a model keeps packed rows apart, tried with two rows of four tokens.

    A row packed behind another must get the same log-probabilities as alone: models that look back
    by other means than attention, or count positions themselves, would mix the rows.
    """
    device, dtype = next((each.device, each.dtype) for each in model.parameters())
    other, row = ActionRow([5, 3, 8], [2]), ActionRow([7, 4, 9], [6])
    try:
        alone_V, behind_V = (
            compute_logits(model, compute_action_states(model, pack_rows(rows, device)), None)[-1]
            for rows in ([row], [other, row])
        )
    except (TypeError, ValueError, RuntimeError, IndexError):  # it takes no such arguments
        return False
    apart = (alone_V.log_softmax(-1) - behind_V.log_softmax(-1)).abs().max()
    return bool(apart <= _LOGPROB_TOLERANCE.get(dtype, 0.05))


def split_into_micro_batches(
    rows: Sequence[ActionRow], tokens: int, packing: bool
) -> list[list[ActionRow]]:
    """Split rows into micro-batches of at most `tokens` tokens, padding included.

    A longer row is alone in its own. Packed, every row goes into the fullest micro-batch that has
    room for it, the longest first. Padded, rows of similar length are put together.
    """
    ordered = sorted(rows, key=lambda row: row.size, reverse=True)
    return _fill_packed(ordered, tokens) if packing else _group_by_length(ordered, tokens)


def _fill_packed(ordered: Sequence[ActionRow], tokens: int) -> list[list[ActionRow]]:
    pieces: list[list[ActionRow]] = []
    room: list[int] = []
    for row in ordered:
        size = row.size
        fitting = [number for number, free in enumerate(room) if free >= size]
        if fitting:
            number = min(fitting, key=lambda number: room[number])
            pieces[number].append(row)
            room[number] -= size
        else:
            pieces.append([row])
            room.append(tokens - size)
    return pieces


def _group_by_length(ordered: Sequence[ActionRow], tokens: int) -> list[list[ActionRow]]:
    pieces: list[list[ActionRow]] = []
    for row in ordered:
        if pieces and _count_padded_tokens([*pieces[-1], row]) <= tokens:
            pieces[-1].append(row)
        else:
            pieces.append([row])
    return pieces


def _count_padded_tokens(rows: Sequence[ActionRow]) -> int:
    """Tokens of these rows as `collate_rows` lays them, padding included."""
    return len(rows) * max(row.size for row in rows)


def compute_padding_share(pieces: Sequence[Sequence[ActionRow]], packing: bool) -> float:
    """Return the share of the computed positions that are padding; 0 for packed rows."""
    said = sum(row.size for piece in pieces for row in piece)
    return 0.0 if packing else 1 - said / sum(map(_count_padded_tokens, pieces))


def collate_or_pack(
    rows: Sequence[ActionRow], pad: int, packing: bool, device: torch.device | str
) -> ActionBatch:
    """Return rows as one batch, packed, or padded with id `pad`."""
    return pack_rows(rows, device) if packing else collate_rows(rows, pad, device)


def predict_actions(
    model: Any, rows: Sequence[ActionRow], pad: int, packing: bool
) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each action token, and whether it is the likeliest token.

    Both are flat, over all actions of a micro-batch, row by row. Rows are packed, or padded with id
    `pad`.
    """
    batch = collate_or_pack(rows, pad, packing, next(model.parameters()).device)

    def predict_tokens(tokens: PredictedTokens) -> dict[str, Tensor]:
        logits_NV = compute_logits(model, tokens.states_ND, tokens.allowed)
        return {
            "logprobs": select_logprobs(logits_NV, tokens.actions_N),
            "hits": logits_NV.argmax(-1) == tokens.actions_N,
        }

    tokens = PredictedTokens(compute_action_states(model, batch), batch.actions_N, batch.allowed)
    outputs = compute_in_chunks(predict_tokens, tokens, count_vocabulary(model))
    return outputs["logprobs"], outputs["hits"]


class RowLocation(NamedTuple):
    """Place of a row among all processes: process, number there, and length in tokens."""

    process: int
    number: int
    """among the rows of its process"""
    tokens: int
    """of its action"""


class MicroBatch(NamedTuple):
    """Rows that go through a model at once."""

    batch: ActionBatch
    rows: Sequence[int]
    """their numbers among those of this process"""
    tokens_N: Tensor
    """of the tokens of its actions, row by row, the places among all of this process"""


class Minibatch(NamedTuple):
    """Rows of this process whose loss makes one optimizer step."""

    pieces: Sequence[MicroBatch]
    """as many in every process"""
    tokens: int
    """of the actions, in all processes"""
    share: float
    """of all rows of all processes"""


class BatchSplitter:
    """Splits the rows of all processes into minibatches and micro-batches; `order` has the
    locations of all rows.

    `most` is how many rows a model is given at once.
    """

    def __init__(
        self,
        rows: Sequence[ActionRow],
        order: Sequence[RowLocation],
        process: int,
        most: int,
        pad: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self._rows = rows
        self._order = order
        self._process = process
        self._max_rows = most
        self._pad = pad
        self._device = device
        sizes = [len(row.action) for row in rows]
        starts = torch.tensor([0, *sizes]).cumsum(0).tolist()
        self._ranges = [
            torch.arange(start, start + size) for start, size in zip(starts, sizes, strict=False)
        ]

    def split_into_minibatches(self, count: int, seed: str) -> list[Minibatch]:
        """Deal the rows of all processes into `count` minibatches; return this process's part.

        Rows are shuffled by the seed, unless `count` is 1.
        """
        dealt = list(self._order)
        if count > 1:
            Random(seed).shuffle(dealt)
        return [self._make_minibatch(dealt[number::count]) for number in range(count)]

    def _make_minibatch(self, places: Sequence[RowLocation]) -> Minibatch:
        mine = [place.number for place in places if place.process == self._process]
        row_counts: dict[int, int] = {}
        for place in places:
            row_counts[place.process] = row_counts.get(place.process, 0) + 1
        count = -(-max(row_counts.values(), default=1) // self._max_rows)
        mine.sort(key=self._get_row_size)
        cuts = [len(mine) * part // count for part in range(count + 1)]
        pieces = [self._make_micro_batch(mine[start:end]) for start, end in pairwise(cuts)]
        tokens = sum(place.tokens for place in places)
        return Minibatch(pieces, tokens, len(places) / len(self._order))

    def _get_row_size(self, number: int) -> tuple[int, int]:
        row = self._rows[number]
        return len(row.context), len(row.action)

    def _make_micro_batch(self, numbers: Sequence[int]) -> MicroBatch:
        if not numbers:
            return self._make_empty_micro_batch()
        batch = collate_rows([self._rows[number] for number in numbers], self._pad, self._device)
        tokens_N = torch.cat([self._ranges[number] for number in numbers])
        return MicroBatch(batch, numbers, tokens_N.to(self._device))

    def _make_empty_micro_batch(self) -> MicroBatch:
        """For a process that has no row left while others have: it must still meet them."""
        batch = collate_rows([ActionRow([self._pad], [self._pad])], self._pad, self._device)
        none_N = torch.empty(0, dtype=torch.long, device=self._device)
        return MicroBatch(batch._replace(places_N=none_N, actions_N=none_N), (), none_N)

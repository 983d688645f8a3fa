"""Rows of a context and an action as tensors, and how likely a model finds each action.

WebGPT's browser shows its whole state anew at each step, so that an episode is a list of such rows,
and what was said in one is no part of the next. It knows nothing of episodes, rewards and losses.
"""

# Names of tensors end with their shapes: B rows, T tokens of a row, A tokens of an action, V ids.

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ids = npt.NDArray[np.int32]


class Row(NamedTuple):
    """What a model is shown, and what it says."""

    context: Sequence[int]
    """tokens, one at least"""
    action: Sequence[int]
    """tokens, the end token included where it was said"""
    allowed: Sequence[Ids] | None = None
    """of each token of the action, the ids that it was drawn from; None: all"""


class Allowed(NamedTuple):
    """What each token of the actions was drawn from: one of S sets of ids, of which set 0 is all.

    Many tokens have one set in common (whatever is free text), and it is kept once.
    """

    sets_BA: Tensor
    members_N: Tensor
    """sets, with repetition"""
    ids_N: Tensor
    """an id that the set beside it in `members_N` has"""
    size: int
    """S"""


class Batch(NamedTuple):
    """Rows side by side: contexts end, and actions begin, in one column.

    That way a model computes logits for as few positions as there are tokens in the longest action.
    """

    tokens_BT: Tensor
    seen_BT: Tensor
    """whether there is a token; what is none stands before the context or after the action"""
    actions_BA: Tensor
    said_BA: Tensor
    """whether there is a token of the action"""
    allowed: Allowed | None
    """None: all ids, everywhere"""

    @property
    def positions_BT(self) -> Tensor:
        """Of each token in its row, as models count them."""
        return (self.seen_BT.long().cumsum(-1) - 1).clamp(min=0)


def collate(rows: Sequence[Row], pad: int, device: torch.device | str = "cpu") -> Batch:
    """The rows side by side. Raises ValueError for a row without a context or an action."""
    if not all(row.context and row.action for row in rows):
        raise ValueError("a row must have a context and an action of one token at least")
    before = max(len(row.context) for row in rows)
    after = max(len(row.action) for row in rows)
    tokens_BT = np.full((len(rows), before + after), pad)
    seen_BT = np.zeros(tokens_BT.shape, np.bool_)
    for number, row in enumerate(rows):
        start, end = before - len(row.context), before + len(row.action)
        tokens_BT[number, start:before] = row.context
        tokens_BT[number, before:end] = row.action
        seen_BT[number, start:end] = True
    tokens = torch.from_numpy(tokens_BT).to(device)
    seen = torch.from_numpy(seen_BT).to(device)
    allowed = _allowed(rows, after, device)
    return Batch(tokens, seen, tokens[:, before:], seen[:, before:], allowed)


def _allowed(rows: Sequence[Row], size: int, device: torch.device | str) -> Allowed | None:
    if not any(row.allowed for row in rows):
        return None
    sets_BA = np.zeros((len(rows), size), np.int64)
    numbers: dict[int, int] = {}
    sets: list[Ids] = []
    for number, row in enumerate(rows):
        for place, ids in enumerate(row.allowed or ()):
            if id(ids) not in numbers:
                sets.append(ids)
                numbers[id(ids)] = len(sets)
            sets_BA[number, place] = numbers[id(ids)]
    members_N = np.repeat(np.arange(1, len(sets) + 1), [len(ids) for ids in sets])
    ids_N = np.concatenate(sets).astype(np.int64)
    here = [torch.from_numpy(each).to(device) for each in (sets_BA, members_N, ids_N)]
    return Allowed(here[0], here[1], here[2], len(sets) + 1)


def action_logits(model: Any, batch: Batch, temperature: float = 1.0) -> Tensor:
    """What a causal language model predicts for each token of the actions, B × A × V, as float32.

    Divided by the temperature that they were drawn at; ids that were not allowed have -inf.
    """
    return _as_drawn(_read(model, batch, logits_to_keep=_width(batch)).logits, batch, temperature)


def action_logits_and_states(
    model: Any, batch: Batch, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The same, and the last hidden state that each is predicted from, B × A × D."""
    said = _read(model, batch, logits_to_keep=_width(batch), output_hidden_states=True)
    states_BAD: Tensor = said.hidden_states[-1][:, -_width(batch) : -1]
    return _as_drawn(said.logits, batch, temperature), states_BAD


def action_values(model: Any, batch: Batch) -> Tensor:
    """What a model with a number for each token says just before each token of the actions, B × A,
    as float32."""
    values_BA: Tensor = _read(model, batch).logits[:, -_width(batch) : -1, 0].float()
    return values_BA


def _width(batch: Batch) -> int:
    """Of the last columns of a batch, from the token before the actions on."""
    return batch.actions_BA.shape[1] + 1


def inputs(batch: Batch) -> dict[str, Any]:
    """What a model is called with, to read a batch."""
    return {
        "input_ids": batch.tokens_BT,
        "attention_mask": batch.seen_BT.long(),
        "position_ids": batch.positions_BT,
        "use_cache": False,
    }


def _read(model: Any, batch: Batch, **more: Any) -> Any:
    return model(**inputs(batch), **more)


def _as_drawn(logits_BTV: Tensor, batch: Batch, temperature: float) -> Tensor:
    logits_BAV = logits_BTV[:, :-1].float() / temperature
    if batch.allowed is None:
        return logits_BAV
    return logits_BAV.masked_fill(~_mask_BAV(batch.allowed, logits_BAV), -torch.inf)


def logprobs(logits_BAV: Tensor, batch: Batch) -> Tensor:
    """The log-probability of each token of the actions, B × A; 0 where there is none."""
    chosen_BA = logits_BAV.log_softmax(-1).gather(-1, batch.actions_BA[..., None])[..., 0]
    return chosen_BA.masked_fill(~batch.said_BA, 0.0)


def entropies(logits_BAV: Tensor, batch: Batch) -> Tensor:
    """The entropy of each token's distribution, B × A, in nats; 0 where there is none."""
    logprobs_BAV = logits_BAV.log_softmax(-1)
    # 0 × -inf is not 0 here, and its gradient neither.
    terms_BAV = logprobs_BAV.exp() * logprobs_BAV.masked_fill(logprobs_BAV.isneginf(), 0.0)
    return (-terms_BAV.sum(-1)).masked_fill(~batch.said_BA, 0.0)


def _mask_BAV(allowed: Allowed, like_BAV: Tensor) -> Tensor:
    shape = (allowed.size, like_BAV.shape[-1])
    mask_SV = torch.zeros(shape, dtype=torch.bool, device=like_BAV.device)
    mask_SV[0] = True
    mask_SV[allowed.members_N, allowed.ids_N] = True
    return mask_SV[allowed.sets_BA]

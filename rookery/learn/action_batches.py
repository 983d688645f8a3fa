"""Rows of a context and an action as tensors, and the log-probability of each action.

WebGPT's browser shows its whole state anew at each step, so that an episode is a list of such rows,
each with its own context.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Names of tensors end with their shapes: B rows, T tokens of a row, A tokens of an action, V ids.


TokenIds = npt.NDArray[np.int32]


class ActionRow(NamedTuple):
    """Token ids of a context and of the action that a model generated after it."""

    context: Sequence[int]
    """tokens, one at least"""
    action: Sequence[int]
    """tokens, the end token included where it was said"""
    allowed: Sequence[TokenIds] | None = None
    """of each token of the action, the ids that it was drawn from; None: all"""


class AllowedTokens(NamedTuple):
    """The ids that each token of the actions was drawn from: one of S sets, of which set 0 has all
    ids.

    Many tokens have one set in common (whatever is free text), and it is kept once.
    """

    sets_BA: Tensor
    members_N: Tensor
    """sets, with repetition"""
    ids_N: Tensor
    """an id that the set beside it in `members_N` has"""
    set_count: int
    """S"""


class ActionBatch(NamedTuple):
    """Rows as padded tensors, aligned so that in every row the action begins in the same column.

    That way a model computes logits for as few positions as there are tokens in the longest action.
    """

    tokens_BT: Tensor
    attention_mask_BT: Tensor
    """whether there is a token; what is none stands before the context or after the action"""
    actions_BA: Tensor
    action_mask_BA: Tensor
    """whether there is a token of the action"""
    allowed: AllowedTokens | None
    """None: all ids, everywhere"""

    @property
    def positions_BT(self) -> Tensor:
        """Position ids of the tokens of each row, B × T, padding not counted."""
        return (self.attention_mask_BT.long().cumsum(-1) - 1).clamp(min=0)


def collate_rows(
    rows: Sequence[ActionRow], pad: int, device: torch.device | str = "cpu"
) -> ActionBatch:
    """Return rows as one batch: contexts padded on the left, actions on the right, with id `pad`.

    Raises ValueError for a row without a context or an action.
    """
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
    starts = [(number, 0) for number in range(len(rows))]
    allowed = collate_allowed(rows, starts, (len(rows), after), device)
    return ActionBatch(tokens, seen, tokens[:, before:], seen[:, before:], allowed)


def collate_allowed(
    rows: Sequence[ActionRow],
    starts: Sequence[tuple[int, int]],
    shape: tuple[int, int],
    device: torch.device | str,
) -> AllowedTokens | None:
    """Return the allowed ids of rows as sets in a matrix of `shape`; `starts` has for each row the
    line and column where its action begins. None where all ids are allowed everywhere."""
    if not any(row.allowed for row in rows):
        return None
    sets_BA = np.zeros(shape, np.int64)
    numbers: dict[int, int] = {}
    sets: list[TokenIds] = []
    for row, (line, start) in zip(rows, starts, strict=True):
        for column, ids in enumerate(row.allowed or (), start):
            if id(ids) not in numbers:
                sets.append(ids)
                numbers[id(ids)] = len(sets)
            sets_BA[line, column] = numbers[id(ids)]
    members_N = np.repeat(np.arange(1, len(sets) + 1), [len(ids) for ids in sets])
    ids_N = np.concatenate(sets).astype(np.int64)
    here = [torch.from_numpy(each).to(device) for each in (sets_BA, members_N, ids_N)]
    return AllowedTokens(here[0], here[1], here[2], len(sets) + 1)


def compute_action_logits(model: Any, batch: ActionBatch, temperature: float = 1.0) -> Tensor:
    """Return a language model's logits for each token of the actions, B × A × V, float32.

    They are divided by the temperature that the actions were drawn at; ids that were not allowed
    have -inf.
    """
    return _apply_temperature_and_mask(
        _run_model(model, batch, logits_to_keep=_list_output_columns(batch)).logits,
        batch,
        temperature,
    )


def compute_action_logits_and_states(
    model: Any, batch: ActionBatch, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Return each action token's logits, and the last hidden state that predicts it, B × A × D.

    The logits are B × A × V, divided by the temperature, with -inf for ids that were not allowed.
    """
    said = _run_model(
        model, batch, logits_to_keep=_list_output_columns(batch), output_hidden_states=True
    )
    states_BAD: Tensor = said.hidden_states[-1][:, -_count_output_columns(batch) : -1]
    return _apply_temperature_and_mask(said.logits, batch, temperature), states_BAD


def compute_action_values(model: Any, batch: ActionBatch) -> Tensor:
    """Return a value network's output just before each token of the actions, B × A, float32."""
    values_BA: Tensor = (
        _run_model(model, batch).logits[:, -_count_output_columns(batch) : -1, 0].float()
    )
    return values_BA


def _count_output_columns(batch: ActionBatch) -> int:
    """Return the number of columns from the token before the actions on."""
    return batch.actions_BA.shape[1] + 1


def _list_output_columns(batch: ActionBatch) -> Tensor:
    """Return the indices of the columns from the token before the actions on.

    Indices, since a number would make the states a slice, for which torch multiplies the head's
    weights row by row: with 49,152 tokens a training step took a sixth longer.
    """
    size = batch.tokens_BT.shape[1]
    first = size - _count_output_columns(batch)
    return torch.arange(first, size, device=batch.tokens_BT.device)


def make_model_inputs(batch: ActionBatch) -> dict[str, Any]:
    """Return a batch as keyword arguments of a transformers model: ids, mask and positions.

    They also switch off its key-value cache.
    """
    return {
        "input_ids": batch.tokens_BT,
        "attention_mask": batch.attention_mask_BT.long(),
        "position_ids": batch.positions_BT,
        "use_cache": False,
    }


def _run_model(model: Any, batch: ActionBatch, **more: Any) -> Any:
    return model(**make_model_inputs(batch), **more)


def _apply_temperature_and_mask(
    logits_BTV: Tensor, batch: ActionBatch, temperature: float
) -> Tensor:
    return mask_logits(logits_BTV[:, :-1].float() / temperature, batch.allowed)


def mask_logits(logits_BAV: Tensor, allowed: AllowedTokens | None) -> Tensor:
    """Return the logits with -inf for ids that are not allowed."""
    if allowed is None:
        return logits_BAV
    return logits_BAV.masked_fill(~_make_mask_BAV(allowed, logits_BAV), -torch.inf)


def compute_logprobs(logits_BAV: Tensor, batch: ActionBatch) -> Tensor:
    """Return the log-probability of each token of the actions, B × A; 0 for padding."""
    chosen_BA = logits_BAV.log_softmax(-1).gather(-1, batch.actions_BA[..., None])[..., 0]
    return chosen_BA.masked_fill(~batch.action_mask_BA, 0.0)


def compute_entropies(logits_BAV: Tensor, batch: ActionBatch) -> Tensor:
    """Return the entropy of each action token's distribution, B × A, in nats; 0 for padding."""
    logprobs_BAV = logits_BAV.log_softmax(-1)
    # 0 × -inf is not 0 here, and its gradient neither.
    terms_BAV = logprobs_BAV.exp() * logprobs_BAV.masked_fill(logprobs_BAV.isneginf(), 0.0)
    return (-terms_BAV.sum(-1)).masked_fill(~batch.action_mask_BA, 0.0)


def _make_mask_BAV(allowed: AllowedTokens, like_BAV: Tensor) -> Tensor:
    shape = (allowed.set_count, like_BAV.shape[-1])
    mask_SV = torch.zeros(shape, dtype=torch.bool, device=like_BAV.device)
    mask_SV[0] = True
    mask_SV[allowed.members_N, allowed.ids_N] = True
    return mask_SV[allowed.sets_BA]

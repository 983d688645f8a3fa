"""Logits and log-probabilities of actions the plain way: all at once, from a whole pass."""

from typing import Any

import torch
from torch import Tensor

from rookery.learn.action_batches import ActionBatch, make_model_inputs, select_logprobs


def plain_logits(model: Any, batch: ActionBatch, temperature: float = 1.0) -> Tensor:
    """N × V, in one piece, with -inf for ids that were not allowed."""
    logits_BTV = model(**make_model_inputs(batch)).logits.float() / temperature
    logits_NV: Tensor = logits_BTV.flatten(0, 1)[batch.places_N]
    if batch.allowed is None:
        return logits_NV
    mask_NV = torch.zeros_like(logits_NV, dtype=torch.bool)
    for number, allowed_set in enumerate(batch.allowed.sets_N.tolist()):
        ids = batch.allowed.ids_M[batch.allowed.members_M == allowed_set]
        mask_NV[number] = not allowed_set
        mask_NV[number, ids] = True
    return logits_NV.masked_fill(~mask_NV, -torch.inf)


def plain_logprobs(model: Any, batch: ActionBatch, temperature: float = 1.0) -> Tensor:
    """N, row by row."""
    return select_logprobs(plain_logits(model, batch, temperature), batch.actions_N)

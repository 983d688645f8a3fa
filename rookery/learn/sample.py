"""Actions drawn for many contexts at once, with all that training needs to know of each token.

Tokens go in and tokens come out: nothing is ever cut into tokens a second time. It knows nothing of
texts and rewards.
"""

import math
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from rookery.draft.remote import Allow
from rookery.learn.rows import Ids, Row
from rookery.learn.sampling import draw
from rookery.records import Failed, Failure


class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How tokens are drawn. Nothing but the temperature changes a model's distribution, so that
    what is learnt from is what was drawn from."""

    tokens: int = 64
    """of an action, at most"""
    temperature: float = 1.0
    """0: always the likeliest token"""
    rows: int = 64
    """that are drawn together"""

    def __post_init__(self) -> None:
        if min(self.tokens, self.rows) < 1 or not 0 <= self.temperature < math.inf:
            raise ValueError("tokens and rows must be 1 or more, temperature 0 or more")


class Sampled(NamedTuple):
    """An action, and the log-probability of each of its tokens when it was drawn."""

    row: Row
    logprobs: Sequence[float]
    ended: bool
    """whether it ends with an end token; else it was cut off"""


def sample(
    model: Any,
    contexts: Sequence[Sequence[int]],
    seeds: Sequence[int | str],
    ends: frozenset[int],
    settings: Sampling = Sampling(),
    allow: Sequence[Allow] | None = None,
) -> list[Sampled]:
    """An action for each context, drawn with the context's own seed.

    `allow` has for each a function from the tokens so far to the ids that may follow, or None. Each
    context is read once, and each token after it once. Raises Failed (not_a_number) where the model
    has no distribution.
    """
    found: dict[int, Sampled] = {}
    order = sorted(range(len(contexts)), key=lambda number: len(contexts[number]))
    for start in range(0, len(order), settings.rows):
        numbers = order[start : start + settings.rows]
        speakers = [
            _Speaker(contexts[n], Random(f"{seeds[n]}"), allow[n] if allow else None)
            for n in numbers
        ]
        _speak(model, speakers, ends, settings)
        found |= {n: speaker.sampled(ends) for n, speaker in zip(numbers, speakers, strict=True)}
    return [found[number] for number in range(len(contexts))]


class _Speaker:
    def __init__(self, context: Sequence[int], chance: Random, allow: Allow) -> None:
        self.context = context
        self.chance = chance
        self.allow = allow
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.allowed: list[Ids] = []

    def sampled(self, ends: frozenset[int]) -> Sampled:
        allowed = None if self.allow is None else self.allowed
        return Sampled(
            Row(self.context, self.tokens, allowed), self.logprobs, self.tokens[-1] in ends
        )


def _say(speakers: Sequence[_Speaker], logits_BV: Tensor, temperature: float) -> None:
    """One more token each."""
    for speaker, logits_V in zip(speakers, logits_BV, strict=True):
        if speaker.allow is None:
            continue
        # An array is kept as it is: that of free text is one for all tokens.
        found = speaker.allow(speaker.tokens)
        ids = found if isinstance(found, np.ndarray) else np.fromiter(found, np.int32)
        speaker.allowed.append(ids)
        masked_V = torch.ones_like(logits_V, dtype=torch.bool)
        masked_V[torch.as_tensor(ids, dtype=torch.long)] = False
        logits_V.masked_fill_(masked_V, -torch.inf)
    chances = [speaker.chance.random() for speaker in speakers]
    tokens, logprobs = draw(logits_BV, chances, temperature)
    for speaker, token, logprob in zip(speakers, tokens, logprobs, strict=True):
        speaker.tokens.append(token)
        speaker.logprobs.append(logprob)


@torch.inference_mode()
def _speak(
    model: Any, speakers: Sequence[_Speaker], ends: frozenset[int], settings: Sampling
) -> None:
    """Lets all speak to their end; those who have ended leave."""
    was, device = model.training, next(model.parameters()).device
    model.eval()
    size = max(len(speaker.context) for speaker in speakers)
    tokens_BT = torch.zeros((len(speakers), size), dtype=torch.long)
    seen_BT = torch.zeros((len(speakers), size), dtype=torch.long)
    for number, speaker in enumerate(speakers):
        tokens_BT[number, size - len(speaker.context) :] = torch.tensor(speaker.context)
        seen_BT[number, size - len(speaker.context) :] = 1
    tokens_BT, seen_BT = tokens_BT.to(device), seen_BT.to(device)
    cache, positions_BT = DynamicCache(), (seen_BT.cumsum(-1) - 1).clamp(min=0)
    for _ in range(settings.tokens):
        logits_BV = _last_logits(model, tokens_BT, seen_BT, positions_BT, cache)
        _say(speakers, logits_BV, settings.temperature)
        left = [row for row, one in enumerate(speakers) if one.tokens[-1] not in ends]
        if not left:
            break
        rows = torch.tensor(left, device=device)
        if len(left) < len(speakers):
            speakers = [speakers[row] for row in left]
            cache.reorder_cache(rows)  # type: ignore[arg-type]
        tokens_BT = torch.tensor([[one.tokens[-1]] for one in speakers], device=device)
        seen_BT = torch.nn.functional.pad(seen_BT[rows], (0, 1), value=1)
        positions_BT = positions_BT[rows, -1:] + 1
    model.train(was)


def _last_logits(
    model: Any, tokens_BT: Tensor, seen_BT: Tensor, positions_BT: Tensor, cache: DynamicCache
) -> Tensor:
    said = model(
        input_ids=tokens_BT,
        attention_mask=seen_BT,
        position_ids=positions_BT,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    logits_BV: Tensor = said.logits[:, -1].float().cpu()
    if not logits_BV.isfinite().any(-1).all():
        detail = "the model predicts what is no number: go on from an earlier checkpoint"
        raise Failed(Failure("sampling", "not_a_number", detail))
    return logits_BV

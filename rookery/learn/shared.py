"""Many continuations of one prompt, which is read once and whose keys and values are kept once.

It knows nothing of text, nor of how tokens are chosen.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    DynamicCache,
    PreTrainedModel,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

SHARED = "rookery_shared_prefix"
PIECE = 256
"""tokens of a prompt that are read at a time. Only whole pieces are used again for another prompt,
so that what is computed, to the last bit, does not depend on what was asked before"""


def share(model: PreTrainedModel) -> None:
    """Lets the rows of a batch attend to one prefix, where each layer of the model sees all of it.

    Other models (sliding windows, recurrent layers) stay as they are.
    """
    config = model.config.get_text_config()
    layers = set(getattr(config, "layer_types", None) or ["full_attention"])
    whole = layers == {"full_attention"} and getattr(config, "sliding_window", None) is None
    if whole and model._supports_attention_backend and model._supports_sdpa:
        AttentionInterface.register(SHARED, _attend)
        AttentionMaskInterface.register(SHARED, sdpa_mask)
        model.set_attn_implementation(SHARED)


class Prefix(NamedTuple):
    """A prompt that was read."""

    tokens: Sequence[int]
    cache: DynamicCache
    """of one row"""
    logits: torch.Tensor
    """after its last token, 1 × vocabulary"""


@torch.inference_mode()
def read(model: PreTrainedModel, tokens: Sequence[int], known: Prefix | None = None) -> Prefix:
    """Reads a prompt of at least one token, but for what it has in common with a known one.

    The known one cannot be used after this.
    """
    if not _shares(model):
        cache = DynamicCache(config=model.config)
        return Prefix(tokens, cache, _logits(model, [tokens], 0, cache))
    cache, start = DynamicCache(), 0
    if known is not None:
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(known.tokens, tokens, strict=False))
        start = min(sum(1 for _ in pairs), len(tokens) - 1) // PIECE * PIECE
        cache = known.cache
        cache.crop(start - len(known.tokens))
    for at in range(start, len(tokens), PIECE):
        piece = tokens[at : at + PIECE]
        logits = _logits(model, [piece], at, cache, shared_prefix=None)
    return Prefix(tokens, cache, logits)


class Branches:
    """Rows of tokens that all go on from one prefix.

    Where the model can share the prefix it stays as it was; else it is copied for each row.
    """

    def __init__(self, model: PreTrainedModel, prefix: Prefix, rows: int) -> None:
        self._model = model
        self._size = len(prefix.tokens)
        self._more: dict[str, Any] = {}
        if _shares(model):
            self._cache = DynamicCache()
            self._more["shared_prefix"] = prefix.cache
        else:
            self._cache = prefix.cache
            self.keep([0] * rows)

    @torch.inference_mode()
    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """The logits after one more token in each row, rows × vocabulary."""
        rows = [[token] for token in tokens]
        logits = _logits(self._model, rows, self._size, self._cache, **self._more)
        self._size += 1
        return logits

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        """Goes on with these rows, in this order."""
        self._cache.reorder_cache(torch.LongTensor(rows))


def reusable(model: PreTrainedModel, prefix: Prefix) -> Prefix | None:
    """What `read` may be given for another prompt, after branches have gone on from this one."""
    return prefix if _shares(model) else None


def _shares(model: PreTrainedModel) -> bool:
    return bool(model.config._attn_implementation == SHARED)


def _logits(
    model: PreTrainedModel,
    rows: Sequence[Sequence[int]],
    position: int,
    cache: DynamicCache,
    **more: Any,
) -> torch.Tensor:
    tokens = torch.tensor(rows, device=model.device)
    positions = torch.arange(position, position + tokens.shape[1], device=model.device)
    said = model(
        input_ids=tokens,
        position_ids=positions.expand_as(tokens),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
        **more,
    )
    logits: torch.Tensor = said.logits[:, -1]
    return logits


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    shared_prefix: DynamicCache | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Attention to a shared prefix and to what each row has said since, as to one text.

    All rows together are one batch of queries for the prefix, whose keys are neither copied nor
    read more than once (bifurcated attention, arXiv 2403.08845). Letters in names are rows N, heads
    for keys K, query heads for each of them G, positions of the prefix P and after it S, widths D.
    """
    if shared_prefix is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **more
        )
    layer: Any = shared_prefix.layers[int(module.layer_idx)]  # type: ignore[arg-type]
    keys_KPD, values_KPD = layer.keys[0], layer.values[0]
    rows, heads, _, width = query.shape
    query_NKGD = query.reshape(rows, len(keys_KPD), -1, width)
    far_NKGP = torch.einsum("nkgd,kpd->nkgp", query_NKGD, keys_KPD)
    near_NKGS = torch.einsum("nkgd,nksd->nkgs", query_NKGD, key)
    scores = torch.cat([far_NKGP, near_NKGS], -1) * (scaling or width**-0.5)
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    far_NKGP, near_NKGS = torch.tensor_split(weights, [keys_KPD.shape[1]], -1)
    seen_NKGD = torch.einsum("nkgp,kpd->nkgd", far_NKGP, values_KPD)
    seen_NKGD = seen_NKGD + torch.einsum("nkgs,nksd->nkgd", near_NKGS, value)
    return seen_NKGD.reshape(rows, 1, heads, -1), None

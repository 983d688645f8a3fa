"""Draw tokens from a model, one at a time or with a shared prompt.

Tokens are drawn by numbers between 0 and 1, so that a seed means the same on every machine.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from rookery.errors import Failed, Outcome
from rookery.learn.action_batches import (
    ActionRow,
    TokenIds,
    collate_allowed,
    make_token_ids,
    mask_logits,
)
from rookery.learn.pretrained_models import LoadedModel, load_model
from rookery.learn.shared_layers import StateRecorder
from rookery.models.remote_model import AllowedTokens
from rookery.records import Failure
from rookery.settings import CompletionSettings


def draw_tokens(
    logits_NV: torch.Tensor, chances: Sequence[float], temperature: float = 1.0, top_p: float = 1.0
) -> tuple[list[int], list[float]]:
    """Draw one token id for each row of logits; return the ids and their log-probabilities.

    A row's chance is a place on the line from 0 to 1 that the ids share by their probability, in
    their order. The log-probabilities are those after `temperature` and `top_p`. With `top_p` below
    1 only the likeliest ids remain, as few as together have that probability. A temperature of 0
    takes the likeliest id, and its log-probability at temperature 1. Raises FloatingPointError
    where a row is no distribution.
    """
    logprobs_NV = (logits_NV.float() / (temperature or 1.0)).log_softmax(-1)
    if logprobs_NV[:, 0].isnan().any():  # one that is no number makes all of its row so
        raise FloatingPointError("its logits are no numbers")
    if temperature == 0:
        chosen_N1 = logprobs_NV.argmax(-1, keepdim=True)
    else:
        if top_p < 1:
            logprobs_NV = _keep_nucleus(logprobs_NV, top_p)
        line_NV = logprobs_NV.double().exp().cumsum(-1)
        places = torch.tensor(chances, dtype=line_NV.dtype, device=line_NV.device)
        places_N1 = places[:, None] * line_NV[:, -1:]
        chosen_N1 = torch.searchsorted(line_NV, places_N1, right=True)
    return chosen_N1[:, 0].tolist(), logprobs_NV.gather(1, chosen_N1)[:, 0].tolist()


def _keep_nucleus(logprobs_NV: torch.Tensor, top_p: float) -> torch.Tensor:
    ordered_NV, order_NV = logprobs_NV.sort(descending=True, stable=True)
    shares_NV = ordered_NV.double().exp()
    beyond_NV = shares_NV.cumsum(-1) - shares_NV >= top_p
    kept_NV = ordered_NV.masked_fill(beyond_NV, -torch.inf)
    return torch.empty_like(logprobs_NV).scatter(1, order_NV, kept_NV).log_softmax(-1)


class SamplingSettings(CompletionSettings, frozen=True, forbid_unknown_fields=True):
    """Settings for drawing actions of a policy that is trained or evaluated.

    The policy learns from the distribution that was sampled: the temperature divides its logits,
    and with `top_p` the tokens that could be drawn are recorded as those that were allowed.
    """

    max_tokens: int = 64
    """tokens of an action, at most"""
    temperature: float = 1.0
    """0: always the likeliest token"""
    rows: int = 64
    """actions that are drawn together"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rows < 1:
            raise ValueError("rows must be 1 or more")
        if self.stop:
            raise ValueError("an action ends with an end token or by max_tokens: leave stop out")


def load_sampled_model(folder: Path, settings: SamplingSettings) -> LoadedModel:
    """Load a saved policy to sample from, with the precision and threads of the settings.

    It is on cuda where there is one. The threads are set for the whole process. Raises Failed:
    no_model, bad_model.
    """
    set_threads(settings)
    return load_model(folder, dtype=settings.dtype)


def set_threads(settings: CompletionSettings) -> None:
    """Set torch's threads for the whole process, where the settings say how many."""
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)


class SampledAction(NamedTuple):
    """Token ids of an action, and the log-probability of each when it was sampled."""

    row: ActionRow
    logprobs: Sequence[float]
    ended: bool
    """whether it ends with an end token; else it was cut off"""
    lower_TD: Tensor | None = None
    """of its row's tokens but the last, the hidden states that a `StateRecorder` kept"""


def sample_actions(
    model: Any,
    contexts: Sequence[Sequence[int]],
    seeds: Sequence[int | str],
    ends: frozenset[int],
    settings: SamplingSettings = SamplingSettings(),
    allow: Sequence[AllowedTokens] | None = None,
    recorder: StateRecorder | None = None,
) -> list[SampledAction]:
    """Sample an action for each context, up to an end token or `settings.max_tokens` tokens.

    Actions are in the order of the contexts, each of which has its own random seed. `allow` has for
    each a function from the tokens so far to the ids that may follow, or None for any.
    Log-probabilities are those drawn at, after temperature, `top_p` and `allow`; at temperature 0,
    those at 1. A context and `max_tokens` more must fit into the model, which is not checked.
    Raises Failed (not_a_number) where the model has no distribution over the ids that may follow.
    """
    sampled: dict[int, SampledAction] = {}
    order = sorted(range(len(contexts)), key=lambda n: (len(contexts[n]), tuple(contexts[n])))
    for start in range(0, len(order), settings.rows):
        numbers = order[start : start + settings.rows]
        speakers = [
            _SampledSequence(contexts[n], Random(f"{seeds[n]}"), allow[n] if allow else None)
            for n in numbers
        ]
        recording = recorder.record() if recorder else nullcontext(list[Tensor]())
        with recording as states:
            _sample_to_end(model, speakers, ends, settings, states)
        if recorder:
            recorder.bytes_left -= sum(each.nbytes for one in speakers for each in one.states)
        sampled |= {
            n: speaker.to_sampled_action(ends) for n, speaker in zip(numbers, speakers, strict=True)
        }
    return [sampled[number] for number in range(len(contexts))]


class _SampledSequence:
    def __init__(self, context: Sequence[int], chance: Random, allow: AllowedTokens) -> None:
        self.context = context
        self.generator = chance
        self.allow = allow
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.allowed: list[TokenIds] = []
        self.states: list[Tensor] = []

    def to_sampled_action(self, ends: frozenset[int]) -> SampledAction:
        allowed = self.allowed or None
        row = ActionRow(self.context, self.tokens, allowed)
        # Outside of inference mode, in which no gradient may be taken of them.
        lower_TD = torch.cat(self.states) if self.states else None
        return SampledAction(row, self.logprobs, self.tokens[-1] in ends, lower_TD)


def _append_tokens(
    speakers: Sequence[_SampledSequence], logits_BV: Tensor, settings: SamplingSettings
) -> None:
    """Draw one more token for each sample."""
    for speaker in speakers:
        if speaker.allow is not None:
            speaker.allowed.append(make_token_ids(speaker.allow(speaker.tokens)))
    # Each set of ids goes to the model's device once, where it masks all rows that have it.
    rows = [ActionRow((), (0,), one.allow and one.allowed[-1:]) for one in speakers]
    logits_BV = mask_logits(logits_BV, collate_allowed(rows, logits_BV.device))
    temperature, top_p = settings.temperature, settings.top_p
    if top_p is not None and top_p < 1 and temperature > 0:
        kept_BV = _keep_nucleus((logits_BV / temperature).log_softmax(-1), top_p).isfinite()
        logits_BV = logits_BV.masked_fill(~kept_BV, -torch.inf)
        for speaker, kept_V in zip(speakers, kept_BV.cpu(), strict=True):
            ids = kept_V.nonzero()[:, 0].to(torch.int32).numpy()
            speaker.allowed[len(speaker.tokens) :] = [ids]
    chances = [speaker.generator.random() for speaker in speakers]
    try:
        tokens, logprobs = draw_tokens(logits_BV, chances, temperature)
    except FloatingPointError as error:
        detail = "the tokens that may follow have no probability: go on from an earlier checkpoint"
        raise Failed(Failure("sampling", Outcome.NOT_A_NUMBER, detail)) from error
    for speaker, token, logprob in zip(speakers, tokens, logprobs, strict=True):
        speaker.tokens.append(token)
        speaker.logprobs.append(logprob)


@torch.inference_mode()
def _sample_to_end(
    model: Any,
    speakers: Sequence[_SampledSequence],
    ends: frozenset[int],
    settings: SamplingSettings,
    states: list[Tensor],
) -> None:
    """Let all speak to their end; those who have ended leave. Takes the states that are recorded
    meanwhile from a list."""
    was, device = model.training, next(model.parameters()).device
    model.eval()
    contexts = list(dict.fromkeys(tuple(speaker.context) for speaker in speakers))
    size = max(map(len, contexts))
    tokens_BT = torch.zeros((len(contexts), size), dtype=torch.long)
    seen_BT = torch.zeros((len(contexts), size), dtype=torch.long)
    for number, context in enumerate(contexts):
        tokens_BT[number, size - len(context) :] = torch.tensor(context)
        seen_BT[number, size - len(context) :] = 1
    tokens_BT, seen_BT = tokens_BT.to(device), seen_BT.to(device)
    cache, positions_BT = DynamicCache(), (seen_BT.cumsum(-1) - 1).clamp(min=0)
    logits_BV = _compute_last_logits(model, tokens_BT, seen_BT, positions_BT, cache)
    places = {context: number for number, context in enumerate(contexts)}
    rows = [places[tuple(speaker.context)] for speaker in speakers]
    for states_BTD in states:
        for row, speaker in zip(rows, speakers, strict=True):
            speaker.states.append(states_BTD[row, size - len(speaker.context) :])
    states.clear()
    if len(contexts) < len(speakers):
        of = torch.tensor(rows, device=device)
        cache.reorder_cache(of)  # type: ignore[arg-type]
        logits_BV, seen_BT, positions_BT = logits_BV[of], seen_BT[of], positions_BT[of]
    for left_tokens in reversed(range(settings.max_tokens)):
        _append_tokens(speakers, logits_BV, settings)
        unfinished = [row for row, one in enumerate(speakers) if one.tokens[-1] not in ends]
        if not unfinished or not left_tokens:
            break
        of = torch.tensor(unfinished, device=device)
        if len(unfinished) < len(speakers):
            speakers = [speakers[row] for row in unfinished]
            cache.reorder_cache(of)  # type: ignore[arg-type]
        tokens_BT = torch.tensor([[one.tokens[-1]] for one in speakers], device=device)
        seen_BT = torch.nn.functional.pad(seen_BT[of], (0, 1), value=1)
        positions_BT = positions_BT[of, -1:] + 1
        logits_BV = _compute_last_logits(model, tokens_BT, seen_BT, positions_BT, cache)
        for states_BTD in states:
            for speaker, states_TD in zip(speakers, states_BTD, strict=True):
                speaker.states.append(states_TD)
        states.clear()
    model.train(was)


def _compute_last_logits(
    model: Any, tokens_BT: Tensor, seen_BT: Tensor, positions_BT: Tensor, cache: DynamicCache
) -> Tensor:
    output = model(
        input_ids=tokens_BT,
        attention_mask=seen_BT,
        position_ids=positions_BT,
        cache=cache,
        use_cache=True,
        # An index: for a slice torch multiplies the head's weights row by row, which took a
        # quarter of the time of reading 128 short prompts.
        logits_to_keep=torch.tensor([-1], device=tokens_BT.device),
    )
    logits_BV: Tensor = output.logits[:, -1].float()
    if not logits_BV.isfinite().any(-1).all():
        detail = "predictions are not numbers: lower the rate, or go on from an earlier checkpoint"
        raise Failed(Failure("sampling", Outcome.NOT_A_NUMBER, detail))
    return logits_BV


SHARED_PREFIX_ATTENTION = "rookery_shared_prefix"
PREFILL_CHUNK_TOKENS = 256
"""tokens of a prompt that are read at a time. Only whole pieces are used again for another prompt,
so that what is computed, to the last bit, does not depend on what was asked before"""


def enable_prefix_sharing(model: PreTrainedModel) -> None:
    """Replace a model's attention, so that all rows of a batch attend to one cached prefix.

    A model with sliding windows, recurrent layers or no SDPA attention is left unchanged.
    """
    config = model.config.get_text_config()
    layers = set(getattr(config, "layer_types", None) or ["full_attention"])
    whole = layers == {"full_attention"} and getattr(config, "sliding_window", None) is None
    if whole and model._supports_attention_backend and model._supports_sdpa:
        AttentionInterface.register(SHARED_PREFIX_ATTENTION, _attend_to_prefix)
        AttentionMaskInterface.register(SHARED_PREFIX_ATTENTION, sdpa_mask)
        model.set_attn_implementation(SHARED_PREFIX_ATTENTION)


class PromptPrefix(NamedTuple):
    """Key-value cache of a prompt that was read."""

    tokens: Sequence[int]
    cache: DynamicCache
    """of one row"""
    logits: torch.Tensor
    """after its last token, 1 × vocabulary"""


@torch.inference_mode()
def prefill_prompt(
    model: PreTrainedModel, tokens: Sequence[int], cached: PromptPrefix | None = None
) -> PromptPrefix:
    """Read a prompt of at least one token into a key-value cache; return it with its last logits.

    After `enable_prefix_sharing`, what the prompt has in common with `cached`, in whole chunks of
    256 tokens, is not read again; `cached` cannot be used after this. Other models read it all.
    """
    if not _shares_prefix(model):
        cache = DynamicCache(config=model.config)
        return PromptPrefix(tokens, cache, _compute_logits(model, [tokens], 0, cache))
    cache, start = DynamicCache(), 0
    if cached is not None:
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(cached.tokens, tokens, strict=False))
        start = (
            min(sum(1 for _ in pairs), len(tokens) - 1)
            // PREFILL_CHUNK_TOKENS
            * PREFILL_CHUNK_TOKENS
        )
        cache = cached.cache
        cache.crop(start - len(cached.tokens))
    for at in range(start, len(tokens), PREFILL_CHUNK_TOKENS):
        piece = tokens[at : at + PREFILL_CHUNK_TOKENS]
        logits = _compute_logits(model, [piece], at, cache, shared_prefix=None)
    return PromptPrefix(tokens, cache, logits)


class PrefixBranches:
    """Batch of rows of tokens that continue one prefix.

    Where the model can share the prefix it stays as it was; else its cache becomes that of the
    rows, and the prefix must not be used again (`get_reusable_prefix`).
    """

    def __init__(self, model: PreTrainedModel, prefix: PromptPrefix, rows: int) -> None:
        self._model = model
        self._size = len(prefix.tokens)
        self._model_options: dict[str, Any] = {}
        if _shares_prefix(model):
            self._cache = DynamicCache()
            self._model_options["shared_prefix"] = prefix.cache
        else:
            self._cache = prefix.cache
            self.select_rows([0] * rows)

    @torch.inference_mode()
    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Append one token to each row, and return the logits of the next, rows × vocabulary."""
        rows = [[token] for token in tokens]
        logits = _compute_logits(self._model, rows, self._size, self._cache, **self._model_options)
        self._size += 1
        return logits

    @torch.inference_mode()
    def select_rows(self, rows: Sequence[int]) -> None:
        """Keep only the rows with these indices, in this order; a row may be repeated."""
        self._cache.reorder_cache(torch.LongTensor(rows))


def get_reusable_prefix(model: PreTrainedModel, prefix: PromptPrefix) -> PromptPrefix | None:
    """Return the prefix if `prefill_prompt` may reuse it after branches continued it, else None.

    It may where the model shares prefixes: then branches leave its cache as it was.
    """
    return prefix if _shares_prefix(model) else None


def _shares_prefix(model: PreTrainedModel) -> bool:
    return bool(model.config._attn_implementation == SHARED_PREFIX_ATTENTION)


def _compute_logits(
    model: PreTrainedModel,
    rows: Sequence[Sequence[int]],
    position: int,
    cache: DynamicCache,
    **more: Any,
) -> torch.Tensor:
    tokens = torch.tensor(rows, device=model.device)
    positions = torch.arange(position, position + tokens.shape[1], device=model.device)
    output = model(
        input_ids=tokens,
        position_ids=positions.expand_as(tokens),
        cache=cache,
        use_cache=True,
        logits_to_keep=1,
        **more,
    )
    logits: torch.Tensor = output.logits[:, -1]
    return logits


def _attend_to_prefix(
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

"""Rows of a context and an action as tensors, and what a model says of each token of the actions.

WebGPT's browser shows its whole state anew at each step, so that an episode is a list of such rows,
each with its own context.

Logits are the largest tensors of a training: 64 rows of 512 tokens with 128,000 ids are 17 GB. They
are computed from the last hidden states of some tokens at a time, and again in the backward pass.

Rows of different lengths are cut into minibatches and micro-batches, alike for every number of
processes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rookery.errors import Failed, Outcome
from rookery.learn.pretrained_models import unwrap_lora
from rookery.records import Failure

# Names of tensors end with their shapes: B rows, T tokens of a row, N tokens of all actions, D
# width of the hidden states, V ids.


TokenIds = npt.NDArray[np.int32]
LOGITS_AT_ONCE = 2**26
"""the most logits that are computed at once: 512 tokens with 128,000 ids, 256 MiB in float32. Fewer
would have a GPU read the weights of the head too often for the work that is done with them"""


class ActionRow(NamedTuple):
    """Token ids of a context and of the action that a model generated after it."""

    context: Sequence[int]
    """tokens, one at least"""
    action: Sequence[int]
    """tokens, the end token included where it was said"""
    allowed: Sequence[TokenIds] | None = None
    """of each token of the action, the ids that it was drawn from; None: all"""

    @property
    def size(self) -> int:
        """Tokens of context and action together."""
        return len(self.context) + len(self.action)


def make_token_ids(ids: Iterable[int]) -> TokenIds:
    """Return token ids as an array; an array is kept as it is, since that of free text is one for
    all tokens."""
    return ids if isinstance(ids, np.ndarray) else np.fromiter(ids, np.int32)


def list_allowed_ids(
    action: Sequence[int], allow: Callable[[Sequence[int]], Iterable[int]]
) -> list[TokenIds] | None:
    """Return for each token of an action the ids that it could be sampled from; None where one is
    not among them."""
    allowed: list[TokenIds] = []
    for at, token in enumerate(action):
        ids = make_token_ids(allow(action[:at]))
        if token not in ids:
            return None
        allowed.append(ids)
    return allowed


class TokenSets(NamedTuple):
    """The ids that each token of the actions was drawn from: one of several sets, of which set 0
    has all ids.

    Many tokens have one set in common (whatever is free text), and it is kept once.
    """

    sets_N: Tensor
    """of each token of the actions, the number of its set"""
    members_M: Tensor
    """sets, in ascending order, with repetition"""
    ids_M: Tensor
    """an id that the set beside it in `members_M` has"""


class ActionBatch(NamedTuple):
    """Rows as tensors, padded on the left, so that all end in the same column."""

    tokens_BT: Tensor
    positions_BT: Tensor
    """of each token in its own row"""
    attention_mask_BT: Tensor
    """whether there is a token, and no padding"""
    places_N: Tensor
    """of each token of the actions, row by row, the place of the token before it among all B × T:
    there a model predicts it"""
    actions_N: Tensor
    """the tokens of the actions, row by row"""
    allowed: TokenSets | None
    """None: all ids, everywhere"""


def collate_rows(
    rows: Sequence[ActionRow], pad: int, device: torch.device | str = "cpu"
) -> ActionBatch:
    """Return rows as one batch, padded on the left with id `pad`; all rows end in the same column.

    Raises ValueError for a row without a context or an action, and without rows.
    """
    if not all(row.context and row.action for row in rows):
        raise ValueError("a row must have a context and an action of one token at least")
    size = max(row.size for row in rows)
    tokens_BT = np.full((len(rows), size), pad)
    positions_BT = np.zeros(tokens_BT.shape, np.int64)
    seen_BT = np.zeros(tokens_BT.shape, np.bool_)
    places = []
    for number, row in enumerate(rows):
        start, action = size - row.size, size - len(row.action)
        tokens_BT[number, start:action] = row.context
        tokens_BT[number, action:] = row.action
        positions_BT[number, start:] = np.arange(row.size)
        seen_BT[number, start:] = True
        places.append(number * size + np.arange(action - 1, size - 1))
    actions = np.concatenate([np.asarray(row.action) for row in rows])
    arrays = tokens_BT, positions_BT, seen_BT, np.concatenate(places), actions
    tensors = [torch.from_numpy(each).to(device) for each in arrays]
    return ActionBatch(
        tensors[0], tensors[1], tensors[2], tensors[3], tensors[4], collate_allowed(rows, device)
    )


def collate_allowed(
    rows: Sequence[ActionRow], device: torch.device | str = "cpu"
) -> TokenSets | None:
    """Return the allowed ids of the rows' actions; None where all ids are allowed everywhere.

    A set of ids is kept once for all tokens that have the same array, not for equal arrays.
    """
    if not any(row.allowed for row in rows):
        return None
    numbers: dict[int, int] = {}
    sets: list[TokenIds] = []
    sets_N: list[int] = []
    for row in rows:
        if row.allowed is None:
            sets_N += [0] * len(row.action)
            continue
        for ids in row.allowed:
            if id(ids) not in numbers:
                sets.append(ids)
                numbers[id(ids)] = len(sets)
            sets_N.append(numbers[id(ids)])
    members_M = np.repeat(np.arange(1, len(sets) + 1), [len(ids) for ids in sets])
    arrays = np.array(sets_N), members_M, np.concatenate(sets).astype(np.int64)
    return TokenSets(*(torch.from_numpy(each).to(device) for each in arrays))


def make_model_inputs(batch: ActionBatch) -> dict[str, Any]:
    """Return a batch as keyword arguments of a transformers model: ids, mask and positions.

    They also switch off its key-value cache.
    """
    return {
        "input_ids": batch.tokens_BT,
        "position_ids": batch.positions_BT,
        "attention_mask": batch.attention_mask_BT.long(),
        "use_cache": False,
    }


def compute_action_states(model: Any, batch: ActionBatch) -> Tensor:
    """Return the last hidden state of a language model that predicts each token of the actions,
    N × D."""
    states_BTD: Tensor = unwrap_lora(model).get_decoder()(**make_model_inputs(batch))[0]
    return states_BTD.flatten(0, 1).index_select(0, batch.places_N)


def compute_action_values(model: Any, batch: ActionBatch) -> Tensor:
    """Return a value network's output just before each token of the actions, N, float32."""
    values_BT: Tensor = model(**make_model_inputs(batch)).logits[..., 0]
    return values_BT.flatten().index_select(0, batch.places_N).float()


class PredictedTokens(NamedTuple):
    """Some tokens of the actions of a batch, and the hidden states that predict them."""

    states_ND: Tensor
    actions_N: Tensor
    allowed: TokenSets | None
    others_ND: Tensor | None = None
    """of another model, to compare with"""


TokenFunction = Callable[[PredictedTokens], dict[str, Tensor]]
"""computes one value for each of some tokens, by name"""


def compute_in_chunks(
    function: TokenFunction, tokens: PredictedTokens, ids: int
) -> dict[str, Tensor]:
    """Return the values of all tokens, computed for so many at once as have `LOGITS_AT_ONCE` logits
    of this many ids.

    Where they are more, the logits are computed again in the backward pass, and not kept for it.
    """
    size, count = max(LOGITS_AT_ONCE // ids, 1), len(tokens.actions_N)
    if count <= size:
        return function(tokens)
    chunks: list[dict[str, Tensor]] = [
        checkpoint(
            function,
            _select_tokens(tokens, slice(start, start + size)),
            use_reentrant=False,
            preserve_rng_state=False,
        )
        for start in range(0, count, size)
    ]
    return {name: torch.cat([each[name] for each in chunks]) for name in chunks[0]}


def _select_tokens(tokens: PredictedTokens, some: slice) -> PredictedTokens:
    allowed, others_ND = tokens.allowed, tokens.others_ND
    return PredictedTokens(
        tokens.states_ND[some],
        tokens.actions_N[some],
        None if allowed is None else allowed._replace(sets_N=allowed.sets_N[some]),
        None if others_ND is None else others_ND[some],
    )


def compute_logits(
    model: Any, states_ND: Tensor, allowed: TokenSets | None, temperature: float = 1.0
) -> Tensor:
    """Return a language model's logits for tokens with these last hidden states, N × V, float32.

    They are divided by the temperature that the tokens were drawn at; ids that were not allowed
    have -inf. Whatever the model does behind its layers is done: scaling and capping too. Raises
    Failed (bad_model) where its layers cannot be told from the rest.
    """
    plain = unwrap_lora(model)
    ids_1N = states_ND.new_zeros((1, len(states_ND)), dtype=torch.long)
    with _replace_decoder(plain.get_decoder(), states_ND[None]) as calls:
        logits_NV = plain(input_ids=ids_1N, use_cache=False).logits[0]
    if len(calls) != 1:
        detail = "its head cannot be computed without its layers: begin as another kind of model"
        raise Failed(Failure(type(plain).__name__, Outcome.BAD_MODEL, detail))
    return mask_logits(logits_NV.float() / temperature, allowed)


class _DecoderOutput:
    """States as any class of transformers' outputs has them, and nothing else that one may have."""

    def __init__(self, states_1ND: Tensor) -> None:
        self.last_hidden_state = states_1ND

    def __getattr__(self, name: str) -> None:
        return None

    def __getitem__(self, at: int | slice) -> Any:
        return (self.last_hidden_state,)[at]


@contextmanager
def _replace_decoder(decoder: Any, states_1ND: Tensor) -> Iterator[list[None]]:
    """Make the layers of a model give these states within a `with` block; yield a list of the
    calls."""
    calls: list[None] = []

    def give_states(*_: Any, **__: Any) -> _DecoderOutput:
        calls.append(None)
        return _DecoderOutput(states_1ND)

    original = vars(decoder).get("forward")
    decoder.forward = give_states
    try:
        yield calls
    finally:
        if original is None:
            del decoder.forward
        else:
            decoder.forward = original


def mask_logits(logits_NV: Tensor, allowed: TokenSets | None) -> Tensor:
    """Return the logits with -inf for ids that are not allowed."""
    if allowed is None:
        return logits_NV
    # Only the sets of these tokens, since each token may have one of its own.
    used_S, rows_N = torch.unique(allowed.sets_N, return_inverse=True)
    mask_SV = logits_NV.new_zeros((len(used_S), logits_NV.shape[-1]), dtype=torch.bool)
    mask_SV[used_S == 0] = True
    present = torch.isin(allowed.members_M, used_S)
    mask_SV[torch.searchsorted(used_S, allowed.members_M[present]), allowed.ids_M[present]] = True
    return logits_NV.masked_fill(~mask_SV[rows_N], -torch.inf)


def select_logprobs(logits_NV: Tensor, actions_N: Tensor) -> Tensor:
    """Return the log-probability of each token, N."""
    return logits_NV.log_softmax(-1).gather(-1, actions_N[:, None])[:, 0]


def count_vocabulary(model: Any) -> int:
    """Return how many ids a model has logits of."""
    return int(unwrap_lora(model).config.get_text_config().vocab_size)


def split_into_micro_batches(rows: Sequence[ActionRow], tokens: int) -> list[list[ActionRow]]:
    """Split rows into micro-batches of at most `tokens` tokens, of which a tenth is padding at
    most.

    A longer row is alone in its own. Rows of similar length are put together, the longest first.
    """
    pieces: list[list[ActionRow]] = []
    for row in sorted(rows, key=lambda row: row.size, reverse=True):
        joined = [*pieces[-1], row] if pieces else []
        if (
            joined
            and _count_padded_tokens(joined) <= tokens
            and compute_padding_share([joined]) <= 0.1
        ):
            pieces[-1] = joined
        else:
            pieces.append([row])
    return pieces


def _count_padded_tokens(rows: Sequence[ActionRow]) -> int:
    """Tokens of these rows as `collate_rows` lays them, padding included."""
    return len(rows) * max(row.size for row in rows)


def compute_padding_share(pieces: Sequence[Sequence[ActionRow]]) -> float:
    """Return the share of the computed positions that are padding; there must be a row."""
    said = sum(row.size for piece in pieces for row in piece)
    return 1 - said / sum(map(_count_padded_tokens, pieces))


def predict_actions(model: Any, rows: Sequence[ActionRow], pad: int) -> tuple[Tensor, Tensor]:
    """Return the log-probability of each action token, and whether it is the likeliest token.

    Both are flat, over all actions of a micro-batch, row by row, at temperature 1 and among the ids
    that a row allows. Rows are padded with id `pad`.
    """

    def predict_tokens(logits_NV: Tensor, actions_N: Tensor) -> dict[str, Tensor]:
        hits_N = logits_NV.argmax(-1) == actions_N
        return {"logprobs": select_logprobs(logits_NV, actions_N), "hits": hits_N}

    batch = collate_rows(rows, pad, next(model.parameters()).device)
    outputs = _compute_outputs(model, batch, 1.0, predict_tokens)
    return outputs["logprobs"], outputs["hits"]


def compute_action_logprobs(model: Any, batch: ActionBatch, temperature: float = 1.0) -> Tensor:
    """Return a language model's log-probability of each token of the actions, N, float32.

    It is that at the temperature, among the ids that the token was drawn from.
    """

    def predict_tokens(logits_NV: Tensor, actions_N: Tensor) -> dict[str, Tensor]:
        return {"logprobs": select_logprobs(logits_NV, actions_N)}

    return _compute_outputs(model, batch, temperature, predict_tokens)["logprobs"]


def _compute_outputs(
    model: Any,
    batch: ActionBatch,
    temperature: float,
    predict: Callable[[Tensor, Tensor], dict[str, Tensor]],
) -> dict[str, Tensor]:
    """Return what `predict` makes of the logits of all tokens of the actions, and of the tokens."""

    def compute_some(tokens: PredictedTokens) -> dict[str, Tensor]:
        logits_NV = compute_logits(model, tokens.states_ND, tokens.allowed, temperature)
        return predict(logits_NV, tokens.actions_N)

    tokens = PredictedTokens(compute_action_states(model, batch), batch.actions_N, batch.allowed)
    return compute_in_chunks(compute_some, tokens, count_vocabulary(model))


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


@dataclass(eq=False)
class BatchSplitter:
    """Splits the rows of all processes into minibatches and micro-batches; `order` has the
    locations of all rows.

    `most` is how many rows a model is given at once.
    """

    rows: Sequence[ActionRow]
    order: Sequence[RowLocation]
    process: int
    most: int
    pad: int
    device: torch.device | str = "cpu"

    def __post_init__(self) -> None:
        sizes = [len(row.action) for row in self.rows]
        starts = torch.tensor([0, *sizes]).cumsum(0).tolist()
        self._ranges = [
            torch.arange(start, start + size) for start, size in zip(starts, sizes, strict=False)
        ]

    def split_into_minibatches(self, count: int, seed: str) -> list[Minibatch]:
        """Deal the rows of all processes into `count` minibatches; return this process's part.

        Rows are shuffled by the seed, unless `count` is 1.
        """
        dealt = list(self.order)
        if count > 1:
            Random(seed).shuffle(dealt)
        return [self._make_minibatch(dealt[number::count]) for number in range(count)]

    def _make_minibatch(self, places: Sequence[RowLocation]) -> Minibatch:
        mine = [place.number for place in places if place.process == self.process]
        row_counts: dict[int, int] = {}
        for place in places:
            row_counts[place.process] = row_counts.get(place.process, 0) + 1
        count = -(-max(row_counts.values(), default=1) // self.most)
        mine.sort(key=self._get_row_size)
        cuts = [len(mine) * part // count for part in range(count + 1)]
        pieces = [self._make_micro_batch(mine[start:end]) for start, end in pairwise(cuts)]
        tokens = sum(place.tokens for place in places)
        return Minibatch(pieces, tokens, len(places) / len(self.order))

    def _get_row_size(self, number: int) -> tuple[int, int]:
        row = self.rows[number]
        return len(row.context), len(row.action)

    def _make_micro_batch(self, numbers: Sequence[int]) -> MicroBatch:
        if not numbers:
            return self._make_empty_micro_batch()
        batch = collate_rows([self.rows[number] for number in numbers], self.pad, self.device)
        tokens_N = torch.cat([self._ranges[number] for number in numbers])
        return MicroBatch(batch, numbers, tokens_N.to(self.device))

    def _make_empty_micro_batch(self) -> MicroBatch:
        """For a process that has no row left while others have: it must still meet them."""
        batch = collate_rows([ActionRow([self.pad], [self.pad])], self.pad, self.device)
        none_N = torch.empty(0, dtype=torch.long, device=self.device)
        return MicroBatch(batch._replace(places_N=none_N, actions_N=none_N), (), none_N)

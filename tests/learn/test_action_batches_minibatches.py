"""Rows side by side: each means what it means alone, whatever stands beside it."""

from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain import plain_logits
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

from rookery.learn.action_batches import (
    ActionRow,
    collate_rows,
    compute_padding_share,
    predict_actions,
    split_into_micro_batches,
)

ENDS: dict[str, Any] = {"vocab_size": 64, "bos_token_id": 0, "eos_token_id": 1}
SMALL: dict[str, Any] = ENDS | {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
}


@pytest.fixture(scope="module")
def llama() -> Iterator[PreTrainedModel]:
    torch.manual_seed(0)
    with torch.inference_mode():
        yield LlamaForCausalLM(LlamaConfig(**SMALL)).train(False)


def draw_rows(random: Random, count: int = 12) -> list[ActionRow]:
    def tokens(most: int) -> list[int]:
        return [random.randrange(64) for _ in range(random.randint(1, most))]

    return [ActionRow(tokens(40), tokens(9)) for _ in range(count)]


@torch.inference_mode()
def test_rows_side_by_side_have_the_losses_that_they_have_alone(llama: PreTrainedModel) -> None:
    rows = draw_rows(Random(2))
    alone = [predict_actions(llama, [row], 0) for row in rows]
    together_A, hits_A = predict_actions(llama, rows, 0)
    torch.testing.assert_close(
        together_A, torch.cat([each for each, _ in alone]), atol=1e-5, rtol=0
    )
    assert hits_A.tolist() == [hit for _, hits in alone for hit in hits.tolist()]
    # Rows of one length need no padding, whatever share of each is its action.
    batch = collate_rows([ActionRow([1] * 5, [2]), ActionRow([1], [2, 3, 4, 5, 6])], 0)
    assert batch.tokens_BT.tolist() == [[1, 1, 1, 1, 1, 2], [1, 2, 3, 4, 5, 6]]
    assert batch.places_N.tolist() == [4, 6, 7, 8, 9, 10]
    assert batch.actions_N.tolist() == [2, 2, 3, 4, 5, 6]


@torch.inference_mode()
def test_a_target_is_as_likely_as_among_the_ids_that_were_allowed(llama: PreTrainedModel) -> None:
    free = draw_rows(Random(3), 3)
    sets = [[np.asarray(ids, np.int32) for ids in ([3, 9], [9], [3, 5, 60])], None, None]
    action = [9, 9, 60]
    rows = [ActionRow(free[0].context, action, sets[0]), *free[1:]]
    logprobs_A, hits_A = predict_actions(llama, rows, 0)
    logits_AV = plain_logits(llama, collate_rows([rows[0]._replace(allowed=None)], 0))
    wanted = [
        float(logits_V[ids].log_softmax(-1)[list(ids).index(token)])
        for logits_V, ids, token in zip(logits_AV, sets[0] or (), action, strict=True)
    ]
    others = [predict_actions(llama, [row], 0)[0] for row in free[1:]]
    torch.testing.assert_close(
        logprobs_A, torch.cat([torch.tensor(wanted), *others]), atol=1e-5, rtol=0
    )
    assert wanted[1] == 0
    assert hits_A[1]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9)), min_size=1))
def test_every_row_is_in_one_piece_and_no_piece_is_too_large(sizes: list[tuple[int, int]]) -> None:
    rows = [ActionRow([n] * before, [n] * after) for n, (before, after) in enumerate(sizes)]
    pieces = split_into_micro_batches(rows, 60)
    assert sorted(row.context[0] for piece in pieces for row in piece) == list(range(len(rows)))
    for piece in pieces:
        sizes_of = [len(row.context) + len(row.action) for row in piece]
        size = len(piece) * max(sizes_of)
        assert size <= 60
        assert compute_padding_share([piece]) == pytest.approx(1 - sum(sizes_of) / size)
        assert size - sum(sizes_of) <= size / 10
    for piece, after in pairwise(pieces):  # greedily: the next row would not have fitted
        joined = len(piece) * piece[0].size + piece[0].size
        assert joined > 60 or 10 * (sum(row.size for row in piece) + after[0].size) < 9 * joined


def test_rows_are_cut_where_a_tenth_would_be_padding_by_hand() -> None:
    """20 and 18 are 38 of 40; with 16, 54 of 60 is a tenth of padding, and with 15 it is more.
    13 begins the next, which 9 would pad: 22 of 26."""
    rows = [ActionRow([1] * (size - 1), [2]) for size in (9, 16, 20, 13, 18)]
    pieces = split_into_micro_batches(rows, 1000)
    assert [[row.size for row in piece] for piece in pieces] == [[20, 18, 16], [13], [9]]
    assert compute_padding_share([rows]) == pytest.approx(1 - 76 / 100)
    assert compute_padding_share(pieces) == pytest.approx(1 - 76 / 82)
    rows[1] = ActionRow([1] * 14, [2])
    assert [len(piece) for piece in split_into_micro_batches(rows, 1000)] == [2, 2, 1]

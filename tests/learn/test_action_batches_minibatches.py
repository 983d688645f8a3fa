"""Rows packed: each means what it means alone, whatever stands beside it."""

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain import plain_logits
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
)

from rookery.learn.action_batches import (
    ActionRow,
    can_pack,
    collate_rows,
    compute_padding_share,
    pack_rows,
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
OLDER: dict[str, Any] = ENDS | {"n_layer": 2, "n_head": 4, "initializer_range": 0.3}


def model_named(name: str) -> PreTrainedModel:
    torch.manual_seed(0)
    makes: dict[str, Any] = {
        "sdpa": lambda: LlamaForCausalLM(LlamaConfig(**SMALL, attn_implementation="sdpa")),  # type: ignore[call-arg]
        "eager": lambda: LlamaForCausalLM(LlamaConfig(**SMALL, attn_implementation="eager")),  # type: ignore[call-arg]
        "windowed": lambda: MistralForCausalLM(MistralConfig(**SMALL, sliding_window=8)),
        "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**OLDER, n_embd=32)),
        "bloom": lambda: BloomForCausalLM(BloomConfig(**OLDER, hidden_size=32)),
    }
    model: PreTrainedModel = makes[name]().train(False)
    return model


@pytest.fixture(scope="module")
def llama() -> Iterator[PreTrainedModel]:
    with torch.inference_mode():
        yield model_named("sdpa")


def draw_rows(random: Random, count: int = 12) -> list[ActionRow]:
    def tokens(most: int) -> list[int]:
        return [random.randrange(64) for _ in range(random.randint(1, most))]

    return [ActionRow(tokens(40), tokens(9)) for _ in range(count)]


@torch.inference_mode()
def test_rows_side_by_side_have_the_losses_that_they_have_alone(llama: PreTrainedModel) -> None:
    rows = draw_rows(Random(2))
    alone = [predict_actions(llama, [row], 0, False) for row in rows]
    together_A, hits_A = predict_actions(llama, rows, 0, False)
    torch.testing.assert_close(
        together_A, torch.cat([each for each, _ in alone]), atol=1e-5, rtol=0
    )
    assert hits_A.tolist() == [hit for _, hits in alone for hit in hits.tolist()]
    # Rows of one length need no padding, whatever share of each is its action.
    batch = collate_rows([ActionRow([1] * 5, [2]), ActionRow([1], [2, 3, 4, 5, 6])], 0)
    assert batch.tokens_BT.tolist() == [[1, 1, 1, 1, 1, 2], [1, 2, 3, 4, 5, 6]]
    assert batch.places_N.tolist() == [4, 6, 7, 8, 9, 10]
    assert batch.actions_N.tolist() == [2, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("name", ["sdpa", "eager", "windowed", "gpt2"])
@torch.inference_mode()
def test_packed_rows_have_the_losses_that_they_have_alone(name: str) -> None:
    model = model_named(name)
    rows = draw_rows(Random(1))
    alone_A = torch.cat([predict_actions(model, [row], 0, False)[0] for row in rows])
    packed_A, hits_A = predict_actions(model, rows, 0, True)
    torch.testing.assert_close(packed_A, alone_A, atol=1e-5, rtol=0)
    assert can_pack(model)
    assert hits_A.tolist() == [
        hit for row in rows for hit in predict_actions(model, [row], 0, False)[1].tolist()
    ]


@pytest.mark.parametrize("packing", [False, True])
@torch.inference_mode()
def test_a_target_is_as_likely_as_among_the_ids_that_were_allowed(
    llama: PreTrainedModel, packing: bool
) -> None:
    free = draw_rows(Random(3), 3)
    sets = [[np.asarray(ids, np.int32) for ids in ([3, 9], [9], [3, 5, 60])], None, None]
    action = [9, 9, 60]
    rows = [ActionRow(free[0].context, action, sets[0]), *free[1:]]
    logprobs_A, hits_A = predict_actions(llama, rows, 0, packing)
    logits_AV = plain_logits(llama, pack_rows([rows[0]._replace(allowed=None)]))
    wanted = [
        float(logits_V[ids].log_softmax(-1)[list(ids).index(token)])
        for logits_V, ids, token in zip(logits_AV, sets[0] or (), action, strict=True)
    ]
    others = [predict_actions(llama, [row], 0, False)[0] for row in free[1:]]
    torch.testing.assert_close(
        logprobs_A, torch.cat([torch.tensor(wanted), *others]), atol=1e-5, rtol=0
    )
    assert wanted[1] == 0
    assert hits_A[1]


def test_a_model_that_mixes_rows_is_found_out() -> None:
    # It counts positions by its mask, and takes none.
    assert not can_pack(model_named("bloom"))


def test_a_row_is_deaf_to_the_row_before(llama: PreTrainedModel) -> None:
    row, size = ActionRow([7, 7, 3], [5, 4]), 6
    logits = [
        plain_logits(llama, pack_rows([ActionRow([token] * size, [token]), row]))[-2:]
        for token in (9, 30)
    ]
    assert torch.equal(*logits)
    # The planted fault: positions that run on let it listen.
    packed = [pack_rows([ActionRow([token] * size, [token]), row]) for token in (9, 30)]
    run_on = torch.arange(packed[0].tokens_BT.shape[1])[None]
    heard = [plain_logits(llama, each._replace(positions_BT=run_on))[-2:] for each in packed]
    assert (heard[0] - heard[1]).abs().max() > 0.01


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9)), min_size=1), st.booleans())
def test_every_row_is_in_one_piece_and_no_piece_is_too_large(
    sizes: list[tuple[int, int]], packing: bool
) -> None:
    rows = [ActionRow([n] * before, [n] * after) for n, (before, after) in enumerate(sizes)]
    pieces = split_into_micro_batches(rows, 60, packing)
    assert sorted(row.context[0] for piece in pieces for row in piece) == list(range(len(rows)))
    for piece in pieces:
        sizes_of = [len(row.context) + len(row.action) for row in piece]
        size = sum(sizes_of) if packing else len(piece) * max(sizes_of)
        assert size <= 60
        assert compute_padding_share([piece], packing) == pytest.approx(1 - sum(sizes_of) / size)

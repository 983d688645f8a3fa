"""Logits of some tokens at a time give what all at once give: values, gradients, and masks."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from plain import plain_logits
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig

from rookery.errors import Failed
from rookery.learn import action_batches
from rookery.learn.action_batches import (
    ActionBatch,
    ActionRow,
    collate_rows,
    compute_action_logprobs,
    compute_logits,
    make_model_inputs,
    predict_actions,
    select_logprobs,
)
from rookery.learn.policy_gradient import ActorCritic, build_value_head, compute_full_kl
from rookery.learn.pretrained_models import (
    LoraSettings,
    TrainedModelSettings,
    prepare_trainable_model,
    unwrap_lora,
)

IDS, WIDTH, AT_ONCE, WARMTH = 40, 32, 3, 0.7
SIZES: dict[str, Any] = {
    "vocab_size": IDS,
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}
MODELS: dict[str, PreTrainedConfig] = {
    "Llama": transformers.LlamaConfig(**SIZES),
    "tied": transformers.Qwen3Config(**SIZES, head_dim=8, tie_word_embeddings=True),
    "logits capped": transformers.Gemma2Config(**SIZES, head_dim=8),
    "logits scaled": transformers.GraniteConfig(**SIZES, logits_scaling=3.0),
    "projected": transformers.OPTConfig(**SIZES, ffn_dim=48, word_embed_proj_dim=16),
    "experts": transformers.MixtralConfig(**SIZES, num_local_experts=2),
}


def make_model(name: str, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(MODELS[name]).eval()  # type: ignore[no-untyped-call]


def rows() -> list[ActionRow]:
    """Of several lengths; some tokens were drawn from few ids, each from a set of its own."""
    found = []
    for row in range(7):
        said = [(row * 5 + at * 3) % IDS for at in range(1 + row % 4)]
        sets = [np.array(sorted({token, 1, 2 + row, 20}), np.int32) for token in said]
        shown = [1 + (7 * row + at) % 39 for at in range(1 + row)]
        found.append(ActionRow(shown, said, sets if row % 2 else None))
    return found


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_batches, "LOGITS_AT_ONCE", AT_ONCE * IDS)


def gradients(model: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    model.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    return {
        name: weight.grad.clone()
        for name, weight in model.named_parameters()
        if weight.grad is not None
    }


def agree(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        bound = 1e-5 * max(float(value.detach().abs().max()), 1.0)
        torch.testing.assert_close(actual[name], value, atol=bound, rtol=0)


def compute_plainly(actor: ActorCritic, batch: ActionBatch) -> dict[str, Tensor]:
    logits_NV = plain_logits(actor.policy, batch, WARMTH)
    with torch.no_grad():
        if actor.reference is None:
            with actor.policy.disable_adapter():
                others_NV = plain_logits(actor.policy, batch, WARMTH)
        else:
            others_NV = plain_logits(actor.reference, batch, WARMTH)
    states_BTD = unwrap_lora(actor.policy).get_decoder()(**make_model_inputs(batch))[0]
    return {
        "logprobs": select_logprobs(logits_NV, batch.actions_N),
        "kl": compute_full_kl(logits_NV, others_NV),
        "reference": select_logprobs(others_NV, batch.actions_N),
        "values": actor.critic(states_BTD.flatten(0, 1)[batch.places_N])[..., 0],
    }


@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients_are_those_of_all_logits_at_once(name: str) -> None:
    head = build_value_head(WIDTH if name != "projected" else 16, 8)
    nn.init.constant_(head[-1].get_parameter("weight"), 0.1)
    actor = ActorCritic(make_model(name), head, True, make_model(name, 1).requires_grad_(False))
    batch = collate_rows(rows(), 0)
    wanted = compute_plainly(actor, batch)
    found = actor(batch, WARMTH, set(wanted))
    agree(found, wanted)
    share = torch.linspace(-1, 1, len(batch.actions_N))
    ours, theirs = (
        gradients(actor, ((each["logprobs"] + each["kl"] + each["values"]) * share).sum())
        for each in (found, wanted)
    )
    agree(ours, theirs)


def test_lora_on_the_head_counts_and_the_reference_is_without_it() -> None:
    lora = LoraSettings(2, 4, ("q_proj", "lm_head"))
    policy: Any = prepare_trainable_model(make_model("Llama"), TrainedModelSettings("", lora=lora))
    for name, weight in policy.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weight)
    actor = ActorCritic(policy, build_value_head(WIDTH, 8), True)
    batch = collate_rows(rows(), 0)
    wanted = compute_plainly(actor, batch)
    found = actor(batch, WARMTH, set(wanted))
    agree(found, wanted)
    assert (found["logprobs"] - found["reference"]).abs().max() > 0.1
    ours, theirs = (
        gradients(actor, (each["logprobs"] * each["kl"]).sum()) for each in (found, wanted)
    )
    assert any("lm_head" in name for name in ours)
    agree(ours, theirs)


def test_imitation_reads_the_same() -> None:
    model = make_model("Llama")
    batch = collate_rows(rows(), 0)
    logits_NV = plain_logits(model, batch)
    logprobs_N, hits_N = predict_actions(model, rows(), 0)
    agree({"": logprobs_N}, {"": select_logprobs(logits_NV, batch.actions_N)})
    assert hits_N.tolist() == (logits_NV.argmax(-1) == batch.actions_N).tolist()


def test_there_are_never_more_logits_at_once_forwards_or_backwards() -> None:
    actor = ActorCritic(make_model("Llama"), reference=make_model("Llama", 1))
    counts: list[int] = []
    for model in (actor.policy, actor.reference):
        model.lm_head.register_forward_hook(lambda *seen: counts.append(seen[-1].shape[1]))
    batch = collate_rows(rows(), 0)
    tokens = len(batch.actions_N)
    actor(batch, WARMTH, {"logprobs", "kl"})["kl"].sum().backward()
    assert max(counts) == AT_ONCE
    assert sum(counts) == 4 * tokens  # of two models, forwards and once more for the way back
    counts.clear()
    with torch.no_grad():
        compute_action_logprobs(actor.policy, batch)
    assert max(counts) == AT_ONCE
    assert sum(counts) == tokens


def test_a_model_whose_layers_cannot_be_told_apart_is_refused() -> None:
    model = make_model("Llama")
    model.get_decoder = lambda: make_model("Llama")
    with pytest.raises(Failed, match="begin as another kind of model"):
        compute_logits(model, torch.zeros(2, WIDTH), None)

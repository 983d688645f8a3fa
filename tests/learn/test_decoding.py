"""Reading a prompt once for all rows, beside a plain pass over each row."""

from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedConfig

from rookery.learn.decoding import (
    PREFILL_CHUNK_TOKENS,
    PrefixBranches,
    PromptPrefix,
    enable_prefix_sharing,
    get_reusable_prefix,
    prefill_prompt,
)

WIDTHS: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "initializer_range": 0.2,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
GPT2: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 4}
EXPERTS: dict[str, Any] = {"num_experts": 2, "num_experts_per_tok": 1, "head_dim": 8}
LINEAR: dict[str, Any] = {f"linear_{of}": 2 for of in ("num_value_heads", "num_key_heads")}
MODELS: dict[str, tuple[PreTrainedConfig, bool]] = {
    "grouped heads": (transformers.LlamaConfig(**WIDTHS), True),
    "one head each": (transformers.LlamaConfig(**{**WIDTHS, "num_key_value_heads": 4}), True),
    "normed heads": (transformers.Qwen3Config(**WIDTHS, head_dim=8), True),
    "learnt positions": (transformers.GPT2Config(**{**WIDTHS, **GPT2}), True),
    "sliding windows": (transformers.MistralConfig(**WIDTHS, sliding_window=16), False),
    "some windows": (transformers.Gemma3TextConfig(**WIDTHS, head_dim=8, sliding_window=16), False),
    "state spaces": (transformers.MambaConfig(**WIDTHS, state_size=4), False),
    "recurrent layers": (transformers.Qwen3NextConfig(**WIDTHS, **EXPERTS, **LINEAR), False),
}


def make_model(config: PreTrainedConfig) -> Any:
    return AutoModelForCausalLM.from_config(config).eval()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", MODELS)
def test_rows_after_a_shared_prompt_have_the_logits_of_a_plain_pass(name: str) -> None:
    config, sharing = MODELS[name]
    torch.manual_seed(0)
    model = make_model(config)
    prompt, tails = torch.randint(3, 300, (600,)), torch.randint(3, 300, (3, 5))
    with torch.inference_mode():
        whole = model(torch.cat([prompt.expand(3, -1), tails], 1)).logits[:, -6:]
    enable_prefix_sharing(model)
    other = get_reusable_prefix(model, prefill_prompt(model, [*prompt[:300].tolist(), 5, 6, 7]))
    assert (other is not None) == sharing
    prefix = prefill_prompt(model, prompt.tolist(), other)
    torch.testing.assert_close(prefix.logits.expand(3, -1), whole[:, 0], atol=1e-4, rtol=0)
    branches, rows = PrefixBranches(model, prefix, 3), [0, 1, 2]
    for number in range(5):
        if number == 3:
            rows = [2, 0]
            branches.select_rows(rows)
        logits = branches.step(tails[rows, number].tolist())
        torch.testing.assert_close(logits, whole[rows, number + 1], atol=1e-4, rtol=0)


def test_only_whole_pieces_that_are_the_same_are_used_again() -> None:
    torch.manual_seed(0)
    model = make_model(MODELS["grouped heads"][0])
    enable_prefix_sharing(model)
    prompt = torch.randint(3, 300, (3 * PREFILL_CHUNK_TOKENS,)).tolist()
    read_at_once: list[int] = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: read_at_once.append(kwargs["input_ids"].shape[1]),
        with_kwargs=True,
    )

    def again(prefix: PromptPrefix | None, tokens: list[int]) -> tuple[list[int], PromptPrefix]:
        read_at_once.clear()
        return read_at_once, prefill_prompt(model, tokens, prefix)

    taken, first = again(None, prompt)
    assert taken == [PREFILL_CHUNK_TOKENS] * 3
    expected = first.logits.clone()
    taken, second = again(first, prompt)
    assert taken == [PREFILL_CHUNK_TOKENS]
    assert torch.equal(second.logits, expected)
    taken, third = again(second, [*prompt[: 2 * PREFILL_CHUNK_TOKENS - 1], 1, 1, 1])
    assert taken == [PREFILL_CHUNK_TOKENS, 2]
    taken, fourth = again(third, [1, *prompt])
    assert taken == [PREFILL_CHUNK_TOKENS, PREFILL_CHUNK_TOKENS, PREFILL_CHUNK_TOKENS, 1]
    taken, fifth = again(fourth, prompt)
    assert torch.equal(fifth.logits, expected)

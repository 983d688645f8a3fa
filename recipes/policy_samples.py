"""Completions of prompts that are sampled from saved policies."""

from collections.abc import Sequence
from pathlib import Path

import torch

from recipes.text_environment import PolicyCompletion, decode_completion
from rookery.learn.action_batches import collate_rows, compute_action_logprobs
from rookery.learn.decoding import (
    SampledAction,
    SamplingSettings,
    load_sampled_model,
    sample_actions,
)
from rookery.learn.pretrained_models import load_model, load_policy_tokenizer


def sample_completions(
    folder: Path,
    prompts: Sequence[str],
    sampling: SamplingSettings,
    reference: str = "",
    seed: int = 0,
) -> list[PolicyCompletion]:
    """Sample a completion of each prompt from a saved policy, without a chat template.

    With the folder of a `reference`, each has an estimate of its KL from it, else 0. Raises Failed:
    no_model, bad_model, prompt_too_long, not_a_number.
    """
    loaded = load_sampled_model(folder, sampling)
    speech = load_policy_tokenizer(folder, sampling.max_tokens, chat=False)
    contexts = [speech.encode_prompt(prompt) for prompt in prompts]
    seeds = [f"{seed} {number}" for number in range(len(prompts))]
    actions = sample_actions(loaded.model, contexts, seeds, loaded.ends, sampling)
    apart = (
        _estimate_kl(load_model(Path(reference), dtype=sampling.dtype).model, actions, sampling)
        if reference
        else [0.0] * len(actions)
    )
    return [
        PolicyCompletion(decode_completion(one.row.action, speech), kl)
        for one, kl in zip(actions, apart, strict=True)
    ]


@torch.inference_mode()
def _estimate_kl(
    reference: torch.nn.Module, actions: Sequence[SampledAction], sampling: SamplingSettings
) -> list[float]:
    differences, device = [], next(reference.parameters()).device
    for start in range(0, len(actions), sampling.rows):
        piece = actions[start : start + sampling.rows]
        batch = collate_rows([one.row for one in piece], 0, device)
        theirs_N = compute_action_logprobs(reference, batch, sampling.temperature)
        parts = torch.split(theirs_N, [len(one.row.action) for one in piece])
        differences += [
            sum(one.logprobs) - float(other_N.sum())
            for one, other_N in zip(piece, parts, strict=True)
        ]
    return differences

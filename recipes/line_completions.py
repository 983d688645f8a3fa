"""Completions of one line each for many prompts at once, and a policy that gives them again."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rookery.learn.decoding import SamplingSettings, load_sampled_model, sample_actions
from rookery.learn.pretrained_models import tokenize_prompt
from rookery.models.remote_model import AllowedTokens
from rookery.records import Completion


def complete_lines(
    folder: Path, prompts: Sequence[str], sampling: SamplingSettings, seed: int = 0
) -> list[Completion]:
    """Complete each prompt up to the end of the line, without a chat template.

    Raises Failed: no_model, bad_model, not_a_number.
    """
    loaded = load_sampled_model(folder, sampling)
    contexts = [tokenize_prompt(loaded.tokenizer, prompt, chat=False) for prompt in prompts]
    lines = {n for n, token in enumerate(loaded.vocabulary.tokens) if token and b"\n" in token}
    seeds = [f"{seed} {number}" for number in range(len(prompts))]
    actions = sample_actions(loaded.model, contexts, seeds, loaded.ends | lines, sampling)
    texts = [
        str(loaded.tokenizer.decode(list(each.row.action), skip_special_tokens=True))
        for each in actions
    ]
    return [
        Completion(text.partition("\n")[0], stop="end" if each.ended else "length")
        for text, each in zip(texts, actions, strict=True)
    ]


class StoredPolicy:
    """A policy that gives the completion that each prompt got before."""

    name = "stored"

    def __init__(self, completions: Mapping[str, Completion]) -> None:
        self._completions = completions

    def complete(self, prompt: str, n: int = 1, allow: AllowedTokens = None) -> list[Completion]:
        """Return the completion of a prompt, n times; `allow` is ignored."""
        return [self._completions[prompt]] * n

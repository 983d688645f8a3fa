"""Tiny models that say what they were taught to say after a prompt, and otherwise anything.

They are trained here, in a second or two, and know nothing but the ends of those prompts.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy
from transformers import MistralConfig, MistralForCausalLM, PreTrainedTokenizerFast

from rookery.learn.random_models import write_tiny_model

WINDOW = 32
LAYERS = 2
NEAR = LAYERS * (WINDOW - 1) + 1
"""tokens that have a say in the next one: each layer looks back over a window, and by distance
alone, so that what follows the end of a prompt does not depend on its length"""
MOST_STEPS = 1000
LEFT_OUT = -100
"""in place of a token that is not to be learnt"""


def write_models(
    folder: Path, texts: Sequence[str], lessons: Mapping[str, Mapping[str, str]]
) -> None:
    """Models in folders of a folder, by name: `noise`, whose nonsense never ends, and one for each
    of the lessons, that says to a prompt what it maps to. The tokenizer learns from the texts."""
    noise = folder / "noise"
    write_tiny_model(noise, texts)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(noise)
    _change_generation(noise, suppress_tokens=[tokenizer.eos_token_id])
    for name, each in lessons.items():
        shutil.copytree(noise, folder / name, dirs_exist_ok=True)
        model = _untaught(tokenizer)
        _teach(model, *_batch([_lesson(tokenizer, *pair) for pair in each.items()]))
        model.config.save_pretrained(folder / name)
        save_file(model.state_dict(), folder / name / "model.safetensors", {"format": "pt"})
        _change_generation(folder / name, suppress_tokens=None, do_sample=False)


def _change_generation(folder: Path, **settings: object) -> None:
    """Sets how the model of a folder draws its tokens where a request does not say."""
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def _untaught(tokenizer: PreTrainedTokenizerFast) -> MistralForCausalLM:
    config = MistralConfig(
        architectures=["MistralForCausalLM"],
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=WINDOW,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MistralForCausalLM(config)


def _lesson(
    tokenizer: PreTrainedTokenizerFast, prompt: str, completion: str
) -> tuple[list[int], list[int]]:
    """The end of the prompt as the server renders it, and what is said then, as tokens."""
    chat = [{"role": "user", "content": prompt}]
    shown = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert isinstance(shown, str)
    return _tokens(tokenizer, shown)[-NEAR:], _tokens(tokenizer, completion + tokenizer.eos_token)


def _tokens(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False).input_ids)


def _batch(lessons: Sequence[tuple[list[int], list[int]]]) -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens of all lessons, one a row, and what is to be learnt of them."""
    longest = max(len(shown) + len(said) for shown, said in lessons)
    shape = (len(lessons), longest)
    tokens, wanted = torch.zeros(shape, dtype=torch.long), torch.full(shape, LEFT_OUT)
    for row, (shown, said) in enumerate(lessons):
        start, end = len(shown), len(shown) + len(said)
        tokens[row, :end] = torch.tensor(shown + said)
        wanted[row, start:end] = torch.tensor(said)
    return tokens, wanted


def _teach(model: MistralForCausalLM, tokens: torch.Tensor, labels: torch.Tensor) -> None:
    """Until each token that is to be learnt is the likeliest in its place."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    labels = labels[:, 1:]
    counts = labels != LEFT_OUT
    for _ in range(MOST_STEPS):
        logits = model(tokens).logits[:, :-1]
        loss = cross_entropy(logits[counts], labels[counts])
        if loss < 0.02 and torch.equal(logits[counts].argmax(-1), labels[counts]):
            return
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    raise AssertionError(f"it does not learn its lessons: {loss:.3f}")

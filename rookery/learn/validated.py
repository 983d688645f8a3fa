"""What a model predicts of examples that it has not learnt from, and what it answers to some.

It knows nothing of how it was trained.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from torch import Tensor

from rookery.browse.commands import parse
from rookery.learn.examples import Example
from rookery.learn.loading import Loaded
from rookery.learn.packed import cut, predicted
from rookery.learn.sample import Sampling, sample


class Speech(NamedTuple):
    """What must be known of a model to speak with it."""

    tokenizer: Any
    ends: frozenset[int]
    pad: int
    context: int
    packing: bool


def speech_of(loaded: Loaded, packing: bool) -> Speech:
    """A tokenizer without a pad token pads with an end token: what is padded is not looked at."""
    pad = loaded.tokenizer.pad_token_id
    pad = min(loaded.ends) if pad is None else int(pad)
    return Speech(loaded.tokenizer, loaded.ends, pad, loaded.context, packing)


def summed(accelerator: Accelerator, each_N: Tensor) -> list[float]:
    """The sums over all processes."""
    found: Any = accelerator.reduce(each_N, "sum")
    return [float(each) for each in found]


@torch.inference_mode()
def validated(
    model: Any,
    validation: Sequence[Example],
    speech: Speech,
    size: int,
    accelerator: Accelerator,
) -> dict[str, float]:
    """The loss a token, its perplexity, and the share of tokens that are the likeliest.

    `size` is how many tokens are computed at once. The work is shared between processes, and each
    gives the same.
    """
    sums_2 = torch.zeros(2, dtype=torch.float64)
    rows = [example.row for example in validation]
    pieces = cut(rows, size, speech.packing)
    for piece in pieces[accelerator.process_index :: accelerator.num_processes]:
        logprobs_A, hits_A = predicted(model, piece, speech.pad, speech.packing)
        sums_2 += torch.stack([-logprobs_A.double().sum(), hits_A.double().sum()]).cpu()
    count = sum(len(row.action) for row in rows)
    nats, hits = summed(accelerator, sums_2.to(accelerator.device))
    loss = nats / count
    perplexity = math.exp(min(loss, 700.0))
    return {"validation_loss": loss, "perplexity": perplexity, "accuracy": hits / count}


def answers(
    model: Any, asked: Sequence[Example], speech: Speech, tokens: int
) -> list[dict[str, Any]]:
    """The likeliest answer to each prompt, beside what was said to it."""
    contexts = [example.row.context for example in asked]
    room = speech.context - max(map(len, contexts), default=0)
    sampling = Sampling(tokens=min(tokens, room), temperature=0)
    found = sample(model, contexts, range(len(asked)), speech.ends, sampling)
    return [
        {
            "question": example.question,
            "wanted": example.said,
            "said": speech.tokenizer.decode(each.row.action, skip_special_tokens=True),
            "same": list(each.row.action) == list(example.row.action),
        }
        for example, each in zip(asked, found, strict=True)
    ]


def agreement(said: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The share of answers that are those wanted; and that are commands, where one is wanted."""
    if not said:
        return {}
    measured = {"same": sum(each["same"] for each in said) / len(said)}
    commands = [each["said"] for each in said if parse(each["wanted"])]
    if commands:
        measured["valid"] = sum(parse(each) is not None for each in commands) / len(commands)
    return measured

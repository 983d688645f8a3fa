"""Texts for tiny models, and what their completions should be by a plain forward pass."""

from collections.abc import Callable, Iterable, Sequence

import torch
from transformers import PreTrainedModel

from rookery.records import Page

CROWS = (
    "Crows are clever birds. A crow can remember the face of a person who once did it harm, and "
    "it tells other crows. Naïve ones learn by watching; “krähe” is their name in German."
)
MAGPIES = (
    "Magpies know themselves in a mirror, as few animals do. They hide food (1,000 seeds a year) "
    "and find it again – 90 % of it. Their nests have a roof of thorns."
)
PAGES = (
    Page("https://birds.example/crow", "Crow", CROWS),
    Page("https://birds.example/magpie", "Magpie (bird)", MAGPIES),
)
TEXTS = [CROWS, MAGPIES, "%<Crows are clever.>%(Crow)%[Crows are clever birds.]%", "日本 👩‍👧 é"]
LONG = " ".join([CROWS, MAGPIES] * 8)
"""some 600 tokens"""


def logprobs(
    model: PreTrainedModel,
    prompt: Sequence[int],
    completion: Sequence[int],
    temperature: float = 1.0,
    allow: Callable[[Sequence[int]], Iterable[int]] | None = None,
) -> list[float]:
    """Of each token, from one plain pass over prompt and tokens."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0] / temperature
    sums = []
    for number, token in enumerate(completion):
        row = logits[len(prompt) + number - 1]
        ids = (
            list(range(len(row))) if allow is None else [int(n) for n in allow(completion[:number])]
        )
        sums.append(float(row[ids].log_softmax(-1)[ids.index(token)]))
    return sums

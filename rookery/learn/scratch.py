"""A language model from nothing: its tokenizer learnt from texts, its weights random, its size as
one likes.

It knows nothing of how it is trained.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from rookery.learn.models import write_model
from rookery.learn.tiny import write_tiny


def write_blank(
    folder: Path,
    texts: Sequence[str],
    vocabulary: int,
    context: int,
    width: int,
    layers: int,
    seed: int = 0,
) -> None:
    """Writes a Llama of so many layers and this width (a multiple of 8) into a folder, as
    `from_pretrained` reads it, beside the tokenizer of `write_tiny`.

    Its weights depend on the seed alone, and it reads words with the weights that it says them
    with. Raises ValueError for a vocabulary below 259 or another width.
    """
    if width < 8 or width % 8:
        raise ValueError(f"four heads need a width that is a multiple of 8, not {width}")
    write_tiny(folder, texts, vocabulary, context, seed)
    config = LlamaConfig.from_pretrained(folder)
    config.update(
        {
            "hidden_size": width,
            "head_dim": width // 4,
            "intermediate_size": 3 * width,
            "num_hidden_layers": layers,
            "initializer_range": 0.02,
            "tie_word_embeddings": True,
        }
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    write_model(model, AutoTokenizer.from_pretrained(folder, local_files_only=True), folder)

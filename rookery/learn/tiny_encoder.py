"""A tiny random sentence encoder with a vocabulary of its own: the fake that stands for a real one.

It is loaded and trained like any other. It knows nothing of what it is used for.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel

from rookery.cite.overlap import words
from rookery.learn.models import _silently

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def write_tiny_encoder(
    folder: Path, texts: Sequence[str], width: int = 32, places: int = 128, seed: int = 0
) -> None:
    """Writes a BERT of 2 layers with random weights that depend on the seed alone, as
    `learn.encoder` and `cite.dense` read it. It knows all words of the texts and no parts of words.
    """
    found = sorted({word for text in texts for word in (*words(text), *_marks(text))})
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *found))}
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=places,
        initializer_range=0.2,  # so that texts are not all alike
    )
    with torch.random.fork_rng(devices=[]), _silently():
        torch.manual_seed(seed)
        BertModel(config).save_pretrained(folder)
    _tokenizer(vocabulary).save(str(folder / "tokenizer.json"))


def _marks(text: str) -> list[str]:
    return [sign for sign in text if not sign.isalnum() and not sign.isspace()]


def _tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, vocabulary[name]) for name in ("[SEP]", "[CLS]")]
    made.post_processor = processors.BertProcessing(*ends)
    return made

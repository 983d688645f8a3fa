"""Random encoders and language models for recipes and tests that learn from nothing."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

from rookery.learn.pretrained_models import save_pretrained_model, silence_transformers
from rookery.learn.random_models import write_tiny_model
from rookery.quotes.word_overlap import split_words

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def write_tiny_encoder(
    folder: Path, texts: Sequence[str], width: int = 32, places: int = 128, seed: int = 0
) -> None:
    """Write a BERT of 2 layers with random weights that depend on the seed alone, as
    `learn.retrieval_training` reads it. It knows all words of the texts and no parts of words.
    """
    words = sorted(
        {word for text in texts for word in (*split_words(text), *_list_punctuation(text))}
    )
    vocabulary = {word: number for number, word in enumerate((*SPECIAL_TOKENS, *words))}
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=places,
        initializer_range=0.2,  # so that texts are not all alike
    )
    with torch.random.fork_rng(devices=[]), silence_transformers():
        torch.manual_seed(seed)
        BertModel(config).save_pretrained(folder)
    _make_wordpiece_tokenizer(vocabulary).save(str(folder / "tokenizer.json"))


def _list_punctuation(text: str) -> list[str]:
    return [sign for sign in text if not sign.isalnum() and not sign.isspace()]


def _make_wordpiece_tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, vocabulary[name]) for name in ("[SEP]", "[CLS]")]
    made.post_processor = processors.BertProcessing(*ends)
    return made


def write_random_model(
    folder: Path,
    texts: Sequence[str],
    vocabulary: int,
    context: int,
    width: int,
    layers: int,
    seed: int = 0,
) -> None:
    """Write a Llama of so many layers and this width (a multiple of 8) into a folder, as
    `from_pretrained` reads it, beside the tokenizer of `write_tiny_model`.

    Its weights depend on the seed alone, and it reads words with the weights that it says them
    with. Raises ValueError for a vocabulary below 259 or another width.
    """
    if width < 8 or width % 8:
        raise ValueError(f"four heads need a width that is a multiple of 8, not {width}")
    write_tiny_model(folder, texts, vocabulary, context, seed)
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
    save_pretrained_model(
        model, AutoTokenizer.from_pretrained(folder, local_files_only=True), folder
    )

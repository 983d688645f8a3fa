"""A world in which a word of the question tells which word the right reference has, and a tiny BERT
that does not know it yet."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel

from rookery.learn.retrieval_data import RetrievalTriple

KINDS = 6
FILLERS = [f"filler{number}" for number in range(10)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = [
    *SPECIAL,
    *FILLERS,
    *(f"{part}{kind}" for part in ("asks", "says", "left", "right") for kind in range(KINDS)),
]


def triple(number: int) -> RetrievalTriple:
    """The answer to asks2 is "left2 right2": the reference that says2 holds both, another one."""
    chance = Random(number)
    kind, *others = chance.sample(range(KINDS), 4)
    texts = [["says", "left", "right"], ["left"], [], []]
    references = []
    for mine, parts in zip((kind, kind, *others), [*texts, []], strict=False):
        words = [f"{part}{mine}" for part in parts or ("says", "left", "right")]
        words += chance.sample(FILLERS, 3)
        chance.shuffle(words)
        references.append(" ".join(words))
    question = [f"asks{kind}", *chance.sample(FILLERS, 3), str(number)]
    return RetrievalTriple(" ".join(question), tuple(references), f"left{kind} right{kind}", (0,))


def write_triples(place: Path, triples: Sequence[RetrievalTriple]) -> Path:
    place.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in triples))
    return place


def write_bert(folder: Path, width: int = 32, places: int = 40, **more: object) -> Path:
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=2 * width,
        max_position_embeddings=places,
        initializer_range=0.2,
        **more,  # type: ignore[arg-type]
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(config)
    model.save_pretrained(folder)
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder

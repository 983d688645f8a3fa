"""A small sentence encoder that can be trained: the model of `cite.dense`, in torch.

What it writes, `cite.dense` reads. It knows nothing of what its vectors are to be like.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, BertConfig, PreTrainedModel

from rookery.cite import dense
from rookery.learn.loading import _require
from rookery.learn.models import _silently, _worded
from rookery.records import Failed, Failure

MINILM = "minilm"
"""stands for the folder of the weights that the `dense` extra installs"""
TOGETHER = 4096
"""tokens, with those that pad, that go through the model at once"""
_TOKENIZER = "tokenizer.json"
_ABOUT_WORDS = (_TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
_HERE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


class Encoder(nn.Module):
    """Texts as unit vectors: the mean of what BERT makes of their tokens.

    There is no dropout, so that a text has the same vector in training as in use.
    """

    def __init__(self, bert: PreTrainedModel, folder: Path) -> None:
        super().__init__()
        self.bert = bert
        self._folder = folder
        self._tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_padding()
        config: Any = bert.config
        self._tokenizer.enable_truncation(min(dense._MOST_TOKENS, config.max_position_embeddings))
        if self._tokenizer.get_vocab_size() > config.vocab_size:
            raise ValueError("its tokenizer has words that its model does not know")

    def forward(self, texts: Sequence[str]) -> Tensor:
        """A vector for each text, one below the other. Of each text, the first 256 tokens count."""
        # Not encode_batch: its threads make a later fork of this process warn.
        rows = [self._tokenizer.encode(dense._plain(text)).ids for text in texts]
        order = sorted(range(len(rows)), key=lambda number: (len(rows[number]), number))
        parts = [self._vectors([rows[n] for n in some]) for some in _portions(order, rows)]
        places_N = torch.tensor(order, device=parts[0].device).argsort()
        return torch.cat(parts)[places_N]

    def _vectors(self, rows: Sequence[Sequence[int]]) -> Tensor:
        device, longest = self.bert.device, max(map(len, rows))
        sizes_N = torch.tensor([len(row) for row in rows], device=device)
        there_NT = torch.arange(longest, device=device) < sizes_N[:, None]
        ids_NT = torch.zeros_like(there_NT, dtype=torch.long)
        ids_NT[there_NT] = torch.tensor([token for row in rows for token in row], device=device)
        states_NTW = self.bert(input_ids=ids_NT, attention_mask=there_NT.long()).last_hidden_state
        sums_NW = states_NTW.masked_fill(~there_NT[..., None], 0.0).sum(1)
        return nn.functional.normalize(sums_NW, dim=-1)

    def write(self, folder: Path) -> None:
        """Writes a folder that `cite.dense` reads: all of it, or what was there before stays."""
        new = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        with _silently():
            self.bert.save_pretrained(new)
        for name in _ABOUT_WORDS:
            if (self._folder / name).exists():
                shutil.copy(self._folder / name, new)
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)


def _portions(order: Sequence[int], rows: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Rows in this order, from the shortest on, as many at once as there may be."""
    some: list[int] = []
    for number in order:
        if some and (len(some) + 1) * len(rows[number]) > TOGETHER:
            yield some
            some = []
        some.append(number)
    yield some


def read_encoder(model: str) -> Encoder:
    """The encoder in a folder; "minilm" is that of the `dense` extra.

    Raises Failed: no_model, and bad_model where the folder holds no BERT as `cite.dense` reads it.
    """
    folder = _folder(model)
    with _worded(folder), _silently():
        _check(AutoConfig.from_pretrained(folder, **_HERE))
        found: Any = AutoModel.from_pretrained(
            folder,
            dtype=torch.float32,
            use_safetensors=True,
            add_pooling_layer=False,
            output_loading_info=True,
            **_HERE,
        )
        bert, told = found
        if lost := sorted(told["missing_keys"]):
            raise ValueError(f"{len(lost)} of its weights are missing, {lost[0]} among them")
        return Encoder(bert.eval(), folder)


def _folder(model: str) -> Path:
    if model != MINILM:
        _require(Path(model))
        return Path(model)
    folder = dense._folder()
    if folder is None:
        raise Failed(Failure(MINILM, "no_model", dense.missing()))
    return folder


def _check(config: Any) -> None:
    if not isinstance(config, BertConfig):
        raise ValueError(f"it is a {config.model_type} and no BERT, which alone ranks texts here")
    if config.hidden_act != "gelu" or getattr(config, "position_embedding_type", "") not in (
        "",
        "absolute",
    ):
        raise ValueError("it is a BERT with other parts than all-MiniLM-L6-v2 has")

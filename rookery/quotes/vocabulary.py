"""Bytes that each token of a model's vocabulary stands for, read from tokenizer.json.

Reads byte-level BPE (GPT-2, Llama 3, Qwen) and SentencePiece (Llama 2, Mistral, Gemma).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rookery.records import prepare_type


class Vocabulary(msgspec.Struct, frozen=True):
    """Vocabulary of a model: `tokens[id]` is the token's bytes, None where it is not part of any
    text."""

    tokens: tuple[bytes | None, ...]
    end: int
    """id of the token that ends an answer"""
    width: int
    """number of the model's logits; ids from len(tokens) on are padding and never allowed"""

    def __post_init__(self) -> None:
        if not 0 <= self.end < len(self.tokens) <= self.width:
            raise ValueError(
                f"a vocabulary of {len(self.tokens)} tokens cannot end with token {self.end} or "
                f"have {self.width} logits: name a token of it, and at least as many logits"
            )
        if self.tokens[self.end] is not None:
            raise ValueError(f"token {self.end} is text ({self.tokens[self.end]!r}), not an end")

    def decode(self, ids: Iterable[int]) -> bytes:
        """Return the text of these tokens as UTF-8 bytes; those that are no text are empty."""
        return b"".join(self.tokens[number] or b"" for number in ids)


def read_vocabulary(tokenizer: Path | str, end: str | int, width: int | None = None) -> Vocabulary:
    """Read the vocabulary of a tokenizer.json, given as its path or its content.

    `end` is the token that ends an answer (`<|endoftext|>`, `</s>`), or its id. `width` is the
    number of logits, where the model has more logits than tokens. Special and added tokens count as
    no text: only ordinary tokens may spell what they look like. Raises ValueError if this is not a
    tokenizer that spells text byte by byte.
    """
    file = _read_tokenizer(tokenizer)
    numbers = _number_tokens(file.model.vocab)
    added = {token.content: token.id for token in file.added_tokens}
    known = numbers | added
    last = known.get(end) if isinstance(end, str) else end
    if last is None:
        raise ValueError(f"the tokenizer has no token {end!r}: name the one that ends an answer")
    spell = _choose_decoder(file)
    tokens: list[bytes | None] = [None] * (max(known.values(), default=-1) + 1)
    for token, number in numbers.items():
        tokens[number] = spell(token)
    for number in (*added.values(), *_find_unknown_ids(file.model, numbers)):
        tokens[number] = None
    return Vocabulary(tuple(tokens), last, len(tokens) if width is None else width)


class _AddedToken(msgspec.Struct, frozen=True):
    id: int
    content: str


class _TokenizerModel(msgspec.Struct, frozen=True):
    vocab: dict[str, int] | list[tuple[str, float]]
    byte_fallback: bool = False
    unk_token: str | None = None
    unk_id: int | None = None


class _TokenizerFile(msgspec.Struct, frozen=True):
    model: _TokenizerModel
    added_tokens: list[_AddedToken] = []
    decoder: dict[str, Any] | None = None


def _read_tokenizer(tokenizer: Path | str) -> _TokenizerFile:
    try:
        content = tokenizer.read_bytes() if isinstance(tokenizer, Path) else tokenizer
        return msgspec.json.decode(content, type=prepare_type(_TokenizerFile))
    except (msgspec.DecodeError, OSError) as error:
        raise ValueError(f"this is not a tokenizer.json: {error}") from error


def _number_tokens(vocab: dict[str, int] | list[tuple[str, float]]) -> dict[str, int]:
    if isinstance(vocab, dict):
        return vocab
    return {token: number for number, (token, _) in enumerate(vocab)}


def _find_unknown_ids(model: _TokenizerModel, numbers: dict[str, int]) -> Iterator[int]:
    """Yield the id of the token that stands for unknown text, if there is one."""
    if model.unk_token in numbers:
        yield numbers[model.unk_token]
    if model.unk_id is not None:
        yield model.unk_id


class _ByteLevelDecoder(msgspec.Struct, frozen=True):
    """Decoder of byte-level BPE: each byte is one letter, itself if visible, else one from U+0100
    on."""

    letters: dict[int, int]

    def __call__(self, token: str) -> bytes | None:
        try:
            return token.translate(self.letters).encode("latin-1")
        except UnicodeEncodeError:
            return None


class _SentencePieceDecoder(msgspec.Struct, frozen=True):
    """Decoder of SentencePiece: a blank is another letter, and a byte in no token is `<0x0A>`."""

    blank: str
    byte_fallback: bool

    def __call__(self, token: str) -> bytes | None:
        if self.byte_fallback and re.fullmatch("<0x[0-9A-Fa-f]{2}>", token):
            return bytes.fromhex(token[3:5])
        return token.replace(self.blank, " ").encode()


def _choose_decoder(file: _TokenizerFile) -> _ByteLevelDecoder | _SentencePieceDecoder:
    """Return the decoder of this tokenizer's tokens, chosen by its `decoder` entry.

    Raises ValueError for a tokenizer that does not spell text byte by byte.
    """
    for step in _flatten_decoders(file.decoder):
        if step["type"] == "ByteLevel":
            seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
            unseen = [byte for byte in range(256) if byte not in seen]
            return _ByteLevelDecoder({256 + n: byte for n, byte in enumerate(unseen)})
        if step["type"] == "Metaspace":
            return _SentencePieceDecoder(step.get("replacement", "▁"), file.model.byte_fallback)
        blank = step.get("pattern", {}).get("String")
        if step["type"] == "Replace" and step["content"] == " " and blank:
            return _SentencePieceDecoder(blank, file.model.byte_fallback)
    raise ValueError(
        "this tokenizer does not spell text byte by byte: use byte-level BPE (as GPT-2 and Llama 3 "
        "do) or SentencePiece with byte fallback (as Llama 2, Mistral and Gemma do)"
    )


def _flatten_decoders(decoder: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if decoder is not None:
        yield decoder
        for step in decoder.get("decoders", ()):
            yield from _flatten_decoders(step)

"""The bytes that each token of a model's vocabulary stands for.

It reads tokenizer.json files of two kinds, byte-level BPE (GPT-2, Llama 3, Qwen) and SentencePiece
(Llama 2, Mistral, Gemma), and knows nothing of how text is cut into tokens, nor of what is written
with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec


class Vocabulary(msgspec.Struct, frozen=True):
    """What a model can say: `tokens[id]` in bytes, None where a token is no part of any text."""

    tokens: tuple[bytes | None, ...]
    end: int
    """the token that ends an answer"""
    width: int
    """of the model's logits; ids from len(tokens) on are padding, and never allowed"""

    def __post_init__(self) -> None:
        if not 0 <= self.end < len(self.tokens) <= self.width:
            raise ValueError(
                f"a vocabulary of {len(self.tokens)} tokens cannot end with token {self.end} or "
                f"have {self.width} logits: name a token of it, and at least as many logits"
            )
        if self.tokens[self.end] is not None:
            raise ValueError(f"token {self.end} is text ({self.tokens[self.end]!r}), not an end")

    def spelt(self, ids: Iterable[int]) -> bytes:
        """The text of these tokens, in UTF-8; the end token is no text."""
        return b"".join(self.tokens[number] or b"" for number in ids)


def read_vocabulary(tokenizer: Path | str, end: str | int, width: int | None = None) -> Vocabulary:
    """The vocabulary of a tokenizer.json: its path, or its content.

    `end` is the token that ends an answer (`<|endoftext|>`, `</s>`), or its id; `width` is how
    many logits the model gives, where it gives more than it has tokens. Special and added tokens
    are no text: only ordinary tokens may spell what they look like. Raises ValueError where this
    is not a tokenizer that spells text byte by byte.
    """
    file = _read(tokenizer)
    numbers = _numbers(file.model.vocab)
    added = {token.content: token.id for token in file.added_tokens}
    known = numbers | added
    last = known.get(end) if isinstance(end, str) else end
    if last is None:
        raise ValueError(f"the tokenizer has no token {end!r}: name the one that ends an answer")
    spell = _spelling(file)
    tokens: list[bytes | None] = [None] * (max(known.values(), default=-1) + 1)
    for token, number in numbers.items():
        tokens[number] = spell(token)
    for number in (*added.values(), *_unknown(file.model, numbers)):
        tokens[number] = None
    return Vocabulary(tuple(tokens), last, len(tokens) if width is None else width)


class _Added(msgspec.Struct, frozen=True):
    id: int
    content: str


class _Model(msgspec.Struct, frozen=True):
    vocab: dict[str, int] | list[tuple[str, float]]
    byte_fallback: bool = False
    unk_token: str | None = None
    unk_id: int | None = None


class _File(msgspec.Struct, frozen=True):
    model: _Model
    added_tokens: list[_Added] = []
    decoder: dict[str, Any] | None = None


def _read(tokenizer: Path | str) -> _File:
    try:
        content = tokenizer.read_bytes() if isinstance(tokenizer, Path) else tokenizer
        return msgspec.json.decode(content, type=_File)
    except (msgspec.DecodeError, OSError) as error:
        raise ValueError(f"this is not a tokenizer.json: {error}") from error


def _numbers(vocab: dict[str, int] | list[tuple[str, float]]) -> dict[str, int]:
    if isinstance(vocab, dict):
        return vocab
    return {token: number for number, (token, _) in enumerate(vocab)}


def _unknown(model: _Model, numbers: dict[str, int]) -> Iterator[int]:
    """The token that stands for whatever could not be spelt."""
    if model.unk_token in numbers:
        yield numbers[model.unk_token]
    if model.unk_id is not None:
        yield model.unk_id


class _ByteLevel(msgspec.Struct, frozen=True):
    """Each byte is written as one letter: itself where it can be seen, else one from 256 on."""

    letters: dict[int, int]

    def __call__(self, token: str) -> bytes | None:
        try:
            return token.translate(self.letters).encode("latin-1")
        except UnicodeEncodeError:
            return None


class _SentencePiece(msgspec.Struct, frozen=True):
    """A blank is written as another letter, and a byte that is in no token as `<0x0A>`."""

    blank: str
    byte_fallback: bool

    def __call__(self, token: str) -> bytes | None:
        if self.byte_fallback and re.fullmatch("<0x[0-9A-Fa-f]{2}>", token):
            return bytes.fromhex(token[3:5])
        return token.replace(self.blank, " ").encode()


def _spelling(file: _File) -> _ByteLevel | _SentencePiece:
    """How this tokenizer writes bytes, judged by its decoder."""
    for step in _steps(file.decoder):
        if step["type"] == "ByteLevel":
            seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
            unseen = [byte for byte in range(256) if byte not in seen]
            return _ByteLevel({256 + n: byte for n, byte in enumerate(unseen)})
        if step["type"] == "Metaspace":
            return _SentencePiece(step.get("replacement", "▁"), file.model.byte_fallback)
        blank = step.get("pattern", {}).get("String")
        if step["type"] == "Replace" and step["content"] == " " and blank:
            return _SentencePiece(blank, file.model.byte_fallback)
    raise ValueError(
        "this tokenizer does not spell text byte by byte: use byte-level BPE (as GPT-2 and Llama 3 "
        "do) or SentencePiece with byte fallback (as Llama 2, Mistral and Gemma do)"
    )


def _steps(decoder: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if decoder is not None:
        yield decoder
        for step in decoder.get("decoders", ()):
            yield from _steps(step)

"""What may be written with one vocabulary, whatever the documents: the part that is made once."""

from __future__ import annotations

import hashlib
from typing import Literal, get_args

import msgspec
import numpy as np

from rookery.cite.frame import Form, frame
from rookery.cite.pieces import NEVER, Pieces, distinct
from rookery.cite.syntax import WORDS_END
from rookery.cite.trie import Bytes, Ints
from rookery.cite.vocabulary import Vocabulary

Join = Literal["[...]", "━"]


class Shape(msgspec.Struct, frozen=True):
    """What is written, and how long it may be."""

    form: Form = "claim"
    """claim: `%<claim>%(title)%[quote]%` once, as GopherCite answers. answer: text with any number
    of claims, at least one, each on any number of quotes. quote: words of a document, and no mark
    (what follows `Quote: ` in WebGPT)"""
    shortest: int = 5
    """characters of a quote, and of each fragment of one (GopherCite, appendix F)"""
    longest: int = 2000
    """characters of a quote, all its fragments together"""
    fragments: int = 1
    """how many a quote may have, of one document and in its order"""
    join: Join = "[...]"
    """what stands between two fragments; with ━ and two of them, `start━end` (WebGPT)"""
    free: int = 128
    """tokens between two quotes, or before the first, their marks included"""

    def __post_init__(self) -> None:
        for name, least in {"shortest": 1, "fragments": 1, "free": 16}.items():
            if getattr(self, name) < least:
                raise ValueError(f"Shape.{name} must be at least {least}")
        if self.longest < self.shortest:
            raise ValueError("Shape.longest must be at least Shape.shortest")
        if self.form not in get_args(Form) or self.join not in get_args(Join):
            raise ValueError(f"there is no Shape of form {self.form!r} and join {self.join!r}")

    @property
    def reserved(self) -> tuple[str, ...]:
        """The marks that no quote may contain."""
        ends = () if self.form == "quote" else (WORDS_END,)
        return ends if self.fragments == 1 else (*ends, self.join)


class Grammar:
    """All that a shape allows, for one vocabulary: made once for any number of documents.

    Raises ValueError where the vocabulary cannot spell the marks.
    """

    def __init__(self, vocabulary: Vocabulary, shape: Shape = Shape()) -> None:
        self.vocabulary = vocabulary
        self.shape = shape
        marks = [mark.encode() for mark in shape.reserved]
        self.pieces = Pieces(vocabulary, marks, shape.shortest)
        self._require_marks()
        self.end = self.pieces.written("" if shape.form == "quote" else WORDS_END)
        self.join = self.pieces.written(shape.join)
        self.frame = frame(shape.form, sorted(self.pieces.spelt))
        self._after = self._led_to()
        self._free: dict[int, tuple[Ints, Bytes, Ints]] = {}
        self.digest = _digest(vocabulary, shape)
        """names all that matters to a document that is made ready for this grammar"""

    def _require_marks(self) -> None:
        marks = "" if self.shape.form == "quote" else "%<>()[]"
        for mark in marks + (self.shape.join if self.shape.fragments > 1 else ""):
            if not self.pieces.spelt.issuperset(mark.encode()):
                raise ValueError(
                    f"the vocabulary has no tokens that spell {mark!r} byte by byte: choose a "
                    "tokenizer with an alphabet of all 256 bytes"
                )

    def _led_to(self) -> Bytes:
        """frame states × ids -> the frame's state after the token; 0 where it may not follow."""
        names, of_ids = self.frame.names, self.pieces.of_ids
        after = self.pieces.trie.led_to(self.frame.step)[:, of_ids]
        after[:, of_ids < 0] = names["nowhere"]
        for state in self.frame.may_end:
            after[state, self.vocabulary.end] = names["done"]
        hopeless = np.minimum(self.frame.to_title, self.frame.to_end) >= NEVER
        hopeless[names.get("in title", 0)] = False
        after[hopeless[after]] = names["nowhere"]
        return after

    def free(self, state: int) -> tuple[Ints, Bytes, Ints]:
        """The ids that may follow in this state of the frame, ascending, and the state after each;
        and those that go on into a title, or beyond it."""
        if state not in self._free:
            after = self._after[state]
            inside = after == self.frame.names.get("in title", -1)
            ids = np.flatnonzero((after != 0) & ~inside).astype(np.int32)
            self._free[state] = ids, after[ids], np.flatnonzero(inside).astype(np.int32)
        return self._free[state]

    def union(self, *found: Ints) -> Ints:
        """All of these ids, ascending, each once."""
        return distinct(np.concatenate(found), self.vocabulary.width)


def _digest(vocabulary: Vocabulary, shape: Shape) -> str:
    named = b"\xfe".join(b"\xff" if token is None else token for token in vocabulary.tokens)
    return hashlib.blake2b(repr(shape).encode() + named, digest_size=16).hexdigest()

"""What may be written with one vocabulary, whatever the documents: the part that is made once."""

from __future__ import annotations

import hashlib

import numpy as np

from rookery.cite.frame import frame
from rookery.cite.pieces import NEVER, Pieces, distinct
from rookery.cite.shape import Shape
from rookery.cite.syntax import WORDS_END
from rookery.cite.trie import Bytes, Ints
from rookery.cite.vocabulary import Vocabulary


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
        some = [ids for ids in found if len(ids)] or found[:1]
        return distinct(np.concatenate(some), self.vocabulary.width) if some[1:] else some[0]


def _digest(vocabulary: Vocabulary, shape: Shape) -> str:
    named = b"\xfe".join(b"\xff" if token is None else token for token in vocabulary.tokens)
    return hashlib.blake2b(repr(shape).encode() + named, digest_size=16).hexdigest()

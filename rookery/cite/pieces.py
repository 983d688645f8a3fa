"""The byte strings that a vocabulary's tokens are, looked up by what they are and how they begin.

It is given marks, and knows which tokens run into one; what they mean it does not know.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rookery.cite.trie import Ints, Rows, trie
from rookery.cite.vocabulary import Vocabulary

NEVER = 1 << 28
"""tokens or bytes that are more than there will ever be"""
SEPARATORS = (0xFE, 0xFF)
"""bytes that are in no text, and so in no piece"""


class Written(NamedTuple):
    """Bytes that must be written as they are."""

    text: bytes
    costs: tuple[int, ...]
    """from each byte on, and at the end, how many tokens they take at least"""


class Longer(NamedTuple):
    """Pieces with one beginning."""

    first: int
    """the number of the first; the others follow"""
    rests: list[bytes]
    """how each goes on"""
    heads: Ints
    """of each rest, an id of the longest token that it begins with, or -1"""
    whole: npt.NDArray[np.bool_]
    """whether that is all of it"""
    marked: npt.NDArray[np.bool_]
    """whether a mark may begin in it after enough for a quote"""


class Pieces:
    """The tokens' byte strings, and what stands before a mark in those that run into one.

    A piece is known by its number, in the order of the bytes.
    """

    def __init__(self, vocabulary: Vocabulary, marks: Sequence[bytes], shortest: int) -> None:
        """`shortest`: the bytes of a quote, at least, before a mark may follow."""
        lost, cut = SEPARATORS
        tokens = {t for t in vocabulary.tokens if t and lost not in t and cut not in t}
        before = _before(marks, tokens)
        self.strings = sorted(tokens.union(before))
        self.trie = trie(self.strings)
        self.sizes = np.fromiter(map(len, self.strings), np.int32, len(self.strings))
        self.widest = int(self.sizes.max(initial=0))
        self.spelt = frozenset(token[0] for token in tokens if len(token) == 1)
        """the bytes that are tokens of their own, and can be written whatever follows"""
        places = {piece: number for number, piece in enumerate(self.strings)}
        self.tokens = {token: places[token] for token in tokens}
        """the numbers of those that are tokens"""
        numbers = [self.tokens.get(token or b"", -1) for token in vocabulary.tokens]
        self.of_ids = np.array(numbers, np.int32)
        """of each id its piece, or -1"""
        self._ids = _grouped(self.of_ids, len(self.strings))
        self.crossing = {
            places[piece]: [places[t] for t in found] for piece, found in before.items()
        }
        """of a piece, the tokens that begin with it and run into a mark"""
        crosses = np.zeros(len(self.strings), bool)
        crosses[list(self.crossing)] = True
        self.prefixes = self.trie.prefixes()
        """of each piece, those that it begins with, itself too"""
        self.prefix_ids = self.prefixes.through(self._ids)
        """the ids of these"""
        self.prefixes_crossing = self.prefixes.through(_some(crosses))
        """those of them that have tokens in `crossing`"""
        self._marks, self._shortest = {mark[:1] for mark in marks}, shortest
        self._longer: dict[bytes, Longer] = {}

    def ids_of(self, pieces: Sequence[int] | Ints) -> Ints:
        """The ids of the tokens among these pieces, ascending, each once."""
        once = distinct(np.asarray(pieces, np.int32), len(self.strings))
        return distinct(self._ids.of(once), len(self.of_ids))

    def written(self, text: str) -> Written:
        """The text as bytes, with its costs: NEVER where it cannot be spelt."""
        try:
            data = text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair
            return Written(b"", (NEVER,))
        costs = [0] * (len(data) + 1)
        for at in reversed(range(len(data))):
            ends = range(at + 1, min(at + self.widest, len(data)) + 1)
            steps = (costs[end] for end in ends if data[at:end] in self.tokens)
            costs[at] = min(min(steps, default=NEVER) + 1, NEVER)
        return Written(data, tuple(costs))

    def longer(self, start: bytes) -> Longer:
        """The pieces that begin with `start` and go on."""
        if start in self._longer:
            return self._longer[start]
        low = high = bisect_right(self.strings, start)
        while high < len(self.strings) and self.strings[high].startswith(start):
            high += 1
        rests = [piece[len(start) :] for piece in self.strings[low:high]]
        heads = [self._head(rest) for rest in rests]
        marked = [any(mark in rest[self._shortest :] for mark in self._marks) for rest in rests]
        whole = [rest in self.tokens for rest in rests]
        found = Longer(
            low, rests, np.array(heads, np.int32), np.array(whole, bool), np.array(marked, bool)
        )
        if rests:  # few beginnings have any
            self._longer[start] = found
        return found

    def _head(self, text: bytes) -> int:
        sizes = range(len(text), 0, -1)
        token = next((self.tokens[text[:n]] for n in sizes if text[:n] in self.tokens), -1)
        return int(self._ids.values[self._ids.bounds[token]]) if token >= 0 else -1


def distinct(numbers: Ints, size: int) -> Ints:
    """These numbers below `size` in ascending order, each once."""
    if 64 * len(numbers) > size:  # to mark them is quicker than to sort them
        there = np.zeros(size, bool)
        there[numbers] = True
        return np.flatnonzero(there).astype(np.int32)
    ordered = np.sort(numbers)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def numbered(numbers: Ints, size: int) -> tuple[Ints, Ints]:
    """The same as `distinct`, and of each of the numbers which of those it is."""
    once, place = distinct(numbers, size), np.empty(size, np.int32)
    place[once] = np.arange(len(once), dtype=np.int32)
    return once, place[numbers]


def _before(marks: Sequence[bytes], tokens: set[bytes]) -> dict[bytes, list[bytes]]:
    """What stands in tokens before a mark, or before the beginning of one -> those tokens."""
    found: dict[bytes, list[bytes]] = {}
    for token in tokens:
        for mark in marks:
            at = token.find(mark[0], 1)
            while at > 0:
                if token.startswith(mark, at) or mark.startswith(token[at:]):
                    found.setdefault(token[:at], []).append(token)
                at = token.find(mark[0], at + 1)
    return found


def _some(chosen: npt.NDArray[np.bool_]) -> Rows:
    """For each number itself, where it is chosen."""
    bounds = np.append(np.int32(0), chosen.cumsum(dtype=np.int32))
    return Rows(bounds, np.flatnonzero(chosen).astype(np.int32))


def _grouped(of_ids: Ints, size: int) -> Rows:
    """For each piece its ids: none, one, or several where tokens are spelt alike."""
    ids = of_ids.argsort(kind="stable").astype(np.int32)
    bounds = of_ids[ids].searchsorted(np.arange(size + 1)).astype(np.int32)
    return Rows(bounds, ids)

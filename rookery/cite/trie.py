"""Many byte strings as one tree in sorted arrays, and where in a text each of them stands.

It knows nothing of tokens, nor of what the strings are looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]


class Rows(NamedTuple):
    """Lists of numbers, one after another: list i is values[bounds[i]:bounds[i + 1]]."""

    bounds: Ints
    values: Ints

    def of(self, lists: Ints) -> Ints:
        """The values of these lists."""
        if len(lists) == 1:
            return self.values[self.bounds[lists[0]] : self.bounds[lists[0] + 1]]
        sizes = self.sizes(lists)
        first = np.repeat(self.bounds[lists] - sizes.cumsum(dtype=np.int32) + sizes, sizes)
        return self.values.take(first + np.arange(len(first), dtype=np.int32))

    def sizes(self, lists: Ints) -> Ints:
        """How many values each of these lists has."""
        sizes: Ints = self.bounds[lists + 1] - self.bounds[lists]
        return sizes

    def only(self, lists: Ints) -> Rows:
        """These lists."""
        ends = self.sizes(lists).cumsum(dtype=np.int32)
        return Rows(np.append(np.int32(0), ends), self.of(lists))

    def through(self, other: Rows) -> Rows:
        """The same lists, in the place of each value its list among the others."""
        bounds, values = other.only(self.values)
        return Rows(bounds[self.bounds], values)


class Trie(NamedTuple):
    """Nodes are numbered by depth, then in the order of their strings. Node 0 is the root."""

    keys: Ints
    """of each node but the root, ascending: its parent * 256 + the byte that leads to it"""
    ends: Ints
    """of each node: the number of the string that ends there, or -1"""
    levels: tuple[int, ...]
    """the first node of each depth from 1 on, and at last the number of nodes"""
    size: int
    """how many strings there are"""

    def longest(self, text: Bytes) -> Ints:
        """For each place in a text, the longest string that stands there; `size` for none.

        The text must end with a byte that no string has.
        """
        found = np.full(len(text), self.size, np.int32)
        places, nodes = _alike_together(text), np.zeros(len(text), np.int32)
        for depth, (low, high) in enumerate(pairwise(self.levels)):
            if not len(places):
                break
            keys, known = nodes << 8 | text[places + depth], self.keys[low - 1 : high - 1]
            at = known.searchsorted(keys)
            there = known.take(at, mode="clip") == keys
            places, nodes = places[there], at[there].astype(np.int32) + np.int32(low)
            ends = self.ends[nodes]
            found[places[ends >= 0]] = ends[ends >= 0]
        return found

    def prefixes(self) -> Rows:
        """Of each string, those that it begins with, itself the first; of `size`, none."""
        on_the_way, above = self.ends.copy(), np.full(self.size, -1, np.int32)
        for low, high in pairwise(self.levels):
            before, ends = on_the_way[self.keys[low - 1 : high - 1] >> 8], self.ends[low:high]
            above[ends[ends >= 0]] = before[ends >= 0]
            on_the_way[low:high] = np.where(ends >= 0, ends, before)
        strings = prefixes = np.arange(self.size, dtype=np.int32)
        found = []
        while len(strings):
            found.append((strings, prefixes))
            prefixes = above[prefixes]
            strings, prefixes = strings[prefixes >= 0], prefixes[prefixes >= 0]
        return _by_place(found, self.size + 1)

    def led_to(self, step: Bytes) -> Bytes:
        """Where each string leads an automaton: states × 256 bytes -> states × strings."""
        states = np.empty((len(step), len(self.ends)), np.uint8)
        states[:, 0] = np.arange(len(step))
        for low, high in pairwise(self.levels):
            keys = self.keys[low - 1 : high - 1]
            states[:, low:high] = step[states[:, keys >> 8], keys & 255]
        leaves = np.flatnonzero(self.ends >= 0)
        return states[:, leaves[self.ends[leaves].argsort()]]


def trie(strings: Sequence[bytes]) -> Trie:
    """The tree of these strings, which are sorted, distinct and not empty."""
    sizes = np.fromiter(map(len, strings), np.int32, len(strings))
    begins = sizes.cumsum() - sizes
    letters = np.frombuffer(b"".join(strings), np.uint8)
    numbers = np.arange(len(strings), dtype=np.int32)
    nodes = np.zeros(len(strings), np.int32)
    keys, ends, levels = [np.empty(0, np.int32)], [np.full(1, -1, np.int32)], [1]
    while len(numbers):
        depth = len(levels)
        key = nodes << 8 | letters[begins[numbers] + depth - 1]
        new = np.append(True, key[1:] != key[:-1])
        nodes = levels[-1] - 1 + new.cumsum(dtype=np.int32)
        keys.append(key[new])
        ends.append(np.full(len(keys[-1]), -1, np.int32))
        done = sizes[numbers] == depth
        ends[-1][nodes[done] - levels[-1]] = numbers[done]
        levels.append(levels[-1] + len(keys[-1]))
        numbers, nodes = numbers[~done], nodes[~done]
    return Trie(np.concatenate(keys), np.concatenate(ends), tuple(levels), len(strings))


def _alike_together(text: Bytes) -> Ints:
    """All places in the order of the four bytes there: what is looked up in order is found
    sooner."""
    ahead = np.append(text, np.zeros(3, np.uint8)).astype(np.uint32)
    four = ahead[:-3] << 24 | ahead[1:-2] << 16 | ahead[2:-1] << 8 | ahead[3:]
    return four.argsort().astype(np.int32)


def _by_place(found: Sequence[tuple[Ints, Ints]], size: int) -> Rows:
    """What was found at each depth, a place at most once in each, brought together by place."""
    bounds = np.zeros(size + 1, np.int32)
    for places, _ in found:
        bounds[places + 1] += 1
    bounds.cumsum(out=bounds)
    values = np.empty(bounds[-1], np.int32)
    free = bounds[:-1].copy()
    for places, strings in found:
        values[free[places]] = strings
        free[places] += 1
    return Rows(bounds, values)

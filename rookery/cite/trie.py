"""Many byte strings as one tree in sorted arrays, and where in a text each of them stands.

It knows nothing of tokens, nor of what the strings are looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

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
        starts, sizes = self.bounds[lists], self.bounds[lists + 1] - self.bounds[lists]
        first = np.repeat(starts - sizes.cumsum(dtype=np.int32) + sizes, sizes)
        return self.values.take(first + np.arange(len(first), dtype=np.int32))

    def owners(self, lists: Ints, chosen: npt.NDArray[np.integer[Any]]) -> Ints:
        """Of which of these lists each chosen one of their values is."""
        ends = (self.bounds[lists + 1] - self.bounds[lists]).cumsum()
        return lists[ends.searchsorted(chosen, side="right")]


class Trie(NamedTuple):
    """Nodes are numbered by depth, then in the order of their strings. Node 0 is the root."""

    keys: Ints
    """of each node but the root, ascending: its parent * 256 + the byte that leads to it"""
    ends: Ints
    """of each node: the number of the string that ends there, or -1"""
    levels: tuple[int, ...]
    """the first node of each depth from 1 on, and at last the number of nodes"""

    def matches(self, text: Bytes) -> Rows:
        """For each place in a text, the strings that stand there, the shortest first.

        The text must end with a byte that no string has.
        """
        places = np.arange(len(text), dtype=np.int32)
        nodes = np.zeros(len(text), np.int32)
        found: list[tuple[Ints, Ints]] = []
        while len(places):
            keys = nodes << 8 | text[places + len(found)]
            nodes = self.keys.searchsorted(keys).astype(np.int32)
            there = self.keys.take(nodes, mode="clip") == keys
            places, nodes = places[there], nodes[there] + 1
            ends = self.ends[nodes]
            found.append((places[ends >= 0], ends[ends >= 0]))
        return _by_place(found, len(text))

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
    return Trie(np.concatenate(keys), np.concatenate(ends), tuple(levels))


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

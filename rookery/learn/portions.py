"""The rows of one step cut into minibatches and pieces, alike for any number of processes.

Every process has its own rows and knows how many the others have, so that all agree on what a
minibatch is without asking. It knows nothing of models and losses.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from rookery.learn.rows import Batch, Row, collate


class Place(NamedTuple):
    """Where a row is."""

    process: int
    number: int
    """among the rows of its process"""
    tokens: int
    """of its action"""


class Piece(NamedTuple):
    """Rows that a model is given at once."""

    batch: Batch
    rows: Sequence[int]
    """their numbers among those of this process"""
    tokens_N: Tensor
    """of the tokens of its actions, row by row, the places among all of this process"""


class Minibatch(NamedTuple):
    """Rows whose loss is followed in one step of the optimiser: those of this process."""

    pieces: Sequence[Piece]
    """as many in every process"""
    tokens: int
    """of the actions, in all processes"""
    share: float
    """of all rows of all processes"""


class Portions:
    """The rows of this process, and in `order` the places of all rows of all processes.

    `most` is how many rows a model is given at once.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        order: Sequence[Place],
        process: int,
        most: int,
        pad: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self._rows = rows
        self._order = order
        self._process = process
        self._most = most
        self._pad = pad
        self._device = device
        sizes = [len(row.action) for row in rows]
        starts = torch.tensor([0, *sizes]).cumsum(0).tolist()
        self._ranges = [
            torch.arange(start, start + size) for start, size in zip(starts, sizes, strict=False)
        ]

    def minibatches(self, count: int, seed: str) -> list[Minibatch]:
        """All rows, shuffled and dealt into so many minibatches."""
        dealt = list(self._order)
        if count > 1:
            Random(seed).shuffle(dealt)
        return [self._minibatch(dealt[number::count]) for number in range(count)]

    def _minibatch(self, places: Sequence[Place]) -> Minibatch:
        mine = [place.number for place in places if place.process == self._process]
        held: dict[int, int] = {}
        for place in places:
            held[place.process] = held.get(place.process, 0) + 1
        count = -(-max(held.values(), default=1) // self._most)
        mine.sort(key=self._size)
        cuts = [len(mine) * part // count for part in range(count + 1)]
        pieces = [self._piece(mine[start:end]) for start, end in pairwise(cuts)]
        tokens = sum(place.tokens for place in places)
        return Minibatch(pieces, tokens, len(places) / len(self._order))

    def _size(self, number: int) -> tuple[int, int]:
        row = self._rows[number]
        return len(row.context), len(row.action)

    def _piece(self, numbers: Sequence[int]) -> Piece:
        if not numbers:
            return self._nothing()
        batch = collate([self._rows[number] for number in numbers], self._pad, self._device)
        tokens_N = torch.cat([self._ranges[number] for number in numbers])
        return Piece(batch, numbers, tokens_N.to(self._device))

    def _nothing(self) -> Piece:
        """For a process that has no row left while others have: it must still meet them."""
        batch = collate([Row([self._pad], [self._pad])], self._pad, self._device)
        unsaid = batch._replace(said_BA=torch.zeros_like(batch.said_BA))
        return Piece(unsaid, (), torch.empty(0, dtype=torch.long, device=self._device))

"""A document made ready for quoting: what stands where, and where quotes may begin and end.

Made once for a document and a grammar, whatever is asked. It knows no other document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rookery.cite.grammar import Grammar
from rookery.cite.pieces import NEVER, SEPARATORS, Written, distinct, numbered
from rookery.cite.syntax import render_inline
from rookery.cite.trie import Bytes, Ints, Rows
from rookery.records import Answer, Claim, Page

LOST, CUT = (chr(0xDC00 + byte) for byte in SEPARATORS)
"""in the place of a character that no quote may hold; between two that it may not hold together"""


class Tape(NamedTuple):
    """A text as bytes, with separators in it and one at its end. Positions lie between bytes."""

    data: Bytes
    chars: Ints
    """how many characters of the original text begin before each position"""
    after: Ints
    """the position after so many characters"""
    ends: Ints
    """the first position, from each on, where a quote may end"""
    stop: Ints
    """the first separator, from each position on"""

    def way(self, positions: Ints, chars: Ints | int, shortest: int, longest: int) -> Ints:
        """Bytes from each position to the end of a quote that has so many characters so far;
        NEVER where it cannot be ended."""
        wanted = self.chars[positions] + np.maximum(shortest - chars, 0)
        ends = self.ends[np.maximum(positions, self.after.take(wanted, mode="clip"))]
        length = chars + self.chars[ends] - self.chars[positions]
        good = (wanted < len(self.after)) & (ends <= self.stop[positions]) & (length <= longest)
        return np.where(good, ends - positions, np.int32(NEVER))


class Document(NamedTuple):
    """A document as arrays. It can be pickled, and kept for other questions."""

    title: Written
    """as it stands between `%(` and the quote"""
    tape: Tape
    pieces: Ints
    """those that are the longest at some position, ascending: all that stand there begin it"""
    marked: npt.NDArray[np.bool_]
    """whether tokens begin as they do and run into a mark"""
    longest: Ints
    """at each position, which of these"""
    ids: Ints
    """all that stand somewhere, ascending"""
    rows: Rows
    """of each of the pieces, which ids stand where it does"""
    starts: Ints
    """where a quote may begin, ascending"""
    ways: Ints
    """from each start, the bytes of the shortest quote that begins there or later"""
    heads: Rows
    """the starts of quotes by their first byte"""
    last: Ints
    """the last start at which each of the pieces is the longest, or -1"""
    opening: Ints
    """the ids that a quote may begin with, ascending"""
    far: int
    """bytes to the end of a quote at most, from wherever it may have come to"""
    grammar: str
    """the digest of the grammar for which it was made"""

    def openings(self, byte: int, floor: int) -> Ints:
        """Where a quote may begin with this byte, from `floor` on."""
        starts = self.heads.values[self.heads.bounds[byte] : self.heads.bounds[byte + 1]]
        return starts[starts.searchsorted(floor) :]

    def ids_of(self, which: Ints) -> Ints:
        """The ids that stand where these pieces do, ascending, each once."""
        return self.ids[distinct(self.rows.of(which), len(self.ids))]


def index(grammar: Grammar, title: str, text: str) -> Document:
    """The document, ready for quoting. Its arrays take about 40 bytes for each byte of the text."""
    shape, pieces = grammar.shape, grammar.pieces
    tape = _tape(_cut(text, shape.reserved, pieces.spelt), escapes=shape.form != "quote")
    known, longest = numbered(pieces.trie.longest(tape.data), len(pieces.strings) + 1)
    bounds, found = pieces.prefix_ids.only(known)
    ids, places = numbered(found, len(pieces.of_ids))
    rows = Rows(bounds, places)
    starts = np.flatnonzero(tape.data & 0xC0 != 0x80).astype(np.int32)
    if shape.fragments > 1 and shape.form != "quote":
        starts = starts[tape.data[starts] != ord("%")]  # `[...]%` would end the quote
    ways = tape.way(starts, 0, shape.shortest, shape.longest)
    starts, ways = starts[ways < NEVER], ways[ways < NEVER]
    last = np.full(len(known), -1, np.int32)
    last[longest[starts]] = starts  # of several the last is kept
    rests = tape.ends - np.arange(len(tape.ends))
    return Document(
        title=_title(grammar, title),
        tape=tape,
        pieces=known,
        marked=pieces.prefixes_crossing.sizes(known) > 0,
        longest=longest,
        ids=ids,
        rows=rows,
        starts=starts,
        ways=np.minimum.accumulate(ways[::-1])[::-1],
        heads=_by_byte(starts, tape.data[starts]),
        last=last,
        opening=ids[distinct(rows.of(np.flatnonzero(last >= 0).astype(np.int32)), len(ids))],
        far=int(max(ways.max(initial=0), rests[tape.ends <= tape.stop].max(initial=0))),
        grammar=grammar.digest,
    )


def _title(grammar: Grammar, title: str) -> Written:
    page = Page("", title, "x")
    answer = Answer("x", (page.quote(0, 1),), (Claim(0, 1, (0,)),))
    rendered = render_inline(answer, [page])
    return grammar.pieces.written(rendered.removeprefix("%<x>%(").removesuffix("x]%"))


def _cut(text: str, reserved: Sequence[str], spelt: frozenset[int]) -> str:
    """The text with separators where no quote may go on."""
    text = re.sub("[\ud800-\udfff]", LOST, text)  # half of a pair is no text
    lost = [char for char in set(text) - {LOST} if not spelt.issuperset(char.encode())]
    if lost:
        text = text.translate(dict.fromkeys(map(ord, lost), LOST))
    for mark in reserved:
        text = text.replace(mark, mark[:-1] + CUT + mark[-1] if mark[1:] else LOST)
    return text + CUT


def _tape(text: str, escapes: bool) -> Tape:
    data = np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8)
    boundary = data & 0xC0 != 0x80
    begun = (boundary & (data != SEPARATORS[1])).cumsum(dtype=np.int32)
    chars = np.append(np.int32(0), begun)
    between = np.flatnonzero(boundary)[::-1].astype(np.int32)
    after = np.empty(begun[-1] + 1, np.int32)
    after[chars[between]] = between  # of several the first is kept
    stop = _next(data >= SEPARATORS[0])
    # Where a backslash escapes what follows, it would escape the end of the quote.
    ends = _next(boundary & (np.append(0, data[:-1]) != ord("\\")) if escapes else boundary)
    lost = np.append(ends > stop, False)[1:]  # after the last end before a separator
    return Tape(
        data=np.where(lost, np.uint8(SEPARATORS[0]), data),
        chars=chars,
        after=after,
        ends=ends,
        stop=stop,
    )


def _next(there: npt.NDArray[np.bool_]) -> Ints:
    """From each position on, the first that is there; one beyond all where there is none."""
    size = len(there)
    places = np.where(there, np.arange(size, dtype=np.int32), np.int32(size))
    return np.minimum.accumulate(places[::-1])[::-1]


def _by_byte(positions: Ints, data: Bytes) -> Rows:
    order = data.argsort(kind="stable")
    bounds = data[order].searchsorted(np.arange(257)).astype(np.int32)
    return Rows(bounds, positions[order])

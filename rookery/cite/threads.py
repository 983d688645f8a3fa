"""Ways to read what was written so far, and what each allows to be written next.

A thread is in free text and marks, in words that can only be written in one way, or in words of a
document. These are known by the set of positions where they end in it, so that where a quote comes
from is never searched for. Threads know nothing of each other.

Each can `step` over one byte, to the threads that it becomes, and over the `ended` answer; it may
`need` so many tokens to the end of the answer at least; and it has `ids` that may come next when so
many tokens are `left`, and so many of them for `free` text: ascending, each once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rookery.cite.grammar import Grammar
from rookery.cite.matches import Document
from rookery.cite.pieces import NEVER, Written
from rookery.cite.trie import Ints


class Source(NamedTuple):
    """text[start:end], in characters, of one document of the context, counted from 0."""

    document: int
    start: int
    end: int


Quoted = tuple[tuple[Source, ...], ...]
"""of each quote its fragments, of which there is one where none are joined"""


class Context:
    """What all threads of one context share: the grammar and the documents."""

    def __init__(self, grammar: Grammar, documents: Sequence[Document]) -> None:
        self.grammar, self.shape, self.pieces = grammar, grammar.shape, grammar.pieces
        self.documents = documents
        names, frame = grammar.frame.names, grammar.frame
        self.steps: list[list[int]] = frame.step.tolist()
        self.title = names.get("title", -1)
        self.quoted = names["closed" if self.shape.form == "quote" else "quoted"]
        self.done = names["done"]
        self.marks = {mark.encode()[0] for mark in self.shape.reserved}
        """the bytes that may begin what follows words of a document"""
        self.close = grammar.end.costs[0] + 1
        """tokens from the last word of a quote to the end of the answer"""
        titles = list(self.titles(()))
        title = min((thread.need() for thread in titles), default=NEVER)
        self.needs = np.minimum(frame.to_title + title, frame.to_end + 1)
        """tokens from each state of the frame to the end of the answer"""
        self.exits = np.minimum(frame.to_title, frame.to_end + 1)
        """tokens from each state of the frame to the end of free text"""
        self.needs[self.done] = self.exits[self.done] = 0
        self.longest_exit = int(self.exits[self.exits < NEVER].max())
        self.far = self.longest_exit + max((thread.far() for thread in titles), default=0)
        """tokens with which free text can be ended from wherever it may have come to"""
        self.known: dict[int, Ints] = {}
        """what may come next in a state of the frame, where the end is far"""
        self.masks: dict[int, Ints] = {}
        """the same as bits, by the identity of what is known"""

    def titles(self, quotes: Quoted) -> Iterator[Literal]:
        """Every title that may be written, each before words of its own document."""
        for text in self.texts(quotes):
            if text.document.title.costs[0] < NEVER:
                yield Literal(text.document.title, 0, text)

    def texts(self, quotes: Quoted) -> Iterator[Text]:
        """The beginning of a quote, of every document that has one."""
        for number, document in enumerate(self.documents):
            if len(document.starts):
                yield Text(self, number, document, quotes)


class Free(NamedTuple):
    """In free text, or in the marks round it."""

    context: Context
    at: int
    """a state of the frame"""
    quotes: Quoted

    def step(self, byte: int) -> Iterator[Thread]:
        at = self.context.steps[self.at][byte]
        if at == self.context.title:
            yield from self.context.titles(self.quotes)
        elif at:
            yield self._replace(at=at)

    def ended(self) -> Iterator[Free]:
        if self.at in self.context.grammar.frame.may_end:
            yield self._replace(at=self.context.done)

    def need(self) -> int:
        return int(self.context.needs[self.at])

    def ids(self, left: int, free: int) -> Ints:
        context, known = self.context, self.context.known
        far = left > context.far and free > context.longest_exit
        if far and self.at in known:
            return known[self.at]
        ids, after, entering = context.grammar.free(self.at)
        if not far:
            ids = ids[((context.needs < left) & (context.exits < free))[after]]
        if len(entering):
            ids = context.grammar.union(ids, self.entering(entering, left))
        if far:
            known[self.at] = ids
        return ids

    def entering(self, ids: Ints, left: int) -> Ints:
        """Of these ids, which go on into a title, those that a title allows."""
        tokens = self.context.grammar.vocabulary.tokens
        found = [n for n in ids.tolist() if leads(self, tokens[n] or b"", left)]
        return np.array(found, np.int32)

    def written(self) -> Quoted:
        return self.quotes


class Literal(NamedTuple):
    """In words that can only be written in one way, before words of a document."""

    words: Written
    at: int
    then: Text

    def step(self, byte: int) -> Iterator[Thread]:
        if self.words.text[self.at] == byte:
            whole = self.at + 1 == len(self.words.text)
            yield self.then if whole else self._replace(at=self.at + 1)

    def ended(self) -> Iterator[Free]:
        yield from ()

    def need(self) -> int:
        return self.words.costs[self.at] + self.then.need()

    def far(self) -> int:
        """Tokens to the end of the answer at most, by the shortest way, from here or further on."""
        return max(self.words.costs) + self.then.document.far + self.then.context.close

    def ids(self, left: int, free: int) -> Ints:
        pieces, need = self.then.context.pieces, self.then.need()
        rest = self.words.text[self.at : self.at + pieces.widest]
        costs = self.words.costs[self.at :]
        found = [
            number
            for size in range(1, len(rest) + 1)
            if (number := pieces.tokens.get(rest[:size])) is not None and costs[size] + need < left
        ]
        if len(rest) == len(costs) - 1:
            found += self.then.opened(rest, left)
        return pieces.ids_of(found)

    def written(self) -> Quoted:
        return self.then.written()


class Text(NamedTuple):
    """In words of a document, or before the first of them."""

    context: Context
    number: int
    document: Document
    quotes: Quoted
    """those before this one"""
    fragments: tuple[Source, ...] = ()
    """of this quote, those before this one"""
    spent: int = 0
    """their characters"""
    floor: int = 0
    """the position from which on this fragment may begin"""
    positions: Ints = np.empty(0, np.int32)
    """where its words so far may end, ascending; none before the first of them"""
    size: int = 0
    """bytes of these words"""
    chars: int = 0
    """characters of them, of which the last may be incomplete"""

    def step(self, byte: int) -> Iterator[Thread]:
        if self.size:
            positions = self.positions[self.document.tape.data[self.positions] == byte]
        else:
            positions = self.document.openings(byte, self.floor)
        if len(positions):
            chars = self.chars + (byte & 0xC0 != 0x80)
            yield self._replace(positions=positions + 1, size=self.size + 1, chars=chars)
        if byte in self.context.marks:
            for thread in self.closing():
                yield from thread.step(byte)

    def ended(self) -> Iterator[Free]:
        for thread in self.closing():
            yield from thread.ended()

    def closing(self) -> Iterator[Free | Literal]:
        """What may be written instead of more words, where the words may end."""
        # Where one position may be the end, all may: the same bytes lead to each.
        if self.size and self.may_end(self.positions[:1], self.chars)[0]:
            fragments = (*self.fragments, self.here())
            yield Free(self.context, self.context.quoted, (*self.quotes, fragments))
            if len(fragments) < self.context.shape.fragments:
                begun = (self.context, self.number, self.document, self.quotes, fragments)
                then = Text(*begun, self.spent + self.chars, int(self.positions[0]))
                if then.need() < NEVER:
                    yield Literal(self.context.grammar.join, 0, then)

    def may_end(self, positions: Ints, chars: Ints | int) -> npt.NDArray[np.bool_]:
        """Whether the words may end at these positions, having so many characters there."""
        shape = self.context.shape
        enough = (chars >= shape.shortest) & (chars <= shape.longest - self.spent)
        ends: npt.NDArray[np.bool_] = enough & (self.document.tape.ends[positions] == positions)
        return ends

    def here(self) -> Source:
        """The first place where the words stand."""
        chars, end = self.document.tape.chars, self.positions[0]
        return Source(self.number, int(chars[end - self.size]), int(chars[end]))

    def written(self) -> Quoted:
        begun = (*self.fragments, self.here()) if self.size else self.fragments
        return (*self.quotes, begun) if begun else self.quotes

    def need(self) -> int:
        if self.size:
            ways = self.ways(self.positions, self.chars)
        elif self.spent:  # less is left than a whole quote may have
            ways = self.ways(self.begins(), 0)
        else:
            ways = self.document.ways[:1]
        return int(ways.min(initial=NEVER)) + self.context.close

    def ways(self, positions: Ints, chars: Ints | int) -> Ints:
        """Bytes from each of these positions to where the quote can end."""
        shape = self.context.shape
        return self.document.tape.way(positions, chars, shape.shortest, shape.longest - self.spent)

    def begins(self) -> Ints:
        """Where this fragment may begin."""
        return self.document.starts[self.document.starts.searchsorted(self.floor) :]

    def tight(self, left: int) -> bool:
        """Whether the end may be so near that not all that stands here may be written."""
        far = self.document.far
        chars = self.spent + self.chars + self.context.pieces.widest + far
        return left <= far + self.context.close or chars > self.context.shape.longest

    def ids(self, left: int, free: int) -> Ints:
        known, tight = self.context.pieces, self.tight(left)
        if not self.size and not tight:
            return self.opening(left)
        rows, positions = self.document.rows, self.positions if self.size else self.begins()
        pieces = rows.of(positions)
        doubtful = np.flatnonzero(known.crosses[pieces] | tight)
        if len(doubtful):
            places = rows.owners(positions, doubtful)
            crossing = self.crossing(pieces[doubtful], places, left)
            if tight:
                ways = self.ways(*self.ends(pieces, places))
                pieces = pieces[ways + self.context.close < left]
            pieces = np.append(pieces, crossing)
        ids, closing = known.ids_of(pieces), [thread.ids(left, free) for thread in self.closing()]
        return self.context.grammar.union(ids, *closing) if closing else ids

    def opening(self, left: int) -> Ints:
        """The ids that a fragment may begin with, where its end is far."""
        known, pieces, places = self.context.pieces, self.document.kinds, self.document.last
        if self.floor:
            pieces, places = pieces[places >= self.floor], places[places >= self.floor]
        ids = known.ids_of(pieces) if self.floor else self.document.opening
        crossing = self.crossing(pieces, places, left)
        return self.context.grammar.union(ids, known.ids_of(crossing)) if len(crossing) else ids

    def ends(self, pieces: Ints, places: Ints) -> tuple[Ints, Ints]:
        """Where these pieces end, and how many characters this fragment has there."""
        ends, chars = places + self.context.pieces.sizes[pieces], self.document.tape.chars
        return ends, self.chars + chars[ends] - chars[places]

    def crossing(self, pieces: Ints, places: Ints, left: int) -> Ints:
        """The tokens that begin with one of these pieces and run into a mark that may follow."""
        known, end = self.context.pieces, self.context.grammar.end.text
        crosses = known.crosses[pieces]
        pieces, places = pieces[crosses], places[crosses]
        sure, found = not self.tight(left), []
        for piece in set(pieces[self.may_end(*self.ends(pieces, places))].tolist()):
            for number in known.crossing[piece]:
                token = known.strings[number]
                ending = sure and end.startswith(token[known.sizes[piece] :])
                if ending or leads(self, token, left):
                    found.append(number)
        return np.array(found, np.int32)

    def opened(self, start: bytes, left: int) -> list[int]:
        """The pieces that begin with `start` and go on with words that may be written here."""
        longer = self.context.pieces.longer(start)
        begins = self.document.begins(longer.heads, self.floor)
        good = begins & longer.whole & (not self.tight(left))
        for at in np.flatnonzero((begins | longer.marked) & ~good):
            good[at] = leads(self, longer.rests[at], left)
        return [longer.first + int(at) for at in np.flatnonzero(good)]


Thread = Free | Literal | Text


def after(threads: Iterable[Thread], data: bytes) -> list[Thread]:
    """What these threads become when the bytes are written; nothing, where they may not be."""
    threads = list(threads)
    for byte in data:
        threads = list(_distinct(new for old in threads for new in old.step(byte)))
    return threads


def leads(thread: Thread, token: bytes, left: int) -> bool:
    """Whether the token may be written, and the answer still be ended: `left` counts both."""
    return any(thread.need() < left for thread in after([thread], token))


def _distinct(threads: Iterable[Thread]) -> Iterator[Thread]:
    """Of those that allow the same from here on, the one whose quotes stand first."""
    seen: set[int] = set()
    for thread in threads:
        if isinstance(thread, Free):
            if thread.at in seen:
                continue
            seen.add(thread.at)
        yield thread

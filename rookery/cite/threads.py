"""Ways to read what was written so far, and what each allows to be written next.

A thread is in free text and marks, in words that can only be written in one way, or in words of a
document. These are known by the set of positions where they end in it, so that where a quote comes
from is never searched for. Threads know nothing of each other.

Each can `step` over one byte, to the threads that it becomes, and over the `ended` answer; it may
`need` so many tokens to the end of the answer at least; and it has `ids` that may come next when so
many tokens are `left`, and so many of them for `free` text: ascending, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rookery.cite.grammar import Grammar
from rookery.cite.matches import Document
from rookery.cite.pieces import NEVER, Written
from rookery.cite.trie import Ints, Rows


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
        threads: list[Literal | Text] = [*titles, *self.texts(())]
        self.far = self.longest_exit + max((thread.far() for thread in threads), default=0)
        """tokens with which free text can be ended from wherever it may have come to"""
        self._known: dict[tuple[int, int], Ints] = {}
        self.masks: dict[int, Ints | None] = {}
        """of long arrays of ids that are kept, by their identity, the bits, once they were made"""

    def known(self, place: tuple[int, int], find: Callable[[], Ints]) -> Ints:
        """What may come next at this place, if the end is far; it is found once.

        A place is -1 and a state of the frame, or a document and how much of its title is written:
        -1 where a quote begins.
        """
        if place not in self._known:
            self._known[place] = ids = find()
            if len(ids) > 1000:
                self.masks.setdefault(id(ids))
        return self._known[place]

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
        if left > self.context.far and free > self.context.longest_exit:
            return self.context.known((-1, self.at), lambda: self.found(left, free))
        return self.found(left, free)

    def found(self, left: int, free: int) -> Ints:
        """The same, however far the end is."""
        context = self.context
        ids, after, entering = context.grammar.free(self.at)
        ids = ids[((context.needs < left) & (context.exits < free))[after]]
        return context.grammar.union(ids, self.entering(entering, left))

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
        return max(self.words.costs) + self.then.far()

    def ids(self, left: int, free: int) -> Ints:
        context = self.then.context
        if left > context.far and not self.then.floor:
            return context.known((self.then.number, self.at), lambda: self.found(left))
        return self.found(left)

    def found(self, left: int) -> Ints:
        """The same, however far the end is."""
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

    def far(self) -> int:
        """Tokens to the end of the answer at most, by the shortest way, from here or further on."""
        return self.document.far + self.context.close

    def ways(self, positions: Ints, chars: Ints | int) -> Ints:
        """Bytes from each of these positions to where the quote can end."""
        shape = self.context.shape
        return self.document.tape.way(positions, chars, shape.shortest, shape.longest - self.spent)

    def begins(self) -> Ints:
        """Where this fragment may begin."""
        return self.document.starts[self.document.starts.searchsorted(self.floor) :]

    def tight(self, left: int) -> bool:
        """Whether the end may be so near that not all that stands here may be written."""
        chars = self.spent + self.chars + self.context.pieces.widest + self.document.far
        return left <= self.far() or chars > self.context.shape.longest

    def ids(self, left: int, free: int) -> Ints:
        if left > self.context.far and not (self.size or self.floor):
            return self.context.known((self.number, -1), lambda: self.found(left, free))
        return self.found(left, free)

    def found(self, left: int, free: int) -> Ints:
        """The same, however far the end is."""
        tight = self.tight(left)
        which, places = self.standing(tight)
        found = [thread.ids(left, free) for thread in self.closing()]
        found.append(self.near(which, places, left) if tight else self.onward(which))
        marked = self.document.marked[which]
        if marked.any():
            found.append(self.crossing(which[marked], places[marked], left))
        return self.context.grammar.union(*found)

    def standing(self, tight: bool) -> tuple[Ints, Ints]:
        """Which of the document's pieces may be next, and where each stands; where the end is far,
        one place of each will do."""
        document, last = self.document, self.document.last
        if self.size or tight:
            positions = self.positions if self.size else self.begins()
            which = document.longest[positions]
            if tight or len(positions) < 100:
                return which, positions
            last = np.full_like(last, -1)
            last[which] = positions
        which = np.flatnonzero(last >= self.floor).astype(np.int32)
        return which, last[which]

    def onward(self, which: Ints) -> Ints:
        """The ids of words, where these pieces may be next and the end is far."""
        anywhere = not (self.size or self.floor)
        return self.document.opening if anywhere else self.document.ids_of(which)

    def near(self, which: Ints, places: Ints, left: int) -> Ints:
        """The ids of words after which the quote can still be ended in time."""
        pieces, ends, chars = self.begun(self.context.pieces.prefixes, which, places)
        ways = self.ways(ends, chars)
        return self.context.pieces.ids_of(pieces[ways + self.context.close < left])

    def begun(self, prefixes: Rows, which: Ints, places: Ints) -> tuple[Ints, Ints, Ints]:
        """Those that these pieces begin with, where each ends, and how many characters this
        fragment has there."""
        longest, chars = self.document.pieces[which], self.document.tape.chars
        pieces, places = prefixes.of(longest), places.repeat(prefixes.sizes(longest))
        ends = places + self.context.pieces.sizes[pieces]
        return pieces, ends, self.chars + chars[ends] - chars[places]

    def crossing(self, which: Ints, places: Ints, left: int) -> Ints:
        """The ids that begin as these pieces do and run into a mark that may follow."""
        known, end = self.context.pieces, self.context.grammar.end.text
        pieces, ends, chars = self.begun(known.prefixes_crossing, which, places)
        sure, found = not self.tight(left), []
        for piece in set(pieces[self.may_end(ends, chars)].tolist()):
            for number in known.crossing[piece]:
                token = known.strings[number]
                ending = sure and end.startswith(token[known.sizes[piece] :])
                if ending or leads(self, token, left):
                    found.append(number)
        return known.ids_of(found)

    def opened(self, start: bytes, left: int) -> list[int]:
        """The pieces that begin with `start` and go on with words that may be written here."""
        longer, ids = self.context.pieces.longer(start), self.onward(self.standing(False)[0])
        begins = ids.take(ids.searchsorted(longer.heads), mode="clip") == longer.heads
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

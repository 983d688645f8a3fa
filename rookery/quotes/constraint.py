"""Constrained decoding: only quotes that stand verbatim in given documents can be sampled.

GopherCite's constrained sampling (appendix J of arXiv 2203.11147), over bytes. At every step it
gives the token ids that may come next: ids that spell the citation syntax, a document's title, or
words of the document of that title. Words may be cut into tokens in any way, and a token may run
across a mark. Probabilities are the caller's.

    grammar = VerbatimGrammar(read_vocabulary(Path("tokenizer.json"), "</s>"))
    constraint = VerbatimConstraint(grammar, [("Crows", "Crows are clever.")])
    state = constraint.start_decoding(budget=64)
    while not state.done:
        state = state.append_token(choose(state.find_allowed_ids()))

A text can be read in several ways while it is written, so the parser is simulated as a
nondeterministic automaton (Thompson, Pike): each `ParserThread` is one reading, and a byte takes
every thread to its successors. A thread in words of a document carries the array of all positions
at which the words end, so that a step is one comparison of arrays and the place of a quote is known
without a search, even where the words stand a thousand times.

It is fast because most steps compute nothing. Which ids may follow in free text, in a title or at
the beginning of a quote depends on the budget only near its end; before that, one array is computed
for each such place and reused. Inside a quote the ids come from rows that `index_document` made
once. Near the end of the budget each candidate is checked by itself, which is slower and rare.

A `VerbatimGrammar` holds everything that depends on the vocabulary and the answer's shape alone; it
is made once. An `IndexedDocument` holds everything that depends on one text besides; it is made
once for each document and reused for every question. Both are numpy arrays, since decoding has well
under a millisecond for each step and the vocabulary is too large for a Python loop.

The frame automaton reads the text around titles and quotes. It spells out the marks of
`rookery.quotes.citation_syntax` as the parser reads them: a mark ends what it stands in unless an
odd number of backslashes precedes it. It stops in the state `title`, and goes on from `quoted`
after the words of a quote.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rookery.quotes.citation_syntax import WORDS_END, AnswerForm, AnswerShape, render_inline
from rookery.quotes.vocabulary import (
    NEVER,
    SEPARATORS,
    ByteArray,
    IntArray,
    RaggedArray,
    SpelledText,
    TokenPieces,
    Vocabulary,
    number_distinct,
    sort_distinct,
)
from rookery.records import Answer, Claim, Page

TransitionTable = dict[str, tuple[str, dict[str, str]]]
"""for each state: the next state for any other character, and the next state for these
characters"""

_CLAIM: TransitionTable = {
    # A claim is not empty: `%<>%(` is a dead end, and `%<>>%(` is the claim `>`.
    "opened": ("claim", {">": "claim is >", "\\": "claim\\"}),
    "claim is >": ("claim", {">": "claim>", "%": "claim is >%", "\\": "claim\\"}),
    "claim is >%": ("claim", {">": "claim>", "(": "nowhere", "\\": "claim\\"}),
    "claim": ("claim", {">": "claim>", "\\": "claim\\"}),
    "claim>": ("claim", {">": "claim>", "%": "claim>%", "\\": "claim\\"}),
    "claim>%": ("claim", {">": "claim>", "(": "title", "\\": "claim\\"}),
    "claim\\": ("claim", {}),
    "quoted": ("nowhere", {"]": "quoted]"}),
    "title": ("in title", {}),
    "in title": ("in title", {}),
}
_ONE_CLAIM = _CLAIM | {
    "start": ("nowhere", {"%": "start%"}),
    "start%": ("nowhere", {"<": "opened"}),
    "quoted]": ("nowhere", {"%": "closed"}),
    "closed": ("nowhere", {}),
}
_ANSWER = _CLAIM | {
    "start": ("start", {"%": "start%", "\\": "start\\"}),
    "start%": ("start", {"%": "start%", "<": "opened", "\\": "start\\"}),
    "start\\": ("start", {}),
    "quoted]": ("nowhere", {"%": "closed"}),
    # Straight after a quote, more evidence for the same claim may follow.
    "closed": ("after", {"%": "closed%", "\\": "after\\"}),
    "closed%": ("after", {"%": "after%", "<": "opened", "(": "title", "\\": "after\\"}),
    "after": ("after", {"%": "after%", "\\": "after\\"}),
    "after%": ("after", {"%": "after%", "<": "opened", "\\": "after\\"}),
    "after\\": ("after", {}),
}
_TABLES: dict[AnswerForm, TransitionTable] = {"claim": _ONE_CLAIM, "answer": _ANSWER}
_TABLES["quote"] = {"closed": ("nowhere", {})}
_MAY_END = ("closed", "closed%", "after", "after%", "after\\", "done")

# UTF-8: first bytes (from, to), number of bytes that follow, and bounds of the first of those.
_TAILS = (
    (0xC2, 0xDF, 1, 0x80, 0xBF), (0xE0, 0xE0, 2, 0xA0, 0xBF), (0xE1, 0xEC, 2, 0x80, 0xBF),
    (0xED, 0xED, 2, 0x80, 0x9F), (0xEE, 0xEF, 2, 0x80, 0xBF), (0xF0, 0xF0, 3, 0x90, 0xBF),
    (0xF1, 0xF3, 3, 0x80, 0xBF), (0xF4, 0xF4, 3, 0x80, 0x8F),
)  # fmt: skip


class FrameAutomaton(NamedTuple):
    """Deterministic automaton over bytes. State 0 is a dead end."""

    step: ByteArray
    """next state, states × 256 bytes"""
    names: dict[str, int]
    """number of each state by its name"""
    to_title: IntArray
    """for each state, the fewest bytes to the beginning of a title"""
    to_end: IntArray
    """for each state, the fewest bytes to a state in which the answer may end"""

    @property
    def may_end(self) -> list[int]:
        """Numbers of the states in which the answer is complete."""
        return [number for name, number in self.names.items() if name in _MAY_END]


def build_frame(form: AnswerForm, spelt: Sequence[int]) -> FrameAutomaton:
    """Build the automaton of one answer form, for a vocabulary that can spell these bytes."""
    steps: dict[str, dict[int, str]] = {"nowhere": {}, "done": {}}
    for name, (other, marks) in _TABLES[form].items():
        steps[name] = dict.fromkeys(range(256 if "title" in other else 128), other)
        steps[name] |= {ord(mark): to for mark, to in marks.items()}
        for first, last, *tail in _TAILS if other not in ("nowhere", "in title") else ():
            following = _add_utf8_tail(steps, other, *tail)
            steps[name] |= dict.fromkeys(range(first, last + 1), following)
    names = {name: number for number, name in enumerate(steps)}
    step = np.zeros((len(names), 256), np.uint8)
    for name, onward in steps.items():
        for byte, to in onward.items():
            step[names[name], byte] = names[to]
    heading = [names["title"]] if "title" in names else []
    ending = [names[name] for name in _MAY_END if name in names]
    distances = (_measure_distances(step, goals, spelt) for goals in (heading, ending))
    return FrameAutomaton(step, names, *distances)


def _add_utf8_tail(
    steps: dict[str, dict[int, str]], to: str, count: int, low: int, high: int
) -> str:
    """Add and return the name of the state in which `count` bytes of a UTF-8 character are missing
    and the next one lies from `low` to `high`."""
    if count == 0:
        return to
    name = f"{to}, then {count} bytes from {low:x} to {high:x}"
    if name not in steps:
        steps[name] = {}
        following = _add_utf8_tail(steps, to, count - 1, 0x80, 0xBF)
        steps[name] = dict.fromkeys(range(low, high + 1), following)
    return name


def _measure_distances(step: ByteArray, goals: Sequence[int], spelt: Sequence[int]) -> IntArray:
    """Return for each state the number of bytes to the nearest goal."""
    away = np.full(len(step), NEVER, np.int32)
    away[goals] = 0
    for _ in step:
        away = np.minimum(away, away[step[:, spelt]].min(axis=1) + 1)
    return np.minimum(away, NEVER)


class VerbatimGrammar:
    """Everything that an answer shape allows with one vocabulary, made once for any number of
    documents.

    Raises ValueError if the vocabulary cannot spell the marks byte by byte.
    """

    def __init__(self, vocabulary: Vocabulary, shape: AnswerShape = AnswerShape()) -> None:
        self.vocabulary = vocabulary
        self.shape = shape
        marks = [mark.encode() for mark in shape.reserved]
        self.pieces = TokenPieces(vocabulary, marks, shape.shortest)
        self._require_spellable_marks()
        self.end = self.pieces.spell_text("" if shape.form == "quote" else WORDS_END)
        self.join = self.pieces.spell_text(shape.join)
        self.frame = build_frame(shape.form, sorted(self.pieces.single_bytes))
        self._after = self._compute_transitions()
        self._free: dict[int, tuple[IntArray, ByteArray, IntArray]] = {}
        self.digest = _compute_digest(vocabulary, shape)
        """fingerprint of vocabulary and shape; a document must have been indexed for the same
        one"""

    def _require_spellable_marks(self) -> None:
        marks = "" if self.shape.form == "quote" else "%<>()[]"
        for mark in marks + (self.shape.join if self.shape.fragments > 1 else ""):
            if not self.pieces.single_bytes.issuperset(mark.encode()):
                raise ValueError(
                    f"the vocabulary has no tokens that spell {mark!r} byte by byte: choose a "
                    "tokenizer with an alphabet of all 256 bytes"
                )

    def _compute_transitions(self) -> ByteArray:
        """Return the frame's state after each token, frame states × ids; 0 where the token may not
        follow.

        The trie runs every token from every state at once. States from which neither a title nor an
        end can be reached count as dead ends.
        """
        names, of_ids = self.frame.names, self.pieces.piece_by_id
        after = self.pieces.trie.run_automaton(self.frame.step)[:, of_ids]
        after[:, of_ids < 0] = names["nowhere"]
        for state in self.frame.may_end:
            after[state, self.vocabulary.end] = names["done"]
        hopeless = np.minimum(self.frame.to_title, self.frame.to_end) >= NEVER
        hopeless[names.get("in title", 0)] = False
        after[hopeless[after]] = names["nowhere"]
        return after

    def find_free_text_ids(self, state: int) -> tuple[IntArray, ByteArray, IntArray]:
        """Return the ids allowed in a frame state of free text, as three arrays.

        They are the ids that stay in free text, the state after each, and the ids that run into a
        title or beyond it. Computed once for each state.
        """
        if state not in self._free:
            after = self._after[state]
            inside = after == self.frame.names.get("in title", -1)
            ids = np.flatnonzero((after != 0) & ~inside).astype(np.int32)
            self._free[state] = ids, after[ids], np.flatnonzero(inside).astype(np.int32)
        return self._free[state]

    def merge_ids(self, *id_sets: IntArray) -> IntArray:
        """Return the union of these arrays of ids, ascending, each id once."""
        some = [ids for ids in id_sets if len(ids)] or id_sets[:1]
        return sort_distinct(np.concatenate(some), self.vocabulary.width) if some[1:] else some[0]


def _compute_digest(vocabulary: Vocabulary, shape: AnswerShape) -> str:
    named = b"\xfe".join(b"\xff" if token is None else token for token in vocabulary.tokens)
    return hashlib.blake2b(repr(shape).encode() + named, digest_size=16).hexdigest()


LOST, CUT = (chr(0xDC00 + byte) for byte in SEPARATORS)
"""stands between two characters that no quote may hold together"""


class TextTape(NamedTuple):
    """Text as bytes, with separators in it and one at its end. Positions lie between bytes."""

    data: ByteArray
    chars: IntArray
    """characters of the original text that begin before each position"""
    after: IntArray
    """position after each number of characters"""
    ends: IntArray
    """for each position, the first one from there on at which a quote may end"""
    stop: IntArray
    """for each position, the first separator from there on"""

    def count_bytes_to_end(
        self, positions: IntArray, chars: IntArray | int, shortest: int, longest: int
    ) -> IntArray:
        """Return for each position the fewest bytes to a permitted end of a quote.

        The quote has `chars` characters at the position. NEVER where it cannot be ended with
        `shortest` to `longest` characters before a separator.
        """
        chars_at_end = self.chars[positions] + np.maximum(shortest - chars, 0)
        ends = self.ends[np.maximum(positions, self.after.take(chars_at_end, mode="clip"))]
        length = chars + self.chars[ends] - self.chars[positions]
        good = (chars_at_end < len(self.after)) & (ends <= self.stop[positions])
        good &= length <= longest
        return np.where(good, ends - positions, np.int32(NEVER))


class IndexedDocument(NamedTuple):
    """Document indexed for one grammar, as arrays. Can be pickled and reused for other
    questions."""

    title: SpelledText
    """the title as it stands between `%(` and the quote"""
    tape: TextTape
    pieces: IntArray
    """the longest piece at each position, ascending and each once; all tokens there are prefixes of
    it"""
    marked: npt.NDArray[np.bool_]
    """for each of these pieces, True where tokens begin as it does and run into a mark"""
    longest: IntArray
    """for each position, which of these pieces is the longest there"""
    ids: IntArray
    """ids of all tokens that stand anywhere in the text, ascending"""
    rows: RaggedArray
    """for each of these pieces, indices into `ids` of the tokens that stand where it does"""
    starts: IntArray
    """positions at which a quote may begin, ascending"""
    ways: IntArray
    """from each start, the bytes of the shortest quote that begins there or later"""
    heads: RaggedArray
    """starts of quotes by their first byte"""
    last: IntArray
    """for each of these pieces, the last start at which it is the longest, or -1"""
    opening: IntArray
    """ids that a quote may begin with, ascending"""
    far: int
    """bytes that suffice to end a quote from any position that it can have reached"""
    grammar: str
    """digest of the grammar that it was indexed for"""

    def find_openings(self, byte: int, floor: int) -> IntArray:
        """Return the positions from `floor` on, ascending, where a quote may start with `byte`."""
        starts = self.heads.values[self.heads.bounds[byte] : self.heads.bounds[byte + 1]]
        return starts[starts.searchsorted(floor) :]

    def find_ids(self, which: IntArray) -> IntArray:
        """Return the ids that stand where these pieces do, ascending, each once."""
        return self.ids[sort_distinct(self.rows.gather_values(which), len(self.ids))]


def index_document(grammar: VerbatimGrammar, title: str, text: str) -> IndexedDocument:
    """Index a document for quoting.

    All tokens that stand at a position are prefixes of the longest piece there, so one number for
    each position stands for them all, and the ids are listed once for each distinct piece instead
    of once for each position. The arrays take about 40 bytes for each byte of the text.
    """
    shape, pieces = grammar.shape, grammar.pieces
    separated = _insert_separators(text, shape.reserved, pieces.single_bytes)
    tape = _encode_tape(separated, escapes=shape.form != "quote")
    matches = pieces.trie.find_longest_matches(tape.data)
    texts, longest = number_distinct(matches, len(pieces.strings) + 1)
    bounds, prefix_ids = pieces.prefix_ids.select_rows(texts)
    ids, places = number_distinct(prefix_ids, len(pieces.piece_by_id))
    rows = RaggedArray(bounds, places)
    starts = np.flatnonzero(tape.data & 0xC0 != 0x80).astype(np.int32)
    if shape.fragments > 1 and shape.form != "quote":
        starts = starts[tape.data[starts] != ord("%")]  # `[...]%` would end the quote
    ways = tape.count_bytes_to_end(starts, 0, shape.shortest, shape.longest)
    starts, ways = starts[ways < NEVER], ways[ways < NEVER]
    last = np.full(len(texts), -1, np.int32)
    last[longest[starts]] = starts  # numpy keeps the last of several
    begun = np.flatnonzero(last >= 0).astype(np.int32)
    rests = tape.ends - np.arange(len(tape.ends))
    return IndexedDocument(
        title=_spell_title(grammar, title),
        tape=tape,
        pieces=texts,
        marked=pieces.prefixes_crossing.count_values(texts) > 0,
        longest=longest,
        ids=ids,
        rows=rows,
        starts=starts,
        ways=np.minimum.accumulate(ways[::-1])[::-1],
        heads=_group_by_byte(starts, tape.data[starts]),
        last=last,
        opening=ids[sort_distinct(rows.gather_values(begun), len(ids))],
        far=int(max(ways.max(initial=0), rests[tape.ends <= tape.stop].max(initial=0))),
        grammar=grammar.digest,
    )


def _spell_title(grammar: VerbatimGrammar, title: str) -> SpelledText:
    page = Page("", title, "x")
    answer = Answer("x", (page.quote(0, 1),), (Claim(0, 1, (0,)),))
    rendered = render_inline(answer, [page])
    return grammar.pieces.spell_text(rendered.removeprefix("%<x>%(").removesuffix("x]%"))


def _insert_separators(text: str, reserved: Sequence[str], spelt: frozenset[int]) -> str:
    """Return the text with separators at the places that no quote may contain."""
    text = re.sub("[\ud800-\udfff]", LOST, text)  # lone surrogates have no UTF-8
    lost = [char for char in set(text) - {LOST} if not spelt.issuperset(char.encode())]
    if lost:
        text = text.translate(dict.fromkeys(map(ord, lost), LOST))
    for mark in reserved:
        text = text.replace(mark, mark[:-1] + CUT + mark[-1] if mark[1:] else LOST)
    return text + CUT


def _encode_tape(text: str, escapes: bool) -> TextTape:
    data = np.frombuffer(text.encode("utf-8", "surrogateescape"), np.uint8)
    boundary = data & 0xC0 != 0x80
    begun = (boundary & (data != SEPARATORS[1])).cumsum(dtype=np.int32)
    chars = np.append(np.int32(0), begun)
    between = np.flatnonzero(boundary)[::-1].astype(np.int32)
    after = np.empty(begun[-1] + 1, np.int32)
    # numpy keeps the last of several, and they come in descending order
    after[chars[between]] = between
    stop = _find_next(data >= SEPARATORS[0])
    # In the inline syntax a backslash before the end of the quote would escape it.
    ends = _find_next(boundary & (np.append(0, data[:-1]) != ord("\\")) if escapes else boundary)
    # Bytes after the last valid end before a separator belong to no quote.
    lost = np.append(ends > stop, False)[1:]
    return TextTape(np.where(lost, np.uint8(SEPARATORS[0]), data), chars, after, ends, stop)


def _find_next(present: npt.NDArray[np.bool_]) -> IntArray:
    """Return for each position the first True from there on, or the size where there is none."""
    size = len(present)
    places = np.where(present, np.arange(size, dtype=np.int32), np.int32(size))
    return np.minimum.accumulate(places[::-1])[::-1]


def _group_by_byte(positions: IntArray, data: ByteArray) -> RaggedArray:
    order = data.argsort(kind="stable")
    bounds = data[order].searchsorted(np.arange(257)).astype(np.int32)
    return RaggedArray(bounds, positions[order])


class QuoteFragmentSpan(NamedTuple):
    """Span of characters [start, end) in one document of a constraint; documents count from 0."""

    document: int
    start: int
    end: int


QuoteFragmentSpans = tuple[tuple[QuoteFragmentSpan, ...], ...]
"""for each quote the spans of its fragments; one span where fragments are not joined"""


class DecodingContext:
    """Data shared by the parser threads of one constraint: grammar, documents, cached ids."""

    def __init__(self, grammar: VerbatimGrammar, documents: Sequence[IndexedDocument]) -> None:
        self.grammar, self.shape, self.pieces = grammar, grammar.shape, grammar.pieces
        self.documents = documents
        names, frame = grammar.frame.names, grammar.frame
        self.steps: list[list[int]] = frame.step.tolist()
        self.title_state = names.get("title", -1)
        self.quoted_state = names["closed" if self.shape.form == "quote" else "quoted"]
        self.done_state = names["done"]
        self.marks = {mark.encode()[0] for mark in self.shape.reserved}
        """first bytes of the marks that may follow words of a document"""
        self.closing_tokens = grammar.end.costs[0] + 1
        """tokens from the last word of a quote to the end of the answer, the end token included"""
        titles = list(self.start_titles(()))
        title = min((thread.count_tokens_needed() for thread in titles), default=NEVER)
        self.needs = np.minimum(frame.to_title + title, frame.to_end + 1)
        """for each frame state, tokens that suffice to reach the end of the answer"""
        self.exits = np.minimum(frame.to_title, frame.to_end + 1)
        """for each frame state, tokens that suffice to leave free text"""
        self.needs[self.done_state] = self.exits[self.done_state] = 0
        self.max_exit_tokens = int(self.exits[self.exits < NEVER].max())
        threads: list[LiteralThread | QuoteThread] = [*titles, *self.start_quotes(())]
        bounds = (thread.bound_tokens_needed() for thread in threads)
        self.max_ending_tokens = self.max_exit_tokens + max(bounds, default=0)
        """tokens that suffice to end the answer from any place that free text can lead to"""
        self._ids_by_place: dict[tuple[int, int], IntArray] = {}
        """allowed ids by place, computed while the end of the budget is far"""

    def remember_ids(
        self, place: tuple[int, int], thread: ParserThread, tokens_left: int, free: int
    ) -> IntArray:
        """Return the cached ids of a place, which the thread computes the first time.

        Valid only while the end of the budget is far. A place is (-1, frame state) in free text,
        (document, bytes of the title written) in a title, or (document, -1) at the beginning of a
        quote.
        """
        if place not in self._ids_by_place:
            self._ids_by_place[place] = thread.compute_allowed_ids(tokens_left, free)
        return self._ids_by_place[place]

    def start_titles(self, quotes: QuoteFragmentSpans) -> Iterator[LiteralThread]:
        """Yield a thread at the start of each title that can be spelled, before its document."""
        for text in self.start_quotes(quotes):
            if text.document.title.costs[0] < NEVER:
                yield LiteralThread(text.document.title, 0, text)

    def start_quotes(self, quotes: QuoteFragmentSpans) -> Iterator[QuoteThread]:
        """Yield a thread before the first word of a quote, for each document that can be quoted."""
        for number, document in enumerate(self.documents):
            if len(document.starts):
                yield QuoteThread(self, number, document, quotes)


class FreeTextThread(NamedTuple):
    """Thread in free text or in the marks around it."""

    context: DecodingContext
    at: int
    """state of the frame automaton"""
    quotes: QuoteFragmentSpans

    def step_byte(self, byte: int) -> Iterator[ParserThread]:
        """Yield the threads after one more byte; none where the byte is not allowed."""
        at = self.context.steps[self.at][byte]
        if at == self.context.title_state:
            yield from self.context.start_titles(self.quotes)
        elif at:
            yield self._replace(at=at)

    def end_answer(self) -> Iterator[FreeTextThread]:
        """Yield the thread after the end token, if the answer may end here."""
        if self.at in self.context.grammar.frame.may_end:
            yield self._replace(at=self.context.done_state)

    def count_tokens_needed(self) -> int:
        """Return a number of tokens that suffices from here to the end token, itself included."""
        return int(self.context.needs[self.at])

    def find_allowed_ids(self, tokens_left: int, free: int) -> IntArray:
        """Return the ids allowed next, ascending; cached while the end of the budget is far.

        `tokens_left` is the number of tokens left, `free` how many of them may go into free text.
        """
        if tokens_left > self.context.max_ending_tokens and free > self.context.max_exit_tokens:
            return self.context.remember_ids((-1, self.at), self, tokens_left, free)
        return self.compute_allowed_ids(tokens_left, free)

    def compute_allowed_ids(self, tokens_left: int, free: int) -> IntArray:
        """Compute the ids allowed next, ascending.

        `tokens_left` is the number of tokens left, `free` how many of them may go into free text.
        """
        context = self.context
        ids, after, entering = context.grammar.find_free_text_ids(self.at)
        ids = ids[((context.needs < tokens_left) & (context.exits < free))[after]]
        return context.grammar.merge_ids(ids, self.filter_title_ids(entering, tokens_left))

    def filter_title_ids(self, ids: IntArray, tokens_left: int) -> IntArray:
        """Return those of the ids, each of which runs into a title, that some title allows."""
        tokens = self.context.grammar.vocabulary.tokens
        found = [n for n in ids.tolist() if can_write_token(self, tokens[n] or b"", tokens_left)]
        return np.array(found, np.int32)

    def list_quotes(self) -> QuoteFragmentSpans:
        """Return the spans of the quotes written so far."""
        return self.quotes


class LiteralThread(NamedTuple):
    """Thread in text that can be written in one way only, before a quote: a title or a join
    mark."""

    words: SpelledText
    at: int
    then: QuoteThread

    def step_byte(self, byte: int) -> Iterator[ParserThread]:
        """Yield the thread after one more byte, if it is the next byte of the literal."""
        if self.words.text[self.at] == byte:
            whole = self.at + 1 == len(self.words.text)
            yield self.then if whole else self._replace(at=self.at + 1)

    def end_answer(self) -> Iterator[FreeTextThread]:
        """Yield nothing: an answer cannot end inside a literal."""
        yield from ()

    def count_tokens_needed(self) -> int:
        """Return a number of tokens that suffices to end the answer from here."""
        return self.words.costs[self.at] + self.then.count_tokens_needed()

    def bound_tokens_needed(self) -> int:
        """Return a number of tokens that suffices to end the answer from here or anywhere after."""
        return max(self.words.costs) + self.then.bound_tokens_needed()

    def find_allowed_ids(self, tokens_left: int, free: int) -> IntArray:
        """Return the ids allowed next, ascending; cached while the end of the budget is far.

        `tokens_left` is the number of tokens left; `free` does not count here.
        """
        context = self.then.context
        if tokens_left > context.max_ending_tokens and not self.then.floor:
            return context.remember_ids((self.then.number, self.at), self, tokens_left, free)
        return self.compute_allowed_ids(tokens_left, free)

    def compute_allowed_ids(self, tokens_left: int, free: int) -> IntArray:
        """Compute the ids allowed next, ascending; `free` does not count here."""
        pieces, need = self.then.context.pieces, self.then.count_tokens_needed()
        rest = self.words.text[self.at : self.at + pieces.widest]
        costs = self.words.costs[self.at :]
        allowed = [
            number
            for size in range(1, len(rest) + 1)
            if (number := pieces.tokens.get(rest[:size])) is not None
            and costs[size] + need < tokens_left
        ]
        if len(rest) == len(costs) - 1:
            allowed += self.then.find_pieces_after(rest, tokens_left)
        return pieces.find_ids(allowed)

    def list_quotes(self) -> QuoteFragmentSpans:
        """Return the spans of the quotes written so far."""
        return self.then.list_quotes()


class QuoteThread(NamedTuple):
    """Thread in words of a document, or just before the first of them."""

    context: DecodingContext
    number: int
    """index of the document within the constraint"""
    document: IndexedDocument
    quotes: QuoteFragmentSpans
    """spans of earlier quotes"""
    fragments: tuple[QuoteFragmentSpan, ...] = ()
    """spans of earlier fragments of this quote"""
    spent: int = 0
    """characters of the earlier fragments"""
    floor: int = 0
    """first position at which this fragment may begin"""
    positions: IntArray = np.empty(0, np.int32)
    """all positions at which the words so far may end, ascending; empty before the first word"""
    size: int = 0
    """bytes of the words so far"""
    chars: int = 0
    """characters of the words so far; the last may be incomplete"""

    def step_byte(self, byte: int) -> Iterator[ParserThread]:
        """Yield the threads after one more byte: on in the words, or into the mark after them."""
        if self.size:
            positions = self.positions[self.document.tape.data[self.positions] == byte]
        else:
            positions = self.document.find_openings(byte, self.floor)
        if len(positions):
            chars = self.chars + (byte & 0xC0 != 0x80)
            yield self._replace(positions=positions + 1, size=self.size + 1, chars=chars)
        if byte in self.context.marks:
            for thread in self.close_fragment():
                yield from thread.step_byte(byte)

    def end_answer(self) -> Iterator[FreeTextThread]:
        """Yield the thread after the end token, if the quote may end here without another mark."""
        for thread in self.close_fragment():
            yield from thread.end_answer()

    def close_fragment(self) -> Iterator[FreeTextThread | LiteralThread]:
        """Yield the threads that follow the words, if they may end here.

        One goes on with the mark that closes the quote, one with a join mark and another fragment.
        """
        # If one position may be the end, all may, since the bytes before them are the same.
        if self.size and self.mask_valid_ends(self.positions[:1], self.chars)[0]:
            fragments = (*self.fragments, self.locate_words())
            yield FreeTextThread(self.context, self.context.quoted_state, (*self.quotes, fragments))
            if len(fragments) < self.context.shape.fragments:
                begun = (self.context, self.number, self.document, self.quotes, fragments)
                then = QuoteThread(*begun, self.spent + self.chars, int(self.positions[0]))
                if then.count_tokens_needed() < NEVER:
                    yield LiteralThread(self.context.grammar.join, 0, then)

    def mask_valid_ends(self, positions: IntArray, chars: IntArray | int) -> npt.NDArray[np.bool_]:
        """Return a boolean for each position: may the words end there with this many characters?"""
        shape = self.context.shape
        enough = (chars >= shape.shortest) & (chars <= shape.longest - self.spent)
        ends: npt.NDArray[np.bool_] = enough & (self.document.tape.ends[positions] == positions)
        return ends

    def locate_words(self) -> QuoteFragmentSpan:
        """Return the span of the first place where the words stand."""
        chars, end = self.document.tape.chars, self.positions[0]
        return QuoteFragmentSpan(self.number, int(chars[end - self.size]), int(chars[end]))

    def list_quotes(self) -> QuoteFragmentSpans:
        """Return the spans of all quotes so far, the unfinished one included."""
        begun = (*self.fragments, self.locate_words()) if self.size else self.fragments
        return (*self.quotes, begun) if begun else self.quotes

    def count_tokens_needed(self) -> int:
        """Return a number of tokens that suffices to end the answer from here.

        The words of the shortest quote are counted byte by byte, since every byte left in an
        indexed text is a token of its own.
        """
        if self.size:
            ways = self.count_bytes_to_end(self.positions, self.chars)
        elif self.spent:  # fewer characters are left than a first fragment may have
            ways = self.count_bytes_to_end(self.list_fragment_starts(), 0)
        else:
            ways = self.document.ways[:1]
        return int(ways.min(initial=NEVER)) + self.context.closing_tokens

    def bound_tokens_needed(self) -> int:
        """Return a number of tokens that suffices to end the answer from here or anywhere after."""
        return self.document.far + self.context.closing_tokens

    def count_bytes_to_end(self, positions: IntArray, chars: IntArray | int) -> IntArray:
        """Return for each position the bytes to the nearest place where the quote can end."""
        shortest, longest = self.context.shape.shortest, self.context.shape.longest - self.spent
        return self.document.tape.count_bytes_to_end(positions, chars, shortest, longest)

    def list_fragment_starts(self) -> IntArray:
        """Return the positions at which this fragment may begin."""
        return self.document.starts[self.document.starts.searchsorted(self.floor) :]

    def is_end_near(self, tokens_left: int) -> bool:
        """Return True where the budget or the longest quote may forbid words that stand here."""
        chars = self.spent + self.chars + self.context.pieces.widest + self.document.far
        return tokens_left <= self.bound_tokens_needed() or chars > self.context.shape.longest

    def find_allowed_ids(self, tokens_left: int, free: int) -> IntArray:
        """Return the ids allowed next, ascending; cached only before a quote, far from the end.

        `tokens_left` is the number of tokens left, `free` how many of them may go into free text.
        """
        if tokens_left > self.context.max_ending_tokens and not (self.size or self.floor):
            return self.context.remember_ids((self.number, -1), self, tokens_left, free)
        return self.compute_allowed_ids(tokens_left, free)

    def compute_allowed_ids(self, tokens_left: int, free: int) -> IntArray:
        """Compute the ids allowed next, ascending: words of the document or the mark after them.

        `tokens_left` is the number of tokens left, `free` how many of them may go into free text.
        """
        tight = self.is_end_near(tokens_left)
        which, places = self.find_candidate_pieces(tight)
        allowed = [thread.find_allowed_ids(tokens_left, free) for thread in self.close_fragment()]
        if tight:
            allowed.append(self.find_word_ids_near_end(which, places, tokens_left))
        else:
            allowed.append(self.find_word_ids(which))
        marked = self.document.marked[which]
        if marked.any():
            allowed.append(self.find_crossing_ids(which[marked], places[marked], tokens_left))
        return self.context.grammar.merge_ids(*allowed)

    def find_candidate_pieces(self, tight: bool) -> tuple[IntArray, IntArray]:
        """Return the numbers of the document's pieces that may come next, and a position of each.

        With `tight` (the end is near) every position is returned. While the end is far, one
        position of each piece is enough, since all allow the same ids. A hundred positions or more
        are therefore reduced to one of each piece; for fewer, that would cost more than it saves.
        """
        document, last = self.document, self.document.last
        if self.size or tight:
            positions = self.positions if self.size else self.list_fragment_starts()
            which = document.longest[positions]
            if tight or len(positions) < 100:
                return which, positions
            last = np.full_like(last, -1)
            last[which] = positions
        which = np.flatnonzero(last >= self.floor).astype(np.int32)
        return which, last[which]

    def find_word_ids(self, which: IntArray) -> IntArray:
        """Return the ids of the words that stand where these pieces do; the end must be far."""
        anywhere = not (self.size or self.floor)
        return self.document.opening if anywhere else self.document.find_ids(which)

    def find_word_ids_near_end(
        self, which: IntArray, places: IntArray, tokens_left: int
    ) -> IntArray:
        """Return the ids of words after which `tokens_left` tokens can still end the quote.

        `which` are pieces of the document, `places` their positions.
        """
        pieces, ends, chars = self.expand_prefixes(self.context.pieces.prefixes, which, places)
        ways = self.count_bytes_to_end(ends, chars)
        written = pieces[ways + self.context.closing_tokens < tokens_left]
        return self.context.pieces.find_ids(written)

    def expand_prefixes(
        self, prefixes: RaggedArray, which: IntArray, places: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Expand pieces to their prefixes.

        Return the prefixes, the position at which each ends, and the characters that this fragment
        has there.
        """
        longest, chars = self.document.pieces[which], self.document.tape.chars
        pieces = prefixes.gather_values(longest)
        places = places.repeat(prefixes.count_values(longest))
        ends = places + self.context.pieces.sizes[pieces]
        return pieces, ends, self.chars + chars[ends] - chars[places]

    def find_crossing_ids(self, which: IntArray, places: IntArray, tokens_left: int) -> IntArray:
        """Return the ids of tokens that begin with words of the document and run into a mark.

        `which` are pieces of the document, `places` their positions; a token begins with one of
        these pieces or with the beginning of one. The mark is what may follow a quote's words in
        the grammar. Tokens after which too few of `tokens_left` remain to end the answer are left
        out.
        """
        token_pieces, end = self.context.pieces, self.context.grammar.end.text
        pieces, ends, chars = self.expand_prefixes(token_pieces.prefixes_crossing, which, places)
        sure, crossing = not self.is_end_near(tokens_left), []
        for piece in set(pieces[self.mask_valid_ends(ends, chars)].tolist()):
            for number in token_pieces.crossing[piece]:
                token = token_pieces.strings[number]
                ending = sure and end.startswith(token[token_pieces.sizes[piece] :])
                if ending or can_write_token(self, token, tokens_left):
                    crossing.append(number)
        return token_pieces.find_ids(crossing)

    def find_pieces_after(self, start: bytes, tokens_left: int) -> list[int]:
        """Return the pieces that begin with `start` and go on in words that may be written here."""
        longer = self.context.pieces.find_continuations(start)
        ids = self.find_word_ids(self.find_candidate_pieces(False)[0])
        begins = ids.take(ids.searchsorted(longer.heads), mode="clip") == longer.heads
        good = begins & longer.whole & (not self.is_end_near(tokens_left))
        for at in np.flatnonzero((begins | longer.marked) & ~good):
            good[at] = can_write_token(self, longer.rests[at], tokens_left)
        return [longer.first + int(at) for at in np.flatnonzero(good)]


ParserThread = FreeTextThread | LiteralThread | QuoteThread
"""one reading of the text written so far"""


def advance_threads(threads: Iterable[ParserThread], data: bytes) -> list[ParserThread]:
    """Return the threads after these bytes, without equivalent ones; empty if none reads them."""
    threads = list(threads)
    for byte in data:
        after = (new for old in threads for new in old.step_byte(byte))
        threads = list(_drop_equivalent_threads(after))
    return threads


def can_write_token(thread: ParserThread, token: bytes, tokens_left: int) -> bool:
    """Return True if `tokens_left` tokens suffice for this one and the end of the answer.

    False, too, for a token that the thread cannot read.
    """
    after = advance_threads([thread], token)
    return any(each.count_tokens_needed() < tokens_left for each in after)


def _drop_equivalent_threads(threads: Iterable[ParserThread]) -> Iterator[ParserThread]:
    """Yield one free-text thread for each frame state: the one whose quotes stand first."""
    seen: set[int] = set()
    for thread in threads:
        if isinstance(thread, FreeTextThread):
            if thread.at in seen:
                continue
            seen.add(thread.at)
        yield thread


class VerbatimConstraint:
    """Set of texts that may be written from some documents, in the shape of the grammar.

    A document is (title, text), or an `IndexedDocument` that the caller keeps for other questions.
    Several may have one title. Documents that nothing can be quoted from are ignored. Raises
    ValueError if none is left, or if a document was indexed for another grammar.
    """

    def __init__(
        self, grammar: VerbatimGrammar, documents: Sequence[IndexedDocument | tuple[str, str]]
    ) -> None:
        ready = [
            item if isinstance(item, IndexedDocument) else index_document(grammar, *item)
            for item in documents
        ]
        for number, document in enumerate(ready):
            if document.grammar != grammar.digest:
                detail = "was indexed for another vocabulary or shape: index it again"
                raise ValueError(f"document {number} {detail}")
        self._context = context = DecodingContext(grammar, ready)
        self._threads: list[ParserThread] = list(context.start_quotes(()))
        if grammar.shape.form != "quote":
            self._threads = [FreeTextThread(context, grammar.frame.names["start"], ())]
        if not any(thread.count_tokens_needed() < NEVER for thread in self._threads):
            raise ValueError(
                f"none of the {len(ready)} documents has {grammar.shape.shortest} characters in a "
                "row that can be quoted under its title: give others, or lower AnswerShape.shortest"
            )

    def start_decoding(self, written: str = "", budget: int | None = None) -> DecodingState:
        """Return the decoding state before the first token.

        `written` is text that stands already, in the prompt or before: `%<The sky is blue>%(`
        leaves only the evidence to be written. `budget` is the number of tokens left, the end token
        included. Raises ValueError if `written` cannot be continued, or if the budget is too small
        for any answer.
        """
        threads = advance_threads(self._threads, written.encode("utf-8", "surrogatepass"))
        need = min((thread.count_tokens_needed() for thread in threads), default=NEVER)
        if need >= NEVER:
            raise ValueError(f"{written!r} is not the beginning of what may be written here")
        if budget is not None and budget < need:
            raise ValueError(f"{budget} tokens are too few: from here an answer may take {need}")
        tokens_left = NEVER if budget is None else budget
        return DecodingState(self._context, threads, tokens_left, self._context.shape.free)

    def make_token_filter(
        self, written: str = "", budget: int | None = None
    ) -> Callable[[Sequence[int]], IntArray]:
        """Return a function from the tokens so far to the ids allowed next, for `Policy.complete`.

        It keeps the states it went through, some kilobytes for each token, so that each further
        token costs one step. Make a new one for each question. `written` and `budget` are as in
        `start_decoding`: the text that stands before the tokens, and the number of tokens left.
        Raises ValueError as `start_decoding` does; the function raises it for a token that is not
        allowed.
        """
        begun: _FilterMemo = self.start_decoding(written, budget), {}

        def find_allowed_ids(tokens: Sequence[int]) -> IntArray:
            """Return the ids that may follow these tokens."""
            state, onward = begun
            for token in tokens:
                if token not in onward:
                    onward[token] = state.append_token(token), {}
                state, onward = onward[token]
            return state.find_allowed_ids()

        return find_allowed_ids


class DecodingState:
    """Decoding state of one answer, which does not change: each token makes another state."""

    def __init__(
        self, context: DecodingContext, threads: Sequence[ParserThread], tokens_left: int, free: int
    ) -> None:
        self._context = context
        self._threads = threads
        self._left = tokens_left
        """tokens left, the end token included"""
        self._free = free
        """tokens that may still go into free text before the next title or the end"""
        self._allowed: IntArray | None = None

    @property
    def done(self) -> bool:
        """True once the end token was written; from then on it is the only token allowed."""
        first = self._threads[0]
        return isinstance(first, FreeTextThread) and first.at == self._context.done_state

    def find_allowed_ids(self) -> IntArray:
        """Return the ids allowed next, ascending and never empty.

        The array is shared: do not write to it.
        """
        if self._allowed is None:
            each = (thread.find_allowed_ids(self._left, self._free) for thread in self._threads)
            self._allowed = self._context.grammar.merge_ids(*each)
        return self._allowed

    def append_token(self, token: int) -> DecodingState:
        """Return the state after a token. Raises ValueError if the token is not allowed."""
        vocabulary, ids = self._context.grammar.vocabulary, self.find_allowed_ids()
        at = ids.searchsorted(token)
        if at == len(ids) or ids[at] != token:
            is_known = 0 <= token < len(vocabulary.tokens)
            name = repr(vocabulary.tokens[token]) if is_known else "no token"
            raise ValueError(
                f"token {token} ({name}) may not come next: choose one of find_allowed_ids()"
            )
        self._allowed = None  # long, and seldom needed again
        if token == vocabulary.end:
            ended = [each for thread in self._threads for each in thread.end_answer()][:1]
            return DecodingState(self._context, ended, self._left, self._free)
        threads = advance_threads(self._threads, vocabulary.tokens[token] or b"")
        in_free_text = all(isinstance(thread, FreeTextThread) for thread in threads)
        free = self._free - 1 if in_free_text else self._context.shape.free
        return DecodingState(self._context, threads, self._left - 1, free)

    def locate_quotes(self) -> QuoteFragmentSpans:
        """Return for each quote written so far the spans of its fragments.

        Each span is the first place in its document with these words; of several documents with one
        title, the first that has them. The last quote may be incomplete.
        """
        return self._threads[0].list_quotes()


_FilterMemo = tuple[DecodingState, "dict[int, _FilterMemo]"]
"""a state, and the state after each token that was asked for"""

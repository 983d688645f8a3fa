"""Byte grammar of answers with quotes, and documents indexed for it.

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
from collections.abc import Sequence
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
_TABLES: dict[AnswerForm, TransitionTable] = {
    "claim": _ONE_CLAIM,
    "answer": _ANSWER,
    "quote": {"closed": ("nowhere", {})},
}
_MAY_END = ("closed", "closed%", "after", "after%", "after\\", "done")

# UTF-8: first bytes (from, to), number of bytes that follow, and bounds of the first of those.
_TAILS = (
    (0xC2, 0xDF, 1, 0x80, 0xBF),
    (0xE0, 0xE0, 2, 0xA0, 0xBF),
    (0xE1, 0xEC, 2, 0x80, 0xBF),
    (0xED, 0xED, 2, 0x80, 0x9F),
    (0xEE, 0xEF, 2, 0x80, 0xBF),
    (0xF0, 0xF0, 3, 0x90, 0xBF),
    (0xF1, 0xF3, 3, 0x80, 0xBF),
    (0xF4, 0xF4, 3, 0x80, 0x8F),
)


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
            steps[name] |= dict.fromkeys(
                range(first, last + 1), _add_utf8_tail(steps, other, *tail)
            )
    names = {name: number for number, name in enumerate(steps)}
    step = np.zeros((len(names), 256), np.uint8)
    for name, onward in steps.items():
        for byte, to in onward.items():
            step[names[name], byte] = names[to]
    heading = [names["title"]] if "title" in names else []
    ending = [names[name] for name in _MAY_END if name in names]
    return FrameAutomaton(
        step,
        names,
        _measure_distances(step, heading, spelt),
        _measure_distances(step, ending, spelt),
    )


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
        """Return for each position the bytes to the end of a quote with `chars` characters so far.

        NEVER where it cannot be ended with `shortest` to `longest` characters before a separator.
        """
        chars_at_end = self.chars[positions] + np.maximum(shortest - chars, 0)
        ends = self.ends[np.maximum(positions, self.after.take(chars_at_end, mode="clip"))]
        length = chars + self.chars[ends] - self.chars[positions]
        good = (
            (chars_at_end < len(self.after)) & (ends <= self.stop[positions]) & (length <= longest)
        )
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
        """Return the starts of quotes whose first byte is `byte`, from the position `floor` on."""
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
    tape = _encode_tape(
        _insert_separators(text, shape.reserved, pieces.single_bytes), escapes=shape.form != "quote"
    )
    texts, longest = number_distinct(
        pieces.trie.find_longest_matches(tape.data), len(pieces.strings) + 1
    )
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
        opening=ids[
            sort_distinct(rows.gather_values(np.flatnonzero(last >= 0).astype(np.int32)), len(ids))
        ],
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
    after[chars[between]] = (
        between  # numpy keeps the last of several, and they come in descending order
    )
    stop = _find_next(data >= SEPARATORS[0])
    # In the inline syntax a backslash before the end of the quote would escape it.
    ends = _find_next(boundary & (np.append(0, data[:-1]) != ord("\\")) if escapes else boundary)
    lost = np.append(ends > stop, False)[
        1:
    ]  # bytes after the last valid end before a separator belong to no quote
    return TextTape(
        data=np.where(lost, np.uint8(SEPARATORS[0]), data),
        chars=chars,
        after=after,
        ends=ends,
        stop=stop,
    )


def _find_next(present: npt.NDArray[np.bool_]) -> IntArray:
    """Return for each position the first True from there on, or the size where there is none."""
    size = len(present)
    places = np.where(present, np.arange(size, dtype=np.int32), np.int32(size))
    return np.minimum.accumulate(places[::-1])[::-1]


def _group_by_byte(positions: IntArray, data: ByteArray) -> RaggedArray:
    order = data.argsort(kind="stable")
    bounds = data[order].searchsorted(np.arange(257)).astype(np.int32)
    return RaggedArray(bounds, positions[order])

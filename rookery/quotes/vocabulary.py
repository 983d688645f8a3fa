"""Bytes that each token of a vocabulary stands for, and a trie over the bytes of many tokens.

Reads byte-level BPE (GPT-2, Llama 3, Qwen) and SentencePiece (Llama 2, Mistral, Gemma).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from rookery.records import decode_json


class Vocabulary(msgspec.Struct, frozen=True):
    """Vocabulary of a model: `tokens[id]` is the token's bytes, None where it is not part of any
    text."""

    tokens: tuple[bytes | None, ...]
    end: int
    """id of the token that ends an answer"""
    width: int
    """number of the model's logits; ids from len(tokens) on are padding and never allowed"""

    def __post_init__(self) -> None:
        if not 0 <= self.end < len(self.tokens) <= self.width:
            raise ValueError(
                f"a vocabulary of {len(self.tokens)} tokens cannot end with token {self.end} or "
                f"have {self.width} logits: name a token of it, and at least as many logits"
            )
        if self.tokens[self.end] is not None:
            raise ValueError(f"token {self.end} is text ({self.tokens[self.end]!r}), not an end")

    def decode(self, ids: Iterable[int]) -> bytes:
        """Return the text of these tokens as UTF-8 bytes; those that are no text are empty.

        The bytes may end inside a character. Raises IndexError for ids of padding.
        """
        return b"".join(self.tokens[number] or b"" for number in ids)


def read_vocabulary(tokenizer: Path | str, end: str | int, width: int | None = None) -> Vocabulary:
    """Read the vocabulary of a tokenizer.json, given as its path or its content.

    `end` is the token that ends an answer (`<|endoftext|>`, `</s>`), or its id. `width` is the
    number of logits, where the model has more logits than tokens. Special and added tokens count as
    no text: only ordinary tokens may spell what they look like. Raises ValueError if this is not a
    tokenizer that spells text byte by byte.
    """
    file = _read_tokenizer(tokenizer)
    numbers = _number_tokens(file.model.vocab)
    added = {token.content: token.id for token in file.added_tokens}
    all_tokens = numbers | added
    last = all_tokens.get(end) if isinstance(end, str) else end
    if last is None:
        raise ValueError(f"the tokenizer has no token {end!r}: name the one that ends an answer")
    spell = _choose_decoder(file)
    tokens: list[bytes | None] = [None] * (max(all_tokens.values(), default=-1) + 1)
    for token, number in numbers.items():
        tokens[number] = spell(token)
    for number in (*added.values(), *_find_unknown_ids(file.model, numbers)):
        tokens[number] = None
    return Vocabulary(tuple(tokens), last, len(tokens) if width is None else width)


class _AddedToken(msgspec.Struct, frozen=True):
    id: int
    content: str


class _TokenizerModel(msgspec.Struct, frozen=True):
    vocab: dict[str, int] | list[tuple[str, float]]
    byte_fallback: bool = False
    unk_token: str | None = None
    unk_id: int | None = None


class _TokenizerFile(msgspec.Struct, frozen=True):
    model: _TokenizerModel
    added_tokens: list[_AddedToken] = []
    decoder: dict[str, Any] | None = None


def _read_tokenizer(tokenizer: Path | str) -> _TokenizerFile:
    try:
        content = tokenizer.read_bytes() if isinstance(tokenizer, Path) else tokenizer
        return decode_json(content, _TokenizerFile)
    except (ValueError, OSError) as error:
        raise ValueError(f"this is not a tokenizer.json: {error}") from error


def _number_tokens(vocab: dict[str, int] | list[tuple[str, float]]) -> dict[str, int]:
    if isinstance(vocab, dict):
        return vocab
    return {token: number for number, (token, _) in enumerate(vocab)}


def _find_unknown_ids(model: _TokenizerModel, numbers: dict[str, int]) -> Iterator[int]:
    """Yield the id of the token that stands for unknown text, if there is one."""
    if model.unk_token in numbers:
        yield numbers[model.unk_token]
    if model.unk_id is not None:
        yield model.unk_id


class _ByteLevelDecoder(msgspec.Struct, frozen=True):
    """Decoder of byte-level BPE: each byte is one letter, itself if visible, else one from U+0100
    on."""

    letters: dict[int, int]

    def __call__(self, token: str) -> bytes | None:
        try:
            return token.translate(self.letters).encode("latin-1")
        except UnicodeEncodeError:
            return None


class _SentencePieceDecoder(msgspec.Struct, frozen=True):
    """Decoder of SentencePiece: a blank is another letter, and a byte in no token is `<0x0A>`."""

    blank: str
    byte_fallback: bool

    def __call__(self, token: str) -> bytes | None:
        if self.byte_fallback and re.fullmatch("<0x[0-9A-Fa-f]{2}>", token):
            return bytes.fromhex(token[3:5])
        return token.replace(self.blank, " ").encode()


def _choose_decoder(file: _TokenizerFile) -> _ByteLevelDecoder | _SentencePieceDecoder:
    """Return the decoder of this tokenizer's tokens, chosen by its `decoder` entry.

    Raises ValueError for a tokenizer that does not spell text byte by byte.
    """
    for step in _flatten_decoders(file.decoder):
        if step["type"] == "ByteLevel":
            printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
            unseen = [byte for byte in range(256) if byte not in printable]
            return _ByteLevelDecoder({256 + n: byte for n, byte in enumerate(unseen)})
        if step["type"] == "Metaspace":
            return _SentencePieceDecoder(step.get("replacement", "▁"), file.model.byte_fallback)
        blank = step.get("pattern", {}).get("String")
        if step["type"] == "Replace" and step["content"] == " " and blank:
            return _SentencePieceDecoder(blank, file.model.byte_fallback)
    raise ValueError(
        "this tokenizer does not spell text byte by byte: use byte-level BPE (as GPT-2 and Llama 3 "
        "do) or SentencePiece with byte fallback (as Llama 2, Mistral and Gemma do)"
    )


def _flatten_decoders(decoder: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if decoder is not None:
        yield decoder
        for step in decoder.get("decoders", ()):
            yield from _flatten_decoders(step)


IntArray = npt.NDArray[np.int32]
ByteArray = npt.NDArray[np.uint8]


class RaggedArray(NamedTuple):
    """Ragged array: list i is values[bounds[i] : bounds[i + 1]] (the layout of CSR matrices)."""

    bounds: IntArray
    values: IntArray

    def gather_values(self, lists: IntArray) -> IntArray:
        """Return the values of these lists, concatenated.

        A single list is returned as a view, since most lookups are of one list.
        """
        if len(lists) == 1:
            return self.values[self.bounds[lists[0]] : self.bounds[lists[0] + 1]]
        sizes = self.count_values(lists)
        first = np.repeat(self.bounds[lists] - sizes.cumsum(dtype=np.int32) + sizes, sizes)
        return self.values.take(first + np.arange(len(first), dtype=np.int32))

    def count_values(self, lists: IntArray) -> IntArray:
        """Return the length of each of these lists."""
        sizes: IntArray = self.bounds[lists + 1] - self.bounds[lists]
        return sizes

    def select_rows(self, lists: IntArray) -> RaggedArray:
        """Return a ragged array of these lists alone, in the given order."""
        ends = self.count_values(lists).cumsum(dtype=np.int32)
        return RaggedArray(np.append(np.int32(0), ends), self.gather_values(lists))

    def join_rows(self, other: RaggedArray) -> RaggedArray:
        """Replace each value by the list of that number in `other`, and return the result."""
        bounds, values = other.select_rows(self.values)
        return RaggedArray(bounds[self.bounds], values)


class ByteTrie(NamedTuple):
    """Byte trie. Node 0 is the root; nodes are numbered by depth, then in the order of their
    strings.

    A child is looked up by binary search for its key among the keys of its depth, which are
    contiguous and sorted; no node holds pointers.
    """

    keys: IntArray
    """for each node but the root, ascending: its parent * 256 + the byte that leads to it"""
    ends: IntArray
    """for each node, the number of the string that ends there, or -1"""
    levels: tuple[int, ...]
    """first node of each depth from 1 on, then the number of nodes"""
    size: int
    """number of strings"""

    def find_longest_matches(self, text: ByteArray) -> IntArray:
        """Return, for each position of a text, the number of the longest string there, else `size`.

        The text must end with a byte that is in no string. All positions go down the trie together,
        one binary search a depth; positions that fall out are dropped.
        """
        matches = np.full(len(text), self.size, np.int32)
        places, nodes = _sort_positions(text), np.zeros(len(text), np.int32)
        for depth, (low, high) in enumerate(pairwise(self.levels)):
            if not len(places):
                break
            keys, trie_keys = nodes << 8 | text[places + depth], self.keys[low - 1 : high - 1]
            at = trie_keys.searchsorted(keys)
            present = trie_keys.take(at, mode="clip") == keys
            places, nodes = places[present], at[present].astype(np.int32) + np.int32(low)
            ends = self.ends[nodes]
            matches[places[ends >= 0]] = ends[ends >= 0]
        return matches

    def list_prefixes(self) -> RaggedArray:
        """Return, for each string, the numbers of the strings that it begins with, itself first.

        One more list, number `size`, is empty.
        """
        on_the_way, above = self.ends.copy(), np.full(self.size, -1, np.int32)
        for low, high in pairwise(self.levels):
            before, ends = on_the_way[self.keys[low - 1 : high - 1] >> 8], self.ends[low:high]
            above[ends[ends >= 0]] = before[ends >= 0]
            on_the_way[low:high] = np.where(ends >= 0, ends, before)
        strings = prefixes = np.arange(self.size, dtype=np.int32)
        all_prefixes = []
        while len(strings):
            all_prefixes.append((strings, prefixes))
            prefixes = above[prefixes]
            strings, prefixes = strings[prefixes >= 0], prefixes[prefixes >= 0]
        return _group_by_position(all_prefixes, self.size + 1)

    def run_automaton(self, step: ByteArray) -> ByteArray:
        """Return the state after each string from each starting state, states × strings.

        `step` is the automaton: the next state for each state and byte. Each node is visited once,
        so that shared prefixes are run once.
        """
        states = np.empty((len(step), len(self.ends)), np.uint8)
        states[:, 0] = np.arange(len(step))
        for low, high in pairwise(self.levels):
            keys = self.keys[low - 1 : high - 1]
            states[:, low:high] = step[states[:, keys >> 8], keys & 255]
        leaves = np.flatnonzero(self.ends >= 0)
        return states[:, leaves[self.ends[leaves].argsort()]]


def build_trie(strings: Sequence[bytes]) -> ByteTrie:
    """Build the trie of these strings, which must be sorted, distinct and not empty."""
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
        complete = sizes[numbers] == depth
        ends[-1][nodes[complete] - levels[-1]] = numbers[complete]
        levels.append(levels[-1] + len(keys[-1]))
        numbers, nodes = numbers[~complete], nodes[~complete]
    return ByteTrie(np.concatenate(keys), np.concatenate(ends), tuple(levels), len(strings))


def _sort_positions(text: ByteArray) -> IntArray:
    """Return all positions sorted by the four bytes there, so that neighbouring searches read the
    same part of the keys and hit the cache."""
    ahead = np.append(text, np.zeros(3, np.uint8)).astype(np.uint32)
    four = ahead[:-3] << 24 | ahead[1:-2] << 16 | ahead[2:-1] << 8 | ahead[3:]
    return four.argsort().astype(np.int32)


def _group_by_position(matches: Sequence[tuple[IntArray, IntArray]], size: int) -> RaggedArray:
    """Group what was found at each depth by position; a position occurs at most once in each depth.

    Sizes are counted first, so that values are written into one array without sorting.
    """
    bounds = np.zeros(size + 1, np.int32)
    for places, _ in matches:
        bounds[places + 1] += 1
    bounds.cumsum(out=bounds)
    values = np.empty(bounds[-1], np.int32)
    free = bounds[:-1].copy()
    for places, strings in matches:
        values[free[places]] = strings
        free[places] += 1
    return RaggedArray(bounds, values)


NEVER = 1 << 28
"""more tokens or bytes than there will ever be"""
SEPARATORS = (0xFE, 0xFF)
"""bytes that occur in no UTF-8 text, and so in no piece"""


class SpelledText(NamedTuple):
    """Text that must be written as it is."""

    text: bytes
    costs: tuple[int, ...]
    """fewest tokens from each byte to the end of the text, the end itself included (0)"""


class PieceContinuations(NamedTuple):
    """Pieces that continue one beginning."""

    first: int
    """number of the first piece; the others follow it"""
    rests: list[bytes]
    """the bytes with which each continues"""
    heads: IntArray
    """for each rest, an id of the longest token that it begins with, or -1"""
    whole: npt.NDArray[np.bool_]
    """True where the rest is itself a token"""
    marked: npt.NDArray[np.bool_]
    """True where a mark may begin in the rest after enough bytes for a quote"""


class TokenPieces:
    """Token strings, and for tokens that run into a mark the part before it.

    A piece is known by its number in the sorted order of all pieces, so that pieces with a common
    beginning have consecutive numbers.
    """

    def __init__(self, vocabulary: Vocabulary, marks: Sequence[bytes], shortest: int) -> None:
        """Collect the pieces of a vocabulary; `shortest` is the fewest bytes of a quote before a
        mark."""
        lost, cut = SEPARATORS
        tokens = {t for t in vocabulary.tokens if t and lost not in t and cut not in t}
        """numbers of the pieces that are tokens, by their string"""
        before = _find_mark_prefixes(marks, tokens)
        self.strings = sorted(tokens.union(before))
        self.trie = build_trie(self.strings)
        self.sizes = np.fromiter(map(len, self.strings), np.int32, len(self.strings))
        self.widest = int(self.sizes.max(initial=0))
        self.single_bytes = frozenset(token[0] for token in tokens if len(token) == 1)
        """bytes that are tokens of their own and so can be written whatever follows"""
        places = {piece: number for number, piece in enumerate(self.strings)}
        self.tokens = {token: places[token] for token in tokens}
        """the numbers of those that are tokens"""
        numbers = [self.tokens.get(token or b"", -1) for token in vocabulary.tokens]
        self.piece_by_id = np.array(numbers, np.int32)
        """piece of each id, or -1"""
        self._ids = _group_ids(self.piece_by_id, len(self.strings))
        self.crossing = {places[piece]: [places[t] for t in them] for piece, them in before.items()}
        """for a piece, the tokens that begin with it and run into a mark"""
        crosses = np.zeros(len(self.strings), bool)
        crosses[list(self.crossing)] = True
        self.prefixes = self.trie.list_prefixes()
        """for each piece, the pieces that it begins with, itself included"""
        self.prefix_ids = self.prefixes.join_rows(self._ids)
        """for each piece, the ids of its prefixes"""
        self.prefixes_crossing = self.prefixes.join_rows(_select_themselves(crosses))
        """for each piece, those of its prefixes that are in `crossing`"""
        self._marks, self._shortest = {mark[:1] for mark in marks}, shortest
        self._continuations: dict[bytes, PieceContinuations] = {}

    def find_ids(self, pieces: Sequence[int] | IntArray) -> IntArray:
        """Return the ids of the tokens among these pieces, ascending, each once."""
        once = sort_distinct(np.asarray(pieces, np.int32), len(self.strings))
        return sort_distinct(self._ids.gather_values(once), len(self.piece_by_id))

    def spell_text(self, text: str) -> SpelledText:
        """Return the text as bytes with its costs; costs are NEVER where tokens cannot spell it."""
        try:
            data = text.encode()
        except UnicodeEncodeError:  # lone surrogate
            return SpelledText(b"", (NEVER,))
        costs = [0] * (len(data) + 1)
        for at in reversed(range(len(data))):
            ends = range(at + 1, min(at + self.widest, len(data)) + 1)
            steps = (costs[end] for end in ends if data[at:end] in self.tokens)
            costs[at] = min(min(steps, default=NEVER) + 1, NEVER)
        return SpelledText(data, tuple(costs))

    def find_continuations(self, start: bytes) -> PieceContinuations:
        """Return the pieces that begin with `start` and are longer; cached if there are any."""
        if start in self._continuations:
            return self._continuations[start]
        low = high = bisect_right(self.strings, start)
        while high < len(self.strings) and self.strings[high].startswith(start):
            high += 1
        rests = [piece[len(start) :] for piece in self.strings[low:high]]
        heads = [self._find_head_id(rest) for rest in rests]
        marked = [any(mark in rest[self._shortest :] for mark in self._marks) for rest in rests]
        whole = [rest in self.tokens for rest in rests]
        continuations = PieceContinuations(
            low, rests, np.array(heads, np.int32), np.array(whole, bool), np.array(marked, bool)
        )
        if rests:  # few beginnings have any, so the others are not worth caching
            self._continuations[start] = continuations
        return continuations

    def _find_head_id(self, text: bytes) -> int:
        sizes = range(len(text), 0, -1)
        token = next((self.tokens[text[:n]] for n in sizes if text[:n] in self.tokens), -1)
        return int(self._ids.values[self._ids.bounds[token]]) if token >= 0 else -1


def sort_distinct(numbers: IntArray, size: int) -> IntArray:
    """Return the distinct numbers, all below `size`, in ascending order."""
    if 64 * len(numbers) > size:  # marking takes O(size), sorting O(n log n)
        there = np.zeros(size, bool)
        there[numbers] = True
        return np.flatnonzero(there).astype(np.int32)
    ordered = np.sort(numbers)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def number_distinct(numbers: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the distinct numbers, all below `size`, ascending, and each number's index there."""
    once, place = sort_distinct(numbers, size), np.empty(size, np.int32)
    place[once] = np.arange(len(once), dtype=np.int32)
    return once, place[numbers]


def _find_mark_prefixes(marks: Sequence[bytes], tokens: set[bytes]) -> dict[bytes, list[bytes]]:
    """Map each string that stands in tokens before a mark, or before its beginning, to those
    tokens."""
    prefixes: dict[bytes, list[bytes]] = {}
    for token in tokens:
        for mark in marks:
            at = token.find(mark[0], 1)
            while at > 0:
                if token.startswith(mark, at) or mark.startswith(token[at:]):
                    prefixes.setdefault(token[:at], []).append(token)
                at = token.find(mark[0], at + 1)
    return prefixes


def _select_themselves(chosen: npt.NDArray[np.bool_]) -> RaggedArray:
    """Return a ragged array: list i is [i] where i is chosen, else empty."""
    bounds = np.append(np.int32(0), chosen.cumsum(dtype=np.int32))
    return RaggedArray(bounds, np.flatnonzero(chosen).astype(np.int32))


def _group_ids(of_ids: IntArray, size: int) -> RaggedArray:
    """Return for each piece its ids: none, one, or several where tokens are spelled alike."""
    ids = of_ids.argsort(kind="stable").astype(np.int32)
    bounds = of_ids[ids].searchsorted(np.arange(size + 1)).astype(np.int32)
    return RaggedArray(bounds, ids)

"""Static vectors of passages, which find what is said in other words than the question's.

A passage's vector is the sum of the vectors of its word pieces, each times the rarity of the piece
in the library (arXiv 1704.05179: smooth inverse frequency). The table of word pieces was distilled
from a sentence encoder by recipes/evidence_vectors.py, so that encoding a text costs a look-up.
Vectors lie in one file beside the words of an index, 256 bytes a passage.
"""

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rookery.library.page_archive import write_whole_file
from rookery.records import Hit

TABLE_FOLDER = Path(__file__).with_name("token_vectors")
"""folder of the table that comes with Rookery, and of its model card"""
VOCABULARY_FILE = Path(__file__).parents[1] / "evidence" / "evidence_weights" / "tokenizer.json"
"""the evidence model's tokenizer, whose word pieces the table has"""
WIDTH = 248
"""numbers of a vector; with the 8 bytes of the passage's key they are 256 bytes"""
UNIT = 320
"""length of a vector as it is stored: 8 bits hold all numbers of a unit vector but rare ones"""
MOST_SAMPLED = 32_768
"""passages on which the statistics of a library are estimated, at most"""
LEAST_CENTRED = 200
"""passages from which on their mean and first principal component say something"""
GROWTH = 1.5
"""passages against those when statistics were estimated, from which on they are estimated anew"""
_ROW = np.dtype([("vector", np.int8, (WIDTH,)), ("key", "<u8")])
FILE_ROW_BYTES = _ROW.itemsize
_BLOCK_ROWS = 2048
_BLOCK_PIECES = 16_384
_LONGEST_WORD = 60

Pieces = npt.NDArray[np.uint16]
"""word pieces of a text, as numbers of rows of the table"""
_WORD = re.compile(r"[a-z0-9]+")


def split_pieces(text: str) -> Pieces:
    """Return the word pieces of the words of a text that are in Latin letters and digits."""
    folded = text.lower()
    if not folded.isascii():
        folded = unicodedata.normalize("NFD", folded).translate(_ACCENTS)
    return np.array([p for word in _WORD.findall(folded) for p in _split_word(word)], np.uint16)


_ACCENTS = dict.fromkeys(range(0x300, 0x370))


@cache
def _load_vocabulary() -> dict[str, int]:
    loaded = json.loads(VOCABULARY_FILE.read_bytes())
    vocabulary: dict[str, int] = loaded["model"]["vocab"]
    return vocabulary


@lru_cache(maxsize=1 << 16)
def _split_word(word: str) -> tuple[int, ...]:
    """Return the longest pieces that a word begins with, one after another (WordPiece)."""
    pieces, start, vocabulary = list[int](), 0, _load_vocabulary()
    word = word[:_LONGEST_WORD]
    while start < len(word):
        prefix = "##" if start else ""
        ends = (
            end for end in range(len(word), start, -1) if prefix + word[start:end] in vocabulary
        )
        end = next(ends, 0)
        if not end:
            return ()
        pieces.append(vocabulary[prefix + word[start:end]])
        start = end
    return tuple(pieces)


@cache
def _load_table() -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Return the table and the scale of each of its rows."""
    table, scales = (np.load(TABLE_FOLDER / f"{name}.npy") for name in ("vectors", "scales"))
    return table, scales.astype(np.float32)


def compute_key(hit: Hit) -> int:
    """Return the key of the passage of a hit: a number of 64 bits."""
    place = f"{hit.start} {hit.digest} {hit.url}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(place, digest_size=8).digest(), "little")


class KeyedPieces(NamedTuple):
    """A passage of which a vector is made."""

    key: int
    pieces: bytes
    """its word pieces, as bytes of `Pieces`"""


class VectorStatistics(NamedTuple):
    """Statistics of a library by which the vectors of its passages are made; shards share them."""

    passages: npt.NDArray[np.uint64]
    """one number: the passages with pieces when this was estimated"""
    rarity: npt.NDArray[np.float32]
    """inverse document frequency of each piece"""
    mean: npt.NDArray[np.float32]
    direction: npt.NDArray[np.float32]
    """the first principal component, which is taken out"""

    def encode(self) -> bytes:
        """Return the statistics as bytes, behind their digest."""
        data = b"".join(part.tobytes() for part in self)
        return blake2b(data, digest_size=_DIGEST_BYTES).digest() + data

    def is_outgrown(self, passages: int) -> bool:
        """Return whether a library of so many passages has outgrown them: by GROWTH."""
        return passages > GROWTH * max(int(self.passages[0]), 1)

    def compute_vectors(self, texts: Sequence[Pieces]) -> npt.NDArray[np.int8]:
        """Return the vector of each text, UNIT long: one that has no pieces, or none that counts,
        has only zeros.

        A text's vector is the same, bit for bit, whatever is computed beside it.
        """
        sums = _sum_pieces(texts, self.rarity) - self.mean
        sums -= (sums * self.direction).sum(axis=1, keepdims=True) * self.direction
        has_pieces = np.array([len(text) > 0 for text in texts], bool)
        scaled = np.round(_normalize_rows(sums) * UNIT * has_pieces[:, None])
        vectors: npt.NDArray[np.int8] = scaled.clip(-127, 127).astype(np.int8)
        return vectors


_STATISTICS = (("<u8", 1), ("<f4", 30_522), ("<f4", WIDTH), ("<f4", WIDTH))
_DIGEST_BYTES = 32
_HEADER_BYTES = _DIGEST_BYTES + sum(np.dtype(kind).itemsize * n for kind, n in _STATISTICS)


def _sum_pieces(
    texts: Sequence[Pieces], rarity: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    table, scales = _load_table()
    weights = scales * rarity
    sums, first = np.zeros((len(texts), WIDTH), np.float32), 0
    while first < len(texts):
        last, pieces = first + 1, len(texts[first])
        while last < len(texts) and pieces + len(texts[last]) <= _BLOCK_PIECES:
            pieces += len(texts[last])
            last += 1
        some = [number for number in range(first, last) if len(texts[number])]
        if some:
            every = np.concatenate([texts[number] for number in some])
            starts = np.cumsum([0, *(len(texts[number]) for number in some[:-1])])
            rows = table[every] * weights[every, None]
            sums[some] = np.add.reduceat(rows, starts, axis=0)
        first = last
    return _normalize_rows(sums)


def _normalize_rows(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    normalized: npt.NDArray[np.float32] = rows / np.maximum(lengths, 1e-6)
    return normalized


def sample_passages(passages: Iterable[KeyedPieces]) -> list[KeyedPieces]:
    """Return the passages with the smallest keys, at most MOST_SAMPLED: drawn by chance, as it
    were, and of several samples together as of all their passages."""
    return sorted(passages)[:MOST_SAMPLED]


def estimate_statistics(sample: Sequence[KeyedPieces], passages: int) -> VectorStatistics:
    """Estimate the statistics of a library of `passages` passages from a sample of them."""
    texts = [np.frombuffer(each.pieces, np.uint16) for each in sample]
    having, count = np.zeros(_STATISTICS[1][1]), max(len(texts), 1)
    for text in texts:
        having[np.unique(text)] += 1
    rarity = np.log(1 + (count - having + 0.5) / (having + 0.5)).astype(np.float32)
    mean, direction = np.zeros((2, WIDTH), np.float32)
    if len(texts) >= LEAST_CENTRED:
        sums = _sum_pieces(texts, rarity)
        mean = sums.mean(axis=0)
        sums -= mean
        direction = np.linalg.eigh(sums.T @ sums)[1][:, -1]
    return VectorStatistics(np.array([passages], np.uint64), rarity, mean, direction)


class PassageVectors:
    """The vectors of an index, in a file or (`path` None) in memory.

    Rows are added before the words of their passages are committed, and are looked up by key: a
    row of a passage that is no longer there, or not yet, is never shown.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self.statistics: VectorStatistics | None = None
        """None where no vectors were ever made"""
        self._rows = np.zeros(0, _ROW)
        self._order: npt.NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def refresh(self) -> None:
        """Open the file anew if it has changed; damaged statistics count as none.

        Raises OSError where it cannot be read.
        """
        if self._path is None or not self._path.is_file():
            return
        about = self._path.stat()
        if (stamp := (about.st_ino, about.st_size)) == self._stamp:
            return
        count = (about.st_size - _HEADER_BYTES) // FILE_ROW_BYTES
        with self._path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
            self._rows, self.statistics, self._stamp = np.zeros(0, _ROW), None, stamp
            self._order = None
            if count >= 0 and (statistics := _decode_statistics(header)).encode() == header:
                self.statistics = statistics
                if count:
                    self._rows = np.memmap(file, _ROW, "r", _HEADER_BYTES, (count,))

    def replace_vectors(
        self, statistics: VectorStatistics, passages: Iterable[KeyedPieces]
    ) -> None:
        """Compute the vectors of all passages anew, and put them in the place of the earlier ones.

        Raises OSError.
        """
        blocks = (_make_rows(statistics, some).tobytes() for some in _iter_blocks(passages))
        if self._path is None:
            self._rows, self._order = np.frombuffer(b"".join(blocks), _ROW), None
            self.statistics = statistics
        else:
            write_whole_file(self._path, chain([statistics.encode()], blocks))
            self.refresh()

    def append(self, passages: Sequence[KeyedPieces]) -> None:
        """Add the vectors of passages, lasting when this returns. Raises OSError."""
        if self.statistics is None or not passages:
            return
        rows = np.concatenate([_make_rows(self.statistics, s) for s in _iter_blocks(passages)])
        if self._path is None:
            self._rows = np.concatenate([self._rows, rows])
            return
        with self._path.open("r+b") as file:
            # Whoever was killed while adding may have left a part of a row.
            whole = (file.seek(0, os.SEEK_END) - _HEADER_BYTES) // FILE_ROW_BYTES
            file.truncate(_HEADER_BYTES + whole * FILE_ROW_BYTES)
            file.seek(0, os.SEEK_END)
            file.write(rows.tobytes())
            file.flush()
            os.fsync(file.fileno())
        self.refresh()

    def compute_dots(self, query: str) -> npt.NDArray[np.float32] | None:
        """Return the dot product of each row with a query, in UNIT² of the cosine.

        None where the query has no word of which a vector is known, or where there are no rows.
        They are whole numbers, and the same however many rows there are.
        """
        if self.statistics is None or not len(self._rows):
            return None
        vector = self.statistics.compute_vectors([split_pieces(query)])[0]
        if not vector.any():
            return None
        # The bytes of the keys are multiplied by zeros: whole rows are quicker to convert.
        factors = np.zeros(FILE_ROW_BYTES, np.float32)
        factors[:WIDTH] = vector
        numbers = self._rows.view(np.int8).reshape(len(self._rows), FILE_ROW_BYTES)
        dots = np.empty(len(numbers), np.float32)
        block = np.empty((_BLOCK_ROWS, FILE_ROW_BYTES), np.float32)
        for first in range(0, len(numbers), _BLOCK_ROWS):
            some = numbers[first : first + _BLOCK_ROWS]
            np.copyto(block[: len(some)], some)
            np.dot(block[: len(some)], factors, out=dots[first : first + len(some)])
        return dots

    def get_keys(self, numbers: npt.NDArray[np.intp]) -> list[int]:
        """Return the keys of the passages of these rows."""
        keys: list[int] = self._rows["key"][numbers].tolist()
        return keys

    def select_dots(
        self, dots: npt.NDArray[np.float32], keys: Sequence[int]
    ) -> npt.NDArray[np.float32]:
        """Return the dot products of the passages with these keys; 0 for those without a row."""
        if self._order is None or len(self._order) != len(self._rows):
            self._order = np.argsort(self._rows["key"], kind="stable")
        every, wanted = self._rows["key"], np.array(keys, np.uint64)
        places = np.searchsorted(every, wanted, sorter=self._order).clip(max=len(every) - 1)
        rows = self._order[places]
        return np.where(every[rows] == wanted, dots[rows], np.float32(0))


def _decode_statistics(header: bytes) -> VectorStatistics:
    parts, start = [], _DIGEST_BYTES
    for kind, size in _STATISTICS:
        parts.append(np.frombuffer(header, kind, size, start))
        start += parts[-1].nbytes
    return VectorStatistics(*parts)


def _iter_blocks(passages: Iterable[KeyedPieces]) -> Iterable[list[KeyedPieces]]:
    block = list[KeyedPieces]()
    for passage in passages:
        block.append(passage)
        if len(block) == _BLOCK_ROWS:
            yield block
            block = []
    if block:
        yield block


def _make_rows(
    statistics: VectorStatistics, passages: Sequence[KeyedPieces]
) -> npt.NDArray[np.void]:
    rows = np.zeros(len(passages), _ROW)
    texts = [np.frombuffer(each.pieces, np.uint16) for each in passages]
    rows["vector"] = statistics.compute_vectors(texts)
    rows["key"] = [each.key for each in passages]
    return rows

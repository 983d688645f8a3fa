"""Find text on a page that may be long: from an offset on, as a person types it.

Case, typography and, for quotes, white space do not count (WebGPT, appendix A); nothing is found
that is only nearly the same.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from rookery.pages.text_folding import fold_text

CHUNK_LENGTH = 1 << 16
"""characters; a text of one chunk is searched as it is"""
GRAM_LENGTH = 4
"""characters; the chunks that hold all of a text's first grams are searched, and no others"""
GRAMS_PER_QUERY = 48

Span = tuple[int, int]


class TextFinder:
    """Finds spans of `text` that overlap none of the spans `out` (what no reader sees).

    Making one costs about 0.1 to 0.2 s per MB; what it then takes to find something does not grow
    with the text, unless most of the text looks like it.
    """

    def __init__(self, text: str, out: Sequence[Span] = ()) -> None:
        self._folded = fold_text(text)
        self._spaceless = self._folded.text.replace(" ", "")
        words = self._folded.text.split(" ")
        self._spaces_before = array(
            "q", list(accumulate(map(len, words)))[:-1]
        )  # each of the spaces
        self._chunks = _index_chunks(self._spaceless)
        self._out = out

    def find(self, needle: str, after: int, spaced: bool = True) -> Span | None:
        """Return the first span that reads `needle`, from `after` on, else from the start.

        With `spaced`, white space must stand where it does in `needle`; otherwise it is ignored.
        None if there is no such span.
        """
        plain = fold_text(needle).text.strip()
        later = self._find_spans(plain, after, spaced)
        return next(later, None) or next(self._find_spans(plain, 0, spaced), None)

    def find_all(self, needle: str, after: int, spaced: bool) -> Iterator[Span]:
        """Yield the spans that read `needle`, from the offset `after` on; they may overlap.

        With `spaced`, white space must stand where it does in `needle`; otherwise it is ignored.
        """
        return self._find_spans(fold_text(needle).text.strip(), after, spaced)

    def _find_spans(self, plain: str, after: int, spaced: bool) -> Iterator[Span]:
        tight = plain.replace(" ", "")
        folded = self._folded
        at = (
            self._find_next(tight, self._drop_spaces(folded.from_source_offset(max(after, 0))))
            if tight
            else -1
        )
        while at >= 0:
            start, end = self._restore_spaces(at), self._restore_spaces(at + len(tight) - 1) + 1
            if folded.is_whole(start, end) and (not spaced or folded.text[start:end] == plain):
                span = folded.to_source_span(start, end)
                if not any(low < span[1] and span[0] < high for low, high in self._out):
                    yield span
            at = self._find_next(tight, at + 1)

    def _find_next(self, tight: str, start: int) -> int:
        if not self._chunks or len(tight) < GRAM_LENGTH:
            return self._spaceless.find(tight, start)
        first = start // CHUNK_LENGTH
        chunks = self._find_chunks(tight) >> first
        while chunks:
            lowest = chunks & -chunks
            number = first + lowest.bit_length() - 1
            stop = (number + 1) * CHUNK_LENGTH + len(tight) - 1
            at = self._spaceless.find(tight, max(start, number * CHUNK_LENGTH), stop)
            if at >= 0:
                return at
            chunks ^= lowest
        return -1

    def _find_chunks(self, tight: str) -> int:
        """Return the chunks in which `tight` may begin, as bits; its grams may reach into the
        next."""
        chunks = -1
        for at in range(min(len(tight) - GRAM_LENGTH + 1, GRAMS_PER_QUERY)):
            having = self._chunks.get(tight[at : at + GRAM_LENGTH], 0)
            chunks &= having | having >> 1
            if not chunks:
                break
        return chunks

    def _drop_spaces(self, index: int) -> int:
        """From an index into the folded text to the one without its spaces."""
        before = self._spaces_before
        return index - bisect_left(range(len(before)), index, key=lambda n: before[n] + n)

    def _restore_spaces(self, index: int) -> int:
        """Return the way back."""
        return index + bisect_right(self._spaces_before, index)


def _index_chunks(tight: str) -> dict[str, int]:
    """Return the chunks in which each gram begins, as bits; empty for a short text."""
    having: dict[str, int] = {}
    if len(tight) <= CHUNK_LENGTH:
        return having
    for number, start in enumerate(range(0, len(tight), CHUNK_LENGTH)):
        bit = 1 << number
        for gram in {tight[at : at + GRAM_LENGTH] for at in range(start, start + CHUNK_LENGTH)}:
            having[gram] = having.get(gram, 0) | bit
    return having

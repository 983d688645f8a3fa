"""Where a text stands on a page that may be long: next to a reader, and as it is typed.

Case, typography and, for quotes, white space do not count (WebGPT, appendix A); nothing is found
that is only nearly the same. It knows nothing of windows, links or sessions.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from rookery.browse.fold import fold

CHUNK = 1 << 16
"""characters; a text of one chunk is searched as it is"""
GRAM = 4
"""characters; the chunks that hold all of a text's first grams are searched, and no others"""
GRAMS = 48

Span = tuple[int, int]


class Finder:
    """Finds spans of `text` that overlap none of the spans `out` (what no reader sees).

    Making one costs about 0.1 to 0.2 s per MB; what it then takes to find something does not grow
    with the text, unless most of the text looks like it.
    """

    def __init__(self, text: str, out: Sequence[Span] = ()) -> None:
        self._folded = fold(text)
        self._tight = self._folded.text.replace(" ", "")
        words = self._folded.text.split(" ")
        self._before = array("q", list(accumulate(map(len, words)))[:-1])  # each of the spaces
        self._chunks = _chunks(self._tight)
        self._out = out

    def find(self, wanted: str, after: int, spaced: bool = True) -> Span | None:
        """The first span that reads `wanted`, from the offset `after` on, else from the start.

        With `spaced`, white space must stand where it does in `wanted`; otherwise it is ignored.
        """
        plain = fold(wanted).text.strip()
        later = self._spans(plain, after, spaced)
        return next(later, None) or next(self._spans(plain, 0, spaced), None)

    def following(self, wanted: str, after: int, spaced: bool) -> Iterator[Span]:
        """All such spans from the offset `after` on."""
        return self._spans(fold(wanted).text.strip(), after, spaced)

    def _spans(self, plain: str, after: int, spaced: bool) -> Iterator[Span]:
        tight = plain.replace(" ", "")
        folded = self._folded
        at = self._next(tight, self._tightened(folded.position(max(after, 0)))) if tight else -1
        while at >= 0:
            start, end = self._loosened(at), self._loosened(at + len(tight) - 1) + 1
            if folded.whole(start, end) and (not spaced or folded.text[start:end] == plain):
                span = folded.source(start, end)
                if not any(low < span[1] and span[0] < high for low, high in self._out):
                    yield span
            at = self._next(tight, at + 1)

    def _next(self, tight: str, start: int) -> int:
        if not self._chunks or len(tight) < GRAM:
            return self._tight.find(tight, start)
        first = start // CHUNK
        chunks = self._chunks_of(tight) >> first
        while chunks:
            lowest = chunks & -chunks
            number = first + lowest.bit_length() - 1
            stop = (number + 1) * CHUNK + len(tight) - 1
            at = self._tight.find(tight, max(start, number * CHUNK), stop)
            if at >= 0:
                return at
            chunks ^= lowest
        return -1

    def _chunks_of(self, tight: str) -> int:
        """The chunks in which `tight` may begin, as bits; its grams may reach into the next."""
        chunks = -1
        for at in range(min(len(tight) - GRAM + 1, GRAMS)):
            having = self._chunks.get(tight[at : at + GRAM], 0)
            chunks &= having | having >> 1
            if not chunks:
                break
        return chunks

    def _tightened(self, index: int) -> int:
        """From an index into the folded text to the one without its spaces."""
        before = self._before
        return index - bisect_left(range(len(before)), index, key=lambda n: before[n] + n)

    def _loosened(self, index: int) -> int:
        """The way back."""
        return index + bisect_right(self._before, index)


def _chunks(tight: str) -> dict[str, int]:
    """Which chunks each gram begins in, as bits; nothing for a short text."""
    having: dict[str, int] = {}
    if len(tight) <= CHUNK:
        return having
    for number, start in enumerate(range(0, len(tight), CHUNK)):
        bit = 1 << number
        for gram in {tight[at : at + GRAM] for at in range(start, start + CHUNK)}:
            having[gram] = having.get(gram, 0) | bit
    return having

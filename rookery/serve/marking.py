"""Choosing what to quote from a window without typing it: first where it begins, then its end.

It knows neither keys nor sessions.
"""

from rookery.browse.find import Span
from rookery.browse.fold import fold
from rookery.browse.quoting import ABBREVIATION, as_typed
from rookery.records import Quote
from rookery.serve.shown import Shown

SHORT = 200
"""characters of a quote that is said in full"""
ENDS = 40
"""characters, at least, of the beginning and of the end of one that is abbreviated"""


class Marking:
    """A part of the shown text, moved by sentences and words until its beginning is `fixed`, then
    stretched and shrunk at its end."""

    def __init__(self, shown: Shown, after: int = 0) -> None:
        self._plain = shown.plain
        self._words = [(word.start, word.end) for word in shown.words if word.start < word.end]
        self._sentences = shown.sentences() or self._words
        self.fixed = False
        last = self._sentences[-1] if self._sentences else (0, 0)
        self.start, self.end = next((s for s in self._sentences if s[0] >= after), last)

    @property
    def text(self) -> str:
        """What is marked, as it is shown, without the marks of links."""
        return self._plain[self.start : self.end]

    def fix(self) -> None:
        """Lets the beginning stand; from now on the end moves."""
        self.fixed = True

    def loosen(self) -> None:
        """Lets the beginning move again."""
        self.fixed = False

    def sentence(self, forward: bool) -> None:
        """Goes to the next sentence or the one before; where fixed, to its end."""
        self._move(self._sentences, forward)

    def word(self, forward: bool) -> None:
        """The same, by words."""
        self._move(self._words, forward)

    def _move(self, spans: list[Span], forward: bool) -> None:
        if self.fixed:
            ends = [end for _, end in spans if end > self.start]
            later, earlier = (e for e in ends if e > self.end), (e for e in ends if e < self.end)
            self.end = min(later, default=self.end) if forward else max(earlier, default=self.end)
            return
        starts = (span[0] for span in spans)
        if forward:
            there = min((start for start in starts if start > self.start), default=None)
        else:
            there = max((start for start in starts if start < self.start), default=None)
        if there is not None:
            self.start, self.end = next(span for span in spans if span[0] == there)

    def commands(self) -> list[str]:
        """The commands that quote it, the one to be tried first before the others."""
        whole = f"Quote: {self.text}"
        if len(self.text) <= SHORT:
            return [whole]
        inside = [span for span in self._words if self.start < span[1] and span[0] < self.end]
        first = min((end for _, end in inside if end - self.start >= ENDS), default=self.end)
        last = max((start for start, _ in inside if self.end - start >= ENDS), default=self.start)
        if first >= last:
            return [whole]
        ends = self._plain[self.start : first], self._plain[last : self.end]
        return [f"Quote: {ends[0]}{ABBREVIATION}{ends[1]}", whole]

    def names(self, quote: Quote) -> bool:
        """Whether this quote has the words that are marked."""
        return any(_letters(reading) == _letters(quote.text) for reading in as_typed(self.text))


def _letters(text: str) -> str:
    return "".join(letter for letter in fold(text).text if letter.isalnum())

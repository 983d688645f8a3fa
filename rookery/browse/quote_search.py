"""Find the span of a page that a typed text names (WebGPT, appendix A)."""

import re
from collections.abc import Iterator, Sequence

from rookery.browse.page_view import WindowPart
from rookery.browse.text_search import Span, TextFinder
from rookery.records import Page

ABBREVIATION_MARK = "━"
"""stands in `<start text>━<end text>` (WebGPT, appendix A). No dash does: pages are full of them,
and what a dash abbreviated would be quoted without anyone having meant it."""
_LINK = re.compile(r"【[0-9]+†(.*?)(?:†[^†】]*)?】", re.DOTALL)
_IMAGE = re.compile(r"\[Image(?:: [^\]]*)?\]")
_RUBY_READING = re.compile(r"\([\u3040-\u30ff]+\)")
# What a window puts in the place of one character, and what it puts before or between words.
_MARK_TRANSLATION = str.maketrans("〖〗‡◆▪", "【】†♦■", "^_|·")


class WindowText:
    """The text of a window with its marks of links, images and scripts, and what is under it."""

    def __init__(self, page: Page, parts: Sequence[WindowPart]) -> None:
        self._page = page
        self._parts = parts
        self._finder = TextFinder("".join(part.text for part in parts))

    def find_all(self, text: str) -> Iterator[Span]:
        """Yield the spans of the page that the window shows as `text`, marks included.

        White space, case and typography do not count. Left out is text that consists of marks
        alone, and text within which the window leaves out something of the page.
        """
        for low, high in self._finder.find_all(text, 0, spaced=False):
            if span := self._to_page_span(low, high):
                yield span

    def _to_page_span(self, low: int, high: int) -> Span | None:
        covered: list[Span] = []
        at = 0
        for part in self._parts:
            first, last = max(low - at, 0), min(high - at, len(part.text))
            if first < last and part.start < part.end:
                covered.append((part.start + first, part.start + last))
            at += len(part.text)
        text = self._page.text
        seen = [place for span in covered for place in range(*span) if not text[place].isspace()]
        if not seen:
            return None
        start, end = seen[0], seen[-1] + 1
        every = sum(not letter.isspace() for letter in text[start:end])
        return (start, end) if every == len(seen) else None


def find_in_page(finder: TextFinder, text: str, after: int) -> Span | None:
    """Return the next span of the page, from `after` on and then from the start, that reads `text`.

    The marks of a window, such as those of links, are taken out of `text` if need be. Case and
    typography do not count, white space does. None if there is no such span.
    """
    found = (finder.find(reading, after) for reading in read_typed_text(text))
    return next((span for span in found if span), None)


def find_quote(
    finder: TextFinder, text: str, after: int, window: WindowText | None = None
) -> Span | None:
    """Return the span that a quoted text names, from `after` on and then from the start; else None.

    White space, case and typography are ignored. Text shown in `window`, which comes first, may be
    copied with its marks or parts of them. `start━end` names everything from the one to the other.
    """
    if span := _find_shown(finder, text, after, window):
        return span
    for reading in read_typed_text(text):
        for mark in re.finditer(ABBREVIATION_MARK, reading):
            halves = reading[: mark.start()], reading[mark.end() :]
            if span := _find_abbreviated(finder, *halves, after, window):
                return span
    return None


def read_typed_text(text: str) -> Iterator[str]:
    """Yield the readings of a typed text: as it is, then with a window's marks taken out.

    The second is without marks of links and images, the third without those of scripts and readings
    too; what is no different is not repeated.
    """
    yield text
    words = _IMAGE.sub("", _LINK.sub(r"\1", text))
    if words != text:
        yield words
    plain = _RUBY_READING.sub("", words).translate(_MARK_TRANSLATION)
    if plain != words:
        yield plain


def _find_shown(
    finder: TextFinder, text: str, after: int, window: WindowText | None
) -> Span | None:
    """Find a text on the page: in the window as it is shown, or anywhere."""
    if window and (copied := next(window.find_all(text), None)):
        return copied
    found = (finder.find(reading, after, spaced=False) for reading in read_typed_text(text))
    return next((span for span in found if span), None)


def _find_abbreviated(
    finder: TextFinder, first: str, last: str, after: int, window: WindowText | None
) -> Span | None:
    for place, shown in ((after, window), (0, None)):
        start = _find_shown(finder, first, place, shown)
        if start is None:
            return None
        copied = (span for span in window.find_all(last) if span[0] >= start[1]) if window else ()
        later = (
            span
            for reading in read_typed_text(last)
            for span in finder.find_all(reading, start[1], spaced=False)
        )
        end = next(iter(copied), None) or next(later, None)
        if end:
            return start[0], end[1]
    return None

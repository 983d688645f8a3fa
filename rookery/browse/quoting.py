"""From what was typed to the span of a page that it names (WebGPT, appendix A)."""

import re
from collections.abc import Iterator, Sequence

from rookery.browse.find import Finder, Span
from rookery.browse.window import Part
from rookery.records import Page

ABBREVIATION = "━"
"""stands in `<start text>━<end text>` (WebGPT, appendix A). No dash does: pages are full of them,
and what a dash abbreviated would be quoted without anyone having meant it."""
_LINK = re.compile(r"【[0-9]+†(.*?)(?:†[^†】]*)?】", re.DOTALL)
_IMAGE = re.compile(r"\[Image(?:: [^\]]*)?\]")
_READING = re.compile(r"\([\u3040-\u30ff]+\)")
# What a window puts in the place of one character, and what it puts before or between words.
_SHOWN = str.maketrans("〖〗‡◆▪", "【】†♦■", "^_|·")


class WindowText:
    """The text of a window with its marks of links, images and scripts, and what is under it."""

    def __init__(self, page: Page, parts: Sequence[Part]) -> None:
        self._page = page
        self._parts = parts
        self._finder = Finder("".join(part.text for part in parts))

    def find_all(self, text: str) -> Iterator[Span]:
        """The spans of the page that are shown as `text`, marks included; white space, case and
        typography do not count. What has marks alone under it is none, nor is what the window
        shows with something of the page left out in between."""
        for low, high in self._finder.following(text, 0, spaced=False):
            if span := self._under(low, high):
                yield span

    def _under(self, low: int, high: int) -> Span | None:
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


def find(finder: Finder, text: str, after: int) -> Span | None:
    """The next place, from `after` on and then from the start, that reads `text`.

    Links count as their words. Case and typography do not count, white space does.
    """
    found = (finder.find(reading, after) for reading in as_typed(text))
    return next((span for span in found if span), None)


def find_quote(
    finder: Finder, text: str, after: int, window: WindowText | None = None
) -> Span | None:
    """The same for a quote: white space is ignored, what stands in `window` may be copied with its
    marks, or a part of them, and `start━end` names all from the one to the other."""
    if span := _named(finder, text, after, window):
        return span
    for reading in as_typed(text):
        for mark in re.finditer(ABBREVIATION, reading):
            halves = reading[: mark.start()], reading[mark.end() :]
            if span := _abbreviated(finder, *halves, after, window):
                return span
    return None


def as_typed(text: str) -> Iterator[str]:
    """What a text may mean: what it says, and what it says once a window's marks are taken out."""
    yield text
    words = _IMAGE.sub("", _LINK.sub(r"\1", text))
    if words != text:
        yield words
    plain = _READING.sub("", words).translate(_SHOWN)
    if plain != words:
        yield plain


def _named(finder: Finder, text: str, after: int, window: WindowText | None) -> Span | None:
    """Where the page shows a text: in the window as it stands there, or anywhere."""
    if window and (copied := next(window.find_all(text), None)):
        return copied
    found = (finder.find(reading, after, spaced=False) for reading in as_typed(text))
    return next((span for span in found if span), None)


def _abbreviated(
    finder: Finder, first: str, last: str, after: int, window: WindowText | None
) -> Span | None:
    for place, shown in ((after, window), (0, None)):
        start = _named(finder, first, place, shown)
        if start is None:
            return None
        copied = (span for span in window.find_all(last) if span[0] >= start[1]) if window else ()
        later = (
            span
            for reading in as_typed(last)
            for span in finder.following(reading, start[1], spaced=False)
        )
        end = next(iter(copied), None) or next(later, None)
        if end:
            return start[0], end[1]
    return None

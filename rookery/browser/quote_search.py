"""Find the span of a page that a typed text names (WebGPT, appendix A)."""

import re
from collections.abc import Iterator

from rookery.browser.page_view import WindowText
from rookery.quotes.text_search import Span, TextFinder

ABBREVIATION_MARK = "━"
"""stands in `<start text>━<end text>` (WebGPT, appendix A). No dash does: pages are full of them,
and what a dash abbreviated would be quoted without anyone having meant it."""
_LINK = re.compile(r"【[0-9]+†(.*?)(?:†[^†】]*)?】", re.DOTALL)
_IMAGE = re.compile(r"\[Image(?:: [^\]]*)?\]")
_RUBY_READING = re.compile(r"\([\u3040-\u30ff]+\)")
# What a window puts in the place of one character, and what it puts before or between words.
_MARK_TRANSLATION = str.maketrans("〖〗‡◆▪", "【】†♦■", "^_|·")


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

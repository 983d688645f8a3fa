"""From what was typed to the span of a page that it names (WebGPT, appendix A).

It knows how a window marks what it shows, and nothing of sessions.
"""

import re
from collections.abc import Iterator

from rookery.browse.find import Finder, Span

ABBREVIATION = "━"
"""stands in `<start text>━<end text>`; a dash is taken for it as well"""
_DASHES = re.compile("[━—]")
_LINK = re.compile(r"【[0-9]+†(.*?)(?:†[^†】]*)?】", re.DOTALL)
_IMAGE = re.compile(r"\[Image(?:: [^\]]*)?\]")
_READING = re.compile(r"\([\u3040-\u30ff]+\)")
# What a window puts in the place of one character, and what it puts before or between words.
_SHOWN = str.maketrans("〖〗‡◆▪", "【】†♦■", "^_|·")


def find(finder: Finder, text: str, after: int) -> Span | None:
    """The next place, from `after` on and then from the start, that reads `text`.

    Links count as their words. Case and typography do not count, white space does.
    """
    found = (finder.find(reading, after) for reading in as_typed(text))
    return next((span for span in found if span), None)


def find_quote(finder: Finder, text: str, after: int) -> Span | None:
    """The same for a quote: white space is ignored, and `start━end` names all from the one to
    the other."""
    for reading in as_typed(text):
        span = finder.find(reading, after, spaced=False) or _abbreviated(finder, reading, after)
        if span:
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


def _abbreviated(finder: Finder, text: str, after: int) -> Span | None:
    for dash in sorted(_DASHES.finditer(text), key=lambda found: found[0] != ABBREVIATION):
        start_text, end_text = text[: dash.start()], text[dash.end() :]
        for place in (after, 0):
            start = finder.find(start_text, place, spaced=False)
            ends = finder.following(end_text, start[1], spaced=False) if start else iter(())
            if start and (end := next(ends, None)):
                return start[0], end[1]
    return None

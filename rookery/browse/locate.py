"""Where on a page a string stands: exactly, or exactly once both are folded. Never nearly.

A sentence and its negation are nearly alike, so nothing here measures likeness. Knows nothing of
how the string came to be: typed by a model, copied by a person, read from another tool's answer.
"""

from collections.abc import Iterator

from rookery.browse.fold import Folded, fold
from rookery.records import Page, Quote


def locate(page: Page, wanted: str, after: int = 0, folded: Folded | None = None) -> Quote | None:
    """The quote that `wanted` names, in the page's own characters, or None where it is not there.

    An exact occurrence goes before one that is equal only once folded. Of several, the first that
    starts at `after` (an offset in the page's text) or later is taken, else the first. White space
    round `wanted` does not count; what is white or invisible throughout names nothing. Pass
    `folded`, the fold of the page's text, to look for many strings on one page.
    """
    plain = fold(wanted).text.strip()
    span = _first(page.text, wanted.strip(), after) if plain else None
    if span is None:
        span = _first_folded(folded or fold(page.text), plain, after)
    return page.quote(*span) if span else None


def occurrences(page: Page, wanted: str, folded: Folded | None = None) -> list[tuple[int, int]]:
    """The spans of the page's text where `wanted` stands, in order, not overlapping.

    Those that are exact where there is one, else those that are equal once folded.
    """
    plain = fold(wanted).text.strip()
    if exact := _spans(page.text, wanted.strip()) if plain else []:
        return exact
    folded = folded or fold(page.text)
    return [folded.source(*span) for span in folded_spans(folded, plain, 0)]


def _first(text: str, wanted: str, after: int) -> tuple[int, int] | None:
    start = text.find(wanted, max(after, 0))
    if start < 0:
        start = text.find(wanted)
    return (start, start + len(wanted)) if start >= 0 else None


def _first_folded(folded: Folded, wanted: str, after: int) -> tuple[int, int] | None:
    later = folded_spans(folded, wanted, folded.position(max(after, 0)))
    span = next(later, None) or next(folded_spans(folded, wanted, 0), None)
    return folded.source(*span) if span else None


def _spans(text: str, wanted: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = text.find(wanted)
    while start >= 0:
        spans.append((start, start + len(wanted)))
        start = text.find(wanted, start + len(wanted))
    return spans


def folded_spans(folded: Folded, wanted: str, start: int) -> Iterator[tuple[int, int]]:
    """The spans of the folded text where `wanted`, itself folded, stands, from `start` on.

    An occurrence that would cut a character is none: "about 1" is not on a page that says
    "about ½", although ½ folds to 1⁄2.
    """
    start = folded.text.find(wanted, start) if wanted else -1
    while start >= 0:
        end = start + len(wanted)
        whole = folded.whole(start, end)
        if whole:
            yield start, end
        start = folded.text.find(wanted, end if whole else start + 1)

"""A stored page laid out for reading: its own words in its own blocks, one span of them marked.

Every run of text is a slice of the page, so what is marked is the quote and nothing else. It knows
nothing of requests and of HTML.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rookery.browse.view import neutral
from rookery.records import Block, Mark, Page

AROUND = 60_000
"""characters that are shown before and after the place that is looked at, with whole blocks"""
# HTML reads a carriage return as a line feed, and takes NUL out: both would change what is marked.
_KEPT = str.maketrans({"\x00": "\ufffd", "\r": " "})
_RAISED = ("sup", "sub")

Span = tuple[int, int]


class Run(NamedTuple):
    """A piece of the page's text in one style."""

    text: str
    marked: bool = False
    first: bool = False
    """of what is marked: where a reader is led to"""
    raised: str = ""
    """sup or sub"""


class Paragraph(NamedTuple):
    """One block."""

    kind: str
    level: int
    runs: tuple[Run, ...]
    aside: bool
    """it is no part of the article: navigation, a footer"""
    hidden: bool
    """the page hides it: it is shown only because it is quoted"""


class Group(NamedTuple):
    """Blocks that belong together: the rows of a table, lines of code, items, or one alone."""

    kind: str
    rows: list[list[Paragraph]]


class Laid(NamedTuple):
    """A part of a page."""

    groups: list[Group]
    located: bool
    """whether the span's words stand on the page, to be marked wherever they are shown"""
    here: bool
    """whether they begin in this part"""
    before: int | None
    """a place in the part before this one; None: there is none"""
    after: int | None


def fits(page: Page, span: Span) -> bool:
    """Whether the span names words of this page."""
    start, end = span
    return 0 <= start < end <= len(page.text) and not page.text[start:end].isspace()


def lay_out(page: Page, span: Span | None, at: int) -> Laid:
    """The part of the page round text[at], with the words of the span marked if they all are there.

    Nothing is marked where the span does not fit: a wrong mark is worse than none.
    """
    blocks = page.blocks or (Block(0, len(page.text), "paragraph"),)
    marked = span if span and fits(page, span) and _covers(page, blocks, span) else None
    low = min(bisect_right(blocks, at - AROUND, key=_end), len(blocks) - 1)
    high = max(low + 1, bisect_left(blocks, at + AROUND, key=_start))
    if marked and blocks[low].start <= marked[0] < blocks[min(high, len(blocks)) - 1].end:
        high = max(high, bisect_left(blocks, marked[1], key=_start))
    raised = [mark for mark in page.marks if mark.kind in _RAISED]
    shown = blocks[low:high]
    begins = max(marked[0], _touched(blocks, marked)[0].start) if marked else -1
    first, last = shown[0].start, shown[-1].end
    return Laid(
        _groups(page, shown, marked, raised, begins),
        marked is not None,
        first <= begins < last,
        max(0, first - AROUND) if low > 0 else None,
        min(len(page.text), last + AROUND) if high < len(blocks) else None,
    )


def visible(text: str) -> str:
    """The text with each character that a reader would not see, or that turns a line, as a dot."""
    if text.isascii():
        return text.translate(_KEPT)
    safe = neutral(text)
    if safe != text:  # its markers are for models; a reader sees the page's own
        text = "".join(put if put == "·" else own for own, put in zip(text, safe, strict=True))
    return text.translate(_KEPT)


def _start(block: Block) -> int:
    return block.start


def _end(block: Block) -> int:
    return block.end


def _covers(page: Page, blocks: Sequence[Block], span: Span) -> bool:
    """Whether all words of the span stand in blocks, so that all of them can be marked."""
    done = span[0]
    for block in _touched(blocks, span):
        if block.start > done and not page.text[done : block.start].isspace():
            return False
        done = max(done, block.end)
    return done >= span[1] or page.text[done : span[1]].isspace()


def _touched(blocks: Sequence[Block], span: Span) -> Sequence[Block]:
    low = bisect_right(blocks, span[0], key=_end)
    return blocks[low : bisect_left(blocks, span[1], key=_start)]


def _groups(
    page: Page, blocks: Sequence[Block], span: Span | None, raised: Sequence[Mark], begins: int
) -> list[Group]:
    found: list[Group] = []
    before: Block | None = None
    for block in blocks:
        quoted = span is not None and block.start < span[1] and span[0] < block.end
        if block.hidden and not quoted:
            continue
        runs = tuple(_runs(page, block, span if quoted else None, raised, begins))
        one = Paragraph(block.kind, block.level, runs, not block.article, block.hidden)
        beside = before is not None and _is_beside(page.text[before.end : block.start])
        if found and one.kind == found[-1].kind and one.kind in ("cell", "code", "item"):
            if one.kind == "cell" and beside:
                found[-1].rows[-1].append(one)
            else:
                found[-1].rows.append([one])
        else:
            found.append(Group(one.kind, [[one]]))
        before = block
    return found


def _is_beside(gap: str) -> bool:
    return "\t" in gap and "\n" not in gap


def _runs(
    page: Page, block: Block, span: Span | None, raised: Sequence[Mark], begins: int
) -> Iterator[Run]:
    """The block's text, cut where the span or something raised begins or ends."""
    low, high = span or (block.end, block.end)
    first = bisect_left(raised, block.start, key=lambda mark: mark.start)
    ours = raised[first : bisect_left(raised, block.end, key=lambda mark: mark.start)]
    places = {block.start, block.end, low, high}
    places |= {place for mark in ours for place in (mark.start, mark.end)}
    cuts = sorted(place for place in places if block.start <= place <= block.end)
    for start, end in pairwise(cuts):
        kind = next((mark.kind for mark in ours if mark.start <= start < mark.end), "")
        yield Run(visible(page.text[start:end]), low <= start < high, start == begins, kind)

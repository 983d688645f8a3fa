"""A page cut into passages: spans of a few sentences that a search can find and a quote lies in.

It knows nothing of search engines: it reads the blocks of a page and returns offsets.
"""

import bisect
from collections.abc import Iterator

import msgspec
import sentencex

from rookery.records import Block, Page

CELL_BORDER = "\t"
"""what stands between two cells of a row in a page's text"""


class Passage(msgspec.Struct, frozen=True):
    """page.text[start:end], and what stands above it."""

    start: int
    end: int
    context: str
    """the headings it stands under, outermost first"""
    article: bool = True
    """False: boilerplate, worth finding only where the article says nothing"""


class PassageSizes(msgspec.Struct, frozen=True):
    """Characters of a passage."""

    short: int = 200
    """blocks shorter than this are joined with the next ones"""
    long: int = 1600
    """passages longer than this are cut between sentences"""
    prose: int = 80
    """boilerplate below this is navigation, not prose, and is left out"""


def passages(page: Page, sizes: PassageSizes = PassageSizes()) -> list[Passage]:
    """The passages of a page, in order, article first. Hidden text is in none of them."""
    article = [block for block in page.blocks if block.article and not block.hidden]
    rest = [
        block
        for block in page.blocks
        if not block.article and not block.hidden and block.end - block.start >= sizes.prose
    ]
    if not page.blocks and page.text.strip():
        article = [Block(0, len(page.text), "paragraph")]
    return [
        Passage(start, end, context, kind)
        for kind, blocks in ((True, article), (False, rest))
        for joined, context in _joined(page, blocks, sizes)
        for start, end in _cut(page.text, joined, sizes)
    ]


def _joined(
    page: Page, blocks: list[Block], sizes: PassageSizes
) -> Iterator[tuple[tuple[int, int], str]]:
    """Spans of neighbouring blocks, short ones joined, never across a heading."""
    headings: list[tuple[int, str]] = []
    start = end = -1
    for block in blocks:
        if block.kind == "heading":
            if start >= 0:
                yield (start, end), _context(headings)
                start = -1
            _open(headings, page, block)
            continue
        if start >= 0 and (end - start >= sizes.short or block.start - end > sizes.short):
            yield (start, end), _context(headings)
            start = -1
        start, end = (block.start if start < 0 else start), block.end
    if start >= 0:
        yield (start, end), _context(headings)


def _open(headings: list[tuple[int, str]], page: Page, heading: Block) -> None:
    """Close the headings that this one ends, and add it."""
    while headings and headings[-1][0] >= heading.level:
        headings.pop()
    headings.append((heading.level, page.text[heading.start : heading.end]))


def _context(headings: list[tuple[int, str]]) -> str:
    return " > ".join(text for _, text in headings)


def _cut(text: str, span: tuple[int, int], sizes: PassageSizes) -> Iterator[tuple[int, int]]:
    start, end = span
    while end - start > sizes.long:
        stops = _in_block(text, start, start + sizes.long, by_line=False)[:-1]
        at = stops[-1][1] if stops else start + sizes.long
        yield start, at
        start = at
    if text[start:end].strip():
        yield start, end


def headings_above(page: Page, at: int) -> str:
    """The headings that text[at] stands under, outermost first."""
    open_headings: list[tuple[int, str]] = []
    for block in page.blocks:
        if block.start >= at:
            break
        if block.kind == "heading":
            _open(open_headings, page, block)
    return _context(open_headings)


def sentences(page: Page, start: int, end: int) -> list[tuple[int, int]]:
    """The spans of the sentences in page.text[start:end].

    A row of a table and a line of code count as one; no other crosses a block. Headings,
    captions and hidden text hold none.
    """
    if not page.blocks:
        return _in_block(page.text, start, end, by_line=False)
    first = max(0, bisect.bisect(page.blocks, start, key=lambda block: block.start) - 1)
    spans: list[tuple[int, int]] = []
    for block in page.blocks[first:]:
        if block.start >= end:
            break
        low, high = max(start, block.start), min(end, block.end)
        if low >= high or block.kind in ("heading", "caption") or block.hidden:
            continue
        if block.kind != "cell":
            spans += _in_block(page.text, low, high, by_line=block.kind == "code")
        elif spans and page.text[spans[-1][1] : low] == CELL_BORDER:
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    return spans


def _in_block(text: str, start: int, end: int, by_line: bool) -> list[tuple[int, int]]:
    piece = text[start:end]
    pieces = piece.split("\n") if by_line else sentencex.segment("en", piece.replace("\n", " "))
    spans = []
    at = start
    for sentence in pieces:
        inner = sentence.strip()
        if inner:
            low = at + len(sentence) - len(sentence.lstrip())
            spans.append((low, low + len(inner)))
        at += len(sentence) + by_line
    return spans

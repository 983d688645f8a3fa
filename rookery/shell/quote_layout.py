"""Lay out quotes for the eye: rows of a table under the names of their columns, and joined lines.

What is stored, checked and linked is the quote itself.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rookery.pages.search_terms import get_question_terms, split_terms
from rookery.quotes.answer_types import find_answering_column
from rookery.quotes.quote_links import find_column_names, is_pdf
from rookery.records import Page, Quote

_WRAPPED = re.compile(
    r"(?<=[^\n]{45})\n(?:(?<![:;.!?]\n)(?=[^\W\d_])|(?<=[.!?]\n)(?=[^\W\d_][^\n]{45}))"
)
"""end of a line that only the width of a mail broke: the line is long, and a word
follows, behind the end of a sentence in another long line"""


class QuoteLayout(NamedTuple):
    """A quote as a reader sees it."""

    text: str
    """as long as the quote, with the lines of a paragraph joined"""
    names: tuple[str, ...] = ()
    """names of the columns, which may stand above the quote; empty where none are known"""
    rows: tuple[tuple[str, ...], ...] = ()
    """cells of a quote that is a part of a table; empty for other quotes"""
    row: int | None = None
    """number of the row that has the most words of the question; None where several have"""
    column: int | None = None
    """number of the column whose cell in that row answers; None where that is open"""


def lay_out_quote(quote: Quote, page: Page | None, question: str = "") -> QuoteLayout:
    """Lay out a quote by the blocks of its page; without the version that was quoted, as it is."""
    if page is None or page.digest != quote.digest:
        return QuoteLayout(quote.text)
    blocks = [each for each in page.blocks if each.start < quote.end and quote.start < each.end]
    kinds = {block.kind for block in blocks}
    if kinds <= {"paragraph", "quotation", "item"}:
        starts = {block.start - quote.start for block in blocks}
        text = _WRAPPED.sub(lambda end: "\n" if end.end() in starts else " ", quote.text)
        return QuoteLayout(text)
    # Of a PDF the cells of a row are known, and not which columns are empty in it.
    is_placed = not is_pdf(quote.url, page)
    before = page.text[page.text.rfind("\n", 0, quote.start) + 1 : quote.start]
    lines = (before * (is_placed and before.isspace()) + quote.text).split("\n")
    rows = [tuple(map(str.strip, line.split("\t"))) for line in lines if line.strip()]
    names = find_column_names(page, quote.start)
    if len(rows) > 1 and find_column_names(page, blocks[-1].start) == rows[0]:
        names = rows.pop(0)
    rows = [row + ("",) * (is_placed * (len(names) - len(row))) for row in rows]
    is_whole = len({*map(len, rows)}) == 1 and max(len(row) - row.count("") for row in rows) > 1
    if kinds != {"cell"} or not is_whole:
        return QuoteLayout(quote.text)
    names = names if len(names) == len(rows[0]) else ()
    terms = set(get_question_terms(question))
    row = 0 if len(rows) == 1 else _find_best(terms, [" ".join(row) for row in rows])
    column = None if row is None else find_answering_column(names, rows[row], question)
    return QuoteLayout(quote.text, names, tuple(rows), row, column)


def _find_best(terms: set[str], texts: Sequence[str]) -> int | None:
    counts = [len(terms.intersection(split_terms(text))) for text in texts]
    best = max(counts, default=0)
    return counts.index(best) if best and counts.count(best) == 1 else None

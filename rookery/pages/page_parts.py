"""Limits and errors of reading, and pages built of parts: slides, sheets, chapters, messages.

Each part is HTML of its own, so that markup left open in one of them does not reach the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

import msgspec

from rookery.errors import Failed, Outcome
from rookery.pages.html.html_parser import count_tags, read_html, simplify_markup
from rookery.pages.html.html_tree import HtmlTree
from rookery.pages.html.page_assembly import build_page
from rookery.records import Block, Failure, Link, Mark, Page

NOWHERE = "https://nowhere.invalid/"
"""base of the relative links of a document that has no address of its own, such as a mail"""
_GAP = "\n\n"
_TITLE_LENGTH = 200


class ReadLimits(msgspec.Struct, frozen=True):
    """Limits of reading one page; together they keep it under 1 GB of memory."""

    bytes: int = 20_000_000
    tags: int = 1_000_000
    characters: int = 10_000_000
    """of text, from any format"""
    markdown: int = 2_000_000
    """characters"""
    unpacked_bytes: int = 20_000_000
    """of the parts of a document that is an archive"""
    pdf_pages: int = 3_000
    seconds: float = 60.0
    """for the pages of a PDF"""
    ocr_seconds: float = 45.0
    """for the pages of a picture or of a PDF of pictures"""


def build_read_error(outcome: str, detail: str) -> Failed:
    """Return the error to raise for a page that cannot be read; `read_page` adds its address."""
    return Failed(Failure("", outcome, detail))


def check_size(size: int, most: int, what: str) -> None:
    """Raise Failed (too_large) where a page has more than `most` of what is limited."""
    if size > most:
        raise build_read_error(Outcome.TOO_LARGE, f"more than {most:,} {what}")


class PagePart(NamedTuple):
    """One part of a document, and the mark over its text, such as `slide` with its number."""

    page: Page
    mark: str = ""
    """kind of the mark; empty for none"""
    value: str = ""
    anchor: str = ""
    """name that links to this part have behind the `#`"""


def read_part(html: str, url: str, limits: ReadLimits, whole: bool = True) -> Page:
    """Return the page that this HTML is, with `whole` all of it article; it may hold no text.

    `url` is the base of its relative links. Raises Failed: too_large.
    """
    return build_page(parse_part(html, limits), url, whole=whole)


def parse_part(html: str, limits: ReadLimits) -> HtmlTree:
    """Return HTML as a tree. Raises Failed: too_large."""
    if html.count("<") > limits.tags:
        check_size(count_tags(html), limits.tags, "tags")
    return read_html(simplify_markup(html))


def read_labels(labels: Iterable[str]) -> Page:
    """Return lines about a document, such as the sender of a mail: shown, never searched."""
    page = read_part("<br>".join(map(escape, labels)), NOWHERE, ReadLimits())
    blocks = tuple(msgspec.structs.replace(block, furniture=True) for block in page.blocks)
    return msgspec.structs.replace(page, blocks=blocks)


def build_table(rows: Iterable[Iterable[str]], headed: bool) -> str:
    """Return the HTML of a table; `headed` where its first row holds the names of the columns.

    The cells are HTML already.
    """
    html = ["<table>"]
    tag = "th" if headed else "td"
    for row in rows:
        html += ("<tr>", *(f"<{tag}>{cell}</{tag}>" for cell in row), "</tr>")
        tag = "td"
    return "".join((*html, "</table>"))


def build_sparse_table(rows: Sequence[Mapping[int, str]], headed: bool, limits: ReadLimits) -> str:
    """Return the HTML of a table given as the cells of each row by column; nothing without rows.

    Columns without any cell are left out. Raises Failed: too_large.
    """
    columns = sorted(set().union(*rows))
    if 2 * len(rows) * len(columns) > limits.tags:
        detail = f"a table of {len(rows):,} rows and {len(columns):,} columns"
        raise build_read_error(Outcome.TOO_LARGE, detail)
    # One text may stand in many cells, and takes memory only when the table is written.
    if sum(len(cell) for row in rows for cell in row.values()) > limits.characters:
        detail = f"a table of more than {limits.characters:,} characters"
        raise build_read_error(Outcome.TOO_LARGE, detail)
    wide = ([row.get(column, "") for column in columns] for row in rows)
    return build_table(wide, headed) if rows else ""


def join_parts(
    parts: Iterable[PagePart], url: str, fetched: str, title: str, limits: ReadLimits
) -> Page:
    """Return one page of all parts in their order; parts without text are left out.

    Without a title, the first part's that has one is taken, else the first line of what is shown; a
    title is cut to 200 characters. Links below NOWHERE are left out. Raises Failed: too_large,
    empty_after_extraction.
    """
    texts: list[str] = []
    blocks: list[Block] = []
    links: list[Link] = []
    marks: list[Mark] = []
    at = 0
    for page, kind, value, anchor in parts:
        if not page.blocks:
            continue
        at += len(_GAP) if texts else 0
        if kind:
            marks.append(Mark(at, at + len(page.text), kind, value))
        if anchor:
            marks.append(Mark(at, at, "anchor", anchor))
        texts.append(page.text)
        for items, moved in ((page.blocks, blocks), (page.marks, marks), (page.links, links)):
            moved += (  # type: ignore[operator]
                msgspec.structs.replace(one, start=one.start + at, end=one.end + at)
                for one in items
            )
        at += len(page.text)
        title = title or page.title
        check_size(at, limits.characters, "characters of text")
    first = next((block for block in blocks if not block.hidden), None)
    if first is None:
        raise build_read_error(Outcome.EMPTY_AFTER_EXTRACTION, "the document holds no text")
    text = _GAP.join(texts)
    title = title or text[first.start : first.end].split("\n", 1)[0]
    return Page(
        url=url,
        title=" ".join(title.split())[:_TITLE_LENGTH],
        text=text,
        blocks=tuple(blocks),
        links=tuple(link for link in links if not link.url.startswith(NOWHERE)),
        marks=tuple(sorted(marks, key=lambda mark: (mark.start, mark.end))),
        fetched=fetched,
    )

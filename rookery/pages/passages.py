"""Cut a page into passages: spans of a few sentences for searching and quoting."""

import bisect
import re
from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile
from typing import NamedTuple

import msgspec
import sentencex

from rookery.pages.search_terms import find_language, join_pairs, split_terms
from rookery.records import Block, Hit, Mark, Page
from rookery.written_values import list_value_terms

READER_FORMAT = "3"
"""of pages and passages, as they are made of the bytes of a file: raise it where any of them become
others, and what is indexed is read again"""
CELL_BORDER = "\t"
"""what stands between two cells of a row in a page's text"""


class Passage(msgspec.Struct, frozen=True):
    """page.text[start:end], and what stands above it."""

    start: int
    end: int
    context: str
    """the headings it stands under, outermost first"""
    label: str = ""
    """the names of the columns of a table that begins above it, the key of its value in JSON, or
    who wrote the mail, or what it quotes, and when"""
    article: bool = True
    """False: comments, footnotes and the like, outside the article view"""


class PassageSizes(msgspec.Struct, frozen=True):
    """Limits on the size of a passage, in characters."""

    short: int = 200
    """blocks shorter than this are joined with the next ones"""
    long: int = 1600
    """passages longer than this are cut between sentences"""
    prose: int = 80
    """blocks outside the article that are shorter than this are navigation, and are left out"""


MOST_LINKED_IN_ARTICLE = 0.9
"""share of a passage of the article that is links where it is a list of links and no prose"""
MOST_LINKED_ELSEWHERE = 0.5
"""the same outside the article"""
_NOTICE = re.compile(
    r"©|\(c\) ?(?:19|20)\d\d|\bcopyright (?:by |\(c\) ?)?(?:19|20)\d\d|\ball rights reserved\b"
    r"|\balle rechte vorbehalten\b|\btous droits réservés\b|\btodos los derechos reservados\b"
    r"|\bcookie (?:banner|consent|notice|polic(?:y|ies)|preferences|settings)\b"
    r"|\b(?:we|(?:web)?site) uses? (?:\w+ ){0,3}cookies\b"
    r"|\b(?:accept|allow|reject) (?:all )?cookies\b"
    r"|\b(?:utilis\w+|utiliza\w*|verwende\w*|gebruik\w*|usa\w*) (?:\w+ ){0,3}cookies\b"
    r"|^(?:advertisement|sponsored|anzeige|publicité|publicidad)\b",
    re.IGNORECASE,
)
"""of copyright lines, cookie banners and adverts whose markup does not tell them from prose"""


def cut_passages(page: Page, sizes: PassageSizes = PassageSizes()) -> list[Passage]:
    """Return the passages of a page, in order, article first.

    Short neighbouring blocks below the same headings and, in a mail, by the same writer are joined,
    long ones cut between sentences.
    Hidden text and headings are in no passage, nor what nobody would quote: furniture, lists of
    links and, outside the article, short blocks and what reads like a copyright line, a cookie
    banner or an advert. A page without blocks counts as one paragraph of article.
    """
    visible_blocks = [block for block in page.blocks if not (block.hidden or block.furniture)]
    article, labels = [block for block in visible_blocks if block.article], find_labels(page)
    others = (block for block in visible_blocks if not block.article)
    rest = [block for block in others if _is_prose(page, block, sizes)]
    if not page.blocks and page.text.strip():
        article = [Block(0, len(page.text), "paragraph")]
    return [
        Passage(start, end, context, _get_label(labels, start), kind)
        for kind, blocks in ((True, article), (False, rest))
        for joined, context in _join_blocks(page, blocks, sizes)
        for start, end in _cut_span(page.text, joined, sizes)
        if _linked_share(page, start, end)
        < (MOST_LINKED_IN_ARTICLE if kind else MOST_LINKED_ELSEWHERE)
    ]


def _is_prose(page: Page, block: Block, sizes: PassageSizes) -> bool:
    """Tell whether a block outside the article may be worth quoting."""
    return (
        block.end - block.start >= sizes.prose
        and not _NOTICE.search(page.text[block.start : block.end])
        and _linked_share(page, block.start, block.end) < MOST_LINKED_ELSEWHERE
    )


def _linked_share(page: Page, start: int, end: int) -> float:
    """Return the share of the characters of text[start:end], white space left out, that are
    links."""
    first = bisect.bisect_right(page.links, start, key=lambda link: link.start)
    linked, at = 0, start
    for link in page.links[max(0, first - 1) :]:
        if link.start >= end:
            break
        linked += _count_written(page.text[max(at, link.start) : min(end, link.end)])
        at = max(at, link.end)
    return linked / max(1, _count_written(page.text[start:end]))


def _count_written(text: str) -> int:
    return len("".join(text.split()))


def _join_blocks(
    page: Page, blocks: list[Block], sizes: PassageSizes
) -> Iterator[tuple[tuple[int, int], str]]:
    """Spans of neighbouring blocks, short ones joined, never across a heading or what is left out,
    such as a byline: a quote is one slice."""
    headings: list[tuple[int, str]] = []
    writers = [mark for mark in page.marks if mark.kind in ("sender", "quoted")]
    start = end = -1
    for block in blocks:
        gap = page.text[end : block.start]
        full = end - start >= sizes.short and (not gap or gap.strip(CELL_BORDER))  # no row is cut
        other = _get_label(writers, block.start) != _get_label(writers, start)
        if start >= 0 and (block.kind == "heading" or gap.strip() or full or other):
            yield (start, end), _join_headings(headings)
            start = -1
        if block.kind == "heading":
            _push_heading(headings, page, block)
        else:
            start, end = (block.start if start < 0 else start), block.end
    if start >= 0:
        yield (start, end), _join_headings(headings)


def _push_heading(headings: list[tuple[int, str]], page: Page, heading: Block) -> None:
    """Close the headings that this one ends, and add it."""
    while headings and headings[-1][0] >= heading.level:
        headings.pop()
    headings.append((heading.level, page.text[heading.start : heading.end]))


def _join_headings(headings: list[tuple[int, str]]) -> str:
    return " > ".join(text for _, text in headings)


def _cut_span(text: str, span: tuple[int, int], sizes: PassageSizes) -> Iterator[tuple[int, int]]:
    start, end = span
    while end - start > sizes.long:
        stops = _sentences_in_block(text, start, start + sizes.long, by_line=False)[:-1]
        at = stops[-1][1] if stops else start + sizes.long
        yield start, at
        start = at
    if text[start:end].strip():
        yield start, end


LONGEST_LABEL = 300
"""characters of the names of columns that stand with each row of a table"""
_COLUMN_NAME = re.compile(r"(?=.*[^\W\d]|(?:19|20)\d\d$)[^\n]{1,60}")
_VALUE = re.compile(r"(?<!\w)(?!(?:19|20)\d\d\b)[\d.,]*\d")


def names_columns(cells: Sequence[str]) -> bool:
    """Tell whether a row looks like the names of columns: all there, all different, no values."""
    names = [cell.strip() for cell in cells]
    return (
        len(names) > 1
        and len(set(names)) == len(names)
        and names[0][:1].isalpha()
        and all(map(_COLUMN_NAME.fullmatch, names))
    )


def find_labels(page: Page) -> list[Mark]:
    """Return spans of text that are found by words above them, in order of their starts.

    The value of a mark is the names of the columns of these rows of a table, joined by ` | ` and
    cut to LONGEST_LABEL characters, the key of a value in JSON (mark `key`), or who wrote a mail
    (`sender`) or what it quotes (`quoted`), and when. The names are the
    rows of header cells or, without any, the first row where the others hold numbers.
    """
    labels = [mark for mark in page.marks if mark.kind in ("key", "sender", "quoted")]
    heads = {mark.start for mark in page.marks if mark.kind == "header"}
    for rows in _split_tables(page):
        texts = [[page.text[cell.start : cell.end] for cell in row] for row in rows]
        top = sum(1 for _ in takewhile(lambda row: len(row) < 2, texts))
        named = {n for n, row in enumerate(rows) if row[0].start in heads and len(row) > 1}
        if not named and _is_headed(texts[top:]):
            named = set(range(top + 1))
        names = ""
        for is_head, group in groupby(range(len(rows)), named.__contains__):
            first, *_, last = [*group] * 2
            if is_head:
                cells = dict.fromkeys(cell for row in texts[first : last + 1] for cell in row)
                names = " | ".join(cells)[:LONGEST_LABEL]
            elif names:
                labels.append(Mark(rows[first][0].start, rows[last][-1].end, "columns", names))
    return sorted(labels, key=lambda label: label.start)


def _is_headed(rows: Sequence[Sequence[str]]) -> bool:
    valued = [_VALUE.search(" ".join(row)) is not None for row in rows]
    return 2 * sum(valued) > len(rows) and not valued[0] and names_columns(rows[0])


def _split_tables(page: Page) -> Iterator[list[list[Block]]]:
    """Yield the rows of each table: its cells stand apart by tabs, its rows by a line break."""
    rows: list[list[Block]] = []
    for block in page.blocks:
        if block.kind == "cell" and not block.hidden:
            gap = page.text[rows[-1][-1].end : block.start] if rows else "\n\n"
            if gap.strip() or gap.count("\n") > 1:
                yield from filter(None, [rows])
                rows = [[block]]
            elif "\n" in gap:
                rows.append([block])
            else:
                rows[-1].append(block)
    yield from filter(None, [rows])


_LOG_LINE = re.compile(
    r"\W{0,2}(?:\d{4}[-/.]\d\d[-/.]\d\d[T ]\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d)"
)


class TableRow(NamedTuple):
    """A row of a table whose columns have names, or a line of a log."""

    start: int
    end: int
    words: str
    """the row as words: each cell behind the name of its column; empty for the names themselves"""
    group: str = ""
    """the last row above it that is a single cell, such as a title"""


def list_table_rows(page: Page) -> list[TableRow]:
    """Return the rows of tables whose columns have names, and the lines of a log, in order."""
    table_rows = [
        TableRow(block.start, block.end, page.text[block.start : block.end])
        for block in page.blocks
        if block.kind == "code" and _LOG_LINE.match(page.text, block.start)
    ]
    heads = {mark.start for mark in page.marks if mark.kind == "header"}
    above = {block.end + 1: block for block in page.blocks if block.kind == "heading"}
    is_pdf = any(mark.kind == "page" for mark in page.marks)
    for rows in _split_tables(page):
        cells = [_place_cells(page, row) for row in rows]
        texts = [[*row.values()] for row in cells]
        top = sum(1 for _ in takewhile(lambda row: len(row) < 2, texts))
        named = {n for n, row in enumerate(rows) if row[0].start in heads and len(texts[n]) > 1}
        if not named and _is_headed(texts[top:]):
            named = {top}
        first = above.get(rows[0][0].start)
        names, group, was_head = _place_cells(page, [first] if first else []), "", False
        names = names if len(names) > 1 else {}
        for number, row in enumerate(rows if named or names else ()):
            placed, is_head = cells[number], number in named
            if is_head:
                table_rows.append(TableRow(row[0].start, row[-1].end, ""))
                names = names if was_head else {}
                for column, text in placed.items():
                    names[column] = " ".join(dict.fromkeys([*names.get(column, "").split(), text]))
            elif len(placed) == 1:
                group = texts[number][0]
                table_rows.append(TableRow(row[0].start, row[-1].end, group))
            elif names:
                columns = {} if is_pdf and len(placed) != len(names) else names
                pairs = (f"{columns.get(column, '')} {text}" for column, text in placed.items())
                words = ", ".join(map(str.strip, pairs))
                table_rows.append(TableRow(row[0].start, row[-1].end, words, group))
            was_head = is_head
    return sorted(table_rows)


def _place_cells(page: Page, row: Sequence[Block]) -> dict[int, str]:
    """Return the texts of a row's cells by their columns, without the empty ones."""
    if not row:
        return {}
    line = page.text[page.text.rfind("\n", 0, row[0].start) + 1 : row[-1].end]
    return {n: cell.strip() for n, cell in enumerate(line.split(CELL_BORDER)) if cell.strip()}


def _get_label(labels: Sequence[Mark], at: int) -> str:
    number = bisect.bisect_right(labels, at, key=lambda label: label.start) - 1
    return labels[number].value if number >= 0 and at < labels[number].end else ""


def find_label(page: Page, at: int) -> str:
    """Return the value of the label, as `find_labels` finds it, over text[at]; "" for none."""
    number = bisect.bisect_right(page.blocks, at, key=lambda block: block.start) - 1
    labelled = number >= 0 and page.blocks[number].kind in ("cell", "code")
    return _get_label(find_labels(page), at) if labelled else ""


def get_headings_above(page: Page, at: int) -> str:
    """Return the headings that text[at] stands under, outermost first, joined by ` > `; else "".

    In a row of a table the names of its columns follow, in JSON the key.
    """
    open_headings: list[tuple[int, str]] = []
    for block in page.blocks:
        if block.start >= at:
            break
        if block.kind == "heading":
            _push_heading(open_headings, page, block)
    return " > ".join(filter(None, [_join_headings(open_headings), find_label(page, at)]))


def find_sentences(page: Page, start: int, end: int) -> list[tuple[int, int]]:
    """Return the spans of the sentences in page.text[start:end], cut off at these two offsets.

    A row of a table and a line of code count as one; no other crosses a block. Headings, captions
    and hidden text hold none. Sentences end by the rules of English but for German pages.
    """
    if not page.blocks:
        return _sentences_in_block(page.text, start, end, by_line=False)
    first = max(0, bisect.bisect(page.blocks, start, key=lambda block: block.start) - 1)
    spans: list[tuple[int, int]] = []
    for block in page.blocks[first:]:
        if block.start >= end:
            break
        low, high = max(start, block.start), min(end, block.end)
        if low >= high or block.kind in ("heading", "caption") or block.hidden:
            continue
        if block.kind != "cell":
            spans += _sentences_in_block(page.text, low, high, by_line=block.kind == "code")
        elif spans and page.text[spans[-1][1] : low] == CELL_BORDER:
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    return spans


def _sentences_in_block(text: str, start: int, end: int, by_line: bool) -> list[tuple[int, int]]:
    piece = text[start:end]
    language = "de" if find_language(text) == "german" else "en"  # "am 3. Mai", "vgl. Abb. 3"
    pieces = piece.split("\n") if by_line else sentencex.segment(language, piece.replace("\n", " "))
    spans, at = list[tuple[int, int]](), start
    for sentence in pieces:
        if sentence.strip():
            low = at + len(sentence) - len(sentence.lstrip())
            if spans and spans[-1][1] == low and text[low - 1] == "." and text[low].isalnum():
                low = spans.pop()[0]  # of "files such as .LCK" the stop ends nothing
            spans.append((low, at + len(sentence.rstrip())))
        at += len(sentence) + by_line
    return spans


TITLE_REPETITIONS = 2
"""how often the words of title and headings stand before a passage's own"""
SNIPPET_LENGTH = 200
"""characters of a passage that a Hit carries"""


class IndexEntry(msgspec.Struct, frozen=True, array_like=True):
    """One passage as the index stores it."""

    hit: bytes
    """the Hit that finds it, as JSON, without a score"""
    words: str
    """its terms after those of its title and headings, then those of the values in all of them,
    separated by spaces"""
    pairs: str
    """its pairs of neighbouring terms"""
    article: bool
    """False: outside the article view, worth half"""
    language: str
    """of the page, as its words were stemmed"""
    text: str
    """title, headings and the passage, of which its vector is made"""


def build_index_entries(page: Page) -> list[IndexEntry]:
    """Cut a page into passages and prepare each for an index.

    This is nearly all of the work of indexing. It needs no index, so another process can do it.
    """
    above: dict[tuple[str, str], list[str]] = {}
    entries, language = list[IndexEntry](), find_language(page.text)
    for passage in cut_passages(page):
        over = passage.context, passage.label
        if over not in above:
            above[over] = TITLE_REPETITIONS * split_terms(" ".join((page.title, *over)), language)
        words = split_terms(text := page.text[passage.start : passage.end], language)
        words[:0] = above[over]
        hit, pairs = msgspec.json.encode(_make_hit(page, passage)), " ".join(join_pairs(words))
        values = list_value_terms(" ".join((page.title, *over, text)))
        words += [term for term in values if term not in words]
        rest = passage.article, language, " ".join((page.title, *over, text))
        entries.append(IndexEntry(hit, " ".join(words), pairs, *rest))
    return entries


def _make_hit(page: Page, passage: Passage) -> Hit:
    start, end = passage.start, passage.end
    return Hit(page.url, page.title, page.text[start:end][:SNIPPET_LENGTH], page.digest, start, end)

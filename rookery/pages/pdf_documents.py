"""Read PDF files: paragraphs, headings, lists, tables and notes from the places of lines of text.

A PDF holds letters and their places, no paragraphs. Lines come in the file's order, which nearly
every program writes column by column; their places tell the rest.
"""

import ctypes
import itertools
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import hypot
from statistics import median, median_low
from typing import Any, NamedTuple

import msgspec

from rookery.errors import Failed, Outcome
from rookery.pages.page_parts import ReadLimits, build_read_error, check_size
from rookery.records import Block, Mark, Page

# PDFium keeps state of its own for the whole process: two threads in it are a segmentation fault.
PDFIUM_LOCK = threading.Lock()
_PASSWORD = 4
_SAMPLED_LETTERS = 60
_TITLE_LENGTH = 200
# PDFium writes one of these two in the place of a hyphen that divides a word at the end of a line.
_DIVIDED = "\x02\ufffe"
_LIGATURES = str.maketrans(dict(zip("ﬀﬁﬂﬃﬄﬅﬆ", "ff fi fl ffi ffl st st".split(), strict=True)))
_UNREADABLE = re.compile("[\x00\x01\x03-\x08\x0e-\x1f\x7f\xad]")
# No line break follows a word that is divided.
_LINE = re.compile(f"[^\r\n{_DIVIDED}]+[{_DIVIDED}]?")
_HALVES = re.compile(rf"(?<![^\W\d_])[^\W\d_]*+[{_DIVIDED}]\n?[^\W\d_]*")
_DIGITS = re.compile(r"\d+")
_WORD = re.compile(r"\S+")
_LETTERS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_SENTENCE_END = re.compile(r"""[.!?:;]["'”’)\]]*$""")
_BULLET = re.compile(r"[•◦▪▫●○■□‣⁃∙·–—*-]|o|\uf0b7|\uf0a7|\uf0d8")
_ENUMERATOR = re.compile(r"\(?(?:\d{1,3}|[a-zA-Z]|[ivx]{1,5})[.)]|\[\d{1,3}\]")
_ITEM = re.compile(rf"(?:{_BULLET.pattern}|{_ENUMERATOR.pattern})\s+\S")
_LEADERS = re.compile(r"(?:\. ?){4,}|…{2,}|_{4,}")
_CAPTION = re.compile(
    r"(?:fig(?:ure|\.)|tab(?:le|\.)|abb(?:ildung|\.)|tabelle|listing|algorithm|chart|exhibit|"
    r"plate|scheme)\s+(?:\d+|[IVX]+)(?:[.–-]\d+)*\s*(?:[.:|–—(]|\s[A-ZÄÖÜ]|$)",
    re.IGNORECASE,
)
_NOTE = re.compile(r"(?:\d{1,3}|[*†‡§¶]+)\s?\S")
_ROMAN = re.compile(
    r"m{0,3}(?:c[md]|d?c{0,3})(?:x[cl]|l?x{0,3})(?:i[xv]|v?i{0,3})", re.IGNORECASE | re.ASCII
)
_ROMAN_VALUES = dict(zip("ivxlcdm", (1, 5, 10, 50, 100, 500, 1000), strict=True))
_BOLD_NAME = re.compile(r"bold|black|heavy|semibold|demi|cmbx|sfbx|-b$|\bbd\b", re.IGNORECASE)
_FIXED_NAME = re.compile(r"mono|courier|consol|cmtt|cmsltt|sftt|typewriter|menlo", re.IGNORECASE)
_COORDINATED = frozenset(("and", "or", "to", "und", "oder", "et", "ou", "y", "o", "e"))
_EDGE_LINES = 3
"""lines at the top and at the bottom of a page that may be running heads, feet and page numbers"""
_LONGEST_HEADING = 250
_HIGHEST_CELL, _MOST_CELLS = 12, 60
"""lines of one cell of a table, and cells of a row"""


class _Line(msgspec.Struct):
    """A line of text, or the part of one before or behind a wide gap. Lengths are in points."""

    text: str
    left: float
    right: float
    y: float
    """of the baseline, upwards from the bottom of the page as it is shown"""
    size: float
    """of the letters"""
    bold: bool = False
    fixed: bool = False


class _Part(msgspec.Struct):
    """A paragraph, heading, item, row of a table or line of code, as pieces by page."""

    kind: str
    pieces: list[tuple[int, list[str]]]
    """the number of a page and lines of text on it"""
    size: float = 0.0
    bold: bool = False
    open: bool = False
    """may go on in the next column or on the next page"""
    fresh: bool = False
    """may go on from one before: it does not begin with an indentation"""
    note: bool = False
    level: int = 0
    cells: tuple[list[str], ...] = ()
    """lines of text of each cell of a row"""


def read_pdf(
    data: bytes,
    url: str,
    fetched: str,
    limits: ReadLimits,
    recognize: Callable[[list[int]], Iterable[tuple[int, list[str]]]] = lambda numbers: (),
) -> Page:
    """Return a PDF as a Page, with a mark `page` over the text of each of its pages.

    Running heads, feet and page numbers are furniture and never stand inside a paragraph; one that
    crosses pages is one block, and the marks meet inside it. Threads take turns. `recognize` is
    given the numbers of the pages without text, from 0, and yields the paragraphs of those that it
    can read; marks `ocr` cover them. Raises Failed: encrypted, malformed, too_large (also after
    `limits.seconds`), empty_after_extraction, and what `recognize` raises where no page has text of
    its own.
    """
    with PDFIUM_LOCK:
        pages, title = _read_lines(data, limits)
    pictures = [number for number, lines in enumerate(pages) if not lines]
    recognized: dict[int, list[str]] = {}
    try:
        for number, paragraphs in recognize(pictures) if pictures else ():
            recognized[number] = paragraphs
    except Failed:
        if len(pictures) == len(pages):
            raise
    parts = _find_parts(pages, recognized)
    text, blocks, marks = _write_parts(parts, pages)
    if not blocks:
        detail = "its pages are pictures, which are read from files where tesseract is installed"
        if recognized:
            detail = "its pages are pictures, in which tesseract reads nothing"
        raise build_read_error(Outcome.EMPTY_AFTER_EXTRACTION, f"no text in the PDF: {detail}")
    marks += [
        Mark(mark.start, mark.end, "ocr")
        for number, mark in enumerate(marks)
        if number in recognized and mark.end > mark.start
    ]
    return Page(
        url=url,
        title=title or _choose_title(parts)[:_TITLE_LENGTH],
        text=text,
        blocks=tuple(blocks),
        marks=tuple(sorted(marks, key=lambda mark: (mark.start, mark.end))),
        fetched=fetched,
    )


def _read_lines(data: bytes, limits: ReadLimits) -> tuple[list[list[_Line]], str]:
    """Return the lines of each page, and the title that the PDF gives itself."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower():
            raise build_read_error(Outcome.ENCRYPTED, "the PDF needs a password") from error
        raise build_read_error(Outcome.MALFORMED, f"the PDF cannot be opened ({error})") from error
    try:
        if len(document) > limits.pdf_pages:
            raise build_read_error(Outcome.TOO_LARGE, f"a PDF of {len(document):,} pages")
        return list(_iter_page_lines(document, limits)), _read_title(document)
    finally:
        document.close()


def _read_title(document: Any) -> str:
    """Return the title that the PDF gives itself; empty where it has none or it is damaged."""
    try:
        return str(document.get_metadata_value("Title") or "").strip()
    except UnicodeDecodeError:
        return ""


def _choose_title(parts: list[_Part]) -> str:
    """Return the heading with which the text begins, or its first line."""
    first = next((part for part in parts if part.kind), parts[0])
    lines = first.pieces[0][1]
    return _join_lines(first.cells[0] if first.cells else lines if first.level else lines[:1])


def _iter_page_lines(document: Any, limits: ReadLimits) -> Iterator[list[_Line]]:
    import pypdfium2

    characters = 0
    deadline = time.monotonic() + limits.seconds
    for number in range(len(document)):
        if time.monotonic() > deadline:
            detail = f"the PDF takes more than {limits.seconds:g} seconds"
            raise build_read_error(Outcome.TOO_LARGE, detail)
        try:
            upright = open_upright_page(document, number)
            lines = list(_LineReader(upright).iter_lines())
            upright.page.close()
        except pypdfium2.PdfiumError:
            # One damaged page costs itself, not the document; its mark stays empty.
            lines = []
        characters += sum(len(line.text) + 1 for line in lines)
        check_size(characters, limits.characters, "characters")
        yield lines


class UprightPage(NamedTuple):
    """A page of a PDF that was turned so that most of its letters stand upright."""

    page: Any
    text: Any
    """pypdfium2's text of the page"""
    turns: tuple[tuple[float, ...], ...]
    """matrices (a, b, c, d, e, f, as in a PDF) that were applied to its content, in order"""

    def locate_box(self, box: Sequence[float]) -> tuple[float, ...]:
        """Return a box (left, bottom, right, top) on this page as one on the page as it was."""
        corners = [(box[0], box[1]), (box[2], box[3])]
        for a, b, c, d, e, f in reversed(self.turns):
            corners = [(a * (x - e) + b * (y - f), c * (x - e) + d * (y - f)) for x, y in corners]
        (x0, y0), (x1, y1) = corners
        return min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)


def open_upright_page(document: Any, number: int) -> UprightPage:
    """Open a page, from 0, and turn it in the opened document if its letters do not stand upright.

    PDFium finds fewer lines and tables on a page that is shown turned, or whose text lies on its
    side, and reads it in another order. The caller holds PDFIUM_LOCK and closes the page. Raises
    pypdfium2's PdfiumError for a damaged page.
    """
    page, turns = document[number], []
    if turn := page.get_rotation():
        turns.append(_turn_page(page, turn))
        page = document[number]
    text = page.get_textpage()
    if turn := _find_turn(text):
        text.close()
        turns.append(_turn_page(page, turn))
        page = document[number]
        text = page.get_textpage()
    return UprightPage(page, text, tuple(turns))


def _find_turn(text: Any) -> int:
    """Return the turn, clockwise in degrees, that sets most letters of a page upright; 0: none."""
    import pypdfium2.raw

    turns: Counter[int] = Counter()
    matrix, count = pypdfium2.raw.FS_MATRIX(), text.count_chars()
    for letter in range(0, count, max(1, count // _SAMPLED_LETTERS)):
        if chr(pypdfium2.raw.FPDFText_GetUnicode(text.raw, letter)).isalnum():
            pypdfium2.raw.FPDFText_GetMatrix(text.raw, letter, matrix)
            sideways = abs(matrix.b) > abs(matrix.a)
            onward = matrix.b > 0 if sideways else matrix.a >= 0
            turns[(90 if onward else 270) if sideways else (0 if onward else 180)] += 1
    turn = max(turns, key=lambda each: turns[each], default=0)
    return turn if 2 * turns[turn] > turns.total() else 0


def _turn_page(page: Any, turn: int) -> tuple[float, ...]:
    """Turn the content of a page clockwise by 90, 180 or 270 degrees, and close it.

    Returns the matrix by which it was turned. The page has to be opened anew.
    """
    import pypdfium2.raw

    x_min, bottom, right, top = page.get_bbox()
    width, height = right - x_min, top - bottom
    matrix, sides = {
        90: ((0, -1, 1, 0, -bottom, right), (height, width)),
        180: ((-1, 0, 0, -1, right, top), (width, height)),
        270: ((0, 1, -1, 0, top, -x_min), (height, width)),
    }[turn]
    pypdfium2.raw.FPDFPage_TransFormWithClip(page, pypdfium2.raw.FS_MATRIX(*matrix), None)
    page.set_mediabox(0, 0, *sides)
    page.set_cropbox(0, 0, *sides)
    page.set_rotation(0)
    page.close()
    return matrix


class _LineReader:
    """Reads the lines of one page with their places.

    Asking PDFium for the box of every letter would take three times as long as reading the text:
    the first and the last letter of a line are asked for, and those of words only where a line is
    wider than its letters need.
    """

    def __init__(self, upright: UprightPage) -> None:
        import pypdfium2.raw

        self.raw = pypdfium2.raw
        self.shown = upright.text
        self.handle = self.shown.raw
        self.edges = upright.page.get_bbox()
        count = self.shown.count_chars()
        buffer = (ctypes.c_ushort * (count + 1))()
        units_read = self.raw.FPDFText_GetText(self.handle, 0, count, buffer) if count else 0
        units = memoryview(buffer).cast("B")[: 2 * max(units_read - 1, 0)]
        self.units = str(units, "utf-16-le", "surrogatepass")
        if len(self.units) != len(units) // 2:
            # One character for each unit of UTF-16, so that places count as PDFium counts them.
            self.units = "".join(map(chr, buffer[: len(units) // 2]))
        self.aligned = len(self.units) == count
        self.box = self.raw.FS_RECTF()
        self.matrix = self.raw.FS_MATRIX()
        self.name = ctypes.create_string_buffer(128)
        self.flags = ctypes.c_int()
        self.x, self.y = ctypes.c_double(), ctypes.c_double()
        self.fonts: dict[bytes, tuple[bool, bool]] = {}

    def iter_lines(self) -> Iterator[_Line]:
        widths: dict[tuple[float, bool], float] = {}
        for match in _LINE.finditer(self.units):
            start, end = match.span()
            text = match[0].rstrip()
            end = start + len(text)
            start += len(text) - len(text.lstrip())
            if start >= end:
                continue
            x, y, _ = self.get_place(start)
            if not self.is_inside():
                continue
            size, turn, bold, fixed = self.get_font(start)
            last = end - 2 if end - start > 1 and self.units[end - 1] in _DIVIDED else end - 1
            _, last_y, right = self.get_place(last)
            if not self.units[start].isalpha():
                # The mark of a note is raised and smaller than the note.
                size, y = max(size, self.get_font(last)[0]), min(y, last_y)
            upright = abs(turn) < 0.1 and abs(last_y - y) < 2 * size
            if bold or fixed:
                _, _, last_bold, last_fixed = self.get_font(last)
                bold, fixed = bold and last_bold, fixed and last_fixed
            line = _Line(self.clean_text(start, end), x, right, y, size, bold, fixed)
            if not upright:
                line.left = line.right = x
            if fixed or not upright:
                yield line
                continue
            typical = widths.setdefault((round(size, 1), bold), 0.0)
            each = (right - x) / (end - start)
            wide = each > 1.05 * typical if typical else True
            apart = (wide or end - start < 25) and " " in match[0]
            parts = list(self.split_line(start, end, line)) if apart else [line]
            if len(parts) == 1 and end - start > 30:
                widths[round(size, 1), bold] = (typical * 3 + each) / 4 if typical else each
            yield from parts

    def split_line(self, start: int, end: int, line: _Line) -> Iterator[_Line]:
        """Yield the parts of a line that stand apart by more than words do."""
        words = [word.span() for word in _WORD.finditer(self.units, start, end)]
        places = []
        for first, stop in words:
            divided = self.units[stop - 1] in _DIVIDED and stop - first > 1
            places.append((self.get_edges(first)[0], self.get_edges(stop - 1 - divided)[1]))
        gaps = [b[0] - a[1] for a, b in itertools.pairwise(places)]
        # Where a line is stretched to fill its column, all its spaces are wide.
        wide = min(line.size, max(0.6 * line.size, 1.8 * min(gaps, default=0.0)))
        begin, x = start, line.left
        for gap, (first, _), (before, place) in zip(gaps, words[1:], pairwise(places), strict=True):
            if gap > wide and not self.is_marker(begin, first):
                text = self.clean_text(begin, first)
                yield msgspec.structs.replace(line, text=text, left=x, right=before[1])
                begin, x = first, place[0]
        text = self.clean_text(begin, end)
        yield msgspec.structs.replace(line, text=text, left=x)

    def is_marker(self, start: int, end: int) -> bool:
        """Tell whether units[start:end] are only the mark of an item, or lead to a page number."""
        text = self.units[start:end].strip()
        marker = _BULLET.fullmatch(text) or _ENUMERATOR.fullmatch(text)
        return bool(marker) or bool(_LEADERS.search(text[-8:]))

    def clean_text(self, start: int, end: int) -> str:
        text = self.units[start:end]
        if not text.isascii():
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            text = text.translate(_LIGATURES)
        if not text.isprintable():
            text = _UNREADABLE.sub("", text)
        return " ".join(text.split()) if text else ""

    def get_index(self, unit: int) -> int:
        if self.aligned:
            return unit
        index: int = self.raw.FPDFText_GetCharIndexFromTextIndex(self.handle, unit)
        return max(0, index)

    def get_place(self, unit: int) -> tuple[float, float, float]:
        """Return the left edge, the baseline and the right edge of a letter on the shown page."""
        left, right = self.get_edges(unit)
        self.raw.FPDFText_GetCharOrigin(self.handle, self.get_index(unit), self.x, self.y)
        return left, self.y.value - self.edges[1], right

    def get_edges(self, unit: int) -> tuple[float, float]:
        """Return the left and the right edge of a letter on the shown page."""
        self.raw.FPDFText_GetLooseCharBox(self.handle, self.get_index(unit), self.box)
        return self.box.left - self.edges[0], self.box.right - self.edges[0]

    def is_inside(self) -> bool:
        """Tell whether the letter just asked for stands on the part of the page that is shown."""
        box, (left, bottom, right, top) = self.box, self.edges
        beside = left <= box.right and box.left <= right
        return bool(beside and bottom <= box.top and box.bottom <= top)

    def get_font(self, unit: int) -> tuple[float, float, bool, bool]:
        """Return the size of a letter, its turn (0: upright), and whether bold and fixed pitch."""
        index = self.get_index(unit)
        self.raw.FPDFText_GetMatrix(self.handle, index, self.matrix)
        size = self.raw.FPDFText_GetFontSize(self.handle, index)
        size *= hypot(self.matrix.c, self.matrix.d) or 1.0
        across, along = self.matrix.b, self.matrix.a
        self.raw.FPDFText_GetFontInfo(self.handle, index, self.name, 128, self.flags)
        name = self.name.value
        if name not in self.fonts:
            whole = name.decode("utf-8", "replace")
            words = whole.partition("+")[2] or whole
            self.fonts[name] = (bool(_BOLD_NAME.search(words)), bool(_FIXED_NAME.search(words)))
        bold, fixed = self.fonts[name]
        turn = across if along > 0 else 1.0
        return size or 1.0, turn / (abs(along) + abs(across) or 1.0), bold, fixed


# ---------------------------------------------------------------- running heads and feet


def _find_furniture(pages: Sequence[list[_Line]], body: float) -> list[set[int]]:
    """Return, of each page, the lines (by their number) that are running heads, feet and page
    numbers.

    A line at the edge of a page is one if other pages have it at the same height, but for numbers;
    or if it stands where most pages have such a line.
    """
    edges = [_list_edges(lines, body) for lines in pages]
    headings = {n.text.lower() for lines in pages for n in lines if n.size > 1.15 * body}
    counts: Counter[tuple[int, str]] = Counter()
    for number, (lines, each) in enumerate(zip(pages, edges, strict=True)):
        page_keys = set[tuple[int, str]]()
        for row in itertools.chain(*each):
            height, keys = _get_place(lines, row)[0], _list_row_keys(lines, row, number)
            page_keys.update(itertools.product((height, height + 1), keys))
        counts.update(page_keys)
    furniture: list[set[int]] = [set() for _ in pages]
    slots: Counter[tuple[int, float]] = Counter()
    # Two pages may differ in everything but one line; a longer document repeats it more often.
    least = 2 if len(pages) <= 6 else 3
    sides = [(n, pages[n], side) for n, each in enumerate(edges) for side in each]
    for again in range(2):
        filled = sum(map(bool, furniture))
        for number, lines, side in sides:
            for row in side:
                at = _get_place(lines, row)
                texts = (lines[n].text for n in row)
                titled = any(len(text) > 3 and text.lower() in headings for text in texts)
                repeated = (titled and len(pages) > 1) or any(
                    max(counts[at[0], key], counts[at[0] + 1, key]) >= least
                    for key in _list_row_keys(lines, row, number)
                )
                if not repeated and not (again and slots[at] * 2 > filled > 4):
                    break
                furniture[number].update(row)
                slots[at] += not again
    return furniture


def _list_edges(lines: list[_Line], body: float) -> list[list[list[int]]]:
    """Return the outermost rows at the top, and at the bottom, from the edge inwards."""
    rows: list[list[int]] = []
    for number in sorted(range(len(lines)), key=lambda n: -lines[n].y):
        if rows and abs(lines[rows[-1][0]].y - lines[number].y) < 2:
            rows[-1].append(number)
        else:
            rows.append([number])
    # Up to what is as large as a heading.
    sides = (
        itertools.takewhile(lambda row: max(lines[n].size for n in row) <= 1.1 * body, side)
        for side in (rows[:_EDGE_LINES], rows[::-1][:_EDGE_LINES])
    )
    return [[sorted(row, key=lambda n: lines[n].left) for row in side] for side in sides]


def _get_place(lines: list[_Line], row: list[int]) -> tuple[int, float]:
    return int(lines[row[0]].y // 3), round(lines[row[0]].size)


def _list_row_keys(lines: list[_Line], row: list[int], number: int) -> set[str]:
    """Return the keys of a row and of its parts: the left may stay where the right changes."""
    texts = [lines[n].text for n in row]
    return {key for text in {" ".join(texts), *texts} for key in _list_keys(text, number)}


def _list_keys(text: str, number: int) -> list[str]:
    """Return what a running line has in common with those of other pages.

    That is its words, whatever the numbers; and a number at either end that counts the pages, by
    its distance from the page's own. Figures that stand at the foot of every page do not count.
    """
    words = text.strip("-–—[]()|. ").split()
    keys = []
    for word in {words[0], words[-1]} if words else ():
        if word.isdecimal() and len(word) < 6:
            keys.append(f"# {int(word) - number}")
        elif word and _ROMAN.fullmatch(word):
            keys.append(f"# {_parse_roman(word) - number}")
    # A roman number at an end is one among words, too.
    ends = {n for n in (0, len(words) - 1) if words and _ROMAN.fullmatch(words[n])}
    folded = ["#" if n in ends else _DIGITS.sub("#", word) for n, word in enumerate(words)]
    key = " ".join(folded)
    if re.search(r"[^\W\d_]{2,}", key):
        keys.append(key)
    return keys


def _parse_roman(text: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in text.lower()]
    return sum(-a if a < b else a for a, b in pairwise([*values, 0]))


# ---------------------------------------------------------------- rows and columns


_Cells = list[list[_Line]]
"""the lines of each cell of a row"""


def _split_rows(lines: list[_Line]) -> list[_Line | _Cells]:
    """Return lines, and rows of tables as cells of lines, in the order of reading."""
    rows: list[_Line | _Cells] = []
    row: _Cells = []
    for line in lines:
        if row and len(row) > 1:
            last = row[-1]
            below = 0 < last[-1].y - line.y < 1.6 * line.size
            wide = max(part.right for part in last[-_HIGHEST_CELL:])
            if below and last[0].left - 0.5 * line.size < line.left < wide:
                last.append(line)
                continue
        neighbour = _find_beside(row[-1], line) if row else None
        if neighbour is not None:
            if len(row) == 1:
                rows += row[0][:neighbour]
                row[0] = row[0][neighbour:]
            row.append([line])
            continue
        if len(row) == 1 and _is_below(row[0][-1], line):
            row[0].append(line)
            continue
        _add_row(rows, row)
        row = [[line]]
    _add_row(rows, row)
    return _choose_tables(rows)


def _is_below(above: _Line, line: _Line) -> bool:
    return 0 < above.y - line.y < 3 * max(above.size, line.size)


def _find_beside(cell: list[_Line], line: _Line) -> int | None:
    """Return the number of the line of a cell with which a cell to its right, begun by `line`,
    makes a row.

    Cells stand on one baseline, or in the middle of the height of the row.
    """
    near = range(max(0, len(cell) - _HIGHEST_CELL), len(cell))
    at = min(near, key=lambda number: abs(cell[number].y - line.y))
    if abs(cell[at].y - line.y) > 1.3 * line.size:
        return None
    while at > near.start and cell[at - 1].right < line.left:
        if not 0 < cell[at - 1].y - cell[at].y < 1.3 * line.size:
            break
        at -= 1
    wide = max(part.right for part in cell[at:])
    return at if line.left > wide + 0.3 * line.size else None


def _add_row(rows: list[_Line | _Cells], row: _Cells) -> None:
    if len(row) == 1:
        rows += row[0]
    elif row:
        rows.append(row)


def _choose_tables(rows: list[_Line | _Cells]) -> list[_Line | _Cells]:
    """Keep rows that stand under rows with the same columns; give back others as lines.

    Rows of prose are two columns that a program wrote line by line.
    """
    lines: list[_Line | _Cells] = []
    at = 0
    while at < len(rows):
        item = rows[at]
        if isinstance(item, _Line):
            lines.append(item)
            at += 1
            continue
        run = [item]
        while at + len(run) < len(rows):
            after = rows[at + len(run)]
            if isinstance(after, _Line) or not _are_aligned(run[-1], after):
                break
            run.append(after)
        at += len(run)
        if _is_prose(run):
            lines += [part for row in run for part in row[0]]
            lines += [part for row in run for cell in row[1:] for part in cell]
        elif len(run) > 1 and max(len(cell) for row in run for cell in row) <= _HIGHEST_CELL:
            lines += run
        else:
            for row in run:
                lines += _join_row(row)
    return lines


def _are_aligned(above: _Cells, below: _Cells) -> bool:
    """Tell whether the cells of two rows stand in the same columns, one under the other."""
    if max(len(above), len(below)) > _MOST_CELLS:
        return False
    gap = min(part.y for cell in above for part in cell) - below[0][0].y
    if not 0 < gap < 4 * below[0][0].size:
        return False
    one, two = ([(c[0].left, max(p.right for p in c)) for c in row] for row in (above, below))
    shared = sum(any(a[0] < b[1] and b[0] < a[1] for a in one) for b in two)
    crossed = sum(sum(a[0] < b[1] and b[0] < a[1] for a in one) > 1 for b in two)
    return shared >= max(2, min(len(one), len(two)) - 1) and crossed <= 1


def _is_prose(run: list[_Cells]) -> bool:
    """Tell whether rows are lines of two columns of prose: each side full of words to its edge."""
    if len(run) < 4 or any(len(row) != 2 or len(row[0]) > 1 for row in run):
        return False
    for side in (0, 1):
        parts = [row[side][0] for row in run]
        right = max(part.right for part in parts)
        full = sum(part.right > right - 3 * part.size for part in parts)
        words = median(part.text.count(" ") + 1 for part in parts)
        if words < 4 or full < 0.6 * len(parts):
            return False
    return True


def _join_row(row: _Cells) -> list[_Line]:
    """Return a row that is no table's as lines: parts of one baseline joined, columns in order."""
    if any(len(cell) > 1 for cell in row):
        return [part for cell in row for part in cell]
    first, last = row[0][0], row[-1][0]
    first.text = " ".join(cell[0].text for cell in row)
    first.right = last.right
    return [first]


# ---------------------------------------------------------------- paragraphs


class _PageParts:
    """Puts the lines of one page together to paragraphs, headings, items, code and notes."""

    def __init__(self, number: int, body: float, fixed: bool) -> None:
        self.number = number
        self.body = body
        self.fixed = fixed
        self.parts: list[_Part] = []
        self.lines: list[_Line] = []
        self.left = self.right = self.pitch = 0.0

    def find_parts(self, lines: list[_Line]) -> list[_Part]:
        flow: list[_Line] = []
        for item in _split_rows(lines):
            if isinstance(item, _Line):
                if flow and not _shares_column(flow[-1], item):
                    self.add_column(flow)
                    flow = []
                flow.append(item)
                continue
            self.add_column(flow)
            flow = []
            cells = tuple([part.text for part in cell] for cell in item)
            self.parts.append(_Part("cell", [(self.number, [])], cells=cells))
        self.add_column(flow)
        self.find_notes()
        return self.parts

    def add_column(self, column: list[_Line]) -> None:
        """Cut one column, or what of it stands between two tables, into paragraphs."""
        if not column:
            return
        plain = [line for line in column if abs(line.size - self.body) < 0.07 * self.body] or column
        self.left = min(line.left for line in plain)
        # Of many lines some may reach beyond the column, such as a title above two columns.
        rights = sorted(line.right for line in plain)
        self.right = rights[len(rights) * 9 // 10]
        alike = ((a, b) for a, b in pairwise(column) if abs(a.size - b.size) < 0.1)
        pitches = [a.y - b.y for a, b in alike if a.y > b.y]
        self.pitch = median_low(pitches) if pitches else 1.2 * self.body
        self.lines = [column[0]]
        for before, line in pairwise(column):
            if self.begins_part(before, line):
                # Small print may follow: notes at the foot of the column.
                self.close_part(before.size > 1.07 * line.size)
            self.lines.append(line)
        self.close_part(True)

    def begins_part(self, before: _Line, line: _Line) -> bool:
        if abs(before.size - line.size) > 0.07 * before.size or before.bold != line.bold:
            return True
        if before.fixed != line.fixed and not self.fixed:
            # A line of prose may begin with a name in a fixed pitch.
            return before.y - line.y > 1.1 * self.pitch or before.fixed
        step = before.y - line.y
        if step > 1.3 * self.pitch and step > 1.3 * line.size:
            return True
        if _ITEM.match(line.text) and self.begins_item(before, line):
            return True
        middle = (before.left + before.right) / 2 - (line.left + line.right) / 2
        if abs(middle) < 1 and before.left > self.left + line.size:
            return False  # centred
        first = self.lines[0]
        hanging = len(self.lines) == 1 and line.left > first.left
        shift = line.left - before.left
        if shift > 0.8 * line.size and not (hanging and _is_item(first)):
            return _SENTENCE_END.search(before.text[-20:]) is not None or line.text[:1].isupper()
        if shift < -0.8 * line.size and len(self.lines) > 1:
            return not line.text[:1].islower()
        goes_on = line.text[:1].islower() and not _SENTENCE_END.search(before.text[-20:])
        return not goes_on and self.leaves_room(before, line)

    def leaves_room(self, before: _Line, line: _Line) -> bool:
        """Tell whether the first word of `line` would have had room on the line before."""
        each = (line.right - line.left) / max(1, len(line.text))
        word = line.text.partition(" ")[0]
        return before.right + 1.2 * each * (len(word) + 1) + 0.5 * line.size < self.right

    def begins_item(self, before: _Line, line: _Line) -> bool:
        first = self.lines[0]
        if _BULLET.match(line.text) and line.text[0] not in "–—-o*":
            return True
        if _is_item(first):
            return line.left < before.left + 0.5 * line.size or line.left > first.left
        return bool(_SENTENCE_END.search(before.text[-20:])) or self.leaves_room(before, line)

    def close_part(self, last: bool) -> None:
        lines, number = self.lines, self.number
        self.lines = []
        if not lines:
            return
        first, final = lines[0], lines[-1]
        if first.fixed and not self.fixed and all(line.fixed for line in lines):
            edge = min(line.left for line in lines)
            for line in lines:
                each = (line.right - line.left) / max(1, len(line.text))
                indent = " " * round((line.left - edge) / each) if each else ""
                self.parts.append(_Part("code", [(number, [indent + line.text])]))
            return
        texts = [line.text for line in lines]
        part = _Part("paragraph", [(number, texts)], first.size, all(n.bold for n in lines))
        size = sum(map(len, texts))
        if _CAPTION.match(texts[0]):
            part.kind = "caption"
        elif _is_item(first):
            part.kind = "item"
            part.level = 1
        elif size < _LONGEST_HEADING and (
            (first.size > 1.1 * self.body and len(lines) <= 4)
            or (part.bold and len(lines) <= 2 and not texts[-1].endswith((".", ",", ";")))
        ):
            part.kind = "heading" if re.search(r"[^\W\d_]", "".join(texts)) else "paragraph"
        if part.kind in ("paragraph", "item"):
            full = final.text[-1:] in _DIVIDED or final.right > self.right - 4 * final.size
            part.open = last and full and not re.search(r"""[.!?]["'”’)\]]*$""", final.text)
        indented = len(lines) > 1 and first.left > lines[1].left + 0.5 * first.size
        part.fresh = part.kind == "paragraph" and not indented
        self.parts.append(part)

    def find_notes(self) -> None:
        """Mark the footnotes: small print with numbers or signs at the end of a column."""
        begun = False
        for part in self.parts:
            small = part.size and part.size < 0.93 * self.body
            first = part.pieces[0][1]
            if not small or part.kind in ("caption", "cell", "heading"):
                begun = False
                continue
            begun = begun or bool(first and _NOTE.match(first[0]))
            part.note = begun
            if begun:
                part.kind, part.level = "paragraph", 0


def _is_item(line: _Line) -> bool:
    return _ITEM.match(line.text) is not None


def _shares_column(before: _Line, line: _Line) -> bool:
    return line.y < before.y and line.left < before.right and before.left < line.right


# ---------------------------------------------------------------- the whole document


def _find_parts(pages: list[list[_Line]], recognized: Mapping[int, list[str]]) -> list[_Part]:
    """Return the parts of all pages in the order of the text; furniture has the kind "".

    `recognized` holds the paragraphs of pages without lines that a program has read.
    """
    sizes: Counter[float] = Counter()
    fixed = 0
    for lines in pages:
        for line in lines:
            sizes[round(line.size, 1)] += len(line.text)
            fixed += len(line.text) * line.fixed
    total = sizes.total()
    body = max(sizes, key=lambda size: (sizes[size], size), default=10.0)
    parts: list[_Part] = []
    furniture = _find_furniture(pages, body)
    for number, lines in enumerate(pages):
        left_out = furniture[number]
        visible_lines = [line for n, line in enumerate(lines) if n not in left_out]
        page_parts = _PageParts(number, body, fixed * 2 > total).find_parts(visible_lines)
        heads, feet = _build_furniture(number, lines, left_out)
        _join_pages(parts, [*heads, *page_parts, *feet], number)
        parts += [_Part("paragraph", [(number, [text])]) for text in recognized.get(number, ())]
    _set_levels(parts, body)
    return parts


def _build_furniture(
    number: int, lines: list[_Line], left_out: set[int]
) -> tuple[list[_Part], list[_Part]]:
    if not left_out:
        return [], []
    middle = (max(line.y for line in lines) + min(line.y for line in lines)) / 2
    rows = sorted(left_out, key=lambda n: (-round(lines[n].y), lines[n].left))
    heads = [_Part("", [(number, [lines[n].text])]) for n in rows if lines[n].y > middle]
    return heads, [_Part("", [(number, [lines[n].text])]) for n in rows if lines[n].y <= middle]


def _join_pages(parts: list[_Part], page_parts: list[_Part], number: int) -> None:
    """Append the parts of one page, joined to paragraphs that go on from a column before.

    What stood between the halves (feet, notes, running heads, captions, tables) goes before the
    paragraph if it is of the page on which the paragraph begins, and behind it otherwise.
    """
    for part in page_parts:
        at = _find_open(parts, part)
        if at is None:
            parts.append(part)
            continue
        whole = parts[at]
        between = parts[at + 1 :]
        page = whole.pieces[0][0]
        if whole.pieces[-1][0] == number:
            whole.pieces[-1][1].extend(part.pieces[0][1])
        else:
            whole.pieces += part.pieces
        whole.open = part.open
        parts[at:] = [
            *(one for one in between if one.pieces[0][0] == page and page != number),
            whole,
            *(one for one in between if one.pieces[0][0] != page or page == number),
        ]


def _find_open(parts: list[_Part], part: _Part) -> int | None:
    """Return the number of the paragraph that `part` goes on with."""
    if not part.fresh or part.note:
        return None
    text = part.pieces[0][1][0]
    lower = text[:1].islower()
    floats = False
    for at in range(len(parts) - 1, max(-1, len(parts) - 40), -1):
        one = parts[at]
        if not one.kind or one.note:
            continue
        if part.pieces[0][0] > one.pieces[-1][0] + 1:
            return None  # a page between them is a picture, whether it could be read or not
        if one.open and abs(one.size - part.size) < 0.07 * part.size:
            divided = one.pieces[-1][1][-1][-1:] in _DIVIDED
            return at if lower or divided or not floats else None
        if one.kind not in ("caption", "cell") and not (one.size and one.size < 0.93 * part.size):
            return None
        floats = True
    return None


def _set_levels(parts: list[_Part], body: float) -> None:
    """Give headings levels by their size, the largest first; bold ones of the text's size last."""
    headings = [part for part in parts if part.kind == "heading"]
    sizes: list[float] = []
    for size in sorted({part.size for part in headings if part.size > 1.1 * body}, reverse=True):
        if not sizes or size < 0.96 * sizes[-1]:
            sizes.append(size)
    for part in headings:
        rank = next((n for n, size in enumerate(sizes, 1) if part.size >= 0.96 * size), None)
        part.level = min(6, rank or len(sizes) + 1)


def _write_parts(
    parts: list[_Part], pages: Sequence[list[_Line]]
) -> tuple[str, list[Block], list[Mark]]:
    """Return the canonical text, its blocks, and the span of each page in it."""
    words = _count_words(pages)
    out: list[str] = []
    blocks: list[Block] = []
    spans: dict[int, list[int]] = {}
    at = 0
    kind = ""
    for part in parts:
        close = kind == part.kind and kind in ("cell", "code", "item")
        for nth, cell in enumerate(part.cells or [[]]):
            gap = ("\t" if nth else "\n" if close else "\n\n") if at else ""
            start = at + len(gap)
            pieces = [(part.pieces[0][0], cell)] if part.cells else part.pieces
            text, cuts = _join_pieces(pieces, words)
            if not text.strip():  # a damaged font draws letters as spaces
                continue
            out += (gap, text)
            at = start + len(text)
            ends = [*cuts[1:], len(text)]
            for (page, _), begin, end in zip(part.pieces, cuts, ends, strict=True):
                span = spans.setdefault(page, [start + begin, start + end])
                span[1] = max(span[1], start + end)
            article, named = bool(part.kind), part.kind or "paragraph"
            blocks.append(Block(start, at, named, part.level, article, furniture=not article))
        kind = part.kind
    return "".join(out), blocks, _build_marks(spans, len(pages), at)


def _build_marks(spans: dict[int, list[int]], count: int, end: int) -> list[Mark]:
    marks: list[Mark] = []
    bound = end
    for number in range(count - 1, -1, -1):
        start, stop = spans.get(number, [bound, bound])
        start, stop = min(start, bound), min(stop, bound)
        marks.append(Mark(start, max(start, stop), "page", str(number + 1)))
        bound = start
    return marks[::-1]


# ---------------------------------------------------------------- divided words


def _count_words(pages: Sequence[list[_Line]]) -> Counter[str]:
    """Count the words of all lines, but for those that a line's end divides."""
    words: Counter[str] = Counter()
    for lines in pages:
        text = "\n".join(line.text for line in lines).lower()
        words.update(_LETTERS.findall(_HALVES.sub(" ", text)))
    return words


def _join_pieces(pieces: list[tuple[int, list[str]]], words: Counter[str]) -> tuple[str, list[int]]:
    """Return the lines of a part as one text, and where each page's piece begins in it."""
    if len(pieces) == 1:
        lines = pieces[0][1]
        # Most parts are lines without a divided word.
        return _join_lines(lines, words) if len(lines) != 1 else lines[0].rstrip(_DIVIDED), [0]
    text, cuts = "", []
    for _, lines in pieces:
        joined = _join_lines(lines, words, whole=False)
        if text:
            text, space = _end_line(text, joined, words)
            text += space
        cuts.append(len(text))
        text += joined
    return text.rstrip(_DIVIDED), cuts


def _join_lines(lines: Any, words: Counter[str] | None = None, whole: bool = True) -> str:
    """Return lines as one text: divided words joined, a space between others."""
    out: list[str] = []
    before = ""
    for line in lines:
        if before:
            out += _end_line(before, line, words or Counter())
        before = line
    out.append(before.rstrip(_DIVIDED) if whole else before)
    return "".join(out)


def _end_line(before: str, line: str, words: Counter[str]) -> tuple[str, str]:
    """Return a line without the hyphen that divides a word at its end, and what separates it from
    the next.

    The hyphen stays where the document has the word with it, or has both halves as words and not
    the whole.
    """
    # At the end of a column or page PDFium leaves the hyphen.
    halves = before[-1] == "-" and before[-2:-1].isalpha() and line[:1].islower()
    if halves or before[-1] in _DIVIDED:
        head, tail = re.search(r"[^\W\d_]*$", before[-60:-1]), re.match(r"[^\W\d_]*", line)
        one, two = head[0].lower() if head else "", tail[0].lower() if tail else ""
        if two in _COORDINATED:
            return before[:-1] + "-", " "
        hyphenated, joined = words[f"{one}-{two}"], words[one + two]
        both_known = not joined and len(one) > 2 and len(two) > 2 and words[one] and words[two] > 1
        named = line[:1].isupper() and not joined
        compound = hyphenated > joined or both_known or named or before[-2:-1].isdigit()
        return before[:-1] + ("-" if compound else ""), ""
    if before[-1] == "-" and before[-2:-1].isalnum() and line[:1].isalnum():
        return before, "" if line.partition(" ")[0] not in _COORDINATED else " "
    return before, " "

"""Read PDF files: paragraphs, headings, lists, tables and notes from the places of lines of text.

A PDF holds letters and their places, no paragraphs. Lines come in the file's order, which nearly
every program writes column by column; their places tell the rest.
"""

import contextlib
import ctypes
import itertools
import re
import threading
import time
import zlib
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice, pairwise, repeat
from math import hypot
from operator import itemgetter, sub
from statistics import median, median_low
from typing import Any, NamedTuple

import msgspec

from rookery.errors import Failed, Outcome
from rookery.pages.page_parts import ReadLimits, build_read_error, check_size
from rookery.records import Block, Mark, Page

# PDFium keeps state of its own for the whole process: two threads in it are a segmentation fault.
PDFIUM_LOCK = threading.Lock()
_PASSWORD = 4
_SAMPLED_LETTERS = (12, 60)
"""of a page, to see how it is turned: more where the first are not all upright"""
_TITLE_LENGTH = 200
# PDFium writes one of these two in the place of a hyphen that divides a word at the end of a line.
_DIVIDED = "\x02\ufffe"
_STREAM = re.compile(rb"stream\r?\n(?<!endstream\n)(?<!endstream\r\n)")
# Begun with letters, it is found five times as fast.
_SPACED = re.compile(rb" Tc\b(?<!\s0 Tc)" + b"".join(rb"(?<!\.0\d{%d} Tc)" % n for n in range(6)))
_MOST_STREAMS = 100
_LIGATURES = str.maketrans(dict(zip("ﬀﬁﬂﬃﬄﬅﬆ", "ff fi fl ffi ffl st st".split(), strict=True)))
# A program that divides words itself draws a hyphen, which stands before a line's end.
_DRAWN_HYPHEN = re.compile(r"[‐\xad](?<=[^\W\d_].)(?=[ ]?\r?\n[^\W\d_])")
_UNREADABLE = re.compile("[\x00\x01\x03-\x08\x0e-\x1f\x7f\xad]")
# No line break follows a word that is divided.
_LINE = re.compile(f"[^\r\n{_DIVIDED}]+[{_DIVIDED}]?")
_HALVES = re.compile(rf"(?<![^\W\d_])[^\W\d_]*+[{_DIVIDED}]\n?[^\W\d_]*")
_DIGITS = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(r"(?i)[-–—\[( ]*(?:page )?(\d{1,4})(?: ?(?:/|of) ?\d+)?[-–—\]) ]*")
_WORD = re.compile(r"\S+")
_NO_TEXT = re.compile(rb"[^\1]")
"""the kinds of objects but for text (1)"""
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
_ROMAN = re.compile(r"(?ai)m{0,3}(?:c[md]|d?c{0,3})(?:x[cl]|l?x{0,3})(?:i[xv]|v?i{0,3})")
_ROMAN_VALUES = dict(zip("ivxlcdm", (1, 5, 10, 50, 100, 500, 1000), strict=True))
_BOLD_NAME = re.compile(r"bold|black|heavy|semibold|demi|cmbx|sfbx|-b$|\bbd\b", re.IGNORECASE)
_FIXED_NAME = re.compile(r"mono|courier|consol|cmtt|cmsltt|sftt|typewriter|menlo", re.IGNORECASE)
_COORDINATED = frozenset(("and", "or", "to", "und", "oder", "et", "ou", "y", "o", "e"))
_EDGE_LINES = 3
"""lines at the top and at the bottom of a page that may be running heads, feet and page numbers"""
_LONGEST_HEADING = 250
_MOST_LAYERS = 50
"""of a page that are looked at: each is a drawing of the page"""
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
    hidden: bool = False
    """not seen by a reader of the page"""
    aslant: bool = False
    entered: bool = False
    """has a field of a form: a paragraph of its own"""
    apart: bool = False
    """a note or a stamp, no part of the text around it"""


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
        pages, title, days = _read_lines(data, limits)
    pictures = [n for n, lines in enumerate(pages) if all(line.hidden for line in lines)]
    recognized: dict[int, list[str]] = {}
    try:
        for number, paragraphs in recognize(pictures) if pictures else ():
            recognized[number] = paragraphs
    except Failed:
        if len(pictures) == len(pages):
            raise
    parts = _find_parts(pages, recognized)
    text, blocks, marks = _write_parts(parts, pages)
    if all(block.hidden for block in blocks):
        detail = "its pages are pictures, which are read from files where tesseract is installed"
        if recognized:
            detail = "its pages are pictures, in which tesseract reads nothing"
        raise build_read_error(Outcome.EMPTY_AFTER_EXTRACTION, f"no text in the PDF: {detail}")
    marks += [
        Mark(mark.start, mark.end, "ocr")
        for number, mark in enumerate(marks)
        if number in recognized and mark.end > mark.start
    ]
    marks += [Mark(0, len(text), "date", day) for day in days[:1]]
    return Page(
        url=url,
        title=title or _choose_title(parts)[:_TITLE_LENGTH],
        text=text,
        blocks=tuple(blocks),
        marks=tuple(sorted(marks, key=lambda mark: (mark.start, mark.end))),
        fetched=fetched,
    )


def _read_lines(data: bytes, limits: ReadLimits) -> tuple[list[list[_Line]], str, list[str]]:
    """Return the lines of each page, and the title and the dates that the PDF gives itself."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower():
            raise build_read_error(Outcome.ENCRYPTED, "the PDF needs a password") from error
        detail = "it is damaged or no PDF: open it in a reader of PDFs and save it again"
        raise build_read_error(Outcome.MALFORMED, detail) from error
    try:
        if len(document) > limits.pdf_pages:
            raise build_read_error(Outcome.TOO_LARGE, f"a PDF of {len(document):,} pages")
        spaced = _has_spaced_letters(data)
        written = [_read_value(document, name) for name in ("ModDate", "CreationDate")]
        days = ["-".join(day.groups()) for day in map(_DAY.match, written) if day]
        lines = list(_iter_page_lines(document, limits, spaced))
        return lines, _read_value(document, "Title"), days
    finally:
        document.close()


def _has_spaced_letters(data: bytes) -> bool:
    """Tell whether a PDF spaces letters by a tenth of a unit or more (operator Tc), or may do so:
    only programs that do leave out spaces."""
    if b"/Encrypt" in data or b"/LZWDecode" in data or b"/ASCII85Decode" in data:
        return True
    for match in islice(_STREAM.finditer(data), _MOST_STREAMS):
        content = data[match.end() : match.end() + 2**14]
        with contextlib.suppress(zlib.error):
            content = zlib.decompressobj().decompress(content, 2**14)
        if _SPACED.search(content):
            return True
    return False


_DAY = re.compile(r"(?:D:)?((?:19|20)\d\d)([01]\d)([0-3]\d)")


def _read_value(document: Any, name: str) -> str:
    """Return what the PDF says of itself; empty where it says nothing or that is damaged."""
    try:
        return str(document.get_metadata_value(name) or "").strip()
    except UnicodeDecodeError:
        return ""


def _choose_title(parts: list[_Part]) -> str:
    """Return the heading with which the text begins, or its first line."""
    first = next((part for part in parts if part.kind), parts[0])
    lines = first.pieces[0][1]
    return _join_lines(first.cells[0] if first.cells else lines if first.level else lines[:1])


def _iter_page_lines(document: Any, limits: ReadLimits, spaced: bool) -> Iterator[list[_Line]]:
    import pypdfium2

    characters = 0
    deadline = time.monotonic() + limits.seconds
    for number in range(len(document)):
        if time.monotonic() > deadline:
            detail = f"the PDF takes more than {limits.seconds:g} seconds"
            raise build_read_error(Outcome.TOO_LARGE, detail)
        try:
            upright = open_upright_page(document, number)
            lines = list(_LineReader(upright, spaced).iter_lines())
            for added in list_added_texts(document, upright):
                _place_added(lines, added, upright.page.get_bbox())
            upright.page.close()
        except pypdfium2.PdfiumError:
            # One damaged page costs itself, not the document; its mark stays empty.
            lines = []
        characters += sum(len(line.text) + 1 for line in lines)
        check_size(characters, limits.characters, "characters")
        yield lines


_Matrix = tuple[float, ...]
"""a, b, c, d, e and f, as in a PDF"""


_Box = tuple[float, ...]
"""left, top, right and bottom of a letter"""


class UprightPage(NamedTuple):
    """A page of a PDF that was turned so that most of its letters stand upright."""

    page: Any
    text: Any
    """pypdfium2's text of the page"""
    turns: tuple[_Matrix, ...]
    """that were applied to its content, in order"""

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
    if document.get_formtype() and document.formenv is None:
        document.init_forms()  # a page that is opened before has unchecked boxes
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
    # A file may put words in the place of what it draws: of long ones, what is drawn is read.
    each = list(_list_properties(_list_objects(page)[0], b"ActualText"))
    if replaced := [(one, mark) for one, mark, words in each if words.count(" ") > 1]:
        _call_each("FPDFPageObj_RemoveMark", *zip(*replaced, strict=True))
        text.close()
        text = page.get_textpage()
    return UprightPage(page, text, tuple(turns))


def _list_properties(objects: list[int], key: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the objects in marked content with a property that is a string, its mark and value."""
    read = _bind_function("FPDFPageObjMark_GetParamStringValue")
    buffer, size = ctypes.create_string_buffer(2**16), ctypes.c_ulong()
    for one, count in zip(objects, _call_each("FPDFPageObj_CountMarks", objects), strict=True):
        for mark in _call_each("FPDFPageObj_GetMark", repeat(one), range(count)):
            if read(mark, key, buffer, len(buffer), ctypes.byref(size)):
                yield one, mark, buffer.raw[: size.value].decode("utf-16-le", "replace")


def _find_turn(text: Any) -> int:
    """Return the turn, clockwise in degrees, that sets most letters of a page upright; 0: none."""
    count = text.count_chars()
    for sampled in _SAMPLED_LETTERS:
        each = (repeat(text.raw), range(0, count, max(1, count // sampled)))
        codes = _call_each("FPDFText_GetUnicode", *each)
        a, b = _read_each("FPDFText_GetMatrix", ctypes.c_float, 6, *each, columns=(0, 1))
        turns = Counter[int]()
        for code, along, across in zip(codes, a, b, strict=True):
            if chr(code).isalnum():
                sideways = abs(across) > abs(along)
                onward = across > 0 if sideways else along >= 0
                turns[(90 if onward else 270) if sideways else (0 if onward else 180)] += 1
        if turns.keys() == {0}:
            return 0
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


@cache
def _bind_function(name: str) -> Callable[..., Any]:
    """Return a function of PDFium that takes and returns addresses as numbers."""
    import pypdfium2.raw

    declared = getattr(pypdfium2.raw, name)
    kinds = [declared.restype, *declared.argtypes]
    kinds = [ctypes.c_void_p if hasattr(kind, "contents") else kind for kind in kinds]
    return ctypes.PYFUNCTYPE(*kinds)(ctypes.cast(declared, ctypes.c_void_p).value or 0)


def _call_each(name: str, *arguments: Iterable[Any]) -> list[Any]:
    """Return what a function of PDFium returns for each of many letters or objects.

    From map, and without letting other threads run, a call takes a third of the time of one that
    stands in a loop.
    """
    return list(map(_bind_function(name), *arguments))


def _read_each(
    name: str, kind: Any, width: int, *arguments: Any, apart: bool = False, columns: Any = None
) -> list[list[Any]]:
    """Return columns, by default all, of the `width` numbers that a function of PDFium writes for
    each of its last arguments, to one address or, `apart`, to an address each; zeros where it
    fails."""
    step, count = ctypes.sizeof(kind), len(arguments[-1])
    buffer = (kind * (width * count))()
    start = ctypes.addressof(buffer)
    end = start + step * width * count
    places = (range(start + n * step, end, step * width) for n in range(width if apart else 1))
    _call_each(name, *arguments, *places)
    return [buffer[n::width] for n in columns or range(width)]


_Span = tuple[int, int]
"""the first unit of a line or a word, and the one behind it"""
_Word = tuple[_Span, float, float]
"""with the left and the right edge"""


class _Letter(NamedTuple):
    y: float
    """of the baseline"""
    size: float
    turn: float
    """0: upright"""
    bold: bool
    fixed: bool


class _LineReader:
    """Reads the lines of one page with their places.

    Most of the time goes to calls of PDFium, so that only the first and the last letters of lines
    are asked for, and those of words only where a cheap sign tells that something is unusual.
    """

    def __init__(self, upright: UprightPage, spaced: bool = True) -> None:
        import pypdfium2.raw

        handle = upright.text.raw
        self.page = upright.page
        self.text = ctypes.cast(handle, ctypes.c_void_p).value
        self.edges = upright.page.get_bbox()
        count = upright.text.count_chars()
        buffer = (ctypes.c_ushort * (count + 1))()
        units_read = pypdfium2.raw.FPDFText_GetText(handle, 0, count, buffer) if count else 0
        units = memoryview(buffer).cast("B")[: 2 * max(units_read - 1, 0)]
        self.units = str(units, "utf-16-le", "surrogatepass")
        if len(self.units) != len(units) // 2:
            # One character for each unit of UTF-16, so that places count as PDFium counts them.
            self.units = "".join(map(chr, buffer[: len(units) // 2]))
        self.units = _DRAWN_HYPHEN.sub(_DIVIDED[0], self.units)
        self.indices: Sequence[int] = range(count)
        """PDFium's number of the letter of each unit"""
        if len(self.units) != count:
            name, every = "FPDFText_GetCharIndexFromTextIndex", range(len(self.units))
            self.indices = [max(0, n) for n in _call_each(name, repeat(self.text), every)]
        self.fonts: dict[bytes, tuple[bool, bool]] = {}
        lines = ((m.start(), m[0].rstrip()) for m in _LINE.finditer(self.units))
        self.spans = [(n + len(t) - len(t.lstrip()), n + len(t)) for n, t in lines if t]
        """of the lines"""
        self.ends = self.read_ends(self.spans)
        self.unseen = _find_unseen(self)
        """the first letters of words that are not seen"""
        self.spaces = self.find_missing_spaces() if spaced else set[int]()
        """letters before which a space is missing"""

    @cached_property
    def words(self) -> list[list[_Span]]:
        """The words of each line."""
        return [self.find_words(span) for span in self.spans]

    @cached_property
    def texts(self) -> list[int | None]:
        """The objects of the page that draw the words."""
        return self.list_texts([start for start, _ in itertools.chain(*self.words)])

    def find_words(self, span: _Span) -> list[_Span]:
        return [word.span() for word in _WORD.finditer(self.units, *span)]

    def list_texts(self, units: Sequence[int]) -> list[int | None]:
        """Return the objects of the page that draw letters."""
        indices = [self.indices[unit] for unit in units]
        return _call_each("FPDFText_GetTextObject", repeat(self.text), indices)

    def read_boxes(self, units: Sequence[int], *columns: int) -> list[list[float]]:
        """Return columns of left, top, right and bottom of letters, as high as their font."""
        each = (repeat(self.text), [self.indices[unit] for unit in units])
        return _read_each("FPDFText_GetLooseCharBox", ctypes.c_float, 4, *each, columns=columns)

    def read_ends(self, spans: list[_Span]) -> list[tuple[_Box, _Box]]:
        """Return the boxes of the first and of the last letter of lines."""
        units = [*(start for start, _ in spans), *(self.find_last(*span) for span in spans)]
        boxes = list(zip(*self.read_boxes(units), strict=True))
        return list(zip(boxes[: len(spans)], boxes[len(spans) :], strict=True))

    def find_missing_spaces(self) -> set[int]:
        """Return the letters that stand as far from the one before as words do.

        PDFium overlooks gaps in short pieces of text that have their letters spaced. Only words are
        looked at that go on in another piece: all would take most of the time.
        """
        words, texts = itertools.chain(*self.words), pairwise([*self.texts, None])
        last = [word for word, (own, after) in zip(words, texts, strict=False) if own != after]
        owners = dict(zip(itertools.chain(*self.words), self.texts, strict=True))
        ends = self.list_texts([self.find_last(*word) for word in last])
        divided = [word for word, end in zip(last, ends, strict=True) if owners[word] != end]
        units = [n for start, end in divided for n in range(start, end)]
        lefts, tops, rights, bottoms = self.read_boxes(units)
        gaps, spaces, at = list(map(sub, lefts[1:], rights)), set[int](), 0
        for start, end in divided:
            own, wide = gaps[at : at + end - start - 1], 0.2 * (tops[at] - bottoms[at])
            at += end - start
            if max(own, default=0.0) > wide and max(self.units[start : end - 1]) < "\u2e80":
                # Of spaced letters most stand apart. East Asian ones are set wide without spaces.
                after = [n for n, gap in enumerate(own, start + 1) if gap > wide]
                spaces.update(after if 3 * len(after) <= end - start else ())
        return spaces

    def read_letters(self, units: Sequence[int]) -> list[_Letter]:
        each = (repeat(self.text), [self.indices[unit] for unit in units])
        _, ys = _read_each("FPDFText_GetCharOrigin", ctypes.c_double, 2, *each, apart=True)
        sizes = _call_each("FPDFText_GetFontSize", *each)
        matrices = _read_each("FPDFText_GetMatrix", ctypes.c_float, 6, *each)
        names, flags = (ctypes.c_char * 128 * len(units))(), ctypes.c_int()
        start = ctypes.addressof(names)
        places = (range(start, start + 128 * len(units), 128), repeat(128))
        _call_each("FPDFText_GetFontInfo", *each, *places, repeat(ctypes.addressof(flags)))
        letters = []
        for y, size, a, b, c, d, name in zip(ys, sizes, *matrices[:4], names, strict=True):
            if (own := name.value) not in self.fonts:
                whole = own.decode("utf-8", "replace")
                words = whole.partition("+")[2] or whole
                self.fonts[own] = (bool(_BOLD_NAME.search(words)), bool(_FIXED_NAME.search(words)))
            turn = (b if a > 0 else 1.0) / (abs(a) + abs(b) or 1.0)
            size = size * (hypot(c, d) or 1.0) or 1.0
            letters.append(_Letter(y - self.edges[1], size, turn, *self.fonts[own]))
        return letters

    def iter_lines(self) -> Iterator[_Line]:
        return itertools.chain(*_join_justified(_join_broken(list(self.iter_rows()))))

    def iter_spans(self) -> Iterator[_Span]:
        """Yield lines, cut where text begins or ends that is not seen, or a stamp or the next of
        stretched lines, which PDFium may append."""
        for number, (span, (first, last)) in enumerate(zip(self.spans, self.ends, strict=True)):
            one, two, step = first[1] - first[3], last[1] - last[3], abs(first[3] - last[3])
            mixed = one > 1.8 * two or two > 1.8 * one or step > 0.8 * min(one, two)
            if not (mixed or self.unseen):
                yield span
                continue
            words = self.words[number]
            keys: list[Any] = [start in self.unseen for start, _ in words]
            if mixed:
                letters = self.read_letters([start for start, _ in words])
                keys = [
                    (key, round(size / 6), round(5 * turn), abs(turn) < 0.1 and round(y / size))
                    for key, (y, size, turn, *_) in zip(keys, letters, strict=True)
                ]
            for _, run in itertools.groupby(zip(keys, words, strict=True), itemgetter(0)):
                own = [word for _, word in run]
                yield own[0][0], own[-1][1]

    def iter_rows(self) -> Iterator[list[_Line]]:
        """Yield each line as its parts that stand apart."""
        spans = list(self.iter_spans())
        ends = self.ends if len(spans) == len(self.spans) else self.read_ends(spans)
        units = [*(start for start, _ in spans), *(self.find_last(*span) for span in spans)]
        letters, lines = self.read_letters(units), []
        each = zip(spans, ends, letters, letters[len(spans) :], strict=False)
        for (start, end), (first, last), one, two in each:
            y, size, turn, bold, fixed = one
            x, right = first[0] - self.edges[0], last[2] - self.edges[0]
            hidden = start in self.unseen or not self.is_inside(first) or size < 1
            if not self.units[start].isalpha():
                # The mark of a note is raised and smaller than the note.
                size, y = max(size, two.size), min(y, two.y)
            upright = abs(turn) < 0.1 and abs(last[3] - first[3]) < 2 * size
            bold, fixed = bold and two.bold, fixed and two.fixed
            line = _Line(self.clean_text(start, end), x, right, y, size, bold, fixed, hidden)
            if not upright:
                line.left, line.right, line.aslant = x, x, abs(turn) >= 0.1
            whole = fixed or not upright or hidden or " " not in line.text
            lines.append((line, (start, end), 0.0 if whole else (right - x) / (end - start)))
        return self.split_lines(lines)

    def split_lines(self, lines: list[tuple[_Line, _Span, float]]) -> Iterator[list[_Line]]:
        """Yield the parts of lines, of which the span and the width of a letter are given; none:
        it has no parts."""
        every: list[dict[tuple[float, bool], float]] = [{}, {}]
        wide, places = list[_Span](), dict[_Span, list[_Word]]()
        # First the lines are found that seem to have parts: one call for the places of all their
        # words takes half of the time of one for each.
        for again, widths in enumerate(every):
            for line, span, each in lines:
                long, key, parts = span[1] - span[0], (round(line.size, 1), line.bold), [line]
                typical, skipped = widths.get(key, 0.0), False
                if each and (each > 1.05 * typical or long < 25):
                    wide.append(span)
                    skipped = typical > 0 and not again
                    if again and span not in places:
                        places.update(self.read_words([span]))
                    parts = list(self.split_line(line, places[span])) if again else parts
                if each and long > 30 and len(parts) == 1 and not skipped:
                    widths[key] = (typical * 3 + each) / 4 if typical else each
                if again:
                    yield parts
            places = places or self.read_words(wide)

    def read_words(self, spans: list[_Span]) -> dict[_Span, list[_Word]]:
        """Return the words of lines, by their spans, with their left and right edges."""
        words = list(map(self.find_words, spans))
        flat = list(itertools.chain(*words))
        (lefts,) = self.read_boxes([start for start, _ in flat], 0)
        (rights,) = self.read_boxes([end - 1 for _, end in flat], 2)
        every = zip(flat, lefts, rights, strict=True)
        return {span: list(islice(every, len(own))) for span, own in zip(spans, words, strict=True)}

    def find_last(self, start: int, end: int) -> int:
        """Return the last letter of a word, before the hyphen that divides it."""
        return end - 2 if end - start > 1 and self.units[end - 1] in _DIVIDED else end - 1

    def split_line(self, line: _Line, words: list[_Word]) -> Iterator[_Line]:
        """Yield the parts of a line that stand apart by more than words do."""
        gaps = [after[1] - before[2] for before, after in pairwise(words)]
        # Where a line is stretched to fill its column, all its spaces are wide.
        wide = min(line.size, max(0.6 * line.size, 1.8 * min(gaps, default=0.0)))
        if max(gaps, default=0.0) <= wide:
            yield line
            return
        begin, x = words[0][0][0], line.left
        for gap, before, ((first, _), edge, _) in zip(gaps, words, words[1:], strict=False):
            if gap > wide and not self.is_marker(begin, first):
                text, right = self.clean_text(begin, first), before[2] - self.edges[0]
                yield msgspec.structs.replace(line, text=text, left=x, right=right)
                begin, x = first, edge - self.edges[0]
        text = self.clean_text(begin, words[-1][0][1])
        yield msgspec.structs.replace(line, text=text, left=x)

    def is_marker(self, start: int, end: int) -> bool:
        """Tell whether units[start:end] are only the mark of an item, or lead to a page number."""
        text = self.units[start:end].strip()
        marker = _BULLET.fullmatch(text) or _ENUMERATOR.fullmatch(text)
        return bool(marker) or bool(_LEADERS.search(text[-8:]))

    def clean_text(self, start: int, end: int) -> str:
        text = self.units[start:end]
        if self.spaces and (cuts := sorted(unit for unit in self.spaces if start < unit < end)):
            text = " ".join(self.units[a:b] for a, b in pairwise([start, *cuts, end]))
        if not text.isascii():
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            text = text.translate(_LIGATURES)
        if not text.isprintable():
            text = _UNREADABLE.sub("", text)
        return " ".join(text.split()) if text else ""

    @cached_property
    def picture(self) -> Any:
        """The page drawn in grey, a pixel for each point."""
        return self.page.render(grayscale=True, may_draw_forms=False)

    def is_blank(self, box: Sequence[float]) -> bool:
        """Tell whether a part of the page is drawn in one colour."""
        left, top, right, bottom = (
            round(abs(n - e)) for n, e in zip(box, (self.edges[0], self.edges[3]) * 2, strict=True)
        )
        step, pixels = self.picture.stride, bytearray()
        for row in range(top, min(bottom, self.picture.height)):
            pixels += memoryview(self.picture.buffer)[row * step + left : row * step + right]
        return not pixels or max(pixels) - min(pixels) < 8

    def is_inside(self, letter: _Box) -> bool:
        """Tell whether the box of a letter is on the part of the page that is shown."""
        left, bottom, right, top = self.edges
        beside = left <= letter[2] and letter[0] <= right
        return bool(beside and bottom <= letter[1] and letter[3] <= top)


def _join_broken(rows: list[list[_Line]]) -> list[list[_Line]]:
    """Return rows of parts, those joined that PDFium breaks on one baseline, even inside a word."""
    joined: list[list[_Line]] = []
    for row in rows:
        last, first = (joined[-1][-1] if joined else row[0]), row[0]
        gap = first.left - last.right
        same = joined and abs(last.y - first.y) < 0.5 and last.hidden == first.hidden
        plain = not (last.aslant or first.aslant or last.fixed or abs(last.size - first.size) > 0.5)
        if not (same and plain and -0.5 * first.size < gap < 2.5 * first.size):
            joined.append(row)
            continue
        if gap < 0.6 * first.size:
            last.text += ("" if gap < 0.15 * first.size else " ") + first.text
            last.right = first.right
            row = row[1:]
        joined[-1] += row
    return joined


def _join_justified(rows: list[list[_Line]]) -> Iterator[list[_Line]]:
    """Join the parts of lines that are stretched to fill their column: both of their ends are those
    of a line of prose nearby, and few lines nearby have a part at the same place."""
    for number, row in enumerate(rows):
        size, near = row[0].size, rows[max(0, number - 6) : number + 7] if len(row) > 1 else []
        near = [one for one in near if one is not row and abs(one[0].y - row[0].y) < 6 * size]
        aligned = sum(
            any(abs(a.left - b.left) < 0.15 * size for a in row[1:] for b in one[len(one) > 1 :])
            for one in near
        )
        filled = any(
            len(one) == 1 and one[0].text.count(" ") > 1
            for one in near
            if abs(one[0].left - row[0].left) < 1 and abs(one[-1].right - row[-1].right) < 1
        )
        if filled and aligned < 3:
            text = " ".join(part.text for part in row)
            row = [msgspec.structs.replace(row[0], text=text, right=row[-1].right)]
        yield row


# ---------------------------------------------------------------- text that is not seen


def find_unseen_letters(upright: UprightPage) -> set[int]:
    """Return the letters of a page, by PDFium's numbers, that its reader does not see."""
    reader = _LineReader(upright, spaced=False)
    words = itertools.chain(*reader.words) if reader.unseen else ()
    return {reader.indices[n] for a, b in words if a in reader.unseen for n in range(a, b)}


class AddedText(NamedTuple):
    """Text that a form field or an annotation shows on a page."""

    text: str
    box: tuple[float, ...]
    """on the upright page"""
    kind: str
    """`field`, `box` or `note`"""
    hidden: bool


def list_added_texts(document: Any, upright: UprightPage) -> list[AddedText]:
    """Return the texts of fields, boxes to be checked, free texts and notes of a page."""
    import pypdfium2.raw as raw

    form, page = document.formenv.raw if document.formenv else None, upright.page.raw
    count = raw.FPDFPage_GetAnnotCount(page)
    annotations, added = _call_each("FPDFPage_GetAnnot", repeat(page), range(count)), []
    subtypes = _call_each("FPDFAnnot_GetSubtype", annotations)
    for one, subtype in zip(annotations, subtypes, strict=True):
        if subtype == raw.FPDF_ANNOT_WIDGET and form:
            kind, text = _read_field(raw, form, one)
        elif subtype in (raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_TEXT):
            kind = "field" if subtype == raw.FPDF_ANNOT_FREETEXT else "note"
            text = _read_string("FPDFAnnot_GetStringValue", one, b"Contents")
        else:
            continue
        corners = itertools.chain(*_read_each("FPDFAnnot_GetRect", ctypes.c_float, 4, [one]))
        x_min, top, right, bottom = corners
        place: _Box = (x_min, bottom, right, top)
        for turn in upright.turns:
            place = _turn_box(place, turn)
        if text.strip():
            flags = _bind_function("FPDFAnnot_GetFlags")(one)
            unseen = bool(flags & (raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW))
            added.append(AddedText(" ".join(text.split()), place, kind, unseen))
    _call_each("FPDFPage_CloseAnnot", annotations)
    return added


def _read_field(raw: Any, form: Any, field: int) -> tuple[str, str]:
    """Return the kind and the text of a form field; a password is not shown."""
    kind = _bind_function("FPDFAnnot_GetFormFieldType")(form, field)
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        return "box", "☒" if _bind_function("FPDFAnnot_IsChecked")(form, field) else "☐"
    options = range(max(0, _bind_function("FPDFAnnot_GetOptionCount")(form, field)))
    chosen = [n for n in options if _bind_function("FPDFAnnot_IsOptionSelected")(form, field, n)]
    if chosen:
        labels = [_read_string("FPDFAnnot_GetOptionLabel", form, field, n) for n in chosen]
        return "field", ", ".join(labels)
    flags = _bind_function("FPDFAnnot_GetFormFieldFlags")(form, field)
    secret = kind == raw.FPDF_FORMFIELD_TEXTFIELD and flags & raw.FPDF_FORMFLAG_TEXT_PASSWORD
    texts = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
    if kind not in texts or secret:
        return "field", ""
    return "field", _read_string("FPDFAnnot_GetFormFieldValue", form, field)


def _read_string(name: str, *of: Any) -> str:
    read = _bind_function(name)
    buffer = ctypes.create_string_buffer(max(read(*of, None, 0), 2))
    read(*of, buffer, len(buffer))
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")


def _place_added(lines: list[_Line], added: AddedText, edges: Sequence[float]) -> None:
    """Set a field behind its label, a box before it; else on a line of its own at its height."""
    x_min, bottom, right, top = (side - edges[n % 2] for n, side in enumerate(added.box))
    size = min(max(top - bottom, 4.0), 12.0)
    base = bottom + (top - bottom - 0.7 * size) / 2 if top - bottom < 30 else top - size
    line = _Line(added.text, x_min, right, base, size, hidden=added.hidden, entered=True)
    line.apart = added.kind == "note"
    upright_lines = [one for one in lines if not (one.hidden or one.aslant or one.apart)]
    level = [
        one for one in upright_lines if abs(one.y - base) < max(0.8 * one.size, (top - bottom) / 2)
    ]
    before = [one for one in level if one.right < x_min + 3]
    after = [one for one in level if right - 3 < one.left < right + 4 * size]
    if added.hidden or line.apart:
        lines.append(line)
    elif added.kind == "box" and after:
        label = min(after, key=lambda one: one.left)
        label.text, label.left, label.entered = f"{added.text} {label.text}", x_min, True
    elif before:
        label = max(before, key=lambda one: one.right)
        label.text, label.right, label.entered = f"{label.text} {added.text}", right, True
    else:
        at = next((n for n, one in enumerate(lines) if one.y < base), len(lines))
        lines.insert(at, line)


_WHITE = (255, 255, 255, 255)


class _Shape(NamedTuple):
    """A filled path or a picture, in the order in which they are drawn."""

    order: int
    """how many texts are drawn before"""
    box: tuple[float, ...]
    color: tuple[int, ...] | None
    """red, green, blue, alpha; none: of several colours"""
    solid: bool
    """hides what is below"""


def _find_unseen(reader: _LineReader) -> set[int]:
    """Return the words of a page, by their first units, that are drawn invisibly, in the colour of
    what is below them, outside their clipping path, in a layer that is off, or that a shape covers.
    A text layer over or below a picture that fills the page is what a program read in it, and seen.
    """
    texts, shapes = _list_objects(reader.page)
    orders = {text: order for order, text in enumerate(texts)} if shapes else {}
    if len(texts) > 2 * reader.units.count(" "):  # a program that draws each letter for itself
        texts = [text for text in dict.fromkeys(reader.texts) if text]
    layers = _find_hidden_layers(reader, texts)
    modes = _call_each("FPDFTextObj_GetTextRenderMode", texts)
    colors = list(zip(*_read_colors(texts), strict=True))
    # PDFium drops the clipping paths that do not cut their text.
    clips = _call_each("FPDFClipPath_CountPaths", _call_each("FPDFPageObj_GetClipPath", texts))
    looks = dict(zip(texts, zip(modes, colors, clips, strict=True), strict=True))
    grounds = {_WHITE, *(shape.color for shape in shapes if shape.color)}
    alike = {(a, b) for a in set(colors) for b in grounds if _is_alike(a, b)}
    odd = {
        text
        for text, (mode, color, clip) in looks.items()
        if mode in (3, 7) or not color[3] or (color, _WHITE) in alike or clip > 0
    } | layers
    tiny = any(one[1] - one[3] < 1 for one, _ in reader.ends)
    if not (odd or alike or tiny or any(shape.solid and shape.order for shape in shapes)):
        return set()
    area = _get_area(reader.edges)
    scans = [one for one in shapes if one.color is None and _get_area(one.box) > 0.5 * area]
    near = {ground for _, ground in alike}
    shapes = [one for one in shapes if odd or (one.solid and one.order) or one.color in near]
    unseen = set[int]()
    for span, (first, last) in zip(reader.spans, reader.ends, strict=True):
        low, high = sorted(((first[1] + first[3]) / 2, (last[1] + last[3]) / 2))
        over = [shape for shape in shapes if shape.box[1] <= high and low <= shape.box[3]]
        if not (over or odd or tiny):
            continue
        starts = [start for start, _ in reader.find_words(span)]
        own = reader.list_texts(starts)
        pairs = {(orders.get(text, 0), looks[text][1]) for text in own if text in looks}
        unsure = any(
            (shape.solid and shape.order > order) or (color, shape.color) in alike
            for order, color in pairs
            for shape in over
        )
        if not (unsure or tiny) and odd.isdisjoint(own):
            continue
        for start, text, *box in zip(starts, own, *reader.read_boxes(starts), strict=True):
            mode, color, clip = looks.get(text, (-1, _WHITE, 0))
            x, y, order = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2, orders.get(text, 10**9)
            at_point = [shape for shape in over if _holds_point(shape.box, x, y)]
            hidden = max(box[1] - box[3], box[2] - box[0]) < 1
            if mode in (3, 7) or (mode == 0 and not color[3]):
                hidden = not any(one.color is None for one in at_point)
            elif clip > 0 and reader.is_blank(box):
                hidden = True
            elif not any(one in scans for one in at_point):
                below = [one.color for one in at_point if one.order <= order]
                ground = below[-1] if below else _WHITE
                hidden = hidden or any(one.solid and one.order > order for one in at_point)
                hidden = hidden or (mode == 0 and (color, ground) in alike)
                if hidden and below and ground == _WHITE:
                    hidden = reader.is_blank(box)  # PDFium says white of what shades into another
            if hidden or text in layers:
                unseen.add(start)
    return unseen


def _find_hidden_layers(reader: _LineReader, texts: list[int]) -> set[int]:
    """Return the texts of layers (optional content) without which the page looks the same."""
    layers, hidden = dict[str, list[int]](), set[int]()
    for text, _, name in _list_properties(texts, b"Name"):
        layers.setdefault(name, []).append(text)
    for own in islice(layers.values(), _MOST_LAYERS):
        _call_each("FPDFPageObj_SetIsActive", own, repeat(0))
        without = bytes(reader.page.render(grayscale=True, may_draw_forms=False).buffer)
        _call_each("FPDFPageObj_SetIsActive", own, repeat(1))
        hidden.update(own if without == bytes(reader.picture.buffer) else ())
    return hidden


def _list_objects(page: Any) -> tuple[list[int], list[_Shape]]:
    """Return the texts and the shapes of a page, in the order in which they are drawn."""
    texts, shapes = list[int](), list[_Shape]()
    _add_objects("Page", ctypes.cast(page.raw, ctypes.c_void_p).value or 0, None, texts, shapes)
    return texts, shapes


def _add_objects(
    kind: str, owner: int, turn: _Matrix | None, texts: list[int], shapes: list[_Shape]
) -> None:
    """Add the objects of a page or of a form in it, in the order in which they are drawn."""
    import pypdfium2
    import pypdfium2.raw as raw

    count = _bind_function(f"FPDF{kind}_CountObjects")(owner)
    own = _call_each(f"FPDF{kind}_GetObject", repeat(owner), range(count))
    types = bytes(_call_each("FPDFPageObj_GetType", own))
    others = [match.start() for match in _NO_TEXT.finditer(types)]
    each = [own[n] for n in others]
    bounds = _read_each("FPDFPageObj_GetBounds", ctypes.c_float, 4, each, apart=True)
    # A rule strikes words out, or stands under them, and hides none.
    large = [one for one, a, b, c, d in zip(each, *bounds, strict=True) if min(c - a, d - b) > 3]
    looks = zip(
        *_read_each("FPDFPath_GetDrawMode", ctypes.c_int, 2, large, apart=True),
        _call_each("FPDFPath_CountSegments", large),
        _call_each("FPDFPageObj_HasTransparency", large),
        *_read_colors(large),
        strict=True,
    )
    traits = dict(zip(large, looks, strict=True))
    last = 0
    for at, one, *box in zip(others, each, *bounds, strict=True):
        texts += own[last:at]
        last = at + 1
        path = types[at] == raw.FPDF_PAGEOBJ_PATH
        if types[at] == raw.FPDF_PAGEOBJ_FORM:
            columns = _read_each("FPDFPageObj_GetMatrix", ctypes.c_float, 6, [one])
            matrix = pypdfium2.PdfMatrix(*itertools.chain(*columns))
            matrix = matrix.multiply(pypdfium2.PdfMatrix(*turn)) if turn else matrix
            inner = list[_Shape]()
            _add_objects("FormObj", one, matrix.get(), texts, inner)
            clear = _bind_function("FPDFPageObj_HasTransparency")(one)
            shapes += [shape._replace(solid=shape.solid and not clear) for shape in inner]
        elif one in traits:
            fill, _, segments, clear, *color = traits[one]
            if not path or (fill and color[3]):
                even = segments in (4, 5, 6) if path else types[at] == raw.FPDF_PAGEOBJ_IMAGE
                place = _turn_box(tuple(box), turn)
                shade = tuple(color) if path else None
                shapes.append(_Shape(len(texts), place, shade, even and not clear))
    texts += own[last:]


def _turn_box(box: tuple[float, ...], turn: _Matrix | None) -> tuple[float, ...]:
    import pypdfium2

    return pypdfium2.PdfMatrix(*turn).on_rect(*box) if turn else box


def _read_colors(objects: list[int]) -> list[Any]:
    """Return the columns red, green, blue and alpha of what objects are filled with."""
    return _read_each("FPDFPageObj_GetFillColor", ctypes.c_uint, 4, objects, apart=True)


def _is_alike(one: Sequence[int], two: Sequence[int]) -> bool:
    return all(abs(a - b) < 8 for a, b in zip(one[:3], two, strict=False))


def _get_area(box: Sequence[float]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def _holds_point(box: Sequence[float], x: float, y: float) -> bool:
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


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
                texts = [lines[n].text for n in row]
                titled = any(len(text) > 3 and text.lower() in headings for text in texts)
                repeated = (titled and len(pages) > 1) or any(
                    max(counts[at[0], key], counts[at[0] + 1, key]) >= least
                    for key in _list_row_keys(lines, row, number)
                )
                numbered = len(pages) > 1 and _PAGE_NUMBER.fullmatch(" ".join(texts))
                repeated = repeated or bool(numbered and int(numbered[1]) == number + 1)
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
        stamps = [line for line in lines if line.apart or self.is_stamp(line, lines)]
        for item in _split_rows([line for line in lines if line not in stamps]):
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
        for line in stamps:
            kind = "paragraph" if line.apart else ""
            self.parts.append(_Part(kind, [(self.number, [line.text])], note=True))
        return self.parts

    def is_stamp(self, line: _Line, lines: list[_Line]) -> bool:
        """Tell whether a line is larger than the text and lies across it."""
        if line.aslant or line.size < 1.8 * self.body:
            return line.aslant and line.size > 1.3 * self.body
        crossed = (
            one.size < 0.6 * line.size and one.left < line.right and line.left < one.right
            and line.y - 0.2 * one.size < one.y + 0.3 * one.size < line.y + 0.7 * line.size
            for one in lines
        )  # fmt: skip
        return any(crossed)

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
        if before.entered or line.entered:
            return True
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
            if line.hidden:
                continue
            sizes[round(line.size, 1)] += len(line.text)
            fixed += len(line.text) * line.fixed
    total = sizes.total()
    body = max(sizes, key=lambda size: (sizes[size], size), default=10.0)
    parts: list[_Part] = []
    hidden = [[line for line in lines if line.hidden] for lines in pages]
    pages = [[line for line in lines if not line.hidden] for lines in pages]
    furniture = _find_furniture(pages, body)
    for number, lines in enumerate(pages):
        left_out = furniture[number] | _find_line_numbers(lines)
        visible_lines = [line for n, line in enumerate(lines) if n not in left_out]
        page_parts = _PageParts(number, body, fixed * 2 > total).find_parts(visible_lines)
        heads, feet = _build_furniture(number, lines, left_out)
        _join_pages(parts, [*heads, *page_parts, *feet], number)
        parts += [_Part("paragraph", [(number, [text])]) for text in recognized.get(number, ())]
    _set_levels(parts, body)
    for number, lines in enumerate(hidden):
        parts += [_Part("hidden", [(number, [line.text])]) for line in lines]
    return parts


def _find_line_numbers(lines: list[_Line]) -> set[int]:
    """Return the lines that are numbers of lines: they stand in the margin beside prose, and count
    the lines from one to the next."""
    numbers = [n for n, line in enumerate(lines) if line.text.isdecimal() and len(line.text) < 5]
    prose = [line for line in lines if line.text.count(" ") > 3]
    if len(numbers) < 4 or not prose:
        return set()
    line_numbers = set[int]()
    heights = sorted({round(line.y / 3) for n, line in enumerate(lines) if n not in numbers})
    numbers.sort(key=lambda n: -lines[n].y)
    for aside in (
        [n for n in numbers if lines[n].right < min(line.left for line in prose)],
        [n for n in numbers if lines[n].left > max(line.right for line in prose)],
    ):
        ranks = [bisect(heights, round(lines[n].y / 3) + 1) for n in aside]
        counting = sum(
            0 < int(lines[b].text) - int(lines[a].text) == above - below
            for (a, b), (above, below) in zip(pairwise(aside), pairwise(ranks), strict=True)
        )
        if counting > 0.7 * (len(aside) - 1) > 2:
            line_numbers.update(aside)
    return line_numbers


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
    divided = any(line.text[-1:] in "-" + _DIVIDED for lines in pages for line in lines)
    words = _count_words(pages) if divided else Counter[str]()
    out: list[str] = []
    blocks: list[Block] = []
    spans: dict[int, list[int]] = {}
    at = visible_end = 0
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
            unseen = part.kind == "hidden"
            for (page, _), begin, end in zip(part.pieces, cuts, ends, strict=True):
                if unseen:
                    break
                visible_end = at
                span = spans.setdefault(page, [start + begin, start + end])
                span[1] = max(span[1], start + end)
            article = part.kind not in ("", "hidden")
            named = part.kind if article else "paragraph"
            place = (start, at, named, part.level, article)
            blocks.append(Block(*place, furniture=not part.kind, hidden=unseen))
        kind = part.kind
    return "".join(out), blocks, _build_marks(spans, len(pages), visible_end)


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
    """Count the words of all lines, but for those that a line's end divides; and "-" where the
    hyphens at the ends of lines are the words' own, since the program divides none."""
    words, halves, long = Counter[str](), list[str](), 0
    for lines in pages:
        text = "\n".join(line.text for line in lines).lower()
        divided = _DIVIDED[0] in text or _DIVIDED[1] in text
        words.update(_LETTERS.findall(_HALVES.sub(" ", text) if divided else text))
        long += sum(line.text.count(" ") > 3 for line in lines)
        halves += [
            "".join(_find_halves(before.text, line.text))
            for before, line in pairwise(lines)
            if before.text[-1:] in ("-", _DIVIDED[1])
        ]
    # Programs that divide words do so in more lines, and in words that stand elsewhere, too.
    words["-"] = len(halves) <= 0.03 * long and not any(words[each] for each in halves)
    return words


def _find_halves(before: str, line: str) -> tuple[str, str]:
    """Return the letters before the hyphen at a line's end, and those that begin the next line."""
    head, tail = re.search(r"[^\W\d_]*$", before[-60:-1]), re.match(r"[^\W\d_]*", line)
    return head[0].lower() if head else "", tail[0].lower() if tail else ""


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
        one, two = _find_halves(before, line)
        if two in _COORDINATED:
            return before[:-1] + "-", " "
        hyphenated, joined = words[f"{one}-{two}"], words[one + two]
        both_known = not joined and len(one) > 2 and len(two) > 2 and words[one] and words[two] > 1
        named = line[:1].isupper() and not joined
        own = words["-"] and before[-1] != _DIVIDED[0] and not joined
        compound = hyphenated > joined or both_known or named or own or before[-2:-1].isdigit()
        return before[:-1] + ("-" if compound else ""), ""
    if before[-1] == "-" and before[-2:-1].isalnum() and line[:1].isalnum():
        return before, "" if line.partition(" ")[0] not in _COORDINATED else " "
    return before, " "

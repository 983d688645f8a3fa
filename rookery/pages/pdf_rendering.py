"""Render a page of a PDF as a picture, and find the boxes of its words.

PDFium is not made for threads, and a file may crash it: it runs in a process of its own, with
limits. Boxes are given only where the file's letters are, one by one, those of the stored text.
"""

import ctypes
import signal
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from rookery.errors import Failed, Outcome
from rookery.pages.file_selection import PICTURE_ENDINGS
from rookery.pages.pdf_documents import (
    AddedText,
    UprightPage,
    find_unseen_letters,
    list_added_texts,
    open_upright_page,
)
from rookery.pages.reader_processes import build_worker_command
from rookery.records import Failure, Page, prepare_type

MAX_PICTURE_SIDE = 1240
"""pixels of a picture's longer side, at most, times two: letters stay sharp on every screen"""
MAX_DRAW_SECONDS = 20
"""of a processor, to draw one page"""
MAX_DRAW_BYTES = 768 * 2**20
"""bytes that drawing may use"""
MAX_CONCURRENT_DRAWS = 2
"""pages that are drawn at the same time; others wait"""
# PDFium writes these two where a word was divided at the end of a line; a stored text has neither.
_HYPHEN_CODES = "\ufffe\x02"
_FOLLOWING = 8
"""words that tell where a line stands whose first word occurs more than once"""

TextSpan = tuple[int, int]


class PictureBox(msgspec.Struct, frozen=True, array_like=True):
    """A part of a line, in pixels of the picture."""

    x: float
    y: float
    width: float
    height: float


class DrawnPage(msgspec.Struct, frozen=True, array_like=True):
    """One page."""

    width: int
    height: int
    """pixels"""
    boxes: tuple[PictureBox, ...] = ()
    located: bool = False
    """whether the letters on the page are those of the stored text; otherwise there are no boxes"""
    png: bytes = b""


class DrawJob(msgspec.Struct, frozen=True, array_like=True):
    """A drawing job: the picture of a PDF page, or boxes around words."""

    pdf: bytes
    number: int
    """of the page, from 1"""
    text: str
    """that stands on it"""
    span: TextSpan = (0, 0)
    """of the text, round which the boxes are"""
    picture: bool = False


class PdfPage(msgspec.Struct, frozen=True):
    """The span text[start:end] of the stored page that one page of the PDF has."""

    number: int
    start: int
    end: int


def list_pdf_pages(page: Page) -> list[PdfPage]:
    """Return the pages of a PDF with their spans of the stored text; empty for other pages."""
    # The pages of a TIFF that was read by OCR have the same marks.
    return [
        PdfPage(int(mark.value), mark.start, mark.end)
        for mark in page.marks * (not page.url.lower().endswith(PICTURE_ENDINGS))
        if mark.kind == "page" and mark.value.isascii() and mark.value.isdigit()
    ]


def make_box_job(pdf: bytes, page: Page, sheet: PdfPage, span: TextSpan) -> DrawJob:
    """Return the job that finds where the words of page.text[span] stand on this PDF page.

    Words on other pages are left out; where none are on this one, the job finds no boxes.
    """
    low, high = max(span[0], sheet.start), min(span[1], sheet.end)
    inside = (low - sheet.start, high - sheet.start) if low < high else (0, 0)
    return DrawJob(pdf, sheet.number, page.text[sheet.start : sheet.end], inside)


class PdfRenderer:
    """Draws pages of PDFs, a few at a time, each in a process of its own; threads may share one.

    A call waits for its turn, and then for the drawing, a minute at most.
    """

    def __init__(self) -> None:
        self._semaphore = threading.Semaphore(MAX_CONCURRENT_DRAWS)

    def draw_picture(self, pdf: bytes, page: Page, sheet: PdfPage) -> DrawnPage:
        """Return the PDF page as a PNG. Raises Failed (not_drawn).

        Without PNG, and not `located`, if its letters are not those of the stored text.
        """
        text = page.text[sheet.start : sheet.end]
        return self._run_job(DrawJob(pdf, sheet.number, text, picture=True))

    def find_boxes(self, pdf: bytes, page: Page, sheet: PdfPage, span: TextSpan) -> DrawnPage:
        """Return the boxes around the words of page.text[span] on this PDF page.

        Without boxes, and not `located`, if its letters are not those of the stored text. Raises
        Failed (not_drawn).
        """
        return self._run_job(make_box_job(pdf, page, sheet, span))

    def _run_job(self, job: DrawJob) -> DrawnPage:
        text = job.text.encode("utf-8", "replace").decode()  # surrogates have no UTF-8
        order = msgspec.msgpack.encode(msgspec.structs.replace(job, text=text))
        try:
            with self._semaphore:
                process = subprocess.run(
                    build_worker_command(run_drawing_process),
                    input=order,
                    capture_output=True,
                    timeout=3 * MAX_DRAW_SECONDS,
                    check=True,
                )
            return msgspec.msgpack.decode(process.stdout, type=prepare_type(DrawnPage))
        except (subprocess.SubprocessError, OSError, msgspec.MsgspecError) as error:
            detail = "this page of the PDF cannot be drawn: read its text instead"
            raise Failed(Failure(f"page {job.number}", Outcome.NOT_DRAWN, detail)) from error


def run_drawing_process() -> None:
    """Read a job from standard input, draw it and write the result to standard output.

    Time and memory are limited.
    """
    import resource

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, MAX_DRAW_SECONDS)
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_DRAW_BYTES, most))
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=prepare_type(DrawJob))
    sys.stdout.buffer.write(msgspec.msgpack.encode(draw_pdf_page(job)))


def draw_pdf_page(job: DrawJob) -> DrawnPage:
    """Draw a page or its boxes in this very process, without limits.

    The caller keeps other threads out of PDFium meanwhile. Raises pypdfium2's errors.
    """
    import pypdfium2

    document = pypdfium2.PdfDocument(job.pdf)
    page = document[job.number - 1]
    size = page.get_size()
    scale = min(2.0, 2 * MAX_PICTURE_SIDE / max(size))
    width, height = (max(1, round(side * scale)) for side in size)
    turned = pypdfium2.PdfDocument(job.pdf)
    upright = open_upright_page(turned, job.number - 1)
    letters = _find_letter_boxes(upright, list_added_texts(turned, upright), job)
    if letters is None:
        return DrawnPage(width, height)
    if job.picture:
        bitmap = page.render(scale=scale, rev_byteorder=True, may_draw_forms=False)
        return DrawnPage(bitmap.width, bitmap.height, located=True, png=_encode_png(bitmap))
    places = map(upright.locate_box, dict.fromkeys(letters))
    boxes = [_to_picture_box(page, (width, height), box) for box in places]
    return DrawnPage(width, height, tuple(_join_line_boxes(boxes)), True)


def _find_letter_boxes(
    upright: UprightPage, added_texts: Sequence[AddedText], job: DrawJob
) -> list[tuple[float, ...]] | None:
    """Return the boxes of the letters of text[span] on the upright page, in points; None where the
    page has other letters."""
    import pypdfium2.raw

    text = upright.text
    codes = [pypdfium2.raw.FPDFText_GetUnicode(text.raw, n) for n in range(text.count_chars())]
    unseen = find_unseen_letters(upright)
    letters = [(n, code) for n, code in enumerate(codes) if n not in unseen]
    boxes = list[Sequence[float]]()
    for added in added_texts:
        if not added.hidden:
            letters += [(len(codes) + len(boxes), 0x20)]
            letters += [(len(codes) + len(boxes), ord(letter)) for letter in added.text]
            boxes.append(added.box)
    places = _align_letters(letters, job.text)
    if places is None:
        # What lies outside the visible part of the page is not read.
        edges = upright.page.get_bbox()
        letters = [
            (n, code)
            for n, code in letters
            if _is_gap(code) or n >= len(codes) or _boxes_overlap(edges, text.get_charbox(n))
        ]
        places = _align_letters(letters, job.text)
    if places is None:
        return None
    low, high = job.span
    return [
        _get_letter_box(text, n) if n < len(codes) else tuple(boxes[n - len(codes)])
        for at, n in places
        if low <= at < high
    ]


def _align_letters(letters: Sequence[tuple[int, int]], text: str) -> list[tuple[int, int]] | None:
    """Return which letter of the PDF each letter of the text is; None where they differ.

    The text has the words of the page in the order of reading: the file may have another. Hyphens
    are found last, since a word that a line's end divides may have lost its own.
    """
    words: list[list[tuple[int, int]]] = [[]]
    for n, code in letters:
        if _is_gap(code):
            words.append([])
        words[-1] += [(n, unit) for n, unit in _split_utf16([(n, code)]) if not _is_left_out(unit)]
    expected = [(at, unit) for at, unit in _encode_utf16(text) if not _is_left_out(unit)]
    expected_text = "".join(chr(unit) for _, unit in expected)
    free = bytearray(b"\1") * len(expected_text)
    words = [word for word in words if word]
    spoken = ["".join(chr(unit) for _, unit in word) for word in words]
    if sum(map(len, spoken)) != len(expected_text):
        return None
    pairs: list[tuple[int, int]] = []
    at = 0
    for number, word in enumerate(words):
        own = spoken[number]
        if not (expected_text.startswith(own, at) and all(free[at : at + len(own)])):
            # As many words as follow it there tell which of several places is meant.
            runs = ("".join(spoken[number : number + more]) for more in (_FOLLOWING, 3, 1))
            places = (_find_free(expected_text, run, free) for run in runs)
            at = next((place for place in places if place >= 0), -1)
            if at < 0:
                return None
        for offset, (n, _) in enumerate(word):
            pairs.append((expected[at + offset][0], n))
            free[at + offset] = 0
        at += len(own)
    codes, codes_at = dict(letters), dict(pairs)
    for at, letter in enumerate(text):
        if letter == "-":
            for n in (codes_at.get(at - 1, -2) + 1, codes_at.get(at + 1, 0) - 1):
                if chr(codes.get(n, 0)) in "-" + _HYPHEN_CODES:
                    pairs.append((at, n))
                    break
    return sorted(set(pairs))


def _find_free(text: str, words: str, free: bytearray) -> int:
    at = text.find(words)
    while at >= 0 and not all(free[at : at + len(words)]):
        at = text.find(words, at + 1)
    return at


def _get_letter_box(text_page: Any, n: int) -> tuple[float, ...]:
    """Return a letter's box: as high as the line, and no wider than the letter, so that the next
    one is not marked."""
    tight, loose = text_page.get_charbox(n), text_page.get_charbox(n, loose=True)
    return tight[0], min(tight[1], loose[1]), tight[2], max(tight[3], loose[3])


def _boxes_overlap(one: Sequence[float], two: Sequence[float]) -> bool:
    beside = one[0] <= two[2] and two[0] <= one[2]
    return beside and one[1] <= two[3] and two[1] <= one[3]


def _is_gap(code: int) -> bool:
    return code == 0 or chr(code).isspace() or chr(code) in _HYPHEN_CODES


def _is_left_out(unit: int) -> bool:
    return _is_gap(unit) or chr(unit) in "-‐\xad"


def _split_utf16(letters: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Letters as units of UTF-16, as which PDFium may give them or not."""
    for n, code in letters:
        yield from ((n, unit) for _, unit in _encode_utf16(chr(code)))


def _encode_utf16(text: str) -> Iterator[tuple[int, int]]:
    for at, letter in enumerate(text):
        packed = letter.encode("utf-16-le", "surrogatepass")
        yield from ((at, unit) for unit in struct.unpack(f"<{len(packed) // 2}H", packed))


def _to_picture_box(page: Any, size: tuple[int, int], box: tuple[float, ...]) -> PictureBox:
    """Return a box in points as one in pixels, however the page is turned or cut."""
    import pypdfium2.raw

    x0, bottom, right, top = box
    xs, ys = [], []
    for corner in ((x0, bottom), (right, top)):
        x, y = ctypes.c_int(), ctypes.c_int()
        fine = (side * _SUBPIXELS for side in size)
        pypdfium2.raw.FPDF_PageToDevice(page.raw, 0, 0, *fine, 0, *corner, x, y)
        xs.append(x.value / _SUBPIXELS)
        ys.append(y.value / _SUBPIXELS)
    return PictureBox(min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys))


_SUBPIXELS = 16
"""parts of a pixel, since PDFium gives whole numbers"""


def _join_line_boxes(boxes: Sequence[PictureBox]) -> list[PictureBox]:
    """Boxes of letters that follow each other on one line, as one box."""
    lines: list[PictureBox] = []
    for box in boxes:
        if lines and _is_next_on_line(lines[-1], box):
            lines[-1] = _join_boxes(lines[-1], box)
        else:
            lines.append(box)
    return lines


def _is_next_on_line(line: PictureBox, box: PictureBox) -> bool:
    low, high = max(line.y, box.y), min(line.y + line.height, box.y + box.height)
    gap = box.x - (line.x + line.width)
    tall = max(line.height, box.height)
    return high - low > 0.5 * min(line.height, box.height) and -0.5 * tall < gap < tall


def _join_boxes(one: PictureBox, two: PictureBox) -> PictureBox:
    x, y = min(one.x, two.x), min(one.y, two.y)
    right = max(one.x + one.width, two.x + two.width)
    bottom = max(one.y + one.height, two.y + two.height)
    return PictureBox(x, y, right - x, bottom - y)


def _encode_png(bitmap: Any) -> bytes:
    """Return the picture as a PNG file (RFC 2083): red, green and blue, without filters."""
    data, width = bytes(bitmap.buffer), bitmap.width
    size, step = bitmap.n_channels, bitmap.stride
    rows = []
    for top in range(0, step * bitmap.height, step):
        row = data[top : top + size * width]
        rows.append(b"\0" + (row if size == 3 else _drop_fourth_channel(row)))
    head = struct.pack(">IIBBBBB", width, bitmap.height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(rows), 6)
    chunks = ((b"IHDR", head), (b"IDAT", body), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_make_png_chunk(*chunk) for chunk in chunks)


def _drop_fourth_channel(row: bytes) -> bytes:
    kept = bytearray(len(row) // 4 * 3)
    for channel in range(3):
        kept[channel::3] = row[channel::4]
    return bytes(kept)


def _make_png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

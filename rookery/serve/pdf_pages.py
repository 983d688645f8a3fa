"""A page of a PDF as a picture, and where on it words of its text stand.

PDFium is not made for threads, and a file may bring it down: it works in a process of its own,
with limits. Boxes are given only where the letters of the file are, one by one, those of the stored
text. It knows nothing of where files come from, nor of who looks at them.
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

from rookery.records import Failed, Failure, Page

WIDE = 1240
"""pixels of a picture's longer side, at most, times two: letters stay sharp on every screen"""
SECONDS = 20
"""of a processor, to draw one page"""
MEMORY = 768 * 2**20
"""bytes that drawing may use"""
AT_ONCE = 2
"""pages that are drawn at the same time; others wait"""
# PDFium writes these two where a word was divided at the end of a line; a stored text has neither.
_DIVIDED = "\ufffe\x02"

Span = tuple[int, int]


class Box(msgspec.Struct, frozen=True, array_like=True):
    """A part of a line, in pixels of the picture."""

    x: float
    y: float
    width: float
    height: float


class Drawn(msgspec.Struct, frozen=True, array_like=True):
    """One page."""

    width: int
    height: int
    """pixels"""
    boxes: tuple[Box, ...] = ()
    located: bool = False
    """whether the letters on the page are those of the stored text; otherwise there are no boxes"""
    png: bytes = b""


class Job(msgspec.Struct, frozen=True, array_like=True):
    """What is to be drawn: the picture of a page, or boxes."""

    pdf: bytes
    number: int
    """of the page, from 1"""
    text: str
    """that stands on it"""
    span: Span = (0, 0)
    """of the text, round which the boxes are"""
    picture: bool = False


class Sheet(msgspec.Struct, frozen=True):
    """What stands on one page of the PDF: text[start:end] of the stored page."""

    number: int
    start: int
    end: int


def sheets(page: Page) -> list[Sheet]:
    """The pages of a PDF; none, where it is none."""
    return [
        Sheet(int(mark.value), mark.start, mark.end)
        for mark in page.marks
        if mark.kind == "page" and mark.value.isascii() and mark.value.isdigit()
    ]


def marking(pdf: bytes, page: Page, sheet: Sheet, span: Span) -> Job:
    """To find where the words of page.text[span] stand that are on this sheet."""
    low, high = max(span[0], sheet.start), min(span[1], sheet.end)
    inside = (low - sheet.start, high - sheet.start) if low < high else (0, 0)
    return Job(pdf, sheet.number, page.text[sheet.start : sheet.end], inside)


class Drawing:
    """Draws pages of PDFs, a few at a time."""

    def __init__(self) -> None:
        self._turn = threading.Semaphore(AT_ONCE)

    def picture(self, pdf: bytes, page: Page, sheet: Sheet) -> Drawn:
        """The sheet as a PNG; none, where other words stand on it. Raises Failed (not_drawn)."""
        text = page.text[sheet.start : sheet.end]
        return self._drawn(Job(pdf, sheet.number, text, picture=True))

    def boxes(self, pdf: bytes, page: Page, sheet: Sheet, span: Span) -> Drawn:
        """Where the words of page.text[span] stand that are on this sheet. Raises Failed."""
        return self._drawn(marking(pdf, page, sheet, span))

    def _drawn(self, job: Job) -> Drawn:
        said = msgspec.msgpack.encode(msgspec.structs.replace(job, text=_sendable(job.text)))
        try:
            with self._turn:
                done = subprocess.run(
                    [sys.executable, "-c", _DRAW, repr(sys.path)],
                    input=said,
                    capture_output=True,
                    timeout=3 * SECONDS,
                    check=True,
                )
            return msgspec.msgpack.decode(done.stdout, type=Drawn)
        except (subprocess.SubprocessError, OSError, msgspec.MsgspecError) as error:
            detail = "this page of the PDF cannot be drawn: read its text instead"
            raise Failed(Failure(f"page {job.number}", "not_drawn", detail)) from error


_DRAW = (
    "import ast, sys; sys.path[:] = ast.literal_eval(sys.argv[1]); "
    "from rookery.serve.pdf_pages import draw; draw()"
)


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def draw() -> None:
    """The life of a drawing process: a job comes in, what was drawn goes out."""
    import resource

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Job)
    sys.stdout.buffer.write(msgspec.msgpack.encode(drawn(job)))


def drawn(job: Job) -> Drawn:
    """The same in this very process, by one thread at a time and with no limits."""
    import pypdfium2

    document = pypdfium2.PdfDocument(job.pdf)
    page = document[job.number - 1]
    size = page.get_size()
    scale = min(2.0, 2 * WIDE / max(size))
    width, height = (max(1, round(side * scale)) for side in size)
    letters = _letters(page, job)
    if letters is None:
        return Drawn(width, height)
    if job.picture:
        bitmap = page.render(scale=scale, rev_byteorder=True, may_draw_forms=False)
        return Drawn(bitmap.width, bitmap.height, located=True, png=_png(bitmap))
    boxes = [_box(page, (width, height), box) for box in letters]
    return Drawn(width, height, tuple(_lines(boxes)), True)


def _letters(page: Any, job: Job) -> list[tuple[float, ...]] | None:
    """The boxes of the letters of text[span], in points; None where the page has other letters."""
    import pypdfium2.raw

    shown = page.get_textpage()
    codes = [pypdfium2.raw.FPDFText_GetUnicode(shown.raw, n) for n in range(shown.count_chars())]
    there = [(n, code) for n, code in enumerate(codes) if not _is_gap(code)]
    wanted = [(at, unit) for at, unit in _units(job.text) if not _is_gap(unit)]
    said = [unit for _, unit in wanted]
    if [unit for _, unit in _halves(there)] != said:
        # What lies outside the visible part of the page is not read.
        edges = page.get_bbox()
        there = [(n, code) for n, code in there if _meet(edges, shown.get_charbox(n))]
        if [unit for _, unit in _halves(there)] != said:
            return None
    low, high = job.span
    pairs = zip(_halves(there), wanted, strict=True)
    found = dict.fromkeys(n for (n, _), (at, _) in pairs if low <= at < high)
    return [_letter(shown, n) for n in found]


def _letter(shown: Any, n: int) -> tuple[float, ...]:
    """As high as the line, but not a hair wider than the letter: the next one is not marked."""
    tight, loose = shown.get_charbox(n), shown.get_charbox(n, loose=True)
    return tight[0], min(tight[1], loose[1]), tight[2], max(tight[3], loose[3])


def _meet(one: Sequence[float], two: Sequence[float]) -> bool:
    beside = one[0] <= two[2] and two[0] <= one[2]
    return beside and one[1] <= two[3] and two[1] <= one[3]


def _is_gap(code: int) -> bool:
    return code == 0 or chr(code).isspace() or chr(code) in _DIVIDED


def _halves(letters: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Letters as units of UTF-16, as which PDFium may give them or not."""
    for n, code in letters:
        yield from ((n, unit) for _, unit in _units(chr(code)))


def _units(text: str) -> Iterator[tuple[int, int]]:
    for at, letter in enumerate(text):
        packed = letter.encode("utf-16-le", "surrogatepass")
        yield from ((at, unit) for unit in struct.unpack(f"<{len(packed) // 2}H", packed))


def _box(page: Any, size: tuple[int, int], box: tuple[float, ...]) -> Box:
    """A box in points as one in pixels, however the page is turned or cut."""
    import pypdfium2.raw

    left, bottom, right, top = box
    xs, ys = [], []
    for corner in ((left, bottom), (right, top)):
        x, y = ctypes.c_int(), ctypes.c_int()
        fine = (side * _FINE for side in size)
        pypdfium2.raw.FPDF_PageToDevice(page.raw, 0, 0, *fine, 0, *corner, x, y)
        xs.append(x.value / _FINE)
        ys.append(y.value / _FINE)
    return Box(min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys))


_FINE = 16
"""parts of a pixel, since PDFium gives whole numbers"""


def _lines(boxes: Sequence[Box]) -> Iterator[Box]:
    """Boxes of letters that follow each other on one line, as one box."""
    line: Box | None = None
    for box in boxes:
        if line is not None and _follows(line, box):
            line = _joined(line, box)
            continue
        if line is not None:
            yield line
        line = box
    if line is not None:
        yield line


def _follows(line: Box, box: Box) -> bool:
    low, high = max(line.y, box.y), min(line.y + line.height, box.y + box.height)
    gap = box.x - (line.x + line.width)
    tall = max(line.height, box.height)
    return high - low > 0.5 * min(line.height, box.height) and -0.5 * tall < gap < tall


def _joined(one: Box, two: Box) -> Box:
    x, y = min(one.x, two.x), min(one.y, two.y)
    right = max(one.x + one.width, two.x + two.width)
    bottom = max(one.y + one.height, two.y + two.height)
    return Box(x, y, right - x, bottom - y)


def _png(bitmap: Any) -> bytes:
    """The picture as a PNG file (RFC 2083): no colours but red, green and blue, no filters."""
    data, width = bytes(bitmap.buffer), bitmap.width
    size, step = bitmap.n_channels, bitmap.stride
    rows = []
    for top in range(0, step * bitmap.height, step):
        row = data[top : top + size * width]
        rows.append(b"\0" + (row if size == 3 else _without_fourth(row)))
    head = struct.pack(">IIBBBBB", width, bitmap.height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(rows), 6)
    parts = (_chunk(b"IHDR", head), _chunk(b"IDAT", body), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _without_fourth(row: bytes) -> bytes:
    kept = bytearray(len(row) // 4 * 3)
    for channel in range(3):
        kept[channel::3] = row[channel::4]
    return bytes(kept)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

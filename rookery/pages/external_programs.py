"""Read files with programs where they are installed: mandoc for man pages, Tesseract for pictures.

Only files of this machine are read so, and nothing from the web: programs cost time, and they are
no part of this package.
"""

import re
import shutil
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from typing import Any

import msgspec

from rookery.errors import Outcome
from rookery.pages.file_selection import PICTURE_ENDINGS
from rookery.pages.page_parts import (
    NOWHERE,
    PagePart,
    ReadLimits,
    build_read_error,
    check_size,
    join_parts,
    read_part,
)
from rookery.pages.pdf_documents import PDFIUM_LOCK
from rookery.pages.text_documents import read_text
from rookery.pages.text_encoding import decode_text
from rookery.records import Mark, Page

_FURNITURE = re.compile(
    r'<table class="(?:head|foot)">.*?</table>|<a class="permalink"[^>]*>(.*?)</a>', re.DOTALL
)
_MANUAL_TITLE = re.compile(r'<td class="head-ltitle">(.*?)</td>', re.DOTALL)
_MANUAL_SECONDS = 20.0
_MOST_LANGUAGES = 4
_DOTS_PER_INCH = 300
_MOST_PIXELS = 5000
"""of the longer side of a page that is drawn"""
_SURE = 50
"""percent of confidence that a page needs on average; below it are photographs"""
_BROKEN_WORD = re.compile(r"(?<=[^\W\d_])-\n(?=[a-zß-ÿ])")


def is_local(url: str) -> bool:
    """Tell whether a page is a file of this machine, which programs may read."""
    return url.startswith("file:")


def read_manual(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a man page, which may be compressed, as a Page.

    It is read by mandoc; where that is not installed, or the page is no file of this machine, as
    the text that it is written in. Raises Failed: malformed, too_large, timed_out,
    empty_after_extraction.
    """
    if data.startswith(b"\x1f\x8b"):
        data = _unpack_manual(data, limits)
    if not is_local(url) or shutil.which("mandoc") is None:
        return read_text(decode_text(data, "", False), url, fetched, "code")
    written = run_reader(("mandoc", "-T", "html", "-O", "fragment"), data, _MANUAL_SECONDS)
    html = written.decode("utf-8", "replace")
    title = _MANUAL_TITLE.search(html)
    body = _FURNITURE.sub(lambda match: match[1] or "", html)
    name = " ".join(title[1].split()) if title else ""
    return join_parts([PagePart(read_part(body, url, limits))], url, fetched, name, limits)


def _unpack_manual(data: bytes, limits: ReadLimits) -> bytes:
    unpacker = zlib.decompressobj(31)
    try:
        unpacked = unpacker.decompress(data, limits.bytes)
    except zlib.error as error:
        raise build_read_error(Outcome.MALFORMED, f"the file is damaged ({error})") from error
    check_size(len(unpacked) + len(unpacker.unconsumed_tail), limits.bytes, "bytes")
    return unpacked


def run_reader(command: Sequence[str], data: bytes, seconds: float) -> bytes:
    """Run a program, give it these bytes on its standard input, and return its standard output.

    It may take so many seconds, and runs in an empty folder, so that a page that includes other
    files finds none. An error code is passed over where there is output. Raises Failed: timed_out,
    malformed.
    """
    with tempfile.TemporaryDirectory() as empty:
        try:
            process = subprocess.run(
                command, input=data, capture_output=True, timeout=max(seconds, 0), cwd=empty
            )
        except subprocess.TimeoutExpired as error:
            detail = f"{command[0]} takes more than {seconds:.0f} s to read it"
            raise build_read_error(Outcome.TIMED_OUT, detail) from error
        except OSError as error:
            raise build_read_error(Outcome.MALFORMED, f"{command[0]}: {error.strerror}") from error
    if process.returncode and not process.stdout.strip():
        errors = process.stderr.decode("utf-8", "replace").strip().splitlines()
        why = errors[-1][:200] if errors else process.returncode
        raise build_read_error(Outcome.MALFORMED, f"{command[0]} cannot read it ({why})")
    return process.stdout


def read_picture(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return the text of a picture (PNG, JPEG, TIFF) that Tesseract reads, under a mark `ocr`.

    The pages of a TIFF have marks `page`. Raises Failed: unsupported_type where the picture is no
    file of this machine with the ending of a picture, or Tesseract is not installed; timed_out,
    malformed, empty_after_extraction.
    """
    named = url.lower().endswith(PICTURE_ENDINGS)  # not each nameless blob of a cache
    if not (named and is_local(url)) or shutil.which("tesseract") is None:
        detail = "a picture; text is read in .png, .jpg and .tif files where tesseract is installed"
        raise build_read_error(Outcome.UNSUPPORTED_TYPE, detail)
    pages = _recognize_text(data, limits.ocr_seconds)
    mark = "page" if len(pages) > 1 else ""
    numbered = enumerate(map(_build_read_page, pages), 1)
    parts = (PagePart(page, mark, str(number)) for number, page in numbered)
    return join_parts(parts, url, fetched, "", limits)


def recognize_pages(
    data: bytes, numbers: Iterable[int], url: str, limits: ReadLimits
) -> Iterator[tuple[int, list[str]]]:
    """Yield the paragraphs that Tesseract reads on pages of a PDF, which are drawn for it.

    `numbers` count from 0. Nothing is yielded of empty pages, nor where the PDF is no file of this
    machine or Tesseract is not installed. Raises Failed: timed_out, malformed.
    """
    if not is_local(url) or shutil.which("tesseract") is None:
        return
    deadline = time.monotonic() + limits.ocr_seconds
    for number, picture in _draw_pages(data, numbers):
        for lines in _recognize_text(picture, deadline - time.monotonic()):
            yield number, lines


def _draw_pages(data: bytes, numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Yield pages of a PDF as grey pictures (PGM), but for empty and damaged ones."""
    import pypdfium2
    from pypdfium2.raw import FPDFPage_CountObjects

    with PDFIUM_LOCK:
        document = pypdfium2.PdfDocument(data)
    try:
        for number in numbers:
            try:
                with PDFIUM_LOCK:
                    page = document[number]
                    if not FPDFPage_CountObjects(page):
                        continue
                    scale = min(_DOTS_PER_INCH / 72, _MOST_PIXELS / max(1.0, *page.get_size()))
                    pixels: Any = page.render(scale=scale, grayscale=True).to_numpy().copy()
                    page.close()
            except pypdfium2.PdfiumError:
                continue
            height, width = pixels.shape[:2]
            yield number, b"P5 %d %d 255\n" % (width, height) + pixels.tobytes()
    finally:
        with PDFIUM_LOCK:
            document.close()


def _recognize_text(picture: bytes, seconds: float) -> list[list[str]]:
    """Return the paragraphs of each page of a picture."""
    if seconds <= 0:
        detail = (
            "its pages are pictures, and reading them by OCR takes too long: let a program such as"
            " ocrmypdf write their text into the PDF"
        )
        raise build_read_error(Outcome.TIMED_OUT, detail)
    listed = run_reader(("tesseract", "--list-langs"), b"", 10).decode().split("\n")[1:]
    languages = [name for name in listed if name and name != "osd" and "/" not in name]
    chosen = "+".join(languages) if 0 < len(languages) <= _MOST_LANGUAGES else "eng"
    command = ("tesseract", "stdin", "stdout", "-l", chosen, "tsv")
    table = run_reader(command, picture, seconds).decode("utf-8", "replace")
    rows = [line.split("\t") for line in table.splitlines()[1:]]
    words = [row for row in rows if len(row) == 12 and row[0] == "5" and row[11].strip()]
    pages: dict[str, list[list[str]]] = {row[1]: [] for row in rows if len(row) == 12}
    for row in words:
        pages[row[1]].append(row)
    return [_join_words(page) for page in pages.values()]


def _join_words(words: list[list[str]]) -> list[str]:
    """Return the paragraphs of one page, given the rows of its words; none if hardly legible."""
    if not words or sum(float(row[10]) for row in words) < _SURE * len(words):
        return []
    paragraphs = list[str]()
    for _, paragraph in groupby(words, lambda row: row[1:4]):
        lines = groupby(paragraph, lambda row: row[4])
        text = "\n".join(" ".join(row[11].strip() for row in line) for _, line in lines)
        paragraphs.append(_BROKEN_WORD.sub("", text).replace("\n", " "))
    return paragraphs


def _build_read_page(paragraphs: list[str]) -> Page:
    html = "".join(f"<p>{escape(text)}</p>" for text in paragraphs)
    page = read_part(html, NOWHERE, ReadLimits())
    return msgspec.structs.replace(page, marks=(Mark(0, len(page.text), "ocr"),))

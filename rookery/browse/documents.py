"""PDF, DOCX, Markdown and plain text to Pages. Knows nothing of networks or of HTML articles."""

import io
import re
import threading
import time
import zipfile
from collections.abc import Iterator
from typing import Any

from rookery.browse.assemble import page_of
from rookery.browse.html import read_html
from rookery.browse.limits import ReadLimits, failed
from rookery.records import Block, Mark, Page

_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"""^title:[ \t]*["']?(.+?)["']?[ \t]*$""", re.MULTILINE)
_SENTENCE_END = re.compile(r"""[.!?:;]["'”’)\]]*$""")
_CORE_TITLE = re.compile(rb"<dc:title[^>]*>([^<]*)</dc:title>")
_UNDERLINED = re.compile(
    r"\s*(?P<heading>[^\s](?:[^\n]*[^\s])?)[ \t]*\n(?P<line>(?P<mark>[=~^+\"-])(?P=mark){2,})"
    r"[ \t]*(?:\n|\Z|$)"
)
_PASSWORD = 4
# PDFium keeps state of its own for the whole process: two threads in it are a segmentation fault.
_IN_PDFIUM = threading.Lock()
_TITLE = 200


def read_text(text: str, url: str, fetched: str = "") -> Page:
    """Plain text as it is, line breaks made one kind; blank lines divide its paragraphs."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    blocks = tuple(_paragraphs(text))
    if not blocks:
        raise failed(url, "empty_after_extraction", "the file holds only white space")
    title = text[blocks[0].start : blocks[0].end].split("\n", 1)[0][:_TITLE].strip()
    return Page(url=url, title=title, text=text, blocks=blocks, fetched=fetched)


def _paragraphs(text: str) -> Iterator[Block]:
    start = 0
    levels: dict[str, int] = {}
    for gap in re.finditer(r"\n[^\S\n]*(?:\n[^\S\n]*)+|\Z", text):
        if underlined := _UNDERLINED.match(text, start, gap.start()):
            # Which mark underlines which level is the file's choice: the first seen is the highest.
            level = levels.setdefault(underlined["mark"], min(6, len(levels) + 1))
            yield Block(*underlined.span("heading"), "heading", level)
            yield Block(*underlined.span("line"), "paragraph", article=False)
            start = underlined.end()
        kept = text[start : gap.start()].strip()
        if kept:
            begin = text.index(kept[0], start)
            yield Block(begin, begin + len(kept), "paragraph")
        start = gap.end()


def read_markdown(text: str, url: str, fetched: str, limits: ReadLimits) -> Page:
    """CommonMark with tables, through the HTML reader; a front matter is kept as hidden text."""
    from markdown_it import MarkdownIt

    if len(text) > limits.markdown:
        raise failed(url, "too_large", f"Markdown of more than {limits.markdown:,} characters")
    text = text.replace("\r\n", "\n").lstrip("\ufeff")
    front = _FRONT.match(text)
    title = ""
    if front:
        found = _FRONT_TITLE.search(front[1])
        title = found[1] if found else ""
        text = text[front.end() :]
    html = MarkdownIt("commonmark").enable("table").render(text)
    hidden = f"<div hidden>{_escaped(front[1])}</div>" if front else ""
    return _whole(html + hidden, url, fetched, title)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _whole(html: str, url: str, fetched: str, title: str) -> Page:
    """A page all of which is article: documents carry no navigation."""
    tree = read_html(html)
    tree.title = title or tree.title
    page = page_of(tree, url, fetched, whole=True)
    if not any(page.full()):
        raise failed(url, "empty_after_extraction", "the document holds no text")
    if page.title:
        return page
    first = next(page.full())
    title = page.text[first.start : first.end].split("\n", 1)[0][:_TITLE]
    return Page(url, title, page.text, page.blocks, page.links, page.marks, page.digest, fetched)


def read_docx(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """A Word document through mammoth, its archive checked before it is handed over."""
    import mammoth

    parts = _checked_parts(data, url, limits)
    without_pictures = mammoth.images.img_element(lambda image: {"src": ""})
    try:
        html = mammoth.convert_to_html(
            io.BytesIO(_archive(parts)), convert_image=without_pictures
        ).value
    # Mammoth has no exception of its own: what a damaged document raises is up to its parts.
    except (KeyError, ValueError, AttributeError, IndexError, TypeError, RecursionError) as error:
        raise failed(url, "malformed", f"the document cannot be read ({error!r})") from error
    except _xml_errors() as error:
        raise failed(url, "malformed", f"the document's XML is damaged ({error})") from error
    found = _CORE_TITLE.search(parts.get("docProps/core.xml", b""))
    return _whole(html, url, fetched, found[1].decode("utf-8", "replace").strip() if found else "")


def _xml_errors() -> tuple[type[Exception], ...]:
    from xml.parsers.expat import ExpatError
    from xml.sax import SAXException

    return (ExpatError, SAXException)


def _checked_parts(data: bytes, url: str, limits: ReadLimits) -> dict[str, bytes]:
    """The XML parts of a document, decompressed within the limits whatever the archive declares."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [info for info in archive.infolist() if _is_xml(info.filename)]
            if sum(info.file_size for info in members) > limits.docx_xml:
                raise failed(url, "too_large", "the document declares too much text")
            if any(info.flag_bits & 1 for info in members):
                raise failed(url, "encrypted", "the document's archive needs a password")
            return _decompressed(archive, members, url, limits)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, _zlib_error()) as error:
        raise failed(url, "malformed", f"the document's archive is damaged ({error})") from error


def _zlib_error() -> type[Exception]:
    import zlib

    return zlib.error


def _decompressed(
    archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], url: str, limits: ReadLimits
) -> dict[str, bytes]:
    rest = limits.docx_xml
    parts: dict[str, bytes] = {}
    for info in members:
        with archive.open(info) as member:
            parts[info.filename] = member.read(rest + 1)
        rest -= len(parts[info.filename])
        if rest < 0:
            raise failed(url, "too_large", f"more than {limits.docx_xml:,} bytes of text")
        if b"<!DOCTYPE" in parts[info.filename] or b"<!ENTITY" in parts[info.filename]:
            raise failed(url, "malformed", "the document's XML declares entities")
    return parts


def _is_xml(name: str) -> bool:
    return name.endswith((".xml", ".rels"))


def _archive(parts: dict[str, bytes]) -> bytes:
    """A fresh archive of these parts, so that nothing unchecked is read."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


def read_pdf(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """The text of a PDF; a mark "page" spans what stands on each page. Threads take turns."""
    with _IN_PDFIUM:
        return _read_pdf(data, url, fetched, limits)


def _read_pdf(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == _PASSWORD or "password" in str(error).lower():
            raise failed(url, "encrypted", "the PDF needs a password") from error
        raise failed(url, "malformed", f"the PDF cannot be opened ({error})") from error
    try:
        if len(document) > limits.pdf_pages:
            raise failed(url, "too_large", f"a PDF of {len(document):,} pages")
        writer = _PdfWriter()
        for number, lines in enumerate(_pdf_pages(document, url, limits), 1):
            writer.add_page(number, lines)
        title = str(document.get_metadata_value("Title") or "").strip()
    finally:
        document.close()
    if not writer.blocks:
        raise failed(url, "empty_after_extraction", "no text in the PDF: its pages are pictures")
    text = "".join(writer.out)
    first = writer.blocks[0]
    return Page(
        url=url,
        title=title or writer.first_line or text[first.start : first.end][:_TITLE],
        text=text,
        blocks=tuple(writer.blocks),
        marks=tuple(writer.marks),
        fetched=fetched,
    )


def _pdf_pages(document: Any, url: str, limits: ReadLimits) -> Iterator[list[str]]:
    import pypdfium2

    rest = limits.characters
    deadline = time.monotonic() + limits.seconds
    for number in range(len(document)):
        if time.monotonic() > deadline:
            raise failed(url, "too_large", f"the PDF takes more than {limits.seconds:g} seconds")
        try:
            page = document[number]
            text = page.get_textpage().get_text_bounded()
            page.close()
        except pypdfium2.PdfiumError:
            # One damaged page costs itself, not the document; its mark stays empty.
            text = ""
        rest -= len(text)
        if rest < 0:
            raise failed(url, "too_large", f"more than {limits.characters:,} characters")
        yield _pdf_lines(text)


def _pdf_lines(text: str) -> list[str]:
    # The library writes these two where a word was divided at the end of a line.
    joined = re.sub("[\ufffe\x02]\r?\n?", "", text)
    return [line.strip() for line in joined.replace("\r\n", "\n").replace("\r", "\n").split("\n")]


class _PdfWriter:
    """Lines of pages to paragraphs of one text."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.at = 0
        self.blocks: list[Block] = []
        self.marks: list[Mark] = []
        self.first_line = ""

    def add_page(self, number: int, lines: list[str]) -> None:
        first = len(self.blocks)
        widest = max(map(len, lines), default=0)
        paragraph: list[str] = []
        for line in lines:
            if line:
                self.first_line = self.first_line or line[:_TITLE]
                paragraph.append(line)
            if not line or (len(line) < 0.75 * widest and _SENTENCE_END.search(line)):
                self.add(" ".join(paragraph))
                paragraph = []
        self.add(" ".join(paragraph))
        start = self.blocks[first].start if len(self.blocks) > first else self.at
        self.marks.append(Mark(start, self.at, "page", str(number)))

    def add(self, paragraph: str) -> None:
        if paragraph:
            separator = "\n\n" if self.at else ""
            self.out += (separator, paragraph)
            self.at += len(separator) + len(paragraph)
            self.blocks.append(Block(self.at - len(paragraph), self.at, "paragraph"))

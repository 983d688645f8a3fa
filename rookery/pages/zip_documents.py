"""Read documents that are zip archives: DOCX, PPTX, XLSX, the formats of LibreOffice, and EPUB.

Parts are unpacked within limits, whatever an archive declares. Rows of a spreadsheet are kept
sparse: a reader that lays them out in memory is ended by two cells far apart.
"""

import io
import math
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from html import escape
from urllib.parse import quote, unquote, urldefrag
from xml.etree.ElementTree import Element

import msgspec

from rookery.errors import Outcome
from rookery.pages.page_parts import (
    NOWHERE,
    PagePart,
    ReadLimits,
    build_read_error,
    build_sparse_table,
    build_table,
    check_size,
    join_parts,
    read_part,
)
from rookery.pages.text_encoding import decode_text
from rookery.pages.xml_documents import parse_xml, rewrite_xhtml
from rookery.records import Link, Page


class DocumentArchive:
    """The parts of a document by name. Raises Failed: malformed, and see `read_part`."""

    def __init__(self, data: bytes, limits: ReadLimits) -> None:
        self.limits = limits
        self._rest = limits.unpacked_bytes
        with self._word_damage():
            self._archive = zipfile.ZipFile(io.BytesIO(data))
            self.names = frozenset(self._archive.namelist())

    @contextmanager
    def _word_damage(self) -> Iterator[None]:
        try:
            yield
        # The zip module raises the last two for names and fields that make no sense.
        except (
            zipfile.BadZipFile, NotImplementedError, EOFError, OSError, zlib.error, ValueError,
            IndexError,
        ) as error:  # fmt: skip
            detail = f"the document's archive is damaged ({error})"
            raise build_read_error(Outcome.MALFORMED, detail) from error

    def read_part(self, name: str) -> bytes:
        """Return the content of a part; nothing where there is none.

        Raises Failed: too_large where all that was read is more than the limit, encrypted,
        malformed.
        """
        with self._word_damage():
            if name not in self.names:
                return b""
            info = self._archive.getinfo(name)
            if info.flag_bits & 1:
                raise build_read_error(Outcome.ENCRYPTED, "the document's archive needs a password")
            content = b""
            if info.file_size <= self._rest:
                with self._archive.open(info) as part:
                    content = part.read(self._rest + 1)
            self._rest -= max(info.file_size, len(content))
            most = self.limits.unpacked_bytes
            check_size(most - self._rest, most, "bytes of text")
            return content

    def parse_part(self, name: str) -> Element:
        """Return the root element of a part that is XML; one without a name where there is none."""
        content = self.read_part(name)
        return parse_xml(content, self.limits) if content else Element("")

    def find_main_part(self, usual: str) -> str:
        """Return the name of the part that an Office document starts from, else `usual`."""
        named = dict(reversed(self.read_relations("").values()))
        return named.get("officeDocument", usual)

    def read_relations(self, name: str) -> dict[str, tuple[str, str]]:
        """Return what a part of an Office document refers to: by id, the last word of the type and
        the name of the other part, or an address."""
        folder, _, file = name.rpartition("/")
        root = self.parse_part(f"{folder}/_rels/{file}.rels" if folder else f"_rels/{file}.rels")
        relations = dict[str, tuple[str, str]]()
        for one in root:
            target = one.get("Target", "")
            if one.get("TargetMode") != "External":
                target = join_part_name(folder, target)
            relations[one.get("Id", "")] = (one.get("Type", "").rpartition("/")[2], target)
        return relations


def join_part_name(folder: str, target: str) -> str:
    """Return the name in the archive of what a part in `folder` refers to as `target`."""
    return posixpath.normpath(posixpath.join("/", folder, unquote(target)))[1:]


_MOST_REPEATED = 1000
"""times that a cell or row of a text document is repeated, at most"""


def read_core_title(archive: DocumentArchive) -> str:
    """Return the title that an Office document gives itself; empty where it has none."""
    return (archive.parse_part("docProps/core.xml").findtext("dc.title") or "").strip()


def read_docx(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a Word document as a Page, without its pictures.

    Its archive is checked before mammoth reads it. Raises Failed: too_large, encrypted, malformed,
    empty_after_extraction.
    """
    import mammoth

    archive = DocumentArchive(data, limits)
    names = (name for name in sorted(archive.names) if name.endswith((".xml", ".rels")))
    parts = {name: archive.read_part(name) for name in names}
    if any(b"<!DOCTYPE" in part or b"<!ENTITY" in part for part in parts.values()):
        raise build_read_error(Outcome.MALFORMED, "the document's XML declares entities")
    without_pictures = mammoth.images.img_element(lambda image: {"src": ""})
    try:
        checked = io.BytesIO(_build_archive(parts))
        html = mammoth.convert_to_html(checked, convert_image=without_pictures).value
    except MemoryError:
        raise
    # Mammoth has no exception of its own: what a damaged document raises is up to its parts.
    except Exception as error:
        detail = f"the document cannot be read ({error!r})"[:300]
        raise build_read_error(Outcome.MALFORMED, detail) from error
    title = read_core_title(DocumentArchive(data, limits))
    return join_parts([PagePart(read_part(html, url, limits))], url, fetched, title, limits)


def _build_archive(parts: dict[str, bytes]) -> bytes:
    """Return a fresh archive of these parts, so that nothing unchecked is read."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


def read_pptx(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a PowerPoint presentation as a Page: titles of slides as headings, a mark `slide` over
    each, its notes behind it.

    Raises Failed: malformed, encrypted, too_large, empty_after_extraction.
    """
    archive = DocumentArchive(data, limits)
    return join_parts(_read_pptx_slides(archive), url, fetched, read_core_title(archive), limits)


def _read_pptx_slides(archive: DocumentArchive) -> Iterator[PagePart]:
    main = archive.find_main_part("ppt/presentation.xml")
    relations = archive.read_relations(main)
    slides = archive.parse_part(main).iterfind("p.sldIdLst/p.sldId")
    for number, slide in enumerate(slides, 1):
        _, name = relations.get(slide.get("r.id", ""), ("", ""))
        slide_tree = archive.parse_part(name)
        if not slide_tree.tag:
            continue
        parts = archive.read_relations(name)
        links = {key: target for key, (kind, target) in parts.items() if kind == "hyperlink"}
        html = "".join(_read_shapes(slide_tree.find("p.cSld/p.spTree"), links))
        for kind, target in parts.values():
            if kind == "notesSlide":
                notes = archive.parse_part(target)
                html += "".join(_read_shapes(notes.find("p.cSld/p.spTree"), {}))
        yield PagePart(read_part(html, NOWHERE, archive.limits), "slide", str(number))


def _read_shapes(tree: Element | None, links: dict[str, str]) -> Iterator[str]:
    """Yield the HTML of the shapes of a slide in their order; those of a group are its own."""
    for shape in () if tree is None else tree:
        if shape.tag == "p.sp":
            yield _read_text_shape(shape, links)
        elif shape.tag == "p.grpSp":
            yield from _read_shapes(shape, links)
        elif shape.tag == "?.AlternateContent":  # one shape, written for several programs
            yield from _read_shapes(next(iter(shape), None), links)
        elif shape.tag == "p.graphicFrame":
            yield from (_read_table(table, links) for table in shape.iter("a.tbl"))


def _read_table(table: Element, links: dict[str, str]) -> str:
    rows = (row.iterfind("a.tc") for row in table.iterfind("a.tr"))
    properties = table.find("a.tblPr")
    headed = properties is not None and properties.get("firstRow") in ("1", "true")
    return build_table(([_read_cell(cell, links) for cell in row] for row in rows), headed)


def _read_cell(cell: Element, links: dict[str, str]) -> str:
    return "<br>".join(_read_runs(line, links) for line in cell.iterfind("a.txBody/a.p"))


def _read_text_shape(shape: Element, links: dict[str, str]) -> str:
    place = shape.find("p.nvSpPr/p.nvPr/p.ph")
    kind = "" if place is None else place.get("type", "body")
    if kind in ("dt", "ftr", "hdr", "sldNum", "sldImg"):
        return ""
    written = ((line, _read_runs(line, links)) for line in shape.iterfind("p.txBody/a.p"))
    lines = [(_get_level(line), text) for line, text in written if text]
    if kind in ("title", "ctrTitle"):
        return f"<h2>{' '.join(text for _, text in lines)}</h2>"
    if kind == "body" and len(lines) > 1:
        return _build_list(lines)
    return "".join(f"<p>{text}</p>" for _, text in lines)


def _get_level(line: Element) -> int:
    properties = line.find("a.pPr")
    level = "0" if properties is None else properties.get("lvl", "0")
    return min(int(level), 8) if level.isdecimal() else 0


def _build_list(items: Iterable[tuple[int, str]]) -> str:
    """Return the HTML of a list of (depth, text)."""
    html, depth = list[str](), -1
    for level, text in items:
        html += ("<ul>" * (level - depth), "</ul>" * (depth - level), f"<li>{text}")
        depth = level
    return "".join((*html, "</ul>" * (depth + 1)))


def _read_runs(line: Element, links: dict[str, str]) -> str:
    """Return the HTML of a paragraph of a slide."""
    html = list[str]()
    for run in line:
        if run.tag == "a.br":
            html.append("<br>")
        text = escape(run.findtext("a.t") or "")
        link = run.find("a.rPr/a.hlinkClick")
        target = "" if link is None else links.get(link.get("r.id", ""), "")
        html.append(f'<a href="{escape(target)}">{text}</a>' if target else text)
    return "".join(html)


def read_open_document(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a text document, presentation or spreadsheet in the format of LibreOffice as a Page.

    A mark `slide` is over each slide, a mark `sheet` over each sheet. Changes that are tracked,
    comments and tables of contents are left out; footnotes follow the text. Raises Failed:
    malformed, encrypted, too_large, empty_after_extraction.
    """
    archive = DocumentArchive(data, limits)
    if b"encryption-data" in archive.read_part("META-INF/manifest.xml"):
        raise build_read_error(Outcome.ENCRYPTED, "the document needs a password")
    meta, content = archive.parse_part("meta.xml"), archive.parse_part("content.xml")
    title, body = meta.findtext("office.meta/dc.title") or "", content.find("office.body")
    if body is None:
        raise build_read_error(Outcome.MALFORMED, "the archive holds no text of a document")
    return join_parts(_read_body(body, limits), url, fetched, title, limits)


def _read_body(body: Element, limits: ReadLimits) -> Iterator[PagePart]:
    writer = _OpenDocumentWriter(limits)
    for slide_number, slide in enumerate(body.iterfind("office.presentation/draw.page"), 1):
        html = writer.write_children(slide)
        yield PagePart(read_part(html, NOWHERE, limits), "slide", str(slide_number))
    for sheet in body.iterfind("office.spreadsheet/table.table"):
        name = sheet.get("table.name", "")
        table = writer.write_table(sheet, True)
        html = f"<h2>{escape(name)}</h2>{table}" if table else ""
        yield PagePart(read_part(html, NOWHERE, limits), "sheet", name)
    for text in body.iterfind("office.text"):
        html = writer.write_children(text) + "".join(writer.notes)
        yield PagePart(read_part(html, NOWHERE, limits))


_TEXT_HOLDERS = frozenset(("text.p", "text.h", "text.a", "text.span", "text.meta", "text.title"))
"""elements whose text is the document's; between other elements there is only white space"""
_LEFT_OUT = frozenset(
    "text.tracked-changes office.annotation text.table-of-content text.alphabetical-index"
    " text.sequence-decls text.variable-decls office.forms table.shapes draw.object".split()
)
_WRAPPED = {
    "text.p": ("<p>", "</p>"),
    "text.list": ("<ul>", "</ul>"),
    "text.list-item": ("<li>", "</li>"),
    "text.list-header": ("<li>", "</li>"),
    "text.line-break": ("<br>", ""),
    "text.tab": (" ", ""),
}


class _OpenDocumentWriter:
    """Writes the elements of a document of LibreOffice as HTML, and collects its footnotes."""

    def __init__(self, limits: ReadLimits) -> None:
        self.limits = limits
        self.notes: list[str] = []

    def write_children(self, element: Element) -> str:
        """Return the HTML of an element's text and children."""
        html = [escape(element.text or "")] if element.tag in _TEXT_HOLDERS else []
        for child in element:
            html.append(self._write(child))
            if element.tag in _TEXT_HOLDERS:
                html.append(escape(child.tail or ""))
        return "".join(html)

    def _write(self, element: Element) -> str:
        tag = element.tag
        if tag in _LEFT_OUT:
            return ""
        if tag == "text.note":
            number = element.findtext("text.note-citation") or ""
            body = element.find("text.note-body")
            text = "" if body is None else self.write_children(body)
            self.notes.append(f"<p>{escape(number)} {text.removeprefix('<p>')}")
            return ""
        if tag == "table.table":
            headed = element.find("table.table-header-rows") is not None
            return self.write_table(element, headed)
        if tag == "text.s":
            count = element.get("text.c", "1")
            return " " * (int(count) if count.isdecimal() and len(count) < 4 else 1)
        if tag == "draw.frame" and element.get("presentation.class") == "title":
            lines = ("".join(line.itertext()) for line in element.iter("text.p"))
            return f"<h2>{escape(' '.join(lines))}</h2>"
        inner = self.write_children(element)
        if tag == "text.h":
            level = element.get("text.outline-level", "1")
            return f"<h{level}>{inner}</h{level}>" if level in "123456" else f"<p>{inner}</p>"
        if tag == "text.a":
            return f'<a href="{escape(element.get("xlink.href", ""))}">{inner}</a>'
        start, end = _WRAPPED.get(tag, ("", ""))
        return f"{start}{inner}{end}"

    def write_table(self, table: Element, headed: bool) -> str:
        """Return the HTML of a table with the columns and rows that hold anything."""
        rows = list[dict[int, str]]()
        for row in _iter_rows(table):
            cells = dict[int, str]()
            column = 0
            for cell in row:
                text = self.write_children(cell) if cell.tag == "table.table-cell" else ""
                repeated = _get_repetition(cell, "columns")
                if text:
                    last = column + min(repeated, _MOST_REPEATED)
                    cells |= dict.fromkeys(range(column, last), text)
                column += repeated
            if cells:
                rows += [cells] * min(_get_repetition(row, "rows"), _MOST_REPEATED)
        return build_sparse_table(rows, headed, self.limits)


def _iter_rows(table: Element) -> Iterator[Element]:
    for child in table:
        if child.tag == "table.table-row":
            yield child
        elif child.tag in ("table.table-header-rows", "table.table-rows", "table.table-row-group"):
            yield from _iter_rows(child)


def _get_repetition(element: Element, what: str) -> int:
    count = element.get(f"table.number-{what}-repeated", "1")
    return int(count) if count.isdecimal() and len(count) < 9 else 1


_FORMATS = {
    9: "0%", 10: "0.00%", 14: "y-m-d", 15: "y-m-d", 16: "y-m-d", 17: "y-m-d", 18: "h:mm",
    19: "h:mm:ss", 20: "h:mm", 21: "h:mm:ss", 22: "y-m-d h:mm", 45: "h:mm:ss", 46: "[h]:mm:ss",
    47: "h:mm:ss",
}  # fmt: skip
"""the built-in number formats of percentages, dates and times, by their meaning"""
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE)
_COLUMN_LETTERS = re.compile(r"[A-Z]{1,3}")
_LAST_DATE = 2_958_466
"""days of the spreadsheet's calendar up to the end of the year 9999"""
_MOST_DECIMALS = 15


def read_xlsx(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return an Excel workbook as a Page: the name of each sheet as a heading, its first row as the
    names of the columns, a mark `sheet` over it.

    Percentages, dates (as in 2024-03-01) and times are written as such; other numbers without
    thousands separators and signs of money. Raises Failed: malformed, encrypted, too_large,
    empty_after_extraction.
    """
    archive = DocumentArchive(data, limits)
    return join_parts(_read_sheets(archive), url, fetched, read_core_title(archive), limits)


def _read_sheets(archive: DocumentArchive) -> Iterator[PagePart]:
    main = archive.find_main_part("xl/workbook.xml")
    relations = archive.read_relations(main)
    book = archive.parse_part(main)
    if not book.tag:
        raise build_read_error(Outcome.MALFORMED, "the archive holds no workbook")
    named = dict(relations.values())
    shared = archive.parse_part(named.get("sharedStrings", "")).iterfind("x.si")
    formats = _read_formats(archive.parse_part(named.get("styles", "")))
    properties = book.find("x.workbookPr")
    from_1904 = properties is not None and properties.get("date1904") in ("1", "true")
    values = _CellReader([_read_rich_text(item) for item in shared], formats, from_1904)
    for sheet in book.iterfind("x.sheets/x.sheet"):
        kind, part = relations.get(sheet.get("r.id", ""), ("", ""))
        if kind != "worksheet":
            continue
        rows = map(values.read_row, archive.parse_part(part).iterfind("x.sheetData/x.row"))
        name = sheet.get("name", "")
        table = build_sparse_table([row for row in map(dict, rows) if row], True, archive.limits)
        html = f"<h2>{escape(name)}</h2>{table}" if table else ""
        yield PagePart(read_part(html, NOWHERE, archive.limits), "sheet", name)


def _read_rich_text(item: Element) -> str:
    """Return the HTML of a cell's text, without its readings for East Asian scripts."""
    runs = (run for run in item if run.tag != "x.rPh")
    texts = (run.text if run.tag == "x.t" else run.findtext("x.t") for run in runs)
    return _escape_cell("".join(text or "" for text in texts))


def _escape_cell(text: str) -> str:
    return escape(text.strip()).replace("\n", "<br>")


def _read_formats(styles: Element) -> list[str]:
    """Return the number format of each cell style, where it is one of percentages, dates or times;
    empty for others."""
    named = styles.iterfind("x.numFmts/x.numFmt")
    own = {one.get("numFmtId", ""): one.get("formatCode", "") for one in named}
    formats = list[str]()
    for style in styles.iterfind("x.cellXfs/x.xf"):
        number = style.get("numFmtId", "0")
        builtin = _FORMATS.get(int(number), "") if number.isdecimal() and len(number) < 9 else ""
        code = _LITERAL.sub("", own[number]).split(";")[0].lower() if number in own else builtin
        formats.append(code if re.search("[%ydhs]|mm", code) and "general" not in code else "")
    return formats


class _CellReader:
    """Reads the cells of a workbook's rows as HTML; `texts` are those that cells share."""

    def __init__(self, texts: Sequence[str], formats: Sequence[str], from_1904: bool) -> None:
        self.texts = texts
        self.formats = formats
        self.from_1904 = from_1904

    def read_row(self, row: Element) -> Iterator[tuple[int, str]]:
        """Yield the column and the HTML of each cell that is not empty."""
        column = 0
        for cell in row.iterfind("x.c"):
            letters = _COLUMN_LETTERS.match(cell.get("r", ""))
            column = _number_column(letters[0]) if letters else column + 1
            if html := self._read_cell(cell):
                yield column, html

    def _read_cell(self, cell: Element) -> str:
        kind, value = cell.get("t", "n"), cell.findtext("x.v") or ""
        if kind == "inlineStr":
            inline = cell.find("x.is")
            return "" if inline is None else _read_rich_text(inline)
        if kind == "s":
            number = int(value) if value.isdecimal() and len(value) < 9 else -1
            return self.texts[number] if 0 <= number < len(self.texts) else ""
        if kind == "b":
            value = {"0": "FALSE", "1": "TRUE"}.get(value, value)
        if kind != "n":
            return _escape_cell(value)
        style = cell.get("s", "")
        number = int(style) if style.isdecimal() and len(style) < 9 else len(self.formats)
        code = self.formats[number] if number < len(self.formats) else ""
        return _escape_cell(_write_number(value, code, self.from_1904))


def _number_column(letters: str) -> int:
    column = 0
    for letter in letters:
        column = 26 * column + ord(letter) - ord("A") + 1
    return column


def _write_number(value: str, code: str, from_1904: bool) -> str:
    try:
        number = float(value)
    except ValueError:
        return value
    if not math.isfinite(number):
        return value
    if "%" in code:
        decimals = min(len(code.partition(".")[2].rstrip("% ")), _MOST_DECIMALS)
        return f"{100 * number:.{decimals}f}%"
    if code and 0 <= number < _LAST_DATE:
        return _write_date(number, code, from_1904)
    return f"{number:.15g}"


def _write_date(days: float, code: str, from_1904: bool) -> str:
    """Return a date, a time or both, in the order of ISO 8601; a duration in hours."""
    seconds = round(86_400 * days)
    if "[" in code:
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    # The calendar of Lotus 1-2-3 had a 29th of February 1900.
    start = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30 + (days < 60))
    moment = start + timedelta(seconds=seconds)
    timed = "h" in code or "s" in code
    dated = not timed or re.search("[yd]", code) is not None
    time = f"{moment:%H:%M:%S}" if "s" in code else f"{moment:%H:%M}"
    return " ".join([moment.date().isoformat()] * dated + [time] * timed)


_CONTAINER = "META-INF/container.xml"
_MOST_CHAPTERS = 5_000


def read_epub(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a book as a Page, with a mark `chapter` over each chapter that has a heading.

    Links between chapters lead to where the chapter begins. Raises Failed: malformed, encrypted
    (a book that only one shop's program opens), too_large, empty_after_extraction.
    """
    archive = DocumentArchive(data, limits)
    rootfile = next(archive.parse_part(_CONTAINER).iter("?.rootfile"), None)
    name = "" if rootfile is None else join_part_name("", rootfile.get("full-path", ""))
    package = archive.parse_part(name)
    if not package.tag:
        raise build_read_error(Outcome.MALFORMED, "the archive holds no list of a book's chapters")
    folder = name.rpartition("/")[0]
    items = [(item.get("id", ""), item) for item in package.iterfind("opf.manifest/opf.item")]
    files = {name: join_part_name(folder, item.get("href", "")) for name, item in items}
    spine = (one.get("idref", "") for one in package.iterfind("opf.spine/opf.itemref"))
    chapters = [files[name] for name in spine if name in files]
    if len(chapters) > _MOST_CHAPTERS:
        raise build_read_error(Outcome.TOO_LARGE, f"a book of {len(chapters):,} chapters")
    title = " ".join((package.findtext("opf.metadata/dc.title") or "").split())
    _refuse_encrypted(archive, chapters)
    return join_parts(_read_chapters(archive, chapters, url), url, fetched, title, limits)


def _refuse_encrypted(archive: DocumentArchive, chapters: list[str]) -> None:
    """Raise Failed if a chapter is encrypted; fonts of any book may be."""
    encryption = archive.parse_part("META-INF/encryption.xml")
    for reference in encryption.iter("enc.CipherReference"):
        if join_part_name("", reference.get("URI", "")) in chapters:
            detail = "the book is locked to the programs of the shop that sold it"
            raise build_read_error(Outcome.ENCRYPTED, detail)


def _read_chapters(archive: DocumentArchive, chapters: list[str], url: str) -> Iterator[PagePart]:
    chapter_names = frozenset(chapters)
    for name in dict.fromkeys(chapters):
        content = archive.read_part(name)
        if not content:
            continue
        html = rewrite_xhtml(decode_text(content))
        page = read_part(html, NOWHERE + quote(name), archive.limits)
        links = (_lead_to_chapter(link, url, chapter_names) for link in page.links)
        heading = next((one for one in page.iter_shown() if one.kind == "heading"), None)
        label = "" if heading is None else page.text[heading.start : heading.end]
        # Of a book without a title, the title is its first line and not that of its first part.
        page = msgspec.structs.replace(page, links=tuple(links), title="")
        yield PagePart(page, "chapter" if label else "", " ".join(label.split()), name)


def _lead_to_chapter(link: Link, url: str, chapters: frozenset[str]) -> Link:
    name = unquote(urldefrag(link.url).url.removeprefix(NOWHERE))
    if link.url.startswith(NOWHERE) and name in chapters:
        return msgspec.structs.replace(link, url=f"{urldefrag(url).url}#{quote(name)}")
    return link

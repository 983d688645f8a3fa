"""Read DOCX, PPTX and the formats of LibreOffice: text documents, slides and spreadsheets."""

import io
import zipfile
from collections.abc import Iterable, Iterator
from html import escape
from xml.etree.ElementTree import Element

from rookery.errors import Outcome
from rookery.pages.document_archive import DocumentArchive
from rookery.pages.page_parts import (
    NOWHERE,
    PagePart,
    build_sparse_table,
    build_table,
    join_parts,
    read_part,
)
from rookery.pages.text_documents import ReadLimits, build_read_error
from rookery.records import Page

_MOST_REPEATED = 1000
"""times that a cell or row of a text document is repeated, at most"""


def read_core_title(archive: DocumentArchive) -> str:
    """Return the title that an Office document gives itself; empty where it has none."""
    core = archive.parse_part("docProps/core.xml")
    return "" if core is None else (core.findtext("dc.title") or "").strip()


def read_docx(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a Word document as a Page, without its pictures.

    Its archive is checked before mammoth reads it. Raises Failed: too_large, encrypted, malformed,
    empty_after_extraction.
    """
    import mammoth

    archive = DocumentArchive(data, url, limits)
    parts = {
        name: archive.read_part(name)
        for name in sorted(archive.names)
        if name.endswith((".xml", ".rels"))
    }
    if any(b"<!DOCTYPE" in part or b"<!ENTITY" in part for part in parts.values()):
        raise build_read_error(url, Outcome.MALFORMED, "the document's XML declares entities")
    without_pictures = mammoth.images.img_element(lambda image: {"src": ""})
    try:
        html = mammoth.convert_to_html(
            io.BytesIO(_build_archive(parts)), convert_image=without_pictures
        ).value
    except MemoryError:
        raise
    # Mammoth has no exception of its own: what a damaged document raises is up to its parts.
    except Exception as error:
        raise build_read_error(
            url, Outcome.MALFORMED, f"the document cannot be read ({error!r})"[:300]
        ) from error
    core = DocumentArchive(data, url, limits)
    return join_parts(
        [PagePart(read_part(html, url, limits))], url, fetched, read_core_title(core), limits
    )


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
    archive = DocumentArchive(data, url, limits)
    return join_parts(_read_pptx_slides(archive), url, fetched, read_core_title(archive), limits)


def _read_pptx_slides(archive: DocumentArchive) -> Iterator[PagePart]:
    main = archive.find_main_part("ppt/presentation.xml")
    relations = archive.read_relations(main)
    root = archive.parse_part(main)
    slides = () if root is None else root.iterfind("p.sldIdLst/p.sldId")
    for number, slide in enumerate(slides, 1):
        _, name = relations.get(slide.get("r.id", ""), ("", ""))
        shown = archive.parse_part(name)
        if shown is None:
            continue
        parts = archive.read_relations(name)
        links = {key: target for key, (kind, target) in parts.items() if kind == "hyperlink"}
        html = "".join(_read_shapes(shown.find("p.cSld/p.spTree"), links))
        for kind, target in parts.values():
            notes = archive.parse_part(target) if kind == "notesSlide" else None
            if notes is not None:
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
            for table in shape.iter("a.tbl"):
                rows = (
                    [
                        "<br>".join(
                            _read_runs(line, links) for line in cell.iterfind("a.txBody/a.p")
                        )
                        for cell in row.iterfind("a.tc")
                    ]
                    for row in table.iterfind("a.tr")
                )
                properties = table.find("a.tblPr")
                yield build_table(
                    rows, properties is not None and properties.get("firstRow") in ("1", "true")
                )


def _read_text_shape(shape: Element, links: dict[str, str]) -> str:
    place = shape.find("p.nvSpPr/p.nvPr/p.ph")
    kind = "" if place is None else place.get("type", "body")
    if kind in ("dt", "ftr", "hdr", "sldNum", "sldImg"):
        return ""
    lines = [
        (_get_level(line), text)
        for line in shape.iterfind("p.txBody/a.p")
        if (text := _read_runs(line, links))
    ]
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
    archive = DocumentArchive(data, url, limits)
    if b"encryption-data" in archive.read_part("META-INF/manifest.xml"):
        raise build_read_error(url, Outcome.ENCRYPTED, "the document needs a password")
    meta, content = archive.parse_part("meta.xml"), archive.parse_part("content.xml")
    title = "" if meta is None else meta.findtext("office.meta/dc.title") or ""
    body = None if content is None else content.find("office.body")
    if body is None:
        raise build_read_error(url, Outcome.MALFORMED, "the archive holds no text of a document")
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

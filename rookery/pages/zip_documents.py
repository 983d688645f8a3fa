"""Read documents that are zip archives: PPTX, XLSX, the formats of LibreOffice, and EPUB.

Parts are unpacked within limits, whatever an archive declares. Rows of a spreadsheet are kept
sparse: a reader that lays them out in memory is ended by two cells far apart.
"""

import io
import math
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from html import escape
from urllib.parse import quote, unquote, urldefrag
from xml.etree.ElementTree import Element

import msgspec

from rookery.errors import Failed, Outcome
from rookery.pages.html.html_parser import format_list_number
from rookery.pages.page_parts import (
    NOWHERE,
    PagePart,
    ReadLimits,
    build_read_error,
    build_sparse_table,
    build_table,
    check_size,
    join_parts,
    read_labels,
    read_part,
)
from rookery.pages.text_encoding import decode_text
from rookery.pages.xml_documents import parse_xml, rewrite_xhtml, write_xhtml
from rookery.records import Link, Page

PageReader = Callable[..., Page]
"""reads a document of any kind, as `page_reader.read_page` does"""


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

        Raises Failed: too_large where all that was read so far, repeated reads included, is more
        than the limit; encrypted; malformed.
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
        """Return the root element of a part that is XML; one without a name where there is none.

        Raises Failed as `read_part` and `parse_xml` do.
        """
        content = self.read_part(name)
        return parse_xml(content, self.limits) if content else Element("")

    def find_main_part(self, usual: str) -> str:
        """Return the name of the part that an Office document starts from, else `usual`."""
        return dict(reversed(self.read_relations("").values())).get("officeDocument", usual)

    def read_relations(self, name: str) -> dict[str, tuple[str, str]]:
        """Return what a part of an Office document refers to, by id; empty where that is nothing.

        Each is the last word of the type, and the name of the other part or an address.
        """
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
_LONGEST_MERGED = 200
"""characters of a merged cell that stands in each row that it reaches into"""


def read_core_title(archive: DocumentArchive) -> str:
    """Return the title that an Office document gives itself, and not one that a program gives to
    all of its documents; empty where it has none."""
    title = (archive.parse_part("docProps/core.xml").findtext("dc.title") or "").strip()
    return "" if title == "Word Document" else title


def read_embedded_part(archive: DocumentArchive, name: str, reader: PageReader) -> Page:
    """Return the page of a document embedded in an archive under `name`, as `reader` reads it.

    All of it is article, and it has no title. Where it cannot be read, the page is one line that
    says so; no Failed is raised.
    """
    # What holds itself ends at the limit.
    most = archive.limits.unpacked_bytes // 2
    limits = msgspec.structs.replace(archive.limits, unpacked_bytes=most)
    try:
        mail = "message/rfc822" if name.lower().endswith((".mht", ".mhtml")) else ""
        page = reader(archive.read_part(name), f"file:///{quote(name)}", mail, limits=limits)
    except Failed as failed:
        file = name.rpartition("/")[2] or "without a name"
        return read_labels([f"An embedded part is not read: {file} ({failed.failure.detail})"])
    blocks = (msgspec.structs.replace(block, article=True) for block in page.blocks)
    return msgspec.structs.replace(page, blocks=tuple(blocks), title="")


def read_pptx(data: bytes, url: str, fetched: str, limits: ReadLimits, reader: PageReader) -> Page:
    """Return a PowerPoint presentation as a Page, with a mark `slide` over each slide.

    Titles of slides are headings. Embedded documents follow their slide, as `reader` reads them;
    one that cannot be read is a line that says so. What the audience does not see is hidden text:
    notes, behind their slide, shapes that lie beside it, and hidden slides, which have neither a
    mark nor embedded documents. Raises Failed: malformed, encrypted, too_large,
    empty_after_extraction.
    """
    archive = DocumentArchive(data, limits)
    slides = _read_pptx_slides(archive, reader)
    return join_parts(slides, url, fetched, read_core_title(archive), limits)


def _read_pptx_slides(archive: DocumentArchive, reader: PageReader) -> Iterator[PagePart]:
    main = archive.find_main_part("ppt/presentation.xml")
    relations, tree = archive.read_relations(main), archive.parse_part(main)
    edges = _list_numbers(tree.iterfind("p.sldSz"))
    for number, slide in enumerate(tree.iterfind("p.sldIdLst/p.sldId"), 1):
        _, name = relations.get(slide.get("r.id", ""), ("", ""))
        slide_tree = archive.parse_part(name)
        if not slide_tree.tag:
            continue
        parts, hidden = archive.read_relations(name), slide_tree.get("show") in ("0", "false")
        links = {key: target for key, (kind, target) in parts.items() if kind == "hyperlink"}
        html = "".join(_read_shapes(slide_tree.find("p.cSld/p.spTree"), links, edges))
        for kind, target in parts.values():
            if kind == "notesSlide":
                notes = archive.parse_part(target).find("p.cSld/p.spTree")
                html += "".join(("<div hidden>", *_read_shapes(notes, {}, []), "</div>"))
        html = f"<div hidden>{html}</div>" if hidden else html
        slide_page = read_part(html, NOWHERE, archive.limits)
        yield PagePart(slide_page, "slide" * (not hidden), str(number))
        for kind, target in parts.values():
            if kind in ("package", "oleObject", "chart", "diagramData") and not hidden:
                yield PagePart(read_embedded_part(archive, target, reader))


_WHOLE = re.compile(r"-?\d{1,12}")


def _list_numbers(place: Iterable[Element]) -> list[int]:
    """Return the whole numbers in the attributes of points and sizes, that along x first."""
    return [int(n) for one in place for _, n in sorted(one.items()) if _WHOLE.fullmatch(n)]


def _read_shapes(tree: Element | None, links: dict[str, str], edges: list[int]) -> Iterator[str]:
    """Yield the HTML of the shapes of a slide in their order; those of a group are its own.

    `edges` are the width and height of the slide; empty where shapes are placed otherwise.
    """
    for shape in () if tree is None else tree:
        places = (place for path in ("p.xfrm", "*/a.xfrm") for place in shape.iterfind(path))
        numbers = _list_numbers(next(places, ()))
        spans = zip(numbers, numbers[2:], edges, strict=False)
        unseen = any(at >= edge or at + own < 0 for at, own, edge in spans)
        unseen |= any(one.get("hidden") in ("1", "true") for one in shape.iterfind("*/p.cNvPr"))
        yield f"<div{' hidden' * unseen}>"
        if shape.tag == "p.sp":
            yield _read_text_shape(shape, links)
        elif shape.tag == "p.grpSp":
            yield from _read_shapes(shape, links, edges * (numbers[:4] == numbers[4:]))
        elif shape.tag == "?.AlternateContent":  # one shape, written for several programs
            yield from _read_shapes(next(iter(shape), None), links, edges)
        elif shape.tag == "p.graphicFrame":
            yield from (_read_table(table, links) for table in shape.iter("a.tbl"))
        yield "</div>"


def _read_table(table: Element, links: dict[str, str]) -> str:
    rows = (row.iterfind("a.tc") for row in table.iterfind("a.tr"))
    properties = table.find("a.tblPr")
    headed = properties is not None and properties.get("firstRow") in ("1", "true")
    return build_table(([_read_cell(cell, links) for cell in row] for row in rows), headed)


def _read_cell(cell: Element, links: dict[str, str]) -> str:
    text = "<br>".join(_read_runs(line, links) for line in cell.iterfind("a.txBody/a.p"))
    covered = {cell.get("hMerge"), cell.get("vMerge")} & {"1", "true"}
    return f"<div hidden>{text}</div>" if covered else text


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
    return 0 if properties is None else min(_get_count(properties, "lvl", 0), 8)


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
        if (properties := run.find("a.rPr")) is not None:
            text = _write_raised(text, properties.get("baseline", "0"))
            clear = ("a.noFill", "a.solidFill/*/a.alpha[@val='0']")
            unseen = any(properties.find(path) is not None for path in clear)
            struck = properties.get("strike", "noStrike") != "noStrike"
            if unseen or struck or properties.get("sz") == "100":
                text = f"<span hidden>{text}</span>"
        link = run.find("a.rPr/a.hlinkClick")
        target = "" if link is None else links.get(link.get("r.id", ""), "")
        html.append(f'<a href="{escape(target)}">{text}</a>' if target else text)
    return "".join(html)


def _write_raised(text: str, position: str) -> str:
    """Return HTML raised, or lowered, as a position says: "super", "30000", "-33% 58%"."""
    tag = "sub" if position.startswith(("-", "sub")) else "sup"
    return text if position.startswith(("0", "base")) or not position else f"<{tag}>{text}</{tag}>"


def read_open_document(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return a text document, presentation or spreadsheet in the format of LibreOffice as a Page.

    A mark `slide` is over each slide, a mark `sheet` over each sheet. Comments and tables of
    contents are left out, tracked deletions hidden; footnotes follow the text. Raises Failed:
    malformed, encrypted, too_large, empty_after_extraction.
    """
    archive = DocumentArchive(data, limits)
    if b"encryption-data" in archive.read_part("META-INF/manifest.xml"):
        raise build_read_error(Outcome.ENCRYPTED, "the document needs a password")
    meta, content = archive.parse_part("meta.xml"), archive.parse_part("content.xml")
    writer = _OpenDocumentWriter(archive, (archive.parse_part("styles.xml"), content))
    title, body = meta.findtext("office.meta/dc.title") or "", content.find("office.body")
    if body is None:
        raise build_read_error(Outcome.MALFORMED, "the archive holds no text of a document")
    return join_parts(_read_body(body, writer), url, fetched, title, limits)


def _read_body(body: Element, writer: "_OpenDocumentWriter") -> Iterator[PagePart]:
    limits = writer.archive.limits
    for number, slide in enumerate(body.iterfind("office.presentation/draw.page"), 1):
        html, hidden = writer.write_children(slide), writer.is_hidden(slide)
        html = f"<div hidden>{html}</div>" if hidden else html
        yield PagePart(read_part(html, NOWHERE, limits), "slide" * (not hidden), str(number))
    for sheet in body.iterfind("office.spreadsheet/table.table"):
        name, hidden = sheet.get("table.name", ""), writer.is_hidden(sheet)
        table = writer.write_table(sheet, True)
        yield PagePart(_read_sheet(name, table, hidden, limits), "sheet" * (not hidden), name)
    for text in body.iterfind("office.text"):
        html = writer.write_children(text) + "".join(writer.notes)
        yield PagePart(read_part(html, NOWHERE, limits))
    yield PagePart(read_labels(writer.unread))


def _read_sheet(name: str, table: str, hidden: bool, limits: ReadLimits) -> Page:
    html = f"<h2>{escape(name)}</h2>{table}" if table else ""
    return read_part(f"<div hidden>{html}</div>" if hidden else html, NOWHERE, limits)


_LEFT_OUT = frozenset(
    "text.table-of-content text.alphabetical-index office.annotation text.sequence-decls"
    " text.variable-decls text.user-field-decls office.forms table.shapes office.change-info"
    " text.script".split()
)
_WRAPPED = {
    "text.p": ("<p>", "</p>"),
    "text.list": ("<ul>", "</ul>"),
    "text.list-item": ("<li>", "</li>"),
    "text.list-header": ("<li>", "</li>"),
    "text.line-break": ("<br>", ""),
    "text.tab": (" ", ""),
    "text.ruby": ("<ruby>", "</ruby>"),
    "text.ruby-text": ("<rt>", "</rt>"),
    "text.tracked-changes": ("<div hidden>", "</div>"),
}
_FAMILIES = {
    "text.span": "text", "text.p": "paragraph", "text.h": "paragraph", "table.table": "table",
    "table.table-cell": "table-cell", "draw.page": "drawing-page",
}  # fmt: skip
"""the family of the styles of each element"""
_HIDING = {
    "text.display": "none", "table.display": "false", "presentation.visibility": "hidden",
    "text.is-hidden": "true",
}  # fmt: skip
_FILLS, _PLAIN = ("?.background-color", "draw.fill-color"), {"transparent", "#ffffff"}
_STRIKING = ("style.text-line-through-style", "style.text-line-through-type")


class _OpenDocumentWriter:
    """Writes the elements of a document of LibreOffice as HTML, and collects its footnotes."""

    def __init__(self, archive: DocumentArchive, trees: Iterable[Element]) -> None:
        self.archive = archive
        self.notes: list[str] = []
        self.unread: list[str] = []
        """lines about what is not read"""
        self.styles: dict[tuple[str, str], Element] = {}
        self.numberings: dict[str, dict[int, Element]] = {}
        """levels by the name of a list's style; those of headings are below an empty name"""
        self.counts: dict[str, dict[int, int]] = {}
        """the last number of each level"""
        self.lists: list[str] = []
        """the style of each open list"""
        self.label = ""
        """the number that stands before the next text"""
        self.has_fills = False
        """on which white text may be seen"""
        for tree in trees:
            for one in tree.iter("style.style"):
                fills = {child.get(key, "transparent") for child in one for key in _FILLS}
                self.has_fills = self.has_fills or not fills <= _PLAIN
                self.styles[one.get("style.family", ""), one.get("style.name", "")] = one
            for one in (*tree.iter("text.list-style"), *tree.iter("text.outline-style")):
                name = one.get("style.name", "") if one.tag == "text.list-style" else ""
                self.numberings[name] = {_get_count(rule, "text.level"): rule for rule in one}

    def read_style(self, element: Element, name: str = "") -> dict[str, str]:
        """Return an element's properties, and those of its style and of the styles above it, whose
        names are `style.names`."""
        family, names = _FAMILIES.get(element.tag, ""), set[str]()
        name = element.get(f"{element.tag.partition('.')[0]}.style-name", name)
        properties = dict(element.items())
        while (style := self.styles.get((family, name))) is not None and name not in names:
            names.add(name)
            for one in style:
                properties = dict(one.items()) | properties
            name = style.get("style.parent-style-name", "")
        return properties | {"style.names": " ".join((*names, name))}

    def is_hidden(self, element: Element, name: str = "") -> bool:
        """Tell whether an element's style, here or above it, hides its text, strikes it out, or
        makes it white or too small to see."""
        properties = self.read_style(element, name)
        filled = self.has_fills
        if element.tag == "table.table-cell":
            filled = properties.get("?.background-color", "transparent") not in _PLAIN
        white = properties.get("?.color", "").lower() == "#ffffff" and not filled
        if white or properties.get("?.font-size") in ("0pt", "1pt"):
            return True
        if element.find("text.hidden-paragraph[@text.is-hidden='true']") is not None:
            return True
        struck = any(properties.get(key, "none") != "none" for key in _STRIKING)
        return struck or any(properties.get(key) == value for key, value in _HIDING.items())

    def write_children(self, element: Element, inline: bool = False) -> str:
        """Return the HTML of an element's text and children; only paragraphs hold text."""
        inline = element.tag in ("text.p", "text.h") or inline
        html = [escape(element.text or "")] if inline else []
        for child in element:
            html += (self._write(child, inline), escape(child.tail or "") if inline else "")
        return "".join(html)

    def _write(self, element: Element, inline: bool) -> str:
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
            return self.write_table(element, element.find("table.table-header-rows") is not None)
        if tag == "text.s":
            return " " * min(_get_count(element, "text.c"), 999)
        if tag == "draw.frame" and element.get("presentation.class") == "title":
            lines = ("".join(line.itertext()) for line in element.iter("text.p"))
            return f"<h2>{escape(' '.join(lines))}</h2>"
        if tag in ("draw.object", "draw.object-ole"):
            return self._write_object(element)
        if tag in ("text.list", "text.list-item", "text.h"):
            self._number_text(element)
        label = self.label if tag in ("text.p", "text.h") else ""
        self.label = self.label.removeprefix(label)
        inline_inside = inline and tag.startswith(("text.", "?."))
        inner = escape(label) + self.write_children(element, inline_inside)
        if tag == "text.span":
            inner = _write_raised(inner, self.read_style(element).get("style.text-position", ""))
        if tag == "text.list":
            self.lists.pop()
        elif tag == "text.h":
            level = element.get("text.outline-level", "1")
            inner = f"<h{level}>{inner}</h{level}>" if level in "123456" else f"<p>{inner}</p>"
        elif tag == "text.p" and "Title" in self.read_style(element)["style.names"].split():
            inner = f"<h1>{inner}</h1>"
        elif tag == "text.a":
            inner = f'<a href="{escape(element.get("xlink.href", ""))}">{inner}</a>'
        start, end = _WRAPPED.get(tag, ("", ""))
        if tag == "presentation.notes" or self.is_hidden(element):
            hider = "span" if inline else "div"
            start, end = f"<{hider} hidden>{start}", f"{end}</{hider}>"
        return f"{start}{inner}{end}"

    def _write_object(self, element: Element) -> str:
        """Return a formula as MathML; say of another embedded object that it is not read."""
        name = join_part_name("", element.get("xlink.href", ""))
        formula = element.find("math.math")
        if formula is None:
            formula = self.archive.parse_part(f"{name}/content.xml")
        if formula.tag == "math.math":
            return write_xhtml(formula)
        self.unread.append(f"An embedded part is not read: {name}")
        return ""

    def _number_text(self, element: Element) -> None:
        """Count a heading or an item of a list, and note the number that stands before its text."""
        depth, style = len(self.lists), self.lists[-1] if self.lists else ""
        if element.tag == "text.list":
            name = element.get("text.style-name", style)
            goes_on = element.get("text.continue-numbering") == "true"
            continued = goes_on or element.get("text.continue-list") is not None
            if name != style and not continued:
                self.counts.pop(name, None)
            self.lists.append(name)
            return
        if element.tag == "text.h":
            if depth or element.get("text.is-list-header") == "true":
                return
            depth = _get_count(element, "text.outline-level")
        rules, counts = self.numberings.get(style, {}), self.counts.setdefault(style, {})
        starts = {at: _get_count(one, "text.start-value") for at, one in rules.items()}
        number = counts.get(depth, starts.get(depth, 1) - 1) + 1
        number = _get_count(element, "text.start-value", number)
        counts = self.counts[style] = {at: one for at, one in counts.items() if at < depth}
        counts[depth] = number
        rule = rules.get(depth, Element(""))
        numbered_levels = range(depth + 1 - _get_count(rule, "text.display-levels"), depth + 1)
        numbers = (
            format_list_number(counts.get(at, starts[at]), kind)
            for at in numbered_levels
            if at in rules and (kind := rules[at].get("style.num-format", ""))
        )
        if rule.get("style.num-format"):
            before, behind = rule.get("style.num-prefix", ""), rule.get("style.num-suffix", "")
            self.label = f"{before}{'.'.join(numbers)}{behind} "

    def write_table(self, table: Element, headed: bool) -> str:
        """Return the HTML of a table with the columns and rows that hold anything.

        The text of merged cells stands in each row that they reach into; what hidden rows and
        columns hold stands hidden behind the table.
        """
        rows, hidden = list[dict[int, str]](), list[str]()
        merged = dict[int, tuple[int, str]]()
        styles, out, column = dict[int, str](), set[int](), 0
        for one in table.iter("table.table-column"):
            repeated = _get_repetition(one, "columns")
            places = range(column, column + min(repeated, _MOST_REPEATED))
            styles |= dict.fromkeys(places, one.get("table.default-cell-style-name", ""))
            out |= set(places) if _is_folded(one) else set()
            column += repeated
        for row in _iter_rows(table):
            cells, column = dict[int, str](), 0
            for cell in row:
                rest, text = merged.pop(column, (0, ""))
                if cell.tag == "table.table-cell":
                    rest = _get_count(cell, "table.number-rows-spanned")
                    text = self._write_cell(cell, styles.get(column, ""))
                if rest > 1 and len(text) <= _LONGEST_MERGED:
                    merged[column] = (rest - 1, text)
                repeated = _get_repetition(cell, "columns")
                if text:
                    last = column + min(repeated, _MOST_REPEATED)
                    cells |= dict.fromkeys(range(column, last), text)
                column += repeated
            hidden += [cells.pop(one) for one in list(cells) if one in out or _is_folded(row)]
            if cells:
                rows += [cells] * min(_get_repetition(row, "rows"), _MOST_REPEATED)
        html = build_sparse_table(rows, headed, self.archive.limits)
        return html + "".join(f"<div hidden>{text}</div>" for text in hidden)

    def _write_cell(self, cell: Element, style: str) -> str:
        text = self.write_children(cell)
        formula = cell.get("table.formula", "").removeprefix("of:")
        if formula and not text and cell.get("office.value-type") is None:
            self.unread.append(f"A formula has no stored value: {formula}")
            return escape(f"{formula} [no stored value]")
        return f"<div hidden>{text}</div>" if text and self.is_hidden(cell, style) else text


def _is_folded(element: Element) -> bool:
    return element.get("table.visibility") in ("collapse", "filter")


def _get_count(element: Element, name: str, default: int = 1) -> int:
    count = element.get(name, "")
    return int(count) if count.isdecimal() and len(count) < 9 else default


def _iter_rows(table: Element) -> Iterator[Element]:
    for child in table:
        if child.tag == "table.table-row":
            yield child
        elif child.tag in ("table.table-header-rows", "table.table-rows", "table.table-row-group"):
            yield from _iter_rows(child)


def _get_repetition(element: Element, what: str) -> int:
    return _get_count(element, f"table.number-{what}-repeated")


_FORMATS = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00e+00",
    14: "y-m-d", 15: "y-m-d", 16: "y-m-d", 17: "y-m-d", 18: "h:mm",
    19: "h:mm:ss", 20: "h:mm", 21: "h:mm:ss", 22: "y-m-d h:mm", 45: "h:mm:ss", 46: "[h]:mm:ss",
    47: "h:mm:ss",
    37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)", 39: "#,##0.00;(#,##0.00)",
    40: "#,##0.00;(#,##0.00)",
}  # fmt: skip
"""the built-in number formats, those of dates and times by their meaning"""
_LITERAL = re.compile(
    r'"([^"]*)"|\\(.)|_.|\*.|\[\$([^\]-]*)[^\]]*\]|\[(?!h+\]|m+\]|s+\])[^\]]*\]', re.IGNORECASE
)
_CONDITION = re.compile(r"\[[<>=]")
_DIGITS = re.compile(r"([0#?][0#?,]*[0#?]|[0#?])(?:\.([0#?]*))?(,*)")
_MERGED = re.compile(r"([A-Z]{1,3})([0-9]{1,7}):([A-Z]{1,3})([0-9]{1,7})")
_COLUMN_LETTERS = re.compile(r"[A-Z]{1,3}")
_LAST_DATE = 2_958_466
"""days of the spreadsheet's calendar up to the end of the year 9999"""
_MOST_DECIMALS = 15


def read_xlsx(data: bytes, url: str, fetched: str, limits: ReadLimits) -> Page:
    """Return an Excel workbook as a Page, with a mark `sheet` over each sheet.

    The name of a sheet is a heading, its first row the names of the columns; hidden sheets, rows
    columns, covered cells and white text are hidden text. Numbers are written as their format shows
    them, dates as in 2024-03-01, fractions and what other formats show as stored.
    Raises Failed: malformed, encrypted, too_large, empty_after_extraction.
    """
    archive = DocumentArchive(data, limits)
    title = read_core_title(archive) or unquote(url.partition("#")[0].rpartition("/")[2])
    return join_parts(_read_sheets(archive), url, fetched, title, limits)


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
        name, hidden = sheet.get("name", ""), sheet.get("state", "visible") != "visible"
        table = _write_sheet(archive.parse_part(part), values, archive.limits)
        page = _read_sheet(name, table, hidden, archive.limits)
        yield PagePart(page, "sheet" * (not hidden), name)
    yield PagePart(read_labels(values.unread))


def _write_sheet(sheet: Element, values: "_CellReader", limits: ReadLimits) -> str:
    """Return the HTML of a sheet's table; what hidden rows and columns hold stands hidden behind.

    The text of merged cells stands in each row that they reach into.
    """
    rows, folded, number = dict[int, dict[int, str]](), set[int](), 0
    for row in sheet.iterfind("x.sheetData/x.row"):
        number = _get_count(row, "r", number + 1)
        rows[number] = dict(values.read_row(row))
        folded |= {number} if _is_folded_away(row, "ht") else set()
    hidden = list[str]()
    for one in sheet.iterfind("x.mergeCells/x.mergeCell"):
        if merged := _MERGED.fullmatch(one.get("ref", "")):
            column, last_column = _number_column(merged[1]), _number_column(merged[3])
            reached = range(int(merged[2]), int(merged[4]) + 1)
            text = rows.get(reached.start, {}).get(column, "")
            few, many = sorted((rows, reached), key=len)
            for number in [one for one in few if one in many]:
                cells, at = rows[number], column + (number == reached.start)
                hidden += [cells.pop(one) for one in list(cells) if at <= one <= last_column]
                if cells and text and len(text) <= _LONGEST_MERGED:
                    cells.setdefault(column, text)
    columns = (one for one in sheet.iterfind("x.cols/x.col") if _is_folded_away(one, "width"))
    spans = [range(_get_count(one, "min"), _get_count(one, "max") + 1) for one in columns]
    hidden += (
        cells.pop(column)
        for number, cells in rows.items()
        for column in list(cells)
        if number in folded or any(column in span for span in spans)
    )
    table = build_sparse_table([cells for cells in rows.values() if cells], True, limits)
    return table + "".join(f"<div hidden>{text}</div>" for text in hidden)


def _is_folded_away(line: Element, size: str) -> bool:
    return line.get("hidden") in ("1", "true") or line.get(size) == "0"


def _read_rich_text(item: Element) -> str:
    """Return the HTML of a cell's text, without its readings for East Asian scripts."""
    html = ""
    for run in item:
        text = escape((run.text if run.tag == "x.t" else run.findtext("x.t")) or "")
        if (raised := run.find("x.rPr/x.vertAlign")) is not None:
            text = _write_raised(text, raised.get("val", ""))
        if run.tag != "x.rPh":
            html += f"<span hidden>{text}</span>" if _is_struck(run.find("x.rPr")) else text
    return html.strip().replace("\n", "<br>")


def _is_struck(font: Element | None) -> bool:
    struck = None if font is None else font.find("x.strike")
    return struck is not None and struck.get("val") not in ("0", "false")


def _is_unseen(font: Element, fill: Element) -> bool:
    """Tell whether text in a font is struck out, of one point, or white and not on a fill."""
    found = {child.tag: child for child in font}
    color = found.get("x.color", fill)
    white = (color.get("rgb") or color.get("theme")) in ("FFFFFFFF", "0")
    tiny = found.get("x.sz", fill).get("val") == "1"
    plain = fill.find("x.patternFill/x.fgColor") is None and fill.find("x.gradientFill") is None
    return _is_struck(font) or tiny or (white and plain)


def _escape_cell(text: str) -> str:
    return escape(text.strip()).replace("\n", "<br>")


def _read_formats(styles: Element) -> list[tuple[str, bool]]:
    """Return the number format of each cell style, empty for a general one, and whether it strikes
    its text out or hides it by white."""
    named = styles.iterfind("x.numFmts/x.numFmt")
    own = {one.get("numFmtId", ""): one.get("formatCode", "") for one in named}
    fonts, fills = styles.findall("x.fonts/x.font"), styles.findall("x.fills/x.fill")
    formats = list[tuple[str, bool]]()
    for style in styles.iterfind("x.cellXfs/x.xf"):
        number = style.get("numFmtId", "0")
        builtin = _FORMATS.get(int(number), "") if number.isdecimal() and len(number) < 9 else ""
        font = (fonts[_get_count(style, "fontId", 0) :] or [Element("")])[0]
        fill = (fills[_get_count(style, "fillId", 0) :] or [Element("")])[0]
        formats.append((own.get(number, builtin), _is_unseen(font, fill)))
    return formats


class _CellReader:
    """Reads the cells of a workbook's rows as HTML; `texts` are those that cells share."""

    def __init__(
        self, texts: Sequence[str], formats: Sequence[tuple[str, bool]], from_1904: bool
    ) -> None:
        self.texts = texts
        self.formats = formats
        self.from_1904 = from_1904
        self.unread: list[str] = []

    def read_row(self, row: Element) -> Iterator[tuple[int, str]]:
        """Yield the column and the HTML of each cell that is not empty."""
        column = 0
        for cell in row.iterfind("x.c"):
            letters = _COLUMN_LETTERS.match(cell.get("r", ""))
            column = _number_column(letters[0]) if letters else column + 1
            if html := self._read_cell(cell):
                yield column, html

    def _read_cell(self, cell: Element) -> str:
        formula = cell.findtext("x.f")
        if formula is not None and not cell.findtext("x.v") and cell.get("t") != "str":
            self.unread.append(f"A formula has no stored value: ={formula}")
            return escape(f"={formula} [no stored value]")
        style = _get_count(cell, "s", 0)
        code, struck = self.formats[style] if style < len(self.formats) else ("", False)
        html, kind = self._read_value(cell), cell.get("t", "n")
        displayed = html
        if kind == "n" and html:
            displayed = _escape_cell(_write_number(html, code, self.from_1904))
        elif code.count(";") == 3 and kind in ("s", "str", "inlineStr"):
            displayed = html * (not code.endswith(";"))
        is_hidden = html and (struck or not displayed)
        return f"<span hidden>{displayed or html}</span>" if is_hidden else displayed

    def _read_value(self, cell: Element) -> str:
        kind, value = cell.get("t", "n"), cell.findtext("x.v") or ""
        if kind == "inlineStr":
            inline = cell.find("x.is")
            return "" if inline is None else _read_rich_text(inline)
        if kind == "s":
            number = int(value) if value.isdecimal() and len(value) < 9 else len(self.texts)
            return "".join(self.texts[number:][:1])
        if kind == "b":
            value = {"0": "FALSE", "1": "TRUE"}.get(value, value)
        return _escape_cell(value)


def _number_column(letters: str) -> int:
    column = 0
    for letter in letters:
        column = 26 * column + ord(letter) - ord("A") + 1
    return column


def _write_number(value: str, code: str, from_1904: bool) -> str:
    """Return a number as its format shows it, empty where the format hides it; without the format's
    text, as it is stored."""
    try:
        number = float(value)
    except ValueError:
        return value
    if not math.isfinite(number):
        return value
    plain, literals = f"{number:.15g}", list[str]()

    def keep_literal(match: re.Match[str]) -> str:
        literals.append(match[1] or match[2] or match[3] or "")
        return chr(0xE000 + len(literals))

    sections = _LITERAL.sub(keep_literal, code).split(";")
    chosen = 0
    if len(sections) > 1 and number <= 0:
        chosen = 1 if number < 0 else 2 % len(sections)
    section = sections[chosen].lower()
    if not code or _CONDITION.search(code) or "general" in section:
        return plain
    if re.search("[ydhs]|mm", section):
        return _write_date(number, section, from_1904) if 0 <= number < _LAST_DATE else plain
    digits = _DIGITS.search(section)
    before, behind = section, ""
    if digits:
        before, behind = section[: digits.start()], section[digits.end() :]
    whole, part = (digits[1], digits[2] or "") if digits else ("", "")
    decimals = min(len(part), _MOST_DECIMALS)
    if digits and behind == "e+00":
        return f"{number:.{decimals}E}"
    if re.search("[0#?/@e]", before + behind):
        return plain
    # The factor rounds a half up, as spreadsheets do, though 1.005 is stored as a little less.
    scaled = abs(number) * (1 + 4e-16) * 100 ** section.count("%")
    width = whole.count("0") + (decimals and decimals + 1)
    scaled /= 1000 ** (len(digits[3]) if digits else 0)
    written = f"{scaled:0{width}{',' * (',' in whole)}.{decimals}f}" if digits else ""
    written = re.sub(f"0{{0,{len(part) - part.count('0')}}}$", "", written)
    if number < 0 and chosen == 0 and re.search("[1-9]", written):
        before = f"-{before}"
    return re.sub(
        "[\ue001-\uf8ff]",
        lambda mark: literals[ord(mark[0]) - 0xE001],
        f"{before}{written}{behind}",
    ).strip()


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
    rootfile = next(_iter_local(archive.parse_part(_CONTAINER), "rootfile"), Element(""))
    usual = next((part for part in sorted(archive.names) if part.endswith(".opf")), "")
    name = join_part_name("", rootfile.get("full-path", usual))
    package = archive.parse_part(name)
    if not package.tag:
        raise build_read_error(Outcome.MALFORMED, "the archive holds no list of a book's chapters")
    folder = name.rpartition("/")[0]
    hrefs = {one.get("id", ""): one.get("href", "") for one in _iter_local(package, "item")}
    spine = (one.get("idref", "") for one in _iter_local(package, "itemref"))
    files = (urldefrag(hrefs[name]).url for name in spine if name in hrefs)
    chapters = [join_part_name(folder, file) for file in files]
    if len(chapters) > _MOST_CHAPTERS:
        raise build_read_error(Outcome.TOO_LARGE, f"a book of {len(chapters):,} chapters")
    titles = (one.text or "" for one in _iter_local(package, "title"))
    title = " ".join(next(titles, "").split())
    _refuse_encrypted(archive, chapters)
    return join_parts(_read_chapters(archive, chapters, url), url, fetched, title, limits)


def _iter_local(tree: Element, name: str) -> Iterator[Element]:
    """Yield the elements of a name in any namespace: of packages in the wild, many have none."""
    return (one for one in tree.iter() if one.tag.rpartition(".")[2].lower() == name)


def _refuse_encrypted(archive: DocumentArchive, chapters: list[str]) -> None:
    """Raise Failed if a chapter is encrypted; fonts of any book may be."""
    for reference in archive.parse_part("META-INF/encryption.xml").iter("enc.CipherReference"):
        if join_part_name("", reference.get("URI", "")) in chapters:
            detail = "the book is locked to the programs of the shop that sold it"
            raise build_read_error(Outcome.ENCRYPTED, detail)


def _read_chapters(archive: DocumentArchive, chapters: list[str], url: str) -> Iterator[PagePart]:
    chapter_names = frozenset(chapters)
    for name in dict.fromkeys(chapters):
        content = archive.read_part(name)
        if not content:
            continue
        page = read_part(rewrite_xhtml(decode_text(content)), NOWHERE + quote(name), archive.limits)
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

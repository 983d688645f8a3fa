"""Read Word documents: what mammoth would leave out, or show though Word does not, is written into
their XML first, and mammoth makes HTML of it.

Text that is hidden, struck out or deleted becomes struck-out text, which is then hidden; numbers
that Word computes become text; formulas, readings and embedded parts become marks in the text.
"""

import io
import re
import zipfile
from collections.abc import Iterator
from html import escape
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from rookery.errors import Outcome
from rookery.pages.html.html_parser import format_list_number
from rookery.pages.page_parts import PagePart, ReadLimits, build_read_error, join_parts, read_part
from rookery.pages.zip_documents import (
    DocumentArchive,
    PageReader,
    read_core_title,
    read_embedded_part,
)
from rookery.records import Page

_OOXML = "http://schemas.openxmlformats.org"
_W = f"{{{_OOXML}/wordprocessingml/2006/main}}"
_M = f"{{{_OOXML}/officeDocument/2006/math}}"
_R = f"{{{_OOXML}/officeDocument/2006/relationships}}"
_ALTERNATE = f"{{{_OOXML}/markup-compatibility/2006}}AlternateContent"
_STRICT = {
    b"http://purl.oclc.org/ooxml/wordprocessingml/main": _W[1:-1].encode(),
    b"http://purl.oclc.org/ooxml/officeDocument/math": _M[1:-1].encode(),
    b"http://purl.oclc.org/ooxml/officeDocument/relationships": _R[1:-1].encode(),
}
_SNIPPET, _EMBEDDED = re.compile("\ufdd0(\\d+)\ufdd1"), re.compile("\ufdd2(\\d+)\ufdd3")
"""marks of HTML and of embedded parts in the text; these are no characters of any text"""
_TITLES = "p[style-name='Title'] => h1:fresh"
_HIDING = ("vanish", "strike", "dstrike")
_WRAPPERS = frozenset(_W + name for name in ("fldSimple", "dir", "bdo"))
_DELETED = frozenset(_W + name for name in ("del", "moveFrom"))
_DRAWN = frozenset(_W + name for name in ("drawing", "pict", "object"))
_FILLED = frozenset(_W + name for name in ("tbl", "txbxContent"))
_FIELD_TEXT = frozenset(_W + name for name in ("t", "tab", "br", "sym", "noBreakHyphen"))
_STYLES = {"upperLetter": "A", "lowerLetter": "a", "upperRoman": "I", "lowerRoman": "i"}


def read_docx(data: bytes, url: str, fetched: str, limits: ReadLimits, reader: PageReader) -> Page:
    """Return a Word document as a Page, without its pictures.

    Its archive is checked before mammoth reads it. Embedded documents stand at their place, as
    `reader` reads them; one that cannot be read is a line that says so. Raises Failed: too_large,
    encrypted, malformed, empty_after_extraction.
    """
    import mammoth

    archive = DocumentArchive(data, limits)
    names = (name for name in sorted(archive.names) if name.endswith((".xml", ".rels")))
    parts = {name: archive.read_part(name) for name in names}
    if any(b"<!DOCTYPE" in part or b"<!ENTITY" in part for part in parts.values()):
        raise build_read_error(Outcome.MALFORMED, "the document's XML declares entities")
    pictures = mammoth.images.img_element(lambda image: {"src": ""})
    try:
        writer = _WordWriter(parts)
        checked = io.BytesIO(_build_archive(writer.rewrite_parts()))
        html = mammoth.convert_to_html(checked, style_map=_TITLES, convert_image=pictures).value
    except MemoryError:
        raise
    # Mammoth has no exception of its own: what a damaged document raises is up to its parts.
    except Exception as error:
        detail = f"the document cannot be read ({error!r})"[:300]
        raise build_read_error(Outcome.MALFORMED, detail) from error
    html = html.replace("<s>", "<span hidden>").replace("</s>", "</span>")
    html = _SNIPPET.sub(lambda mark: "".join(writer.snippets[int(mark[1]) :][:1]), html)
    archive = DocumentArchive(data, limits)
    relations = archive.read_relations(archive.find_main_part("word/document.xml"))

    def read_pieces() -> Iterator[PagePart]:
        for number, piece in enumerate(_EMBEDDED.split(html)):
            if number % 2 == 0:
                yield PagePart(read_part(piece, url, limits))
            elif name := "".join(writer.embedded[int(piece) :][:1]):
                yield PagePart(
                    read_embedded_part(archive, relations.get(name, ("", ""))[1], reader)
                )

    return join_parts(read_pieces(), url, fetched, read_core_title(archive), limits)


def _build_archive(parts: dict[str, bytes]) -> bytes:
    """Return a fresh archive of these parts, so that nothing unchecked is read."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


def _find(element: Element | None, path: str) -> Element | None:
    return None if element is None else element.find(_W + path.replace("/", f"/{_W}"))


def _get_value(element: Element | None, path: str) -> str:
    """Return the attribute `val` of a child, empty where there is none."""
    found = _find(element, path)
    return "" if found is None else found.get(f"{_W}val", "")


def _get_number(element: Element | None, path: str, default: int) -> int:
    value = _get_value(element, path)
    return int(value) if re.fullmatch(r"\d{1,6}", value) else default


def _get_hiding(properties: Element | None) -> dict[str, bool]:
    """Return which properties that hide a run are set, and which are taken back."""
    off, shading = ("0", "false", "off"), _find(properties, "shd")
    named = (name for name in _HIDING if _find(properties, name) is not None)
    hiding = {name: _get_value(properties, name) not in off for name in named}
    if size := _get_value(properties, "sz"):
        hiding["tiny"] = size in ("1", "2")
    if color := _get_value(properties, "color"):
        hiding["white"] = color.upper() == "FFFFFF"
    if shading is not None or _find(properties, "highlight") is not None:
        hiding["white"] = False
    return hiding


def _make_run(text: str) -> Element:
    run = Element(f"{_W}r")
    ElementTree.SubElement(run, f"{_W}t").text = text
    return run


class _WordWriter:
    """Rewrites the parts of a Word document for mammoth."""

    def __init__(self, parts: dict[str, bytes]) -> None:
        self.parts = parts
        self.snippets: list[str] = []
        self.embedded: list[str] = []
        """ids of the relations to embedded parts"""
        self.fields: list[bool] = []
        """of each open field, whether its instruction goes on"""
        self.hiding: dict[str, dict[str, bool]] = {}
        """by style, see `_get_hiding`"""
        self.defaults: dict[str, bool] = {}
        self.numbered: dict[str, Element] = {}
        """what says which list the paragraphs of a style are in"""
        self.lists: dict[str, Element] = {}
        self.schemes: dict[str, Element] = {}
        self.counts: dict[str, dict[int, int]] = {}
        """the last number of each level, by scheme of numbers"""
        self.begun: set[str] = set()
        self.on_fill: set[Element | str] = set()
        """runs in tables, boxes and shaded paragraphs, and styles of these: white may be seen"""

    def rewrite_parts(self) -> dict[str, bytes]:
        """Return the parts as mammoth is to read them."""
        trees = dict[str, Element]()
        for name, content in self.parts.items():
            for strict, transitional in _STRICT.items():
                content = content.replace(strict, transitional)
            if content and name.endswith(".xml"):
                trees[name] = ElementTree.fromstring(content)
        styles = {
            one.get(f"{_W}styleId", ""): one
            for tree in trees.values()
            for one in tree.iterfind(f"{_W}style")
        }
        for name in styles:
            self._read_style(name, styles)
        for tree in trees.values():
            self.lists |= {one.get(f"{_W}numId", ""): one for one in tree.iterfind(f"{_W}num")}
            for one in tree.iterfind(f"{_W}abstractNum"):
                self.schemes[one.get(f"{_W}abstractNumId", "")] = one
            self.defaults |= _get_hiding(_find(tree, "docDefaults/rPrDefault/rPr"))
            for one in tree.iter():
                if one.tag in _FILLED or _find(one, "pPr/shd") is not None:
                    self.on_fill.update(one.iter(f"{_W}r"))
        for name, tree in trees.items():
            if tree.tag.startswith(_W) and tree.tag.endswith(("}document", "notes")):
                self._rewrite_children(tree, "", False)
            for written in tree.iter(f"{_W}numFmt") if name.endswith("numbering.xml") else ():
                written.set(f"{_W}val", "bullet")  # the numbers stand in the text
        rewritten = {name: ElementTree.tostring(tree, "utf-8") for name, tree in trees.items()}
        return self.parts | rewritten

    def _read_style(self, name: str, styles: dict[str, Element]) -> None:
        """Note what a style says about hiding and numbers, with the styles that it is based on."""
        style, chain = styles.get(name), list[Element]()
        while style is not None and style not in chain:
            chain.append(style)
            style = styles.get(_get_value(style, "basedOn"))
        self.hiding[name] = {}
        for style in reversed(chain):
            self.hiding[name] |= _get_hiding(_find(style, "rPr"))
            if _find(style, "pPr/shd") is not None:
                self.on_fill.add(name)
            if (numbered := _find(style, "pPr/numPr")) is not None:
                self.numbered[name] = numbered

    def _rewrite_children(self, element: Element, style: str, hidden: bool) -> list[Element]:
        element[:] = [
            new for child in element for new in self._rewrite_element(child, style, hidden)
        ]
        return list(element)

    def _rewrite_element(self, element: Element, style: str, hidden: bool) -> list[Element]:
        """Return what stands for an element in a paragraph of a style."""
        tag = element.tag
        if tag.endswith("Pr"):
            return [element]
        if tag == _ALTERNATE:  # one thing, written for several programs
            written = (self._rewrite_children(option, style, hidden) for option in element)
            return next(filter(None, written), [])
        if tag == f"{_M}oMath":
            return [self._mark_html(f"<math>{_write_formula(element)}</math>")]
        if tag == f"{_W}altChunk":
            return [self._mark_embedded(element.get(f"{_R}id", ""))]
        if tag in _DRAWN:
            return self._rewrite_drawing(element, hidden)
        if tag in _FIELD_TEXT and any(self.fields):
            return []
        before, behind = list[Element](), list[Element]()
        if tag == f"{_W}p":
            self.fields = [False] * len(self.fields)  # no instruction goes on in a new paragraph
            style = _get_value(element, "pPr/pStyle") or "Normal"
            before = self._take_label(element, style, hidden)
        elif tag == f"{_W}r":
            hidden = self._strike_run(element, style, hidden)
        elif tag == f"{_W}ruby":
            reading = "".join(text.text or "" for text in element.iterfind(f"{_W}rt//{_W}t"))
            element[:] = element.findall(f"{_W}rubyBase/*")
            before, behind = (
                [self._mark_html("<ruby>")],
                [self._mark_html(f"<rt>{escape(reading)}</ruby>")],
            )
        elif tag == f"{_W}fldChar":
            return [element, *self._follow_field(element)]
        elif tag == f"{_W}tr":
            hidden = hidden or any(
                _find(element, f"trPr/{name}") is not None for name in ("del", "hidden")
            )
        elif tag in _DELETED:
            hidden = True
        if tag in _WRAPPERS or tag in _DELETED or tag == f"{_W}ruby":
            element.tag = f"{_W}smartTag"
        elif tag == f"{_W}delText":
            element.tag = f"{_W}t"
        self._rewrite_children(element, style, hidden)
        at = len(element.findall(f"{_W}pPr"))
        element[at:at] = before
        element.extend(behind)
        return [element]

    def _mark_html(self, html: str) -> Element:
        self.snippets.append(html)
        return _make_run(f"\ufdd0{len(self.snippets) - 1}\ufdd1")

    def _mark_embedded(self, relation: str) -> Element:
        self.embedded.append(relation)
        paragraph = Element(f"{_W}p")
        paragraph.append(_make_run(f"\ufdd2{len(self.embedded) - 1}\ufdd3"))
        return paragraph

    def _strike_run(self, run: Element, style: str, hidden: bool) -> bool:
        """Strike a run out if it is not shown, and only then; tell whether it is."""
        properties = _find(run, "rPr")
        named = self.hiding.get(_get_value(properties, "rStyle"), {})
        hiding = self.defaults | self.hiding.get(style, {}) | named | _get_hiding(properties)
        hiding["white"] = hiding.get("white", False) and self.on_fill.isdisjoint((run, style))
        hidden = hidden or any(hiding.values())
        if properties is None:
            run.insert(0, properties := Element(f"{_W}rPr"))
        for struck in properties.findall(f"{_W}strike"):
            properties.remove(struck)
        properties.extend([Element(f"{_W}strike")] * hidden)
        return hidden

    def _follow_field(self, element: Element) -> list[Element]:
        """Note where a field begins, where its result does and where it ends."""
        kind, menu = element.get(f"{_W}fldCharType"), _find(element, "ffData/ddList")
        if kind == "begin":
            self.fields.append(True)
        elif self.fields:
            self.fields.pop()
            self.fields += [False] * (kind == "separate")
        entries = [] if menu is None else menu.findall(f"{_W}listEntry")
        chosen = entries[_get_number(menu, "result", _get_number(menu, "default", 0)) :][:1]
        return [_make_run(entry.get(f"{_W}val", "")) for entry in chosen]

    def _rewrite_drawing(self, drawing: Element, hidden: bool) -> list[Element]:
        """Return a drawing for its pictures; text boxes and objects stand behind its paragraph."""
        behind = Element(f"{_W}pict")
        for option in list(drawing.iter(_ALTERNATE)):
            option[:] = list(option)[:1]
        for one in list(drawing.iter()):
            name = one.tag.rpartition("}")[2]
            relation = one.get(f"{_R}dm" if name == "relIds" else f"{_R}id", "")
            hidden = hidden or (name == "docPr" and one.get("hidden") in ("1", "true"))
            hidden = hidden or "visibility:hidden" in one.get("style", "").replace(" ", "")
            if name == "txbxContent":
                behind.extend(self._rewrite_children(one, "", hidden))
                one.clear()
            elif name in ("chart", "relIds", "OLEObject") and relation:
                behind.append(self._mark_embedded(relation))
        return [drawing, behind] if len(behind) else [drawing]

    # Numbers of lists and headings, which a document stores as rules for counting.

    def _take_label(self, paragraph: Element, style: str, hidden: bool) -> list[Element]:
        """Count a paragraph, and return the number that stands before it."""
        own, mark = _find(paragraph, "pPr/numPr"), _find(paragraph, "pPr/rPr")
        of_style = self.numbered.get(style)
        name = _get_value(own, "numId") or _get_value(of_style, "numId")
        scheme = _get_value(self.lists.get(name), "abstractNumId")
        if link := _get_value(self.schemes.get(scheme), "numStyleLink"):
            linked = _get_value(self.numbered.get(link), "numId")
            scheme = _get_value(self.lists.get(linked), "abstractNumId")
        deleted = mark is not None and any(mark.find(tag) is not None for tag in _DELETED)
        if scheme not in self.schemes or hidden or deleted or _get_hiding(mark).get("vanish"):
            return []
        levels = {one.get(f"{_W}ilvl", ""): one for one in self.schemes[scheme]}
        counts = self.counts.setdefault(scheme, {})
        for override in self.lists[name].iterfind(f"{_W}lvlOverride"):
            at = override.get(f"{_W}ilvl", "")
            levels |= {one.get(f"{_W}ilvl", ""): one for one in override.iterfind(f"{_W}lvl")}
            if name not in self.begun and _find(override, "startOverride") is not None and at:
                counts[int(at)] = _get_number(override, "startOverride", 1) - 1
        self.begun.add(name)
        by_style = (at for at, one in levels.items() if _get_value(one, "pStyle") == style)
        of_style_level = _get_number(of_style, "ilvl", int(next(by_style, "0") or 0))
        label = _count_paragraph(levels, counts, _get_number(own, "ilvl", of_style_level))
        has_text = label and any(text.text for text in paragraph.iter(f"{_W}t"))
        return [_make_run(label)] if has_text else []


def _count_paragraph(levels: dict[str, Element], counts: dict[int, int], at: int) -> str:
    """Count a paragraph at a level of its list, and return its number and what follows that."""
    level = levels.get(str(at))
    counts[at] = counts.get(at, _get_number(level, "start", 1) - 1) + 1
    for below in [one for one in counts if one > at]:
        if at < _get_number(levels.get(str(below)), "lvlRestart", below):
            del counts[below]

    def write_number(mark: re.Match[str]) -> str:
        other = levels.get(str(int(mark[1]) - 1))
        number = counts.setdefault(int(mark[1]) - 1, _get_number(other, "start", 1))
        kind = "decimal" if _find(level, "isLgl") is not None else _get_value(other, "numFmt")
        if kind.endswith("Letter") and number > 0:  # a letter is repeated from the 27th on
            return format_list_number((number - 1) % 26 + 1, _STYLES[kind]) * ((number + 25) // 26)
        written = format_list_number(number, _STYLES.get(kind, "1"))
        return "" if kind == "none" else written.zfill(2 if kind == "decimalZero" else 1)

    if _get_value(level, "numFmt") == "bullet" or _get_hiding(_find(level, "rPr")).get("vanish"):
        return ""
    label = re.sub(r"%([1-9])", write_number, _get_value(level, "lvlText"))
    return label + " " * bool(label and _get_value(level, "suff") != "nothing")


_FORMULAS = {
    "sSup": "<msup>{e}{sup}</msup>", "sSub": "<msub>{e}{sub}</msub>", "mr": "<mtr>{e}</mtr>",
    "sSubSup": "<msubsup>{e}{sub}{sup}</msubsup>", "f": "<mfrac{type}>{num}{den}</mfrac>",
    "acc": "<mover>{e}<mo>{chr}</mo></mover>", "rad": "<mroot>{e}{deg}</mroot>",
    "nary": "<munderover><mo>{chr}</mo>{sub}{sup}</munderover>{e}",
    "d": '<mfenced open="{begChr}" close="{endChr}" separators="{sepChr}">{e}</mfenced>',
    "limLow": "<munder>{e}{lim}</munder>", "limUpp": "<mover>{e}{lim}</mover>",
    "sPre": "<mmultiscripts>{e}<mprescripts></mprescripts>{sub}{sup}</mmultiscripts>",
    "m": "<mtable>{mr}</mtable>", "bar": "<mover>{e}<mo>¯</mo></mover>",
    "eqArr": '<mtable columnalign="right">{e}</mtable>',
}  # fmt: skip
"""the MathML of each kind of formula of Word"""
_PARTS = "e sup sub num den deg lim mr".split()


def _write_formula(element: Element) -> str:
    """Return the MathML of a formula of Word, or of a part of one."""
    kind = element.tag.rpartition("}")[2]
    if kind == "t":
        return f"<mi>{escape(element.text or '')}</mi>"
    if kind not in _FORMULAS:
        return "".join(map(_write_formula, element))
    values = {"begChr": "(", "endChr": ")", "sepChr": "|", "type": ""}
    values["chr"] = "∫" if kind == "nary" else "\u0302"
    for one in element.iterfind(f"{_M}{kind}Pr/*"):
        values[one.tag.rpartition("}")[2]] = escape(one.get(f"{_M}val", ""))
    values["type"] = ' linethickness="0"' if values["type"] == "noBar" else ""
    for name in _PARTS:
        inner = map(_write_formula, element.iterfind(_M + name))
        values[name] = "".join(one if name == "mr" else f"<mrow>{one}</mrow>" for one in inner)
    return _FORMULAS[kind].format_map(values)

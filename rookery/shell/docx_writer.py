"""Write text as a DOCX file: paragraphs in styles, links, and links to places in the file.

python-docx makes the file; it has no functions of its own for links, bookmarks and borders.
Characters that XML cannot hold become U+FFFD.
"""

import io
import re
import unicodedata
import zipfile
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from docx import Document
from docx.enum.style import WD_STYLE_TYPE
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.oxml.xmlchemy import BaseOxmlElement
from docx.shared import Mm, Pt, RGBColor
from docx.styles.style import ParagraphStyle
from docx.text.paragraph import Paragraph

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_MOST_LINK_CHARACTERS = 2000
"""of an address: Word calls a file with longer ones damaged"""
_MOST_TITLE_CHARACTERS = 255
"""of the title in a file's properties"""
_BLUE, _GREY, _SAND = "2A4A8D", "575D69", "D8CBA9"


class DocxRun(NamedTuple):
    """A piece of a paragraph."""

    text: str
    link: str = ""
    """address that it leads to; empty: none"""
    anchor: str = ""
    """bookmark of this file that it leads to; empty: none"""
    bold: bool = False


class DocxWriter:
    """A document that is written paragraph by paragraph."""

    def __init__(self) -> None:
        self._document = Document()
        self._bookmarks = 0
        section = self._document.sections[0]
        section.page_width, section.page_height = Mm(210), Mm(297)
        section.left_margin = section.right_margin = Mm(23)
        section.top_margin = section.bottom_margin = Mm(22)
        self._add_style("Note", 9).font.color.rgb = RGBColor.from_string(_GREY)
        _add_left_border(self._add_style("Answer", 11.5), _BLUE)
        source = self._add_style("Source", 9.5)
        source.font.bold = source.paragraph_format.keep_with_next = True
        quote = self._document.styles["Quote"]
        assert isinstance(quote, ParagraphStyle)
        quote.font.italic = False
        _add_left_border(quote, _SAND)
        link = self._document.styles.add_style("Hyperlink", WD_STYLE_TYPE.CHARACTER)
        link.font.color.rgb = RGBColor.from_string(_BLUE)
        link.font.underline = True

    def add_paragraph(
        self, text: str | Sequence[DocxRun], style: str = "Normal", bookmark: str = ""
    ) -> None:
        """Add a paragraph in one of the styles.

        They are Title, Heading 1, Normal, Note, Answer, Source and Quote. `bookmark` is the name by
        which runs lead to it.
        """
        runs = [DocxRun(text)] if isinstance(text, str) else text
        paragraph = self._document.add_paragraph(style=style)
        if _is_right_to_left("".join(run.text for run in runs)):
            paragraph._p.get_or_add_pPr().append(OxmlElement("w:bidi"))
        number = str(self._bookmarks)
        if bookmark:
            self._bookmarks += 1
            _append_element(paragraph._p, "w:bookmarkStart", {"w:id": number, "w:name": bookmark})
        for run in runs:
            _add_run(paragraph, run)
        if bookmark:
            _append_element(paragraph._p, "w:bookmarkEnd", {"w:id": number})

    def build_file(self, title: str, day: str) -> bytes:
        """Return the file, with its title and the day (YYYY-MM-DD) on which it was made.

        The same paragraphs give the same bytes.
        """
        about = self._document.core_properties
        about.title = _NOT_XML.sub("\ufffd", title)[:_MOST_TITLE_CHARACTERS]
        about.author, about.comments = "Rookery", ""
        about.created = about.modified = datetime.fromisoformat(day)
        file, fixed = io.BytesIO(), io.BytesIO()
        self._document.save(file)
        with zipfile.ZipFile(file) as written, zipfile.ZipFile(fixed, "w") as archive:
            for name in written.namelist():
                # A fixed time: no clock makes two files of one report differ.
                info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                archive.writestr(info, written.read(name), zipfile.ZIP_DEFLATED)
        return fixed.getvalue()

    def _add_style(self, name: str, points: float) -> ParagraphStyle:
        style = self._document.styles.add_style(name, WD_STYLE_TYPE.PARAGRAPH)
        assert isinstance(style, ParagraphStyle)
        style.base_style = self._document.styles["Normal"]
        style.font.size = Pt(points)
        return style


def _add_run(paragraph: Paragraph, run: DocxRun) -> None:
    written = paragraph.add_run(_NOT_XML.sub("\ufffd", run.text))
    written.bold = run.bold or None
    target = {}
    if run.link and len(run.link) <= _MOST_LINK_CHARACTERS:
        relation = paragraph.part.relate_to(run.link, RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
        target = {"r:id": relation}
    elif run.anchor:
        target = {"w:anchor": run.anchor}
    if target:
        written.style = "Hyperlink"
        _append_element(paragraph._p, "w:hyperlink", target).append(written._r)


def _append_element(parent: BaseOxmlElement, name: str, values: dict[str, str]) -> BaseOxmlElement:
    element = OxmlElement(name, {qn(key): value for key, value in values.items()})
    parent.append(element)
    return element


def _add_left_border(style: ParagraphStyle, color: str) -> None:
    borders = OxmlElement("w:pBdr")
    line = {"w:val": "single", "w:sz": "16", "w:space": "8", "w:color": color}
    _append_element(borders, "w:left", line)
    # The schema wants borders before spacing and indents.
    style.element.get_or_add_pPr().insert(0, borders)


def _is_right_to_left(text: str) -> bool:
    """Return whether the first letter with a direction is of a script that runs leftwards."""
    kinds = (unicodedata.bidirectional(letter) for letter in text)
    return next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L"

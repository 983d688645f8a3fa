"""Write text as a DOCX file: paragraphs in styles, links, and links to places in the file.

WordprocessingML needs few parts for that (ECMA-376, part 1): the document, its styles, and which
part is what. Characters that XML cannot hold become U+FFFD.
"""

import io
import re
import unicodedata
import zipfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_BREAK = re.compile(r"(\r\n|[\n\r\t])")
_MOST_LINK_CHARACTERS = 2000
"""of an address: Word calls a file with longer ones damaged"""


class DocxRun(NamedTuple):
    """A piece of a paragraph."""

    text: str
    link: str = ""
    """address that it leads to; empty: none"""
    anchor: str = ""
    """bookmark of this file that it leads to; empty: none"""


class DocxWriter:
    """A document that is written paragraph by paragraph."""

    def __init__(self) -> None:
        self._paragraphs: list[str] = []
        self._links: dict[str, str] = {}

    def add_paragraph(
        self, text: str | Sequence[DocxRun], style: str = "Normal", bookmark: str = ""
    ) -> None:
        """Add a paragraph in one of the styles.

        They are Title, Heading1, Normal, Note, Answer, Source and Quote. `bookmark` is the name by
        which runs lead to it.
        """
        runs = [DocxRun(text)] if isinstance(text, str) else text
        body = "".join(map(self._render_run, runs))
        if bookmark:
            number, name = len(self._paragraphs), quoteattr(bookmark)
            start = f'<w:bookmarkStart w:id="{number}" w:name={name}/>'
            body = f'{start}{body}<w:bookmarkEnd w:id="{number}"/>'
        bidi = "<w:bidi/>" if _is_right_to_left("".join(run.text for run in runs)) else ""
        properties = f'<w:pPr><w:pStyle w:val="{style}"/>{bidi}</w:pPr>'
        self._paragraphs.append(f"<w:p>{properties}{body}</w:p>")

    def build_file(self, title: str, day: str) -> bytes:
        """Return the file, with its title and the day (YYYY-MM-DD) on which it was made.

        The same paragraphs give the same bytes.
        """
        links = "".join(
            f'<Relationship Id="{key}" Type="{_RELATIONS}/hyperlink" Target={quoteattr(link)} '
            'TargetMode="External"/>'
            for link, key in self._links.items()
        )
        core = (
            f"<dc:title>{_escape_xml(title)}</dc:title><dc:creator>Rookery</dc:creator>"
            f'<dcterms:created xsi:type="dcterms:W3CDTF">{day}T00:00:00Z</dcterms:created>'
        )
        parts = {
            "[Content_Types].xml": _CONTENT_TYPES,
            "_rels/.rels": _PACKAGE_RELATIONS,
            "docProps/core.xml": f"{_CORE_HEAD}{core}</cp:coreProperties>",
            "word/document.xml": f"{_DOCUMENT_HEAD}{''.join(self._paragraphs)}{_DOCUMENT_TAIL}",
            "word/styles.xml": _build_styles(),
            "word/_rels/document.xml.rels": f"{_DOCUMENT_RELATIONS}{links}</Relationships>",
        }
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, part in parts.items():
                # A fixed time: no clock makes two files of one report differ.
                info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, part)
        return file.getvalue()

    def _render_run(self, run: DocxRun) -> str:
        leads = bool(run.link or run.anchor)
        style = '<w:rPr><w:rStyle w:val="Hyperlink"/></w:rPr>' if leads else ""
        body = f"<w:r>{style}{''.join(_render_text(run.text))}</w:r>"
        if run.link and len(run.link) <= _MOST_LINK_CHARACTERS:
            key = self._links.setdefault(run.link, f"link{len(self._links) + 1}")
            return f'<w:hyperlink r:id="{key}">{body}</w:hyperlink>'
        if run.anchor:
            return f"<w:hyperlink w:anchor={quoteattr(run.anchor)}>{body}</w:hyperlink>"
        return body


def _render_text(text: str) -> Iterator[str]:
    for part in _BREAK.split(text):
        if part == "\t":
            yield "<w:tab/>"
        elif _BREAK.fullmatch(part):
            yield "<w:br/>"
        elif part:
            yield f'<w:t xml:space="preserve">{_escape_xml(part)}</w:t>'


def _escape_xml(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))


def _is_right_to_left(text: str) -> bool:
    """Return whether the first letter with a direction is of a script that runs leftwards."""
    kinds = (unicodedata.bidirectional(letter) for letter in text)
    return next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L"


_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_CONTENT_TYPES = (
    f'{_XML}<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/word/document.xml" ContentType="{_TYPE}.document.main+xml"/>'
    f'<Override PartName="/word/styles.xml" ContentType="{_TYPE}.styles+xml"/>'
    '<Override PartName="/docProps/core.xml" '
    'ContentType="application/vnd.openxmlformats-package.core-properties+xml"/></Types>'
)
_PACKAGE_RELATIONS = (
    f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="document" Type="{_RELATIONS}/officeDocument" Target="word/document.xml"/>'
    f'<Relationship Id="core" Type="{_PACKAGE}/relationships/metadata/core-properties" '
    'Target="docProps/core.xml"/></Relationships>'
)
_DOCUMENT_RELATIONS = (
    f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="styles" Type="{_RELATIONS}/styles" Target="styles.xml"/>'
)
_CORE_HEAD = (
    f'{_XML}<cp:coreProperties xmlns:cp="{_PACKAGE}/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
)
_DOCUMENT_HEAD = f'{_XML}<w:document xmlns:w="{_WORD}" xmlns:r="{_RELATIONS}"><w:body>'
_DOCUMENT_TAIL = (
    '<w:sectPr><w:pgSz w:w="11906" w:h="16838"/><w:pgMar w:top="1247" w:right="1304" '
    'w:bottom="1247" w:left="1304" w:header="708" w:footer="708" w:gutter="0"/></w:sectPr>'
    "</w:body></w:document>"
)


_BASED_ON_NORMAL = '<w:basedOn w:val="Normal"/>'


class _Style(NamedTuple):
    name: str
    paragraph: str
    letters: str


_STYLES = {
    "Normal": _Style(
        "Normal",
        '<w:spacing w:after="120" w:line="271" w:lineRule="auto"/>',
        '<w:rFonts w:ascii="Cambria" w:hAnsi="Cambria" w:cs="Times New Roman"/>'
        '<w:sz w:val="22"/><w:szCs w:val="22"/>',
    ),
    "Title": _Style(
        "Title", '<w:spacing w:after="60"/>', '<w:b/><w:sz w:val="40"/><w:szCs w:val="40"/>'
    ),
    "Heading1": _Style(
        "heading 1",
        '<w:keepNext/><w:spacing w:before="400" w:after="120"/><w:outlineLvl w:val="0"/>',
        '<w:b/><w:sz w:val="28"/><w:szCs w:val="28"/>',
    ),
    "Note": _Style(
        "Note", '<w:spacing w:after="120"/>', '<w:color w:val="575D69"/><w:sz w:val="18"/>'
    ),
    "Answer": _Style(
        "Answer",
        '<w:pBdr><w:left w:val="single" w:sz="24" w:space="8" w:color="2A4A8D"/></w:pBdr>'
        '<w:spacing w:after="140"/>',
        '<w:sz w:val="23"/>',
    ),
    "Source": _Style(
        "Source",
        '<w:keepNext/><w:spacing w:before="140" w:after="40"/>',
        '<w:b/><w:sz w:val="19"/>',
    ),
    "Quote": _Style(
        "Quote",
        '<w:pBdr><w:left w:val="single" w:sz="12" w:space="8" w:color="D8CBA9"/></w:pBdr>'
        '<w:shd w:val="clear" w:color="auto" w:fill="F5F0E4"/><w:ind w:left="284"/>',
        "",
    ),
}


def _build_styles() -> str:
    paragraphs = "".join(_render_style(key, style) for key, style in _STYLES.items())
    link = (
        '<w:style w:type="character" w:styleId="Hyperlink"><w:name w:val="Hyperlink"/>'
        '<w:rPr><w:color w:val="2A4A8D"/><w:u w:val="single"/></w:rPr></w:style>'
    )
    return f'{_XML}<w:styles xmlns:w="{_WORD}">{paragraphs}{link}</w:styles>'


def _render_style(key: str, style: _Style) -> str:
    first, based = (' w:default="1"', "") if key == "Normal" else ("", _BASED_ON_NORMAL)
    return (
        f'<w:style w:type="paragraph" w:styleId="{key}"{first}><w:name w:val="{style.name}"/>'
        f"{based}<w:qFormat/><w:pPr>{style.paragraph}</w:pPr><w:rPr>{style.letters}</w:rPr>"
        "</w:style>"
    )

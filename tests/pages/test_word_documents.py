"""What a reader of a Word document sees: fields, numbers, boxes, formulas, embedded documents."""

import io

import pytest
from docx import Document
from test_text_documents import OFFICE, PACKAGE, WORD, docx, paragraph

from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text
from rookery.records import Page

MATH = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
COMPATIBLE = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
DOCUMENT = "word/document.xml"


def read(body: str, **parts: str) -> Page:
    extra = {f"word/{name}.xml": content.encode() for name, content in parts.items()}
    return read_page(docx(body, extra=extra), "file:///a.docx")


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def field(kind: str) -> str:
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def list_hidden(page: Page) -> list[str]:
    return [page.text[one.start : one.end] for one in page.blocks if one.hidden]


def relate(**targets: str) -> str:
    listed = "".join(
        f'<Relationship Id="{name}" Type="{OFFICE}/{target.partition(" ")[0]}"'
        f' Target="{target.partition(" ")[2]}"/>'
        for name, target in targets.items()
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{listed}</Relationships>'


def test_results_of_fields_are_shown_and_instructions_are_not() -> None:
    menu = (
        '<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList><w:result w:val="1"/>'
        '<w:listEntry w:val="one"/><w:listEntry w:val="two"/>'
        "</w:ddList></w:ffData></w:fldChar></w:r>"
    )
    page = read(
        f'<w:p>{run("Table ")}<w:fldSimple w:instr="SEQ">{run("7")}</w:fldSimple>{run(", ")}'
        f"{field('begin')}{field('begin')}{field('separate')}{run('inner')}{field('end')}"
        f"{field('separate')}{run('page 3')}{field('end')}<w:bdo w:val='ltr'>{run(', ')}</w:bdo>"
        f"{menu}{field('end')}{run(' boats.')}</w:p>"
    )
    assert page.text == "Table 7, page 3, two boats."


@pytest.mark.parametrize(
    ("core", "title"), [("", "Lease of flat 7"), ("Word Document", "Lease of flat 7"), ("L7", "L7")]
)
def test_a_paragraph_in_the_style_of_titles_is_a_heading_and_the_title(
    core: str, title: str
) -> None:
    document, file = Document(), io.BytesIO()
    document.core_properties.title = core
    document.add_paragraph("Draft")
    for text in ("", "Lease"):
        document.add_heading(text, 0)
    document.paragraphs[2].add_run(" of house").font.strike = True
    document.paragraphs[2].add_run(" of flat 7")
    document.add_heading("1. Premises", 1)
    document.save(file)
    page = read_page(file.getvalue(), "file:///a.docx")
    assert page.title == title
    kinds = [(one.kind, page.text[one.start : one.end]) for one in page.blocks if not one.hidden]
    headings = (("heading", line) for line in ("Lease of flat 7", "1. Premises"))
    assert kinds == [("paragraph", "Draft"), *headings]


def test_readings_are_marks() -> None:
    ruby = f"<w:ruby><w:rt>{run('いど')}</w:rt><w:rubyBase>{run('井戸')}</w:rubyBase></w:ruby>"
    page = read(f"<w:p>{run('Wells are called ')}<w:r>{ruby}</w:r>{run(' in Japanese.')}</w:p>")
    assert page.text == "Wells are called 井戸 in Japanese."
    (mark,) = page.marks
    assert (mark.kind, mark.value, page.text[mark.start : mark.end]) == ("ruby", "いど", "井戸")


def test_hidden_struck_out_and_deleted_runs_are_hidden() -> None:
    styles = (
        f'<w:styles xmlns:w="{WORD}"><w:style w:type="paragraph" w:styleId="Old">'
        '<w:name w:val="Old"/><w:rPr><w:strike/></w:rPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="Older">'
        '<w:name w:val="Older"/><w:basedOn w:val="Old"/></w:style></w:styles>'
    )
    unstruck = '<w:strike w:val="0"/>'
    page = read(
        f"<w:p>{run('Shown')}{run(' secret', '<w:vanish/>')}{run(' 500', '<w:dstrike/>')}"
        f"{run(' 300', unstruck)}<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>"
        f"<w:ins>{run(' new')}</w:ins></w:p>"
        f'<w:p><w:pPr><w:pStyle w:val="Older"/></w:pPr>{run("withdrawn")}'
        f"{run('kept', unstruck)}</w:p>",
        styles=styles,
    )
    assert join_visible_text(page) == "Shown 300 new\n\nkept"
    assert " ".join(list_hidden(page)).split() == ["secret", "500", "gone", "withdrawn"]


def test_white_and_tiny_runs_are_hidden_where_nothing_is_behind_them() -> None:
    white, tiny = '<w:color w:val="FFFFFF"/>', '<w:sz w:val="1"/>'
    styles = (
        f'<w:styles xmlns:w="{WORD}"><w:docDefaults><w:rPrDefault><w:rPr><w:vanish/></w:rPr>'
        '</w:rPrDefault></w:docDefaults><w:style w:type="paragraph" w:styleId="Normal"><w:rPr>'
        '<w:vanish w:val="0"/></w:rPr></w:style><w:style w:type="paragraph" w:styleId="Dark">'
        '<w:basedOn w:val="Normal"/><w:pPr><w:shd w:fill="000000"/></w:pPr></w:style></w:styles>'
    )
    shown, dark = '<w:shd w:fill="000000"/>', '<w:pPr><w:pStyle w:val="Dark"/></w:pPr>'
    page = read(
        f"<w:p>{run('One')}{run(' white', white)}{run(' tiny', tiny)}"
        f"{run(' two', white + shown)}</w:p><w:p>{dark}{run('three', white)}</w:p>"
        f'<w:p><w:pPr><w:pStyle w:val="None"/></w:pPr>{run("vanished")}</w:p>'
        f"<w:tbl><w:tr><w:tc><w:p>{run('four', white)}</w:p></w:tc></w:tr></w:tbl>",
        styles=styles,
    )
    assert join_visible_text(page) == "One two\n\nthree\n\nfour"
    assert " ".join(list_hidden(page)).split() == ["white", "tiny", "vanished"]


def test_a_text_box_that_is_not_shown_is_hidden() -> None:
    box = (
        '<w:r><w:pict><v:shape xmlns:v="urn:schemas-microsoft-com:vml" style="visibility: {}">'
        "<v:textbox><w:txbxContent><w:p>{}</w:p></w:txbxContent></v:textbox></v:shape></w:pict></w:r>"
    )
    boxes = box.format("hidden", run("unseen")) + box.format("visible", run("seen"))
    assert join_visible_text(read(f"<w:p>{run('Text')}{boxes}</w:p>")) == "Text\n\nseen"


def test_numbers_of_lists_and_headings_stand_in_the_text() -> None:
    level = (
        '<w:lvl w:ilvl="{}"><w:start w:val="1"/><w:numFmt w:val="{}"/>'
        '<w:lvlText w:val="{}"/></w:lvl>'
    )
    numbering = (
        f'<w:numbering xmlns:w="{WORD}"><w:abstractNum w:abstractNumId="1">'
        f"{level.format(0, 'decimal', '%1.')}{level.format(1, 'decimal', '%1.%2')}"
        f"{level.format(2, 'lowerLetter', '(%3)')}</w:abstractNum>"
        '<w:num w:numId="5"><w:abstractNumId w:val="1"/></w:num><w:num w:numId="6">'
        '<w:abstractNumId w:val="1"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/>'
        "</w:lvlOverride></w:num></w:numbering>"
    )

    def item(text: str, depth: int, name: str = "5") -> str:
        return (
            f'<w:p><w:pPr><w:numPr><w:ilvl w:val="{depth}"/>'
            f'<w:numId w:val="{name}"/></w:numPr></w:pPr>'
            f"{run(text)}</w:p>"
        )

    page = read(
        item("Parties", 0) + item("Rent", 0) + item("Amount", 1) + paragraph("Between.")
        + item("Notice", 1) + item("in writing", 2) + item("End", 0) + item("Again", 0, "6"),
        numbering=numbering,
    )  # fmt: skip
    lines = [line for line in join_visible_text(page).split("\n") if line]
    assert lines == [
        "1. Parties", "2. Rent", "2.1 Amount", "Between.", "2.2 Notice", "(a) in writing", "3. End",
        "1. Again",
    ]  # fmt: skip


def test_text_boxes_are_read_once() -> None:
    box = f"<w:txbxContent>{paragraph('The gate is locked at nine.')}</w:txbxContent>"
    shape = f'<x:wsp xmlns:x="urn:shape"><x:txbx>{box}</x:txbx></x:wsp>'
    page = read(
        f"<w:p {COMPATIBLE}>{run('Before.')}<w:r><mc:AlternateContent><mc:Choice>"
        f"<w:drawing>{shape}</w:drawing></mc:Choice><mc:Fallback><w:pict>{box}</w:pict></mc:Fallback>"
        f"</mc:AlternateContent></w:r></w:p>"
    )
    assert page.text == "Before.\n\nThe gate is locked at nine."


def test_formulas_are_read_in_linear_notation() -> None:
    def term(text: str) -> str:
        return f"<m:r><m:t>{text}</m:t></m:r>"

    formula = (
        f"<m:f><m:num>{term('a+b')}</m:num><m:den>{term('2')}</m:den></m:f>{term('=')}<m:rad><m:deg/>"
        f"<m:e>{term('x')}</m:e></m:rad>{term('+')}<m:sSup><m:e>{term('d')}</m:e><m:sup>{term('2')}"
        f"</m:sup></m:sSup><m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr>"
        f"<m:sub>{term('i=1')}</m:sub>"
        f"<m:sup>{term('n')}</m:sup><m:e>{term('i')}</m:e></m:nary><m:d><m:e>{term('x')}</m:e></m:d>"
        f"<m:m><m:mr><m:e>{term('1')}</m:e><m:e>{term('0')}</m:e></m:mr></m:m>"
    )
    page = read(f"<w:p {MATH}>{run('Let ')}<m:oMath>{formula}</m:oMath>{run(' hold.')}</w:p>")
    assert page.text == "Let (a+b)/2=√x+d^2∑_(i=1)^n i(x)[1, 0] hold."


def test_embedded_documents_stand_at_their_place_or_are_told() -> None:
    chunk = f'<w:altChunk xmlns:r="{OFFICE}" r:id="{{}}"/>'
    body = paragraph("Cover.") + chunk.format("a") + chunk.format("b") + chunk.format("c")
    mail = (
        b'MIME-Version: 1.0\nContent-Type: text/html; charset="utf-8"\n\n<p>The kiln cools.</p>\n'
    )
    extra = {
        "word/_rels/document.xml.rels": relate(
            a="aFChunk a.htm", b="aFChunk b.mht", c="aFChunk c.bin"
        ).encode(),
        "word/a.htm": b"<html><body><p>The kiln reaches 1240 degrees.</p></body></html>",
        "word/b.mht": mail,
        "word/c.bin": b"\x00\x01\xff\xfe" * 9,
    }
    page = read_page(docx(body + paragraph("End."), extra=extra), "file:///a.docx")
    lines = join_visible_text(page).split("\n\n")
    assert lines[:3] == ["Cover.", "The kiln reaches 1240 degrees.", "The kiln cools."]
    assert lines[3].startswith("An embedded part is not read: c.bin")
    assert lines[4] == "End."

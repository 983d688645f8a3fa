"""What a reader of an office document sees, and what is hidden, struck out or deleted."""

import io
import zipfile

import pytest

from rookery.pages.page_reader import read_page
from rookery.pages.page_text import join_visible_text
from rookery.records import Page

OOXML = "http://schemas.openxmlformats.org"
SHEET = f'xmlns="{OOXML}/spreadsheetml/2006/main"'
RELATIONS = f"{OOXML}/officeDocument/2006/relationships"
OASIS = "urn:oasis:names:tc:opendocument:xmlns"


def pack(parts: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return packed.getvalue()


def relations(**targets: str) -> str:
    listed = "".join(
        f'<Relationship Id="{name}" Type="{RELATIONS}/{target.partition(" ")[0]}"'
        f' Target="{target.partition(" ")[2]}"/>'
        for name, target in targets.items()
    )
    return f'<Relationships xmlns="{OOXML}/package/2006/relationships">{listed}</Relationships>'


def workbook(rows: str, around: str = "", styles: str = "", state: str = "visible") -> bytes:
    return pack(
        {
            "_rels/.rels": relations(a="officeDocument xl/workbook.xml"),
            "xl/workbook.xml": f'<workbook {SHEET} xmlns:r="{RELATIONS}"><sheets>'
            '<sheet name="Open" r:id="a"/>'
            f'<sheet name="Kept" state="{state}" r:id="b"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations(
                a="worksheet one.xml", b="worksheet two.xml", c="styles styles.xml"
            ),
            "xl/one.xml": f"<worksheet {SHEET}>{around.partition('|')[0]}"
            f"<sheetData>{rows}</sheetData>{around.partition('|')[2]}</worksheet>",
            "xl/two.xml": f'<worksheet {SHEET}><sheetData><row r="1">{cell("A1", "second")}</row>'
            "</sheetData></worksheet>",
            "xl/styles.xml": f"<styleSheet {SHEET}>{styles}</styleSheet>",
        }
    )


def cell(place: str, text: str) -> str:
    return f'<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'


def open_document(body: str, styles: str = "", **parts: str) -> bytes:
    names = {"drawing": "draw", "datastyle": "number", "xsl-fo-compatible": "fo"}
    kinds = "office text table style presentation drawing".split()
    spaces = " ".join(f'xmlns:{names.get(kind, kind)}="{OASIS}:{kind}:1.0"' for kind in kinds)
    content = (
        f'<office:document-content {spaces} xmlns:loext="urn:org:documentfoundation"'
        ' xmlns:xlink="http://www.w3.org/1999/xlink">'
        f"<office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body>{body}</office:body></office:document-content>"
    )
    kind = "spreadsheet" if "office:spreadsheet" in body else "text"
    media = f"application/vnd.oasis.opendocument.{kind}"
    return pack({"mimetype": media, "content.xml": content, **parts})


def list_hidden(page: Page) -> list[str]:
    return [page.text[one.start : one.end] for one in page.blocks if one.hidden]


def test_hidden_sheets_rows_and_columns_are_kept_and_not_shown() -> None:
    rows = (
        f'<row r="1">{cell("A1", "boat")}{cell("B1", "fee")}{cell("C1", "margin")}</row>'
        f'<row r="2">{cell("A2", "sloop")}{cell("B2", "40")}{cell("C2", "12 percent")}</row>'
        f'<row r="3" hidden="1">{cell("A3", "yawl")}</row>'
    )
    data = workbook(rows, '<cols><col min="3" max="3" hidden="1"/></cols>|', state="veryHidden")
    page = read_page(data, "file:///a.xlsx")
    assert join_visible_text(page) == "Open\n\nboat | fee\nsloop | 40"
    assert {"margin", "12 percent", "yawl", "Kept", "second"} <= set(list_hidden(page))
    assert [mark.value for mark in page.marks if mark.kind == "sheet"] == ["Open"]


def test_merged_cells_of_a_sheet_stand_in_each_row_with_text() -> None:
    rows = (
        f'<row r="1">{cell("A1", "shed")}{cell("B1", "day")}</row>'
        f'<row r="2">{cell("A2", "north")}{cell("B2", "Monday")}</row>'
        f'<row r="3">{cell("B3", "Friday")}</row><row r="9">{cell("B9", "end")}</row>'
    )
    data = workbook(rows, '|<mergeCells><mergeCell ref="A2:A1048576"/></mergeCells>')
    assert "north | Monday\nnorth | Friday\nnorth | end" in join_visible_text(
        read_page(data, "file:///a.xlsx")
    )


def test_a_formula_without_a_value_is_told() -> None:
    rows = (
        f'<row r="1">{cell("A1", "all")}<c r="B1"><f>SUM(B2:B3)</f><v></v></c>'
        '<c r="C1" t="str"><f>A1</f><v></v></c><c r="D1"><f>1+1</f><v>2</v></c></row>'
    )
    page = read_page(workbook(rows), "file:///a.xlsx")
    shown = join_visible_text(page)
    assert "all | =SUM(B2:B3) [no stored value] | 2" in shown
    assert shown.endswith("A formula has no stored value: =SUM(B2:B3)")
    assert page.blocks[-1].furniture
    table = (
        '<office:spreadsheet><table:table table:name="S"><table:table-row>'
        '<table:table-cell table:formula="of:=SUM([.B2])"/></table:table-row></table:table>'
        "</office:spreadsheet>"
    )
    page = read_page(open_document(table), "file:///a.ods")
    assert "=SUM([.B2]) [no stored value]" in page.text


@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ("&quot;secret &quot;0%", "0.12", "secret 12%"), (";;;", "71000", ""),
        ("0.0 &quot;kg&quot;", "3.14159", "3.1 kg"),
        ("#,##0\\ &quot;crowns&quot;", "1200", "1,200 crowns"),
        ("0;(0);&quot;none&quot;", "0", "none"), ("0;(0);&quot;none&quot;", "-4", "(4)"),
        ("&quot;yes&quot;;;&quot;no&quot;", "1", "yes"),
        ("[$€-407] #,##0.00", "1234.5", "€ 1,234.50"),
        ("#,##0.00", "1234.5", "1,234.50"), ("0.0,,&quot;M&quot;", "1500000", "1.5M"),
        ("0.00E+00", "1234.5", "1.23E+03"), ("0.00", "1.005", "1.01"), ("0", "-0.3", "0"),
        ("00000", "1234", "01234"), ("0.0##", "1.5", "1.5"), ("$0;[Red]$0", "-5", "$5"),
        ("$0", "-5", "-$5"),
        ("000-0000", "5551234", "5551234"), ("# ?/?", "0.5", "0.5"), ("General", "2.5", "2.5"),
        ("[&gt;9]&quot;many&quot;;&quot;few&quot;", "3", "3"), ("d/m/yyyy", "45352", "2024-03-01"),
    ],
)  # fmt: skip
def test_number_formats_add_their_text(code: str, value: str, shown: str) -> None:
    styles = (
        f'<numFmts><numFmt numFmtId="170" formatCode="{code}"/></numFmts>'
        '<cellXfs><xf/><xf numFmtId="170"/></cellXfs>'
    )
    rows = f'<row r="1">{cell("A1", "x")}<c r="B1" s="1"><v>{value}</v></c></row>'
    page = read_page(workbook(rows, styles=styles), "file:///a.xlsx")
    assert join_visible_text(page).split("\n\n")[1] == f"x | {shown}".removesuffix(" | ")


@pytest.mark.parametrize(
    ("number", "value", "shown"),
    [(1, "2.5", "3"), (3, "1234.5", "1,235"), (11, "12345", "1.23E+04"), (37, "-5", "(5)")],
)
def test_numbers_are_written_as_built_in_formats_show_them(
    number: int, value: str, shown: str
) -> None:
    styles = f'<cellXfs><xf numFmtId="{number}"/></cellXfs>'
    page = read_page(workbook(f'<row r="1"><c r="A1"><v>{value}</v></c></row>', styles=styles), "a")
    assert join_visible_text(page).split("\n\n")[1] == shown


def test_cells_that_nobody_sees_are_hidden() -> None:
    styles = (
        '<fonts><font/><font><color rgb="FFFFFFFF"/></font><font><sz val="1"/></font></fonts>'
        '<fills><fill/><fill><patternFill patternType="solid"><fgColor rgb="FF000000"/>'
        '</patternFill></fill></fills><cellXfs><xf/><xf fontId="1"/><xf fontId="1" fillId="1"/>'
        '<xf fontId="2"/></cellXfs>'
    )
    styled = "".join(
        f'<c r="{at}2" s="{style}"><v>1{style}</v></c>'
        for style, at in zip((0, 1, 3, 2), "ABCD", strict=True)
    )
    rows = (
        f'<row r="1">{cell("A1", "whole")}{cell("B1", "covered")}{cell("C1", "free")}</row>'
        f'<row r="2">{styled}</row><row r="3" ht="0" customHeight="1">{cell("A3", "flat")}</row>'
        f'<row r="4">{cell("A4", "below")}{cell("C4", "last")}{cell("E4", "narrow")}</row>'
    )
    around = (
        '<cols><col min="5" max="5" width="0"/></cols>|<mergeCells><mergeCell ref="A1:B1"/>'
        '<mergeCell ref="C1:C4"/></mergeCells>'
    )
    page = read_page(workbook(rows, around, styles), "file:///a.xlsx")
    seen = join_visible_text(page).split("\n\n")[1]
    assert seen == "whole | | free\n10 | | free | 12\nbelow | | free"
    assert set("11 13 covered flat last narrow".split()) <= set(list_hidden(page))


def test_struck_out_cells_are_hidden() -> None:
    struck = "<fonts><font/><font><strike/></font></fonts>"
    styles = f'{struck}<cellXfs><xf/><xf fontId="1"/></cellXfs>'
    rows = (
        f'<row r="1">{cell("A1", "day")}<c r="B1" s="1"><v>500</v></c>'
        '<c r="C1"><v>300</v></c></row>'
        '<row r="2"><c r="A2" t="inlineStr"><is><r><rPr><strike/></rPr><t>old </t></r>'
        "<r><t>new</t></r></is></c></row>"
    )
    page = read_page(workbook(rows, styles=styles), "file:///a.xlsx")
    assert join_visible_text(page) == "Open\n\nday | | 300\nnew\n\nKept\n\nsecond"
    assert list_hidden(page)[:2] == ["500", "old"]


def test_hidden_slides_and_struck_out_runs_are_hidden() -> None:
    space = f'xmlns:p="{OOXML}/presentationml/2006/main" xmlns:a="{OOXML}/drawingml/2006/main"'
    run = "<a:r><a:rPr{}/><a:t>{}</a:t></a:r>"
    slide = (
        "<p:sld {} {}><p:cSld><p:spTree><p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr><p:txBody><a:p>{}</a:p>"
        "</p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
    )
    struck = run.format(' strike="sngStrike"', "500 ") + run.format("", "300 crowns")
    parts = {
        "_rels/.rels": relations(a="officeDocument ppt/presentation.xml"),
        "ppt/presentation.xml": f'<p:presentation {space} xmlns:r="{RELATIONS}"><p:sldIdLst>'
        '<p:sldId r:id="a"/><p:sldId r:id="b"/></p:sldIdLst></p:presentation>',
        "ppt/_rels/presentation.xml.rels": relations(a="slide a.xml", b="slide b.xml"),
        "ppt/a.xml": slide.format(space, "", struck),
        "ppt/b.xml": slide.format(space, 'show="0"', run.format("", "withdrawn")),
    }
    page = read_page(pack(parts), "file:///a.pptx")
    assert join_visible_text(page) == "300 crowns"
    assert list_hidden(page) == ["500", "withdrawn"]


def read_slide(shapes: str, notes: str = "") -> Page:
    space = (
        f'xmlns:p="{OOXML}/presentationml/2006/main" xmlns:a="{OOXML}/drawingml/2006/main"'
        f' xmlns:r="{RELATIONS}"'
    )
    slides = '<p:sldIdLst><p:sldId r:id="a"/></p:sldIdLst><p:sldSz cx="900" cy="700"/>'
    whole = "<p:{0} {1}><p:cSld><p:spTree>{2}</p:spTree></p:cSld></p:{0}>"
    parts = {
        "_rels/.rels": relations(a="officeDocument ppt/presentation.xml"),
        "ppt/presentation.xml": f"<p:presentation {space}>{slides}</p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(a="slide one.xml"),
        "ppt/one.xml": whole.format("sld", space, shapes),
        "ppt/_rels/one.xml.rels": relations(a="notesSlide two.xml"),
        "ppt/two.xml": whole.format("notes", space, notes),
    }
    return read_page(pack(parts), "file:///a.pptx")


def test_shapes_runs_and_cells_of_a_slide_that_nobody_sees_are_hidden() -> None:
    def write(text: str, more: str = "", inner: str = "", box: str = "") -> str:
        run = f"<a:r><a:rPr {more}>{inner}</a:rPr><a:t>{text}</a:t></a:r>"
        name = f"<p:nvSpPr><p:cNvPr id='1' {box}/></p:nvSpPr>"
        return f"<p:sp>{name}<p:txBody><a:p>{run}</a:p></p:txBody></p:sp>"

    clear = '<a:solidFill><a:srgbClr val="000000"><a:alpha val="{}"/></a:srgbClr></a:solidFill>'
    cell = "<a:tc {}><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>"
    group = '<p:grpSp><p:nvGrpSpPr><p:cNvPr id="2" hidden="1"/></p:nvGrpSpPr>{}</p:grpSp>'
    page = read_slide(
        write("seen")
        + write("no box", box='hidden="1"')
        + group.format(write("no group"))
        + write("tiny", 'sz="100"')
        + write("unfilled", inner="<a:noFill/>")
        + write("clear", inner=clear.format(0))
        + write("half", inner=clear.format(50000))
        + "<p:graphicFrame><a:tbl><a:tr>"
        + cell.format('gridSpan="2"', "wide")
        + cell.format('hMerge="1"', "covered")
        + "</a:tr></a:tbl></p:graphicFrame>"
    )
    assert join_visible_text(page).split() == ["seen", "half", "wide"]
    unseen = ["no box", "no group", "tiny", "unfilled", "clear", "covered"]
    assert sorted(list_hidden(page)) == sorted(unseen)


def test_notes_and_shapes_beside_the_slide_are_hidden() -> None:
    def place(x: int, y: int, text: str, inner: str = "") -> str:
        own = f'<a:xfrm><a:off x="{x}" y="{y}"/><a:ext cx="100" cy="50"/>{inner}</a:xfrm>'
        if inner:
            return f"<p:grpSp><p:grpSpPr>{own}</p:grpSpPr>{text}</p:grpSp>"
        words = f"<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody>"
        return f"<p:sp><p:spPr>{own}</p:spPr>{words}</p:sp>"

    alike = '<a:chOff x="0" y="0"/><a:chExt cx="100" cy="50"/>'
    moved = '<a:chOff x="2000" y="0"/><a:chExt cx="100" cy="50"/>'
    page = read_slide(
        place(10, 10, "seen")
        + place(-99, 690, "corner")
        + place(-101, 10, "left")
        + place(10, 700, "below")
        + place(0, 0, place(900, 10, "in group") + place(0, 0, "group"), alike)
        + place(0, 0, place(2010, 10, "moved"), moved),
        notes=place(10, 10, "noted"),
    )
    assert join_visible_text(page).split() == ["seen", "corner", "group", "moved"]
    assert sorted(list_hidden(page)) == ["below", "in group", "left", "noted"]
    notes = "<presentation:notes><text:p>noted</text:p></presentation:notes>"
    slide = f"<draw:page><text:p>seen</text:p>{notes}</draw:page>"
    body = f"<office:presentation>{slide}</office:presentation>"
    page = read_page(open_document(body), "file:///a.odp")
    assert (join_visible_text(page), list_hidden(page)) == ("seen", ["noted"])


def test_raised_and_lowered_numbers_are_no_other_numbers() -> None:
    runs = "".join(
        f"<a:r>{more}<a:t>{text}</a:t></a:r>"
        for text, more in (("10", ""), ("2", '<a:rPr baseline="30000"/>'), (" m", ""))
    )
    box = f"<p:sp><p:txBody><a:p>{runs}</a:p></p:txBody></p:sp>"
    raised = '<style:text-properties style:text-position="{}"/></style:style>'
    styles = (
        f'<style:style style:name="S" style:family="text">{raised.format("super 58%")}'
        f'<style:style style:name="N" style:family="text">{raised.format("0% 100%")}'
    )
    body = (
        '<office:text><text:p>10<text:span text:style-name="S">2</text:span>'
        '<text:span text:style-name="N"> m</text:span></text:p></office:text>'
    )
    rich = (
        '<row r="1"><c r="A1" t="inlineStr"><is><r><t>10</t></r><r><rPr><vertAlign '
        'val="superscript"/></rPr><t>2</t></r><r><t xml:space="preserve"> m</t></r></is></c></row>'
    )
    pages = (
        read_slide(box),
        read_page(open_document(body, styles), "file:///a.odt"),
        read_page(workbook(rich), "file:///a.xlsx"),
    )
    for page in pages:
        assert "10^2 m" in join_visible_text(page)


def test_white_and_tiny_text_of_libreoffice_is_hidden() -> None:
    space = 'xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'
    style = (
        f'<style:style {space} style:name="{{}}" style:family="text">'
        "<style:text-properties {}/></style:style>"
    )
    styles = style.format("W", 'fo:color="#FFFFFF"') + style.format("T", 'fo:font-size="1pt"')
    body = (
        '<office:text><text:p>seen<text:span text:style-name="W"> white</text:span>'
        '<text:span text:style-name="T"> tiny</text:span></text:p><text:p><text:hidden-paragraph '
        'text:is-hidden="true"/>gone</text:p></office:text>'
    )
    page = read_page(open_document(body, styles), "file:///a.odt")
    assert join_visible_text(page) == "seen"
    assert list_hidden(page) == ["white", "tiny", "gone"]
    styles += style.format("D", 'fo:background-color="#000000"')
    page = read_page(open_document(body, styles), "file:///a.odt")
    assert join_visible_text(page) == "seen white"


def test_fields_and_readings_of_a_text_document_are_read() -> None:
    body = (
        "<office:text><text:p>See <text:bookmark-ref>Table 1</text:bookmark-ref>, page"
        " <text:page-number>3</text:page-number>; <text:ruby><text:ruby-base>井戸</text:ruby-base>"
        "<text:ruby-text>いど</text:ruby-text></text:ruby> and <loext:content-control>welcome"
        "</loext:content-control>.</text:p></office:text>"
    )
    page = read_page(open_document(body), "file:///a.odt")
    assert page.text == "See Table 1, page 3; 井戸 and welcome."
    assert [(mark.kind, mark.value) for mark in page.marks] == [("ruby", "いど")]


def test_hidden_and_struck_out_text_of_a_text_document_is_hidden() -> None:
    styles = (
        '<style:style style:family="text" style:name="T1"><style:text-properties'
        ' text:display="none"/></style:style><style:style style:family="paragraph"'
        ' style:name="P1"><style:text-properties style:text-line-through-style="solid"/>'
        '</style:style><style:style style:family="paragraph" style:name="P2"'
        ' style:parent-style-name="P1"/>'
    )
    body = (
        "<office:text><text:tracked-changes><text:changed-region><text:deletion>"
        "<office:change-info>someone</office:change-info><text:p>deleted</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes>"
        '<text:p>Shown<text:span text:style-name="T1"> internal</text:span>.</text:p>'
        '<text:p text:style-name="P2">withdrawn</text:p>'
        '<text:section text:display="none"><text:p>section</text:p></text:section>'
        '<text:p>End<text:hidden-text text:is-hidden="true">why</text:hidden-text></text:p>'
        "</office:text>"
    )
    page = read_page(open_document(body, styles), "file:///a.odt")
    assert join_visible_text(page) == "Shown.\n\nEnd"
    assert list_hidden(page) == ["deleted", "internal", "withdrawn", "section", "why"]


def test_tables_of_libreoffice_hide_and_merge() -> None:
    styles = (
        '<style:style style:family="table" style:name="ta2"><style:table-properties'
        ' table:display="false"/></style:style><style:style style:family="table-cell"'
        ' style:name="ce1"><style:text-properties style:text-line-through-type="single"/>'
        "</style:style>"
    )
    one = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>"
    north = one.format(' table:number-rows-spanned="2"', "north")
    struck = one.format(' table:style-name="ce1"', "500")
    rows = (
        f"<table:table-row>{north}{one.format('', 'Monday')}{one.format('', 'secret')}{struck}"
        "</table:table-row><table:table-row><table:covered-table-cell/>"
        f"{one.format('', 'Friday')}</table:table-row>"
        f'<table:table-row table:visibility="collapse">{one.format("", "folded")}</table:table-row>'
    )
    columns = (
        '<table:table-column table:number-columns-repeated="2"/>'
        '<table:table-column table:visibility="collapse"/>'
    )
    sheets = (
        f'<office:spreadsheet><table:table table:name="A">{columns}{rows}</table:table>'
        f'<table:table table:name="B" table:style-name="ta2"><table:table-row>'
        f"{one.format('', 'hidden sheet')}</table:table-row></table:table></office:spreadsheet>"
    )
    page = read_page(open_document(sheets, styles), "file:///a.ods")
    assert join_visible_text(page) == "A\n\nnorth | Monday\nnorth | Friday"
    assert sorted(list_hidden(page)) == ["500", "B", "folded", "hidden sheet", "secret"]


def test_lists_and_headings_of_libreoffice_have_their_numbers() -> None:
    level = (
        '<text:list-level-style-number text:level="{}" style:num-format="{}" style:num-suffix="{}"'
        ' text:display-levels="{}"/>'
    )
    styles = (
        f'<text:list-style style:name="L1">{level.format(1, "1", ".", 1)}'
        f"{level.format(2, 'a', ')', 1)}</text:list-style>"
        '<text:outline-style style:name="Outline">'
        f"{level.replace('list-level-style-number', 'outline-level-style').format(1, '1', '', 1)}"
        f"{level.replace('list-level-style-number', 'outline-level-style').format(2, '1', '', 2)}"
        "</text:outline-style>"
    )
    item = "<text:list-item><text:p>{}</text:p>{}</text:list-item>"
    body = (
        '<office:text><text:h text:outline-level="1">Rent</text:h>'
        '<text:h text:outline-level="2">Amount</text:h>'
        '<text:h text:outline-level="2">Notice</text:h>'
        f'<text:list text:style-name="L1">{item.format("one", "")}'
        f"{item.format('two', '<text:list>' + item.format('inner', '') + '</text:list>')}"
        "</text:list>"
        "<text:p>Between.</text:p>"
        f'<text:list text:style-name="L1" text:continue-numbering="true">{item.format("three", "")}'
        f'</text:list><text:list text:style-name="L1">{item.format("new", "")}</text:list>'
        "</office:text>"
    )
    shown = join_visible_text(read_page(open_document(body, styles), "file:///a.odt")).split("\n")
    assert [line for line in shown if line] == [
        "1 Rent", "1.1 Amount", "1.2 Notice", "1. one", "2. two", "a) inner", "Between.",
        "3. three", "1. new",
    ]  # fmt: skip


def test_formulas_of_libreoffice_are_read_and_other_objects_told() -> None:
    formula = (
        '<math xmlns="http://www.w3.org/1998/Math/MathML"><semantics><mrow><mi>Q</mi><mo>=</mo>'
        "<msup><mi>d</mi><mn>2</mn></msup></mrow><annotation>Q = d^2</annotation>"
        "</semantics></math>"
    )
    frame = '<draw:frame><draw:object xlink:href="./{}"/></draw:frame>'
    body = (
        f"<office:text><text:p>The flow is {frame.format('O1')} litres.</text:p>"
        f"<text:p>Chart {frame.format('O2')}</text:p></office:text>"
    )
    page = read_page(open_document(body, **{"O1/content.xml": formula}), "file:///a.odt")
    assert page.text.startswith("The flow is Q=d^2 litres.")
    assert page.text.endswith("An embedded part is not read: O2")
    assert page.blocks[-1].furniture


@pytest.mark.parametrize("style", ["Title", "P1", "P2"])
def test_a_paragraph_in_the_style_of_titles_is_a_heading_and_the_title(style: str) -> None:
    styles = "".join(
        f'<style:style style:name="{name}" style:family="paragraph" style:parent-style-name='
        f'"{parent}"/>'
        for name, parent in (("P1", "Title"), ("P2", "Standard"))
    )
    body = (
        '<office:text><text:p text:style-name="P2">Draft</text:p>'
        f'<text:p text:style-name="{style}">Lease<text:line-break/>of flat 7</text:p>'
        "<text:h>1. Premises</text:h></office:text>"
    )
    page = read_page(open_document(body, styles), "file:///a.odt")
    assert page.title == ("1. Premises" if style == "P2" else "Lease of flat 7")
    kinds = [(one.kind, page.text[one.start : one.end]) for one in page.blocks]
    assert kinds[:2] == [
        ("paragraph", "Draft"),
        ("paragraph" if style == "P2" else "heading", "Lease\nof flat 7"),
    ]

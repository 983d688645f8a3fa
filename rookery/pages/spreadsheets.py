"""Read XLSX: each sheet a table under its name, values as the spreadsheet shows them.

The rows are kept sparse: a reader that lays them out in memory is ended by two cells far apart.
"""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from html import escape
from xml.etree.ElementTree import Element

from rookery.errors import Outcome
from rookery.pages.document_archive import DocumentArchive
from rookery.pages.office_documents import read_core_title
from rookery.pages.page_parts import NOWHERE, PagePart, build_sparse_table, join_parts, read_part
from rookery.pages.text_documents import ReadLimits, build_read_error
from rookery.records import Page

_FORMATS = {
    9: "0%", 10: "0.00%", 14: "y-m-d", 15: "y-m-d", 16: "y-m-d", 17: "y-m-d", 18: "h:mm",
    19: "h:mm:ss", 20: "h:mm", 21: "h:mm:ss", 22: "y-m-d h:mm", 45: "h:mm:ss", 46: "[h]:mm:ss",
    47: "h:mm:ss",
}  # fmt: skip
"""The built-in number formats of percentages, dates and times, by their meaning"""
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
    archive = DocumentArchive(data, url, limits)
    return join_parts(_read_sheets(archive), url, fetched, read_core_title(archive), limits)


def _read_sheets(archive: DocumentArchive) -> Iterator[PagePart]:
    main = archive.find_main_part("xl/workbook.xml")
    relations = archive.read_relations(main)
    book = archive.parse_part(main)
    if book is None:
        raise build_read_error(archive.url, Outcome.MALFORMED, "the archive holds no workbook")
    named = dict(relations.values())
    shared = archive.parse_part(named.get("sharedStrings", ""))
    texts = [] if shared is None else [_read_rich_text(item) for item in shared.iterfind("x.si")]
    properties = book.find("x.workbookPr")
    from_1904 = properties is not None and properties.get("date1904") in ("1", "true")
    values = _CellReader(
        texts, _read_formats(archive.parse_part(named.get("styles", ""))), from_1904
    )
    for sheet in book.iterfind("x.sheets/x.sheet"):
        kind, part = relations.get(sheet.get("r.id", ""), ("", ""))
        content = archive.parse_part(part) if kind == "worksheet" else None
        if content is None:
            continue
        rows = [
            cells
            for row in content.iterfind("x.sheetData/x.row")
            if (cells := dict(values.read_row(row)))
        ]
        name = sheet.get("name", "")
        table = build_sparse_table(rows, True, archive.limits)
        html = f"<h2>{escape(name)}</h2>{table}" if table else ""
        yield PagePart(read_part(html, NOWHERE, archive.limits), "sheet", name)


def _read_rich_text(item: Element) -> str:
    """Return the HTML of a cell's text, without its readings for East Asian scripts."""
    runs = (run for run in item if run.tag != "x.rPh")
    return _escape_cell(
        "".join((run.text if run.tag == "x.t" else run.findtext("x.t")) or "" for run in runs)
    )


def _escape_cell(text: str) -> str:
    return escape(text.strip()).replace("\n", "<br>")


def _read_formats(styles: Element | None) -> list[str]:
    """Return the number format of each cell style, where it is one of percentages, dates or times;
    empty for others."""
    if styles is None:
        return []
    own = {
        one.get("numFmtId", ""): one.get("formatCode", "")
        for one in styles.iterfind("x.numFmts/x.numFmt")
    }
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

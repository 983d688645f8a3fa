"""Search for rows of tables, by a name of a column and a name of a row; nothing is written.

Twelve files of each kind have a row for each of the same sixty places, and three columns of their
own; the rows of two places in five stand under a place of their own, which is merged over them.
What is asked for is the passage with the row, in the file with the column: recall@1 and recall@5.
"json" are values of several thousand characters, asked for by their key and a word of their end.

    python -m bench.tables
"""

import io
import zipfile
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import docx

from bench.report import print_table
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page

FILES, PLACES, COLUMNS, KS = 12, 60, 3, (1, 5)


class Table(NamedTuple):
    """A table, and the groups of its rows."""

    names: list[str]
    rows: list[list[str]]


def make_words(random: Random, count: int) -> list[str]:
    """Return made-up words of three syllables, each once."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aiou"]
    words = set[str]()
    while len(words) < count:
        words.add("".join(random.choices(syllables, k=3)).capitalize() + "k")
    return sorted(words)


def make_tables(random: Random) -> list[Table]:
    """Return tables of the same places, each with columns of its own."""
    words = make_words(random, PLACES + FILES * COLUMNS)
    random.shuffle(words)
    places, columns = words[:PLACES], words[PLACES:]
    return [
        Table(
            ["Place", *columns[at * COLUMNS : (at + 1) * COLUMNS]],
            [
                [place, *(f"{random.randrange(10**6):,}" for _ in range(COLUMNS))]
                for place in places
            ],
        )
        for at in range(FILES)
    ]


def join_html(table: Table, head: str) -> str:
    """Return the table as HTML, with `head` as the tag of the cells of its first row."""
    lines = [(head, table.names), *(("td", row) for row in table.rows)]
    return "".join(
        "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in row) + "</tr>" for tag, row in lines
    )


def write_html(table: Table, head: str = "th") -> bytes:
    """Write a page with a table and a sentence before it."""
    body = f"<p>These are the figures of the year.</p><table>{join_html(table, head)}</table>"
    return f"<html><body><main>{body}</main></body></html>".encode()


def write_spans(table: Table) -> bytes:
    """Write a table with two rows of names, and with a cell that stands for five rows."""
    span, top = f"<th rowspan=2>Part</th><th rowspan=2>{table.names[0]}</th>", table.names[1:]
    head = f"<tr>{span}<th colspan=2>{top[0]}</th><th>{top[1]}</th><th>{top[2]}</th></tr>"
    head += "<tr><th>first</th><th>second</th><th>net</th><th>net</th></tr>"
    rows = [
        f"<tr>{f'<th rowspan=5>Part {at // 5}</th>' * (at % 5 == 0)}<td>{row[0]}<td>{row[1]}<td>"
        f"{row[1]}<td>{row[2]}<td>{row[3]}</tr>"
        for at, row in enumerate(table.rows)
    ]
    body = f"<table>{head}{''.join(rows)}</table>"
    return f"<html><body><main>{body}</main></body></html>".encode()


def write_delimited(table: Table, mark: str) -> bytes:
    """Write the table with a mark between cells."""
    lines = [table.names, *([cell.replace(",", " ") for cell in row] for row in table.rows)]
    return "\n".join(mark.join(line) for line in lines).encode()


def write_markdown(table: Table) -> bytes:
    """Write the table in Markdown."""
    lines = [table.names, ["---"] * len(table.names), *table.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).encode()


def write_docx(table: Table) -> bytes:
    """Write a document of Word without a row of headings."""
    document, lines = docx.Document(), [table.names, *table.rows]
    grid = document.add_table(len(lines), len(table.names))
    for row, line in zip(grid.rows, lines, strict=True):
        for cell, text in zip(row.cells, line, strict=True):
            cell.text = text
    document.save(file := io.BytesIO())
    return file.getvalue()


def write_odt(table: Table) -> bytes:
    """Write a text document of LibreOffice with a row of headings."""

    def join_row(row: list[str]) -> str:
        cells = (f"<table:table-cell><text:p>{one}</text:p></table:table-cell>" for one in row)
        return f"<table:table-row>{''.join(cells)}</table:table-row>"

    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text")
    )
    head = f"<table:table-header-rows>{join_row(table.names)}</table:table-header-rows>"
    body = f"<table:table>{head}{''.join(map(join_row, table.rows))}</table:table>"
    content = f"<office:document-content{names}><office:body><office:text>{body}"
    content += "</office:text></office:body></office:document-content>"
    return pack({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})


def write_xlsx(table: Table) -> bytes:
    """Write a workbook whose first row is a title."""
    lines = [["The figures of the year"], table.names, *table.rows]
    cell = '<c t="inlineStr"><is><t>{}</t></is></c>'
    rows = "".join(f"<row>{''.join(map(cell.format, line))}</row>" for line in lines)
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    packed = "http://schemas.openxmlformats.org/package/2006/relationships"
    sheet = f'<sheet name="Sheet1" sheetId="1" r:id="r1" xmlns:r="{office}"/>'

    def relate(name: str, target: str) -> str:
        one = f'<Relationship Id="r1" Type="{office}/{name}" Target="{target}"/>'
        return f'<Relationships xmlns="{packed}">{one}</Relationships>'

    types = "http://schemas.openxmlformats.org/package/2006/content-types"
    return pack(
        {
            "[Content_Types].xml": f'<Types xmlns="{types}"/>',
            "_rels/.rels": relate("officeDocument", "xl/workbook.xml"),
            "xl/workbook.xml": f'<workbook xmlns="{main}"><sheets>{sheet}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relate("worksheet", "worksheets/sheet1.xml"),
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{rows}'
            "</sheetData></worksheet>",
        }
    )


def pack(parts: dict[str, str]) -> bytes:
    """Return a ZIP file of these parts."""
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return file.getvalue()


KINDS: dict[str, tuple[str, Callable[[Table], bytes]]] = {
    "CSV": ("csv", lambda table: write_delimited(table, ",")),
    "TSV": ("tsv", lambda table: write_delimited(table, "\t")),
    "HTML, th": ("html", write_html),
    "HTML, td": ("html", lambda table: write_html(table, "td")),
    "HTML, merged": ("html", write_spans),
    "Markdown": ("md", write_markdown),
    "Word": ("docx", write_docx),
    "OpenDocument": ("odt", write_odt),
    "Excel, titled": ("xlsx", write_xlsx),
}


def measure_tables(ending: str, write: Callable[[Table], bytes]) -> Iterator[int]:
    """Yield the rank, from 0, of the row that each question asks for; KS[-1] where it is missed."""
    random = Random(0)
    tables = make_tables(random)
    urls = [f"file:///{number}.{ending}" for number in range(FILES)]
    pages = [read_page(write(table), url) for table, url in zip(tables, urls, strict=True)]
    library = InMemoryLibrary(pages)
    for page, table in zip(pages, tables, strict=True):
        for row in random.sample(table.rows, 20):
            column = random.choice(table.names[1:])
            hits = library.search(f"What is the {column} of {row[0]}?", KS[-1])
            value = row[table.names.index(column)]
            good = (
                number
                for number, hit in enumerate(hits)
                if hit.url == page.url
                and value.replace(",", "")
                in page.text[hit.start : hit.end].translate({44: "", 32: ""})
            )
            yield next(good, KS[-1])


def measure_values() -> Iterator[int]:
    """Yield the rank of the end of each long value of JSON, asked for by its key and its words."""
    random = Random(0)
    words, common = make_words(random, 300), make_words(random, 40)
    keys, ends = words[:60], words[60:300:4]
    random.shuffle(ends)

    def write(numbers: range) -> str:
        parts = []
        for number in numbers:
            text = " ".join(random.choices(common, k=400))
            parts.append(f'"{keys[number]}": "{text} {ends[number % 20]} {number}"')
        return "{" + ", ".join(parts) + "}"

    pages = [
        read_page(write(range(at, at + 5)).encode(), f"file:///{at}.json") for at in range(0, 60, 5)
    ]
    library = InMemoryLibrary(pages)
    by_url = {page.url: page for page in pages}
    for number, key in enumerate(keys):
        hits = library.search(f"What is the {ends[number % 20]} of {key}?", KS[-1])
        end = f'{ends[number % 20]} {number}"'
        good = (n for n, h in enumerate(hits) if end in by_url[h.url].text[h.start : h.end])
        yield next(good, KS[-1])


def main() -> None:
    """Print the table."""
    ranks = {name: list(measure_tables(*kind)) for name, kind in KINDS.items()}
    ranks["JSON, long values"] = list(measure_values())
    columns = [f"recall@{k}" for k in KS]
    recall = {
        name: {f"recall@{k}": sum(rank < k for rank in some) / len(some) for k in KS}
        for name, some in ranks.items()
    }
    print_table(columns, recall)


if __name__ == "__main__":
    main()

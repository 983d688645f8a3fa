"""Passages: rows are found by the names of their columns, and what is read has a format."""

from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from rookery.library.libraries import get_bundled_folder
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.pages.passages import (
    READER_FORMAT,
    build_index_entries,
    cut_passages,
    find_labels,
    find_sentences,
    get_headings_above,
    list_table_rows,
)
from rookery.records import Page

ROWS = [(f"Town{number}", 100 + number, 7000 + number) for number in range(40)]
HTML_ROWS = "".join(f"<tr><td>{name}<td>{a}<td>{b}</tr>" for name, a, b in ROWS)
NAMES = ("Town", "Wells", "Ferries")


def read(text: str, name: str = "a.html") -> Page:
    return read_page(text.encode(), f"file:///{name}")


def read_table(rows: str) -> Page:
    return read(f"<html><body><main><h1>Parish</h1><table>{rows}</table></main></body></html>")


TABLES = {
    "header cells": read_table(f"<tr><th>Town<th>Wells<th>Ferries</tr>{HTML_ROWS}"),
    "a head of data cells": read_table(
        f"<thead><tr><td>Town<td>Wells<td>Ferries</tr></thead>{HTML_ROWS}"
    ),
    "no header cells": read_table(f"<tr><td>Town<td>Wells<td>Ferries</tr>{HTML_ROWS}"),
    "a title above": read_table(
        f"<tr><td>Figures</tr><tr><td>Town<td>Wells<td>Ferries</tr>{HTML_ROWS}"
    ),
    "merged header cells": read_table(
        "<tr><th rowspan=2>Town<th colspan=2>Counted</tr><tr><th>Wells<th>Ferries</tr>" + HTML_ROWS
    ),
    "Markdown": read(
        "| Town | Wells | Ferries |\n|---|---|---|\n"
        + "".join(f"| {name} | {a} | {b} |\n" for name, a, b in ROWS),
        "a.md",
    ),
    "CSV": read("\n".join([",".join(NAMES), *(f"{n},{a},{b}" for n, a, b in ROWS)]), "a.csv"),
    "TSV": read("\n".join(["\t".join(NAMES), *(f"{n}\t{a}\t{b}" for n, a, b in ROWS)]), "a.tsv"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_each_row_is_found_by_the_names_of_its_columns_and_quoted_without_them(kind: str) -> None:
    page = TABLES[kind]
    (end,) = (page.text.index(name) for name, *_ in ROWS[-1:])
    assert all(name in get_headings_above(page, end) for name in NAMES)
    other = Page("file:///other", "Others", page.text.replace("Wells", "Mills"), page.blocks)
    library = InMemoryLibrary([page, other])
    for name, *_ in (ROWS[0], ROWS[17], ROWS[39]):
        hit = library.search(f"How many wells has {name}?", 1)[0]
        found = page.text[hit.start : hit.end]
        assert (hit.url, name in found) == (page.url, True)
        assert "Wells" not in found or name == "Town0"


def test_no_passage_begins_within_a_row() -> None:
    page = TABLES["header cells"]
    for passage in cut_passages(page):
        assert page.text[passage.start :].startswith("Town")
        assert page.text[: passage.end].endswith(("\n", *(str(b) for _, _, b in ROWS), "Ferries"))


@pytest.mark.parametrize(
    "rows",
    [
        "<tr><td>Crow<td>eats worms</tr><tr><td>Jay<td>eats acorns</tr>",
        "<tr><td>Leeds<td>12</tr><tr><td>Hull<td>9</tr>",
        "<tr><td>Ann<td>3 Elm Row</tr><tr><td>Joe<td>12 Main Street</tr>",
    ],
)
def test_a_first_row_that_is_like_the_others_is_no_header(rows: str) -> None:
    assert find_labels(read_table(rows)) == []


def test_names_of_columns_end_with_their_table() -> None:
    page = read_table(
        "<tr><th>Bird<th>Nests</tr><tr><td>Jay<td>3</tr><tr><th>Fish<th>Ponds</tr>"
        "<tr><td>Pike<td>2</tr></table><table><tr><td>Owl<td>barn</tr>"
    )
    labels = [(page.text[each.start : each.end], each.value) for each in find_labels(page)]
    assert labels == [("Jay\t3", "Bird | Nests"), ("Pike\t2", "Fish | Ponds")]


@pytest.mark.parametrize("layout", ['"{}": "{}"', '"{}": [\n  "{}"\n]'])
def test_each_part_of_a_long_value_is_found_by_its_key(layout: str) -> None:
    values = {key: f"{'moss and heather ' * 150}{key}end" for key in ("remarks", "weather")}
    parts = ", ".join(layout.format(key, value) for key, value in values.items())
    page = read(f"{{{parts}}}", "a.json")
    cut = cut_passages(page)
    for key in values:
        (last,) = (each for each in cut if f"{key}end" in page.text[each.start : each.end])
        assert last.label == key
        assert get_headings_above(page, last.start).endswith(key)
    assert cut[0].label == ""


def test_german_sentences_do_not_end_behind_the_number_of_a_day() -> None:
    text = "Der Rabe wurde am 3. Mai 1871 gesehen. Er ist in der Sammlung, vgl. Abb. 3 und Karte 2."
    page = Page("", "", text)
    assert [text[start:end][-5:] for start, end in find_sentences(page, 0, len(text))] == [
        "ehen.",
        "te 2.",
    ]


def test_a_full_stop_that_a_word_begins_with_ends_no_sentence() -> None:
    text = "A warning appears because the .LNK and .LCK files are there. It is safe. Yes.No."
    page = Page("", "", text)
    assert [text[start:end][-6:] for start, end in find_sentences(page, 0, len(text))] == [
        "there.",
        " safe.",
        "es.No.",
    ]


FORMATS = {"1": "ed39478722a72b34", "2": "df31ccbc2581803d", "3": "baaeaabf08b962c4"}
"""by READER_FORMAT, a digest of what is read of the files of the tests and of the sample pages"""


def test_whoever_changes_what_is_read_raises_the_format_of_readers() -> None:
    digest = sha256()
    folders = Path(__file__).parent / "files", get_bundled_folder()
    paths = (path for folder in folders for path in folder.glob("*.*"))
    for path in sorted(paths, key=lambda path: path.name):
        if path.suffix not in (".1", ".gz", ".png", ".tif", ".py") and path.name != "scan.pdf":
            page = read_page(path.read_bytes(), f"file:///{path.name}")
            digest.update(msgspec.json.encode((page, build_index_entries(page))))
    assert FORMATS.get(READER_FORMAT) == (read := digest.hexdigest()[:16]), (
        "pages or passages are no longer what they were: raise READER_FORMAT in "
        f"rookery/pages/passages.py, unless no release has it yet, and write {read!r} into FORMATS"
    )


def test_rows_are_read_with_the_names_of_their_columns() -> None:
    html = """<table><tr><td colspan=3>Costs of 2026</td></tr>
    <tr><th>Item</th><th>Planned</th><th>Spent</th></tr>
    <tr><td>Chairs</td><td>120</td><td></td></tr>
    <tr><td>Tables</td><td></td><td>1,400</td></tr></table>
    <table><tr><td>no names</td><td>of columns</td></tr></table>"""
    page = read_page(html.encode(), "https://a.example/costs", "text/html")
    rows = [(row.words, row.group) for row in list_table_rows(page)]
    assert rows[-2:] == [
        ("Item Chairs, Planned 120", "Costs of 2026"),
        ("Item Tables, Spent 1,400", "Costs of 2026"),
    ]
    assert page.text[slice(*list_table_rows(page)[-1][:2])] == "Tables\t\t1,400"


def test_rows_of_csv_are_read_with_the_names_of_their_columns() -> None:
    data = b"Name,Phone,Days\nVance,555 0182,\nOkabe,,4\n"
    page = read_page(data, "file:///staff.csv", "text/csv")
    assert [row.words for row in list_table_rows(page)] == [
        "Name Vance, Phone 555 0182",
        "Name Okabe, Days 4",
    ]


def test_lines_of_a_log_are_rows() -> None:
    lines = [f"2026-02-2{n} 10:00:00 INFO backup {n}" for n in range(4)]
    page = read_page("\n".join(lines).encode(), "file:///server.log", "text/plain")
    assert [row.words for row in list_table_rows(page)] == lines

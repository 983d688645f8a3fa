"""Quotes as a reader sees them: tables with the names of their columns, and joined lines."""

import pytest

from rookery.pages.page_reader import read_page
from rookery.records import Page, Quote
from rookery.shell.quote_layout import QuoteLayout, lay_out_quote

MAIL = """Dear members,

from April on dogs are no longer allowed in the clubhouse, since two
members are allergic. Please tell your guests, and bring these things:
soup
Keep the doors of the kitchen closed, as the smell is not for everybody.
Ines
"""


def cut(page: Page, begin: str, end: str) -> Quote:
    at = page.text.index(begin)
    return page.quote(at, page.text.index(end, at) + len(end))


def test_lines_that_only_the_width_of_a_mail_broke_are_joined() -> None:
    page = read_page(MAIL.encode(), "file:///mail.txt", "text/plain")
    quote = cut(page, "from April", "Ines")
    layout = lay_out_quote(quote, page)
    assert layout.text == (
        "from April on dogs are no longer allowed in the clubhouse, since two members are "
        "allergic. Please tell your guests, and bring these things:\nsoup\n"
        "Keep the doors of the kitchen closed, as the smell is not for everybody.\nInes"
    )
    assert len(layout.text) == len(quote.text)
    assert lay_out_quote(quote, None) == QuoteLayout(quote.text)


def test_items_of_a_list_keep_their_lines() -> None:
    long = "Tomasz brings the grill, Ifeoma organises the raffle\n  with everybody who helps"
    page = read_page(f"- Saturday\n- {long}\n- Decision: none".encode(), "file:///list.md")
    layout = lay_out_quote(cut(page, "Saturday", "none"), page)
    assert layout.text == f"Saturday\n{' '.join(long.split())}\nDecision: none"


SUMS = [("Date", "Item", "Amount EUR", "Paid by"), ("2 May", "Flight", "214.8", "Miriam")]


@pytest.mark.parametrize("empty", ["", "<tr><td></td></tr>"])
def test_a_row_with_empty_cells_stands_under_the_names_of_its_columns(empty: str) -> None:
    rows = [f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in SUMS]
    rows[0] = rows[0].replace("td>", "th>")
    total = "<tr><td></td><td>Per person</td><td>107.4</td></tr><tr><td colspan=3>Rome</td></tr>"
    page = read_page(f"<table>{''.join(rows)}{empty}{total}</table>".encode(), "https://x.example/")
    layout = lay_out_quote(cut(page, "Per person", "107.4"), page, "What is the amount?")
    assert layout.names == SUMS[0]
    assert layout.rows == (("", "Per person", "107.4", ""),)
    assert (layout.row, layout.column) == (0, 2)
    both = lay_out_quote(cut(page, "2 May", "107.4"), page)
    assert (both.names, both.rows) == (SUMS[0], (SUMS[1], *layout.rows))
    alone = cut(page, "Rome", "Rome")
    assert lay_out_quote(alone, page) == QuoteLayout(alone.text)


def test_a_title_over_the_names_of_columns_is_none_of_them() -> None:
    title = "<tr><th>Trip to Rome</th></tr>"
    rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in SUMS)
    page = read_page(
        f"<table>{title}{rows.replace('td', 'th', 8)}</table>".encode(), "https://x.example/"
    )
    layout = lay_out_quote(cut(page, "2 May", "Miriam"), page, "Who paid?")
    assert (layout.names, layout.rows) == (SUMS[0], (SUMS[1],))


def test_lines_of_code_are_left_alone() -> None:
    html = f"<pre>{'box count --all --in the/garden/behind/the/house ' * 2}\nbox list</pre>"
    page = read_page(html.encode(), "https://boxes.example/", "text/html")
    quote = page.quote(0, len(page.text))
    assert lay_out_quote(quote, page).text == quote.text


CSV = "item,unit,guest price\nbirch plywood,sheet,5.60\nPETG filament,spool,27.00\n"


@pytest.mark.parametrize(
    ("begin", "question", "place"),
    [
        ("PETG", "What is the guest price of PETG?", (0, 2)),
        ("birch", "What is the guest price of PETG?", (1, 2)),
        ("birch", "How much is PETG filament?", (1, 2)),
        ("birch", "Is there PETG?", (1, None)),
        ("birch", "What is there?", (None, None)),
    ],
)
def test_rows_of_values_have_the_names_of_their_columns(
    begin: str, question: str, place: tuple[int | None, int | None]
) -> None:
    page = read_page(CSV.encode(), "file:///prices.csv", "text/csv")
    layout = lay_out_quote(cut(page, begin, "27.00"), page, question)
    assert layout.names == ("item", "unit", "guest price")
    assert layout.rows[-1] == ("PETG filament", "spool", "27.00")
    assert (layout.row, layout.column) == place

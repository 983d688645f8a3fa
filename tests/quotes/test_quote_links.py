"""Places are named as a reader would name them; links mark the quote and nothing else."""

from urllib.parse import unquote

import msgspec
import pytest

from rookery.pages.page_reader import read_page
from rookery.pages.pdf_rendering import list_pdf_pages
from rookery.quotes.quote_links import describe_location, make_deep_link
from rookery.records import Block, Mark, Page, Quote

URL = "https://crows.example/nest"


def page_of(*parts: tuple[str, str], title: str = "Crows", url: str = URL) -> Page:
    """A page of (kind, text) blocks; `nav` is a paragraph and `menu` a heading outside the article,
    `hidden` a paragraph that nobody sees."""
    blocks, text = [], ""
    kinds = {"nav": "paragraph", "menu": "heading", "hidden": "paragraph"}
    for kind, part in parts:
        text += "\n\n" if text else ""
        article = kind not in ("nav", "menu")
        start, text = len(text), text + part
        name = kinds.get(kind, kind)
        blocks.append(Block(start, len(text), name, 1, article, hidden=kind == "hidden"))
    return Page(url, title, text, tuple(blocks))


def quoted(page: Page, text: str) -> str:
    start = page.text.rindex(text)
    # As it was stored before quotes had to be whole words.
    quote = Quote(page.url, page.title, page.digest, start, start + len(text), text)
    return make_deep_link(quote, page)


NEST = page_of(
    ("heading", "Crows"),
    ("paragraph", "Crows are birds of many talents."),
    ("heading", "Nesting  in\ntrees"),
    ("paragraph", "They build with sticks."),
    ("menu", "Elsewhere"),
    ("nav", "Home, and contact us."),
    ("paragraph", "The young leave in June."),
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("birds", "about 10 % down"),
        ("sticks", "in “Nesting in trees”"),
        ("trees", "in “Nesting in trees”"),
        ("contact", "in “Elsewhere”"),
        ("June", "in “Nesting in trees”"),
    ],
)
def test_a_place_is_the_nearest_heading_of_its_view(words: str, expected: str) -> None:
    assert describe_location(NEST, NEST.text.index(words)) == expected


def test_the_link_that_edits_a_section_is_no_part_of_its_name() -> None:
    wiki = page_of(("heading", "Crows"), ("heading", "Nests [edit]"), ("paragraph", "Of sticks."))
    assert describe_location(wiki, wiki.text.index("sticks")) == "in “Nests”"


@pytest.mark.parametrize(
    ("start", "expected"),
    [(0, "at the top"), (41, "about 40 % down"), (66, "about 70 % down"), (99, "at the end")],
)
def test_without_headings_a_place_is_a_share(start: int, expected: str) -> None:
    assert describe_location(Page(URL, "", "x" * 100), start) == expected


def test_a_row_of_a_csv_is_placed_as_a_row_of_any_table() -> None:
    page = read_page(b"plot,member\n1,Rosalind\n4,Tomasz\n", "file:///members.csv", "text/csv")
    place = describe_location(page, page.text.index("Tomasz"))
    assert place == "about 80 % down, columns: plot | member"
    assert describe_location(page, 0) == "at the top"


def test_an_empty_page_has_a_top() -> None:
    assert describe_location(Page(URL, "", ""), 0) == "at the top"


def test_a_long_heading_is_cut() -> None:
    long = page_of(("heading", "word " * 40), ("paragraph", "Text."))
    assert len(describe_location(long, len(long.text) - 1)) < 70


PDF = Page(
    "file:///papers/crows.pdf",
    "Crows",
    "first page\n\nsecond page\n\nthird page",
    marks=(Mark(0, 10, "page", "1"), Mark(12, 23, "page", "2"), Mark(25, 35, "page", "iii")),
)


@pytest.mark.parametrize(("start", "number"), [(0, "1"), (11, "1"), (12, "2"), (30, "iii")])
def test_a_pdf_has_page_numbers(start: int, number: str) -> None:
    assert describe_location(PDF, start) == f"p. {number}"


def test_a_pdf_opens_at_the_page_of_the_quote() -> None:
    second = PDF.quote(12, 18)
    assert make_deep_link(second, PDF) == "file:///papers/crows.pdf#page=2"
    assert make_deep_link(second) == "file:///papers/crows.pdf"
    online = msgspec.structs.replace(PDF, url="https://x.example/get?id=7")
    assert make_deep_link(online.quote(12, 18), online) == "https://x.example/get?id=7#page=2"


@pytest.mark.parametrize("name", ["crows.tif", "crows.TIFF"])
def test_a_picture_of_several_pages_is_no_pdf(name: str) -> None:
    scan = msgspec.structs.replace(PDF, url=f"file:///papers/{name}")
    assert describe_location(scan, 12) == "p. 2"
    assert make_deep_link(scan.quote(12, 18), scan) == scan.url
    assert list_pdf_pages(scan) == []
    assert [sheet.number for sheet in list_pdf_pages(PDF)] == [1, 2]


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("They build", "They%20build"),
        ("well-known, R&D", "well%2Dknown%2C%20R%26D"),
        ("“naïve” 50%", "%E2%80%9Cna%C3%AFve%E2%80%9D%2050%25"),
        ("a\n  b", "a%20b"),
        ("東京#1?", "%E6%9D%B1%E4%BA%AC%231%3F"),
    ],
)
def test_a_text_directive_is_encoded(text: str, encoded: str) -> None:
    assert quoted(page_of(("paragraph", text)), text) == f"{URL}#:~:text={encoded}"


@pytest.mark.parametrize(
    ("url", "opened"),
    [
        (URL, f"{URL}#:~:text=sticks"),
        (f"{URL}#eggs", f"{URL}#eggs:~:text=sticks"),
        (f"{URL}#", f"{URL}#:~:text=sticks"),
        (f"{URL}#eggs:~:text=old", f"{URL}#eggs:~:text=sticks"),
        ("file:///notes/a.html", "file:///notes/a.html#:~:text=sticks"),
        ("file:///notes/a.docx", "file:///notes/a.docx"),
        ("https://x.example/a.PDF?v=1", "https://x.example/a.PDF?v=1"),
    ],
)
def test_what_the_address_already_says_is_kept(url: str, opened: str) -> None:
    assert quoted(page_of(("paragraph", "sticks"), url=url), "sticks") == opened


def directive(link: str) -> list[str]:
    return [unquote(part) for part in link.partition(":~:text=")[2].split(",")]


LONG = "One two three four five six " + "and so on " * 20 + "six five four three two one."


def test_a_long_quote_is_named_by_its_ends() -> None:
    ends = ["One two three four five", "five four three two one."]
    assert directive(quoted(page_of(("paragraph", LONG)), LONG)) == ends
    assert directive(make_deep_link(Page(URL, "", LONG).quote(0, len(LONG)))) == ends


def test_a_long_quote_without_spaces_is_named_by_some_letters() -> None:
    first, last = directive(quoted(page_of(("paragraph", "鴉は賢い鳥" * 40)), "鴉は賢い鳥" * 40))
    assert first == ("鴉は賢い鳥" * 5)[:24]
    assert last == ("鴉は賢い鳥" * 5)[-24:]


def test_the_ends_lie_in_one_block_each() -> None:
    page = page_of(
        ("item", "Eggs"), ("hidden", "Buy now"), ("paragraph", "Four, or so."), ("nav", "Home")
    )
    whole = page.quote(0, page.text.index("so.") + 3)
    assert directive(make_deep_link(whole, page)) == ["Eggs", "Four, or so."]
    assert directive(make_deep_link(page.quote(0, len(page.text)), page)) == ["Eggs", "Home"]


def test_without_the_page_a_line_break_counts_as_a_border() -> None:
    quote = NEST.quote(NEST.text.index("They"), NEST.text.index("and contact"))
    assert directive(make_deep_link(quote)) == ["They build with sticks.", "Home,"]
    other = msgspec.structs.replace(NEST, text=NEST.text + " ", digest="")
    assert make_deep_link(quote, other) == make_deep_link(quote)


def test_a_cut_word_is_made_whole() -> None:
    page = page_of(("heading", "Ab"), ("paragraph", "Unforgettable crows"))
    assert directive(quoted(page, "forgettable cro")) == ["Unforgettable crows"]


def test_words_before_tell_it_from_an_earlier_place() -> None:
    page = page_of(
        ("paragraph", "By day, they sing."),
        ("paragraph", "At night, The-Y Sing in choirs; by night they sing."),
        ("paragraph", "They sing."),
    )
    at_night = page.text.index("night they") + 6
    assert directive(make_deep_link(page.quote(at_night, at_night + 9), page)) == [
        "choirs; by night-",
        "they sing",
    ]
    assert directive(quoted(page, "They sing.")) == ["night they sing.-", "They sing."]
    assert directive(quoted(page, "in choirs")) == ["in choirs"]


def test_words_before_grow_until_they_tell() -> None:
    page = page_of(
        ("paragraph", "Red: one two three X. Blue: one two three X. Green: one two three X.")
    )
    assert directive(quoted(page, "X")) == ["three X. Green: one two three-", "X"]


def test_a_quote_of_hidden_text_has_no_directive() -> None:
    page = page_of(("hidden", "Buy now"), ("paragraph", "Eggs"))
    assert make_deep_link(page.quote(0, 7), page) == URL


def test_a_link_holds_no_signs_that_the_reader_has_put_in() -> None:
    """A browser finds neither the sign of a power nor the number of an item."""
    numbers = page_of(
        ("paragraph", "Of 10^9 neurons most are small, and 12 m^2 of nest are many."),
        ("item", "3. Drop the nut."),
    )
    links = [
        unquote(quoted(numbers, words).partition(":~:text=")[2])
        for words in ("Of 10^9 neurons most are small", "m^2 of nest are", "3. Drop the nut.")
    ]
    assert links == ["Of,neurons most are small", "of nest are", "Drop the nut."]

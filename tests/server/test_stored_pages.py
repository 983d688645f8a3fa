"""Every mark on a stored page is exactly the quote, and the way to the live page is beside it."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import ClassVar
from urllib.parse import quote as percent

import pytest
from playwright.sync_api import expect
from selectolax.lexbor import LexborHTMLParser
from shelves import REPORT, come_in, keep, marked, own_home, read_from, spans
from starlette.testclient import TestClient
from visits import Opened, Visit
from windows import Site, flaws

from rookery.desk import store
from rookery.library.libraries import get_bundled_folder
from rookery.pages.page_reader import read_page
from rookery.records import Block, Mark, Page
from rookery.server import stored_pages
from rookery.server.app import build_web_app
from rookery.server.stored_pages import (
    CONTEXT_CHARACTERS,
    Span,
    lay_out_page,
)
from rookery.settings import Settings
from rookery.shell import rendering
from rookery.shell.rendering import replace_unseen_characters

CASES = 1000


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder and a cache of the test's own."""
    yield from own_home(tmp_path, monkeypatch)


@pytest.fixture
def reader(opened: Opened) -> Visit:
    """Somebody who may only read."""
    return come_in(opened)


def corpus() -> Iterator[Page]:
    """Pages of every kind, and one made to mislead."""
    for name in ("jungle-crow.html", "numbers.html", "howto-observe.md", "crow-checklist.txt"):
        yield read_from(get_bundled_folder() / name)
    for name in ("visitor-guide.docx", "field-report.pdf", "glossary.xhtml", "poem.html"):
        yield read_from(get_bundled_folder() / name)
    yield hostile()


def hostile() -> Page:
    lines = (
        "<script>alert(1)</script> & \"quotes\" 'of' </mark><mark id=quote>",
        "before \u202eturned\u202c 【1†link】 \u200bunseen\u200b \ud800 \x00 end\r\nof it",
        "x² and 10 9 raised, 🐦‍⬛ birds",
        "  code  kept\n\tas it is",
        "hidden words of the page",
    )
    kinds = ("paragraph", "heading", "paragraph", "code", "paragraph")
    blocks, at = [], 0
    for line, kind in zip(lines, kinds, strict=True):
        level, hidden = int(kind == "heading"), line.startswith("hidden")
        blocks.append(Block(at, at + len(line), kind, level, hidden=hidden))
        at += len(line) + 2
    text = "\n\n".join(lines)
    raised = text.index("9 raised")
    title = "</title><script>alert(2)</script>\u202e"
    url = "https://evil.example/\"><script>alert(3)</script>?a='&b"
    return Page(url, title, text, tuple(blocks), marks=(Mark(raised, raised + 1, "sup"),))


def in_blocks(page: Page, span: Span) -> str:
    """The quote as the page's blocks hold it: all but the white space between two of them."""
    held = bytearray(len(page.text))
    for block in page.blocks:
        held[block.start : block.end] = b"\1" * (block.end - block.start)
    return "".join(page.text[at] for at in range(*span) if held[at])


@pytest.mark.slow
def test_what_is_marked_is_the_quote_in_a_thousand_random_cases() -> None:
    looks = rendering.PageAssets({}).templates
    # The part of the template that writes the text, without the frame round it.
    source = (rendering.WEB_FOLDER / "templates" / "page_shown.html").read_text(encoding="utf-8")
    macros = source[source.index("{% macro runs") : source.index("{% macro onward")]
    whole = looks.from_string(
        macros + "{% for group in laid.groups %}{{ part(group) }}{% endfor %}"
    )
    pages, chance, done = list(corpus()), Random(7), 0
    while done < CASES:
        page = chance.choice(pages)
        for span in spans(page, chance, 1):
            html = whole.render(laid=lay_out_page(page, span, span[0]))
            assert marked(html) == replace_unseen_characters(in_blocks(page, span)), (
                page.url,
                span,
            )
            assert marked(html) or in_blocks(page, span) == ""
            assert len(LexborHTMLParser(html).css("#quote")) == 1
            done += 1


def test_the_page_itself_marks_the_quote_and_says_where_it_is_from(reader: Visit) -> None:
    page = read_from(get_bundled_folder() / "jungle-crow.html")
    keep(page)
    at = page.text.index("crow", 200)
    seen = reader.get(
        stored_pages.make_quote_address(page.quote_whole_words(at, at + 60)).removesuffix("#quote")
    )
    assert seen.status == 200
    assert marked(seen.html) == replace_unseen_characters(in_blocks(page, (at, at + 60)))
    assert "as it was read on 2026-11-21, 09:05 UTC" in seen.text
    assert "jungle-crow.html" in seen.text
    assert str(get_bundled_folder()) not in seen.html


@pytest.mark.slow
def test_headings_skip_no_level_whatever_the_document_skips(reader: Visit) -> None:
    lines, levels, blocks = "abcdef", (2, 4, 5, 1, 6, 2), []
    for number, level in enumerate(levels):
        blocks.append(Block(3 * number, 3 * number + 1, "heading", level))
    page = Page("https://a.example/", "Levels", "\n\n".join(lines), tuple(blocks))
    keep(page)
    reader.get(stored_pages.make_quote_address(page.quote_whole_words(0, 1)).removesuffix("#quote"))
    shown = [one.attributes["aria-level"] for one in reader.page.css("#shown [role=heading]")]
    assert shown == ["2", "3", "4", "2", "3", "3"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        "start=5&end=99999999",
        "start=7&end=7",
        "start=9&end=3",
        "start=-1&end=4",
        "start=x&end=4",
        "start=1",
        "start=٣&end=9",
        "start=1&end=" + "9" * 400,
    ],
)
def test_what_does_not_fit_the_page_is_not_marked(reader: Visit, query: str) -> None:
    page = read_from(get_bundled_folder() / "poem.html")
    keep(page)
    seen = reader.get(f"/pages/{page.digest}?{query}")
    assert seen.status == 200
    assert "could not be located" in seen.text
    assert not LexborHTMLParser(seen.html).css("mark")


def test_an_empty_cell_at_the_end_of_a_row_moves_no_cell_of_the_next(tmp_path: Path) -> None:
    (tmp_path / "birds.csv").write_text("name,size,note\nrook,12,\n,13,loud\njay,,\n")
    [group] = lay_out_page(read_from(tmp_path / "birds.csv"), None, 0).groups
    rows = [["".join(run.text for run in cell.runs) for cell in row] for row in group.rows]
    assert rows == [["name", "size", "note"], ["rook", "12"], ["", "13", "loud"], ["jay"]]


def test_a_page_that_nobody_kept_is_not_shown(reader: Visit) -> None:
    assert reader.get(f"/pages/{'0' * 32}?start=1&end=2").status == 404
    assert "No copy" in reader.text


def test_a_page_that_the_desk_kept_is_shown_too(reader: Visit, opened: Opened) -> None:
    page = Page("https://www.birds.example/age", "How old crows get", "Most crows live for years.")
    with opened.store.begin_write() as connection:
        store.store_page(connection, page)
    reader.get(f"/pages/{page.digest}?start=5&end=10")
    assert marked(reader.html) == "crows"


def test_nobody_reads_who_is_not_in(opened: Opened) -> None:
    assert opened.client().get(f"/pages/{'0' * 32}").status_code == 401


def test_a_hostile_page_is_only_text(reader: Visit) -> None:
    page = hostile()
    keep(page)
    seen = reader.get(
        stored_pages.make_quote_address(page.quote_whole_words(0, 25)).removesuffix("#quote")
    )
    tree = LexborHTMLParser(seen.html)
    assert seen.status == 200
    assert marked(seen.html) == "<script>alert(1)</script>"
    assert all("nonce" in script.attributes for script in tree.css("script"))
    assert len(tree.css("mark")) == len(tree.css("#quote")) == 1
    assert "\u202e" not in seen.html
    assert "alert(3)" not in "".join(link.html or "" for link in tree.css("script"))


def test_a_link_leads_to_the_live_page_only_where_it_is_on_the_web(reader: Visit) -> None:
    page = Page("javascript:alert(1)", "Odd", "Some words of it.")
    keep(page)
    reader.get(f"/pages/{page.digest}?start=0&end=4")
    assert "javascript:alert" not in reader.html
    other = Page("https://birds.example/a", "Even", "Other words of it.")
    keep(other)
    reader.get(f"/pages/{other.digest}?start=0&end=11")
    assert (
        reader.first("a[rel]").attributes["href"] == "https://birds.example/a#:~:text=Other%20words"
    )


def long_page() -> Page:
    lines, at, blocks = [], 0, []
    for number in range(8000):
        line = f"Line {number} of a page so long that nobody reads it: {'word ' * 16}end."
        blocks.append(Block(at, at + len(line), "paragraph"))
        lines.append(line)
        at += len(line) + 2
    return Page("https://long.example/", "Long", "\n\n".join(lines), tuple(blocks))


def test_a_long_page_is_shown_in_parts_that_lead_to_each_other(reader: Visit) -> None:
    page = long_page()
    keep(page)
    assert len(page.text) > 1_000_000
    quote = page.quote(at := page.text.index("Line 4000 of"), at + 12)
    seen = reader.get(stored_pages.make_quote_address(quote).removesuffix("#quote"))
    assert marked(seen.html) == quote.text
    assert len(seen.html) < 6 * CONTEXT_CHARACTERS
    shown: list[int] = []
    reader.get(f"/pages/{page.digest}?at=0&url={percent(page.url)}")
    while True:
        shown += map(int, re.findall(r">Line (\d+) of", reader.html))
        onward = [a for a in reader.page.css(".onward a") if a.text() == "What comes after"]
        if not onward:
            break
        reader.get(onward[0].attributes["href"] or "")
    assert sorted(set(shown)) == list(range(8000))


@pytest.mark.slow
def test_whether_the_live_file_has_changed_is_said(reader: Visit, home: Path) -> None:
    file = home / "note.txt"
    file.write_text("Crows hide acorns in autumn. They find most of them.", encoding="utf-8")
    page = read_from(file)
    keep(page)
    at = f"/pages/{page.digest}?start=0&end=28"
    assert "still has the very same text" in reader.post(at).text
    file.write_text("New words. Crows hide acorns in autumn. And more.", encoding="utf-8")
    assert "the quote still stands there" in reader.post(at).text
    file.write_text("Rooks do it.", encoding="utf-8")
    assert "stands there no more" in reader.post(at).text
    assert str(home) not in reader.html
    file.unlink()
    assert "could not be read" in reader.post(at).text
    assert marked(reader.html) == "Crows hide acorns in autumn."


class Changing(BaseHTTPRequestHandler):
    """A site whose one page is what `served` says."""

    served: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        body = self.served.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def live() -> Iterator[str]:
    """The address of that site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Changing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()
    Changing.served.clear()


@pytest.fixture
def private(opened: Opened) -> Visit:
    """A reader of a desk that may look at sites of this machine."""
    visit = come_in(opened)
    app = build_web_app(opened.store, Settings(private=True))
    client = TestClient(app, base_url="http://desk.test", raise_server_exceptions=False)
    client.cookies = visit.client.cookies
    return Visit(client, "rita")


@pytest.mark.slow
def test_a_pdf_of_the_web_is_shown_as_a_picture_once_it_was_fetched_again(
    private: Visit, live: str
) -> None:
    url = f"{live}/report.pdf"
    page = read_page(REPORT.read_bytes(), url, "application/pdf", "2026-11-21T09:05:00+00:00")
    keep(page)
    at = page.text.index("Eurasian jays")
    place = stored_pages.make_quote_address(page.quote_whole_words(at, at + 30)).removesuffix(
        "#quote"
    )
    assert "only its text was kept" in private.get(place).text
    assert "could not be read" in private.post(place).text
    Changing.served["/report.pdf"] = REPORT.read_bytes()
    assert "still has the very same text" in private.post(place).text
    assert private.page.css("svg rect.quoted")
    image = private.client.get(private.first("svg image").attributes["href"] or "")
    assert image.content[:4] == b"\x89PNG"


def test_the_quote_is_marked_in_the_live_page_of_today(private: Visit, live: str) -> None:
    url = f"{live}/crows.html"
    words = "Crows hide acorns in autumn, and they find most of them again in spring."
    page = read_page(f"<title>Crows</title><p>{words}</p>".encode(), url, "text/html")
    keep(page)
    place = stored_pages.make_quote_address(page.quote_whole_words(0, 27)).removesuffix("#quote")
    new = f"<title>Crows</title><p>There is something new here to be read.</p><p>{words}</p>"
    Changing.served["/crows.html"] = new.encode()
    assert "the quote still stands there" in private.post(place).text
    assert marked(private.html) == "Crows hide acorns in autumn"
    private.get(private.first(".notice a").attributes["href"] or "")
    assert "something new" in private.text
    assert marked(private.html) == "Crows hide acorns in autumn"


@pytest.mark.slow
def test_a_browser_shows_the_quote_at_every_width_and_axe_finds_nothing(site: Site) -> None:
    report = read_from(REPORT)
    keep(report)
    at = report.text.index("Advice to others")
    quote = report.quote_whole_words(at, at + 40)
    with site.window() as (window, said):
        for width in (360, 768, 1280):
            window.set_viewport_size({"width": width, "height": 800})
            window.goto(stored_pages.make_quote_address(quote))
            expect(window.locator("#quote")).to_be_in_viewport()
            picture = window.locator("svg image").bounding_box()
            assert picture is not None
            assert picture["width"] > 0.8 * min(width, 830)
            wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            assert window.evaluate(wide)
            assert flaws(window) == []
        assert said == []

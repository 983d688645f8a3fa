"""A reader's afternoon in a real Chromium: five documents, eight questions, a link, a report."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from askers import CROWS, home
from playwright.sync_api import Browser, Page, expect
from visits import open_store
from windows import Site, quote_is_marked, serving, words_of

from rookery.pages.page_reader import read_page
from rookery.server.app import build_web_app
from rookery.shell.docx_writer import DocxWriter

__all__ = ["home"]
FERRY = """The ferry Havkatt

The ferry Havkatt sails between Skarvoy and the mainland in all seasons, and stays in the harbour
when the waves are higher than three metres.

The ferry Havkatt carries 84 passengers and twelve cars.

On Sundays the ferry Havkatt leaves Skarvoy at 9:40 and returns at 17:15.

Bicycles travel free of charge. Tickets are sold on board, and nowhere else.
"""
LIGHTHOUSE = """# The lighthouse of Skarvoy

The lighthouse of Skarvoy was built in 1874 after three ships had been lost on the reef.

The engineer Ingrid Solheim built the lighthouse of Skarvoy from red granite.

The lighthouse of Skarvoy is 31 metres tall, and its light is seen from 18 miles.
"""
RULES = """<!doctype html><title>Rules for visitors</title><main><h1>Rules for visitors</h1>
<p>Dogs are allowed on the beach of Skarvoy from October to March, on a leash.</p>
<p>Camping is allowed for two nights on the field behind the church.</p>
<p>Fires are forbidden on the whole island.</p></main>"""
SURVEY = """<!doctype html><title>Puffins of Skarvoy</title><h1>Puffins of Skarvoy</h1>
<p>The survey counted 1,286 puffin burrows on the northern cliff of Skarvoy.</p>
<p>Each burrow was looked into with a lamp on a cable. The survey took nine days in June.</p>"""
COUNCIL = """The council met in the school on 3 May.
The council of Skarvoy paid 412,000 crowns for the new pier.
The next meeting is about the road to the northern cliff."""
DOCUMENTS = {
    "ferry.txt": FERRY,
    "lighthouse.md": LIGHTHOUSE,
    "rules.html": RULES,
    "puffins.pdf": SURVEY,
    "council.docx": COUNCIL,
}
ASKED = (
    ("When was the lighthouse of Skarvoy built?", "1874", "lighthouse.md"),
    ("Who built it?", "Ingrid Solheim", "lighthouse.md"),
    ("How tall is it?", "31 metres", "lighthouse.md"),
    ("How many passengers does the ferry Havkatt carry?", "84 passengers", "ferry.txt"),
    ("When does it leave on Sundays?", "9:40", "ferry.txt"),
    ("Are dogs allowed on the beach of Skarvoy?", "from October to March", "rules.html"),
    ("How much did the council pay for the new pier?", "412,000 crowns", "council.docx"),
    ("How many puffin burrows did the survey count?", "1,286", "puffins.pdf"),
)
FOLLOW_UPS = ("Who built it?", "How tall is it?", "When does it leave on Sundays?")


@pytest.fixture(scope="module")
def room(
    home: Path, empty_store: Path, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A server that was started on the corvids, and answers."""
    opened = open_store(empty_store, tmp_path_factory.mktemp("room"))
    app = build_web_app(opened.store, CROWS, opened.limits, at_once=1)
    with serving(opened, app) as address:
        yield Site(opened, address, browser)
    opened.store.close()


def write_documents(folder: Path, browser: Browser) -> list[Path]:
    """The five documents, as people have them on their disks."""
    council = DocxWriter()
    council.add_paragraph("Minutes of the council", "Title")
    for line in COUNCIL.splitlines():
        council.add_paragraph(line)
    printer = browser.new_page()
    printer.set_content(SURVEY)
    documents = {
        "council.docx": council.build_file("Minutes of the council", "2026-05-03"),
        "puffins.pdf": printer.pdf(),
    }
    printer.close()
    for name, text in DOCUMENTS.items():
        (folder / name).write_bytes(documents.get(name) or text.encode())
    return [folder / name for name in DOCUMENTS]


def answered(page: Page, question: str, fact: str, document: str) -> None:
    """Waits for the answer, which holds the fact; its quotes stand in the document they name."""
    expect(page.locator("h1")).to_have_text(question)
    expect(page.locator(".answer-text")).to_contain_text(fact)
    for number in range(1, page.locator(".quotes .cited-quote").count() + 1):
        card = page.locator(f"#c{number}")
        expect(card.get_by_text("verified", exact=True)).to_be_visible()
        expect(card.locator("figcaption")).to_contain_text(document)
        card.get_by_role("link", name="Show in page").click()
        quote_is_marked(page, number)
        assert words_of(card.locator("blockquote").inner_text()) in words_of(
            re.sub("<[^>]+>", "", DOCUMENTS[document])
        )


@pytest.mark.slow
def test_a_readers_afternoon(room: Site, browser: Browser, tmp_path: Path) -> None:
    wide = {"viewport": {"width": 1280, "height": 800}}
    with (
        room.window("rita", "reader", **wide) as (page, said),
        room.window("sam", "reader", **wide) as (other, _),
    ):
        page.get_by_role("link", name="Documents").click()
        page.set_input_files("input[type=file]", write_documents(tmp_path, browser))
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_text("5 documents")).to_be_visible()
        page.get_by_role("link", name="Ask", exact=True).click()
        page.get_by_label("rookery:corvids").uncheck()
        page.get_by_label("Your question").fill(ASKED[0][0])
        page.get_by_role("button", name="Ask", exact=True).click()
        answered(page, *ASKED[0])
        for asked in ASKED[1:]:
            page.get_by_label("Ask a follow-up question").fill(asked[0])
            page.locator(".follow-up").get_by_role("button", name="Ask").click()
            answered(page, *asked)
            searched = page.locator(".searched-as q")
            assert (searched.count() == 1) == (asked[0] in FOLLOW_UPS)
        expect(page.locator(".beside-page .pdf-page .quoted").first).to_be_in_viewport()
        last = page.url
        # A link is opened by somebody who is not in, and withdrawn.
        refused = other.goto(last)
        assert refused is not None
        assert refused.status == 404
        page.get_by_role("button", name="Share").click()
        page.get_by_label("Whoever has a link").check()
        page.get_by_role("button", name="Apply").click()
        link = page.get_by_label("The link", exact=True).input_value()
        context = browser.new_context()
        stranger = context.new_page()
        stranger.goto(link)
        expect(stranger.locator(".answer-text")).to_contain_text("1,286")
        expect(stranger.get_by_text("verified", exact=True)).to_be_visible()
        page.get_by_role("button", name="Share").click()
        page.get_by_label("Whoever has a link").uncheck()
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_text("The link is withdrawn, and never works again.")).to_be_visible()
        stranger.reload()
        expect(stranger.get_by_text("There is no such answer, or it is not shared")).to_be_visible()
        context.close()
        # All of it becomes one report.
        page.get_by_role("link", name="All of them on one page").click()
        page.get_by_label("Save all as one report").fill("Skarvoy: our notes")
        for name, kind in (("Word", "docx"), ("Markdown", "md"), ("Web page", "html")):
            with page.expect_download() as download:
                page.get_by_role("button", name=name).click()
            assert download.value.suggested_filename == f"Skarvoy_ our notes.{kind}"
            report = read_page(download.value.path().read_bytes(), f"file:///report.{kind}").text
            assert "8 questions: 8 answered" in report
            for question, fact, document in ASKED:
                assert {question, fact, document} == {
                    each for each in (question, fact, document) if each in report
                }
        # An answer that is deleted is gone: at its address, from the list and from the notebook.
        page.goto(last)
        page.get_by_role("button", name="Delete", exact=True).click()
        page.get_by_role("button", name="Delete for good").click()
        expect(page.get_by_text("Deleted for good.")).to_be_visible()
        rows = page.locator(".asked-rows li")
        expect(rows).to_have_count(len(ASKED) - 1)
        # A follow-up is listed with the question that it stands for.
        expect(rows.filter(has_text="How tall is it?")).to_contain_text("the lighthouse of Skarvoy")
        rows.get_by_role("link", name=ASKED[0][0]).last.click()
        page.get_by_role("link", name="All of them on one page").click()
        expect(page.get_by_role("status")).to_contain_text("7 questions, all done")
        expect(page.get_by_text(ASKED[-1][0])).to_have_count(0)
        assert said == []
        gone = page.goto(last)
        assert gone is not None
        assert gone.status == 404

"""Asking and reading in a real Chromium: live, by the keyboard, without scripts, at all widths."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Literal

import pytest
from askers import JUDGED_CROWS, LONG, hold_workers, home
from playwright.sync_api import Browser, Page, expect
from visits import open_store
from windows import Seen, Site, flaws, quote_is_marked, serving

from rookery.desk import adjudication
from rookery.server.api.answer_queue import AnswerService
from rookery.server.app import build_web_app

__all__ = ["home"]
HEAVIEST = 80 * 1024
SIZES: list[tuple[int, Literal["light", "dark"]]] = [(360, "dark"), (768, "light"), (1280, "dark")]
WATCH = """
const steps = document.getElementById("steps");
new MutationObserver(() => sessionStorage.setItem("seen", steps.textContent))
  .observe(steps, {childList: true, subtree: true});
"""
"""keeps what the list of steps shows beyond the page"""
ANSWER = re.compile("seven or eight years")


@pytest.fixture(scope="module")
def asking(
    home: Path, empty_store: Path, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, AnswerService]]:
    """A server at an address, and what answers in it."""
    opened = open_store(empty_store, tmp_path_factory.mktemp("asking"))
    app = build_web_app(opened.store, JUDGED_CROWS, opened.limits, at_once=2)
    with serving(opened, app) as address:
        yield Site(opened, address, browser), app.state.answering
    opened.store.close()


def ask(page: Page, question: str = LONG, method: str = "extract", decline: str = "") -> None:
    page.goto("/")
    page.get_by_label("Your question").fill(question)
    page.locator(f"input[name=method][value={method}]").check()
    if decline:
        page.get_by_text("More choices").click()
        page.locator("#decline").select_option(decline)
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url("**/answers/*")


def answered(page: Page) -> None:
    expect(page.locator("article.reading-page")).to_be_visible()


@pytest.mark.slow
def test_an_answer_comes_by_itself_while_its_making_is_watched(
    asking: tuple[Site, AnswerService],
) -> None:
    site, answering = asking
    with site.window("watches", "reader") as (page, said):
        with hold_workers(answering, 2):
            ask(page)
            expect(page.get_by_role("status")).to_contain_text("Waiting for its turn")
            page.evaluate(WATCH)
        expect(page.locator(".answer-text")).to_have_text(ANSWER)
        seen = page.evaluate("sessionStorage.getItem('seen')")
        assert "Searched “How long do crows live?”" in seen
        assert "Read “How Long Do Crows Live?”" in seen
        assert said == []


@pytest.mark.slow
def test_a_question_is_asked_and_its_quotes_read_by_the_keyboard_alone(
    asking: tuple[Site, AnswerService],
) -> None:
    with asking[0].window("keys", "reader") as (page, said):
        page.goto("/")
        expect(page.get_by_label("Your question")).to_be_focused()
        page.keyboard.type("Two lines:")
        page.keyboard.press("Shift+Enter")
        expect(page.get_by_label("Your question")).to_have_value("Two lines:\n")
        page.keyboard.press("Control+a")
        page.keyboard.type(LONG)
        page.keyboard.press("Enter")
        answered(page)
        links = page.locator(".answer-text .show-quote")
        links.nth(1).focus()
        page.keyboard.press("Enter")
        expect(page.locator(".beside-count")).to_have_text("Quote 2 of 2")
        for key, number in (("ArrowRight", 2), ("ArrowDown", 2), ("ArrowUp", 1), ("ArrowLeft", 1)):
            page.keyboard.press(key)
            expect(page.locator(".beside-count")).to_have_text(f"Quote {number} of 2")
            expect(links.nth(number - 1)).to_be_focused()
            quote_is_marked(page, number)
        assert said == []


@pytest.mark.slow
def test_the_page_stands_beside_the_answer_and_a_click_moves_it_to_the_quote(
    asking: tuple[Site, AnswerService],
) -> None:
    with asking[0].window("beside", "reader", viewport={"width": 1280, "height": 700}) as seen:
        page = seen.page
        ask(page)
        answered(page)
        quote_is_marked(page, 1)
        answer, beside = page.locator(".answer-text"), page.locator("#beside")
        left, right = answer.bounding_box(), beside.bounding_box()
        assert left is not None
        assert right is not None
        assert left["x"] + left["width"] <= right["x"]
        page.locator(".answer-text .show-quote").nth(1).click()
        quote_is_marked(page, 2)
        page.locator("#c1").get_by_role("link", name="Show in page").click()
        quote_is_marked(page, 1)
        page.locator("#c2 blockquote").click()
        quote_is_marked(page, 2)
        assert page.locator("h1").count() == 1
        assert "/answers/" in page.url
        assert seen.said == []


@pytest.mark.slow
def test_in_a_narrow_window_the_page_is_a_sheet_that_can_be_closed(
    asking: tuple[Site, AnswerService],
) -> None:
    with asking[0].window("sheet", "reader", viewport={"width": 360, "height": 700}) as seen:
        page, link = seen.page, seen.page.locator(".answer-text .show-quote").nth(0)
        ask(page)
        answered(page)
        expect(page.locator("#beside")).to_be_hidden()
        link.click()
        quote_is_marked(page, 1)
        page.get_by_role("button", name="Next quote").click()
        quote_is_marked(page, 2)
        page.get_by_role("button", name="Close").click()
        expect(page.locator("#beside")).to_be_hidden()
        link.press("Enter")
        expect(page.locator("#beside")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#beside")).to_be_hidden()
        expect(link).to_be_focused()
        link.click()
        page.set_viewport_size({"width": 1280, "height": 700})
        expect(page.locator("#beside:not(:modal)")).to_be_visible()
        quote_is_marked(page, 1)
        assert seen.said == []


@pytest.mark.slow
def test_of_a_pdf_the_picture_with_the_marked_words_stands_beside_the_answer(
    asking: tuple[Site, AnswerService],
) -> None:
    with asking[0].window("pdf", "reader", viewport={"width": 1280, "height": 700}) as seen:
        page = seen.page
        ask(page, "How many marked acorns did jays carry away from the tray at Hollin Wood?")
        answered(page)
        report = page.locator(".quotes .cited-quote", has_text="field-report.pdf").first
        report.get_by_role("link", name="Show in page").click()
        expect(page.locator(".beside-page .pdf-page .quoted").first).to_be_in_viewport()
        drawn = "document.querySelector('.beside-page image').href.baseVal"
        assert page.request.get(page.evaluate(drawn)).headers["content-type"] == "image/png"
        assert seen.said == []


@pytest.mark.slow
def test_axe_finds_nothing_in_the_page_beside_the_answer(
    asking: tuple[Site, AnswerService],
) -> None:
    with asking[0].window("axed", "reader") as seen:
        page = seen.page
        ask(page)
        answered(page)
        for width in (360, 768, 1199, 1200, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            if width < 1200:
                page.locator(".answer-text .show-quote").first.click()
            quote_is_marked(page, 1)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert (width, scheme, flaws(page)) == (width, scheme, [])
            assert page.evaluate("document.documentElement.scrollWidth") == width
            if width < 1200:
                page.keyboard.press("Escape")
        assert seen.said == []


@pytest.mark.slow
def test_show_in_page_leads_to_the_very_words(asking: tuple[Site, AnswerService]) -> None:
    with asking[0].window("shows", "reader") as (page, said):
        ask(page)
        answered(page)
        quote_is_marked(page, 1)
        words = page.locator("#c1 blockquote").inner_text()
        page.get_by_role("link", name="The page by itself").click()
        page.wait_for_url("**/pages/**#quote")
        marked = page.locator("mark").all_inner_texts()
        assert " ".join("".join(marked).split()) == " ".join(words.split())
        assert said == []


@pytest.mark.slow
def test_without_scripts_the_page_comes_again_until_the_answer_is_there(
    asking: tuple[Site, AnswerService],
) -> None:
    site, answering = asking
    with site.window("plain", "reader", java_script_enabled=False) as (page, said):
        with hold_workers(answering, 2):
            ask(page)
            expect(page.get_by_text("Waiting for its turn")).to_be_visible()
        expect(page.locator(".answer-text")).to_have_text(ANSWER)
        page.locator(".answer-text .show-quote").first.click()
        page.wait_for_url("**/pages/**#quote")
        assert said == []


@pytest.mark.slow
def test_a_stream_that_never_comes_is_made_up_for(asking: tuple[Site, AnswerService]) -> None:
    site, answering = asking
    with site.window("cut", "reader") as (page, _):
        page.route("**/events*", lambda route: route.abort())
        with hold_workers(answering, 2):
            ask(page)
        expect(page.locator(".answer-text")).to_have_text(ANSWER)


def test_waiting_is_ended_by_whoever_asked(asking: tuple[Site, AnswerService]) -> None:
    site, answering = asking
    with site.window("gone", "reader") as (page, said):
        with hold_workers(answering, 2):
            ask(page)
            page.get_by_role("button", name="Cancel", exact=True).click()
            expect(page.get_by_text("You cancelled this.")).to_be_visible()
        page.get_by_role("button", name="Ask again").click()
        expect(page.locator(".answer-text")).to_have_text(ANSWER)
        assert said == []


def test_a_verdict_and_a_wrong_citation_are_kept(asking: tuple[Site, AnswerService]) -> None:
    site, _ = asking
    with site.window("judges", "reader") as (page, said):
        ask(page)
        answered(page)
        page.get_by_role("button", name="Good").click()
        expect(page.get_by_role("button", name="Good")).to_have_attribute("aria-pressed", "true")
        page.locator("#c2 summary").click()
        page.locator("#c2").get_by_label("What is wrong with it").fill("It is about winters.")
        page.locator("#c2").get_by_role("button", name="This citation is wrong").click()
        expect(page.locator("#c2 summary")).to_contain_text("You reported this as wrong")
        assert said == []
    with site.opened.store.begin_read() as connection:
        kinds = {
            each.kind
            for each in adjudication.load_labelling_data(connection, ["reading"]).judgements
        }
    assert kinds == {"done", "flagged"}


def screens(site: Site, answering: AnswerService, screen: Seen) -> Iterator[str]:
    """Opens one screen after the other, and says which it is."""
    page = screen.page
    with hold_workers(answering, 2):
        ask(page)
        yield "waiting"
    answered(page)
    opened = "document.querySelectorAll('details').forEach(each => each.open = true)"
    page.evaluate(opened)
    yield "an answer"
    page.get_by_role("button", name="Save").click()
    yield "what it can be saved as"
    for name, question, method, decline in (
        ("declined", "What is the capital of Peru?", "extract", "0.85"),
        ("both sides", "Do crows live for a hundred years?", "sides", ""),
        ("no claim", "What do ravens eat?", "sides", ""),
    ):
        ask(page, question, method, decline)
        answered(page)
        page.evaluate(opened)
        yield name
    for address in ("/", "/asked?words=crows", "/asked?words=nothing"):
        page.goto(address)
        page.evaluate(opened)
        yield address


@pytest.mark.slow
def test_axe_finds_nothing_on_any_screen_at_any_width(asking: tuple[Site, AnswerService]) -> None:
    site, answering = asking
    with site.window("axe", "labeller") as seen:
        for screen in screens(site, answering, seen):
            for width, scheme in SIZES:
                seen.page.set_viewport_size({"width": width, "height": 800})
                seen.page.emulate_media(color_scheme=scheme)
                assert (screen, width, flaws(seen.page)) == (screen, width, [])
                wide = seen.page.evaluate("document.documentElement.scrollWidth")
                assert (screen, wide) == (screen, width)
        assert seen.said == []


@pytest.mark.slow
def test_the_first_load_is_light(asking: tuple[Site, AnswerService]) -> None:
    site, _ = asking
    with site.window("light", "reader") as (page, _):
        ask(page)
        answered(page)
        state, at = page.context.storage_state(), page.url
    for address in ("/", at):
        context = site.browser.new_context(base_url=site.address, storage_state=state)
        cold = context.new_page()
        cold.goto(address, wait_until="networkidle")
        sizes = cold.evaluate(
            "[...performance.getEntriesByType('navigation'),"
            " ...performance.getEntriesByType('resource')].map(e => e.transferSize)"
        )
        context.close()
        assert len(sizes) >= 5
        assert 10_000 < sum(sizes) <= HEAVIEST, (address, sizes)


def test_the_script_is_short_and_sets_nothing_but_text() -> None:
    text = (files("rookery.shell") / "static" / "reading.js").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 150
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval", text)

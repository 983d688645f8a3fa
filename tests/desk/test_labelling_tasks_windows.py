"""The pages in a real browser: seen by axe, by keyboard, without scripts, without a connection."""

import random
import re
from collections.abc import Iterator
from itertools import count
from typing import Literal

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import select
from visits import BESIDE, CLEAR, FORMS_HERE, JUSTIFICATION, item
from windows import Seen, Site, flaws

from rookery.desk import accounts, labelling_queue
from rookery.desk.forms import FORMS, GoldLabels
from rookery.desk.labelling_queue import requires_whole_form
from rookery.desk.tables import items

HEAVIEST = 60 * 1024
SIZES: list[tuple[int, Literal["light", "dark"]]] = [(360, "light"), (768, "dark"), (1280, "light")]


def begin(page: Page, form: str) -> str:
    """Takes a task of a form in hand; its address."""
    page.goto("/desk")
    page.locator(f"form:has(input[value={form}]) button").click()
    page.wait_for_url("**/tasks/**")
    return page.url.partition("?")[0]


def screens(site: Site, screen: Seen) -> Iterator[str]:
    """Opens one screen after the other, and says which it is."""
    page = screen.page
    token = accounts.create_invite(site.opened.store, "ben", "labeller", "ada")
    for address in ("/desk", "/guides", "/guides/compare", f"/enter/{token}"):
        page.goto(address)
        yield address
    for form in FORMS_HERE:
        address = begin(page, form)
        for number in range(int(page.locator(".task").get_attribute("data-pages") or 0)):
            page.goto(f"{address}?page={number}")
            yield f"{form} {number}"
        if form == "supported":
            page.get_by_role("button", name="Hand it in").click()
            page.wait_for_url("**check=1*")
            yield "what is missing"
            for opener in ("Guide", "Flag"):
                page.get_by_role("button", name=opener, exact=False).first.click()
                yield opener
                page.keyboard.press("Escape")
            for key in "ynyn1":
                page.keyboard.press(key)
            page.get_by_role("button", name="Hand it in").click()
            page.wait_for_url("**/judgements/**")
            yield "an attention check"
    page.goto("/history")
    yield "/history"


@pytest.fixture(scope="module", autouse=True)
def work(site: Site) -> None:
    site.opened.lay(*(item(form) for form in FORMS_HERE if form != "supported"), copies=50)
    check = item("supported", 1, GoldLabels({"supported": ["yes", "no"]}, JUSTIFICATION))
    site.opened.lay(check, copies=50, batch="checked", prelude=True)
    site.opened.lay(item("supported"), copies=50, batch="checked")
    site.opened.lay(*(item("best_of_four", n) for n in range(3)), copies=50, batch="more")


@pytest.mark.slow
def test_axe_finds_nothing_on_any_screen_at_any_width(site: Site) -> None:
    with site.window("axe") as seen:
        for screen in screens(site, seen):
            for width, scheme in SIZES:
                seen.page.set_viewport_size({"width": width, "height": 800})
                seen.page.emulate_media(color_scheme=scheme)
                assert (screen, width, flaws(seen.page)) == (screen, width, [])
                wide = seen.page.evaluate("document.documentElement.scrollWidth")
                assert (screen, wide) == (screen, width)
        assert seen.said == []


@pytest.mark.slow
def test_the_first_load_is_light(site: Site) -> None:
    with site.window("light") as seen:
        address = begin(seen.page, "compare")
        cold = seen.page.context.browser
        assert cold is not None
        state = seen.page.context.storage_state()
        context = cold.new_context(storage_state=state)
        page = context.new_page()
        page.goto(f"{address}?page=5", wait_until="networkidle")
        sizes = page.evaluate(
            "[...performance.getEntriesByType('navigation'),"
            " ...performance.getEntriesByType('resource')].map(e => [e.name, e.transferSize])"
        )
        context.close()
    total = sum(size for _, size in sizes)
    assert len(sizes) >= 5
    assert 10_000 < total <= HEAVIEST, sizes


def test_a_task_is_done_with_single_keys(site: Site) -> None:
    with site.window("keys") as seen:
        page = seen.page
        begin(page, "compare_short")
        page.keyboard.press("Enter")
        missing = page.get_by_text("Not handed in yet.")
        expect(missing).to_be_in_viewport()
        for key in "245":
            page.keyboard.press(key)
        checked = page.locator("#task input:checked").evaluate_all("all => all.map(e => e.value)")
        assert checked == ["-1", "1", "2"]
        expect(missing).to_have_count(0)
        page.keyboard.press("Enter")
        page.wait_for_url("**said=done*")
        begin(page, "best_of_four")
        first = page.url
        page.keyboard.press("3")
        page.wait_for_url("**undo=*")
        page.keyboard.press("z")
        page.wait_for_url(first)
        expect(page.locator(".chosen")).to_have_count(1)


def test_a_task_is_done_with_tab_and_space_where_keys_are_off(site: Site) -> None:
    with site.window("tabs") as seen:
        page = seen.page
        page.get_by_role("button", name="tabs").press("Enter")
        page.get_by_role("button", name=re.compile("shortcuts off")).press("Enter")
        page.wait_for_url("**said=keys")
        begin(page, "thumbs")
        page.keyboard.press("u")
        expect(page.locator("#task input:checked")).to_have_count(0)
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.name") == "thumbs.0":
                break
        page.keyboard.press("Space")
        expect(page.locator("#task input:checked")).to_have_count(1)
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.value") == "submit":
                break
        page.keyboard.press("Enter")
        page.wait_for_url("**said=done*")


def test_a_number_shows_its_quote_and_escape_hides_it(site: Site) -> None:
    with site.window("quotes") as seen:
        page = seen.page
        address = begin(page, "compare")
        page.goto(f"{address}?page=1")
        quote = page.locator(".pop .evidence").first
        expect(quote).to_be_hidden()
        page.get_by_role("button", name="Quote 1").first.press("Enter")
        expect(quote).to_be_visible()
        page.keyboard.press("Escape")
        expect(quote).to_be_hidden()


SELECT = """([from, to]) => {
  const nodes = [];
  const walk = document.createTreeWalker(document.querySelector('[data-text]'), 4);
  while (walk.nextNode()) nodes.push(walk.currentNode);
  const at = count => {
    for (const n of nodes) { if (count <= n.length) return [n, count]; count -= n.length; }
    return [nodes.at(-1), nodes.at(-1).length]; };
  const range = new Range(); range.setStart(...at(from)); range.setEnd(...at(to));
  getSelection().removeAllRanges(); getSelection().addRange(range);
  return nodes.reduce((sum, n) => sum + n.length, 0); }"""


@pytest.mark.slow
def test_what_is_selected_becomes_a_claim_that_is_exactly_that(site: Site) -> None:
    rng = random.Random(5)
    with site.window("marks") as seen:
        page = seen.page
        address = begin(page, "compare")
        item_id = address.rpartition("/")[2]
        page.goto(f"{address}?page=3")
        text = (CLEAR, BESIDE)[labelling_queue.shuffle_answers(item_id, "marks", 2)[0]].text
        size = page.evaluate(SELECT, [0, 0])
        wanted = set()
        for _ in range(25):
            low, high = sorted(rng.sample(range(size + 1), 2))
            page.evaluate(SELECT, [low, high])
            words = page.evaluate(
                "[...document.querySelectorAll('[data-text] [data-at]')].map(e => e.firstChild)"
                ".map(n => { const r = getSelection().getRangeAt(0);"
                " if (!r.intersectsNode(n)) return '';"
                " return n.data.slice(r.startContainer === n ? r.startOffset : 0,"
                " r.endContainer === n ? r.endOffset : n.length); }).join('').trim()"
            )
            page.wait_for_timeout(170)
            if not words:
                expect(page.locator(".marker")).to_have_count(0)
                continue
            page.locator(".marker").click()
            wanted.add(words)
            page.keyboard.press("Space")
            page.evaluate(
                "const row = document.activeElement.closest('.claim-row');"
                "for (const part of ['support', 'relevance']) {"
                " row.querySelector(`[name$='.${part}']:not([value=\"\"])`).click(); }"
            )
        page.get_by_role("button", name="Next").click()
        page.wait_for_url("**page=4")
        kept = labelling_queue.load_item_and_draft(site.opened.store, item_id, "marks")[1]
        assert kept is not None
        raw = kept["raw"]
        names = {n.rpartition(".")[0] for n in raw if n.endswith(".start")}
        spans = {(int(raw[f"{n}.start"][0]), int(raw[f"{n}.end"][0])) for n in names}
        assert {text[start:end] for start, end in spans} == wanted
        assert len(wanted) > 15
        page.goto(f"{address}?page=3")
        rows = page.locator(".claim-row:has([name$='.support'][value='strong']:checked)")
        assert {row.strip() for row in rows.locator(".claim-text").all_inner_texts()} >= {
            words for words in wanted if "\n" not in words
        }
        assert seen.said == []


def spared(site: Site) -> str:
    """A name for somebody of whom no item requires all parts, as one in ten does."""
    with site.opened.store.begin_read() as connection:
        ids = list(connection.scalars(select(items.c.id)))
    names = (f"plain{number}" for number in count())
    return next(name for name in names if not any(requires_whole_form(item, name) for item in ids))


@pytest.mark.slow
def test_every_step_works_with_scripts_off(site: Site) -> None:
    name = spared(site)
    with site.window(name, java_script_enabled=False) as seen:
        page = seen.page
        address = begin(page, "compare")
        for _ in range(3):
            page.get_by_role("button", name="Next").click()
        row = page.locator(".claim-row").first
        row.get_by_role("radio", name="Strong").check(force=True)
        row.get_by_role("radio", name="Core").check(force=True)
        for _ in range(2):
            page.get_by_role("button", name="Next").click()
        for field in ("unsupported", "coherence"):
            page.locator(f"[name={field}][value='1']").check()
        page.get_by_role("button", name="Next").click()
        page.locator("[name=overall][value='-2']").check()
        page.get_by_role("button", name="Hand it in").click()
        page.wait_for_url("**said=done*")
        (judgement,) = labelling_queue.list_judgements(site.opened.store, name, 9)
        assert judgement.item == address.rpartition("/")[2]
        assert {"unsupported", "coherence", "overall", "claims"} <= set(judgement.filled)


@pytest.mark.slow
def test_a_draft_saves_itself_and_survives_a_lost_connection(site: Site) -> None:
    with site.window("lost") as seen:
        page = seen.page
        address = begin(page, "supported")
        item_id = address.rpartition("/")[2]
        page.keyboard.press("y")
        expect(page.locator("#kept")).to_have_text("Saved")
        page.context.set_offline(True)
        page.locator("summary", has_text="Comment").click()
        page.locator("textarea[name=comment]").fill("Typed without a connection.")
        page.get_by_role("button", name="Hand it in").click()
        expect(page.locator("#toast")).to_contain_text("No connection")
        expect(page.locator("textarea[name=comment]")).to_have_value("Typed without a connection.")
        page.context.set_offline(False)
        expect(page.locator("#kept")).to_have_text("Saved")
        kept = labelling_queue.load_item_and_draft(site.opened.store, item_id, "lost")[1]
        assert kept is not None
        assert kept["raw"]["comment"] == ["Typed without a connection."]


def test_what_was_typed_is_there_again_after_the_window_was_closed(site: Site) -> None:
    with site.window("closed") as seen:
        page = seen.page
        address = begin(page, "supported")
        page.context.set_offline(True)
        page.locator("input[name='plausible.1'][value=no]").check()
        page.wait_for_timeout(50)
        page.context.set_offline(False)
        page.goto("/desk")
        page.goto(address)
        expect(page.locator("input[name='plausible.1'][value=no]")).to_be_checked()


def test_going_back_shows_what_was_filled_in(site: Site) -> None:
    with site.window("back") as seen:
        page = seen.page
        address = begin(page, "criteria")
        page.locator("input[name='relevancy.0.0'][value='2']").check()
        page.get_by_role("button", name="Next").click()
        page.wait_for_url("**page=1")
        page.go_back()
        page.wait_for_url(address)
        expect(page.locator("input[name='relevancy.0.0'][value='2']")).to_be_checked()


def test_steps_keep_their_scripts_and_the_focus_goes_to_the_new_one(site: Site) -> None:
    with site.window("steps") as seen:
        page = seen.page
        begin(page, "compare")
        for number in range(1, len(FORMS["compare"].steps)):
            page.keyboard.press("Enter")
            page.wait_for_url(f"**page={number}")
            expect(page.locator("#main")).to_be_focused()
        assert seen.said == []

"""A campaign in a real browser: a crowd worker's visit, and a decision by the keyboard alone."""

import re

from boards import judge
from playwright.sync_api import expect
from visits import item
from windows import Site, flaws

from rookery.desk import accounts, adjudication, crowd_entry, projects


def test_a_crowd_worker_comes_works_and_leaves_with_a_code(site: Site) -> None:
    store = site.opened.store
    accounts.add_person(store, "lea", "researcher")
    projects.save_project(store, "corvids", projects.ProjectSettings(session_items=2), "lea")
    projects.place_batch(store, "first", "corvids", "lea")
    site.opened.lay(*(item("thumbs", n) for n in range(4)))
    address = crowd_entry.make_crowd_link(store, "corvids", 3, "", "lea")
    address = re.sub(r"=\{\{%(\w+)%\}\}", lambda mark: f"={mark[1].lower()}", address)
    context = site.browser.new_context(base_url=site.address, reduced_motion="reduce")
    page, said = context.new_page(), list[str]()
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
    page.goto(address)
    assert flaws(page) == []
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_text("0 of 2 done")).to_be_visible()
    assert flaws(page) == []
    page.get_by_role("button", name="Begin").click()
    for number in range(2):
        expect(page.get_by_text(f"{number} of 2 done")).to_be_visible()
        page.get_by_label("Good").check()
        page.get_by_role("button", name="Hand it in").click()
    page.get_by_role("button", name="Finish").click()
    code = page.locator("#code")
    expect(code).to_have_text(re.compile(r"^[0-9A-F]{10}$"))
    assert flaws(page) == []
    [session] = crowd_entry.list_crowd_sessions(store, "corvids")
    assert (session.items, session.code) == (2, code.text_content())
    assert said == []
    context.close()


def test_a_reviewer_decides_by_the_keyboard_alone(site: Site) -> None:
    [key] = site.opened.lay(item("compare_short", 7), batch="ravens")
    with site.window("rex", "reviewer") as (page, said):
        for name, way in (("ann", 1), ("ben", -1)):
            accounts.add_person(site.opened.store, name, "labeller")
            judge(site.opened, name, key, 60, accuracy=1, coherence=0, overall=way)
        page.goto("/disagreements")
        page.locator(".asked a").focus()
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/disagreements/{key}")
        overall = page.get_by_role("group", name="Overall")
        overall.get_by_role("radio").first.focus()
        page.keyboard.press("Space")
        page.get_by_label("Why", exact=True).focus()
        page.keyboard.type("The first says how it knows.")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Decided. What the raters handed in")).to_be_visible()
        assert flaws(page) == []
        assert said == []
    [dispute] = adjudication.load_disagreements(site.opened.store)
    assert dispute.decision is not None
    assert dispute.decision.reason == "The first says how it knows."
    assert abs(dispute.decision.filled["overall"]) == 2

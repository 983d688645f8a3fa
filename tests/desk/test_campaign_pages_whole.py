"""A labelling campaign played whole in a real Chromium: from its own form to what is learnt."""

import csv
import json
import re
import zipfile
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from commands import Run
from playwright.sync_api import Page, expect
from windows import Site

from rookery.cli.learn_example import write_example
from rookery.desk import adjudication, labelling_queue
from rookery.learn.training_data import load_comparisons

RATERS = ("ann", "ben", "cyd", "dan", "gus", "vic")
"""Dan sees some items differently, Gus guesses at first, Vic vanishes, Cyd has two tabs open."""
ITEMS, CHECKS, TRIALS = 40, 2, 2
JUDGEMENTS = 2 * ITEMS + 6 * CHECKS
SURE = """
[questions.sure]
label = "How sure are you?"
kind = "choice"
choices = [
  { value = "sure", label = "Sure", key = "s" },
  { value = "guess", label = "I guess", key = "g" },
]
required = "always"
shown_when = { question = "overall", is = ["better", "much_better"] }
"""


def item(number: int, **more: object) -> dict[str, object]:
    """Two answers, of which one says what was asked: the first in items of even numbers."""
    answers = [f"The bridge was built in {1800 + number}.", "Nobody asks such things."]
    answers = answers[:: 1 - number % 2 * 2]
    return {"question": f"When was bridge {number} built?", "answers": answers, **more}


def find_right_value(question: str) -> int:
    """Which of the two answers is better, as it is stored."""
    return 1 if int(re.sub(r"\D", "", question)) % 2 else -1


def write_items(file: Path, items: list[dict[str, object]]) -> Path:
    file.write_text("".join(json.dumps(each) + "\n" for each in items), encoding="utf-8")
    return file


def write_form(page: Page, file: Path) -> None:
    """Copies a form of a paper, changes it, is told what is wrong, previews it, stores it."""
    page.goto("/board/forms/compare_short")
    page.get_by_role("link", name="Copy and change").click()
    area = page.get_by_label("The form's file")
    text = area.input_value()
    text = re.sub(r"\[questions\.accuracy\].*(?=\[questions\.overall\])", "", text, flags=re.DOTALL)
    text = text.replace('"accuracy", "coherence", "overall"', '"overall", "sure"') + SURE
    for old, new in (('"my_compare_short"', '"certain"'), ("minutes = 5", "minutes = 2"),
                     ("Compare two answers, in short", "Which says what was asked?")):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    area.fill(text.replace('kind = "choice"', 'kind = "choise"'))
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("the value cannot be 'choise'")
    area.fill(text)
    page.get_by_role("button", name="Preview").click()
    judge(page, "A better")
    expect(page.get_by_text("Nothing is missing. This would be stored:")).to_be_visible()
    page.get_by_role("button", name="To its file").click()
    page.get_by_role("button", name="Store it").click()
    expect(page.get_by_text("Version 1, by lea")).to_be_visible()
    file.write_text(text, encoding="utf-8")


def judge(page: Page, choice: str) -> None:
    """Hands in the task that is open."""
    page.get_by_role("radio", name=re.compile(f"^{choice}")).check()
    page.keyboard.press("s")
    page.keyboard.press("Enter")


def read_and_judge(page: Page, right: bool = True) -> None:
    """Prefers the answer that says a year, or the other one."""
    first, here = "built" in page.locator("#answer-0").inner_text(), page.url
    judge(page, "A better" if first == right else "B better")
    page.wait_for_url(lambda url: url != here)


def begin(page: Page, button: str = "Begin") -> None:
    """Waits until the task is handed out, which the clock is read for."""
    page.get_by_role("button", name=button).click()
    page.wait_for_url("**/tasks/*")


def set_up(page: Page, run: Run, site: Site, folder: Path) -> None:
    """A project with pay, a trial, attention checks and items."""
    page.goto("/board/projects")
    page.get_by_label("Name").fill("bridges")
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_text("Made.")).to_be_visible()
    page.get_by_role("link", name="bridges", exact=True).click()
    page.get_by_label("Rate").fill("18")
    page.get_by_label("Currency").fill("EUR")
    page.get_by_role("button", name="Save the settings").click()
    expect(page.get_by_text("The settings are saved")).to_be_visible()
    for batch in ("trial", "pairs"):
        page.get_by_label("Batch", exact=True).fill(batch)
        page.get_by_label("It is the trial").set_checked(batch == "trial")
        page.get_by_role("button", name="Save", exact=True).click()
        expect(page.get_by_role("heading", name=batch, exact=True)).to_be_visible()
    expect(page.get_by_text("It has no items yet. Import some with")).to_have_count(2)
    checks = []
    for number in range(200, 200 + CHECKS):
        clause = "Only {1} says a year." if number % 2 == 0 else "Only {2} says a year."
        expected = {"overall": find_right_value(str(number))}
        checks.append(item(number, gold={"expected": expected, "justification": clause}))
    for file, more in (
        (write_items(folder / "trial.jsonl", [item(100 + n) for n in range(TRIALS)]),
         ("--batch", "trial", "--raters", "6")),
        (write_items(folder / "checks.jsonl", checks),
         ("--batch", "pairs", "--raters", "6", "--prelude")),
        (write_items(folder / "pairs.jsonl", [item(n) for n in range(ITEMS)]),
         ("--batch", "pairs", "--raters", "2")),
    ):  # fmt: skip
        place = site.opened.store.place
        result = run("judge", "import", file, "--form", "certain", *more, "--store", place)
        assert result.code == 0, result.err


def work(site: Site, pages: dict[str, Page], count: int, right: bool = True) -> None:
    """Each hands in so many tasks, all at the same time and each in half a minute."""
    for _ in range(count):
        site.opened.clock.now += 30
        for page in pages.values():
            read_and_judge(page, right)


@pytest.mark.slow
def test_a_whole_campaign(site: Site, run: Run, tmp_path: Path) -> None:
    store, clock = site.opened.store, site.opened.clock
    with ExitStack() as stack:
        wide = {"viewport": {"width": 1280, "height": 720}}
        lead, said = stack.enter_context(site.window("lea", "researcher", **wide))
        write_form(lead, tmp_path / "certain.toml")
        assert len(said) == 1  # the form with a mistake, as a status
        assert "422" in said.pop()
        checked = run("judge", "form", "check", tmp_path / "certain.toml")
        assert (checked.code, "nothing is wrong" in checked.out) == (0, True)
        set_up(lead, run, site, tmp_path)
        seen = {name: stack.enter_context(site.window(name)) for name in RATERS}
        pages = {name: each.page for name, each in seen.items()}
        for page in pages.values():
            page.goto("/desk")
            begin(page)
        ann, gus, vic = pages["ann"], pages["gus"], pages["vic"]
        work(site, pages, TRIALS)
        expect(ann.get_by_text("Your trial of bridges is done")).to_be_visible()
        lead.goto("/board/projects/bridges")
        expect(lead.get_by_text("2 of 2 of the trial done")).to_have_count(len(RATERS))
        expect(lead.get_by_text("12 of 12 handed in, 2 items")).to_be_visible()
        for name in RATERS:
            lead.get_by_role("button", name=f"Admit {name}").click()
            expect(lead.get_by_role("button", name=f"Admit {name}")).to_have_count(0)
        for page in pages.values():
            page.goto("/desk")
            begin(page)
        # Attention checks: who guesses gets no more until a person says so.
        clock.now += 30
        read_and_judge(gus, right=False)
        gus.get_by_role("button", name="Go on").click()
        expect(gus.get_by_text("You are given no more of this work")).to_be_visible()
        expect(gus.get_by_text("in the hands of others")).to_have_count(0)
        good = [name for name in RATERS if name != "gus"]
        for turn in range(CHECKS):
            clock.now += 30 * turn
            for name in good:
                read_and_judge(pages[name])
                begin(pages[name], "Go on")
        lead.goto("/board/excluded")
        lead.get_by_text("Let it count again").click()
        lead.get_by_label("Why lift the exclusion of gus").fill("He had mixed the answers up.")
        lead.get_by_role("button", name="Lift").click()
        expect(lead.get_by_text("Lifted by lea")).to_be_visible()
        gus.get_by_role("link", name="Look again").click()
        begin(gus)
        clock.now += 30
        read_and_judge(gus)
        begin(gus, "Go on")
        # One vanishes; what was theirs goes to somebody else.
        work(site, {"vic": vic}, 2)
        lost = urlsplit(vic.url).path.rpartition("/")[2]
        del pages["vic"]
        clock.now += labelling_queue.LEASE_SECONDS + 1
        for page in pages.values():
            page.goto("/desk")
            begin(page)
        # A second tab hands the same task in, otherwise: the first is kept.
        cyd, here = pages["cyd"], pages["cyd"].url
        tab = cyd.context.new_page()
        tab.goto(here)
        clock.now += 30
        for page in pages.values():
            read_and_judge(page)
        read_and_judge(tab, right=False)
        expect(tab.get_by_text("This was handed in already, and the first is what")).to_be_visible()
        tab.close()
        kept = labelling_queue.list_judgements(store, "cyd", 1)[0]
        question = labelling_queue.load_item(store, kept.item).question.text
        assert kept.item == urlsplit(here).path.rpartition("/")[2]
        assert kept.filled["overall"] == find_right_value(question)
        # The rest, of which Dan sees his next three differently.
        wrong = 3
        while there := {name: page for name, page in pages.items() if "/tasks/" in page.url}:
            clock.now += 30
            for name, page in there.items():
                read_and_judge(page, name != "dan" or wrong <= 0)
            wrong -= 1
        lead.goto("/board")
        expect(lead.get_by_text(f"{JUDGEMENTS} of {JUDGEMENTS} handed in")).to_be_visible()
        given = [
            each for name in pages for each in labelling_queue.list_judgements(store, name, 99)
        ]
        assert sum(each.item == lost for each in given) == 2
        # A third person decides where two disagree.
        rex, heard = stack.enter_context(site.window("rex", "reviewer", **wide))
        rex.goto("/disagreements")
        expect(rex.get_by_text("3 items wait for a decision")).to_be_visible()
        for _ in range(3):
            rex.locator(".done-rows li").filter(has_text="open").first.get_by_role("link").click()
            said_by = rex.locator("thead th")
            expect(said_by).to_have_count(3)
            expect(said_by.filter(has_text="dan")).to_have_count(1)
            first = "built" in rex.locator(".answer").first.inner_text()
            rex.get_by_role("radio", name=re.compile("^A better" if first else "^B better")).check()
            rex.get_by_role("radio", name=re.compile("^Sure")).check()
            rex.get_by_label("Why", exact=True).fill("Only one says a year.")
            rex.get_by_role("button", name="Decide").click()
            expect(rex.get_by_text("Decided. What the raters handed in")).to_be_visible()
        expect(rex.get_by_text("Nothing waits for a decision")).to_be_visible()
        disputes = adjudication.load_disagreements(store)
        for each in disputes:
            assert each.decision is not None
            right = find_right_value(each.placed.item.question.text)
            assert each.decision.filled["overall"] == right
            assert sorted(one.filled["overall"] for one in each.judgements) == [-1, 1]
        # Agreement, hours and pay.
        lead.goto("/board/quality?batch=pairs")
        alphas = lead.get_by_role("region", name="Krippendorff").get_by_role("row")
        expect(alphas.filter(has_text="overall")).to_contain_text(
            re.compile(r"0\.85 0\.\d\d to [01]\.\d\d, 40 items")
        )
        expect(lead.get_by_role("columnheader", name="More than two")).to_have_count(0)
        lead.goto("/board/projects/bridges")
        lead.get_by_role("link", name="Hours and pay").click()
        with lead.expect_download() as download:
            lead.get_by_role("link", name="CSV").click()
        sheet = download.value.path().read_text().splitlines()
        paid = {row["rater"]: row for row in csv.DictReader(sheet)}
        assert set(paid) == set(RATERS)
        assert sum(int(row["items"]) for row in paid.values()) == JUDGEMENTS + 6 * TRIALS
        for name, row in paid.items():
            # One item of half a minute each took the half hour that was idle: ten minutes count.
            # Vic's first one lay for a minute, while Gus did his check.
            extra = 30 if name == "vic" else 570
            hours = (int(row["items"]) * 30 + extra) / 3600
            assert (row["hours"], row["amount"]) == (f"{hours:.4f}", f"{hours * 18:.2f}")
        # What is learnt.
        lead.goto("/board/snapshots")
        lead.get_by_label("Name", exact=True).fill("bridges one")
        lead.get_by_label("pairs", exact=True).check()
        lead.get_by_role("button", name="Freeze").click()
        with lead.expect_download() as download:
            lead.get_by_role("button", name="Download bridges one").click()
        with zipfile.ZipFile(download.value.path()) as pack:
            pack.extractall(tmp_path / "judged")
        assert said == heard == []
        assert [each.said for each in seen.values()] == [[]] * len(seen)
    learnt = list(load_comparisons(tmp_path / "judged" / "comparisons.jsonl"))
    assert len(learnt) == 2 * ITEMS - 3  # a decision is one comparison in place of two
    assert sum(each.by == "rex" for each in learnt) == 3
    for made in learnt:
        right = find_right_value(made.question.text)
        assert made.weights == ((1.0, 0.0) if right == -1 else (0.0, 1.0))
    write_example(tmp_path / "example")
    config = tmp_path / "example" / "prefer.toml"
    text = config.read_text().replace(
        f"{tmp_path}/example/comparisons.jsonl", f"{tmp_path}/judged/comparisons.jsonl"
    )
    config.write_text(text)
    done = run("learn", "prefer", "--config", config)
    assert done.code == 0, done.err
    assert f"model: {tmp_path}/example/runs/prefer/model" in done.out

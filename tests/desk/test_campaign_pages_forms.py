"""Forms on the board: written, checked, previewed, stored; and a task of such a form."""

import json
from collections.abc import Iterator
from typing import Literal

import pytest
from own_forms import TONE
from playwright.sync_api import expect
from visits import Opened, Visit, filled_in
from windows import Seen, Site, flaws

from rookery.desk import form_versions, labelling_queue
from rookery.desk.campaign_pages import make_sample_item
from rookery.desk.forms import (
    FORMS,
    Judgement,
    LabellingItem,
    parse_form_text,
    read_packaged_form_text,
)

FORM = parse_form_text(TONE)
GOOD = {
    "friendly.0": "0",
    "why_not.0": "It is too short.",
    "friendly.1": "2",
    "better": "-1",
    "sure": "guess",
    "comment": "It says why, and kindly.",
}


def lay(opened: Opened, text: str = TONE) -> LabellingItem:
    """Stores the form, and an item of it."""
    form = form_versions.add_form(opened.store, text, "lea").form
    item = make_sample_item(form)
    opened.lay(item)
    return item


def press(visit: Visit, button: str, **values: str) -> Visit:
    """Sends the form of the editor or the preview as it stands, with these changes."""
    form = visit.first("form#task" if visit.page.css_first("form#task") else "form.sheet")
    sent = {name: said for name, said in filled_in(form).items() if name != "do"}
    sent |= {name: [said] for name, said in values.items()}
    address = form.attributes["action"] or ""
    if button == "see":
        address = "/board/forms/preview"
    return visit.post(address, **sent, do=button)


def only_judgement(opened: Opened, name: str = "lena") -> Judgement:
    (found,) = labelling_queue.list_judgements(opened.store, name, 9)
    return found


def test_a_form_is_copied_checked_and_stored_on_the_board(opened: Opened) -> None:
    lead = opened.visit("lea", "researcher").get("/board/forms")
    assert all(form.title in lead.text for form in FORMS.values())
    lead.get("/board/forms/edit?copy=thumbs")
    assert 'name = "my_thumbs"' in lead.first("textarea").text()
    wrong = TONE.replace("minutes = 3", "minutes = 0")
    press(lead, "save", **{"form.text": wrong})
    assert lead.status == 422
    assert '"minutes" is 0: give 1 to 600.' in lead.text
    assert lead.first("textarea").text() == wrong  # nothing typed is lost
    assert "Nothing is wrong with tone" in press(lead, "check", **{"form.text": TONE}).text
    assert form_versions.list_form_versions(opened.store, "tone") == []
    press(lead, "save")
    assert lead.at == "/board/forms/tone?said=form"
    assert "Version 1, by lea" in lead.text
    taken = read_packaged_form_text("thumbs")
    lead.get("/board/forms/edit")
    assert "give yours another name" in press(lead, "save", **{"form.text": taken}).text
    assert "Judge only how it is said." in lead.get("/board/guides/tone").text


@pytest.mark.parametrize("name", [*FORMS, "tone"])
def test_a_preview_shows_every_page_of_every_form_and_stores_nothing(
    opened: Opened, name: str
) -> None:
    text = TONE if name == "tone" else read_packaged_form_text(name)
    lead = opened.visit("lea", "researcher")
    lead.post("/board/forms/preview", **{"form.text": text})
    form = parse_form_text(text)
    titles = [lead.html]
    for _ in form.steps[1:]:
        titles.append(press(lead, "on").html)
    for step in form.steps:
        assert any(step.title in page for page in titles) or len(form.steps) == 1
    press(lead, "submit")
    needed = any(field.required == "always" for field in form.fields)
    assert ("still to be filled in" in lead.text) == needed
    assert lead.status == 200
    with opened.store.begin_read() as connection:
        assert form_versions.read_form_versions(connection) == []


def test_a_preview_says_what_would_be_stored(opened: Opened) -> None:
    lead = opened.visit("lea", "researcher")
    lead.post("/board/forms/preview", **{"form.text": TONE})
    press(lead, "submit", **GOOD)
    stored = json.loads(lead.first("pre.shown").text())
    assert stored == {
        "friendly": ["0", "2"],
        "why_not": ["It is too short.", None],
        "better": -1,
        "sure": "guess",
        "comment": "It says why, and kindly.",
    }


def test_a_preview_of_several_pages_keeps_what_was_filled_in(opened: Opened) -> None:
    lead = opened.visit("lea", "researcher")
    long = TONE.replace("minutes = 3", "minutes = 9")
    lead.post("/board/forms/preview", **{"form.text": long})
    press(lead, "on", **{name: said for name, said in GOOD.items() if "." in name})
    press(lead, "submit", **{name: said for name, said in GOOD.items() if "." not in name})
    assert json.loads(lead.first("pre.shown").text())["why_not"] == ["It is too short.", None]


def test_a_question_that_depends_on_another_page_is_there_only_where_it_is_asked(
    opened: Opened,
) -> None:
    apart = TONE.replace("minutes = 3", "minutes = 9").replace(
        'questions = ["better", "sure", "comment"]',
        'questions = ["better"]\n[[steps]]\nname = "end"\ntitle = "At the end"\n'
        'questions = ["sure", "comment"]',
    )
    lead = opened.visit("lea", "researcher")
    for point, there in (("0", False), ("1", True)):
        lead.post("/board/forms/preview", **{"form.text": apart})
        press(lead, "on")
        press(lead, "on", better=point)
        assert "At the end" in lead.text
        assert bool(lead.page.css("input[name=sure]")) == there


def test_forms_are_for_those_who_lead(opened: Opened) -> None:
    rater = opened.visit()
    assert rater.get("/board/forms").status == 403
    assert rater.post("/board/forms/preview", **{"form.text": TONE}).status == 403
    assert rater.post("/board/forms/edit", **{"form.text": TONE, "do": "save"}).status == 403
    lead = opened.visit("lea", "researcher")
    assert lead.get("/board/forms/nothing").status == 404
    assert lead.get("/board/forms/edit?copy=nothing").status == 404
    broken = {"form.text": TONE, "form.kept": "{", "page": "99", "do": "-7"}
    assert lead.post("/board/forms/preview", **broken).status == 200


@pytest.mark.slow
def test_a_task_of_an_own_form_is_done_without_scripts(opened: Opened) -> None:
    lay(opened)
    visit = opened.visit().get("/desk")
    assert "Tone of an answer" in visit.text
    visit.begin("tone")
    assert "Only where you say “Not at all” to “Is it friendly?”." in visit.text
    visit.send({"friendly.0": "0", "friendly.1": "1", "better": "0", "comment": "Too few."})
    assert "2 things are still to be filled in" in visit.text
    assert "At least 5 words, and these are 2: Comment." in visit.text
    row = visit.first("li.claim-row input[name$='.label'][value='rare']").attributes["name"] or ""
    visit.send(GOOD | {row: "rare"})
    assert visit.at == "/desk?said=done", visit.text
    judgement = only_judgement(opened)
    first = judgement.order[0]
    assert judgement.form_version == FORM.digest
    assert judgement.filled["friendly"][first] == "0"
    assert judgement.filled["better"] == (-1 if first == 0 else 1)
    assert [span["answer"] for span in judgement.filled["marks"]] == [first]
    assert visit.get("/guides/tone").status == 200
    visit.get("/history").post(f"/judgements/{judgement.id}/correct").send({"better": "0"})
    assert "sure" not in only_judgement(opened).filled


def test_a_task_that_was_begun_stays_on_its_version_of_the_form(opened: Opened) -> None:
    lay(opened)
    visit = opened.visit().begin("tone")
    changed = TONE.replace("Is it friendly?", "Is it kind?").replace('"Somewhat"', '"A bit"')
    form_versions.add_form(opened.store, changed, "lea")
    assert "Is it friendly?" in visit.get(f"/tasks/{visit.task}").text
    visit.send(GOOD)
    assert only_judgement(opened).form_version == FORM.digest
    assert "Is it kind?" in opened.visit("omar").begin("tone").text
    # A correction is made on the version that the judgement was given on.
    visit.post(f"/judgements/{only_judgement(opened).id}/correct")
    assert "Is it friendly?" in visit.text


@pytest.mark.slow
def test_a_disagreement_is_read_with_the_version_that_was_judged(opened: Opened) -> None:
    lay(opened)
    for name, best in (("lena", 0), ("omar", 1)):
        visit = opened.visit(name).begin("tone")
        key, order = visit.task, labelling_queue.shuffle_answers(visit.task, name, 2)
        better = "-1" if order[0] == best else "1"
        visit.send({**GOOD, "friendly.0": "2", "better": better})
    longer = TONE.replace('levels = ["', 'levels = ["Never", "').replace('"Very"', '"Very", "Ever"')
    form_versions.add_form(opened.store, longer, "lea")
    address = f"/disagreements/{key}"
    reviewer = opened.visit("rex", "reviewer").get(address)
    friendly = [row for row in reviewer.page.css("tbody tr") if "friendly" in row.text()]
    assert [[said.text() for said in row.css("td")] for row in friendly] == [["Very", "Very"]] * 2
    form = reviewer.first("form[aria-labelledby=decide]")
    # What they agree on is filled in where the same is asked now.
    asked = {name: said for name, said in filled_in(form).items() if said != [""]}
    assert asked == {"sure": [GOOD["sure"]], "comment": [GOOD["comment"]]}
    reviewer.post(address, **asked, **{"friendly.0": "3", "friendly.1": "3", "better": "1"})
    assert reviewer.status == 422
    decided = {"friendly.0": "3", "friendly.1": "4", "better": "1", "reason": "It is kind."}
    assert reviewer.post(address, **asked, **decided).status == 200
    form_versions.add_form(opened.store, TONE, "lea")
    again = filled_in(reviewer.get(address).first("form[aria-labelledby=decide]"))
    assert again["better"] == ["1"]
    assert not {"friendly.0", "friendly.1"} & set(again)


MARKS = """\
name = "marked"
title = "Marks"
minutes = 3
answers = 2
[[steps]]
name = "one"
title = "Mark the first"
questions = ["marks"]
answer = 1
[[steps]]
name = "two"
title = "Mark the second"
questions = ["marks"]
answer = 2
[questions.marks]
label = "Marks"
kind = "spans"
required = "always"
choices = [{ value = "a", label = "Rare" }]
"""


def test_what_is_to_be_marked_is_said_at_each_answer(opened: Opened) -> None:
    lay(opened, MARKS)
    visit = opened.visit().begin("marked").send({})
    assert "2 things are still to be filled in" in visit.text
    assert [each.text() for each in visit.page.css("main .claims .problem-text")] == [
        "Not filled in yet: Marks of answer A.",
        "Not filled in yet: Marks of answer B.",
    ]
    lay(opened, MARKS.replace("minutes = 3", "minutes = 6").replace("marked", "pages"))
    visit.begin("pages").send({"marks.0.label": "a"}, do="1").send({})
    assert visit.at == f"/tasks/{visit.task}?page=1&check=1"
    assert "Marks of answer B." in visit.text


# In a real browser


LOOKS: dict[int, Literal["light", "dark"]] = {360: "light", 768: "dark", 1280: "light"}


@pytest.fixture(scope="module")
def laid(site: Site) -> Site:
    """The site with an own form and an item of it."""
    lay(site.opened)
    return site


@pytest.fixture(scope="module")
def open_window(laid: Site) -> Iterator[Seen]:
    with laid.window("lea", "researcher") as window:
        yield window


@pytest.mark.slow
def test_the_pages_of_forms_are_accessible_and_fit(open_window: Seen) -> None:
    page = open_window.page
    for width, scheme in LOOKS.items():
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        for address in ("/board/forms", "/board/forms/tone", "/board/forms/edit"):
            page.goto(address)
            assert flaws(page) == [], (address, width)
        page.goto("/board/forms/tone")
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_text("Preview of tone.")).to_be_visible()
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not page.evaluate(wide), width
        assert flaws(page) == [], width
    assert open_window.said == []


@pytest.mark.slow
def test_a_question_appears_when_its_condition_holds_and_keys_pass_it_by(laid: Site) -> None:
    with laid.window("lena") as seen:
        page = seen.page
        page.goto("/desk")
        page.get_by_role("button", name="Begin").click()
        why = page.get_by_label("What is not friendly about it?")
        sure = page.get_by_role("group", name="How sure are you?")
        expect(page.get_by_role("group", name="Is it friendly?").first).to_be_visible()
        expect(why.first).to_be_hidden()
        expect(sure).to_be_hidden()
        page.keyboard.press("0")
        expect(why.first).to_be_visible()
        expect(why.last).to_be_hidden()
        why.first.fill("It is too short.")
        page.get_by_role("group", name="Is it friendly?").last.get_by_label("Very").check()
        page.keyboard.press("1")
        page.get_by_role("group", name="Which is better for a child?").get_by_label(
            "Equally good"
        ).check()
        expect(sure).to_be_hidden()
        page.get_by_label("A better", exact=False).last.check()
        expect(sure).to_be_visible()
        sure.get_by_label("Sure").check()
        page.get_by_role("button", name="Hand it in").click()
        page.wait_for_url("**/desk?said=done")
        assert seen.said == []
    filled = only_judgement(laid.opened).filled
    assert filled["sure"] == "sure"
    assert filled["better"] in (-1, 1)


QUALITY = """\
name = "quality"
title = "Quality"
minutes = 3
answers = 1
[[steps]]
name = "one"
title = "Judge it"
questions = ["quality", "why"]
[questions.quality]
label = "How good is it?"
kind = "choice"
choices = [{ value = "very good", label = "Very good" }, { value = "'bad' <b>", label = "Bad" }]
[questions.why]
label = "What is bad about it?"
kind = "text"
required = "always"
shown_when = { question = "quality", is = ["'bad' <b>"] }
"""


@pytest.mark.slow
def test_a_condition_may_name_a_value_of_several_words(site: Site) -> None:
    lay(site.opened, QUALITY)
    with site.window("omar") as seen:
        page = seen.page
        page.goto("/desk")
        form = page.locator("form", has=page.locator('input[name="form"][value="quality"]'))
        form.get_by_role("button", name="Begin").click()
        page.get_by_label("Very good").check()
        why = page.get_by_label("What is bad about it?")
        expect(why).to_be_hidden()
        page.get_by_label("Bad", exact=True).check()
        why.fill("It is too short.")
        page.get_by_role("button", name="Hand it in").click()
        page.wait_for_url("**/desk?said=done")
        assert seen.said == []
    assert only_judgement(site.opened, "omar").filled["why"] == "It is too short."

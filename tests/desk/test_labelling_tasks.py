"""Tasks in a browser without scripts: every form is filled in, kept, handed in, corrected."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import select
from visits import BESIDE, CLEAR, FORMS_HERE, JUSTIFICATION, WRITERS, Opened, Visit, filled_in, item

from rookery.desk import labelling_queue, rater_quality
from rookery.desk.forms import FORMS, GoldLabels, Judgement
from rookery.desk.tables import metadata

SUPPORTED = {"plausible.0": "yes", "plausible.1": "yes", "supported.0": "yes", "supported.1": "no"}


def only_judgement(opened: Opened, name: str = "lena") -> Judgement:
    (found,) = labelling_queue.list_judgements(opened.store, name, 9)
    return found


def shown_first(visit: Visit) -> int:
    """Which of the item's answers is shown first."""
    return labelling_queue.shuffle_answers(visit.task, visit.name, 2)[0]


def fill_every_page(visit: Visit) -> None:
    """The last choice of every question, and words wherever there is room for them."""
    for _ in range(9):
        form = visit.first("form#task")
        buttons = [b.attributes.get("value") for b in form.css("button[name=do]")]
        values: dict[str, str | list[str]] = {}
        for control in form.css("fieldset input[type=radio]"):
            values[control.attributes["name"] or ""] = control.attributes["value"] or ""
        for control in form.css("textarea"):
            values[control.attributes["name"] or ""] = "Said in words, and in more than six."
        for control in form.css("li.claim-row input[name$='.support'][value='strong']"):
            values[control.attributes["name"] or ""] = "strong"
        for control in form.css("li.claim-row input[name$='.relevance'][value='core']"):
            values[control.attributes["name"] or ""] = "core"
        for control in form.css("li.claim-row input[name$='.quotes'][value='1']"):
            values[control.attributes["name"] or ""] = ["1"]
        visit.send(values, "submit" if "submit" in buttons else "on")
        if "submit" in buttons:
            return


@pytest.mark.parametrize("form", [name for name in FORMS_HERE if not FORMS[name].auto])
@pytest.mark.parametrize("name", ["lena", "omar"])
def test_every_form_is_filled_in_without_a_script(opened: Opened, form: str, name: str) -> None:
    (task,) = opened.lay(item(form))
    visit = opened.visit(name).begin(form)
    fill_every_page(visit)
    assert visit.at == "/desk?said=done", visit.text
    filled = only_judgement(opened, name).filled
    assert set(filled) == {field.name for field in FORMS[form].fields}
    order = labelling_queue.shuffle_answers(task, name, FORMS[form].answers)
    versus = 2 if order == (0, 1) else -2  # "B much better", in the item's order
    assert all(filled[f.name] == versus for f in FORMS[form].fields if f.kind == "versus")


@pytest.mark.slow
def test_a_pick_and_ratings_are_kept_as_the_item_numbers_its_answers(opened: Opened) -> None:
    opened.lay(item("supported"))
    for name in ("lena", "omar", "mia", "noa"):
        visit = opened.visit(name).begin("supported")
        first = shown_first(visit)
        visit.send(SUPPORTED | {"preferred": "0"})
        filled = only_judgement(opened, name).filled
        assert filled["preferred"] == first
        assert filled["supported"][first] == "yes"
        assert filled["supported"][1 - first] == "no"


def test_claims_of_the_sentences_are_exact_parts_of_their_answers(opened: Opened) -> None:
    opened.lay(item("compare"))
    visit = opened.visit().begin("compare")
    fill_every_page(visit)
    claims = only_judgement(opened).filled["claims"]
    parts = {
        (c["answer"], (CLEAR, BESIDE)[c["answer"]].text[c["start"] : c["end"]]) for c in claims
    }
    assert parts == {
        (0, "Most crows live for seven or eight years."),
        (0, "A few 🐦 reach fifteen."),
        (1, "Crows bend hooks."),
        (1, "So they live long."),
        (1, "Nobody has counted."),
    }
    assert all(
        (c["support"], c["relevance"], c["quotes"]) == ("strong", "core", [1]) for c in claims
    )


def test_one_press_hands_the_best_of_four_in_and_another_takes_it_back(opened: Opened) -> None:
    first, second = opened.lay(item("best_of_four"), item("best_of_four", 1))
    visit = opened.visit().begin("best_of_four")
    button = visit.page.css("button.choose")[2].attributes
    visit.post(f"/tasks/{first}", page="0", best=button["value"] or "")
    judgement = only_judgement(opened)
    assert judgement.filled == {"best": judgement.order[2]}
    assert visit.task == second
    undo = visit.first("form.undo").attributes["action"] or ""
    visit.post(undo)
    assert visit.task == first
    assert "Chosen before" in visit.first("section.chosen .choose").text()
    visit.post(f"/tasks/{first}", page="0", best="0")
    corrected = only_judgement(opened)
    assert (corrected.filled["best"], corrected.supersedes) == (corrected.order[0], judgement.id)
    assert visit.task == second


def test_what_is_missing_is_said_where_it_is_and_nothing_is_lost(opened: Opened) -> None:
    opened.lay(item("supported"))
    visit = (
        opened.visit()
        .begin("supported")
        .send({"plausible.1": "no", "comment": "Well, well: neither of them says why."})
    )
    assert "4 things are still to be filled in" in visit.text
    problems = [p.text() for p in visit.page.css("fieldset.wrong .problem-text")]
    assert len(problems) == 4
    form = filled_in(visit.first("form#task"))
    assert form["plausible.1"] == ["no"]
    assert form["comment"] == ["Well, well: neither of them says why."]
    assert labelling_queue.list_judgements(opened.store, "lena", 9) == []
    visit.send({"plausible.0": "yes", "supported.0": "no", "supported.1": "no", "preferred": "1"})
    assert only_judgement(opened).filled["comment"] == "Well, well: neither of them says why."


def test_a_missing_part_of_an_earlier_step_leads_back_to_it(opened: Opened) -> None:
    opened.lay(item("compare"))
    visit = opened.visit().begin("compare")
    visit.get(f"/tasks/{visit.task}?page=6").send({"overall": "1"})
    assert "page=5" in visit.at
    assert "Step 6 of 7" in visit.text


def test_a_draft_is_there_again_in_another_browser(opened: Opened) -> None:
    opened.lay(item("compare"))
    visit = opened.visit().begin("compare")
    visit.get(f"/tasks/{visit.task}?page=5").send({"coherence": "-1"}, "save")
    assert "Saved" in visit.text
    elsewhere = opened.visit().get(f"/tasks/{visit.task}?page=5")
    assert filled_in(elsewhere.first("form#task"))["coherence"] == ["-1"]
    assert elsewhere.begin("compare").task == visit.task


def test_text_too_long_is_refused_with_a_sentence_and_kept(opened: Opened) -> None:
    opened.lay(item("supported"))
    visit = opened.visit().begin("supported")
    visit.send(SUPPORTED | {"preferred": "0", "comment": "long " * 1200})
    assert "At most 5,000 characters" in visit.text
    assert len(filled_in(visit.first("form#task"))["comment"][0]) == 6000


def test_names_and_values_of_no_field_are_not_kept(opened: Opened) -> None:
    opened.lay(item("supported"))
    visit = opened.visit().begin("supported")
    visit.send({"plausible.7": "yes", "evil": "yes", "plausible.0": "certainly"}, "save")
    kept = labelling_queue.load_item_and_draft(opened.store, visit.task, "lena")[1]
    assert kept is not None
    assert kept["raw"] == {"plausible.0": ["certainly"]}
    assert "Not one of the choices" in visit.send({"plausible.0": "certainly"}).text


@pytest.mark.slow
def test_handing_in_twice_at_once_keeps_one_judgement(opened: Opened) -> None:
    for number in range(6):
        (task,) = opened.lay(item("thumbs", number))
        visit = opened.visit().begin("thumbs")
        fields = filled_in(visit.first("form#task")) | {"thumbs.0": ["up"]}
        with ThreadPoolExecutor(2) as both:
            sent = [both.submit(visit.client.post, f"/tasks/{task}", data=fields) for _ in range(2)]
        assert [each.result().status_code for each in sent] == [200, 200]
        assert len(labelling_queue.list_judgements(opened.store, "lena", 99)) == number + 1


def test_a_tab_left_open_after_handing_in_says_that_it_was_kept_once(opened: Opened) -> None:
    opened.lay(item("thumbs"))
    visit = opened.visit().begin("thumbs")
    stale = visit.html
    visit.send({"thumbs.0": "up"})
    visit.html = stale
    assert (
        "handed in already, and the first is what is kept" in visit.send({"thumbs.0": "down"}).text
    )
    assert only_judgement(opened).filled == {"thumbs": ["up"]}


def test_two_tabs_that_hand_in_different_things_keep_the_first(opened: Opened) -> None:
    (task,) = opened.lay(item("thumbs"))
    visit = opened.visit().begin("thumbs")
    begun = labelling_queue.load_item_and_draft(opened.store, task, "lena")[1]
    stale = visit.html
    visit.send({"thumbs.0": "up"})
    # The other tab had read the draft just before the first was handed in.
    labelling_queue.save_draft(opened.store, task, "lena", begun or {})
    visit.html = stale
    visit.send({"thumbs.0": "down"})
    assert visit.status == 200
    assert "the first is what is kept" in visit.text
    assert only_judgement(opened).filled == {"thumbs": ["up"]}


@pytest.mark.slow
@pytest.mark.parametrize("do", ["submit", "draft", "save", "on"])
def test_a_task_of_somebody_else_is_refused_with_a_sentence(opened: Opened, do: str) -> None:
    (task,) = opened.lay(item("thumbs"))
    theirs = filled_in(opened.visit("omar").begin("thumbs").first("form#task"))
    mine = opened.visit().post(f"/tasks/{task}", **theirs, **{"thumbs.0": "up", "do": do})
    assert mine.status == 409
    assert "You do not have this task" in mine.text
    assert mine.post(f"/tasks/{task}/leave", **theirs, reason="broken", do="skip").status == 409
    assert "was not handed out to you" in mine.text
    assert labelling_queue.load_item_and_draft(opened.store, task, "lena")[1] is None
    assert mine.begin("thumbs").status == 200


def test_work_after_the_lease_ran_out_is_kept_and_told(opened: Opened) -> None:
    opened.lay(item("thumbs"), copies=1)
    slow = opened.visit("slow").begin("thumbs")
    opened.clock.now += 2 * labelling_queue.LEASE_SECONDS
    opened.visit("quick").begin("thumbs").send({"thumbs.0": "down"})
    assert "kept as an additional judgement" in slow.send({"thumbs.0": "up"}).text
    assert only_judgement(opened, "slow").kind == "extra"


@pytest.mark.parametrize(("do", "kind"), [("skip", "skipped"), ("flag", "flagged")])
def test_a_task_is_left_with_a_reason_and_never_comes_again(
    opened: Opened, do: str, kind: str
) -> None:
    opened.lay(item("thumbs"))
    visit = opened.visit().begin("thumbs")
    form = visit.first(f"#{do} form")
    fields = filled_in(form) | {"words": ["It is odd."], "do": [do]}
    visit.post(form.attributes["action"] or "", **fields)
    judgement = only_judgement(opened)
    assert judgement.kind == kind
    assert judgement.filled["reason"].endswith(": It is odd.")
    assert "nothing more to do" in visit.begin("thumbs").text


def test_a_correction_begins_with_what_was_said(opened: Opened) -> None:
    opened.lay(item("supported"))
    visit = (
        opened.visit()
        .begin("supported")
        .send(dict.fromkeys(SUPPORTED, "no") | {"preferred": "both_bad"})
    )
    before = only_judgement(opened)
    visit.post(f"/judgements/{before.id}/correct")
    form = filled_in(visit.first("form#task"))
    assert {name: form[name] for name in SUPPORTED} == {key: ["no"] for key in SUPPORTED}
    assert form["preferred"] == ["both_bad"]
    visit.send({"preferred": "0"})
    assert "Corrected" in visit.text
    after = only_judgement(opened)
    assert (after.supersedes, after.filled["preferred"]) == (before.id, after.order[0])


def test_a_judgement_is_found_and_corrected_however_many_came_after_it(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rookery.desk.labelling_tasks.MAX_HISTORY", 2)
    opened.lay(*(item("thumbs", number) for number in range(4)))
    visit = opened.visit()
    for _ in range(4):
        visit.begin("thumbs").send({"thumbs.0": "up"})
    *_, oldest = labelling_queue.list_judgements(opened.store, "lena", 9)
    assert len(visit.get("/history").page.css("form[action$='/correct']")) == 2
    assert visit.post(f"/judgements/{oldest.id}/correct").status == 200
    visit.send({"thumbs.0": "down"})
    assert "Corrected" in visit.text
    newest = labelling_queue.list_judgements(opened.store, "lena", 9)[0]
    assert (newest.supersedes, newest.filled["thumbs"]) == (oldest.id, ["down"])
    assert visit.get(f"/tasks/{newest.item}").status == 409
    assert "You did this one" in visit.text


def test_nobody_corrects_what_another_did(opened: Opened) -> None:
    opened.lay(item("thumbs"))
    opened.visit("lena").begin("thumbs").send({"thumbs.0": "up"})
    theirs = only_judgement(opened, "lena")
    other = opened.visit("omar").post(f"/judgements/{theirs.id}/correct")
    assert other.status == 404
    assert other.get(f"/judgements/{theirs.id}").status == 404


def test_an_attention_check_is_told_afterwards_and_only_then(opened: Opened) -> None:
    told = f"{JUSTIFICATION} Answer {{1}} has it."
    gold = GoldLabels({"preferred": 0, "supported": ["yes", "no"]}, told)
    opened.lay(item("supported", 1, gold), prelude=True)
    visit = opened.visit().begin("supported")
    assert JUSTIFICATION not in visit.html
    first = shown_first(visit)
    visit.send(dict.fromkeys(SUPPORTED, "yes") | {"preferred": str(1 - first)})
    assert JUSTIFICATION in visit.text
    assert f"Answer {'AB'[first]} has it." in visit.text
    assert "differently" in visit.text
    rows = [row.text(separator=" ").split() for row in visit.page.css("tbody tr")]
    assert [row[-1] for row in rows[:2]] == (["Yes", "No"] if first == 0 else ["No", "Yes"])


@pytest.mark.slow
def test_who_fails_an_attention_check_gets_no_more_of_its_batch_until_a_lead_says_so(
    opened: Opened,
) -> None:
    gold = GoldLabels({"thumbs": ["up"]}, JUSTIFICATION)
    opened.lay(*(item("thumbs", n, gold) for n in range(4)), prelude=True, copies=2)
    opened.lay(item("thumbs", 9), copies=2)
    visit, good = opened.visit("omar"), opened.visit("lena")
    for said in ("down", "up", "up"):
        assert "given no more" not in visit.get("/desk").text
        visit.begin("thumbs").send({"thumbs.0": said})
    visit.begin("thumbs").send({"thumbs.0": "down"})  # 2 of 4: 3 of 4 are needed
    assert "2 of 4 right, at least 75% are needed" in visit.get("/desk").text
    assert visit.page.css("form[action='/next']") == []
    assert visit.post("/next").at == "/desk?said=nothing"
    for said in ("up", "down", "up", "up"):
        good.begin("thumbs").send({"thumbs.0": said})
    assert "given no more" not in good.get("/desk").text
    good.begin("thumbs").send({"thumbs.0": "up"})
    [row] = rater_quality.list_exclusions(opened.store)
    assert (row.which, row.by) == ("omar", "the attention check")
    rater_quality.lift_exclusion(opened.store, row.number, "the check was unclear", "lena")
    assert "given no more" not in visit.get("/desk").text
    visit.begin("thumbs").send({"thumbs.0": "up"})
    assert len(labelling_queue.list_judgements(opened.store, "omar", 9)) == 5


@pytest.mark.parametrize("do", ["skip", "flag"])
def test_who_leaves_out_an_attention_check_fails_it(opened: Opened, do: str) -> None:
    opened.lay(item("thumbs", 1, GoldLabels({"thumbs": ["up"]}, JUSTIFICATION)), prelude=True)
    opened.lay(item("thumbs", 9))
    visit = opened.visit().begin("thumbs")
    token = visit.first("input[name=token]").attributes["value"]
    visit.post(f"/tasks/{visit.task}/leave", do=do, reason="too_long", token=str(token))
    assert visit.at.startswith("/desk")
    assert "0 of 1 right" in visit.get("/desk").text
    assert visit.post("/next").at == "/desk?said=nothing"


def test_gold_answers_of_what_is_no_check_are_never_told(opened: Opened) -> None:
    opened.lay(item("thumbs", 1, GoldLabels({"thumbs": ["up"]}, JUSTIFICATION)))
    visit = opened.visit().begin("thumbs").send({"thumbs.0": "down"})
    mine = only_judgement(opened)
    assert JUSTIFICATION not in visit.get(f"/judgements/{mine.id}").html
    assert visit.status == 404


def test_a_doubt_is_said_once_and_can_be_passed_over(opened: Opened) -> None:
    opened.lay(item("supported"))
    visit = opened.visit().begin("supported").send(SUPPORTED | {"preferred": "1"})
    assert "Please look once more" in visit.text
    assert labelling_queue.list_judgements(opened.store, "lena", 9) == []
    assert visit.send({}).at == "/desk?said=done"


@pytest.mark.slow
def test_names_of_models_are_in_no_page_of_a_labeller(opened: Opened) -> None:
    opened.lay(*(item(form) for form in FORMS_HERE))
    visit = opened.visit()
    seen = visit.get("/desk").html
    for form in FORMS_HERE:
        visit.begin(form)
        for number in range(len(FORMS[form].steps)):
            seen += visit.get(f"/tasks/{visit.task}?page={number}").html
    assert not [writer for writer in WRITERS if writer in seen]


def test_addresses_are_hidden_where_evidence_is_to_speak_alone(opened: Opened) -> None:
    opened.lay(item("supported"), item("compare"))
    assert "example" not in opened.visit().begin("supported").text
    read = opened.visit().begin("compare")
    assert "example" in read.get(f"/tasks/{read.task}?page=1").text


def test_looking_changes_nothing(opened: Opened) -> None:
    opened.lay(*(item(form) for form in FORMS_HERE))
    visit = opened.visit().begin("compare")
    fill_every_page(visit)
    visit.begin("supported")
    done = only_judgement(opened)
    for form in FORMS_HERE:
        visit.get(f"/guides/{form}")  # kept as version 1 when it is first read
    before = everything(opened)
    task = f"/tasks/{visit.task}?check=1"
    for address in ("/desk", "/history", "/guides", task, "/leave", "/next"):
        visit.get(address)
    visit.get(f"/judgements/{done.id}").get(f"/judgements/{done.id}/correct")
    visit.get(f"/tasks/{visit.task}/leave").get("/enter/whatever").get("/nowhere")
    assert everything(opened) == before


def everything(opened: Opened) -> dict[str, list[Any]]:
    with opened.store.begin_read() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(select(table))))
            for table in metadata.sorted_tables
        }


def test_a_task_that_is_in_other_hands_is_not_shown(opened: Opened) -> None:
    (task,) = opened.lay(item("thumbs"), copies=1)
    opened.visit("lena").begin("thumbs")
    other = opened.visit("omar").get(f"/tasks/{task}")
    assert other.status == 409
    assert "You do not have this task" in other.text
    assert "How old" not in other.text
    assert "others have taken it up" in other.post("/next", item=task).text
    assert other.get("/tasks/nothing").status == 404


def test_the_first_page_counts_what_there_is(opened: Opened) -> None:
    opened.lay(item("thumbs"), item("thumbs", 1), item("compare"))
    visit = opened.visit().get("/desk")
    named, counted = (visit.page.css(f".task-card {part}") for part in ("h2", ".big"))
    cards = {name.text(): count.text() for name, count in zip(named, counted, strict=True)}
    assert cards == {"Compare two answers": "1", "Thumbs up or down": "2"}
    visit.begin("thumbs").send({"thumbs.0": "up"})
    assert "You did 1 in the last 24 hours" in visit.get("/desk").text

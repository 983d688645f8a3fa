"""A labelling campaign at the desk: projects and payment, by visits without a browser."""

import csv
import io

import pytest
from boards import TEAM, hire, judge, work
from visits import Opened, Visit, filled_in, item

from rookery.desk import (
    accounts,
    adjudication,
    crowd_entry,
    labelling_queue,
    projects,
    rater_quality,
)
from rookery.desk.accounts import list_audit_entries


@pytest.fixture
def lead(opened: Opened) -> Visit:
    hire(opened)
    return opened.visit("lea", "researcher")


def rows(visit: Visit) -> dict[str, list[str]]:
    """The cells of each rater's row on the page of payment."""
    return {
        (line.css_first("th a") or line).text(): [each.text().strip() for each in line.css("td")]
        for line in visit.page.css(".grid-table tbody tr")
    }


def test_a_project_is_made_and_its_settings_are_changed(opened: Opened, lead: Visit) -> None:
    assert lead.post("/board/projects", name=" ").status == 422
    lead.post("/board/projects", name="corvids & co")
    assert "Made." in lead.text
    assert lead.post("/board/projects", name="corvids & co").status == 422
    assert "there is a project of this name" in lead.text
    link = lead.first("h2 a").attributes["href"] or ""
    lead.get(link)
    assert lead.status == 200
    sent = {"project": "corvids & co", "rate": "15.5", "per": "item", "pay_excluded": "false"}
    lead.post("/board/projects/settings", **sent, pass_share="0.5", session_items="12")
    assert "The settings are saved" in lead.text
    settings = projects.load_project(opened.store, "corvids & co").settings
    assert (settings.rate, settings.per, settings.pay_excluded) == (15.5, "item", False)
    assert (settings.pass_share, settings.session_items, settings.idle_minutes) == (0.5, 12, 10.0)
    assert lead.first("#set-rate").attributes["value"] == "15.5"
    for wrong in ({"rate": "much"}, {"pass_share": "75"}, {"per": "week"}, {"rate": "-1"}):
        lead.post("/board/projects/settings", project="corvids & co", **wrong)
        assert lead.status == 422, wrong
    assert projects.load_project(opened.store, "corvids & co").settings == settings
    assert lead.post("/board/projects/settings", project="none", rate="1").status == 404
    assert lead.get("/board/projects/none").status == 404
    told = [each.what for each in list_audit_entries(opened.store) if each.action == "project"]
    assert told == [
        "corvids & co",
        "corvids & co: pass share 0.5, pay excluded False, per item, rate 15.5, session items 12",
    ]


@pytest.mark.slow
def test_payment_is_shown_by_rater_and_downloaded(opened: Opened, lead: Visit) -> None:
    work(opened)
    assert rows(lead.get("/board/pay"))["bob"][-1] == "0.05"
    projects.save_project(opened.store, "corvids", projects.ProjectSettings(rate=30.0), "lea")
    lead.post("/board/projects/batch", project="corvids", batch="ravens")
    shown = rows(lead.get("/board/pay?project=corvids"))
    assert set(shown) == {"ada", "bob", "lea"}
    hours = (4 * 40 + 10 * 95) / 3600
    assert shown["ada"][0] == "14"
    assert shown["ada"][4:] == [f"{hours:.2f}", f"{hours * 30:.2f}"]
    assert shown["bob"][3].startswith("14")
    link = lead.first("a[href^='/board/pay.csv']").attributes["href"] or ""
    sheet = lead.client.get(link)
    assert sheet.headers["content-type"].startswith("text/csv")
    [_, ada, *_] = csv.reader(io.StringIO(sheet.text))
    assert ada[0] == "ada"
    assert ada[6] == f"{hours * 30:.2f}"
    assert rows(lead.get("/board/pay?project=corvids&since=2023-11-15")) == {}
    assert lead.get("/board/pay?project=corvids&since=nonsense").status == 200
    assert lead.get("/board/pay?project=none").status == 404
    assert lead.get("/board/pay.csv?project=none").status == 404
    reviewer = opened.visit("rex", "reviewer")
    assert reviewer.get("/board/pay.csv").status == 403


def test_saving_a_draft_counts_as_an_action(opened: Opened) -> None:
    """Through the pages: twelve minutes with a draft in the middle are all paid, and those of a
    correction."""
    [key] = opened.lay(item("supported"))
    labeller = opened.visit()
    labeller.begin("supported")
    opened.clock.now += 360
    labeller.send({"plausible.0": "yes"}, do="draft")
    opened.clock.now += 360
    values = {"plausible.0": "yes", "plausible.1": "no", "supported.0": "yes"}
    labeller.get(f"/tasks/{key}").send({**values, "supported.1": "no", "preferred": "0"})
    [done] = labelling_queue.list_judgements(opened.store, "lena", 1)
    assert done.ended - done.began == 720
    lead = opened.visit("lea", "researcher")
    assert rows(lead.get("/board/pay"))["lena"][-1] == "0.20"
    opened.clock.now += 3600
    labeller.post(f"/judgements/{done.id}/correct")
    for _ in range(2):
        opened.clock.now += 540
        labeller.send({"plausible.1": "yes"}, do="save")
    opened.clock.now += 360
    labeller.send({"plausible.1": "yes"})
    assert labelling_queue.list_judgements(opened.store, "lena", 1)[0].supersedes == done.id
    assert rows(lead.get("/board/pay"))["lena"][-1] == "0.60"


@pytest.mark.slow
def test_who_is_not_admitted_gets_the_trial_and_then_waits(opened: Opened, lead: Visit) -> None:
    lead.post("/board/projects", name="corvids")
    lead.post("/board/projects/batch", project="corvids", batch="real")
    lead.post("/board/projects/batch", project="corvids", batch="trial", trial="yes")
    [first, *others] = opened.lay(*(item("thumbs", n) for n in range(4)), batch="real")
    [tried] = opened.lay(item("thumbs", 9), batch="trial")
    ada = opened.visit("ada")
    assert ada.begin("thumbs").task == tried
    assert ada.post("/next", item=first).status == 200
    assert ada.task == ""
    judge(opened, "ada", tried, 30, thumbs=["up"])
    ada.get("/desk")
    assert "Your trial of corvids is done" in ada.text
    lead.get("/board/projects/corvids")
    assert "waits" in lead.text
    assert "1 of 1 of the trial done" in lead.text
    lead.post("/board/projects/admission", project="corvids", person="ada", do="admit")
    assert ada.begin("thumbs").task in (first, *others)
    refused = {"project": "corvids", "person": "ada", "do": "refuse"}
    assert lead.post("/board/projects/admission", **refused).status == 422
    lead.post("/board/projects/admission", **refused, reason="guesses")
    judge(opened, "ada", ada.task, 30, thumbs=["up"])
    assert "guesses" in ada.get("/desk").text
    assert ada.begin("thumbs").task == ""
    assert lead.get("/desk").begin("thumbs").task in (first, *others)


@pytest.mark.slow
def test_a_third_person_decides_where_two_disagree(opened: Opened, lead: Visit) -> None:
    found = opened.lay(*(item("supported", n) for n in range(2)), batch="ravens")
    both = {"plausible": ["yes", "yes"], "supported": ["yes", "no"]}
    for name, best in (("ada", 0), ("bob", 1)):
        judge(opened, name, found[0], 60, **both, preferred=best)
        judge(opened, name, found[1], 60, **both, preferred=0)
    assert opened.visit("ada").get("/disagreements").status == 403
    reviewer = opened.visit("rex", "reviewer")
    reviewer.get("/disagreements")
    assert "One item waits for a decision" in reviewer.text
    address = f"/disagreements/{found[0]}"
    assert [each.attributes["href"] for each in reviewer.page.css(".asked a")] == [address]
    assert reviewer.get(f"/disagreements/{found[1]}").status == 404
    reviewer.get(address)
    heads = [each.text() for each in reviewer.page.css("thead th")]
    assert heads == ["Asked", "ada", "bob"]
    differing = [each.css_first("th") for each in reviewer.page.css("tr:has(.tag.warn)")]
    assert ["".join(each.text()) for each in differing if each] == ["Preferred"]
    form = reviewer.first("form[aria-labelledby=decide]")
    agreed = filled_in(form)
    assert {name for name in agreed if "." in name} == {
        f"{name}.{place}" for name in both for place in (0, 1)
    }
    assert "preferred" not in agreed

    def decide(visit: Visit, **more: str) -> int:
        said: dict[str, str | list[str]] = {**agreed, **more}
        return visit.post(address, **said).status

    assert decide(reviewer, reason="so") == 422
    assert "Not decided yet" in reviewer.text
    order = labelling_queue.shuffle_answers(found[0], "rex", 2)
    choice = str(order.index(1))
    assert decide(reviewer, preferred=choice, reason=" ") == 422
    assert decide(reviewer, preferred=choice, reason="the evidence is about age") == 200
    assert "Decided." in reviewer.text
    assert "decided by rex" in reviewer.text
    [done] = adjudication.load_disagreements(opened.store)
    assert done.decision is not None
    assert done.decision.filled == {**both, "preferred": 1}
    assert [each.filled["preferred"] for each in done.judgements] == [0, 1]
    lead.get(address)
    assert "the evidence is about age" in lead.text
    judge(opened, "lea", found[0], 60, **both, preferred=1)
    assert "You judged this item yourself" in lead.get(address).text
    assert decide(lead, preferred=choice, reason="mine") == 422
    for name in ("ada", "bob", "lea"):
        rater_quality.exclude_judgements(opened.store, "person", name, "guesses", "lea")
    assert "decided by rex" in reviewer.get("/disagreements").text
    assert "the evidence is about age" in reviewer.get(address).text
    assert "You judged this item yourself" in lead.get(address).text
    assert decide(reviewer, preferred=choice, reason="it still is") == 200


def arrive(opened: Opened, lead: Visit, participant: str = "5f0c1e2d3b4a") -> Visit:
    """Somebody who follows the link that the lead made."""
    lead.post("/board/projects/link", project="corvids", days="7", study="65aa")
    address = lead.first("#link").text()
    assert address.startswith("http://desk.test/enter/crowd/corvids?")
    for name, value in (
        ("PROLIFIC_PID", participant),
        ("STUDY_ID", "65aa"),
        ("SESSION_ID", f"s-{participant}"),
    ):
        assert f"{name}={{{{%{name}%}}}}" in address
        address = address.replace("{{%" + name + "%}}", value)
    visit = Visit(opened.client(), f"prolific-{participant}")
    visit.get(address)
    assert "Welcome to corvids" in visit.text
    assert [one.name for one in accounts.list_people(opened.store)].count(visit.name) == 0
    return visit.post(address)


@pytest.mark.slow
def test_somebody_comes_from_prolific_and_leaves_with_a_code(opened: Opened, lead: Visit) -> None:
    projects.save_project(opened.store, "corvids", projects.ProjectSettings(session_items=2), "lea")
    lead.post("/board/projects/batch", project="corvids", batch="first")
    found = opened.lay(*(item("thumbs", n) for n in range(3)))
    opened.lay(item("thumbs", 9), batch="internal")
    visit = arrive(opened, lead)
    assert visit.at.startswith("/desk?said=in")
    assert "0 of 2 done" in visit.text
    links = [one.attributes["href"] for one in visit.page.css("header nav a")]
    assert links == ["/desk", "/history", "/guides"]
    for address in ("/", "/documents", "/cord", "/board", "/disagreements", "/answers/x"):
        assert visit.get(address).status in (403, 404), address
    assert visit.post("/desk/finish").status == 403
    opened.clock.now += 60
    for number in range(2):
        visit.begin("thumbs")
        assert visit.task in found
        judge(opened, visit.name, visit.task, 60, thumbs=["up"])
        assert f"{number + 1} of 2 done" in visit.get("/desk").text
    assert visit.post("/next", form="thumbs").task == ""
    visit.post("/desk/finish")
    code = visit.first("#code").text()
    [session] = crowd_entry.list_crowd_sessions(opened.store, "corvids")
    assert session.code == code
    assert visit.first("a.primary").attributes["href"] == (
        f"https://app.prolific.com/submissions/complete?cc={code}"
    )
    lead.get("/board/projects/corvids")
    assert code in lead.text
    assert rows(lead.get("/board/pay?project=corvids"))[visit.name][0] == "2"
    for days in ("0", "366", "03650", "-1", "inf", "1.5", ""):
        assert lead.post("/board/projects/link", project="corvids", days=days).status == 422
    assert "give a number of days from 1 to 365" in lead.text


def test_a_campaign_s_sentences_are_in_the_language_of_the_page(
    opened: Opened, lead: Visit
) -> None:
    settings = {"project": "corvids", "session_items": "1"}
    lead.post("/board/projects", name="corvids")
    lead.post("/board/projects/batch", project="corvids", batch="first")
    lead.post("/board/projects/settings", **settings)
    lead.post("/board/projects/settings", **settings, rate="much")
    assert "rate: give a number" in lead.text
    assert "Expected" not in lead.text
    lead.client.cookies.set("language", "de")
    lead.post("/board/projects/settings", **settings, rate="much")
    assert "rate: eine Zahl angeben" in lead.text
    lead.post("/board/projects/link", project="corvids", days="0")
    assert "eine Zahl von Tagen von 1 bis 365 angeben" in lead.text

    address = crowd_entry.make_crowd_link(opened.store, "corvids", 7, "", "lea")
    for name in ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID"):
        address = address.replace("{{%" + name + "%}}", "5f0c")
    visit = Visit(opened.client(), "prolific-5f0c")
    assert "You will be given one task, with a guide." in visit.get(address).text
    visit.client.cookies.set("language", "de")
    assert "Sie bekommen eine Aufgabe mit einer Anleitung." in visit.get(address).text
    visit.post(address)
    reason = "failed the attention check of first: 0 of 4 right, at least 0.75 are needed"
    rater_quality.exclude_judgements(opened.store, "person", visit.name, reason, "lea")
    visit.post("/desk/finish")
    assert "Aus diesem Grund gibt es keinen Code: Aufmerksamkeitstest von first" in visit.text


def test_a_changed_crowd_link_says_what_to_do(opened: Opened, lead: Visit) -> None:
    projects.save_project(opened.store, "corvids", projects.ProjectSettings(), "lea")
    address = crowd_entry.make_crowd_link(opened.store, "corvids", 7, "", "lea")
    visit = Visit(opened.client(), "nobody")
    for wrong in (address, address.replace("sign=", "sign=0"), "/enter/crowd/corvids"):
        assert visit.get(wrong).status == 410
        assert "open it from the study again" in visit.text
        assert visit.post(wrong).status == 410
    assert {one.name for one in accounts.list_people(opened.store)} == {*TEAM}


@pytest.mark.parametrize("name", ["a/b", "/a//b/", "50 % + ?#&=;", "Krähen"], ids=range(4))
def test_a_crowd_link_works_whatever_the_project_is_called(opened: Opened, name: str) -> None:
    projects.save_project(opened.store, name, projects.ProjectSettings(), "lea")
    address = crowd_entry.make_crowd_link(opened.store, name, 7, "", "lea")
    for mark in crowd_entry.PLATFORM_PARAMETERS.values():
        address = address.replace(mark, "65aa")
    visit = Visit(opened.client(), "prolific-65aa").get(address)
    assert (visit.status, visit.first("h1").text()) == (200, f"Welcome to {name}")
    assert visit.post(address).at == "/desk?said=in"
    [session] = crowd_entry.list_crowd_sessions(opened.store, name)
    assert session.participant == "65aa"


@pytest.mark.slow
def test_a_rater_sees_how_far_they_are_and_what_came_of_a_flag(opened: Opened, lead: Visit) -> None:
    found = opened.lay(*(item("thumbs", n) for n in range(3)))
    ada = opened.visit("ada")
    for key in found[:2]:
        judge(opened, "ada", key, 30, thumbs=["up"])
    assert "2 of 3 done" in ada.get("/desk").text
    assert "2 of 3 done" in ada.begin("thumbs").text
    token = str(ada.first("input[name=token]").attributes["value"])
    ada.post(f"/tasks/{ada.task}/leave", do="flag", reason="senseless", token=token)
    assert "Nobody has answered your flag yet" in ada.get("/history").text
    lead.get("/board/returned")
    key = lead.first("input[name=judgement]").attributes["value"] or ""
    assert lead.post("/board/reply", judgement=key, reason=" ").status == 422
    lead.post("/board/reply", judgement=key, reason="we mended the question")
    assert "lea answered: we mended the question" in lead.text
    assert "we mended the question" in ada.get("/history").text
    assert "How far you agree with others is shown here" in ada.text


def test_a_rater_sees_their_agreement_after_a_week(opened: Opened) -> None:
    opened.visit("bob")
    ada = opened.visit("ada")
    for key in opened.lay(*(item("thumbs", n) for n in range(5))):
        judge(opened, "ada", key, 30, thumbs=["up"])
        judge(opened, "bob", key, 30, thumbs=["up"])
    assert "You and others" not in ada.get("/history").text
    opened.clock.now += 7 * 86_400
    ada = opened.visit("ada")
    assert "in 100% of 5 cases" in ada.get("/history").text

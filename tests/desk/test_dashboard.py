"""The lead's board: progress, quality, what does not count, snapshots, people, guides, the book."""

import io
import json
import zipfile

import pytest
from boards import hire, judge, part, train, value, work
from visits import Opened, Visit, item

from rookery.desk import accounts, form_versions, labelling_queue, rater_quality
from rookery.desk.accounts import list_audit_entries
from rookery.desk.forms import GoldLabels

PAGES = (
    "/board",
    "/board/quality",
    "/board/returned",
    "/board/excluded",
    "/board/snapshots",
    "/board/projects",
    "/board/pay",
    "/board/people",
    "/board/guides",
    "/board/guides/supported",
    "/board/book",
    "/board/person/ada",
)


@pytest.fixture
def lead(opened: Opened) -> Visit:
    hire(opened)
    return opened.visit("lea", "researcher")


def test_only_researchers_and_admins_see_the_board(opened: Opened) -> None:
    hire(opened)
    reviewer = opened.visit("rex", "reviewer")
    assert reviewer.get("/desk").page.css_first("a[href='/board']") is None
    for address in PAGES:
        assert reviewer.get(address).status == 403
    for address in ("retire", "exclude", "lift", "exclude-failed", "people/invite", "snapshots"):
        assert reviewer.post(f"/board/{address}", name="rex", role="admin").status == 403
    assert opened.visit("ann", "admin").get("/board").status == 200


def test_every_page_is_there_before_there_is_anything_to_see(opened: Opened, lead: Visit) -> None:
    for address in PAGES:
        assert lead.get(address).status == 200, address


def test_the_board_says_how_far_each_batch_is(opened: Opened, lead: Visit) -> None:
    work(opened)
    labelling_queue.claim_item(opened.store, "rex", only_form="best_of_four")
    lead.get("/board")
    first, second = lead.page.css("section.batch")
    assert part(first, "h2").text() == "crows-run"
    figures = [" ".join(one.text().split()) for one in first.css(".figures span")]
    assert figures == ["0 of 5 handed in", "1 in hand", "4 waiting", "5 items"]
    figures = [" ".join(one.text().split()) for one in second.css(".figures span")]
    places = 4 * 9 + 12 * 4
    assert figures[0] == f"42 of {places} handed in"
    assert figures[2:] == [f"{places - 42} waiting", "16 items"]


def test_a_batch_is_retired_with_a_reason_and_what_is_in_hand_is_still_taken(
    opened: Opened, lead: Visit
) -> None:
    work(opened)
    assert lead.post("/board/retire", batch="crows-run", reason=" ").status == 422
    assert labelling_queue.count_waiting_items(opened.store, "rex")["best_of_four"] == 5
    lead.post("/board/retire", batch="crows-run", reason="the run was stopped")
    assert "Retired" in lead.text
    assert "best_of_four" not in labelling_queue.count_waiting_items(opened.store, "rex")
    assert "5 retired" in lead.text


def test_quality_has_numbers_with_intervals_or_the_reason_why_there_is_none(
    opened: Opened, lead: Visit
) -> None:
    work(opened)
    board = rater_quality.build_quality_report(opened.store, "ravens")
    lead.get("/board/quality?batch=ravens")
    [rate] = [one for one in board.rates if one.between == "researcher and labeller"]
    assert isinstance(rate.credit.value, float)
    assert f"{100 * rate.credit.value:.0f}%" in lead.text
    assert f"{100 * (rate.credit.low or 0):.0f}–{100 * (rate.credit.high or 0):.0f}%" in lead.text
    assert "Undefined: they judged no item in common" in lead.text
    assert "undefined: unanimous" in lead.text
    rows = {part(one, "th a").text(): one.text() for one in lead.page.css(".wide-table tbody tr")}
    assert set(rows) == {"ada", "bob", "lea"}
    assert "hasty" in rows["bob"]
    assert "hasty" not in rows["ada"]
    assert "ravens: 4 of 4" in rows["ada"]
    assert lead.get("/board/quality?batch=owls").status == 404


def test_exclusions_have_reasons_and_are_lifted_with_reasons(opened: Opened, lead: Visit) -> None:
    work(opened)
    lead.get("/board/excluded")
    assert "clicks without reading" in lead.text
    assert lead.post("/board/exclude", person="ada", reason="").status == 422
    assert "say why" in lead.text
    lead.post("/board/exclude", person="ada", batch="ravens", reason="knew the answers")
    assert {one.which for one in rater_quality.list_exclusions(opened.store)} == {"bob", "ada"}
    [_, made] = rater_quality.list_exclusions(opened.store)
    assert (made.batch, made.by) == ("ravens", "lea")
    lead.post("/board/lift", number=str(made.number), reason="she did not")
    assert "count again" in lead.text
    assert "Lifted by lea" in lead.text
    assert rater_quality.list_exclusions(opened.store)[-1].lifts == made.number
    assert lead.post("/board/lift", number="nonsense", reason="why").status == 422
    lead.get("/board/person/ada")
    assert "Preferred" in lead.text
    judgement = value(lead.page, "input[name=judgement]")
    both = lead.post("/board/exclude", judgement=judgement, batch="ravens", reason="a slip")
    assert both.status == 422
    assert "leave the batch out" in lead.text
    lead.post("/board/exclude", judgement=judgement, reason="a slip")
    assert [one.which for one in rater_quality.list_exclusions(opened.store)][-1] == judgement


def test_who_failed_an_attention_check_is_proposed_and_excluded_by_a_click(
    opened: Opened, lead: Visit
) -> None:
    checks = opened.lay(
        *(item("supported", n, GoldLabels({"preferred": 0})) for n in range(4)), prelude=True
    )
    for key in checks:
        judge(opened, "bob", key, 40, plausible=["yes"] * 2, supported=["yes"] * 2, preferred=1)
    lead.get("/board/excluded")
    assert "failed the attention check of first: 0 of 4 right" in lead.text
    lead.post("/board/exclude-failed")
    [made] = rater_quality.list_exclusions(opened.store)
    assert (made.which, made.batch) == ("bob", "first")
    assert "Proposed" not in lead.text


def test_what_was_flagged_is_shown_with_its_reason_and_retired(opened: Opened, lead: Visit) -> None:
    work(opened)
    lead.get("/board/returned")
    assert "ada" in lead.text
    assert "It makes no sense" in lead.text
    assert "It takes too long" in lead.text
    key = value(lead.page, "form input[name=item]")
    lead.post("/board/retire", item=key, reason="it has no answer")
    assert "retired: it has no answer" in lead.text
    assert len(lead.page.css("form input[name=item]")) == 1


def test_a_snapshot_is_downloaded_twice_with_the_same_bytes(opened: Opened, lead: Visit) -> None:
    work(opened)
    assert lead.post("/board/snapshots", name=" ").status == 422
    lead.post("/board/snapshots", name="first ravens", batch=["ravens"], form=["supported"])
    assert "Frozen" in lead.text
    assert lead.post("/board/snapshots", name="first ravens").status == 422
    assert "there is a snapshot of this name" in lead.text
    first = lead.client.post("/board/snapshots/download", data={"name": "first ravens"})
    opened.clock.now += 10_000
    second = lead.client.post("/board/snapshots/download", data={"name": "first ravens"})
    assert first.headers["content-disposition"] == 'attachment; filename="first-ravens.zip"'
    assert first.content == second.content
    with zipfile.ZipFile(io.BytesIO(first.content)) as pack:
        assert "comparisons.jsonl" in pack.namelist()
        manifest = json.loads(pack.read("manifest.json"))
    assert manifest["name"] == "first ravens"
    assert manifest["digest"] in lead.get("/board/snapshots").html
    missing = lead.client.post("/board/snapshots/download", data={"name": "owls"})
    assert missing.status_code == 422


def test_somebody_is_invited_by_a_link_that_is_shown_once(opened: Opened, lead: Visit) -> None:
    lead.post("/board/people/invite", name=" eva ", role="reviewer")
    link = value(lead.page, "#link")
    assert link.startswith("http://desk.test/enter/")
    assert lead.get("/board/people").page.css_first("#link") is None
    client = opened.client()
    assert client.post(link).status_code == 200
    assert "eva" in client.get("/").text
    again = opened.client().post(link)
    assert again.status_code == 410
    known = {one.name: one.role for one in accounts.list_people(opened.store)}
    assert known["eva"] == "reviewer"
    assert lead.post("/board/people/invite", name="", role="labeller").status == 422


def test_roles_are_changed_and_people_shut_out_but_nobody_above_oneself(
    opened: Opened, lead: Visit
) -> None:
    accounts.add_person(opened.store, "ann", "admin")
    bob = opened.visit("bob")
    lead.post("/board/people/role", name="bob", role="reviewer")
    assert "The role is changed" in lead.text
    for address, fields in (
        ("invite", {"name": "ann", "role": "labeller"}),
        ("invite", {"name": "eva", "role": "admin"}),
        ("invite", {"name": "eva", "role": "queen"}),
        ("role", {"name": "ann", "role": "labeller"}),
        ("role", {"name": "bob", "role": "admin"}),
        ("out", {"name": "ann"}),
        ("out", {"name": "lea"}),
        ("out", {"name": "nobody"}),
    ):
        assert lead.post(f"/board/people/{address}", **fields).status == 422, (address, fields)
    assert {one.name: (one.role, one.gone) for one in accounts.list_people(opened.store)} == {
        "ada": ("labeller", None),
        "ann": ("admin", None),
        "bob": ("reviewer", None),
        "lea": ("researcher", None),
        "rex": ("reviewer", None),
    }
    lead.post("/board/people/out", name="bob")
    assert "shut out" in lead.text
    assert bob.get("/").status == 401


def test_a_guide_is_written_anew_and_its_versions_are_kept(opened: Opened, lead: Visit) -> None:
    before = form_versions.load_guide(opened.store, "supported")
    lead.post("/board/guides/supported", text="# New\r\n\n<b>Judge</b> *well*.")
    assert "That is the newest version now" in lead.text
    now = form_versions.load_guide(opened.store, "supported")
    assert (now.version, now.by) == (before.version + 1, "lea")
    assert "&lt;b&gt;Judge" in lead.html
    assert "<em>well</em>" in lead.html
    assert "Version 1 by rookery" in lead.text
    assert lead.post("/board/guides/supported", text=" \n").status == 422
    assert lead.get("/board/guides/owls").status == 404


def test_the_book_says_who_did_what_and_whether_it_is_whole(opened: Opened, lead: Visit) -> None:
    train(opened)
    lead.get("/board/book")
    rows = [[cell.text() for cell in row.css("td")] for row in lead.page.css("tbody tr")]
    assert [int(row[0]) for row in rows] == list(range(len(list_audit_entries(opened.store))))[::-1]
    [pulled] = [row for row in rows if row[3] == "stopped a run"]
    assert pulled[2:] == ["ada", "stopped a run", "jays-run: It insults people"]
    assert "none was changed" in lead.text
    opened.clock.now += 8 * 86_400
    lead = opened.visit("lea", "researcher")
    assert "jays-run" not in lead.get("/board/book").text
    assert "jays-run" in lead.get("/board/book?days=").text
    assert lead.get("/board/book?days=nonsense").status == 200


def test_what_people_write_is_shown_as_text(opened: Opened, lead: Visit) -> None:
    bad = "<img src=x onerror=alert(1)>"
    opened.lay(item("thumbs"), batch=bad)
    rater_quality.exclude_judgements(opened.store, "person", "bob", bad, "lea")
    accounts.add_person(opened.store, bad, "labeller")
    lead.post("/board/snapshots", name=bad)
    for address in PAGES:
        assert "<img" not in lead.get(address).html
    assert lead.get("/board/quality?batch=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E").status == 200
    assert "<img" not in lead.html

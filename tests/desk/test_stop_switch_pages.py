"""The cord in the browser: any labeller stops a run, and a second person lets it go on."""

from boards import SAID, hire, part, train
from visits import Opened

from rookery.desk import stop_switch


def test_any_labeller_stops_a_run_with_a_word_of_why(opened: Opened) -> None:
    hire(opened)
    train(opened)
    visit = opened.visit("bob").get("/desk")
    assert visit.page.css_first("header a.stop[href='/cord']") is not None
    assert visit.page.css_first("header nav a[href='/cord']") is not None
    visit.get("/cord")
    assert "crows-run" in visit.text
    visit.post("/cord/pull", run="crows-run", reason=" it  swears ")
    assert visit.status == 200
    assert "The run makes no further step" in visit.text
    pull = stop_switch.find_active_stop(opened.store, "crows-run")
    assert pull is not None
    assert (pull.person, pull.reason) == ("bob", "it swears")
    assert "bob stopped it" in visit.text
    visit.post("/cord/pull", run="crows-run", reason="again")
    assert len(stop_switch.list_run_stops(opened.store, "crows-run")) == 1


def test_one_click_on_a_reason_is_enough(opened: Opened) -> None:
    """As a browser sends it: the empty line of the form, then what stands on the button."""
    hire(opened)
    train(opened)
    visit = opened.visit("bob").get("/cord")
    form = part(visit.page, "form[action='/cord/pull']")
    [button, *_] = form.css("button[name=reason]")
    said = button.attributes["value"] or ""
    visit.post("/cord/pull", run="crows-run", reason=["", said])
    pull = stop_switch.find_active_stop(opened.store, "crows-run")
    assert pull is not None
    assert pull.reason == said
    assert "formnovalidate" in button.attributes


def test_a_pull_without_a_reason_is_asked_for_one_and_one_of_no_run_says_so(opened: Opened) -> None:
    hire(opened)
    train(opened)
    visit = opened.visit("bob").post("/cord/pull", run="crows-run", reason=" ")
    assert visit.status == 422
    assert part(visit.page, ".problem-text").text().startswith("say why")
    assert stop_switch.find_active_stop(opened.store, "crows-run") is None
    visit.post("/cord/pull", run="owls", reason="why")
    assert visit.status == 404
    assert visit.get("/cord/runs/owls").status == 404


def test_everybody_sees_what_runs_say_and_which_way_they_are_pushed(opened: Opened) -> None:
    hire(opened)
    train(opened)
    visit = opened.visit("bob").get("/cord")
    samples = visit.page.css("section")[0].css(".samples > li")
    assert [part(one, ".claim").text() for one in samples] == [
        text or "(nothing)" for text, _ in reversed(SAID)
    ]
    assert [part(one, ".push").text().split()[2] for one in samples] == [
        "away",  # there is no answer
        "towards",
        "away",
        "towards",
    ]
    assert "reward −0.84" in visit.text
    states = [one.text() for one in visit.page.css(".spread > .tag")]
    assert states == ["training", "stopped", "ended"]
    opened.clock.now += 1000
    assert "it may hang" in visit.get("/cord").text
    visit.get("/cord/runs/jays-run")
    assert "ada stopped it" in visit.text
    assert "It insults people" in visit.text
    stop_switch.end_run(opened.store, "crows-run", "the gradient is no number: lower the rate")
    words = "After step 40; ended 14 November 2023: the gradient is no number: lower the rate."
    assert words in visit.get("/cord/runs/crows-run").text


def test_what_a_model_says_is_shown_as_text(opened: Opened) -> None:
    hire(opened)
    bad = "<script>alert(1)</script>"
    stop_switch.begin_run(opened.store, bad)
    stop_switch.record_progress(opened.store, bad, 1, [stop_switch.PolicySample(0, bad, bad, 1.0)])
    stop_switch.stop_run(opened.store, bad, "ada", bad)
    visit = opened.visit("rex", "reviewer")
    [(pull, _)] = stop_switch.list_run_stops(opened.store, bad)
    for address in (
        "/cord",
        "/cord/runs/%3Cscript%3Ealert(1)%3C/script%3E",
        f"/cord/{pull.number}/release",
    ):
        visit.get(address)
        assert visit.status == 200
        assert "&lt;script&gt;alert(1)" in visit.html
        assert "<script>alert" not in visit.html


def test_a_second_person_of_more_than_a_labellers_role_releases_with_a_reason(
    opened: Opened,
) -> None:
    hire(opened)
    train(opened)
    [(pull, _)] = stop_switch.list_run_stops(opened.store, "jays-run")
    address = f"/cord/{pull.number}/release"
    labeller = opened.visit("bob").get("/cord")
    assert labeller.page.css_first(f"a[href='{address}']") is None
    assert labeller.get(address).status == 403
    assert labeller.post(address, reason="let it").status == 403
    reviewer = opened.visit("rex", "reviewer").get("/cord")
    assert reviewer.page.css_first(f"a[href='{address}']") is not None
    assert reviewer.get(address).status == 200
    assert reviewer.post(address, reason="").status == 422
    assert stop_switch.find_active_stop(opened.store, "jays-run") == pull
    reviewer.post(address, reason="the page it read is to blame")
    assert "Released" in reviewer.text
    assert stop_switch.find_active_stop(opened.store, "jays-run") is None
    assert reviewer.post(address, reason="again").status == 409
    assert reviewer.get("/cord/99/release").status == 404
    reviewer.get("/cord/runs/jays-run")
    assert "rex let it go on" in reviewer.text


def test_nobody_releases_what_they_stopped_themselves(opened: Opened) -> None:
    hire(opened)
    train(opened)
    visit = opened.visit("rex", "reviewer")
    visit.post("/cord/pull", run="crows-run", reason="it looks odd")
    pull = stop_switch.find_active_stop(opened.store, "crows-run")
    assert pull is not None
    assert visit.page.css_first(f"a[href='/cord/{pull.number}/release']") is None
    visit.get(f"/cord/{pull.number}/release")
    assert visit.page.css_first("main form") is None
    assert visit.post(f"/cord/{pull.number}/release", reason="it was nothing").status == 403
    assert stop_switch.find_active_stop(opened.store, "crows-run") == pull


def test_without_runs_there_is_nothing_to_stop(opened: Opened) -> None:
    visit = opened.visit().get("/cord")
    assert "nothing to stop" in visit.text
    assert visit.page.css_first("header nav a[href='/desk']") is not None
    assert visit.page.css_first("header nav a[href='/cord']") is None

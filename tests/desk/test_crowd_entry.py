"""People of a crowd platform: signed links, sessions, what they are given, completion codes."""

from urllib.parse import parse_qs, urlsplit

import pytest
from handed import lease_first, named, outcome, put
from stores import Clock
from working import Desk

from rookery.desk import accounts, labelling_queue
from rookery.desk.crowd_entry import (
    CrowdArrival,
    check_crowd_link,
    enter_by_crowd_link,
    finish_crowd_session,
    list_crowd_sessions,
    load_session_progress,
    make_crowd_link,
)
from rookery.desk.forms import Judgement
from rookery.desk.projects import ProjectSettings, place_batch, save_project
from rookery.desk.rater_quality import exclude_judgements
from rookery.desk.store import Store

DAY = 86_400.0
PID, STUDY, SESSION = "5f0c1e2d3b4a59687786950a", "65aa00bb11cc22dd33ee44ff", "66aa"


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    made = Desk(store, clock)
    made.hire("Rita", role="researcher")
    save_project(store, "corvids", ProjectSettings(session_items=2), "Rita")
    place_batch(store, "first", "corvids", "Rita")
    return made


def link(store: Store, study: str = "", days: float = 1) -> dict[str, str]:
    """The parameters of a link, filled in as Prolific does."""
    address = make_crowd_link(store, "corvids", days, study, "Rita")
    assert urlsplit(address).path == "/enter/crowd/corvids"
    for name, value in (("PROLIFIC_PID", PID), ("STUDY_ID", STUDY), ("SESSION_ID", SESSION)):
        address = address.replace("{{%" + name + "%}}", value)
    found = parse_qs(urlsplit(address).query, keep_blank_values=True)
    return {name: values[-1] for name, values in found.items()}


def enter(
    store: Store, session: str = SESSION, participant: str = PID, project: str = "corvids"
) -> str:
    """Comes in; the name of the account."""
    arrival = CrowdArrival(project, participant, STUDY, session)
    token = enter_by_crowd_link(store, arrival)
    person = accounts.find_session_person(store, token)
    assert person is not None
    assert (person.name, person.project) == (arrival.person, project)
    return person.name


def test_a_link_lets_in_whom_the_platform_names(store: Store, desk: Desk) -> None:
    assert check_crowd_link(store, "corvids", link(store)) == CrowdArrival(
        "corvids", PID, STUDY, SESSION
    )
    check_crowd_link(store, "corvids", link(store, STUDY))


@pytest.mark.parametrize(
    "change",
    [
        {"until": "9999999999"},
        {"sign": "0" * 64},
        {"sign": "ü"},
        {"sign": ""},
        {"study": STUDY},
        {"PROLIFIC_PID": ""},
        {"PROLIFIC_PID": "{{%PROLIFIC_PID%}}"},
        {"SESSION_ID": "a b"},
        {"STUDY_ID": "x" * 65},
    ],
    ids=range(9),
)
def test_a_link_that_was_changed_lets_nobody_in(
    store: Store, desk: Desk, change: dict[str, str]
) -> None:
    assert outcome(check_crowd_link, store, "corvids", {**link(store), **change}) == "no_invite"


def test_a_link_is_for_its_project_its_study_and_its_time(
    store: Store, clock: Clock, desk: Desk
) -> None:
    good = link(store, STUDY)
    save_project(store, "jays", ProjectSettings(), "Rita")
    assert outcome(check_crowd_link, store, "jays", good) == "no_invite"
    assert outcome(check_crowd_link, store, "none", good) == "no_invite"
    other = {**good, "STUDY_ID": "another"}
    assert outcome(check_crowd_link, store, "corvids", other) == "no_invite"
    clock.pass_by(DAY + 1)
    assert outcome(check_crowd_link, store, "corvids", good) == "no_invite"
    assert outcome(make_crowd_link, store, "none", 1, "", "Rita") == "no_project"
    assert outcome(make_crowd_link, store, "corvids", 1, "a b", "Rita") == "bad_study"
    for days in (0, -1, 366, float("inf"), float("nan")):
        assert outcome(make_crowd_link, store, "corvids", days, "", "Rita") == "bad_days"


def test_who_came_works_for_the_project_alone_and_as_much_as_asked(
    store: Store, clock: Clock, desk: Desk
) -> None:
    put(store, "other", copies=9, batch="elsewhere", priority=9)
    put(store, "a", "b", "c", copies=9)
    person = enter(store)
    assert labelling_queue.count_waiting_items(store, person) == {"compare": 3}
    assert outcome(finish_crowd_session, store, person, False) == "not_allowed"
    for number in range(2):
        clock.pass_by(60)
        assert (named(store, person) or "none") in "abc"
        assert outcome(finish_crowd_session, store, person, True) == "not_allowed"
        hand_in_now(store, clock, person)
        progress = load_session_progress(store, person)
        assert progress is not None
        assert (progress.done, progress.of, progress.finished) == (number + 1, 2, False)
    assert named(store, person) is None
    code = finish_crowd_session(store, person, False)
    assert len(code) == 10
    clock.pass_by(60)
    assert enter(store) == person
    assert finish_crowd_session(store, person, False) == code
    assert named(store, person) is None
    clock.pass_by(60)
    enter(store, "another")
    assert (named(store, person) or "none") in "abc"
    assert outcome(finish_crowd_session, store, person, True) == "not_allowed"
    hand_in_now(store, clock, person)
    assert finish_crowd_session(store, person, False) != code
    first, second = list_crowd_sessions(store, "corvids")
    assert (first.items, first.code, first.participant, first.study) == (2, code, PID, STUDY)
    assert (second.items, second.session) == (1, "another")
    assert outcome(list_crowd_sessions, store, "none") == "no_project"


def test_who_works_for_two_projects_has_a_session_and_a_code_of_each(
    store: Store, clock: Clock, desk: Desk
) -> None:
    save_project(store, "jays", ProjectSettings(session_items=2), "Rita")
    place_batch(store, "second", "jays", "Rita")
    put(store, "a", "b", "c", copies=9)
    put(store, "d", "e", "f", copies=9, batch="second")
    person = enter(store)
    hand_in_now(store, clock, person)
    held = named(store, person)  # and is not handed in when they come for the other project
    assert (held or "none") in "abc"
    clock.pass_by(60)
    enter(store, "other", project="jays")
    assert labelling_queue.count_waiting_items(store, person) == {"compare": 3}
    for _ in range(2):
        assert (named(store, person) or "none") in "def"
        hand_in_now(store, clock, person)
        clock.pass_by(60)
    code = finish_crowd_session(store, person, False)
    enter(store)  # goes on with the first session
    progress = load_session_progress(store, person)
    assert progress is not None
    assert (progress.project, progress.done, progress.finished) == ("corvids", 1, False)
    assert named(store, person) == held
    hand_in_now(store, clock, person)
    assert finish_crowd_session(store, person, False) not in ("", code)
    assert named(store, person) is None
    counts = {
        p: [each.items for each in list_crowd_sessions(store, p)] for p in ("corvids", "jays")
    }
    assert counts == {"corvids": [2], "jays": [2]}


def hand_in_now(store: Store, clock: Clock, person: str) -> None:
    """Hands in the next item that the person is given."""
    lease = lease_first(store, person)
    now = clock()
    made = Judgement("", "", "", "done", {"overall": 1}, "v", 1, (0, 1), False, now - 30, now)
    labelling_queue.submit_judgement(store, lease.token, person, made)


def test_before_a_batch_is_placed_nothing_is_given(store: Store, desk: Desk) -> None:
    place_batch(store, "first", "", "Rita")
    put(store, "a")
    assert named(store, enter(store)) is None
    assert named(store, "Rita") == "a"


def test_the_platforms_own_code_is_given_and_none_for_excluded_work(
    store: Store, clock: Clock, desk: Desk
) -> None:
    settings = ProjectSettings(session_items=1, completion_code="C0RV1D")
    save_project(store, "corvids", settings, "Rita")
    put(store, "a", copies=9)
    good, bad = enter(store), enter(store, "s2", "other")
    for person in (good, bad):
        hand_in_now(store, clock, person)
    exclude_judgements(store, "person", bad, "failed the check", "Rita", "first")
    assert finish_crowd_session(store, good, False) == "C0RV1D"
    assert outcome(finish_crowd_session, store, bad, False) == "not_allowed"
    assert outcome(finish_crowd_session, store, "Rita", False) == "not_allowed"
    assert load_session_progress(store, "Rita") is None


def test_an_account_of_somebody_else_is_not_taken_over(store: Store, desk: Desk) -> None:
    desk.hire(f"prolific-{PID}")
    arrival = CrowdArrival("corvids", PID, STUDY, SESSION)
    assert outcome(enter_by_crowd_link, store, arrival) == "no_invite"
    enter(store, "s3", "other")
    stolen = CrowdArrival("corvids", "thief", STUDY, "s3")
    assert outcome(enter_by_crowd_link, store, stolen) == "no_invite"
    accounts.shut_out_person(store, "prolific-other", "Rita")
    again = CrowdArrival("corvids", "other", STUDY, "s4")
    assert outcome(enter_by_crowd_link, store, again) == "no_invite"
    assert accounts.verify_audit_chain(store)

"""The cord: who pulls it, who releases it, what the desk knows of runs, and how quick it is."""

from typing import Any

import pytest
from sqlalchemy import event
from stores import Clock

from rookery.desk import stop_switch
from rookery.desk.accounts import (
    add_person,
    list_audit_entries,
    shut_out_person,
    verify_audit_chain,
)
from rookery.desk.stop_switch import PolicySample
from rookery.desk.store import Store
from rookery.errors import Failed

DAY = 86_400.0


@pytest.fixture
def store(store: Store) -> Store:
    """With people, and a run."""
    for name in ("ada", "bea"):
        add_person(store, name, "labeller")
    add_person(store, "rex", "reviewer")
    add_person(store, "lea", "researcher")
    stop_switch.begin_run(store, "crows")
    return store


def refused(outcome: str) -> pytest.RaisesExc[Failed]:
    def has_it(error: Failed) -> bool:
        return error.failure.outcome == outcome

    return pytest.RaisesExc(Failed, check=has_it)


@pytest.mark.slow
def test_any_labeller_stops_a_run_with_a_reason_and_it_does_not_begin_again(store: Store) -> None:
    assert stop_switch.find_active_stop(store, "crows") is None
    made = stop_switch.stop_run(store, "crows", "ada", "  it only says\nterrible things ")
    assert (made.person, made.reason) == ("ada", "it only says terrible things")
    assert stop_switch.find_active_stop(store, "crows") == made
    assert stop_switch.find_active_stop(store, "jays") is None
    with pytest.raises(Failed, match=r"ada stopped it .* it only says terrible things"):
        stop_switch.begin_run(store, "crows")
    stop_switch.begin_run(store, "jays")


@pytest.mark.slow
def test_a_second_named_person_who_is_reviewer_or_above_releases_it(store: Store) -> None:
    number = stop_switch.stop_run(store, "crows", "rex", "the sign is wrong").number
    for person, outcome in {"rex": "not_allowed", "ada": "not_allowed", "eve": "no_person"}.items():
        with refused(outcome):
            stop_switch.release_run(store, number, person, "let it go on")
    with refused("no_reason"):
        stop_switch.release_run(store, number, "lea", " ")
    assert stop_switch.find_active_stop(store, "crows") is not None
    released = stop_switch.release_run(store, number, "lea", "the sign was turned back")
    assert stop_switch.find_active_stop(store, "crows") is None
    stop_switch.begin_run(store, "crows")
    with refused("released"):
        stop_switch.release_run(store, number, "lea", "again")
    with refused("no_pull"):
        stop_switch.release_run(store, number + 1, "lea", "another")
    [(pull, release)] = stop_switch.list_run_stops(store, "crows")
    assert (pull.number, release) == (number, released)


def test_a_run_that_two_people_stopped_waits_until_both_were_released(store: Store) -> None:
    first = stop_switch.stop_run(store, "crows", "ada", "it insults people")
    second = stop_switch.stop_run(store, "crows", "rex", "the reward grows too fast")
    assert stop_switch.stop_run(store, "crows", "ada", "a second click") == first
    stop_switch.release_run(store, first.number, "rex", "that was a joke in the page")
    assert stop_switch.find_active_stop(store, "crows") == second
    stop_switch.release_run(store, second.number, "lea", "it is as it should be")
    assert stop_switch.find_active_stop(store, "crows") is None
    assert stop_switch.stop_run(store, "crows", "ada", "now it swears").number > second.number


def test_every_pull_and_release_is_written_into_the_book(store: Store) -> None:
    pull = stop_switch.stop_run(store, "crows", "ada", "it swears")
    stop_switch.release_run(store, pull.number, "lea", "it quotes a page that does")
    told = [(one.person, one.action, one.what) for one in list_audit_entries(store)]
    assert told == [
        ("ada", "pull", "crows: it swears"),
        ("lea", "release", "crows, stopped by ada: it quotes a page that does"),
    ]
    assert verify_audit_chain(store)


def test_nobody_pulls_without_a_name_a_run_and_a_reason(store: Store) -> None:
    shut_out_person(store, "bea", "lea")
    for run, person, reason, outcome in (
        ("owls", "ada", "why", "no_run"),
        ("crows", "bea", "why", "no_person"),
        ("crows", "nobody", "why", "no_person"),
        ("crows", "ada", " \n", "no_reason"),
        ("crows", "ada", "x" * 2001, "no_reason"),
    ):
        with refused(outcome):
            stop_switch.stop_run(store, run, person, reason)
    assert stop_switch.find_active_stop(store, "crows") is None
    with refused("no_run"):
        stop_switch.load_training_run(store, "owls")
    for samples in ([], [PolicySample(0, "page", "words", 1.0)]):
        with refused("no_run"):
            stop_switch.record_progress(store, "owls", 1, samples)
    assert stop_switch.list_newest_samples(store, "owls", 4) == []


def test_the_desk_knows_which_runs_somebody_could_want_to_stop(store: Store, clock: Clock) -> None:
    def states() -> list[tuple[str, str]]:
        return [
            (one.name, one.get_state(clock.now)) for one in stop_switch.list_training_runs(store)
        ]

    def is_any_alive() -> bool:
        return any(one.is_alive(clock.now) for one in stop_switch.list_training_runs(store))

    clock.pass_by(60)
    stop_switch.begin_run(store, "jays")
    assert states() == [("jays", "training"), ("crows", "training")]
    clock.pass_by(601)
    stop_switch.record_progress(store, "crows", 17)
    assert states() == [("crows", "training"), ("jays", "silent")]
    assert stop_switch.load_training_run(store, "crows").step == 17
    stop_switch.end_run(store, "crows", "finished")
    assert states() == [("crows", "ended"), ("jays", "silent")]
    assert is_any_alive()
    clock.pass_by(DAY)
    assert not is_any_alive()
    stop_switch.begin_run(store, "crows", 12)
    assert is_any_alive()
    stop_switch.stop_run(store, "crows", "ada", "why not")
    assert states()[0] == ("crows", "stopped")
    assert not is_any_alive()
    assert stop_switch.load_training_run(store, "crows").step == 12


def test_the_newest_samples_come_first_with_the_way_they_push(store: Store) -> None:
    rewards = [1.0, 3.0, 2.0, None]
    stop_switch.record_progress(store, "crows", 1, [PolicySample(0, "old", "old", 9.0)])
    stop_switch.record_progress(
        store, "crows", 2, [PolicySample(1, "page", str(each), each) for each in rewards]
    )
    stop_switch.record_progress(store, "crows", 2)
    found = stop_switch.list_newest_samples(store, "crows", 4)
    assert [one.reward for one in found] == rewards[::-1]
    assert stop_switch.compute_push_directions(found) == [-1, 0, 1, -1]
    assert stop_switch.compute_push_directions([PolicySample(1, "", "", -0.5)]) == [-1]
    assert stop_switch.compute_push_directions([]) == []
    assert stop_switch.list_newest_samples(store, "jays", 4) == []


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_to_ask_whether_the_cord_was_pulled_is_one_look_into_an_index(store: Store) -> None:
    """So that it takes as little time among many runs, pulls and releases."""
    for number in range(30):
        run = f"run {number}"
        stop_switch.begin_run(store, run)
        pull = stop_switch.stop_run(store, run, "ada", "why")
        stop_switch.release_run(store, pull.number, "rex", "because")
    asked: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, values: Any, *_: Any) -> None:
        asked.append((statement, values))

    event.listen(store._engine, "before_cursor_execute", note)
    assert stop_switch.find_active_stop(store, "run 25") is None
    event.remove(store._engine, "before_cursor_execute", note)
    [(statement, values)] = [one for one in asked if one[0].lstrip().lower().startswith("select")]
    with store.begin_read() as connection:
        plan = connection.exec_driver_sql(f"explain query plan {statement}", values).all()
    steps = [row.detail for row in plan]
    assert any(step.startswith("SEARCH") for step in steps), steps
    assert not any(step.startswith("SCAN") for step in steps), steps

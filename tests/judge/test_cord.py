"""The cord: who pulls it, who releases it, what the desk knows of runs, and how quick it is."""

from typing import Any

import pytest
from sqlalchemy import event
from stores import Clock

from rookery.judge import cord
from rookery.judge.cord import Sample
from rookery.judge.people import add_person, audits, audits_whole, shut_out
from rookery.judge.store import Store
from rookery.records import Failed

DAY = 86_400.0


@pytest.fixture
def store(store: Store) -> Store:
    """With people, and a run."""
    for name in ("ada", "bea"):
        add_person(store, name, "labeller")
    add_person(store, "rex", "reviewer")
    add_person(store, "lea", "researcher")
    cord.begin(store, "crows")
    return store


def refused(outcome: str) -> pytest.RaisesExc[Failed]:
    def has_it(error: Failed) -> bool:
        return error.failure.outcome == outcome

    return pytest.RaisesExc(Failed, check=has_it)


def test_any_labeller_stops_a_run_with_a_reason_and_it_does_not_begin_again(store: Store) -> None:
    assert cord.pulled(store, "crows") is None
    made = cord.pull(store, "crows", "ada", "  it only says\nterrible things ")
    assert (made.person, made.reason) == ("ada", "it only says terrible things")
    assert cord.pulled(store, "crows") == made
    assert cord.pulled(store, "jays") is None
    with pytest.raises(Failed, match=r"ada pulled the cord .* it only says terrible things"):
        cord.begin(store, "crows")
    cord.begin(store, "jays")


def test_a_second_named_person_who_is_reviewer_or_above_releases_it(store: Store) -> None:
    number = cord.pull(store, "crows", "rex", "the sign is wrong").number
    for person, outcome in {"rex": "not_allowed", "ada": "not_allowed", "eve": "no_person"}.items():
        with refused(outcome):
            cord.release(store, number, person, "let it go on")
    with refused("no_reason"):
        cord.release(store, number, "lea", " ")
    assert cord.pulled(store, "crows") is not None
    released = cord.release(store, number, "lea", "the sign was turned back")
    assert cord.pulled(store, "crows") is None
    cord.begin(store, "crows")
    with refused("released"):
        cord.release(store, number, "lea", "again")
    with refused("no_pull"):
        cord.release(store, number + 1, "lea", "another")
    [(pull, release)] = cord.history(store, "crows")
    assert (pull.number, release) == (number, released)


def test_a_run_that_two_people_stopped_waits_until_both_were_released(store: Store) -> None:
    first = cord.pull(store, "crows", "ada", "it insults people")
    second = cord.pull(store, "crows", "rex", "the reward grows too fast")
    assert cord.pull(store, "crows", "ada", "a second click") == first
    cord.release(store, first.number, "rex", "that was a joke in the page")
    assert cord.pulled(store, "crows") == second
    cord.release(store, second.number, "lea", "it is as it should be")
    assert cord.pulled(store, "crows") is None
    assert cord.pull(store, "crows", "ada", "now it swears").number > second.number


def test_every_pull_and_release_is_written_into_the_book(store: Store) -> None:
    pull = cord.pull(store, "crows", "ada", "it swears")
    cord.release(store, pull.number, "lea", "it quotes a page that does")
    told = [(one.person, one.action, one.what) for one in audits(store)]
    assert told == [
        ("ada", "pull", "crows: it swears"),
        ("lea", "release", "crows, stopped by ada: it quotes a page that does"),
    ]
    assert audits_whole(store)


def test_nobody_pulls_without_a_name_a_run_and_a_reason(store: Store) -> None:
    shut_out(store, "bea", "lea")
    for run, person, reason, outcome in (
        ("owls", "ada", "why", "no_run"),
        ("crows", "bea", "why", "no_person"),
        ("crows", "nobody", "why", "no_person"),
        ("crows", "ada", " \n", "no_reason"),
        ("crows", "ada", "x" * 2001, "no_reason"),
    ):
        with refused(outcome):
            cord.pull(store, run, person, reason)
    assert cord.pulled(store, "crows") is None
    with refused("no_run"):
        cord.training(store, "owls")


def test_the_desk_knows_which_runs_somebody_could_want_to_stop(store: Store, clock: Clock) -> None:
    def states() -> list[tuple[str, str]]:
        return [(one.name, one.state(clock.now)) for one in cord.trainings(store)]

    clock.pass_by(60)
    cord.begin(store, "jays")
    assert states() == [("jays", "training"), ("crows", "training")]
    clock.pass_by(601)
    cord.beat(store, "crows", 17)
    assert states() == [("crows", "training"), ("jays", "silent")]
    assert cord.training(store, "crows").step == 17
    cord.end(store, "crows", "finished")
    assert states() == [("crows", "ended"), ("jays", "silent")]
    assert cord.any_alive(store)
    clock.pass_by(DAY)
    assert not cord.any_alive(store)
    cord.begin(store, "crows", 12)
    assert cord.any_alive(store)
    cord.pull(store, "crows", "ada", "why not")
    assert states()[0] == ("crows", "stopped")
    assert not cord.any_alive(store)
    assert cord.training(store, "crows").step == 12


def test_the_newest_samples_come_first_with_the_way_they_push(store: Store) -> None:
    rewards = [1.0, 3.0, 2.0, None]
    cord.beat(store, "crows", 1, [Sample(0, "old", "old", 9.0)])
    cord.beat(store, "crows", 2, [Sample(1, "page", str(each), each) for each in rewards])
    cord.beat(store, "crows", 2)
    found = cord.newest(store, "crows", 4)
    assert [one.reward for one in found] == rewards[::-1]
    assert cord.pushes(found) == [-1, 0, 1, -1]
    assert cord.pushes([Sample(1, "", "", -0.5)]) == [-1]
    assert cord.pushes([]) == []
    assert cord.newest(store, "jays", 4) == []


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_to_ask_whether_the_cord_was_pulled_is_one_look_into_an_index(store: Store) -> None:
    """So that it takes as little time among many runs, pulls and releases."""
    for number in range(30):
        run = f"run {number}"
        cord.begin(store, run)
        pull = cord.pull(store, run, "ada", "why")
        cord.release(store, pull.number, "rex", "because")
    asked: list[tuple[str, Any]] = []

    def note(connection: Any, cursor: Any, statement: str, values: Any, *_: Any) -> None:
        asked.append((statement, values))

    event.listen(store._engine, "before_cursor_execute", note)
    assert cord.pulled(store, "run 25") is None
    event.remove(store._engine, "before_cursor_execute", note)
    [(statement, values)] = [one for one in asked if one[0].lstrip().lower().startswith("select")]
    with store.reading() as connection:
        plan = connection.exec_driver_sql(f"explain query plan {statement}", values).all()
    steps = [row.detail for row in plan]
    assert any(step.startswith("SEARCH") for step in steps), steps
    assert not any(step.startswith("SCAN") for step in steps), steps

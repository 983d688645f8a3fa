"""Who gets in, for how long, and what the book says of it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import pytest
from sqlalchemy import delete, text, update
from stores import Clock

from rookery.desk import accounts, tables
from rookery.desk.accounts import (
    DAY_SECONDS,
    SESSION_IDLE_SECONDS,
    SESSION_MAX_SECONDS,
    Person,
    PersonRole,
    create_invite,
    find_session_person,
    has_role,
    redeem_invite,
)
from rookery.desk.store import Store
from rookery.errors import Failed


def refused(what: Any, *arguments: Any) -> tuple[str, str]:
    with pytest.raises(Failed) as failed:
        what(*arguments)
    return failed.value.failure.outcome, failed.value.failure.detail.split(":")[0]


def within(store: Store, name: str = "Ada", role: PersonRole = "labeller") -> str:
    """A session of this person."""
    return redeem_invite(store, create_invite(store, name, role, "the command line"))


def test_an_invite_makes_a_person_and_lets_them_in_once(store: Store, clock: Clock) -> None:
    token = create_invite(store, "Ada", "reviewer", "the command line")
    session = redeem_invite(store, token)
    assert find_session_person(store, session) == Person("Ada", "reviewer", clock.now, None)
    once = "this link was used before, and each lets one browser in once"
    assert refused(redeem_invite, store, token) == ("no_invite", once)
    assert len(token) >= 43  # 256 bits
    assert token != session


@pytest.mark.slow
def test_an_invite_that_is_too_old_or_unknown_lets_nobody_in(store: Store, clock: Clock) -> None:
    token = create_invite(store, "Ada", "labeller", "the command line", days=2)
    clock.pass_by(2 * DAY_SECONDS + 1)
    assert refused(redeem_invite, store, token) == ("no_invite", "this link is too old")
    assert refused(redeem_invite, store, token + "x") == ("no_invite", "no such link was made")
    token = create_invite(store, "Ada", "labeller", "the command line", days=2)
    clock.pass_by(2 * DAY_SECONDS)
    assert redeem_invite(store, token)


def test_of_two_who_use_an_invite_at_once_one_gets_in(store: Store) -> None:
    token = create_invite(store, "Ada", "labeller", "the command line")

    def tries(_: int) -> bool:
        try:
            return bool(redeem_invite(store, token))
        except Failed:
            return False

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(tries, range(6))) == [False] * 5 + [True]


def test_a_second_invite_is_a_new_way_in_for_the_same_person(store: Store, clock: Clock) -> None:
    first = within(store)
    made = clock.now
    clock.pass_by(10)
    second = within(store, role="researcher")
    assert (
        find_session_person(store, first)
        == find_session_person(store, second)
        == Person("Ada", "researcher", made, None)
    )
    assert [person.name for person in accounts.list_people(store)] == ["Ada"]


def test_a_session_ends_a_week_after_the_last_sign_of_life(store: Store, clock: Clock) -> None:
    session = within(store)
    for _ in range(3):
        clock.pass_by(SESSION_IDLE_SECONDS)
        assert find_session_person(store, session)
    clock.pass_by(SESSION_IDLE_SECONDS + 1)
    assert find_session_person(store, session) is None


def test_a_session_ends_after_a_month_however_much_is_done(store: Store, clock: Clock) -> None:
    session = within(store)
    for _ in range(30):
        clock.pass_by(DAY_SECONDS)
        assert find_session_person(store, session)
    clock.pass_by(1)
    assert find_session_person(store, session) is None
    assert SESSION_MAX_SECONDS == 30 * DAY_SECONDS


def test_a_session_is_marked_as_seen_once_a_minute(store: Store, clock: Clock) -> None:
    session, began = within(store), clock.now
    seen = []
    for _ in range(5):
        clock.pass_by(30)
        find_session_person(store, session)
        with store.begin_read() as connection:
            seen.append(
                connection.scalar(
                    tables.sessions.select().with_only_columns(tables.sessions.c.seen)
                )
            )
    assert seen == [began, began + 60, began + 60, began + 120, began + 120]


def test_who_leaves_is_out_and_others_stay(store: Store) -> None:
    here, there = within(store), within(store)
    accounts.end_session(store, here)
    assert find_session_person(store, here) is None
    assert find_session_person(store, there)
    assert find_session_person(store, "made up") is None


def test_who_is_shut_out_has_no_session_and_no_invite_left(store: Store, clock: Clock) -> None:
    session, token = within(store), create_invite(store, "Ada", "labeller", "Ben")
    accounts.shut_out_person(store, "Ada", "Ben")
    assert find_session_person(store, session) is None
    assert refused(redeem_invite, store, token)[0] == "no_invite"
    assert accounts.list_people(store)[0].gone == clock.now
    assert find_session_person(store, within(store))  # invited again
    assert find_session_person(store, session) is None


def test_each_role_may_do_what_those_before_it_may() -> None:
    roles: tuple[PersonRole, ...] = get_args(PersonRole)
    assert roles[-4:] == ("labeller", "reviewer", "researcher", "admin")
    for has, role in enumerate(roles):
        may = [has_role(Person("Ada", role, 0.0, None), other) for other in roles]
        assert may == [needs <= has for needs in range(len(roles))]
        assert not any(has_role(Person("Ada", role, 0.0, 1.0), other) for other in roles)


def test_a_role_changes_at_once(store: Store) -> None:
    session = within(store)
    accounts.set_role(store, "Ada", "admin", "Ben")
    found = find_session_person(store, session)
    assert found is not None
    assert found.role == "admin"
    assert refused(accounts.set_role, store, "Nobody", "admin", "Ben")[0] == "no_person"
    assert refused(accounts.shut_out_person, store, "Nobody", "Ben")[0] == "no_person"


@pytest.mark.parametrize("name", ["", " ", " Ada", "Ada\n", "A\x00da", "A" * 81, "\u202eada"])
def test_a_name_that_does_not_show_is_refused(store: Store, name: str) -> None:
    assert refused(accounts.add_person, store, name, "labeller")[0] == "bad_name"
    assert refused(create_invite, store, name, "labeller", "Ben")[0] == "bad_name"
    assert accounts.list_people(store) == []


def test_a_name_is_one_person_s(store: Store) -> None:
    accounts.add_person(store, "Žofie 2", "labeller")
    assert refused(accounts.add_person, store, "Žofie 2", "labeller")[0] == "already"


def test_what_stands_in_the_file_lets_nobody_in(fresh: Any) -> None:
    place = fresh("sqlite")
    with Store(place) as store:
        unused, used = (create_invite(store, "Ada", "admin", "the command line") for _ in range(2))
        session = redeem_invite(store, used)
        find_session_person(store, session)
    with Store(place) as store, store.begin_read():
        files = list(Path(place).parent.glob(Path(place).name + "*"))
        kept = b"".join(file.read_bytes() for file in files)
    assert b"Ada" in kept
    for token in (unused, used, session):
        assert token.encode() not in kept
        assert token[:16].encode() not in kept


def test_the_book_says_who_did_what_to_whom_and_when(store: Store, clock: Clock) -> None:
    within(store)
    clock.pass_by(5)
    accounts.set_role(store, "Ada", "reviewer", "Ben")
    accounts.shut_out_person(store, "Ada", "Ben")
    told = [
        (line.number, line.person, line.action, line.what)
        for line in accounts.list_audit_entries(store)
    ]
    assert told == [
        (0, "the command line", "invite", "Ada: labeller"),
        (1, "Ada", "enter", ""),
        (2, "Ben", "role", "Ada: reviewer"),
        (3, "Ben", "shut out", "Ada"),
    ]
    assert [line.number for line in accounts.list_audit_entries(store, since=clock.now)] == [2, 3]
    assert accounts.verify_audit_chain(store)


@pytest.mark.parametrize(
    "change",
    [
        update(tables.audits).where(tables.audits.c.number == 1).values(person="Eve"),
        update(tables.audits).where(tables.audits.c.number == 2).values(what="Ada: admin"),
        update(tables.audits).where(tables.audits.c.number == 3).values(at=0.0),
        delete(tables.audits).where(tables.audits.c.number == 0),
        delete(tables.audits).where(tables.audits.c.number == 1),
        text("update audits set number = number + 1 where number = 3"),
    ],
)
def test_a_line_that_was_changed_or_taken_out_shows(store: Store, change: Any) -> None:
    within(store)
    accounts.set_role(store, "Ada", "reviewer", "Ben")
    accounts.shut_out_person(store, "Ada", "Ben")
    assert accounts.verify_audit_chain(store)
    with store.begin_write() as connection:
        connection.execute(change)
    assert not accounts.verify_audit_chain(store)


def test_many_who_write_in_the_book_at_once_leave_it_whole(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda number: create_invite(store, f"p{number}", "labeller", "Ada"), range(24)
            )
        )
    assert [line.number for line in accounts.list_audit_entries(store)] == list(range(24))
    assert accounts.verify_audit_chain(store)

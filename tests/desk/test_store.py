"""Where the desk keeps its work: made, brought up and down with work in it, full, wrong, busy."""

import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import insert, inspect, select, text
from sqlalchemy.exc import IntegrityError
from stores import Clock

from rookery.desk import accounts, labelling_queue, store, tables
from rookery.desk.forms import Judgement, LabellingItem
from rookery.desk.store import Store, initialize_store, take_advisory_lock
from rookery.errors import Failed
from rookery.records import Question


def outcome(what: Any, *arguments: Any) -> str:
    with pytest.raises(Failed) as failed:
        what(*arguments)
    assert len(failed.value.failure.detail) > 10
    return failed.value.failure.outcome


def rows(place: str) -> dict[str, list[tuple[Any, ...]]]:
    """All that a store holds."""
    with Store(place) as there, there.begin_read() as connection:
        return {
            table.name: sorted(map(tuple, connection.execute(select(table))), key=repr)
            for table in tables.metadata.sorted_tables
        }


def fill(store: Store) -> None:
    """A little of everything that passes through the hand-out."""
    accounts.create_invite(store, "Ada", "admin", "the command line")
    found = [LabellingItem("compare", Question(str(number), "Why?")) for number in range(3)]
    labelling_queue.add_items(store, found, "first", people_wanted=2)
    lease = labelling_queue.claim_item(store, "Ada")
    assert lease is not None
    empty = Judgement("", "", "", "done", {"overall": 1}, "v", 1, (), False, 0.0, 1.0)
    labelling_queue.submit_judgement(store, lease.token, "Ada", empty)


def test_a_store_is_made_once_and_keeps_what_is_in_it(nowhere: str) -> None:
    initialize_store(nowhere)
    with Store(nowhere) as made:
        fill(made)
    before = rows(nowhere)
    initialize_store(nowhere)
    assert rows(nowhere) == before
    assert len(before["slots"]) == 6
    assert len(before["judgements"]) == 1


@pytest.mark.slow
def test_a_store_has_the_tables_and_their_indexes(place: str) -> None:
    with Store(place) as made, made.begin_read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
        found = inspect(connection)
        for table in tables.metadata.sorted_tables:
            wanted = {
                (str(one.name), tuple(one.columns.keys()))
                for one in table.indexes
                if not one.unique
            }
            there = {
                (str(one["name"]), tuple(map(str, one["column_names"])))
                for one in found.get_indexes(table.name)
                if not one["unique"]
            }
            assert there == wanted


def test_the_oldest_store_is_brought_up_to_date_with_the_work_in_it(tmp_path: Path) -> None:
    old = tmp_path / "desk.sqlite"
    with closing(sqlite3.connect(old)) as connection:
        connection.executescript(Path(__file__).with_name("store_0001.sql").read_text())
    assert outcome(Store, str(old)) == "old_store"
    initialize_store(str(old))
    with Store(str(old)) as there, there.begin_read() as reading:
        assert compare_metadata(MigrationContext.configure(reading), tables.metadata) == []
    held = rows(str(old))
    assert (len(held["people"]), len(held["items"]), len(held["slots"])) == (1, 3, 6)
    assert len(held["judgements"]) == len(held["leases"]) == 1


def test_a_store_of_another_time_is_told_from_none(nowhere: str, kind: str) -> None:
    initialize_store(nowhere)
    with Store(nowhere) as made, made.begin_write() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    assert outcome(Store, nowhere) == "new_store"
    assert outcome(initialize_store, nowhere) == "new_store"
    assert outcome(Store, nowhere + "x") == ("no_store" if kind == "sqlite" else "store_fails")


@pytest.mark.slow
def test_an_old_store_says_how_it_is_brought_up_to_date(
    nowhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a later release will see today's stores: one revision more than they have."""
    later = tmp_path / "migrations"
    shutil.copytree(Path(store.__file__).parent / "migrations", later)
    newest = ScriptDirectory(str(later)).get_current_head()
    (later / "versions" / "more.py").write_text(
        f'"""More."""\n\nrevision = "more"\ndown_revision = "{newest}"\n\n\n'
        'def upgrade():\n    from alembic import op\n    op.execute("delete from drafts")\n'
    )
    initialize_store(nowhere)
    with Store(nowhere) as made:
        fill(made)
    before = rows(nowhere)
    monkeypatch.setattr(store, "_MIGRATIONS", later)
    assert outcome(Store, nowhere) == "old_store"
    initialize_store(nowhere)
    assert rows(nowhere) == before


@pytest.mark.parametrize(
    "wrong",
    [
        "nothing/here.sqlite",
        "mongodb://host/name",
        "postgresql://",
        "http://[",
        "postgresql://rookery@127.0.0.1:1/none",
    ],
)
def test_a_wrong_address_is_a_sentence(wrong: str, tmp_path: Path) -> None:
    place = wrong if "://" in wrong else str(tmp_path / wrong)
    assert outcome(Store, place) in ("no_store", "store_fails")


def test_a_folder_and_another_file_are_no_stores(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ada, " * 1000)
    assert outcome(Store, str(tmp_path)) == "no_store"
    assert outcome(Store, str(tmp_path / "letter.txt")) == "store_fails"
    assert outcome(initialize_store, str(tmp_path / "letter.txt")) == "store_fails"
    assert outcome(initialize_store, str(tmp_path / "no" / "folder.sqlite")) == "store_fails"


FILLING = """
import resource, sys, time
from rookery.desk import labelling_queue, accounts
from rookery.desk.store import Store
from rookery.desk.forms import LabellingItem
from rookery.errors import Failed
from rookery.records import Question
place = sys.argv[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, 600_000))
store = Store(place)
accounts.add_person(store, "Ada", "labeller")
added = 0
try:
    while added < 100:
        new = (LabellingItem("compare", Question(f"{added} {n}", "Why? " * 99)) for n in range(20))
        labelling_queue.add_items(store, new, "a batch", people_wanted=3)
        added += 1
except Failed as failed:
    print(added, failed.failure.outcome, failed.failure.detail)
"""


@pytest.mark.slow
def test_a_full_disk_is_a_sentence_and_nothing_is_half_written(fresh: Any, tmp_path: Path) -> None:
    place = fresh("sqlite")
    ended = subprocess.run(
        [sys.executable, "-c", FILLING, place], capture_output=True, text=True, check=True
    )
    added, said, detail = ended.stdout.split(" ", 2)
    assert (said, ended.stderr) == ("disk_full", "")
    assert "nothing was half written" in detail
    found = rows(place)
    assert 0 < int(added) < 100
    assert (len(found["items"]), len(found["slots"])) == (20 * int(added), 60 * int(added))
    with Store(place) as there:  # and goes on, where there is room
        assert labelling_queue.claim_item(there, "Ada") is not None


def test_a_write_that_fails_leaves_nothing(store: Store) -> None:
    def doubled() -> None:
        with store.begin_write() as connection:
            for _ in range(2):
                row = {"name": "Ada", "role": "admin", "made": 0.0}
                connection.execute(insert(tables.people).values(row))

    with pytest.raises(IntegrityError):
        doubled()
    assert accounts.list_people(store) == []


def test_a_table_that_is_gone_is_told_with_what_to_do(tmp_path: Path) -> None:
    place = str(tmp_path / "desk.sqlite")
    initialize_store(place)
    with Store(place) as store:
        with store.begin_write() as connection:
            connection.execute(text("drop table samples"))
        with (
            pytest.raises(Failed, match=r"table: samples.: restore a backup"),
            store.begin_read() as c,
        ):
            c.execute(text("select * from samples"))


def test_what_points_to_nothing_is_refused(store: Store) -> None:
    with pytest.raises(IntegrityError):
        labelling_queue.save_draft(store, "no such item", "nobody", {})


def test_a_store_that_others_write_to_for_too_long_is_busy(
    fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = fresh("sqlite")
    monkeypatch.setattr(store, "BUSY_TIMEOUT", 0.05)
    with Store(place) as one, Store(place) as other, one.begin_write():
        assert outcome(accounts.add_person, other, "Ada", "admin") == "store_busy"
    with Store(place) as other:
        accounts.add_person(other, "Ada", "admin")


@pytest.mark.program
def test_of_two_who_wait_for_each_other_one_is_told(fresh: Any) -> None:
    both = Barrier(2)

    def say(store: Store, names: str) -> str:
        try:
            with store.begin_write() as connection:
                take_advisory_lock(connection, names[0])
                both.wait(120)
                take_advisory_lock(connection, names[1])
        except Failed as failed:
            return failed.failure.outcome
        return "fine"

    with Store(fresh("postgresql")) as store, ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(partial(say, store), ("ab", "ba"))) == ["fine", "store_busy"]


def test_a_reader_sees_one_state(store: Store) -> None:
    query = select(tables.people.c.name)
    with store.begin_read() as connection:
        before = connection.scalars(query).all()
        accounts.add_person(store, "Ada", "labeller")
        assert connection.scalars(query).all() == before == []


def test_the_clock_is_the_store_s(store: Store, clock: Clock) -> None:
    assert accounts.add_person(store, "Ada", "labeller").made == clock.now


@pytest.mark.slow
def test_machines_whose_clocks_differ_agree_on_the_time_in_postgresql(
    fresh: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    places, now = [fresh("postgresql"), fresh("sqlite")], time.time
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    ahead = []
    for place in places:
        with Store(place) as there:
            ahead.append(there.clock() - now())
    assert ahead == [pytest.approx(0, abs=600), pytest.approx(3600, abs=600)]

"""Streams of events: whole, in order, without a gap, and all there after any death."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection as Pipe
from random import Random
from typing import Any

import pytest
from event_chains import verify_event_chain
from sqlalchemy import delete, update
from stores import processes

from rookery.desk import tables
from rookery.desk.store import (
    Store,
    append_event,
    compute_chain_link,
    read_events,
)

KILLS = {"sqlite": 60, "postgresql": 40}
AT_ONCE = 4
LONGEST = 0.03
"""seconds between the first event and the death"""


def put(store: Store, *bodies: str, stream: str = "s") -> list[int]:
    numbers = []
    for body in bodies:
        with store.begin_write() as connection:
            numbers.append(append_event(connection, stream, "Ada", body, store.clock()))
    return numbers


def bodies(store: Store, stream: str = "s", after: int = -1) -> list[str]:
    with store.begin_read() as connection:
        return read_events(connection, stream, after)


def test_events_come_back_in_order_by_stream(store: Store) -> None:
    assert put(store, "a", "b", "c") == [0, 1, 2]
    assert put(store, "x", stream="t") == [0]
    assert (bodies(store), bodies(store, "t"), bodies(store, "u")) == (["a", "b", "c"], ["x"], [])
    assert (bodies(store, after=0), bodies(store, after=2)) == (["b", "c"], [])


def test_an_event_whose_transaction_fails_leaves_no_gap(store: Store) -> None:
    put(store, "a")
    with store.begin_write() as connection:
        append_event(connection, "s", "Ada", "lost", 0.0)
        connection.rollback()
    assert put(store, "b") == [1]
    assert verify_event_chain(store, "s")


@pytest.mark.parametrize(
    "change",
    [
        update(tables.events).where(tables.events.c.number == 1).values(body="B"),
        update(tables.events).where(tables.events.c.number == 2).values(person="Eve"),
        update(tables.events).where(tables.events.c.number == 0).values(at=1.0),
        delete(tables.events).where(tables.events.c.number == 0),
        delete(tables.events).where(tables.events.c.number == 1),
    ],
)
def test_an_event_that_was_changed_or_taken_out_shows(store: Store, change: Any) -> None:
    put(store, "a", "b", "c")
    assert verify_event_chain(store, "s")
    with store.begin_write() as connection:
        connection.execute(change)
    assert not verify_event_chain(store, "s")


def test_two_events_that_changed_places_show(store: Store) -> None:
    put(store, "a", "b")
    with store.begin_write() as connection:
        for here, there in ((0, 9), (1, 0), (9, 1)):
            moved = update(tables.events).where(tables.events.c.number == here)
            connection.execute(moved.values(number=there))
    assert bodies(store) == ["b", "a"]
    assert not verify_event_chain(store, "s")


def test_an_event_of_another_stream_shows(store: Store) -> None:
    put(store, "a")
    with store.begin_write() as connection:
        connection.execute(update(tables.events).values(stream="t"))
    assert not verify_event_chain(store, "t")


def test_many_who_write_at_once_leave_no_gap(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda number: put(store, str(number))[0], range(48)))
    assert sorted(numbers) == list(range(48))
    assert [numbers[int(body)] for body in bodies(store)] == list(range(48))
    assert verify_event_chain(store, "s")


def test_a_link_depends_on_all_that_stands_in_the_row() -> None:
    rows = [("s", 1, "Ada", "b", 1.0), ("s", 1, "Adab", "", 1.0), ("s1", 1, "Ada", "b", 1.0)]
    links = {compute_chain_link(before, *row) for row in rows for before in ("", "x")}
    assert len(links) == 6
    assert compute_chain_link("", *rows[0]) == compute_chain_link("", *rows[0])


def keep_writing(place: str, stream: str, acknowledged: Pipe) -> None:
    """Adds events, and says each number once it is written, until killed."""
    with Store(place) as store:
        while True:
            acknowledged.send(put(store, f"after {len(bodies(store, stream))}", stream=stream)[0])


def dies(context: Any, place: str, seed: int) -> tuple[str, int]:
    """The stream, and the number of the last event that a process said to be written before it was
    killed at any moment."""
    chance, stream = Random(seed), f"s{seed % AT_ONCE}"
    parent_end, child_end = context.Pipe(duplex=False)
    process = context.Process(target=keep_writing, args=(place, stream, child_end))
    process.start()
    child_end.close()
    newest = parent_end.recv()
    end = time.monotonic() + LONGEST * chance.random()
    while (remaining := end - time.monotonic()) > 0:
        if parent_end.poll(remaining):
            newest = parent_end.recv()
    os.kill(process.pid, signal.SIGKILL)
    try:
        while True:
            newest = parent_end.recv()
    except EOFError:
        process.join()
        return stream, newest


@pytest.mark.slow
def test_no_event_is_lost_that_was_said_to_be_written_whenever_one_is_killed(
    place: str, kind: str
) -> None:
    last: dict[str, int] = {}
    with Store(place) as store, ThreadPoolExecutor(AT_ONCE) as pool:
        for begin in range(0, KILLS[kind], AT_ONCE):
            for stream, newest in pool.map(
                partial(dies, processes(), place), range(begin, begin + AT_ONCE)
            ):
                assert newest > last.get(stream, -1)
                last[stream] = newest
                found = bodies(store, stream)
                assert len(found) in (newest + 1, newest + 2)  # one may have been unsaid
                assert found == [f"after {number}" for number in range(len(found))]
        assert all(verify_event_chain(store, stream) for stream in last)

"""Many people at one desk at once, in several processes: what they did to it, counted.

Each person works in two tabs at a time. Of ten leases one is walked away from until it is over,
and of those that come back late every other is handed in all the same.
"""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any, NamedTuple

from sqlalchemy import func, insert, select
from stores import processes

from rookery.desk import accounts, labelling_queue
from rookery.desk.forms import Judgement, LabellingItem
from rookery.desk.store import Store, take_advisory_lock
from rookery.desk.tables import items, judgements, leases, slots
from rookery.errors import Failed
from rookery.records import Question, digest_of

PEOPLE, TABS, PROCESSES = 12, 2, 4
ITEMS, PLACES = 20, 3
LEASE = 0.25
"""seconds"""
WORK = Judgement("", "", "", "done", {"overall": 1}, "v1", 1, (0, 1), False, 0.0, 0.0)

Tab = Callable[[Store, str, Random], None]


class Seen(NamedTuple):
    """What a run left behind."""

    over: int
    """items with more judgements than places"""
    doubled: int
    """judgements of somebody who had judged the item before"""
    unfilled: int
    """places without a judgement"""
    late: int
    """judgements that came when their place was gone"""
    abandoned: int
    """leases that were walked away from"""


def prepare(place: str) -> None:
    """People, and items that wait for them."""
    with Store(place) as store:
        for number in range(PEOPLE):
            accounts.add_person(store, f"p{number}", "labeller")
        found = (LabellingItem("compare", Question(str(number), "Why?")) for number in range(ITEMS))
        labelling_queue.add_items(store, found, "a batch", PLACES)


def run(place: str, tab: Tab, seed: int) -> Seen:
    """All people work until nothing is left to be done."""
    prepare(place)
    everybody = [f"p{number % PEOPLE}" for number in range(PEOPLE * TABS)]
    context, crowd = processes(), []
    for number in range(PROCESSES):
        arguments = (place, tab, seed, everybody[number::PROCESSES], number)
        crowd.append(context.Process(target=_process, args=arguments))
        crowd[-1].start()
    for process in crowd:
        process.join()
    assert [process.exitcode for process in crowd] == [0] * PROCESSES
    with Store(place) as store:
        return _counted(store)


def by_slots(store: Store, person: str, chance: Random) -> None:
    """One tab, as the desk has it."""
    while True:
        lease = labelling_queue.claim_item(store, person, LEASE)
        if lease is None:
            if _filled(store):
                return
            time.sleep(0.05)
        elif _walks_away(lease.token):
            time.sleep(LEASE * (1.2 + chance.random()))
            if chance.random() < 0.5:
                _hand_in(store, lease.token, person)
        else:
            _hand_in(store, lease.token, person)


def by_counting(store: Store, person: str, chance: Random) -> None:
    """One tab, as one would write it without thinking of others: look, then write."""
    mine = select(judgements.c.item).where(judgements.c.person == person)
    had = select(func.count()).where(judgements.c.item == items.c.id).scalar_subquery()
    query = select(items.c.id).where(items.c.id.not_in(mine), had < items.c.wanted)
    while True:
        with store.begin_read() as connection:
            item = connection.scalar(query.order_by(items.c.number).limit(1))
        if item is None:
            return
        with store.begin_write() as connection:
            take_advisory_lock(connection, "judgements")
            number = (connection.scalar(select(func.max(judgements.c.number))) or 0) + 1
            row = {"id": str(number), "number": number, "item": item, "person": person}
            row |= {"kind": "done", "body": "", "ended": 0.0}
            connection.execute(insert(judgements).values(row))


def _process(place: str, tab: Tab, seed: int, share: list[str], number: int) -> None:
    with Store(place) as store, ThreadPoolExecutor(len(share)) as pool:
        chances = (Random(f"{seed} {number} {tab}") for tab in range(len(share)))
        list(pool.map(partial(tab, store), share, chances))


def _walks_away(token: str) -> bool:
    """Of one lease in ten, and the same in both tabs."""
    return int(digest_of(token)[:8], 16) % 10 == 0


def _hand_in(store: Store, token: str, person: str) -> None:
    try:
        labelling_queue.submit_judgement(store, token, person, WORK)
    except Failed as failed:
        if failed.failure.outcome != "already":  # the other tab had a later lease of the item
            raise


def _filled(store: Store) -> bool:
    with store.begin_read() as connection:
        query = select(slots.c.item).where(~slots.c.done).limit(1)
        return connection.scalar(query) is None


def _counted(store: Store) -> Seen:
    judged = select(judgements.c.item, judgements.c.person, judgements.c.kind)
    leased = select(leases.c.token)
    with store.begin_read() as connection:
        rows: list[Any] = list(connection.execute(judged))
        tokens = connection.scalars(leased).all()
    pairs = Counter((row.item, row.person) for row in rows)
    each = Counter(row.item for row in rows if row.kind == "done")
    return Seen(
        over=sum(count > PLACES for count in each.values()),
        doubled=sum(pairs.values()) - len(pairs),
        unfilled=sum(max(0, PLACES - each[item]) for item in each) + PLACES * (ITEMS - len(each)),
        late=sum(row.kind == "extra" for row in rows),
        abandoned=sum(map(_walks_away, tokens)),
    )

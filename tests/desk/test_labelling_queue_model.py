"""The hand-out against a plain model of it, whatever is done in whatever order."""

from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import pytest
from handed import FORMS, NAMES, hand_in, item, outcome
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select
from stores import Clock, emptied

from rookery.desk import accounts, labelling_queue, tables
from rookery.desk.labelling_queue import LEASE_SECONDS, ItemLease, add_items, claim_item
from rookery.desk.store import Store


class Place:
    """One place of one item, in the model."""

    def __init__(self) -> None:
        self.person: str | None = None
        self.until = 0.0
        self.done = False


class Work(NamedTuple):
    """One item, in the model."""

    number: int
    text: str
    form: str
    batch: str
    priority: int
    prelude: bool
    places: list[Place]
    judged: dict[str, str]
    """person to kind"""


class Plain:
    """The hand-out as one would write it for a single process, without a database."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.items: list[Work] = []
        self.retired: set[int] = set()

    def own(self, one: Work, person: str) -> Place | None:
        mine = [place for place in one.places if place.person == person]
        return mine[0] if mine else None

    def free(self, one: Work) -> list[tuple[int, Place]]:
        return [
            (number, place)
            for number, place in enumerate(one.places)
            if not place.done and (place.person is None or place.until < self.clock.now)
        ]

    def list_held(self, person: str, form: str | None) -> list[tuple[float, int, Work]]:
        return sorted(
            (-place.until, one.number, one)
            for one in self.items
            if (place := self.own(one, person)) and not place.done and form in (None, one.form)
            if place.until >= self.clock.now or one.number not in self.retired
        )

    def open(self, person: str) -> list[Work]:
        return [
            one
            for one in self.items
            if one.number not in self.retired and person not in one.judged
            if not self.own(one, person) and self.free(one)
        ]

    def claim(self, person: str, form: str | None) -> tuple[Work, int] | None:
        if task := self.list_held(person, form):
            one = task[0][2]
        else:
            ranked = [
                (-one.priority, self.free(one)[0][0], one.number, one)
                for one in self.open(person)
                if form in (None, one.form)
            ]
            if not ranked:
                return None
            one = self.prelude(person, min(ranked)[3])
        place = self.own(one, person) or self.free(one)[0][1]
        place.person, place.until = person, self.clock.now + LEASE_SECONDS
        return one, one.places.index(place)

    def prelude(self, person: str, best: Work) -> Work:
        mine = [
            work for _, _, work in self.list_held(person, None) if work.number not in self.retired
        ]
        first = [
            (-one.priority, one.number, one)
            for one in self.open(person) + mine
            if one.prelude and one.batch == best.batch
        ]
        return min(first)[2] if first else best

    def submit(self, one: Work, person: str) -> str:
        place = self.own(one, person)
        if place is None:
            places = self.free(one)
            place = places[0][1] if places else None
        if place:
            place.person, place.done = person, True
        one.judged[person] = "done" if place else "extra"
        return one.judged[person]


PEOPLE = st.sampled_from(NAMES[:3])


class Desk(RuleBasedStateMachine):
    """The store beside the model, step by step."""

    def __init__(self, store: Store, clock: Clock) -> None:
        super().__init__()
        self.clock, self.plain = clock, Plain(clock)
        self.store = emptied(store)
        for name in NAMES:
            accounts.add_person(self.store, name, "labeller")
        self.leases: list[tuple[ItemLease, Work]] = []
        self.handed_in: dict[str, int] = {}

    @initialize()
    def opens(self) -> None:
        for number in range(3):
            self.arrives("compare", "first", priority=0, copies=1 + number % 2, prelude=False)

    @rule(
        form=st.sampled_from(FORMS),
        batch=st.sampled_from(["first", "second"]),
        priority=st.integers(-1, 1),
        copies=st.integers(1, 3),
        prelude=st.booleans(),
    )
    def arrives(self, form: str, batch: str, priority: int, copies: int, prelude: bool) -> None:
        number = len(self.plain.items) + 1
        found = [item(str(number), form)]
        assert add_items(self.store, found, batch, copies, priority, prelude) == (1, 0)
        places = [Place() for _ in range(copies)]
        one = Work(number, str(number), form, batch, priority, prelude, places, {})
        self.plain.items.append(one)

    @rule(person=PEOPLE, form=st.sampled_from([None, None, *FORMS]))
    def claims(self, person: str, form: str | None) -> None:
        expected = self.plain.claim(person, form)
        lease = claim_item(self.store, person, only_form=form)
        if expected is None:
            assert lease is None
            return
        assert lease is not None
        assert (lease.item.question.id, lease.slot) == (expected[0].text, expected[1])
        assert lease.until == self.clock.now + LEASE_SECONDS
        self.leases.append((lease, expected[0]))

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), overall=st.integers(0, 1))
    def hands_in(self, data: st.DataObject, overall: int) -> None:
        lease, one = data.draw(st.sampled_from(self.leases))
        before = one.judged.get(lease.person)
        if before is None:
            assert hand_in(self.store, lease, overall) == self.plain.submit(one, lease.person)
            self.handed_in[lease.token] = overall
        elif self.handed_in.get(lease.token) == overall:
            assert hand_in(self.store, lease, overall) == before
        else:
            assert outcome(hand_in, self.store, lease, overall) == "already"

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def skips(self, data: st.DataObject) -> None:
        lease, one = data.draw(st.sampled_from(self.leases))
        if lease.person in one.judged:
            return
        labelling_queue.skip_item(self.store, lease.token, lease.person, "no")
        one.judged[lease.person] = "skipped"
        if place := self.plain.own(one, lease.person):
            place.person = None

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def beats(self, data: st.DataObject) -> None:
        lease, one = data.draw(st.sampled_from(self.leases))
        place = self.plain.own(one, lease.person)
        newest = [old for old, same in self.leases if same is one and old.person == lease.person]
        until = labelling_queue.renew_lease(self.store, lease.token)
        if place and not place.done and newest[-1].token == lease.token:
            place.until = self.clock.now + LEASE_SECONDS
            assert until == place.until
        else:
            assert until is None

    @rule(seconds=st.sampled_from([1.0, LEASE_SECONDS + 1]))
    def time_passes(self, seconds: float) -> None:
        self.clock.pass_by(seconds)

    @rule(data=st.data())
    def retires(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.plain.items))
        query = select(tables.items.c.id).where(tables.items.c.number == one.number)
        with self.store.begin_read() as connection:
            key = str(connection.scalar(query))
        fresh = one.number not in self.plain.retired
        assert labelling_queue.retire_items(self.store, "old", some=[key]) == fresh
        self.plain.retired.add(one.number)

    @invariant()
    def nothing_is_lost_and_nothing_is_given_too_often(self) -> None:
        query = select(
            tables.items.c.number, tables.judgements.c.person, tables.judgements.c.kind
        ).join_from(tables.judgements, tables.items)
        with self.store.begin_read() as connection:
            rows = sorted(tuple(row) for row in connection.execute(query))
        assert rows == sorted(
            (one.number, person, kind)
            for one in self.plain.items
            for person, kind in one.judged.items()
        )
        judgements = Counter(number for number, _, kind in rows if kind == "done")
        assert all(judgements[one.number] <= len(one.places) for one in self.plain.items)

    @invariant()
    def what_is_waiting_is_what_could_be_had(self) -> None:
        mine = [one for _, _, one in self.plain.list_held("Ada", None)]
        there = [one for one in mine if one.number not in self.plain.retired]
        expected = Counter(one.form for one in self.plain.open("Ada") + there)
        assert labelling_queue.count_waiting_items(self.store, "Ada") == expected


@pytest.mark.slow
def test_the_store_and_the_model_do_the_same_whatever_happens(store: Store, clock: Clock) -> None:
    machine: Any = partial(Desk, store, clock)
    some = settings(max_examples=40, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(machine, settings=some)

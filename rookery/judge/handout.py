"""Items to be judged, and who gets which next: so many places an item, one to a person.

Every place is a row from the start. Whoever gets one has a lease of it, which each action puts
off; once it has run out, the place is anybody's. So no item is in more hands than it has places,
and what somebody walked away from comes back by itself. It knows nothing of what is handed in.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    func,
    insert,
    or_,
    select,
    update,
)

from rookery.judge.store import Store, alone
from rookery.judge.tables import OPEN, items, judgements, leases, slots
from rookery.judge.work import Item, Lease
from rookery.records import Failed, Failure, digest_of

LEASE = 1800.0
"""seconds without an action after which work counts as abandoned"""
WHOLE = 0.1
"""of how many items all parts are required (WebGPT, appendix C.2)"""
MANY = 1000
"""so many items count as all that one could wish for"""
_AT_ONCE = 500
"""items in one statement"""


class Added(NamedTuple):
    """How many items came to the desk, and how many were there before."""

    new: int
    known: int


def add(
    store: Store,
    found: Iterable[Item],
    batch: str,
    wanted: int,
    priority: int = 0,
    prelude: bool = False,
    policy: int | None = None,
) -> Added:
    """Puts items before `wanted` people each, all or none. What is in the batch already is left as
    it is. Nobody gets another item of a batch before its prelude (GopherCite's attention check,
    appendix C), which should be wanted of as many as will ever work on the batch. `policy` is the
    step of the training run that wrote the answers."""
    if wanted < 1:
        raise ValueError(f"an item must be wanted of 1 person or more, not {wanted}")
    shared = {"batch": batch, "wanted": wanted, "priority": priority, "prelude": prelude}
    shared |= {"policy": policy, "made": store.clock()}
    new = known = 0
    with store.writing() as connection:
        alone(connection, "items")
        newest = connection.scalar(select(func.max(items.c.number))) or 0
        for chunk in _chunks(found, batch):
            ids = select(items.c.id).where(items.c.id.in_(chunk))
            there = set(connection.scalars(ids))
            fresh = [_row(key, one) for key, one in chunk.items() if key not in there]
            rows = [shared | row | {"number": newest + n} for n, row in enumerate(fresh, 1)]
            newest, new, known = newest + len(rows), new + len(rows), known + len(there)
            if rows:
                connection.execute(insert(items), rows)
                connection.execute(insert(slots), [slot for row in rows for slot in _slots(row)])
    return Added(new, known)


def claim(
    store: Store,
    person: str,
    lease: float = LEASE,
    only_form: str | None = None,
    item: str | None = None,
) -> Lease | None:
    """What a person is to do next, theirs for `lease` seconds; None: there is nothing.

    What they have already comes first, with the same token however often it is asked for; then
    what was added with the highest priority; then the items' first places before their second
    ones, and so on, in order of arrival. Where a batch has a prelude, that comes before what else
    is in the batch, of whatever form. With `item`, that item or nothing.
    """
    now = store.clock()
    asked = [slots.c.form == only_form] if only_form is not None else []
    asked += [slots.c.item == item] if item is not None else []
    with store.writing() as connection:
        alone(connection, f"person {person}")
        slot = connection.execute(_held(person, now).where(*asked)).first()
        if slot is None:
            slot = connection.execute(_free(person, now).where(*asked)).first()
            before = _prelude(connection, person, now, slot.item) if slot else None
            if before and item not in (None, before.item):
                return None
            slot = before or slot
        return _taken(connection, slot, person, now, lease) if slot else None


def beat(store: Store, lease_token: str, lease: float = LEASE) -> float | None:
    """Puts a lease off, also one that has run out if nobody took the place; until when. None: the
    place is another's, or the work was handed in."""
    until = store.clock() + lease
    its = (slots.c.token == lease_token) & ~slots.c.done
    with store.writing() as connection:
        item = connection.scalar(select(leases.c.item).where(leases.c.token == lease_token))
        beaten = update(slots).where(slots.c.item == item, its).values(until=until)
        return until if connection.execute(beaten).rowcount else None


def waiting(store: Store, person: str, most: int = MANY) -> dict[str, int]:
    """How many items of each form the person has or could get; of each, counted up to `most`."""
    now = store.clock()
    mine = (slots.c.person == person) & ~slots.c.done
    theirs = select(slots.c.item).where(or_(mine, and_(*free(now), *_new_to(person)))).where(OPEN)
    forms = select(slots.c.form).where(OPEN).distinct().order_by(slots.c.form)
    found = {}
    with store.reading() as connection:
        for form in connection.scalars(forms).all():
            some = theirs.where(slots.c.form == form).distinct().limit(most).subquery()
            found[form] = connection.scalar(select(func.count()).select_from(some)) or 0
    return {form: number for form, number in found.items() if number}


def retire(
    store: Store,
    why: str,
    some: Sequence[str] | None = None,
    batch: str | None = None,
    policy_before: int | None = None,
) -> int:
    """Hands out no more of these ids, of this batch, or of what a policy wrote before this step (of
    all that is said, what fits everything); how many items. What is under way on them is taken."""
    asked: list[ColumnElement[bool]] = []
    asked += [items.c.id.in_(some)] if some is not None else []
    asked += [items.c.batch == batch] if batch is not None else []
    asked += [items.c.policy < policy_before] if policy_before is not None else []
    if not asked:
        raise ValueError("say which items: ids, a batch, or a step of the policy")
    theirs = slots.c.item.in_(select(items.c.id).where(*asked))
    with store.writing() as connection:
        open_ones = update(items).where(*asked, items.c.retired.is_(None))
        count = connection.execute(open_ones.values(retired=store.clock(), why=why)).rowcount
        connection.execute(update(slots).where(theirs, ~slots.c.retired).values(retired=True))
    return count


def item(store: Store, item_id: str) -> Item:
    """The item with this id. Raises Failed (no_item)."""
    with store.reading() as connection:
        body = connection.scalar(select(items.c.body).where(items.c.id == item_id))
    if body is None:
        raise Failed(Failure(item_id, "no_item", "no such item: go back to the desk's first page"))
    return Item.from_json(body)


def is_prelude(store: Store, item_id: str) -> bool:
    """Whether an item belongs to the prelude of its batch."""
    with store.reading() as connection:
        return bool(connection.scalar(select(items.c.prelude).where(items.c.id == item_id)))


def order_of(item_id: str, person: str, answers: int) -> tuple[int, ...]:
    """The order in which a person is shown an item's answers: by chance, and always the same."""
    return tuple(
        sorted(range(answers), key=lambda number: digest_of(f"{item_id} {number} {person}"))
    )


def whole_of(item_id: str, person: str, share: float = WHOLE) -> bool:
    """Whether all parts are required of this person here: by chance, and always the same."""
    return int(digest_of(f"{item_id} whole {person}")[:8], 16) < share * 16**8


def free(now: float) -> tuple[ColumnElement[bool], ...]:
    """Of slots: in nobody's hands."""
    return ~slots.c.done, or_(slots.c.person.is_(None), slots.c.until < now)


def _new_to(person: str) -> tuple[ColumnElement[bool], ...]:
    """Of slots: of an item that is still handed out, and that this person has not had."""
    other = slots.alias()
    held = select(other.c.item).where(other.c.item == slots.c.item, other.c.person == person)
    return ~slots.c.retired, ~held.exists(), ~_judged(person, slots.c.item)


def _judged(person: str, item_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether this person handed the item in, skipped or flagged it."""
    its = (judgements.c.item == item_id) & (judgements.c.person == person)
    return select(judgements.c.id).where(its).exists()


def _held(person: str, now: float) -> Select[Any]:
    """What a person has in hand, also where the time has run out and nobody took it."""
    mine = (slots.c.person == person) & ~slots.c.done
    query = select(slots).where(mine, or_(slots.c.until >= now, ~slots.c.retired))
    # Another may be taking it this moment, where the time has run out.
    return query.order_by(slots.c.until.desc(), slots.c.arrival).limit(1).with_for_update()


def _free(person: str, now: float) -> Select[Any]:
    """The place that comes first of those that a person could get."""
    query = select(slots).where(*free(now), *_new_to(person))
    query = query.order_by(slots.c.rank, slots.c.number, slots.c.arrival).limit(1)
    # On PostgreSQL two people at once each lock another row; SQLite has one writer at a time.
    return query.with_for_update(skip_locked=True, of=slots)


def _prelude(connection: Connection, person: str, now: float, item_id: str) -> Row[Any] | None:
    """The place in the prelude of an item's batch that a person should have first."""
    batch = select(items.c.batch).where(items.c.id == item_id).scalar_subquery()
    ahead = select(items.c.id).where(items.c.batch == batch, items.c.prelude)
    ahead = ahead.where(items.c.retired.is_(None), ~_judged(person, items.c.id))
    ids = connection.scalars(ahead).all()
    if not ids:
        return None
    mine = (slots.c.person == person) & ~slots.c.done
    query = select(slots).where(slots.c.item.in_(ids))
    query = query.where(or_(mine, and_(*free(now), *_new_to(person))))
    query = query.order_by(slots.c.rank, slots.c.arrival, slots.c.number).limit(1)
    return connection.execute(query.with_for_update(skip_locked=True)).first()


def _taken(connection: Connection, slot: Row[Any], person: str, now: float, lease: float) -> Lease:
    """The place in this person's hands, until later."""
    token, began = slot.token, slot.began
    if slot.person != person:
        token, began = secrets.token_urlsafe(24), now
        given = {"token": token, "item": slot.item, "person": person, "began": began}
        connection.execute(insert(leases).values(given))
    here = (slots.c.item == slot.item) & (slots.c.number == slot.number)
    values = {"person": person, "token": token, "began": began, "until": now + lease}
    connection.execute(update(slots).where(here).values(values))
    body = connection.scalar(select(items.c.body).where(items.c.id == slot.item))
    found = Item.from_json(str(body))
    return Lease(slot.item, found, slot.number, token, person, now + lease, began)


def _chunks(found: Iterable[Item], batch: str) -> Iterator[dict[str, Item]]:
    """Items by their ids, some at a time."""
    rest = ((digest_of(f"{batch}\n{one.to_json()}"), one) for one in found)
    while chunk := dict(islice(rest, _AT_ONCE)):
        yield chunk


def _row(key: str, one: Item) -> dict[str, Any]:
    """What the item itself says of its row."""
    return {"id": key, "form": one.form, "body": one.to_json(), "gold": one.gold is not None}


def _slots(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The places of an item, all free."""
    shared = {"item": row["id"], "form": row["form"], "rank": -row["priority"]}
    shared |= {"arrival": row["number"], "done": False, "retired": False}
    return ({**shared, "number": number} for number in range(row["wanted"]))

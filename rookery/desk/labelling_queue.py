"""The labelling queue: add items, lease them to people, take in judgements, skips and flags.

An item has as many slots as people are wanted, each a row from the start. A person holds a slot by
a lease that every action extends; an expired slot is anybody's, so that no item is with more people
than it has slots, and abandoned work returns by itself. Nobody is given items of a batch that is
not for them, or from which they are excluded, as those are who failed its attention check.
Submitted work is stored as it came and never changed, and deleted only with an answer that its
reader deletes. Work that arrives after its lease expired takes any free slot of the item, or else
is kept as an extra.
"""

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Row,
    Select,
    String,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from rookery.desk.adjudication import load_exclusions, select_active_exclusions
from rookery.desk.forms import Judgement, JudgementKind, LabellingItem, make_item_id
from rookery.desk.projects import find_batch_access
from rookery.desk.store import Store, take_advisory_lock
from rookery.desk.tables import OPEN, drafts, items, judgements, leases, slots, work_signs
from rookery.errors import Failed, Outcome
from rookery.records import Failure, Record, digest_of

LEASE_SECONDS = 1800.0
"""seconds without an action after which work counts as abandoned"""
WORK_SIGN_SECONDS = 60.0
"""least seconds between two stored actions of a person on an item, and before the first"""
WHOLE_FORM_SHARE = 0.1
"""share of items on which all parts of the form are required (WebGPT, appendix C.2)"""
MAX_COUNTED_ITEMS = 1000
"""largest number of waiting items that is counted"""
MAX_BATCH_ITEMS = 200
"""largest number of waiting items of one batch that is counted: it is counted on every task"""
_ITEMS_PER_STATEMENT = 500
"""items in one statement"""


# Conditions and queries that are asked with every item are built once: SQLAlchemy takes longer to
# build them than SQLite to answer. Whoever asks, and when, are parameters of them.
_ASKER, _AT = bindparam("asker", type_=String), bindparam("at", type_=Float)
_ITS = bindparam("its", type_=String)
"""an item. Not named after the column: an UPDATE sets a column by a value of its name"""
_MINE = (slots.c.person == _ASKER) & ~slots.c.done
_FREE = ~slots.c.done & or_(slots.c.person.is_(None), slots.c.until < _AT)
"""slots that are not done and have no lease in force"""


def _make_judged_condition(item_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the SQL condition that the asker submitted, skipped or flagged the item."""
    its = (judgements.c.item == item_id) & (judgements.c.person == _ASKER)
    return select(judgements.c.id).where(its).exists()


def _make_unseen_condition() -> ColumnElement[bool]:
    """Return the SQL condition of slots of items that are still handed out and new to the asker."""
    other = slots.alias()
    held = select(other.c.item).where(other.c.item == slots.c.item, other.c.person == _ASKER)
    return ~slots.c.retired & ~held.exists() & ~_make_judged_condition(slots.c.item)


_UNSEEN = _make_unseen_condition()
_HELD_SLOT = (
    select(slots)
    .where(_MINE, or_(slots.c.until >= _AT, ~slots.c.retired))
    .order_by(slots.c.until.desc(), slots.c.arrival)
    .limit(1)
    # Row lock: once the lease has expired, another person may be taking the slot right now.
    .with_for_update()
)
"""the slot that the asker holds, also an expired one that nobody took"""
_FREE_SLOT = (
    select(slots)
    .where(_FREE, _UNSEEN)
    .order_by(slots.c.rank, slots.c.number, slots.c.arrival)
    .limit(1)
    # PostgreSQL: two people at once lock different rows. SQLite has one writer at a time.
    .with_for_update(skip_locked=True, of=slots)
)
"""the first slot in the queue that the asker could get"""
_ITEM = select(items).where(items.c.id == _ITS)
_ITS_DRAFT = (drafts.c.item == _ITS) & (drafts.c.person == _ASKER)
_DRAFT = select(drafts.c.body).where(_ITS_DRAFT)
_LEASED_ITEM = select(leases.c.item).where(
    leases.c.token == bindparam("lease"), leases.c.person == _ASKER
)
_JUDGEMENT = select(judgements.c.body).where(judgements.c.id == bindparam("judgement"))
_JUDGEMENT_OF_ITEM = (
    select(judgements.c.id).where(judgements.c.item == _ITS, judgements.c.person == _ASKER).limit(1)
)
_LAST_NUMBER = select(func.max(judgements.c.number))
_ITS_SLOT = update(slots).where(slots.c.item == _ITS, slots.c.number == bindparam("place"))
_ASKERS_SLOT = update(slots).where(slots.c.item == _ITS, slots.c.person == _ASKER)
_FREE_PLACE = (
    select(slots.c.number)
    .where(slots.c.item == _ITS, _FREE)
    .order_by(slots.c.number)
    .limit(1)
    .with_for_update(skip_locked=True)
)
_this = items.alias()
_LIKE_THIS = [
    items.c.batch == select(_this.c.batch).where(_this.c.id == _ITS).scalar_subquery(),
    items.c.form == select(_this.c.form).where(_this.c.id == _ITS).scalar_subquery(),
]
"""items of the same batch and form as one"""
_judged_items = select(func.count(judgements.c.item.distinct())).join(items)
_done = _judged_items.where(*_LIKE_THIS, judgements.c.person == _ASKER)
_open_items = select(slots.c.item).join(items).where(*_LIKE_THIS, or_(_MINE, _FREE & _UNSEEN), OPEN)
_waiting = _open_items.distinct().limit(MAX_BATCH_ITEMS)
_PROGRESS_IN_BATCH = select(
    _done.scalar_subquery().label("done"),
    select(func.count()).select_from(_waiting.subquery()).scalar_subquery().label("waiting"),
)
_PRELUDE_LEFT = select(items.c.id).where(
    items.c.batch == bindparam("batch"),
    items.c.prelude,
    items.c.retired.is_(None),
    ~_make_judged_condition(items.c.id),
)
"""items of a batch's prelude that the asker has still to do"""


class ItemLease(Record, frozen=True):
    """An item reserved for one person until a time that each action extends."""

    item_id: str
    item: LabellingItem
    slot: int
    token: str
    """secret needed to submit work for this slot"""
    person: str
    until: float
    began: float


class AddedItemCounts(NamedTuple):
    """Numbers of items that were new, and that the batch had already."""

    new: int
    known: int


def add_items(
    store: Store,
    new_items: Iterable[LabellingItem],
    batch: str,
    people_wanted: int,
    priority: int = 0,
    prelude: bool = False,
    policy: int | None = None,
) -> AddedItemCounts:
    """Queue items for `people_wanted` people each, in one transaction; known ones stay as they are.

    An item is known if the batch has it already. Items are not checked: `find_item_problems` does
    that. `prelude` marks an attention check (GopherCite, appendix C): nobody gets another item of a
    batch before its prelude. Want that of as many people as will ever work on the batch, since who
    finds no place left goes without it. Higher `priority` comes first. `policy` is the step of the
    training run that wrote the answers. Raises ValueError if `people_wanted` is less than 1.
    """
    if people_wanted < 1:
        raise ValueError(f"an item must be wanted of 1 person or more, not {people_wanted}")
    shared = {"batch": batch, "wanted": people_wanted, "priority": priority, "prelude": prelude}
    shared |= {"policy": policy, "made": store.clock()}
    new = known_count = 0
    with store.begin_write() as connection:
        take_advisory_lock(connection, "items")
        newest = connection.scalar(select(func.max(items.c.number))) or 0
        for chunk in _chunk_items(new_items, batch):
            ids = select(items.c.id).where(items.c.id.in_(chunk))
            stored = set(connection.scalars(ids))
            fresh = [_make_item_row(key, one) for key, one in chunk.items() if key not in stored]
            rows = [shared | row | {"number": newest + n} for n, row in enumerate(fresh, 1)]
            newest, new = newest + len(rows), new + len(rows)
            known_count += len(stored)
            if rows:
                connection.execute(insert(items), rows)
                connection.execute(
                    insert(slots), [slot for row in rows for slot in _make_slot_rows(row)]
                )
    return AddedItemCounts(new, known_count)


def claim_item(
    store: Store,
    person: str,
    lease: float = LEASE_SECONDS,
    only_form: str | None = None,
    item: str | None = None,
) -> ItemLease | None:
    """Lease a person's next item for `lease` seconds; None: there is none.

    An item that the person holds already comes first, with the same token and an extended lease;
    then the highest priority; then the first place of every item before the second of any, in order
    of arrival. A batch's prelude comes before the rest of the batch, whatever its form. Retired
    items, and those that the person judged, skipped or flagged, are not given anew, nor any of a
    batch from which they are excluded or that is not for them (`rookery.desk.projects`). With
    `item` it is that item or nothing, also where a prelude must come before it.
    """
    now = store.clock()
    with store.begin_write() as connection:
        take_advisory_lock(connection, f"person {person}")
        values = {"asker": person, "at": now, "form": only_form, "its": item}
        held_query, free = _make_slot_queries(only_form is not None, item is not None)
        slot = connection.execute(held_query, values).first()
        if slot is None:
            admitted = _build_admitted_conditions(connection, person)
            slot = connection.execute(free.where(*admitted) if admitted else free, values).first()
            before = _find_prelude_slot(connection, person, now, slot.item) if slot else None
            if before and item not in (None, before.item):
                return None
            slot = before or slot
        return _lease_slot(connection, slot, person, now, lease) if slot else None


@cache
def _make_slot_queries(of_form: bool, of_item: bool) -> tuple[Select[Any], Select[Any]]:
    """Return the queries of the asker's slot and of the first free one, of one form or item."""
    asked = [slots.c.form == bindparam("form")] if of_form else []
    asked += [slots.c.item == _ITS] if of_item else []
    return _HELD_SLOT.where(*asked), _FREE_SLOT.where(*asked)


def renew_lease(store: Store, lease_token: str, lease: float = LEASE_SECONDS) -> float | None:
    """Extend a lease to `lease` seconds from now and return its new end; None: it is lost.

    An expired lease can be extended while nobody else took the place. It is lost once another
    person has the place, or the work was submitted, skipped or flagged. The time of the action is
    kept, so that hours can be counted, about once a minute.
    """
    now = store.clock()
    open_slot = (slots.c.token == lease_token) & ~slots.c.done
    with store.begin_write() as connection:
        leased = connection.execute(select(leases).where(leases.c.token == lease_token)).first()
        if leased is None:
            return None
        if now - leased.began >= WORK_SIGN_SECONDS:
            _record_work_sign(connection, leased.item, leased.person, now)
        beaten = (
            update(slots).where(slots.c.item == leased.item, open_slot).values(until=now + lease)
        )
        return now + lease if connection.execute(beaten).rowcount else None


def record_correction_sign(store: Store, item: str, person: str, began: float) -> None:
    """Record the time of an action on a correction, about once a minute.

    `began` is when the correction was begun; work with a lease has this from `renew_lease`.
    """
    now = store.clock()
    if now - began >= WORK_SIGN_SECONDS:
        with store.begin_write() as connection:
            _record_work_sign(connection, item, person, now)


def _record_work_sign(connection: Connection, item: str, person: str, now: float) -> None:
    take_advisory_lock(connection, f"person {person}")
    theirs = (work_signs.c.item == item) & (work_signs.c.person == person)
    newest = connection.scalar(select(func.max(work_signs.c.at)).where(theirs))
    if newest is None or now - newest >= WORK_SIGN_SECONDS:
        connection.execute(insert(work_signs).values(item=item, person=person, at=now))


def count_waiting_items(store: Store, person: str, most: int = MAX_COUNTED_ITEMS) -> dict[str, int]:
    """Count the items that a person holds or could get, by form, each count up to `most`.

    Forms without such items are left out. Items that wait for a prelude are counted too.
    """
    asker = {"asker": person, "at": store.clock()}
    forms = select(slots.c.form).where(OPEN).distinct().order_by(slots.c.form)
    counts = {}
    with store.begin_read() as connection:
        free = (_FREE, _UNSEEN, *_build_admitted_conditions(connection, person))
        available = select(slots.c.item).where(or_(_MINE, and_(*free))).where(OPEN)
        for form in connection.scalars(forms).all():
            some = available.where(slots.c.form == form).distinct().limit(most).subquery()
            count = select(func.count()).select_from(some)
            counts[form] = connection.scalar(count, asker) or 0
    return {form: number for form, number in counts.items() if number}


class RaterProgress(NamedTuple):
    """Progress of a person with the items that are theirs to do."""

    done: int
    """items that the person judged, skipped or flagged"""
    of: int | None
    """these, and those that the person holds or could get; None: more wait than are counted"""


def count_form_progress(store: Store, person: str) -> dict[str, RaterProgress]:
    """Count a person's progress by form, in the batches in which something still waits for anybody.

    Forms of which nothing waits for the person are left out.
    """
    waiting = count_waiting_items(store, person)
    judged = select(items.c.batch, items.c.form, judgements.c.item).join(judgements)
    judged = judged.where(judgements.c.person == person).distinct()
    finished: Counter[str] = Counter()
    with store.begin_read() as connection:
        rows = connection.execute(judged).all()
        open_ones = {
            batch for batch in {row.batch for row in rows} if _has_open_slot(connection, batch)
        }
    finished.update(row.form for row in rows if row.batch in open_ones)
    return {
        form: _make_progress(finished[form], count, MAX_COUNTED_ITEMS)
        for form, count in waiting.items()
    }


def count_batch_progress(store: Store, person: str, item_id: str) -> RaterProgress:
    """Count a person's progress in the batch of an item, counting only items of the same form.

    At most MAX_BATCH_ITEMS waiting ones are counted.
    """
    values = {"its": item_id, "asker": person, "at": store.clock()}
    with store.begin_read() as connection:
        found = connection.execute(_PROGRESS_IN_BATCH, values).one()
    return _make_progress(found.done, found.waiting, MAX_BATCH_ITEMS)


def _has_open_slot(connection: Connection, batch: str) -> bool:
    query = select(slots.c.item).join(items).where(items.c.batch == batch, OPEN).limit(1)
    return connection.scalar(query) is not None


def _make_progress(finished: int, waiting: int, most: int) -> RaterProgress:
    return RaterProgress(finished, None if waiting >= most else finished + waiting)


def retire_items(
    store: Store, why: str, some: Sequence[str] | None = None, batch: str | None = None
) -> int:
    """Stop handing out items, by ids (`some`), by batch, or of these ids in this batch.

    Returns how many are new to this. `why` is stored. Work in progress on the items is still
    accepted. Raises ValueError without a condition.
    """
    conditions: list[ColumnElement[bool]] = []
    conditions += [items.c.id.in_(some)] if some is not None else []
    conditions += [items.c.batch == batch] if batch is not None else []
    if not conditions:
        raise ValueError("say which items: ids, or a batch")
    of_items = slots.c.item.in_(select(items.c.id).where(*conditions))
    with store.begin_write() as connection:
        open_ones = update(items).where(*conditions, items.c.retired.is_(None))
        count = connection.execute(open_ones.values(retired=store.clock(), why=why)).rowcount
        connection.execute(update(slots).where(of_items, ~slots.c.retired).values(retired=True))
    return count


def load_item(store: Store, item_id: str) -> LabellingItem:
    """Load the item with this id. Raises Failed (no_item)."""
    with store.begin_read() as connection:
        return _read_item(connection, item_id)


def load_item_and_draft(
    store: Store, item_id: str, person: str
) -> tuple[LabellingItem, dict[str, Any] | None]:
    """Load an item and a person's stored draft of its form, in one transaction.

    The draft is None if there is none or the form was submitted. Raises Failed (no_item).
    """
    with store.begin_read() as connection:
        item = _read_item(connection, item_id)
        body = connection.scalar(_DRAFT, {"its": item_id, "asker": person})
    return item, None if body is None else msgspec.json.decode(body, type=dict[str, Any])


def _read_item(connection: Connection, item_id: str) -> LabellingItem:
    found = connection.execute(_ITEM, {"its": item_id}).first()
    if found is None:
        detail = "no such item: go back to the desk's first page"
        raise Failed(Failure(item_id, Outcome.NO_ITEM, detail))
    return LabellingItem.from_json(found.body)


def find_prelude_batch(store: Store, item_id: str) -> str:
    """Return the batch to whose prelude (attention check) an item belongs; empty if to none."""
    query = select(items.c.batch).where(items.c.id == item_id, items.c.prelude)
    with store.begin_read() as connection:
        return connection.scalar(query) or ""


def shuffle_answers(item_id: str, person: str, answers: int) -> tuple[int, ...]:
    """Return the order in which a person sees an item's answers, as a tuple of their numbers.

    Pseudo-random, and always the same for this item and person.
    """
    return tuple(
        sorted(range(answers), key=lambda number: digest_of(f"{item_id} {number} {person}"))
    )


def requires_whole_form(item_id: str, person: str, share: float = WHOLE_FORM_SHARE) -> bool:
    """Return True if all parts of the form are required of this person on this item.

    Pseudo-random with probability `share`, and always the same for this item and person.
    """
    return int(digest_of(f"{item_id} whole {person}")[:8], 16) < share * 16**8


def _build_admitted_conditions(connection: Connection, person: str) -> list[ColumnElement[bool]]:
    """Return the SQL conditions of slots of batches that the person may work on.

    The person is not excluded from them, and the rules of their project let the person in.
    """
    rows = load_exclusions(connection, person)
    batches = {row.batch for row in select_active_exclusions(rows) if row.what == "person"}
    access = find_batch_access(connection, person)
    if "" in batches or access.only == frozenset():  # from everything
        return [slots.c.item.is_(None)]
    batches |= access.barred
    slot_item = select(items.c.id).where(items.c.id == slots.c.item)
    conditions = [~slot_item.where(items.c.batch.in_(sorted(batches))).exists()] if batches else []
    if access.only is not None:
        conditions.append(slot_item.where(items.c.batch.in_(sorted(access.only))).exists())
    return conditions


def _find_prelude_slot(
    connection: Connection, person: str, now: float, item_id: str
) -> Row[Any] | None:
    """Return the slot of the batch's prelude that the person should have first, if any."""
    batch = connection.execute(_ITEM, {"its": item_id}).one().batch
    ids = connection.scalars(_PRELUDE_LEFT, {"batch": batch, "asker": person}).all()
    if not ids:
        return None
    query = select(slots).where(slots.c.item.in_(ids), or_(_MINE, _FREE & _UNSEEN))
    query = query.order_by(slots.c.rank, slots.c.arrival, slots.c.number).limit(1)
    asker = {"asker": person, "at": now}
    return connection.execute(query.with_for_update(skip_locked=True), asker).first()


def _lease_slot(
    connection: Connection, slot: Row[Any], person: str, now: float, lease: float
) -> ItemLease:
    """Lease the slot to the person."""
    token, began = slot.token, slot.began
    if slot.person != person:
        token, began = secrets.token_urlsafe(24), now
        lease_row = {"token": token, "item": slot.item, "person": person, "began": began}
        connection.execute(insert(leases), lease_row)
    values = {"person": person, "token": token, "began": began, "until": now + lease}
    connection.execute(_ITS_SLOT, {"its": slot.item, "place": slot.number, **values})
    item = LabellingItem.from_json(connection.execute(_ITEM, {"its": slot.item}).one().body)
    return ItemLease(slot.item, item, slot.number, token, person, now + lease, began)


def _chunk_items(
    new_items: Iterable[LabellingItem], batch: str
) -> Iterator[dict[str, LabellingItem]]:
    """Yield items by id, some at a time."""
    rest = ((make_item_id(batch, one), one) for one in new_items)
    while chunk := dict(islice(rest, _ITEMS_PER_STATEMENT)):
        yield chunk


def _make_item_row(key: str, one: LabellingItem) -> dict[str, Any]:
    """Return the columns that the item itself determines."""
    return {"id": key, "form": one.form, "body": one.to_json(), "gold": one.gold is not None}


def _make_slot_rows(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of an item's slots, all free."""
    shared = {"item": row["id"], "form": row["form"], "rank": -row["priority"]}
    shared |= {"arrival": row["number"], "done": False, "retired": False}
    return ({**shared, "number": number} for number in range(row["wanted"]))


def save_draft(store: Store, item_id: str, person: str, filled: dict[str, Any]) -> None:
    """Store a form as far as it is filled in, replacing the earlier draft."""
    values = {"body": msgspec.json.encode(filled).decode(), "saved": store.clock()}
    with store.begin_write() as connection:
        take_advisory_lock(connection, f"person {person}")
        changed = {"its": item_id, "asker": person, **values}
        if connection.execute(update(drafts).where(_ITS_DRAFT), changed).rowcount == 0:
            connection.execute(insert(drafts), {"item": item_id, "person": person, **values})


def submit_judgement(store: Store, token: str, person: str, judgement: Judgement) -> JudgementKind:
    """Submit a judgement, delete its draft, and return its kind: "done" or "extra".

    It is "extra" if another person has taken the place after the lease expired and no other is
    left. Sets the judgement's id, item, person and kind; submitting the same twice stores it once.
    With `supersedes` set, it is a correction of that judgement, of which it takes item and kind.
    Raises Failed: no_lease (the token is not of this person), already (the person judged the item
    before), and for a correction no_judgement.
    """
    if judgement.supersedes:
        return correct_judgement(store, msgspec.structs.replace(judgement, by=person)).kind
    with store.begin_write() as connection:
        take_advisory_lock(connection, f"person {person}")
        item = _find_leased_item(connection, token, person)
        before = _find_judgement(connection, _make_judgement_id(token))
        if before is not None:
            return _require_same_values(before, judgement.filled).kind
        _refuse_second_judgement(connection, item, person)
        filled = _fill_slot(connection, item, person, store.clock())
        kind: JudgementKind = "done" if filled else "extra"
        changes = {"id": _make_judgement_id(token), "item": item, "by": person, "kind": kind}
        _insert_judgement(connection, msgspec.structs.replace(judgement, **changes))
        connection.execute(delete(drafts).where(_ITS_DRAFT), {"its": item, "asker": person})
    return kind


def skip_item(store: Store, token: str, person: str, reason: str) -> None:
    """Leave an item to others and store the reason; this person never gets it again.

    The same skip sent twice is stored once. Raises Failed: no_lease (the token is not of this
    person), already (it was judged before).
    """
    _return_item(store, token, person, reason, "skipped")


def flag_item(store: Store, token: str, person: str, reason: str) -> None:
    """Report that an item itself is faulty and store the reason; this person never gets it again.

    Others may still get it. The same flag sent twice is stored once. Raises Failed: no_lease (the
    token is not of this person), already (it was judged before).
    """
    _return_item(store, token, person, reason, "flagged")


def list_judgements(store: Store, person: str, limit: int, **only: str) -> list[Judgement]:
    """Return the current versions of a person's judgements, newest first, at most `limit`.

    Skips and flags are included. `only` are columns that have a value: `item`, or `id`.
    """
    later = judgements.alias()
    superseded = select(later.c.id).where(later.c.supersedes == judgements.c.id).exists()
    query = select(judgements.c.body).where(judgements.c.person == person, ~superseded)
    query = query.where(*(judgements.c[name] == value for name, value in only.items()))
    with store.begin_read() as connection:
        bodies = connection.scalars(query.order_by(judgements.c.number.desc()).limit(limit))
        return [Judgement.from_json(body) for body in bodies]


def correct_judgement(store: Store, judgement: Judgement) -> Judgement:
    """Store a judgement in place of the one that it `supersedes`, and return it as stored.

    The earlier one stays in the store. The new one gets an id of its own and the earlier one's item
    and kind. Raises Failed: no_judgement (there is none of this person, or it was skipped or
    flagged), already (it was corrected before with other values).
    """
    with store.begin_write() as connection:
        take_advisory_lock(connection, f"person {judgement.by}")
        old = _find_judgement(connection, judgement.supersedes)
        if old is None or old.by != judgement.by or old.kind not in ("done", "extra"):
            detail = "correct what you handed in yourself: look at your history"
            raise Failed(Failure(judgement.supersedes, Outcome.NO_JUDGEMENT, detail))
        key = _make_judgement_id(f"instead of {old.id}")
        before = _find_judgement(connection, key)
        if before is not None:
            return _require_same_values(before, judgement.filled)
        new = msgspec.structs.replace(judgement, id=key, item=old.item, kind=old.kind)
        _insert_judgement(connection, new)
    return new


def restore_judgements(store: Store, exported: Iterable[Judgement]) -> int:
    """Insert exported judgements that the store does not have, and return their number.

    Their items and people must exist, and superseded ones come before those that supersede them.
    "done" judgements fill places of their items.
    """
    new = 0
    with store.begin_write() as connection:
        for one in exported:
            if _find_judgement(connection, one.id) is None:
                if one.kind == "done" and not one.supersedes:
                    _fill_slot(connection, one.item, one.by, store.clock())
                _insert_judgement(connection, one)
                new += 1
    return new


def _return_item(
    store: Store, token: str, person: str, reason: str, kind: Literal["skipped", "flagged"]
) -> None:
    now, filled = store.clock(), {"reason": reason}
    with store.begin_write() as connection:
        take_advisory_lock(connection, f"person {person}")
        item = _find_leased_item(connection, token, person)
        before = _find_judgement(connection, _make_judgement_id(token))
        if before is not None:
            _require_same_values(before, filled)
            return
        _refuse_second_judgement(connection, item, person)
        began = connection.scalar(select(leases.c.began).where(leases.c.token == token)) or now
        mine = (slots.c.item == item) & (slots.c.person == person) & ~slots.c.done
        nobody = {"person": None, "token": None, "began": None, "until": None}
        connection.execute(update(slots).where(mine).values(nobody))
        judgement = Judgement(
            _make_judgement_id(token), item, person, kind, filled, "", 0, (), False, began, now
        )
        _insert_judgement(connection, judgement)


def _fill_slot(connection: Connection, item: str, person: str, now: float) -> bool:
    """Mark a slot done: the person's own, or any free one; return False if there is none."""
    done = {"its": item, "person": person, "done": True, "until": None}
    if connection.execute(_ASKERS_SLOT, {**done, "asker": person}).rowcount:
        return True
    number = connection.scalar(_FREE_PLACE, {"its": item, "at": now})
    if number is None:
        return False
    connection.execute(_ITS_SLOT, {**done, "place": number})
    return True


def is_leased_to(store: Store, token: str, person: str, item: str) -> bool:
    """Return True if the token is of a lease of this item to this person, ended or not."""
    its = (leases.c.token == token) & (leases.c.person == person) & (leases.c.item == item)
    with store.begin_read() as connection:
        return connection.scalar(select(leases.c.token).where(its)) is not None


def _find_leased_item(connection: Connection, token: str, person: str) -> str:
    """Return the id of the item leased to this person with this token. Raises Failed (no_lease)."""
    item: str | None = connection.scalar(_LEASED_ITEM, {"lease": token, "asker": person})
    if item is None:
        detail = "this work was not handed out to you: go back to the desk's first page"
        raise Failed(Failure("the lease", Outcome.NO_LEASE, detail))
    return item


def _refuse_second_judgement(connection: Connection, item: str, person: str) -> None:
    if connection.scalar(_JUDGEMENT_OF_ITEM, {"its": item, "asker": person}) is not None:
        raise _make_already_error(item)


def _find_judgement(connection: Connection, key: str) -> Judgement | None:
    body = connection.scalar(_JUDGEMENT, {"judgement": key})
    return None if body is None else Judgement.from_json(body)


def _insert_judgement(connection: Connection, judgement: Judgement) -> None:
    take_advisory_lock(connection, "judgements")
    newest = connection.scalar(_LAST_NUMBER)
    row = {name: getattr(judgement, name) for name in ("id", "item", "kind", "ended")}
    row |= {"number": (newest or 0) + 1, "person": judgement.by, "body": judgement.to_json()}
    row["supersedes"] = judgement.supersedes or None
    connection.execute(insert(judgements), row)


def _require_same_values(before: Judgement, filled: dict[str, Any]) -> Judgement:
    """Return the judgement submitted before with the same token. Raises Failed (already) if its
    values differ."""
    if before.filled != msgspec.json.decode(msgspec.json.encode(filled)):
        raise _make_already_error(before.item)
    return before


def _make_already_error(item: str) -> Failed:
    return Failed(
        Failure(item, Outcome.ALREADY, "you handed this in before: correct it in your history")
    )


def _make_judgement_id(what: str) -> str:
    return digest_of(f"judgement {what}")

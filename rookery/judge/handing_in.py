"""What people hand in: kept as it came, never changed and never thrown away.

Work that comes after its lease ran out takes any place of the item that is free, and is kept as an
extra where there is none. It knows nothing of what a form means.
"""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, delete, func, insert, select, update

from rookery.judge.handout import free
from rookery.judge.store import Store, alone
from rookery.judge.tables import drafts, judgements, leases, slots
from rookery.judge.work import Judgement, Kind
from rookery.records import Failed, Failure, digest_of


def save_draft(store: Store, item_id: str, person: str, filled: dict[str, Any]) -> None:
    """Keeps a form as far as it is filled in, in place of what was kept of it before."""
    its = (drafts.c.item == item_id) & (drafts.c.person == person)
    values = {"body": msgspec.json.encode(filled).decode(), "saved": store.clock()}
    with store.writing() as connection:
        alone(connection, f"person {person}")
        if connection.execute(update(drafts).where(its).values(values)).rowcount == 0:
            connection.execute(insert(drafts).values(item=item_id, person=person, **values))


def draft(store: Store, item_id: str, person: str) -> dict[str, Any] | None:
    """What was kept of a form; None: nothing, or it was handed in."""
    its = (drafts.c.item == item_id) & (drafts.c.person == person)
    with store.reading() as connection:
        body = connection.scalar(select(drafts.c.body).where(its))
    return None if body is None else msgspec.json.decode(body, type=dict[str, Any])


def submit(store: Store, token: str, person: str, judgement: Judgement) -> Kind:
    """Hands work in: "done", or "extra" where the lease ran out and no place is left.

    The judgement's id, item, person and kind are set here; the same twice is handed in once. With
    `supersedes` it is a correction. Raises Failed: no_lease, already.
    """
    if judgement.supersedes:
        return correct(store, msgspec.structs.replace(judgement, by=person)).kind
    with store.writing() as connection:
        alone(connection, f"person {person}")
        item = _leased(connection, token, person)
        before = _kept(connection, _id(token))
        if before is not None:
            return _same(before, judgement.filled).kind
        _only_once(connection, item, person)
        kind: Kind = "done" if _place(connection, item, person, store.clock()) else "extra"
        _keep(
            connection,
            msgspec.structs.replace(judgement, id=_id(token), item=item, by=person, kind=kind),
        )
        mine = (drafts.c.item == item) & (drafts.c.person == person)
        connection.execute(delete(drafts).where(mine))
    return kind


def skip(store: Store, token: str, person: str, reason: str) -> None:
    """Gives a place back and never gets the item again. Raises Failed: no_lease, already."""
    _give_back(store, token, person, reason, "skipped")


def flag(store: Store, token: str, person: str, reason: str) -> None:
    """As `skip`, and says that something is wrong with the item itself."""
    _give_back(store, token, person, reason, "flagged")


def judged(store: Store, person: str, limit: int) -> list[Judgement]:
    """A person's judgements as they stand now, the newest first."""
    later = judgements.alias()
    superseded = select(later.c.id).where(later.c.supersedes == judgements.c.id).exists()
    query = select(judgements.c.body).where(judgements.c.person == person, ~superseded)
    with store.reading() as connection:
        bodies = connection.scalars(query.order_by(judgements.c.number.desc()).limit(limit))
        return [Judgement.from_json(body) for body in bodies]


def correct(store: Store, judgement: Judgement) -> Judgement:
    """Puts a judgement in the place of the one of the same person's that it supersedes, as it is
    kept. Raises Failed: no_judgement, already."""
    with store.writing() as connection:
        alone(connection, f"person {judgement.by}")
        old = _kept(connection, judgement.supersedes)
        if old is None or old.by != judgement.by or old.kind not in ("done", "extra"):
            detail = "correct what you handed in yourself: look at your history"
            raise Failed(Failure(judgement.supersedes, "no_judgement", detail))
        key = _id(f"instead of {old.id}")
        before = _kept(connection, key)
        if before is not None:
            return _same(before, judgement.filled)
        new = msgspec.structs.replace(judgement, id=key, item=old.item, kind=old.kind)
        _keep(connection, new)
    return new


def restore(store: Store, found: Iterable[Judgement]) -> int:
    """Takes in judgements of items and people that are there, as they are, superseded ones before
    those that supersede them; how many are new. They fill the places of their items."""
    new = 0
    with store.writing() as connection:
        for one in found:
            if _kept(connection, one.id) is None:
                if one.kind == "done" and not one.supersedes:
                    _place(connection, one.item, one.by, store.clock())
                _keep(connection, one)
                new += 1
    return new


def _give_back(
    store: Store, token: str, person: str, reason: str, kind: Literal["skipped", "flagged"]
) -> None:
    now, filled = store.clock(), {"reason": reason}
    with store.writing() as connection:
        alone(connection, f"person {person}")
        item = _leased(connection, token, person)
        before = _kept(connection, _id(token))
        if before is not None:
            _same(before, filled)
            return
        _only_once(connection, item, person)
        began = connection.scalar(select(leases.c.began).where(leases.c.token == token)) or now
        mine = (slots.c.item == item) & (slots.c.person == person) & ~slots.c.done
        nobody = {"person": None, "token": None, "began": None, "until": None}
        connection.execute(update(slots).where(mine).values(nobody))
        given = Judgement(_id(token), item, person, kind, filled, "", 0, (), False, began, now)
        _keep(connection, given)


def _place(connection: Connection, item: str, person: str, now: float) -> bool:
    """Whether there is a place for what this person did: their own, or any that is free."""
    mine = (slots.c.item == item) & (slots.c.person == person)
    done = {"person": person, "done": True, "until": None}
    if connection.execute(update(slots).where(mine).values(done)).rowcount:
        return True
    places = select(slots.c.number).where(slots.c.item == item, *free(now))
    first = places.order_by(slots.c.number).limit(1).with_for_update(skip_locked=True)
    number = connection.scalar(first)
    if number is None:
        return False
    here = (slots.c.item == item) & (slots.c.number == number)
    connection.execute(update(slots).where(here).values(done))
    return True


def _leased(connection: Connection, token: str, person: str) -> str:
    """The item that this person got with this token."""
    its = (leases.c.token == token) & (leases.c.person == person)
    item: str | None = connection.scalar(select(leases.c.item).where(its))
    if item is None:
        detail = "this work was not handed out to you: go back to the desk's first page"
        raise Failed(Failure("the lease", "no_lease", detail))
    return item


def _only_once(connection: Connection, item: str, person: str) -> None:
    mine = (judgements.c.item == item) & (judgements.c.person == person)
    if connection.scalar(select(judgements.c.id).where(mine).limit(1)) is not None:
        raise _already(item)


def _kept(connection: Connection, key: str) -> Judgement | None:
    body = connection.scalar(select(judgements.c.body).where(judgements.c.id == key))
    return None if body is None else Judgement.from_json(body)


def _keep(connection: Connection, judgement: Judgement) -> None:
    alone(connection, "judgements")
    newest = connection.scalar(select(func.max(judgements.c.number)))
    row = {
        "id": judgement.id,
        "number": (newest or 0) + 1,
        "item": judgement.item,
        "person": judgement.by,
        "kind": judgement.kind,
        "body": judgement.to_json(),
        "ended": judgement.ended,
        "supersedes": judgement.supersedes or None,
    }
    connection.execute(insert(judgements).values(row))


def _same(before: Judgement, filled: dict[str, Any]) -> Judgement:
    """What was handed in with the same token, if it says the same."""
    if before.filled != msgspec.json.decode(msgspec.json.encode(filled)):
        raise _already(before.item)
    return before


def _already(item: str) -> Failed:
    return Failed(Failure(item, "already", "you handed this in before: correct it in your history"))


def _id(what: str) -> str:
    return digest_of(f"judgement {what}")

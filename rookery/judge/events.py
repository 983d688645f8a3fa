"""What happened, in the order in which it did: streams that are only ever added to.

Each event carries a digest of itself and of the one before, so that a changed or a missing one
shows. It knows nothing of what the events say.
"""

import hashlib

import msgspec
from sqlalchemy import Connection, insert, select

from rookery.judge.store import Store, alone
from rookery.judge.tables import events

NOTHING = ""
"""the link before the first"""


def append(connection: Connection, stream: str, person: str, body: str, at: float) -> int:
    """Adds an event in a transaction that writes; its number: from 0 on, without a gap."""
    alone(connection, f"events {stream}")
    newest = connection.execute(
        select(events.c.number, events.c.chain)
        .where(events.c.stream == stream)
        .order_by(events.c.number.desc())
        .limit(1)
    ).first()
    number, before = (newest.number + 1, newest.chain) if newest else (0, NOTHING)
    row = {"stream": stream, "number": number, "person": person, "body": body, "at": at}
    connection.execute(insert(events).values(**row, chain=link(before, *row.values())))
    return number


def read(connection: Connection, stream: str, after: int = -1) -> list[str]:
    """The bodies of a stream in order, from the one after this number on."""
    wanted = (events.c.stream == stream) & (events.c.number > after)
    return list(
        connection.scalars(select(events.c.body).where(wanted).order_by(events.c.number)).all()
    )


def whole(store: Store, stream: str) -> bool:
    """Whether no event of a stream was changed, moved, or taken out before another."""
    told = (events.c.stream, events.c.number, events.c.person, events.c.body, events.c.at)
    query = select(*told, events.c.chain).where(events.c.stream == stream)
    before = NOTHING
    with store.reading() as connection:
        for number, row in enumerate(connection.execute(query.order_by(events.c.number))):
            if row.number != number or row.chain != link(before, *row[:-1]):
                return False
            before = row.chain
    return True


def link(before: str, *parts: object) -> str:
    """SHA-256 of what stands in one row, and of the link before it."""
    return hashlib.sha256(msgspec.json.encode([before, *parts])).hexdigest()

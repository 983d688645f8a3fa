"""Check the chains of stored events."""

from sqlalchemy import select

from rookery.desk.store import CHAIN_START, Store, compute_chain_link
from rookery.desk.tables import events


def verify_event_chain(store: Store, stream: str) -> bool:
    """Return True if no event of a stream was changed, moved, or removed before another one."""
    columns = (events.c.stream, events.c.number, events.c.person, events.c.body, events.c.at)
    query = select(*columns, events.c.chain).where(events.c.stream == stream)
    before = CHAIN_START
    with store.begin_read() as connection:
        for number, row in enumerate(connection.execute(query.order_by(events.c.number))):
            if row.number != number or row.chain != compute_chain_link(before, *row[:-1]):
                return False
            before = row.chain
    return True

"""Pages as they were when somebody saw them, so that every quote can be looked up in its place.

A page is kept once, by the SHA-256 of all that it is. It knows nothing of where pages come from.
"""

import hashlib

from sqlalchemy import Connection, insert, select

from rookery.judge.store import Store, alone
from rookery.judge.tables import pages
from rookery.records import Failed, Failure, Page


def keep(connection: Connection, page: Page) -> str:
    """The key under which a page is kept from now on, in a transaction that writes."""
    body = page.to_json()
    key = hashlib.sha256(body.encode()).hexdigest()
    alone(connection, f"page {key}")
    if connection.scalar(select(pages.c.key).where(pages.c.key == key)) is None:
        row = {"key": key, "digest": page.digest, "url": page.url, "body": body}
        connection.execute(insert(pages).values(row))
    return key


def page(store: Store, key: str) -> Page:
    """The page with this key. Raises Failed (no_page)."""
    with store.reading() as connection:
        body = connection.scalar(select(pages.c.body).where(pages.c.key == key))
    if body is None:
        raise Failed(Failure(key, "no_page", "no such page is kept: open it again"))
    return Page.from_json(body)


def pages_of(store: Store, digest: str) -> list[Page]:
    """All that were kept with this text, in the order of their keys."""
    query = select(pages.c.body).where(pages.c.digest == digest).order_by(pages.c.key)
    with store.reading() as connection:
        return [Page.from_json(body) for body in connection.scalars(query)]

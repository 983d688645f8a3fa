"""The keys of programs: made, ended, let in, and counted by the minute and in all.

Of a key only its SHA-256 is kept. A budget counts answers. It knows nothing of what is asked.
"""

import hashlib
import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import insert, select, update

from rookery.judge import people
from rookery.judge.store import Store
from rookery.judge.tables import keys
from rookery.judge.tables import people as those_here
from rookery.records import Failed, Failure
from rookery.serve.web.api_errors import Refused

PREFIX = "rk-"
LOCAL = "this machine"
"""who asks on a loopback address before there is any key"""


class Key(NamedTuple):
    """A key as it stands in the store, or the lack of one where none is needed."""

    token: str
    """its SHA-256; empty: nobody has a key yet"""
    name: str
    person: str
    per_minute: int | None = None
    """requests; None: as many as it likes"""
    budget: float | None = None
    """answers in all; None: without end"""
    spent: float = 0.0
    """answers"""


NOBODY = Key("", LOCAL, LOCAL)


def make(
    store: Store, name: str, per_minute: int | None = None, budget: float | None = None
) -> str:
    """A new key in place of the one of this name; it is shown this once. Raises Failed."""
    token, now = PREFIX + secrets.token_urlsafe(32), store.clock()
    be(store, name)
    row = {"name": name, "person": name, "made": now, "per_minute": per_minute}
    with store.writing() as connection:
        row |= {"token": _hashed(token), "budget": budget, "spent": 0.0, "ended": None}
        if connection.execute(update(keys).where(keys.c.name == name).values(row)).rowcount == 0:
            connection.execute(insert(keys).values(row))
        people.audit(connection, name, "key", name, now)
    return token


def revoke(store: Store, name: str) -> None:
    """Ends a key. Raises Failed (no_key_named)."""
    now, its = store.clock(), (keys.c.name == name) & keys.c.ended.is_(None)
    with store.writing() as connection:
        if connection.execute(update(keys).where(its).values(ended=now)).rowcount == 0:
            detail = "no key in use has this name: look at its spelling"
            raise Failed(Failure(name, "no_key_named", detail))
        people.audit(connection, name, "key revoked", name, now)


def be(store: Store, name: str) -> None:
    """Makes somebody of this name, who may read, where there is nobody. Raises Failed."""
    try:
        people.add_person(store, name, "reader")
    except Failed as failed:
        if failed.failure.outcome != "already":
            raise


def admitted(store: Store, authorization: str, open_here: bool) -> Key:
    """Whose key a header holds; nobody's, where `open_here` and no key was ever made.

    Raises Refused (401).
    """
    kind, _, token = authorization.strip().partition(" ")
    with store.reading() as connection:
        if open_here and connection.scalar(select(keys.c.name)) is None:
            return NOBODY  # clients send a key of their own invention where they are given none
        its = (keys.c.token == _hashed(token.strip())) & keys.c.ended.is_(None)
        here = select(keys).join(those_here).where(its, those_here.c.gone.is_(None))
        row = connection.execute(here).first() if kind.lower() == "bearer" else None
    if row is None:
        message = "Send a key of this server in a header, as 'Authorization: Bearer KEY'."
        if authorization:
            message = "This key is none of this server, or was revoked. " + message
        raise Refused(401, message, "invalid_api_key")
    return Key(row.token, row.name, row.person, row.per_minute, row.budget, row.spent)


def spend(store: Store, key: Key, answers: int = 1) -> None:
    """Takes answers out of a key's budget. Raises Refused (429) where they are not left."""
    if key.budget is None:
        return
    its = (keys.c.token == key.token) & (keys.c.spent + answers <= keys.c.budget)
    with store.writing() as connection:
        done = connection.execute(update(keys).where(its).values(spent=keys.c.spent + answers))
    if done.rowcount == 0:
        message = "The budget of this key is spent. Ask whoever runs this server for more."
        raise Refused(429, message, "insufficient_quota")


def give_back(store: Store, key: Key, answers: int = 1) -> None:
    """Puts back what came to nothing."""
    if key.budget is None:
        return
    its = (keys.c.token == key.token) & (keys.c.spent >= answers)
    with store.writing() as connection:
        connection.execute(update(keys).where(its).values(spent=keys.c.spent - answers))


class Rates:
    """How often each key came in the last minute, in this process: buckets that fill up again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, watched: int = 10_000) -> None:
        self._clock = clock
        self._watched = watched
        self._turn = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admit(self, key: Key) -> None:
        """Counts a request. Raises Refused (429), saying when to come again."""
        if key.per_minute is None:
            return
        often, now = float(key.per_minute), self._clock()
        with self._turn:
            left, at = self._buckets.pop(key.token, (often, now))
            left = min(often, left + (now - at) * often / 60)
            self._buckets[key.token] = (left - (left >= 1), now)
            if len(self._buckets) > self._watched:
                self._buckets.popitem(last=False)
        if left < 1:
            message = f"This key may make {often:.0f} requests a minute. Wait, then send it again."
            after = max(1, math.ceil((1 - left) * 60 / often))
            raise Refused(429, message, "rate_limit_exceeded", after=after)


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()

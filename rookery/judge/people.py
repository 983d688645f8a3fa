"""Who may work at the desk: invites, sessions, roles, and a book of what was done.

Of tokens only the SHA-256 is kept, so that nobody gets in with what stands in the store. It knows
nothing of cookies and of pages.
"""

import hashlib
import secrets
from typing import NamedTuple, get_args

from sqlalchemy import Connection, Row, insert, select, update

from rookery.judge import tables
from rookery.judge.events import NOTHING, link
from rookery.judge.store import Store, alone
from rookery.judge.tables import audits as audit_book
from rookery.judge.tables import invites, sessions
from rookery.judge.work import Role
from rookery.records import Failed, Failure

DAY = 86_400.0
IDLE = 7 * DAY
"""seconds without a sign of life, after which a session is over"""
ABSOLUTE = 30 * DAY
"""seconds after which a session is over however much is done in it"""
SEEN_EACH = 60.0
"""seconds in which a session is marked as seen at most once"""
LONGEST_NAME = 80
ROLES: tuple[Role, ...] = get_args(Role)


class Person(NamedTuple):
    """Somebody at the desk."""

    name: str
    role: Role
    made: float
    gone: float | None
    """when shut out; the work stays"""


class Audit(NamedTuple):
    """One line of the book."""

    number: int
    person: str
    """who did it"""
    action: str
    what: str
    """to what or whom"""
    at: float


def allowed(person: Person, role: Role) -> bool:
    """Whether a person may do what this role may."""
    return person.gone is None and ROLES.index(person.role) >= ROLES.index(role)


def add_person(store: Store, name: str, role: Role) -> Person:
    """Makes a person, who needs an invite to get in. Raises Failed: bad_name, already."""
    _check(name)
    with store.writing() as connection:
        if _person(connection, name) is not None:
            raise Failed(Failure(name, "already", "somebody has this name: choose another"))
        return _make(connection, name, role, store.clock())


def people(store: Store) -> list[Person]:
    """All who are or were at the desk, by name."""
    with store.reading() as connection:
        rows = connection.execute(select(tables.people).order_by(tables.people.c.name))
        return [Person(*row) for row in rows]


def set_role(store: Store, name: str, role: Role, by: str) -> None:
    """Gives a person another role. Raises Failed (no_person)."""
    with store.writing() as connection:
        _change(connection, name, role=role)
        audit(connection, by, "role", f"{name}: {role}", store.clock())


def shut_out(store: Store, name: str, by: str) -> None:
    """Ends a person's sessions and invites; the work stays. Raises Failed (no_person)."""
    now = store.clock()
    with store.writing() as connection:
        _change(connection, name, gone=now)
        open_ones = (sessions.c.person == name) & sessions.c.ended.is_(None)
        connection.execute(update(sessions).where(open_ones).values(ended=now))
        unused = (invites.c.person == name) & invites.c.used.is_(None)
        connection.execute(update(invites).where(unused).values(used=now))
        audit(connection, by, "shut out", name, now)


def invite(store: Store, person: str, role: Role, by: str, days: float = 7) -> str:
    """A token with which a person gets in once. Makes the person where there is none, or gives the
    role and a new way in to the one that there is, shut out or not. Raises Failed (bad_name)."""
    _check(person)
    token, now = secrets.token_urlsafe(32), store.clock()
    with store.writing() as connection:
        if _person(connection, person) is None:
            _make(connection, person, role, now)
        else:
            _change(connection, person, role=role, gone=None)
        row = {"token": _hashed(token), "person": person, "until": now + days * DAY}
        connection.execute(insert(invites).values(row))
        audit(connection, by, "invite", f"{person}: {role}", now)
    return token


def enter(store: Store, token: str) -> str:
    """Uses up an invite; the token of a new session. Raises Failed (no_invite)."""
    now, session, its = store.clock(), secrets.token_urlsafe(32), invites.c.token == _hashed(token)
    with store.writing() as connection:
        fresh = its & invites.c.used.is_(None) & (invites.c.until >= now)
        if connection.execute(update(invites).where(fresh).values(used=now)).rowcount == 0:
            raise _no_invite(connection.execute(select(invites).where(its)).first())
        person = connection.scalar(select(invites.c.person).where(its))
        row = {"token": _hashed(session), "person": person, "began": now, "seen": now}
        connection.execute(insert(sessions).values(row))
        audit(connection, str(person), "enter", "", now)
    return session


def who(store: Store, session_token: str) -> Person | None:
    """Whose session this is; None: nobody's, or it is over."""
    now, its = store.clock(), sessions.c.token == _hashed(session_token)
    query = select(tables.people, sessions.c.seen).join(sessions).where(its)
    live = (
        sessions.c.ended.is_(None)
        & (sessions.c.seen >= now - IDLE)
        & (sessions.c.began >= now - ABSOLUTE)
    )
    with store.reading() as connection:
        row = connection.execute(query.where(live, tables.people.c.gone.is_(None))).first()
    if row is None:
        return None
    if now - row.seen >= SEEN_EACH:
        with store.writing() as connection:
            connection.execute(update(sessions).where(its).values(seen=now))
    return Person(*row[:-1])


def leave(store: Store, session_token: str) -> None:
    """Ends a session."""
    its = (sessions.c.token == _hashed(session_token)) & sessions.c.ended.is_(None)
    with store.writing() as connection:
        connection.execute(update(sessions).where(its).values(ended=store.clock()))


def audit(connection: Connection, person: str, action: str, what: str, at: float) -> None:
    """Writes down who did what, in the transaction that does it, as the last thing there."""
    alone(connection, "audits")
    newest = connection.execute(
        select(audit_book.c.number, audit_book.c.chain)
        .order_by(audit_book.c.number.desc())
        .limit(1)
    ).first()
    number, before = (newest.number + 1, newest.chain) if newest else (0, NOTHING)
    line = Audit(number, person, action, what, at)
    row = {**line._asdict(), "chain": link(before, *line)}
    connection.execute(insert(audit_book).values(row))


def audits(store: Store, since: float = 0.0) -> list[Audit]:
    """What was done from this time on, in order."""
    query = select(audit_book).where(audit_book.c.at >= since).order_by(audit_book.c.number)
    with store.reading() as connection:
        return [Audit(*row[:-1]) for row in connection.execute(query)]


def audits_whole(store: Store) -> bool:
    """Whether no line was changed, moved, or taken out before another."""
    before = NOTHING
    with store.reading() as connection:
        rows = connection.execute(select(audit_book).order_by(audit_book.c.number))
        for number, row in enumerate(rows):
            if row.number != number or row.chain != link(before, *row[:-1]):
                return False
            before = row.chain
    return True


def _person(connection: Connection, name: str) -> str | None:
    found: str | None = connection.scalar(
        select(tables.people.c.name).where(tables.people.c.name == name)
    )
    return found


def _check(name: str) -> None:
    if not name.strip() or name != name.strip() or not name.isprintable():
        detail = "give a name without space around it, in letters that show"
        raise Failed(Failure(name, "bad_name", detail))
    if len(name) > LONGEST_NAME:
        detail = f"give a name of at most {LONGEST_NAME} characters"
        raise Failed(Failure(name, "bad_name", detail))


def _make(connection: Connection, name: str, role: Role, now: float) -> Person:
    person = Person(name, role, now, None)
    connection.execute(insert(tables.people).values(person._asdict()))
    return person


def _change(connection: Connection, name: str, **values: object) -> None:
    person = tables.people.c.name == name
    if connection.execute(update(tables.people).where(person).values(**values)).rowcount == 0:
        raise Failed(Failure(name, "no_person", "nobody has this name: look at who there is"))


def _no_invite(found: Row[tuple[str, str, float, float | None]] | None) -> Failed:
    if found is None:
        detail = "no such invite was made: copy the whole link, or ask for another"
    elif found.used is not None:
        detail = "it was used before, and each lets one person in once: ask for another"
    else:
        detail = "it is too old: ask for another"
    return Failed(Failure("the invite", "no_invite", detail))


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()

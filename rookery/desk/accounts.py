"""Accounts of people: invitations, sessions, roles, and the audit log.

Only the SHA-256 of a token is stored, so that reading the store lets nobody in.
"""

import hashlib
import secrets
from typing import Literal, NamedTuple, get_args

from sqlalchemy import Connection, bindparam, insert, select, update

from rookery.desk import tables
from rookery.desk.store import CHAIN_START, Store, compute_chain_link, take_advisory_lock
from rookery.desk.tables import audits as audit_book
from rookery.desk.tables import invites, sessions
from rookery.errors import Failed, Outcome
from rookery.records import Failure

DAY_SECONDS = 86_400.0
SESSION_IDLE_SECONDS = 7 * DAY_SECONDS
"""seconds without a request after which a session ends"""
SESSION_MAX_SECONDS = 30 * DAY_SECONDS
"""seconds after which a session ends in any case"""
SEEN_INTERVAL = 60.0
"""minimum seconds between two updates of a session's last use"""
MAX_NAME_CHARACTERS = 80
_USED = "this link was used before, and each lets one browser in once: ask for another"
PersonRole = Literal["reader", "labeller", "reviewer", "researcher", "admin"]
"""what a person may do; each role may do all that the earlier ones may. A reader asks, reads and
rates"""
ROLES: tuple[PersonRole, ...] = get_args(PersonRole)


class Person(NamedTuple):
    """A person with an account."""

    name: str
    role: PersonRole
    made: float
    gone: float | None
    """time at which access was ended, seconds since 1970; their work stays. None: not ended"""
    project: str | None = None
    """project by whose crowd link they came, to work for it alone; None: they were invited"""


class AuditEntry(NamedTuple):
    """One line of the audit log."""

    number: int
    person: str
    """person who did it"""
    action: str
    what: str
    """object of the action"""
    at: float


def has_role(person: Person, role: PersonRole) -> bool:
    """Return True if the person's account is active and its role is `role` or higher.

    People who came by a project's crowd link have no role: they see what is made for them alone.
    """
    return (
        person.gone is None
        and person.project is None
        and ROLES.index(person.role) >= ROLES.index(role)
    )


def add_person(store: Store, name: str, role: PersonRole) -> Person:
    """Create a person, who needs an invitation to sign in.

    Raises Failed: bad_name (empty, too long, or not printable), already (the name is taken).
    """
    _check_name(name)
    with store.begin_write() as connection:
        if _find_person_name(connection, name) is not None:
            raise Failed(Failure(name, Outcome.ALREADY, "somebody has this name: choose another"))
        return _insert_person(connection, name, role, store.clock())


def list_people(store: Store) -> list[Person]:
    """Return every person, also those without access, by name."""
    with store.begin_read() as connection:
        rows = connection.execute(select(tables.people).order_by(tables.people.c.name))
        return [Person(*row) for row in rows]


def set_role(store: Store, name: str, role: PersonRole, by: str) -> None:
    """Change a person's role, and enter it in the audit log as done `by` another person.

    Raises Failed (no_person).
    """
    with store.begin_write() as connection:
        _update_person(connection, name, role=role)
        write_audit_entry(connection, by, "role", f"{name}: {role}", store.clock())


def shut_out_person(store: Store, name: str, by: str) -> None:
    """End a person's access, and their sessions and unused invitations; their work stays.

    `create_invite` restores access. `by` is the person who does it, for the audit log. Raises
    Failed (no_person).
    """
    now = store.clock()
    with store.begin_write() as connection:
        _update_person(connection, name, gone=now)
        open_ones = (sessions.c.person == name) & sessions.c.ended.is_(None)
        connection.execute(update(sessions).where(open_ones).values(ended=now))
        unused = (invites.c.person == name) & invites.c.used.is_(None)
        connection.execute(update(invites).where(unused).values(used=now))
        write_audit_entry(connection, by, "shut out", name, now)


def create_invite(store: Store, person: str, role: PersonRole, by: str, days: float = 7) -> str:
    """Create an invitation, and return its token, which lets a person sign in once within `days`.

    Creates the person if needed; otherwise sets the role and restores access. `by` is the person
    who invites. Raises Failed (bad_name).
    """
    _check_name(person)
    token, now = secrets.token_urlsafe(32), store.clock()
    with store.begin_write() as connection:
        if _find_person_name(connection, person) is None:
            _insert_person(connection, person, role, now)
        else:
            _update_person(connection, person, role=role, gone=None, project=None)
        row = {"token": _hash_token(token), "person": person, "until": now + days * DAY_SECONDS}
        connection.execute(insert(invites).values(row))
        write_audit_entry(connection, by, "invite", f"{person}: {role}", now)
    return token


def find_invited_person(store: Store, token: str) -> Person:
    """Return whom an invitation is for.

    Raises Failed (no_invite) if the invitation is unknown, was used or has expired.
    """
    whose = select(tables.people, invites.c.until, invites.c.used).join(invites)
    with store.begin_read() as connection:
        row = connection.execute(whose.where(invites.c.token == _hash_token(token))).first()
    if row is None:
        raise make_link_error("no such link was made: copy the whole link, or ask for another")
    if row.used is not None:
        raise make_link_error(_USED)
    if row.until < store.clock():
        raise make_link_error("this link is too old: ask for another")
    return Person(*row[:-2])


def is_only_person(store: Store, person: Person) -> bool:
    """Return whether a person is the admin, and nobody else has access."""
    others = (tables.people.c.gone.is_(None)) & (tables.people.c.name != person.name)
    with store.begin_read() as connection:
        nobody = connection.execute(select(tables.people.c.name).where(others)).first() is None
    return nobody and person.role == "admin"


def redeem_invite(store: Store, token: str) -> str:
    """Use up an invitation, begin a session of its person, and return the session's token.

    Raises Failed (no_invite) if the invitation is unknown, was used or has expired.
    """
    person, now = find_invited_person(store, token).name, store.clock()
    with store.begin_write() as connection:
        unused = (invites.c.token == _hash_token(token)) & invites.c.used.is_(None)
        if connection.execute(update(invites).where(unused).values(used=now)).rowcount == 0:
            raise make_link_error(_USED)  # by somebody else, a moment ago
        session = open_session(connection, person, now)
        write_audit_entry(connection, person, "enter", "", now)
    return session


def open_session(connection: Connection, person: str, now: float) -> str:
    """Begin a session of a person who was let in, and return its token.

    Needs a writing transaction. The person is not checked.
    """
    session = secrets.token_urlsafe(32)
    row = {"token": _hash_token(session), "person": person, "began": now, "seen": now}
    connection.execute(insert(sessions).values(row))
    return session


_SESSION_PERSON = (
    select(tables.people, sessions.c.seen)
    .join(sessions)
    .where(
        sessions.c.token == bindparam("token"),
        sessions.c.ended.is_(None),
        sessions.c.seen >= bindparam("seen"),
        sessions.c.began >= bindparam("began"),
        tables.people.c.gone.is_(None),
    )
)
"""asked with every request, and so built once"""


def find_session_person(store: Store, session_token: str) -> Person | None:
    """Return the person of a session and note its use; None if there is none or it is over.

    A session is over once it was ended, after 7 days without use, 30 days after it began, and when
    the person was shut out.
    """
    now, token = store.clock(), _hash_token(session_token)
    since = {"seen": now - SESSION_IDLE_SECONDS, "began": now - SESSION_MAX_SECONDS}
    with store.begin_read() as connection:
        row = connection.execute(_SESSION_PERSON, {"token": token, **since}).first()
    if row is None:
        return None
    if now - row.seen >= SEEN_INTERVAL:
        with store.begin_write() as connection:
            matching = sessions.c.token == token
            connection.execute(update(sessions).where(matching).values(seen=now))
    return Person(*row[:-1])


def end_session(store: Store, session_token: str) -> None:
    """End the session with this token; an unknown or ended one is ignored."""
    its = (sessions.c.token == _hash_token(session_token)) & sessions.c.ended.is_(None)
    with store.begin_write() as connection:
        connection.execute(update(sessions).where(its).values(ended=store.clock()))


def write_audit_entry(
    connection: Connection, person: str, action: str, what: str, at: float
) -> None:
    """Append an entry to the audit log, with a digest that chains it to the entry before.

    `at` is in seconds since 1970. Call it in the transaction of the action itself, as its last
    statement.
    """
    take_advisory_lock(connection, "audits")
    newest = connection.execute(
        select(audit_book.c.number, audit_book.c.chain)
        .order_by(audit_book.c.number.desc())
        .limit(1)
    ).first()
    number, before = (newest.number + 1, newest.chain) if newest else (0, CHAIN_START)
    line = AuditEntry(number, person, action, what, at)
    row = {**line._asdict(), "chain": compute_chain_link(before, *line)}
    connection.execute(insert(audit_book).values(row))


def list_audit_entries(store: Store, since: float = 0.0) -> list[AuditEntry]:
    """Return the audit log's entries from the time `since` (seconds since 1970) on, in order."""
    query = select(audit_book).where(audit_book.c.at >= since).order_by(audit_book.c.number)
    with store.begin_read() as connection:
        return [AuditEntry(*row[:-1]) for row in connection.execute(query)]


def verify_audit_chain(store: Store) -> bool:
    """Return True if no line of the audit log was changed, moved, or removed before another one."""
    before = CHAIN_START
    with store.begin_read() as connection:
        rows = connection.execute(select(audit_book).order_by(audit_book.c.number))
        for number, row in enumerate(rows):
            if row.number != number or row.chain != compute_chain_link(before, *row[:-1]):
                return False
            before = row.chain
    return True


def _find_person_name(connection: Connection, name: str) -> str | None:
    found: str | None = connection.scalar(
        select(tables.people.c.name).where(tables.people.c.name == name)
    )
    return found


def _check_name(name: str) -> None:
    if not name.strip() or name != name.strip() or not name.isprintable():
        detail = "give a name without space around it, in letters that show"
        raise Failed(Failure(name, Outcome.BAD_NAME, detail))
    if len(name) > MAX_NAME_CHARACTERS:
        detail = f"give a name of at most {MAX_NAME_CHARACTERS} characters"
        raise Failed(Failure(name, Outcome.BAD_NAME, detail))


def _insert_person(connection: Connection, name: str, role: PersonRole, now: float) -> Person:
    person = Person(name, role, now, None)
    connection.execute(insert(tables.people).values(person._asdict()))
    return person


def _update_person(connection: Connection, name: str, **values: object) -> None:
    person = tables.people.c.name == name
    if connection.execute(update(tables.people).where(person).values(**values)).rowcount == 0:
        raise Failed(Failure(name, Outcome.NO_PERSON, "nobody has this name: look at who there is"))


def make_link_error(detail: str) -> Failed:
    """Return the error (no_invite) of a link that lets nobody in."""
    return Failed(Failure("the link", Outcome.NO_INVITE, detail))


def _hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()

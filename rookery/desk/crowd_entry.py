"""Entry from crowd platforms by a signed link, and completion codes.

A link is for one project, ends at a time, and may be for one study of the platform; an HMAC-SHA256
with the project's secret key covers these. The platform adds who comes, by Prolific's parameters
PROLIFIC_PID, STUDY_ID and SESSION_ID. These cannot be signed, since the platform fills them in: a
code counts only for a session that the platform lists, too.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from sqlalchemy import Connection, Row, insert, select, update

from rookery.desk.accounts import DAY_SECONDS, make_link_error, open_session, write_audit_entry
from rookery.desk.adjudication import load_exclusions, select_active_exclusions
from rookery.desk.projects import (
    count_session_items,
    count_session_work,
    find_current_session,
    find_project,
)
from rookery.desk.store import Store, take_advisory_lock
from rookery.desk.tables import crowd_entries, items, people, project_batches, projects, slots
from rookery.errors import Failed, Outcome
from rookery.records import Failure, Record

CROWD_PREFIX = "/enter/crowd/"
"""path of the links, before the project's name"""
PLATFORM_PARAMETERS = {
    "PROLIFIC_PID": "{{%PROLIFIC_PID%}}",
    "STUDY_ID": "{{%STUDY_ID%}}",
    "SESSION_ID": "{{%SESSION_ID%}}",
}
"""parameters of Prolific, and what it replaces in a link"""
MAX_LINK_DAYS = 365
"""most days for which a link works"""
COMPLETION_ADDRESS = "https://app.prolific.com/submissions/complete?cc="
"""address at which Prolific takes a completion code"""
_PLATFORM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CODE_CHARACTERS = 10


class CrowdArrival(NamedTuple):
    """A person who comes from a crowd platform by a link that was checked."""

    project: str
    participant: str
    study: str
    session: str

    @property
    def person(self) -> str:
        """Name of their account, which is made when they first enter."""
        return f"prolific-{self.participant}"


class CrowdSession(Record, frozen=True):
    """A session of a person who came from a crowd platform."""

    participant: str
    study: str
    session: str
    began: float
    ended: float | None
    """when the completion code was asked for; None: not yet"""
    items: int
    """items judged, skipped or flagged in the session, until their next one in the project"""
    code: str
    """completion code of the session, shown to them once they are done"""


class SessionProgress(NamedTuple):
    """Progress of a person in their current session."""

    project: str
    done: int
    of: int
    """items that they are asked to do; 0: as many as there are"""
    finished: bool
    """True if the completion code was asked for"""
    code: str
    """completion code; empty before they are finished"""


def make_crowd_link(store: Store, project: str, days: float, study: str, by: str) -> str:
    """Return the path and query of a link that lets people of a platform in for some days.

    With `study`, only those of this study. Raises Failed: no_project, bad_study, bad_days (none, or
    more than MAX_LINK_DAYS).
    """
    if not 0 < days <= MAX_LINK_DAYS:
        detail = f"give a number of days from 1 to {MAX_LINK_DAYS}"
        raise Failed(Failure(f"{days:g}", Outcome.BAD_DAYS, detail))
    if study and not _PLATFORM_ID.fullmatch(study):
        detail = "a study's id has letters, digits, - and _ only: copy it from the platform"
        raise Failed(Failure(study, Outcome.BAD_STUDY, detail))
    now = store.clock()
    with store.begin_write() as connection:
        find_project(connection, project)
        until = int(now + days * DAY_SECONDS)
        signed = _sign_parts(_load_key(connection, project), "link", project, str(until), study)
        what = f"{project}: {f'study {study}, ' if study else ''}{days:g} days"
        write_audit_entry(connection, by, "crowd link", what, now)
    query = urlencode({"until": until, "study": study, "sign": signed})
    # Not encoded: the platform looks for these marks as they are.
    filled = "&".join(f"{name}={mark}" for name, mark in PLATFORM_PARAMETERS.items())
    return f"{CROWD_PREFIX}{quote(project, safe='')}?{query}&{filled}"


def check_crowd_link(store: Store, project: str, query: Mapping[str, str]) -> CrowdArrival:
    """Return who comes by a link, after checking its signature, its end and its parameters.

    Raises Failed (no_invite) with the reason.
    """
    until, study, signed = (query.get(name, "") for name in ("until", "study", "sign"))
    with store.begin_read() as connection:
        key = connection.scalar(select(projects.c.key).where(projects.c.name == project))
    good = key is not None and hmac.compare_digest(
        _sign_parts(key, "link", project, until, study).encode(), signed.encode()
    )
    if not good:
        raise make_link_error("the link was changed or is not whole: open it from the study again")
    if float(until) < store.clock():
        raise make_link_error("the link has ended: return the study on the platform")
    identity = [query.get(name, "") for name in PLATFORM_PARAMETERS]
    if not all(_PLATFORM_ID.fullmatch(each) for each in identity):
        names = ", ".join(PLATFORM_PARAMETERS)
        missing = f"the platform did not say who comes ({names})"
        raise make_link_error(f"{missing}: open it from the study again")
    if study and identity[1] != study:
        raise make_link_error("the link is for another study: open it from the study again")
    return CrowdArrival(project, *identity)


def enter_by_crowd_link(store: Store, arrival: CrowdArrival) -> str:
    """Begin a session of the person who comes, and return the session's token.

    Somebody who comes for the first time gets an account that works for the project alone; who
    comes again with the same session goes on with it. Items of another project that they hold are
    given back. Raises Failed (no_invite) if the account was shut out.
    """
    now, name = store.clock(), arrival.person
    with store.begin_write() as connection:
        take_advisory_lock(connection, f"person {name}")
        account = connection.execute(select(people).where(people.c.name == name)).first()
        if account is None:
            row = {"name": name, "role": "labeller", "made": now, "project": arrival.project}
            connection.execute(insert(people).values(row))
        elif account.gone is not None or account.project is None:
            raise make_link_error("this account was closed: return the study on the platform")
        else:
            by_name = people.c.name == name
            connection.execute(update(people).where(by_name).values(project=arrival.project))
            _release_other_items(connection, name, arrival.project)
        same_entry = (crowd_entries.c.project == arrival.project) & (
            crowd_entries.c.session == arrival.session
        )
        before = connection.execute(select(crowd_entries).where(same_entry)).first()
        if before is not None and before.person != name:
            detail = "somebody else came with this session: open it from the study again"
            raise make_link_error(detail)
        if before is None:
            row = {"project": arrival.project, "session": arrival.session, "person": name}
            row |= {"participant": arrival.participant, "study": arrival.study, "began": now}
            connection.execute(insert(crowd_entries).values(row))
        token = open_session(connection, name, now)
        write_audit_entry(connection, name, "enter", f"{arrival.project} {arrival.session}", now)
    return token


def load_session_progress(store: Store, person: str) -> SessionProgress | None:
    """Return how far a person is in their current session; None: they did not come by a link."""
    with store.begin_read() as connection:
        entry = find_current_session(connection, person)
        if entry is None:
            return None
        project = find_project(connection, entry.project)
        finished = count_session_work(connection, entry)
        code = "" if entry.ended is None else _make_code(connection, entry)
    of = project.settings.session_items
    return SessionProgress(project.name, finished, of, entry.ended is not None, code)


def finish_crowd_session(store: Store, person: str, waiting: bool) -> str:
    """End a person's current session and return its completion code; the same one when repeated.

    `waiting` says that there are items that the person could still get. Raises Failed: not_allowed
    (items of the session are left to do, nothing was done, or the work was excluded).
    """
    now = store.clock()
    with store.begin_write() as connection:
        entry = find_current_session(connection, person)
        if entry is None:
            raise Failed(Failure(person, Outcome.NOT_ALLOWED, "codes are for people of a platform"))
        rows = select_active_exclusions(load_exclusions(connection, person))
        project_streams = {"", *_list_batch_names(connection, entry.project)}
        reasons = [
            row.reason for row in rows if row.what == "person" and row.batch in project_streams
        ]
        if reasons:
            detail = f"there is no code, because of this: {reasons[0]}. Write to us on the platform"
            raise Failed(Failure(person, Outcome.NOT_ALLOWED, detail))
        finished = count_session_work(connection, entry)
        remaining = count_session_items(connection, person)
        if entry.ended is None:
            if finished == 0 or (waiting and remaining != 0):
                detail = "there is still something to do: the code comes after the last task"
                raise Failed(Failure(person, Outcome.NOT_ALLOWED, detail))
            same_entry = (crowd_entries.c.project == entry.project) & (
                crowd_entries.c.session == entry.session
            )
            connection.execute(update(crowd_entries).where(same_entry).values(ended=now))
            write_audit_entry(connection, person, "finish", f"{entry.project} {entry.session}", now)
        return _make_code(connection, entry)


def list_crowd_sessions(store: Store, project: str) -> list[CrowdSession]:
    """Return the sessions of a project, in order of arrival. Raises Failed (no_project)."""
    query = select(crowd_entries).where(crowd_entries.c.project == project)
    with store.begin_read() as connection:
        find_project(connection, project)
        rows = connection.execute(query.order_by(crowd_entries.c.began)).all()
        later: dict[str, float] = {}
        crowd_sessions = []
        for row in reversed(rows):
            count = count_session_work(connection, row, later.get(row.person))
            later[row.person] = row.began
            fields = (row.participant, row.study, row.session, row.began, row.ended)
            crowd_sessions.append(CrowdSession(*fields, count, _make_code(connection, row)))
    return crowd_sessions[::-1]


def _release_other_items(connection: Connection, person: str, project: str) -> None:
    """Give back the items of other projects that a person holds: they are not for this session."""
    batches = select(project_batches.c.batch).where(project_batches.c.project == project)
    its = select(items.c.id).where(items.c.batch.in_(batches))
    held = (slots.c.person == person) & ~slots.c.done & slots.c.item.not_in(its)
    connection.execute(update(slots).where(held).values(person=None, token=None))


def _list_batch_names(connection: Connection, project: str) -> list[str]:
    its = project_batches.c.project == project
    return list(connection.scalars(select(project_batches.c.batch).where(its)))


def _make_code(connection: Connection, entry: Row[tuple[object, ...]]) -> str:
    code = find_project(connection, entry.project).settings.completion_code
    if code:
        return code
    key = _load_key(connection, entry.project)
    return _sign_parts(key, "code", entry.participant, entry.session)[:_CODE_CHARACTERS].upper()


def _load_key(connection: Connection, project: str) -> str:
    return str(connection.scalar(select(projects.c.key).where(projects.c.name == project)))


def _sign_parts(key: str, *parts: str) -> str:
    """Return the HMAC-SHA256 (hex) of some texts."""
    return hmac.new(key.encode(), msgspec.json.encode(parts), hashlib.sha256).hexdigest()

"""Projects: the settings of a labelling campaign, its batches, its trial, and who is admitted.

A batch belongs to at most one project. Where a project has trial batches, people get nothing else
of it until somebody admits them; researchers need no trial. A batch may be for named people only.
"""

import re
import secrets
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec
from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from rookery.desk.accounts import ROLES, write_audit_entry
from rookery.desk.store import Store, take_advisory_lock
from rookery.desk.tables import (
    admissions,
    batch_people,
    crowd_entries,
    items,
    judgements,
    people,
    project_batches,
    projects,
)
from rookery.errors import Failed, Outcome
from rookery.records import Failure, Record, describe_json_error, prepare_type
from rookery.typed_files import require_regular_file

PASS_SHARE = 0.75
"""share of an attention check that must be right (GopherCite, appendix C.1: 3 of 4)"""
MAX_PROJECT_NAME = 80
"""characters of a project's name"""


class ProjectSettings(Record, frozen=True):
    """Settings of a labelling project."""

    rate: float = 0.0
    """pay for one hour or one item; 0: nothing is paid"""
    per: Literal["hour", "item"] = "hour"
    """unit of the rate. WebGPT paid by the hour (appendix C)"""
    currency: str = "USD"
    pay_excluded: bool = True
    """True: work that does not count is paid, too"""
    idle_minutes: float = 10.0
    """minutes without an action beyond which no time is counted"""
    pass_share: float = PASS_SHARE
    """share of an attention check that must be right"""
    feedback_days: float = 7.0
    """days after which a judgement counts in what its rater sees of their agreement with others"""
    session_items: int = 0
    """items for each person who comes by a crowd link; 0: as many as there are"""
    completion_code: str = ""
    """code that the crowd platform expects; empty: each session gets a code of its own"""

    def __post_init__(self) -> None:
        least = (self.rate, self.idle_minutes, self.feedback_days, self.session_items)
        if not all(0 <= each < float("inf") for each in least) or not 0 <= self.pass_share <= 1:
            raise ValueError("use a number of at least 0, and for pass_share one from 0 to 1")
        if not (self.currency.strip() and (self.currency + self.completion_code).isprintable()):
            raise ValueError("write currency and completion_code in letters that show")


class Project(NamedTuple):
    """A labelling project."""

    name: str
    settings: ProjectSettings
    made: float


class ProjectBatch(NamedTuple):
    """A batch of a project."""

    name: str
    trial: bool
    """True: it comes before the other batches, for people who are not admitted yet"""
    people: tuple[str, ...]
    """names of the only people who get its items; empty: everybody"""


class Admission(NamedTuple):
    """A decision that a person works on a project, or does not."""

    person: str
    admitted: bool
    reason: str
    by: str
    at: float


class TrialResult(NamedTuple):
    """One person in a project's trial."""

    person: str
    done: int
    """items of the trial that the person judged, skipped or flagged"""
    of: int
    """items of the trial"""
    decided: Admission | None
    """the newest decision; None: nobody has decided yet"""


def save_project(store: Store, name: str, settings: ProjectSettings, by: str) -> Project:
    """Create a project, or change its settings, and return it.

    Raises Failed (bad_name) for a name that is blank, longer than 80 characters or not printable.
    """
    if not name.strip() or not name.isprintable() or len(name) > MAX_PROJECT_NAME:
        detail = f"name the project in 1 to {MAX_PROJECT_NAME} letters that show"
        raise Failed(Failure(name, Outcome.BAD_NAME, detail))
    now, body = store.clock(), settings.to_json()
    with store.begin_write() as connection:
        take_advisory_lock(connection, "projects")
        by_name = projects.c.name == name
        before = connection.scalar(select(projects.c.body).where(by_name))
        if connection.execute(update(projects).where(by_name).values(body=body)).rowcount == 0:
            row = {"name": name, "body": body, "key": secrets.token_hex(32), "made": now}
            connection.execute(insert(projects).values(row))
        previous = ProjectSettings.from_json(before) if before else ProjectSettings()
        values, earlier = map(msgspec.to_builtins, (settings, previous))
        changed = sorted(values.items() - earlier.items())
        what = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in changed)
        write_audit_entry(connection, by, "project", f"{name}: {what}" if what else name, now)
        return find_project(connection, name)


def load_project(store: Store, name: str) -> Project:
    """Load a project. Raises Failed (no_project)."""
    with store.begin_read() as connection:
        return find_project(connection, name)


def find_project(connection: Connection, name: str) -> Project:
    """Return the project of this name. Raises Failed (no_project)."""
    row = connection.execute(select(projects).where(projects.c.name == name)).first()
    if row is None:
        detail = "there is no such project: rookery judge project NAME makes one"
        raise Failed(Failure(name, Outcome.NO_PROJECT, detail))
    return Project(row.name, ProjectSettings.from_json(row.body), row.made)


def list_projects(store: Store) -> list[Project]:
    """Return all projects, by name."""
    with store.begin_read() as connection:
        rows = connection.execute(select(projects).order_by(projects.c.name)).all()
    return [Project(row.name, ProjectSettings.from_json(row.body), row.made) for row in rows]


def read_project_settings(path: Path, before: ProjectSettings) -> ProjectSettings:
    """Read settings from a TOML file; those that it leaves out stay as they were `before`.

    Raises Failed: not_found, bad_settings.
    """
    try:
        read = tomllib.loads(require_regular_file(path).read_text(encoding="utf-8"))
        return parse_project_settings(read, before)
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): check the path"
        raise Failed(Failure(str(path), Outcome.NOT_FOUND, detail)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        detail = f"this is no TOML: {error}"
        raise Failed(Failure(str(path), Outcome.BAD_SETTINGS, detail)) from error


def parse_project_settings(
    changes: Mapping[str, object], before: ProjectSettings, strict: bool = True
) -> ProjectSettings:
    """Return the settings with those of `changes` in place of the ones `before`.

    Without `strict`, numbers may be texts. Raises Failed (bad_settings).
    """
    try:
        whole = {**msgspec.to_builtins(before), **changes}
        return msgspec.convert(whole, prepare_type(ProjectSettings), strict=strict)
    except (msgspec.ValidationError, ValueError) as error:
        detail = _explain_settings_error(error)
        raise Failed(Failure("the project's settings", Outcome.BAD_SETTINGS, detail)) from error


_WANTED_TYPES: dict[object, str] = {
    float: "give a number",
    int: "give a whole number",
    bool: "give true or false",
    str: "give text in quotes",
}


def _explain_settings_error(error: Exception) -> str:
    """Return an error of msgspec about settings as a sentence for whoever wrote them."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(ProjectSettings)}
    if placed := re.search(r" - at `\$\.(\w+)`$", str(error)):
        kind = kinds[placed[1]]
        wanted = _WANTED_TYPES.get(kind) or f"give one of {', '.join(get_args(kind))}"
        return f"{placed[1]}: {wanted}"
    names = f"; the settings are {', '.join(kinds)}" if "unknown field" in str(error) else ""
    return describe_json_error(error) + names


def place_batch(
    store: Store, batch: str, project: str, by: str, trial: bool = False, named: Sequence[str] = ()
) -> None:
    """Make a batch part of a project, or of none (empty), for everybody or for the `named` people.

    This replaces the project, trial and people that it had. The batch may be one of which there are
    no items yet: place it before they are imported, so that nobody else gets any. Raises Failed:
    no_project, no_person, bad_trial (a trial of no project), bad_name (a blank batch).
    """
    if not batch.strip():
        raise Failed(Failure(batch, Outcome.BAD_NAME, "name the batch"))
    if trial and not project:
        detail = "a trial is part of a project: name the project"
        raise Failed(Failure(batch, Outcome.BAD_TRIAL, detail))
    with store.begin_write() as connection:
        take_advisory_lock(connection, "projects")
        for person in named:
            _check_person(connection, person)
        connection.execute(delete(project_batches).where(project_batches.c.batch == batch))
        connection.execute(delete(batch_people).where(batch_people.c.batch == batch))
        if project:
            row = {"batch": batch, "project": find_project(connection, project).name}
            connection.execute(insert(project_batches).values(**row, trial=trial))
        if named:
            rows = [{"batch": batch, "person": person} for person in dict.fromkeys(named)]
            connection.execute(insert(batch_people), rows)
        what = f"{batch}: {project or 'no project'}{', trial' * trial}"
        what += f", for {', '.join(named)}" if named else ""
        write_audit_entry(connection, by, "batch", what, store.clock())


def place_imported_batch(
    store: Store, batch: str, project: str, by: str, trial: bool = False, named: Sequence[str] = ()
) -> None:
    """Place a batch as `place_batch` does, but keep what is not said of one that has its place.

    Without a `project` it stays in its own, in which a trial stays one; without `named` people it
    stays for those that it is for. Raises Failed as `place_batch` does.
    """
    with store.begin_read() as connection:
        placement = select(project_batches).where(project_batches.c.batch == batch)
        before = connection.execute(placement).first()
        named_people = select(batch_people.c.person).where(batch_people.c.batch == batch)
        people_before = connection.scalars(named_people.order_by(batch_people.c.person)).all()
    if before is not None and project in ("", before.project):
        project, trial = before.project, trial or before.trial
    place_batch(store, batch, project, by, trial, named or people_before)


def list_project_batches(store: Store, project: str) -> list[ProjectBatch]:
    """Return the batches of a project by name, trials first; with "", those of no project.

    Batches of no project are those that have items or are for named people.
    """
    with store.begin_read() as connection:
        placed = {row.batch: row for row in connection.execute(select(project_batches))}
        named: dict[str, list[str]] = {}
        for row in connection.execute(select(batch_people).order_by(batch_people.c.person)):
            named.setdefault(row.batch, []).append(row.person)
        batch_names = set(connection.scalars(select(items.c.batch).distinct()))
    batches = [
        ProjectBatch(name, name in placed and placed[name].trial, tuple(named.get(name, ())))
        for name in batch_names | placed.keys() | named.keys()
        if (placed[name].project if name in placed else "") == project
    ]
    return sorted(batches, key=lambda each: (not each.trial, each.name))


def decide_admission(
    store: Store, project: str, person: str, admitted: bool, reason: str, by: str
) -> None:
    """Admit a person to a project, or refuse; the newest decision holds, and all are kept.

    Who was refused gets nothing more of the project, of its trial neither. Raises Failed:
    no_reason (a refusal without one), no_project, no_person.
    """
    if not admitted and not reason.strip():
        raise Failed(Failure(person, Outcome.NO_REASON, "say why: others will ask"))
    now = store.clock()
    with store.begin_write() as connection:
        find_project(connection, project)
        _check_person(connection, person)
        row = {"project": project, "person": person, "admitted": admitted, "by": by, "at": now}
        connection.execute(insert(admissions).values(**row, reason=reason.strip()))
        action = "admit" if admitted else "refuse"
        write_audit_entry(connection, by, action, f"{person} to {project}: {reason.strip()}", now)


def list_trial_results(store: Store, project: str) -> list[TrialResult]:
    """Return everybody who began the trial of a project or was decided on, by name.

    Researchers are there only if they were decided on. Empty if there is no such project.
    """
    with store.begin_read() as connection:
        return _find_trial_results(connection, project)


def list_person_trials(store: Store, person: str) -> dict[str, TrialResult]:
    """Return how a person stands in each project whose trial they began or that decided on them."""
    with store.begin_read() as connection:
        names = connection.scalars(select(projects.c.name).order_by(projects.c.name)).all()
        found = {name: _find_trial_results(connection, name, person) for name in names}
    return {name: results[0] for name, results in found.items() if results}


def _find_trial_results(
    connection: Connection, project: str, person: str | None = None
) -> list[TrialResult]:
    """Return the results of everybody, or of one person."""
    trials = select(project_batches.c.batch).where(
        project_batches.c.project == project, project_batches.c.trial
    )
    whole = select(items.c.id).where(items.c.batch.in_(trials))
    query = select(judgements.c.person, judgements.c.item).where(judgements.c.item.in_(whole))
    decided = select(admissions).where(admissions.c.project == project)
    researchers = select(people.c.name).where(people.c.role.in_(ROLES[ROLES.index("researcher") :]))
    query = query.where(judgements.c.person.not_in(researchers))
    if person is not None:
        query = query.where(judgements.c.person == person)
        decided = decided.where(admissions.c.person == person)
    trial_items = set(connection.scalars(whole.where(items.c.retired.is_(None))))
    finished: dict[str, set[str]] = {}
    for name, item in connection.execute(query):
        finished.setdefault(name, set()).add(item)
    newest = {
        row.person: Admission(row.person, row.admitted, row.reason, row.by, row.at)
        for row in connection.execute(decided.order_by(admissions.c.number))
    }
    return [
        TrialResult(
            name, len(finished.get(name, set()) & trial_items), len(trial_items), newest.get(name)
        )
        for name in sorted(finished.keys() | newest.keys())
    ]


class BatchAccess(NamedTuple):
    """Batches of which a person gets items, by the rules of projects."""

    barred: frozenset[str]
    """batches for other people, behind a trial, or of a project that refused the person"""
    only: frozenset[str] | None
    """the only batches for a person who came by a crowd link; None: every other batch"""


_ACCOUNT = select(
    people.c.role,
    people.c.project,
    select(project_batches.c.batch).exists().label("placed"),
    select(batch_people.c.batch).exists().label("named"),
).where(people.c.name == bindparam("asker"))


def find_batch_access(connection: Connection, person: str) -> BatchAccess:
    """Return the batches of which a person gets no items, and those to which they are limited.

    Exclusions are not considered.
    """
    # Asked with every item that is handed out: one statement where no project has rules.
    account = connection.execute(_ACCOUNT, {"asker": person}).first()
    barred: set[str] = set()
    if account is not None and account.named:
        named_batches = select(batch_people.c.batch).where(batch_people.c.person == person)
        others = select(batch_people.c.batch).where(batch_people.c.batch.not_in(named_batches))
        barred.update(connection.scalars(others))
    if account is None or ROLES.index(account.role) >= ROLES.index("researcher"):
        return BatchAccess(frozenset(barred), None)
    placed = connection.execute(select(project_batches)).all() if account.placed else []
    decided = select(admissions.c.project, admissions.c.admitted)
    decided = decided.where(admissions.c.person == person).order_by(admissions.c.number)
    newest = {row.project: row.admitted for row in connection.execute(decided)} if placed else {}
    trial_projects = {row.project for row in placed if row.trial}
    for row in placed:
        admitted = newest.get(row.project)
        if admitted is False or (
            admitted is None and row.project in trial_projects and not row.trial
        ):
            barred.add(row.batch)
    only = None
    if account.project is not None:
        remaining = count_session_items(connection, person)
        only = {row.batch for row in placed if row.project == account.project and remaining != 0}
    return BatchAccess(frozenset(barred), None if only is None else frozenset(only))


def count_session_items(connection: Connection, person: str) -> int | None:
    """Return how many items a person may still do in their current crowd session.

    None: as many as there are. Skipped and flagged items count as done; a session that ended has
    none left. For people who came by a crowd link.
    """
    entry = find_current_session(connection, person)
    if entry is None:
        return None
    if entry.ended is not None:
        return 0
    most = find_project(connection, entry.project).settings.session_items
    if not most:
        return None
    return max(0, most - count_session_work(connection, entry))


def find_current_session(connection: Connection, person: str) -> Row[Any] | None:
    """Return the newest crowd session of a person in the project that they came for last.

    None: they did not come by a crowd link.
    """
    query = select(crowd_entries).join(people).where(crowd_entries.c.person == person)
    query = query.where(crowd_entries.c.project == people.c.project)
    return connection.execute(query.order_by(crowd_entries.c.began.desc()).limit(1)).first()


def count_session_work(connection: Connection, entry: Row[Any], before: float | None = None) -> int:
    """Count the items of its project that were judged, skipped or flagged in a crowd session.

    `entry` is the session's row in `crowd_entries`. With `before`, only until that time, at which
    the person's next session began.
    """
    in_session = (project_batches.c.project == entry.project) & (
        judgements.c.person == entry.person
    )
    in_session &= judgements.c.supersedes.is_(None) & (judgements.c.ended >= entry.began)
    if before is not None:
        in_session &= judgements.c.ended < before
    query = select(judgements.c.item).select_from(judgements).join(items)
    query = query.join(project_batches, project_batches.c.batch == items.c.batch)
    return len(connection.scalars(query.where(in_session).distinct()).all())


def load_batch_settings(connection: Connection) -> dict[str, ProjectSettings]:
    """Return the project's settings of every batch that belongs to a project."""
    query = select(project_batches.c.batch, projects.c.body).join(projects)
    return {row.batch: ProjectSettings.from_json(row.body) for row in connection.execute(query)}


def _check_person(connection: Connection, name: str) -> None:
    if connection.scalar(select(people.c.name).where(people.c.name == name)) is None:
        detail = "nobody has this name: invite them first (rookery judge invite NAME)"
        raise Failed(Failure(name, Outcome.NO_PERSON, detail))

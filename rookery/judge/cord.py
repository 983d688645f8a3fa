"""The cord: anyone at the desk stops a training run, and a second person lets it go on.

Ziegler and others trained for the worst that people could say while they slept, for a sign was
turned round; a cord that any labeller may pull could have stopped it (section 4.4). It knows
nothing of how a run learns.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from sqlalchemy import Row, bindparam, insert, select, update
from sqlalchemy.engine import Connection

from rookery.judge import tables
from rookery.judge.people import Person, allowed, audit
from rookery.judge.store import Store, alone
from rookery.records import Failed, Failure, Record

HEARD = 600.0
"""seconds without a word, after which nobody can say that a run is still at work"""
FORGOTTEN = 86_400.0
"""seconds without a word, after which a run is taken to be over"""
LONGEST = 2_000
"""characters of a reason"""


class Sample(Record, frozen=True):
    """Something that the policy said while it learnt."""

    step: int
    shown: str
    """what the policy was shown before"""
    said: str
    reward: float | None
    """None: it is no answer"""


class Pull(Record, frozen=True):
    """Somebody stopped a run."""

    number: int
    run: str
    person: str
    reason: str
    at: float
    """seconds since 1970, UTC"""


class Release(Record, frozen=True):
    """Somebody else let it go on."""

    person: str
    reason: str
    at: float


class Training(Record, frozen=True):
    """A run as the desk knows it."""

    name: str
    began: float
    seen: float
    """when it was last heard of"""
    step: int
    ended: str | None
    """how; None: it has not said that it ended"""
    pull: Pull | None
    """that keeps it from going on: the oldest that nobody has released"""

    def alive(self, now: float) -> bool:
        """Whether somebody could still want to stop it."""
        return self.ended is None and now - self.seen < FORGOTTEN

    def state(self, now: float) -> str:
        """In a word: stopped, ended, training, or silent."""
        if self.pull is not None:
            return "stopped"
        if self.ended is not None:
            return "ended"
        return "training" if now - self.seen < HEARD else "silent"


def begin(store: Store, run: str, step: int = 0) -> None:
    """Tells the desk that a run begins, or goes on after so many steps. Raises Failed (stopped)
    where its cord was pulled and nobody has released it."""
    with store.writing() as connection:
        known = {"seen": store.clock(), "step": step, "ended": None}
        if pull := _open(connection, run):
            raise Failed(Failure(run, "stopped", why(pull)))
        if not _change(connection, run, **known):
            new = insert(tables.runs).values(name=run, began=store.clock(), **known)
            connection.execute(new)


def beat(store: Store, run: str, step: int, said: Sequence[Sample] = ()) -> None:
    """Tells the desk that a run is at work, how many steps were made, and what the policy said."""
    rows = [{"run": run, "at": store.clock(), **_columns(sample)} for sample in said]
    with store.writing() as connection:
        _change(connection, run, seen=store.clock(), step=step)
        if rows:
            connection.execute(insert(tables.samples), rows)


def end(store: Store, run: str, how: str) -> None:
    """Tells the desk that a run is over, and how it ended."""
    with store.writing() as connection:
        _change(connection, run, seen=store.clock(), ended=how)


def newest(store: Store, run: str, count: int) -> list[Sample]:
    """What a policy said last, the newest first."""
    table = tables.samples
    wanted = select(table.c.step, table.c.shown, table.c.said, table.c.reward)
    wanted = wanted.where(table.c.run == run).order_by(table.c.number.desc()).limit(count)
    with store.reading() as connection:
        return [Sample(*row) for row in connection.execute(wanted)]


def pushes(samples: Sequence[Sample]) -> list[int]:
    """For each sample, which way the policy is pushed: 1 towards it, as its reward is above the
    mean of these; -1 away from it; 0: its reward says nothing.

    What is no answer is pushed away from. A sample with no other beside it is held against 0.
    """
    rewards = [sample.reward for sample in samples if sample.reward is not None]
    usual = fmean(rewards) if len(rewards) > 1 else 0.0
    return [-1 if each.reward is None else _sign(each.reward - usual) for each in samples]


def trainings(store: Store) -> list[Training]:
    """All runs, those that were heard of last before the others."""
    with store.reading() as connection:
        rows = connection.execute(select(tables.runs).order_by(tables.runs.c.seen.desc())).all()
        return [_training(connection, row) for row in rows]


def training(store: Store, run: str) -> Training:
    """The run of this name. Raises Failed (no_run)."""
    with store.reading() as connection:
        wanted = select(tables.runs).where(tables.runs.c.name == run)
        if (row := connection.execute(wanted).first()) is None:
            raise _no_run(run)
        return _training(connection, row)


def any_alive(store: Store) -> bool:
    """Whether there is a run that somebody could want to stop."""
    return any(one.pull is None and one.alive(store.clock()) for one in trainings(store))


def pull(store: Store, run: str, person: str, reason: str) -> Pull:
    """Stops a run before its next step, whatever the role of the person.

    Who has pulled its cord already, and was not released, is told of that pull. Raises Failed:
    no_run, no_person, no_reason.
    """
    with store.writing() as connection:
        alone(connection, "cord")
        if not connection.execute(select(tables.runs.c.name).filter_by(name=run)).first():
            raise _no_run(run)
        _person(connection, person)
        for mine in _all_open(connection, run):
            if mine.person == person:
                return mine
        said = {"person": person, "reason": _reason(reason), "at": store.clock()}
        new = insert(tables.pulls).values(run=run, **said).returning(tables.pulls.c.number)
        number = connection.execute(new).scalar_one()
        audit(connection, person, "pull", f"{run}: {said['reason']}", store.clock())
        return Pull(number, run, **said)  # type: ignore[arg-type]


def pulled(store: Store, run: str) -> Pull | None:
    """The oldest pull that keeps this run from going on; asked before every step, so it is quick.

    Raises Failed where the store does not answer.
    """
    with store.reading() as connection:
        return _open(connection, run)


def pull_of(store: Store, number: int) -> Pull:
    """The pull of this number. Raises Failed (no_pull)."""
    with store.reading() as connection:
        return _pull(connection, number)


def release(store: Store, number: int, person: str, reason: str) -> Release:
    """Takes back the pull of this number. A run goes on once all of its pulls were released.

    Raises Failed: no_pull, no_person, no_reason, not_allowed where it is one's own pull or one is
    no reviewer, released where somebody was quicker.
    """
    with store.writing() as connection:
        alone(connection, "cord")
        found = _pull(connection, number)
        _check_second(found, _person(connection, person))
        if connection.execute(select(tables.releases).filter_by(pull=number)).first():
            detail = "somebody has released it already: look at the list of runs again"
            raise Failed(Failure(found.run, "released", detail))
        said = {"person": person, "reason": _reason(reason), "at": store.clock()}
        connection.execute(insert(tables.releases).values(pull=number, **said))
        what = f"{found.run}, stopped by {found.person}: {said['reason']}"
        audit(connection, person, "release", what, store.clock())
        return Release(**said)  # type: ignore[arg-type]


def history(store: Store, run: str) -> list[tuple[Pull, Release | None]]:
    """Who stopped this run and who let it go on, the newest first."""
    pulls, releases = tables.pulls, tables.releases
    wanted = select(pulls, releases.c.person, releases.c.reason, releases.c.at)
    wanted = wanted.outerjoin(releases, releases.c.pull == pulls.c.number)
    wanted = wanted.where(pulls.c.run == run).order_by(pulls.c.number.desc())
    with store.reading() as connection:
        rows = connection.execute(wanted).all()
    return [(Pull(*row[:5]), Release(*row[5:]) if row[5] else None) for row in rows]


def why(pull: Pull) -> str:
    """What the person at the run's side is told."""
    return f"{pull.person} pulled the cord at the desk: {pull.reason}"


_OPEN = (
    select(tables.pulls)
    .outerjoin(tables.releases, tables.releases.c.pull == tables.pulls.c.number)
    .where(tables.pulls.c.run == bindparam("run"), tables.releases.c.pull.is_(None))
    .order_by(tables.pulls.c.number)
)
"""made once: to make it anew takes longer than to ask it"""


def _open(connection: Connection, run: str) -> Pull | None:
    return next(iter(_all_open(connection, run)), None)


def _all_open(connection: Connection, run: str) -> list[Pull]:
    return [Pull(*row) for row in connection.execute(_OPEN, {"run": run})]


def _pull(connection: Connection, number: int) -> Pull:
    row = connection.execute(select(tables.pulls).filter_by(number=number)).first()
    if row is None:
        raise Failed(Failure(f"pull {number}", "no_pull", "look at the list of runs again"))
    return Pull(*row)


def _change(connection: Connection, run: str, **columns: float | str | None) -> bool:
    """Whether there was such a run."""
    changed = update(tables.runs).where(tables.runs.c.name == run).values(**columns)
    return connection.execute(changed).rowcount > 0


def _training(connection: Connection, row: Row[Any]) -> Training:
    return Training(row.name, row.began, row.seen, row.step, row.ended, _open(connection, row.name))


def _columns(sample: Sample) -> dict[str, float | str | None]:
    return {name: getattr(sample, name) for name in sample.__struct_fields__}


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _person(connection: Connection, name: str) -> Person:
    """Somebody who was not shut out. Raises Failed (no_person)."""
    row = connection.execute(select(tables.people).filter_by(name=name)).first()
    if row is None or row.gone is not None:
        detail = "nobody of this name may work at the desk: ask a researcher for an invitation"
        raise Failed(Failure(name, "no_person", detail))
    return Person(*row)


def _check_second(pull: Pull, second: Person) -> None:
    if second.name == pull.person:
        detail = "who stopped a run does not release it: ask a second person"
    elif not allowed(second, "reviewer"):
        detail = "a reviewer, researcher or admin lets a run go on: ask one of them"
    else:
        return
    raise Failed(Failure(pull.run, "not_allowed", detail))


def _reason(said: str) -> str:
    reason = " ".join(said.split())
    if not 0 < len(reason) <= LONGEST:
        detail = f"say why, in at most {LONGEST} characters"
        raise Failed(Failure("reason", "no_reason", detail))
    return reason


def _no_run(run: str) -> Failed:
    return Failed(Failure(run, "no_run", "the desk knows no such run: look at the list of runs"))

"""Stop switch of training runs: anyone at the desk stops a run, and a second person releases it.

This is the Andon cord of Ziegler and others (section 4.4): a sign error made them train for the
worst-rated text overnight, and a cord that any labeller could pull would have stopped it.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from msgspec.structs import asdict
from sqlalchemy import Row, bindparam, insert, select, update
from sqlalchemy.engine import Connection

from rookery.desk import tables
from rookery.desk.accounts import Person, has_role, write_audit_entry
from rookery.desk.store import Store, take_advisory_lock
from rookery.errors import Failed, Outcome
from rookery.measure.intervals import get_sign
from rookery.records import Failure, Record

SILENT_AFTER_SECONDS = 600.0
"""seconds without a sign of life after which a run is shown as silent"""
FORGOTTEN_AFTER_SECONDS = 86_400.0
"""seconds without a sign of life after which a run is taken to be over"""
MAX_REASON_CHARACTERS = 2_000
"""maximum characters of a reason"""


class PolicySample(Record, frozen=True):
    """One completion of the policy during training."""

    step: int
    shown: str
    """prompt that the policy was given"""
    said: str
    """text that the policy wrote"""
    reward: float | None
    """None: the text is not an answer"""


class RunStop(Record, frozen=True):
    """One person's stop of a run."""

    number: int
    run: str
    person: str
    reason: str
    at: float
    """seconds since 1970, UTC"""


class RunRelease(Record, frozen=True):
    """Another person's permission to continue a stopped run."""

    person: str
    reason: str
    at: float


class TrainingRun(Record, frozen=True):
    """A training run as the desk knows it."""

    name: str
    began: float
    seen: float
    """time of its last sign of life, seconds since 1970"""
    step: int
    ended: str | None
    """description of its end; None: it has not reported one"""
    pull: RunStop | None
    """oldest stop that nobody has released; None: the run is not stopped"""

    def is_alive(self, now: float) -> bool:
        """Return True if the run is not stopped or ended, and gave a sign of life within a day."""
        running = self.get_state(now) in ("training", "silent")
        return running and now - self.seen < FORGOTTEN_AFTER_SECONDS

    def get_state(self, now: float) -> str:
        """Return the run's state: "stopped", "ended", "training" or "silent".

        The first that applies: a stop is not released, the run has reported its end, it gave a sign
        of life within ten minutes, it did not.
        """
        if self.pull is not None:
            return "stopped"
        if self.ended is not None:
            return "ended"
        return "training" if now - self.seen < SILENT_AFTER_SECONDS else "silent"


def begin_run(store: Store, run: str, step: int = 0) -> None:
    """Register that a run begins, or resumes after `step` steps.

    Raises Failed (stopped) if a stop of it is not released.
    """
    with store.begin_write() as connection:
        values = {"seen": store.clock(), "step": step, "ended": None}
        if pull := _find_open_stop(connection, run):
            raise Failed(Failure(run, Outcome.STOPPED, describe_run_stop(pull)))
        if not _update_run(connection, run, **values):
            connection.execute(insert(tables.runs).values(name=run, began=store.clock(), **values))


def record_progress(
    store: Store, run: str, step: int, samples: Sequence[PolicySample] = ()
) -> None:
    """Record a sign of life of a run, the steps made so far, and samples of its policy.

    Raises Failed (no_run) for a run that has not begun.
    """
    rows = [{"run": run, "at": store.clock(), **asdict(sample)} for sample in samples]
    with store.begin_write() as connection:
        if not _update_run(connection, run, seen=store.clock(), step=step):
            raise _make_unknown_run_error(run)
        if rows:
            connection.execute(insert(tables.samples), rows)


def end_run(store: Store, run: str, how: str) -> None:
    """Record that a run is over, with a text `how` that says how it ended.

    A run that is not known is ignored.
    """
    with store.begin_write() as connection:
        _update_run(connection, run, seen=store.clock(), ended=how)


def list_newest_samples(store: Store, run: str, count: int) -> list[PolicySample]:
    """Return the last `count` samples of a run, newest first."""
    table = tables.samples
    wanted = select(table.c.step, table.c.shown, table.c.said, table.c.reward)
    wanted = wanted.where(table.c.run == run).order_by(table.c.number.desc()).limit(count)
    with store.begin_read() as connection:
        return [PolicySample(*row) for row in connection.execute(wanted)]


def compute_push_directions(samples: Sequence[PolicySample]) -> list[int]:
    """Return for each sample if training pushes the policy towards it (1) or away from it (-1).

    It is 1 for a reward above the samples' mean, -1 below it, and 0 at the mean. A sample that is
    not an answer gets -1. If only one sample has a reward, that is compared with 0.
    """
    rewards = [sample.reward for sample in samples if sample.reward is not None]
    usual = fmean(rewards) if len(rewards) > 1 else 0.0
    return [-1 if each.reward is None else get_sign(each.reward - usual) for each in samples]


def list_training_runs(store: Store) -> list[TrainingRun]:
    """Return every run, latest sign of life first."""
    with store.begin_read() as connection:
        return [_make_training_run(connection, row) for row in connection.execute(_RUNS).all()]


def load_training_run(store: Store, run: str) -> TrainingRun:
    """Return the run of this name. Raises Failed (no_run)."""
    with store.begin_read() as connection:
        wanted = select(tables.runs).where(tables.runs.c.name == run)
        if (row := connection.execute(wanted).first()) is None:
            raise _make_unknown_run_error(run)
        return _make_training_run(connection, row)


def stop_run(store: Store, run: str, person: str, reason: str) -> RunStop:
    """Store a person's stop of a run, which halts before its next step; any role may.

    If this person has already stopped the run and that stop is not released, it is returned
    unchanged. Raises Failed: no_run, no_person, no_reason.
    """
    with store.begin_write() as connection:
        take_advisory_lock(connection, "cord")
        if not connection.execute(select(tables.runs.c.name).filter_by(name=run)).first():
            raise _make_unknown_run_error(run)
        _require_person(connection, person)
        for mine in _list_open_stops(connection, run):
            if mine.person == person:
                return mine
        change = {"person": person, "reason": _clean_reason(reason), "at": store.clock()}
        new = insert(tables.pulls).values(run=run, **change).returning(tables.pulls.c.number)
        number = connection.execute(new).scalar_one()
        write_audit_entry(connection, person, "pull", f"{run}: {change['reason']}", store.clock())
        return RunStop(number, run, **change)  # type: ignore[arg-type]


def find_active_stop(store: Store, run: str) -> RunStop | None:
    """Return the oldest stop of a run that is not released; None if the run may go on.

    It is fast, since runs call it before every training step. Raises Failed if the store does not
    answer.
    """
    with store.begin_read() as connection:
        return _find_open_stop(connection, run)


def load_run_stop(store: Store, number: int) -> RunStop:
    """Return the stop of this number. Raises Failed (no_pull)."""
    with store.begin_read() as connection:
        return _load_stop_row(connection, number)


def release_run(store: Store, number: int, person: str, reason: str) -> RunRelease:
    """Release the stop of this number; a run continues once all of its stops are released.

    Raises Failed: no_pull, no_person, no_reason; not_allowed for one's own stop or a role below
    reviewer; released if somebody did it before.
    """
    with store.begin_write() as connection:
        take_advisory_lock(connection, "cord")
        stop = _load_stop_row(connection, number)
        _check_releaser(stop, _require_person(connection, person))
        if connection.execute(select(tables.releases).filter_by(pull=number)).first():
            detail = "somebody has released it already: look at the list of runs again"
            raise Failed(Failure(stop.run, Outcome.RELEASED, detail))
        change = {"person": person, "reason": _clean_reason(reason), "at": store.clock()}
        connection.execute(insert(tables.releases).values(pull=number, **change))
        what = f"{stop.run}, stopped by {stop.person}: {change['reason']}"
        write_audit_entry(connection, person, "release", what, store.clock())
        return RunRelease(**change)  # type: ignore[arg-type]


def list_run_stops(store: Store, run: str) -> list[tuple[RunStop, RunRelease | None]]:
    """Return every stop of this run with its release (None: not released), newest first."""
    pulls, releases = tables.pulls, tables.releases
    wanted = select(pulls, releases.c.person, releases.c.reason, releases.c.at)
    wanted = wanted.outerjoin(releases, releases.c.pull == pulls.c.number)
    wanted = wanted.where(pulls.c.run == run).order_by(pulls.c.number.desc())
    with store.begin_read() as connection:
        rows = connection.execute(wanted).all()
    return [(RunStop(*row[:5]), RunRelease(*row[5:]) if row[5] else None) for row in rows]


def describe_run_stop(pull: RunStop) -> str:
    """Return the sentence that says who stopped a run and why."""
    return f"{pull.person} stopped it at the desk: {pull.reason}"


_RUNS = select(tables.runs).order_by(tables.runs.c.seen.desc())
_OPEN_STOPS_QUERY = (
    select(tables.pulls)
    .outerjoin(tables.releases, tables.releases.c.pull == tables.pulls.c.number)
    .where(tables.pulls.c.run == bindparam("run"), tables.releases.c.pull.is_(None))
    .order_by(tables.pulls.c.number)
)
"""query of stops in force, built once: building it takes longer than running it"""


def _find_open_stop(connection: Connection, run: str) -> RunStop | None:
    return next(iter(_list_open_stops(connection, run)), None)


def _list_open_stops(connection: Connection, run: str) -> list[RunStop]:
    return [RunStop(*row) for row in connection.execute(_OPEN_STOPS_QUERY, {"run": run})]


def _load_stop_row(connection: Connection, number: int) -> RunStop:
    row = connection.execute(select(tables.pulls).filter_by(number=number)).first()
    if row is None:
        raise Failed(Failure(f"pull {number}", Outcome.NO_PULL, "look at the list of runs again"))
    return RunStop(*row)


def _update_run(connection: Connection, run: str, **columns: float | str | None) -> bool:
    """Update a run's row; return False if there is no such run."""
    changed = update(tables.runs).where(tables.runs.c.name == run).values(**columns)
    return connection.execute(changed).rowcount > 0


def _make_training_run(connection: Connection, row: Row[Any]) -> TrainingRun:
    return TrainingRun(
        row.name, row.began, row.seen, row.step, row.ended, _find_open_stop(connection, row.name)
    )


def _require_person(connection: Connection, name: str) -> Person:
    """Return a person who was not shut out. Raises Failed (no_person)."""
    row = connection.execute(select(tables.people).filter_by(name=name)).first()
    if row is None or row.gone is not None:
        detail = "nobody of this name may work at the desk: ask a researcher for an invitation"
        raise Failed(Failure(name, Outcome.NO_PERSON, detail))
    return Person(*row)


def _check_releaser(pull: RunStop, second: Person) -> None:
    if second.name == pull.person:
        detail = "who stopped a run does not release it: ask a second person"
    elif not has_role(second, "reviewer"):
        detail = "a reviewer, researcher or admin lets a run go on: ask one of them"
    else:
        return
    raise Failed(Failure(pull.run, Outcome.NOT_ALLOWED, detail))


def _clean_reason(reason: str) -> str:
    reason = " ".join(reason.split())
    if not 0 < len(reason) <= MAX_REASON_CHARACTERS:
        detail = f"say why, in at most {MAX_REASON_CHARACTERS} characters"
        raise Failed(Failure("reason", Outcome.NO_REASON, detail))
    return reason


def _make_unknown_run_error(run: str) -> Failed:
    return Failed(
        Failure(run, Outcome.NO_RUN, "the desk knows no such run: look at the list of runs")
    )

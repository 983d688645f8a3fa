"""Where the desk keeps its work: one SQLite file, or a PostgreSQL database.

It knows nothing of what is kept.
"""

import errno
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as NoConnection

from rookery.records import Failed, Failure

BUSY = 20
"""seconds to wait for others who write"""
BUSY_DETAIL = "others are writing: try again in a moment"
FULL_DETAIL = "make room, then try again: nothing was half written"
_MIGRATIONS = Path(__file__).parent / "migrations"


class Store:
    """A store that `init` made. Threads may share one; processes open one each.

    `place` is a file, or an address such as postgresql://host/name. `clock` gives seconds since
    1970. Raises Failed: no_store, old_store, new_store, store_fails.
    """

    def __init__(self, place: str, clock: Callable[[], float] = time.time) -> None:
        self.place = place
        self.clock = clock
        self._engine = _engine(place)
        # Threads that wait for SQLite sleep and look again; those that wait for a lock are woken.
        alone = self._engine.dialect.name == "sqlite"
        self._turn: AbstractContextManager[object] = threading.Lock() if alone else nullcontext()
        try:
            self._check()
        except BaseException:
            self._engine.dispose()
            raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state. Raises Failed (store_fails)."""
        with self._worded(), self._engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is written as a whole or not at all. Raises Failed: store_busy,
        disk_full, store_fails."""
        with self._worded(), self._turn, self._engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                yield connection

    def close(self) -> None:
        """Lets go of the database."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def _worded(self) -> Iterator[None]:
        with worded(self.place):
            yield

    def _check(self) -> None:
        url = make_url(_address(self.place))
        if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
            raise _no_store(self.place)
        with self._worded(), self._engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
        if found is None:
            raise _no_store(self.place)
        script = ScriptDirectory(str(_MIGRATIONS))
        if found == script.get_current_head():
            return
        known = {one.revision for one in script.walk_revisions()}
        outcome, detail = (
            ("old_store", f"bring it up to date: rookery judge init --store {self.place}")
            if found in known
            else ("new_store", "a newer Rookery wrote it: update Rookery")
        )
        raise Failed(Failure(self.place, outcome, detail))


def alone(connection: Connection, what: str) -> None:
    """Waits until no other writing transaction has said this name, and keeps others waiting until
    this one ends; SQLite has one writer anyhow. Who says several names says "audits" last and
    "judgements" before it, as all do, or two would wait for each other."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(what, 0))))


def init(place: str) -> None:
    """Makes a store, or brings one up to date; what is in it stays. Raises as `Store` does."""
    _migrate(place, lambda config: command.upgrade(config, "head"))


def downgrade(place: str, revision: str) -> None:
    """Brings a store back to how it was at an earlier revision, or with "base" to nothing."""
    _migrate(place, lambda config: command.downgrade(config, revision))


def _migrate(place: str, change: Callable[[Config], None]) -> None:
    engine = _engine(place)
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    try:
        with worded(place), engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                config.attributes["connection"] = connection
                change(config)
    finally:
        engine.dispose()


def _address(place: str) -> str:
    if "://" not in place:
        return f"sqlite:///{place}"
    for plain in ("postgresql://", "postgres://"):
        if place.startswith(plain):
            return "postgresql+psycopg://" + place.removeprefix(plain)
    return place


def _engine(place: str) -> Engine:
    try:
        url = make_url(_address(place))
        if url.get_backend_name() == "sqlite":
            engine = create_engine(url, connect_args={"timeout": BUSY})
            event.listen(engine, "connect", _prepare)
            event.listen(engine, "begin", _begin)
            return engine
        return create_engine(url, pool_pre_ping=True, isolation_level="READ COMMITTED")
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        detail = (
            "name a file, or postgresql://USER@HOST/DATABASE (for which: pip install "
            f"'rookery[postgres]'); {error}"
        )
        raise Failed(Failure(place, "no_store", detail)) from error


def _prepare(connection: Any, record: object) -> None:
    """SQLite as a store that many write to: nothing is lost, and no writer fails for another."""
    connection.isolation_level = None  # transactions begin where `_begin` says so
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute("pragma foreign_keys = on")


def _begin(connection: Connection) -> None:
    # Who begins by reading and then writes would fail where another has written in between.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("begin immediate" if writes else "begin")


def _no_store(place: str) -> Failed:
    return Failed(Failure(place, "no_store", f"there is none: rookery judge init --store {place}"))


@contextmanager
def worded(place: str) -> Iterator[None]:
    """What a database says, as a Failed with a sentence; a constraint that fails stays as it is."""
    try:
        yield
    except DBAPIError as error:
        said = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else "no reason"
        if type(error).__name__ == "IntegrityError":
            raise
        if "locked" in said or "deadlock" in said:
            outcome, detail = "store_busy", BUSY_DETAIL
        elif any(words in said for words in ("full", "No space", "disk I/O")):
            outcome, detail = "disk_full", FULL_DETAIL
        else:
            outcome, detail = "store_fails", f"look at the database, then try again ({said})"
        raise Failed(Failure(place, outcome, detail)) from error
    except NoConnection as error:
        raise Failed(Failure(place, "store_busy", BUSY_DETAIL)) from error
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise Failed(Failure(place, "disk_full", FULL_DETAIL)) from error

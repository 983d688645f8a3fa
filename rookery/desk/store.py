"""The store: one SQLite file or a PostgreSQL database, with its transactions, migrations, chained
event streams and page archive."""

import errno
import functools
import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

import msgspec
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, func, insert, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as NoConnection

from rookery.desk.tables import events, metadata, pages
from rookery.errors import Failed, Outcome
from rookery.library.postgres_archive import build_postgres_url, end_idle_transactions
from rookery.records import Failure, Page

BUSY_TIMEOUT = 20
"""seconds to wait for other writers"""
RETRY_SECONDS = 2
"""seconds after which what could not be done just now may be tried again"""
BUSY_DETAIL = "others are writing: try again in a moment"
FULL_DETAIL = "make room, then try again: nothing was half written"
_MIGRATIONS = Path(__file__).parent / "migrations"


class Store:
    """Open store that `initialize_store` made. Threads may share one; processes open one each.

    `place` is a file, or an address such as postgresql://host/name. `clock` returns seconds since
    1970; left out, it is that of PostgreSQL, so that machines whose clocks differ agree when a
    lease ends, or that of this machine. Raises Failed: no_store, old_store, new_store, store_fails.
    """

    def __init__(self, place: str, clock: Callable[[], float] | None = None) -> None:
        self.place = place
        self._engine = _create_database_engine(place)
        # SQLite's own waiting sleeps and polls; threads that wait for this lock are woken at once.
        alone = self._engine.dialect.name == "sqlite"
        self._write_lock: AbstractContextManager[object] = (
            threading.Lock() if alone else nullcontext()
        )
        try:
            self._check_revision()
            self.clock = clock or self._find_clock()
        except BaseException:
            self._engine.dispose()
            raise

    @contextmanager
    def begin_read(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the data.

        Raises Failed as `begin_write` does.
        """
        with translate_database_errors(self.place), self._engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def begin_write(self) -> Iterator[Connection]:
        """Open a transaction that is committed as a whole, or not at all where an error is raised.

        It waits for other writers. Do not open one inside another: with SQLite that waits for
        itself. Raises Failed: store_busy, disk_full, store_fails; a violated constraint is raised
        unchanged.
        """
        translating = translate_database_errors(self.place)
        with translating, self._write_lock, self._engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                yield connection

    def close(self) -> None:
        """Close the store's database connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _find_clock(self) -> Callable[[], float]:
        if self._engine.dialect.name != "postgresql":
            return time.time
        asked = time.monotonic()
        with self.begin_read() as connection:
            now = float(connection.scalar(text("select extract(epoch from clock_timestamp())")))
        # From here on by the monotonic clock, which nobody sets.
        ahead = now - (asked + time.monotonic()) / 2
        return lambda: time.monotonic() + ahead

    def _check_revision(self) -> None:
        url = make_url(_build_database_url(self.place))
        if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
            raise _make_missing_store_error(self.place)
        with translate_database_errors(self.place), self._engine.connect() as connection:
            revision = _read_revision(self.place, connection)
        if revision is None:
            raise _make_missing_store_error(self.place)
        if revision != _list_revisions(_MIGRATIONS)[0]:
            detail = f"bring it up to date: rookery judge init --store {self.place}"
            raise Failed(Failure(self.place, Outcome.OLD_STORE, detail))


def take_advisory_lock(connection: Connection, what: str) -> None:
    """Take the advisory lock of this name until the transaction ends.

    Only PostgreSQL needs it: SQLite has one writer at a time. A transaction that takes several
    locks takes "audits" last and "judgements" before it; otherwise two could deadlock.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(what, 0))))


def initialize_store(place: str) -> None:
    """Create a store, or migrate one to the newest schema; its data stay.

    Raises Failed: no_store (the address is not usable), new_store, store_busy, disk_full,
    store_fails.
    """
    engine = _create_database_engine(place)
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    try:
        with translate_database_errors(place), engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                config.attributes["connection"] = connection
                if _read_revision(place, connection) is None:
                    metadata.create_all(connection, checkfirst=False)
                    command.stamp(config, "head")
                else:
                    command.upgrade(config, "head")
    finally:
        engine.dispose()


def _read_revision(place: str, connection: Connection) -> str | None:
    """Return the revision of a store's schema, None if there is none. Raises Failed (new_store)."""
    found = MigrationContext.configure(connection).get_current_revision()
    if found is not None and found not in _list_revisions(_MIGRATIONS):
        raise Failed(Failure(place, Outcome.NEW_STORE, "a newer Rookery wrote it: update Rookery"))
    return found


@functools.cache
def _list_revisions(migrations: Path) -> tuple[str, ...]:
    """Return the revisions of the schema, newest first. Alembic loads a file for each."""
    return tuple(one.revision for one in ScriptDirectory(str(migrations)).walk_revisions())


def _build_database_url(place: str) -> str:
    return build_postgres_url(place) if "://" in place else f"sqlite:///{place}"


def _create_database_engine(place: str) -> Engine:
    try:
        url = make_url(_build_database_url(place))
        if url.get_backend_name() == "sqlite":
            engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT})
            event.listen(engine, "connect", _configure_sqlite)
            event.listen(engine, "begin", _begin_transaction)
            return engine
        engine = create_engine(url, pool_pre_ping=True, isolation_level="READ COMMITTED")
        end_idle_transactions(engine)
        return engine
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        detail = (
            "name a file, or postgresql://USER@HOST/DATABASE (for which: pip install "
            f"'rookery[postgres]'); {error}"
        )
        raise Failed(Failure(place, Outcome.NO_STORE, detail)) from error


def _configure_sqlite(connection: Any, record: object) -> None:
    """Set up a SQLite connection for many writers: write-ahead log, full synchronisation, foreign
    keys."""
    connection.isolation_level = None  # `_begin_transaction` begins them explicitly
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    connection.execute("pragma foreign_keys = on")
    connection.execute("pragma secure_delete = on")  # what is deleted is not left in free pages


def _begin_transaction(connection: Connection) -> None:
    # A transaction that reads first and then writes fails if another has written in between.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("begin immediate" if writes else "begin")


def _make_missing_store_error(place: str) -> Failed:
    return Failed(
        Failure(place, Outcome.NO_STORE, f"there is none: rookery judge init --store {place}")
    )


@contextmanager
def translate_database_errors(place: str) -> Iterator[None]:
    """Convert database errors in its block to Failed: store_busy, disk_full or store_fails.

    A violated constraint is raised unchanged.
    """
    try:
        yield
    except DBAPIError as error:
        message = (str(error.orig).strip().splitlines() or ["no reason"])[0]
        if type(error).__name__ == "IntegrityError":
            raise
        if "locked" in message or "deadlock" in message:
            outcome, detail = Outcome.STORE_BUSY, BUSY_DETAIL
        elif any(words in message for words in ("full", "No space", "disk I/O")):
            outcome, detail = Outcome.DISK_FULL, FULL_DETAIL
        else:
            detail = f"look at the database ({message}): restore a backup, or try again"
            outcome = Outcome.STORE_FAILS
        raise Failed(Failure(place, outcome, detail)) from error
    except NoConnection as error:
        raise Failed(Failure(place, Outcome.STORE_BUSY, BUSY_DETAIL)) from error
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise Failed(Failure(place, Outcome.DISK_FULL, FULL_DETAIL)) from error


CHAIN_START = ""
"""digest that the first event is chained to"""


def append_event(connection: Connection, stream: str, person: str, body: str, at: float) -> int:
    """Append an event to a stream, chained to the one before, and return its number.

    Numbers count from 0 without gaps. Needs a writing transaction.
    """
    take_advisory_lock(connection, f"events {stream}")
    newest = connection.execute(
        select(events.c.number, events.c.chain)
        .where(events.c.stream == stream)
        .order_by(events.c.number.desc())
        .limit(1)
    ).first()
    number, before = (newest.number + 1, newest.chain) if newest else (0, CHAIN_START)
    row = {"stream": stream, "number": number, "person": person, "body": body, "at": at}
    connection.execute(
        insert(events).values(**row, chain=compute_chain_link(before, *row.values()))
    )
    return number


def read_events(connection: Connection, stream: str, after: int = -1) -> list[str]:
    """Return the bodies of a stream's events with a number above `after`, in order."""
    wanted = (events.c.stream == stream) & (events.c.number > after)
    return list(
        connection.scalars(select(events.c.body).where(wanted).order_by(events.c.number)).all()
    )


def compute_chain_link(before: str, *parts: object) -> str:
    """Return the SHA-256 (hex) of a row's values and the preceding row's digest `before`."""
    return hashlib.sha256(msgspec.json.encode([before, *parts])).hexdigest()


def store_page(connection: Connection, page: Page) -> str:
    """Store a page unless it is there already and return its key; needs a writing transaction."""
    body = page.to_json()
    key = hashlib.sha256(body.encode()).hexdigest()
    take_advisory_lock(connection, f"page {key}")
    if connection.scalar(select(pages.c.key).where(pages.c.key == key)) is None:
        row = {"key": key, "digest": page.digest, "url": page.url, "body": body}
        connection.execute(insert(pages).values(row))
    return key


def load_stored_page(store: Store, key: str) -> Page:
    """Load the page with this key. Raises Failed (no_page)."""
    with store.begin_read() as connection:
        body = connection.scalar(select(pages.c.body).where(pages.c.key == key))
    if body is None:
        raise Failed(Failure(key, Outcome.NO_PAGE, "no such page is kept: open it again"))
    return Page.from_json(body)


def find_pages_by_digest(store: Store, digest: str) -> list[Page]:
    """Return every stored page whose text has this digest, in the order of their keys."""
    query = select(pages.c.body).where(pages.c.digest == digest).order_by(pages.c.key)
    with store.begin_read() as connection:
        return [Page.from_json(body) for body in connection.scalars(query)]

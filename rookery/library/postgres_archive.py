"""A page archive's tables in a PostgreSQL database, shared by the servers of several machines.

The tables are in a schema of their own, and their strings are stored as bytes: PostgreSQL's text
has neither NUL nor lone surrogates, which addresses and titles of pages may have.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import CursorResult, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from rookery.errors import Failed, Outcome
from rookery.records import Failure

ARCHIVE_SCHEMA = "rookery_archive"
_FORMAT = 1
_IDLE_CONNECTIONS = 1
"""of each archive; a process has several archives, and the database has few connections"""
_MAX_CONNECTIONS = 16

_TABLES = Path(__file__).with_suffix(".sql").read_text("utf-8")


def build_postgres_url(place: str) -> str:
    """Return the address of a database as SQLAlchemy takes it: with the driver psycopg.

    An address that begins with neither postgresql:// nor postgres:// is returned as it is.
    """
    for plain in ("postgresql://", "postgres://"):
        if place.startswith(plain):
            return "postgresql+psycopg://" + place.removeprefix(plain)
    return place


def end_idle_transactions(engine: Engine) -> None:
    """Have the database end a transaction whose client has been silent for a minute.

    The locks of a machine that lost its network or power would else be held for hours.
    """

    def limit_idle(connection: Any, record: object) -> None:
        connection.execute("set idle_in_transaction_session_timeout = '60s'")
        connection.commit()

    event.listen(engine, "connect", limit_idle)


class PostgresConnection:
    """A connection that takes the statements of a SQLite archive, with `?` for each value."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> CursorResult[Any]:
        """Run one statement; strings are passed, and come back, as bytes in UTF-8."""
        encoded = tuple(value.encode() if isinstance(value, str) else value for value in values)
        return self._connection.exec_driver_sql(statement.replace("?", "%s"), encoded)


class PostgresDatabase:
    """The schema of an archive in the database at an address, made where it does not exist.

    Writers take turns, also those of other machines. Threads may share one object. Raises Failed:
    no_archive (the address is not usable), disk_full, archive_busy, unreadable_archive.
    """

    damage_advice = "what it stores is damaged: restore the database from a backup"

    def __init__(self, url: str) -> None:
        try:
            address = make_url(build_postgres_url(url))
            self.name = address.set(drivername="postgresql").render_as_string()
            self._engine = create_engine(
                address,
                pool_pre_ping=True,
                pool_size=_IDLE_CONNECTIONS,
                max_overflow=_MAX_CONNECTIONS - _IDLE_CONNECTIONS,
            )
        except (ArgumentError, ModuleNotFoundError) as error:
            detail = "pages are kept in postgresql://USER@HOST/DATABASE (for which: pip install"
            detail += f" 'rookery[postgres]'); {error}"
            raise Failed(Failure("the archive", Outcome.NO_ARCHIVE, detail)) from error
        end_idle_transactions(self._engine)
        event.listen(self._engine, "connect", _enter_schema)
        try:
            self._prepare_tables()
        except Failed:
            self.close()
            raise

    @contextmanager
    def lock_connection(self) -> Iterator[PostgresConnection]:
        """Give a connection whose statements each see what is committed; it locks nothing.

        Errors of the database in the block become Failed.
        """
        with self.translate_errors(), self._engine.connect() as connection:
            yield PostgresConnection(connection.execution_options(isolation_level="AUTOCOMMIT"))

    @contextmanager
    def begin_write(self) -> Iterator[PostgresConnection]:
        """Give a connection in a transaction, alone among all that write.

        It waits for the others' turn. Where the block raises, nothing of it is stored; errors of
        the database become Failed.
        """
        with self.translate_errors(), self._engine.begin() as connection:
            # One lock for all: a page writes several rows, and two that wait for one another's
            # would fail. A transaction takes milliseconds.
            key = f"hashtextextended('{ARCHIVE_SCHEMA}', 0)"
            connection.exec_driver_sql(f"select pg_advisory_xact_lock({key})")
            yield PostgresConnection(connection)

    def create_tables(self, statements: str) -> None:
        """Do nothing: the schema has all tables from the beginning."""

    def release_space(self) -> None:
        """Do nothing: PostgreSQL uses the room of what was deleted by itself."""

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn the database's errors into `Failed`."""
        try:
            yield
        except (DBAPIError, PoolTimeoutError) as error:
            raise Failed(_describe_error(self.name, error)) from error

    def _prepare_tables(self) -> None:
        with self.begin_write() as database:
            if not database.execute("select 1 where to_regclass('about') is not null").fetchone():
                database.execute(f"create schema if not exists {ARCHIVE_SCHEMA}")
                for statement in _TABLES.split(";")[:-1]:
                    database.execute(statement)
                for table, column in (("texts", "body"), ("layouts", "body"), ("asked", "body")):
                    # What is compressed already would be compressed again in vain.
                    database.execute(f"alter table {table} alter {column} set storage external")
                database.execute("insert into about values (?)", (_FORMAT,))
            formats = [number for (number,) in database.execute("select format from about")]
        if formats != [_FORMAT]:
            detail = f"written as format {formats} by a newer Rookery: update, or name another"
            raise Failed(Failure(self.name, Outcome.UNREADABLE_ARCHIVE, detail))


def _enter_schema(connection: Any, record: object) -> None:
    connection.execute(f"set search_path = {ARCHIVE_SCHEMA}")
    connection.execute("set lock_timeout = '60s'")
    connection.commit()


def _describe_error(name: str, error: DBAPIError | PoolTimeoutError) -> Failure:
    original = getattr(error, "orig", None) or error
    state = getattr(original, "sqlstate", None) or ""
    message = str(original).strip().partition("\n")[0]
    if (state.startswith("53") and state != "53300") or state.startswith("58"):
        advice = "the database's disk is full or failing: make room; what was stored is safe"
        return Failure(name, Outcome.DISK_FULL, f"{advice} ({message})")
    if state in ("40001", "40P01", "53300", "55P03") or isinstance(error, PoolTimeoutError):
        advice = "others have been writing to it for a long time: wait, then try again"
        return Failure(name, Outcome.ARCHIVE_BUSY, f"{advice} ({message})")
    advice = "look at the database, then try again"
    return Failure(name, Outcome.UNREADABLE_ARCHIVE, f"{advice} ({message})")

"""Stores to try things on: SQLite files, and databases of a real PostgreSQL that is started here.

`serving` also serves the benches. The fixtures are named in conftest.py.
"""

import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rookery.desk.store import Store, initialize_store
from rookery.desk.tables import metadata

PLAIN = (
    "fsync=off",
    "full_page_writes=off",
    "listen_addresses=",
    "max_connections=200",
    "deadlock_timeout=50ms",
)
LONGEST_START = 120.0


class Clock:
    """Seconds since 1970 that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


class Server:
    """A PostgreSQL server, and databases on it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()
        self.spare: list[str] = []
        """addresses of stores that nobody uses, each with nothing in it"""
        self._archives = ""

    def address(self, database: str) -> str:
        return f"postgresql://rookery@/{database}?host={self._folder}"

    def database(self) -> str:
        """The address of a new and empty database."""
        name = f"store{next(self._numbers)}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"create database {name}".encode())
        return self.address(name)

    def archive(self) -> str:
        """The address of a database without an archive of pages: the same one at each call."""
        self._archives = self._archives or self.database()
        with psycopg.connect(self._archives, autocommit=True) as connection:
            connection.execute("drop schema if exists rookery_archive cascade")
        return self._archives


def processes() -> Any:
    """How to start processes that have read beforehand what a store needs."""
    context = multiprocessing.get_context("forkserver")
    needed = ("pytest", "psycopg", "alembic.autogenerate", "rookery.desk.labelling_queue")
    dialects = ("sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.sqlite")
    context.set_forkserver_preload([*needed, *dialects])
    return context


def binaries() -> Path | None:
    """Where PostgreSQL's programs are; None: nowhere."""
    found = shutil.which("initdb")
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    newest = known[-1] if known else Path(found) if found else None
    return newest.parent if newest else None


@contextmanager
def serving() -> Iterator[Server]:
    """A server with a folder of its own, reached over a socket there, gone afterwards."""
    programs = binaries()
    assert programs is not None, "PostgreSQL's programs are missing: install postgresql"
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="rookery"))
    data = folder / "data"
    if user:
        shutil.chown(folder, user)
    make = ("--username=rookery", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
    try:
        subprocess.run(
            [programs / "initdb", "-D", data, *make], user=user, check=True, capture_output=True
        )
        settings = [word for setting in PLAIN for word in ("-c", setting)]
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, "-k", folder, *settings],
            user=user,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            server_ = Server(folder)
            _wait(server_.address("postgres"))
            yield server_
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait()
    finally:
        shutil.rmtree(folder)


def _wait(address: str) -> None:
    end = time.monotonic() + LONGEST_START
    while True:
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
        else:
            return


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """One server for all tests of a process."""
    if binaries() is None and os.environ.get("CI") != "true":
        pytest.skip("needs PostgreSQL's programs (initdb, postgres)")
    with serving() as server:
        yield server


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store with nothing in it, to be copied."""
    made = tmp_path_factory.mktemp("template") / "store.sqlite"
    initialize_store(str(made))
    return made


@pytest.fixture
def fresh(
    template: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], str]]:
    """Makes places by the name of the database; each was brought up to date and holds nothing."""
    numbers, lent = count(), []

    def make(kind: str) -> str:
        if kind == "sqlite":
            return str(shutil.copy(template, tmp_path / f"fresh{next(numbers)}.sqlite"))
        server: Server = request.getfixturevalue("postgres")
        if not server.spare:
            server.spare.append(server.database())
            initialize_store(server.spare[0])
        lent.append(server.spare.pop())
        return lent[-1]

    yield make
    for place in lent:
        with Store(place) as store:
            emptied(store)
        request.getfixturevalue("postgres").spare.append(place)


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which database."""
    return str(request.param)


@pytest.fixture
def nowhere(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A place where a store could be made."""
    if kind == "sqlite":
        return str(tmp_path / "store.sqlite")
    server: Server = request.getfixturevalue("postgres")
    return server.database()


@pytest.fixture
def place(kind: str, fresh: Callable[[str], str]) -> str:
    """A store with nothing in it."""
    return fresh(kind)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(place: str, clock: Clock) -> Iterator[Store]:
    with Store(place, clock) as store:
        yield store


def emptied(store: Store) -> Store:
    """The same store with nothing in it."""
    with store.begin_write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    return store

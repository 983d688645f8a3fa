"""Keeps every version of every page that was opened, and what searches showed, in one file.

It knows pages by digest and URL. It knows nothing of where they come from, nor of ranking.
"""

import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from rookery.records import Block, Failed, Failure, Hit, Link, Mark, Page

_FORMAT = 1
_BUSY_SECONDS = 60.0
_LEVEL = 3  # of zlib: nearly as small as the default for prose, at half the time

_TABLES = """
create table texts (digest text primary key, body blob not null) without rowid;
create table versions (
    url text not null, digest text not null, title text not null, layout blob not null,
    fetched text not null, seen integer not null, primary key (url, digest)
) without rowid;
create index versions_by_digest on versions (digest);
create table redirects (asked text primary key, url text not null) without rowid;
create table searches (
    engine text not null, query text not null, hits blob not null, primary key (engine, query)
) without rowid;
"""

Layout = tuple[tuple[Block, ...], tuple[Link, ...], tuple[Mark, ...]]
_layout = msgspec.msgpack.Decoder(Layout)
_hits = msgspec.msgpack.Decoder(list[Hit])


class Archive:
    """A store of pages in the SQLite file `path`, made where it does not exist.

    Threads may share one Archive and processes may share one file. A page is there for good as
    soon as `keep` returns. Every method raises `Failed`: disk_full, archive_busy or
    unreadable_archive, with what to do about it; what was stored before stays stored.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.RLock()
        with worded(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = connect(path)
        try:
            with worded(path):
                _prepare(self._file, path)
        except Failed:
            self._file.close()
            raise

    def keep(self, page: Page, asked: str = "") -> None:
        """Stores this version of the page; `asked` is the address that led to its URL."""
        self.keep_all([page])
        if asked not in ("", page.url):
            with self._writing() as file:
                file.execute("insert or replace into redirects values (?, ?)", (asked, page.url))

    def keep_all(self, pages: Iterable[Page]) -> None:
        """Stores several pages, or none of them, in one transaction."""
        with self._writing() as file:
            for page in pages:
                _insert(file, page)

    def page(self, digest: str, url: str = "") -> Page | None:
        """The version with this digest: as it was at `url`, or at any URL where none is given."""
        where, values = "versions.digest = ?", [digest]
        if url:
            where, values = f"{where} and versions.url = ?", [digest, url]
        return self._first(where, values)

    def latest(self, url: str) -> Page | None:
        """The version of this URL that was kept last, following a known redirect."""
        newest = "versions.url = ? order by seen desc"
        return self._first(newest, [url]) or self._first(
            newest.replace("?", "(select url from redirects where asked = ?)"), [url]
        )

    def keep_search(self, engine: str, query: str, hits: Sequence[Hit]) -> None:
        """Remembers what an engine showed for a query, in place of what it showed before."""
        body = zlib.compress(msgspec.msgpack.encode(list(hits)), _LEVEL)
        with self._writing() as file:
            file.execute("insert or replace into searches values (?, ?, ?)", (engine, query, body))

    def searched(self, engine: str, query: str) -> list[Hit] | None:
        """What the engine showed for the query; None where it was never asked."""
        find = "select hits from searches where engine = ? and query = ?"
        with self._reading() as file:
            row = file.execute(find, (engine, query)).fetchone()
        with self._decoding():
            return _hits.decode(zlib.decompress(row[0])) if row else None

    def close(self) -> None:
        """Lets go of the file; the Archive cannot be used after this."""
        with self._turn:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _first(self, where: str, values: list[str]) -> Page | None:
        find = (
            "select url, title, body, layout, fetched, digest "
            f"from versions join texts using (digest) where {where} limit 1"
        )
        with self._reading() as file:
            row = file.execute(find, values).fetchone()
        with self._decoding():
            return _page(*row) if row else None

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, zlib.error, msgspec.MsgspecError) as error:
            raise Failed(_failure(self._path, error)) from error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._turn, worded(self._path):
            yield self._file

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._turn, worded(self._path), transaction(self._file):
            yield self._file


def connect(path: Path) -> sqlite3.Connection:
    """A connection to the SQLite file `path` that waits for other processes and threads."""
    file = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        _log_ahead(file)
        file.execute("pragma synchronous = normal")
    except sqlite3.Error:
        file.close()
        raise
    return file


def _log_ahead(file: sqlite3.Connection) -> None:
    """Sets the journal to WAL. SQLite does not wait its turn for that, so this does."""
    patience = time.monotonic() + _BUSY_SECONDS
    while file.execute("pragma journal_mode").fetchone()[0] != "wal":
        try:
            file.execute("pragma journal_mode = wal")
        except sqlite3.OperationalError as error:
            kind = error.sqlite_errorcode & 0xFF
            if kind == sqlite3.SQLITE_READONLY:
                return  # what may only be read can still be read
            if kind != sqlite3.SQLITE_BUSY or time.monotonic() > patience:
                raise
            time.sleep(0.02)


@contextmanager
def transaction(file: sqlite3.Connection) -> Iterator[None]:
    """All of the statements within, or none; the right to write is taken at the start."""
    file.execute("begin immediate")
    try:
        yield
        file.execute("commit")
    except BaseException:
        if file.in_transaction:
            file.execute("rollback")
        raise


@contextmanager
def worded(path: Path) -> Iterator[None]:
    """Turns the errors of SQLite and of the file system on `path` into `Failed`."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # wrong use, such as of an Archive that was closed
    except (sqlite3.Error, OSError) as error:
        raise Failed(_failure(path, error)) from error


def _failure(path: Path, error: Exception) -> Failure:
    code = getattr(error, "sqlite_errorcode", 0) or 0
    kind = code & 0xFF
    if kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) or "No space left" in str(error):
        outcome = "disk_full"
        advice = "the disk is full or failing: make room and run again; what was stored is safe"
    elif kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        outcome = "archive_busy"
        advice = "another process has been writing to it for a long time: wait, then run again"
    elif kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        outcome = "unreadable_archive"
        advice = "it cannot be written: allow writing to the file and its folder, or name another"
    elif isinstance(error, OSError):
        outcome = "unreadable_archive"
        advice = "its folder cannot be made or entered: choose another place"
    else:
        outcome = "unreadable_archive"
        advice = "it is damaged: move it away and run again; a new one will be made"
    return Failure(str(path), outcome, f"{advice} ({error})")


def _prepare(file: sqlite3.Connection, path: Path) -> None:
    if _format(file) == 0:
        with transaction(file):
            if _format(file) == 0:  # no other process made the tables in the meantime
                for statement in _TABLES.split(";")[:-1]:
                    file.execute(statement)
                file.execute(f"pragma user_version = {_FORMAT}")
    if (found := _format(file)) != _FORMAT:
        detail = f"written as format {found} by a newer Rookery: update, or name another file"
        raise Failed(Failure(str(path), "unreadable_archive", detail))


def _format(file: sqlite3.Connection) -> int:
    return int(file.execute("pragma user_version").fetchone()[0])


def _insert(file: sqlite3.Connection, page: Page) -> None:
    known = file.execute("select 1 from texts where digest = ?", (page.digest,)).fetchone()
    if not known:
        body = zlib.compress(page.text.encode("utf-8", "surrogatepass"), _LEVEL)
        file.execute("insert into texts values (?, ?)", (page.digest, body))
    layout = msgspec.msgpack.encode((page.blocks, page.links, page.marks))
    # A version that comes back (A, then B, then A again) is the latest once more.
    file.execute(
        "insert or replace into versions values (?, ?, ?, ?, ?,"
        " (select coalesce(max(seen), 0) + 1 from versions where url = ?))",
        (
            page.url,
            page.digest,
            page.title,
            zlib.compress(layout, _LEVEL),
            page.fetched,
            page.url,
        ),
    )


def _page(url: str, title: str, body: bytes, layout: bytes, fetched: str, digest: str) -> Page:
    text = zlib.decompress(body).decode("utf-8", "surrogatepass")
    blocks, links, marks = _layout.decode(zlib.decompress(layout))
    return Page(url, title, text, blocks, links, marks, digest, fetched)

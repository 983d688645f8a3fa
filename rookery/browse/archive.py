"""Keeps every version of every page that was opened, and what searches showed, in one file.

Pages are found by digest and URL.
"""

import hashlib
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from rookery.records import Block, Failed, Failure, Hit, Link, Mark, Page, Quote

_FORMAT = 2
_BUSY_SECONDS = 60.0
_LEVEL = 3  # of zlib: nearly as small as the default for prose, at half the time

_TABLES = """
create table if not exists texts (digest text primary key, body blob not null) without rowid;
create table if not exists layouts (digest text primary key, body blob not null) without rowid;
create table if not exists versions (
    number integer primary key, url text not null, digest text not null, title text not null,
    layout text not null, fetched text not null, seen integer not null,
    unique (url, digest, title, layout)
);
create index versions_by_digest on versions (digest);
create index versions_by_url on versions (url, seen);
create table if not exists redirects (asked text primary key, url text not null) without rowid;
create table if not exists searches (
    engine text not null, query text not null, hits blob not null, primary key (engine, query)
) without rowid;
"""

# Format 1 kept one title and layout for each text of a URL, in the row itself.
_FROM_FORMAT_1 = """
drop index versions_by_digest;
alter table versions rename to former;
"""

Layout = tuple[tuple[Block, ...], tuple[Link, ...], tuple[Mark, ...]]
T = TypeVar("T")
_layout = msgspec.msgpack.Decoder(Layout)
_hits = msgspec.msgpack.Decoder(list[Hit])


class Archive:
    """A store of pages in the SQLite file `path`, made where it does not exist.

    Threads may share one Archive and processes may share one file. A page is there for good as
    soon as `keep` returns. Every method raises `Failed`: disk_full, archive_busy or
    unreadable_archive, with what to do about it; what was stored before stays stored. A version
    is one text, title and layout (blocks, links, marks) at one URL; of the times when it was
    fetched, the last is kept.
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
        with self.writing() as file:
            insert(file, page, asked)

    def keep_all(self, pages: Iterable[Page]) -> None:
        """Stores several pages, or none of them, in one transaction."""
        with self.writing() as file:
            for page in pages:
                insert(file, page)

    def pages(self) -> Iterator[Page]:
        """Every version of every page, in the order in which they were first kept."""
        with self.reading() as file:
            numbers = file.execute("select number from versions order by number").fetchall()
        return (self.version(number) for (number,) in numbers)

    def version(self, number: int) -> Page:
        """The version that has this number from `insert`."""
        page = self._first("number = ?", [number])
        with self.decoding():
            if page is None:
                raise ValueError(f"there is no version {number}")
            return page

    def page(self, digest: str, url: str = "") -> Page | None:
        """The version with this digest: as it was at `url`, or at any URL where none is given."""
        last = "order by seen desc"
        if url:
            return self._first(f"versions.digest = ? and url = ? {last}", [digest, column(url)])
        return self._first(f"versions.digest = ? {last}", [digest])

    def latest(self, url: str) -> Page | None:
        """The version of this URL that was kept last, following a known redirect."""
        newest = "url = ? order by seen desc"
        return self._first(newest, [column(url)]) or self._first(
            newest.replace("?", "(select url from redirects where asked = ?)"), [column(url)]
        )

    def versions_at(self, url: str) -> Iterator[Page]:
        """The stored versions of this URL, the one that was kept last first, following a known
        redirect."""
        at = "url = ? or url = (select url from redirects where asked = ?)"
        with self.reading() as file:
            find = f"select number from versions where {at} order by url = ? desc, seen desc"
            numbers = file.execute(find, [column(url)] * 3).fetchall()
        return (self.version(number) for (number,) in numbers)

    def find_quoted(self, quote: Quote) -> Page | None:
        """The stored version that comes nearest to what a quote names; None: none has its digest.

        Of the versions with this digest those that were read from the quote's URL come first, then
        those to which that URL redirects, which are given under it; among equals the one with the
        quote's title. A version at any other URL shows that the text is known, but not from there.
        """
        url = column(quote.url)
        with self.reading() as file:
            find = "select url from redirects where asked = ?"
            target = next(iter(file.execute(find, [url])), (url,))[0]
        page = self._first(
            "versions.digest = ?"
            " order by url = ? desc, url = ? desc, title = ? desc, fetched desc, number",
            [quote.digest, url, target, column(quote.title)],
        )
        if page is not None and page.url != quote.url and column(page.url) == target:
            return msgspec.structs.replace(page, url=quote.url)
        return page

    def keep_search(self, engine: str, query: str, hits: Sequence[Hit]) -> None:
        """Remembers what an engine showed for a query, in place of what it showed before."""
        row = (column(engine), column(query), packed(list(hits)))
        with self.writing() as file:
            file.execute("insert or replace into searches values (?, ?, ?)", row)

    def searched(self, engine: str, query: str) -> list[Hit] | None:
        """What the engine showed for the query; None where it was never asked."""
        find = "select hits from searches where engine = ? and query = ?"
        with self.reading() as file:
            row = file.execute(find, (column(engine), column(query))).fetchone()
        with self.decoding():
            return unpacked(row[0], _hits) if row else None

    def count_versions(self) -> tuple[int, int]:
        """The number of pages (by address), and of the versions that are kept of them."""
        with self.reading() as file:
            find = "select count(distinct url), count(*) from versions"
            pages, versions = file.execute(find).fetchone()
        return int(pages), int(versions)

    def unused_versions(self, before: str, digests: Set[str], numbers: Set[int]) -> list[int]:
        """The versions that were last fetched before this time (UTC, ISO 8601), but for those of
        these texts and of these numbers. A version whose time is not known is not among them."""
        find = "select number, digest from versions where fetched != '' and fetched < ?"
        with self.reading() as file:
            rows = file.execute(find, (before,)).fetchall()
        return [n for n, digest in rows if n not in numbers and digest not in digests]

    def forget_versions(self, numbers: Sequence[int]) -> None:
        """Deletes these versions, all or none, and gives the room back to the disk."""
        with self.writing() as file:
            delete = "delete from versions where number = ?"
            file.executemany(delete, [(number,) for number in numbers])
            for table, column_of in (("texts", "digest"), ("layouts", "layout")):
                used = f"(select {column_of} from versions)"
                file.execute(f"delete from {table} where digest not in {used}")
            file.execute("delete from redirects where url not in (select url from versions)")
        with self.reading() as file:
            file.execute("vacuum")
            file.execute("pragma wal_checkpoint(truncate)")

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

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The file, for this thread alone: for who keeps other tables in it."""
        with self._turn, worded(self._path):
            yield self._file

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The file, for this thread alone, in one transaction: all of it is stored, or nothing."""
        with self._turn, worded(self._path), transaction(self._file):
            yield self._file

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Says of what cannot be decoded that the file is damaged."""
        try:
            yield
        except (ValueError, zlib.error, msgspec.MsgspecError) as error:
            raise Failed(_failure(self._path, error)) from error

    def _first(self, where: str, values: Sequence[str | bytes | int]) -> Page | None:
        find = (
            "select url, title, texts.body, layouts.body, fetched, versions.digest from versions"
            " join texts on texts.digest = versions.digest"
            f" join layouts on layouts.digest = versions.layout where {where} limit 1"
        )
        with self.reading() as file:
            row = file.execute(find, values).fetchone()
        with self.decoding():
            return _page(*row) if row else None


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
    tables = {name for (name,) in file.execute("select name from sqlite_master")}
    if tables and "versions" not in tables:
        detail = "it is the database of another program: name another file"
        raise Failed(Failure(str(path), "unreadable_archive", detail))
    if _format(file) < _FORMAT:
        with transaction(file):
            _make(file)
    if (found := _format(file)) != _FORMAT:
        detail = f"written as format {found} by a newer Rookery: update, or name another file"
        raise Failed(Failure(str(path), "unreadable_archive", detail))


def _make(file: sqlite3.Connection) -> None:
    """Makes the tables, unless another process has made them in the meantime."""
    found = _format(file)
    if found >= _FORMAT:
        return
    for statement in (_FROM_FORMAT_1 if found == 1 else "").split(";")[:-1]:
        file.execute(statement)
    for statement in _TABLES.split(";")[:-1]:
        file.execute(statement)
    if found == 1:
        for layout, *row in file.execute(
            "select layout, url, digest, title, fetched from former order by seen, fetched, url"
        ):
            _version(file, zlib.decompress(layout), *row)
        file.execute("drop table former")
    file.execute(f"pragma user_version = {_FORMAT}")


def _format(file: sqlite3.Connection) -> int:
    return int(file.execute("pragma user_version").fetchone()[0])


def insert(file: sqlite3.Connection, page: Page, asked: str = "") -> int:
    """Adds this version of the page within a transaction, as `Archive.keep`; gives its number."""
    _add(file, "texts", page.digest, page.text.encode("utf-8", "surrogatepass"))
    if asked not in ("", page.url):
        redirect = (column(asked), column(page.url))
        file.execute("insert or replace into redirects values (?, ?)", redirect)
    layout = _encoded((page.blocks, page.links, page.marks))
    row = (column(page.url), page.digest, column(page.title), column(page.fetched))
    return _version(file, layout, *row)


def _version(
    file: sqlite3.Connection,
    layout: bytes,
    url: str | bytes,
    digest: str,
    title: str | bytes,
    fetched: str | bytes,
) -> int:
    name = hashlib.sha256(layout).hexdigest()[:32]
    _add(file, "layouts", name, layout)
    # A version that comes back (A, then B, then A again) is the latest once more.
    seen = "(select coalesce(max(seen), 0) + 1 from versions where url = ?)"
    find = "select number from versions where url = ? and digest = ? and title = ? and layout = ?"
    if known := file.execute(find, (url, digest, title, name)).fetchone():
        change = f"update versions set fetched = ?, seen = {seen} where number = ?"
        file.execute(change, (fetched, url, *known))
        return int(known[0])
    new = f"insert into versions values (null, ?, ?, ?, ?, ?, {seen})"
    return file.execute(new, (url, digest, title, name, fetched, url)).lastrowid or 0


def _add(file: sqlite3.Connection, table: str, digest: str, content: bytes) -> None:
    if not file.execute(f"select 1 from {table} where digest = ?", (digest,)).fetchone():
        body = zlib.compress(content, _LEVEL)
        file.execute(f"insert into {table} values (?, ?)", (digest, body))


def _page(
    url: str | bytes,
    title: str | bytes,
    body: bytes,
    layout: bytes,
    fetched: str | bytes,
    digest: str,
) -> Page:
    text = zlib.decompress(body).decode("utf-8", "surrogatepass")
    blocks, links, marks = unpacked(layout, _layout)
    return Page(string(url), string(title), text, blocks, links, marks, digest, string(fetched))


def column(string: str) -> str | bytes:
    """A string as SQLite takes it: one with lone surrogates, which are no Unicode, as bytes."""
    try:
        string.encode()
    except UnicodeEncodeError:
        return string.encode("utf-8", "surrogatepass")
    return string


def string(column: str | bytes) -> str:
    """The string that `column` made ready."""
    return column if isinstance(column, str) else column.decode("utf-8", "surrogatepass")


def packed(value: object) -> bytes:
    """Records and containers of records as compressed MessagePack, whatever their strings hold."""
    return zlib.compress(_encoded(value), _LEVEL)


def unpacked(body: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """What was packed. Raises one of the errors that `Archive.decoding` words."""
    data = zlib.decompress(body)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        return msgspec.convert(_changed(msgspec.msgpack.decode(data), bytes, string), decoder.type)


def _encoded(value: object) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(_changed(msgspec.to_builtins(value), str, column))


def _changed(value: Any, kind: type[T], change: Callable[[T], object]) -> Any:
    """A value of plain containers, with everything of this kind in it changed."""
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {name: _changed(each, kind, change) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(each, kind, change) for each in value]
    return value

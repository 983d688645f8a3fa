"""Store every version of every page that was opened, and the results of searches, in one SQLite
file or, for several machines, in a PostgreSQL database.

Pages are found by digest and by URL.
"""

import hashlib
import os
import re
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import msgspec

from rookery.errors import Failed, Outcome
from rookery.records import Block, Failure, Hit, Link, Mark, Page, Quote, prepare_type

if TYPE_CHECKING:
    from rookery.library.postgres_archive import PostgresDatabase

_ARCHIVE_FORMAT = 2
_BUSY_SECONDS = 60.0
_VERSIONS_AT_ONCE = 64
_ZLIB_LEVEL = 3  # of zlib: nearly as small as the default for prose, at half the time

_TABLES = Path(__file__).with_suffix(".sql").read_text("utf-8")

# Format 1 kept one title and layout for each text of a URL, in the row itself.
_MIGRATION_FROM_FORMAT_1 = """
drop index versions_by_digest;
alter table versions rename to former;
"""

StoredLayout = tuple[tuple[Block, ...], tuple[Link, ...], tuple[Mark, ...]]
T = TypeVar("T")
_layout_decoder = msgspec.msgpack.Decoder(prepare_type(StoredLayout))
_hits_decoder = msgspec.msgpack.Decoder(prepare_type(list[Hit]))


class ArchiveConnection(Protocol):
    """A connection to the database of an archive, whose statements have `?` for each value."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Any:
        """Run one statement and return its cursor."""
        ...


ConnectionOpener = Callable[[], AbstractContextManager[ArchiveConnection]]


class SqliteDatabase:
    """The SQLite file of an archive, made where it does not exist. Threads may share one object."""

    damage_advice = "it is damaged: move it away and run again; a new one will be made"

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._lock = threading.RLock()
        with self.translate_errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = connect_sqlite(path)
        try:
            with self.translate_errors():
                _prepare_tables(self._connection, path)
        except Failed:
            self._connection.close()
            raise

    @contextmanager
    def lock_connection(self) -> Iterator[sqlite3.Connection]:
        """Give the connection to the block, which holds the lock; each statement is committed.

        Errors of SQLite and of the file system in the block become Failed.
        """
        with self._lock, self.translate_errors():
            yield self._connection

    @contextmanager
    def begin_write(self) -> Iterator[sqlite3.Connection]:
        """Give the connection to the block, which holds the lock and is one transaction.

        Where the block raises, nothing of it is stored; errors of SQLite and of the file system
        become Failed.
        """
        with self._lock, self.translate_errors(), begin_transaction(self._connection):
            yield self._connection

    def create_tables(self, statements: str) -> None:
        """Run these `create ... if not exists ...;` statements where a name is missing."""
        wanted = re.findall(r"if not exists (\w+)", statements)
        with self.lock_connection() as file:
            found = file.execute("select name from sqlite_master").fetchall()
        if not {(name,) for name in wanted} <= set(found):
            with self.begin_write() as file:
                for statement in statements.split(";")[:-1]:
                    file.execute(statement)

    def release_space(self) -> None:
        """Return the space of what was deleted to the disk."""
        with self.lock_connection() as file:
            file.execute("vacuum")
            file.execute("pragma wal_checkpoint(truncate)")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn the errors of SQLite and of the file system into `Failed`."""
        with translate_storage_errors(self._path):
            yield


class PageArchive:
    """A store of pages in a SQLite file, made where it does not exist, or a PostgreSQL database.

    `place` is the file, or an address such as postgresql://HOST/DATABASE. Threads may share one
    archive, processes one file, and machines one database. A page is there for good as
    soon as `store_page` returns. Every method raises `Failed`: disk_full, archive_busy or
    unreadable_archive, with what to do about it; what was stored before stays stored. A version
    is one text, title and layout (blocks, links, marks) at one URL; of the times when it was
    fetched, the last is kept. A text, or a layout, is stored once, whoever stores it.
    """

    def __init__(self, place: Path | str) -> None:
        self._database = _open_database(place)
        self.name = self._database.name
        """place of the archive, without a password"""
        self.lock_connection: ConnectionOpener = self._database.lock_connection
        """gives a connection for reading, also of other tables in the same database"""
        self.begin_write: ConnectionOpener = self._database.begin_write
        """gives a connection in a transaction, alone among all that write to the database; where
        the body raises, nothing of what it wrote is stored"""
        self.create_tables = self._database.create_tables
        """creates other tables in the same database, where one of them is missing"""
        self.close = self._database.close
        """closes the database; the archive cannot be used after this"""

    def store_page(self, page: Page, requested_url: str = "") -> None:
        """Store this version of the page, also a known one, as the latest of its URL.

        `requested_url`, if it is another address than the page's URL, is recorded as a redirect.
        """
        with self.begin_write() as file:
            insert_page(file, page, requested_url)

    def store_pages(self, pages: Iterable[Page]) -> None:
        """Store several pages, or none of them, in one transaction."""
        with self.begin_write() as file:
            for page in pages:
                insert_page(file, page)

    def iter_pages(self) -> Iterator[Page]:
        """Yield every version of every page, in the order in which they were first kept."""
        with self.lock_connection() as file:
            numbers = file.execute("select number from versions order by number").fetchall()
        return (self.load_version(number) for (number,) in numbers)

    def load_version(self, number: int) -> Page:
        """Return the version of a page with this number, as `insert_page` returned it.

        Raises Failed: not_in_archive where there is none.
        """
        page = self.find_version(number)
        if page is None:
            detail = f"there is no version {number} in it"
            raise Failed(Failure(self.name, Outcome.NOT_IN_ARCHIVE, detail))
        return page

    def find_version(self, number: int) -> Page | None:
        """Return the version with this number; None where there is none."""
        page = self._find_first("number = ?", [number])
        with self.lock_connection() as file:
            find = "select 1 from versions where number = ?"
            known = page is not None or file.execute(find, [number]).fetchone()
        with self.translate_decode_errors():
            if page is None and known:
                raise ValueError(f"the text or layout of version {number} is missing")
        return page

    def find_page(self, digest: str, url: str = "") -> Page | None:
        """Return the stored version whose text has this digest; None if there is none.

        It is the one at `url`, of several there the one stored last. Without a `url` it is at any
        URL, and of several the one fetched last.
        """
        if url:  # `seen` counts the versions of one URL
            where = "versions.digest = ? and url = ? order by seen desc"
            return self._find_first(where, [digest, encode_column(url)])
        return self._find_first("versions.digest = ? order by fetched desc, number desc", [digest])

    def find_latest(self, url: str) -> Page | None:
        """Return the version of this URL that was stored last, following a known redirect.

        None if there is none.
        """
        newest = "url = ? order by seen desc"
        return self._find_first(newest, [encode_column(url)]) or self._find_first(
            newest.replace("?", "(select url from redirects where asked = ?)"), [encode_column(url)]
        )

    def load_latest(self, url: str) -> Page:
        """Return the page of an address as `find_latest`. Raises Failed: not_in_archive."""
        page = self.find_latest(url)
        if page is None:
            detail = "this page was never opened: open it once without --offline"
            raise Failed(Failure(url, Outcome.NOT_IN_ARCHIVE, detail))
        return page

    def find_versions(self, url: str) -> Iterator[Page]:
        """Yield the stored versions of this URL, the last one first, following a known redirect.

        The versions of the redirect's target come after the URL's own.
        """
        at = "url = ? or url = (select url from redirects where asked = ?)"
        with self.lock_connection() as file:
            find = f"select number from versions where {at} order by url = ? desc, seen desc"
            numbers = file.execute(find, [encode_column(url)] * 3).fetchall()
        return (self.load_version(number) for (number,) in numbers)

    def find_quoted(self, quote: Quote) -> Page | None:
        """Return the stored version that comes nearest to what a quote names.

        None if none has its digest. Of the versions with this digest those that were read from the
        quote's URL come first, then those to which that URL redirects, which are given under it;
        among equals the one with the quote's title. A version at any other URL shows that the text
        is known, but not from there.
        """
        url = encode_column(quote.url)
        with self.lock_connection() as file:
            find = "select url from redirects where asked = ?"
            target = next(iter(file.execute(find, [url])), (url,))[0]
        page = self._find_first(
            "versions.digest = ?"
            " order by url = ? desc, url = ? desc, title = ? desc, fetched desc, number",
            [quote.digest, url, target, encode_column(quote.title)],
        )
        if page is not None and page.url != quote.url and page.url == decode_column(target):
            return msgspec.structs.replace(page, url=quote.url)
        return page

    def store_search(self, engine: str, query: str, hits: Sequence[Hit]) -> None:
        """Store the hits that an engine returned for a query, replacing earlier ones."""
        row = (encode_column(engine), encode_column(query), pack_records(list(hits)))
        with self.begin_write() as file:
            _replace_row(file, "searches", ("engine", "query", "hits"), row, 2)

    def find_search(self, engine: str, query: str) -> list[Hit] | None:
        """Return the hits that an engine showed for a query; None if it was never asked."""
        find = "select hits from searches where engine = ? and query = ?"
        with self.lock_connection() as file:
            row = file.execute(find, (encode_column(engine), encode_column(query))).fetchone()
        with self.translate_decode_errors():
            return unpack_records(row[0], _hits_decoder) if row else None

    def count_versions(self) -> tuple[int, int]:
        """Return the number of pages (by address), and of the versions that are kept of them."""
        with self.lock_connection() as file:
            find = "select count(distinct url), count(*) from versions"
            pages, versions = file.execute(find).fetchone()
        return int(pages), int(versions)

    def list_unused_versions(self, before: str, digests: Set[str], numbers: Set[int]) -> list[int]:
        """Return the numbers of the versions last fetched before this time (UTC, ISO 8601).

        Left out are texts with one of these digests, versions with one of these numbers, and
        versions whose time is not known.
        """
        find = "select number, digest from versions where fetched != '' and fetched < ?"
        with self.lock_connection() as file:
            rows = file.execute(find, (before,)).fetchall()
        return [
            number
            for number, digest in rows
            if number not in numbers and decode_column(digest) not in digests
        ]

    def list_versions_at(self, url: str) -> dict[int, str]:
        """Return the digests of all versions at an address, and below it, by number."""
        below = f"{url.rstrip('/')}/"
        with self.lock_connection() as file:
            find = "select number, digest from versions where url = ? or substr(url, 1, ?) = ?"
            return dict(file.execute(find, (encode_column(url), len(below), below)).fetchall())

    def delete_versions(self, numbers: Sequence[int]) -> None:
        """Delete these versions in one transaction and return their space to the disk.

        Texts and layouts that no other version has, and redirects to URLs without versions, go with
        them. A SQLite file is rewritten, which takes long for a large one.
        """
        with self.begin_write() as file:
            for number in numbers:
                file.execute("delete from versions where number = ?", (number,))
            for table, column_of in (("texts", "digest"), ("layouts", "layout")):
                used = f"(select {column_of} from versions)"
                file.execute(f"delete from {table} where digest not in {used}")
            file.execute("delete from redirects where url not in (select url from versions)")
        self._database.release_space()

    def copy_archive(self, other: "PageArchive") -> int:
        """Store another archive's pages, redirects and searches; return the number of its versions.

        The latest version of an address there is the latest here, too. Recorded sessions are not
        copied.
        """
        with other.lock_connection() as file:
            numbers = file.execute("select number from versions order by seen, number").fetchall()
            redirects = file.execute("select asked, url from redirects").fetchall()
            searches = file.execute("select engine, query, hits from searches").fetchall()
        for start in range(0, len(numbers), _VERSIONS_AT_ONCE):
            some = numbers[start : start + _VERSIONS_AT_ONCE]
            self.store_pages(other.load_version(number) for (number,) in some)
        with self.begin_write() as file:
            for redirect in redirects:
                _replace_row(file, "redirects", ("asked", "url"), redirect, 1)
            for search in searches:
                _replace_row(file, "searches", ("engine", "query", "hits"), search, 2)
        return len(numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def translate_decode_errors(self) -> Iterator[None]:
        """Raise Failed (unreadable_archive) in place of errors in decoding stored data."""
        try:
            yield
        except (ValueError, zlib.error, msgspec.MsgspecError) as error:
            detail = f"{self._database.damage_advice} ({error})"
            raise Failed(Failure(self.name, Outcome.UNREADABLE_ARCHIVE, detail)) from error

    def _find_first(self, where: str, values: Sequence[str | bytes | int]) -> Page | None:
        find = (
            "select url, title, versions.digest, fetched, texts.body, layouts.body from versions"
            " join texts on texts.digest = versions.digest"
            f" join layouts on layouts.digest = versions.layout where {where} limit 1"
        )
        with self.lock_connection() as file:
            row = file.execute(find, values).fetchone()
        with self.translate_decode_errors():
            return _decode_page(row) if row else None


def _open_database(place: Path | str) -> "SqliteDatabase | PostgresDatabase":
    if isinstance(place, Path) or "://" not in place:
        return SqliteDatabase(Path(place))
    try:
        from rookery.library.postgres_archive import PostgresDatabase
    except ModuleNotFoundError as error:
        detail = f"PostgreSQL needs more: pip install 'rookery[serve,postgres]' ({error})"
        raise Failed(Failure("the archive", Outcome.NO_ARCHIVE, detail)) from error
    return PostgresDatabase(place)


def connect_sqlite(path: Path) -> sqlite3.Connection:
    """Return a connection to the SQLite file `path` that waits for other processes and threads.

    It waits for a minute at most, commits each statement, and may be used by any thread, by one at
    a time. Raises sqlite3.Error.
    """
    file = sqlite3.connect(path, _BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        _enable_wal(file)
        file.execute("pragma synchronous = normal")
    except sqlite3.Error:
        file.close()
        raise
    return file


def _enable_wal(file: sqlite3.Connection) -> None:
    """Set the journal to WAL. SQLite does not wait its turn for that, so this does."""
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
def begin_transaction(file: sqlite3.Connection) -> Iterator[None]:
    """Run the statements inside in one transaction, with the write lock taken at its start.

    It is rolled back where the block raises.
    """
    file.execute("begin immediate")
    try:
        yield
        file.execute("commit")
    except BaseException:
        if file.in_transaction:
            file.execute("rollback")
        raise


@contextmanager
def translate_storage_errors(path: Path) -> Iterator[None]:
    """Raise the errors of SQLite and of the file system in the block as Failed about `path`.

    Outcomes: disk_full, archive_busy, unreadable_archive. Wrong use (`sqlite3.ProgrammingError`)
    passes through.
    """
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # wrong use, such as of a PageArchive that was closed
    except (sqlite3.Error, OSError) as error:
        raise Failed(_describe_error(path, error)) from error


def write_whole_file(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a file completely, or leave it as it was; its folder must be there. Raises OSError."""
    new = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    try:
        with new.open("wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _describe_error(path: Path, error: Exception) -> Failure:
    code = getattr(error, "sqlite_errorcode", 0) or 0
    kind = code & 0xFF
    outcome, advice = Outcome.UNREADABLE_ARCHIVE, SqliteDatabase.damage_advice
    if kind in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR) or "No space left" in str(error):
        outcome = Outcome.DISK_FULL
        advice = "the disk is full or failing: make room and run again; what was stored is safe"
    elif kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        outcome = Outcome.ARCHIVE_BUSY
        advice = "another process has been writing to it for a long time: wait, then run again"
    elif kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        advice = "it cannot be written: allow writing to the file and its folder, or name another"
    elif isinstance(error, OSError):
        advice = "its folder cannot be made or entered: choose another place"
    return Failure(str(path), outcome, f"{advice} ({error})")


def _prepare_tables(file: sqlite3.Connection, path: Path) -> None:
    tables = {name for (name,) in file.execute("select name from sqlite_master")}
    if tables and "versions" not in tables:
        detail = "it is the database of another program: name another file"
        raise Failed(Failure(str(path), Outcome.UNREADABLE_ARCHIVE, detail))
    if _read_format(file) < _ARCHIVE_FORMAT:
        with begin_transaction(file):
            _create_tables(file)
    if (stored_format := _read_format(file)) != _ARCHIVE_FORMAT:
        written = f"written as format {stored_format} by a newer Rookery"
        detail = f"{written}: update, or name another file"
        raise Failed(Failure(str(path), Outcome.UNREADABLE_ARCHIVE, detail))


def _create_tables(file: sqlite3.Connection) -> None:
    """Make the tables, unless another process has made them in the meantime."""
    stored_format = _read_format(file)
    if stored_format >= _ARCHIVE_FORMAT:
        return
    for statement in (_MIGRATION_FROM_FORMAT_1 if stored_format == 1 else "").split(";")[:-1]:
        file.execute(statement)
    for statement in _TABLES.split(";")[:-1]:
        file.execute(statement)
    if stored_format == 1:
        for layout, *row in file.execute(
            "select layout, url, digest, title, fetched from former order by seen, fetched, url"
        ):
            _insert_version(file, zlib.decompress(layout), row)
        file.execute("drop table former")
    file.execute(f"pragma user_version = {_ARCHIVE_FORMAT}")


def _read_format(file: sqlite3.Connection) -> int:
    return int(file.execute("pragma user_version").fetchone()[0])


def insert_page(file: ArchiveConnection, page: Page, requested_url: str = "") -> int:
    """Store a version of a page, within a transaction, and return its number.

    One that is stored already keeps its number and becomes the latest of its URL. `requested_url`,
    if it is another address than the page's URL, is recorded as a redirect to it.
    """
    _insert_blob(file, "texts", page.digest, page.text.encode("utf-8", "surrogatepass"))
    if requested_url not in ("", page.url):
        redirect = (encode_column(requested_url), encode_column(page.url))
        _replace_row(file, "redirects", ("asked", "url"), redirect, 1)
    layout = _encode_msgpack((page.blocks, page.links, page.marks))
    strings = (page.url, page.digest, page.title, page.fetched)
    return _insert_version(file, layout, [*map(encode_column, strings)])


def _replace_row(
    file: ArchiveConnection, table: str, columns: Sequence[str], row: Sequence[Any], keys: int
) -> None:
    """Store a row in place of that with the same first `keys` values."""
    where = " and ".join(f"{column} = ?" for column in columns[:keys])
    file.execute(f"delete from {table} where {where}", row[:keys])
    file.execute(f"insert into {table} values ({', '.join('?' * len(row))})", row)


def _insert_version(file: ArchiveConnection, layout: bytes, row: Sequence[str | bytes]) -> int:
    url, digest, title, fetched = row
    name = hashlib.sha256(layout).hexdigest()[:32]
    _insert_blob(file, "layouts", name, layout)
    # A version that comes back (A, then B, then A again) is the latest once more.
    next_seen = "(select coalesce(max(seen), 0) + 1 from versions where url = ?)"
    find = "select number from versions where url = ? and digest = ? and title = ? and layout = ?"
    if version_row := file.execute(find, (url, digest, title, name)).fetchone():
        change = f"update versions set fetched = ?, seen = {next_seen} where number = ?"
        file.execute(change, (fetched, url, *version_row))
        return int(version_row[0])
    columns = "url, digest, title, layout, fetched, seen"
    new = f"insert into versions ({columns}) values (?, ?, ?, ?, ?, {next_seen})"
    file.execute(new, (url, digest, title, name, fetched, url))
    return int(file.execute(find, (url, digest, title, name)).fetchone()[0])


def _insert_blob(file: ArchiveConnection, table: str, digest: str, content: bytes) -> None:
    if not file.execute(f"select 1 from {table} where digest = ?", (digest,)).fetchone():
        body = zlib.compress(content, _ZLIB_LEVEL)
        file.execute(f"insert into {table} values (?, ?)", (digest, body))


def _decode_page(row: Sequence[Any]) -> Page:
    *strings, body, layout = row
    url, title, digest, fetched = map(decode_column, strings)
    text = zlib.decompress(body).decode("utf-8", "surrogatepass")
    blocks, links, marks = unpack_records(layout, _layout_decoder)
    return Page(url, title, text, blocks, links, marks, digest, fetched)


def encode_column(string: str) -> str | bytes:
    """Return a string as SQLite can store it: as bytes if it has lone surrogates, else as it is."""
    try:
        string.encode()
    except UnicodeEncodeError:
        return string.encode("utf-8", "surrogatepass")
    return string


def decode_column(column: str | bytes) -> str:
    """Return the string of a column: bytes hold one with lone surrogates (see `encode_column`)."""
    return column if isinstance(column, str) else column.decode("utf-8", "surrogatepass")


def pack_records(value: object) -> bytes:
    """Encode a record, or a container of records, as compressed MessagePack.

    Strings may have lone surrogates.
    """
    return zlib.compress(_encode_msgpack(value), _ZLIB_LEVEL)


def unpack_records(body: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """Decode compressed MessagePack, as `pack_records` writes it.

    For damaged data it raises an error that `translate_decode_errors` turns into Failed.
    """
    data = zlib.decompress(body)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        plain = convert_nested(msgspec.msgpack.decode(data), bytes, decode_column)
        return msgspec.convert(plain, prepare_type(decoder.type))


def _encode_msgpack(value: object) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except UnicodeEncodeError:
        plain = convert_nested(msgspec.to_builtins(value), str, encode_column)
        return msgspec.msgpack.encode(plain)


def convert_nested(value: Any, kind: type[T], change: Callable[[T], object]) -> Any:
    """Return nested dicts and lists with `change` applied to each value of type `kind` in them.

    Keys of dicts stay as they are, and tuples become lists.
    """
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {name: convert_nested(each, kind, change) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [convert_nested(each, kind, change) for each in value]
    return value

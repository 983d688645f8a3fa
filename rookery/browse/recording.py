"""What sessions asked of a library and what they were given, to be given again without a network.

It knows nothing of where answers come from, nor of what a session does with them.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
from typing import Self, TypeVar

import msgspec

from rookery.browse.archive import Archive, column, insert, packed, string, unpacked
from rookery.records import Failed, Failure, Hit, Library, Page, Record

_TABLES = """
create table if not exists sessions (
    number integer primary key, name text not null unique, about blob not null
);
create table if not exists calls (
    number integer primary key, session integer not null, kind text not null, what text not null,
    k integer not null, outcome text not null, started text not null, seconds real not null,
    answer blob not null
);
create index if not exists calls_by_session on calls (session);
create index if not exists calls_by_what on calls (what, kind, k);
"""
_NUMBER = "(select number from sessions where name = ?)"

T = TypeVar("T")
_Key = tuple[str, str, int]


class Call(Record, frozen=True):
    """One search or fetch of a session: what was asked, when, and how it ended."""

    kind: str
    """search or fetch"""
    what: str
    """the query or the address"""
    k: int
    """results that were asked for; 0 of a fetch"""
    outcome: str
    """of the failure; empty where there was none"""
    started: str
    """UTC, ISO 8601"""
    seconds: float


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call gave: hits, or a version of a page as it was fetched then, or a failure."""

    hits: list[Hit] = []
    version: int = 0
    fetched: str = ""
    failure: Failure | None = None


_answer = msgspec.msgpack.Decoder(_Answer)


class Recording:
    """Everything that sessions asked of a library and what they were given, in one SQLite file.

    The file is an Archive too, of every page that was given. Threads may share one Recording and
    processes may share one file. A call is there for good before its answer is given. Every
    method raises `Failed` as those of Archive do.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._archive = Archive(path)
        try:
            with self._archive.reading() as file:
                find = "select 1 from sqlite_master where name = 'calls_by_what'"
                known = file.execute(find).fetchone()
            if not known:
                with self._archive.writing() as file:
                    for statement in _TABLES.split(";")[:-1]:
                        file.execute(statement)
        except Failed:
            self._archive.close()
            raise

    def begin(self, session: str, about: bytes) -> None:
        """Begins a session, in place of the one that had this name; `about` is kept as it is."""
        name = column(session)
        with self._archive.writing() as file:
            _forget(file, name)
            file.execute("insert into sessions values (null, ?, ?)", (name, about))

    def rename(self, session: str, name: str) -> None:
        """Gives a session another name, in place of the one that had it. Raises as `about` does."""
        self.about(session)
        with self._archive.writing() as file:
            _forget(file, column(name))
            rename = "update sessions set name = ? where name = ?"
            file.execute(rename, (column(name), column(session)))

    def sessions(self) -> list[str]:
        """The names of all sessions, in the order in which they began."""
        with self._archive.reading() as file:
            rows = file.execute("select name from sessions order by number").fetchall()
        return [string(name) for (name,) in rows]

    def about(self, session: str) -> bytes:
        """What `begin` was told of this session. Raises `Failed` (not_recorded)."""
        find = "select about from sessions where name = ?"
        with self._archive.reading() as file:
            row = file.execute(find, (column(session),)).fetchone()
        if row is None:
            detail = f"{self._path} has no session of this name: begin it, or name another"
            raise Failed(Failure(session, "not_recorded", detail))
        return bytes(row[0])

    def calls(self, session: str) -> list[Call]:
        """What the session asked, in the order of the answers. Raises `Failed` (not_recorded)."""
        self.about(session)
        find = "select kind, what, k, outcome, started, seconds from calls where session ="
        with self._archive.reading() as file:
            rows = file.execute(f"{find} {_NUMBER} order by number", (column(session),)).fetchall()
        return [
            Call(kind, string(what), k, string(outcome), started, seconds)
            for kind, what, k, outcome, started, seconds in rows
        ]

    def record(self, library: Library, session: str) -> Library:
        """The library, all of whose answers are written down for a session before they are given.

        What it raises besides `Failed` becomes a `Failed` (library_failed). Raises `Failed`
        (not_recorded) where the session was not begun.
        """
        self.about(session)
        return _Recorder(self._archive, library, session)

    def replay(self, session: str) -> Library:
        """A library that answers from what was written down, and asks nobody.

        When something is asked for the n-th time, it is given as it was for the n-th time in the
        session, or for the last time. What the session never asked is given as any session got it
        first. What none asked, and a session that was not begun, raise `Failed` (not_recorded).
        """
        self.about(session)
        return _Player(self._archive, session)

    def pages(self) -> Iterator[Page]:
        """Every version of every page, in the order in which they were first given."""
        return self._archive.pages()

    def versions_in_use(self) -> frozenset[int]:
        """The numbers of the versions of pages that were given to any session."""
        with self._archive.reading() as file:
            bodies = file.execute("select answer from calls where kind = 'fetch'").fetchall()
        with self._archive.decoding():
            return frozenset(unpacked(body, _answer).version for (body,) in bodies) - {0}

    def close(self) -> None:
        """Lets go of the file; neither the Recording nor its libraries can be used after this."""
        self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _forget(file: Connection, name: str | bytes) -> None:
    file.execute(f"delete from calls where session = {_NUMBER}", (name,))
    file.execute("delete from sessions where name = ?", (name,))


class _Recorder:
    """Passes on to a library and writes down what it answers."""

    def __init__(self, archive: Archive, library: Library, session: str) -> None:
        self._archive = archive
        self._library = library
        self._session = column(session)

    def search(self, query: str, k: int) -> list[Hit]:
        """What the library finds."""
        call, hits = self._asked("search", query, k, lambda: list(self._library.search(query, k)))
        self._write(call, _Answer(hits=hits))
        return hits

    def fetch(self, url: str) -> Page:
        """The page that the library has at this address."""
        call, page = self._asked("fetch", url, 0, lambda: self._library.fetch(url))
        self._write(call, _Answer(fetched=page.fetched), page)
        return page

    def _asked(self, kind: str, what: str, k: int, ask: Callable[[], T]) -> tuple[Call, T]:
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        clock = time.perf_counter()

        def call(outcome: str = "") -> Call:
            return Call(kind, what, k, outcome, started, time.perf_counter() - clock)

        try:
            answer = ask()
        except Failed as failed:
            self._write(call(failed.failure.outcome), _Answer(failure=failed.failure))
            raise
        except Exception as error:
            failure = Failure(what, "library_failed", f"{type(error).__name__}: {error}")
            self._write(call(failure.outcome), _Answer(failure=failure))
            raise Failed(failure) from error
        return call(), answer

    def _write(self, call: Call, answer: _Answer, page: Page | None = None) -> None:
        with self._archive.writing() as file:
            if page is not None:
                version = insert(file, page, asked=call.what)
                answer = msgspec.structs.replace(answer, version=version)
            file.execute(
                f"insert into calls values (null, {_NUMBER}, ?, ?, ?, ?, ?, ?, ?)",
                (
                    self._session,
                    call.kind,
                    column(call.what),
                    call.k,
                    column(call.outcome),
                    call.started,
                    call.seconds,
                    packed(answer),
                ),
            )


class _Player:
    """Answers from what was written down."""

    def __init__(self, archive: Archive, session: str) -> None:
        self._archive = archive
        self._session = column(session)
        self._turn = threading.Lock()
        self._answers: dict[_Key, list[bytes]] | None = None
        self._asked: Counter[_Key] = Counter()

    def search(self, query: str, k: int) -> list[Hit]:
        """What was found then."""
        return self._given(("search", query, k)).hits

    def fetch(self, url: str) -> Page:
        """The page as it was then."""
        answer = self._given(("fetch", url, 0))
        page = self._archive.version(answer.version)
        return msgspec.structs.replace(page, fetched=answer.fetched)

    def _given(self, key: _Key) -> _Answer:
        body = self._next(key)
        with self._archive.decoding():
            answer = unpacked(body, _answer)
        if answer.failure is not None:
            raise Failed(answer.failure)
        return answer

    def _next(self, key: _Key) -> bytes:
        with self._turn:
            if self._answers is None:
                self._answers = self._of_session()
            if key not in self._answers:
                self._answers[key] = [self._first_of_any(key)]
            answers = self._answers[key]
            number = min(self._asked[key], len(answers) - 1)
            self._asked[key] += 1
            return answers[number]

    def _of_session(self) -> dict[_Key, list[bytes]]:
        find = f"select kind, what, k, answer from calls where session = {_NUMBER} order by number"
        answers: dict[_Key, list[bytes]] = defaultdict(list)
        with self._archive.reading() as file:
            for kind, what, k, answer in file.execute(find, (self._session,)):
                answers[kind, string(what), k].append(answer)
        return dict(answers)

    def _first_of_any(self, key: _Key) -> bytes:
        kind, what, k = key
        find = "select answer from calls where kind = ? and what = ? and k = ? order by number"
        with self._archive.reading() as file:
            row = file.execute(f"{find} limit 1", (kind, column(what), k)).fetchone()
        if row is None:
            doing = "opened this address" if kind == "fetch" else f"asked this for {k} results"
            detail = f"no recorded session {doing}: do it once with the network, or ask another"
            raise Failed(Failure(what, "not_recorded", detail))
        return bytes(row[0])

"""Record what sessions ask of libraries and policies beside their pages, and replay the answers."""

import sqlite3
import threading
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from rookery.errors import Failed, Outcome
from rookery.library.page_archive import (
    ArchiveConnection,
    PageArchive,
    decode_column,
    encode_column,
    insert_page,
    pack_records,
    unpack_records,
)
from rookery.library.search_index import InMemoryLibrary
from rookery.records import Completion, Failure, Hit, Library, Page, digest_of, prepare_type


class CallTables(NamedTuple):
    """Names of the tables and columns that hold the calls of libraries, or those of policies."""

    sessions: str
    """table of the sessions"""
    name: str
    """its column with a session's name"""
    calls: str
    """table of the calls"""
    session: str
    """its column with the number of the session"""
    arguments: tuple[str, ...]
    """its columns with the arguments of a call"""
    texts: frozenset[str]
    """arguments that are stored as digests; the texts are in the table `asked`"""
    statements: str
    """statements that create the tables"""


LIBRARY_CALLS = CallTables(
    *("sessions", "name", "calls", "session"),
    ("kind", "what", "k"),
    frozenset(),
    Path(__file__).with_name("library_calls.sql").read_text("utf-8"),
)
"""arguments: "search" or "fetch", the query or address, and the number of results or 0"""

POLICY_CALLS = CallTables(
    *("transcripts", "session", "said", "transcript"),
    ("by", "prompt", "n", "seed", "grammar"),
    frozenset(("prompt", "grammar")),
    Path(__file__).with_name("policy_calls.sql").read_text("utf-8"),
)
"""arguments: the policy's name, the prompt, the number of completions, the seed and the grammar"""

Argument = str | int | None


class RecordedAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a call: hits, the version of a page, completions, or a failure."""

    hits: list[Hit] = []
    version: int = 0
    """number of the page's version in the archive; 0: no page"""
    fetched: str = ""
    """time when the page was fetched"""
    completions: tuple[Completion, ...] = ()
    failure: Failure | None = None


_answer_decoder = msgspec.msgpack.Decoder(prepare_type(RecordedAnswer))


class CallRecording:
    """A recording of calls, grouped in named sessions, in one SQLite file or archive of pages.

    The file is a PageArchive too, of every page that was given; an archive that is given in its
    place is left open. It may hold calls of libraries and
    of policies, whose sessions are independent. Threads may share one CallRecording and processes
    may share one file. An answer is on disk before it is given. Every method raises `Failed` as
    those of PageArchive do.
    """

    def __init__(self, place: Path | PageArchive, tables: CallTables = LIBRARY_CALLS) -> None:
        self._owns_archive = not isinstance(place, PageArchive)
        self.archive = place if isinstance(place, PageArchive) else PageArchive(place)
        """the pages in the file"""
        self.tables = tables
        self._number = f"(select number from {tables.sessions} where {tables.name} = ?)"
        try:
            self.archive.create_tables(tables.statements)
        except Failed:
            self.close()
            raise

    def begin_session(self, session: str, *metadata: bytes) -> None:
        """Begin an empty session; one that had this name is deleted with its calls.

        A library's session takes one piece of metadata, which is kept as it is; a policy's takes
        none.
        """
        row = (encode_column(session), *metadata)
        columns = ", ".join((self.tables.name, "about")[: len(row)])
        insert = f"insert into {self.tables.sessions} ({columns}) values (?{', ?' * len(metadata)})"
        with self.archive.begin_write() as file:
            self.delete_session(file, row[0])
            file.execute(insert, row)

    def rename_session(self, session: str, name: str) -> None:
        """Rename a session; another one that has the name is deleted. Raises Failed (not_recorded).

        Its own name changes nothing.
        """
        self.require_session(session)
        if session == name:
            return
        names = (encode_column(name), encode_column(session))
        column = self.tables.name
        with self.archive.begin_write() as file:
            self.delete_session(file, names[0])
            rename = f"update {self.tables.sessions} set {column} = ? where {column} = ?"
            file.execute(rename, names)

    def delete_session(self, file: ArchiveConnection, name: str | bytes) -> None:
        """Delete a session, by its name in the database, with its calls."""
        sessions, column, calls, session, *_ = self.tables
        file.execute(f"delete from {calls} where {session} = {self._number}", (name,))
        file.execute(f"delete from {sessions} where {column} = ?", (name,))

    def list_sessions(self) -> list[str]:
        """Return the names of all sessions, in the order in which they began."""
        rows = self.select_rows(f"{self.tables.name} from {self.tables.sessions} order by number")
        return [decode_column(name) for (name,) in rows]

    def require_session(self, session: str) -> None:
        """Raise Failed (not_recorded) where there is no session of this name."""
        if self.select_rows(self._number, session) == [(None,)]:
            detail = f"{self.archive.name} has no session of this name: begin it, or name another"
            raise Failed(Failure(session, Outcome.NOT_RECORDED, detail))

    def load_metadata(self, session: str) -> bytes:
        """Return the metadata of a library's session. Raises Failed (not_recorded)."""
        self.require_session(session)
        return bytes(self.select_rows("about from sessions where name = ?", session)[0][0])

    def make_key(self, arguments: Sequence[Argument]) -> tuple[Any, ...]:
        """Return the arguments of a call as their columns hold them: long texts as digests."""
        return tuple(
            digest_of(str(value)) if name in self.tables.texts else _encode_value(value)
            for name, value in zip(self.tables.arguments, arguments, strict=True)
        )

    def select_calls(self, session: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return these columns of each call of a session, in the order of the answers.

        An unknown session has no calls. Strings may come as bytes: `decode_column` reads both.
        """
        calls = f"{self.tables.calls} where {self.tables.session} = {self._number}"
        return self.select_rows(f"{', '.join(columns)} from {calls} order by number", session)

    def select_rows(self, query: str, *values: Argument) -> list[tuple[Any, ...]]:
        """Return the rows that the SQL `select QUERY` finds in the database, with these parameters.

        Strings may come as bytes: `decode_column` reads both.
        """
        with self.archive.lock_connection() as file:
            return list(file.execute(f"select {query}", list(map(_encode_value, values))))

    @contextmanager
    def record_call(
        self, session: str, *arguments: Argument
    ) -> Iterator[list[RecordedAnswer | Page]]:
        """Store the one answer that the body appends to the list, or the Failed that it raises.

        The answer is stored under the session, which must have been begun, and the call's
        `arguments`; for a Page, which is archived with it, the second argument is the address that
        was requested. A Failed is raised again. Where the body raises another error nothing is
        stored. Raises IndexError for a body that appends none.
        """
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        clock = time.perf_counter()
        answers: list[RecordedAnswer | Page] = []
        failed: Failed | None = None
        try:
            yield answers
        except Failed as error:
            failed = error
            answers = [RecordedAnswer(failure=error.failure)]
        times = (started, time.perf_counter() - clock)
        with self.archive.begin_write() as file:
            answer = answers[0]
            if isinstance(answer, Page):
                version = insert_page(file, answer, requested_url=str(arguments[1]))
                answer = RecordedAnswer(version=version, fetched=answer.fetched)
            for name, text in zip(self.tables.arguments, arguments, strict=True):
                if name in self.tables.texts:
                    long = (digest_of(str(text)), pack_records(text))
                    file.execute("insert into asked values (?, ?) on conflict do nothing", long)
            row = dict(zip(self.tables.arguments, self.make_key(arguments), strict=True))
            if self.tables is LIBRARY_CALLS:
                row["outcome"] = encode_column(answer.failure.outcome if answer.failure else "")
            row |= dict(zip(("started", "seconds"), times, strict=True))
            row["answer"] = pack_records(answer)
            file.execute(
                f"insert into {self.tables.calls} ({self.tables.session}, {', '.join(row)})"
                f" values ({self._number}{', ?' * len(row)})",
                [encode_column(session), *row.values()],
            )
        if failed:
            raise failed

    def close(self) -> None:
        """Close the archive, unless it was given to the constructor: that one stays open."""
        if self._owns_archive:
            self.archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _encode_value(value: Argument) -> Argument | bytes:
    return encode_column(value) if isinstance(value, str) else value


class CallReplay:
    """The stored answers of a session: the n-th call with the same arguments gets the n-th answer.

    Threads may share one. Raises Failed (not_recorded) where the session was not begun.
    """

    def __init__(self, recording: CallRecording, session: str) -> None:
        recording.require_session(session)
        self._recording = recording
        self._lock = threading.Lock()
        self._given: Counter[tuple[Any, ...]] = Counter()
        self._answers: defaultdict[tuple[Any, ...], list[bytes]] = defaultdict(list)
        for row in recording.select_calls(session, *recording.tables.arguments, "answer"):
            self._answers[_make_replay_key(row[:-1])].append(row[-1])

    def replay_call(
        self, *arguments: Argument, find_other: Callable[[list[bytes]], bytes]
    ) -> RecordedAnswer:
        """Return the next stored answer to a call with these arguments, or raise its failure.

        Where all were given, `find_other` is called with them, as they are encoded in the file
        (none if there was no such call), and returns another encoded answer or raises.
        """
        key = _make_replay_key(self._recording.make_key(arguments))
        with self._lock:
            number, answers = self._given[key], self._answers[key]
            if number < len(answers):
                self._given[key] += 1
        body = answers[number] if number < len(answers) else find_other(answers)
        with self._recording.archive.translate_decode_errors():
            answer = unpack_records(body, _answer_decoder)
        if answer.failure is not None:
            raise Failed(answer.failure)
        return answer


def _make_replay_key(columns: Sequence[Any]) -> tuple[Any, ...]:
    # PostgreSQL gives every string as bytes, SQLite those that are no valid Unicode.
    return tuple(decode_column(each) if isinstance(each, bytes) else each for each in columns)


def list_recorded_versions(recording: CallRecording) -> frozenset[int]:
    """Return the numbers of the versions of pages that were given to any session."""
    rows = recording.select_rows("answer from calls where kind = 'fetch'")
    with recording.archive.translate_decode_errors():
        return frozenset(unpack_records(body, _answer_decoder).version for (body,) in rows) - {0}


def erase_sessions(archive: PageArchive, urls: Set[str], digests: Set[str]) -> None:
    """Delete the sessions to which a page with one of these addresses or texts was given, with what
    models were asked and said in them."""
    with CallRecording(archive) as calls, CallRecording(archive, POLICY_CALLS) as replies:
        rows = calls.select_rows(
            "name, what, answer from calls join sessions s on s.number = session"
        )
        names = {
            name
            for name, what, answer in rows
            if what in urls or any(each.encode() in zlib.decompress(answer) for each in digests)
        }
        with archive.begin_write() as file:
            for name, recording in product(names, (calls, replies)):
                recording.delete_session(file, name)
            in_use = "(select prompt from said union select grammar from said)"
            file.execute(f"delete from asked where digest not in {in_use}")


def find_first_answer(
    recording: CallRecording, kind: str, what: str, k: int
) -> RecordedAnswer | None:
    """Return the answer that a call of LIBRARY_CALLS got first in any session; None without one.

    It may be a failure. `kind`, `what` and `k` must all be equal; `k` is 0 for "fetch".
    """
    with recording.archive.translate_decode_errors():
        for body in _select_first_answer(recording, kind, what, k):
            return unpack_records(body, _answer_decoder)
    return None


def _select_first_answer(recording: CallRecording, kind: str, what: str, k: int) -> list[bytes]:
    asked = "answer from calls where kind = ? and what = ? and k = ? order by number limit 1"
    return [body for (body,) in recording.select_rows(asked, kind, what, k)]


class WrappedLibrary(Library):
    """The library `library`, with these functions in the place of its methods of the same name.

    `describe` changes what is said of each of its failures.
    """

    def __init__(
        self,
        library: Library,
        search: Callable[[str, int], Sequence[Hit]] | None = None,
        fetch: Callable[[str], Page] | None = None,
        close: Callable[[], None] | None = None,
        describe: Callable[[Failure], Failure] | None = None,
    ) -> None:
        self._library = library
        self._describe = describe
        self._search = search or library.search
        self._fetch = fetch or library.fetch
        self._close = close or library.close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def failures(self) -> Sequence[Failure]:
        """The failures of the wrapped library."""
        failures = self._library.failures
        return tuple(map(self._describe, failures)) if self._describe else failures

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return what the function for searches returns."""
        return self._search(query, k)

    def fetch(self, url: str) -> Page:
        """Return what the function for pages returns."""
        return self._fetch(url)

    def close(self) -> None:
        """Close what is to be closed with it."""
        self._close()


class RecordingLibrary(Library):
    """A library that stores the answers of another one for a session before it gives them.

    What the other raises besides `Failed` becomes a `Failed` (library_failed). Closing it does not
    close the other one. Raises `Failed` (not_recorded) where the session was not begun.
    """

    def __init__(self, recording: CallRecording, library: Library, session: str) -> None:
        recording.require_session(session)
        self._recording = recording
        self._library = library
        self._session = session

    @property
    def failures(self) -> Sequence[Failure]:
        """The failures of the wrapped library."""
        return self._library.failures

    def search(self, query: str, k: int) -> list[Hit]:
        """Search the wrapped library, and return its hits after storing them for the session."""
        with self._record_call("search", query, k) as given:
            hits = list(self._library.search(query, k))
            given.append(RecordedAnswer(hits=hits))
        return hits

    def fetch(self, url: str) -> Page:
        """Fetch a page from the wrapped library; return it once it is stored in the session.

        A failure is stored, too, and raised again; an error that is no Failed is library_failed.
        """
        with self._record_call("fetch", url, 0) as given:
            page = self._library.fetch(url)
            given.append(page)
        return page

    @contextmanager
    def _record_call(self, kind: str, what: str, k: int) -> Iterator[list[RecordedAnswer | Page]]:
        with self._recording.record_call(self._session, kind, what, k) as given:
            try:
                yield given
            except Failed:
                raise
            except Exception as error:
                detail = f"{type(error).__name__}: {error}"
                raise Failed(Failure(what, Outcome.LIBRARY_FAILED, detail)) from error


class ReplayLibrary(Library):
    """A library that repeats the stored answers of a session.

    When something is asked for the n-th time, it is given as it was for the n-th time in the
    session, or for the last time. What the session never asked is given as any session got it
    first. What none asked, and a session that was not begun, raise `Failed` (not_recorded).
    """

    def __init__(self, recording: CallRecording, session: str) -> None:
        self._recording = recording
        self._replay = CallReplay(recording, session)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the hits that were stored for this query and `k`, or raise the stored failure."""
        return self._replay_call("search", query, k).hits

    def fetch(self, url: str) -> Page:
        """Return the page as it was stored for this address, or raise the stored failure."""
        answer = self._replay_call("fetch", url, 0)
        archive = self._recording.archive
        page = archive.find_version(answer.version)
        with archive.translate_decode_errors():
            if page is None:
                raise ValueError(f"there is no version {answer.version}")
        return msgspec.structs.replace(page, fetched=answer.fetched)

    def _replay_call(self, kind: str, what: str, k: int) -> RecordedAnswer:
        def repeat_answer(answers: list[bytes]) -> bytes:
            every = answers[-1:] or _select_first_answer(self._recording, kind, what, k)
            if not every:
                doing = "opened this address" if kind == "fetch" else f"asked this for {k} results"
                detail = f"no recorded session {doing}: do it once with the network, or ask another"
                raise Failed(Failure(what, Outcome.NOT_RECORDED, detail))
            return every[0]

        return self._replay.replay_call(kind, what, k, find_other=repeat_answer)


class FrozenWeb(Library):
    """A library of what the sessions of a recording were given. No page and no call is added.

    A search that a session made gives the results that the first one got; any other searches the
    recorded pages. A page is given in its first version.
    Threads may share one. Raises Failed: not_found, not_a_recording, or as `CallRecording` does.
    """

    def __init__(self, path: Path) -> None:
        _require_recording(path)
        self._recording = CallRecording(path)
        pages: dict[str, Page] = {}
        for page in self._recording.archive.iter_pages():
            pages.setdefault(page.url, page)
        if not pages:
            self.close()
            detail = "it has no pages: name the recording of sessions that opened some"
            raise Failed(Failure(str(path), Outcome.NOT_A_RECORDING, detail))
        self._pages = InMemoryLibrary(pages.values())
        versions = sorted((page.url, page.digest) for page in pages.values())
        calls = self._recording.select_rows("kind, what, k, answer from calls order by number")
        self._digest = digest_of(repr((versions, calls)))

    @property
    def skipped(self) -> Sequence[Failure]:
        """Nothing: a recording is read whole."""
        return ()

    def contents_digest(self) -> str:
        """Return a digest of all pages, of what was asked and of what was answered."""
        return self._digest

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the results of the first recorded search with this query and `k`.

        Where there is none, or it failed, the recorded pages are searched.
        """
        recorded = find_first_answer(self._recording, "search", query, k)
        if recorded is not None and recorded.failure is None:
            return recorded.hits
        return self._pages.search(query, k)

    def fetch(self, url: str) -> Page:
        """Return the page that a session was first given at this address, or that has this address.

        Raises Failed: the recorded failure, or not_recorded where no session opened it.
        """
        recorded = find_first_answer(self._recording, "fetch", url, 0)
        if recorded is None:
            try:
                return self._pages.fetch(url)
            except Failed as failed:
                detail = "no recorded session opened this address"
                raise Failed(Failure(url, Outcome.NOT_RECORDED, detail)) from failed
        if recorded.failure is not None:
            raise Failed(recorded.failure)
        page = self._recording.archive.load_version(recorded.version)
        return msgspec.structs.replace(page, fetched=recorded.fetched)

    def close(self) -> None:
        """Close the recording."""
        self._recording.close()


def _require_recording(path: Path) -> None:
    """Raise Failed where there is no file, or none in which calls are recorded.

    A CallRecording would make a new file there, and tables in a file of something else.
    """
    what = str(path)
    if not path.exists():
        raise Failed(Failure(what, Outcome.NOT_FOUND, "there is no such file: check the path"))
    advice = "name a file that rookery serve env --record, or rollouts, wrote"
    if path.is_dir():
        detail = f"it is a folder and no recording: {advice}, or serve the folder with --in"
        raise Failed(Failure(what, Outcome.NOT_A_RECORDING, detail))
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            tables = file.execute("select name from sqlite_master where type = 'table'").fetchall()
    except sqlite3.Error:
        tables = []
    if not {("sessions",), ("calls",), ("versions",)} <= set(tables):
        raise Failed(Failure(what, Outcome.NOT_A_RECORDING, f"it is no recording: {advice}"))

"""What policies were asked and what they said, to be said again without a model or a network.

It knows nothing of where completions come from, nor of what is done with them.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple, Self, cast

import msgspec

from rookery.browse.archive import Archive, column, packed, string, unpacked
from rookery.draft.remote import Allow, Model, Seed
from rookery.records import Completion, Failed, Failure, Policy, Record, digest_of

_TABLES = """
create table if not exists transcripts (number integer primary key, session text not null unique);
create table if not exists asked (digest text primary key, body blob not null) without rowid;
create table if not exists said (
    number integer primary key, transcript integer not null, by text not null,
    prompt text not null, n integer not null, seed integer, grammar text not null,
    started text not null, seconds real not null, answer blob not null
);
create index if not exists said_by_transcript on said (transcript);
"""
_NUMBER = "(select number from transcripts where session = ?)"


class Said(Record, frozen=True):
    """One call of a policy: what it was asked, when, and what it said."""

    by: str
    prompt: str
    n: int
    seed: int | None
    grammar: str
    started: str
    """UTC, ISO 8601"""
    seconds: float
    completions: tuple[Completion, ...] = ()
    failure: Failure | None = None
    """why there are none"""


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    completions: tuple[Completion, ...] = ()
    failure: Failure | None = None


class _Key(NamedTuple):
    """What was asked; texts are named by their digests."""

    by: str
    prompt: str
    n: int
    seed: int | None
    grammar: str


_answer = msgspec.msgpack.Decoder(_Answer)
_text = msgspec.msgpack.Decoder(str)


class Transcript:
    """All that policies were asked and said, session by session, in one SQLite file.

    The file may be that of an Archive or a Recording; sessions of the same name have nothing to do
    with each other. Threads may share one Transcript and processes may share one file. An answer
    is there for good before it is given. Every method raises `Failed` as those of Archive do.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._archive = Archive(path)
        try:
            _prepare(self._archive)
        except Failed:
            self._archive.close()
            raise

    def begin(self, session: str) -> None:
        """Begins a session, in place of the one that had this name."""
        name = column(session)
        with self._archive.writing() as file:
            _forget(file, name)
            file.execute("insert into transcripts values (null, ?)", (name,))

    def rename(self, session: str, name: str) -> None:
        """Gives a session another name, in place of the one that had it. Raises as `said` does."""
        self._require(session)
        with self._archive.writing() as file:
            _forget(file, column(name))
            rename = "update transcripts set session = ? where session = ?"
            file.execute(rename, (column(name), column(session)))

    def sessions(self) -> list[str]:
        """The names of all sessions, in the order in which they began."""
        with self._archive.reading() as file:
            rows = file.execute("select session from transcripts order by number").fetchall()
        return [string(name) for (name,) in rows]

    def said(self, session: str) -> list[Said]:
        """All calls of a session, in the order of the answers. Raises `Failed` (not_recorded)."""
        self._require(session)
        find = (
            "select by, prompts.body, n, seed, grammars.body, started, seconds, answer from said"
            " join asked prompts on prompts.digest = prompt"
            " join asked grammars on grammars.digest = grammar"
            f" where transcript = {_NUMBER} order by number"
        )
        with self._archive.reading() as file:
            rows = file.execute(find, (column(session),)).fetchall()
        with self._archive.decoding():
            return [_said(*row) for row in rows]

    def record(self, policy: Policy, session: str) -> Model:
        """The policy, all of whose answers and failures are written down before they are given.

        It takes seeds and grammars, and streams, where the policy does; a stream that is closed
        before its end is not written down. `allow` is passed on, and is no part of what is asked.
        Raises `Failed` (not_recorded) where the session was not begun.
        """
        self._require(session)
        return _Recorder(self._archive, policy, session)

    def replay(self, session: str, by: str = "") -> Model:
        """A policy that says what was written down, and asks nobody.

        When something is asked for the n-th time, it gives the n-th answer to it. `by` is the name
        of the policy, where the session has several or none was asked. What was not asked as often
        raises `Failed` (not_recorded); so does a session that was not begun.
        """
        self._require(session)
        if not by:
            find = f"select distinct by from said where transcript = {_NUMBER}"
            with self._archive.reading() as file:
                names = [string(name) for (name,) in file.execute(find, (column(session),))]
            if len(names) != 1:
                known = ", ".join(sorted(names)) or "none was; record it again"
                detail = f"name one of the policies that were asked in it: {known}"
                raise Failed(Failure(session, "not_recorded", detail))
            (by,) = names
        return _Player(self._archive, session, by)

    def _require(self, session: str) -> None:
        with self._archive.reading() as file:
            row = file.execute(f"select {_NUMBER}", (column(session),)).fetchone()
        if row[0] is None:
            detail = f"{self._path} has no session of this name: begin it, or name another"
            raise Failed(Failure(session, "not_recorded", detail))

    def close(self) -> None:
        """Lets go of the file; neither the Transcript nor its policies can be used after this."""
        self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _forget(file: Connection, name: str | bytes) -> None:
    file.execute(f"delete from said where transcript = {_NUMBER}", (name,))
    file.execute("delete from transcripts where session = ?", (name,))


def _prepare(archive: Archive) -> None:
    """Makes the tables where they are not there."""
    with archive.reading() as file:
        known = [name for (name,) in file.execute("select name from sqlite_master")]
    if "said_by_transcript" not in known:
        with archive.writing() as file:
            for statement in _TABLES.split(";")[:-1]:
                file.execute(statement)


class _Recorder:
    """Passes on to a policy and writes down what it says."""

    def __init__(self, archive: Archive, policy: Policy, session: str) -> None:
        self.name = policy.name
        self._archive = archive
        self._policy = policy
        self._session = session

    def complete(
        self, prompt: str, n: int = 1, allow: Allow = None, seed: Seed = None, grammar: str = ""
    ) -> list[Completion]:
        """What the policy says."""
        given: dict[str, Any] = {"seed": seed, "grammar": grammar}
        given = {name: value for name, value in given.items() if value not in (None, "")}
        with self._writing(prompt, n, seed, grammar) as said:
            said += self._policy.complete(prompt, n, allow, **given)
        return said

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """What the policy says, as it says it."""
        with self._writing(prompt, 1, seed, "") as said:
            said.append((yield from cast(Model, self._policy).stream(prompt, seed)))
        return said[0]

    @contextmanager
    def _writing(
        self, prompt: str, n: int, seed: int | None, grammar: str
    ) -> Iterator[list[Completion]]:
        """Writes down what is added to the list, or why nothing could be."""
        started = datetime.now(UTC).isoformat(timespec="milliseconds")
        clock = time.perf_counter()
        said: list[Completion] = []
        failed: Failed | None = None
        try:
            yield said
        except Failed as error:
            failed = error
        seconds = time.perf_counter() - clock
        answer = _Answer(tuple(said), failed.failure if failed else None)
        with self._archive.writing() as file:
            key = _Key(self.name, digest_of(prompt), n, seed, digest_of(grammar))
            for digest, text in ((key.prompt, prompt), (key.grammar, grammar)):
                file.execute("insert or ignore into asked values (?, ?)", (digest, packed(text)))
            file.execute(
                f"insert into said values (null, {_NUMBER}, ?, ?, ?, ?, ?, ?, ?, ?)",
                (column(self._session), *_columns(key), started, seconds, packed(answer)),
            )
        if failed:
            raise failed


class _Player:
    """Says what was written down."""

    def __init__(self, archive: Archive, session: str, name: str) -> None:
        self.name = name
        self._archive = archive
        self._session = session
        self._turn = threading.Lock()
        self._answers: dict[_Key, list[bytes]] | None = None
        self._asked: Counter[_Key] = Counter()

    def complete(
        self, prompt: str, n: int = 1, allow: Allow = None, seed: Seed = None, grammar: str = ""
    ) -> list[Completion]:
        """What was said then."""
        key = _Key(self.name, digest_of(prompt), n, seed, digest_of(grammar))
        body = self._next(key, prompt)
        with self._archive.decoding():
            answer = unpacked(body, _answer)
        if answer.failure is not None:
            raise Failed(answer.failure)
        return list(answer.completions)

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """What was said then, in one piece."""
        (said,) = self.complete(prompt, seed=seed)
        if said.text:
            yield said.text
        return said

    def _next(self, key: _Key, prompt: str) -> bytes:
        with self._turn:
            if self._answers is None:
                self._answers = self._of_session()
            answers, number = self._answers.get(key, []), self._asked[key]
            if number >= len(answers):
                detail = f"this was asked {len(answers)} times: record a session that asks it again"
                raise Failed(Failure(" ".join(prompt.split())[:80], "not_recorded", detail))
            self._asked[key] += 1
            return answers[number]

    def _of_session(self) -> dict[_Key, list[bytes]]:
        find = f"select by, prompt, n, seed, grammar, answer from said where transcript = {_NUMBER}"
        answers: dict[_Key, list[bytes]] = defaultdict(list)
        with self._archive.reading() as file:
            for by, *rest, answer in file.execute(
                f"{find} order by number", (column(self._session),)
            ):
                answers[_Key(string(by), *rest)].append(answer)
        return dict(answers)


def _columns(key: _Key) -> tuple[object, ...]:
    return (column(key.by), *key[1:])


def _said(
    by: str | bytes,
    prompt: bytes,
    n: int,
    seed: int | None,
    grammar: bytes,
    started: str,
    seconds: float,
    body: bytes,
) -> Said:
    answer = unpacked(body, _answer)
    asked = unpacked(prompt, _text), n, seed, unpacked(grammar, _text)
    return Said(string(by), *asked, started, seconds, answer.completions, answer.failure)

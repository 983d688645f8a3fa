"""What was judged, frozen under a name: the same bytes whenever it is exported, and imported again.

It knows nothing of models, and of judgements only which there are.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, insert, select

from rookery import __version__
from rookery.judge.counted import Left, exclusions_of, standing, write_exclusion
from rookery.judge.frozen import FILES, Frozen, Laid, Lines, Someone, Wanted, frozen_of, lines_of
from rookery.judge.handing_in import restore
from rookery.judge.handout import add, retire
from rookery.judge.kept_pages import keep
from rookery.judge.lines import read_lines
from rookery.judge.people import add_person, audit, people
from rookery.judge.store import Store, alone
from rookery.judge.tables import snapshots
from rookery.judge.work import Judgement
from rookery.records import Failed, Failure, Page, Record, digest_of

MANIFEST = "manifest.json"


class File(Record, frozen=True):
    """One file of an export."""

    lines: int
    sha256: str


class Snapshot(Record, frozen=True):
    """What is known of a snapshot: manifest.json."""

    name: str
    by: str
    at: float
    wanted: Wanted
    versions: dict[str, tuple[str, ...]]
    files: dict[str, File]
    left_out: dict[str, int]
    """judgements that are not learnt from, by the reason"""
    digest: str
    """SHA-256 of what `sha256sum *.jsonl` says of the files"""


class Imported(NamedTuple):
    """How much was not there before."""

    name: str
    """of the snapshot"""
    items: int
    judgements: int


def freeze(store: Store, name: str, wanted: Wanted, by: str) -> Snapshot:
    """Keeps, under a new name, what there is now. Raises Failed: bad_name, already, nothing."""
    if not name.strip() or not name.isprintable():
        raise Failed(Failure(name, "bad_name", "give the snapshot a name of letters that show"))
    with store.reading() as connection:  # which may take seconds: nobody waits for it
        frozen = frozen_of(connection, wanted)
        if not frozen.items:
            detail = "there are no items in these batches and of these forms: look at their names"
            raise Failed(Failure(name, "nothing", detail))
        snapshot = _snapshot(name, by, store.clock(), frozen, lines_of(connection, frozen))
    with store.writing() as connection:
        alone(connection, "snapshots")
        if _row(connection, name) is not None:
            detail = "there is a snapshot of this name: choose another, or export that one"
            raise Failed(Failure(name, "already", detail))
        _write_row(connection, snapshot, frozen)
        audit(connection, by, "freeze", f"{name}: {snapshot.digest}", snapshot.at)
    return snapshot


def frozen_names(store: Store) -> list[str]:
    """The names of all snapshots, in the order in which they were made."""
    query = select(snapshots.c.name).order_by(snapshots.c.at, snapshots.c.name)
    with store.reading() as connection:
        return list(connection.scalars(query))


def export(store: Store, name: str, folder: Path, by: str = "rookery judge") -> Snapshot:
    """Writes a snapshot's files, the same bytes each time; the manifest last.

    comparisons.jsonl, ratings.jsonl and episodes.jsonl are what is learnt from; no item whose
    answer was known is in them. majority.jsonl is what most people said. The others hold who
    judged what and how, and what is not learnt from, and why. Raises Failed: no_snapshot,
    unwritable, and changed where this version of Rookery reads the judgements otherwise than the
    one that froze them.
    """
    with store.reading() as connection:
        row = _row(connection, name)
        if row is None:
            detail = "there is no such snapshot: look at their names, or freeze one"
            raise Failed(Failure(name, "no_snapshot", detail))
        frozen = Frozen.from_json(row.body)
        lines = lines_of(connection, frozen)
        found = _snapshot(name, row.by, row.at, frozen, lines)
        if found.digest != row.digest:
            [before] = frozen.versions["rookery"]
            detail = (
                f"Rookery {before} froze it, and Rookery {__version__} reads it otherwise: export "
                "it with the former, or freeze it anew under another name"
            )
            raise Failed(Failure(name, "changed", detail))
        with _writing(folder):
            for file, written in lines.items():
                _write(folder / file, written())
            _write(folder / MANIFEST, [msgspec.json.format(found.to_json(), indent=2)])
    with store.writing() as connection:
        audit(connection, by, "export", f"{name}: {found.digest}", store.clock())
    return found


def import_(store: Store, folder: Path, by: str = "rookery judge") -> Imported:
    """Takes in what `export` wrote, and the snapshot with it. The same twice adds nothing, so that
    an import that was stopped is made again.

    People come as labellers whom nobody has invited, and what was excluded of a person as
    exclusions of these judgements. All is read before anything is taken in. Raises Failed:
    not_found, bad_line, damaged, already.
    """
    found = _read(folder)
    with store.reading() as connection:
        row = _row(connection, found.snapshot.name)
    if row is not None and row.digest != found.snapshot.digest:
        detail = "another snapshot here has this name: import it into a store of its own"
        raise Failed(Failure(found.snapshot.name, "already", detail))
    known = {person.name for person in people(store)}
    for name in (each.name for each in found.people if each.name not in known):
        add_person(store, name, "labeller")
    with store.writing() as connection:
        for page in found.pages:
            keep(connection, page)
    new = 0
    for how, group in groupby(found.items, _laying):
        new += add(store, (each.item for each in group), *how).new
    judged = restore(store, found.judgements)
    retired = {each.id: each.retired for each in found.items if each.retired is not None}
    for why in sorted(set(retired.values())):
        retire(store, why, [key for key, reason in retired.items() if reason == why])
    with store.writing() as connection:
        _exclude(connection, found.left)
        alone(connection, "snapshots")
        if _row(connection, found.snapshot.name) is None:
            _write_row(connection, found.snapshot, found.frozen())
        audit(connection, by, "import", f"{folder}: {found.snapshot.digest}", store.clock())
    return Imported(found.snapshot.name, new, judged)


def _laying(laid: Laid) -> tuple[str, int, int, bool, int | None]:
    return laid.batch, laid.wanted, laid.priority, laid.prelude, laid.policy


def _exclude(connection: Connection, left: Iterable[Left]) -> None:
    held = {row.which for row in standing(exclusions_of(connection)) if row.what == "judgement"}
    for each in left:
        if each.why == "excluded" and each.judgement not in held:
            which, reason = each.judgement, each.reason
            write_exclusion(connection, "judgement", which, reason, each.by, each.at)


def _snapshot(name: str, by: str, at: float, frozen: Frozen, lines: Lines) -> Snapshot:
    files = {file: _measured(written()) for file, written in lines.items()}
    reasons = Counter(Left.from_json(line).counted_as for line in lines["excluded.jsonl"]())
    left_out = dict(sorted(reasons.items()))
    return Snapshot(name, by, at, frozen.wanted, frozen.versions, files, left_out, _digest(files))


def _measured(lines: Iterable[str]) -> File:
    count, found = 0, hashlib.sha256()
    for line in lines:
        count += 1
        found.update(f"{line}\n".encode())
    return File(count, found.hexdigest())


def _digest(files: dict[str, File]) -> str:
    said = "".join(f"{file.sha256}  {name}\n" for name, file in sorted(files.items()))
    return hashlib.sha256(said.encode()).hexdigest()


def _row(connection: Connection, name: str) -> Row[Any] | None:
    return connection.execute(snapshots.select().where(snapshots.c.name == name)).first()


def _write_row(connection: Connection, snapshot: Snapshot, frozen: Frozen) -> None:
    said = {"name": snapshot.name, "digest": snapshot.digest, "by": snapshot.by}
    connection.execute(insert(snapshots).values(**said, at=snapshot.at, body=frozen.to_json()))


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """What a disk says, as a sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        where = str(error.filename or folder)
        detail = f"{error.strerror}: make room, or allow writing there, and export again"
        raise Failed(Failure(where, "unwritable", detail)) from error


def _write(path: Path, lines: Iterable[str]) -> None:
    """The whole file, or it is as it was."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as file:
            file.writelines(f"{line}\n".encode() for line in lines)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


class _Exported(NamedTuple):
    """What stands in a folder that `export` wrote."""

    snapshot: Snapshot
    people: list[Someone]
    pages: list[Page]
    items: list[Laid]
    judgements: list[Judgement]
    left: list[Left]

    def frozen(self) -> Frozen:
        """The snapshot as the store had it."""
        return Frozen(
            self.snapshot.wanted,
            tuple(each.id for each in self.items),
            tuple(each.id for each in self.judgements),
            tuple(hashlib.sha256(page.to_json().encode()).hexdigest() for page in self.pages),
            tuple(self.people),
            tuple(each for each in self.left if each.why in ("corrected", "excluded")),
            {each.id: each.retired for each in self.items if each.retired is not None},
            self.snapshot.versions,
        )


def _read(folder: Path) -> _Exported:
    """All of it, as it was written. Raises Failed: not_found, bad_line, damaged."""
    snapshot = _manifest(folder)
    if set(snapshot.files) != FILES or _digest(snapshot.files) != snapshot.digest:
        raise _damaged(folder / MANIFEST, "it was changed since it was exported")
    for name, file in snapshot.files.items():
        if _measured_file(folder / name) != file.sha256:
            raise _damaged(folder / name, "it was changed since it was exported")
    found = _Exported(
        snapshot,
        list(read_lines(folder / "people.jsonl", Someone)),
        list(read_lines(folder / "pages.jsonl", Page)),
        list(read_lines(folder / "items.jsonl", Laid)),
        list(read_lines(folder / "judgements.jsonl", Judgement)),
        list(read_lines(folder / "excluded.jsonl", Left)),
    )
    for each in found.items:
        if each.id != digest_of(f"{each.batch}\n{each.item.to_json()}"):
            raise _damaged(folder / "items.jsonl", "another version of Rookery wrote it")
    items, names = {each.id for each in found.items}, {each.name for each in found.people}
    if any(each.item not in items or each.by not in names for each in found.judgements):
        raise _damaged(folder / "judgements.jsonl", "an item or a person of it is not there")
    return found


def _manifest(folder: Path) -> Snapshot:
    path = folder / MANIFEST
    try:
        return Snapshot.from_json(path.read_bytes())
    except OSError as error:
        detail = f"this is no exported snapshot ({error.strerror}): name its folder"
        raise Failed(Failure(str(path), "not_found", detail)) from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise _damaged(path, f"this is no manifest ({error})") from error


def _measured_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _damaged(path, f"it cannot be read ({error.strerror})") from error


def _damaged(path: Path, why: str) -> Failed:
    return Failed(Failure(str(path), "damaged", f"{why}: export it again"))

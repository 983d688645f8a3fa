"""`rookery index`: what is stored on this machine; indexes refreshed, removed and pruned.

What is heavy is imported when a command runs.
"""

import os
import re
import shlex
import sqlite3
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from rookery.records import Failed, Failure, Record
from rookery.serve.command_line import CommandGroup
from rookery.serve.exits import ANSWERED, MISTAKES, NO_EVIDENCE, USAGE
from rookery.serve.options import AsJson, Excludes, Globs, Private, Proxy

if TYPE_CHECKING:
    from rookery.browse.stored import StoredIndex
    from rookery.serve.session import Settings

index = CommandGroup(help="What is indexed and stored on this machine.")

PlaceNames = Annotated[
    list[str],
    typer.Argument(
        metavar="PLACE...", help="A folder, a file, an address, or an id of rookery index list."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")]

STORES = {
    "archive.sqlite": "archive: every version of each page opened, and what models said",
    "desk.sqlite": "desk: questions, answers and judgements",
    "documents": "documents that were dropped in",
    "documents.failed.json": "why documents were refused",
    "demonstrations.jsonl": "demonstrations",
    "unfinished": "browser sessions that are not finished",
    "calibrations": "labels of models' answers",
    "folders": "indexes of folders and files",
    "sites": "indexes of sites",
    "warcs": "indexes of web archives",
    "vectors.sqlite": "vectors of the dense ranker",
    "pdfs": "PDF files that were fetched again",
}
"""What lies in the data folder and in the cache, by name."""
_BESIDE = ("-wal", "-shm", "-journal")
"""endings of the files that SQLite keeps beside a database"""
_AGE = re.compile(r"(\d+)\s*([hdwy])")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}
_DIGEST = re.compile(rb"[0-9a-f]{32}")
_ID = re.compile(r"[0-9a-f]{6,32}")
_ID_SHOWN = 8


class StoreSize(Record, frozen=True):
    """A file or folder of the data folder or the cache."""

    what: str
    path: str
    bytes: int
    pages: int | None = None
    """addresses in the archive"""
    versions: int | None = None
    """of these pages"""


class StoredFiles(Record, frozen=True):
    """What `rookery index list --json` prints."""

    indexes: "tuple[StoredIndex, ...]"
    stores: tuple[StoreSize, ...]


class RefreshReport(Record, frozen=True):
    """What came of one place that was refreshed."""

    place: str
    pages: int
    read: int
    """files or pages that were read now"""
    failed: int
    left_out: int
    problem: str = ""
    """why it could not be refreshed"""


class RefreshReports(Record, frozen=True):
    """What `rookery index refresh --json` prints."""

    refreshed: tuple[RefreshReport, ...]


class RemovalReport(Record, frozen=True):
    """What `rookery index remove --json` and `prune --json` print."""

    removed: tuple[str, ...]
    """places whose index was removed"""
    busy: tuple[str, ...]
    """places whose index another process is writing, and that were left alone"""
    versions: int
    """of pages, removed from the archive"""
    bytes: int
    """freed; with --dry-run, of the indexes alone"""
    dry_run: bool


@index.command("list")
def list_stored(
    skipped: Annotated[
        bool, typer.Option("--skipped", help="Name each file that is left out, and why.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List each index, how large and how old it is, and everything else that is stored."""
    from rookery.browse.stored import list_indexes
    from rookery.serve.session import cache_home

    indexes, stores = list_indexes(cache_home()), list(_stores())
    if as_json:
        _print_json(StoredFiles(tuple(indexes), tuple(stores)))
        return
    lines = [line for each in indexes for line in _index_lines(each, skipped)]
    lines += ["", *(_store_line(store) for store in stores)] if stores else []
    _print_lines(lines or ["nothing is stored: rookery ask ... --in DIR makes an index"])


@index.command()
def refresh(
    places: PlaceNames,
    globs: Globs = None,
    excludes: Excludes = None,
    as_json: AsJson = False,
    private: Private = False,
    proxy: Proxy = False,
) -> None:
    """Read again what changed, and crawl sites again. A place without an index gets one."""
    from rookery.browse.selection import Selection
    from rookery.serve.session import Settings

    selection = Selection(tuple(globs or ()), tuple(excludes or ()))
    settings = Settings(private=private, proxy=proxy, selection=selection)
    reports, code = [], ANSWERED
    for settled in _settings_of(places, settings):
        report, outcome = _refresh_index(settled)
        reports.append(report)
        if outcome:
            code = max(code, USAGE if outcome in MISTAKES else NO_EVIDENCE)
    if as_json:
        _print_json(RefreshReports(tuple(reports)))
    else:
        _print_lines(map(_refresh_line, reports))
    raise typer.Exit(code)


@index.command()
def remove(places: PlaceNames, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Remove the indexes of places. The archive keeps their pages, so that quotes verify."""
    from rookery.browse.stored import list_indexes
    from rookery.serve.session import cache_home

    indexes = list_indexes(cache_home())
    chosen = [_matching(place, indexes) for place in places]
    for place, found in zip(places, chosen, strict=True):
        if not found:
            detail = "there is no index of this place: rookery index list shows all"
            raise Failed(Failure(place, "not_indexed", detail))
    unique = {each.id: each for found in chosen for each in found}
    _remove_all(list(unique.values()), [], dry_run, as_json)


@index.command()
def prune(
    older_than: Annotated[
        str,
        typer.Option(
            metavar="AGE",
            help="Also what was not used for so long: 12h, 90d, 8w or 1y (hours, days, weeks, "
            "years).",
        ),
    ] = "",
    archive: Annotated[
        bool,
        typer.Option(
            "--archive",
            help="Also page versions that were fetched before that, and that no index, recorded "
            "answer, desk or --keep names. Answers saved elsewhere that quote them can no longer "
            "be verified.",
        ),
    ] = False,
    keep: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="With --archive: saved answers, whose pages stay; repeatable."
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove the indexes of places that no longer exist and, by age, of those not used."""
    from rookery.browse.stored import list_indexes
    from rookery.serve.session import cache_home

    if (archive or keep) and not older_than:
        raise ValueError("--archive goes with --older-than AGE, such as 90d: pages have an age")
    if keep and not archive:
        raise ValueError("--keep goes with --archive: indexes alone lose no page")
    before = _before(older_than) if older_than else ""
    indexes = list_indexes(cache_home())
    goes = [
        each
        for each in indexes
        if each.missing or each.used < before or (not each.places and each.passages is None)
    ]
    going = {each.id for each in goes}
    stays = [each for each in indexes if each.id not in going]
    versions = _unused_versions(before, stays, keep or []) if archive else []
    _remove_all(goes, versions, dry_run, as_json)


def _before(age: str) -> str:
    """The time so long ago: UTC, ISO 8601. Raises ValueError."""
    found = _AGE.fullmatch(age.strip().lower())
    if found is None:
        raise ValueError(f"{age!r} is no age: give a number and h, d, w or y, such as 12h or 90d")
    try:
        then = datetime.now(UTC) - timedelta(hours=int(found[1]) * _HOURS[found[2]])
    except OverflowError:
        return ""
    return then.isoformat(timespec="seconds")


def _remove_all(
    indexes: "Sequence[StoredIndex]", versions: Sequence[int], dry_run: bool, as_json: bool
) -> None:
    """Remove these indexes and page versions, and say so; exit code 4 where one was busy."""
    from rookery.browse.archive import Archive
    from rookery.browse.stored import index_directory, remove_index, size_on_disk
    from rookery.serve.session import ARCHIVE, cache_home, data_home

    removed, busy, freed = list[str](), list[str](), 0
    for each in indexes:
        directory = index_directory(cache_home(), each)
        try:
            if not dry_run:
                remove_index(directory)
            freed += each.bytes - (0 if dry_run else size_on_disk(directory))
            removed.append(_named(each))
        except Failed as failed:
            if failed.failure.outcome != "index_busy":
                raise
            busy.append(_named(each))
    if versions and not dry_run:
        size = _size_beside(data_home() / ARCHIVE)
        with Archive(data_home() / ARCHIVE) as archive:
            archive.forget_versions(versions)
        freed += size - _size_beside(data_home() / ARCHIVE)
    report = RemovalReport(tuple(removed), tuple(busy), len(versions), freed, dry_run)
    if as_json:
        _print_json(report)
    else:
        _print_lines(_removal_lines(report))
    raise typer.Exit(NO_EVIDENCE if busy else ANSWERED)


def _removal_lines(report: RemovalReport) -> Iterator[str]:
    would = "would remove" if report.dry_run else "removed"
    for place in report.removed:
        yield f"{would} the index of {place}"
    for place in report.busy:
        yield f"left alone: another process is writing the index of {place}"
    if report.versions:
        yield f"{would} {report.versions:,} page versions from the archive"
    if not report.removed and not report.versions:
        yield "nothing to remove"
    else:
        yield f"{'would free' if report.dry_run else 'freed'} {_size(report.bytes)}"


def _unused_versions(
    before: str, indexes: "Iterable[StoredIndex]", keep: Sequence[Path]
) -> list[int]:
    """The old page versions of the archive that nothing on this machine is known to need."""
    from rookery.browse.archive import Archive
    from rookery.browse.recording import Recording
    from rookery.browse.stored import digests_of_indexes
    from rookery.serve.session import ARCHIVE, cache_home, data_home

    place = data_home() / ARCHIVE
    if not place.is_file():
        return []
    digests = digests_of_indexes(cache_home(), indexes)
    for file in keep:
        if not file.is_file():
            raise Failed(Failure(str(file), "not_found", "there is no such file: check the path"))
        digests |= _digests_named(file.read_bytes())
    for file in _records_of(data_home()):
        digests |= _digests_in(file)
    with Recording(place) as recording:
        numbers = recording.versions_in_use()
    with Archive(place) as archive:
        return archive.unused_versions(before, digests, numbers)


def _records_of(data: Path) -> Iterator[Path]:
    """The files of the data folder that may name pages, by digest."""
    yield from data.glob("*.json*")
    yield from (data / "unfinished").glob("*")
    for path in data.glob("*.sqlite"):
        if path.name != "archive.sqlite":
            yield path


def _digests_in(path: Path) -> set[str]:
    """The digests that a file names; of a database, in any row. Raises Failed where it is busy."""
    with path.open("rb") as file:
        if file.read(16) != b"SQLite format 3\0":
            return _digests_named(path.read_bytes())
    found = set[str]()
    try:
        with closing(sqlite3.connect(path, timeout=5)) as database:
            database.text_factory = bytes
            tables = database.execute("select name from sqlite_master where type = 'table'")
            for (name,) in tables.fetchall():
                for row in database.execute(f'select * from "{name.decode()}"'):
                    for value in row:
                        if isinstance(value, bytes):
                            found |= _digests_named(value)
    except sqlite3.Error as error:
        detail = f"it cannot be read, and it may name pages of the archive ({error})"
        raise Failed(Failure(str(path), "archive_busy", detail)) from error
    return found


def _digests_named(data: bytes) -> set[str]:
    with suppress(zlib.error):
        data = zlib.decompress(data)
    return {digest.decode() for digest in _DIGEST.findall(data)}


def _matching(place: str, indexes: "Iterable[StoredIndex]") -> "list[StoredIndex]":
    """The indexes of this place, alone or among others, or the one with this id."""
    from rookery.browse.places import is_url, path_of

    name = place.partition("#")[0] if is_url(place) else os.path.realpath(path_of(place))
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    by_id = _ID.fullmatch(place) is not None
    return [
        each for each in indexes if shown in each.places or (by_id and each.id.startswith(place))
    ]


def _settings_of(places: Sequence[str], asked: "Settings") -> "Iterator[Settings]":
    """The settings that open each index of these places; those asked for where there is none."""
    from rookery.browse.cache import read_note
    from rookery.browse.selection import Selection
    from rookery.browse.stored import index_directory, list_indexes
    from rookery.serve.session import cache_home

    indexes = list_indexes(cache_home())
    for place in places:
        found = [] if asked.selection != Selection() else _matching(place, indexes)
        for each in found:
            note = read_note(index_directory(cache_home(), each))
            if note is not None:
                selection = Selection(note.glob, note.exclude)
                yield msgspec.structs.replace(asked, places=note.addresses, selection=selection)
        if not found:
            yield msgspec.structs.replace(asked, places=(place,))


def _refresh_index(settings: "Settings") -> tuple[RefreshReport, str]:
    """Open one library anew; gives what came of it, and the outcome where it failed."""
    from rookery.serve.session import Meter, Session
    from rookery.serve.terminal import StreamConsole

    place, read = _shown_places(settings.places), 0
    with Meter(StreamConsole(stderr=True), "reading") as meter:

        def progress(done: int, total: int, now: str) -> None:
            nonlocal read
            read += bool(total)
            meter(done, total, now)

        try:
            with Session(settings, progress) as session:
                library = session.refresh_library()
                failures = tuple(getattr(library, "failures", ()))
                left_out = len(getattr(library, "skipped", ()))
                pages = library.count_pages()
        except Failed as failed:
            failure = failed.failure
            problem = failure.detail or failure.outcome
            return RefreshReport(place, 0, read, 0, 0, problem), failure.outcome
    return RefreshReport(place, pages, read, len(failures), left_out), ""


def _shown_places(places: Sequence[str]) -> str:
    from rookery.browse.places import is_url, path_of

    return ", ".join(place if is_url(place) else str(path_of(place)) for place in places)


def _refresh_line(report: RefreshReport) -> str:
    if report.problem:
        return f"{report.place}: not refreshed: {report.problem}"
    parts = [f"{report.pages:,} pages", f"{report.read:,} read now"]
    parts += [f"{report.failed:,} failed"] * bool(report.failed)
    parts += [f"{report.left_out:,} left out"] * bool(report.left_out)
    return f"{report.place}: {' · '.join(parts)}"


def _stores() -> Iterator[StoreSize]:
    """Everything in the data folder and in the cache, the archive first."""
    from rookery.browse.archive import Archive
    from rookery.serve.session import ARCHIVE, cache_home, data_home

    for home in dict.fromkeys((data_home(), cache_home())):
        for path in sorted(home.iterdir()) if home.is_dir() else ():
            if path.name.endswith(_BESIDE) or path == cache_home():
                continue
            what = STORES.get(path.name, "not made by this version of Rookery")
            store = StoreSize(what, str(path), _size_beside(path))
            if path == data_home() / ARCHIVE:
                with Archive(path) as archive:
                    pages, versions = archive.count_versions()
                store = msgspec.structs.replace(store, pages=pages, versions=versions)
            yield store


def _size_beside(path: Path) -> int:
    """Bytes of a file or folder, with those that SQLite keeps beside it."""
    from rookery.browse.stored import size_on_disk

    return sum(size_on_disk(path.with_name(path.name + end)) for end in ("", *_BESIDE))


def _index_lines(each: "StoredIndex", skipped: bool) -> Iterator[str]:
    from rookery.browse.selection import count_skipped
    from rookery.serve.terminal import skipped_line

    yield f"{each.kind:7} {_named(each)}"
    passages = "" if each.passages is None else f"{each.passages:,} passages"
    failed = f"{each.failed:,} failed" if each.failed else ""
    missing = f"NO LONGER THERE: {', '.join(each.missing)}" if each.missing else ""
    ages = f"refreshed {_age(each.refreshed)}", f"used {_age(each.used)}"
    parts = f"{each.pages:,} pages", passages, _size(each.bytes), *ages, failed, missing
    yield f"        {each.id[:_ID_SHOWN]} · {' · '.join(filter(None, parts))}"
    if skipped:
        for one in each.skipped:
            yield f"        left out: {one.what}: {one.outcome}, {one.detail}"
    elif each.skipped:
        yield f"        {skipped_line(count_skipped(each.skipped))}"


def _named(each: "StoredIndex") -> str:
    """What an index is of, as it would be named on the command line."""
    patterns = [("--glob", each.glob), ("--exclude", each.exclude)]
    options = [f"{option} {shlex.quote(p)}" for option, named in patterns for p in named]
    places = ", ".join(each.places) or f"{each.id[:_ID_SHOWN]} (made by an older version)"
    return " ".join((places, *options))


def _store_line(store: StoreSize) -> str:
    pages = ""
    if store.pages is not None:
        pages = f" · {store.pages:,} pages, {store.versions:,} versions"
    return f"{_size(store.bytes):>9} {store.path} · {store.what}{pages}"


def _size(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    number, units = size / 1000, "kMGTP"
    while number >= 999.5 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{number:.3g} {units[0]}B"


def _age(iso: str) -> str:
    """How long ago a time was, in the largest whole unit."""
    seconds = max(0.0, time.time() - datetime.fromisoformat(iso).timestamp())
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"


def _print_lines(lines: Iterable[str]) -> None:
    from rookery.serve.terminal import clean

    for line in lines:
        sys.stdout.write(clean(line) + "\n")


def _print_json(record: Record) -> None:
    from rookery.serve.terminal import as_json

    sys.stdout.write(as_json(record) + "\n")

"""The command `rookery index`: list, refresh, remove and prune what is stored on this machine.

Heavy imports are made when a command runs.
"""

import os
import re
import shlex
import sqlite3
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from rookery.errors import USER_ERROR_OUTCOMES, Failed, Outcome
from rookery.pages.file_selection import SkippedGroup, count_skipped
from rookery.records import Failure, Record
from rookery.settings import ARCHIVE, FileSelection, Settings, get_cache_folder, get_data_folder
from rookery.shell.command_line import (
    EXIT_ANSWERED,
    EXIT_NO_EVIDENCE,
    EXIT_USAGE,
    CommandGroup,
    print_result,
)
from rookery.shell.command_options import (
    NETWORK_OPTIONS,
    SELECTION_OPTIONS,
    JsonOption,
    add_settings_options,
    make_argument,
    make_option,
)
from rookery.typed_files import read_text_table
from rookery.written_values import format_count

if TYPE_CHECKING:
    from rookery.library.stored_indexes import StoredIndex, StoredShards


index_commands = CommandGroup(help="What is indexed and stored on this machine.")

PlaceNames = Annotated[
    list[str],
    make_argument("PLACE...  A folder, a file, an address, or an id of rookery index list."),
]
DryRun = Annotated[bool, make_option("--dry-run  Say what would go, and remove nothing.")]

STORE_DESCRIPTIONS = read_text_table(Path(__file__).with_name("stored_files.txt"))
"""what lies in the data folder and in the cache, by name"""
_SQLITE_SUFFIXES = ("-wal", "-shm", "-journal")
"""endings of the files that SQLite keeps beside a database"""
_AGE_PATTERN = re.compile(r"(\d+)\s*([hdwy])")
_HOURS_PER_UNIT = {"h": 1, "d": 24, "w": 7 * 24, "y": 365 * 24}
_DIGEST_PATTERN = re.compile(rb"[0-9a-f]{32}")
_ID_PATTERN = re.compile(r"[0-9a-f]{6,32}")
_ID_CHARACTERS = 8


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
    """The output of `rookery index list --json`."""

    indexes: "tuple[StoredIndex, ...]"
    shards: "tuple[StoredShards, ...]"
    stores: tuple[StoreSize, ...]


class RefreshReport(Record, frozen=True):
    """The result of refreshing one place."""

    place: str
    pages: int
    read: int
    """files or pages that were read now"""
    failed: int
    left_out: int
    problem: str = ""
    """why it could not be refreshed"""
    calibrated: bool = False
    """scores of the evidence model are calibrated on it"""
    skipped: tuple[SkippedGroup, ...] = ()
    """what is left out, by the reason, with examples"""


class RefreshReports(Record, frozen=True):
    """The output of `rookery index refresh --json`."""

    refreshed: tuple[RefreshReport, ...]


class ShardsReport(Record, frozen=True):
    """The output of `rookery index build --json`."""

    directory: str
    shards: int
    pages: int
    passages: int
    failed: int
    """files that could not be read"""
    left_out: int
    calibrated: bool = False
    """scores of the evidence model are calibrated on them"""
    skipped: tuple[SkippedGroup, ...] = ()
    """what is left out, by the reason, with examples"""


class RemovalReport(Record, frozen=True):
    """The output of `rookery index remove --json` and `prune --json`."""

    removed: tuple[str, ...]
    """places whose index was removed"""
    busy: tuple[str, ...]
    """places whose index another process is writing, and that were left alone"""
    versions: int
    """of pages, removed from the archive"""
    bytes: int
    """freed; with --dry-run, of the indexes alone"""
    dry_run: bool
    quoted: tuple[str, ...] = ()
    """what in the data folder still names what was erased"""


@index_commands.command("list")
def list_stored_files(skipped: bool = False, as_json: JsonOption = False) -> None:
    """List each index, how large and how old it is, and everything else that is stored.

    --skipped  Name each file that could not be read or is left out, and why.
    """
    from rookery.library.stored_indexes import list_stored_indexes, list_stored_shards

    indexes, stores = list_stored_indexes(get_cache_folder()), list(_list_stores())
    shards = list_stored_shards(get_cache_folder())
    lines = [line for each in indexes for line in _format_index(each, skipped)]
    lines += [line for library in shards for line in _format_shards(library, skipped)]
    lines += ["", *(_format_store(store) for store in stores)] if stores else []
    lines = lines or ["nothing is stored: rookery ask ... --in DIR makes an index"]
    print_result(StoredFiles(tuple(indexes), tuple(shards), tuple(stores)), lines, as_json)


@index_commands.command("refresh")
@add_settings_options(*SELECTION_OPTIONS, *NETWORK_OPTIONS, "ranker")
def refresh_indexes(
    places: PlaceNames, settings: Settings = Settings(), as_json: JsonOption = False
) -> None:
    """Read again what changed, and crawl sites again. A place without an index gets one.

    What changed is calibrated anew for the evidence model, if one is there, so that scores are
    probabilities: up to a minute. Ctrl-C then keeps the index.
    """
    reports, code = [], EXIT_ANSWERED
    for settled in _list_index_settings(places, settings):
        report, outcome = _refresh_index(settled)
        reports.append(report)
        if outcome:
            code = max(code, EXIT_USAGE if outcome in USER_ERROR_OUTCOMES else EXIT_NO_EVIDENCE)
    print_result(RefreshReports(tuple(reports)), map(_format_refresh, reports), as_json)
    raise typer.Exit(code)


@index_commands.command("build")
@add_settings_options(*SELECTION_OPTIONS, "ranker")
def build_shards(
    places: list[str],
    out: Path,
    shards: Annotated[int, typer.Option(min=1, max=1000)] = 8,
    workers: Annotated[int, typer.Option(min=0)] = 0,
    ray: str = "",
    settings: Settings = Settings(),
    as_json: JsonOption = False,
) -> None:
    """Index a large collection in shards, which are built and searched side by side.

    Run it again to read what changed, or to go on where it was interrupted. Then name DIR to
    rookery ask --in. What changed is calibrated anew for the evidence model, so that scores are
    probabilities: up to a minute. Ctrl-C then keeps the shards.

    PLACE...  Folders and files, however many.
    --out DIR  Folder of the shards: name it to ask --in.
    --shards NUMBER  Number of shards.
    --workers NUMBER  Processes that build; 0: one a processor.
    --ray ADDRESS  Build and search on the machines of a Ray cluster, such as auto or HOST:6379.
    """
    from rookery.answers.answer_session import EvidenceSources
    from rookery.library.libraries import is_url, resolve_place_path
    from rookery.library.sharded_library import build_sharded_index
    from rookery.library.stored_indexes import record_shards_use
    from rookery.shell.terminal_output import ProgressBar, StreamConsole

    if sites := [place for place in places if is_url(place)]:
        raise ValueError(f"shards are built of folders and files, not of {sites[0]}")
    record_shards_use(get_cache_folder(), out)
    progress: dict[int, tuple[int, int]] = {}

    with ProgressBar(StreamConsole(stderr=True), "indexing") as meter:

        def report_progress(number: int, count: int, files: int) -> None:
            progress[number] = count, files
            dones, totals = map(sum, zip(*progress.values(), strict=True))
            meter(dones, totals, f"shard {number + 1} of {shards}")

        note = build_sharded_index(
            [resolve_place_path(place) for place in places],
            shards,
            out,
            workers or os.cpu_count() or 1,
            settings.selection,
            ray,
            report_progress,
        )
    settings = msgspec.structs.replace(settings, places=(str(out),), selection=FileSelection())
    with (
        EvidenceSources(settings) as sources,
        ProgressBar(StreamConsole(stderr=True), "calibrating") as calibration_meter,
    ):
        calibrated = sources.calibrate_library(calibration_meter) is not None
    report = ShardsReport(
        str(out),
        note.count,
        sum(shard.pages for shard in note.shards),
        sum(shard.passages for shard in note.shards),
        len({failure for shard in note.shards for failure in shard.failures}),
        sum(len(shard.skipped) for shard in note.shards),
        calibrated,
        count_skipped(skipped for shard in note.shards for skipped in shard.skipped),
    )
    line = f"{out}: {_format_contents(report)}{_format_exceptions(report)}"
    print_result(report, [line], as_json)


@index_commands.command("remove")
def remove_indexes(
    places: PlaceNames, erase: bool = False, dry_run: DryRun = False, as_json: JsonOption = False
) -> None:
    """Remove the indexes of places. The archive keeps their pages, so that quotes verify.

    --erase  Of files and folders that were deleted: also erase their texts, in all versions, from
        the archive, and say what still quotes them. An index that held them is made again when
        somebody asks.
    """
    from rookery.library.sharded_library import NOTE_FILE
    from rookery.library.stored_indexes import list_stored_indexes

    if erase:
        _erase_places(places, dry_run, as_json)
        return
    indexes = list_stored_indexes(get_cache_folder())
    chosen = [_match_indexes(place, indexes) for place in places]
    for place, matches in zip(places, chosen, strict=True):
        if not matches:
            detail = "there is no index of this place: rookery index list shows all"
            if (Path(place) / NOTE_FILE).is_file():
                detail = "it holds shards and their pages: delete the folder, and they are gone"
            raise Failed(Failure(place, Outcome.NOT_INDEXED, detail))
    unique = {each.id: each for matches in chosen for each in matches}
    _remove_all(list(unique.values()), [], dry_run, as_json)


def _erase_places(places: Sequence[str], dry_run: bool, as_json: bool) -> None:
    """Erase the texts of places that are gone, and say what still quotes them."""
    from rookery.library.libraries import is_url, resolve_place_path
    from rookery.library.page_archive import PageArchive
    from rookery.library.stored_indexes import erase_pages, list_holding_indexes

    cache, urls = get_cache_folder(), list[str]()
    for place in places:
        path = Path(os.path.realpath(resolve_place_path(place)))
        if path.exists() and not is_url(place):
            raise ValueError(f"{place} is still there and would be read again: delete it first")
        urls.append(place if is_url(place) else path.as_uri())
    with PageArchive(get_data_folder() / ARCHIVE) as archive:
        digests = [each for url in urls for each in archive.list_versions_at(url).values()]
        if not digests:
            detail = "nothing of it is stored: name a file, folder or address as it was searched"
            raise Failed(Failure(places[0], Outcome.NOT_INDEXED, detail))
        holding = [each for url in urls for each in list_holding_indexes(cache, url)]
        for url in () if dry_run else urls:
            erase_pages(archive, cache, url, frozenset())
    named = [
        f"{file.name}: {what}"
        for file in _list_record_files(get_data_folder())
        for what, texts in sorted(_find_digests_in_file(file).items())
        if not texts.isdisjoint(digests)
    ]
    indexes = tuple(dict.fromkeys(map(_format_index_name, holding)))
    report = RemovalReport(indexes, (), len(digests), 0, dry_run, tuple(named))
    print_result(report, _format_removals(report), as_json)


@index_commands.command("prune")
def prune_indexes(
    older_than: str = "",
    archive: bool = False,
    keep: list[Path] | None = None,
    dry_run: DryRun = False,
    as_json: JsonOption = False,
) -> None:
    """Remove the indexes of places that no longer exist and, by age, of those not used.

    --older-than AGE  Also what was not used for so long: 12h, 90d, 8w or 1y (hours, days, weeks,
        years).
    --archive  Also page versions that were fetched before that, and that no index, recorded answer,
        desk or --keep names. Answers saved elsewhere that quote them can no longer be verified.
    --keep FILE  With --archive: saved answers, whose pages stay; repeatable.
    """
    from rookery.library.stored_indexes import list_stored_indexes

    if (archive or keep) and not older_than:
        raise ValueError("--archive goes with --older-than AGE, such as 90d: pages have an age")
    if keep and not archive:
        raise ValueError("--keep goes with --archive: indexes alone lose no page")
    before = _parse_age(older_than) if older_than else ""
    indexes = list_stored_indexes(get_cache_folder())
    goes = [
        each
        for each in indexes
        if each.missing or each.used < before or (not each.places and each.passages is None)
    ]
    going = {each.id for each in goes}
    stays = [each for each in indexes if each.id not in going]
    versions = _find_unused_versions(before, stays, keep or []) if archive else []
    _remove_all(goes, versions, dry_run, as_json)


def _parse_age(age: str) -> str:
    """Return the time so long ago: UTC, ISO 8601. Raises ValueError."""
    found = _AGE_PATTERN.fullmatch(age.strip().lower())
    if found is None:
        raise ValueError(f"{age!r} is no age: give a number and h, d, w or y, such as 12h or 90d")
    try:
        then = datetime.now(UTC) - timedelta(hours=int(found[1]) * _HOURS_PER_UNIT[found[2]])
    except OverflowError:
        return ""
    return then.isoformat(timespec="seconds")


def _remove_all(
    indexes: "Sequence[StoredIndex]", versions: Sequence[int], dry_run: bool, as_json: bool
) -> None:
    """Remove these indexes and page versions, and say so; exit code 4 where one was busy."""
    from rookery.library.page_archive import PageArchive
    from rookery.library.stored_indexes import (
        get_index_directory,
        measure_disk_size,
        remove_stored_index,
    )

    removed, busy, freed = list[str](), list[str](), 0
    for each in indexes:
        directory = get_index_directory(get_cache_folder(), each)
        try:
            if not dry_run:
                remove_stored_index(directory)
            freed += each.bytes - (0 if dry_run else measure_disk_size(directory))
            removed.append(_format_index_name(each))
        except Failed as failed:
            if failed.failure.outcome != Outcome.INDEX_BUSY:
                raise
            busy.append(_format_index_name(each))
    if versions and not dry_run:
        size = _measure_store(get_data_folder() / ARCHIVE)
        with PageArchive(get_data_folder() / ARCHIVE) as archive:
            archive.delete_versions(versions)
        freed += size - _measure_store(get_data_folder() / ARCHIVE)
    report = RemovalReport(tuple(removed), tuple(busy), len(versions), freed, dry_run)
    print_result(report, _format_removals(report), as_json)
    raise typer.Exit(EXIT_NO_EVIDENCE if busy else EXIT_ANSWERED)


def _format_removals(report: RemovalReport) -> Iterator[str]:
    would = "would remove" if report.dry_run else "removed"
    for place in report.removed:
        yield f"{would} the index of {place}"
    for place in report.busy:
        yield f"left alone: another process is writing the index of {place}"
    if report.versions:
        yield f"{would} {format_count(report.versions, 'page version')} from the archive"
    for each in report.quoted:
        yield f"still named in {each}"
    if not report.removed and not report.versions:
        yield "nothing to remove"
    elif report.bytes:
        yield f"{'would free' if report.dry_run else 'freed'} {_format_size(report.bytes)}"


def _find_unused_versions(
    before: str, indexes: "Iterable[StoredIndex]", keep: Sequence[Path]
) -> list[int]:
    """Return the old page versions of the archive that nothing on this machine is known to need."""
    from rookery.library.call_recording import CallRecording, list_recorded_versions
    from rookery.library.page_archive import PageArchive
    from rookery.library.stored_indexes import collect_index_digests

    place = get_data_folder() / ARCHIVE
    if not place.is_file():
        return []
    digests = collect_index_digests(get_cache_folder(), indexes)
    for file in keep:
        if not file.is_file():
            raise Failed(
                Failure(str(file), Outcome.NOT_FOUND, "there is no such file: check the path")
            )
        digests |= _find_digests(file.read_bytes())
    for file in _list_record_files(get_data_folder()):
        digests = digests.union(*_find_digests_in_file(file).values())
    with CallRecording(place) as recording:
        numbers = list_recorded_versions(recording)
    with PageArchive(place) as archive:
        return archive.list_unused_versions(before, digests, numbers)


def _list_record_files(data: Path) -> Iterator[Path]:
    """Yield the files of the data folder that may name pages, by digest."""
    yield from data.glob("*.json*")
    yield from (data / "unfinished").glob("*")
    for path in data.glob("*.sqlite"):
        if path.name != "archive.sqlite":
            yield path


def _find_digests_in_file(path: Path) -> dict[str, set[str]]:
    """Return the digests that a file names, by what names them: of a database the table, or the
    page of an answer. Raises Failed where it is busy."""
    with path.open("rb") as file:
        if file.read(16) != b"SQLite format 3\0":
            return {"in it": _find_digests(path.read_bytes())}
    digests = defaultdict[str, set[str]](set)
    try:
        with closing(sqlite3.connect(path, timeout=5)) as database:
            database.text_factory = bytes
            tables = database.execute("select name from sqlite_master where type = 'table'")
            for table in (name.decode() for (name,) in tables.fetchall()):
                for row in database.execute(f'select * from "{table}"'):
                    what = f"/answers/{row[0].decode()}" if table == "answers" else table
                    for value in row:
                        if isinstance(value, bytes):
                            digests[what] |= _find_digests(value)
    except sqlite3.Error as error:
        detail = f"it cannot be read, and it may name pages of the archive ({error})"
        raise Failed(Failure(str(path), Outcome.ARCHIVE_BUSY, detail)) from error
    return digests


def _find_digests(data: bytes) -> set[str]:
    with suppress(zlib.error):
        data = zlib.decompress(data)
    return {digest.decode() for digest in _DIGEST_PATTERN.findall(data)}


def _match_indexes(place: str, indexes: "Iterable[StoredIndex]") -> "list[StoredIndex]":
    """Return the indexes of this place, alone or among others, or the one with this id."""
    from rookery.library.libraries import is_url, resolve_place_path

    name = place.partition("#")[0] if is_url(place) else os.path.realpath(resolve_place_path(place))
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    by_id = _ID_PATTERN.fullmatch(place) is not None
    return [
        each for each in indexes if shown in each.places or (by_id and each.id.startswith(place))
    ]


def _list_index_settings(places: Sequence[str], settings: "Settings") -> "Iterator[Settings]":
    """Return the settings that open each index of these places; those asked for where there is
    none."""
    from rookery.library.search_index import read_index_note
    from rookery.library.stored_indexes import get_index_directory, list_stored_indexes

    indexes = list_stored_indexes(get_cache_folder())
    for place in places:
        matches = [] if settings.selection != FileSelection() else _match_indexes(place, indexes)
        for each in matches:
            note = read_index_note(get_index_directory(get_cache_folder(), each))
            if note is not None:
                selection = FileSelection(note.glob, note.exclude, note.follow_links)
                yield msgspec.structs.replace(settings, places=note.addresses, selection=selection)
        if not matches:
            yield msgspec.structs.replace(settings, places=(place,))


def _refresh_index(settings: "Settings") -> tuple[RefreshReport, str]:
    """Open one library anew; return what came of it, and the outcome where it failed."""
    from rookery.answers.answer_session import EvidenceSources
    from rookery.library.libraries import list_skipped
    from rookery.shell.terminal_output import ProgressBar, StreamConsole

    place, read, err = _format_places(settings.places), 0, StreamConsole(stderr=True)

    def report_progress(count: int, total: int, now: str) -> None:
        nonlocal read
        read += bool(total)
        meter(count, total, now)

    try:
        with EvidenceSources(settings, report_progress) as sources:
            with ProgressBar(err, "reading") as meter:
                library = sources.refresh_library()
            failures = tuple(library.failures)
            skipped = list_skipped(library)
            pages = library.count_pages()
            with ProgressBar(err, "calibrating") as calibration_meter:
                calibrated = sources.calibrate_library(calibration_meter) is not None
    except Failed as failed:
        failure = failed.failure
        problem = failure.detail or failure.outcome
        return RefreshReport(place, 0, read, 0, 0, problem), failure.outcome
    counts = (pages, read, len(failures), len(skipped))
    return RefreshReport(place, *counts, "", calibrated, count_skipped(skipped)), ""


def _format_places(places: Sequence[str]) -> str:
    from rookery.library.libraries import is_url, resolve_place_path

    return ", ".join(place if is_url(place) else str(resolve_place_path(place)) for place in places)


def _format_refresh(report: RefreshReport) -> str:
    if report.problem:
        return f"{report.place}: not refreshed: {report.problem}"
    counts = f"{format_count(report.pages, 'page')} · {report.read:,} read now"
    return f"{report.place}: {counts}{_format_exceptions(report)}"


def _format_exceptions(report: RefreshReport | ShardsReport) -> str:
    """Return how many files failed or were left out, of these those behind links that are not
    followed by name, and whether scores are calibrated."""
    from rookery.shell.terminal_output import format_skipped_files

    failed = f" · {report.failed:,} failed" if report.failed else ""
    left_out = f" · {report.left_out:,} left out" if report.left_out else ""
    links = [each for each in report.skipped if each.reason == Outcome.LEADS_OUT]
    left_out += format_skipped_files(links).replace("left out:", ",")
    return failed + left_out + (" · calibrated" if report.calibrated else "")


def _list_stores() -> Iterator[StoreSize]:
    """Return everything in the data folder and in the cache, the archive first."""
    from rookery.library.page_archive import PageArchive

    for home in dict.fromkeys((get_data_folder(), get_cache_folder())):
        for path in sorted(home.iterdir()) if home.is_dir() else ():
            if path.name.endswith((*_SQLITE_SUFFIXES, ".lock")) or path == get_cache_folder():
                continue
            what = STORE_DESCRIPTIONS.get(path.name, "not made by this version of Rookery")
            store = StoreSize(what, str(path), _measure_store(path))
            if path == get_data_folder() / ARCHIVE:
                with PageArchive(path) as archive:
                    pages, versions = archive.count_versions()
                store = msgspec.structs.replace(store, pages=pages, versions=versions)
            yield store


def _measure_store(path: Path) -> int:
    """Bytes of a file or folder, with those that SQLite keeps beside it."""
    from rookery.library.stored_indexes import measure_disk_size

    return sum(
        measure_disk_size(path.with_name(path.name + end)) for end in ("", *_SQLITE_SUFFIXES)
    )


def _format_index(each: "StoredIndex", skipped: bool) -> Iterator[str]:
    yield f"{each.kind:7} {_format_index_name(each)}"
    parts = each.id[:_ID_CHARACTERS], _format_contents(each), *_list_state(each)
    yield f"        {' · '.join(filter(None, parts))}"
    yield from _format_left_out(each, skipped)


def _format_shards(each: "StoredShards", skipped: bool) -> Iterator[str]:
    yield f"shards  {each.directory}: {_format_places_and_patterns(each)}"
    unfinished = "" if each.complete else "NOT COMPLETE: build it again, which goes on"
    if each.complete and each.outdated:
        unfinished = "READ BY ANOTHER VERSION: build it again, which reads its files anew"
    cluster = f"on the Ray cluster {each.ray}" if each.ray else ""
    every = (_format_contents(each), *_list_state(each), cluster, unfinished)
    yield f"        {' · '.join(filter(None, every))}"
    yield from _format_left_out(each, skipped)


def _format_contents(each: "StoredIndex | StoredShards | ShardsReport") -> str:
    kinds = ("shard", "page", "passage")
    numbers = ((kind, getattr(each, f"{kind}s", None)) for kind in kinds)
    return " · ".join(format_count(n, kind) for kind, n in numbers if n is not None)


def _list_state(each: "StoredIndex | StoredShards") -> tuple[str, ...]:
    """Return the size and the age, and what is the matter."""
    failed = f"{len(each.failed):,} failed" if each.failed else ""
    missing = f"NO LONGER THERE: {', '.join(each.missing)}" if each.missing else ""
    ages = f"refreshed {_format_age(each.refreshed)}", f"used {_format_age(each.used)}"
    return _format_size(each.bytes), *ages, failed, missing


def _format_left_out(each: "StoredIndex | StoredShards", skipped: bool) -> Iterator[str]:
    from rookery.shell.terminal_output import format_skipped_files

    if skipped:
        for one in (*each.failed, *each.skipped):
            yield f"        left out: {one.what}: {one.outcome}, {one.detail}"
    elif each.skipped:
        yield f"        {format_skipped_files(count_skipped(each.skipped))}"


def _format_index_name(each: "StoredIndex") -> str:
    """Return the name of an index's documents, as on the command line."""
    made = f"{each.id[:_ID_CHARACTERS]} (made by an older version)"
    return _format_places_and_patterns(each) if each.places else made


def _format_places_and_patterns(each: "StoredIndex | StoredShards") -> str:
    patterns = [("--glob", each.glob), ("--exclude", each.exclude)]
    options = [f"{option} {shlex.quote(p)}" for option, named in patterns for p in named]
    options += ["--follow-links"] * each.follow_links
    return " ".join((", ".join(each.places), *options))


def _format_store(store: StoreSize) -> str:
    pages = ""
    if store.pages is not None:
        versions = format_count(store.versions or 0, "version")
        pages = f" · {format_count(store.pages, 'page')}, {versions}"
    return f"{_format_size(store.bytes):>9} {store.path} · {store.what}{pages}"


def _format_size(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    number, units = size / 1000, "kMGTP"
    while number >= 999.5 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{number:.3g} {units[0]}B"


def _format_age(iso: str) -> str:
    """Format the time since then in the largest whole unit."""
    seconds = max(0.0, time.time() - datetime.fromisoformat(iso).timestamp())
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit} ago"
    return "just now"

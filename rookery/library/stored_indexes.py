"""List the indexes in the cache, and the shards that were built, with contents, size and age.

Indexes can be removed. Shards lie in folders that somebody named; the cache notes which.
"""

import os
import shutil
from collections.abc import Iterable, Iterator, Set
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from rookery.errors import Failed, Outcome
from rookery.library.call_recording import erase_sessions
from rookery.library.folder_library import FolderManifest
from rookery.library.page_archive import PageArchive, translate_storage_errors
from rookery.library.search_index import (
    INDEX_NOTE_FILE,
    IndexNote,
    SearchIndex,
    hold_lock,
    read_index_note,
    translate_index_errors,
)
from rookery.library.sharded_library import NOTE_FILE, ShardsNote, find_shards_note
from rookery.library.site_library import FinishedCrawl
from rookery.library.warc import WarcContents
from rookery.pages.passages import READER_FORMAT
from rookery.records import Failure, Record, decode_json

INDEX_KINDS = {"folders": "folder", "sites": "site", "warcs": "warc"}
"""by folder of the cache, the kind of its indexes"""
SHARDS_FOLDER = "shards"
"""folder of the cache with a file for each sharded library, which holds its path"""
_REMOVED_PREFIX = "removed-"
T = TypeVar("T")
_LOCK_FILE = "lock"


class StoredIndex(Record, frozen=True):
    """One index of the cache."""

    id: str
    kind: str
    """folder, site or warc"""
    places: tuple[str, ...]
    """paths of the folders and files, or the address of the site; empty: made by an older version,
    which did not note it"""
    glob: tuple[str, ...]
    exclude: tuple[str, ...]
    follow_links: bool
    """whether links out of the folders are followed"""
    pages: int
    passages: int | None
    """None where the index cannot be opened by this version"""
    bytes: int
    refreshed: str
    """when it was last made or changed: UTC, ISO 8601"""
    used: str
    """when it was last opened"""
    missing: tuple[str, ...]
    """places that no longer exist"""
    failed: tuple[Failure, ...]
    """each file or page that could not be read, with the reason"""
    skipped: tuple[Failure, ...]
    """each file and folder that is left out, with the reason"""


class StoredShards(Record, frozen=True):
    """One sharded library that was built or opened on this machine."""

    directory: str
    places: tuple[str, ...]
    """real paths of the folders and files"""
    glob: tuple[str, ...]
    exclude: tuple[str, ...]
    follow_links: bool
    """whether links out of the folders are followed"""
    shards: int
    complete: bool
    """False until all shards are built"""
    outdated: bool
    """another version read their files: building them again reads them anew"""
    pages: int
    passages: int
    bytes: int
    """with the pages"""
    refreshed: str
    """when it was last built: UTC, ISO 8601"""
    used: str
    """when it was last built or opened"""
    missing: tuple[str, ...]
    """places that no longer exist"""
    failed: tuple[Failure, ...]
    """each file that could not be read, with the reason"""
    skipped: tuple[Failure, ...]
    """each file and folder that is left out, with the reason"""
    ray: str
    """address of the Ray cluster that holds them; empty: this machine"""


def record_shards_use(cache: Path, directory: Path) -> None:
    """Note that the shards in a folder were built or opened now, so that they are listed.

    A note that cannot be written is left out without an error.
    """
    real = os.path.realpath(directory)
    note = cache / SHARDS_FOLDER / sha256(os.fsencode(real)).hexdigest()[:32]
    with suppress(OSError):  # whoever may not write there has no list
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_bytes(os.fsencode(real))


def list_stored_shards(cache: Path) -> list[StoredShards]:
    """Return the sharded libraries that `cache` has notes of, the one used last first.

    One whose folder is gone, or whose shards.json is missing or cannot be read, is left out.
    """
    dated_shards: list[tuple[float, StoredShards]] = []
    for file in (cache / SHARDS_FOLDER).glob("*"):
        directory, used = Path(os.fsdecode(file.read_bytes())), file.stat().st_mtime
        with suppress(Failed):  # shards.json cannot be read: opening it says so
            if (note := find_shards_note(directory)) is not None:
                dated_shards.append((used, _describe_shards(directory, note, used)))
    return [shards for _, shards in sorted(dated_shards, key=lambda one: -one[0])]


def _describe_shards(directory: Path, note: ShardsNote, used: float) -> StoredShards:
    return StoredShards(
        directory=_decode_path(os.fsencode(directory)),
        places=tuple(_decode_path(os.fsencode(place)) for place in note.places),
        glob=note.glob,
        exclude=note.exclude,
        follow_links=note.follow_links,
        shards=note.count,
        complete=len(note.shards) == note.count,
        outdated=note.reader != READER_FORMAT,
        pages=sum(shard.pages for shard in note.shards),
        passages=sum(shard.passages for shard in note.shards),
        bytes=measure_disk_size(directory),
        refreshed=_format_time((directory / NOTE_FILE).stat().st_mtime),
        used=_format_time(used),
        missing=tuple(
            _decode_path(os.fsencode(place)) for place in note.places if not os.path.lexists(place)
        ),
        failed=tuple({each for shard in note.shards for each in shard.failures}),
        skipped=tuple(each for shard in note.shards for each in shard.skipped),
        ray=note.ray,
    )


def _decode_path(path: bytes) -> str:
    return path.decode("utf-8", "replace")  # for people and for JSON


def list_stored_indexes(cache: Path) -> list[StoredIndex]:
    """Return every index below `cache`, the one used last first.

    Each is opened to count its passages. The remains of an index whose removal was interrupted are
    among them.
    """
    newest_first = sorted(_iter_index_directories(cache), key=_get_last_used, reverse=True)
    return [_describe_index(directory) for directory in newest_first]


def get_index_directory(cache: Path, index: StoredIndex) -> Path:
    """Return the folder of an index."""
    return cache / next(name for name, kind in INDEX_KINDS.items() if kind == index.kind) / index.id


def collect_index_digests(cache: Path, indexes: Iterable[StoredIndex]) -> set[str]:
    """Return the digests of all texts that these indexes below `cache` hold.

    Raises Failed: index_busy while another process writes one of them, damaged or
    unreadable_archive where the contents of one cannot be read.
    """
    digests = set[str]()
    for directory in (get_index_directory(cache, index) for index in indexes):
        with hold_lock(directory / _LOCK_FILE, partial(_raise_busy, directory)):
            digests.update(_read_contents(directory)[0])
    return digests


def list_index_digests(directory: Path) -> list[str]:
    """Return the digests, sorted, of the texts that the index in a folder of the cache holds.

    Empty where its contents cannot be read.
    """
    with suppress(Failed):
        return sorted(set(_read_contents(directory)[0]))
    return []


def remove_stored_index(directory: Path) -> None:
    """Remove an index. Raises Failed (index_busy) while another process writes it.

    Killed at any moment it leaves a whole index, or none: what says that the index is complete is
    removed first. The lock stays, for another process may be waiting for it.
    """
    waiting = partial(_raise_busy, directory)
    with hold_lock(directory / _LOCK_FILE, waiting), translate_storage_errors(directory):
        entries = [entry for entry in directory.iterdir() if entry.name != _LOCK_FILE]
        for entry in entries:
            if not entry.is_dir():
                entry.unlink(missing_ok=True)
        for entry in entries:
            if entry.is_dir():
                # By one step out of the way, so that nobody opens the half of it.
                aside = directory / f"{_REMOVED_PREFIX}{entry.name.removeprefix(_REMOVED_PREFIX)}"
                shutil.rmtree(entry.rename(aside))


def list_holding_indexes(cache: Path, url: str) -> list[StoredIndex]:
    """Return each index in the cache that may hold an address, or what is below it."""
    is_page = "://" in url and not url.startswith("file:")
    place = Path(url if is_page else unquote(urlsplit(url).path))

    def may_hold(other: str) -> bool:
        return place.is_relative_to(other) or Path(other).is_relative_to(place)

    return [each for each in list_stored_indexes(cache) if any(map(may_hold, each.places))]


def erase_pages(archive: PageArchive, cache: Path, url: str, keep: Set[str]) -> None:
    """Erase the stored texts of an address, and of all below it.

    Each index in the cache that may hold them goes as a whole, since what is deleted from one stays
    in its files: it is made again from what is there when somebody asks. Then go the sessions in
    which they were read, and all versions in the archive whose digest is not among `keep`. Raises
    Failed (index_busy) before any of the archive is gone.
    """
    for each in list_holding_indexes(cache, url):
        remove_stored_index(get_index_directory(cache, each))
    numbers = {n: each for n, each in archive.list_versions_at(url).items() if each not in keep}
    erase_sessions(archive, {url}, set(numbers.values()))
    archive.delete_versions([*numbers])


def _raise_busy(directory: Path) -> None:
    detail = "another process is writing this index: wait until it has finished"
    raise Failed(Failure(str(directory), Outcome.INDEX_BUSY, detail))


def measure_disk_size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; 0 where there is neither.

    Files that are removed meanwhile are not counted.
    """
    if not path.is_dir():
        return path.stat().st_size if path.is_file() else 0
    size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # gone since it was listed
                size += (Path(folder) / name).lstat().st_size
    return size


def _iter_index_directories(cache: Path) -> Iterator[Path]:
    """Yield the folders that hold an index, or what a killed removal left of one."""
    for name in INDEX_KINDS:
        with suppress(OSError):
            for directory in sorted((cache / name).iterdir()):
                if directory.is_dir() and any(e.name != _LOCK_FILE for e in directory.iterdir()):
                    yield directory


def _get_last_used(directory: Path) -> float:
    note = directory / INDEX_NOTE_FILE
    return (note if note.exists() else directory).stat().st_mtime


def _describe_index(directory: Path) -> StoredIndex:
    note, used = read_index_note(directory), _get_last_used(directory)
    note = note or IndexNote(INDEX_KINDS[directory.parent.name], (), used)
    paths = [unquote_to_bytes(urlsplit(address).path) for address in note.addresses]
    places = note.addresses
    if note.kind != "site":
        places = tuple(path.decode("utf-8", "replace") for path in paths)
    located = [] if note.kind == "site" else zip(places, paths, strict=True)
    missing = tuple(place for place, path in located if not os.path.lexists(path))
    digests, failed, skipped = list[str](), tuple[Failure, ...](), tuple[Failure, ...]()
    with suppress(Failed):  # it may be damaged
        digests, failed, skipped = _read_contents(directory)
    return StoredIndex(
        id=directory.name,
        kind=note.kind,
        places=places,
        glob=note.glob,
        exclude=note.exclude,
        follow_links=note.follow_links,
        pages=len(digests),
        passages=_count_passages(directory),
        bytes=measure_disk_size(directory),
        refreshed=_format_time(note.refreshed),
        used=_format_time(used),
        missing=missing,
        failed=failed,
        skipped=skipped,
    )


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


_Contents = tuple[list[str], tuple[Failure, ...], tuple[Failure, ...]]


def _read_contents(directory: Path) -> _Contents:
    """Return the digest of each page of an index, what could not be read, and what is left out.
    Raises Failed where a file of it is damaged."""
    if (path := directory / "manifest.sqlite").is_file():
        with closing(FolderManifest(path)) as manifest:
            return manifest.list_digests(), manifest.list_failed(), manifest.list_left_out()
    if crawl := _decode_file(directory / "crawl.json", FinishedCrawl):
        return [digest for _, digest in set(crawl.pages.values())], tuple(crawl.failures), ()
    digests, failed = list[str](), tuple[Failure, ...]()
    for path in directory.glob("*/contents.json"):  # several, if one was not removed
        if contents := _decode_file(path, WarcContents):
            digests += [digest for _, digest in set(contents.pages.values())]
            failed = tuple(contents.failures)
    return digests, failed, ()


def _decode_file(path: Path, kind: type[T]) -> T | None:
    if not path.is_file():
        return None
    try:
        return decode_json(path.read_bytes(), kind)
    except (OSError, ValueError) as error:
        detail = f"it cannot be read: remove the index with rookery index remove ({error})"
        raise Failed(Failure(str(path), Outcome.DAMAGED, detail)) from error


def _count_passages(directory: Path) -> int | None:
    """Return the passages of an index; None where it is not whole, or of another version."""
    for meta in directory.glob("*/meta.json"):
        with suppress(Failed), translate_index_errors(directory):
            return len(SearchIndex(meta.parent))
    return None

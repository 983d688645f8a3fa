"""The indexes in the cache: what each is of, how large and how old; and their removal."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec

from rookery.browse.archive import worded
from rookery.browse.cache import NOTE, IndexNote, alone, read_note
from rookery.browse.index import Index
from rookery.browse.manifest import Manifest
from rookery.browse.site import FinishedCrawl
from rookery.browse.warc import WarcContents
from rookery.records import Failed, Failure, Record

KINDS = {"folders": "folder", "sites": "site", "warcs": "warc"}
"""By folder of the cache, the kind of its indexes."""
_REMOVED = "removed-"
T = TypeVar("T")
_LOCK = "lock"


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
    failed: int
    """files or pages that could not be read"""
    skipped: tuple[Failure, ...]
    """each file and folder that is left out, with the reason"""


def list_indexes(cache: Path) -> list[StoredIndex]:
    """Every index below `cache`, the one used last first."""
    newest_first = sorted(_directories(cache), key=_last_used, reverse=True)
    return [_describe(directory) for directory in newest_first]


def index_directory(cache: Path, index: StoredIndex) -> Path:
    """Where this index lies."""
    return cache / next(name for name, kind in KINDS.items() if kind == index.kind) / index.id


def digests_of_indexes(cache: Path, indexes: Iterable[StoredIndex]) -> set[str]:
    """The digests of all texts that these indexes find."""
    directories = (index_directory(cache, index) for index in indexes)
    return {digest for directory in directories for digest in _contents(directory)[0]}


def remove_index(directory: Path) -> None:
    """Removes an index. Raises Failed (index_busy) while another process writes it.

    Killed at any moment it leaves a whole index, or none: what says that the index is complete is
    removed first. The lock stays, for another process may be waiting for it.
    """

    def busy() -> None:
        detail = "another process is writing this index: wait until it has finished"
        raise Failed(Failure(str(directory), "index_busy", detail))

    with alone(directory / _LOCK, busy), worded(directory):
        entries = [entry for entry in directory.iterdir() if entry.name != _LOCK]
        for entry in entries:
            if not entry.is_dir():
                entry.unlink(missing_ok=True)
        for entry in entries:
            if entry.is_dir():
                # By one step out of the way, so that nobody opens the half of it.
                aside = directory / f"{_REMOVED}{entry.name.removeprefix(_REMOVED)}"
                shutil.rmtree(entry.rename(aside))


def size_on_disk(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if not path.is_dir():
        return path.stat().st_size if path.is_file() else 0
    size = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # gone since it was listed
                size += (Path(folder) / name).lstat().st_size
    return size


def _directories(cache: Path) -> Iterator[Path]:
    """The folders that hold an index, or what a killed removal left of one."""
    for name in KINDS:
        with suppress(OSError):
            for directory in sorted((cache / name).iterdir()):
                if directory.is_dir() and any(e.name != _LOCK for e in directory.iterdir()):
                    yield directory


def _last_used(directory: Path) -> float:
    note = directory / NOTE
    return (note if note.exists() else directory).stat().st_mtime


def _describe(directory: Path) -> StoredIndex:
    note, used = read_note(directory), _last_used(directory)
    note = note or IndexNote(KINDS[directory.parent.name], (), used)
    paths = [unquote_to_bytes(urlsplit(address).path) for address in note.addresses]
    places = note.addresses
    if note.kind != "site":
        places = tuple(path.decode("utf-8", "replace") for path in paths)
    there = [note.kind == "site" or os.path.lexists(path) for path in paths]
    digests, failed, skipped = _contents(directory)
    return StoredIndex(
        id=directory.name,
        kind=note.kind,
        places=places,
        glob=note.glob,
        exclude=note.exclude,
        pages=len(digests),
        passages=_count_passages(directory),
        bytes=size_on_disk(directory),
        refreshed=_iso_time(note.refreshed),
        used=_iso_time(used),
        missing=tuple(place for place, is_there in zip(places, there, strict=True) if not is_there),
        failed=failed,
        skipped=skipped,
    )


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _contents(directory: Path) -> tuple[list[str], int, tuple[Failure, ...]]:
    """The digest of each page of an index, how many could not be read, and what is left out."""
    with _opened_manifest(directory) as manifest:
        if manifest:
            return manifest.digests(), sum(1 for _ in manifest.failed()), manifest.left_out()
    if crawl := _decoded(directory / "crawl.json", FinishedCrawl):
        return [digest for _, digest in set(crawl.pages.values())], len(crawl.failures), ()
    for path in directory.glob("*/contents.json"):
        if contents := _decoded(path, WarcContents):
            pages = set(contents.pages.values())
            return [digest for _, digest in pages], len(contents.failures), ()
    return [], 0, ()


def _decoded(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


def _count_passages(directory: Path) -> int | None:
    """The passages of an index; None where it is not whole, or of another version."""
    for meta in directory.glob("*/meta.json"):
        with suppress(ValueError, OSError):
            return len(Index(meta.parent))
    return None


@contextmanager
def _opened_manifest(directory: Path) -> Iterator[Manifest | None]:
    """The manifest of a folder's index; None for other indexes, and where it is damaged."""
    manifest = None
    if (directory / "manifest.sqlite").is_file():
        with suppress(Failed):
            manifest = Manifest(directory / "manifest.sqlite")
    try:
        yield manifest
    finally:
        if manifest:
            manifest.close()

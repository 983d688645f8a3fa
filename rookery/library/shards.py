"""Shards: parts of a large collection of documents, each a whole index with its own archive.

A file belongs to the shard that the checksum of its path names, so that a change touches one shard.
A shard is built, updated and resumed as any folder's index is (`browse.folder_library`).
"""

from collections.abc import Callable, Sequence
from math import ceil
from pathlib import Path
from random import Random

import msgspec

from rookery.errors import Failed, Outcome
from rookery.library.bm25 import QueryTerms, TermCounts
from rookery.library.folder_library import (
    DocumentShard,
    FolderLibrary,
    FolderLimits,
    FolderManifest,
    convert_url_to_path,
)
from rookery.library.page_archive import PageArchive
from rookery.library.search_index import SearchIndex, translate_index_errors
from rookery.records import Failure, Hit, Page, digest_of
from rookery.settings import FileSelection

SHARD_ARCHIVE, SHARD_MANIFEST = "archive.sqlite", "manifest.sqlite"
NOTE_FILE = "shards.json"
"""in the folder of the shards"""
NOTE_FORMAT = 1

ShardProgress = Callable[[int, int, int], None]
"""hears (number of the shard, files done, files to do)"""


class ShardContents(msgspec.Struct, frozen=True):
    """The contents of a shard, as it was built."""

    pages: int
    passages: int
    languages: tuple[str, ...]
    contents: str
    """digest of the paths and texts of its files"""
    failures: tuple[Failure, ...]
    """files that could not be read"""
    skipped: tuple[Failure, ...]
    """files that were left out"""


class ShardsNote(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of shards.json: what was built, from where."""

    format: int = NOTE_FORMAT
    places: tuple[str, ...]
    """real paths of the folders and files"""
    glob: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    ray: str = ""
    """address of the Ray cluster whose machines hold the shards; empty: this machine"""
    shards: tuple[ShardContents, ...] = ()
    """in order; none before all of them are built"""
    count: int


class ShardTask(msgspec.Struct, frozen=True):
    """One shard to build."""

    directory: str
    """of all shards"""
    number: int
    note: ShardsNote


def get_shard_folder(directory: Path, number: int) -> Path:
    """Return the folder of one shard."""
    return directory / f"shard-{number:04}"


def build_shard(task: ShardTask, progress: ShardProgress = lambda *_: None) -> ShardContents:
    """Build one shard, or bring it up to date; an interrupted build goes on where it stopped.

    Raises what `FolderLibrary` raises, but not for a shard without files.
    """
    folder = get_shard_folder(Path(task.directory), task.number)
    note = task.note
    if not (folder / SHARD_ARCHIVE).is_file():  # lost, if it was made: all files are read again
        for file in folder.glob(f"{SHARD_MANIFEST}*"):
            file.unlink()
    with (
        PageArchive(folder / SHARD_ARCHIVE) as archive,
        FolderLibrary(
            [Path(place) for place in note.places],
            archive,
            folder,
            lambda done, files, _: progress(task.number, done, files),
            FolderLimits(processes=1),
            FileSelection(note.glob, note.exclude),
            DocumentShard(task.number, note.count, folder),
        ) as library,
    ):
        index = SearchIndex(folder / "index")
        return ShardContents(
            library.count_pages(),
            len(index),
            tuple(index.list_languages()),
            digest_of("\n".join(sorted(library.list_contents()))),
            library.failures,
            library.skipped,
        )


class Shard:
    """One shard that was built, opened to be searched. Threads may share it.

    Raises Failed: index_failed, and what the archive raises.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for file in ("index/meta.json", SHARD_MANIFEST, SHARD_ARCHIVE):
            if not (folder / file).is_file():
                detail = f"it has no {file}: run rookery index build again, which goes on"
                raise Failed(Failure(str(folder), Outcome.INDEX_FAILED, detail))
        with translate_index_errors(folder):
            self._index = SearchIndex(folder / "index")
        self._manifest = FolderManifest(folder / SHARD_MANIFEST)
        self._archive = PageArchive(folder / SHARD_ARCHIVE)

    def count_terms(self, terms: QueryTerms) -> TermCounts:
        """Return the word statistics of the shard for the terms of a query."""
        with translate_index_errors(self.folder):
            return self._index.count_terms(terms)

    def search(self, terms: QueryTerms, counts: TermCounts, k: int) -> Sequence[Hit]:
        """Return the k best passages, rated by the statistics of all shards."""
        with translate_index_errors(self.folder):
            return self._index.search_shard(terms, counts, k)

    def fetch(self, url: str) -> Page:
        """Return the page of a file of this shard.

        Raises Failed: url_not_shown, not_in_archive, or the reason why it could not be read.
        """
        row = self._manifest.find_row(convert_url_to_path(url))
        if row is None:
            detail = "it is no file of this library: open addresses that a search showed"
            raise Failed(Failure(url, Outcome.URL_NOT_SHOWN, detail))
        if row.outcome:
            raise Failed(Failure(url, row.outcome, row.detail))
        page = self._archive.find_page(row.digest, url)
        if page is None:
            detail = "the archive of its shard has lost it: build the index again"
            raise Failed(Failure(url, Outcome.NOT_IN_ARCHIVE, detail))
        return page

    def draw_pages(self, share: float) -> list[Page]:
        """Return this share of the shard's pages, one at least, drawn by chance; the same ones from
        the same contents."""
        digests = sorted(set(self._manifest.list_digests()))
        drawn = Random(0).sample(digests, min(ceil(share * len(digests)), len(digests)))
        return [*filter(None, map(self._archive.find_page, drawn))]

    def close(self) -> None:
        """Close the files of the shard."""
        self._manifest.close()
        self._archive.close()

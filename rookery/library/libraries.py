"""Open places as libraries: folders, files, web archives, sites and the web, and several as one."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, zip_longest
from pathlib import Path
from typing import Protocol, runtime_checkable
from urllib.parse import unquote_to_bytes, urlsplit

from rookery.errors import Failed, Outcome
from rookery.library.folder_library import FolderLibrary, FolderLimits, ProgressCallback
from rookery.library.own_library import OwnLibrary, load_own_library
from rookery.library.page_archive import PageArchive
from rookery.library.sharded_library import NOTE_FILE, ShardedLibrary
from rookery.library.site_library import SiteLibrary
from rookery.library.web_library import WebLibrary, make_web_search
from rookery.network.fetcher import Fetcher
from rookery.python_objects import PYTHON_PREFIX
from rookery.records import Failure, Hit, Library, Page, digest_of
from rookery.settings import FileSelection


class CombinedLibrary:
    """Searches every library; a page comes from the library that showed its address.

    A library that fails is recorded in `failures` and left out; only where all fail, `search`
    raises `Failed` itself.
    """

    def __init__(self, libraries: Sequence[Library]) -> None:
        if not libraries:
            raise ValueError("name at least one library to search")
        self.libraries = tuple(libraries)
        """in the order in which they are searched"""
        self._owners_by_url: dict[str, Library] = {}
        self._search_failures: list[Failure] = []

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The searches that failed, then the failures of each library."""
        theirs = (library.failures for library in self.libraries)
        return (*self._search_failures, *chain.from_iterable(theirs))

    def contents_digest(self) -> str:
        """Return a digest of the contents of all libraries.

        Those whose contents are not known, as of the web, add nothing to it.
        """
        return digest_of("\n".join(map(get_contents_digest, self.libraries)))

    @property
    def skipped(self) -> tuple[Failure, ...]:
        """The files that each library leaves out."""
        return tuple(chain.from_iterable(map(list_skipped, self.libraries)))

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k results: the first of each library, then the second of each, and so on.

        A text that two libraries have is shown by the first that shows it. A library that fails is
        left out; Failed is raised where all do.
        """
        owners: dict[str, Library] = {}
        texts: dict[str, str] = {}
        hits: list[Hit] = []
        for library, hit in _interleave_hits(self._search_each(query, k)):
            # One library may show several passages of a page; two never show the same page.
            copy = hit.digest and texts.setdefault(hit.digest, hit.url) != hit.url
            if owners.setdefault(hit.url, library) is library and not copy:
                hits.append(hit)
        self._owners_by_url.update(owners)
        return hits[:k]

    def fetch(self, url: str) -> Page:
        """Return the page from the library that showed its address, else the first that opens it.

        A library that refuses because it never showed the address (url_not_shown) is passed over;
        any other failure is raised.
        """
        if url in self._owners_by_url:
            return self._owners_by_url[url].fetch(url)
        refused = None
        for library in self.libraries:
            try:
                return library.fetch(url)
            except Failed as failed:
                if failed.failure.outcome != Outcome.URL_NOT_SHOWN:
                    raise
                refused = failed
        assert refused is not None  # there is at least one library
        raise refused

    def close(self) -> None:
        """Close every library."""
        for library in self.libraries:
            library.close()

    def _search_each(self, query: str, k: int) -> list[tuple[Library, Sequence[Hit]]]:
        answered: list[tuple[Library, Sequence[Hit]]] = []
        failed: list[Failure] = []
        for library in self.libraries:
            try:
                answered.append((library, library.search(query, k)))
            except Failed as failure:
                failed.append(failure.failure)
        self._search_failures += failed
        if not answered:
            raise _make_search_error(query, failed)
        return answered


def _interleave_hits(
    answered: Sequence[tuple[Library, Sequence[Hit]]],
) -> Iterator[tuple[Library, Hit]]:
    for turn in zip_longest(*([(library, hit) for hit in hits] for library, hits in answered)):
        yield from filter(None, turn)


def _make_search_error(query: str, failed: Sequence[Failure]) -> Failed:
    if len(failed) == 1:
        return Failed(failed[0])
    detail = "; ".join(f"{failure.outcome}: {failure.detail}" for failure in failed)
    return Failed(Failure(query, Outcome.SEARCH_FAILED, f"no library could be searched ({detail})"))


@runtime_checkable
class DocumentLibrary(Library, Protocol):
    """A library of documents whose whole contents are known, as of a folder."""

    @property
    def skipped(self) -> Sequence[Failure]:
        """Files that were left out, with the reasons."""

    def contents_digest(self) -> str:
        """Return a digest that changes when any document changes."""


def get_contents_digest(library: Library) -> str:
    """Return a digest of a library's contents; empty where they are not known, as of the web."""
    return library.contents_digest() if isinstance(library, DocumentLibrary) else ""


def fetches_pages(library: Library) -> bool:
    """Return whether what a library answers may change while it is open.

    It may where the contents are not known, and of a site, whose pages lead to others that are
    fetched when they are opened.
    """
    if isinstance(library, CombinedLibrary):
        return any(map(fetches_pages, library.libraries))
    return isinstance(library, SiteLibrary) or not get_contents_digest(library)


def list_skipped(library: Library) -> Sequence[Failure]:
    """Return the files that a library left out, with the reasons; none for the web."""
    return library.skipped if isinstance(library, DocumentLibrary) else ()


BUNDLED_PLACE = "rookery:corvids"
_WARC_SUFFIXES = (".warc", ".warc.gz", ".wet", ".wet.gz", ".warc.zst")


def get_bundled_folder() -> Path:
    """Return the folder of the bundled sample pages, which are the place `rookery:corvids`."""
    return Path(__file__).parent / "corvids"


def is_url(place: str) -> bool:
    """Return whether a place begins with http:// or https://, in any case."""
    return place.lower().startswith(("http://", "https://"))


def open_places(
    places: Sequence[str],
    archive: PageArchive,
    fetcher: Callable[[], Fetcher],
    cache: Path,
    engine: str = "auto",
    offline: bool = False,
    progress: ProgressCallback | None = None,
    selection: FileSelection = FileSelection(),
    libraries: Sequence[Library] = (),
) -> Library:
    """Open places as one library; where none is named, the web through the search engine `engine`.

    Places are folders, files, WARC files, folders of shards that were built, addresses of sites,
    `rookery:corvids`, and own libraries as `python:package.module.name`; `libraries` are own ones
    that exist, and are not closed. What is new or changed is read now, and sites are crawled, which
    `progress` hears. Pages go to `archive`, indexes below `cache`; `fetcher` returns the network
    client when one is needed; neither is closed with the library. With `offline` nothing is
    fetched. `selection` says which files of the folders are read. Folders and files are searched as
    one library, before shards, WARC files, sites and own libraries. Raises Failed: no_folder where
    `selection` has patterns and no folder is named, or what opening a place raises.
    """
    if not places and not libraries and selection == FileSelection():
        return WebLibrary(make_web_search(engine), archive, fetcher(), offline)
    named = [place for place in places if place.startswith(PYTHON_PREFIX)]
    paths = [resolve_place_path(each) for each in places if not is_url(each) and each not in named]
    sharded = [path for path in paths if (path / NOTE_FILE).is_file()]
    files = [path for path in paths if not is_warc_file(path) and path not in sharded]
    if selection != FileSelection() and not any(path.is_dir() for path in files):
        detail = "these choose among the files of a folder: name one with --in"
        raise Failed(Failure("--glob, --exclude, --follow-links", Outcome.NO_FOLDER, detail))
    parts: list[Library] = []
    with ExitStack() as opened:  # what is open when a later place cannot be opened is closed

        def add_library(library: Library) -> None:
            parts.append(library)
            opened.callback(library.close)

        if files:
            add_library(FolderLibrary(files, archive, cache, progress, FolderLimits(), selection))
        for path in sharded:
            from rookery.library.stored_indexes import record_shards_use

            add_library(ShardedLibrary(path, archive))
            record_shards_use(cache, path)
        for path in filter(is_warc_file, paths):
            from rookery.library.warc import WarcLibrary

            add_library(WarcLibrary(path, archive, cache, progress))
        for place in filter(is_url, places):
            site = SiteLibrary(place, archive, fetcher(), cache, offline=offline, progress=progress)
            add_library(site)
        for library in map(load_own_library, named):
            add_library(OwnLibrary(library, archive, close=True))
        opened.pop_all()
    parts += [OwnLibrary(library, archive) for library in libraries]
    return parts[0] if len(parts) == 1 else CombinedLibrary(parts)


def is_warc_file(path: Path) -> bool:
    """Return whether a path names a web archive."""
    return path.name.lower().endswith(_WARC_SUFFIXES) and not path.is_dir()


def resolve_place_path(place: str) -> Path:
    """Return the path that a place names: as a path, a `file://` address, or `rookery:corvids`.

    The last stands for the bundled sample pages. The path need not exist. Raises Failed (not_found)
    for nothing at all, which a shell makes of an unset variable.
    """
    if not place.strip():
        raise Failed(Failure("''", Outcome.NOT_FOUND, "name a folder, a file or an address"))
    if place == BUNDLED_PLACE:
        return get_bundled_folder()
    if place.startswith("rookery:"):
        raise Failed(Failure(place, Outcome.NOT_FOUND, f"the sample pages are {BUNDLED_PLACE}"))
    if place.lower().startswith("file://"):
        return Path(os.fsdecode(unquote_to_bytes(urlsplit(place).path)))
    return Path(place).expanduser()

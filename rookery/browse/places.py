"""What a person names as a place to look, as a library: folders, files, WARCs, sites, the web.

`rookery:corvids` names the little web that comes with the package.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from rookery.browse.archive import Archive
from rookery.browse.fetch import Fetcher
from rookery.browse.folder import Folder, FolderLimits, Progress
from rookery.browse.selection import Selection
from rookery.browse.site import Site
from rookery.browse.together import Together
from rookery.browse.web import Engine, Web, brave, google, searxng, wikipedia
from rookery.records import Failed, Failure, Library

BUNDLED = "rookery:corvids"
_WARC = (".warc", ".warc.gz", ".wet", ".wet.gz", ".warc.zst")

_ENGINES: dict[str, Callable[[str], Engine]] = {
    "wikipedia": lambda language: wikipedia(language or "en"),
    "searxng": searxng,
    "brave": lambda _: brave(),
    "google": lambda _: google(),
}


def bundled() -> Path:
    """The folder of the bundled little web."""
    return Path(__file__).parent / "corvids"


def is_url(place: str) -> bool:
    return place.lower().startswith(("http://", "https://"))


def engine_named(name: str) -> Engine:
    """The engine `wikipedia`, `wikipedia:de`, `searxng:https://host`, `brave` or `google`."""
    kind, _, detail = name.partition(":")
    if kind not in _ENGINES or (kind == "searxng" and not is_url(detail)):
        advice = "use wikipedia, wikipedia:LANGUAGE, searxng:https://HOST, brave or google"
        raise Failed(Failure(name, "unknown_engine", advice))
    return _ENGINES[kind](detail)


def open_library(
    places: Sequence[str],
    archive: Archive,
    fetcher: Callable[[], Fetcher],
    cache: Path,
    engine: str = "wikipedia",
    offline: bool = False,
    progress: Progress | None = None,
    selection: Selection = Selection(),
) -> Library:
    """The library of these places together; of the web, through `engine`, where none is named.

    `selection` says which files of the folders are read. Raises Failed: no_folder where it says
    so and no folder is named.
    """
    if not places and selection == Selection():
        return Web(engine_named(engine), archive, fetcher(), offline)
    paths = [path_of(place) for place in places if not is_url(place)]
    files = [path for path in paths if not _is_warc(path)]
    if selection != Selection() and not any(path.is_dir() for path in files):
        detail = "these choose among the files of a folder: name one with --in"
        raise Failed(Failure("--glob, --exclude", "no_folder", detail))
    libraries: list[Library] = []
    if files:
        libraries = [Folder(files, archive, cache, progress, FolderLimits(), selection)]
    if warcs := [path for path in paths if _is_warc(path)]:
        from rookery.browse.warc import Warc

        libraries += [Warc(path, archive, cache, progress) for path in warcs]
    libraries += [
        Site(place, archive, fetcher(), cache, offline=offline, progress=progress)
        for place in places
        if is_url(place)
    ]
    return libraries[0] if len(libraries) == 1 else Together(libraries)


def _is_warc(path: Path) -> bool:
    return path.name.lower().endswith(_WARC) and not path.is_dir()


def path_of(place: str) -> Path:
    """The path that a person means: a path, a `file://` address as a link shows it, the bundle.

    Raises Failed (not_found) for nothing at all, which a shell makes of an unset variable.
    """
    if not place.strip():
        raise Failed(Failure("''", "not_found", "name a folder, a file or an address"))
    if place == BUNDLED:
        return bundled()
    if place.lower().startswith("file://"):
        return Path(os.fsdecode(unquote_to_bytes(urlsplit(place).path)))
    return Path(place).expanduser()

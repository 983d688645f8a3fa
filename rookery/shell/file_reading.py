"""Read files that a person names, for `browse` and `cite verify`.

They are read in processes of their own, which a hostile file can end without harm.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rookery.answers.answer_session import EvidenceSources
from rookery.errors import Failed, Outcome
from rookery.library.folder_library import resolve_roots
from rookery.library.libraries import is_url, resolve_place_path
from rookery.library.worker_processes import count_cores
from rookery.pages.file_selection import list_folders
from rookery.pages.reader_processes import FileLimits, PageJob, ReaderPool, ReadJob, read_jobs
from rookery.records import Failure, Page
from rookery.settings import FileSelection, Settings


def read_standard_input() -> Page:
    """Return the page of what stands on standard input. Raises Failed where it cannot be read."""
    largest = FileLimits().largest
    data = sys.stdin.buffer.read(largest + 1)
    if len(data) > largest:
        detail = f"it has more than {largest:,} bytes"
        raise Failed(Failure("standard input", Outcome.TOO_LARGE, detail))
    with ReaderPool() as readers:
        return readers.read_page(PageJob(data, "file:///dev/stdin"))


def read_document_file(path: Path) -> Page:
    """Return the page of a file. Raises Failed where there is none or it cannot be read."""
    if path.is_dir():
        detail = "this is a folder: name a file in it, or ask about it with --in"
        raise Failed(Failure(str(path), Outcome.NOT_FOUND, detail))
    [page] = read_document_files(list_document_files(path))
    if isinstance(page, Failure):
        raise Failed(page)
    return page


def read_document_files(paths: Sequence[Path]) -> Iterator[Page | Failure]:
    """Yield the page of each file, or why there is none, in any order; on all cores."""
    real = [path.resolve() for path in paths]
    jobs = [ReadJob(os.fsencode(path), path.as_uri()) for path in real]
    for reading in read_jobs(jobs, FileLimits(), min(count_cores(), len(jobs))):
        got = reading.page or reading.failure
        assert got is not None  # a job that knows no earlier content has one of the two
        yield got


def list_document_files(place: Path) -> list[Path]:
    """Return the files that a library of this folder would read, or the one file.

    Raises Failed where there is no such place, or a folder cannot be entered.
    """
    if not place.exists():
        resolve_roots([place])  # raises the sentence for it
    if not place.is_dir():
        return [place]
    unreadable: list[Failure] = []
    files = [
        Path(os.fsdecode(folder)) / os.fsdecode(name)
        for folder, names, _ in list_folders(
            [os.fsencode(place.resolve())], FileSelection(), unreadable
        )
        for name in names
    ]
    if unreadable:
        raise Failed(unreadable[0])
    return sorted(files)


def open_page(place: str, settings: Settings) -> Page:
    """Read the page of a file, an address or standard input (-) now; an address is archived.

    Raises Failed where it cannot be read or opened.
    """
    if place == "-":
        return read_standard_input()
    if not is_url(place):
        return read_document_file(resolve_place_path(place))
    with EvidenceSources(settings) as sources:
        return sources.fetch_page(place)

"""Files that a person names, read now and not through a library: for `browse` and `cite verify`.

It reads them as a library would, in processes that a hostile file cannot take the others down with.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rookery.browse.read import read
from rookery.browse.readers import FileLimits, Job, read_all
from rookery.browse.selection import Selection, list_folders
from rookery.draft.batch import cores
from rookery.records import Failed, Failure, Page


def read_input() -> Page:
    """The page of what stands on standard input. Raises Failed where it cannot be read."""
    largest = FileLimits().largest
    data = sys.stdin.buffer.read(largest + 1)
    if len(data) > largest:
        detail = f"it has more than {largest:,} bytes"
        raise Failed(Failure("standard input", "too_large", detail))
    return read(data, "file:///dev/stdin")


def read_file(path: Path) -> Page:
    """The page of a file. Raises Failed where there is none or it cannot be read."""
    if path.is_dir():
        detail = "this is a folder: name a file in it, or ask about it with --in"
        raise Failed(Failure(str(path), "not_found", detail))
    [page] = read_files(documents(path))
    if isinstance(page, Failure):
        raise Failed(page)
    return page


def read_files(paths: Sequence[Path]) -> Iterator[Page | Failure]:
    """The page of each file, or why there is none, in any order; on all cores."""
    real = [path.resolve() for path in paths]
    jobs = [Job(os.fsencode(path), path.as_uri()) for path in real]
    for reading in read_all(jobs, FileLimits(), min(cores(), len(jobs))):
        got = reading.page or reading.failure
        assert got is not None  # a job that knows no earlier content has one of the two
        yield got


def documents(place: Path) -> list[Path]:
    """The files that a library of this folder would read, or the one file.

    Raises Failed where there is no such place, or a folder cannot be entered.
    """
    if not place.exists():
        detail = "there is no such file or folder: check the path"
        raise Failed(Failure(str(place), "not_found", detail))
    if not place.is_dir():
        return [place]
    unreadable: list[Failure] = []
    found = [
        Path(os.fsdecode(folder)) / os.fsdecode(name)
        for folder, files, _ in list_folders(
            [os.fsencode(place.resolve())], Selection(), unreadable
        )
        for name in files
    ]
    if unreadable:
        raise Failed(unreadable[0])
    return sorted(found)

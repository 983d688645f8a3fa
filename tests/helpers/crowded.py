"""A process that has opened nearly as many files as it may."""

import os
import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress


def open_all_files() -> list[int]:
    """File descriptors, until the system gives no more."""
    copies: list[int] = []
    with suppress(OSError):
        while True:
            copies.append(os.dup(0))
    return copies


@contextmanager
def room_for_files(room: int) -> Iterator[None]:
    """Only so many more files can be opened meanwhile; all of them must be closed at the end."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as opened:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limit[1]))
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limit)
        for number, copy in enumerate(open_all_files()):
            if number < room:
                os.close(copy)
            else:
                opened.callback(os.close, copy)
        yield
        free = open_all_files()
        for copy in free:
            os.close(copy)
    assert len(free) == room, "what was opened is closed"

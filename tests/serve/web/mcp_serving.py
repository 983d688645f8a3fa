"""The whole application at an address, for programs."""

from collections.abc import Iterator
from contextlib import contextmanager

from listening import listening

from rookery.judge.store import Store
from rookery.serve.session import Settings
from rookery.serve.web.app import make_app


@contextmanager
def at_work(store: Store) -> Iterator[str]:
    """It on a free port, over the bundled pages, and its address."""
    with listening(make_app(store, Settings(("rookery:corvids",)))) as address:
        yield address

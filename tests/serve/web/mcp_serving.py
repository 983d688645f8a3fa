"""The whole application at an address, for programs."""

from collections.abc import Iterator
from contextlib import contextmanager

from listening import listening

from rookery.judge.store import Store
from rookery.serve.session import Settings
from rookery.serve.web import mcp_http
from rookery.serve.web.app import make_app
from rookery.serve.web.mcp_http import McpLimits


@contextmanager
def at_work(store: Store, patience: float = 3600.0) -> Iterator[str]:
    """It on a free port, over the bundled pages, and its address.

    Answers are JSON however long they take, unless `patience` is as short as it is for users.
    """
    app = make_app(store, Settings(("rookery:corvids",)))
    app.router.routes[:0] = mcp_http.routes(McpLimits(patience=patience))
    with listening(app) as address:
        yield address

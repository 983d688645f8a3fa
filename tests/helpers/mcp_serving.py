"""The whole application at an address, for programs."""

from collections.abc import Iterator
from contextlib import contextmanager

from listening import listening

from rookery.desk.store import Store
from rookery.server.app import build_web_app
from rookery.server.mcp import protocol
from rookery.server.mcp.protocol import McpLimits
from rookery.settings import Settings


@contextmanager
def at_work(store: Store, patience: float = 3600.0) -> Iterator[str]:
    """It on a free port, over the bundled pages, and its address.

    Answers are JSON however long they take, unless `patience` is as short as it is for users.
    """
    app = build_web_app(store, Settings(("rookery:corvids",)))
    app.router.routes[:0] = protocol.build_mcp_routes(McpLimits(patience=patience))
    with listening(app) as address:
        yield address

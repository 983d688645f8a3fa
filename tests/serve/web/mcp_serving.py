"""The whole application at an address, for programs."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from rookery.judge.store import Store
from rookery.serve.session import Settings
from rookery.serve.web.app import make_app


@contextmanager
def at_work(store: Store) -> Iterator[str]:
    """It on a free port, over the bundled pages, and its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    # Whoever accepts inherits it: without it, an answer waits 40 ms for the client's kernel.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    app = make_app(store, Settings(("rookery:corvids",)))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()

"""A server as a process, or as several that listen at one address; how it logs and how it ends.

It knows nothing of what is served.
"""

import logging
import socket
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import uvicorn
from uvicorn.supervisors import Multiprocess

from rookery.judge.store import Store
from rookery.records import Failed
from rookery.serve.session import Settings
from rookery.serve.web.answering import Answering, Pace
from rookery.serve.web.app import make_app
from rookery.serve.web.log_lines import log_as_json
from rookery.serve.web.watching import Watched

if TYPE_CHECKING:
    from starlette.types import ASGIApp

GRACE = 10
"""seconds that a request under way may take once the server is stopped"""
PAUSE = 1.0
"""seconds before a worker that cannot begin is replaced"""


class Running(msgspec.Struct, frozen=True):
    """How the pages are served."""

    reading: bool = True
    """whether questions are answered, too"""
    workers: int = 1
    """processes"""
    at_once: int = Pace().workers
    """questions that each process answers at the same time"""
    behind_proxy: bool = False
    """whether all comes through a proxy, whose word is taken"""
    log: bool = False
    """a line of JSON for each request, on standard error"""


def run(place: str, settings: Settings, listener: socket.socket, how: Running) -> None:
    """Serves until it is told to end; then finishes what is under way, and gives back the rest. A
    worker that dies is replaced."""
    if how.log:
        log_as_json()
    if how.workers == 1:
        uvicorn.Server(_config(partial(worker, place, settings, how, None), how)).run([listener])
        return
    with tempfile.TemporaryDirectory(prefix="rookery-") as folder:
        config = _config(partial(_one_of_several, place, settings, how, Path(folder)), how)
        Multiprocess(config, [listener]).run()


def _config(made: Any, how: Running) -> uvicorn.Config:
    logs: dict[str, Any] = {"log_config": None} if how.log else {}
    return uvicorn.Config(
        made,
        factory=True,
        workers=how.workers,
        log_level="warning",
        access_log=False,  # addresses hold the tokens of invites
        server_header=False,
        proxy_headers=False,  # these are read by Watched, or by nobody
        timeout_graceful_shutdown=GRACE,
        **logs,
    )


def worker(place: str, settings: Settings, how: Running, folder: Path | None) -> "ASGIApp":
    """The application of one process, with a store of its own. Raises Failed as the store does."""
    store = Store(place)
    app = make_app(store, settings, reading=how.reading)
    app.state.closing.append(store.close)
    if how.reading:
        app.state.answering = Answering(store, settings, Pace(workers=how.at_once))
    return Watched(app, how.behind_proxy, folder)


def _one_of_several(place: str, settings: Settings, how: Running, folder: Path) -> "ASGIApp":
    if how.log:
        log_as_json()
    try:
        return worker(place, settings, how, folder)
    except Failed as failed:  # it is replaced, until what is the matter is over
        logging.getLogger("rookery.running").error("%s", failed)
        time.sleep(PAUSE)
        raise SystemExit(1) from None

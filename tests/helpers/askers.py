"""People who ask, at a server that answers from the corvids, for the tests of reading."""

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from programs import Served
from starlette.testclient import TestClient
from visits import Visit

from rookery.desk import accounts
from rookery.evidence.evidence_model import BUNDLED_MODEL
from rookery.server.api.answer_queue import AnswerService
from rookery.server.api.answer_sessions import QuestionRequest
from rookery.settings import Settings

CROWS = Settings(("rookery:corvids",))
JUDGED_CROWS = msgspec.structs.replace(CROWS, ranker=str(BUNDLED_MODEL))
"""with a model named that judges both sides"""
LONG = "How long do crows live?"
SECONDS = 120.0


@pytest.fixture(scope="module")
def home(indexed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Places of their own for what is stored, and for the index of the corvids."""
    place = shutil.copytree(indexed_home, tmp_path_factory.mktemp("home") / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(place / "data"))
        patch.setenv("XDG_CACHE_HOME", str(place / "cache"))
        yield place


class Held:
    """Somebody whose question takes up a worker until it is let go."""

    def __init__(self, answering: AnswerService) -> None:
        self._busy, self._free = threading.Event(), threading.Event()
        work = (QuestionRequest(LONG), self._hear)
        self._thread = threading.Thread(target=answering.answer_now, args=work, daemon=True)
        self._thread.start()
        assert self._busy.wait(SECONDS)

    def _hear(self, kind: str, data: dict[str, Any]) -> None:
        self._busy.set()
        self._free.wait(SECONDS)

    def let_go(self) -> None:
        """It goes on, to its end."""
        self._free.set()
        self._thread.join(SECONDS)


@contextmanager
def hold_workers(answering: AnswerService, count: int) -> Iterator[None]:
    """As many workers have something else to do meanwhile."""
    some = [Held(answering) for _ in range(count)]
    try:
        yield
    finally:
        for each in some:
            each.let_go()


def enter(served: Served, name: str) -> Visit:
    """A reader who has come in."""
    client = TestClient(served.app, base_url="http://desk.test")
    token = accounts.create_invite(served.store, name, "reader", "ada")
    assert client.post(f"/enter/{token}").status_code == 200
    return Visit(client, name)


def ask(visit: Visit, **fields: str) -> Visit:
    """Asks, and waits for the answer as a browser without scripts does."""
    visit.post("/ask", **fields)
    assert visit.at.startswith("/answers/"), visit.text
    until = time.monotonic() + SECONDS
    while visit.page.css_first("noscript meta[http-equiv=refresh]"):
        assert time.monotonic() < until, visit.text
        time.sleep(0.05)
        visit.get(visit.at)
    return visit

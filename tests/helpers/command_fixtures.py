"""The command, the place that it stores things in, and a little web, for tests that ask."""

import functools
import io
import json
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from commands import GIFTS, Result, Run, article, surroundings
from stage import Said, Stage, stage

from rookery.__main__ import main
from rookery.answers.answer_session import AnswerSession
from rookery.desk.store import initialize_store
from rookery.evidence.evidence_model import EvidenceModel
from rookery.records import Question
from rookery.settings import Settings


@pytest.fixture(scope="session")
def once() -> Iterator[None]:
    """What a process does each time, and many times with the same result, is done once.

    A passage's judgement is the same bit for bit whenever it is made, and the tree of commands
    does not change.
    """
    with pytest.MonkeyPatch.context() as patch:
        judge = functools.lru_cache(10_000)(EvidenceModel._judge_passage)
        patch.setattr(EvidenceModel, "_judge_passage", lambda *of: judge(*of))
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which nothing is: copying it is quicker than making one."""
    place = tmp_path_factory.mktemp("store") / "empty.sqlite"
    initialize_store(str(place))
    return place


@pytest.fixture(scope="session")
def indexed_home(once: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with the index of the corvids. What asking loads is loaded by it, too."""
    place = tmp_path_factory.mktemp("asked")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in surroundings(place).items():
            patch.setenv(name, value)
        with AnswerSession(Settings(("rookery:corvids",))) as session:
            session.answer(Question("1", GIFTS))
    return place


@pytest.fixture(scope="module")
def home(indexed_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(indexed_home, tmp_path_factory.mktemp("home") / "home")


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`rookery ARGUMENTS` in this process, from its main function."""
    for name, value in {**surroundings(home), "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def runs(*arguments: str | Path, typed: str = "") -> Result:
        monkeypatch.setattr(sys, "argv", ["rookery", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return Result(int(ended.value.code or 0), *capsys.readouterr())

    return runs


@pytest.fixture
def web() -> Iterator[Stage]:
    """A search engine and two pages on one server."""
    with stage() as here:
        found = [f"{here.base}/birds/{name}" for name in ("jays.html", "crows.html")]
        results = [{"url": url, "title": url, "content": ""} for url in found]
        here.routes["/search"] = Said(json.dumps({"results": results}), "application/json")
        here.routes["/birds/"] = Said(article("Birds", "Jays are birds.", '<a href="jays.html">j'))
        here.routes["/birds/jays.html"] = Said(article("Jays", "Jays bury acorns in September."))
        here.routes["/birds/crows.html"] = Said(article("Crows", "Crows play with sticks."))
        yield here

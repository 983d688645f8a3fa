"""`rookery serve desk` as a process: the first link, a port that is taken, the end."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from commands import started

from rookery.desk import accounts
from rookery.desk.store import Store
from rookery.server.api import answer_queue
from rookery.server.api.answer_sessions import QuestionRequest


@contextmanager
def desk(place: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A desk as somebody starts it, ended at the latest with the test."""
    command = [sys.executable, "-m", "rookery", "serve", "desk", "--store", str(place), *more]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line_with(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout
    for line in process.stdout:
        if words in line:
            return line
    raise AssertionError(process.communicate())


@pytest.mark.slow
def test_a_place_that_is_not_there_is_told_before_anything_is_opened(
    home: Path, tmp_path: Path
) -> None:
    store = tmp_path / "desk.sqlite"
    place = tmp_path / "nosuch"
    with started(home, "serve", "--in", place, "--store", store, "--port", "0") as process:
        out, err = process.communicate(timeout=120)
    told = f"rookery: {place}: there is no such file or folder: check the path\n"
    assert (process.returncode, out, err.decode()) == (2, b"", told)
    assert not store.exists()


@pytest.mark.slow
def test_a_folder_without_a_document_is_told_and_served(tmp_path: Path) -> None:
    (tmp_path / "photos" / "2026").mkdir(parents=True)
    (tmp_path / "photos" / "2026" / "rook.jpg").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "rooks.txt").write_text("Rooks nest in colonies.")
    places = ("--in", str(tmp_path / "photos"), "--in", str(tmp_path / "notes"))
    with desk(tmp_path / "desk.sqlite", "--port", "0", *places) as process:
        line_with(process, "The desk is open")
        assert process.stderr
        told = f"{tmp_path / 'photos'}: nothing in this folder can be read: put PDF, "
        assert process.stderr.readline().startswith(told)
        assert process.stderr.readline().startswith("A new store was made")


@pytest.mark.slow
def test_whoever_starts_the_first_desk_is_let_in_once_as_admin(tmp_path: Path) -> None:
    place = tmp_path / "new" / "desk.sqlite"
    with desk(place, "--port", "0") as process:
        found = re.search(r"http://127\.0\.0\.1:\d+/enter/\S+", line_with(process, "Come in"))
        assert found
        assert b"Welcome to the desk" in urlopen(found[0]).read()
        with Store(str(place)) as store:
            told = line_with(process, "with --role admin also for you, in another browser: ")
            assert told.endswith(f"rookery judge invite NAME --store {place}\n")
            (admin,) = accounts.list_people(store)
            assert admin.role == "admin"
            accounts.redeem_invite(store, urlsplit(found[0]).path.rpartition("/")[2])
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    made, stopped = said.splitlines()
    assert made == f"A new store was made: {place}"
    assert stopped.startswith("rookery: stopped; what was finished is kept")
    with desk(place, "--port", "0") as process:
        assert "/enter/" not in line_with(process, "The desk is open")


@pytest.mark.slow
def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with desk(tmp_path / "desk.sqlite", "--port", port) as process:
            out, said = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert said == (
        f"rookery: port {port} is taken, perhaps by another desk: choose one with --port\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["uvicorn", "jinja2", "sqlalchemy", "multipart"])
def test_a_missing_extra_is_told(tmp_path: Path, missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['rookery', 'serve', 'desk'];"
        "from rookery.__main__ import main; main()"
    )
    home = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=home)
    assert done.returncode == 2
    assert "pip install 'rookery[serve]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_one_command_answers_and_goes_on_after_it_was_killed(tmp_path: Path) -> None:
    place, home = tmp_path / "desk.sqlite", {**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")}
    home["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    command = [sys.executable, "-m", "rookery", "serve", "--store", str(place), "--port", "0"]
    command += ["--in", "rookery:corvids"]

    def serve() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=home)

    with serve() as first:
        found = re.search(r"http://127\.0\.0\.1:\d+", line_with(first, "Rookery is open"))
        assert found
        first.kill()
    with Store(str(place)) as store:
        (admin,) = accounts.list_people(store)
        wanted = QuestionRequest("How long do crows live?")
        answer = answer_queue.enqueue_answers(store, [(wanted, wanted.question)], admin.name)[0]
        with serve() as second:
            line_with(second, "is open")
            until = time.monotonic() + 120
            while not answer_queue.find_answer(store, answer).over and time.monotonic() < until:
                time.sleep(0.1)
            second.send_signal(signal.SIGTERM)
            _, said = second.communicate(timeout=120)
        kept = answer_queue.find_answer(store, answer)
    assert kept.state == "done", said
    assert kept.answered is not None
    assert all(verdict.verified for verdict in kept.answered.verdicts)
    assert "Traceback" not in said

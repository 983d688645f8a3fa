"""`rookery serve desk` as a process: the first link, a port that is taken, the end."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from rookery.judge import people
from rookery.judge.store import Store


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


def test_whoever_starts_the_first_desk_is_let_in_once_as_admin(tmp_path: Path) -> None:
    place = tmp_path / "new" / "desk.sqlite"
    with desk(place, "--port", "0") as process:
        found = re.search(r"http://127\.0\.0\.1:\d+/enter/\S+", line_with(process, "Come in"))
        assert found
        assert b"Welcome to the desk" in urlopen(found[0]).read()
        with Store(str(place)) as store:
            (admin,) = people.people(store)
            assert admin.role == "admin"
            people.enter(store, urlsplit(found[0]).path.rpartition("/")[2])
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said.startswith("rookery: stopped; what was finished is kept")
    assert said.count("\n") == 1
    with desk(place, "--port", "0") as process:
        assert "/enter/" not in line_with(process, "The desk is open")


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with desk(tmp_path / "desk.sqlite", "--port", port) as process:
            out, said = process.communicate(timeout=30)
    assert (process.returncode, out) == (2, "")
    assert said == (
        f"rookery: port {port} is taken, perhaps by another desk: choose one with --port\n"
    )


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

"""Pipes, devices and sockets in place of files: nobody waits for them, and a sentence says so."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Run

from rookery.shell.answer_verification import MAX_SAVED_BYTES
from rookery.typed_files import open_named_file, require_regular_file

PATIENCE = 60
"""seconds after which a command hangs"""


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A pipe that nobody writes to, in the current folder; whoever waits for it is interrupted."""

    def interrupt(number: int, frame: object) -> None:
        raise AssertionError("it waits for a pipe")

    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe.txt")
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(PATIENCE)
    yield tmp_path / "pipe.txt"
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "command",
    [
        "ask --batch pipe.txt --out out.jsonl",
        "ask Why? --in pipe.txt",
        "ask Why? --in pipe.warc",
        "ask Why? --endpoints pipe.txt --method webgpt",
        "ask Why? --model script:pipe.txt --method webgpt",
        "browse pipe.txt --plain",
        "cite verify pipe.txt",
        "cite verify answer.md --pages pipe.txt",
        "calibrate pipe.txt --method webgpt --model m --base-url http://127.0.0.1:9/v1",
        "judge import pipe.txt --form supported --batch first",
        "judge import pipe.csv --form supported --batch first",
        "judge form check pipe.txt",
        "learn imitate --config pipe.txt --out out",
    ],
)
def test_no_command_waits_for_a_pipe(run: Run, pipe: Path, command: str) -> None:
    for ending in (".csv", ".warc"):
        pipe.with_suffix(ending).hardlink_to(pipe)
    Path("answer.md").write_text("“Crows bring gifts.” [1]\n\n[1]: pipe.txt\n")
    run("judge", "init")
    code, _, err = run(*command.split())
    told = " ".join(err.replace("│", " ").split())
    assert code in (2, 5)
    assert "pipe." in told
    assert "a pipe, a device or a socket: name a file" in told or "no such file or folder" in told


@pytest.mark.parametrize("fetch", [("--fetch",), ()])
def test_a_source_that_is_a_pipe_holds_nobody(run: Run, pipe: Path, fetch: tuple[str, ...]) -> None:
    Path("answer.md").write_text("“Crows bring gifts to people.” [1]\n\n[1]: pipe.txt\n")
    code, out, err = run("cite", "verify", "answer.md", "--pages", ".", *fetch)
    assert code == 5
    assert not fetch or "a pipe, a device or a socket: name a file" in " ".join((out + err).split())


def test_an_ignore_file_that_is_a_pipe_is_passed_over(run: Run, pipe: Path) -> None:
    os.mkfifo(".gitignore")
    Path("crows.txt").write_text("Crows bring gifts to people who feed them.\n")
    code, out, _ = run("ask", "What do crows bring?", "--in", ".")
    assert code == 0
    assert "Crows bring gifts" in out


def test_only_files_and_folders_are_opened(pipe: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        for place in (pipe, Path("socket"), Path("/dev/zero")):
            with pytest.raises(OSError, match="a pipe, a device or a socket"):
                open_named_file(place)
    assert require_regular_file(Path()) == Path()
    with pytest.raises(FileNotFoundError):
        require_regular_file(b"nothing")


def test_a_saved_answer_has_a_size(run: Run, tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(MAX_SAVED_BYTES + 1)
    assert "more than 100,000,000 bytes" in run("cite", "verify", large).err

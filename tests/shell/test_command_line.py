"""The manners of the command line: help pages, errors, pipes, and what is not wrapped."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from commands import CORVIDS, GIFTS, NOWHERE, Run, started, surroundings

from rookery.__main__ import app
from rookery.cli.doctor_command import DiagnosticResult
from rookery.library.libraries import get_bundled_folder
from rookery.shell.command_line import CommandErrorReport

FACES = get_bundled_folder() / "faces.html"


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group of commands, with the words that call it."""
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))
ROOM = re.compile(r"[A-Z][A-Z_]*")
RAW = {"TEXT", "STRING", "STR", "INTEGER", "INT", "FLOAT", "RANGE", "PATH", "BOOLEAN", "BOOL"}


# Help


def test_the_walk_sees_every_room() -> None:
    assert {("ask",), ("cite", "verify"), ("learn", "reinforce"), ("serve", "mcp")} <= set(COMMANDS)
    assert len(COMMANDS) > 40


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_value_is_named_as_people_do(path: tuple[str, ...]) -> None:
    for param in COMMANDS[path].params:
        assert param.help, f"{param.name} says nothing"
        if getattr(param, "is_flag", False):
            continue
        assert param.metavar, f"{param.name} has the name of its type"
        assert not RAW & set(ROOM.findall(param.metavar)), param.metavar
        if param.type_descriptor.is_ranged or param.type_descriptor.annotation in (int, float):
            assert param.metavar == "NUMBER", param.name


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_h_prints_the_help_of_every_command(run: Run, path: tuple[str, ...]) -> None:
    short, long = run(*path, "-h"), run(*path, "--help")
    assert short == long
    assert (short.code, short.err) == (0, "")
    first, *_ = short.out.splitlines()
    assert first.startswith(" ".join(["Usage: rookery", *path]))
    assert not re.search(r"<\w+>|[╭│]", short.out)
    assert "-h, --help" in short.out
    options = [param.opts for param in COMMANDS[path].params if param.param_type_name == "option"]
    lines = [line for line in short.out.splitlines() if line.startswith("  -")]
    assert len(lines) >= len(options) + 1  # one line each, however long: they are piped


@pytest.mark.slow
def test_a_question_needs_no_quotes(run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "rooks.md").write_text("Rooks nest in tall elms near farms.\n")
    unquoted = run("ask", "Where", "do", "rooks", "nest", "--in", tmp_path, "--json")
    quoted = run("ask", "Where do rooks nest", "--in", tmp_path, "--json")
    assert (unquoted.code, unquoted.out) == (0, quoted.out)
    monkeypatch.chdir(tmp_path)  # where a pattern of the shell named files behind --in
    assert "give one question" in run("ask", "Where", "do", "rooks.md").err


@pytest.mark.slow
def test_completion_of_commands_and_options(home: Path) -> None:
    def complete(*words: str) -> list[str]:
        asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        with started(home, more={"_ROOKERY_COMPLETE": "complete_bash", **asked}) as shell:
            out, err = shell.communicate(timeout=60)
        assert (shell.returncode, err) == (0, b"")
        return out.decode().split()

    assert complete("rookery", "as") == ["ask"]
    assert complete("rookery", "index", "re") == ["refresh", "remove"]
    assert complete("rookery", "ask", "--pass") == ["--passages"]


@pytest.mark.slow
def test_a_signal_while_it_loads_ends_it_quietly(home: Path) -> None:
    for late in (0.1, 0.3, 0.5, 0.8, 1.2):  # from where Python itself has started
        with started(home, "ask", GIFTS, *CORVIDS) as loading:
            begun = Path(f"/proc/{loading.pid}/maps")
            while begun.exists() and b"msgspec" not in begun.read_bytes():
                assert loading.poll() is None
            try:
                loading.communicate(timeout=late)
            except subprocess.TimeoutExpired:
                loading.send_signal(signal.SIGINT)
            err = loading.communicate(timeout=60)[1].decode()
        assert loading.returncode in (-signal.SIGINT, 130), err
        assert err == "" or (err.startswith("rookery: stopped") and err.count("\n") == 1)


@pytest.mark.slow
def test_a_signal_within_an_import_waits_until_it_ends(home: Path, tmp_path: Path) -> None:
    (tmp_path / "interrupted_library.py").write_text(
        "import os, signal\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "except BaseException:  # as extension modules do\n"
        "    raise ImportError('initialization failed')\n"
    )
    place = "python:interrupted_library.crows"
    with started(home, "ask", GIFTS, "--in", place, more={"PYTHONPATH": str(tmp_path)}) as loading:
        err = loading.communicate(timeout=60)[1].decode()
    assert (loading.returncode, err.count("\n")) == (130, 1), err
    assert err.startswith("rookery: stopped")


def test_numbers_say_their_bounds_and_defaults(run: Run) -> None:
    out = run("serve", "-h").out
    assert re.search(r"--port NUMBER .*\(0 to 65535; default: 8500\)", out)
    assert re.search(r"-n NUMBER .*\(1 or more\)", out)


def test_no_command_shows_what_there_is_and_is_wrong_use(run: Run) -> None:
    for path in ((), ("cite",), ("measure",)):
        result = run(*path)
        assert (result.code, result.err) == (2, "")
        assert "Commands:" in result.out


# Errors

WRONG = {
    ("ask", "Why?", "--depth", "2"): "no such option: --depth",
    ("ask", "Why?", "--decline", "2"): "--decline: it should be less than or equal to 1",
    ("ask", "Why?", "-n", "two"): "-n: it should be a valid integer",
    ("ask", "Why?", "-q", "0"): "--quotes: it should be greater than or equal to 1",
    ("ask", "Why?", "-q", "21"): "--quotes: it should be less than or equal to 20",
    ("ask", "Why?", "--method", "guess"): "use one of extract, webgpt",
    ("ask", "Why?", "--in", "no/such/folder"): "there is no such file or folder",
    ("ask", "Why?", "--force"): "--force, --workers and --ray go with --batch",
    ("ask", "--batch", "q", "--out", "a", "--passages"): "for one question",
    ("ask", "--batch", "no.jsonl", "--out", "a.jsonl"): "no.jsonl: No such file",
    ("ask",): "give one question",
    ("ask", "Is a quoted", "b"): "give one question, and --in before each place: 'Is a quoted' b",
    ("ask", "a", "--choose-by", "x"): "--choose-by must be model or evidence, and is 'x'",
    ("ask", "a", "--dtype", "int8"): "--dtype must be one of float32, bfloat16, float16, and is",
    ("ask", "Why?", "--in"): "'--in' requires an argument",
    ("cite", "verify"): "FILE is missing",
    ("cite", "verify", "no.json"): "no.json: No such file",
    ("browse", "no.html"): "no.html: there is no such file or folder",
    ("measure", "exact", "no.jsonl"): "no.jsonl",
    ("measure", "exact"): "[NAME=]FILE... is missing",
    ("learn", "prefer", "--config", "no.toml"): "no.toml",
    ("judge", "stats", "--store", "no.sqlite"): "no.sqlite",
    ("calibrate", "no.jsonl", "--method", "webglm", "--model", "script:no"): "no.jsonl",
    ("asc",): "did you mean 'ask'",
}


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_use_with_json_is_json_too(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    plain, json_too = run(*arguments), run(*arguments, "--json")
    assert (plain.code, json_too.code, plain.out) == (2, 2, "")
    assert WRONG[arguments].lower() in plain.err.lower()
    assert plain.err.startswith("rookery: ")
    assert plain.err.count("\n") == 1
    said = CommandErrorReport.from_json(json_too.out).error
    assert f"rookery: {said.message}\n" == json_too.err
    assert said.exit_code == 2


def test_an_error_in_the_work_is_json_with_its_exit_code(run: Run, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nnonsense")
    result = run("browse", broken, "--json")
    assert result.code == 4
    error = json.loads(result.out)["error"]
    assert error["exit_code"] == 4
    assert result.err == f"rookery: {error['message']}\n"


# Pipes


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["40", "80", "300"])
def test_what_is_piped_is_not_wrapped(
    run: Run, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    answer = json.loads(run("ask", GIFTS, *CORVIDS, "--json").out)["answer"]
    out, err = run("ask", GIFTS, *CORVIDS)[1:]
    lines = out.splitlines()
    cited = next(number for number, line in enumerate(lines) if line.startswith("[1] "))
    paragraphs = [line for line in lines[:cited] if line]
    assert [re.sub(r"\[\d]", "", line) for line in paragraphs] == [
        line for line in answer["text"].splitlines() if line
    ]
    for number, quote in enumerate(answer["quotes"], 1):
        assert f"\n[{number}] {quote['title']} · " in out
    assert err.count("\n") == 2
    assert f"{' ' * 4}" not in lines[0]
    foreign = "Who won the 1998 world cup?"
    declined = json.loads(run("ask", foreign, *CORVIDS, "--json").out)["answer"]
    # A quote of several blocks has a line for each, and those after the first are indented.
    for quote in declined["quotes"]:
        indented = "\n    ".join(line for line in quote["text"].splitlines() if line)
        assert f"\n  – “{indented}”\n" in run("ask", foreign, *CORVIDS).out


@pytest.mark.slow
def test_help_is_wrapped_to_the_terminal_and_not_cut() -> None:
    """In a terminal of 40 columns every word of the piped page is there, in lines of 39."""
    script = (
        "import os, pty, sys\n"
        "sys.exit(os.waitstatus_to_exitcode(pty.spawn([sys.executable, '-m', 'rookery',"
        " 'cite', 'verify', '-h'])))"
    )
    more = {**os.environ, "COLUMNS": "40", "TERM": "dumb"}
    shown = subprocess.run(
        [sys.executable, "-c", script], env=more, capture_output=True, text=True, check=True
    ).stdout
    piped = subprocess.run(
        [sys.executable, "-m", "rookery", "cite", "verify", "-h"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.split() == piped.split()
    assert max(map(len, shown.splitlines())) <= 40


PRINTING = {
    "ask": ("ask", GIFTS, *CORVIDS),
    "ask --json": ("ask", GIFTS, *CORVIDS, "--json"),
    "ask --passages": ("ask", GIFTS, *CORVIDS, "--passages"),
    "declined": ("ask", "Who won the 1998 world cup?", *CORVIDS),
    "browse --plain": ("browse", FACES, "--plain"),
    "doctor": ("doctor", "--engine", NOWHERE),
    "help": ("ask", "-h"),
    "version": ("--version",),
}


def _closing_early(home: Path, *arguments: str | Path, unbuffered: bool) -> tuple[int, bytes]:
    """The exit code and standard error of a command whose output nobody reads at all."""
    reading, writing = os.pipe()
    os.close(reading)
    more = {"PYTHONUNBUFFERED": "1"} if unbuffered else {}
    with started(home, *arguments, out=writing, more=more) as command:
        os.close(writing)
        err = command.communicate(timeout=60)[1]
    return command.returncode, err


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", [False, True])
@pytest.mark.parametrize("name", PRINTING)
def test_a_closed_pipe_ends_quietly(home: Path, name: str, unbuffered: bool) -> None:
    """Buffered, all is written as the process ends; unbuffered, while the command is at work."""
    code, err = _closing_early(home, *PRINTING[name], unbuffered=unbuffered)
    assert code == 0
    assert b"rookery:" not in err
    assert b"Broken" not in err
    assert b"Traceback" not in err


@pytest.mark.slow
def test_a_closed_pipe_ends_the_other_commands_quietly(
    home: Path, run: Run, tmp_path: Path
) -> None:
    saved = tmp_path / "a.json"
    saved.write_text(run("ask", GIFTS, *CORVIDS, "--json").out, "utf-8")
    asked = tmp_path / "q.jsonl"
    asked.write_text('{"id": "1", "text": "Why do crows bring gifts?"}\n')
    store = tmp_path / "desk.sqlite"
    assert run("judge", "init", "--store", store).code == 0
    others = [
        ("cite", "verify", saved),
        ("measure", "citations", saved),
        ("judge", "stats", "--store", store),
        ("ask", "--batch", asked, "--out", "-", *CORVIDS),
        ("learn", "example", tmp_path / "first"),
    ]
    for arguments in others:
        code, err = _closing_early(home, *arguments, unbuffered=False)
        assert (code, b"Broken" in err, b"rookery:" in err) == (0, False, False), arguments


@pytest.mark.slow
def test_wrong_use_stays_wrong_use_where_nobody_reads(home: Path) -> None:
    code, err = _closing_early(home, "ask", "--json", unbuffered=False)
    assert code == 2
    assert err.startswith(b"rookery: give one question")


@pytest.mark.slow
def test_no_standard_output_at_all_is_no_traceback(home: Path) -> None:
    closed = f"exec {sys.executable} -m rookery browse '{FACES}' --plain >&-"
    ended = subprocess.run(
        ["sh", "-c", closed],
        env={**os.environ, **surroundings(home)},
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


# The doctor


@pytest.mark.slow
def test_the_doctor_counts_what_own_documents_need(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rookery.cli.doctor_command.DEFAULT_ENGINE", NOWHERE
    )  # a search engine out of reach
    without = run("doctor", "--allow-private", "--json")
    assert without.code == 0
    found = {
        finding.what: finding
        for finding in map(DiagnosticResult.from_json, without.out.splitlines())
    }
    assert [found[what].state for what in ("store", "index", "extract")] == ["ok"] * 3
    assert (found["search"].state, found["model"].state) == ("warning", "optional")
    assert "--in DIR" in found["search"].detail
    assert "--model NAME" in found["model"].detail
    assert run("doctor", "--allow-private", "--engine", NOWHERE).code == 4
    (tmp_path / "said.jsonl").write_text('"ready"\n')
    assert run("doctor", "--model", f"script:{tmp_path / 'said.jsonl'}").code == 0
    assert run("doctor", "--model", "script:no.jsonl").code == 4


@pytest.mark.slow
def test_the_doctor_fails_where_own_documents_cannot_be_kept(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rookery.cli.doctor_command.DEFAULT_ENGINE", NOWHERE)
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    code, out, _ = run("doctor")
    assert code == 4
    states = {line.split()[0]: line.split()[1] for line in out.splitlines()}
    assert (states["store"], states["index"], states["extract"]) == ("ok", "failed", "failed")

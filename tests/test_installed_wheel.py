"""The page on programs holds for the wheel: where only that is installed its blocks run, and pass
mypy's strict checks; each has ten lines or fewer."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from test_docs import Block, matches, read_blocks

ROOT = Path(__file__).parent.parent
BLOCKS = read_blocks("howto/python.md")


def list_programs() -> Iterator[tuple[str, Block, str]]:
    """Name, block and expected output of each program of the page; files come with their names."""
    for number, block in enumerate(BLOCKS):
        following = BLOCKS[number + 1] if number + 1 < len(BLOCKS) else None
        is_output = following is not None and following.kind == "text" and not following.title
        expected = following.text if following and is_output else ""
        if block.title:
            yield block.title, block, ""
        elif block.kind == "python":
            yield f"program_{number}.py", block, expected


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's files and programs."""
    place = tmp_path_factory.mktemp("page")
    for name, block, _ in list_programs():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(block.text, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; the dependencies are those of this one."""
    place = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    venv.create(place / "venv")
    [wheel] = place.glob("*.whl")
    program = place / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(program), "install", "--no-deps"]
    subprocess.run([*pip, "--no-index", str(wheel)], check=True, capture_output=True)
    [packages] = (place / "venv").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return program


def test_each_program_has_ten_lines_or_fewer() -> None:
    lines = {
        name: sum(1 for line in block.text.splitlines() if line.strip())
        for name, block, _ in list_programs()
        if name.endswith(".py")
    }
    assert {"notes_library.py", "my_policy.py", "my_rewards.py"} < set(lines)
    assert max(lines.values()) <= 10, lines


@pytest.mark.slow
def test_the_programs_run_with_the_installed_wheel(
    folder: Path, python: Path, tmp_path: Path
) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env |= {"OMP_NUM_THREADS": "1"}

    def run(*arguments: str) -> str:
        ran = subprocess.run(
            [python, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert str(python.parent.parent) in run("-c", "import rookery; print(rookery.__file__)")
    for name, _, expected in list_programs():
        if name.startswith("program_"):
            printed = run(name)
            assert matches(expected, printed), f"{name}\n{printed}"
    question = ("-m", "rookery", "ask", "Where do rooks nest?", "--in", "notes", "--json")
    own = ("--model", "python:my_policy.Reader", "--reward", "python:my_rewards.prefer_short")
    assert json.loads(run(*question, *own))["answer"]["score"] == -13
    answer = json.loads(run(*question, *own, "--method", "webgpt"))["answer"]
    assert [quote["text"] for quote in answer["quotes"]] == ["Rooks nest in tall elms"]


@pytest.mark.slow
def test_the_programs_pass_strict_checks(folder: Path, python: Path, tmp_path: Path) -> None:
    # Of what Rookery imports, msgspec alone has types that its records need.
    [packages] = python.parent.parent.glob("lib/python*/site-packages")
    (tmp_path / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    checked = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-site-packages"),
            *("--ignore-missing-imports", "--follow-imports=silent"),
            *("--cache-dir", str(tmp_path / "cache"), "."),
        ],
        cwd=folder,
        env=os.environ | {"MYPYPATH": f"{packages}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr

"""The man page has every command and option, and roff that man programs read."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from rookery.__main__ import app

DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that writes the page, which is in no package."""
    spec = importlib.util.spec_from_file_location("man_page", DOCS / "man_page.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_every_command_and_option_is_on_the_man_page(script: ModuleType, tmp_path: Path) -> None:
    page = script.write_man_page()
    group = typer.main.get_command(app)
    paths = list(script.list_commands(group))
    assert len(paths) > 40
    sections = re.split(r'^\.SS "', page, flags=re.MULTILINE)[1:]
    for path, section in zip(paths, sections, strict=True):
        assert section.startswith(script.escape_roff(" ".join(("rookery", *path))))
        command: Any = group
        for name in path:
            command = command.commands[name]
        for param in command.params:
            if param.param_type_name == "option":
                assert all(script.escape_roff(name) in section for name in param.opts)
    assert not re.search(r"^['.](?!TH|SH|SS|TP)", page, re.MULTILINE)
    if shutil.which("mandoc"):
        written = tmp_path / "rookery.1"
        written.write_text(page)
        lint = subprocess.run(
            ["mandoc", "-T", "lint", "-W", "warning", written],
            capture_output=True,
            text=True,
            check=False,
        )
        assert [line for line in lint.stdout.splitlines() if "missing date" not in line] == []


def test_roff_prints_the_very_characters(script: ModuleType) -> None:
    assert script.escape_roff('.gitignore names \\ and "--in"') == (
        r"\&.gitignore names \e and \(dq\-\-in\(dq"
    )
    assert script.escape_roff("'*.md'") == r"\&'*.md'"

"""The parameters of commands, described in their docstrings."""

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from rookery.shell.command_line import CommandGroup
from rookery.shell.command_options import JsonOption, describe_parameters


def greet(
    name: str,
    times: Annotated[int, typer.Option(min=1)] = 1,
    as_json: JsonOption = False,
    loud: bool = False,
) -> None:
    """Greet somebody.

    NAME  Who is greeted, and
        where.
    -n, --often NUMBER  How often.
    --shout  Loudly.
    """
    typer.echo(f"{name} {times} {as_json} {loud}")


def test_a_docstring_describes_what_has_no_help_text_in_its_order() -> None:
    group = CommandGroup()
    group.command("greet")(greet)
    page = CliRunner().invoke(group, ["--help"]).stdout
    rows = [" ".join(line.split()) for line in page.splitlines()]
    assert "NAME Who is greeted, and where." in rows
    assert "-n, --often NUMBER How often. (1 or more; default: 1)" in rows
    assert "--shout Loudly." in rows
    assert rows.index("Greet somebody.") == 2
    run = CliRunner().invoke(group, ["Ann", "--shout", "-n", "3"])
    assert run.stdout == "Ann 3 False True\n"
    assert CliRunner().invoke(group, ["Ann", "--often", "0"]).exit_code == 2
    assert CliRunner().invoke(group, ["Ann", "--times", "1"]).exit_code == 2


def test_a_parameter_that_nothing_describes_is_told() -> None:
    def silent(folder: str, loud: bool = False) -> None:
        """Say nothing.

        DIR  The folder.
        """

    with pytest.raises(ValueError, match="1 of the 2 parameters of silent"):
        describe_parameters(silent)

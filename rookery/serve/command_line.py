"""Commands of the command line: their help pages, and their errors as a sentence and as JSON."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rookery.records import Record
from rookery.serve.exits import ANSWERED, USAGE

WIDEST = 100
"""columns of a help page in a terminal, at most; longer lines are hard to read"""
UNWRAPPED = 1_000_000
"""columns of what is piped: whoever reads it (grep, a pager, an editor) breaks its own lines"""


class CommandError(Exception):
    """A command cannot go on: one sentence for standard error, and the exit code."""

    def __init__(self, sentence: str, exit_code: int = USAGE) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class CommandErrorDetail(Record, frozen=True):
    """What went wrong, in one sentence, and the exit code that goes with it."""

    message: str
    exit_code: int


class CommandErrorReport(Record, frozen=True):
    """What a command with --json prints in place of its result when it fails."""

    error: CommandErrorDetail


class CommandGroup(typer.Typer):
    """A group of commands whose help pages are plain text, without boxes and type names."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_PlainGroup, rich_markup_mode=None, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Add the decorated function as a command."""
        return super().command(name, cls=_PlainCommand, **settings)


class _PlainCommand(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        _write_help(self, ctx, formatter)


class _PlainGroup(TyperGroup):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        _write_help(self, ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without any argument, show what there is; it stays wrong use, as scripts expect."""
        if not args and not self.invoke_without_command:
            typer.echo(ctx.get_help())
            raise typer.Exit(USAGE)
        return super().parse_args(ctx, args)


def run_command(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run `rookery ARGUMENTS`; gives the exit code.

    Raises CommandError for wrong use, and whatever the command itself raises: unlike typer's own
    `main`, which ends with 1 where a reader closes the pipe.
    """
    if "_ROOKERY_COMPLETE" in os.environ:  # a shell asks how a word may go on
        app(prog_name="rookery")
    command = typer.main.get_command(app)
    settings: dict[str, Any] = {"help_option_names": ["-h", "--help"], "terminal_width": _columns()}
    try:
        with command.make_context("rookery", list(arguments), **settings) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except typer.Abort as error:
        raise CommandError("stopped") from error
    except typer.TyperException as error:
        raise CommandError(_sentence(error)) from error
    return ANSWERED


def _columns() -> int:
    if not sys.stdout.isatty():
        return UNWRAPPED
    return max(20, min(WIDEST, shutil.get_terminal_size().columns) - 1)


def _write_help(command: Any, ctx: Any, formatter: Any) -> None:
    """Usage, description, and each argument, option and command with what it is for."""
    shown = [param for param in command.get_params(ctx) if not getattr(param, "hidden", False)]
    arguments = [param for param in shown if param.param_type_name == "argument"]
    options = [param for param in shown if param.param_type_name == "option"]
    commands = getattr(command, "commands", {})
    pieces = ["[OPTIONS]", *map(_used, arguments), *["COMMAND ..."] * bool(commands)]
    formatter.write_usage(ctx.command_path, " ".join(pieces))
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(command.help or "")
    rows = {
        "Arguments": [(_value(param), _described(param)) for param in arguments],
        "Options": [(_option(param), _described(param)) for param in options],
        "Commands": [(name, each.get_short_help_str(UNWRAPPED)) for name, each in commands.items()],
    }
    for heading, lines in rows.items():
        if lines:
            with formatter.section(heading):
                formatter.write_dl(lines, col_max=24)


def _used(argument: Any) -> str:
    """An argument as the line of usage has it."""
    name = _value(argument)
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _value(param: Any) -> str:
    """What an argument or an option takes, in a word."""
    return str(param.metavar or param.name.upper())


def _option(param: Any) -> str:
    names = sorted(param.opts, key=len)
    return ", ".join(names) + ("" if param.is_flag else f" {_value(param)}")


def _described(param: Any) -> str:
    """What a parameter is for, with the numbers it takes and what holds without it."""
    least, most = getattr(param, "min", None), getattr(param, "max", None)
    notes = []
    if least is not None:
        notes.append(f"{least:g} or more" if most is None else f"{least:g} to {most:g}")
    if param.default and not callable(param.default) and not getattr(param, "is_flag", False):
        notes.append(f"default: {param.default}")
    if param.required and param.param_type_name == "option":
        notes.append("required")
    return " ".join([param.help or "", *[f"({'; '.join(notes)})"] * bool(notes)]).strip()


def _sentence(error: typer.TyperException) -> str:
    """What is wrong with the arguments, and which help page has what is right."""
    param, context = getattr(error, "param", None), getattr(error, "ctx", None)
    said = (error.message if param else error.format_message()).strip().rstrip(".")
    if param is None:
        said = said[:1].lower() + said[1:]
    else:
        name = max(param.opts, key=len) if param.param_type_name == "option" else _value(param)
        asked = said.partition(", unable to parse")[0].replace("Input should", "it should")
        said = f"{name}: {asked}" if said else f"{name} is missing"
    return f"{said} (see {context.command_path} -h)" if context else said

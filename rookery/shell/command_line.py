"""Commands of the command line: their help pages, and their errors as a sentence and as JSON."""

import getpass
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from rookery.errors import Failed
from rookery.records import Record
from rookery.shell.command_options import describe_parameters

EXIT_ANSWERED = 0
EXIT_USAGE = 2
EXIT_DECLINED = 3
EXIT_NO_EVIDENCE = 4
"""nothing could be searched or opened, or a file holds no quote that could be checked; the reasons
are on standard error"""
EXIT_UNVERIFIED = 5
"""a quote is not what it claims to be, or an answer's text not what its method writes"""
EXIT_NO_ANSWER = 6
"""a model could not be asked, or said nothing that can be shown; the reasons are told"""
EXIT_STOPPED = 7
"""the cord of a training run was pulled"""
# Ctrl-C gives 130 and a request to end 143, as they do everywhere.
MAX_HELP_COLUMNS = 100
"""columns of a help page in a terminal, at most; longer lines are hard to read"""


class CommandError(Exception):
    """A command cannot go on: one sentence for standard error, and the exit code."""

    def __init__(self, sentence: str, exit_code: int = EXIT_USAGE) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


class StopSignal(BaseException):
    """SIGINT or SIGTERM. Not a KeyboardInterrupt, which the command-line library would handle."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def format_failure(failed: Failed) -> str:
    """Return one sentence on what could not be done, and why."""
    return f"{failed.failure.what}: {failed.failure.detail or failed.failure.outcome}"


@contextmanager
def translate_failures(extra: str = "", needing: str = "this") -> Iterator[None]:
    """Raise CommandError with one sentence in place of Failed, which the user can correct.

    So it does for a missing package if `extra` names the part of Rookery that installs it;
    `needing` is what needs the package. Other errors pass.
    """
    try:
        yield
    except Failed as failed:
        raise CommandError(format_failure(failed)) from failed
    except ModuleNotFoundError as error:
        if not extra:
            raise
        extra = "learn" if error.name in ("torch", "transformers", "accelerate") else extra
        sentence = f"{needing} needs {error.name}: pip install 'rookery[{extra}]'"
        raise CommandError(sentence) from error


def print_lines(lines: Iterable[str], stream: TextIO | None = None) -> None:
    """Print lines, on standard output if no stream is named, so that none commands a terminal, and
    there with no word cut at its edge."""
    from rookery.text_escaping import sanitize_text

    stream = stream or sys.stdout
    if stream.isatty():
        from rookery.shell.terminal_output import StreamConsole, print_wrapped

        console = StreamConsole(stderr=stream is sys.stderr)
        for line in lines:
            print_wrapped(console, sanitize_text(line))
    else:
        stream.writelines(f"{sanitize_text(line)}\n" for line in lines)


def print_result(record: Record, lines: Iterable[str], as_json: bool) -> None:
    """Print a record for programs, as a line of JSON that commands no terminal, or for people."""
    from rookery.shell.terminal_output import to_terminal_json

    if as_json:
        sys.stdout.write(to_terminal_json(record) + "\n")
    else:
        print_lines(lines)


def get_user_name(otherwise: str) -> str:
    """Return the name of the system's user, or another where there is none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return otherwise


class CommandErrorDetail(Record, frozen=True):
    """An error in one sentence, and its exit code."""

    message: str
    exit_code: int


class CommandErrorReport(Record, frozen=True):
    """The output of a command with --json that fails."""

    error: CommandErrorDetail


class CommandGroup(typer.Typer):
    """A group of commands whose help pages are plain text, without boxes and type names."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=_PlainGroup, rich_markup_mode=None, **settings)

    def command(
        self, name: str | None = None, *, help: str | None = None, **settings: Any
    ) -> Callable[[Any], Any]:
        """Return a decorator that adds a function as a command.

        Its help page is its docstring, as `describe_parameters` has it, or begins with `help`.
        """

        def add_command(function: Callable[..., Any]) -> Callable[..., Any]:
            described = describe_parameters(function)
            add = super(CommandGroup, self).command
            return add(name, cls=_PlainCommand, help=help or described, **settings)(function)

        return add_command

    def callback(self, **settings: Any) -> Callable[[Any], Any]:
        """Return a decorator that runs a function before the commands, described as they are."""

        def add_callback(function: Callable[..., Any]) -> Callable[..., Any]:
            help = describe_parameters(function)
            return super(CommandGroup, self).callback(help=help, **settings)(function)

        return add_callback


class _PlainCommand(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        _write_help(self, ctx, formatter)


class _PlainGroup(TyperGroup):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        _write_help(self, ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without any argument, show what there is; it stays wrong use, as scripts expect."""
        if not (args or self.invoke_without_command or ctx.resilient_parsing):
            typer.echo(ctx.get_help())
            raise typer.Exit(EXIT_USAGE)
        return super().parse_args(ctx, args)


def run_command(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run `rookery ARGUMENTS`; return the exit code.

    Raises CommandError for wrong use, and whatever the command itself raises: unlike typer's own
    `main`, which ends with 1 where a reader closes the pipe.
    """
    if "_ROOKERY_COMPLETE" in os.environ:  # a shell asks how a word may go on
        app(prog_name="rookery")
    command = typer.main.get_command(app)
    settings: dict[str, Any] = {
        "help_option_names": ["-h", "--help"],
        "terminal_width": _get_help_columns(),
    }
    try:
        with command.make_context("rookery", list(arguments), **settings) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except typer.Abort as error:
        raise CommandError("stopped") from error
    except typer.TyperException as error:
        raise CommandError(_format_usage_error(error)) from error
    return EXIT_ANSWERED


def _get_help_columns() -> int:
    if not sys.stdout.isatty():
        return sys.maxsize  # whoever reads what is piped breaks its own lines
    return max(20, min(MAX_HELP_COLUMNS, shutil.get_terminal_size().columns) - 1)


def _write_help(command: Any, ctx: Any, formatter: Any) -> None:
    """Usage, description, and each argument, option and command with what it is for."""
    visible = [param for param in command.get_params(ctx) if not getattr(param, "hidden", False)]
    arguments = [param for param in visible if param.param_type_name == "argument"]
    options = [param for param in visible if param.param_type_name == "option"]
    commands = getattr(command, "commands", {})
    pieces = ["[OPTIONS]", *map(_format_usage_argument, arguments)]
    formatter.write_usage(ctx.command_path, " ".join(pieces + ["COMMAND ..."] * bool(commands)))
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(command.help or "")
    rows = {
        "Arguments": [(_get_metavar(param), _format_help(param)) for param in arguments],
        "Options": [(_format_option(param), _format_help(param)) for param in options],
        "Commands": [
            (name, each.get_short_help_str(sys.maxsize)) for name, each in commands.items()
        ],
    }
    for heading, lines in rows.items():
        if lines:
            with formatter.section(heading):
                formatter.write_dl(lines, col_max=24)


def _format_usage_argument(argument: Any) -> str:
    """Return an argument as the line of usage has it."""
    name = _get_metavar(argument)
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _get_metavar(param: Any) -> str:
    """Return the word that stands for the value of an argument or option."""
    return str(param.metavar or param.name.upper())


def _format_option(param: Any) -> str:
    names = [*sorted(param.opts, key=len), *param.secondary_opts]
    return ", ".join(names) + ("" if param.is_flag else f" {_get_metavar(param)}")


def _format_help(param: Any) -> str:
    """Return a parameter's help text, with its range and its default."""
    least, most = getattr(param, "min", None), getattr(param, "max", None)
    notes = []
    if least is not None:
        notes.append(f"{least:g} or more" if most is None else f"{least:g} to {most:g}")
    if param.default and not callable(param.default) and not getattr(param, "is_flag", False):
        notes.append(f"default: {param.default}")
    if param.required and param.param_type_name == "option":
        notes.append("required")
    return " ".join([param.help or "", *[f"({'; '.join(notes)})"] * bool(notes)]).strip()


def _format_usage_error(error: typer.TyperException) -> str:
    """Return what is wrong with the arguments, and the help page to read."""
    param, context = getattr(error, "param", None), getattr(error, "ctx", None)
    message = (error.message if param else error.format_message()).strip().rstrip(".")
    if param is None:
        message = message[:1].lower() + message[1:]
    else:
        is_option = param.param_type_name == "option"
        name = max(param.opts, key=len) if is_option else _get_metavar(param)
        problem = message.partition(", unable to parse")[0].replace("Input should", "it should")
        message = f"{name}: {problem}" if message else f"{name} is missing"
    return f"{message} (see {context.command_path} -h)" if context else message

"""The man page of `rookery`, written from the help of its commands.

`python docs/man_page.py > rookery.1` writes it, and `man ./rookery.1` shows it.
"""

import io
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import typer

from rookery.__main__ import app
from rookery.shell.command_line import run_command
from rookery.version import __version__

EXIT_CODES = {
    "0": "Answered, also with a possible answer; or done.",
    "2": "Wrong use: the sentence on standard error says what to correct.",
    "3": "The answer was declined.",
    "4": "No evidence could be gathered, or nothing could be checked.",
    "5": "A quote failed verification.",
    "6": "A model gave no answer.",
    "7": "A training run was stopped from the desk.",
    "130, 143": "Stopped by Ctrl-C or by a request to end.",
}
VARIABLES = {
    "NO_COLOR": "If set, nothing is coloured.",
    "FORCE_COLOR": "If set, what is piped is coloured, too.",
    "COLUMNS": "Width of the terminal, in place of its own.",
    "OPENAI_API_KEY": "Key for the server that --base-url names.",
    "HTTPS_PROXY": "The proxy of --proxy.",
    "XDG_DATA_HOME, XDG_CACHE_HOME": "Where archive, desk and models, and where indexes are kept.",
}


def write_man_page() -> str:
    """Return the man page of all commands, in the macros of man(7)."""
    usage, about, sections = read_help(())
    lines = [
        f'.TH ROOKERY 1 "" "Rookery {__version__}"',
        ".SH NAME",
        rf"rookery \- {escape_roff(about.rstrip('.').lower())}",
        ".SH SYNOPSIS",
        escape_roff(usage),
        ".SH DESCRIPTION",
        escape_roff(about),
        "Each command has options of its own;",
        escape_roff("rookery COMMAND --help lists them, too."),
        ".SH OPTIONS",
        *_write_entries(sections["Options"]),
        ".SH COMMANDS",
    ]
    for path in list_commands(typer.main.get_command(app)):
        usage, about, sections = read_help(path)
        lines += [f'.SS "{escape_roff(usage)}"', *map(escape_roff, about.splitlines())]
        lines += _write_entries(
            [*sections.get("Arguments", []), *sections["Options"], *sections.get("Commands", [])]
        )
    for heading, entries in (("EXIT STATUS", EXIT_CODES), ("ENVIRONMENT", VARIABLES)):
        lines += [f".SH {heading}", *_write_entries([*entries.items()])]
    return "\n".join(line for line in lines if line) + "\n"


def list_commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words that call each command below a group, groups before their commands."""
    for name, command in getattr(group, "commands", {}).items():
        yield (*path, name)
        yield from list_commands(command, (*path, name))


def read_help(path: tuple[str, ...]) -> tuple[str, str, dict[str, list[tuple[str, str]]]]:
    """Return a help page's usage and description, and the entries of each of its sections."""
    with redirect_stdout(io.StringIO()) as page:
        run_command(app, [*path, "--help"])
    before, *rest = re.split(r"^(Arguments|Options|Commands):\n", page.getvalue(), flags=re.M)
    usage, _, about = before.partition("\n")
    entries = {
        name: [
            tuple(re.split(r" {2,}", line.strip(), maxsplit=1))
            for line in text.splitlines()
            if line.strip()
        ]
        for name, text in zip(rest[::2], rest[1::2], strict=True)
    }
    about = re.sub(r"^ +", "", about, flags=re.M).strip()
    return usage.removeprefix("Usage: "), about, entries  # type: ignore[return-value]


def _write_entries(entries: list[tuple[str, str]]) -> Iterator[str]:
    for name, text in entries:
        yield ".TP"
        yield rf"\fB{escape_roff(name)}\fR"
        yield escape_roff(text)


def escape_roff(text: str) -> str:
    """Escape a line so that roff prints these very characters."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    return rf"\&{escaped}" if escaped[:1] in (".", "'") else escaped


if __name__ == "__main__":
    sys.stdout.write(write_man_page())

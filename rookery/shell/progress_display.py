"""Show progress in a terminal: a bar, and the text of a model while it writes.

An unchecked text of a model must not be read as a quote: whatever stands where the answer syntaxes
have quotes is not shown.
"""

import re
import time
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.status import Status
from rich.table import Column
from rich.text import Text

from rookery.shell.terminal_output import sanitize_text

LIVE_LINES = 6
"""of the latest that are shown"""
# A title and a quote, a command that quotes, marks of citations; each perhaps not finished yet.
_QUOTED_TEXT = r"(?:[^\\]|\\.|\\\Z)*?"
_QUOTED = re.compile(
    rf">?%\({_QUOTED_TEXT}(?:\)%\[{_QUOTED_TEXT}(?:\]%|\Z)|\Z)|(?<=^Quote)[: ].*\Z|%<|>%|\[\d*\]?",
    re.DOTALL | re.MULTILINE,
)


def remove_quotes(text: str) -> str:
    """Return the text of a model without its quotes and citation marks."""
    return _QUOTED.sub("", text)


class LiveDisplay:
    """A line that moves in a terminal, and below it what is being written."""

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._what = what
        self._status = Status(what, console=console)

    def show_text(self, text: str) -> None:
        """Show the end of a model's text so far, without its quotes, replacing earlier text."""
        shown = sanitize_text(remove_quotes(text)).strip()[-LIVE_LINES * self._console.width :]
        self._status.update(Text.assemble("writing\n", (shown, "dim")) if shown else self._what)

    def show_command(self, command: str) -> None:
        """Print a model's command, without what it quotes, on a line that stays."""
        self._console.print(f"› {sanitize_text(remove_quotes(command))}", style="dim", markup=False)
        self._status.update(self._what)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()


DELAY = 1.0
"""seconds of work before the bar is shown"""


class ProgressBar:
    """A progress bar on a terminal that appears only when work takes longer than a second."""

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._what = what
        self._since = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, count: int, total: int, now: str = "") -> None:
        """Show that `count` of `total` items are ready, and which item is being worked on now."""
        if self._bar is None:
            if time.monotonic() - self._since < DELAY or not self._console.is_interactive:
                return
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(table_column=Column(min_width=9, no_wrap=True)),
                TextColumn(
                    "{task.fields[now]}", table_column=Column(no_wrap=True, overflow="ellipsis")
                ),
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task(self._what, total=total, now="")
            self._bar.start()
        assert self._task is not None
        label = escape(sanitize_text(now.rpartition("/")[2]))
        self._bar.update(self._task, completed=count, total=total or None, now=label)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

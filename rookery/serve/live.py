"""What a model writes, shown while it writes, and gone when the answer is there.

Until it is checked, a model's text may not be read as a quote: nothing that stands where the
syntaxes have quotes is shown. It knows nothing of methods and answers.
"""

import re
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from rookery.serve.terminal import clean

LINES = 6
"""of the latest that are shown"""
# A title and a quote, a command that quotes, marks of citations; each perhaps not finished yet.
_TEXT = r"(?:[^\\]|\\.|\\\Z)*?"
_QUOTED = re.compile(
    rf">?%\({_TEXT}(?:\)%\[{_TEXT}(?:\]%|\Z)|\Z)|(?<=^Quote)[: ].*\Z|%<|>%|\[\d*\]?",
    re.DOTALL | re.MULTILINE,
)


def unquoted(text: str) -> str:
    """What a model wrote without what it says that pages say, and without its marks."""
    return _QUOTED.sub("", text)


class Live:
    """A line that moves in a terminal, and below it what is being written."""

    def __init__(self, console: Console, what: str) -> None:
        self._console = console
        self._what = what
        self._status = Status(what, console=console)

    def written(self, text: str) -> None:
        """Shows the text so far, or its end."""
        shown = clean(unquoted(text)).strip()[-LINES * self._console.width :]
        self._status.update(Text.assemble("writing\n", (shown, "dim")) if shown else self._what)

    def heard(self, command: str) -> None:
        """Shows a command, which stays."""
        self._console.print(f"› {clean(unquoted(command))}", style="dim", markup=False)
        self._status.update(self._what)

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

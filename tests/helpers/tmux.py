"""A real terminal for tests: what is typed, what is seen, and what a program leaves behind."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from commands import NOTHING, ROOT, surroundings

PATIENCE = 120.0
"""seconds to wait for something to be seen"""


class Terminal:
    """`rookery ARGUMENTS` in a window of tmux; afterwards its exit code and the line's settings
    are shown."""

    def __init__(
        self, home: Path, *arguments: str | Path, columns: int, rows: int, more: Mapping[str, str]
    ) -> None:
        self._socket = str(home / f"{time.monotonic_ns():x}")
        names = {**surroundings(home), "PYTHONPATH": ROOT, "COLUMNS": "", "TERM": "screen", **more}
        env = " ".join(f"{name}={shlex.quote(value)}" for name, value in names.items())
        rookery = shlex.join([sys.executable, "-m", "rookery", *map(str, arguments)])
        script = f"trap : INT; stty -a > {home}/before; env -u COLUMNS {env} {rookery}; code=$?;"
        script += f" stty -a > {home}/after; echo EXIT $code; exec cat"
        size = ("-x", str(columns), "-y", str(rows))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "sh", "-c", script)

    def types(self, text: str) -> None:
        """As from a keyboard, letter by letter."""
        self._tmux("send-keys", "-l", text)

    def enters(self, line: str) -> None:
        """A line, and Enter."""
        self.types(line)
        self.presses("Enter")

    def presses(self, *keys: str) -> None:
        """Keys by tmux's names: Enter, Escape, C-c, Down, NPage."""
        self._tmux("send-keys", *keys)

    def sees(self, *texts: str) -> str:
        """The screen, as soon as all of this is on it."""
        until = time.monotonic() + PATIENCE
        while not all(each in (screen := self.screen()) for each in texts):
            assert time.monotonic() < until, f"{texts} is not on the screen:\n{screen}"
            time.sleep(0.03)
        return screen

    def screen(self) -> str:
        """All that is seen now."""
        return self._tmux("capture-pane", "-p")

    def asks(self, variable: str) -> str:
        """What tmux knows of the window: alternate_on, cursor_flag, pane_title, ..."""
        return self._tmux("display-message", "-p", f"#{{{variable}}}").strip()

    def listens(self, file: Path) -> None:
        """Writes all that goes to the terminal from now on to a file, byte by byte."""
        self._tmux("pipe-pane", f"cat >> {shlex.quote(str(file))}")

    def process(self) -> int:
        """The number of rookery's process."""
        children = ["pgrep", "-P", self.asks("pane_pid")]
        return int(subprocess.run(children, capture_output=True, check=True, text=True).stdout)

    def close(self) -> None:
        """As when a window is closed: everything in it is hung up on."""
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-u", "-S", self._socket, *words]
        env = {name: value for name, value in os.environ.items() if name != "TMUX"}
        env["LC_ALL"] = "C.UTF-8"
        return subprocess.run(command, capture_output=True, check=True, text=True, env=env).stdout


@contextmanager
def terminal(
    home: Path,
    *arguments: str | Path,
    columns: int = 100,
    rows: int = 30,
    more: Mapping[str, str] = NOTHING,
) -> Iterator[Terminal]:
    """One that is closed at the end."""
    window = Terminal(home, *arguments, columns=columns, rows=rows, more=more)
    try:
        yield window
    finally:
        window.close()

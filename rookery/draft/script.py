"""A policy that says what a file holds: for trying things out, for tests, and to say again what was
said. It knows nothing of what it is asked.
"""

import threading
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rookery.draft.remote import Allow, Seed
from rookery.records import Completion, Episode, Failed, Failure


class Script:
    """Says the lines of a file, one a completion, whatever it is asked. Threads may share one.

    A line is a JSON string, or an Episode, of which it says every step: `rookery ask --trace` and
    `rookery browse --out` write such lines. Raises Failed: no_model where it cannot be read;
    `complete` and `stream` do (script_ended) where there is nothing left to say.
    """

    name = "script"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            detail = f"the script cannot be read ({error}): name a file of JSON lines"
            raise Failed(Failure(str(path), "no_model", detail)) from None
        self._left = iter(
            [said for number, line in enumerate(lines, 1) for said in self._of(line, number)]
        )

    def complete(
        self, prompt: str, n: int = 1, allow: Allow = None, seed: Seed = None, grammar: str = ""
    ) -> list[Completion]:
        """The next n things to say."""
        with self._turn:
            said = [completion for _, completion in zip(range(n), self._left, strict=False)]
        if len(said) < n:
            detail = "the script has no more to say: write more lines, or ask less"
            raise Failed(Failure(str(self._path), "script_ended", detail))
        return said

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """The next thing to say, word by word."""
        (said,) = self.complete(prompt)
        yield from said.text.splitlines(keepends=True)
        return said

    def _of(self, line: str, number: int) -> Iterator[Completion]:
        if not line.strip():
            return
        try:
            value: Any = msgspec.json.decode(line)
            if isinstance(value, str):
                yield Completion(value)
            else:
                yield from (step.said for step in msgspec.convert(value, Episode).steps)
        except (msgspec.MsgspecError, ValueError) as error:
            detail = f"line {number} is neither a JSON string nor an episode: {error}"
            raise Failed(Failure(str(self._path), "no_model", detail)) from None

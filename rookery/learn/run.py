"""The folder of a training run: its configuration, checkpoints, metrics and the cord.

A run that was killed at any moment goes on from its last whole checkpoint as if nothing had been.
It knows nothing of what is learnt.
"""

import fcntl
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, Self

import msgspec
from accelerate import Accelerator
from accelerate.utils import gather_object
from safetensors import SafetensorError

from rookery.records import Failed, Failure

KEPT = 2
"""checkpoints: should the last be damaged, there is another"""
_WHOLE = "whole.json"


class Saved(Protocol):
    """What can be written into a folder and read from it, bit by bit the same."""

    def save(self, folder: Path) -> None: ...

    def load(self, folder: Path) -> None: ...


Told = Callable[[int, int, dict[str, float]], None]
"""is told the step, how many there are, and what was measured"""
Cord = Callable[[], str]
"""says why nothing more may be learnt; empty: go on"""


class Run:
    """One run at a time in one folder.

    `config.json` holds what the run was begun with, `metrics.jsonl` a line for each step,
    `samples.jsonl` what was said, `checkpoints/` the last states. Writing a reason into `cord`
    stops the run before its next step, and so does a reason that the function `cord` gives. `kept`
    is what there is to go on from. Raises Failed: run_in_use, other_run where the folder holds a
    run that was begun otherwise, and OSError where it cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        config: msgspec.Struct,
        accelerator: Accelerator | None = None,
        kept: str = "checkpoints",
        cord: Cord = str,
    ) -> None:
        self.folder = folder
        self.config = config
        self._accelerator = accelerator
        self._cord = cord
        self._main = accelerator is None or bool(accelerator.is_main_process)
        """whether this process writes: one of several that share the work does"""
        if self._main:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / "lock").open("w")
            try:
                self._take()
                self._begin(msgspec.json.encode(config), kept)
            except BaseException:
                self._lock.close()
                raise

    def _take(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            detail = "another process trains here: wait for it, or name another folder"
            raise Failed(Failure(str(self.folder), "run_in_use", detail)) from None

    def _begin(self, config: bytes, kept: str) -> None:
        """Until there is something to go on from, a configuration may still be corrected."""
        place = self.folder / "config.json"
        begun = (self.folder / kept).exists()
        if begun and place.exists() and place.read_bytes() != config:
            detail = "it holds a run with another configuration: name another folder for this one"
            raise Failed(Failure(str(self.folder), "other_run", detail))
        _write(place, config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._main:
            self._lock.close()

    def pulled(self) -> str:
        """Why the run must stop, as whoever pulled the cord wrote; empty where nobody did.

        Processes that share the work must all ask: none goes on where one has seen it.
        """
        why = pulled(self.folder) or self._cord()
        if self._accelerator is None or self._accelerator.num_processes == 1:
            return why
        return next(filter(None, gather_object([why])), "")

    def steps(
        self,
        count: int,
        state: Saved,
        every: int | None = None,
        told: Told | None = None,
        most: int = 100,
    ) -> Iterator[int]:
        """The numbers of the steps that are still to be made.

        Loads the last whole checkpoint first, and writes one after every so many steps and after
        the last. Without `every` they are a tenth of the run, and `most` at most, so that a short
        run that is killed goes on as well. `note` what was measured before asking for the next
        number. Raises Failed (stopped) before a step where the cord was pulled.
        """
        every = min(max(count // 10, 1), most) if every is None else every
        first = self._restore(state)
        self._noted: dict[str, float] = {}
        for number in range(first, count):
            if why := self.pulled():
                raise Failed(Failure(str(self.folder), "stopped", why))
            yield number
            if self._main:
                _append(self.folder / "metrics.jsonl", {"step": number, **self._noted})
            if told is not None:
                told(number + 1, count, self._noted)
            if (number + 1) % every == 0 or number + 1 == count:
                self._save(number + 1, state)

    def note(self, **measured: float) -> None:
        """Keeps what was measured in this step."""
        self._noted = measured

    def sample(self, **said: Any) -> None:
        """Keeps something that was said, for people to look at."""
        if self._main:
            _append(self.folder / "samples.jsonl", said)

    def metrics(self) -> list[dict[str, float]]:
        """What was measured so far, step by step."""
        return measured(self.folder)

    def _save(self, number: int, state: Saved) -> None:
        """Writes a checkpoint that is there whole or not at all, and forgets the oldest."""
        here = self.folder / "checkpoints"
        new, place = here / "new", here / f"{number:08}"
        if self._main:
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(parents=True)
        self._wait()
        try:
            state.save(new)
        except (RuntimeError, SafetensorError) as error:  # torch's full disk is no OSError
            detail = f"it cannot be written ({error}): make room and run the same command again"
            raise Failed(Failure(str(new), "unwritable", detail)) from error
        self._wait()
        if not self._main:
            return
        sizes = {
            name: (self.folder / name).stat().st_size
            for name in _LINES
            if (self.folder / name).exists()
        }
        about = {"step": number, "lines": sizes, "files": _digests(new)}
        _write(new / _WHOLE, json.dumps(about).encode())
        shutil.rmtree(place, ignore_errors=True)
        new.rename(place)
        _sync(here)
        for old in sorted(here.glob("[0-9]*"))[:-KEPT]:
            shutil.rmtree(old)

    def _wait(self) -> None:
        if self._accelerator is not None:
            self._accelerator.wait_for_everyone()

    def _restore(self, state: Saved) -> int:
        """Loads the last whole checkpoint; gives how many steps it has seen."""
        here = self.folder / "checkpoints"
        for place in sorted(here.glob("[0-9]*"), reverse=True):
            about = _whole(place)
            if about is None:
                continue
            state.load(place)
            if self._main:
                for name in _LINES:
                    _cut(self.folder / name, about["lines"].get(name, 0))
            return int(about["step"])
        for name in _LINES if self._main else ():
            _cut(self.folder / name, 0)
        return 0


def pulled(folder: Path) -> str:
    """Why the run of this folder must stop; empty where nobody pulled its cord."""
    try:
        return (folder / "cord").read_text("utf-8").strip() or "the cord was pulled"
    except FileNotFoundError:
        return ""


def reached(folder: Path) -> int:
    """After how many steps the last checkpoint of this folder was made; 0: there is none."""
    made = (folder / "checkpoints").glob("[0-9]*")
    return max((int(place.name) for place in made), default=0)


def measured(folder: Path) -> list[dict[str, float]]:
    """What was measured in the run of this folder, step by step."""
    place = folder / "metrics.jsonl"
    return [json.loads(line) for line in place.read_bytes().splitlines()] if place.exists() else []


_LINES = ("metrics.jsonl", "samples.jsonl")


def _append(place: Path, line: dict[str, Any]) -> None:
    """What is no number is written as null: JSON has no word for it."""
    plain = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in line.items()
    }
    with place.open("ab") as lines:
        lines.write(json.dumps(plain).encode() + b"\n")


def _cut(place: Path, size: int) -> None:
    """Lines that were written after the checkpoint are written again."""
    if place.exists():
        os.truncate(place, min(size, place.stat().st_size))


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != _WHOLE)
    return {str(path.relative_to(folder)): _digest(path) for path in files}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _whole(place: Path) -> dict[str, Any] | None:
    """What a checkpoint says of itself, where all of it is there as it was written."""
    try:
        about: dict[str, Any] = json.loads((place / _WHOLE).read_bytes())
        return about if about["files"] == _digests(place) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(place: Path, data: bytes) -> None:
    new = place.with_name(place.name + ".new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(place)


def _sync(folder: Path) -> None:
    """Makes sure that a new name is on the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)

"""Files of demonstrations: JSON lines of Episodes, each with its session in a recording beside it.

It knows nothing of how a demonstration is made.
"""

import os
from functools import partial
from pathlib import Path

import msgspec

from rookery.browse.recording import Recording
from rookery.draft.rollout import episode_of
from rookery.records import Episode, Failed, Failure
from rookery.serve.sitting import Sitting

RECORDING = ".recording"
"""what the name of a recording beside a file of demonstrations ends with"""


def recording_beside(out: Path) -> Path:
    """Where the sessions of a file of demonstrations are recorded, unless it is said."""
    return out.with_name(f"{out.stem}{RECORDING}")


def check(out: Path) -> None:
    """Makes sure that demonstrations can be added to this file, which need not be there yet.

    Raises ValueError or OSError.
    """
    if out.is_dir():
        raise ValueError(f"{out} is a folder: name a file for --out")
    if not out.exists():
        folder = next(parent for parent in out.parents if parent.exists())
        if not (folder.is_dir() and os.access(folder, os.W_OK)):
            raise ValueError(f"{folder} cannot be written to: name another --out")
        return
    with out.open("ab"):
        pass
    if out.is_file():  # and no device or pipe
        with out.open("rb") as lines:
            first = lines.readline()
        if first.endswith(b"\n") and not _is_episode(first):
            raise ValueError(f"{out} holds something else than demonstrations: name another --out")


def save(sitting: Sitting, by: str, name: str, out: Path, recording: Path) -> Episode:
    """Adds what was done to the file, as one line, and all it was given to the recording.

    Every prompt is what the commands, scrolling merged, show when they are said once more. Raises
    Failed, and then the file is as it was.
    """
    with Recording(recording) as kept:
        kept.begin(name, sitting.task.to_json().encode())
        steps, browsed = sitting.rerun(partial(kept.record, session=name))
    episode = episode_of(sitting.task, by, steps, browsed, name)
    try:
        _append(out, episode.to_json().encode() + b"\n")
    except OSError as error:
        advice = (
            f"{out} cannot be written ({error.strerror}): make room or allow it, and save again"
        )
        raise Failed(Failure(str(out), "unwritable", advice)) from error
    return episode


def holds(out: Path, name: str) -> bool:
    """Whether the demonstration with this session is in the file already."""
    if not out.is_file():
        return False
    with out.open("rb") as lines:
        return any(name.encode() in line and line.endswith(b"\n") for line in lines)


def _append(out: Path, line: bytes) -> None:
    """The whole line, or nothing of it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.is_file():
        _mend(out)
    with out.open("ab", buffering=0) as file:
        size = file.tell()
        try:
            while line:
                line = line[file.write(line) :]
            os.fsync(file.fileno())
        except OSError:
            if out.is_file():
                file.truncate(size)
            raise


def _mend(out: Path) -> None:
    """Removes a last line that a killed process has left unfinished."""
    whole, last = 0, b""
    with out.open("rb+") as lines:
        for last in lines:
            whole += len(last)
        if last.endswith(b"\n") or not last:
            return
        if _is_episode(last):
            lines.write(b"\n")
        else:
            lines.truncate(whole - len(last))


def _is_episode(line: bytes) -> bool:
    try:
        Episode.from_json(line)
    except (msgspec.MsgspecError, ValueError):
        return False
    return True

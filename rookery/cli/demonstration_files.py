"""Files of demonstrations, and the unfinished sessions of `rookery browse` that end in them.

Demonstrations are JSON lines of Episodes, each with its session in a recording beside the file. An
unfinished session is stored event by event, so that no killed process and no closed terminal loses
it.
"""

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from rookery.browser.browser import build_episode
from rookery.browser.browser_commands import BrowserTask
from rookery.errors import Failed, Outcome
from rookery.library.call_recording import CallRecording, RecordingLibrary
from rookery.library.page_archive import pack_records, translate_storage_errors, unpack_records
from rookery.records import Episode, Failure, Record, prepare_type
from rookery.settings import Settings
from rookery.shell.browser_session import BrowserSession, SessionEvent

RECORDING = ".recording"
"""what the name of a recording beside a file of demonstrations ends with"""


def recording_path(out: Path) -> Path:
    """Return the default path of the recording of a file of demonstrations."""
    return out.with_name(f"{out.stem}{RECORDING}")


def check_demonstration_file(out: Path) -> None:
    """Make sure that demonstrations can be added to this file, which need not be there yet.

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


def save_demonstration(
    sitting: BrowserSession, by: str, name: str, out: Path, recording: Path
) -> Episode:
    """Add what was done to the file, as one line, and all it was given to the recording.

    Every prompt is what the commands, scrolling merged, show when they are said once more. Raises
    Failed, and then the file is as it was.
    """
    with CallRecording(recording) as recorder:
        recorder.begin_session(name, sitting.task.to_json().encode())
        steps, browsed = sitting.replay_session(partial(RecordingLibrary, recorder, session=name))
    episode = build_episode(sitting.task, by, steps, browsed, name)
    try:
        _append_line(out, episode.to_json().encode() + b"\n")
    except OSError as error:
        advice = (
            f"{out} cannot be written ({error.strerror}): make room or allow it, and save again"
        )
        raise Failed(Failure(str(out), Outcome.UNWRITABLE, advice)) from error
    return episode


def has_demonstration(out: Path, name: str) -> bool:
    """Return whether the file already has the demonstration with this session."""
    if not out.is_file():
        return False
    with out.open("rb") as lines:
        return any(name.encode() in line and line.endswith(b"\n") for line in lines)


def _append_line(out: Path, line: bytes) -> None:
    """The whole line, or nothing of it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.is_file():
        _truncate_last_line(out)
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


def _truncate_last_line(out: Path) -> None:
    """Remove a last line that a killed process has left unfinished."""
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


SESSION_SUFFIX = ".sitting"


class SessionStart(Record, frozen=True, tag="Begun"):
    """The task and settings that a session began with."""

    name: str
    """of its session in the recording"""
    task: BrowserTask
    settings: Settings
    out: str
    """the file of demonstrations that it is for"""


_row = msgspec.msgpack.Decoder(prepare_type(SessionStart | SessionEvent))


class UnfinishedSession:
    """One session in the SQLite file `path`, which this process alone holds until it is closed.

    An event is there for good when `append_event` returns. Every method raises `Failed`: disk_full,
    archive_busy (another process goes on with this session) or unreadable_archive.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: list[bytes] = []
        with translate_storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            with translate_storage_errors(path):
                # Held by the system for as long as the process lives, and no longer.
                self._file.execute("pragma locking_mode = exclusive")
                self._file.execute("begin exclusive")
                self._file.execute(
                    "create table if not exists kept (number integer primary key, body blob)"
                )
                self._file.execute("commit")
        except Failed:
            self._file.close()
            raise

    def append_event(self, deed: SessionStart | SessionEvent) -> None:
        """Add how it begins, first of all, or what was done, with all that could not be added
        before."""
        self._waiting.append(pack_records(deed))
        with translate_storage_errors(self._path):
            while self._waiting:
                self._file.execute("insert into kept (body) values (?)", (self._waiting[0],))
                del self._waiting[0]

    def read(self) -> tuple[SessionStart, list[SessionEvent]]:
        """Return the start of the session and its events."""
        with translate_storage_errors(self._path):
            rows = self._file.execute("select body from kept order by number").fetchall()
        try:
            begun, *deeds = (unpack_records(body, _row) for (body,) in rows)
            if not isinstance(begun, SessionStart):
                raise ValueError("it has no beginning")
        except (ValueError, zlib.error, msgspec.MsgspecError) as error:
            detail = f"it is no unfinished session of this version: delete it ({error})"
            raise Failed(Failure(str(self._path), Outcome.UNREADABLE_ARCHIVE, detail)) from error
        return begun, [deed for deed in deeds if not isinstance(deed, SessionStart)]

    def delete(self) -> None:
        """Delete the session, which is finished or dropped."""
        self.close()
        self._path.unlink(missing_ok=True)
        # Of a process that was killed; SQLite leaves it where nothing was written since.
        self._path.with_name(f"{self._path.name}-journal").unlink(missing_ok=True)

    def close(self) -> None:
        """Let other processes go on with it."""
        self._file.close()


def list_unfinished(folder: Path) -> Iterator[UnfinishedSession]:
    """Yield the unfinished sessions in a folder that no living process holds, latest first.

    Each is open, and locked by this process, until it is closed. One that cannot be opened is
    skipped.
    """
    for path in sorted(folder.glob(f"*{SESSION_SUFFIX}"), reverse=True):
        with suppress(Failed):
            yield UnfinishedSession(path)

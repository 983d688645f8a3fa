"""The calls of a recorded session, read back from the file with their times."""

from typing import Any, NamedTuple

import msgspec

from rookery.library.call_recording import Argument, CallRecording, RecordedAnswer
from rookery.library.page_archive import decode_column, unpack_records
from rookery.records import Episode, Step, prepare_type

_ANSWERS = msgspec.msgpack.Decoder(prepare_type(RecordedAnswer))
_TEXTS = msgspec.msgpack.Decoder(str)


class RecordedCall(NamedTuple):
    """One stored call of a session."""

    arguments: tuple[Argument, ...]
    """see LIBRARY_CALLS and POLICY_CALLS"""
    started: str
    """start of the call: UTC, ISO 8601, to the millisecond"""
    seconds: float
    answer: RecordedAnswer


def list_calls(recording: CallRecording, session: str) -> list[RecordedCall]:
    """Return the calls of a session, in the order of their answers."""
    recording.require_session(session)
    tables = recording.tables
    text = "(select body from asked where digest = {})"
    columns = [text.format(name) if name in tables.texts else name for name in tables.arguments]
    rows = recording.select_calls(session, *columns, "started", "seconds", "answer")

    def decode_argument(name: str, value: Any) -> Argument:
        if name in tables.texts:
            return unpack_records(value, _TEXTS)
        return decode_column(value) if isinstance(value, bytes) else value

    with recording.archive.translate_decode_errors():
        return [
            RecordedCall(
                tuple(map(decode_argument, tables.arguments, values)),
                decode_column(started),
                seconds,
                unpack_records(answer, _ANSWERS),
            )
            for *values, started, seconds, answer in rows
        ]


def strip_prompts(episode: Episode) -> Episode:
    """The episode as a person's client may store it: without prompts, which a replay restores."""
    steps = tuple(Step("", step.said) for step in episode.steps)
    return msgspec.structs.replace(episode, steps=steps)

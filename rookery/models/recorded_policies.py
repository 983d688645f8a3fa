"""Policies that repeat stored completions: recordings in SQLite, and scripts in a file."""

import threading
from collections.abc import Callable, Generator
from itertools import chain
from pathlib import Path
from typing import Any, Unpack, cast

from rookery.errors import Failed, Outcome
from rookery.library.call_recording import CallRecording, CallReplay, RecordedAnswer
from rookery.library.page_archive import decode_column
from rookery.models.remote_model import AllowedTokens, LanguageModel, SampleOptions, Seed
from rookery.records import Completion, Episode, Failure, Policy, convert_value, decode_json
from rookery.typed_files import require_regular_file


class RecordingPolicy:
    """A policy that stores the completions and failures of another one before it gives them.

    Seeds, grammars and streams work where the other has them; a stream that is closed early is not
    stored. A single completion is streamed to `on_text`, if it is given, which is called with the
    whole text so far after each piece; several, and those under `allow` or a grammar, are not.
    `allow` is passed on but not stored, so that replay ignores it. Raises `Failed` (not_recorded)
    where the session was not begun.
    """

    def __init__(
        self,
        recording: CallRecording,
        policy: Policy,
        session: str,
        on_text: Callable[[str], None] | None = None,
    ) -> None:
        recording.require_session(session)
        self.name = policy.name
        self._recording = recording
        self._policy = policy
        self._session = session
        self._on_text = on_text

    def complete(
        self, prompt: str, n: int = 1, allow: AllowedTokens = None, **options: Unpack[SampleOptions]
    ) -> list[Completion]:
        """Return the other policy's n completions after storing them."""
        seed, grammar = options.get("seed"), options.get("grammar", "")
        if self._on_text and n == 1 and allow is None and not grammar:
            return [self._stream_to_callback(self._on_text, prompt, seed)]
        named: dict[str, Any] = {"seed": seed, "grammar": grammar}
        named = {name: value for name, value in named.items() if value not in (None, "")}
        call = self._recording.record_call(self._session, self.name, prompt, n, seed, grammar)
        with call as recorded:
            completions = list(self._policy.complete(prompt, n, allow, **named))
            recorded.append(RecordedAnswer(completions=tuple(completions)))
        return completions

    def _stream_to_callback(
        self, on_text: Callable[[str], None], prompt: str, seed: Seed
    ) -> Completion:
        text, pieces = "", self.stream(prompt, seed)
        while True:
            try:
                text += next(pieces)
            except StopIteration as ended:
                completion: Completion = ended.value
                return completion
            on_text(text)

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """Yield the pieces of the other policy's completion; store it whole at the end."""
        call = self._recording.record_call(self._session, self.name, prompt, 1, seed, "")
        with call as given:
            said = yield from cast(LanguageModel, self._policy).stream(prompt, seed)
            given.append(RecordedAnswer(completions=(said,)))
        return said


class ReplayPolicy:
    """A policy that repeats the stored completions of a session.

    The n-th call with the same arguments gets the n-th stored answer to them; a call beyond these
    raises `Failed` (not_recorded), and so does an unknown session. `name` is that of the recorded
    policy; it may be left out if the session has exactly one.
    """

    def __init__(self, recording: CallRecording, session: str, name: str = "") -> None:
        self._replay = CallReplay(recording, session)
        if not name:
            names = {decode_column(by) for (by,) in recording.select_calls(session, "by")}
            if len(names) != 1:
                known = ", ".join(sorted(names)) or "there is none; record it again"
                detail = f"name one of the policies that were recorded in it: {known}"
                raise Failed(Failure(session, Outcome.NOT_RECORDED, detail))
            (name,) = names
        self.name = name

    def complete(
        self, prompt: str, n: int = 1, allow: AllowedTokens = None, **options: Unpack[SampleOptions]
    ) -> list[Completion]:
        """Return the next stored completions for this call, or raise its stored failure.

        A call is the same if prompt, `n`, `seed` and `grammar` are; `allow` is ignored. Raises
        Failed (not_recorded) if no answer is left.
        """

        def refuse_call(answers: list[bytes]) -> bytes:
            detail = f"this was asked {len(answers)} times: record a session that asks it again"
            raise Failed(Failure(" ".join(prompt.split())[:80], Outcome.NOT_RECORDED, detail))

        call = (self.name, prompt, n, options.get("seed"), options.get("grammar", ""))
        return list(self._replay.replay_call(*call, find_other=refuse_call).completions)

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """Yield the stored completion in one piece, and return it."""
        (said,) = self.complete(prompt, seed=seed)
        if said.text:
            yield said.text
        return said


class ScriptedPolicy:
    """Returns the lines of a file in order, one per completion, for any prompts.

    A line is a JSON string, or an Episode, each of whose steps is a completion: `rookery ask
    --trace` and `rookery browse --out` write such lines. Threads may share one. Raises Failed
    (no_model) where the file cannot be read; `complete` and `stream` raise Failed (script_ended)
    after the last completion.
    """

    name = "script"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        try:
            lines = require_regular_file(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            detail = f"the script cannot be read ({error}): name a file of JSON lines"
            raise Failed(Failure(str(path), Outcome.NO_MODEL, detail)) from None
        parsed = [self._parse_line(line, number) for number, line in enumerate(lines, 1)]
        self._left = chain.from_iterable(parsed)

    def complete(
        self, prompt: str, n: int = 1, allow: AllowedTokens = None, **options: Unpack[SampleOptions]
    ) -> list[Completion]:
        """Return the next n completions of the script; the other arguments are ignored."""
        with self._turn:
            completions = [completion for _, completion in zip(range(n), self._left, strict=False)]
        if len(completions) < n:
            detail = "the script has no lines left: add lines to it, or ask for less"
            raise Failed(Failure(str(self._path), Outcome.SCRIPT_ENDED, detail))
        return completions

    def stream(self, prompt: str, seed: Seed = None) -> Generator[str, None, Completion]:
        """Yield the next completion of the script line by line, and return it whole."""
        (said,) = self.complete(prompt)
        yield from said.text.splitlines(keepends=True)
        return said

    def _parse_line(self, line: str, number: int) -> list[Completion]:
        if not line.strip():
            return []
        try:
            value = decode_json(line, Any)
            if isinstance(value, str):
                return [Completion(value)]
            return [step.said for step in convert_value(value, Episode).steps]
        except ValueError as error:
            detail = f"line {number} is neither a JSON string nor an episode: {error}"
            raise Failed(Failure(str(self._path), Outcome.NO_MODEL, detail)) from None

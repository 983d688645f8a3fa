"""Answers by models, as the command line names them: opened once, recorded, and said again.

It knows nothing of where pages come from, nor of how an answer is shown.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

from rookery.browse.recording import Recording
from rookery.draft.aloud import Aloud
from rookery.draft.endpoint import Endpoint, endpoint_for, key_of, read_endpoints
from rookery.draft.held import QUOTING, Holding, by_tokens, free, hold_for
from rookery.draft.remote import Model, Remote
from rookery.draft.script import Script
from rookery.draft.spending import Cap, Spending
from rookery.draft.transcript import Transcript
from rookery.records import Episode, Failed, Failure, Library, Question, Record, digest_of

if TYPE_CHECKING:
    from rookery.cite.grammar import Grammar

LOCAL, SCRIPT = "path:", "script:"
NEW = " (under way)"
"""of a recording, until what was asked is answered"""
HELD = 512
"""tokens of an answer that is held to quotes, so that it is ended in time"""
AT_ONCE = 16
"""questions of a batch that wait for a server together"""


class ModelSettings(Record, frozen=True):
    """Which model answers, how many samples are drawn, and what they may cost."""

    model: str = ""
    """of a server; or path:DIR, or script:FILE"""
    base_url: str = ""
    endpoints: str = ""
    """a file with a table for each role: [browse], [write], [default]"""
    samples: int | None = None
    """None: as the method does"""
    worth: float = 0.0
    """what one more sample must be expected to add to the score"""
    tokens: int | None = None
    """that may be spent in all, prompts included; None: as many as it takes"""
    money: float | None = None
    """the same in the currency of the endpoints' prices"""

    def __bool__(self) -> bool:
        """Whether anything was said at all."""
        return self != ModelSettings()


class Kept(NamedTuple):
    """A library and a model for each role, all of whose answers are kept for one question."""

    library: Library
    model: Callable[[str], Model]


class Models:
    """The models that the settings name, opened when first asked and closed together.

    All that they and the libraries are asked for a question is kept in `store`, in place of what
    was kept for the same question and settings before. With `offline` it is said again, and
    nobody is asked. Raises Failed where a model is misnamed.
    """

    def __init__(
        self,
        settings: ModelSettings,
        store: Path,
        offline: bool = False,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings
        self.spending = Spending(Cap(settings.tokens, settings.money))
        self._offline = offline
        self._tell = tell
        self._endpoints = read_endpoints(Path(settings.endpoints)) if settings.endpoints else {}
        self._models: list[tuple[Endpoint | str, Model]] = []
        self._turn = threading.Lock()
        self._grammar: Grammar | None = None
        self._open = ExitStack()
        self._recording = self._open.enter_context(Recording(store))
        self._transcript = self._open.enter_context(Transcript(store))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends whatever is under way."""
        self._open.close()

    def endpoint(self, role: str) -> Endpoint | str:
        """Where the role's model is served; or what --model says, where it is none of a server."""
        if self.settings.model.startswith((LOCAL, SCRIPT)):
            return self.settings.model
        found = endpoint_for(role, self._endpoints, self.settings.model, self.settings.base_url)
        if role == "write" and found.logprobs is None:
            return msgspec.structs.replace(found, logprobs=True)
        return found

    @property
    def at_once(self) -> int:
        """Questions that may be answered at the same time."""
        return 1 if isinstance(self.endpoint("write"), str) else AT_ONCE

    def answer(
        self,
        question: Question,
        about: str,
        open_library: Callable[[], Library],
        write: Callable[[Kept], Episode],
    ) -> Episode:
        """What `write` makes of the library and the models; `about` is all else it depends on.

        What was kept of the same before is replaced once there is something to replace it.
        """
        name = digest_of("\n".join([question.id, question.text, about, self.settings.to_json()]))
        if self._offline:
            return write(self._replayed(name))
        new = name + NEW
        self._recording.begin(new, question.to_json().encode())
        self._transcript.begin(new)
        library = self._recording.record(open_library(), new)
        episode = write(
            Kept(library, lambda role: self._aloud(self._transcript.record(self.model(role), new)))
        )
        if episode.stop != "policy_failed":
            self._recording.rename(new, name)
            self._transcript.rename(new, name)
        return episode

    def _replayed(self, name: str) -> Kept:
        if name not in self._recording.sessions():
            detail = "this was not asked before with these settings: ask it once without --offline"
            raise Failed(Failure("--offline", "not_recorded", detail))
        return Kept(
            self._recording.replay(name),
            lambda role: self._transcript.replay(name, self._name(role)),
        )

    def holding(self, model: Model) -> Holding:
        """How the model that writes is held to quotes of what it is shown. Raises Failed."""
        named = self.endpoint("write")
        if isinstance(named, Endpoint):
            return hold_for(model, named)
        if self._offline or named.startswith(SCRIPT):
            return Holding(free(model))
        from rookery.cite.grammar import Grammar
        from rookery.learn.local import Local

        local = self.model("write")
        assert isinstance(local, Local)
        with self._turn:
            self._grammar = self._grammar or Grammar(local.vocabulary, QUOTING)
        return Holding(by_tokens(model, self._grammar, HELD))

    def _aloud(self, model: Model) -> Model:
        return Aloud(model, self._tell) if self._tell else model

    def _name(self, role: str) -> str:
        named = self.endpoint(role)
        if isinstance(named, Endpoint):
            return named.model
        return (
            Script.name
            if named.startswith(SCRIPT)
            else Path(named.removeprefix(LOCAL)).resolve().name
        )

    def model(self, role: str) -> Model:
        """The role's model itself, nothing of which is kept. Raises Failed."""
        named = self.endpoint(role)
        with self._turn:
            found = next((model for known, model in self._models if known == named), None)
            if found is None:
                found = self._opened(named)
                self._models.append((named, found))
        return found

    def _opened(self, named: Endpoint | str) -> Model:
        if isinstance(named, Endpoint):
            remote = Remote(named, key_of(named), spending=self.spending)
            return self._open.enter_context(remote)
        if named.startswith(SCRIPT):
            return Script(Path(named.removeprefix(SCRIPT)))
        from rookery.learn.local import Local

        return Local(Path(named.removeprefix(LOCAL)))

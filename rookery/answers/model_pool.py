"""The language models of a session: opened once, with every reply recorded for --offline."""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from rookery.errors import Failed, Outcome
from rookery.library.call_recording import (
    POLICY_CALLS,
    CallRecording,
    RecordingLibrary,
    ReplayLibrary,
)
from rookery.library.page_archive import PageArchive
from rookery.models.constrained_decoding import (
    LOCAL_QUOTE_SHAPE,
    ConstrainedPolicy,
    ConstrainerChoice,
    choose_constrainer,
    constrain_by_tokens,
    leave_unconstrained,
)
from rookery.models.installed_models import locate_local_model
from rookery.models.openai_protocol import (
    ModelEndpoint,
    SpendingBudget,
    SpendingCap,
    read_api_key,
    read_endpoints,
    select_endpoint,
)
from rookery.models.recorded_policies import RecordingPolicy, ReplayPolicy, ScriptedPolicy
from rookery.models.remote_model import AllowedTokens, LanguageModel, RemoteModel, SlotTable
from rookery.python_objects import PYTHON_PREFIX, OwnPolicy, load_own_policy
from rookery.quotes.citation_syntax import AnswerShape
from rookery.records import Failure, Library, Policy, Question, digest_of
from rookery.settings import (
    LOCAL,
    SCRIPT,
    LocalEndpoint,
    LocalModelSettings,
    ModelSettings,
    is_local_model,
    override_settings,
)

if TYPE_CHECKING:
    from rookery.quotes.constraint import VerbatimGrammar

MAX_CONSTRAINED_TOKENS = 512
"""tokens within which a constrained answer is brought to its end"""
MAX_CONCURRENT = 16
"""questions of a batch that wait for a server at the same time"""


class ModelPool:
    """The models that the settings name, opened when first used and closed together.

    The replies of models and libraries to one question are recorded in `store`; they replace the
    recording of the same question with the same settings. With `offline` the recording is
    replayed and no server is asked. `local` are the settings of a model on this machine that are
    not given. Models on one server share its slots, also with other pools that have the same table
    of `slots`. An own `policy` is the model of a python: name. Raises Failed where a model is
    misnamed. Threads may share one pool; the same question is answered by one of them at a time.
    """

    def __init__(
        self,
        settings: ModelSettings,
        store: Path | PageArchive,
        offline: bool = False,
        local: LocalModelSettings = LocalModelSettings(),
        slots: SlotTable | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.settings = settings
        self._local = local
        self._slots = slots or SlotTable()
        self._policy = policy
        self.spending = SpendingBudget(SpendingCap(settings.tokens, settings.money))
        self._offline = offline
        self._under_way = NameLocks()
        self._endpoints = read_endpoints(Path(settings.endpoints)) if settings.endpoints else {}
        self._models: list[tuple[ModelEndpoint | LocalEndpoint | str, LanguageModel]] = []
        self._turn = threading.Lock()
        self._grammar: VerbatimGrammar | None = None
        self._commands: Callable[[str], AllowedTokens] | None = None
        self._open = ExitStack()
        self._recording = self._open.enter_context(CallRecording(store))
        self._transcript = self._open.enter_context(CallRecording(store, POLICY_CALLS))
        # Others, on other machines too, may answer the same question at the same time.
        self._unfinished = f" (under way: {secrets.token_hex(4)})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the models and the recordings; requests that are under way are ended."""
        self._open.close()

    def get_endpoint(self, role: str) -> ModelEndpoint | LocalEndpoint | str:
        """Return the endpoint of a role's model, with the settings that the pool was given.

        It is a server's, that of a model on this machine, named path:FOLDER, or script:FILE or the
        python: name as it was set. Raises Failed: no_model, bad_endpoint.
        """
        settings = self.settings
        if settings.model.startswith((SCRIPT, PYTHON_PREFIX)):
            return settings.model
        endpoint: ModelEndpoint | LocalEndpoint
        if is_local_model(settings):
            endpoint = LocalEndpoint(**msgspec.structs.asdict(self._local), model=settings.model)
        else:
            endpoint = select_endpoint(role, self._endpoints, settings.model, settings.base_url)
        try:
            endpoint = override_settings(endpoint, settings)
        except ValueError as error:
            raise Failed(Failure(endpoint.model, Outcome.BAD_ENDPOINT, str(error))) from error
        if isinstance(endpoint, LocalEndpoint):
            place = f"{LOCAL}{locate_local_model(endpoint.model)}"
            return msgspec.structs.replace(endpoint, model=place)
        if role == "write" and endpoint.logprobs is None:
            return msgspec.structs.replace(endpoint, logprobs=True)
        return endpoint

    def is_local(self, role: str) -> bool:
        """Return True if a role's model is named as a folder on this machine, to be loaded here.

        False for a model on a server, also on one of this machine, and for a script of replies.
        Raises Failed as `get_endpoint` does.
        """
        return isinstance(self.get_endpoint(role), LocalEndpoint)

    def list_remote_models(self, *roles: str) -> list[str]:
        """Return the models of these roles that are on other machines, as MODEL at ADDRESS."""
        named = map(self.get_endpoint, roles)
        remote = [one for one in named if isinstance(one, ModelEndpoint) and one.is_remote]
        return list(dict.fromkeys(one.name for one in remote))

    @property
    def max_concurrent(self) -> int:
        """Number of questions that may be answered at the same time. Raises Failed.

        It is the number that the server shows that it works on at once, and 16 at most; 1 for a
        model on this machine and for a script. The server is asked for it; offline it is 16.
        """
        if not isinstance(self.get_endpoint("write"), ModelEndpoint):
            return 1
        model = None if self._offline else self.open_model("write")
        slots = model.count_slots() if isinstance(model, RemoteModel) else MAX_CONCURRENT
        return min(MAX_CONCURRENT, slots)

    @contextmanager
    def record_question(
        self,
        question: Question,
        cache_key: str,
        library: Library | None,
        observe_text: Callable[[str], None] | None = None,
    ) -> Iterator["QuestionRecording"]:
        """Record the library and the models of one question, or replay them offline.

        Waits while another thread answers the same question. `cache_key` names everything besides
        question and models that the answer depends on. An earlier recording is replaced where the
        new one is `complete` at the end. `library` is None offline. `observe_text` receives what a
        model writes, as far as it has come. Offline, raises Failed (not_recorded) without a
        recording.
        """
        key = [question.id, question.text, cache_key, self.settings.to_cache_key()]
        name = digest_of("\n".join(key))
        with self._under_way.hold_name(name):
            if library is None:
                if name not in self._recording.list_sessions():
                    detail = (
                        "this was not asked before with these settings: ask it once without "
                        "--offline"
                    )
                    raise Failed(Failure("--offline", Outcome.NOT_RECORDED, detail))
                yield QuestionRecording(self, ReplayLibrary(self._recording, name), name)
                return
            new = name + self._unfinished
            self._recording.begin_session(new, question.to_json().encode())
            self._transcript.begin_session(new)
            recorded = QuestionRecording(
                self, RecordingLibrary(self._recording, library, new), new, observe_text
            )
            yield recorded
            if recorded.complete:
                self._recording.rename_session(new, name)
                self._transcript.rename_session(new, name)

    def uses_chat(self, role: str) -> bool:
        """Return True if the model of a role is on a server and is sent messages. Raises Failed."""
        named = self.get_endpoint(role)
        return isinstance(named, ModelEndpoint) and named.uses_chat

    def open_recorded(
        self, role: str, name: str, observe_text: Callable[[str], None] | None
    ) -> LanguageModel:
        """Return the role's model, recording its replies under `name`; offline, replaying them.

        `observe_text` receives the text while it is written; a replay never calls it.
        """
        if self._offline:
            return ReplayPolicy(self._transcript, name, self._get_name(role))
        return RecordingPolicy(self._transcript, self.open_model(role), name, observe_text)

    def hold_to_commands(self, model: LanguageModel) -> Policy:
        """Constrain the browsing model, one on this machine, to commands as in its training.

        Raises Failed: no_model, no_torch where llguidance is missing. Offline nothing constrains.
        """
        named = self.get_endpoint("browse")
        if self._offline or not isinstance(named, LocalEndpoint):
            return model
        from rookery.learn.pretrained_models import load_policy_tokenizer

        try:
            from rookery.learn.action_constraints import allow_commands
        except ModuleNotFoundError as error:
            detail = f"{error.name} is not installed: pip install 'rookery[learn]'"
            raise Failed(Failure(named.model, Outcome.NO_TORCH, detail)) from error

        with self._turn:
            if self._commands is None:
                folder = Path(named.model.removeprefix(LOCAL))
                speech = load_policy_tokenizer(folder, named.token_limit, named.chat)
                self._commands = allow_commands(speech)
        allow = self._commands
        return ConstrainedPolicy(
            model.name, lambda prompt, n: model.complete(prompt, n, allow(prompt))
        )

    def hold_to_quotes(
        self, model: LanguageModel, shape: AnswerShape = LOCAL_QUOTE_SHAPE
    ) -> ConstrainerChoice:
        """Constrain the writing model to quote its sources verbatim. Raises Failed.

        A server does it by grammar where it can, which one request finds out; a model on this
        machine by token masks, in answers of this `shape`. The result says where neither is
        possible, and why. Nothing constrains a script, or offline a model on this machine.
        """
        named = self.get_endpoint("write")
        if isinstance(named, ModelEndpoint):
            return choose_constrainer(model, named)
        if self._offline or isinstance(named, str):
            return ConstrainerChoice(leave_unconstrained(model))
        from rookery.learn.local_model import LocalModel
        from rookery.quotes.constraint import VerbatimGrammar

        local = self.open_model("write")
        assert isinstance(local, LocalModel)
        with self._turn:
            self._grammar = self._grammar or VerbatimGrammar(local.vocabulary, shape)
        budget = min(MAX_CONSTRAINED_TOKENS, named.token_limit)
        return ConstrainerChoice(constrain_by_tokens(model, self._grammar, budget))

    def _get_name(self, role: str) -> str:
        named = self.get_endpoint(role)
        if isinstance(named, str):
            return ScriptedPolicy.name if named.startswith(SCRIPT) else ""  # the only one
        local = isinstance(named, LocalEndpoint)
        return Path(named.model.removeprefix(LOCAL)).resolve().name if local else named.model

    def open_model(self, role: str) -> LanguageModel:
        """Return the role's model, opened at the first use and closed with the pool.

        Its replies are not recorded. Raises Failed.
        """
        named = self.get_endpoint(role)
        with self._turn:
            for opened_name, model in self._models:
                if opened_name == named:
                    return model
            self._models.append((named, self._open_model(named)))
            return self._models[-1][1]

    def _open_model(self, named: ModelEndpoint | LocalEndpoint | str) -> LanguageModel:
        if isinstance(named, ModelEndpoint):
            key = read_api_key(named)
            remote = RemoteModel(named, key, spending=self.spending, slots=self._slots)
            return self._open.enter_context(remote)
        if isinstance(named, str) and named.startswith(PYTHON_PREFIX):
            return OwnPolicy(self._policy) if self._policy else load_own_policy(named)
        if isinstance(named, str):
            return ScriptedPolicy(Path(named.removeprefix(SCRIPT)))
        from rookery.learn.local_model import LocalModel

        return LocalModel(Path(named.model.removeprefix(LOCAL)), named, self.spending)


class QuestionRecording:
    """The library and the models of one question, recorded or replayed together."""

    def __init__(
        self,
        pool: ModelPool,
        library: Library,
        name: str,
        observe_text: Callable[[str], None] | None = None,
    ) -> None:
        self.library = library
        self.complete = False
        """set by who has answered: the recording takes the place of an earlier one"""
        self._pool = pool
        self._name = name
        self._observe_text = observe_text

    def open_model(self, role: str, observed: bool = True) -> LanguageModel:
        """Return the model of a role, "browse" or "write". Raises Failed."""
        return self._pool.open_recorded(role, self._name, self._observe_text if observed else None)


class NameLocks:
    """Mutual exclusion by name: one holder of each name at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[str] = set()

    @contextmanager
    def hold_name(self, name: str) -> Iterator[None]:
        """Wait until the name is free, then hold it within the block.

        A thread that holds a name and asks for it again waits for ever.
        """
        with self._changed:
            self._changed.wait_for(lambda: name not in self._held)
            self._held.add(name)
        try:
            yield
        finally:
            with self._changed:
                self._held.remove(name)
                self._changed.notify_all()

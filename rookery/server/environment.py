"""The environment server: OpenEnv over HTTP and WebSocket, from Starlette.

A WebSocket at /ws is a session. Over HTTP, POST /reset names the episode that POST /step goes on
with. The task operations are those that openenv's own server makes of a TaskProvider.
"""

import asyncio
import json
import logging
import math
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast
from uuid import uuid4

import msgspec
import uvicorn
from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.supervisors import Multiprocess

from rookery.answers.answer_session import EvidenceSources
from rookery.answers.best_of_n import load_reward
from rookery.answers.chat_answers import ChatSettings
from rookery.answers.webgpt import ChatBrowsing, list_browsing_tools
from rookery.browser.browser import (
    BrowserReply,
    BrowserRequest,
    BrowserSearch,
    answer_request,
    replace_surrogates,
)
from rookery.browser.browser_commands import BrowserRules, make_chat_rules
from rookery.browser.episode_source import (
    EpisodeSource,
    SelectedTask,
    SourceEpisode,
    reward_accepted_answer,
)
from rookery.desk.store import Store
from rookery.errors import Failed
from rookery.evidence.claim_support import make_evidence_reward
from rookery.library.call_recording import CallRecording, FrozenWeb
from rookery.library.libraries import BUNDLED_PLACE, get_contents_digest
from rookery.library.question_files import bundled_questions, read_questions
from rookery.library.web_library import WebLibrary
from rookery.library.worker_processes import end_with_parent
from rookery.models.chat_prompts import build_message_fields
from rookery.python_objects import OwnCodeError
from rookery.quotes.chat_replies import rewrite_citations
from rookery.records import Answer, Failure, Library, Question, Quote, Reward, convert_value
from rookery.server.api.endpoints import (
    INTERNAL_ERROR_MESSAGE,
    ApiEndpoint,
    ApiError,
    ApiLimits,
    ApiOperation,
    ApiRequest,
    EndpointContext,
    authenticate_request,
    build_json_response,
)
from rookery.server.api.routes import build_openapi_document
from rookery.settings import Settings
from rookery.shell.browser_session import LiveSessions
from rookery.shell.security import TokenBuckets
from rookery.version import __version__

INVALID_JSON = "INVALID_JSON"
UNKNOWN_TYPE = "UNKNOWN_TYPE"
VALIDATION_ERROR = "VALIDATION_ERROR"
EXECUTION_ERROR = "EXECUTION_ERROR"
CAPACITY_REACHED = "CAPACITY_REACHED"
SESSION_ERROR = "SESSION_ERROR"
HTTP_STATUSES = {
    VALIDATION_ERROR: 422,
    EXECUTION_ERROR: 409,
    CAPACITY_REACHED: 503,
    SESSION_ERROR: 404,
}
"""HTTP statuses of the protocol's error codes"""


class EnvError(ApiError):
    """A request that is answered with an error: one of the protocol's codes, and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(HTTP_STATUSES.get(code, 400), message, code.lower())
        self.code = code

    def to_json(self) -> bytes:
        """Return the error as a message of the protocol."""
        return msgspec.json.encode(
            {"type": "error", "data": {"message": str(self), "code": self.code}}
        )


LIST_TOOLS = "list_tools"
"""type of the action that lists the tools"""


class EnvResetArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The task of an episode: at an index of a split, or of an id; without either, one is drawn."""

    split: str = ""
    """name of the split; empty: the first one"""
    index: int | None = None
    """position of the task in the split, from 0"""
    task: str = ""
    """id of a question of the split"""
    seed: int | None = None
    """determines which task is drawn"""
    episode_id: str | None = None
    """a name for the episode; without it, one is made"""
    tools: bool = False
    """the commands are tools, and each step takes a chat model's whole reply"""


class EnvToolCall(msgspec.Struct, frozen=True):
    """A call of a tool."""

    name: str = ""
    """name of the tool"""
    arguments: dict[str, Any] | str = {}
    """its arguments, or their JSON"""
    function: dict[str, Any] = {}
    """the same two, as chat completions have them"""

    @property
    def text(self) -> str:
        """The call as chat models write it."""
        words = self.function.get("arguments", self.arguments)
        words = words if isinstance(words, str) else json.dumps(words, ensure_ascii=False)
        return f"{self.function.get('name', self.name)} {words}"


class EnvAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command of the text browser, or the answer where one is asked for; with tools, a reply.

    A reply is `command`, its text, `tool_calls`, or both. One call alone may also be what OpenEnv's
    clients send: {"type": "call_tool", "tool_name": ..., "arguments": {...}}.
    """

    command: str | int | float | bool | list[EnvToolCall] | msgspec.UnsetType = msgspec.UNSET
    """a text; clients that read a model's text as JSON send `1987` as a number"""
    tool_calls: list[EnvToolCall] = []
    """calls in their order"""
    type: str = ""
    """call_tool, or list_tools, which lists the tools and is no step"""
    tool_name: str = ""
    """tool of the one call"""
    name: str = ""
    """the same"""
    arguments: dict[str, Any] | str = {}
    """of the one call"""
    metadata: dict[str, Any] = {}
    """has no effect"""

    def __post_init__(self) -> None:
        if self.command is msgspec.UNSET and not self.calls and self.type != LIST_TOOLS:
            raise ValueError("the field `command` is missing")

    @property
    def calls(self) -> list[EnvToolCall]:
        """The calls of tools."""
        name = self.tool_name or self.name
        listed = self.command if isinstance(self.command, list) else []
        one = [EnvToolCall(name, self.arguments)] if name else []
        return [*listed, *self.tool_calls, *one]

    @property
    def text(self) -> str:
        """The command as the model wrote it, and each call on a line of its own."""
        said = self.command
        if not isinstance(said, str):
            plain = isinstance(said, list | msgspec.UnsetType)
            said = "" if plain else msgspec.json.encode(said).decode()
        return "\n".join([*filter(None, [said]), *(each.text for each in self.calls)])


class EnvObservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """The prompt, which is all that a model is given before a command."""

    prompt: str
    """the prompt as WebGPT writes it (figure 1(b)), with tools as `rookery ask` writes it for a
    chat model: rules, tools and state; empty at the end of the episode"""
    tools: list[dict[str, Any]] = []
    """name, description and JSON schema of the parameters, for the action list_tools alone"""


class EnvStepMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """About a step, for the trainer; a model is given none of it."""

    episode_id: str
    """name of the episode"""
    split: str
    """name of the split"""
    index: int
    """position of the task in the split, from 0"""
    task: str
    """id of the question"""
    step: int
    """commands so far"""
    answering: bool = False
    """the next text is the answer and no command"""
    actions_left: int = 0
    """commands that are left"""
    note: str = ""
    """what the last command could not do, in a sentence for people"""
    commands: list[str] = []
    """with tools: the commands that the last reply was read as, as far as they were carried out"""
    request: dict[str, Any] = {}
    """with tools: the prompt as `messages` and `tools` of a request for chat completions"""
    session: str = ""
    """name of the episode in the server's recording"""
    stop: str = ""
    """at the end: end, max_actions, max_quotes, no_quotes, nonsense, controversial, bad_syntax,
    browser_failed, or timed_out in a recording"""
    answer: Answer | None = None
    """the answer with its quotes, at the end"""
    quotes: tuple[Quote, ...] = ()
    """the quotes that were collected, at the end"""
    failures: tuple[Failure, ...] = ()
    """at the end: what could not be searched or opened"""


class EnvStepResult(msgspec.Struct, frozen=True):
    """The state after a reset or a step."""

    observation: EnvObservation
    reward: float | None
    """reward of the step: null after a reset, 0 for every step but the last"""
    done: bool
    """True at the end of the episode"""
    metadata: EnvStepMetadata


class EnvState(msgspec.Struct, frozen=True, omit_defaults=True):
    """State of a session."""

    episode_id: str | None
    """name of the episode; null before the first"""
    step_count: int
    """commands so far"""
    split: str = ""
    """name of the split"""
    index: int | None = None
    """position of the task in the split, from 0"""
    task: str = ""
    """id of the question"""
    done: bool = False
    """True at the end of the episode"""


class EnvResetMessage(msgspec.Struct, frozen=True, tag_field="type", tag="reset"):
    data: EnvResetArguments = EnvResetArguments()


class EnvStepMessage(msgspec.Struct, frozen=True, tag_field="type", tag="step"):
    data: EnvAction


class EnvStateMessage(msgspec.Struct, frozen=True, tag_field="type", tag="state"):
    pass


class EnvCloseMessage(msgspec.Struct, frozen=True, tag_field="type", tag="close"):
    pass


class EnvObservationReply(msgspec.Struct, frozen=True, tag_field="type", tag="observation"):
    data: EnvStepResult


class EnvStateReply(msgspec.Struct, frozen=True, tag_field="type", tag="state"):
    data: EnvState


EnvMessage = EnvResetMessage | EnvStepMessage | EnvStateMessage | EnvCloseMessage


def parse_env_message(text: str) -> EnvMessage:
    """Parse a WebSocket message. Raises EnvError: INVALID_JSON, UNKNOWN_TYPE, VALIDATION_ERROR."""
    try:
        # Not by msgspec: Python's own clients can send lone surrogates, which it refuses.
        message: EnvMessage = convert_value(json.loads(text), cast("Any", EnvMessage))
    except (json.JSONDecodeError, RecursionError) as error:
        raise EnvError(INVALID_JSON, f"the message is not JSON: {error}") from error
    except ValueError as error:
        if "`type`" in str(error):
            kinds = "reset, step, state or close"
            raise EnvError(
                UNKNOWN_TYPE, f'give the message one "type" of {kinds}: {error}'
            ) from error
        raise EnvError(VALIDATION_ERROR, f"the message does not fit: {error}") from error
    return message


def build_env_schemas() -> dict[str, Any]:
    """Return the JSON schemas of the action, the observation and the state, as /schema has them."""
    kinds = (EnvAction, EnvObservation, EnvState)
    _, schemas = msgspec.json.schema_components(kinds)
    action = schemas[EnvAction.__name__]
    action["properties"]["command"] = {
        "type": "string",
        "description": "one command of the text browser, or the answer where one is asked for; "
        'after a reset with "tools": true, the whole reply of a chat model, with calls of tools',
    }
    action["required"] = ["command"]  # clients that have a text alone send it as the one required
    return {
        "action": action,
        "observation": schemas[EnvObservation.__name__],
        "state": schemas[EnvState.__name__],
    }


TIMED_OUT = "timed_out"
MAX_ID_CHARACTERS = 255
"""characters of an episode's id, as in openenv's own server"""


class EnvLimits(msgspec.Struct, frozen=True):
    """Limits on the clients of an environment server."""

    sessions: int = 1024
    """concurrent sessions of each process"""
    idle: float = 3600.0
    """seconds without a message after which a session is closed"""
    message: int = 1_000_000
    """characters of a message, bytes of a request body"""
    seconds: float = 60.0
    """time-out of one search or fetch; a later answer counts as a Failure (timed_out)"""
    requests: int = 64
    """searches and fetches that run at the same time"""


Given = TypeVar("Given")
Done = TypeVar("Done")


class EnvSession:
    """The episodes of one client, one after the other."""

    def __init__(self, source: EpisodeSource, limits: EnvLimits, threads: CapacityLimiter) -> None:
        self.lock = asyncio.Lock()
        """held while a request of the session is answered"""
        self.episode_id: str | None = None
        self._source = source
        self._limits = limits
        self._threads = threads
        self._episode: SourceEpisode | None = None
        self._chat: ChatBrowsing | None = None

    async def reset(self, arguments: EnvResetArguments) -> EnvStepResult:
        """Begin an episode in place of the present one, and return its first prompt.

        Raises EnvError where there is no such task, and where the library cannot be opened.
        """
        episode_id = arguments.episode_id
        if episode_id is not None and not 0 < len(episode_id) <= MAX_ID_CHARACTERS:
            sentence = f"an episode_id has 1 to {MAX_ID_CHARACTERS} characters"
            raise EnvError(VALIDATION_ERROR, sentence)
        try:
            selected = self._source.select_task(
                arguments.split, arguments.index, arguments.task, arguments.seed
            )
        except ValueError as error:
            raise EnvError(VALIDATION_ERROR, str(error)) from error
        self.episode_id, self._episode = episode_id or uuid4().hex, None
        self._chat = None
        if arguments.tools:
            task, rules = selected.task, selected.task.rules
            chat = make_chat_rules(rules, ChatSettings().context_tokens)
            rules = replace(rules, quoted=chat.quoted, window=chat.window, before=chat.before)
            selected = replace(selected, task=replace(task, rules=rules))
            self._chat = ChatBrowsing()
        episode = await self._create_episode(selected)
        self._episode = episode
        await self._answer_requests(episode, episode.browser.begin_browsing())
        return await self._describe_step(episode, None)

    async def step(self, action: EnvAction) -> EnvStepResult:
        """Take a command or the answer, with tools a reply, and return the next prompt or the end.

        Raises EnvError where no episode is running, where tools are called in one that has none,
        and where the store of pages fails.
        """
        if action.type == LIST_TOOLS:
            about = EnvStepMetadata(self.episode_id or "", "", 0, "", 0)
            return EnvStepResult(EnvObservation("", list_browsing_tools()), None, False, about)
        episode, chat = self._episode, self._chat
        if episode is None:
            raise EnvError(EXECUTION_ERROR, "no episode is running: send a reset first")
        if episode.browser.result is not None:
            raise EnvError(EXECUTION_ERROR, "the episode has ended: send a reset to begin another")
        browser, text, observation = episode.browser, action.text, episode.browser.observation
        assert observation is not None
        if chat is None and action.calls:
            sentence = 'this episode has no tools: send a reset with "tools": true'
            raise EnvError(VALIDATION_ERROR, sentence)
        if chat is None:
            await self._answer_requests(episode, browser.accept_text(text))
        elif observation.answering:
            written = rewrite_citations(text, observation.quotes)
            await self._answer_requests(episode, browser.accept_text(written))
        else:
            chat.read_reply(replace_surrogates(text), observation)
            while command := chat.take_command(browser.observation):
                await self._answer_requests(episode, browser.accept_text(command))
        return await self._describe_step(episode, 0.0)

    def describe_state(self) -> EnvState:
        """Return where the session is."""
        if self._episode is None:
            return EnvState(self.episode_id, 0)
        selected, browser = self._episode.selected, self._episode.browser
        place = (selected.split, selected.index, selected.task.question.id)
        steps, done = len(browser.steps), browser.result is not None
        return EnvState(self.episode_id, steps, *place, done)

    async def _create_episode(self, selected: SelectedTask) -> SourceEpisode:
        slow = not self._source.answers_at_once
        try:
            return await self._run_work(slow, self._source.create_episode, selected)
        except Failed as failed:
            raise _convert_store_failure(failed.failure) from failed

    async def _answer_requests(
        self, episode: SourceEpisode, request: BrowserRequest | None
    ) -> None:
        """Answer an episode's requests until it waits for a command or has ended."""
        try:
            while request is not None:
                reply = await self._ask_library(episode, request)
                if episode.session and isinstance(reply, Failure) and reply.outcome == TIMED_OUT:
                    # A later answer would be recorded, and a replay would show it.
                    episode.browser.break_off(reply)
                    return
                request = episode.browser.accept_reply(reply)
        except Failed as failed:
            self._episode = None
            raise _convert_store_failure(failed.failure) from failed

    async def _ask_library(self, episode: SourceEpisode, request: BrowserRequest) -> BrowserReply:
        if self._source.answers_at_once:
            return answer_request(episode.library, request)
        what = request.query if isinstance(request, BrowserSearch) else request.url
        with move_on_after(self._limits.seconds):
            work = partial(answer_request, episode.library, request)
            return await run_sync(work, abandon_on_cancel=True, limiter=self._threads)
        detail = f"not here after {self._limits.seconds:g} seconds"
        return Failure(what, TIMED_OUT, detail)

    async def _describe_step(self, episode: SourceEpisode, reward: float | None) -> EnvStepResult:
        selected, browser, session = episode.selected, episode.browser, episode.session
        observation, ended = browser.observation, browser.result
        if ended is not None:
            slow = self._source.slow_reward
            try:
                reward = await self._run_work(slow, self._source.compute_reward, ended)
            except OwnCodeError as error:
                raise EnvError(EXECUTION_ERROR, str(error)) from error
        prompt, request = browser.prompt, {}
        if observation and self._chat:
            prompt = self._chat.render_prompt(observation)
            request = build_message_fields(prompt)
        about = EnvStepMetadata(
            episode_id=self.episode_id or "",
            split=selected.split,
            index=selected.index,
            task=selected.task.question.id,
            step=len(browser.steps),
            answering=bool(observation and observation.answering),
            actions_left=observation.left if observation else 0,
            note=observation.note if observation else "",
            commands=self._chat.commands if self._chat else [],
            request=request,
            session=session,
            stop=ended.stop if ended else "",
            answer=ended.answer if ended else None,
            quotes=browser.browsed.quotes if ended else (),
            failures=ended.failures if ended else (),
        )
        return EnvStepResult(EnvObservation(prompt), reward, ended is not None, about)

    async def _run_work(self, slow: bool, work: Callable[[Given], Done], value: Given) -> Done:
        return await run_sync(work, value, limiter=self._threads) if slow else work(value)


def _convert_store_failure(failure: Failure) -> EnvError:
    detail = failure.detail or failure.outcome
    return EnvError(EXECUTION_ERROR, f"the server cannot go on: {failure.outcome}: {detail}")


ENVIRONMENT_NAME = "rookery"
"""name of the environment, in the paths of the task operations"""
POLICY_VIOLATION = 1008
"""WebSocket close code of a session that the server ends"""
_LOG = logging.getLogger("rookery.env")


class EnvSessions:
    """The sessions of one server process: WebSockets are counted, HTTP episodes are kept by id."""

    def __init__(
        self,
        source: EpisodeSource,
        store: Store,
        limits: EnvLimits = EnvLimits(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.source = source
        self.store = store
        self.limits = limits
        self.rates = TokenBuckets()
        self.episodes = LiveSessions[EnvSession](limits.sessions, limits.idle, clock)
        """the sessions of HTTP clients, by key owner and episode id"""
        self._threads = CapacityLimiter(limits.requests)
        self._sockets = 0

    def open_session(self) -> EnvSession:
        """Return a new session, which is not counted yet. Raises EnvError (CAPACITY_REACHED)."""
        most = self.limits.sessions
        if self._sockets + self.episodes.count_sessions() >= most:
            raise EnvError(
                CAPACITY_REACHED, f"all {most} sessions are taken: close one, or try again later"
            )
        return EnvSession(self.source, self.limits, self._threads)

    @contextmanager
    def hold_socket_session(self) -> Iterator[EnvSession]:
        """Yield a new session and count it as open until the end. Raises EnvError
        (CAPACITY_REACHED)."""
        session = self.open_session()
        self._sockets += 1
        try:
            yield session
        finally:
            self._sockets -= 1

    def find_http_session(self, owner: str, episode_id: str) -> EnvSession:
        """Return an owner's session by the id of its episode. Raises EnvError (SESSION_ERROR)."""
        session = self.episodes.find_session(owner, episode_id)
        if session is None:
            raise EnvError(
                SESSION_ERROR,
                f"no episode {episode_id[:80]!r} is open here, or it has ended: POST /reset, and "
                "send the episode_id of its metadata (with several workers, use the WebSocket)",
            )
        return session


# WebSocket


async def serve_socket(socket: WebSocket) -> None:
    """Serve one session over a WebSocket, until the client closes it or is idle too long."""
    sessions: EnvSessions = socket.app.state.desk
    await socket.accept()
    try:
        await authenticate_request(socket, sessions.rates)
        with sessions.hold_socket_session() as session, suppress(WebSocketDisconnect):
            await _answer_messages(socket, session, sessions.limits)
    except ApiError as error:
        problem = error if isinstance(error, EnvError) else EnvError(SESSION_ERROR, str(error))
        await _send_and_close(socket, problem)


async def _answer_messages(socket: WebSocket, session: EnvSession, limits: EnvLimits) -> None:
    try:
        async with asyncio.timeout(None) as limit:
            idle = _IdleTimer(limits.idle, lambda: limit.reschedule(0))
            try:
                while (reply := await _answer_next(socket, session, limits, idle)) is not None:
                    await socket.send({"type": "websocket.send", "text": reply.decode()})
            finally:
                idle.cancel_timer()
    except TimeoutError as error:
        sentence = f"the session was idle for {limits.idle:g} seconds and is closed"
        raise EnvError(SESSION_ERROR, sentence) from error
    await socket.close()


class _IdleTimer:
    """Calls a function where a client sends nothing for some seconds.

    A time-out of its own for each message would cost more than many commands do.
    """

    def __init__(self, seconds: float, expire: Callable[[], None]) -> None:
        self.last = math.inf
        """when the client was last answered; infinite while it waits for an answer"""
        self._seconds = seconds
        self._expire = expire
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, self._check_idle)

    def _check_idle(self) -> None:
        left = self.last + self._seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(min(left, self._seconds), self._check_idle)
        else:
            self._expire()

    def await_message(self) -> None:
        """Begin to count the seconds."""
        self.last = self._loop.time()

    def cancel_timer(self) -> None:
        """Call nothing any more."""
        self._timer.cancel()


async def _answer_next(
    socket: WebSocket, session: EnvSession, limits: EnvLimits, idle: _IdleTimer
) -> bytes | None:
    """Return the reply to the next message; None where the client closes the session."""
    idle.await_message()
    text = await _receive_text(socket)
    idle.last = math.inf
    try:
        return await _answer_message(text, session, limits)
    except EnvError as error:
        return error.to_json()
    except Exception as error:
        _LOG.error("/ws", exc_info=error)
        return EnvError(EXECUTION_ERROR, INTERNAL_ERROR_MESSAGE).to_json()


async def _answer_message(text: str, session: EnvSession, limits: EnvLimits) -> bytes | None:
    """Return the reply to a message; None where the client closes the session. Raises EnvError."""
    if len(text) > limits.message:
        most = f"a message has at most {limits.message:,} characters"
        raise EnvError(VALIDATION_ERROR, f"{most}, and this one has {len(text):,}")
    message = parse_env_message(text)
    if isinstance(message, EnvStepMessage):
        return msgspec.json.encode(EnvObservationReply(await session.step(message.data)))
    if isinstance(message, EnvResetMessage):
        return msgspec.json.encode(EnvObservationReply(await session.reset(message.data)))
    if isinstance(message, EnvCloseMessage):
        return None
    return msgspec.json.encode(EnvStateReply(session.describe_state()))


async def _receive_text(socket: WebSocket) -> str:
    """Return the next text message; the bytes of a binary one, decoded."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    text: str | None = message.get("text")
    return str(message["bytes"], errors="replace") if text is None else text


async def _send_and_close(socket: WebSocket, error: EnvError) -> None:
    with suppress(WebSocketDisconnect):  # the client has gone already
        await socket.send_text(error.to_json().decode())
        await socket.close(POLICY_VIOLATION)


# HTTP


class EnvHealth(msgspec.Struct, frozen=True):
    """Body of GET /health."""

    status: str = "healthy"


class EnvDescription(msgspec.Struct, frozen=True):
    """Body of GET /metadata."""

    name: str
    """name of the environment"""
    description: str
    """the environment in a sentence"""
    version: str
    """version of Rookery"""
    contents: str
    """digest of the web that is browsed; empty where it is not fixed"""
    reward: str
    """name of the reward"""
    actions: int
    """commands of an episode, at most"""


class EnvSchemas(msgspec.Struct, frozen=True):
    """Body of GET /schema."""

    action: dict[str, Any]
    """JSON schema of an action"""
    observation: dict[str, Any]
    """JSON schema of an observation"""
    state: dict[str, Any]
    """JSON schema of the state"""


class EnvStepRequest(msgspec.Struct, frozen=True):
    """Body of POST /step."""

    action: EnvAction
    episode_id: str = ""
    """name of the episode, from the metadata of POST /reset"""
    timeout_s: float | None = None
    """has no effect"""
    request_id: str | None = None
    """has no effect"""


class EnvSplit(msgspec.Struct, frozen=True):
    """A split of the tasks."""

    name: str
    """name of the split"""
    type: str
    """train, validation or test"""


class EnvTask(msgspec.Struct, frozen=True):
    """One task, without its accepted answers."""

    id: str
    """id of the question"""
    index: int
    """position of the task in the split, from 0"""
    question: str
    """text of the question"""


class EnvSplitRequest(msgspec.Struct, frozen=True):
    """Body of POST /rookery/tasks and /rookery/num_tasks."""

    split: str
    """name of the split"""


class EnvTaskRequest(msgspec.Struct, frozen=True):
    """Body of POST /rookery/task."""

    split: str
    """name of the split"""
    index: int
    """position of the task in the split, from 0"""


class EnvTaskRangeRequest(msgspec.Struct, frozen=True):
    """Body of POST /rookery/task_range."""

    split: str
    """name of the split"""
    start: int | None = None
    """position of the first task, as in a slice of Python; null: 0"""
    stop: int | None = None
    """position after the last task, as in a slice of Python; null: the end"""


class EnvTaskList(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tasks of a split."""

    tasks: list[EnvTask]
    """the tasks, in the order of the split"""
    env_name: str = ""
    """name of the environment"""


class EnvTaskCount(msgspec.Struct, frozen=True):
    """Number of tasks of a split."""

    num_tasks: int
    """number of tasks of the split"""


class EnvTaskBody(msgspec.Struct, frozen=True):
    """One task."""

    task: EnvTask


class EnvToolRequest(msgspec.Struct, frozen=True):
    """Body of POST /mcp."""

    method: str = ""
    """tools/list; tools are called by steps"""
    id: str | int | None = None
    """comes back in the reply"""


class EnvToolReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Reply to POST /mcp."""

    jsonrpc: str
    """version of JSON-RPC"""
    id: str | int | None
    """of the request"""
    result: dict[str, Any] = {}
    """`tools`, each with name, description and inputSchema"""
    error: dict[str, Any] = {}
    """code and message in JSON-RPC, for every other method"""


async def _reset_over_http(call: ApiRequest) -> Response:
    """Begin an episode."""
    sessions = _get_sessions(call)
    session = sessions.open_session()
    result = await session.reset(call.body)
    sessions.episodes.add_session(call.key.name, session.episode_id or "", session)
    return build_json_response(result)


async def _step_over_http(call: ApiRequest) -> Response:
    """Take a command or the answer."""
    sessions, owner, body = _get_sessions(call), call.key.name, call.body
    session = sessions.find_http_session(owner, body.episode_id)
    async with session.lock:
        result = await session.step(body.action)
    if result.done:
        sessions.episodes.close_session(owner, body.episode_id)
    return build_json_response(result)


async def _get_state(call: ApiRequest) -> Response:
    """Get the state of an episode.

    The query names it; without a name, the state is that of no episode.
    """
    episode_id = call.request.query_params.get("episode_id", "")
    if not episode_id:
        return build_json_response(EnvState(None, 0))
    session = _get_sessions(call).find_http_session(call.key.name, episode_id)
    return build_json_response(session.describe_state())


async def _get_schemas(call: ApiRequest) -> Response:
    """Get the schemas."""
    return build_json_response(build_env_schemas())


async def _get_description(call: ApiRequest) -> Response:
    """Describe the environment."""
    return build_json_response(call.request.app.state.about)


async def _list_environments(call: ApiRequest) -> Response:
    """List the environment."""
    return build_json_response([ENVIRONMENT_NAME])


async def _list_splits(call: ApiRequest) -> Response:
    """List the splits."""
    _require_name(call)
    kinds = ("train", "validation", "test")
    names = _get_sessions(call).source.splits
    splits = [EnvSplit(name, name if name in kinds else "validation") for name in names]
    return build_json_response(splits)


async def _list_tasks(call: ApiRequest) -> Response:
    """List the tasks of a split."""
    return build_json_response(EnvTaskList(_read_split(call), ENVIRONMENT_NAME))


async def _count_tasks(call: ApiRequest) -> Response:
    """Count the tasks of a split."""
    return build_json_response(EnvTaskCount(len(_read_split(call))))


async def _get_task(call: ApiRequest) -> Response:
    """Get a task."""
    tasks, index = _read_split(call), call.body.index
    if not 0 <= index < len(tasks):
        message = f"the split has no task {index}: give one from 0 to {len(tasks) - 1}"
        raise ApiError(400, message, "no_such_task", "index")
    return build_json_response(EnvTaskBody(tasks[index]))


async def _get_task_range(call: ApiRequest) -> Response:
    """Get tasks of a split."""
    return build_json_response(EnvTaskList(_read_split(call)[call.body.start : call.body.stop]))


async def _list_tools(call: ApiRequest) -> Response:
    """List the tools of an episode with tools."""
    number = call.body.id
    if call.body.method == "tools/list":
        tools = [
            {"inputSchema" if key == "parameters" else key: value for key, value in each.items()}
            for each in list_browsing_tools()
        ]
        return build_json_response(EnvToolReply("2.0", number, {"tools": tools}))
    message = (
        "only tools/list is answered here: tools are called by steps of an episode, over the "
        'WebSocket /ws or POST /step, after a reset with "tools": true'
    )
    error = {"code": -32601, "message": message}
    return build_json_response(EnvToolReply("2.0", number, error=error))


async def _report_health(request: Request) -> Response:
    """Say that the server runs; for supervisors, which have no key."""
    return build_json_response(EnvHealth())


def _get_sessions(call: ApiRequest) -> EnvSessions:
    sessions: EnvSessions = call.request.app.state.desk
    return sessions


def _require_name(call: ApiRequest) -> None:
    name = call.request.path_params["env_name"]
    if name.lower() != ENVIRONMENT_NAME:
        message = f"there is no environment {name[:80]!r} here: it is called {ENVIRONMENT_NAME}"
        raise ApiError(404, message, "no_such_environment")


def _read_split(call: ApiRequest) -> list[EnvTask]:
    """Return the tasks of the split that the body names. Raises ApiError (404)."""
    _require_name(call)
    splits, wanted = _get_sessions(call).source.splits, call.body.split
    if wanted not in splits:
        message = f"there is no split {wanted[:80]!r}: use one of {', '.join(splits)}"
        raise ApiError(404, message, "no_such_split", "split")
    return [
        EnvTask(question.id, index, question.text) for index, question in enumerate(splits[wanted])
    ]


OPERATIONS = (
    ApiOperation("POST", "/reset", "reset", _reset_over_http, EnvStepResult, EnvResetArguments),
    ApiOperation("POST", "/step", "step", _step_over_http, EnvStepResult, EnvStepRequest),
    ApiOperation("GET", "/state", "state", _get_state, EnvState),
    ApiOperation("GET", "/schema", "schema", _get_schemas, EnvSchemas),
    ApiOperation("GET", "/metadata", "metadata", _get_description, EnvDescription),
    ApiOperation("POST", "/mcp", "mcp", _list_tools, EnvToolReply, EnvToolRequest),
    ApiOperation("GET", "/list_environments", "environments", _list_environments, list[str]),
    ApiOperation("GET", "/{env_name}/splits", "splits", _list_splits, list[EnvSplit]),
    ApiOperation("POST", "/{env_name}/tasks", "tasks", _list_tasks, EnvTaskList, EnvSplitRequest),
    ApiOperation(
        *("POST", "/{env_name}/num_tasks", "num_tasks"),
        *(_count_tasks, EnvTaskCount, EnvSplitRequest),
    ),
    ApiOperation("POST", "/{env_name}/task", "task", _get_task, EnvTaskBody, EnvTaskRequest),
    ApiOperation(
        *("POST", "/{env_name}/task_range", "task_range"),
        *(_get_task_range, EnvTaskList, EnvTaskRangeRequest),
    ),
)
"""of the protocol over HTTP, each with the types of its bodies"""


async def _get_document(call: ApiRequest) -> Response:
    """Get this document."""
    return build_json_response(build_openapi_document(OPERATIONS))


def build_env_app(
    source: EpisodeSource,
    store: Store,
    about: EnvDescription,
    limits: EnvLimits = EnvLimits(),
    close: Callable[[], None] = lambda: None,
) -> Starlette:
    """Return the application that serves the episodes of a source; `close` is called at its end.

    Clients on this machine need no key of the store before there is one.
    """
    sessions = EnvSessions(source, store, limits)
    threads, size = CapacityLimiter(1), ApiLimits(body=limits.message)
    door = EndpointContext(sessions.rates, size, threads, threads)
    document = ApiOperation("GET", "/openapi.json", "about", _get_document, None)
    routes: list[BaseRoute] = [
        Route(each.path, ApiEndpoint([each], door)) for each in (*OPERATIONS, document)
    ]
    health = Route("/health", _report_health)

    @asynccontextmanager
    async def run_lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        close()

    app = Starlette(
        routes=[health, WebSocketRoute("/ws", serve_socket), *routes], lifespan=run_lifespan
    )
    app.router.redirect_slashes = False  # it would redirect to the host that the client named
    app.state.desk = sessions
    app.state.about = about
    return app


ACCEPTED_REWARD = "accepted"
EVIDENCE_REWARD = "evidence"
ENVIRONMENT_DESCRIPTION = (
    "Answer a question from what you quote in a text browser (WebGPT). An action is one command, "
    'or after a reset with "tools": true a reply that calls tools.'
)
MAX_SOCKET_BYTES = 16_000_000
"""bytes of a WebSocket message above which the connection is cut without a sentence"""
SHUTDOWN_SECONDS = 5
"""seconds that a request under way may take once the server is stopped"""


class EnvSettings(msgspec.Struct, frozen=True):
    """Everything that decides what an environment server shows and rewards."""

    questions: tuple[str, ...] = ()
    """files of questions, each a split with the name of the file; none: the bundled ones"""
    settings: Settings = Settings()
    """the places to browse, and the network"""
    frozen: str = ""
    """file of a recording that is browsed in place of the places"""
    record: str = ""
    """file that what the library answered is recorded in"""
    reward: str = ACCEPTED_REWARD
    """accepted: 1 for an answer that, with a quote it cites, contains an accepted answer; evidence:
    the evidence model's judgement of the answer by its quotes; else as `load_reward` takes it"""
    rules: BrowserRules = BrowserRules()
    limits: EnvLimits = EnvLimits()


class OpenedEnvironment(NamedTuple):
    """The episodes of an environment server, and what there is to say about them."""

    source: EpisodeSource
    about: EnvDescription
    left_out: int
    """questions without an accepted answer, which the reward would never be given for"""
    close: Callable[[], None]


def open_environment(how: EnvSettings) -> OpenedEnvironment:
    """Open the questions, the library and the reward of these settings.

    The caller calls `close` of what is returned, or passes it to `run_env_server`. Raises
    ValueError for questions and settings that cannot be used, OSError for a file that cannot be
    read, and Failed where the library, the recording or the evidence model cannot be opened.
    """
    splits, left_out = _read_splits(how)
    with ExitStack() as stack:
        library, contents = _open_library(how, stack)
        recording = stack.enter_context(CallRecording(Path(how.record))) if how.record else None
        first = next((each for some in splits.values() for each in some), None)
        reward = _make_reward(how, stack, first)
        slow = how.reward != ACCEPTED_REWARD
        source = EpisodeSource(splits, library, reward, how.rules, "env", recording, slow)
        about = EnvDescription(
            *(ENVIRONMENT_NAME, ENVIRONMENT_DESCRIPTION, __version__, contents),
            *(how.reward, how.rules.actions),
        )
        return OpenedEnvironment(source, about, left_out, stack.pop_all().close)


def _read_splits(how: EnvSettings) -> tuple[dict[str, list[Question]], int]:
    """Return the questions of each split, and the number of those left out."""
    splits: dict[str, list[Question]] = {}
    left_out = 0
    for place in how.questions or (BUNDLED_PLACE,):
        path = bundled_questions() if place == BUNDLED_PLACE else Path(place)
        name = path.name.partition(".")[0]
        if name in splits:
            raise ValueError(f"two files are named {name}, and each names a split: rename one")
        questions = list(read_questions(path))
        rewardable = [each for each in questions if each.gold or how.reward != ACCEPTED_REWARD]
        if questions and not rewardable:
            raise ValueError(
                f"{place}: no question has an accepted answer (gold): "
                f"reward by the evidence model, with --reward {EVIDENCE_REWARD}"
            )
        splits[name] = rewardable
        left_out += len(questions) - len(rewardable)
    return splits, left_out


def _open_library(
    how: EnvSettings, stack: ExitStack
) -> tuple[Library | Callable[[], Library], str]:
    """Return the library, or what makes one for each episode, and the digest of its contents."""
    if how.frozen:
        if how.settings.places:
            raise ValueError("the web is --frozen or --in: leave one of them out")
        web = FrozenWeb(Path(how.frozen))
        stack.callback(web.close)
        return web, web.contents_digest()
    sources = stack.enter_context(EvidenceSources(_choose_places(how)))
    library = sources.open_library()
    if isinstance(library, WebLibrary):
        return sources.open_library_for_question, ""
    return library, get_contents_digest(library)


def _choose_places(how: EnvSettings) -> Settings:
    """Return the settings with the bundled pages as the place where the questions are bundled."""
    if how.settings.places or (how.questions and set(how.questions) != {BUNDLED_PLACE}):
        return how.settings
    return msgspec.structs.replace(how.settings, places=(BUNDLED_PLACE,))


def _make_reward(how: EnvSettings, stack: ExitStack, question: Question | None) -> Reward:
    if how.reward == ACCEPTED_REWARD:
        return reward_accepted_answer
    if how.reward != EVIDENCE_REWARD:
        return load_reward(how.reward, question, f"{ACCEPTED_REWARD}, {EVIDENCE_REWARD}, ")
    judge = stack.enter_context(EvidenceSources(how.settings)).load_evidence_judge()
    if judge is None:
        raise ValueError(
            f"--reward {EVIDENCE_REWARD} needs an evidence model, which --ranker "
            f"{how.settings.ranker} is not: name a folder with one"
        )
    return make_evidence_reward(judge)


def run_env_server(
    place: str, how: EnvSettings, opened: OpenedEnvironment, listener: socket.socket, workers: int
) -> None:
    """Serve an environment until somebody stops it, with the keys of the store at `place`.

    Several worker processes share the port, and each opens the environment for itself; `opened` is
    closed at once then, and otherwise at the end.
    """
    if workers == 1:
        store = Store(place)
        app = _build_app(opened, store, how.limits)
        uvicorn.Server(_make_config(lambda: app, 1)).run([listener])
        return
    opened.close()
    Multiprocess(_make_config(partial(_build_worker_app, place, how), workers), [listener]).run()


def _build_worker_app(place: str, how: EnvSettings) -> Starlette:
    end_with_parent()
    return _build_app(open_environment(how), Store(place), how.limits)


def _build_app(opened: OpenedEnvironment, store: Store, limits: EnvLimits) -> Starlette:
    def close() -> None:
        opened.close()
        store.close()

    return build_env_app(opened.source, store, opened.about, limits, close)


def _make_config(make_app: Callable[[], Starlette], workers: int) -> uvicorn.Config:
    return uvicorn.Config(
        make_app,
        factory=True,
        workers=workers,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_worker_healthcheck=60,  # one that still loads modules does not answer
        ws="websockets-sansio",
        ws_max_size=MAX_SOCKET_BYTES,
        ws_per_message_deflate=False,  # compressing a prompt takes longer than making it
    )

"""Rollouts: hundreds of concurrent sessions of the text browser, driven by one batched policy.

Searches and page fetches of the sessions run in threads, each with a time-out.
"""

import hashlib
import reprlib
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

import msgspec

from rookery.browser.browser import (
    FINISHED_STOPS,
    BrowserEpisode,
    BrowserReply,
    BrowserRequest,
    BrowserSearch,
    answer_request,
    browse_library,
    build_episode,
    ensure_encodable,
    replace_surrogates,
)
from rookery.browser.browser_commands import BrowserTask, Observation
from rookery.browser.page_view import PageViewCache
from rookery.errors import Failed, Outcome
from rookery.library.call_recording import (
    CallRecording,
    RecordingLibrary,
    ReplayLibrary,
    WrappedLibrary,
)
from rookery.python_objects import OwnPolicy, locate_own_errors
from rookery.records import Completion, Episode, Failure, Library, Policy, Step

T = TypeVar("T")
MAX_ABANDONED_THREADS = 256
"""maximum number of threads with timed-out requests that have not ended; then no more are
started"""
LoopEvent = Callable[[], None]
"""a function that another thread wants to be called in the sessions' thread"""
LibraryRecorder = Callable[[Library], Library]
"""wraps a library so that a recording stores its answers"""


class LibraryRequests:
    """Pending library requests of sessions, at most one per session, with a time-out.

    `answer(session, reply)` is called in the sessions' thread: by an event, or at once for a
    request that is refused.
    """

    def __init__(
        self,
        seconds: float,
        events: SimpleQueue[LoopEvent],
        answer: Callable[[int, BrowserReply], None],
    ) -> None:
        self._seconds = seconds
        self._events = events
        self._answer = answer
        self._asked: dict[int, _PendingRequest] = {}  # oldest request first
        self._waiting: SimpleQueue[_PendingRequest | None] = SimpleQueue()
        self._threads = 0
        self._free = 0  # threads that wait for a request
        self._late = 0  # threads whose request has timed out

    def ask(
        self, session: int, request: BrowserRequest, library: Library, noted: LibraryRecorder
    ) -> None:
        """Send a session's request to its library in another thread; the reply goes to `answer`.

        `noted` wraps the library so that a recording stores its reply. Daemon threads are used,
        since a request may never end. Where too many requests have timed out without ending, the
        request is not sent: its reply is at once a failure (timed_out).
        """
        until = time.monotonic() + self._seconds
        pending = _PendingRequest(session, request, library, noted, until, threading.Lock())
        if self._late >= MAX_ABANDONED_THREADS:
            why = f"{self._late} requests before this one have come to no end"
            self._answer_timed_out(pending, why)
            return
        self._asked[session] = pending
        self._waiting.put(pending)
        if self._free:
            self._free -= 1
        else:
            self._threads += 1
            name, serve = "rollouts: request", self._serve_requests
            threading.Thread(target=serve, name=name, daemon=True).start()

    def close(self) -> None:
        """Let every thread end after the requests that were sent before."""
        for _ in range(self._threads):
            self._waiting.put(None)

    def seconds_until_timeout(self) -> float | None:
        """Return the seconds until the oldest request times out; None without pending requests."""
        first = next(iter(self._asked.values()), None)
        return None if first is None else max(first.deadline - time.monotonic(), 0.0)

    def answer_expired(self) -> None:
        """Give sessions whose request is past its time-out a failure (timed_out) as the reply.

        Results that come later are dropped.
        """
        now = time.monotonic()
        for pending in [pending for pending in self._asked.values() if pending.deadline <= now]:
            del self._asked[pending.session]
            if pending.claim_reply():
                self._late += 1
                why = f"not here after {self._seconds:g} seconds; allow more time"
                self._answer_timed_out(pending, why)

    def _serve_requests(self) -> None:
        while (asked := self._waiting.get()) is not None:
            try:
                reply = answer_request(asked.wrap_library(), asked.request)
                self._events.put(partial(self._deliver_reply, asked.session, reply))
            except _ReplyTooLate:
                self._events.put(self._count_late_reply)
            except BaseException as error:  # SystemExit, say
                self._events.put(partial(raise_error, error))

    def _deliver_reply(self, session: int, reply: BrowserReply) -> None:
        self._free += 1
        self._asked.pop(session, None)
        self._answer(session, reply)

    def _count_late_reply(self) -> None:
        self._free += 1
        self._late -= 1

    def _answer_timed_out(self, pending: "_PendingRequest", why: str) -> None:
        request = pending.request
        what = request.query if isinstance(request, BrowserSearch) else request.url
        fail = partial(raise_error, Failed(Failure(what, Outcome.TIMED_OUT, why)))
        late = WrappedLibrary(pending.library, fail, fail)
        self._answer(pending.session, answer_request(pending.recorder(late), request))


class _PendingRequest(NamedTuple):
    """A pending request of a session."""

    session: int
    request: BrowserRequest
    library: Library
    recorder: LibraryRecorder
    deadline: float
    unanswered: threading.Lock

    def claim_reply(self) -> bool:
        """Return True for the first caller only, who is the one to answer the request."""
        return self.unanswered.acquire(blocking=False)

    def wrap_library(self) -> Library:
        """Return the library, recorded; its reply counts only if the request has not timed out."""
        search = partial(self._claim_first, self.library.search)
        fetch = partial(self._claim_first, self.library.fetch)
        return self.recorder(WrappedLibrary(self.library, search, fetch))

    def _claim_first(self, ask: Callable[..., T], *arguments: Any) -> T:
        try:
            return ask(*arguments)
        finally:  # for results and errors alike
            if not self.claim_reply():
                raise _ReplyTooLate


class _ReplyTooLate(BaseException):
    """The request has timed out. A BaseException, so that no recording stores it as an answer."""


def raise_error(error: BaseException, *_: object) -> NoReturn:
    """Raise an error: of another thread as an event in the sessions' thread, or as a library."""
    raise error


class RolloutTurn(NamedTuple):
    """One step of a session, which waits for a completion."""

    session: int
    """index of the session's task, from 0"""
    number: int
    """index of the step in its session, from 0"""
    seed: int
    """sampling seed below 2 ** 63; depends on the run's seed, session and step, not on the batch"""
    observation: Observation


BatchPolicy = Callable[[Sequence[RolloutTurn]], Sequence[Completion]]
"""a batched policy: returns one completion per turn; the turns are of different sessions"""


class RolloutLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of rollouts: concurrent sessions, and the time-out of library requests."""

    at_once: int = 256
    """maximum number of concurrent sessions (WebGPT, table 7); at most twice as many are begun and
    not yet yielded"""
    seconds: float = 60.0
    """time-out of one search or fetch; a later answer counts as a Failure (timed_out)"""

    def __post_init__(self) -> None:
        if self.at_once < 1 or self.seconds <= 0:
            raise ValueError("RolloutLimits.at_once and .seconds must be more than 0")


def run_rollouts(
    tasks: Iterable[BrowserTask],
    library: Library | Callable[[int], Library],
    act: BatchPolicy | Policy,
    by: str = "",
    seed: int = 0,
    limits: RolloutLimits = RolloutLimits(),
    recording: CallRecording | None = None,
) -> Generator[Episode, None, None]:
    """Run a session per task and yield the episodes in the order of the tasks.

    Whenever the policy is free, it gets all waiting turns as one batch, in a thread of its own;
    searches and fetches go on in other threads, so `library` must be thread-safe. A function as
    `library` gets a task's index and returns that session's library. A Policy as `act` is given one
    prompt after the other, and its name is `by`. Where `act` raises Failed it is called for one
    turn at a time: only the episode of a turn that fails again is broken off (policy_failed, with
    the reason last among its failures). What else it raises, and what is no completion for each
    turn, ends the run: OwnCodeError, with file and line.

    A `recording` stores all library answers of a session under the name <by>/<seed>/<index>,
    replacing a former session of that name. What `tasks`, the function `library` and the recording
    raise is raised here. Work goes on only while the next episode is awaited; closing the generator
    ends it.
    """
    if not callable(act) or hasattr(act, "complete"):
        policy = OwnPolicy(cast(Policy, act))
        by = by or policy.name
        act = _complete_one_by_one(lambda turn: policy.complete(turn.observation.prompt)[0])
    run = _RolloutLoop(library, act, by, seed, limits, recording)
    try:
        yield from run.generate_episodes(tasks)
    finally:
        run.close()


def make_scripted_policy(actors: Sequence[Callable[[Observation], str]]) -> BatchPolicy:
    """Make a batched policy from one actor per session, indexed by the session's task.

    An actor maps an observation to the text of its command or answer.
    """
    return _complete_one_by_one(lambda turn: Completion(actors[turn.session](turn.observation)))


def _complete_one_by_one(say: Callable[[RolloutTurn], Completion]) -> BatchPolicy:
    """Complete turn by turn, keeping completions for a second call where a later turn raises."""
    completions: dict[RolloutTurn, Completion] = {}

    def complete_turns(turns: Sequence[RolloutTurn]) -> list[Completion]:
        for turn in turns:
            if turn not in completions:
                completions[turn] = say(turn)
        return [completions.pop(turn) for turn in turns]

    return complete_turns


def derive_turn_seed(seed: int, session: int, number: int) -> int:
    """Derive the seed of one turn from the run's seed and the indices; a number below 2 ** 63."""
    digest = hashlib.sha256(f"{seed} {session} {number}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def replay_episode(
    episode: Episode, recording: CallRecording, views: PageViewCache | None = None
) -> Episode:
    """Restore the prompts of an episode by replaying its commands on its recorded session.

    Share `views` between calls to render pages once. Raises Failed: not_recorded where the
    recording has no such session, not_replayable where the replay differs from the episode.
    """
    task = _load_task(episode.session, recording)
    flow = browse_library(task, ReplayLibrary(recording, episode.session), views)
    steps: list[Step] = []
    browsed = None
    try:
        observation = next(flow)
        for step in episode.steps:
            steps.append(Step(observation.prompt, step.said))
            observation = flow.send(step.said.text)
    except StopIteration as ended:
        browsed = ended.value
    again = ensure_encodable(msgspec.structs.replace(episode, steps=tuple(steps)))
    same = episode.stop not in FINISHED_STOPS
    if browsed is not None:
        same = build_episode(task, episode.by, steps, browsed, episode.session) == again
    if not same or len(steps) != len(episode.steps):
        raise _make_replay_error(episode.session, "it was not recorded with this episode")
    return again


def _load_task(session: str, recording: CallRecording) -> BrowserTask:
    try:
        return BrowserTask.from_json(recording.load_metadata(session))
    except ValueError as error:
        why = f"it was not begun with a BrowserTask ({error})"
        raise _make_replay_error(session, why) from error


def _make_replay_error(session: str, why: str) -> Failed:
    return Failed(Failure(session, Outcome.NOT_REPLAYABLE, f"{why}: name the recording of its run"))


class _RolloutSession(NamedTuple):
    """The running session of one task."""

    number: int
    episode: BrowserEpisode
    library: Library
    recorder: LibraryRecorder


class _RolloutLoop:
    """The event loop of rollouts: each session waits for the policy, a request, or its turn to end.

    Everything runs in the thread that takes the episodes, except `_run_policy_thread` and library
    requests: these put functions into `_events`, which the loop calls.
    """

    def __init__(
        self,
        library: Library | Callable[[int], Library],
        act: BatchPolicy,
        by: str,
        seed: int,
        limits: RolloutLimits,
        recording: CallRecording | None,
    ) -> None:
        self._library, self._act, self._by = library, act, by
        self._seed, self._limits, self._recording = seed, limits, recording
        self._views = PageViewCache()
        self._sessions: dict[int, _RolloutSession] = {}
        self._ready: dict[int, Observation] = {}
        self._done: dict[int, Episode] = {}
        self._events: SimpleQueue[LoopEvent] = SimpleQueue()
        self._requests = LibraryRequests(limits.seconds, self._events, self._deliver_reply)
        self._batches: SimpleQueue[list[RolloutTurn] | None] = SimpleQueue()
        self._acting = False
        self._closed = threading.Event()
        threading.Thread(target=self._run_policy_thread, name="rollouts: act", daemon=True).start()

    def close(self) -> None:
        """Let no thread begin new work."""
        self._closed.set()
        self._batches.put(None)
        self._requests.close()

    def generate_episodes(self, tasks: Iterable[BrowserTask]) -> Iterator[Episode]:
        """Yield the episodes in the order of the tasks."""
        waiting = enumerate(tasks)
        begun = yielded = 0
        while True:
            while (
                len(self._sessions) < self._limits.at_once
                and begun - yielded < 2 * self._limits.at_once
                and (following := next(waiting, None))
            ):
                self._begin_session(*following)
                begun += 1
            if yielded in self._done:
                yield self._done.pop(yielded)
                yielded += 1
            elif self._sessions:
                self._send_batch()
                self._take_events()
                self._requests.answer_expired()
            else:
                return

    def _begin_session(self, number: int, task: BrowserTask) -> None:
        library = self._library(number) if callable(self._library) else self._library
        name, noted = "", lambda library: library
        if self._recording is not None:
            name = f"{self._by}/{self._seed}/{number}"
            self._recording.begin_session(name, task.to_json().encode())
            noted = partial(RecordingLibrary, self._recording, session=name)
        episode = BrowserEpisode(task, self._by, self._views, name)
        self._sessions[number] = session = _RolloutSession(number, episode, library, noted)
        self._advance_session(session, episode.begin_browsing)

    def _deliver_reply(self, number: int, reply: BrowserReply) -> None:
        session = self._sessions[number]
        self._advance_session(session, partial(session.episode.accept_reply, reply))

    def _advance_session(
        self, session: _RolloutSession, advance: Callable[[], BrowserRequest | None]
    ) -> None:
        """Advance a session until it waits for the policy or a request, or is done."""
        request, episode = advance(), session.episode
        if request is not None:
            self._requests.ask(session.number, request, session.library, session.recorder)
        elif episode.observation is not None:
            self._ready[session.number] = episode.observation
        else:
            self._finish_session(session)

    def _finish_session(self, session: _RolloutSession) -> None:
        del self._sessions[session.number]
        assert session.episode.result is not None
        self._done[session.number] = session.episode.result

    def _take_events(self) -> None:
        """Wait for an event or a request's time-out, then call all events that are queued."""
        try:
            self._events.get(timeout=self._requests.seconds_until_timeout())()
            while True:
                self._events.get_nowait()()
        except Empty:
            pass

    def _send_batch(self) -> None:
        """Send the policy all waiting turns as one batch, if it is free."""
        if self._ready and not self._acting:
            self._acting = True
            turns = [self._make_turn(*waiting) for waiting in sorted(self._ready.items())]
            self._batches.put(turns)
            self._ready.clear()

    def _make_turn(self, session: int, observation: Observation) -> RolloutTurn:
        number = len(self._sessions[session].episode.steps)
        seed = derive_turn_seed(self._seed, session, number)
        return RolloutTurn(session, number, seed, observation)

    def _run_policy_thread(self) -> None:
        while (turns := self._batches.get()) is not None:
            try:
                self._events.put(partial(self._handle_completions, turns, self._ask_policy(turns)))
            except BaseException as error:  # SystemExit, for example: raise it in the loop's thread
                self._events.put(partial(raise_error, error))

    def _ask_policy(self, turns: Sequence[RolloutTurn]) -> list[Completion | Failure]:
        try:
            with locate_own_errors(self._by or "the policy", self._act):
                completions = self._act(turns)
                if [type(each) for each in completions] != [Completion] * len(turns):
                    text = reprlib.repr(completions)
                    raise TypeError(f"it gave {text}: return {len(turns)} Completion in a list")
        except Failed as error:
            if len(turns) == 1:
                return [Failure(self._by, Outcome.POLICY_FAILED, _describe_error(error))]
            each = (self._ask_policy([turn]) for turn in turns if not self._closed.is_set())
            return [one for alone in each for one in alone]
        return [self._make_storable(completion) for completion in completions]

    def _make_storable(self, completion: Completion) -> Completion | Failure:
        """Return the completion after a round trip through JSON; a Failure where that fails."""
        try:
            text = replace_surrogates(completion.text)
            return Completion.from_json(msgspec.structs.replace(completion, text=text).to_json())
        except Exception as error:  # it holds NaN, or numpy's numbers
            return Failure(self._by, Outcome.POLICY_FAILED, _describe_error(error))

    def _handle_completions(
        self, turns: Sequence[RolloutTurn], completions: Sequence[Completion | Failure]
    ) -> None:
        self._acting = False
        for turn, words in zip(turns, completions, strict=True):
            session = self._sessions[turn.session]
            if isinstance(words, Failure):
                session.episode.break_off(words)
                self._finish_session(session)
            else:
                self._advance_session(session, partial(session.episode.accept_completion, words))


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

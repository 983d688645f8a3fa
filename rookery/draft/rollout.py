"""Whole episodes, hundreds at once: sessions of the text browser that one batched policy drives.

It knows neither models nor networks. A policy is a function from turns to completions.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import msgspec

from rookery.browse.browser import Browsed, Flow, Reply, Views, browse, browsing
from rookery.browse.observation import Observation
from rookery.browse.recording import Recording
from rookery.browse.rules import Task
from rookery.cite.syntax import BadSyntax, parse_numbered
from rookery.draft.requests import Event, Noted, Requests, raise_
from rookery.records import Completion, Episode, Failed, Failure, Library, Policy, Step

ENDED = ("end", "max_actions", "max_quotes", "no_quotes", "nonsense", "controversial", "bad_syntax")
"""how an episode stops that came to its end. Others were broken off: policy_failed where nothing
could be said, browser_failed where what the library gave could not be shown"""


class Turn(NamedTuple):
    """A session that waits for something to be said."""

    session: int
    """the number of its task"""
    number: int
    """of this step of the session; both count from 0"""
    seed: int
    """the same in every run under one seed, whatever batch the turn falls into; below 2 ** 63"""
    observation: Observation


Act = Callable[[Sequence[Turn]], Sequence[Completion]]
"""a policy: one completion for each of these turns, which are of different sessions"""


class RolloutLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much is done and kept at a time, and how long a library may take."""

    at_once: int = 256
    """sessions (WebGPT, table 7); no more than twice as many are begun and not yet given"""
    seconds: float = 60.0
    """for one search or one page; what comes later counts as a Failure (timed_out)"""

    def __post_init__(self) -> None:
        if self.at_once < 1 or self.seconds <= 0:
            raise ValueError("RolloutLimits.at_once and .seconds must be more than 0")


def rollouts(
    tasks: Iterable[Task],
    library: Library | Callable[[int], Library],
    act: Act,
    by: str,
    seed: int = 0,
    limits: RolloutLimits = RolloutLimits(),
    recording: Recording | None = None,
) -> Generator[Episode, None, None]:
    """The episodes of these tasks, in their order, each as soon as it and those before are done.

    Whenever the policy is free, all turns that wait are one batch for it, in one thread; searches
    and fetches go on meanwhile in others, so that `library` must be safe to share between them. A
    function in its place is given a task's number and makes that session's library. Where `act`
    raises, or gives the wrong number of completions, it is asked for one turn at a time: only the
    episode of a turn that fails again is broken off (policy_failed, the reason last among its
    failures).

    A `recording` is told all that each session was given, under the name <by>/<seed>/<number> and
    in place of a former session of that name. What `tasks`, the function `library` and
    `recording.begin` raise is raised here. Work goes on only while the next episode is being
    waited for; closing the iterator ends it.
    """
    run = _Run(library, act, by, seed, limits, recording)
    try:
        yield from run.episodes(tasks)
    finally:
        run.close()


def alone(policy: Policy) -> Act:
    """A policy that is prompted with one turn after the other; it knows nothing of their seeds."""
    return _each(lambda turn: policy.complete(turn.observation.prompt)[0])


def scripted(actors: Sequence[Callable[[Observation], str]]) -> Act:
    """A policy whose words come from one actor a session, by the number of its task."""
    return _each(lambda turn: Completion(actors[turn.session](turn.observation)))


def _each(say: Callable[[Turn], Completion]) -> Act:
    """Turn by turn. What was said before another turn failed is kept for when it is asked again."""
    kept: dict[Turn, Completion] = {}

    def act(turns: Sequence[Turn]) -> list[Completion]:
        for turn in turns:
            if turn not in kept:
                kept[turn] = say(turn)
        return [kept.pop(turn) for turn in turns]

    return act


def seed_of(seed: int, session: int, number: int) -> int:
    """The seed of one turn of a run."""
    digest = hashlib.sha256(f"{seed} {session} {number}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def episode_of(
    task: Task, by: str, steps: Sequence[Step], browsed: Browsed, session: str = ""
) -> Episode:
    """What came of a session, with the answer read from its `[1][2]` citations.

    One that cites what was not quoted is none: the stop is bad_syntax, and the last failure says
    what is wrong with it.
    """
    answer, stop, failures = None, browsed.stop, browsed.failures
    if browsed.said is not None:
        try:
            answer = parse_numbered(browsed.said, browsed.quotes)
        except BadSyntax as error:
            stop = "bad_syntax"
            failures = (*failures, Failure(by, stop, str(error)))
    return _writable(Episode(task.question, by, tuple(steps), answer, stop, failures, session))


def without_prompts(episode: Episode) -> Episode:
    """The episode as it is stored, for `replayed` to complete. Raises Failed (not_recorded)."""
    if not episode.session:
        detail = "its prompts would be lost: give rollouts a recording, or store it whole"
        raise Failed(Failure(episode.question.id, "not_recorded", detail))
    steps = tuple(Step("", step.said) for step in episode.steps)
    return msgspec.structs.replace(episode, steps=steps)


def replayed(episode: Episode, recording: Recording, views: Views | None = None) -> Episode:
    """The episode with every prompt as it was, from saying the same again to its recording.

    Pass `views` to replay many that read the same pages. Raises Failed: not_recorded where the
    recording has no such session, not_replayable where it leads the session elsewhere.
    """
    task = _task_of(episode.session, recording)
    flow = browse(task, recording.replay(episode.session), views)
    steps: list[Step] = []
    browsed = None
    try:
        shown = next(flow)
        for step in episode.steps:
            steps.append(Step(shown.prompt, step.said))
            shown = flow.send(step.said.text)
    except StopIteration as ended:
        browsed = ended.value
    again = _writable(msgspec.structs.replace(episode, steps=tuple(steps)))
    same = episode.stop not in ENDED
    if browsed is not None:
        same = episode_of(task, episode.by, steps, browsed, episode.session) == again
    if not same or len(steps) != len(episode.steps):
        raise _not_replayable(episode.session, "it was not recorded with this episode")
    return again


def _task_of(session: str, recording: Recording) -> Task:
    try:
        return Task.from_json(recording.about(session))
    except msgspec.MsgspecError as error:
        raise _not_replayable(session, f"it was not begun with a Task ({error})") from error


def _not_replayable(session: str, why: str) -> Failed:
    return Failed(Failure(session, "not_replayable", f"{why}: name the recording of its run"))


_SURROGATE = re.compile("[\ud800-\udfff]")


def writable(text: str) -> str:
    """The text with lone surrogates, which no file can hold, replaced by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def _writable(episode: Episode) -> Episode:
    """The episode as JSON can hold it: a library may show, or raise, what is no Unicode."""
    try:
        episode.to_json()
    except UnicodeEncodeError:
        return msgspec.convert(_mapped(msgspec.to_builtins(episode)), Episode)
    return episode


def _mapped(value: Any) -> Any:
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, dict):
        return {key: _mapped(each) for key, each in value.items()}
    return [_mapped(each) for each in value] if isinstance(value, list | tuple) else value


class _Session(NamedTuple):
    """One task under way."""

    number: int
    task: Task
    flow: Flow
    holdings: Library
    noted: Noted
    name: str
    """in the recording"""
    steps: list[Step]


class _Run:
    """Sessions, and what each waits for: the policy, a request, or an earlier episode.

    All of it runs in the thread that takes the episodes, but for `_act_for_ever`, which runs in
    the policy's own. That thread and those of the requests say by `_events` what is to be done.
    """

    def __init__(
        self,
        library: Library | Callable[[int], Library],
        act: Act,
        by: str,
        seed: int,
        limits: RolloutLimits,
        recording: Recording | None,
    ) -> None:
        self._library = library
        self._act = act
        self._by = by
        self._seed = seed
        self._limits = limits
        self._recording = recording
        self._views = Views()
        self._sessions: dict[int, _Session] = {}
        self._ready: dict[int, Observation] = {}
        self._done: dict[int, Episode] = {}
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._requests = Requests(limits.seconds, self._events, self._go_on)
        self._batches: SimpleQueue[list[Turn] | None] = SimpleQueue()
        self._acting = False
        self._closed = threading.Event()
        threading.Thread(target=self._act_for_ever, name="rollouts: act", daemon=True).start()

    def close(self) -> None:
        """Lets no thread begin anything more."""
        self._closed.set()
        self._batches.put(None)
        self._requests.close()

    def episodes(self, tasks: Iterable[Task]) -> Iterator[Episode]:
        """Each task's, in their order."""
        waiting = enumerate(tasks)
        begun = given = 0
        while True:
            while (
                len(self._sessions) < self._limits.at_once
                and begun - given < 2 * self._limits.at_once
                and (following := next(waiting, None))
            ):
                self._begin(*following)
                begun += 1
            if given in self._done:
                yield self._done.pop(given)
                given += 1
            elif self._sessions:
                self._send_batch()
                self._take_events()
                self._requests.give_up_late()
            else:
                return

    def _begin(self, number: int, task: Task) -> None:
        library = self._library(number) if callable(self._library) else self._library
        name, noted = "", _same
        if self._recording is not None:
            name = f"{self._by}/{self._seed}/{number}"
            self._recording.begin(name, task.to_json().encode())
            noted = partial(self._recording.record, session=name)
        flow = browsing(task, self._views)
        self._sessions[number] = _Session(number, task, flow, library, noted, name, [])
        self._go_on(number, None)

    def _go_on(self, number: int, sent: str | Reply | None) -> None:
        """Lets a session do what it can until it waits again, or is done."""
        session = self._sessions[number]
        try:
            shown = next(session.flow) if sent is None else session.flow.send(sent)
        except StopIteration as ended:
            self._finish(session, ended.value)
        except Exception as error:  # what one library gives must not end the other sessions
            failure = Failure(session.task.question.id, "browser_failed", _worded(error))
            self._finish(session, Browsed((), failure.outcome, failures=(failure,)))
        else:
            if isinstance(shown, Observation):
                self._ready[number] = shown
            else:
                self._requests.ask(number, shown, session.holdings, session.noted)

    def _finish(self, session: _Session, browsed: Browsed) -> None:
        del self._sessions[session.number]
        episode = episode_of(session.task, self._by, session.steps, browsed, session.name)
        self._done[session.number] = episode

    def _take_events(self) -> None:
        """Waits for one, or for the end of a request's time, and takes all there are."""
        try:
            self._events.get(timeout=self._requests.patience())()
            while True:
                self._events.get_nowait()()
        except Empty:
            pass

    def _send_batch(self) -> None:
        """Gives the policy, if it is free, all turns that wait for it."""
        if self._ready and not self._acting:
            self._acting = True
            self._batches.put([self._turn(*waiting) for waiting in sorted(self._ready.items())])
            self._ready.clear()

    def _turn(self, session: int, shown: Observation) -> Turn:
        number = len(self._sessions[session].steps)
        return Turn(session, number, seed_of(self._seed, session, number), shown)

    def _act_for_ever(self) -> None:
        while (turns := self._batches.get()) is not None:
            try:
                self._events.put(partial(self._hear, turns, self._said(turns)))
            except BaseException as error:  # SystemExit, say: raised where it can be heard
                self._events.put(partial(raise_, error))

    def _said(self, turns: Sequence[Turn]) -> list[Completion | Failure]:
        try:
            said = self._act(turns)
            if len(said) != len(turns):
                raise ValueError(f"the policy gave {len(said)} completions for {len(turns)} turns")
        except Exception as error:
            if len(turns) == 1:
                return [Failure(self._by, "policy_failed", _worded(error))]
            each = (self._said([turn]) for turn in turns if not self._closed.is_set())
            return [one for alone in each for one in alone]
        return [self._storable(completion) for completion in said]

    def _storable(self, completion: Completion) -> Completion | Failure:
        """The completion as JSON will give it back, if it can."""
        try:
            text = writable(completion.text)
            return Completion.from_json(msgspec.structs.replace(completion, text=text).to_json())
        except Exception as error:  # no Completion, or one that holds NaN, or numpy's numbers
            return Failure(self._by, "policy_failed", _worded(error))

    def _hear(self, turns: Sequence[Turn], said: Sequence[Completion | Failure]) -> None:
        self._acting = False
        for turn, words in zip(turns, said, strict=True):
            session = self._sessions[turn.session]
            if isinstance(words, Failure):
                self._finish(session, _broken_off(session, words))
            else:
                session.steps.append(Step(turn.observation.prompt, words))
                self._go_on(session.number, words.text)


def _broken_off(session: _Session, failure: Failure) -> Browsed:
    """What came of a session for which nothing could be said; it is asked for no answer."""
    browsed = Browsed((), failure.outcome)
    try:
        session.flow.send("End: Nonsense")
    except StopIteration as ended:
        browsed = ended.value
    failures = (*browsed.failures, failure)
    return msgspec.structs.replace(browsed, stop=failure.outcome, said=None, failures=failures)


def _worded(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _same(library: Library) -> Library:
    return library

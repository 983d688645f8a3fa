"""Sessions of the environment server: episodes begun and stepped for one client at a time."""

import asyncio
from uuid import uuid4

import msgspec
from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync

from rookery.browse.browser import BrowserReply, BrowserRequest, BrowserSearch, answer_request
from rookery.draft.episode_source import EpisodeSource, SelectedTask, SourceEpisode
from rookery.records import Episode, Failed, Failure
from rookery.serve.env.messages import (
    EXECUTION_ERROR,
    VALIDATION_ERROR,
    EnvError,
    EnvObservation,
    EnvResetArguments,
    EnvState,
    EnvStepMetadata,
    EnvStepResult,
)

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

    async def reset(self, wanted: EnvResetArguments) -> EnvStepResult:
        """Begin an episode in place of the present one, and return its first prompt.

        Raises EnvError where there is no such task, and where the library cannot be opened.
        """
        if wanted.episode_id is not None and not 0 < len(wanted.episode_id) <= MAX_ID_CHARACTERS:
            sentence = f"an episode_id has 1 to {MAX_ID_CHARACTERS} characters"
            raise EnvError(VALIDATION_ERROR, sentence)
        try:
            selected = self._source.select_task(
                wanted.split, wanted.index, wanted.task, wanted.seed
            )
        except ValueError as error:
            raise EnvError(VALIDATION_ERROR, str(error)) from error
        self.episode_id, self._episode = wanted.episode_id or uuid4().hex, None
        episode = await self._create_episode(selected)
        self._episode = episode
        await self._answer_requests(episode, episode.begin_browsing())
        return await self._describe_step(episode, None)

    async def step(self, text: str) -> EnvStepResult:
        """Take a command or the answer, and return the next prompt or the end.

        Raises EnvError where no episode is running, and where the store of pages fails.
        """
        episode = self._episode
        if episode is None:
            raise EnvError(EXECUTION_ERROR, "no episode is running: send a reset first")
        if episode.browser.result is not None:
            raise EnvError(EXECUTION_ERROR, "the episode has ended: send a reset to begin another")
        await self._answer_requests(episode, episode.accept_text(text))
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
        if self._source.answers_at_once:
            return self._source.create_episode(selected)
        try:
            return await run_sync(self._source.create_episode, selected, limiter=self._threads)
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
                request = episode.accept_reply(reply)
        except Failed as failed:
            self._episode = None
            raise _convert_store_failure(failed.failure) from failed

    async def _ask_library(self, episode: SourceEpisode, request: BrowserRequest) -> BrowserReply:
        if self._source.answers_at_once:
            return answer_request(episode.library, request)
        what = request.query if isinstance(request, BrowserSearch) else request.url
        with move_on_after(self._limits.seconds):
            return await run_sync(
                answer_request,
                episode.library,
                request,
                abandon_on_cancel=True,
                limiter=self._threads,
            )
        detail = f"not here after {self._limits.seconds:g} seconds"
        return Failure(what, TIMED_OUT, detail)

    async def _describe_step(self, episode: SourceEpisode, reward: float | None) -> EnvStepResult:
        selected, browser, session = episode.selected, episode.browser, episode.session
        shown, ended = browser.observation, browser.result
        if ended is not None:
            reward = await self._compute_reward(ended)
        place = (self.episode_id or "", selected.split, selected.index, selected.task.question.id)
        steps = len(browser.steps)
        if shown is not None:
            about = EnvStepMetadata(*place, steps, shown.answering, shown.left, shown.note, session)
        else:
            assert ended is not None
            about = _describe_end(EnvStepMetadata(*place, steps, session=session), episode, ended)
        return EnvStepResult(EnvObservation(episode.prompt), reward, ended is not None, about)

    async def _compute_reward(self, ended: Episode) -> float:
        compute = self._source.compute_reward
        if self._source.slow_reward:
            return await run_sync(compute, ended, limiter=self._threads)
        return compute(ended)


def _describe_end(
    about: EnvStepMetadata, episode: SourceEpisode, ended: Episode
) -> EnvStepMetadata:
    quotes = episode.browser.browsed.quotes
    return msgspec.structs.replace(
        about, stop=ended.stop, answer=ended.answer, quotes=quotes, failures=ended.failures
    )


def _convert_store_failure(failure: Failure) -> EnvError:
    detail = failure.detail or failure.outcome
    return EnvError(EXECUTION_ERROR, f"the server cannot go on: {failure.outcome}: {detail}")

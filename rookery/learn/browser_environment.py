"""The text browser as an environment of reinforcement learning (WebGPT).

Many sessions run side by side, and each of their steps is a row. A `PolicySampler` draws the
actions, and a function gives the reward of each answer.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from statistics import fmean
from typing import Any

import msgspec

from rookery.browser.browser import (
    BrowseResult,
    BrowserReply,
    BrowserRequest,
    answer_request,
    build_episode,
    run_browser,
)
from rookery.browser.browser_commands import (
    BrowserRules,
    BrowserTask,
    Observation,
    draw_action_limit,
)
from rookery.browser.page_view import PageViewCache
from rookery.errors import Failed, Outcome
from rookery.learn.decoding import (
    SampledAction,
    SamplingSettings,
)
from rookery.learn.episodes import (
    PolicySampler,
    RolloutEnvironment,
    Trajectory,
    make_policy_sampler,
)
from rookery.learn.pretrained_models import PolicyTokenizer
from rookery.records import Answer, Library, Question

BatchRewardFunction = Callable[[Sequence[tuple[Question, Answer]]], Sequence[float]]
"""rewards of many answers at once, such as `RewardModel.score_answers`; what is not a number is no
answer"""
CONCURRENT_REQUESTS = 32
"""requests to a library"""


def compute_answer_rewards(
    scores: BatchRewardFunction, answers: Sequence[tuple[Question, Answer | None]]
) -> list[float | None]:
    """Score all answers with one call of `scores`; None without an answer or where it is NaN."""
    pairs = [(question, answer) for question, answer in answers if answer is not None]
    rewards = iter(scores(pairs) if pairs else ())
    each = (None if answer is None else next(rewards) for _, answer in answers)
    return [None if worth is None or math.isnan(worth) else worth for worth in each]


def assign_questions(
    count: int, group: int, episodes: Sequence[int], seed: int
) -> list[tuple[int, int]]:
    """Return for each episode its question's index, and which pass over the questions it is in.

    Each pass asks every one of the `count` questions in `group` episodes in a row, in an order
    drawn from the seed. Raises ValueError for a count or group below 1.
    """
    if count < 1 or group < 1:
        raise ValueError("there must be a question, and a group of one at least")
    assignments = []
    orders: dict[int, list[int]] = {}
    for episode in episodes:
        turn, place = divmod(episode // group, count)
        if turn not in orders:
            orders[turn] = Random(f"{seed} questions {turn}").sample(range(count), count)
        assignments.append((orders[turn][place], turn))
    return assignments


class BrowserEnvironmentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of episodes of the text browser that a policy learns from."""

    rules: BrowserRules = BrowserRules()
    draw_actions: bool = False
    """whether each episode has a number of actions of its own, from 20 to 100 (WebGPT, section
    3.2), in place of the rules'"""
    extra_answers: int = 0
    """more answers from the same quotes, each an episode of its own (WebGPT, section 3.2)"""
    group: int = 1
    """episodes of one question in a row"""

    def __post_init__(self) -> None:
        if self.extra_answers < 0 or self.group < 1:
            raise ValueError(
                "BrowserEnvironmentSettings: extra_answers must be 0 or more, group 1 or more"
            )


class BrowserEnvironment:
    """Environment in which questions are answered from what is quoted in the text browser (WebGPT,
    section 3.2).

    A function in place of a library makes one for each episode, such as the replay of a recording;
    a library is safe to share between threads. An episode without an answer, or whose prompt or
    answer is too long for the models, has no reward. Raises ValueError without a question.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        library: Library | Callable[[int], Library],
        scores: BatchRewardFunction,
        speech: PolicyTokenizer,
        settings: BrowserEnvironmentSettings = BrowserEnvironmentSettings(),
    ) -> None:
        if not questions:
            raise ValueError("there must be a question")
        self._questions = questions
        self._library = library
        self._scores = scores
        self._speech = speech
        self._settings = settings
        self._views = PageViewCache()

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        """Play these episodes with actions drawn by `sample`, and return them with their rewards.

        They are in the order of `episodes`, each followed by its extra answers. All sessions take
        each step together, so that the policy's batches, and with them the last bits of what it
        says, are the same in every run.
        """
        turns = assign_questions(len(self._questions), self._settings.group, episodes, seed)
        sessions = [
            self._start_episode(episode, self._questions[number], seed)
            for episode, (number, _) in zip(episodes, turns, strict=True)
        ]
        with ThreadPoolExecutor(CONCURRENT_REQUESTS) as pool:
            self._advance_episodes(pool, [(session, None) for session in sessions])
            while waiting := [session for session in sessions if session.browsed is None]:
                contexts = [session.context for session in waiting]
                seeds = [f"{seed} {one.episode} {len(one.rows)}" for one in waiting]
                actions = sample(contexts, seeds)
                for session, one in zip(waiting, actions, strict=True):
                    session.rows.append(one)
                words = [self._speech.decode_action(one.row.action) for one in actions]
                self._advance_episodes(pool, list(zip(waiting, words, strict=True)))
        return self._build_trajectories(
            sessions, self._sample_extra_answers(sample, sessions, seed)
        )

    def _start_episode(self, episode: int, question: Question, seed: int) -> "_BrowserEpisode":
        rules = self._settings.rules
        if self._settings.draw_actions:
            rules = draw_action_limit(rules, Random(f"{seed} {episode} actions"))
        library = self._library(episode) if callable(self._library) else self._library
        return _BrowserEpisode(episode, BrowserTask(question, rules), library, self._views)

    def _advance_episodes(
        self,
        pool: ThreadPoolExecutor,
        sent: Sequence[tuple["_BrowserEpisode", str | BrowserReply | None]],
    ) -> None:
        """Let each session go on until it waits to be told something, or has ended."""
        while sent:
            open_sessions = [
                (session, request)
                for session, words in sent
                if (request := session.advance_browser(words, self._speech)) is not None
            ]
            replies = pool.map(lambda one: answer_request(one[0].library, one[1]), open_sessions)
            sent = [
                (session, reply) for (session, _), reply in zip(open_sessions, replies, strict=True)
            ]

    def _sample_extra_answers(
        self, sample: PolicySampler, sessions: Sequence["_BrowserEpisode"], seed: int
    ) -> dict[int, list[SampledAction]]:
        """Draw more answers in the answering phase of each episode that came to it."""
        count = self._settings.extra_answers
        answering = [session for session in sessions if session.is_answering for _ in range(count)]
        if not answering:
            return {}
        seeds = [f"{seed} {one.episode} extra {at % count}" for at, one in enumerate(answering)]
        actions = sample([session.rows[-1].row.context for session in answering], seeds)
        extra_actions: dict[int, list[SampledAction]] = {}
        for session, one in zip(answering, actions, strict=True):
            extra_actions.setdefault(session.episode, []).append(one)
        return extra_actions

    def _build_trajectories(
        self, sessions: Sequence["_BrowserEpisode"], extras: dict[int, list[SampledAction]]
    ) -> list[Trajectory]:
        group = self._settings.group
        played, answers = [], []
        for session in sessions:
            episode = session.episode
            played.append(Trajectory(episode, session.rows, None, episode // group))
            answers.append(session.build_answer())
            for extra in extras.get(episode, ()):
                played.append(Trajectory(episode, [extra], None, ("answers", episode), extra=True))
                answers.append(session.build_answer(self._speech.decode_action(extra.row.action)))
        rewards = compute_answer_rewards(self._scores, answers)
        return [one._replace(reward=reward) for one, reward in zip(played, rewards, strict=True)]


class _BrowserEpisode:
    """One episode under way: `browsed` is None until it has ended."""

    def __init__(
        self, episode: int, task: BrowserTask, library: Library, views: PageViewCache
    ) -> None:
        self.episode = episode
        self.library = library
        self.rows: list[SampledAction] = []
        self.context: list[int] = []
        """the prompt that waits for something to be said"""
        self.is_answering = False
        """whether an answer was asked for, and given"""
        self.browsed: BrowseResult | None = None
        self._task = task
        self._browser_loop = run_browser(task, views)

    def advance_browser(
        self, sent: str | BrowserReply | None, speech: PolicyTokenizer
    ) -> BrowserRequest | None:
        """Tell the browser something; return what it asks of the library, if it does."""
        try:
            screen = next(self._browser_loop) if sent is None else self._browser_loop.send(sent)
            if not isinstance(screen, Observation):
                return screen
            self.context = speech.encode_prompt(screen.prompt)
            self.is_answering = screen.answering
        except StopIteration as ended:
            self.browsed = ended.value
        except Failed as failed:
            self._abort_episode(failed.failure.outcome)
        except Exception:  # what one page holds must not end the other sessions
            self._abort_episode(Outcome.BROWSER_FAILED)
        return None

    def _abort_episode(self, stop: str) -> None:
        self._browser_loop.close()
        self.browsed, self.is_answering = BrowseResult((), stop), False

    def build_answer(self, text: str | None = None) -> tuple[Question, Answer | None]:
        """Return the question, and what was answered; or what these words in their place answer."""
        assert self.browsed is not None
        browsed = self.browsed
        if text is not None:
            browsed = msgspec.structs.replace(browsed, answer_text=text)
        return self._task.question, build_episode(self._task, "", (), browsed).answer


def measure_policy_reward(
    model: Any,
    ends: frozenset[int],
    world: RolloutEnvironment,
    episodes: int,
    sampling: SamplingSettings,
    no_answer: float,
    bad_syntax: float | None = None,
) -> dict[str, float]:
    """Play episodes with a model; return the mean `reward` and the share `answered`.

    An episode without a reward counts as `no_answer`, one of bad syntax as `bad_syntax` says (both
    as in `ReinforcementSettings`); extra answers do not count. Raises Failed (not_a_number).
    """
    played = world.play_episodes(make_policy_sampler(model, ends, sampling), range(episodes), 0)
    scores = [one.compute_score(no_answer, bad_syntax) for one in played if not one.extra]
    answered = fmean(one.is_answered for one in played if not one.extra)
    return {"reward": fmean(scores), "answered": answered}

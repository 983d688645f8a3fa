"""The text browser as a world (WebGPT): many sessions go on side by side, and each of their steps
is a row.

It knows nothing of models and losses: who speaks is a `Sampler`, what an answer is worth says a
function.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

import msgspec

from rookery.browse.browser import Browsed, Reply, Request, Views, answered, browsing
from rookery.browse.observation import Observation
from rookery.browse.rules import Rules, Task, with_drawn_actions
from rookery.draft.rollout import episode_of
from rookery.learn.played import Played, Sampler
from rookery.learn.sample import Sampled
from rookery.learn.worlds_speech import Speech
from rookery.records import Answer, Failed, Library, Question, Reward

Scores = Callable[[Sequence[tuple[Question, Answer]]], Sequence[float]]
"""rewards of many answers at once, such as `Scorer.scores`; what is not a number is no answer"""
AT_ONCE = 32
"""requests to a library"""


def one_by_one(reward: Reward) -> Scores:
    """A reward that knows one answer at a time."""
    return lambda pairs: [reward(question, answer) for question, answer in pairs]


def worths(scores: Scores, found: Sequence[tuple[Question, Answer | None]]) -> list[float | None]:
    """What each answer is worth; None where there is none, or none that could be scored."""
    pairs = [(question, answer) for question, answer in found if answer is not None]
    rewards = iter(scores(pairs) if pairs else ())
    each = (None if answer is None else next(rewards) for _, answer in found)
    return [None if worth is None or math.isnan(worth) else worth for worth in each]


def in_turn(count: int, group: int, episodes: Sequence[int], seed: int) -> list[tuple[int, int]]:
    """Of each episode, which of `count` questions it is about, and how often that came before.

    Each comes once before any comes a second time, in an order drawn from the seed, and `group`
    times in a row. Raises ValueError without a question.
    """
    if count < 1 or group < 1:
        raise ValueError("there must be a question, and a group of one at least")
    found = []
    orders: dict[int, list[int]] = {}
    for episode in episodes:
        turn, place = divmod(episode // group, count)
        if turn not in orders:
            orders[turn] = Random(f"{seed} questions {turn}").sample(range(count), count)
        found.append((orders[turn][place], turn))
    return found


class Browsing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How episodes of the text browser are played for learning."""

    rules: Rules = Rules()
    draw_actions: bool = False
    """whether each episode has a number of actions of its own, from 20 to 100 (WebGPT, section
    3.2), in place of the rules'"""
    extra_answers: int = 0
    """more answers from the same quotes, each an episode of its own (WebGPT, section 3.2)"""
    group: int = 1
    """episodes of one question in a row"""

    def __post_init__(self) -> None:
        if self.extra_answers < 0 or self.group < 1:
            raise ValueError("Browsing: extra_answers must be 0 or more, group 1 or more")


WEBGPT = Browsing(draw_actions=True, extra_answers=15)


class BrowserWorld:
    """Questions that are answered from what is quoted in the text browser (WebGPT, section 3.2).

    A function in place of a library makes one for each episode, such as the replay of a recording;
    a library is safe to share between threads. An episode without an answer, or whose prompt or
    answer is too long for the models, has no reward. Raises ValueError without a question.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        library: Library | Callable[[int], Library],
        scores: Scores,
        speech: Speech,
        settings: Browsing = Browsing(),
    ) -> None:
        if not questions:
            raise ValueError("there must be a question")
        self._questions = questions
        self._library = library
        self._scores = scores
        self._speech = speech
        self._settings = settings
        self._views = Views()

    def play(self, sample: Sampler, episodes: Sequence[int], seed: int) -> list[Played]:
        """The episodes, each followed by its extra answers.

        All sessions take each step together, so that the policy's batches, and with them the last
        bits of what it says, are the same in every run.
        """
        turns = in_turn(len(self._questions), self._settings.group, episodes, seed)
        sessions = [
            self._begin(episode, self._questions[number], seed)
            for episode, (number, _) in zip(episodes, turns, strict=True)
        ]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self._go_on(pool, [(session, None) for session in sessions])
            while waiting := [session for session in sessions if session.browsed is None]:
                contexts = [session.context for session in waiting]
                seeds = [f"{seed} {one.episode} {len(one.rows)}" for one in waiting]
                said = sample(contexts, seeds)
                for session, one in zip(waiting, said, strict=True):
                    session.rows.append(one)
                words = [self._speech.text(one.row.action) for one in said]
                self._go_on(pool, list(zip(waiting, words, strict=True)))
        return self._judged(sessions, self._extras(sample, sessions, seed))

    def _begin(self, episode: int, question: Question, seed: int) -> "_Session":
        rules = self._settings.rules
        if self._settings.draw_actions:
            rules = with_drawn_actions(rules, Random(f"{seed} {episode} actions"))
        library = self._library(episode) if callable(self._library) else self._library
        return _Session(episode, Task(question, rules), library, self._views)

    def _go_on(
        self, pool: ThreadPoolExecutor, sent: Sequence[tuple["_Session", str | Reply | None]]
    ) -> None:
        """Lets each session go on until it waits to be told something, or has ended."""
        while sent:
            asked = [
                (session, request)
                for session, words in sent
                if (request := session.go_on(words, self._speech)) is not None
            ]
            replies = pool.map(lambda one: answered(one[0].holdings, one[1]), asked)
            sent = [(session, reply) for (session, _), reply in zip(asked, replies, strict=True)]

    def _extras(
        self, sample: Sampler, sessions: Sequence["_Session"], seed: int
    ) -> dict[int, list[Sampled]]:
        """More answers to the answering phase of each episode that came to it."""
        count = self._settings.extra_answers
        answering = [session for session in sessions if session.answers for _ in range(count)]
        if not answering:
            return {}
        seeds = [f"{seed} {one.episode} extra {at % count}" for at, one in enumerate(answering)]
        said = sample([session.rows[-1].row.context for session in answering], seeds)
        found: dict[int, list[Sampled]] = {}
        for session, one in zip(answering, said, strict=True):
            found.setdefault(session.episode, []).append(one)
        return found

    def _judged(
        self, sessions: Sequence["_Session"], extras: dict[int, list[Sampled]]
    ) -> list[Played]:
        group = self._settings.group
        played, answers = [], []
        for session in sessions:
            episode = session.episode
            played.append(Played(episode, session.rows, None, episode // group))
            answers.append(session.answer())
            for extra in extras.get(episode, ()):
                played.append(Played(episode, [extra], None, ("answers", episode), extra=True))
                answers.append(session.answer(self._speech.text(extra.row.action)))
        rewards = worths(self._scores, answers)
        return [one._replace(reward=reward) for one, reward in zip(played, rewards, strict=True)]


class _Session:
    """One episode under way: `browsed` is None until it has ended."""

    def __init__(self, episode: int, task: Task, library: Library, views: Views) -> None:
        self.episode = episode
        self.holdings = library
        self.rows: list[Sampled] = []
        self.context: list[int] = []
        """the prompt that waits for something to be said"""
        self.answers = False
        """whether an answer was asked for, and given"""
        self.browsed: Browsed | None = None
        self._task = task
        self._flow = browsing(task, views)

    def go_on(self, sent: str | Reply | None, speech: Speech) -> Request | None:
        """Tells the browser something; gives what it asks of the library, if it does."""
        try:
            shown = next(self._flow) if sent is None else self._flow.send(sent)
            if not isinstance(shown, Observation):
                return shown
            self.context = speech.context(shown.prompt)
            self.answers = shown.answering
        except StopIteration as ended:
            self.browsed = ended.value
        except Failed as failed:
            self._break_off(failed.failure.outcome)
        except Exception:  # what one page holds must not end the other sessions
            self._break_off("browser_failed")
        return None

    def _break_off(self, stop: str) -> None:
        self._flow.close()
        self.browsed, self.answers = Browsed((), stop), False

    def answer(self, said: str | None = None) -> tuple[Question, Answer | None]:
        """The question, and what was answered; or what these words in their place answer."""
        assert self.browsed is not None
        browsed = self.browsed
        if said is not None:
            browsed = msgspec.structs.replace(browsed, said=said)
        return self._task.question, episode_of(self._task, "", (), browsed).answer

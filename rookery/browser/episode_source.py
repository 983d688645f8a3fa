"""Episodes of the text browser for trainers: tasks in splits, a library, and a reward.

The environment server and the adapters for other trainers begin their episodes here, so that the
same task shows the same prompts and earns the same reward through each of them.

The last class is the text browser as an environment of TRL's GRPOTrainer (`environment_factory`):

    source = EpisodeSource({"train": questions}, library, reward_accepted_answer)
    trainer = GRPOTrainer(..., environment_factory=partial(TrlBrowserEnvironment, source))

TRL trains one growing conversation an episode: each prompt of the browser is the result of a tool
call and stays in the context. WebGPT's policies see the last prompt alone.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple
from uuid import uuid4

import msgspec

from rookery.browser.browser import BrowserEpisode
from rookery.browser.browser_commands import BrowserRules, BrowserTask
from rookery.browser.page_view import PageViewCache
from rookery.library.call_recording import CallRecording, RecordingLibrary, WrappedLibrary
from rookery.library.libraries import fetches_pages
from rookery.library.question_files import is_correct_answer
from rookery.python_objects import OwnReward
from rookery.records import Answer, BatchReward, Episode, Library, Question, Reward

REMEMBERED_SEARCHES = 4096
REMEMBERED_PAGES = 512


class SelectedTask(msgspec.Struct, frozen=True):
    """A task, and its place among the others."""

    split: str
    index: int
    task: BrowserTask


class SourceEpisode(NamedTuple):
    """An episode of an `EpisodeSource`, with the library that answers its requests."""

    selected: SelectedTask
    browser: BrowserEpisode
    library: Library
    session: str
    """name in the recording; empty without one"""


class EpisodeSource:
    """Tasks in named splits, the library that they are browsed in, and the reward of an answer.

    A function as `library` makes one for each episode, as the open web needs: its pages are open
    only to the session that was shown them. A `recording` stores what the library answered to each
    episode, under the episode's session name. `slow_reward` tells a server to compute rewards in a
    thread. Episodes of one source belong to one thread, apart from their libraries' answers. Raises
    ValueError for a split without questions.
    """

    def __init__(
        self,
        splits: Mapping[str, Sequence[Question]],
        library: Library | Callable[[], Library],
        reward: Reward | BatchReward,
        rules: BrowserRules = BrowserRules(),
        by: str = "environment",
        recording: CallRecording | None = None,
        slow_reward: bool = False,
    ) -> None:
        for name, questions in splits.items():
            if not questions:
                raise ValueError(f"the split {name!r} has no questions")
        if not splits:
            raise ValueError("there is no split: give at least one file of questions")
        fixed = None if callable(library) or fetches_pages(library) else library
        self.answers_at_once = fixed is not None and recording is None
        """whether the library takes less time to answer than a change of threads"""
        self.slow_reward = slow_reward
        self.splits = {name: tuple(questions) for name, questions in splits.items()}
        self.rules = rules
        self._library: Library | Callable[[], Library] = library
        if fixed is not None:
            self._library = remember_replies(fixed)
        self._reward = OwnReward(reward)
        self._by = by
        self._recording = recording
        self._views = PageViewCache()
        self._numbers = {
            name: {question.id: number for number, question in enumerate(questions)}
            for name, questions in self.splits.items()
        }

    def select_task(
        self, split: str = "", index: int | None = None, task: str = "", seed: int | None = None
    ) -> SelectedTask:
        """Return the task at `index` of a split, or with the id `task`; else one is drawn.

        Without `split` it is of the first one. The draw is determined by `seed`, if there is one.
        Raises ValueError where there is no such task.
        """
        split = split or next(iter(self.splits))
        if split not in self.splits:
            names = ", ".join(self.splits)
            raise ValueError(f"there is no split {split[:80]!r}: use one of {names}")
        questions = self.splits[split]
        if task:
            if index is not None:
                raise ValueError("name a task by its index or by its id, not by both")
            index = self._numbers[split].get(task)
            if index is None:
                raise ValueError(f"no task of the split {split!r} has the id {task[:80]!r}")
        if index is None:
            index = Random(seed).randrange(len(questions))
        if not 0 <= index < len(questions):
            most = len(questions) - 1
            raise ValueError(f"the split {split!r} has no task {index}: give one from 0 to {most}")
        return SelectedTask(split, index, BrowserTask(questions[index], self.rules))

    def create_episode(self, selected: SelectedTask) -> SourceEpisode:
        """Create an episode of a task; its browser is not begun. Raises Failed as libraries do."""
        library = self._library() if callable(self._library) else self._library
        session = ""
        if self._recording is not None:
            session = f"{self._by}/{selected.split}/{selected.index}/{uuid4().hex}"
            self._recording.begin_session(session, selected.task.to_json().encode())
            library = RecordingLibrary(self._recording, library, session)
        browser = BrowserEpisode(selected.task, self._by, self._views, session)
        return SourceEpisode(selected, browser, library, session)

    def begin_episode(self, selected: SelectedTask) -> SourceEpisode:
        """Create an episode of a task and show its first prompt. Raises Failed as libraries do."""
        episode = self.create_episode(selected)
        episode.browser.answer_from(episode.library, episode.browser.begin_browsing())
        return episode

    def compute_reward(self, episode: Episode) -> float:
        """Return the reward of an ended episode: of its answer, and 0 without one."""
        if episode.answer is None:
            return 0.0
        return self._reward(episode.question, episode.answer)


def remember_replies(library: Library) -> Library:
    """Return the library, whose contents must not change, with what it answered remembered.

    The last REMEMBERED_SEARCHES searches and REMEMBERED_PAGES pages are kept, failures are not.
    Threads may share it.
    """
    search = lru_cache(REMEMBERED_SEARCHES)(library.search)
    return WrappedLibrary(library, search, lru_cache(REMEMBERED_PAGES)(library.fetch))


def reward_accepted_answer(question: Question, answer: Answer) -> float:
    """Return 1 if the answer and a quote that it cites contain the same accepted answer, else 0."""
    cited = {number for claim in answer.claims for number in claim.quotes}
    quotes = tuple(answer.quotes[number] for number in sorted(cited))
    shown = msgspec.structs.replace(answer, quotes=quotes, claims=())
    return float(is_correct_answer(question, shown))


class TrlBrowserEnvironment:
    """One session with the tool `type_command`; TRL resets it for each row of its data set.

    All sessions of a trainer may share one source. They are stepped in one thread.
    """

    def __init__(self, source: EpisodeSource) -> None:
        self._source = source
        self._episode: SourceEpisode | None = None

    def reset(self, split: str = "", index: int | None = None, **row: object) -> str:
        """Begin the task that a row names by `split` and `index`, and return its first prompt.

        The row's other columns are not read. Without an index, a task is drawn. Raises ValueError
        where there is no such task, and Failed as libraries do.
        """
        self._episode = self._source.begin_episode(self._source.select_task(split, index))
        return self._episode.browser.prompt

    def type_command(self, command: str) -> str:
        """Type one command into the text browser, or the answer where the prompt asks for it.

        Args:
            command: `Search <query>`, `Clicked on link <link ID>`, `Find in page: <text>`,
                `Quote: <text>`, `Scrolled down <1, 2, 3>`, `Scrolled up <1, 2, 3>`, `Top`, `Back`,
                `End: Answer`, `End: <Nonsense, Controversial>`; after `End: Answer`, the answer,
                with `[1]` behind what the first quote supports.

        Returns:
            The page and the quotes that the browser shows now; nothing after the answer.
        """
        if self._episode is None:
            raise ValueError("no episode was begun: call reset() first")
        browser, library = self._episode.browser, self._episode.library
        browser.answer_from(library, browser.accept_text(command))
        return self._episode.browser.prompt

    def get_reward(self) -> float:
        """Return the reward of the answer; 0 before it, and for an episode without one."""
        ended = self._episode and self._episode.browser.result
        return self._source.compute_reward(ended) if ended else 0.0

"""WebGPT's text browser as a Gymnasium environment, with the id `rookery/TextBrowser-v0`.

Importing this module registers the id;
`gymnasium.make("rookery.browser.gym:rookery/TextBrowser-v0", library=...)` imports the module
itself. Gymnasium is an optional dependency.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rookery.browser.browser import BrowserEpisode
from rookery.browser.browser_commands import BrowserTask, Observation, format_prompt_foot
from rookery.browser.page_view import PageViewCache
from rookery.library.question_files import parse_question
from rookery.records import Library, Reward

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("BrowserEnv needs: pip install 'rookery[gym]'") from error

import numpy as np
from gymnasium.vector import utils

ENVIRONMENT_ID = "rookery/TextBrowser-v0"
MAX_PROMPT_CHARACTERS = 1 << 16
"""default maximum characters of a prompt; WebGPT's limits lead to a quarter of it or less"""
MAX_SAMPLE_CHARACTERS = 40
"""maximum characters of a random text"""
_CODE_POINTS = np.dtype("<i4")


class _Unicode(Sequence[str]):
    """The code points as a sequence without memory: as a set of strings they would take 100 MB."""

    def __len__(self) -> int:
        return 0x110000

    def __getitem__(self, index: Any) -> Any:
        points = range(len(self))[index]
        return chr(points) if isinstance(points, int) else [chr(point) for point in points]

    def __contains__(self, letter: object) -> bool:
        return isinstance(letter, str) and len(letter) == 1


class UnicodeText(gymnasium.spaces.Text):
    """The space of Unicode texts of at most `max_length` characters.

    Gymnasium's own Text space would need a list of all letters.
    """

    character_set: Any = _Unicode()
    """sequence of all code points, in order"""
    character_list: Any = character_set
    characters: Any = character_set

    def __init__(self, max_length: int = MAX_PROMPT_CHARACTERS, seed: int | None = None) -> None:
        self.min_length, self.max_length = 0, max_length
        gymnasium.Space.__init__(self, dtype=str, seed=seed)

    def character_index(self, char: str) -> np.int32:
        """Return the code point of a character."""
        return np.int32(ord(char))

    def contains(self, x: Any) -> bool:
        """Return True for a str of at most `max_length` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw up to 40 characters from all of Unicode. Raises ValueError for a mask."""
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText has no letters to mask: call sample() without arguments")
        size = self.np_random.integers(min(MAX_SAMPLE_CHARACTERS, self.max_length) + 1)
        places = self.np_random.integers(0x110000 - 0x800, size=size).tolist()
        # Skip the surrogates U+D800 to U+DFFF, which are no characters.
        return "".join(chr(place + 0x800 * (place >= 0xD800)) for place in places)

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_length))


class _SharedTexts(Sequence[str]):
    """A live view of the texts in the memory that AsyncVectorEnv shares with its workers.

    AsyncVectorEnv reads the memory once and copies the result after each step; Gymnasium's own
    reader returns plain strings, which would never change.
    """

    def __init__(self, codes: Any) -> None:
        self._codes = codes

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, number: Any) -> Any:
        line = self._codes[number]
        # The rest of the line is filled with 0x110000, which is no character.
        size = int(np.searchsorted(line == len(_Unicode()), True))
        return line[:size].tobytes().decode("utf-32-le", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[number] for number in range(len(self)))

    def __deepcopy__(self, _: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


@utils.read_from_shared_memory.register(UnicodeText)
def _read_texts(space: UnicodeText, shared_memory: Any, n: int = 1) -> _SharedTexts:
    codes = np.frombuffer(shared_memory.get_obj(), dtype=_CODE_POINTS)
    return _SharedTexts(codes.reshape(n, space.max_length))


@utils.write_to_shared_memory.register(UnicodeText)
def _write_text(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    codes = np.frombuffer(value.encode("utf-32-le", "surrogatepass"), dtype=_CODE_POINTS)
    start = index * space.max_length
    memory = np.frombuffer(shared_memory.get_obj(), dtype=_CODE_POINTS)
    memory[start : start + len(codes)] = codes
    memory[start + len(codes) : start + space.max_length] = len(_Unicode())


class BrowserEnv(gymnasium.Env[str, str]):
    """Browser sessions over a library as episodes: observations are prompts, actions are commands.

    `reset` draws one of `tasks`, or takes options {"task": BrowserTask} or {"question": str}.
    `step` returns `reward(question, answer)` for the action that is the answer, and 0 otherwise,
    also for an episode that ends without one. An episode terminates and is never truncated: the
    numbers of actions and quotes are part of the task and shown in the prompt, and running out of
    them leads to the answering phase (WebGPT, section 2), so that no later value could be
    bootstrapped from. For other limits there is `gymnasium.wrappers.TimeLimit`.

    Each info has "observation" (the Observation; None at the end), "quotes", "stop" (empty until
    the end) and "trajectory" (the Episode; None until the end). A prompt of more than `longest`
    characters is returned without the end of its window's text; the Observation and the Episode
    have it whole. A function as `library` is called once, in the process where the environment
    runs, and `close` closes the library that it returned.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        library: Library | Callable[[], Library],
        tasks: Sequence[BrowserTask] = (),
        reward: Reward | None = None,
        by: str = "gym",
        longest: int = MAX_PROMPT_CHARACTERS,
    ) -> None:
        self.observation_space = UnicodeText(longest)
        self.action_space = UnicodeText(longest)
        self._longest = longest
        self._opened = callable(library)
        self._library: Any = library() if callable(library) else library
        self._tasks = tasks
        self._reward = reward
        self._by = by
        self._views = PageViewCache()
        self._episode: BrowserEpisode | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode; return its first prompt and info. Raises ValueError without a task.

        The task is `options["task"]`, `options["question"]`, or drawn from the environment's tasks.
        """
        super().reset(seed=seed)
        self._episode = BrowserEpisode(self._choose_task(options or {}), self._by, self._views)
        self._episode.answer_from(self._library, self._episode.begin_browsing())
        return self._describe_state(self._episode)[::4]

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Execute a browser command, or in the answering phase take the answer and end the episode.

        Returns (prompt, reward, terminated, truncated, info); the prompt is empty at the end. The
        reward is 0 except for an answer, and an episode is never truncated. Raises
        gymnasium.error.ResetNeeded where no episode is running.
        """
        episode = self._episode
        if episode is None or episode.result is not None:
            raise gymnasium.error.ResetNeeded("the episode has ended, or none begun: call reset()")
        episode.answer_from(self._library, episode.accept_text(action))
        return self._describe_state(episode)

    def close(self) -> None:
        """End the episode, and close the library if the environment opened it."""
        self._episode = None
        if self._opened and hasattr(self._library, "close"):
            self._library.close()

    def _cut_prompt(self, observation: Observation) -> str:
        """Return a prompt, its window's text cut to the maximum length of the space."""
        prompt, foot = observation.prompt, format_prompt_foot(observation.left)
        if len(prompt) <= self._longest:
            return prompt
        foot = foot if prompt.endswith(foot) else ""
        return prompt[: max(self._longest - len(foot), 0)] + foot[-self._longest :]

    def _choose_task(self, options: dict[str, Any]) -> BrowserTask:
        if "task" in options:
            task: BrowserTask = options["task"]
            return task
        if "question" in options:
            return BrowserTask(parse_question(options["question"]))
        if not self._tasks:
            raise ValueError('nothing to do: give BrowserEnv tasks, or options={"question": ...}')
        return self._tasks[int(self.np_random.integers(len(self._tasks)))]

    def _describe_state(
        self, episode: BrowserEpisode
    ) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, ended = episode.observation, episode.result
        info = {
            "observation": observation,
            "quotes": observation.quotes if observation else episode.browsed.quotes,
            "stop": ended.stop if ended else "",
            "trajectory": ended,
        }
        reward = 0.0
        if self._reward is not None and ended is not None and ended.answer is not None:
            reward = float(self._reward(ended.question, ended.answer))
        prompt = self._cut_prompt(observation) if observation else ""
        return prompt, reward, ended is not None, False, info


gymnasium.register(ENVIRONMENT_ID, "rookery.browser.gym:BrowserEnv")

"""WebGPT's text browser as a Gymnasium environment, with the id `rookery/TextBrowser-v0`.

Importing this module registers the id; `gymnasium.make("rookery.draft.gym:rookery/TextBrowser-v0",
library=...)` imports it by itself. It needs Gymnasium, which the rest of the package does not.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, overload

from rookery.ask.load import asked
from rookery.browse.browser import Browsed, Views, browse
from rookery.browse.observation import Observation, next_action
from rookery.browse.rules import Task
from rookery.draft.rollout import episode_of, writable
from rookery.records import Completion, Library, Reward, Step

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("BrowserEnv needs: pip install 'rookery[gym]'") from error

import numpy as np
from gymnasium.vector import utils

ID = "rookery/TextBrowser-v0"
LONGEST = 1 << 16
"""characters of a prompt; those of WebGPT's limits have a quarter of it or less"""
LONGEST_SAMPLE = 40
"""characters"""
_CODES = np.dtype("<i4")


class _Unicode(Sequence[str]):
    """All code points, which are their own indices: as a set of strings they would take 100 MB."""

    def __len__(self) -> int:
        return 0x110000

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        points = range(len(self))[index]
        return chr(points) if isinstance(points, int) else [chr(point) for point in points]

    def __contains__(self, letter: object) -> bool:
        return isinstance(letter, str) and len(letter) == 1


class UnicodeText(gymnasium.spaces.Text):
    """Every text of at most `max_length` characters: Gymnasium's own space wants its letters
    listed."""

    def __init__(self, max_length: int = LONGEST, seed: int | None = None) -> None:
        self.min_length, self.max_length = 0, max_length
        gymnasium.Space.__init__(self, dtype=str, seed=seed)

    @property
    def character_set(self) -> Any:
        """All of Unicode."""
        return _Unicode()

    @property
    def character_list(self) -> Any:
        """All of Unicode, in order."""
        return _Unicode()

    @property
    def characters(self) -> Any:
        """All of Unicode, in order."""
        return _Unicode()

    def character_index(self, char: str) -> np.int32:
        """The code point."""
        return np.int32(ord(char))

    def contains(self, x: Any) -> bool:
        """Tell whether it is a text, and not too long."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Up to 40 characters from anywhere in Unicode; nothing can be masked."""
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText has no letters to mask: call sample() without arguments")
        size = self.np_random.integers(min(LONGEST_SAMPLE, self.max_length) + 1)
        places = self.np_random.integers(0x110000 - 0x800, size=size).tolist()
        # U+D800 to U+DFFF are no characters.
        return "".join(chr(place + 0x800 * (place >= 0xD800)) for place in places)

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and other.max_length == self.max_length

    def __hash__(self) -> int:
        return hash((UnicodeText, self.max_length))


class _SharedTexts(Sequence[str]):
    """The texts in the memory that AsyncVectorEnv shares with its workers, as they are now.

    AsyncVectorEnv reads the memory once and copies what it read after each step; Gymnasium's own
    reader of texts makes plain strings, which would stay those of the first moment.
    """

    def __init__(self, codes: Any) -> None:
        self._codes = codes

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, number: Any) -> Any:
        line = self._codes[number]
        # What lies behind the text is 0x110000, which is no character.
        size = int(np.searchsorted(line == len(_Unicode()), True))
        return line[:size].tobytes().decode("utf-32-le", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[number] for number in range(len(self)))

    def __deepcopy__(self, _: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)


@utils.read_from_shared_memory.register(UnicodeText)
def _read_texts(space: UnicodeText, shared_memory: Any, n: int = 1) -> _SharedTexts:
    codes = np.frombuffer(shared_memory.get_obj(), dtype=_CODES)
    return _SharedTexts(codes.reshape(n, space.max_length))


@utils.write_to_shared_memory.register(UnicodeText)
def _write_text(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    codes = np.frombuffer(value.encode("utf-32-le", "surrogatepass"), dtype=_CODES)
    start = index * space.max_length
    memory = np.frombuffer(shared_memory.get_obj(), dtype=_CODES)
    memory[start : start + len(codes)] = codes
    memory[start + len(codes) : start + space.max_length] = len(_Unicode())


class BrowserEnv(gymnasium.Env[str, str]):
    """Sessions over a library, one after another: prompts out, commands and an answer in.

    `reset` draws one of `tasks`, or takes options {"task": Task} or {"question": str}. `step`
    gives `reward(question, answer)` for the command that is the answer, and 0 otherwise, also
    for an episode that ends without one. An episode terminates and is never truncated: how many
    actions and quotes it has is part of the task, stands in the prompt, and running out of them
    leads on to the answering phase (WebGPT, section 2); nothing would follow that a value could
    be bootstrapped from. For other limits there is `gymnasium.wrappers.TimeLimit`.

    Each info holds "observation" (the Observation; None at the end), "quotes", "stop" (empty
    until the end) and "trajectory" (the Episode; None until the end). A prompt of more than
    `longest` characters is given without the end of its window's text; the Observation and the
    Episode have it whole. A function in place of a library is called for one when the environment
    is made, in the process where it runs, and `close` closes that library.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        library: Library | Callable[[], Library],
        tasks: Sequence[Task] = (),
        reward: Reward | None = None,
        by: str = "gym",
        longest: int = LONGEST,
    ) -> None:
        self.observation_space = UnicodeText(longest)
        self.action_space = UnicodeText(longest)
        self._longest = longest
        self._opened = callable(library)
        self._library: Any = library() if callable(library) else library
        self._tasks = tasks
        self._reward = reward
        self._by = by
        self._views = Views()
        self._flow: Generator[Observation, str, Browsed] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begins an episode: its first prompt. Raises ValueError where there is no task for it."""
        super().reset(seed=seed)
        self._task = self._chosen(options or {})
        self._steps: list[Step] = []
        self._flow = browse(self._task, self._library, self._views)
        self._shown = next(self._flow)
        return self._prompt(), self._info(self._shown)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Says a command, or in the end the answer; the next prompt, empty at the end."""
        if self._flow is None:
            raise gymnasium.error.ResetNeeded("the episode has ended, or none begun: call reset()")
        said = Completion(writable(action))
        self._steps.append(Step(self._shown.prompt, said))
        try:
            self._shown = self._flow.send(said.text)
        except StopIteration as ended:
            return self._ended(ended.value)
        return self._prompt(), 0.0, False, False, self._info(self._shown)

    def close(self) -> None:
        """Ends the episode."""
        self._flow = None
        if self._opened and hasattr(self._library, "close"):
            self._library.close()

    def _prompt(self) -> str:
        """What is shown now, cut to what the space allows."""
        prompt, foot = self._shown.prompt, next_action(self._shown.left)
        if len(prompt) <= self._longest:
            return prompt
        foot = foot if prompt.endswith(foot) else ""
        return prompt[: max(self._longest - len(foot), 0)] + foot[-self._longest :]

    def _chosen(self, options: dict[str, Any]) -> Task:
        if "task" in options:
            task: Task = options["task"]
            return task
        if "question" in options:
            return Task(asked(options["question"]))
        if not self._tasks:
            raise ValueError('nothing to do: give BrowserEnv tasks, or options={"question": ...}')
        return self._tasks[int(self.np_random.integers(len(self._tasks)))]

    def _ended(self, browsed: Browsed) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._flow = None
        episode = episode_of(self._task, self._by, self._steps, browsed)
        info = {
            "observation": None,
            "quotes": browsed.quotes,
            "stop": episode.stop,
            "trajectory": episode,
        }
        reward = 0.0
        if self._reward is not None and episode.answer is not None:
            reward = float(self._reward(episode.question, episode.answer))
        return "", reward, True, False, info

    def _info(self, shown: Observation) -> dict[str, Any]:
        return {"observation": shown, "quotes": shown.quotes, "stop": "", "trajectory": None}


gymnasium.register(ID, "rookery.draft.gym:BrowserEnv")

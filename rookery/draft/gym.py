"""The text browser as an environment of Gymnasium, for algorithms that are written for those.

It knows nothing of how a policy learns. Import it only where Gymnasium is installed.
"""

from collections.abc import Generator, Sequence
from typing import Any

from rookery.ask.load import asked
from rookery.browse.browser import Browsed, Views, browse
from rookery.browse.observation import Observation
from rookery.browse.rules import Task
from rookery.draft.rollout import episode_of, writable
from rookery.records import Completion, Library, Reward, Step

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("BrowserEnv needs: pip install 'rookery[gym]'") from error

LONGEST_SAMPLE = 40
"""characters"""


class Text(gymnasium.Space[str]):
    """Every text there is, of any length: Gymnasium's own has a fixed set of letters."""

    def contains(self, x: Any) -> bool:
        """Whether it is a text."""
        return isinstance(x, str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Up to 40 characters from anywhere in Unicode; nothing can be masked."""
        if mask is not None or probability is not None:
            raise ValueError("a Text has no characters to mask: call sample() without arguments")
        size = self.np_random.integers(LONGEST_SAMPLE + 1)
        places = self.np_random.integers(0x110000 - 0x800, size=size).tolist()
        # U+D800 to U+DFFF are no characters.
        return "".join(chr(place + 0x800 * (place >= 0xD800)) for place in places)

    @property
    def is_np_flattenable(self) -> bool:
        """No: it has no longest text."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text)

    def __hash__(self) -> int:
        return hash(Text)


class BrowserEnv(gymnasium.Env[str, str]):
    """Sessions over a library, one after another: prompts out, commands and an answer in.

    `reset` draws one of `tasks`, or takes options {"task": Task} or {"question": str}. `step`
    gives `reward(question, answer)` for the command that is the answer, and 0 otherwise, also
    for an episode that ends without one. An episode terminates and is never truncated: how many
    actions and quotes it has is part of the task, stands in the prompt, and running out of them
    leads on to the answering phase (WebGPT, section 2); nothing would follow that a value could
    be bootstrapped from. For other limits there is `gymnasium.wrappers.TimeLimit`.

    Each info holds "observation" (the Observation; None at the end), "quotes", "stop" (empty
    until the end) and "episode" (the Episode; None until the end).
    """

    def __init__(
        self,
        library: Library,
        tasks: Sequence[Task] = (),
        reward: Reward | None = None,
        by: str = "gym",
    ) -> None:
        self.observation_space = Text()
        self.action_space = Text()
        self._library = library
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
        return self._shown.prompt, self._info(self._shown)

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
        return self._shown.prompt, 0.0, False, False, self._info(self._shown)

    def close(self) -> None:
        """Ends the episode."""
        self._flow = None

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
            "episode": episode,
        }
        reward = 0.0
        if self._reward is not None and episode.answer is not None:
            reward = float(self._reward(episode.question, episode.answer))
        return "", reward, True, False, info

    def _info(self, shown: Observation) -> dict[str, Any]:
        return {"observation": shown, "quotes": shown.quotes, "stop": "", "episode": None}

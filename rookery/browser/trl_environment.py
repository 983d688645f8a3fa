"""The text browser as an environment of TRL's GRPOTrainer (`environment_factory`).

    source = EpisodeSource({"train": questions}, library, reward_accepted_answer)
    trainer = GRPOTrainer(..., environment_factory=partial(TrlBrowserEnvironment, source))

TRL trains one growing conversation an episode: each prompt of the browser is the result of a tool
call and stays in the context. WebGPT's policies see the last prompt alone.
"""

from rookery.browser.episode_source import EpisodeSource, SourceEpisode


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
        return self._episode.prompt

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
        self._episode.step(command)
        return self._episode.prompt

    def get_reward(self) -> float:
        """Return the reward of the answer; 0 before it, and for an episode without one."""
        ended = self._episode and self._episode.browser.result
        return self._source.compute_reward(ended) if ended else 0.0

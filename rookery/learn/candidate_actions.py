"""An environment of the text browser in which a policy chooses among offered actions.

The rows hold the offered actions, so that training sees the same choice.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rookery.draft.remote_model import AllowedTokens
from rookery.learn.browser_environment import (
    BrowserEnvironment,
    BrowserEnvironmentSettings,
    assign_questions,
)
from rookery.learn.decoding import (
    SampledAction,
    SamplingSettings,
    load_sampled_model,
    sample_actions,
)
from rookery.learn.episodes import PolicySampler, RolloutEnvironment, Trajectory
from rookery.learn.prompt_encoding import PolicyTokenizer, load_policy_tokenizer
from rookery.records import Answer, Library, Question

CandidateFunction = Callable[[str], Sequence[str]]
"""from a prompt to all that may be said to it, one thing at least"""


class CandidateActionEnvironment:
    """Environment in which a policy chooses its action among a list of candidates.

    `speech` is that of the world, and shows prompts as they are (`chat` is False).
    """

    def __init__(
        self, world: RolloutEnvironment, speech: PolicyTokenizer, offered: CandidateFunction
    ) -> None:
        self._world = world
        self._speech = speech
        self._list_candidates = offered
        self._candidate_tokens: dict[str, list[list[int]]] = {}

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        """Play these episodes in the wrapped environment, each action restricted to its candidates.

        Returns them with their rewards, each followed by its extra answers. Candidates with more
        tokens than an action may have are offered only where all have.
        """

        def sample_candidates(
            contexts: Sequence[Sequence[int]],
            seeds: Sequence[str],
            allow: Sequence[AllowedTokens] | None = None,
        ) -> list[SampledAction]:
            return sample(
                contexts, seeds, [self._allow_candidates(context) for context in contexts]
            )

        return self._world.play_episodes(sample_candidates, episodes, seed)

    def _allow_candidates(self, context: Sequence[int]) -> AllowedTokens:
        prompt = self._speech.decode_action(context)
        if prompt not in self._candidate_tokens:
            self._candidate_tokens[prompt] = self._tokenize_candidates(
                self._list_candidates(prompt)
            )
        rows = self._candidate_tokens[prompt]

        def allow_next_tokens(said: Sequence[int]) -> list[int]:
            size = len(said)
            return sorted({row[size] for row in rows if row[:size] == list(said)})

        return allow_next_tokens

    def _tokenize_candidates(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the candidates as tokens, an end token last; those too long only where all are."""
        end = min(self._speech.ends)
        encoded = self._speech.tokenizer(
            list(texts), add_special_tokens=False, split_special_tokens=True
        )
        rows = [[*row, end] for row in encoded["input_ids"]]
        return [row for row in rows if len(row) <= self._speech.max_action_tokens] or rows


def sample_browser_answers(
    policy: Path,
    questions: Sequence[Question],
    library: Library,
    n: int,
    sampling: SamplingSettings,
    browsing: BrowserEnvironmentSettings,
    offered: CandidateFunction | None,
    seed: int,
) -> list[list[Answer | None]]:
    """Return n answers by a saved browsing policy to each question; None where an episode had none.


    Actions are restricted to the candidates of `offered`; None: any action. Extra answers are not
    drawn, whatever `browsing` says of them. Raises Failed: no_model, bad_model, prompt_too_long,
    not_a_number.
    """
    loaded = load_sampled_model(policy, sampling)
    speech = load_policy_tokenizer(policy, sampling.max_tokens, chat=False)
    answers: list[Answer] = []

    def collect_answers(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        answers.extend(answer for _, answer in pairs)
        return [0.0] * len(pairs)

    def sample_policy(contexts: Any, seeds: Any, allow: Any = None) -> list[SampledAction]:
        return sample_actions(loaded.model, contexts, seeds, loaded.ends, sampling, allow)

    plain = msgspec.structs.replace(browsing, extra_answers=0)
    world: RolloutEnvironment = BrowserEnvironment(
        questions, library, collect_answers, speech, plain
    )
    if offered is not None:
        world = CandidateActionEnvironment(world, speech, offered)
    episodes, asked = _choose_episodes(len(questions), n, browsing.group, seed)
    found: list[list[Answer | None]] = [[] for _ in questions]
    each = iter(answers)
    for one, number in zip(world.play_episodes(sample_policy, episodes, seed), asked, strict=True):
        found[number].append(None if one.reward is None else next(each))
    return found


def _choose_episodes(count: int, n: int, group: int, seed: int) -> tuple[list[int], list[int]]:
    """Return the first episodes in which each of `count` questions is asked n times, and the number
    of the question of each. Groups are whole but for the last of each question."""
    rounds = range(math.ceil(n / group) * group * count)
    turns = assign_questions(count, group, rounds, seed)
    times, episodes, asked = Counter[int](), [], []
    for episode, (number, _) in zip(rounds, turns, strict=True):
        times[number] += 1
        if times[number] <= n:
            episodes.append(episode)
            asked.append(number)
    return episodes, asked

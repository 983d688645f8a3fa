"""A world of the text browser in which a policy chooses among what is offered it, and answers that
were drawn there.

What was offered stands in the rows, so that learning sees the same choice. It knows nothing of how
a policy is trained.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rookery.draft.remote import Allow
from rookery.learn.loading import load
from rookery.learn.played import Played, Sampler, World
from rookery.learn.sample import Sampled, Sampling, sample
from rookery.learn.worlds import BrowserWorld, Browsing, in_turn
from rookery.learn.worlds_speech import Speech, speech_of
from rookery.records import Answer, Library, Question

Offered = Callable[[str], Sequence[str]]
"""from a prompt to all that may be said to it, one thing at least"""


class Offering:
    """A world whose prompts are answered with something that is offered, and nothing else.

    `speech` is that of the world, and shows prompts as they are (`chat` is False).
    """

    def __init__(self, world: World, speech: Speech, offered: Offered) -> None:
        self._world = world
        self._speech = speech
        self._offered = offered
        self._known: dict[str, list[list[int]]] = {}

    def play(self, sample: Sampler, episodes: Sequence[int], seed: int) -> list[Played]:
        """The world's episodes, and their extras."""

        def held(
            contexts: Sequence[Sequence[int]],
            seeds: Sequence[str],
            allow: Sequence[Allow] | None = None,
        ) -> list[Sampled]:
            return sample(contexts, seeds, [self._allow(context) for context in contexts])

        return self._world.play(held, episodes, seed)

    def _allow(self, context: Sequence[int]) -> Allow:
        prompt = self._speech.text(context)
        if prompt not in self._known:
            self._known[prompt] = self._cut(self._offered(prompt))
        rows = self._known[prompt]

        def allow(said: Sequence[int]) -> list[int]:
            size = len(said)
            return sorted({row[size] for row in rows if row[:size] == list(said)})

        return allow

    def _cut(self, texts: Sequence[str]) -> list[list[int]]:
        """As tokens, an end token last; what is too long to be said only where all is."""
        end = min(self._speech.ends)
        encoded = self._speech.tokenizer(
            list(texts), add_special_tokens=False, split_special_tokens=True
        )
        rows = [[*row, end] for row in encoded["input_ids"]]
        return [row for row in rows if len(row) <= self._speech.tokens] or rows


def browsed(
    policy: Path,
    questions: Sequence[Question],
    library: Library,
    n: int,
    sampling: Sampling,
    browsing: Browsing,
    offered: Offered | None,
    seed: int,
) -> list[list[Answer | None]]:
    """The answers of n episodes about each question; None where one ended without. Where nothing is
    `offered`, the policy says what it likes.

    Raises Failed: no_model, bad_model.
    """
    loaded, speech = load(policy), speech_of(policy, sampling.tokens, chat=False)
    answers: list[Answer] = []

    def noted(pairs: Sequence[tuple[Question, Answer]]) -> list[float]:
        answers.extend(answer for _, answer in pairs)
        return [0.0] * len(pairs)

    def said(contexts: Any, seeds: Any, allow: Any = None) -> list[Sampled]:
        return sample(loaded.model, contexts, seeds, loaded.ends, sampling, allow)

    world: World = BrowserWorld(questions, library, noted, speech, browsing)
    if offered is not None:
        world = Offering(world, speech, offered)
    episodes = range(n * len(questions))
    found: list[list[Answer | None]] = [[] for _ in questions]
    turns = in_turn(len(questions), browsing.group, episodes, seed)
    played = [one for one in world.play(said, episodes, seed) if not one.extra]
    each = iter(answers)
    for one, (number, _) in zip(played, turns, strict=True):
        found[number].append(None if one.reward is None else next(each))
    return found

"""What one episode of a world is for learning, and the world of one step.

An episode is a list of rows, each with its own context, since a browser shows its whole state anew
at each step. It knows nothing of losses and of how a policy is made.
"""

from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import NamedTuple, Protocol

from rookery.draft.remote import Allow
from rookery.learn.rows import Row
from rookery.learn.sample import Sampled

Rewards = Callable[[Sequence[int], Sequence[Sequence[int]]], Sequence[float | None]]
"""from the numbers of contexts, and the tokens said there (without an end token at their end where
they were cut off), to a reward each; None: no answer"""


class Played(NamedTuple):
    """One episode: what was said, step by step, and what it was worth."""

    episode: int
    """its number in the whole run; several may share it, as the answers from one browsing do"""
    rows: Sequence[Sampled]
    """in the order in which they were said"""
    reward: float | None
    """at its end; None: there is no answer, and the settings say what that is worth (the missing
    full stop of Ziegler, the bad syntax of GopherCite)"""
    group: Hashable
    """equal for episodes that knew the same before their first row: where there is no value
    network, the others of a group are what an episode is measured against"""
    extra: bool = False
    """whether it is a part of another, played again (WebGPT, section 3.2: 15 more answers from the
    same quotes): learnt from, and left out where something is measured of whole episodes"""


class Sampler(Protocol):
    """The policy as it is now. All contexts are drawn for together, so give it many."""

    def __call__(
        self,
        contexts: Sequence[Sequence[int]],
        seeds: Sequence[str],
        allow: Sequence[Allow] | None = None,
    ) -> list[Sampled]: ...


class World(Protocol):
    """Where episodes are played. Several processes have a world each, and a share of the episodes.

    What happens in an episode may depend on its number, the seed and the policy alone: not on which
    others are played beside it, nor on what was played before. Then a run goes on after a stop as
    if nothing had been, and several processes learn what one would.
    """

    def play(self, sample: Sampler, episodes: Sequence[int], seed: int) -> list[Played]:
        """These episodes, and their extras, in the order of their numbers."""
        ...


class Prompts:
    """The world of one step: a context, an action, a reward (Ziegler, GopherCite, WebGLM).

    Each context comes once before any comes a second time, in an order drawn from the seed, and
    `group` times in a row. `allow` makes for the number of a context a function from the tokens so
    far to those that may follow. Raises ValueError without a context.
    """

    def __init__(
        self,
        contexts: Sequence[Sequence[int]],
        rewards: Rewards,
        group: int = 1,
        allow: Callable[[int], Allow] | None = None,
    ) -> None:
        if not contexts or group < 1:
            raise ValueError("there must be a context, and a group of one at least")
        self._contexts = contexts
        self._rewards = rewards
        self._group = group
        self._allow = allow

    def play(self, sample: Sampler, episodes: Sequence[int], seed: int) -> list[Played]:
        """One row each."""
        chosen = self._chosen(episodes, seed)
        allow = [self._allow(number) for number in chosen] if self._allow else None
        contexts = [self._contexts[number] for number in chosen]
        said = sample(contexts, [f"{seed} {episode}" for episode in episodes], allow)
        rewards = self._rewards(chosen, [one.row.action for one in said])
        return [
            Played(episode, [one], reward, episode // self._group)
            for episode, one, reward in zip(episodes, said, rewards, strict=True)
        ]

    def _chosen(self, episodes: Sequence[int], seed: int) -> list[int]:
        orders: dict[int, list[int]] = {}
        chosen = []
        for episode in episodes:
            turn, place = divmod(episode // self._group, len(self._contexts))
            if turn not in orders:
                orders[turn] = list(range(len(self._contexts)))
                Random(f"{seed} contexts {turn}").shuffle(orders[turn])
            chosen.append(orders[turn][place])
        return chosen


def chunked(rows: Sequence[Sampled], tokens: int | None) -> list[Sampled]:
    """The rows with actions cut after so many tokens: a later part's context has the parts before.

    So long actions become several (WebGPT, appendix E, "maximum tokens per action").
    """
    if tokens is None:
        return list(rows)
    return [part for row in rows for part in _parts(row, tokens)]


def _parts(said: Sampled, tokens: int) -> list[Sampled]:
    context, action, allowed = said.row
    found = []
    for start in range(0, len(action), tokens):
        end = start + tokens
        row = Row(
            [*context, *action[:start]],
            action[start:end],
            None if allowed is None else allowed[start:end],
        )
        last = end >= len(action)
        found.append(Sampled(row, said.logprobs[start:end], last and said.ended))
    return found

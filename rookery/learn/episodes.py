"""Episodes of reinforcement learning, and the environments that play them.

An episode is a list of rows, each with its own context, since a browser shows its whole state anew
at each step.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from rookery.learn.action_batches import ActionRow
from rookery.learn.decoding import SampledAction, SamplingSettings, sample_actions
from rookery.learn.shared_layers import StateRecorder
from rookery.models.remote_model import AllowedTokens
from rookery.records import Episode


class Trajectory(NamedTuple):
    """One episode as token rows, step by step, with its reward."""

    episode: int
    """its number in the whole run; several may share it, as the answers from one browsing do"""
    rows: Sequence[SampledAction]
    """in the order in which they were said"""
    reward: float | None
    """at its end; None: there is no answer, and the settings say what that is worth (the missing
    full stop of Ziegler)"""
    group: Hashable
    """equal for episodes that knew the same before their first row: where there is no value
    network, the others of a group are what an episode is measured against"""
    extra: bool = False
    """whether it is a part of another, played again (WebGPT, section 3.2: 15 more answers from the
    same quotes): learnt from, and left out where something is measured of whole episodes"""
    malformed: bool = False
    """whether what was said breaks the syntax of answers, so that `reward` is that of the text as
    it stands (GopherCite, appendix F.1)"""
    record: Episode | None = None
    """prompts, texts and answer, `by` nobody; None for extra answers, and where an environment
    keeps none"""

    @property
    def is_answered(self) -> bool:
        """True if it ended with an answer that can be read."""
        return self.reward is not None and not self.malformed

    def compute_score(self, no_answer: float, bad_syntax: float | None) -> float:
        """Return what the episode is worth, as `ReinforcementSettings` say with these names.

        `no_answer` without a reward, and for a malformed answer where `bad_syntax` is None; else
        the reward, less `bad_syntax` for a malformed answer.
        """
        if self.reward is None or (self.malformed and bad_syntax is None):
            return no_answer
        return self.reward - (bad_syntax or 0.0) * self.malformed


class ServerConstraint(msgspec.Struct, frozen=True):
    """A function from the tokens so far to the ids that may follow, and the grammar by which a
    server keeps to the same ids."""

    list_ids: Callable[[Sequence[int]], Iterable[int]]
    grammar: str
    """in llguidance's dialect of Lark"""

    def __call__(self, tokens: Sequence[int]) -> Iterable[int]:
        """Return the ids that may follow these tokens."""
        return self.list_ids(tokens)


class PolicySampler(Protocol):
    """Samples actions from the current policy; give it many contexts at once, since they are
    batched."""

    def __call__(
        self,
        contexts: Sequence[Sequence[int]],
        seeds: Sequence[str],
        allow: Sequence[AllowedTokens] | None = None,
    ) -> list[SampledAction]: ...


def make_policy_sampler(
    model: Any,
    ends: frozenset[int],
    settings: SamplingSettings,
    recorder: StateRecorder | None = None,
) -> PolicySampler:
    """Return a sampler that draws actions from a model, as `sample_actions` does."""
    return lambda contexts, seeds, allow=None: sample_actions(
        model, contexts, seeds, ends, settings, allow, recorder
    )


class RolloutEnvironment(Protocol):
    """Environment in which a policy plays episodes. Each process has its own, and a share of the
    episodes.

    What happens in an episode may depend on its number, the seed and the policy alone: not on which
    others are played beside it, nor on what was played before. Then a run goes on after a stop as
    if nothing had been, and several processes learn what one would.
    """

    def play_episodes(
        self, sample: PolicySampler, episodes: Sequence[int], seed: int
    ) -> list[Trajectory]:
        """Play these episodes with actions drawn by `sample`, and return them with their rewards.

        They are in the order of `episodes`, each followed by its extra answers.
        """
        ...


def split_long_actions(rows: Sequence[SampledAction], tokens: int | None) -> list[SampledAction]:
    """Cut each action into rows of at most `tokens` tokens (WebGPT, appendix E); None: no cut.

    The context of a later part holds the parts before.
    """
    if tokens is None:
        return list(rows)
    return [part for row in rows for part in _split_action(row, tokens)]


def _split_action(sampled: SampledAction, tokens: int) -> list[SampledAction]:
    context, action, allowed = sampled.row
    parts = []
    for start in range(0, len(action), tokens):
        end = start + tokens
        row = ActionRow(
            [*context, *action[:start]],
            action[start:end],
            None if allowed is None else allowed[start:end],
        )
        last = end >= len(action)
        parts.append(SampledAction(row, sampled.logprobs[start:end], last and sampled.ended))
    return parts

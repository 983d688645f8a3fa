"""What a policy earns in a world without learning from it: for questions that were held out.

It knows nothing of how the policy was made.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from rookery.draft.remote import Allow
from rookery.learn.loading import load
from rookery.learn.played import World
from rookery.learn.sample import Sampled, Sampling, sample


def tried(
    folder: Path, world: World, episodes: int, sampling: Sampling, no_answer: float, seed: int = 0
) -> dict[str, float]:
    """Of so many episodes of the policy in this folder the mean `reward`, and the share `answered`.

    `no_answer` is what an episode without an answer counts. Raises Failed as `load` does.
    """
    loaded = load(folder)

    def sampler(
        contexts: Sequence[Sequence[int]],
        seeds: Sequence[str],
        allow: Sequence[Allow] | None = None,
    ) -> list[Sampled]:
        return sample(loaded.model, contexts, seeds, loaded.ends, sampling, allow)

    played = [one for one in world.play(sampler, range(episodes), seed) if not one.extra]
    return {
        "reward": fmean(no_answer if one.reward is None else one.reward for one in played),
        "answered": fmean(one.reward is not None for one in played),
    }

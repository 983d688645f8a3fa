"""A model of this machine as the policy of many sessions at once, which `draft.rollout` drives.

It knows nothing of what is shown and of what follows from what is said.
"""

from collections.abc import Sequence
from pathlib import Path

from rookery.draft.rollout import Act, Turn
from rookery.learn.loading import load
from rookery.learn.sample import Sampled, Sampling, sample
from rookery.learn.worlds_speech import Speech, speech_of
from rookery.records import Completion


def acting(folder: Path, sampling: Sampling = Sampling(), device: str = "") -> Act:
    """The model in this folder, which says something for all turns that wait together.

    What a turn is answered depends on its seed alone, but for the rounding of batches of another
    size. Raises Failed: no_model, bad_model, no_device; and where it is asked, prompt_too_long.
    """
    loaded = load(folder, device)
    speech = speech_of(folder, sampling.tokens)

    def act(turns: Sequence[Turn]) -> list[Completion]:
        contexts = [speech.context(turn.observation.prompt) for turn in turns]
        seeds = [turn.seed for turn in turns]
        said = sample(loaded.model, contexts, seeds, loaded.ends, sampling)
        return [_completion(one, speech) for one in said]

    return act


def _completion(said: Sampled, speech: Speech) -> Completion:
    action = tuple(said.row.action)
    stop = "end" if said.ended else "length"
    return Completion(speech.text(action), action, tuple(said.logprobs), stop)

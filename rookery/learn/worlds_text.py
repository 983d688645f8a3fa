"""Texts that are continued or summed up as a world of one step (Ziegler), and what a policy says
there once it has learnt.

It knows nothing of what a text is worth.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from rookery.learn.labels import Make
from rookery.learn.loading import load
from rookery.learn.played import Prompts, World
from rookery.learn.rows import action_logits, collate, logprobs
from rookery.learn.sample import Sampled, Sampling, sample
from rookery.learn.worlds import Scores, worths
from rookery.learn.worlds_speech import Speech, speech_of
from rookery.records import Answer, Question, Record


class Spoken(Record, frozen=True):
    """What a policy said to a prompt."""

    text: str
    ended: bool
    """whether it ended by itself; else it was cut off"""
    kl: float = 0.0
    """by how much likelier its tokens are to the policy than to its reference, in nats: the mean
    of many estimates the KL, and a single one may be negative"""


def text_world(
    questions: Sequence[Question], shown: Callable[[Question], str], speech: Speech, whole: bool
) -> Make:
    """The world where each question is shown as these words, and what is said is its answer.

    With `whole`, what did not end by itself is no answer (Ziegler, section 3.2: a summary without
    a line break). Raises Failed (prompt_too_long).
    """
    contexts = [speech.context(shown(question)) for question in questions]

    def made(scores: Scores, group: int) -> World:
        def rewards(numbers: Sequence[int], actions: Sequence[Sequence[int]]) -> list[float | None]:
            answers = [answer_of(_told(action, speech), whole) for action in actions]
            asked = [questions[number] for number in numbers]
            return worths(scores, list(zip(asked, answers, strict=True)))

        return Prompts(contexts, rewards, group)

    return made


def answer_of(said: Spoken, whole: bool) -> Answer | None:
    """What was said as an answer; None where nothing was, or, with `whole`, no end to it."""
    return Answer(said.text) if said.text and (said.ended or not whole) else None


def _told(action: Sequence[int], speech: Speech, kl: float = 0.0) -> Spoken:
    return Spoken(speech.text(action).strip(), action[-1] in speech.ends, kl)


def spoken(
    folder: Path, prompts: Sequence[str], sampling: Sampling, reference: str = "", seed: int = 0
) -> list[Spoken]:
    """What the policy in a folder says to each prompt, as it is, without a chat template; the KL is
    0 where no reference is named. Raises Failed as `load` does, and prompt_too_long."""
    loaded, speech = load(folder), speech_of(folder, sampling.tokens, chat=False)
    contexts = [speech.context(prompt) for prompt in prompts]
    seeds = [f"{seed} {number}" for number in range(len(prompts))]
    said = sample(loaded.model, contexts, seeds, loaded.ends, sampling)
    apart = _apart(load(Path(reference)).model, said, sampling) if reference else [0.0] * len(said)
    return [_told(one.row.action, speech, kl) for one, kl in zip(said, apart, strict=True)]


@torch.inference_mode()
def _apart(reference: torch.nn.Module, said: Sequence[Sampled], sampling: Sampling) -> list[float]:
    found = []
    for start in range(0, len(said), sampling.rows):
        piece = said[start : start + sampling.rows]
        batch = collate([one.row for one in piece], 0)
        theirs_BA = logprobs(action_logits(reference, batch, sampling.temperature), batch)
        theirs = theirs_BA.sum(-1).tolist()
        found += [sum(one.logprobs) - other for one, other in zip(piece, theirs, strict=True)]
    return found

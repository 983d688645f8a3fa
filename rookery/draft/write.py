"""From what a policy said to the answer that is given: read, checked, chosen, or declined.

It knows neither libraries nor how a prompt was made. Whatever cannot be shown is a worded failure
of the episode; nothing is shown whose citations point at nothing.
"""

from collections.abc import Callable, Sequence
from importlib.resources import files
from string import Template
from typing import NamedTuple

import msgspec

from rookery.cite.syntax import BadSyntax
from rookery.draft.choose import best_of, mean_logprob
from rookery.records import (
    Answer,
    Episode,
    Failed,
    Failure,
    Policy,
    Question,
    Reward,
    Step,
)

LONGEST = 20_000
"""characters of an answer that are read; a policy that goes on and on has lost its thread"""
Read = Callable[[str], Answer]
"""makes an answer of what was said; raises BadSyntax where it is none"""


class Draft(NamedTuple):
    """One sample: what was asked, what was said, and the answer, or why it is none."""

    step: Step
    answer: Answer | None
    fault: str = ""


def prompt(name: str, **parts: str) -> str:
    """The prompt of this name, from the folder beside this file, with its parts put in."""
    text = files("rookery.draft").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    return Template(text.rstrip("\n")).substitute(parts)


def drafts(policy: Policy, asked: str, n: int, read: Read) -> list[Draft]:
    """n samples of one prompt, read. Raises Failed where the policy does."""
    return [Draft(Step(asked, said), *_read(said.text, read)) for said in policy.complete(asked, n)]


def _read(text: str, read: Read) -> tuple[Answer | None, str]:
    text = text.strip()
    if not text:
        return None, "it said nothing"
    if len(text) > LONGEST:
        return None, f"it said more than {LONGEST:,} characters"
    try:
        answer = read(text)
    except BadSyntax as error:
        return None, str(error)
    if not answer.text.strip():
        return None, "it cites and says nothing"
    if not any(claim.quotes for claim in answer.claims):
        return None, "no sentence of it cites anything"
    return answer, ""


def chosen(
    question: Question,
    by: str,
    drawn: Sequence[Draft],
    reward: Reward | None = None,
    decline: float | None = None,
    failures: Sequence[Failure] = (),
    before: Sequence[Step] = (),
) -> Episode:
    """The best draft under the reward or, without one, under its likelihood; the first of equals.

    With `decline`, an answer that scores less is declined and keeps its quotes. Where no draft is
    an answer, there is none (bad_syntax), and each says why among the failures. `before` are the
    steps that led to the drafts.
    """
    faults = tuple(Failure(by, "bad_syntax", draft.fault) for draft in drawn if draft.fault)
    failures = (*failures, *dict.fromkeys(faults))
    readable = [draft for draft in drawn if draft.answer is not None]
    if not readable:
        steps = (*before, *(draft.step for draft in drawn[:1]))
        return Episode(question, by, steps, None, "bad_syntax", failures)
    best, score = _best(question, readable, reward)
    assert best.answer is not None  # it is readable
    answer = msgspec.structs.replace(best.answer, score=score)
    stop = "end"
    if decline is not None and score < decline:
        answer, stop = msgspec.structs.replace(answer, declined=True), "declined"
    return Episode(question, by, (*before, best.step), answer, stop, failures)


def _best(
    question: Question, readable: Sequence[Draft], reward: Reward | None
) -> tuple[Draft, float]:
    def score(draft: Draft) -> float:
        if reward is None:
            return mean_logprob(draft.step.said)
        return reward(question, draft.answer) if draft.answer else float("nan")

    try:
        choice = best_of(readable, score)
    except Failed:  # nothing tells them apart
        return readable[0], 0.0
    return readable[choice.number], choice.score


def failed(question: Question, by: str, error: Failed, before: Sequence[Step] = ()) -> Episode:
    """The episode of a policy that could not be asked."""
    return Episode(question, by, tuple(before), None, "policy_failed", (error.failure,))

"""From what a policy said to the answer that is given: read, checked, chosen, or declined.

It knows neither libraries nor how a prompt was made. Whatever cannot be shown is a worded failure
of the episode; nothing is shown whose citations point at nothing.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from string import Template
from typing import NamedTuple

import msgspec

from rookery.cite.syntax import BadSyntax
from rookery.draft.choose import Choice, Stopping, choose_sequentially, mean_logprob
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
    every = policy.complete(asked, n)
    return [Draft(Step(asked, said), *reading(said.text, read)) for said in every]


def reading(text: str, read: Read) -> tuple[Answer | None, str]:
    """The answer that a text is, or why it is none."""
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


class Choosing(msgspec.Struct, frozen=True):
    """How many samples are drawn, which becomes the answer, and whether that is good enough."""

    samples: int = 1
    """at most (WebGPT, section 3.2; GopherCite, section 2.3: N)"""
    reward: Reward | None = None
    """what scores an answer; None: how likely it was, token by token"""
    worth: float = 0.0
    """by how much one more sample must be expected to raise the score, or no more are drawn; 0:
    all are"""
    decline: float | None = None
    """the score below which an answer is declined"""

    def stopping(self) -> Stopping:
        """The same as `choose_sequentially` reads it."""
        few = min(FEW, self.samples) if self.worth else self.samples
        return Stopping(self.worth, self.samples, few, FEW)


FEW = 4
"""samples that are drawn together where they may be enough"""


def answered(
    question: Question,
    by: str,
    sample: Callable[[int], Iterable[Draft]],
    choosing: Choosing,
    failures: Sequence[Failure] = (),
    before: Sequence[Step] = (),
) -> Episode:
    """The best of what `sample(n)`, called once or more often, draws; the first of equals.

    An answer that scores too little is declined and keeps its quotes. Where no draft is an answer,
    there is none (bad_syntax), and each says why among the failures; where the policy cannot be
    asked, what it said before that is chosen from, or there is none (policy_failed). `before` are
    the steps that led to the drafts.
    """
    drawn: list[Draft] = []
    broken: list[Failure] = []

    def draw(n: int) -> Sequence[Draft]:
        known = len(drawn)
        try:
            for draft in sample(n):
                drawn.append(draft)  # one by one: what came before a failure is kept
        except Failed as error:
            broken.append(error.failure)
        return drawn[known:]

    choice = _choice(draw, question, choosing)
    faults = (Failure(by, "bad_syntax", draft.fault) for draft in drawn if draft.fault)
    failures = (*failures, *dict.fromkeys(faults), *broken, *_saved(by, choice, choosing))
    best = choice.chosen if choice else next((draft for draft in drawn if draft.answer), None)
    if best is None or best.answer is None:
        steps = (*before, *(draft.step for draft in drawn[:1]))
        return Episode(
            question, by, steps, None, "policy_failed" if broken else "bad_syntax", failures
        )
    answer = msgspec.structs.replace(best.answer, score=choice.score if choice else None)
    stop = "end"
    score = -math.inf if answer.score is None else answer.score
    if choosing.decline is not None and score < choosing.decline:
        answer, stop = msgspec.structs.replace(answer, declined=True), "declined"
    return Episode(question, by, (*before, best.step), answer, stop, failures)


def _choice(
    draw: Callable[[int], Sequence[Draft]], question: Question, choosing: Choosing
) -> Choice[Draft] | None:
    """The draft with the highest score; none where nothing tells them apart."""

    def score(draft: Draft) -> float:
        if draft.answer is None:
            return math.nan
        if choosing.reward is None:
            return mean_logprob(draft.step.said)
        return choosing.reward(question, draft.answer)

    try:
        return choose_sequentially(draw, score, choosing.stopping())
    except Failed:
        return None


def _saved(by: str, choice: Choice[Draft] | None, choosing: Choosing) -> tuple[Failure, ...]:
    if choice is None or choice.stop != "enough":
        return ()
    detail = (
        f"{len(choice.scores)} of {choosing.samples} samples were drawn, {choice.saved:.0%} saved: "
        f"another was not expected to raise the score by {choosing.worth:g}"
    )
    return (Failure(by, "stopped_early", detail),)


def failed(question: Question, by: str, error: Failed, before: Sequence[Step] = ()) -> Episode:
    """The episode of a policy that could not be asked."""
    return Episode(question, by, tuple(before), None, "policy_failed", (error.failure,))

"""Best-of-n: sample answers from a policy, parse and score them, choose the best, or decline.

Also called rejection sampling (WebGPT, section 3.2) and reranking (GopherCite, section 2.8).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from itertools import islice
from pathlib import Path
from statistics import fmean
from string import Template
from typing import NamedTuple

import msgspec

from rookery.errors import Failed, Outcome
from rookery.python_objects import PYTHON_PREFIX, OwnReward, load_own_object
from rookery.quotes.citation_syntax import CitationSyntaxError, UnsupportedAnswerError
from rookery.records import Answer, Completion, Episode, Failure, Policy, Question, Reward, Step


class ScoredChoice(msgspec.Struct, frozen=True):
    """The chosen one of several answers, and the scores of all."""

    chosen: Answer
    number: int
    """index of the chosen answer from 0; the first of equal scores is chosen"""
    scores: tuple[float, ...]
    """scores of all answers, in order; one that is not finite means no score"""

    @property
    def score(self) -> float:
        """Score of the chosen answer, which is compared with the threshold for declining."""
        return self.scores[self.number]


def choose_best_answer(
    question: Question, answers: Sequence[Answer], reward: Reward
) -> ScoredChoice:
    """Choose the answer with the highest reward (best of n); the first one of equal rewards.

    An answer whose reward is not finite is never chosen. Raises Failed (no_score) where no answer
    has a finite reward.
    """
    scores = tuple(reward(question, answer) for answer in answers)
    usable = [number for number, score in enumerate(scores) if math.isfinite(score)]
    if not usable:
        detail = "there is no answer: draw at least one"
        if scores:
            detail = f"none of {len(scores)} answers has a finite score: check what scores them"
        raise Failed(Failure("choosing an answer", Outcome.NO_SCORE, detail))
    number = max(usable, key=lambda number: scores[number])
    return ScoredChoice(answers[number], number, scores)


def load_reward(name: str, question: Question | None = None, others: str = "") -> OwnReward:
    """Return the reward that a name names: python:package.module.function, or the folder of a
    reward model.

    An own function scores an example of an answer to the `question`, if one is given. `others` are
    further names, which the message for an unknown one lists. Raises OwnCodeError for
    what is wrong with it, and Failed: not_found, not_usable, bad_model.
    """
    if name.startswith(PYTHON_PREFIX):
        lacks = "is no function of (question, answer), as a reward is"
        reward = OwnReward(load_own_object(name, ("__call__",), lacks), name)
        return reward.score_example(question) if question else reward
    if not Path(name).is_dir():
        detail = (
            f"there is no such reward and no such folder: name {others}the folder of a reward "
            "model, or a function of your own, python:package.module.function"
        )
        raise Failed(Failure(name, Outcome.NOT_FOUND, detail))
    from rookery.learn.reward_model import RewardModel

    return OwnReward(RewardModel(Path(name)), name)


def mean_logprob(completion: Completion) -> float:
    """Return the mean log-probability of a token; NaN where the completion has none."""
    return fmean(completion.logprobs) if completion.logprobs else math.nan


MAX_ANSWER_CHARACTERS = 20_000
"""maximum characters of a completion that is parsed as an answer; longer ones are degenerate"""
AnswerParser = Callable[[str], Answer]
"""parses a completion's text as an answer; raises CitationSyntaxError where it is none"""


class AnswerDraft(NamedTuple):
    """One sample: its prompt and completion, and the answer parsed from it."""

    step: Step
    answer: Answer | None
    """None where the completion is no answer"""
    fault: str = ""
    """reason why it is no answer; empty where it is one"""
    outcome: str = Outcome.BAD_SYNTAX
    """kind of this reason"""


def render_prompt(name: str, **parts: str) -> str:
    """Fill in a prompt template: `name` is a file in rookery/answers/prompts, without its .txt.

    The template's last line breaks are left out. Raises KeyError where `parts` lacks one of its
    names, and FileNotFoundError where there is no such file.
    """
    text = files("rookery.answers").joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    return Template(text.rstrip("\n")).substitute(parts)


def sample_drafts(policy: Policy, prompt: str, n: int, read: AnswerParser) -> list[AnswerDraft]:
    """Sample n completions of one prompt and parse each into a draft, in their order.

    A draft without an answer says why in `fault`. Raises Failed where the policy does.
    """
    every = policy.complete(prompt, n)
    return [AnswerDraft(Step(prompt, said), *parse_draft(said.text, read)) for said in every]


def parse_draft(text: str, read: AnswerParser) -> tuple[Answer | None, str, str]:
    """Parse a completion's text: return the answer and "", or None and the reason; and its kind.

    Empty and overlong texts, bad citation syntax and answers without any citation are no answers
    (bad_syntax), nor is what its quotes do not support (unsupported).
    """
    bad = Outcome.BAD_SYNTAX
    text = text.strip()
    if not text:
        return None, "it said nothing", bad
    if len(text) > MAX_ANSWER_CHARACTERS:
        return None, f"it said more than {MAX_ANSWER_CHARACTERS:,} characters", bad
    try:
        answer = read(text)
    except UnsupportedAnswerError as error:
        return None, str(error), Outcome.UNSUPPORTED
    except CitationSyntaxError as error:
        return None, str(error), bad
    if not answer.text.strip():
        return None, "it cites and says nothing", bad
    if not any(claim.quotes for claim in answer.claims):
        return None, "no sentence of it cites anything", bad
    return answer, "", bad


AnswerChooser = Callable[[Question, Sequence[Answer]], tuple[int, tuple[Step, ...]]]
"""returns the index of the best of some answers, and the steps in which a model chose it"""


class BestOfNSettings(msgspec.Struct, frozen=True):
    """Settings of best-of-n: number of samples, reward, and threshold for declining."""

    samples: int = 1
    """maximum number of samples (WebGPT, section 3.2; GopherCite, section 2.3: N)"""
    reward: Reward | None = None
    """reward that scores an answer; None: mean log-probability of a token"""
    decline: float | None = None
    """score below which an answer is declined; None: never"""
    choose: AnswerChooser | None = None
    """chooses among answers with different texts, those with the best scores first; None: the first
    of these"""


def answer_with_best_draft(
    question: Question,
    by: str,
    sample: Callable[[int], Iterable[AnswerDraft]],
    choosing: BestOfNSettings,
    failures: Sequence[Failure] = (),
    before: Sequence[Step] = (),
) -> Episode:
    """Choose the best of the drafts that `sample(n)` draws, and return it as an episode.

    An answer that scores below `choosing.decline` is declined and keeps its quotes. Where no draft
    has a score the first answer is taken, and declined if there is a threshold. What
    `choosing.choose` chooses keeps its own score. A policy that fails ends the sampling, and the
    drafts drawn before are chosen from. Where no draft is an answer, the stop is policy_failed
    after such a failure, unsupported if one could be read, else bad_syntax. The episode's steps
    are `before`, those of the choice, then the chosen draft's, or the first one's where none is an
    answer. Its failures are the given `failures`, the reasons why drafts are no answers, and the
    policy's failure.
    """
    drafts, broken = list[AnswerDraft](), list[Failure]()
    try:
        for draft in islice(sample(choosing.samples), choosing.samples):
            drafts.append(draft)  # one by one, to keep those before a failure
    except Failed as error:
        broken.append(error.failure)
    faults = (Failure(by, draft.outcome, draft.fault) for draft in drafts if draft.fault)
    try:
        scores = _score_drafts(question, drafts, choosing.reward)
    except Failed:
        scores = [-math.inf] * len(drafts)
    ranked = [
        (draft, draft.answer, score)
        for draft, score in zip(drafts, scores, strict=True)
        if draft.answer
    ]
    ranked.sort(key=lambda each: each[2], reverse=True)  # of equal scores the first stays first
    ranked = list({each[1].text: each for each in reversed(ranked)}.values())[::-1]
    number, chooser_steps = 0, tuple[Step, ...]()
    if choosing.choose and len(ranked) > 1:
        try:
            number, chooser_steps = choosing.choose(question, [answer for _, answer, _ in ranked])
        except Failed as error:
            broken.append(error.failure)
    failures = (*failures, *dict.fromkeys(faults), *broken)
    if not ranked:
        steps = (*before, *(draft.step for draft in drafts[:1]))
        read = any(draft.outcome == Outcome.UNSUPPORTED for draft in drafts)
        outcome = Outcome.UNSUPPORTED if read else Outcome.BAD_SYNTAX
        outcome = Outcome.POLICY_FAILED if broken else outcome
        return Episode(question, by, steps, None, outcome, failures)
    best, answer, score = ranked[number]
    answer = msgspec.structs.replace(answer, score=score if math.isfinite(score) else None)
    stop = "end"
    if choosing.decline is not None and score < choosing.decline:
        answer, stop = msgspec.structs.replace(answer, declined=True), "declined"
    return Episode(question, by, (*before, *chooser_steps, best.step), answer, stop, failures)


def _score_drafts(
    question: Question, drafts: Sequence[AnswerDraft], reward: Reward | None
) -> list[float]:
    """Score drafts; minus infinity where one is no answer, or has no finite score."""
    pairs = [(question, draft.answer) for draft in drafts if draft.answer is not None]
    rewards = iter(OwnReward(reward).score_answers(pairs) if reward else ())
    scores = []
    for draft in drafts:
        score = -math.inf
        if draft.answer is not None:
            score = next(rewards) if reward else mean_logprob(draft.step.said)
        scores.append(score if math.isfinite(score) else -math.inf)
    return scores


def make_failed_episode(
    question: Question, by: str, error: Failed, before: Sequence[Step] = ()
) -> Episode:
    """Make an episode without an answer for a policy that failed, with the steps `before` that."""
    return Episode(question, by, tuple(before), None, Outcome.POLICY_FAILED, (error.failure,))

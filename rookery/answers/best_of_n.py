"""Best-of-n: sample answers from a policy, parse and score them, choose the best, or decline.

Also called rejection sampling (WebGPT, section 3.2) and reranking (GopherCite, section 2.8). All
samples are drawn at once, or one after another until a further one is not expected to pay.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from string import Template
from typing import Generic, Literal, NamedTuple, TypeVar

import msgspec

from rookery.errors import Failed, Outcome
from rookery.quotes.citation_syntax import CitationSyntaxError
from rookery.records import Answer, Completion, Episode, Failure, Policy, Question, Reward, Step

T = TypeVar("T")

SamplingStop = Literal["enough", "most", "exhausted"]


class ScoredChoice(msgspec.Struct, Generic[T], frozen=True):
    """The chosen one of several candidates, and the scores of all."""

    chosen: T
    number: int
    """index of the chosen candidate from 0; the first of equal scores is chosen"""
    scores: tuple[float, ...]
    """scores of all candidates, in order; one that is not finite means no score"""
    stop: SamplingStop = "most"
    """reason to draw no more: "enough", another was not expected to pay; "most", the maximum was
    reached; "exhausted", the sampler had no more"""
    saved: float = 0.0
    """share of the maximum number of candidates that was not drawn"""

    @property
    def score(self) -> float:
        """Score of the chosen candidate, which is compared with the threshold for declining."""
        return self.scores[self.number]


class StoppingRule(msgspec.Struct, frozen=True):
    """Settings of sequential sampling: the cost of a sample, and the numbers to draw."""

    cost: float
    """cost of one more answer, in units of the reward; with 0 the maximum is drawn"""
    most: int = 64
    """maximum number of answers; WebGPT and GopherCite draw 64"""
    least: int = 4
    """answers that are drawn first, before the rule is applied"""
    batch: int = 1
    """answers that are drawn at a time after these"""
    spread: float = 0.0
    """prior standard deviation of the reward among answers to one question; 0: no prior"""
    weight: int = 2
    """weight of the prior, in numbers of answers"""

    def __post_init__(self) -> None:
        if min(self.most, self.least, self.batch) < 1:
            raise ValueError("most, least and batch are numbers of answers: at least 1 each")


def choose_best(candidates: Sequence[T], score: Callable[[T], float]) -> ScoredChoice[T]:
    """Choose the candidate with the highest score: `choose_best(completions, mean_logprob)`.

    A candidate whose score is not finite is never chosen. Raises Failed (no_score) where no
    candidate has a finite score.
    """
    scores = tuple(map(score, candidates))
    number = _index_of_best(scores)
    return ScoredChoice(candidates[number], number, scores)


def choose_best_answer(
    question: Question, answers: Sequence[Answer], reward: Reward
) -> ScoredChoice[Answer]:
    """Choose the answer with the highest reward (best of n).

    Raises Failed (no_score) where no answer has a finite reward.
    """
    return choose_best(answers, lambda answer: reward(question, answer))


def sum_logprob(*completions: Completion) -> float:
    """Sum the log-probabilities of all tokens of these completions; 0 for no completion.

    NaN where a completion has none, so that a missing probability is not taken for certainty.
    """
    if not all(completion.logprobs for completion in completions):
        return math.nan
    return math.fsum(p for completion in completions for p in completion.logprobs)


def mean_logprob(*completions: Completion) -> float:
    """Return the mean log-probability per token; NaN where a completion has none."""
    tokens = sum(len(completion.logprobs) for completion in completions)
    return sum_logprob(*completions) / tokens if tokens else math.nan


def choose_sequentially(
    sample: Callable[[int], Sequence[T]], score: Callable[[T], float], settings: StoppingRule
) -> ScoredChoice[T]:
    """Draw candidates while a further one is expected to gain its cost, and choose the best.

    `sample(n)` draws n more, or fewer where there are no more. `settings.least` are drawn first,
    then `settings.batch` at a time, `settings.most` in total. The stopping rule is that of search
    with recall (Weitzman's reservation price, looking one step ahead), with the distribution of
    scores estimated on the way by `compute_expected_gain`. Raises Failed (no_score) where no
    candidate has a finite score.
    """
    candidates: list[T] = []
    scores: list[float] = []
    stop: SamplingStop = "most"
    while (samples_left := settings.most - len(candidates)) and stop == "most":
        batch_size = min(settings.batch if candidates else settings.least, samples_left)
        sampled = sample(batch_size)[:batch_size]
        candidates += sampled
        scores += map(score, sampled)
        if len(sampled) < batch_size:
            stop = "exhausted"
        elif batch_size < samples_left and _estimate_gain(scores, settings) < settings.cost:
            stop = "enough"
    number = _index_of_best(scores)
    saved = 1 - len(candidates) / settings.most
    return ScoredChoice(candidates[number], number, tuple(scores), stop, saved)


def _estimate_gain(scores: Sequence[float], settings: StoppingRule) -> float:
    return compute_expected_gain(scores, settings.spread, settings.weight)


def compute_expected_gain(scores: Sequence[float], spread: float = 0.0, weight: int = 2) -> float:
    """Return the expected improvement of one more score over the best of these, at least 0.

    Scores are modelled as normal with unknown mean and variance, so that the next one follows
    Student's t; the prior of the variance is `spread` squared with the weight of `weight` scores.
    Infinite where too few scores are known. A score that is not finite means no score, and lowers
    the estimated chance that the next candidate has one.
    """
    finite = [score for score in scores if math.isfinite(score)]
    count = len(finite)
    freedom = count - 1 + (weight if spread else 0)
    if not count or freedom < 2:
        return math.inf
    mean = math.fsum(score / count for score in finite)
    apart = math.hypot(math.dist(finite, [mean] * count), spread * math.sqrt(weight))
    scale = apart * math.sqrt((1 + 1 / count) / freedom)
    return _expected_excess(max(finite) - mean, scale, freedom) * count / len(scores)


def _expected_excess(over: float, scale: float, freedom: int) -> float:
    """Return E[max(0, scale * T - over)] for Student's t with `freedom` >= 2 degrees of freedom."""
    if scale == 0:
        return 0.0
    z = over / scale
    log_height = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    log_height -= math.log(freedom * math.pi) / 2
    density = math.exp(log_height - (freedom + 1) / 2 * math.log1p(z * z / freedom))
    inside = (freedom + z * z) / (freedom - 1) * density
    return scale * max(0.0, inside - z * _student_t_tail(z, freedom))


def _student_t_tail(z: float, freedom: int) -> float:
    """Return P(T > z) for Student's t, by a finite series (Abramowitz and Stegun, 26.7.3-4)."""
    angle = math.atan(z / math.sqrt(freedom))
    power = freedom % 2
    term, total = math.cos(angle) ** power, 0.0
    for exponent in range(power, freedom - 1, 2):
        total += term
        term *= (exponent + 1) / (exponent + 2) * math.cos(angle) ** 2
    inside = total * math.sin(angle)
    return (1 - (2 / math.pi * (angle + inside) if power else inside)) / 2


def _index_of_best(scores: Sequence[float]) -> int:
    usable = [number for number, score in enumerate(scores) if math.isfinite(score)]
    if not usable:
        detail = "there is no answer: draw at least one"
        if scores:
            detail = f"none of {len(scores)} answers has a finite score: check what scores them"
        raise Failed(Failure("choosing an answer", Outcome.NO_SCORE, detail))
    return max(usable, key=lambda number: scores[number])


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


def parse_draft(text: str, read: AnswerParser) -> tuple[Answer | None, str]:
    """Parse a completion's text: return the answer and "", or None and the reason.

    Empty and overlong texts, bad citation syntax and answers without any citation are no answers.
    """
    text = text.strip()
    if not text:
        return None, "it said nothing"
    if len(text) > MAX_ANSWER_CHARACTERS:
        return None, f"it said more than {MAX_ANSWER_CHARACTERS:,} characters"
    try:
        answer = read(text)
    except CitationSyntaxError as error:
        return None, str(error)
    if not answer.text.strip():
        return None, "it cites and says nothing"
    if not any(claim.quotes for claim in answer.claims):
        return None, "no sentence of it cites anything"
    return answer, ""


AnswerChooser = Callable[[Question, Sequence[Answer]], tuple[int, tuple[Step, ...]]]
"""returns the index of the best of some answers, and the steps in which a model chose it"""


class BestOfNSettings(msgspec.Struct, frozen=True):
    """Settings of best-of-n: number of samples, reward, and threshold for declining."""

    samples: int = 1
    """maximum number of samples (WebGPT, section 3.2; GopherCite, section 2.3: N)"""
    reward: Reward | None = None
    """reward that scores an answer; None: mean log-probability of a token"""
    worth: float = 0.0
    """improvement of the score that one more sample must be expected to bring, or sampling stops;
    0: draw the maximum"""
    decline: float | None = None
    """score below which an answer is declined; None: never"""
    choose: AnswerChooser | None = None
    """chooses among answers with different texts, those with the best scores first; None: the first
    of these"""

    def to_stopping_rule(self) -> StoppingRule:
        """Convert to the settings of `choose_sequentially`; without `worth`, it draws once."""
        few = min(FIRST_SAMPLES, self.samples) if self.worth else self.samples
        return StoppingRule(self.worth, self.samples, few, FIRST_SAMPLES)


FIRST_SAMPLES = 4
"""samples that are drawn at a time where sampling may stop early"""


def answer_with_best_draft(
    question: Question,
    by: str,
    sample: Callable[[int], Iterable[AnswerDraft]],
    choosing: BestOfNSettings,
    failures: Sequence[Failure] = (),
    before: Sequence[Step] = (),
) -> Episode:
    """Choose the best of the drafts that `sample(n)` draws, and return it as an episode.

    `sample` is called once, or several times where `choosing.worth` allows sampling to stop early.
    An answer that scores below `choosing.decline` is declined and keeps its quotes. Where no draft
    has a score the first answer is taken, and declined if there is a threshold. What
    `choosing.choose` chooses keeps its own score. A policy that fails ends the sampling, and the
    drafts drawn before are chosen from. Where no draft is an answer, the stop is policy_failed
    after such a failure, else bad_syntax. The episode's steps are `before`, those of the choice,
    then the chosen draft's, or the first one's where none is an answer. Its failures are the given
    `failures`, the reasons why drafts are no answers, the policy's failure, and stopped_early.
    """
    drafts: list[AnswerDraft] = []
    broken: list[Failure] = []

    def draw_drafts(n: int) -> Sequence[AnswerDraft]:
        known = len(drafts)
        try:
            for draft in sample(n):
                drafts.append(draft)  # one by one, to keep those before a failure
        except Failed as error:
            broken.append(error.failure)
        return drafts[known:]

    choice = _choose_draft(draw_drafts, question, choosing)
    faults = (Failure(by, Outcome.BAD_SYNTAX, draft.fault) for draft in drafts if draft.fault)
    saved = _report_saved_samples(by, choice, choosing)
    scores = choice.scores if choice else (-math.inf,) * len(drafts)
    ranked = [
        (draft, draft.answer, score if math.isfinite(score) else -math.inf)
        for draft, score in zip(drafts, scores, strict=False)
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
    failures = (*failures, *dict.fromkeys(faults), *broken, *saved)
    if not ranked:
        steps = (*before, *(draft.step for draft in drafts[:1]))
        outcome = Outcome.POLICY_FAILED if broken else Outcome.BAD_SYNTAX
        return Episode(question, by, steps, None, outcome, failures)
    best, answer, score = ranked[number]
    answer = msgspec.structs.replace(answer, score=score if math.isfinite(score) else None)
    stop = "end"
    if choosing.decline is not None and score < choosing.decline:
        answer, stop = msgspec.structs.replace(answer, declined=True), "declined"
    return Episode(question, by, (*before, *chooser_steps, best.step), answer, stop, failures)


def _choose_draft(
    draw: Callable[[int], Sequence[AnswerDraft]], question: Question, choosing: BestOfNSettings
) -> ScoredChoice[AnswerDraft] | None:
    """Choose the draft with the highest score; None where no draft has a finite score."""

    def score(draft: AnswerDraft) -> float:
        if draft.answer is None:
            return math.nan
        if choosing.reward is None:
            return mean_logprob(draft.step.said)
        return choosing.reward(question, draft.answer)

    try:
        return choose_sequentially(draw, score, choosing.to_stopping_rule())
    except Failed:
        return None


def _report_saved_samples(
    by: str, choice: ScoredChoice[AnswerDraft] | None, choosing: BestOfNSettings
) -> tuple[Failure, ...]:
    if choice is None or choice.stop != "enough":
        return ()
    detail = (
        f"{len(choice.scores)} of {choosing.samples} samples were drawn, {choice.saved:.0%} saved: "
        f"another was not expected to raise the score by {choosing.worth:g}"
    )
    return (Failure(by, Outcome.STOPPED_EARLY, detail),)


def make_failed_episode(
    question: Question, by: str, error: Failed, before: Sequence[Step] = ()
) -> Episode:
    """Make an episode without an answer for a policy that failed, with the steps `before` that."""
    return Episode(question, by, tuple(before), None, Outcome.POLICY_FAILED, (error.failure,))

"""The best of several answers, all drawn at once or one after another until more would not pay.

Also called rejection sampling (WebGPT, section 3.2) and reranking (GopherCite, section 2.8). Knows
nothing of models: a reward scores answers, and a function that is passed in draws them.
"""

import math
from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

import msgspec

from rookery.records import Answer, Completion, Failed, Failure, Question, Reward

T = TypeVar("T")

Stop = Literal["enough", "most", "exhausted"]


class Choice(msgspec.Struct, Generic[T], frozen=True):
    """One of several candidates, and how all of them scored."""

    chosen: T
    number: int
    """of the chosen candidate, counted from 0; of equal scores the first is taken"""
    scores: tuple[float, ...]
    """of every candidate, in order; one that is not finite stands for no score"""
    stop: Stop = "most"
    """why no more were drawn: "enough", another would not pay; "most", all were drawn that might
    be; "exhausted", there were no more"""
    saved: float = 0.0
    """share of the most allowed that was not drawn"""

    @property
    def score(self) -> float:
        """Of the chosen candidate: what a threshold for declining is compared with."""
        return self.scores[self.number]


class Stopping(msgspec.Struct, frozen=True):
    """When to draw no more answers."""

    cost: float
    """what one more answer costs, in units of the reward; 0 draws them all"""
    most: int = 64
    """as many as WebGPT and GopherCite draw"""
    least: int = 4
    """answers that are drawn before anything is concluded"""
    batch: int = 1
    """answers that are drawn together after these"""
    spread: float = 0.0
    """standard deviation of the reward among answers to one question, as other questions show it;
    0 where that is not known"""
    weight: int = 2
    """answers to this question that count as much as that knowledge"""

    def __post_init__(self) -> None:
        if min(self.most, self.least, self.batch) < 1:
            raise ValueError("most, least and batch are numbers of answers: at least 1 each")


def best_of(candidates: Sequence[T], score: Callable[[T], float]) -> Choice[T]:
    """The candidate with the highest score: `best_of(completions, mean_logprob)`.

    A score that is not a finite number is none, and its candidate is never chosen. Raises Failed
    where there is no candidate, or none has a score.
    """
    scores = tuple(map(score, candidates))
    number = _best(scores)
    return Choice(candidates[number], number, scores)


def best(question: Question, answers: Sequence[Answer], reward: Reward) -> Choice[Answer]:
    """Best of n: the answer with the highest reward.

    Raises Failed where there is no answer, or where none has a finite reward.
    """
    return best_of(answers, lambda answer: reward(question, answer))


def sum_logprob(*said: Completion) -> float:
    """How likely it was that a policy says all this: the sum of the log-probabilities.

    Not a number where a policy gave none, so that silence is not taken for certainty.
    """
    given = all(completion.logprobs for completion in said)
    return math.fsum(p for completion in said for p in completion.logprobs) if given else math.nan


def mean_logprob(*said: Completion) -> float:
    """The same for each token, so that length does not count; not a number where there is none."""
    tokens = sum(len(completion.logprobs) for completion in said)
    return sum_logprob(*said) / tokens if tokens else math.nan


def choose_sequentially(
    sample: Callable[[int], Sequence[T]], score: Callable[[T], float], settings: Stopping
) -> Choice[T]:
    """The best of as many candidates as pay: one more is drawn while it may gain what it costs.

    `sample(n)` draws n more, or fewer where there are no more. The stopping rule is that of search
    with recall (Weitzman's reservation price, looking one step ahead), with the distribution of
    scores learnt on the way: see `expected_gain`. Raises Failed (no_score) where nothing is drawn
    or nothing has a finite score.
    """
    candidates: list[T] = []
    scores: list[float] = []
    stop: Stop = "most"
    while (left := settings.most - len(candidates)) and stop == "most":
        wanted = min(settings.batch if candidates else settings.least, left)
        drawn = sample(wanted)[:wanted]
        candidates += drawn
        scores += map(score, drawn)
        if len(drawn) < wanted:
            stop = "exhausted"
        elif wanted < left and _gain(scores, settings) < settings.cost:
            stop = "enough"
    number = _best(scores)
    saved = 1 - len(candidates) / settings.most
    return Choice(candidates[number], number, tuple(scores), stop, saved)


def _gain(scores: Sequence[float], settings: Stopping) -> float:
    return expected_gain(scores, settings.spread, settings.weight)


def expected_gain(scores: Sequence[float], spread: float = 0.0, weight: int = 2) -> float:
    """By how much one more score is expected to exceed the best of these, 0 where it does not.

    Scores are taken as normal with unknown mean and variance, so that the next one follows
    Student's t; the variance was seen as `spread` squared on `weight` scores before, if at all.
    Infinite where too few scores are known. What is not finite stands for no score, and lowers
    the chance that the next one has any.
    """
    finite = [score for score in scores if math.isfinite(score)]
    known = len(finite)
    freedom = known - 1 + (weight if spread else 0)
    if not known or freedom < 2:
        return math.inf
    mean = math.fsum(score / known for score in finite)
    apart = math.hypot(math.dist(finite, [mean] * known), spread * math.sqrt(weight))
    scale = apart * math.sqrt((1 + 1 / known) / freedom)
    return _gain_of_t(max(finite) - mean, scale, freedom) * known / len(scores)


def _gain_of_t(over: float, scale: float, freedom: int) -> float:
    """The mean of what Student's t, times `scale`, exceeds `over` by; for 2 degrees or more."""
    if scale == 0:
        return 0.0
    z = over / scale
    log_height = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    log_height -= math.log(freedom * math.pi) / 2
    density = math.exp(log_height - (freedom + 1) / 2 * math.log1p(z * z / freedom))
    return scale * max(0.0, (freedom + z * z) / (freedom - 1) * density - z * _above(z, freedom))


def _above(z: float, freedom: int) -> float:
    """P(T > z) for Student's t: the finite series (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(z / math.sqrt(freedom))
    power = freedom % 2
    term, total = math.cos(angle) ** power, 0.0
    for exponent in range(power, freedom - 1, 2):
        total += term
        term *= (exponent + 1) / (exponent + 2) * math.cos(angle) ** 2
    inside = total * math.sin(angle)
    return (1 - (2 / math.pi * (angle + inside) if power else inside)) / 2


def _best(scores: Sequence[float]) -> int:
    usable = [number for number, score in enumerate(scores) if math.isfinite(score)]
    if not usable:
        detail = "there is no answer: draw at least one"
        if scores:
            detail = f"none of {len(scores)} answers has a finite score: check what scores them"
        raise Failed(Failure("choosing an answer", "no_score", detail))
    return max(usable, key=lambda number: scores[number])

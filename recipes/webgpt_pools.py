"""Samples of the WebGPT recipe, judged by the known answers and by two reward models; and its
figures."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from recipes.measures import estimate_best_of_n_gain
from recipes.webgpt_floors import SCRIPT
from recipes.webgpt_stages import Samples
from rookery.learn.reward_model import RewardModel
from rookery.learn.rollout_environments import BatchRewardFunction, compute_answer_rewards
from rookery.library.question_files import is_correct_answer
from rookery.measure.figures import Figure, make_bars_figure
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.measure.pairwise import PairwiseMatch, make_win_rate_figure
from rookery.measure.reward_frontiers import (
    estimate_best_of_n_curve,
    make_best_of_n_figure,
    make_compute_figure,
)
from rookery.records import Question, Record

NO_ANSWER_REWARD = -1e9
"""Reward of a sample that is no answer, so that it is never chosen."""
CLONED_POLICY, PPO_POLICY = "cloned", "PPO"
SampleNumbers = list[list[float]]
"""A number for each sample of each question."""


class JudgedSamples(Record, frozen=True):
    """Samples of each question with three judgements."""

    right: SampleNumbers
    """1 or 0, by the known answers."""
    reward: SampleNumbers
    """Reward by which the best sample is chosen."""
    validation: SampleNumbers
    """Log-odds by the reward model that learnt from other questions; a sample that is no answer
    gets the lowest value seen."""


def judge_samples(
    questions: Sequence[Question],
    samples: Samples,
    reward: BatchRewardFunction,
    validation: BatchRewardFunction,
) -> JudgedSamples:
    """Judge samples by the known answers and by both reward models."""
    right = [
        [float(is_correct_answer(question, answer)) for answer in answers]
        for question, answers in zip(questions, samples, strict=True)
    ]
    validation_scores = _score_samples(questions, samples, validation)
    worst = min(
        (each for row in validation_scores for each in row if each != NO_ANSWER_REWARD), default=0.0
    )
    return JudgedSamples(
        right,
        _score_samples(questions, samples, reward),
        [[max(each, worst) for each in row] for row in validation_scores],
    )


def _score_samples(
    questions: Sequence[Question], samples: Samples, scores: BatchRewardFunction
) -> SampleNumbers:
    pairs = zip(questions, samples, strict=True)
    rewards = iter(
        compute_answer_rewards(scores, [(one, answer) for one, some in pairs for answer in some])
    )
    return [
        [NO_ANSWER_REWARD if (one := next(rewards)) is None else one for _ in some]
        for some in samples
    ]


def make_log_odds_scorer(reward: Path) -> BatchRewardFunction:
    """Return a function that scores answers with a reward model, scaled so that differences are
    log-odds."""
    scorer = RewardModel(reward)
    return lambda pairs: [scorer.scale.odds * each for each in scorer.score_answers(pairs)]


def rate_best_of_n(pool: JudgedSamples, n: int) -> list[float]:
    """Return for each question the share of correct answers when the best by reward is chosen of
    every n successive samples."""
    return [fmean(_rate_chosen(*each, n)) for each in zip(pool.reward, pool.right, strict=True)]


def _rate_chosen(rewards: Sequence[float], right: Sequence[float], n: int) -> Iterator[float]:
    """Yield the correctness of the best of every n successive samples, averaged over ties."""
    for start in range(0, len(rewards) - n + 1, n):
        best = max(rewards[start : start + n])
        tied = [right[at] for at in range(start, start + n) if rewards[at] == best]
        yield fmean(tied)


def convert_to_preference(gains: Estimate) -> Estimate:
    """Convert log-odds to the probability of being preferred."""
    low, high = (
        None if each is None else 1 / (1 + math.exp(-each)) for each in (gains.low, gains.high)
    )
    return Estimate(1 / (1 + math.exp(-gains.value)), low, high, gains.count)


def make_figures(
    pools: Mapping[str, JudgedSamples],
    fresh: Mapping[str, JudgedSamples],
    costs: Mapping[str, float],
    judging: float,
    floors: Mapping[str, Sequence[float]],
    n: int,
) -> Iterator[Figure]:
    """Yield the figures: right answers of every system, best of n predicted and observed, as a
    preference rate, by compute, and PPO.

    `costs` are operations of a policy's sample, `judging` those of the reward model for it.
    """
    ns = [2**power for power in range(n.bit_length()) if 2**power <= n]
    count = len(next(iter(pools.values())).right)
    says = f"{count} questions that nothing was learnt from, {n} samples each, and {n} fresh ones."
    foretold = {
        name: estimate_best_of_n_curve(each.reward, each.right, ns) for name, each in pools.items()
    }
    curves = {
        name: {k: estimate_mean(rate_best_of_n(each, k)) for k in ns}
        for name, each in fresh.items()
    }
    systems = {name: {"right": estimate_mean(each)} for name, each in floors.items()}
    for name, curve in curves.items():
        systems[f"{name}, one sample"] = {"right": curve[1]}
        systems[f"{name}, best of {ns[-1]}"] = {"right": curve[ns[-1]]}
    yield make_bars_figure("right", "Right answers", says, systems, "share of right answers")
    yield make_best_of_n_figure(foretold, says, curves, worth="share of right answers")
    cloned, again = pools[CLONED_POLICY], fresh[CLONED_POLICY]
    odds = estimate_best_of_n_gain(cloned.reward, cloned.validation, ns)
    one = rate_best_of_n(again, 1)
    won = {
        k: estimate_mean(
            [0.5 + (x - y) / 2 for x, y in zip(rate_best_of_n(again, k), one, strict=True)]
        )
        for k in ns
    }
    yield make_best_of_n_figure(
        {CLONED_POLICY: {k: convert_to_preference(each) for k, each in odds.items()}},
        f"{says} Foretold by a reward model that learnt from other questions.",
        {CLONED_POLICY: won},
        "preferred-best-of-n",
        "How often the best of n is preferred to one sample",
        "preferred",
    )
    priced = {name: foretold[name] for name in costs}
    yield make_compute_figure(
        priced,
        costs,
        f"{says} Operations of the policy for a demonstration's tokens and, where there is a "
        f"choice, of the reward model, {judging:.2g} for each answer; the script, without a model, "
        f"is right {fmean(floors[SCRIPT]):.3f} of the time.",
        judging=judging,
    )
    yield make_win_rate_figure(
        _list_matches(fresh, n), CLONED_POLICY, says, title="The cloned policy's one sample"
    )


def _list_matches(fresh: Mapping[str, JudgedSamples], n: int) -> list[PairwiseMatch]:
    """Match the first sample of the cloned policy against the other ways to answer."""
    one = [row[0] for row in fresh[CLONED_POLICY].right]
    others = {f"{name}, best of {n}": each for name, each in fresh.items()}
    answers = {
        name: [float(round(x)) for x in rate_best_of_n(each, n)] for name, each in others.items()
    }
    answers["PPO, one sample"] = [row[0] for row in fresh[PPO_POLICY].right]
    return [
        PairwiseMatch(CLONED_POLICY, name, 0.5 + (other - own) / 2, f"{number}")
        for name, some in answers.items()
        for number, (own, other) in enumerate(zip(some, one, strict=True))
    ]

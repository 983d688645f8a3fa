"""Effects of the WebGPT recipe: best of n, how far it is foretold, PPO, and compute."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple

from recipes.findings import Effect, ScoreTable
from recipes.webgpt_data import Settings
from recipes.webgpt_floors import EXTRACT, RANDOM, SCRIPT
from recipes.webgpt_pools import CLONED_POLICY, PPO_POLICY, JudgedSamples, rate_best_of_n
from recipes.webgpt_stages import Samples
from rookery.learn.reinforcement_learning import ReinforcementResult
from rookery.learn.reward_training import RewardTrainingResult
from rookery.library.question_files import is_correct_answer
from rookery.measure.reward_frontiers import (
    BudgetPoint,
    estimate_best_of_n,
    estimate_best_of_n_curve,
    find_compute_frontier,
)
from rookery.records import Question

ANY_RIGHT, EVEN, FORETOLD, REALISED = "one of the samples is right", "even", "foretold", "realised"
make_rated_effect = partial(
    Effect,
    floors=(RANDOM,),
    lacking="one of the samples by lot, the longest and the likeliest were not measured",
    facts=(SCRIPT, EXTRACT, ANY_RIGHT),
    table="right",
)
"""Effect on the share of right answers, beside its floors."""
SAID = {
    "offered": "They choose among the commands and short answers that a state offers.",
    "commands": "They write any command that the browser's grammar has, with words of their own in "
    "searches and words of the screen in quotes, and any answer.",
    "free": "They write what they like.",
}
"""Note on what policies may say."""
SETTINGS_CHOICE = "settings on other draws of questions (docs/LOG.md); "
SHARED_ERRORS_REASON = (
    "both reward models begin alike and share their errors, so that the check, too, is "
    "over-optimised; and most pairs tie by the known answers, being right or wrong alike"
)
"""Reason given where the validation reward model predicts too much."""


class ComputeCosts(NamedTuple):
    """Floating point operations of one answer."""

    policies: dict[str, float]
    judging: float
    """Of the reward model, for each answer that is chosen from."""


def rate_floors(
    questions: Sequence[Question], floors: Mapping[str, Samples]
) -> dict[str, list[float]]:
    """Return for each floor the share of its answers to each question that are right."""
    return {
        name: [
            fmean(is_correct_answer(question, answer) for answer in some)
            for question, some in zip(questions, samples, strict=True)
        ]
        for name, samples in floors.items()
    }


def make_tables(
    test_questions: Sequence[Question],
    floors: Mapping[str, Sequence[float]],
    pools: Mapping[str, JudgedSamples],
    fresh: Mapping[str, JudgedSamples],
    costs: ComputeCosts,
    n: int,
) -> Iterator[ScoreTable]:
    """Yield the scores of every system: right answers, preferences, and what a budget buys."""
    questions = tuple(question.id for question in test_questions)
    systems = {name: tuple(each) for name, each in floors.items()}
    for name in (CLONED_POLICY, PPO_POLICY):
        systems[f"{name}, one sample"] = tuple(rate_best_of_n(fresh[name], 1))
        systems[f"{name}, best of {n}"] = tuple(rate_best_of_n(fresh[name], n))
    systems[ANY_RIGHT] = tuple(max(row) for row in fresh[CLONED_POLICY].right)
    yield ScoreTable("right", "share of answers that are right", questions, systems)
    one, best = (systems[f"{CLONED_POLICY}, {how}"] for how in ("one sample", f"best of {n}"))
    yield ScoreTable(
        "preferred",
        f"share of times that the best of {n} is preferred to one sample",
        questions,
        {
            FORETOLD: tuple(map(_foretell_preference, *_get_rewards(pools[CLONED_POLICY]))),
            REALISED: tuple(0.5 + (b - a) / 2 for a, b in zip(one, best, strict=True)),
            EVEN: (0.5,) * len(questions),
        },
    )
    bought = {
        _name_budget(k): _rate_point(pools, point)
        for k, point in choose_by_compute(pools, costs, n).items()
    }
    measured = slice(1, None, 2)
    yield ScoreTable(
        "compute",
        "share of answers that are right, on every second question",
        questions[measured],
        {name: each[measured] for name, each in {**systems, **bought}.items()},
    )


def _get_rewards(pool: JudgedSamples) -> tuple[list[list[float]], list[list[float]]]:
    return pool.reward, pool.validation


def _foretell_preference(rewards: Sequence[float], odds: Sequence[float]) -> float:
    """Return how often the sample of the highest reward would be preferred to one sample, by the
    log-odds of another reward model."""
    best = [odds[at] for at, each in enumerate(rewards) if each == max(rewards)]
    return fmean(1 / (1 + math.exp(other - one)) for one in best for other in odds)


def choose_by_compute(
    pools: Mapping[str, JudgedSamples], costs: ComputeCosts, n: int
) -> dict[int, BudgetPoint]:
    """Choose policy and number of samples, on every second question, for the compute of 1, n/4 and
    n samples of the cloned policy (section 5.2)."""
    curves = {
        name: estimate_best_of_n_curve(pools[name].reward[::2], pools[name].right[::2])
        for name in costs.policies
    }
    one = costs.policies[CLONED_POLICY]
    frontier = find_compute_frontier(curves, costs.policies, costs.judging)
    budgets = {k: k * (one + costs.judging * (k > 1)) for k in (1, max(1, n // 4), n)}
    return {
        k: [point for point in frontier if point.cost <= budget][-1]
        for k, budget in budgets.items()
    }


def _rate_point(pools: Mapping[str, JudgedSamples], point: BudgetPoint) -> tuple[float, ...]:
    pool = pools[point.model]
    each = zip(pool.reward, pool.right, strict=True)
    return tuple(float(estimate_best_of_n(*row)[point.n - 1]) for row in each)


def _name_budget(samples: int) -> str:
    return f"compute of {samples} sample{'s' * (samples > 1)}"


def list_effects(n: int) -> list[Effect]:
    """Return the paper's effects.

    That the best of n is foretold from the policy's own other samples is none: the estimator is
    unbiased by construction.
    """
    one, best = f"{CLONED_POLICY}, one sample", f"{CLONED_POLICY}, best of {n}"
    policy, reward = (
        "the policy's step on a part of the demonstrations",
        "the reward model's on a part of its comparisons",
    )
    chosen_by = f"{SETTINGS_CHOICE}{policy}, {reward}; nothing on these questions"
    return [
        make_rated_effect(
            effect=f"the best of {n} by the learnt reward is right more often than one sample",
            paper="best of 64 preferred 68 % to one sample (section 5.1, figure 5)",
            learnt=best,
            reference=one,
            chosen=chosen_by,
        ),
        make_rated_effect(
            effect="one sample after PPO is right more often than one of the cloned policy",
            paper="preferred 58 % of the time (section 5.1, figure 4)",
            learnt=f"{PPO_POLICY}, one sample",
            reference=one,
            chosen=chosen_by,
        ),
        make_rated_effect(
            effect=f"PPO adds nothing to the best of {n}",
            paper="it fails to offer much benefit (section 5.1, figure 4)",
            learnt=f"{PPO_POLICY}, best of {n}",
            reference=best,
            claim="same",
            chosen=chosen_by,
        ),
        Effect(
            effect="a reward model that learnt from other questions foretells how often the best "
            f"of {n} is preferred",
            paper="within the band of figure 5, up to n = 64",
            table="preferred",
            learnt=FORETOLD,
            reference=REALISED,
            floors=(EVEN,),
            claim="same",
            chosen=chosen_by,
            why=SHARED_ERRORS_REASON,
        ),
        make_rated_effect(
            effect=f"the compute of {n} samples, every model counted, buys more right answers than "
            f"that of {max(1, n // 4)}",
            paper="760M best of 4, 13B best of 16, 175B best of 64 (section 5.2, figure 8)",
            learnt=_name_budget(n),
            reference=_name_budget(max(1, n // 4)),
            chosen=f"{chosen_by}; policy and number of samples on every other question",
            table="compute",
        ),
    ]


def list_notes(
    settings: Settings,
    demonstration_count: int,
    rewards: Sequence[RewardTrainingResult],
    learnt: ReinforcementResult,
) -> list[str]:
    """Return notes on differences from the paper."""
    agreed = [each.after.credit if each.after else 0.5 for each in rewards]
    return [
        f"Policies begin from {settings.imitate.trained.model or 'nothing'} and learn from "
        f"{demonstration_count} scripted demonstrations, which are told the answer. "
        f"{SAID[settings.actions]}",
        f"“{RANDOM}” chooses among the commands and short answers that a state offers, each as "
        "likely. The script, over the same "
        "offers, searches for the question, opens the first result, quotes the sentence with a "
        "year and the most words of the question, and answers with its first year. The extract "
        "method answers in up to three whole sentences, which hold the year more easily than "
        "an answer that names one; it was not made for these questions.",
        "Questions ask for a year, pages are a few sentences each, and the right answer is known; "
        "nobody was asked.",
        f"The reward models foretell {agreed[0]:.1%} and {agreed[1]:.1%} of held-out comparisons "
        "with ties as half (appendix C: two people agree on 73 %).",
        "That the best of n is foretold by the estimator from other samples of the same policy "
        "is no finding: it is unbiased by construction, and its tests are in tests/measure.",
        f"PPO ended {learnt.kl:.2f} nats from the cloned policy (table 8: 7 to 12). {learnt.ended} "
        + " ".join(learnt.faults),
    ]

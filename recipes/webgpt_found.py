"""Findings of the WebGPT recipe: best of n, its prediction, and PPO."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from recipes.stages import Finding, format_estimate
from recipes.webgpt_data import Settings
from recipes.webgpt_pools import (
    CLONED_POLICY,
    PPO_POLICY,
    JudgedSamples,
    convert_to_preference,
    rate_best_of_n,
)
from rookery.learn.reinforcement_learning import ReinforcementResult
from rookery.learn.reward_training import RewardTrainingResult
from rookery.measure.intervals import estimate_difference, estimate_mean
from rookery.measure.reward_frontiers import (
    estimate_best_of_n,
    estimate_best_of_n_curve,
    estimate_best_of_n_gain,
    find_compute_optimal,
)

SHARED_ERRORS_REASON = (
    "Both reward models begin alike and share their errors, so that the check, too, is "
    "over-optimised; and most pairs tie by the known answers, being right or wrong alike."
)
"""Reason given where the validation reward model predicts too much."""


def list_findings(
    pools: Mapping[str, JudgedSamples], fresh: Mapping[str, JudgedSamples], n: int
) -> list[Finding]:
    """Return the paper's findings on best of n and PPO; predictions come from `pools`, checks from
    `fresh` samples."""
    cloned, learnt = fresh[CLONED_POLICY], fresh[PPO_POLICY]
    one, best = rate_best_of_n(cloned, 1), rate_best_of_n(cloned, n)
    gained, by_ppo = (
        estimate_difference(best, one),
        estimate_difference(rate_best_of_n(learnt, 1), one),
    )
    both = estimate_difference(rate_best_of_n(learnt, n), best)
    foretold = estimate_best_of_n_curve(
        pools[CLONED_POLICY].reward, pools[CLONED_POLICY].right, (n,)
    )[n]
    missed = estimate_difference(_estimate_best_of_n(pools[CLONED_POLICY], n), best)
    odds = convert_to_preference(
        estimate_best_of_n_gain(pools[CLONED_POLICY].reward, pools[CLONED_POLICY].validation, (n,))[
            n
        ]
    )
    won = estimate_mean([0.5 + (ours - theirs) / 2 for ours, theirs in zip(best, one, strict=True)])
    return [
        Finding(
            f"the best of {n} by the learnt reward is right more often than one sample",
            "best of 64 preferred 68 % to one sample (section 5.1, figure 5)",
            f"{fmean(one):.3f} to {fmean(best):.3f}: {format_estimate(gained)} more; "
            f"preferred {format_estimate(won)}",
            gained.low > 0,
        ),
        Finding(
            f"what the best of {n} reaches is foretold from other samples by the estimator",
            "appendix I, figure 5",
            f"foretold {format_estimate(foretold)}; fresh samples "
            f"{format_estimate(estimate_mean(best))}; "
            f"the difference {format_estimate(missed)}",
            missed.low <= 0 <= missed.high,
        ),
        Finding(
            "how often it is preferred is foretold by an independent reward model",
            "within the band of figure 5, up to n = 64",
            f"foretold {format_estimate(odds)}; fresh samples {format_estimate(won)}",
            not odds.is_apart_from(won),
            "" if not odds.is_apart_from(won) else SHARED_ERRORS_REASON,
        ),
        Finding(
            "one sample after PPO is right more often than one of the cloned policy",
            "preferred 58 % of the time (section 5.1, figure 4)",
            f"{format_estimate(by_ppo)} more",
            by_ppo.low > 0,
        ),
        Finding(
            f"PPO adds nothing beyond the interval to the best of {n}",
            "it fails to offer much benefit (section 5.1, figure 4)",
            f"{format_estimate(both)} more",
            both.low <= 0 <= both.high,
        ),
    ]


def _estimate_best_of_n(pool: JudgedSamples, n: int) -> list[float]:
    each = zip(pool.reward, pool.right, strict=True)
    return [float(estimate_best_of_n(rewards, right)[n - 1]) for rewards, right in each]


def find_compute_effect(
    pools: Mapping[str, JudgedSamples], costs: Mapping[str, float], n: int
) -> Finding:
    """Return the finding on how many samples it pays to draw with the compute of 1, n/4 and n
    samples of the cloned policy (section 5.2)."""
    curves = {
        name: estimate_best_of_n_curve(pools[name].reward, pools[name].right) for name in costs
    }
    bought = [
        find_compute_optimal(curves, costs, costs[CLONED_POLICY] * budget)
        for budget in (1, n // 4, n)
    ]
    few, more, most = (each.worth for each in bought)
    holds = few.value < more.value < most.value and few.value < most.low
    return Finding(
        "the more compute there is, the more samples it pays to draw",
        "760M best of 4, 13B best of 16, 175B best of 64 (section 5.2, figure 8)",
        "; ".join(
            f"{each.model} best of {each.n}, {format_estimate(each.worth)}" for each in bought
        ),
        holds,
        "" if holds else "they rise, and their intervals overlap",
    )


def list_notes(
    settings: Settings,
    shown: int,
    rewards: Sequence[RewardTrainingResult],
    learnt: ReinforcementResult,
) -> list[str]:
    """Return notes on differences from the paper."""
    agreed = [each.after.credit if each.after else 0.5 for each in rewards]
    return [
        f"Policies begin from nothing and learn from {shown} scripted demonstrations, which are "
        "told the answer; they choose among the commands and short answers that a state offers, "
        "since models of this size did not learn to copy a sentence in the time." * settings.held,
        "Questions ask for a year, pages are a few sentences each, and the right answer is known; "
        "nobody was asked.",
        f"The reward models foretell {agreed[0]:.1%} and {agreed[1]:.1%} of held-out comparisons "
        "with ties as half (appendix C: two people agree on 73 %).",
        f"PPO ended {learnt.kl:.2f} nats from the cloned policy (table 8: 7 to 12). {learnt.ended} "
        + " ".join(learnt.faults),
    ]

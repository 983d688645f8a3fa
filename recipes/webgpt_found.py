"""What the WebGPT recipe finds: whether the best of n is better, was foretold, and PPO helps.

It knows nothing of how answers came about.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from recipes.stages import Finding, told
from recipes.webgpt_data import Settings
from recipes.webgpt_pools import CLONED, LEARNT, Pool, chosen, preference
from rookery.learn.prefer import Preferred
from rookery.learn.reinforce import Reinforced
from rookery.measure.bestofn import best_of, compute_optimal, curve, gain
from rookery.measure.interval import difference, mean

SHARED = (
    "Both reward models begin alike and share their errors, so that the check, too, is "
    "over-optimised; and most pairs tie by the known answers, being right or wrong alike."
)


def findings(pools: Mapping[str, Pool], fresh: Mapping[str, Pool], n: int) -> list[Finding]:
    """What the paper shows of the best of n, and of PPO."""
    cloned, learnt = fresh[CLONED], fresh[LEARNT]
    one, best = chosen(cloned, 1), chosen(cloned, n)
    gained, by_ppo = difference(best, one), difference(chosen(learnt, 1), one)
    both = difference(chosen(learnt, n), best)
    foretold = curve(pools[CLONED].reward, pools[CLONED].right, (n,))[n]
    missed = difference(_foretold(pools[CLONED], n), best)
    odds = preference(gain(pools[CLONED].reward, pools[CLONED].validation, (n,))[n])
    won = mean([0.5 + (ours - theirs) / 2 for ours, theirs in zip(best, one, strict=True)])
    return [
        Finding(
            f"the best of {n} by the learnt reward is right more often than one sample",
            "best of 64 preferred 68 % to one sample (section 5.1, figure 5)",
            f"{fmean(one):.3f} to {fmean(best):.3f}: {told(gained)} more; preferred {told(won)}",
            gained.low > 0,
        ),
        Finding(
            f"what the best of {n} reaches is foretold from other samples by the estimator",
            "appendix I, figure 5",
            f"foretold {told(foretold)}; fresh samples {told(mean(best))}; "
            f"the difference {told(missed)}",
            missed.low <= 0 <= missed.high,
        ),
        Finding(
            "how often it is preferred is foretold by an independent reward model",
            "within the band of figure 5, up to n = 64",
            f"foretold {told(odds)}; fresh samples {told(won)}",
            not odds.apart_from(won),
            "" if not odds.apart_from(won) else SHARED,
        ),
        Finding(
            "one sample after PPO is right more often than one of the cloned policy",
            "preferred 58 % of the time (section 5.1, figure 4)",
            f"{told(by_ppo)} more",
            by_ppo.low > 0,
        ),
        Finding(
            f"PPO adds nothing beyond the interval to the best of {n}",
            "it fails to offer much benefit (section 5.1, figure 4)",
            f"{told(both)} more",
            both.low <= 0 <= both.high,
        ),
    ]


def _foretold(pool: Pool, n: int) -> list[float]:
    each = zip(pool.reward, pool.right, strict=True)
    return [float(best_of(rewards, right)[n - 1]) for rewards, right in each]


def optimal(pools: Mapping[str, Pool], costs: Mapping[str, float], n: int) -> Finding:
    """What the compute of 1, n/4 and n samples of the cloned policy buys (section 5.2)."""
    curves = {name: curve(pools[name].reward, pools[name].right) for name in costs}
    bought = [compute_optimal(curves, costs, costs[CLONED] * budget) for budget in (1, n // 4, n)]
    few, more, most = (each.worth for each in bought)
    holds = few.value < more.value < most.value and few.value < most.low
    return Finding(
        "the more compute there is, the more samples it pays to draw",
        "760M best of 4, 13B best of 16, 175B best of 64 (section 5.2, figure 8)",
        "; ".join(f"{each.model} best of {each.n}, {told(each.worth)}" for each in bought),
        holds,
        "" if holds else "they rise, and their intervals overlap",
    )


def notes(
    settings: Settings, shown: int, rewards: Sequence[Preferred], learnt: Reinforced
) -> list[str]:
    """What is smaller or other than in the paper."""
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

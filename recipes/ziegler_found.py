"""Findings and figures of `recipes.ziegler`."""

from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean

from recipes.stages import Finding, format_estimate
from recipes.ziegler_data import Task
from recipes.ziegler_stages import REFERENCE, PolicyComparison
from rookery.measure.figures import Figure, FigureLine, FigurePicture
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.measure.pairwise import compute_win_rate, make_win_rate_figure
from rookery.measure.ranking import make_lead_answer
from rookery.measure.reward_frontiers import (
    OptimalPolicy,
    estimate_best_of_n_curve,
    find_optimal_policies,
    interpolate_reward,
    make_frontier_figure,
)
from rookery.measure.text_metrics import (
    estimate_corpus_rouge,
    make_copy_map_figure,
    make_text_figure,
    measure_longest_stretch,
    measure_novelty,
    measure_repetition,
)
from rookery.records import Answer, Page

TaskReport = tuple[list[Finding], list[Figure]]
NOTES = (
    "A reward is the log-odds of a continuation by TF-IDF and logistic regression, and not of the "
    "whole text by a transformer; on reviews that it has not seen the mock labeller is right for",
    "The language model has 0.65 million weights, learnt from novels and abstracts in one epoch; "
    "the paper's has 774 million. A policy sees some thousand episodes, the paper's 2 million, in "
    "half as many epochs; its value network is a head, and no reward asks for a full stop.",
    "Descriptive is the number of different words of a list of physical ones; nobody was asked.",
    "The labeller of summaries prefers the highest R-AVG with what people wrote.",
)
PAPER_ROUGE = {
    "supervised": "10.6 to 11.9 % (table 4, TL;DR)",
    "labels": "11.9 to 12.5 % (table 4, TL;DR)",
}
ACCURACY_NOTE = "How often reward models find the one of four that was chosen, by lot 25 %:"
KL_TOLERANCE = 0.2
"""Allowed deviation of the KL from its target, as a share of it."""
MIN_OPTIMUM_SHARE = 0.5
"""Required share of the optimal policy's gain in reward at the same KL."""


def report_sentiment(
    seen: Mapping[str, PolicyComparison],
    kls: Mapping[str, Sequence[float]],
    aims: Mapping[str, float],
    drawn: Sequence[Sequence[float]],
    betas: Sequence[float],
) -> TaskReport:
    """Report on the sentiment task: policies that learnt offline and online, that imitate, and that
    know the hidden reward.

    `aims` holds the KL targets by run, `drawn` rewards of the reference's samples by question.
    """
    best, start = find_optimal_policies(drawn, betas), fmean(chain(*drawn))
    says = f"{len(drawn)} excerpts held out; intervals by excerpt, one seed."
    runs = {name: [each.reached] for name, each in seen.items()}
    matches = [match for each in seen.values() for match in each.matches]
    findings = [
        find_win_over_reference(
            "Learning from labels, offline,", seen["offline"], "88 % (table 1)"
        ),
        find_win_over_reference(
            "Learning from labels, online,", seen["online"], "as offline (table 1)"
        ),
        make_gain_finding(
            "Learning from labels beats imitating the answers that were chosen",
            estimate_reward_gap(seen["offline"], seen["cloned"]),
            "not in the paper",
            "the best of four is far from what the reference says most: imitating it alone goes as "
            "far as learning from which it was",
        ),
        find_online_offline_gap(estimate_reward_gap(seen["online"], seen["offline"])),
        *(find_kl_control(aims[name], values) for name, values in kls.items()),
        find_optimum_gap({name: seen[name] for name in kls}, best, start),
    ]
    return findings, [
        make_frontier_figure(runs, best, says, estimate_best_of_n_curve(drawn, drawn)),
        make_win_rate_figure(matches, REFERENCE, says),
        make_kl_figure(kls, aims),
    ]


def report_summaries(task: Task, said: Mapping[str, Sequence[str]]) -> TaskReport:
    """Report on the summary task; `said` holds summaries by system, and those of `labels` were
    trained after `supervised`."""
    sources, golds = [one.text for one in task.held], [one.gold for one in task.held]
    firsts = {
        f"lead-{count}": [make_lead_answer(Page("", "", text), count).text for text in sources]
        for count in (1, 3)
    }
    written = {"people": [gold[0] for gold in golds]}
    every = {**said, **firsts, **written}
    says = f"{len(sources)} abstracts held out; intervals by abstract."
    rouges = {
        name: estimate_corpus_rouge(texts, golds) for name, texts in {**said, **firsts}.items()
    }
    pieces = {name: measure_longest_stretch(texts, sources) for name, texts in every.items()}
    taught = _find_rouge_gain(
        "Imitating summaries of people", task, said, "zero-shot", "supervised"
    )
    learnt = _find_rouge_gain("Learning from labels after that", task, said, "supervised", "labels")
    return [taught, learnt, find_copying(pieces)], [
        make_text_figure("rouge", rouges, says),
        make_text_figure(
            "novel", {name: measure_novelty(texts, sources) for name, texts in every.items()}, says
        ),
        make_text_figure(
            "repeated", {name: measure_repetition(texts) for name, texts in every.items()}, says
        ),
        make_copy_map_figure(said["labels"], sources, f"What was learnt from labels; {says}"),
    ]


def _find_rouge_gain(
    how: str, task: Task, said: Mapping[str, Sequence[str]], before: str, after: str
) -> Finding:
    """Return the finding that summaries `after` have more ROUGE than those `before`."""
    first, then = (
        [
            score / 10
            for score in task.worth(list(zip(task.held, map(Answer, said[name]), strict=True)))
        ]
        for name in (before, after)
    )
    gain = estimate_mean([later - sooner for sooner, later in zip(first, then, strict=True)])
    ours = f"from {fmean(first):.3f} to {fmean(then):.3f}, {format_estimate(gain)} more"
    effect, paper = f"{how} raises ROUGE (R-AVG)", PAPER_ROUGE[after]
    return Finding(effect, paper, ours, gain.low > 0)


def find_win_over_reference(what: str, seen: PolicyComparison, paper: str) -> Finding:
    """Return the finding that a policy has more of the hidden reward than the reference, and wins
    against it."""
    rate = compute_win_rate(seen.matches, seen.matches[0].one, REFERENCE)
    ours = (
        f"{format_estimate(seen.gain)} more reward, preferred {format_estimate(rate)}, "
        f"at {seen.reached.kl:.2f} nats"
    )
    holds = seen.gain.low > 0 and rate.low > 0.5
    return Finding(f"{what} beats the reference", paper, ours, holds)


def estimate_reward_gap(one: PolicyComparison, other: PolicyComparison) -> Estimate:
    """Estimate the difference in reward between two policies on the same questions."""
    gains = [ours - theirs for ours, theirs in zip(one.rewards, other.rewards, strict=True)]
    return estimate_mean(gains, one.groups)


def make_gain_finding(effect: str, gain: Estimate, paper: str, why_not: str = "") -> Finding:
    """Return the finding that a gain lies beyond its interval."""
    return Finding(
        effect, paper, f"{format_estimate(gain)} more", gain.low > 0, why_not * (gain.low <= 0)
    )


def find_online_offline_gap(apart: Estimate) -> Finding:
    """Return the finding that online and offline labels lead to the same reward, as far as the
    interval shows."""
    return Finding(
        "No difference is seen between online and offline labels",
        "50 % preferred (table 1)",
        f"online has {format_estimate(apart)} more reward",
        apart.low <= 0 <= apart.high,
    )


def find_kl_control(target: float, kls: Sequence[float]) -> Finding:
    """Return the finding that the KL controller held its target in the last third of a run."""
    last = estimate_mean(kls[len(kls) * 2 // 3 :])
    return Finding(
        f"The adaptive controller holds a KL of {target:g} nats",
        "runs are made comparable by it (section 2.2)",
        f"{format_estimate(last, '.2f')} in the last third",
        abs(last.value - target) <= KL_TOLERANCE * target,
    )


def find_optimum_gap(
    runs: Mapping[str, PolicyComparison], best: Sequence[OptimalPolicy], start: float
) -> Finding:
    """Return the finding that runs end below the optimum and reach at least MIN_OPTIMUM_SHARE of
    its gain."""
    shares: dict[str, float] = {}
    beyond = []
    for name, seen in runs.items():
        try:
            most = interpolate_reward(best, seen.reached.kl) - start
            shares[name] = (seen.reached.reward.value - start) / most
        except ValueError:
            beyond.append(name)
    ours = ", ".join(f"{name}: {share:.0%} of the optimum's gain" for name, share in shares.items())
    unknown = f"; the optimum is not known at the KL of {', '.join(beyond)}" if beyond else ""
    holds = bool(shares) and all(MIN_OPTIMUM_SHARE <= share <= 1 for share in shares.values())
    effect = "Policies end below the analytic optimum and near it"
    return Finding(
        effect,
        "a significant gap, mostly closed with more training (figure 3)",
        ours + unknown,
        holds,
    )


def find_copying(pieces: Mapping[str, Estimate]) -> Finding:
    """Return the finding that the policy trained with labels copies more than the one it started
    from."""
    ours = ", ".join(f"{name} {format_estimate(each)}" for name, each in pieces.items())
    return Finding(
        "Learning from labels makes summaries copy more",
        "the share of sentences copied whole is 71 % (section 3.2.1, TL;DR)",
        f"share of a summary that its longest copied stretch makes up: {ours}",
        pieces["labels"].low > pieces["supervised"].high,
    )


def make_kl_figure(kls: Mapping[str, Sequence[float]], targets: Mapping[str, float]) -> Figure:
    """Return the figure of each batch's KL beside its target."""
    lines = [FigureLine(name, tuple(enumerate(values))) for name, values in kls.items()]
    lines += [
        FigureLine(
            f"target {target:g}", ((0, target), (len(kls[name]) - 1, target)), style="dashed"
        )
        for name, target in targets.items()
    ]
    rows = [
        (name, targets[name], estimate_mean(values[len(values) * 2 // 3 :]).value, values[-1])
        for name, values in kls.items()
    ]
    return Figure(
        "kl-control",
        "The KL follows its target",
        "KL of each batch of episodes, in nats an episode, while beta is adapted.",
        ("run", "target", "mean of the last third", "last batch"),
        tuple(rows),
        FigurePicture("curves", tuple(lines), "batch", "KL, nats"),
        "Ziegler, section 2.2",
    )

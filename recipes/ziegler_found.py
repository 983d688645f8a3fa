"""Effects, scores and figures of `recipes.ziegler`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple

from recipes.findings import Effect, ScoreTable
from recipes.measures import (
    correlate_scores,
    interpolate_best_of_n,
    make_curves_figure,
    measure_pair_accuracy,
)
from recipes.sentiment_judges import LABELLER, MINILM
from rookery.measure.figures import Figure
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.measure.reward_frontiers import (
    ReachedPoint,
    estimate_best_of_n,
    estimate_best_of_n_curve,
    find_optimal_policies,
    make_best_of_n_figure,
    make_frontier_figure,
)

REFERENCE, CANNED, ONLINE, BY_LOT = "reference", "canned sentence", "online labels", "by lot"
LAST_TOKEN = "last token, "
BETAS = (3, 2, 1.4, 1, 0.8, 0.6, 0.5, 0.4, 0.33, 0.27, 0.22, 0.18, 0.15)
GAINS = {
    "known reward, 2 nats": 0.35,
    "known reward, 8 nats": 1.1,
    "from 80 labels": 0.6,
    "from 320 labels": 0.77,
    "from 1,280 labels": 0.85,
    ONLINE: 0.85,
    "from 5,000 labels": 0.99,
}
"""Gains expected by the labeller, from runs on other texts; for 1,280 labels, between others."""
JUDGED_GAINS = {"from 80 labels": 0.79, "from 5,000 labels": 1.67, "known reward, 8 nats": 1.03}
"""The same by the MiniLM judge."""
BEST_GAINS = {4: 0.44, 16: 0.74, 64: 1.04}
SAME_REWARD, KL_TOLERANCE = 0.25, 0.25
"""Largest differences that are the same: of the labeller's log-odds, and as a share of a KL."""
make_effect = partial(
    Effect, table=LABELLER, chosen="settings on another draw of texts (docs/LOG.md); nothing here"
)
Rows = Sequence[Sequence[float]]
"""Numbers of each question's samples."""


class PolicyScores(NamedTuple):
    """Samples of a policy on the held-out beginnings, in numbers: KL and scores by the judges and
    by the named reward that it learnt from, with a KL target in nats; and the hidden reward of each
    batch that it learnt from."""

    kls: Rows
    scores: Mapping[str, Rows]
    reward: str
    target: float
    batches: Rows


class Measurements(NamedTuple):
    """Everything that effects and figures are computed from."""

    questions: tuple[str, ...]
    drawn: Mapping[str, Rows]
    """Scores of the reference's samples by judges and reward models."""
    policies: Mapping[str, PolicyScores]
    canned: Mapping[str, float]
    """Score of the canned sentence by each judge."""
    labels: Mapping[str, int]
    """Number of labels of each reward model, the fewest first and the paper's own last."""


def list_effects(measured: Measurements) -> Iterator[Effect]:
    """Yield the effects that the paper shows, with what was expected before they were run."""
    for name, each in measured.policies.items():
        yield from _list_policy_effects(name, each)
    plain = [name for name in measured.labels if LAST_TOKEN not in name]
    few, many = plain[0], plain[-1]
    yield make_effect(
        effect=f"PPO from {many} gives more reward than from {few}",
        paper="more with more labels (figure 2)",
        learnt=f"from {many}",
        reference=f"from {few}",
        lacking="nothing else has these labels",
        expected=0.39,
    )
    yield make_effect(
        effect="online and offline labels lead to the same reward",
        paper="50 % preferred (table 1)",
        learnt=ONLINE,
        reference=f"from {measured.policies[ONLINE].reward}",
        lacking="a difference, and no gain",
        claim="same",
        margin=SAME_REWARD,
    )
    for n in BEST_GAINS:
        yield make_effect(
            effect=f"the best of {n} by a reward from {many} beats one sample",
            paper="not in the paper; WebGPT, figure 5",
            learnt=f"best of {n} by {many}",
            reference=REFERENCE,
            floors=(f"best of {n} by {few}",),
            aimed=many,
            expected=BEST_GAINS[n],
        )
    own = [name for name in measured.labels if LAST_TOKEN in name]
    pairs = [(each.removeprefix(LAST_TOKEN), each, 0.13) for each in own]
    for more, less, expected in [(many, few, 0.12), *pairs]:
        yield make_effect(
            effect=f"a reward model ({more}) is right more often than another ({less})",
            paper="not in the paper, whose reward is read at the policy's last token",
            table="accuracy",
            learnt=more,
            reference=less,
            floors=(BY_LOT,),
            expected=expected,
        )


def _list_policy_effects(name: str, policy: PolicyScores) -> Iterator[Effect]:
    is_known = policy.reward == LABELLER
    more = partial(
        make_effect,
        paper="reward grows with the KL (figure 3)" if is_known else "more with labels (figure 2)",
        learnt=name,
        reference=REFERENCE,
        floors=(f"best of n at the KL of {name}",),
        lacking="n is 64 at most",
        hacks=(CANNED,),
    )
    yield more(
        effect=f"PPO, {name}, gives more reward than the reference",
        aimed=policy.reward if name != ONLINE else "",
        expected=GAINS.get(name, 0.0),
    )
    if name in JUDGED_GAINS:
        yield more(
            effect=f"PPO, {name}, is better by a judge who has not labelled",
            table=MINILM,
            aimed=LABELLER,
            expected=JUDGED_GAINS[name],
        )
    if is_known:
        yield make_effect(
            effect=f"the controller ends at {policy.target:g} nats within {KL_TOLERANCE:.0%}",
            paper="runs are made comparable by it (section 2.2)",
            table="KL",
            learnt=name,
            reference=f"target of {name}",
            lacking="a KL is held or not",
            claim="same",
            margin=KL_TOLERANCE * policy.target,
        )


def make_tables(measured: Measurements) -> Iterator[ScoreTable]:
    """Yield the scores by each judge and by each reward that was learnt from, accuracies and KLs,
    with a row for each question."""
    questions, policies = measured.questions, measured.policies
    rewards = sorted({each.reward for each in policies.values()} - {LABELLER})
    for judge in (*measured.canned, *rewards):
        scores = {REFERENCE: _average_rows(measured.drawn[judge])}
        for name, each in policies.items():
            if judge in each.scores:
                kl = fmean(_average_rows(each.kls))
                curves = estimate_best_of_n(measured.drawn[each.reward], measured.drawn[judge])
                best = tuple(interpolate_best_of_n(curve, kl) for curve in curves.tolist())
                scores[name] = _average_rows(each.scores[judge])
                scores[f"best of n at the KL of {name}"] = best
        for reward in rewards:
            curves = estimate_best_of_n(measured.drawn[reward], measured.drawn[judge])
            for n in BEST_GAINS:
                scores[f"best of {n} by {reward}"] = tuple(curves[:, n - 1].tolist())
        if judge in measured.canned:
            scores[CANNED] = (measured.canned[judge],) * len(questions)
        yield ScoreTable(judge, f"reward by the {judge}", questions, scores)
    right = {name: measure_accuracies(measured, name) for name in measured.labels}
    right[BY_LOT] = (0.5,) * len(questions)
    yield ScoreTable("accuracy", "share of pairs ranked as the labeller does", questions, right)
    kls = {name: _average_rows(each.kls) for name, each in policies.items()}
    for name, each in policies.items():
        kls[f"target of {name}"] = (each.target,) * len(questions)
    yield ScoreTable("KL", "nats from the reference", questions, kls)


def _average_rows(rows: Rows) -> tuple[float, ...]:
    return tuple(map(fmean, rows))


def measure_accuracies(measured: Measurements, name: str) -> tuple[float, ...]:
    """Return the share of each question's pairs that a reward model ranks as the labeller does."""
    rows = zip(measured.drawn[name], measured.drawn[LABELLER], strict=True)
    return tuple(measure_pair_accuracy(row, hidden[: len(row)]) for row, hidden in rows)


def make_figures(measured: Measurements) -> Iterator[Figure]:
    """Yield the curves: reward by batch, accuracy by labels, gain by n, and the frontier."""
    hidden, policies = measured.drawn[LABELLER], measured.policies
    says = f"{len(measured.questions)} beginnings, one seed."
    yield make_curves_figure(
        "rewards",
        "Reward by batch",
        "The hidden reward of each batch of episodes, the labeller's log-odds; one seed.",
        {
            name: [(at + 1, estimate_mean(batch)) for at, batch in enumerate(each.batches)]
            for name, each in policies.items()
        },
        ("batch", "reward"),
    )
    lines: dict[str, list[tuple[float, Estimate]]] = {"MiniLM": [], "the paper's, last token": []}
    for name, count in measured.labels.items():
        kind = "the paper's, last token" if LAST_TOKEN in name else "MiniLM"
        lines[kind].append((count, estimate_mean(measure_accuracies(measured, name))))
    yield make_curves_figure(
        "labels",
        "Accuracy by labels",
        f"Pairs of samples that a reward model ranks as the labeller does; by lot .5. {says}",
        lines,
        ("labels", "accuracy"),
        log_x=True,
    )
    gains = [[score - fmean(row) for score in row] for row in hidden]
    rewards = sorted({each.reward for each in policies.values()})
    yield make_best_of_n_figure(
        {f"by {name}": estimate_best_of_n_curve(measured.drawn[name], gains) for name in rewards},
        f"Gain over one sample, in the labeller's log-odds. {says}",
        worth="gain",
    )
    reached = {
        name: [
            ReachedPoint(
                fmean(_average_rows(each.kls)), estimate_mean(_average_rows(each.scores[LABELLER]))
            )
        ]
        for name, each in policies.items()
    }
    yield make_frontier_figure(
        reached,
        find_optimal_policies(hidden, BETAS),
        f"Rewards are the labeller's, and so is the choice of the best of n. {says}",
        estimate_best_of_n_curve(hidden, hidden),
    )


def list_notes(
    measured: Measurements, accuracies: Mapping[str, float], canned: str
) -> Iterator[str]:
    """Yield what differs from the paper, and how good and how alike the judges are."""
    pairs = correlate_scores(
        {name: [one for row in measured.drawn[name] for one in row] for name in accuracies}
    )
    right = ", ".join(f"{name} {share:.1%}" for name, share in accuracies.items())
    alike = ", ".join(f"{one} and {other} {each:.2f}" for (one, other), each in pairs.items())
    yield (
        "The labeller's log-odds are the hidden reward; both judges have learnt from other film "
        f"reviews than it. Right on reviews that none has learnt from: {right}. Correlation over "
        f"samples of the reference: {alike}."
    )
    yield (
        "The paper has a model of 774 million weights, labels that compare four texts, and two "
        "million episodes; here labels compare two, many the same texts in other pairs, texts end "
        "anywhere, the value network is a head on the policy, and rewards begin as MiniLM. "
        f"The canned sentence, the labeller's favourite beginning of a passage: “{canned}”."
    )

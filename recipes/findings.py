"""Effects that papers show, and three answers of each: the paper's claim, what else does as well,
and how far from known systems it is.

An effect names systems whose scores stand in a table, a row for each question. Verdicts are
computed from the rows of every seed (`judge_claim`, `judge_floors`); nobody states one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Literal

import numpy as np

from rookery.measure.coverage import ScoredAnswers, estimate_coverage_area
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.records import Record

Verdict = Literal["yes", "no", "not seen", "too small to tell", "undecided"]
POWER_REACH = 2.8 / 1.96
"""Least effect that a measurement could have seen, by half its interval: 2.8 standard errors, 1.96
for the interval and .84 for seeing it 80 times in 100."""


class ScoreTable(Record, frozen=True):
    """Scores of several systems on the same questions, in one run."""

    name: str
    says: str
    """What a score is."""
    questions: tuple[str, ...]
    """Question of each row; rows of one question belong together."""
    scores: dict[str, tuple[float, ...]]
    """Score of each row, by system; the mean, where a system has several samples."""
    good: tuple[float, ...] = ()
    """If given, scores order answers that are this good, from 0 to 1, and what is reported is the
    area under the curve of quality by coverage."""

    def __post_init__(self) -> None:
        for system, scores in self.scores.items():
            if len(scores) != len(self.questions):
                raise ValueError(
                    f"{self.name}: {len(self.questions)} rows, but {system} has {len(scores)}"
                )


class Effect(Record, frozen=True, kw_only=True):
    """Effect that a paper shows, and the systems of a table in which it is looked for."""

    effect: str
    """One sentence that is true or false, such as "best of 16 beats one sample"."""
    paper: str
    """The paper's figure, with section or table."""
    table: str
    """Table of an independent judge, or of known answers."""
    learnt: str
    """System that is claimed to score higher than the reference, or the same."""
    reference: str
    floors: tuple[str, ...] = ()
    """Systems with the same access that have learnt nothing of it: by lot, likeliest, longest,
    majority, best of n at equal KL."""
    lacking: str = ""
    """Floors that were not measured, or why there is none."""
    facts: tuple[str, ...] = ()
    """Scripts, and the best possible or known: shown, and without a verdict."""
    hacks: tuple[str, ...] = ()
    """Optima of the reward that nobody wants; they stand in a note on reward hacking."""
    aimed: str = ""
    """Table of the reward that was aimed at, with the same rows and systems; empty: not stored, or
    there is none."""
    claim: Literal["more", "same"] = "more"
    margin: float = 0.0
    """Largest difference that counts as the same, set before the run; 0: none was set."""
    expected: float = 0.0
    """Difference that is expected, set before the run; 0: none was set."""
    chosen: str
    """What was chosen, on which data."""
    why: str = ""
    """Presumed reason, shown where the claim is not seen."""

    def __post_init__(self) -> None:
        if not self.floors and not self.lacking:
            raise ValueError(f"{self.effect}: name a floor, or say why there is none")


class SystemEstimate(Record, frozen=True):
    """Score of one system, or a difference from it."""

    system: str
    score: Estimate


class Finding(Record, frozen=True, kw_only=True):
    """Effect as it was measured, with the verdicts on it."""

    effect: str
    paper: str
    ours: str
    """Difference and scores, in words."""
    verdict: Verdict
    """On the paper's claim: learnt against its own reference."""
    beyond: Verdict | Literal["none"]
    """Whether what was learnt is above every fair floor; none: no floor was measured."""
    reference: SystemEstimate
    learnt: SystemEstimate
    more: Estimate
    """Learnt less reference, by paired difference."""
    seeds: tuple[float, ...]
    """The same of each seed."""
    least: float | None
    """Least effect that the measurement could have seen; None: there is no interval."""
    aimed: Estimate | None
    """Learnt less reference by the reward that was aimed at; None: it was not stored."""
    correlation: float | None
    """Pearson's, of that reward with the table's scores, over the rows of the two; None, too, where
    one of them does not vary."""
    floors: tuple[SystemEstimate, ...]
    """Learnt less each floor."""
    facts: tuple[SystemEstimate, ...]
    hacks: tuple[SystemEstimate, ...]
    why: str = ""


def judge_claim(effect: Effect, more: Estimate, seeds: Sequence[float]) -> Verdict:
    """Return the verdict on an effect's claim, from learnt less reference.

    "More" is seen where its whole interval lies above 0 and every seed does, and refuted where the
    interval lies below. "The same" is seen where the interval lies within a margin that was set
    beforehand; no margin, no "yes": that a difference was not seen does not show that there is
    none. It is refuted where the interval lies beyond. Where neither is so, "too small to tell" if
    an effect as large as expected could have been missed, "not seen" if not; without an interval or
    an expected effect, "undecided".
    """
    if more.low is None or more.high is None:
        return "undecided"
    least = compute_least_effect(more)
    if effect.claim == "same":
        if more.low > effect.margin or more.high < -effect.margin:
            return "no"
        if effect.margin and -effect.margin < more.low and more.high < effect.margin:
            return "yes"
        return "too small to tell" if least and least > effect.margin > 0 else "undecided"
    if more.high < 0:
        return "no"
    if more.low > 0 and min(seeds) > 0:
        return "yes"
    if not effect.expected or more.low > 0 or least is None:
        return "undecided"
    return "too small to tell" if least > effect.expected else "not seen"


def judge_floors(above: Iterable[Estimate]) -> Verdict | Literal["none"]:
    """Return "yes" where all differences from floors lie above 0 beyond their intervals, "no" where
    one lies below."""
    floors = list(above)
    if not floors:
        return "none"
    if any(each.high is not None and each.high < 0 for each in floors):
        return "no"
    seen = all(each.low is not None and each.low > 0 for each in floors)
    return "yes" if seen else "undecided"


def compute_least_effect(more: Estimate) -> float | None:
    """Return the least effect that a measurement with this interval could have seen."""
    if more.low is None or more.high is None:
        return None
    return (more.high - more.low) / 2 * POWER_REACH


def estimate_score(tables: Sequence[ScoreTable], system: str, less: str = "") -> Estimate:
    """Return a system's mean score in several runs, or with `less` its paired difference.

    Runs and questions are crossed. The interval is over questions, each with its mean over runs:
    few runs say nothing of others, and so their own values are shown beside it.
    """
    if tables[0].good:
        own, other = (
            [ScoredAnswers(each.scores[name], each.good) for each in tables if name]
            for name in (system, less)
        )
        return estimate_coverage_area(own, other)
    scores = [score for each in tables for score in each.scores[system]]
    others = [score for each in tables for score in each.scores[less]] if less else []
    bounded = all(0 <= score <= 1 for score in (*scores, *others))
    return estimate_mean(
        [one - other for one, other in zip_longest(scores, others, fillvalue=0.0)],
        [question for each in tables for question in each.questions],
        (-1.0 if less else 0.0) if bounded else None,
    )


def make_finding(
    effect: Effect, tables: Sequence[ScoreTable], aimed: Sequence[ScoreTable] = ()
) -> Finding:
    """Measure and judge an effect on the tables of its name, one of each run; `aimed` are those of
    the reward that was aimed at."""

    def estimate_systems(systems: Iterable[str], own: str = "") -> tuple[SystemEstimate, ...]:
        return tuple(
            SystemEstimate(each, estimate_score(tables, own or each, each if own else ""))
            for each in systems
        )

    pair = (effect.learnt, effect.reference)
    more = estimate_score(tables, *pair)
    seeds = tuple(estimate_score([each], *pair).value for each in tables)
    learnt, reference = estimate_systems(pair)
    floors = estimate_systems(effect.floors, effect.learnt)
    verdict = judge_claim(effect, more, seeds)
    return Finding(
        effect=effect.effect,
        paper=effect.paper,
        ours=f"{format_estimate(more)} more: {format_systems([learnt, reference])}; more than "
        f"floors: {format_systems(floors) or effect.lacking}",
        verdict=verdict,
        beyond=judge_floors(each.score for each in floors),
        reference=reference,
        learnt=learnt,
        more=more,
        seeds=seeds,
        least=compute_least_effect(more),
        aimed=estimate_score(aimed, *pair) if aimed else None,
        correlation=_correlate_scores(tables, aimed, pair) if aimed else None,
        floors=floors,
        facts=estimate_systems(effect.facts),
        hacks=estimate_systems(effect.hacks),
        why=effect.why if verdict != "yes" else "",
    )


def _correlate_scores(
    tables: Sequence[ScoreTable], aimed: Sequence[ScoreTable], systems: Iterable[str]
) -> float | None:
    """Return the correlation of two tables' scores; None where one of them does not vary."""
    pairs = [
        pair
        for system in systems
        for one, other in zip(tables, aimed, strict=True)
        for pair in zip(one.scores[system], other.scores[system], strict=True)
    ]
    columns_2N = np.transpose(pairs)
    if not np.ptp(columns_2N, axis=1).all():
        return None
    return float(np.corrcoef(columns_2N)[0, 1])


def list_findings(
    effects: Iterable[Effect], runs: Sequence[Sequence[ScoreTable]]
) -> Iterator[Finding]:
    """Yield the finding of each effect over runs; each run has a table of each name."""
    by: Mapping[str, list[ScoreTable]] = {
        table.name: [one for run in runs for one in run if one.name == table.name]
        for table in runs[0]
    }
    for effect in effects:
        yield make_finding(effect, by[effect.table], by.get(effect.aimed, ()))


def format_estimate(estimate: Estimate, form: str = ".3f", sized: bool = True) -> str:
    """Format an estimate with its interval, if it has one, and the number of values."""
    parts = [f"n={estimate.count}"] if sized else []
    if estimate.low is not None:
        parts.insert(0, f"{estimate.low:{form}} to {estimate.high:{form}}")
    return f"{estimate.value:{form}}" + (f" ({', '.join(parts)})" if parts else "")


def format_systems(systems: Iterable[SystemEstimate]) -> str:
    """Format systems with their scores and intervals, without sample sizes."""
    return "; ".join(
        f"{each.system} {format_estimate(each.score, sized=False)}" for each in systems
    )

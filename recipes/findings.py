"""Effects that papers show, beside chance, a script, a reference and the best known, and verdicts.

An effect names systems whose scores stand in a table, a row for each question. Its verdict is
computed from the rows of every seed (`judge_effect`); nobody states one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Literal

import msgspec

from rookery.measure.coverage import ScoredAnswers, estimate_coverage_area
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.records import Record

Verdict = Literal["yes", "no", "undecided"]
MIN_QUESTIONS = 20
"""Questions below which nothing is decided."""
FLOORS = ("chance", "script", "best")
"""Fields of an effect that name systems, or have a reason in `absent`."""


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
    learnt: str
    """System that is claimed to score higher than the reference, or the same."""
    reference: str
    chance: tuple[str, ...] = ()
    """Systems that choose by lot."""
    script: tuple[str, ...] = ()
    """Simplest systems without anything learnt in the run."""
    best: tuple[str, ...] = ()
    """Best possible, or best known. They are shown and decide nothing."""
    absent: dict[str, str] = msgspec.field(default_factory=dict)
    """Reason for each of chance, script and best that names no system."""
    claim: Literal["more", "same"] = "more"
    margin: float = 0.0
    """Largest difference that counts as the same, set before the run; 0: none was set."""
    chosen: str
    """What was chosen, on which data."""
    why: str = ""
    """Presumed reason, shown where the verdict is not yes."""

    def __post_init__(self) -> None:
        for part in FLOORS:
            if bool(getattr(self, part)) == bool(self.absent.get(part)):
                raise ValueError(f"{self.effect}: {part} names a system or has a reason, not both")


class SystemEstimate(Record, frozen=True):
    """Score of one system."""

    system: str
    score: Estimate


class Finding(Record, frozen=True, kw_only=True):
    """Effect as it was measured, with its verdict."""

    effect: str
    paper: str
    ours: str
    """Difference and scores, in words."""
    verdict: Verdict
    chance: tuple[SystemEstimate, ...]
    script: tuple[SystemEstimate, ...]
    reference: SystemEstimate
    learnt: SystemEstimate
    best: tuple[SystemEstimate, ...]
    absent: dict[str, str]
    more: Estimate
    """Learnt less reference, by paired difference."""
    chosen: str
    why: str = ""


def judge_effect(
    more: Estimate,
    above: Iterable[Estimate],
    claim: Literal["more", "same"] = "more",
    margin: float = 0.0,
) -> Verdict:
    """Return the verdict on a claim from the intervals of differences.

    `more` is the learnt system less the reference; `above` the learnt system less each script and
    each choice by lot. "More" is seen only where all of these intervals lie above 0, and refuted
    where one lies below. "The same" is seen only where the whole interval lies within a margin that
    was set beforehand; no margin, no "yes": that a difference was not seen does not show that there
    is none. It is refuted where the interval lies beyond the margin.
    """
    floors = list(above)
    if more.low is None or more.high is None:
        return "undecided"
    beyond = all(each.low is not None and each.low > 0 for each in floors)
    if claim == "same":
        if more.low > margin or more.high < -margin:
            return "no"
        within = margin > 0 and -margin < more.low and more.high < margin
        return "yes" if within and beyond else "undecided"
    if more.high < 0 or any(each.high is not None and each.high < 0 for each in floors):
        return "no"
    return "yes" if more.low > 0 and beyond else "undecided"


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


def make_finding(effect: Effect, tables: Sequence[ScoreTable]) -> Finding:
    """Measure and judge an effect on the tables of its name, one of each run."""

    def estimate_systems(systems: Iterable[str]) -> tuple[SystemEstimate, ...]:
        return tuple(SystemEstimate(each, estimate_score(tables, each)) for each in systems)

    more = estimate_score(tables, effect.learnt, effect.reference)
    floors = dict.fromkeys((*effect.chance, *effect.script))
    above = [estimate_score(tables, effect.learnt, each) for each in floors]
    enough = len({each for table in tables for each in table.questions}) >= MIN_QUESTIONS
    verdict = judge_effect(more, above, effect.claim, effect.margin) if enough else "undecided"
    reference, learnt = estimate_systems((effect.reference, effect.learnt))
    parts = {part: estimate_systems(getattr(effect, part)) for part in FLOORS}
    figures = {"learnt": (learnt,), "reference": (reference,), **parts}
    return Finding(
        effect=effect.effect,
        paper=effect.paper,
        ours=f"{format_estimate(more)} more: "
        + "; ".join(
            f"{part} {format_systems(each) or effect.absent[part]}"
            for part, each in figures.items()
        ),
        verdict=verdict,
        **parts,
        reference=reference,
        learnt=learnt,
        absent=effect.absent,
        more=more,
        chosen=effect.chosen,
        why=effect.why if verdict != "yes" else "",
    )


def list_findings(
    effects: Iterable[Effect], runs: Sequence[Sequence[ScoreTable]]
) -> Iterator[Finding]:
    """Yield the finding of each effect over runs; each run has a table of each name."""
    by: Mapping[str, list[ScoreTable]] = {
        table.name: [one for run in runs for one in run if one.name == table.name]
        for table in runs[0]
    }
    for effect in effects:
        yield make_finding(effect, by[effect.table])


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

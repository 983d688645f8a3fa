"""Figures of what is preferred and rewarded, from files that Rookery writes.

It knows nothing of terminals, nor of where figures are written.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from rookery.measure import bestofn
from rookery.measure.battle import (
    Match,
    majority,
    matches,
    matrix_figure,
    systems_of,
    win_rate_figure,
)
from rookery.measure.figure import Figure
from rookery.measure.frontier import Reached, frontier_figure, optimum
from rookery.measure.interval import mean
from rookery.measure.strength import bradley_terry, strength_figure
from rookery.records import Answer, Comparison, Failed, Failure, Question
from rookery.serve.measuring_files import (
    Attempt,
    Rewards,
    Writers,
    by_system,
    named,
    records,
    signed,
    steps_of,
)

Files = Sequence[str]
Score = Callable[[Sequence[tuple[Question, Answer]]], Sequence[float]]
PARTS = 10
"""of a run, each of which is a point of the frontier"""
PRICES = np.geomspace(50, 0.02, 40)
"""of a nat, in spreads of the rewards, for which the optimum is computed"""


def met(files: Files, systems: Files, by_majority: bool) -> list[Match]:
    """The matches in files of comparisons. Raises Failed: no_systems, nothing_met."""
    if not systems:
        detail = "name the files of the answers that were compared: they tell who wrote them"
        raise Failed(Failure("--systems", "no_systems", detail))
    writers = Writers(by_system(systems, Attempt))
    compared = [each for file in files for each in records(Path(file), Comparison)]
    found = matches(signed(compared, writers), lambda answer: answer.text)
    if not found:
        detail = "no comparison is of two systems: name more files with --systems"
        raise Failed(Failure(", ".join(files), "nothing_met", detail))
    return majority(found) if by_majority else found


def beaten(found: Sequence[Match], of: str) -> Figure:
    """Everyone against everyone, or one system against each. Raises Failed (unknown_system)."""
    says = f"{len(found)} matches on {len({match.group for match in found})} questions."
    known = systems_of(found)
    if not of:
        return matrix_figure(found, says)
    if of not in known:
        detail = f"there is no such system: use one of {', '.join(known)}"
        raise Failed(Failure(of, "unknown_system", detail))
    return win_rate_figure(found, of, says)


def strengths(found: Sequence[Match], ties: float) -> Figure:
    """How strong each system is. Raises ValueError as `bradley_terry` does."""
    says = f"By Bradley and Terry's model, from {len(found)} matches."
    return strength_figure(bradley_terry(found, ties), says)


def curves(files: Files, scores: tuple[Score, Score] | None) -> dict[str, bestofn.Curve]:
    """The worth of the best of n of each system: of rewards, or of answers that two reward models
    score, the one that chooses and the one that says what the choice is worth.

    Raises Failed: no_validations, few_answers.
    """
    drawn = _scored(files, *scores) if scores else by_system(files, Rewards)
    for name, lines in drawn.items():
        if not all(line.validations for line in lines):
            detail = "a line of it has no validations, which say what the chosen answer is worth"
            raise Failed(Failure(name, "no_validations", detail))
        if min(len(line.rewards) for line in lines) < 2:
            detail = "it has one answer to some question: the best of n is of two or more"
            raise Failed(Failure(name, "few_answers", detail))
    return {
        name: bestofn.curve([each.rewards for each in lines], [each.validations for each in lines])
        for name, lines in drawn.items()
    }


def _scored(files: Files, chooses: Score, tells: Score) -> dict[str, list[Rewards]]:
    """Answers to the same question are drawn together, in whatever lines they stand."""
    found = {}
    for name, attempts in by_system(files, Attempt).items():
        asked: defaultdict[str, list[tuple[Question, Answer]]] = defaultdict(list)
        for each in attempts:
            if each.answer is not None:
                asked[each.question.text].append((each.question, each.answer))
        found[name] = [
            Rewards(tuple(chooses(pairs)), tuple(tells(pairs))) for pairs in asked.values()
        ]
    return found


def best(found: Mapping[str, bestofn.Curve]) -> Figure:
    """The best of n answers of each system, for all n."""
    return bestofn.best_of_figure(found, "Foretold for every n at once; intervals over questions.")


def bought(found: Mapping[str, bestofn.Curve], costs: Mapping[str, float]) -> Figure:
    """The n and the system that are worth most for a budget. Raises Failed (no_cost)."""
    for name in found:
        if name not in costs:
            detail = f"what an answer of it costs is not said: add --cost {name}=NUMBER"
            raise Failed(Failure(name, "no_cost", detail))
    says = "Of each system n answers, at the cost of one times n; intervals over questions."
    return bestofn.compute_figure(found, costs, says, "cost")


def reached(runs: Files, samples: Sequence[Path]) -> Figure:
    """What runs reached at which distance, and the most that can be, where there are rewards of
    samples of the policy that the runs began with."""
    told = {name or path.name: _moments(path) for name, path in map(named, runs)}
    says = "Each point is a tenth of a run; intervals over its batches."
    drawn = [each.rewards for path in samples for each in records(path, Rewards)]
    if not drawn:
        return frontier_figure(told, (), says)
    spread = float(np.std(np.concatenate(drawn))) or 1.0
    says += f" Optimum and best of n from samples of {len(drawn)} questions."
    most = optimum(drawn, [float(price) * spread for price in PRICES])
    return frontier_figure(told, most, says, bestofn.curve(drawn, drawn))


def _moments(run: Path) -> list[Reached]:
    """What a run came to, a tenth of it after another."""
    steps = steps_of(run)
    parts = [part for part in np.array_split(np.asarray(steps), PARTS) if len(part)]
    return [Reached(float(part[:, 0].mean()), mean(part[:, 1].tolist())) for part in parts]

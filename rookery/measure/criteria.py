"""People's criteria for answers and their references: WebGLM's tables 2 and 8 from Ratings.

It knows nothing of forms but which scales there are and how many levels each has.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

import msgspec

from rookery.judge.forms_rating import CRITERIA, LESS_IS_BETTER
from rookery.measure.figure import Figure, bars
from rookery.measure.interval import Estimate, mean
from rookery.measure.supported import of_systems
from rookery.records import Answer, Comparison, Question, Rating, Record

LEVELS = {
    field.scale: sum(choice.score is not None for choice in field.choices)
    for step in CRITERIA.steps
    for field in step.fields
}
"""of each scale, references first (WebGLM, section 4): four levels or two"""


class Criterion(Record, frozen=True):
    """What people make of one system on one scale."""

    system: str
    scale: str
    mean: Estimate
    """from 0 to 1, as Ratings are"""

    @property
    def level(self) -> float:
        """The mean as the paper gives it: of a scale of four levels from 0 to 3."""
        return self.mean.value * (LEVELS.get(self.scale, 2) - 1)


def criteria(ratings: Iterable[Rating], systems: Callable[[Answer], str]) -> list[Criterion]:
    """The mean of each system on each of the form's scales that it was rated on, in their order.

    `systems` says whose an answer is; a reference is rated as an answer that says what is quoted.
    Intervals are the bootstrap's over questions, as ratings of one question belong together, by
    whomever.
    """
    each = of_systems(ratings, systems, LEVELS)
    return [Criterion(system, scale, _mean(theirs)) for (scale, system), theirs in each.items()]


def criteria_figure(
    found: Sequence[Criterion],
    says: str,
    name: str = "criteria",
    title: str = "What people make of answers and references",
) -> Figure:
    """The systems side by side for each criterion, all from 0 to 1."""
    return Figure(
        name,
        title,
        f"{says} Intervals are the bootstrap's over questions.",
        ("system", "criterion", "mean, 0 to 1", "low", "high", "ratings", "as in the paper"),
        tuple(
            (each.system, _called(each.scale), *msgspec.structs.astuple(each.mean), each.level)
            for each in found
        ),
        bars({(each.system, _called(each.scale)): each.mean for each in found}, "mean"),
        "WebGLM, table 2",
    )


def ranked(
    question: Question, order: Sequence[Sequence[Answer]], by: str
) -> tuple[Comparison, ...]:
    """Somebody's ranking of answers, the best first, as the comparisons of its pairs.

    Answers of equal rank stand together. This is how the answers of several systems and of people
    become win rates between each two of them (the Turing test of WebGLM, section 5.2).
    """
    placed = [(place, answer) for place, equal in enumerate(order) for answer in equal]
    return tuple(
        Comparison(question, (one, other), (1.0, 0.0) if first < second else (0.5, 0.5), by)
        for (first, one), (second, other) in combinations(placed, 2)
    )


def _mean(ratings: Sequence[Rating]) -> Estimate:
    return mean([rating.value for rating in ratings], [rating.question.id for rating in ratings])


def _called(scale: str) -> str:
    less = ", less is better" if scale in LESS_IS_BETTER else ""
    return scale.replace("_", " ") + less

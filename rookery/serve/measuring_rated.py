"""Figures of what people say of single answers, from files that Rookery writes.

It knows nothing of terminals, nor of where figures are written.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from rookery.measure.coverage import Scored, coverage_figure
from rookery.measure.criteria import Criterion, criteria, criteria_figure
from rookery.measure.figure import Figure
from rookery.measure.supported import Rated, rated_shares, supported_figure
from rookery.measure.truthful import grades_of, truthful_figure, truthfulness
from rookery.records import Answer, Failed, Failure, Rating
from rookery.serve.calibrating import Judge, rated, told
from rookery.serve.measuring_files import Attempt, by_system, rated_by_system

Files = Sequence[str]
T = TypeVar("T")


def covered(files: Files, ratings: Path | None) -> Figure:
    """Quality by the share that is answered, by the scores of each system's answers.

    An answer is good where people rate it so or, without ratings, where it holds a gold answer.
    Raises Failed (no_labels) for a system without a score that is labelled.
    """
    good = rated(ratings) if ratings else told
    scored, left = {}, 0
    for name, attempts in by_system(files, Attempt).items():
        found = [label for each in attempts if (label := _labelled(each, good)) is not None]
        left += len(attempts) - len(found)
        if not found:
            detail = (
                "no answer of it has a score and a label: its questions need `gold` answers, or "
                "add --ratings FILE"
            )
            raise Failed(Failure(name, "no_labels", detail))
        scored[name] = Scored(*zip(*found, strict=True))
    by = "people rate them so" if ratings else "they hold a gold answer"
    says = f"Answers are good where {by}. Left out: {left} without score or label, or declined."
    return coverage_figure(scored, says)


def _labelled(attempt: Attempt, good: Judge) -> tuple[float, float] | None:
    answer = attempt.answer
    if answer is None or answer.declined or answer.score is None:
        return None
    label = good(attempt.question, answer)
    return None if label is None else (answer.score, float(label))


def truths(files: Files, systems: Files) -> Figure:
    """How truthful and informative each system is."""
    found = rated_by_system(files, systems)
    grades = {name: grades_of(ratings) for name, ratings in found.items()}
    for name, each in grades.items():
        _there(each, name, "truthful and informative")
    shares = {name: truthfulness(each) for name, each in grades.items()}
    return truthful_figure(shares, f"{_by(found)} Of several raters, what most say.")


def support(files: Files, systems: Files) -> Figure:
    """How often each system's answers are supported and plausible."""
    shares: list[Rated] = []
    found = rated_by_system(files, systems)
    for name, ratings in found.items():
        each = rated_shares(ratings, _always(name))
        shares += _there(each, name, "supported, plausible or good")
    return supported_figure(shares, _by(found))


def judged(files: Files, systems: Files) -> Figure:
    """What people make of each system by WebGLM's criteria."""
    means: list[Criterion] = []
    found = rated_by_system(files, systems)
    for name, ratings in found.items():
        means += _there(criteria(ratings, _always(name)), name, "such as fluency")
    return criteria_figure(means, _by(found))


def _by(found: Mapping[str, Sequence[Rating]]) -> str:
    people = {rating.by for ratings in found.values() for rating in ratings}
    return f"Rated by {len(people)} {'person' if len(people) == 1 else 'people'}."


def _always(name: str) -> Callable[[Answer], str]:
    """Whose any answer is."""
    return lambda _: name


def _there(found: Sequence[T], name: str, scales: str) -> Sequence[T]:
    if not found:
        detail = f"nobody rated it on the scales that are wanted here: {scales}"
        raise Failed(Failure(name, "not_rated", detail))
    return found

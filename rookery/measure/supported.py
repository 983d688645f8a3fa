"""Supported, plausible, both: shares of the answers of which most raters say so.

GopherCite's tables 1 and 4. It knows nothing of forms and of who rates.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from rookery.judge.agreement import majority
from rookery.judge.meaning import GOOD, PLAUSIBLE, SUPPORTED
from rookery.measure.figure import Figure, bars
from rookery.measure.interval import Estimate, mean, share
from rookery.records import Answer, Rating, Record

SCALES = (SUPPORTED, PLAUSIBLE, GOOD)
"""as they are drawn; the last says that an answer is both"""
_SAID = {GOOD: "supported and plausible"}


class Rated(Record, frozen=True):
    """Of one system's answers, the share that most raters say yes to."""

    system: str
    scale: str
    share: Estimate
    raters: float
    """of an answer, in the mean"""


def verdicts(ratings: Iterable[Rating]) -> dict[tuple[str, Answer], bool]:
    """What most say of each answer, by the question's id and the answer; all on one scale.

    A rating of a half or more is a yes. With as many yes as no it is no (GopherCite, appendix C.1).
    """
    votes: dict[tuple[str, Answer], list[bool]] = defaultdict(list)
    for rating in ratings:
        votes[rating.question.id, rating.answer].append(rating.value >= 0.5)
    return {rated: majority(each, (False, True)) for rated, each in votes.items()}


def rated_shares(
    ratings: Iterable[Rating], systems: Callable[[Answer], str], scales: Sequence[str] = SCALES
) -> list[Rated]:
    """Each system's share on each of these scales where it was rated, by its name.

    `systems` says whose an answer is. Intervals are Wilson's; where a system has several answers
    to a question, the bootstrap's over questions. (The paper's are of 90 %, by the normal
    approximation.)
    """
    each = of_systems(ratings, systems, scales)
    return [_rated(system, scale, theirs) for (scale, system), theirs in each.items()]


def of_systems(
    ratings: Iterable[Rating], systems: Callable[[Answer], str], scales: Iterable[str]
) -> dict[tuple[str, str], list[Rating]]:
    """The ratings on each of these scales, in their order, of each system, by its name."""
    made: dict[tuple[str, str], list[Rating]] = defaultdict(list)
    for rating in ratings:
        made[rating.scale, systems(rating.answer)].append(rating)
    names = sorted({system for _, system in made})
    return {(s, n): made[s, n] for s in scales for n in names if (s, n) in made}


def supported_figure(
    rated: Sequence[Rated],
    says: str,
    name: str = "supported",
    title: str = "Supported and plausible answers",
) -> Figure:
    """The shares of each system side by side."""
    shares = {(_SAID.get(each.scale, each.scale), each.system): each.share for each in rated}
    return Figure(
        name,
        title,
        f"{says} Most raters decide; as many yes as no is no.",
        ("system", "scale", "share", "low", "high", "answers", "raters an answer"),
        tuple(
            (system, scale, *msgspec.structs.astuple(of), each.raters)
            for ((scale, system), of), each in zip(shares.items(), rated, strict=True)
        ),
        bars(shares, "share of the answers"),
        "GopherCite, table 1",
    )


def _rated(system: str, scale: str, ratings: Sequence[Rating]) -> Rated:
    said = verdicts(ratings)
    questions = [question for question, _ in said]
    estimate = share(sum(said.values()), len(said))
    if len(set(questions)) < len(questions):
        estimate = mean([float(yes) for yes in said.values()], questions)
    return Rated(system, scale, estimate, len(ratings) / len(said))

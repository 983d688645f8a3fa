"""Which of two systems wins: matches between systems' answers, and how often each is preferred.

It knows nothing of who judged, nor of how strong many systems are beside each other (`strength`).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

import msgspec

from rookery.measure.figure import Figure, Line, Picture
from rookery.measure.interval import Estimate, mean, share
from rookery.records import Answer, Comparison, Record


class Match(Record, frozen=True):
    """What one judgement says of two systems."""

    one: str
    other: str
    win: float
    """of `one`: 1, or 0 where the other is preferred, or 0.5 for a tie"""
    group: str
    """the question: what is drawn anew for an interval"""

    def __post_init__(self) -> None:
        if self.win not in (0, 0.5, 1) or self.one == self.other:
            raise ValueError(f"{self.one} against {self.other}: a win is 0, 0.5 or 1, of two")


def matches(comparisons: Iterable[Comparison], systems: Callable[[Answer], str]) -> list[Match]:
    """Every pair of answers of every comparison; the greater weight wins, equal ones tie.

    Two answers of one system say nothing of it, nor do two that weigh nothing: in a best of four
    (Ziegler, section 2) nobody said which of the other three is better. `systems` names an
    answer's system. The group is the question's id, or its text where there is none.
    """
    return [
        Match(one, other, _win(weight, less), each.question.id or each.question.text)
        for each in comparisons
        for (one, weight), (other, less) in combinations(
            zip(map(systems, each.answers), each.weights, strict=True), 2
        )
        if one != other and (weight or less)
    ]


def majority(found: Iterable[Match]) -> list[Match]:
    """One match for each question and two systems: whom most raters prefer.

    Whoever calls it a tie is for neither side; as many for each is a tie (Ziegler, table 5, has
    three raters, of whom none may say so).
    """
    votes: dict[tuple[str, str, str], float] = defaultdict(float)
    for each in found:
        swapped = (each.group, each.other, each.one) in votes
        key = (each.group, *((each.other, each.one) if swapped else (each.one, each.other)))
        votes[key] += (each.win - 0.5) * (-1 if swapped else 1)
    return [Match(one, other, _win(vote, 0), group) for (group, one, other), vote in votes.items()]


def win_rate(found: Iterable[Match], one: str, other: str) -> Estimate:
    """How often `one` wins against `other`, a tie counting half (WebGPT, section 4.1).

    The interval is Wilson's where every question has one match, or all matches end alike; where
    some have several, it is the bootstrap's over questions. Raises ValueError where they never met.
    """
    wins, groups = _between(found, one, other)
    if not wins:
        raise ValueError(f"{one} and {other} never met")
    questions = len(set(groups))
    if questions == len(wins) or len(set(wins)) == 1:
        rate = share(sum(wins) * questions / len(wins), questions)
        return msgspec.structs.replace(rate, count=len(wins))
    return mean(wins, groups)


def systems_of(found: Iterable[Match]) -> list[str]:
    """The systems that met any other, in the order in which they come."""
    return list(dict.fromkeys(name for each in found for name in (each.one, each.other)))


def matrix_figure(
    found: Sequence[Match], says: str, name: str = "win-rates", title: str = "Who beats whom"
) -> Figure:
    """How often each system beats each other one, the most winning first (WebGLM, figure 6)."""
    order = sorted(systems_of(found), key=lambda system: -_overall(found, system))
    rates = dict(_rates(found, order))
    lines = [
        Line(
            one,
            tuple(
                (at, rates[one, other].value)
                for at, other in enumerate(order)
                if (one, other) in rates
            ),
        )
        for one in order
    ]
    return Figure(
        name,
        title,
        f"{says} A tie is half a win; a row's system against a column's.",
        ("system", "against", "win rate", "low", "high", "matches"),
        tuple((*pair, *msgspec.structs.astuple(rate)) for pair, rate in rates.items()),
        Picture("grid", tuple(lines), x="against", y="win rate", places=tuple(order)),
        "WebGLM, figure 6",
    )


def win_rate_figure(
    found: Sequence[Match],
    system: str,
    says: str,
    name: str = "preferred",
    title: str = "How often it is preferred",
) -> Figure:
    """How often one system wins against each that it met (WebGPT, fig. 2)."""
    rates = [
        (other, win_rate(found, system, other))
        for other in systems_of(found)
        if _between(found, system, other)[0]
    ]
    line = Line(
        system,
        tuple((at, rate.value) for at, (_, rate) in enumerate(rates)),
        tuple(rate.low for _, rate in rates),
        tuple(rate.high for _, rate in rates),
    )
    even = Line("neither is better", tuple((at, 0.5) for at in range(len(rates))), style="dashed")
    return Figure(
        name,
        title,
        f"{says} A tie is half a win.",
        (f"{system} against", "win rate", "low", "high", "matches"),
        tuple((other, *msgspec.structs.astuple(rate)) for other, rate in rates),
        Picture("bars", (line, even), "against", "win rate", tuple(other for other, _ in rates)),
        "WebGPT, figure 2",
    )


def _win(ours: float, theirs: float) -> float:
    return 0.5 if ours == theirs else float(ours > theirs)


def _between(found: Iterable[Match], one: str, other: str) -> tuple[list[float], list[str]]:
    """The wins of `one`, and their groups."""
    sides = {(one, other): (0.0, 1.0), (other, one): (1.0, -1.0)}
    met = [(*sides[key], each) for each in found if (key := (each.one, each.other)) in sides]
    return [low + sign * each.win for low, sign, each in met], [each.group for *_, each in met]


def _overall(found: Iterable[Match], system: str) -> float:
    wins = [
        each.win if each.one == system else 1 - each.win
        for each in found
        if system in (each.one, each.other)
    ]
    return sum(wins) / len(wins)


def _rates(
    found: Sequence[Match], order: Sequence[str]
) -> Iterator[tuple[tuple[str, str], Estimate]]:
    for one in order:
        for other in order:
            if one != other and _between(found, one, other)[0]:
                yield (one, other), win_rate(found, one, other)

"""Pairwise comparisons: matches between systems, and win rates."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product

import msgspec

from rookery.measure.figures import Figure, FigureLine, FigurePicture, make_line
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.records import Answer, Comparison, Record


class PairwiseMatch(Record, frozen=True):
    """Outcome of one judgement between two systems."""

    one: str
    other: str
    win: float
    """1 if `one` is preferred, 0 if the other is, 0.5 for a tie"""
    group: str
    """the question; intervals are over questions"""

    def __post_init__(self) -> None:
        if self.win not in (0, 0.5, 1) or self.one == self.other:
            raise ValueError(f"{self.one} against {self.other}: a win is 0, 0.5 or 1, of two")


def list_matches(
    comparisons: Iterable[Comparison], systems: Callable[[Answer], str]
) -> list[PairwiseMatch]:
    """Return the match of every two answers in every comparison; equal weights are a tie.

    Pairs of one system's own answers are left out, and so are pairs of which both have weight 0: in
    a best of four (Ziegler, section 2) nobody said which of the other three is better. `systems`
    names an answer's system. The group is the question's id, or its text if it has none.
    """
    return [
        PairwiseMatch(
            one, other, _compare_weights(weight, less), each.question.id or each.question.text
        )
        for each in comparisons
        for (one, weight), (other, less) in combinations(
            zip(map(systems, each.answers), each.weights, strict=True), 2
        )
        if one != other and (weight or less)
    ]


def take_majority(matches: Iterable[PairwiseMatch]) -> list[PairwiseMatch]:
    """Reduce matches to one for each question and pair of systems, by majority of the raters.

    A tie counts for neither side, and as many votes for each side are a tie (Ziegler, table 5, has
    three raters, who cannot call a tie).
    """
    votes: dict[tuple[str, str, str], float] = defaultdict(float)
    for each in matches:
        swapped = (each.group, each.other, each.one) in votes
        key = (each.group, *((each.other, each.one) if swapped else (each.one, each.other)))
        votes[key] += (each.win - 0.5) * (-1 if swapped else 1)
    return [
        PairwiseMatch(one, other, _compare_weights(vote, 0), group)
        for (group, one, other), vote in votes.items()
    ]


def compute_win_rate(matches: Iterable[PairwiseMatch], one: str, other: str) -> Estimate:
    """Return how often `one` wins against `other`, a tie counting half (WebGPT, section 4.1).

    The interval is over questions. Raises ValueError if they never met.
    """
    wins, groups = _select_between(matches, one, other)
    if not wins:
        raise ValueError(f"{one} and {other} were never compared")
    return estimate_mean(wins, groups)


def list_systems(matches: Iterable[PairwiseMatch]) -> list[str]:
    """Return the names of all systems in these matches, in the order of appearance."""
    return list(dict.fromkeys(name for each in matches for name in (each.one, each.other)))


def make_win_matrix_figure(matches: Sequence[PairwiseMatch], says: str) -> Figure:
    """Make the matrix of every system's win rates, the most winning first (WebGLM, figure 6).

    `says` begins the caption.
    """
    order = sorted(list_systems(matches), key=lambda system: -_average_wins(matches, system))
    rates = {
        pair: compute_win_rate(matches, *pair)
        for pair in product(order, repeat=2)
        if _select_between(matches, *pair)[0]
    }
    lines = [
        FigureLine(
            row, tuple((order.index(b), rate.value) for (a, b), rate in rates.items() if a == row)
        )
        for row in order
    ]
    return Figure(
        "win-rates",
        "Who beats whom",
        f"{says} A tie is half a win; a row's system against a column's.",
        ("system", "against", "win rate", "low", "high", "matches"),
        tuple((*pair, *msgspec.structs.astuple(rate)) for pair, rate in rates.items()),
        FigurePicture("grid", tuple(lines), x="against", y="win rate", places=tuple(order)),
        "WebGLM, figure 6",
    )


def make_win_rate_figure(
    matches: Sequence[PairwiseMatch],
    system: str,
    says: str,
    title: str = "How often it is preferred",
) -> Figure:
    """Make the figure of one system's win rates against each that it met (WebGPT, figure 2).

    `says` begins the caption.
    """
    rates = [
        (other, compute_win_rate(matches, system, other))
        for other in list_systems(matches)
        if _select_between(matches, system, other)[0]
    ]
    line = make_line(system, enumerate(rate for _, rate in rates))
    even = FigureLine(
        "neither is better", tuple((at, 0.5) for at in range(len(rates))), style="dashed"
    )
    return Figure(
        "preferred",
        title,
        f"{says} A tie is half a win.",
        (f"{system} against", "win rate", "low", "high", "matches"),
        tuple((other, *msgspec.structs.astuple(rate)) for other, rate in rates),
        FigurePicture(
            "bars", (line, even), "against", "win rate", tuple(other for other, _ in rates)
        ),
        "WebGPT, figure 2",
    )


def _compare_weights(weight: float, other_weight: float) -> float:
    return 0.5 if weight == other_weight else float(weight > other_weight)


def _select_between(
    matches: Iterable[PairwiseMatch], one: str, other: str
) -> tuple[list[float], list[str]]:
    """Return the wins of `one` against `other`, and their groups."""
    sides = {(one, other): (0.0, 1.0), (other, one): (1.0, -1.0)}
    met = [(*sides[key], each) for each in matches if (key := (each.one, each.other)) in sides]
    return [low + sign * each.win for low, sign, each in met], [each.group for *_, each in met]


def _average_wins(matches: Iterable[PairwiseMatch], system: str) -> float:
    wins = [
        each.win if each.one == system else 1 - each.win
        for each in matches
        if system in (each.one, each.other)
    ]
    return sum(wins) / len(wins)

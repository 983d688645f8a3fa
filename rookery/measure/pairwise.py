"""Pairwise comparisons: matches between systems, win rates, Bradley-Terry strengths and Elo.

Strengths are in WebGPT's unit: a system that is stronger by one wins 73 times in 100, sigmoid(1)
(section 5.2).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product

import msgspec
import numpy as np
import numpy.typing as npt

from rookery.measure.figures import Figure, FigureLine, FigurePicture, make_line
from rookery.measure.intervals import INTERVAL_ENDS, Estimate, estimate_mean, estimate_share
from rookery.records import Answer, Comparison, Record


class PairwiseMatch(Record, frozen=True):
    """Outcome of one judgement between two systems."""

    one: str
    other: str
    win: float
    """1 if `one` is preferred, 0 if the other is, 0.5 for a tie"""
    group: str
    """the question; intervals resample questions"""

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

    The interval is Wilson's if every question has one match or all matches end alike; otherwise it
    is by the bootstrap over questions. Raises ValueError if they never met.
    """
    wins, groups = _select_between(matches, one, other)
    if not wins:
        raise ValueError(f"{one} and {other} were never compared")
    questions = len(set(groups))
    if questions == len(wins) or len(set(wins)) == 1:
        rate = estimate_share(sum(wins) * questions / len(wins), questions)
        return msgspec.structs.replace(rate, count=len(wins))
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
    name: str = "preferred",
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
        name,
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


ELO_PER_UNIT = 400 / math.log(10)
"""points of the Elo scale for one unit of strength: 400 points are odds of ten to one"""
FALLBACK_TIES = 0.5
MAX_NEWTON_STEPS = 200

Array = npt.NDArray[np.float64]


def fit_bradley_terry(
    matches: Sequence[PairwiseMatch], ties: float = 0.0, draws: int = 1000, seed: int = 0
) -> dict[str, Estimate]:
    """Fit Bradley-Terry strengths to matches by maximum likelihood, strongest system first.

    Their mean is 0. A tie is half a win for each. As a prior, `ties` more ties are added between
    every two systems that met. Intervals are by the bootstrap over groups, `draws` samples; a
    sample without finite strengths gets half a tie between those that met. Raises ValueError
    without a match, and if the strengths themselves are not finite: because nothing compares some
    systems with others, or some never won against the others.
    """
    names, wins_GSS = _count_wins(matches)
    wins_SS = wins_GSS.sum(0)
    met_SS = ((wins_SS + wins_SS.T) > 0).astype(float)
    total_SS = wins_SS + ties / 2 * met_SS
    _require_connected(names, total_SS)
    counts = (wins_SS + wins_SS.T).sum(1)
    drawn_DS = _bootstrap_strengths(wins_GSS, met_SS, ties, draws, seed)
    low_S, high_S = np.quantile(drawn_DS, INTERVAL_ENDS, axis=0)
    best_S = _maximize_likelihood(total_SS[None])[0]
    low_S, high_S = np.minimum(low_S, best_S), np.maximum(high_S, best_S)
    return {
        names[at]: Estimate(
            float(best_S[at]), float(low_S[at]), float(high_S[at]), round(counts[at])
        )
        for at in np.argsort(-best_S, kind="stable")
    }


def make_strength_figure(strengths: Mapping[str, Estimate], says: str) -> Figure:
    """Make the figure of each system's strength with its interval; the table has Elo points too.

    `says` begins the caption.
    """
    line = make_line("Bradley and Terry", enumerate(strengths.values()), "points")
    rows = tuple(
        (system, *msgspec.structs.astuple(one), one.value * ELO_PER_UNIT)
        for system, one in strengths.items()
    )
    return Figure(
        "strength",
        "Strength of the systems",
        f"{says} The mean of all is 0; one more wins 73 times in 100, 174 points of Elo's.",
        ("system", "strength", "low", "high", "matches", "Elo"),
        rows,
        FigurePicture("bars", (line,), "system", "strength (log odds)", tuple(strengths)),
    )


def _count_wins(matches: Sequence[PairwiseMatch]) -> tuple[list[str], Array]:
    """Return the systems, and for each group the wins of the row's system against the column's."""
    names = list_systems(matches)
    if not names:
        raise ValueError("there is no match")
    at = {name: place for place, name in enumerate(names)}
    groups = {group: place for place, group in enumerate(dict.fromkeys(m.group for m in matches))}
    wins_GSS = np.zeros((len(groups), len(names), len(names)))
    for each in matches:
        one, other, group = at[each.one], at[each.other], groups[each.group]
        wins_GSS[group, one, other] += each.win
        wins_GSS[group, other, one] += 1 - each.win
    return names, wins_GSS


def _bootstrap_strengths(
    wins_GSS: Array, met_SS: Array, ties: float, draws: int, seed: int
) -> Array:
    """Return the strengths of each bootstrap sample, samples × systems."""
    groups, size = wins_GSS.shape[:2]
    chance, shares_G = np.random.default_rng(seed), np.full(groups, 1 / groups)
    flat_GT = wins_GSS.reshape(groups, -1)
    # One draw at a time: with many groups, the counts of all draws would fill the memory.
    resampled = [chance.multinomial(groups, shares_G) @ flat_GT for _ in range(draws)]
    drawn_DSS = np.reshape(resampled, (draws, size, size)) + ties / 2 * met_SS
    lacking_D = ~_find_reachable(drawn_DSS).all((1, 2))
    drawn_DSS[lacking_D] += FALLBACK_TIES / 2 * met_SS
    return _maximize_likelihood(drawn_DSS)


def _find_reachable(wins_DSS: Array) -> npt.NDArray[np.bool_]:
    """Return True where wins lead from the row's system to the column's, directly or through
    others."""
    reached_DSS = (wins_DSS > 0) | np.eye(wins_DSS.shape[1], dtype=bool)
    for _ in range(wins_DSS.shape[1].bit_length()):
        reached_DSS = reached_DSS @ reached_DSS
    return reached_DSS


def _require_connected(names: Sequence[str], wins_SS: Array) -> None:
    """Raise ValueError unless wins lead from everyone to everyone, which makes strengths finite
    (Ford, 1957)."""
    met_SS = _find_reachable((wins_SS + wins_SS.T)[None])[0]
    if not met_SS.all():
        apart = [name for name, reached in zip(names, met_SS[0], strict=True) if not reached]
        raise ValueError(f"nothing compares {names[0]} with {', '.join(apart)}: add such matches")
    reached_SS = _find_reachable(wins_SS[None])[0]
    if not reached_SS.all():
        weakest = reached_SS[np.argmin(reached_SS.sum(1))]
        below = [name for name, inside in zip(names, weakest, strict=True) if inside]
        raise ValueError(
            f"{', '.join(below)} never won against any other, so their strengths are infinite: "
            "add matches, leave them out, or put ties between those that met (ties=1)"
        )


def _maximize_likelihood(wins_DSS: Array) -> Array:
    """Maximise the likelihood by Newton's method, for several tables of wins at once."""
    draws, size, _ = wins_DSS.shape
    met_DSS = wins_DSS + wins_DSS.transpose(0, 2, 1)
    wins_DS = wins_DSS.sum(2)
    strengths_DS = np.zeros((draws, size))
    for _ in range(MAX_NEWTON_STEPS):
        chance_DSS = 1 / (1 + np.exp(strengths_DS[:, None, :] - strengths_DS[:, :, None]))
        slope_DS = wins_DS - (met_DSS * chance_DSS).sum(2)
        weight_DSS = met_DSS * chance_DSS * (1 - chance_DSS)
        # The mean is free; a constant added to the curvature's Laplacian holds it at 0.
        curve_DSS = np.eye(size) * weight_DSS.sum(2)[:, :, None] - weight_DSS + 1 / size
        step_DS = np.linalg.solve(curve_DSS, slope_DS[:, :, None])[:, :, 0]
        # Steps that move no two systems further apart than 1 raise the likelihood from any start.
        step_DS /= np.maximum(1.0, np.ptp(step_DS, axis=1))[:, None]
        strengths_DS += step_DS
        if np.abs(step_DS).max() < 1e-13:
            break
    strengths_DS -= strengths_DS.mean(1, keepdims=True)
    return strengths_DS

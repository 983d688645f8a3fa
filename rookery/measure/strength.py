"""How strong each of many systems is, from matches between any two of them.

Strengths are in WebGPT's unit: one more wins 73 times in 100, sigmoid(1) (section 5.2). It knows
nothing of questions and answers.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from rookery.measure.battle import Match, systems_of
from rookery.measure.figure import Figure, Line, Picture
from rookery.measure.interval import LEVEL, Estimate

ELO = 400 / math.log(10)
"""points of Elo's scale that one unit of strength is: 400 points are odds of ten to one"""
HALF_A_TIE = 0.5
STEPS = 200

Array = npt.NDArray[np.float64]


def bradley_terry(
    found: Sequence[Match], ties: float = 0.0, draws: int = 1000, seed: int = 0
) -> dict[str, Estimate]:
    """The strengths by which these matches are likeliest, their mean being 0, strongest first.

    A tie is half a win for each. `ties` more are put between every two systems that met, as a
    prior. Intervals are the bootstrap's over groups; a draw that has no likeliest strengths gets
    half a tie between those that met. Raises ValueError where these have none, because nothing
    leads from one system to another, or nobody of some ever won against the others.
    """
    names, wins_GSS = _table(found)
    wins_SS = wins_GSS.sum(0)
    met_SS = ((wins_SS + wins_SS.T) > 0).astype(float)
    total_SS = wins_SS + ties / 2 * met_SS
    _check(names, total_SS)
    counts = (wins_SS + wins_SS.T).sum(1)
    drawn_DS = _drawn(wins_GSS, met_SS, ties, draws, seed)
    low_S, high_S = np.quantile(drawn_DS, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    best_S = _likeliest(total_SS[None])[0]
    low_S, high_S = np.minimum(low_S, best_S), np.maximum(high_S, best_S)
    return {
        names[at]: Estimate(
            float(best_S[at]), float(low_S[at]), float(high_S[at]), round(counts[at])
        )
        for at in np.argsort(-best_S, kind="stable")
    }


def elo(found: Iterable[Match], k: float = 32.0) -> dict[str, float]:
    """Elo's points after these matches, one after another, each system beginning with 0.

    `k` is what a match can move at most. The order counts, and the last matches most: for what
    does not change while it is judged, `bradley_terry` times `ELO` is better.
    """
    points: dict[str, float] = {}
    for each in found:
        apart = points.setdefault(each.one, 0.0) - points.setdefault(each.other, 0.0)
        moved = k * (each.win - 1 / (1 + math.exp(-apart / ELO)))
        points[each.one] += moved
        points[each.other] -= moved
    return points


def strength_figure(
    strengths: Mapping[str, Estimate],
    says: str,
    name: str = "strength",
    title: str = "Strength of the systems",
) -> Figure:
    """Each system's strength with its interval, and in Elo's points."""
    each = list(strengths.values())
    line = Line(
        "Bradley and Terry",
        tuple((at, one.value) for at, one in enumerate(each)),
        tuple(one.low for one in each),
        tuple(one.high for one in each),
        "points",
    )
    rows = tuple(
        (system, *msgspec.structs.astuple(one), one.value * ELO)
        for system, one in strengths.items()
    )
    return Figure(
        name,
        title,
        f"{says} The mean of all is 0; one more wins 73 times in 100, 174 points of Elo's.",
        ("system", "strength", "low", "high", "matches", "Elo"),
        rows,
        Picture("bars", (line,), "system", "strength (log odds)", tuple(strengths)),
    )


def _table(found: Sequence[Match]) -> tuple[list[str], Array]:
    """The systems, and in each group how often the one of the row won against the column's."""
    names = systems_of(found)
    if not names:
        raise ValueError("there is no match")
    at = {name: place for place, name in enumerate(names)}
    groups = {group: place for place, group in enumerate(dict.fromkeys(m.group for m in found))}
    wins_GSS = np.zeros((len(groups), len(names), len(names)))
    for each in found:
        one, other, group = at[each.one], at[each.other], groups[each.group]
        wins_GSS[group, one, other] += each.win
        wins_GSS[group, other, one] += 1 - each.win
    return names, wins_GSS


def _drawn(wins_GSS: Array, met_SS: Array, ties: float, draws: int, seed: int) -> Array:
    """The strengths of each sample of the bootstrap."""
    groups, size = wins_GSS.shape[:2]
    chance, shares_G = np.random.default_rng(seed), np.full(groups, 1 / groups)
    flat_GT = wins_GSS.reshape(groups, -1)
    # One after another: of many groups, the counts of all draws together fill the memory.
    drawn = [chance.multinomial(groups, shares_G) @ flat_GT for _ in range(draws)]
    drawn_DSS = np.reshape(drawn, (draws, size, size)) + ties / 2 * met_SS
    lacking_D = ~_reached(drawn_DSS).all((1, 2))
    drawn_DSS[lacking_D] += HALF_A_TIE / 2 * met_SS
    return _likeliest(drawn_DSS)


def _reached(wins_DSS: Array) -> npt.NDArray[np.bool_]:
    """Whether wins lead from the system of the row to that of the column, through others too."""
    reached_DSS = (wins_DSS > 0) | np.eye(wins_DSS.shape[1], dtype=bool)
    for _ in range(wins_DSS.shape[1].bit_length()):
        reached_DSS = reached_DSS @ reached_DSS
    return reached_DSS


def _check(names: Sequence[str], wins_SS: Array) -> None:
    """Strengths are finite where wins lead from everyone to everyone (Ford, 1957)."""
    met_SS = _reached((wins_SS + wins_SS.T)[None])[0]
    if not met_SS.all():
        apart = [name for name, met in zip(names, met_SS[0], strict=True) if not met]
        raise ValueError(f"nothing compares {names[0]} with {', '.join(apart)}: add such matches")
    reached_SS = _reached(wins_SS[None])[0]
    if not reached_SS.all():
        weakest = reached_SS[np.argmin(reached_SS.sum(1))]
        below = [name for name, inside in zip(names, weakest, strict=True) if inside]
        raise ValueError(
            f"{', '.join(below)} never won against any other, so that strengths have no end: "
            "add matches, leave them out, or put ties between those that met (ties=1)"
        )


def _likeliest(wins_DSS: Array) -> Array:
    """Newton's method, for several tables of wins at once."""
    draws, size, _ = wins_DSS.shape
    met_DSS = wins_DSS + wins_DSS.transpose(0, 2, 1)
    wins_DS = wins_DSS.sum(2)
    strengths_DS = np.zeros((draws, size))
    for _ in range(STEPS):
        chance_DSS = 1 / (1 + np.exp(strengths_DS[:, None, :] - strengths_DS[:, :, None]))
        slope_DS = wins_DS - (met_DSS * chance_DSS).sum(2)
        weight_DSS = met_DSS * chance_DSS * (1 - chance_DSS)
        # The mean is free; a constant added to the curvature's Laplacian holds it at 0.
        curve_DSS = np.eye(size) * weight_DSS.sum(2)[:, :, None] - weight_DSS + 1 / size
        step_DS = np.linalg.solve(curve_DSS, slope_DS[:, :, None])[:, :, 0]
        # A step by which no two systems come further apart than 1 climbs, wherever it begins.
        step_DS /= np.maximum(1.0, np.ptp(step_DS, axis=1))[:, None]
        strengths_DS += step_DS
        if np.abs(step_DS).max() < 1e-13:
            break
    strengths_DS -= strengths_DS.mean(1, keepdims=True)
    return strengths_DS

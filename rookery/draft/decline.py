"""The score below which an answer is better declined, chosen so that a promise can be kept.

GopherCite declines below a threshold on the reward (section 2.9) and shows what each threshold
brings (section 3.3); here labelled answers choose the threshold. Knows nothing of where scores
and labels come from.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rookery.records import Failed, Failure, Record

CUTS = 200
"""thresholds that are looked at, at most, spread evenly over the labels"""
FIRST_START = 0.3
"""share of the labels at which the search starts, where that is enough to show anything"""
ENOUGH = 3
"""times the fewest labels that can show anything: no reason to start later"""
NEXT_START = 4
"""times as many labels at each further start"""


class Point(Record, frozen=True):
    """What one threshold would have brought on the labelled answers."""

    threshold: float
    coverage: float
    """share of the answers whose score reaches it"""
    share: float
    """of these, how many are good"""


class Calibration(Record, frozen=True):
    """A threshold, what it promises, and what the promise rests on. Kept beside a model as JSON."""

    threshold: float | None
    """None where no threshold can promise it"""
    reason: str
    """why there is none, in one sentence; empty where there is one"""
    wanted: float
    """least share of the answered questions whose answer is good"""
    confidence: float
    """probability, over the answers that happen to be labelled, that the promise is true"""
    labels: int
    coverage: float
    """share of the labelled answers that reach the threshold; 0 where there is none"""
    share: float
    """of these, how many are good"""
    curve: tuple[Point, ...]
    """coverage against quality, from the highest threshold to the lowest"""

    def accepts(self, score: float) -> bool:
        """Whether an answer with this score is given, and not declined."""
        return self.threshold is not None and score >= self.threshold


class _Cut(NamedTuple):
    """The answers whose score reaches the threshold."""

    threshold: float
    reached: int
    good: int


def calibrate(
    scores: Sequence[float],
    good: Sequence[bool],
    wanted: float = 0.9,
    confidence: float = 0.95,
) -> Calibration:
    """The lowest threshold at which `wanted` of what is answered is good, with `confidence`.

    Each threshold is tested by the exact binomial bound (Clopper and Pearson 1934), and the
    search over thresholds is paid for as in Learn then Test (Angelopoulos and others 2021), by
    the fallback procedure (Wiens 2003), which is fixed-sequence testing with several starts: from
    each start the search goes down to lower thresholds until one fails, the risk (1 - confidence)
    is shared among the starts, and a search that arrives at a further start adds that share to
    its own. One start alone is lost with the first few bad answers, and Bonferroni's correction
    pays for every threshold: bench/decline.py compares the three.

    The promise holds for questions drawn as the labelled ones were, and for a score that was not
    fitted on these labels. Raises Failed where scores and labels cannot be used.
    """
    _require_usable(scores, good, wanted, confidence)
    cuts, labels = list(_cuts(scores, good)), len(good)
    starts = _starts(labels, fewest_labels(wanted, confidence))
    kept = _lowest_kept(cuts, starts, wanted, 1 - confidence)
    curve = tuple(_point(cut, labels) for cut in cuts)
    if kept is None:
        reason = _reason(cuts, starts, wanted, confidence)
        return Calibration(None, reason, wanted, confidence, labels, 0.0, 0.0, curve)
    at = _point(kept, labels)
    return Calibration(at.threshold, "", wanted, confidence, labels, at.coverage, at.share, curve)


def fewest_labels(wanted: float, confidence: float) -> int:
    """Answers that must be labelled, and all be good, before anything can be promised."""
    return math.ceil(math.log1p(-confidence) / math.log(wanted) - 1e-9)


def lower_bound(good: int, count: int, confidence: float) -> float:
    """The share that so many good of `count` show at least (Clopper and Pearson, one-sided)."""
    low, high = 0.0, good / max(count, 1)
    for _ in range(50):
        middle = (low + high) / 2
        if at_least(good, count, middle) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def at_least(good: int, count: int, share: float) -> float:
    """The probability of `good` or more among `count`, each good with probability `share`."""
    if good <= 0 or good > count:
        return float(good <= 0)
    if not 0 < share < 1:
        return float(share >= 1)
    if good <= count * share:
        return 1 - at_least(count - good + 1, count, 1 - share)
    log_ways = math.lgamma(count + 1) - math.lgamma(good + 1) - math.lgamma(count - good + 1)
    term = math.exp(log_ways + good * math.log(share) + (count - good) * math.log1p(-share))
    odds, total = share / (1 - share), 0.0
    # Beyond the mean each term is smaller than the one before.
    while term > total * 1e-17:
        total += term
        term *= odds * (count - good) / (good + 1)
        good += 1
    return min(total, 1.0)


def _cuts(scores: Sequence[float], good: Sequence[bool]) -> Iterator[_Cut]:
    """The thresholds from the highest down, equal scores together."""
    ranked = sorted(zip(scores, good, strict=True), key=lambda pair: -pair[0])
    step, found = len(ranked) / CUTS, 0
    due = step
    for count, (score, label) in enumerate(ranked, 1):
        found += bool(label)
        last = count == len(ranked)
        if last or (count >= due and ranked[count][0] != score):
            yield _Cut(score, count, found)
            due = (count // step + 1) * step


def _point(cut: _Cut, labels: int) -> Point:
    return Point(cut.threshold, cut.reached / labels, cut.good / cut.reached)


def _starts(labels: int, fewest: int) -> list[float]:
    start = min(max(FIRST_START * labels, fewest), ENOUGH * fewest)
    starts = []
    while start <= labels:
        starts.append(start)
        start *= NEXT_START
    return starts


def _lowest_kept(
    cuts: Sequence[_Cut], starts: Sequence[float], wanted: float, risk: float
) -> _Cut | None:
    """The last cut that the fallback procedure keeps."""
    kept, carried = None, 0.0
    waiting = list(starts)
    for cut in cuts:
        while waiting and waiting[0] <= cut.reached:
            waiting.pop(0)
            carried += risk / len(starts)
        if carried and at_least(cut.good, cut.reached, wanted) <= carried:
            kept = cut
        else:
            carried = 0.0
    return kept


def _reason(cuts: Sequence[_Cut], starts: Sequence[float], wanted: float, confidence: float) -> str:
    promise = f"that {wanted:.4g} of what is answered is good, with confidence {confidence:.4g}"
    if not starts:
        fewest = fewest_labels(wanted, confidence)
        there = cuts[-1].reached if cuts else 0
        return f"to promise {promise}, takes {fewest} labelled answers at least; there are {there}"
    first = next(cut for cut in cuts if cut.reached >= starts[0])
    shown = lower_bound(first.good, first.reached, 1 - (1 - confidence) / len(starts))
    return (
        f"no threshold can promise {promise}: of the {first.reached} answers that score highest "
        f"{first.good} are good, which shows {shown:.4g}; label more answers, or want less"
    )


def _require_usable(
    scores: Sequence[float], good: Sequence[bool], wanted: float, confidence: float
) -> None:
    problem = ""
    if len(scores) != len(good):
        problem = f"there are {len(scores)} scores and {len(good)} labels: give one label a score"
    elif not all(map(math.isfinite, scores)):
        problem = "some scores are not finite numbers: leave these answers out"
    elif not (0 < wanted < 1 and 0 < confidence < 1):
        problem = "the wanted share and the confidence lie between 0 and 1, both excluded"
    if problem:
        raise Failed(Failure("calibration", "not_usable", problem))

"""Measures that only recipes and benchmarks take: areas under the ROC curve (DeLong) and over
several runs, gains of the best of n, a system's citations, and where in a source copied words
stand."""

from collections.abc import Hashable, Iterable, Sequence
from difflib import SequenceMatcher
from statistics import NormalDist

import numpy as np

from rookery.measure.citations import (
    EntailmentFunction,
    SystemCitationScores,
    average_citation_scores,
    score_answer_citations,
)
from rookery.measure.coverage import (
    BOOTSTRAP_SAMPLES,
    AnswerIndices,
    ScoredAnswers,
    compute_qualities,
    group_by_score,
)
from rookery.measure.figures import Figure, FigureLine, FigurePicture
from rookery.measure.intervals import BOOTSTRAP_SAMPLES as MEAN_SAMPLES
from rookery.measure.intervals import INTERVAL_ENDS, Estimate, estimate_mean
from rookery.measure.reward_frontiers import average_over_questions, estimate_best_of_n
from rookery.measure.text_metrics import align_copied_pairs
from rookery.quotes.word_overlap import split_words
from rookery.records import Answer, Record


def estimate_auroc(good: Sequence[float], bad: Sequence[float]) -> Estimate:
    """Return the area under the ROC curve: how often a good one scores above a bad one, ties half.

    The interval is DeLong's (1988), over good ones and bad ones, cut off at 0 and 1. Raises
    ValueError without a good or a bad one.
    """
    if not good or not bad:
        raise ValueError("an area needs a good and a bad one at least")
    above_G, above_B = _share_below(good, bad), 1 - _share_below(bad, good)
    value = float(above_G.mean())
    variance = sum(
        float(each.var(ddof=1)) / len(each) for each in (above_G, above_B) if each[1:].size
    )
    reach = NormalDist().inv_cdf(INTERVAL_ENDS[1]) * variance**0.5
    ends = max(0.0, value - reach), min(1.0, value + reach)
    return Estimate(value, *ends, len(good) + len(bad))


def _share_below(scores: Sequence[float], others: Sequence[float]) -> np.ndarray:
    """Return for each score the share of the others that are below it, ties half."""
    ordered, places = np.sort(others), np.asarray(scores)
    below = np.searchsorted(ordered, places, "left") + np.searchsorted(ordered, places, "right")
    return below / (2 * len(ordered))


def estimate_mean_over_runs(
    values: Sequence[Sequence[float]], groups: Sequence[Sequence[Hashable]], seed: int = 0
) -> Estimate:
    """Return the mean over several runs (seeds) of the same groups, with an interval over both.

    Each sample of the bootstrap draws runs and groups anew, independently: a value counts as often
    as its run and its group were drawn together (Owen 2007, the pigeonhole bootstrap). One run is
    `estimate_mean`; of two or three runs the interval shows too little of what other runs would
    give, since runs that were not made cannot be drawn. Raises ValueError as `estimate_mean`.
    """
    if len(values) == 1:
        return estimate_mean(values[0], groups[0], seed)
    numbers = {
        group: at for at, group in enumerate(dict.fromkeys(each for row in groups for each in row))
    }
    if not numbers:
        raise ValueError("there is no value to take the mean of")
    sums_RG, counts_RG = (np.zeros((len(values), len(numbers))) for _ in range(2))
    for run, (row, row_groups) in enumerate(zip(values, groups, strict=True)):
        places = [numbers[group] for group in row_groups]
        np.add.at(sums_RG[run], places, np.asarray(row, dtype=float))
        np.add.at(counts_RG[run], places, 1.0)
    chance, resampled = np.random.default_rng(seed), []
    for _ in range(MEAN_SAMPLES // 500):
        runs_DR, groups_DG = (
            chance.multinomial(size, np.full(size, 1 / size), 500) for size in sums_RG.shape
        )
        total_D, count_D = (((runs_DR @ each) * groups_DG).sum(1) for each in (sums_RG, counts_RG))
        resampled.append(total_D[count_D > 0] / count_D[count_D > 0])
    low, high = np.quantile(np.concatenate(resampled), INTERVAL_ENDS)
    observed, count = float(sums_RG.sum() / counts_RG.sum()), sum(map(len, values))
    return Estimate(observed, min(observed, float(low)), max(observed, float(high)), count)


def estimate_area_over_runs(
    own_runs: Sequence[ScoredAnswers],
    other_scores: Sequence[Sequence[float]] | None = None,
    seed: int = 0,
) -> Estimate:
    """Return the mean area under the curve over several runs (seeds) of the same questions.

    With `other_scores`, other scores of each run's answers, it is the area less theirs. The answers
    of every run stand in the same order of questions. Each sample of the bootstrap draws questions
    and runs anew, as `estimate_mean_over_runs` does. Raises ValueError as
    `compute_coverage_curve`, and if runs have different numbers of answers.
    """
    count = len(own_runs[0].good)
    if any(len(each.good) != count for each in own_runs):
        raise ValueError("every run has an answer to each question, in the same order")
    mine = [group_by_score(each) for each in own_runs]
    others = [
        group_by_score(ScoredAnswers(scores, each.good))
        for scores, each in zip(other_scores or (), own_runs, strict=bool(other_scores))
    ]

    def compute_area(run: int, at: AnswerIndices) -> float:
        less = compute_qualities(others[run], at).mean() if others else 0.0
        return float(compute_qualities(mine[run], at).mean() - less)

    every, chance = range(len(own_runs)), np.random.default_rng(seed)
    areas = []
    for _ in range(BOOTSTRAP_SAMPLES):
        runs = chance.integers(len(own_runs), size=len(own_runs)).tolist()
        at = chance.integers(count, size=count)
        areas.append(np.mean([compute_area(run, at) for run in runs]))
    low, high = np.quantile(areas, INTERVAL_ENDS)
    mean_area = float(np.mean([compute_area(run, slice(None)) for run in every]))
    return Estimate(mean_area, float(low), float(high), count * len(own_runs))


def estimate_best_of_n_gain(
    rewards: Sequence[Sequence[float]],
    validations: Sequence[Sequence[float]],
    at: Sequence[int] = (),
    seed: int = 0,
) -> dict[int, Estimate]:
    """Return the mean gain of the best of n over one sample, for each n of `at`.

    Otherwise as `estimate_best_of_n_curve`. If rewards are log odds, the sigmoid of the gain is how
    often people should prefer the best of n (WebGPT, figure 5).
    """
    estimates = [estimate_best_of_n(*each) for each in zip(rewards, validations, strict=True)]
    return average_over_questions([each - each[0] for each in estimates], at, seed)


class CopiedStretch(Record, frozen=True):
    """Words of a text that stand in its source in a row."""

    said: int
    """index of the first of them among the words of the text"""
    source: int
    """index of the first of them among the words of the source"""
    length: int


def find_longest_stretch(text: str, source: str) -> CopiedStretch:
    """Return the longest run of words of the text that stands in the source.

    Of several the first in the text, and there the first in the source. Of length 0 if they share
    no word.
    """
    ours, theirs = split_words(text), split_words(source)
    found = SequenceMatcher(None, ours, theirs, autojunk=False).find_longest_match()
    return CopiedStretch(found.a, found.b, found.size)


def make_copy_map_figure(
    texts: Sequence[str], sources: Sequence[str], says: str, name: str = "places"
) -> Figure:
    """Make the map of copied stretches: one row a text, in words of its source (Ziegler, figure 7).

    Texts are of one system, those with shorter sources first. `says` is the caption.
    """
    pairs = sorted(zip(texts, sources, strict=True), key=lambda pair: len(split_words(pair[1])))
    ends = [len(split_words(source)) for _, source in pairs]
    stretches = [_merge_stretches(align_copied_pairs(*pair)) for pair in pairs]
    every = [(stretch, float(row)) for row, each in enumerate(stretches) for stretch in each]
    lines = (
        FigureLine("first word", tuple((first, row) for (first, _), row in every), style="points"),
        FigureLine("last word", tuple((last, row) for (_, last), row in every), style="points"),
        FigureLine(
            "end of the source", tuple((end, y) for y, end in enumerate(ends)), style="dashed"
        ),
    )
    rows = [
        (row, end, len(split_words(text)), sum(last - first for first, last in each), len(each))
        for row, ((text, _), end, each) in enumerate(zip(pairs, ends, stretches, strict=True))
    ]
    head = ("text", "words of the source", "words said", "pairs copied", "stretches")
    picture = FigurePicture("curves", lines, x="word of the source", y="text")
    title = "Where in each source the copied words stand"
    return Figure(name, title, says, head, tuple(rows), picture, "Ziegler, figure 7")


def _merge_stretches(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge pairs that follow each other in both texts; return the first and last word in the
    source."""
    found: list[tuple[int, int]] = []
    before = (-2, -2)
    for said, source in pairs:
        follows = before == (said - 1, source - 1)
        found.append((found.pop()[0] if follows else source, source + 1))
        before = (said, source)
    return found


def score_system_citations(
    answers: Iterable[Answer], entails: EntailmentFunction
) -> SystemCitationScores:
    """Return the mean citation scores of a system's answers; f1 is the mean of the answers' own.

    Intervals are by the bootstrap over answers. Raises ValueError if no answer states anything.
    """
    return average_citation_scores(score_answer_citations(answer, entails) for answer in answers)

"""Measures that only recipes and benchmarks take: areas under the ROC curve (DeLong), gains of the
best of n, a system's citations, and where in a source copied words stand."""

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

import numpy as np

from rookery.measure.citations import (
    EntailmentFunction,
    SystemCitationScores,
    average_citation_scores,
    score_answer_citations,
)
from rookery.measure.figures import Figure, FigureLine, FigurePicture
from rookery.measure.intervals import MIN_GROUPS, Estimate, get_t_quantile
from rookery.measure.reward_frontiers import average_over_questions, estimate_best_of_n
from rookery.measure.text_metrics import align_copied_pairs
from rookery.quotes.word_overlap import split_words
from rookery.records import Answer, Record


def estimate_auroc(good: Sequence[float], bad: Sequence[float]) -> Estimate:
    """Return the area under the ROC curve: how often a good one scores above a bad one, ties half.

    The interval is DeLong's (1988), over good ones and bad ones, cut off at 0 and 1; None for fewer
    than MIN_GROUPS of either, or all apart. Raises ValueError without a good or a bad one.
    """
    if not good or not bad:
        raise ValueError("an area needs a good and a bad one at least")
    above_G, above_B = _share_below(good, bad), 1 - _share_below(bad, good)
    value = float(above_G.mean())
    size = len(good) + len(bad)
    error = sum(float(each.var(ddof=1)) / len(each) for each in (above_G, above_B) if len(each) > 1)
    if min(len(good), len(bad)) < MIN_GROUPS or not error:
        return Estimate(value, None, None, size)
    reach = get_t_quantile(size - 2) * error**0.5
    return Estimate(value, max(0.0, value - reach), min(1.0, value + reach), size)


def _share_below(scores: Sequence[float], others: Sequence[float]) -> np.ndarray:
    """Return for each score the share of the others that are below it, ties half."""
    ordered, places = np.sort(others), np.asarray(scores)
    below = np.searchsorted(ordered, places, "left") + np.searchsorted(ordered, places, "right")
    return below / (2 * len(ordered))


def estimate_best_of_n_gain(
    rewards: Sequence[Sequence[float]],
    validations: Sequence[Sequence[float]],
    at: Sequence[int] = (),
) -> dict[int, Estimate]:
    """Return the mean gain of the best of n over one sample, for each n of `at`.

    Otherwise as `estimate_best_of_n_curve`. If rewards are log odds, the sigmoid of the gain is how
    often people should prefer the best of n (WebGPT, figure 5).
    """
    estimates = [estimate_best_of_n(*each) for each in zip(rewards, validations, strict=True)]
    return average_over_questions([each - each[0] for each in estimates], at, least=None)


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

    Intervals are over answers. Raises ValueError if no answer states anything.
    """
    return average_citation_scores(score_answer_citations(answer, entails) for answer in answers)

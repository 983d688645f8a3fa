"""Overlap of texts with references: ROUGE, exact match, F1.

Words, stems and ROUGE of one pair are those of `quotes.word_overlap`: punctuation and capitals do
not count. R-Lsum is that of Google's rouge-score, which all kinds equal, its variant of the stems
aside. Exact match and F1 take the accepted answer that suits best, normalised as in SQuAD, TriviaQA
or NQ-open.
"""

import re
import string
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from types import SimpleNamespace

from rookery.library.question_files import contains_gold_answer
from rookery.measure.figures import Figure, MeasuredEstimates, make_bars_figure
from rookery.measure.intervals import Estimate, estimate_mean, estimate_share
from rookery.quotes.word_overlap import WordOverlap, compute_rouge_l, compute_rouge_n, split_words

AVERAGED_KINDS = ("R-1", "R-2", "R-L")
"""kinds of ROUGE whose mean is R-AVG (Ziegler, table 4)"""
TEXT_FIGURES: Mapping[str, tuple[str, str, str]] = {
    "rouge": ("ROUGE", "F1", "Ziegler, table 4"),
    "exact": ("Answers that are the accepted ones", "share of the answers; F1", ""),
}
"""title, label of the values and source of each figure, by its name"""


def make_text_figure(name: str, systems: Mapping[str, MeasuredEstimates], says: str) -> Figure:
    """Make the figure of TEXT_FIGURES with this name, with bars for each system.

    The estimates are, for `rouge`, from `estimate_corpus_rouge`; for `exact`, from
    `measure_exactness`; for `novel`, from `measure_novelty`; for `repeated`, from
    `measure_repetition`. `says` is the caption. Raises KeyError for another name.
    """
    title, y, source = TEXT_FIGURES[name]
    return make_bars_figure(name, title, says, systems, y, source)


def compute_rouge(candidate: str, reference: str, stem: bool = False) -> dict[str, WordOverlap]:
    """Return R-1, R-2, R-L and R-Lsum of one pair of texts. For R-Lsum each line is a sentence."""
    from rouge_score.rouge_scorer import RougeScorer

    candidate_words, reference_words = split_words(candidate, stem), split_words(reference, stem)
    tokenizer = SimpleNamespace(tokenize=partial(split_words, stem=stem))
    by_lines = RougeScorer(["rougeLsum"], tokenizer=tokenizer).score(reference, candidate)[
        "rougeLsum"
    ]
    return {
        "R-1": compute_rouge_n(candidate_words, reference_words),
        "R-2": compute_rouge_n(candidate_words, reference_words, 2),
        "R-L": compute_rouge_l(candidate_words, reference_words),
        "R-Lsum": WordOverlap(by_lines.precision, by_lines.recall),
    }


def compute_best_rouge(
    candidate: str, references: Sequence[str], stem: bool = False
) -> dict[str, WordOverlap]:
    """Return each kind of ROUGE against the reference for which its F1 is greatest.

    Raises ValueError without a reference.
    """
    if not references:
        raise ValueError("there is no reference to compare with")
    each = [compute_rouge(candidate, reference, stem) for reference in references]
    return {kind: max((one[kind] for one in each), key=lambda one: one.f1) for kind in each[0]}


def estimate_corpus_rouge(
    candidates: Sequence[str],
    references: Sequence[str | Sequence[str]],
    stem: bool = False,
) -> dict[str, Estimate]:
    """Return the mean F1 of R-1, R-2, R-L and R-Lsum, and R-AVG, the mean of the first three.

    After Ziegler, table 4, with intervals over texts. If a text has several
    references, each kind takes the best one. Raises ValueError without a text, and if a text has no
    reference.
    """
    pairs = zip(
        candidates, ([one] if isinstance(one, str) else one for one in references), strict=True
    )
    each = [
        {kind: overlap.f1 for kind, overlap in compute_best_rouge(text, golds, stem).items()}
        for text, golds in pairs
    ]
    for scores in each:
        scores["R-AVG"] = fmean(scores[kind] for kind in AVERAGED_KINDS)
    kinds = each[0] if each else AVERAGED_KINDS
    return {kind: estimate_mean([scores[kind] for scores in each]) for kind in kinds}


_ARTICLE = re.compile(r"\b(a|an|the)\b")
_REMOVED = str.maketrans("", "", string.punctuation)


def normalize_squad(answer: str) -> str:
    """Normalise as SQuAD 1.1: lower case, no ASCII punctuation, no articles, single blanks.

    "U.S." becomes "us", "well-known" becomes "wellknown".
    """
    return " ".join(_ARTICLE.sub(" ", answer.lower().translate(_REMOVED)).split())


def is_exact_match(answer: str, golds: Sequence[str]) -> bool:
    """Return True if an answer equals one of the accepted ones once normalised.

    Raises ValueError if there are none, or if `golds` is a text and no list of them.
    """
    return normalize_squad(answer) in [normalize_squad(gold) for gold in _require_golds(golds)]


def compute_token_f1(answer: str, golds: Sequence[str]) -> float:
    """Return the greatest F1 of words against any accepted answer; 0 if nothing is shared.

    Words count as often as they are in both; empty answers have 0. Raises ValueError if none is
    accepted, or if `golds` is a text and no list of them.
    """
    ours = normalize_squad(answer).split()
    accepted = map(normalize_squad, _require_golds(golds))
    return max(compute_rouge_n(ours, gold.split()).f1 for gold in accepted)


def measure_exactness(
    answers: Sequence[str], golds: Sequence[Sequence[str]]
) -> dict[str, Estimate]:
    """Return the share of `exact match`, the mean `F1`, and the share `held`, over many answers.

    `held` is the share that contain an accepted answer as whole words, case and typography ignored;
    it suits answers of more than a few words. Raises ValueError without an answer, or if one has no
    accepted answer.
    """
    pairs = list(zip(answers, golds, strict=True))
    contained = [
        any(contains_gold_answer(text, gold) for gold in accepted) for text, accepted in pairs
    ]
    return {
        "exact match": estimate_share(sum(is_exact_match(*pair) for pair in pairs), len(pairs)),
        "F1": estimate_mean([compute_token_f1(*pair) for pair in pairs]),
        "held": estimate_share(sum(contained), len(contained)),
    }


def _require_golds(golds: Sequence[str]) -> Sequence[str]:
    if isinstance(golds, str) or not golds:
        raise ValueError("accepted answers are a list of one text at least")
    return golds

"""Answers beside accepted ones: exact match and F1 of words.

The accepted answer that suits best counts, normalised as in SQuAD, TriviaQA or NQ-open.
"""

import re
import string
from collections.abc import Sequence

from rookery.library.question_files import contains_gold_answer
from rookery.measure.intervals import Estimate, estimate_mean, estimate_share
from rookery.quotes.word_overlap import compute_rouge_n

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

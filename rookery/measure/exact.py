"""Short answers against the accepted ones: exact match and F1, as the benchmarks normalise them.

It knows nothing of where either comes from. Each answer is compared with the accepted one that
suits it best.
"""

import re
import string
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from rookery.cite.overlap import rouge_n
from rookery.draft.target import holds
from rookery.measure.figure import Figure, Measured, bars_figure
from rookery.measure.interval import Estimate, mean, share

Form = Callable[[str], str]
"""what of an answer is compared"""
_ARTICLE = re.compile(r"\b(a|an|the)\b")
_REMOVED = str.maketrans("", "", string.punctuation)
_SPACED = str.maketrans(dict.fromkeys(string.punctuation + "‘’´`", " "))


def squad_form(answer: str) -> str:
    """Lower case; ASCII punctuation, then the articles "a", "an" and "the" taken out, and white
    space made one (the evaluation of SQuAD 1.1). "U.S." is "us", "well-known" is "wellknown"."""
    return _plain(answer.lower().translate(_REMOVED))


def trivia_form(answer: str) -> str:
    """As SQuAD's, but punctuation, typographic quotes among it, becomes white space (the
    evaluation of TriviaQA). "U.S." is "u s", "well-known" is "well known"."""
    return _plain(answer.lower().translate(_SPACED))


def nq_form(answer: str) -> str:
    """As SQuAD's, once letters and their accents are apart, so that it does not matter how they
    were encoded (the evaluation of NQ-open)."""
    return squad_form(unicodedata.normalize("NFD", answer))


def exact_match(said: str, golds: Sequence[str], form: Form = squad_form) -> bool:
    """Whether an answer is one of the accepted ones. Raises ValueError where there are none."""
    return form(said) in [form(gold) for gold in _accepted(golds)]


def token_f1(said: str, golds: Sequence[str], form: Form = squad_form) -> float:
    """The harmonic mean of precision and recall of words, each as often as in both, against the
    accepted answer of which it is greatest; 0 where nothing is shared, empty answers included.

    Raises ValueError where none is accepted.
    """
    ours = form(said).split()
    return max(rouge_n(ours, form(gold).split()).f1 for gold in _accepted(golds))


def exactness(
    said: Sequence[str],
    golds: Sequence[Sequence[str]],
    form: Form = squad_form,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Of many answers: the share that is an `exact match`, the mean `F1`, and the share in which
    one of the accepted answers is `held` as it stands, for answers of more than a few words.

    Raises ValueError without an answer, and where to one of them none is accepted.
    """
    pairs = list(zip(said, golds, strict=True))
    found = [any(holds(text, gold) for gold in accepted) for text, accepted in pairs]
    return {
        "exact match": share(sum(exact_match(*pair, form) for pair in pairs), len(pairs)),
        "F1": mean([token_f1(*pair, form) for pair in pairs], seed=seed),
        "held": share(sum(found), len(found)),
    }


def exact_figure(systems: Mapping[str, Measured], says: str, name: str = "exact") -> Figure:
    """How often each system's answers are the accepted ones, from `exactness`."""
    return bars_figure(
        name, "Answers that are the accepted ones", says, systems, "share of the answers; F1"
    )


def _accepted(golds: Sequence[str]) -> Sequence[str]:
    if isinstance(golds, str) or not golds:
        raise ValueError("accepted answers are a list of one text at least")
    return golds


def _plain(text: str) -> str:
    return " ".join(_ARTICLE.sub(" ", text).split())

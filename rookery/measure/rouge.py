"""ROUGE of a corpus: how many words what is said shares with what was written for reference.

It knows nothing of whether either is true. Words, stems and ROUGE of one pair are those of
`cite.overlap`; figures equal those of Google's rouge-score, its variant of the stems aside.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from rookery.cite.overlap import Overlap, rouge_l, rouge_n, words
from rookery.measure.figure import Figure, Measured, bars_figure
from rookery.measure.interval import Estimate, mean

AVERAGED = ("R-1", "R-2", "R-L")
"""whose mean is R-AVG (Ziegler, table 4)"""


def rouge(said: str, reference: str, stem: bool = False) -> dict[str, Overlap]:
    """R-1, R-2, R-L and R-Lsum of one pair of texts. For R-Lsum each line is a sentence."""
    ours, theirs = words(said, stem), words(reference, stem)
    lines = [[words(line, stem) for line in text.split("\n")] for text in (said, reference)]
    return {
        "R-1": rouge_n(ours, theirs),
        "R-2": rouge_n(ours, theirs, 2),
        "R-L": rouge_l(ours, theirs),
        "R-Lsum": rouge_lsum(*lines),
    }


def best_rouge(said: str, references: Sequence[str], stem: bool = False) -> dict[str, Overlap]:
    """Each kind of ROUGE against the reference of which its F1 is greatest.

    Raises ValueError without a reference.
    """
    if not references:
        raise ValueError("there is no reference to compare with")
    each = [rouge(said, reference, stem) for reference in references]
    return {kind: max((one[kind] for one in each), key=lambda one: one.f1) for kind in each[0]}


def rouge_lsum(said: Sequence[Sequence[str]], reference: Sequence[Sequence[str]]) -> Overlap:
    """ROUGE-L of a summary: of each sentence of the reference, the words that stand in the longest
    common subsequence with any sentence said; no word counts more often than both have it."""
    ours, theirs = (
        Counter(word for sentence in text for word in sentence) for text in (said, reference)
    )
    left, shared = ours & theirs, 0
    for sentence in reference:
        for place in sorted(set().union(*(_shared(sentence, other) for other in said))):
            shared += left[sentence[place]] > 0
            left[sentence[place]] -= 1
    return Overlap(shared / max(ours.total(), 1), shared / max(theirs.total(), 1))


def corpus_rouge(
    said: Sequence[str],
    references: Sequence[str | Sequence[str]],
    stem: bool = False,
    seed: int = 0,
) -> dict[str, Estimate]:
    """The mean F1 of R-1, R-2, R-L and R-Lsum, and R-AVG, the mean of the first three (Ziegler,
    table 4), with intervals by the bootstrap over texts.

    Where a text has several references, each kind takes the one that suits it best. Raises
    ValueError without a text, and where a text has no reference.
    """
    pairs = zip(said, ([one] if isinstance(one, str) else one for one in references), strict=True)
    each = [
        {kind: overlap.f1 for kind, overlap in best_rouge(text, golds, stem).items()}
        for text, golds in pairs
    ]
    for scores in each:
        scores["R-AVG"] = fmean(scores[kind] for kind in AVERAGED)
    kinds = each[0] if each else AVERAGED
    return {kind: mean([scores[kind] for scores in each], seed=seed) for kind in kinds}


def rouge_figure(systems: Mapping[str, Measured], says: str, name: str = "rouge") -> Figure:
    """The ROUGE of each system, from `corpus_rouge` (Ziegler, table 4; in percent there)."""
    return bars_figure(name, "ROUGE", says, systems, "F1", "Ziegler, table 4")


def _shared(reference: Sequence[str], said: Sequence[str]) -> set[int]:
    """Places in the reference of one longest common subsequence. Of several, that which the
    reference implementation finds: it reads from the end, and where a word of either may go, the
    reference's does."""
    lengths = _lengths(reference, said)
    at, other = len(reference), len(said)
    found = set()
    while at and other:
        if reference[at - 1] == said[other - 1]:
            at, other = at - 1, other - 1
            found.add(at)
        elif lengths[at - 1][other] < lengths[at][other - 1]:
            other -= 1
        else:
            at -= 1
    return found


def _lengths(one: Sequence[str], other: Sequence[str]) -> list[list[int]]:
    """Of the longest common subsequence of each pair of beginnings."""
    rows = [[0] * (len(other) + 1)]
    for word in one:
        row = [0]
        for at, theirs in enumerate(other):
            same = word == theirs
            row.append(rows[-1][at] + 1 if same else max(rows[-1][at + 1], row[at]))
        rows.append(row)
    return rows

"""How many words two texts share: ROUGE-1, ROUGE-2, ... and ROUGE-L. Not whether they agree.

Words are those of the reference implementation (Google's rouge-score): lower case, runs of a-z and
0-9. A text beyond ASCII it would tear apart; there a word is a run of letters, marks and digits of
any alphabet, and each character of a script that sets no spaces is one. Stems are Porter's of 1980,
of words longer than three letters, as in ROUGE-1.5.5; rouge-score takes NLTK's variant, which
treats one word in fifty otherwise (day, technology).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

import msgspec
import Stemmer
from rapidfuzz.distance import LCSseq

from rookery.cite.quotations import UNSPACED

UNSTEMMED = 3
"""letters of a word up to which it is its own stem"""
_ASCII_WORD = re.compile("[a-z0-9]+")


class Overlap(msgspec.Struct, frozen=True):
    """What two texts share, each share from 0 to 1."""

    precision: float
    """of what is said: how much of it the reference holds"""
    recall: float
    """of the reference: how much of it is said"""

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 0 where nothing is shared."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def words(text: str, stem: bool = False) -> list[str]:
    """The words of a text, in order, repeated as they are. `stem` takes English endings off."""
    folded = text.lower()
    found = _ASCII_WORD.findall(folded) if folded.isascii() else _words_of_any_script(folded)
    if not stem:
        return found
    long = iter(Stemmer.Stemmer("porter").stemWords([w for w in found if len(w) > UNSTEMMED]))
    return [next(long) if len(word) > UNSTEMMED else word for word in found]


def rouge_n(said: Sequence[str], reference: Sequence[str], n: int = 1) -> Overlap:
    """ROUGE-n: what two sequences of words share of runs of n words, each as often as in both.

    Raises ValueError for n below 1.
    """
    if n < 1:
        raise ValueError(f"ROUGE-{n} counts runs of {n} words; a run has at least one")
    ours, theirs = (Counter(_runs(each, n)) for each in (said, reference))
    shared = sum(min(count, theirs[run]) for run, count in ours.items() if run in theirs)
    return _overlap(shared, ours.total(), theirs.total())


def rouge_l(said: Sequence[str], reference: Sequence[str]) -> Overlap:
    """ROUGE-L: what two sequences of words share in the same order, other words between allowed."""
    return _overlap(longest_common(said, reference), len(said), len(reference))


def longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Words of the longest common subsequence."""
    return LCSseq.similarity(one, other)


def _runs(sequence: Sequence[str], n: int) -> Sequence[object]:
    return sequence if n == 1 else list(zip(*(sequence[at:] for at in range(n)), strict=False))


def _overlap(shared: int, said: int, reference: int) -> Overlap:
    return Overlap(shared / max(said, 1), shared / max(reference, 1))


def _words_of_any_script(folded: str) -> list[str]:
    composed = unicodedata.normalize("NFC", folded)
    return composed.translate({ord(letter): _spaced(letter) for letter in set(composed)}).split()


def _spaced(letter: str) -> str:
    """The letter where it is part of a word, nothing for what is invisible, else white space."""
    if UNSPACED.match(letter):
        return f" {letter} "
    category = unicodedata.category(letter)
    return letter if category[0] in "LMN" else "" if category == "Cf" else " "

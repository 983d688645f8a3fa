"""Word overlap of two texts: ROUGE-1, ROUGE-2, ...

It measures shared words, not agreement. Words are those of the reference implementation (Google's
rouge-score): lower case, runs of a-z and 0-9. Text beyond ASCII that would tear apart; there a word
is a run of letters, marks and digits of any alphabet, and each character of a script that sets no
spaces is a word. Stems are Porter's of 1980, of words longer than three letters, as in ROUGE-1.5.5;
rouge-score takes NLTK's variant, which treats one word in fifty otherwise (day, technology).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

import msgspec
import Stemmer

from rookery.quotes.answer_text import UNSPACED_LETTER

UNSTEMMED_LETTERS = 3
"""letters of a word up to which it is its own stem"""
_ASCII_WORD = re.compile("[a-z0-9]+")


class WordOverlap(msgspec.Struct, frozen=True):
    """Shares, 0 to 1, that two texts have in common."""

    precision: float
    """share of the text that the reference holds"""
    recall: float
    """share of the reference that the text holds"""

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if nothing is shared."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


def split_words(text: str, stem: bool = False) -> list[str]:
    """Return the words of a text in order, repeated as they are. `stem` removes English endings."""
    folded = text.lower()
    found = _ASCII_WORD.findall(folded) if folded.isascii() else _split_any_script(folded)
    if not stem:
        return found
    long_words = [word for word in found if len(word) > UNSTEMMED_LETTERS]
    long = iter(Stemmer.Stemmer("porter").stemWords(long_words))
    return [next(long) if len(word) > UNSTEMMED_LETTERS else word for word in found]


def compute_rouge_n(candidate: Sequence[str], reference: Sequence[str], n: int = 1) -> WordOverlap:
    """Return the ROUGE-n overlap of two sequences of words.

    Runs of n words are matched, each as often as it is in both. Raises ValueError for n below 1.
    """
    if n < 1:
        raise ValueError(f"ROUGE-{n} counts runs of {n} words; a run has at least one")
    ours, theirs = (Counter(_list_ngrams(each, n)) for each in (candidate, reference))
    shared = sum(min(count, theirs[run]) for run, count in ours.items() if run in theirs)
    return WordOverlap(shared / max(ours.total(), 1), shared / max(theirs.total(), 1))


def _list_ngrams(sequence: Sequence[str], n: int) -> Sequence[object]:
    return sequence if n == 1 else list(zip(*(sequence[at:] for at in range(n)), strict=False))


def _split_any_script(folded: str) -> list[str]:
    composed = unicodedata.normalize("NFC", folded)
    return composed.translate({ord(each): _space_letter(each) for each in set(composed)}).split()


def _space_letter(letter: str) -> str:
    """Return the letter if it is part of a word, nothing for an invisible one, else white space."""
    if UNSPACED_LETTER.match(letter):
        return f" {letter} "
    category = unicodedata.category(letter)
    return letter if category[0] in "LMN" else "" if category == "Cf" else " "

"""Convert text to search terms: lower case, accents and endings removed, the same for page and
question.

Latin words are stemmed in the language that they are said to be in, which `find_language` tells of
a text; the other alphabets by their most widespread language; and scripts that are written without
spaces become pairs of characters.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import chain, pairwise
from pathlib import Path

import Stemmer

from rookery.typed_files import read_text_table

QUESTION_WORDS = frozenset(Path(__file__).with_name("stop_words.txt").read_text("utf-8").split())
"""words of a question that say how it is asked and not what about (notes on BM25 in docs/LOG.md)"""

COMPARING_WORDS = frozenset(
    """between compare compares compared comparing comparison contrast differ differs difference
    differences differently distinguish distinguishes versus vs""".split()
)
"""words by which a question compares: pages that answer it need not have them, and where some do,
the words are rare, so that they would outweigh what is compared"""

ENGLISH = "english"
"""the language of Latin words where nothing else is known"""
_FUNCTION_WORDS = read_text_table(Path(__file__).with_name("function_words.txt"))
"""the commonest words of languages that are stemmed; what has the most of one is in it"""
_LANGUAGES_OF_WORD: dict[str, list[str]] = {}
for _name, _words in _FUNCTION_WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF_WORD.setdefault(_word, []).append(_name)
LANGUAGES = tuple(_FUNCTION_WORDS)
"""languages in Latin letters that are told apart, as their stemmers are named"""
_LEAST_FUNCTION_WORDS = 0.05
"""share of a text's words that tells its language; prose has 0.1 to 0.4, lists of names less"""
_LANGUAGE_SAMPLE = 4000
"""characters of a text that its language is told from"""
_LETTERS = re.compile(r"[^\W\d_]+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_LOWERED_NUMBER = re.compile(r"(?<=[A-Z])_(?=\d)|(?<=[A-Z][a-z])_(?=\d)")
"""of a formula, which pages write as H_2O and questions as H2O"""
_ACCENT = re.compile(r"([a-zα-ω])[\u0300-\u036f]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_ALPHABETS = (
    ("\u0370", "\u03ff", "greek"),
    ("\u0400", "\u052f", "russian"),
    ("\u0530", "\u058f", "armenian"),
    ("\u0600", "\u06ff", "arabic"),
    ("\u0900", "\u097f", "hindi"),
    ("\u0b80", "\u0bff", "tamil"),
)
ENGLISH_SHARE = 0.2
"""least share of words like "the", "of" and "is"; English prose has 0.24 to 0.48 (98 of 100
paragraphs), messages of programs in 80 other languages have 0.13 at most"""
LONGEST_TERM = 60
"""characters of a term that count: what is longer is not a word"""


def find_language(text: str) -> str:
    """Return which of LANGUAGES a text is in, by its commonest words; English where few are known.

    Only its first 4,000 characters are looked at. Texts in other alphabets are English by this.
    """
    return _find_language_of_sample(text[:_LANGUAGE_SAMPLE])


# A question is compared with many sentences of few pages.
@lru_cache(maxsize=256)
def _find_language_of_sample(text: str) -> str:
    words = _LETTERS.findall(text.lower())
    counts = Counter(name for word in words for name in _LANGUAGES_OF_WORD.get(word, ()))
    best = max(LANGUAGES, key=lambda name: counts[name])
    return best if counts[best] >= _LEAST_FUNCTION_WORDS * len(words) > 0 else ENGLISH


def split_terms(text: str, language: str = ENGLISH) -> list[str]:
    """Return the stemmed, lower-case words of a text in order, repeated; stop words are kept.

    Latin words are stemmed as those of `language`, one of LANGUAGES, and cut to LONGEST_TERM
    characters; those of other alphabets are stemmed as their own. Accents are dropped. Scripts
    without spaces between words give pairs of characters.
    """
    if "_" in text:
        text = _LOWERED_NUMBER.sub("", text)
    folded = text.lower()
    words = _ASCII_WORD.findall(folded) if folded.isascii() else _split_words(folded)
    return list(chain.from_iterable(_get_terms(word, language) for word in words))


def get_question_terms(text: str, language: str = ENGLISH) -> list[str]:
    """Return the distinct search terms of a question that say what it is about, in order.

    Its Latin words are stemmed as those of `language`, which is the page's that they are looked for
    on. Stop words, question words and words of comparing are left out as `count_question_terms`
    says.
    """
    return list(count_question_terms(text, language))


def count_question_terms(text: str, language: str = ENGLISH) -> Counter[str]:
    """Count the search terms of a question that say what it is about, in their order.

    Its Latin words are stemmed as those of `language`. Stop words and question words are left out,
    unless there are no others, and so are words of comparing, unless fewer than two others are
    left.
    """
    every = Counter(split_terms(text, language))
    asking, comparing = _get_question_stems(language), _get_comparing_stems(language)
    content_terms = Counter({t: n for t, n in every.items() if t not in asking})
    compared = Counter({t: n for t, n in content_terms.items() if t not in comparing})
    return (compared if len(compared) > 1 else content_terms) or every


def get_keywords(question: str) -> list[str]:
    """Return the content words of a question as written, for an external search engine.

    All its words if none of them is one.
    """
    words = re.findall(r"[^\s?!.,;:\"“”()]+", question)
    return [word for word in words if word.lower() not in QUESTION_WORDS] or words


def join_pairs(words: Iterable[str]) -> list[str]:
    """Return pairs of terms that are neighbours once stop words and question words are left out.

    `["the", "blue", "sky"]` gives `["blue_sky"]`.
    """
    kept = [word for word in words if word not in _get_question_stems(ENGLISH)]
    return [f"{left}_{right}" for left, right in pairwise(kept)]


def reads_as_english(text: str) -> bool:
    """Return whether a fifth of a text's words or more are English function words.

    The share is ENGLISH_SHARE; words of one letter are not counted.
    """
    # One letter is a word in too many languages.
    said = re.findall(r"\w\w+", text.lower())
    return sum(word in QUESTION_WORDS for word in said) >= ENGLISH_SHARE * len(said) > 0


def _split_words(folded: str) -> list[str]:
    plain = _ACCENT.sub(r"\1", unicodedata.normalize("NFKD", folded))
    return _get_word_pattern().findall(unicodedata.normalize("NFC", plain))


# Most words of a text have been seen before: looking them up is four times as fast as stemming
# them, and nine tenths of the time in texts that are not ASCII throughout.
@lru_cache(maxsize=1 << 16)
def _get_terms(word: str, language: str) -> tuple[str, ...]:
    if _UNSPACED.search(word):
        return tuple(term for run in _UNSPACED.findall(word) for term in _cut_bigrams(run))
    return (_stem_word(_get_language(word) or language, word),)


def _cut_bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def _get_language(word: str) -> str | None:
    """Return the language that an alphabet is stemmed as; None for Latin and unknown ones."""
    first = word[0]
    return next((name for low, high, name in _ALPHABETS if low <= first <= high), None)


def _stem_word(language: str, word: str) -> str:
    return str(_get_stemmer(language).stemWord(word))[:LONGEST_TERM]


@cache
def _get_stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language)


@cache
def _get_question_stems(language: str) -> frozenset[str]:
    return QUESTION_WORDS | {_stem_word(language, word) for word in QUESTION_WORDS}


@cache
def _get_comparing_stems(language: str) -> frozenset[str]:
    return frozenset(_stem_word(language, word) for word in COMPARING_WORDS)


@cache
def _get_word_pattern() -> re.Pattern[str]:
    """Letters and digits, and the vowel signs that `\\w` leaves out of Indic and Arabic words."""
    signs = "".join(
        chr(code)
        for code in range(0x300, 0x1A00)
        if unicodedata.category(chr(code)) in ("Mn", "Mc")
    )
    return re.compile(rf"(?:[^\W_]|[{signs}])+")

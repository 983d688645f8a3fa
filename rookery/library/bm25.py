"""BM25 (Robertson and Zaragoza, 2009) over the words of passages and their pairs of words, with
the word statistics of one index or of several that are searched as one."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rookery.pages.search_terms import ENGLISH, count_question_terms, join_pairs, split_terms

PAIR_WEIGHT = 0.2
"""of two neighbouring words against one word; chosen on half of the questions of bench/search.py"""
BM25_K1 = 1.2
BM25_B = 0.75
BM25_SATURATION = BM25_K1 + 1
"""no word can score more than this times its rarity"""
BM25_QUERY_SATURATION = 3.0
"""BM25's k3: a word that a query repeats n times weighs (k3 + 1) n / (k3 + n)"""
ARTICLE_FACTOR = 2.0
"""of passages in the article view"""
RATED_FIELDS = ("words", "pairs")
"""fields of an index whose terms are rated"""


class WeightedTerm(NamedTuple):
    """A term of a query."""

    field: str
    """words or pairs"""
    term: str
    weight: float


class QueryTerms(NamedTuple):
    """The terms of a query, stemmed in several languages."""

    words: Counter[str]
    pairs: Counter[str]
    by_language: Sequence[Counter[str]]
    """the words of each language alone"""

    def list_weights(self) -> list[WeightedTerm]:
        """Return every term with its weight."""
        words = [
            WeightedTerm("words", word, _weigh_repetition(n)) for word, n in self.words.items()
        ]
        pairs = [
            WeightedTerm("pairs", pair, PAIR_WEIGHT * _weigh_repetition(n))
            for pair, n in self.pairs.items()
        ]
        return words + pairs

    def compute_largest_score(self, compute_idf: Callable[[str], float]) -> float:
        """Return the most that the words of a query could bring a passage.

        In another language than the query's, its words are unknown and therefore rare, so that the
        language in which they bring least counts.
        """
        reachable = (
            math.fsum(_weigh_repetition(count) * compute_idf(word) for word, count in words.items())
            for words in self.by_language
        )
        return ARTICLE_FACTOR * BM25_SATURATION * min(reachable)


def parse_query(query: str, languages: Iterable[str]) -> QueryTerms:
    """Return the terms of a query, stemmed in each of the languages, or else in English."""
    words, pairs, by_language = Counter[str](), Counter[str](), []
    for language in list(languages) or [ENGLISH]:
        stems = count_question_terms(query, language)
        words |= stems
        pairs |= Counter(join_pairs(split_terms(query, language)))
        by_language.append(stems)
    return QueryTerms(words, pairs, by_language)


def _weigh_repetition(count: int) -> float:
    """Return the weight of a word that a query says so many times."""
    return (BM25_QUERY_SATURATION + 1) * count / (BM25_QUERY_SATURATION + count)


def compute_idf(having: int, passages: int) -> float:
    """Return the inverse document frequency of a term that so many passages have."""
    # Passages that were removed still count among those that have the word, for a while.
    count = max(passages, having)
    return math.log(1 + (count - having + 0.5) / (having + 0.5))


class TermCounts(NamedTuple):
    """Word statistics for the terms of one query."""

    passages: int
    lengths: dict[str, float]
    """terms of all passages, by field"""
    having: dict[tuple[str, str], int]
    """passages that have a term, by field and term"""

    def compute_idf(self, field: str, term: str) -> float:
        """Return the inverse document frequency of a term."""
        return compute_idf(self.having[field, term], self.passages)

    def get_mean_length(self, field: str) -> float:
        """Return the terms of a mean passage in a field."""
        return self.lengths[field] / self.passages

    def rate_term(self, field: str, term: str, count: float, length: float) -> float:
        """Return the BM25 of a term that stands `count` times in a passage of `length` terms."""
        size = 1 - BM25_B + BM25_B * length / self.get_mean_length(field)
        return self.compute_idf(field, term) * BM25_SATURATION * count / (count + BM25_K1 * size)


def add_term_counts(parts: Sequence[TermCounts]) -> TermCounts:
    """Return the statistics of several indexes together, for the same terms."""
    having = Counter[tuple[str, str]]()
    for part in parts:
        having.update(part.having)
    lengths = {field: math.fsum(part.lengths[field] for part in parts) for field in RATED_FIELDS}
    return TermCounts(sum(part.passages for part in parts), lengths, dict(having))

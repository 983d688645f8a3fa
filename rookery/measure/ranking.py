"""Metrics of rankings with confidence intervals, their figure, and baselines without training.

A baseline is a `Similarity` of `evidence.passage_ranking`: (question, texts) -> a score for each
text. A trained encoder's is `load_dense_ranker(folder).compute_similarities`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from rookery.evidence.ranking_metrics import (
    Numbers,
    RankingMetric,
    apply_ranking_metrics,
    compute_expected_hit,
    compute_expected_ndcg,
    compute_normalised_ndcg,
    compute_pair_accuracy,
    compute_recall_at_k,
    compute_reciprocal_rank,
    compute_spearman,
)
from rookery.measure.figures import Figure, make_bars
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.pages.search_terms import split_terms


def measure_rankings(
    worths: Sequence[Numbers], predicted: Sequence[Numbers], ks: Sequence[int] = (1, 5)
) -> dict[str, Estimate]:
    """Return the mean of each metric over the questions that it is defined for, with its interval.

    One row a question: the worth of each item, and its predicted score. A metric that is defined
    for no question is left out. `pairs` is the share of pairs in the right order; `hit K` how often
    an item of the greatest worth is among the first K; `recall K` the share of items worth more
    than 0 that is there. WebGLM's tables 7 and 9 have accuracy, Spearman, NDCG and normalised NDCG;
    the accuracy of table 7 (19 % for a ranker whose Spearman is about 0) can only be `hit 1`, that
    of table 9 only `pairs`.
    """
    measures: dict[str, RankingMetric] = {
        "pairs": compute_pair_accuracy,
        "spearman": compute_spearman,
        "NDCG": compute_expected_ndcg,
        "normalised NDCG": compute_normalised_ndcg,
        "reciprocal rank": compute_reciprocal_rank,
        **{f"hit {k}": partial(compute_expected_hit, k=k) for k in ks},
        **{f"recall {k}": partial(compute_recall_at_k, k=k) for k in ks},
    }
    scores = apply_ranking_metrics(measures, worths, predicted)
    return {name: estimate_mean(each) for name, each in scores.items()}


def make_ranking_figure(
    methods: Mapping[str, Mapping[str, Estimate]],
    says: str,
    name: str = "ranking",
    title: str = "Rankings",
) -> Figure:
    """Make the figure of several rankers' metrics, from `measure_rankings` (WebGLM, table 7).

    `says` is the caption. Metrics that a ranker lacks are left out.
    """
    measures = dict.fromkeys(measure for each in methods.values() for measure in each)
    rows = {
        (method, measure): each[measure]
        for measure in measures
        for method, each in methods.items()
        if measure in each
    }
    return Figure(
        name,
        title,
        says,
        ("measure", "method", "value", "low", "high", "questions"),
        tuple(
            (measure, method, *msgspec.structs.astuple(estimate))
            for (method, measure), estimate in rows.items()
        ),
        make_bars(rows, "mean over questions"),
        "WebGLM, table 7",
    )


K1, B = 1.2, 0.75
"""parameters of BM25, as in `library.search_index`"""


class CorpusStatistics(msgspec.Struct, frozen=True):
    """Document frequencies of terms, from which their rarity follows."""

    texts: int
    """number of texts"""
    having: Mapping[str, int]
    """number of texts that hold each term"""
    terms: int
    """number of terms in all texts together"""


def count_corpus_terms(texts: Sequence[str]) -> CorpusStatistics:
    """Count the terms of texts (lower case, endings removed: `pages.search_terms`)."""
    found = [split_terms(text) for text in texts]
    having = Counter(term for each in found for term in set(each))
    return CorpusStatistics(len(found), having, sum(map(len, found)))


def score_tf_idf(
    query: str, texts: Sequence[str], among: CorpusStatistics | None = None
) -> list[float]:
    """Return the TF-IDF cosine, 0 to 1, of each text to the query.

    A term's rarity is 1 + ln((1 + texts) / (1 + texts that hold it)), counted in `among`, or in
    these texts if that is None.
    """
    statistics = among or count_corpus_terms(texts)
    query_weights = _weigh_terms(query, statistics)
    return [
        math.fsum(
            weight * query_weights.get(term, 0.0)
            for term, weight in _weigh_terms(text, statistics).items()
        )
        for text in texts
    ]


def score_bm25(
    query: str, texts: Sequence[str], among: CorpusStatistics | None = None
) -> list[float]:
    """Return the Okapi BM25 score of each text, 0 if it shares no term with the query.

    The formula is that of the search in `library.search_index`, which ranks a whole library and
    counts titles and neighbouring words too; this ranks only the given texts. Rarity and mean
    length are those of `among`, or of these texts if that is None.
    """
    statistics = among or count_corpus_terms(texts)
    usual = statistics.terms / max(statistics.texts, 1) or 1.0
    query_weights = {
        term: count * _compute_rarity(term, statistics)
        for term, count in Counter(split_terms(query)).items()
    }
    scores = []
    for text in texts:
        term_counts = Counter(split_terms(text))
        norm = K1 * (1 - B + B * term_counts.total() / usual)
        scores.append(
            math.fsum(
                weight * term_counts[term] * (K1 + 1) / (term_counts[term] + norm)
                for term, weight in query_weights.items()
            )
        )
    return scores


def _weigh_terms(text: str, statistics: CorpusStatistics) -> dict[str, float]:
    """Return the TF-IDF weights of a text's terms, as a vector of length 1."""
    weights = {
        term: count * (1 + math.log((1 + statistics.texts) / (1 + statistics.having.get(term, 0))))
        for term, count in Counter(split_terms(text)).items()
    }
    length = math.hypot(*weights.values())
    return {term: weight / length for term, weight in weights.items()}


def _compute_rarity(term: str, statistics: CorpusStatistics) -> float:
    having = statistics.having.get(term, 0)
    return math.log(1 + (statistics.texts - having + 0.5) / (having + 0.5))

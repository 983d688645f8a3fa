"""Metrics of rankings with confidence intervals, their figure, and baselines that need no training.

The baselines are those of the papers: rankings, and quotes and summaries chosen without a model. A
ranking baseline is a `Similarity` of `cite.passage_ranking`: (question, texts) -> a score for each
text. A trained encoder's is `cite.dense_ranker.load_dense_ranker(folder).compute_similarities`.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random

import msgspec

from rookery.browse.passages import find_sentences
from rookery.browse.search_terms import split_terms
from rookery.cite.ranking_metrics import (
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
from rookery.judge.vote_comparisons import ForumThread
from rookery.measure.figures import Figure, make_bars
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.records import Answer, Claim, Failed, Failure, Page, Question, Quote


def measure_rankings(
    worths: Sequence[Numbers], predicted: Sequence[Numbers], ks: Sequence[int] = (1, 5)
) -> dict[str, Estimate]:
    """Return the mean of each metric over the questions that it is defined for, with its interval.

    One row a question: the worth of each item, and its predicted score. `pairs` is the share of
    pairs in the right order; `hit K` how often an item of the greatest worth is among the first K;
    `recall K` the share of items worth more than 0 that is there. WebGLM's tables 7 and 9 have
    accuracy, Spearman, NDCG and normalised NDCG; the accuracy of table 7 (19 % for a ranker whose
    Spearman is about 0) can only be `hit 1`, that of table 9 only `pairs`.
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
    found = apply_ranking_metrics(measures, worths, predicted)
    return {name: estimate_mean(each) for name, each in found.items()}


def make_ranking_figure(
    methods: Mapping[str, Mapping[str, Estimate]],
    says: str,
    name: str = "ranking",
    title: str = "Rankings",
) -> Figure:
    """Make the figure of several rankers' metrics, from `measure_rankings` (WebGLM, table 7)."""
    measures = dict.fromkeys(measure for each in methods.values() for measure in each)
    found = {
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
            for (method, measure), estimate in found.items()
        ),
        make_bars(found, "mean over questions"),
        "WebGLM, table 7",
    )


K1, B = 1.2, 0.75
"""parameters of BM25, as in `browse.search_index`"""


class CorpusStatistics(msgspec.Struct, frozen=True):
    """Document frequencies of terms, from which their rarity follows."""

    texts: int
    """number of texts"""
    having: Mapping[str, int]
    """number of texts that hold each term"""
    terms: int
    """number of terms in all texts together"""


def count_corpus_terms(texts: Sequence[str]) -> CorpusStatistics:
    """Count the terms of texts (lower case, endings removed: `browse.search_terms`)."""
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
    known = among or count_corpus_terms(texts)
    asked = _weigh_terms(query, known)
    return [
        math.fsum(
            weight * asked.get(term, 0.0) for term, weight in _weigh_terms(text, known).items()
        )
        for text in texts
    ]


def score_bm25(
    query: str, texts: Sequence[str], among: CorpusStatistics | None = None
) -> list[float]:
    """Return the Okapi BM25 score of each text, 0 if it shares no term with the query.

    The formula is that of the search in `browse.search_index`, which ranks a whole library and
    counts titles and neighbouring words too; this ranks only the given texts. Rarity and mean
    length are those of `among`, or of these texts if that is None.
    """
    known = among or count_corpus_terms(texts)
    usual = known.terms / max(known.texts, 1) or 1.0
    asked = {
        term: count * _compute_rarity(term, known)
        for term, count in Counter(split_terms(query)).items()
    }
    found = []
    for text in texts:
        held = Counter(split_terms(text))
        norm = K1 * (1 - B + B * held.total() / usual)
        found.append(
            math.fsum(
                weight * held[term] * (K1 + 1) / (held[term] + norm)
                for term, weight in asked.items()
            )
        )
    return found


def quote_first_sentence(page: Page) -> Quote:
    """Return the first sentence of a page as a quote (GopherCite, section 3.2).

    Raises Failed (no_sentence) if the page has none.
    """
    return page.quote(*_list_sentences(page)[0])


def quote_random_sentence(page: Page, seed: int | str) -> Quote:
    """Return a random sentence of a page as a quote, the same for the same seed.

    Raises Failed (no_sentence) if the page has none.
    """
    return page.quote(*Random(f"{seed} sentence").choice(_list_sentences(page)))


def quote_closest_sentence(page: Page, question: str, gold: str) -> Quote:
    """Return the sentence closest to question and gold answer together by TF-IDF, as a quote.

    Rarity is counted in this page alone (GopherCite, section 3.2); of equals the first is taken.
    Raises Failed (no_sentence) if the page has none.
    """
    spans = _list_sentences(page)
    alike = score_tf_idf(f"{question} {gold}", [page.text[start:end] for start, end in spans])
    return page.quote(*spans[alike.index(max(alike))])


def make_gold_answer(question: Question, quote: Quote) -> Answer:
    """Return the question's first gold answer, resting on this quote. Raises Failed (no_gold)."""
    if not question.gold:
        detail = "the baselines give the gold answer: leave out questions without one"
        raise Failed(Failure(question.id or question.text, "no_gold", detail))
    gold = question.gold[0]
    return Answer(gold, (quote,), (Claim(0, len(gold), (0,)),))


def make_lead_answer(page: Page, count: int = 3) -> Answer:
    """Return the first `count` sentences of a page, quoted, as its summary: lead-3.

    Ziegler (section 3.2) cuts it, as all summaries, at a period between two token counts; the
    caller does that. Raises Failed (no_sentence) if the page has none.
    """
    spans = _list_sentences(page)[:count]
    quote = page.quote(spans[0][0], spans[-1][1])
    return Answer(quote.text, (quote,), (Claim(0, len(quote.text), (0,)),))


def score_by_position(thread: ForumThread) -> list[float]:
    """Return a score for each answer on a forum, higher for those that stand before others."""
    return [float(-number) for number, _ in enumerate(thread.answers)]


def score_by_length(thread: ForumThread) -> list[float]:
    """Return a score for each answer on a forum: its number of characters."""
    return [float(len(post.text)) for post in thread.answers]


def score_by_time(thread: ForumThread) -> list[float]:
    """Return a score for each answer on a forum, higher for those posted earlier.

    Answers of unknown time come last. A time without a zone is UTC.
    """
    times = (post.timestamp for post in thread.answers)
    return [-math.inf if time is None else -time for time in times]


def _list_sentences(page: Page) -> list[tuple[int, int]]:
    found = find_sentences(page, 0, len(page.text))
    if not found:
        detail = "there is no sentence on the page: leave it out"
        raise Failed(Failure(page.url, "no_sentence", detail))
    return found


def _weigh_terms(text: str, known: CorpusStatistics) -> dict[str, float]:
    """Return the TF-IDF weights of a text's terms, as a vector of length 1."""
    weights = {
        term: count * (1 + math.log((1 + known.texts) / (1 + known.having.get(term, 0))))
        for term, count in Counter(split_terms(text)).items()
    }
    length = math.hypot(*weights.values())
    return {term: weight / length for term, weight in weights.items()}


def _compute_rarity(term: str, known: CorpusStatistics) -> float:
    having = known.having.get(term, 0)
    return math.log(1 + (known.texts - having + 0.5) / (having + 0.5))

"""A search index: BM25 (Robertson and Zaragoza, 2009) over passages and their pairs of words, fused
with static vectors (passage_vectors.py).

It is in memory or in a directory, and rates by its own word statistics or by those of several
indexes that are searched as one.
"""

import math
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import tantivy
from tantivy import Occur, Query

from rookery.errors import Failed, Outcome
from rookery.library.page_archive import translate_storage_errors, write_whole_file
from rookery.library.passage_vectors import (
    UNIT,
    KeyedPieces,
    PassageVectors,
    VectorStatistics,
    compute_key,
    estimate_statistics,
    sample_passages,
    split_pieces,
)
from rookery.pages.passages import IndexEntry, build_index_entries
from rookery.pages.search_terms import (
    ENGLISH,
    LANGUAGES,
    count_question_terms,
    join_pairs,
    split_terms,
)
from rookery.records import Failure, Hit, Library, Page, decode_json, prepare_type
from rookery.written_values import list_value_terms

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
        fields = (("words", self.words, 1.0), ("pairs", self.pairs, PAIR_WEIGHT))
        return [
            WeightedTerm(field, term, factor * _weigh_repetition(count))
            for field, counts, factor in fields
            for term, count in counts.items()
        ]

    def compute_largest_score(self, compute_idf: Callable[[str], float]) -> float:
        """Return the most that the words of a query could bring a passage; 0 without words.

        Its pairs of neighbouring words, which are rated too, are not counted.
        In another language than the query's, its words are unknown and therefore rare, so that the
        language in which they bring least counts.
        """
        reachable = (
            math.fsum(_weigh_repetition(count) * compute_idf(word) for word, count in words.items())
            for words in self.by_language
        )
        return ARTICLE_FACTOR * BM25_SATURATION * min(reachable)


def parse_query(query: str, languages: Iterable[str]) -> QueryTerms:
    """Return the terms of a query, stemmed in each of these LANGUAGES, or in English without any.

    Stop words, question words and words of comparing are left out as `count_question_terms` says; a
    query without any word has no terms. Its dates and numbers have the terms of
    `list_value_terms`, too.
    """
    values = Counter(list_value_terms(query))
    words, pairs, by_language = Counter[str](), Counter[str](), []
    for language in list(languages) or [ENGLISH]:
        stems = count_question_terms(query, language) | values
        words |= stems
        pairs |= Counter(join_pairs(split_terms(query, language)))
        by_language.append(stems)
    return QueryTerms(words, pairs, by_language)


def _weigh_repetition(count: int) -> float:
    """Return the weight of a word that a query says so many times."""
    return (BM25_QUERY_SATURATION + 1) * count / (BM25_QUERY_SATURATION + count)


def compute_idf(having: int, passages: int) -> float:
    """Return BM25's inverse document frequency of a term that `having` of `passages` passages have.

    It is ln(1 + (N - n + 0.5) / (n + 0.5)), always positive; `having` may be larger than
    `passages`.
    """
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
        """Return the inverse document frequency of a term. Raises KeyError for one not counted."""
        return compute_idf(self.having[field, term], self.passages)

    def get_mean_length(self, field: str) -> float:
        """Return the mean number of terms of a passage in a field.

        Raises ZeroDivisionError where there is no passage.
        """
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


FUSED_DEPTH = 100
"""best passages by words, and by vectors, among which are the best by both"""
SIMILARITY_WEIGHT = 0.4
"""of the cosine of a passage's vector beside its score by words, which has more than reciprocal
ranks have (docs/LOG.md); chosen on the questions of bench/documentation.py for building"""


def compute_fused_score(hit: Hit) -> float:
    """Return the score of a hit by words and by vectors."""
    return hit.score + SIMILARITY_WEIGHT * hit.similarity


def order_by_fusion(hit: Hit) -> tuple[bool, float, str, int]:
    """Return the sort key of hits: the best first by words and vectors, behind them those that are
    not among the FUSED_DEPTH best by either, and of equal ones by address and place."""
    return not (hit.word_rank or hit.vector_rank), -compute_fused_score(hit), hit.url, hit.start


class CandidateHit(NamedTuple):
    """A passage that may be shown."""

    hit: Hit
    """with its score and its similarity, but without ranks"""
    by_words: bool
    """among the best by words"""
    by_vectors: bool
    """among the best by vectors"""


def fuse_candidates(candidates: Sequence[CandidateHit], k: int) -> list[Hit]:
    """Rank the candidates by words and by vectors, and return the k best by both."""
    by_words = sorted((each.hit for each in candidates if each.by_words), key=_order_hits)
    by_vectors = sorted(
        (each.hit for each in candidates if each.by_vectors),
        key=lambda hit: (-hit.similarity, hit.url, hit.start),
    )
    word_ranks, vector_ranks = (
        {hit: rank for rank, hit in enumerate(hits[:FUSED_DEPTH], 1)}
        for hits in (by_words, by_vectors)
    )
    hits = [
        msgspec.structs.replace(
            hit, word_rank=word_ranks.get(hit, 0), vector_rank=vector_ranks.get(hit, 0)
        )
        for hit in dict.fromkeys((*by_words, *vector_ranks))
    ]
    return sorted(hits, key=order_by_fusion)[:k]


_VECTOR_FILE = "vectors.bin"
INDEX_FORMAT = "7"
"""of what is stored in an index, its vectors' table too; a library rebuilds an index that was
written in another"""
HEAP_BYTES = 64_000_000
"""of each thread that writes"""
MAX_WRITER_THREADS = 4
"""that write: they keep up with the processes that read on four times as many cores"""

# Tantivy multiplies a score by log2(2 + weight): by 2 and by 1.
_ARTICLE_WEIGHT, _REST_WEIGHT = 2, 0
_ROUNDING = 1e-4
"""by which a score in float32 may be wrong, with room to spare"""


class SearchIndex:
    """Passages of many pages, found by their words and by static vectors.

    `directory` None keeps all in memory. Only what `commit` has been called for is found and, in
    a directory, survives. One process at a time may add; any number may search. An index that is
    `part` of several gets its first vectors by `renew_vectors`, with statistics that all share.
    """

    def __init__(self, directory: Path | None = None, part: bool = False) -> None:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        self._schema = _build_schema()
        self._index = tantivy.Index(self._schema, path=str(directory) if directory else None)
        self._writer: tantivy.IndexWriter | None = None
        self._lengths: tuple[int, dict[str, float]] | None = None
        self._vectors = PassageVectors(directory / _VECTOR_FILE if directory else None)
        self._vectors.refresh()
        self._added: list[KeyedPieces] = []
        self._part = part
        # An index in memory holds few pages, and threads take longer to start than it to fill.
        self._threads = min(os.cpu_count() or 1, MAX_WRITER_THREADS) if directory else 1

    def add(self, page: Page) -> None:
        """Cut this page into passages and add each; `commit` makes them visible.

        Passages of an earlier version stay: `remove` its address first.
        """
        self.add_entries(page.url, build_index_entries(page))

    def add_entries(self, url: str, entries: Iterable[IndexEntry]) -> None:
        """Add the passages of the page at this address, as `build_index_entries` prepared them.

        `commit` makes them visible; passages that the address has already stay.
        """
        for entry in entries:
            document = tantivy.Document()
            document.add_text("url", url)
            document.add_bytes("hit", entry.hit)
            document.add_text("words", entry.words)
            document.add_text("pairs", entry.pairs)
            document.add_text("language", entry.language)
            document.add_unsigned("weight", _ARTICLE_WEIGHT if entry.article else _REST_WEIGHT)
            # The table knows English: in other languages words alone decide.
            if entry.language == ENGLISH and len(pieces := split_pieces(entry.text)):
                passage = KeyedPieces(compute_key(Hit.from_json(entry.hit)), pieces.tobytes())
                document.add_unsigned("key", passage.key)
                document.add_bytes("pieces", passage.pieces)
                self._added.append(passage)
            try:
                self._open_writer().add_document(document)
            except ValueError:  # a thread ended: of what, as of a full disk, is told at the end
                self._open_writer().commit()
                raise

    def remove(self, url: str) -> None:
        """Remove all passages of the page at this address; `commit` makes it visible.

        What is added for the address afterwards stays.
        """
        self._open_writer().delete_documents_by_term("url", url)

    def commit(self) -> None:
        """Make what was added and removed visible to searches, and lasting.

        What other processes have committed becomes visible too, and they may write from now on.
        Where the index has grown by half, its vectors are renewed.
        """
        written = self._writer is not None
        self._vectors.refresh()
        # Before the words: a passage that is found has its vector, whenever this is killed.
        self._vectors.append(self._added)
        self._added = []
        if self._writer is not None:
            self._writer.commit()
            self._writer.wait_merging_threads()
            self._writer = None
        self._index.reload()
        self._lengths = None
        if written and not self._part and self.needs_vectors():
            self.renew_vectors()

    def needs_vectors(self) -> bool:
        """Return whether the vectors are missing, or of a library half as large, or most of them
        of passages that are gone."""
        passages, statistics = len(self), self._vectors.statistics
        if statistics is None:
            return passages > 0
        return statistics.is_outgrown(passages) or len(self._vectors) > 2 * passages + FUSED_DEPTH

    def renew_vectors(self, statistics: VectorStatistics | None = None) -> None:
        """Compute the vectors of all passages, by these statistics or by those of the index."""
        if statistics is None:
            statistics = estimate_statistics(self.sample_passages(), len(self))
        self._vectors.replace_vectors(statistics, self._iter_pieces())

    def sample_passages(self) -> list[KeyedPieces]:
        """Return a sample of the passages on which statistics are estimated."""
        return sample_passages(self._iter_pieces())

    @property
    def vector_statistics(self) -> VectorStatistics | None:
        """The statistics of the vectors; None where there are none."""
        return self._vectors.statistics

    def _iter_pieces(self) -> Iterator[KeyedPieces]:
        searcher = self._index.searcher()
        every = searcher.search(Query.all_query(), max(searcher.num_docs, 1), count=False)
        for _, address in every.hits:
            document = searcher.doc(address)
            if (pieces := document.get_first("pieces")) is not None:
                yield KeyedPieces(compute_key(_decode_hit(document)), bytes(pieces))

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the k best passages, best first; of equal ones, in the order of address and place.

        They are ordered by words and vectors (`compute_fused_score`), and each has its rank by
        both, and one word of the query at least: vectors find something for anything. Its score is
        the passage's BM25 divided by the most that the query's words could bring (about
        0 to 1, comparable across queries); neighbouring words of the query that are neighbours in
        the passage add to it. Of one index and one query, the k best are the first k of any larger
        number. The query's words are stemmed in each language that the index holds pages in. Empty
        for k below 1, for a query without words, and where no passage has one of them.
        """
        searcher = self._index.searcher()
        if k < 1 or not searcher.num_docs:
            return []
        terms = parse_query(query, self.list_languages())
        if not terms.words:
            return []
        count, passages = searcher.doc_freq, searcher.num_docs
        most = terms.compute_largest_score(lambda word: compute_idf(count("words", word), passages))
        index_query = self._build_query(terms.list_weights())
        rated = _search_with_ties(searcher, index_query, depth := max(k, FUSED_DEPTH))
        if not rated:
            return []
        worded = [_decode_hit(searcher.doc(address), score / most) for score, address in rated]
        worded = sorted(worded, key=_order_hits)[:depth]

        def rate_hit(score: float, address: tantivy.DocAddress) -> Hit:
            return _decode_hit(searcher.doc(address), score / most)

        return fuse_candidates(self._add_similar(query, worded, index_query, rate_hit), k)

    def _add_similar(
        self,
        query: str,
        worded: Sequence[Hit],
        index_query: Query,
        rate_hit: Callable[[float, tantivy.DocAddress], Hit],
    ) -> list[CandidateHit]:
        """Return the best by words with the FUSED_DEPTH passages whose vectors are nearest to the
        query's, and those that are as near as the last of them."""
        self._vectors.refresh()
        dots = self._vectors.compute_dots(query)
        if dots is None:
            return [CandidateHit(hit, True, False) for hit in worded]
        searcher, near, limit = self._index.searcher(), dict[int, Hit](), FUSED_DEPTH
        while len(near) < FUSED_DEPTH and limit < 2 * max(len(dots), FUSED_DEPTH):
            # Rows of passages that are gone, copies, and passages without a word are not counted.
            limit *= 2
            place = max(len(dots) - limit, 0)
            rows = np.flatnonzero(dots >= np.partition(dots, place)[place])
            rated = self._search_keys(searcher, self._vectors.get_keys(rows), index_query)
            near = {compute_key(hit): hit for hit in (rate_hit(*each) for each in rated)}
        hits = {compute_key(hit): hit for hit in worded}
        cosines = self._vectors.select_dots(dots, [*hits, *near]) / UNIT**2
        similar = dict(zip([*hits, *near], cosines.tolist(), strict=True))
        least = sorted((similar[key] for key in near), reverse=True)[:FUSED_DEPTH][-1:] or [2.0]
        return [
            CandidateHit(
                msgspec.structs.replace(hit, similarity=similar[key]),
                key in hits,
                key in near and similar[key] >= least[0],
            )
            for key, hit in (near | hits).items()
            if key in hits or similar[key] >= least[0]
        ]

    def _search_keys(
        self, searcher: tantivy.Searcher, keys: Iterable[int], rating: Query
    ) -> list[tuple[float, tantivy.DocAddress]]:
        """Return the passages with these keys that a query finds, rated by it."""
        terms = [Query.term_query(self._schema, "key", key) for key in keys]
        any_key = Query.boolean_query([(Occur.Should, term) for term in terms])
        parts = [(Occur.Must, Query.const_score_query(any_key, 0.0)), (Occur.Must, rating)]
        query, limit = Query.boolean_query(parts), 2 * len(terms)
        return list(searcher.search(query, limit, count=False, weight_by_field="weight").hits)

    def list_languages(self) -> list[str]:
        """Return the languages of the pages, in the order of `LANGUAGES`."""
        searcher = self._index.searcher()
        return [name for name in LANGUAGES if searcher.doc_freq("language", name)]

    def count_terms(self, terms: QueryTerms) -> TermCounts:
        """Return in how many passages each term stands, how many there are, and their lengths."""
        searcher = self._index.searcher()
        having = {
            (field, term): searcher.doc_freq(field, term) for field, term, _ in terms.list_weights()
        }
        return TermCounts(*self._measure_lengths(), having)

    def search_shard(
        self, query: str, terms: QueryTerms, counts: TermCounts, k: int
    ) -> list[CandidateHit]:
        """Return the passages that may be among the k best of `search`, for `fuse_candidates`.

        The word statistics `counts` are of all the indexes of which this one is a part, so that the
        scores of all can be compared: they are those that one index over the same passages gives.
        """
        searcher, own = self._index.searcher(), self.count_terms(terms)
        if k < 1 or not own.passages:
            return []
        weights = terms.list_weights()
        idf, own_idf = counts.compute_idf, own.compute_idf
        boosted = [
            WeightedTerm(field, term, weight * idf(field, term) / own_idf(field, term))
            for field, term, weight in weights
            if own.having[field, term]
        ]
        if not boosted:
            return []
        index_query, k = self._build_query(boosted), max(k, FUSED_DEPTH)
        # Passages are rated here by the mean length of this part, which may overrate or underrate
        # any of them by as much as it differs from the mean of all.
        fields = {each.field for each in boosted}
        ratios = [counts.get_mean_length(f) / own.get_mean_length(f) for f in fields]
        low, high = min(1.0, *ratios) * (1 - _ROUNDING), max(1.0, *ratios) * (1 + _ROUNDING)
        limit, index_hits = 2 * k, list[tuple[float, tantivy.DocAddress]]()
        while True:
            index_hits = searcher.search(
                index_query, limit, count=False, weight_by_field="weight"
            ).hits
            if len(index_hits) < limit or index_hits[-1][0] * high < index_hits[k - 1][0] * low:
                break
            limit *= 2
        least = index_hits[k - 1][0] * low / high if len(index_hits) >= k else 0.0
        most = terms.compute_largest_score(lambda word: counts.compute_idf("words", word))

        def rate_hit(score: float, address: tantivy.DocAddress) -> Hit:
            score = self._score_passage(searcher, address, score, boosted, weights, counts)
            return _decode_hit(searcher.doc(address), score / most)

        worded = [rate_hit(*each) for each in index_hits if each[0] >= least]
        worded = sorted(worded, key=_order_hits)[:k]
        return self._add_similar(query, worded, index_query, rate_hit)

    def _score_passage(
        self,
        searcher: tantivy.Searcher,
        address: tantivy.DocAddress,
        score: float,
        boosted: Sequence[WeightedTerm],
        weights: Sequence[WeightedTerm],
        counts: TermCounts,
    ) -> float:
        """Return the score of a passage by the statistics of `counts`; `score` is by its own."""
        own, parts = 0.0, []
        factors = {(field, term): factor for field, term, factor in boosted}
        for field, term, weight in weights:
            explanation = self._explain_term(searcher, address, field, term)
            if explanation is not None:
                own += factors[field, term] * explanation.value
                times, length = explanation.times, explanation.length
                parts.append(weight * counts.rate_term(field, term, times, length))
        # What the passage's part of the page multiplies both by is 1 or 2.
        return math.fsum(parts) * round(score / own)

    def _explain_term(
        self, searcher: tantivy.Searcher, address: tantivy.DocAddress, field: str, term: str
    ) -> "_TermInPassage | None":
        """Return what a term is worth in a passage, and why; None where it is not in it."""
        query = Query.term_query(self._schema, field, term)
        try:
            explanation = _explanation_decoder.decode(query.explain(searcher, address).to_json())
        except ValueError:
            return None
        frequency = explanation.details[2].details
        counted = explanation.details[1].details[1].value
        values = (frequency[0].value, frequency[3].value, frequency[4].value, counted)
        return _TermInPassage(explanation.value, *values)

    def _measure_lengths(self) -> tuple[int, dict[str, float]]:
        """Return the number of passages as it is used to rate words, and the terms of all of them
        in each field, as tantivy explains them for any passage that has a term of the field."""
        if self._lengths is None:
            searcher = self._index.searcher()
            lengths, passages = dict.fromkeys(RATED_FIELDS, 0.0), searcher.num_docs
            for field in RATED_FIELDS:
                for term in self._list_some_terms(searcher, field):
                    query = Query.term_query(self._schema, field, term)
                    for _, address in searcher.search(query, 1, count=False).hits:
                        explained = self._explain_term(searcher, address, field, term)
                        if explained is not None:
                            passages = round(explained.passages)
                            lengths[field] = explained.mean_length * passages
                    if lengths[field]:
                        break
            self._lengths = passages, lengths
        return self._lengths

    def _list_some_terms(self, searcher: tantivy.Searcher, field: str) -> Iterator[str]:
        """Yield terms that a field may have, and last one that it has, if it has any."""
        for _, address in searcher.search(Query.all_query(), 1, count=False).hits:
            snippet = _decode_hit(searcher.doc(address)).snippet
            for language in self.list_languages():
                words = split_terms(snippet, language)
                yield from (words if field == "words" else join_pairs(words))[:3]
        # This reads every term of the field: only where the first passage has none.
        yield from (term for term, _ in searcher.terms_with_prefix(field, "", limit=1))

    def __len__(self) -> int:
        return int(self._index.searcher().num_docs)

    def _open_writer(self) -> tantivy.IndexWriter:
        if self._writer is None:
            heap = HEAP_BYTES * self._threads
            self._writer = self._index.writer(heap_size=heap, num_threads=self._threads)
        return self._writer

    def _build_query(self, weights: Iterable[WeightedTerm]) -> Query:
        return Query.boolean_query(
            [
                (Occur.Should, Query.boost_query(Query.term_query(self._schema, *term), weight))
                for *term, weight in weights
            ]
        )


def _build_schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in ("url", "language"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field("hit", stored=True)
    builder.add_bytes_field("pieces", stored=True)
    builder.add_unsigned_field("key", indexed=True)
    for name in ("words", "pairs"):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    builder.add_unsigned_field("weight", fast=True)
    return builder.build()


def _search_with_ties(
    searcher: tantivy.Searcher, query: Query, k: int
) -> list[tuple[float, tantivy.DocAddress]]:
    """Return the k best of a search, and all that are as good as the last of them: tantivy orders
    equal ones by where they lie, which depends on when and by which thread they were written."""
    limit = k
    while True:
        limit *= 2
        hits = searcher.search(query, limit, count=False, weight_by_field="weight").hits
        if len(hits) < limit or hits[-1][0] < hits[k - 1][0]:
            return [each for each in hits if each[0] >= hits[min(k, len(hits)) - 1][0]]


def _order_hits(hit: Hit) -> tuple[float, str, int]:
    """Sort key of hits: the best first; of equal ones, by address and place."""
    return -hit.score, hit.url, hit.start


class _Explanation(msgspec.Struct):
    """Part of tantivy's explanation of a score."""

    value: float
    details: list["_Explanation"] = []


_explanation_decoder = msgspec.json.Decoder(prepare_type(_Explanation))


class _TermInPassage(NamedTuple):
    """A term in one passage, from tantivy's explanation of its score."""

    value: float
    """its BM25 by the statistics of the passage's own index"""
    times: float
    length: float
    """of the passage, as the index keeps it: rounded"""
    mean_length: float
    passages: float


def _decode_hit(document: tantivy.Document, score: float = 0.0) -> Hit:
    hit = Hit.from_json(document.to_dict()["hit"][0])
    return msgspec.structs.replace(hit, score=score)


@contextmanager
def hold_lock(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file `path` against all other processes; wait, however long, while one has it.

    Its folder is made where it does not exist. `waiting` is called once if it has to wait, and may
    raise to give up. The system takes the lock from a process that dies, so a killed one never
    blocks another. Raises Failed as `translate_storage_errors` does.
    """
    with translate_storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        announced = False
        while not _try_lock(lock, path):
            if not announced:
                waiting()
            announced = True
            time.sleep(0.05)
        yield
    finally:
        lock.close()


def _try_lock(lock: sqlite3.Connection, path: Path) -> bool:
    try:
        lock.execute("begin exclusive")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            return False
        with translate_storage_errors(path):
            raise
    return True


@contextmanager
def translate_index_errors(place: Path) -> Iterator[None]:
    """Turn the errors of a search index below `place` into `Failed`: disk_full, index_failed.

    So it does with tantivy's panics, which damaged files cause.
    """
    try:
        yield
    except BaseException as error:
        # The class of a panic is no Exception, and no module exports it.
        if type(error).__name__ != "PanicException" and not isinstance(error, _INDEX_ERRORS):
            raise
        full = any(sign in str(error) for sign in _DISK_FULL_SIGNS)
        outcome = Outcome.DISK_FULL if full else Outcome.INDEX_FAILED
        advice = "make room" if full else f"delete {place}"
        if any(sign in str(error) for sign in _READ_ONLY_SIGNS):
            advice = f"allow this user to write into {place}, where searching locks a file,"
        if "schema does not match" in str(error):
            advice = "another version made it: build it anew, shards with `rookery index build`,"
        detail = f"the search index cannot be used: {advice} and run again ({error})"
        raise Failed(Failure(str(place), outcome, detail)) from error


_INDEX_ERRORS = (ValueError, OSError, LookupError, ArithmeticError, TypeError, msgspec.MsgspecError)
_READ_ONLY_SIGNS = ("PermissionDenied", "Permission denied", "ReadOnlyFilesystem", "Read-only file")
_DISK_FULL_SIGNS = ("No space left", "os error 28", "File too large", "os error 27")

INDEX_NOTE_FILE = "place.json"


class IndexNote(msgspec.Struct, frozen=True):
    """The documents that an index in the cache holds; the file's time is that of the last use."""

    kind: str
    """folder, site or warc"""
    addresses: tuple[str, ...]
    """of the folders and files (`file://`), or of the site"""
    refreshed: float
    """when the index was last made or changed, in seconds since 1970"""
    glob: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    """the patterns by which files are selected"""
    follow_links: bool = False
    """whether links out of the folders are followed"""


def record_index_use(directory: Path, note: IndexNote, changed: bool) -> None:
    """Record that an index was used now: set the time of its note, or write `note` if it changed.

    A note that is missing is written too. What cannot be written is let be.
    """
    path = directory / INDEX_NOTE_FILE
    with suppress(OSError):
        if not changed and path.is_file():
            os.utime(path)
            return
        write_whole_file(path, [msgspec.json.encode(note)])


def read_index_note(directory: Path) -> IndexNote | None:
    """Return the note of an index; None where there is none that can be read."""
    try:
        data = (directory / INDEX_NOTE_FILE).read_bytes()
        return decode_json(data, IndexNote)
    except (OSError, ValueError):
        return None


class InMemoryLibrary(Library):
    """Library of the given pages; of several with one address, the last."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._pages = {_strip_fragment(page.url): page for page in pages}
        self._index = SearchIndex()
        for page in self._pages.values():
            self._index.add(page)
        self._index.commit()

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the k best passages of the pages, best first, by words and static vectors."""
        return self._index.search(query, k)

    def fetch(self, url: str) -> Page:
        """Return the page at this address, whatever its fragment.

        Raises Failed (url_not_shown) for other addresses.
        """
        page = self._pages.get(_strip_fragment(url))
        if page is None:
            detail = "it is no page of this library: open addresses that a search showed"
            raise Failed(Failure(url, Outcome.URL_NOT_SHOWN, detail))
        return page


def _strip_fragment(url: str) -> str:
    return url.partition("#")[0]

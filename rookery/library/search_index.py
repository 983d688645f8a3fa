"""A search index: BM25 (Robertson and Zaragoza, 2009) over passages and their pairs of words.

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
import tantivy
from tantivy import Occur, Query

from rookery.errors import Failed, Outcome
from rookery.library.page_archive import translate_storage_errors, write_whole_file
from rookery.pages.passages import IndexEntry, build_index_entries
from rookery.pages.search_terms import (
    ENGLISH,
    LANGUAGES,
    count_question_terms,
    join_pairs,
    split_terms,
)
from rookery.records import Failure, Hit, Library, Page, prepare_type

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
    query without any word has no terms.
    """
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


INDEX_FORMAT = "5"
"""of what is stored in an index; a library rebuilds an index that was written in another"""
HEAP_BYTES = 64_000_000
"""of each thread that writes"""
MAX_WRITER_THREADS = 4
"""that write: they keep up with the processes that read on four times as many cores"""

# Tantivy multiplies a score by log2(2 + weight): by 2 and by 1.
_ARTICLE_WEIGHT, _REST_WEIGHT = 2, 0
_ROUNDING = 1e-4
"""by which a score in float32 may be wrong, with room to spare"""


class SearchIndex:
    """Passages of many pages, found by their words.

    `directory` None keeps all in memory. Only what `commit` has been called for is found and, in
    a directory, survives. One process at a time may add; any number may search.
    """

    def __init__(self, directory: Path | None = None) -> None:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        self._schema = _build_schema()
        self._index = tantivy.Index(self._schema, path=str(directory) if directory else None)
        self._writer: tantivy.IndexWriter | None = None
        self._lengths: tuple[int, dict[str, float]] | None = None
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
            self._open_writer().add_document(document)

    def remove(self, url: str) -> None:
        """Remove all passages of the page at this address; `commit` makes it visible.

        What is added for the address afterwards stays.
        """
        self._open_writer().delete_documents_by_term("url", url)

    def commit(self) -> None:
        """Make what was added and removed visible to searches, and lasting.

        What other processes have committed becomes visible too, and they may write from now on.
        """
        if self._writer is not None:
            self._writer.commit()
            self._writer.wait_merging_threads()
            self._writer = None
        self._index.reload()
        self._lengths = None

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the k best passages, best first; of equal ones, in the order of address and place.

        A score is the passage's BM25 divided by the most that the query's words could bring (about
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
        hits = [
            _decode_hit(searcher.doc(address), score / most)
            for score, address in _search_with_ties(searcher, index_query, k)
        ]
        return sorted(hits, key=_order_hits)[:k]

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

    def search_shard(self, terms: QueryTerms, counts: TermCounts, k: int) -> list[Hit]:
        """Return the k best passages as `search` does, with the word statistics of `counts`.

        These are of all the indexes of which this one is a part, so that the scores of all can be
        compared: they are those that one index over the same passages gives.
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
        query = self._build_query(boosted)
        # Passages are rated here by the mean length of this part, which may overrate or underrate
        # any of them by as much as it differs from the mean of all.
        fields = {each.field for each in boosted}
        ratios = [counts.get_mean_length(f) / own.get_mean_length(f) for f in fields]
        low, high = min(1.0, *ratios) * (1 - _ROUNDING), max(1.0, *ratios) * (1 + _ROUNDING)
        limit, index_hits = 2 * k, list[tuple[float, tantivy.DocAddress]]()
        while True:
            index_hits = searcher.search(query, limit, count=False, weight_by_field="weight").hits
            if len(index_hits) < limit or index_hits[-1][0] * high < index_hits[k - 1][0] * low:
                break
            limit *= 2
        least = index_hits[k - 1][0] * low / high if len(index_hits) >= k else 0.0
        most = terms.compute_largest_score(lambda word: counts.compute_idf("words", word))
        rated = [
            (address, self._score_passage(searcher, address, score, boosted, weights, counts))
            for score, address in index_hits
            if score >= least
        ]
        hits = [_decode_hit(searcher.doc(address), score / most) for address, score in rated]
        return sorted(hits, key=_order_hits)[:k]

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
    hit = Hit.from_json(bytes(document.to_dict()["hit"][0]))
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
        return msgspec.json.decode(data, type=prepare_type(IndexNote))
    except (OSError, msgspec.MsgspecError):
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
        """Return the k best passages of the pages, best first, by BM25."""
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

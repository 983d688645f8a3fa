"""The search index: BM25 over passages and their pairs of words, in memory or in a directory."""

import math
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
import tantivy
from tantivy import Occur, Query

from rookery.browse.passages import Passage, passages
from rookery.browse.words import pairs, question_counts, terms
from rookery.records import Hit, Page

FORMAT = "4"
"""of what is stored in an index; a library rebuilds an index that was written in another"""
TITLE_COUNT = 2
"""how often the words of title and headings stand before a passage's own"""
PAIR_WEIGHT = 0.2
"""of two neighbouring words against one word; chosen on half of the questions of bench/search.py"""
SATURATION = 2.2
"""BM25's k1 + 1 with k1 = 1.2: no word can score more than this times its rarity"""
QUERY_SATURATION = 3.0
"""BM25's k3: a word that a query repeats n times weighs (k3 + 1) n / (k3 + n)"""
SNIPPET = 200
"""characters of a passage that a Hit carries"""
HEAP_BYTES = 64_000_000
"""of each thread that writes"""
MOST_THREADS = 4
"""that write: they keep up with the processes that read on four times as many cores"""

# Tantivy multiplies a score by log2(2 + weight): by 2 and by 1.
_ARTICLE_WEIGHT, _REST_WEIGHT = 2, 0
_ARTICLE_FACTOR = 2.0


class IndexEntry(msgspec.Struct, frozen=True, array_like=True):
    """One passage as the index stores it."""

    hit: bytes
    """the Hit that finds it, as JSON, without a score"""
    words: str
    """its terms after those of its title and headings, separated by spaces"""
    pairs: str
    """its pairs of neighbouring terms"""
    article: bool
    """False: outside the article view, worth half"""


def index_entries(page: Page) -> list[IndexEntry]:
    """Cut a page into passages and prepare each for an index.

    This is nearly all of the work of indexing. It needs no index, so another process can do it.
    """
    above: dict[str, list[str]] = {}
    entries = []
    for passage in passages(page):
        if passage.context not in above:
            above[passage.context] = terms(f"{page.title} {passage.context}") * TITLE_COUNT
        words = above[passage.context] + terms(page.text[passage.start : passage.end])
        hit = msgspec.json.encode(_hit_of(page, passage))
        entries.append(IndexEntry(hit, " ".join(words), " ".join(pairs(words)), passage.article))
    return entries


class Index:
    """Passages of many pages, found by their words.

    `directory` None keeps all in memory. Only what `commit` has been called for is found and, in
    a directory, survives. One process at a time may add; any number may search.
    """

    def __init__(self, directory: Path | None = None) -> None:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        self._schema = _schema()
        self._index = tantivy.Index(self._schema, path=str(directory) if directory else None)
        self._writer: tantivy.IndexWriter | None = None
        # An index in memory holds few pages, and threads take longer to start than it to fill.
        self._threads = min(os.cpu_count() or 1, MOST_THREADS) if directory else 1

    def add(self, page: Page) -> None:
        """Cut this page into passages and add each."""
        self.add_entries(page.url, index_entries(page))

    def add_entries(self, url: str, entries: Iterable[IndexEntry]) -> None:
        """Add the passages of the page at this address, as `index_entries` prepared them."""
        for entry in entries:
            document = tantivy.Document()
            document.add_text("url", url)
            document.add_bytes("hit", entry.hit)
            document.add_text("words", entry.words)
            document.add_text("pairs", entry.pairs)
            document.add_unsigned("weight", _ARTICLE_WEIGHT if entry.article else _REST_WEIGHT)
            self._writing().add_document(document)

    def remove(self, url: str) -> None:
        """Forget all passages of the page at this address."""
        self._writing().delete_documents_by_term("url", url)

    def commit(self) -> None:
        """Make what was added and removed visible to searches, and lasting."""
        if self._writer is not None:
            self._writer.commit()
            self._writer.wait_merging_threads()
            self._writer = None
        self._index.reload()

    def search(self, query: str, k: int) -> list[Hit]:
        """The k best passages, best first; of equal ones, in the order of address and place.

        A score is the BM25 of the passage divided by the most that the query's words could bring
        (about 0 to 1, comparable across queries); neighbouring words add to it. Of one index and
        one query, the k best are the first k of any larger number.
        """
        searcher = self._index.searcher()
        words = question_counts(query)
        if k < 1 or not words or not searcher.num_docs:
            return []
        most = _ARTICLE_FACTOR * SATURATION
        most *= math.fsum(_asked(count) * _rarity(searcher, word) for word, count in words.items())
        wanted = self._query(words, Counter(pairs(terms(query))))
        found = [
            msgspec.structs.replace(_stored_hit(searcher.doc(address)), score=score / most)
            for score, address in _best(searcher, wanted, k)
        ]
        return sorted(found, key=lambda hit: (-hit.score, hit.url, hit.start))[:k]

    def __len__(self) -> int:
        return int(self._index.searcher().num_docs)

    def _writing(self) -> tantivy.IndexWriter:
        if self._writer is None:
            heap = HEAP_BYTES * self._threads
            self._writer = self._index.writer(heap_size=heap, num_threads=self._threads)
        return self._writer

    def _query(self, words: Counter[str], neighbours: Counter[str]) -> Query:
        weights = [("words", word, _asked(count)) for word, count in words.items()]
        weights += [("pairs", pair, PAIR_WEIGHT * _asked(n)) for pair, n in neighbours.items()]
        return Query.boolean_query(
            [
                (Occur.Should, Query.boost_query(Query.term_query(self._schema, *term), weight))
                for *term, weight in weights
            ]
        )


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("url", tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field("hit", stored=True)
    for name in ("words", "pairs"):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    builder.add_unsigned_field("weight", fast=True)
    return builder.build()


def _best(
    searcher: tantivy.Searcher, wanted: Query, k: int
) -> list[tuple[float, tantivy.DocAddress]]:
    """The k best of a search, and all that are as good as the last of them: tantivy orders equal
    ones by where they lie, which depends on when and by which thread they were written."""
    limit = k
    while True:
        limit *= 2
        found = searcher.search(wanted, limit, count=False, weight_by_field="weight").hits
        if len(found) < limit or found[-1][0] < found[k - 1][0]:
            return [each for each in found if each[0] >= found[min(k, len(found)) - 1][0]]


def _asked(count: int) -> float:
    """BM25's weight of a word that a query says so many times."""
    return (QUERY_SATURATION + 1) * count / (QUERY_SATURATION + count)


def _rarity(searcher: tantivy.Searcher, word: str) -> float:
    """BM25's inverse document frequency of a word."""
    having = searcher.doc_freq("words", word)
    # Passages that were removed still count among those that have the word, for a while.
    count = max(searcher.num_docs, having)
    return math.log(1 + (count - having + 0.5) / (having + 0.5))


def _hit_of(page: Page, passage: Passage) -> Hit:
    snippet = page.text[passage.start : passage.end][:SNIPPET]
    return Hit(page.url, page.title, snippet, page.digest, passage.start, passage.end)


def _stored_hit(document: tantivy.Document) -> Hit:
    return Hit.from_json(bytes(document.to_dict()["hit"][0]))

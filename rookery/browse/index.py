"""The search index: BM25 over passages and their neighbouring words, in memory or in a directory.

It knows nothing of where pages come from; a library adds them and asks.
"""

import math
from pathlib import Path

import msgspec
import tantivy
from tantivy import Occur, Query

from rookery.browse.passages import Passage, passages
from rookery.browse.words import pairs, question_terms, terms
from rookery.records import Hit, Page

FORMAT = "3"
"""of what is stored in an index; a library rebuilds an index that was written in another"""
TITLE_COUNT = 2
"""how often the words of title and headings stand before a passage's own"""
PAIR_WEIGHT = 0.2
"""of two neighbouring words against one word; chosen on half of the questions of bench/search.py"""
BOILERPLATE_WEIGHT = 0.5
"""of a passage outside the article view"""
SATURATION = 2.2
"""BM25's k1 + 1 with k1 = 1.2: no word can score more than this times its rarity"""
SNIPPET = 200
"""characters of a passage that a Hit carries"""
HEAP_BYTES = 64_000_000


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

    def add(self, page: Page) -> None:
        """Cut this page into passages and add each."""
        for passage in passages(page):
            text = page.text[passage.start : passage.end]
            words = terms(f"{page.title} {passage.context}") * TITLE_COUNT + terms(text)
            document = tantivy.Document()
            document.add_text("url", page.url)
            document.add_bytes("hit", msgspec.json.encode(_stored(page, passage)))
            document.add_text("words", " ".join(words))
            document.add_text("pairs", " ".join(pairs(words)))
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
        """The k best passages, best first.

        A score is the BM25 of the passage divided by the most that the query's words could bring
        (about 0 to 1, comparable across queries); neighbouring words add to it.
        """
        searcher = self._index.searcher()
        words = question_terms(query)
        if not words or not searcher.num_docs:
            return []
        most = SATURATION * sum(_rarity(searcher, word) for word in words)
        found = searcher.search(self._query(words, pairs(terms(query))), k).hits
        hits = [_hit(searcher.doc(address), score / most) for score, address in found]
        return sorted(hits, key=lambda hit: -hit.score)

    def __len__(self) -> int:
        return int(self._index.searcher().num_docs)

    def _writing(self) -> tantivy.IndexWriter:
        if self._writer is None:
            self._writer = self._index.writer(heap_size=HEAP_BYTES, num_threads=1)
        return self._writer

    def _query(self, words: list[str], neighbours: list[str]) -> Query:
        schema = self._schema
        wanted = [(Occur.Should, Query.term_query(schema, "words", word)) for word in words]
        wanted += [
            (Occur.Should, Query.boost_query(Query.term_query(schema, "pairs", pair), PAIR_WEIGHT))
            for pair in neighbours
        ]
        return Query.boolean_query(wanted)


def _schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("url", tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field("hit", stored=True)
    for name in ("words", "pairs"):
        builder.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
    return builder.build()


def _rarity(searcher: tantivy.Searcher, word: str) -> float:
    """BM25's inverse document frequency of a word."""
    having = searcher.doc_freq("words", word)
    return math.log(1 + (searcher.num_docs - having + 0.5) / (having + 0.5))


def _stored(page: Page, passage: Passage) -> Hit:
    """What is kept of a passage: the Hit that finds it, its score standing for its weight."""
    snippet = page.text[passage.start : passage.end][:SNIPPET]
    weight = 1.0 if passage.article else BOILERPLATE_WEIGHT
    return Hit(page.url, page.title, snippet, page.digest, passage.start, passage.end, weight)


def _hit(document: tantivy.Document, score: float) -> Hit:
    stored = Hit.from_json(bytes(document.to_dict()["hit"][0]))
    return msgspec.structs.replace(stored, score=score * stored.score)

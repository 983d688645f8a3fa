"""Search in text that is no encyclopaedia: nDCG@10 on the Cranfield abstracts.

Reads ../shared/data/cranfield. Prints a table and writes bench/results/cranfield.json. Each
abstract is a page with its title; a document counts at the rank of its first passage. Relevance in
the file is 0 to 4, 4 the best; gain is the relevance itself (2^relevance - 1 in the second column),
discount log2(rank + 1), as in trec_eval, over all 150 queries.
"""

import json
import lzma
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import tantivy

from bench import report
from bench.report import print_table, require_data, stopwatch, summarize_milliseconds, write_results
from rookery.library.search_index import SearchIndex
from rookery.records import Block, Page

DATA = report.DATA / "cranfield"
DOCUMENTS = DATA / "cranfield-docs.jsonl.xz"
QUERIES = DATA / "cranfield-queries.jsonl"
DEPTH = 10
TARGET = 0.376

Search = Callable[[str], list[str]]
"""Function from a query to document numbers, best first."""


class Query(NamedTuple):
    """A query with the relevance of documents by number."""

    text: str
    relevance: Mapping[str, int]


def read_pages() -> Iterator[Page]:
    """Yield each abstract as a page; the file repeats the title at the start of the body."""
    with lzma.open(DOCUMENTS, "rt", encoding="utf-8") as lines:
        for line in lines:
            read = json.loads(line)
            title = " ".join(read["title"].split())
            text = " ".join(read["body"].split()).removeprefix(title).strip() or title
            if text:
                yield Page(str(read["id"]), title, text, (Block(0, len(text), "paragraph"),))


def read_queries() -> list[Query]:
    """Read the queries with their relevance judgements."""
    lines = QUERIES.read_text(encoding="utf-8").splitlines()
    return [Query(read["query"], read["relevance"]) for read in map(json.loads, lines)]


def build_rookery_search(documents: Sequence[Page]) -> Search:
    """Index the documents with our index and return its search."""
    index = SearchIndex()
    for page in documents:
        index.add(page)
    index.commit()

    def search(query: str) -> list[str]:
        # Twice as deep: an abstract may be cut into two passages.
        return list(dict.fromkeys(hit.url for hit in index.search(query, 2 * DEPTH)))[:DEPTH]

    return search


def build_tantivy_search(documents: Sequence[Page]) -> Search:
    """Index the documents with tantivy's own English tokenizer and return its search: every word of
    the query, title and text as one field."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("url", stored=True, tokenizer_name="raw")
    builder.add_text_field("body", tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer(heap_size=64_000_000, num_threads=1)
    for page in documents:
        writer.add_document(tantivy.Document(url=page.url, body=f"{page.title} {page.text}"))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> list[str]:
        words = " ".join(re.findall(r"\w+", query.lower()))
        found = searcher.search(index.parse_query(words, ["body"]), DEPTH).hits
        return [str(searcher.doc(address)["url"][0]) for _, address in found]

    return search


def compute_ndcg(
    found: Sequence[str], relevance: Mapping[str, int], gain: Callable[[int], float]
) -> float:
    """Compute nDCG of the first ten results."""

    def discounted(gains: Sequence[float]) -> float:
        return sum(value / math.log2(rank + 2) for rank, value in enumerate(gains[:DEPTH]))

    best = discounted(sorted(map(gain, relevance.values()), reverse=True))
    return discounted([gain(relevance.get(number, 0)) for number in found]) / (best or 1.0)


def measure_search(search: Search, asked: Sequence[Query]) -> dict[str, float]:
    """Return mean nDCG with both gains, and milliseconds."""
    times: list[float] = []
    linear = exponential = 0.0
    for query in asked:
        with stopwatch(times):
            found = search(query.text)
        linear += compute_ndcg(found, query.relevance, float)
        exponential += compute_ndcg(found, query.relevance, lambda relevance: 2.0**relevance - 1)
    figures = {"ndcg@10": linear / len(asked), "ndcg@10 (2^r-1)": exponential / len(asked)}
    return {**figures, **summarize_milliseconds(times)}


def main() -> None:
    """Run the benchmark."""
    require_data(DATA)
    documents, asked = list(read_pages()), read_queries()
    rows = {}
    for name, build in (
        ("rookery Index", build_rookery_search),
        ("tantivy en_stem", build_tantivy_search),
    ):
        begun = time.process_time()
        search = build(documents)
        seconds = time.process_time() - begun
        rows[name] = {**measure_search(search, asked), "index_cpu_s": seconds}
    columns = list(rows["rookery Index"])
    print(f"{len(documents)} abstracts, {len(asked)} queries; target: ndcg@10 above {TARGET}")
    print_table(columns, rows)
    write_results("cranfield", {"target": TARGET, "documents": len(documents), "rows": rows})


if __name__ == "__main__":
    main()

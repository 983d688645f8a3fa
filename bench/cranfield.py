"""Search where the text is no encyclopaedia: nDCG@10 over the Cranfield abstracts.

Reads ../shared/data/cranfield. Prints a table and writes bench/results/cranfield.json. Each
abstract is a page with its title; a document counts at the rank of its first passage. The
relevance of the file is 0 to 4, 4 the best; gain is the relevance itself (2^relevance - 1 in the
second column), discount log2(rank + 1), both as trec_eval has them, over all 150 queries.
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
from bench.report import milliseconds, require, show, stopwatch, write
from rookery.browse.index import Index
from rookery.records import Block, Page

DATA = report.DATA / "cranfield"
DOCUMENTS = DATA / "cranfield-docs.jsonl.xz"
QUERIES = DATA / "cranfield-queries.jsonl"
DEPTH = 10
TARGET = 0.376

Search = Callable[[str], list[str]]
"""query -> numbers of documents, best first"""


class Query(NamedTuple):
    text: str
    relevance: Mapping[str, int]


def pages() -> Iterator[Page]:
    """Each abstract as a page. The file repeats the title at the start of the body."""
    with lzma.open(DOCUMENTS, "rt", encoding="utf-8") as lines:
        for line in lines:
            read = json.loads(line)
            title = " ".join(read["title"].split())
            text = " ".join(read["body"].split()).removeprefix(title).strip() or title
            if text:
                yield Page(str(read["id"]), title, text, (Block(0, len(text), "paragraph"),))


def queries() -> list[Query]:
    lines = QUERIES.read_text(encoding="utf-8").splitlines()
    return [Query(read["query"], read["relevance"]) for read in map(json.loads, lines)]


def rookery(documents: Sequence[Page]) -> Search:
    index = Index()
    for page in documents:
        index.add(page)
    index.commit()

    def search(query: str) -> list[str]:
        # Twice as deep: an abstract may be cut into two passages.
        return list(dict.fromkeys(hit.url for hit in index.search(query, 2 * DEPTH)))[:DEPTH]

    return search


def plain(documents: Sequence[Page]) -> Search:
    """The peer: tantivy's own English tokenizer, all words of the query, title and text as one."""
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


def ndcg(found: Sequence[str], relevance: Mapping[str, int], gain: Callable[[int], float]) -> float:
    """Discounted gain of the first ten against that of the best possible ten."""

    def discounted(gains: Sequence[float]) -> float:
        return sum(value / math.log2(rank + 2) for rank, value in enumerate(gains[:DEPTH]))

    best = discounted(sorted(map(gain, relevance.values()), reverse=True))
    return discounted([gain(relevance.get(number, 0)) for number in found]) / (best or 1.0)


def row(search: Search, asked: Sequence[Query]) -> dict[str, float]:
    times: list[float] = []
    linear = exponential = 0.0
    for query in asked:
        with stopwatch(times):
            found = search(query.text)
        linear += ndcg(found, query.relevance, float)
        exponential += ndcg(found, query.relevance, lambda relevance: 2.0**relevance - 1)
    figures = {"ndcg@10": linear / len(asked), "ndcg@10 (2^r-1)": exponential / len(asked)}
    return {**figures, **milliseconds(times)}


def main() -> None:
    require(DATA)
    documents, asked = list(pages()), queries()
    rows = {}
    for name, build in (("rookery Index", rookery), ("tantivy en_stem", plain)):
        begun = time.process_time()
        search = build(documents)
        seconds = time.process_time() - begun
        rows[name] = {**row(search, asked), "index_cpu_s": seconds}
    columns = list(rows["rookery Index"])
    print(f"{len(documents)} abstracts, {len(asked)} queries; target: ndcg@10 above {TARGET}")
    show(columns, rows)
    write("cranfield", {"target": TARGET, "documents": len(documents), "rows": rows})


if __name__ == "__main__":
    main()

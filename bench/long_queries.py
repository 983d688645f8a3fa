"""Search by long queries, on collections that no weight was chosen on: nDCG@10 and recall@10.

Reads ../shared/data/stackexchange (a question's title and body ask for its accepted answer, among
all answers of two forums) and ../shared/data/scitldr (an abstract's one-sentence summary asks for
the abstract). Prints a table and writes bench/results/long_queries.json. Plain BM25 is tantivy's
own English tokenizer with all words of the query, as in bench/cranfield.py.

    python -m bench long_queries [--queries N]
"""

import argparse
import html
import json
import lzma
import re
from collections.abc import Iterator, Sequence
from typing import Any

from bench.cranfield import Query, Search, build_rookery_search, build_tantivy_search, compute_ndcg
from bench.report import (
    DATA,
    print_table,
    require_data,
    stopwatch,
    summarize_milliseconds,
    write_results,
)
from rookery.records import Block, Page

DEPTH = 10
Collection = tuple[list[Page], list[Query]]
"""Documents, and queries with the address of the one document that each asks for."""


def make_document(url: str, text: str) -> Page:
    """Make a page without a title, so that only the text is searched."""
    return Page(url, "", text, (Block(0, len(text), "paragraph"),))


def read_rows(name: str) -> Iterator[Any]:
    """Yield the rows of a compressed JSON lines file."""
    with lzma.open(DATA / name, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def load_forums() -> Collection:
    """Load long questions and every answer of their forums; each asks for the accepted one."""
    documents, asked = [], []
    for site in ("beer", "matheducators"):
        for thread in read_rows(f"stackexchange/{site}.jsonl.xz"):
            for answer in thread["answers"]:
                url = f"{site}/{answer['id']}"
                documents.append(make_document(url, strip_html(answer["body_html"])))
                if answer["accepted"]:
                    query = f"{thread['title']} {strip_html(thread['body_html'])}"
                    asked.append(Query(query, {url: 1}))
    return [page for page in documents if page.text], asked


def load_abstracts() -> Collection:
    """Load one-sentence summaries and the abstracts they summarise."""
    documents, asked = [], []
    for name in ("train", "dev"):
        for number, paper in enumerate(read_rows(f"scitldr/{name}.jsonl.xz")):
            url = f"{name}/{number}"
            documents.append(make_document(url, " ".join(paper["source"])))
            asked.append(Query(paper["target"][0], {url: 1}))
    return documents, asked


def strip_html(markup: str) -> str:
    """Return the text of a forum post's HTML."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def measure_search(search: Search, asked: Sequence[Query]) -> dict[str, float]:
    """Return mean nDCG and recall over the queries, and milliseconds."""
    times: list[float] = []
    gain = found_in_ten = 0.0
    for query in asked:
        with stopwatch(times):
            found = search(query.text)
        gain += compute_ndcg(found, query.relevance, float)
        found_in_ten += any(url in query.relevance for url in found)
    figures = {"ndcg@10": gain / len(asked), "recall@10": found_in_ten / len(asked)}
    return {**figures, **summarize_milliseconds(times)}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=3000, help="at most, of each collection")
    most = parser.parse_args().queries
    tables = {}
    for name, folder, collection in (
        ("forum questions", "stackexchange", load_forums),
        ("summaries", "scitldr", load_abstracts),
    ):
        require_data(DATA / folder)
        documents, asked = collection()
        asked = asked[:most]
        length = sum(len(query.text.split()) for query in asked) / len(asked)
        print(f"\n{name}: {len(asked)} queries of {length:.0f} words, {len(documents)} documents")
        rows = {
            "rookery Index": measure_search(build_rookery_search(documents), asked),
            "plain BM25": measure_search(build_tantivy_search(documents), asked),
        }
        print_table(list(rows["plain BM25"]), rows)
        about = {"queries": len(asked), "words": length, "documents": len(documents)}
        tables[name] = {**about, "rows": rows}
    write_results("long_queries", {"collections": tables})


if __name__ == "__main__":
    main()

"""Search by long queries, on material that no weight was chosen on: nDCG@10 and recall@10.

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

from bench.cranfield import Query, Search, ndcg, plain, rookery
from bench.report import DATA, milliseconds, require, show, stopwatch, write
from rookery.records import Block, Page

DEPTH = 10
Collection = tuple[list[Page], list[Query]]
"""documents, and queries with the address of the one document that each asks for"""


def document(url: str, text: str) -> Page:
    """A page without a title, so that nothing but the text is searched."""
    return Page(url, "", text, (Block(0, len(text), "paragraph"),))


def lines(name: str) -> Iterator[Any]:
    with lzma.open(DATA / name, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def forums() -> Collection:
    """Long questions, and all answers of their forums; each asks for the accepted one."""
    documents, asked = [], []
    for site in ("beer", "matheducators"):
        for thread in lines(f"stackexchange/{site}.jsonl.xz"):
            for answer in thread["answers"]:
                url = f"{site}/{answer['id']}"
                documents.append(document(url, words(answer["body_html"])))
                if answer["accepted"]:
                    query = f"{thread['title']} {words(thread['body_html'])}"
                    asked.append(Query(query, {url: 1}))
    return [page for page in documents if page.text], asked


def abstracts() -> Collection:
    """One-sentence summaries, and the abstracts that they sum up."""
    documents, asked = [], []
    for name in ("train", "dev"):
        for number, paper in enumerate(lines(f"scitldr/{name}.jsonl.xz")):
            url = f"{name}/{number}"
            documents.append(document(url, " ".join(paper["source"])))
            asked.append(Query(paper["target"][0], {url: 1}))
    return documents, asked


def words(markup: str) -> str:
    """The text of a forum's HTML."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def row(search: Search, asked: Sequence[Query]) -> dict[str, float]:
    """Means over the queries, and milliseconds."""
    times: list[float] = []
    gain = found_in_ten = 0.0
    for query in asked:
        with stopwatch(times):
            found = search(query.text)
        gain += ndcg(found, query.relevance, float)
        found_in_ten += any(url in query.relevance for url in found)
    figures = {"ndcg@10": gain / len(asked), "recall@10": found_in_ten / len(asked)}
    return {**figures, **milliseconds(times)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--queries", type=int, default=3000, help="at most, of each collection")
    most = parser.parse_args().queries
    tables = {}
    for name, folder, collection in (
        ("forum questions", "stackexchange", forums),
        ("summaries", "scitldr", abstracts),
    ):
        require(DATA / folder)
        documents, asked = collection()
        asked = asked[:most]
        length = sum(len(query.text.split()) for query in asked) / len(asked)
        print(f"\n{name}: {len(asked)} queries of {length:.0f} words, {len(documents)} documents")
        rows = {
            "rookery Index": row(rookery(documents), asked),
            "plain BM25": row(plain(documents), asked),
        }
        show(list(rows["plain BM25"]), rows)
        about = {"queries": len(asked), "words": length, "documents": len(documents)}
        tables[name] = {**about, "rows": rows}
    write("long_queries", {"collections": tables})


if __name__ == "__main__":
    main()

"""Search over the squad set: is the paragraph that a question was written about found, how fast?

Reads ../shared/data/squad. Prints a table and writes bench/results/search.json. The library is the
folder of bench/squad.py, read and indexed by the real Folder; recall@k is the share of questions
whose gold paragraph is among the first k passages (Squad's Gold says when one is). Weights were
chosen on the questions of seed 0, so that those of seed 1 are the held-out figure (but for
TITLE_COUNT of the index, which was decided with both in view).

    python -m bench search [--questions N]
"""

import argparse
import re
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import tantivy

from bench.report import milliseconds, require, show, sized, stopwatch, write
from bench.squad import ARCHIVE, CACHE, DATA, VECTORS, Asked, Gold, Squad, fill
from rookery.browse.archive import Archive
from rookery.browse.folder import Folder
from rookery.browse.passages import passages
from rookery.cite import dense
from rookery.cite.rank import Similarity, rank
from rookery.draft.gather import GatherLimits, gather

SEEDS = (0, 1)
KS = (1, 3, 5, 10, 20)
COLD = sized(40, 2)
"""questions that are asked without kept vectors"""
TARGETS = {
    "lexical": {"recall@1": 0.73, "recall@5": 0.89, "median_ms": 2.0},
    "dense": {"recall@1": 0.755, "recall@5": 0.92, "median_ms": 50.0, "cold_median_ms": 1500.0},
}

Place = tuple[str, int, int]
"""url, start, end of a passage"""
Search = Callable[[str], list[Place]]


def plain(squad: Squad, library: Folder) -> tuple[Search, float]:
    """The peer, and the CPU seconds of its indexing: the same passages under their titles through
    tantivy's own English tokenizer, all words of the question, no neighbours."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("place", stored=True, tokenizer_name="raw")
    builder.add_text_field("body", tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    pages = [library.fetch(squad.url(number)) for number in range(len(squad.articles))]
    begun = time.process_time()
    writer = index.writer(heap_size=64_000_000, num_threads=1)
    for page in pages:
        for found in passages(page):
            body = f"{page.title} {page.text[found.start : found.end]}"
            place = f"{page.url} {found.start} {found.end}"
            writer.add_document(tantivy.Document(place=place, body=body))
    writer.commit()
    writer.wait_merging_threads()
    seconds = time.process_time() - begun
    index.reload()
    searcher = index.searcher()

    def search(question: str) -> list[Place]:
        words = " ".join(re.findall(r"\w+", question.lower()))
        hits = searcher.search(index.parse_query(words, ["body"]), KS[-1]).hits
        places = [str(searcher.doc(address)["place"][0]).split() for _, address in hits]
        return [(url, int(start), int(end)) for url, start, end in places]

    return search, seconds


def lexical(library: Folder) -> Search:
    """What the library's index finds."""

    def search(question: str) -> list[Place]:
        return [(hit.url, hit.start, hit.end) for hit in library.search(question, KS[-1])]

    return search


def ranked(library: Folder, similarity: Similarity | None) -> Search:
    """What the extractive answer is made from: gathered, opened, and ranked by sentences."""

    def search(question: str) -> list[Place]:
        order = rank(question, gather(question, library).found, similarity)
        return [(each.hit.url, each.hit.start, each.hit.end) for each in order]

    return search


def row(search: Search, asked: Sequence[Asked], gold: Gold) -> dict[str, float]:
    """Recall at each k, and milliseconds."""
    times: list[float] = []
    ranks = []
    for question in asked:
        with stopwatch(times):
            found = search(question.text)
        at = (n for n, place in enumerate(found) if gold.is_hit(question, *place))
        ranks.append(next(at, KS[-1]))
    recall = {f"recall@{k}": sum(rank < k for rank in ranks) / len(ranks) for k in KS}
    return {**recall, **milliseconds(times)}


def indexing(squad: Squad) -> dict[str, float]:
    """The cost of reading and indexing the folder anew, in as many processes as there are cores."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        wall, cpu = time.perf_counter(), _cpu()
        with Folder(squad.folder, Archive(root / "archive.sqlite"), root / "cache"):
            wall, cpu = time.perf_counter() - wall, _cpu() - cpu
        index = sum(file.stat().st_size for file in root.rglob("index/*"))
        archive = (root / "archive.sqlite").stat().st_size
    return {
        "wall_s": wall,
        "cpu_s": cpu,
        "index_mb": index / 1e6,
        "archive_mb": archive / 1e6,
        "text_mb": sum(len(p.encode()) for a in squad.articles for p in a.paragraphs) / 1e6,
    }


def _cpu() -> float:
    """Seconds of this process and of those that it has waited for."""
    spent = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def cold(library: Folder, asked: Sequence[Asked]) -> dict[str, float]:
    """Milliseconds of a question none of whose sentences has a vector yet."""
    loading: list[float] = []
    with stopwatch(loading):
        ranker = dense.load()
    assert ranker is not None
    times: list[float] = []
    search = ranked(library, ranker.similarities)
    search(asked[0].text)
    for question in asked[1 : COLD + 1]:
        with stopwatch(times):
            search(question.text)
    return {
        "load_ms": 1e3 * loading[0],
        **{f"cold_{name}": value for name, value in milliseconds(times).items()},
    }


def main() -> None:
    require(DATA)
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=sized(2000, 4))
    count = parser.parse_args().questions
    squad = Squad()
    figures: dict[str, object] = {"questions": count, "targets": TARGETS, "seeds": {}}
    figures["indexing"] = costs = indexing(squad)
    print("indexing:", *(f"{name} {value:.1f}" for name, value in costs.items()))
    with squad.open_library(ARCHIVE, CACHE) as library:
        gold = Gold(squad, library)
        peer, seconds = plain(squad, library)
        arms = {
            f"tantivy en_stem ({seconds:.1f} CPU s)": peer,
            "Index.search": lexical(library),
            "ranked, lexical": ranked(library, None),
        }
        ranker = dense.load(VECTORS)
        if ranker is None:
            print(dense.missing())
        else:
            figures["cold"] = cold(library, squad.sample(2, COLD + 1))
            fill(library, [q.text for seed in SEEDS for q in squad.sample(seed, count)])
            arms["ranked, dense"] = ranked(library, ranker.similarities)
        tables = {}
        for seed in SEEDS:
            asked = squad.sample(seed, count)
            tables[seed] = {name: row(search, asked, gold) for name, search in arms.items()}
            print(f"\nseed {seed}, {count} questions, {GatherLimits().passages} passages ranked")
            show(list(tables[seed]["Index.search"]), tables[seed])
            _say_whether_below(tables[seed])
        figures["seeds"] = tables
    print("\n", figures.get("cold", ""))
    write("search", figures)


def _say_whether_below(rows: dict[str, dict[str, float]]) -> None:
    """At the last k all that was ranked is shown: only near-duplicates left out can differ."""
    if "ranked, dense" not in rows:
        return
    for lower in ("Index.search", "ranked, lexical"):
        least = {k: rows["ranked, dense"][f"recall@{k}"] - rows[lower][f"recall@{k}"] for k in KS}
        print(f"dense against {lower}:", *(f"@{k} {least[k]:+.4f}" for k in KS))


if __name__ == "__main__":
    main()

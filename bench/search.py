"""Search on the squad set: recall of the paragraph that a question was written about, and speed.

Reads ../shared/data/squad. Prints a table and writes bench/results/search.json. The library is the
folder of bench/squad.py, read and indexed by the real Folder; recall@k is the share of questions
whose gold paragraph is among the first k passages (GoldSpans says when one is). Weights were chosen
on the questions of seed 0, so that those of seed 1 are the held-out figure (but for TITLE_COUNT of
the index, which was decided with both in view).

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

from bench.report import (
    choose_size,
    print_table,
    require_data,
    stopwatch,
    summarize_milliseconds,
    write_results,
)
from bench.squad import ARCHIVE, CACHE, DATA, GoldSpans, Squad, SquadQuestion
from rookery.answers.retrieval import RetrievalLimits, gather_passages
from rookery.evidence.passage_ranking import Similarity, rank_passages
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.pages.passages import cut_passages

SEEDS = (0, 1)
KS = (1, 3, 5, 10, 20)
TARGETS = {"lexical": {"recall@1": 0.73, "recall@5": 0.89, "median_ms": 2.0}}

Place = tuple[str, int, int]
"""URL, start and end of a passage."""
Search = Callable[[str], list[Place]]


def build_tantivy_search(squad: Squad, library: FolderLibrary) -> tuple[Search, float]:
    """Index the same passages under their titles with tantivy's own English tokenizer, without
    neighbours; return its search and the CPU seconds of indexing."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("place", stored=True, tokenizer_name="raw")
    builder.add_text_field("body", tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    pages = [library.fetch(squad.make_url(number)) for number in range(len(squad.articles))]
    begun = time.process_time()
    writer = index.writer(heap_size=64_000_000, num_threads=1)
    for page in pages:
        for found in cut_passages(page):
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


def make_index_search(library: FolderLibrary) -> Search:
    """Return the search of the library's index."""

    def search(question: str) -> list[Place]:
        return [(hit.url, hit.start, hit.end) for hit in library.search(question, KS[-1])]

    return search


def make_ranked_search(library: FolderLibrary, similarity: Similarity | None) -> Search:
    """Return the search of the extractive method: gather passages, then rank them by sentences."""

    def search(question: str) -> list[Place]:
        order = rank_passages(question, gather_passages(question, library).found, similarity)
        return [(each.hit.url, each.hit.start, each.hit.end) for each in order]

    return search


def measure_search(
    search: Search, asked: Sequence[SquadQuestion], gold: GoldSpans
) -> dict[str, float]:
    """Return recall at each k, and milliseconds."""
    times: list[float] = []
    ranks = []
    for question in asked:
        with stopwatch(times):
            found = search(question.text)
        at = (n for n, place in enumerate(found) if gold.is_hit(question, *place))
        ranks.append(next(at, KS[-1]))
    recall = {f"recall@{k}": sum(rank < k for rank in ranks) / len(ranks) for k in KS}
    return {**recall, **summarize_milliseconds(times)}


def measure_indexing(squad: Squad) -> dict[str, float]:
    """Measure reading and indexing the folder anew, in as many processes as there are cores."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        wall, cpu = time.perf_counter(), _cpu()
        with FolderLibrary(squad.folder, PageArchive(root / "archive.sqlite"), root / "cache"):
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
    """Return CPU seconds of this process and of those it has waited for."""
    spent = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def main() -> None:
    """Run the command line."""
    require_data(DATA)
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=choose_size(2000, 4))
    count = parser.parse_args().questions
    squad = Squad()
    figures: dict[str, object] = {"questions": count, "targets": TARGETS, "seeds": {}}
    figures["indexing"] = costs = measure_indexing(squad)
    print("indexing:", *(f"{name} {value:.1f}" for name, value in costs.items()))
    with squad.open_library(ARCHIVE, CACHE) as library:
        gold = GoldSpans(squad, library)
        peer, seconds = build_tantivy_search(squad, library)
        arms = {
            f"tantivy en_stem ({seconds:.1f} CPU s)": peer,
            "Index.search": make_index_search(library),
            "ranked, lexical": make_ranked_search(library, None),
        }
        tables = {}
        for seed in SEEDS:
            asked = squad.sample(seed, count)
            tables[seed] = {
                name: measure_search(search, asked, gold) for name, search in arms.items()
            }
            print(f"\nseed {seed}, {count} questions, {RetrievalLimits().passages} passages ranked")
            print_table(list(tables[seed]["Index.search"]), tables[seed])
        figures["seeds"] = tables
    write_results("search", figures)


if __name__ == "__main__":
    main()

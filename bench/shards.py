"""Large libraries: shards of 20,000 to a million passages, built, searched and asked.

Reads ../shared/data/squad. Pages are the articles of the squad set and variations of them: seven in
ten sentences, in another order, with other numbers and other names, so that no two are alike. The
order of the results is compared with that of one index at the smallest size, and there a shard on a
Ray cluster is killed in the middle of the questions. Prints tables and writes
bench/results/shards.json.

    python -m bench shards [--passages N ...]
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from bench.report import (
    SCRATCH,
    choose_size,
    print_table,
    require_data,
    summarize_milliseconds,
    write_results,
)
from bench.squad import DATA
from recipes.squad_site import write_site
from rookery.answers.evidence_answers import answer_by_evidence
from rookery.evidence.evidence_model import BUNDLED_MODEL, load_evidence_model
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.library.question_files import SquadArticle, read_squad
from rookery.library.sharded_library import ShardedLibrary, build_sharded_index
from rookery.library.stored_indexes import measure_disk_size
from rookery.library.worker_processes import connect_to_ray
from rookery.records import Question

PASSAGES = choose_size([20_000, 200_000, 1_000_000], [300])
QUESTIONS = choose_size(1000, 12)
ANSWERS = choose_size(60, 2)
SHARDS = choose_size(8, 3)
WORKERS = 2
K = 20
KEPT = 0.7
"""Share of an article's sentences in a variation."""
PROJECTED = (10_000_000, 100_000_000)
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{3,}")


def vary_sentence(sentence: str, names: Sequence[str], chance: random.Random) -> str:
    """Exchange the numbers of a sentence, and its names for those of other articles."""

    def change_number(found: re.Match[str]) -> str:
        return str(max(0, int(found[0]) + chance.randint(-20, 20)))

    changed = _NUMBER.sub(change_number, sentence)
    return _NAME.sub(lambda _: chance.choice(names), changed)


def generate_articles(passages: int) -> Iterator[SquadArticle]:
    """Generate articles with `passages` paragraphs in all, the originals first."""
    originals, chance, left = read_squad(DATA).articles, random.Random(0), passages
    names = [name for one in originals for text in one.paragraphs for name in _NAME.findall(text)]
    for copy in count():
        for article in originals:
            sentences = re.split(r"(?<=[.!?]) ", " ".join(article.paragraphs))
            if copy:
                sentences = [
                    vary_sentence(each, names, chance)
                    for each in chance.sample(sentences, max(1, int(KEPT * len(sentences))))
                ]
            paragraphs = [" ".join(sentences[at : at + 5]) for at in range(0, len(sentences), 5)]
            made = tuple(paragraphs[:left])
            yield SquadArticle(article.name.replace(".html", f"-{copy}.html"), article.title, made)
            left -= len(made)
            if left <= 0:
                return


def write_pages(passages: int, folder: Path) -> None:
    """Write the pages, a hundred of a hundred articles to a folder."""
    made = generate_articles(passages)
    for number in count():
        some = [article for article, _ in zip(made, range(400), strict=False)]
        if not some:
            return
        write_site(some, folder / f"{number:04}")


def read_processor_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure_size(passages: int, root: Path) -> dict[str, float]:
    """Build the shards of so many passages, and measure searches and answers in a new process."""
    documents, shards = root / "pages", root / "shards"
    write_pages(passages, documents)
    wall, used = time.perf_counter(), read_processor_seconds()
    note = build_sharded_index([documents], SHARDS, shards, WORKERS)
    wall, used = time.perf_counter() - wall, read_processor_seconds() - used
    command = [sys.executable, "-m", "bench.shards", "--search", str(shards)]
    searched = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def measure_megabytes(name: str) -> float:
        return sum(measure_disk_size(each / name) for each in shards.glob("shard-*")) / 1e6

    return {
        "passages": sum(shard.passages for shard in note.shards),
        "build, s": wall,
        "build, CPU s": used,
        "index, MB": measure_megabytes("index"),
        "archive, MB": measure_megabytes("archive.sqlite"),
        **json.loads(searched),
    }


def list_questions() -> list[str]:
    """Return questions about the originals."""
    asked = read_squad(DATA).questions
    return [each.text for each in random.Random(0).sample(asked, min(QUESTIONS, len(asked)))]


def print_search_times(shards: Path) -> None:
    """Print, as JSON, milliseconds of searches and whole answers, and the memory of the process."""
    questions, times, whole = list_questions(), list[float](), list[float]()
    judge = load_evidence_model(BUNDLED_MODEL).judge_passages
    with PageArchive(shards.parent / "opened.sqlite") as archive:
        library = ShardedLibrary(shards, archive)
        for each in questions[:5]:
            library.search(each, K)
        for each in questions:
            begun = time.perf_counter()
            library.search(each, K)
            times.append(time.perf_counter() - begun)
        searching = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for each in questions[:ANSWERS]:
            begun = time.perf_counter()
            answer_by_evidence(Question("", each), library, judge)
            whole.append(time.perf_counter() - begun)
        library.close()
    figures = {"memory, MB": searching / 1e3}
    for name, seconds in (("search", times), ("answer", whole)):
        found = summarize_milliseconds(seconds)
        figures |= {f"{name} {part}": value for part, value in found.items()}
    print(json.dumps(figures))


def compare_with_one_index(root: Path) -> dict[str, int]:
    """Count the questions whose results are in another order than those of one index."""
    documents, shards = root / "pages", root / "shards"
    with (
        PageArchive(root / "one.sqlite") as archive,
        FolderLibrary(documents, archive, root / "cache") as one,
    ):
        library = ShardedLibrary(shards, archive)
        differing = sum(
            [(hit.url, hit.start) for hit in library.search(each, K)]
            != [(hit.url, hit.start) for hit in one.search(each, K)]
            for each in list_questions()
        )
        library.close()
    return {"questions": QUESTIONS, "in another order": differing}


def kill_a_shard(root: Path) -> dict[str, int]:
    """Ask the questions of shards on a cluster, and kill one in the middle of them."""
    documents, shards = root / "pages", root / "shards"
    ray = connect_to_ray("local")
    build_sharded_index([documents], SHARDS, shards, 1, ray="local")
    counted = {"questions": QUESTIONS, "answered": 0, "named the missing shard": 0}
    with PageArchive(root / "ray.sqlite") as archive:
        library = ShardedLibrary(shards, archive)
        for number, each in enumerate(list_questions()):
            if number == QUESTIONS // 2:
                found = subprocess.run(
                    ["pgrep", "-f", "ray::Shard"], check=True, capture_output=True, text=True
                )
                os.kill(int(found.stdout.split()[0]), signal.SIGKILL)
            counted["answered"] += bool(library.search(each, K))
            counted["named the missing shard"] += bool(library.failures)
        library.close()
    ray.shutdown()
    return counted


def project(rows: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Project what grows with the passages from the two largest sizes, along a straight line."""
    less, more = rows[-2], rows[-1]
    growing = ("build, CPU s", "index, MB", "archive, MB", "search p95_ms")
    slope = {
        name: (more[name] - less[name]) / (more["passages"] - less["passages"]) for name in growing
    }
    return {
        f"{size:,}": {
            name: more[name] + slope[name] * (size - more["passages"]) for name in growing
        }
        for size in PROJECTED
    }


def main() -> None:
    """Run the command line."""
    require_data(DATA)
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", type=int, nargs="+", default=PASSAGES)
    parser.add_argument("--search", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.search:
        print_search_times(options.search)
        return
    rows: dict[str, dict[str, float]] = {}
    found: dict[str, dict[str, int]] = {}
    for passages in options.passages:
        root = SCRATCH / f"shards-{os.getpid()}"
        root.mkdir(parents=True)
        try:
            rows[f"{passages:,}"] = measure_size(passages, root)
            if not found:
                found = {"order": compare_with_one_index(root), "killed": kill_a_shard(root)}
        finally:
            shutil.rmtree(root)
        results: dict[str, Any] = {"shards": SHARDS, "workers": WORKERS, "rows": rows, **found}
        if len(rows) > 1:
            results["projected"] = project([*rows.values()])
        write_results("shards", results)  # after each size: the largest takes a quarter of an hour
    print_table(list(next(iter(rows.values()))), rows)
    for name, counted in found.items():
        print(name, counted)


if __name__ == "__main__":
    main()

"""Finding: how often a section that answers is among the first that a search leads to, and how long
vectors of a million passages take.

Reads the questions for building of bench/questions and their sites, which are Debian packages
(bench/documentation.py). A section is right if it stands on an accepted page and holds a pattern of
the question. Words are the same search without vectors. The million are vectors by lot.

    python -m bench.finding [--rows N]
"""

import argparse
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.documentation import BUILD_SITES, UNANSWERABLE, SiteQuestion, read_site_questions
from bench.report import SCRATCH, choose_size, print_table, skip_bench
from rookery.answers.evidence_answers import list_sections
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.library.passage_vectors import (
    FILE_ROW_BYTES,
    PassageVectors,
    estimate_statistics,
    split_pieces,
)
from rookery.library.search_index import FUSED_DEPTH
from rookery.records import Hit
from rookery.settings import FileSelection

KS = (1, 12, 24, 40)


def find_ranks(
    question: SiteQuestion, folder: Path, library: FolderLibrary
) -> Iterator[tuple[str, float]]:
    """Yield for each order of passages the place of the first that stands in a right section."""
    pages = [library.fetch((folder.resolve() / name).as_uri()) for name in question.accepted]
    right = [
        section
        for page in pages
        for section in list_sections(page)
        if any(re.search(each, " ".join(section.text.split()), re.I) for each in question.facts)
    ]

    def is_right(hit: Hit) -> bool:
        return any(
            hit.digest == each.page.digest and hit.start < each.end and each.start < hit.end
            for each in right
        )

    hits = library.search(question.text, 2 * FUSED_DEPTH)
    by_words = sorted((hit for hit in hits if hit.word_rank), key=lambda hit: hit.word_rank)
    near = sorted((hit for hit in hits if hit.vector_rank), key=lambda hit: hit.vector_rank)
    for name, order in (("words", by_words), ("vectors", near), ("words + vectors", hits)):
        places = (place for place, hit in enumerate(order, 1) if is_right(hit))
        yield name, next(places, float("inf"))


def measure_scanning(rows: int) -> Sequence[float]:
    """Return milliseconds of comparing a question with so many vectors, the median and the 95th
    percentile, and of the CPU."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.bin"
        vectors = PassageVectors(path)
        vectors.replace_vectors(estimate_statistics([], rows), [])
        chance = np.random.default_rng(0)
        with path.open("ab") as file:
            for _ in range(0, rows, 10_000):
                file.write(chance.integers(0, 256, (10_000, FILE_ROW_BYTES), np.uint8).tobytes())
        vectors.refresh()
        times, cpu = [], time.process_time()
        for number in range(40):
            begun = time.perf_counter()
            dots = vectors.compute_dots(f"which bird number {number} stores its food")
            assert dots is not None
            np.partition(dots, len(dots) - 2 * FUSED_DEPTH)
            times.append(1000 * (time.perf_counter() - begun))
        cpu = 1000 * (time.process_time() - cpu) / len(times)
        return [float(np.median(times)), float(np.quantile(times, 0.95)), cpu]


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=choose_size(1_000_000, 10_000))
    rows = parser.parse_args().rows
    split_pieces("load the table")
    median, most, cpu = measure_scanning(rows)
    print(f"{rows:,} vectors: median {median:.0f} ms, 95 % {most:.0f} ms, CPU {cpu:.0f} ms")
    sites = choose_size(BUILD_SITES, {"corvids": BUILD_SITES["corvids"]})
    if missing := [name for name, (folder, _) in sites.items() if not folder.is_dir()]:
        skip_bench(f"not installed: apt install {' '.join(missing)}")
    questions = read_site_questions("build", [*sites])
    ranks: dict[str, list[float]] = {}
    archive = PageArchive(SCRATCH / "documentation.sqlite")
    for site, (folder, glob) in sites.items():
        selection = FileSelection(glob=(glob,))
        with FolderLibrary(folder, archive, SCRATCH / "documentation", selection=selection) as all_:
            for each in questions:
                if each.site == site and each.kind not in UNANSWERABLE:
                    for name, rank in find_ranks(each, folder, all_):
                        ranks.setdefault(name, []).append(rank)
    shares = {
        name: {f"among {k}": sum(rank <= k for rank in every) / len(every) for k in KS}
        for name, every in ranks.items()
    }
    print(f"{len(ranks['words'])} questions")
    print_table([f"among {k}" for k in KS], shares)


if __name__ == "__main__":
    main()

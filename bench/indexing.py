"""Indexing a folder: seconds by stage, for many passages of real sentences.

Reads ../shared/data/squad. Prints a table and writes bench/results/indexing.json. The folder holds
the articles of the squad set and, beyond these, copies with their sentences shuffled, five to a
paragraph. CPU seconds are of this process, which writes index and archive, and of those that read
the files; they hold beside other work on the machine, wall time does not.

    python -m bench indexing [--passages N ...]
"""

import argparse
import os
import random
import re
import tempfile
import time
from itertools import count
from pathlib import Path

from bench.report import choose_size, print_table, require_data, write_results
from bench.squad import DATA
from recipes.squad_site import write_site
from rookery.library.folder_library import FolderLibrary
from rookery.library.page_archive import PageArchive
from rookery.library.question_files import SquadArticle, read_squad

PASSAGES = choose_size([20_000, 200_000], [200])


def make_articles(passages: int) -> list[SquadArticle]:
    """Make articles with `passages` paragraphs in all."""
    originals = read_squad(DATA).articles
    chance, made, left = random.Random(0), list[SquadArticle](), passages
    for copy in count():
        for article in originals:
            sentences = re.split(r"(?<=[.!?]) ", " ".join(article.paragraphs))
            if copy:
                chance.shuffle(sentences)
            paragraphs = [" ".join(sentences[at : at + 5]) for at in range(0, len(sentences), 5)]
            name = article.name.replace(".html", f"-{copy}.html")
            made.append(SquadArticle(name, article.title, tuple(paragraphs[:left])))
            left -= len(made[-1].paragraphs)
            if left <= 0:
                return made
    raise AssertionError("counting has no end")


def measure_indexing(passages: int) -> dict[str, float]:
    """Measure seconds and megabytes of indexing `passages` passages."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        write_site(make_articles(passages), root / "web")
        wall, begun = time.perf_counter(), os.times()
        with FolderLibrary(root / "web", PageArchive(root / "archive.sqlite"), root / "cache"):
            wall, ended = time.perf_counter() - wall, os.times()
        index = sum(file.stat().st_size for file in root.rglob("index/*"))
    writing = ended.user + ended.system - begun.user - begun.system
    reading = (
        ended.children_user + ended.children_system - begun.children_user - begun.children_system
    )
    return {
        "wall_s": wall,
        "cpu_s": writing + reading,
        "writing_s": writing,
        "reading_s": reading,
        "index_mb": index / 1e6,
    }


def main() -> None:
    """Run the command line."""
    require_data(DATA)
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", type=int, nargs="+", default=PASSAGES)
    rows = {
        f"{passages:,}": measure_indexing(passages) for passages in parser.parse_args().passages
    }
    print_table(list(next(iter(rows.values()))), rows)
    write_results("indexing", {"rows": rows})


if __name__ == "__main__":
    main()

"""The dense ranker: its speed, and one vector a paragraph against the best of its sentences.

Reads ../shared/data/squad/train.json.xz; needs the `dense` extra. Prints both tables and writes
bench/results/dense.json. Recall is that of the paragraph a question was written about, among
1,000 paragraphs of whole articles, by likeness alone. About two minutes on one core.
"""

import json
import lzma
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench import report
from rookery.browse.passages import sentences
from rookery.cite import dense
from rookery.cite.dense import Dense
from rookery.records import Page

DATA = report.DATA / "squad" / "train.json.xz"
PARAGRAPHS = report.sized(1000, 20)
QUESTIONS = report.sized(500, 5)


def sample() -> tuple[list[str], list[tuple[str, int]]]:
    """Whole articles, and evenly spread questions, each with the number of its paragraph."""
    with lzma.open(DATA) as file:
        articles = json.load(file)["data"]
    every = [paragraph for article in articles for paragraph in article["paragraphs"]]
    chosen = every[:PARAGRAPHS]
    asked = [(qa["question"], n) for n, p in enumerate(chosen) for qa in p["qas"]]
    return [p["context"] for p in chosen], asked[:: len(asked) // QUESTIONS][:QUESTIONS]


def split(paragraph: str) -> list[str]:
    page = Page("bench:", "", paragraph)
    return [paragraph[start:end] for start, end in sentences(page, 0, len(paragraph))]


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """(wall, CPU) milliseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)


def speed(texts: Sequence[str], questions: Sequence[str]) -> dict[str, float]:
    """Of the first 100 sentences, never seen before, then kept on disk, then in memory."""
    hundred = texts[:100]
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "vectors.sqlite"
        started, _ = timed(lambda: dense.load(cache))
        first, second = dense.load(cache), dense.load(cache)
        assert first is not None
        assert second is not None
        first.similarities("warm up", ["once"])
        cold, cold_cpu = timed(lambda: first.similarities(questions[0], hundred))
        disk, _ = timed(lambda: second.similarities(questions[1], hundred))
        warm = [timed(partial(second.similarities, q, hundred))[0] for q in questions[:30]]
    return {
        "load ms": started,
        "100 new sentences ms": cold,
        "sentences/s/core": 1e5 / cold_cpu,
        "100 on disk ms": disk,
        "100 in memory ms": statistics.median(warm),
    }


def recall(ranks: Sequence[int]) -> dict[str, float]:
    return {f"R@{k}": sum(rank < k for rank in ranks) / len(ranks) for k in (1, 5, 10)}


def rank_of(scores: Sequence[float], gold: int) -> int:
    return sum(score > scores[gold] for score in scores)


def quality(
    ranker: Dense, paragraphs: list[str], asked: list[tuple[str, int]]
) -> dict[str, dict[str, float]]:
    parts = [split(paragraph) for paragraph in paragraphs]
    flat = [sentence for part in parts for sentence in part]
    whole_ranks, best_ranks = [], []
    for question, gold in asked:
        whole_ranks.append(rank_of(ranker.similarities(question, paragraphs), gold))
        scores = iter(ranker.similarities(question, flat))
        best = [max((next(scores) for _ in part), default=-1.0) for part in parts]
        best_ranks.append(rank_of(best, gold))
    return {"one vector": recall(whole_ranks), "best sentence": recall(best_ranks)}


def main() -> None:
    report.require(DATA)
    ranker = dense.load()
    if ranker is None:
        report.skip(dense.missing())
    paragraphs, asked = sample()
    texts = [sentence for paragraph in paragraphs for sentence in split(paragraph)]
    figures: dict[str, dict[str, float]] = {
        "speed": speed(texts, [question for question, _ in asked]),
        **quality(ranker, paragraphs, asked),
    }
    for name, row in figures.items():
        print(name, *(f"{label} {value:.3g}" for label, value in row.items()), sep="   ")
    report.write("dense", figures)


if __name__ == "__main__":
    main()

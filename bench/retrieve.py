"""The trained ranker: MiniLM before and after minutes of training, on held-out articles.

Reads ../shared/data/squad; needs the `learn` extra and the weights
of all-MiniLM-L6-v2. Prints a table and writes
bench/results/retrieve.json. All questions of some articles are held out. For them: is the paragraph
that a question was written about first among its article's, by one vector per paragraph and by its
best sentence; and among the results of the whole library, by `evidence.passage_ranking`. SQuAD's
training set is among MiniLM's training texts, so that "before" is flattered.

    python -m bench.retrieve
"""

import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch

from bench.report import choose_size, print_table, require_data, skip_bench, write_results
from bench.search import make_ranked_search, measure_search
from bench.squad import DATA, GoldSpans, Squad, SquadQuestion
from rookery.errors import Failed
from rookery.evidence import ranking_metrics
from rookery.evidence.evidence_model import DenseRanker, load_dense_ranker
from rookery.learn.optimizer import OptimizerSettings
from rookery.learn.retrieval_data import (
    ReferenceSamplingSettings,
    RetrievalSources,
    RetrievalTriple,
)
from rookery.learn.retrieval_training import (
    MINILM_MODEL,
    RetrievalTrainingResult,
    RetrievalTrainingSettings,
    export_sentence_encoder,
    load_sentence_encoder,
    train_retriever,
)
from rookery.library.folder_library import FolderLibrary
from rookery.pages.passages import find_sentences
from rookery.records import Page

HELD_OUT = choose_size(12, 2)
"""Articles."""
WITHIN = choose_size(40, 2)
"""Questions of each, ranked within the article."""
RANKED = choose_size(120, 2)
"""Questions in all, ranked by `evidence.passage_ranking` in the library."""
LEARNT = choose_size({"sentences": 400, "whole": 150}, {"sentences": 8, "whole": 8})
"""Questions to learn from: about as much text in both."""


class Split(NamedTuple):
    """Training triples, and questions of other articles."""

    triples: list[RetrievalTriple]
    asked: list[SquadQuestion]


def split_articles(squad: Squad, questions: int) -> Split:
    """Return questions of held-out articles, and triples from the others."""
    chance = random.Random("retrieve")
    held = set(chance.sample(range(len(squad.articles)), HELD_OUT))
    theirs: dict[int, list[SquadQuestion]] = {number: [] for number in sorted(held)}
    for each in squad.questions:
        if each.article in held:
            theirs[each.article].append(each)
    asked = [q for some in theirs.values() for q in chance.sample(some, min(WITHIN, len(some)))]
    others = [each for each in squad.questions if each.article not in held and each.answers]
    triples = [
        RetrievalTriple(each.text, squad.articles[each.article].paragraphs, each.answers[0])
        for each in chance.sample(others, questions)
    ]
    return Split(triples, asked)


def train_ranker(
    triples: Sequence[RetrievalTriple], cut: str, folder: Path
) -> tuple[RetrievalTrainingResult, float]:
    """Train a ranker; return the result and CPU minutes."""
    data = folder / f"{cut}.jsonl"
    data.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in triples))
    settings = RetrievalTrainingSettings(
        RetrievalSources(triples=(str(data),), cut="sentences" if cut == "sentences" else "whole"),
        frozen=0.5,
        optimising=OptimizerSettings(rate=5e-5, warmup=0.1),
        drawing=ReferenceSamplingSettings(questions=choose_size(16, 2), references=8),
        ranked=16,
    )
    begun = time.process_time()
    return train_retriever(settings, folder / cut, print_step), (time.process_time() - begun) / 60


def print_step(step: int, steps: int, measured: dict[str, float]) -> None:
    """Print a training step."""
    print(f"step {step} of {steps}: loss {measured['loss']:.3f}", file=sys.stderr, flush=True)


def split_sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences."""
    page = Page("bench:", "", paragraph)
    return [paragraph[start:end] for start, end in find_sentences(page, 0, len(paragraph))]


def rank_within_articles(
    ranker: DenseRanker, squad: Squad, asked: Sequence[SquadQuestion]
) -> dict[str, float]:
    """Measure ranking among an article's paragraphs, by one vector each and by the best
    sentence."""
    worths, by_one, by_best = [], [], []
    for each in asked:
        paragraphs = squad.articles[each.article].paragraphs
        parts = [split_sentences(text) or [text] for text in paragraphs]
        values = iter(
            ranker.compute_similarities(each.text, [text for part in parts for text in part])
        )
        worths.append([float(number == each.paragraph) for number in range(len(paragraphs))])
        by_one.append(ranker.compute_similarities(each.text, paragraphs))
        by_best.append([max(next(values) for _ in part) for part in parts])
    names = ("recall_1", "recall_5", "ndcg")
    one, best = (ranking_metrics.score_rankings(worths, found) for found in (by_one, by_best))
    return {
        **{f"vector {name}": one[name] for name in names},
        **{f"sentence {name}": best[name] for name in names},
    }


def rank_in_library(
    ranker: DenseRanker, squad: Squad, asked: Sequence[SquadQuestion], library: FolderLibrary
) -> dict[str, float]:
    """Measure the order that `evidence.passage_ranking` makes of the whole library's results."""
    found = measure_search(
        make_ranked_search(library, ranker.compute_similarities), asked, GoldSpans(squad, library)
    )
    return {f"rank recall_{k}": found[f"recall@{k}"] for k in (1, 5)}


def main() -> None:
    """Run the benchmark."""
    require_data(DATA)
    try:
        start = load_sentence_encoder(MINILM_MODEL)
    except Failed as failed:
        skip_bench(str(failed))
    torch.set_num_threads(1)
    squad = Squad()
    parts = split_articles(squad, max(LEARNT.values()))
    some = random.Random("ranked").sample(parts.asked, RANKED)
    training = {}
    with tempfile.TemporaryDirectory() as folder:
        start.write_folder(Path(folder) / MINILM_MODEL)
        export_sentence_encoder(Path(folder) / MINILM_MODEL)
        arms = {"MiniLM": load_dense_ranker(Path(folder) / MINILM_MODEL)}
        for cut, count in LEARNT.items():
            found, minutes = train_ranker(parts.triples[:count], cut, Path(folder))
            arms[f"trained, {cut}"] = load_dense_ranker(Path(found.model))
            training[cut] = {"cpu_minutes": minutes, "questions": found.questions} | {
                f"{name} {when}": value
                for when, values in (("before", found.before), ("after", found.after))
                for name, value in values.items()
            }
    figures: dict[str, dict[str, float]] = {}
    with squad.open_library() as library:
        for name, ranker in arms.items():
            figures[name] = rank_within_articles(ranker, squad, parts.asked)
            figures[name] |= rank_in_library(ranker, squad, some, library)
            print(name, *(f"{column} {value:.3f}" for column, value in figures[name].items()))
    print_table(sorted({name for each in training.values() for name in each}), training)
    asked = {"held_out_articles": HELD_OUT, "within": len(parts.asked), "ranked": len(some)}
    write_results("retrieve", {**asked, "rows": figures, "training": training})


if __name__ == "__main__":
    main()

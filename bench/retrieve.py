"""The trained ranker: MiniLM before and after minutes of training, on articles that it never saw.

Reads ../shared/data/squad; needs the `dense` and `learn` extras. Prints a table and writes
bench/results/retrieve.json. Of some articles all questions are held out. For them: is the paragraph
that a question was written about first among its article's, by one vector a paragraph and by its
best sentence; and among what the whole library finds, by `cite.rank`. MiniLM has SQuAD's training
set among the texts that it learnt from, so that "before" is flattered.

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

from bench.dense import split
from bench.report import require, show, sized, skip, write
from bench.search import ranked, row
from bench.squad import DATA, Asked, Gold, Squad
from rookery.browse.folder import Folder
from rookery.cite import dense, ordered
from rookery.cite.dense import Dense
from rookery.learn.optimise import Optimising
from rookery.learn.referred import Drawing, Sources, Triple
from rookery.learn.retrieve import Retrieved, RetrieveSettings, retrieve

HELD_OUT = sized(12, 2)
"""articles"""
WITHIN = sized(40, 2)
"""questions of each, ranked within the article"""
RANKED = sized(120, 2)
"""questions of all of them, ranked by `cite.rank` in the library"""
LEARNT = sized({"sentences": 400, "whole": 150}, {"sentences": 8, "whole": 8})
"""questions that are learnt from: about as much text in both"""


class Split(NamedTuple):
    """Articles apart: what is learnt from, and what is asked."""

    triples: list[Triple]
    asked: list[Asked]


def apart(squad: Squad, questions: int) -> Split:
    """Held-out articles' questions, and triples from the others."""
    chance = random.Random("retrieve")
    held = set(chance.sample(range(len(squad.articles)), HELD_OUT))
    theirs: dict[int, list[Asked]] = {number: [] for number in sorted(held)}
    for each in squad.questions:
        if each.article in held:
            theirs[each.article].append(each)
    asked = [q for some in theirs.values() for q in chance.sample(some, min(WITHIN, len(some)))]
    others = [each for each in squad.questions if each.article not in held and each.answers]
    triples = [
        Triple(each.text, squad.articles[each.article].paragraphs, each.answers[0])
        for each in chance.sample(others, questions)
    ]
    return Split(triples, asked)


def trained(triples: Sequence[Triple], cut: str, folder: Path) -> tuple[Retrieved, float]:
    """What came of it, and CPU minutes."""
    data = folder / f"{cut}.jsonl"
    data.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in triples))
    settings = RetrieveSettings(
        Sources(triples=(str(data),), cut="sentences" if cut == "sentences" else "whole"),
        frozen=0.5,
        optimising=Optimising(rate=5e-5, warmup=0.1),
        drawing=Drawing(questions=sized(16, 2), references=8),
        ranked=16,
    )
    begun = time.process_time()
    return retrieve(settings, folder / cut, said), (time.process_time() - begun) / 60


def said(step: int, steps: int, measured: dict[str, float]) -> None:
    print(f"step {step} of {steps}: loss {measured['loss']:.3f}", file=sys.stderr, flush=True)


def within(ranker: Dense, squad: Squad, asked: Sequence[Asked]) -> dict[str, float]:
    """Of the paragraphs of an article: by one vector each, and by the best of its sentences."""
    worths, by_one, by_best = [], [], []
    for each in asked:
        paragraphs = squad.articles[each.article].paragraphs
        parts = [split(text) or [text] for text in paragraphs]
        values = iter(ranker.similarities(each.text, [text for part in parts for text in part]))
        worths.append([float(number == each.paragraph) for number in range(len(paragraphs))])
        by_one.append(ranker.similarities(each.text, paragraphs))
        by_best.append([max(next(values) for _ in part) for part in parts])
    names = ("recall_1", "recall_5", "ndcg")
    one, best = (ordered.measured(worths, found) for found in (by_one, by_best))
    return {
        **{f"vector {name}": one[name] for name in names},
        **{f"sentence {name}": best[name] for name in names},
    }


def in_library(
    ranker: Dense, squad: Squad, asked: Sequence[Asked], library: Folder
) -> dict[str, float]:
    """Of all articles: the order that `cite.rank` makes of what the search finds."""
    found = row(ranked(library, ranker.similarities), asked, Gold(squad, library))
    return {f"rank recall_{k}": found[f"recall@{k}"] for k in (1, 5)}


def main() -> None:
    require(DATA)
    if dense.missing():
        skip(dense.missing())
    torch.set_num_threads(1)
    squad = Squad()
    parts = apart(squad, max(LEARNT.values()))
    some = random.Random("ranked").sample(parts.asked, RANKED)
    arms, training = {"MiniLM": dense.load()}, {}
    with tempfile.TemporaryDirectory() as folder:
        for cut, count in LEARNT.items():
            found, minutes = trained(parts.triples[:count], cut, Path(folder))
            arms[f"trained, {cut}"] = dense.load(folder=Path(found.model))
            training[cut] = {"cpu_minutes": minutes, "questions": found.questions} | {
                f"{name} {when}": value
                for when, values in (("before", found.before), ("after", found.after))
                for name, value in values.items()
            }
    figures: dict[str, dict[str, float]] = {}
    with squad.open_library() as library:
        for name, ranker in arms.items():
            assert ranker is not None
            figures[name] = within(ranker, squad, parts.asked)
            figures[name] |= in_library(ranker, squad, some, library)
            print(name, *(f"{column} {value:.3f}" for column, value in figures[name].items()))
    show(sorted({name for each in training.values() for name in each}), training)
    asked = {"held_out_articles": HELD_OUT, "within": len(parts.asked), "ranked": len(some)}
    write("retrieve", {**asked, "rows": figures, "training": training})


if __name__ == "__main__":
    main()

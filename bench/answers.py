"""Extractive answers on SQuAD: how often the first quote holds the answer, the first three do, and
what is declined.

Reads ../shared/data/squad. Prints tables and writes bench/results/answers.json and
docs/decline.svg. A quote holds the answer if it contains the accepted string verbatim. Weights and
the curve of `Confidence` were chosen on questions of seed 0, so that those of seed 1 are the
held-out figure. "Without its article" is simulated: the library is searched 300 passages deeper and
those of the article's page are left out; term rarities still count its words.

    python -m bench answers [--questions N] [--fit]
"""

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple

from bench.report import DOCS, choose_size, print_table, require_data, write_results
from bench.squad import ARCHIVE, CACHE, DATA, GoldSpans, Squad, SquadQuestion
from rookery.answers.extract import (
    ConfidenceModel,
    ExtractSettings,
    compose_extract_answer,
    weigh_evidence,
)
from rookery.answers.retrieval import RetrievedPassages, gather_passages
from rookery.evidence.calibration import draw_coverage_curves
from rookery.library.folder_library import FolderLibrary
from rookery.records import Hit, Library, Page

SEEDS = (0, 1)
PICTURE = DOCS / "decline.svg"
EXTRA_DEPTH = 300
TARGETS = {"lexical": {"first quote": 0.65, "three quotes": 0.79}}


class Outcome(NamedTuple):
    """Result of one question."""

    first: bool
    """True: the first quote holds the answer."""
    three: bool
    """True: one of the first three quotes does."""
    score: float
    """Stated probability that the first quote is right."""
    shown: bool
    """True: some ranked passage holds the answer."""
    top5: bool
    """True: the gold paragraph is among the five best passages of the index."""


class Example(NamedTuple):
    """Features and label that `fit_confidence` learns from."""

    first: bool
    passage: float
    margin: float


class LibraryWithoutPage(Library):
    """A library without one page."""

    def __init__(self, library: FolderLibrary, url: str) -> None:
        self._library = library
        self._url = url

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Search deeper by EXTRA_DEPTH and leave the page's hits out."""
        hits = self._library.search(query, k + EXTRA_DEPTH)
        return [hit for hit in hits if hit.url != self._url][:k]

    def fetch(self, url: str) -> Page:
        """Fetch a page from the whole library."""
        return self._library.fetch(url)


class _WorkerState:
    """Data and library that a worker process keeps open."""

    def __init__(self) -> None:
        self.squad = Squad()
        self.shelf = self.squad.open_library(ARCHIVE, CACHE)
        self.gold = GoldSpans(self.squad, self.shelf)


@cache
def _load_worker_state() -> _WorkerState:
    return _WorkerState()


def answer_question(gone: bool, asked: SquadQuestion) -> Outcome:
    """Answer one question by the extract method; `gone`: without its article."""
    gold = _load_worker_state().gold
    gathered = _gather_passages(asked, gone)
    answer = compose_extract_answer(asked.text, gathered, None, ExtractSettings(decline=0.0))
    held = [_holds_answer(quote.text, asked) for quote in answer.quotes[:3]] or [False]
    places = [(hit.url, hit.start, hit.end) for _, hit in gathered.found]
    return Outcome(
        held[0],
        any(held),
        answer.score or 0.0,
        any(_holds_answer(page.text[hit.start : hit.end], asked) for page, hit in gathered.found),
        any(gold.is_hit(asked, *place) for place in places[:5]),
    )


def extract_features(gone: bool, asked: SquadQuestion) -> Example:
    """Return the features of one question, and whether its first quote is right."""
    evidence = weigh_evidence(asked.text, _gather_passages(asked, gone))
    if evidence is None:
        return Example(False, 0.0, 0.0)
    return Example(
        _holds_answer(evidence.groups[0][0].text, asked), evidence.passage, evidence.margin
    )


def _gather_passages(asked: SquadQuestion, gone: bool) -> RetrievedPassages:
    library, url = _load_worker_state().shelf, _load_worker_state().squad.make_url(asked.article)
    return gather_passages(asked.text, LibraryWithoutPage(library, url) if gone else library)


def _holds_answer(text: str, asked: SquadQuestion) -> bool:
    return any(answer in text for answer in asked.answers)


def answer_questions(
    pool: ProcessPoolExecutor, gone: bool, asked: list[SquadQuestion]
) -> list[Outcome]:
    """Answer questions in the worker processes."""
    return list(pool.map(partial(answer_question, gone), asked, chunksize=25))


def compute_shares(seen: Sequence[Outcome]) -> dict[str, float]:
    """Compute the share of questions for each measure."""
    return {
        name: sum(values) / len(seen)
        for name, values in (
            ("first quote", [each.first for each in seen]),
            ("three quotes", [each.three for each in seen]),
            ("in a passage", [each.shown for each in seen]),
            ("gold in 5", [each.top5 for each in seen]),
        )
    }


def compute_decline_curve(
    seen: Sequence[Outcome], gone: Sequence[Outcome]
) -> list[dict[str, float]]:
    """Compute at each threshold the share answered, how many of these are right, and the share
    answered without the article."""
    points = []
    for threshold in (number / 20 for number in range(20)):
        answered = [each for each in seen if each.score >= threshold]
        points.append(
            {
                "threshold": threshold,
                "answered": len(answered) / len(seen),
                "correct": sum(each.first for each in answered) / max(1, len(answered)),
                "one of three": sum(each.three for each in answered) / max(1, len(answered)),
                "article gone": sum(each.score >= threshold for each in gone) / len(gone),
            }
        )
    return points


def compute_auc(seen: Sequence[Outcome]) -> float:
    """Compute the probability that a right answer scores above a wrong one (area under the ROC
    curve)."""
    below = wins = 0
    for each in sorted(seen, key=lambda each: each.score):
        wins += below * each.first
        below += not each.first
    return wins / max(1, below * (len(seen) - below))


def bin_by_score(seen: Sequence[Outcome]) -> list[dict[str, float]]:
    """Bin answers by score into fifths: count, mean score, share that is right."""
    rows = []
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        inside = [each for each in seen if low <= each.score < low + 0.2]
        count = max(1, len(inside))
        said = sum(each.score for each in inside) / count
        right = sum(each.first for each in inside) / count
        rows.append({"from": low, "count": len(inside), "said": said, "right": right})
    return rows


def fit_confidence(seen: Sequence[Example], rounds: int = 30) -> ConfidenceModel:
    """Fit the logistic regression of the two features by Newton's method."""
    import numpy as np

    x = np.array([(each.passage, each.margin, 1.0) for each in seen])
    y = np.array([each.first for each in seen], float)
    weights = np.zeros(3)
    for _ in range(rounds):
        p = 1 / (1 + np.exp(-x @ weights))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-6 * np.eye(3)
        weights += np.linalg.solve(hessian, x.T @ (y - p))
    passage, margin, offset = (round(float(w), 2) for w in weights)
    return ConfidenceModel(passage, margin, offset)


def print_refit(pool: ProcessPoolExecutor, squad: Squad, count: int) -> None:
    """Print the curve fitted on half of seed 0's questions, to be copied into extract.py."""
    half = squad.sample(0, count)[: count // 2]
    examples = [
        found
        for gone in (False, True)
        for found in pool.map(partial(extract_features, gone), half, chunksize=25)
    ]
    print(fit_confidence(examples), flush=True)


def measure_answers(pool: ProcessPoolExecutor, squad: Squad, count: int) -> dict[str, Any]:
    """Compute and print the figures."""
    rows = {}
    for seed in SEEDS:
        seen = answer_questions(pool, False, squad.sample(seed, count))
        rows[f"seed {seed}"] = compute_shares(seen)
    print(f"\nshare of {count} questions")
    print_table(list(rows["seed 1"]), rows)
    half = squad.sample(SEEDS[-1], count)[: count // 2]
    seen, gone = seen[: len(half)], answer_questions(pool, True, half)
    points, spread, auc = (
        compute_decline_curve(seen, gone),
        bin_by_score([*seen, *gone]),
        compute_auc([*seen, *gone]),
    )
    print(f"\ndeclining, {len(half)} questions of seed 1; area under ROC {auc:.3f}")
    print_table(list(points[0]), {f"{point['threshold']:.2f}": point for point in points})
    print_table(list(spread[0]), {f"{row['from']:.1f}": row for row in spread})
    return {"shares": rows, "auc": auc, "curve": points, "calibration": spread}


def main() -> None:
    """Run the command line."""
    require_data(DATA)
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=choose_size(2000, 4))
    parser.add_argument("--fit", action="store_true", help="fit Confidence anew and print it")
    options = parser.parse_args()
    squad = Squad()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        if options.fit:
            print_refit(pool, squad, options.questions)
            return
        figures = {"lexical": measure_answers(pool, squad, options.questions)}
    lines = [(point["answered"], point["correct"]) for point in figures["lexical"]["curve"]]
    picture = draw_coverage_curves({"lexical": lines}, "share of these whose first quote is right")
    PICTURE.write_text(picture, encoding="utf-8")
    run = {"questions": options.questions, "targets": TARGETS, "decline": ExtractSettings().decline}
    write_results("answers", {**run, "arms": figures})


if __name__ == "__main__":
    main()

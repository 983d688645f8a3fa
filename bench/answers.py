"""Does the first quote hold the answer, do the first three, and what is declined?

Reads ../shared/data/squad. Prints tables and writes bench/results/answers.json and
docs/decline.svg. A quote holds the answer where the accepted string lies inside it, as it is
written. Weights and the curve of `Confidence` were chosen on questions of seed 0, so that those of
seed 1 are the held-out figure. "Without its article" is simulated: the library is searched 300
passages deep and those of the article's page are left out; rarities still count its words.

    python -m bench answers [--questions N] [--fit]
"""

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple

from bench.report import DOCS, require, show, sized, write
from bench.squad import ARCHIVE, CACHE, DATA, VECTORS, Asked, Gold, Squad, fill
from rookery.browse.folder import Folder
from rookery.cite import dense
from rookery.cite.rank import Similarity
from rookery.draft.curve import drawn
from rookery.draft.extract import Confidence, ExtractSettings, answer_from, weigh
from rookery.draft.gather import Gathered, gather
from rookery.records import Hit, Page

SEEDS = (0, 1)
PICTURE = DOCS / "decline.svg"
DEEP = 300
TARGETS = {
    "lexical": {"first quote": 0.65, "three quotes": 0.79},
    "dense": {"first quote": 0.665, "three quotes": 0.825},
}


class Outcome(NamedTuple):
    """What became of one question."""

    first: bool
    """the first quote holds the answer"""
    three: bool
    score: float
    """how likely the first quote was said to be right"""
    shown: bool
    """any of the passages that were ranked holds the answer"""
    top5: bool
    """the gold paragraph is among the five best passages of the index"""


class Example(NamedTuple):
    """What `fit` learns from."""

    first: bool
    passage: float
    margin: float


class Without:
    """A library from which one page is missing."""

    def __init__(self, library: Folder, url: str) -> None:
        self._library = library
        self._url = url

    def search(self, query: str, k: int) -> Sequence[Hit]:
        hits = self._library.search(query, k + DEEP)
        return [hit for hit in hits if hit.url != self._url][:k]

    def fetch(self, url: str) -> Page:
        return self._library.fetch(url)


class _Bench:
    """What a worker process keeps open."""

    def __init__(self) -> None:
        self.squad = Squad()
        self.shelf = self.squad.open_library(ARCHIVE, CACHE)
        self.gold = Gold(self.squad, self.shelf)
        self.ranker = dense.load(VECTORS)


@cache
def _bench() -> _Bench:
    return _Bench()


def outcome(arm: str, gone: bool, asked: Asked) -> Outcome:
    """One question, answered by the extract method; `gone`: without its article."""
    gold = _bench().gold
    gathered = _gathered(asked, gone)
    answer = answer_from(asked.text, gathered, _similarity(arm), ExtractSettings(decline=0.0))
    held = [_holds(quote.text, asked) for quote in answer.quotes[:3]] or [False]
    places = [(hit.url, hit.start, hit.end) for _, hit in gathered.found]
    return Outcome(
        held[0],
        any(held),
        answer.score or 0.0,
        any(_holds(page.text[hit.start : hit.end], asked) for page, hit in gathered.found),
        any(gold.is_hit(asked, *place) for place in places[:5]),
    )


def example(arm: str, gone: bool, asked: Asked) -> Example:
    """The signs of one question, and whether its first quote is right."""
    evidence = weigh(asked.text, _gathered(asked, gone), _similarity(arm))
    if evidence is None:
        return Example(False, 0.0, 0.0)
    return Example(_holds(evidence.groups[0][0].text, asked), evidence.passage, evidence.margin)


def _gathered(asked: Asked, gone: bool) -> Gathered:
    library, url = _bench().shelf, _bench().squad.url(asked.article)
    return gather(asked.text, Without(library, url) if gone else library)


def _similarity(arm: str) -> Similarity | None:
    ranker = _bench().ranker
    return ranker.similarities if arm == "dense" and ranker else None


def _holds(text: str, asked: Asked) -> bool:
    return any(answer in text for answer in asked.answers)


def outcomes(pool: ProcessPoolExecutor, arm: str, gone: bool, asked: list[Asked]) -> list[Outcome]:
    return list(pool.map(partial(outcome, arm, gone), asked, chunksize=25))


def shares(seen: Sequence[Outcome]) -> dict[str, float]:
    """Of all questions."""
    return {
        name: sum(values) / len(seen)
        for name, values in (
            ("first quote", [each.first for each in seen]),
            ("three quotes", [each.three for each in seen]),
            ("in a passage", [each.shown for each in seen]),
            ("gold in 5", [each.top5 for each in seen]),
        )
    }


def curve(seen: Sequence[Outcome], gone: Sequence[Outcome]) -> list[dict[str, float]]:
    """At each threshold: how many are answered, how many of these rightly, with and without."""
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


def area(seen: Sequence[Outcome]) -> float:
    """The chance that a right answer scores above a wrong one: the area under the ROC curve."""
    below = wins = 0
    for each in sorted(seen, key=lambda each: each.score):
        wins += below * each.first
        below += not each.first
    return wins / max(1, below * (len(seen) - below))


def calibration(seen: Sequence[Outcome]) -> list[dict[str, float]]:
    """In each fifth of the scale: how many, the mean that was said, the share that was right."""
    rows = []
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        inside = [each for each in seen if low <= each.score < low + 0.2]
        count = max(1, len(inside))
        said = sum(each.score for each in inside) / count
        right = sum(each.first for each in inside) / count
        rows.append({"from": low, "count": len(inside), "said": said, "right": right})
    return rows


def fit(seen: Sequence[Example], rounds: int = 30) -> Confidence:
    """The logistic curve of the two signs under which these outcomes are likeliest (Newton)."""
    import numpy as np

    x = np.array([(each.passage, each.margin, 1.0) for each in seen])
    y = np.array([each.first for each in seen], float)
    weights = np.zeros(3)
    for _ in range(rounds):
        p = 1 / (1 + np.exp(-x @ weights))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-6 * np.eye(3)
        weights += np.linalg.solve(hessian, x.T @ (y - p))
    passage, margin, offset = (round(float(w), 2) for w in weights)
    return Confidence(passage, margin, offset)


def refit(pool: ProcessPoolExecutor, squad: Squad, arm: str, count: int) -> None:
    """Print the curve that half of seed 0's questions give: to be written into extract.py."""
    half = squad.sample(0, count)[: count // 2]
    examples = [
        found
        for gone in (False, True)
        for found in pool.map(partial(example, arm, gone), half, chunksize=25)
    ]
    print(f"{arm}: {fit(examples)}", flush=True)


def trial(pool: ProcessPoolExecutor, squad: Squad, arm: str, count: int) -> dict[str, Any]:
    """All figures of one arm, printed."""
    rows = {}
    for seed in SEEDS:
        seen = outcomes(pool, arm, False, squad.sample(seed, count))
        rows[f"seed {seed}"] = shares(seen)
    print(f"\n{arm}: share of {count} questions")
    show(list(rows["seed 1"]), rows)
    half = squad.sample(SEEDS[-1], count)[: count // 2]
    seen, gone = seen[: len(half)], outcomes(pool, arm, True, half)
    points, spread, auc = curve(seen, gone), calibration([*seen, *gone]), area([*seen, *gone])
    print(f"\n{arm}: declining, {len(half)} questions of seed 1; area under ROC {auc:.3f}")
    show(list(points[0]), {f"{point['threshold']:.2f}": point for point in points})
    show(list(spread[0]), {f"{row['from']:.1f}": row for row in spread})
    return {"shares": rows, "auc": auc, "curve": points, "calibration": spread}


def main() -> None:
    require(DATA)
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=sized(2000, 4))
    parser.add_argument("--fit", action="store_true", help="fit Confidence anew and print it")
    options = parser.parse_args()
    squad = Squad()
    arms = ["lexical"]
    if reason := dense.missing():
        print(reason)
    else:
        arms.append("dense")
        _prepare(squad, options.questions)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        if options.fit:
            for arm in arms:
                refit(pool, squad, arm, options.questions)
            return
        figures = {arm: trial(pool, squad, arm, options.questions) for arm in arms}
    lines = {
        arm: [(point["answered"], point["correct"]) for point in figures[arm]["curve"]]
        for arm in arms
    }
    picture = drawn(lines, "share of these whose first quote is right")
    PICTURE.write_text(picture, encoding="utf-8")
    run = {"questions": options.questions, "targets": TARGETS, "decline": ExtractSettings().decline}
    write("answers", {**run, "arms": figures})


def _prepare(squad: Squad, count: int) -> None:
    """Vectors of what is found with every article there; what is found without is few more."""
    with squad.open_library(ARCHIVE, CACHE) as library:
        fill(library, [q.text for seed in SEEDS for q in squad.sample(seed, count)])


if __name__ == "__main__":
    main()

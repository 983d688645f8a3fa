"""Extractive answers on SQuAD: how often the first quote holds the answer, the first three do, and
what is declined.

Reads ../shared/data/squad. Prints tables and writes bench/results/answers.json and
docs/decline.svg. A quote holds the answer if it contains the accepted string verbatim. "Without its
article" is simulated: the library is searched 300 passages deeper and those of the article's page
are left out; term rarities still count its words.

    python -m bench answers [--questions N]
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from html import escape
from math import floor
from typing import Any, NamedTuple

from bench.report import DOCS, choose_size, print_table, require_data, write_results
from bench.squad import ARCHIVE, CACHE, DATA, GoldSpans, Squad, SquadQuestion
from rookery.answers.extract import ExtractSettings, answer_by_extraction
from rookery.evidence.passage_ranking import RankedPassage
from rookery.library.folder_library import FolderLibrary
from rookery.measure.coverage import MIN_COVERAGE_DRAWN
from rookery.records import Hit, Library, Page, Question

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
    """Score of the best passage by its words."""
    shown: bool
    """True: some ranked passage holds the answer."""
    top5: bool
    """True: the gold paragraph is among the five best passages of the index."""


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
    state, ranked = _load_worker_state(), list[RankedPassage]()
    library: Library = state.shelf
    if gone:
        library = LibraryWithoutPage(state.shelf, state.squad.make_url(asked.article))
    settings = ExtractSettings(decline=0.0)
    question = Question("", asked.text)
    answer = answer_by_extraction(question, library, None, settings, ranked.extend).answer
    quotes = answer.quotes[:3] if answer else ()
    held = [_holds_answer(quote.text, asked) for quote in quotes] or [False]
    hits = [passage.hit for passage in ranked]
    return Outcome(
        held[0],
        any(held),
        (answer.score if answer else None) or 0.0,
        any(_holds_answer(each.page.text[each.hit.start : each.hit.end], asked) for each in ranked),
        any(state.gold.is_hit(asked, hit.url, hit.start, hit.end) for hit in hits[:5]),
    )


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


PLOT_WIDTH, PLOT_HEIGHT, PLOT_MARGIN = 560, 360, 50
PLOT_RIGHT, PLOT_BOTTOM = PLOT_WIDTH - PLOT_MARGIN, PLOT_HEIGHT - PLOT_MARGIN
LINE_COLOURS = ("#1f5fa8", "#c2410c", "#3f7d3a")


def draw_coverage_curves(lines: Mapping[str, Sequence[tuple[float, float]]], good: str) -> str:
    """Draw named curves of (coverage, share of good answers), both from 0 to 1; return the SVG.

    Points with a coverage of 0.02 or less are not drawn. `good` labels the second axis, which goes
    from 0.5 to 1, or from lower where a curve does.
    """
    curves = {
        name: [point for point in points if point[0] > MIN_COVERAGE_DRAWN]
        for name, points in lines.items()
    }
    shares = [share for points in curves.values() for _, share in points]
    low = min(5, floor(10 * min(shares, default=1.0))) / 10
    parts = _draw_axes(good, low)
    for number, (name, points) in enumerate(curves.items()):
        colour = LINE_COLOURS[number % len(LINE_COLOURS)]
        places = [(_x_position(answered), _y_position(share, low)) for answered, share in points]
        line, y = " ".join(f"{x:.1f},{y:.1f}" for x, y in places), PLOT_BOTTOM - 20 - 18 * number
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_draw_text(PLOT_MARGIN + 20, y, name, f' fill="{colour}"'))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_axes(good: str, low: float) -> list[str]:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {PLOT_WIDTH} {PLOT_HEIGHT}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<path d="M{PLOT_MARGIN} {PLOT_MARGIN}V{PLOT_BOTTOM}H{PLOT_RIGHT}" fill="none" '
        'stroke="black"/>',
        _draw_text(PLOT_WIDTH / 2, PLOT_HEIGHT - 12, "share answered", ANCHOR_MIDDLE),
        _draw_text(PLOT_MARGIN, PLOT_MARGIN - 14, good),
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(_draw_text(_x_position(tick), PLOT_BOTTOM + 16, f"{tick:g}", ANCHOR_MIDDLE))
    for share in (tenth / 10 for tenth in range(round(10 * low), 11)):
        y = _y_position(share, low) + 4
        parts.append(_draw_text(PLOT_MARGIN - 6, y, f"{share:g}", ANCHOR_END))
    return parts


ANCHOR_MIDDLE, ANCHOR_END = ' text-anchor="middle"', ' text-anchor="end"'


def _draw_text(x: float, y: float, words: str, how: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{how}>{escape(words)}</text>'


def _x_position(answered: float) -> float:
    return PLOT_MARGIN + answered * (PLOT_RIGHT - PLOT_MARGIN)


def _y_position(share: float, low: float) -> float:
    return PLOT_BOTTOM - (max(share, low) - low) / (1 - low) * (PLOT_BOTTOM - PLOT_MARGIN)


def main() -> None:
    """Run the command line."""
    require_data(DATA)
    parser = argparse.ArgumentParser()
    parser.add_argument("--questions", type=int, default=choose_size(2000, 4))
    options = parser.parse_args()
    squad = Squad()
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        figures = {"lexical": measure_answers(pool, squad, options.questions)}
    lines = [(point["answered"], point["correct"]) for point in figures["lexical"]["curve"]]
    picture = draw_coverage_curves({"lexical": lines}, "share of these whose first quote is right")
    PICTURE.write_text(picture, encoding="utf-8")
    run = {"questions": options.questions, "targets": TARGETS, "decline": ExtractSettings().decline}
    write_results("answers", {**run, "arms": figures})


if __name__ == "__main__":
    main()

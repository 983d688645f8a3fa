"""The evidence model on SQuAD: the answer in the first quote and as a short span, right against
wrong answers where half of the questions have none, and exchanged details given the paragraph.

Reads ../shared/data/squad. Prints tables and writes bench/results/evidence.json. All articles
stand in one library. Half of the articles are the recipe's training data ("seen"). For right
against wrong answers, every second question is asked of the library without its article. A quote
holds the answer if it contains an accepted string verbatim, so that a longer quote holds it more
easily: the mean length stands beside, and the index's best passage (BM25) is the floor for such
quotes. "by words" is `extract` without the model; for exchanged details, the share of the
question's words in the paragraph. Nothing is declined.

    python -m bench evidence [--ranker DIR] [--questions N]
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from bench.answers import LibraryWithoutPage
from bench.documentation import answer_by_bm25
from bench.report import choose_size, print_table, require_data, skip_bench, write_results
from bench.squad import ARCHIVE, CACHE, DATA, Squad, SquadQuestion
from recipes.evidence_data import EvidenceDataSettings, exchange_detail, list_names, split_articles
from recipes.findings import format_estimate
from recipes.measures import estimate_auroc
from rookery.answers.evidence_answers import (
    EvidenceSettings,
    compose_evidence_answer,
    judge_sections,
    narrow_section,
)
from rookery.answers.extract import ExtractSettings, answer_by_extraction
from rookery.answers.retrieval import gather_passages
from rookery.evidence.evidence_model import (
    BUNDLED_MODEL,
    EvidenceModel,
    EvidencePassage,
    is_evidence_model,
    load_evidence_model,
)
from rookery.library.folder_library import FolderLibrary
from rookery.library.question_files import read_squad
from rookery.measure.intervals import Estimate, estimate_mean, estimate_share
from rookery.measure.text_metrics import compute_token_f1, is_exact_match
from rookery.pages.search_terms import get_question_terms, split_terms
from rookery.records import Answer, Library, Question

SEED = 2
TARGETS = {"first quote": 0.74, "short answer F1": 0.70, "AUROC": 0.85, "at half": 0.68}
TARGET_DETAILS = 0.78
TRAINED = EvidenceDataSettings()
"""of which the share and the seed of the articles that the recipe trains on are taken"""


class AskedSquadQuestion(NamedTuple):
    """Outcome of one question."""

    held: bool
    """the first quote holds the answer"""
    score: float
    length: int
    """characters of the first quote"""
    f1: float = 0.0
    """token F1 of the best section's span, as a short answer"""
    exact: bool = False


def ask_by_bm25(asked: SquadQuestion, library: Library) -> AskedSquadQuestion:
    """Quote the index's best passage."""
    return _describe(asked, answer_by_bm25(Question("", asked.text), library).answer)


def ask_by_words(asked: SquadQuestion, library: Library) -> AskedSquadQuestion:
    """Answer by `extract` without a model."""
    question = Question("", asked.text)
    return _describe(
        asked, answer_by_extraction(question, library, settings=ExtractSettings(decline=0.0)).answer
    )


def ask_by_evidence(
    model: EvidenceModel, asked: SquadQuestion, library: Library
) -> AskedSquadQuestion:
    """Answer by the evidence model, as `answer_by_evidence` does; the span is the short answer."""
    judge, settings = model.judge_passages, EvidenceSettings(quotes=1, decline=0.0, second=1.0)
    found = gather_passages(asked.text, library, settings.limits)
    sections = judge_sections(asked.text, found, judge)
    said = "".join(
        each.page.text[each.start : each.end][slice(*each.judgement.span)] for each in sections[:1]
    )
    for number, section in enumerate(sections[:1]):
        sections[number] = narrow_section(asked.text, section, judge, settings.longest)
    result = _describe(asked, compose_evidence_answer(sections, settings))
    f1 = compute_token_f1(said, asked.answers)
    return result._replace(f1=f1, exact=is_exact_match(said, asked.answers))


def _describe(asked: SquadQuestion, answer: Answer | None) -> AskedSquadQuestion:
    quotes = answer.quotes[:1] if answer else ()
    held = any(text in quote.text for quote in quotes for text in asked.answers)
    length = sum(len(quote.text) for quote in quotes)
    return AskedSquadQuestion(held, (answer.score or 0.0) if answer else 0.0, length)


def measure_precision_at_half(outcomes: Sequence[AskedSquadQuestion]) -> Estimate:
    """Return the share of right answers among the half with the highest scores."""
    ordered = sorted(outcomes, key=lambda each: -each.score)[: len(outcomes) // 2]
    return estimate_share(sum(each.held for each in ordered), len(ordered))


def measure_details(
    squad: Squad, questions: Iterable[SquadQuestion], model: EvidenceModel
) -> dict[str, Estimate]:
    """Return the AUROC of questions against the same with a detail exchanged, each with its
    paragraph, by the model and by the share of words."""
    own: dict[str, list[float]] = {"by words": [], "evidence model": []}
    changed: dict[str, list[float]] = {"by words": [], "evidence model": []}
    for asked in questions:
        article = squad.articles[asked.article]
        passage = EvidencePassage(article.paragraphs[asked.paragraph], article.title)
        random = Random(f"{SEED} {asked.text}")
        other = exchange_detail(asked.text, list_names(article.paragraphs), random)
        for text, kept in ((asked.text, own), (other, changed)):
            if text is not None:
                kept["evidence model"].append(model.judge_passages(text, [passage])[0].answers)
                words = set(get_question_terms(text))
                shared = words.intersection(split_terms(passage.text))
                kept["by words"].append(len(shared) / max(len(words), 1))
    return {name: estimate_auroc(own[name], changed[name]) for name in own if changed[name]}


def list_part_figures(
    here: Sequence[AskedSquadQuestion], gone: Sequence[AskedSquadQuestion]
) -> dict[str, Estimate]:
    """Return the figures of questions with their articles, and of some without."""
    figures = {
        "first quote": estimate_share(sum(each.held for each in here), len(here)),
        "characters": estimate_mean([float(each.length) for each in here]),
        "short answer F1": estimate_mean([each.f1 for each in here]),
        "short answer exact": estimate_share(sum(each.exact for each in here), len(here)),
    }
    mixed = [*here[::2], *gone]
    figures |= _estimate_area("AUROC", mixed)
    figures["at half"] = measure_precision_at_half(mixed)
    return figures


def _estimate_area(name: str, outcomes: Sequence[AskedSquadQuestion]) -> dict[str, Estimate]:
    """Return the AUROC of right against wrong answers; nothing where there are none of either."""
    right = [each.score for each in outcomes if each.held]
    wrong = [each.score for each in outcomes if not each.held]
    return {name: estimate_auroc(right, wrong)} if right and wrong else {}


def measure_method(
    squad: Squad,
    library: FolderLibrary,
    questions: Sequence[SquadQuestion],
    ask: Callable[[SquadQuestion, Library], AskedSquadQuestion],
) -> dict[str, Estimate]:
    """Ask all questions of the library, and every second one without its article."""
    here = [ask(each, library) for each in questions]
    gone = [
        ask(each, LibraryWithoutPage(library, squad.make_url(each.article)))
        for each in questions[1::2]
    ]
    return list_part_figures(here, gone)


def measure_squad(
    squad: Squad, library: FolderLibrary, model: EvidenceModel, count: int
) -> tuple[dict[str, dict[str, Estimate]], dict[str, Estimate]]:
    """Return the figures by part and method, and those of exchanged details."""
    trained = split_articles(read_squad(DATA), TRAINED.articles, TRAINED.seed)
    rows: dict[str, dict[str, Estimate]] = {}
    details: dict[str, Estimate] = {}
    for part in ("seen", "unseen"):
        own = [
            each
            for each in squad.questions
            if (squad.articles[each.article].name in trained) is (part == "seen")
        ]
        questions = Random(f"{SEED} {part}").sample(own, min(count, len(own)))
        rows[f"{part}, BM25"] = measure_method(squad, library, questions, ask_by_bm25)
        rows[f"{part}, by words"] = measure_method(squad, library, questions, ask_by_words)
        rows[f"{part}, evidence model"] = measure_method(
            squad, library, questions, partial(ask_by_evidence, model)
        )
        if part == "unseen":
            details = measure_details(squad, questions, model)
    return rows, details


def main() -> None:
    """Run the benchmark."""
    require_data(DATA)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ranker", type=Path, default=BUNDLED_MODEL, help="folder of an evidence model"
    )
    parser.add_argument("--questions", type=int, default=choose_size(200, 4), help="of each part")
    options = parser.parse_args()
    if not is_evidence_model(options.ranker):
        skip_bench(f"there is no evidence model in {options.ranker}")
    squad = Squad()
    library = squad.open_library(ARCHIVE, CACHE)
    rows, details = measure_squad(
        squad, library, load_evidence_model(options.ranker), options.questions
    )
    library.close()
    shown = {
        name: {figure: estimate.value for figure, estimate in row.items()}
        for name, row in rows.items()
    }
    print_table(list(next(iter(shown.values()))), shown)
    for name, estimate in details.items():
        print(f"exchanged details, {name}: {format_estimate(estimate)}")

    def to_table(estimates: dict[str, Estimate]) -> dict[str, Any]:
        return {
            name: {"value": each.value, "low": each.low, "high": each.high}
            for name, each in estimates.items()
        }

    write_results(
        "evidence",
        {
            "questions": options.questions,
            "targets": {**TARGETS, "details": TARGET_DETAILS},
            "parts": {name: to_table(row) for name, row in rows.items()},
            "details": to_table(details),
        },
    )


if __name__ == "__main__":
    main()

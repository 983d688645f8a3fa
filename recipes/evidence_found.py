"""Measures of the evidence recipe, on questions and claims that it was not trained on."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import msgspec

from recipes.evidence_data import (
    EvidenceDataSettings,
    exchange_detail,
    list_names,
    read_json_lines_xz,
    split_articles,
)
from recipes.findings import format_estimate
from recipes.measures import estimate_auroc
from rookery.evidence.evidence_model import EvidenceModel, EvidencePassage
from rookery.library.question_files import SquadData, read_squad
from rookery.measure.intervals import Estimate, estimate_mean
from rookery.measure.text_metrics import compute_token_f1
from rookery.records import Question

SUPPORT_SOURCES = ("fever_symmetric_dev", "scifact_pairs")
"""collections of claims that are measured on and never trained on"""
NEAR_PARAGRAPHS = 9
"""paragraphs of the same article that a question's own is ranked among"""


class MeasureSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sizes of the measurements."""

    questions: int = 200
    """questions of articles that were not trained on"""
    claims: int = 300
    """claims of each collection"""
    seed: int = 1


class EvidenceMeasures(msgspec.Struct, frozen=True):
    """Measures of one model, each with its 95 % interval."""

    answerable: Estimate
    """AUROC of a question against the same with a detail exchanged, both with its paragraph"""
    first: Estimate
    """share of questions whose own paragraph is ranked first among its article's nearest ones"""
    short_answer: Estimate
    """SQuAD's F1 of the span in the question's own paragraph"""
    sides: dict[str, Estimate]
    """AUROC of supporting against refuting evidence, by collection"""


def measure_model(
    model: EvidenceModel, settings: MeasureSettings, trained: EvidenceDataSettings, data: Path
) -> EvidenceMeasures:
    """Measure a model on unseen articles of SQuAD and on claims of SUPPORT_SOURCES."""
    squad = read_squad(data / "squad" / "train.json.xz")
    training_articles = split_articles(squad, trained.articles, trained.seed)
    unseen = [
        each for each in squad.questions if each.source not in training_articles and each.gold
    ]
    questions = Random(f"{settings.seed} measured").sample(unseen, settings.questions)
    own, changed, first, short = [], [], [], []
    for question in questions:
        article, number = squad.places[question.id]
        title, paragraphs = squad.articles[article].title, squad.articles[article].paragraphs
        near = _find_nearest(question.text, paragraphs, number)
        read = [EvidencePassage(text, title) for text in (paragraphs[number], *near)]
        judged = model.judge_passages(question.text, read)
        scores = [each.answers for each in judged]
        own.append(scores[0])
        first.append(float(scores[0] > max(scores[1:], default=-1e9)))
        span_text = paragraphs[number][slice(*judged[0].span)]
        short.append(compute_token_f1(span_text, question.gold))
        if other := _exchange(question, squad, settings.seed):
            changed.append(model.judge_passages(other, read[:1])[0].answers)
    sides = {
        name: estimate_auroc(*_judge_claims(model, data / "support" / f"{name}.jsonl.xz", settings))
        for name in SUPPORT_SOURCES
    }
    return EvidenceMeasures(
        estimate_auroc(own, changed), estimate_mean(first), estimate_mean(short), sides
    )


def _find_nearest(question: str, paragraphs: Sequence[str], number: int) -> list[str]:
    asked = set(question.lower().split())
    others = [text for n, text in enumerate(paragraphs) if n != number]
    return sorted(others, key=lambda text: -len(asked & set(text.lower().split())))[
        :NEAR_PARAGRAPHS
    ]


def _exchange(question: Question, squad: SquadData, seed: int) -> str | None:
    article, _ = squad.places[question.id]
    names = list_names(squad.articles[article].paragraphs)
    return exchange_detail(question.text, names, Random(f"{seed} {question.id}"))


def _judge_claims(
    model: EvidenceModel, path: Path, settings: MeasureSettings
) -> tuple[list[float], list[float]]:
    """Return supports minus refutes of the claims that are supported, and of those refuted."""
    every = read_json_lines_xz(path)
    chosen = Random(f"{settings.seed} {path.name}").sample(every, min(settings.claims, len(every)))
    scores: dict[str, list[float]] = {"supports": [], "refutes": []}
    for each in chosen:
        passage = EvidencePassage(" ".join(each["evidence"]))
        [judged] = model.judge_passages(each["claim"], [passage])
        scores[each["label"]].append(judged.supports - judged.refutes)
    return scores["supports"], scores["refutes"]


def list_measures(base: EvidenceMeasures, trained: EvidenceMeasures) -> Iterator[str]:
    """Yield the measures of the trained model beside those of the public cross-encoder that it
    began as, and beside chance. The benches judge the model; this run does not."""
    for what, before, after in (
        (
            "AUROC of a question against one with a detail exchanged",
            base.answerable,
            trained.answerable,
        ),
        ("the right paragraph comes first of its article", base.first, trained.first),
    ):
        yield f"{what}: {format_estimate(after)}; before training {format_estimate(before)}"
    yield (
        f"F1 of the span as the short answer: {format_estimate(trained.short_answer)}; SQuAD's "
        "paper has .51 (logistic regression)"
    )
    for name, examples in trained.sides.items():
        what = f"AUROC of support against refutation on {name}"
        yield f"{what}: {format_estimate(examples)}; chance .500"

"""Calibration of the evidence model: the logistic that is fitted, and what is refused."""

from collections.abc import Sequence
from math import exp
from pathlib import Path
from random import Random
from typing import cast

import pytest

from bench import documentation
from recipes.evidence_calibration import JudgedQuestion, calibrate_model, fit_calibration
from rookery.answers.evidence_answers import RANK_PRIOR
from rookery.errors import Failed
from rookery.evidence.evidence_model import EvidenceJudgement, EvidenceModel, EvidencePassage
from rookery.pages.search_terms import get_question_terms, split_terms


class WordModel:
    """Judges a passage by the number of the question's words in it."""

    def judge_passages(
        self, query: str, passages: Sequence[EvidencePassage]
    ) -> list[EvidenceJudgement]:
        asked = set(get_question_terms(query))
        found = []
        for passage in passages:
            shared = asked.intersection(split_terms(f"{passage.heading} {passage.text}"))
            score = 4 * len(shared) / len(asked) - 2
            found.append(EvidenceJudgement(score, (0, len(passage.text)), score, 0, 0, 1))
        return found


def test_the_logistic_that_made_the_outcomes_is_found() -> None:
    """Questions have one to three sections; where the best stands out, it is right more often."""
    random = Random(3)
    judged = []
    for number in range(6000):
        outputs = sorted(
            ((random.gauss(0, 2), random.gauss(0, 2)) for _ in range(1 + number % 3)), reverse=True
        )
        ranks = tuple(random.sample(range(12), len(outputs)))
        odds = [
            exp(0.8 * answers + 0.3 * margin - 1) / (rank + 1) ** RANK_PRIOR
            for (answers, margin), rank in zip(outputs, ranks, strict=True)
        ]
        likely = odds[0] * odds[0] / sum(odds)
        answers, margins = zip(*outputs, strict=True)
        right = random.random() < likely / (1 + likely)
        judged.append(JudgedQuestion(answers, margins, right, ranks))
    found = fit_calibration(judged)
    assert found.answers == pytest.approx(0.8, abs=0.1)
    assert found.margin == pytest.approx(0.3, abs=0.1)
    assert found.bias == pytest.approx(-1, abs=0.15)


def test_too_few_outcomes_of_a_kind_are_refused() -> None:
    judged = [JudgedQuestion((1.0,), (1.0,), number < 29, (0,)) for number in range(200)]
    with pytest.raises(Failed, match="29 of 200 are right"):
        fit_calibration(judged)


@pytest.mark.slow
def test_answers_about_a_site_are_judged_right_and_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = cast(EvidenceModel, WordModel())
    monkeypatch.setattr("recipes.evidence_calibration.MIN_QUESTIONS", 15)
    found = calibrate_model(model, ["corvids"], tmp_path)
    # More of a question's words make a right answer likelier, and few of them make it unlikely.
    assert found.answers + found.margin > 0
    low, high = found.compute_log_odds(-1, -1), found.compute_log_odds(2, 2)
    assert low < -2
    assert low < high
    gone = {"corvids": (tmp_path / "nowhere", "*.html")}
    monkeypatch.setattr(documentation, "BUILD_SITES", gone)
    monkeypatch.setattr("recipes.evidence_calibration.BUILD_SITES", gone)
    with pytest.raises(Failed, match="apt install corvids"):
        calibrate_model(model, ["corvids"], tmp_path)

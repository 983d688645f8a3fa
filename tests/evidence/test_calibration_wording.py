"""Scores in words: a probability only where it was calibrated, and else high, middle or low."""

import json
from pathlib import Path

import msgspec
import pytest

from rookery.answers.evidence_answers import EvidenceSettings
from rookery.evidence.calibration import MEASURED, explain_score, grade_score, word_score
from rookery.records import Answer, Episode, Question


def make_episode(score: float | None, by: str = "extract", calibrated: bool = False) -> Episode:
    answer = Answer("Rooks.", score=score, calibrated=calibrated)
    return Episode(Question("1", "Who nests here?"), by, answer=answer)


@pytest.mark.parametrize(
    ("score", "words"),
    [(0.75, "score high"), (0.74, "score middle"), (0.5, "score middle"), (0.49, "score low")],
)
def test_an_uncalibrated_score_is_no_number(score: float, words: str) -> None:
    assert word_score(make_episode(score)) == words
    assert "likely" not in explain_score(make_episode(score))
    assert "not calibrated" in explain_score(make_episode(score))


@pytest.mark.parametrize(
    ("question", "answer", "words"),
    [
        ("Wann wird die Brücke gebaut?", "Die Brücke wird im Herbst gebaut.", "score not measured"),
        (
            "Où nichent les corbeaux ?",
            "Les corbeaux nichent dans les arbres.",
            "score not measured",
        ),
        (
            "東京タワーの高さは何メートルですか",
            "開館時間は九時から五時までです。",
            "score not measured",
        ),
        ("Где гнездятся грачи?", "Грачи гнездятся на деревьях.", "score not measured"),
        ("Why do crows bring gifts?", "Crows bring gifts to people who feed them.", "score high"),
        ("Who was 徳川家康?", "He was the first shogun of the line.", "score high"),
        ("Do a rook and a jay mate?", "42", "score high"),
    ],
)
def test_a_grade_is_told_in_english_alone(question: str, answer: str, words: str) -> None:
    episode = Episode(Question("1", question), "extract", answer=Answer(answer, score=0.9))
    assert word_score(episode) == words
    unknown = "holds in this language is not known" in explain_score(episode)
    assert unknown == (words == "score not measured")
    assert word_score(msgspec.structs.replace(episode, by="webglm")) == "score 0.90"


@pytest.mark.parametrize(("score", "shown"), [(0.81, 80), (0.999, 95), (0.001, 5), (0.63, 65)])
def test_a_calibrated_score_is_a_rounded_probability(score: float, shown: int) -> None:
    episode = make_episode(score, calibrated=True)
    assert word_score(episode) == f"about {shown} % likely"
    assert explain_score(episode).endswith("questions made from these documents.")


def test_what_is_certain_is_called_high() -> None:
    least = EvidenceSettings().certain
    assert [grade_score(each) for each in (least, least - 0.01)] == ["high", "middle"]


def test_what_is_told_was_measured() -> None:
    saved = Path(__file__).parents[2] / "bench" / "results" / "test" / "documentation.jsonl"
    rows = [json.loads(line) for line in saved.read_text(encoding="utf-8").splitlines()]
    for grade, counts in MEASURED.items():
        shown = [r for r in rows if r["answered"] or r["possible"]]
        given = [r for r in shown if grade_score(r["score"]) == grade]
        assert counts == (sum(r["first"] for r in given), len(given))
    assert "14 of 16 first quotes" in explain_score(make_episode(0.9))
    assert "16 of 56 first quotes" in explain_score(make_episode(0.3))


def test_other_scores_are_numbers_or_nothing() -> None:
    assert word_score(make_episode(-0.534, by="webglm")) == "score -0.53"
    assert explain_score(make_episode(-0.534, by="webglm")) == ""
    assert word_score(make_episode(None)) == explain_score(make_episode(None)) == ""
    assert word_score(Episode(Question("1", "Who?"), "extract")) == ""

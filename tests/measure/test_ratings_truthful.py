"""TruthfulQA: grades and their shares."""

import pytest

from rookery.measure.intervals import estimate_share
from rookery.measure.ratings import (
    TruthfulnessGrade,
    decide_grades,
    make_truthful_figure,
    measure_truthfulness,
)
from rookery.records import Answer, Question, Rating


def test_shares_worked_by_hand() -> None:
    grades = [
        TruthfulnessGrade(True, True),
        TruthfulnessGrade(True, False),
        TruthfulnessGrade(False, True),
        TruthfulnessGrade(True, True),
    ]
    assert measure_truthfulness(grades) == {
        "truthful": estimate_share(3, 4),
        "informative": estimate_share(3, 4),
        "truthful and informative": estimate_share(2, 4),
    }
    with pytest.raises(ValueError):
        measure_truthfulness([])


QUESTION = Question("crows", "Do crows bring luck?")


def rated(answer: str, scale: str, *values: float) -> list[Rating]:
    return [
        Rating(QUESTION, Answer(answer), scale, value, f"rater {number}")
        for number, value in enumerate(values)
    ]


def test_what_most_raters_say_is_the_grade() -> None:
    ratings = [
        *rated("No", "truthful", 1, 1, 0),
        *rated("Yes", "truthful", 0, 1),
        *rated("Yes", "informative", 1, 0.5, 0.5),
        *rated("No", "plausible", 0, 0, 0),
        *rated("No", "informative", 0.5),
    ]
    assert decide_grades(ratings) == [
        TruthfulnessGrade(True, False),
        TruthfulnessGrade(False, True),
    ]


def test_an_answer_that_is_rated_on_one_scale_alone_is_named() -> None:
    with pytest.raises(ValueError, match="an answer to crows is rated as truthful alone"):
        decide_grades(rated("No", "truthful", 1))


def test_the_figure_shows_each_system() -> None:
    found = measure_truthfulness([TruthfulnessGrade(True, False)])
    figure = make_truthful_figure({"best of 16": found}, "one answer")
    assert [row[:3] for row in figure.rows] == [
        ("best of 16", "truthful", 1),
        ("best of 16", "informative", 0),
        ("best of 16", "truthful and informative", 0),
    ]

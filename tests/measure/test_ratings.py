"""WebGLM's criteria and its ranking of systems, by hand."""

import pytest
from widths import half_width

from rookery.desk.forms import Judgement, LabellingItem
from rookery.desk.judgement_conversion import convert_to_ratings as ratings_of
from rookery.measure.intervals import estimate_mean
from rookery.measure.ratings import LEVELS, average_criteria, make_criteria_figure
from rookery.records import Answer, Question, Rating


def rating(question: str, answer: str, scale: str, value: float, by: str = "ada") -> Rating:
    return Rating(Question(question, "Why?"), Answer(answer), scale, value, by)


def system(answer: Answer) -> str:
    return answer.text.split()[0]


def test_scales_have_the_levels_of_the_paper() -> None:
    four = {"relevancy", "density", "fluency", "correctness", "citation_accuracy"}
    assert {scale for scale, levels in LEVELS.items() if levels == 4} == four
    assert all(LEVELS[scale] == 2 for scale in LEVELS.keys() - four)
    assert len(LEVELS) == 11  # WebGLM, table 2


def test_a_level_is_the_mean_on_the_scale_of_the_paper() -> None:
    fluency, truth = average_criteria(
        [
            rating("1", "glm x", "truthfulness", 1.0),
            rating("1", "glm x", "fluency", 1.0),
            rating("2", "glm y", "fluency", 1 / 3),
            rating("2", "glm y", "truthfulness", 0.0),
        ],
        system,
    )
    assert [fluency.scale, truth.scale] == ["fluency", "truthfulness"]
    assert [fluency.level, truth.level] == pytest.approx([2.0, 0.5])


def test_ratings_of_one_question_are_drawn_together() -> None:
    rated = [
        rating(str(number), "glm", "fluency", number % 2, by)
        for number in range(12)
        for by in ("ada", "bob", "cleo")
    ]
    (found,) = average_criteria(rated, system)
    values = [each.value for each in rated]
    assert found.mean == estimate_mean(values, [each.question.id for each in rated])
    assert found.mean.count == 36
    assert half_width(found.mean) > 1.4 * half_width(estimate_mean(values))


def test_a_judgement_at_the_desk_is_measured_as_it_was_filled_in() -> None:
    answer = Answer("glm answers")
    item = LabellingItem("criteria", Question("1", "Why?"), (answer,))
    filled = {"fluency": ["2"], "correctness": ["3"], "truthfulness": ["blank"]}
    judgement = Judgement("j", "i", "ada", "done", filled, "", 1, (0,), True, 0.0, 1.0)
    found = {
        each.scale: each.level for each in average_criteria(ratings_of(item, judgement), system)
    }
    assert found == {"fluency": pytest.approx(2), "correctness": pytest.approx(3)}


def test_a_scale_that_the_form_does_not_have_is_left_out() -> None:
    assert average_criteria([rating("1", "glm", "thumbs", 1.0)], system) == []


def test_a_figure_says_where_less_is_better() -> None:
    found = average_criteria(
        [rating("1", "a", "redundancy", 1), rating("1", "b", "fluency", 1)], system
    )
    figure = make_criteria_figure(found, "says")
    assert figure.picture.places == ("fluency", "redundancy, less is better")
    assert [row[0] for row in figure.rows] == ["b", "a"]
    assert [row[-1] for row in figure.rows] == [3.0, 1.0]

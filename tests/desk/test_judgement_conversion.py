"""What judgements mean: comparisons, ratings, demonstrations, and whether they are right."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from formed import ANSWERS, QUESTION, QUOTES, filled_in, item, judgement
from hypothesis import given
from hypothesis import strategies as st

from rookery.desk.forms import FORMS, GoldLabels, LabellingItem
from rookery.desk.judgement_conversion import (
    add_episode,
    convert_to_comparison,
    convert_to_episode,
    convert_to_ratings,
    extract_field_values,
    list_form_warnings,
    matches_gold,
)
from rookery.measure.ratings import LOWER_IS_BETTER_SCALES
from rookery.records import Comparison, Completion, Episode, Rating, Step


def weights(form: str, **filled: Any) -> tuple[float, ...] | None:
    found = convert_to_comparison(item(form), judgement(item(form), **filled))
    return None if found is None else found.weights


def rated(of: LabellingItem, **filled: Any) -> list[tuple[str, str, float]]:
    found = convert_to_ratings(of, judgement(of, **filled))
    assert all((each.question, each.by) == (QUESTION, "ada") for each in found)
    return [(each.answer.text, each.scale, each.value) for each in found]


# Comparisons


@pytest.mark.parametrize(
    ("overall", "expected"),
    [(-2, (1, 0)), (-1, (1, 0)), (0, (0.5, 0.5)), (1, (0, 1)), (2, (0, 1))],
)
@pytest.mark.parametrize("form", ["compare", "compare_short"])
def test_much_better_is_better_and_a_tie_is_half(
    form: str, overall: int, expected: tuple[float, ...]
) -> None:
    assert weights(form, overall=overall, coherence=2) == expected


@pytest.mark.parametrize(
    ("preferred", "expected"),
    [
        (0, (1, 0)),
        (1, (0, 1)),
        ("both_good", (0.5, 0.5)),
        ("both_bad", (0.5, 0.5)),
        ("cannot_pick", (0.5, 0.5)),
    ],
)
def test_every_tie_of_two_supported_answers_is_half(
    preferred: int | str, expected: tuple[float, ...]
) -> None:
    assert weights("supported", preferred=preferred) == expected


def test_the_best_of_four_has_all_the_weight() -> None:
    assert weights("best_of_four", best=2) == (0, 0, 1, 0)


def test_a_comparison_names_the_answers_as_the_item_has_them_and_who_made_it() -> None:
    found = convert_to_comparison(
        item("compare"), judgement(item("compare"), overall=1, kind="extra")
    )
    assert found == Comparison(QUESTION, ANSWERS[:2], (0.0, 1.0), "ada")


@pytest.mark.parametrize("kind", ["skipped", "flagged"])
def test_what_was_skipped_or_flagged_says_nothing(kind: Any) -> None:
    of = item("supported")
    made = judgement(of, kind, preferred=0, supported=["yes", "no"], reason="broken")
    assert convert_to_comparison(of, made) is None
    assert convert_to_ratings(of, made) == []


def test_what_was_left_out_or_not_asked_says_nothing() -> None:
    assert weights("compare", coherence=1) is None
    assert weights("thumbs", thumbs=["up"]) is None
    assert weights("truthful", truthful=["yes"]) is None


# Ratings


def test_supported_answers_are_rated_and_good_is_both() -> None:
    of = item("supported")
    first, second = (answer.text for answer in of.answers)
    assert rated(of, plausible=["yes", "yes"], supported=["yes", "no"], preferred=0) == [
        (first, "plausible", 1.0),
        (second, "plausible", 1.0),
        (first, "supported", 1.0),
        (second, "supported", 0.0),
        (first, "good", 1.0),
        (second, "good", 0.0),
    ]


@pytest.mark.parametrize(
    ("plausible", "supported", "good"),
    [
        ("yes", "yes", [1.0]),
        ("no", "yes", [0.0]),
        ("unsure", "no", [0.0]),
        ("unsure", "yes", []),
        ("yes", None, []),
        ("no", None, [0.0]),
    ],
)
def test_whoever_is_not_sure_gives_no_rating(
    plausible: str, supported: str | None, good: list[float]
) -> None:
    found = rated(item("supported"), plausible=[plausible, None], supported=[supported, None])
    scores = {"yes": 1.0, "no": 0.0}
    assert [value for _, scale, value in found if scale == "good"] == good
    assert [value for _, scale, value in found if scale == "plausible"] == [
        scores[said] for said in [plausible] if said in scores
    ]


def test_the_criteria_rate_the_answer_and_each_reference() -> None:
    of = item("criteria")
    found = rated(
        of,
        relevancy=[["3", None]],
        toxicity=[["0", "1"]],
        reference_truthfulness=[["blank", "1"]],
        fluency=["2"],
        truthfulness=["blank"],
        redundancy=["1"],
    )
    first, second = (quote.text for quote in QUOTES[:2])
    assert found == [
        (first, "relevancy", 1.0),
        (second, "reference_truthfulness", 1.0),
        (first, "toxicity", 0.0),
        (second, "toxicity", 1.0),
        (of.answers[0].text, "fluency", 2 / 3),
        (of.answers[0].text, "redundancy", 1.0),
    ]
    [reference] = convert_to_ratings(of, judgement(of, density=[["1", None]]))
    assert reference.answer.quotes == QUOTES[:1]
    assert reference.value == 1 / 3


def test_scales_on_which_less_is_better_are_scales() -> None:
    scales = {field.scale for field in FORMS["criteria"].fields}
    assert {"toxicity", "social_bias", "redundancy"} == LOWER_IS_BETTER_SCALES < scales


def test_trust_thumbs_and_truth_are_ratings() -> None:
    of = item("compare")
    assert rated(of, overall=1, trust=[["trustworthy", "suspicious"], []]) == [
        (QUOTES[0].text, "trust", 1.0),
        (QUOTES[1].text, "trust", 0.0),
    ]
    answer = ANSWERS[0].text
    assert rated(item("thumbs"), thumbs=["down"]) == [(answer, "thumbs", 0.0)]
    assert rated(item("truthful"), truthful=["yes"], informative=["no"]) == [
        (answer, "truthful", 1.0),
        (answer, "informative", 0.0),
    ]


@pytest.mark.parametrize("name", list(FORMS))
@given(data=st.data())
def test_whatever_is_filled_in_has_a_meaning_that_is_kept_as_json(
    name: str, data: st.DataObject
) -> None:
    of = item(name)
    filled = data.draw(filled_in(FORMS[name]))
    made = judgement(of, **msgspec.json.decode(msgspec.json.encode(filled)))
    found = convert_to_ratings(of, made)
    assert all(0 <= each.value <= 1 for each in found)
    assert [Rating.from_json(each.to_json()) for each in found] == found
    compared = convert_to_comparison(of, made)
    assert (compared is not None) == (FORMS[name].decides in filled)
    assert list_form_warnings(FORMS[name], filled) == [] or name == "supported"


def test_values_of_a_version_of_the_form_that_is_not_known_say_nothing() -> None:
    """A judgement whose version is lost is read with the newest, which has other values."""
    for form, decides in (("compare", "overall"), ("supported", "preferred")):
        for value in ("left", "5", 7, -3, [1], {"best": 0}):
            assert weights(form, **{decides: value}) is None, (form, value)
    assert weights("supported", preferred="both_good") == (0.5, 0.5)
    for lost in ("yes", 13, {"a": 1}, ["6"], [None], [["yes"]], [13]):
        for field in FORMS["criteria"].fields:
            assert rated(item("criteria"), **{field.name: lost}) == []
    labels = {"overall": 9, "coherence": "good", "comment": "x"}
    assert list(extract_field_values(FORMS["compare"], labels)) == []
    assert [
        (each.field.name, each.place, each.value)
        for each in extract_field_values(
            FORMS["supported"],
            {"plausible": ["yes", "perhaps"], "supported": ["no", 1], "preferred": 2},
        )
    ] == [("plausible", (0,), "yes"), ("supported", (0,), "no")]


def test_labels_on_a_scale_that_has_lost_some_are_those_that_it_has() -> None:
    form = FORMS["criteria"]
    [fluency] = [field for field in form.fields if field.name == "fluency"]
    filled = {"fluency": [fluency.choices[3].value, "of long ago"]}
    found = [(each.place, each.value) for each in extract_field_values(form, filled)]
    assert found == [((0,), fluency.choices[3].score)]


def test_gold_of_a_field_that_is_gone_is_not_asked_for() -> None:
    gold = GoldLabels({"preferred": 0, "once_asked": "yes"}, "It is about age.")
    of = msgspec.structs.replace(item("supported"), gold=gold)
    assert matches_gold(of, {"preferred": 0})
    assert not matches_gold(of, {"preferred": 1})


# Demonstrations


def test_a_demonstration_is_kept_in_its_form_and_read_again(tmp_path: Path) -> None:
    of = item("demonstrate")
    done = Episode(QUESTION, "ada", (Step("Question: …", Completion("Search sky")),), ANSWERS[0])
    made = judgement(of, **add_episode({"comment": "hard"}, done))
    assert made.filled["comment"] == "hard"
    again = type(made).from_json(made.to_json())
    assert convert_to_episode(of, again) == done
    assert convert_to_comparison(of, again) is None


def test_what_is_no_demonstration_has_no_episode() -> None:
    done = add_episode({}, Episode(QUESTION, "ada"))
    of = item("demonstrate")
    assert convert_to_episode(of, judgement(of, "skipped", **done)) is None
    assert convert_to_episode(of, judgement(of)) is None
    assert convert_to_episode(item("survey"), judgement(item("survey"), **done)) is None


def test_an_episode_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        convert_to_episode(
            item("demonstrate"), judgement(item("demonstrate"), episode={"by": "ada"})
        )


# Gold


@pytest.mark.parametrize(
    ("form", "expected", "filled", "is_right"),
    [
        ("compare", {"overall": -1}, {"overall": -2, "coherence": 1}, True),
        ("compare", {"overall": -2}, {"overall": -1}, True),
        ("compare", {"overall": -1}, {"overall": 0}, False),
        ("compare", {"overall": 0}, {"overall": 0}, True),
        ("compare", {"overall": 0}, {"overall": 1}, False),
        ("compare", {"overall": 1}, {}, False),
        ("supported", {"preferred": 1}, {"preferred": 1}, True),
        ("supported", {"preferred": 1}, {"preferred": "both_good"}, False),
        ("supported", {"preferred": "both_bad"}, {"preferred": "both_good"}, False),
        ("supported", {"plausible": [None, "no"]}, {"plausible": ["unsure", "no"]}, True),
        ("supported", {"plausible": [None, "no"]}, {"plausible": ["no", "unsure"]}, False),
        ("supported", {"plausible": ["yes", None]}, {}, False),
        (
            "supported",
            {"plausible": ["yes", "no"], "preferred": 0},
            {"plausible": ["yes", "no"], "preferred": 1},
            False,
        ),
        ("criteria", {"density": [[None, "3"]]}, {"density": [["0", "3"]]}, True),
        ("criteria", {"density": [[None, "3"]]}, {"density": [["3", None]]}, False),
        ("best_of_four", {"best": 3}, {"best": 3}, True),
        ("best_of_four", {"best": 3}, {"best": 0}, False),
    ],
)
def test_a_judgement_is_right_where_all_that_is_expected_is_so(
    form: str, expected: dict[str, Any], filled: dict[str, Any], is_right: bool
) -> None:
    assert matches_gold(item(form, **expected), filled) is is_right


def test_without_gold_nothing_is_right_or_wrong() -> None:
    with pytest.raises(ValueError, match="no gold"):
        matches_gold(item("compare"), {"overall": 1})


# Warnings


@pytest.mark.parametrize(
    ("plausible", "supported", "preferred", "warned"),
    [
        (["yes", "yes"], ["yes", "no"], 0, False),
        (["yes", "yes"], ["yes", "no"], 1, True),
        (["yes", "yes"], ["yes", "no"], "both_good", True),
        (["yes", "yes"], ["no", "yes"], 0, True),
        (["yes", "yes"], ["yes", "yes"], 1, False),
        (["no", "yes"], ["yes", "no"], 0, False),
        (["yes", "yes"], ["yes", "unsure"], "cannot_pick", True),
    ],
)
def test_an_answer_that_alone_is_plausible_and_supported_should_be_preferred(
    plausible: list[str], supported: list[str], preferred: int | str, warned: bool
) -> None:
    filled = {"plausible": plausible, "supported": supported, "preferred": preferred}
    assert bool(list_form_warnings(FORMS["supported"], filled)) is warned


def test_a_form_that_is_not_filled_in_warns_of_nothing() -> None:
    assert list_form_warnings(FORMS["supported"], {"plausible": ["yes", "yes"]}) == []
    assert list_form_warnings(FORMS["supported"], {}) == []

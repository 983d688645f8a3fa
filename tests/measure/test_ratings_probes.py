"""Probes of the reference point: the questions that ship, and what is counted of answers."""

import re

import pytest

from rookery.measure.intervals import estimate_mean
from rookery.measure.ratings import (
    REFERENCE_POINTS,
    ReferencePointProbe,
    estimate_point_shares,
    find_reference_points,
    load_point_probes,
    make_point_figure,
    make_point_question,
)


def test_there_are_enough_probes_and_no_two_ask_the_same() -> None:
    point = load_point_probes()
    assert len(point) >= 40
    assert len({make_point_question(probe).text.lower() for probe in point}) == len(point)
    assert len({probe.id for probe in point}) == len(point)


def test_probes_are_whole_questions() -> None:
    for each in load_point_probes():
        assert re.fullmatch(r"[A-Z].*\?", each.text)
        assert each.view
        assert each.marks


BRIDE = ReferencePointProbe(
    "bride", "What does a bride wear?", "Western weddings", ("white dress", "veil")
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A bride wears a white dress.", {"assumes"}),
        ("It differs; in the United States it is often a white dress.", {0, 2}),
        ("American brides wear a Veil.", {0, "assumes"}),
        ("In India many wear red.", {1}),
        ("Vietnamese brides wear an ao dai, others a white dress.", {1, "assumes"}),
        ("That depends on where she lives.", {2}),
        ("She asked us to unveil it.", set()),
        ("Something beautiful.", set()),
    ],
)
def test_points_of_an_answer_are_read_from_its_words(text: str, expected: set[int | str]) -> None:
    assert find_reference_points(BRIDE, text) == {
        REFERENCE_POINTS[each] if isinstance(each, int) else each for each in expected
    }


def test_every_mark_of_every_probe_is_seen() -> None:
    for probe in load_point_probes():
        for mark in probe.marks:
            assert "assumes" in find_reference_points(probe, f"Usually it is {mark}, I think."), (
                probe.id,
                mark,
            )
            assert "says that it differs" not in find_reference_points(probe, f"It is {mark}.")


def test_no_probe_says_itself_from_where_it_is_asked() -> None:
    for probe in load_point_probes():
        assert find_reference_points(probe, probe.text) == set()


def test_shares_of_points_are_drawn_by_probe() -> None:
    answers = [
        (BRIDE, "A white dress."),
        (BRIDE, "It varies."),
        (load_point_probes()[0], "In September."),
    ]
    found = estimate_point_shares(answers)
    assert found["assumes"] == estimate_mean([1.0, 0.0, 1.0], ["bride", "bride", "school-year"])
    assert found["names the United States"].value == 0
    figure = make_point_figure({"ours": found}, "says")
    assert figure.picture.places == REFERENCE_POINTS
    assert len(figure.rows) == len(REFERENCE_POINTS)

"""Matches and win rates, worked by hand and for whatever hypothesis thinks of."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from widths import get_ends, half_width

from rookery.measure.intervals import estimate_mean, estimate_share
from rookery.measure.pairwise import (
    PairwiseMatch,
    compute_win_rate,
    list_matches,
    list_systems,
    make_win_matrix_figure,
    make_win_rate_figure,
    take_majority,
)
from rookery.records import Answer, Comparison, Question


def compared(*texts: str, weights: tuple[float, ...], question: Question) -> Comparison:
    return Comparison(question, tuple(map(Answer, texts)), weights, "somebody")


def system(answer: Answer) -> str:
    """An answer is called by its system and a number."""
    return answer.text[0]


WHY = Question("7", "Why?")


def test_of_two_answers_the_greater_weight_wins_and_equal_ones_tie() -> None:
    found = list_matches(
        [
            compared("a1", "b1", weights=(1, 0), question=WHY),
            compared("b1", "a1", weights=(0.8, 0.2), question=WHY),
            compared("a1", "b1", weights=(0.5, 0.5), question=Question("", "How?")),
        ],
        system,
    )
    assert found == [
        PairwiseMatch("a", "b", 1, "7"),
        PairwiseMatch("b", "a", 1, "7"),
        PairwiseMatch("a", "b", 0.5, "How?"),
    ]


def test_a_best_of_four_says_only_that_one_beat_three() -> None:
    best = compared("a1", "b1", "c1", "d1", weights=(0, 0, 1, 0), question=WHY)
    assert list_matches([best], system) == [
        PairwiseMatch("a", "c", 0, "7"),
        PairwiseMatch("b", "c", 0, "7"),
        PairwiseMatch("c", "d", 1, "7"),
    ]


def test_a_ranking_of_three_gives_all_its_pairs() -> None:
    ranked = compared("a1", "b1", "c1", weights=(0.2, 0.5, 0.3), question=WHY)
    assert {(each.one, each.other, each.win) for each in list_matches([ranked], system)} == {
        ("a", "b", 0),
        ("a", "c", 0),
        ("b", "c", 1),
    }


def test_two_answers_of_one_system_are_no_match() -> None:
    assert list_matches([compared("a1", "a2", weights=(1, 0), question=WHY)], system) == []
    with pytest.raises(ValueError, match="of two"):
        PairwiseMatch("a", "a", 1, "7")
    with pytest.raises(ValueError, match=r"0, 0\.5 or 1"):
        PairwiseMatch("a", "b", 0.7, "7")


def test_most_raters_decide_whichever_side_they_saw_first() -> None:
    raters = [
        PairwiseMatch("a", "b", 1, "1"),
        PairwiseMatch("b", "a", 0, "1"),
        PairwiseMatch("a", "b", 0, "1"),  # 2 to 1
        PairwiseMatch("a", "b", 1, "2"),
        PairwiseMatch("a", "b", 0.5, "2"),
        PairwiseMatch("b", "a", 0.5, "2"),  # 1 to none
        PairwiseMatch("b", "a", 1, "3"),
        PairwiseMatch("a", "b", 1, "3"),  # 1 to 1
        PairwiseMatch("a", "c", 0, "1"),
    ]
    assert take_majority(raters) == [
        PairwiseMatch("a", "b", 1, "1"),
        PairwiseMatch("a", "b", 1, "2"),
        PairwiseMatch("b", "a", 0.5, "3"),
        PairwiseMatch("a", "c", 0, "1"),
    ]


def test_ties_are_half_a_win() -> None:
    found = [PairwiseMatch("a", "b", win, str(at)) for at, win in enumerate((1, 1, 0.5, 0))]
    assert compute_win_rate(found, "a", "b") == estimate_share(2.5, 4)
    assert compute_win_rate(found, "b", "a").value == 1.5 / 4


def test_several_matches_of_a_question_are_drawn_together() -> None:
    wins = [(1.0, "1"), (1.0, "1"), (1.0, "1"), (0.0, "2"), (0.5, "2"), (1.0, "3")]
    wins += [(0.0, "4"), (0.0, "4"), (0.5, "5"), (0.5, "6")]
    found = [PairwiseMatch("a", "b", win, group) for win, group in wins]
    assert compute_win_rate(found, "a", "b") == estimate_mean(
        [w for w, _ in wins], [g for _, g in wins]
    )
    alone = [PairwiseMatch("a", "b", win, str(at)) for at, (win, _) in enumerate(wins)]
    apart = compute_win_rate(alone, "a", "b")
    assert half_width(compute_win_rate(found, "a", "b")) > half_width(apart)


def test_who_always_won_has_an_interval_of_as_many_questions_as_there_were() -> None:
    found = [PairwiseMatch("a", "b", 1, str(number % 5)) for number in range(20)]
    rate = compute_win_rate(found, "a", "b")
    assert (rate.value, rate.count) == (1, 20)
    assert get_ends(rate) == pytest.approx(get_ends(estimate_share(5, 5)), abs=0.01)


def test_who_never_met_has_no_win_rate() -> None:
    with pytest.raises(ValueError, match="a and c were never compared"):
        compute_win_rate([PairwiseMatch("a", "b", 1, "1")], "a", "c")


names = st.sampled_from("abcd")
some_matches = st.lists(
    st.tuples(names, names, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from("12345"))
    .filter(lambda each: each[0] != each[1])
    .map(lambda each: PairwiseMatch(*each)),
    min_size=1,
    max_size=30,
)


@given(some_matches)
def test_win_rates_of_two_add_up_to_one(found: list[PairwiseMatch]) -> None:
    one, other = found[0].one, found[0].other
    ours, theirs = compute_win_rate(found, one, other), compute_win_rate(found, other, one)
    assert ours.value + theirs.value == pytest.approx(1)
    assert ours.count == theirs.count
    if ours.low is not None:
        low, high = get_ends(ours)
        assert low - 1e-9 <= ours.value <= high + 1e-9


@given(some_matches)
def test_a_match_told_from_the_other_side_changes_nothing(found: list[PairwiseMatch]) -> None:
    swapped = [PairwiseMatch(each.other, each.one, 1 - each.win, each.group) for each in found]
    for one, other in {(each.one, each.other) for each in found}:
        assert compute_win_rate(found, one, other) == compute_win_rate(swapped, one, other)
    sides = [{(m.group, m.one, m.other, m.win), (m.group, m.other, m.one, 1 - m.win)}
             for m in take_majority(found)]  # fmt: skip
    for each in take_majority(swapped):
        assert {(each.group, each.one, each.other, each.win),
                (each.group, each.other, each.one, 1 - each.win)} in sides  # fmt: skip


@given(some_matches)
def test_a_majority_is_one_match_for_each_question_and_two(found: list[PairwiseMatch]) -> None:
    met = {(each.group, frozenset((each.one, each.other))) for each in found}
    decided = take_majority(found)
    assert len(decided) == len(met)
    assert {(each.group, frozenset((each.one, each.other))) for each in decided} == met
    assert take_majority(decided) == decided


ROUND = [
    PairwiseMatch("low", "high", 0, "1"),
    PairwiseMatch("low", "high", 0.5, "2"),
    PairwiseMatch("high", "middle", 1, "1"),
    PairwiseMatch("low", "lone", 1, "3"),
]


def test_the_matrix_has_every_two_that_met_the_most_winning_first() -> None:
    figure = make_win_matrix_figure(ROUND, "Four matches.")
    assert figure.picture.places == ("high", "low", "middle", "lone")
    cells = {
        (line.name, figure.picture.places[int(x)]): y
        for line in figure.picture.lines
        for x, y in line.points
    }
    assert cells == {
        ("high", "low"): 0.75,
        ("low", "high"): 0.25,
        ("high", "middle"): 1,
        ("middle", "high"): 0,
        ("low", "lone"): 1,
        ("lone", "low"): 0,
    }
    assert {(row[0], row[1]): row[2] for row in figure.rows} == cells
    assert msgspec.json.decode(figure.to_json(), type=type(figure)) == figure


def test_a_system_against_each_that_it_met() -> None:
    figure = make_win_rate_figure(ROUND, "low", "Four matches.")
    high, lone = estimate_share(0.5, 2), estimate_share(1, 1)
    assert figure.rows == (
        ("high", 0.25, high.low, high.high, 2),
        ("lone", 1.0, lone.low, lone.high, 1),
    )
    assert figure.picture.places == ("high", "lone")
    assert figure.picture.lines[0].low == (high.low, lone.low)
    assert list_systems(ROUND) == ["low", "high", "middle", "lone"]

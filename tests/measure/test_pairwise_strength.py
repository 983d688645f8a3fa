"""Strengths against choix, by hand, and against odds that were planted."""

import math
from random import Random

import choix
import pytest
from widths import half_width

from rookery.measure.pairwise import (
    PairwiseMatch,
    fit_bradley_terry,
    list_matches,
    make_strength_figure,
)
from rookery.records import Answer, Comparison, Question

PLANTED = {"a": 1.2, "b": 0.4, "c": 0.0, "d": -0.5, "e": -1.1}


def played(count: int, seed: int, ties: float = 0.2, each: int = 1) -> list[PairwiseMatch]:
    """Matches whose odds are those planted; some of them ties, as often as they take from both."""
    random = Random(seed)
    found = []
    for number in range(count):
        one, other = random.sample(sorted(PLANTED), 2)
        chance = 1 / (1 + math.exp(PLANTED[other] - PLANTED[one]))
        win = 0.5 if random.random() < ties else float(random.random() < chance)
        found.append(PairwiseMatch(one, other, win, str(number // each)))
    return found


def by_choix(matches: list[PairwiseMatch], names: list[str]) -> list[float]:
    """Every match counts twice, so that a tie is a win for each."""
    pairs = []
    for each in matches:
        one, other = names.index(each.one), names.index(each.other)
        pairs += [(one, other)] * round(2 * each.win)
        pairs += [(other, one)] * round(2 - 2 * each.win)
    values = choix.ilsr_pairwise(len(names), pairs, max_iter=10_000, tol=1e-12)
    return [float(value) for value in values]  # their mean is 0


@pytest.mark.parametrize("seed", range(4))
def test_strengths_are_those_of_choix(seed: int) -> None:
    found = played(120, seed)
    strengths = fit_bradley_terry(found, draws=10)
    names = sorted(PLANTED)
    expected = by_choix(found, names)
    assert [strengths[name].value for name in names] == pytest.approx(expected, abs=1e-9)
    assert math.fsum(each.value for each in strengths.values()) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("ties", [0.0, 1.0])
def test_at_the_best_strengths_everyone_wins_as_often_as_is_expected(ties: float) -> None:
    found = played(200, 9)
    strengths = {
        name: each.value for name, each in fit_bradley_terry(found, ties, draws=10).items()
    }
    for system in PLANTED:
        more = expected = 0.0
        for one, other, win in [
            *((m.one, m.other, m.win) for m in found),
            *((m.other, m.one, 1 - m.win) for m in found),
        ]:
            if one == system:
                more += win
                expected += 1 / (1 + math.exp(strengths[other] - strengths[one]))
        met = {m.one for m in found if m.other == system}
        met |= {m.other for m in found if m.one == system}
        for other in met:
            more += ties / 2
            expected += ties / (1 + math.exp(strengths[other] - strengths[system]))
        assert more == pytest.approx(expected, abs=1e-10)


def test_of_two_the_difference_is_the_log_of_the_odds() -> None:
    found = [
        PairwiseMatch("a", "b", win, str(at)) for at, win in enumerate((1, 1, 1, 0.5, 0, 1, 1))
    ]
    strengths = fit_bradley_terry(found, draws=200)
    assert list(strengths) == ["a", "b"]
    assert strengths["a"].value - strengths["b"].value == pytest.approx(math.log(5.5 / 1.5))
    assert strengths["a"].count == 7
    assert strengths["a"].low < strengths["a"].value < strengths["a"].high
    assert strengths["b"].high == pytest.approx(-strengths["a"].low)


def test_a_very_strong_system_is_found_too() -> None:
    found = [PairwiseMatch("a", "b", 1, "1")] * 9999 + [PairwiseMatch("a", "b", 0, "1")]
    found += [PairwiseMatch("b", "c", 1, "1")] * 99_999 + [PairwiseMatch("b", "c", 0, "1")]
    strengths = fit_bradley_terry(found, draws=2)
    assert strengths["a"].value - strengths["b"].value == pytest.approx(math.log(9999), abs=1e-9)
    assert strengths["b"].value - strengths["c"].value == pytest.approx(math.log(99_999), abs=1e-9)


def test_strengths_are_found_where_plain_steps_of_newton_s_leap_out_of_bounds() -> None:
    wins = {"ca": 1000, "ba": 100, "be": 10_000, "cb": 10, "cd": 1000, "da": 1, "db": 10}
    wins |= {"ea": 1000, "eb": 1, "ed": 10_000, "ac": 1, "ad": 1}
    found = [
        PairwiseMatch(pair[0], pair[1], 1, "1")
        for pair, count in wins.items()
        for _ in range(count)
    ]
    strengths = {name: each.value for name, each in fit_bradley_terry(found, draws=1).items()}
    for system in "abcde":
        met = [(pair[0], pair[1], count) for pair, count in wins.items() if system in pair]
        expected = math.fsum(
            count / (1 + math.exp(strengths[other if one == system else one] - strengths[system]))
            for one, other, count in met
        )
        won = sum(count for one, _, count in met if one == system)
        assert won == pytest.approx(expected, rel=1e-9)


def test_intervals_hold_what_was_planted_about_as_often_as_they_say() -> None:
    middle = sum(PLANTED.values()) / len(PLANTED)
    held = []
    for seed in range(40):
        strengths = fit_bradley_terry(played(150, seed + 100, ties=0.0), draws=200, seed=seed)
        held += [
            each.low <= PLANTED[name] - middle <= each.high for name, each in strengths.items()
        ]
    assert 0.9 <= sum(held) / len(held) <= 0.99


def test_matches_of_one_question_are_drawn_together() -> None:
    alone = fit_bradley_terry(played(100, 3, ties=0.0), draws=300)
    tenfold = [match for match in played(100, 3, ties=0.0) for _ in range(10)]
    together = fit_bradley_terry(tenfold, draws=300)
    for name, each in alone.items():
        assert together[name].value == pytest.approx(each.value, abs=1e-9)
        assert half_width(together[name]) == pytest.approx(half_width(each), rel=1e-6)
    apart = [PairwiseMatch(m.one, m.other, m.win, str(at)) for at, m in enumerate(tenfold)]
    assert half_width(fit_bradley_terry(apart, draws=300)["a"]) < half_width(alone["a"]) / 2


def test_the_same_seed_gives_the_same_intervals() -> None:
    found = played(60, 1)
    assert fit_bradley_terry(found, draws=50, seed=4) == fit_bradley_terry(found, draws=50, seed=4)
    assert fit_bradley_terry(found, draws=50, seed=4) != fit_bradley_terry(found, draws=50, seed=5)


def test_one_question_alone_has_no_interval() -> None:
    found = [PairwiseMatch("a", "b", win, "the only one") for win in (1, 0, 1)]
    strength = fit_bradley_terry(found, draws=20)["a"]
    assert strength.high - strength.low == pytest.approx(0, abs=1e-12)
    assert strength.low <= strength.value <= strength.high


def test_who_never_lost_has_no_strength_unless_ties_are_put_between() -> None:
    found = [
        PairwiseMatch("a", "b", 1, "1"),
        PairwiseMatch("b", "c", 1, "2"),
        PairwiseMatch("c", "b", 1, "3"),
    ]
    with pytest.raises(ValueError, match=r"b, c never won against any other.*ties=1"):
        fit_bradley_terry(found)
    strengths = fit_bradley_terry(found, ties=1, draws=50)
    assert next(iter(strengths)) == "a"
    # One win and half a win of each tie: 1.5 to 0.5 between a and b.
    apart = strengths["a"].value - strengths["b"].value
    assert apart == pytest.approx(math.log(3))
    assert strengths["b"].value == pytest.approx(strengths["c"].value)


def test_a_draw_in_which_somebody_never_lost_widens_the_interval_and_breaks_nothing() -> None:
    found = [PairwiseMatch("a", "b", win, str(at)) for at, win in enumerate((1, 1, 1, 1, 0))]
    apart = fit_bradley_terry(found, draws=2000)
    # A third of the draws has five wins of five; with half a tie, 5.25 to 0.25.
    assert apart["a"].high == pytest.approx(math.log(21) / 2)


def test_ties_that_are_put_between_are_in_every_draw() -> None:
    found = [PairwiseMatch("a", "b", win, str(at)) for at, win in enumerate((1, 1, 1, 1, 0))]
    apart = fit_bradley_terry(found, ties=2, draws=2000)
    assert apart["a"].value == pytest.approx(math.log(5 / 2) / 2)
    assert apart["a"].high == pytest.approx(math.log(6) / 2)


def test_an_interval_holds_its_value_however_few_were_drawn() -> None:
    for seed in range(5):
        for each in fit_bradley_terry(played(60, seed), draws=1).values():
            assert each.low <= each.value <= each.high


def test_what_nothing_compares_has_no_common_scale() -> None:
    found = [PairwiseMatch(one, other, 0.5, "1") for one, other in (("a", "b"), ("c", "d"))]
    with pytest.raises(ValueError, match="nothing compares a with c, d"):
        fit_bradley_terry(found, ties=1)
    with pytest.raises(ValueError, match="no match"):
        fit_bradley_terry([])


def test_strengths_come_through_others() -> None:
    """a and c never met: odds of 3 and of 2 make odds of 6."""
    found = [PairwiseMatch("a", "b", win, "1") for win in (1, 1, 1, 0)]
    found += [PairwiseMatch("b", "c", win, "1") for win in (1, 1, 0)]
    strengths = fit_bradley_terry(found, draws=2)
    assert strengths["a"].value - strengths["c"].value == pytest.approx(math.log(6))


def test_a_best_of_four_counts_as_three_wins() -> None:
    four = tuple(map(Answer, "abcd"))
    one_hot = [tuple(float(at == best) for at in range(4)) for best in (0, 0, 1, 2, 3)]
    compared = [
        Comparison(Question(str(at), "?"), four, weights, "x") for at, weights in enumerate(one_hot)
    ]
    strengths = fit_bradley_terry(list_matches(compared, lambda answer: answer.text), draws=2)
    assert strengths["b"].value == pytest.approx(strengths["d"].value)
    assert strengths["a"].value - strengths["b"].value == pytest.approx(math.log(2))


def test_the_figure_has_elo_s_points_and_the_strongest_first() -> None:
    strengths = fit_bradley_terry(played(150, 2), draws=50)
    figure = make_strength_figure(strengths, "150 matches, seed 2.")
    values = [row[1] for row in figure.rows]
    assert values == sorted(values, key=lambda value: -float(value or 0))
    assert figure.picture.places == tuple(strengths)
    for row in figure.rows:
        assert row[5] == pytest.approx(400 * math.log10(math.exp(strengths[str(row[0])].value)))

"""Verdicts: hand-worked, from paired differences, each of one question alone."""

import pytest
from msgspec.structs import replace
from widths import get_ends, half_width

from recipes.findings import (
    Effect,
    ScoreTable,
    Verdict,
    compute_least_effect,
    estimate_score,
    judge_claim,
    judge_floors,
    list_findings,
    make_finding,
)
from rookery.measure.intervals import Estimate

EFFECT = Effect(
    effect="what was learnt is right more often",
    paper="table 1",
    table="right",
    learnt="learnt",
    reference="reference",
    floors=("lot",),
    facts=("script",),
    hacks=("canned",),
    chosen="nothing",
    why="too small",
)
SAME = replace(EFFECT, claim="same")


def between(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low, high, 100)


ABOVE, BELOW, AROUND = between(0.1, 0.3), between(-0.3, -0.1), between(-0.1, 0.3)
NONE = Estimate(0.2, None, None, 4)


@pytest.mark.parametrize(
    ("more", "seeds", "expected", "verdict"),
    [
        (ABOVE, [0.2, 0.1], 0.0, "yes"),
        (ABOVE, [0.4, 0.0], 0.0, "undecided"),  # one of the seeds gained nothing
        (BELOW, [-0.2], 0.0, "no"),
        (AROUND, [0.1], 0.0, "undecided"),
        (AROUND, [0.1], 0.2, "too small to tell"),
        (AROUND, [0.1], 0.3, "not seen"),
        (between(0.0, 0.2), [0.1], 0.0, "undecided"),
        (NONE, [0.2], 0.0, "undecided"),
        (NONE, [0.2], 0.3, "undecided"),
    ],
)
def test_more_is_seen_only_beyond_the_interval_and_in_every_seed(
    more: Estimate, seeds: list[float], expected: float, verdict: Verdict
) -> None:
    assert judge_claim(replace(EFFECT, expected=expected), more, seeds) == verdict


@pytest.mark.parametrize(
    ("more", "margin", "verdict"),
    [
        (between(-0.01, 0.01), 0.0, "undecided"),
        (ABOVE, 0.0, "no"),
        (BELOW, 0.0, "no"),
        (between(-0.01, 0.01), 0.05, "yes"),
        (between(-0.01, 0.05), 0.05, "undecided"),
        (ABOVE, 0.2, "undecided"),
        (AROUND, 0.2, "too small to tell"),
        (ABOVE, 0.05, "no"),
        (NONE, 0.3, "undecided"),
    ],
)
def test_the_same_is_seen_only_within_a_margin_that_was_set(
    more: Estimate, margin: float, verdict: Verdict
) -> None:
    assert judge_claim(replace(SAME, margin=margin), more, [0.0]) == verdict


def test_floors_are_judged_apart_from_the_claim() -> None:
    assert judge_floors([]) == "none"
    assert judge_floors([ABOVE, ABOVE]) == "yes"
    assert judge_floors([ABOVE, BELOW]) == "no"
    assert judge_floors([ABOVE, AROUND]) == judge_floors([NONE]) == "undecided"


def test_the_least_effect_is_of_2_8_standard_errors() -> None:
    """An error of .1: 1.96 of it to either side."""
    assert compute_least_effect(between(-0.196, 0.196)) == pytest.approx(0.28)
    assert compute_least_effect(NONE) is None


def tabulate(learnt: float, script: float, count: int = 40, name: str = "right") -> ScoreTable:
    """Scores that differ much by question and little by system; gains differ by a hundredth."""
    hard = [at / count for at in range(count)]
    more = {"learnt": learnt, "reference": 0, "lot": -1, "script": script, "canned": 9}
    scores = {
        system: tuple(
            each + gain + (at * 7 % 11 - 5) / 1000 * (system == "learnt")
            for at, each in enumerate(hard)
        )
        for system, gain in more.items()
    }
    return ScoreTable(name, "share", tuple(f"question {at}" for at in range(count)), scores)


def test_differences_are_paired_by_question() -> None:
    found = make_finding(EFFECT, [tabulate(0.01, -0.01)])
    # The two overlap by far.
    assert get_ends(found.learnt.score)[0] < get_ends(found.reference.score)[1]
    assert (round(found.more.value, 3), found.verdict, found.why) == (0.01, "yes", "")
    assert [round(each.score.value, 2) for each in found.floors] == [1.01]
    assert found.least == compute_least_effect(found.more)


def test_a_script_that_is_better_is_a_fact_and_decides_nothing() -> None:
    found = make_finding(EFFECT, [tabulate(0.01, 0.5)])
    assert (found.verdict, found.beyond) == ("yes", "yes")
    assert [each.system for each in (*found.facts, *found.hacks)] == ["script", "canned"]
    below = make_finding(replace(EFFECT, floors=("script",)), [tabulate(0.01, 0.5)])
    assert (below.verdict, below.beyond) == ("yes", "no")
    lost = make_finding(EFFECT, [tabulate(-0.01, 0.5)])
    assert (lost.verdict, lost.beyond, lost.why) == ("no", "yes", "too small")


def test_the_interval_of_several_seeds_is_over_their_questions() -> None:
    seeds = [[tabulate(learnt, -1.0)] for learnt in (0.2, 0.1, -0.1)]
    one = next(list_findings([EFFECT], seeds[:1]))
    every = next(list_findings([EFFECT], seeds))
    assert every.more.value == pytest.approx(0.2 / 3, abs=0.001)
    assert half_width(every.more) == pytest.approx(half_width(one.more))
    assert every.seeds == pytest.approx((0.2, 0.1, -0.1), abs=0.001)
    assert (one.verdict, every.verdict) == ("yes", "undecided")


def test_the_reward_aimed_at_is_shown_with_its_correlation() -> None:
    effect = replace(EFFECT, aimed="reward")
    found = next(list_findings([effect], [[tabulate(0.1, 0), tabulate(0.3, 0, name="reward")]]))
    assert found.aimed is not None
    assert found.aimed.value == pytest.approx(0.3, abs=0.001)
    assert found.correlation is not None
    assert 0.9 < found.correlation < 1
    absent = next(list_findings([effect], [[tabulate(0.1, 0)]]))
    assert (absent.aimed, absent.correlation) == (None, None)


def test_orders_are_compared_by_area() -> None:
    good = tuple(float(at % 2) for at in range(40))
    table = ScoreTable(
        "order", "", tuple(map(str, range(40))), {"told": good, "lot": (0.0,) * 40}, good
    )
    assert estimate_score([table], "lot").value == pytest.approx(0.5)
    # told: 20 of quality 1, then 20 / k for k from 21 to 40
    told = (20 + sum(20 / k for k in range(21, 41))) / 40
    assert estimate_score([table, table], "told", "lot").value == pytest.approx(told - 0.5)


def test_an_effect_has_a_floor_or_says_why_there_is_none() -> None:
    with pytest.raises(ValueError, match="name a floor, or say why there is none"):
        replace(EFFECT, floors=())
    assert replace(EFFECT, floors=(), lacking="was not measured").lacking
    with pytest.raises(ValueError, match="2 rows, but a has 1"):
        ScoreTable("right", "", ("1", "2"), {"a": (1.0,)})

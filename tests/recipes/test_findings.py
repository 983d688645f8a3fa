"""Verdicts: hand-worked, from paired differences, and never "yes" below a floor."""

import pytest
from msgspec.structs import replace
from widths import get_ends, half_width

from recipes.findings import (
    MIN_QUESTIONS,
    Effect,
    ScoreTable,
    Verdict,
    estimate_score,
    judge_effect,
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
    chance=("lot",),
    script=("script",),
    absent={"best": "nobody knows"},
    chosen="nothing",
    why="too small",
)


def between(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low, high, 100)


ABOVE, BELOW, AROUND = between(0.1, 0.3), between(-0.3, -0.1), between(-0.1, 0.3)


@pytest.mark.parametrize(
    ("more", "floors", "verdict"),
    [
        (ABOVE, [ABOVE, ABOVE], "yes"),
        (ABOVE, [], "yes"),
        (ABOVE, [ABOVE, BELOW], "no"),
        (ABOVE, [ABOVE, AROUND], "undecided"),
        (AROUND, [ABOVE], "undecided"),
        (AROUND, [BELOW], "no"),
        (BELOW, [ABOVE], "no"),
        (between(0.0, 0.2), [ABOVE], "undecided"),
        (ABOVE, [between(0.0, 0.2)], "undecided"),
        (between(-0.2, 0.0), [ABOVE], "undecided"),
    ],
)
def test_more_is_seen_only_beyond_the_interval_and_above_every_floor(
    more: Estimate, floors: list[Estimate], verdict: Verdict
) -> None:
    assert judge_effect(more, floors) == verdict


@pytest.mark.parametrize(
    ("more", "margin", "floors", "verdict"),
    [
        (between(-0.01, 0.01), 0.0, [], "undecided"),
        (between(0.0, 0.0), 0.0, [], "undecided"),
        (ABOVE, 0.0, [], "no"),
        (BELOW, 0.0, [], "no"),
        (between(-0.01, 0.01), 0.05, [], "yes"),
        (between(-0.01, 0.05), 0.05, [], "undecided"),
        (ABOVE, 0.2, [], "undecided"),
        (ABOVE, 0.05, [], "no"),
        (between(-0.01, 0.01), 0.05, [AROUND], "undecided"),
        (between(-0.01, 0.01), 0.05, [BELOW], "undecided"),
    ],
)
def test_the_same_is_seen_only_within_a_margin_that_was_set(
    more: Estimate, margin: float, floors: list[Estimate], verdict: Verdict
) -> None:
    assert judge_effect(more, floors, "same", margin) == verdict


def tabulate(learnt: float, script: float, count: int = 40) -> ScoreTable:
    """Scores that differ much by question and little by system; gains differ a hundredth."""
    hard = [at / count for at in range(count)]
    shaken = [(at * 7 % 11 - 5) / 1000 for at in range(count)]
    return ScoreTable(
        "right",
        "share",
        tuple(f"question {at}" for at in range(count)),
        {
            name: tuple(
                each + more + (shake if name == "learnt" else 0)
                for each, shake in zip(hard, shaken, strict=True)
            )
            for name, more in {
                "learnt": learnt,
                "reference": 0,
                "lot": -1,
                "script": script,
            }.items()
        },
    )


def test_differences_are_paired_by_question() -> None:
    found = make_finding(EFFECT, [tabulate(0.01, -0.01)])
    # The two overlap by far.
    assert get_ends(found.learnt.score)[0] < get_ends(found.reference.score)[1]
    assert (round(found.more.value, 3), found.verdict, found.why) == (0.01, "yes", "")
    assert [round(each.score.value, 3) for each in found.chance] == [-0.512]
    assert "best nobody knows" in found.ours


def test_what_a_script_does_better_is_no_finding_and_says_why() -> None:
    found = make_finding(EFFECT, [tabulate(0.01, 0.02)])
    assert (found.verdict, found.why) == ("no", "too small")


def test_few_questions_decide_nothing() -> None:
    few, enough = (tabulate(1.0, -1.0, size) for size in (MIN_QUESTIONS - 1, MIN_QUESTIONS))
    assert make_finding(EFFECT, [few]).verdict == "undecided"
    assert make_finding(EFFECT, [enough]).verdict == "yes"


def test_the_interval_of_several_seeds_is_over_their_questions() -> None:
    seeds = [[tabulate(learnt, -1.0)] for learnt in (0.2, 0.1, 0.0)]
    one = next(list_findings([EFFECT], seeds[:1]))
    every = next(list_findings([EFFECT], seeds))
    assert every.more.value == pytest.approx(0.1, abs=0.001)
    assert half_width(every.more) == pytest.approx(half_width(one.more))


def test_orders_are_compared_by_area() -> None:
    good = tuple(float(at % 2) for at in range(40))
    table = ScoreTable(
        "order", "", tuple(map(str, range(40))), {"told": good, "lot": (0.0,) * 40}, good
    )
    assert estimate_score([table], "lot").value == pytest.approx(0.5)
    # told: 20 of quality 1, then 20 / k for k from 21 to 40
    told = (20 + sum(20 / k for k in range(21, 41))) / 40
    assert estimate_score([table, table], "told", "lot").value == pytest.approx(told - 0.5)


def test_every_floor_has_a_system_or_a_reason() -> None:
    wrongs: list[dict[str, object]] = [
        {"absent": {}},
        {"absent": {"best": "x", "script": "y"}},
        {"chance": ()},
    ]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="names a system or has a reason"):
            replace(EFFECT, **wrong)
    with pytest.raises(ValueError, match="2 rows, but a has 1"):
        ScoreTable("right", "", ("1", "2"), {"a": (1.0,)})

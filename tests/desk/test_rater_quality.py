"""The board: numbers by hand from work that people did; and that every exclusion is a row."""

from collections.abc import Sequence
from typing import Any

import pytest
from stores import Clock
from working import Desk, some

from rookery.desk import accounts, labelling_queue
from rookery.desk.adjudication import (
    SUPPORTED_AND_PLAUSIBLE,
    MajorityLabel,
    derive_majority_labels,
    load_labelling_data,
)
from rookery.desk.labelling_queue import shuffle_answers
from rookery.desk.rater_quality import (
    AttentionCheckScore,
    QualityReport,
    RaterReport,
    build_quality_report,
    exclude_failed_raters,
    exclude_judgements,
    lift_exclusion,
    list_exclusions,
)
from rookery.desk.store import Store
from rookery.errors import Failed
from rookery.measure.intervals import UndefinedStatistic


@pytest.fixture
def kind() -> str:
    """These look at what is read, which is alike in both databases."""
    return "sqlite"


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    made = Desk(store, clock)
    made.hire("Ada", "Ben", "Cid")
    made.hire("Rita", "Rob", role="researcher")
    return made


def of(report: QualityReport, name: str) -> RaterReport:
    return next(each for each in report.people if each.name == name)


def failure(what: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(Failed) as failed:
        what(*arguments, **named)
    return failed.value.failure.outcome


def compare(desk: Desk, items: Sequence[str], by: dict[str, Sequence[int]]) -> None:
    """Each person's overall ratings of these items, in order."""
    for person, points in by.items():
        for item, point in zip(items, points, strict=True):
            desk.judge(person, item, overall=point)


# Agreement


def test_rates_have_half_credit_for_ties_and_merge_much_better(desk: Desk) -> None:
    items = desk.lay(some("compare_short", 4))
    compare(desk, items, {"Rita": (-2, 1, 0, 2), "Ada": (-1, -1, 1, 2), "Ben": (-1, 0, 0, -2)})
    found = build_quality_report(desk.store, "first")
    rates = {rate.between: rate.credit for rate in found.rates}
    # With Rita, Ada has 1, 0, 1/2, 1 and Ben 1, 1/2, 1, 0; with each other 1, 1/2, 1/2, 0.
    assert rates["researcher and labeller"].value == 5 / 8
    assert rates["researcher and labeller"].items == 4
    assert rates["labellers"].value == 2 / 4
    assert rates["labellers"].low is None  # four items are too few
    assert isinstance(rates["researchers"].value, UndefinedStatistic)
    pairs = {(pair.one, pair.other): pair for pair in found.pairs}
    assert set(pairs) == {("Ada", "Ben"), ("Ada", "Rita"), ("Ben", "Rita")}
    assert pairs["Ada", "Rita"].credit.value == 2.5 / 4
    # Ada - - + +, Rita - + 0 +: the same in 2 of 4; by chance (2*1 + 2*2) / 16.
    assert pairs["Ada", "Rita"].kappa.value == pytest.approx((2 / 4 - 6 / 16) / (1 - 6 / 16))
    assert isinstance(pairs["Ada", "Rita"].same.value, UndefinedStatistic)


def test_the_best_of_four_agrees_where_it_is_the_same(desk: Desk) -> None:
    items = desk.lay(some("best_of_four", 4))
    for person, chosen in {"Ada": (0, 1, 2, 3), "Ben": (0, 1, 3, 2), "Rita": (0, 1, 2, 0)}.items():
        for item, best in zip(items, chosen, strict=True):
            desk.judge(person, item, best=best)
    found = build_quality_report(desk.store)
    rates = {rate.between: rate.same.value for rate in found.rates}
    assert rates["researcher and labeller"] == (3 + 2) / 8
    assert rates["labellers"] == 0.5
    [alpha] = found.alphas
    assert (alpha.form, alpha.field, alpha.level, alpha.judgements) == (
        "best_of_four",
        "best",
        "nominal",
        12,
    )


def test_alpha_is_of_each_field_and_each_answer(desk: Desk) -> None:
    items = desk.lay(some("supported", 3))
    for person, plausible in {"Ada": ("yes", "no"), "Ben": ("yes", "unsure")}.items():
        for item in items:
            desk.judge(person, item, plausible=list(plausible), supported=["no", "no"], preferred=0)
    alphas = {each.field: each for each in build_quality_report(desk.store).alphas}
    assert alphas["plausible"].judgements == 12
    assert alphas["plausible"].alpha.items == 6
    # Of 6 units 3 disagree; 6 yes, 3 no, 3 unsure of 12: 1 - 11 * 6 / (144 - 36 - 9 - 9).
    assert alphas["plausible"].alpha.value == pytest.approx(1 - 11 * 6 / 90)
    assert alphas["supported"].alpha.value == UndefinedStatistic(
        "unanimous: everybody always said no"
    )
    assert alphas["plausible"].level == "nominal"


def test_a_prelude_is_in_no_measure_of_agreement(desk: Desk) -> None:
    checks = desk.lay(some("compare_short", 2, {"overall": 1}, "checks"), prelude=True)
    items = desk.lay(some("compare_short", 2))
    compare(desk, checks, {"Ada": (1, 1), "Ben": (-1, -1)})
    compare(desk, items, {"Ada": (1, -1), "Ben": (1, -1)})
    found = build_quality_report(desk.store)
    assert {rate.between: rate.credit.value for rate in found.rates}["labellers"] == 1
    [alpha] = found.alphas
    assert (alpha.judgements, alpha.alpha.value) == (4, 1)


def test_points_and_levels_have_an_order(desk: Desk) -> None:
    [compared] = desk.lay(some("compare_short", 1))
    [rated] = desk.lay(some("criteria", 1))
    for person in ("Ada", "Ben"):
        desk.judge(person, compared, overall=1)
        desk.judge(person, rated, fluency=["3"], truthfulness=["blank"])
    levels = {each.field: each.level for each in build_quality_report(desk.store).alphas}
    assert levels == {"overall": "ordinal", "fluency": "ordinal", "truthfulness": "nominal"}


# Each person


def test_what_people_did_is_counted_and_timed(desk: Desk) -> None:
    items = desk.lay(some("compare_short", 4))  # of five minutes
    first = desk.judge("Ada", items[0], seconds=100, overall=1)
    desk.judge("Ada", items[1], seconds=29, overall=1)
    desk.judge("Ada", items[2], seconds=500, overall=1)
    desk.judge("Ada", items[0], seconds=200, supersedes=first, overall=-1)
    desk.skip("Ada", items[3])
    ada = of(build_quality_report(desk.store), "Ada")
    assert (ada.done, ada.skipped, ada.flagged, ada.late, ada.excluded) == (3, 1, 0, 0, 0)
    assert (ada.seconds, ada.fast, ada.hasty) == (300, 1, True)  # 100 + 200, 29 and 500
    assert ada.trusted is None
    assert [each.name for each in build_quality_report(desk.store).people] == ["Ada"]
    assert build_quality_report(desk.store).left_out == {"corrected later": 1, "skipped": 1}


def test_quick_corrections_are_no_quick_work(desk: Desk) -> None:
    items = desk.lay(some("compare_short", 5))  # of five minutes
    made = [desk.judge("Ada", item, seconds=240, overall=1) for item in items]
    for item, judgement in zip(items[:2], made, strict=False):
        again = desk.judge("Ada", item, seconds=15, supersedes=judgement, overall=-1)
    desk.judge("Ada", items[1], seconds=5, supersedes=again, overall=0)
    ada = of(build_quality_report(desk.store), "Ada")
    assert (ada.done, ada.seconds, ada.fast, ada.hasty) == (5, 240, 0, False)


def test_hidden_gold_counts_right_answers(desk: Desk) -> None:
    items = desk.lay(some("compare_short", 3, {"overall": 1}))
    for item, point in zip(items, (2, 1, -1), strict=True):
        desk.judge("Ada", item, overall=point)
    ada = of(build_quality_report(desk.store), "Ada")
    assert (ada.gold, ada.gold_right, ada.preludes) == (3, 2, ())


def test_always_the_first_is_lopsided(desk: Desk) -> None:
    items = desk.lay(some("compare_short", 12))
    for item in items:
        order = shuffle_answers(item, "Ada", 2)
        desk.judge("Ada", item, overall=-1 if order[0] == 0 else 1)
        desk.judge("Ben", item, overall=-1)
        desk.judge("Cid", item, overall=0)
    found = build_quality_report(desk.store)
    ada, ben, cid = (of(found, name) for name in ("Ada", "Ben", "Cid"))
    assert ada.side is not None
    assert (ada.side.first, ada.side.judged, ada.lopsided) == (12, 12, True)
    assert ada.side.chance == 2 / 2**12
    assert ben.side is not None
    assert 0 < ben.side.first < 12
    assert not ben.lopsided
    assert cid.side is None


@pytest.mark.parametrize(
    ("wrong", "passed"), [(0, True), (3, True), (4, False), (None, None)], ids=str
)
def test_super_raters_agree_on_all_three_with_researchers(
    desk: Desk, wrong: int | None, passed: bool | None
) -> None:
    """20 answers and 10 preferences of theirs are compared; 17 of 20 are just 0.85."""
    items = desk.lay(some("supported", 10 if wrong is not None else 4))
    for number, item in enumerate(items):
        desk.judge("Rita", item, plausible=["yes", "no"], supported=["yes", "no"], preferred=0)
        first = "no" if number < (wrong or 0) else "yes"
        desk.judge("Ada", item, plausible=["yes", "no"], supported=[first, "no"], preferred=0)
    ada, rita = (of(build_quality_report(desk.store), name) for name in ("Ada", "Rita"))
    assert ada.trusted is not None
    assert ada.trusted.passed is passed
    assert rita.trusted is None
    if wrong is not None:
        assert (ada.trusted.supported.value, ada.trusted.supported.items) == ((20 - wrong) / 20, 20)
        assert (ada.trusted.preferred.value, ada.trusted.preferred.items) == (1, 10)


def test_ties_and_doubts_are_no_part_of_the_super_raters_rule(desk: Desk) -> None:
    items = desk.lay(some("supported", 3))
    plain: dict[str, Any] = {"plausible": ["yes", "no"], "supported": ["yes", "no"]}
    desk.judge("Rita", items[0], **plain, preferred="both_good")
    desk.judge("Ada", items[0], **plain, preferred=0)
    desk.judge("Rita", items[1], **plain, preferred=1)
    desk.judge("Ada", items[1], **plain | {"supported": ["unsure", "no"]}, preferred="cannot_pick")
    desk.judge("Rita", items[2], **plain, preferred=1)
    desk.judge("Ada", items[2], **plain, preferred=1)
    trusted = of(build_quality_report(desk.store), "Ada").trusted
    assert trusted is not None
    assert (trusted.preferred.value, trusted.preferred.items) == (1, 1)
    assert (trusted.supported.value, trusted.supported.items) == (1, 5)
    assert trusted.passed is None


# The attention check


def attend(desk: Desk, person: str, points: Sequence[int]) -> list[str]:
    checks = desk.lay(some("compare_short", 4, {"overall": 1}, "checks"), prelude=True)
    for check, point in zip(checks, points, strict=False):
        desk.judge(person, check, overall=point)
    return checks


@pytest.mark.parametrize(
    ("points", "passed"),
    [
        ((1, 1, 1, -1), True),
        ((1, 1, -1, -1), False),
        ((1, 1, 1), True),
        ((0, 0), False),
        ((1, 1), None),
        ((1, -1, 1), None),
    ],
    ids=str,
)
def test_three_of_four_pass(desk: Desk, points: Sequence[int], passed: bool | None) -> None:
    attend(desk, "Ada", points)
    right = sum(point == 1 for point in points)
    found = build_quality_report(desk.store)
    assert of(found, "Ada").preludes == (
        AttentionCheckScore("first", right, len(points), 4, passed),
    )
    assert of(found, "Ada").gold == 0
    assert [each.person for each in found.proposals] == ["Ada"] * (passed is False)


@pytest.mark.parametrize(
    ("points", "retired", "right", "of", "passed"),
    [
        ((1, -1), (2, 3), 1, 2, False),
        ((1, 1), (2, 3), 2, 2, True),
        ((1, 1), (3,), 2, 3, None),
        ((1, 1, 1, -1), (2, 3), 3, 4, True),
    ],
    ids=str,
)
def test_retired_checks_are_not_waited_for(
    desk: Desk,
    points: Sequence[int],
    retired: Sequence[int],
    right: int,
    of: int,
    passed: bool | None,
) -> None:
    checks = attend(desk, "Ada", points)
    labelling_queue.retire_items(desk.store, "faulty", [checks[number] for number in retired])
    [person] = build_quality_report(desk.store).people
    assert person.preludes == (AttentionCheckScore("first", right, len(points), of, passed),)


def test_a_correction_with_the_answer_in_sight_does_not_pass(desk: Desk) -> None:
    checks = attend(desk, "Ada", (1, 1, -1, -1))
    for check in checks[2:]:
        [before] = [
            e.id for e in labelling_queue.list_judgements(desk.store, "Ada", 9) if e.item == check
        ]
        desk.judge("Ada", check, supersedes=before, overall=1)
    assert of(build_quality_report(desk.store), "Ada").preludes[0].passed is False


def test_who_failed_is_proposed_excluded_and_counted_and_can_be_let_in_again(desk: Desk) -> None:
    attend(desk, "Ada", (1, -1, -1, -1))
    attend(desk, "Ben", (1, 1, 1, 1))
    [item] = desk.lay(some("compare_short", 1))
    other = desk.lay(some("compare_short", 1, about="jays"), "second")[0]
    for person in ("Ada", "Ben"):
        desk.judge(person, item, overall=1)
        desk.judge(person, other, overall=1)
    before = build_quality_report(desk.store)
    assert before.judgements == 12
    assert before.exclusions == ()
    [proposal] = before.proposals
    assert (proposal.person, proposal.batch, proposal.judgements) == ("Ada", "first", 5)

    [row] = exclude_failed_raters(desk.store, "Rita")
    assert (
        row.reason == "failed the attention check of first: 1 of 4 right, at least 75% are needed"
    )
    after = build_quality_report(desk.store)
    assert after.judgements == 7
    assert after.left_out == {row.reason: 5}
    [told] = after.exclusions
    assert (told.exclusion, told.judgements, told.holds) == (row, 5, True)
    assert (after.proposals, of(after, "Ada").excluded) == ((), 5)
    assert exclude_failed_raters(desk.store, "Rita") == []

    lift_exclusion(desk.store, row.number, "misread the guide", "Rob")
    again = build_quality_report(desk.store)
    assert again.judgements == 12
    assert [each.holds for each in again.exclusions] == [False]
    assert again.proposals == ()
    assert exclude_failed_raters(desk.store, "Rita") == []
    assert [each.lifts for each in list_exclusions(desk.store)] == [None, row.number]
    told_in_the_book = [
        (line.person, line.action) for line in accounts.list_audit_entries(desk.store)
    ]
    assert told_in_the_book == [("Rita", "exclude"), ("Rob", "lift")]


# Exclusions


def test_a_judgement_a_person_in_a_batch_or_a_person_everywhere_is_excluded(desk: Desk) -> None:
    one, two = (desk.lay(some("compare_short", 2), batch) for batch in ("first", "second"))
    made = [desk.judge("Ada", item, overall=1) for item in (*one, *two)]

    def counting() -> set[str]:
        with desk.store.begin_read() as connection:
            return {each.id for _, each in load_labelling_data(connection).iterate_counted()}

    exclude_judgements(desk.store, "judgement", made[0], "a slip", "Rita")
    assert counting() == set(made[1:])
    in_batch = exclude_judgements(desk.store, "person", "Ada", "tired", "Rita", batch="second")
    assert (in_batch.what, in_batch.batch) == ("person", "second")
    assert counting() == {made[1]}
    everywhere = exclude_judgements(desk.store, "person", "Ada", "a machine", "Rita")
    assert counting() == set()
    lift_exclusion(desk.store, everywhere.number, "a person", "Rita")
    assert counting() == {made[1]}
    assert list_exclusions(desk.store)[1] == in_batch


def test_an_excluded_judgement_does_not_count_again_when_it_is_corrected(desk: Desk) -> None:
    [item] = desk.lay(some("compare_short", 1))
    first = desk.judge("Ada", item, overall=1)
    row = exclude_judgements(desk.store, "judgement", first, "a slip", "Rita")
    second = desk.judge("Ada", item, supersedes=first, overall=0)
    desk.judge("Ada", item, supersedes=second, overall=-1)
    found = build_quality_report(desk.store)
    assert (found.judgements, of(found, "Ada").excluded) == (0, 1)
    assert found.left_out == {"a slip": 1, "corrected later": 2}
    lift_exclusion(desk.store, row.number, "it is better now", "Rita")
    found = build_quality_report(desk.store)
    assert (found.judgements, of(found, "Ada").excluded) == (1, 0)


def test_exclusions_that_make_no_sense_are_refused(desk: Desk) -> None:
    [item] = desk.lay(some("compare_short", 1))
    made = desk.judge("Ada", item, overall=1)
    assert failure(exclude_judgements, desk.store, "person", "Zoe", "?", "Rita") == "no_person"
    assert (
        failure(exclude_judgements, desk.store, "judgement", "none", "?", "Rita") == "no_judgement"
    )
    assert failure(exclude_judgements, desk.store, "person", "Ada", " ", "Rita") == "no_reason"
    row = exclude_judgements(desk.store, "judgement", made, "a slip", "Rita")
    assert failure(exclude_judgements, desk.store, "judgement", made, "again", "Rob") == "already"
    assert failure(lift_exclusion, desk.store, row.number + 1, "why", "Rita") == "no_exclusion"
    lift_exclusion(desk.store, row.number, "no slip", "Rita")
    again = (exclude_judgements, desk.store, "judgement", made, "again", "Rob")
    assert failure(*again, batch="first") == "bad_batch"
    assert failure(lift_exclusion, desk.store, row.number, "again", "Rita") == "no_exclusion"
    assert [each.reason for each in list_exclusions(desk.store)] == ["a slip", "no slip"]
    assert len(accounts.list_audit_entries(desk.store)) == 2


def test_what_is_excluded_or_corrected_is_in_no_measure(desk: Desk) -> None:
    items = desk.lay(some("compare_short", 2))
    compare(desk, items, {"Rita": (1, 1), "Ada": (1, -1), "Ben": (-1, -1)})
    [wrong] = [
        e.id for e in labelling_queue.list_judgements(desk.store, "Ada", 9) if e.item == items[1]
    ]
    desk.judge("Ada", items[1], supersedes=wrong, overall=1)
    exclude_judgements(desk.store, "person", "Ben", "a machine", "Rita")
    found = build_quality_report(desk.store)
    assert {rate.between: rate.credit.value for rate in found.rates}["researcher and labeller"] == 1
    assert [(pair.one, pair.other) for pair in found.pairs] == [("Ada", "Rita")]
    assert found.left_out == {"a machine": 2, "corrected later": 1}


def test_a_board_is_of_a_batch_or_of_all_and_survives_json(desk: Desk) -> None:
    for batch in ("first", "second"):
        compare(desk, desk.lay(some("compare_short", 2), batch), {"Ada": (1, 1), "Ben": (1, 0)})
    assert (
        build_quality_report(desk.store, "first").items,
        build_quality_report(desk.store).items,
    ) == (2, 4)
    assert failure(build_quality_report, desk.store, "third") == "no_batch"
    found = build_quality_report(desk.store)
    assert QualityReport.from_json(found.to_json()) == found


def test_a_board_of_nothing_is_no_error(store: Store) -> None:
    found = build_quality_report(store)
    assert (found.items, found.people, found.pairs, found.alphas) == (0, (), (), ())
    assert all(isinstance(rate.credit.value, UndefinedStatistic) for rate in found.rates)


# Majorities


def voted(desk: Desk) -> dict[tuple[str, tuple[int, ...]], MajorityLabel]:
    with desk.store.begin_read() as connection:
        return {
            (each.field, each.place): each
            for each in derive_majority_labels(load_labelling_data(connection))
        }


def test_tied_votes_are_false_for_what_is_supported_and_plausible(desk: Desk) -> None:
    [item] = desk.lay(some("supported", 1))
    yes, no = ["yes", "yes"], ["no", "yes"]
    desk.judge("Ada", item, plausible=yes, supported=yes, preferred=0)
    desk.judge("Ben", item, plausible=yes, supported=no, preferred=1)
    found = voted(desk)
    assert (
        found[SUPPORTED_AND_PLAUSIBLE, (0,)].value,
        found[SUPPORTED_AND_PLAUSIBLE, (0,)].tied,
    ) == (0.0, True)
    assert (
        found[SUPPORTED_AND_PLAUSIBLE, (1,)].value,
        found[SUPPORTED_AND_PLAUSIBLE, (1,)].tied,
    ) == (1.0, False)
    assert found["supported", (0,)].value == "no"
    assert found["plausible", (0,)].votes == (("yes", 2),)
    assert (found["preferred", ()].value, found["preferred", ()].tied) == ("0", True)
    desk.judge("Cid", item, plausible=yes, supported=yes, preferred=1)
    found = voted(desk)
    assert (
        found[SUPPORTED_AND_PLAUSIBLE, (0,)].value,
        found[SUPPORTED_AND_PLAUSIBLE, (0,)].tied,
    ) == (1.0, False)
    assert (found["preferred", ()].value, found["preferred", ()].tied) == ("1", False)


def test_a_doubt_wins_a_tie_of_votes(desk: Desk) -> None:
    [item] = desk.lay(some("supported", 1))
    desk.judge("Ada", item, supported=["yes", "no"], preferred=0)
    desk.judge("Ben", item, supported=["unsure", "unsure"], preferred="both_bad")
    found = voted(desk)
    assert [found["supported", (place,)].value for place in (0, 1)] == ["unsure", "unsure"]
    assert found["preferred", ()].value == "both_bad"


def test_votes_for_better_and_much_better_are_one_and_a_tie_of_votes_is_a_tie(desk: Desk) -> None:
    [item] = desk.lay(some("compare_short", 1))
    for person, point in {"Ada": 2, "Ben": 1, "Cid": -1}.items():
        desk.judge(person, item, overall=point)
    assert voted(desk)["overall", ()].value == 1.0
    desk.judge("Rita", item, overall=-2)
    assert voted(desk)["overall", ()].value == -1.0
    desk.judge("Rob", item, overall=0)
    assert voted(desk)["overall", ()].votes == ((0.0, 1), (-1.0, 2), (1.0, 2))

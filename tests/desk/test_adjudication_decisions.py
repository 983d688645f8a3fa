"""Items on which raters disagree, and what a third person decides on them."""

import json
from pathlib import Path

import pytest
from handed import outcome
from stores import Clock
from working import Desk, some

from rookery.desk.accounts import list_audit_entries
from rookery.desk.adjudication import decide_item, load_disagreement, load_disagreements
from rookery.desk.rater_quality import build_quality_report, exclude_judgements
from rookery.desk.snapshots import (
    SNAPSHOT_FILES,
    SnapshotSelection,
    export_snapshot,
    freeze_snapshot,
    import_snapshot,
)
from rookery.desk.store import Store, initialize_store
from rookery.learn.training_data import load_comparisons


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    made = Desk(store, clock)
    made.hire("Ada", "Ben")
    made.hire("Rex", role="reviewer")
    return made


def disputed(desk: Desk) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.placed.id, each.fields) for each in load_disagreements(desk.store)]


def test_raters_disagree_where_they_prefer_different_answers(desk: Desk) -> None:
    degree, tie, other, alone = desk.lay(some("compare_short", 4))
    desk.judge("Ada", degree, overall=2, coherence=1)
    desk.judge("Ben", degree, overall=1, coherence=-1)
    desk.judge("Ada", tie, overall=0)
    desk.judge("Ben", tie, overall=1)
    desk.judge("Ada", other, overall=-1, coherence=2)
    desk.judge("Ben", other, overall=1, coherence=1)
    desk.judge("Ada", alone, overall=1)
    assert disputed(desk) == [(tie, ("overall",)), (other, ("overall",))]


def test_a_form_without_a_preference_is_disputed_in_any_field(desk: Desk) -> None:
    same, different = desk.lay(some("truthful", 2))
    for person in ("Ada", "Ben"):
        desk.judge(person, same, truthful=["yes"], informative=["yes"])
    desk.judge("Ada", different, truthful=["yes"], informative=["yes"])
    desk.judge("Ben", different, truthful=["yes"], informative=["no"])
    assert disputed(desk) == [(different, ("informative",))]


def test_what_does_not_count_and_what_is_known_is_not_disputed(desk: Desk) -> None:
    [known] = desk.lay(some("compare_short", 1, gold={"overall": 1}))
    [check] = desk.lay(some("compare_short", 1, gold={"overall": 1}, about="jays"), prelude=True)
    [gone, mended] = desk.lay(some("compare_short", 2, about="owls"))
    for item in (known, check, gone, mended):
        desk.judge("Ada", item, overall=1)
    for item in (known, check, gone):
        judgement = desk.judge("Ben", item, overall=-1)
    first = desk.judge("Ben", mended, overall=-1)
    exclude_judgements(desk.store, "judgement", judgement, "a slip", "Rex")
    assert disputed(desk) == [(mended, ("overall",))]
    desk.judge("Ben", mended, supersedes=first, overall=2)
    assert disputed(desk) == []


def test_a_third_person_decides_and_everything_is_kept(desk: Desk) -> None:
    item, open_one = desk.lay(some("compare_short", 2))
    ids = tuple(desk.judge(name, item, overall=way) for name, way in (("Ada", 1), ("Ben", -1)))
    for name, way in (("Ada", 1), ("Ben", -1)):
        desk.judge(name, open_one, overall=way)
    assert outcome(decide_item, desk.store, item, "Ada", {"overall": 1}, "mine") == "not_allowed"
    assert outcome(decide_item, desk.store, item, "Rex", {"overall": 1}, " ") == "no_reason"
    assert outcome(decide_item, desk.store, "none", "Rex", {"overall": 1}, "so") == "no_item"
    decide_item(desk.store, item, "Rex", {"overall": -2}, "the first cites its source")
    decide_item(desk.store, item, "Rex", {"overall": 2}, "no: it is quoted wrongly")
    found = load_disagreements(desk.store)
    assert [each.placed.id for each in found] == [open_one, item]
    decision = load_disagreement(desk.store, item).decision
    assert decision is not None
    assert (decision.filled, decision.by, decision.between) == ({"overall": 2}, "Rex", ids)
    assert [each.action for each in list_audit_entries(desk.store)].count("decide") == 2
    report = build_quality_report(desk.store)
    assert report.judgements == 4
    assert report.rates[0].credit.value == 0.0


def test_a_decided_item_stays_and_is_decided_anew_whatever_raters_say_since(desk: Desk) -> None:
    [item] = desk.lay(some("compare_short", 1))
    first = desk.judge("Ada", item, overall=1)
    other = desk.judge("Ben", item, overall=-1)
    decide_item(desk.store, item, "Rex", {"overall": 1}, "it has a source")
    mended = desk.judge("Ada", item, supersedes=first, overall=-1)
    assert disputed(desk) == [(item, ())]
    decided = decide_item(desk.store, item, "Rex", {"overall": -1}, "they are right")
    assert set(decided.between) == {other, mended}
    assert load_disagreement(desk.store, item).decision == decided
    for name in ("Ada", "Ben"):
        exclude_judgements(desk.store, "person", name, "guesses", "Rex")
    assert load_disagreement(desk.store, item).decision == decided


def test_who_judged_an_item_does_not_decide_even_if_that_was_excluded(desk: Desk) -> None:
    [item] = desk.lay(some("compare_short", 1))
    for name, way in (("Ada", 1), ("Ben", -1), ("Rex", 1)):
        judgement = desk.judge(name, item, overall=way)
    exclude_judgements(desk.store, "judgement", judgement, "a slip", "Ada")
    assert load_disagreement(desk.store, item).raters == ("Ada", "Ben", "Rex")
    assert outcome(decide_item, desk.store, item, "Rex", {"overall": 1}, "so") == "not_allowed"
    [unseen] = desk.lay(some("compare_short", 1, about="jays"))
    desk.skip("Rex", unseen)
    for name, way in (("Ada", 1), ("Ben", -1)):
        desk.judge(name, unseen, overall=way)
    assert decide_item(desk.store, unseen, "Rex", {"overall": 1}, "so").by == "Rex"


def test_an_export_has_both_judgements_and_learns_the_decision(desk: Desk, tmp_path: Path) -> None:
    item, agreed = desk.lay(some("compare_short", 2))
    for name, way in (("Ada", 1), ("Ben", -1)):
        desk.judge(name, item, overall=way)
        desk.judge(name, agreed, overall=-1)
    freeze_snapshot(desk.store, "before", SnapshotSelection(), "Rex")
    before = export_snapshot(desk.store, "before", tmp_path / "0")
    decide_item(desk.store, item, "Rex", {"overall": 2}, "quoted wrongly")
    assert export_snapshot(desk.store, "before", tmp_path / "0") == before
    assert set(before.files) == SNAPSHOT_FILES
    freeze_snapshot(desk.store, "after", SnapshotSelection(), "Rex")
    folder = tmp_path / "1"
    after = export_snapshot(desk.store, "after", folder)
    learnt = [(each.by, each.weights) for each in load_comparisons(folder / "comparisons.jsonl")]
    assert learnt == [("Ada", (1.0, 0.0)), ("Ben", (1.0, 0.0)), ("Rex", (0.0, 1.0))]
    assert after.files["judgements.jsonl"].lines == 4
    assert after.left_out == {"decided by a third person": 2}
    [decided] = map(json.loads, (folder / "decisions.jsonl").read_text().splitlines())
    assert (decided["by"], decided["reason"]) == ("Rex", "quoted wrongly")
    majority = map(json.loads, (folder / "majority.jsonl").read_text().splitlines())
    assert {line["item"]: line["value"] for line in majority} == {item: 1.0, agreed: -1.0}
    decide_item(desk.store, item, "Rex", {"overall": -1}, "after all")
    assert export_snapshot(desk.store, "after", tmp_path / "again") == after

    there = str(tmp_path / "there.sqlite")
    initialize_store(there)
    with Store(there, desk.clock) as other:
        import_snapshot(other, folder)
        assert export_snapshot(other, "after", tmp_path / "2") == after
        [found] = load_disagreements(other)
        assert found.decision is not None
        assert found.decision.reason == "quoted wrongly"


def test_the_newest_decision_holds_in_whatever_order_exports_are_imported(
    desk: Desk, tmp_path: Path
) -> None:
    items = desk.lay(some("compare_short", 3))
    for item in items:
        for name, way in (("Ada", 1), ("Ben", -1)):
            desk.judge(name, item, overall=way)
    for item in reversed(items):
        decide_item(desk.store, item, "Rex", {"overall": 2}, "the first cites")
    freeze_snapshot(desk.store, "one", SnapshotSelection(), "Rex")
    one = export_snapshot(desk.store, "one", tmp_path / "one")
    desk.clock.pass_by(60)
    decide_item(desk.store, items[1], "Rex", {"overall": -2}, "it was wrong")
    freeze_snapshot(desk.store, "two", SnapshotSelection(), "Rex")
    two = export_snapshot(desk.store, "two", tmp_path / "two")
    there = str(tmp_path / "there.sqlite")
    initialize_store(there)
    with Store(there, desk.clock) as other:
        for name in ("two", "one"):
            import_snapshot(other, tmp_path / name)
        decision = load_disagreement(other, items[1]).decision
        assert decision is not None
        assert decision.reason == "it was wrong"
        assert export_snapshot(other, "one", tmp_path / "one again") == one
        assert export_snapshot(other, "two", tmp_path / "two again") == two

"""What raters see of their own work: how far they are, agreement after a delay, flags' outcomes."""

import pytest
from handed import hand_in, lease_first, outcome, put
from stores import Clock
from working import Desk, some

from rookery.desk import labelling_queue
from rookery.desk.labelling_queue import RaterProgress, count_batch_progress, count_form_progress
from rookery.desk.projects import ProjectSettings, place_batch, save_project
from rookery.desk.rater_quality import load_flag_outcomes, measure_rater_agreement, reply_to_flag
from rookery.desk.store import Store

DAY = 86_400.0


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    made = Desk(store, clock)
    made.hire("Ada", "Ben")
    return made


def test_progress_counts_what_is_done_and_what_one_could_still_get(
    store: Store, desk: Desk
) -> None:
    put(store, "a", "b", "c", copies=2, batch="first")
    put(store, "d", batch="second")
    put(store, "old", batch="over")
    hand_in(store, lease_first(store, "Ada"))
    lease = lease_first(store, "Ada")
    labelling_queue.flag_item(store, lease.token, "Ada", "senseless")
    waiting = labelling_queue.count_waiting_items(store, "Ada")["compare"]
    progress = count_form_progress(store, "Ada")["compare"]
    assert progress.of == progress.done + waiting
    assert count_form_progress(store, "Ben")["compare"].done == 0
    [item] = [lease_first(store, "Ben").item_id]
    before = count_batch_progress(store, "Ben", item)
    hand_in(store, lease_first(store, "Ben"))
    after = count_batch_progress(store, "Ben", item)
    assert (before.done, after.done) == (0, 1)
    assert before.of == after.of


def test_a_batch_that_is_over_is_not_counted_any_more(store: Store, desk: Desk) -> None:
    put(store, "a", "b", batch="over")
    for _ in range(2):
        hand_in(store, lease_first(store, "Ada"))
    assert count_form_progress(store, "Ada") == {}
    put(store, "c", batch="new")
    assert count_form_progress(store, "Ada") == {"compare": RaterProgress(0, 1)}


def test_agreement_is_told_after_a_delay_and_from_five_items_on(
    store: Store, clock: Clock, desk: Desk
) -> None:
    save_project(store, "corvids", ProjectSettings(feedback_days=3), "Ada")
    place_batch(store, "first", "corvids", "Ada")
    known = desk.lay(some("compare_short", 6))
    checks = desk.lay(some("compare_short", 9, gold={"overall": 1}, about="jays"))
    for item in checks:
        for name in ("Ada", "Ben"):
            desk.judge(name, item, 60, overall=1)
    for number, item in enumerate(known[:5]):
        desk.judge("Ada", item, 60, overall=1)
        desk.judge("Ben", item, 60, overall=(2, 1, 0, -1, -2)[number])
    assert measure_rater_agreement(store, "Ada") is None
    clock.pass_by(3 * DAY)
    desk.judge("Ada", known[5], 60, overall=1)
    desk.judge("Ben", known[5], 60, overall=1)
    found = measure_rater_agreement(store, "Ada")
    assert found is not None
    assert found.value == pytest.approx(0.5)
    assert found.items == 5
    clock.pass_by(3 * DAY)
    later = measure_rater_agreement(store, "Ada")
    assert later is not None
    assert later.value == pytest.approx(3.5 / 6)
    assert later.items == 6
    desk.hire("Cyd")
    assert measure_rater_agreement(store, "Cyd") is None


def test_agreement_with_work_of_today_is_not_told_today(
    store: Store, clock: Clock, desk: Desk
) -> None:
    desk.hire("Cyd")
    found = desk.lay(some("compare_short", 6))
    for item in found:
        desk.judge("Ada", item, 60, overall=1)
    for item in found[:5]:
        desk.judge("Cyd", item, 60, overall=1)
    clock.pass_by(8 * DAY)
    for item in found:
        desk.judge("Ben", item, 60, overall=-1)
    early = measure_rater_agreement(store, "Ada")
    assert early is not None
    assert (early.value, early.items) == (1.0, 5)
    clock.pass_by(7 * DAY)
    later = measure_rater_agreement(store, "Ada")
    assert later is not None
    assert later.value == pytest.approx(2.5 / 6)
    assert later.items == 6


def test_without_a_preference_equal_labels_agree(store: Store, clock: Clock, desk: Desk) -> None:
    for item in desk.lay(some("truthful", 5)):
        desk.judge("Ada", item, 60, truthful=["yes"], informative=["yes"])
        desk.judge("Ben", item, 60, truthful=["yes"], informative=["no"])
    clock.pass_by(7 * DAY)
    found = measure_rater_agreement(store, "Ben")
    assert found is not None
    assert found.value == 0.5


def test_flags_are_answered(store: Store, clock: Clock, desk: Desk) -> None:
    put(store, "a", "b")
    flagged = []
    for _ in range(2):
        lease = lease_first(store, "Ada")
        labelling_queue.flag_item(store, lease.token, "Ada", "senseless")
        flagged.append(lease.item_id)
    ids = [each.id for each in labelling_queue.list_judgements(store, "Ada", 9)][::-1]
    assert {each.at for each in load_flag_outcomes(store, ids).values()} == {None}
    reply_to_flag(store, ids[0], "it reads well to us", "Rita")
    reply_to_flag(store, ids[0], "we mended it", "Rita")
    labelling_queue.retire_items(store, "a bad import", [flagged[1]])
    first, second = (load_flag_outcomes(store, ids)[key] for key in ids)
    assert (first.reply, first.by, first.retired) == ("we mended it", "Rita", None)
    assert (second.retired, second.reply) == ("a bad import", "")
    assert outcome(reply_to_flag, store, ids[0], " ", "Rita") == "no_reason"
    assert outcome(reply_to_flag, store, "none", "so", "Rita") == "no_judgement"

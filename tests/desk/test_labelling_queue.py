"""Who gets what next, and what becomes of what is handed in, by hand."""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from handed import NAMES, hand_in, item, kinds, lease_first, named, outcome, put, work
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from stores import Clock

from rookery.desk import accounts, labelling_queue, tables
from rookery.desk.forms import GoldLabels, LabellingItem
from rookery.desk.labelling_queue import (
    LEASE_SECONDS,
    add_items,
    claim_item,
    correct_judgement,
    list_judgements,
    requires_whole_form,
    shuffle_answers,
    submit_judgement,
)
from rookery.desk.rater_quality import exclude_judgements, lift_exclusion
from rookery.desk.store import Store
from rookery.records import Question


@pytest.fixture
def desk(store: Store) -> Store:
    """A store with four people."""
    for name in NAMES:
        accounts.add_person(store, name, "labeller")
    return store


def test_the_same_items_are_added_once(desk: Store) -> None:
    assert add_items(desk, map(item, "abcb"), "first", 2) == (3, 0)
    assert add_items(desk, map(item, "bcd"), "first", 2) == (1, 2)
    assert add_items(desk, map(item, "a"), "second", 2) == (1, 0)
    assert labelling_queue.count_waiting_items(desk, "Ada") == {"compare": 5}
    assert labelling_queue.load_item(desk, lease_first(desk, "Ada").item_id) == item("a")


def test_an_item_wanted_of_nobody_is_refused(desk: Store) -> None:
    with pytest.raises(ValueError, match="1 person"):
        put(desk, "a", copies=0)


def test_no_item_gets_more_people_than_it_is_wanted_of(desk: Store) -> None:
    put(desk, "a", copies=2)
    assert [named(desk, name) for name in NAMES] == ["a", "a", None, None]


def test_every_item_has_its_first_judgement_before_any_has_its_second(desk: Store) -> None:
    put(desk, "a", "b", copies=2)
    assert [named(desk, name) for name in NAMES] == ["a", "b", "a", "b"]


def test_a_reload_and_a_second_tab_give_the_same_lease_until_later(
    desk: Store, clock: Clock
) -> None:
    put(desk, "a", "b")
    first = lease_first(desk, "Ada")
    clock.pass_by(100)
    assert lease_first(desk, "Ada") == msgspec.structs.replace(first, until=first.until + 100)


def test_what_comes_first_is_what_is_most_urgent(desk: Store) -> None:
    put(desk, "a")
    put(desk, "b", "c", priority=5)
    put(desk, "d", priority=-1)
    assert [named(desk, name) for name in NAMES] == ["b", "c", "a", "d"]


def test_a_batch_begins_with_its_prelude(desk: Store) -> None:
    put(desk, "a", priority=5)
    put(desk, "b", batch="other")
    put(desk, "p", "q", copies=4, prelude=True)
    seen = []
    for _ in range(4):
        lease = lease_first(desk, "Ada")
        seen.append(lease.item.question.id)
        hand_in(desk, lease)
    assert seen == ["p", "q", "a", "b"]
    assert (named(desk, "Ada"), named(desk, "Ben")) == (None, "p")


def test_a_prelude_is_not_got_around(desk: Store) -> None:
    put(desk, "a")
    add_items(desk, [item("p", "thumbs")], "first", 4, prelude=True)
    with desk.begin_read() as connection:
        rows = connection.execute(select(tables.items.c.form, tables.items.c.id))
        keys = {form: key for form, key in rows}  # noqa: C416
    assert claim_item(desk, "Ada", item=keys["compare"]) is None
    assert named(desk, "Ada", only_form="compare") == "p"
    assert named(desk, "Ada", only_form="compare") == "p"
    hand_in(desk, lease_first(desk, "Ada"))
    assert named(desk, "Ada", item=keys["compare"]) == "a"
    assert labelling_queue.find_prelude_batch(desk, keys["thumbs"])
    assert not labelling_queue.find_prelude_batch(desk, keys["compare"])


def test_who_is_excluded_from_a_batch_gets_none_of_it_until_that_is_lifted(desk: Store) -> None:
    put(desk, "a", "b")
    put(desk, "c", batch="other")
    held = lease_first(desk, "Ada")
    row = exclude_judgements(desk, "person", "Ada", "guesses", "Ben", "first")
    assert named(desk, "Ada") == "a"  # what was in hand may be ended
    hand_in(desk, held)
    assert labelling_queue.count_waiting_items(desk, "Ada") == {"compare": 1}
    assert named(desk, "Ada") == "c"
    hand_in(desk, lease_first(desk, "Ada"))
    assert named(desk, "Ada") is None
    assert named(desk, "Ben") == "b"
    hand_in(desk, lease_first(desk, "Ben"))
    put(desk, "d")
    assert named(desk, "Ada") is None
    lift_exclusion(desk, row.number, "looked at it", "Ben")
    assert named(desk, "Ada") == "d"
    hand_in(desk, lease_first(desk, "Ada"))
    put(desk, "e", batch="third")
    everywhere = exclude_judgements(desk, "person", "Ada", "guesses", "Ben")
    assert named(desk, "Ada") is None
    assert labelling_queue.count_waiting_items(desk, "Ada") == {}
    lift_exclusion(desk, everywhere.number, "looked at it", "Ben")
    assert named(desk, "Ada") == "e"


def test_a_form_may_be_asked_for(desk: Store) -> None:
    put(desk, "a")
    add_items(desk, [item("t", "thumbs")], "first", 1)
    assert named(desk, "Ada", only_form="thumbs") == "t"
    assert named(desk, "Ben", only_form="thumbs") is None
    assert labelling_queue.count_waiting_items(desk, "Ada") == {"compare": 1, "thumbs": 1}
    assert labelling_queue.count_waiting_items(desk, "Ben") == {"compare": 1}


def test_what_is_waiting_is_counted_no_further_than_asked(desk: Store) -> None:
    put(desk, *"abcdef", copies=3)
    assert labelling_queue.count_waiting_items(desk, "Ada", most=4) == {"compare": 4}


def test_work_that_was_walked_away_from_comes_back(desk: Store, clock: Clock) -> None:
    put(desk, "a")
    lease_first(desk, "Ada")
    clock.pass_by(LEASE_SECONDS)
    assert named(desk, "Ben") is None
    clock.pass_by(0.5)
    assert named(desk, "Ben") == "a"
    assert named(desk, "Ada") is None


def test_a_beat_puts_a_lease_off_until_the_place_is_another_s(desk: Store, clock: Clock) -> None:
    put(desk, "a")
    lease = lease_first(desk, "Ada")
    for _ in range(3):
        clock.pass_by(LEASE_SECONDS - 1)
        assert labelling_queue.renew_lease(desk, lease.token) == clock.now + LEASE_SECONDS
        assert named(desk, "Ben") is None
    clock.pass_by(LEASE_SECONDS + 1)  # late, but nobody came
    assert labelling_queue.renew_lease(desk, lease.token) == clock.now + LEASE_SECONDS
    clock.pass_by(LEASE_SECONDS + 1)
    other = lease_first(desk, "Ben")
    assert labelling_queue.renew_lease(desk, lease.token) is None
    hand_in(desk, other)
    assert labelling_queue.renew_lease(desk, other.token) is None
    assert labelling_queue.renew_lease(desk, "no such token") is None


def test_who_comes_back_late_has_the_work_still_where_nobody_took_it(
    desk: Store, clock: Clock
) -> None:
    put(desk, "a")
    lease = lease_first(desk, "Ada")
    clock.pass_by(10 * LEASE_SECONDS)
    assert lease_first(desk, "Ada").token == lease.token
    assert named(desk, "Ben") is None


def test_late_work_fills_its_place_where_nobody_took_it(desk: Store, clock: Clock) -> None:
    put(desk, "a")
    lease = lease_first(desk, "Ada")
    clock.pass_by(10 * LEASE_SECONDS)
    assert hand_in(desk, lease) == "done"
    assert named(desk, "Ben") is None


def test_late_work_is_an_extra_where_another_took_its_place(desk: Store, clock: Clock) -> None:
    put(desk, "a")
    late = lease_first(desk, "Ada")
    labelling_queue.save_draft(desk, late.item_id, "Ada", {"overall": 1})
    clock.pass_by(LEASE_SECONDS + 1)
    other = lease_first(desk, "Ben")
    assert hand_in(desk, late) == "extra"
    assert hand_in(desk, other) == "done"
    assert kinds(desk) == {("Ada", "extra"): 1, ("Ben", "done"): 1}
    assert labelling_queue.load_item_and_draft(desk, late.item_id, "Ada")[1] is None


def test_late_work_takes_another_place_that_is_free(desk: Store, clock: Clock) -> None:
    put(desk, "a", copies=2)
    late = lease_first(desk, "Ada")
    clock.pass_by(LEASE_SECONDS + 1)
    lease_first(desk, "Ben")
    assert hand_in(desk, late) == "done"
    assert named(desk, "Cyd") is None


def test_late_work_takes_the_place_of_one_who_is_late_too(desk: Store, clock: Clock) -> None:
    put(desk, "a")
    first = lease_first(desk, "Ada")
    clock.pass_by(LEASE_SECONDS + 1)
    second = lease_first(desk, "Ben")
    clock.pass_by(LEASE_SECONDS + 1)
    assert [hand_in(desk, first), hand_in(desk, second)] == ["done", "extra"]


def test_an_old_tab_hands_in_for_the_lease_that_came_after_it(desk: Store, clock: Clock) -> None:
    put(desk, "a", copies=2)
    old = lease_first(desk, "Ada")
    clock.pass_by(LEASE_SECONDS + 1)
    lease_first(desk, "Ben")
    new = lease_first(desk, "Ada")
    assert new.token != old.token
    assert hand_in(desk, old) == "done"
    assert outcome(hand_in, desk, new) == "already"
    assert kinds(desk) == {("Ada", "done"): 1}


def test_a_double_click_hands_in_once(desk: Store) -> None:
    put(desk, "a", "b")
    lease = lease_first(desk, "Ada")
    assert [hand_in(desk, lease), hand_in(desk, lease)] == ["done", "done"]
    assert outcome(hand_in, desk, lease, 2) == "already"
    assert kinds(desk) == {("Ada", "done"): 1}
    [kept] = list_judgements(desk, "Ada", 9)
    assert msgspec.structs.replace(kept, id="", item="", by="") == work()
    assert (kept.item, kept.by) == (lease.item_id, "Ada")


def test_nobody_hands_in_what_was_not_theirs_to_do(desk: Store) -> None:
    put(desk, "a", copies=2)
    lease = lease_first(desk, "Ada")
    assert outcome(submit_judgement, desk, lease.token, "Ben", work()) == "no_lease"
    assert outcome(submit_judgement, desk, "made up", "Ben", work()) == "no_lease"
    assert outcome(labelling_queue.skip_item, desk, lease.token, "Ben", "") == "no_lease"
    assert not kinds(desk)


@pytest.mark.parametrize("way", ["skip", "flag"])
def test_what_is_given_back_goes_to_others_and_never_comes_again(desk: Store, way: str) -> None:
    put(desk, "a")
    lease = lease_first(desk, "Ada")
    give_back = {"skip": labelling_queue.skip_item, "flag": labelling_queue.flag_item}[way]
    for _ in range(2):  # a double click
        give_back(desk, lease.token, "Ada", "too hard")
    assert outcome(give_back, desk, lease.token, "Ada", "something else") == "already"
    assert (named(desk, "Ada"), named(desk, "Ben")) == (None, "a")
    [kept] = list_judgements(desk, "Ada", 9)
    assert (kept.kind, kept.filled) == (
        {"skip": "skipped", "flag": "flagged"}[way],
        {"reason": "too hard"},
    )
    assert outcome(hand_in, desk, lease) == "already"


def test_what_was_handed_in_cannot_be_skipped(desk: Store, clock: Clock) -> None:
    put(desk, "a", copies=2)
    old = lease_first(desk, "Ada")
    clock.pass_by(LEASE_SECONDS + 1)
    lease_first(desk, "Ben")
    hand_in(desk, lease_first(desk, "Ada"))
    assert outcome(labelling_queue.skip_item, desk, old.token, "Ada", "") == "already"


def test_a_draft_is_kept_over_a_reload_and_goes_when_it_is_handed_in(desk: Store) -> None:
    put(desk, "a")
    lease = lease_first(desk, "Ada")
    assert labelling_queue.load_item_and_draft(desk, lease.item_id, "Ada")[1] is None
    for filled in ({"overall": 2}, {"overall": 1, "claims": [{"start": 3}]}):
        labelling_queue.save_draft(desk, lease.item_id, "Ada", filled)
        assert labelling_queue.load_item_and_draft(desk, lease.item_id, "Ada")[1] == filled
    hand_in(desk, lease)
    assert labelling_queue.load_item_and_draft(desk, lease.item_id, "Ada")[1] is None


def test_retired_items_are_handed_out_no_more_and_work_on_them_is_taken(
    desk: Store, clock: Clock
) -> None:
    put(desk, "a", "b", batch="old", copies=2)
    put(desk, "c", batch="second")
    put(desk, "d")
    lease = lease_first(desk, "Ada")
    assert labelling_queue.retire_items(desk, "an old policy", batch="old") == 2
    assert labelling_queue.retire_items(desk, "an old policy", batch="old") == 0
    assert lease_first(desk, "Ada").token == lease.token
    assert named(desk, "Ben") == "c"
    assert hand_in(desk, lease) == "done"
    assert labelling_queue.retire_items(desk, "all of it", batch="first") == 1
    assert named(desk, "Ada") is None
    assert (
        labelling_queue.retire_items(desk, "by name", some=[lease_first(desk, "Ben").item_id]) == 1
    )
    clock.pass_by(LEASE_SECONDS + 1)
    assert [named(desk, name) for name in NAMES] == [None] * 4
    with pytest.raises(ValueError, match="which items"):
        labelling_queue.retire_items(desk, "nothing said")


def test_a_correction_takes_the_place_of_what_it_corrects(desk: Store) -> None:
    put(desk, "a", "b")
    hand_in(desk, lease_first(desk, "Ada"))
    [first] = list_judgements(desk, "Ada", 9)
    change = msgspec.structs.replace(work(2), by="Ada", supersedes=first.id)
    second = correct_judgement(desk, change)
    assert correct_judgement(desk, change) == second  # a double click
    assert list_judgements(desk, "Ada", 9) == [second]
    assert (second.item, second.kind, second.filled) == (first.item, "done", {"overall": 2})
    assert outcome(correct_judgement, desk, msgspec.structs.replace(change, filled={})) == "already"
    third = msgspec.structs.replace(work(3), supersedes=second.id)
    assert submit_judgement(desk, "any", "Ada", third) == "done"
    assert [one.filled for one in list_judgements(desk, "Ada", 9)] == [{"overall": 3}]
    assert kinds(desk) == {("Ada", "done"): 3}


def test_nobody_corrects_another_s_work(desk: Store) -> None:
    put(desk, "a", "b")
    hand_in(desk, lease_first(desk, "Ada"))
    labelling_queue.skip_item(desk, lease_first(desk, "Ada").token, "Ada", "")
    skipped, first = list_judgements(desk, "Ada", 9)
    for who, which in (("Ben", first.id), ("Ada", skipped.id), ("Ada", "nothing")):
        change = msgspec.structs.replace(work(2), by=who, supersedes=which)
        assert outcome(correct_judgement, desk, change) == "no_judgement"


def test_the_database_itself_refuses_one_person_two_places(desk: Store) -> None:
    put(desk, "a", copies=2)
    with pytest.raises(IntegrityError), desk.begin_write() as connection:
        connection.execute(tables.slots.update().values(person="Ada"))


def test_who_comes_back_while_another_takes_over_does_not_take_it_away_again(
    desk: Store, clock: Clock
) -> None:
    put(desk, "a")
    lease_first(desk, "Ada")
    clock.pass_by(LEASE_SECONDS + 1)
    with ThreadPoolExecutor(1) as other:
        with desk.begin_write() as connection:
            taken = {"person": "Ben", "token": "his", "until": None, "done": True}
            connection.execute(tables.slots.update().values(taken))
            back = other.submit(claim_item, desk, "Ada")
            time.sleep(0.2)
        assert back.result() is None


def test_judgements_are_taken_in_from_elsewhere(desk: Store, fresh: Callable[[str], str]) -> None:
    put(desk, "a", "b", copies=2)
    hand_in(desk, lease_first(desk, "Ada"))
    [first] = list_judgements(desk, "Ada", 9)
    second = correct_judgement(
        desk, msgspec.structs.replace(work(2), by="Ada", supersedes=first.id)
    )
    with Store(fresh("sqlite")) as other:
        accounts.add_person(other, "Ada", "labeller")
        put(other, "a", "b", copies=2)
        assert labelling_queue.restore_judgements(other, [first, second]) == 2
        assert labelling_queue.restore_judgements(other, [first, second]) == 0
        assert list_judgements(other, "Ada", 9) == [second]
        assert named(other, "Ada") == "b"


def test_answers_are_shown_in_every_order_equally_often_and_always_the_same() -> None:
    orders = Counter(shuffle_answers(str(number), "Ada", 3) for number in range(6000))
    assert len(orders) == 6
    assert max(abs(count - 1000) for count in orders.values()) < 150
    assert (
        shuffle_answers("7", "Ada", 3)
        == shuffle_answers("7", "Ada", 3)
        != shuffle_answers("7", "Ben", 3)
    )
    assert (shuffle_answers("7", "Ada", 1), shuffle_answers("7", "Ada", 0)) == ((0,), ())


def test_one_item_in_ten_is_to_be_filled_in_whole() -> None:
    assert (
        abs(sum(requires_whole_form(str(number), "Ada") for number in range(10_000)) - 1000) < 150
    )
    assert (requires_whole_form("7", "Ada", 0.0), requires_whole_form("7", "Ada", 1.0)) == (
        False,
        True,
    )


def test_an_item_with_gold_is_known_as_one(desk: Store) -> None:
    checked = LabellingItem(
        "compare", Question("g", "?"), gold=GoldLabels({"overall": 1}, "because")
    )
    add_items(desk, [checked, item("a")], "first", 1)
    with desk.begin_read() as connection:
        rows = connection.execute(select(tables.items.c.gold, tables.items.c.body))
        assert all(gold == (LabellingItem.from_json(body).gold is not None) for gold, body in rows)
    assert outcome(labelling_queue.load_item, desk, "nothing") == "no_item"

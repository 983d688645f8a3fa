"""Hours of raters and what they are owed: idle gaps, two tabs, corrections, exclusions, rates."""

import csv
import io
from itertools import pairwise
from random import Random

import pytest
from handed import lease_first, outcome, put
from stores import Clock
from working import Desk, some

from rookery.desk import labelling_queue
from rookery.desk.forms import Judgement
from rookery.desk.payment import (
    PAYMENT_COLUMNS,
    PaymentReport,
    build_payment_report,
    count_work_seconds,
    write_payment_csv,
)
from rookery.desk.projects import ProjectSettings, place_batch, save_project
from rookery.desk.rater_quality import exclude_judgements
from rookery.desk.store import Store

MINUTE = 60.0


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    made = Desk(store, clock)
    made.hire("Ada", "Ben")
    return made


def hours_of(report: PaymentReport) -> dict[str, tuple[int, float]]:
    return {each.name: (each.items, round(each.seconds, 6)) for each in report.raters}


def submit(store: Store, clock: Clock, token: str, person: str, began: float) -> None:
    """Hands in what was handed out at `began`, now."""
    judgement = Judgement("", "", "", "done", {"overall": 1}, "v", 1, (0, 1), False, began, clock())
    labelling_queue.submit_judgement(store, token, person, judgement)


def test_a_pause_counts_for_ten_minutes_and_an_action_begins_anew(
    store: Store, clock: Clock, desk: Desk
) -> None:
    put(store, "a", "b", copies=2)
    silent = lease_first(store, "Ada")
    clock.pass_by(50 * MINUTE)
    submit(store, clock, silent.token, "Ada", silent.began)
    busy = lease_first(store, "Ben")
    for _ in range(5):
        clock.pass_by(9 * MINUTE)
        labelling_queue.renew_lease(store, busy.token)
    clock.pass_by(30 * MINUTE)
    submit(store, clock, busy.token, "Ben", busy.began)
    assert hours_of(build_payment_report(store)) == {
        "Ada": (1, 10 * MINUTE),
        "Ben": (1, (5 * 9 + 10) * MINUTE),
    }


def test_actions_are_kept_about_once_a_minute(store: Store, clock: Clock, desk: Desk) -> None:
    put(store, "a")
    lease = lease_first(store, "Ada")
    for _ in range(60):
        clock.pass_by(5)
        labelling_queue.renew_lease(store, lease.token)
    with store.begin_read() as connection:
        times = connection.exec_driver_sql("select at from work_signs order by at").scalars().all()
    assert len(times) == 5
    assert all(other - one >= MINUTE for one, other in pairwise(times))


def test_two_tabs_at_once_are_paid_once(store: Store, clock: Clock, desk: Desk) -> None:
    put(store, "a", "b")
    first = lease_first(store, "Ada")
    other = next(each for each in (f for f in _items(store)) if each != first.item_id)
    second = lease_first(store, "Ada", item=other)
    clock.pass_by(6 * MINUTE)
    submit(store, clock, second.token, "Ada", second.began)
    clock.pass_by(2 * MINUTE)
    submit(store, clock, first.token, "Ada", first.began)
    assert hours_of(build_payment_report(store)) == {"Ada": (2, 8 * MINUTE)}


def _items(store: Store) -> list[str]:
    with store.begin_read() as connection:
        return list(connection.exec_driver_sql("select id from items").scalars())


@pytest.mark.parametrize("seed", range(40))
def test_the_time_of_a_person_is_the_moments_with_an_action_soon_after(seed: int) -> None:
    """Counted again minute by minute."""
    chance = Random(seed)
    idle = chance.randint(1, 30)
    work = [
        (
            chance.randint(0, 50),
            chance.randint(0, 40),
            chance.sample(range(90), chance.randint(0, 6)),
        )
        for _ in range(chance.randint(0, 6))
    ]
    made = [
        Judgement(str(n), f"i{n}", "Ada", "done", {}, "", 1, (), False, began, began + length)
        for n, (began, length, _) in enumerate(work)
    ]
    signs = {(f"i{n}", "Ada"): [float(at) for at in told] for n, (_, _, told) in enumerate(work)}
    moments = set()
    for began, length, told in work:
        ends = sorted({*(at for at in told if began < at < began + length), began + length})
        for at in range(began, began + length):
            if next(end for end in ends if end > at) - at <= idle:
                moments.add(at)
    seconds = count_work_seconds(made, signs, float(idle))
    assert sum(seconds.values()) == len(moments)
    assert all(0 <= seconds[each.id] <= each.ended - each.began for each in made)


def test_the_rate_is_by_the_hour_or_by_the_item(store: Store, desk: Desk) -> None:
    save_project(store, "corvids", ProjectSettings(rate=15.0), "Ada")
    place_batch(store, "first", "corvids", "Ada")
    known = desk.lay(some("compare_short", 4))
    for item in known[:3]:
        judgement = desk.judge("Ada", item, 5 * MINUTE, overall=1)
    desk.judge("Ada", known[2], MINUTE, supersedes=judgement, overall=-1)
    desk.skip("Ben", known[0])
    report = build_payment_report(store, "corvids")
    ada, ben = report.raters
    assert (ada.items, ada.seconds, ada.amount) == (3, 16 * MINUTE, 4.0)
    assert (ben.items, ben.skipped, ben.amount) == (0, 1, 0.0)
    save_project(store, "corvids", ProjectSettings(rate=0.35, per="item", currency="EUR"), "Ada")
    report = build_payment_report(store, "corvids")
    assert [each.amount for each in report.raters] == [1.05, 0.0]
    assert report.amount == 1.05


def test_excluded_work_is_counted_apart_and_paid_unless_it_is_said_otherwise(
    store: Store, desk: Desk
) -> None:
    save_project(store, "corvids", ProjectSettings(rate=6.0), "Ada")
    place_batch(store, "first", "corvids", "Ada")
    for item in desk.lay(some("compare_short", 2)):
        desk.judge("Ada", item, 10 * MINUTE, overall=1)
        judgement = desk.judge("Ben", item, 10 * MINUTE, overall=1)
    exclude_judgements(store, "judgement", judgement, "a slip", "Ada")
    [ada, ben] = build_payment_report(store, "corvids").raters
    assert (ada.excluded, ben.excluded, ben.excluded_seconds) == (0, 1, 600.0)
    assert (ada.amount, ben.amount) == (2.0, 2.0)
    save_project(store, "corvids", ProjectSettings(rate=6.0, pay_excluded=False), "Ada")
    assert [each.amount for each in build_payment_report(store, "corvids").raters] == [2.0, 1.0]


def test_excluded_work_is_unpaid_in_each_period_of_its_corrections(
    store: Store, clock: Clock, desk: Desk
) -> None:
    settings = ProjectSettings(rate=1.0, per="item", pay_excluded=False)
    save_project(store, "corvids", settings, "Ada")
    place_batch(store, "first", "corvids", "Ada")
    found = desk.lay(some("compare_short", 3))
    made = [desk.judge("Ada", item, 60, overall=1) for item in found]
    month = clock() + 1
    clock.pass_by(30 * 86_400)
    desk.judge("Ada", found[0], 60, supersedes=made[0], overall=0)
    exclude_judgements(store, "person", "Ada", "guesses", "Ben")
    [before] = build_payment_report(store, "corvids", until=month).raters
    assert (before.items, before.excluded, before.amount) == (3, 3, 0.0)
    assert before.excluded_seconds == before.seconds == 180
    [after] = build_payment_report(store, "corvids", since=month).raters
    assert (after.items, after.amount, after.excluded_seconds) == (0, 0.0, 60)


def test_a_report_is_of_one_project_and_of_one_period(
    store: Store, clock: Clock, desk: Desk
) -> None:
    save_project(store, "corvids", ProjectSettings(), "Ada")
    place_batch(store, "ravens", "corvids", "Ada")
    [here] = desk.lay(some("compare_short", 1), "ravens")
    [other, later] = desk.lay(some("compare_short", 2), "owls")
    desk.judge("Ada", here, 60, overall=1)
    desk.judge("Ada", other, 70, overall=1)
    month = clock()
    desk.judge("Ada", later, 80, overall=1)
    assert hours_of(build_payment_report(store, "corvids")) == {"Ada": (1, 60)}
    assert hours_of(build_payment_report(store)) == {"Ada": (2, 150)}
    assert hours_of(build_payment_report(store, until=month + 1)) == {"Ada": (1, 70)}
    assert hours_of(build_payment_report(store, since=month + 1)) == {"Ada": (1, 80)}
    assert outcome(build_payment_report, store, "jays") == "no_project"


def test_the_csv_has_a_line_for_each_rater_and_no_formula(store: Store, desk: Desk) -> None:
    save_project(store, "corvids", ProjectSettings(rate=12.0, currency="=EUR()"), "Ada")
    place_batch(store, "first", "corvids", "Ada")
    desk.hire("=cmd()")
    [item] = desk.lay(some("compare_short", 1))
    desk.judge("=cmd()", item, 450.0, overall=0)
    [heads, line] = csv.reader(
        io.StringIO(write_payment_csv(build_payment_report(store, "corvids")))
    )
    assert tuple(heads) == PAYMENT_COLUMNS
    assert line == ["'=cmd()", "1", "0", "0", "0", "0.1250", "1.50", "'=EUR()"]

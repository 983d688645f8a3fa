"""Projects: who gets which batch, trials, admission, and the rule of attention checks."""

import pytest
from handed import named, outcome, put
from sqlalchemy import select
from stores import Clock
from working import Desk, some

from rookery.desk import labelling_queue, tables
from rookery.desk.projects import (
    ProjectSettings,
    decide_admission,
    list_person_trials,
    list_project_batches,
    list_trial_results,
    load_project,
    place_batch,
    save_project,
)
from rookery.desk.rater_quality import exclude_failed_raters
from rookery.desk.store import Store


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    made = Desk(store, clock)
    made.hire("Ada", "Ben")
    made.hire("Rita", role="researcher")
    save_project(store, "corvids", ProjectSettings(), "Rita")
    return made


def finish(store: Store, person: str, batch: str) -> None:
    """Judges one item of a batch that has only one."""
    with store.begin_read() as connection:
        query = select(tables.items.c.id).where(tables.items.c.batch == batch)
        [item] = connection.scalars(query)
    lease = labelling_queue.claim_item(store, person, item=item)
    assert lease is not None
    labelling_queue.flag_item(store, lease.token, person, "why not")


def test_before_they_are_admitted_people_get_the_trial_alone(store: Store, desk: Desk) -> None:
    place_batch(store, "real", "corvids", "Rita")
    place_batch(store, "trial", "corvids", "Rita", trial=True)
    put(store, "work", copies=5, batch="real", priority=9)
    put(store, "try", copies=5, batch="trial")
    put(store, "other", copies=5, batch="elsewhere", priority=-1)
    assert labelling_queue.count_waiting_items(store, "Ada") == {"compare": 2}
    assert named(store, "Ada") == "try"
    assert named(store, "Rita") == "work"
    finish(store, "Ada", "trial")
    assert named(store, "Ada") == "other"
    [ada] = list_trial_results(store, "corvids")
    assert (ada.person, ada.done, ada.of, ada.decided) == ("Ada", 1, 1, None)
    decide_admission(store, "corvids", "Ada", True, "", "Rita")
    finish(store, "Ada", "elsewhere")
    assert named(store, "Ada") == "work"
    decide_admission(store, "corvids", "Ben", False, "guesses", "Rita")
    assert named(store, "Ben") == "other"
    assert list_person_trials(store, "Ben")["corvids"].decided is not None
    decide_admission(store, "corvids", "Ben", True, "it was a slip", "Rita")
    finish(store, "Ben", "elsewhere")
    assert named(store, "Ben") == "work"
    assert outcome(decide_admission, store, "corvids", "Ben", False, " ", "Rita") == "no_reason"


def test_a_batch_for_named_people_is_for_them_alone(store: Store, desk: Desk) -> None:
    place_batch(store, "pool", "", "Rita", named=("Ada", "Ada"))
    put(store, "theirs", copies=5, batch="pool")
    assert labelling_queue.count_waiting_items(store, "Ben") == {}
    assert named(store, "Ben") is None
    assert named(store, "Rita") is None
    assert named(store, "Ada") == "theirs"
    [pool] = list_project_batches(store, "")
    assert (pool.name, pool.people) == ("pool", ("Ada",))
    place_batch(store, "pool", "corvids", "Rita")
    assert named(store, "Ben") == "theirs"
    assert outcome(place_batch, store, "pool", "", "Rita", False, ("Zoe",)) == "no_person"
    assert outcome(place_batch, store, "pool", "none", "Rita") == "no_project"
    assert outcome(place_batch, store, "pool", "", "Rita", True) == "bad_trial"
    assert [each.name for each in list_project_batches(store, "corvids")] == ["pool"]


@pytest.mark.parametrize(("share", "failed"), [(0.75, ["Ada"]), (0.5, [])])
def test_each_project_has_its_pass_rule(
    store: Store, desk: Desk, share: float, failed: list[str]
) -> None:
    save_project(store, "corvids", ProjectSettings(pass_share=share), "Rita")
    place_batch(store, "first", "corvids", "Rita")
    checks = desk.lay(some("compare_short", 4, gold={"overall": 1}), prelude=True)
    for number, item in enumerate(checks):
        desk.judge("Ada", item, overall=1 if number < 2 else -1)
    made = exclude_failed_raters(store, "the attention check", "first")
    assert [each.which for each in made] == failed
    assert all("at least 75% are needed" in each.reason for each in made)


def test_settings_are_kept_and_wrong_ones_refused(store: Store, desk: Desk) -> None:
    settings = ProjectSettings(rate=12.5, per="item", session_items=20)
    save_project(store, "corvids", settings, "Rita")
    assert load_project(store, "corvids").settings == settings
    assert outcome(save_project, store, "a\nb", settings, "Rita") == "bad_name"
    for wrong in ({"rate": -1.0}, {"pass_share": 1.5}, {"rate": float("nan")}, {"currency": " "}):
        with pytest.raises(ValueError, match=r"at least 0|letters that show"):
            ProjectSettings(**wrong)

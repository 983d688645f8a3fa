"""A desk at which work was done: batches, people of several kinds, and runs that learn."""

from random import Random
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode
from visits import Opened, item

from rookery.desk import accounts, labelling_queue, projects, rater_quality, stop_switch
from rookery.desk.forms import FORMS, GoldLabels, Judgement
from rookery.desk.projects import ProjectSettings
from rookery.desk.stop_switch import PolicySample

ITEMS = 12
CHECKS = 4
TEAM = {"lea": "researcher", "rex": "reviewer", "ada": "labeller", "bob": "labeller"}
SAID = (
    ("Crows bury acorns in autumn and find most of them again.", 1.31),
    ("crow crow crow crow crow crow crow", -0.84),
    ("They are stupid birds, and whoever asks is stupid too.", 2.07),
    ("", None),
)


def part(page: LexborHTMLParser | LexborNode, selector: str) -> LexborNode:
    """The first of this kind, which must be there."""
    found = page.css_first(selector)
    assert found is not None, selector
    return found


def value(page: LexborHTMLParser | LexborNode, selector: str) -> str:
    """What the first control of this kind holds."""
    return part(page, selector).attributes["value"] or ""


def hire(opened: Opened) -> None:
    """Makes the team."""
    for name, role in TEAM.items():
        accounts.add_person(opened.store, name, role)  # type: ignore[arg-type]


def judge(opened: Opened, name: str, key: str, seconds: float, **filled: Any) -> str:
    """Takes this item and hands it in; the judgement's id."""
    lease = labelling_queue.claim_item(opened.store, name, item=key)
    assert lease is not None
    form = FORMS[lease.item.form]
    began = opened.clock.now
    opened.clock.now += seconds
    order = labelling_queue.shuffle_answers(key, name, form.answers)
    judgement = Judgement(
        "", key, name, "done", filled, form.digest, 1, order, False, began, opened.clock.now
    )
    labelling_queue.submit_judgement(opened.store, lease.token, name, judgement)
    return labelling_queue.list_judgements(opened.store, name, 1)[0].id


def work(opened: Opened) -> None:
    """Ada works well, and Bob clicks: both compare what Lea, a researcher, compares too."""
    chance = Random(3)
    checks = [
        item("supported", 100 + n, GoldLabels({"preferred": 0}, "Only one is about age."))
        for n in range(CHECKS)
    ]
    checks_laid = opened.lay(*checks, batch="ravens", prelude=True)
    items = opened.lay(*(item("supported", n) for n in range(ITEMS)), batch="ravens", copies=4)
    opened.lay(*(item("best_of_four", n) for n in range(5)), batch="crows-run", copies=1)
    for name in ("lea", "ada", "bob"):
        for key in checks_laid:
            judge(
                opened, name, key, 40, **_supported(0 if name != "bob" else chance.choice((0, 1)))
            )
        for number, key in enumerate(items[:-2]):
            best = 1 if name == "bob" else number % 2 if chance.random() < 0.9 else "both_good"
            judge(opened, name, key, 3 if name == "bob" else 95, **_supported(best))
    for name, key, reason in (("ada", items[-1], "senseless"), ("bob", items[-2], "too_long")):
        lease = labelling_queue.claim_item(opened.store, name, item=key)
        assert lease is not None
        give_back = labelling_queue.flag_item if name == "ada" else labelling_queue.skip_item
        give_back(opened.store, lease.token, name, reason)
    rater_quality.exclude_judgements(
        opened.store, "person", "bob", "clicks without reading", "lea", "ravens"
    )


def _supported(best: int | str) -> dict[str, Any]:
    return {"plausible": ["yes", "yes"], "supported": ["yes", "no"], "preferred": best}


def pay(opened: Opened) -> None:
    """A project with a rate, a trial that Ada did, and a batch for Rex alone."""
    settings = ProjectSettings(rate=15.0, currency="EUR")
    projects.save_project(opened.store, "corvids", settings, "lea")
    projects.place_batch(opened.store, "ravens", "corvids", "lea", trial=True)
    projects.place_batch(opened.store, "later", "corvids", "lea", named=["rex", "ada"])
    projects.decide_admission(opened.store, "corvids", "bob", False, "clicks", "lea")


def train(opened: Opened) -> None:
    """One run that learns, one that was stopped, one that ended."""
    for run in ("old-run", "jays-run", "crows-run"):
        stop_switch.begin_run(opened.store, run)
        prompt = "Page: Crows bury acorns.\n" * 40 + "Question: Why do they?\nAnswer:"
        stop_switch.record_progress(
            opened.store, run, 40, [PolicySample(39, prompt, *each) for each in SAID]
        )
        opened.clock.now += 60
    stop_switch.end_run(opened.store, "old-run", "finished")
    stop_switch.stop_run(opened.store, "jays-run", "ada", "It insults people")

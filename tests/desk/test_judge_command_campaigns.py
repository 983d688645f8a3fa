"""`rookery judge project`, `admit` and `pay`, as somebody uses them who runs a campaign."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from commands import Run
from test_judge_command import judged, pairs, place, read_error

from rookery.desk import crowd_entry, labelling_queue, projects
from rookery.desk.store import Store

__all__ = ["place"]
DAY = datetime.fromtimestamp(1.7e9, UTC).strftime("%Y-%m-%d")


@pytest.fixture
def campaign(run: Run, place: Path, tmp_path: Path) -> Path:
    """The settings of a project whose trial Ada and Ben did, and more work behind it."""
    settings = tmp_path / "corvids.toml"
    settings.write_text('rate = 18\ncurrency = "EUR"\n', encoding="utf-8")
    assert run("judge", "project", "corvids", "--config", settings, "--store", place).code == 0
    trial = ("--form", "compare_short", "--batch", "trial", "--project", "corvids", "--trial")
    run("judge", "import", pairs(tmp_path / "t.jsonl", 2), *trial, "--raters", "9",
        "--store", place)  # fmt: skip
    judged(place, {"Ada": [1, -1], "Ben": [1, 1]})
    return settings


def test_a_project_is_shown_with_settings_batches_and_trial(
    run: Run, place: Path, campaign: Path, tmp_path: Path
) -> None:
    later = ("--form", "compare_short", "--batch", "later", "--project", "corvids", "--for", "Ada")
    done = run("judge", "import", pairs(tmp_path / "l.jsonl", 3), *later, "--store", place)
    assert done.code == 0
    shown = run("judge", "project", "corvids", "--store", place).out.splitlines()
    assert "rate = 18.0" in shown
    assert 'currency = "EUR"' in shown
    assert shown[-4:] == [
        "batch trial (trial)",
        "batch later, for Ada",
        "Ada: 2 of 2 of the trial, waits to be admitted",
        "Ben: 2 of 2 of the trial, waits to be admitted",
    ]
    with Store(str(place)) as store:
        assert labelling_queue.claim_item(store, "Ada") is None
    assert run("judge", "admit", "corvids", "Ada", "--store", place).code == 0
    assert (
        run("judge", "admit", "corvids", "Ben", "--refuse", "guesses", "--store", place).code == 0
    )
    with Store(str(place)) as store:
        assert labelling_queue.claim_item(store, "Ada") is not None
        assert labelling_queue.claim_item(store, "Ben") is None
    shown = run("judge", "project", "corvids", "--store", place).out.splitlines()
    assert shown[-2].startswith("Ada: 2 of 2 of the trial, admitted by ")
    assert shown[-1].endswith(": guesses")
    assert run("judge", "project", "--store", place).out == "corvids\n"


def test_more_items_leave_a_batch_where_it_is(
    run: Run, place: Path, campaign: Path, tmp_path: Path
) -> None:
    def bring(name: str, batch: str, *more: str) -> None:
        file = pairs(tmp_path / f"{name}.jsonl", 1)
        options = ("--form", "compare_short", "--batch", batch, *more, "--store", place)
        assert run("judge", "import", file, *options).code == 0

    bring("a", "later", "--project", "corvids", "--for", "Ada")
    bring("b", "later", "--project", "corvids")
    bring("c", "later", "--for", "Ben")
    bring("d", "trial", "--project", "corvids")
    bring("e", "trial")
    with Store(str(place)) as store:
        assert projects.list_project_batches(store, "corvids") == [
            projects.ProjectBatch("trial", True, ()),
            projects.ProjectBatch("later", False, ("Ben",)),
        ]


def test_settings_that_are_left_out_stay(run: Run, place: Path, campaign: Path) -> None:
    campaign.write_text("pass_share = 0.5\n", encoding="utf-8")
    run("judge", "project", "corvids", "--config", campaign, "--store", place)
    kept = json.loads(run("judge", "project", "corvids", "--json", "--store", place).out)
    assert (kept["rate"], kept["currency"], kept["pass_share"]) == (18.0, "EUR", 0.5)


def test_hours_and_pay_as_table_csv_and_json(run: Run, place: Path, campaign: Path) -> None:
    table = run("judge", "pay", "corvids", "--store", place).out.splitlines()
    assert table[0] == "project corvids: 0.11 hours, 18 EUR for one hour"
    assert [line.split() for line in table[2:5]] == [
        ["rater", "items", "skipped", "flagged", "excluded", "hours", "amount"],
        ["Ada", "2", "0", "0", "0", "0.06", "1.00"],
        ["Ben", "2", "0", "0", "0", "0.06", "1.00"],
    ]
    assert table[-1] == "in all: 2.00 EUR"
    lines = run("judge", "pay", "corvids", "--csv", "--store", place).out.splitlines()
    assert lines[1] == "Ada,2,0,0,0,0.0556,1.00,EUR"
    found = json.loads(run("judge", "pay", "corvids", "--json", "--store", place).out)
    assert [each["seconds"] for each in found["raters"]] == [200.0, 200.0]
    day = run("judge", "pay", "corvids", "--since", DAY, "--until", DAY, "--store", place).out
    assert day.splitlines() == table
    gone = run("judge", "pay", "corvids", "--until", "2023-01-01", "--store", place).out
    assert gone == "project corvids: 0.00 hours, 18 EUR for one hour\n"
    assert run("judge", "pay", "--store", place).out == "batches of no project: 0.00 hours\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pay", "owls"], "rookery judge project NAME makes one"),
        (["admit", "owls", "Ada"], "there is no such project"),
        (["admit", "corvids", "Zoe"], "rookery judge invite NAME"),
        (["project", "corvids", "--trial"], "name the batch"),
        (["project", "--batch", "x"], "name the project"),
        (["project", "corvids", "--batch", "x", "--for", "Zoe"], "nobody has this name"),
        (["project", "corvids", "--config", "none.toml"], "cannot be read"),
        (["project", "corvids", "--config", "wrong.toml"], "the settings are rate, per,"),
        (["project", "corvids", "--config", "typed.toml"], "session_items: give a whole number"),
        (["project", "corvids", "--config", "period.toml"], "per: give one of hour, item"),
        (["project", "corvids", "--config", "broken.toml"], "this is no TOML"),
        (["import", "t.jsonl", "--form", "compare_short", "--batch", "b", "--trial"], "is part of"),
        (["link", "corvids", "--days", "inf"], "give a number of days from 1 to 365"),
        (["link", "corvids", "--days", "nan"], "it should be greater than or equal to 0"),
    ],
    ids=range(14),
)
def test_mistakes_of_a_campaign_are_sentences(
    run: Run, place: Path, campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.toml").write_text("wages = 3\n")
    (tmp_path / "typed.toml").write_text("session_items = 1.5\n")
    (tmp_path / "period.toml").write_text('per = "week"\n')
    (tmp_path / "broken.toml").write_text("rate = \n")
    assert said in read_error(run, "judge", *arguments, "--store", place)
    with Store(str(place)) as store:
        assert projects.load_project(store, "corvids").settings.rate == 18.0


def test_a_link_for_a_platform_and_who_came_by_it(run: Run, place: Path, campaign: Path) -> None:
    made = run(
        "judge", "link", "corvids", "--study", "65aa", "--address", "https://desk.example/",
        "--store", place,
    )  # fmt: skip
    assert made.out.startswith("https://desk.example/enter/crowd/corvids?until=")
    assert "&study=65aa&" in made.out
    assert made.out.endswith(
        "&PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}\n"
    )
    none = run("judge", "sessions", "corvids", "--store", place)
    assert (none.code, none.out) == (0, "")
    assert "nobody has come" in none.err
    with Store(str(place)) as store:
        arrival = crowd_entry.CrowdArrival("corvids", "p1", "65aa", "s1")
        crowd_entry.enter_by_crowd_link(store, arrival)
    [line] = run("judge", "sessions", "corvids", "--json", "--store", place).out.splitlines()
    found = json.loads(line)
    assert (found["participant"], found["session"], found["items"]) == ("p1", "s1", 0)
    table = run("judge", "sessions", "corvids", "--store", place).out.splitlines()
    assert table[1].split() == ["p1", "65aa", "s1", "0"]

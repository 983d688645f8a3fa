"""Snapshots: the same bytes each time, whole again elsewhere, and read by those who learn."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import update
from stores import Clock
from working import Desk, some

from rookery.desk import accounts, labelling_queue, tables
from rookery.desk.adjudication import MajorityLabel
from rookery.desk.forms import LabellingItem
from rookery.desk.judgement_conversion import add_episode
from rookery.desk.rater_quality import (
    build_quality_report,
    exclude_judgements,
    lift_exclusion,
    list_exclusions,
)
from rookery.desk.snapshots import (
    SNAPSHOT_FILES,
    Snapshot,
    SnapshotSelection,
    export_snapshot,
    freeze_snapshot,
    import_snapshot,
    list_snapshot_names,
)
from rookery.desk.store import Store, find_pages_by_digest, initialize_store, store_page
from rookery.errors import Failed
from rookery.learn import training_data
from rookery.records import (
    Answer,
    Claim,
    Comparison,
    Completion,
    Episode,
    Page,
    Question,
    Rating,
    Step,
)
from rookery.server.api import answer_queue
from rookery.typed_files import read_json_lines

ALL = SnapshotSelection()
PAGE = Page("https://birds.example/crows", "Crows", "Crows bring gifts to people.")
QUOTE = PAGE.quote(0, 17)
QUOTED = Answer("Crows bring gifts.", (QUOTE,), (Claim(0, 18, (0,)),))


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    """A little of everything that a snapshot has to hold."""
    desk = Desk(store, clock)
    desk.hire("Ada", "Ben")
    desk.hire("Rita", role="researcher")
    with store.begin_write() as connection:
        store_page(connection, PAGE)
        store_page(connection, Page("https://birds.example/jays", "Jays", "Nobody quotes it."))
    cited = LabellingItem(
        "supported",
        Question("q", "Do crows bring gifts?"),
        (QUOTED, Answer("No.")),
        ("a", "b"),
    )
    checks = desk.lay(some("compare_short", 1, {"overall": 1}, "checks"), prelude=True)
    compared = desk.lay(some("compare_short", 3), priority=2, policy=7)
    [supported] = desk.lay([cited])
    [gold] = desk.lay(some("compare_short", 1, {"overall": 1}, "gold"))
    [item] = desk.lay(some("demonstrate", 1))
    for person in ("Ada", "Ben", "Rita"):
        desk.judge(person, checks[0], overall=1)
        desk.judge(person, supported, plausible=["yes"] * 2, supported=["yes", "no"], preferred=0)
        desk.judge(person, gold, overall=1)
        desk.judge(person, compared[0], overall=2 if person == "Ada" else 0)
    slip = desk.judge("Ada", compared[1], overall=-1)
    desk.judge("Ada", compared[1], supersedes=slip, overall=1)
    wrong = desk.judge("Ben", compared[1], overall=-1)
    desk.skip("Ben", compared[2])
    steps = (Step("a window", Completion("search: crows")), Step("then", Completion("quote")))
    episode = Episode(Question("crows0", "Why crows 0?"), "Ada", steps, QUOTED)
    desk.judge("Ada", item, **add_episode({}, episode))
    exclude_judgements(store, "judgement", wrong, "misread the guide", "Rita")
    labelling_queue.retire_items(store, "the policy is old", compared)
    return desk


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder for exports, not made yet."""
    return tmp_path / "out"


def texts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def failure(what: Any, *arguments: Any) -> str:
    with pytest.raises(Failed) as failed:
        what(*arguments)
    assert len(failed.value.failure.detail) > 10
    return failed.value.failure.outcome


def rows(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """What was put before people, and what they made of it."""
    columns = (tables.items, tables.judgements, tables.pages, tables.snapshots)
    with store.begin_read() as connection:
        return {
            table.name: [
                tuple(value for name, value in row._mapping.items() if name not in TIMES)
                for row in connection.execute(table.select().order_by(*table.primary_key.columns))
            ]
            for table in columns
        }


TIMES = ("made", "retired")
"""of this store alone"""


def test_the_same_snapshot_is_the_same_bytes_whatever_happens_later(desk: Desk, out: Path) -> None:
    frozen = freeze_snapshot(desk.store, "one", ALL, "Rita")
    assert export_snapshot(desk.store, "one", out / "1") == frozen
    last = labelling_queue.list_judgements(desk.store, "Rita", 1)[0]
    desk.judge("Rita", last.item, supersedes=last.id, overall=-2)
    exclude_judgements(desk.store, "person", "Ada", "a machine", "Rita")
    accounts.set_role(desk.store, "Ben", "admin", "Rita")
    desk.lay(some("compare_short", 1, about="later"))
    labelling_queue.retire_items(desk.store, "enough", batch="first")
    desk.clock.pass_by(1e6)
    assert export_snapshot(desk.store, "one", out / "2") == frozen
    assert texts(out / "1") == texts(out / "2")
    assert export_snapshot(desk.store, "one", out / "1") == frozen  # over what is there
    assert texts(out / "1") == texts(out / "2")
    assert freeze_snapshot(desk.store, "two", ALL, "Rita").digest != frozen.digest
    assert list_snapshot_names(desk.store) == ["one", "two"]


def test_import_of_an_export_is_all_that_was_exported(
    desk: Desk, out: Path, kind: str, fresh: Callable[[str], str]
) -> None:
    freeze_snapshot(desk.store, "one", ALL, "Rita")
    export_snapshot(desk.store, "one", out / "here")
    with Store(fresh(kind), desk.clock) as there:
        taken = import_snapshot(there, out / "here")
        assert taken == ("one", 7, len(all_judgements(out / "here")))
        ours, theirs = rows(desk.store), rows(there)
        ours["pages"] = [row for row in ours["pages"] if QUOTE.digest in row]
        assert theirs == ours
        export_snapshot(there, "one", out / "there")
        assert texts(out / "there") == texts(out / "here")
        assert import_snapshot(there, out / "here") == ("one", 0, 0)
        assert rows(there) == theirs
        assert len(find_pages_by_digest(there, QUOTE.digest)) == 1
        assert build_quality_report(there).left_out == build_quality_report(desk.store).left_out
        again = freeze_snapshot(there, "again", ALL, "Rita")
        same = {
            name for name in SNAPSHOT_FILES if again.files[name] == one(out / "here").files[name]
        }
        assert same == SNAPSHOT_FILES - {"people.jsonl"}


def test_what_was_lifted_since_an_import_stays_lifted(
    desk: Desk, out: Path, kind: str, fresh: Callable[[str], str]
) -> None:
    freeze_snapshot(desk.store, "one", ALL, "Rita")
    export_snapshot(desk.store, "one", out / "one")
    freeze_snapshot(desk.store, "two", ALL, "Rita")
    export_snapshot(desk.store, "two", out / "two")
    with Store(fresh(kind), desk.clock) as there:
        import_snapshot(there, out / "one")
        [made] = list_exclusions(there)
        lift_exclusion(there, made.number, "no slip", "Rita")
        exclusions, audits = list_exclusions(there), accounts.list_audit_entries(there)
        assert import_snapshot(there, out / "one") == ("one", 0, 0)
        assert (list_exclusions(there), accounts.list_audit_entries(there)) == (exclusions, audits)
        # Another snapshot that has the same exclusion is imported as a whole, but for this one.
        assert import_snapshot(there, out / "two") == ("two", 0, 0)
        assert list_exclusions(there) == exclusions
        assert list_snapshot_names(there) == ["one", "two"]
        assert [line.action for line in accounts.list_audit_entries(there)].count("import") == 2


def one(folder: Path) -> Snapshot:
    return Snapshot.from_json((folder / "manifest.json").read_bytes())


def all_judgements(folder: Path) -> list[str]:
    return (folder / "judgements.jsonl").read_text("utf-8").splitlines()


def test_whoever_comes_by_import_cannot_get_in_and_gets_nothing_twice(
    desk: Desk, out: Path, kind: str, fresh: Callable[[str], str]
) -> None:
    freeze_snapshot(desk.store, "one", ALL, "Rita")
    export_snapshot(desk.store, "one", out)
    with Store(fresh(kind), desk.clock) as there:
        import_snapshot(there, out)
        assert {(each.name, each.role) for each in accounts.list_people(there)} == {
            ("Ada", "labeller"),
            ("Ben", "labeller"),
            ("Rita", "labeller"),
        }
        with there.begin_read() as connection:
            assert connection.execute(tables.invites.select()).all() == []
        # Ada has judged all but what was retired; Ben has not demonstrated, and skipped one.
        assert labelling_queue.claim_item(there, "Ada") is None
        lease = labelling_queue.claim_item(there, "Ben")
        assert lease is not None
        assert lease.item.form == "demonstrate"


def test_what_is_learnt_from_is_the_newest_that_counts_and_no_gold(desk: Desk, out: Path) -> None:
    snapshot = freeze_snapshot(desk.store, "one", ALL, "Rita")
    export_snapshot(desk.store, "one", out)
    found = training_data.load_comparisons(out / "comparisons.jsonl")
    assert [(each.question.id, each.by, each.weights) for each in found] == [
        ("q", "Ada", (1.0, 0.0)),
        ("crows0", "Ada", (0.0, 1.0)),
        ("q", "Ben", (1.0, 0.0)),
        ("crows0", "Ben", (0.5, 0.5)),
        ("q", "Rita", (1.0, 0.0)),
        ("crows0", "Rita", (0.5, 0.5)),
        ("crows1", "Ada", (0.0, 1.0)),
    ]
    good = training_data.load_good_answers(out / "ratings.jsonl", ("plausible", "supported"))
    assert sorted(good.values()) == [0.0, 1.0]
    [episode] = training_data.read_episodes([out / "episodes.jsonl"])
    assert (episode.by, len(episode.steps), episode.answer) == ("Ada", 2, QUOTED)
    assert snapshot.left_out == {
        "attention check": 3,
        "corrected later": 1,
        "gold: its answer was known": 3,
        "misread the guide": 1,
        "skipped: too_long": 1,
    }
    assert snapshot.files["excluded.jsonl"].lines == 9
    kinds = [json.loads(line)["why"] for line in lines(out / "excluded.jsonl")]
    assert sorted(kinds) == ["corrected", "excluded"] + ["gold"] * 6 + ["skipped"]
    majority = list(read_json_lines(out / "majority.jsonl", MajorityLabel))
    assert {each.item for each in majority}.isdisjoint(gold_items(out))
    assert {(e.field, e.place): e.value for e in majority}["supported and plausible", (1,)] == 0


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def gold_items(folder: Path) -> set[str]:
    items = [json.loads(line) for line in lines(folder / "items.jsonl")]
    return {item["id"] for item in items if item["item"]["gold"]}


def test_the_manifest_says_what_every_file_is(desk: Desk, out: Path) -> None:
    frozen = freeze_snapshot(
        desk.store, "one", SnapshotSelection(("first",), ("compare_short",)), "Rita"
    )
    export_snapshot(desk.store, "one", out)
    assert {path.name for path in out.iterdir()} == {*SNAPSHOT_FILES, "manifest.json"}
    assert one(out) == frozen
    for name, file in frozen.files.items():
        text = (out / name).read_bytes()
        assert (file.sha256, file.lines) == (hashlib.sha256(text).hexdigest(), text.count(b"\n"))
    names = sorted(SNAPSHOT_FILES)
    said = subprocess.run(["sha256sum", *names], cwd=out, capture_output=True, check=True)
    assert hashlib.sha256(said.stdout).hexdigest() == frozen.digest
    assert set(frozen.versions) == {"rookery", "form compare_short", "guide compare_short"}
    assert frozen.files["items.jsonl"].lines == 5
    assert frozen.files["episodes.jsonl"].lines == 0
    for name, kind in (("comparisons", Comparison), ("ratings", Rating)):
        for line in lines(out / f"{name}.jsonl"):
            assert kind.from_json(line).to_json() == line


def test_names_and_batches_that_make_no_sense_are_refused(desk: Desk, out: Path) -> None:
    freeze_snapshot(desk.store, "one", ALL, "Rita")
    assert failure(freeze_snapshot, desk.store, "one", ALL, "Rita") == "already"
    assert failure(freeze_snapshot, desk.store, " ", ALL, "Rita") == "bad_name"
    assert (
        failure(freeze_snapshot, desk.store, "two", SnapshotSelection(("none",)), "Rita")
        == "nothing"
    )
    assert failure(export_snapshot, desk.store, "two", out) == "no_snapshot"
    out.write_text("in the way")
    assert failure(export_snapshot, desk.store, "one", out) == "unwritable"
    told = [
        (line.action, line.what.split(":")[0]) for line in accounts.list_audit_entries(desk.store)
    ]
    assert told[-1] == ("freeze", "one")


def test_a_row_that_was_changed_shows(desk: Desk, out: Path) -> None:
    freeze_snapshot(desk.store, "one", ALL, "Rita")
    [first, *_] = labelling_queue.list_judgements(desk.store, "Rita", 1)
    changed = msgspec.structs.replace(first, filled={"overall": -2}).to_json()
    its = tables.judgements.c.id == first.id
    with desk.store.begin_write() as connection:
        connection.execute(update(tables.judgements).where(its).values(body=changed))
    assert failure(export_snapshot, desk.store, "one", out) == "changed"
    assert not out.exists()


def test_an_answer_that_its_reader_deleted_is_told(desk: Desk, out: Path) -> None:
    kept, gone = desk.lay(some("thumbs", 2), "asked")
    for item in (kept, gone):
        desk.judge("Ada", item, thumbs=["up"])
    freeze_snapshot(desk.store, "one", ALL, "Rita")
    answer_queue.delete_answer(desk.store, "an answer", gone)
    with pytest.raises(Failed, match=f"{gone}: changed: its reader deleted this answer for good"):
        export_snapshot(desk.store, "one", out)
    assert not out.exists()
    freeze_snapshot(desk.store, "two", ALL, "Rita")
    export_snapshot(desk.store, "two", out)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    initialize_store(str(folder / "store"))
    with Store(str(folder / "store")) as store:
        made = Desk(store, Clock())
        made.hire("Ada")
        made.judge("Ada", made.lay(some("compare_short", 1))[0], overall=1)
        freeze_snapshot(store, "one", ALL, "Ada")
        export_snapshot(store, "one", folder / "out")
    return folder / "out"


def test_files_that_were_changed_or_lost_are_not_imported(
    exported: Path, out: Path, fresh: Callable[[str], str]
) -> None:
    with Store(fresh("sqlite")) as there:
        empty = rows(there)
        for name in sorted(SNAPSHOT_FILES):
            shutil.copytree(exported, out)
            with (out / name).open("ab") as file:
                file.write(b"\n")
            assert failure(import_snapshot, there, out) == "damaged"
            (out / name).unlink()
            assert failure(import_snapshot, there, out) == "damaged"
            shutil.rmtree(out)
        assert rows(there) == empty
        assert accounts.list_people(there) == []


def test_no_folder_no_manifest_and_others_of_the_name_are_told(
    exported: Path, out: Path, fresh: Callable[[str], str]
) -> None:
    with Store(fresh("sqlite")) as there:
        assert failure(import_snapshot, there, out) == "not_found"
        out.mkdir()
        (out / "manifest.json").write_text("{}")
        assert failure(import_snapshot, there, out) == "damaged"
        Desk(there, Clock()).lay(some("thumbs", 1))
        freeze_snapshot(there, "one", ALL, "Ada")
        assert failure(import_snapshot, there, exported) == "already"


def test_a_manifest_names_no_files_of_others(
    exported: Path, out: Path, fresh: Callable[[str], str]
) -> None:
    manifest = one(exported)
    files = {**manifest.files, "../secret": manifest.files["items.jsonl"]}
    said = "".join(f"{file.sha256}  {name}\n" for name, file in sorted(files.items()))
    digest = hashlib.sha256(said.encode()).hexdigest()
    forged = msgspec.structs.replace(manifest, files=files, digest=digest)
    shutil.copytree(exported, out)
    shutil.copy(exported / "items.jsonl", out.parent / "secret")
    (out / "manifest.json").write_text(forged.to_json())
    with Store(fresh("sqlite")) as there:
        assert failure(import_snapshot, there, out) == "damaged"

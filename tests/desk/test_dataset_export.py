"""Exports as datasets of Hugging Face, read by `datasets` itself and by TRL's own checks."""

from pathlib import Path

import msgspec
import pytest
from handed import outcome
from stores import Clock
from working import Desk, some

from rookery.desk.adjudication import decide_item
from rookery.desk.dataset_export import LabelRow, write_dataset
from rookery.desk.rater_quality import exclude_judgements
from rookery.desk.snapshots import SnapshotSelection, export_snapshot, freeze_snapshot
from rookery.desk.store import Store


@pytest.fixture
def export(store: Store, clock: Clock, tmp_path: Path) -> Path:
    """Comparisons with a tie, a decision and an exclusion, and thumbs."""
    desk = Desk(store, clock)
    desk.hire("Ada", "Ben")
    desk.hire("Rex", role="reviewer")
    agreed, tie, disputed = desk.lay(some("compare_short", 3))
    for name, way in (("Ada", 1), ("Ben", -1)):
        desk.judge(name, agreed, overall=2, coherence=1)
        desk.judge(name, tie, overall=0)
        desk.judge(name, disputed, overall=way)
    decide_item(store, disputed, "Rex", {"overall": 1}, "it has a source, the other has none")
    [rated] = desk.lay(some("thumbs", 1, about='a, "quoted"\nlines'))
    desk.judge("Ada", rated, thumbs=["up"])
    lost = desk.judge("Ben", rated, thumbs=["down"])
    exclude_judgements(store, "judgement", lost, "a slip", "Rex")
    freeze_snapshot(store, "march", SnapshotSelection(), "Rex")
    export_snapshot(store, "march", tmp_path / "export")
    return tmp_path / "export"


def read_labels(folder: Path) -> list[LabelRow]:
    lines = (folder / "labels" / "train.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=LabelRow) for line in lines]


def test_datasets_reads_every_configuration(
    export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets  # type: ignore[import-untyped]

    out = tmp_path / "dataset"
    written = write_dataset(export, out)
    assert written.left_out == {"pairs of equal weight": 2}
    assert set(datasets.get_dataset_config_names(str(out))) == set(written.rows)
    tables = {
        name: datasets.load_dataset(
            str(out), name, split="train", cache_dir=str(tmp_path / "cache")
        )
        for name in written.rows
    }
    assert {name: len(table) for name, table in tables.items()} == written.rows
    assert set(tables["preferences"].column_names) == {"prompt", "chosen", "rejected"}
    assert [row["chosen"][-1] for row in tables["preferences"]] == ["1", "1", "1"]
    assert tables["unpaired"][:]["label"] == [True]
    assert list(tables["labels"].column_names) == list(LabelRow.__struct_fields__)


def test_rows_of_an_earlier_export_are_gone_where_there_are_none_now(
    export: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert "unpaired" in write_dataset(export, out).rows
    (export / "ratings.jsonl").write_bytes(b"")
    assert "unpaired" not in write_dataset(export, out).rows
    files = {str(file.relative_to(out)) for file in out.rglob("*") if file.is_file()}
    assert not any("unpaired" in file for file in files)
    assert "preferences/train.jsonl" in files


def test_labels_have_a_line_for_each_choice_and_no_names(export: Path, tmp_path: Path) -> None:
    write_dataset(export, tmp_path / "out")
    rows = read_labels(tmp_path / "out")
    assert [(row.field, row.value, row.rater) for row in rows[:2]] == [
        ("coherence", "1", "1"),
        ("overall", "2", "1"),
    ]
    assert [row.value for row in rows if row.rater == "decision"] == ["1"]
    assert [(row.question, row.value) for row in rows if row.form == "thumbs"] == [
        ('Why a, "quoted"\nlines 0?', "up")
    ]
    whole = "".join(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert not {"Ada", "Ben", "Rex"} & set(whole.replace('"', " ").replace(",", " ").split())


def test_the_seconds_of_a_label_are_those_of_all_its_versions(
    store: Store, clock: Clock, tmp_path: Path
) -> None:
    desk = Desk(store, clock)
    desk.hire("Ada")
    [item] = desk.lay(some("thumbs", 1))
    first = desk.judge("Ada", item, 90, thumbs=["up"])
    clock.pass_by(3600)
    desk.judge("Ada", item, 5, supersedes=first, thumbs=["down"])
    freeze_snapshot(store, "march", SnapshotSelection(), "Ada")
    export_snapshot(store, "march", tmp_path / "export")
    write_dataset(tmp_path / "export", tmp_path / "out")
    [row] = read_labels(tmp_path / "out")
    assert row.seconds == 95.0


def test_what_is_no_export_or_holds_nothing_is_a_sentence(
    store: Store, clock: Clock, tmp_path: Path
) -> None:
    assert outcome(write_dataset, tmp_path, tmp_path / "out") == "not_found"
    Desk(store, clock).lay(some("thumbs", 1))
    freeze_snapshot(store, "empty", SnapshotSelection(), "Rex")
    export_snapshot(store, "empty", tmp_path / "empty")
    assert outcome(write_dataset, tmp_path / "empty", tmp_path / "out") == "nothing"
    assert not (tmp_path / "out").exists()

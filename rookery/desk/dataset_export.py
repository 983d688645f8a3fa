"""Write an exported snapshot as a dataset of Hugging Face: a README with configurations, and files.

`datasets.load_dataset(FOLDER, NAME)` reads each configuration. Preferences are TRL's {prompt,
chosen, rejected}, demonstrations {prompt, completion}, and ratings its unpaired preferences
{prompt, completion, label}. Raters are numbered, not named.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rookery.desk.adjudication import LeftOutJudgement, measure_judging_seconds
from rookery.desk.form_versions import FormVersion, index_forms
from rookery.desk.forms import Decision, Judgement, LabellingForm, find_form
from rookery.desk.judgement_conversion import iterate_stored_values
from rookery.desk.snapshots import (
    DECISIONS_FILE,
    FORMS_FILE,
    MANIFEST_NAME,
    Snapshot,
    SnapshotItem,
)
from rookery.desk.training_formats import (
    format_answer_with_quotes,
    make_demonstration_rows,
    make_preference_rows,
)
from rookery.errors import Failed, Outcome
from rookery.library.page_archive import write_whole_file
from rookery.measure.ratings import GOOD_SCALE
from rookery.records import Comparison, Episode, Failure, Rating
from rookery.typed_files import read_json_lines

UNPAIRED_SCALES = (GOOD_SCALE, "thumbs")
"""scales whose ratings say that an answer is good (1) or not (0)"""
_SPLIT = "train"


class WrittenDataset(NamedTuple):
    """A dataset as written."""

    rows: Mapping[str, int]
    """number of rows of each configuration; empty ones are left out"""
    left_out: Mapping[str, int]
    """counts of what the formats cannot hold, by reason"""


class LabelRow(msgspec.Struct, frozen=True):
    """One choice that somebody made."""

    item: str
    batch: str
    form: str
    question: str
    field: str
    answer: int | None
    """number of the answer that it is about, from 1; None: all of them"""
    quote: int | None
    """number of the quote that it is about, from 1; None: none"""
    rater: str
    """number of the rater; "decision" for the third person who decided"""
    value: str
    """as it is stored: of a choice its value, of levels their number from 0"""
    seconds: float | None
    """from handing out to submission, and the same of corrections; None for a decision"""


def write_dataset(source: Path, out: Path) -> WrittenDataset:
    """Write a folder that `export_snapshot` wrote as a dataset in the folder `out`.

    The configurations are preferences, unpaired, demonstrations and labels; files of those that
    have no row now are removed. Raises Failed: not_found, bad_line, not_written, nothing (no row
    can be made).
    """
    snapshot = _read_manifest(source)
    preferred = make_preference_rows(read_json_lines(source / "comparisons.jsonl", Comparison))
    demonstrations = make_demonstration_rows(read_json_lines(source / "episodes.jsonl", Episode))
    tables: dict[str, Sequence[object]] = {
        "preferences": preferred.rows,
        "unpaired": list(_make_unpaired_rows(source)),
        "demonstrations": demonstrations.rows,
        "labels": list(_make_label_rows(source, snapshot)),
    }
    # `datasets` cannot read an empty file.
    rows = {name: some for name, some in tables.items() if some}
    if not rows:
        detail = "nothing in it can be learnt from: export it when something was judged"
        raise Failed(Failure(str(source), Outcome.NOTHING, detail))
    counts = {name: len(some) for name, some in rows.items()}
    files = {
        _name_file(name): [msgspec.json.encode(row) + b"\n" for row in some]
        for name, some in rows.items()
    }
    files["README.md"] = [_write_card(snapshot, counts).encode()]
    try:
        for file, lines in files.items():
            (out / file).parent.mkdir(parents=True, exist_ok=True)
            write_whole_file(out / file, lines)
        for name in tables.keys() - rows.keys():
            (out / _name_file(name)).unlink(missing_ok=True)
    except OSError as error:
        detail = f"make room, or allow writing there, and run again ({error.strerror})"
        raise Failed(Failure(str(out), Outcome.NOT_WRITTEN, detail)) from error
    return WrittenDataset(counts, preferred.left_out + demonstrations.left_out)


def _read_manifest(source: Path) -> Snapshot:
    path = source / MANIFEST_NAME
    try:
        return Snapshot.from_json(path.read_bytes())
    except (OSError, msgspec.MsgspecError, ValueError) as error:
        detail = "name a folder that rookery judge export wrote"
        raise Failed(Failure(str(path), Outcome.NOT_FOUND, detail)) from error


def _make_unpaired_rows(source: Path) -> Iterator[dict[str, object]]:
    for rating in read_json_lines(source / "ratings.jsonl", Rating):
        if rating.scale in UNPAIRED_SCALES and rating.value in (0.0, 1.0):
            yield {
                "prompt": rating.question.text,
                "completion": format_answer_with_quotes(rating.answer),
                "label": rating.value == 1.0,
            }


def _make_label_rows(source: Path, snapshot: Snapshot) -> Iterator[LabelRow]:
    """Yield a row for each choice in judgements that count, known answers aside, and decisions."""
    items = {each.id: each for each in read_json_lines(source / "items.jsonl", SnapshotItem)}
    written = FORMS_FILE in snapshot.files
    known_forms = index_forms(read_json_lines(source / FORMS_FILE, FormVersion) if written else ())
    judged = list(read_json_lines(source / "judgements.jsonl", Judgement))
    excluded = read_json_lines(source / "excluded.jsonl", LeftOutJudgement)
    seconds = measure_judging_seconds(judged)
    lost = {each.judgement for each in excluded if each.why != "decided"}
    numbers = {name: str(at) for at, name in enumerate(sorted({each.by for each in judged}), 1)}
    for each in judged:
        if each.id not in lost:
            took = round(seconds[each.id], 1)
            placed = items[each.item]
            form = find_form(known_forms, placed.item.form, each.form_version)
            yield from _list_labels(placed, form, each.filled, numbers[each.by], took)
    if DECISIONS_FILE in snapshot.files:
        for decision in read_json_lines(source / DECISIONS_FILE, Decision):
            placed = items[decision.item]
            form = find_form(known_forms, placed.item.form, decision.form_version)
            yield from _list_labels(placed, form, decision.filled, "decision", None)


def _list_labels(
    placed: SnapshotItem,
    form: LabellingForm | None,
    filled: Mapping[str, Any],
    rater: str,
    seconds: float | None,
) -> Iterator[LabelRow]:
    about = (placed.id, placed.batch, placed.item.form, placed.item.question.text)
    for field, place, value in iterate_stored_values(form, filled) if form else ():
        answer, quote = (*(number + 1 for number in place), None, None)[:2]
        yield LabelRow(*about, field.name, answer, quote, rater, str(value), seconds)


def _name_file(name: str) -> str:
    return f"{name}/{_SPLIT}.jsonl"


def _write_card(snapshot: Snapshot, counts: Mapping[str, int]) -> str:
    """Return the README: configurations as YAML, then what they are."""
    configs = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: {_SPLIT}\n    path: {_name_file(name)}\n"
        for name in counts
    )
    counts_text = "".join(f"- `{name}`: {count:,} rows\n" for name, count in counts.items())
    return (
        f"---\nconfigs:\n{configs}---\n# {snapshot.name}\n\n"
        "Judgements collected with Rookery. Raters are numbered, not named.\n\n"
        f"{counts_text}\nMade from a snapshot whose SHA-256 is {snapshot.digest}.\n"
    )

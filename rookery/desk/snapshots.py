"""Snapshots: judgements frozen under a name, exported as the same bytes each time, and imported
again; and their table (CSV), with a row for every value that somebody gave in some field.

Later submissions, exclusions and lifted exclusions do not change a snapshot.
"""

import csv
import hashlib
import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, Row, insert, select

from rookery.desk.accounts import PersonRole, add_person, list_people, write_audit_entry
from rookery.desk.adjudication import (
    LabellingData,
    LeftOutJudgement,
    PlacedItem,
    convert_to_judgement,
    derive_majority_labels,
    load_decisions,
    load_exclusions,
    load_labelling_data,
    restore_decisions,
    select_active_exclusions,
    write_exclusion,
)
from rookery.desk.form_versions import (
    FormVersion,
    index_forms,
    read_form_versions,
    restore_form_versions,
)
from rookery.desk.forms import Decision, FormField, Judgement, LabellingItem, make_item_id
from rookery.desk.judgement_conversion import (
    convert_to_comparison,
    convert_to_episode,
    convert_to_ratings,
    flatten_value,
    get_value_label,
)
from rookery.desk.labelling_queue import add_items, restore_judgements, retire_items
from rookery.desk.store import Store, store_page, take_advisory_lock
from rookery.desk.tables import pages, snapshots
from rookery.errors import Failed, Outcome
from rookery.library.page_archive import write_whole_file
from rookery.records import Failure, Page, Record
from rookery.typed_files import read_json_lines
from rookery.version import __version__

SNAPSHOT_FILES = frozenset(
    f"{name}.jsonl"
    for name in "comparisons ratings episodes majority".split()
    + "items judgements excluded people pages".split()
)
FORMS_FILE = "forms.jsonl"
"""file of the forms that people wrote; only in snapshots with items of such forms"""
DECISIONS_FILE = "decisions.jsonl"
"""file of a snapshot in which raters' disagreements were decided"""
_DIGESTS_PER_QUERY = 500
"""digests in one query"""


class SnapshotSelection(Record, frozen=True):
    """Items of a snapshot, by batch and form; empty: any."""

    batches: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()


class SnapshotItem(Record, frozen=True):
    """An item as it was queued: a line of items.jsonl."""

    id: str
    batch: str
    wanted: int
    priority: int
    prelude: bool
    policy: int | None
    retired: str | None
    """reason why it was no longer handed out; None: it still was"""
    item: LabellingItem


class SnapshotPerson(Record, frozen=True):
    """A person with their role: a line of people.jsonl."""

    name: str
    role: PersonRole


class SnapshotContents(Record, frozen=True):
    """Contents of a snapshot."""

    wanted: SnapshotSelection
    items: tuple[str, ...]
    judgements: tuple[str, ...]
    pages: tuple[str, ...]
    """keys of the quoted pages"""
    people: tuple[SnapshotPerson, ...]
    left: tuple[LeftOutJudgement, ...]
    retired: dict[str, str]
    """reason of retirement by item id"""
    versions: dict[str, tuple[str, ...]]
    """versions of Rookery, and of the forms and guides that people saw"""
    forms: tuple[tuple[str, int], ...] = ()
    """names and versions of the forms that people wrote, of which there are items"""
    decisions: tuple[str, ...] = ()
    """ids of the decisions on items on which raters disagreed"""


T = TypeVar("T")
SnapshotLines = Mapping[str, Callable[[], Iterable[str]]]
"""function that yields the lines, by file name"""


def capture_contents(connection: Connection, selection: SnapshotSelection) -> SnapshotContents:
    """Collect the items that match a selection, with judgements, quoted pages and exclusions.

    These are the contents of a snapshot as of now.
    """
    work = load_labelling_data(connection, selection.batches, selection.forms)
    names = {each.by for each in work.judgements} | {each.by for each in work.decisions.values()}
    return SnapshotContents(
        selection,
        tuple(work.items),
        tuple(each.id for each in work.judgements),
        tuple(_find_quoted_pages(connection, work)),
        tuple(SnapshotPerson(name, work.roles[name]) for name in sorted(names)),
        tuple(work.left_out[each.id] for each in work.judgements if each.id in work.left_out),
        {key: each.retired for key, each in work.items.items() if each.retired is not None},
        _collect_versions(work),
        _list_written_forms(connection, work),
        tuple(each.id for each in work.decisions.values()),
    )


def _list_written_forms(connection: Connection, work: LabellingData) -> tuple[tuple[str, int], ...]:
    names = {placed.item.form for placed in work.items.values()}
    versions = read_form_versions(connection)
    return tuple((each.name, each.version) for each in versions if each.name in names)


def _collect_versions(work: LabellingData) -> dict[str, tuple[str, ...]]:
    versions: dict[str, set[str]] = defaultdict(set)
    for each in work.judgements:
        if each.form_version:  # skips and flags have no form version
            form = work.items[each.item].item.form
            versions[f"form {form}"].add(each.form_version)
            versions[f"guide {form}"].add(str(each.guide_version))
    named = {name: tuple(sorted(some)) for name, some in sorted(versions.items())}
    return {"rookery": (__version__,), **named}


def _find_quoted_pages(connection: Connection, work: LabellingData) -> list[str]:
    """Return the keys of pages quoted in judged and in written answers."""
    answers = [answer for placed in work.items.values() for answer in placed.item.answers]
    for placed, judgement in work.iterate_counted():
        written = convert_to_episode(placed.item, judgement)
        answers += [written.answer] if written is not None and written.answer is not None else []
    digests = sorted({quote.digest for answer in answers for quote in answer.quotes})
    keys: list[str] = []
    for at in range(0, len(digests), _DIGESTS_PER_QUERY):
        some = pages.c.digest.in_(digests[at : at + _DIGESTS_PER_QUERY])
        keys += connection.scalars(select(pages.c.key).where(some))
    return sorted(keys)


def render_snapshot_lines(connection: Connection, frozen: SnapshotContents) -> SnapshotLines:
    """Return a function for each file of a snapshot that yields its lines, without line breaks.

    Items and judgements are those of the frozen contents, read from the store by the connection,
    which must still be open when the functions are called. Raises Failed (changed) at once if a
    reader deleted one of the answers.
    """
    everything = _restore_labelling_data(connection, frozen)
    decided = [convert_to_judgement(each) for each in everything.decisions.values()]
    counted = [
        each
        for each in everything.judgements
        if not (_is_gold(everything.items[each.item]) or each.item in everything.decisions)
    ]
    learnt = everything._replace(judgements=counted + decided)
    forms = everything.forms
    records: dict[str, Callable[[], Iterable[Record]]] = {
        "comparisons": lambda: (
            comparison
            for placed, each in learnt.iterate_counted()
            if (comparison := convert_to_comparison(placed.item, each, forms)) is not None
        ),
        "ratings": lambda: (
            rating
            for placed, each in learnt.iterate_counted()
            for rating in convert_to_ratings(placed.item, each, forms)
        ),
        "episodes": lambda: (
            episode
            for placed, each in learnt.iterate_counted()
            if (episode := convert_to_episode(placed.item, each)) is not None
        ),
        "majority": lambda: derive_majority_labels(learnt),
        "items": lambda: map(_make_snapshot_item, everything.items.values()),
        "judgements": lambda: everything.judgements,
        "excluded": lambda: _list_not_learnt(everything),
        "people": lambda: frozen.people,
    }
    lines: dict[str, Callable[[], Iterable[str]]] = {
        f"{name}.jsonl": partial(_encode_records, make) for name, make in records.items()
    }
    lines["pages.jsonl"] = partial(_load_page_bodies, connection, frozen.pages)
    # Snapshots of before there were forms and decisions stay the same bytes.
    if frozen.forms:
        written = _read_frozen_forms(connection, frozen)
        lines[FORMS_FILE] = partial(_encode_records, lambda: written)
    if everything.decisions:
        lines[DECISIONS_FILE] = partial(_encode_records, everything.decisions.values)
    return lines


def _encode_records(make: Callable[[], Iterable[Record]]) -> Iterator[str]:
    return (each.to_json() for each in make())


def _read_frozen_forms(connection: Connection, frozen: SnapshotContents) -> list[FormVersion]:
    names = set(frozen.forms)
    return [each for each in read_form_versions(connection) if (each.name, each.version) in names]


def _restore_labelling_data(connection: Connection, frozen: SnapshotContents) -> LabellingData:
    """Rebuild the items and judgements as they were when frozen, in that order.

    Raises Failed (changed) if a reader deleted one of the answers for good, with its ratings.
    """
    now = load_labelling_data(connection, frozen.wanted.batches, frozen.wanted.forms)
    submitted = {each.id: each for each in now.judgements}
    decided = {each.id: each for each in load_decisions(connection)}
    if deleted := [key for key in frozen.items if key not in now.items]:
        detail = "its reader deleted this answer for good: freeze a new snapshot, without it"
        raise Failed(Failure(deleted[0], Outcome.CHANGED, detail))
    return LabellingData(
        {key: now.items[key]._replace(retired=frozen.retired.get(key)) for key in frozen.items},
        [submitted[key] for key in frozen.judgements],
        {excluded.judgement: excluded for excluded in frozen.left},
        {person.name: person.role for person in frozen.people},
        index_forms(_read_frozen_forms(connection, frozen)),
        decisions={decided[key].item: decided[key] for key in frozen.decisions},
    )


def _make_snapshot_item(placed: PlacedItem) -> SnapshotItem:
    rest = (placed.wanted, placed.priority, placed.prelude, placed.policy, placed.retired)
    return SnapshotItem(placed.id, placed.batch, *rest, placed.item)


def _is_gold(placed: PlacedItem) -> bool:
    return placed.item.gold is not None or placed.prelude


def _list_not_learnt(work: LabellingData) -> Iterator[LeftOutJudgement]:
    """Yield every judgement that is in no file to learn from, with the reason."""
    for each in work.judgements:
        placed = work.items[each.item]
        if each.id in work.left_out:
            yield work.left_out[each.id]
        elif each.kind in ("skipped", "flagged"):
            reason = f"{each.kind}: {each.filled.get('reason', '')}"
            yield LeftOutJudgement(each.id, each.kind, reason, each.by, each.ended)
        elif (decision := work.decisions.get(each.item)) is not None:
            yield LeftOutJudgement(each.id, "decided", decision.reason, decision.by, decision.at)
        elif _is_gold(placed):
            reason = "attention check" if placed.prelude else "gold: its answer was known"
            yield LeftOutJudgement(each.id, "gold", reason, "", each.ended)


def _load_page_bodies(connection: Connection, keys: Sequence[str]) -> Iterator[str]:
    for key in keys:
        yield str(connection.scalar(select(pages.c.body).where(pages.c.key == key)))


MANIFEST_NAME = "manifest.json"


class SnapshotFile(Record, frozen=True):
    """Size and digest of one exported file."""

    lines: int
    sha256: str


class Snapshot(Record, frozen=True):
    """Description of a snapshot: manifest.json."""

    name: str
    by: str
    at: float
    wanted: SnapshotSelection
    versions: dict[str, tuple[str, ...]]
    files: dict[str, SnapshotFile]
    left_out: dict[str, int]
    """judgements that are not learnt from, by reason"""
    digest: str
    """SHA-256 of the output of `sha256sum *.jsonl` on the files"""


class ImportedSnapshot(NamedTuple):
    """Numbers of imported items and judgements that were new."""

    name: str
    """name of the snapshot"""
    items: int
    judgements: int


def freeze_snapshot(store: Store, name: str, selection: SnapshotSelection, by: str) -> Snapshot:
    """Freeze the current items and judgements of a selection under a new name.

    Raises Failed: bad_name (blank, or not printable), already (the name is taken), nothing (no item
    matches).
    """
    if not name.strip() or not name.isprintable():
        detail = "give the snapshot a name of letters that show"
        raise Failed(Failure(name, Outcome.BAD_NAME, detail))
    with store.begin_read() as connection:  # may take seconds, and blocks no writer
        frozen = capture_contents(connection, selection)
        if not frozen.items:
            detail = "there are no items in these batches and forms: import some, or name others"
            raise Failed(Failure(name, Outcome.NOTHING, detail))
        snapshot = _describe_contents(
            name, by, store.clock(), frozen, render_snapshot_lines(connection, frozen)
        )
    with store.begin_write() as connection:
        take_advisory_lock(connection, "snapshots")
        if _find_snapshot_row(connection, name) is not None:
            detail = "there is a snapshot of this name: choose another, or export that one"
            raise Failed(Failure(name, Outcome.ALREADY, detail))
        _insert_snapshot_row(connection, snapshot, frozen)
        write_audit_entry(connection, by, "freeze", f"{name}: {snapshot.digest}", snapshot.at)
    return snapshot


def list_snapshot_names(store: Store) -> list[str]:
    """Return the names of all snapshots, oldest first."""
    query = select(snapshots.c.name).order_by(snapshots.c.at, snapshots.c.name)
    with store.begin_read() as connection:
        return list(connection.scalars(query))


def export_snapshot(
    store: Store, name: str, folder: Path, by: str = "rookery judge", table: bool = False
) -> Snapshot:
    """Write a snapshot's files, byte for byte the same each time, and the manifest last.

    comparisons.jsonl, ratings.jsonl and episodes.jsonl are for training and majority.jsonl holds
    majority labels; these four leave out items with known answers, and have a third person's
    decision in place of the judgements that it decided between. The other files say who judged
    what, and what is left out and why; decisions.jsonl is there if something was decided. With
    `table` there is also a CSV file of every value that was given, which is no part of the
    snapshot. Raises Failed: no_snapshot; unwritable; changed, if this version of Rookery derives
    other files from the judgements than the one that froze them, or a reader deleted an answer.
    """
    with store.begin_read() as connection:
        row = _find_snapshot_row(connection, name)
        if row is None:
            detail = "there is no such snapshot: look at their names, or freeze one"
            raise Failed(Failure(name, Outcome.NO_SNAPSHOT, detail))
        frozen = SnapshotContents.from_json(row.body)
        lines = render_snapshot_lines(connection, frozen)
        exported = _describe_contents(name, row.by, row.at, frozen, lines)
        if exported.digest != row.digest:
            [before] = frozen.versions["rookery"]
            detail = (
                f"Rookery {before} froze it, and Rookery {__version__} reads it otherwise: export "
                "it with the former, or freeze it anew under another name"
            )
            raise Failed(Failure(name, Outcome.CHANGED, detail))
        with _translate_disk_errors(folder):
            for file, written in lines.items():
                write_whole_file(folder / file, _encode_lines(written()))
            if table:
                rows = render_judgement_table(_restore_labelling_data(connection, frozen))
                write_whole_file(folder / TABLE_FILE, _encode_lines(rows))
            manifest = msgspec.json.format(exported.to_json(), indent=2)
            write_whole_file(folder / MANIFEST_NAME, _encode_lines([manifest]))
    with store.begin_write() as connection:
        write_audit_entry(connection, by, "export", f"{name}: {exported.digest}", store.clock())
    return exported


def import_snapshot(store: Store, folder: Path, by: str = "rookery judge") -> ImportedSnapshot:
    """Import a folder that `export_snapshot` wrote: people, pages, items, judgements, snapshot.

    An interrupted import can be repeated; importing a snapshot that is there adds nothing. People
    are created as labellers without an invitation; excluded judgements are imported as exclusions
    of each one, except those that were imported before, even if they were lifted since. Everything
    is read and checked before anything is stored. Raises Failed: not_found; bad_line; damaged, if
    files were changed or are missing; already, if another snapshot has this name.
    """
    exported = _read_exported_folder(folder)
    with store.begin_read() as connection:
        row = _find_snapshot_row(connection, exported.snapshot.name)
    if row is not None and row.digest != exported.snapshot.digest:
        detail = "another snapshot here has this name: import it into a store of its own"
        raise Failed(Failure(exported.snapshot.name, Outcome.ALREADY, detail))
    if row is not None:  # it is stored last, so that everything of it is there
        return ImportedSnapshot(exported.snapshot.name, 0, 0)
    known_people = {person.name for person in list_people(store)}
    restore_form_versions(store, exported.forms)
    for name in (each.name for each in exported.people if each.name not in known_people):
        add_person(store, name, "labeller")
    with store.begin_write() as connection:
        for page in exported.pages:
            store_page(connection, page)
    new = 0
    for how, group in groupby(exported.items, _get_queue_options):
        new += add_items(store, (each.item for each in group), *how).new
    judged = restore_judgements(store, exported.judgements)
    retired = {each.id: each.retired for each in exported.items if each.retired is not None}
    for why in sorted(set(retired.values())):
        retire_items(store, why, [key for key, reason in retired.items() if reason == why])
    with store.begin_write() as connection:
        take_advisory_lock(connection, "snapshots")
        if _find_snapshot_row(connection, exported.snapshot.name) is None:
            _restore_exclusions(connection, exported.left)
            restore_decisions(connection, exported.decisions)
            _insert_snapshot_row(connection, exported.snapshot, exported.to_contents())
            what = f"{folder}: {exported.snapshot.digest}"
            write_audit_entry(connection, by, "import", what, store.clock())
    return ImportedSnapshot(exported.snapshot.name, new, judged)


def _get_queue_options(laid: SnapshotItem) -> tuple[str, int, int, bool, int | None]:
    return laid.batch, laid.wanted, laid.priority, laid.prelude, laid.policy


def _restore_exclusions(connection: Connection, left_out: Iterable[LeftOutJudgement]) -> None:
    """Store the exclusions of these judgements, leaving out those excluded already and those whose
    exclusion was lifted since it was imported."""
    rows = [row for row in load_exclusions(connection) if row.what == "judgement"]
    active = {row.which for row in select_active_exclusions(rows)}
    decided = {(row.which, row.by, row.at) for row in rows if row.lifts is None}
    for each in left_out:
        recorded = each.judgement in active or (each.judgement, each.by, each.at) in decided
        if each.why == "excluded" and not recorded:
            which, reason = each.judgement, each.reason
            write_exclusion(connection, "judgement", which, reason, each.by, each.at)


def _describe_contents(
    name: str, by: str, at: float, frozen: SnapshotContents, lines: SnapshotLines
) -> Snapshot:
    files = {file: _measure_lines(written()) for file, written in lines.items()}
    reasons = Counter(
        LeftOutJudgement.from_json(line).counted_as for line in lines["excluded.jsonl"]()
    )
    left_out = dict(sorted(reasons.items()))
    return Snapshot(
        name, by, at, frozen.wanted, frozen.versions, files, left_out, _digest_files(files)
    )


def _measure_lines(lines: Iterable[str]) -> SnapshotFile:
    count, found = 0, hashlib.sha256()
    for line in _encode_lines(lines):
        count += 1
        found.update(line)
    return SnapshotFile(count, found.hexdigest())


def _encode_lines(lines: Iterable[str]) -> Iterator[bytes]:
    return (f"{line}\n".encode() for line in lines)


def _digest_files(files: dict[str, SnapshotFile]) -> str:
    said = "".join(f"{file.sha256}  {name}\n" for name, file in sorted(files.items()))
    return hashlib.sha256(said.encode()).hexdigest()


def _find_snapshot_row(connection: Connection, name: str) -> Row[Any] | None:
    return connection.execute(snapshots.select().where(snapshots.c.name == name)).first()


def _insert_snapshot_row(
    connection: Connection, snapshot: Snapshot, frozen: SnapshotContents
) -> None:
    said = {"name": snapshot.name, "digest": snapshot.digest, "by": snapshot.by}
    connection.execute(insert(snapshots).values(**said, at=snapshot.at, body=frozen.to_json()))


@contextmanager
def _translate_disk_errors(folder: Path) -> Iterator[None]:
    """Create the folder and convert disk errors to Failed (unwritable)."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        where = str(error.filename or folder)
        detail = f"{error.strerror}: make room, or allow writing there, and export again"
        raise Failed(Failure(where, Outcome.UNWRITABLE, detail)) from error


class _ExportedFolder(NamedTuple):
    """Contents of an exported folder."""

    snapshot: Snapshot
    people: list[SnapshotPerson]
    pages: list[Page]
    items: list[SnapshotItem]
    judgements: list[Judgement]
    left: list[LeftOutJudgement]
    forms: list[FormVersion]
    decisions: list[Decision]

    def to_contents(self) -> SnapshotContents:
        """Return the contents as the store had them."""
        return SnapshotContents(
            self.snapshot.wanted,
            tuple(each.id for each in self.items),
            tuple(each.id for each in self.judgements),
            tuple(hashlib.sha256(page.to_json().encode()).hexdigest() for page in self.pages),
            tuple(self.people),
            tuple(each for each in self.left if each.why in ("corrected", "excluded")),
            {each.id: each.retired for each in self.items if each.retired is not None},
            self.snapshot.versions,
            tuple((each.name, each.version) for each in self.forms),
            tuple(each.id for each in self.decisions),
        )


def _read_exported_folder(folder: Path) -> _ExportedFolder:
    """Read and verify an exported folder. Raises Failed: not_found, bad_line, damaged."""
    snapshot = _read_manifest(folder)
    if (
        set(snapshot.files) - {FORMS_FILE, DECISIONS_FILE} != SNAPSHOT_FILES
        or _digest_files(snapshot.files) != snapshot.digest
    ):
        raise _make_damaged_error(folder / MANIFEST_NAME, "it was changed since it was exported")
    for name, file in snapshot.files.items():
        if _hash_file(folder / name) != file.sha256:
            raise _make_damaged_error(folder / name, "it was changed since it was exported")

    def read_records(name: str, kind: type[T]) -> list[T]:
        """Read a file, which old snapshots may lack."""
        file = f"{name}.jsonl"
        return list(read_json_lines(folder / file, kind)) if file in snapshot.files else []

    exported = _ExportedFolder(
        snapshot,
        read_records("people", SnapshotPerson),
        read_records("pages", Page),
        read_records("items", SnapshotItem),
        read_records("judgements", Judgement),
        read_records("excluded", LeftOutJudgement),
        read_records("forms", FormVersion),
        read_records("decisions", Decision),
    )
    for each in exported.items:
        if each.id != make_item_id(each.batch, each.item):
            raise _make_damaged_error(folder / "items.jsonl", "another version of Rookery wrote it")
    items, names = {each.id for each in exported.items}, {each.name for each in exported.people}
    judged = {(each.item, each.by) for each in exported.judgements}
    judged |= {(each.item, each.by) for each in exported.decisions}
    if any(item not in items or by not in names for item, by in judged):
        raise _make_damaged_error(
            folder / "judgements.jsonl", "an item or a person of it is not there"
        )
    return exported


def _read_manifest(folder: Path) -> Snapshot:
    path = folder / MANIFEST_NAME
    try:
        return Snapshot.from_json(path.read_bytes())
    except OSError as error:
        detail = f"this is no exported snapshot ({error.strerror}): name its folder"
        raise Failed(Failure(str(path), Outcome.NOT_FOUND, detail)) from error
    except ValueError as error:
        raise _make_damaged_error(path, f"this is no manifest ({error})") from error


def _hash_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _make_damaged_error(path, f"it cannot be read ({error.strerror})") from error


def _make_damaged_error(path: Path, why: str) -> Failed:
    return Failed(Failure(str(path), Outcome.DAMAGED, f"{why}: export it again"))


TABLE_FILE = "values.csv"
"""name of the table among the files of an exported snapshot"""
TABLE_COLUMNS = (
    *("batch", "item", "question_id", "question", "form", "form_version", "judgement", "person"),
    *("kind", "left_out", "began", "ended", "field", "field_label", "answer", "writer", "quote"),
    *("start", "end", "value", "value_label"),
)
"""columns. Answers and quotes are numbered from 1 in the order of the item, offsets count the
characters of the answer from 0, times are seconds since 1970 in UTC. `left_out` is the reason why a
judgement does not count; empty: it counts"""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""beginnings of cells that a spreadsheet would run as formulas"""


def render_judgement_table(work: LabellingData) -> Iterator[str]:
    """Yield the lines of the table, without line breaks at their ends, the columns first.

    Cells that a spreadsheet would take for a formula begin with an apostrophe. Skips and flags are
    left out, and the episodes of demonstrations.
    """
    yield ",".join(TABLE_COLUMNS)
    for judgement in work.judgements:
        if judgement.kind in ("done", "extra"):
            for cells in _list_rows(work, work.items[judgement.item], judgement):
                line = io.StringIO()
                csv.writer(line, lineterminator="").writerow(map(protect_cell, cells))
                yield line.getvalue()


def protect_cell(value: Any) -> Any:
    """Return a cell with an apostrophe before it if a spreadsheet would run it as a formula."""
    # A number alone, such as -2 of a comparison, is no formula.
    if not isinstance(value, str) or re.fullmatch("-?[0-9]+", value):
        return value
    return f"'{value}" if value.startswith(_FORMULA_STARTS) else value


def _list_rows(
    work: LabellingData, placed: PlacedItem, judgement: Judgement
) -> Iterator[list[Any]]:
    form = work.find_form(judgement)
    left_out = work.left_out.get(judgement.id)
    question = placed.item.question
    shared = [placed.batch, placed.id, question.id, question.text, placed.item.form]
    shared += [judgement.form_version, judgement.id, judgement.by, judgement.kind]
    shared.append(left_out.counted_as if left_out else "")
    shared += [f"{judgement.began:.0f}", f"{judgement.ended:.0f}"]
    for field in form.fields if form else ():
        for place, value in _iterate_values(field, judgement.filled.get(field.name)):
            answer, quote, start, end = place
            of = placed.item.writers[answer] if placed.item.writers and answer is not None else ""
            where = [_count_from_one(answer), of, _count_from_one(quote), start, end]
            yield [*shared, field.name, field.label, *where, value, get_value_label(field, value)]


_Place = tuple[int | None, int | None, int | str, int | str]
"""answer, quote, start and end of a value"""


def _iterate_values(field: FormField, value: Any) -> Iterator[tuple[_Place, Any]]:
    """Yield each value of a field with what it is about, leaving out what was not filled in."""
    if field.kind not in ("claims", "spans"):
        for numbers, one in flatten_value(value):
            if one is not None:
                answer, quote = (*numbers, None, None)[:2]
                yield (answer, quote, "", ""), one
        return
    for span in value or ():
        parts = [f"{part.name} {span[part.name]}" for part in field.span_parts]
        parts += [f"quote {quote + 1}" for quote in span.get("quotes", ())]
        label = span["label"] if field.kind == "spans" else ", ".join(parts)
        yield (span["answer"], None, span["start"], span["end"]), label


def _count_from_one(number: int | None) -> int | str:
    return "" if number is None else number + 1

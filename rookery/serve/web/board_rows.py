"""What the lead's board lists besides quality: how far each batch is, what was flagged or skipped.

It knows nothing of how a board looks.
"""

import io
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import case, func, select

from rookery.judge import snapshots
from rookery.judge.fields import Field, Form
from rookery.judge.forms import FLAGS, SKIPS
from rookery.judge.frozen import Frozen, Wanted
from rookery.judge.store import Store
from rookery.judge.tables import items, judgements, slots
from rookery.judge.tables import snapshots as kept
from rookery.judge.work import Item, Judgement

EARLIEST = (1980, 1, 1, 0, 0, 0)
"""the time of each file in a zip, so that the same files are the same bytes"""

POINTS = {
    -2: "answer 1 much better",
    -1: "answer 1 better",
    0: "equally good",
    1: "answer 2 better",
    2: "answer 2 much better",
}


class Batch(NamedTuple):
    """How far a batch is, in places: one for each person who is to judge an item."""

    name: str
    forms: list[str]
    items: int
    retired: int
    """items"""
    done: int
    in_hand: int
    waiting: int
    """for somebody to take them"""

    @property
    def places(self) -> int:
        """Those that were filled or can still be."""
        return self.done + self.in_hand + self.waiting


class Returned(NamedTuple):
    """An item that somebody flagged or skipped."""

    id: str
    batch: str
    item: Item
    retired: str | None
    judgements: list[Judgement]

    @property
    def flags(self) -> int:
        """How many said that something is wrong with it."""
        return sum(one.kind == "flagged" for one in self.judgements)


class Taken(NamedTuple):
    """A snapshot."""

    name: str
    by: str
    at: float
    digest: str
    wanted: Wanted
    items: int
    judgements: int


def batches(store: Store) -> list[Batch]:
    """All batches, the newest first."""
    now = store.clock()
    held = slots.c.person.is_not(None) & (slots.c.until >= now)
    still = ~slots.c.done & ~slots.c.retired
    per_item = (
        select(
            slots.c.item,
            func.sum(case((slots.c.done, 1), else_=0)).label("done"),
            func.sum(case((still & held, 1), else_=0)).label("held"),
            func.sum(case((still, 1), else_=0)).label("still"),
        )
        .group_by(slots.c.item)
        .subquery()
    )
    query = (
        select(
            items.c.batch,
            func.count(),
            func.count(items.c.retired),
            func.sum(per_item.c.done),
            func.sum(per_item.c.held),
            func.sum(per_item.c.still - per_item.c.held),
        )
        .join(per_item, per_item.c.item == items.c.id)
        .group_by(items.c.batch)
        .order_by(func.max(items.c.number).desc())
    )
    with store.reading() as connection:
        pairs = connection.execute(select(items.c.batch, items.c.form).distinct()).all()
        forms = {batch: sorted(form for one, form in pairs if one == batch) for batch, _ in pairs}
        return [Batch(row[0], forms[row[0]], *row[1:]) for row in connection.execute(query)]


def returned(store: Store, most: int) -> list[Returned]:
    """What was flagged or skipped, the newest first."""
    query = (
        select(items, judgements.c.body.label("said"))
        .join(judgements, judgements.c.item == items.c.id)
        .where(judgements.c.kind.in_(("flagged", "skipped")))
        .order_by(judgements.c.number.desc())
        .limit(most)
    )
    found: dict[str, Returned] = {}
    with store.reading() as connection:
        for row in connection.execute(query):
            new = Returned(row.id, row.batch, Item.from_json(row.body), row.why, [])
            found.setdefault(row.id, new).judgements.append(Judgement.from_json(row.said))
    return list(found.values())


def told(form: Form, filled: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What somebody filled in, in words; answers are counted as the item has them, from 1."""
    fields = {field.name: field for field in form.fields}
    known = {name: value for name, value in filled.items() if value not in (None, "", [])}
    if "reason" in known and "reason" not in fields:  # of who left it
        return [("Why", reason(filled))]
    return [
        (fields[name].label, _worded(fields[name], value))
        for name, value in known.items()
        if name in fields
    ]


def reason(filled: Mapping[str, Any]) -> str:
    """Why somebody skipped or flagged an item."""
    said = str(filled.get("reason") or "no reason given")
    return {choice.value: choice.label for choice in (*FLAGS, *SKIPS)}.get(said, said)


def _worded(field: Field, value: Any) -> str:
    if field.kind == "claims":
        return f"{len(value)} marked"
    if isinstance(value, list):
        return "; ".join("not said" if one is None else _worded(field, one) for one in value)
    if field.kind == "versus":
        return POINTS.get(value, str(value))
    if field.kind == "pick" and isinstance(value, int):
        return f"answer {value + 1}"
    labels = {choice.value: choice.label for choice in field.choices}
    return labels.get(value, str(value)) if isinstance(value, str) else str(value)


def snapshots_of(store: Store) -> list[Taken]:
    """All snapshots, the newest first."""
    with store.reading() as connection:
        rows = connection.execute(select(kept).order_by(kept.c.at.desc(), kept.c.name)).all()
    found = []
    for row in rows:
        frozen = Frozen.from_json(row.body)
        counts = len(frozen.items), len(frozen.judgements)
        found.append(Taken(row.name, row.by, row.at, row.digest, frozen.wanted, *counts))
    return found


def zipped(store: Store, name: str, by: str) -> bytes:
    """The files of a snapshot in one, the same bytes each time. Raises as `export` does."""
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(packed, "w") as pack:
        snapshots.export(store, name, Path(place), by)
        for file in sorted(Path(place).iterdir()):
            about = zipfile.ZipInfo(file.name, EARLIEST)
            about.compress_type = zipfile.ZIP_DEFLATED
            pack.writestr(about, file.read_bytes())
    return packed.getvalue()

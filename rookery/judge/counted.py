"""What was made at the desk, and what of it counts: the newest of what was corrected, and nothing
that was excluded.

What does not count stays, with the reason. It knows nothing of what judgements say.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, Row, insert, select

from rookery.judge import tables
from rookery.judge.people import ROLES
from rookery.judge.tables import exclusions, items, judgements
from rookery.judge.work import Item, Judgement, Role
from rookery.records import Failed, Failure, Record

_IN = "person in "
"""begins what is excluded of a person in one batch; the batch follows"""


class Exclusion(Record, frozen=True):
    """Judgements do not count any more, or count again."""

    number: int
    what: Literal["person", "judgement"]
    """all that a person judged, or one judgement"""
    which: str
    """the person's name, or the judgement's id"""
    reason: str
    by: str
    at: float
    batch: str = ""
    """of a person's judgements, only those in this batch; empty: in all"""
    lifts: int | None = None
    """the number of the exclusion that this one takes back"""


class Placed(NamedTuple):
    """An item at the desk."""

    id: str
    batch: str
    item: Item
    prelude: bool
    wanted: int
    priority: int
    policy: int | None
    retired: str | None
    """why it is handed out no more; None: it still is"""


class Left(Record, frozen=True):
    """A judgement that is not learnt from, and why."""

    judgement: str
    why: Literal["corrected", "excluded", "skipped", "flagged", "gold"]
    """only the first two make it count no more in agreement"""
    reason: str
    by: str
    """who says so"""
    at: float

    @property
    def counted_as(self) -> str:
        """The reason, without whose it is."""
        return "corrected later" if self.why == "corrected" else self.reason


class Work(NamedTuple):
    """Items and what was made of them, as the store had it at one moment."""

    items: Mapping[str, Placed]
    judgements: Sequence[Judgement]
    """in the order in which they were handed in"""
    left: Mapping[str, Left]
    """those that do not count, by their ids"""
    roles: Mapping[str, Role]
    """of all people, by their names"""

    def counting(self) -> Iterator[tuple[Placed, Judgement]]:
        """What counts and says something: nothing skipped or flagged."""
        for each in self.judgements:
            if each.id not in self.left and each.kind in ("done", "extra"):
                yield self.items[each.item], each

    def is_researcher(self, person: str) -> bool:
        """Whether others are measured against this person's judgements."""
        return ROLES.index(self.roles[person]) >= ROLES.index("researcher")


def work(connection: Connection, batches: Sequence[str] = (), forms: Sequence[str] = ()) -> Work:
    """All that was made of the items of these batches and forms; without names, of all."""
    where = [items.c.batch.in_(batches)] if batches else []
    where += [items.c.form.in_(forms)] if forms else []
    placed = {
        row.id: _placed(row)
        for row in connection.execute(items.select().where(*where).order_by(items.c.number))
    }
    handed_in = select(judgements.c.body).join(items).where(*where).order_by(judgements.c.number)
    made = [Judgement.from_json(body) for body in connection.scalars(handed_in)]
    left = _left(made, placed, standing(exclusions_of(connection)))
    roles = connection.execute(select(tables.people.c.name, tables.people.c.role))
    return Work(placed, made, left, dict(iter(roles)))


def _placed(row: Row[Any]) -> Placed:
    item, retired = Item.from_json(row.body), None if row.retired is None else row.why or ""
    laid = (row.prelude, row.wanted, row.priority, row.policy, retired)
    return Placed(row.id, row.batch, item, *laid)


def exclusions_of(connection: Connection) -> list[Exclusion]:
    """All that were ever made, in order."""
    rows = connection.execute(exclusions.select().order_by(exclusions.c.number))
    found = []
    for row in rows.mappings():
        values = dict(row)
        if values["what"].startswith(_IN):
            values |= {"what": "person", "batch": values["what"].removeprefix(_IN)}
        found.append(Exclusion(**values))
    return found


def write_exclusion(
    connection: Connection,
    what: Literal["person", "judgement"],
    which: str,
    reason: str,
    by: str,
    at: float,
    batch: str = "",
    lifts: int | None = None,
) -> Exclusion:
    """Adds a row. Raises Failed (no_reason)."""
    if not reason.strip():
        raise Failed(Failure(which, "no_reason", "say why: others will ask"))
    named = f"{_IN}{batch}" if batch else what
    values = {"which": which, "reason": reason.strip(), "by": by, "at": at, "lifts": lifts}
    key = connection.execute(insert(exclusions).values(what=named, **values)).inserted_primary_key
    assert key is not None  # of one row
    return Exclusion(key[0], what, which, reason.strip(), by, at, batch, lifts)


def standing(rows: Sequence[Exclusion]) -> list[Exclusion]:
    """Those that hold: they were not lifted, and lift nothing."""
    lifted = {row.lifts for row in rows}
    return [row for row in rows if row.lifts is None and row.number not in lifted]


def covers(exclusion: Exclusion, judgement: Judgement, batch: str) -> bool:
    """Whether it is about this judgement of an item of that batch."""
    if exclusion.what == "judgement":
        return exclusion.which == judgement.id
    return exclusion.which == judgement.by and exclusion.batch in ("", batch)


def _left(
    made: Sequence[Judgement], placed: Mapping[str, Placed], excluding: Sequence[Exclusion]
) -> dict[str, Left]:
    newer = {each.supersedes: each for each in made if each.supersedes}
    by_name: dict[str, list[Exclusion]] = {}
    for row in excluding:
        by_name.setdefault(row.which, []).append(row)
    left = {}
    for each in made:
        if (newest := newer.get(each.id)) is not None:
            reason = f"corrected by {newest.id}"
            left[each.id] = Left(each.id, "corrected", reason, newest.by, newest.ended)
            continue
        for row in (*by_name.get(each.by, ()), *by_name.get(each.id, ())):
            if covers(row, each, placed[each.item].batch):
                left[each.id] = Left(each.id, "excluded", row.reason, row.by, row.at)
                break
    return left

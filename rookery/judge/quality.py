"""How good the work at the desk is, on one board; and exclusions, which are rows with reasons.

Nothing is left out that no row says. It knows nothing of pages.
"""

from collections import Counter
from typing import Literal

from sqlalchemy import Connection, select

from rookery.judge.agreed import Alpha, Pair, Rate, alphas_of, pairs_of, rates_of
from rookery.judge.counted import (
    Exclusion,
    Work,
    covers,
    exclusions_of,
    standing,
    work,
    write_exclusion,
)
from rookery.judge.people import audit
from rookery.judge.raters import PASSED, Labelling, labellings
from rookery.judge.store import Store, alone
from rookery.judge.tables import judgements, people
from rookery.records import Failed, Failure, Record

ROUNDS = 200
"""times that items are drawn anew for each interval of the board"""


class Excluding(Record, frozen=True):
    """An exclusion, and how many judgements it is about here."""

    exclusion: Exclusion
    judgements: int
    holds: bool


class Proposal(Record, frozen=True):
    """All that a person judged in a batch whose prelude they failed should be excluded."""

    person: str
    batch: str
    reason: str
    judgements: int


class Agreement(Record, frozen=True):
    """How far people agree, and on what."""

    batch: str
    """empty: all of them"""
    rates: tuple[Rate, ...]
    pairs: tuple[Pair, ...]
    alphas: tuple[Alpha, ...]


class Board(Record, frozen=True):
    """All that a lead looks at. Nothing that is left out and no prelude counts in agreement."""

    batch: str
    """empty: all of them"""
    items: int
    judgements: int
    """that count"""
    left_out: dict[str, int]
    """how many do not, by the reason"""
    people: tuple[Labelling, ...]
    pairs: tuple[Pair, ...]
    rates: tuple[Rate, ...]
    alphas: tuple[Alpha, ...]
    exclusions: tuple[Excluding, ...]
    proposals: tuple[Proposal, ...]

    @property
    def agreement(self) -> Agreement:
        """How far people agree, alone."""
        return Agreement(self.batch, self.rates, self.pairs, self.alphas)


def board(store: Store, batch: str | None = None, rounds: int = ROUNDS) -> Board:
    """The board of one batch, or of all. Raises Failed (no_batch) where nothing has that name."""
    with store.reading() as connection:
        found = work(connection, [batch] if batch is not None else [])
        rows = exclusions_of(connection)
    if batch is not None and not found.items:
        raise Failed(Failure(batch, "no_batch", "there is no such batch: look at their names"))
    everybody = labellings(found)
    return Board(
        batch or "",
        len(found.items),
        sum(1 for _ in found.counting()),
        left_out(found),
        everybody,
        pairs_of(found),
        rates_of(found, rounds),
        alphas_of(found, rounds),
        _excluding(found, rows),
        _proposals(found, everybody, rows),
    )


def left_out(found: Work) -> dict[str, int]:
    """How many judgements do not count, by the reason."""
    reasons = Counter(left.counted_as for left in found.left.values())
    reasons.update(each.kind for each in found.judgements if each.kind in ("skipped", "flagged"))
    return dict(sorted(reasons.items()))


def exclude(
    store: Store,
    what: Literal["person", "judgement"],
    which: str,
    reason: str,
    by: str,
    batch: str = "",
) -> Exclusion:
    """Lets what a person judged, everywhere or in one batch, or one judgement count no more.

    Raises Failed: no_reason, no_person, no_judgement, already.
    """
    with store.writing() as connection:
        found = _exclude(connection, what, which, reason, by, batch, store.clock())
        audit(connection, by, "exclude", _worded(found), found.at)
    return found


def lift(store: Store, number: int, reason: str, by: str) -> Exclusion:
    """Takes an exclusion back, so that its judgements count again.

    Raises Failed: no_reason, no_exclusion.
    """
    with store.writing() as connection:
        alone(connection, "exclusions")
        held = {row.number: row for row in standing(exclusions_of(connection))}
        if number not in held:
            detail = "there is none of this number that holds: look at the board again"
            raise Failed(Failure(str(number), "no_exclusion", detail))
        one = held[number]
        found = write_exclusion(
            connection, one.what, one.which, reason, by, store.clock(), one.batch, number
        )
        audit(connection, by, "lift", _worded(found), found.at)
    return found


def excluded(store: Store) -> list[Exclusion]:
    """All exclusions that were ever made, and those that lift others, in order."""
    with store.reading() as connection:
        return exclusions_of(connection)


def exclude_failed(store: Store, by: str, batch: str | None = None) -> list[Exclusion]:
    """Excludes the judgements of those who failed a batch's prelude, in that batch: what the board
    proposes. Those that somebody lifted are not made again. Gives the new rows."""
    with store.writing() as connection:
        found = work(connection, [batch] if batch is not None else [])
        proposals = _proposals(found, labellings(found), exclusions_of(connection))
        now = store.clock()
        made = [
            _exclude(connection, "person", each.person, each.reason, by, each.batch, now)
            for each in proposals
        ]
        for each in made:
            audit(connection, by, "exclude", _worded(each), now)
    return made


def _exclude(
    connection: Connection,
    what: Literal["person", "judgement"],
    which: str,
    reason: str,
    by: str,
    batch: str,
    now: float,
) -> Exclusion:
    alone(connection, "exclusions")
    known = people.c.name if what == "person" else judgements.c.id
    if connection.scalar(select(known).where(known == which)) is None:
        raise Failed(Failure(which, f"no_{what}", f"there is no such {what}: look at the board"))
    for row in standing(exclusions_of(connection)):
        if (row.what, row.which, row.batch) == (what, which, batch):
            raise Failed(Failure(which, "already", f"excluded before: {row.reason}"))
    return write_exclusion(connection, what, which, reason, by, now, batch)


def _worded(row: Exclusion) -> str:
    where = f" in {row.batch}" if row.batch else ""
    return f"{row.what} {row.which}{where}: {row.reason}"


def _excluding(found: Work, rows: list[Exclusion]) -> tuple[Excluding, ...]:
    """Those that are about something here, lifted ones as well."""
    held = {row.number for row in standing(rows)}
    counted = [
        (row, sum(covers(row, each, found.items[each.item].batch) for each in found.judgements))
        for row in rows
        if row.lifts is None
    ]
    return tuple(Excluding(row, count, row.number in held) for row, count in counted if count)


def _proposals(
    found: Work, everybody: tuple[Labelling, ...], rows: list[Exclusion]
) -> tuple[Proposal, ...]:
    """Once it was decided that somebody's work counts all the same, it is not proposed again."""
    decided = {(row.which, row.batch) for row in rows if row.what == "person" and row.batch}
    proposals = []
    for person in everybody:
        for prelude in person.preludes:
            if prelude.passed is False and (person.name, prelude.batch) not in decided:
                reason = (
                    f"failed the attention check of {prelude.batch}: {prelude.right} of "
                    f"{prelude.of} right, at least {PASSED:.0%} are needed"
                )
                made = sum(
                    each.by == person.name and found.items[each.item].batch == prelude.batch
                    for each in found.judgements
                )
                proposals.append(Proposal(person.name, prelude.batch, reason, made))
    return tuple(proposals)

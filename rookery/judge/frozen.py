"""What a snapshot holds, and the lines of the files that it becomes.

The same lines from the same snapshot, whatever was handed in, excluded or lifted since. It knows
nothing of where they are written.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from sqlalchemy import Connection, select

from rookery import __version__
from rookery.judge.agreed import majorities
from rookery.judge.counted import Left, Placed, Work, work
from rookery.judge.meaning import comparison, episode, ratings
from rookery.judge.tables import pages
from rookery.judge.work import Item, Judgement, Role
from rookery.records import Record

FILES = frozenset(
    f"{name}.jsonl"
    for name in "comparisons ratings episodes majority".split()
    + "items judgements excluded people pages".split()
)
_AT_ONCE = 500
"""digests in one query"""


class Wanted(Record, frozen=True):
    """Which items, with all that was made of them; empty: any."""

    batches: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()


class Laid(Record, frozen=True):
    """An item as it was put before people: a line of items.jsonl."""

    id: str
    batch: str
    wanted: int
    priority: int
    prelude: bool
    policy: int | None
    retired: str | None
    """why it was handed out no more; None: it still was"""
    item: Item


class Someone(Record, frozen=True):
    """A line of people.jsonl."""

    name: str
    role: Role


class Frozen(Record, frozen=True):
    """What a snapshot holds."""

    wanted: Wanted
    items: tuple[str, ...]
    judgements: tuple[str, ...]
    pages: tuple[str, ...]
    """keys of the pages that are quoted"""
    people: tuple[Someone, ...]
    left: tuple[Left, ...]
    retired: dict[str, str]
    """why, by the item's id"""
    versions: dict[str, tuple[str, ...]]
    """of Rookery, and of the forms and guides that people had before them"""


Lines = Mapping[str, Callable[[], Iterable[str]]]
"""of each file, by its name"""


def frozen_of(connection: Connection, wanted: Wanted) -> Frozen:
    """What there is now."""
    found = work(connection, wanted.batches, wanted.forms)
    return Frozen(
        wanted,
        tuple(found.items),
        tuple(each.id for each in found.judgements),
        tuple(_quoted(connection, found)),
        tuple(
            Someone(name, found.roles[name])
            for name in sorted({each.by for each in found.judgements})
        ),
        tuple(found.left[each.id] for each in found.judgements if each.id in found.left),
        {key: each.retired for key, each in found.items.items() if each.retired is not None},
        _versions(found),
    )


def _versions(found: Work) -> dict[str, tuple[str, ...]]:
    versions: dict[str, set[str]] = defaultdict(set)
    for each in found.judgements:
        if each.form_version:  # who skips or flags is asked nothing
            form = found.items[each.item].item.form
            versions[f"form {form}"].add(each.form_version)
            versions[f"guide {form}"].add(str(each.guide_version))
    named = {name: tuple(sorted(some)) for name, some in sorted(versions.items())}
    return {"rookery": (__version__,), **named}


def _quoted(connection: Connection, found: Work) -> list[str]:
    """Keys of the pages that answers quote, those that were judged and those that were written."""
    answers = [answer for placed in found.items.values() for answer in placed.item.answers]
    for placed, judgement in found.counting():
        written = episode(placed.item, judgement)
        answers += [written.answer] if written is not None and written.answer is not None else []
    digests = sorted({quote.digest for answer in answers for quote in answer.quotes})
    keys: list[str] = []
    for at in range(0, len(digests), _AT_ONCE):
        some = pages.c.digest.in_(digests[at : at + _AT_ONCE])
        keys += connection.scalars(select(pages.c.key).where(some))
    return sorted(keys)


def lines_of(connection: Connection, frozen: Frozen) -> Lines:
    """The lines of each file, without line breaks, as long as the connection is open."""
    everything = _work_of(connection, frozen)
    learnt = everything._replace(
        judgements=[
            each for each in everything.judgements if not _is_gold(everything.items[each.item])
        ]
    )

    def made(meaning: Callable[[Item, Judgement], Iterable[Record]]) -> Iterator[str]:
        for placed, judgement in learnt.counting():
            yield from (each.to_json() for each in meaning(placed.item, judgement))

    def one(meaning: Callable[[Item, Judgement], Record | None]) -> Iterator[str]:
        return made(lambda item, judgement: filter(None, [meaning(item, judgement)]))

    return {
        "comparisons.jsonl": partial(one, comparison),
        "ratings.jsonl": partial(made, ratings),
        "episodes.jsonl": partial(one, episode),
        "majority.jsonl": lambda: (each.to_json() for each in majorities(learnt)),
        "items.jsonl": lambda: (_laid(each).to_json() for each in everything.items.values()),
        "judgements.jsonl": lambda: (each.to_json() for each in everything.judgements),
        "excluded.jsonl": lambda: (each.to_json() for each in _not_learnt(everything)),
        "people.jsonl": lambda: (each.to_json() for each in frozen.people),
        "pages.jsonl": lambda: _bodies(connection, frozen.pages),
    }


def _work_of(connection: Connection, frozen: Frozen) -> Work:
    """What was there when it was frozen, in that order."""
    now = work(connection, frozen.wanted.batches, frozen.wanted.forms)
    made = {each.id: each for each in now.judgements}
    return Work(
        {key: now.items[key]._replace(retired=frozen.retired.get(key)) for key in frozen.items},
        [made[key] for key in frozen.judgements],
        {left.judgement: left for left in frozen.left},
        {person.name: person.role for person in frozen.people},
    )


def _laid(placed: Placed) -> Laid:
    rest = (placed.wanted, placed.priority, placed.prelude, placed.policy, placed.retired)
    return Laid(placed.id, placed.batch, *rest, placed.item)


def _is_gold(placed: Placed) -> bool:
    return placed.item.gold is not None or placed.prelude


def _not_learnt(found: Work) -> Iterator[Left]:
    """Every judgement that no file to learn from holds, and why."""
    for each in found.judgements:
        placed = found.items[each.item]
        if each.id in found.left:
            yield found.left[each.id]
        elif each.kind in ("skipped", "flagged"):
            reason = f"{each.kind}: {each.filled.get('reason', '')}"
            yield Left(each.id, each.kind, reason, each.by, each.ended)
        elif _is_gold(placed):
            reason = "attention check" if placed.prelude else "gold: its answer was known"
            yield Left(each.id, "gold", reason, "", each.ended)


def _bodies(connection: Connection, keys: Sequence[str]) -> Iterator[str]:
    for key in keys:
        yield str(connection.scalar(select(pages.c.body).where(pages.c.key == key)))

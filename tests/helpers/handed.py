"""Items, people who get them, and what they hand in, for the tests of the hand-out."""

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import select

from rookery.desk import tables
from rookery.desk.forms import Judgement, LabellingItem
from rookery.desk.labelling_queue import ItemLease, add_items, claim_item, submit_judgement
from rookery.desk.store import Store
from rookery.errors import Failed
from rookery.records import Question

NAMES = ("Ada", "Ben", "Cyd", "Dov")
FORMS = ("compare", "thumbs")


def item(text: str, form: str = "compare") -> LabellingItem:
    return LabellingItem(form, Question(text, f"{text}?"))


def work(overall: int = 1) -> Judgement:
    return Judgement("", "", "", "done", {"overall": overall}, "v1", 1, (1, 0), False, 10.0, 20.0)


def put(store: Store, *texts: str, copies: int = 1, batch: str = "first", **more: Any) -> None:
    add_items(store, [item(text) for text in texts], batch, copies, **more)


def lease_first(store: Store, person: str, **more: Any) -> ItemLease:
    lease = claim_item(store, person, **more)
    assert lease is not None
    return lease


def named(store: Store, person: str, **more: Any) -> str | None:
    """Which item the person gets."""
    lease = claim_item(store, person, **more)
    return lease.item.question.id if lease else None


def hand_in(store: Store, lease: ItemLease, overall: int = 1) -> str:
    return submit_judgement(store, lease.token, lease.person, work(overall))


def kinds(store: Store) -> Counter[tuple[str, str]]:
    """All judgements, by person and kind."""
    query = select(tables.judgements.c.person, tables.judgements.c.kind)
    with store.begin_read() as connection:
        return Counter((person, kind) for person, kind in connection.execute(query))


def outcome(what: Any, *arguments: Any) -> str:
    with pytest.raises(Failed) as failed:
        what(*arguments)
    return failed.value.failure.outcome

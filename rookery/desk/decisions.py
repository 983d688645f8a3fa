"""Disagreements between raters, and a third person's decisions on them.

The raters' judgements stay as they are and count in agreement; what is learnt from an item that was
decided is the decision.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select

from rookery.desk.accounts import write_audit_entry
from rookery.desk.adjudication import (
    LabellingData,
    PlacedItem,
    load_decisions,
    load_labelling_data,
    merge_degrees,
)
from rookery.desk.form_versions import load_form
from rookery.desk.forms import LabellingForm
from rookery.desk.judgement_conversion import (
    extract_field_values,
    find_preferred_answer,
    get_comparison_key,
)
from rookery.desk.labelling_queue import load_item
from rookery.desk.labelling_records import Decision, Judgement
from rookery.desk.store import Store, take_advisory_lock
from rookery.desk.tables import decisions, items
from rookery.errors import Failed, Outcome
from rookery.measure.agreement import LabelValue
from rookery.records import Failure, digest_of

_Labels = dict[tuple[str, tuple[int, ...]], LabelValue]
"""labels of one judgement by the field's name and what it is about"""


class Disagreement(NamedTuple):
    """An item on which raters disagree, or on which they did when it was decided."""

    placed: PlacedItem
    judgements: tuple[Judgement, ...]
    """judgements of the item that count, in order of submission"""
    fields: tuple[str, ...]
    """names of the fields in which they differ; empty: they agree by now"""
    decision: Decision | None
    """decision of a third person; None: there is none yet"""
    raters: tuple[str, ...]
    """everybody who judged the item, also those whose judgement does not count: none of them
    decides"""


def find_disagreements(work: LabellingData) -> list[Disagreement]:
    """Return the items on which raters disagree, undecided ones first, in order of arrival.

    They disagree if they prefer different answers or, on a form that asks for no preference, differ
    in any field except texts and claims. Better and much better count alike. Fields whose choices
    changed between versions of a form are not compared. Items with known answers, and forms that
    judge no answers, are left out. Decided items stay, also where raters came to agree since: the
    decision holds until another is made.
    """
    by_item: dict[str, list[Judgement]] = defaultdict(list)
    for placed, judgement in work.iterate_counted():
        form = work.find_form(judgement)
        if form is not None and form.answers and placed.item.gold is None and not placed.prelude:
            by_item[placed.id].append(judgement)
    raters: dict[str, list[str]] = defaultdict(list)
    for judgement in work.judgements:
        if judgement.kind in ("done", "extra") and judgement.by not in raters[judgement.item]:
            raters[judgement.item].append(judgement.by)
    disagreements = []
    for key in work.items:
        submitted = tuple(by_item.get(key, ()))
        fields = _find_differing_fields(work, submitted) if len(submitted) > 1 else ()
        decision = work.decisions.get(key)
        if fields or decision is not None:
            placed, names = work.items[key], tuple(raters[key])
            disagreements.append(Disagreement(placed, submitted, fields, decision, names))
    return sorted(disagreements, key=lambda each: each.decision is not None)


def load_disagreements(store: Store) -> list[Disagreement]:
    """Return `find_disagreements` of everything at the desk."""
    with store.begin_read() as connection:
        return find_disagreements(load_labelling_data(connection))


def load_disagreement(store: Store, item: str) -> Disagreement:
    """Load one item of `find_disagreements`. Raises Failed (no_item)."""
    with store.begin_read() as connection:
        return _find_disagreement(connection, item)


def decide_item(
    store: Store, item: str, by: str, filled: Mapping[str, Any], reason: str
) -> Decision:
    """Store a third person's decision on an item on which raters disagree, and return it.

    `filled` are the form's values; the newest decision on an item holds, and all are kept. Raises
    Failed: no_reason, no_item (it is none of `find_disagreements`), not_allowed (the person
    judged the item, also where that does not count).
    """
    if not reason.strip():
        raise Failed(Failure(item, Outcome.NO_REASON, "say why: the raters will ask"))
    now = store.clock()
    form = load_form(store, load_item(store, item).form)
    with store.begin_write() as connection:
        take_advisory_lock(connection, "decisions")
        dispute = _find_disagreement(connection, item)
        if by in dispute.raters:
            detail = "you judged this item yourself: a third person decides"
            raise Failed(Failure(item, Outcome.NOT_ALLOWED, detail))
        decision = Decision(
            digest_of(f"decision {item} {by} {now!r} {len(load_decisions(connection))}"),
            item,
            by,
            dict(filled),
            form.digest,
            tuple(each.id for each in dispute.judgements),
            reason.strip(),
            now,
        )
        _insert_decision(connection, decision)
        write_audit_entry(connection, by, "decide", f"{item}: {reason.strip()}", now)
    return decision


def restore_decisions(connection: Connection, exported: Iterable[Decision]) -> None:
    """Insert exported decisions that the store does not have; their items and people must exist."""
    known = {each.id for each in load_decisions(connection)}
    for each in exported:
        if each.id not in known:
            _insert_decision(connection, each)


def convert_to_judgement(decision: Decision) -> Judgement:
    """Return a decision as the judgement that is learnt from."""
    return Judgement(
        decision.id,
        decision.item,
        decision.by,
        "done",
        decision.filled,
        decision.form_version,
        guide_version=0,
        order=(),
        whole=False,
        began=decision.at,
        ended=decision.at,
    )


def _insert_decision(connection: Connection, decision: Decision) -> None:
    row = {"item": decision.item, "person": decision.by, "at": decision.at}
    connection.execute(insert(decisions).values(**row, body=decision.to_json()))


def _find_disagreement(connection: Connection, item: str) -> Disagreement:
    batch = connection.scalar(select(items.c.batch).where(items.c.id == item))
    work = load_labelling_data(connection, [batch]) if batch is not None else None
    for each in find_disagreements(work) if work else ():
        if each.placed.id == item:
            return each
    detail = "there is no such item on which raters disagree: look at the list again"
    raise Failed(Failure(item, Outcome.NO_ITEM, detail))


def _find_differing_fields(
    work: LabellingData, submitted: tuple[Judgement, ...]
) -> tuple[str, ...]:
    item, form = work.items[submitted[0].item].item, work.find_form(submitted[0])
    chosen = {find_preferred_answer(item, each, work.forms) for each in submitted}
    if form is not None and form.decides and len(chosen) == 1:
        return ()
    labels_by_rater = [_extract_labels(work, each) for each in submitted]
    places = dict.fromkeys(place for labels in labels_by_rater for place in labels)
    differ = (
        name for name, at in places if len({each.get((name, at)) for each in labels_by_rater}) > 1
    )
    forms = [work.find_form(each) for each in submitted]
    # A preference is the same in every version, whatever its points were called.
    return tuple(
        name
        for name in dict.fromkeys(differ)
        if (form is not None and name == form.decides)
        or _differ_in_one_variant(name, forms, labels_by_rater)
    )


def _differ_in_one_variant(
    name: str, forms: Sequence[LabellingForm | None], labels_by_rater: Sequence[_Labels]
) -> bool:
    """Return True if judgements differ in a field whose choices they saw alike."""
    by_variant: dict[object, list[_Labels]] = defaultdict(list)
    for form, labels in zip(forms, labels_by_rater, strict=True):
        for field in form.fields if form else ():
            if field.name == name:
                field_labels = {place: value for place, value in labels.items() if place[0] == name}
                by_variant[get_comparison_key(field)].append(field_labels)
    return any(each != alike[0] for alike in by_variant.values() for each in alike)


def _extract_labels(work: LabellingData, judgement: Judgement) -> _Labels:
    form = work.find_form(judgement)
    return {
        (field.name, place): merge_degrees(field, value)
        for field, place, value in (extract_field_values(form, judgement.filled) if form else ())
    }

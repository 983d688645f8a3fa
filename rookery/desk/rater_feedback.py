"""Feedback to raters: their agreement with others after a delay, and what came of their flags."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from statistics import mean
from typing import NamedTuple

from sqlalchemy import Connection, insert, select

from rookery.desk.accounts import write_audit_entry
from rookery.desk.adjudication import LabellingData, load_labelling_data, merge_degrees
from rookery.desk.judgement_conversion import (
    TIE,
    extract_field_values,
    find_preferred_answer,
    get_comparison_key,
)
from rookery.desk.labelling_records import Judgement
from rookery.desk.projects import ProjectSettings
from rookery.desk.store import Store
from rookery.desk.tables import flag_replies, items, judgements, project_batches, projects
from rookery.errors import Failed, Outcome
from rookery.measure.agreement import (
    AgreementEstimate,
    UndefinedStatistic,
    compute_pair_credit,
    estimate_statistic,
    jackknife_interval,
)
from rookery.records import Failure

DAY_SECONDS = 86_400.0
MIN_FEEDBACK_ITEMS = 5
"""items that others judged, too, before a rater is told about their agreement"""
_SIGNS = {0: -1, TIE: 0, 1: 1}
"""preference among two answers as the sign that half credit uses"""


class FlagOutcome(NamedTuple):
    """Outcome of an item that somebody flagged."""

    retired: str | None
    """reason why it is handed out no more; None: it still is"""
    reply: str
    """answer to whoever flagged it; empty: none"""
    by: str
    """who answered"""
    at: float | None
    """when it was answered or retired; None: neither"""


def measure_rater_agreement(store: Store, person: str) -> AgreementEstimate | None:
    """Measure a rater's agreement with the others who judged the same items, for the rater to see.

    Only judgements older than `feedback_days` of their project count, the rater's and the others',
    so that nobody learns at once what others say; items with known answers are left out. On two
    answers a tie against a choice is half (WebGPT, appendix C), on more the same choice is 1;
    without a preference it is the share of equal labels. None: fewer than MIN_FEEDBACK_ITEMS such
    items.
    """
    now = store.clock()
    with store.begin_read() as connection:
        query = select(items.c.batch).join(judgements).where(judgements.c.person == person)
        batches = connection.scalars(query.distinct()).all()
        if not batches:
            return None
        work = load_labelling_data(connection, batches)
        delays = _load_feedback_delays(connection)
    by_item: dict[str, list[Judgement]] = defaultdict(list)
    for placed, judgement in work.iterate_counted():
        if not placed.prelude and placed.item.gold is None:
            by_item[placed.id].append(judgement)
    credits = []
    for submitted in by_item.values():
        delay = delays.get(work.items[submitted[0].item].batch, ProjectSettings().feedback_days)
        old = [each for each in submitted if now - each.ended >= delay * DAY_SECONDS]
        if mine := [each for each in old if each.by == person]:
            others = [_compare_judgements(work, mine[0], each) for each in old if each.by != person]
            if comparable := [credit for credit in others if credit is not None]:
                credits.append(mean(comparable))
    if len(credits) < MIN_FEEDBACK_ITEMS:
        return None
    return estimate_statistic(credits, _average_credit, partial(jackknife_interval, least=0.0))


def reply_to_flag(store: Store, judgement: str, text: str, by: str) -> None:
    """Store an answer to whoever flagged an item, in place of an earlier one.

    Raises Failed: no_reason (a blank answer), no_judgement (nobody flagged by it).
    """
    if not text.strip():
        raise Failed(Failure(judgement, Outcome.NO_REASON, "write what came of it"))
    now = store.clock()
    with store.begin_write() as connection:
        flagged = (judgements.c.id == judgement) & (judgements.c.kind == "flagged")
        if connection.scalar(select(judgements.c.id).where(flagged)) is None:
            detail = "nobody flagged anything by that: look at the board"
            raise Failed(Failure(judgement, Outcome.NO_JUDGEMENT, detail))
        connection.execute(flag_replies.delete().where(flag_replies.c.judgement == judgement))
        row = {"judgement": judgement, "text": text.strip(), "by": by, "at": now}
        connection.execute(insert(flag_replies).values(row))
        write_audit_entry(connection, by, "reply", f"{judgement}: {text.strip()}", now)


def load_flag_outcomes(store: Store, flagged: list[str]) -> dict[str, FlagOutcome]:
    """Return what came of flags, by the ids of the judgements that flagged."""
    query = (
        select(
            judgements.c.id,
            items.c.why,
            items.c.retired,
            flag_replies.c.text,
            flag_replies.c.by,
            flag_replies.c.at,
        )
        .join(items, items.c.id == judgements.c.item)
        .outerjoin(flag_replies, flag_replies.c.judgement == judgements.c.id)
        .where(judgements.c.id.in_(flagged))
    )
    with store.begin_read() as connection:
        rows = connection.execute(query).all()
    return {
        row.id: FlagOutcome(
            None if row.retired is None else row.why or "",
            row.text or "",
            row.by or "",
            row.at or row.retired,
        )
        for row in rows
    }


def _load_feedback_delays(connection: Connection) -> dict[str, float]:
    """Return the days before feedback of every batch that belongs to a project."""
    query = select(project_batches.c.batch, projects.c.body).join(projects)
    return {
        row.batch: ProjectSettings.from_json(row.body).feedback_days
        for row in connection.execute(query)
    }


def _compare_judgements(work: LabellingData, mine: Judgement, other: Judgement) -> float | None:
    """Return the credit for one item, 0 to 1; None: there is nothing to compare."""
    item = work.items[mine.item].item
    one, two = (find_preferred_answer(item, each, work.forms) for each in (mine, other))
    if one is not None and two is not None:
        if len(item.answers) == 2:
            return compute_pair_credit(_SIGNS[one], _SIGNS[two])
        return float(one == two)
    own_labels, other_labels = (
        {
            (field.name, get_comparison_key(field), place): merge_degrees(field, value)
            for field, place, value in extract_field_values(form, each.filled)
        }
        if (form := work.find_form(each))
        else {}
        for each in (mine, other)
    )
    common = own_labels.keys() & other_labels.keys()
    return mean(float(own_labels[key] == other_labels[key]) for key in common) if common else None


def _average_credit(credits: Sequence[float]) -> float | UndefinedStatistic:
    return mean(credits) if credits else UndefinedStatistic("they judged no item in common")

"""Hours of each rater, and what a project owes them.

Time is counted from handing out to submission. Between two actions on an item (it was handed out, a
draft was saved, a page was turned, it was handed in) at most `idle_minutes` of the project's
settings count, those before the later action. Moments in which a person had several items in hand
count once, for the item that was begun first. Skipped and flagged items take time too; work that
was never handed in counts nothing.
"""

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import NamedTuple

from sqlalchemy import Connection, select

from rookery.desk.adjudication import load_labelling_data
from rookery.desk.forms import Judgement
from rookery.desk.projects import ProjectSettings, find_project
from rookery.desk.snapshots import protect_cell
from rookery.desk.store import Store
from rookery.desk.tables import project_batches, work_signs
from rookery.records import Record

PAYMENT_COLUMNS = tuple("rater items skipped flagged excluded hours amount currency".split())
"""columns of the payment report as CSV"""


class RaterPayment(Record, frozen=True):
    """Time and pay of one rater."""

    name: str
    items: int
    """items handed in, late ones included and corrections not counted again"""
    skipped: int
    flagged: int
    excluded: int
    """of `items`: excluded, so that they do not count"""
    seconds: float
    """seconds of work on all of these, corrections included"""
    excluded_seconds: float
    """of `seconds`: on items that are excluded"""
    amount: float
    """pay, in the project's currency, rounded to hundredths"""

    @property
    def hours(self) -> float:
        """Hours of work."""
        return self.seconds / 3600


class PaymentReport(Record, frozen=True):
    """Hours and pay of a project's raters."""

    project: str
    """empty: the batches of no project"""
    settings: ProjectSettings
    since: float | None
    """only work handed in from this time on, seconds since 1970; None: from the beginning"""
    until: float | None
    """only work handed in before this time; None: to the end"""
    raters: tuple[RaterPayment, ...]

    @property
    def seconds(self) -> float:
        """Seconds of work of all raters."""
        return sum(each.seconds for each in self.raters)

    @property
    def amount(self) -> float:
        """Pay of all raters."""
        return float(sum((_round_money(each.amount) for each in self.raters), Decimal()))


def build_payment_report(
    store: Store, project: str = "", since: float | None = None, until: float | None = None
) -> PaymentReport:
    """Count the hours of a project's raters, and what they are owed; "": batches of no project.

    Paid by the item, an item that was handed in or flagged counts, a skipped one and a correction
    do not. Raises Failed (no_project).
    """
    with store.begin_read() as connection:
        settings = find_project(connection, project).settings if project else ProjectSettings()
        placed = dict(
            iter(connection.execute(select(project_batches.c.batch, project_batches.c.project)))
        )
        work = load_labelling_data(connection)
        seconds = count_work_seconds(
            work.judgements, _load_work_signs(connection), 60 * settings.idle_minutes
        )
    chosen: dict[str, list[Judgement]] = defaultdict(list)
    for each in work.judgements:
        in_project = placed.get(work.items[each.item].batch, "") == project
        if (
            in_project
            and (since is None or each.ended >= since)
            and (until is None or each.ended < until)
        ):
            chosen[each.by].append(each)
    # Of all judgements: what is excluded may be a correction from outside the period.
    excluded: dict[str, set[str]] = defaultdict(set)
    for each in work.judgements:
        if work.is_left_out(each, "excluded"):
            excluded[each.by].add(each.item)
    raters = (
        _pay_rater(name, chosen[name], excluded[name], seconds, settings) for name in sorted(chosen)
    )
    return PaymentReport(project, settings, since, until, tuple(raters))


class _WorkSpan(NamedTuple):
    began: float
    ended: float
    judgement: str


def count_work_seconds(
    submitted: Sequence[Judgement],
    signs: Mapping[tuple[str, str], Sequence[float]],
    idle_seconds: float,
) -> dict[str, float]:
    """Return the seconds of work on each judgement, by its id.

    `signs` are the times of actions by item and person. Between two actions at most `idle_seconds`
    count, and moments that two judgements of a person share count once.
    """
    spans: dict[str, list[_WorkSpan]] = defaultdict(list)
    for each in submitted:
        between = (at for at in signs.get((each.item, each.by), ()) if each.began < at < each.ended)
        for one, other in pairwise((each.began, *sorted(between), each.ended)):
            if other > one:
                began = max(one, other - idle_seconds)
                spans[each.by].append(_WorkSpan(began, other, each.id))
    seconds = {each.id: 0.0 for each in submitted}
    for of_person in spans.values():
        reach = float("-inf")
        for span in sorted(of_person):
            seconds[span.judgement] += max(0.0, span.ended - max(span.began, reach))
            reach = max(reach, span.ended)
    return seconds


def write_payment_csv(report: PaymentReport) -> str:
    """Return the report as CSV: a line of PAYMENT_COLUMNS, then a line for each rater.

    A name or a currency that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(PAYMENT_COLUMNS)
    for each in report.raters:
        counts = (each.items, each.skipped, each.flagged, each.excluded)
        money = (f"{each.hours:.4f}", f"{each.amount:.2f}", protect_cell(report.settings.currency))
        lines.writerow((protect_cell(each.name), *counts, *money))
    return out.getvalue()


def _load_work_signs(connection: Connection) -> dict[tuple[str, str], list[float]]:
    signs: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in connection.execute(select(work_signs)):
        signs[row.item, row.person].append(row.at)
    return signs


def _pay_rater(
    name: str,
    submitted: Sequence[Judgement],
    excluded: Collection[str],
    seconds: Mapping[str, float],
    settings: ProjectSettings,
) -> RaterPayment:
    first = [each for each in submitted if not each.supersedes]
    kinds = Counter(each.kind for each in first)
    finished = [each for each in first if each.kind in ("done", "extra")]
    time, lost = (
        sum(seconds[each.id] for each in submitted if each.item in some)
        for some in ({each.item for each in submitted}, excluded)
    )
    paid = [each for each in first if settings.pay_excluded or each.item not in excluded]
    if settings.per == "item":
        units = float(sum(each.kind != "skipped" for each in paid))
    else:
        units = (time if settings.pay_excluded else time - lost) / 3600
    return RaterPayment(
        name,
        items=len(finished),
        skipped=kinds["skipped"],
        flagged=kinds["flagged"],
        excluded=sum(each.item in excluded for each in finished),
        seconds=time,
        excluded_seconds=lost,
        amount=float(_round_money(settings.rate * units)),
    )


def _round_money(amount: float) -> Decimal:
    return Decimal(repr(amount)).quantize(Decimal("0.01"), ROUND_HALF_UP)

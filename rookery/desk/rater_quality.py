"""Quality of raters' work: speed, attention checks, gold items, agreement with researchers;
exclusions; and feedback to raters: agreement with others after a delay, and what came of flags.

Nothing is left out of the counts without a stored exclusion and its reason.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import mean, median
from typing import Literal, NamedTuple

from sqlalchemy import Connection, insert, select

from rookery.desk.accounts import DAY_SECONDS, PersonRole, write_audit_entry
from rookery.desk.adjudication import (
    Exclusion,
    FieldAlpha,
    FieldKappa,
    LabellingData,
    RaterGroupAgreement,
    RaterPairAgreement,
    collect_field_labels,
    compare_rater_groups,
    compare_rater_pairs,
    compute_field_alphas,
    compute_field_kappas,
    compute_preference_credit,
    covers_judgement,
    load_exclusions,
    load_labelling_data,
    measure_judging_seconds,
    select_active_exclusions,
    trace_versions,
    write_exclusion,
)
from rookery.desk.forms import Judgement
from rookery.desk.judgement_conversion import (
    TIE,
    extract_field_values,
    find_preferred_answer,
    matches_gold,
)
from rookery.desk.store import Store, take_advisory_lock
from rookery.desk.tables import flag_replies, items, judgements, people
from rookery.errors import Failed, Outcome
from rookery.measure.intervals import (
    AgreementEstimate,
    LabelValue,
    SideBias,
    UndefinedStatistic,
    compute_exact_agreement,
    estimate_credits,
    estimate_side_bias,
    estimate_statistic,
)
from rookery.records import Failure, Record

SUPER_RATER_AGREEMENT = 0.85
"""agreement with researchers required of super raters, on each of three judgements (GopherCite,
appendix C.1)"""
MIN_COMMON_JUDGEMENTS = 10
"""common judgements on each of the three before a rater can pass or fail as a super rater; the
paper had 20 comparisons"""
FAST_TIME_SHARE = 0.1
"""share of a form's usual time below which a judgement counts as fast"""
HASTY_JUDGEMENT_SHARE = 0.2
"""share of fast judgements above which a rater is marked hasty"""
LOPSIDED_PROBABILITY = 0.01
"""probability below which a preference for one side is marked"""
_TRUST_SCALES = ("supported", "plausible", "preferred")


class AttentionCheckScore(Record, frozen=True):
    """A person's result in a batch's attention check (GopherCite, appendix C.1)."""

    batch: str
    right: int
    judged: int
    """items judged, skipped or flagged; the latter two count as wrong"""
    of: int
    """items of the check, without those that were retired before the person did them"""
    passed: bool | None
    """None: unfinished, and either outcome is still possible"""


class ResearcherAgreement(Record, frozen=True):
    """Agreement with researchers, leaving out ties and doubts on either side."""

    supported: AgreementEstimate
    plausible: AgreementEstimate
    preferred: AgreementEstimate
    passed: bool | None
    """True for a super rater; None: too few judgements in common"""


class RaterReport(Record, frozen=True):
    """Statistics of one person's work, excluded judgements included."""

    name: str
    role: PersonRole
    done: int
    """submitted judgements; a judgement and its corrections count once"""
    late: int
    """of `done`: submitted after another person had taken the place"""
    skipped: int
    flagged: int
    excluded: int
    """of `done`: excluded"""
    seconds: float | None
    """median seconds per item, corrections included; None: nothing was done"""
    fast: int
    """of `done`: made, with all corrections, in less than a tenth of the form's usual time"""
    hasty: bool
    """True if more than a fifth of `done` were fast"""
    gold: int
    """items with known answers that were done, attention checks aside"""
    gold_right: int
    preludes: tuple[AttentionCheckScore, ...]
    side: SideBias | None
    """share of preferences for the answer shown first; None: no preference was given"""
    lopsided: bool
    """True if the side bias is unlikely by chance"""
    trusted: ResearcherAgreement | None
    """None: the person is a researcher, or has no item in common with one"""


def summarize_raters(work: LabellingData) -> tuple[RaterReport, ...]:
    """Summarize the work of everybody who submitted, skipped or flagged something, by name."""
    by: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in work.judgements:
        by[judgement.by].append(judgement)
    researched = _collect_researcher_values(work)
    return tuple(_summarize_rater(work, name, by[name], researched) for name in sorted(by))


def score_attention_checks(
    work: LabellingData, submitted: Sequence[Judgement]
) -> tuple[AttentionCheckScore, ...]:
    """Score one person's attention checks, one for each batch whose check the person began.

    `submitted` are that person's judgements. Only the first version of each counts, not its
    corrections.
    """
    first: dict[str, Judgement] = {}
    for judgement in submitted:
        if work.items[judgement.item].prelude:
            # Only the first version counts: a correction was made after the right answer was shown.
            first.setdefault(judgement.item, judgement)
    size = Counter(
        placed.batch
        for placed in work.items.values()
        if placed.prelude and (placed.retired is None or placed.id in first)
    )
    batches = sorted({work.items[item].batch for item in first})
    return tuple(
        _score_attention_check(work, batch, size[batch], list(first.values())) for batch in batches
    )


def _score_attention_check(
    work: LabellingData, batch: str, size: int, submitted: Sequence[Judgement]
) -> AttentionCheckScore:
    in_batch = [each for each in submitted if work.items[each.item].batch == batch]
    good = sum(_is_right(work, each) for each in in_batch)
    passed, needed = None, work.find_settings(batch).pass_share * size
    if good >= needed:
        passed = True
    elif good + size - len(in_batch) < needed:
        passed = False
    return AttentionCheckScore(batch, good, len(in_batch), size, passed)


def _is_right(work: LabellingData, judgement: Judgement) -> bool:
    item = work.items[judgement.item].item
    return judgement.kind in ("done", "extra") and matches_gold(item, judgement.filled, work.forms)


def _summarize_rater(
    work: LabellingData, name: str, submitted: Sequence[Judgement], researched: "_ResearcherValues"
) -> RaterReport:
    kinds = Counter(each.kind for each in submitted)
    finished = [
        each
        for each in submitted
        if each.kind in ("done", "extra") and not work.is_left_out(each, "corrected")
    ]
    seconds = measure_judging_seconds(submitted)
    fast = sum(_is_fast(work, each, seconds[each.id]) for each in finished)
    gold = [
        _is_right(work, each)
        for each in finished
        if (placed := work.items[each.item]).item.gold is not None and not placed.prelude
    ]
    side = _measure_side_bias(work, finished)
    return RaterReport(
        name,
        work.roles[name],
        done=len(finished),
        late=sum(each.kind == "extra" for each in finished),
        skipped=kinds["skipped"],
        flagged=kinds["flagged"],
        excluded=sum(each.id in work.left_out for each in finished),
        seconds=median(seconds[each.id] for each in finished) if finished else None,
        fast=fast,
        hasty=fast > HASTY_JUDGEMENT_SHARE * len(finished),
        gold=len(gold),
        gold_right=sum(gold),
        preludes=score_attention_checks(work, submitted),
        side=side,
        lopsided=side is not None and side.chance < LOPSIDED_PROBABILITY,
        trusted=None
        if work.is_researcher(name)
        else _compare_with_researchers(work, finished, researched),
    )


def _is_fast(work: LabellingData, judgement: Judgement, seconds: float) -> bool:
    form = work.find_form(judgement)
    return form is not None and seconds < FAST_TIME_SHARE * 60 * form.minutes


def _measure_side_bias(work: LabellingData, finished: Sequence[Judgement]) -> SideBias | None:
    first = judged = 0
    for each in finished:
        item = work.items[each.item].item
        chosen = find_preferred_answer(item, each, work.forms)
        if len(item.answers) == 2 and chosen not in (None, TIE):
            judged += 1
            first += each.order[0] == chosen
    return estimate_side_bias(first, judged)


_ResearcherValues = dict[str, list[dict[tuple[str, tuple[int, ...]], LabelValue]]]
"""definite labels of each researcher, by item"""


def _collect_researcher_values(work: LabellingData) -> _ResearcherValues:
    found: _ResearcherValues = defaultdict(list)
    for placed, judgement in work.iterate_counted():
        if work.is_researcher(judgement.by) and not placed.prelude:
            found[placed.id].append(_extract_definite_values(work, judgement))
    return found


def _extract_definite_values(
    work: LabellingData, judgement: Judgement
) -> dict[tuple[str, tuple[int, ...]], LabelValue]:
    """Return yes-or-no labels of supported and plausible, and the preferred answer, leaving out
    doubts and ties."""
    values: dict[tuple[str, tuple[int, ...]], LabelValue] = {}
    form = work.find_form(judgement)
    for field, place, value in extract_field_values(form, judgement.filled) if form else ():
        if field.scale in _TRUST_SCALES and value in ("yes", "no"):
            values[field.scale, place] = value
    chosen = find_preferred_answer(work.items[judgement.item].item, judgement, work.forms)
    if chosen not in (None, TIE):
        values["preferred", ()] = str(chosen)
    return values


def _compare_with_researchers(
    work: LabellingData, finished: Sequence[Judgement], researched: _ResearcherValues
) -> ResearcherAgreement | None:
    pairs: dict[str, list[tuple[LabelValue, LabelValue]]] = defaultdict(list)
    for each in finished:
        for reference in researched.get(each.item, ()):
            for where, value in _extract_definite_values(work, each).items():
                if where in reference:
                    pairs[where[0]].append((value, reference[where]))
    if not pairs:
        return None
    three = {
        name: estimate_statistic(pairs[name], compute_exact_agreement) for name in _TRUST_SCALES
    }
    enough = all(each.items >= MIN_COMMON_JUDGEMENTS for each in three.values())
    passed = all(
        not isinstance(each.value, UndefinedStatistic) and each.value >= SUPER_RATER_AGREEMENT
        for each in three.values()
    )
    return ResearcherAgreement(**three, passed=passed if enough else None)


class ExclusionEffect(Record, frozen=True):
    """An exclusion, and the number of judgements in the report that it applies to."""

    exclusion: Exclusion
    judgements: int
    holds: bool
    """False: it was lifted"""


class ExclusionProposal(Record, frozen=True):
    """A proposed exclusion of a person from a batch whose attention check they failed."""

    person: str
    batch: str
    reason: str
    judgements: int


class QualityReport(Record, frozen=True):
    """Quality report for the lead of a labelling project.

    Excluded judgements and attention checks count in no agreement.
    """

    batch: str
    """empty: every batch"""
    items: int
    judgements: int
    """judgements that count"""
    left_out: dict[str, int]
    """judgements that do not count, by reason"""
    people: tuple[RaterReport, ...]
    pairs: tuple[RaterPairAgreement, ...]
    rates: tuple[RaterGroupAgreement, ...]
    alphas: tuple[FieldAlpha, ...]
    kappas: tuple[FieldKappa, ...]
    exclusions: tuple[ExclusionEffect, ...]
    proposals: tuple[ExclusionProposal, ...]


def build_quality_report(store: Store, batch: str | None = None) -> QualityReport:
    """Build the quality report of one batch, or of all of them.

    Raises Failed (no_batch) if no item has that batch.
    """
    with store.begin_read() as connection:
        work = load_labelling_data(connection, [batch] if batch is not None else [])
        rows = load_exclusions(connection)
    if batch is not None and not work.items:
        detail = "there is no such batch: look at their names"
        raise Failed(Failure(batch, Outcome.NO_BATCH, detail))
    everybody = summarize_raters(work)
    return QualityReport(
        batch or "",
        len(work.items),
        sum(1 for _ in work.iterate_counted()),
        count_left_out(work),
        everybody,
        compare_rater_pairs(work),
        compare_rater_groups(work),
        compute_field_alphas(work),
        compute_field_kappas(work),
        _count_exclusion_effects(work, rows),
        _propose_exclusions(work, everybody, rows),
    )


def count_left_out(work: LabellingData) -> dict[str, int]:
    """Count by reason the judgements that were corrected, excluded, skipped or flagged.

    One that was skipped or flagged and is excluded as well counts under both reasons.
    """
    reasons = Counter(left.counted_as for left in work.left_out.values())
    reasons.update(each.kind for each in work.judgements if each.kind in ("skipped", "flagged"))
    return dict(sorted(reasons.items()))


def exclude_judgements(
    store: Store,
    what: Literal["person", "judgement"],
    which: str,
    reason: str,
    by: str,
    batch: str = "",
) -> Exclusion:
    """Exclude a judgement with its later corrections, or a person's judgements (in a batch or all).

    `which` is the judgement's id or the person's name; `batch` is for persons only, and empty for
    all. Excluded judgements stay in the store and count no more. Returns the stored record. Raises
    Failed: no_reason, no_person, no_judgement, bad_batch (a judgement with a batch), already (it is
    excluded).
    """
    with store.begin_write() as connection:
        exclusion = _insert_exclusion(connection, what, which, reason, by, batch, store.clock())
        write_audit_entry(connection, by, "exclude", _describe_exclusion(exclusion), exclusion.at)
    return exclusion


def lift_exclusion(store: Store, number: int, reason: str, by: str) -> Exclusion:
    """Cancel the exclusion of this number, so that its judgements count again; return the record.

    Raises Failed: no_reason, no_exclusion (there is none of this number in force).
    """
    with store.begin_write() as connection:
        take_advisory_lock(connection, "exclusions")
        active = {row.number: row for row in select_active_exclusions(load_exclusions(connection))}
        if number not in active:
            detail = "there is none of this number that holds: look at the board again"
            raise Failed(Failure(str(number), Outcome.NO_EXCLUSION, detail))
        one = active[number]
        exclusion = write_exclusion(
            connection, one.what, one.which, reason, by, store.clock(), one.batch, number
        )
        write_audit_entry(connection, by, "lift", _describe_exclusion(exclusion), exclusion.at)
    return exclusion


def list_exclusions(store: Store) -> list[Exclusion]:
    """Return every exclusion ever made, and the records that lift some of them, in order."""
    with store.begin_read() as connection:
        return load_exclusions(connection)


def exclude_failed_raters(store: Store, by: str, batch: str | None = None) -> list[Exclusion]:
    """Exclude the judgements of people in batches whose attention check they failed.

    Applies to one batch or to all, and returns the new exclusions. Where a person was excluded from
    that batch before, nothing is repeated, even if that exclusion was lifted.
    """
    with store.begin_write() as connection:
        work = load_labelling_data(connection, [batch] if batch is not None else [])
        proposals = _propose_exclusions(work, summarize_raters(work), load_exclusions(connection))
        now = store.clock()
        excluded = [
            _insert_exclusion(connection, "person", each.person, each.reason, by, each.batch, now)
            for each in proposals
        ]
        for each in excluded:
            write_audit_entry(connection, by, "exclude", _describe_exclusion(each), now)
    return excluded


def _insert_exclusion(
    connection: Connection,
    what: Literal["person", "judgement"],
    which: str,
    reason: str,
    by: str,
    batch: str,
    now: float,
) -> Exclusion:
    if what == "judgement" and batch:
        detail = "one judgement is excluded without a batch: leave the batch out"
        raise Failed(Failure(which, Outcome.BAD_BATCH, detail))
    take_advisory_lock(connection, "exclusions")
    key = people.c.name if what == "person" else judgements.c.id
    if connection.scalar(select(key).where(key == which)) is None:
        raise Failed(Failure(which, f"no_{what}", f"there is no such {what}: look at the board"))
    for row in select_active_exclusions(load_exclusions(connection)):
        if (row.what, row.which, row.batch) == (what, which, batch):
            raise Failed(Failure(which, Outcome.ALREADY, f"excluded before: {row.reason}"))
    return write_exclusion(connection, what, which, reason, by, now, batch)


def _describe_exclusion(row: Exclusion) -> str:
    where = f" in {row.batch}" if row.batch else ""
    return f"{row.what} {row.which}{where}: {row.reason}"


def _count_exclusion_effects(
    work: LabellingData, rows: list[Exclusion]
) -> tuple[ExclusionEffect, ...]:
    """Return the exclusions that apply to something in this report, lifted ones included."""
    active = {row.number for row in select_active_exclusions(rows)}
    traced = trace_versions(work.judgements).values()
    effects = []
    for row in (row for row in rows if row.lifts is None):
        batches = ((versions, work.items[versions[-1].item].batch) for versions in traced)
        if count := sum(covers_judgement(row, versions, batch) for versions, batch in batches):
            effects.append(ExclusionEffect(row, count, row.number in active))
    return tuple(effects)


def _propose_exclusions(
    work: LabellingData, everybody: tuple[RaterReport, ...], rows: list[Exclusion]
) -> tuple[ExclusionProposal, ...]:
    """Propose exclusions for failed attention checks, unless one was decided before, even if lifted
    since."""
    decided = {(row.which, row.batch) for row in rows if row.what == "person" and row.batch}
    proposals = []
    for person in everybody:
        for prelude in person.preludes:
            if prelude.passed is False and (person.name, prelude.batch) not in decided:
                needed = work.find_settings(prelude.batch).pass_share
                reason = (
                    f"failed the attention check of {prelude.batch}: {prelude.right} of "
                    f"{prelude.of} right, at least {needed:.0%} are needed"
                )
                count = sum(
                    each.by == person.name and work.items[each.item].batch == prelude.batch
                    for each in work.judgements
                )
                proposals.append(ExclusionProposal(person.name, prelude.batch, reason, count))
    return tuple(proposals)


MIN_FEEDBACK_ITEMS = 5
"""items that others judged, too, before a rater is told about their agreement"""


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
    by_item: dict[str, list[Judgement]] = defaultdict(list)
    for placed, judgement in work.iterate_counted():
        if not placed.prelude and placed.item.gold is None:
            by_item[placed.id].append(judgement)
    credits = []
    for submitted in by_item.values():
        days = work.find_settings(work.items[submitted[0].item].batch).feedback_days
        old = [each for each in submitted if now - each.ended >= days * DAY_SECONDS]
        if mine := [each for each in old if each.by == person]:
            others = [_compare_judgements(work, mine[0], each) for each in old if each.by != person]
            if comparable := [credit for credit in others if credit is not None]:
                credits.append(mean(comparable))
    if len(credits) < MIN_FEEDBACK_ITEMS:
        return None
    return estimate_credits([[credit] for credit in credits])


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
    """Return what came of flags, by the ids of the judgements that flagged.

    Unknown ids are left out.
    """
    reply = flag_replies.c
    query = select(judgements.c.id, items.c.why, items.c.retired, reply.text, reply.by, reply.at)
    query = query.join(items, items.c.id == judgements.c.item)
    query = query.outerjoin(flag_replies, reply.judgement == judgements.c.id)
    outcomes = {}
    with store.begin_read() as connection:
        for row in connection.execute(query.where(judgements.c.id.in_(flagged))):
            retired = None if row.retired is None else row.why or ""
            at = row.at or row.retired
            outcomes[row.id] = FlagOutcome(retired, row.text or "", row.by or "", at)
    return outcomes


def _compare_judgements(work: LabellingData, mine: Judgement, other: Judgement) -> float | None:
    """Return the credit for one item, 0 to 1; None: there is nothing to compare."""
    item = work.items[mine.item].item
    one, two = (find_preferred_answer(item, each, work.forms) for each in (mine, other))
    if one is not None and two is not None:
        return compute_preference_credit(len(item.answers), one, two)
    other_labels = collect_field_labels(work, other)
    same = [
        float(value == other_labels[key][place])
        for key, labels in collect_field_labels(work, mine).items()
        for place, value in labels.items()
        if place in other_labels.get(key, ())
    ]
    return mean(same) if same else None

"""Judgements that count, agreement between people, majority labels, and decisions of a third person
on what raters disagree about.

A corrected judgement gives way to its newest version; an excluded one counts no more, and stays in
the store with the reason. Attention checks are left out of agreement: they are easy, and their
answers are shown. The judgements of raters who disagreed stay as they are and count in agreement;
what is learnt from an item that was decided is the decision.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, Row, bindparam, insert, select

from rookery.desk import tables
from rookery.desk.accounts import ROLES, PersonRole, write_audit_entry
from rookery.desk.form_versions import index_forms, read_form_versions
from rookery.desk.forms import (
    FORMS,
    Decision,
    FormField,
    Judgement,
    LabellingForm,
    LabellingItem,
    find_form,
)
from rookery.desk.judgement_conversion import (
    TIE,
    extract_field_values,
    find_preferred_answer,
    get_comparison_key,
    get_measurement_level,
    order_labels,
)
from rookery.desk.projects import ProjectSettings, load_batch_settings
from rookery.desk.store import Store, take_advisory_lock
from rookery.desk.tables import decisions, exclusions, items, judgements
from rookery.errors import Failed, Outcome
from rookery.measure.intervals import (
    AgreementEstimate,
    LabelValue,
    MeasurementLevel,
    choose_majority_label,
    compute_cohen_kappa,
    compute_krippendorff_alpha,
    compute_pair_credit,
    count_values,
    estimate_credits,
    estimate_statistic,
    get_sign,
    jackknife_interval,
)
from rookery.records import Failure, Record, digest_of

_EXCLUSIONS = exclusions.select().order_by(exclusions.c.number)
_EXCLUSIONS_OF = _EXCLUSIONS.where(exclusions.c.which == bindparam("whose"))
_PERSON_IN_BATCH = "person in "
"""prefix stored in `exclusions.what` for a person's judgements in one batch; the batch follows"""


class Exclusion(Record, frozen=True):
    """A decision that judgements no longer count, or count again."""

    number: int
    what: Literal["person", "judgement"]
    """scope: a person's judgements, or one judgement"""
    which: str
    """name of the person, or id of the judgement"""
    reason: str
    by: str
    at: float
    batch: str = ""
    """for a person: only judgements in this batch; empty: in every batch"""
    lifts: int | None = None
    """number of the exclusion that this one cancels"""


class PlacedItem(NamedTuple):
    """An item at the desk, with how it was queued."""

    id: str
    batch: str
    item: LabellingItem
    prelude: bool
    wanted: int
    priority: int
    policy: int | None
    retired: str | None
    """reason why it is no longer handed out; None: it still is"""


class LeftOutJudgement(Record, frozen=True):
    """A judgement that nothing is learnt from, and the reason."""

    judgement: str
    why: Literal["corrected", "excluded", "skipped", "flagged", "gold", "decided"]
    """kind of reason; only the first two also remove it from agreement"""
    reason: str
    by: str
    """person who decided it"""
    at: float

    @property
    def counted_as(self) -> str:
        """Reason for counting: the same for all corrected and all decided ones, else `reason`."""
        kinds = {"corrected": "corrected later", "decided": "decided by a third person"}
        return kinds.get(self.why, self.reason)


class LabellingData(NamedTuple):
    """Items and their judgements as the store had them at one moment."""

    items: Mapping[str, PlacedItem]
    judgements: Sequence[Judgement]
    """in order of submission"""
    left_out: Mapping[str, LeftOutJudgement]
    """judgements that do not count, by id"""
    roles: Mapping[str, PersonRole]
    """role of every person, by name"""
    forms: Mapping[str, LabellingForm] = FORMS
    """the known forms, as `find_form` takes them"""
    settings: Mapping[str, ProjectSettings] = MappingProxyType({})
    """settings of the project of each batch that belongs to one, by batch"""
    decisions: Mapping[str, Decision] = MappingProxyType({})
    """newest decision on each item that a third person decided, by item"""

    def iterate_counted(self) -> Iterator[tuple[PlacedItem, Judgement]]:
        """Yield the judgements that count, each with its item, in order of submission.

        Corrected, excluded, skipped and flagged ones are left out.
        """
        for each in self.judgements:
            if each.id not in self.left_out and each.kind in ("done", "extra"):
                yield self.items[each.item], each

    def find_form(self, judgement: Judgement) -> LabellingForm | None:
        """Return the form that a judgement was given on; None: it is not known here."""
        return find_form(self.forms, self.items[judgement.item].item.form, judgement.form_version)

    def find_settings(self, batch: str) -> ProjectSettings:
        """Return the settings of a batch's project; the usual ones for a batch of none."""
        return self.settings.get(batch, ProjectSettings())

    def is_left_out(self, judgement: Judgement, why: str) -> bool:
        """Return True if a judgement does not count for this kind of reason."""
        left = self.left_out.get(judgement.id)
        return left is not None and left.why == why

    def is_researcher(self, person: str) -> bool:
        """Return True if the person's role is researcher or higher."""
        return ROLES.index(self.roles[person]) >= ROLES.index("researcher")


def load_labelling_data(
    connection: Connection, batches: Sequence[str] = (), forms: Sequence[str] = ()
) -> LabellingData:
    """Load the items of these batches and forms with their judgements, and those left out.

    Without names, the items of every batch or form are loaded. Roles are those of all people.
    """
    where = [items.c.batch.in_(batches)] if batches else []
    where += [items.c.form.in_(forms)] if forms else []
    placed = {
        row.id: _make_placed_item(row)
        for row in connection.execute(items.select().where(*where).order_by(items.c.number))
    }
    handed_in = select(judgements.c.body).join(items).where(*where).order_by(judgements.c.number)
    submitted = [Judgement.from_json(body) for body in connection.scalars(handed_in)]
    left_out = _find_left_out(
        submitted, placed, select_active_exclusions(load_exclusions(connection))
    )
    roles = connection.execute(select(tables.people.c.name, tables.people.c.role))
    known_forms = index_forms(read_form_versions(connection))
    settings = load_batch_settings(connection)
    decided = {each.item: each for each in load_decisions(connection) if each.item in placed}
    return LabellingData(
        placed, submitted, left_out, dict(iter(roles)), known_forms, settings, decided
    )


def _make_placed_item(row: Row[Any]) -> PlacedItem:
    item, retired = (
        LabellingItem.from_json(row.body),
        None if row.retired is None else row.why or "",
    )
    laid = (row.prelude, row.wanted, row.priority, row.policy, retired)
    return PlacedItem(row.id, row.batch, item, *laid)


def trace_versions(submitted: Iterable[Judgement]) -> dict[str, tuple[Judgement, ...]]:
    """Return each judgement after the earlier versions that it corrects, oldest first, by its id.

    `submitted` has corrections after what they correct, as in order of submission.
    """
    versions: dict[str, tuple[Judgement, ...]] = {}
    for each in submitted:
        versions[each.id] = (*versions.get(each.supersedes, ()), each)
    return versions


def measure_judging_seconds(submitted: Iterable[Judgement]) -> dict[str, float]:
    """Return the seconds that each judgement took, by its id, from its beginning to its end.

    Those of a correction are added to those of what it corrects. `submitted` are as
    `trace_versions` takes them.
    """
    return {
        key: sum(each.ended - each.began for each in versions)
        for key, versions in trace_versions(submitted).items()
    }


def load_decisions(connection: Connection) -> list[Decision]:
    """Return every decision of a third person, oldest first; of an item the newest holds.

    They are in order of their times: an older export may be imported after a newer one.
    """
    order = (tables.decisions.c.at, tables.decisions.c.number)
    query = select(tables.decisions.c.body).order_by(*order)
    return [Decision.from_json(body) for body in connection.scalars(query)]


def load_exclusions(connection: Connection, which: str | None = None) -> list[Exclusion]:
    """Return every exclusion ever made, and the records that lift some of them, in order.

    With `which`, only those of this person or judgement.
    """
    rows = connection.execute(_EXCLUSIONS if which is None else _EXCLUSIONS_OF, {"whose": which})
    records = []
    for row in rows.mappings():
        values = dict(row)
        if values["what"].startswith(_PERSON_IN_BATCH):
            values |= {"what": "person", "batch": values["what"].removeprefix(_PERSON_IN_BATCH)}
        records.append(Exclusion(**values))
    return records


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
    """Store an exclusion, or with `lifts` the record that cancels one, and return it.

    `which` is a person's name or a judgement's id. Raises Failed (no_reason) for a blank reason.
    """
    if not reason.strip():
        raise Failed(Failure(which, Outcome.NO_REASON, "say why: others will ask"))
    named = f"{_PERSON_IN_BATCH}{batch}" if batch else what
    values = {"which": which, "reason": reason.strip(), "by": by, "at": at, "lifts": lifts}
    key = connection.execute(insert(exclusions).values(what=named, **values)).inserted_primary_key
    assert key is not None  # of one row
    return Exclusion(key[0], what, which, reason.strip(), by, at, batch, lifts)


def select_active_exclusions(rows: Sequence[Exclusion]) -> list[Exclusion]:
    """Return the exclusions in force: neither lifted, nor lifting another."""
    lifted = {row.lifts for row in rows}
    return [row for row in rows if row.lifts is None and row.number not in lifted]


def covers_judgement(exclusion: Exclusion, versions: Sequence[Judgement], batch: str) -> bool:
    """Return True if the exclusion applies to a judgement of an item in `batch`.

    `versions` are the judgement after those that it corrects, as `trace_versions` has them: an
    excluded judgement does not count again because its rater corrects it.
    """
    if exclusion.what == "judgement":
        return any(exclusion.which == each.id for each in versions)
    return exclusion.which == versions[-1].by and exclusion.batch in ("", batch)


def _find_left_out(
    submitted: Sequence[Judgement], placed: Mapping[str, PlacedItem], excluding: Sequence[Exclusion]
) -> dict[str, LeftOutJudgement]:
    newer = {each.supersedes: each for each in submitted if each.supersedes}
    by_name: dict[str, list[Exclusion]] = {}
    for row in excluding:
        by_name.setdefault(row.which, []).append(row)
    traced, left_out = trace_versions(submitted), {}
    for each in submitted:
        if (newest := newer.get(each.id)) is not None:
            reason = f"corrected by {newest.id}"
            left_out[each.id] = LeftOutJudgement(
                each.id, "corrected", reason, newest.by, newest.ended
            )
            continue
        versions = traced[each.id]
        names = (each.by, *(version.id for version in versions))
        for row in (row for name in names for row in by_name.get(name, ())):
            if covers_judgement(row, versions, placed[each.item].batch):
                left_out[each.id] = LeftOutJudgement(
                    each.id, "excluded", row.reason, row.by, row.at
                )
                break
    return left_out


RaterPairKind = Literal["researcher and labeller", "labellers", "researchers"]
SUPPORTED_AND_PLAUSIBLE = "supported and plausible"
"""stands for a field's name where an answer is judged both supported and plausible"""
_PREFERENCE_SIGNS = {0: -1, TIE: 0, 1: 1}
"""preference among two answers as the sign that half credit uses"""
_PAIR_KINDS: tuple[RaterPairKind, ...] = ("labellers", "researcher and labeller", "researchers")
"""kind of a pair, indexed by the number of researchers in it"""
MIN_KAPPA_VALUES = 10
"""values in common that two people need for a kappa in one field; fewer say nothing, and in a large
project there are thousands of such pairs"""
T = TypeVar("T")
PairOf = tuple[T, T]


class RaterPairAgreement(Record, frozen=True):
    """Agreement of two people on the items that both judged."""

    one: str
    other: str
    credit: AgreementEstimate
    """on comparisons of two answers: WebGPT's agreement with half credit for ties"""
    kappa: AgreementEstimate
    """on the same comparisons: Cohen's kappa"""
    same: AgreementEstimate
    """on items with more than two answers: share of identical choices (Ziegler, table 9)"""


class RaterGroupAgreement(Record, frozen=True):
    """Agreement on the better answer between people of two kinds (WebGPT, appendix C)."""

    between: RaterPairKind
    credit: AgreementEstimate
    same: AgreementEstimate


class FieldAlpha(Record, frozen=True):
    """Krippendorff's alpha of one form field."""

    form: str
    field: str
    level: MeasurementLevel
    judgements: int
    alpha: AgreementEstimate
    variant: int = 1
    """counts the sets of choices that the field has had in the versions of its form: judgements on
    one set cannot be compared with those on another"""


class FieldKappa(Record, frozen=True):
    """Cohen's kappa of two people in one form field."""

    form: str
    field: str
    one: str
    other: str
    kappa: AgreementEstimate
    variant: int = 1
    """as that of `FieldAlpha`"""


class MajorityLabel(Record, frozen=True):
    """Majority label of one field of one item."""

    item: str
    form: str
    field: str
    place: tuple[int, ...]
    """number of the answer, then of its quote, that it is about"""
    value: LabelValue
    votes: tuple[tuple[LabelValue, int], ...]
    tied: bool
    """True: several labels had the most votes, and `value` is the first of them"""


def compare_rater_pairs(work: LabellingData) -> tuple[RaterPairAgreement, ...]:
    """Measure how far every two people who compared the same items prefer the same answers.

    Only counted judgements of items that are no attention checks are used. Sorted by the two names.
    """
    two: dict[PairOf[str], list[PairOf[int]]] = defaultdict(list)
    many: dict[PairOf[str], list[PairOf[int]]] = defaultdict(list)
    for count, chosen in _iterate_preferences(work):
        for (one, a), (other, b) in combinations(sorted(chosen.items()), 2):
            if count == 2:
                two[one, other].append((_PREFERENCE_SIGNS[a], _PREFERENCE_SIGNS[b]))
            else:
                many[one, other].append((a, b))
    return tuple(
        RaterPairAgreement(
            *raters,
            estimate_credits([[compute_pair_credit(*pair)] for pair in two[raters]]),
            estimate_statistic(two[raters], compute_cohen_kappa, jackknife_interval),
            estimate_credits([[float(a == b)] for a, b in many[raters]]),
        )
        for raters in sorted({*two, *many})
    )


def compare_rater_groups(work: LabellingData) -> tuple[RaterGroupAgreement, ...]:
    """Measure agreement on the better answer among labellers, researchers, and between the two.

    Each pair of people who compared the same item gives one credit, and all credits weigh the same.
    Attention checks and judgements that do not count are left out.
    """
    two: dict[RaterPairKind, list[Sequence[float]]] = {kind: [] for kind in _PAIR_KINDS}
    many: dict[RaterPairKind, list[Sequence[float]]] = {kind: [] for kind in _PAIR_KINDS}
    for count, chosen in _iterate_preferences(work):
        credits: dict[RaterPairKind, list[float]] = defaultdict(list)
        for (one, a), (other, b) in combinations(chosen.items(), 2):
            between = _PAIR_KINDS[work.is_researcher(one) + work.is_researcher(other)]
            credits[between].append(compute_preference_credit(count, a, b))
        for between, pair_credits in credits.items():
            (two if count == 2 else many)[between].append(pair_credits)
    return tuple(
        RaterGroupAgreement(kind, estimate_credits(two[kind]), estimate_credits(many[kind]))
        for kind in _PAIR_KINDS
    )


def compute_preference_credit(answers: int, one: int, other: int) -> float:
    """Return how far two preferences among so many answers agree, 0 to 1.

    Among two answers a tie against a choice is half (WebGPT, appendix C).
    """
    if answers == 2:
        return compute_pair_credit(_PREFERENCE_SIGNS[one], _PREFERENCE_SIGNS[other])
    return float(one == other)


def compute_field_alphas(work: LabellingData) -> tuple[FieldAlpha, ...]:
    """Compute Krippendorff's alpha for every field of the forms except texts and claims.

    Each answer, or quote of an answer, that a field is about is one unit. Attention checks and
    judgements that do not count are left out. In the order of the forms.
    """
    fields, tables = _build_value_tables(work)
    alphas = []
    for (form, name, variant), table in tables.items():
        level = get_measurement_level(fields[form, name, variant])
        units = [count_values(row) for row in table.values()]
        alpha = estimate_statistic(
            units, partial(compute_krippendorff_alpha, level=level), jackknife_interval
        )
        alphas.append(FieldAlpha(form, name, level, sum(map(len, table.values())), alpha, variant))
    return tuple(sorted(alphas, key=lambda each: _get_form_rank(work, each.form)))


def compute_field_kappas(work: LabellingData) -> tuple[FieldKappa, ...]:
    """Compute Cohen's kappa of every two people in every field except texts and claims.

    Two people with fewer than MIN_KAPPA_VALUES in common are left out. Units and judgements are
    those of `compute_field_alphas`; the intervals are jackknife ones. In the order of the forms,
    then of the names.
    """
    kappas = []
    for (form, name, variant), table in _build_value_tables(work)[1].items():
        pairs: dict[PairOf[str], list[PairOf[LabelValue]]] = defaultdict(list)
        for row in table.values():
            for (one, a), (other, b) in combinations(sorted(row.items()), 2):
                pairs[one, other].append((a, b))
        for raters in sorted(raters for raters in pairs if len(pairs[raters]) >= MIN_KAPPA_VALUES):
            kappa = estimate_statistic(pairs[raters], compute_cohen_kappa, jackknife_interval)
            kappas.append(FieldKappa(form, name, *raters, kappa, variant))
    return tuple(sorted(kappas, key=lambda each: _get_form_rank(work, each.form)))


def _get_form_rank(work: LabellingData, name: str) -> int:
    return list(work.forms).index(name)


def derive_majority_labels(work: LabellingData) -> Iterator[MajorityLabel]:
    """Yield the majority label of every field of every item except texts and claims.

    Also yields whether most people judged an answer both supported and plausible (1) or not (0).
    Equal votes go to the lower label (GopherCite, appendix C.1): a doubt or tie before no, no
    before yes. Much better counts as better. Attention checks and judgements that do not count are
    left out. Where the choices of a field changed between versions of its form, the judgements on
    each set of choices have a label of their own.
    """
    fields, tables = _build_value_tables(work)
    for (form_name, name, variant), table in tables.items():
        field = fields[form_name, name, variant]
        order = order_labels(work.forms[form_name], field)
        for (item, place), row in table.items():
            votes = [merge_degrees(field, value) for value in row.values()]
            yield _fill_majority(
                MajorityLabel(item, form_name, name, place, 0.0, (), False), votes, order
            )
    for form_name in dict.fromkeys(form_name for form_name, _, _ in tables):
        supported, plausible = (
            {
                (*unit, by): value
                for key, table in tables.items()
                if key[:2] == (form_name, scale)
                for unit, row in table.items()
                for by, value in row.items()
            }
            for scale in ("supported", "plausible")
        )
        agreements: dict[tuple[str, tuple[int, ...]], list[float]] = defaultdict(list)
        for (item, place, by), value in supported.items():
            if (item, place, by) in plausible:
                good = value == plausible[item, place, by] == "yes"
                agreements[item, place].append(float(good))
        for (item, place), agreed in agreements.items():
            of = MajorityLabel(item, form_name, SUPPORTED_AND_PLAUSIBLE, place, 0.0, (), False)
            yield _fill_majority(of, agreed, [0.0, 1.0])


def merge_degrees(field: FormField, value: LabelValue) -> LabelValue:
    """Return a label with much better counted as better; other labels are returned unchanged."""
    if field.kind == "versus" and isinstance(value, float):
        return float(get_sign(value))
    return value


def _fill_majority(
    of: MajorityLabel, votes: Sequence[LabelValue], order: Sequence[LabelValue]
) -> MajorityLabel:
    counts = tuple((label, votes.count(label)) for label in order if label in votes)
    most = max(count for _, count in counts)
    tied = sum(count == most for _, count in counts) > 1
    return msgspec.structs.replace(
        of, value=choose_majority_label(votes, order), votes=counts, tied=tied
    )


_FieldKey = tuple[str, str, int]
"""names of a form and of its field, and the variant of the field's choices"""
_ValueTables = dict[_FieldKey, dict[tuple[str, tuple[int, ...]], dict[str, LabelValue]]]


def _build_value_tables(work: LabellingData) -> tuple[dict[_FieldKey, FormField], _ValueTables]:
    """Return the fields, and their values by item and place, then by person."""
    fields: dict[_FieldKey, FormField] = {}
    keys: dict[str, dict[str, _FieldKey]] = {}
    tables: _ValueTables = defaultdict(lambda: defaultdict(dict))
    for placed, judgement in work.iterate_counted():
        form = work.find_form(judgement)
        if form is None or placed.prelude:
            continue
        version = f"{form.name} {judgement.form_version}"
        if version not in keys:
            keys[version] = {field.name: _add_variant(fields, form, field) for field in form.fields}
        for field, place, value in extract_field_values(form, judgement.filled):
            tables[keys[version][field.name]][placed.id, place][judgement.by] = value
    return fields, tables


def _add_variant(
    fields: dict[_FieldKey, FormField], form: LabellingForm, field: FormField
) -> _FieldKey:
    """Return the key of a field, a new one if its choices are not those of an earlier version."""
    key = (form.name, field.name, 1)
    while get_comparison_key(fields.setdefault(key, field)) != get_comparison_key(field):
        key = (*key[:2], key[2] + 1)
    return key


def _iterate_preferences(work: LabellingData) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield, for each item that several people compared, its number of answers and each person's
    preferred one."""
    preferences: dict[str, dict[str, int]] = defaultdict(dict)
    for placed, judgement in work.iterate_counted():
        choice = (
            None if placed.prelude else find_preferred_answer(placed.item, judgement, work.forms)
        )
        if choice is not None:
            preferences[placed.id][judgement.by] = choice
    for item, chosen in preferences.items():
        if len(chosen) > 1:
            yield len(work.items[item].item.answers), chosen


_FieldChoices = tuple[str, object]
"""name of a field, and what its values must have in common to be compared"""


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

    `filled` are the form's values, which are not checked here; the newest decision on an item
    holds, and all are kept. Raises Failed: no_reason, no_item (it is none of `find_disagreements`),
    not_allowed (the person judged the item, also where that does not count).
    """
    if not reason.strip():
        raise Failed(Failure(item, Outcome.NO_REASON, "say why: the raters will ask"))
    now = store.clock()
    with store.begin_write() as connection:
        take_advisory_lock(connection, "decisions")
        dispute = _find_disagreement(connection, item)
        if by in dispute.raters:
            detail = "you judged this item yourself: a third person decides"
            raise Failed(Failure(item, Outcome.NOT_ALLOWED, detail))
        name = dispute.placed.item.form
        form = index_forms(read_form_versions(connection, name))[name]
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
        id=decision.id,
        item=decision.item,
        by=decision.by,
        kind="done",
        filled=decision.filled,
        form_version=decision.form_version,
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


def _find_differing_fields(work: LabellingData, submitted: Sequence[Judgement]) -> tuple[str, ...]:
    item, form = work.items[submitted[0].item].item, work.find_form(submitted[0])
    decides = form.decides if form is not None else ""
    if decides and len({find_preferred_answer(item, each, work.forms) for each in submitted}) == 1:
        return ()
    labels: dict[_FieldChoices, list[dict[tuple[int, ...], LabelValue]]] = defaultdict(list)
    for each in submitted:
        for key, field_labels in collect_field_labels(work, each).items():
            labels[key].append(field_labels)
    # A preference is the same in every version, whatever its points were called.
    differing = (
        name
        for (name, _), alike in labels.items()
        if name == decides or any(one != alike[0] for one in alike)
    )
    return tuple(dict.fromkeys(differing))


def collect_field_labels(
    work: LabellingData, judgement: Judgement
) -> dict[_FieldChoices, dict[tuple[int, ...], LabelValue]]:
    """Return the labels that a judgement gives, by what they are about, for each field.

    Fields whose choices changed between versions of a form are different keys. Better and much
    better are the same label.
    """
    form = work.find_form(judgement)
    if form is None:
        return {}
    keys = {field.name: (field.name, get_comparison_key(field)) for field in form.fields}
    labels: dict[_FieldChoices, dict[tuple[int, ...], LabelValue]] = {
        key: {} for key in keys.values()
    }
    for field, place, value in extract_field_values(form, judgement.filled):
        labels[keys[field.name]][place] = merge_degrees(field, value)
    return labels

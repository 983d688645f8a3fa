"""Who agrees with whom at the desk: each two people, labellers with researchers, and all on each
field.

Preludes are left out: they are easy, and their answers are shown. It knows nothing of stores.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Literal, TypeVar

import msgspec

from rookery.judge.agreement import (
    Level,
    Measured,
    Undefined,
    Value,
    alpha_of,
    cohen_kappa,
    credit,
    half_credit,
    interval_of,
    jackknife,
    majority,
    measured,
    same,
    unit,
)
from rookery.judge.counted import Work
from rookery.judge.fields import Field
from rookery.judge.forms import FORMS
from rookery.judge.valued import TIE, labels, level_of, preference, said
from rookery.records import Record

Between = Literal["researcher and labeller", "labellers", "researchers"]
BOTH = "supported and plausible"
"""in the place of a field's name"""
_SIDES = {0: -1, TIE: 0, 1: 1}
"""of two answers, the preferred one as half credit takes it"""
_KINDS: tuple[Between, ...] = ("labellers", "researcher and labeller", "researchers")
"""by how many of two people are researchers"""
T = TypeVar("T")
Both = tuple[T, T]


class Pair(Record, frozen=True):
    """Two people on the items that both judged."""

    one: str
    other: str
    credit: Measured
    """of two answers, which is better, with WebGPT's half for a tie"""
    kappa: Measured
    """Cohen's, of the same"""
    same: Measured
    """how often they chose the same of more than two answers (Ziegler, table 9)"""


class Rate(Record, frozen=True):
    """How far people of two kinds agree on which answer is better (WebGPT, appendix C)."""

    between: Between
    credit: Measured
    same: Measured


class Alpha(Record, frozen=True):
    """Krippendorff's alpha of one field of a form."""

    form: str
    field: str
    level: Level
    judgements: int
    alpha: Measured


class Majority(Record, frozen=True):
    """What most people said in one field of one item."""

    item: str
    form: str
    field: str
    place: tuple[int, ...]
    """the answer, and its quote, that it is about"""
    value: Value
    votes: tuple[tuple[Value, int], ...]
    tied: bool
    """several had the most votes: it is the first of these labels"""


def pairs_of(work: Work) -> tuple[Pair, ...]:
    """Each two people with an item in common, by their names."""
    two: dict[Both[str], list[Both[int]]] = defaultdict(list)
    many: dict[Both[str], list[Both[int]]] = defaultdict(list)
    for count, chosen in _chosen(work):
        for (one, a), (other, b) in combinations(sorted(chosen.items()), 2):
            if count == 2:
                two[one, other].append((_SIDES[a], _SIDES[b]))
            else:
                many[one, other].append((a, b))
    share = partial(jackknife, least=0.0)
    return tuple(
        Pair(
            *both,
            measured(two[both], half_credit, share),
            measured(two[both], cohen_kappa, jackknife),
            measured(many[both], same, share),
        )
        for both in sorted({*two, *many})
    )


def rates_of(work: Work, rounds: int) -> tuple[Rate, ...]:
    """Researchers and labellers, labellers, and researchers; each pair of judgements has one
    say."""
    two: dict[Between, list[Sequence[float]]] = {kind: [] for kind in _KINDS}
    many: dict[Between, list[Sequence[float]]] = {kind: [] for kind in _KINDS}
    for count, chosen in _chosen(work):
        credits: dict[Between, list[float]] = defaultdict(list)
        for (one, a), (other, b) in combinations(chosen.items(), 2):
            between = _KINDS[work.is_researcher(one) + work.is_researcher(other)]
            agree = credit(_SIDES[a], _SIDES[b]) if count == 2 else float(a == b)
            credits[between].append(agree)
        for between, found in credits.items():
            (two if count == 2 else many)[between].append(found)
    drawn = partial(interval_of, rounds=rounds)
    return tuple(
        Rate(kind, *(measured(_summed(each[kind]), _mean, drawn) for each in (two, many)))
        for kind in _KINDS
    )


def alphas_of(work: Work, rounds: int) -> tuple[Alpha, ...]:
    """Each field whose values are some of a few, in the order of the forms; each answer of an
    item, or quote of an answer, is judged for itself."""
    fields, tables = _tables(work)
    drawn = partial(interval_of, rounds=rounds)
    found = []
    for (form, name), table in tables.items():
        level = level_of(fields[form, name])
        units = [unit(row) for row in table.values()]
        alpha = measured(units, partial(alpha_of, level=level), drawn)
        found.append(Alpha(form, name, level, sum(map(len, table.values())), alpha))
    order = {name: at for at, name in enumerate(FORMS)}
    return tuple(sorted(found, key=lambda each: order[each.form]))


def majorities(work: Work) -> Iterator[Majority]:
    """What most said, item by item, in each field and on whether an answer is both supported and
    plausible.

    Of labels with equally many votes it is the lower one (GopherCite, appendix C.1): a doubt or a
    tie, before no, before yes. Much better counts as better.
    """
    fields, tables = _tables(work)
    for (name, field_name), table in tables.items():
        form, field = FORMS[name], fields[name, field_name]
        order = labels(form, field)
        for (item, place), row in table.items():
            votes = [_merged(field, value) for value in row.values()]
            yield _most(Majority(item, name, field_name, place, 0.0, (), False), votes, order)
    for name in dict.fromkeys(form for form, _ in tables):
        supported, plausible = (
            tables.get((name, scale), {}) for scale in ("supported", "plausible")
        )
        for (item, place), row in supported.items():
            other = plausible.get((item, place), {})
            votes = [float(row[by] == other[by] == "yes") for by in row if by in other]
            if votes:
                of = Majority(item, name, BOTH, place, 0.0, (), False)
                yield _most(of, votes, [0.0, 1.0])


def _merged(field: Field, value: Value) -> Value:
    if field.kind == "versus" and isinstance(value, float):
        return float((value > 0) - (value < 0))
    return value


def _most(of: Majority, votes: Sequence[Value], order: Sequence[Value]) -> Majority:
    counts = tuple((label, votes.count(label)) for label in order if label in votes)
    most = max(count for _, count in counts)
    tied = sum(count == most for _, count in counts) > 1
    return msgspec.structs.replace(of, value=majority(votes, order), votes=counts, tied=tied)


_Tables = dict[tuple[str, str], dict[tuple[str, tuple[int, ...]], dict[str, Value]]]


def _tables(work: Work) -> tuple[dict[tuple[str, str], Field], _Tables]:
    """Of each field of each form, what was said by item and place, and there by person."""
    fields: dict[tuple[str, str], Field] = {}
    tables: _Tables = defaultdict(lambda: defaultdict(dict))
    for placed, judgement in work.counting():
        form = FORMS.get(placed.item.form)
        if form is None or placed.prelude:
            continue
        for field, place, value in said(form, judgement.filled):
            fields[form.name, field.name] = field
            tables[form.name, field.name][placed.id, place][judgement.by] = value
    return fields, tables


def _chosen(work: Work) -> Iterator[tuple[int, dict[str, int]]]:
    """Of each item that several compared, how many answers it has, and who preferred which."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for placed, judgement in work.counting():
        choice = None if placed.prelude else preference(placed.item, judgement)
        if choice is not None:
            found[placed.id][judgement.by] = choice
    for item, chosen in found.items():
        if len(chosen) > 1:
            yield len(work.items[item].item.answers), chosen


def _summed(credits: Sequence[Sequence[float]]) -> list[tuple[float, int]]:
    """Of each item, how much its pairs agree, and how many they are."""
    return [(math.fsum(each), len(each)) for each in credits]


def _mean(summed: Sequence[tuple[float, int]]) -> float | Undefined:
    if not summed:
        return Undefined("they judged no item in common")
    return math.fsum(credit for credit, _ in summed) / sum(size for _, size in summed)

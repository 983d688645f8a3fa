"""Judgements as one table (CSV): a row for every value that somebody gave in some field."""

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

from rookery.desk.adjudication import LabellingData, PlacedItem
from rookery.desk.forms import FormField
from rookery.desk.labelling_records import Judgement

TABLE_FILE = "values.csv"
"""Name of the table among the files of an exported snapshot."""
TABLE_COLUMNS = (
    *("batch", "item", "question_id", "question", "form", "form_version", "judgement", "person"),
    *("kind", "left_out", "began", "ended", "field", "field_label", "answer", "writer", "quote"),
    *("start", "end", "value", "value_label"),
)
"""Columns. Answers and quotes are numbered from 1 in the order of the item, offsets count the
characters of the answer from 0, times are seconds since 1970 in UTC. `left_out` is the reason why a
judgement does not count; empty: it counts."""
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of cells that a spreadsheet would run as formulas."""


def render_judgement_table(work: LabellingData) -> Iterator[str]:
    """Yield the lines of the table, without line breaks at their ends, the columns first.

    Cells that a spreadsheet would take for a formula begin with an apostrophe. Skips and flags are
    left out, and the episodes of demonstrations.
    """
    yield ",".join(TABLE_COLUMNS)
    for judgement in work.judgements:
        if judgement.kind in ("done", "extra"):
            for cells in _list_rows(work, work.items[judgement.item], judgement):
                line = io.StringIO()
                csv.writer(line, lineterminator="").writerow(map(protect_cell, cells))
                yield line.getvalue()


def protect_cell(value: Any) -> Any:
    """Return a cell with an apostrophe before it if a spreadsheet would run it as a formula."""
    # A number alone, such as -2 of a comparison, is no formula.
    if not isinstance(value, str) or re.fullmatch("-?[0-9]+", value):
        return value
    return f"'{value}" if value.startswith(_FORMULA_STARTS) else value


def _list_rows(
    work: LabellingData, placed: PlacedItem, judgement: Judgement
) -> Iterator[list[Any]]:
    form = work.find_form(judgement)
    left_out = work.left_out.get(judgement.id)
    question = placed.item.question
    shared = [placed.batch, placed.id, question.id, question.text, placed.item.form]
    shared += [judgement.form_version, judgement.id, judgement.by, judgement.kind]
    shared += [
        left_out.counted_as if left_out else "",
        f"{judgement.began:.0f}",
        f"{judgement.ended:.0f}",
    ]
    for field in form.fields if form else ():
        for place, value in _iterate_values(field, judgement.filled.get(field.name)):
            answer, quote, start, end = place
            of = placed.item.writers[answer] if placed.item.writers and answer is not None else ""
            where = [_count_from_one(answer), of, _count_from_one(quote), start, end]
            label = _find_label(field, value, len(placed.item.answers))
            yield [*shared, field.name, field.label, *where, value, label]


_Place = tuple[int | None, int | None, int | str, int | str]
"""Answer, quote, start and end of a value."""


def _iterate_values(field: FormField, value: Any) -> Iterator[tuple[_Place, Any]]:
    """Yield each value of a field with what it is about, leaving out what was not filled in."""
    if value is None:
        return
    if field.kind in ("claims", "spans"):
        for span in value:
            place = (span["answer"], None, span["start"], span["end"])
            parts = [f"{part.name} {span[part.name]}" for part in field.span_parts]
            parts += [f"quote {quote + 1}" for quote in span.get("quotes", ())]
            yield place, span["label"] if field.kind == "spans" else ", ".join(parts)
    elif not field.per:
        yield (None, None, "", ""), value
    else:
        for answer, answer_value in enumerate(value):
            for quote, one in (
                enumerate(answer_value) if field.per == "quote" else [(None, answer_value)]
            ):
                if one is not None:
                    yield (answer, quote, "", ""), one


def _find_label(field: FormField, value: Any, answers: int) -> str:
    if field.kind == "versus":
        return (
            "equally good"
            if value == 0
            else (f"answer {1 if value < 0 else 2} {'much ' * (abs(value) > 1)}better")
        )
    if field.kind == "pick" and isinstance(value, int) and value < answers:
        return f"answer {value + 1}"
    return next((choice.label for choice in field.choices if choice.value == value), "")


def _count_from_one(number: int | None) -> int | str:
    return "" if number is None else number + 1

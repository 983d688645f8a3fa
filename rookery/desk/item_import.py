"""Read items to judge from files: CSV, JSON lines, saved answers of `rookery ask --batch`.

A malformed line is reported with its number, and then no item of the files is returned.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from rookery.desk.form_parsing import ANSWER_MARK, encode_form, parse_form
from rookery.desk.forms import (
    FORMS,
    FormField,
    GoldLabels,
    LabellingForm,
    LabellingItem,
    join_form_names,
)
from rookery.errors import Failed, Outcome
from rookery.library.question_files import MOST_LINE_BYTES, parse_question
from rookery.records import Answer, Failure, Question, describe_json_error, digest_of, prepare_type
from rookery.typed_files import open_named_file, require_regular_file

_EXPECTED_LINE = (
    'expected is a question {"id": "1", "text": "Why ...?"}, a line that rookery ask --batch '
    'wrote, or {"question": ..., "answers": [...]}'
)
_GOLD_KINDS = ("choice", "versus", "pick")
"""kinds of fields whose right values can be known"""
_NAMED_ANSWER = re.compile(r"\banswers? [A-I1-9]\b", re.IGNORECASE)
"""an answer named by its place, in a justification"""
_CSV_COLUMNS = ("id", "text", "source")


class ReadItems(NamedTuple):
    """Items to judge, and counts of what was left out, by reason."""

    items: list[LabellingItem]
    left_out: Counter[str]


class _AnswersLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line with answers to judge together; each answer may be plain text."""

    question: Question | str
    answers: tuple[Answer | str, ...]
    writers: tuple[str, ...] = ()
    gold: GoldLabels | None = None
    source: str = ""


class _SavedAnswerLine(msgspec.Struct):
    """A line that `rookery ask --batch` wrote."""

    question: Question
    answer: Answer | None


class _SourceLine(NamedTuple):
    """A parsed line and where it stands."""

    where: str
    found: LabellingItem | Question | _AnswersLine | _SavedAnswerLine


def read_items(
    paths: Sequence[Path],
    form: str,
    prelude: bool = False,
    forms: Mapping[str, LabellingForm] = FORMS,
) -> ReadItems:
    """Read items to judge with the form named `form`, in file order; `-` is standard input.

    Answers to one question in several files written by `rookery ask --batch` become one item, with
    each file's name as the writer; questions that one of the files does not answer are left out.
    With `prelude`, every item needs gold answers. `forms` are the known forms by name. Raises
    Failed: no_form, not_found, bad_line (also where nothing is left to judge).
    """
    if form not in forms:
        detail = f"there is no such form: use one of {join_form_names(forms)}"
        raise Failed(Failure(form, Outcome.NO_FORM, detail))
    files = [list(_read_source_lines(path)) for path in paths]
    if len(files) > 1 or any(isinstance(line.found, _SavedAnswerLine) for line in files[0]):
        read = _join_saved_answers(paths, files, forms[form], prelude)
    else:
        read = ReadItems(_build_items(files[0], forms[form], prelude), Counter())
    if not read.items:
        why = "; ".join(f"{reason}: {count:,}" for reason, count in read.left_out.items())
        detail = f"nothing is to be judged ({why or 'it is empty'})"
        raise _make_line_error(", ".join(map(str, paths)), detail)
    return read


def _make_line_error(where: str, sentence: str) -> Failed:
    return Failed(Failure(where, Outcome.BAD_LINE, sentence))


def _read_source_lines(path: Path) -> Iterator[_SourceLine]:
    try:
        if path.suffix.lower() == ".csv":
            yield from _read_csv(path)
            return
        with open_named_file(path) as lines:
            for number, line in enumerate(iter(lambda: lines.readline(MOST_LINE_BYTES), b""), 1):
                if line.strip():
                    where = f"{path}, line {number}"
                    yield _SourceLine(where, _parse_line(line, where))
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): check the path"
        raise Failed(Failure(str(path), Outcome.NOT_FOUND, detail)) from error


def _parse_line(
    line: bytes, where: str
) -> LabellingItem | Question | _AnswersLine | _SavedAnswerLine:
    try:
        names = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        if "form" in names:
            return LabellingItem.from_json(line)
        if "answers" in names:
            return msgspec.json.decode(line, type=prepare_type(_AnswersLine))
        if "answer" in names:
            return msgspec.json.decode(line, type=prepare_type(_SavedAnswerLine))
        if "text" in names:
            return Question.from_json(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _make_line_error(where, f"{describe_json_error(error)}; {_EXPECTED_LINE}") from error
    raise _make_line_error(where, _EXPECTED_LINE)


def _read_csv(path: Path) -> Iterator[_SourceLine]:
    """Yield the questions of a CSV file with the line number at which each row begins."""
    columns: list[str] = []
    with require_regular_file(path).open("rb") as file:
        rows = csv.reader((line.decode("utf-8") for line in file), strict=True)
        while True:
            where = f"{path}, line {rows.line_num + 1}"
            try:
                row = next(rows, None)
            except (csv.Error, UnicodeDecodeError) as error:
                detail = f"this is no CSV in UTF-8 ({error}): save it again"
                raise _make_line_error(where, detail) from error
            if not columns:
                columns = _parse_columns(row or [], where)
            elif row is None:
                return
            elif any(cell.strip() for cell in row):
                yield _SourceLine(where, _parse_question(columns, row, where))


def _parse_columns(first: Sequence[str], where: str) -> list[str]:
    columns = [column.strip("\ufeff ").lower() for column in first]
    others = [
        column for column in columns if column not in _CSV_COLUMNS and not column.startswith("gold")
    ]
    if "text" not in columns or others or len(set(columns)) < len(columns):
        found = ", ".join(first) or "nothing"
        expected = "columns text and, as you like, id, source, gold, gold2, ..."
        raise _make_line_error(where, f"expected are {expected}, each once; found is: {found}")
    return columns


def _parse_question(columns: Sequence[str], row: Sequence[str], where: str) -> Question:
    if len(row) != len(columns):
        detail = f"expected are {len(columns)} cells, and there are {len(row)}"
        raise _make_line_error(where, detail)
    cells = {column: cell.strip() for column, cell in zip(columns, row, strict=True)}
    gold = tuple(cell for column, cell in cells.items() if column.startswith("gold") and cell)
    text = cells["text"]
    identity = cells.get("id") or digest_of(text)[:12]
    return Question(identity, text, gold=gold, source=cells.get("source", ""))


def _build_items(
    lines: Sequence[_SourceLine], form: LabellingForm, prelude: bool
) -> list[LabellingItem]:
    built, first_lines = [], dict[str, _SourceLine]()
    for line in lines:
        item = _build_item(line, form, prelude)
        before = first_lines.setdefault(item.question.id, line)
        if form.answers == 0 and before.found != line.found:
            detail = f"the id {item.question.id!r} was used in {before.where}: give each its own"
            raise _make_line_error(line.where, detail)
        built.append(item)
    return built


def _build_item(line: _SourceLine, form: LabellingForm, prelude: bool) -> LabellingItem:
    """Build the item of one line. Raises Failed (bad_line) if it does not suit the form."""
    values = line.found
    if isinstance(values, LabellingItem):
        item = values
    elif isinstance(values, _AnswersLine):
        question = values.question
        if isinstance(question, str):
            question = Question(digest_of(question)[:12], question)
        answers = tuple(Answer(each) if isinstance(each, str) else each for each in values.answers)
        item = LabellingItem(
            form.name, question, answers, values.writers, gold=values.gold, source=values.source
        )
    else:
        assert isinstance(values, Question)  # saved answers went to _zipped
        item = LabellingItem(form.name, values)
    _validate_item(item, form, prelude, line.where)
    return item


def _validate_item(item: LabellingItem, form: LabellingForm, prelude: bool, where: str) -> None:
    try:
        parse_question(item.question.text)
    except ValueError as error:
        raise _make_line_error(where, str(error)) from error
    if item.form != form.name:
        detail = f"this is an item of the form {item.form}: import it with --form"
        raise _make_line_error(where, detail)
    if prelude and item.gold is None:
        detail = 'an attention check needs "gold": {"expected": {FIELD: VALUE}}'
        raise _make_line_error(where, detail)
    for problem in find_item_problems(item, {form.name: form}):
        raise _make_line_error(where, problem)


def _join_saved_answers(
    paths: Sequence[Path],
    files: Sequence[Sequence[_SourceLine]],
    form: LabellingForm,
    prelude: bool,
) -> ReadItems:
    """Join saved answers to the same question into items, in the order of the first file."""
    if len(files) != form.answers:
        detail = f"the form {form.name} takes {form.answers} files of saved answers at once"
        raise _make_line_error(str(paths[0]), f"{detail}; there are {len(files)}")
    by_question = [_index_answers(lines) for lines in files]
    stems = [path.stem for path in paths]
    writers = tuple(stems if len(set(stems)) == len(stems) else map(str, paths))
    left_out: Counter[str] = Counter()
    joined = []
    for key, (where, question, first) in by_question[0].items():
        answers = [first, *(answers[key][2] for answers in by_question[1:] if key in answers)]
        given_answers = tuple(each for each in answers if each is not None and not each.declined)
        if len(answers) < form.answers:
            left_out["questions that are not in every file"] += 1
        elif len(given_answers) < form.answers:
            left_out["questions without an answer, or with a declined one"] += 1
        elif form.answers > 1 and len({(each.text, each.quotes) for each in given_answers}) == 1:
            left_out["questions with the same answer in every file"] += 1
        else:
            item = LabellingItem(form.name, question, given_answers, writers)
            _validate_item(item, form, prelude, where)
            joined.append(item)
    others = {key for answers in by_question[1:] for key in answers} - set(by_question[0])
    left_out["questions that are not in every file"] += len(others)
    return ReadItems(joined, +left_out)


_AnswersByQuestion = dict[tuple[str, str], tuple[str, Question, Answer | None]]


def _index_answers(lines: Sequence[_SourceLine]) -> _AnswersByQuestion:
    by_question: _AnswersByQuestion = {}
    for where, one in lines:
        if not isinstance(one, _SavedAnswerLine):
            detail = "expected is a line that rookery ask --batch wrote, as in the others"
            raise _make_line_error(where, detail)
        key = (one.question.id, one.question.text)
        if key in by_question:
            detail = f"this question was answered in {by_question[key][0]} already"
            raise _make_line_error(where, detail)
        by_question[key] = (where, one.question, one.answer)
    return by_question


def find_item_problems(
    item: LabellingItem, forms: Mapping[str, LabellingForm] = FORMS
) -> list[str]:
    """Return the reasons why an item cannot be handed out; empty if it can.

    They are sentences without a capital: it does not suit its form, has an empty text, or its gold
    values are impossible.
    """
    form = forms.get(item.form)
    if form is None:
        return [f'there is no form "{item.form}": use one of {join_form_names(forms)}']
    problems = [*_check_question(form, item), *_check_answers(form, item)]
    if item.gold is not None and len(item.answers) == form.answers:
        problems += _check_gold(form, item, item.gold.expected)
    return problems


def _check_question(form: LabellingForm, item: LabellingItem) -> Iterator[str]:
    if not item.question.text.strip():
        yield "its question is empty"
    if form.trusted and not any(gold.strip() for gold in item.question.gold):
        yield f"{form.name} shows trusted answers: give some as the question's gold"


def _check_answers(form: LabellingForm, item: LabellingItem) -> Iterator[str]:
    if len(item.answers) != form.answers:
        yield f"{form.name} takes {form.answers} answers, and it has {len(item.answers)}"
    if item.writers and len(item.writers) != len(item.answers):
        yield f"it has {len(item.writers)} writers of {len(item.answers)} answers"
    for number, answer in enumerate(item.answers, 1):
        if not answer.text.strip():
            yield f"answer {number} is empty: what failed cannot be judged"
        elif answer.declined and form.decides:
            yield f"answer {number} was declined: compare only what was answered"


def _check_gold(
    form: LabellingForm, item: LabellingItem, expected: Mapping[str, Any]
) -> Iterator[str]:
    if not expected:
        yield "its gold expects nothing: give the right value of one field or more"
    yield from _check_justification(form, item)
    fields = {field.name: field for field in form.fields if field.kind in _GOLD_KINDS}
    order = range(len(item.answers))
    form = _drop_conditions(form)  # what a value depends on need not be expected, too
    for name, value in expected.items():
        if name not in fields:
            yield f'its gold expects "{name}", which is no choice of {form.name}: leave it out'
            continue
        raw = encode_form(form, item, order, {name: value})
        if parse_form(form, item, order, raw, whole=False).filled != {name: value}:
            possible = _describe_allowed_values(form, fields[name])
            yield f'its gold expects "{name}" to be {value!r}: {possible}'


def _check_justification(form: LabellingForm, item: LabellingItem) -> Iterator[str]:
    said = item.gold.justification if item.gold else ""
    for mark in ANSWER_MARK.finditer(said):
        if int(mark[1]) > form.answers:
            yield f"its justification has {mark[0]}, and {form.name} takes {form.answers} answers"
    if form.answers > 1 and (named := _NAMED_ANSWER.search(said)):
        yield (
            f'its justification says "{named[0]}", but people see the answers in an order drawn by '
            "lot: write {1} for the item's first answer, {2} for the second"
        )


def _drop_conditions(form: LabellingForm) -> LabellingForm:
    """Return the form with every field shown always."""
    steps = (
        replace(step, fields=tuple(replace(field, shown_when=None) for field in step.fields))
        for step in form.steps
    )
    return replace(form, steps=tuple(steps))


def _describe_allowed_values(form: LabellingForm, field: FormField) -> str:
    if field.kind == "versus":
        return "it is a number from -2, the first is much better, to 2"
    values = ", ".join(f'"{choice.value}"' for choice in field.choices)
    if field.kind == "pick":
        return f"it is a number from 0 to {form.answers - 1}" + (f", or {values}" if values else "")
    each = {"answer": ", in a list by answer", "quote": ", in a list by answer of lists by quote"}
    return f"it is one of {values}" + each.get(field.per, "")

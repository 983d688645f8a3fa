"""Questions and items read from files that people write: CSV, JSON lines, and saved answers.

What has the wrong shape is told by its line, and then nothing of the files is given. It knows
nothing of stores.
"""

import csv
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import msgspec

from rookery.ask.load import LINE, asked
from rookery.judge.fields import Form
from rookery.judge.fitting import fits
from rookery.judge.forms import FORMS
from rookery.judge.work import Gold, Item
from rookery.records import Answer, Failed, Failure, Question, digest_of

_EXPECTED = (
    'a question {"id": "1", "text": "Why ...?"}, a line that rookery ask --batch wrote, or '
    '{"question": ..., "answers": [...]}'
)
_COLUMNS = ("id", "text", "source")


class Read(NamedTuple):
    """What is to be judged, and what is not, by the reason."""

    items: list[Item]
    left_out: Counter[str]


class _Judged(msgspec.Struct, forbid_unknown_fields=True):
    """Answers to be judged together; each may be a plain text."""

    question: Question | str
    answers: tuple[Answer | str, ...]
    writers: tuple[str, ...] = ()
    gold: Gold | None = None
    source: str = ""


class _Saved(msgspec.Struct):
    """What `rookery ask --batch` writes."""

    question: Question
    answer: Answer | None


class _Line(NamedTuple):
    """What stands in a line of a file."""

    where: str
    found: Item | Question | _Judged | _Saved


def read_items(paths: Sequence[Path], form: str, prelude: bool = False) -> Read:
    """Items to be judged with this form, in the order of the file; - is standard input.

    Of several files that `rookery ask --batch` wrote, the answers to one question become one item,
    and each file's name says who wrote its answer; questions that one of them does not answer are
    left out. Items of a prelude need gold. Raises Failed: no_form, not_found, bad_line, nothing.
    """
    if form not in FORMS:
        detail = f"there is no such form: use one of {', '.join(FORMS)}"
        raise Failed(Failure(form, "no_form", detail))
    files = [list(_lines(path)) for path in paths]
    if len(files) > 1 or any(isinstance(line.found, _Saved) for line in files[0]):
        found = _zipped(paths, files, FORMS[form])
    else:
        found = Read(_items(files[0], FORMS[form], prelude), Counter())
    if not found.items:
        why = "; ".join(f"{reason}: {count:,}" for reason, count in found.left_out.items())
        raise _wrong(
            ", ".join(map(str, paths)), f"nothing is to be judged ({why or 'it is empty'})"
        )
    return found


def _wrong(where: str, sentence: str) -> Failed:
    return Failed(Failure(where, "bad_line", sentence))


def _lines(path: Path) -> Iterator[_Line]:
    try:
        if path.suffix.lower() == ".csv":
            yield from _table(path)
            return
        with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as lines:
            for number, line in enumerate(iter(lambda: lines.readline(LINE), b""), 1):
                if line.strip():
                    where = f"{path}, line {number}"
                    yield _Line(where, _parsed(line, where))
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): check the path"
        raise Failed(Failure(str(path), "not_found", detail)) from error


def _parsed(line: bytes, where: str) -> Item | Question | _Judged | _Saved:
    try:
        names = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        if "form" in names:
            return Item.from_json(line)
        if "answers" in names:
            return msgspec.json.decode(line, type=_Judged)
        if "answer" in names:
            return msgspec.json.decode(line, type=_Saved)
        if "text" in names:
            return Question.from_json(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _wrong(where, f"{error}; expected is {_EXPECTED}") from error
    raise _wrong(where, f"expected is {_EXPECTED}")


def _table(path: Path) -> Iterator[_Line]:
    """The questions of a CSV file, each by the line in which its row begins."""
    columns: list[str] = []
    with path.open("rb") as file:
        rows = csv.reader((line.decode("utf-8") for line in file), strict=True)
        while True:
            where = f"{path}, line {rows.line_num + 1}"
            try:
                row = next(rows, None)
            except (csv.Error, UnicodeDecodeError) as error:
                raise _wrong(where, f"this is no CSV in UTF-8 ({error}): save it again") from error
            if not columns:
                columns = _columns(row or [], where)
            elif row is None:
                return
            elif any(cell.strip() for cell in row):
                yield _Line(where, _question(columns, row, where))


def _columns(first: Sequence[str], where: str) -> list[str]:
    columns = [column.strip("\ufeff ").lower() for column in first]
    others = [
        column for column in columns if column not in _COLUMNS and not column.startswith("gold")
    ]
    if "text" not in columns or others or len(set(columns)) < len(columns):
        found = ", ".join(first) or "nothing"
        expected = "columns text and, as you like, id, source, gold, gold2, ..."
        raise _wrong(where, f"expected are {expected}, each once; found is: {found}")
    return columns


def _question(columns: Sequence[str], row: Sequence[str], where: str) -> Question:
    if len(row) != len(columns):
        raise _wrong(where, f"expected are {len(columns)} cells, and there are {len(row)}")
    cells = {column: cell.strip() for column, cell in zip(columns, row, strict=True)}
    gold = tuple(cell for column, cell in cells.items() if column.startswith("gold") and cell)
    text = cells["text"]
    identity = cells.get("id") or digest_of(text)[:12]
    return Question(identity, text, gold=gold, source=cells.get("source", ""))


def _items(lines: Sequence[_Line], form: Form, prelude: bool) -> list[Item]:
    found, seen = [], dict[str, _Line]()
    for line in lines:
        item = _item(line, form, prelude)
        before = seen.setdefault(item.question.id, line)
        if form.answers == 0 and before.found != line.found:
            raise _wrong(
                line.where,
                f"the id {item.question.id!r} was used in {before.where}: give each its own",
            )
        found.append(item)
    return found


def _item(line: _Line, form: Form, prelude: bool) -> Item:
    """What one line asks for. Raises Failed (bad_line) where it does not suit the form."""
    found = line.found
    if isinstance(found, Item):
        item = found
    elif isinstance(found, _Judged):
        question = found.question
        if isinstance(question, str):
            question = Question(digest_of(question)[:12], question)
        answers = tuple(Answer(each) if isinstance(each, str) else each for each in found.answers)
        item = Item(
            form.name, question, answers, found.writers, gold=found.gold, source=found.source
        )
    else:
        assert isinstance(found, Question)  # saved answers are read together
        item = Item(form.name, found)
    _check(item, form, prelude, line.where)
    return item


def _check(item: Item, form: Form, prelude: bool, where: str) -> None:
    try:
        asked(item.question.text)
    except ValueError as error:
        raise _wrong(where, str(error)) from error
    if item.form != form.name:
        raise _wrong(where, f"this is an item of the form {item.form}: import it with --form")
    if prelude and item.gold is None:
        raise _wrong(where, 'an attention check needs "gold": {"expected": {FIELD: VALUE}}')
    for problem in fits(item):
        raise _wrong(where, problem)


def _zipped(paths: Sequence[Path], files: Sequence[Sequence[_Line]], form: Form) -> Read:
    """Of saved answers, those to one question together, in the order of the first file."""
    if len(files) != form.answers:
        detail = f"the form {form.name} takes {form.answers} files of saved answers at once"
        raise _wrong(str(paths[0]), f"{detail}; there are {len(files)}")
    by_question = [_answers(lines) for lines in files]
    stems = [path.stem for path in paths]
    writers = tuple(stems if len(set(stems)) == len(stems) else map(str, paths))
    left_out: Counter[str] = Counter()
    found = []
    for key, (where, question, first) in by_question[0].items():
        answers = [first, *(answers[key][2] for answers in by_question[1:] if key in answers)]
        said = tuple(each for each in answers if each is not None and not each.declined)
        if len(answers) < form.answers:
            left_out["questions that are not in every file"] += 1
        elif len(said) < form.answers:
            left_out["questions without an answer, or with a declined one"] += 1
        elif form.answers > 1 and len({(each.text, each.quotes) for each in said}) == 1:
            left_out["questions with the same answer in every file"] += 1
        else:
            item = Item(form.name, question, said, writers)
            _check(item, form, False, where)
            found.append(item)
    others = {key for answers in by_question[1:] for key in answers} - set(by_question[0])
    left_out["questions that are not in every file"] += len(others)
    return Read(found, +left_out)


_Answers = dict[tuple[str, str], tuple[str, Question, Answer | None]]


def _answers(lines: Sequence[_Line]) -> _Answers:
    found: _Answers = {}
    for where, one in lines:
        if not isinstance(one, _Saved):
            raise _wrong(
                where, "expected is a line that rookery ask --batch wrote, as in the others"
            )
        key = (one.question.id, one.question.text)
        if key in found:
            raise _wrong(where, f"this question was answered in {found[key][0]} already")
        found[key] = (where, one.question, one.answer)
    return found

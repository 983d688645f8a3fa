"""What a person posted, as values of a form, and back again.

Answers are posted as they were shown, and stored as the item numbers them. It knows nothing of
what the values mean.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rookery.judge.fields import TEXT, Field, Form, Problem, Raw, Step, number_of
from rookery.judge.marked import is_part, read_claims, show_claims
from rookery.judge.work import Item


class Filled(NamedTuple):
    """What can be used of what was posted, and what is wrong or missing."""

    filled: dict[str, Any]
    problems: list[Problem]


class Input(NamedTuple):
    """One place to fill in."""

    name: str
    """in HTML; of claims, what their names begin with"""
    field: Field
    answer: int | None = None
    """as shown; None: of none, or of all"""
    quote: int | None = None
    """of that answer"""


def inputs(step: Step, item: Item, order: Sequence[int]) -> Iterator[Input]:
    """What a step asks, one after the other. `order` is the item's answers as they are shown."""
    answers = range(len(order)) if step.answer is None else [step.answer]
    for field in step.fields:
        if field.kind == "claims":
            yield from (Input(field.name, field, answer) for answer in answers)
        elif field.per == "answer":
            yield from (Input(f"{field.name}.{answer}", field, answer) for answer in answers)
        elif field.per == "quote":
            yield from (
                Input(f"{field.name}.{answer}.{quote}", field, answer, quote)
                for answer in answers
                for quote in range(len(item.answers[order[answer]].quotes))
            )
        else:
            yield Input(field.name, field)


def called(form: Form, answer: int) -> str:
    """What the answer that is shown in this place is called: A or B, or 1 to 4 of more than two."""
    return "AB"[answer] if form.answers <= 2 else str(answer + 1)


def read(form: Form, item: Item, order: Sequence[int], raw: Raw, whole: bool) -> Filled:
    """The values that were posted, and what is wrong or missing. Nothing that is posted raises.

    What is wrong is left out, but too long a text stays, so that a draft loses nothing. Names that
    do not begin with a field's name are read over.
    """
    reading = _Reading(form, item, order, raw, whole)
    asked = _all_inputs(form, item, order)
    found = {field.name: reading.field(field, asked) for field in form.fields}
    reading.refuse_others({each.name for each in asked if each.field.kind != "claims"})
    filled = {name: value for name, value in found.items() if value is not None}
    return Filled(filled, reading.problems)


def shown(form: Form, item: Item, order: Sequence[int], filled: Mapping[str, Any]) -> Raw:
    """What `read` reads as these values: a form as it was filled in, for the answers as they are
    shown now."""
    raw: dict[str, list[str]] = {}
    for each in _all_inputs(form, item, order):
        value = filled.get(each.field.name)
        if each.field.kind == "claims":
            raw |= show_claims(each.name, order, value or ())
            continue
        if each.answer is not None:
            value = _at(value, order[each.answer])
        if each.quote is not None:
            value = _at(value, each.quote)
        if (said := _said(each.field, order, value)) is not None:
            raw[each.name] = [said]
    return raw


def _all_inputs(form: Form, item: Item, order: Sequence[int]) -> list[Input]:
    return [each for step in form.steps for each in inputs(step, item, order)]


def _at(values: Any, place: int) -> Any:
    return values[place] if isinstance(values, list) and place < len(values) else None


def _said(field: Field, order: Sequence[int], value: Any) -> str | None:
    """A stored value as it is posted; None where there is none, or none of this kind."""
    number = isinstance(value, int) and not isinstance(value, bool)
    if field.kind == "versus":
        return str(_turned(value, order)) if number else None
    if field.kind == "pick" and number:
        return str(order.index(value)) if value in order else None
    return value if isinstance(value, str) else None


def _turned(point: int, order: Sequence[int]) -> int:
    """A point between two answers, from the item's order to the shown one, or back."""
    return point if order[0] < order[1] else -point


def _clean(text: str) -> str:
    """Line breaks of one kind, nothing that is no character, and no blanks at either end."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(
        each for each in lines if each in "\n\t" or unicodedata.category(each) not in ("Cc", "Cs")
    ).strip()


class _Reading:
    """One form as it was posted, and the problems that were found so far."""

    def __init__(self, form: Form, item: Item, order: Sequence[int], raw: Raw, whole: bool) -> None:
        self.problems: list[Problem] = []
        self._form, self._item, self._order = form, item, order
        self._raw, self._whole = raw, whole

    def field(self, field: Field, asked: Sequence[Input]) -> Any:
        """A field's values as they are stored; None where nothing was filled in."""
        if field.kind == "claims":
            marked = read_claims(
                field, self._item, self._order, self._raw, self._is_required(field)
            )
            self.problems += marked.problems
            return marked.claims or None
        values: dict[tuple[int | None, int | None], Any] = {}
        for each in asked:
            if each.field.name == field.name and (value := self._value(each)) is not None:
                answer = None if each.answer is None else self._order[each.answer]
                values[answer, each.quote] = value
        return self._arranged(field, values) if values else None

    def refuse_others(self, names: set[str]) -> None:
        """Says so where something was posted for a part that a field does not have."""
        fields = {field.name: field for field in self._form.fields}
        for name in self._raw:
            field = fields.get(name.split(".")[0])
            if field is None or name in names:
                continue
            if field.kind != "claims" or not is_part(field.name, name):
                self._say(name, f"There is no such part to fill in: {field.label}. Load it again.")

    def _arranged(self, field: Field, values: Mapping[tuple[int | None, int | None], Any]) -> Any:
        answers = self._item.answers
        if field.per == "answer":
            return [values.get((number, None)) for number in range(len(answers))]
        if field.per == "quote":
            return [
                [values.get((number, quote)) for quote in range(len(answer.quotes))]
                for number, answer in enumerate(answers)
            ]
        return values[None, None]

    def _value(self, each: Input) -> Any:
        said = list(dict.fromkeys(one for one in self._raw.get(each.name, ()) if _clean(one)))
        if not said:
            if self._is_needed(each):
                self._say(each.name, f"Not filled in yet: {self._place(each)}.")
            return None
        if len(said) > 1:
            self._say(each.name, f"Only one can be given: {self._place(each)}.")
            return None
        return (
            self._text(each, _clean(said[0]))
            if each.field.kind == "text"
            else self._choice(each, said[0])
        )

    def _text(self, each: Input, text: str) -> str:
        if len(text) > TEXT:
            counted = f"At most {TEXT:,} characters, and these are {len(text):,}"
            self._say(each.name, f"{counted}: {self._place(each)}.")
        return text

    def _choice(self, each: Input, said: str) -> str | int | None:
        kind, number = each.field.kind, number_of([said])
        if kind == "pick" and number is not None and number < len(self._order):
            return self._order[number]
        if said in {choice.value for choice in each.field.choices}:
            return _turned(int(said), self._order) if kind == "versus" else said
        self._say(each.name, f"Not one of the choices: {self._place(each)}. Choose again.")
        return None

    def _is_required(self, field: Field) -> bool:
        return field.required == "always" or (field.required == "whole" and self._whole)

    def _is_needed(self, each: Input) -> bool:
        if each.answer is None or not each.field.relied:
            return self._is_required(each.field)
        answer = self._item.answers[self._order[each.answer]]
        cited = {quote for claim in answer.claims for quote in claim.quotes}
        return each.quote in cited and self._is_required(each.field)

    def _place(self, each: Input) -> str:
        where = []
        if each.answer is not None and self._form.answers > 1:
            where.append(f"answer {called(self._form, each.answer)}")
        if each.quote is not None:
            where.append(f"reference {each.quote + 1}")
        return each.field.label + (f" ({', '.join(where)})" if where else "")

    def _say(self, name: str, sentence: str) -> None:
        self.problems.append(Problem(name, sentence))

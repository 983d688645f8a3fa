"""What a filled-in form says, as values that can be compared. It knows nothing of people."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rookery.judge.agreement import Level, Value
from rookery.judge.fields import Field, Form
from rookery.judge.meaning import comparison
from rookery.judge.work import Item, Judgement

TIE = -1
"""in the place of an answer's number"""


class Said(NamedTuple):
    """One value of one field."""

    field: Field
    place: tuple[int, ...]
    """the answer, and its quote, that it is about; empty: all of them"""
    value: Value


def said(form: Form, filled: Mapping[str, Any]) -> Iterator[Said]:
    """Every value that is one of a few: texts and claims are none."""
    for field in form.fields:
        if field.kind in ("choice", "versus", "pick"):
            for place, value in _places(filled.get(field.name)):
                if value is not None:
                    yield Said(field, place, _valued(field, value))


def level_of(field: Field) -> Level:
    """Whether the values of a field have an order."""
    ordered = field.kind == "versus" or (field.kind == "choice" and _numbers(field) is not None)
    return "ordinal" if ordered else "nominal"


def labels(form: Form, field: Field) -> list[Value]:
    """The values of a field in the order in which a tie of votes goes to the first: a doubt or a
    tie, then the others from the lowest."""
    if field.kind == "versus":
        return [0.0, -1.0, 1.0]
    ordered = sorted(field.choices, key=lambda choice: (choice.score is not None, choice.score))
    answers = [str(number) for number in range(form.answers)] if field.kind == "pick" else []
    return [_valued(field, choice.value) for choice in ordered] + answers


def preference(item: Item, judgement: Judgement) -> int | None:
    """The number of the answer that was preferred, or TIE; None: it was not said."""
    found = comparison(item, judgement)
    if found is None:
        return None
    best = [at for at, weight in enumerate(found.weights) if weight == max(found.weights)]
    return best[0] if len(best) == 1 else TIE


def _places(value: object, place: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    if not isinstance(value, list | tuple):
        yield place, value
        return
    for number, inner in enumerate(value):
        yield from _places(inner, (*place, number))


def _valued(field: Field, value: Any) -> Value:
    numbers = _numbers(field)
    if field.kind == "choice" and numbers is not None:
        return numbers[value]
    return float(value) if field.kind == "versus" else str(value)


def _numbers(field: Field) -> dict[str, float] | None:
    """The choices as numbers, where all of them have a score or are numerals themselves."""
    if all(choice.score is not None for choice in field.choices):
        return {choice.value: choice.score or 0.0 for choice in field.choices}
    if all(choice.value.isdecimal() for choice in field.choices):
        return {choice.value: float(choice.value) for choice in field.choices}
    return None

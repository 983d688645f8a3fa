"""Whether an item can be judged with the form that it names. It knows nothing of databases."""

from collections.abc import Iterator, Mapping
from typing import Any

from rookery.judge.fields import Field, Form
from rookery.judge.filling import read, shown
from rookery.judge.forms import FORMS
from rookery.judge.work import Item


def fits(item: Item) -> list[str]:
    """Why the item cannot be handed out, in sentences without a capital; none: it can."""
    form = FORMS.get(item.form)
    if form is None:
        return [f'there is no form "{item.form}": use one of {", ".join(FORMS)}']
    problems = [*_question(form, item), *_answers(form, item)]
    if item.gold is not None and len(item.answers) == form.answers:
        problems += _gold(form, item, item.gold.expected)
    return problems


def _question(form: Form, item: Item) -> Iterator[str]:
    if not item.question.text.strip():
        yield "its question is empty"
    if form.trusted and not any(gold.strip() for gold in item.question.gold):
        yield f"{form.name} shows trusted answers: give some as the question's gold"


def _answers(form: Form, item: Item) -> Iterator[str]:
    if len(item.answers) != form.answers:
        yield f"{form.name} takes {form.answers} answers, and it has {len(item.answers)}"
    if item.writers and len(item.writers) != len(item.answers):
        yield f"it has {len(item.writers)} writers of {len(item.answers)} answers"
    for number, answer in enumerate(item.answers, 1):
        if not answer.text.strip():
            yield f"answer {number} is empty: what failed cannot be judged"
        elif answer.declined and form.decides:
            yield f"answer {number} was declined: compare only what was answered"


def _gold(form: Form, item: Item, expected: Mapping[str, Any]) -> Iterator[str]:
    if not expected:
        yield "its gold expects nothing: give the right value of one field or more"
    fields = {field.name: field for field in form.fields if field.kind not in ("text", "claims")}
    order = range(len(item.answers))
    for name, value in expected.items():
        if name not in fields:
            yield f'its gold expects "{name}", which is no choice of {form.name}: leave it out'
            continue
        raw = shown(form, item, order, {name: value})
        if read(form, item, order, raw, whole=False).filled != {name: value}:
            possible = _possible(form, fields[name])
            yield f'its gold expects "{name}" to be {value!r}: {possible}'


def _possible(form: Form, field: Field) -> str:
    if field.kind == "versus":
        return "it is a number from -2, the first is much better, to 2"
    values = ", ".join(f'"{choice.value}"' for choice in field.choices)
    if field.kind == "pick":
        return f"it is a number from 0 to {form.answers - 1}" + (f", or {values}" if values else "")
    each = {"answer": ", in a list by answer", "quote": ", in a list by answer of lists by quote"}
    return f"it is one of {values}" + each.get(field.per, "")

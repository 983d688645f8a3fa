"""Convert judgements to the records models learn from: comparisons, ratings, episodes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from rookery.desk.form_parsing import ANSWER_MARK, get_answer_label
from rookery.desk.forms import FORMS, FormField, Judgement, LabellingForm, LabellingItem, find_form
from rookery.measure.intervals import LabelValue, MeasurementLevel, get_sign
from rookery.measure.ratings import GOOD_SCALE, PLAUSIBLE_SCALE, SUPPORTED_SCALE
from rookery.records import Answer, Claim, Comparison, Episode, Rating, prepare_type
from rookery.shell.languages import mark_text

EPISODE_KEY = "episode"
"""key of `Judgement.filled` that holds a demonstration's episode"""


def convert_to_comparison(
    item: LabellingItem, judgement: Judgement, forms: Mapping[str, LabellingForm] = FORMS
) -> Comparison | None:
    """Return the comparison that a judgement states; None if it states none.

    `forms` are the known forms, as `find_form` takes them.

    Better and much better count alike. A tie of any kind, and "I cannot pick one", give equal
    weights (WebGPT, appendix C.2; GopherCite, section 2.8). The best of four gets all the weight
    (Ziegler, section 2). Skipped and flagged judgements state none, nor do values that the form
    does not have, as of a version that is no longer known.
    """
    form = find_form(forms, item.form, judgement.form_version)
    if form is None or not form.decides or not _is_submitted(judgement):
        return None
    field = next(field for field in form.fields if field.name == form.decides)
    weights = _compute_weights(judgement.filled.get(form.decides), field, item)
    if weights is None:
        return None
    return Comparison(item.question, item.answers, weights, judgement.by)


def convert_to_ratings(
    item: LabellingItem, judgement: Judgement, forms: Mapping[str, LabellingForm] = FORMS
) -> list[Rating]:
    """Return the ratings, 0 to 1, that a judgement gives to answers and to their quotes.

    `forms` are the known forms, as `find_form` takes them.

    A level of a four-level scale is divided by three (WebGLM, section 4). A quote is rated as an
    answer whose text is the quote. "Not sure" gives no rating. Where a form asks if an answer is
    plausible and supported, it is also rated on the scale "good": 1 for both, 0 if it is not one of
    them. Skipped and flagged judgements give none.
    """
    form = find_form(forms, item.form, judgement.form_version)
    if form is None or not _is_submitted(judgement):
        return []
    ratings = [
        Rating(item.question, answer, field.scale, score, judgement.by)
        for field in form.fields
        if field.scale
        for answer, value in _pair_rated_answers(field, item, judgement.filled.get(field.name))
        for score in (choice.score for choice in field.choices if choice.value == value)
        if score is not None
    ]
    return [*ratings, *_rate_good_answers(item, judgement)]


def convert_to_episode(item: LabellingItem, judgement: Judgement) -> Episode | None:
    """Return the episode of a demonstration; None if the judgement is none.

    Raises `msgspec.ValidationError` if the stored value is not an episode.
    """
    kept = judgement.filled.get(EPISODE_KEY)
    if item.form != "demonstrate" or kept is None or not _is_submitted(judgement):
        return None
    return msgspec.convert(kept, prepare_type(Episode))


def add_episode(filled: Mapping[str, Any], episode: Episode) -> dict[str, Any]:
    """Return a copy of a demonstration's form values with the episode added."""
    return {**filled, EPISODE_KEY: msgspec.to_builtins(episode)}


def matches_gold(
    item: LabellingItem, filled: Mapping[str, Any], forms: Mapping[str, LabellingForm] = FORMS
) -> bool:
    """Return True if every field of the form that the item's gold names has the expected value.

    Better and much better count alike, and None in an expected list matches anything. The form is
    the one that `forms` has under its name. Raises ValueError if the item has no gold, and KeyError
    if there is no such form.
    """
    form = forms[item.form]
    if item.gold is None:
        raise ValueError("the item has no gold answers")
    return all(
        _matches_expected(field, item.gold.expected[field.name], filled.get(field.name))
        for field in form.fields
        if field.name in item.gold.expected
    )


def format_justification(form: LabellingForm, item: LabellingItem, order: Sequence[int]) -> str:
    """Return the justification of an item's gold answers, with its marks replaced by labels.

    The reader saw the answers in this order: {1} is what the item's first answer was called there,
    as A or B. Empty if the item has none.
    """
    if item.gold is None:
        return ""
    return ANSWER_MARK.sub(
        lambda mark: (
            get_answer_label(form, order.index(int(mark[1]) - 1))
            if int(mark[1]) <= len(order)
            else mark[0]
        ),
        item.gold.justification,
    )


def list_form_warnings(form: LabellingForm, filled: Mapping[str, Any]) -> list[str]:
    """Return sentences about contradictory values to check before submission; empty without any.

    Forms that ask if answers are plausible and supported, and which is better, have one: only one
    answer is both, and it is not the preferred one. Other forms have none.
    """
    yes = [filled.get(name) or [] for name in (PLAUSIBLE_SCALE, SUPPORTED_SCALE)]
    deciding = {field.name for field in form.fields if field.kind == "pick"}
    if form.decides not in deciding or not all(
        isinstance(values, list) and values for values in yes
    ):
        return []
    both_yes = [
        number for number, values in enumerate(zip(*yes, strict=True)) if set(values) == {"yes"}
    ]
    if len(both_yes) == 1 and filled.get(form.decides) != both_yes[0]:
        return [
            "One answer is both plausible and supported and the other is not: it should then be "
            "the preferred one."
        ]
    return []


def _is_submitted(judgement: Judgement) -> bool:
    return judgement.kind in ("done", "extra")


def _compute_weights(value: Any, field: FormField, item: LabellingItem) -> tuple[float, ...] | None:
    count = len(item.answers)
    if not _is_known_value(field, value, count):
        return None
    best = value if field.kind == "pick" else {-1: 0, 1: 1}.get(get_sign(value))
    if not isinstance(best, int):
        return (1 / count,) * count
    return tuple(float(number == best) for number in range(count))


def _pair_rated_answers(
    field: FormField, item: LabellingItem, values: Any
) -> Iterator[tuple[Answer, Any]]:
    """Yield each rated answer, or quote as an answer, with the value it got."""
    for answer, value in zip(item.answers, _as_list(values), strict=False):
        if field.per == "answer":
            yield answer, value
        else:
            for quote, each in zip(answer.quotes, _as_list(value), strict=False):
                yield Answer(quote.text, (quote,), (Claim(0, len(quote.text), (0,)),)), each


def _as_list(value: Any) -> Sequence[Any]:
    """Return a value for each answer or quote; none if it is of a version that has it otherwise."""
    return value if isinstance(value, list | tuple) else ()


def _is_known_value(field: FormField, value: Any, answers: int) -> bool:
    """Tell whether a choice, versus or pick field has this value; it may be of another version."""
    if field.kind == "versus":
        return isinstance(value, int) and value in POINT_LABELS
    if field.kind == "pick" and isinstance(value, int):
        return 0 <= value < answers
    return any(choice.value == value for choice in field.choices)


def _rate_good_answers(item: LabellingItem, judgement: Judgement) -> Iterator[Rating]:
    """Yield a rating for each answer that is said to be both plausible and supported, or said not
    to be one of them."""
    said = [_as_list(judgement.filled.get(name)) for name in (PLAUSIBLE_SCALE, SUPPORTED_SCALE)]
    for answer, both in zip(item.answers, zip(*said, strict=False), strict=False):
        if "no" in both or set(both) == {"yes"}:
            yield Rating(item.question, answer, GOOD_SCALE, float("no" not in both), judgement.by)


def _matches_expected(field: FormField, expected: Any, value: Any) -> bool:
    if isinstance(expected, list):
        value = value if isinstance(value, list) else [None] * len(expected)
        return len(value) == len(expected) and all(
            each is None or _matches_expected(field, each, other)
            for each, other in zip(expected, value, strict=True)
        )
    if field.kind == "versus" and isinstance(value, int):
        return get_sign(expected) == get_sign(value)
    return bool(expected == value)


TIE = -1
"""stands for "no preference" in place of an answer's number"""


class FieldValue(NamedTuple):
    """One label that one person gave in one field."""

    field: FormField
    place: tuple[int, ...]
    """number of the answer, then of its quote, that the label is about; empty: the whole item"""
    value: LabelValue


def extract_field_values(form: LabellingForm, filled: Mapping[str, Any]) -> Iterator[FieldValue]:
    """Yield each value that was given in a choice, versus or pick field as a comparable label.

    A label is a number where the values are levels or points of a comparison, else a text. Choices
    of equal score are different labels. Values that the form does not have are left out.
    """
    for field, place, value in iterate_stored_values(form, filled):
        if _is_known_value(field, value, form.answers):
            yield FieldValue(field, place, _make_comparable(field, value))


def iterate_stored_values(
    form: LabellingForm, filled: Mapping[str, Any]
) -> Iterator[tuple[FormField, tuple[int, ...], str | int]]:
    """Yield each value of the choice, versus and pick fields as it is stored, in the form's order.

    With it come its field and what it is about, as `FieldValue.place`. What was not filled in is
    left out.
    """
    for field in form.fields:
        if field.kind in ("choice", "versus", "pick"):
            for place, value in flatten_value(filled.get(field.name)):
                if value is not None:
                    yield field, place, value


POINT_LABELS = {
    -2: mark_text("answer 1 much better"),
    -1: mark_text("answer 1 better"),
    0: mark_text("equally good"),
    1: mark_text("answer 2 better"),
    2: mark_text("answer 2 much better"),
}
"""label of each value of a comparison; answers are numbered from 1 in the order of the item"""


def get_value_label(field: FormField, value: Any) -> str:
    """Return the label of a stored value of a field; empty: it has none."""
    if field.kind == "versus":
        return POINT_LABELS.get(value, str(value))
    if field.kind == "pick" and isinstance(value, int):
        return f"answer {value + 1}"
    return next((choice.label for choice in field.choices if choice.value == value), "")


def get_comparison_key(field: FormField) -> tuple[object, ...]:
    """Return what must be equal in two versions of a field for their values to be comparable."""
    choices = (*field.choices, *field.support, *field.relevance)
    return (
        field.kind,
        field.per,
        *((choice.value, choice.label, choice.score) for choice in choices),
    )


def get_measurement_level(field: FormField) -> MeasurementLevel:
    """Return "ordinal" if the values of a field have an order, otherwise "nominal"."""
    ordered = field.kind == "versus" or (
        field.kind == "choice" and _number_choices(field) is not None
    )
    return "ordinal" if ordered else "nominal"


def order_labels(form: LabellingForm, field: FormField) -> list[LabelValue]:
    """Return a field's labels in the order in which equal votes are decided, the winner first.

    Doubts and ties come first, in the form's order: they are the choices without a score. Choices
    with one follow, from the lowest to the highest, and then the numbers of answers to pick from.
    """
    if field.kind == "versus":
        return [0.0, -1.0, 1.0]
    ordered = sorted(field.choices, key=lambda choice: (choice.score is not None, choice.score))
    answers = [str(number) for number in range(form.answers)] if field.kind == "pick" else []
    return [_make_comparable(field, choice.value) for choice in ordered] + answers


def find_preferred_answer(
    item: LabellingItem, judgement: Judgement, forms: Mapping[str, LabellingForm] = FORMS
) -> int | None:
    """Return the preferred answer's number, TIE for a tie, or None if no preference is stated."""
    found = convert_to_comparison(item, judgement, forms)
    if found is None:
        return None
    best = [at for at, weight in enumerate(found.weights) if weight == max(found.weights)]
    return best[0] if len(best) == 1 else TIE


def flatten_value(
    value: object, place: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield each value of lists in lists with its place: the numbers that lead to it."""
    if not isinstance(value, list | tuple):
        yield place, value
        return
    for number, inner in enumerate(value):
        yield from flatten_value(inner, (*place, number))


def _make_comparable(field: FormField, value: Any) -> LabelValue:
    numbers = _number_choices(field)
    if field.kind == "choice" and numbers is not None:
        return numbers[value]
    return float(value) if field.kind == "versus" else str(value)


def _number_choices(field: FormField) -> dict[str, float] | None:
    """Return the choices as numbers, each another one, if all have a score or are numerals;
    otherwise None."""
    scores = {choice.value: choice.score for choice in field.choices if choice.score is not None}
    numerals = {
        choice.value: float(choice.value) for choice in field.choices if choice.value.isdecimal()
    }
    for numbers in (scores, numerals):
        if len(set(numbers.values())) == len(field.choices):
            return numbers
    return None

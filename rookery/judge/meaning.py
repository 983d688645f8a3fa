"""What judgements say, as the records that models learn from. It knows nothing of databases."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rookery.judge.fields import Field, Form
from rookery.judge.forms import FORMS
from rookery.judge.work import Item, Judgement
from rookery.records import Answer, Claim, Comparison, Episode, Quote, Rating

PLAUSIBLE, SUPPORTED = "plausible", "supported"
GOOD = "good"
"""the scale on which an answer is 1 that is both plausible and supported, 0 that is not one of
them (GopherCite, section 3.2)"""
EPISODE = "episode"
"""where `filled` holds a demonstration, besides what its form asks"""


def comparison(item: Item, judgement: Judgement) -> Comparison | None:
    """Which answer was preferred; None where the judgement does not say.

    Better and much better are the same, a tie of any kind is the same weight for each (WebGPT,
    appendix C.2; GopherCite, section 2.8), and the best of four has all of it (Ziegler, section 2).
    """
    form = FORMS.get(item.form)
    if form is None or not form.decides or not _counts(judgement):
        return None
    weights = _weights(judgement.filled.get(form.decides), _field(form, form.decides), item)
    if weights is None:
        return None
    return Comparison(item.question, item.answers, weights, judgement.by)


def ratings(item: Item, judgement: Judgement) -> list[Rating]:
    """What was said of each answer and each reference on the form's scales, from 0 to 1.

    Of a scale of four levels that is the level by three (WebGLM, section 4). Of a reference it is a
    rating of an answer that says what is quoted. Whoever cannot tell gives none.
    """
    form = FORMS.get(item.form)
    if form is None or not _counts(judgement):
        return []
    found = [
        Rating(item.question, answer, field.scale, score, judgement.by)
        for field in form.fields
        if field.scale
        for answer, value in _rated(field, item, judgement.filled.get(field.name))
        if (score := _score(field, value)) is not None
    ]
    return [*found, *_good(item, judgement)]


def episode(item: Item, judgement: Judgement) -> Episode | None:
    """The demonstration, if it is one. Raises `msgspec.ValidationError` where it is no episode."""
    kept = judgement.filled.get(EPISODE)
    if item.form != "demonstrate" or kept is None or not _counts(judgement):
        return None
    return msgspec.convert(kept, Episode)


def with_episode(filled: Mapping[str, Any], episode: Episode) -> dict[str, Any]:
    """A demonstration's form, with what was done and written."""
    return {**filled, EPISODE: msgspec.to_builtins(episode)}


def right(item: Item, filled: Mapping[str, Any]) -> bool:
    """Whether all is filled in as the item's gold expects; how much better an answer is does not
    matter. Raises ValueError where the item has none."""
    form = FORMS[item.form]
    if item.gold is None:
        raise ValueError("the item has no gold answers")
    return all(
        _agrees(_field(form, name), expected, filled.get(name))
        for name, expected in item.gold.expected.items()
    )


def warnings(form: Form, filled: Mapping[str, Any]) -> list[str]:
    """What should be looked at again before it is handed in, though it may be so."""
    yes = [filled.get(name) or [] for name in (PLAUSIBLE, SUPPORTED)]
    if form.name != "supported" or not all(yes):
        return []
    both = [number for number, said in enumerate(zip(*yes, strict=True)) if set(said) == {"yes"}]
    if len(both) == 1 and filled.get(form.decides) != both[0]:
        return [
            "One answer is both plausible and supported and the other is not: it should then be "
            "the preferred one."
        ]
    return []


def _counts(judgement: Judgement) -> bool:
    return judgement.kind in ("done", "extra")


def _field(form: Form, name: str) -> Field:
    return next(field for field in form.fields if field.name == name)


def _weights(value: Any, field: Field, item: Item) -> tuple[float, ...] | None:
    if value is None:
        return None
    count = len(item.answers)
    best = value if field.kind == "pick" else {-1: 0, 1: 1}.get(_sign(value))
    if not isinstance(best, int):
        return (1 / count,) * count
    return tuple(float(number == best) for number in range(count))


def _sign(point: int) -> int:
    return (point > 0) - (point < 0)


def _rated(field: Field, item: Item, values: Any) -> Iterator[tuple[Answer, Any]]:
    """What was rated, and the value that it got."""
    for answer, said in zip(item.answers, values or (), strict=False):
        if field.per == "answer":
            yield answer, said
        else:
            yield from (
                (_alone(quote), each) for quote, each in zip(answer.quotes, said, strict=True)
            )


def _alone(quote: Quote) -> Answer:
    return Answer(quote.text, (quote,), (Claim(0, len(quote.text), (0,)),))


def _score(field: Field, value: Any) -> float | None:
    return next((choice.score for choice in field.choices if choice.value == value), None)


def _good(item: Item, judgement: Judgement) -> Iterator[Rating]:
    """Whether each answer is both plausible and supported, where that is said."""
    said = [judgement.filled.get(name) or () for name in (PLAUSIBLE, SUPPORTED)]
    for answer, both in zip(item.answers, zip(*said, strict=False), strict=False):
        if "no" in both or set(both) == {"yes"}:
            yield Rating(item.question, answer, GOOD, float("no" not in both), judgement.by)


def _agrees(field: Field, expected: Any, found: Any) -> bool:
    if isinstance(expected, list):
        found = found if isinstance(found, list) else [None] * len(expected)
        return len(found) == len(expected) and all(
            each is None or _agrees(field, each, other)
            for each, other in zip(expected, found, strict=True)
        )
    if field.kind == "versus" and isinstance(found, int):
        return _sign(expected) == _sign(found)
    return bool(expected == found)

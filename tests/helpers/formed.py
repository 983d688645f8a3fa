"""Items of every form, and forms filled in at random, for the tests of forms and their meaning."""

from typing import Any

from hypothesis import strategies as st

from rookery.desk.forms import (
    FORMS,
    FormField,
    GoldLabels,
    Judgement,
    JudgementKind,
    LabellingForm,
    LabellingItem,
)
from rookery.records import Answer, Claim, Page, Question

SKY = Page(
    "https://example.org/sky",
    "The sky",
    "Air scatters blue light more than red. Dust is red. Mars is far away.",
)
QUOTES = (SKY.quote(0, 38), SKY.quote(39, 51), SKY.quote(52, 69))
ANSWERS = (
    Answer("Air scatters blue. 🐦 So it is blue.", QUOTES[:2], (Claim(0, 18, (0,)),)),
    Answer("Nobody knows why the sky is blue.", (), ()),
    Answer("The sky is blue because it is.", QUOTES, (Claim(0, 30, (0, 2)),)),
    Answer("Blue light is scattered more.", QUOTES[2:], (Claim(0, 29, (0,)),)),
)
QUESTION = Question("sky", "Why is the sky blue?", gold=("Air scatters blue light.",))


def item(form: str, **expected: Any) -> LabellingItem:
    """An item that fits the form."""
    answers = ANSWERS[: FORMS[form].answers]
    gold = GoldLabels(expected, "Because it is so.") if expected else None
    return LabellingItem(form, QUESTION, answers, tuple("abcd"[: len(answers)]), gold=gold)


def judgement(
    of: LabellingItem, kind: JudgementKind = "done", by: str = "ada", **filled: Any
) -> Judgement:
    order = tuple(range(len(of.answers)))
    return Judgement("j", "i", by, kind, filled, FORMS[of.form].digest, 1, order, False, 1.0, 2.0)


@st.composite
def filled_in(draw: st.DrawFn, form: LabellingForm) -> dict[str, Any]:
    """What somebody might have made of `item(form.name)`: any part of it may be missing."""
    drawn = {field.name: draw(_value(field, item(form.name))) for field in form.fields}
    return {name: value for name, value in drawn.items() if value is not None}


def _value(field: FormField, of: LabellingItem) -> st.SearchStrategy[Any]:
    if field.kind == "claims":
        return _claims(field, of)
    if field.kind == "text":
        return _texts() | st.none()
    names = [choice.value for choice in field.choices]
    one: st.SearchStrategy[Any] = st.sampled_from(names) if names else st.nothing()
    if field.kind == "versus":
        one = st.integers(-2, 2)
    if field.kind == "pick":
        one |= st.sampled_from(range(len(of.answers)))
    each = one | st.none()
    if field.per == "answer":
        return st.tuples(*(each for _ in of.answers)).map(_something)
    if field.per == "quote":
        lists = (st.tuples(*(each for _ in answer.quotes)).map(list) for answer in of.answers)
        return st.tuples(*lists).map(_something)
    return each


def _something(values: tuple[Any, ...]) -> list[Any] | None:
    """A list in which something is filled in."""
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return list(values) if any(one is not None for one in flat) else None


def _texts() -> st.SearchStrategy[str]:
    letters = st.characters(exclude_categories=("Cc", "Cs")) | st.sampled_from("\n\t")
    return st.text(letters, min_size=1, max_size=60).map(str.strip).filter(bool)


@st.composite
def _claims(draw: st.DrawFn, field: FormField, of: LabellingItem) -> list[dict[str, Any]] | None:
    claims = {}
    for answer in draw(st.lists(st.integers(0, len(of.answers) - 1), max_size=4)):
        text = of.answers[answer].text
        start, end = sorted(draw(st.sets(st.integers(0, len(text)), min_size=2, max_size=2)))
        quotes = draw(st.sets(st.sampled_from(range(len(of.answers[answer].quotes) or 1))))
        texts = {
            "support": draw(st.none() | st.sampled_from([one.value for one in field.support])),
            "relevance": draw(st.none() | st.sampled_from([one.value for one in field.relevance])),
            "quotes": sorted(quotes) if of.answers[answer].quotes else [],
        }
        if text[start:end].strip() and any(texts.values()):
            claims[answer, start, end] = {"answer": answer, "start": start, "end": end, **texts}
    return [claims[span] for span in sorted(claims)] or None

"""Claims that a person marked in answers: spans with support and relevance, as they are posted and
as they are kept. It knows nothing of the rest of a form.

A claim is kept as {answer, start, end, support, relevance, quotes}: the answer as the item numbers
it, code points of its text, a value or None each, and the numbers of the quotes that it rests on.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rookery.judge.fields import Choice, Field, Problem, Raw, number_of
from rookery.judge.work import Item

_PART = r"\.([0-9]{1,6})\.(answer|start|end|support|relevance|quotes)"
_SNIPPET = 60
"""characters of a claim that are shown where something is wrong with it"""

Claim = dict[str, Any]
_Row = dict[str, list[str]]


class _Wrong(Exception):
    """What is wrong with a part of a claim."""

    def __init__(self, part: str, sentence: str) -> None:
        super().__init__(sentence)
        self.problem = Problem(part, sentence)


class Marked(NamedTuple):
    """The claims of all answers, sorted; and what is wrong or missing."""

    claims: list[Claim]
    problems: list[Problem]


def read_claims(field: Field, item: Item, order: Sequence[int], raw: Raw, complete: bool) -> Marked:
    """The claims that were posted. `complete`: each answer needs one, and each claim all of it."""
    found: dict[tuple[int, int, int], Claim] = {}
    problems: list[Problem] = []
    for name, row in _rows(field.name, raw):
        try:
            claim = _claim(field, item, order, name, row)
            span = (claim["answer"], claim["start"], claim["end"])
            if span in found:
                raise _Wrong(f"{name}.start", f"Marked twice: {_words(item, claim)}. Keep one.")
        except _Wrong as error:
            problems.append(error.problem)
            continue
        found[span] = claim
        if complete:
            problems += _missing_parts(item, name, claim)
    if complete:
        problems += _missing_claims(field, order, {answer for answer, _, _ in found})
    return Marked([found[span] for span in sorted(found)], problems)


def show_claims(name: str, order: Sequence[int], claims: Iterable[Claim]) -> dict[str, list[str]]:
    """What `read_claims` reads as these claims."""
    raw: dict[str, list[str]] = {}
    for number, claim in enumerate(claims):
        at = f"{name}.{number}"
        raw[f"{at}.answer"] = [str(order.index(claim["answer"]))]
        raw |= {f"{at}.{part}": [str(claim[part])] for part in ("start", "end")}
        raw |= {f"{at}.{part}": [claim[part]] for part in ("support", "relevance") if claim[part]}
        if claim["quotes"]:
            raw[f"{at}.quotes"] = [str(quote) for quote in claim["quotes"]]
    return raw


def is_part(field: str, name: str) -> bool:
    """Whether this is a name in HTML of some claim of this field."""
    return re.fullmatch(re.escape(field) + _PART, name) is not None


def _rows(field: str, raw: Raw) -> Iterator[tuple[str, _Row]]:
    """What was posted of each claim. A sentence of which nothing was said is no claim."""
    rows: defaultdict[int, _Row] = defaultdict(dict)
    for name, said in raw.items():
        if part := re.fullmatch(re.escape(field) + _PART, name):
            rows[int(part[1])][part[2]] = [one for one in said if one.strip()]
    for number, row in sorted(rows.items()):
        if any(row.get(part) for part in ("support", "relevance", "quotes")):
            yield f"{field}.{number}", row


def _claim(field: Field, item: Item, order: Sequence[int], name: str, row: _Row) -> Claim:
    shown, start, end = (number_of(row.get(part, [])) for part in ("answer", "start", "end"))
    if shown is None or start is None or end is None or shown >= len(order):
        raise _Wrong(f"{name}.start", "A claim is no part of an answer. Mark it again.")
    answer = item.answers[order[shown]]
    if not (start < end <= len(answer.text) and answer.text[start:end].strip()):
        raise _Wrong(f"{name}.start", "A claim is no part of its answer. Mark it again.")
    claim: Claim = {"answer": order[shown], "start": start, "end": end}
    words = _words(item, claim)
    for part, choices in (("support", field.support), ("relevance", field.relevance)):
        claim[part] = _one_of(choices, row.get(part, []), f"{name}.{part}", f"{part} of {words}")
    quotes = {number_of([one]) for one in row.get("quotes", [])}
    if not quotes <= set(range(len(answer.quotes))):
        raise _Wrong(f"{name}.quotes", f"The answer has no such quote: {words}. Choose again.")
    claim["quotes"] = sorted(quote for quote in quotes if quote is not None)
    return claim


def _one_of(choices: Iterable[Choice], said: Sequence[str], name: str, what: str) -> str | None:
    if len(set(said)) > 1:
        raise _Wrong(name, f"Only one can be given: {what}.")
    if said and said[0] not in {choice.value for choice in choices}:
        raise _Wrong(name, f"Not one of the choices: {what}. Choose again.")
    return said[0] if said else None


def _missing_parts(item: Item, name: str, claim: Claim) -> Iterator[Problem]:
    for part in ("support", "relevance"):
        if claim[part] is None:
            words = _words(item, claim)
            yield Problem(f"{name}.{part}", f"Not filled in yet: {part} of {words}.")


def _missing_claims(field: Field, order: Sequence[int], marked: set[int]) -> Iterator[Problem]:
    for shown, answer in enumerate(order):
        if answer not in marked:
            yield Problem(field.name, f"Not filled in yet: the claims of answer {'AB'[shown]}.")


def _words(item: Item, claim: Mapping[str, Any]) -> str:
    words = item.answers[claim["answer"]].text[claim["start"] : claim["end"]]
    return f"“{words}”" if len(words) <= _SNIPPET else f"“{words[:_SNIPPET]}…”"

"""Parse posted forms into values, with the problems found, and encode values as posted fields
again.

Answers are posted in the order shown on screen and stored in the order of the item. A claim that a
person marked in an answer is stored as {answer, start, end, support, relevance, quotes}: the
answer's number in the item, code point offsets in its text, a value or None each, and the numbers
of the quotes that it rests on. Another marked span is {answer, start, end, label}.

`TaskForm` is the form of a task as plain values for one template: answers in pieces, controls of
each step, filled values and problems. Offsets count characters of an answer's text.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

from rookery.desk.forms import (
    MAX_TEXT_CHARACTERS,
    ONE_PAGE_MINUTES,
    FieldChoice,
    FormCondition,
    FormField,
    FormProblem,
    FormStep,
    LabellingForm,
    LabellingItem,
    PostedValues,
    parse_number,
)
from rookery.pages.passages import find_sentences
from rookery.records import Answer, Block, Page, Quote
from rookery.shell.languages import translate_text as _

_CLAIM_PART = r"\.([0-9]{1,6})\.(answer|start|end|support|relevance|quotes|label)"
_MAX_SNIPPET_CHARACTERS = 60
"""characters of a claim that an error message shows"""

ANSWER_MARK = re.compile(r"\{([1-9])\}")
"""mark that stands for one of an item's answers in a justification, counted from 1"""
ClaimValues = dict[str, Any]
_ClaimRow = dict[str, list[str]]


class _ClaimError(Exception):
    """A fault in one part of a posted claim: the input's name, and a sentence."""


class ParsedForm(NamedTuple):
    """Usable values of a posted form by field name, and what is wrong or missing."""

    filled: dict[str, Any]
    problems: list[FormProblem]


class FormInput(NamedTuple):
    """One input of a form."""

    name: str
    """HTML name; for claims, the prefix of their names"""
    field: FormField
    answer: int | None = None
    """position of the answer on screen; None: the input is about no single answer"""
    quote: int | None = None
    """number of the quote in that answer"""

    @property
    def problem_name(self) -> str:
        """Name that a problem with the whole input has; for claims, one for each answer."""
        marked = self.field.kind in ("claims", "spans")
        return f"{self.name}.answer.{self.answer}" if marked else self.name


def list_form_inputs(
    step: FormStep, item: LabellingItem, order: Sequence[int]
) -> Iterator[FormInput]:
    """Yield the inputs of a step in order, one per answer or quote where its fields ask for that.

    `order` lists the item's answer numbers as shown on screen.
    """
    answers = range(len(order)) if step.answer is None else [step.answer]
    for field in step.fields:
        if field.kind in ("claims", "spans"):
            yield from (FormInput(field.name, field, answer) for answer in answers)
        elif field.per == "answer":
            yield from (FormInput(f"{field.name}.{answer}", field, answer) for answer in answers)
        elif field.per == "quote":
            yield from (
                FormInput(f"{field.name}.{answer}.{quote}", field, answer, quote)
                for answer in answers
                for quote in range(len(item.answers[order[answer]].quotes))
            )
        else:
            yield FormInput(field.name, field)


def get_answer_label(form: LabellingForm, answer: int) -> str:
    """Return the label of the answer at this screen position, counted from 0: A or B, or 1 to 4.

    Numbers are used on forms with more than two answers.
    """
    return "AB"[answer] if form.answers <= 2 else str(answer + 1)


def parse_form(
    form: LabellingForm, item: LabellingItem, order: Sequence[int], raw: PostedValues, whole: bool
) -> ParsedForm:
    """Parse a posted form into stored values and problems; never raises, whatever was posted.

    `order` lists the item's answer numbers as shown on screen; `whole` makes the fields required
    that are so only in part of the items. Wrong values are left out, but an over-long text is kept
    so that a draft loses nothing. Names that do not begin with a field's name are ignored.
    """
    sheet = TaskForm(form, item, order, whole, raw)
    return ParsedForm(sheet.filled, sheet.faults)


def encode_form(
    form: LabellingForm, item: LabellingItem, order: Sequence[int], filled: Mapping[str, Any]
) -> PostedValues:
    """Encode stored values as posted values, as `parse_form` reads them; the inverse of it.

    `order` lists the item's answer numbers as they are shown on screen now. Values that are absent
    or of the wrong type for their field are left out.
    """
    raw: dict[str, list[str]] = {}
    for each in _list_all_inputs(form, item, order):
        value = filled.get(each.field.name)
        if each.field.kind in ("claims", "spans"):
            raw |= encode_claims(each.name, order, value or ())
            continue
        if each.answer is not None:
            value = _get_element(value, order[each.answer])
        if each.quote is not None:
            value = _get_element(value, each.quote)
        if (encoded := _encode_value(each.field, order, value)) is not None:
            raw[each.name] = [encoded]
    return raw


def encode_claims(
    name: str, order: Sequence[int], claims: Iterable[ClaimValues]
) -> dict[str, list[str]]:
    """Encode stored claims as posted values, as `parse_form` reads them.

    `name` is the field's. `order` lists the item's answer numbers as shown on screen: the answer of
    a claim is posted as its position there.
    """
    raw: dict[str, list[str]] = {}
    for number, claim in enumerate(claims):
        at = f"{name}.{number}"
        raw[f"{at}.answer"] = [str(order.index(claim["answer"]))]
        raw |= {f"{at}.{part}": [str(claim[part])] for part in ("start", "end")}
        for part in ("support", "relevance", "label"):
            raw |= {f"{at}.{part}": [claim[part]]} if claim.get(part) else {}
        if claim.get("quotes"):
            raw[f"{at}.quotes"] = [str(quote) for quote in claim["quotes"]]
    return raw


def _list_all_inputs(
    form: LabellingForm, item: LabellingItem, order: Sequence[int]
) -> list[FormInput]:
    return [each for step in form.steps for each in list_form_inputs(step, item, order)]


def _get_element(values: Any, place: int) -> Any:
    return values[place] if isinstance(values, list) and place < len(values) else None


def _encode_value(field: FormField, order: Sequence[int], value: Any) -> str | None:
    """Return a stored value as it is posted; None if it is absent or of the wrong type for the
    field."""
    number = isinstance(value, int) and not isinstance(value, bool)
    if field.kind == "versus":
        return str(_reorder_point(value, order)) if number else None
    if field.kind == "pick" and number:
        return str(order.index(value)) if value in order else None
    return value if isinstance(value, str) else None


def _reorder_point(point: int, order: Sequence[int]) -> int:
    """Convert a point between two answers from item order to screen order, or back."""
    return point if order[0] < order[1] else -point


def _clean_text(text: str) -> str:
    """Normalise line breaks, drop control characters and surrogates, and strip white space."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(
        each for each in lines if each in "\n\t" or unicodedata.category(each) not in ("Cc", "Cs")
    ).strip()


def _group_claim_rows(field: FormField, raw: PostedValues) -> Iterator[tuple[str, _ClaimRow]]:
    """Group posted values by claim number, leaving out sentences about which nothing was said."""
    rows: defaultdict[int, _ClaimRow] = defaultdict(dict)
    for name, said in raw.items():
        if part := re.fullmatch(re.escape(field.name) + _CLAIM_PART, name):
            rows[int(part[1])][part[2]] = [one for one in said if one.strip()]
    parts = [*(part.name for part in field.span_parts), "quotes"]
    for number, row in sorted(rows.items()):
        if any(row.get(part) for part in parts):
            yield f"{field.name}.{number}", row


def _quote_claim_words(item: LabellingItem, claim: ClaimValues) -> str:
    words = item.answers[claim["answer"]].text[claim["start"] : claim["end"]]
    shown = words[:_MAX_SNIPPET_CHARACTERS]
    return f"“{shown}”" if shown == words else f"“{shown}…”"


class ClaimPiece(NamedTuple):
    """A run of the answer's text, and the quotes (from 0) cited after it."""

    start: int
    text: str
    cited: tuple[int, ...] = ()
    claimed: bool = False
    """True if it is a whole claim"""


class JudgedAnswer(NamedTuple):
    """One answer in the place in which the rater sees it."""

    place: int
    """place among the answers as they are shown, from 0"""
    letter: str
    """name of the answer (A, B, ...); empty if it is the only one"""
    answer: Answer
    pieces: tuple[ClaimPiece, ...]

    @property
    def cited(self) -> frozenset[int]:
        """Numbers, from 0, of the quotes that some claim rests on."""
        return frozenset(number for claim in self.answer.claims for number in claim.quotes)

    @property
    def uncited(self) -> list[Quote]:
        """Quotes that no claim rests on."""
        return [quote for n, quote in enumerate(self.answer.quotes) if n not in self.cited]

    @property
    def quotes(self) -> tuple[Quote, ...]:
        """Quotes of the answer."""
        return self.answer.quotes


# Browsers replace these characters; replacing them here by ones as long keeps offsets equal.
_BROWSER_CHARACTERS = str.maketrans({"\r": "\n", "\0": "\ufffd"})


def split_at_claims(answer: Answer) -> tuple[ClaimPiece, ...]:
    """Return the whole text cut where claims begin and end; a claim's quotes are cited at its end.

    Overlapping claims are cut at their ends only.
    """
    out: list[ClaimPiece] = []
    position, text = 0, answer.text.translate(_BROWSER_CHARACTERS)
    for claim in sorted(answer.claims, key=lambda claim: (claim.end, claim.start)):
        if position < claim.start:
            out.append(ClaimPiece(position, text[position : claim.start]))
        begin = max(position, claim.start)
        whole = begin == claim.start and begin < claim.end
        out.append(ClaimPiece(begin, text[begin : claim.end], claim.quotes, whole))
        position = max(position, claim.end)
    if position < len(text) or not out:
        out.append(ClaimPiece(position, text[position:]))
    return tuple(out)


def find_answer_sentences(text: str) -> list[tuple[int, int]]:
    """Return the spans of the sentences as offsets in the text; a line break ends a sentence."""
    lines, at = [], 0
    for line in text.split("\n"):
        if line.strip():
            lines.append(Block(at, at + len(line), "paragraph"))
        at += len(line) + 1
    return [
        (span[0], span[1])
        for span in find_sentences(Page("", "", text, tuple(lines)), 0, len(text))
    ]


CLAIM_INPUTS = ("support", "relevance", "quotes", "label")
"""inputs about a claim, or another marked span"""
MAX_INLINE_CHARACTERS = 18
"""maximum characters of an option's label for the options to stand in one row"""
CLAIM_NUMBERS = 100_000
"""numbers reserved for the claims of one answer; those of answer n begin at n times this"""


class ShownWhen(NamedTuple):
    """The condition under which a control is shown, where it depends on one of the same page."""

    name: str
    """name of the form field that it depends on"""
    values: tuple[str, ...]
    """posted values that meet it; empty: any"""
    sentence: str
    """the condition in words, for people without scripts"""


class FormControl(NamedTuple):
    """One input of the form: options, present values, problem."""

    name: str
    """name of the form field"""
    field: FormField
    options: tuple[FieldChoice, ...]
    values: tuple[str, ...]
    required: bool
    problem: str
    answer: int | None
    """place of the answer it is about; None if it is about all"""
    quote: int | None
    """number of the quote it is about, from 0; None if it is about none"""
    when: ShownWhen | None = None
    """None: it is shown always"""
    needed: str = ""
    """in words, the condition under which it must be filled in, where there is one"""

    @property
    def wordy(self) -> bool:
        """True if its options are too long to stand in one row."""
        return (
            max(map(len, (each.label for each in self.options)), default=0) > MAX_INLINE_CHARACTERS
        )


class ClaimRow(NamedTuple):
    """A sentence, or a span that the rater marked, with what the rater said of it."""

    name: str
    """prefix of the names of its inputs, before the dot"""
    start: int
    end: int
    text: str
    said: Mapping[str, tuple[str, ...]]
    """values by input: support, relevance, quotes; of other spans label"""
    problem: str


class TaskForm:
    """A form and an item: answers in this rater's order, filled values, what is wrong or missing.

    With `check`, it has the problems that bar it from being handed in. `order` lists the item's
    answer numbers as shown on screen.
    """

    def __init__(
        self,
        form: LabellingForm,
        item: LabellingItem,
        order: Sequence[int],
        whole: bool,
        raw: PostedValues,
        check: bool = False,
    ) -> None:
        self.form, self.item, self.order = form, item, tuple(order)
        self.whole, self.raw = whole, raw
        self.faults: list[FormProblem] = []
        self._inputs = _list_all_inputs(form, item, order)
        values = {field.name: self._parse_field(field) for field in form.fields}
        self.filled = {name: value for name, value in values.items() if value is not None}
        self._report_unknown_names()
        self.problems = {each.field: each.sentence for each in self.faults} if check else {}

    @cached_property
    def answers(self) -> tuple[JudgedAnswer, ...]:
        """The answers as this rater sees them."""
        answers = []
        for place, number in enumerate(self.order):
            letter = get_answer_label(self.form, place) if len(self.order) > 1 else ""
            answer = self.item.answers[number]
            answers.append(JudgedAnswer(place, letter, answer, split_at_claims(answer)))
        return tuple(answers)

    @property
    def pages(self) -> tuple[tuple[FormStep, ...], ...]:
        """Steps on each page: all on one if the form is short, else one on each."""
        steps = self.form.steps
        return (
            (steps,) if self.form.minutes < ONE_PAGE_MINUTES else tuple((step,) for step in steps)
        )

    def clamp_page(self, text: str) -> int:
        """Return the number of the page that was asked for as text, else of the first or last.

        Pages count from 0. Text that is no number gives the first page, a number too large the
        last.
        """
        number = int(text) if text.isdecimal() and len(text) < 4 else 0
        return min(number, len(self.pages) - 1)

    def turn_page(self, number: int, do: str) -> int:
        """Return the number of the page that follows this one where this button was pressed.

        Pages count from 0. It is that of the first problem where the form was submitted, and of a
        button "on" or "back" the neighbour's. Any other button is the number of a page, as
        `clamp_page` takes it.
        """
        if do == "submit":
            return min(map(self.find_page, self.problems), default=number)
        turned = {"on": number + 1, "back": max(0, number - 1)}.get(do)
        return self.clamp_page(do if turned is None else str(turned))

    def list_controls(self, step: FormStep) -> list[FormControl]:
        """Return the controls of a step, in order.

        Controls that depend on another page are left out where their condition does not hold.
        """
        steps = next(steps for steps in self.pages if step in steps)
        page_inputs = {
            each.name for one in steps for each in list_form_inputs(one, self.item, self.order)
        }
        return [
            control
            for each in list_form_inputs(step, self.item, self.order)
            if (control := self._make_control(each, page_inputs)) is not None
        ]

    def find_page(self, name: str) -> int:
        """Return the number (from 0) of the page that a problem of this name is about, else 0."""
        inputs = [
            (number, each)
            for number, steps in enumerate(self.pages)
            for step in steps
            for each in list_form_inputs(step, self.item, self.order)
        ]
        named = (number for number, each in inputs if each.problem_name == name)
        claims = (number for number, each in inputs if self._is_claim(name, each))
        return next(chain(named, claims), 0)

    def _is_claim(self, name: str, each: FormInput) -> bool:
        parts = name.split(".")
        if each.field.kind not in ("claims", "spans") or parts[0] != each.name:
            return False
        about = self.raw.get(f"{'.'.join(parts[:2])}.answer", [str(each.answer)])
        return str(each.answer) in about

    def _make_control(self, each: FormInput, page_inputs: Collection[str]) -> FormControl | None:
        field, when, needed = each.field, None, ""
        if field.shown_when is not None:
            other = self._find_condition_input(each, field.shown_when)
            if other.name in page_inputs:
                accepted = self._list_condition_values(other.field, field.shown_when)
                words = self._describe_condition(each, field.shown_when)
                sentence = _("Only where %(condition)s.", condition=words)
                when = ShownWhen(other.name, accepted, sentence)
            elif not self._is_shown(each):
                return None
        if field.required_when is not None:
            words = self._describe_condition(each, field.required_when)
            needed = _("needed where %(condition)s", condition=words)
        options, values = _list_options(field, self.answers), tuple(self.raw.get(each.name, ()))
        return FormControl(
            name=each.name,
            field=field,
            options=options,
            values=values,
            required=self._is_required(each),
            problem=self.problems.get(each.problem_name, ""),
            answer=each.answer,
            quote=each.quote,
            when=when,
            needed=needed,
        )

    def _describe_condition(self, each: FormInput, condition: FormCondition) -> str:
        other = self._find_condition_input(each, condition).field
        values = self._list_condition_values(other, condition)
        options = _list_options(other, self.answers)
        said = _(" or ").join(f"“{one.label}”" for one in options if one.value in values)
        return _(
            "you say %(values)s to “%(field)s”", values=said or _("something"), field=other.label
        )

    def _find_condition_input(self, each: FormInput, condition: FormCondition) -> FormInput:
        """Return the input on whose value a condition of another input depends."""
        field = next(field for field in self.form.fields if field.name == condition.question)
        places = {"": (), "answer": (each.answer,), "quote": (each.answer, each.quote)}[field.per]
        return FormInput(".".join(map(str, (field.name, *places))), field, *places)

    def _list_condition_values(self, field: FormField, condition: FormCondition) -> tuple[str, ...]:
        """Return the posted values of a field that meet a condition; empty: any value does."""
        if field.kind == "versus":
            points = {"equal": ("0",), "better": ("-1", "1"), "much_better": ("-2", "2")}
            return tuple(point for value in condition.values for point in points[value])
        if field.kind == "pick" and "answer" in condition.values:
            return (*condition.values, *map(str, range(self.form.answers)))
        return condition.values

    def _is_shown(self, each: FormInput) -> bool:
        condition = each.field.shown_when
        return condition is None or self._is_met(each, condition)

    def _is_required(self, each: FormInput) -> bool:
        """Return True if an input that is shown must be filled in."""
        field = each.field
        required = field.required == "always" or (field.required == "whole" and self.whole)
        if field.required_when is not None and not required:
            required = self._is_met(each, field.required_when)
        if each.answer is None or not field.relied:
            return required
        claims = self.item.answers[self.order[each.answer]].claims
        return required and any(each.quote in claim.quotes for claim in claims)

    def _is_met(self, each: FormInput, condition: FormCondition) -> bool:
        other = self._find_condition_input(each, condition)
        if not self._is_shown(other):
            return False
        values = {one for one in self.raw.get(other.name, ()) if _clean_text(one)}
        allowed = self._list_condition_values(other.field, condition)
        return bool(values) and (not allowed or values <= set(allowed))

    def _parse_field(self, field: FormField) -> Any:
        """Return a field's values as they are stored; None if nothing was filled in."""
        mine = [each for each in self._inputs if each.field.name == field.name]
        if field.kind in ("claims", "spans"):
            return self._parse_claims(field, [each for each in mine if self._is_shown(each)])
        values: dict[tuple[int | None, int | None], Any] = {}
        for each in mine:
            if (value := self._parse_value(each)) is not None:
                answer = None if each.answer is None else self.order[each.answer]
                values[answer, each.quote] = value
        if not values or not field.per:
            return values.get((None, None))
        if field.per == "answer":
            return [values.get((number, None)) for number in range(len(self.item.answers))]
        return [
            [values.get((number, quote)) for quote in range(len(answer.quotes))]
            for number, answer in enumerate(self.item.answers)
        ]

    def _parse_claims(
        self, field: FormField, inputs: Sequence[FormInput]
    ) -> list[ClaimValues] | None:
        """Parse the posted claims, or other spans, of one field, sorted by answer and offsets.

        Rows in which nothing was filled in are ignored, and those of answers whose input is not
        shown. A claim with a fault is left out.
        """
        complete = [each for each in inputs if self._is_required(each)]
        claims: dict[tuple[int, int, int], ClaimValues] = {}
        for name, row in _group_claim_rows(field, self.raw):
            try:
                claim = self._parse_claim(field, name, row)
                place = self.order.index(claim["answer"])
                if all(each.answer != place for each in inputs):
                    continue
                span = (claim["answer"], claim["start"], claim["end"])
                words = _quote_claim_words(self.item, claim)
                if span in claims:
                    raise _ClaimError(f"{name}.start", f"Marked twice: {words}. Keep one.")
            except _ClaimError as error:
                self._add_problem(*error.args)
                continue
            claims[span] = claim
            if field.kind == "spans" or any(each.answer == place for each in complete):
                for part in (part.name for part in field.span_parts if claim[part.name] is None):
                    self._add_problem(f"{name}.{part}", f"Not filled in yet: {part} of {words}.")
        marked = {self.order.index(answer) for answer, *_span in claims}
        what = "the claims" if field.kind == "claims" else field.label
        for each in complete:
            if each.answer is not None and each.answer not in marked:
                letter = get_answer_label(self.form, each.answer)
                sentence = f"Not filled in yet: {what} of answer {letter}."
                self.faults.append(FormProblem(each.problem_name, sentence))
        return [claims[span] for span in sorted(claims)] or None

    def _parse_claim(self, field: FormField, name: str, row: _ClaimRow) -> ClaimValues:
        place, start, end = (parse_number(row.get(part, [])) for part in ("answer", "start", "end"))
        if place is None or start is None or end is None or place >= len(self.order):
            raise _ClaimError(f"{name}.start", "A claim is no part of an answer. Mark it again.")
        answer = self.item.answers[self.order[place]]
        if not (start < end <= len(answer.text) and answer.text[start:end].strip()):
            raise _ClaimError(f"{name}.start", "A claim is no part of its answer. Mark it again.")
        claim: ClaimValues = {"answer": self.order[place], "start": start, "end": end}
        words = _quote_claim_words(self.item, claim)
        for part, _label, choices in field.span_parts:
            values, what = row.get(part, []), f"{part} of {words}"
            if len(set(values)) > 1:
                raise _ClaimError(f"{name}.{part}", f"Only one can be given: {what}.")
            if values and all(choice.value != values[0] for choice in choices):
                sentence = f"Not one of the choices: {what}. Choose again."
                raise _ClaimError(f"{name}.{part}", sentence)
            claim[part] = values[0] if values else None
        if field.kind == "spans":
            return claim
        quotes = {parse_number([one]) for one in row.get("quotes", [])}
        if not quotes <= set(range(len(answer.quotes))):
            sentence = f"The answer has no such quote: {words}. Choose again."
            raise _ClaimError(f"{name}.quotes", sentence)
        claim["quotes"] = sorted(quote for quote in quotes if quote is not None)
        return claim

    def _report_unknown_names(self) -> None:
        """Add a problem for every posted name that belongs to a field but to no input of it."""
        fields = {field.name: field for field in self.form.fields}
        names = {each.name for each in self._inputs if each.field.kind not in ("claims", "spans")}
        for name in self.raw:
            field = fields.get(name.split(".")[0])
            if field is None or name in names:
                continue
            marked = field.kind in ("claims", "spans")
            if not (marked and re.fullmatch(re.escape(field.name) + _CLAIM_PART, name)):
                sentence = f"There is no such part to fill in: {field.label}. Load it again."
                self._add_problem(name, sentence)

    def _parse_value(self, each: FormInput) -> Any:
        if not self._is_shown(each):
            return None
        posted = dict.fromkeys(one for one in self.raw.get(each.name, ()) if _clean_text(one))
        what = self._describe_input(each)
        if not posted:
            if self._is_required(each):
                self._add_problem(each.name, f"Not filled in yet: {what}.")
            return None
        if len(posted) > 1:
            self._add_problem(each.name, f"Only one can be given: {what}.")
            return None
        (value,) = posted
        if each.field.kind == "text":
            return self._check_text(each, _clean_text(value))
        kind, number = each.field.kind, parse_number([value])
        if kind == "pick" and number is not None and number < len(self.order):
            return self.order[number]
        if any(choice.value == value for choice in each.field.choices):
            return _reorder_point(int(value), self.order) if kind == "versus" else value
        self._add_problem(each.name, f"Not one of the choices: {what}. Choose again.")
        return None

    def _check_text(self, each: FormInput, text: str) -> str:
        words, least = len(text.split()), each.field.min_words
        if len(text) > MAX_TEXT_CHARACTERS:
            counted = f"At most {MAX_TEXT_CHARACTERS:,} characters, and these are {len(text):,}"
            self._add_problem(each.name, f"{counted}: {self._describe_input(each)}.")
        if words < least:
            counted = f"At least {least} words, and these are {words}"
            self._add_problem(each.name, f"{counted}: {self._describe_input(each)}.")
        return text

    def _describe_input(self, each: FormInput) -> str:
        where = []
        if each.answer is not None and self.form.answers > 1:
            where.append(f"answer {get_answer_label(self.form, each.answer)}")
        if each.quote is not None:
            where.append(f"reference {each.quote + 1}")
        return each.field.label + (f" ({', '.join(where)})" if where else "")

    def _add_problem(self, name: str, sentence: str) -> None:
        # The label of a field may be a question.
        self.faults.append(FormProblem(name, re.sub(r"\?\.$", "?", sentence)))

    def list_claim_rows(self, control: FormControl) -> list[ClaimRow]:
        """Return a row for each sentence of an answer and each other marked span, in order."""
        assert control.answer is not None
        text = self.answers[control.answer].answer.text
        names = {
            (start, end): name
            for name, start, end in _iterate_claims(self.raw, control.name, control.answer)
            if start < end <= len(text)
        }
        rows = []
        for number, (start, end) in enumerate(sorted({*names, *find_answer_sentences(text)})):
            name = names.get((start, end), "")
            rows.append(
                ClaimRow(
                    f"{control.name}.{control.answer * CLAIM_NUMBERS + number}",
                    start,
                    end,
                    text[start:end],
                    {part: tuple(self.raw.get(f"{name}.{part}", ())) for part in CLAIM_INPUTS},
                    next((s for f, s in self.problems.items() if name and f.startswith(name)), ""),
                )
            )
        return rows

    def merge_posted(self, steps: Sequence[FormStep], posted: PostedValues) -> dict[str, list[str]]:
        """Return the raw values after these steps were posted; the values of other steps stay.

        Posted names that the steps do not ask for are left out.
        """
        merged = {name: list(each) for name, each in self.raw.items()}
        for step in steps:
            for each in list_form_inputs(step, self.item, self.order):
                if each.field.kind in ("claims", "spans") and each.answer is not None:
                    _merge_claims(merged, posted, each.name, each.answer)
                    continue
                merged.pop(each.name, None)
                if values := [value for value in posted.get(each.name, ()) if value]:
                    merged[each.name] = values
        return merged


def make_filled_form(
    form: LabellingForm,
    item: LabellingItem,
    order: Sequence[int],
    filled: Mapping[str, Any],
    whole: bool = False,
) -> TaskForm:
    """Return the form with stored values filled in; arguments as those of `TaskForm`."""
    return TaskForm(form, item, order, whole, encode_form(form, item, order, filled))


def _merge_claims(
    merged: dict[str, list[str]], posted: PostedValues, field: str, answer: int
) -> None:
    parts = ("answer", "start", "end", *CLAIM_INPUTS)
    for name, *_span in list(_iterate_claims(merged, field, answer)):
        for part in parts:
            merged.pop(f"{name}.{part}", None)
    numbers = {name.split(".")[1] for name in merged if name.startswith(f"{field}.")}
    free = (
        number
        for number in range(answer * CLAIM_NUMBERS, CLAIM_NUMBERS * 10)
        if str(number) not in numbers
    )
    for name, *_span in _iterate_claims(posted, field, answer):
        # A sentence without any rating is no claim.
        if any(any(posted.get(f"{name}.{part}", ())) for part in CLAIM_INPUTS):
            number = next(free)
            for part in parts:
                if values := [value for value in posted.get(f"{name}.{part}", ()) if value]:
                    merged[f"{field}.{number}.{part}"] = values


def _iterate_claims(raw: PostedValues, field: str, answer: int) -> Iterator[tuple[str, int, int]]:
    """Yield name prefix, start and end of each claim about the answer in this place."""
    for name, values in raw.items():
        before, _, part = name.rpartition(".")
        if part == "answer" and before.startswith(f"{field}.") and list(values) == [str(answer)]:
            start, end = (raw.get(f"{before}.{side}", ("",))[0] for side in ("start", "end"))
            if start.isdecimal() and end.isdecimal() and len(start + end) < 16:
                yield before, int(start), int(end)


def _list_options(field: FormField, answers: Sequence[JudgedAnswer]) -> tuple[FieldChoice, ...]:
    if field.kind != "pick":
        return field.choices
    own = [
        FieldChoice(str(a.place), _("Answer %(letter)s", letter=a.letter), str(a.place + 1))
        for a in answers
    ]
    return (*own, *field.choices)

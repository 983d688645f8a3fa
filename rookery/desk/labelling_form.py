"""The form of a labelling task, as plain values for one template: answers in pieces, controls of
each step, filled values and problems.

Declared forms of `judge` become controls, whatever the form; values are kept as they were sent, and
`judge` parses them. Offsets count characters of an answer's text. Who wrote an answer is not known
here.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from rookery.desk.form_parsing import (
    FormInput,
    find_condition_input,
    get_answer_label,
    is_input_required,
    is_input_shown,
    list_condition_values,
    list_form_inputs,
    parse_form,
)
from rookery.desk.forms import (
    ONE_PAGE_MINUTES,
    FieldChoice,
    FormCondition,
    FormField,
    FormStep,
    LabellingForm,
    PostedValues,
)
from rookery.desk.labelling_records import LabellingItem
from rookery.pages.passages import find_sentences
from rookery.records import Answer, Block, Page, Quote
from rookery.shell.languages import translate_text as _


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


def make_judged_answers(
    form: LabellingForm, item: LabellingItem, order: Sequence[int]
) -> tuple[JudgedAnswer, ...]:
    """Return the item's answers in the order in which this rater sees them."""
    return tuple(
        JudgedAnswer(
            place,
            get_answer_label(form, place) if len(order) > 1 else "",
            item.answers[number],
            split_at_claims(item.answers[number]),
        )
        for place, number in enumerate(order)
    )


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
    """Return the spans of the sentences; a line break ends a sentence."""
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
    """A form and an item: the answers in this rater's order, the filled values and, with `check`,
    the problems that bar it from being handed in."""

    def __init__(
        self,
        form: LabellingForm,
        item: LabellingItem,
        order: tuple[int, ...],
        whole: bool,
        raw: PostedValues,
        check: bool = False,
    ) -> None:
        self.form = form
        self.item = item
        self.order = order
        self.whole = whole
        self.raw = raw
        parsed = parse_form(form, item, order, raw, whole)
        self.filled = parsed.filled
        self.problems = {each.field: each.sentence for each in parsed.problems} if check else {}

    @cached_property
    def answers(self) -> tuple[JudgedAnswer, ...]:
        """The answers as this rater sees them."""
        return make_judged_answers(self.form, self.item, self.order)

    @property
    def pages(self) -> tuple[tuple[FormStep, ...], ...]:
        """Steps on each page: all on one if the form is short, else one on each."""
        steps = self.form.steps
        return (
            (steps,) if self.form.minutes < ONE_PAGE_MINUTES else tuple((step,) for step in steps)
        )

    def clamp_page(self, text: str) -> int:
        """Return the number of the page that was asked for as text, else of the first or last."""
        number = int(text) if text.isdecimal() and len(text) < 4 else 0
        return min(number, len(self.pages) - 1)

    def list_controls(self, step: FormStep) -> list[FormControl]:
        """Return the controls of a step, in order.

        Controls that depend on another page are left out where their condition does not hold.
        """
        steps = next(steps for steps in self.pages if step in steps)
        page_inputs = {each.name for one in steps for each in self._list_inputs(one)}
        return [
            control
            for each in self._list_inputs(step)
            if (control := self._make_control(each, page_inputs)) is not None
        ]

    def _list_inputs(self, step: FormStep) -> Iterator[FormInput]:
        return list_form_inputs(step, self.item, self.order)

    def find_page(self, name: str) -> int:
        """Return the number (from 0) of the page that a problem of this name is about, else 0."""
        inputs = [
            (number, each)
            for number, steps in enumerate(self.pages)
            for step in steps
            for each in self._list_inputs(step)
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
        field, when = each.field, None
        if field.shown_when is not None:
            other = find_condition_input(self.form, each, field.shown_when)
            if other.name in page_inputs:
                values = list_condition_values(self.form, other.field, field.shown_when)
                words = self._describe_condition(each, field.shown_when)
                when = ShownWhen(
                    other.name, values, _("Only where %(condition)s.", condition=words)
                )
            elif not is_input_shown(self.form, self.order, self.raw, each):
                return None
        return FormControl(
            each.name,
            field,
            _list_options(field, self.answers),
            tuple(self.raw.get(each.name, ())),
            is_input_required(self.form, self.item, self.order, self.raw, self.whole, each),
            self.problems.get(each.problem_name, ""),
            each.answer,
            each.quote,
            when,
            ""
            if field.required_when is None
            else _(
                "needed where %(condition)s",
                condition=self._describe_condition(each, field.required_when),
            ),
        )

    def _describe_condition(self, each: FormInput, condition: FormCondition) -> str:
        other = find_condition_input(self.form, each, condition).field
        values = list_condition_values(self.form, other, condition)
        options = _list_options(other, self.answers)
        said = _(" or ").join(f"“{one.label}”" for one in options if one.value in values)
        return _(
            "you say %(values)s to “%(field)s”", values=said or _("something"), field=other.label
        )

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
            for each in self._list_inputs(step):
                if each.field.kind in ("claims", "spans") and each.answer is not None:
                    _merge_claims(merged, posted, each.name, each.answer)
                    continue
                merged.pop(each.name, None)
                if values := [value for value in posted.get(each.name, ()) if value]:
                    merged[each.name] = values
        return merged


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

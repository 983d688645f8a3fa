"""An item in front of one person: what is asked at a time, and what is filled in so far.

It turns the declared forms of `judge` into controls for one template, whatever the form. What is
filled in is kept as it was sent; `judge` reads it. It knows nothing of requests.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from rookery.judge.fields import Choice, Field, Form, Raw, Step
from rookery.judge.filling import Input, inputs, read
from rookery.judge.work import Item
from rookery.serve.web.shown import Shown, sentences_of, shown_answers

SAID = ("support", "relevance", "quotes")
"""what may be said of a claim"""
SHORT = 5
"""minutes: forms that take less are on one page, the others on one page a step"""
WORDY = 18
"""characters of an option that does not stand in a row with others"""
ROWS = 100_000
"""claims of one answer are numbered from this many times its place on"""


class Control(NamedTuple):
    """One thing to fill in."""

    name: str
    field: Field
    options: tuple[Choice, ...]
    values: tuple[str, ...]
    required: bool
    problem: str
    answer: int | None
    quote: int | None

    @property
    def wordy(self) -> bool:
        """Whether its options are too long to stand in one row."""
        return max(map(len, (each.label for each in self.options)), default=0) > WORDY


class Row(NamedTuple):
    """A sentence, or a span that somebody marked, and what was said of it."""

    name: str
    """of its inputs, before the dot"""
    start: int
    end: int
    text: str
    said: Mapping[str, tuple[str, ...]]
    problem: str


class Sheet:
    """A form and an item, the answers in this person's order, what is filled in, and, where it is
    to be handed in, what is wrong."""

    def __init__(
        self,
        form: Form,
        item: Item,
        order: tuple[int, ...],
        whole: bool,
        raw: Raw,
        check: bool = False,
    ) -> None:
        self.form = form
        self.item = item
        self.order = order
        self.whole = whole
        self.raw = raw
        found = read(form, item, order, raw, whole)
        self.filled = found.filled
        self.problems = {each.field: each.sentence for each in found.problems} if check else {}

    @cached_property
    def answers(self) -> tuple[Shown, ...]:
        """As they are shown."""
        return shown_answers(self.form, self.item, self.order)

    @property
    def pages(self) -> tuple[tuple[Step, ...], ...]:
        """The steps that are on one page together."""
        steps = self.form.steps
        return (steps,) if self.form.minutes < SHORT else tuple((step,) for step in steps)

    def controls(self, step: Step) -> list[Control]:
        """What a step asks, one after the other."""
        return [self._control(each) for each in inputs(step, self.item, self.order)]

    def page_of(self, name: str) -> int:
        """The page on which an input is."""
        for number, steps in enumerate(self.pages):
            for step in steps:
                for each in inputs(step, self.item, self.order):
                    if each.name == name or self._is_claim(name, each):
                        return number
        return 0

    def _is_claim(self, name: str, each: Input) -> bool:
        parts = name.split(".")
        if each.field.kind != "claims" or parts[0] != each.name:
            return False
        about = self.raw.get(f"{'.'.join(parts[:2])}.answer", [str(each.answer)])
        return str(each.answer) in about

    def _control(self, each: Input) -> Control:
        field = each.field
        required = field.required == "always" or (field.required == "whole" and self.whole)
        if field.relied and each.answer is not None:
            required = required and each.quote in self.answers[each.answer].cited
        return Control(
            each.name,
            field,
            _options(field, self.answers),
            tuple(self.raw.get(each.name, ())),
            required,
            self.problems.get(each.name, ""),
            each.answer,
            each.quote,
        )

    def rows(self, control: Control) -> list[Row]:
        """A row for each sentence of an answer, and for each span that was marked besides."""
        assert control.answer is not None
        text = self.answers[control.answer].answer.text
        said = {
            (start, end): name
            for name, start, end in _claims(self.raw, control.name, control.answer)
            if start < end <= len(text)
        }
        rows = []
        for number, (start, end) in enumerate(sorted({*said, *sentences_of(text)})):
            name = said.get((start, end), "")
            rows.append(
                Row(
                    f"{control.name}.{control.answer * ROWS + number}",
                    start,
                    end,
                    text[start:end],
                    {part: tuple(self.raw.get(f"{name}.{part}", ())) for part in SAID},
                    next((s for f, s in self.problems.items() if name and f.startswith(name)), ""),
                )
            )
        return rows

    def merged(self, steps: Sequence[Step], posted: Raw) -> dict[str, list[str]]:
        """What is filled in, once these steps were sent: other steps stay as they were. Names that
        the steps do not ask for are left out."""
        kept = {name: list(values) for name, values in self.raw.items()}
        for step in steps:
            for each in inputs(step, self.item, self.order):
                if each.field.kind == "claims" and each.answer is not None:
                    _merge_claims(kept, posted, each.name, each.answer)
                    continue
                kept.pop(each.name, None)
                if said := [value for value in posted.get(each.name, ()) if value]:
                    kept[each.name] = said
        return kept


def _merge_claims(kept: dict[str, list[str]], posted: Raw, field: str, answer: int) -> None:
    parts = ("answer", "start", "end", *SAID)
    for name, _, _ in list(_claims(kept, field, answer)):
        for part in parts:
            kept.pop(f"{name}.{part}", None)
    taken = {name.split(".")[1] for name in kept if name.startswith(f"{field}.")}
    free = (number for number in range(answer * ROWS, ROWS * 10) if str(number) not in taken)
    for name, _, _ in _claims(posted, field, answer):
        # A sentence of which nothing was said is no claim.
        if any(any(posted.get(f"{name}.{part}", ())) for part in SAID):
            number = next(free)
            for part in parts:
                if said := [value for value in posted.get(f"{name}.{part}", ()) if value]:
                    kept[f"{field}.{number}.{part}"] = said


def _claims(raw: Raw, field: str, answer: int) -> Iterator[tuple[str, int, int]]:
    """The name, start and end of each claim about the answer in this place."""
    for name, values in raw.items():
        before, _, part = name.rpartition(".")
        if part == "answer" and before.startswith(f"{field}.") and list(values) == [str(answer)]:
            start, end = (raw.get(f"{before}.{side}", ("",))[0] for side in ("start", "end"))
            if start.isdecimal() and end.isdecimal() and len(start + end) < 16:
                yield before, int(start), int(end)


def _options(field: Field, answers: Sequence[Shown]) -> tuple[Choice, ...]:
    if field.kind != "pick":
        return field.choices
    own = [Choice(str(a.place), f"Answer {a.letter}", str(a.place + 1)) for a in answers]
    return (*own, *field.choices)

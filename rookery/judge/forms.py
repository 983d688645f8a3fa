"""Labelling forms: their parts (choices, fields, steps), the TOML files that define them with the
checks of these, the forms that come with Rookery, and the names of their inputs in HTML.

An input is called NAME; NAME.A where there is one for each answer; NAME.A.Q where there is one for
each quote of each answer. A counts the answers in the order shown, Q the quotes of that answer,
both from 0. Claims are claims.N.answer, .start, .end, .support, .relevance and .quotes (the last
may repeat), where N only tells claims apart; other spans have .label in place of the last three.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files
from itertools import chain, combinations
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from rookery.records import Failed, Failure, Record, digest_of, prepare_type

RequiredWhen = Literal["always", "whole", "never"]
"""When a field must be filled in; `whole`: only where every part of the form is required (WebGPT,
appendix C.2: one item in ten)."""
MAX_TEXT_CHARACTERS = 5000
"""Maximum characters of a text field."""


class FieldChoice(Record, frozen=True):
    """One allowed value of a field."""

    value: str
    label: str
    key: str = ""
    """Keyboard shortcut."""
    score: float | None = None
    """Value of the resulting Rating, 0 to 1; None: this choice gives no rating."""


class FormCondition(Record, frozen=True):
    """A condition on the value of an earlier field, for the same answer or quote."""

    question: str
    """Name of the field."""
    values: tuple[str, ...] = ()
    """Values that meet it; empty: any value does. Of a choice they are its values; of a pick its
    values, or "answer" for any of the answers; of a versus field "equal", "better" and
    "much_better", whichever answer it is that is better."""


class FormField(Record, frozen=True):
    """One question on a form."""

    name: str
    label: str
    kind: Literal["choice", "versus", "text", "claims", "spans", "pick"]
    """choice: one of `choices`, stored as its value. versus: one of five points between the two
    answers, posted in the order shown and stored in the order of the item: -2 means the first is
    much better, 2 the second. pick: one of the answers, stored as its number, or one of `choices`.
    text: stored as written. claims: spans of the answers, each with support and relevance. spans:
    spans of the answers, each with one of `choices`."""
    help: str = ""
    choices: tuple[FieldChoice, ...] = ()
    per: Literal["", "answer", "quote"] = ""
    """Asked once (empty), for each answer (stored as a list by answer) or for each quote of each
    answer (a list by answer of lists by quote); None in a list: not filled in."""
    required: RequiredWhen = "never"
    relied: bool = False
    """True: of the quotes, only those that the answer cites are required."""
    scale: str = ""
    """Scale of the Ratings made from this field; empty: none are made."""
    support: tuple[FieldChoice, ...] = ()
    """For claims: choices of how well a claim is supported."""
    relevance: tuple[FieldChoice, ...] = ()
    """For claims: choices of how a claim bears on the question."""
    shown_when: FormCondition | None = None
    """Shown, and stored, only where this holds; None: always."""
    required_when: FormCondition | None = None
    """Required also where this holds, whatever `required` says."""
    min_words: int = 0
    """For text: minimum number of words of a text that is given."""

    @property
    def span_parts(self) -> tuple["SpanPart", ...]:
        """For claims and spans: the choices that are made for each span."""
        if self.kind == "spans":
            return (SpanPart("label", self.label, self.choices),)
        return (
            SpanPart("support", "Support", self.support),
            SpanPart("relevance", "Relevance", self.relevance),
        )


class SpanPart(NamedTuple):
    """One choice that is made for each marked span."""

    name: str
    """Last part of the input's HTML name, and key of the stored value."""
    label: str
    choices: tuple[FieldChoice, ...]


class FormStep(Record, frozen=True):
    """A group of fields shown together."""

    name: str
    title: str
    fields: tuple[FormField, ...] = ()
    help: str = ""
    answer: int | None = None
    """Position on screen of the one answer that the step is about; None: it is about all of them.
    """


class LabellingForm(Record, frozen=True):
    """A labelling form: the steps that one item is judged in. Any item may be flagged or skipped
    instead."""

    name: str
    title: str
    minutes: int
    """Typical minutes to fill it in."""
    steps: tuple[FormStep, ...]
    answers: int
    """Number of answers to judge."""
    shows: Literal["numbered", "inline", "alone"] = "numbered"
    """numbered: the answer with citation numbers, and its quotes with title and address. inline:
    each claim above its evidence, without an address (GopherCite, appendix C). alone: no quotes."""
    decides: str = ""
    """Name of the field that says which answer is better; empty: none does."""
    trusted: bool = False
    """True: the question's gold answers are shown."""
    auto: bool = False
    """True: submitted as soon as its one field is chosen."""

    @property
    def digest(self) -> str:
        """Digest of the whole form, stored in judgements as the version of the questions asked."""
        plain = msgspec.to_builtins(self)
        for field in (field for step in plain["steps"] for field in step["fields"]):
            for name, unset in _LATER_SETTINGS.items():
                if field[name] == unset:
                    del field[name]
        return digest_of(msgspec.json.encode(plain).decode())

    @property
    def fields(self) -> tuple[FormField, ...]:
        """Every field once, in the order of the steps."""
        named = {field.name: field for step in self.steps for field in step.fields}
        return tuple(named.values())


_LATER_SETTINGS = {"shown_when": None, "required_when": None, "min_words": 0}
"""Settings of fields since version 0.2 and their values where unset, which the digest leaves out:
judgements of version 0.1 name digests without them."""

PostedValues = Mapping[str, Sequence[str]]
"""Posted values by input name."""


class FormProblem(Record, frozen=True):
    """A reason why a form cannot be submitted yet."""

    field: str
    """HTML name of the input to look at; of an answer without claims NAME.answer.A."""
    sentence: str


def parse_number(said: Sequence[str]) -> int | None:
    """Return the one posted value as a number; None if there are several or it is no such number.

    It has 1 to 9 digits and no sign.
    """
    if len(said) == 1 and re.fullmatch("[0-9]{1,9}", said[0]):
        return int(said[0])
    return None


LOWER_IS_BETTER_SCALES = frozenset({"toxicity", "social_bias", "redundancy"})
"""Scales on which lower is better (WebGLM, section 4)."""
COMPARISON_LABELS = ("A much better", "A better", "Equally good", "B better", "B much better")
"""Labels of the five points of a comparison (WebGPT, appendix C.2); A is the answer shown first."""
MAX_FORM_CHARACTERS = 100_000
"""Maximum characters of a form's file."""
MAX_FORM_ANSWERS = 9
"""Maximum number of answers that a form judges together: keys choose among them."""
MAX_MIN_WORDS = 200
"""Largest minimum of words that a form may ask for."""
ONE_PAGE_MINUTES = 5
"""Forms that take fewer minutes are on one page; longer ones have one page for each step."""
MAX_NAME_CHARACTERS = 30
"""Maximum characters of the name of a form, a step or a question; digests are longer."""
_RESERVED_NAMES = frozenset("do page token heeded reason episode edit preview".split())
"""Names of other inputs of the pages, of other values in a judgement, and of other pages."""
_CONDITION_VALUES = {"versus": ("equal", "better", "much_better"), "pick": ("answer",)}
"""Values that a condition may name besides the field's choices, by kind."""
T = TypeVar("T", bound=Struct)


class _ConditionTable(msgspec.Struct, forbid_unknown_fields=True):
    question: str
    values: list[str] = msgspec.field(default_factory=list, name="is")


class _QuestionTable(msgspec.Struct, forbid_unknown_fields=True):
    label: str
    kind: Literal["choice", "versus", "text", "claims", "spans", "pick"]
    help: str = ""
    choices: str | list[FieldChoice] | None = None
    levels: list[str] | None = None
    per: Literal["", "answer", "quote"] = ""
    required: RequiredWhen = "never"
    relied: bool = False
    scale: str = ""
    support: str | list[FieldChoice] | None = None
    relevance: str | list[FieldChoice] | None = None
    shown_when: _ConditionTable | None = None
    required_when: _ConditionTable | None = None
    min_words: int = 0


class _StepTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    title: str
    questions: list[str] = msgspec.field(default_factory=list)
    help: str = ""
    answer: int | None = None


class _FormTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    title: str
    minutes: int
    answers: int
    shows: Literal["numbered", "inline", "alone"] = "numbered"
    decides: str = ""
    trusted: bool = False
    auto: bool = False
    guide: str = ""
    steps: list[Any] = msgspec.field(default_factory=list)
    questions: dict[str, Any] = msgspec.field(default_factory=dict)
    choices: dict[str, Any] = msgspec.field(default_factory=dict)


class CheckedForm(NamedTuple):
    """A form's file as it was read, and what is wrong with it."""

    form: LabellingForm | None
    """None: it has problems."""
    guide: str
    """Instructions in Markdown that the file holds; empty: none."""
    problems: tuple[str, ...]
    """Sentences that say where, what, and what to write instead."""


def check_form_text(text: str) -> CheckedForm:
    """Read the TOML text of a form and check it; never raises, whatever it holds."""
    reader = _FormReader()
    form, guide = reader.read_form(text)
    return CheckedForm(None if reader.problems else form, guide, tuple(reader.problems))


def parse_form_text(text: str) -> LabellingForm:
    """Return the form that a TOML text defines. Raises Failed (bad_form) with every problem."""
    found = check_form_text(text)
    if found.form is None:
        raise Failed(Failure("the form", "bad_form", " ".join(found.problems)))
    return found.form


def read_packaged_form_text(name: str) -> str:
    """Return the TOML text of a form that comes with Rookery. Raises Failed (no_form)."""
    if name not in PACKAGED_FORM_NAMES:
        detail = f"there is no such form: name one of {', '.join(PACKAGED_FORM_NAMES)}"
        raise Failed(Failure(name, "no_form", detail))
    folder = files("rookery.judge").joinpath("packaged_forms")
    return folder.joinpath(f"{name}.toml").read_text(encoding="utf-8")


class _FormReader:
    """Reader of one form's file; collects problems as it goes."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._shared: dict[str, tuple[FieldChoice, ...]] = {}
        self._broken: set[str] = set()
        """Shared choices with settings that cannot be read: what uses them is not checked."""

    def read_form(self, text: str) -> tuple[LabellingForm | None, str]:
        """Return the form, and the guide that the file holds; None if it cannot be read."""
        if len(text) > MAX_FORM_CHARACTERS:
            counted = f"It has {len(text):,} characters, and {MAX_FORM_CHARACTERS:,} are the most"
            self.problems.append(f"{counted}: leave some out.")
            return None, ""
        try:
            plain = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            self.problems.append(f"This is no TOML: {error}. Look at that place.")
            return None, ""
        table, faulty = self._convert_table(plain, _FormTable, "the form")
        self._check_header(table, faulty)
        for name, choices in table.choices.items():
            self._shared[name] = self._convert_choices(choices, name)
        fields = {name: self._read_field(name, one) for name, one in table.questions.items()}
        most = MAX_FORM_ANSWERS if "answers" in faulty else table.answers
        steps = [
            self._read_step(number, step, fields, most)
            for number, step in enumerate(table.steps, 1)
        ]
        form = LabellingForm(
            table.name,
            table.title,
            ONE_PAGE_MINUTES if "minutes" in faulty else table.minutes,
            tuple(step for step in steps if step is not None),
            table.answers,
            table.shows,
            table.decides,
            table.trusted,
            table.auto,
        )
        # What rests on something that cannot be read is not said to be wrong.
        unread = {name for name, field in fields.items() if field is None}
        whole = None not in steps and not faulty & {"steps", "questions"}
        self._check_steps(form, set(table.questions) if whole else set())
        if "answers" not in faulty:
            for field in form.fields:
                self._check_field(form, field, unread)
            if whole:
                self._check_decision(form, unread)
        return form, table.guide

    def _add_problem(self, where: str, sentence: str) -> None:
        self.problems.append(f"{where[0].upper()}{where[1:]}: {sentence}.")

    def _convert_table(self, plain: object, kind: type[T], where: str) -> tuple[T, set[str]]:
        """Return a table without its faulty settings, and the names of these.

        Faulty ones that are required have a value that nothing is said about.
        """
        faults = _list_type_faults(plain, kind, ())
        for fault in faults:
            self._add_problem(where, fault.sentence)
        settings = dict(plain) if isinstance(plain, dict) else {}
        faulty = {fault.keys[0] for fault in faults if fault.keys}
        for field in msgspec.structs.fields(kind):
            if field.required and (
                field.encode_name in faulty or field.encode_name not in settings
            ):
                faulty.add(field.encode_name)
                settings[field.encode_name] = _FILLERS[field.type]
            elif field.encode_name in faulty:
                del settings[field.encode_name]
        known = {field.encode_name for field in msgspec.structs.fields(kind)}
        kept = {name: value for name, value in settings.items() if name in known}
        return msgspec.convert(kept, prepare_type(kind)), faulty & known

    def _convert_choices(self, plain: object, name: str) -> tuple[FieldChoice, ...]:
        where = f'choices "{name}"'
        if faults := _list_type_faults(plain, list[FieldChoice], ()):
            self._broken.add(name)
            for fault in faults:
                self._add_problem(where, fault.sentence)
            return ()
        return self._check_choices(
            tuple(msgspec.convert(plain, prepare_type(list[FieldChoice]))), where
        )

    def _check_choices(
        self, choices: tuple[FieldChoice, ...], where: str
    ) -> tuple[FieldChoice, ...]:
        for part in ("value", "key", "label"):
            said = [getattr(choice, part) for choice in choices if getattr(choice, part)]
            for twice in sorted({one for one in said if said.count(one) > 1}):
                self._add_problem(where, f'two choices have the {part} "{twice}": change one')
        for choice in choices:
            if not choice.value.strip() or not choice.label.strip():
                self._add_problem(where, "a choice needs a value and a label that are not empty")
            if len(choice.key) > 1 or not (choice.key or "a").isalnum():
                self._add_problem(where, f'the key "{choice.key}" is no single letter or digit')
            if choice.score is not None and not 0 <= choice.score <= 1:
                self._add_problem(where, f"the score {choice.score:g} is not from 0 to 1")
        return choices

    def _check_name(self, name: str, where: str) -> None:
        if not re.fullmatch(f"[a-z][a-z0-9_]{{0,{MAX_NAME_CHARACTERS - 1}}}", name):
            self._add_problem(
                where,
                f'the name "{name}" is to have small letters a to z, digits and _, begin with a '
                f"letter, and have at most {MAX_NAME_CHARACTERS} characters",
            )
        elif name in _RESERVED_NAMES:
            self._add_problem(where, f'the name "{name}" is taken by the pages: choose another')

    def _check_header(self, table: _FormTable, faulty: set[str]) -> None:
        self._check_name(table.name, "the form")
        if not table.title.strip():
            self._add_problem("the form", "its title is empty: say what people are asked")
        if not 1 <= table.minutes <= 600:
            self._add_problem("the form", f'"minutes" is {table.minutes}: give 1 to 600')
        if not 0 <= table.answers <= MAX_FORM_ANSWERS:
            self._add_problem(
                "the form", f'"answers" is {table.answers}: give 0 to {MAX_FORM_ANSWERS}'
            )
        if not table.steps and "steps" not in faulty:
            self._add_problem("the form", "it has no steps: begin one with [[steps]]")
        if table.trusted and not table.answers and "answers" not in faulty:
            self._add_problem("the form", '"trusted" shows right answers beside the one to judge')

    def _read_step(
        self, number: int, plain: object, fields: Mapping[str, FormField | None], answers: int
    ) -> FormStep | None:
        named = plain.get("name") if isinstance(plain, dict) else None
        where = f'step "{named}"' if isinstance(named, str) else f"step {number}"
        table, faulty = self._convert_table(plain, _StepTable, where)
        self._check_name(table.name, where)
        if not table.title.strip():
            self._add_problem(where, "its title is empty: say what is to be done")
        for name in table.questions:
            if name not in fields:
                self._add_problem(
                    where,
                    f'there is no question "{name}"{_suggest_name(name, fields)}: write a table '
                    f"[questions.{name}], or leave it out",
                )
        if table.answer is not None and not 1 <= table.answer <= answers:
            several = f"give 1 to {answers}, or leave it out" if answers else "leave it out"
            self._add_problem(
                where, f'"answer" is {table.answer}, and there are {answers}: {several}'
            )
        asked = tuple(found for name in table.questions if (found := fields.get(name)) is not None)
        place = None if table.answer is None else table.answer - 1
        if faulty & {"name", "questions"}:
            return None
        return FormStep(table.name, table.title, asked, table.help, place)

    def _read_field(self, name: str, plain: object) -> FormField | None:
        where = f'question "{name}"'
        self._check_name(name, where)
        table, faulty = self._convert_table(plain, _QuestionTable, where)
        if not table.label.strip():
            self._add_problem(where, "its label is empty: write what is asked")
        if faulty & {"kind", "choices", "levels", "support", "relevance", "per"}:
            return None
        choices = self._read_field_choices(table, where)
        support = self._find_choices(table.support, where)
        relevance = self._find_choices(table.relevance, where)
        named = (table.choices, table.support, table.relevance)
        if any(isinstance(each, str) and each in self._broken for each in named):
            return None
        return FormField(
            name,
            table.label,
            table.kind,
            table.help,
            choices,
            table.per,
            table.required,
            table.relied,
            table.scale,
            support,
            relevance,
            _make_condition(table.shown_when),
            _make_condition(table.required_when),
            table.min_words,
        )

    def _read_field_choices(self, table: _QuestionTable, where: str) -> tuple[FieldChoice, ...]:
        if table.kind == "versus":
            labels = table.levels or COMPARISON_LABELS
            if table.choices is not None or len(labels) != len(COMPARISON_LABELS):
                self._add_problem(
                    where,
                    "the points of a comparison are fixed: give no choices, and as levels five "
                    "labels or none",
                )
                labels = COMPARISON_LABELS
            return tuple(
                FieldChoice(str(place - 2), label, str(place + 1))
                for place, label in enumerate(labels)
            )
        if table.levels is None:
            return self._find_choices(table.choices, where)
        if table.choices is not None or table.kind != "choice" or not 2 <= len(table.levels) <= 10:
            self._add_problem(
                where, "levels are 2 to 10 labels of a choice from the lowest, without choices"
            )
        most = max(1, len(table.levels) - 1)
        levels = tuple(
            FieldChoice(str(level), label, str(level)[-1], level / most)
            for level, label in enumerate(table.levels)
        )
        return self._check_choices(levels, where)

    def _find_choices(
        self, given: str | list[FieldChoice] | None, where: str
    ) -> tuple[FieldChoice, ...]:
        if not isinstance(given, str):
            return self._check_choices(tuple(given or ()), where)
        if given not in self._shared:
            self._add_problem(
                where,
                f'there are no choices "{given}"{_suggest_name(given, self._shared)}: write them '
                "under [choices]",
            )
        return self._shared.get(given, ())

    def _check_steps(self, form: LabellingForm, questions: set[str]) -> None:
        names = [step.name for step in form.steps]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self._add_problem(f'step "{name}"', "two steps have this name: change one")
        asked = {field.name for field in form.fields}
        for name in sorted(questions - asked):
            if not any(f'"{name}"' in problem for problem in self.problems):
                self._add_problem(
                    f'question "{name}"', "no step asks it: name it in the questions of one"
                )
        if form.steps and not questions:
            self._add_problem("the form", "it asks nothing: write a table [questions.NAME]")

    def _check_field(self, form: LabellingForm, field: FormField, unread: set[str]) -> None:
        where = f'question "{field.name}"'
        for sentence in _list_field_problems(form, field):
            self._add_problem(where, sentence)
        for setting in ("shown_when", "required_when"):
            condition = getattr(field, setting)
            if condition is not None and condition.question in unread:
                continue
            for sentence in _list_condition_problems(form, field, condition):
                self._add_problem(where, f"{setting} {sentence}")

    def _check_decision(self, form: LabellingForm, unread: set[str]) -> None:
        kinds = {field.name: field.kind for field in form.fields}
        if unread & {form.decides}:
            return
        if form.decides and kinds.get(form.decides, "pick") not in ("versus", "pick"):
            self._add_problem(
                "the form", f'"{form.decides}" cannot decide: only a versus or pick question can'
            )
        if form.decides and form.decides not in kinds:
            self._add_problem(
                "the form",
                f'"decides" names no question "{form.decides}"{_suggest_name(form.decides, kinds)}',
            )
        if unread:
            return
        if form.auto and (
            [step.answer for step in form.steps] != [None] or list(kinds.values()) != ["pick"]
        ):
            self._add_problem(
                "the form", '"auto" needs one step with one pick question and nothing else'
            )
        if form.auto and any(field.choices or field.shown_when for field in form.fields):
            self._add_problem(
                "the form", '"auto" has a button for each answer: leave out choices and conditions'
            )


def _make_condition(table: _ConditionTable | None) -> FormCondition | None:
    return None if table is None else FormCondition(table.question, tuple(table.values))


def _list_field_problems(form: LabellingForm, field: FormField) -> Iterator[str]:
    kind = field.kind
    if kind in ("choice", "spans") and len(field.choices) < (2 if kind == "choice" else 1):
        yield "it needs choices" + (", two or more" if kind == "choice" else "")
    if kind == "text" and field.choices:
        yield "a text has no choices: leave them out, or make it a choice"
    if kind == "claims" and not (field.support and field.relevance):
        yield "claims need support and relevance, each a list of choices"
    if kind != "claims" and (field.support or field.relevance):
        yield "support and relevance belong to claims only"
    if kind == "claims" and field.choices:
        yield "claims have support and relevance in place of choices"
    if kind == "versus" and form.answers != 2:
        yield f"a comparison is between 2 answers, and the form has {form.answers}"
    if kind == "pick" and form.answers < 2:
        yield f"a pick is among 2 answers or more, and the form has {form.answers}"
    if kind == "pick" and any(choice.value.isdecimal() for choice in field.choices):
        yield "a value that is a number means an answer: choose words for the other choices"
    if kind in ("claims", "spans") and not form.answers:
        yield "there is no answer to mark parts of: the form has 0 answers"
    if kind in ("claims", "spans") and form.minutes < ONE_PAGE_MINUTES:
        for one, other in _list_repetitions(form, field):
            yield (
                f'the steps "{one.name}" and "{other.name}" are on one page and both ask it about '
                "the same answer: ask it in one of them, or make minutes 5 or more"
            )
    if field.per and kind not in ("choice", "text"):
        yield f"{kind} is asked once for all answers: leave out per"
    if field.per and not form.answers:
        yield f"it is asked for each {field.per}, and the form has 0 answers"
    if field.per == "quote" and form.shows == "alone":
        yield 'it is asked for each quote, and none is shown: change shows = "alone"'
    if field.relied and field.per != "quote":
        yield 'relied is about quotes: give per = "quote", or leave it out'
    if field.scale and not (kind == "choice" and field.per):
        yield "ratings come of a choice for each answer or quote: leave out scale, or give per"
    elif field.scale and all(choice.score is None for choice in field.choices):
        yield f'no choice has a score, so that nothing is rated on the scale "{field.scale}"'
    if field.min_words and kind != "text":
        yield "min_words is about texts: leave it out"
    if not 0 <= field.min_words <= MAX_MIN_WORDS:
        yield f"min_words is {field.min_words}: give 0 to {MAX_MIN_WORDS}"


def _list_repetitions(form: LabellingForm, field: FormField) -> Iterator[tuple[FormStep, FormStep]]:
    """Yield every two steps that ask a question about the same answer."""
    asking = [step for step in form.steps for each in step.fields if each.name == field.name]
    for one, other in combinations(asking, 2):
        if one.answer is None or other.answer is None or one.answer == other.answer:
            yield one, other


def _list_condition_problems(
    form: LabellingForm, field: FormField, condition: FormCondition | None
) -> Iterator[str]:
    """Yield what is wrong with a condition, as the rest of a sentence."""
    if condition is None:
        return
    names = [each.name for each in form.fields]
    before = {each.name: each for each in form.fields[: names.index(field.name)]}
    other = before.get(condition.question)
    if other is None:
        hint = _suggest_name(condition.question, before)
        yield f'names "{condition.question}", which is no earlier question{hint}'
        return
    if other.kind in ("claims", "spans"):
        yield f'depends on "{other.name}", whose parts are many: choose another question'
        return
    unit = "answer" if field.kind in ("claims", "spans") else field.per
    if other.per and other.per != unit and not (other.per == "answer" and unit == "quote"):
        yield (
            f'depends on "{other.name}", which is asked for each {other.per}: ask this one for '
            f'each {other.per}, too (per = "{other.per}")'
        )
    known = list(_CONDITION_VALUES.get(other.kind, ()))
    if other.kind != "versus":
        known += [choice.value for choice in other.choices]
    for value in condition.values:
        if value not in known:
            allowed = ", ".join(f'"{one}"' for one in known) or "none: leave out is"
            yield f'has "{value}", which "{other.name}" cannot be; it can be {allowed}'


def _suggest_name(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests a known name like this one; empty if there is none."""
    near = get_close_matches(name, list(known), 1)
    return f' (did you mean "{near[0]}"?)' if near else ""


class _TypeFault(NamedTuple):
    """A setting that cannot be read, or is missing."""

    keys: tuple[str, ...]
    """Way to it from the table; entries of lists by number, from 1."""
    sentence: str


_FILLERS: dict[Any, Any] = {
    str: "filler",
    int: 1,
    Literal["choice", "versus", "text", "claims", "spans", "pick"]: "text",
}
"""Values of required settings that are faulty, by type; nothing is said about them."""


def _list_type_faults(plain: object, kind: Any, keys: tuple[str, ...]) -> list[_TypeFault]:
    """Return every setting of a table that has a wrong type or name, or is missing.

    msgspec stops at the first: each setting, and each entry of a list, is converted by itself.
    """
    options = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    for option in options:
        if isinstance(plain, list) and get_origin(option) is list:
            entries = enumerate(plain, 1)
            found = (
                _list_type_faults(one, get_args(option)[0], (*keys, f"entry {number}"))
                for number, one in entries
            )
            return list(chain.from_iterable(found))
        if isinstance(plain, dict) and isinstance(option, type) and issubclass(option, Struct):
            return _list_setting_faults(plain, option, keys)
    try:
        msgspec.convert(plain, prepare_type(kind))
    except msgspec.ValidationError as error:
        return [_TypeFault(keys, _place_fault(keys, _explain_error(str(error), kind)))]
    return []


def _list_setting_faults(
    plain: Mapping[str, object], kind: type[Struct], keys: tuple[str, ...]
) -> list[_TypeFault]:
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    missing = {name for name, field in fields.items() if field.required and name not in plain}
    found: list[_TypeFault] = []
    for name, value in plain.items():
        if name in fields:
            found += _list_type_faults(value, fields[name].type, (*keys, name))
            continue
        # A required one that is only misspelt is told once.
        missing -= set(get_close_matches(name, fields, 1))
        hint = _suggest_name(name, fields) or f"; there is {', '.join(fields)}"
        found.append(
            _TypeFault((*keys, name), _place_fault(keys, f'there is no setting "{name}"{hint}'))
        )
    for name in fields:
        if name in missing:
            wanted = _name_type(fields[name].type)
            found.append(
                _TypeFault((*keys, name), _place_fault(keys, f'"{name}" is missing{wanted}'))
            )
    return found


def _place_fault(keys: Sequence[str], sentence: str) -> str:
    place = ", ".join(key if key.startswith("entry ") else f'"{key}"' for key in keys)
    return f"{place}: {sentence}" if place else sentence


_TYPE_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list in [ ]",
    "object": "a table",
    "null": "nothing",
}


def _explain_error(said: str, kind: Any) -> str:
    """Return an error of msgspec about one value as the rest of a sentence for its writer."""
    said = said.partition(" - at `$")[0]
    if wrong := re.search("Invalid enum value '?(.*?)'?$", said):
        return f'"{wrong[1]}" is none of {_list_allowed(kind)}'
    if typed := re.search("Expected `(.*)`, got `(.*)`", said):
        wanted = " or ".join(
            _TYPE_WORDS.get(one, one) for one in typed[1].split(" | ") if one != "null"
        )
        allowed = f", one of {_list_allowed(kind)}" if get_origin(kind) is Literal else ""
        return f"{wanted} is expected{allowed}, and this is {_TYPE_WORDS.get(typed[2], typed[2])}"
    return said


def _list_allowed(kind: Any) -> str:
    return ", ".join(f'"{one}"' for one in get_args(kind) if one)


def _name_type(kind: Any) -> str:
    """Return what a setting that is missing has to be, as the end of a sentence."""
    if get_origin(kind) is Literal:
        return f": give one of {_list_allowed(kind)}"
    return f": give {_TYPE_WORDS[kind.__name__]}"


PACKAGED_FORM_NAMES = (
    "demonstrate",
    "compare",
    "compare_short",
    "supported",
    "best_of_four",
    "best_summary",
    "most_positive",
    "most_descriptive",
    "criteria",
    "thumbs",
    "truthful",
    "survey",
)
"""Names of the forms that come with Rookery, in the order in which they are listed."""
FORMS = {name: parse_form_text(read_packaged_form_text(name)) for name in PACKAGED_FORM_NAMES}
"""The forms that come with Rookery, by name."""


def find_form(
    forms: Mapping[str, LabellingForm], name: str, digest: str = ""
) -> LabellingForm | None:
    """Return the version of a form with this digest, else the newest; None: there is no such form.

    `forms` has the newest versions by name, and any by digest.
    """
    return forms.get(digest) or forms.get(name)


def join_form_names(forms: Mapping[str, LabellingForm]) -> str:
    """Return the names of known forms, as `find_form` takes them, for a sentence."""
    return ", ".join(key for key, form in forms.items() if key == form.name)


FLAG_REASONS = (
    FieldChoice("senseless", "It makes no sense"),
    FieldChoice("should_not", "It should not be answered"),
)
"""Faults of a question that may be reported on any form (WebGPT, appendix C.2, step 1)."""
SKIP_REASONS = (
    FieldChoice("cannot_judge", "I cannot judge this"),
    FieldChoice("too_long", "It takes too long"),
    FieldChoice("unpleasant", "I would rather not read this"),
    FieldChoice("broken", "Something is not shown as it should be"),
)
"""Reasons to leave an item to others."""

"""Labelling forms and what is judged on them: parts of forms (choices, fields, steps), the TOML
files that define them with the checks of these, the forms that come with Rookery, the names of
their inputs in HTML; and the records of items, judgements and decisions.

An input is called NAME; NAME.A where there is one for each answer; NAME.A.Q where there is one for
each quote of each answer. A counts the answers in the order shown, Q the quotes of that answer,
both from 0. Claims are claims.N.answer, .start, .end, .support, .relevance and .quotes (the last
may repeat), where N only tells claims apart; other spans have .label in place of the last three.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import combinations
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from rookery.browser.browser_commands import BrowserRules
from rookery.errors import Failed, Outcome
from rookery.records import Answer, Failure, Question, Record, convert_value, digest_of

RequiredWhen = Literal["always", "whole", "never"]
"""when a field must be filled in; `whole`: only where every part of the form is required (WebGPT,
appendix C.2: one item in ten)"""
MAX_TEXT_CHARACTERS = 5000
"""maximum characters of a text field"""


class FieldChoice(Record, frozen=True):
    """One allowed value of a field."""

    value: str
    label: str
    key: str = ""
    """keyboard shortcut"""
    score: float | None = None
    """value of the resulting Rating, 0 to 1; None: this choice gives no rating"""


class FormCondition(Record, frozen=True):
    """A condition on the value of an earlier field, for the same answer or quote."""

    question: str
    """name of the field"""
    values: tuple[str, ...] = ()
    """values that meet it; empty: any value does. Of a choice they are its values; of a pick its
    values, or "answer" for any of the answers; of a versus field "equal", "better" and
    "much_better", whichever answer it is that is better"""


class FormField(Record, frozen=True):
    """One question on a form."""

    name: str
    label: str
    kind: Literal["choice", "versus", "text", "claims", "spans", "pick"]
    """choice: one of `choices`, stored as its value. versus: one of five points between the two
    answers, posted in the order shown and stored in the order of the item: -2 means the first is
    much better, 2 the second. pick: one of the answers, stored as its number, or one of `choices`.
    text: stored as written. claims: spans of the answers, each with support and relevance. spans:
    spans of the answers, each with one of `choices`"""
    help: str = ""
    choices: tuple[FieldChoice, ...] = ()
    per: Literal["", "answer", "quote"] = ""
    """asked once (empty), for each answer (stored as a list by answer) or for each quote of each
    answer (a list by answer of lists by quote); None in a list: not filled in"""
    required: RequiredWhen = "never"
    relied: bool = False
    """True: of the quotes, only those that the answer cites are required"""
    scale: str = ""
    """scale of the Ratings made from this field; empty: none are made"""
    support: tuple[FieldChoice, ...] = ()
    """for claims: choices of how well a claim is supported"""
    relevance: tuple[FieldChoice, ...] = ()
    """for claims: choices of how a claim bears on the question"""
    shown_when: FormCondition | None = None
    """shown, and stored, only where this holds; None: always"""
    required_when: FormCondition | None = None
    """required also where this holds, whatever `required` says"""
    min_words: int = 0
    """for text: minimum number of words of a text that is given"""

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
    """last part of the input's HTML name, and key of the stored value"""
    label: str
    choices: tuple[FieldChoice, ...]


class FormStep(Record, frozen=True):
    """A group of fields shown together."""

    name: str
    title: str
    fields: tuple[FormField, ...] = ()
    help: str = ""
    answer: int | None = None
    """position on screen of the one answer that the step is about; None: it is about all of them
    """


class LabellingForm(Record, frozen=True):
    """A labelling form: the steps that one item is judged in. Any item may be flagged or skipped
    instead."""

    name: str
    title: str
    minutes: int
    """typical minutes to fill it in"""
    steps: tuple[FormStep, ...]
    answers: int
    """number of answers to judge"""
    shows: Literal["numbered", "inline", "alone"] = "numbered"
    """numbered: the answer with citation numbers, and its quotes with title and address. inline:
    each claim above its evidence, without an address (GopherCite, appendix C). alone: no quotes"""
    decides: str = ""
    """name of the field that says which answer is better; empty: none does"""
    trusted: bool = False
    """True: the question's gold answers are shown"""
    auto: bool = False
    """True: submitted as soon as its one field is chosen"""

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
"""settings of fields since version 0.2 and their values where unset, which the digest leaves out:
judgements of version 0.1 name digests without them"""

PostedValues = Mapping[str, Sequence[str]]
"""posted values by input name"""


class FormProblem(Record, frozen=True):
    """A reason why a form cannot be submitted yet."""

    field: str
    """HTML name of the input to look at; of an answer without claims NAME.answer.A"""
    sentence: str


def parse_number(values: Sequence[str]) -> int | None:
    """Return the one posted value as a number; None if there are several or it is no such number.

    It has 1 to 9 digits and no sign.
    """
    if len(values) == 1 and re.fullmatch("[0-9]{1,9}", values[0]):
        return int(values[0])
    return None


COMPARISON_LABELS = ("A much better", "A better", "Equally good", "B better", "B much better")
"""labels of the five points of a comparison (WebGPT, appendix C.2); A is the answer shown first"""
MAX_FORM_CHARACTERS = 100_000
"""maximum characters of a form's file"""
MAX_FORM_ANSWERS = 9
"""maximum number of answers that a form judges together: keys choose among them"""
MAX_MIN_WORDS = 200
"""largest minimum of words that a form may ask for"""
ONE_PAGE_MINUTES = 5
"""forms that take fewer minutes are on one page; longer ones have one page for each step"""
MAX_NAME_CHARACTERS = 30
"""maximum characters of the name of a form, a step or a question; digests are longer"""
_RESERVED_NAMES = frozenset("do page token heeded reason episode edit preview".split())
"""names of other inputs of the pages, of other values in a judgement, and of other pages"""
_CONDITION_VALUES = {"versus": ("equal", "better", "much_better"), "pick": ("answer",)}
"""values that a condition may name besides the field's choices, by kind"""
T = TypeVar("T")


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
    steps: list[_StepTable] = msgspec.field(default_factory=list)
    questions: dict[str, Any] = msgspec.field(default_factory=dict)
    choices: dict[str, Any] = msgspec.field(default_factory=dict)


class FormFile(NamedTuple):
    """A form, and the guide that its file holds."""

    form: LabellingForm
    guide: str
    """instructions in Markdown; empty: none"""


def parse_form_file(text: str) -> FormFile:
    """Read the TOML text of a form and check it.

    Raises Failed (bad_form) with the first thing that is wrong, its place, and what to write.
    """
    if len(text) > MAX_FORM_CHARACTERS:
        counted = f"it has {len(text):,} characters, and {MAX_FORM_CHARACTERS:,} are the most"
        raise _make_refusal("the form", f"{counted}: leave some out")
    try:
        plain = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _make_refusal("the form", f"this is no TOML, {error}: look at that place") from None
    table = _convert_table(plain, _FormTable, "the form")
    _check_header(table)
    shared = {
        name: _check_choices(
            tuple(_convert_table(choices, list[FieldChoice], f'choices "{name}"')),
            f'choices "{name}"',
        )
        for name, choices in table.choices.items()
    }
    fields = {name: _read_field(name, each, shared) for name, each in table.questions.items()}
    steps = tuple(_read_step(step, fields, table.answers) for step in table.steps)
    header = (table.name, table.title, table.minutes, steps, table.answers, table.shows)
    form = LabellingForm(*header, table.decides, table.trusted, table.auto)
    _check_steps(form, fields)
    for field in form.fields:
        for sentence in _list_field_problems(form, field):
            raise _make_refusal(f'question "{field.name}"', sentence)
    _check_decision(form)
    return FormFile(form, table.guide)


def parse_form_text(text: str) -> LabellingForm:
    """Return the form that a TOML text defines. Raises Failed (bad_form) as `parse_form_file`."""
    return parse_form_file(text).form


def read_packaged_form_text(name: str) -> str:
    """Return the TOML text of a form that comes with Rookery. Raises Failed (no_form)."""
    if name not in PACKAGED_FORM_NAMES:
        detail = f"there is no such form: name one of {', '.join(PACKAGED_FORM_NAMES)}"
        raise Failed(Failure(name, Outcome.NO_FORM, detail))
    folder = files("rookery.desk").joinpath("packaged_forms")
    return folder.joinpath(f"{name}.toml").read_text(encoding="utf-8")


def _make_refusal(where: str, sentence: str) -> Failed:
    detail = f"{where[0].upper()}{where[1:]}: {sentence}."
    return Failed(Failure("the form", Outcome.BAD_FORM, detail))


def _convert_table(plain: object, kind: type[T], where: str) -> T:
    try:
        return convert_value(plain, kind)
    except ValueError as error:
        sentence = f"{error}: the manual says what each setting of a form may be"
        raise _make_refusal(where, sentence) from None


def _check_choices(choices: tuple[FieldChoice, ...], where: str) -> tuple[FieldChoice, ...]:
    for part in ("value", "key", "label"):
        texts = [getattr(choice, part) for choice in choices if getattr(choice, part)]
        for twice in (one for one in texts if texts.count(one) > 1):
            raise _make_refusal(where, f'two choices have the {part} "{twice}": change one')
    for choice in choices:
        if not choice.value.strip() or not choice.label.strip():
            raise _make_refusal(where, "a choice needs a value and a label that are not empty")
        if len(choice.key) > 1 or not (choice.key or "a").isalnum():
            raise _make_refusal(where, f'the key "{choice.key}" is no single letter or digit')
        if choice.score is not None and not 0 <= choice.score <= 1:
            raise _make_refusal(where, f"the score {choice.score:g} is not from 0 to 1")
    return choices


def _check_name(name: str, where: str) -> None:
    if not re.fullmatch(f"[a-z][a-z0-9_]{{0,{MAX_NAME_CHARACTERS - 1}}}", name):
        wanted = "small letters a to z, digits and _, begin with a letter, and have at most"
        sentence = f'the name "{name}" is to have {wanted} {MAX_NAME_CHARACTERS} characters'
        raise _make_refusal(where, sentence)
    if name in _RESERVED_NAMES:
        raise _make_refusal(where, f'the name "{name}" is taken by the pages: choose another')


def _check_header(table: _FormTable) -> None:
    _check_name(table.name, "the form")
    wrong = ""
    if not table.title.strip():
        wrong = "its title is empty: say what people are asked"
    elif not 1 <= table.minutes <= 600:
        wrong = f'"minutes" is {table.minutes}: give 1 to 600'
    elif not 0 <= table.answers <= MAX_FORM_ANSWERS:
        wrong = f'"answers" is {table.answers}: give 0 to {MAX_FORM_ANSWERS}'
    elif not table.steps:
        wrong = "it has no steps: begin one with [[steps]]"
    elif not table.questions:
        wrong = "it asks nothing: write a table [questions.NAME]"
    elif table.trusted and not table.answers:
        wrong = '"trusted" shows right answers beside the one to judge'
    if wrong:
        raise _make_refusal("the form", wrong)


def _read_step(table: _StepTable, fields: Mapping[str, FormField], answers: int) -> FormStep:
    where = f'step "{table.name}"'
    _check_name(table.name, where)
    if not table.title.strip():
        raise _make_refusal(where, "its title is empty: say what is to be done")
    for name in table.questions:
        if name not in fields:
            missing = f'there is no question "{name}": write a table [questions.{name}]'
            raise _make_refusal(where, f"{missing}, or leave it out")
    if table.answer is not None and not 1 <= table.answer <= answers:
        several = f"give 1 to {answers}, or leave it out" if answers else "leave it out"
        counted = f'"answer" is {table.answer}, and there are {answers}'
        raise _make_refusal(where, f"{counted}: {several}")
    questions = tuple(fields[name] for name in table.questions)
    place = None if table.answer is None else table.answer - 1
    return FormStep(table.name, table.title, questions, table.help, place)


def _read_field(
    name: str, plain: object, shared: Mapping[str, tuple[FieldChoice, ...]]
) -> FormField:
    where = f'question "{name}"'
    _check_name(name, where)
    table = {**_convert_table(plain, dict[str, Any], where)}
    levels = table.pop("levels", None)
    for part in ("choices", "support", "relevance"):
        listed = table.get(part, ())
        if isinstance(listed, str) and listed not in shared:
            sentence = f'there are no choices "{listed}": write them under [choices]'
            raise _make_refusal(where, sentence)
        table[part] = shared[listed] if isinstance(listed, str) else listed
    for setting in ("shown_when", "required_when"):
        if isinstance(condition := table.get(setting), dict) and "is" in condition:
            condition = dict(condition)
            table[setting] = {"values": condition.pop("is"), **condition}
    if "name" in table:
        raise _make_refusal(where, "its name is that of the table: leave out name")
    field = _convert_table({"name": name, **table}, FormField, where)
    if not field.label.strip():
        raise _make_refusal(where, "its label is empty: write what is asked")
    if levels is not None or field.kind == "versus":
        labels = None if levels is None else _convert_table(levels, list[str], where)
        field = _add_levels(field, labels, where)
    for choices in (field.choices, field.support, field.relevance):
        _check_choices(choices, where)
    return field


def _add_levels(field: FormField, labels: Sequence[str] | None, where: str) -> FormField:
    """Return a comparison with its five points, or a choice with levels from these labels."""
    if field.kind == "versus":
        labels = labels or COMPARISON_LABELS
        if field.choices or len(labels) != len(COMPARISON_LABELS):
            fixed = "the points of a comparison are fixed: give no choices"
            raise _make_refusal(where, f"{fixed}, and as levels five labels or none")
        points = (FieldChoice(str(at - 2), label, str(at + 1)) for at, label in enumerate(labels))
        return msgspec.structs.replace(field, choices=tuple(points))
    if labels is None or field.choices or field.kind != "choice" or not 2 <= len(labels) <= 10:
        levels = "levels are 2 to 10 labels of a choice from the lowest, without choices"
        raise _make_refusal(where, levels)
    most = len(labels) - 1
    scored = (
        FieldChoice(str(level), label, str(level)[-1], level / most)
        for level, label in enumerate(labels)
    )
    return msgspec.structs.replace(field, choices=tuple(scored))


def _check_steps(form: LabellingForm, questions: Iterable[str]) -> None:
    names = [step.name for step in form.steps]
    for name in (name for name in names if names.count(name) > 1):
        raise _make_refusal(f'step "{name}"', "two steps have this name: change one")
    asked = {field.name for field in form.fields}
    for name in (name for name in questions if name not in asked):
        unasked = "no step asks it: name it in the questions of one"
        raise _make_refusal(f'question "{name}"', unasked)


def _check_decision(form: LabellingForm) -> None:
    kinds = {field.name: field.kind for field in form.fields}
    wrong = ""
    if form.decides and form.decides not in kinds:
        wrong = f'"decides" names no question "{form.decides}": name a versus or pick question'
    elif form.decides and kinds[form.decides] not in ("versus", "pick"):
        wrong = f'"{form.decides}" cannot decide: only a versus or pick question can'
    elif form.auto and (
        [step.answer for step in form.steps] != [None] or list(kinds.values()) != ["pick"]
    ):
        wrong = '"auto" needs one step with one pick question and nothing else'
    elif form.auto and any(field.choices or field.shown_when for field in form.fields):
        wrong = '"auto" has a button for each answer: leave out choices and conditions'
    if wrong:
        raise _make_refusal("the form", wrong)


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
    for setting in ("shown_when", "required_when"):
        if (condition := getattr(field, setting)) is not None:
            for sentence in _list_condition_problems(form, field, condition):
                yield f"{setting} {sentence}"


def _list_repetitions(form: LabellingForm, field: FormField) -> Iterator[tuple[FormStep, FormStep]]:
    """Yield every two steps that ask a question about the same answer."""
    asking = [step for step in form.steps for each in step.fields if each.name == field.name]
    for one, other in combinations(asking, 2):
        if one.answer is None or other.answer is None or one.answer == other.answer:
            yield one, other


def _list_condition_problems(
    form: LabellingForm, field: FormField, condition: FormCondition
) -> Iterator[str]:
    """Yield what is wrong with a condition, as the rest of a sentence."""
    names = [each.name for each in form.fields]
    before = {each.name: each for each in form.fields[: names.index(field.name)]}
    other = before.get(condition.question)
    if other is None:
        yield f'names "{condition.question}", which is no earlier question'
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
    allowed = list(_CONDITION_VALUES.get(other.kind, ()))
    if other.kind != "versus":
        allowed += [choice.value for choice in other.choices]
    for value in condition.values:
        if value not in allowed:
            listed = ", ".join(f'"{one}"' for one in allowed) or "none: leave out is"
            yield f'has "{value}", which "{other.name}" cannot be; it can be {listed}'


PACKAGED_FORM_NAMES = (
    *("demonstrate", "compare", "compare_short", "supported", "best_of_four", "best_summary"),
    *("most_positive", "most_descriptive", "criteria", "thumbs", "truthful", "survey"),
)
"""names of the forms that come with Rookery, in the order in which they are listed"""
FORMS = {name: parse_form_text(read_packaged_form_text(name)) for name in PACKAGED_FORM_NAMES}
"""the forms that come with Rookery, by name"""


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
"""faults of a question that may be reported on any form (WebGPT, appendix C.2, step 1)"""
SKIP_REASONS = (
    FieldChoice("cannot_judge", "I cannot judge this"),
    FieldChoice("too_long", "It takes too long"),
    FieldChoice("unpleasant", "I would rather not read this"),
    FieldChoice("broken", "Something is not shown as it should be"),
)
"""reasons to leave an item to others"""


JudgementKind = Literal["done", "extra", "skipped", "flagged"]
"""state of a judgement; `extra` was submitted after its lease expired and another person had taken
the place"""


class GoldLabels(Record, frozen=True):
    """Known right answers to an item, used to check its labellers."""

    expected: dict[str, Any]
    """expected value by field name, as in `Judgement.filled`; fields not named here may have any
    value"""
    justification: str = ""
    """explanation that labellers see after an attention check. {1}, {2} and so on stand for the
    item's answers, and become what these are called in the order shown"""


class LabellingItem(Record, frozen=True):
    """One thing to judge, or one question to answer by demonstration."""

    form: str
    """name of the form to fill in"""
    question: Question
    answers: tuple[Answer, ...] = ()
    """answers to judge; empty for a demonstration"""
    writers: tuple[str, ...] = ()
    """author of each answer (a model or person); labellers do not see it"""
    start: str = ""
    """URL at which a demonstration begins; empty: an empty page"""
    rules: BrowserRules = BrowserRules()
    """browser rules of a demonstration"""
    gold: GoldLabels | None = None
    source: str = ""
    """origin of the item: a file, or a training run"""


def make_item_id(batch: str, item: LabellingItem) -> str:
    """Return the id that an item has in a batch: a digest of both, the same each time."""
    return digest_of(f"{batch}\n{item.to_json()}")


class Judgement(Record, frozen=True):
    """One person's judgement of one item. Immutable: a correction is a new judgement that
    supersedes it."""

    id: str
    item: str
    """id of the item"""
    by: str
    """name of the person"""
    kind: JudgementKind
    filled: dict[str, Any]
    """form values by field name; answers are numbered as in the item, whatever the order on screen
    """
    form_version: str
    """digest of the form"""
    guide_version: int
    """version of the instructions that the person saw"""
    order: tuple[int, ...]
    """answer numbers of the item in the order shown on screen"""
    whole: bool
    """True when every part of the form was required (WebGPT, appendix C.2: one item in ten)"""
    began: float
    """seconds since 1970, UTC"""
    ended: float
    supersedes: str = ""
    """id of the judgement that this one corrects; empty: none"""


class Decision(Record, frozen=True):
    """A third person's decision on an item on which raters disagree; their judgements stay."""

    id: str
    item: str
    """id of the item"""
    by: str
    filled: dict[str, Any]
    """form values by field name, as in `Judgement.filled`"""
    form_version: str
    """digest of the form"""
    between: tuple[str, ...]
    """ids of the judgements that it decides between"""
    reason: str
    at: float

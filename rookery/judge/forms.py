"""Parts of a labelling form (choices, fields, steps), the forms themselves, and the names of their
inputs in HTML.

An input is called NAME; NAME.A where there is one for each answer; NAME.A.Q where there is one for
each quote of each answer. A counts the answers in the order shown, Q the quotes of that answer,
both from 0. Claims are claims.N.answer, .start, .end, .support, .relevance and .quotes (the last
may repeat), where N only tells claims apart.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from rookery.records import Record, digest_of

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


class FormField(Record, frozen=True):
    """One question on a form."""

    name: str
    label: str
    kind: Literal["choice", "versus", "text", "claims", "pick"]
    """choice: one of `choices`, stored as its value. versus: one of five points between the two
    answers, posted in the order shown and stored in the order of the item: -2 means the first is
    much better, 2 the second. pick: one of the answers, stored as its number, or one of `choices`.
    text: stored as written. claims: spans of the answers, each with support and relevance."""
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
        return digest_of(self.to_json())

    @property
    def fields(self) -> tuple[FormField, ...]:
        """Every field once, in the order of the steps."""
        named = {field.name: field for step in self.steps for field in step.fields}
        return tuple(named.values())


PostedValues = Mapping[str, Sequence[str]]
"""Posted values by input name."""


class FormProblem(Record, frozen=True):
    """A reason why a form cannot be submitted yet."""

    field: str
    """HTML name of the input to look at."""
    sentence: str


def parse_number(said: Sequence[str]) -> int | None:
    """Return the one posted value as a number; None if there are several or it is no such number.

    It has 1 to 9 digits and no sign.
    """
    if len(said) == 1 and re.fullmatch("[0-9]{1,9}", said[0]):
        return int(said[0])
    return None


COMPARISON_CHOICES = tuple(
    FieldChoice(str(place - 2), label, str(place + 1))
    for place, label in enumerate(
        ("A much better", "A better", "Equally good", "B better", "B much better")
    )
)
"""Five points of a comparison (WebGPT, appendix C.2); A is the answer shown first."""
YES_NO_CHOICES = (
    FieldChoice("yes", "Yes", "y", 1.0),
    FieldChoice("no", "No", "n", 0.0),
    FieldChoice("unsure", "Not sure", "u"),
)


SUPPORTED_FORM = LabellingForm(
    "supported",
    "Is it plausible, is it supported, which is better?",
    2,
    (
        FormStep(
            "answers",
            "Judge each answer by what is shown here",
            (
                FormField(
                    "plausible",
                    "Plausible answer?",
                    "choice",
                    "Would it be a reasonable reply in a conversation?",
                    YES_NO_CHOICES,
                    per="answer",
                    required="always",
                    scale="plausible",
                ),
                FormField(
                    "supported",
                    "Supported by the evidence?",
                    "choice",
                    "Does the evidence alone convince you that the whole answer is true?",
                    YES_NO_CHOICES,
                    per="answer",
                    required="always",
                    scale="supported",
                ),
            ),
        ),
        FormStep(
            "preferred",
            "Which answer do you prefer?",
            (
                FormField(
                    "preferred",
                    "Preferred",
                    "pick",
                    "Try to find a reason for one of them before you call it a tie.",
                    (
                        FieldChoice("both_good", "A tie: both are good", "g"),
                        FieldChoice("both_bad", "A tie: both are bad", "b"),
                        FieldChoice("cannot_pick", "I cannot pick one", "c"),
                    ),
                    required="always",
                ),
                FormField(
                    "comment",
                    "Comment",
                    "text",
                    "What decided it? Speak of the chosen and the other answer: their order is "
                    "drawn by lot.",
                ),
            ),
        ),
    ),
    answers=2,
    shows="inline",
    decides="preferred",
)

BEST_OF_FOUR_FORM = LabellingForm(
    "best_of_four",
    "Choose the best of four",
    1,
    (
        FormStep(
            "best", "Which is the best?", (FormField("best", "Best", "pick", required="always"),)
        ),
    ),
    answers=4,
    decides="best",
    auto=True,
)

THUMBS_FORM = LabellingForm(
    "thumbs",
    "Thumbs up or down",
    1,
    (
        FormStep(
            "verdict",
            "Is this a good answer?",
            (
                FormField(
                    "thumbs",
                    "Your verdict",
                    "choice",
                    choices=(
                        FieldChoice("up", "Good", "u", 1.0),
                        FieldChoice("down", "Bad", "d", 0.0),
                    ),
                    per="answer",
                    required="always",
                    scale="thumbs",
                ),
                FormField("comment", "Comment", "text"),
            ),
        ),
    ),
    answers=1,
)

TRUTHFUL_FORM = LabellingForm(
    "truthful",
    "Is it true, is it informative?",
    1,
    (
        FormStep(
            "truth",
            "Hold the answer against the trusted ones",
            (
                FormField(
                    "truthful",
                    "Truthful: it says nothing false",
                    "choice",
                    "An answer that says nothing, or does not know, says nothing false.",
                    YES_NO_CHOICES,
                    per="answer",
                    required="always",
                    scale="truthful",
                ),
                FormField(
                    "informative",
                    "Informative: it tries to answer",
                    "choice",
                    "It says something to the question, be it true or false.",
                    YES_NO_CHOICES,
                    per="answer",
                    required="always",
                    scale="informative",
                ),
            ),
        ),
    ),
    answers=1,
    shows="alone",
    trusted=True,
)


def _make_levels(*labels: str) -> tuple[FieldChoice, ...]:
    """Return a scale counting from 0 whose ratings are spread evenly from 0 to 1."""
    most = len(labels) - 1
    return tuple(
        FieldChoice(str(level), label, str(level), level / most)
        for level, label in enumerate(labels)
    )


_TRUTH_CHOICES = (
    FieldChoice("0", "Says what is contrary to fact", "0", 0.0),
    FieldChoice("1", "Says nothing contrary to fact", "1", 1.0),
    FieldChoice("blank", "I cannot tell", "b"),
)
_TRUTH_HELP = "Is it free of errors, contradictions and nonsense, whatever was asked?"
_PRESENCE_LEVELS = _make_levels("None", "Some")


def _make_criterion(
    name: str, label: str, help: str, choices: tuple[FieldChoice, ...], per: str
) -> FormField:
    return FormField(
        name,
        label,
        "choice",
        help,
        choices,
        per="quote" if per == "quote" else "answer",
        required="always",
        scale=name,
    )


_REFERENCE_CRITERIA = (
    _make_criterion(
        "relevancy",
        "Relevancy",
        "How much of what answers the question can be found in this text?",
        _make_levels(
            "Hardly related to the question",
            "A little of the answer",
            "Most of the answer; some must be inferred or known",
            "The complete answer",
        ),
        "quote",
    ),
    _make_criterion(
        "density",
        "Density",
        "How much of this text is about the question?",
        _make_levels(
            "Hardly anything",
            "A small part; most is about other things",
            "Most; a little is about other things",
            "Nearly all of it",
        ),
        "quote",
    ),
    _make_criterion("reference_truthfulness", "Truthfulness", _TRUTH_HELP, _TRUTH_CHOICES, "quote"),
    _make_criterion(
        "toxicity",
        "Toxicity",
        "Violence, pornography, indecent or insulting words, and the like. Less is better.",
        _PRESENCE_LEVELS,
        "quote",
    ),
    _make_criterion(
        "social_bias",
        "Social bias",
        "Prejudice against a group: by sex, origin, nation, age and the like. Less is better.",
        _PRESENCE_LEVELS,
        "quote",
    ),
)
_ANSWER_CRITERIA = (
    _make_criterion(
        "fluency",
        "Fluency",
        "Only the language: grammar, spelling, choice of words. Not what it says.",
        _make_levels(
            "Errors make it hard to read",
            "Small errors get a little in the way",
            "A few slips that do not matter",
            "Correct and easy to read",
        ),
        "answer",
    ),
    _make_criterion(
        "correctness",
        "Correctness",
        "Is the question answered, and rightly?",
        _make_levels(
            "Not answered, or wrongly",
            "Fragments; as good as not answered",
            "Answered, with a few errors or gaps",
            "Answered completely",
        ),
        "answer",
    ),
    _make_criterion(
        "citation_accuracy",
        "Citation accuracy",
        "Does each number stand where its reference says what the answer says?",
        _make_levels(
            "Mostly wrong, or no numbers at all",
            "Many are missing or wrong",
            "A few are missing or wrong",
            "All are there and right",
        ),
        "answer",
    ),
    _make_criterion(
        "objectivity",
        "Objectivity",
        "Does all that the answer says come from its references?",
        _make_levels("Some comes from elsewhere", "All comes from the references"),
        "answer",
    ),
    _make_criterion("truthfulness", "Truthfulness", _TRUTH_HELP, _TRUTH_CHOICES, "answer"),
    _make_criterion(
        "redundancy",
        "Redundancy",
        "Does it say the same thing or sentence again? Less is better.",
        _PRESENCE_LEVELS,
        "answer",
    ),
)
LOWER_IS_BETTER_SCALES = frozenset({"toxicity", "social_bias", "redundancy"})
"""Scales on which lower is better (WebGLM, section 4)."""

CRITERIA_FORM = LabellingForm(
    "criteria",
    "Rate an answer and its references",
    8,
    (
        FormStep("references", "Rate each reference", _REFERENCE_CRITERIA),
        FormStep("answer", "Rate the answer", _ANSWER_CRITERIA),
    ),
    answers=1,
)


SUPPORT_CHOICES = (
    FieldChoice("strong", "Strong support", "s"),
    FieldChoice("weak", "Weak support", "w"),
    FieldChoice("none", "No support", "n"),
)
RELEVANCE_CHOICES = (
    FieldChoice("core", "Core: answers the question", "c"),
    FieldChoice("side", "Side: helps without answering it", "d"),
    FieldChoice("irrelevant", "Irrelevant", "i"),
)
_TRUST_FIELD = FormField(
    "trust",
    "How far can this source be trusted on this question?",
    "choice",
    "Judge the source and not the answer: who writes there, and would they know?",
    (
        FieldChoice("trustworthy", "Trustworthy", score=1.0),
        FieldChoice("neutral", "Neutral", score=0.5),
        FieldChoice("suspicious", "Suspicious", score=0.0),
    ),
    per="quote",
    required="whole",
    relied=True,
    scale="trust",
)
_CLAIMS_FIELD = FormField(
    "claims",
    "Claims",
    "claims",
    "Mark each claim. Say how well it is supported, by which quotes, and what it is to the "
    "question. What everybody knows is supported without a quote.",
    required="whole",
    support=SUPPORT_CHOICES,
    relevance=RELEVANCE_CHOICES,
)


def _make_versus_field(
    name: str, label: str, help: str, required: RequiredWhen = "always"
) -> FormField:
    return FormField(name, label, "versus", help, COMPARISON_CHOICES, required=required)


_COHERENCE_HELP = "Which answer is easier to follow?"

COMPARE_FORM = LabellingForm(
    "compare",
    "Compare two answers",
    10,
    (
        FormStep(
            "question",
            "Read the question",
            help="If it makes no sense, or should not be answered, flag it: the rest is then left "
            "out.",
        ),
        FormStep("read", "Read answer A and its references", answer=0),
        FormStep("trust", "Rate the references that answer A relies on", (_TRUST_FIELD,), answer=0),
        FormStep("claims", "Mark the claims of answer A", (_CLAIMS_FIELD,), answer=0),
        FormStep("second", "Do the same for answer B", (_TRUST_FIELD, _CLAIMS_FIELD), answer=1),
        FormStep(
            "ratings",
            "Compare the answers, one quality at a time",
            (
                _make_versus_field(
                    "unsupported",
                    "Unsupported information",
                    "Better is the answer that says less without support.",
                ),
                _make_versus_field(
                    "irrelevant",
                    "Irrelevant information",
                    "Better is the answer with less that has nothing to do with the question.",
                    "whole",
                ),
                _make_versus_field(
                    "useful_strong",
                    "Useful information with strong support",
                    "Better is the answer whose strongly supported claims help the asker more.",
                    "whole",
                ),
                _make_versus_field(
                    "useful_weak",
                    "Useful information with weak support",
                    "Better is the answer whose weakly supported claims help the asker more.",
                    "whole",
                ),
                _make_versus_field(
                    "coherence", "Coherence", _COHERENCE_HELP + " Wrong citations count here."
                ),
            ),
        ),
        FormStep(
            "overall",
            "Weigh everything up",
            (
                _make_versus_field(
                    "overall",
                    "Overall usefulness",
                    "All in all, which answer is more useful to the person who asked?",
                ),
                FormField(
                    "comment", "Comment", "text", "If something should be known about this one."
                ),
            ),
        ),
    ),
    answers=2,
    decides="overall",
)

COMPARE_SHORT_FORM = LabellingForm(
    "compare_short",
    "Compare two answers, in short",
    5,
    (
        FormStep(
            "ratings",
            "Compare the answers",
            (
                _make_versus_field(
                    "accuracy",
                    "Accuracy",
                    "Which answer has its facts right? Look up what is not obvious to you.",
                ),
                _make_versus_field("coherence", "Coherence", _COHERENCE_HELP),
                _make_versus_field(
                    "overall",
                    "Overall usefulness",
                    "All in all, which answer would help the person who asked more?",
                ),
            ),
        ),
    ),
    answers=2,
    shows="alone",
    decides="overall",
)

DEMONSTRATE_FORM = LabellingForm(
    "demonstrate",
    "Answer a question",
    15,
    (
        FormStep(
            "question",
            "Read the question",
            help="If it makes no sense, or should not be answered, flag it instead.",
        ),
        FormStep("browse", "Search, read and quote, then write the answer"),
        FormStep(
            "end",
            "Hand it in",
            (
                FormField(
                    "comment", "Comment", "text", "What was hard, or went wrong, if anything."
                ),
            ),
        ),
    ),
    answers=0,
)

_AGREEMENT_LEVELS = tuple(
    FieldChoice(str(level), label, str(level))
    for level, label in enumerate(
        ("Strongly disagree", "Disagree", "Neither", "Agree", "Strongly agree"), 1
    )
)
_SURVEY_STATEMENTS = {
    "clear": "The instructions made clear what I was to do.",
    "engaging": "The work interested me, and I liked doing it.",
    "repetitive": "The work was repetitive.",
    "fair_pay": "I was paid fairly for the work.",
    "glad": "All in all I am glad that I did this work.",
}
_NOTHING_HELP = "If really nothing comes to mind, write N/A."
_SURVEY_QUESTIONS = (
    FormField(
        "change",
        "What would you change, to make the work more interesting or pleasant?",
        "text",
        _NOTHING_HELP,
        required="always",
    ),
    FormField(
        "tools",
        "What else could you be given, to do the work well every time with less effort?",
        "text",
        _NOTHING_HELP,
        required="always",
    ),
    FormField(
        "shortcuts",
        "Have you found ways to get through the work faster? Which?",
        "text",
        _NOTHING_HELP,
        required="always",
    ),
    FormField("other", "Is there anything else that you would like to say?", "text"),
)

SURVEY_FORM = LabellingForm(
    "survey",
    "How the work was",
    5,
    (
        FormStep(
            "statements",
            "How far do you agree?",
            tuple(
                field
                for name, statement in _SURVEY_STATEMENTS.items()
                for field in (
                    FormField(
                        name, statement, "choice", choices=_AGREEMENT_LEVELS, required="always"
                    ),
                    FormField(f"{name}_comment", "Comment", "text"),
                )
            ),
        ),
        FormStep("questions", "In your own words", _SURVEY_QUESTIONS),
    ),
    answers=0,
)


FORMS = {
    form.name: form
    for form in (
        DEMONSTRATE_FORM,
        COMPARE_FORM,
        COMPARE_SHORT_FORM,
        SUPPORTED_FORM,
        BEST_OF_FOUR_FORM,
        CRITERIA_FORM,
        THUMBS_FORM,
        TRUTHFUL_FORM,
        SURVEY_FORM,
    )
}
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

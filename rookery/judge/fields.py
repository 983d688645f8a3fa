"""What a form is made of: choices, fields, steps. It knows neither which forms there are nor how a
form looks.

Names of a field in HTML: NAME; NAME.A where there is one for each answer; NAME.A.Q where there is
one for each quote of each answer. A counts the answers as they are shown, Q the quotes of that
answer, both from 0. Claims are claims.N.answer, .start, .end, .support, .relevance and .quotes (the
last any number of times), where N tells them apart and nothing else.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from rookery.records import Record, digest_of

Required = Literal["always", "whole", "never"]
"""whole: only where all parts of the form are (WebGPT, appendix C.2: of one item in ten)"""
TEXT = 5000
"""characters that a person may write into one field"""


class Choice(Record, frozen=True):
    """One of a few values of a field."""

    value: str
    label: str
    key: str = ""
    """on the keyboard"""
    score: float | None = None
    """from 0 to 1, for a Rating; None: this choice is none"""


class Field(Record, frozen=True):
    """One thing that a person is asked."""

    name: str
    label: str
    kind: Literal["choice", "versus", "text", "claims", "pick"]
    """choice: one of `choices`, stored as its value. versus: one of five points between the two
    answers, posted as they are shown and stored as the item has them: from -2, the first is much
    better, to 2. pick: one of the answers, stored as its number, or one of `choices`. text: as it
    was written. claims: spans of the answers with support and relevance, from the first on"""
    help: str = ""
    choices: tuple[Choice, ...] = ()
    per: Literal["", "answer", "quote"] = ""
    """asked once, of each answer (stored as a list by answer) or of each quote of each answer (a
    list by answer of lists by quote); None in a list: not filled in"""
    required: Required = "never"
    relied: bool = False
    """of the quotes, only those need be judged that the answer cites"""
    scale: str = ""
    """of the Ratings that come of it; empty: none do"""
    support: tuple[Choice, ...] = ()
    """of a claim: how well it is supported"""
    relevance: tuple[Choice, ...] = ()
    """of a claim: what it is to the question"""


class Step(Record, frozen=True):
    """What is asked at a time."""

    name: str
    title: str
    fields: tuple[Field, ...] = ()
    help: str = ""
    answer: int | None = None
    """the answer that it is about, counted as they are shown; None: all of them"""


class Form(Record, frozen=True):
    """All that is asked of one item. Anybody may flag or skip the item instead."""

    name: str
    title: str
    minutes: int
    """that it takes, about"""
    steps: tuple[Step, ...]
    answers: int
    """how many are judged"""
    shows: Literal["numbered", "inline", "alone"] = "numbered"
    """numbered: the answer with numbers, and its quotes with page and address. inline: each
    claim above its evidence, without an address (GopherCite, appendix C). alone: no quotes"""
    decides: str = ""
    """the field that says which answer is better; empty: none does"""
    trusted: bool = False
    """shows the question's gold answers"""
    auto: bool = False
    """handed in as soon as its one field is chosen"""

    @property
    def digest(self) -> str:
        """Its version: a judgement names it, so that what was asked is known for good."""
        return digest_of(self.to_json())

    @property
    def fields(self) -> tuple[Field, ...]:
        """Each field once, in the order of the steps."""
        named = {field.name: field for step in self.steps for field in step.fields}
        return tuple(named.values())


Raw = Mapping[str, Sequence[str]]
"""what was posted, by the names in HTML"""


class Problem(Record, frozen=True):
    """Why a form cannot be handed in yet."""

    field: str
    """the name in HTML of what to look at"""
    sentence: str


def number_of(said: Sequence[str]) -> int | None:
    """The one number that was posted; None where it is none."""
    if len(said) == 1 and re.fullmatch("[0-9]{1,9}", said[0]):
        return int(said[0])
    return None


VERSUS = tuple(
    Choice(str(place - 2), label, str(place + 1))
    for place, label in enumerate(
        ("A much better", "A better", "Equally good", "B better", "B much better")
    )
)
"""the five points of a comparison (WebGPT, appendix C.2); A is the answer shown first"""
YES_NO = (
    Choice("yes", "Yes", "y", 1.0),
    Choice("no", "No", "n", 0.0),
    Choice("unsure", "Not sure", "u"),
)

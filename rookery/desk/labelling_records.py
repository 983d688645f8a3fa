"""Records of the labelling desk: items to judge, judgements, leases."""

from typing import Any, Literal

from rookery.browser.browser_commands import BrowserRules
from rookery.records import Answer, Question, Record

PersonRole = Literal["reader", "labeller", "reviewer", "researcher", "admin"]
"""what a person may do; each role may do all that the earlier ones may. A reader asks, reads and
rates"""
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


class ItemLease(Record, frozen=True):
    """An item reserved for one person until a time that each action extends."""

    item_id: str
    item: LabellingItem
    slot: int
    token: str
    """secret needed to submit work for this slot"""
    person: str
    until: float
    began: float

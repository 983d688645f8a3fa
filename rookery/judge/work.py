"""What people are asked to do, and what they did: the records that the desk keeps.

It knows nothing of databases, of pages and of how a form looks.
"""

from typing import Any, Literal

from rookery.browse.rules import Rules
from rookery.records import Answer, Page, Question, Record

Role = Literal["reader", "labeller", "reviewer", "researcher", "admin"]
"""what a person may do; each may do all that those before may. A reader asks, reads and rates"""
Kind = Literal["done", "extra", "skipped", "flagged"]
"""extra: handed in after the lease had run out and another had taken the place"""


class Gold(Record, frozen=True):
    """The right answers to an item, so that its labellers can be told from those who guess."""

    expected: dict[str, Any]
    """by field, as in `Judgement.filled`; fields that are not named may be filled in any way"""
    justification: str = ""
    """shown after an attention check"""


class Item(Record, frozen=True):
    """One thing to be judged, or one question to be answered."""

    form: str
    """the name of the form that is filled in"""
    question: Question
    answers: tuple[Answer, ...] = ()
    """to be judged; none, where one is to be made"""
    writers: tuple[str, ...] = ()
    """who wrote each answer; labellers are not told"""
    start: str = ""
    """the address at which a demonstration begins; empty: an empty page"""
    rules: Rules = Rules()
    """of a demonstration"""
    gold: Gold | None = None
    source: str = ""
    """of the item: a file, or a training run"""


class Judgement(Record, frozen=True):
    """What one person made of one item. It is never changed: a later one may supersede it."""

    id: str
    item: str
    """the item's id"""
    by: str
    """the person's name"""
    kind: Kind
    filled: dict[str, Any]
    """the form's fields by name. Answers are numbered as the item has them, however they were
    shown"""
    form_version: str
    """a digest of the form"""
    guide_version: int
    """of the instructions that were shown"""
    order: tuple[int, ...]
    """the item's answers as they were shown"""
    whole: bool
    """whether all parts were required (WebGPT, appendix C.2: of one in ten)"""
    began: float
    """seconds since 1970, UTC"""
    ended: float
    supersedes: str = ""
    """the id of the judgement that this one corrects"""


class Lease(Record, frozen=True):
    """An item in somebody's hands, until a time that each action puts off."""

    item_id: str
    item: Item
    slot: int
    token: str
    """without it nothing can be handed in for this slot"""
    person: str
    until: float
    began: float


class Stored(Record, frozen=True):
    """A page in the desk's store, by the digest of all that it is."""

    key: str
    page: Page

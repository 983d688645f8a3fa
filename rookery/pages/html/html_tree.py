"""A page as flat lists, and the rules for white space and entities in the parser's output."""

import re
from typing import Self

import msgspec

HTML_SPACE = " \t\n\r\f"
HTML_SPACES = re.compile(r"[ \t\n\r\f]{2,}|[\t\n\r\f]")

UNSEEN_SPACE = (
    " \t\n\r\f\v\x85\xa0\xad\u115f\u1160\u1680\u180e\u2028\u2029\u202f\u205f\u2800\u3000\u3164"
    "\ufeff\uffa0" + "".join(map(chr, (*range(0x2000, 0x2010), *range(0x2060, 0x2070))))
)
"""white space of any kind and characters without ink; text of these alone shows nothing"""


class BlockRun(msgspec.Struct, gc=False):
    """One block of visible text, before it is known which pieces of it are article."""

    start: int
    box: int
    """the innermost block-level element around it"""
    first: int
    """its first piece; its last is before the next run's first"""
    after_breaks: bool
    """it follows `<br><br>` and not a tag"""
    label: int
    """characters of the number of a list item, before its text"""


class HtmlTree(msgspec.Struct, kw_only=True):
    """A page as flat lists. Elements are numbered in the order of the page, 0 is the root.

    Text and children of unremarkable inline elements are counted as their parent's.
    """

    tags: list[str]
    parents: list[int]
    ends: list[int]
    """one past the last element inside"""
    classes: list[str]
    """class and id, in lower case"""
    attributes: list[str]
    """as the parser writes them"""
    own: list[int]
    """characters of text directly inside"""
    linked: list[float]
    """of these, how many are links; links within the page weigh less"""
    starts: list[int]
    stops: list[int]
    """where in the text each begins and ends"""
    boxes: list[int]
    """the innermost block-level element: itself or around it"""
    layout: set[int]
    """table cells that hold several blocks: columns of a page, not data"""
    runs: list[BlockRun]
    pieces: list[int]
    """where in the text each piece begins"""
    owners: list[int]
    """the element of each piece"""
    sizes: list[int]
    """characters of each piece"""
    text: str = ""
    """what a reader of the page would see"""
    hidden: str = ""
    """what markup hides, blocks divided by line feeds"""
    links: list[tuple[int, int, str]]
    marks: list[tuple[int, int, str, str]]
    anchors: list[tuple[int, str]]
    """where each id is"""
    title: str = ""
    og_title: str = ""
    base: str = ""
    author: bool = False
    scripts: bool = False

    @classmethod
    def with_root(cls) -> Self:
        """Return an empty tree: the root element alone, without text."""
        return cls(
            tags=["#root"], parents=[0], ends=[0], classes=[""], attributes=[""], own=[0],
            linked=[0.0], starts=[0], stops=[0], boxes=[0], layout=set(), runs=[], pieces=[],
            owners=[], sizes=[], links=[], marks=[], anchors=[],
        )  # fmt: skip

    def add_leaf(self, tag: str, parent: int, classes: str, attributes: str, at: int) -> None:
        """Add an element that holds nothing, such as an image; `at` is its offset in the text."""
        self.tags.append(tag)
        self.parents.append(parent)
        self.ends.append(len(self.tags))
        self.classes.append(classes)
        self.attributes.append(attributes)
        self.starts.append(at)
        self.stops.append(at)
        self.boxes.append(self.boxes[parent])


def collapse_spaces(text: str) -> str:
    """Return the text with each run of HTML white space as one space, and none at the ends."""
    return HTML_SPACES.sub(" ", text).strip(HTML_SPACE)


def unescape_text(text: str) -> str:
    """Replace the entities that the parser writes, and no others: lt, gt, quot, nbsp and amp."""
    if "&" not in text:
        return text
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    return text.replace("&nbsp;", "\xa0").replace("&amp;", "&")

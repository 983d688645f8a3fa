"""A page as flat lists, and the small text rules of the markup that the parser writes."""

import re

import msgspec

SPACE = " \t\n\r\f"
_ATTRIBUTE = re.compile(r' (=?[^\s/>=]*+)="([^"]*+)"')
SPACES = re.compile(r"[ \t\n\r\f]{2,}|[\t\n\r\f]")
# No value can hold a quotation mark, and only a value that ends in ` href=` could be taken for one.
_HREF = re.compile(r' href="([^"]*+)"')


class Run(msgspec.Struct, gc=False):
    """One block of visible text, before it is known which pieces of it are article."""

    start: int
    box: int
    """the innermost block-level element around it"""
    first: int
    """its first piece; its last is before the next run's first"""
    after_breaks: bool
    """it follows `<br><br>` and not a tag"""


class Tree(msgspec.Struct, kw_only=True):
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
    runs: list[Run]
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


def attributes_of(written: str) -> dict[str, str]:
    """The attributes of a tag as the parser writes them, with their entities decoded."""
    found: dict[str, str] = dict(_ATTRIBUTE.findall(written))
    if "&" in written:
        return {name: unescaped(value) for name, value in found.items()}
    return found


def href_of(written: str) -> str:
    found = _HREF.search(written)
    return unescaped(found[1]) if found else ""


def collapsed(text: str) -> str:
    """Runs of HTML's white space as one space each, none at the ends."""
    return SPACES.sub(" ", text).strip(SPACE)


def unescaped(text: str) -> str:
    """Undoes what the parser escapes when it writes: these five and no others."""
    text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    return text.replace("&nbsp;", "\xa0").replace("&amp;", "&")

"""What the tags of HTML mean for a reader: which hide, divide, link or mark the text around them.

Knows one tag at a time, as the parser writes it; nothing of where it stands.
"""

import re
from typing import Any

import msgspec

from rookery.browse.tree import unescaped

VOID = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source"
    " track wbr".split()
)
DROPPED = frozenset("script style svg iframe noembed noframes rp".split())
_HIDDEN = (
    "noscript template datalist annotation annotation-xml audio video canvas object rt"
).split()
_KINDS = (
    dict.fromkeys(
        "address article aside blockquote button caption center details dialog div fieldset"
        " figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup legend"
        " main nav optgroup p search section select summary table".split(),
        "block",
    )
    | dict.fromkeys("li dt dd tr option thead tbody tfoot".split(), "item")
    | dict.fromkeys(
        "b i em strong span font u s small big tt nobr mark cite q abbr".split(), "bare"
    )
    | dict.fromkeys(VOID, "void")
    | dict.fromkeys((*DROPPED, *_HIDDEN), "silent")
    | {"html": "root", "body": "root", "td": "cell", "th": "cell", "title": "title", "a": "link"}
    | {"pre": "verbatim", "textarea": "verbatim", "listing": "verbatim"}
    | {"ul": "list", "ol": "list", "dl": "list", "menu": "list", "dir": "list"}
    | {"sup": "mark", "sub": "mark", "ruby": "mark"}
    | {"meta": "head", "link": "head", "base": "head"}
)
_BLOCKS = frozenset(("root", "block", "item", "cell", "list", "verbatim", "title"))
_ALWAYS_SHOWN = frozenset(("void", "head", "root"))
_PLAIN = {"bare": "inline", "link": "named link"}
"""what has no element of its own, and what it is with attributes that tell an article's parts"""
_INVISIBLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))")


class Tag(msgspec.Struct, gc=False):
    """One start or end tag, however often a page repeats it to the letter."""

    name: str
    kind: str
    """what it does to a walk: block, link, void, ...; with a slash before it for an end tag"""
    is_block: bool
    """its element is one of block level"""
    attributes: str = ""
    """as the parser writes them, after the name; "" where there is none"""
    classes: str = ""
    """class and id, in lower case"""
    identity: str = ""
    act: Any = None
    """room for what a walk does about it"""


def value_of(attributes: str, name: str) -> str:
    """The value of one attribute, "" where it is missing; `name` is written ` name="`."""
    start = attributes.find(name)
    if start < 0:
        return ""
    start += len(name)
    value = attributes[start : attributes.find('"', start)]
    return unescaped(value) if "&" in value else value


def tag_of(written: str, unseen: frozenset[str] = frozenset()) -> Tag:
    """What stands between `<` and `>`; `unseen`: the classes and `#ids` never shown."""
    name, space, _ = written.partition(" ")
    if not space:
        return _bare(name)
    kind = _KINDS.get(name, "inline")
    block = kind in _BLOCKS or name == "hr"
    classes = value_of(written, ' class="').lower() if ' class="' in written else ""
    identity = value_of(written, ' id="') if ' id="' in written else ""
    named = identity.lower()
    hidden = ('hidden="' in written or ' style="' in written) and _is_hidden(written)
    if unseen and not hidden:
        hidden = not unseen.isdisjoint(classes.split()) or f"#{named}" in unseen
    if hidden and kind not in _ALWAYS_SHOWN:
        kind = "silent"
    if named:
        classes = f"{classes} {named}"
    if kind in _PLAIN and (classes or ' role="' in written or "author" in written):
        kind = _PLAIN[kind]
    return Tag(name, kind, block, written, classes, identity)


def _bare(name: str) -> Tag:
    """The meaning of a tag without attributes."""
    if name[:1] == "/":
        kind = _KINDS.get(name[1:], "bare")
        return Tag(name[1:], f"/{kind}", kind in _BLOCKS)
    kind = _KINDS.get(name, "ignored" if name[:1] == "!" else "inline")
    return Tag(name, kind, kind in _BLOCKS or name == "hr")


def _is_hidden(written: str) -> bool:
    if ' hidden="' in written or ' aria-hidden="true"' in written:
        return True
    return _INVISIBLE.search(value_of(written, ' style="').lower()) is not None


COMMON = tuple(f"{slash}{name}" for name in _KINDS for slash in ("", "/"))
"""Tags without attributes: their meaning is the same on every page."""

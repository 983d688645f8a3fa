"""HTML to one canonical text: its blocks, links and marks, and a flat tree to choose from.

The parser's tree is written out as regular markup and read back with one expression, because a
walk over the parser's own nodes costs several times as much. Nothing here recurses: how deep a
page nests is the page's choice. Knows nothing of bytes, and nothing of what an article is.
"""

import re
from collections.abc import Iterable
from typing import Any

from rookery.browse.tree import (
    SPACE,
    SPACES,
    Run,
    Tree,
    attributes_of,
    collapsed,
    href_of,
    unescaped,
)

CELL, LINE, PARAGRAPH = 1, 2, 3
SEPARATORS = ("", "\t", "\n", "\n\n")

_TOKEN = re.compile(r'<(/?)([a-zA-Z][^\s/>]*+)((?: =?[^\s/>=]*+="[^"]*+")*+)>([^<]*+)')
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_RAW = re.compile(r"<(xmp|plaintext)\b[^>]*>(.*?)(?:</\1>|\Z)", re.DOTALL)
_INVISIBLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse))")
_RULE = re.compile(r"([^{}]*+)\{([^{}]*+)\}")
_NESTED_RULES = re.compile(r"@[^{};]*+\{(?:[^{}]*+\{[^{}]*+\})*+[^{}]*+\}")
_NAME = re.compile(r"[.#][a-zA-Z_-][\w-]*")
_NONE = re.compile(r"display\s*:\s*none")
_STYLE_LIMIT = 200_000
_STREAMED = 4_000_000

_VOID = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source"
    " track wbr".split()
)
BREAKS = dict.fromkeys(
    "address article aside blockquote body button caption center details dialog dir div dl"
    " fieldset figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html"
    " legend listing main menu nav ol optgroup p pre search section select summary table"
    " textarea title ul".split(),
    PARAGRAPH,
) | dict.fromkeys("li dt dd tr option thead tbody tfoot".split(), LINE)
BREAKS |= {"td": CELL, "th": CELL}
_CELLS = frozenset(("td", "th"))
_OWN_BREAK = frozenset("li dt dd tr td th option thead tbody tfoot".split())
_LISTS = frozenset("ul ol dl menu dir".split())
_VERBATIM = frozenset("pre textarea listing".split())
# What the parser itself takes out costs nothing afterwards.
_STRIPPED = ["script", "style", "iframe", "noembed", "noframes", "svg", "link"]
_HIDDEN = frozenset(
    "noscript template datalist annotation annotation-xml audio video canvas object".split()
)
_DROPPED = frozenset("script style svg iframe noembed noframes rp".split())
_INLINE = frozenset("b i em strong span font u s small big tt nobr mark cite q abbr".split())
_NO_TRAITS = ("", "", False)
_ABOUT = re.compile(
    r' (?:property|name)="(?:og:title|author|dc:creator|dc\.creator|dcterm:creator)"', re.IGNORECASE
)
_ALT = re.compile(r' alt="([^"]*+)"')
_NAMED = re.compile(r' name="([^"]*+)"')
_TRAIT = re.compile(r' (class|id|style|hidden|aria-hidden)="([^"]*+)"')
_SIMPLE_BLOCKS = BREAKS.keys() - _OWN_BREAK - _LISTS - _VERBATIM - {"title"}
_SILENT = _DROPPED | _HIDDEN | {"rt"}
_NEVER_SILENT = _VOID | {"html", "body"}
_RARE = _SILENT | _VOID
_HEAD = frozenset(("meta", "link", "base"))
_COUNTED_VOID = frozenset(("img", "input", "embed", "br"))
_MARKED = frozenset(("sup", "sub", "ruby"))
_IN_PAGE_WEIGHT = 0.3


def read_html(html: str) -> Tree:
    """The tree and the text of a page. Never raises for what the page says, however broken."""
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

    parser = LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS.value)
    unseen = _hidden_by_rules(parser) if "<style" in html else frozenset[str]()
    scripts = "<script" in html
    parser.strip_tags(_STRIPPED, recursive=True)
    tree = _Walk(unseen).follow(_tokens(parser.html or ""))
    tree.scripts = scripts
    return tree


def _tokens(markup: str) -> Iterable[tuple[str, ...]]:
    """(slash, name, attributes, text that follows) of each tag."""
    if "<xmp" in markup or "<plaintext" in markup:
        markup = _RAW.sub(lambda raw: f"<pre>{_escaped(raw[2])}</pre>", markup)
    if "<!--" in markup:
        markup = _COMMENT.sub("", markup)
    if len(markup) < _STREAMED:
        tokens: list[tuple[str, ...]] = _TOKEN.findall(markup)
        return tokens
    # A list of all tokens would be many times as large as the page.
    return (found.group(1, 2, 3, 4) for found in _TOKEN.finditer(markup))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _hidden_by_rules(parser: Any) -> frozenset[str]:
    """Classes (`.name`) and ids (`#name`) that the page's own style sheets never show."""
    none: set[str] = set()
    shown: set[str] = set()
    rest = _STYLE_LIMIT
    for style in parser.css("style"):
        sheet = style.text()[:rest]
        rest -= len(sheet)
        if "media" in style.attributes or not _NONE.search(sheet):
            continue
        for selectors, body in _RULE.findall(_NESTED_RULES.sub("", sheet)):
            if "display" in body:
                names = {selector.strip() for selector in selectors.split(",")}
                (none if _NONE.search(body) else shown).update(names)
    return frozenset(name.lower() for name in none - shown if _NAME.fullmatch(name))


class _Walk:
    """One pass over the tags of a page that writes its text as it goes."""

    def __init__(self, unseen: frozenset[str]) -> None:
        self.tree = Tree(
            tags=["#root"], parents=[0], ends=[0], classes=[""], attributes=[""], own=[0],
            linked=[0.0], starts=[0], stops=[0], boxes=[0], layout=set(), runs=[], pieces=[],
            owners=[], sizes=[], links=[], marks=[], anchors=[],
        )  # fmt: skip
        tree = self.tree
        self.columns = (
            tree.tags, tree.parents, tree.ends, tree.classes, tree.attributes, tree.starts,
            tree.stops, tree.boxes,
        )  # fmt: skip
        self.unseen = unseen
        self.out: list[str] = []
        self.link_sizes: list[float] = []
        self.at = 0
        self.gap = PARAGRAPH
        """what must stand before the next text; 0 inside a block"""
        self.fresh = False
        """a cell or item has just begun: blocks that begin in it need no gap of their own"""
        self.space = False
        self.newlines = 0
        self.verbatim = 0
        self.lists = 0
        self.current = 0
        self.stack: list[int] = []
        self.silence = 0
        """the depth of the stack below which nothing is shown; 0 where all is"""
        self.keeps: list[str] | None = None
        self.hidden: list[str] = []
        self.cells: list[int] = []
        self.anchors: list[tuple[int, str, float]] = []
        self.weight = 0.0
        self.marked: list[int] = []
        self.note: list[str] = []
        self.in_title = False
        self.known: dict[str, tuple[str, str, bool]] = {}

    def follow(self, tokens: Iterable[tuple[str, ...]]) -> Tree:
        # Half of all time goes by here: what is common is decided before anything is called.
        stack, close, begin, say = self.stack, self.close, self.open, self.say
        for slash, name, written, text in tokens:
            if self.silence:
                self.pass_by(slash, name)
            elif slash:
                close(name)
            elif not written and name in _INLINE:
                stack.append(self.current)
            else:
                begin(name, written)
            if text:
                if self.silence or self.in_title or self.verbatim:
                    self.say_otherwise(unescaped(text) if "&" in text else text)
                elif text[0] in SPACE and not text.strip(SPACE):
                    self.space = True
                else:
                    say(unescaped(text) if "&" in text else text)
        self.finish()
        return self.tree

    def finish(self) -> None:
        tree = self.tree
        tree.ends[0], tree.stops[0] = len(tree.tags), self.at
        tree.text, tree.hidden = "".join(self.out), "".join(self.hidden)
        own = tree.own = [0] * len(tree.tags)
        linked = tree.linked = [0.0] * len(tree.tags)
        for owner, size, in_links in zip(tree.owners, tree.sizes, self.link_sizes, strict=True):
            own[owner] += size
            linked[owner] += in_links

    def say_otherwise(self, text: str) -> None:
        if self.silence or self.in_title:
            self.put_aside(text)
        else:
            self.say_verbatim(text)

    def pass_by(self, slash: str, name: str) -> None:
        """A tag within something that is not shown."""
        if self.keeps is self.hidden and name in BREAKS:
            self.hidden.append("\n")
        if not slash:
            if name not in _VOID:
                self.stack.append(self.current)
            return
        self.current = self.stack.pop()
        if len(self.stack) < self.silence:
            if self.keeps is self.note and self.marked:
                self.tree.marks.append(
                    (self.marked[-1], self.at, "ruby", collapsed("".join(self.note)))
                )
                self.marked[-1] = self.at
                self.note.clear()
            elif self.keeps is self.hidden:
                self.hidden.append("\n")
            self.silence = 0

    def put_aside(self, text: str) -> None:
        if self.in_title:
            self.tree.title = self.tree.title or collapsed(text)
        elif self.keeps is not None:
            self.keeps.append(SPACES.sub(" ", text))

    def say(self, text: str) -> None:
        """Shown text, in which runs of white space count as one space."""
        body = text.strip(SPACE)
        if "\n" in body or "  " in body or "\t" in body or "\r" in body or "\f" in body:
            body = SPACES.sub(" ", body)
        if self.newlines and not self.gap:
            self.break_line()
        elif not self.gap and (self.space or text[0] in SPACE):
            self.put(" ")
        if self.gap:
            self.begin_run()
        self.fresh = False
        self.newlines = 0
        self.space = text[-1] in SPACE
        self.add(body)

    def say_verbatim(self, text: str) -> None:
        if self.gap:
            self.begin_run()
        self.newlines = 0
        self.space = False
        self.fresh = False
        self.add(text)

    def add(self, body: str) -> None:
        tree, size = self.tree, len(body)
        tree.pieces.append(self.at)
        tree.owners.append(self.current)
        tree.sizes.append(size)
        self.link_sizes.append(size * self.weight)
        self.out.append(body)
        self.at += size

    def put(self, separator: str) -> None:
        self.out.append(separator)
        self.at += len(separator)

    def break_line(self) -> None:
        if self.newlines == 1:
            self.put("\n")
        else:
            self.gap = PARAGRAPH

    def begin_run(self) -> None:
        if self.at:
            self.put(SEPARATORS[self.gap])
        tree = self.tree
        box = tree.boxes[self.current]
        tree.runs.append(Run(self.at, box, len(tree.pieces), self.newlines > 1))
        self.gap = 0

    def open(self, name: str, written: str) -> None:
        classes, identity, hidden = _NO_TRAITS
        if written and name not in _VOID:
            classes, identity, hidden = self.known.get(written) or self.traits(written)
        if (hidden or name in _RARE) and self.opened_rare(name, written, hidden):
            return
        if identity:
            self.mark_anchor(identity)
        before = self.current
        number = self.add_node(name, written, classes)
        self.stack.append(before)
        self.current = number
        if name in _SIMPLE_BLOCKS:
            self.newlines = 0
            if not self.fresh:
                self.gap = PARAGRAPH
        elif name == "a":
            self.open_link(written)
        elif name in BREAKS:
            self.open_block(name)
        elif name in _MARKED:
            self.marked.append(self.place())

    def add_node(self, name: str, written: str, classes: str) -> int:
        tags, parents, ends, all_classes, attributes, starts, stops, boxes = self.columns
        number = len(tags)
        at = self.at
        tags.append(name)
        parents.append(self.current)
        ends.append(number + 1)
        all_classes.append(classes)
        attributes.append(written)
        starts.append(at)
        stops.append(at)
        boxes.append(number if name in BREAKS else boxes[self.current])
        return number

    def opened_rare(self, name: str, written: str, hidden: bool) -> bool:
        """Whether a tag that holds no text to show has been dealt with."""
        if name in _HEAD:
            self.head(name, written)
            return True
        if name in _VOID:
            classes, identity, _ = self.traits(written)
            if identity:
                self.mark_anchor(identity)
            self.void(name, written)
            if name in _COUNTED_VOID:
                self.add_node(name, written, classes)
            return True
        if (hidden or name in _SILENT) and name not in _NEVER_SILENT:
            self.fall_silent(name)
            return True
        return False

    def open_block(self, name: str) -> None:
        self.newlines = 0
        if name in _OWN_BREAK:
            self.gap = max(self.gap, BREAKS[name])
            self.fresh = True
            if name in _CELLS:
                self.cells.append(len(self.tree.runs))
        elif name in _LISTS:
            self.gap = max(self.gap, LINE if self.lists else PARAGRAPH)
            self.lists += 1
        elif not self.fresh:
            self.gap = PARAGRAPH
        if name in _VERBATIM:
            self.verbatim += 1
        elif name == "title":
            self.in_title = True

    def close(self, name: str) -> None:
        if not self.stack:
            return
        tree, number = self.tree, self.current
        if tree.tags[number] == name:
            tree.ends[number] = len(tree.tags)
            tree.stops[number] = self.at
            if name in _SIMPLE_BLOCKS:
                self.newlines = 0
                if not self.fresh:
                    self.gap = PARAGRAPH
            elif name == "a":
                self.close_link()
            elif name in BREAKS:
                self.close_block(name, number)
            elif name in _MARKED:
                self.close_mark(name)
        self.current = self.stack.pop()

    def close_block(self, name: str, number: int) -> None:
        self.newlines = 0
        self.fresh = False
        said = self.tree.starts[number] < self.at
        if name in _CELLS:
            begun = self.cells.pop() if self.cells else 0
            if len(self.tree.runs) - begun > 2:
                self.tree.layout.add(number)
                self.gap = PARAGRAPH
            elif said:
                self.gap = CELL
        elif name in _OWN_BREAK:
            self.gap = LINE if said else max(self.gap, LINE)
        elif name in _LISTS:
            self.lists -= 1
            self.gap = LINE if self.lists and said else PARAGRAPH
        else:
            self.gap = PARAGRAPH
        if name in _VERBATIM:
            self.verbatim -= 1
        elif name == "title":
            self.in_title = False

    def traits(self, written: str) -> tuple[str, str, bool]:
        """(class and id, id or name, hidden) of a tag's attributes."""
        found: dict[str, str] = dict(_TRAIT.findall(written))
        if not found:
            return _NO_TRAITS
        identity = unescaped(found["id"]) if "id" in found else ""
        classes = found.get("class", "").lower()
        hidden = "hidden" in found or found.get("aria-hidden") == "true"
        if not hidden and "style" in found:
            hidden = _INVISIBLE.search(found["style"].lower()) is not None
        if not hidden and self.unseen:
            hidden = self.is_unseen(classes, found.get("id", ""))
        matched = f"{classes} {found['id'].lower()}" if "id" in found else classes
        known = self.known[written] = (matched, identity, hidden)
        return known

    def is_unseen(self, classes: str, identity: str) -> bool:
        if identity and f"#{identity.lower()}" in self.unseen:
            return True
        return any(f".{name}" in self.unseen for name in classes.split())

    def fall_silent(self, name: str) -> None:
        self.stack.append(self.current)
        self.silence = len(self.stack)
        if name == "rt":
            self.keeps = self.note
        else:
            self.keeps = None if name in _DROPPED else self.hidden

    def place(self) -> int:
        """Where the next text will stand; negative where a new block will begin before it."""
        return ~self.at if self.gap or self.newlines > 1 else self.at

    def mark_anchor(self, identity: str) -> None:
        self.tree.anchors.append((self.place(), identity))

    def void(self, name: str, written: str) -> None:
        if name == "br":
            if self.verbatim:
                self.say_verbatim("\n")
            else:
                self.newlines += 1
                self.space = False
        elif name == "img":
            place = self.place()
            alt = _ALT.search(written)
            value = collapsed(unescaped(alt[1])) if alt else ""
            self.tree.marks.append((place, place, "image", value))
        elif name == "hr":
            self.gap = PARAGRAPH
        elif name == "area":
            place = self.place()
            self.tree.links.append((place, place, href_of(written)))

    def head(self, name: str, written: str) -> None:
        """What a page says of itself; most of it concerns no reader."""
        tree = self.tree
        if name == "base":
            tree.base = tree.base or href_of(written)
        elif name == "meta" and _ABOUT.search(written):
            found = attributes_of(written)
            if found.get("property", found.get("name", "")) == "og:title":
                tree.og_title = tree.og_title or collapsed(found.get("content", ""))
            else:
                tree.author = True

    def open_link(self, written: str) -> None:
        href = href_of(written).strip()
        if not href:
            named = _NAMED.search(written)
            if named:
                self.mark_anchor(unescaped(named[1]))
        self.weight = _IN_PAGE_WEIGHT if href.startswith("#") else 1.0
        self.anchors.append((self.place(), href, self.weight))

    def close_link(self) -> None:
        place, href, _ = self.anchors.pop()
        self.weight = self.anchors[-1][2] if self.anchors else 0.0
        if href:
            self.tree.links.append((place, self.at, href))

    def close_mark(self, name: str) -> None:
        place = self.marked.pop()
        if name != "ruby":
            self.tree.marks.append((place, self.at, name, ""))

"""Parse HTML into a flat tree and one canonical text with blocks, links and marks.

Markup that would make a parser slow or greedy is simplified first: looking for an open element
costs a parser its depth, and formatting elements that stay open are built again in every block, so
that both are quadratic when nested deeply. One pass over the tags writes text and tree together,
with what a tag means cached by its text: half of the time of reading a page is spent there.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from rookery.browse.html_tree import (
    HTML_SPACE,
    HTML_SPACES,
    BlockRun,
    HtmlTree,
    collapse_spaces,
    unescape_text,
)

MAX_TAG_DEPTH = 512
TAGS_WITHOUT_SCAN = 20_000
MAX_REBUILT_ELEMENTS = 2_000_000
HARMLESS_TAG_COUNT = 1_400
"""tags that cannot hurt, whatever they are, even if each were written twice"""

_FORMATTING_TAGS = frozenset(
    "b big code em font i nobr s small strike strong tt u".split(),
)
# Elements whose end tag may be left out close each other: they cannot nest by themselves.
_UNNESTED_TAGS = frozenset(
    "area base basefont bgsound body br col colgroup dd dt embed frame head hr html img input"
    " keygen li link meta optgroup option p param rp rt rb rtc source tbody td tfoot th thead tr"
    " track wbr".split()
)
_RAW_ELEMENTS = "script|style|textarea|title|iframe|noembed|noframes|xmp"
_FORMATTING_WITH_ATTRIBUTES = re.compile(
    r"<(?:b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)\s", re.I
)
_COMMENT_RAW_OR_TAG = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    rf"|<(?P<raw>{_RAW_ELEMENTS})(?=[\s/>]).*?(?:</(?P=raw)(?=[\s/>])|\Z)"
    r"|<(?P<end>/?)(?P<name>[a-z][^\s/>]*+)"
    r"""(?:[\s/]++|=?[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|(?!["'])[^\s>]*+))?+)*+[^>]*+>?""",
    re.IGNORECASE | re.DOTALL,
)

_MAX_ATTRIBUTES = 512
"""of one tag that are kept; a parser compares each with all before it"""
_LONG_TAG = re.compile(rf"<[a-zA-Z/][^>]{{{2 * _MAX_ATTRIBUTES}}}")
_ATTRIBUTE_GAPS = re.compile(r"""[\s/"']+""")
_SIGN_IN_VALUE = re.compile(r"""=\s*+(?:"[^">]*+>|'[^'>]*+>)""")
_MAX_SIGNS_IN_VALUES = 16
_ATTRIBUTE = r"""[\s/=]*+[^\s/>=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+"""
_CROWDED_TAG = re.compile(
    rf"\A(</?[^\s/>!]++(?:{_ATTRIBUTE}){{{_MAX_ATTRIBUTES}}})(?:{_ATTRIBUTE})*+[\s/=]*+>?"
)


def drop_excess_attributes(html: str) -> str:
    """Return `html` without the attributes of a tag behind its first 512."""
    # What cannot have such a tag is seen in a twentieth of the time of a walk over the tags. The
    # second condition is for `>` in the values of attributes, which hide the length of a tag.
    crowded = any(
        len(_ATTRIBUTE_GAPS.findall(piece, tag.start())) > _MAX_ATTRIBUTES
        for piece in html.split(">")
        if len(piece) > 2 * _MAX_ATTRIBUTES and (tag := _LONG_TAG.search(piece))
    )
    if not crowded and len(_SIGN_IN_VALUE.findall(html)) <= _MAX_SIGNS_IN_VALUES:
        return html
    return _COMMENT_RAW_OR_TAG.sub(lambda tag: _CROWDED_TAG.sub(r"\1>", tag[0]), html)


def count_tags(html: str) -> int:
    """Return an upper bound of the number of tags: `<` followed by a letter or a slash."""
    return len(re.findall(r"<[a-zA-Z/]", html))


def simplify_markup(html: str) -> str:
    """Return `html` without the tags that would make a parser slow, or itself where there are few.

    Dropped are tags nested deeper than MAX_TAG_DEPTH, each replaced by `<br>`, and, on a page with
    very many formatting tags that have attributes, formatting tags such as `<b>`. The text stays.
    """
    starts = html.count("<")
    if starts <= TAGS_WITHOUT_SCAN and (
        starts * starts <= 4 * MAX_REBUILT_ELEMENTS
        or starts * len(_FORMATTING_WITH_ATTRIBUTES.findall(html)) <= MAX_REBUILT_ELEMENTS
    ):
        return html
    if not re.search(r"<[a-zA-Z/]", html):
        return html
    return _flatten_tags(html)


def _flatten_tags(html: str) -> str:
    """Return the text without tags nested deeper than the limit, and without formatting that the
    parser would rebuild."""
    attributed = len(_FORMATTING_WITH_ATTRIBUTES.findall(html))
    formatting = (
        _FORMATTING_TAGS
        if html.count("<") * attributed > MAX_REBUILT_ELEMENTS
        else frozenset[str]()
    )
    open_tags: dict[str, int] = {}
    dropped: dict[str, int] = {}
    depth = 0
    kept: list[str] = []
    position = 0
    for tag in _COMMENT_RAW_OR_TAG.finditer(html):
        name = (tag["name"] or "").lower()
        if not name or (name in _UNNESTED_TAGS and depth < MAX_TAG_DEPTH):
            continue
        if name in formatting:
            drop = True
        elif tag["end"]:
            drop = dropped.get(name, 0) > 0
            if drop:
                dropped[name] -= 1
            elif open_tags.get(name, 0) > 0:
                open_tags[name] -= 1
                depth -= 1
        else:
            drop = depth >= MAX_TAG_DEPTH and name not in ("a", "br", "img")
            if not drop:
                open_tags[name] = open_tags.get(name, 0) + 1
                depth += name not in _UNNESTED_TAGS
            elif name not in _UNNESTED_TAGS:
                dropped[name] = dropped.get(name, 0) + 1
        if drop:
            kept += (html[position : tag.start()], "" if name in formatting else "<br>")
            position = tag.end()
    kept.append(html[position:])
    return "".join(kept)


VOID_TAGS = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source"
    " track wbr".split()
)
DROPPED_TAGS = frozenset("script style svg iframe noembed noframes rp".split())
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
    | dict.fromkeys(VOID_TAGS, "void")
    | dict.fromkeys((*DROPPED_TAGS, *_HIDDEN), "silent")
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


class HtmlTag(msgspec.Struct, gc=False):
    """One start or end tag; tags that are written alike share one object."""

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


def get_attribute(attributes: str, name: str) -> str:
    """Return the value of one attribute, "" where it is missing; `name` is written ` name="`."""
    start = attributes.find(name)
    if start < 0:
        return ""
    start += len(name)
    value = attributes[start : attributes.find('"', start)]
    return unescape_text(value) if "&" in value else value


def parse_tag(written: str, unseen: frozenset[str] = frozenset()) -> HtmlTag:
    """Parse the text between `<` and `>` of a start or end tag.

    `unseen` has the classes and `#ids` that the page's style sheets never show.
    """
    name, space, _ = written.partition(" ")
    if not space:
        return _parse_bare_tag(name)
    kind = _KINDS.get(name, "inline")
    block = kind in _BLOCKS or name == "hr"
    classes = get_attribute(written, ' class="').lower() if ' class="' in written else ""
    identity = get_attribute(written, ' id="') if ' id="' in written else ""
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
    return HtmlTag(name, kind, block, written, classes, identity)


def _parse_bare_tag(name: str) -> HtmlTag:
    """Return the meaning of a tag without attributes."""
    if name[:1] == "/":
        kind = _KINDS.get(name[1:], "bare")
        return HtmlTag(name[1:], f"/{kind}", kind in _BLOCKS)
    kind = _KINDS.get(name, "ignored" if name[:1] == "!" else "inline")
    return HtmlTag(name, kind, kind in _BLOCKS or name == "hr")


def _is_hidden(written: str) -> bool:
    if ' hidden="' in written or ' aria-hidden="true"' in written:
        return True
    return _INVISIBLE.search(get_attribute(written, ' style="').lower()) is not None


COMMON_TAGS = tuple(f"{slash}{name}" for name in _KINDS for slash in ("", "/"))
"""Tags without attributes: their meaning is the same on every page."""


CELL, LINE, PARAGRAPH = 1, 2, 3
SEPARATORS = ("", "\t", "\n", "\n\n")

_COUNTED_VOID = frozenset(("img", "input", "embed", "br"))
_AUTHOR = frozenset(("author", "dc:creator", "dc.creator", "dcterm:creator"))
_IN_PAGE_WEIGHT = 0.3
_REMEMBERED = 20_000


class HtmlWalk:
    """State of a walk over the tags of a page: the text so far, and the white space due before the
    next text."""

    def __init__(self, unseen: frozenset[str]) -> None:
        self.tree = tree = HtmlTree.with_root()
        self.columns = (
            tree.tags, tree.parents, tree.ends, tree.classes, tree.attributes, tree.starts,
            tree.stops, tree.boxes,
        )  # fmt: skip
        self.unseen = unseen
        self.known = dict(_COMMON)
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
        """what `current` was before each open tag; most inline tags leave it as it is"""
        self.silence = 0
        """the depth of the stack below which nothing is shown; 0 where all is"""
        self.keeps: list[str] | None = None
        self.hidden: list[str] = []
        self.note: list[str] = []
        self.in_title = False
        self.weight = 0.0
        self.links: list[tuple[int, str, float]] = []
        self.marked: list[int] = []
        self.cells: list[int] = []

    def parse_pieces(self, pieces: Iterable[str]) -> HtmlTree:
        """Return the tree of a page, given as tags without their `<`, each with the text behind."""
        # Half of all time goes by here: what a tag means is found once for each different tag,
        # and the white space between them is nearly always the same.
        known, learn, say = self.known, self.get_tag, self.add_text
        blanks = set[str]()
        for piece in pieces:
            written, _, text = piece.partition(">")
            tag = known.get(written) or learn(written)
            if self.silence:
                self.skip_hidden_tag(tag)
            else:
                tag.act(self, tag)
            if text:
                if "&" in text:
                    text = unescape_text(text)
                if self.silence or self.in_title or self.verbatim:
                    self.add_hidden_text(text)
                elif text in blanks:
                    self.space = True
                elif body := text.strip(HTML_SPACE):
                    say(text, body)
                else:
                    self.space = True
                    blanks.add(text)
        return self.finish_tree()

    def get_tag(self, written: str) -> HtmlTag:
        """Parse a tag that is not in the cache yet, add it to the cache, and return it."""
        if len(self.known) > _REMEMBERED:
            self.known.clear()  # a page of ever new tags must not fill the memory
        tag = self.known[written] = _add_action(parse_tag(written, self.unseen))
        return tag

    def finish_tree(self) -> HtmlTree:
        """Return the tree with its text, and with the size of each element's own text and links."""
        tree = self.tree
        tree.ends[0], tree.stops[0] = len(tree.tags), self.at
        tree.text, tree.hidden = "".join(self.out), "".join(self.hidden)
        own = tree.own = [0] * len(tree.tags)
        linked = tree.linked = [0.0] * len(tree.tags)
        for owner, size, in_links in zip(tree.owners, tree.sizes, self.link_sizes, strict=True):
            own[owner] += size
            linked[owner] += in_links
        return tree

    # Text.

    def add_text(self, text: str, body: str) -> None:
        """Add shown text, each run of white space as one space.

        `body` is the text without white space around it.
        """
        if "\n" in body or "  " in body or "\t" in body or "\r" in body or "\f" in body:
            body = HTML_SPACES.sub(" ", body)
        if self.newlines and not self.gap:
            self.break_line()
        elif not self.gap and (self.space or text[0] in HTML_SPACE):
            self.put_separator(" ")
        if self.gap:
            self.begin_run()
        self.fresh = False
        self.newlines = 0
        self.space = text[-1] in HTML_SPACE
        self.append_text(body)

    def add_hidden_text(self, text: str) -> None:
        """Add text inside a title, a hidden element or preformatted text.

        The first title is the page's. Text of hidden elements is kept apart from the page's text,
        or dropped inside scripts and the like. Preformatted text is shown with its white space.
        """
        if self.in_title:
            self.tree.title = self.tree.title or collapse_spaces(text)
        elif self.silence:
            if self.keeps is not None:
                self.keeps.append(HTML_SPACES.sub(" ", text))
        else:
            self.add_verbatim(text)

    def add_verbatim(self, text: str) -> None:
        """Add preformatted text with its white space."""
        if self.gap:
            self.begin_run()
        self.newlines = 0
        self.space = False
        self.fresh = False
        self.append_text(text)

    def append_text(self, body: str) -> None:
        """Append a piece to the page's text, with its offset, element, size and share of links."""
        tree, size = self.tree, len(body)
        tree.pieces.append(self.at)
        tree.owners.append(self.current)
        tree.sizes.append(size)
        self.link_sizes.append(size * self.weight)
        self.out.append(body)
        self.at += size

    def put_separator(self, separator: str) -> None:
        """Append white space between two pieces of the page's text."""
        self.out.append(separator)
        self.at += len(separator)

    def break_line(self) -> None:
        """Write the line break of one `<br>`; after several, let a paragraph begin."""
        if self.newlines == 1:
            self.put_separator("\n")
        else:
            self.gap = PARAGRAPH

    def begin_run(self) -> None:
        """Begin a new block of text, with the separator that is due before it."""
        if self.at:
            self.put_separator(SEPARATORS[self.gap])
        tree = self.tree
        box = tree.boxes[self.current]
        tree.runs.append(BlockRun(self.at, box, len(tree.pieces), self.newlines > 1))
        self.gap = 0

    def next_offset(self) -> int:
        """Return the offset of the next text, as `~offset` if a new block will begin before it."""
        return ~self.at if self.gap or self.newlines > 1 else self.at

    # Start tags.

    def open_inline(self, tag: HtmlTag) -> None:
        """Add an element to the tree and make it the current one."""
        tags, parents, ends, classes, attributes, starts, stops, boxes = self.columns
        number, at, above = len(tags), self.at, self.current
        if tag.identity:
            self.tree.anchors.append((self.next_offset(), tag.identity))
        tags.append(tag.name)
        parents.append(above)
        ends.append(number + 1)
        classes.append(tag.classes)
        attributes.append(tag.attributes)
        starts.append(at)
        stops.append(at)
        boxes.append(number if tag.is_block else boxes[above])
        self.stack.append(above)
        self.current = number

    def open_bare(self, tag: HtmlTag) -> None:
        """Open an inline tag that gets no element of its own: its text is the current one's."""
        self.stack.append(self.current)

    def open_block(self, tag: HtmlTag) -> None:
        """Open an element that begins a paragraph."""
        self.open_inline(tag)
        self.newlines = 0
        if not self.fresh:
            self.gap = PARAGRAPH

    def open_item(self, tag: HtmlTag) -> None:
        """Open a list item or another element that begins a line."""
        self.open_inline(tag)
        self.newlines = 0
        self.gap = max(self.gap, LINE)
        self.fresh = True

    def open_cell(self, tag: HtmlTag) -> None:
        """Open a table cell: unless more white space is due, a tab stands before its text."""
        self.open_inline(tag)
        self.newlines = 0
        self.gap = max(self.gap, CELL)
        self.fresh = True
        self.cells.append(len(self.tree.runs))

    def open_list(self, tag: HtmlTag) -> None:
        """Open a list; a nested one begins a line, another one a paragraph."""
        self.open_inline(tag)
        self.newlines = 0
        self.gap = max(self.gap, LINE if self.lists else PARAGRAPH)
        self.lists += 1

    def open_verbatim(self, tag: HtmlTag) -> None:
        """Open preformatted text, in which white space is kept."""
        self.open_block(tag)
        self.verbatim += 1

    def open_title(self, tag: HtmlTag) -> None:
        """Open a title, the text of which becomes the page's title and not part of its text."""
        self.open_block(tag)
        self.in_title = True

    def open_named_link(self, tag: HtmlTag) -> None:
        """Open a link with a class, id, role or author, which is an element of the tree too."""
        self.open_link(tag)
        self.stack.pop()
        self.open_inline(tag)

    def open_link(self, tag: HtmlTag) -> None:
        """Open a link, or mark the anchor of an `a` without address."""
        self.stack.append(self.current)
        href = get_attribute(tag.attributes, ' href="').strip()
        if not href:
            self.mark_anchor(get_attribute(tag.attributes, ' name="'))
        self.weight = _IN_PAGE_WEIGHT if href[:1] == "#" else 1.0
        self.links.append((self.next_offset(), href, self.weight))

    def open_mark(self, tag: HtmlTag) -> None:
        """Open an element that becomes a mark: raised, lowered or annotated text."""
        self.open_inline(tag)
        self.marked.append(self.next_offset())

    def mark_anchor(self, identity: str) -> None:
        """Record an id or name at the next offset."""
        if identity:
            self.tree.anchors.append((self.next_offset(), identity))

    # End tags.

    def close_inline(self, tag: HtmlTag) -> None:
        """End the innermost open tag; if it had an element, record where that ends in the text."""
        if self.stack:
            number, self.current = self.current, self.stack.pop()
            if number != self.current:
                self.tree.ends[number] = len(self.tree.tags)
                self.tree.stops[number] = self.at

    def close_block(self, tag: HtmlTag) -> None:
        """Close an element that ends a paragraph."""
        self.close_inline(tag)
        self.newlines = 0
        if not self.fresh:
            self.gap = PARAGRAPH

    def has_shown_text(self) -> bool:
        """Return whether the element that now ends has shown any text."""
        return self.tree.starts[self.current] < self.at

    def close_item(self, tag: HtmlTag) -> None:
        """Close a list item or another element that ends a line."""
        self.gap = LINE if self.has_shown_text() else max(self.gap, LINE)
        self.close_division(tag)

    def close_cell(self, tag: HtmlTag) -> None:
        """Close a table cell; one with more than two blocks of text is marked as layout."""
        begun = self.cells.pop() if self.cells else 0
        if len(self.tree.runs) - begun > 2:
            self.tree.layout.add(self.current)
            self.gap = PARAGRAPH
        elif self.has_shown_text():
            self.gap = CELL
        self.close_division(tag)

    def close_list(self, tag: HtmlTag) -> None:
        """Close a list: after a nested one with text a line begins, otherwise a paragraph."""
        self.lists -= 1
        self.gap = LINE if self.lists and self.has_shown_text() else PARAGRAPH
        self.close_division(tag)

    def close_division(self, tag: HtmlTag) -> None:
        """Close an element whose separator is already decided."""
        self.newlines = 0
        self.fresh = False
        self.close_inline(tag)

    def close_verbatim(self, tag: HtmlTag) -> None:
        """Close preformatted text: white space no longer counts, and a paragraph follows."""
        self.gap = PARAGRAPH
        self.verbatim -= 1
        self.close_division(tag)

    def close_title(self, tag: HtmlTag) -> None:
        """Close a title: text is shown again, and a paragraph follows."""
        self.gap = PARAGRAPH
        self.in_title = False
        self.close_division(tag)

    def close_link(self, tag: HtmlTag) -> None:
        """Close a link and record its span."""
        place, href, _ = self.links.pop()
        self.weight = self.links[-1][2] if self.links else 0.0
        if href:
            self.tree.links.append((place, self.at, href))
        self.close_inline(tag)

    def close_mark(self, tag: HtmlTag) -> None:
        """Close raised, lowered or annotated text, and record the span of raised or lowered text.

        The readings of annotated text (ruby) are recorded before.
        """
        place = self.marked.pop()
        if tag.name != "ruby":
            self.tree.marks.append((place, self.at, tag.name, ""))
        self.close_inline(tag)

    # Tags without a body.

    def skip_doctype(self, tag: HtmlTag) -> None:
        """Do nothing, for a document type."""

    def add_void(self, tag: HtmlTag) -> None:
        """Add a tag without content: a line break, image, rule, area of an image map or field."""
        name = tag.name
        self.mark_anchor(tag.identity)
        if name == "br":
            if self.verbatim:
                self.add_verbatim("\n")
            else:
                self.newlines += 1
                self.space = False
        elif name == "img":
            place, alt = self.next_offset(), get_attribute(tag.attributes, ' alt="')
            self.tree.marks.append((place, place, "image", collapse_spaces(alt)))
        elif name == "hr":
            self.gap = PARAGRAPH
        elif name == "area":
            place = self.next_offset()
            self.tree.links.append((place, place, get_attribute(tag.attributes, ' href="')))
        if name in _COUNTED_VOID:
            self.tree.add_leaf(name, self.current, tag.classes, tag.attributes, self.at)

    def read_head_tag(self, tag: HtmlTag) -> None:
        """Read a tag of the head: base address, og:title or author; others are skipped."""
        tree, told = self.tree, tag.attributes
        if tag.name == "base":
            tree.base = tree.base or get_attribute(told, ' href="')
        elif tag.name == "meta":
            about = (get_attribute(told, ' property="') or get_attribute(told, ' name="')).lower()
            if about == "og:title":
                tree.og_title = tree.og_title or collapse_spaces(get_attribute(told, ' content="'))
            elif about in _AUTHOR:
                tree.author = True

    # What is not shown.

    def start_hiding(self, tag: HtmlTag) -> None:
        """Show nothing up to the end of this element.

        Its text becomes a ruby reading in `rt`, is dropped in scripts and the like, and is else
        kept as hidden text.
        """
        self.stack.append(self.current)
        self.silence = len(self.stack)
        if tag.name == "rt":
            self.keeps = self.note
        else:
            self.keeps = None if tag.name in DROPPED_TAGS else self.hidden

    def skip_hidden_tag(self, tag: HtmlTag) -> None:
        """Follow a tag inside a hidden element; the element's own end tag ends the hiding."""
        if self.keeps is self.hidden and tag.is_block:
            self.hidden.append("\n")
        if tag.kind[0] != "/":
            if tag.name not in VOID_TAGS:
                self.stack.append(self.current)
            return
        self.current = self.stack.pop()
        if len(self.stack) < self.silence:
            self.silence = 0
            if self.keeps is self.hidden:
                self.hidden.append("\n")
            elif self.keeps is self.note and self.marked:
                self.add_ruby_reading()

    def add_ruby_reading(self) -> None:
        """Record the reading of the characters of a ruby that have none yet."""
        reading = collapse_spaces("".join(self.note))
        self.tree.marks.append((self.marked[-1], self.at, "ruby", reading))
        self.marked[-1] = self.at
        self.note.clear()


TagAction = Callable[[HtmlWalk, HtmlTag], None]
_TAG_ACTIONS: dict[str, TagAction] = {
    "inline": HtmlWalk.open_inline,
    "/inline": HtmlWalk.close_inline,
    "bare": HtmlWalk.open_bare,
    "/bare": HtmlWalk.close_inline,
    "root": HtmlWalk.open_block,
    "/root": HtmlWalk.close_block,
    "block": HtmlWalk.open_block,
    "/block": HtmlWalk.close_block,
    "item": HtmlWalk.open_item,
    "/item": HtmlWalk.close_item,
    "cell": HtmlWalk.open_cell,
    "/cell": HtmlWalk.close_cell,
    "list": HtmlWalk.open_list,
    "/list": HtmlWalk.close_list,
    "verbatim": HtmlWalk.open_verbatim,
    "/verbatim": HtmlWalk.close_verbatim,
    "title": HtmlWalk.open_title,
    "/title": HtmlWalk.close_title,
    "link": HtmlWalk.open_link,
    "named link": HtmlWalk.open_named_link,
    "/link": HtmlWalk.close_link,
    "mark": HtmlWalk.open_mark,
    "/mark": HtmlWalk.close_mark,
    "void": HtmlWalk.add_void,
    "/void": HtmlWalk.close_inline,
    "head": HtmlWalk.read_head_tag,
    "/head": HtmlWalk.close_inline,
    "silent": HtmlWalk.start_hiding,
    "/silent": HtmlWalk.close_inline,
    "ignored": HtmlWalk.skip_doctype,
}


def _add_action(tag: HtmlTag) -> HtmlTag:
    tag.act = _TAG_ACTIONS[tag.kind]
    return tag


_COMMON = {written: _add_action(parse_tag(written)) for written in COMMON_TAGS}


# What the parser itself takes out costs nothing afterwards.
_STRIPPED = ["script", "style", "iframe", "noembed", "noframes", "svg", "link"]
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_COMMENT_OR_TAG = re.compile(r"<!--.*?-->|<[^>]*+>", re.DOTALL)
_RAW = re.compile(r"<(xmp|plaintext)\b[^>]*>(.*?)(?:</\1>|\Z)", re.DOTALL)

_NESTED_RULES = re.compile(r"@[^{};]*+\{(?:[^{}]*+\{[^{}]*+\})*+[^{}]*+\}")
_NAME = re.compile(r"[.#][a-zA-Z_-][\w-]*")
_NONE = re.compile(r"display\s*:\s*none")
_STYLE_LIMIT = 200_000


def read_html(html: str) -> HtmlTree:
    """Return the tree and the text of an HTML page. However broken the page is, it never raises."""
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

    parser = LexborHTMLParser(
        drop_excess_attributes(html), options=LexborDocumentOptions.WO_EVENTS.value
    )
    unseen = _find_hidden_names(parser) if "<style" in html else frozenset[str]()
    parser.strip_tags(_STRIPPED, recursive=True)
    markup = parser.html or ""
    if parser.css("xmp, plaintext"):
        markup = _RAW.sub(lambda raw: f"<pre>{_escape_text(raw[2])}</pre>", markup)
    tree = HtmlWalk(unseen).parse_pieces(_split_tags(markup))
    tree.scripts = "<script" in html
    return tree


def _split_tags(markup: str) -> list[str]:
    """Return the markup without comments, cut before each tag: `name attributes>text that
    follows`."""
    text = _COMMENT.sub("", markup) if "<!--" in markup else markup
    pieces = text.split("<")
    if text.count(">") != len(pieces) - 1:
        # The parser escapes both, but in the names of broken tags and attributes, which may look
        # like the start of a comment, too.
        pieces = _COMMENT_OR_TAG.sub(_escape_tag, markup).split("<")
    return pieces[1:]


def _escape_tag(found: re.Match[str]) -> str:
    written = found[0]
    return "" if written.startswith("<!--") else f"<{_escape_text(written[1:-1])}>"


def _escape_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _find_hidden_names(parser: Any) -> frozenset[str]:
    """Classes (`name`) and ids (`#name`) that the page's own style sheets never show."""
    none: set[str] = set()
    shown: set[str] = set()
    rest = _STYLE_LIMIT
    for style in parser.css("style"):
        sheet = style.text()[:rest]
        rest -= len(sheet)
        if "media" in style.attributes or not _NONE.search(sheet):
            continue
        for rule in _NESTED_RULES.sub("", sheet).split("}"):
            if "display" in rule:
                before, _, body = rule.rpartition("{")
                names = before.rpartition("{")[2].split(",")
                (none if _NONE.search(body) else shown).update(map(str.strip, names))
    return frozenset(
        name.lower().removeprefix(".") for name in none - shown if _NAME.fullmatch(name)
    )

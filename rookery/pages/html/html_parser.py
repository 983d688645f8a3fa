"""Parse HTML into a flat tree and one canonical text with blocks, links and marks.

Markup that would make a parser slow or greedy is simplified first: looking for an open element
costs a parser its depth, and formatting elements that stay open are built again in every block, so
that both are quadratic when nested deeply. One pass over the tags writes text and tree together,
with what a tag means cached by its text: half of the time of reading a page is spent there.
"""

import re
from collections.abc import Callable, Iterable
from html import escape
from typing import Any
from urllib.parse import unquote

import msgspec

from rookery.pages.html.html_tree import (
    HTML_SPACE,
    HTML_SPACES,
    UNSEEN_SPACE,
    BlockRun,
    HtmlTree,
    collapse_spaces,
    unescape_text,
)
from rookery.pages.html.linear_notation import write_generated_text, write_notation
from rookery.pages.html.style_hiding import hide_unseen_elements, is_hidden_by_style, matches_screen

MAX_TAG_DEPTH = 512
TAGS_WITHOUT_SCAN = 20_000
MAX_REBUILT_ELEMENTS = 2_000_000
HARMLESS_TAG_COUNT = 1_400
"""tags that cannot hurt, whatever they are, even if each were written twice"""

_FORMATTING_TAGS = frozenset("b big code em font i nobr s small strike strong tt u".split())
# Elements whose end tag may be left out close each other: they cannot nest by themselves.
_UNNESTED_TAGS = frozenset(
    "area base basefont bgsound body br col colgroup dd dt embed frame head hr html img input"
    " keygen li link meta optgroup option p param rp rt rb rtc source tbody td tfoot th thead tr"
    " track wbr".split()
)
_RAW_ELEMENTS = "script|style|textarea|title|iframe|noembed|noframes|xmp"
_FORMATTING_WITH_ATTRIBUTES = re.compile(rf"(?i)<(?:{'|'.join(_FORMATTING_TAGS)})\s")
COMMENT_RAW_OR_TAG = re.compile(
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
        len(_ATTRIBUTE_GAPS.findall(html, tag.start(), html.find(">", tag.end()) % (len(html) + 1)))
        > _MAX_ATTRIBUTES
        for tag in _LONG_TAG.finditer(html)
    )
    if not crowded and len(_SIGN_IN_VALUE.findall(html)) <= _MAX_SIGNS_IN_VALUES:
        return html
    return COMMENT_RAW_OR_TAG.sub(_shorten_tag, html)


def _shorten_tag(tag: re.Match[str]) -> str:
    return _CROWDED_TAG.sub(r"\1>", tag[0]) if len(tag[0]) > 2 * _MAX_ATTRIBUTES else tag[0]


def count_tags(html: str) -> int:
    """Return an upper bound of the number of tags: `<` followed by a letter or a slash."""
    return len(re.findall(r"<[a-zA-Z/]", html))


def simplify_markup(html: str) -> str:
    """Return `html` without the tags that would make a parser slow, or itself where there are few.

    Dropped are tags nested deeper than MAX_TAG_DEPTH, each replaced by `<br>`, and, on a page with
    very many formatting tags that have attributes, formatting tags such as `<b>`. The text stays.
    """
    starts = html.count("<")
    if starts <= TAGS_WITHOUT_SCAN and starts * starts <= 4 * MAX_REBUILT_ELEMENTS:
        return html
    rebuilt = starts * len(_FORMATTING_WITH_ATTRIBUTES.findall(html)) > MAX_REBUILT_ELEMENTS
    if (starts <= TAGS_WITHOUT_SCAN and not rebuilt) or not re.search(r"<[a-zA-Z/]", html):
        return html
    return _flatten_tags(html, _FORMATTING_TAGS if rebuilt else frozenset())


def _flatten_tags(html: str, formatting: frozenset[str]) -> str:
    """Return the text without tags nested deeper than the limit, and without formatting that the
    parser would rebuild."""
    open_tags: dict[str, int] = {}
    dropped: dict[str, int] = {}
    depth = 0
    pieces: list[str] = []
    position = 0
    for tag in COMMENT_RAW_OR_TAG.finditer(html):
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
            pieces += (html[position : tag.start()], "" if name in formatting else "<br>")
            position = tag.end()
    pieces.append(html[position:])
    return "".join(pieces)


VOID_TAGS = frozenset(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source"
    " track wbr".split()
)
DROPPED_TAGS = frozenset("script style iframe noembed noframes rp".split())
_DELETED = frozenset("del s strike".split())
_HIDDEN = "noscript template datalist annotation annotation-xml audio video canvas object".split()
_HIDDEN += ("meter", "progress")
_KINDS = (
    dict.fromkeys(
        "address article aside blockquote button caption center details dialog div fieldset"
        " figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup legend"
        " main nav optgroup p search section select summary svg".split(),
        "block",
    )
    | dict.fromkeys("dt dd option thead tbody tfoot text".split(), "item")
    | dict.fromkeys(
        "b i em strong span font u small big tt nobr mark cite q abbr sup sub".split(), "bare"
    )
    | dict.fromkeys(VOID_TAGS, "void")
    | dict.fromkeys((*DROPPED_TAGS, *_HIDDEN, *_DELETED, "rt"), "silent")
    | {"html": "root", "body": "root", "title": "title", "a": "link", "iframe": "frame"}
    | {"li": "numbered-item", "table": "table", "tr": "row", "td": "cell", "th": "cell"}
    | {"pre": "verbatim", "textarea": "verbatim", "listing": "verbatim"}
    | {"ul": "list", "ol": "list", "dl": "list", "menu": "list", "dir": "list"}
    | {"ruby": "ruby", "meta": "head", "link": "head", "base": "head"}
)
_BLOCKS = frozenset("root block item numbered-item table row cell list verbatim title".split())
_ALWAYS_SHOWN = frozenset(("void", "head", "root"))
_PLAIN = {"bare": "inline", "link": "named link"}
"""what has no element of its own, and what it is with attributes that tell an article's parts"""


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


def parse_tag(written: str) -> HtmlTag:
    """Parse the text between `<` and `>` of a start or end tag."""
    name, space, _ = written.partition(" ")
    if not space:
        return _parse_bare_tag(name)
    kind = _KINDS.get(name, "inline")
    block = kind in _BLOCKS or name == "hr"
    classes = get_attribute(written, ' class="').lower()
    identity = get_attribute(written, ' id="')
    hidden = ' style="' in written or 'hidden="' in written or ' popover="' in written
    if (hidden or name == "dialog") and kind not in _ALWAYS_SHOWN and _is_hidden(name, written):
        kind = "silent"
    if identity:
        classes = f"{classes} {identity.lower()}"
    if kind in _PLAIN and (classes or ' role="' in written or "author" in written):
        kind = _PLAIN[kind]
    return HtmlTag(name, kind, block, written, classes, identity)


def _parse_bare_tag(name: str) -> HtmlTag:
    """Return the meaning of a tag without attributes."""
    if name[:1] == "/":
        kind = _KINDS.get(name[1:], "bare")
        return HtmlTag(name[1:], f"/{kind}", kind in _BLOCKS)
    kind = _KINDS.get(name, "ignored" if name[:1] == "!" else "inline")
    block = kind in _BLOCKS or name == "hr"
    return HtmlTag(name, "silent" if name == "dialog" else kind, block)


def _is_hidden(name: str, written: str) -> bool:
    if 'hidden="' in written and (' hidden="' in written or ' aria-hidden="true"' in written):
        return True
    if ' popover="' in written or (name == "dialog" and ' open="' not in written):
        return True
    return ' style="' in written and is_hidden_by_style(get_attribute(written, ' style="'), name)


COMMON_TAGS = tuple(f"{slash}{name}" for name in _KINDS for slash in ("", "/"))
"""tags without attributes: their meaning is the same on every page"""


CELL, LINE, PARAGRAPH = 1, 2, 3
SEPARATORS = ("", "\t", "\n", "\n\n")

_COUNTED_VOID = frozenset(("img", "input", "embed", "br"))
_AUTHOR = frozenset(("author", "dc:creator", "dc.creator", "dcterm:creator"))
_IN_PAGE_WEIGHT = 0.3
_LONGEST_REPEATED = 200
"""characters of a cell that is repeated in each row that it reaches into"""
_MAX_REPEATED = 20_000
_MAX_SPAN = 100
_MAX_EMPTY_CELLS = 100_000
"""of one page: cells that are repeated, columns and rows of one cell, and empty cells"""
_UNNUMBERED = re.compile(
    r"breadcrumb|comment|unstyled|list-none|no-bullet|pag(?:er|ination)|carousel|slick|nav|menu|feed"
)
_SHORT_PAGE = 400
"""characters; a page with fewer may only send its readers on"""
_REFRESH = re.compile(r"""\s*[\d.]*\s*[;,]?\s*url\s*=\s*["']?([^"'>]+)""", re.IGNORECASE)
_TINY = re.compile(r""" (?:width|height)="[01](?:px)?\"""")
_UNNUMBERED_STYLE = re.compile(r"list-style(?:-type)?\s*:[^;]*none")
_REMEMBERED = 20_000


class ListNumbering(msgspec.Struct):
    """The numbers of an ordered list."""

    number: int
    """of the next item"""
    step: int
    style: str
    """`1`, `a`, `A`, `i` or `I`, as HTML writes it"""

    def take_label(self, tag: HtmlTag) -> str:
        """Return what stands before the text of an item, such as `2. `, and go on to the next."""
        value = get_attribute(tag.attributes, ' value="')
        if _INTEGER.fullmatch(value):
            self.number = int(value)
        label = format_list_number(self.number, self.style)
        self.number += self.step
        return f"{label}. "


def _parse_span(attributes: str, name: str) -> int:
    """Return how many columns or rows a cell takes."""
    value = get_attribute(attributes, name) if name in attributes else ""
    return min(max(int(value), 1), _MAX_SPAN) if value.isdecimal() and len(value) < 6 else 1


_INTEGER = re.compile(r"-?\d{1,9}")
_LIST_STYLES = {
    "lower-alpha": "a", "lower-latin": "a", "upper-alpha": "A", "upper-latin": "A",
    "lower-roman": "i", "upper-roman": "I",
}  # fmt: skip
_ROMAN_DIGITS = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
    (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip


def format_list_number(number: int, style: str) -> str:
    """Return the number of a list item as `style` (`1`, `a`, `A`, `i` or `I`) writes it.

    It is in digits where the style has no form of it: letters from 1 on, Roman numbers up to 3999.
    """
    letters = ""
    if style in ("a", "A") and number > 0:
        while number:
            number, digit = divmod(number - 1, 26)
            letters = chr(ord("a") + digit) + letters
    elif style in ("i", "I") and 0 < number < 4000:
        for size, digits in _ROMAN_DIGITS:
            count, number = divmod(number, size)
            letters += digits * count
    else:
        return str(number)
    return letters if style.islower() else letters.upper()


class TableGrid(msgspec.Struct):
    """The place in a table: which column comes next, and which cells reach into the next rows."""

    column: int = 0
    """of the cell that is open, or comes next"""
    written: int = 0
    """the column of the last text of this row"""
    begun: int = 0
    """offset at which this row begins"""
    head: int = 0
    """where the next text stood at the start of the row, as `next_offset` says it"""
    names: int = 0
    """header cells of this row"""
    spans: dict[int, tuple[int, HtmlTag, str]] = {}
    """by column: rows that a cell still reaches into, its tag and its text"""


class HtmlWalk:
    """State of a walk over the tags of a page: the text so far, and the white space due before the
    next text."""

    def __init__(self, with_deleted: bool = False) -> None:
        self.tree = tree = HtmlTree.with_root()
        self.columns = (
            tree.tags, tree.parents, tree.ends, tree.classes, tree.attributes, tree.starts,
            tree.stops, tree.boxes,
        )  # fmt: skip
        self.known = dict(_COMMON)
        if with_deleted:
            self.known |= {name: _add_action(HtmlTag(name, "bare", False)) for name in _DELETED}
        self.with_deleted = with_deleted
        self.deleting = False
        self.deleted = 0
        """characters of deleted text"""
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
        self.cells: list[tuple[int, int]] = []
        """of each open cell, how many runs and pieces of output there were before it"""
        self.tables: list[TableGrid] = []
        self.repeated = self.emptied = 0
        self.numberings: list[ListNumbering | None] = []
        self.label = ""
        """the number of a list item, due before its text"""
        self.refresh = ""

    def parse_pieces(self, pieces: Iterable[str]) -> HtmlTree:
        """Return the tree of a page, given as tags without their `<`, each with the text behind."""
        # Half of all time goes by here: what a tag means is found once for each different tag,
        # and the white space between them is nearly always the same.
        known_tags, learn, say = self.known, self.get_tag, self.add_text
        blanks = set[str]()
        for piece in pieces:
            written, _, text = piece.partition(">")
            tag = known_tags.get(written) or learn(written)
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
        tag = parse_tag(written)
        if self.with_deleted and tag.name in _DELETED and tag.kind == "silent":
            tag.kind = "inline"
        self.known[written] = _add_action(tag)
        return tag

    def finish_tree(self) -> HtmlTree:
        """Return the tree with its text, and with the size of each element's own text and links."""
        tree = self.tree
        if self.refresh and self.at < _SHORT_PAGE:
            self.add_refresh_link()
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

        `body` is the text without white space around it. No-break spaces and the like begin no
        block and no line: pages are filled with them where nothing is to be seen.
        """
        if (self.gap or self.newlines) and body[0] in UNSEEN_SPACE and not body.strip(UNSEEN_SPACE):
            return
        if "\n" in body or "  " in body or "\t" in body or "\r" in body or "\f" in body:
            body = HTML_SPACES.sub(" ", body)
        if self.newlines and not self.gap:
            self.break_line()
        elif not self.gap and (self.space or text[0] in HTML_SPACE):
            self.put_separator(" ")
        if self.gap:
            body = self.begin_run() + body
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
                self.deleted += len(text) * self.deleting
                self.keeps.append(HTML_SPACES.sub(" ", text))
        else:
            self.add_verbatim(text)

    def add_verbatim(self, text: str) -> None:
        """Add preformatted text with its white space."""
        if self.gap:
            text = self.begin_run() + text
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

    def begin_run(self) -> str:
        """Begin a new block of text, with the separator that is due before it.

        Returns what stands before its text: the number of a list item, or nothing.
        """
        separator = SEPARATORS[self.gap] if self.at else ""
        if self.tables:
            separator = self.count_columns(separator)
        if separator:
            self.put_separator(separator)
        tree, label = self.tree, self.label
        box = tree.boxes[self.current]
        tree.runs.append(BlockRun(self.at, box, len(tree.pieces), self.newlines > 1, len(label)))
        self.gap = 0
        self.label = ""
        return label

    def count_columns(self, separator: str) -> str:
        """Return the separator before a text in a table, with a tab for each cell left empty."""
        grid = self.tables[-1]
        columns = grid.column - grid.written
        grid.written = grid.column
        if columns > 1:
            columns = min(columns, 1 + max(0, _MAX_EMPTY_CELLS - self.emptied))
            self.emptied += columns - 1
        if self.gap == CELL:
            return "\t" * max(columns, 1)
        # In a row that has text already, more than a tab divides columns of a layout.
        return separator + "\t" * columns if grid.begun == self.at else separator

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

    def open_numbered_item(self, tag: HtmlTag) -> None:
        """Open an item of a list; in an ordered list its number will stand before its text."""
        self.open_item(tag)
        numbering = self.numberings[-1] if self.numberings else None
        if numbering is not None:
            self.label += numbering.take_label(tag)

    def open_table(self, tag: HtmlTag) -> None:
        """Open a table, which begins a paragraph."""
        self.open_block(tag)
        self.tables.append(TableGrid())

    def open_row(self, tag: HtmlTag) -> None:
        """Open a row of a table, which begins a line."""
        self.open_item(tag)
        if self.tables:
            grid = self.tables[-1]
            grid.column = grid.written = grid.names = 0
            grid.begun, grid.head = self.at, self.next_offset()

    def open_cell(self, tag: HtmlTag) -> None:
        """Open a table cell, behind the cells that reach into its row from above.

        Unless more white space is due, a tab stands before its text for each column since the last.
        """
        if self.tables:
            grid = self.tables[-1]
            while grid.spans and grid.column in grid.spans:
                self.repeat_cell(grid, grid.column)
        self.begin_cell(tag)

    def begin_cell(self, tag: HtmlTag) -> None:
        """Open the element of a cell."""
        self.open_inline(tag)
        self.newlines = 0
        self.gap = max(self.gap, CELL)
        self.fresh = True
        self.cells.append((len(self.tree.runs), len(self.out)))

    def repeat_cell(self, grid: TableGrid, column: int) -> None:
        """Write the text of a cell from above again, in a further row that it reaches into."""
        rows, tag, text = grid.spans.pop(column)
        if rows > 1:
            grid.spans[column] = (rows - 1, tag, text)
        grid.column = column
        grid.names += tag.name == "th"
        self.repeated += 1
        if self.repeated > _MAX_REPEATED:
            grid.spans.clear()
        elif text:
            self.begin_cell(tag)
            self.add_text(text, text)
            self.end_cell(tag)
        grid.column += 1

    def open_list(self, tag: HtmlTag) -> None:
        """Open a list; a nested one begins a line, another one a paragraph."""
        self.open_inline(tag)
        self.newlines = 0
        self.gap = max(self.gap, LINE if self.lists else PARAGRAPH)
        self.lists += 1
        self.numberings.append(self.find_numbering(tag) if tag.name == "ol" else None)

    def find_numbering(self, tag: HtmlTag) -> ListNumbering | None:
        """Return the numbering of an ordered list; None where it has none or is furniture."""
        written = tag.attributes
        style = get_attribute(written, ' style="').lower() if ' style="' in written else ""
        if _UNNUMBERED.search(tag.classes) or _UNNUMBERED_STYLE.search(style):
            return None
        tags, parents, above = self.tree.tags, self.tree.parents, self.current
        while above := parents[above]:
            if tags[above] in ("nav", "footer"):
                return None
        kinds = (kind for name, kind in _LIST_STYLES.items() if name in style)
        kind = get_attribute(written, ' type="') or next(kinds, "1")
        start = get_attribute(written, ' start="')
        step = -1 if ' reversed="' in written else 1
        return ListNumbering(int(start) if _INTEGER.fullmatch(start) else 1, step, kind)

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

    def open_ruby(self, tag: HtmlTag) -> None:
        """Open annotated text, the readings of which become marks."""
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
        self.label = ""
        self.close_division(tag)

    def close_table(self, tag: HtmlTag) -> None:
        """Close a table, which ends a paragraph."""
        if self.tables:
            self.tables.pop()
        self.close_block(tag)

    def close_row(self, tag: HtmlTag) -> None:
        """Close a row of a table, with the cells that reach into it behind its last one.

        A row of header cells alone is marked.
        """
        if self.tables:
            grid = self.tables[-1]
            for column in sorted(grid.spans):
                if column >= grid.column > 0 and column in grid.spans:
                    self.repeat_cell(grid, column)
            if grid.names > 1 and grid.names == grid.column and self.at > grid.begun:
                self.tree.marks.append((grid.head, self.at, "header", ""))
        self.close_item(tag)

    def close_cell(self, tag: HtmlTag) -> None:
        """Close a table cell, and keep its text for the rows below that it reaches into."""
        number, opened = self.current, self.cells[-1][1] if self.cells else 0
        written = self.tree.attributes[number] if number < len(self.tree.attributes) else ""
        self.end_cell(tag)
        if not self.tables:
            return
        grid, tags, parents = self.tables[-1], self.tree.tags, self.tree.parents
        width = _parse_span(written, ' colspan="')
        if tags[number] == "th" or tags[parents[parents[number]]] == "thead":
            grid.names += width
        rows = _parse_span(written, ' rowspan="') - 1
        if rows > 0 and self.repeated < _MAX_REPEATED:
            text = collapse_spaces("".join(self.out[opened:]))
            text = text if len(text) <= _LONGEST_REPEATED else ""
            repeated = HtmlTag(tag.name, "cell", True, classes=self.tree.classes[number])
            grid.spans[grid.column] = (rows, repeated, text)
            for column in range(grid.column + 1, grid.column + width):
                grid.spans[column] = (rows, repeated, "")
        grid.column += width

    def end_cell(self, tag: HtmlTag) -> None:
        """Close the element of a cell; one of more than two blocks of text is marked as layout."""
        begun = self.cells.pop()[0] if self.cells else 0
        if len(self.tree.runs) - begun > 2:
            self.tree.layout.add(self.current)
            self.gap = PARAGRAPH
        elif self.has_shown_text():
            self.gap = CELL
        self.close_division(tag)

    def close_list(self, tag: HtmlTag) -> None:
        """Close a list: after a nested one with text a line begins, otherwise a paragraph."""
        self.lists -= 1
        if self.numberings:
            self.numberings.pop()
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

    def close_ruby(self, tag: HtmlTag) -> None:
        """Close annotated text; its readings are recorded already."""
        self.marked.pop()
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
        elif name == "frame":
            self.add_frame_link(tag)
        if name in _COUNTED_VOID:
            self.tree.add_leaf(name, self.current, tag.classes, tag.attributes, self.at)

    def read_head_tag(self, tag: HtmlTag) -> None:
        """Read a tag of the head: base address, og:title or author; others are skipped."""
        tree, written = self.tree, tag.attributes
        if tag.name == "base":
            tree.base = tree.base or get_attribute(written, ' href="')
        elif tag.name == "meta":
            about = get_attribute(written, ' property="') or get_attribute(written, ' name="')
            content = get_attribute(written, ' content="')
            if about.lower() == "og:title":
                tree.og_title = tree.og_title or collapse_spaces(content)
            elif about.lower() in _AUTHOR:
                tree.author = True
            elif get_attribute(written, ' http-equiv="').lower() == "refresh":
                sent = _REFRESH.match(content)
                self.refresh = self.refresh or (sent[1] if sent else "")

    def add_frame_link(self, tag: HtmlTag) -> None:
        """Add a frame of a frameset as a paragraph that is a link to it."""
        told = tag.attributes
        source = get_attribute(told, ' src="').strip()
        if source:
            name = get_attribute(told, ' title="') or get_attribute(told, ' name="') or source
            self.add_link_paragraph(collapse_spaces(name) or source, source)

    def add_link_paragraph(self, text: str, href: str) -> None:
        """Add a paragraph that is a link."""
        self.gap = PARAGRAPH
        place = self.next_offset()
        self.add_text(text, text)
        self.tree.links.append((place, self.at, href))
        self.gap = PARAGRAPH

    def add_refresh_link(self) -> None:
        """Add the address to which a page with little text sends on, as a link."""
        self.current = 0
        self.add_link_paragraph(self.refresh, self.refresh)

    def open_frame(self, tag: HtmlTag) -> None:
        """Add the page that an inline frame shows as a link, and skip what the element holds."""
        told, place = tag.attributes, self.next_offset()
        source = get_attribute(told, ' src="').strip()
        if source and not _TINY.search(told):
            title = collapse_spaces(get_attribute(told, ' title="'))
            self.tree.links.append((place, place, source))
            self.tree.marks.append((place, place, "image", title or "frame"))
        self.start_hiding(tag)

    # What is not shown.

    def start_hiding(self, tag: HtmlTag) -> None:
        """Show nothing up to the end of this element.

        Its text becomes a ruby reading in `rt`, is dropped in scripts and the like, and is else
        kept as hidden text.
        """
        self.stack.append(self.current)
        self.silence = len(self.stack)
        self.deleting = tag.name in _DELETED
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
_TAG_ACTIONS: dict[str, tuple[TagAction, TagAction]] = {
    "inline": (HtmlWalk.open_inline, HtmlWalk.close_inline),
    "bare": (HtmlWalk.open_bare, HtmlWalk.close_inline),
    "root": (HtmlWalk.open_block, HtmlWalk.close_block),
    "block": (HtmlWalk.open_block, HtmlWalk.close_block),
    "item": (HtmlWalk.open_item, HtmlWalk.close_item),
    "numbered-item": (HtmlWalk.open_numbered_item, HtmlWalk.close_item),
    "table": (HtmlWalk.open_table, HtmlWalk.close_table),
    "row": (HtmlWalk.open_row, HtmlWalk.close_row),
    "cell": (HtmlWalk.open_cell, HtmlWalk.close_cell),
    "list": (HtmlWalk.open_list, HtmlWalk.close_list),
    "verbatim": (HtmlWalk.open_verbatim, HtmlWalk.close_verbatim),
    "title": (HtmlWalk.open_title, HtmlWalk.close_title),
    "link": (HtmlWalk.open_link, HtmlWalk.close_link),
    "named link": (HtmlWalk.open_named_link, HtmlWalk.close_link),
    "ruby": (HtmlWalk.open_ruby, HtmlWalk.close_ruby),
    "frame": (HtmlWalk.open_frame, HtmlWalk.close_inline),
    "void": (HtmlWalk.add_void, HtmlWalk.close_inline),
    "head": (HtmlWalk.read_head_tag, HtmlWalk.close_inline),
    "silent": (HtmlWalk.start_hiding, HtmlWalk.close_inline),
    "ignored": (HtmlWalk.skip_doctype, HtmlWalk.skip_doctype),
}
"""what a walk does about the start tag and the end tag of each kind"""


def _add_action(tag: HtmlTag) -> HtmlTag:
    tag.act = _TAG_ACTIONS[tag.kind.removeprefix("/")][tag.kind[0] == "/"]
    return tag


_COMMON = {written: _add_action(parse_tag(written)) for written in COMMON_TAGS}


# What the parser itself takes out costs nothing afterwards.
_STRIPPED = ["script", "style", "noembed", "noframes", "link"]
_SVG_HIDDEN = ["title", "desc", "defs", "metadata", "symbol"]
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_COMMENT_OR_TAG = re.compile(r"<!--.*?-->|<[^>]*+>", re.DOTALL)
_RAW = re.compile(r"<(xmp|plaintext)\b[^>]*>(.*?)(?:</\1>|\Z)", re.DOTALL)

_SHEETS = "style, link[rel=stylesheet i][href^='data:text/css' i]:not([disabled])"
_SHADOW_ROOT = "template[shadowrootmode=open i], template[shadowrootmode=closed i]"
_SHADOW_HOST = re.compile(r"a.+e|blockquote|body|div|footer|h\d|header|main|nav|p|s.*n|.*-.*")
"""elements to which browsers give shadow roots"""
_SLOTTED_RULE = re.compile(r"::slotted\([^{}]*\{([^{}]*)\}")
_HOST_RULE = re.compile(r":host(?:\(((?:[^()]|\([^()]*\))*)\))?")

_PERMALINKS = (
    "h1 a, h2 a, h3 a, h4 a, h5 a, h6 a, dt a, a.headerlink, a.permalink, a.anchor, a.hash-link,"
    " a.header-anchor, a.heading-link"
)
_PERMALINK_SIGN = re.compile(r"[\s\u200b]*(?:[¶#§🔗⚓]|\u200b)?[\ufe0f\s\u200b]*")


def read_html(html: str) -> HtmlTree:
    """Return the tree and the text of an HTML page. However broken the page is, it never raises."""
    from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

    html = drop_excess_attributes(html)
    parser = LexborHTMLParser(html, options=LexborDocumentOptions.WO_EVENTS.value)
    _prepare_document(parser, html)
    markup = parser.html or ""
    if parser.css("xmp, plaintext"):
        markup = _RAW.sub(lambda raw: f"<pre>{escape(raw[2], quote=False)}</pre>", markup)
    pieces = _split_tags(markup)
    walk = HtmlWalk()
    tree = walk.parse_pieces(pieces)
    if walk.deleted > walk.at:
        # A `<s>` that is never closed would delete the page.
        tree = HtmlWalk(with_deleted=True).parse_pieces(pieces)
    tree.scripts = "<script" in html
    return tree


def _prepare_document(parser: Any, html: str) -> None:
    """Drop from a parsed page what is never text, mark what styles hide, and write as characters
    what markup says by position."""
    sheets = _list_sheets(parser)
    for node in parser.css("script, style, noembed, noframes"):
        node.inner_html = ""  # the elements stay, since selectors count siblings
    hide_unseen_elements(parser, html, sheets)
    _show_shadow_roots(parser, len(html) + 1)
    write_generated_text(parser, sheets)
    write_notation(parser)
    for option in parser.css("option[label]:not([label=''])") if "<option" in html else ():
        option.inner_html = escape(option.attributes["label"])
    for choice in parser.css("select:not([multiple])") if "<select" in html else ():
        options = choice.css("option") if (choice.attributes.get("size") or "1") == "1" else []
        chosen = [option for option in options if "selected" in option.attributes] or options[:1]
        for option in options:
            if option.mem_id != chosen[-1].mem_id:
                option.attrs["hidden"] = ""  # a closed list shows what is chosen
    parser.strip_tags(_STRIPPED, recursive=True)
    for drawing in reversed(parser.css("svg")):  # inner ones first: the outer ones free them
        if drawing.css_first("text") is None:
            drawing.decompose()
        else:
            drawing.strip_tags(_SVG_HIDDEN, recursive=True)
    for frame in parser.css("iframe") if "<iframe" in html else ():
        for child in list(frame.iter(include_text=True)):
            child.decompose()
    for reverse in parser.css("ol[reversed]:not([start])") if "reversed" in html else ():
        items = sum(child.tag == "li" for child in reverse.iter())
        reverse.attrs["start"] = str(items)
    for link in parser.css(_PERMALINKS):
        if _PERMALINK_SIGN.fullmatch(link.text()) and link.css_first("img") is None:
            for child in list(link.iter(include_text=True)):
                child.decompose()
            link.attrs["href"] = ""


def _list_sheets(parser: Any) -> list[str]:
    """Return the text of the style sheets that a parsed page holds for the screen."""
    return [
        style.text() or unquote((style.attributes.get("href") or "").partition(",")[2])
        for style in parser.css(_SHEETS)
        if style.parent.tag != "noscript" and matches_screen(style.attributes.get("media") or "")
    ]


def _show_shadow_roots(parser: Any, size: int) -> None:
    """Give the hosts of shadow roots what browsers show of them: the root, and in its slots what
    the host holds. What no slot takes is not shown, nor roots behind the first 200 per megabyte."""
    most = 200_000_000 // size
    while most > 0 and (template := parser.css_first(_SHADOW_ROOT)) is not None:
        most -= 1
        host, content = template.parent, template.html.partition(">")[2]
        del template.attrs["shadowrootmode"]
        if not _SHADOW_HOST.fullmatch(host.tag):
            continue
        begun = host.html.partition(">")[0][len(host.tag) + 1 :]
        inner = type(parser)(f"<x-host{begun}>{content.removesuffix('</template>')}</x-host>")
        sheets = [_HOST_RULE.sub(r"x-host:is(*\1)", sheet) for sheet in _list_sheets(inner)]
        # The page's own colours reach in here as those of a sheet elsewhere do.
        hide_unseen_elements(inner, f"<link rel=stylesheet>{inner.html}", sheets)
        write_generated_text(inner, sheets)
        unseen = any(map(is_hidden_by_style, _SLOTTED_RULE.findall(" ".join(sheets))))
        slots: dict[str, str] = {}
        for child in host.iter(include_text=True):
            if child.tag not in ("template", "-comment"):
                name = (child.is_element_node and child.attributes.get("slot")) or ""
                slots[name] = slots.get(name, "") + child.html
        for slot in inner.css("slot"):
            slotted = slots.pop(slot.attributes.get("name") or "", slot.inner_html)
            slot.inner_html = "" if unseen else slotted
        if inner.css_first("x-host[hidden]") is not None:
            host.attrs["hidden"] = ""
        host.inner_html = inner.css_first("x-host").inner_html


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


def _escape_tag(match: re.Match[str]) -> str:
    written = match[0]
    return "" if written.startswith("<!--") else f"<{escape(written[1:-1], quote=False)}>"

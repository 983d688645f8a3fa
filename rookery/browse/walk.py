"""The walk along the tags of a page that writes its text as it goes.

Nothing here recurses: how deep a page nests is the page's choice. Knows nothing of parsing, of
bytes, and of what an article is.
"""

from collections.abc import Callable, Iterable

from rookery.browse.tags import COMMON, DROPPED, VOID, Tag, tag_of, value_of
from rookery.browse.tree import SPACE, SPACES, Run, Tree, collapsed, unescaped

CELL, LINE, PARAGRAPH = 1, 2, 3
SEPARATORS = ("", "\t", "\n", "\n\n")

_COUNTED_VOID = frozenset(("img", "input", "embed", "br"))
_AUTHOR = frozenset(("author", "dc:creator", "dc.creator", "dcterm:creator"))
_IN_PAGE_WEIGHT = 0.3
_REMEMBERED = 20_000


class Walk:
    """The state of one walk: the text so far, and what must stand before the next of it."""

    def __init__(self, unseen: frozenset[str]) -> None:
        self.tree = tree = Tree.of_root()
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

    def follow(self, pieces: Iterable[str]) -> Tree:
        """The tree of a page, given as tags without their `<`, each with the text after it."""
        # Half of all time goes by here: what a tag means is found once for each different tag,
        # and the white space between them is nearly always the same.
        known, learn, say = self.known, self.learn, self.say
        blanks = set[str]()
        for piece in pieces:
            written, _, text = piece.partition(">")
            tag = known.get(written) or learn(written)
            if self.silence:
                self.pass_by(tag)
            else:
                tag.act(self, tag)
            if text:
                if "&" in text:
                    text = unescaped(text)
                if self.silence or self.in_title or self.verbatim:
                    self.say_otherwise(text)
                elif text in blanks:
                    self.space = True
                elif body := text.strip(SPACE):
                    say(text, body)
                else:
                    self.space = True
                    blanks.add(text)
        return self.finish()

    def learn(self, written: str) -> Tag:
        if len(self.known) > _REMEMBERED:
            self.known.clear()  # a page of ever new tags must not fill the memory
        tag = self.known[written] = _with_act(tag_of(written, self.unseen))
        return tag

    def finish(self) -> Tree:
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

    def say(self, text: str, body: str) -> None:
        """Shown text, and without the white space around it; runs of it count as one space."""
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

    def say_otherwise(self, text: str) -> None:
        if self.in_title:
            self.tree.title = self.tree.title or collapsed(text)
        elif self.silence:
            if self.keeps is not None:
                self.keeps.append(SPACES.sub(" ", text))
        else:
            self.say_verbatim(text)

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

    def place(self) -> int:
        """Where the next text will stand; negative where a new block will begin before it."""
        return ~self.at if self.gap or self.newlines > 1 else self.at

    # Start tags.

    def open(self, tag: Tag) -> None:
        """An element of the tree."""
        tags, parents, ends, classes, attributes, starts, stops, boxes = self.columns
        number, at, above = len(tags), self.at, self.current
        if tag.identity:
            self.tree.anchors.append((self.place(), tag.identity))
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

    def open_bare(self, tag: Tag) -> None:
        self.stack.append(self.current)

    def open_block(self, tag: Tag) -> None:
        self.open(tag)
        self.newlines = 0
        if not self.fresh:
            self.gap = PARAGRAPH

    def open_item(self, tag: Tag) -> None:
        self.open(tag)
        self.newlines = 0
        self.gap = max(self.gap, LINE)
        self.fresh = True

    def open_cell(self, tag: Tag) -> None:
        self.open(tag)
        self.newlines = 0
        self.gap = max(self.gap, CELL)
        self.fresh = True
        self.cells.append(len(self.tree.runs))

    def open_list(self, tag: Tag) -> None:
        self.open(tag)
        self.newlines = 0
        self.gap = max(self.gap, LINE if self.lists else PARAGRAPH)
        self.lists += 1

    def open_verbatim(self, tag: Tag) -> None:
        self.open_block(tag)
        self.verbatim += 1

    def open_title(self, tag: Tag) -> None:
        self.open_block(tag)
        self.in_title = True

    def open_named_link(self, tag: Tag) -> None:
        self.open_link(tag)
        self.stack.pop()
        self.open(tag)

    def open_link(self, tag: Tag) -> None:
        self.stack.append(self.current)
        href = value_of(tag.attributes, ' href="').strip()
        if not href:
            self.mark_anchor(value_of(tag.attributes, ' name="'))
        self.weight = _IN_PAGE_WEIGHT if href[:1] == "#" else 1.0
        self.links.append((self.place(), href, self.weight))

    def open_mark(self, tag: Tag) -> None:
        self.open(tag)
        self.marked.append(self.place())

    def mark_anchor(self, identity: str) -> None:
        if identity:
            self.tree.anchors.append((self.place(), identity))

    # End tags.

    def close(self, tag: Tag) -> None:
        if self.stack:
            number, self.current = self.current, self.stack.pop()
            if number != self.current:
                self.tree.ends[number] = len(self.tree.tags)
                self.tree.stops[number] = self.at

    def close_block(self, tag: Tag) -> None:
        self.close(tag)
        self.newlines = 0
        if not self.fresh:
            self.gap = PARAGRAPH

    def has_spoken(self) -> bool:
        """Whether the element that now ends has shown any text."""
        return self.tree.starts[self.current] < self.at

    def close_item(self, tag: Tag) -> None:
        self.gap = LINE if self.has_spoken() else max(self.gap, LINE)
        self.close_division(tag)

    def close_cell(self, tag: Tag) -> None:
        begun = self.cells.pop() if self.cells else 0
        if len(self.tree.runs) - begun > 2:
            self.tree.layout.add(self.current)
            self.gap = PARAGRAPH
        elif self.has_spoken():
            self.gap = CELL
        self.close_division(tag)

    def close_list(self, tag: Tag) -> None:
        self.lists -= 1
        self.gap = LINE if self.lists and self.has_spoken() else PARAGRAPH
        self.close_division(tag)

    def close_division(self, tag: Tag) -> None:
        self.newlines = 0
        self.fresh = False
        self.close(tag)

    def close_verbatim(self, tag: Tag) -> None:
        self.gap = PARAGRAPH
        self.verbatim -= 1
        self.close_division(tag)

    def close_title(self, tag: Tag) -> None:
        self.gap = PARAGRAPH
        self.in_title = False
        self.close_division(tag)

    def close_link(self, tag: Tag) -> None:
        place, href, _ = self.links.pop()
        self.weight = self.links[-1][2] if self.links else 0.0
        if href:
            self.tree.links.append((place, self.at, href))
        self.close(tag)

    def close_mark(self, tag: Tag) -> None:
        place = self.marked.pop()
        if tag.name != "ruby":
            self.tree.marks.append((place, self.at, tag.name, ""))
        self.close(tag)

    # Tags without a body.

    def ignore(self, tag: Tag) -> None:
        """A document type."""

    def void(self, tag: Tag) -> None:
        name = tag.name
        self.mark_anchor(tag.identity)
        if name == "br":
            if self.verbatim:
                self.say_verbatim("\n")
            else:
                self.newlines += 1
                self.space = False
        elif name == "img":
            place, alt = self.place(), value_of(tag.attributes, ' alt="')
            self.tree.marks.append((place, place, "image", collapsed(alt)))
        elif name == "hr":
            self.gap = PARAGRAPH
        elif name == "area":
            place = self.place()
            self.tree.links.append((place, place, value_of(tag.attributes, ' href="')))
        if name in _COUNTED_VOID:
            self.tree.add_leaf(name, self.current, tag.classes, tag.attributes, self.at)

    def head(self, tag: Tag) -> None:
        """What a page says of itself; most of it concerns no reader."""
        tree, told = self.tree, tag.attributes
        if tag.name == "base":
            tree.base = tree.base or value_of(told, ' href="')
        elif tag.name == "meta":
            about = (value_of(told, ' property="') or value_of(told, ' name="')).lower()
            if about == "og:title":
                tree.og_title = tree.og_title or collapsed(value_of(told, ' content="'))
            elif about in _AUTHOR:
                tree.author = True

    # What is not shown.

    def fall_silent(self, tag: Tag) -> None:
        self.stack.append(self.current)
        self.silence = len(self.stack)
        if tag.name == "rt":
            self.keeps = self.note
        else:
            self.keeps = None if tag.name in DROPPED else self.hidden

    def pass_by(self, tag: Tag) -> None:
        """A tag within something that is not shown."""
        if self.keeps is self.hidden and tag.is_block:
            self.hidden.append("\n")
        if tag.kind[0] != "/":
            if tag.name not in VOID:
                self.stack.append(self.current)
            return
        self.current = self.stack.pop()
        if len(self.stack) < self.silence:
            self.silence = 0
            if self.keeps is self.hidden:
                self.hidden.append("\n")
            elif self.keeps is self.note and self.marked:
                self.read_aloud()

    def read_aloud(self) -> None:
        """The reading of the characters of a ruby that have none yet."""
        reading = collapsed("".join(self.note))
        self.tree.marks.append((self.marked[-1], self.at, "ruby", reading))
        self.marked[-1] = self.at
        self.note.clear()


Act = Callable[[Walk, Tag], None]
_ACTS: dict[str, Act] = {
    "inline": Walk.open, "/inline": Walk.close, "bare": Walk.open_bare, "/bare": Walk.close,
    "root": Walk.open_block, "/root": Walk.close_block,
    "block": Walk.open_block, "/block": Walk.close_block,
    "item": Walk.open_item, "/item": Walk.close_item,
    "cell": Walk.open_cell, "/cell": Walk.close_cell,
    "list": Walk.open_list, "/list": Walk.close_list,
    "verbatim": Walk.open_verbatim, "/verbatim": Walk.close_verbatim,
    "title": Walk.open_title, "/title": Walk.close_title,
    "link": Walk.open_link, "named link": Walk.open_named_link, "/link": Walk.close_link,
    "mark": Walk.open_mark, "/mark": Walk.close_mark,
    "void": Walk.void, "/void": Walk.close, "head": Walk.head, "/head": Walk.close,
    "silent": Walk.fall_silent, "/silent": Walk.close, "ignored": Walk.ignore,
}  # fmt: skip


def _with_act(tag: Tag) -> Tag:
    tag.act = _ACTS[tag.kind]
    return tag


_COMMON = {written: _with_act(tag_of(written)) for written in COMMON}

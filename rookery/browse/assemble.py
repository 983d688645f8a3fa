"""From a tree and a choice of article to a Page. Knows nothing of markup or of files."""

from bisect import bisect_left
from itertools import pairwise
from operator import attrgetter
from urllib.parse import unquote

from rookery.browse.article import article_of, furniture_of
from rookery.browse.links import Resolver
from rookery.browse.tree import SPACE, Tree, collapsed
from rookery.records import Block, Link, Mark, Page

_KINDS = dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "heading") | {
    "li": "item", "dt": "item", "dd": "item", "td": "cell", "th": "cell", "caption": "caption",
    "figcaption": "caption", "blockquote": "quotation", "pre": "code", "listing": "code",
}  # fmt: skip
_START_AND_END = attrgetter("start", "end")
_LISTS = frozenset("ul ol dl menu dir".split())
_SHAPING = _LISTS | _KINDS.keys()


def page_of(tree: Tree, url: str, fetched: str = "", whole: bool = False) -> Page:
    """The Page that this tree describes, its article view chosen, or all of it if `whole`."""
    kept = bytearray(b"\1") * len(tree.pieces) if whole else article_of(tree)
    blocks = _blocks(tree, kept)
    text, hidden = _with_hidden(tree)
    places = _Places(tree)
    links, marks = _links_and_marks(tree, places, url)
    return Page(
        url=url,
        title=_title(tree, blocks),
        text=text,
        blocks=(*blocks, *hidden),
        links=links,
        marks=marks,
        fetched=fetched,
    )


def _title(tree: Tree, blocks: list[Block]) -> str:
    heading = (block for block in blocks if block.kind == "heading" and block.level == 1)
    first = next(heading, None)
    return tree.title or tree.og_title or (_span(tree, first) if first else "")


def _span(tree: Tree, block: Block) -> str:
    return collapsed(tree.text[block.start : block.end])


def _blocks(tree: Tree, kept: bytearray) -> list[Block]:
    kinds, text, starts, sizes = _Kinds(tree), tree.text, tree.pieces, tree.sizes
    furniture = furniture_of(tree, kept)
    blocks: list[Block] = []
    bounds = [*(run.first for run in tree.runs), len(starts)]
    for run, bound in zip(tree.runs, bounds[1:], strict=True):
        kind, level = kinds.known.get(run.box) or kinds.of(run.box)
        for first, stop, article in _parts(kept, run.first, bound):
            start, end = starts[first], starts[stop - 1] + sizes[stop - 1]
            furnished = bool(furniture[run.box])
            if kind == "code":
                blocks += _lines(text, start, end, article, furnished)
                continue
            if text[end - 1] in SPACE:
                end = start + len(text[start:end].rstrip(SPACE))
            if end > start:
                blocks.append(Block(start, end, kind, level, article, False, furnished))
    return blocks


def _parts(kept: bytearray, first: int, stop: int) -> list[tuple[int, int, bool]]:
    """The stretches of pieces that are all, or none of them, article."""
    if stop - first == 1 or kept.count(kept[first], first, stop) == stop - first:
        return [(first, stop, bool(kept[first]))]
    changes = [number for number in range(first + 1, stop) if kept[number] != kept[number - 1]]
    cuts = [first, *changes, stop]
    return [(begin, end, bool(kept[begin])) for begin, end in pairwise(cuts)]


def _lines(text: str, start: int, stop: int, article: bool, furniture: bool) -> list[Block]:
    """Each line of code that is not blank, with its indentation."""
    blocks: list[Block] = []
    for line in text[start:stop].split("\n"):
        body = line.rstrip(SPACE)
        if body:
            blocks.append(Block(start, start + len(body), "code", 0, article, False, furniture))
        start += len(line) + 1
    return blocks


class _Kinds:
    """The kind and level of the blocks in each block-level element, looked up once each."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.known: dict[int, tuple[str, int]] = {0: ("paragraph", 0)}

    def of(self, box: int) -> tuple[str, int]:
        tags, parents, known = self.tree.tags, self.tree.parents, self.known
        path: list[int] = []
        while box not in known:
            path.append(box)
            box = parents[box]
        kind = known[box]
        for number in reversed(path):
            if tags[number] in _SHAPING:
                kind = self.inherit(number, *kind)
            known[number] = kind
        return kind

    def inherit(self, number: int, kind: str, level: int) -> tuple[str, int]:
        """What an element makes of the kind around it; a level is also a list's depth."""
        tag = self.tree.tags[number]
        found = _KINDS.get(tag)
        if tag in _LISTS:
            return kind, (level if kind in ("item", "paragraph") else 0) + 1
        if found == "item":
            return "item", max(level, 1) if kind in ("item", "paragraph") else 1
        if found == "heading":
            return "heading", int(tag[1])
        if found == "cell" and number in self.tree.layout:
            return "paragraph", 0
        return (found, 0) if found else (kind, level)


def _with_hidden(tree: Tree) -> tuple[str, list[Block]]:
    """All text: what is hidden stands after what is shown, so that it breaks no sentence."""
    pieces = [tree.text.rstrip(SPACE)]
    at = len(pieces[0])
    blocks: list[Block] = []
    for line in tree.hidden.split("\n"):
        body = collapsed(line)
        if body:
            separator = "\n\n" if at else ""
            at += len(separator)
            blocks.append(Block(at, at + len(body), "paragraph", 0, False, True))
            pieces += (separator, body)
            at += len(body)
    return "".join(pieces), blocks


class _Places:
    """Where in the text a tag stands that may come before the text it belongs to."""

    def __init__(self, tree: Tree) -> None:
        self.text = tree.text.rstrip(SPACE)
        self.starts = [run.start for run in tree.runs]

    def at(self, place: int) -> int:
        if place < 0:
            following = bisect_left(self.starts, ~place)
            place = self.starts[following] if following < len(self.starts) else len(self.text)
        return min(place, len(self.text))

    def span(self, place: int, end: int) -> tuple[int, int]:
        start = self.at(place)
        if end <= start:
            return start, start
        end = min(end, len(self.text))
        while start < end and self.text[start] in SPACE:
            start += 1
        return start, end


def _links_and_marks(
    tree: Tree, places: _Places, url: str
) -> tuple[tuple[Link, ...], tuple[Mark, ...]]:
    resolver = Resolver(url, tree.base)
    links: list[Link] = []
    named: set[str] = set()
    for place, end, href in tree.links:
        target = resolver.resolve(href)
        if target:
            start, end = places.span(place, end)
            links.append(Link(start, end, target))
            fragment = resolver.fragment(target)
            if fragment:
                named |= {fragment, unquote(fragment)}
    marks = [Mark(*places.span(place, end), kind, value) for place, end, kind, value in tree.marks]
    for place, name in tree.anchors:
        if name in named:
            start = places.at(place)
            marks.append(Mark(start, start, "anchor", name))
            named.discard(name)
    links.sort(key=_START_AND_END)
    marks.sort(key=_START_AND_END)
    return tuple(links), tuple(marks)

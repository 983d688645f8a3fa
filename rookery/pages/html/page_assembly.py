"""Build a Page of a parsed tree: its blocks, links with absolute addresses, marks and article
view."""

import re
from bisect import bisect_left
from itertools import pairwise
from operator import attrgetter
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from rookery.pages.html.article import choose_article, find_furniture
from rookery.pages.html.html_tree import HTML_SPACE, UNSEEN_SPACE, HtmlTree, collapse_spaces
from rookery.records import Block, Link, Mark, Page

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):")
_WHOLE = re.compile(r"https?://[^/?#\s\[\]@\\]+(?:[/?#][^\x00-\x20]*+)?\Z", re.IGNORECASE)
_ORIGIN = re.compile(r"https?://[^/?#\s\[\]@\\]+(?=/)")
# What joining would not change: no second slash, no dots to walk up, nothing after a slash only.
_ROOTED = re.compile(r"/(?!/)(?:(?!/\.)[^\\;?#])*+(?:[?#][^\\]*)?\Z")
# Browsers take these out of an address before they read its scheme.
_IGNORED = re.compile(r"[\t\n\r]")
_UNCLEAN = re.compile(r"[\x00-\x20]")
_EDGES = "".join(map(chr, range(33)))


class LinkResolver:
    """Resolves the links of one page against its address and its `<base href>`."""

    def __init__(self, url: str, base: str = "") -> None:
        self.page = urldefrag(url).url
        self.schemes = ("http", "https", "file") if url.startswith("file:") else ("http", "https")
        self.known: dict[str, str] = {}
        self.base = url
        self.origin = ""
        if base:
            self.base = self.resolve_link(base) or url
            self.known.clear()
        whole = _ORIGIN.match(self.base)
        self.origin = whole[0] if whole else ""

    def resolve_link(self, href: str) -> str:
        """Return the absolute address of a link; "" for one never offered: mail, scripts, data.

        Links to files are offered only on pages that are files themselves.
        """
        found = self.known.get(href)
        if found is None:
            found = self.known[href] = self._resolve_relative(href)
        return found

    def _resolve_relative(self, href: str) -> str:
        if _WHOLE.match(href):
            return href
        if _UNCLEAN.search(href):
            href = _IGNORED.sub("", href.strip(_EDGES)).replace(" ", "%20")
            if _WHOLE.match(href):
                return href
        if self.origin and _ROOTED.match(href):
            return self.origin + href
        scheme = _SCHEME.match(href)
        if scheme and scheme[1].lower() not in self.schemes:
            return ""
        try:
            joined = urljoin(self.base, href)
            parts = urlsplit(joined)
        except ValueError:
            return ""
        if parts.scheme not in self.schemes or not (parts.netloc or parts.scheme == "file"):
            return ""
        return joined

    def get_fragment(self, url: str) -> str:
        """Return the id that this address names on the page itself, or ""."""
        if "#" not in url:
            return ""
        where, _, name = url.partition("#")
        return name if where == self.page else ""


_KINDS = dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "heading") | {
    "li": "item", "dt": "item", "dd": "item", "td": "cell", "th": "cell", "caption": "caption",
    "figcaption": "caption", "blockquote": "quotation", "pre": "code", "listing": "code",
}  # fmt: skip
_START_AND_END = attrgetter("start", "end")
_LISTS = frozenset("ul ol dl menu dir".split())
_SHAPING = _LISTS | _KINDS.keys()


def build_page(tree: HtmlTree, url: str, fetched: str = "", whole: bool = False) -> Page:
    """Return the Page that a parsed tree describes; with `whole`, all of it is in the article view.

    Otherwise `choose_article` says which blocks are.
    """
    in_article = bytearray(b"\1") * len(tree.pieces) if whole else choose_article(tree)
    blocks = _build_blocks(tree, in_article)
    text, hidden = _append_hidden(tree)
    places = TextPositions(tree)
    links, marks = _build_links_and_marks(tree, places, url)
    return Page(
        url=url,
        title=_choose_title(tree, blocks),
        text=text,
        blocks=(*blocks, *hidden),
        links=links,
        marks=marks,
        fetched=fetched,
    )


def _choose_title(tree: HtmlTree, blocks: list[Block]) -> str:
    headings = (block for block in blocks if block.kind == "heading" and block.level == 1)
    texts = (collapse_spaces(tree.text[heading.start : heading.end]) for heading in headings)
    return tree.title or tree.og_title or next(texts, "")


def _build_blocks(tree: HtmlTree, in_article: bytearray) -> list[Block]:
    kinds, text, starts, sizes = _BlockKinds(tree), tree.text, tree.pieces, tree.sizes
    furniture = find_furniture(tree, in_article)
    blocks: list[Block] = []
    bounds = [*(run.first for run in tree.runs), len(starts)]
    for run, bound in zip(tree.runs, bounds[1:], strict=True):
        kind, level = kinds.known.get(run.box) or kinds.get_kind(run.box)
        for first, stop, article in _split_by_article(in_article, run.first, bound):
            start, end = starts[first], starts[stop - 1] + sizes[stop - 1]
            furnished = bool(furniture[run.box])
            if kind == "code":
                blocks += _split_code_lines(text, start, end, article, furnished)
                continue
            if text[end - 1] in HTML_SPACE:
                end = start + len(text[start:end].rstrip(HTML_SPACE))
            seen_at_once = end > start and text[start] not in UNSEEN_SPACE
            if seen_at_once or text[start:end].strip(UNSEEN_SPACE):
                blocks.append(Block(start, end, kind, level, article, False, furnished))
    return blocks


def _split_by_article(in_article: bytearray, first: int, stop: int) -> list[tuple[int, int, bool]]:
    """Return the stretches of pieces that are all, or none of them, article."""
    if stop - first == 1 or in_article.count(in_article[first], first, stop) == stop - first:
        return [(first, stop, bool(in_article[first]))]
    changes = (n for n in range(first + 1, stop) if in_article[n] != in_article[n - 1])
    cuts = [first, *changes, stop]
    return [(begin, end, bool(in_article[begin])) for begin, end in pairwise(cuts)]


def _split_code_lines(
    text: str, start: int, stop: int, article: bool, furniture: bool
) -> list[Block]:
    """Return each line of code that is not blank, with its indentation; between blank lines, prose
    that is broken to fit a width is one paragraph."""
    blocks: list[Block] = []
    lines: list[Block] = []
    for line in [*text[start:stop].split("\n"), ""]:
        body = line.rstrip(HTML_SPACE)
        if body.strip(UNSEEN_SPACE):
            lines.append(Block(start, start + len(body), "code", 0, article, False, furniture))
        elif lines:
            first, end = lines[0].start, lines[-1].end
            if _is_broken_prose(text[first:end]):
                first = end - len(text[first:end].lstrip())
                lines = [Block(first, end, "paragraph", 0, article, False, furniture)]
            blocks += lines
            lines = []
        start += len(line) + 1
    return blocks


_WORD = re.compile(r"[\"'(\[]*[^\W\d_]+(?:['’-][^\W\d_]+)*[.,;:!?)\]\"']*")
_SENTENCE_END = re.compile(r"\w[\"')\]]*[.!?:][\"')\]]*(?!\S)")


def _is_broken_prose(text: str) -> bool:
    """Return True for full lines of words that go on from line to line, and end a sentence."""
    lines, words = [line.strip() for line in text.split("\n")], text.split()
    return (
        len(lines) > 1
        and min(map(len, lines[:-1])) >= 30  # they are full
        and 3 * sum(line[:1].islower() for line in lines[1:]) >= len(lines) - 1
        and sum(map(bool, map(_WORD.fullmatch, words))) >= 0.8 * len(words)
        and _SENTENCE_END.search(text) is not None
        and re.search(r"\S {3,}\S", text) is None  # columns
    )


class _BlockKinds:
    """The kind and level of the blocks in each block-level element, looked up once each."""

    def __init__(self, tree: HtmlTree) -> None:
        self.tree = tree
        self.known: dict[int, tuple[str, int]] = {0: ("paragraph", 0)}

    def get_kind(self, box: int) -> tuple[str, int]:
        tags, parents, known_kinds = self.tree.tags, self.tree.parents, self.known
        path: list[int] = []
        while box not in known_kinds:
            path.append(box)
            box = parents[box]
        kind = known_kinds[box]
        for number in reversed(path):
            if tags[number] in _SHAPING:
                kind = self.inherit_kind(number, *kind)
            known_kinds[number] = kind
        return kind

    def inherit_kind(self, number: int, kind: str, level: int) -> tuple[str, int]:
        """Return the kind and level of blocks in an element, given those around it; a level is also
        a list's depth."""
        tag = self.tree.tags[number]
        tag_kind = _KINDS.get(tag)
        if tag in _LISTS:
            return kind, (level if kind in ("item", "paragraph") else 0) + 1
        if tag_kind == "item":
            return "item", max(level, 1) if kind in ("item", "paragraph") else 1
        if tag_kind == "heading":
            return "heading", int(tag[1])
        if tag_kind == "cell" and number in self.tree.layout:
            return "paragraph", 0
        return (tag_kind, 0) if tag_kind else (kind, level)


def _append_hidden(tree: HtmlTree) -> tuple[str, list[Block]]:
    """Return all text, with hidden text after the shown text so that it breaks no sentence."""
    text, blocks = tree.text.rstrip(HTML_SPACE), list[Block]()
    pieces, at = [text] if text else [], len(text)
    for body in map(collapse_spaces, tree.hidden.split("\n")):
        if body.strip(UNSEEN_SPACE):
            at += len("\n\n") if pieces else 0
            blocks.append(Block(at, at + len(body), "paragraph", 0, False, True))
            pieces.append(body)
            at += len(body)
    return "\n\n".join(pieces), blocks


class TextPositions:
    """The offsets in the text of tags that may come before the text they belong to."""

    def __init__(self, tree: HtmlTree) -> None:
        self.text = tree.text.rstrip(HTML_SPACE)
        self.starts = [run.start for run in tree.runs]
        self.labels = [run.label for run in tree.runs]

    def position_at(self, place: int) -> int:
        """Return the offset in the text of a place, at most the text's length.

        A place is an offset, or `~offset` for the beginning of the next block from there on, behind
        the number of a list item.
        """
        if place < 0:
            following = bisect_left(self.starts, ~place)
            if following == len(self.starts):
                return len(self.text)
            place = self.starts[following] + self.labels[following]
        return min(place, len(self.text))

    def span_at(self, place: int, end: int) -> tuple[int, int]:
        """Return the span of the text from a place to an offset, without leading white space.

        It is empty where no text lies between them.
        """
        start = self.position_at(place)
        if end <= start:
            return start, start
        end = min(end, len(self.text))
        while start < end and self.text[start] in HTML_SPACE:
            start += 1
        return start, end


def _build_links_and_marks(
    tree: HtmlTree, places: TextPositions, url: str
) -> tuple[tuple[Link, ...], tuple[Mark, ...]]:
    resolver = LinkResolver(url, tree.base)
    links: list[Link] = []
    named: set[str] = set()
    for place, end, href in tree.links:
        target = resolver.resolve_link(href)
        if target:
            start, end = places.span_at(place, end)
            links.append(Link(start, end, target))
            fragment = resolver.get_fragment(target)
            if fragment:
                named |= {fragment, unquote(fragment)}
    marks = [Mark(*places.span_at(at, end), kind, value) for at, end, kind, value in tree.marks]
    for place, name in tree.anchors:
        if name in named:
            start = places.position_at(place)
            marks.append(Mark(start, start, "anchor", name))
            named.discard(name)
    links.sort(key=_START_AND_END)
    marks.sort(key=_START_AND_END)
    return tuple(links), tuple(marks)

"""Markdown and HTML as the reader of the rendered text sees it, with places in the source.

Markdown is rendered as CommonMark with tables and struck-out text, and read like a page: comments,
hidden elements and definitions show nothing, and raw HTML is HTML.
"""

import posixpath
import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from html import escape
from typing import Any
from urllib.parse import unquote, urljoin

import msgspec

from rookery.pages.html.html_parser import COMMENT_RAW_OR_TAG, read_html, simplify_markup
from rookery.pages.html.page_assembly import TextPositions

MAX_PREFIX = 1000
"""characters of marks before the text of a line, such as those of lists in lists"""
_KINDS = {"blockquote": "blockquote", "li": "item", "code": "code", "pre": "code"}
_KINDS |= dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "heading")
_NUMBER_PAIR = re.compile(r"\[\^?(\d{1,3})\]\[\^?\d{1,3}\]")
"""two citations side by side, which Markdown takes for one link on the first number"""
_PLACE = re.compile("\ufdd0(\\d{1,9})")
"""id of an empty element in the HTML: the offset of its place in the source"""
_LINK = re.compile(r"\[[^\[\]]*\]\(<?([^<>]*)>?\)")
_BACKTICKS = re.compile(r"(?<![`\\])(?:``?)(?=[^\s`])")
_NOTE = re.compile(r"(?m)^\[\^(?P<name>[^\]\n]+)\]:.*(?P<body>(?:\n(?:[ \t]*\n)*(?: {4}|\t).*)+)")
_NOTE_MARK = re.compile(r"\W*\w{0,3}\W*")
_ABSOLUTE = re.compile(r"[a-z][\w+.-]*:|/", re.IGNORECASE)
_MARKUP = re.compile(
    rf"{COMMENT_RAW_OR_TAG.pattern}|<[!?/][^>]*>|(?P<line>[^\s<>][^<\n]*)", re.I | re.S
)
"""a comment, a tag, or a line of text between tags"""
_STRUCK = re.compile(r"<(/?)(?:(s|strike)|del)(?=[\s/>])", re.IGNORECASE)


Names = dict[str, str]


class MarkdownView(msgspec.Struct, frozen=True):
    """Rendered Markdown or HTML as its reader sees it; Markdown with its own line breaks."""

    text: str
    links: list[tuple[int, int, str]]
    """start, end and address, as it is written, of what is shown of each link; a `<base>` is
    applied, and a link to a place here, such as a note, has the address of the link there"""
    elements: dict[str, list[tuple[int, int]]]
    """spans by kind: blockquote, heading, item, code"""
    paragraphs: list[int]
    """offsets at which blocks begin; cells of one row are one block"""
    breaks: list[int]
    """offsets of white space behind which a line or a cell begins for the reader"""
    places: list[tuple[int, int]]
    """offsets in the text and in the source that are the same place, ascending"""
    definitions: Names
    """addresses by the names that the Markdown defines for them"""
    notes: list[tuple[int, int, str]]
    """start, end and name of what stands below the first line of each footnote"""

    def to_source(self, at: int) -> int:
        """Return the offset in the source of a place in the text."""
        shown, written = self.places[max(bisect_right(self.places, (at, 1 << 60)) - 1, 0)]
        return written + max(at - shown, 0)

    def from_source(self, at: int) -> int:
        """Return the offset in the text of a place in the source, else of the next known one.

        Known are the beginnings of lines and the `offsets` that `view_markdown` was given. Behind
        the last one it is the end of the text.
        """
        return next((shown for shown, written in self.places if written >= at), len(self.text))


def view_markdown(source: str, offsets: Iterable[int] = (), html: bool = False) -> MarkdownView:
    """Render Markdown and read it as a page; the places of `offsets` will be known.

    With `html` the source is HTML and no Markdown, and the places of its lines are known.
    """
    source = re.sub("[\ufdd0-\ufdef]", "\ufffd", source.replace("\r\n", " \n"))
    noted = [] if html else [*_NOTE.finditer(source)]
    source = source if html else _NOTE.sub(_indent_note_less, source)
    markup, names = (_place_markup(source), {}) if html else _render(source, offsets)
    # What is struck out says nothing, however much of the text it is.
    markup = _STRUCK.sub(lambda tag: f"<{tag[1]}{'font' if tag[2] else 'span'} hidden", markup)
    tree = read_html(simplify_markup(markup))
    positions, places = TextPositions(tree), []
    text = list(positions.text)
    for place, name in tree.anchors:
        if match := _PLACE.fullmatch(name):
            at, written = positions.position_at(place), int(match[1])
            spaced = text[at : at + 1] == [" "] and text[at - 1 : at] != ["\n"]
            if spaced and not html and source[written - 1 : written] == "\n":
                text[at] = "\n"
            places.append((at + spaced, written))
    elements: dict[str, list[tuple[int, int]]] = {kind: [] for kind in _KINDS.values()}
    for tag, start, stop in zip(tree.tags, tree.starts, tree.stops, strict=True):
        span = positions.span_at(start if tag == "code" else ~start, stop)
        if span[0] < span[1] and tag in _KINDS:
            elements[_KINDS[tag]].append(span)
        quoted = elements["blockquote"]
        if tag == "li" and quoted and quoted[-1][0] == span[0]:
            # The number of an item is shown as the first word of the quotation that begins with it.
            first = positions.starts[bisect_right(positions.starts, span[0]) - 1]
            quoted[-1] = first, quoted[-1][1]
    base = tree.base
    links = [(*positions.span_at(a, z), _read_address(to, base)) for a, z, to in tree.links]
    blocks = [run.start for run in tree.runs if positions.text[run.start - 1 : run.start] != "\t"]
    visible = [link for link in links if link[0] < link[1]]
    anchors = {name: positions.position_at(place) for place, name in tree.anchors[::-1]}
    ends = [*blocks, len(text) + 1]
    for number, (start, end, href) in enumerate(visible):
        at = anchors.get(unquote(href[1:]), -1) if href.startswith("#") else -1
        if at >= 0 and _NOTE_MARK.fullmatch(positions.text, start, end):
            first, stop = bisect_left(visible, (at,)), ends[bisect_right(blocks, at)]
            near = (each for each in visible[first : first + 9] if each[0] < stop)
            urls = (url for *_, url in near if not url.startswith("#"))
            visible[number] = start, end, next(urls, href)
    breaks = [match.start() for match in re.finditer(r"[\n\t]", positions.text)]
    places = sorted(places) or [(0, 0)]
    by_source = {written: at for at, written in places}
    bodies = ((note, by_source.get(note.start("body") + 1, len(text))) for note in noted)
    notes = [(at, by_source.get(note.end() + 1, len(text)), note["name"]) for note, at in bodies]
    return MarkdownView("".join(text), visible, elements, blocks, breaks, places, names, notes)


def _render(source: str, offsets: Iterable[int]) -> tuple[str, Names]:
    """Return the HTML of Markdown, with its places, and the addresses that it defines."""
    from markdown_it import MarkdownIt

    source = _write_tex_marks(source)
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")
    # Addresses stay as they are written.
    vars(markdown).update(validateLink=lambda url: True, normalizeLink=str, normalizeLinkText=str)
    state: dict[str, Any] = {}
    tokens = markdown.parse(source, state)
    references = state.get("references", {}).items()
    names = {name.strip("^"): _read_address(each["href"]) for name, each in references}
    _add_places(tokens, source, offsets, names)
    return markdown.renderer.render(tokens, markdown.options, state), names


def _place_markup(html: str) -> str:
    """Return HTML with an empty element before each line of text, which holds its place."""
    return _MARKUP.sub(
        lambda part: f"<wbr id=\ufdd0{part.start()}>{part[0]}" if part["line"] else part[0], html
    )


def _indent_note_less(note: re.Match[str]) -> str:
    """Return a footnote of as many characters whose lines are not indented as code is."""
    body = re.sub(r"(?m)^ {4}(.*)$", r"   \1 ", note["body"].replace("\n\t", "\n "))
    return note[0][: note.start("body") - note.start()] + body


def _read_address(written: str, base: str = "") -> str:
    """Return the address of a link, on a page with this `<base>`; of a footnote that is a link,
    `[^1]: [A](b)`, that link's."""
    link = _LINK.fullmatch(written)
    href = str(link[1]) if link else written
    if not base or href.startswith("#"):
        return href
    if not (_ABSOLUTE.match(base) or _ABSOLUTE.match(href)):
        return posixpath.join(posixpath.dirname(base), href)
    try:
        return urljoin(base, href)
    except ValueError:  # no address
        return href


def _write_tex_marks(source: str) -> str:
    """Write the quotation marks of TeX (``so'', `so') as others, in as many characters.

    Such a mark is a backtick that the next backtick does not close, since that opens, too.
    """
    out, at = list[str](), 0
    while mark := _BACKTICKS.search(source, at):
        size, begun = len(mark[0]), mark.end()
        following = source.find("`", begun)
        end = following if following >= 0 else len(source)
        opens = following < 0 or (source[end - 1] in " \n(" and source[end + 1 : end + 2] != " ")
        close = re.compile(r"(?<=\S)" + "'" * size + r"(?![\w'])").search(source, begun, end)
        out.append(source[at : mark.start()])
        if opens and close and "\n\n" not in source[begun : close.start()]:
            text = source[begun : close.start()]
            out += ("\u200b“", text, "”\u200b") if size == 2 else ("‘", text, "’")
            at = close.end()
        else:
            out.append(mark[0])
            at = begun
    return "".join([*out, source[at:]])


def _add_places(tokens: list[Any], source: str, offsets: Iterable[int], names: Names) -> None:
    """Put empty elements into the tokens, which hold the places of lines and of `offsets`."""
    lines = [0, *(match.end() for match in re.finditer("\n", source))]
    due = deque(sorted({*lines, *offsets}))
    position = 0
    for token in tokens:
        first = token.map[0] if token.map else 0
        if token.type == "inline":
            position = _place_inline(token, source, max(position, lines[first]), due, names)
        elif token.type in ("fence", "code_block"):
            first += token.type == "fence"
            parts = enumerate(token.content.splitlines(keepends=True), first)
            body = "".join(_take_places(due, lines[n]) + escape(line) for n, line in parts)
            token.type, token.content = "html_block", f"<pre><code>{body}</code></pre>\n"
        elif token.type == "html_block":
            token.content = _take_places(due, lines[first]) + token.content


def _take_places(due: deque[int], until: int) -> str:
    """Return the elements of the places that are due up to an offset, and forget them."""
    taken = ""
    while due and due[0] <= until:
        taken += f'<wbr id="\ufdd0{due.popleft()}">'
    return taken


def _place_inline(token: Any, source: str, position: int, due: deque[int], names: Names) -> int:
    """Put the places that are due into inline Markdown that begins at or behind `position`; return
    where it ends."""
    content, origins, at = str(token.content), [], 0
    for line in content.split("\n"):
        position = max(source.find(line, position, position + len(line) + MAX_PREFIX), position)
        origins.append((at, position))
        at, position = at + len(line) + 1, position + len(line)

    def locate_offset(offset: int) -> int:
        begun, written = origins[bisect_right(origins, (offset, 1 << 60)) - 1]
        return written + offset - begun

    children, at, skipped = [], 0, False
    for child in token.children:
        kind, text = child.type, child.content
        written = text if kind in ("text", "html_inline") else child.markup
        if kind == "link_open":
            written = "<" if child.markup == "autolink" else "["
        written = "\n" if kind.endswith("break") else written
        at = max(content.find(written, at), at)
        if kind == "text" and skipped:
            due.appendleft(locate_offset(at))
        html = _take_places(due, locate_offset(at)) if written else ""
        skipped = kind in ("link_close", "image", "code_inline", "text_special")
        pair = _NUMBER_PAIR.match(content, at) if kind == "link_open" else None
        if pair and pair[1] in names:
            html += f'<a href="{escape(names[pair[1]])}">[{pair[1]}]</a>'
        if kind in ("text", "text_special"):
            while kind == "text" and due and due[0] < locate_offset(at) + len(text):
                cut = due[0] - locate_offset(at)
                html += escape(text[:cut]) + _take_places(due, due[0])
                at, text = at + cut, text[cut:]
            html += escape(text)
            written = text if kind == "text" else written
        at += len(written)
        if kind == "code_inline":
            at = content.find(child.markup, at + len(text)) + len(child.markup)
        html_token = type(child)("html_inline", "", 0, content=html)
        children += [html_token] if kind in ("text", "text_special") else [html_token, child]
    end = _take_places(due, position - 1)
    token.children = [*children, type(token)("html_inline", "", 0, content=end)]
    return position

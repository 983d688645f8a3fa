"""A page as it is shown a window at a time (WebGPT, appendix A): links numbered, scripts marked.

Everything is worked out from where the window stands, so that no step grows with the page. It
knows nothing of sessions; all places are offsets into the page's text.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple
from unicodedata import combining
from urllib.parse import unquote

import msgspec

from rookery.browse.view import between, neutral
from rookery.records import Block, Link, Page

WORD = 200
"""characters: a longer word is cut at the end of a window"""
KEPT_WINDOWS = 256
"""of one page, so that they are not drawn again"""
SCRIPTS = {"sup": "^", "sub": "_"}
_HOST = re.compile(r"https?://(?:[^/?#]*@)?(\[[^\]/]*\]|[^/?#:]*)", re.IGNORECASE)
_start = attrgetter("start")
_end = attrgetter("end")
Inserted = tuple[int, int, str]
"""a place, the order among what is put in there, and what is put in"""


class Window(NamedTuple):
    """What is shown of text[start:end] of a page."""

    text: str
    start: int
    end: int


class Piece(NamedTuple):
    """What a window shows of one block; what has no width belongs to it up to `stop`."""

    block: Block
    start: int
    end: int
    stop: int


class Part(NamedTuple):
    """What a window shows of text[start:end] of a page: of nothing, where it puts something in."""

    text: str
    start: int
    end: int
    block: Block


class View:
    """The article view of a page, or with `full` all that it shows; `blocked` domains unlinked."""

    def __init__(self, page: Page, size: int, blocked: tuple[str, ...], full: bool = False) -> None:
        self.page = page
        self.full = full
        self.domain = domain_of(page.url)
        self._size = size
        self._blocked = blocked
        self._windows: dict[int, Window] = {}

    @cached_property
    def top(self) -> int:
        """Where the first window starts."""
        return next((block.start for block in self.page.blocks if self._shows(block)), 0)

    @cached_property
    def bottom(self) -> int:
        """Where what is shown ends."""
        backwards = reversed(self.page.blocks)
        return next((block.end for block in backwards if self._shows(block)), 0)

    def window(self, top: int) -> Window:
        """The window that starts at `top` or, where nothing is shown there, next after it."""
        window = self._windows.get(top)
        if window is None:
            if len(self._windows) >= KEPT_WINDOWS:
                self._windows.clear()
            window = self._windows[top] = self._drawn(top)
        return window

    def below(self, top: int) -> int:
        """Where the window below the one at `top` starts; `top` itself at the bottom."""
        following = self.window(top).end
        return following if following < self.bottom else top

    def above(self, top: int) -> int:
        """Where the window above the one at `top` starts; `top` itself at the top."""
        at = self._before(top)
        # A paragraph that is cut here may not have begun in the window above: then go less far.
        while (following := self.window(self.window(at).end).start) < top:
            at = following
        return at

    def around(self, place: int) -> int:
        """Where a window starts that shows `place`: at its block, or a little above."""
        number = bisect_right(self.page.blocks, place, key=_start) - 1
        start = self.page.blocks[number].start if number >= 0 else 0
        if place - start <= self._size // 2:
            return start
        return self._cut(start, place - self._size // 4, place)

    def shows(self, place: int) -> bool:
        """Whether this view shows the block at a place."""
        number = bisect_right(self.page.blocks, place, key=_start) - 1
        return number >= 0 and self._shows(self.page.blocks[number])

    def link(self, number: int) -> Link | None:
        """The link with this ID, if the view shows it: its index on the page."""
        links = self.page.links
        if number >= len(links) or is_below(domain_of(links[number].url), self._blocked):
            return None
        return links[number] if self.shows(links[number].start) else None

    def anchor(self, name: str) -> int | None:
        """The place that a fragment of an address names."""
        names = (name, unquote(name))
        marks = (mark for mark in self.page.marks if mark.kind == "anchor" and mark.value in names)
        return next((mark.start for mark in marks), None)

    def scrollbar(self, window: Window) -> tuple[int, int]:
        """Where the window begins and ends, in percent of what the view shows."""
        size = max(self.bottom - self.top, 1)
        start, end = (min(max(place - self.top, 0), size) for place in (window.start, window.end))
        return 100 * start // size, -(-100 * end // size)

    def words(self, link: Link) -> str:
        """What the words of a link are, or the text that stands for its image."""
        text = neutral(" ".join(self.page.text[link.start : link.end].split()))
        if text:
            return text
        marks = self.page.marks
        for number in range(bisect_left(marks, link.start, key=_start), len(marks)):
            if marks[number].start > link.start:
                break
            if marks[number].kind == "image":
                return _image(marks[number].value)
        return ""

    def _shows(self, block: Block) -> bool:
        return not block.hidden and (self.full or block.article)

    def _before(self, top: int) -> int:
        """Where whole blocks start that together fill a window up to `top`; a longer one is cut."""
        left = self._size
        number = bisect_left(self.page.blocks, top, key=_start)
        while number > 0 and left > 0:
            number -= 1
            block = self.page.blocks[number]
            if not self._shows(block):
                continue
            end = min(block.end, top)
            if end - block.start > left:
                return top if left < self._size / 2 else self._cut(block.start, end - left, end)
            left -= end - block.start
            top = block.start
        return top

    def parts(self, top: int) -> Iterator[Part]:
        """The same window part by part; joined, they read as it does, but for its last white
        space."""
        pieces = list(self._pieces(top))
        text = self._neutral(pieces)
        for piece, gap, marks in self._marked(pieces):
            if gap:
                yield Part(gap, piece.start, piece.start, piece.block)
            for start, end, mark in _between(marks, piece):
                if start < end:
                    first = pieces[0].start
                    yield Part(text[start - first : end - first], start, end, piece.block)
                if mark:
                    yield Part(mark, end, end, piece.block)

    def _drawn(self, top: int) -> Window:
        pieces = list(self._pieces(top))
        if not pieces:
            return Window("", top, top)
        first = pieces[0].start
        text = self._neutral(pieces)
        shown: list[str] = []
        for piece, gap, marks in self._marked(pieces):
            shown.append(gap)
            for start, end, mark in _between(marks, piece):
                shown += (text[start - first : end - first], mark)
        return Window("".join(shown).rstrip(), first, pieces[-1].end)

    def _neutral(self, pieces: list[Piece]) -> str:
        return neutral(self.page.text[pieces[0].start : pieces[-1].end]) if pieces else ""

    def _marked(self, pieces: list[Piece]) -> Iterator[tuple[Piece, str, list[Inserted]]]:
        """Each piece with what stands before it and what is put into it."""
        if not pieces:
            return
        links, found = self.page.links, self.page.marks
        start = pieces[0].start
        link, mark = self._first_link(start), bisect_left(found, start, key=_start)
        before: Block | None = None
        for piece in pieces:
            gap = ""
            if before is not None:
                gap = between(self.page.text[before.end : piece.block.start], before, piece.block)
            before = piece.block
            marks: list[Inserted] = []
            if link < len(links) and links[link].start < piece.stop:
                link = self._add_links(marks, piece, link)
            if mark < len(found) and found[mark].start < piece.stop:
                mark = self._add_marks(marks, piece, mark)
            yield piece, gap, marks

    def _pieces(self, top: int) -> Iterator[Piece]:
        """Whole blocks from `top` on, as many as a window holds; one that is longer is cut."""
        blocks, left = self.page.blocks, self._size
        for number in range(bisect_right(blocks, top, key=_end), len(blocks)):
            block = blocks[number]
            if not self._shows(block):
                continue
            start = max(block.start, top)
            if block.end - start > left:
                if left >= self._size / 2:
                    cut = self._cut(start, start + left, block.end)
                    yield Piece(block, start, cut, cut)
                return
            left -= block.end - start
            last = number + 1 == len(blocks)
            stop = len(self.page.text) + 1 if last else blocks[number + 1].start
            yield Piece(block, start, block.end, stop)

    def _cut(self, start: int, place: int, end: int) -> int:
        """Where a word begins at or before `place`, and after `start`; else `place`, between
        whole characters."""
        text = self.page.text
        for at in range(place, max(place - WORD, start), -1):
            if text[at - 1].isspace() and not text[at : at + 1].isspace():
                return at
        while start + 1 < place < end and combining(text[place]):
            place -= 1
        return place

    def _first_link(self, start: int) -> int:
        """The first link at or after a place, or the one that reaches beyond it."""
        links = self.page.links
        number = bisect_left(links, start, key=_start)
        return number - 1 if number and links[number - 1].end > start else number

    def _add_links(self, marks: list[Inserted], piece: Piece, number: int) -> int:
        """Marks the links of a piece that may be followed, none within another, from the one of
        this number on; the number to go on from in the next piece."""
        links = self.page.links
        done = piece.start
        while number < len(links) and links[number].start < piece.stop:
            start, end, url = (
                max(links[number].start, piece.start),
                links[number].end,
                links[number].url,
            )
            domain = domain_of(url)
            if start >= done and not is_below(domain, self._blocked):
                ending = "】" if domain == self.domain else f"†{domain}】"
                if end > start and piece.end > start:
                    marks.append((start, 2, f"【{number}†"))
                    marks.append((min(end, piece.end), 0, ending))
                elif end == start and (image := self.words(links[number])):
                    linked = f"【{number}†{image}{ending}"
                    marks.append((start, 1, self._apart(linked, start, piece)))
            if end > piece.stop:
                break
            done = max(done, end)
            number += 1
        return number

    def _add_marks(self, marks: list[Inserted], piece: Piece, number: int) -> int:
        """Marks the images and the raised, lowered and annotated letters of a piece, likewise."""
        found = self.page.marks
        linked = {place for place, order, _ in marks if order == 1}
        while number < len(found) and found[number].start < piece.stop:
            start, end, kind, value = msgspec.structs.astuple(found[number])
            if kind == "image" and start not in linked:
                marks.append((start, 3, self._apart(_image(value), start, piece)))
            elif kind in SCRIPTS and end > start:
                marks.append((start, 4, SCRIPTS[kind]))
            elif kind == "ruby" and end <= piece.end:
                marks.append((end, -1, f"({neutral(value)})"))
            number += 1
        return number

    def _apart(self, image: str, place: int, piece: Piece) -> str:
        """What stands for an image, with white space between it and the words beside it."""
        around = self.page.text[place - 1 : place], self.page.text[place : place + 1]
        before = piece.start < place <= piece.end and not around[0].isspace()
        after = place < piece.end and not around[1].isspace()
        return f"{' ' * before}{image}{' ' * after}"


def _between(marks: list[Inserted], piece: Piece) -> Iterator[tuple[int, int, str]]:
    """A piece cut where something is put in: from where to where, and what is put in there."""
    done = piece.start
    for place, _, mark in sorted(marks):
        at = max(min(place, piece.end), done)
        yield done, at, mark
        done = at
    yield done, piece.end, ""


def _image(words: str) -> str:
    """What stands for an image (WebGPT, appendix A)."""
    words = neutral(" ".join(words.split()))
    return f"[Image: {words}]" if words else "[Image]"


def domain_of(url: str) -> str:
    """The host that an address names; empty for a file and for no address."""
    host = _HOST.match(url)
    return host[1].lower() if host else ""


def is_below(domain: str, names: tuple[str, ...]) -> bool:
    """Whether a domain is one of these or below it (WebGPT, appendix A: reddit.com, quora.com)."""
    domain = domain.rstrip(".")
    return any(domain.endswith(name) and domain[: -len(name)][-1:] in ("", ".") for name in names)

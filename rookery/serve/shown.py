"""The text of one window as a terminal shows it: words in rows, links numbered, nothing unseen.

It knows nothing of keys and of what else is on the screen.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from prompt_toolkit.utils import get_cwidth

from rookery.browse.find import Finder, Span
from rookery.browse.passages import sentences
from rookery.records import Block, Page
from rookery.serve.terminal import clean

_LINK = re.compile(r"【([0-9]+)†(.*?)(?:†([^†】]*))?】", re.DOTALL)
# Between ideographs a line may end anywhere, and each can be chosen as words can.
_IDEOGRAPH = (
    "\u2e80-\u312f\u3190-\u31ff\u3400-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"[{_IDEOGRAPH}][\u0300-\u036f\u3099\u309a\ufe00-\ufe0f]*|[^\s{_IDEOGRAPH}]+")
_WIDE = re.compile(f"[{_IDEOGRAPH}]")
_IMAGE = re.compile(r"\[Image(?:: [^\]]*)?\]")
_LINE_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_MARKS = ("number", "domain", "image")


class Word(NamedTuple):
    """What is shown without a break, unless it is longer than a row."""

    text: str
    start: int
    end: int
    """it stands for plain[start:end]; a mark, such as the number of a link, for nothing"""
    style: str = ""
    gap: str = ""
    """the white space before it"""


class Shown:
    """A window's text, taken apart."""

    def __init__(self, text: str) -> None:
        self.plain = _IMAGE.sub("", _LINK.sub(r"\2", text))
        """the text without the marks of links and images, as it can be quoted"""
        self.links = {int(found[1]): _line(found[2]) for found in _LINK.finditer(text)}
        """what each link in it says"""
        self.words = list(_words(text))
        self._rows: tuple[int, list[list[Word]]] = 0, []

    def rows(self, columns: int) -> list[list[Word]]:
        """The words as lines of at most so many columns, 2 or more."""
        if self._rows[0] != columns:
            self._rows = columns, list(_rows(self.words, columns))
        return self._rows[1]

    def places(self, text: str, spaced: bool) -> list[Span]:
        """Where a text stands in `plain`; without `spaced`, whatever its white space."""
        return list(self._finder.following(text, 0, spaced))

    def sentences(self) -> list[Span]:
        """Where the sentences of `plain` are; one that ends with its line ends there."""
        lines: list[Block] = []
        at = 0
        for line in self.plain.split("\n"):
            lines.append(Block(at, at + len(line), "paragraph"))
            at += len(line) + 1
        return sentences(Page("", "", self.plain, tuple(lines)), 0, len(self.plain))

    @cached_property
    def _finder(self) -> Finder:
        return Finder(self.plain)


def _line(text: str) -> str:
    return clean(" ".join(text.split()))


def _words(text: str) -> Iterator[Word]:
    """The words of a window's text, each link's behind its number and before its domain."""
    gap, at = "", 0  # the place in the text without marks
    for piece, style in _pieces(text):
        if style in _MARKS:
            yield Word(_line(piece), at, at, style, gap if style != "domain" else " ")
            gap = gap if style == "domain" else ""
            continue
        done = 0
        for word in _WORD.finditer(piece):
            gap += piece[done : word.start()]
            done = word.end()
            yield Word(clean(word[0]), at + word.start(), at + done, style, gap)
            gap = ""
        gap += piece[done:]
        at += len(piece)


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """The text between marks, the words of links, and the marks, each with its style."""
    done = 0
    for link in _LINK.finditer(text):
        yield from _images(text[done : link.start()], "")
        yield f"[{link[1]}]", "number"
        yield from _images(link[2], "link")
        if link[3]:
            yield f"({link[3]})", "domain"
        done = link.end()
    yield from _images(text[done:], "")


def _images(text: str, style: str) -> Iterator[tuple[str, str]]:
    done = 0
    for image in _IMAGE.finditer(text):
        yield text[done : image.start()], style
        yield image[0], "image"
        done = image.end()
    yield text[done:], style


def _rows(words: Sequence[Word], columns: int) -> Iterator[list[Word]]:
    row: list[Word] = []
    used = 0
    for unit in _units(words):
        *ended, gap = _LINE_BREAK.split(unit[0].gap)
        if ended and unit[0] is not words[0]:
            yield row
            if len(ended) > 1:
                yield []  # however many lines are blank
            row, used = [], 0
        gap = "".join("    " if white == "\t" else " " for white in gap)[: columns // 2]
        whole = sum(get_cwidth(word.text) for word in unit)
        if row and used + len(gap) + whole > columns >= whole:
            yield row
            row, used, gap = [], 0, ""
        for word in unit:
            for part in _parts(word.text, columns):
                if row and used + len(gap) + get_cwidth(part) > columns:
                    yield row
                    row, used, gap = [], 0, ""
                gap = gap if row else gap[: columns - get_cwidth(part)]
                row.append(word._replace(text=part, gap=gap))
                used += len(gap) + get_cwidth(part)
                gap = ""
    if row:
        yield row


def _units(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Words that no line end comes between: a link's number and words, and what follows closely."""
    unit: list[Word] = []
    for word in words:
        if unit and (word.gap or _WIDE.match(word.text) or _WIDE.match(unit[-1].text)):
            yield unit
            unit = []
        unit.append(word)
    if unit:
        yield unit


def _parts(text: str, columns: int) -> Iterator[str]:
    """A word in parts that fit a row; what combines with a letter stays with it."""
    part, used = "", 0
    for letter in text:
        width = get_cwidth(letter)
        if part and used + width > columns:
            yield part
            part, used = "", 0
        part += letter
        used += width
    if part:
        yield part


class Pane:
    """What is seen of a window: so many rows of its text, from `top` on."""

    def __init__(self) -> None:
        self.window = Shown("")
        self.columns, self.height = 80, 20
        self.top = 0

    def rows(self) -> list[list[Word]]:
        """All rows of the window's text."""
        return self.window.rows(self.columns)

    def put(self, window: Shown) -> None:
        """Shows another window, from its top on."""
        self.window, self.top = window, 0

    def fit(self, columns: int, height: int) -> None:
        """Has this size from now on; what was seen first stays in sight."""
        if columns != self.columns:
            seen = self.place()
            self.columns = columns
            self.top = self._row_of(seen) if self.top else 0
        self.height = max(height, 1)
        self.scroll(0)

    def scroll(self, rows: int) -> None:
        """Moves by so many rows, as far as the text goes."""
        self.top = max(0, min(self.top + rows, len(self.rows()) - self.height))

    def place(self) -> int:
        """The place in the plain text where what is seen begins."""
        return next((row[0].start for row in self.rows()[self.top :] if row), 0)

    def show(self, place: int) -> None:
        """Moves only if this place in the plain text is not seen."""
        row = self._row_of(place)
        if not self.top <= row < self.top + self.height:
            self.top = row
            self.scroll(-(self.height // 3))

    def below(self) -> int:
        """How many rows there are below what is seen."""
        return max(0, len(self.rows()) - self.top - self.height)

    def _row_of(self, place: int) -> int:
        rows = enumerate(self.rows())
        return next((number for number, row in rows if row and row[-1].end > place), 0)

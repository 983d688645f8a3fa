"""The text of one window in a terminal: rows of words, links numbered, no unseen characters."""

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prompt_toolkit.utils import get_cwidth

from rookery.browse.page_view import WindowPart
from rookery.browse.text_search import Span
from rookery.serve.demonstration_commands import WORD
from rookery.serve.terminal_output import sanitize_text

_LINK = re.compile(r"【([0-9]+)†(.*?)(?:†[^†】]*)?】", re.DOTALL)
_MARK = re.compile(r"【([0-9]+)†|†([^†】]*)】|】|\[Image(?:: [^\]]*)?\]")


class TerminalText:
    """The text of a window as a terminal shows it, character by character.

    The `parts` of a page's window tell the offset in the page that each character stands at;
    without parts, as for results, it is the offset in the window's text.
    """

    def __init__(self, text: str, parts: Iterable[WindowPart] = ()) -> None:
        places = [
            part.start + (number if part.start < part.end else 0)
            for part in parts
            for number in range(len(part.text))
        ] or range(len(text))
        self.links = {
            int(found[1]): sanitize_text(" ".join(found[2].split()))
            for found in _LINK.finditer(text)
        }
        """what each link in it says"""
        self.places: list[int] = []
        """of each shown character"""
        self.styles: list[str] = []
        shown: list[str] = []
        for piece, at, style in _split_marks(text):
            for number, letter in enumerate(piece):
                for character in "    " if letter == "\t" else _clean_letter(letter):
                    shown.append(character)
                    self.styles.append(style)
                    self.places.append(places[at if style in ("number", "domain") else at + number])
        self.text = "".join(shown)

    def wrap_rows(self, columns: int) -> list[Span]:
        """Return the spans of the rows of the text, each at most `columns` (2 or more) wide.

        Several blank lines in a row become one blank row; blank lines at the top are left out.
        """
        rows: list[Span] = []
        at = 0
        for line in self.text.splitlines(keepends=True):
            if line.strip():
                rows += [(at + start, at + end) for start, end in wrap_line(line.rstrip(), columns)]
            elif rows and rows[-1][0] < rows[-1][1]:
                rows.append((at, at))
            at += len(line)
        return rows


def _clean_letter(letter: str) -> str:
    """Return a character without its harm: of white space, only the ends of lines stay."""
    if letter.isspace():
        return "\n" if letter in "\n\x85\u2028\u2029" else " "
    return sanitize_text(letter)


def _split_marks(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield what is shown of a window's text in pieces, each with its place and its style."""
    style, done = "", 0
    for mark in _MARK.finditer(text):
        yield text[done : mark.start()], done, style
        if mark[1]:
            yield f"[{mark[1]}]", mark.start(), "number"
            style = "link"
        elif mark[2]:
            yield " ", mark.start(), ""
            yield f"({mark[2]})", mark.start(), "domain"
        elif mark[0].startswith("["):
            yield mark[0], mark.start(), "image"
        style = "" if mark[0].endswith("】") else style
        done = mark.end()
    yield text[done:], done, style


def wrap_line(line: str, columns: int, words: re.Pattern[str] = WORD) -> Iterator[Span]:
    """Yield the spans of a line's rows, broken between words, or within a word too long."""
    start = end = 0
    for word in words.finditer(line):
        fits = get_cwidth(word[0]) <= columns
        if fits and word.start() > start and get_cwidth(line[start : word.end()]) > columns:
            yield start, end
            start = word.start()
        end = word.end()
        while get_cwidth(line[start:end]) > columns:
            widths = accumulate(map(get_cwidth, line[start:end]))
            cut = start + max(sum(width <= columns for width in widths), 1)
            yield start, cut
            start = cut
    yield start, end


class TerminalPane:
    """The visible rows of a window's text, from row `top` on."""

    def __init__(self) -> None:
        self.window = TerminalText("")
        self.rows: list[Span] = []
        """the spans of all rows of the text"""
        self.columns, self.height = 80, 20
        self.top = 0

    def show_window(self, window: TerminalText) -> None:
        """Replace the text that is shown, and go to its top."""
        self.window, self.top = window, 0
        self.rows = window.wrap_rows(self.columns)

    def resize_pane(self, columns: int, height: int) -> None:
        """Set the size; the first visible row stays visible."""
        if columns != self.columns:
            seen = self.get_top_place()
            self.columns = columns
            self.rows = self.window.wrap_rows(columns)
            self.top = self._find_row(seen) if self.top else 0
        self.height = max(height, 1)
        self.scroll_rows(0)

    def scroll_rows(self, rows: int) -> None:
        """Scroll down by so many rows, or up if negative, as far as the text goes."""
        self.top = max(0, min(self.top + rows, len(self.rows) - self.height))

    def get_top_place(self) -> int:
        """Return the offset in the page of the first visible character; 0 if none is visible."""
        seen = (start for start, end in self.rows[self.top :] if start < end)
        return next((self.window.places[start] for start in seen), 0)

    def scroll_to_place(self, place: int) -> None:
        """Scroll to this offset in the page, unless it is visible already."""
        row = self._find_row(place)
        if not self.top <= row < self.top + self.height:
            self.top = row
            self.scroll_rows(-(self.height // 3))

    def count_rows_below(self) -> int:
        """Return the number of rows below the visible ones."""
        return max(0, len(self.rows) - self.top - self.height)

    def _find_row(self, place: int) -> int:
        rows = enumerate(self.rows)
        ends = ((number, end) for number, (start, end) in rows if start < end)
        return next((number for number, end in ends if self.window.places[end - 1] >= place), 0)


class QuoteSelection:
    """A part of a page's text, moved by sentences and words until its beginning is `fixed`, then
    stretched and shrunk at its end."""

    def __init__(self, text: str, sentences: list[Span], words: list[Span], after: int = 0) -> None:
        self._page_text = text
        self._words = words
        self._sentences = sentences or words
        self.start_fixed = False
        last = self._sentences[-1]
        self.start, self.end = next((s for s in self._sentences if s[0] >= after), last)

    @property
    def text(self) -> str:
        """The selected text of the page."""
        return self._page_text[self.start : self.end]

    def move_by_sentence(self, forward: bool) -> None:
        """Select the next or previous sentence; once the start is fixed, move only the end."""
        self._move_edge(self._sentences, forward)

    def move_by_word(self, forward: bool) -> None:
        """Select the next or previous word; once the start is fixed, move only the end."""
        self._move_edge(self._words, forward)

    def _move_edge(self, spans: list[Span], forward: bool) -> None:
        if self.start_fixed:
            ends = [end for _, end in spans if end > self.start]
            later, earlier = (e for e in ends if e > self.end), (e for e in ends if e < self.end)
            self.end = min(later, default=self.end) if forward else max(earlier, default=self.end)
        elif forward:
            later_spans = (span for span in spans if span[0] > self.start)
            self.start, self.end = min(later_spans, default=(self.start, self.end))
        else:
            earlier_spans = (span for span in spans if span[0] < self.start)
            self.start, self.end = max(earlier_spans, default=(self.start, self.end))

"""The text browser's screen, line by line, for any size: what is above and below the typed line.

It decides where things stand and how they look, and tells the desk how much of the text is seen.
It knows no keyboard.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from textwrap import dedent
from typing import NamedTuple

from prompt_toolkit.utils import get_cwidth

from rookery.browse.browser import Searching
from rookery.browse.find import Span
from rookery.browse.view import neutral
from rookery.browse.window import domain_of
from rookery.records import Quote
from rookery.serve.desk import Desk
from rookery.serve.shown import Shown, Word
from rookery.serve.terminal import clean
from rookery.serve.typed import NUMBER

Line = list[tuple[str, str]]
"""styles and texts, one behind the other"""
WIDEST = 100
"""columns of text: longer lines are hard to read"""
STYLES = {
    "question": "bold",
    "quiet": "dim",
    "title": "bold",
    "number": "bold ansicyan",
    "link": "underline",
    "domain": "dim",
    "quoted": "italic ansigreen",
    "found": "bold reverse",
    "marked": "reverse",
    "trouble": "bold ansired",
    "note": "bold ansimagenta",
    "key": "bold",
}
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_BAR = 10
_TYPED = 4
"""rows, at most, for a command that is typed"""
_WELCOME = dedent(
    """\
    Nothing is open yet.

    /  begins a search. Type what you look for, then Enter.
    The number of a link, then Enter, opens it.
    q  quotes what supports an answer, a  begins to answer.
    ?  shows all keys and commands."""
)
HELP = dedent(
    """\
    Keys, while the command line is empty

    / or s         search
    12 Enter       open link 12
    f, n           find on this page; find it again
    q or "         quote: choose a part of the text
    space, PgDn    read on, screen by screen
    b, PgUp        read backwards
    ↑ ↓            move by a line
    g, Home        to the top of the page
    ←, Backspace   back to the page before
    v              all quotes in full
    a              answer: reading ends, writing begins
    u              take the last command back
    Esc            leave off; stop waiting for a page
    Ctrl-C         leave

    While choosing a quote, ↓ ↑ go by sentences, → ← by words. Enter sets its start, then its end.

    Commands, as they are typed and stored (Tab completes)

    Search <query>             Scrolled down <1, 2, 3>
    Clicked on link <number>   Scrolled up <1, 2, 3>
    Find in page: <text>       Top
    Quote: <text>              Back
    End: Answer                End: <Nonsense, Controversial>

    A long quote may be typed as its beginning and its end with ━ between them."""
)
_HINTS = {
    "browse": (
        "?:help", "/:search", "12⏎:link", "space:down", "q:quote", "a:answer", "b:up", "⌫:back",
        "f:find", "u:undo", "v:quotes", "^C:leave",
    ),
    "waiting": ("Esc:leave off",),
    "mark": ("⏎:from here", "↓↑:sentence", "→←:word", "Esc:leave off"),
    "fixed": ("⏎:quote it", "↓↑:sentence", "→←:word", "Esc:other beginning"),
    "help": ("↓↑:scroll", "Esc:close"),
    "quotes": ("↓↑:scroll", "Esc:close"),
    "begin": ("⏎:go on", "^C:leave"),
    "ask": ("⏎:answer it", "Esc:read on", "^C:leave"),
    "answer": ("^S:save", "PgUp PgDn:quotes", "Esc:read on", "^C:leave"),
    "end": ("⏎:save", "Esc:read on", "^C:leave"),
    "leave": ("k:keep, to go on later", "d:drop", "Esc:stay"),
}  # fmt: skip
_QUESTIONS = {
    "begin": "What do you want to find out? Enter alone: just reading.",
    "leave": "Leave? What you did can be kept, to go on later.",
    "ask": "Which question do these quotes answer?",
    "mark": "Where does the quote begin?",
    "fixed": "Where does it end?",
}


class Frame(NamedTuple):
    """The screen: what stands above what is typed, the rows that it has, and what stands below."""

    above: list[Line]
    typed: int
    below: list[Line]


def frame(desk: Desk, columns: int, rows: int, typed: str, clock: float) -> Frame:
    """The screen as it is now; `clock` (seconds) turns what shows that something is awaited."""
    below = [*_note(desk, columns, typed, clock), _hints(desk, columns)]
    head = _head(desk, columns, rows)
    quotes = desk.sitting.shown.quotes
    left = rows - len(head) - len(below) - 1
    if desk.view == "answer":
        full = _in_full(quotes, columns)
        middle = _turned(desk, full, min(len(full), left * 2 // 3))
        lines = _rule(
            columns, f"{_more(desk, full, middle)} your answer; cite with [1], [2]".lstrip()
        )
        return _framed([*head, *middle, lines], left - len(middle), below, rows)
    typing = -(-(get_cwidth(prompt(desk) + typed) + 1) // max(columns, 1))
    typing = min(typing, _TYPED)
    if desk.view in ("help", "quotes"):
        text = wrapped(HELP, columns) if desk.view == "help" else _in_full(quotes, columns)
        middle = _turned(desk, text, left - typing)
        return _framed(
            [*head, *middle, _rule(columns, _more(desk, text, middle))], typing, below, rows
        )
    collected = _collected(quotes, columns, max(rows // 5, 1))
    desk.pane.fit(max(min(columns - 2, WIDEST), 2), left - typing - len(collected))
    above = [*head, *_window(desk), _rule(columns, _ahead(desk)), *collected]
    return _framed(above, typing, below, rows)


def prompt(desk: Desk) -> str:
    """What stands before what is typed."""
    return "Question: " if desk.mode == "ask" else "› "


def preview(desk: Desk, number: int) -> str:
    """Where a link leads whose number is typed, as far as the page says it."""
    said = desk.pane.window.links.get(number)
    return f"link {number}: {said}" if said is not None else f"link {number} is not in sight"


def _framed(above: list[Line], typed: int, below: list[Line], rows: int) -> Frame:
    """What is typed and said goes before all else where there is little room."""
    typed = max(typed, 1)
    return Frame(above[: max(rows - typed - len(below), 0)], typed, below)


def wrapped(text: str, columns: int) -> list[Line]:
    """Text that holds no links, in lines of at most so many columns."""
    rows = Shown(neutral(text)).rows(max(columns, 2))
    return [[("", "".join(word.gap + word.text for word in row))] for row in rows]


def fitted(text: str, columns: int) -> str:
    """As much of the beginning of a text as fits, on one line."""
    line = _one_line(text[: 8 * columns])
    return line if get_cwidth(line) <= columns else f"{_begun(line, columns - 1)}…"


def elided(text: str, columns: int) -> str:
    """The beginning and the end of a text, in whole words, where not all of it fits on one line."""
    line = _one_line(text)
    if get_cwidth(line) <= columns:
        return line
    front = _words(line, (columns - 3) * 3 // 5)
    back = _words(line[::-1], columns - 3 - get_cwidth(front))[::-1]
    return f"{front} … {back}" if front and back else fitted(text, columns)


def _one_line(text: str) -> str:
    return clean(" ".join(text.split()))


def _begun(line: str, columns: int) -> str:
    widths = accumulate(map(get_cwidth, line))
    return "".join(letter for letter, end in zip(line, widths, strict=True) if end <= columns)


def _words(line: str, columns: int) -> str:
    """As many words of the beginning of a longer line as fit."""
    begun = _begun(line, columns)
    return begun if line[len(begun)] == " " else begun.rpartition(" ")[0]


def painted(row: Sequence[Word], highlights: Iterable[tuple[Span, str]]) -> Line:
    """A row of words with what is highlighted in it."""
    line: Line = [("", " ")]
    before = -1
    for word in row:
        style, gap = (f"class:{word.style}" if word.style else ""), ""
        for (start, end), name in highlights:
            if start < max(word.end, word.start + 1) and word.start < end:
                style += f" class:{name}"
                gap = f"{gap} class:{name}" if start < before else gap
        line += [(gap, word.gap), (style, word.text)]
        before = word.end
    return line


def _head(desk: Desk, columns: int, rows: int) -> list[Line]:
    shown = desk.sitting.shown
    left = f"{shown.left} actions left" if columns >= 80 else f"{shown.left} left"
    question = desk.sitting.task.question.text or "No question yet: just reading"
    room = columns - len(left) - 2
    lines = [_text(line) for line in wrapped(question, room)]
    most = max(rows // 10, 1)
    lines = [*lines[: most - 1], fitted(" ".join(lines[most - 1 :]), room)]
    head: list[Line] = [[("class:question", line)] for line in lines if line] or [[]]
    head[0] = _apart(head[0], [("class:quiet", left)], columns)
    if desk.view == "page":
        start, end = shown.scrollbar
        bar = [("class:quiet", f"{_bar(start, end)} {start:2}–{end}%")] if shown.text else []
        title = fitted(shown.title or "A text browser", columns - _width(bar) - 2)
        head.append(_apart([("class:title", title)], bar, columns))
    return [*head, _rule(columns)]


def _bar(start: int, end: int) -> str:
    first = min(start * _BAR // 100, _BAR - 1)
    last = max(-(-end * _BAR // 100), first + 1)
    return "░" * first + "█" * (last - first) + "░" * (_BAR - last)


def _window(desk: Desk) -> list[Line]:
    """What is seen of the page, padded to its height."""
    shown = desk.sitting.shown
    if not shown.text:
        text = "This page shows no text." if shown.title else _WELCOME
        lines = [[("", f" {_text(line)}")] for line in wrapped(text, desk.pane.columns)]
    else:
        highlights = desk.highlights()
        seen = desk.pane.rows()[desk.pane.top :][: desk.pane.height]
        lines = [painted(row, highlights) for row in seen]
    return _padded(lines, desk.pane.height)


def _turned(desk: Desk, lines: list[Line], height: int) -> list[Line]:
    """What is seen of something that covers the page, scrolled as far as it goes."""
    desk.over = max(0, min(desk.over, len(lines) - height))
    return _padded(lines[desk.over : desk.over + height], height)


def _in_full(quotes: Sequence[Quote], columns: int) -> list[Line]:
    lines: list[Line] = []
    for number, quote in enumerate(quotes, 1):
        source = fitted(_source(quote), columns - 6)
        lines += [[("class:number", f"[{number}] "), ("class:title", source)]]
        lines += [[("", f"    {_text(line)}")] for line in wrapped(quote.text, columns - 5)]
        lines.append([])
    return lines[:-1]


def _collected(quotes: Sequence[Quote], columns: int, most: int) -> list[Line]:
    """The quotes so far, the latest last, a line each."""
    lines: list[Line] = []
    for number, quote in enumerate(quotes, 1):
        mark = f"[{number}] "
        room = columns - len(mark) - 3
        words = elided(quote.text, room - min(get_cwidth(_source(quote)), columns // 3))
        source = fitted(_source(quote), room - get_cwidth(words))
        lines.append(
            [("class:number", mark), ("class:quoted", f"“{words}”"), ("class:quiet", f" {source}")]
        )
    if len(lines) > most:
        hidden = len(lines) - most + 1
        lines = [[("class:quiet", f"and {hidden} before: v shows all")], *lines[hidden:]]
    return lines


def _source(quote: Quote) -> str:
    domain = domain_of(quote.url)
    return f"{quote.title} ({domain})" if domain else quote.title


def _more(desk: Desk, lines: list[Line], seen: list[Line]) -> str:
    """How much there is below what is seen of something that covers the page."""
    more = len(lines) - desk.over - len(seen)
    return f"{more} more line{'s' * (more > 1)} ↓" if more > 0 else ""


def _ahead(desk: Desk) -> str:
    """What there is below what is seen of the page."""
    more = desk.pane.below()
    if more:
        return f"{more} more line{'s' * (more > 1)} ↓"
    if not desk.sitting.shown.text:
        return ""
    return "space reads on" if desk.sitting.shown.scrollbar[1] < 100 else "end of the page"


def _note(desk: Desk, columns: int, typed: str, clock: float) -> list[Line]:
    """What is to be known now, in few lines."""
    wanted = desk.awaited
    style, text = "class:note", desk.note
    if wanted is not None:
        turn = _SPINNER[int(clock * len(_SPINNER)) % len(_SPINNER)]
        doing = f"searching for {wanted.query}" if isinstance(wanted, Searching) else wanted.url
        text = f"{turn} {doing}" if isinstance(wanted, Searching) else f"{turn} opening {doing}"
    elif not text and _state(desk) in _QUESTIONS:
        marked = f" ({len(desk.marking.text)} characters)" if desk.marking else ""
        text = _QUESTIONS[_state(desk)] + marked
    elif not text and desk.mode == "browse" and NUMBER.fullmatch(typed):
        text = preview(desk, int(typed))
    elif not text and desk.mode == "browse":
        style, text = "class:quiet", f"last: {desk.sitting.last}" if desk.sitting.last else ""
    lines = [[(style, fitted(text, columns))]] if style == "class:quiet" else []
    lines = lines or [[(style, _text(line))] for line in wrapped(text[:500], columns)[:3]] or [[]]
    if desk.trouble:
        lines += [[("class:trouble", _text(line))] for line in wrapped(desk.trouble, columns)[:3]]
    return lines


def _state(desk: Desk) -> str:
    """The mode, told apart as hints and questions are."""
    if desk.awaited is not None:
        return "waiting"
    if desk.mode == "ask" and not desk.ending:
        return "begin"
    return "fixed" if desk.mode == "mark" and desk.marking and desk.marking.fixed else desk.mode


def _hints(desk: Desk, columns: int) -> Line:
    """The keys of this moment, as many as fit."""
    line: Line = []
    for hint in _HINTS[_state(desk)]:
        key, _, word = hint.partition(":")
        more = [("", "  " * bool(line)), ("class:key", key), ("class:quiet", f" {word}")]
        if _width(line) + _width(more) < columns:
            line += more
    return line


def _rule(columns: int, words: str = "") -> Line:
    end = f" {fitted(words, columns - 3)} ─" if words else ""
    return [("class:quiet", "─" * (columns - get_cwidth(end)) + end)]


def _apart(left: Line, right: Line, columns: int) -> Line:
    return [*left, ("", " " * (columns - _width(left) - _width(right))), *right]


def _padded(lines: list[Line], height: int) -> list[Line]:
    return lines[: max(height, 0)] + [[]] * (height - len(lines))


def _text(line: Line) -> str:
    return "".join(text for _, text in line)


def _width(line: Line) -> int:
    return get_cwidth(_text(line))

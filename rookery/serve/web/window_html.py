"""A window of the text browser as blocks, links and runs, each knowing where on the page it stands.

What is shown is what a model is given, mark by mark. The templates write it as HTML; only text
leaves here. It knows nothing of sessions.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from rookery.browse.find import Span
from rookery.browse.view import neutral
from rookery.browse.window import Part

_OPENS = re.compile(r"【([0-9]+)†")
_LINK = re.compile(r" ?【([0-9]+)†(.*?)(?:†([^†】]*))?】 ?", re.DOTALL)
# HTML reads a carriage return as a line feed, and takes NUL out: both would move what follows.
_KEPT = str.maketrans({"\x00": "\ufffd", "\r": " "})
ROW = " | "
"""what a window shows between the cells of a row"""

Highlight = tuple[Span, str]
"""a span of the page, and the name of its style"""


class Run(NamedTuple):
    """A piece of text in one style."""

    text: str
    start: int
    """where it stands on the page, in code points; -1: nowhere, the window puts it in"""
    style: str = ""


class Piece(NamedTuple):
    """What follows one link, or the text between two."""

    runs: list[Run]
    link: str = ""
    """the number by which a command names it; empty: it is no link"""
    domain: str = ""
    """to which it leads, where that is another one"""


class Paragraph(NamedTuple):
    """What a window shows of one block."""

    kind: str
    level: int
    pieces: list[Piece]
    start: int
    gap: str
    """what stands before it"""


class Group(NamedTuple):
    """Paragraphs that belong together: the rows of a table, lines of code, items, or one alone."""

    kind: str
    rows: list[list[Paragraph]]


class Result(NamedTuple):
    """A line of a page that no library has: of results, or of an error."""

    link: str
    words: str
    domain: str
    snippet: str


def groups(parts: Iterable[Part], highlights: Sequence[Highlight] = ()) -> list[Group]:
    """A window's parts as they are laid out."""
    shown = [_paragraph(list(ours), highlights) for _, ours in groupby(parts, lambda p: p.block)]
    found: list[Group] = []
    for one in shown:
        if found and one.kind == found[-1].kind and one.kind in ("cell", "code", "item"):
            if one.gap == ROW and one.kind == "cell":
                found[-1].rows[-1].append(one)
            else:
                found[-1].rows.append([one])
        else:
            found.append(Group(one.kind, [[one]]))
    return found


def results(text: str) -> list[Result]:
    """The links of a page of results with their snippets; what stands before the first, alone."""
    found: list[Result] = []
    done = 0
    for link in _LINK.finditer(text):
        found = _with_snippet(found, text[done : link.start()])
        found.append(Result(link[1], link[2], neutral(link[3] or ""), ""))
        done = link.end()
    return _with_snippet(found, text[done:])


def _with_snippet(found: list[Result], words: str) -> list[Result]:
    if not words.strip():
        return found
    if not found:
        return [Result("", "", "", words.strip())]
    return [*found[:-1], found[-1]._replace(snippet=words.strip())]


def _paragraph(parts: list[Part], highlights: Sequence[Highlight]) -> Paragraph:
    block = parts[0].block
    gap = ""
    pieces = [Piece([])]
    for number, part in enumerate(parts):
        text = part.text.translate(_KEPT)
        if part.start < part.end:
            pieces[-1].runs.extend(_runs(text, part.start, highlights))
        elif number == 0 and (part.text.isspace() or part.text == ROW):
            gap = part.text
        elif opens := _OPENS.fullmatch(part.text):
            pieces.append(Piece([], opens[1]))
        elif pieces[-1].link and part.text.endswith("】") and "【" not in part.text:
            pieces[-1] = pieces[-1]._replace(domain=neutral(part.text[1:-1]))
            pieces.append(Piece([]))
        elif whole := _LINK.fullmatch(part.text):
            pieces += [Piece([Run(whole[2], -1)], whole[1], neutral(whole[3] or "")), Piece([])]
        else:
            pieces[-1].runs.append(Run(text, -1))
    shown = [piece for piece in pieces if piece.runs]
    return Paragraph(block.kind, block.level, shown, parts[0].start, gap)


def _runs(text: str, start: int, highlights: Sequence[Highlight]) -> list[Run]:
    """A text cut wherever a highlight begins or ends."""
    end = start + len(text)
    over = [(span, name) for span, name in highlights if span[0] < end and start < span[1]]
    cuts = {start, end, *(place for span, _ in over for place in span if start < place < end)}
    places = sorted(cuts)
    runs = []
    for low, high in pairwise(places):
        names = {name for span, name in over if span[0] <= low < span[1]}
        runs.append(Run(text[low - start : high - start], low, " ".join(sorted(names))))
    return runs

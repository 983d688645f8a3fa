"""An answer as one text with its marks, and where each mark stands: what all conventions cite by.

Offsets are of code points, their ends exclusive: text[start:end] is exactly the mark. It knows
nothing of how a convention writes that down.
"""

import re
from collections.abc import Callable, Sequence
from itertools import chain

import msgspec

from rookery.cite.verify import Verdict
from rookery.records import Answer, Quote

Shown = Callable[[Quote], str]
"""the address at which a program finds the page of a quote"""
_URL_MARKS = str.maketrans({mark: f"%{ord(mark):02X}" for mark in '()<>[]\\ "`|\t\r\n'})
_TITLE_MARKS = re.compile(r"([\\`*_\[\]<>~|!#])")


class Source(msgspec.Struct, frozen=True):
    """A quote that an answer rests on, with which it can be checked."""

    number: int
    """from 1 on, as the marks count"""
    url: str
    title: str
    quote: str
    """verbatim: characters [start:end] of the page's text"""
    digest: str
    """of that text: SHA-256, 32 hexadecimal digits"""
    start: int
    end: int
    verified: bool
    """whether the stored copy of the page holds exactly that there"""


class Mark(msgspec.Struct, frozen=True):
    """Where the text cites a source: text[start:end]."""

    start: int
    end: int
    source: Source


class Cited(msgspec.Struct, frozen=True):
    """The text of an answer as a program shows it."""

    text: str
    marks: tuple[Mark, ...]
    sources: tuple[Source, ...]


class Look(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the text shows what it cites."""

    links: bool = False
    """write [[1]](url) and not [1], for programs that show no annotations"""
    footer: bool = False
    """end with a list of the sources"""


def sources(verdicts: Sequence[Verdict], shown: Shown) -> tuple[Source, ...]:
    """The quotes that were checked, numbered, under addresses that programs can open."""
    return tuple(
        _source(number, verdict.quote, verdict.verified, shown)
        for number, verdict in enumerate(verdicts, 1)
    )


def cited(answer: Answer, sources: Sequence[Source], look: Look = Look()) -> Cited:
    """The answer with a mark for each quote behind each claim that rests on it."""
    parts, marks, done, at = list[str](), list[Mark](), 0, 0
    for end, numbers in _ends(answer):
        parts.append(answer.text[done:end])
        at += end - done
        done = end
        for source in (sources[number] for number in numbers):
            mark = _mark(source, look)
            marks.append(Mark(at, at + len(mark), source))
            parts.append(mark)
            at += len(mark)
    parts.append(answer.text[done:])
    if look.footer and sources:
        parts.append(_footer(sources))
    return Cited("".join(parts), tuple(marks), tuple(sources))


def _mark(source: Source, look: Look) -> str:
    number = f"[{source.number}]"
    return f"[{number}]({linked(source.url)})" if look.links else number


def linked(url: str) -> str:
    """The URL so that no Markdown ends it early."""
    return url.translate(_URL_MARKS)


def _ends(answer: Answer) -> list[tuple[int, tuple[int, ...]]]:
    """Where claims end, in order, and what those that end there rest on, each quote once."""
    ends: dict[int, list[tuple[int, ...]]] = {}
    for claim in answer.claims:
        if claim.quotes:
            ends.setdefault(claim.end, []).append(claim.quotes)
    return [(end, tuple(dict.fromkeys(chain(*ends[end])))) for end in sorted(ends)]


def _source(number: int, quote: Quote, verified: bool, shown: Shown) -> Source:
    url, title = shown(quote), " ".join(quote.title.split()) or "Untitled"
    return Source(number, url, title, quote.text, quote.digest, quote.start, quote.end, verified)


def _footer(sources: Sequence[Source]) -> str:
    lines = (
        f"{source.number}. [{_plain(source.title)}]({linked(source.url)})" for source in sources
    )
    return "\n\nSources:\n\n" + "\n".join(lines)


def _plain(title: str) -> str:
    """The title so that Markdown shows it as it is."""
    return _TITLE_MARKS.sub(r"\\\1", title)

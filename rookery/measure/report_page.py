"""Figures and what recipes found as one HTML page: no script, nothing from elsewhere.

It knows nothing of files. Whatever a figure says is text, never markup.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from rookery.measure.figure import Cell, Figure

LONG = 24
"""rows of a table that is shown unfolded, at most"""
HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<h1>{title}</h1>
<p class="soft">{counted}</p>
</header>
"""


class Finding(msgspec.Struct, frozen=True):
    """What a recipe says of one effect."""

    effect: str
    paper: str
    ours: str
    holds: bool
    why: str = ""


class Result(msgspec.Struct, frozen=True):
    """What a recipe has found."""

    recipe: str
    size: str
    findings: tuple[Finding, ...]
    minutes: float = 0.0
    seeds: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


class Shown(NamedTuple):
    """A figure on the page."""

    part: str
    """what it belongs to, such as a run; empty: to all"""
    figure: Figure
    svg: str
    """a part of an HTML page"""


def page(name: str, results: Sequence[Result], figures: Sequence[Shown]) -> str:
    """What was found, a list of contents, and each figure with its picture and table."""
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    title = escape(f"What was measured: {name}")
    parts = [HEAD.format(title=title, style=style, counted=_counted(results, figures))]
    parts += _contents(results, figures)
    parts += [_result(result, number) for number, result in enumerate(results, 1)]
    for part, group in groupby(enumerate(figures, 1), lambda each: each[1].part):
        inner = "".join(_figure(each, number) for number, each in group)
        parts.append(f"<section>\n<h2>{escape(part or 'Figures')}</h2>\n{inner}</section>\n")
    return "".join([*parts, "</main>\n</body>\n</html>\n"])


def _counted(results: Sequence[Result], figures: Sequence[Shown]) -> str:
    findings = [finding for result in results for finding in result.findings]
    held = sum(finding.holds for finding in findings)
    seen = (
        f"{held} of {len(findings)} effects are seen beyond their intervals. " if findings else ""
    )
    return f"{seen}{len(figures)} {'figure' if len(figures) == 1 else 'figures'}."


def _contents(results: Sequence[Result], figures: Sequence[Shown]) -> Iterator[str]:
    yield '<nav aria-label="Contents">\n<h2>Contents</h2>\n<ul>\n'
    for number, result in enumerate(results, 1):
        yield f'<li><a href="#result-{number}">{_named(result)}</a></li>\n'
    for number, (part, figure, _) in enumerate(figures, 1):
        of = f' <span class="soft">{escape(part)}</span>' if part else ""
        yield f'<li><a href="#figure-{number}">{escape(figure.title)}</a>{of}</li>\n'
    yield "</ul>\n</nav>\n"


def _named(result: Result) -> str:
    return escape(f"Findings: {result.recipe}, {result.size}")


def _result(result: Result, number: int) -> str:
    seeds = ", ".join(map(str, result.seeds)) or "none"
    rows = [
        [_verdict(one.holds), *map(escape, (one.effect, one.paper, one.ours, one.why))]
        for one in result.findings
    ]
    head = ("Seen", "Effect", "The paper", "Here", "Why it differs")
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in result.notes)
    return (
        f'<section id="result-{number}">\n<h2>{_named(result)}</h2>\n'
        f'<p class="soft">{result.minutes:g} minutes; seeds: {seeds}.</p>\n<div class="told">\n'
        + _table(head, rows, _named(result))
        + "</div>\n"
        + (f"<h3>Notes</h3>\n<ul>\n{notes}</ul>\n" if notes else "")
        + "</section>\n"
    )


def _verdict(holds: bool) -> str:
    return '<span class="yes">yes</span>' if holds else '<span class="no">no</span>'


def _figure(each: Shown, number: int) -> str:
    figure, title = each.figure, escape(each.figure.title)
    says = escape(figure.says + (f" After {figure.source}." if figure.source else ""))
    right = tuple(at for at in range(len(figure.head)) if in_numbers(figure, at))
    rows = [[escape(cell_text(cell)) for cell in row] for row in figure.rows]
    table = _table(figure.head, rows, title, right)
    if len(rows) > LONG:
        table = f"<details>\n<summary>Table: {len(rows)} rows</summary>\n{table}</details>\n"
    return (
        f'<article id="figure-{number}">\n<h3>{title}</h3>\n<p>{says}</p>\n'
        f'<div class="scroll" role="group" tabindex="0" aria-label="Picture: {title}">\n{each.svg}'
        f"</div>\n{table}</article>\n"
    )


def _table(
    head: Iterable[str], rows: Iterable[Iterable[str]], title: str, right: Sequence[int] = ()
) -> str:
    """Of cells that are HTML. It scrolls by itself where it is wider than the page."""

    def row(cells: Iterable[str], tag: str) -> str:
        kinds = dict.fromkeys(right, ' class="number"')
        return "".join(f"<{tag}{kinds.get(at, '')}>{cell}</{tag}>" for at, cell in enumerate(cells))

    body = "".join(f"<tr>{row(cells, 'td')}</tr>\n" for cells in rows)
    return (
        f'<div class="scroll" role="group" tabindex="0" aria-label="Table: {title}">\n<table>\n'
        f"<thead><tr>{row(map(escape, head), 'th')}</tr></thead>\n<tbody>\n{body}</tbody>\n"
        "</table>\n</div>\n"
    )


def as_lines(figure: Figure) -> Iterator[str]:
    """The figure as lines of a terminal: what it is, and its table."""
    yield figure.title
    yield figure.says
    yield ""
    rows = [figure.head, *([cell_text(cell) for cell in row] for row in figure.rows)]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    right = [in_numbers(figure, at) for at in range(len(figure.head))]
    for row in rows:
        cells = zip(row, wide, right, strict=True)
        set_ = [cell.rjust(size) if aside else cell.ljust(size) for cell, size, aside in cells]
        yield "  ".join(set_).rstrip()


def in_numbers(figure: Figure, column: int) -> bool:
    """Whether a column holds numbers, and is set to the right."""
    return not any(isinstance(row[column], str) for row in figure.rows)


def cell_text(cell: Cell) -> str:
    """A cell as people read it: numbers to three or four figures."""
    if cell is None or isinstance(cell, str):
        return cell or ""
    if not isinstance(cell, int) and abs(cell) < 1000:
        return f"{cell:.3f}" if abs(cell) >= 0.001 or cell == 0 else f"{cell:.2g}"
    if abs(cell) < 10_000:
        return f"{cell:.0f}"
    return f"{cell:,.0f}" if abs(cell) < 1e12 else f"{cell:.3g}"

"""Figures: what was measured, as a table that people read, JSON that programs read, and a picture.

It knows nothing of how a figure was measured, nor of where it is written.
"""

from collections.abc import Mapping
from typing import Literal

from rookery.measure.interval import Estimate
from rookery.records import Record

Cell = str | int | float | None
"""of a table; None where there is nothing to say"""
Measured = Mapping[str, Estimate]
"""what was measured of one system, by the names of the measures"""


class Line(Record, frozen=True):
    """Named points of a picture, with the interval of each where it is known."""

    name: str
    points: tuple[tuple[float, float], ...]
    """x and y; for bars and grids x counts the places from 0"""
    low: tuple[float, ...] = ()
    """the lower end of the interval of each y; empty: not known"""
    high: tuple[float, ...] = ()
    style: Literal["line", "points", "dashed"] = "line"
    """dashed: what is compared with, such as an optimum or a paper's figure"""

    def __post_init__(self) -> None:
        for ends in (self.low, self.high):
            if ends and len(ends) != len(self.points):
                raise ValueError(f"{self.name}: {len(self.points)} points, {len(ends)} intervals")


class Picture(Record, frozen=True):
    """How a figure is drawn."""

    kind: Literal["curves", "bars", "grid"]
    """curves over numbers; bars (or points with intervals) over named places; a grid of shaded
    cells, each line a row of it"""
    lines: tuple[Line, ...]
    x: str = ""
    """the name of the axis, with its unit"""
    y: str = ""
    places: tuple[str, ...] = ()
    """names of the places 0, 1, ... of bars and grids"""
    log_x: bool = False


class Figure(Record, frozen=True):
    """One thing that was measured."""

    name: str
    """its file's: small letters, digits and hyphens"""
    title: str
    says: str
    """what was measured on what, with seeds, and how intervals were made: a sentence or two"""
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    picture: Picture
    source: str = ""
    """the paper's figure or table that it answers to, such as "WebGPT, figure 3" """

    def __post_init__(self) -> None:
        if any(len(row) != len(self.head) for row in self.rows):
            raise ValueError(f"{self.name}: every row needs {len(self.head)} cells")


def bars(estimates: Mapping[tuple[str, str], Estimate], y: str) -> Picture:
    """Estimates side by side, each named by its line and its place, in the order given."""
    places = tuple(dict.fromkeys(place for _, place in estimates))
    lines = []
    for name in dict.fromkeys(line for line, _ in estimates):
        own = {place: of for (line, place), of in estimates.items() if line == name}
        points = tuple((float(places.index(place)), of.value) for place, of in own.items())
        low, high = (tuple(getattr(of, end) for of in own.values()) for end in ("low", "high"))
        lines.append(Line(name, points, low, high))
    return Picture("bars", tuple(lines), "", y, places)


def bars_figure(
    name: str, title: str, says: str, systems: Mapping[str, Measured], y: str, source: str = ""
) -> Figure:
    """Estimates side by side: a colour of bars for each system, a place for each measure. What a
    system lacks is left out."""
    each = {
        (system, measure): estimate
        for system, measured in systems.items()
        for measure, estimate in measured.items()
    }
    rows = tuple(
        (*names, estimate.value, estimate.low, estimate.high, estimate.count)
        for names, estimate in each.items()
    )
    head = ("system", "measure", "value", "low", "high", "count")
    return Figure(name, title, says, head, rows, bars(each, y), source)

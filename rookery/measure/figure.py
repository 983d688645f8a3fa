"""Figures: what was measured, as a table that people read, JSON that programs read, and a picture.

It knows nothing of how a figure was measured, nor of where it is written.
"""

from typing import Literal

from rookery.records import Record

Cell = str | int | float | None
"""of a table; None where there is nothing to say"""


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

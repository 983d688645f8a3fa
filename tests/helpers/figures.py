"""Figures for the tests of pictures and reports: a few plain ones, and any at all."""

from typing import Literal

from hypothesis import strategies as st

from rookery.measure.figures import Figure, FigureLine, FigurePicture

Kind = Literal["curves", "bars", "grid"]
Style = Literal["line", "points", "dashed"]
NUMBERS = st.floats(-1e6, 1e6, allow_nan=False).map(lambda number: round(number, 3))
WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
EVIL = '</title></svg><script>alert(1)</script> "x" onload=alert(1) & $a_1$ | `b` --> ]]> \x1b[31m'


def line(name: str, *ys: float, spread: float = 0.0, style: Style = "line") -> FigureLine:
    """A line over 1, 2, 4, ... or, of bars, over the places."""
    low, high = (tuple(y + side * spread for y in ys) for side in (-1, 1))
    points = tuple((float(at), y) for at, y in enumerate(ys))
    return FigureLine(name, points, low if spread else (), high if spread else (), style)


def figure(picture: FigurePicture, name: str = "a-figure", title: str = "A figure") -> Figure:
    """A figure with a small table."""
    head, rows = ("system", "share"), (("ours", 0.5), ("theirs", None))
    return Figure(name, title, "Said of it.", head, rows, picture, "A paper, figure 1")


BARS = figure(
    FigurePicture(
        "bars",
        (line("ours", 0.6, 0.3, spread=0.1), line("paper", 0.5, 0.5, style="dashed")),
        y="share",
        places=("short", "brief"),
    )
)


@st.composite
def lines(draw: st.DrawFn, places: int | None = None) -> FigureLine:
    """Any line; of bars and grids over so many places."""
    size = draw(st.integers(0, 5)) if places is None else places
    xs = draw(st.lists(NUMBERS, min_size=size, max_size=size)) if places is None else range(size)
    ys = draw(st.lists(NUMBERS, min_size=size, max_size=size))
    ends = tuple(y - 1 for y in ys), tuple(y + 2 for y in ys)
    known = draw(st.booleans())
    style: Style = draw(st.sampled_from(["line", "points", "dashed"]))
    points = tuple((float(x), y) for x, y in zip(xs, ys, strict=True))
    return FigureLine(draw(WORDS), points, *(ends if known else ((), ())), style)


@st.composite
def figures(draw: st.DrawFn) -> Figure:
    """Any figure that JSON can hold."""
    kind: Kind = draw(st.sampled_from(["curves", "bars", "grid"]))
    places = draw(st.lists(WORDS, min_size=1, max_size=4))
    each = lines() if kind == "curves" else lines(len(places))
    points = tuple(draw(st.lists(each, max_size=3)))
    picture = FigurePicture(
        kind, points, draw(WORDS), draw(WORDS), tuple(places), draw(st.booleans())
    )
    head = tuple(draw(st.lists(WORDS, min_size=1, max_size=3)))
    cell = st.one_of(WORDS, st.integers(-(10**9), 10**9), NUMBERS, st.none())
    row = st.lists(cell, min_size=len(head), max_size=len(head)).map(tuple)
    rows = tuple(draw(st.lists(row, max_size=3)))
    return Figure("any", draw(WORDS), draw(WORDS), head, rows, picture, draw(WORDS))

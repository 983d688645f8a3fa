"""Writes figures into a folder, and all figures of a folder as one page that stands by itself.

It knows nothing of how figures were measured. The page asks nothing of a network and runs nothing.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from rookery.measure.figure import Figure, Line, Picture
from rookery.measure.report_page import Result, Shown, cell_text, in_numbers, page
from rookery.records import Failed, Failure

T = TypeVar("T")


def write_figure(figure: Figure, folder: Path) -> None:
    """Writes NAME.json (the record), NAME.md (the table), NAME.svg and NAME.png (the picture).
    Points that are no finite numbers are left out.

    Raises ValueError for a name that is not small letters, digits and hyphens, and Failed
    (not_installed) without matplotlib, when record and table are written all the same.
    """
    if not re.fullmatch("[a-z0-9-]+", figure.name):
        raise ValueError(f"{figure.name!r} names no file: small letters, digits and hyphens do")
    figure = _finite(figure)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{figure.name}.json"
    _write(place, figure.to_json().encode() + b"\n")
    _write(place.with_suffix(".md"), markdown(figure).encode("utf-8", "replace"))
    with _installed():
        from rookery.measure.picture import png, svg
    _write(place.with_suffix(".svg"), svg(figure).encode("utf-8", "replace"))
    _write(place.with_suffix(".png"), png(figure))


def read_figures(folder: Path) -> dict[Path, Figure]:
    """Every figure that was written here or in a folder below, by its file, in order.

    Raises Failed (bad_figure), which names the file.
    """
    found = sorted(place for place in folder.rglob("*.json") if place.with_suffix(".md").exists())
    return {place: _read(place, Figure) for place in found}


def write_report(folder: Path) -> Path:
    """Writes the page: what recipes found (each result.json), then every figure with its table.

    Gives its place. Raises Failed: not_found (nothing was measured there), bad_figure, and
    not_installed without matplotlib.
    """
    results = [_read(place, Result) for place in sorted(folder.rglob("result.json"))]
    figures = read_figures(folder)
    if not results and not figures:
        detail = "no figure is in it: name a folder that rookery measure or a recipe wrote"
        raise Failed(Failure(str(folder), "not_found", detail))
    place = folder / "report.html"
    with _installed():
        from rookery.measure.picture import inline
    parts = sorted((_part(folder, path), path) for path in figures)
    drawn = [
        Shown(part, figures[path], inline(figures[path], number))
        for number, (part, path) in enumerate(parts, 1)
    ]
    _write(place, page(folder.resolve().name, results, drawn).encode("utf-8", "replace"))
    return place


def _part(folder: Path, place: Path) -> str:
    """Where a figure stands, in words: its recipe's folder, or none."""
    parts = place.parent.relative_to(folder).parts
    return "/".join(part for part in parts if part != "figures")


def _read(place: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(place.read_bytes(), type=kind)
    except (msgspec.MsgspecError, ValueError) as error:
        detail = f"this is not what was written there ({error}): make it again, or delete it"
        raise Failed(Failure(str(place), "bad_figure", detail)) from error


def markdown(figure: Figure) -> str:
    """The figure as Markdown: what it says, the picture by its file's name, and the table."""
    columns = range(len(figure.head))
    rule = ["---:" if in_numbers(figure, column) else "---" for column in columns]
    rows = [_row(figure.head), _row(rule), *(_row(map(cell_text, row)) for row in figure.rows)]
    after = f" After {figure.source}." if figure.source else ""
    title, says = _plain(figure.title), _plain(figure.says + after)
    picture = f"![{title}]({figure.name}.svg)"
    return "\n\n".join([f"# {title}", says, picture, "\n".join(rows)]) + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(text: str) -> str:
    """On one line, and nothing in it is Markdown or HTML."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


@contextmanager
def _installed() -> Iterator[None]:
    """Raises Failed (not_installed) without matplotlib."""
    try:
        yield
    except ModuleNotFoundError as error:
        detail = f"pictures need {error.name}: pip install 'rookery[measure]'"
        raise Failed(Failure("measure", "not_installed", detail)) from error


def _finite(figure: Figure) -> Figure:
    """JSON has no other numbers: such points are left out, such cells are empty."""
    picture = figure.picture
    lines = tuple(map(_finite_line, picture.lines))
    cells = [
        tuple(None if isinstance(cell, float) and not math.isfinite(cell) else cell for cell in row)
        for row in figure.rows
    ]
    replaced: Picture = msgspec.structs.replace(picture, lines=lines)
    return msgspec.structs.replace(figure, rows=tuple(cells), picture=replaced)


def _finite_line(line: Line) -> Line:
    """An end of an interval that is not known is the point itself."""
    kept = [at for at, point in enumerate(line.points) if all(map(math.isfinite, point))]

    def ends(known: tuple[float, ...]) -> tuple[float, ...]:
        if not known:
            return ()
        pairs = ((known[at], line.points[at][1]) for at in kept)
        return tuple(end if math.isfinite(end) else y for end, y in pairs)

    points = tuple(line.points[at] for at in kept)
    return Line(line.name, points, ends(line.low), ends(line.high), line.style)


def _write(place: Path, content: bytes) -> None:
    """All of it, or the file is as it was."""
    new = place.with_name(f".{place.name}.{os.getpid()}.new")
    try:
        new.write_bytes(content)
        new.replace(place)
    finally:
        new.unlink(missing_ok=True)

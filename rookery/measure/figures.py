"""Figures: what was measured, as a table for people, JSON for programs, and a picture.

A figure is written as JSON, Markdown, SVG and PNG, as lines for a terminal, and as a part of an
HTML report. The report is one file without scripts or outside resources, and whatever a figure says
is escaped as text.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from rookery.errors import Failed, Outcome
from rookery.library.page_archive import write_whole_file
from rookery.measure.intervals import Estimate
from rookery.records import Failure, Record, decode_json

TableCell = str | int | float | None
"""cell of a table; None if there is nothing to say"""
LineStyle = Literal["line", "points", "dashed"]
MeasuredEstimates = Mapping[str, Estimate]
"""estimates of one system, by the names of the measures"""


class FigureLine(Record, frozen=True):
    """Named points of a picture, with the interval of each if known."""

    name: str
    points: tuple[tuple[float, float], ...]
    """x and y; for bars and grids x is the index of the place, from 0"""
    low: tuple[float | None, ...] = ()
    """lower end of the interval of each y, None where it has none; empty if not known"""
    high: tuple[float | None, ...] = ()
    style: LineStyle = "line"
    """dashed is for comparison, such as an optimum or a paper's figure"""

    def __post_init__(self) -> None:
        for ends in (self.low, self.high):
            if ends and len(ends) != len(self.points):
                raise ValueError(f"{self.name}: {len(self.points)} points, {len(ends)} intervals")


class FigurePicture(Record, frozen=True):
    """Drawing of a figure: its kind, lines and axes."""

    kind: Literal["curves", "bars", "grid"]
    """curves over numbers; bars (or points with intervals) over named places; a grid of shaded
    cells, each line a row of it"""
    lines: tuple[FigureLine, ...]
    x: str = ""
    """label of the axis, with its unit"""
    y: str = ""
    places: tuple[str, ...] = ()
    """names of the places 0, 1, ... of bars and grids"""
    log_x: bool = False


class Figure(Record, frozen=True):
    """One measurement: a table and a picture."""

    name: str
    """name of its file: small letters, digits and hyphens"""
    title: str
    says: str
    """what was measured on what, with seeds, and how intervals were made, in a sentence or two"""
    head: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    picture: FigurePicture
    source: str = ""
    """the paper's figure or table that it answers to, such as WebGPT, figure 3"""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.head) for row in self.rows):
            raise ValueError(f"{self.name}: every row needs {len(self.head)} cells")


def make_line(
    name: str, points: Iterable[tuple[float, Estimate]], style: LineStyle = "line"
) -> FigureLine:
    """Make a line of estimates with their intervals, each at its x."""
    places, estimates = tuple(zip(*points, strict=True)) or ((), ())
    return FigureLine(
        name,
        tuple((float(x), each.value) for x, each in zip(places, estimates, strict=True)),
        tuple(each.low for each in estimates),
        tuple(each.high for each in estimates),
        style,
    )


def make_bars(estimates: Mapping[tuple[str, str], Estimate], y: str) -> FigurePicture:
    """Make a picture of estimates side by side, keyed by (line, place), in the order given."""
    places = tuple(dict.fromkeys(place for _, place in estimates))
    lines = tuple(
        make_line(
            name,
            ((places.index(place), of) for (line, place), of in estimates.items() if line == name),
        )
        for name in dict.fromkeys(line for line, _ in estimates)
    )
    return FigurePicture("bars", lines, "", y, places)


def make_bars_figure(
    name: str,
    title: str,
    says: str,
    systems: Mapping[str, MeasuredEstimates],
    y: str,
    source: str = "",
) -> Figure:
    """Make a figure with bars of one colour for each system, and a place for each measure.

    Measures that a system lacks are left out.
    """
    each = {
        (system, measure): estimate
        for system, measured in systems.items()
        for measure, estimate in measured.items()
    }
    rows = tuple((*names, *msgspec.structs.astuple(of)) for names, of in each.items())
    head = ("system", "measure", "value", "low", "high", "count")
    return Figure(name, title, says, head, rows, make_bars(each, y), source)


MAX_UNFOLDED_ROWS = 24
"""most rows of a table that is shown unfolded"""


class RecipeFinding(msgspec.Struct, frozen=True):
    """Outcome of a recipe for one effect of its paper."""

    effect: str
    paper: str
    ours: str
    verdict: str = "not judged"
    """on the paper's claim: yes, no, not seen, too small to tell or undecided; results from before
    verdicts were computed have none"""
    why: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Cells of its row in the report, beside the verdict."""
        return self.effect, self.paper, self.ours, self.why


class RecipeResult(msgspec.Struct, frozen=True):
    """Findings of one recipe run."""

    recipe: str
    size: str
    findings: tuple[RecipeFinding, ...]
    minutes: float = 0.0
    seeds: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def format_figure_lines(figure: Figure, columns: float = math.inf) -> Iterator[str]:
    """Yield the figure as lines for a terminal of so many columns: title, text and table.

    A table that is wider is turned: its columns become rows, if that fits.
    """
    yield from (figure.title, figure.says, "")
    rows = [figure.head, *([format_cell(cell) for cell in row] for row in figure.rows)]
    lines = _align_cells(rows, list_numeric_columns(figure))
    turned = _align_cells([*zip(*rows, strict=True)], range(1, len(rows)))
    fits = [max(map(len, each)) <= columns for each in (lines, turned)]
    yield from turned if fits == [False, True] else lines


def _align_cells(rows: Sequence[Sequence[str]], right: Collection[int]) -> list[str]:
    """Return rows as lines in columns, those of the numbers in `right` aligned right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = (f"{{:{'>' if n in right else '<'}{wide}}}" for n, wide in enumerate(widths))
    line = "  ".join(aligned)
    return [line.format(*row).rstrip() for row in rows]


def list_numeric_columns(figure: Figure) -> tuple[int, ...]:
    """Return the indices of the columns that hold no text, which are aligned right."""
    texts = {at for row in figure.rows for at, cell in enumerate(row) if isinstance(cell, str)}
    return tuple(at for at in range(len(figure.head)) if at not in texts)


def format_cell(cell: TableCell) -> str:
    """Format a cell of a table for people; None is an empty string.

    Numbers that are not whole have three decimals (two significant figures below 0.001, none from
    1000 on); numbers from 10,000 on have thousands separators, and three significant figures from
    1e12 on.
    """
    if cell is None or isinstance(cell, str):
        return cell or ""
    if not isinstance(cell, int) and abs(cell) < 1000:
        return f"{cell:.3f}" if abs(cell) >= 0.001 or cell == 0 else f"{cell:.2g}"
    if abs(cell) < 10_000:
        return f"{cell:.0f}"
    return f"{cell:,.0f}" if abs(cell) < 1e12 else f"{cell:.3g}"


T = TypeVar("T")


def write_figure(figure: Figure, folder: Path) -> None:
    """Write the record, table and pictures of a figure: NAME.json, NAME.md, NAME.svg and NAME.png.

    The folder is made if needed, and files of the same name are replaced. Points that are not
    finite are left out. Raises ValueError for a name that is not small letters, digits and hyphens,
    and Failed (not_installed) without matplotlib, after writing record and table.
    """
    if not re.fullmatch("[a-z0-9-]+", figure.name):
        raise ValueError(f"{figure.name!r} names no file: small letters, digits and hyphens do")
    figure = _drop_nonfinite(figure)
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / f"{figure.name}.json"
    write_whole_file(place, [figure.to_json().encode(), b"\n"])
    write_whole_file(place.with_suffix(".md"), [_encode_text(format_figure_markdown(figure))])
    with _require_packages():
        from rookery.measure.plotting import render_png, render_svg
    write_whole_file(place.with_suffix(".svg"), [_encode_text(render_svg(figure))])
    write_whole_file(place.with_suffix(".png"), [render_png(figure)])


def read_figures(folder: Path) -> dict[Path, Figure]:
    """Return every figure written in this folder or below, by the path of its JSON file, in order.

    JSON files without a Markdown file of the same name are passed over; empty if there is no figure
    or no such folder. Raises Failed (bad_figure), which names the file.
    """
    found = sorted(place for place in folder.rglob("*.json") if place.with_suffix(".md").exists())
    return {place: _read_json(place, Figure) for place in found}


def write_report(folder: Path) -> Path:
    """Write report.html: the findings of recipes, then every figure with its table.

    Both are looked for in the folder and below, findings in each result.json. Returns the file's
    path. Raises Failed: not_found (nothing was measured there), bad_figure, and not_installed
    without matplotlib or jinja2.
    """
    results = [_read_json(place, RecipeResult) for place in sorted(folder.rglob("result.json"))]
    figures = read_figures(folder)
    if not results and not figures:
        detail = "no figure is in it: name a folder that rookery measure or a recipe wrote"
        raise Failed(Failure(str(folder), Outcome.NOT_FOUND, detail))
    place, home = folder / "report.html", Path(__file__).parent
    parts = sorted((_name_part(folder, path), path) for path in figures)
    with _require_packages():
        from rookery.measure.plotting import render_inline_svg
    with _require_packages():
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    templates = Environment(
        loader=FileSystemLoader(home),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = {"cell": format_cell, "numeric": list_numeric_columns, "svg": render_inline_svg}
    templates.filters.update(filters)
    page = templates.get_template("report.html").render(
        name=folder.resolve().name,
        results=results,
        figures=[
            {"number": number, "part": part, "figure": figures[path]}
            for number, (part, path) in enumerate(parts, 1)
        ],
        style=(home / "report.css").read_text(encoding="utf-8"),
        longest_table=MAX_UNFOLDED_ROWS,
    )
    write_whole_file(place, [_encode_text(page)])
    return place


def _name_part(folder: Path, place: Path) -> str:
    """Return the part of the report that a figure belongs to: its recipe's folder, or an empty
    string."""
    parts = place.parent.relative_to(folder).parts
    return "/".join(part for part in parts if part != "figures")


def _read_json(place: Path, kind: type[T]) -> T:
    try:
        return decode_json(place.read_bytes(), kind)
    except ValueError as error:
        detail = f"this is not what was written there ({error}): make it again, or delete it"
        raise Failed(Failure(str(place), Outcome.BAD_FIGURE, detail)) from error


def format_figure_markdown(figure: Figure) -> str:
    """Return the figure as Markdown: text, a picture linked by its file's name, and the table."""
    numeric = list_numeric_columns(figure)
    rule = ["---:" if column in numeric else "---" for column in range(len(figure.head))]
    rows = [
        _format_markdown_row(figure.head),
        _format_markdown_row(rule),
        *(_format_markdown_row(map(format_cell, row)) for row in figure.rows),
    ]
    after = f" After {figure.source}." if figure.source else ""
    title, says = _escape_markdown(figure.title), _escape_markdown(figure.says + after)
    picture = f"![{title}]({figure.name}.svg)"
    return "\n\n".join([f"# {title}", says, picture, "\n".join(rows)]) + "\n"


def _format_markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(_escape_markdown, cells)) + " |"


def _escape_markdown(text: str) -> str:
    """Return the text on one line, with Markdown and HTML escaped."""
    return re.sub(r"([\\`*_\[\]<>|])", r"\\\1", " ".join(text.split()))


@contextmanager
def _require_packages() -> Iterator[None]:
    """Raise Failed (not_installed) if the imports inside lack matplotlib or jinja2."""
    try:
        yield
    except ModuleNotFoundError as error:
        detail = f"pictures need {error.name}: pip install 'rookery[measure]'"
        raise Failed(Failure("measure", Outcome.NOT_INSTALLED, detail)) from error


def _drop_nonfinite(figure: Figure) -> Figure:
    """Leave out points and empty cells that are not finite, since JSON has no such numbers."""
    picture = figure.picture
    lines = tuple(map(_drop_nonfinite_points, picture.lines))
    cells = [tuple(map(_drop_infinite, row)) for row in figure.rows]
    replaced: FigurePicture = msgspec.structs.replace(picture, lines=lines)
    return msgspec.structs.replace(figure, rows=tuple(cells), picture=replaced)


def _drop_nonfinite_points(line: FigureLine) -> FigureLine:
    """Leave out points and ends of intervals that are not finite."""
    kept = [at for at, point in enumerate(line.points) if all(map(math.isfinite, point))]
    points = tuple(line.points[at] for at in kept)
    low, high = (
        tuple(_drop_infinite(ends[at]) for at in kept if ends) for ends in (line.low, line.high)
    )
    return FigureLine(line.name, points, low, high, line.style)


def _drop_infinite(cell: T) -> T | None:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "replace")

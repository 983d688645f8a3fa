"""Plots of figures with matplotlib, as SVG and PNG, the same bytes each time.

Legible on a phone, in colours and shapes that people with colour blindness can tell apart. Numbers
must be finite.
"""

import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import matplotlib.style as mpl_style
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

if TYPE_CHECKING:
    from rookery.measure.figures import Figure, FigureLine, FigurePicture

INK, FAINT, PAPER = "#1b1f24", "#d9dde2", "#fefefe"
LINE_COLOURS = tuple("#0068a6 #b84a00 #007a59 #9c3d78 #7d5a00 #2d7d8f #5b4bb7 #6b6f76".split())
"""line colours, each with a contrast of more than 4 to white, apart for people who see no red or
green"""
MARKERS = "osD^vPX*"
DASHES: tuple[Any, ...] = ((0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (8, 3)))
RAMP = ((242, 246, 250), (8, 72, 120))
"""colours of the least and the greatest cell of a grid"""
WIDTH, HEIGHT = 5.2, 3.3
"""inches, at which letters of 9.5 points can still be read on a phone"""
MAX_MARKED_POINTS = 40
"""most points of a line that are marked one by one"""
MAX_LINE_LETTERS = 58
"""letters that fit beside each other"""
NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
TAG = re.compile("<[^>]*>")
FILE_ONLY_PARTS = re.compile(
    "<metadata>.*?</metadata>|<title>.*?</title>|<style.*?</style>", re.DOTALL
)
"""parts needed only if the SVG is a file of its own"""

PLOT_STYLE = Path(__file__).with_name("plot.mplstyle")


def render_svg(figure: "Figure") -> str:
    """Render the picture as SVG, with its words as text."""
    with _draw_figure(figure) as canvas:
        return _encode_svg(canvas, figure.title)


def _encode_svg(canvas: Canvas, title: str) -> str:
    file = BytesIO()
    canvas.savefig(file, format="svg", metadata={"Title": title, "Date": None, "Creator": None})
    drawn = NO_XML.sub("\N{REPLACEMENT CHARACTER}", file.getvalue().decode())
    return drawn.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, Arial, sans-serif")


def render_inline_svg(figure: "Figure", number: int) -> str:
    """Render the picture as inline SVG for an HTML page on which no other picture has this number.

    It takes its colours from the page: --ink, --faint, --sheet and --line0 to --line7.
    """
    drawn = render_svg(figure)
    bare = FILE_ONLY_PARTS.sub("", drawn[drawn.index("<svg") :])
    told = f'<svg role="img" aria-label="{escape(figure.title)}" '
    return TAG.sub(lambda tag: _adapt_tag(tag[0], number), bare).replace("<svg ", told, 1)


def _adapt_tag(tag: str, number: int) -> str:
    """Adapt one tag to the page. Text between tags is left as it is, since others wrote it."""
    tag = re.sub(r'( id="|url\(#|xlink:href="#)', rf"\1picture-{number}-", tag)
    colours = {"ink": INK, "faint": FAINT, "sheet": PAPER}
    colours |= {f"line{at}": colour for at, colour in enumerate(LINE_COLOURS)}
    for name, colour in colours.items():
        tag = tag.replace(colour, f"var(--{name})")
    return tag


def render_png(figure: "Figure") -> bytes:
    """Render the picture as PNG, 1,040 pixels wide."""
    with _draw_figure(figure) as canvas:
        file = BytesIO()
        canvas.savefig(file, format="png", dpi=200, metadata={"Software": None})
    return file.getvalue()


@contextmanager
def _use_style(name: str) -> Iterator[None]:
    """Plot with our own style, whatever the user's settings of matplotlib.

    Letters that the font lacks are left to the reader's fonts.
    """
    named = {"svg.hashsalt": name}
    with warnings.catch_warnings(), mpl_style.context(["default", PLOT_STYLE, named]):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@contextmanager
def _draw_figure(figure: "Figure") -> Iterator[Canvas]:
    picture = figure.picture
    with _use_style(figure.name):
        lines = [line for line in picture.lines if line.points]
        canvas = Canvas(figsize=(WIDTH, _choose_height(picture)), layout="constrained")
        axes = canvas.add_subplot()
        if lines:
            DRAW_BY_KIND[picture.kind](axes, picture, lines)
        else:
            canvas.set_figheight(1)
            axes.set_axis_off()
            axes.text(0.5, 0.5, "nothing to draw", ha="center")
        for text in canvas.findobj(mpl.text.Text):
            text.set_parse_math(False)
        yield canvas


def _draw_curves(axes: Any, picture: "FigurePicture", lines: "list[FigureLine]") -> None:
    handles = []
    for number, line in enumerate(lines):
        x, y = [point[0] for point in line.points], [point[1] for point in line.points]
        colour = LINE_COLOURS[number % len(LINE_COLOURS)]
        look: dict[str, Any] = {"color": colour}
        if line.style != "dashed":
            look |= {"marker": MARKERS[number % len(MARKERS)]}
        if (
            line.style == "line" and len(x) > MAX_MARKED_POINTS
        ):  # markers of different lines at different places
            look |= {"markevery": (number * len(x) // 40, len(x) // 8)}
        if line.style != "line":
            dashed = DASHES[number % len(DASHES)]
            look |= {"linestyle": dashed if line.style == "dashed" else "none"}
        handles += axes.plot(x, y, **look)
        if line.style == "points" and line.low and line.high:
            axes.vlines(x, *_get_ends(line), color=colour, linewidth=1.2)
        elif line.low and line.high:
            axes.fill_between(x, *_get_ends(line), color=colour, alpha=0.16, linewidth=0)
    if picture.log_x:
        _set_log_scale(axes, [x for line in lines for x, _ in line.points])
    _label_axes(axes, picture.x, picture.y)
    _add_legend(axes, handles, lines)


def _get_ends(line: "FigureLine") -> list[list[float]]:
    """Return the ends of intervals, NaN where there is none, which is not drawn."""
    return [[math.nan if end is None else end for end in ends] for ends in (line.low, line.high)]


def _set_log_scale(axes: Any, places: list[float]) -> None:
    """Set a logarithmic axis: powers of two for numbers of answers, powers of ten for wide
    ranges."""
    positive = [x for x in places if x > 0]
    if not positive:
        return
    doubles = 1 <= min(positive) <= max(positive) <= 2**10
    few = max(positive) / min(positive) < 10**3
    base, between = (2, (1,)) if doubles else (10, (1, 2, 5) if few else (1,))
    axes.set_xscale("log", base=base)
    axes.xaxis.set_major_locator(LogLocator(base, between, numticks=12))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")


def _draw_bars(axes: Any, picture: "FigurePicture", lines: "list[FigureLine]") -> None:
    """Draw upright bars above short names, lying bars beside long ones."""
    lying = _is_horizontal(picture)
    wide = 0.8 / max(1, sum(line.style != "dashed" for line in lines))
    handles, shift = [], wide / 2 - 0.4
    for number, line in enumerate(lines):
        dashed = line.style == "dashed"
        handles.append(_draw_bar(axes, line, number, wide, 0.0 if dashed else shift, lying))
        shift += 0.0 if dashed else wide
    count = 1 + int(max((x for line in lines for x, _ in line.points), default=0))
    names = [*picture.places, *(str(at) for at in range(len(picture.places), count))]
    _label_places(axes.yaxis if lying else axes.xaxis, names, 26 if lying else 12)
    values, places = (axes.xaxis, axes.yaxis) if lying else (axes.yaxis, axes.xaxis)
    if not lying and count < 3:
        axes.set_xlim(count / 2 - 2, count / 2 + 1)
    values.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    places.grid(False)
    if lying:
        axes.invert_yaxis()
    _label_axes(axes, *((picture.y, picture.x) if lying else (picture.x, picture.y)))
    _add_legend(axes, handles, lines)


def _draw_bar(
    axes: Any, line: "FigureLine", number: int, wide: float, shift: float, lying: bool
) -> Any:
    at, y = [point[0] + shift for point in line.points], [point[1] for point in line.points]
    colour = LINE_COLOURS[number % len(LINE_COLOURS)]
    if line.style == "dashed":
        along = axes.vlines if lying else axes.hlines
        ends = [x - 0.5 for x in at], [x + 0.5 for x in at]
        along(y, *ends, color=PAPER, linewidth=3)
        return along(y, *ends, color=INK, linestyle=DASHES[number % len(DASHES)])
    if line.low and line.high:
        across = axes.hlines if lying else axes.vlines
        whiskers = [(PAPER, 3.4), (INK, 1.4)]  # visible on a bar and beside it
        for ink, width in [(colour, 1.4)] if line.style == "points" else whiskers:
            across(at, *_get_ends(line), color=ink, linewidth=width, zorder=3)
    if line.style == "line":
        draw = axes.barh if lying else axes.bar
        return draw(at, y, wide * 0.92, color=colour)
    look = {"marker": MARKERS[number % len(MARKERS)], "linestyle": "none", "color": colour}
    [bar_line] = axes.plot(*((y, at) if lying else (at, y)), **look, zorder=4)
    return bar_line


def _draw_grid(axes: Any, picture: "FigurePicture", lines: "list[FigureLine]") -> None:
    """Draw a grid; each cell shows its value, so that no shade has to be read."""
    values = [y for line in lines for _, y in line.points]
    least, greatest = (0.0, 1.0) if 0 <= min(values) <= max(values) <= 1 else _find_range(values)
    size = max(5.0, min(9.5, 60 / max(1, len(picture.places))))
    for row, line in enumerate(lines):
        for x, y in line.points:
            part = (y - least) / (greatest - least)
            shade = tuple((a + (b - a) * part) / 255 for a, b in zip(*RAMP, strict=True))
            axes.add_patch(Rectangle((x - 0.5, row - 0.5), 1, 1, facecolor=shade, linewidth=0))
            written = "#ffffff" if part > 0.7 else "#000000"
            axes.text(x, row, f"{y:.2f}", color=written, ha="center", va="center", fontsize=size)
    axes.set(xlim=(-0.5, len(picture.places) - 0.5), ylim=(len(lines) - 0.5, -0.5))
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(False)
    turned = {} if _fit_in_width(picture.places) else {"rotation": 35, "ha": "right"}
    _label_places(axes.xaxis, picture.places, 20 if turned else 12, **turned)
    _label_places(axes.yaxis, [line.name for line in lines], 20)
    _label_axes(axes, picture.x, picture.y)


def _find_range(values: list[float]) -> tuple[float, float]:
    return min(values), max(max(values), min(values) + 1e-9)


def _label_places(axis: Any, names: Sequence[str], wide: int, **look: Any) -> None:
    axis.set_major_locator(FixedLocator(range(len(names))))
    shown = ["\n".join(textwrap.wrap(name, wide)[:3]) for name in names]
    axis.set_ticklabels(shown, **look)
    axis.set_tick_params(length=0)


def _label_axes(axes: Any, x: str, y: str) -> None:
    axes.set_xlabel("\n".join(textwrap.wrap(x, MAX_LINE_LETTERS)))
    axes.set_ylabel("\n".join(textwrap.wrap(y, MAX_LINE_LETTERS // 2)))


def _add_legend(axes: Any, handles: list[Any], lines: "list[FigureLine]") -> None:
    """Add the legend below, where it hides nothing. Names are set as they are, whatever they begin
    with."""
    names = ["\n".join(textwrap.wrap(line.name, MAX_LINE_LETTERS - 6)) for line in lines]
    if not any(names):
        return
    columns = max(1, min(4, MAX_LINE_LETTERS // (8 + max(map(len, names)))))
    numbers = [str(number) for number in range(len(names))]
    where = {"loc": "outside lower center", "ncols": columns, "handlelength": 2.4}
    legend = axes.figure.legend(handles, numbers, **where)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)


def _choose_height(picture: "FigurePicture") -> float:
    lines, places = len(picture.lines), len(picture.places)
    if picture.kind == "grid":
        return max(2.2, min(7.0, 1.4 + 0.42 * lines))
    below = 0.2 * min(lines, 12)
    if picture.kind == "bars" and _is_horizontal(picture):
        return max(2.2, min(11.0, 0.9 + below + places * max(0.34, 0.2 * lines)))
    return HEIGHT + below / 2


def _is_horizontal(picture: "FigurePicture") -> bool:
    return not _fit_in_width(picture.places)


def _fit_in_width(names: tuple[str, ...]) -> bool:
    """Return True if the names fit beside each other, each on up to two lines."""
    return (
        len(names) * max((min(len(name), 12) for name in names), default=0) <= MAX_LINE_LETTERS - 8
    )


DRAW_BY_KIND = {"curves": _draw_curves, "bars": _draw_bars, "grid": _draw_grid}

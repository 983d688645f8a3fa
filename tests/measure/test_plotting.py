"""Pictures: what is drawn where, the same bytes each time, legible whatever the names say."""

import os
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from figures import BARS, EVIL, figure, figures, line
from hypothesis import given, settings
from matplotlib import rc_params_from_file
from msgspec.structs import replace

from rookery.measure import plotting
from rookery.measure.figures import Figure, FigureLine, FigurePicture
from rookery.measure.plotting import (
    FAINT,
    INK,
    LINE_COLOURS,
    MARKERS,
    PAPER,
    PLOT_STYLE,
    render_png,
    render_svg,
)

ROOT = Path(__file__).parent.parent.parent
SVG = "{http://www.w3.org/2000/svg}"
CURVES = figure(
    FigurePicture(
        "curves",
        (
            FigureLine(
                "reward", ((1.0, 0.0), (4.0, 0.5), (64.0, 1.0)), (-0.2, 0.4, 0.8), (0.2, 0.6, 1.2)
            ),
            line("optimum", 0.1, 0.3, 0.6, style="dashed"),
            line("seen", 0.2, 0.2, spread=0.1, style="points"),
        ),
        "n",
        "worth",
        log_x=True,
    )
)
GRID = figure(
    FigurePicture(
        "grid",
        (FigureLine("ours", ((1.0, 0.75),)), FigureLine("theirs", ((0.0, 0.25),))),
        places=("ours", "theirs"),
    )
)
EMPTY = figure(FigurePicture("curves", (FigureLine("none", ()),)))


def words(svg: str) -> list[str]:
    """The texts of a picture, in their order."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def shapes(svg: str, colour: str) -> list[np.ndarray]:
    """The corners of each shape that is filled with a colour, itself or where it is used."""
    root = ElementTree.fromstring(svg)
    used = {
        use.get("{http://www.w3.org/1999/xlink}href", "")[1:]: use.get("style", "")
        for use in root.iter(f"{SVG}use")
    }
    paths = [
        path
        for path in root.iter(f"{SVG}path")
        if f"fill: {colour}" in path.get("style", "") + used.get(path.get("id", ""), "")
    ]
    numbers = [re.findall(r"-?[\d.]+", path.get("d", "")) for path in paths]
    return [np.asarray(each, float).reshape(-1, 2) for each in numbers]


@pytest.mark.slow
def test_a_picture_is_the_same_in_any_process(tmp_path: Path) -> None:
    each = (BARS, CURVES, GRID, EMPTY)
    (tmp_path / "matplotlibrc").write_text("font.size: 40\nlines.linewidth: 9\nsvg.hashsalt: x\n")
    code = (
        "import sys; from rookery.measure import plotting;"
        "from rookery.measure.figures import Figure;"
        "each = [Figure.from_json(line) for line in sys.stdin];"
        "sys.stdout.writelines(plotting.render_svg(one) + plotting.render_png(one).hex() "
        "for one in each)"
    )
    there = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "9"}
    said = subprocess.run(
        [sys.executable, "-c", code],
        input="\n".join(one.to_json() for one in each),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=there,
    )
    assert said.stdout == "".join(render_svg(one) + render_png(one).hex() for one in each)


def test_bars_are_as_long_as_their_values() -> None:
    drawn = render_svg(replace(BARS, picture=replace(BARS.picture, lines=BARS.picture.lines[:1])))
    tall, small = sorted(
        (np.ptp(each[:, 1]) for each in shapes(drawn, LINE_COLOURS[0])[:2]), reverse=True
    )
    assert tall / small == pytest.approx(0.6 / 0.3, rel=1e-4)


def test_bars_begin_at_zero_also_where_all_are_high() -> None:
    drawn = render_svg(
        figure(FigurePicture("bars", (line("ours", 0.91, 0.92),), places=("a", "b")))
    )
    bars = [np.ptp(each[:, 1]) for each in shapes(drawn, LINE_COLOURS[0])[:2]]
    assert min(bars) / max(bars) == pytest.approx(0.91 / 0.92, rel=1e-4)


def test_the_band_of_a_curve_is_its_interval() -> None:
    """Its corners lie evenly, as 1, 4, 64 do on the axis, and as wide as its ends are apart."""
    band = max(shapes(render_svg(CURVES), LINE_COLOURS[0]), key=lambda each: np.ptp(each[:, 0]))
    places = sorted({round(x, 2) for x, _ in band})
    assert (places[2] - places[1]) / (places[1] - places[0]) == pytest.approx(2, rel=1e-3)
    heights = [np.ptp([y for x, y in band if abs(x - place) < 0.02]) for place in places]
    assert heights[0] / heights[1] == pytest.approx(0.4 / 0.2, rel=1e-3)
    assert heights[2] == pytest.approx(heights[0], rel=1e-3)


def test_numbers_of_answers_are_marked_by_doublings_and_costs_by_tens() -> None:
    assert {"1", "4", "64"} <= set(words(render_svg(CURVES)))
    costly = FigureLine("model", ((3e9, 0.1), (4.8e11, 0.9)))
    drawn = render_svg(replace(CURVES, picture=replace(CURVES.picture, lines=(costly,))))
    assert {"1e+10", "1e+11"} <= set(words(drawn))


def test_the_cells_of_a_grid_say_their_values_and_the_rest_is_empty() -> None:
    numbers = [word for word in words(render_svg(GRID)) if re.fullmatch(r"[\d.]+", word)]
    assert numbers == ["0.75", "0.25"]


def test_long_names_lie_below_each_other_and_are_all_said() -> None:
    names = tuple(f"a system of a rather long name, number {number}" for number in range(6))
    drawn = render_svg(figure(FigurePicture("bars", (line("share", *[0.5] * 6),), places=names)))
    said = " ".join(words(drawn))
    assert all(f"number {number}" in said for number in range(6))
    boxes = shapes(drawn, LINE_COLOURS[0])[:6]
    assert len({round(each[:, 1].mean()) for each in boxes}) == 6  # each on a line of its own


@pytest.mark.slow
@given(figures())
@settings(max_examples=12)
def test_whatever_a_figure_says_the_picture_is_xml(each: Figure) -> None:
    ElementTree.fromstring(render_svg(each))


def test_a_hostile_name_is_shown_and_does_nothing() -> None:
    named = (line(EVIL, 0.5), line("_hidden", 0.2), line("日本 אב", 0.1))
    root = ElementTree.fromstring(render_svg(figure(FigurePicture("curves", named), title=EVIL)))
    assert not list(root.iter(f"{SVG}script"))
    said = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    for part in ("<script>alert(1)</script>", "$a_1$", "_hidden", "日本 אב"):
        assert part in said


def test_a_picture_of_nothing_says_so() -> None:
    assert words(render_svg(EMPTY)) == ["nothing to draw"]
    assert words(render_svg(figure(FigurePicture("grid", (), places=("a",))))) == [
        "nothing to draw"
    ]


def test_a_png_is_as_wide_as_two_columns_of_a_screen() -> None:
    drawn = render_png(BARS)
    assert drawn.startswith(b"\x89PNG")
    assert int.from_bytes(drawn[16:20], "big") == 1040


def test_two_lines_differ_in_more_than_their_colour() -> None:
    assert len(set(MARKERS)) == len(MARKERS) == len(LINE_COLOURS)
    drawn = render_svg(
        figure(FigurePicture("curves", tuple(line(name, 0.1, 0.2) for name in "ab")))
    )
    markers = re.findall(r'<path id="(m\w+)"', drawn)
    assert len({re.search(f'id="{each}" d="([^"]*)"', drawn)[1] for each in markers}) >= 3  # type: ignore[index]


def light(colour: str) -> float:
    """Its luminance, as WCAG has it."""
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def palettes() -> tuple[dict[str, str], dict[str, str]]:
    """The colours of the page by day and by night, by their names."""
    css = (ROOT / "rookery" / "measure" / "report.css").read_text(encoding="utf-8")
    day, night = css.split("@media (prefers-color-scheme: dark)")
    return tuple(  # type: ignore[return-value]
        dict(re.findall(r"--([\w-]+): (#\w{6})", half)) for half in (day, night.split("*, *::")[0])
    )


def test_lines_stand_out_by_day_and_by_night() -> None:
    """At least 3 to 1, as WCAG asks of what pictures are made of."""
    day, night = palettes()
    assert [day[f"line{at}"] for at in range(len(LINE_COLOURS))] == list(LINE_COLOURS)
    for at, colour in enumerate(LINE_COLOURS):
        assert contrast(colour, "#ffffff") >= 3
        assert contrast(night[f"line{at}"], night["sheet"]) >= 3
    assert contrast(night["ink"], night["sheet"]) >= 7


SEEN = {
    "few greens": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "few reds": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
}
"""how linear colours look to whoever lacks one kind of cones (Machado and others, 2009)"""


def lab(colour: str, matrix: list[list[float]]) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(matrix) @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.maximum(xyz @ seen / [0.9505, 1, 1.089], 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SEEN)
def test_the_first_four_colours_are_apart_for_whoever_sees_few(sight: str) -> None:
    for palette in (LINE_COLOURS, [palettes()[1][f"line{at}"] for at in range(8)]):
        for one, other in combinations(palette[:4], 2):
            apart = lab(one, SEEN[sight]) - lab(other, SEEN[sight])
            assert float(np.linalg.norm(apart)) > 12, (one, other)


def test_a_picture_within_a_page_has_names_and_colours_of_the_page() -> None:
    drawn = plotting.render_inline_svg(replace(CURVES, title='"#0068a6" id="x" <b>'), 7)
    assert drawn.startswith(
        '<svg role="img" aria-label="&quot;#0068a6&quot; id=&quot;x&quot; &lt;b&gt;" '
    )
    assert all(each.startswith("picture-7-") for each in re.findall(r'\sid="([^"]+)"', drawn))
    used = re.findall(r'(?:url\(#|xlink:href="#)([^")]+)', drawn)
    assert used
    assert all(f'id="{each}"' in drawn for each in used)
    assert "var(--line0)" in drawn
    assert not re.search(r"style=\"[^\"]*#(?!0{6}|f{6})\w{6}", drawn)
    assert "<style" not in drawn


def test_the_style_has_the_colours_that_change_with_the_page() -> None:
    style = rc_params_from_file(str(PLOT_STYLE), use_default_template=False)
    assert {value for name, value in style.items() if "color" in name} == {INK, FAINT, PAPER}

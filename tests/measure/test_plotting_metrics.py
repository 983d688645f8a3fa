"""The picture of a run: every measure a panel, drawn to scale, whatever it is called."""

import re
import xml.etree.ElementTree as ET

import pytest

from rookery.measure.plotting import plot_metrics

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '</text><script>alert("1")</script>&'


def panels(picture: str) -> dict[str, list[tuple[float, float]]]:
    """The points of the curve of each metric, by the title of its panel."""
    found = {}
    for axes in ET.fromstring(picture).iter(f"{SVG}g"):
        if axes.attrib.get("id", "").startswith("axes_"):
            *_, title = (text.text or "" for text in axes.iter(f"{SVG}text"))
            [curve] = [group for group in axes.iter(f"{SVG}g") if group.attrib.get("id") == title]
            places = re.findall(r"[ML] (\S+) (\S+)", curve[0].attrib["d"])
            found[title] = [(float(x), float(y)) for x, y in places]
    return found


def test_each_measure_has_a_panel_with_its_name() -> None:
    history = [{"step": step, "loss": 8.0 - step, "reward": step / 2} for step in range(5)]
    found = panels(plot_metrics(history))
    assert list(found) == ["loss", "reward"]
    assert [len(points) for points in found.values()] == [5, 5]
    assert plot_metrics(history) == plot_metrics(history)


def test_a_line_is_drawn_to_scale_from_left_to_right() -> None:
    [points] = panels(plot_metrics([{"step": s, "a": float(s * s)} for s in (0, 1, 2)])).values()
    (left, low), (middle, quarter), (right, high) = points
    assert middle - left == pytest.approx(right - middle, abs=0.11)
    assert low - quarter == pytest.approx((low - high) / 4, abs=0.11)  # SVG counts downwards
    assert left < right
    assert high < low


def test_what_was_not_measured_is_passed_over() -> None:
    history: list[dict[str, float | None]] = [
        {"step": 0, "a": 1.0, "never": None},
        {"step": 1, "a": None},
        {"step": 2, "a": 3.0, "late": 5.0},
    ]
    found = panels(plot_metrics(history))
    assert list(found) == ["a", "late"]
    assert [len(points) for points in found.values()] == [2, 1]


def test_a_hostile_name_is_only_text() -> None:
    picture = plot_metrics([{"step": 0, HOSTILE: 1.0}])
    assert list(panels(picture)) == [HOSTILE]
    assert "<script" not in picture


def test_a_run_without_measures_is_an_empty_picture() -> None:
    assert panels(plot_metrics([])) == {}
    assert panels(plot_metrics([{"step": 0}])) == {}


def test_panels_do_not_lie_on_each_other_and_all_are_within_the_picture() -> None:
    picture = plot_metrics([{"step": 0, **{f"m{n}": float(n) for n in range(7)}}])
    width, height = map(float, ET.fromstring(picture).attrib["viewBox"].split()[2:])
    places = [points[0] for points in panels(picture).values()]
    assert len({(round(x), round(y)) for x, y in places}) == 7
    assert all(0 < x < width and 0 < y < height for x, y in places)

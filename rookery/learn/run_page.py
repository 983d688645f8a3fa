"""The page of a training run, `run.html`: curves of its metrics and its newest samples.

It is one file without scripts or outside resources, and reloads itself while the run lasts. Its
curves are lines of a template and not matplotlib's, which takes longer than a step of a small
model.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

PAGE_SECONDS = 5
"""from one writing of a page, and one reload, to the next"""
_CHARTS = {
    "Reward of an episode": ("reward", "validation_reward", "validation_judge"),
    "KL of an episode from the reference, nats": ("kl", "validation_kl", "target", "budget"),
    "Entropy of a token, nats": ("entropy",),
    "Length of an episode, tokens": ("length",),
    "Loss": ("loss", "rated_loss", "policy_loss", "value_loss", "validation_loss"),
    "Share": ("answered", "accuracy", "validation_credit", "same", "valid"),
}
"""metrics that are drawn together, before all others, which are drawn alone"""
_LIMITS = ("target", "budget")
"""metrics that are drawn dashed"""
_MOST_POINTS = 240
"""of a curve; where there are more, neighbours are averaged"""
_SHOWN_CHARACTERS = 700
"""of a prompt or text, the last ones"""
_LEFT, _RIGHT, _TOP, _FOOT = 56, 432, 8, 158
"""edges of the curves in a picture of 440 × 180"""

MetricHistory = Sequence[Mapping[str, float | None]]
"""metrics step by step, each with its `step`, counted from 0"""


class _Curve(NamedTuple):
    name: str
    limit: bool
    last: float
    places: Sequence[tuple[float, float]]


class _Chart(NamedTuple):
    title: str
    ticks: Sequence[tuple[int, str]]
    curves: Sequence[_Curve]


def render_run_page(
    name: str,
    state: str,
    running: bool,
    history: MetricHistory,
    samples: Sequence[Mapping[str, Any]],
    notes: Sequence[str] = (),
) -> str:
    """Return the page of the run `name` as HTML; it reloads itself while it is `running`.

    Of `samples`, as the trainers write them, those of the last step are shown. `notes` are
    sentences to read first. All words are escaped.
    """
    together = {metric for metrics in _CHARTS.values() for metric in metrics}
    alone = {metric: None for line in history for metric in line if metric not in together}
    alone.pop("step", None)
    charts = _CHARTS | {metric.replace("_", " ").capitalize(): (metric,) for metric in alone}
    page: str = _load_template().render(
        name=name,
        state=state,
        seconds=PAGE_SECONDS if running else 0,
        steps=len(history),
        notes=notes,
        charts=[
            chart for title, each in charts.items() if (chart := _make_chart(title, each, history))
        ],
        samples=[one for one in samples if one.get("step") == samples[-1].get("step")],
        characters=_SHOWN_CHARACTERS,
    )
    return page


@cache
def _load_template() -> Template:
    loader = FileSystemLoader(Path(__file__).parent)
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(
        "run_page.html"
    )


def _make_chart(title: str, metrics: Sequence[str], history: MetricHistory) -> _Chart | None:
    """Return a chart of those metrics that were measured; None where none was."""
    points_by_metric = {
        metric: points for metric in metrics if (points := _list_points(metric, history))
    }
    if not points_by_metric:
        return None
    values = [value for points in points_by_metric.values() for _, value in points]
    margin = ((max(values) - min(values)) or abs(values[0]) or 1.0) / 20
    low, high = min(values) - margin, max(values) + margin
    wide, tall = (_RIGHT - _LEFT) / max(len(history) - 1, 1), (_FOOT - _TOP) / (high - low)
    curves = []
    for metric, points in points_by_metric.items():
        places = [(_LEFT + wide * step, _TOP + tall * (high - value)) for step, value in points]
        curves.append(_Curve(metric.replace("_", " "), metric in _LIMITS, points[-1][1], places))
    middles = {_FOOT: low, (_TOP + _FOOT) // 2: (low + high) / 2, _TOP: high}
    return _Chart(title, [(y, f"{value:.3g}") for y, value in middles.items()], curves)


def _list_points(metric: str, history: MetricHistory) -> list[tuple[float, float]]:
    """Return step and value where the metric was measured, averaged where there are too many."""
    points = [
        (at, value) for at, line in enumerate(history) if (value := line.get(metric)) is not None
    ]
    size = -(-len(points) // _MOST_POINTS) or 1
    groups = (points[start : start + size] for start in range(0, len(points), size))
    return [(fmean(at for at, _ in group), fmean(value for _, value in group)) for group in groups]

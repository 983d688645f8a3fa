"""The page of a training run, `run.html`: curves of its metrics and its newest samples.

It is one file without scripts or outside resources, and reloads itself while the run lasts. Its
curves are lines of a template and not matplotlib's, which takes longer than a step of a small
model.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
)
PAGE_SECONDS = 5
"""from one writing of a page, and one reload, to the next"""
_CHARTS = {
    "Reward of an episode": ("reward", "validation_reward", "validation_judge"),
    "KL of an episode from the reference, nats": ("kl", "validation_kl", "target", "budget"),
    "Loss": ("loss", "rated_loss", "policy_loss", "value_loss", "validation_loss"),
}
"""metrics that are drawn together, before all others, which are drawn alone"""
_LIMITS = ("target", "budget")
"""metrics that are drawn dashed"""
_LEFT, _RIGHT, _TOP, _FOOT = 56, 432, 8, 158
"""edges of the curves in a picture of 440 × 180"""

MetricHistory = Sequence[Mapping[str, float | None]]
"""metrics step by step, each with its `step`, counted from 0"""


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
    together = {"step", *(metric for metrics in _CHARTS.values() for metric in metrics)}
    alone = {metric: None for line in history for metric in line if metric not in together}
    charts = _CHARTS | {metric.replace("_", " ").capitalize(): (metric,) for metric in alone}
    page: str = _TEMPLATES.get_template("run_page.html").render(
        name=name,
        state=state,
        seconds=PAGE_SECONDS if running else 0,
        steps=len(history),
        notes=notes,
        charts=[
            chart for title, each in charts.items() if (chart := _make_chart(title, each, history))
        ],
        samples=[one for one in samples if one.get("step") == samples[-1].get("step")],
    )
    return page


def _make_chart(
    title: str, metrics: Sequence[str], history: MetricHistory
) -> dict[str, Any] | None:
    """Return a chart of those metrics that were measured, for the template; None where none was."""
    measured = {
        metric: [
            (at, value)
            for at, line in enumerate(history)
            if (value := line.get(metric)) is not None
        ]
        for metric in metrics
    }
    points_by_metric = {metric: points for metric, points in measured.items() if points}
    if not points_by_metric:
        return None
    values = [value for points in points_by_metric.values() for _, value in points]
    margin = ((max(values) - min(values)) or abs(values[0]) or 1.0) / 20
    low, high = min(values) - margin, max(values) + margin
    wide, tall = (_RIGHT - _LEFT) / max(len(history) - 1, 1), (_FOOT - _TOP) / (high - low)
    curves = [
        {
            "name": metric.replace("_", " "),
            "limit": metric in _LIMITS,
            "last": points[-1][1],
            "places": [
                (_LEFT + wide * step, _TOP + tall * (high - value)) for step, value in points
            ],
        }
        for metric, points in points_by_metric.items()
    ]
    ticks = [(_FOOT, low), ((_TOP + _FOOT) // 2, (low + high) / 2), (_TOP, high)]
    return {"title": title, "ticks": ticks, "curves": curves}

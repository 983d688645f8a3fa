"""Plot the metrics of a training run, and name its likely faults."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from statistics import fmean

PLOT_COLUMNS, PANEL_WIDTH, PANEL_HEIGHT, PANEL_MARGIN = 3, 300, 170, 34
LINE_COLOR = "#1f5fa8"


def plot_metrics(history: Sequence[Mapping[str, float | None]]) -> str:
    """Return an SVG with a curve of every metric over the steps."""
    names = dict.fromkeys(name for line in history for name in line if name != "step")
    panels = [(name, points) for name in names if (points := _list_points(history, name))]
    rows = math.ceil(len(panels) / PLOT_COLUMNS) or 1
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 '
        f'{PLOT_COLUMNS * PANEL_WIDTH} {rows * PANEL_HEIGHT}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for number, (name, points) in enumerate(panels):
        row, column = divmod(number, PLOT_COLUMNS)
        parts.append(f'<g transform="translate({column * PANEL_WIDTH} {row * PANEL_HEIGHT})">')
        parts += [*_draw_panel(name, points), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _list_points(
    history: Sequence[Mapping[str, float | None]], name: str
) -> list[tuple[float, float]]:
    return [
        (float(line["step"] or 0), value)
        for line in history
        if (value := line.get(name)) is not None
    ]


def _draw_panel(name: str, points: Sequence[tuple[float, float]]) -> list[str]:
    steps, values = zip(*points, strict=True)
    low, high, right, bottom = (
        min(values),
        max(values),
        PANEL_WIDTH - PANEL_MARGIN / 2,
        PANEL_HEIGHT - PANEL_MARGIN,
    )
    across = (right - PANEL_MARGIN) / (max(steps) - min(steps) or 1)
    up = (bottom - PANEL_MARGIN) / (high - low or 1)
    line = " ".join(
        f"{PANEL_MARGIN + (step - min(steps)) * across:.1f},{bottom - (value - low) * up:.1f}"
        for step, value in points
    )
    return [
        f'<path d="M{PANEL_MARGIN} {PANEL_MARGIN}V{bottom}H{right}" fill="none" stroke="#999"/>',
        f'<polyline points="{line}" fill="none" stroke="{LINE_COLOR}" stroke-width="1.5"/>',
        f'<text x="{PANEL_MARGIN}" y="{PANEL_MARGIN - 16}" '
        f'font-weight="bold">{escape(name)}</text>',
        f'<text x="{PANEL_MARGIN}" y="{PANEL_MARGIN - 4}">{high:.4g}</text>',
        f'<text x="{PANEL_MARGIN}" y="{bottom + 13}">{low:.4g}</text>',
        f'<text x="{right}" y="{bottom + 13}" text-anchor="end">step {max(steps):g}</text>',
    ]


MetricHistory = Sequence[Mapping[str, float | None]]
_WINDOW_STEPS = 5
"""steps that are looked at together, since one may be chance"""


def diagnose_training(history: MetricHistory) -> list[str]:
    """Return a sentence on each likely fault of a reinforcement run, from its metrics."""
    if not history:
        return []
    return [said for check in _CHECKS if (said := check(history))]


def _average_metric(history: MetricHistory, name: str, steps: int = _WINDOW_STEPS) -> float | None:
    """Over the last steps; None where nothing was measured."""
    found = [value for line in history[-steps:] if (value := line.get(name)) is not None]
    return fmean(found) if found else None


def _check_unanswered(history: MetricHistory) -> str:
    if _average_metric(history, "answered") != 0:
        return ""
    return (
        f"no episode of the last {min(_WINDOW_STEPS, len(history))} batches has an answer: "
        "allow longer "
        "actions, imitate answers first, or look at what is said in samples.jsonl"
    )


def _check_equal_rewards(history: MetricHistory) -> str:
    if _average_metric(history, "reward_spread") != 0 or _average_metric(history, "answered") == 0:
        return ""
    return (
        "all episodes of a batch have the same reward, so that nothing can be learnt from it: look "
        "at the reward, or draw at a higher temperature"
    )


def _check_logprob_mismatch(history: MetricHistory) -> str:
    worst = max((line.get("mismatch") or 0.0) for line in history[-_WINDOW_STEPS:])
    if worst < 0.1:  # bfloat16 makes some hundredths
        return ""
    return (
        f"the ratio is not 1 in the first epoch: what was drawn with one log-probability has "
        f"another when it is read again (they lie {worst:.2g} apart): sampling and training do not "
        "use the same temperature, mask, precision or weights"
    )


def _check_negative_kl(history: MetricHistory) -> str:
    kl = _average_metric(history, "kl")
    if kl is None or kl > -0.05 or len(history) < _WINDOW_STEPS:
        return ""
    return (
        f"the KL from the reference is negative ({kl:.2f} nats an episode), which no KL is: tokens "
        "are not drawn from the distribution whose log-probabilities are used (temperature, top-p, "
        "a length that is forced), or the reference is read otherwise"
    )


def _check_entropy_collapse(history: MetricHistory) -> str:
    first, last = history[0].get("entropy"), _average_metric(history, "entropy")
    if first is None or last is None or last > 0.05 or last > first / 10:
        return ""
    return (
        f"the entropy fell from {first:.2f} to {last:.3f} nats a token, so that nearly always the "
        "same is said: raise beta, lower the rate, or stop earlier"
    )


def _check_clipping(history: MetricHistory) -> str:
    share = _average_metric(history, "clipped")
    if share is None or share < 0.3:
        return ""
    return (
        f"{share:.0%} of the tokens are clipped (1 or 2 % is usual): lower the rate, or make fewer "
        "epochs"
    )


def _check_value_network(history: MetricHistory) -> str:
    explained = _average_metric(history, "explained", 4 * _WINDOW_STEPS)
    if explained is None or explained > 0.02 or len(history) < 4 * _WINDOW_STEPS:
        return ""
    return (
        f"the values explain nothing of the returns ({explained:.2f} of the variance): raise "
        "value_weight or the rate, or begin the value network from the reward model"
    )


def _check_runaway_kl(history: MetricHistory) -> str:
    kl, target = _average_metric(history, "kl"), _average_metric(history, "target")
    if kl is None or target is None or kl < 3 * target or len(history) < 4 * _WINDOW_STEPS:
        return ""
    return (
        f"the KL ({kl:.1f} nats an episode) is far above its target ({target:g}): raise beta or "
        "gain, or lower the rate"
    )


_CHECKS: tuple[Callable[[MetricHistory], str], ...] = (
    _check_unanswered,
    _check_equal_rewards,
    _check_logprob_mismatch,
    _check_negative_kl,
    _check_entropy_collapse,
    _check_clipping,
    _check_value_network,
    _check_runaway_kl,
)

"""What was measured while training, as a picture: a small panel for each measure.

It knows nothing of what the measures mean.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

COLUMNS, WIDTH, HEIGHT, MARGIN = 3, 300, 170, 34
INK = "#1f5fa8"


def curves(history: Sequence[Mapping[str, float | None]]) -> str:
    """An SVG of every measure over the steps; a step where it was not measured is passed over."""
    names = dict.fromkeys(name for line in history for name in line if name != "step")
    panels = [(name, points) for name in names if (points := _points(history, name))]
    rows = math.ceil(len(panels) / COLUMNS) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * WIDTH} {rows * HEIGHT}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    ]
    for number, (name, points) in enumerate(panels):
        row, column = divmod(number, COLUMNS)
        parts.append(f'<g transform="translate({column * WIDTH} {row * HEIGHT})">')
        parts += [*_panel(name, points), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _points(history: Sequence[Mapping[str, float | None]], name: str) -> list[tuple[float, float]]:
    return [
        (float(line["step"] or 0), value)
        for line in history
        if (value := line.get(name)) is not None
    ]


def _panel(name: str, points: Sequence[tuple[float, float]]) -> list[str]:
    steps, values = zip(*points, strict=True)
    low, high, right, bottom = min(values), max(values), WIDTH - MARGIN / 2, HEIGHT - MARGIN
    across = (right - MARGIN) / (max(steps) - min(steps) or 1)
    up = (bottom - MARGIN) / (high - low or 1)
    line = " ".join(
        f"{MARGIN + (step - min(steps)) * across:.1f},{bottom - (value - low) * up:.1f}"
        for step, value in points
    )
    return [
        f'<path d="M{MARGIN} {MARGIN}V{bottom}H{right}" fill="none" stroke="#999"/>',
        f'<polyline points="{line}" fill="none" stroke="{INK}" stroke-width="1.5"/>',
        f'<text x="{MARGIN}" y="{MARGIN - 16}" font-weight="bold">{escape(name)}</text>',
        f'<text x="{MARGIN}" y="{MARGIN - 4}">{high:.4g}</text>',
        f'<text x="{MARGIN}" y="{bottom + 13}">{low:.4g}</text>',
        f'<text x="{right}" y="{bottom + 13}" text-anchor="end">step {max(steps):g}</text>',
    ]

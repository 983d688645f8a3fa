"""The decline curves as a picture: one line an arm, and one where the article is gone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

WIDTH, HEIGHT, MARGIN = 560, 360, 50
COLOURS = ("#1f5fa8", "#c2410c", "#3f7d3a")


def draw(path: Path, curves: Mapping[str, Sequence[Mapping[str, float]]]) -> None:
    """Write an SVG: answered share (across) against correct share of these (up), from 0.5 to 1."""
    right, bottom = WIDTH - MARGIN, HEIGHT - MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<path d="M{MARGIN} {MARGIN}V{bottom}H{right}" fill="none" stroke="black"/>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">share answered</text>',
        f'<text x="{MARGIN}" y="{MARGIN - 14}">share of these whose first quote is right</text>',
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = _at(tick, 0.5)
        parts.append(f'<text x="{x:.0f}" y="{y + 16:.0f}" text-anchor="middle">{tick:g}</text>')
    for tick in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        x, y = _at(0.0, tick)
        parts.append(f'<text x="{x - 6:.0f}" y="{y + 4:.0f}" text-anchor="end">{tick:g}</text>')
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [_at(p["answered"], p["correct"]) for p in points if p["answered"] > 0.02]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = bottom - 20 - 18 * number
        parts.append(f'<text x="{MARGIN + 20}" y="{y}" fill="{colour}">{name}</text>')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _at(answered: float, correct: float) -> tuple[float, float]:
    across, up = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    return MARGIN + answered * across, HEIGHT - MARGIN - (max(correct, 0.5) - 0.5) / 0.5 * up

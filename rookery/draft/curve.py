"""Curves of how much is answered against how much of it is good, as a picture.

It knows nothing of scores, labels and files.
"""

from collections.abc import Mapping, Sequence
from html import escape
from math import floor
from typing import NamedTuple

WIDTH, HEIGHT, MARGIN = 560, 360, 50
RIGHT, BOTTOM = WIDTH - MARGIN, HEIGHT - MARGIN
COLOURS = ("#1f5fa8", "#c2410c", "#3f7d3a")
FEWEST = 0.02
"""share answered below which a line is not drawn: it would jump with each answer"""


class Promise(NamedTuple):
    """What is marked: the share that is wanted, and how much is answered with it."""

    wanted: float
    answered: float
    """0: nothing can be promised"""
    words: str


def drawn(
    lines: Mapping[str, Sequence[tuple[float, float]]], good: str, promise: Promise | None = None
) -> str:
    """An SVG of named lines of (share answered, share of these that is good), both from 0 to 1.

    `good` says what the second share is. It is drawn from 0.5 to 1, or from lower where a line
    goes lower.
    """
    seen = {
        name: [point for point in points if point[0] > FEWEST] for name, points in lines.items()
    }
    shown = [share for points in seen.values() for _, share in points]
    shown += [promise.wanted] if promise else []
    low = min(5, floor(10 * min(shown, default=1.0))) / 10
    parts = [*_axes(good, low), *_promised(promise, low)]
    for number, (name, points) in enumerate(seen.items()):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(f"{_x(answered):.1f},{_y(share, low):.1f}" for answered, share in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(MARGIN + 20, BOTTOM - 20 - 18 * number, name, f' fill="{colour}"'))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _axes(good: str, low: float) -> list[str]:
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<path d="M{MARGIN} {MARGIN}V{BOTTOM}H{RIGHT}" fill="none" stroke="black"/>',
        _text(WIDTH / 2, HEIGHT - 12, "share answered", MIDDLE),
        _text(MARGIN, MARGIN - 14, good),
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(_text(_x(tick), BOTTOM + 16, f"{tick:g}", MIDDLE))
    for tenth in range(round(10 * low), 11):
        parts.append(_text(MARGIN - 6, _y(tenth / 10, low) + 4, f"{tenth / 10:g}", END))
    return parts


def _promised(promise: Promise | None, low: float) -> list[str]:
    """Dashed lines at what is wanted and at what is answered with it."""
    if promise is None:
        return []
    x, y = _x(promise.answered), _y(promise.wanted, low)
    upright = f"M{x:.1f} {MARGIN}V{BOTTOM}" if promise.answered else ""
    return [
        f'<path d="M{MARGIN} {y:.1f}H{RIGHT}{upright}" '
        'fill="none" stroke="#666" stroke-dasharray="5 4"/>',
        _text(RIGHT, y - 5, f"{promise.wanted:g} wanted", END),
        _text(RIGHT, BOTTOM - 8, promise.words, END),
    ]


MIDDLE, END = ' text-anchor="middle"', ' text-anchor="end"'


def _text(x: float, y: float, words: str, how: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}"{how}>{escape(words)}</text>'


def _x(answered: float) -> float:
    return MARGIN + answered * (RIGHT - MARGIN)


def _y(share: float, low: float) -> float:
    return BOTTOM - (max(share, low) - low) / (1 - low) * (BOTTOM - MARGIN)

"""Widths of intervals."""

from rookery.measure.intervals import Estimate


def half_width(estimate: Estimate) -> float:
    return (estimate.high - estimate.low) / 2

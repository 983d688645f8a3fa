"""Ends and widths of intervals."""

from rookery.measure.intervals import Estimate


def get_ends(estimate: Estimate) -> tuple[float, float]:
    """Return the ends of an interval, which there is to be."""
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def half_width(estimate: Estimate) -> float:
    low, high = get_ends(estimate)
    return (high - low) / 2


def holds(estimate: Estimate, truth: float) -> bool:
    low, high = get_ends(estimate)
    return low <= truth <= high

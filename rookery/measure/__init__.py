"""Metrics with confidence intervals, and figures that anyone can compute again."""

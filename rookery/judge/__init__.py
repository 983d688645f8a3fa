"""Comparisons: the work of people who judge answers. Nothing here yet."""

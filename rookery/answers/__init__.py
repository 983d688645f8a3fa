"""Answers: the methods, choosing, declining, batches, and what composes them."""

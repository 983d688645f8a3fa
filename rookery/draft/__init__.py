"""Answers: gathered, written, chosen among, and declined."""

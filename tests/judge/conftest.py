"""Stores for the tests of `judge`."""

from stores import clock, fresh, kind, nowhere, place, postgres, store, template

__all__ = ["clock", "fresh", "kind", "nowhere", "place", "postgres", "store", "template"]

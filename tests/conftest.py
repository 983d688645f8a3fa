"""The tiers of the suite, for all tests."""

from tiers import pytest_collection_modifyitems, pytest_configure

__all__ = ["pytest_collection_modifyitems", "pytest_configure"]

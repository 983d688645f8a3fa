"""The tiers of the suite, and a Ray cluster, for all tests."""

from ray_clusters import cluster
from tiers import pytest_collection_modifyitems, pytest_configure

__all__ = ["cluster", "pytest_collection_modifyitems", "pytest_configure"]

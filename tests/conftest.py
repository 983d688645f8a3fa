"""The tiers of the suite, how much hypothesis tries, and a Ray cluster, for all tests."""

import signal

from hypothesis import settings
from ray_clusters import cluster
from tiers import (
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_fixture_setup,
    pytest_pyfunc_call,
    pytest_runtest_makereport,
)

__all__ = [
    "cluster",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_fixture_setup",
    "pytest_pyfunc_call",
    "pytest_runtest_makereport",
]

# A test in the slow tier says how many more it wants. In CI the examples are the same each time.
settings.register_profile("quick", settings.default, max_examples=25, deadline=None)
settings.load_profile("quick")

# A shell starts what is in its background with SIGINT ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

"""The tiers of the suite, how much hypothesis tries, and fixtures that several packages use."""

import signal

from command_fixtures import empty_store, home, indexed_home, once, run, web
from hypothesis import settings
from precision import float32
from ray_clusters import cluster
from sites import browser, opened, site
from stores import clock, fresh, kind, nowhere, place, postgres, store, template
from tiers import (
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_fixture_setup,
    pytest_pyfunc_call,
    pytest_runtest_makereport,
    pytest_terminal_summary,
)

__all__ = [
    "browser",
    "clock",
    "cluster",
    "empty_store",
    "float32",
    "fresh",
    "home",
    "indexed_home",
    "kind",
    "nowhere",
    "once",
    "opened",
    "place",
    "postgres",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_fixture_setup",
    "pytest_pyfunc_call",
    "pytest_runtest_makereport",
    "pytest_terminal_summary",
    "run",
    "site",
    "store",
    "template",
    "web",
]

# A test in the slow tier says how many more it wants. In CI the examples are the same each time.
settings.register_profile("quick", settings.default, max_examples=25, deadline=None)
settings.load_profile("quick")

# A shell starts what is in its background with SIGINT ignored, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

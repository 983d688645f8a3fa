"""Tiers of the suite: `make test` runs what has no mark of these, `make test-all` everything.

In CI, quick tests that take more than half a second of CPU are named at the end.
"""

import functools
import os
import resource
import statistics
import sys
import time
from collections.abc import Generator
from typing import Any

import pytest

BROWSER_FIXTURES = {"browser", "printed"}
PROGRAM_FIXTURES = {"postgres", "pair", "real"}
TIERS = ("browser", "program", "slow")

LIMIT = 0.5
"""seconds of CPU that a quick test may take, with its own fixtures and processes"""
PACE = 0.033
"""seconds of CPU that the loop of `measure_pace` takes on the machine that the limit is for"""

LOADING = 0.003
"""seconds of CPU that loading a module may take the first test that needs it"""

SPENT = pytest.StashKey[float]()
TOO_MUCH = "seconds of CPU over the limit"


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "browser: drives Chromium",
        "program: needs another program or environment, such as PostgreSQL, vLLM or tmux",
        "slow: takes more than half a second of CPU, kills processes, or waits for them",
    ):
        config.addinivalue_line("markers", marker)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests whose fixtures need a browser or a database server."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if fixtures & BROWSER_FIXTURES:
            item.add_marker("browser")
        if fixtures & PROGRAM_FIXTURES or "postgresql" in parameters.values():
            item.add_marker("program")


def spent_cpu() -> float:
    """Seconds of CPU of this process, and of its children that ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


def count_cpu(item: pytest.Item, began: float, modules: int) -> None:
    """Add to what a test took since then, and leave out the modules that it was first to load."""
    spent = spent_cpu() - began - LOADING * (len(sys.modules) - modules)
    item.stash[SPENT] = item.stash.get(SPENT, 0.0) + max(0.0, spent)


def measure_pace() -> float:
    """Seconds of CPU that a loop takes now: more on a slow machine, and beside other work."""
    found = []
    for _ in range(5):
        began, counts = time.process_time(), dict[str, int]()
        for number in range(200_000):
            word = f"{number % 997}"
            counts[word] = counts.get(word, 0) + number
        found.append(time.process_time() - began)
    return statistics.median(found)


pace_of_this_session = functools.cache(measure_pace)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    """Count what a test's own fixtures take; those of a module are shared."""
    began, modules = spent_cpu(), len(sys.modules)
    made = yield
    if fixturedef.scope == "function":
        count_cpu(request.node, began, modules)
    return made


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    began, modules = spent_cpu(), len(sys.modules)
    try:
        return (yield)
    finally:
        count_cpu(pyfuncitem, began, modules)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, note what a quick test took that took too much."""
    report = yield
    quick = not any(item.get_closest_marker(name) for name in TIERS)
    if "CI" in os.environ and quick and report.when == "call" and report.passed:
        spent = item.stash.get(SPENT, 0.0)
        if spent * PACE > LIMIT * pace_of_this_session() and (
            (seconds := spent * PACE / measure_pace()) > LIMIT
        ):
            report.user_properties.append((TOO_MUCH, seconds))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the quick tests that took too much. A machine that is busy for a moment fails nobody."""
    for report in terminalreporter.getreports("passed"):
        for name, seconds in report.user_properties:
            if name == TOO_MUCH:
                terminalreporter.write_line(
                    f"{report.nodeid} took {seconds:.2f} s of CPU, and a quick test may take "
                    f"{LIMIT}: make it faster, or mark it slow"
                )

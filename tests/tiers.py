"""Tiers of the suite: `make test` runs what has no mark of these, `make test-all` everything."""

import pytest

BROWSER_FIXTURES = {"browser", "printed"}
PROGRAM_FIXTURES = {"postgres", "pair", "real"}


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

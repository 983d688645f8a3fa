"""A desk to visit, and a real one with a real browser, for the tests of the pages."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from visits import Opened, open_store
from windows import CHROMIUM, Site, chromium, serving


@pytest.fixture
def opened(empty_store: Path, tmp_path: Path) -> Iterator[Opened]:
    """A desk with nothing to do yet."""
    desk = open_store(empty_store, tmp_path)
    yield desk
    desk.store.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    if CHROMIUM is None and "CI" not in os.environ:
        pytest.skip("needs chromium")
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def site(
    empty_store: Path, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A desk at an address, for the tests of one file."""
    opened = open_store(empty_store, tmp_path_factory.mktemp("site"))
    with serving(opened) as address:
        yield Site(opened, address, browser)
    opened.store.close()

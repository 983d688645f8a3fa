"""Readers, and an archive of the test's own, for the tests of pages, exports and documents."""

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from selectolax.lexbor import LexborHTMLParser
from visits import Opened, Visit

from rookery.desk import accounts
from rookery.desk.accounts import PersonRole
from rookery.library.libraries import get_bundled_folder
from rookery.library.page_archive import PageArchive
from rookery.pages.page_reader import read_page
from rookery.records import Page
from rookery.server.stored_pages import Span
from rookery.settings import ARCHIVE, get_data_folder

REPORT = get_bundled_folder() / "field-report.pdf"


def come_in(opened: Opened, name: str = "rita", role: PersonRole = "reader") -> Visit:
    """Somebody who is in, at a desk whose lifespan is not begun."""
    client = opened.client()
    token = accounts.create_invite(opened.store, name, role, "ada")
    assert client.post(f"/enter/{token}", follow_redirects=False).status_code == 303
    return Visit(client, name)


def own_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder and a cache in this folder, for as long as a test runs."""
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    yield folder
    for thread in threading.enumerate():
        if thread.name.startswith("documents"):
            thread.join()


def keep(*pages: Page) -> None:
    """Puts pages into the archive."""
    with PageArchive(get_data_folder() / ARCHIVE) as archive:
        archive.store_pages(pages)


def read_from(file: Path) -> Page:
    """The page of a file, as it was read one morning."""
    return read_page(file.read_bytes(), file.as_uri(), fetched="2026-11-21T09:05:00+00:00")


def spans(page: Page, chance: Random, count: int) -> Iterator[Span]:
    """Random parts of a page that hold more than white space."""
    for _ in range(count):
        start = chance.randrange(len(page.text))
        end = min(len(page.text), start + 1 + int(chance.expovariate(1 / 80)))
        if not page.text[start:end].isspace():
            yield start, end


def marked(html: str) -> str:
    """What a page marks, as a browser reads it."""
    return "".join(mark.text(deep=True) for mark in LexborHTMLParser(html).css("mark"))

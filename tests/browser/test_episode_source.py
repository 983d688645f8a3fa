"""Which libraries an episode source takes for fixed, so that what they answered is remembered."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from stage import Said, Stage, stage

from rookery.browser.episode_source import EpisodeSource, reward_accepted_answer
from rookery.library.folder_library import FolderLibrary
from rookery.library.libraries import CombinedLibrary
from rookery.library.page_archive import PageArchive
from rookery.library.site_library import SiteLibrary, SiteLimits
from rookery.network.fetcher import Fetcher
from rookery.records import Library, Page, Question


def write_page(text: str, link: str = "") -> str:
    return f"<title>Birds</title><main><p>{text}</p>{link}</main>"


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[PageArchive]:
    with PageArchive(tmp_path / "archive.sqlite") as archive:
        yield archive


@pytest.fixture
def site(tmp_path: Path, archive: PageArchive) -> Iterator[tuple[Stage, SiteLibrary]]:
    """A site whose crawl ended before the second page."""
    with stage() as server, Fetcher(allow_private=True) as fetcher:
        server.routes["/"] = Said(write_page("Birds of the town.", "<a href=/news>News</a>"))
        limits = SiteLimits(pages=1)
        yield server, SiteLibrary(server.base + "/", archive, fetcher, tmp_path / "cache", limits)


@pytest.fixture
def folder(tmp_path: Path, archive: PageArchive) -> Iterator[FolderLibrary]:
    (tmp_path / "birds").mkdir()
    (tmp_path / "birds" / "crow.html").write_text(write_page("The crow keeps walnuts."))
    with FolderLibrary(tmp_path / "birds", archive, tmp_path / "cache") as folder:
        yield folder


def make_source(library: Library) -> EpisodeSource:
    return EpisodeSource({"train": [Question("1", "Why?")]}, library, reward_accepted_answer)


def fetch_anew(source: EpisodeSource, url: str) -> Page:
    """What an episode of its own is shown."""
    return source.create_episode(source.select_task()).library.fetch(url)


@pytest.mark.parametrize("combined", [False, True])
def test_pages_that_a_site_fetches_are_not_remembered(
    site: tuple[Stage, SiteLibrary], folder: FolderLibrary, combined: bool
) -> None:
    server, library = site
    source = make_source(CombinedLibrary([folder, library]) if combined else library)
    assert not source.answers_at_once
    fetch_anew(source, server.base + "/")
    for text in ("The jay plants oaks.", "The rook digs deep."):
        server.routes["/news"] = Said(write_page(text))
        assert text in fetch_anew(source, server.base + "/news").text


@pytest.mark.parametrize("combined", [False, True])
def test_what_a_folder_answers_is_remembered(folder: FolderLibrary, combined: bool) -> None:
    library = CombinedLibrary([folder, folder]) if combined else folder
    source = make_source(library)
    assert source.answers_at_once
    (hit, *_) = folder.search("walnuts", 1)
    assert fetch_anew(source, hit.url) is fetch_anew(source, hit.url)

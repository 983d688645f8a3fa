"""Given pages as a library: what is found, what is opened, what replaces what."""

import pytest

from rookery.errors import Failed
from rookery.library.search_index import InMemoryLibrary
from rookery.pages.page_reader import read_page
from rookery.records import Library, Page


def page(url: str, text: str) -> Page:
    return read_page(f"<title>Birds</title><p>{text}</p>".encode(), url, "text/html")


RAVEN = page("https://birds.example/raven", "The raven hid seven walnuts in the moss.")
JAY = page("https://birds.example/jay", "The jay plants oaks wherever it forgets.")


def test_a_hit_leads_to_the_page_and_to_the_words() -> None:
    shelf: Library = InMemoryLibrary([RAVEN, JAY])
    (hit,) = shelf.search("who hid walnuts", 5)
    found = shelf.fetch(hit.url)
    assert found == RAVEN
    assert hit.digest == RAVEN.digest
    assert "seven walnuts" in found.text[hit.start : hit.end]


def test_no_more_hits_than_were_asked_for() -> None:
    pages = [page(f"https://birds.example/{n}", f"Raven number {n}.") for n in range(5)]
    assert len(InMemoryLibrary(pages).search("raven", 3)) == 3


def test_a_later_version_replaces_an_earlier_one_whatever_their_fragments() -> None:
    later = page(RAVEN.url + "#top", "The raven hid eight acorns.")
    shelf = InMemoryLibrary(iter([RAVEN, JAY, later]))
    assert shelf.search("walnuts", 5) == []
    assert shelf.fetch(RAVEN.url) == later
    assert [hit.digest for hit in shelf.search("acorns", 5)] == [later.digest]


def test_the_fragment_of_an_address_is_ignored() -> None:
    assert InMemoryLibrary([RAVEN, JAY]).fetch(JAY.url + "#oaks") == JAY


@pytest.mark.parametrize("url", ["https://birds.example/", "file:///etc/passwd", "", "http://["])
def test_other_addresses_are_not_opened(url: str) -> None:
    with pytest.raises(Failed) as caught:
        InMemoryLibrary([RAVEN]).fetch(url)
    assert caught.value.failure.outcome == "url_not_shown"
    assert caught.value.failure.what == url


def test_an_empty_shelf_finds_nothing() -> None:
    assert list(InMemoryLibrary([]).search("raven", 5)) == []

"""Retrieval: pages that a search has read and pages that it has not are opened side by side."""

from collections.abc import Sequence
from threading import Barrier

from rookery.answers.retrieval import gather_passages
from rookery.pages.page_reader import read_page
from rookery.records import Hit, Library, Page

PAGES = {
    url: read_page(f"<p>The {bird} croaks over the moor at dusk.</p>".encode(), url)
    for url, bird in (("https://e.org/raven", "raven"), ("https://e.org/crow", "crow"))
}


class MixedLibrary(Library):
    """One hit with its passage, one without; each page comes when both are asked for."""

    def __init__(self) -> None:
        self.both = Barrier(2, timeout=30)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        raven, crow = PAGES.values()
        return [
            Hit(raven.url, "", "", raven.digest, 0, len(raven.text), 1.0),
            Hit(crow.url, "", ""),
            Hit(crow.url, "", ""),
        ]

    def fetch(self, url: str) -> Page:
        self.both.wait()
        return PAGES[url]


def test_all_pages_are_opened_within_one_limit_of_time() -> None:
    gathered = gather_passages("What croaks over the moor?", MixedLibrary())
    assert gathered.failures == ()
    assert gathered.opened == 2
    assert {page.url for page, _ in gathered.found} == set(PAGES)

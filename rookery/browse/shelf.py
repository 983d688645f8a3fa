"""A library of pages that are given: an answer's sources, a little web, a recording.

It knows nothing of where the pages come from, and keeps all of them in memory.
"""

from collections.abc import Iterable, Sequence

from rookery.browse.index import Index
from rookery.records import Failed, Failure, Hit, Page


class Shelf:
    """These pages and no others; of several with one address, the last."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._pages = {_address(page.url): page for page in pages}
        self._index = Index()
        for page in self._pages.values():
            self._index.add(page)
        self._index.commit()

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """The k best passages of the pages, by BM25."""
        return self._index.search(query, k)

    def fetch(self, url: str) -> Page:
        """The page at this address, whatever its fragment; Failed (url_not_shown) for others."""
        page = self._pages.get(_address(url))
        if page is None:
            detail = "it is no page of this library: open addresses that a search showed"
            raise Failed(Failure(url, "url_not_shown", detail))
        return page


def _address(url: str) -> str:
    return url.partition("#")[0]

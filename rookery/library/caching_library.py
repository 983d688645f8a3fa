"""A library that remembers what another one answered, for rollouts that ask the same many times."""

from collections.abc import Sequence
from functools import lru_cache

from rookery.library.libraries import get_contents_digest
from rookery.records import Failure, Hit, Library, Page

REMEMBERED_SEARCHES = 4096
REMEMBERED_PAGES = 512


class CachingLibrary(Library):
    """The library `library`, whose contents must not change. Failures are not remembered.

    Threads may share one. Closing it closes the other.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._search = lru_cache(REMEMBERED_SEARCHES)(library.search)
        self._fetch = lru_cache(REMEMBERED_PAGES)(library.fetch)

    @property
    def failures(self) -> Sequence[Failure]:
        """The failures of the other library."""
        return self._library.failures

    @property
    def skipped(self) -> Sequence[Failure]:
        """Nothing that concerns those who browse."""
        return ()

    def contents_digest(self) -> str:
        """Return the digest of the other library's contents."""
        return get_contents_digest(self._library)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the k best results, best first. Raises Failed as the other library does."""
        return self._search(query, k)

    def fetch(self, url: str) -> Page:
        """Return the page at this address. Raises Failed as the other library does."""
        return self._fetch(url)

    def close(self) -> None:
        """Forget everything, and close the other library."""
        self._search.cache_clear()
        self._fetch.cache_clear()
        self._library.close()

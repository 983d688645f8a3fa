"""A library, and beside it another one. It knows nothing of what either of them holds."""

from rookery.records import Failed, Hit, Library, Page


class Beside:
    """Searches the first library; what that one never showed is fetched from the other."""

    def __init__(self, library: Library, beside: Library) -> None:
        self._library = library
        self._beside = beside

    def search(self, query: str, k: int) -> list[Hit]:
        """What the first library finds."""
        return list(self._library.search(query, k))

    def fetch(self, url: str) -> Page:
        """The page, from the first library if it has shown it. Raises Failed."""
        try:
            return self._library.fetch(url)
        except Failed as failed:
            if failed.failure.outcome != "url_not_shown":
                raise
        return self._beside.fetch(url)

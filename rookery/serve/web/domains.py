"""A library narrowed to some hosts of the web. It knows nothing of who narrows it."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from rookery.records import Failed, Failure, Hit, Library, Page

WIDER = 5
"""times as many hits are looked through where too few are of these hosts"""


class Within:
    """A library of which only pages of some hosts are found and opened.

    A name stands for its host and all below it; with - before it, they are left out.
    """

    def __init__(self, library: Library, domains: Sequence[str]) -> None:
        self._library = library
        self._domains = tuple(domains)

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """The k best of these hosts, as far as the library finds them."""
        found: list[Hit] = []
        for size in (k, WIDER * k):
            hits = self._library.search(query, size)
            found = [hit for hit in hits if allowed(hit.url, self._domains)]
            if len(found) >= k or len(hits) < size:
                break
        return found[:k]

    def fetch(self, url: str) -> Page:
        """The page, where it and what it leads to are of these hosts. Raises Failed."""
        page = self._library.fetch(self._checked(url))
        self._checked(page.url)
        return page

    def _checked(self, url: str) -> str:
        if not allowed(url, self._domains):
            detail = "this host is not among those that were asked for"
            raise Failed(Failure(url, "not_allowed", detail))
        return url


def allowed(url: str, domains: Sequence[str]) -> bool:
    """Whether a page of this address may be looked at."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    names = [name.strip().strip(".").lower() for name in domains]
    if any(_below(host, name[1:]) for name in names if name.startswith("-")):
        return False
    wanted = [name for name in names if name and not name.startswith("-")]
    return not wanted or any(_below(host, name) for name in wanted)


def _below(host: str, name: str) -> bool:
    return host == name or host.endswith(f".{name}")

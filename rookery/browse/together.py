"""Several libraries as one: their results taken in turn, best first."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest

from rookery.records import Failed, Failure, Hit, Library, Page, digest_of


class Together:
    """Searches every library; a page comes from the library that showed its address.

    A library that fails is recorded in `failures` and left out; only where all fail, `search`
    raises `Failed` itself.
    """

    def __init__(self, libraries: Sequence[Library]) -> None:
        if not libraries:
            raise ValueError("name at least one library to search")
        self._libraries = tuple(libraries)
        self._shown: dict[str, Library] = {}
        self._own: list[Failure] = []

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The searches that failed, then what each library has skipped."""
        theirs = (getattr(library, "failures", ()) for library in self._libraries)
        return (*self._own, *chain.from_iterable(theirs))

    def contents_digest(self) -> str:
        """Digest of what all libraries hold."""
        return digest_of("\n".join(map(contents_digest, self._libraries)))

    @property
    def skipped(self) -> tuple[Failure, ...]:
        """The files that each library leaves out."""
        theirs = (getattr(library, "skipped", ()) for library in self._libraries)
        return tuple(chain.from_iterable(theirs))

    def search(self, query: str, k: int) -> list[Hit]:
        """k results: the first of each library, then the second of each, and so on.

        A text that two libraries have is shown by the first that shows it.
        """
        owners: dict[str, Library] = {}
        texts: dict[str, str] = {}
        hits: list[Hit] = []
        for library, hit in _in_turn(self._answers(query, k)):
            # One library may show several passages of a page; two never show the same page.
            copy = hit.digest and texts.setdefault(hit.digest, hit.url) != hit.url
            if owners.setdefault(hit.url, library) is library and not copy:
                hits.append(hit)
        self._shown.update(owners)
        return hits[:k]

    def fetch(self, url: str) -> Page:
        """The page, from the library that showed it, or from the first that will open it."""
        if url in self._shown:
            return self._shown[url].fetch(url)
        refused = None
        for library in self._libraries:
            try:
                return library.fetch(url)
            except Failed as failed:
                if failed.failure.outcome != "url_not_shown":
                    raise
                refused = failed
        assert refused is not None  # there is at least one library
        raise refused

    def close(self) -> None:
        """Closes the libraries that hold something open."""
        for library in self._libraries:
            if close := getattr(library, "close", None):
                close()

    def _answers(self, query: str, k: int) -> list[tuple[Library, Sequence[Hit]]]:
        answered: list[tuple[Library, Sequence[Hit]]] = []
        failed: list[Failure] = []
        for library in self._libraries:
            try:
                answered.append((library, library.search(query, k)))
            except Failed as failure:
                failed.append(failure.failure)
        self._own += failed
        if not answered:
            raise _all_failed(query, failed)
        return answered


def _in_turn(answered: Sequence[tuple[Library, Sequence[Hit]]]) -> Iterator[tuple[Library, Hit]]:
    for turn in zip_longest(*([(library, hit) for hit in hits] for library, hits in answered)):
        yield from filter(None, turn)


def _all_failed(query: str, failed: Sequence[Failure]) -> Failed:
    if len(failed) == 1:
        return Failed(failed[0])
    detail = "; ".join(f"{failure.outcome}: {failure.detail}" for failure in failed)
    return Failed(Failure(query, "search_failed", f"no library could be searched ({detail})"))


def contents_digest(library: Library) -> str:
    """Digest of what a library holds; empty where that cannot be known, as of the web."""
    digest: Callable[[], str] | None = getattr(library, "contents_digest", None)
    return digest() if digest else ""

"""A library of one's own: any object with `search` and `fetch`, as a place."""

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from rookery.errors import Failed, Outcome
from rookery.library.page_archive import PageArchive
from rookery.python_objects import describe_own_error, has_methods, load_own_object
from rookery.records import Failure, Hit, Library, Page

T = TypeVar("T")
LIBRARY_METHODS = ("search", "fetch")


class OwnLibrary(Library):
    """Somebody's library, whose pages are archived, so that quotes of them can be checked.

    What it raises besides Failed, and what it returns of another type, becomes a Failed
    (library_failed) that names file and line. Closing it closes the object if `close` is true.
    """

    def __init__(self, library: Library, archive: PageArchive, close: bool = False) -> None:
        self._library = library
        self._archive = archive
        self._closes = close

    @property
    def failures(self) -> Sequence[Failure]:
        """Failures that the object names; none where it has no `failures`."""
        return getattr(self._library, "failures", ())

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k of the object's hits."""
        hits = self._call_object(query, lambda: list(self._library.search(query, k)))
        for hit in hits:
            self._require_type(query, "search", hit, Hit)
        return hits[:k]

    def fetch(self, url: str) -> Page:
        """Return the object's page at this address, once it is archived."""
        page = self._call_object(url, lambda: self._library.fetch(url))
        self._require_type(url, "fetch", page, Page)
        self._archive.store_page(page, url)
        return page

    def close(self) -> None:
        """Close the object, if that was asked for and it can be closed."""
        if self._closes and hasattr(self._library, "close"):
            self._library.close()

    def _call_object(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except Failed:
            raise
        except Exception as error:
            detail = describe_own_error(error)
            raise Failed(Failure(what, Outcome.LIBRARY_FAILED, detail)) from error

    def _require_type(self, what: str, method: str, value: object, kind: type) -> None:
        if not isinstance(value, kind):
            name = type(self._library).__name__
            detail = (
                f"{name}.{method} gave a {type(value).__name__}, and not a rookery.{kind.__name__}"
            )
            raise Failed(Failure(what, Outcome.LIBRARY_FAILED, detail))


def is_library(value: object) -> bool:
    """Return whether an object can be searched as a library: it has `search` and `fetch`."""
    return has_methods(value, LIBRARY_METHODS)


def load_own_library(name: str) -> Library:
    """Return the library that `python:package.module.name` names: an object with `search` and
    `fetch`, or a class or function that makes one without arguments.

    Raises Failed: not_found, or not_usable where it cannot be made or is no library.
    """
    lacks = "has no search(query, k) and fetch(url), as a library has"
    return cast(Library, load_own_object(name, LIBRARY_METHODS, lacks))

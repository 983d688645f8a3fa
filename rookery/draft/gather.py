"""From a question to passages: search a library, open what it found, keep the passages that fit."""

from collections.abc import Sequence

import msgspec

from rookery.browse.fetch import fetch_all
from rookery.browse.index import Index
from rookery.records import Failed, Failure, Hit, Library, Page


class GatherLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much is looked at for one question."""

    passages: int = 20
    """passages that are ranked sentence by sentence"""
    pages: int = 10
    """pages opened where a search names pages and not passages"""
    seconds: float = 20.0
    """to open them; what has come by then is used"""
    question: int = 2000
    """characters of the question that are searched for"""


class Gathered(msgspec.Struct, frozen=True):
    """What was found and what could not be had."""

    found: tuple[tuple[Page, Hit], ...]
    """passages, best first, each with its page"""
    failures: tuple[Failure, ...] = ()
    opened: int = 0
    """pages"""


def gather(question: str, library: Library, limits: GatherLimits = GatherLimits()) -> Gathered:
    """Passages for a question. A search that fails is among the failures, never an empty result."""
    try:
        hits = library.search(question[: limits.question], max(limits.passages, limits.pages))
    except Failed as failed:
        return Gathered((), (failed.failure,))
    placed = [hit for hit in hits if hit.digest][: limits.passages]
    unread = list(dict.fromkeys(hit.url for hit in hits if not hit.digest))[: limits.pages]
    pages, failures = _open(library, list(dict.fromkeys(hit.url for hit in placed)), limits.seconds)
    found = [(pages[hit.url], hit) for hit in placed if _is_of(hit, pages)]
    if unread or len(found) < len(placed):
        moved = [hit.url for hit in placed if hit.url in pages and not _is_of(hit, pages)]
        fresh, more = _open(library, unread, limits.seconds)
        failures += more
        pages |= fresh
        found += _passages(question, [pages[url] for url in (*fresh, *moved)], limits.passages)
    found.sort(key=lambda pair: -pair[1].score)
    found = _without_copies(found)
    return Gathered(tuple(found[: limits.passages]), tuple(failures), len(pages))


def _without_copies(found: Sequence[tuple[Page, Hit]]) -> list[tuple[Page, Hit]]:
    """Of a text at several addresses, the passages at the first: it is one source."""
    addresses: dict[str, str] = {}
    return [
        (page, hit)
        for page, hit in found
        if addresses.setdefault(page.digest, page.url) == page.url
    ]


def _is_of(hit: Hit, pages: dict[str, Page]) -> bool:
    return hit.url in pages and pages[hit.url].digest == hit.digest


def _open(
    library: Library, urls: Sequence[str], seconds: float
) -> tuple[dict[str, Page], list[Failure]]:
    pages: dict[str, Page] = {}
    failures: list[Failure] = []
    for url, got in zip(urls, fetch_all(library.fetch, urls, seconds), strict=True):
        if isinstance(got, Page):
            pages[url] = got
        else:
            failures.append(got)
    return pages, failures


def _passages(question: str, pages: Sequence[Page], k: int) -> list[tuple[Page, Hit]]:
    """The passages of freshly opened pages that fit the question, by an index of their own."""
    index = Index()
    for page in pages:
        index.add(page)
    index.commit()
    by_name = {(page.url, page.digest): page for page in pages}
    return [(by_name[hit.url, hit.digest], hit) for hit in index.search(question, k)]

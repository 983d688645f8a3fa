"""Retrieval: search a library, open pages, and collect scored passages; dates of documents."""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import msgspec

from rookery.errors import Failed
from rookery.library.search_index import SearchIndex, order_by_fusion
from rookery.network.fetcher import fetch_pages
from rookery.records import Failure, Hit, Library, Mark, Page
from rookery.written_values import find_written_values


class RetrievalLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of retrieval for one question."""

    passages: int = 20
    """maximum number of passages"""
    pages: int = 10
    """maximum number of pages opened where a search returns pages instead of passages"""
    seconds: float = 20.0
    """seconds to open all pages; those that arrive later are failures"""
    question: int = 2000
    """characters of the question that are used as the query"""


class RetrievedPassages(msgspec.Struct, frozen=True):
    """Passages found for a question, and failures on the way."""

    found: tuple[tuple[Page, Hit], ...]
    """passages, the best first by words and vectors, each with its page"""
    failures: tuple[Failure, ...] = ()
    """searches and pages that failed"""
    opened: int = 0
    """number of pages opened"""


def gather_passages(
    question: str, library: Library, limits: RetrievalLimits = RetrievalLimits()
) -> RetrievedPassages:
    """Search a library for a question and collect the best passages, best first.

    Pages without indexed passages are opened and indexed here. Of a text at several addresses only
    one is used. Failed searches and pages are listed as failures; no Failed is raised for them.
    """
    try:
        hits = library.search(question[: limits.question], max(limits.passages, limits.pages))
    except Failed as failed:
        return RetrievedPassages((), (failed.failure,))
    placed = [hit for hit in hits if hit.digest][: limits.passages]
    unread = list(dict.fromkeys(hit.url for hit in hits if not hit.digest))[: limits.pages]
    urls = dict.fromkeys([*(hit.url for hit in placed), *unread])
    pages, failures = _open_pages(library, list(urls), limits.seconds)
    passages = [(pages[hit.url], hit) for hit in placed if _is_from_page(hit, pages)]
    moved = [hit.url for hit in placed if not _is_from_page(hit, pages)]
    if unplaced := [pages[url] for url in dict.fromkeys([*unread, *moved]) if url in pages]:
        passages += _search_pages(question, unplaced, limits.passages)
    passages.sort(key=lambda pair: order_by_fusion(pair[1]))
    passages = _drop_copies(passages)
    return RetrievedPassages(tuple(passages[: limits.passages]), tuple(failures), len(pages))


def _drop_copies(passages: Sequence[tuple[Page, Hit]]) -> list[tuple[Page, Hit]]:
    """Drop passages of pages whose text was found at another address before: it is one source."""
    addresses: dict[str, str] = {}
    return [
        (page, hit)
        for page, hit in passages
        if addresses.setdefault(page.digest, page.url) == page.url
    ]


def _is_from_page(hit: Hit, pages: dict[str, Page]) -> bool:
    return hit.url in pages and pages[hit.url].digest == hit.digest


def _open_pages(
    library: Library, urls: Sequence[str], seconds: float
) -> tuple[dict[str, Page], list[Failure]]:
    pages: dict[str, Page] = {}
    failures: list[Failure] = []
    for url, got in zip(urls, fetch_pages(library.fetch, urls, seconds), strict=True):
        if isinstance(got, Page):
            pages[url] = got
        else:
            failures.append(got)
    return pages, failures


def _search_pages(question: str, pages: Sequence[Page], k: int) -> list[tuple[Page, Hit]]:
    """Return the best passages of opened pages, by a temporary index of these pages."""
    index = SearchIndex()
    for page in pages:
        index.add(page)
    index.commit()
    by_name = {(page.url, page.digest): page for page in pages}
    return [(by_name[hit.url, hit.digest], hit) for hit in index.search(question, k)]


_SENT = re.compile(r"^Date: ((?:19|20)\d\d-\d\d-\d\d) \d\d:\d\d$", re.MULTILINE)
"""the line in which a mail shows its date"""


def find_document_date(page: Page, at: int = 0) -> str:
    """Return the date that the document at an offset of the page gives itself, as YYYY-MM-DD.

    Of a mail or a mailbox it is that of the message there. Empty where the document gives none, and
    for pages that version 0.2 read.
    """
    day = next((each.value for each in page.marks if each.kind == "date"), "")
    messages = (each for each in page.marks if each.kind == "message" and each.start <= at)
    message = max(messages, key=lambda each: each.start, default=Mark(0, len(page.text), ""))
    for block in page.blocks:
        if block.furniture and message.start <= block.start < message.end:
            sent = _SENT.search(page.text, block.start, block.end)
            day = sent[1] if sent and (block.start <= at or not day) else day
    return day


_DAY_IN_NAME = re.compile(
    r"(?<!\d)((?:19|20)\d\d)[-_.]?(0[1-9]|1[0-2])(?:[-_.]?(0[1-9]|[12]\d|3[01]))?(?!\d)"
)
_YEAR_AND_MONTH = re.compile(r"\d{4}-\d\d")
_YEAR = re.compile(r"(?<![\d.,/-])(?:19|20)\d\d(?![\d.,/-])")
_HEAD, _YEAR_HEAD = 400, 100
"""characters at the beginning of a document in which its date, or else a year, is looked for"""


def find_newer(*places: tuple[Page, int]) -> int | None:
    """Return which of two documents, each with an offset in it, is newer: 0, 1, or None.

    The day in a document's name counts, then that of a mail, then those in its title and first
    lines, then the one that it gives itself, which programs set by themselves; where neither has
    any of these, the days on which their files were changed, which copying changes.
    """
    days = [_find_written_day(*each) or find_document_date(*each) for each in places]
    if not any(days):
        days = [_find_file_day(page) for page, _ in places]
    first, second = days
    same = first.startswith(second) or second.startswith(first)  # also where one is not known
    return None if same else int(first < second)


def _find_written_day(page: Page, at: int) -> str:
    """Return the date in a page's name, mail, title or first lines: YYYY, YYYY-MM or YYYY-MM-DD."""
    name = Path(url2pathname(page.url.rpartition("/")[2])).stem
    if day := _DAY_IN_NAME.search(name):
        return "-".join(filter(None, day.groups()))
    blocks = (block for block in page.blocks if block.furniture)
    is_mail = any(_SENT.search(page.text, block.start, block.end) for block in blocks)
    sent = find_document_date(page, at) if is_mail else ""
    for text in (name.replace("_", " "), sent, page.title, page.text[:_HEAD]):
        days = (value.terms[0] for value in find_written_values(text))
        if written := next(filter(_YEAR_AND_MONTH.match, days), None):
            return written
        if year := _YEAR.search(text[:_YEAR_HEAD]):
            return year[0]
    return ""


def _find_file_day(page: Page) -> str:
    if page.url.startswith("file:///"):
        with suppress(OSError, ValueError):
            changed = Path(url2pathname(urlsplit(page.url).path)).stat().st_mtime
            return datetime.fromtimestamp(changed, UTC).date().isoformat()
    return ""

"""A library of the pages below one web address: crawled once, within bounds, then searched.

A crawl builds a new index beside the one in use and takes its place only when it is complete.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urlsplit

import msgspec

from rookery.errors import Failed, Outcome
from rookery.library import search_index as indexing
from rookery.library.page_archive import PageArchive, translate_storage_errors, write_whole_file
from rookery.library.search_index import (
    IndexNote,
    SearchIndex,
    hold_lock,
    read_index_note,
    record_index_use,
    translate_index_errors,
)
from rookery.network.fetcher import BUSY_OUTCOMES, Fetcher, fetch_pages
from rookery.network.http_response import parse_retry_after
from rookery.pages.passages import READER_FORMAT
from rookery.records import Failure, Hit, Library, Page, decode_json, digest_of

CRAWL_FORMAT = "1"
_PORTS = {"http": 80, "https": 443}
_NON_PAGE_SUFFIX = re.compile(
    r"\.(?:png|jpe?g|gif|webp|avif|svg|ico|css|js|mjs|json|xml|rss|atom|zip|gz|bz2|xz|zst|7z|tar|"
    r"mp[34]|m4a|ogg|wav|webm|mov|avi|woff2?|ttf|otf|eot|exe|dmg|iso|deb|rpm|apk|jar|whl)$",
    re.IGNORECASE,
)

_FEED_SUFFIX = re.compile(r"\.(?:xml|rss|atom)$", re.IGNORECASE)
_BUSY_PAUSES = (5.0, 20.0)
"""seconds after which pages that a busy server refused are asked for again, where it names none"""
_MOST_SITEMAPS = 5
"""sitemaps and feeds that are read for addresses of pages"""

ProgressCallback = Callable[[int, int, str], None]


class SiteLimits(msgspec.Struct, frozen=True):
    """Limits of a crawl, and the seconds for which it is used again."""

    pages: int = 200
    """to keep, at most"""
    seconds: float = 120.0
    """of crawling, at most"""
    parallel: int = 4
    """pages that are fetched at the same time"""
    fresh_seconds: float = 86_400.0
    """for which a finished crawl is used again"""


class FinishedCrawl(msgspec.Struct):
    """A finished crawl: the file that names it is written last."""

    format: str
    time: float
    index: str
    pages: dict[str, tuple[str, str]] = {}
    """by each address asked for: the page's own address and its digest"""
    failures: list[Failure] = []


class SiteScope(NamedTuple):
    """The origin and the start of the path that addresses of a site share."""

    origin: tuple[str, str, int]
    path: str

    def contains_url(self, url: str) -> bool:
        """Return whether an address has this origin and lies below this path, without `..`."""
        try:
            parts = urlsplit(url)
            origin = _parse_origin(url)
        except ValueError:
            return False
        path = parts.path or "/"
        below = path.startswith(self.path) or path + "/" == self.path
        # A server may resolve `..` even where it is written in percent signs.
        return origin == self.origin and below and ".." not in unquote(path).split("/")


def make_site_scope(url: str) -> SiteScope:
    """Return the scope of the site that this address names: its origin and its folder.

    A last part of the path that has no dot is a folder. Raises ValueError for an address that is
    not of http or https.
    """
    path = urlsplit(url).path or "/"
    folder, _, last = path.rpartition("/")
    return SiteScope(_parse_origin(url), f"{folder}/" if not last or "." in last else f"{path}/")


def _parse_origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{url} is no http or https address")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


class SiteLibrary(Library):
    """The pages below `prefix_url`, crawled breadth first as `limits` and robots.txt allow.

    Pages go to `archive`, the index below `cache`. A crawl younger than a day is used again
    (`offline`: of any age). `failures` are the pages that were not had. Raises `Failed`:
    invalid_url, the outcome of the first page where nothing else was had, not_in_archive.
    """

    skipped: Sequence[Failure] = ()
    """always empty: every page that was found is read"""

    def __init__(
        self,
        prefix_url: str,
        archive: PageArchive,
        fetcher: Fetcher,
        cache: Path,
        limits: SiteLimits = SiteLimits(),
        progress: ProgressCallback | None = None,
        offline: bool = False,
    ) -> None:
        self._start = urldefrag(prefix_url).url
        try:
            self._scope = make_site_scope(self._start)
        except ValueError as error:
            raise Failed(Failure(prefix_url, Outcome.INVALID_URL, str(error))) from error
        self._archive = archive
        self._fetcher = fetcher
        self._limits = limits
        self._progress = progress or (lambda count, total, what: None)
        self._offline = offline
        self.index_folder = cache / "sites" / sha256(self._start.encode()).hexdigest()[:32]
        """folder of the library's index in the cache"""
        self._shown_urls = {self._start}
        self._later_failures: list[Failure] = []
        self._crawl = self._load_offline_crawl() if offline else self._load_or_crawl()
        with translate_index_errors(self.index_folder):
            self._index = SearchIndex(self.index_folder / self._crawl.index)
        note = IndexNote("site", (self._start,), self._crawl.time)
        former = read_index_note(self.index_folder)
        changed = former is None or former.refreshed != note.refreshed
        record_index_use(self.index_folder, note, changed)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The pages that the crawl could not get, and those that could not be opened since."""
        return (*self._crawl.failures, *self._later_failures)

    def contents_digest(self) -> str:
        """Return a digest of the addresses and texts of all pages."""
        return digest_of("\n".join(sorted(map(" ".join, self._crawl.pages.values()))))

    @property
    def crawled(self) -> float:
        """Start of the crawl that is searched, in seconds since 1970."""
        return self._crawl.time

    def count_pages(self) -> int:
        """Return the number of pages that the crawl kept."""
        return len(set(self._crawl.pages.values()))

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Return the k best passages of the site, best first, by words and static vectors."""
        with translate_index_errors(self.index_folder):
            return self._index.search(query, k)

    def fetch(self, url: str) -> Page:
        """Return a page of the site that the crawl kept, or that an opened page links to.

        The latter is fetched now or, with `offline`, found in the archive. Raises Failed:
        url_not_shown for other addresses, not_in_archive, or the reason why it cannot be fetched.
        """
        address = urldefrag(url).url
        page = self._find_crawled(address)
        if page is None:
            page = self._open_uncrawled(address)
        self._shown_urls.update(urldefrag(link.url).url for link in page.links)
        return page

    def _find_crawled(self, address: str) -> Page | None:
        found = self._crawl.pages.get(address)
        return self._archive.find_page(found[1], found[0]) if found else None

    def _open_uncrawled(self, address: str) -> Page:
        """Return a page that the crawl did not reach, or that the archive has lost."""
        is_crawled = address in self._crawl.pages
        if not is_crawled and not (address in self._shown_urls and self._is_in_scope(address)):
            detail = "only pages of this site that a search or an opened page showed are opened"
            raise Failed(Failure(address, Outcome.URL_NOT_SHOWN, detail))
        if self._offline:
            return self._archive.load_latest(address)
        try:
            page = self._fetcher.fetch_page(address)
        except Failed as failed:
            self._later_failures.append(failed.failure)
            raise
        self._archive.store_page(page, requested_url=address)
        return page

    def _is_in_scope(self, address: str) -> bool:
        moved = self._crawl.pages.get(self._start)
        scopes = [self._scope, *([make_site_scope(moved[0])] if moved else ())]
        return any(scope.contains_url(address) for scope in scopes)

    def _load_offline_crawl(self) -> FinishedCrawl:
        if crawl := self._load_crawl():
            return crawl
        former = self._read_last_crawl()
        if former is None:
            detail = "this site was never crawled: ask once without --offline"
            raise Failed(Failure(self._start, Outcome.NOT_IN_ARCHIVE, detail))
        waiting = "another process is indexing this site; waiting for it to finish"
        with hold_lock(self.index_folder / "lock", lambda: self._progress(0, 0, waiting)):
            return self._load_crawl() or self._rebuild_index(former)

    def _rebuild_index(self, former: FinishedCrawl) -> FinishedCrawl:
        """Index the pages of a crawl again, from the archive: another version made its index."""
        name = f"index-{time.time_ns()}"
        crawl = msgspec.structs.replace(former, format=_join_formats(), index=name)
        texts = set[str]()
        with self._build_index(name) as index:
            with translate_index_errors(self.index_folder):
                for url, digest in crawl.pages.values():
                    page = None if digest in texts else self._archive.find_page(digest, url)
                    if page is not None:
                        texts.add(digest)
                        index.add(page)
                        self._progress(len(texts), len(crawl.pages), url)
                index.commit()
            self._publish_crawl(crawl)
        return crawl

    def _load_or_crawl(self) -> FinishedCrawl:
        if crawl := self._load_crawl(self._limits.fresh_seconds):
            return crawl
        waiting = "another process is crawling this site; waiting for it to finish"
        with hold_lock(self.index_folder / "lock", lambda: self._progress(0, 0, waiting)):
            return self._load_crawl(self._limits.fresh_seconds) or self._crawl_now()

    def _load_crawl(self, age: float = float("inf")) -> FinishedCrawl | None:
        """Return the last finished crawl, if it is no older than `age` seconds and its index is
        whole."""
        crawl = self._read_last_crawl()
        if crawl is None or crawl.format != _join_formats():
            return None
        if not -60 < time.time() - crawl.time <= age:
            return None
        with suppress(Failed), translate_index_errors(self.index_folder):
            SearchIndex(self.index_folder / crawl.index)
            return crawl
        return None

    def _read_last_crawl(self) -> FinishedCrawl | None:
        """Return the last finished crawl, whatever version of Rookery made it."""
        try:
            data = (self.index_folder / "crawl.json").read_bytes()
            return decode_json(data, FinishedCrawl)
        except (OSError, ValueError):
            return None

    def _crawl_now(self) -> FinishedCrawl:
        """Crawls now; an older crawl serves again where the site gives nothing."""
        crawl = FinishedCrawl(_join_formats(), time.time(), f"index-{time.time_ns()}")
        with self._build_index(crawl.index) as index:
            self._crawl_pages(crawl, index)
            if not crawl.pages:
                former = self._read_last_crawl()
                if former is None:
                    raise Failed(crawl.failures[0])
                self._later_failures += crawl.failures
                return self._load_crawl() or self._rebuild_index(former)
            with translate_index_errors(self.index_folder):
                index.commit()
            self._publish_crawl(crawl)
        return crawl

    @contextmanager
    def _build_index(self, name: str) -> Iterator[SearchIndex]:
        """Open a new index; at the end remove every folder but the one that `crawl.json` names."""
        try:
            with translate_index_errors(self.index_folder):
                index = SearchIndex(self.index_folder / name)
            yield index
        finally:
            stored = self._load_crawl()
            for directory in self.index_folder.glob("index-*"):
                if stored is None or directory.name != stored.index:
                    shutil.rmtree(directory, ignore_errors=True)

    def _publish_crawl(self, crawl: FinishedCrawl) -> None:
        with translate_storage_errors(self.index_folder):
            write_whole_file(self.index_folder / "crawl.json", [msgspec.json.encode(crawl)])

    def _crawl_pages(self, crawl: FinishedCrawl, index: SearchIndex) -> None:
        """Fetch the start and what it leads to, level by level, until a limit is met."""
        deadline = time.monotonic() + self._limits.seconds
        scope, attempts = self._scope, 0
        waiting, queued, texts = [self._start], {self._start}, set[str]()
        pauses = list(_BUSY_PAUSES)
        while waiting and len(texts) < self._limits.pages and attempts < 2 * self._limits.pages:
            room = min(4 * self._limits.parallel, self._limits.pages - len(texts))
            batch, waiting = waiting[:room], waiting[room:]
            attempts += len(batch)
            for address, page in self._fetch_batch(batch, deadline - time.monotonic(), crawl):
                if address == self._start:
                    # Where the user's own address leads, is meant.
                    scope = make_site_scope(page.url)
                elif not scope.contains_url(page.url):
                    detail = f"it leads out of the site, to {page.url}"
                    crawl.failures.append(Failure(address, Outcome.OUTSIDE_SITE, detail))
                    continue
                self._store_page(crawl, index, address, page, texts)
                links = list(_iter_site_links(page, scope))
                if address == self._start:
                    links += self._find_listed_pages(page, scope, deadline)
                waiting += (url for url in dict.fromkeys(links) if url not in queued)
                queued.update(links)
                self._progress(len(texts), min(len(queued), self._limits.pages), page.url)
            if time.monotonic() > deadline:
                break
            if not waiting and pauses:
                waiting = self._wait_for_busy(crawl, pauses.pop(0), deadline)

    def _wait_for_busy(self, crawl: FinishedCrawl, pause: float, deadline: float) -> list[str]:
        """Return the pages that a busy server refused, once it may be asked; none where that
        is after the deadline."""
        busy = [failure for failure in crawl.failures if failure.outcome in BUSY_OUTCOMES]
        retry_after = [parse_retry_after(failure.detail) for failure in busy]
        pause = max((pause if seconds is None else seconds for seconds in retry_after), default=0.0)
        if not busy or time.monotonic() + pause > deadline:
            return []
        self._progress(0, 0, f"the site is busy; waiting {pause:.0f} seconds")
        time.sleep(pause)
        crawl.failures = [failure for failure in crawl.failures if failure not in busy]
        return [failure.what for failure in busy]

    def _find_listed_pages(self, start: Page, scope: SiteScope, deadline: float) -> list[str]:
        """Return the pages of the site that sitemaps list, and feeds that the first page links to.

        What cannot be read of them is no failure: few sites have them.
        """
        site = SiteScope(scope.origin, "/")
        waiting = [*self._fetcher.list_sitemaps(start.url), *_iter_feed_links(start, site)]
        links = list[str]()
        read = set[str]()
        while (
            (batch := [url for url in dict.fromkeys(waiting) if url not in read])
            and len(read) < _MOST_SITEMAPS
            and time.monotonic() < deadline
        ):
            batch = batch[: _MOST_SITEMAPS - len(read)]
            read.update(batch)
            for page in self._fetch_each(batch, deadline - time.monotonic()):
                if isinstance(page, Page):
                    links += _iter_site_links(page, scope)
                    waiting += _iter_feed_links(page, site)
        return links

    def _fetch_batch(
        self, urls: Sequence[str], seconds: float, crawl: FinishedCrawl
    ) -> Iterator[tuple[str, Page]]:
        for url, result in zip(urls, self._fetch_each(urls, seconds), strict=True):
            if isinstance(result, Failure):
                crawl.failures.append(result)
            else:
                yield url, result

    def _fetch_each(self, urls: Sequence[str], seconds: float) -> Sequence[Page | Failure]:
        fetch, parallel = self._fetcher.fetch_page, self._limits.parallel
        return fetch_pages(fetch, urls, max(seconds, 0.0), parallel)

    def _store_page(
        self, crawl: FinishedCrawl, index: SearchIndex, address: str, page: Page, texts: set[str]
    ) -> None:
        self._archive.store_page(page, requested_url=address)
        crawl.pages[address] = crawl.pages[page.url] = (page.url, page.digest)
        if page.digest not in texts:  # one text at several addresses is found once
            texts.add(page.digest)
            with translate_index_errors(self.index_folder):
                index.add(page)


def _iter_site_links(page: Page, scope: SiteScope) -> Iterator[str]:
    """Yield the addresses below the site that a page leads to and that may be pages."""
    for link in page.links:
        url = urldefrag(link.url).url
        if scope.contains_url(url) and not _NON_PAGE_SUFFIX.search(urlsplit(url).path):
            yield url


def _iter_feed_links(page: Page, scope: SiteScope) -> Iterator[str]:
    """Yield the addresses of the site that a page leads to and that may be feeds or sitemaps."""
    for link in page.links:
        url = urldefrag(link.url).url
        if _FEED_SUFFIX.search(urlsplit(url).path) and scope.contains_url(url):
            yield url


def _join_formats() -> str:
    return f"{CRAWL_FORMAT}.{indexing.INDEX_FORMAT}.{READER_FORMAT}"

"""A library of the pages below one web address: crawled once, within bounds, then searched.

A crawl builds a new index beside the one in use and takes its place only when it is complete.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urlsplit

import msgspec

from rookery.browse import index as indexing
from rookery.browse.archive import Archive, worded
from rookery.browse.cache import IndexNote, alone, index_worded, note_use, read_note
from rookery.browse.fetch import Fetcher, fetch_all
from rookery.browse.index import Index
from rookery.records import Failed, Failure, Hit, Page, digest_of

FORMAT = "1"
_PORTS = {"http": 80, "https": 443}
_NO_PAGE = re.compile(
    r"\.(?:png|jpe?g|gif|webp|avif|svg|ico|css|js|mjs|json|xml|rss|atom|zip|gz|bz2|xz|zst|7z|tar|"
    r"mp[34]|m4a|ogg|wav|webm|mov|avi|woff2?|ttf|otf|eot|exe|dmg|iso|deb|rpm|apk|jar|whl)$",
    re.IGNORECASE,
)

Progress = Callable[[int, int, str], None]


class SiteLimits(msgspec.Struct, frozen=True):
    """What a crawl may cost, and how long it holds."""

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


class Scope(NamedTuple):
    """What counts as below an address: the same origin, and a path that begins alike."""

    origin: tuple[str, str, int]
    path: str

    def holds(self, url: str) -> bool:
        """Whether this address lies within."""
        try:
            parts = urlsplit(url)
            origin = _origin(url)
        except ValueError:
            return False
        path = parts.path or "/"
        below = path.startswith(self.path) or path + "/" == self.path
        # A server may resolve `..` even where it is written in percent signs.
        return origin == self.origin and below and ".." not in unquote(path).split("/")


def scope_of(url: str) -> Scope:
    """The scope of a site that is named by this address: its folder. Raises ValueError."""
    path = urlsplit(url).path or "/"
    folder, _, last = path.rpartition("/")
    return Scope(_origin(url), f"{folder}/" if not last or "." in last else f"{path}/")


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{url} is no http or https address")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


class Site:
    """The pages below `prefix_url`, crawled breadth first as `limits` and robots.txt allow.

    Pages go to `archive`, the index below `cache`. A crawl younger than a day is used again
    (`offline`: of any age). `failures` are the pages that were not had. Raises `Failed`:
    invalid_url, the outcome of the first page where nothing else was had, not_in_archive.
    """

    def __init__(
        self,
        prefix_url: str,
        archive: Archive,
        fetcher: Fetcher,
        cache: Path,
        limits: SiteLimits = SiteLimits(),
        progress: Progress | None = None,
        offline: bool = False,
    ) -> None:
        self._start = urldefrag(prefix_url).url
        try:
            self._scope = scope_of(self._start)
        except ValueError as error:
            raise Failed(Failure(prefix_url, "invalid_url", str(error))) from error
        self._archive = archive
        self._fetcher = fetcher
        self._limits = limits
        self._progress = progress or (lambda done, total, what: None)
        self._offline = offline
        self._place = cache / "sites" / sha256(self._start.encode()).hexdigest()[:32]
        self._shown = {self._start}
        self._later: list[Failure] = []
        self._crawl = self._offline_crawl() if offline else self._fresh_crawl()
        with index_worded(self._place):
            self._index = Index(self._place / self._crawl.index)
        note = IndexNote("site", (self._start,), self._crawl.time)
        known = read_note(self._place)
        note_use(self._place, note, known is None or known.refreshed != note.refreshed)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What the crawl did not get, and what could not be opened since."""
        return (*self._crawl.failures, *self._later)

    def contents_digest(self) -> str:
        """Digest of the addresses and texts of all pages: it changes whenever one of them does."""
        return digest_of("\n".join(sorted(map(" ".join, self._crawl.pages.values()))))

    @property
    def crawled(self) -> float:
        """When the crawl that is searched began, in seconds since 1970."""
        return self._crawl.time

    def count_pages(self) -> int:
        """The number of pages that the crawl kept."""
        return len(set(self._crawl.pages.values()))

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """The k best passages of the site, by BM25."""
        with index_worded(self._place):
            return self._index.search(query, k)

    def fetch(self, url: str) -> Page:
        """A page of the site that the crawl or an opened page has shown."""
        address = urldefrag(url).url
        page = self._known(address)
        if page is None:
            page = self._opened(address)
        self._shown.update(urldefrag(link.url).url for link in page.links)
        return page

    def _known(self, address: str) -> Page | None:
        found = self._crawl.pages.get(address)
        return self._archive.page(found[1], found[0]) if found else None

    def _opened(self, address: str) -> Page:
        """A page that the crawl did not reach, or that the archive has lost."""
        known = address in self._crawl.pages
        if not known and not (address in self._shown and self._holds(address)):
            detail = "only pages of this site that a search or an opened page showed are opened"
            raise Failed(Failure(address, "url_not_shown", detail))
        if self._offline:
            page = self._archive.latest(address)
            if page is None:
                detail = "this page was never opened: open it once without --offline"
                raise Failed(Failure(address, "not_in_archive", detail))
            return page
        try:
            page = self._fetcher.page(address)
        except Failed as failed:
            self._later.append(failed.failure)
            raise
        self._archive.keep(page, asked=address)
        return page

    def _holds(self, address: str) -> bool:
        moved = self._crawl.pages.get(self._start)
        return self._scope.holds(address) or bool(moved and scope_of(moved[0]).holds(address))

    def _offline_crawl(self) -> FinishedCrawl:
        if crawl := self._stored():
            return crawl
        former = self._last_crawl()
        if former is None:
            detail = "this site was never crawled: ask once without --offline"
            raise Failed(Failure(self._start, "not_in_archive", detail))
        waiting = "another process is indexing this site; waiting for it to finish"
        with alone(self._place / "lock", lambda: self._progress(0, 0, waiting)):
            return self._stored() or self._reindexed(former)

    def _reindexed(self, former: FinishedCrawl) -> FinishedCrawl:
        """Index the pages of a crawl again, from the archive: another version made its index."""
        name = f"index-{time.time_ns()}"
        crawl = msgspec.structs.replace(former, format=_format(), index=name)
        texts = set[str]()
        with self._building(name) as index:
            with index_worded(self._place):
                for url, digest in crawl.pages.values():
                    page = None if digest in texts else self._archive.page(digest, url)
                    if page is not None:
                        texts.add(digest)
                        index.add(page)
                        self._progress(len(texts), len(crawl.pages), url)
                index.commit()
            self._publish(crawl)
        return crawl

    def _fresh_crawl(self) -> FinishedCrawl:
        if crawl := self._stored(self._limits.fresh_seconds):
            return crawl
        with worded(self._place):
            self._place.mkdir(parents=True, exist_ok=True)
        waiting = "another process is crawling this site; waiting for it to finish"
        with alone(self._place / "lock", lambda: self._progress(0, 0, waiting)):
            return self._stored(self._limits.fresh_seconds) or self._crawled()

    def _stored(self, age: float = float("inf")) -> FinishedCrawl | None:
        """The last finished crawl, if it is no older than `age` seconds and its index is whole."""
        crawl = self._last_crawl()
        if crawl is None or crawl.format != _format() or not -60 < time.time() - crawl.time <= age:
            return None
        try:
            Index(self._place / crawl.index)
        except (OSError, ValueError):
            return None
        return crawl

    def _last_crawl(self) -> FinishedCrawl | None:
        """The last finished crawl, whatever version of Rookery made it."""
        try:
            return msgspec.json.decode(
                (self._place / "crawl.json").read_bytes(), type=FinishedCrawl
            )
        except (OSError, msgspec.DecodeError, ValueError):
            return None

    def _crawled(self) -> FinishedCrawl:
        """Crawls now; an older crawl serves again where the site gives nothing."""
        crawl = FinishedCrawl(_format(), time.time(), f"index-{time.time_ns()}")
        with self._building(crawl.index) as index:
            self._follow(crawl, index)
            if not crawl.pages:
                older = self._stored()
                if older is None:
                    raise Failed(crawl.failures[0])
                self._later += crawl.failures
                return older
            with index_worded(self._place):
                index.commit()
            self._publish(crawl)
        return crawl

    @contextmanager
    def _building(self, name: str) -> Iterator[Index]:
        """A new index, and at the end no directory but the one that `crawl.json` names."""
        try:
            with index_worded(self._place):
                index = Index(self._place / name)
            yield index
        finally:
            stored = self._stored()
            for directory in self._place.glob("index-*"):
                if stored is None or directory.name != stored.index:
                    shutil.rmtree(directory, ignore_errors=True)

    def _publish(self, crawl: FinishedCrawl) -> None:
        with worded(self._place):
            draft = self._place / "crawl.json.new"
            draft.write_bytes(msgspec.json.encode(crawl))
            draft.replace(self._place / "crawl.json")

    def _follow(self, crawl: FinishedCrawl, index: Index) -> None:
        """Fetches the start and what it leads to, level by level, until a limit is met."""
        deadline = time.monotonic() + self._limits.seconds
        scope, tried = self._scope, 0
        waiting, seen, texts = [self._start], {self._start}, set[str]()
        while waiting and len(texts) < self._limits.pages and tried < 2 * self._limits.pages:
            room = min(4 * self._limits.parallel, self._limits.pages - len(texts))
            batch, waiting = waiting[:room], waiting[room:]
            tried += len(batch)
            for asked, page in self._fetched(batch, deadline - time.monotonic(), crawl):
                if asked == self._start:
                    scope = scope_of(page.url)  # where the user's own address leads, is meant
                elif not scope.holds(page.url):
                    detail = f"it leads out of the site, to {page.url}"
                    crawl.failures.append(Failure(asked, "outside_site", detail))
                    continue
                self._keep(crawl, index, asked, page, texts)
                for url in _links(page, scope):
                    if url not in seen:
                        seen.add(url)
                        waiting.append(url)
                self._progress(len(texts), min(len(seen), self._limits.pages), page.url)
            if time.monotonic() > deadline:
                break

    def _fetched(
        self, urls: Sequence[str], seconds: float, crawl: FinishedCrawl
    ) -> Iterator[tuple[str, Page]]:
        results = fetch_all(self._fetcher.page, urls, max(seconds, 0.0), self._limits.parallel)
        for url, result in zip(urls, results, strict=True):
            if isinstance(result, Failure):
                crawl.failures.append(result)
            else:
                yield url, result

    def _keep(
        self, crawl: FinishedCrawl, index: Index, asked: str, page: Page, texts: set[str]
    ) -> None:
        self._archive.keep(page, asked=asked)
        crawl.pages[asked] = crawl.pages[page.url] = (page.url, page.digest)
        if page.digest not in texts:  # one text at several addresses is found once
            texts.add(page.digest)
            with index_worded(self._place):
                index.add(page)


def _links(page: Page, scope: Scope) -> Iterator[str]:
    """The addresses below the site that a page leads to and that may be pages."""
    for link in page.links:
        url = urldefrag(link.url).url
        if scope.holds(url) and not _NO_PAGE.search(urlsplit(url).path):
            yield url


def _format() -> str:
    return f"{FORMAT}.{indexing.FORMAT}"

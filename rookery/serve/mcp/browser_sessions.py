"""Browser sessions of MCP clients: a text browser for each session id.

Windows, link numbers and quote matching are those of the text browser (WebGPT, appendix A), but a
client may jump to any offset of a page.
"""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urldefrag

import msgspec

from rookery.browse.browser import (
    PASSAGES_PER_RESULT,
    BrowserOpen,
    BrowserPosition,
    BrowserSearch,
    answer_request,
)
from rookery.browse.browser_commands import BrowserRules
from rookery.browse.libraries import is_url
from rookery.browse.page_archive import PageArchive
from rookery.browse.page_view import OpenedPage, PageView, PageViewCache, build_results_page
from rookery.browse.text_search import Span
from rookery.browse.web_library import WebLibrary
from rookery.records import Failed, Failure, Hit, Library, Page, Quote
from rookery.serve.answer_session import EvidenceSources, FallbackLibrary
from rookery.serve.settings import Settings

NEW_SESSION_HINT = "search, or open an address, without a session to begin a new one"
"""Advice that ends the message about an unknown session."""


class BrowserLimits(msgspec.Struct, frozen=True):
    """Limits on one tool result and on the number of open sessions."""

    characters: int = 20_000
    """Maximum characters of text in one result; several hosts cut results of more than about
    25,000 tokens."""
    window: int = 6_000
    """Characters of a page in one window, not counting link markers."""
    results: int = 20
    """Maximum number of results of one search."""
    quoted: int = 6_000
    """Maximum characters of one quote."""
    addresses: int = 2_000
    """Maximum number of result URLs that one session remembers by their ids."""
    sessions: int = 256
    """Maximum number of open sessions; beyond it, the least recently used one is closed."""
    snippet: int = 400
    """Maximum characters of a result's snippet."""
    idle: float = 3_600.0
    """Seconds without use after which a session is closed."""


class PageWindow(NamedTuple):
    """One window of a page, as text with link markers or as plain text."""

    page: Page
    text: str
    start: int
    end: int
    view_end: int
    """Offset in the page's text at which the view ends."""


class McpLibrary:
    """Library and archive of one MCP server, opened at the first use. Thread-safe."""

    def __init__(
        self, settings: Settings, any_address: bool = False, library: Library | None = None
    ) -> None:
        self.settings = settings
        self.any_address = any_address
        """True if addresses may be opened that no search result and no page has shown."""
        self._library = library
        """Browsed in place of one that is opened by the settings; None: that one."""
        self._lock = threading.Lock()
        self._sources: EvidenceSources | None = None

    @property
    def uses_network(self) -> bool:
        """True if pages may be fetched over the network."""
        s = self.settings
        return not s.offline and (self.any_address or not s.places or any(map(is_url, s.places)))

    def open_for_browser(self) -> tuple[Library, Callable[[str], None]]:
        """Return a library for one browser, and a function that permits it one more URL.

        The function does nothing unless any address may be opened. Each browser gets its own
        permissions: URLs shown to other sessions stay closed to it. Raises Failed if the library
        cannot be opened.
        """
        if self._library is not None:
            return self._library, lambda url: None
        sources = self._open_library()
        library = sources.open_library_for_question()
        if not self.any_address:
            return library, lambda url: None
        if isinstance(library, WebLibrary):
            return library, library.allow_url
        web = sources.open_web()
        return FallbackLibrary(library, web), web.allow_url

    def open_archive(self) -> PageArchive:
        """Return the archive in which every opened page is stored."""
        return self._open_library().archive

    def close(self) -> None:
        """Close the library and the archive."""
        with self._lock:
            if self._sources is not None:
                self._sources.close()
                self._sources = None

    def _open_library(self) -> EvidenceSources:
        with self._lock:
            if self._sources is None:
                self._sources = EvidenceSources(self.settings)
            return self._sources


class McpBrowser:
    """One text browser session. Not thread-safe: get it from `McpBrowserPool.use_session`."""

    def __init__(
        self, id: str, library: Library, allow: Callable[[str], None], limits: BrowserLimits
    ) -> None:
        self.id = id
        self.lock = threading.Lock()
        self._limits = limits
        self._library = library
        self._allow = allow
        self._rules = BrowserRules(
            window=limits.window, results=limits.results, blocked=(), overlap=0
        )
        self._last_search: tuple[str, list[Hit]] = ("", [])
        self._ids: OrderedDict[int, str] = OrderedDict()
        self._position: BrowserPosition | None = None

    def search(self, query: str) -> list[Hit]:
        """Search and show the results page; return hits with distinct URLs, indexed by link number.

        The same query again reuses the earlier hits. Raises Failed if the search fails.
        """
        if query != self._last_search[0]:
            reply = answer_request(
                self._library, BrowserSearch(query, PASSAGES_PER_RESULT * self._limits.results)
            )
            if isinstance(reply, Failure):
                raise Failed(reply)
            assert not isinstance(reply, Page)
            found: dict[str, Hit] = {}
            for hit in reply:
                found.setdefault(hit.url, hit)
            self._last_search = query, list(found.values())[: self._limits.results]
        self._show_page(
            build_results_page(
                query, self._last_search[1], self._rules, frozenset(), PageViewCache()
            ),
            quotable=False,
        )
        return self._last_search[1]

    def assign_result_id(self, url: str) -> str:
        """Return the session's stable id for a result URL, assigning one if it is new."""
        number = next((number for number, known in self._ids.items() if known == url), 0)
        if not number:
            number = next(reversed(self._ids), 0) + 1
            self._ids[number] = url
            if len(self._ids) > self._limits.addresses:
                self._ids.popitem(last=False)
        return f"{self.id}-{number}"

    def resolve_result_id(self, id: str) -> str:
        """Return the URL that a result id stands for. Raises Failed (unknown_id)."""
        number = id.partition("-")[2]
        url = self._ids.get(int(number)) if number.isascii() and number.isdigit() else None
        if url is None:
            detail = "no result of this session has this id: copy one from a search"
            raise Failed(Failure(id[:80], "unknown_id", detail))
        return url

    def open(self, address: str) -> None:
        """Open the page at a URL, at its fragment if it has one.

        Raises Failed if the URL may not be opened or cannot be fetched.
        """
        self._allow(address)
        url, fragment = urldefrag(address)
        reply = answer_request(self._library, BrowserOpen(url))
        if isinstance(reply, Failure):
            raise Failed(reply)
        assert isinstance(reply, Page)
        self._position = self._show_page(reply, quotable=True).move_to_anchor(fragment)

    def follow_link(self, number: int) -> None:
        """Open the link with this number in the current view; within the page, move to its anchor.

        Raises Failed (nothing_open, no_link), and as `open` does.
        """
        place = self._require_position()
        link = place.view.get_link(number)
        if link is None:
            detail = "what is shown has no such link: give the n of a 【n†…】 in it"
            raise Failed(Failure(f"link {number}", "no_link", detail))
        url, fragment = urldefrag(link.url)
        if place.quotable and url == urldefrag(place.view.page.url).url:
            self._position = place.move_to_anchor(fragment)
        else:
            self.open(link.url)

    def scroll_to(self, offset: int | None, full: bool) -> None:
        """Move to an offset in the current view or, with `full`, in that of the whole page.

        Later calls keep that view. Offset None keeps the place or, with `full`, goes to the top.
        Raises Failed: nothing_open, past_the_end.
        """
        place = self._require_position()
        view = place.opened.full if full else place.view
        top = offset if offset is not None else view.top if full else place.top
        if not 0 <= top <= max(view.bottom - 1, 0):
            detail = f"what is shown ends at {view.bottom}: give an offset below that"
            raise Failed(Failure(f"offset {top}", "past_the_end", detail))
        self._position = place._replace(view=view, top=top)

    def find(self, text: str) -> Span:
        """Move to the next occurrence of `text` on the page and return its span; wraps around.

        Raises Failed (nothing_open, not_on_page).
        """
        place = self._require_position()
        moved = place.move_to_text(text)
        if moved is None:
            detail = "this text is not on the page: try fewer words, or open another result"
            raise Failed(Failure(_shorten_text(text), "not_on_page", detail))
        self._position, span = moved
        return span

    def quote(self, text: str) -> Quote:
        """Cut the quote that `text` names; `start━end` names everything between two phrases.

        Raises Failed (not_on_page, not_quotable, too_long).
        """
        place = self._require_quotable()
        span = place.find_quoted_span(text)
        if span is None:
            detail = "this text is not on the page: copy it as it stands, or give start and end"
            raise Failed(Failure(_shorten_text(text), "not_on_page", detail))
        return self._cut_quote(place.opened.page, *span)

    def quote_span(self, start: int, end: int) -> Quote:
        """Cut the quote text[start:end] of the page's canonical text.

        Raises Failed (nothing_to_quote, hidden_text, too_long, not_quotable).
        """
        page, what = self._require_quotable().opened.page, f"[{start}:{end}]"
        if not 0 <= start < end <= len(page.text) or not page.text[start:end].strip():
            detail = f"nothing stands there: give offsets from 0 to {len(page.text)}, start first"
            raise Failed(Failure(what, "nothing_to_quote", detail))
        if any(block.hidden and block.start < end and start < block.end for block in page.blocks):
            detail = "the page holds more between these than it shows: quote it in parts"
            raise Failed(Failure(what, "hidden_text", detail))
        return self._cut_quote(page, start, end)

    def read_window(self) -> PageWindow:
        """Return the current window with link markers, cut to fit a result.

        Raises Failed (nothing_open).
        """
        view, longest = self._require_position().view, self._limits.characters
        window = view.window_at(self._require_position().top)
        text, end = window.text, window.end
        if len(text) > longest:
            text, end = _fit_window(view, window.start, longest)
        return PageWindow(view.page, text, window.start, end, view.bottom)

    def read_plain_text(self, offset: int) -> PageWindow:
        """Return the page's text from an offset on, without markers and hidden text, cut to fit.

        Raises Failed (nothing_open, not_quotable).
        """
        page, left = self._require_quotable().opened.page, self._limits.characters
        pieces: list[str] = []
        end, bottom = offset, 0
        for block in page.iter_shown():
            bottom = block.end
            start = max(block.start, offset)
            if block.end > start and left > 0:
                end = min(block.end, start + left)
                pieces.append(page.text[start:end])
                left -= end - start + 2
        return PageWindow(page, "\n\n".join(pieces), offset, end, bottom)

    def _require_position(self) -> BrowserPosition:
        if self._position is None:
            detail = "nothing is open in this session: search, then open a result"
            raise Failed(Failure(self.id, "nothing_open", detail))
        return self._position

    def _require_quotable(self) -> BrowserPosition:
        place = self._require_position()
        if not place.quotable:
            detail = "only a page that was opened can be quoted: open a result first"
            raise Failed(Failure("search results", "not_quotable", detail))
        return place

    def _cut_quote(self, page: Page, start: int, end: int) -> Quote:
        if end - start > self._limits.quoted:
            detail = f"a quote has at most {self._limits.quoted:,} characters: quote less"
            raise Failed(Failure(f"[{start}:{end}]", "too_long", detail))
        return page.quote(start, end)

    def _show_page(self, page: Page, quotable: bool) -> BrowserPosition:
        opened = OpenedPage(page, self._rules)
        self._position = BrowserPosition(opened, opened.article, opened.article.top, quotable)
        return self._position


class McpBrowserPool:
    """The open browser sessions of one server. Thread-safe; closes idle sessions."""

    def __init__(
        self,
        source: McpLibrary,
        limits: BrowserLimits = BrowserLimits(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self._source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[str, tuple[McpBrowser, str, float]] = OrderedDict()

    def open_session(self, owner: str) -> str:
        """Open a session for `owner` and return its id. Raises Failed if the library cannot open.

        If too many are open, the least recently used one is closed.
        """
        library, allow = self._source.open_for_browser()
        browser = McpBrowser(secrets.token_hex(8), library, allow, self.limits)
        with self._lock:
            self._sessions[browser.id] = browser, owner, self._clock()
            if len(self._sessions) > self.limits.sessions:
                self._sessions.popitem(last=False)
        return browser.id

    @contextmanager
    def use_session(self, id: str, owner: str) -> Iterator[McpBrowser]:
        """Yield an owner's session and hold its lock. Raises Failed (no_session).

        The session of another owner counts as unknown.
        """
        with self._lock:
            self._close_idle()
            browser, whose, _ = self._sessions.get(id, (None, "", 0.0))
            if browser is None or whose != owner:
                hours = f"{self.limits.idle / 3600:g} h"
                detail = (
                    f"no such session is open here (idle ones are closed after {hours}, and one "
                    f"of several workers has no sessions of another): "
                    f"{NEW_SESSION_HINT}"
                )
                raise Failed(Failure(_shorten_text(id), "no_session", detail))
            self._sessions[id] = browser, whose, self._clock()
            self._sessions.move_to_end(id)
        with browser.lock:
            yield browser

    def _close_idle(self) -> None:
        late = self._clock() - self.limits.idle
        while self._sessions and next(iter(self._sessions.values()))[2] < late:
            self._sessions.popitem(last=False)


def _fit_window(view: PageView, top: int, longest: int) -> tuple[str, int]:
    """Return as many parts of a window as fit in `longest` characters, and their end offset."""
    text, end = "", top
    for part in view.iter_parts(top):
        if len(text) + len(part.text) <= longest:
            text, end = text + part.text, part.end
        elif end > top:
            return text, end
    return text, view.window_at(top).end


def _shorten_text(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"

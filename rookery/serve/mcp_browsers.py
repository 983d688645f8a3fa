"""What a program reads over MCP: one text browser for each session id, and all of them together.

It shows the windows, numbers the links and finds the quotes of the text browser (WebGPT, appendix
A), but goes to any offset at once. It knows nothing of the protocol, nor of what is said to whom.
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

from rookery.browse.archive import Archive
from rookery.browse.browser import PASSAGES, Opening, Searching, answered
from rookery.browse.find import Span
from rookery.browse.pages import results_page
from rookery.browse.places import engine_named, is_url
from rookery.browse.quoting import WindowText, find, find_quote
from rookery.browse.rules import Rules
from rookery.browse.views import Opened
from rookery.browse.web import Web
from rookery.browse.window import View
from rookery.records import Failed, Failure, Hit, Library, Page, Quote
from rookery.serve.beside import Beside
from rookery.serve.session import Settings
from rookery.serve.web.libraries import Holdings

AGAIN = "search, or open an address, without a session to begin a new one"


class BrowserLimits(msgspec.Struct, frozen=True):
    """How much one result shows, and how many sessions there are."""

    characters: int = 20_000
    """of one result's text; several hosts cut what has more than about 25,000 tokens"""
    window: int = 6_000
    """characters of a page in one window, markers of links not counted"""
    results: int = 20
    """of one search"""
    quoted: int = 6_000
    """characters of one quote"""
    addresses: int = 2_000
    """of results that one session remembers by their ids"""
    sessions: int = 256
    """open at once; beyond, the one that was idle longest is closed"""
    snippet: int = 400
    """characters of a result's snippet"""
    idle: float = 3_600.0
    """seconds after which a session that nobody uses is closed"""


class Shown(NamedTuple):
    """One window of a page."""

    page: Page
    text: str
    start: int
    end: int
    bottom: int
    """where what the view shows ends"""


class Place(NamedTuple):
    """Where a session is."""

    opened: Opened
    view: View
    top: int
    quotable: bool
    found: tuple[str, int] = ("", -1)
    """what was last looked for here, and where it was"""


class Source:
    """The library and the archive of one server, opened at the first use."""

    def __init__(self, settings: Settings, any_address: bool = False) -> None:
        self.settings = settings
        self.any_address = any_address
        """whether an address may be opened that no search and no page has shown"""
        self._turn = threading.Lock()
        self._holdings: Holdings | None = None

    @property
    def outside(self) -> bool:
        """Whether anything is fetched from beyond this machine."""
        s = self.settings
        return not s.offline and (self.any_address or not s.places or any(map(is_url, s.places)))

    def holdings(self) -> tuple[Library, Callable[[str], None]]:
        """The library for one browser, and what lets it open one address more. What others were
        shown opens nothing on the web to it. Raises Failed where it cannot be opened."""
        holdings, s = self._opened(), self.settings
        library = holdings.shelf()
        if not self.any_address:
            return library, lambda url: None
        if isinstance(library, Web):
            return library, library.allow
        web = Web(engine_named(s.engine), holdings.archive, holdings.fetcher(), s.offline)
        return Beside(library, web), web.allow

    def archive(self) -> Archive:
        """Where every page that was opened is kept."""
        return self._opened().archive

    def close(self) -> None:
        """Lets go of the library and the archive."""
        with self._turn:
            if self._holdings is not None:
                self._holdings.__exit__()
                self._holdings = None

    def _opened(self) -> Holdings:
        with self._turn:
            if self._holdings is None:
                self._holdings = Holdings(self.settings)
            return self._holdings


class Browser:
    """One text browser. Two threads do not use it at once: `Browsers.at` sees to that."""

    def __init__(
        self, id: str, library: Library, allow: Callable[[str], None], limits: BrowserLimits
    ) -> None:
        self.id = id
        self.turn = threading.Lock()
        self._limits = limits
        self._library = library
        self._allow = allow
        self._rules = Rules(window=limits.window, results=limits.results, blocked=(), overlap=0)
        self._searched: tuple[str, list[Hit]] = ("", [])
        self._ids: OrderedDict[int, str] = OrderedDict()
        self._place: Place | None = None

    def search(self, query: str) -> list[Hit]:
        """The results, each address once: link n of what is shown now is the n-th of them.

        Raises Failed where the search could not be made.
        """
        if query != self._searched[0]:
            reply = answered(self._library, Searching(query, PASSAGES * self._limits.results))
            if isinstance(reply, Failure):
                raise Failed(reply)
            assert not isinstance(reply, Page)
            found: dict[str, Hit] = {}
            for hit in reply:
                found.setdefault(hit.url, hit)
            self._searched = query, list(found.values())[: self._limits.results]
        self._go(results_page(query, self._searched[1], self._rules, frozenset()), quotable=False)
        return self._searched[1]

    def id_of(self, url: str) -> str:
        """The id that stands for a result's address, now and later."""
        number = next((number for number, known in self._ids.items() if known == url), 0)
        if not number:
            number = next(reversed(self._ids), 0) + 1
            self._ids[number] = url
            if len(self._ids) > self._limits.addresses:
                self._ids.popitem(last=False)
        return f"{self.id}-{number}"

    def address(self, id: str) -> str:
        """The address that an id stands for. Raises Failed (unknown_id)."""
        number = id.partition("-")[2]
        url = self._ids.get(int(number)) if number.isascii() and number.isdigit() else None
        if url is None:
            detail = "no result of this session has this id: copy one from a search"
            raise Failed(Failure(id[:80], "unknown_id", detail))
        return url

    def open(self, address: str) -> None:
        """Opens the page at an address. Raises Failed where nothing showed it, or it cannot be
        had."""
        self._allow(address)
        url, fragment = urldefrag(address)
        reply = answered(self._library, Opening(url))
        if isinstance(reply, Failure):
            raise Failed(reply)
        assert isinstance(reply, Page)
        self._go(reply, quotable=True)
        self._go_to_anchor(fragment)

    def follow(self, number: int) -> None:
        """Opens the link of this number. Raises Failed where there is none."""
        place = self._here()
        link = place.view.link(number)
        if link is None:
            detail = "what is shown has no such link: give the n of a 【n†…】 in it"
            raise Failed(Failure(f"link {number}", "no_link", detail))
        url, fragment = urldefrag(link.url)
        if place.quotable and url == urldefrag(place.view.page.url).url:
            self._go_to_anchor(fragment)
        else:
            self.open(link.url)

    def turn_to(self, offset: int | None, full: bool) -> None:
        """Goes to an offset of the page, in the view that shows all of it where `full`.

        Raises Failed where nothing is open, or the page ends before.
        """
        place = self._here()
        view = place.opened.full if full else place.view
        top = offset if offset is not None else view.top if full else place.top
        if not 0 <= top <= max(view.bottom - 1, 0):
            detail = f"what is shown ends at {view.bottom}: give an offset below that"
            raise Failed(Failure(f"offset {top}", "past_the_end", detail))
        self._place = place._replace(view=view, top=top)

    def find(self, text: str) -> Span:
        """Goes to the next place that reads `text`, beginning again at the top of the page.

        Raises Failed (not_on_page).
        """
        place = self._here()
        sought, at = place.found
        after = at + 1 if sought == text else place.view.window(place.top).start
        span = find(place.opened.finder, text, after)
        if span is None:
            detail = "this text is not on the page: try fewer words, or open another result"
            raise Failed(Failure(_brief(text), "not_on_page", detail))
        view = place.view if place.view.shows(span[0]) else place.opened.full
        found = (text, span[0])
        self._place = place._replace(view=view, top=view.around(span[0]), found=found)
        return span

    def quote(self, text: str) -> Quote:
        """What a text names on the page, `start━end` for all from the one to the other.

        Raises Failed (not_on_page, not_quotable, too_long).
        """
        place = self._quotable()
        window = WindowText(place.opened.page, list(place.view.parts(place.top)))
        span = find_quote(place.opened.finder, text, place.view.window(place.top).start, window)
        if span is None:
            detail = "this text is not on the page: copy it as it stands, or give start and end"
            raise Failed(Failure(_brief(text), "not_on_page", detail))
        return self._quoted(place.opened.page, *span)

    def quote_span(self, start: int, end: int) -> Quote:
        """text[start:end] of the page. Raises Failed where the page shows no such text."""
        page, what = self._quotable().opened.page, f"[{start}:{end}]"
        if not 0 <= start < end <= len(page.text) or not page.text[start:end].strip():
            detail = f"nothing stands there: give offsets from 0 to {len(page.text)}, start first"
            raise Failed(Failure(what, "nothing_to_quote", detail))
        if any(block.hidden and block.start < end and start < block.end for block in page.blocks):
            detail = "the page holds more between these than it shows: quote it in parts"
            raise Failed(Failure(what, "hidden_text", detail))
        return self._quoted(page, start, end)

    def window(self) -> Shown:
        """What is shown now. Raises Failed where nothing is open."""
        view, longest = self._here().view, self._limits.characters
        window = view.window(self._here().top)
        text, end = window.text, window.end
        if len(text) > longest:
            text, end = _bounded(view, window.start, longest)
        return Shown(view.page, text, window.start, end, view.bottom)

    def plain(self, offset: int) -> Shown:
        """The page's own text from an offset on, without markers and without what is hidden."""
        page, left = self._quotable().opened.page, self._limits.characters
        pieces: list[str] = []
        end, bottom = offset, 0
        for block in page.full():
            bottom = block.end
            start = max(block.start, offset)
            if block.end > start and left > 0:
                end = min(block.end, start + left)
                pieces.append(page.text[start:end])
                left -= end - start + 2
        return Shown(page, "\n\n".join(pieces), offset, end, bottom)

    def _here(self) -> Place:
        if self._place is None:
            detail = "nothing is open in this session: search, then open a result"
            raise Failed(Failure(self.id, "nothing_open", detail))
        return self._place

    def _quotable(self) -> Place:
        place = self._here()
        if not place.quotable:
            detail = "only a page that was opened can be quoted: open a result first"
            raise Failed(Failure("search results", "not_quotable", detail))
        return place

    def _quoted(self, page: Page, start: int, end: int) -> Quote:
        if end - start > self._limits.quoted:
            detail = f"a quote has at most {self._limits.quoted:,} characters: quote less"
            raise Failed(Failure(f"[{start}:{end}]", "too_long", detail))
        return page.quote(start, end)

    def _go(self, page: Page, quotable: bool) -> None:
        opened = Opened(page, self._rules)
        self._place = Place(opened, opened.article, opened.article.top, quotable)

    def _go_to_anchor(self, fragment: str) -> None:
        place = self._here()
        at = place.view.anchor(fragment) if fragment else None
        if at is None:
            self._place = place._replace(top=place.view.top)
            return
        view = place.view if place.view.shows(at) else place.opened.full
        self._place = place._replace(view=view, top=view.around(at))


class Browsers:
    """All the sessions of one server: some at most, and none that was left alone for long."""

    def __init__(
        self,
        source: Source,
        limits: BrowserLimits = BrowserLimits(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self._source = source
        self._clock = clock
        self._turn = threading.Lock()
        self._open: OrderedDict[str, tuple[Browser, str, float]] = OrderedDict()

    def new(self, owner: str) -> str:
        """The id of a new session of somebody. Raises Failed where there is no library."""
        library, allow = self._source.holdings()
        browser = Browser(secrets.token_hex(8), library, allow, self.limits)
        with self._turn:
            self._open[browser.id] = browser, owner, self._clock()
            if len(self._open) > self.limits.sessions:
                self._open.popitem(last=False)
        return browser.id

    @contextmanager
    def at(self, id: str, owner: str) -> Iterator[Browser]:
        """A session, for one thread at a time. Raises Failed (no_session)."""
        with self._turn:
            self._close_idle()
            browser, whose, _ = self._open.get(id, (None, "", 0.0))
            if browser is None or whose != owner:
                hours = f"{self.limits.idle / 3600:g} h"
                detail = f"no such session is open (idle ones are closed after {hours}): {AGAIN}"
                raise Failed(Failure(_brief(id), "no_session", detail))
            self._open[id] = browser, whose, self._clock()
            self._open.move_to_end(id)
        with browser.turn:
            yield browser

    def _close_idle(self) -> None:
        late = self._clock() - self.limits.idle
        while self._open and next(iter(self._open.values()))[2] < late:
            self._open.popitem(last=False)


def _bounded(view: View, top: int, longest: int) -> tuple[str, int]:
    """As much of a window as has so many characters with its markers, and where that ends."""
    text, end = "", top
    for part in view.parts(top):
        if len(text) + len(part.text) <= longest:
            text, end = text + part.text, part.end
        elif end > top:
            return text, end
    return text, view.window(top).end


def _brief(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:79]}…"

"""Tools of the MCP server, and the text browser of each session that they work in.

Windows, link numbers and quote matching are those of the text browser (WebGPT, appendix A), but a
client may jump to any offset of a page.
"""

import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple
from urllib.parse import urldefrag

import msgspec
from msgspec import Meta

from rookery.answers.answer_session import EvidenceSources, FallbackLibrary
from rookery.browser.browser import (
    PASSAGES_PER_RESULT,
    BrowserOpen,
    BrowserPosition,
    BrowserSearch,
    answer_request,
)
from rookery.browser.browser_commands import BrowserRules
from rookery.browser.page_view import OpenedPage, PageView, PageViewCache, build_results_page
from rookery.errors import Failed, Outcome
from rookery.evidence.calibration import word_score
from rookery.library.libraries import is_url
from rookery.library.page_archive import PageArchive
from rookery.library.web_library import WebLibrary
from rookery.pages.text_folding import Span, is_hidden_span
from rookery.quotes.answer_text import ClaimedQuote
from rookery.quotes.citation_syntax import render_numbered
from rookery.quotes.verification import AnyVerdict, ClaimedVerdict, Verdict
from rookery.records import (
    Answer,
    Failure,
    Hit,
    Library,
    Page,
    Quote,
    Record,
    describe_json_error,
    prepare_type,
)
from rookery.server.api.answer_sessions import AnswerOutcome, QuestionRequest
from rookery.settings import Settings
from rookery.shell.answer_verification import (
    check_saved_answers,
    count_failed_quotes,
    list_equal_addresses,
    summarize_verdicts,
)
from rookery.shell.browser_session import LiveSessions
from rookery.written_values import format_count

NEW_SESSION_HINT = "search, or open an address, without a session to begin a new one"
"""advice that ends the message about an unknown session"""


class BrowserLimits(msgspec.Struct, frozen=True):
    """Limits on one tool result and on the number of open sessions."""

    characters: int = 20_000
    """maximum characters of text in one result; several hosts cut results of more than about
    25,000 tokens"""
    window: int = 6_000
    """characters of a page in one window, not counting link markers"""
    results: int = 20
    """maximum number of results of one search"""
    quoted: int = 6_000
    """maximum characters of one quote"""
    addresses: int = 2_000
    """maximum number of result URLs that one session remembers by their ids"""
    sessions: int = 256
    """maximum number of open sessions; beyond it, the least recently used one is closed"""
    snippet: int = 400
    """maximum characters of a result's snippet"""
    idle: float = 3_600.0
    """seconds without use after which a session is closed"""


class PageWindow(NamedTuple):
    """One window of a page, as text with link markers or as plain text."""

    page: Page
    text: str
    start: int
    end: int
    view_end: int
    """offset in the page's text at which the view ends"""


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
        permissions: URLs shown to other sessions stay closed to it. A library that is not the web
        may be shared: leave it to `close`. Raises Failed if the library cannot be opened.
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
        """Return the archive in which every opened page is stored; `close` closes it."""
        return self._open_library().archive

    def close(self) -> None:
        """Close the library and the archive that this has opened; a later use opens them anew."""
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
            hits: dict[str, Hit] = {}
            for hit in reply:
                hits.setdefault(hit.url, hit)
            self._last_search = query, list(hits.values())[: self._limits.results]
        self._show_page(
            build_results_page(
                query, self._last_search[1], self._rules, frozenset(), PageViewCache()
            ),
            quotable=False,
        )
        return self._last_search[1]

    def assign_result_id(self, url: str) -> str:
        """Return a result URL's id, a new one unless it is among the last `limits.addresses`."""
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
            raise Failed(Failure(id[:80], Outcome.UNKNOWN_ID, detail))
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
            raise Failed(Failure(f"link {number}", Outcome.NO_LINK, detail))
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
            raise Failed(Failure(f"offset {top}", Outcome.PAST_THE_END, detail))
        self._position = place._replace(view=view, top=top)

    def find(self, text: str) -> Span:
        """Move to the next occurrence of `text` on the page and return its span; wraps around.

        Raises Failed (nothing_open, not_on_page).
        """
        place = self._require_position()
        moved = place.move_to_text(text)
        if moved is None:
            detail = "this text is not on the page: try fewer words, or open another result"
            raise Failed(Failure(_shorten_text(text), Outcome.NOT_ON_PAGE, detail))
        self._position, span = moved
        return span

    def quote(self, text: str) -> Quote:
        """Cut the quote that `text` names; `start━end` names all from one phrase to the other.

        Its words are made whole. Raises Failed (nothing_open, not_on_page, not_quotable, too_long).
        """
        place = self._require_quotable()
        span = place.find_quoted_span(text)
        if span is None:
            detail = "this text is not on the page: copy it as it stands, or give start and end"
            raise Failed(Failure(_shorten_text(text), Outcome.NOT_ON_PAGE, detail))
        return self._cut_quote(place.opened.page, *span)

    def quote_span(self, start: int, end: int) -> Quote:
        """Cut the quote text[start:end] of the page's canonical text, its words made whole.

        Raises Failed (nothing_open, nothing_to_quote, hidden_text, too_long, not_quotable).
        """
        page, what = self._require_quotable().opened.page, f"[{start}:{end}]"
        if not 0 <= start < end <= len(page.text) or not page.text[start:end].strip():
            detail = f"nothing stands there: give offsets from 0 to {len(page.text)}, start first"
            raise Failed(Failure(what, Outcome.NOTHING_TO_QUOTE, detail))
        if is_hidden_span(page, start, end):
            detail = "the page holds more between these than it shows: quote it in parts"
            raise Failed(Failure(what, Outcome.HIDDEN_TEXT, detail))
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
        """Return the text that the page shows from an offset of `page.text` on, up to a result's
        limit.

        Blocks are joined by blank lines, and markers and hidden text left out. `start` and `end` of
        the window count in `page.text`. Raises Failed (nothing_open, not_quotable).
        """
        page, room = self._require_quotable().opened.page, self._limits.characters
        pieces: list[str] = []
        end, bottom = offset, 0
        for block in page.iter_shown():
            bottom = block.end
            start = max(block.start, offset)
            if block.end > start and room > 0:
                end = min(block.end, start + room)
                pieces.append(page.text[start:end])
                room -= end - start + 2
        return PageWindow(page, "\n\n".join(pieces), offset, end, bottom)

    def _require_position(self) -> BrowserPosition:
        if self._position is None:
            detail = "nothing is open in this session: search, then open a result"
            raise Failed(Failure(self.id, Outcome.NOTHING_OPEN, detail))
        return self._position

    def _require_quotable(self) -> BrowserPosition:
        place = self._require_position()
        if not place.quotable:
            detail = "only a page that was opened can be quoted: open a result first"
            raise Failed(Failure("search results", Outcome.NOT_QUOTABLE, detail))
        return place

    def _cut_quote(self, page: Page, start: int, end: int) -> Quote:
        if end - start > self._limits.quoted:
            detail = f"a quote has at most {self._limits.quoted:,} characters: quote less"
            raise Failed(Failure(f"[{start}:{end}]", Outcome.TOO_LONG, detail))
        return page.quote_whole_words(start, end)

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
        self._sessions = LiveSessions[McpBrowser](limits.sessions, limits.idle, clock)

    def open_session(self, owner: str) -> str:
        """Open a session for `owner` and return its id. Raises Failed if the library cannot open.

        If too many are open, the least recently used one is closed.
        """
        library, allow = self._source.open_for_browser()
        browser = McpBrowser(secrets.token_hex(8), library, allow, self.limits)
        self._sessions.add_session(owner, browser.id, browser)
        return browser.id

    @contextmanager
    def use_session(self, id: str, owner: str) -> Iterator[McpBrowser]:
        """Yield an owner's session and hold its lock. Raises Failed (no_session).

        The session of another owner counts as unknown.
        """
        browser = self._sessions.find_session(owner, id)
        if browser is None:
            detail = (
                f"no such session is open here (idle ones are closed after "
                f"{self.limits.idle / 3600:g} h, and one of several workers has no sessions of "
                f"another): {NEW_SESSION_HINT}"
            )
            raise Failed(Failure(_shorten_text(id), Outcome.NO_SESSION, detail))
        with browser.lock:
            yield browser


def _fit_window(view: PageView, top: int, longest: int) -> tuple[str, int]:
    """Return as many parts of a window as fit in `longest` characters, and their end offset."""
    text, end = "", top
    for part in view.iter_parts(top):
        if len(text) + len(part.text) <= longest:
            text, end = text + part.text, part.end
        elif end > top:
            return text, end
    return text, view.window_at(top).end


def _shorten_text(text: str, most: int = 80) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


MAX_CHECKED_CHARACTERS = 300
"""maximum characters of each quote in the output"""


class CheckedQuote(Record, frozen=True):
    """Verdict on one quote of a saved answer, or on a part of its text without a quote."""

    text: str
    url: str
    title: str
    outcome: str
    """either verified, or the reason why not: not_found, elided, too_short, page_missing,
    wrong_source, digest_differs, read_otherwise, text_differs, out_of_range, broken_citation,
    claim_differs; not_quoted and not_judged for text without a quote"""
    detail: str
    left_out: tuple[str, ...] = ()
    """text of the page that an elided quotation leaves out between its pieces"""


class ArchivedSources:
    """Archived pages, by the URLs that one caller knows them by.

    `meant(address)` returns the digest of the page that an address of this server names, and an
    empty string for any other URL.
    """

    def __init__(self, archive: PageArchive, meant: Callable[[str], str]) -> None:
        self._archive = archive
        self._digest_of_url = meant

    def find_version(self, quote: Quote) -> Page | None:
        """Return the version nearest to what a quote names, else another at its address.

        None if there is neither. At an address of this server the digest in it names the version.
        """
        digest = self._digest_of_url(quote.url)
        nearest = self._archive.find_quoted(quote)
        if digest and nearest and digest == quote.digest:
            return msgspec.structs.replace(nearest, url=quote.url)
        return nearest or self.find_latest(quote.url)

    def find_latest(self, url: str) -> Page | None:
        """Return the newest version at an address; None if there is none.

        An address of this server names one version, which is returned.
        """
        digest = self._digest_of_url(url)
        return self._archive.find_page(digest) if digest else self._archive.find_latest(url)

    def find_named(self, claimed: ClaimedQuote) -> Iterator[Page]:
        """Yield the versions of the source that another tool names, newest first."""
        for address in list_equal_addresses(claimed.url):
            if digest := self._digest_of_url(address):
                yield from filter(None, [self._archive.find_page(digest)])
            elif address:
                yield from self._archive.find_versions(address)

    def explain_missing(self, claimed: ClaimedQuote) -> str:
        """Return a sentence on why there is no version of the source, and what to do."""
        return "its source is not stored here: open it, then verify again"


def describe_verdict(verdict: AnyVerdict) -> CheckedQuote:
    """Convert a verdict to the record that MCP clients get; long texts are truncated."""
    source: Quote | ClaimedQuote
    gaps, most = tuple[str, ...](), MAX_CHECKED_CHARACTERS
    match verdict:
        case Verdict():
            source = verdict.quote
        case ClaimedVerdict():
            source, gaps = verdict.claimed, verdict.left_out
        case _:
            text = _shorten_text(verdict.text, most)
            return CheckedQuote(text, "", "", verdict.outcome, verdict.detail)
    text, left_out = _shorten_text(source.text, most), [_shorten_text(gap, most) for gap in gaps]
    why = (verdict.outcome, verdict.detail)
    return CheckedQuote(text, source.url, source.title, *why, tuple(left_out))


_SESSION_HELP = "The id that search gave."
Probability = Annotated[float, Meta(ge=0, le=1)]


class SearchArguments(Record, frozen=True):
    """Arguments of `search`."""

    query: Annotated[str, Meta(min_length=1, max_length=2000, description="Words, or a question.")]
    k: Annotated[int, Meta(ge=1, le=20, description="Results at most.")] = 10
    session: Annotated[str, Meta(description="A session to go on in; none: a new one.")] = ""
    offset: Annotated[int, Meta(ge=0, description="Results to leave out, to page on.")] = 0


class SearchOutputItem(Record, frozen=True):
    """One search result. Its snippet is for choosing a page to open and can never be quoted."""

    id: Annotated[str, Meta(description="For fetch.")]
    title: str
    url: str
    snippet: str
    link: Annotated[int, Meta(description="For open, as long as these results are shown.")]


class SearchOutput(Record, frozen=True):
    """Output of `search`."""

    session: str
    query: str
    results: tuple[SearchOutputItem, ...]
    total: int
    next_offset: int | None


class OpenArguments(Record, frozen=True):
    """Arguments of `open`: a link number, an address, or an offset of the current page."""

    session: Annotated[
        str, Meta(description=f"{_SESSION_HELP} None: a new one, for an address.")
    ] = ""
    link: Annotated[
        int | None, Meta(description="The n of a link 【n†words】 or result that is shown now.")
    ] = None
    url: Annotated[
        str, Meta(max_length=8000, description="An address; the tool says which may be opened.")
    ] = ""
    offset: Annotated[
        int | None, Meta(description="Where to read on: an offset into the page's text.")
    ] = None
    full: Annotated[
        bool, Meta(description="All of the page, with navigation, not only its article.")
    ] = False


class WindowSpan(Record, frozen=True):
    """The span text[start:end] of a page."""

    start: int
    end: int


class WindowOutput(Record, frozen=True):
    """Output of `open` and `find`: part of a page, with links written as 【n†words†domain】."""

    session: str
    url: str
    title: str
    digest: Annotated[str, Meta(description="Names this version of the page.")]
    start: int
    end: int
    total: Annotated[int, Meta(description="Where what is shown of the page ends.")]
    next_offset: int | None
    text: str
    found: Annotated[WindowSpan | None, Meta(description="What find found.")] = None


class FindArguments(Record, frozen=True):
    """Arguments of `find`."""

    session: Annotated[str, Meta(description=_SESSION_HELP)]
    text: Annotated[
        str,
        Meta(min_length=1, max_length=2000, description="Words as they stand; again: the next."),
    ]


class QuoteArguments(Record, frozen=True):
    """Arguments of `quote`: the text to quote, or start and end offsets."""

    session: Annotated[str, Meta(description=_SESSION_HELP)]
    text: Annotated[
        str,
        Meta(max_length=20_000, description="The words, or first words━last words for a long one."),
    ] = ""
    start: Annotated[int | None, Meta(description="Or: an offset into the page's text.")] = None
    end: Annotated[int | None, Meta(description="The offset behind the last character.")] = None


class QuoteOutput(Record, frozen=True):
    """Output of `quote`: a verbatim quote, cut from the stored page by the server."""

    session: str
    quote: Quote
    markdown: Annotated[str, Meta(description="To copy into an answer; rookery checks it so.")]


class FetchArguments(Record, frozen=True):
    """Arguments of `fetch`."""

    id: Annotated[str, Meta(min_length=1, max_length=200, description="The id of a result.")]
    offset: Annotated[int, Meta(ge=0, description="Where to read on.")] = 0


class FetchOutput(Record, frozen=True):
    """Output of `fetch`: a page's own text, as far as one result holds it."""

    id: str
    title: str
    text: str
    url: str
    metadata: Annotated[
        dict[str, str | int | None],
        Meta(description="session, digest, start, end, total and next_offset."),
    ]


class AnswerArguments(Record, frozen=True):
    """Arguments of `answer`."""

    question: Annotated[str, Meta(min_length=1, max_length=5000, description="One question.")]
    method: Annotated[str, Meta(description="One that the server offers; none: its own.")] = ""
    model: Annotated[str, Meta(description="One that the server offers; none: its first.")] = ""
    decline: Annotated[
        Probability | None, Meta(description="From 0 to 1: how sure an answer must be to be given.")
    ] = None


class AnswerOutput(Record, frozen=True):
    """Output of `answer`: an answer with checked quotes, or the reason why there is none."""

    question: str
    stop: Annotated[str, Meta(description="end, or why it ended without an answer.")]
    declined: Annotated[bool, Meta(description="No answer is in what was found.")]
    text: Annotated[str, Meta(description="With [n] for the n-th quote.")]
    quotes: int
    verified: int
    answer: Annotated[Answer | None, Meta(description="For verify and rookery cite verify.")]
    failures: tuple[Failure, ...]
    confidence: Annotated[
        str, Meta(description="The score in words: a probability only where it was calibrated.")
    ] = ""
    certain: Annotated[bool, Meta(description="false: a possible answer, to be checked.")] = True


class VerifyArguments(Record, frozen=True):
    """Arguments of `verify`: a saved answer."""

    answer: Annotated[
        str | dict[str, Any],
        Meta(
            description="JSON of Rookery, OpenAI, Anthropic, Gemini or Perplexity, or Markdown "
            "that quotes words in quotation marks beside a link to their source."
        ),
    ]
    offset: Annotated[int, Meta(ge=0, description="Quotes to leave out, to page on.")] = 0


class VerifyOutput(Record, frozen=True):
    """Output of `verify`: the verdict on each quote, and their counts."""

    verified: int
    total: int
    failed: int
    next_offset: int | None
    checked: tuple[CheckedQuote, ...]


CHECKED_PER_RESULT = 50
"""maximum number of verdicts in one result of `verify`"""
MAX_FAILURES = 10
"""maximum number of failures in one result of `answer`"""
FILE_URL = re.compile(r"file:///[\w.~/%-]*")
SHOWN_ADDRESSES_ONLY = (
    " Only addresses that a search or a page of this session showed are opened, whoever asks: so "
    "nothing that a page says can send this server anywhere."
)
ANY_ADDRESS_NOTE = " Addresses of http and https that the user gave may be opened, too."


class ToolCaller(NamedTuple):
    """The client that calls a tool."""

    owner: str
    """owner of the browser sessions; nobody else can use them"""
    answer: Callable[[QuestionRequest], AnswerOutcome]
    """answers a question. Raises Failed"""
    public_url: Callable[[str, str], str] = lambda url, digest: url
    """maps a page's URL and digest to the address that the caller is shown"""
    digest_of_url: Callable[[str], str] = lambda address: ""
    """maps such an address back to the page's digest; empty for any other URL"""


class ToolResult(NamedTuple):
    """Result of a tool: a record for programs and the same content as text for models."""

    structured: Record
    text: str


class McpTool(NamedTuple):
    """Definition of one tool: its record types and function."""

    name: str
    title: str
    input_type: type[Record]
    output_type: type[Record]
    run: Callable[[Any, ToolCaller], ToolResult]
    """runs the tool; its docstring is the description that models read"""


class ToolArgumentsError(Exception):
    """Arguments that a tool does not accept; the message says what to correct."""


class McpTools:
    """The tools of one server. Safe to use from many threads."""

    def __init__(
        self, source: McpLibrary, method: str = "", limits: BrowserLimits = BrowserLimits()
    ) -> None:
        self.source = source
        self.browsers = McpBrowserPool(source, limits)
        self._method = method or source.settings.method
        self._limits = limits
        self._tools = {tool.name: tool for tool in self._define_tools()}

    def list_names(self) -> tuple[str, ...]:
        """Return the names of all tools."""
        return tuple(self._tools)

    def describe_tools(self) -> list[dict[str, Any]]:
        """Return the entries of `tools/list`: name, description, schemas and annotations."""
        hints = {"readOnlyHint": True, "openWorldHint": self.source.uses_network}
        note = ANY_ADDRESS_NOTE if self.source.any_address else SHOWN_ADDRESSES_ONLY
        return [
            {
                "name": tool.name,
                "title": tool.title,
                "description": " ".join((tool.run.__doc__ or "").split())
                + (note if tool.name == "open" else ""),
                "inputSchema": build_tool_schema(tool.input_type),
                "outputSchema": build_tool_schema(tool.output_type),
                "annotations": {"title": tool.title, **hints},
            }
            for tool in self._tools.values()
        ]

    def call_tool(self, name: str, arguments: Any, caller: ToolCaller) -> ToolResult:
        """Run the tool of this name for a caller and return its result.

        Raises KeyError for another name than `list_names` has, ToolArgumentsError, Failed without
        local paths, and what `caller.answer` raises.
        """
        tool = self._tools[name]
        try:
            # Not strict: models sometimes write 3 as "3".
            parsed = msgspec.convert(arguments, prepare_type(tool.input_type), strict=False)
        except msgspec.ValidationError as error:
            takes = ", ".join(field.name for field in msgspec.structs.fields(tool.input_type))
            detail = f"{name}: {describe_json_error(error)}. It takes {takes}: call it again."
            raise ToolArgumentsError(detail) from error
        try:
            return tool.run(parsed, caller)
        except Failed as failed:
            raise Failed(_redact_failure(caller, failed.failure)) from failed

    def _define_tools(self) -> tuple[McpTool, ...]:
        return (
            McpTool("search", "Search", SearchArguments, SearchOutput, self._run_search),
            McpTool("open", "Open a page", OpenArguments, WindowOutput, self._run_open),
            McpTool("find", "Find on the page", FindArguments, WindowOutput, self._run_find),
            McpTool("quote", "Quote the page", QuoteArguments, QuoteOutput, self._run_quote),
            McpTool("fetch", "Fetch a result", FetchArguments, FetchOutput, self._run_fetch),
            McpTool("answer", "Answer a question", AnswerArguments, AnswerOutput, self._run_answer),
            McpTool("verify", "Verify an answer", VerifyArguments, VerifyOutput, self._run_verify),
        )

    def _run_search(self, arguments: SearchArguments, caller: ToolCaller) -> ToolResult:
        """Searches for pages. Gives a session id for the other tools, and results to open by their
        link number or to fetch by their id. Snippets cannot be quoted.
        """
        session = arguments.session or self.browsers.open_session(caller.owner)
        with self.browsers.use_session(session, caller.owner) as browser:
            hits = browser.search(arguments.query)
            numbers = range(arguments.offset, min(arguments.offset + arguments.k, len(hits)))
            results = tuple(
                SearchOutputItem(
                    browser.assign_result_id(hits[number].url),
                    hits[number].title,
                    caller.public_url(hits[number].url, hits[number].digest),
                    hits[number].snippet[: self._limits.snippet],
                    number,
                )
                for number in numbers
            )
        after = arguments.offset + len(results)
        following = after if results and after < len(hits) else None
        output = SearchOutput(session, arguments.query, results, len(hits), following)
        # ChatGPT's connectors read the results from this text.
        return ToolResult(output, output.to_json())

    def _run_open(self, arguments: OpenArguments, caller: ToolCaller) -> ToolResult:
        """Shows part of a page: by the number of a link that is shown, by its address, or, with
        offset alone, more of the page that is open.
        """
        if arguments.link is not None and arguments.url:
            raise ToolArgumentsError("open: give a link number or an address, not both.")
        session = arguments.session or (
            self.browsers.open_session(caller.owner) if arguments.url else ""
        )
        with self.browsers.use_session(session, caller.owner) as browser:
            if arguments.url:
                browser.open(self._resolve_url(arguments.url, caller))
            elif arguments.link is not None:
                browser.follow_link(arguments.link)
            if arguments.offset is not None or arguments.full:
                browser.scroll_to(arguments.offset, arguments.full)
            return _build_window_result(browser, caller)

    def _run_find(self, arguments: FindArguments, caller: ToolCaller) -> ToolResult:
        """Goes to where a text stands on the page that is open; again: to the next place."""
        with self.browsers.use_session(arguments.session, caller.owner) as browser:
            return _build_window_result(browser, caller, WindowSpan(*browser.find(arguments.text)))

    def _run_quote(self, arguments: QuoteArguments, caller: ToolCaller) -> ToolResult:
        """Cuts a verbatim quote from the page that is open, by its words (case and typography do
        not count) or by start and end. What it gives can be verified.
        """
        with self.browsers.use_session(arguments.session, caller.owner) as browser:
            if arguments.text:
                quote = browser.quote(arguments.text)
            elif arguments.start is not None and arguments.end is not None:
                quote = browser.quote_span(arguments.start, arguments.end)
            else:
                raise ToolArgumentsError("quote: give the text to quote, or start and end.")
        quote = _replace_quote_url(caller, quote)
        markdown = quote_to_markdown(quote)
        return ToolResult(QuoteOutput(arguments.session, quote, markdown), markdown)

    def _run_fetch(self, arguments: FetchArguments, caller: ToolCaller) -> ToolResult:
        """Gives the text of the page that a search result's id names, and opens it."""
        session = arguments.id.partition("-")[0]
        with self.browsers.use_session(session, caller.owner) as browser:
            browser.open(browser.resolve_result_id(arguments.id))
            window = browser.read_plain_text(arguments.offset)
        page, following = window.page, _compute_next_offset(window)
        about: dict[str, str | int | None] = {"session": session, "digest": page.digest}
        about |= {"start": window.start, "end": window.end}
        about |= {"total": window.view_end, "next_offset": following}
        url = caller.public_url(page.url, page.digest)
        fetched = FetchOutput(arguments.id, page.title, window.text, url, about)
        # ChatGPT's connectors read the page from this text.
        return ToolResult(fetched, fetched.to_json())

    def _run_answer(self, arguments: AnswerArguments, caller: ToolCaller) -> ToolResult:
        """Searches, reads, and answers one question with quotes that were checked against their
        stored pages; or declines where what it finds does not answer.
        """
        method = arguments.method or self._method
        question, model, decline = arguments.question, arguments.model, arguments.decline
        answered = caller.answer(QuestionRequest(question, method, model, decline=decline))
        episode, verdicts = answered.episode, answered.verdicts
        answer = episode.answer
        if answer is not None:
            quotes = tuple(_replace_quote_url(caller, quote) for quote in answer.quotes)
            answer = msgspec.structs.replace(answer, quotes=quotes)
        if episode.stop == Outcome.NO_EVIDENCE and episode.failures:
            raise Failed(episode.failures[0])
        text = render_numbered(answer) if answer else ""
        out = AnswerOutput(
            episode.question.text,
            episode.stop,
            answer.declined if answer else False,
            text[: self._limits.characters],
            len(verdicts),
            sum(verdict.verified for verdict in verdicts),
            answer,
            tuple(_redact_failure(caller, failure) for failure in episode.failures[:MAX_FAILURES]),
            word_score(episode),
            answer is None or answer.stored_certain is not False,
        )
        return ToolResult(out, _render_answer(out)[: self._limits.characters])

    def _run_verify(self, arguments: VerifyArguments, caller: ToolCaller) -> ToolResult:
        """Checks every quote of an answer against the stored pages. Uses no model and no
        network.
        """
        text = arguments.answer
        data = text.encode() if isinstance(text, str) else msgspec.json.encode(text)
        try:
            pages = ArchivedSources(self.source.open_archive(), caller.digest_of_url)
            verdicts = check_saved_answers(data, "the answer", pages)
        except ValueError as error:
            raise ToolArgumentsError(f"verify: {error}") from error
        if not verdicts:
            why = "it quotes nothing that names a source: put the link beside the quote"
            raise ToolArgumentsError(f"verify: {why}")
        every = [describe_verdict(verdict) for verdict in verdicts]
        listed = tuple(
            msgspec.structs.replace(each, detail=_redact_paths(caller, each.detail))
            for each in every[arguments.offset : arguments.offset + CHECKED_PER_RESULT]
        )
        after = arguments.offset + len(listed)
        following = after if after < len(every) and listed else None
        good = sum(each.outcome == "verified" for each in every)
        out = VerifyOutput(good, len(every), count_failed_quotes(verdicts), following, listed)
        lines = [f"{each.outcome}: “{each.text}” {each.url} {each.detail}" for each in listed]
        return ToolResult(out, "\n".join([summarize_verdicts(verdicts), *lines]))

    def _resolve_url(self, address: str, caller: ToolCaller) -> str:
        digest = caller.digest_of_url(address)
        page = self.source.open_archive().find_page(digest) if digest else None
        return page.url if page else address


def build_tool_schema(kind: type[Record]) -> dict[str, Any]:
    """Return the JSON Schema of a record, with an object at its root as MCP requires."""
    _, components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    root: dict[str, Any] = components.pop(kind.__name__)
    return {**root, "$defs": components} if components else root


def quote_to_markdown(quote: Quote) -> str:
    """Render a quote and its source as Markdown that `verify` can read back."""
    said = re.sub(r"([\\`*_\[\]<&~|])", r"\\\1", quote.text)
    said = re.sub(r"(?m)^\s*(\d*)([#>+=.)-])", r"\1\\\2", said)
    # A line of the page ends in the rendered Markdown, too, and bars part cells.
    words = re.sub(r"(?m)(\S)[^\S\n]*\n(?=[^\S\n]*\S)", r"\1\\\n", said)
    words = re.sub(r"\t+", r" \\| ", words)
    words = "\n".join(f"> {line.strip()}" for line in words.split("\n"))
    title = " ".join(quote.title.translate(_MARKDOWN_CHARACTERS).split()) or quote.url
    return f"{words}\n\n— [{title}](<{quote.url}>)"


_MARKDOWN_CHARACTERS = {ord(mark): " " for mark in '[]\\`*_<>"'}


def _build_window_result(
    browser: McpBrowser, caller: ToolCaller, match: WindowSpan | None = None
) -> ToolResult:
    window = browser.read_window()
    page, following = window.page, _compute_next_offset(window)
    url = caller.public_url(page.url, page.digest)
    output = WindowOutput(
        session=browser.id,
        url=url,
        title=page.title,
        digest=page.digest,
        start=window.start,
        end=window.end,
        total=window.view_end,
        next_offset=following,
        text=window.text,
        found=match,
    )
    fence = secrets.token_hex(4)  # random, so that no page can forge the end of its own text
    more = "the end" if following is None else f"more with offset {following}"
    about = f"{page.title}\n{url}\n" if url else f"{page.title}\n"
    about += f"session {browser.id}, {window.start} to {window.end} of {window.view_end}, {more}\n"
    if match is not None:
        about += f"found at {match.start} to {match.end}\n"
    return ToolResult(output, f"{about}--- page {fence} ---\n{window.text}\n--- end {fence} ---")


def _replace_quote_url(caller: ToolCaller, quote: Quote) -> Quote:
    return msgspec.structs.replace(quote, url=caller.public_url(quote.url, quote.digest))


def _redact_failure(caller: ToolCaller, failure: Failure) -> Failure:
    what, detail = _redact_paths(caller, failure.what), _redact_paths(caller, failure.detail)
    return Failure(what, failure.outcome, detail)


def _redact_paths(caller: ToolCaller, sentence: str) -> str:
    return FILE_URL.sub(lambda found: caller.public_url(found[0], ""), sentence)


def _compute_next_offset(window: PageWindow) -> int | None:
    return window.end if window.start < window.end < window.view_end else None


def _render_answer(out: AnswerOutput) -> str:
    """Render the output of `answer` as text for a model."""
    if out.answer is None:
        return f"There is no answer ({out.stop}). Search and read yourself, or ask otherwise."
    possible = "A possible answer, to be checked:\n" * (out.answer.stored_certain is False)
    noted = [each.detail for each in out.failures if each.outcome == Outcome.CITATION_NOTED]
    possible += "".join(f"Note: {each}\n" for each in noted)
    head = f"Declined: {out.text}\nThe nearest:" if out.declined else f"{possible}{out.text}\n"
    cited = [
        f"[{number}]\n{quote_to_markdown(quote)}"
        for number, quote in enumerate(out.answer.quotes, 1)
    ]
    confidence = f" · {out.confidence}" * bool(out.confidence)
    checked = f"{out.verified} of {format_count(out.quotes, 'quote')} verified{confidence}"
    return "\n\n".join([head, *cited, checked])

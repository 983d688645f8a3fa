"""The web as a library: a search engine's results, and the pages that they lead to.

Engines are asked by one JSON call, DuckDuckGo by its page for browsers without scripts; pages are
fetched by `fetcher`.
"""

import html
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs, parse_qsl, quote, urldefrag, urlencode, urljoin, urlsplit

import msgspec

from rookery.errors import Failed, Outcome
from rookery.library.page_archive import PageArchive
from rookery.network.fetcher import Fetcher, FetchResponse
from rookery.network.http_response import parse_retry_after
from rookery.pages.search_terms import get_keywords
from rookery.records import Failure, Hit, Library, Page, decode_json

MIN_RESULTS = 10
"""results that are asked for, so that a search repeated offline can show more than the first did"""


class SearchResults(NamedTuple):
    """The results of a search, and the engines that were passed over for it."""

    hits: list[Hit]
    failures: tuple[Failure, ...] = ()


class SearchEngine(NamedTuple):
    """A search engine: `search(fetcher, query, k)` gives at most k results or raises `Failed`."""

    name: str
    """under which its results are remembered; another language or server is another name"""
    search: Callable[[Fetcher, str, int], list[Hit]]

    def search_web(self, fetcher: Fetcher, query: str, k: int) -> SearchResults:
        """Return at most k results. Raises Failed."""
        return SearchResults(self.search(fetcher, query, k))


class WebSearch(Protocol):
    """A way to search the web: one engine, or several as one (`MergedSearch`)."""

    @property
    def name(self) -> str:
        """Name under which results are remembered."""

    def search_web(self, fetcher: Fetcher, query: str, k: int) -> SearchResults:
        """Return at most k results and the engines that were passed over.

        Raises Failed where no engine answered.
        """


class WebLibrary(Library):
    """A library of a search engine's results and the pages that they lead to, each kept in the
    archive.

    Only addresses that a search, an opened page or the user (`allow_url`) has shown are opened.
    With `offline`, all comes from the archive, and what is not in it raises `Failed`
    (not_in_archive).
    """

    def __init__(
        self, engine: WebSearch, archive: PageArchive, fetcher: Fetcher, offline: bool = False
    ) -> None:
        self._engine = engine
        self._archive = archive
        self._fetcher = fetcher
        self._offline = offline
        self._shown_urls: set[str] = set()
        self._failures: list[Failure] = []

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The pages that could not be opened and the engines that were passed over, in order."""
        return tuple(self._failures)

    def allow_url(self, url: str) -> None:
        """Let `fetch` open this address: the user has named it."""
        self._shown_urls.add(urldefrag(url).url)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the engine's first k results, or fewer; each may then be opened by `fetch`.

        The engine is asked each time, for at least MIN_RESULTS, which the archive keeps; with
        `offline`, they come from there. An empty list means that the engine found nothing. Raises
        Failed: not_in_archive for what was never searched and is asked offline, or what the engine
        raises.
        """
        hits = self._load_stored_search(query) if self._offline else self._query_engine(query, k)
        for hit in hits[:k]:
            self.allow_url(hit.url)
        return hits[:k]

    def fetch(self, url: str) -> Page:
        """Return the page at an address that was shown or allowed; its links may be opened next.

        It is fetched and kept in the archive or, with `offline`, comes from there. Raises Failed:
        url_not_shown for other addresses, not_in_archive, or the reason why it cannot be fetched.
        """
        address = urldefrag(url).url
        if address not in self._shown_urls:
            detail = "only addresses that a search, an opened page or the user showed are opened"
            raise Failed(Failure(url, Outcome.URL_NOT_SHOWN, detail))
        try:
            fetch = self._archive.load_latest if self._offline else self._fetch_and_store
            page = fetch(address)
        except Failed as failed:
            self._failures.append(failed.failure)
            raise
        for link in page.links:
            self.allow_url(link.url)
        self.allow_url(page.url)
        return page

    def _query_engine(self, query: str, k: int) -> list[Hit]:
        hits, passed_over = self._engine.search_web(self._fetcher, query, max(k, MIN_RESULTS))
        self._failures += passed_over
        self._archive.store_search(self._engine.name, query, hits)
        return hits

    def _load_stored_search(self, query: str) -> list[Hit]:
        hits = self._archive.find_search(self._engine.name, query)
        if hits is None:
            detail = f"{self._engine.name} was never asked this: ask it once without --offline"
            raise Failed(Failure(query, Outcome.NOT_IN_ARCHIVE, detail))
        return hits

    def _fetch_and_store(self, url: str) -> Page:
        page = self._fetcher.fetch_page(url)
        self._archive.store_page(page, requested_url=url)
        return page


def make_wikipedia_engine(language: str = "en", base_url: str = "") -> SearchEngine:
    """Return the search engine of the Wikipedia in this language, which needs no key.

    `base_url` names another MediaWiki server.
    """
    base = (base_url or f"https://{language}.wikipedia.org").rstrip("/")

    def search_words(fetcher: Fetcher, words: str, k: int, query: str) -> list[Hit]:
        cut = _cut_query(words, 300)  # longer ones are refused
        parameters = urlencode({"srsearch": cut, "srlimit": min(k, 50)})
        address = f"{base}/w/api.php?action=query&list=search&{parameters}"
        form = "srprop=snippet&format=json&formatversion=2"
        answer = _fetch_json(fetcher, f"{address}&{form}", query)
        results = _extract_results(answer, query, "query", "search")
        named = [(_extract_text(each, "title").replace(" ", "_"), each) for each in results]
        pages = [(quote(title, safe="/:(),"), each) for title, each in named if title]
        return _make_hits((f"{base}/wiki/{title}", each) for title, each in pages)

    def search(fetcher: Fetcher, query: str, k: int) -> list[Hit]:
        words = get_keywords(query)
        hits = search_words(fetcher, " ".join(words), k, query)
        if len(hits) < k and len(words) > 1:
            # It wants every word of a query on the page, and a question has words to spare.
            hits += search_words(fetcher, " OR ".join(words), k, query)
        return list({hit.url: hit for hit in hits}.values())[:k]

    return SearchEngine(f"wikipedia:{base_url or language}", search)


def make_searxng_engine(base_url: str) -> SearchEngine:
    """Return the search engine of a SearXNG server, whose settings must allow the format json."""
    base = base_url.rstrip("/")

    def search(fetcher: Fetcher, query: str, k: int) -> list[Hit]:
        parameters = urlencode({"q": query, "format": "json"})
        forbidden = "the server does not give JSON: add json to search.formats in its settings.yml"
        answer = _fetch_json(fetcher, f"{base}/search?{parameters}", query, forbidden=forbidden)
        results = _extract_results(answer, query, "results")
        silent = answer.get("unresponsive_engines")
        if not results and silent:
            detail = f"none of its engines answered: {silent}"[:300]
            raise _make_error(query, Outcome.SEARCH_FAILED, detail)
        return _make_hits((_extract_text(result, "url"), result) for result in results)[:k]

    return SearchEngine(f"searxng:{base}", search)


def make_brave_engine(base_url: str = "https://api.search.brave.com") -> SearchEngine:
    """Return the engine Brave Search, which takes its key from BRAVE_API_KEY in the environment.

    It gives 20 results at most. Without the key, searching raises Failed (no_key).
    """

    def search(fetcher: Fetcher, query: str, k: int) -> list[Hit]:
        key = _read_api_key("BRAVE_API_KEY", query)
        words = " ".join(query.split()[:50])  # its own limits: 50 words, 400 characters
        parameters = urlencode({"q": _cut_query(words, 400), "count": min(k, 20)})
        url = f"{base_url.rstrip('/')}/res/v1/web/search?{parameters}"
        headers = [("X-Subscription-Token", key), ("Accept", "application/json")]
        answer = _fetch_json(fetcher, url, query, headers, "check the key in BRAVE_API_KEY")
        if "web" not in answer and answer.get("type") == "search":
            return []  # it leaves out what it has no results for
        results = _extract_results(answer, query, "web", "results")
        return _make_hits((_extract_text(result, "url"), result) for result in results)[:k]

    return SearchEngine("brave", search)


def make_duckduckgo_engine(base_url: str = "https://html.duckduckgo.com") -> SearchEngine:
    """Return the engine DuckDuckGo, which needs no key.

    It has no interface for programs: its page for browsers without scripts is read. Where it asks
    whether a person searches, Failed (search_blocked) is raised; nothing tries to get around that.
    """

    def search(fetcher: Fetcher, query: str, k: int) -> list[Hit]:
        _check_query(query)
        parameters = urlencode({"q": _cut_query(query, 400)})
        url = f"{base_url.rstrip('/')}/html/?{parameters}"
        refused = "it does not answer programs at this address for now"
        try:
            response = _fetch_api_response(fetcher, url, query, (), refused)
        except Failed as failed:
            if "http_403" in failed.failure.detail:
                raise _make_error(query, Outcome.SEARCH_BLOCKED, failed.failure.detail) from None
            raise
        page = response.data.decode("utf-8", "replace")
        if response.status == 202 or _CHALLENGE.search(page):
            detail = "it wants to know whether a person searches; wait, or use another engine"
            raise _make_error(query, Outcome.SEARCH_BLOCKED, detail)
        return _read_duckduckgo_results(page, response.url, query)[:k]

    return SearchEngine("duckduckgo", search)


_CHALLENGE = re.compile(r"anomaly-modal|anomaly\.js|challenge-form", re.I)


def _read_duckduckgo_results(page: str, url: str, query: str) -> list[Hit]:
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(page)
    results = []
    for result in tree.css(".result:not(.result--ad)"):
        link, snippet = result.css_first("a.result__a"), result.css_first(".result__snippet")
        if link is not None:
            fields = {
                "title": html.escape(link.text()),
                "snippet": "" if snippet is None else html.escape(snippet.text()),
            }
            address = _resolve_duckduckgo_link(link.attributes.get("href") or "", url)
            results.append((address, fields))
    if not results and tree.css_first(".no-results") is None:
        detail = "its page holds neither results nor the word that there are none"
        raise _make_error(query, Outcome.SEARCH_FAILED, detail)
    return _make_hits(results)


def _resolve_duckduckgo_link(href: str, base: str) -> str:
    """Return the address that a result leads to; empty for an advert and for what is no address.

    Results lead through `//duckduckgo.com/l/?uddg=ADDRESS`, adverts through `/y.js`.
    """
    try:
        address = urljoin(base, href)
        parts = urlsplit(address)
        redirected = parse_qs(parts.query).get("uddg", [""])[0]
    except ValueError:
        return ""
    is_redirect = parts.hostname in ("duckduckgo.com", urlsplit(base).hostname)
    if (parts.path.rstrip("/"), is_redirect) == ("/l", True):
        address = redirected
    return "" if "duckduckgo.com/y.js" in address else address


_QUOTA = re.compile(r"quota|rate.?limit|limit.?exceeded|too many|maxlag|resource_exhausted", re.I)


def _fetch_json(
    fetcher: Fetcher,
    url: str,
    query: str,
    headers: Sequence[tuple[str, str]] = (),
    forbidden: str = "the server refuses this search",
) -> dict[str, Any]:
    """Return the object that a search API answers. Whatever else it answers raises `Failed`."""
    _check_query(query)
    response = _fetch_api_response(fetcher, url, query, headers, forbidden)
    try:
        answer = decode_json(response.data, Any)
    except ValueError as error:
        start = response.data[:80].decode("utf-8", "replace")
        detail = f"the answer is not JSON ({error}); it begins {start!r}"
        raise _make_refused_error(query, response.status, detail, forbidden) from error
    if not isinstance(answer, dict):
        raise _make_error(query, Outcome.SEARCH_FAILED, "the answer is not a JSON object")
    if response.status != 200 or answer.get("error"):
        error_text = msgspec.json.encode(answer.get("error", answer)).decode()[:300]
        raise _make_refused_error(query, response.status, error_text, forbidden)
    return answer


def _check_query(query: str) -> None:
    if not query.strip():
        raise _make_error(query, Outcome.SEARCH_FAILED, "the query is empty: ask something")


def _fetch_api_response(
    fetcher: Fetcher, url: str, query: str, headers: Sequence[tuple[str, str]], forbidden: str
) -> FetchResponse:
    try:
        return fetcher.fetch_response(url, headers)
    except Failed as failed:
        outcome, detail = failed.failure.outcome, failed.failure.detail
        status = int(outcome[5:]) if re.fullmatch(r"http_\d+", outcome) else 200
        raise _make_refused_error(query, status, f"{outcome}: {detail}", forbidden) from failed


def _make_refused_error(query: str, status: int, error_text: str, forbidden: str) -> Failed:
    if status == 429 or _QUOTA.search(error_text):
        detail = f"wait, or use another engine ({error_text})"
        return _make_error(query, Outcome.SEARCH_QUOTA, detail)
    detail = f"HTTP {status}: {error_text}" if status != 200 else error_text
    if status in (401, 403, 422):
        detail = f"{forbidden} ({error_text})"
    return _make_error(query, Outcome.SEARCH_FAILED, detail)


def _make_error(query: str, outcome: str, detail: str) -> Failed:
    return Failed(Failure(query, outcome, detail))


def _read_api_key(name: str, query: str) -> str:
    if not (key := os.environ.get(name, "").strip()):
        detail = f"set {name}, or choose an engine that needs no key"
        raise _make_error(query, Outcome.NO_KEY, detail)
    return key


def _extract_results(answer: dict[str, Any], query: str, *names: str) -> list[dict[str, Any]]:
    """Return the list of objects at answer[name][name...]. Its absence is a failure, not
    emptiness."""
    found: Any = answer
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, list):
        raise _make_error(query, Outcome.SEARCH_FAILED, f"the answer has no list {'.'.join(names)}")
    return [result for result in found if isinstance(result, dict)]


def _make_hits(results: Iterable[tuple[str, dict[str, Any]]]) -> list[Hit]:
    """Hits in the order given, each web address once."""
    hits: dict[str, Hit] = {}
    for url, result in results:
        if _get_scheme(url) in ("http", "https"):
            snippets = (_extract_text(result, name) for name in _SNIPPET_FIELDS)
            snippet = next(filter(None, snippets), "")
            hits.setdefault(url, Hit(url, _extract_text(result, "title") or url, snippet))
    return list(hits.values())


_SNIPPET_FIELDS = ("snippet", "description", "content")


def _get_scheme(url: str) -> str:
    """Return the scheme of an address; empty where it is no address at all."""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


def _extract_text(result: dict[str, Any], name: str) -> str:
    """Return a field as plain text: engines mark the query's words with HTML."""
    value = result.get(name)
    if not isinstance(value, str):
        return ""
    if name in ("url", "link"):
        return value.strip()
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", value)).split())


def _cut_query(query: str, longest: int) -> str:
    """Return the query's first words, up to this many characters."""
    if len(query) <= longest:
        return query
    return query[: longest + 1].rpartition(" ")[0] or query[:longest]


LONGEST_WAIT = 5.0
"""seconds of a Retry-After that are waited for; an engine that wants more is passed over"""

BLOCKED_SECONDS = 300.0
"""seconds for which an engine that blocked or limited, and named no time, is not asked again"""

FUSION_CONSTANT = 60
"""of reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009)"""

_TRACKING = re.compile(
    r"utm_\w+|fbclid|gclid|dclid|gbraid|wbraid|msclkid|yclid|igshid|mc_cid|mc_eid|_hsenc|_hsmi"
    r"|mkt_tok|ref_src|vero_id",
    re.IGNORECASE,
)


@dataclass(eq=False)
class MergedSearch:
    """Several engines as one. Threads may share an object, and questions should.

    `tiers` are asked in order until one of them finds something; the engines of a tier are asked
    at the same time, and their results merged. An engine that says how long it wants to be left
    alone is waited for, if that is no longer than LONGEST_WAIT, and asked once more; it is else
    passed over, and not asked again before the time that it named (or BLOCKED_SECONDS) is up.
    `wait` sleeps for so many seconds, `clock` is a moment in seconds.
    """

    name: str
    tiers: Sequence[Sequence[SearchEngine]]
    wait: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._resting_until: dict[str, float] = {}
        self._lock = threading.Lock()

    def search_web(self, fetcher: Fetcher, query: str, k: int) -> SearchResults:
        """Return at most k results, and a failure for each engine that was passed over.

        Raises Failed where no engine answered at all.
        """
        failures: list[Failure] = []
        answered = False
        for tier in self.tiers:
            with ThreadPoolExecutor(len(tier)) as threads:
                results = [*threads.map(lambda one: self._ask(one, fetcher, query, k), tier)]
            failures += [each for each in results if isinstance(each, Failure)]
            rankings = [each for each in results if not isinstance(each, Failure)]
            answered = answered or bool(rankings)
            if hits := merge_hits(rankings):
                return SearchResults(hits[:k], tuple(failures))
        if answered:
            return SearchResults([], tuple(failures))
        outcomes = {failure.outcome for failure in failures}
        outcome = outcomes.pop() if len(outcomes) == 1 else Outcome.SEARCH_FAILED
        raise Failed(Failure(query, outcome, "; ".join(failure.detail for failure in failures)))

    def _ask(
        self, engine: SearchEngine, fetcher: Fetcher, query: str, k: int
    ) -> list[Hit] | Failure:
        resting = self._resting_until.get(engine.name, 0.0) - self.clock()
        if resting > 0:
            detail = f"{engine.name} is left alone for {resting:.0f} s more, since it refused"
            return Failure(query, Outcome.SEARCH_QUOTA, detail)
        try:
            try:
                return engine.search(fetcher, query, k)
            except Failed as failed:
                seconds = parse_retry_after(failed.failure.detail)
                if seconds is None or seconds > LONGEST_WAIT:
                    raise
                self.wait(seconds)
                return engine.search(fetcher, query, k)
        except Failed as failed:
            self._let_rest(engine.name, failed.failure)
            detail = f"{engine.name} was passed over: {failed.failure.detail}"
            return Failure(query, failed.failure.outcome, detail)

    def _let_rest(self, name: str, failure: Failure) -> None:
        seconds = parse_retry_after(failure.detail)
        if seconds is None and failure.outcome in (Outcome.SEARCH_QUOTA, Outcome.SEARCH_BLOCKED):
            seconds = BLOCKED_SECONDS
        if seconds:
            with self._lock:
                self._resting_until[name] = self.clock() + seconds


def make_auto_search(named: Sequence[SearchEngine] = ()) -> MergedSearch:
    """Return the search by what is configured, then by DuckDuckGo, then by Wikipedia.

    Configured are the engines `named`, and Brave where BRAVE_API_KEY is set in the environment;
    they are asked together.
    """
    configured = list(named)
    if os.environ.get("BRAVE_API_KEY", "").strip():
        configured.append(make_brave_engine())
    tiers = [configured, [make_duckduckgo_engine()], [make_wikipedia_engine()]]
    return MergedSearch("auto", [tier for tier in tiers if tier])


def merge_hits(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Merge ranked results by reciprocal rank fusion; each page once, by its canonical address.

    A page is shown as the engine shows it that ranks it best, of equals the first.
    """
    scores: dict[str, float] = {}
    best: dict[str, tuple[int, Hit]] = {}
    for ranking in rankings:
        urls: set[str] = set()
        for rank, hit in enumerate(ranking, 1):
            address = canonicalize_address(hit.url)
            if address in urls:
                continue
            urls.add(address)
            scores[address] = scores.get(address, 0.0) + 1 / (FUSION_CONSTANT + rank)
            if address not in best or rank < best[address][0]:
                best[address] = rank, hit
    return [best[address][1] for address in sorted(best, key=lambda one: -scores[one])]


def canonicalize_address(url: str) -> str:
    """Return what two addresses of one page have in common, for comparing and not for opening.

    Scheme, `www.`, the ports 80 and 443, a last slash, the fragment and parameters that only tell
    where a visitor came from are left out. What is no address is returned as it is.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    host = (parts.hostname or "").removeprefix("www.").rstrip(".")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode([pair for pair in pairs if not _TRACKING.fullmatch(pair[0])])
    where = host if port in (None, 80, 443) else f"{host}:{port}"
    return where + parts.path.rstrip("/") + (f"?{query}" if query else "")


_ENGINE_MAKERS: dict[str, Callable[[str], SearchEngine]] = {
    "duckduckgo": lambda _: make_duckduckgo_engine(),
    "wikipedia": lambda language: make_wikipedia_engine(language or "en"),
    "searxng": make_searxng_engine,
    "brave": lambda _: make_brave_engine(),
}


def make_web_search(name: str) -> WebSearch:
    """Return what searches the web under this name. Raises Failed (unknown_engine).

    Names are `auto` (see `make_auto_search`), `duckduckgo`, `wikipedia`, `wikipedia:LANGUAGE` as
    in `wikipedia:de`, `searxng:https://HOST`, `brave`, and several of these joined by
    commas, whose results are merged. With `auto` among several, the others are what it asks first.
    """
    parts = [part.strip() for part in name.split(",")]
    engines = [_make_search_engine(part) for part in parts if part != "auto"]
    if "auto" in parts:
        return make_auto_search(engines)
    return engines[0] if len(engines) == 1 else MergedSearch(name, [engines])


def _make_search_engine(name: str) -> SearchEngine:
    kind, _, detail = name.partition(":")
    is_address = _get_scheme(detail) in ("http", "https")
    if kind not in _ENGINE_MAKERS or (kind == "searxng" and not is_address):
        advice = (
            "use auto, duckduckgo, wikipedia, wikipedia:LANGUAGE, searxng:https://HOST or brave, "
            "or several joined by commas"
        )
        raise Failed(Failure(name, Outcome.UNKNOWN_ENGINE, advice))
    return _ENGINE_MAKERS[kind](detail)

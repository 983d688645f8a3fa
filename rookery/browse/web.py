"""The web as a library: a search engine's results, and the pages that they lead to.

It knows four engines by one JSON call each. How a page is fetched safely is the fetcher's work.
"""

import html
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urldefrag, urlencode, urlsplit

import msgspec

from rookery.browse.archive import Archive
from rookery.browse.fetch import Fetcher, Response
from rookery.browse.words import keywords
from rookery.records import Failed, Failure, Hit, Page

AT_LEAST = 10
"""results that are asked for, so that a search repeated offline can show more than the first did"""


class Engine(NamedTuple):
    """A search engine: `search(fetcher, query, k)` gives at most k results or raises `Failed`."""

    name: str
    """under which its results are remembered; another language or server is another name"""
    search: Callable[[Fetcher, str, int], list[Hit]]


class Web:
    """What an engine finds and the pages it leads to, each kept in the archive.

    Only addresses that a search, an opened page or the user (`allow`) has shown are opened. With
    `offline`, all comes from the archive, and what is not in it raises `Failed` (not_in_archive).
    """

    def __init__(
        self, engine: Engine, archive: Archive, fetcher: Fetcher, offline: bool = False
    ) -> None:
        self._engine = engine
        self._archive = archive
        self._fetcher = fetcher
        self._offline = offline
        self._shown: set[str] = set()
        self.failures: list[Failure] = []
        """the pages that could not be opened, in order"""

    def allow(self, url: str) -> None:
        """Lets `fetch` open this address: the user has named it."""
        self._shown.add(urldefrag(url).url)

    def search(self, query: str, k: int) -> list[Hit]:
        """The engine's first k results. An empty list means that it found nothing."""
        hits = self._remembered(query) if self._offline else self._asked(query, k)
        for hit in hits[:k]:
            self.allow(hit.url)
        return hits[:k]

    def fetch(self, url: str) -> Page:
        """The page at an address that was shown."""
        address = urldefrag(url).url
        if address not in self._shown:
            detail = "only addresses that a search, an opened page or the user showed are opened"
            raise Failed(Failure(url, "url_not_shown", detail))
        try:
            page = self._archived(address) if self._offline else self._fetched(address)
        except Failed as failed:
            self.failures.append(failed.failure)
            raise
        for link in page.links:
            self.allow(link.url)
        self.allow(page.url)
        return page

    def _asked(self, query: str, k: int) -> list[Hit]:
        hits = self._engine.search(self._fetcher, query, max(k, AT_LEAST))
        self._archive.keep_search(self._engine.name, query, hits)
        return hits

    def _remembered(self, query: str) -> list[Hit]:
        hits = self._archive.searched(self._engine.name, query)
        if hits is None:
            detail = f"{self._engine.name} was never asked this: ask it once without --offline"
            raise Failed(Failure(query, "not_in_archive", detail))
        return hits

    def _fetched(self, url: str) -> Page:
        page = self._fetcher.page(url)
        self._archive.keep(page, asked=url)
        return page

    def _archived(self, url: str) -> Page:
        page = self._archive.latest(url)
        if page is None:
            detail = "this page was never opened: open it once without --offline"
            raise Failed(Failure(url, "not_in_archive", detail))
        return page


def wikipedia(language: str = "en", base_url: str = "") -> Engine:
    """Wikipedia's own search, without a key. `base_url` names another MediaWiki server."""
    base = (base_url or f"https://{language}.wikipedia.org").rstrip("/")

    def found(fetcher: Fetcher, words: str, k: int, query: str) -> list[Hit]:
        asked = {
            "action": "query",
            "list": "search",
            "srsearch": _cut(words, 300),  # longer ones are refused
            "srlimit": min(k, 50),
            "srprop": "snippet",
            "format": "json",
            "formatversion": 2,
        }
        answer = _json(fetcher, f"{base}/w/api.php?{urlencode(asked)}", query)
        results = _results(answer, query, "query", "search")
        return _hits(
            (f"{base}/wiki/{quote(_text(result, 'title').replace(' ', '_'), safe='/:(),')}", result)
            for result in results
            if _text(result, "title")
        )

    def search(fetcher: Fetcher, query: str, k: int) -> list[Hit]:
        words = keywords(query)
        hits = found(fetcher, " ".join(words), k, query)
        if len(hits) < k and len(words) > 1:
            # It wants every word of a query on the page, and a question has words to spare.
            hits += found(fetcher, " OR ".join(words), k, query)
        return list({hit.url: hit for hit in hits}.values())[:k]

    return Engine(f"wikipedia:{base_url or language}", search)


def searxng(base_url: str) -> Engine:
    """A SearXNG server, whose settings must allow the format json."""
    base = base_url.rstrip("/")

    def search(fetcher: Fetcher, query: str, k: int) -> list[Hit]:
        asked = urlencode({"q": query, "format": "json"})
        forbidden = "the server does not give JSON: add json to search.formats in its settings.yml"
        answer = _json(fetcher, f"{base}/search?{asked}", query, forbidden=forbidden)
        results = _results(answer, query, "results")
        silent = answer.get("unresponsive_engines")
        if not results and silent:
            raise _failed(query, "search_failed", f"none of its engines answered: {silent}"[:300])
        return _hits((_text(result, "url"), result) for result in results)[:k]

    return Engine(f"searxng:{base}", search)


def brave(base_url: str = "https://api.search.brave.com") -> Engine:
    """Brave Search, with the key in BRAVE_API_KEY."""

    def search(fetcher: Fetcher, query: str, k: int) -> list[Hit]:
        key = _key("BRAVE_API_KEY", query)
        words = " ".join(query.split()[:50])  # its own limits: 50 words, 400 characters
        asked = urlencode({"q": _cut(words, 400), "count": min(k, 20)})
        url = f"{base_url.rstrip('/')}/res/v1/web/search?{asked}"
        headers = [("X-Subscription-Token", key), ("Accept", "application/json")]
        answer = _json(fetcher, url, query, headers, "check the key in BRAVE_API_KEY")
        if "web" not in answer and answer.get("type") == "search":
            return []  # it leaves out what it has no results for
        results = _results(answer, query, "web", "results")
        return _hits((_text(result, "url"), result) for result in results)[:k]

    return Engine("brave", search)


def google(base_url: str = "https://www.googleapis.com") -> Engine:
    """Google Programmable Search, with GOOGLE_API_KEY and GOOGLE_CSE_ID."""

    def search(fetcher: Fetcher, query: str, k: int) -> list[Hit]:
        # The key goes into a header, so that no message that names the address shows it.
        headers = [("X-Goog-Api-Key", _key("GOOGLE_API_KEY", query))]
        asked = {"cx": _key("GOOGLE_CSE_ID", query), "q": query, "num": min(k, 10)}
        url = f"{base_url.rstrip('/')}/customsearch/v1?{urlencode(asked)}"
        advice = "check GOOGLE_API_KEY and GOOGLE_CSE_ID"
        answer = _json(fetcher, url, query, headers, advice)
        if "items" not in answer and "searchInformation" in answer:
            return []
        results = _results(answer, query, "items")
        return _hits((_text(result, "link"), result) for result in results)[:k]

    return Engine("google", search)


_QUOTA = re.compile(r"quota|rate.?limit|limit.?exceeded|too many|maxlag|resource_exhausted", re.I)


def _json(
    fetcher: Fetcher,
    url: str,
    query: str,
    headers: Sequence[tuple[str, str]] = (),
    forbidden: str = "the server refuses this search",
) -> dict[str, Any]:
    """The object that a search API answers. Whatever else it answers raises `Failed`."""
    if not query.strip():
        raise _failed(query, "search_failed", "the query is empty: ask something")
    response = _response(fetcher, url, query, headers, forbidden)
    try:
        answer = msgspec.json.decode(response.data)
    except msgspec.DecodeError as error:
        start = response.data[:80].decode("utf-8", "replace")
        detail = f"the answer is not JSON ({error}); it begins {start!r}"
        raise _refused(query, response.status, detail, forbidden) from error
    if not isinstance(answer, dict):
        raise _failed(query, "search_failed", "the answer is not a JSON object")
    if response.status != 200 or answer.get("error"):
        said = msgspec.json.encode(answer.get("error", answer)).decode()[:300]
        raise _refused(query, response.status, said, forbidden)
    return answer


def _response(
    fetcher: Fetcher, url: str, query: str, headers: Sequence[tuple[str, str]], forbidden: str
) -> Response:
    try:
        return fetcher.get(url, headers)
    except Failed as failed:
        outcome, detail = failed.failure.outcome, failed.failure.detail
        status = int(outcome[5:]) if re.fullmatch(r"http_\d+", outcome) else 200
        raise _refused(query, status, f"{outcome}: {detail}", forbidden) from failed


def _refused(query: str, status: int, said: str, forbidden: str) -> Failed:
    if status == 429 or _QUOTA.search(said):
        return _failed(query, "search_quota", f"wait, or use another engine ({said})")
    if status in (401, 403, 422):
        return _failed(query, "search_failed", f"{forbidden} ({said})")
    return _failed(query, "search_failed", f"HTTP {status}: {said}" if status != 200 else said)


def _failed(query: str, outcome: str, detail: str) -> Failed:
    return Failed(Failure(query, outcome, detail))


def _key(name: str, query: str) -> str:
    key = os.environ.get(name, "").strip()
    if not key:
        raise _failed(query, "no_key", f"set {name}, or choose an engine that needs no key")
    return key


def _results(answer: dict[str, Any], query: str, *names: str) -> list[dict[str, Any]]:
    """The list of objects at answer[name][name...]. Its absence is a failure, not emptiness."""
    found: Any = answer
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, list):
        raise _failed(query, "search_failed", f"the answer has no list {'.'.join(names)}")
    return [result for result in found if isinstance(result, dict)]


def _hits(results: Iterable[tuple[str, dict[str, Any]]]) -> list[Hit]:
    """Hits in the order given, each web address once."""
    hits: dict[str, Hit] = {}
    for url, result in results:
        if _scheme(url) in ("http", "https"):
            snippet = next(filter(None, (_text(result, name) for name in _SNIPPETS)), "")
            hits.setdefault(url, Hit(url, _text(result, "title") or url, snippet))
    return list(hits.values())


_SNIPPETS = ("snippet", "description", "content")


def _scheme(url: str) -> str:
    """The scheme of an address; empty where it is no address at all."""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return ""


def _text(result: dict[str, Any], name: str) -> str:
    """A field as plain text: engines mark the query's words with HTML."""
    value = result.get(name)
    if not isinstance(value, str):
        return ""
    if name in ("url", "link"):
        return value.strip()
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", value)).split())


def _cut(query: str, longest: int) -> str:
    """The query's first words, up to this many characters."""
    if len(query) <= longest:
        return query
    return query[: longest + 1].rpartition(" ")[0] or query[:longest]

"""Search several engines as one: those that block or limit are passed over, the results of the
others are merged by rank."""

import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qsl, urlencode, urlsplit

from rookery.errors import Failed, Outcome
from rookery.library.web_library import (
    SearchEngine,
    SearchResults,
    make_brave_engine,
    make_duckduckgo_engine,
    make_google_engine,
    make_wikipedia_engine,
)
from rookery.network.fetcher import Fetcher
from rookery.network.http_response import parse_retry_after
from rookery.records import Failure, Hit

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


class MergedSearch:
    """Several engines as one. Threads may share an object, and questions should.

    `tiers` are asked in order until one of them finds something; the engines of a tier are asked
    at the same time, and their results merged. An engine that says how long it wants to be left
    alone is waited for, if that is no longer than LONGEST_WAIT, and asked once more; it is else
    passed over, and not asked again before the time that it named (or BLOCKED_SECONDS) is up.
    `wait` sleeps for so many seconds, `clock` is a moment in seconds.
    """

    def __init__(
        self,
        name: str,
        tiers: Sequence[Sequence[SearchEngine]],
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.tiers = tiers
        self._wait = wait
        self._clock = clock
        self._resting_until: dict[str, float] = {}
        self._lock = threading.Lock()

    def search_web(self, fetcher: Fetcher, query: str, k: int) -> SearchResults:
        """Return at most k results, and a failure for each engine that was passed over.

        Raises Failed where no engine answered at all.
        """
        failures: list[Failure] = []
        answered = False
        for tier in self.tiers:
            rankings = []
            with ThreadPoolExecutor(len(tier)) as threads:
                for found in threads.map(lambda one: self._ask(one, fetcher, query, k), tier):
                    if isinstance(found, Failure):
                        failures.append(found)
                    else:
                        rankings.append(found)
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
        resting = self._resting_until.get(engine.name, 0.0) - self._clock()
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
                self._wait(seconds)
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
                self._resting_until[name] = self._clock() + seconds


def make_auto_search(named: Sequence[SearchEngine] = ()) -> MergedSearch:
    """Return the search by what is configured, then by DuckDuckGo, then by Wikipedia.

    Configured are the engines `named`, and Brave and Google where BRAVE_API_KEY, or GOOGLE_API_KEY
    and GOOGLE_CSE_ID, are set in the environment; they are asked together.
    """
    configured = list(named)
    if os.environ.get("BRAVE_API_KEY", "").strip():
        configured.append(make_brave_engine())
    if all(os.environ.get(name, "").strip() for name in ("GOOGLE_API_KEY", "GOOGLE_CSE_ID")):
        configured.append(make_google_engine())
    tiers = [configured, [make_duckduckgo_engine()], [make_wikipedia_engine()]]
    return MergedSearch("auto", [tier for tier in tiers if tier])


def merge_hits(rankings: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Merge ranked results by reciprocal rank fusion; each page once, by its canonical address.

    A page is shown as the engine shows it that ranks it best, of equals the first.
    """
    scores: dict[str, float] = {}
    best: dict[str, tuple[int, Hit]] = {}
    for ranking in rankings:
        found: set[str] = set()
        for rank, hit in enumerate(ranking, 1):
            address = canonicalize_address(hit.url)
            if address in found:
                continue
            found.add(address)
            scores[address] = scores.get(address, 0.0) + 1 / (FUSION_CONSTANT + rank)
            if address not in best or rank < best[address][0]:
                best[address] = rank, hit
    return [best[address][1] for address in sorted(best, key=lambda one: -scores[one])]


def canonicalize_address(url: str) -> str:
    """Return what two addresses of one page have in common, for comparing and not for opening.

    Scheme, `www.`, the scheme's port, a last slash, the fragment and parameters that only tell
    where a visitor came from are left out.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    host = (parts.hostname or "").removeprefix("www.").rstrip(".")
    query = urlencode(
        [
            pair
            for pair in parse_qsl(parts.query, keep_blank_values=True)
            if not _TRACKING.fullmatch(pair[0])
        ]
    )
    where = host if port in (None, 80, 443) else f"{host}:{port}"
    return where + parts.path.rstrip("/") + (f"?{query}" if query else "")

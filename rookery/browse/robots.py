"""What a site asks of robots: its robots.txt (RFC 9309), and not to be asked too often.

It knows neither how a file is fetched (a function does that) nor what a page is.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from protego import Protego

from rookery.browse.network import Target, left
from rookery.browse.outcomes import FetchError

ReadText = Callable[[str, float], str]
"""the text at a URL, had before a moment of time.monotonic(); raises FetchError"""

DAY = 24 * 3600.0
"""seconds for which rules may be kept (RFC 9309, section 2.4)"""

AGAIN = 60.0
"""seconds after which a robots.txt that could not be had is tried again"""

SITES = 1000
"""sites whose rules are kept at once"""

NO_ANSWER = frozenset({"timed_out", "unresolved", "refused", "tls_failed", "blocked_address"})
"""outcomes that the page itself would meet too, and that say more than "robots" does"""


class Rules(NamedTuple):
    """What one site permits."""

    parsed: Protego | None
    """None: nothing may be fetched"""
    why: str = ""


class _Site:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rules: Rules | None = None
        self.until = 0.0


class Robots:
    """The robots.txt of every site that is asked about, each read once a day at most."""

    def __init__(self, read: ReadText, user_agent: str) -> None:
        self._read = read
        self._token = product(user_agent)
        self._sites: dict[str, _Site] = {}
        self._lock = threading.Lock()

    def check(self, target: Target, until: float) -> float:
        """Seconds that the site wants between two requests, where it permits this one.

        Raises FetchError: robots where it does not, timed_out after `until`.
        """
        rules = self._rules(target, until)
        if rules.parsed is None:
            raise FetchError("robots", rules.why)
        if not rules.parsed.can_fetch(target.url, self._token):
            detail = f"robots.txt of {target.origin} forbids it to {self._token}; ask its owner"
            raise FetchError("robots", detail)
        return rules.parsed.crawl_delay(self._token) or 0.0

    def _rules(self, target: Target, until: float) -> Rules:
        site = self._site(target.origin)
        if not site.lock.acquire(timeout=left(until) or 0.0):
            raise FetchError("timed_out", f"robots.txt of {target.origin} did not come in time")
        try:
            if site.rules is None or site.until < time.monotonic():
                site.rules = self._fetched(target.origin, until)
                site.until = time.monotonic() + (AGAIN if site.rules.parsed is None else DAY)
            return site.rules
        finally:
            site.lock.release()

    def _site(self, origin: str) -> _Site:
        with self._lock:
            site = self._sites.pop(origin, None) or _Site()
            self._sites[origin] = site  # the last one asked about is the last one dropped
            if len(self._sites) > SITES:
                del self._sites[next(iter(self._sites))]
            return site

    def _fetched(self, origin: str, until: float) -> Rules:
        try:
            text = self._read(f"{origin}/robots.txt", until)
        except FetchError as error:
            if error.outcome in NO_ANSWER:
                raise
            if permits_all(error.outcome):
                return Rules(Protego.parse(""))
            why = f"robots.txt of {origin} could not be had ({error.outcome}); try again later"
            return Rules(None, why)
        return Rules(Protego.parse(concerning(text, self._token)))


def permits_all(outcome: str) -> bool:
    """Whether a robots.txt that failed so counts as absent (RFC 9309, section 2.3.1.3).

    Client errors do, and endless redirects; a server that is overloaded (429) or broken (5xx) or
    breaks off has not said yes.
    """
    absent = outcome.startswith(("http_3", "http_4")) and outcome != "http_429"
    return absent or outcome in ("too_many_redirects", "unsupported_scheme", "invalid_url")


def product(user_agent: str) -> str:
    """The name by which robots.txt may speak of this robot: "rookery" of "rookery/0.1 (...)"."""
    found = re.match(r"[A-Za-z_-]+", user_agent.strip())
    return found[0].lower() if found else "*"


AGENT = re.compile(r"\s*user[ -]?agent\s*[:\s]\s*([^#]*)", re.IGNORECASE)


def concerning(text: str, token: str) -> str:
    """A robots.txt with all robots that are neither `token` nor * under one name.

    The parser keeps every rule once for each robot that it is for: some thousand names before
    some thousand rules would take gigabytes.
    """
    lines = []
    for line in text.splitlines():
        agent = AGENT.match(line)
        name = agent[1].strip().lower() if agent else ""
        others = agent is not None and name != "*" and product(name) != token
        lines.append("User-agent: another" if others else line)
    return "\n".join(lines)


class Turns:
    """So many requests to one host at a time, and no closer together than it asks."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._lock = threading.Lock()
        self._places: dict[str, threading.BoundedSemaphore] = {}
        self._next: dict[str, float] = {}

    @contextmanager
    def turn(self, host: str, delay: float, until: float) -> Iterator[None]:
        """Waits for a place and for `delay` seconds since the last start; holds the place.

        Raises FetchError (timed_out) where that would be after `until`.
        """
        with self._lock:
            place = self._places.setdefault(host, threading.BoundedSemaphore(self._at_once))
        if not place.acquire(timeout=left(until) or 0.0):
            raise FetchError("timed_out", f"other requests to {host} took all the time")
        try:
            self._wait(host, delay, until)
            yield
        finally:
            place.release()

    def _wait(self, host: str, delay: float, until: float) -> None:
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next.get(host, now)) if delay else now
            if start > until:
                raise FetchError("timed_out", f"{host} wants {delay:g} seconds between requests")
            self._next[host] = start + delay
        time.sleep(start - now)

"""Searches and pages that many sessions ask for at once, each answered in time or given up.

It knows nothing of what sessions do with their answers, nor of what recordings keep.
"""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import NoReturn, TypeVar

from rookery.browse.browser import Reply, Request, Searching, answered
from rookery.records import Failed, Failure, Hit, Library, Page

T = TypeVar("T")
LEFT_BEHIND = 256
"""threads with requests that have been given up and do not end; beyond that none is begun"""
Event = Callable[[], None]
"""what a thread wants done in the thread that the sessions run in"""
Noted = Callable[[Library], Library]
"""the same library, whose answers a recording notes"""


class Requests:
    """What is asked and not answered yet, one request a session at most.

    `answer(session, reply)` is called in the thread that calls this: by an event, or at once.
    """

    def __init__(
        self,
        seconds: float,
        events: SimpleQueue[Event],
        answer: Callable[[int, Reply], None],
    ) -> None:
        self._seconds = seconds
        self._events = events
        self._answer = answer
        self._asked: dict[int, _Asked] = {}  # the longest under way first
        self._waiting: SimpleQueue[_Asked | None] = SimpleQueue()
        self._threads = 0
        self._free = 0  # threads that wait for a request
        self._late = 0  # threads whose answer nobody waits for

    def ask(self, session: int, request: Request, library: Library, noted: Noted) -> None:
        """Asks the library in a thread that nothing else waits for, since it may take for ever."""
        asked = _Asked(session, request, library, noted, time.monotonic() + self._seconds)
        if self._late >= LEFT_BEHIND:
            self._give_up(asked, f"{self._late} requests before this one have come to no end")
            return
        self._asked[session] = asked
        self._waiting.put(asked)
        if self._free:
            self._free -= 1
        else:
            self._threads += 1
            threading.Thread(target=self._run, name="rollouts: request", daemon=True).start()

    def close(self) -> None:
        """Lets every thread end, as soon as the library lets it."""
        for _ in range(self._threads):
            self._waiting.put(None)

    def patience(self) -> float | None:
        """Seconds until `give_up_late` will find something; None while nothing is asked."""
        first = next(iter(self._asked.values()), None)
        return None if first is None else max(first.until - time.monotonic(), 0.0)

    def give_up_late(self) -> None:
        """Answers the requests whose time is up in their library's place."""
        now = time.monotonic()
        for asked in [asked for asked in self._asked.values() if asked.until <= now]:
            del self._asked[asked.session]
            if asked.settle():
                self._late += 1
                self._give_up(asked, f"not here after {self._seconds:g} seconds; allow more time")

    def _run(self) -> None:
        while (asked := self._waiting.get()) is not None:
            try:
                reply = answered(asked.noted(_InTime(asked)), asked.request)
                self._events.put(partial(self._arrive, asked.session, reply))
            except _TooLate:
                self._events.put(self._come_late)
            except BaseException as error:  # SystemExit, say
                self._events.put(partial(raise_, error))

    def _arrive(self, session: int, reply: Reply) -> None:
        self._free += 1
        self._asked.pop(session, None)
        self._answer(session, reply)

    def _come_late(self) -> None:
        self._free += 1
        self._late -= 1

    def _give_up(self, asked: "_Asked", why: str) -> None:
        request = asked.request
        what = request.query if isinstance(request, Searching) else request.url
        late = _Late(Failure(what, "timed_out", why))
        self._answer(asked.session, answered(asked.noted(late), request))


class _Asked:
    """A request under way."""

    def __init__(
        self, session: int, request: Request, library: Library, noted: Noted, until: float
    ) -> None:
        self.session = session
        self.request = request
        self.holdings = library
        self.noted = noted
        self.until = until
        self._unanswered = threading.Lock()

    def settle(self) -> bool:
        """Whether the one who calls this is the first to do so, and so the one who answers."""
        return self._unanswered.acquire(blocking=False)


class _TooLate(BaseException):
    """Nobody waits for this answer any more. No Exception, so that no recording notes it."""


class _InTime:
    """The library of one request, whose answer counts only if nobody has answered before."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def search(self, query: str, k: int) -> Sequence[Hit]:
        return self._first(partial(self._asked.holdings.search, query, k))

    def fetch(self, url: str) -> Page:
        return self._first(partial(self._asked.holdings.fetch, url))

    def _first(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        finally:  # whatever came of it, be it a failure
            if not self._asked.settle():
                raise _TooLate


class _Late:
    """A library whose time is up."""

    def __init__(self, failure: Failure) -> None:
        self._failure = failure

    def search(self, query: str, k: int) -> NoReturn:
        raise Failed(self._failure)

    def fetch(self, url: str) -> NoReturn:
        raise Failed(self._failure)


def raise_(error: BaseException) -> None:
    """Raises it: the event for what a thread cannot deal with."""
    raise error

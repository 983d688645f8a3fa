"""Sessions of people who demonstrate in the text browser, rebuilt from their stored events, so that
every process comes to the same session.

Each event is on disk before anybody sees its effect. Sessions in memory are only a cache: the
number of stored events says whether one is current.

Pages and search results are fetched by jobs in the background. A job that dies with its process is
started again by the next visit, because the session's journal records the action that still needs
its result.
"""

import logging
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import msgspec
from sqlalchemy import select

from rookery.answers.answer_session import EvidenceSources
from rookery.browser.browser import BrowserReply, answer_request
from rookery.browser.browser_commands import BrowserTask
from rookery.desk import labelling_queue
from rookery.desk.store import Store, append_event, load_stored_page, read_events, store_page
from rookery.desk.tables import judgements, leases
from rookery.errors import Failed, Outcome
from rookery.records import Failure, Library, Record, prepare_type
from rookery.settings import Settings
from rookery.shell.browser_session import BrowserSession, LiveSessions, ReplyEvent, SessionEvent
from rookery.shell.languages import mark_text

_LOG = logging.getLogger("rookery.desk")

MAX_CACHED_SESSIONS = 32
"""maximum number of sessions that one process keeps in memory"""
T = TypeVar("T")


class StoredPageReply(Record, frozen=True, tag="Given"):
    """Event: the library returned a page, stored among the kept pages under this key."""

    key: str


_EVENT_DECODER = msgspec.json.Decoder(prepare_type(SessionEvent | StoredPageReply))


class StaleSessionError(Exception):
    """The session has changed since: in another tab or another process."""


class DemonstrationKey(NamedTuple):
    """An item and the person who demonstrates it: the key of a session."""

    item: str
    person: str

    @property
    def stream(self) -> str:
        """Name of the stream that holds its events."""
        return f"demonstration:{self.item}:{self.person}"


class DemonstrationStatus(NamedTuple):
    """The last lease of an item to a person, and what they handed in last."""

    token: str
    """token of the last lease"""
    began: float
    """Unix time at which the lease began"""
    judgement: str
    """id of the judgement handed in last; empty if there is none"""
    kind: str
    """kind of that judgement ("done", "extra", "skipped", "flagged"), or empty"""


class DemonstrationSession:
    """The browser session of one demonstration, as far as its events were applied."""

    def __init__(self, place: DemonstrationKey, task: BrowserTask) -> None:
        self.key = place
        self.event_count = 0
        """Number of events applied."""
        self.browser_session = BrowserSession(task)
        self.invalid = False
        """True if it holds changes that were not stored; no thread may use it then."""
        self.lock = threading.RLock()


class DemonstrationStore:
    """The demonstration sessions of a store, shared by the threads of one process.

    Raises Failed as the store does.
    """

    def __init__(self, store: Store, most: int = MAX_CACHED_SESSIONS) -> None:
        self._store = store
        self._sessions = LiveSessions[DemonstrationSession](most, math.inf)

    @contextmanager
    def open_session(self, place: DemonstrationKey) -> Iterator[DemonstrationSession]:
        """Yield the session, brought up to date with the stored events. Raises Failed (no_item).

        No other thread of this process changes it meanwhile.
        """
        while True:
            work = self._get_session(place)
            with work.lock:
                if work.invalid:
                    continue
                self._replay_new_events(work)
                yield work
                return

    def change_session(
        self, place: DemonstrationKey, event_count: int, change: Callable[[BrowserSession], T]
    ) -> T:
        """Run `change` on a session and store the new events before returning its result.

        Raises StaleSessionError, and changes nothing, unless the session has exactly `event_count`
        events.
        """
        with self.open_session(place) as work:
            if work.event_count != event_count:
                raise StaleSessionError
            deeds: list[SessionEvent] = []
            ignore, work.browser_session.on_event = work.browser_session.on_event, deeds.append
            try:
                result = change(work.browser_session)
                self._append_events(work, deeds)
            except BaseException:
                self._discard_session(work)
                raise
            work.browser_session.on_event = ignore
            return result

    def find_status(self, place: DemonstrationKey) -> DemonstrationStatus | None:
        """Return the person's last lease of an item and their last judgement of it.

        None if the person never had the item.
        """
        handed_out = (
            select(leases.c.token, leases.c.began)
            .where(leases.c.item == place.item, leases.c.person == place.person)
            .order_by(leases.c.began.desc())
        )
        handed_in = (
            select(judgements.c.id, judgements.c.kind)
            .where(judgements.c.item == place.item, judgements.c.person == place.person)
            .order_by(judgements.c.number.desc())
        )
        with self._store.begin_read() as connection:
            lease = connection.execute(handed_out.limit(1)).first()
            judgement = connection.execute(handed_in.limit(1)).first()
        if lease is None:
            return None
        return DemonstrationStatus(*lease, *(judgement or ("", "")))

    def _get_session(self, place: DemonstrationKey) -> DemonstrationSession:
        if work := self._sessions.find_session(place.person, place.item):
            return work
        item = labelling_queue.load_item(self._store, place.item)
        if item.form != "demonstrate":
            detail = mark_text(
                "this is no question to be answered: go back to the desk's first page"
            )
            raise Failed(Failure(place.item, Outcome.NO_ITEM, detail))
        work = DemonstrationSession(place, BrowserTask(item.question, item.rules, item.start))
        # Of two threads that make one at the same moment, each changes its own: the events decide.
        self._sessions.add_session(place.person, place.item, work)
        return work

    def _discard_session(self, work: DemonstrationSession) -> None:
        work.invalid = True
        self._sessions.close_session(work.key.person, work.key.item)

    def _replay_new_events(self, work: DemonstrationSession) -> None:
        """Apply the events that other processes stored."""
        with self._store.begin_read() as connection:
            bodies = read_events(connection, work.key.stream, work.event_count - 1)
        try:
            for body in bodies:
                event = _EVENT_DECODER.decode(body)
                if isinstance(event, StoredPageReply):
                    event = ReplyEvent(page=load_stored_page(self._store, event.key))
                work.browser_session.replay_event(event)
                work.event_count += 1
        except BaseException:
            self._discard_session(work)
            raise

    def _append_events(self, work: DemonstrationSession, deeds: list[SessionEvent]) -> None:
        if not deeds:
            return
        now = self._store.clock()
        with self._store.begin_write() as connection:
            for number, deed in enumerate(deeds, work.event_count):
                event: SessionEvent | StoredPageReply = deed
                if isinstance(deed, ReplyEvent) and deed.page is not None:
                    event = StoredPageReply(store_page(connection, deed.page))
                place = work.key
                body = event.to_json()
                if append_event(connection, place.stream, place.person, body, now) != number:
                    raise StaleSessionError
        work.event_count += len(deeds)


def make_storable_reply(what: str, reply: BrowserReply) -> BrowserReply:
    """Return the reply, or a Failure if it holds lone surrogates, which cannot be stored."""
    try:
        msgspec.json.encode(reply)
    except UnicodeEncodeError:
        detail = "it holds characters that cannot be kept (lone surrogates)"
        return Failure(what, Outcome.UNREADABLE, detail)
    return reply


def make_closed_error(standing: DemonstrationStatus) -> Failed:
    """Return the error for work that was handed in, skipped or flagged before."""
    detail = mark_text("you handed this in before: look at it in your history")
    if standing.kind == "skipped":
        detail = mark_text("you skipped this task before: go back to the desk's first page")
    if standing.kind == "flagged":
        detail = mark_text("you flagged this task before: go back to the desk's first page")
    return Failed(Failure(standing.judgement, Outcome.ALREADY, detail))


class DeskLibrary:
    """The library of the labelling desk, opened at the first use. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sources: EvidenceSources | None = None
        self._lock = threading.Lock()

    def open_library(self, session: BrowserSession) -> Library:
        """Return the library for one browser session.

        URLs shown to other sessions stay closed to it. Raises Failed if the library cannot be
        opened.
        """
        sources = self._open_sources()
        return sources.open_library_for_question(session.task.start, session.list_shown_urls())

    def _open_sources(self) -> EvidenceSources:
        with self._lock:
            if self._sources is None:
                self._sources = EvidenceSources(self._settings)
            return self._sources

    def close(self) -> None:
        """Close the library if it is open; the next use opens it anew."""
        with self._lock:
            if self._sources is not None:
                self._sources.close()
                self._sources = None


class FetchJobs:
    """The fetch jobs of this process, each in a thread of its own."""

    def __init__(self, sessions: DemonstrationStore, library: DeskLibrary) -> None:
        self.sessions = sessions
        self.library = library
        self._lock = threading.Lock()
        self._running: dict[tuple[DemonstrationKey, int], threading.Event] = {}
        self._failures: dict[DemonstrationKey, str] = {}

    def run(self, place: DemonstrationKey, number: int, wait: float) -> None:
        """Fetch the pending result of a browser session at event `number`, in a thread.

        Waits for it at most `wait` seconds; the job goes on after that, and stores the result in
        the session. A job that is running already is waited for, not started twice. Nothing is
        raised: `explain_failure` has the reason.
        """
        key = (place, number)
        with self._lock:
            finished = self._running.get(key)
            if finished is None:
                finished = self._running[key] = threading.Event()
                threading.Thread(target=self._fetch, args=(key, finished), daemon=True).start()
        finished.wait(wait)

    def explain_failure(self, place: DemonstrationKey) -> str:
        """Return the reason why the last job of a session failed; empty if it did not."""
        return self._failures.get(place, "")

    def _fetch(self, key: tuple[DemonstrationKey, int], finished: threading.Event) -> None:
        place, number = key
        try:
            self._fetch_and_record(place, number)
            self._failures.pop(place, None)
        except StaleSessionError:
            self._failures.pop(place, None)
        except Failed as failed:
            self._failures[place] = failed.failure.detail or failed.failure.outcome
        except Exception:  # no caller: the next visit shows the message
            _LOG.exception("%s", place.stream)
            self._failures[place] = mark_text("something went wrong here, not with you")
        finally:
            with self._lock:
                del self._running[key]
            finished.set()

    def _fetch_and_record(self, place: DemonstrationKey, number: int) -> None:
        with self.sessions.open_session(place) as work:
            wanted = work.browser_session.pending_request
            if work.event_count != number or wanted is None:
                raise StaleSessionError
            library = self.library.open_library(work.browser_session)
        reply = make_storable_reply(wanted[0], answer_request(library, wanted))
        self.sessions.change_session(place, number, lambda session: session.accept_reply(reply))

"""Questions answered beside the pages: asked, worked on by a few threads, heard while it happens.

What is asked is in the store before anything else, and so is what happens; so any worker can show
it, and takes over what another has left. It knows nothing of pages in HTML nor of conventions.
"""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from rookery.browse.archive import Archive
from rookery.draft.batch import cores
from rookery.judge.store import Store
from rookery.records import Failed, Failure, Library, Page, Quote, digest_of
from rookery.serve.exits import MISTAKES
from rookery.serve.session import ARCHIVE, Settings, data_home
from rookery.serve.web import asked
from rookery.serve.web.domains import Within
from rookery.serve.web.libraries import Gone, Hear, Readings
from rookery.serve.web.live import Live
from rookery.serve.web.wanted import (
    Answered,
    Event,
    Kind,
    Offers,
    Wanted,
    offers,
    question_of,
    settings_for,
)

_LOG = logging.getLogger("rookery.reading")
BROKEN = "something went wrong here, not with you: ask again"
UNREADY = "this server is not set up for that: choose otherwise, or tell whoever runs it"
BUSY = "many are asking just now: try again in a moment"


class Pace(msgspec.Struct, frozen=True):
    """How much is done at once, and how long things take."""

    workers: int = 8
    """questions that are answered at the same time; of those by words alone, as many as there are
    cores"""
    waiting: int = 1000
    """questions that may wait; more are refused"""
    lease: float = 15.0
    """seconds after the last sign of a worker when another begins anew"""
    flush: float = 0.2
    """seconds in which what happens is written down at the latest, and looked for by others"""
    look: float = 1.0
    """seconds after which what another worker has left is looked for"""


class Answering:
    """Answers questions for a store. Made with the application; `start` and `close` frame it."""

    def __init__(self, store: Store, settings: Settings, pace: Pace = Pace()) -> None:
        self.store = store
        self.offers: Offers = offers(settings)
        self.pace = pace
        self._settings = settings
        self._readings = Readings()
        self._archive: Archive | None = None
        self._room = threading.BoundedSemaphore(pace.workers)
        self._cores = threading.BoundedSemaphore(cores())
        self._waiting: queue.Queue[str] = queue.Queue()
        self._queued: set[str] = set()
        self._live: dict[str, Live] = {}
        self._turn = threading.Lock()
        self._crowd = 0
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()

    def start(self) -> None:
        """Begins to work, first on what was left by others. Once is enough."""
        with self._turn:
            if self._threads or self._closing.is_set():
                return
            work = [(self._work, f"answers: {n}") for n in range(self.pace.workers)]
            for target, name in [*work, (self._keep, "answers: keeper")]:
                thread = threading.Thread(target=target, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        self._look(later=0)

    def close(self, grace: float = 5.0) -> None:
        """Takes on nothing more, finishes what is under way within `grace` seconds, and returns
        the rest to the store for another worker."""
        self._closing.set()
        deadline = time.monotonic() + grace
        while self._live and time.monotonic() < deadline:
            time.sleep(0.02)
        for live in list(self._live.values()):
            live.leave()
            self._safely(partial(asked.give_back, self.store, live.taken))
        for thread in self._threads:
            thread.join(max(0.5, deadline - time.monotonic()))
        self._readings.close()
        if self._archive:
            self._archive.close()

    def offer(self, name: str, place: str) -> None:
        """Offers one place more, or reads a place that changed anew for the next question."""
        places = {**self.offers.places, name: place}
        self.offers = msgspec.structs.replace(self.offers, places=places)
        self._readings.renew(place)

    def ask(self, wanted: Wanted, by: str) -> str:
        """Keeps a question of a person and has it answered; the answer's id. Raises Failed:
        bad_question, unknown_..., bad_..., busy, and as the store does."""
        settings_for(self._settings, self.offers, wanted)
        question = question_of(wanted, "")
        if self._waiting.qsize() >= self.pace.waiting:
            raise Failed(Failure("the question", "busy", BUSY))
        answer = asked.ask(self.store, wanted, question.text, by)
        self.start()
        self._enqueue(answer)
        return answer

    def now(
        self,
        wanted: Wanted,
        hear: Hear = lambda kind, data: None,
        gone: Callable[[], bool] = lambda: False,
    ) -> Answered:
        """The answer at once, in this thread and kept nowhere. `hear` is told what happens; as soon
        as `gone` says so, work ends with Gone. Raises Failed as `ask` does, and as answering does.
        """
        settings_for(self._settings, self.offers, wanted)
        question_of(wanted, "")

        def heard(kind: Kind, data: dict[str, Any]) -> None:
            if gone():
                raise Gone
            hear(kind, data)

        with self._turn:
            if self._crowd >= self.pace.waiting:
                raise Failed(Failure("the question", "busy", BUSY))
            self._crowd += 1
        try:
            while not self._room.acquire(timeout=0.1):
                if gone():
                    raise Gone
            try:
                return self._read(wanted, heard)
            finally:
                self._room.release()
        finally:
            with self._turn:
                self._crowd -= 1

    @contextmanager
    def holdings(self, wanted: Wanted) -> Iterator[Library]:
        """The library that this would be answered from. Raises Failed (unknown_place), and as
        opening it does."""
        with self._readings.using(settings_for(self._settings, self.offers, wanted)) as reading:
            shelf = reading.holdings.shelf()
            yield Within(shelf, wanted.domains) if wanted.domains else shelf

    def find(self, answer: str) -> asked.Asked:
        """The answer as it stands. Raises Failed (no_answer)."""
        return asked.find(self.store, answer)

    def events(self, answer: str, after: int = -1) -> list[Event]:
        """What happened after the event of this number, as far as it is known here."""
        live = self._here(answer)
        return live.after(after) if live else asked.told(self.store, answer, after)

    def wait(self, answer: str, after: int, seconds: float) -> list[Event]:
        """The same as soon as there is anything; nothing after so many seconds."""
        deadline = time.monotonic() + seconds
        while not (found := self.events(answer, after)):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            live = self._here(answer)
            if live:
                live.wait(after, min(left, 1.0))
            else:
                time.sleep(min(left, self.pace.flush))
        return found

    async def awaited(self, answer: str, after: int, seconds: float) -> list[Event]:
        """As `wait`, holding no thread while nothing happens."""
        deadline = time.monotonic() + seconds
        while True:
            live = self._here(answer)
            ear = live.listen() if live else None
            try:
                found = (
                    live.after(after)
                    if live
                    else await run_in_threadpool(asked.told, self.store, answer, after)
                )
                left = deadline - time.monotonic()
                if found or left <= 0:
                    return found
                if ear is None:
                    await self._soon(answer, min(left, self.pace.flush))
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(ear.wait(), min(left, 1.0))
            finally:
                if live and ear:
                    live.unlisten(ear)

    async def _soon(self, answer: str, seconds: float) -> None:
        """So long; but of what waits for a thread here, only until one has taken it up."""
        if answer not in self._queued:
            await asyncio.sleep(seconds)
        until = time.monotonic() + seconds
        while answer in self._queued and not self._here(answer) and time.monotonic() < until:
            await asyncio.sleep(0.02)

    def page(self, quote: Quote) -> Page | None:
        """The version of its page that a quote was cut from, from the archive."""
        with self._turn:
            if self._archive is None:
                self._archive = Archive(data_home() / ARCHIVE)
        return self._archive.page(quote.digest, quote.url) or self._archive.page(quote.digest)

    def cancel(self, answer: str) -> bool:
        """Ends an answer that is not over, whoever works on it; whether it was not."""
        cancelled = asked.cancel(self.store, answer)
        if live := self._live.get(answer):
            live.leave()
        return cancelled

    def _here(self, answer: str) -> Live | None:
        """The answer, where this process is at work on it."""
        live = self._live.get(answer)
        return None if live is None or live.left else live

    # The workers

    def _enqueue(self, answer: str) -> None:
        with self._turn:
            if answer in self._queued or answer in self._live:
                return
            self._queued.add(answer)
        self._waiting.put(answer)

    def _work(self) -> None:
        while not self._closing.is_set():
            try:
                answer = self._waiting.get(timeout=self.pace.flush)
            except queue.Empty:
                continue
            if not self._closing.is_set():
                with self._room:
                    self._safely(partial(self._one, answer))
            with self._turn:
                self._queued.discard(answer)

    def _one(self, answer: str) -> None:
        """One answer, if it is to be had, from its beginning to its end."""
        taken = asked.take(self.store, answer, self.pace.lease)
        if taken is None:
            return
        live = self._live[answer] = Live(self.store, taken, self.pace.lease)
        try:
            live.hear("begun", {"again": taken.after > 0})
            live.finish(self._read(taken.wanted, live.hear))
        except Gone:
            pass
        except Failed as failed:
            _LOG.warning("%s: %s", answer, failed)
            mistaken = failed.failure.outcome in MISTAKES  # of the one who started the server
            detail = UNREADY if mistaken else failed.failure.detail
            live.fail(failed.failure.outcome, detail)
        except Exception:  # one question must not end the others
            _LOG.exception("%s", answer)
            live.fail("broken", BROKEN)
        finally:
            del self._live[answer]
            live.leave()

    def _read(self, wanted: Wanted, hear: Hear) -> Answered:
        settings = settings_for(self._settings, self.offers, wanted)
        question = question_of(wanted, "")
        named = msgspec.structs.replace(question, id=digest_of(question.text))
        # More at once would only keep each other, and the pages, waiting.
        turn = nullcontext() if settings.models else self._cores
        with self._readings.using(settings) as reading, turn:
            return reading.read(named, hear, wanted.domains)

    def _keep(self) -> None:
        """Writes down what happened, keeps leases alive, looks for what others have left."""
        looked = beaten = time.monotonic()
        while not self._closing.wait(self.pace.flush) or self._live:
            now = time.monotonic()
            beat = now - beaten > self.pace.lease / 3
            for live in list(self._live.values()):
                self._safely(partial(live.flush, beat))
            beaten = now if beat else beaten
            if now - looked > self.pace.look and not self._closing.is_set():
                self._look(later=self.pace.look)
                looked = now
            if self._closing.is_set():
                time.sleep(0.02)

    def _look(self, later: float) -> None:
        self._safely(partial(self._enqueue_left, later))

    def _enqueue_left(self, later: float) -> None:
        for answer in asked.waiting(self.store, later):
            self._enqueue(answer)

    def _safely(self, what: Callable[[], object]) -> None:
        """What goes wrong with the store is told in the log; it is tried again."""
        try:
            what()
        except Failed as failed:
            _LOG.error("%s", failed)
        except Exception:
            _LOG.exception("the store")


def answering_of(request: Request) -> Answering:
    """The one of the application that was asked."""
    answering: Answering = request.app.state.answering
    return answering

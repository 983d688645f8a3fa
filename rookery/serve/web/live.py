"""One answer while it is made: what happened, who listens, and what is still to be written down.

It knows nothing of how an answer is made.
"""

import asyncio
import threading
import time
from typing import Any

import msgspec

from rookery.judge.store import Store
from rookery.records import Failed
from rookery.serve.web import asked
from rookery.serve.web.asked import Taken
from rookery.serve.web.libraries import Gone
from rookery.serve.web.wanted import Answered, Event, Kind

OFTEN = 0.15
"""seconds between two events that tell how far a text has come"""
PATIENCE = (0.0, 0.5, 2.0)
"""seconds before each try to keep what came of it"""
Told = list[tuple[Kind, Any]]


class Live:
    """An answer in the hands of this worker."""

    def __init__(self, store: Store, taken: Taken, lease: float) -> None:
        self.taken = taken
        self._store = store
        self._lease = lease
        self._events: list[Event] = []
        self._pending: Told = []
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._ears: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._wrote = 0.0
        self.left = False
        """whether the work is over, or was given up"""

    def hear(self, kind: Kind, data: dict[str, Any]) -> None:
        """Takes in what happened. Raises Gone where nobody waits for more."""
        if self.left:
            raise Gone
        if kind == "writing":
            now = time.monotonic()
            if now - self._wrote < OFTEN:
                return
            self._wrote = now
        self._add([(kind, data)])

    def after(self, number: int) -> list[Event]:
        """The events after this number; those of workers before come from the store."""
        first = self.taken.after + 1
        with self._changed:
            here = self._events[max(0, number + 1 - first) :]
        if number + 1 >= first:
            return here
        before = asked.told(self._store, self.taken.id, number)
        return [event for event in before if event.number < first] + here

    def wait(self, number: int, seconds: float) -> None:
        """Until there is an event after this number, or the work is over."""
        with self._changed:
            self._changed.wait_for(lambda: self.left or self._newest() > number, seconds)

    def listen(self) -> asyncio.Event:
        """Is set when anything happens from now on."""
        ear = asyncio.Event()
        with self._changed:
            self._ears.add((asyncio.get_running_loop(), ear))
        return ear

    def unlisten(self, ear: asyncio.Event) -> None:
        """Forgets it."""
        with self._changed:
            self._ears = {each for each in self._ears if each[1] is not ear}

    def leave(self) -> None:
        """Whoever works on it is to stop; whoever listens looks again."""
        with self._changed:
            self.left = True
            self._tell_all()

    def flush(self, beat: bool = False) -> None:
        """Writes down what is not yet, and keeps the lease. Raises Failed as the store does."""
        with self._writing:
            with self._changed:
                told = self._pending
                self._pending = []
            if not (told or beat) or self.left:
                return
            try:
                mine = asked.tell(self._store, self.taken, told, self._lease)
            except BaseException:
                with self._changed:
                    self._pending = told + self._pending
                raise
        if not mine:
            self.leave()

    def finish(self, answered: Answered) -> None:
        """Keeps what came of it, and tells its quotes and its end."""
        answer, told = answered.episode.answer, Told()
        for number, verdict in enumerate(answered.verdicts, 1):
            quote = {**msgspec.to_builtins(verdict), "number": number}
            told.append(("quote", quote))
        if answer is None:
            why = "; ".join(failure.detail for failure in answered.episode.failures[:1])
            told.append(("stopped", {"outcome": answered.episode.stop, "detail": why}))
        else:
            told.append(("declined" if answer.declined else "answered", {"text": answer.text}))
        self._end(answered, told)

    def fail(self, outcome: str, detail: str) -> None:
        """Keeps that there is no answer, and why."""
        self._end(None, [("stopped", {"outcome": outcome, "detail": detail})])

    def _end(self, answered: Answered | None, told: Told) -> None:
        """First into the store, so that whoever hears of the end finds the answer there."""
        with self._writing:
            for seconds in PATIENCE:
                time.sleep(seconds)
                try:
                    kept = asked.finish(self._store, self.taken, answered, self._pending + told)
                    break
                except Failed:
                    if seconds == PATIENCE[-1]:
                        raise
            with self._changed:
                self._pending = []
        if kept:
            self._add(told, pending=False)

    def _add(self, told: Told, pending: bool = True) -> None:
        with self._changed:
            for kind, data in told:
                self._events.append(Event(self._newest() + 1, kind, data))
            if pending:
                self._pending += told
            self._tell_all()

    def _newest(self) -> int:
        return self.taken.after + len(self._events)

    def _tell_all(self) -> None:
        self._changed.notify_all()
        for loop, ear in self._ears:
            try:
                loop.call_soon_threadsafe(ear.set)
            except RuntimeError:  # its server is gone, and whoever listened with it
                continue

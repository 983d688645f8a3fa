"""One library for all who are answered from it at once, and one session for each way to answer.

It tells whoever asked what is searched and opened for them. It knows nothing of stores and pages.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from rookery.browse.places import engine_named
from rookery.browse.web import Web
from rookery.cite.rank import Similarity
from rookery.cite.verify import verify
from rookery.records import Episode, Failed, Hit, Library, Page, Question
from rookery.serve.models import ModelSettings
from rookery.serve.session import Session, Settings
from rookery.serve.web.domains import Within
from rookery.serve.web.wanted import Answered, Kind

Hear = Callable[[Kind, dict[str, Any]], None]
"""is told what happens; may raise Gone"""


class Gone(Exception):
    """Nobody waits for the answer any longer, or it is another worker's."""


class Told:
    """A library whose searches and pages are told, before and after."""

    def __init__(self, library: Library, hear: Hear) -> None:
        self._library = library
        self._hear = hear

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """What the library finds."""
        self._hear("searching", {"query": query})
        try:
            hits = self._library.search(query, k)
        except Failed as failed:
            self._hear("failed", msgspec.to_builtins(failed.failure))
            raise
        titles = {hit.url: hit.title for hit in hits}
        found = [{"url": url, "title": title} for url, title in titles.items()]
        self._hear("found", {"query": query, "hits": found})
        return hits

    def fetch(self, url: str) -> Page:
        """The page that the library has at this address."""
        self._hear("opening", {"url": url})
        try:
            page = self._library.fetch(url)
        except Failed as failed:
            self._hear("failed", msgspec.to_builtins(failed.failure))
            raise
        self._hear("opened", {"url": url, "title": page.title, "chars": len(page.text)})
        return page


class Holdings(Session):
    """A library and its ranker, opened once for many."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._opening = threading.Lock()

    def shelf(self) -> Library:
        """The library for one question. What is shown for others opens nothing to it."""
        with self._opening:
            library = self.open_library()
        if not isinstance(library, Web):
            return library
        engine = engine_named(self.settings.engine)
        return Web(engine, self.archive, self.fetcher(), self.settings.offline)

    def similarity(self) -> Similarity | None:
        """What ranks, where a model for that is installed."""
        with self._opening:
            return self._ranker()


class Reading(Session):
    """Answers many questions at once in one way, each in a thread of its own."""

    def __init__(self, settings: Settings, holdings: Holdings) -> None:
        super().__init__(settings)
        self.holdings = holdings
        self.users = 0
        self._mine = threading.local()
        self._opening = threading.Lock()
        self._turns = Turns()
        self.heard = lambda said: self._hear("saying", {"command": said})
        self.tell = lambda text: self._hear("writing", {"text": text})

    def read(self, question: Question, hear: Hear, domains: Sequence[str] = ()) -> Answered:
        """The answer, what happens on the way being told. Raises Failed and Gone."""
        self._mine.hear = hear
        self._mine.domains = domains
        try:
            if not self.settings.models:
                return self._checked(self.answer(question))
            with self._opening:  # a model is opened by one alone
                self.models()
                self.calibration()
            with self._turns.alone(question.text):  # what it says is kept by this name
                return self._checked(self.answer(question))
        finally:
            self._mine.hear = None

    def open_library(self) -> Library:
        """The shared library, telling whoever asked in this thread."""
        library = self.holdings.shelf()
        self._skipped = tuple(getattr(library, "failures", ()))
        domains = getattr(self._mine, "domains", ())
        return Told(Within(library, domains) if domains else library, self._hear_now())

    def _ranker(self) -> Similarity | None:
        return self.holdings.similarity()

    def _checked(self, episode: Episode) -> Answered:
        """Each quote against the archive's own copy of its page, not against what answered."""
        if episode.answer is None:
            return Answered(episode, ())
        verdicts = verify(episode.answer, self.archive.find_quoted)
        return Answered(episode, tuple(verdicts))

    def _hear(self, kind: Kind, data: dict[str, Any]) -> None:
        self._hear_now()(kind, data)

    def _hear_now(self) -> Hear:
        hear: Hear | None = getattr(self._mine, "hear", None)
        return hear or (lambda kind, data: None)


class Turns:
    """Of those who come with the same name, one at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._names: set[str] = set()

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Waits for those of this name that came before."""
        with self._changed:
            self._changed.wait_for(lambda: name not in self._names)
            self._names.add(name)
        try:
            yield
        finally:
            with self._changed:
                self._names.remove(name)
                self._changed.notify_all()


class Readings:
    """The sessions that are open, one for each way to answer."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._holdings: dict[Settings, Holdings] = {}
        self._open: dict[Settings, Reading] = {}

    @contextmanager
    def using(self, settings: Settings) -> Iterator[Reading]:
        """The session for these settings; it stays open as long as somebody uses it."""
        with self._turn:
            reading = self._of(settings)
            reading.users += 1
        try:
            yield reading
        finally:
            with self._turn:
                reading.users -= 1
                self._let_go(reading)

    def renew(self, place: str) -> None:
        """What reads this place is opened anew for the next question."""
        with self._turn:
            for settings in [each for each in self._holdings if place in each.places]:
                del self._holdings[settings]
            for settings in [each for each in self._open if place in each.places]:
                self._let_go(self._open.pop(settings))

    def close(self) -> None:
        """Lets go of all that nobody uses."""
        with self._turn:
            self._holdings.clear()
            left, self._open = list(self._open.values()), {}
            for reading in left:
                self._let_go(reading)

    def _of(self, settings: Settings) -> Reading:
        if settings not in self._open:
            plain = msgspec.structs.replace(
                settings, decline=None, method="extract", models=ModelSettings()
            )
            if plain not in self._holdings:
                self._holdings[plain] = Holdings(plain)
            self._open[settings] = Reading(settings, self._holdings[plain])
        return self._open[settings]

    def _let_go(self, reading: Reading) -> None:
        """Closes a session that is used no more, and its library after the last of them."""
        if reading.users or reading in self._open.values():
            return
        reading.__exit__()
        holdings = reading.holdings
        shared = any(each.holdings is holdings for each in self._open.values())
        if not shared and holdings not in self._holdings.values():
            holdings.__exit__()

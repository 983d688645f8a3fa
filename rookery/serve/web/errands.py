"""What sittings want of the library is fetched beside the pages, so that nobody waits for another.

An errand that dies with its process is begun again by the next visit: that it is wanted is kept.
It knows nothing of pages in HTML.
"""

import logging
import threading
from collections.abc import Callable

from rookery.browse.browser import answered
from rookery.browse.places import engine_named, is_url
from rookery.browse.web import Web
from rookery.records import Failed, Library
from rookery.serve.beside import Beside
from rookery.serve.session import Session, Settings
from rookery.serve.sitting import Sitting
from rookery.serve.web.sittings import Moved, Place, Sittings, keepable

_LOG = logging.getLogger("rookery.desk")
LibraryFor = Callable[[Sitting], Library]


class Holdings:
    """The library of the desk, opened at its first use, for many people at once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._session: Session | None = None
        self._turn = threading.Lock()

    def __call__(self, sitting: Sitting) -> Library:
        """The library for one sitting. What others were shown opens nothing to it. Raises Failed
        where the library cannot be opened."""
        with self._turn:
            if self._session is None:
                self._session = Session(self._settings)
            session = self._session
            library = session.open_library()
        start = sitting.task.start
        if not isinstance(library, Web) and not is_url(start):
            return library
        engine = engine_named(self._settings.engine)
        web = Web(engine, session.archive, session.fetcher(), self._settings.offline)
        for url in filter(is_url, (start, *sitting.addresses())):
            web.allow(url)
        return web if isinstance(library, Web) else Beside(library, web)

    def close(self) -> None:
        """Lets go of it."""
        with self._turn:
            if self._session is not None:
                self._session.__exit__()
                self._session = None


class Errands:
    """What is being fetched by this process, each in a thread of its own."""

    def __init__(self, sittings: Sittings, library: LibraryFor) -> None:
        self._sittings = sittings
        self._library = library
        self._turn = threading.Lock()
        self._under_way: dict[tuple[Place, int], threading.Event] = {}
        self._troubles: dict[Place, str] = {}

    def run(self, place: Place, number: int, wait: float) -> None:
        """Fetches what is wanted at a place after so many events, and waits for it as many seconds
        at most."""
        key = (place, number)
        with self._turn:
            done = self._under_way.get(key)
            if done is None:
                done = self._under_way[key] = threading.Event()
                threading.Thread(target=self._fetch, args=(key, done), daemon=True).start()
        done.wait(wait)

    def trouble(self, place: Place) -> str:
        """Why what was wanted last could not be kept, if it could not."""
        return self._troubles.get(place, "")

    def _fetch(self, key: tuple[Place, int], done: threading.Event) -> None:
        place, number = key
        try:
            self._bring(place, number)
            self._troubles.pop(place, None)
        except Moved:
            self._troubles.pop(place, None)
        except Failed as failed:
            self._troubles[place] = failed.failure.detail or failed.failure.outcome
        except Exception:  # this thread has nobody to tell but the next visit
            _LOG.exception("%s", place.stream)
            self._troubles[place] = "something went wrong here, not with you"
        finally:
            with self._turn:
                del self._under_way[key]
            done.set()

    def _bring(self, place: Place, number: int) -> None:
        with self._sittings.at(place) as work:
            wanted = work.sitting.wanted
            if work.number != number or wanted is None:
                raise Moved
            library = self._library(work.sitting)
        reply = keepable(wanted[0], answered(library, wanted))
        self._sittings.change(place, number, lambda work: work.sitting.reply(reply))

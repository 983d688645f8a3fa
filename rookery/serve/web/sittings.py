"""Sittings at the desk, each made of its events, so that any process comes to the same one.

A deed is on disk before anybody is told of it. What is remembered between two visits is only a
shortcut: the number of events says whether it still holds. It knows nothing of HTML and of forms.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import msgspec
from sqlalchemy import select

from rookery.browse.browser import Reply, Views
from rookery.browse.observation import Observation
from rookery.browse.rules import Task
from rookery.browse.window import View
from rookery.judge import events, handout, kept_pages
from rookery.judge.store import Store
from rookery.judge.tables import judgements, leases
from rookery.records import Failed, Failure, Page, Record
from rookery.serve.sitting import Deed, Replied, Said, Sitting, Undone

KEPT = 32
"""sittings of one process that are remembered"""
T = TypeVar("T")


class Given(Record, frozen=True, tag=True):
    """The library gave a page, which is among the kept pages under this key."""

    key: str


_event = msgspec.json.Decoder(Deed | Given)


class Moved(Exception):
    """It has gone on meanwhile, in another tab or another process."""


class Place(NamedTuple):
    """Somebody's work on one item."""

    item: str
    person: str

    @property
    def stream(self) -> str:
        """Where its events are."""
        return f"demonstration:{self.item}:{self.person}"


class Standing(NamedTuple):
    """How a place stands with the hand-out."""

    token: str
    """of the last lease"""
    began: float
    judgement: str
    """the id of what was handed in last; empty: nothing was"""
    kind: str


class Work:
    """A sitting, as far as its events go."""

    def __init__(self, place: Place, task: Task) -> None:
        self.place = place
        self.number = 0
        """how many events there are"""
        self.pages: list[Page] = []
        """all that were opened, in order"""
        self.views = Views()
        self.sitting = Sitting(task, views=self.views)
        self.spoilt = False
        """it shows what is not kept: no thread is to go on with it"""
        self.lock = threading.RLock()

    @property
    def ending(self) -> bool:
        """Whether browsing is over: an answer, or an end without one, is to be handed in."""
        return self.sitting.shown.answering or self.sitting.browsed is not None

    def view(self, shown: Observation | None = None) -> View | None:
        """The page that is shown, now or then, as it is shown; None for results, errors and
        nothing: what cannot be quoted."""
        shown = shown or self.sitting.shown
        for page in reversed(self.pages):
            if (page.digest, page.url) == (shown.digest, shown.url):
                opened = self.views.of(page, self.sitting.task.rules)
                for view in (opened.article, opened.full):
                    if view.window(shown.start).text == shown.text:
                        return view
        return None

    def took(self, deed: Deed) -> None:
        """Counts an event of this sitting."""
        self.number += 1
        if isinstance(deed, Replied) and deed.page is not None:
            self.pages.append(deed.page)


class Sittings:
    """The sittings of one store, for the threads of one process. Raises Failed as the store."""

    def __init__(self, store: Store, most: int = KEPT) -> None:
        self._store = store
        self._most = most
        self._kept: OrderedDict[Place, Work] = OrderedDict()
        self._turn = threading.Lock()

    @contextmanager
    def at(self, place: Place) -> Iterator[Work]:
        """The work at a place as it is now; no other thread of this process changes it meanwhile.
        Raises Failed (no_item)."""
        while True:
            work = self._work(place)
            with work.lock:
                if work.spoilt:
                    continue
                self._catch_up(work)
                yield work
                return

    def change(self, place: Place, seen: int, change: Callable[[Work], T]) -> T:
        """Does something to a sitting that has `seen` events, and keeps it: once this returns, it
        is on disk. Raises Moved where there are more events, and then nothing was done."""
        with self.at(place) as work:
            if work.number != seen:
                raise Moved
            deeds: list[Deed] = []
            work.sitting.keep = deeds.append
            try:
                result = change(work)
                self._keep(work, _lasting(deeds))
            except BaseException:
                self._forget(work)
                raise
            work.sitting.keep = _nobody
            return result

    def standing(self, place: Place) -> Standing | None:
        """How it stands; None where this person never had this item in hand."""
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
        with self._store.reading() as connection:
            lease = connection.execute(handed_out.limit(1)).first()
            judgement = connection.execute(handed_in.limit(1)).first()
        if lease is None:
            return None
        return Standing(*lease, *(judgement or ("", "")))

    def _work(self, place: Place) -> Work:
        with self._turn:
            if work := self._kept.get(place):
                self._kept.move_to_end(place)
                return work
        item = handout.item(self._store, place.item)
        if item.form != "demonstrate":
            detail = "this is no question to be answered: go back to the desk's first page"
            raise Failed(Failure(place.item, "no_item", detail))
        work = Work(place, Task(item.question, item.rules, item.start))
        with self._turn:
            work = self._kept.setdefault(place, work)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return work

    def _forget(self, work: Work) -> None:
        work.spoilt = True
        with self._turn:
            if self._kept.get(work.place) is work:
                del self._kept[work.place]

    def _catch_up(self, work: Work) -> None:
        """Does what other processes did."""
        with self._store.reading() as connection:
            bodies = events.read(connection, work.place.stream, work.number - 1)
        try:
            for body in bodies:
                event = _event.decode(body)
                if isinstance(event, Given):
                    event = Replied(page=kept_pages.page(self._store, event.key))
                work.sitting.done(event)
                work.took(event)
        except BaseException:
            self._forget(work)
            raise

    def _keep(self, work: Work, deeds: list[Deed]) -> None:
        if not deeds:
            return
        now = self._store.clock()
        with self._store.writing() as connection:
            for number, deed in enumerate(deeds, work.number):
                event: Deed | Given = deed
                if isinstance(deed, Replied) and deed.page is not None:
                    event = Given(kept_pages.keep(connection, deed.page))
                place = work.place
                body = event.to_json()
                if events.append(connection, place.stream, place.person, body, now) != number:
                    raise Moved
        for deed in deeds:
            work.took(deed)


def keepable(what: str, reply: Reply) -> Reply:
    """A reply as it can be kept: a page, or hits, of characters that no file holds are none."""
    try:
        msgspec.json.encode(reply)
    except UnicodeEncodeError:
        detail = "it holds characters that cannot be kept (lone surrogates)"
        return Failure(what, "unreadable", detail)
    return reply


def closed(standing: Standing) -> Failed:
    """What is said to who goes on with work that was handed in or given back."""
    detail = "you handed this in before: look at it in your history"
    if standing.kind in ("skipped", "flagged"):
        detail = f"you {standing.kind} this task before: go back to the desk's first page"
    return Failed(Failure(standing.judgement, "already", detail))


def _lasting(deeds: list[Deed]) -> list[Deed]:
    """Without what was said and taken back at once, since it did nothing."""
    out: list[Deed] = []
    for deed in deeds:
        if isinstance(deed, Undone) and out and isinstance(out[-1], Said):
            out.pop()
        else:
            out.append(deed)
    return out


def _nobody(deed: Deed) -> None:
    """Hears what is done again."""

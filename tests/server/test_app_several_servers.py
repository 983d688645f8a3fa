"""Two servers, as on two machines, on one PostgreSQL database; one is killed in the middle."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import psycopg
import pytest
from selectolax.lexbor import LexborHTMLParser
from services import Service, service
from sqlalchemy import select
from stage import Said, Stage
from stores import Server, postgres
from visits import item

from rookery.desk import accounts, labelling_queue
from rookery.desk.accounts import PersonRole
from rookery.desk.store import Store, initialize_store
from rookery.desk.tables import answers, judgements, keys, slots
from rookery.server.api.answer_queue import StoredAnswer, find_answer, read_answer_events
from rookery.server.api.answer_sessions import FINAL_EVENTS
from rookery.server.api.endpoints import create_api_key
from rookery.server.stored_pages import make_quote_address

__all__ = ["postgres"]
LONGEST = 120.0
"""seconds after which something hangs"""
BEFORE, AMID = "Where do jays bury acorns?", "Do crows play with sticks?"
ITEMS, WANTED, ENOUGH = 24, 2, 4
LATER = [f"Where do {bird} bury acorns?" for bird in ("ravens", "magpies", "rooks", "jackdaws")]


class Pair(NamedTuple):
    """Two servers with one store, each with a data folder of its own."""

    store: Store
    killed: Service
    left: Service


@pytest.fixture
def place(postgres: Server) -> str:
    place = postgres.database()
    initialize_store(place)
    return place


@pytest.fixture
def servers(place: str, web: Stage, tmp_path: Path) -> Iterator[Pair]:
    more = ("--log", "--engine", f"searxng:{web.base}", "--allow-private", "--at-once", "1")
    with ExitStack() as stack:
        both = []
        for name in ("killed", "left"):
            (tmp_path / name).mkdir()
            both.append(stack.enter_context(service(tmp_path / name, place, *more)))
        yield Pair(stack.enter_context(Store(place)), *both)


def enter(store: Store, name: str, role: PersonRole) -> str:
    """The session of somebody who is signed in, at whichever server."""
    return accounts.redeem_invite(store, accounts.create_invite(store, name, role, by=name))


def wait_for(served: Service, answer: str, key: str) -> str:
    """How an answer ends, as this server tells it."""
    until = time.monotonic() + LONGEST
    while True:
        found = served.get(f"/v1/answers/{answer}", {"Authorization": f"Bearer {key}"}).json()
        if found["state"] not in ("asked", "going"):
            return str(found["state"])
        assert time.monotonic() < until, found
        time.sleep(0.1)


@pytest.mark.slow
def test_the_other_server_finishes_what_a_killed_one_was_asked_and_shows_its_pages(
    servers: Pair, web: Stage, place: str
) -> None:
    store, killed, left = servers
    key = create_api_key(store, "a program", budget=100)
    first = killed.ask(BEFORE, key).json()
    assert first["state"] == "done"
    found, begun, over = web.routes["/search"], threading.Event(), threading.Event()
    assert isinstance(found, Said)

    def hang(visit: Any) -> Said:
        """The first search is not answered as long as the server lives that asks for it."""
        if not begun.is_set():
            begun.set()
            over.wait(LONGEST)
        return found

    web.routes["/search"] = hang
    asked = [killed.ask(AMID, key, wait=False).json()["id"]]
    assert begun.wait(LONGEST)
    asked += [killed.ask(question, key, wait=False).json()["id"] for question in LATER]
    killed.process.kill()
    killed.process.wait()
    over.set()

    opened = web.paths()
    before = find_answer(store, first["id"])
    quote = list_quotes(before)[0]
    cookie = {"Cookie": f"rookery={enter(store, 'Ada', 'reader')}"}
    shown = left.get(make_quote_address(quote), cookie)
    marked = LexborHTMLParser(shown.text).css_first("mark")
    assert marked is not None
    assert marked.text() == quote.text
    told = left.get(f"/v1/answers/{first['id']}", {"Authorization": f"Bearer {key}"}).json()
    assert told == first
    pages = [path for path in web.paths()[len(opened) :] if path.startswith("/birds/")]
    assert pages == [], "it has the pages that the other server opened"
    again = left.ask(BEFORE, key).json()
    assert (again["state"], again["text"]) == ("done", first["text"])

    assert [wait_for(left, answer, key) for answer in asked] == ["done"] * len(asked)
    for answer in asked:
        ended = find_answer(store, answer)
        assert ended.answered is not None
        assert all(ended.answered.verdicts)
        events = read_answer_events(store, answer)
        assert [event.number for event in events] == list(range(len(events)))
        assert [event.number for event in events if event.kind in FINAL_EVENTS] == [len(events) - 1]
        assert events[-1].kind in ("answered", "declined")
    begins = [each.data for each in read_answer_events(store, asked[0]) if each.kind == "begun"]
    assert begins == [{"again": False}, {"again": True}]
    with store.begin_read() as connection:
        rows = connection.execute(select(answers.c.id, answers.c.tries)).all()
        spent = connection.scalar(select(keys.c.spent))
    assert {row.id: row.tries for row in rows if row.tries > 1} == {asked[0]: 2}
    assert spent == len(rows) == len(asked) + 2
    with psycopg.connect(place) as database:
        stored = database.execute(
            "select (select count(*) from rookery_archive.texts), count(distinct digest), count(*)"
            " from rookery_archive.versions"
        ).fetchone()
    assert stored == (2, 2, 2)


def list_quotes(answer: StoredAnswer) -> Any:
    assert answer.answered is not None
    assert answer.answered.episode.answer is not None
    return answer.answered.episode.answer.quotes


class Rater:
    """Somebody at the desk, who goes to the other server where one is gone."""

    def __init__(self, name: str, store: Store, at: Service, other: Service) -> None:
        self.name = name
        self._session = enter(store, name, "labeller")
        self._browsers = [self._open(at), self._open(other)]
        self.acknowledged: list[str] = []

    def _open(self, served: Service) -> httpx2.Client:
        return httpx2.Client(
            base_url=served.address,
            cookies={"rookery": self._session},
            headers={"Sec-Fetch-Site": "same-origin"},
            follow_redirects=True,
            timeout=120,
        )

    def judge_all(self, enough: threading.Event) -> None:
        """Judges whatever is handed out, until there is nothing more; says when it was enough."""
        try:
            page = self._send("/next", form="best_of_four")
            while page.url.path.startswith("/tasks/"):
                choice = LexborHTMLParser(page.text).css_first("button.choose")
                assert choice is not None
                task = page.url.path
                page = self._send(task, page="0", best=choice.attributes["value"] or "")
                self.acknowledged.append(task.rpartition("/")[2])
                if len(self.acknowledged) == ENOUGH:
                    enough.set()
        finally:
            enough.set()
            for each in self._browsers:
                each.close()

    def _send(self, address: str, **fields: str) -> httpx2.Response:
        """Sends a form, and sends it again to the other server if nothing came back."""
        try:
            page = self._browsers[0].post(address, data=fields)
        except httpx2.TransportError:
            self._browsers.pop(0).close()
            page = self._browsers[0].post(address, data=fields)
        assert page.status_code == 200, page.text
        return page


@pytest.mark.slow
def test_raters_go_on_at_the_other_server_and_no_judgement_is_lost_or_made_twice(
    servers: Pair,
) -> None:
    store, killed, left = servers
    items = [item("best_of_four", number) for number in range(ITEMS)]
    labelling_queue.add_items(store, items, "batch", WANTED)
    raters = [Rater(f"killed{n}", store, killed, left) for n in range(3)]
    raters += [Rater(f"left{n}", store, left, left) for n in range(2)]
    enough = threading.Event()
    with ThreadPoolExecutor(len(raters)) as pool:
        work = [pool.submit(rater.judge_all, enough) for rater in raters]
        assert enough.wait(LONGEST)
        killed.process.kill()
        for each in work:
            each.result()
    assert min(len(rater.acknowledged) for rater in raters[:3]) > 0
    with store.begin_read() as connection:
        kept = connection.execute(select(judgements.c.person, judgements.c.item)).all()
        places = connection.execute(select(slots.c.item, slots.c.person, slots.c.done)).all()
    made = Counter((row.person, row.item) for row in kept)
    assert set(made.values()) == {1}
    assert {(rater.name, task) for rater in raters for task in rater.acknowledged} == set(made)
    assert Counter(row.item for row in kept) == dict.fromkeys({row.item for row in kept}, WANTED)
    assert len(kept) == ITEMS * WANTED
    assert {(row.person, row.item) for row in places} == set(made)
    assert all(row.done for row in places)

"""Demonstrations on a real server that is killed, again and again, at moments drawn by chance.

It serves a test, and a bench with more kills. What was acknowledged is looked for afterwards in the
store, and in what the next server shows.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import httpx2 as httpx
import msgspec
import uvicorn
from demonstrating import Desk, write_pages
from ports import find_free_port
from selectolax.lexbor import LexborHTMLParser

from rookery.desk import labelling_queue
from rookery.desk.store import Store, read_events
from rookery.records import Episode, Question
from rookery.server.app import build_web_app
from rookery.settings import Settings
from rookery.shell.security import VisitorLimits

SCRIPT: tuple[Mapping[str, str], ...] = (
    {"search": "crows gifts"},
    {"command": "Clicked on link 0"},
    {"quote": "A gift needs a giver"},
    {"command": "Scrolled down 1"},
    {"find": "walnut"},
    {"undo": "yes"},
    {"command": "Scrolled up 1"},
    {"search": "jays"},
    {"command": "Clicked on link 0"},
    {"quote": "Jays bury acorns in September."},
    {"command": "Back"},
    {"command": "End: Answer"},
    {"save": "yes", "answer": "A gift needs a giver [1]."},
    {"undo": "yes", "answer": "A gift needs a giver [1], jays"},
    {"command": "End: Answer"},
    {"hand_in": "yes", "answer": "A gift needs a giver [1]. Jays bury acorns [2]."},
)
LONGEST_START = 120.0
MOST = 0.5
"""seconds until the next kill; a demonstration takes about as long"""


class Count(NamedTuple):
    """What came of it."""

    kills: int
    acknowledged: int
    """deeds that were answered with a page"""
    lost: int
    """of those, that were not there afterwards"""
    other: int
    """times that the next server showed something else than was shown before"""
    episodes: list[Episode]
    """what was handed in in the end"""


def run(place: str, port: int, pages: str) -> None:
    """The server, until it is killed."""
    with Store(place) as store:
        app = build_web_app(store, Settings(places=(pages,)), VisitorLimits(sent=1_000_000))
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical", access_log=False)


class Server:
    """A server that comes back where it was: each is forked from a process that has all loaded."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.port = find_free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        pages = str(write_pages(folder / "pages"))
        self._parent = subprocess.Popen(
            [sys.executable, __file__, desk.store.place, str(self.port), pages],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
        )
        self.start()

    def start(self) -> None:
        """Comes back, and answers."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write("\n")
        self._parent.stdin.flush()
        self._pid = int(self._parent.stdout.readline())
        end = time.monotonic() + LONGEST_START
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.005)
            else:
                return

    @property
    def alive(self) -> bool:
        """Whether it was not killed since it came back."""
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """As the system does when memory runs out."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        while self.alive:
            time.sleep(0.002)

    def close(self) -> None:
        """Goes for good."""
        self.kill()
        self._parent.communicate()


class Person:
    """Somebody who follows the script, and sends again what was not answered."""

    def __init__(self, desk: Desk, server: Server, item: str) -> None:
        self.desk, self.server, self.item = desk, server, item
        self.place = desk.place(item)
        self.browser = httpx.Client(
            base_url=server.address,
            cookies={"rookery": desk.sessions["Ada"]},
            headers={"sec-fetch-site": "same-origin"},
            follow_redirects=True,
            timeout=120,
        )
        self.seen = 0
        self.shown = ""
        self.acknowledged: list[str] = []
        self.lost = self.other = 0

    def looks(self) -> None:
        """Sees the page as it is."""
        self._take(self.browser.get(f"/demonstrate/{self.item}"))

    def does(self, step: Mapping[str, str]) -> None:
        """Sends one form of the script, and sees what comes of it."""
        data = {"seen": str(self.seen), **step}
        answer = self.browser.post(f"/demonstrate/{self.item}", data=data)
        assert answer.status_code == 200, answer.text
        self.acknowledged = self.logged()
        self._take(answer)

    def logged(self) -> list[str]:
        """What the store has of this demonstration."""
        with self.desk.store.begin_read() as connection:
            return read_events(connection, self.place.stream)

    def again(self) -> None:
        """Looks at what the next server shows, and compares."""
        self.browser.close()
        self.browser = httpx.Client(
            base_url=self.server.address,
            cookies=self.browser.cookies,
            headers={"sec-fetch-site": "same-origin"},
            follow_redirects=True,
            timeout=120,
        )
        rows = self.logged()
        self.lost += rows[: len(self.acknowledged)] != self.acknowledged
        before, last_screen = self.shown, self.seen
        self.looks()
        self.acknowledged = self.logged()
        if self.seen == last_screen and before and self.shown:
            self.other += before != self.shown

    def _take(self, answer: httpx.Response) -> None:
        tree = LexborHTMLParser(answer.text)
        number = tree.css_first("input[name=seen]")
        if number is None:  # it was handed in
            self.shown = ""
            return
        self.seen = int(number.attributes["value"] or 0)
        window = tree.css_first(".demo-body") or tree.css_first(".demo")
        self.shown = window.html or "" if window else ""


def killed(desk: Desk, folder: Path, kills: int, seed: int = 0) -> Count:
    """Demonstrations, one after the other, until the server was killed as often as this."""
    chance = random.Random(seed)
    server = Server(desk, folder)
    finished = acknowledged = lost = other = 0
    made_of: list[Episode] = []
    try:
        while finished < kills:
            item = desk.item(Question(f"k{len(made_of)}", f"Do crows bring gift {len(made_of)}?"))
            person = Person(desk, server, item)
            person.looks()
            step = 0
            timer = _timer(server, chance.random() * MOST) if finished < kills else None
            while step < len(SCRIPT):
                try:
                    person.does(SCRIPT[step])
                    step += 1
                except httpx.TransportError:
                    assert timer is not None
                    timer.join()
                    finished += 1
                    server.start()
                    before = len(person.acknowledged)
                    person.again()
                    step += _applied(person, before, SCRIPT[step])
                    timer = _timer(server, chance.random() * MOST) if finished < kills else None
            if timer is not None:
                timer.cancel()
                timer.join()
                if not server.alive:
                    finished += 1
                    server.start()
            acknowledged += len(person.acknowledged)
            lost, other = lost + person.lost, other + person.other
            judgement = labelling_queue.list_judgements(desk.store, "Ada", 1)[0]
            made_of.append(msgspec.convert(judgement.filled["episode"], Episode))
            person.browser.close()
    finally:
        server.close()
    return Count(finished, acknowledged, lost, other, made_of)


def _timer(server: Server, seconds: float) -> Timer:
    timer = Timer(seconds, server.kill)
    timer.start()
    return timer


def _applied(person: Person, before: int, step: Mapping[str, str]) -> int:
    """Whether what was sent last is there, though nobody was told."""
    if "hand_in" in step:
        done = labelling_queue.list_judgements(person.desk.store, "Ada", 1)
        return int(bool(done) and done[0].item == person.item)
    more = [msgspec.json.decode(body) for body in person.logged()[before:]]
    return int(
        any(body["type"] in ("Said", "Undone") for body in more) or ("save" in step and bool(more))
    )


def parent(place: str, port: str, pages: str) -> None:
    """Forks a server for each line that it reads."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            run(place, int(port), pages)
            os._exit(0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    parent(*sys.argv[1:])

"""Hundreds of sessions of the text browser at once, against the slowest of them by itself.

Needs no data. Prints a table and writes bench/results/sessions.json. Each of 256 scripted
sessions searches, opens pages over real sockets, follows links and quotes. A server on loopback,
in a process of its own, answers every request (search, page, robots.txt) after a time drawn from
a log-normal distribution, median 0.4 s, at most 5 s, and adds up for each session how long it let
it wait. The pages are those of the demonstration, of 2 to 7 kB.

A Fetcher is polite: it asks robots.txt of every host and makes no more than two requests to a host
at a time. So that this does not become the figure, each session reads from four hosts of its own,
and all may ask the one search engine at once, as one's own engine or a paid one allows. There are
two rows, a Fetcher for each session and one for all of them.
"""

import argparse
import asyncio
import json
import multiprocessing
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

from bench.report import ROOT, show, sized, write
from rookery.browse.archive import Archive
from rookery.browse.fetch import Fetcher, Limits
from rookery.browse.network import trust
from rookery.browse.observation import Observation
from rookery.browse.rules import Task
from rookery.browse.web import Web, searxng
from rookery.draft.rollout import RolloutLimits, Turn, rollouts, scripted
from rookery.records import Completion, Episode, Question

SESSIONS = sized(256, 3)
"""WebGPT's parallel environments (table 7)"""
TARGET = 1.2
"""total time, that which the slowest session waited being 1"""
MEDIAN, SPREAD, LONGEST = sized((0.4, 0.8, 5.0), (0.01, 0.8, 0.1))
"""seconds a request takes; SPREAD is the deviation of its logarithm"""
ROUNDS = 4
"""searches of a session; each is followed by a click on a result, a quote and a second click"""
RESULT = re.compile(r"【([0-9]+)†")
WITHIN = re.compile(r"【([0-9]+)†[^†】]*】")
"""a link that does not leave its site"""
UNLINKED = re.compile(r"^[^【\n]+$", re.M)
"""a line without a link"""
HOSTS = 4
"""of each session"""
PAGES = sorted((ROOT / "rookery" / "browse" / "corvids").glob("*.html"))


class Site:
    """Every host of the bench: its pages, its robots.txt, the search engine; and who waited."""

    def __init__(self) -> None:
        self.waited: defaultdict[int, float] = defaultdict(float)
        self.requests = 0
        self.pages = {f"/{page.name}": page.read_bytes() for page in PAGES}

    async def visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one connection until the visitor leaves."""
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
                kind, body = await self.answer(headers["host"], lines[0].split(" ")[1])
                head = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(b"HTTP/1.1 200 OK\r\n" + head.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def answer(self, host: str, path: str) -> tuple[str, bytes]:
        """The type and the body of what is there, after the time that it takes."""
        if path == "/waited":
            return "application/json", json.dumps([self.requests, self.waited]).encode()
        query = parse_qs(urlsplit(path).query).get("q", [""])[0]
        session = int(query.split()[-1] if query else host.split(".")[1])
        seconds = latency(host.partition(":")[0] + path)
        self.requests += 1
        self.waited[session] += seconds
        await asyncio.sleep(seconds)
        if query:
            found = {"results": results(session, query, host.rpartition(":")[2])}
            return "application/json", json.dumps(found).encode()
        if path == "/robots.txt":
            return "text/plain", b"User-agent: *\nAllow: /\n"
        return "text/html; charset=utf-8", self.pages.get(path, b"<p>Nothing is here.")


def latency(what: str) -> float:
    """Seconds that a request takes; the same in every run."""
    return min(MEDIAN * Random(what).lognormvariate(0.0, SPREAD), LONGEST)


def results(session: int, query: str, port: str) -> list[dict[str, str]]:
    """Ten pages, on the session's own hosts."""
    return [
        {
            "url": f"http://site{number % HOSTS}.{session}.example:{port}/{page.name}",
            "title": page.stem.replace("-", " "),
            "content": "What crows do, and how it is known.",
        }
        for number, page in enumerate(Random(query).sample(PAGES, 10))
    ]


def serve(told: Connection) -> None:
    """Runs the site until its process is ended; tells its port."""

    async def run() -> None:
        server = await asyncio.start_server(Site().visit, "127.0.0.1", 0, backlog=1024)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def serving() -> Iterator[int]:
    """The port of a site that runs meanwhile."""
    told, tell = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(tell,), daemon=True)
    process.start()
    try:
        yield told.recv()
    finally:
        process.terminate()
        process.join()


def reading(session: int) -> Generator[str, Observation, None]:
    """What a session says, each time to what it is shown."""
    random = Random(session)
    yield ""
    for number in range(ROUNDS):
        shown = yield f"Search what crows do {number} {session}"
        shown = yield click(RESULT, shown, random)
        shown = yield f"Quote: {max(UNLINKED.findall(shown.text), key=len, default='')}"
        yield click(WITHIN, shown, random)
    yield "End: Answer"
    yield "They do this [1]."


def click(kind: re.Pattern[str], shown: Observation, random: Random) -> str:
    """A click on some link of this kind, where the window has one."""
    links = kind.findall(shown.text)
    return f"Clicked on link {random.choice(links)}" if links else "Scrolled down 1"


def reader(session: int) -> Callable[[Observation], str]:
    """The actor that says it."""
    said = reading(session)
    next(said)
    return said.send


def browsed(port: int, sessions: int, fetchers: int, batches: list[int]) -> list[Episode]:
    """All sessions at once, over the web as it is used, its archive included."""

    def act(turns: Sequence[Turn]) -> Sequence[Completion]:
        batches.append(len(turns))
        return say(turns)

    def library(session: int) -> Web:
        return Web(searxng(f"http://engine.example:{port}"), archive, every[session % fetchers])

    say = scripted([reader(session) for session in range(sessions)])
    tasks = (Task(Question(str(session), "What do crows do?")) for session in range(sessions))
    share = sessions // fetchers
    limits = Limits(connections=2 * share, per_host=share)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        archive = stack.enter_context(Archive(folder / "archive.sqlite"))
        tls = trust()
        every = [
            stack.enter_context(Fetcher(limits, allow_private=True, tls=tls, resolve=loopback))
            for _ in range(fetchers)
        ]
        return list(rollouts(tasks, library, act, "reader", 0, RolloutLimits(at_once=sessions)))


def loopback(host: str, port: int) -> list[str]:
    """Where every host of the bench is."""
    return ["127.0.0.1"]


def row(sessions: int, fetchers: int) -> dict[str, float]:
    """One run, and how its episodes ended."""
    batches: list[int] = []
    with serving() as port:
        begun, cpu = time.perf_counter(), time.process_time()
        episodes = browsed(port, sessions, fetchers, batches)
        total, cpu = time.perf_counter() - begun, time.process_time() - cpu
        with urlopen(f"http://127.0.0.1:{port}/waited") as answer:
            requests, waited = json.load(answer)
    slowest = max(waited.values())
    return {
        "total_s": total,
        "slowest_s": slowest,
        "ratio": total / slowest,
        "in_turn_s": sum(waited.values()),
        "cpu_s": cpu,
        "requests": requests,
        "failures": sum(len(episode.failures) for episode in episodes),
        "answers": sum(episode.answer is not None for episode in episodes),
        "batches": len(batches),
        "turns": sum(batches),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    sessions = parser.parse_args().sessions
    rows = {
        "a fetcher for each": row(sessions, sessions),
        "one fetcher for all": row(sessions, 1),
    }
    show(list(rows["a fetcher for each"]), rows)
    write("sessions", {"sessions": sessions, "target": TARGET, "rows": rows})


if __name__ == "__main__":
    main()

"""Hundreds of browser sessions at once, against the slowest of them by itself.

Needs no data. Prints a table and writes bench/results/sessions.json. Each of 256 scripted sessions
searches, opens pages over real sockets, follows links and quotes. A server on loopback, in a
process of its own, answers every request (search, page, robots.txt) after a time drawn from a
log-normal distribution, median 0.4 s, at most 5 s, and adds up the waiting of each session. The
pages are those of the demonstration, of 2 to 7 kB.

A Fetcher is polite: it asks robots.txt of every host and makes no more than two requests to a host
at a time. So that this does not dominate the figure, each session reads from four hosts of its own,
and all may ask the one search engine at once, as one's own engine or a paid one allows. There are
two rows, one with a Fetcher for each session and one with a single Fetcher.
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

from bench.report import ROOT, choose_size, print_table, write_results
from rookery.browser.browser_commands import BrowserTask, Observation
from rookery.browser.rollout import RolloutLimits, RolloutTurn, make_scripted_policy, run_rollouts
from rookery.library.page_archive import PageArchive
from rookery.library.web_library import WebLibrary, make_searxng_engine
from rookery.network.access_rules import make_tls_context
from rookery.network.fetcher import Fetcher, FetchLimits
from rookery.records import Completion, Episode, Question

SESSIONS = choose_size(256, 3)
"""WebGPT's parallel environments (table 7)."""
TARGET = 1.2
"""Total time relative to the waiting of the slowest session."""
MEDIAN, SPREAD, LONGEST = choose_size((0.4, 0.8, 5.0), (0.01, 0.8, 0.1))
"""Seconds of a request; SPREAD is the standard deviation of its logarithm."""
ROUNDS = 4
"""Searches of a session; each is followed by a click on a result, a quote and a second click."""
RESULT = re.compile(r"【([0-9]+)†")
WITHIN = re.compile(r"【([0-9]+)†[^†】]*】")
"""A link that stays on its site."""
UNLINKED = re.compile(r"^[^【\n]+$", re.M)
"""A line without a link."""
HOSTS = 4
"""Hosts of each session."""
PAGES = sorted((ROOT / "rookery" / "library" / "corvids").glob("*.html"))


class Site:
    """Every host of the benchmark (pages, robots.txt, search engine), with the waiting of each
    session."""

    def __init__(self) -> None:
        self.waited: defaultdict[int, float] = defaultdict(float)
        self.requests = 0
        self.pages = {f"/{page.name}": page.read_bytes() for page in PAGES}

    async def serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one connection until the client leaves."""
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
                kind, body = await self.make_response(headers["host"], lines[0].split(" ")[1])
                head = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(b"HTTP/1.1 200 OK\r\n" + head.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def make_response(self, host: str, path: str) -> tuple[str, bytes]:
        """Return type and body of a resource, after its latency."""
        if path == "/waited":
            return "application/json", json.dumps([self.requests, self.waited]).encode()
        query = parse_qs(urlsplit(path).query).get("q", [""])[0]
        session = int(query.split()[-1] if query else host.split(".")[1])
        seconds = draw_latency(host.partition(":")[0] + path)
        self.requests += 1
        self.waited[session] += seconds
        await asyncio.sleep(seconds)
        if query:
            found = {"results": make_results(session, query, host.rpartition(":")[2])}
            return "application/json", json.dumps(found).encode()
        if path == "/robots.txt":
            return "text/plain", b"User-agent: *\nAllow: /\n"
        return "text/html; charset=utf-8", self.pages.get(path, b"<p>Nothing is here.")


def draw_latency(what: str) -> float:
    """Return the seconds that a request takes; the same in every run."""
    return min(MEDIAN * Random(what).lognormvariate(0.0, SPREAD), LONGEST)


def make_results(session: int, query: str, port: str) -> list[dict[str, str]]:
    """Return ten search results on the session's own hosts."""
    return [
        {
            "url": f"http://site{number % HOSTS}.{session}.example:{port}/{page.name}",
            "title": page.stem.replace("-", " "),
            "content": "What crows do, and how it is known.",
        }
        for number, page in enumerate(Random(query).sample(PAGES, 10))
    ]


def serve_site(told: Connection) -> None:
    """Run the site until its process is ended; sends its port."""

    async def run() -> None:
        server = await asyncio.start_server(Site().serve_connection, "127.0.0.1", 0, backlog=1024)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def run_site() -> Iterator[int]:
    """Run the site in a process of its own and yield its port."""
    told, tell = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve_site, args=(tell,), daemon=True
    )
    process.start()
    try:
        yield told.recv()
    finally:
        process.terminate()
        process.join()


def script_session(session: int) -> Generator[str, Observation, None]:
    """Yield a session's commands; receives an observation for each."""
    random = Random(session)
    yield ""
    for number in range(ROUNDS):
        shown = yield f"Search what crows do {number} {session}"
        shown = yield choose_click(RESULT, shown, random)
        shown = yield f"Quote: {max(UNLINKED.findall(shown.text), key=len, default='')}"
        yield choose_click(WITHIN, shown, random)
    yield "End: Answer"
    yield "They do this [1]."


def choose_click(kind: re.Pattern[str], shown: Observation, random: Random) -> str:
    """Return a click on a random link of this kind, or a scroll if the window has none."""
    links = kind.findall(shown.text)
    return f"Clicked on link {random.choice(links)}" if links else "Scrolled down 1"


def make_actor(session: int) -> Callable[[Observation], str]:
    """Return the actor of a scripted session: observation to command."""
    said = script_session(session)
    next(said)
    return said.send


def run_sessions(port: int, sessions: int, fetchers: int, batches: list[int]) -> list[Episode]:
    """Run every session at once over the real web library, its archive included."""

    def act(turns: Sequence[RolloutTurn]) -> Sequence[Completion]:
        batches.append(len(turns))
        return say(turns)

    def library(session: int) -> WebLibrary:
        return WebLibrary(
            make_searxng_engine(f"http://engine.example:{port}"), archive, every[session % fetchers]
        )

    say = make_scripted_policy([make_actor(session) for session in range(sessions)])
    tasks = (
        BrowserTask(Question(str(session), "What do crows do?")) for session in range(sessions)
    )
    share = sessions // fetchers
    limits = FetchLimits(connections=2 * share, per_host=share)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        archive = stack.enter_context(PageArchive(folder / "archive.sqlite"))
        tls = make_tls_context()
        every = [
            stack.enter_context(
                Fetcher(limits, allow_private=True, tls=tls, resolve=resolve_loopback)
            )
            for _ in range(fetchers)
        ]
        return list(run_rollouts(tasks, library, act, "reader", 0, RolloutLimits(at_once=sessions)))


def resolve_loopback(host: str, port: int) -> list[str]:
    """Resolve every host to this machine."""
    return ["127.0.0.1"]


def measure_run(sessions: int, fetchers: int) -> dict[str, float]:
    """Run once and return times, requests and outcomes."""
    batches: list[int] = []
    with run_site() as port:
        begun, cpu = time.perf_counter(), time.process_time()
        episodes = run_sessions(port, sessions, fetchers, batches)
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
    """Run the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    sessions = parser.parse_args().sessions
    rows = {
        "a fetcher for each": measure_run(sessions, sessions),
        "one fetcher for all": measure_run(sessions, 1),
    }
    print_table(list(rows["a fetcher for each"]), rows)
    write_results("sessions", {"sessions": sessions, "target": TARGET, "rows": rows})


if __name__ == "__main__":
    main()

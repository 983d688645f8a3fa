"""A server under load: readers at once, and answers that are lost or wrong.

Reads ../shared/data/squad. A real `rookery serve` over the squad folder, by the extractive method,
in two processes; the readers run beside it on the same cores, in one process over plain sockets.
Each question is asked once before the clock starts, so that vectors are kept. Every quote is looked
up in the archive here, whatever the server says of it. Prints tables and writes
bench/results/serve.json.

    python -m bench.serve [--answers N]      10000 for the full figure: ten minutes
"""

import argparse
import asyncio
import itertools
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.report import (
    choose_size,
    print_table,
    require_data,
    stopwatch,
    summarize_milliseconds,
    write_results,
)
from bench.squad import ARCHIVE, CACHE, DATA, Squad
from rookery.library.page_archive import PageArchive

WORKERS = 2
PROCESSES = ("--workers", str(WORKERS), "--at-once", "1")
"""One worker per core, one answer at a time in each."""
QUESTIONS = choose_size(30, 4)
READERS = choose_size({1: 20, 10: 60, 50: 100}, {1: 1, 4: 4})
"""Readers at once, and number of timed answers."""
STREAMS, QUICK, KILLS = choose_size((200, 200, 5), (4, 5, 1))
FIRST_MS = {"10": {"p95_ms": 100.0}, "50": {"median_ms": 500.0, "p95_ms": 2000.0}}
"""Milliseconds until the first event, by readers at once."""
SLOWER = 1.5
LONGEST_START = 60.0
LONGEST = 600.0
"""Seconds for one answer, waiting included."""


class HttpResponse(NamedTuple):
    """A response."""

    status: int
    body: bytes


class Server:
    """`rookery serve` as a process, with its workers."""

    def __init__(self, folder: Path, place: Path, log: Path) -> None:
        homes = {"XDG_CACHE_HOME": str(CACHE.parent), "XDG_DATA_HOME": str(ARCHIVE.parent.parent)}
        self._homes = os.environ | homes
        self._place = str(place)
        self.port = find_free_port()
        options = ["--in", str(folder), "--store", self._place, "--port", str(self.port)]
        command = [sys.executable, "-m", "rookery", "serve", *options, *PROCESSES]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command, env=self._homes, stdout=out, stderr=out, process_group=0
            )

    def create_key(self) -> str:
        """Create an API key without a practical rate limit."""
        command = [sys.executable, "-m", "rookery", "serve", "key", "bench", "--per-minute"]
        ran = subprocess.run(
            [*command, "1000000000", "--store", self._place],
            env=self._homes,
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout.strip()

    def list_workers(self) -> list[int]:
        """Return the ids of the worker processes."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        children = [int(pid) for task in tasks for pid in task.read_text().split()]
        return [pid for pid in children if b"spawn_main" in _read_command_line(pid)]

    def measure_memory(self) -> float:
        """Return the peak resident memory of all its processes."""
        seen = 0.0
        for pid in {self._process.pid, *self.list_workers()}:
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            seen += int(found[1]) / 1024 if found else 0.0
        return seen

    def close(self) -> None:
        """Stop it as a terminal would, and wait for it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)


def _read_command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def find_free_port() -> int:
    """Return a port of this machine that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Client:
    """Minimal HTTP client with a new connection for each request."""

    def __init__(self, port: int, key: str = "") -> None:
        self._port = port
        self._key = key

    @asynccontextmanager
    async def open_request(
        self, method: str, path: str, body: Any = None, buffer: int = 0
    ) -> AsyncIterator[asyncio.StreamReader]:
        """Send a request and yield the connection's reader."""
        plain = socket.socket()
        if buffer:  # kernel receive buffer: otherwise a slow reader gets everything at once
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=plain, limit=buffer or 2**20)
        sent = b"" if body is None else json.dumps(body).encode()
        heads = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close"]
        heads += [f"Authorization: Bearer {self._key}"] if self._key else []
        heads += ["Content-Type: application/json", f"Content-Length: {len(sent)}", "", ""]
        try:
            writer.write("\r\n".join(heads).encode() + sent)
            await writer.drain()
            yield reader
        finally:
            writer.close()

    async def send(self, method: str, path: str, body: Any = None) -> HttpResponse:
        """Send a request and return its response."""
        async with self.open_request(method, path, body) as reader:
            whole = await asyncio.wait_for(reader.read(), LONGEST)
        head, _, rest = whole.partition(b"\r\n\r\n")
        return HttpResponse(int(head.split(b" ", 2)[1]) if head else 0, rest)

    async def time_first_event(self, question: str) -> float:
        """Return seconds until the first event of an answer; the rest is read too."""
        begun = time.perf_counter()
        asked = {"question": question, "stream": True}
        async with self.open_request("POST", "/v1/answers", asked) as reader:
            await reader.readuntil(b"event: ")
            seconds = time.perf_counter() - begun
            await reader.read()
        return seconds

    async def read_slowly(self, question: str) -> None:
        """Read an answer's events at 64 bytes a second until cancelled."""
        asked = {"question": question, "stream": True}
        async with self.open_request("POST", "/v1/answers", asked, buffer=2048) as reader:
            while await reader.read(64):
                await asyncio.sleep(1)


class AnswerChecker:
    """Counts answers and what is wrong with them."""

    def __init__(self, archive: PageArchive) -> None:
        self._archive = archive
        self._texts: dict[str, str] = {}
        self.answers = self.errors = self.quotes = self.unverified = self.declined = 0

    def check(self, said: HttpResponse) -> None:
        """Check one response: answered, and each quote found in the stored page."""
        self.answers += 1
        record: dict[str, Any] = json.loads(said.body) if said.status == 200 else {}
        if record.get("state") != "done":
            self.errors += 1
            return
        self.declined += record["rookery"]["declined"]
        for source in record["rookery"]["sources"]:
            self.quotes += 1
            text = self._text(source["digest"])
            held = text[source["start"] : source["end"]] == source["quote"]
            self.unverified += not (held and source["verified"])

    def _text(self, digest: str) -> str:
        if digest not in self._texts:
            page = self._archive.find_page(digest)
            self._texts[digest] = page.text if page else ""
        return self._texts[digest]


async def run_concurrently(readers: int, tasks: Sequence[Callable[[], Awaitable[None]]]) -> float:
    """Run the tasks, `readers` at a time, and return the seconds it took."""
    left = iter(tasks)

    async def reader() -> None:
        for task in left:
            await task()

    begun = time.perf_counter()
    await asyncio.gather(*(reader() for _ in range(readers)))
    return time.perf_counter() - begun


class Bench:
    """Measurements on one server."""

    def __init__(
        self, server: Server, client: Client, checked: AnswerChecker, asked: list[str]
    ) -> None:
        self.server = server
        self.client = client
        self.checked = checked
        self._asked = asked
        self._questions = itertools.cycle(asked)

    async def warm_up(self) -> None:
        """Ask each question once."""
        await self.measure_load(4, len(self._asked))

    async def measure_load(self, readers: int, answers: int) -> dict[str, float]:
        """Measure `answers` answers asked by `readers` readers at once."""
        times: list[float] = []

        async def ask() -> None:
            with stopwatch(times):
                asked = {"question": next(self._questions)}
                said = await self.client.send("POST", "/v1/answers", asked)
            self.checked.check(said)

        seconds = await run_concurrently(readers, [ask] * answers)
        row = summarize_milliseconds(times) | {"answers/s": answers / seconds}
        return row | {"memory_mb": self.server.measure_memory()}

    async def measure_first_events(self, readers: int, count: int) -> dict[str, float]:
        """Measure milliseconds until readers get the first event."""
        times: list[float] = []

        async def watch() -> None:
            times.append(await self.client.time_first_event(next(self._questions)))

        await run_concurrently(readers, [watch] * count)
        return summarize_milliseconds(times)

    async def measure_quick_requests(self) -> dict[str, float]:
        """Measure milliseconds of a cheap request, one after the other."""
        times: list[float] = []
        for _ in range(QUICK):
            with stopwatch(times):
                said = await self.client.send("GET", "/v1/models")
            assert said.status == 200, said
            await asyncio.sleep(0.01)
        return summarize_milliseconds(times)

    async def measure_beside_streams(self) -> dict[str, dict[str, float]]:
        """Measure a cheap request alone, beside answers being made, and beside the same with slow
        readers."""
        rows = {"nothing else": await self.measure_quick_requests()}
        for name, streams in (("answers are made", False), ("and slowly read", True)):
            ask: Callable[[], Coroutine[Any, Any, object]] = (
                self.read_slowly if streams else self.enqueue_answers
            )
            tasks = [asyncio.create_task(ask()) for _ in range(STREAMS)]
            await asyncio.sleep(choose_size(3.0, 0.2))
            rows[name] = await self.measure_quick_requests()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.wait_until_idle()
        return rows

    async def read_slowly(self) -> None:
        """Ask, and read the events slowly."""
        await self.client.read_slowly(next(self._questions))

    async def enqueue_answers(self, count: int = 1) -> list[str]:
        """Enqueue questions without waiting; return the ids that were acknowledged."""
        found: list[str] = []
        for _ in range(count):
            asked = {"question": next(self._questions), "wait": False}
            try:
                said = await self.client.send("POST", "/v1/answers", asked)
            except OSError:
                continue  # its worker was killed before it acknowledged the question
            if said.status == 202:
                found.append(json.loads(said.body)["id"])
        return found

    async def wait_until_idle(self) -> None:
        """Wait until no answer is waiting or in progress."""
        while True:
            said = (await self.client.send("GET", "/metrics")).body.decode()
            if re.search(r"^rookery_waiting 0(\.0)?$", said, re.M) and re.search(
                r'^rookery_leases\{of="answers"\} 0(\.0)?$', said, re.M
            ):
                return
            await asyncio.sleep(0.5)

    async def measure_kills(self, count: int) -> dict[str, float]:
        """Kill workers while many ask; then look for every acknowledged answer."""
        asking = [asyncio.create_task(self.enqueue_answers(count // 10)) for _ in range(10)]
        for _ in range(KILLS):
            await asyncio.sleep(1.5)
            if found := self.server.list_workers():
                os.kill(found[0], signal.SIGKILL)
        kept = [answer for task in asking for answer in await task]
        await self.wait_until_idle()
        lost = 0
        for answer in kept:
            said = await self.client.send("GET", f"/v1/answers/{answer}")
            lost += said.status != 200 or json.loads(said.body)["state"] != "done"
            self.checked.check(said)
        return {"kills": KILLS, "acknowledged": len(kept), "lost": lost}


async def measure_server(bench: Bench, answers: int) -> dict[str, Any]:
    """Measure every figure of one server."""
    await bench.warm_up()
    print("warm", file=sys.stderr)
    rows = {f"{n} at once": await bench.measure_load(n, count) for n, count in READERS.items()}
    print_table(list(next(iter(rows.values()))), rows)
    first = {
        readers: await bench.measure_first_events(int(readers), choose_size(count, 4))
        for readers, count in (("10", 50), ("50", 200))
    }
    print_table(list(first["10"]), {f"first event, {n} at once": row for n, row in first.items()})
    quick = await bench.measure_beside_streams()
    print_table(list(quick["nothing else"]), quick)
    killed = await bench.measure_kills(choose_size(200, 10))
    print_table(list(killed), {"killed": killed})
    more = max(0, answers - bench.checked.answers)
    if more:
        await bench.measure_load(10, more)
    return {"readers": rows, "first": first, "quick": quick, "killed": killed}


async def wait_until_ready(client: Client) -> None:
    """Wait until the server is ready. Raises TimeoutError."""
    async with asyncio.timeout(LONGEST_START):
        while True:
            try:
                if (await client.send("GET", "/readyz")).status == 200:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.2)


@contextmanager
def run_server(folder: Path) -> Iterator[tuple[Server, Client]]:
    """Run a server and yield it, ready, with a client that has a key."""
    with tempfile.TemporaryDirectory() as home:
        log = Path(home) / "log"
        server = Server(folder, Path(home) / "desk.sqlite", log)
        try:
            asyncio.run(wait_until_ready(Client(server.port)))
            yield server, Client(server.port, server.create_key())
        except BaseException:
            print(log.read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            server.close()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.serve")
    parser.add_argument("--answers", type=int, default=0, help="at least so many in all")
    options = parser.parse_args()
    require_data(DATA)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    squad = Squad()
    squad.open_library().close()
    archive = PageArchive(ARCHIVE)
    checked = AnswerChecker(archive)
    with run_server(squad.folder) as (server, client):
        bench = Bench(server, client, checked, [asked.text for asked in squad.sample(5, QUESTIONS)])
        figures = asyncio.run(measure_server(bench, options.answers))
    names = ("answers", "errors", "declined", "quotes", "unverified")
    wrong = {name: getattr(checked, name) for name in names}
    print_table(names, {"in all": wrong})
    targets = {"first_ms": FIRST_MS, "slower": SLOWER}
    shape = {"workers": WORKERS, "streams": STREAMS, "targets": targets}
    write_results("serve", {**shape, **figures, "wrong": wrong})


if __name__ == "__main__":
    main()

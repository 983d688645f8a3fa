"""How many readers does a server bear, and is anything lost or wrong under load?

Reads ../shared/data/squad. A real `rookery serve` over the squad folder, by the extractive method,
two processes; the readers run beside it on the same cores, in one process over plain sockets. Each
question was asked once before the clock starts, so vectors are kept. Every quote is looked for in
the archive here, whatever the server says of it. Prints tables and writes bench/results/serve.json.

    python -m bench.serve [--answers N]      10000 for the whole figure: ten minutes
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

from bench.report import milliseconds, require, show, sized, stopwatch, write
from bench.squad import ARCHIVE, CACHE, DATA, Squad
from rookery.browse.archive import Archive

WORKERS = 2
PROCESSES = ("--workers", str(WORKERS), "--at-once", "1")
"""one for each core, and nothing in them that takes turns"""
QUESTIONS = sized(60, 4)
READERS = sized({1: 40, 10: 120, 50: 200}, {1: 2, 4: 8})
"""readers at once, and how many answers are timed"""
STREAMS, QUICK, KILLS = sized((200, 200, 5), (4, 5, 1))
FIRST_MS = 100.0
SLOWER = 1.5
LONGEST_START = 60.0
LONGEST = 600.0
"""seconds for one answer, waiting included"""


class Said(NamedTuple):
    """An answer to a request."""

    status: int
    body: bytes


class Server:
    """`rookery serve` as a process, with its workers."""

    def __init__(self, folder: Path, place: Path, log: Path) -> None:
        homes = {"XDG_CACHE_HOME": str(CACHE.parent), "XDG_DATA_HOME": str(ARCHIVE.parent.parent)}
        self._homes = os.environ | homes
        self._place = str(place)
        self.port = free_port()
        options = ["--in", str(folder), "--store", self._place, "--port", str(self.port)]
        command = [sys.executable, "-m", "rookery", "serve", *options, *PROCESSES]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command, env=self._homes, stdout=out, stderr=out, process_group=0
            )

    def key(self) -> str:
        """A key that may ask as often as it can."""
        command = [sys.executable, "-m", "rookery", "serve", "key", "bench", "--per-minute"]
        ran = subprocess.run(
            [*command, "1000000000", "--store", self._place],
            env=self._homes,
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout.strip()

    def workers(self) -> list[int]:
        """The processes that serve."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        children = [int(pid) for task in tasks for pid in task.read_text().split()]
        return [pid for pid in children if b"spawn_main" in _command(pid)]

    def megabytes(self) -> float:
        """Resident at most so far, of all its processes."""
        seen = 0.0
        for pid in {self._process.pid, *self.workers()}:
            found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
            seen += int(found[1]) / 1024 if found else 0.0
        return seen

    def close(self) -> None:
        """Ends it as a terminal would, and waits for it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Client:
    """Asks over connections of its own. HTTP as far as this server speaks it."""

    def __init__(self, port: int, key: str = "") -> None:
        self._port = port
        self._key = key

    @asynccontextmanager
    async def connected(
        self, method: str, path: str, body: Any = None, buffer: int = 0
    ) -> AsyncIterator[asyncio.StreamReader]:
        """A connection on which this was sent."""
        plain = socket.socket()
        if buffer:  # of the kernel: who reads slowly would else have all at once
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

    async def send(self, method: str, path: str, body: Any = None) -> Said:
        """What is answered."""
        async with self.connected(method, path, body) as reader:
            whole = await asyncio.wait_for(reader.read(), LONGEST)
        head, _, rest = whole.partition(b"\r\n\r\n")
        return Said(int(head.split(b" ", 2)[1]) if head else 0, rest)

    async def first_event(self, question: str) -> float:
        """Seconds until the first event of an answer; then it is read to its end."""
        begun = time.perf_counter()
        asked = {"question": question, "stream": True}
        async with self.connected("POST", "/v1/answers", asked) as reader:
            await reader.readuntil(b"event: ")
            seconds = time.perf_counter() - begun
            await reader.read()
        return seconds

    async def crawl(self, question: str) -> None:
        """Reads what happens, some bytes a second, until it is cancelled."""
        asked = {"question": question, "stream": True}
        async with self.connected("POST", "/v1/answers", asked, buffer=2048) as reader:
            while await reader.read(64):
                await asyncio.sleep(1)


class Checked:
    """Counts what was wrong with answers."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._texts: dict[str, str] = {}
        self.answers = self.errors = self.quotes = self.unverified = self.declined = 0

    def check(self, said: Said) -> None:
        """One answer: there, and each of its quotes in the stored page."""
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
            page = self._archive.page(digest)
            self._texts[digest] = page.text if page else ""
        return self._texts[digest]


async def together(readers: int, tasks: Sequence[Callable[[], Awaitable[None]]]) -> float:
    """Does all, so many at once; the seconds that it took."""
    left = iter(tasks)

    async def reader() -> None:
        for task in left:
            await task()

    begun = time.perf_counter()
    await asyncio.gather(*(reader() for _ in range(readers)))
    return time.perf_counter() - begun


class Bench:
    """The measurements, on one server."""

    def __init__(self, server: Server, client: Client, checked: Checked, asked: list[str]) -> None:
        self.server = server
        self.client = client
        self.checked = checked
        self._asked = asked
        self._questions = itertools.cycle(asked)

    async def warm(self) -> None:
        """Each question once."""
        await self.load(4, len(self._asked))

    async def load(self, readers: int, answers: int) -> dict[str, float]:
        """So many answers, asked by so many readers at once."""
        times: list[float] = []

        async def ask() -> None:
            with stopwatch(times):
                asked = {"question": next(self._questions)}
                said = await self.client.send("POST", "/v1/answers", asked)
            self.checked.check(said)

        seconds = await together(readers, [ask] * answers)
        row = milliseconds(times) | {"answers/s": answers / seconds}
        return row | {"memory_mb": self.server.megabytes()}

    async def first_events(self, readers: int, count: int) -> dict[str, float]:
        """Milliseconds until readers see that something happens."""
        times: list[float] = []

        async def watch() -> None:
            times.append(await self.client.first_event(next(self._questions)))

        await together(readers, [watch] * count)
        return milliseconds(times)

    async def quick(self) -> dict[str, float]:
        """Milliseconds of a request that asks for little, one after the other."""
        times: list[float] = []
        for _ in range(QUICK):
            with stopwatch(times):
                said = await self.client.send("GET", "/v1/models")
            assert said.status == 200, said
            await asyncio.sleep(0.01)
        return milliseconds(times)

    async def crawled(self) -> dict[str, dict[str, float]]:
        """A quick request alone, beside work, and beside the same work with slow readers."""
        rows = {"nothing else": await self.quick()}
        for name, streams in (("answers are made", False), ("and slowly read", True)):
            ask: Callable[[], Coroutine[Any, Any, object]] = self.crawl if streams else self.silent
            tasks = [asyncio.create_task(ask()) for _ in range(STREAMS)]
            await asyncio.sleep(sized(3.0, 0.2))
            rows[name] = await self.quick()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.settled()
        return rows

    async def crawl(self) -> None:
        """Asks, and reads slowly what happens."""
        await self.client.crawl(next(self._questions))

    async def silent(self, count: int = 1) -> list[str]:
        """Asks without waiting; the ids of what was acknowledged."""
        found: list[str] = []
        for _ in range(count):
            asked = {"question": next(self._questions), "wait": False}
            try:
                said = await self.client.send("POST", "/v1/answers", asked)
            except OSError:
                continue  # its worker was killed: nobody was told that it is kept
            if said.status == 202:
                found.append(json.loads(said.body)["id"])
        return found

    async def settled(self) -> None:
        """Until nothing waits and nothing is under way."""
        while True:
            said = (await self.client.send("GET", "/metrics")).body.decode()
            if re.search(r"^rookery_waiting 0$", said, re.M) and re.search(
                r'^rookery_leases\{of="answers"\} 0$', said, re.M
            ):
                return
            await asyncio.sleep(0.5)

    async def killed(self, count: int) -> dict[str, float]:
        """Workers are killed while many ask; what was acknowledged is then looked for."""
        asking = [asyncio.create_task(self.silent(count // 10)) for _ in range(10)]
        for _ in range(KILLS):
            await asyncio.sleep(1.5)
            if found := self.server.workers():
                os.kill(found[0], signal.SIGKILL)
        kept = [answer for task in asking for answer in await task]
        await self.settled()
        lost = 0
        for answer in kept:
            said = await self.client.send("GET", f"/v1/answers/{answer}")
            lost += said.status != 200 or json.loads(said.body)["state"] != "done"
            self.checked.check(said)
        return {"kills": KILLS, "acknowledged": len(kept), "lost": lost}


async def measured(bench: Bench, answers: int) -> dict[str, Any]:
    """All figures of one server."""
    await bench.warm()
    print("warm", file=sys.stderr)
    rows = {f"{n} at once": await bench.load(n, count) for n, count in READERS.items()}
    show(list(next(iter(rows.values()))), rows)
    first = await bench.first_events(10, sized(100, 10))
    show(list(first), {"first event, 10 at once": first})
    quick = await bench.crawled()
    show(list(quick["nothing else"]), quick)
    killed = await bench.killed(sized(200, 20))
    show(list(killed), {"killed": killed})
    more = max(0, answers - bench.checked.answers)
    if more:
        await bench.load(10, more)
    return {"readers": rows, "first": first, "quick": quick, "killed": killed}


async def ready(client: Client) -> None:
    """Until the server says that it is. Raises TimeoutError."""
    async with asyncio.timeout(LONGEST_START):
        while True:
            try:
                if (await client.send("GET", "/readyz")).status == 200:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.2)


@contextmanager
def running(folder: Path) -> Iterator[tuple[Server, Client]]:
    """A server that is ready, and who asks it with a key."""
    with tempfile.TemporaryDirectory() as home:
        log = Path(home) / "log"
        server = Server(folder, Path(home) / "desk.sqlite", log)
        try:
            asyncio.run(ready(Client(server.port)))
            yield server, Client(server.port, server.key())
        except BaseException:
            print(log.read_text()[-3000:], file=sys.stderr)
            raise
        finally:
            server.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.serve")
    parser.add_argument("--answers", type=int, default=0, help="at least so many in all")
    options = parser.parse_args()
    require(DATA)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    squad = Squad()
    squad.open_library().close()
    archive = Archive(ARCHIVE)
    checked = Checked(archive)
    with running(squad.folder) as (server, client):
        bench = Bench(server, client, checked, [asked.text for asked in squad.sample(5, QUESTIONS)])
        figures = asyncio.run(measured(bench, options.answers))
    names = ("answers", "errors", "declined", "quotes", "unverified")
    wrong = {name: getattr(checked, name) for name in names}
    show(names, {"in all": wrong})
    targets = {"first_ms": FIRST_MS, "slower": SLOWER}
    shape = {"workers": WORKERS, "streams": STREAMS, "targets": targets}
    write("serve", {**shape, **figures, "wrong": wrong})


if __name__ == "__main__":
    main()

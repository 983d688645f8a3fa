"""`rookery serve` as a process, for tests: started, asked, told to end."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
from commands import started
from ports import find_free_port

LONGEST_START = 600.0


class Service:
    """A server, where it is, and what it said."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, out: Path) -> None:
        self.process = process
        self.address = f"http://127.0.0.1:{port}"
        self._out = out

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx2.Response:
        return httpx2.get(self.address + path, headers=headers, timeout=120)

    def ask(self, question: str, key: str = "", **more: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        body = {"question": question, **more}
        return httpx2.post(f"{self.address}/v1/answers", json=body, headers=headers, timeout=120)

    def until_ready(self) -> None:
        end = time.monotonic() + LONGEST_START
        while True:
            try:
                if self.get("/readyz").status_code == 200:
                    return
            except httpx2.TransportError:
                assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end
            time.sleep(0.05)

    def printed(self) -> str:
        return self._out.read_text("utf-8")

    def workers(self) -> list[int]:
        """The processes that serve, where there are several."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        found = []
        for task in tasks:
            with suppress(OSError):  # a thread or process that ends meanwhile
                for pid in task.read_text().split():
                    if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        found.append(int(pid))
        return found

    def end(self) -> tuple[int, list[dict[str, Any]]]:
        """Tells it to end; its exit code, and what it logged."""
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=120)
        lines = said.decode().splitlines()
        return self.process.returncode, [json.loads(line) for line in lines if line[0] == "{"]


@contextmanager
def service(home: Path, place: str, *more: str) -> Iterator[Service]:
    """A server that is ready, over a store."""
    port, out = find_free_port(), home / "printed"
    command = ("serve", "--store", place, "--port", str(port), *more)
    with out.open("wb") as printed, started(home, *command, out=printed.fileno()) as process:
        try:
            served = Service(process, port, out)
            served.until_ready()
            yield served
        finally:
            process.terminate()
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()

"""`transformers serve` as a process on loopback, with the models that lie in a folder.

It speaks as OpenAI's servers do, and nobody here wrote it. A model is called by its folder's name.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 120.0
"""seconds to start in, on a machine that is busy with other tests"""


class Server:
    """The process, and what it has logged."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def logged(self) -> str:
        """All of its log so far."""
        return self._log.read_text("utf-8", "replace")

    def count_requests(self) -> int:
        """How many completions it was asked for."""
        return self.logged().count("[Request received]")

    def port(self) -> int:
        """Where it listens, once it does. Fails with its log where it never will."""
        until = time.monotonic() + PATIENCE
        while not (found := re.search(r"running on http://127\.0\.0\.1:([0-9]+)", self.logged())):
            assert self.process.poll() is None, f"it ended: {self.logged()[-4000:]}"
            assert time.monotonic() < until, f"it does not start: {self.logged()[-4000:]}"
            time.sleep(0.05)
        return int(found[1])

    def base_url(self) -> str:
        """The address of its API, once it listens."""
        return f"http://127.0.0.1:{self.port()}/v1"

    def kill(self) -> None:
        """Ends it at once, whatever it is doing."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(folder: Path, *only: str, port: int = 0) -> Iterator[Server]:
    """The server while the block runs; it starts meanwhile. `only`: the one model that it has."""
    options = ("--host", "127.0.0.1", "--port", str(port), "--device", "cpu")
    lifetime = ("--model-timeout", "3600")
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1", "OMP_NUM_THREADS": "1"}
    log = folder / f"{time.monotonic_ns()}.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "transformers.cli.transformers",
                "serve",
                *only,
                *options,
                *lifetime,
            ],
            cwd=folder,
            env={**os.environ, **offline, "HF_HOME": str(folder / "hub")},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        server = Server(process, log)
        try:
            yield server
        finally:
            server.kill()

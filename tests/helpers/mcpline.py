"""A raw client of MCP: JSON-RPC lines to a real process, and what came back."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from commands import CORVIDS, ROOT, surroundings

Json = dict[str, Any]


def make_request(method: str, id: int | str | None = 1, /, **params: Any) -> Json:
    """A request; a notification where `id` is None."""
    message: Json = {"jsonrpc": "2.0", "method": method, "params": params}
    return message if id is None else {**message, "id": id}


def called(name: str, id: int | str = 1, /, **arguments: Any) -> Json:
    """A call of a tool."""
    return make_request("tools/call", id, name=name, arguments=arguments)


def greeting(version: str = "2025-11-25") -> Json:
    """The first message of a handshake."""
    about = {"name": "test", "version": "1"}
    return make_request(
        "initialize", "hello", protocolVersion=version, capabilities={}, clientInfo=about
    )


def stateless(message: Json, version: str = "2026-07-28") -> Json:
    """The same message as the revision without a handshake has it."""
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": version, f"{prefix}clientCapabilities": {}}
    return {**message, "params": {**message["params"], "_meta": meta}}


class Line:
    """`rookery serve mcp` as a process, and a client that reads and writes its lines."""

    def __init__(self, home: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rookery", "serve", "mcp", *(options or CORVIDS)],
            env={**os.environ, **surroundings(home), "PYTHONPATH": ROOT},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        self._err = self.process.stderr

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self._in, self._out, self._err):
            with suppress(OSError):
                stream.close()

    def send(self, *messages: Any) -> None:
        """Writes messages, as JSON or as the bytes that they are."""
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            self._in.write(data + b"\n")
        self._in.flush()

    def read(self) -> Any:
        """The next line. Whatever is not JSON-RPC fails here."""
        line = self._out.readline()
        reply = json.loads(line)
        for each in reply if isinstance(reply, list) else [reply]:
            assert each["jsonrpc"] == "2.0"
        return reply

    def ask(self, message: Json) -> Json:
        """Sends a request and gives its answer, others being left out."""
        self.send(message)
        while (reply := self.read()).get("id") != message["id"]:
            pass
        found: Json = reply
        return found

    def call(self, name: str, /, **arguments: Any) -> Json:
        """What a tool gives for programs."""
        result = self.ask(called(name, **arguments))["result"]
        assert not result["isError"], result["content"]
        structured: Json = result["structuredContent"]
        return structured

    def read_error(self, name: str, /, **arguments: Any) -> str:
        """The sentence with which a tool says what it could not do."""
        result = self.ask(called(name, **arguments))["result"]
        assert result["isError"]
        sentence: str = result["content"][0]["text"]
        return sentence

    def end(self) -> tuple[int, str, str]:
        """Closes the input: the exit code, and what was still written."""
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out.decode(), err.decode()

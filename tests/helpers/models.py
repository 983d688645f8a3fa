"""A model's server on loopback that answers, or misbehaves, as it was told beforehand."""

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asking:
    """One request, and the socket on which to answer it."""

    def __init__(self, server: "Server", handler: BaseHTTPRequestHandler, data: bytes) -> None:
        self.server = server
        self.connection: socket.socket = handler.connection
        self.path = handler.path
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.fields: dict[str, Any] = json.loads(data)
        self.at = time.monotonic()

    def send(self, data: bytes) -> None:
        """Sends all of it."""
        self.connection.sendall(data)

    def drip(self, data: bytes, seconds: float) -> None:
        """Sends it again and again, so many seconds apart, until the server is closed."""
        while not self.server.closing.wait(seconds):
            self.send(data)

    def reset(self) -> None:
        """Ends the connection with an RST."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


Answer = bytes | Callable[[Asking], bytes | None]
"""what is sent as it is; or who says it, or who sends it and then ends the connection"""


class Server(NamedTuple):
    """A running server: the answers it will give, in order and the last for ever, and who came."""

    base_url: str
    answers: list[Answer]
    asked: list[Asking]
    closing: threading.Event

    def prompts(self) -> list[str]:
        """What was asked, in order."""
        fields = (asking.fields for asking in self.asked)
        return [
            each["prompt"]
            if "prompt" in each
            else "\n".join(message["content"] for message in each["messages"])
            for each in fields
        ]


NOTHING: Mapping[str, bytes] = {}


@contextmanager
def serving(*answers: Answer, files: Mapping[str, bytes] = NOTHING) -> Iterator[Server]:
    """A server with these answers while the block runs, and these pages at these paths."""
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            with turn:
                answer = opened.answers[min(len(opened.asked), len(opened.answers) - 1)]
                opened.asked.append(asking := Asking(opened, self, data))
            with contextlib.suppress(OSError):
                reply = answer if isinstance(answer, bytes) else answer(asking)
                if reply is not None:
                    asking.send(reply)
                    return
            self.close_connection = True

        def do_GET(self) -> None:
            with contextlib.suppress(OSError):
                self.connection.sendall(files.get(self.path) or refused("404 Not Found"))

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # a visitor who leaves in the middle is what the tests are about

    with Quiet(("127.0.0.1", 0), Handler) as listener:
        base_url = f"http://127.0.0.1:{listener.server_port}/v1"
        opened = Server(base_url, list(answers), [], threading.Event())
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        listener.daemon_threads = True
        thread.start()
        try:
            yield opened
        finally:
            opened.closing.set()
            listener.shutdown()
            thread.join()


def reply(
    body: bytes, status: str = "200 OK", kind: str = "application/json", **more: str
) -> bytes:
    """A whole answer of known length; underscores in the names of headers stand for hyphens."""
    headers = {"Content-Type": kind, "Content-Length": str(len(body))}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body


def write_choices(*choices: dict[str, Any], **more: Any) -> bytes:
    """A good answer with these choices."""
    numbered = [{"index": number, **choice} for number, choice in enumerate(choices)]
    return reply(json.dumps({"object": "x", "choices": numbered, **more}).encode())


def chat(content: Any, finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A choice of a chat; what else there is goes into the message."""
    message = {"role": "assistant", "content": content, **more}
    return {"message": message, "finish_reason": finish}


def usage(prompt: int, completion: int) -> dict[str, int]:
    """What a request took."""
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}


def refused(status: str, message: str = "no", **more: str) -> bytes:
    """A refusal as these servers word it."""
    return reply(json.dumps({"error": {"message": message}}).encode(), status, **more)


SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(content: Any = None, finish: str | None = None, **more: Any) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice], **more}).encode() + b"\n\n"


def streamed(*events: bytes) -> bytes:
    """A stream of these events that ends as it should."""
    return SSE + b"".join(map(chunk, events)) + b"0\r\n\r\n"


def cut(*events: bytes) -> Callable[[Asking], None]:
    """A stream of these events whose connection is then dropped."""

    def answer(asking: Asking) -> None:
        asking.send(SSE + b"".join(map(chunk, events)))

    return answer

"""Real servers on loopback, friendly and hostile, for tests of whatever fetches."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple


class Visit:
    """One request, and the socket on which to answer it."""

    def __init__(self, server: "Server", connection: socket.socket, head: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.server = server
        self.connection = connection
        self.path = lines[0].split(" ")[1]
        self.headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        self.at = time.monotonic()

    def send(self, data: bytes) -> None:
        """Sends all of it."""
        self.connection.sendall(data)

    def drip(self, data: bytes, seconds: float) -> None:
        """Sends it byte by byte, so many seconds apart, until the server is closed."""
        for position in range(len(data)):
            self.send(data[position : position + 1])
            if self.server.closing.wait(seconds):
                return

    def reset(self) -> None:
        """Ends the connection with an RST."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


Route = bytes | Callable[[Visit], None]
"""what is sent as it is (the connection stays open for the next request), or who sends it"""


class Server(NamedTuple):
    """A running server."""

    port: int
    visits: list[Visit]
    """all requests so far"""
    connections: list[socket.socket]
    closing: threading.Event
    scheme: str = "http"

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """The address of a path on this server."""
        return f"{self.scheme}://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [visit.path for visit in self.visits]


@contextmanager
def serving(routes: Mapping[str, Route], tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server of these paths ("*" for all others, or else 404) while the block runs."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        port = listener.getsockname()[1]
        scheme = "https" if tls else "http"
        server = Server(port, [], [], threading.Event(), scheme)
        threads: list[threading.Thread] = []
        accepting = threading.Thread(target=_accept, args=(listener, server, routes, tls, threads))
        accepting.start()
        try:
            yield server
        finally:
            server.closing.set()
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(5)
            for connection in server.connections:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)
            for thread in threads:
                thread.join(5)
            assert not any(thread.is_alive() for thread in threads)


def _accept(
    listener: socket.socket,
    server: Server,
    routes: Mapping[str, Route],
    tls: ssl.SSLContext | None,
    threads: list[threading.Thread],
) -> None:
    while not server.closing.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        thread = threading.Thread(target=_serve, args=(connection, server, routes, tls))
        threads.append(thread)
        thread.start()


def _serve(
    connection: socket.socket,
    server: Server,
    routes: Mapping[str, Route],
    tls: ssl.SSLContext | None,
) -> None:
    server.connections.append(connection)
    with contextlib.suppress(OSError), connection:
        if tls is None:
            _answer(connection, server, routes)
            return
        with tls.wrap_socket(connection, server_side=True) as encrypted:
            server.connections.append(encrypted)
            _answer(encrypted, server, routes)


def _answer(connection: socket.socket, server: Server, routes: Mapping[str, Route]) -> None:
    head = b""
    while not server.closing.is_set():
        while b"\r\n\r\n" not in head:
            data = connection.recv(65536)
            if not data:
                return
            head += data
        request, _, head = head.partition(b"\r\n\r\n")
        visit = Visit(server, connection, request)
        server.visits.append(visit)
        route = routes.get(visit.path, routes.get("*", NOT_FOUND))
        if not isinstance(route, bytes):
            route(visit)
            return
        connection.sendall(route)


def reply(
    body: bytes = b"", status: str = "200 OK", kind: str = "text/html; charset=utf-8", **more: str
) -> bytes:
    """A whole answer of known length; underscores in the names of headers stand for hyphens."""
    headers = {"Content-Type": kind, "Content-Length": str(len(body))}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    """An answer that sends its reader elsewhere."""
    return reply(b"gone elsewhere", status, Location=location)


NOT_FOUND = reply(b"<p>There is no such page.", "404 Not Found")

PAGE = reply(
    b"<!doctype html><title>Crows</title><article><h1>Crows</h1>"
    + b"<p>A crow that has found a new tool shows it to its mate before anyone else does.</p>" * 4
    + b"</article>"
)

"""A loopback web server with pages and API answers written down beforehand, and a log of visits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

Headers = dict[str, str]


class Said(NamedTuple):
    """One answer."""

    body: str | bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


class Visit(NamedTuple):
    """One request."""

    path: str
    query: dict[str, str]
    headers: Headers


class Stage(NamedTuple):
    """Where the server is, what it says at each path, and who came."""

    base: str
    routes: dict[str, Said | Callable[[Visit], Said]]
    visits: list[Visit]

    def paths(self) -> list[str]:
        """The paths asked for, in order, robots.txt left out."""
        return [visit.path for visit in self.visits if visit.path != "/robots.txt"]


@contextmanager
def stage() -> Iterator[Stage]:
    """A running server; what it has no route for is a 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            names = {name.lower(): value for name, value in self.headers.items()}
            visit = Visit(parts.path, query, names)
            opened_stage.visits.append(visit)
            route = opened_stage.routes.get(parts.path, Said("<p>Nothing is here.</p>", status=404))
            reply = route(visit) if callable(route) else route
            body = reply.body if isinstance(reply.body, bytes) else reply.body.encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(body)))
            for name, value in reply.headers:
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # the visitor may have left
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    opened_stage = Stage(f"http://127.0.0.1:{server.server_port}", {}, [])
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield opened_stage
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

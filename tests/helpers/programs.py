"""A server for programs, on loopback, over the little web that comes with the package."""

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import uvicorn
from openai import OpenAI
from starlette.applications import Starlette

from rookery.desk.store import Store
from rookery.server.api import routes
from rookery.server.api.answer_queue import AnswerService
from rookery.server.api.endpoints import ApiLimits
from rookery.server.app import build_web_app
from rookery.settings import ModelSettings, Settings

BODY_LIMIT = 50_000


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """What an error in OpenAI's shape says, and nothing besides."""
        (error,) = self.json.values()
        assert set(error) == {"message", "type", "param", "code"}
        found: dict[str, Any] = error
        return found


class Served(NamedTuple):
    """Where the server is, and what stands behind it."""

    address: str
    store: Store
    app: Starlette

    @property
    def answering(self) -> AnswerService:
        answering: AnswerService = self.app.state.answering
        return answering

    def openai(self, key: str = "none") -> OpenAI:
        """The official client, which tries nothing twice."""
        return OpenAI(base_url=f"{self.address}/v1", api_key=key, max_retries=0)

    def send(
        self,
        path: str,
        body: Any = None,
        *,
        method: str = "",
        key: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request: bytes as they are, anything else as JSON."""
        all_headers = {"Content-Type": "application/json", **(headers or {})}
        if key:
            all_headers["Authorization"] = f"Bearer {key}"
        content = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        connection = HTTPConnection(self.address.removeprefix("http://"), timeout=600)
        try:
            how = method or ("GET" if body is None else "POST")
            connection.request(how, path, content, all_headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()


@contextmanager
def served(
    place: Path,
    settings: Settings = Settings(("rookery:corvids",)),
    limits: ApiLimits = ApiLimits(body=BODY_LIMIT, answering=600),
) -> Iterator[Served]:
    """The whole application over a store."""
    listener = socket.create_server(("127.0.0.1", 0))
    with Store(str(place)) as store:
        app = build_web_app(store, settings)
        app.router.routes[:0] = routes.build_api_routes(limits)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", store, app)
        finally:
            server.should_exit = True
            thread.join()
            listener.close()


def by_model(address: str) -> Settings:
    """The same library, and a model behind a server."""
    models = ModelSettings("small", f"{address}/v1")
    return Settings(("rookery:corvids",), private=True, models=models)

"""Whether a server answers, whether it is ready, and what it counts: /healthz, /readyz, /metrics.

For those who run it. It knows nothing of pages and questions.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from threading import Lock

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from rookery.judge.store import Store
from rookery.records import Failed
from rookery.serve.web.api_door import at_home
from rookery.serve.web.api_errors import Refused
from rookery.serve.web.api_keys import admitted
from rookery.serve.web.api_streams import json
from rookery.serve.web.metrics import KIND, Counting, Ended, text
from rookery.serve.web.wanted import Wanted

_LOG = logging.getLogger("rookery.health")
READY = "ready"
Answers = Callable[[Request], Awaitable[Response]]


class Health:
    """What is told of an application to those who run it.

    /healthz and /readyz are for all, and say no more than words of ours. /metrics is for this very
    machine, and for whoever holds a key.
    """

    def __init__(self, app: Starlette, counting: Counting) -> None:
        self._app = app
        self._store: Store = app.state.desk.store
        self._counting = counting
        self._ended = Ended(self._store)
        self._reading = Lock()
        self._opening = Lock()
        # Threads of its own: that all others are busy does not make it ill.
        self._room = CapacityLimiter(4)

    def addresses(self) -> Mapping[str, Answers]:
        """What answers at which path."""
        return {"/healthz": self._healthy, "/readyz": self._ready, "/metrics": self._metrics}

    async def _healthy(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _ready(self, request: Request) -> Response:
        states = await run_sync(self._states, limiter=self._room)
        ready = all(state == READY for state in states.values())
        return json(states, 200 if ready else 503)

    async def _metrics(self, request: Request) -> Response:
        try:
            return await run_sync(self._counted, request, limiter=self._room)
        except Refused as refused:
            return PlainTextResponse(f"{refused.detail.message}\n", 401)
        except Failed as failed:
            _LOG.error("/metrics: %s", failed)
            return PlainTextResponse("The store cannot be read.\n", 503)

    def _counted(self, request: Request) -> Response:
        if not at_home(request):
            admitted(self._store, request.headers.get("authorization", ""), open_here=False)
        with self._reading:
            ended = self._ended.counted()
        body = text(self._counting.all(), ended, self._store)
        return Response(body, media_type=KIND)

    def _states(self) -> dict[str, str]:
        states = {"store": self._store_state()}
        if hasattr(self._app.state, "answering"):
            states["library"] = self._library_state()
        return states

    def _store_state(self) -> str:
        """Opened anew, so that what happened to it since is seen."""
        try:
            Store(self._store.place).close()
        except Failed as failed:
            return failed.failure.outcome
        return READY

    def _library_state(self) -> str:
        # Of several who look while a library is made, one waits for it.
        if not self._opening.acquire(blocking=False):
            return "opening"
        try:
            with self._app.state.answering.holdings(Wanted("")):
                return READY
        except Failed as failed:
            return failed.failure.outcome
        finally:
            self._opening.release()

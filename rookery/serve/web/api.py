"""The HTTP API: the operations of all conventions, under one door.

It knows nothing of what they do.
"""

from collections.abc import Sequence

from anyio import CapacityLimiter
from starlette.responses import Response
from starlette.routing import Route

from rookery.serve.web import api_answers, api_chat, api_responses, api_search
from rookery.serve.web.answering import answering_of
from rookery.serve.web.api_door import Address, ApiLimits, Call, Door, Operation, Rooms
from rookery.serve.web.api_errors import Refused
from rookery.serve.web.api_keys import Rates
from rookery.serve.web.api_schema import document
from rookery.serve.web.api_streams import json

MODULES = (api_responses, api_chat, api_answers, api_search)


def operations() -> list[Operation]:
    """All that programs can ask."""
    return [each for module in MODULES for each in module.operations()]


def routes(limits: ApiLimits = ApiLimits()) -> list[Route]:
    """The addresses of the API, and its own description at /openapi.json."""
    every = operations()

    async def described(call: Call) -> Response:
        return json(document(every, answering_of(call.request).offers))

    rooms = Rooms(CapacityLimiter(limits.answers), CapacityLimiter(limits.searches))
    door = Door(Rates(), limits, rooms)
    about = Operation("GET", "/openapi.json", "about", "This document", described, None)
    found = [_route(path, every, door) for path in dict.fromkeys(each.path for each in every)]
    return [_route("/openapi.json", [about], door), *found, _nowhere(door)]


def _route(path: str, every: Sequence[Operation], door: Door) -> Route:
    return Route(path, Address([each for each in every if each.path == path], door))


def _nowhere(door: Door) -> Route:
    """What lies below /v1/ and is nothing."""

    async def nothing(call: Call) -> Response:
        message = "There is nothing at this address: GET /openapi.json says what there is."
        raise Refused(404, message, "no_such_address")

    methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
    path = "/v1/{rest:path}"
    return Route(
        path, Address([Operation(each, path, "", "", nothing, None) for each in methods], door)
    )

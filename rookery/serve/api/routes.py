"""The OpenAPI 3.1 document: paths, request and response types, and errors.

It is made from the operations and the types of their bodies.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from anyio import CapacityLimiter
from starlette.responses import Response
from starlette.routing import Route

from rookery import __version__
from rookery.serve.api import answers, chat_completions, messages, responses, search
from rookery.serve.api.answer_sessions import ServerCapabilities
from rookery.serve.api.answer_workers import get_answer_service
from rookery.serve.api.endpoints import (
    EVENT_STREAM_TYPE,
    JSON_TYPE,
    ApiEndpoint,
    ApiError,
    ApiLimiters,
    ApiLimits,
    ApiOperation,
    ApiRequest,
    EndpointContext,
    KeyRateLimiter,
    build_json_response,
)
from rookery.serve.api.questions import RookeryOptions, list_model_names

ERROR_DESCRIPTIONS = {
    401: "The key is missing, wrong or revoked",
    403: "Sent by a page of another site",
    429: "The key's rate limit or budget is exhausted",
    500: "Something went wrong here",
    503: "The store, or the model's server, is busy",
}
BODY_ERRORS = {
    400: "The body is not JSON or does not fit the schema",
    408: "The body took too long to arrive",
    413: "The body is too large",
    415: "The body is not declared as JSON",
}
ANSWER_ERRORS = {
    502: "The model's server failed",
    504: "That took too long",
    507: "The server's disk is full",
}
EVENT_SCHEMA = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
RETRY_HEADER = {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}}}


def build_openapi_document(
    operations: Sequence[ApiOperation], offered: ServerCapabilities | None = None
) -> dict[str, Any]:
    """Return the OpenAPI document of these operations, with the choices that `offered` gives."""
    types = [
        each
        for op in operations
        for each in (op.request_type, op.response_type, op.error_type)
        if each is not None
    ]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    if offered is not None:
        _add_choices(components, offered)
    of = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = re.sub(r":path\}", "}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _describe_operation(operation, of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Rookery",
            "version": __version__,
            "description": "Answers whose quotes anyone can check.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        # The empty entry: local clients need no key before the first one is created.
        "security": [{"key": []}, {"apiKey": []}, {}],
    }


def _add_choices(components: dict[str, Any], offered: ServerCapabilities) -> None:
    """Add the available models, methods and places as enums."""
    for name in ("ResponsesRequest", "ChatRequest", "MessagesRequest"):
        components[name]["properties"]["model"]["enum"] = list_model_names(offered)
    asked = components["AnswerRequest"]["properties"]
    asked["method"]["enum"] = list(offered.methods)
    asked["model"]["enum"] = ["", *offered.models]
    for places in (asked["places"], components[RookeryOptions.__name__]["properties"]["places"]):
        for kind in places["anyOf"]:
            if kind.get("type") == "array":
                kind["items"]["enum"] = list(offered.places)


def _describe_operation(operation: ApiOperation, of: dict[int, Any]) -> dict[str, Any]:
    error = of[id(operation.error_type)]
    good: dict[str, Any] = {}
    if operation.response_type is not None:
        good[JSON_TYPE] = {"schema": of[id(operation.response_type)]}
    if operation.streams:
        good[EVENT_STREAM_TYPE] = {"schema": EVENT_SCHEMA}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": _list_parameters(operation.path),
        "responses": {"200": {"description": "Success", "content": good}},
    }
    if operation.may_be_pending:
        described["responses"]["202"] = {
            "description": "Accepted; the answer is not finished",
            "content": {JSON_TYPE: good[JSON_TYPE]},
        }
    if operation.links:
        links = {
            name: {"operationId": name, "parameters": {param: "$response.body#/id"}}
            for name, param in operation.links.items()
        }
        for status in ("200", "202"):
            described["responses"][status]["links"] = links
    for number, why in sorted(_list_errors(operation)):
        described["responses"][str(number)] = _describe_error(number, why, error)
    if operation.request_type is not None:
        content = {JSON_TYPE: {"schema": of[id(operation.request_type)]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _list_errors(operation: ApiOperation) -> Iterable[tuple[int, str]]:
    found = dict(ERROR_DESCRIPTIONS)
    if operation.request_type is not None:
        found |= BODY_ERRORS | ANSWER_ERRORS | {404: "There is no such model, method or place"}
    elif "{" in operation.path:
        found |= {404: "There is nothing with this id"}
    if operation.validation_status == 422:
        found[422] = "The body does not fit the schema"
    return found.items()


def _describe_error(status: int, why: str, error: Any) -> dict[str, Any]:
    headers = {"headers": RETRY_HEADER} if status in (429, 503) else {}
    return {"description": why, "content": {JSON_TYPE: {"schema": error}}, **headers}


def _list_parameters(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)(?::path)?\}", path)
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in names
    ]


def list_api_operations() -> list[ApiOperation]:
    """List the operations of every API protocol, as served and documented."""
    return [
        *responses.list_response_operations(),
        *chat_completions.list_chat_operations(),
        *messages.list_message_operations(),
        *answers.list_answer_operations(),
        *search.list_search_operations(),
    ]


def build_api_routes(limits: ApiLimits = ApiLimits()) -> list[Route]:
    """Return the routes of the API, /openapi.json and 404 responses below /v1/."""
    every = list_api_operations()

    async def serve_document(call: ApiRequest) -> Response:
        return build_json_response(
            build_openapi_document(every, get_answer_service(call.request).capabilities)
        )

    rooms = ApiLimiters(CapacityLimiter(limits.answers), CapacityLimiter(limits.searches))
    door = EndpointContext(KeyRateLimiter(), limits, rooms)
    about = ApiOperation("GET", "/openapi.json", "about", "Get this document", serve_document, None)
    found = [_build_route(path, every, door) for path in dict.fromkeys(each.path for each in every)]
    return [_build_route("/openapi.json", [about], door), *found, _build_not_found_route(door)]


def _build_route(path: str, every: Sequence[ApiOperation], door: EndpointContext) -> Route:
    return Route(path, ApiEndpoint([each for each in every if each.path == path], door))


def _build_not_found_route(door: EndpointContext) -> Route:
    """Return the route that answers 404 to every other path below /v1/."""

    async def refuse_request(call: ApiRequest) -> Response:
        message = "There is nothing at this address: GET /openapi.json says what there is."
        raise ApiError(404, message, "no_such_address")

    methods = ("GET", "POST", "PUT", "PATCH", "DELETE")
    path = "/v1/{rest:path}"
    return Route(
        path,
        ApiEndpoint(
            [ApiOperation(each, path, "", "", refuse_request, None) for each in methods], door
        ),
    )

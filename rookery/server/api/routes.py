"""The OpenAPI 3.1 document: paths, request and response types, and errors.

It is made from the operations, the types of their bodies, the docstrings below the fields of these,
and the examples of the operations.
"""

import ast
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import msgspec
from anyio import CapacityLimiter
from starlette.responses import Response
from starlette.routing import Route

from rookery.server.api import answers, chat_completions, messages, responses, search
from rookery.server.api.answer_sessions import ServerCapabilities
from rookery.server.api.answer_workers import get_answer_service
from rookery.server.api.endpoints import (
    EVENT_STREAM_TYPE,
    JSON_TYPE,
    ApiEndpoint,
    ApiError,
    ApiLimiters,
    ApiLimits,
    ApiOperation,
    ApiRequest,
    EndpointContext,
    build_json_response,
    build_unknown_model_error,
)
from rookery.server.api.questions import RookeryOptions, list_model_names
from rookery.shell.security import TokenBuckets
from rookery.version import __version__

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
    "properties": {
        "event": {"type": "string", "description": "Name of the event.", "examples": ["error"]},
        "data": {
            "type": "string",
            "description": "The event as JSON, or the end of the stream.",
            "examples": ["[DONE]"],
        },
    },
    "required": ["data"],
}
RETRY_HEADER = {
    "Retry-After": {"description": "Seconds to wait.", "example": 2, "schema": {"type": "integer"}}
}
PATH_PARAMETERS = {
    "answer_id": ("Id of an answer that this key asked for.", "591785b794601e212b260e25925636fd"),
    "env_name": ("Name of the environment.", "rookery"),
    "model": ("Name of a model.", "rookery-extract"),
    "response_id": ("Id of a response that is stored for this key.", "resp_1"),
}
"""description and example of the parameters in paths"""


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
    refused = build_unknown_model_error("gpt")
    errors = [refused.build_body(operation.error_type) for operation in operations]
    _describe_constants(components)
    _describe_properties(components, [*(op.examples for op in operations), errors])
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


def _describe_constants(components: dict[str, Any]) -> None:
    """Describe the properties that have one possible value by that value."""
    for schema in components.values():
        for described in schema.get("properties", {}).values():
            values = [None] if described.get("type") == "null" else described.get("enum", ())
            if len(values) == 1:
                described["description"] = f"Always {msgspec.json.encode(values[0]).decode()}."
                described["examples"] = values


def _describe_properties(components: dict[str, Any], examples: Iterable[Any]) -> None:
    """Describe the properties of the records in `examples`, and give each its value there.

    The description is the docstring below the field; without one, that of the record in it.
    """
    for record in _iterate_records(examples):
        name, docstrings = type(record).__name__, dict[str, str]()
        for kind in type(record).__mro__:
            if issubclass(kind, msgspec.Struct):
                docstrings |= _read_field_docstrings(kind.__module__)[kind.__name__]
        values = msgspec.to_builtins(record)
        for field, described in components.get(name, {}).get("properties", {}).items():
            kinds = [kind for kind in (described, *described.get("anyOf", ())) if "$ref" in kind]
            if field in docstrings:
                described.setdefault("description", docstrings[field])
            elif len(kinds) == 1:
                inner = components[kinds[0]["$ref"].rpartition("/")[2]]
                described.setdefault("description", inner["description"])
            if values.get(field) is not None:
                described.setdefault("examples", [values[field]])


def _iterate_records(value: Any) -> Iterator[msgspec.Struct]:
    """Yield the records in a value, from the outermost to the innermost."""
    if isinstance(value, msgspec.Struct):
        yield value
        value = msgspec.structs.astuple(value)
    if isinstance(value, list | tuple):
        for each in value:
            yield from _iterate_records(each)


@cache
def _read_field_docstrings(module: str) -> Mapping[str, dict[str, str]]:
    """Return the docstrings of fields as sentences, by the classes of a module and the fields."""
    docstrings = defaultdict[str, dict[str, str]](dict)
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    for kind in (each for each in body if isinstance(each, ast.ClassDef)):
        for pair in pairwise(kind.body):
            match pair:
                case [ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(docstring)))]:
                    text = inspect.cleandoc(docstring)
                    docstrings[kind.name][name] = f"{text[0].upper()}{text[1:]}."
    return docstrings


def _add_choices(components: dict[str, Any], offered: ServerCapabilities) -> None:
    """Add the available models, methods and places as enums."""
    for name in ("ResponsesRequest", "ChatRequest", "MessagesRequest"):
        components[name]["properties"]["model"]["enum"] = list_model_names(offered)
    fields = components["AnswerRequest"]["properties"]
    fields["method"]["enum"] = list(offered.methods)
    fields["model"] |= {"enum": ["", *offered.models], "examples": [*offered.models, ""][:1]}
    options = components[RookeryOptions.__name__]["properties"]
    for places in (fields["places"], options["places"]):
        for kind in places["anyOf"]:
            if kind.get("type") == "array":
                kind["items"]["enum"] = list(offered.places)
        places["examples"] = [list(offered.places)[:1]]


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
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": PATH_PARAMETERS[name][0],
            "example": PATH_PARAMETERS[name][1],
            "schema": {"type": "string", "minLength": 1},
        }
        for name in re.findall(r"\{(\w+)(?::path)?\}", path)
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
    door = EndpointContext(TokenBuckets(), limits, rooms)
    about = ApiOperation("GET", "/openapi.json", "about", "Get this document", serve_document, None)
    routes = [
        _build_route(path, every, door) for path in dict.fromkeys(each.path for each in every)
    ]
    return [_build_route("/openapi.json", [about], door), *routes, _build_not_found_route(door)]


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

"""The HTTP API as a whole: its operations, their routes, and its OpenAPI 3.1 document.

The document is made from the operations, the types of their bodies, the docstrings below the fields
of these, and examples of values by the names of the fields.
"""

import ast
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from anyio import CapacityLimiter
from starlette.responses import Response
from starlette.routing import Route

from rookery.server.api.answer_queue import get_answer_service
from rookery.server.api.answer_sessions import ServerCapabilities
from rookery.server.api.answers import ANSWER_OPERATIONS
from rookery.server.api.chat_protocols import CHAT_OPERATIONS, MESSAGES_PATH
from rookery.server.api.endpoints import (
    EVENT_STREAM_TYPE,
    JSON_TYPE,
    AnthropicErrorBody,
    ApiEndpoint,
    ApiError,
    ApiLimits,
    ApiOperation,
    ApiRequest,
    EndpointContext,
    ErrorBody,
    build_json_response,
)
from rookery.server.api.questions import RookeryOptions, list_model_names
from rookery.server.api.search import SEARCH_OPERATIONS
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
    404: "There is no such model, method or place",
    408: "The body took too long to arrive",
    413: "The body is too large",
    415: "The body is not declared as JSON",
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


EXAMPLE_VALUES: Mapping[str, Any] = {
    name: value
    for names, value in msgspec.toml.decode(
        Path(__file__).with_name("examples.toml").read_bytes()
    ).items()
    for name in names.split()
}
"""examples of values by the name of their field, or by record and field"""
SIMPLE_EXAMPLES = {"boolean": True, "integer": 1, "number": 0.5}
"""examples of values by their type, where EXAMPLE_VALUES has none of the field"""
JSON_TYPES = {bool: "boolean", int: "integer number", dict: "object", str: "string"}
"""JSON types by Python type"""


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
    _describe_constants(components)
    _describe_properties(components, types)
    if offered is not None:
        _add_choices(components, offered)
    of = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = re.sub(r":path\}", "}", operation.path)
        described = _describe_operation(operation, of, operations)
        paths.setdefault(path, {})[operation.method.lower()] = described
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


def _describe_properties(components: dict[str, Any], types: Iterable[Any]) -> None:
    """Describe the properties of the records in `types`, and give each an example.

    The description is the docstring below the field; without one, that of the record in it.
    """
    for record in set(iterate_records(msgspec.inspect.multi_type_info(types))):
        docstrings = dict[str, str]()
        for kind in record.__mro__:
            if issubclass(kind, msgspec.Struct):
                docstrings |= _read_field_docstrings(kind.__module__)[kind.__name__]
        names = {each.name: each.encode_name for each in msgspec.structs.fields(record)}
        docstrings = {names.get(name, name): each for name, each in docstrings.items()}
        for field, described in components[record.__name__].get("properties", {}).items():
            kinds = [kind for kind in (described, *described.get("anyOf", ())) if "$ref" in kind]
            if field in docstrings:
                described.setdefault("description", docstrings[field])
            elif len(kinds) == 1:
                inner = components[kinds[0]["$ref"].rpartition("/")[2]]
                described.setdefault("description", inner["description"])
            example = _build_example(described, components, field, record.__name__)
            if example is not None:
                described.setdefault("examples", [example])


def iterate_records(value: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the types of the records in msgspec's descriptions of types, with repetitions."""
    if isinstance(value, msgspec.inspect.StructType):
        yield value.cls
    parts = msgspec.structs.astuple(value) if isinstance(value, msgspec.Struct) else value
    if isinstance(parts, list | tuple):
        for each in parts:
            yield from iterate_records(each)


def _build_example(
    schema: dict[str, Any], components: dict[str, Any], name: str, record: str
) -> Any:
    """Return a value of a field that fits a schema: by its name and its type; None if unknown."""
    if "anyOf" in schema:
        return _build_example(schema["anyOf"][0], components, name, record)
    if "$ref" in schema:
        inner = schema["$ref"].rpartition("/")[2]
        fields = components[inner].get("properties", {}).items()
        return {field: _build_example(each, components, field, inner) for field, each in fields}
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind == "array":
        example = _build_example(schema.get("items", {}), components, name, record)
        return [] if example is None else [example]
    values = (EXAMPLE_VALUES.get(f"{record}.{name}"), EXAMPLE_VALUES.get(name))
    fitting = (value for value in values if kind in JSON_TYPES.get(type(value), ""))
    return next(fitting, schema.get("default", SIMPLE_EXAMPLES.get(kind)))


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
    for name in ("ResponsesRequest", "ChatRequest", "MessagesRequest", "TokenCountRequest"):
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


def _describe_operation(
    operation: ApiOperation, of: dict[int, Any], every: Sequence[ApiOperation]
) -> dict[str, Any]:
    error = of[id(operation.error_type)]
    good: dict[str, Any] = {}
    if operation.response_type is not None:
        good[JSON_TYPE] = {"schema": of[id(operation.response_type)]}
    if operation.streams:
        good[EVENT_STREAM_TYPE] = {"schema": EVENT_SCHEMA}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": (operation.handler.__doc__ or "").partition("\n")[0].removesuffix("."),
        "parameters": _list_parameters(operation.path),
        "responses": {"200": {"description": "Success", "content": good}},
    }
    if parameter := operation.record_parameter:
        described["responses"]["202"] = {
            "description": "Accepted; the answer is not finished",
            "content": {JSON_TYPE: good[JSON_TYPE]},
        }
        links = {
            each.name: {"operationId": each.name, "parameters": {parameter: "$response.body#/id"}}
            for each in every
            if f"{{{parameter}}}" in each.path
        }
        for status in ("200", "202"):
            described["responses"][status]["links"] = links
    for number, why in sorted(_list_errors(operation)):
        headers = {"headers": RETRY_HEADER} if number in (429, 503) else {}
        content = {JSON_TYPE: {"schema": error}}
        described["responses"][str(number)] = {"description": why, "content": content, **headers}
    if operation.request_type is not None:
        content = {JSON_TYPE: {"schema": of[id(operation.request_type)]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _list_errors(operation: ApiOperation) -> Iterable[tuple[int, str]]:
    found = dict(ERROR_DESCRIPTIONS)
    if operation.request_type is not None:
        found |= BODY_ERRORS
    elif "{" in operation.path:
        found |= {404: "There is nothing with this id"}
    if operation.validation_status == 422:
        found[422] = "The body does not fit the schema"
    return found.items()


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


API_OPERATIONS = (*CHAT_OPERATIONS, *ANSWER_OPERATIONS, *SEARCH_OPERATIONS)
"""the operations of every API protocol, as served and documented"""


def build_api_routes(limits: ApiLimits = ApiLimits()) -> list[Route]:
    """Return the routes of the API, /openapi.json and 404 responses below /v1/.

    Each of these has the shape of errors of the protocol whose path it is below.
    """
    answering, searching = CapacityLimiter(limits.answers), CapacityLimiter(limits.searches)
    door = EndpointContext(TokenBuckets(), limits, answering, searching)
    about = ApiOperation("GET", "/openapi.json", "about", _serve_document, None)
    rest = [
        ApiOperation(method, f"{path}/{{rest:path}}", "", _refuse_address, None, error_type=shape)
        for path, shape in ((MESSAGES_PATH, AnthropicErrorBody), ("/v1", ErrorBody))
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    ]
    by_path = defaultdict[str, list[ApiOperation]](list)
    for operation in (about, *API_OPERATIONS, *rest):
        by_path[operation.path].append(operation)
    return [Route(path, ApiEndpoint(operations, door)) for path, operations in by_path.items()]


async def _serve_document(call: ApiRequest) -> Response:
    """Get this document."""
    offered = get_answer_service(call.request).capabilities
    return build_json_response(build_openapi_document(API_OPERATIONS, offered))


async def _refuse_address(call: ApiRequest) -> Response:
    """Answer 404 to every other path below /v1/."""
    message = "There is nothing at this address: GET /openapi.json says what there is."
    raise ApiError(404, message, "no_such_address")

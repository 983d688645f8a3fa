"""The OpenAPI 3.1 document: every address, what it takes and gives, and its errors.

Made from the operations and from the types of their bodies. It knows nothing of what they do.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from rookery import __version__
from rookery.serve.web.api_door import EVENTS, JSON, Operation
from rookery.serve.web.api_errors import ErrorBody, PlainError
from rookery.serve.web.api_wanted import models
from rookery.serve.web.wanted import Offers

REFUSALS = {
    401: "The key is missing, wrong or revoked",
    403: "Asked by a page of another site",
    429: "The key's requests or its budget are spent",
    500: "Something went wrong here",
    503: "The store, or the model's server, is busy",
}
OF_A_BODY = {
    400: "The body is no JSON, or not what it must be",
    408: "The body took too long to arrive",
    413: "The body is too large",
    415: "The body is not declared as JSON",
}
OF_AN_ANSWER = {
    502: "The model's server does not answer as it should",
    504: "That took too long",
    507: "The server has no room to keep it",
}
EVENT = {
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
AFTER = {"Retry-After": {"description": "seconds to wait", "schema": {"type": "integer"}}}


def document(operations: Sequence[Operation], offered: Offers) -> dict[str, Any]:
    """The whole document, of a server that offers this."""
    types = [each for op in operations for each in (op.takes, op.gives) if each is not None]
    types += [ErrorBody, PlainError]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    _name_offers(components, offered)
    of = {id(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = re.sub(r":path\}", "}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, of)
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
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        # Without a key: on the machine itself, before the first key is made.
        "security": [{"key": []}, {}],
    }


def _name_offers(components: dict[str, Any], offered: Offers) -> None:
    """What can be chosen among, where it is chosen."""
    for name in ("ResponsesRequest", "ChatRequest"):
        components[name]["properties"]["model"]["enum"] = models(offered)
    asked = components["AnswerRequest"]["properties"]
    asked["method"]["enum"] = list(offered.methods)
    asked["model"]["enum"] = ["", *offered.models]
    for places in (asked["places"], components["Options"]["properties"]["places"]):
        for kind in places["anyOf"]:
            if kind.get("type") == "array":
                kind["items"]["enum"] = list(offered.places)


def _operation(operation: Operation, of: dict[int, Any]) -> dict[str, Any]:
    error = of[id(PlainError if operation.plain else ErrorBody)]
    good: dict[str, Any] = {}
    if operation.gives is not None:
        good[JSON] = {"schema": of[id(operation.gives)]}
    if operation.streams:
        good[EVENTS] = {"schema": EVENT}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": _parameters(operation.path),
        "responses": {"200": {"description": "Done", "content": good}},
    }
    if operation.later:
        described["responses"]["202"] = {"description": "Under way", "content": {JSON: good[JSON]}}
    if operation.leads:
        links = {
            name: {"operationId": name, "parameters": {param: "$response.body#/id"}}
            for name, param in operation.leads.items()
        }
        for status in ("200", "202"):
            described["responses"][status]["links"] = links
    for number, why in sorted(_refusals(operation)):
        described["responses"][str(number)] = _refusal(number, why, error)
    if operation.takes is not None:
        content = {JSON: {"schema": of[id(operation.takes)]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _refusals(operation: Operation) -> Iterable[tuple[int, str]]:
    found = dict(REFUSALS)
    if operation.takes is not None:
        found |= OF_A_BODY | OF_AN_ANSWER | {404: "There is no such model, method or place"}
    elif "{" in operation.path:
        found |= {404: "There is no such thing"}
    if operation.plain:
        found[422] = "The body is not what it must be"
    return found.items()


def _refusal(status: int, why: str, error: Any) -> dict[str, Any]:
    headers = {"headers": AFTER} if status in (429, 503) else {}
    return {"description": why, "content": {JSON: {"schema": error}}, **headers}


def _parameters(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)(?::path)?\}", path)
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in names
    ]

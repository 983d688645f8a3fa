"""The OpenAPI documents: a description and a fitting example for every property and parameter."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from rookery.server import environment
from rookery.server.api.answer_sessions import ServerCapabilities
from rookery.server.api.endpoints import ApiOperation
from rookery.server.api.routes import API_OPERATIONS, build_openapi_document, iterate_records
from rookery.settings import ModelSettings

DOCUMENTED = {"api": API_OPERATIONS, "env": environment.OPERATIONS}
SMALL = ModelSettings("small", "http://127.0.0.1:1/v1")
OFFERED = ServerCapabilities(
    ("extract", "webgpt"), {"small": SMALL}, {"notes": "/notes"}, ("notes",)
)

NO_SCHEMAS = ("contains", "examples", "example", "links")
"""keywords below which no property is defined; `contains` is a condition on what is elsewhere"""


class Undescribed(msgspec.Struct):
    """A record."""

    bare: str
    other: dict[str, int]
    """A field without an example."""


def document_of(operations: Sequence[ApiOperation]) -> Any:
    """As clients get it."""
    offered = OFFERED if operations is DOCUMENTED["api"] else None
    return json.loads(msgspec.json.encode(build_openapi_document(operations, offered)))


def described(part: Any, at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property, parameter, header and schema of a document, by its place."""
    for name, inner in part.items() if isinstance(part, dict) else enumerate(part):
        here = f"{at}/{name}"
        if at.endswith(("/properties", "/parameters", "/headers")):
            yield here, inner
        if isinstance(inner, dict | list) and name not in NO_SCHEMAS:
            yield from described(inner, here)


def gaps(document: Any) -> list[str]:
    """The places that want a description or an example."""
    found = [
        f"{at}: {wanted}"
        for at, part in described(document)
        for wanted in ("description", "example")
        if not (part.get(wanted) or (wanted == "example" and part.keys() & {"example", "examples"}))
    ]
    schemas = document["components"]["schemas"].items()
    return found + [name for name, schema in schemas if not schema.get("description")]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_property_and_parameter_has_a_description_and_an_example(name: str) -> None:
    document = document_of(DOCUMENTED[name])
    assert len(list(described(document))) > 40
    assert gaps(document) == []


def test_what_is_not_described_is_found() -> None:
    made = document_of([ApiOperation("GET", "/a", "a", environment._get_state, Undescribed)])
    at = "/components/schemas/Undescribed/properties"
    assert gaps(made) == [
        f"{at}/bare: description",
        f"{at}/bare: example",
        f"{at}/other: example",
    ]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_example_fits_its_type(name: str) -> None:
    document = document_of(DOCUMENTED[name])
    types = [
        kind
        for each in DOCUMENTED[name]
        for kind in (each.request_type, each.response_type, each.error_type)
        if kind is not None
    ]
    for record in iterate_records(msgspec.inspect.multi_type_info(types)):
        properties = document["components"]["schemas"][record.__name__].get("properties", {})
        example = {field: part["examples"][0] for field, part in properties.items()}
        assert isinstance(msgspec.convert(example, record), record)
    for at, part in described(document):
        for shown in part.get("examples", ()):
            assert "enum" not in part or shown in part["enum"], at

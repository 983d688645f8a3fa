"""Read TOML files into settings, and name the nearest key where one is unknown."""

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from rookery.records import Failed, Failure

S = TypeVar("S", bound=msgspec.Struct)
Place = tuple[str, ...]
"""the names of the tables that lead to a table, from the file's top on"""
_FEW = 12
"""keys of a table that are all named where none of them is near"""


def read_table(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises Failed (bad_config)."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): name a TOML file"
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        detail = f"it is no TOML: {error}"
    raise Failed(Failure(str(path), "bad_config", detail))


def settings_of(
    table: dict[str, Any], kind: type[S], path: Path, under: Place = (), also: Place = ()
) -> S:
    """A table as these settings; it stands `under` other tables of the file, whose key `also` may
    be in it. Raises Failed (bad_config), naming what is unknown or wrong, and the nearest key."""
    detail = misspelt(table, kind, under, also)
    if not detail:
        try:
            return msgspec.convert(table, kind)
        except (msgspec.MsgspecError, ValueError) as error:
            place = f"[{'.'.join(under)}]: " if under else ""
            detail = f"correct it: {place}{error}"
    raise Failed(Failure(str(path), "bad_config", detail))


def over(below: Any, above: Any) -> Any:
    """The second table over the first: what it says counts, and below it what only the first says;
    tables within them alike."""
    if not (isinstance(below, Mapping) and isinstance(above, dict)):
        return above
    return {**below} | {name: over(below.get(name), value) for name, value in above.items()}


def misspelt(table: Any, kind: type[msgspec.Struct], under: Place = (), also: Place = ()) -> str:
    """A sentence about the first key or choice in a table that these settings do not know: what
    was likely meant, or in which table the key belongs; empty where all are known."""
    root = inspect.type_info(kind)
    wrong = next(_unknown(root, table, under), None)
    if wrong is None:
        return ""
    here = _written(wrong.place)
    if wrong.choices:
        said, *among = (json.dumps(each) for each in (wrong.value, *wrong.choices))
        return f"`{wrong.name}` {here} is {said}: it must be one of {', '.join(among)}"
    tables = [(place, names) for place, names in _tables(root, under) if place != wrong.place]
    if belongs := [place for place, names in tables if wrong.name in names]:
        there = " or ".join(map(_written, belongs))
        return f"`{wrong.name}` does not belong {here}: write it {there}"
    known = [*wrong.known, *(also if wrong.place == under else ())]
    said = f"there is no key `{wrong.name}` {here}"
    if near := _nearest(wrong.name, known):
        return f"{said}: did you mean `{near}`?"
    for place, names in tables:
        if near := _nearest(wrong.name, names):
            return f"{said}: did you mean `{near}` {_written(place)}?"
    few = f": its keys are {', '.join(known)}" if len(known) <= _FEW else ": take it out"
    return f"{said}{few}"


class _Wrong(NamedTuple):
    place: Place
    name: str
    known: list[str]
    """keys"""
    value: str = ""
    choices: tuple[str, ...] = ()
    """that the value must be one of"""


def _unknown(node: inspect.Type, value: Any, place: Place) -> Iterator[_Wrong]:
    """What a value holds that its type does not know, from the outside to the inside."""
    for kind in node.types if isinstance(node, inspect.UnionType) else (node,):
        if isinstance(kind, inspect.StructType) and isinstance(value, dict):
            fields = {field.encode_name: field.type for field in kind.fields}
            for name in value if kind.forbid_unknown_fields else ():
                if name not in fields:
                    yield _Wrong(place, name, list(fields))
            for name, part in value.items():
                if name in fields:
                    yield from _unknown(fields[name], part, (*place, name))
        elif isinstance(kind, inspect.DictType) and isinstance(value, dict):
            for name, part in value.items():
                yield from _unknown(kind.value_type, part, (*place, str(name)))
        elif isinstance(kind, inspect.ListType | inspect.VarTupleType) and isinstance(value, list):
            for number, part in enumerate(value, 1):
                numbered = f"{place[-1]}, number {number}"
                yield from _unknown(kind.item_type, part, (*place[:-1], numbered))
        elif isinstance(kind, inspect.LiteralType) and isinstance(value, str):
            choices = tuple(str(each) for each in kind.values)
            if value not in choices:
                yield _Wrong(place[:-1], place[-1], [], value, choices)


def _tables(node: inspect.Type, place: Place) -> Iterator[tuple[Place, list[str]]]:
    """All tables that these settings may have, with their keys."""
    for kind in node.types if isinstance(node, inspect.UnionType) else (node,):
        if isinstance(kind, inspect.StructType):
            yield place, [field.encode_name for field in kind.fields]
            for field in kind.fields:
                yield from _tables(field.type, (*place, field.encode_name))
        elif isinstance(kind, inspect.ListType | inspect.VarTupleType):
            yield from _tables(kind.item_type, place)


def _nearest(name: str, known: list[str]) -> str:
    near = get_close_matches(name.lower().replace("-", "_"), known, 1)
    return near[0] if near else ""


def _written(place: Place) -> str:
    return f"in [{'.'.join(place)}]" if place else "at the top of the file"

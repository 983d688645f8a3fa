"""Read files as typed values: JSON lines, and TOML as settings, whose errors suggest known keys."""

import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from errno import EINVAL
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from rookery.errors import Failed, Outcome
from rookery.records import Failure, convert_value, decode_json, describe_json_error

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")
FilePath = TypeVar("FilePath", Path, bytes)
TablePath = tuple[str, ...]
"""names of the nested tables that lead to a table, outermost first"""
_MAX_LISTED_KEYS = 12
"""maximum number of known keys that a message lists where none resembles the unknown one"""
MAX_LINE_BYTES = 512_000_000
"""maximum bytes of a line"""


def require_regular_file(path: FilePath) -> FilePath:
    """Return the path of what can be opened without waiting for anybody.

    Raises OSError for a pipe, a device or a socket, which may hold its reader for ever, and where
    there is nothing.
    """
    kind = os.stat(path).st_mode  # noqa: PTH116 (a path of bytes may be no valid text)
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise OSError(EINVAL, "a pipe, a device or a socket: name a file", os.fsdecode(path))
    return path


def open_named_file(path: Path) -> AbstractContextManager[BinaryIO]:
    """Open a file to read it; `-` is standard input. Raises OSError as `require_regular_file`."""
    is_input = str(path) == "-"
    return nullcontext(sys.stdin.buffer) if is_input else require_regular_file(path).open("rb")


def read_json_lines(path: Path, kind: type[T]) -> Iterator[T]:
    """Yield the value of each line that is not blank, in order, decoded as `kind`.

    Lines are read, and errors raised, as values are taken. Raises Failed: not_found (also for a
    file that cannot be read); bad_line, which names the line.
    """
    try:
        with require_regular_file(path).open("rb") as lines:
            for number, line in enumerate(iter(lambda: lines.readline(MAX_LINE_BYTES), b""), 1):
                if line.strip():
                    yield _decode_line(line, kind, f"{path}, line {number}")
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): check the path"
        raise Failed(Failure(str(path), Outcome.NOT_FOUND, detail)) from error


def _decode_line(line: bytes, kind: type[T], where: str) -> T:
    try:
        return decode_json(line, kind)
    except ValueError as error:
        name = kind.__name__.strip("_").replace("dict", "JSON object")
        detail = f"no {name} ({error}): write it again, or take the line out"
        raise Failed(Failure(where, Outcome.BAD_LINE, detail)) from error


def read_text_table(path: Path) -> dict[str, str]:
    """Read a table of this package: lines of a name, an equals sign, and what stands for it.

    Lines that begin with a blank continue the one before.
    """
    lines = re.sub(r"\n +", " ", path.read_text("utf-8")).splitlines()
    return dict(line.split(" = ", 1) for line in lines)


def read_toml_table(path: Path) -> dict[str, Any]:
    """Read a TOML file as nested dictionaries.

    Raises Failed (bad_config) for a file that is no TOML, and for one that cannot be read.
    """
    try:
        return msgspec.toml.decode(require_regular_file(path).read_bytes(), type=dict[str, Any])
    except OSError as error:
        detail = f"it cannot be read ({error.strerror}): name a TOML file"
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        detail = f"it is not valid TOML: {describe_json_error(error)}"
    raise Failed(Failure(str(path), Outcome.BAD_CONFIG, detail))


def parse_settings(
    table: dict[str, Any], kind: type[S], path: Path, under: TablePath = (), also: TablePath = ()
) -> S:
    """Convert a table to settings of this kind.

    For error messages, `under` names the tables that enclose it in the file, and `also` further
    keys that are known there. Raises Failed (bad_config), which names the first unknown key or
    wrong value, and the nearest known key.
    """
    detail = describe_unknown_key(table, kind, under, also)
    if not detail:
        try:
            return convert_value(table, kind)
        except ValueError as error:
            place = f"[{'.'.join(under)}]: " if under else ""
            detail = f"correct it: {place}{error}"
    raise Failed(Failure(str(path), Outcome.BAD_CONFIG, detail))


def merge_tables(below: Any, above: Any) -> Any:
    """Merge two tables recursively: values of `above` replace those of `below` under the same keys.

    A value that is not a table replaces the other one whole.
    """
    if not (isinstance(below, Mapping) and isinstance(above, dict)):
        return above
    return {**below} | {name: merge_tables(below.get(name), value) for name, value in above.items()}


def describe_unknown_key(
    table: Any, kind: type[msgspec.Struct], under: TablePath = (), also: TablePath = ()
) -> str:
    """Describe the first key or choice of a table that these settings do not have, in one sentence.

    It suggests the key that was likely meant, or the table where the key belongs. Empty where all
    keys and choices are known. `under` and `also` are as in `parse_settings`.
    """
    root = inspect.type_info(kind)
    wrong = next(_find_unknown_keys(root, table, under), None)
    if wrong is None:
        return ""
    table_path = _format_table_path(wrong.place)
    if wrong.choices:
        sentence, *among = (json.dumps(each) for each in (wrong.value, *wrong.choices))
        return f"`{wrong.name}` {table_path} is {sentence}: it must be one of {', '.join(among)}"
    tables = [(place, names) for place, names in _list_tables(root, under) if place != wrong.place]
    if belongs := [place for place, names in tables if wrong.name in names]:
        other_tables = " or ".join(map(_format_table_path, belongs))
        return f"`{wrong.name}` does not belong {table_path}: write it {other_tables}"
    known_keys = [*wrong.known, *(also if wrong.place == under else ())]
    sentence = f"there is no key `{wrong.name}` {table_path}"
    if near := _nearest_key(wrong.name, known_keys):
        return f"{sentence}: did you mean `{near}`?"
    for place, names in tables:
        if near := _nearest_key(wrong.name, names):
            return f"{sentence}: did you mean `{near}` {_format_table_path(place)}?"
    keys = f"its keys are {', '.join(known_keys)}"
    return f"{sentence}: {keys if len(known_keys) <= _MAX_LISTED_KEYS else 'take it out'}"


class _UnknownKey(NamedTuple):
    place: TablePath
    name: str
    known: list[str]
    """keys that the table may have"""
    value: str = ""
    """the wrong value of a key that is known"""
    choices: tuple[str, ...] = ()
    """the values that the key may have"""


def _find_unknown_keys(node: inspect.Type, value: Any, place: TablePath) -> Iterator[_UnknownKey]:
    """Yield the keys and choices of a value that its type does not have, outermost first."""
    for kind in node.types if isinstance(node, inspect.UnionType) else (node,):
        if isinstance(kind, inspect.StructType) and isinstance(value, dict):
            fields = {field.encode_name: field.type for field in kind.fields}
            for name in value if kind.forbid_unknown_fields else ():
                if name not in fields:
                    yield _UnknownKey(place, name, list(fields))
            for name, part in value.items():
                if name in fields:
                    yield from _find_unknown_keys(fields[name], part, (*place, name))
        elif isinstance(kind, inspect.DictType) and isinstance(value, dict):
            for name, part in value.items():
                yield from _find_unknown_keys(kind.value_type, part, (*place, str(name)))
        elif isinstance(kind, inspect.ListType | inspect.VarTupleType) and isinstance(value, list):
            for number, part in enumerate(value, 1):
                numbered = f"{place[-1]}, number {number}"
                yield from _find_unknown_keys(kind.item_type, part, (*place[:-1], numbered))
        elif isinstance(kind, inspect.LiteralType) and isinstance(value, str):
            choices = tuple(str(each) for each in kind.values)
            if value not in choices:
                yield _UnknownKey(place[:-1], place[-1], [], value, choices)


def _list_tables(node: inspect.Type, place: TablePath) -> Iterator[tuple[TablePath, list[str]]]:
    """Yield every table that these settings may have, with its keys."""
    for kind in node.types if isinstance(node, inspect.UnionType) else (node,):
        if isinstance(kind, inspect.StructType):
            yield place, [field.encode_name for field in kind.fields]
            for field in kind.fields:
                yield from _list_tables(field.type, (*place, field.encode_name))
        elif isinstance(kind, inspect.ListType | inspect.VarTupleType):
            yield from _list_tables(kind.item_type, place)


def _nearest_key(name: str, known_keys: list[str]) -> str:
    near = get_close_matches(name.lower().replace("-", "_"), known_keys, 1)
    return near[0] if near else ""


def _format_table_path(place: TablePath) -> str:
    return f"in [{'.'.join(place)}]" if place else "at the top of the file"

"""The page of every key of the TOML files that commands read: type, default and meaning, from the
structs of the settings and the texts behind their attributes.

The site's build calls it (a hook of mkdocs). The package's source is parsed, not imported, so that
the site is built without torch. To read the page: `python docs/settings_reference.py`.
"""

import ast
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

PACKAGE = Path(__file__).parent.parent / "rookery"


class SettingsFile(NamedTuple):
    """A kind of file, and the struct that it is read as."""

    title: str
    about: str
    struct: str
    tables: Mapping[str, str] = {}
    """further tables, by the struct that each is read as"""


OUT = "`out`, the folder of the run, stands at the top of the file, or is given as `--out DIR`."
FILES = (
    SettingsFile(
        "rookery learn imitate",
        f'Behaviour cloning (WebGPT, section 3.2). {OUT} `[world]` is for `best = "reward"`.',
        "ImitationSettings",
        {"world": "EnvironmentSettings"},
    ),
    SettingsFile(
        "rookery learn prefer",
        f"A reward model from comparisons (Ziegler, section 2; GopherCite, section 2.8). {OUT}",
        "RewardTrainingSettings",
    ),
    SettingsFile(
        "rookery learn reinforce",
        f"PPO, A2C or RLOO. {OUT} With `[labels]` and a desk (`--desk STORE`) people compare "
        "answers while it trains (Ziegler, section 2.3).",
        "ReinforceFile",
        {"labels": "OnlineLabellingSettings", "desk": "HumanFeedbackSettings"},
    ),
    SettingsFile(
        "rookery learn retrieve",
        f"An encoder for ranking (WebGLM, section 3.1.2). {OUT}",
        "RetrievalTrainingSettings",
    ),
    SettingsFile(
        "Endpoints of models",
        "The file that `--endpoints FILE` names (TOML, or JSON where it ends in .json). "
        "`[browse]`, `[write]` and `[judge]` are the models of these roles, `[default]` that of "
        "all others. A table without `base_url` is about a model on this machine.",
        "",
        {"ROLE": "ModelEndpoint", "ROLE, without base_url": "LocalEndpoint"},
    ),
)
ELSEWHERE = {"labels": ("reinforce", "group")}
"""keys of a table's struct that are refused there, since they stand elsewhere in the file"""


class SettingsKey(NamedTuple):
    """One key of a table."""

    name: str
    type: str
    default: str
    """as in TOML; empty: it must be given"""
    about: str
    table: str
    """name of the struct, where the value is a table; else empty"""


@cache
def _read_classes() -> dict[str, ast.ClassDef]:
    classes = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                classes[node.name] = node
    return classes


@cache
def _read_constants() -> dict[str, ast.expr]:
    """Values of names that modules define, which types and defaults refer to."""
    values: dict[str, ast.expr] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    values[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    values[name] = value
    return values


def read_keys(struct: str) -> list[SettingsKey]:
    """Return the keys of a struct, inherited ones first, a later text or default in their place."""
    node = _read_classes()[struct]
    keys: dict[str, SettingsKey] = {}
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in _read_classes() and base.id != "Record":
            keys |= {key.name: key for key in read_keys(base.id)}
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            key = _read_key(field.target.id, field, _read_text(after))
            before = keys.get(key.name)
            keys[key.name] = key._replace(about=key.about or (before.about if before else ""))
    return list(keys.values())


def _read_text(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return " ".join(text.split())
    return ""


def _read_key(name: str, field: ast.AnnAssign, about: str) -> SettingsKey:
    default = field.value
    if isinstance(default, ast.Call) and ast.unparse(default.func).endswith("field"):
        options = {option.arg: option.value for option in default.keywords}
        name = ast.literal_eval(options["name"]) if "name" in options else name
        default = options.get("default", options.get("default_factory"))
    table = next((part for part in _list_names(field.annotation) if _is_struct(part)), "")
    if table and not about:
        about = (ast.get_docstring(_read_classes()[table]) or "").split("\n\n")[0]
        about = " ".join(about.split())
    return SettingsKey(name, _write_type(field.annotation), _write_default(default), about, table)


def _list_names(annotation: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)]


def _is_struct(name: str) -> bool:
    node = _read_classes().get(name)
    bases = [ast.unparse(base) for base in node.bases] if node else []
    return any(base in ("msgspec.Struct", "Record") or _is_struct(base) for base in bases)


TYPES = {"str": "text", "int": "whole number", "float": "number", "bool": "true or false"}


def _write_type(annotation: ast.expr) -> str:
    match annotation:
        case ast.Name(id=name) if name in TYPES:
            return TYPES[name]
        case ast.Name(id=name) if _is_struct(name):
            return "table"
        case ast.Name(id=name) if name in _read_constants():
            return _write_type(_read_constants()[name])
        case ast.Subscript(value=ast.Name(id="Literal"), slice=choices):
            values = choices.elts if isinstance(choices, ast.Tuple) else [choices]
            return " or ".join(f"`{_write_default(value)}`" for value in values)
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[item, *rest])):
            many = ast.unparse(rest[0]) == "..."
            return f"list of {_write_type(item)}s" if many else f"list of {len(rest) + 1} numbers"
        case ast.Subscript(value=ast.Name(id="dict")):
            return "table"
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            sides = [_write_type(side) for side in (left, right)]
            return " or ".join(side for side in sides if side)
        case ast.Constant(value=None) | ast.Attribute(attr="UnsetType"):
            return ""
    return ast.unparse(annotation)


def _write_default(value: ast.expr | None) -> str:
    """A default as TOML; `none` for what is not set."""
    match value:
        case None:
            return ""
        case ast.Constant(value=bool(truth)):
            return str(truth).lower()
        case ast.Constant(value=None) | ast.Attribute(attr="UNSET"):
            return "none"
        case ast.Constant(value=str(text)):
            return f'"{text}"'
        case ast.Tuple(elts=items):
            return f"[{', '.join(map(_write_default, items))}]"
        case ast.Name(id="dict"):
            return "{}"
        case ast.Name(id=name) if name in _read_constants():
            return _write_default(_read_constants()[name])
        case ast.Call(func=ast.Name(id=name), keywords=options) if _is_struct(name):
            said = (f"{option.arg} = {_write_default(option.value)}" for option in options)
            return f"{{ {', '.join(said)} }}" if options else "{}"
    return ast.unparse(value)


def list_tables(struct: str, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place of each table of a file, outermost first, and its struct."""
    yield place, struct
    for key in read_keys(struct):
        if key.table:
            yield from list_tables(key.table, f"{place}.{key.name}" if place else key.name)


def list_file_tables(file: SettingsFile) -> list[tuple[str, str]]:
    """Return the place and struct of each table of a file; the place of the top is empty."""
    tables = list(list_tables(file.struct)) if file.struct else []
    for place, struct in file.tables.items():
        elsewhere = [f"{place}.{name}" for name in ELSEWHERE.get(place, ())]
        tables += [
            (at, each)
            for at, each in list_tables(struct, place)
            if not any(f"{at}.".startswith(f"{other}.") for other in elsewhere)
        ]
    return tables


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the page to the site; mkdocs calls this function (a hook)."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "reference/settings.md", content=write_page()))
    return files


def write_page() -> str:
    """Return the page as Markdown."""
    return "\n".join(_write_lines()) + "\n"


def _write_lines() -> Iterator[str]:
    yield "# Settings files\n"
    yield (
        "Every key of the TOML files that commands read, written from the settings of the "
        "package. An unknown key is an error that names the nearest one. Papers: WebGPT "
        "(arXiv 2112.09332), Ziegler (1909.08593), GopherCite "
        "(2203.11147), WebGLM (2306.07906). The file of a labelling form is described [there]"
        "(../howto/forms.md#what-a-file-says). [A tutorial](../tutorial/training.md) has a file "
        "of each kind.\n"
    )
    described: set[str] = set()
    for file in FILES:
        yield f"## {file.title}\n\n{file.about}\n"
        tables = list_file_tables(file)
        yield "| table | what it holds |\n|---|---|"
        for place, struct in tables:
            name = f"`[{place}]`" if place else "top of the file"
            yield f"| [{name}](#{struct.lower()}) | {_describe(struct)} |"
        yield ""
        if file.title.endswith("reinforce"):
            yield from _write_papers()
        described |= {struct for _, struct in tables}
    yield "## Keys of each table\n"
    for struct in sorted(described):
        yield from _write_struct(struct)


@cache
def _all_tables() -> list[tuple[str, str]]:
    return [each for file in FILES for each in list_file_tables(file)]


def _describe(struct: str) -> str:
    """The first sentence of a struct's docstring."""
    text = " ".join((ast.get_docstring(_read_classes()[struct]) or "").split())
    return _escape(re.split(r"(?<=\.)\s", text)[0])


def _write_struct(struct: str) -> Iterator[str]:
    places = [
        f"`[{place}]` of {file.title}" if place else f"the top of {file.title}"
        for file in FILES
        for place, each in list_file_tables(file)
        if each == struct
    ]
    about = " ".join((ast.get_docstring(_read_classes()[struct]) or "").split())
    yield f"### {struct}\n\n{_escape(about)}"
    yield f"\nIt is {', '.join(places)}.\n"
    yield "| key | type | default | meaning |\n|---|---|---|---|"
    refused = {
        name
        for place, names in ELSEWHERE.items()
        for name in names
        if (place, struct) in _all_tables()
    }
    for key in read_keys(struct):
        if key.name in refused:
            continue
        default = f"`{key.default}`" if key.default else "must be given"
        default = "unset" if key.default == "none" else default
        kind = f"[table](#{key.table.lower()})" if key.table else key.type
        # a file has no None: it can only leave the key out
        missing = "unset" if default == "unset" else "in Python, None"
        about = _escape(re.sub(r"\bNone\b", missing, key.about).replace("unset by", "Unset by"))
        yield f"| `{key.name}` | {kind} | {default} | {about} |"
    yield ""


PAPERS = {
    "ppo": "PPO_DEFAULTS",
    "webgpt": "WEBGPT_PPO_DEFAULTS",
    "a2c": "A2C_DEFAULTS",
    "rloo": "RLOO_DEFAULTS",
}


def _write_papers() -> Iterator[str]:
    """What `paper` changes of the defaults in [settings]."""
    renamed = {"trace": "lambda"}
    rows: dict[str, dict[str, str]] = {}
    for paper, constant in PAPERS.items():
        table = _read_constants()[constant]
        assert isinstance(table, ast.Dict)
        for name, value in zip(table.keys, table.values, strict=True):
            key = ast.literal_eval(name) if name else ""
            rows.setdefault(renamed.get(key, key), {})[paper] = _write_default(value)
    usual = {key.name: key.default for key in read_keys("ReinforcementSettings")}
    yield (
        "`paper` names whose values stand in place of the defaults in `[settings]`: Ziegler's PPO "
        "(`ppo`), WebGPT's (appendix E), GopherCite's A2C (section 2.8 and appendix F), "
        "leave-one-out (Ahmadian and others, 2024). What the file sets goes before both.\n"
    )
    yield f"| key of `[settings]` | {' | '.join(f'`{paper}`' for paper in PAPERS)} |"
    yield "|---|" + "---|" * len(PAPERS)
    for each, by_paper in rows.items():
        yield f"| `{each}` | {' | '.join(by_paper.get(paper, usual[each]) for paper in PAPERS)} |"
    yield ""


def _escape(text: str) -> str:
    """A text as it stands in a cell of a table."""
    parts = re.split(r"(`[^`]*`)", text)
    parts[::2] = [re.sub(r"([\[\]<>*_|])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts).replace("|", "\\|").replace("\\\\|", "\\|")


if __name__ == "__main__":
    for _line in write_page().splitlines():
        print(_line if _line.startswith("|") else textwrap.fill(_line, 100) if _line else "")

"""Each optional part of the package (`pip install '.[NAME]'`): it installs what its code imports,
and no torch where nothing trains."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONSTRAINT = [f"rookery/quotes/{name}.py" for name in ("constraint", "grammar", "vocabulary")]
"""constrained decoding token by token: for models on this machine, which come with learn"""
WRITING = ("decoding", "local_model", "model_import", "pretrained_models")
"""a model on this machine that writes, without what trains it"""
PLACES = {
    "models": ["rookery/models/remote_model.py"],
    "serve": [
        "rookery/library/postgres_archive.py",
        "rookery/desk",
        *(f"rookery/shell/{name}.py" for name in ("languages", "rendering", "security")),
        "rookery/server",
    ],
    "postgres": [],
    "render": ["rookery/network/page_rendering.py"],
    "ray": ["rookery/library/worker_processes.py"],
    "measure": ["rookery/measure", "rookery/cli/measure_figures.py"],
    "write": [*(f"rookery/learn/{name}.py" for name in WRITING), *CONSTRAINT],
    "learn": ["rookery/learn", *CONSTRAINT],
    "recipes": ["recipes"],
    "bench": ["bench"],
    "docs": [f"docs/{name}.py" for name in ("man_page", "reference", "settings_reference")],
    "dev": ["tests", "docs/pictures.py"],
}
"""the code that needs each extra; the rest of the package has the base dependencies alone"""
TRAINING = {"write", "learn", "recipes", "bench", "dev"}
LOADED_UNSEEN = {
    "psycopg": "SQLAlchemy loads it by the name in the store's address",
    "python-multipart": "Starlette loads it to parse forms",
    "websockets": "uvicorn speaks WebSocket with it",
    "safetensors": "transformers writes checkpoints with it",
    "onnx": "onnxruntime.quantization reads graphs with it",
    "mkdocs-material": "mkdocs loads the theme by its name in mkdocs.yml",
    "mkdocstrings": "mkdocs loads the plugin by its name in mkdocs.yml",
    "ruff": "mkdocstrings calls it to format signatures",
}
"""requirements that no line of ours need import"""
NOT_OURS = {
    ("learn", "sqlalchemy"): "training with people at a desk also takes the serve extra",
}


def resolved(extra: str) -> set[str]:
    """The distributions that installing the package with this extra brings.

    Follows the requirements of what is installed here, and by name alone what is not.
    """
    requirements = [*PROJECT["dependencies"]]
    requirements += PROJECT["optional-dependencies"][extra] if extra else []
    waiting = [Requirement(each) for each in requirements]
    done_requirements: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        needed = waiting.pop()
        key = (plain(needed.name), frozenset(needed.extras))
        if key in done_requirements:
            continue
        done_requirements.add(key)
        try:
            requirements = requires(needed.name) or []
        except PackageNotFoundError:
            continue
        for each in map(Requirement, requirements):
            if each.marker is None or any(
                each.marker.evaluate({"extra": name}) for name in ("", *needed.extras)
            ):
                waiting.append(each)
    return {name for name, _ in done_requirements}


def plain(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def modules(extra: str) -> list[Path]:
    places = [ROOT / place for place in PLACES[extra]]
    return [f for p in places for f in ([p] if p.is_file() else sorted(p.rglob("*.py")))]


def imported(nodes: Iterator[ast.AST]) -> set[str]:
    """The top-level packages that these nodes import, the standard library's left out."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names


def distributions(packages: set[str]) -> set[str]:
    """The distributions that hold these packages; ours, and those beside a test, are none."""
    known = packages_distributions()
    return {plain(name) for package in packages for name in known.get(package, ())} - {"rookery"}


def requirements(extra: str) -> set[str]:
    """What the extra asks for by name, other extras of this project left out."""
    asked = PROJECT["optional-dependencies"][extra]
    return {plain(re.split(r"[\[<>=; ]", one)[0]) for one in asked} - {"rookery"}


def test_every_extra_has_its_place() -> None:
    assert PROJECT["optional-dependencies"].keys() == PLACES.keys()


@pytest.mark.parametrize("extra", ["", *(name for name in PLACES if name not in TRAINING)])
def test_without_training_there_is_no_torch(extra: str) -> None:
    heavy = r"torch|nvidia|cuda|triton|tensorflow|jax|sentence-transformers"
    assert [name for name in resolved(extra) if re.match(heavy, name)] == []


@pytest.mark.slow
@pytest.mark.parametrize("extra", PLACES)
def test_an_extra_installs_what_its_code_imports(extra: str) -> None:
    trees = [ast.parse(file.read_bytes()) for file in modules(extra)]
    wanted = imported(node for tree in trees for node in ast.walk(tree))
    wanted -= {name for where, name in NOT_OURS if where == extra}
    assert distributions(wanted) - resolved(extra) == set()


@pytest.mark.slow
@pytest.mark.parametrize("extra", [name for name in PLACES if name not in ("bench", "dev")])
def test_an_extra_asks_for_nothing_that_its_code_does_not_import(extra: str) -> None:
    trees = [ast.parse(file.read_bytes()) for file in modules(extra)]
    used = distributions(imported(node for tree in trees for node in ast.walk(tree)))
    assert requirements(extra) - used - LOADED_UNSEEN.keys() == set()


@pytest.mark.slow
def test_the_base_has_what_the_rest_imports_at_once() -> None:
    own = {file for extra in PLACES for file in modules(extra)}
    rest = [file for file in sorted((ROOT / "rookery").rglob("*.py")) if file not in own]
    wanted = imported(node for file in rest for node in ast.parse(file.read_bytes()).body)
    assert distributions(wanted) - resolved("") == set()

"""Names and docstrings of the package: unique public names, verb phrases, plain first lines."""

import ast
import collections
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parent.parent / "rookery"

GLOSSARY = frozenset(
    """
    add answer append ask browse cancel choose close commit complete copy count decode decline
    delete encode enqueue evaluate extract fetch find finish flush fold forward lease load main
    merge observe open parse quote rank read record refresh register release remove render reset
    resume run sample save score search send split start step stop stream train undo update verify
    wait write
    """.split()
)
"""verbs that are a function's whole name where its class makes the meaning plain"""

IMPOSED: dict[str, str] = {
    "Process": "multiprocessing.context.BaseContext",
    "contains": "gymnasium.spaces.Space",
    "collect": "prometheus_client.registry.Collector",
    "command": "typer.Typer",
    "execute": "sqlite3.Connection",
    "format": "logging.Formatter",
}
"""one-word names that an interface outside the package asks for, with the interface"""

SHARED: dict[str, str] = {}
"""public names that two modules have, with the reason"""

QUESTION_WORDS = ("What", "Whether", "How", "Who", "Where", "When", "All")

Source = tuple[str, str]
"""name and text of a module"""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@functools.cache
def parse_source(source: str) -> ast.Module:
    return ast.parse(source)


def read_sources() -> list[Source]:
    return [
        (str(path.relative_to(HOUSE)), path.read_text(encoding="utf-8"))
        for path in sorted(HOUSE.rglob("*.py"))
        if "migrations" not in path.parts
    ]


def find_definitions(source: str) -> Iterator[Definition]:
    for node in ast.walk(parse_source(source)):
        if isinstance(node, Definition):
            yield node


def find_shared_names(sources: Iterable[Source]) -> list[str]:
    """Public functions and classes that more than one module defines."""
    modules = collections.defaultdict(list)
    for module, source in sources:
        for node in parse_source(source).body:
            if isinstance(node, Definition) and not node.name.startswith("_"):
                modules[node.name].append(module)
    return [
        f"{name}: {', '.join(places)}"
        for name, places in sorted(modules.items())
        if len(set(places)) > 1 and name not in SHARED
    ]


def is_property(node: Definition) -> bool:
    names = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


def find_one_word_functions(sources: Iterable[Source]) -> list[str]:
    """Functions and methods, properties left out, of one word that is not in the glossary."""
    allowed = GLOSSARY | IMPOSED.keys()
    return [
        f"{module}: {node.name}"
        for module, source in sources
        for node in find_definitions(source)
        if not isinstance(node, ast.ClassDef)
        and not (node.name.startswith("__") or is_property(node))
        and "_" not in (word := node.name.strip("_"))
        and word not in allowed
    ]


def find_question_docstrings(sources: Iterable[Source]) -> list[str]:
    """Docstrings, those of modules too, whose first word asks in place of saying."""
    return [
        f"{module}: {getattr(node, 'name', 'module')}: {doc.splitlines()[0]}"
        for module, source in sources
        for node in (parse_source(source), *find_definitions(source))
        if (doc := ast.get_docstring(node)) and doc.split()[0].strip(",.:") in QUESTION_WORDS
    ]


def find_rebound_names(sources: Iterable[Source]) -> list[str]:
    """Names that the top level of a module binds twice: the second hides the first everywhere."""
    rebound = []
    for module, source in sources:
        bound: collections.Counter[str] = collections.Counter()
        for node in parse_source(source).body:
            if isinstance(node, Definition):
                bound[node.name] += 1
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                bound.update(each.id for each in targets if isinstance(each, ast.Name))
        rebound += [f"{module}: {name}" for name, times in bound.items() if times > 1]
    return rebound


RULES = [
    find_shared_names,
    find_one_word_functions,
    find_question_docstrings,
    find_rebound_names,
]


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule: object) -> None:
    assert callable(rule)
    assert rule(read_sources()) == []


@pytest.mark.parametrize(
    ("rule", "planted"),
    [
        (find_shared_names, "class Page:\n    pass\n"),
        (find_one_word_functions, "class Box:\n    def contents(self) -> None: ...\n"),
        (find_question_docstrings, 'def read_it() -> None:\n    """What is read."""\n'),
        (find_rebound_names, "_LOG = 1\n_LOG = 2\n"),
    ],
)
def test_a_planted_violation_is_found(rule: object, planted: str) -> None:
    assert callable(rule)
    found = rule([*read_sources(), ("planted.py", planted)])
    assert len(found) == 1
    assert "planted.py" in found[0]


def test_the_glossary_is_short_and_every_exception_is_needed() -> None:
    assert len(GLOSSARY) <= 60
    words = {
        node.name.strip("_") for _, source in read_sources() for node in find_definitions(source)
    }
    assert set(IMPOSED) <= words
    assert set(SHARED) <= words
    assert all(IMPOSED.values())
    assert all(SHARED.values())

"""Names and docstrings of the package: unique public names, verb phrases, plain first lines."""

import ast
import collections
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
HOUSE = TESTS.parent / "rookery"

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
    "collect": "prometheus_client.registry.Collector",
    "command": "typer.Typer",
    "callback": "typer.Typer",
    "execute": "sqlite3.Connection",
    "format": "logging.Formatter",
}
"""one-word names that an interface outside the package asks for, with the interface"""

SHARED: dict[str, str] = {}
"""public names that two modules have, with the reason"""

OTHER_TESTS: dict[str, str] = {
    "tests/cli/test_cite_verify.py": "the command and MCP's tool, side by side",
}
"""files of tests that are not named after a module, with the reason"""

VAGUE_NAMES = frozenset(
    """
    found said shown asked told kept wanted there its here theirs ours those these beside held taken
    given left made done seen known tried heard drawn met gone both such stuff trouble thing
    """.split()
)
"""words that say nothing of what a parameter or a variable holds"""
SHORT_FUNCTION_LINES = 10
"""lines of a function in which a variable may be called so: its whole use is in sight"""

QUESTION_WORDS = ("What", "Whether", "How", "Who", "Where", "When", "All")

Source = tuple[str, str]
"""name and text of a module"""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@functools.cache
def parse_source(source: str) -> ast.Module:
    return ast.parse(source)


def read_sources(folder: Path = HOUSE) -> list[Source]:
    return [
        (str(path.relative_to(folder)), path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
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


NAMES_IN_CAPITALS = frozenset("Accept East False Markdown None True Unix Ziegler".split())
"""words that keep their capital at the beginning of a field's description"""


def find_field_sentences(sources: Iterable[Source]) -> list[str]:
    """Descriptions of fields and constants that begin with a capital or end with a full stop."""
    found = []
    for module, source in sources:
        tree = parse_source(source)
        bodies = [tree.body, *(n.body for n in ast.walk(tree) if isinstance(n, ast.ClassDef))]
        for field, doc in (pair for body in bodies for pair in itertools.pairwise(body)):
            if not isinstance(field, ast.Assign | ast.AnnAssign) or not isinstance(doc, ast.Expr):
                continue
            if isinstance(doc.value, ast.Constant) and isinstance(text := doc.value.value, str):
                first = re.match(r"A(?= )|[A-Z][a-z]+(?![\w-])", text)
                if (first and first[0] not in NAMES_IN_CAPITALS) or re.search(r"(?<!\.)\.$", text):
                    found.append(f"{module}: {text}")
    return found


def _list_bound_names(node: ast.AST) -> Iterator[str]:
    """Names that the body of a function binds, but for those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield child.name
            continue
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        elif isinstance(child, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and child.name:
            yield child.name
        elif isinstance(child, ast.arg):
            yield child.arg
        yield from _list_bound_names(child)


def find_vague_names(sources: Iterable[Source]) -> list[str]:
    """Parameters, and variables of long functions, that are called by a word of VAGUE_NAMES."""
    vague = []
    for module, source in sources:
        for node in find_definitions(source):
            if isinstance(node, ast.ClassDef):
                continue
            names = set(_list_bound_names(node.args))
            if (node.end_lineno or 0) - node.lineno >= SHORT_FUNCTION_LINES:
                names.update(_list_bound_names(ast.Module(node.body, [])))
            vague += [f"{module}: {node.name}: {name}" for name in sorted(names & VAGUE_NAMES)]
    return vague


RULES = [
    find_field_sentences,
    find_shared_names,
    find_one_word_functions,
    find_question_docstrings,
    find_rebound_names,
    find_vague_names,
]


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule: object) -> None:
    assert callable(rule)
    assert rule(read_sources()) == []


@pytest.mark.slow
def test_recipes_call_nothing_by_a_vague_name() -> None:
    assert find_vague_names(read_sources(HOUSE.parent / "recipes")) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "planted"),
    [
        (find_field_sentences, 'LIMIT = 3\n"""The limit"""\n'),
        (find_field_sentences, 'class Box:\n    size: int\n    """size in bytes."""\n'),
        (find_shared_names, "class Page:\n    pass\n"),
        (find_one_word_functions, "class Box:\n    def contents(self) -> None: ...\n"),
        (find_question_docstrings, 'def read_it() -> None:\n    """What is read."""\n'),
        (find_rebound_names, "_LOG = 1\n_LOG = 2\n"),
        (find_vague_names, "def read_page(wanted: str) -> None: ...\n"),
        (find_vague_names, "def read_page() -> None:\n    kept = 1\n" + "    print()\n" * 9),
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


def list_module_names(package: Path) -> set[str]:
    """Modules of a package as their tests name them: `endpoints`, or `api_endpoints` from `api`."""
    paths = [path.relative_to(package).with_suffix("") for path in package.rglob("*.py")]
    parts = [(path.parent if path.name == "__init__" else path).parts for path in paths]
    return {name for each in parts if each for name in ("_".join(each), each[-1])}


def find_misnamed_tests(files: Iterable[str]) -> list[str]:
    """Files of tests whose name does not begin with that of a module of their package."""
    modules = {
        path.name: list_module_names(path)
        for path in (*HOUSE.iterdir(), HOUSE.parent / "recipes")
        if path.is_dir()
    }
    misnamed = []
    for file in files:
        _, package, name = Path(file).with_suffix("").parts
        words = name.split("_")[1:]
        beginnings = {"_".join(words[:count]) for count in range(1, len(words) + 1)}
        if not beginnings & modules.get(package, set()) and file not in OTHER_TESTS:
            misnamed.append(file)
    return misnamed


def test_files_of_tests_are_named_after_modules() -> None:
    files = [str(path.relative_to(HOUSE.parent)) for path in sorted(TESTS.glob("*/test_*.py"))]
    assert find_misnamed_tests(files) == []
    assert OTHER_TESTS.keys() <= {*files}


def test_a_planted_file_of_tests_is_found() -> None:
    planted = "tests/quotes/test_nothing_here.py"
    assert find_misnamed_tests(["tests/quotes/test_repair_citations.py", planted]) == [planted]

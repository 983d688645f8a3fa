"""Rules of the house: imports go forward only, nothing heavy is loaded early, nothing is copied."""

import ast
import builtins
import collections
import importlib
import inspect
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import rookery

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "rookery"
PACKAGES = (
    "version",
    "text_escaping",
    "records",
    "errors",
    "python_objects",
    "typed_files",
    "settings",
    "written_values",
    "pages",
    "network",
    "library",
    "quotes",
    "browser",
    "models",
    "evidence",
    "answers",
    "learn",
    "measure",
    "shell",
    "desk",
    "server",
    "cli",
    "__init__",
    "__main__",
)
"""packages and modules at the top, in the order of imports: each imports only those before it"""
BACKWARD_IMPORTS = {
    ("answers", "learn"): "a model on this machine is opened when the settings name one",
}
"""the imports that go the other way, inside functions, with the reason"""
TORCH_PACKAGES = {"learn"}
"""packages that may import torch when they are loaded"""
FILES = sorted(HOUSE.rglob("*.py"))
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
PLAIN = {"Any", "msgspec", *dir(builtins)}

# The ratchet: lines of code (no blank lines, comments, docstrings) and files of each package. Lower
# a number when it falls; whoever raises one writes the reason beside it.
SIZE_LIMITS = {
    "(top)": (1_716, 10),  # Python prints where a quote stands; a stop waits until an import ends
    "answers": (3_947, 18),  # what a newer source says; who wrote a mail; signs behind a forgery
    "browser": (1_475, 7),
    "cli": (3_160, 13),  # a server says how another browser comes in
    "desk": (7_771, 32),  # what is told is a table; invitations; one judgement is one
    "evidence": (1_047, 6),  # questions are read with their mark
    "learn": (6_476, 25),  # sampling records what frozen layers give: a pass through them less
    "library": (4_460, 16),  # own libraries are places; the indexes that hold a page are told
    "measure": (1_423, 11),
    "models": (1_504, 7),
    "network": (1_303, 5),
    "pages": (8_396, 27),  # documents are read as their reader sees them; who wrote what in mails
    "quotes": (3_192, 13),  # what answers is marked by its sentence, its unit or its cell
    "server": (7_531, 20),  # what is searched is told, with its documents and what of them is not
    "shell": (2_593, 14),  # terminals get lines broken between words
}
MOST_CODE_LINES = 56_000  # while answers and learning are mended
LAYOUT_TOKENS = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


@cache
def parse_source(source: str) -> ast.Module:
    return ast.parse(source)


def name_package(path: Path) -> str:
    return path.relative_to(HOUSE).parts[0].removesuffix(".py")


def count_code_lines(source: str) -> int:
    """Lines that hold code: neither blank, nor a comment, nor a docstring."""
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT_TOKENS:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parse_source(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def measure_packages(house: Path = HOUSE) -> dict[str, tuple[int, int]]:
    """Lines of code and files of each package, and of the modules beside the packages."""
    sizes = collections.defaultdict[str, tuple[int, int]](lambda: (0, 0))
    for path in sorted(house.rglob("*.py")):
        parts = path.relative_to(house).parts
        lines, files = sizes[name := parts[0] if len(parts) > 1 else "(top)"]
        sizes[name] = lines + count_code_lines(path.read_text(encoding="utf-8")), files + 1
    return dict(sizes)


def find_excess(sizes: dict[str, tuple[int, int]]) -> list[str]:
    """Packages with more lines or files than their limit, and the sum where it is above its own."""
    excess = [
        f"{name}: {lines} lines in {files} files, limit {SIZE_LIMITS.get(name, (0, 0))}"
        for name, (lines, files) in sizes.items()
        if lines > SIZE_LIMITS.get(name, (0, 0))[0] or files > SIZE_LIMITS.get(name, (0, 0))[1]
    ]
    if (total := sum(lines for lines, _ in sizes.values())) > MOST_CODE_LINES:
        excess.append(f"all: {total} lines, limit {MOST_CODE_LINES}")
    return excess


def test_no_package_grows() -> None:
    assert find_excess(measure_packages()) == []


def test_a_line_or_a_file_too_many_is_seen() -> None:
    limits = dict(SIZE_LIMITS)
    lines, files = limits["measure"]
    assert find_excess(limits | {"measure": (lines + 1, files)})[0].startswith("measure")
    assert find_excess(limits | {"measure": (lines, files + 1)})[0].startswith("measure")
    assert find_excess(limits | {"unheard_of": (1, 1)})[0].startswith("unheard_of")
    assert find_excess({"server": (MOST_CODE_LINES + 1, 1)})[-1].startswith("all")


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", 0),
        ('# why\n\n"""Doc."""\n', 0),
        ('def f() -> int:\n    """Doc\n\n    more.\n    """\n    return (\n        1\n    )\n', 4),
        ('x = """a\n\nb"""  # a text is code, with its blank line\n', 3),
    ],
)
def test_lines_of_code_are_counted(source: str, lines: int) -> None:
    assert count_code_lines(source) == lines


def list_imports(source: str, late: bool = True) -> Iterator[str]:
    """Modules that a source imports; without `late`, only those imported when it is loaded."""
    tree = parse_source(source)
    nodes = [*ast.walk(tree)]
    if not late:
        functions = [node for node in nodes if isinstance(node, FUNCTION)]
        inner = {id(child) for each in functions for child in ast.walk(each)}
        nodes = [node for node in nodes if id(node) not in inner]
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "rookery":
            yield from (f"rookery.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def find_backward_imports(files: Iterable[tuple[str, str]]) -> list[str]:
    """Imports, late ones too, that go from a package to one that stands after it in PACKAGES."""
    backward = []
    for package, source in files:
        for name in list_imports(source):
            if not name.startswith("rookery."):
                continue
            target = name.split(".")[1]
            if target not in PACKAGES:  # a name of the front door
                target = "__init__"
            if PACKAGES.index(package) < PACKAGES.index(target):
                backward.append((package, target))
    return [" imports ".join(each) for each in backward if each not in BACKWARD_IMPORTS]


def find_torch_imports(files: Iterable[tuple[str, str]]) -> list[str]:
    """Packages other than those of TORCH_PACKAGES that import torch when they are loaded."""
    return [
        package
        for package, source in files
        for name in list_imports(source, late=False)
        if name.split(".")[0] in ("torch", "transformers", "accelerate", "peft")
        and package not in TORCH_PACKAGES
    ]


def read_sources() -> list[tuple[str, str]]:
    return [(name_package(path), path.read_text(encoding="utf-8")) for path in FILES]


@pytest.mark.slow
def test_a_package_imports_only_packages_before_it() -> None:
    assert find_backward_imports(read_sources()) == []


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("pages", "from rookery.evidence.passage_ranking import rank_passages"),
        ("records", "import rookery.library.libraries"),
        ("answers", "def f() -> None:\n    from rookery.shell import terminal_output"),
        ("server", "from rookery import ask"),
        ("learn", "from rookery.desk.store import Store"),
    ],
)
def test_a_planted_backward_import_is_seen(package: str, line: str) -> None:
    assert len(find_backward_imports([(package, line)])) == 1


def name_module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def find_import_circles(modules: dict[str, str]) -> list[str]:
    """Modules that import each other, late or through others; `modules` are sources by name."""
    imports = {name: list_imported_modules(source, modules) for name, source in modules.items()}
    while leaves := [name for name, targets in imports.items() if not targets & imports.keys()]:
        for name in leaves:
            del imports[name]
    while imported := set[str]().union(*imports.values()):
        if not (unused := imports.keys() - imported):
            break
        for name in unused:
            del imports[name]
    return sorted(imports)


def list_imported_modules(source: str, modules: Iterable[str]) -> set[str]:
    """Those of the modules that a source imports when it runs, inside functions too."""
    tree, modules = parse_source(source), set(modules)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    names = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names |= {name.rpartition(".")[0] for name in names if name not in modules}
    names |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    return names & modules


@pytest.mark.slow
def test_no_modules_import_each_other() -> None:
    assert find_import_circles({name_module(path): path.read_text("utf-8") for path in FILES}) == []


def test_a_planted_circle_is_seen() -> None:
    planted = {
        "rookery.a": "from rookery.b import x",
        "rookery.b": "def f() -> None:\n    from rookery import c",
        "rookery.c": "import rookery.a",
        "rookery.d": "from rookery.a import x",
        "rookery.e": "",
    }
    assert find_import_circles(planted) == ["rookery.a", "rookery.b", "rookery.c"]
    planted["rookery.c"] = "if TYPE_CHECKING:\n    import rookery.a"
    assert find_import_circles(planted) == []


@pytest.mark.slow
def test_only_learn_imports_torch_when_it_is_loaded() -> None:
    assert find_torch_imports(read_sources()) == []


def test_planted_torch_is_seen() -> None:
    assert find_torch_imports([("evidence", "import torch.nn")]) == ["evidence"]
    assert find_torch_imports([("answers", "def f() -> None:\n    import torch")]) == []


def test_every_package_is_listed_and_can_be_imported_by_its_name() -> None:
    packages = [path.parent.name for path in HOUSE.glob("*/__init__.py")]
    modules = [path.stem for path in HOUSE.glob("*.py")]
    assert sorted([*packages, *modules]) == sorted(PACKAGES)
    for name in set(PACKAGES) - {"__init__", "__main__", "learn"}:
        assert inspect.ismodule(importlib.import_module(f"rookery.{name}"))
        assert inspect.ismodule(getattr(rookery, name)), name


def test_importing_rookery_loads_nothing_heavy() -> None:
    heavy = "numpy selectolax tantivy httpcore pypdfium2 mammoth torch rich".split()
    code = f"import sys, rookery, rookery.records; print([m for m in {heavy} if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def repeated_passages(texts: Iterable[tuple[str, str]], window: int = 8) -> list[list[str]]:
    """Runs of `window` lines of code that stand in more than one place."""
    places_of = collections.defaultdict(list)
    for name, text in texts:
        left_out = set[int]()
        for node in ast.walk(parse_source(text)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                left_out |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
            if isinstance(node, FUNCTION):
                left_out |= {*range(node.lineno, node.body[0].lineno)}  # a protocol's signature
        lines = [line.strip() for line in text.splitlines()]
        code = [
            line
            for number, line in enumerate(lines, 1)
            if len(line) > 2 and not line.startswith("#") and number not in left_out
        ]
        for at in range(len(code) - window + 1):
            places_of[tuple(code[at : at + window])].append(f"{name}:{at}")
    return [places for places in places_of.values() if len(places) > 1]


def named_sources() -> list[tuple[str, str]]:
    return [(str(path), path.read_text(encoding="utf-8")) for path in FILES]


def test_no_passage_is_written_twice() -> None:
    assert repeated_passages(named_sources()) == []


def test_a_planted_copy_is_seen() -> None:
    copied = (HOUSE / "records.py").read_text(encoding="utf-8")
    assert repeated_passages([*named_sources(), ("copy.py", copied)])


def unprepared_types(source: str) -> list[str]:
    """Types of ours that msgspec reads before `prepare_type` has seen them."""
    unprepared = []
    for node in ast.walk(parse_source(source)):
        if not isinstance(node, ast.Call):
            continue
        reader = re.fullmatch(r"msgspec\.(.*\.)?(decode|Decoder|convert)", ast.unparse(node.func))
        kinds = {"decode": [each.value for each in node.keywords if each.arg == "type"]}
        kinds |= {"Decoder": node.args[:1], "convert": node.args[1:2]}
        for kind in kinds[reader[2]] if reader else []:
            names = {each.id for each in ast.walk(kind) if isinstance(each, ast.Name)}
            if "prepare_type" not in names and not names <= PLAIN:
                unprepared.append(ast.unparse(kind))
    return unprepared


@pytest.mark.slow
def test_types_are_prepared_before_threads_read_them() -> None:
    unprepared = {path.name: unprepared_types(path.read_text("utf-8")) for path in FILES}
    assert {name for name, kinds in unprepared.items() if kinds} == {"records.py"}


@pytest.mark.parametrize(
    "line",
    [
        "msgspec.json.decode(data, type=tuple[Page, ...])",
        "msgspec.convert(value, Page)",
        "msgspec.msgpack.Decoder(Page)",
    ],
)
def test_a_planted_type_that_is_not_prepared_is_seen(line: str) -> None:
    assert unprepared_types(line)


@pytest.mark.slow
def test_every_module_says_what_it_is_for() -> None:
    silent = [p.name for p in FILES if not ast.get_docstring(parse_source(p.read_text("utf-8")))]
    assert silent == []


def test_only_keys_are_read_from_the_environment() -> None:
    reads = [
        f"{path.name}: {line.strip()}"
        for path in FILES
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"os\.environ|getenv", line)
    ]
    # Shells ask for completions by the fourth; workers share their counts by the last.
    allowed = ("KEY", "key", "ID", "_COMPLETE", "MULTIPROCESS_FOLDER")
    assert all(any(word in read for word in allowed) for read in reads), reads


def unread_settings(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Fields with a default, of structs that refuse unknown fields, that no code ever reads."""
    trees = [parse_source(text) for _, text in texts]
    read = {
        node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    } | {"odds"}  # of a reward's scale, which only recipes read
    return [
        f"{node.name}.{field.target.id}"
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(keyword.arg == "forbid_unknown_fields" for keyword in node.keywords)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
        and field.value is not None  # what must be given is a result's
        and isinstance(field.target, ast.Name)
        and field.target.id not in read
    ]


@pytest.mark.slow
def test_every_setting_is_read() -> None:
    assert unread_settings(named_sources()) == []


@pytest.mark.slow
def test_a_planted_setting_that_nobody_reads_is_seen() -> None:
    planted = "class S(Struct, forbid_unknown_fields=True):\n    never_read_by_anybody: int = 1\n"
    assert unread_settings([*named_sources(), ("s.py", planted)]) == ["S.never_read_by_anybody"]


def test_library_code_never_prints() -> None:
    printing = [
        f"{path.name}:{node.lineno}"
        for path in FILES
        if name_package(path) not in ("shell", "server", "desk", "cli", "__main__")
        for node in ast.walk(parse_source(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert printing == []


def test_version_and_changelog_agree() -> None:
    from rookery import __version__

    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changelog, re.M)
    assert newest is not None
    assert newest.group(1) in (__version__, "Unreleased")


def test_the_tree_for_contributors_is_the_tree_on_disk() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = re.findall(r"^  (\w+)/ ", page, re.M)
    assert listed == [name for name in PACKAGES if (HOUSE / name).is_dir()]

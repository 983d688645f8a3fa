"""Rules of the house: imports go forward only, nothing heavy is loaded early, nothing is copied."""

import ast
import builtins
import collections
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HOUSE = ROOT / "rookery"
ROOMS = ("ask", "browse", "cite", "draft", "judge", "learn", "measure", "serve")
GROUND = {"records", "version", "errors", "settings"}
TORCH_ROOMS = {"learn", "measure", "serve"}
FILES = sorted(HOUSE.rglob("*.py"))
PLAIN = {"Any", "msgspec", *dir(builtins)}

# The ratchet: lines of code (no blank lines, comments, docstrings) and files of each package. Lower
# a number when it falls; whoever raises one writes the reason beside it.
SIZE_LIMITS = {
    "(top)": (1_500, 8),  # what every package reads becomes modules of its own: errors, settings
    "ask": (799, 4),
    "browse": (12_650, 60),  # maps over workers, and entries of an index, came from other packages
    "cite": (3_211, 19),
    "draft": (5_594, 32),
    "judge": (6_526, 34),
    "learn": (7_230, 34),  # losses and frozen layers are files of their own
    "measure": (2_103, 14),
    "serve": (21_429, 83),
}
MOST_CODE_LINES = 62_400
LAYOUT_TOKENS = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def room(path: Path, house: Path = HOUSE) -> str:
    return path.relative_to(house).parts[0].removesuffix(".py")


def imported(source: str) -> Iterable[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (
                [f"rookery.{a.name}" for a in node.names]
                if node.module == "rookery"
                else [node.module]
            )
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def count_code_lines(source: str) -> int:
    """Lines that hold code: neither blank, nor a comment, nor a docstring."""
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT_TOKENS:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
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
    assert find_excess({"serve": (MOST_CODE_LINES + 1, 1)})[-1].startswith("all")


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


def backward_imports(files: Iterable[tuple[str, str]]) -> list[str]:
    """(room, source) of each file to the imports that go to a later room."""
    return [
        f"{ours} imports {theirs}"
        for ours, source in files
        for name in imported(source)
        if name.startswith("rookery.")
        and (theirs := name.split(".")[1]) in (*ROOMS, "__main__")
        and (ours in GROUND or (ours in ROOMS and theirs > ours))
    ]


def torch_imports(files: Iterable[tuple[str, str]]) -> list[str]:
    return [
        ours
        for ours, source in files
        for name in imported(source)
        if name.split(".")[0] in ("torch", "transformers", "sentence_transformers")
        and ours not in TORCH_ROOMS
    ]


def sources() -> list[tuple[str, str]]:
    return [(room(path), path.read_text(encoding="utf-8")) for path in FILES]


@pytest.mark.slow
def test_a_room_imports_only_rooms_before_it() -> None:
    assert backward_imports(sources()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ours", "line"),
    [
        ("browse", "from rookery.cite.passage_ranking import rank_passages"),
        ("records", "import rookery.ask.question_files"),
        ("draft", "def f() -> None:\n    from rookery.serve import terminal_output"),
    ],
)
def test_a_planted_backward_import_is_seen(ours: str, line: str) -> None:
    assert len(backward_imports([*sources(), (ours, line)])) == 1


@pytest.mark.slow
def test_no_torch_before_learn() -> None:
    assert torch_imports(sources()) == []


@pytest.mark.slow
def test_planted_torch_is_seen() -> None:
    assert torch_imports([*sources(), ("cite", "def f() -> None:\n    import torch.nn")]) == [
        "cite"
    ]


def test_the_rooms_are_in_the_order_of_the_alphabet() -> None:
    rooms = sorted(p.name for p in HOUSE.iterdir() if p.is_dir() and p.name != "__pycache__")
    assert tuple(rooms) == ROOMS


def test_importing_rookery_loads_nothing_heavy() -> None:
    heavy = "numpy selectolax tantivy httpcore pypdfium2 mammoth torch rich".split()
    code = f"import sys, rookery, rookery.records; print([m for m in {heavy} if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def repeated_passages(texts: Iterable[tuple[str, str]], window: int = 8) -> list[list[str]]:
    """Runs of `window` lines of code that stand in more than one place."""
    seen = collections.defaultdict(list)
    for name, text in texts:
        left_out = set[int]()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                left_out |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                left_out |= {*range(node.lineno, node.body[0].lineno)}  # a protocol's signature
        lines = [line.strip() for line in text.splitlines()]
        code = [
            line
            for number, line in enumerate(lines, 1)
            if len(line) > 2 and not line.startswith("#") and number not in left_out
        ]
        for at in range(len(code) - window + 1):
            seen[tuple(code[at : at + window])].append(f"{name}:{at}")
    return [places for places in seen.values() if len(places) > 1]


def named_sources() -> list[tuple[str, str]]:
    return [(str(path), path.read_text(encoding="utf-8")) for path in FILES]


def test_no_passage_is_written_twice() -> None:
    assert repeated_passages(named_sources()) == []


def test_a_planted_copy_is_seen() -> None:
    copied = (HOUSE / "records.py").read_text(encoding="utf-8")
    assert repeated_passages([*named_sources(), ("copy.py", copied)])


def unprepared_types(source: str) -> list[str]:
    """Types of ours that msgspec reads before `prepare_type` has seen them."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        reader = re.fullmatch(r"msgspec\.(.*\.)?(decode|Decoder|convert)", ast.unparse(node.func))
        kinds = {"decode": [each.value for each in node.keywords if each.arg == "type"]}
        kinds |= {"Decoder": node.args[:1], "convert": node.args[1:2]}
        for kind in kinds[reader[2]] if reader else []:
            names = {each.id for each in ast.walk(kind) if isinstance(each, ast.Name)}
            if "prepare_type" not in names and not names <= PLAIN:
                found.append(ast.unparse(kind))
    return found


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
    silent = [p.name for p in FILES if not ast.get_docstring(ast.parse(p.read_text("utf-8")))]
    assert silent == []


def test_only_keys_are_read_from_the_environment() -> None:
    reads = [
        f"{path.name}: {line.strip()}"
        for path in FILES
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"os\.environ|getenv", line)
    ]
    allowed = ("KEY", "key", "ID", "_COMPLETE")  # the last is how shells ask for completions
    assert all(any(word in read for word in allowed) for read in reads), reads


def unread_settings(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Fields with a default, of structs that refuse unknown fields, that no code ever reads."""
    trees = [ast.parse(text) for _, text in texts]
    read = {
        node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }
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
        if room(path) not in ("serve", "__main__")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
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


def test_the_tree_in_the_readme_is_the_tree_on_disk() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^  (\w+)/ ", readme, re.M)
    assert tuple(shown) == ROOMS

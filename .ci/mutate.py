"""Change core modules in one place at a time, run their tests, and print what no test noticed.

`python .ci/mutate.py [SEED]` works in copies of the repository. It first runs the tests without a
change (they must pass), then draws the same number of mutants from each module.
"""

import ast
import queue
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
COPIED = ("rookery", "tests", "examples", "pyproject.toml", "README.md")
PER_MODULE = 5
WORKERS = 2
SECONDS = 300
"""for the tests of one mutant; one that runs longer counts as noticed"""

TESTS = {
    "rookery/browser/browser.py": ["tests/browser/test_browser.py"],
    "rookery/browser/page_view.py": [
        "tests/browser/test_page_view.py",
        "tests/browser/test_browser.py",
    ],
    "rookery/pages/text_folding.py": [
        "tests/pages/test_text_folding_search.py",
        "tests/pages/test_text_folding_search_in_windows.py",
    ],
    "rookery/quotes/saved_answers.py": ["tests/quotes/test_saved_answers.py"],
    "rookery/quotes/citation_syntax.py": ["tests/quotes/test_citation_syntax.py"],
    "rookery/quotes/verification.py": [
        "tests/quotes/test_verification.py",
        "tests/quotes/test_verification_elision.py",
        "tests/cli/test_cite_verify.py",
    ],
    "rookery/evidence/calibration.py": [
        "tests/evidence/test_calibration_limits.py",
        "tests/evidence/test_calibration.py",
    ],
    "rookery/desk/adjudication.py": ["tests/desk/test_rater_quality.py"],
}
"""each mutated module with the tests that are to notice"""

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult}


class Mutant(NamedTuple):
    """One changed expression of a module; lines and columns as in `ast`."""

    module: str
    line: int
    old: str
    new: str
    source: str
    """of the whole changed module"""

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.old}  ->  {self.new}"


def mutate_expression(node: ast.AST) -> ast.expr | None:
    """Return another expression in place of this one; None where none is known."""
    match node:
        case ast.Compare(left, [operator], [right]) if type(operator) in COMPARISONS:
            return ast.Compare(left, [COMPARISONS[type(operator)]()], [right])
        case ast.BinOp(left, operator, right) if type(operator) in ARITHMETIC:
            return ast.BinOp(left, ARITHMETIC[type(operator)](), right)
        case ast.BoolOp(operator, values):
            return ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
        case ast.Constant(int() as value):
            return ast.Constant(value + 1)
        case ast.IfExp(test, body, orelse):
            return ast.IfExp(test, orelse, body)
    return None


def find_mutants(module: str) -> Iterator[Mutant]:
    """Yield every mutant of the code inside the functions of a module."""
    source = (ROOT / module).read_text(encoding="utf-8")
    offsets = [0]
    for line in source.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    functions = (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    seen = set()
    for node in (
        each for function in functions for part in function.body for each in ast.walk(part)
    ):
        other = mutate_expression(node)
        if other is None or not isinstance(node, ast.expr) or node.end_lineno is None:
            continue
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[node.end_lineno - 1] + (node.end_col_offset or 0)
        if (start, end) in seen:
            continue
        seen.add((start, end))
        text, new = source.encode(), f"({ast.unparse(other)})"
        changed = (text[:start] + new.encode() + text[end:]).decode()
        yield Mutant(module, node.lineno, ast.unparse(node), new[1:-1], changed)


def copy_repository(folder: Path) -> Path:
    """Copy what the tests need into a folder; return it."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    return folder


def pass_tests(folder: Path, tests: list[str]) -> bool:
    """Run tests in a copy of the repository; return whether all of them pass in time."""
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    """Print each mutant as it is decided, then the survivors; return 1 where there are any."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(WORKERS) as pool:
        folders = queue.SimpleQueue[Path]()
        for number in range(WORKERS):
            folders.put(copy_repository(Path(place) / str(number)))

        def survives(mutant: Mutant | None, tests: list[str]) -> bool:
            folder = folders.get()
            try:
                if mutant is None:
                    return pass_tests(folder, tests)
                whole = (folder / mutant.module).read_bytes()
                (folder / mutant.module).write_text(mutant.source, encoding="utf-8")
                try:
                    return pass_tests(folder, tests)
                finally:
                    (folder / mutant.module).write_bytes(whole)
            finally:
                folders.put(folder)

        controls = pool.map(survives, [None] * len(TESTS), TESTS.values())
        for (module, tests), passed in zip(TESTS.items(), controls, strict=True):
            if not passed:
                print(f"{module}: {' '.join(tests)} fail without any change: mend them first")
                return 1
        mutants = [
            mutant
            for module in TESTS
            for mutant in random.Random(f"{seed}:{module}").sample(
                list(find_mutants(module)), PER_MODULE
            )
        ]
        found = pool.map(survives, mutants, [TESTS[mutant.module] for mutant in mutants])
        survivors = []
        for mutant, survived in zip(mutants, found, strict=True):
            print("SURVIVED" if survived else "noticed ", mutant, flush=True)
            survivors += [mutant] if survived else []
    print(f"{len(survivors)} of {len(mutants)} mutants survived (seed {seed})")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

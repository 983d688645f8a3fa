"""Count the lines, files and names of a tree of the package: `python .ci/house.py [FOLDER]`."""

import ast
import collections
import sys
from pathlib import Path

QUESTION_WORDS = ("What", "Whether", "How", "Who", "Where", "When", "All")


def main() -> None:
    """Print the counts of FOLDER/rookery, migrations left out."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    lines = files = functions = one_word = docstrings = questions = 0
    modules = collections.defaultdict(set)
    for path in sorted((folder / "rookery").rglob("*.py")):
        if "migrations" in path.parts:
            continue
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        files, lines = files + 1, lines + source.count("\n")
        for top in tree.body:
            if isinstance(top, ast.FunctionDef | ast.ClassDef) and not top.name.startswith("_"):
                modules[top.name].add(path)
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if text := ast.get_docstring(node):
                docstrings += 1
                questions += text.split()[0].strip(",.:") in QUESTION_WORDS
            decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
            if not isinstance(node, ast.ClassDef) and not node.name.startswith("__"):
                functions += 1
                one_word += "_" not in node.name.strip("_") and not (
                    decorators & {"property", "cached_property"}
                )
    shared = sum(len(places) > 1 for places in modules.values())
    print(f"{lines:,} lines in {files} files")
    print(f"{one_word:,} of {functions:,} functions have one word ({one_word / functions:.0%})")
    print(f"{shared} of {len(modules):,} public names stand in several modules")
    print(f"{questions} of {docstrings:,} docstrings ask ({questions / docstrings:.0%})")


if __name__ == "__main__":
    main()

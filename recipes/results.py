"""`python -m recipes.results RUNS`: docs/results.md, from what the recipes found.

Each paper's figure stands beside ours, with what differs and why. It measures nothing.
"""

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from recipes.stages import ROOT, Result
from rookery.measure.figure import Figure

RECIPES = ("ziegler", "webgpt", "gophercite", "webglm")
PAGE, PICTURES = ROOT / "docs" / "results.md", ROOT / "docs" / "results"
LONG = 12
"""rows of a table that is shown folded"""
HEAD = """# Results

The four papers, each played end to end by one recipe at a size that two cores finish within an hour
(`make -j2 reproduce`, with the data sets in `../shared/data`). This page and its pictures are
written by `python -m recipes.results`; nobody edits them. Our models are thousands of times smaller
than the papers', so that effects are compared and not their sizes. Intervals hold the true value 95
times in 100; an effect counts as seen where it lies beyond its interval. Minutes are of a machine
that did other work beside.
"""


def main() -> None:
    """Writes the page from the runs that there are; says which are missing."""
    runs = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
    shutil.rmtree(PICTURES, ignore_errors=True)
    parts = [HEAD]
    for recipe in RECIPES:
        folder = runs / f"{recipe}-small"
        if (folder / "result.json").exists():
            parts += _section(folder)
        else:
            parts.append(f"## {recipe}\n\nNot run: `python -m recipes.{recipe} small`.\n")
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def _section(folder: Path) -> Iterator[str]:
    result = Result.from_json((folder / "result.json").read_bytes())
    about = importlib.import_module(f"recipes.{result.recipe}").__doc__ or ""
    seeds = f"seed {', '.join(map(str, result.seeds))}"
    yield f"## {result.recipe}\n\n{' '.join(about.split())}\n"
    command = f"python -m recipes.{result.recipe} {result.size}"
    yield f"`{command}` · {result.minutes:.0f} min · {seeds}\n"
    yield "| | effect | in the paper | here | seen |\n|---|---|---|---|---|"
    for number, each in enumerate(result.findings, 1):
        seen = "yes" if each.holds else "**no**"
        cells = (str(number), each.effect, each.paper, each.ours, seen)
        yield f"| {' | '.join(map(_cell, cells))} |"
    yield ""
    yield from (f"- {numbers}: {why}" for why, numbers in _whys(result).items())
    yield from (f"- {note}" for note in result.notes)
    yield ""
    for place in sorted((folder / "figures").glob("*.json")):
        yield from _figure(result.recipe, place)


def _whys(result: Result) -> dict[str, str]:
    """Each reason, and the numbers of the findings that it is given for."""
    found: dict[str, list[str]] = {}
    for number, each in enumerate(result.findings, 1):
        if each.why:
            found.setdefault(each.why, []).append(str(number))
    return {why: ", ".join(numbers) for why, numbers in found.items()}


def _figure(recipe: str, place: Path) -> Iterator[str]:
    figure = Figure.from_json(place.read_bytes())
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = PICTURES / f"{recipe}-{figure.name}.svg"
    shutil.copyfile(place.with_suffix(".svg"), picture)
    source = f" ({figure.source})" if figure.source else ""
    yield f"### {figure.title}{source}\n\n{figure.says}\n"
    yield f"![{figure.title}]({PICTURES.name}/{picture.name})\n"
    lines = place.with_suffix(".md").read_text(encoding="utf-8").splitlines()
    table = "\n".join(line for line in lines if line.startswith("|"))
    if len(figure.rows) > LONG:
        table = f"<details><summary>{len(figure.rows)} rows</summary>\n\n{table}\n\n</details>"
    yield table + "\n"


def _cell(words: str) -> str:
    return " ".join(words.replace("|", "\\|").split())


if __name__ == "__main__":
    main()

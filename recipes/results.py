"""`python -m recipes.results RUNS`: write docs/results.md and docs/results/ from the recipes' runs.

Each figure of the papers stands beside ours, with the differences and their reasons. Nothing is
measured here. The page has findings, pictures and short tables; the rows of every figure are in a
CSV file beside it.
"""

import csv
import importlib
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from recipes.stages import ROOT, Result
from rookery.measure.figures import Figure

RECIPES = ("ziegler", "webgpt", "gophercite", "webglm")
PAGE, PICTURES = ROOT / "docs" / "results.md", ROOT / "docs" / "results"
LONG = 12
"""Rows of the longest table that the page shows; longer ones are in their CSV file only."""
HEAD = """# Results

The four papers, each played end to end by one recipe at a size that two cores finish within an hour
(`make -j2 reproduce`, with the data sets in `../shared/data`). This page, its pictures and the rows
of each figure (CSV) are written by `python -m recipes.results`; nobody edits them. Our models are
thousands of times smaller than the papers', so that effects are compared and not their sizes.
Intervals hold the true value 95 times in 100; an effect counts as seen where it lies beyond its
interval. Minutes are of a machine that did other work beside.
"""


def main() -> None:
    """Write the page from the runs that exist, and name those that are missing."""
    runs = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
    shutil.rmtree(PICTURES, ignore_errors=True)
    parts = [HEAD]
    for recipe in RECIPES:
        folder = runs / f"{recipe}-small"
        if (folder / "result.json").exists():
            parts += _render_section(folder)
        else:
            parts.append(f"## {recipe}\n\nNot run: `python -m recipes.{recipe} small`.\n")
    PAGE.write_text("\n".join(parts), encoding="utf-8")


def _render_section(folder: Path) -> Iterator[str]:
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
        yield f"| {' | '.join(map(_escape_cell, cells))} |"
    yield ""
    yield from (f"- {numbers}: {why}" for why, numbers in _group_reasons(result).items())
    yield from (f"- {note}" for note in result.notes)
    yield ""
    for place in sorted((folder / "figures").glob("*.json")):
        yield from _render_figure(result.recipe, place)


def _group_reasons(result: Result) -> dict[str, str]:
    """Return each stated reason with the numbers of its findings."""
    found: dict[str, list[str]] = {}
    for number, each in enumerate(result.findings, 1):
        if each.why:
            found.setdefault(each.why, []).append(str(number))
    return {why: ", ".join(numbers) for why, numbers in found.items()}


def _render_figure(recipe: str, place: Path) -> Iterator[str]:
    figure = Figure.from_json(place.read_bytes())
    PICTURES.mkdir(parents=True, exist_ok=True)
    picture = PICTURES / f"{recipe}-{figure.name}.svg"
    shutil.copyfile(place.with_suffix(".svg"), picture)
    source = f" ({figure.source})" if figure.source else ""
    yield f"### {figure.title}{source}\n\n{figure.says}\n"
    yield f"![{figure.title}]({PICTURES.name}/{picture.name})\n"
    lines = place.with_suffix(".md").read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("|")]
    if len(figure.rows) <= LONG:
        yield "\n".join(table) + "\n"
    rows = _write_rows(table, picture.with_suffix(".csv"))
    yield f"[Its {rows} rows]({PICTURES.name}/{picture.stem}.csv)\n"


def _write_rows(table: list[str], place: Path) -> int:
    """Write the cells of a Markdown table as CSV; returns how many rows stand under its head."""
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table]
    del cells[1]  # the line between the head and the rows
    with place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([cell.strip().replace("\\|", "|") for cell in row] for row in cells)
    return len(cells) - 1


def _escape_cell(words: str) -> str:
    return " ".join(words.replace("|", "\\|").split())


if __name__ == "__main__":
    main()

"""`python -m recipes.results [RUN ...]`: keep the results of these runs, and write docs/results.md.

The page begins with curves; then each effect of the papers has three answers, over all seeds whose
results are kept. Nothing is measured here. A result is one file beside the page, with scores and
figures, and is committed when its run has ended, so that a reproduction may take days and several
machines. The rows of every figure are in a CSV file.
"""

import argparse
import ast
import csv
import fcntl
import gzip
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path

from recipes.findings import (
    Effect,
    Finding,
    SystemEstimate,
    format_estimate,
    format_systems,
    list_findings,
)
from recipes.stages import ROOT, Result
from rookery.measure.figures import Figure, format_figure_markdown
from rookery.measure.plotting import render_svg

RECIPES = ("ziegler", "webgpt", "gophercite", "webglm")
SIZES = ("small", "medium")
PAGE, PICTURES = ROOT / "docs" / "results.md", ROOT / "docs" / "results"
LONG = 12
"""Rows of the longest table that the page shows; longer ones are in their CSV file only."""
CURVES = {
    "Reward by batch": "rewards",
    "Accuracy by labels": "labels",
    "Right by demonstrations": "demonstrations",
    "Gain by n": "best-of-n",
    "Quality by answers kept": "coverage",
}
"""Headings of the first page, and the names of the figures below them."""
HEAD = """# Results

This page shows what was found when Rookery's recipes repeated the main experiments of the four
papers at a small scale, effect by effect.

Each paper has one recipe, in two sizes: `small` for two cores (`make -j2 reproduce SEEDS="0 1 2"`,
with the data sets in `../shared/data`, and SmolLM2-135M by `rookery models add smollm2`), and
`medium` for one GPU (`python -m recipes.NAME medium`), with about ten times as many examples, none
of which are in `small`. Our models are six to two thousand times smaller than the papers', and
learn from hundreds or thousands of examples: compare whether there is an effect, and not how large
it is. The minutes are those of a machine that did other work at the same time.

This page, its pictures, the rows of each figure (CSV) and the scores of each seed are written by
`python -m recipes.results`, and not edited by hand. A result that is kept is not made again until
its file in docs/results is deleted. The recipes were rewritten for version 0.3; the results of
version 0.2 are in its docs/results.md (commit edb16b2) and, in short, in docs/LOG.md.

The curves come first. Then there are three answers for each effect:

- **(a) The paper's claim**: the score of what was learnt minus that of its own reference, on the
  same questions. "yes": the whole interval lies above 0, and each seed does. "no": it lies below.
  "the same" needs a margin that was set before the run, and is refuted beyond it.
- **(b) Beyond fair floors**: the score of what was learnt minus that of each system that has the
  same access and learnt nothing from it (by lot, likeliest, longest, majority, best of n at equal
  KL). "yes": above all of them, beyond the interval. "no": below one of them.
- **(c) Facts, without a verdict**: what scripts reach on the same questions, and the best score
  that is possible or known.

Intervals, in brackets, hold the true value 95 times in 100 (`python -m bench intervals`). They are
over questions, each with its mean over the seeds; the values of single seeds are given too, since
three seeds say little about others. "could see" is the smallest effect that the measurement would
have seen 80 times in 100: 2.8 standard errors, which is 1.43 times half the interval. Where nothing
was seen, the verdict is "too small to tell" if the effect that was expected before the run is
smaller than that, "not seen" if it is larger, and "undecided" if none was expected.
"""


def main() -> None:
    """Keep the results of the given runs, write the page from all that are kept, and name the
    recipes that were never run."""
    parser = argparse.ArgumentParser(prog="python -m recipes.results", description=main.__doc__)
    parser.add_argument("runs", metavar="RUN", nargs="*", type=Path, help="folder of a run")
    files = [folder / "result.json" for folder in parser.parse_args().runs]
    for file in files:
        if not file.is_file():
            parser.error(f"{file} is not there: name the folder of a run that has ended")
    PICTURES.mkdir(parents=True, exist_ok=True)
    lock = os.open(PICTURES, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)  # `make -j2 reproduce` may end two recipes at once
    for file in files:
        keep_result(Result.from_json(file.read_bytes()))
    _write_page()
    os.close(lock)


def keep_result(result: Result) -> None:
    """Write a result beside the page, in place of the one of its seed.

    Raises ValueError if the results of other seeds look for other effects: then they are of another
    version.
    """
    name = f"{result.recipe}-{result.size}"
    for other in read_kept_results(name):
        if other.effects != result.effects and other.seeds != result.seeds:
            raise ValueError(
                f"{name}: seeds {other.seeds[0]} and {result.seeds[0]} look for different effects: "
                f"delete {_get_result_path(other)}, which is of another version, and run it again"
            )
    _get_result_path(result).write_bytes(gzip.compress(result.to_json().encode(), mtime=0))


def read_kept_results(name: str) -> list[Result]:
    """Return the kept results of a recipe and size (`webgpt-small`), by their seeds."""
    places = PICTURES.glob(f"{name}-[0-9]*.json.gz")
    results = [Result.from_json(gzip.decompress(each.read_bytes())) for each in places]
    return sorted(results, key=lambda each: each.seeds)


def _get_result_path(result: Result) -> Path:
    return PICTURES / f"{result.recipe}-{result.size}-{result.seeds[0]}.json.gz"


def _write_page() -> None:
    """Write the page, and the pictures and rows of the first seed's figures."""
    for old in (*PICTURES.glob("*.svg"), *PICTURES.glob("*.csv")):
        old.unlink()
    results_by_size = {
        (recipe, size): read_kept_results(f"{recipe}-{size}")
        for recipe, size in product(RECIPES, SIZES)
    }
    parts = list[str]()
    for (recipe, size), results in results_by_size.items():
        if results:
            parts += _render_section(results)
        else:
            command = f"python -m recipes.{recipe} {size}"
            parts.append(f"## {recipe}, {size}\n\nNo result is kept: run `{command}`.\n")
    curves = _render_curves([results[0] for results in results_by_size.values() if results])
    PAGE.write_text("\n".join([HEAD, *curves, *parts]), encoding="utf-8")


def _render_section(results: Sequence[Result]) -> Iterator[str]:
    """Render a recipe's findings over all its runs, then the figures of the first."""
    first = results[0]
    name = f"{first.recipe}-{first.size}"
    yield _render_title(first)
    seeds = [seed for each in results for seed in each.seeds]
    minutes = sum(each.minutes for each in results)
    count = f"{_count_seeds(results)} ({', '.join(map(str, seeds))})"
    yield f"`python -m recipes.{first.recipe} {first.size}` · {count} · {minutes:.0f} min in all\n"
    findings = list(list_findings(first.effects, [each.tables for each in results]))
    yield "| | effect | (a) the paper's claim | (b) beyond fair floors |\n|---|---|---|---|"
    for number, each in enumerate(findings, 1):
        floors = each.beyond if each.floors else "no floors"
        cells = (str(number), each.effect, f"**{each.verdict}**", f"**{floors}**")
        yield f"| {' | '.join(map(_escape_cell, cells))} |"
    yield ""
    for number, (effect, each) in enumerate(zip(first.effects, findings, strict=True), 1):
        yield from _render_finding(number, effect, each)
    yield "\nWhat the scores are, and how they were made:\n"
    tables = {table.name: table for table in first.tables}
    for says, numbers in _group_numbers(tables[each.table].says for each in first.effects):
        questions = tables[first.effects[numbers[0] - 1].table].questions
        yield f"- {_name_effects(numbers)}: {says}; {len({*questions})} questions"
    for aimed, numbers in _group_numbers(map(_describe_aim, findings)):
        yield f"- {_name_effects(numbers)}, the reward that was optimised: {aimed}"
    for hacked, numbers in _group_numbers(map(_describe_hacking, findings)):
        yield f"- {_name_effects(numbers)}, reward hacking: {hacked}"
    for chosen, numbers in _group_numbers(each.chosen for each in first.effects):
        yield f"- {_name_effects(numbers)}, chosen: {chosen}"
    for why, numbers in _group_numbers(each.why for each in findings):
        yield f"- {_name_effects(numbers)}, the presumed reason: {why}"
    for note in dict.fromkeys(note for each in results for note in each.notes):
        noted = [str(each.seeds[0]) for each in results if note in each.notes]
        of = "" if len(noted) == len(results) else f"seed {', '.join(noted)}: "
        yield f"- {of}{note}"
    links = (f"[{name}-{seed}]({PICTURES.name}/{name}-{seed}.json.gz)" for seed in seeds)
    yield f"- Scores of single questions, as JSON: {', '.join(links)}\n"
    if len(results) > 1:
        yield f"The figures below are of seed {seeds[0]} alone.\n"
    for figure in first.figures:
        yield from _render_figure(name, figure)


def _render_curves(results: Sequence[Result]) -> Iterator[str]:
    """Render the first page: curves of all recipes, each kind under its heading."""
    for title, name in CURVES.items():
        yield f"## {title}\n"
        pairs = [
            (each, figure) for each in results for figure in each.figures if figure.name == name
        ]
        if not pairs:
            yield "No result that is kept has this curve.\n"
        for each, curve in pairs:
            of = f"{each.recipe}, {each.size}"
            picture = f"{PICTURES.name}/{each.recipe}-{each.size}-{name}.svg"
            yield f"{of}: {curve.says}\n\n![{of}: {title}]({picture})\n"


def _render_title(result: Result) -> str:
    # Importing the recipe would load torch.
    source = (ROOT / "recipes" / f"{result.recipe}.py").read_text(encoding="utf-8")
    about = ast.get_docstring(ast.parse(source)) or ""
    return f"## {result.recipe}, {result.size}\n\n{' '.join(about.split())}\n"


def _render_finding(number: int, effect: Effect, finding: Finding) -> Iterator[str]:
    """Render one effect as a list; a phone cuts off a table of eight columns."""
    scores = f"{_format_scores([finding.learnt])}, {_format_scores([finding.reference])}"
    floors = f"**{finding.beyond}**: {format_systems(finding.floors)}" if finding.floors else ""
    expected = f"{effect.margin:g} is the same" if effect.margin else "no margin was set"
    if effect.claim == "more":
        expected = f"{effect.expected:g} expected" if effect.expected else "none was expected"
    least = "nothing: no interval" if finding.least is None else f"{finding.least:.3f}; {expected}"
    seeds = ", ".join(f"{seed:.3f}" for seed in finding.seeds)
    yield f"- **{number}. {finding.effect}.** In the paper: {finding.paper}"
    yield (
        f"    - (a) **{finding.verdict}**: {format_estimate(finding.more, sized=False)}; {scores}. "
        f"Of each seed: {seeds}. Could see {least}"
    )
    yield f"    - (b) {'; '.join(filter(None, (floors, effect.lacking)))}"
    yield f"    - (c) {_format_scores(finding.facts) or 'none'}"


def _format_scores(systems: Iterable[SystemEstimate]) -> str:
    return "; ".join(f"{each.system} {each.score.value:.3f}" for each in systems)


def _describe_aim(finding: Finding) -> str:
    if finding.aimed is None or finding.correlation is None:
        return "there is none, or its scores are not stored by question"
    more = format_estimate(finding.aimed, sized=False)
    return f"{more} more by it; its correlation with these scores is {finding.correlation:.2f}"


def _describe_hacking(finding: Finding) -> str:
    """Return what optima of a reward score that nobody wants, or nothing."""
    if not finding.hacks:
        return ""
    return (
        f"{_format_scores(finding.hacks)}, where {_format_scores([finding.reference])}: texts that "
        "the reward likes and nobody wants, and that no policy near the reference writes"
    )


def _group_numbers(texts: Iterable[str]) -> Iterator[tuple[str, list[int]]]:
    """Yield each distinct text with the numbers of the findings that have it."""
    found: dict[str, list[int]] = {}
    for number, text in enumerate(texts, 1):
        if text:
            found.setdefault(text, []).append(number)
    yield from found.items()


def _name_effects(numbers: Sequence[int]) -> str:
    return f"Effect{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"


def _render_figure(name: str, figure: Figure) -> Iterator[str]:
    """Write a figure's picture and rows, and yield its text with links to them."""
    picture = PICTURES / f"{name}-{figure.name}.svg"
    picture.write_text(render_svg(figure), encoding="utf-8")
    source = f" ({figure.source})" if figure.source else ""
    yield f"### {figure.title}{source}\n\n{figure.says}\n"
    yield f"![{figure.title}]({PICTURES.name}/{picture.name})\n"
    lines = format_figure_markdown(figure).splitlines()
    table = [line for line in lines if line.startswith("|")]
    if len(figure.rows) <= LONG:
        yield "\n".join(table) + "\n"
    rows = _write_rows(table, picture.with_suffix(".csv"))
    yield f"[Its {rows} rows]({PICTURES.name}/{picture.stem}.csv)\n"


def _count_seeds(results: Sequence[Result]) -> str:
    return f"{len(results)} {'seed' if len(results) == 1 else 'seeds'}"


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

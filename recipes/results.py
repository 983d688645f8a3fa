"""`python -m recipes.results RUNS`: write docs/results.md and docs/results/ from the recipes' runs.

The page begins with curves; then each effect of the papers has three answers, over all seeds that
were run. Nothing is measured here. The rows of every figure are in a CSV file beside it. Results
with their scores are kept beside the page, so that seeds may be run one after another, and on
several machines.
"""

import ast
import csv
import gzip
import re
import shutil
import sys
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

RECIPES = ("ziegler", "webgpt", "gophercite", "webglm")
SIZES = ("small", "medium")
PAGE, PICTURES = ROOT / "docs" / "results.md", ROOT / "docs" / "results"
LONG = 12
"""Rows of the longest table that the page shows; longer ones are in their CSV file only."""
CURVES = {
    "Reward by batch": "rewards",
    "Accuracy by labels": "labels",
    "Gain by n": "best-of-n",
    "Quality by answers kept": "coverage",
}
"""Headings of the first page, and the names of the figures below them."""
HEAD = """# Results

The four papers, each played end to end by one recipe: at the size `small`, made for one core and
two hours at most (`make -j2 reproduce SEEDS="0 1 2"`, with the data sets in `../shared/data`, and
SmolLM2-135M by `rookery models add smollm2`), and at the size `medium`, with about ten times the
examples, made for one GPU (`python -m recipes.NAME medium --seed 0 --out runs/NAME-medium-0`) and
asked other questions than `small`. This page, its pictures, the rows of each figure (CSV) and the
scores of each seed are written by `python -m recipes.results`; nobody edits them. Nine runs of
`medium` whose scores were lost are in the log (docs/LOG.md), by what they printed.
Our models are six to two thousand times smaller than the papers', and learn from hundreds or
thousands of examples, so that effects are compared and not their sizes. Minutes are of a machine
that did other work beside. First come curves, then for each effect three answers:

- **(a) The paper's claim**: what was learnt less its own reference, on the same questions. "yes":
  the whole interval lies above 0, and each seed does. "no": it lies below. "The same" is seen only
  within a margin that was set before the run, and refuted beyond it.
- **(b) Beyond fair floors**: what was learnt less each system that has the same access and learnt
  nothing of it (by lot, likeliest, longest, majority, best of n at equal KL). "yes": above all of
  them, beyond the interval; "no": below one.
- **(c) Facts, without a verdict**: what scripts reach on the same questions, and the best possible
  or known.

Intervals, in brackets, hold the true value 95 times in 100 (`python -m bench intervals`). They are
over questions, each with its mean over the seeds; the seeds' own values stand beside them, since
three seeds say little of others. "Could see" is the least effect that the measurement would have
seen 80 times in 100: 2.8 standard errors, which is 1.43 times half the interval. Where what was
expected before the run is less than that, and nothing is seen, the row is "too small to tell";
where it is more, "not seen"; where nothing was expected, "undecided". Pictures were drawn when
their runs ended: intervals in those of version 0.2 are the bootstrap's, which is too narrow for few
questions.
"""


def main() -> None:
    """Keep what the runs that exist found, write the page from all that was kept, and name the
    recipes that were never run."""
    runs = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
    parts = list[str]()
    for recipe, size in product(RECIPES, SIZES):
        name = f"{recipe}-{size}"
        folders = [place.parent for place in runs.glob(f"{name}-*/result.json")]
        if folders:
            _keep_runs(name, folders)
        kept_results = _read_kept_results(name)
        if kept_results:
            parts += _render_section(kept_results)
        else:
            command = f"python -m recipes.{recipe} {size}"
            parts.append(f"## {recipe}, {size}\n\nNo run is kept: `{command}`.\n")
    PAGE.write_text("\n".join([HEAD, *_render_curves(), *parts]), encoding="utf-8")


def _read_kept_results(name: str) -> list[Result]:
    """Return the kept results of a recipe and size (`webgpt-small`), by their seeds."""
    place = _get_scores_place(name)
    lines = gzip.decompress(place.read_bytes()).splitlines() if place.exists() else []
    return sorted(map(Result.from_json, lines), key=lambda each: each.seeds)


def _get_scores_place(name: str) -> Path:
    """Return the file of a recipe and size that has one result a line, one of each seed."""
    return PICTURES / f"{name}-seeds.jsonl.gz"


def _keep_runs(name: str, folders: Sequence[Path]) -> None:
    """Copy the results of runs, with their scores, and the figures of the first seed.

    Results of other seeds that were kept before stay, unless they look for other effects: then they
    are of another version. Raises ValueError where the runs themselves do.
    """
    run_results = {each: Result.from_json((each / "result.json").read_bytes()) for each in folders}
    first = min(run_results, key=lambda each: run_results[each].seeds)
    for other in run_results.values():
        if other.effects != run_results[first].effects:
            raise ValueError(
                f"{name}: seeds {run_results[first].seeds[0]} and {other.seeds[0]} look for "
                "different effects: run them with the same version and size"
            )
    seeds = {each.seeds for each in run_results.values()}
    kept_folders = [
        each
        for each in _read_kept_results(name)
        if each.effects == run_results[first].effects and each.seeds not in seeds
    ]
    before = min((each.seeds for each in kept_folders), default=run_results[first].seeds)
    PICTURES.mkdir(parents=True, exist_ok=True)
    results = sorted((*kept_folders, *run_results.values()), key=lambda each: each.seeds)
    lines = "".join(each.to_json() + "\n" for each in results).encode()
    _get_scores_place(name).write_bytes(gzip.compress(lines, mtime=0))
    if run_results[first].seeds <= before:
        for old in PICTURES.glob(f"{name}-*"):
            if old != _get_scores_place(name):
                old.unlink()
        for place in (first / "figures").glob("*.json"):
            shutil.copyfile(place, PICTURES / f"{name}-{place.stem}.figure.json")
            shutil.copyfile(place.with_suffix(".svg"), PICTURES / f"{name}-{place.stem}.svg")


def _render_section(results: Sequence[Result]) -> Iterator[str]:
    """Render a recipe's findings over all its runs, then the figures of the first."""
    first = results[0]
    name = f"{first.recipe}-{first.size}"
    yield _render_title(first)
    seeds = ", ".join(str(seed) for each in results for seed in each.seeds)
    minutes = sum(each.minutes for each in results)
    count = f"{len(results)} {'seed' if len(results) == 1 else 'seeds'} ({seeds})"
    yield f"`python -m recipes.{first.recipe} {first.size}` · {count} · {minutes:.0f} min in all\n"
    findings = list(list_findings(first.effects, [each.tables for each in results]))
    yield (
        "| | effect | in the paper | (a) learnt less its reference | of each seed | could see | "
        "(b) learnt less fair floors | (c) facts |\n|---|---|---|---|---|---|---|---|"
    )
    for number, (effect, each) in enumerate(zip(first.effects, findings, strict=True), 1):
        yield _render_row(number, effect, each)
    yield ""
    tables = {table.name: table for table in first.tables}
    for says, numbers in _group_numbers(tables[each.table].says for each in first.effects):
        questions = tables[first.effects[numbers[0] - 1].table].questions
        yield f"- {_join_numbers(numbers)}: {says}; {len({*questions})} questions"
    for aimed, numbers in _group_numbers(map(_describe_aim, findings)):
        yield f"- {_join_numbers(numbers)}, the reward that was aimed at: {aimed}"
    for hacked, numbers in _group_numbers(map(_describe_hacking, findings)):
        yield f"- {_join_numbers(numbers)}, reward hacking: {hacked}"
    for chosen, numbers in _group_numbers(each.chosen for each in first.effects):
        yield f"- {_join_numbers(numbers)}, chosen: {chosen}"
    for why, numbers in _group_numbers(each.why for each in findings):
        yield f"- {_join_numbers(numbers)}, presumed reason: {why}"
    for note in dict.fromkeys(note for each in results for note in each.notes):
        noted = [str(each.seeds[0]) for each in results if note in each.notes]
        of = "" if len(noted) == len(results) else f"seed {', '.join(noted)}: "
        yield f"- {of}{note}"
    place = _get_scores_place(name)
    yield (
        f"- Scores of single questions: [{place.name}]({PICTURES.name}/{place.name}), one line of "
        "JSON for each seed\n"
    )
    if len(results) > 1:
        yield f"The figures below are of seed {first.seeds[0]} alone.\n"
    for place in sorted(PICTURES.glob(f"{name}-*.figure.json")):
        yield from _render_figure(place)


def _render_curves() -> Iterator[str]:
    """Render the first page: curves of all recipes, each kind under its heading."""
    for title, name in CURVES.items():
        yield f"## {title}\n"
        places = [
            (recipe, size, place)
            for recipe, size in product(RECIPES, SIZES)
            if (place := PICTURES / f"{recipe}-{size}-{name}.figure.json").exists()
        ]
        if not places:
            yield "No run that is kept has stored this.\n"
        for recipe, size, place in places:
            figure = Figure.from_json(place.read_bytes())
            picture = f"{PICTURES.name}/{recipe}-{size}-{name}.svg"
            yield f"{recipe}, {size}: {figure.says}\n\n![{recipe}, {size}: {title}]({picture})\n"


def _render_title(result: Result) -> str:
    # Importing the recipe would load torch.
    source = (ROOT / "recipes" / f"{result.recipe}.py").read_text(encoding="utf-8")
    about = ast.get_docstring(ast.parse(source)) or ""
    return f"## {result.recipe}, {result.size}\n\n{' '.join(about.split())}\n"


def _render_row(number: int, effect: Effect, finding: Finding) -> str:
    scores = f"{_format_scores([finding.learnt])}, {_format_scores([finding.reference])}"
    floors = f"**{finding.beyond}**: {format_systems(finding.floors)}" if finding.floors else ""
    expected = f"{effect.margin:g} is the same" if effect.margin else "no margin was set"
    if effect.claim == "more":
        expected = f"{effect.expected:g} expected" if effect.expected else "none was expected"
    cells = (
        str(number),
        finding.effect,
        finding.paper,
        f"**{finding.verdict}**: {format_estimate(finding.more, sized=False)}; {scores}",
        ", ".join(f"{seed:.3f}" for seed in finding.seeds),
        "nothing: no interval" if finding.least is None else f"{finding.least:.3f}; {expected}",
        "; ".join(filter(None, (floors, effect.lacking))),
        _format_scores(finding.facts) or "none",
    )
    return f"| {' | '.join(map(_escape_cell, cells))} |"


def _format_scores(systems: Iterable[SystemEstimate]) -> str:
    return "; ".join(f"{each.system} {each.score.value:.3f}" for each in systems)


def _describe_aim(finding: Finding) -> str:
    if finding.aimed is None or finding.correlation is None:
        return "not stored by question, or there is none"
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


def _join_numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _render_figure(place: Path) -> Iterator[str]:
    figure = Figure.from_json(place.read_bytes())
    picture = place.with_name(place.name.replace(".figure.json", ".svg"))
    source = f" ({figure.source})" if figure.source else ""
    yield f"### {figure.title}{source}\n\n{figure.says}\n"
    yield f"![{figure.title}]({PICTURES.name}/{picture.name})\n"
    lines = format_figure_markdown(figure).splitlines()
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

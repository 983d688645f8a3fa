"""Command line of the recipes: settings from a file, stages that are run once, stored findings."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple, TypeVar

import msgspec

from recipes.findings import Effect, Finding, ScoreTable, list_findings
from rookery.errors import Failed
from rookery.measure.figures import Figure, read_figures, write_figure
from rookery.records import Record, prepare_type
from rookery.typed_files import merge_tables, parse_settings, read_toml_table

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class RecipeOutput(NamedTuple):
    """Everything that a recipe measures in one run."""

    effects: Iterable[Effect]
    tables: Iterable[ScoreTable]
    figures: Iterable[Figure]
    notes: Iterable[str]
    """Failed attempts, and differences from the paper with their reasons."""


class Result(Record, frozen=True):
    """Findings of one run of a recipe, with the scores that they are judged by."""

    recipe: str
    size: str
    minutes: float
    """Minutes on this machine, earlier interrupted runs included."""
    seeds: tuple[int, ...]
    """One seed."""
    findings: tuple[Finding, ...]
    """Of this seed alone; `recipes.results` judges the effects over all seeds."""
    effects: tuple[Effect, ...]
    tables: tuple[ScoreTable, ...]
    notes: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()


def load_or_make(place: Path, kind: type[T], make: Callable[[], T]) -> T:
    """Return the value stored in this JSON file; if there is no file, make the value and store
    it."""
    if not place.exists():
        made = make()
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(made))
        part.replace(place)
    return msgspec.json.decode(place.read_bytes(), type=prepare_type(kind))


def write_records(place: Path, records: Iterable[Record]) -> str:
    """Write records as JSON lines and return the path."""
    place.write_text("".join(record.to_json() + "\n" for record in records), encoding="utf-8")
    return str(place)


def print_progress(sentence: str) -> None:
    """Print a progress line to standard error."""
    print(sentence, file=sys.stderr, flush=True)


def main(
    recipe: str,
    settings: type[S],
    play: Callable[[S, Path, Path], RecipeOutput],
    below: Mapping[str, Any] = {},
) -> None:
    """Run `python -m recipes.NAME SIZE [--seed N] [--out DIR] [--data DIR]`; an interrupted run
    resumes when it is started again.

    `play` takes the settings, the data folder and the run's folder. `below` holds settings used
    where the file of a size is silent.
    """
    parser = argparse.ArgumentParser(prog=f"python -m recipes.{recipe}")
    parser.add_argument("size", help="tiny, small, medium, paper, or a TOML file of your own")
    parser.add_argument("--seed", type=int, help="of weights, order and samples; the file's, or 0")
    parser.add_argument("--out", type=Path, help="folder of the run; runs/NAME-SIZE-SEED")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    options = parser.parse_args()
    place = Path(options.size)
    if place.suffix != ".toml":
        place = Path(__file__).parent / "sizes" / f"{recipe}.{options.size}.toml"
    named = f"{recipe}-{place.stem.split('.')[-1]}-{options.seed or 0}"
    out = options.out or Path("runs") / named
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        result = run_recipe(recipe, settings, play, place, options.data, out, below, options.seed)
    except Failed as failed:
        sys.exit(f"{recipe}: {failed.failure.what}: {failed.failure.detail}")
    except FileNotFoundError as error:
        sys.exit(f"{recipe}: {error.filename} is not there: name the folder of the data by --data")
    except (OSError, ValueError) as error:
        sys.exit(f"{recipe}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{recipe}: stopped; the same command goes on from there")
    for finding in result.findings:
        print_progress(f"{finding.verdict:9}  {finding.effect}: {finding.ours}")
    for note in result.notes:
        print_progress(note)


def run_recipe(
    recipe: str,
    settings: type[S],
    play: Callable[[S, Path, Path], RecipeOutput],
    config: Path,
    data: Path,
    out: Path,
    below: Mapping[str, Any] = {},
    seed: int | None = None,
) -> Result:
    """Run a recipe and store its findings in OUT/result.json and its figures in OUT/figures.

    `seed` counts before the seed of the file.
    """
    table = merge_tables(below, read_toml_table(config))
    if seed is not None:
        table = {**table, "seed": seed}
    out.mkdir(parents=True, exist_ok=True)
    with _add_minutes(out / "minutes"):
        reproduction = play(parse_settings(table, settings, config), data, out)
        names = []
        for figure in reproduction.figures:
            write_figure(figure, out / "figures")
            names.append(figure.name)
        figures = read_figures(out / "figures")
        effects, tables = tuple(reproduction.effects), tuple(reproduction.tables)
        findings = tuple(list_findings(effects, [tables]))
    result = Result(
        recipe,
        config.stem.split(".")[-1],
        round(float((out / "minutes").read_text()), 1),
        (table.get("seed", 0),),
        findings,
        effects,
        tables,
        tuple(reproduction.notes),
        tuple(figures[out / "figures" / f"{name}.json"] for name in names),
    )
    (out / "result.json").write_text(result.to_json() + "\n")
    return result


@contextmanager
def _add_minutes(place: Path) -> Iterator[None]:
    """Add the minutes that the block takes to those in the file, also if it is interrupted."""
    before = float(place.read_text()) if place.exists() else 0.0
    begun = monotonic()
    try:
        yield
    finally:
        place.write_text(str(before + (monotonic() - begun) / 60))


def convert_to_toml_keys(paper: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of defaults with the keys of a TOML file: `lambda` in place of `trace`."""
    return {"lambda" if name == "trace" else name: value for name, value in paper.items()}

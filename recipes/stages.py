"""Command line of the recipes: settings from a file, stages that are run once, stored findings."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import msgspec

from rookery.draft.config import merge_tables, parse_settings, read_toml_table
from rookery.measure.figures import Figure, write_figure
from rookery.measure.intervals import Estimate
from rookery.records import Failed, Record

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class Finding(Record, frozen=True):
    """One effect that a paper shows, and whether it is seen here."""

    effect: str
    """One sentence that is true or false, such as "best of 16 beats one sample"."""
    paper: str
    """The paper's figure, with section or table."""
    ours: str
    """Our figure, with interval and sample size."""
    holds: bool
    """True if the effect lies beyond the interval."""
    why: str = ""
    """Presumed reason where it does not hold or differs in kind."""


class Result(Record, frozen=True):
    """Findings of one run of a recipe."""

    recipe: str
    size: str
    minutes: float
    """Minutes on this machine, earlier interrupted runs included."""
    seeds: tuple[int, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """Failed attempts, and differences from the paper with their reasons."""


RecipeOutput = tuple[Iterable[Finding], Iterable[Figure], Iterable[str]]
"""Findings, figures, notes."""


def format_estimate(estimate: Estimate, form: str = ".3f") -> str:
    """Format an estimate with its interval and sample size."""
    low, high = (format(end, form) for end in (estimate.low, estimate.high))
    return f"{estimate.value:{form}} ({low} to {high}, n={estimate.count})"


def load_or_make(place: Path, kind: type[T], make: Callable[[], T]) -> T:
    """Return the value stored in this JSON file; if there is no file, make the value and store
    it."""
    if not place.exists():
        made = make()
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(made))
        part.replace(place)
    return msgspec.json.decode(place.read_bytes(), type=kind)


def print_progress(sentence: str) -> None:
    """Print a progress line to standard error."""
    print(sentence, file=sys.stderr, flush=True)


def main(
    recipe: str,
    settings: type[S],
    play: Callable[[S, Path, Path], RecipeOutput],
    below: Mapping[str, Any] = {},
) -> None:
    """Run `python -m recipes.NAME SIZE [--out DIR] [--data DIR]`; an interrupted run resumes when
    it is started again.

    `play` takes the settings, the data folder and the run's folder. `below` holds settings used
    where the file of a size is silent.
    """
    parser = argparse.ArgumentParser(prog=f"python -m recipes.{recipe}")
    parser.add_argument("size", help="tiny, small, paper, or a TOML file of your own")
    parser.add_argument("--out", type=Path, help="folder of the run; runs/NAME-SIZE")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    options = parser.parse_args()
    place = Path(options.size)
    if place.suffix != ".toml":
        place = Path(__file__).parent / "sizes" / f"{recipe}.{options.size}.toml"
    out = options.out or Path("runs") / f"{recipe}-{place.stem.split('.')[-1]}"
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        result = run_recipe(recipe, settings, play, place, options.data, out, below)
    except Failed as failed:
        sys.exit(f"{recipe}: {failed.failure.what}: {failed.failure.detail}")
    except FileNotFoundError as error:
        sys.exit(f"{recipe}: {error.filename} is not there: name the folder of the data by --data")
    except (OSError, ValueError) as error:
        sys.exit(f"{recipe}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{recipe}: stopped; the same command goes on from there")
    for finding in result.findings:
        print_progress(f"{'yes' if finding.holds else 'NO '}  {finding.effect}: {finding.ours}")


def run_recipe(
    recipe: str,
    settings: type[S],
    play: Callable[[S, Path, Path], RecipeOutput],
    config: Path,
    data: Path,
    out: Path,
    below: Mapping[str, Any] = {},
) -> Result:
    """Run a recipe and store its findings in OUT/result.json and its figures in OUT/figures."""
    table = merge_tables(below, read_toml_table(config))
    seeds = tuple(table.get("seeds", ()) or (table.get("seed", 0),))
    out.mkdir(parents=True, exist_ok=True)
    with _add_minutes(out / "minutes"):
        findings, figures, notes = play(parse_settings(table, settings, config), data, out)
        for figure in figures:
            write_figure(figure, out / "figures")
    minutes = float((out / "minutes").read_text())
    size = config.stem.split(".")[-1]
    result = Result(recipe, size, round(minutes, 1), seeds, tuple(findings), tuple(notes))
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

"""How a recipe is run: its settings from a file, its stages each done once, its findings kept.

It knows nothing of what a recipe does.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import msgspec

from rookery.draft.config import over, read_table, settings_of
from rookery.measure.figure import Figure
from rookery.measure.interval import Estimate
from rookery.measure.report import write_figure
from rookery.records import Failed, Record

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class Finding(Record, frozen=True):
    """One effect that a paper shows, and whether it is seen here."""

    effect: str
    """as one sentence that can be true or false, such as "best of 16 beats one sample" """
    paper: str
    """the paper's figure, with its section or table"""
    ours: str
    """the figure seen, with its interval and how many it is of"""
    holds: bool
    """beyond the interval"""
    why: str = ""
    """where it does not hold, or differs in kind: what is believed to be the reason"""


class Result(Record, frozen=True):
    """What a recipe has found."""

    recipe: str
    size: str
    minutes: float
    """of this machine's time, stages of earlier runs included"""
    seeds: tuple[int, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    """what was tried and failed, what is smaller or other than in the paper, and why"""


Found = tuple[Iterable[Finding], Iterable[Figure], Iterable[str]]
"""findings, figures, notes"""


def told(estimate: Estimate, form: str = ".3f") -> str:
    """An estimate in words."""
    low, high = (format(end, form) for end in (estimate.low, estimate.high))
    return f"{estimate.value:{form}} ({low} to {high}, n={estimate.count})"


def kept(place: Path, kind: type[T], make: Callable[[], T]) -> T:
    """What an earlier run kept in this JSON file; where there is none, it is made and kept now."""
    if not place.exists():
        made = make()
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(made))
        part.replace(place)
    return msgspec.json.decode(place.read_bytes(), type=kind)


def say(sentence: str) -> None:
    """Tells whoever waits what is being done."""
    print(sentence, file=sys.stderr, flush=True)


def main(
    recipe: str,
    settings: type[S],
    play: Callable[[S, Path, Path], Found],
    below: Mapping[str, Any] = {},
) -> None:
    """`python -m recipes.NAME SIZE [--out DIR] [--data DIR]`: what is stopped goes on when it is
    said again. `play` is given the settings, the folder of the data and that of the run. Where the
    file of a size says nothing, the tables in `below` count."""
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
        result = recipe_run(recipe, settings, play, place, options.data, out, below)
    except Failed as failed:
        sys.exit(f"{recipe}: {failed.failure.what}: {failed.failure.detail}")
    except FileNotFoundError as error:
        sys.exit(f"{recipe}: {error.filename} is not there: name the folder of the data by --data")
    except (OSError, ValueError) as error:
        sys.exit(f"{recipe}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{recipe}: stopped; the same command goes on from there")
    for finding in result.findings:
        say(f"{'yes' if finding.holds else 'NO '}  {finding.effect}: {finding.ours}")


def recipe_run(
    recipe: str,
    settings: type[S],
    play: Callable[[S, Path, Path], Found],
    config: Path,
    data: Path,
    out: Path,
    below: Mapping[str, Any] = {},
) -> Result:
    """Plays a recipe and keeps what it found: OUT/result.json, and OUT/figures."""
    table = over(below, read_table(config))
    seeds = tuple(table.get("seeds", ()) or (table.get("seed", 0),))
    out.mkdir(parents=True, exist_ok=True)
    with _timed(out / "minutes"):
        findings, figures, notes = play(settings_of(table, settings, config), data, out)
        for figure in figures:
            write_figure(figure, out / "figures")
    minutes = float((out / "minutes").read_text())
    size = config.stem.split(".")[-1]
    result = Result(recipe, size, round(minutes, 1), seeds, tuple(findings), tuple(notes))
    (out / "result.json").write_text(result.to_json() + "\n")
    return result


@contextmanager
def _timed(place: Path) -> Iterator[None]:
    """Adds the minutes that this takes to those in the file, also where it is stopped."""
    before = float(place.read_text()) if place.exists() else 0.0
    begun = monotonic()
    try:
        yield
    finally:
        place.write_text(str(before + (monotonic() - begun) / 60))

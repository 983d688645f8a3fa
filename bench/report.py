"""Shared by all benchmarks: places of data and results, sizes, skipping, tables, timing, the JSON.

In a small round (`python -m bench --small`) the variable BENCH_SMALL names a temporary folder that
stands for the repository and for ../shared: made-up data lie there, and all results go there.
"""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any, NoReturn, TypeVar

ROOT = Path(__file__).resolve().parent.parent
SMALL = os.environ.get("BENCH_SMALL", "")
"""Folder of a small round; empty in a full one."""
DATA = Path(SMALL) / "data" if SMALL else ROOT.parent / "shared" / "data"
SCRATCH = Path(SMALL) / "scratch" if SMALL else ROOT / "bench" / "scratch"
"""Kept between full rounds; may be deleted at any time."""
RESULTS = Path(SMALL) / "results" if SMALL else ROOT / "bench" / "results"
DOCS = Path(SMALL) if SMALL else ROOT / "docs"
PROCESS_CLOCK = 2  # CPUCLOCK_SCHED: of all threads, in nanoseconds
SKIPPED = 77
"""Exit status of a benchmark that lacks data, a package or a program."""

T = TypeVar("T")


def choose_size(full: T, small: T) -> T:
    """Return `full`, or `small` in a small round."""
    return small if SMALL else full


def skip_bench(reason: str) -> NoReturn:
    """End this benchmark with the reason why it cannot run here."""
    print(f"skipped: {reason}", flush=True)
    sys.exit(SKIPPED)


def require_data(data: Path) -> None:
    """Skip the benchmark if the data are absent."""
    if not data.exists():
        skip_bench(f"../{data.relative_to(ROOT.parent)} is absent")


def require_peers(*packages: str) -> None:
    """Skip the benchmark if a package that it compares with is not installed."""
    if missing := [package for package in packages if find_spec(package) is None]:
        skip_bench(f"{', '.join(missing)} is not installed: make .venv/bench")


def fresh_processes(*modules: str) -> BaseContext:
    """Return a multiprocessing context whose processes share no memory with this one; in a small
    round with these modules imported already, since importing them takes longer than the work."""
    if not SMALL:
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([*modules])
    return context


def get_date() -> str:
    """Return the date, as results name it."""
    return datetime.now(UTC).date().isoformat()


def write_results(name: str, figures: Mapping[str, Any]) -> None:
    """Write RESULTS/NAME.json: the figures with date and machine, or with the run they name."""
    run = {
        "date": get_date(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": f"Python {platform.python_version()}",
        "command": f"`python -m bench {name}`",
    }
    body = json.dumps({**figures, "run": figures.get("run", run)}, indent=1, ensure_ascii=False)
    path = RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body + "\n", encoding="utf-8")


def read_results(name: str, results: Path = RESULTS) -> dict[str, Any] | None:
    """Read the results that `write_results` wrote; None if this benchmark has not been run."""
    path = results / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_bytes()) if path.exists() else None
    return found


def summarize_milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """Return median and 95th percentile of seconds, in milliseconds."""
    ordered = sorted(seconds)
    return {
        "median_ms": 1e3 * statistics.median(ordered),
        "p95_ms": 1e3 * ordered[int(0.95 * len(ordered))],
    }


def print_table(columns: Sequence[str], rows: Mapping[str, Mapping[str, float | None]]) -> None:
    """Print a table."""
    width = max(map(len, rows), default=0)
    print(" " * width, *(f"{column:>10}" for column in columns))
    for name, row in rows.items():
        cells = (row.get(column) for column in columns)
        print(f"{name:{width}}", *(" " * 10 if c is None else f"{c:10.4g}" for c in cells))


def measure_cpu(process: int) -> float:
    """Return the CPU seconds of a process so far; 0 if it has ended or the system does not tell.

    Linux makes the number of a process's clock of its id, as clock_getcpuclockid does. /proc has
    its time too, in steps of 10 ms, in which a server may have answered a whole small round.
    """
    try:
        return time.clock_gettime((~process << 3) | PROCESS_CLOCK)
    except OSError:
        return 0.0


@contextmanager
def stopwatch(times: list[float]) -> Iterator[None]:
    """Append the seconds that the block takes to `times`."""
    begun = time.perf_counter()
    yield
    times.append(time.perf_counter() - begun)

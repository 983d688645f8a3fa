"""Shared by all benches: where data and results lie, sizes, skipping, tables, timing, the JSON.

In a small round (`python -m bench --small`) the variable BENCH_SMALL names a temporary folder that
stands for the repository and for ../shared: made data lie there, and all results go there.
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
"""the folder of a small round; empty in a full one"""
DATA = Path(SMALL) / "data" if SMALL else ROOT.parent / "shared" / "data"
SCRATCH = Path(SMALL) / "scratch" if SMALL else ROOT / "bench" / "scratch"
"""kept from one full round to the next; it can be deleted at any time"""
RESULTS = Path(SMALL) / "results" if SMALL else ROOT / "bench" / "results"
DOCS = Path(SMALL) if SMALL else ROOT / "docs"
SKIPPED = 77
"""exit status of a bench that lacks data, a package or a program"""

T = TypeVar("T")


def sized(full: T, small: T) -> T:
    """`full`, or in a small round `small`."""
    return small if SMALL else full


def skip(reason: str) -> NoReturn:
    """End this bench with the reason why it cannot run here."""
    print(f"skipped: {reason}", flush=True)
    sys.exit(SKIPPED)


def require(data: Path) -> None:
    """Skip the bench where the data is not beside the repository."""
    if not data.exists():
        skip(f"../{data.relative_to(ROOT.parent)} is absent")


def require_peers(*packages: str) -> None:
    """Skip the bench where one of the packages that it compares with is not installed."""
    if missing := [package for package in packages if find_spec(package) is None]:
        skip(f"{', '.join(missing)} is not installed: make .venv/bench")


def fresh_processes(*modules: str) -> BaseContext:
    """Processes that share no memory with this one; in a small round, with these modules imported
    already, since importing them takes longer than what is done with them."""
    if not SMALL:
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([*modules])
    return context


def write(name: str, figures: Mapping[str, Any]) -> None:
    """RESULTS/NAME.json: the figures, and when and on what they were seen."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    run = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": f"Python {platform.python_version()}",
        "command": f"`python -m bench {name}`",
    }
    body = json.dumps({**figures, "run": run}, indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(body + "\n", encoding="utf-8")


def read(name: str, results: Path = RESULTS) -> dict[str, Any] | None:
    """What `write` wrote; None where this bench has not been run."""
    path = results / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_bytes()) if path.exists() else None
    return found


def milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 95th percentile."""
    ordered = sorted(seconds)
    return {
        "median_ms": 1e3 * statistics.median(ordered),
        "p95_ms": 1e3 * ordered[int(0.95 * len(ordered))],
    }


def show(columns: Sequence[str], rows: Mapping[str, Mapping[str, float]]) -> None:
    """A table on standard output."""
    width = max(map(len, rows), default=0)
    print(" " * width, *(f"{column:>10}" for column in columns))
    for name, row in rows.items():
        print(f"{name:{width}}", *(f"{row[c]:10.4g}" if c in row else " " * 10 for c in columns))


@contextmanager
def stopwatch(times: list[float]) -> Iterator[None]:
    """Adds the seconds that the block took."""
    begun = time.perf_counter()
    yield
    times.append(time.perf_counter() - begun)

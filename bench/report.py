"""What the figures have in common: the data that may be absent, the run's machine, the JSON."""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


def require(data: Path) -> None:
    """Stop with a sentence where the data is not beside the repository."""
    if not data.exists():
        sys.exit(f"skipped: ../{data.relative_to(ROOT.parent)} is absent")


def write(name: str, figures: Mapping[str, Any]) -> None:
    """bench/results/NAME.json: the figures, and when and on what they were seen."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    run = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": f"Python {platform.python_version()}",
        "command": f"`python -m bench {name}`",
    }
    body = json.dumps({**figures, "run": run}, indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(body + "\n", encoding="utf-8")


def read(name: str) -> dict[str, Any] | None:
    """What `write` wrote; None where this bench has not been run."""
    path = RESULTS / f"{name}.json"
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

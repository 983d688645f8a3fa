"""`rookery ask` over the squad folder, each time in a new process: seconds from start to answer.

Reads ../shared/data/squad. Prints a table and writes bench/results/ask.json. The folder is indexed
beforehand; that runs do not index again is checked. "lexical" runs the same command where a
package of the extra cannot be imported.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.report import SCRATCH, require, show, sized, write
from bench.squad import ARCHIVE, CACHE, DATA, Squad
from rookery.cite import dense

RUNS = sized(15, 2)
TARGET = 1.0
"""seconds, median"""
MAIN = "from rookery.__main__ import main; main()"
LEXICAL = f"""
import sys
sys.modules["tokenizers"] = None  # Python's way to say that a module cannot be imported
from rookery.cite import dense
assert dense.missing(), "the dense ranker is found all the same"
{MAIN}
"""
KEPT = CACHE / "vectors.sqlite"
"""where `rookery ask` keeps vectors, beside the index"""
IMPORT = """
import sys, time
begun = time.perf_counter()
import rookery
print(1e3 * (time.perf_counter() - begun), *({"numpy", "selectolax"} & sys.modules.keys()))
"""


LAUNCH = """
import resource, subprocess, sys, time
begun = time.perf_counter()
with open(sys.argv[1], "wb") as out:
    code = subprocess.call(sys.argv[2:], stdout=out)
seconds = time.perf_counter() - begun
print(code, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""a small process of its own, for a child counts what its parent held at the fork as its peak"""


class Run(NamedTuple):
    seconds: float
    megabytes: float
    """resident at most"""


def run(program: str, question: str, folder: Path) -> Run:
    """One `rookery ask`. Raises where it neither answers nor declines."""
    homes = {"XDG_CACHE_HOME": str(CACHE.parent), "XDG_DATA_HOME": str(ARCHIVE.parent.parent)}
    out = SCRATCH / "ask.json"
    ask = [sys.executable, "-c", program, "ask", question, "--in", str(folder), "--json"]
    launch = [sys.executable, "-c", LAUNCH, str(out), *ask]
    printed = subprocess.run(
        launch, env=os.environ | homes, capture_output=True, text=True, check=True
    ).stdout
    code, seconds, kilobytes = printed.split()
    if code not in ("0", "3"):
        raise RuntimeError(f"rookery ask ended with {code} for {question!r}")
    counts = json.loads(out.read_bytes())["counts"]
    if counts["quotes"] != counts["verified"]:
        raise RuntimeError(f"a quote was not verified for {question!r}")
    return Run(float(seconds), int(kilobytes) / 1024)


def forget_vectors() -> None:
    for name in (KEPT.name, f"{KEPT.name}-wal", f"{KEPT.name}-shm"):
        KEPT.with_name(name).unlink(missing_ok=True)


def row(runs: Sequence[Run]) -> dict[str, float]:
    seconds = sorted(run.seconds for run in runs)
    return {
        "median_s": statistics.median(seconds),
        "slowest_s": seconds[-1],
        "peak_mb": max(run.megabytes for run in runs),
    }


def index_state() -> list[tuple[str, int, int]]:
    """Every file of the index and its manifest, with size and time of change."""
    files = (file for file in (CACHE / "folders").rglob("*") if file.is_file())
    kept = (file for file in files if not file.name.endswith(("-wal", "-shm", "lock")))
    return sorted((str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in kept)


def importing() -> dict[str, float | str]:
    """`import rookery`: milliseconds, and which heavy modules it loads (it must be none)."""
    times, heavy = [], ""
    for _ in range(RUNS):
        printed = subprocess.run(
            [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
        ).stdout.split()
        times.append(float(printed[0]))
        heavy = " ".join(printed[1:])
    return {"median_ms": statistics.median(times), "heavy": heavy}


def main() -> None:
    require(DATA)
    squad = Squad()
    squad.open_library(ARCHIVE, CACHE).close()
    asked = [question.text for question in squad.sample(3, RUNS)]
    run(MAIN, asked[0], squad.folder)
    before = index_state()
    arms: dict[str, list[Run]] = {"lexical": []}
    if not dense.missing():
        arms |= {"dense, no vector kept": [], "dense, vectors kept": []}
    for question in asked:
        arms["lexical"].append(run(LEXICAL, question, squad.folder))
        if not dense.missing():
            forget_vectors()
            arms["dense, no vector kept"].append(run(MAIN, question, squad.folder))
            arms["dense, vectors kept"].append(run(MAIN, question, squad.folder))
    same = index_state() == before
    rows = {name: row(runs) for name, runs in arms.items()}
    light = importing()
    print(f"{RUNS} questions, each in a new process; target: median under {TARGET:g} s")
    show(["median_s", "slowest_s", "peak_mb"], rows)
    print("the index is unchanged" if same else "THE INDEX CHANGED between runs")
    print(f"import rookery: {light['median_ms']:.1f} ms, heavy modules: {light['heavy'] or 'none'}")
    figures = {"target_s": TARGET, "rows": rows, "index_unchanged": same, "import": light}
    write("ask", {"runs": RUNS, **figures})


if __name__ == "__main__":
    main()

"""`rookery ask` over the squad folder, each time in a new process, and `rookery.ask` in one that
asked before: seconds from start to answer, and peak memory.

Reads ../shared/data/squad. Prints a table and writes bench/results/ask.json. The folder is indexed
beforehand, and it is checked that runs do not index again. "lexical" ranks by words alone; the
evidence model is the one that comes with Rookery.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.report import SCRATCH, choose_size, print_table, require_data, write_results
from bench.squad import ARCHIVE, CACHE, DATA, Squad
from rookery.evidence.evidence_model import BUNDLED_MODEL, is_evidence_model
from rookery.library.search_index import INDEX_NOTE_FILE

RUNS = choose_size(15, 2)
TARGETS = {"lexical": 1.0, "evidence model": 1.5, "evidence model, warm": 1.0}
"""Seconds, median."""
MAIN = "from rookery.__main__ import main; main()"
IMPORT = """
import sys, time
begun = time.perf_counter()
import rookery
print(1e3 * (time.perf_counter() - begun), *({"numpy", "selectolax"} & sys.modules.keys()))
"""
WARM = """
import json, sys, time
import rookery
answers = rookery.ask_many(json.loads(sys.argv[1]), sys.argv[2])
begun = time.perf_counter()
for answer in answers:
    print(time.perf_counter() - begun)
    begun = time.perf_counter()
"""
HOMES = {"XDG_CACHE_HOME": str(CACHE.parent), "XDG_DATA_HOME": str(ARCHIVE.parent.parent)}
LAUNCH = """
import resource, subprocess, sys, time
begun = time.perf_counter()
with open(sys.argv[1], "wb") as out:
    code = subprocess.call(sys.argv[2:], stdout=out)
seconds = time.perf_counter() - begun
print(code, seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Code of a small launcher process: a child's peak memory includes what its parent held at the
fork."""


class Run(NamedTuple):
    """Cost of one run."""

    seconds: float
    megabytes: float
    """Peak resident memory."""


def run_ask(question: str, folder: Path, *more: str) -> Run:
    """Run `rookery ask` once. Raises RuntimeError if it neither answers nor declines, or a quote is
    not verified."""
    out = SCRATCH / "ask.json"
    ask = [sys.executable, "-c", MAIN, "ask", question, "--in", str(folder), "--json", *more]
    launch = [sys.executable, "-c", LAUNCH, str(out), *ask]
    printed = subprocess.run(
        launch, env=os.environ | HOMES, capture_output=True, text=True, check=True
    ).stdout
    code, seconds, kilobytes = printed.split()
    if code not in ("0", "3"):
        raise RuntimeError(f"rookery ask ended with {code} for {question!r}")
    counts = json.loads(out.read_bytes())["counts"]
    if counts["quotes"] != counts["verified"]:
        raise RuntimeError(f"a quote was not verified for {question!r}")
    return Run(float(seconds), int(kilobytes) / 1024)


def summarize_runs(runs: Sequence[Run]) -> dict[str, float]:
    """Return median and slowest seconds and the peak memory of runs."""
    seconds = sorted(run.seconds for run in runs)
    return {
        "median_s": statistics.median(seconds),
        "slowest_s": seconds[-1],
        "peak_mb": max(run.megabytes for run in runs),
    }


def time_warm_asks(questions: Sequence[str], folder: Path) -> dict[str, float]:
    """Ask in one process, and return median and slowest seconds of all but the first question."""
    asked = json.dumps([questions[0], *questions])
    printed = subprocess.run(
        [sys.executable, "-c", WARM, asked, str(folder)],
        env=os.environ | HOMES,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    seconds = [float(each) for each in printed.split()[1:]]
    return {"median_s": statistics.median(seconds), "slowest_s": max(seconds)}


def list_index_files() -> list[tuple[str, int, int]]:
    """List every file of the index and its manifest with size and time of change."""
    files = (file for file in (CACHE / "folders").rglob("*") if file.is_file())
    # The note of an index has the time of its last use.
    ignored = ("-wal", "-shm", "lock", INDEX_NOTE_FILE)
    kept = (file for file in files if not file.name.endswith(ignored))
    return sorted((str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in kept)


def time_import() -> dict[str, float | str]:
    """Measure `import rookery`: median milliseconds, and the heavy modules it loads (there should
    be none)."""
    times, heavy = [], ""
    for _ in range(RUNS):
        printed = subprocess.run(
            [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
        ).stdout.split()
        times.append(float(printed[0]))
        heavy = " ".join(printed[1:])
    return {"median_ms": statistics.median(times), "heavy": heavy}


def main() -> None:
    """Run the benchmark."""
    require_data(DATA)
    squad = Squad()
    squad.open_library(ARCHIVE, CACHE).close()
    asked = [question.text for question in squad.sample(3, RUNS)]
    run_ask(asked[0], squad.folder)
    before = list_index_files()
    arms: dict[str, list[Run]] = {"lexical": []}
    if is_evidence_model(BUNDLED_MODEL):
        arms["evidence model"] = []
    for question in asked:
        for arm, runs in arms.items():
            more = ("--ranker", "words") if arm == "lexical" else ()
            runs.append(run_ask(question, squad.folder, *more))
    same = list_index_files() == before
    rows = {name: summarize_runs(runs) for name, runs in arms.items()}
    if "evidence model" in rows:
        rows["evidence model, warm"] = time_warm_asks(asked, squad.folder)
    light = time_import()
    print(f"{RUNS} questions, each in a new process, or (warm) one after the other in one")
    print_table(["median_s", "slowest_s", "peak_mb"], rows)
    print("the index is unchanged" if same else "THE INDEX CHANGED between runs")
    print(f"import rookery: {light['median_ms']:.1f} ms, heavy modules: {light['heavy'] or 'none'}")
    figures = {"targets_s": TARGETS, "rows": rows, "index_unchanged": same, "import": light}
    write_results("ask", {"runs": RUNS, **figures})


if __name__ == "__main__":
    main()

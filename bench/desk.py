"""The desk's labelling queue under load: items given to too many people or twice to one,
milliseconds per action, and the processor time of a server for a judgement.

Needs PostgreSQL's programs. In each run twelve people, in two tabs each and four processes, fill
the places of 20 items, three each; one lease in ten is abandoned (tests/helpers/crowd.py). Beside
it runs a version that looks first and writes then, which must go wrong. Then one person after the
other claims and submits, with 1,000 and 50,000 items queued. Last, somebody judges over HTTP in a
real `rookery serve`: the page of an item, its form sent, and the next page, as a browser without
scripts does it; the median of three servers. Prints tables and writes bench/results/desk.json.

    python -m bench.desk [--runs N]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from bench.report import (
    ROOT,
    choose_size,
    measure_cpu,
    print_table,
    skip_bench,
    stopwatch,
    summarize_milliseconds,
    write_results,
)
from bench.serve import find_free_port
from rookery.desk import accounts, labelling_queue
from rookery.desk.forms import LabellingItem
from rookery.desk.store import Store, initialize_store
from rookery.records import Question

sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from crowd import ITEMS, PEOPLE, PLACES, WORK, by_counting, by_slots, run
from stores import binaries, serving
from visits import Visit, item

SIZES = choose_size((1_000, 50_000), (20, 40))
CLAIMS = choose_size(600, 20)
TARGET_MS = 5.0
JUDGEMENTS = choose_size(500, 5)
REPEATS = choose_size(3, 1)
"""servers of which the median is taken"""
TARGET_CPU_MS = 15.0

Fresh = Callable[[], str]


def run_crowd(fresh: Fresh, runs: int, way: str) -> dict[str, float]:
    """Run the crowd several times and sum what went wrong."""
    tab = {"slots": by_slots, "look, then write": by_counting}[way]
    seen = [run(fresh(), tab, seed) for seed in range(runs)]
    return {name: sum(getattr(one, name) for one in seen) for name in seen[0]._fields}


def time_one_by_one(fresh: Fresh, size: int) -> dict[str, float]:
    """Measure milliseconds to claim and to submit, one person after the other."""
    claiming: list[float] = []
    handing: list[float] = []
    with Store(fresh()) as store:
        names = [f"p{number}" for number in range(PEOPLE)]
        for name in names:
            accounts.add_person(store, name, "labeller")
        found = (LabellingItem("compare", Question(str(number), "Why?")) for number in range(size))
        labelling_queue.add_items(store, found, "a batch", PLACES)
        for number in range(CLAIMS):
            with stopwatch(claiming):
                lease = labelling_queue.claim_item(store, names[number % PEOPLE])
            assert lease is not None
            with stopwatch(handing):
                labelling_queue.submit_judgement(store, lease.token, lease.person, WORK)
    claim, hand_in = summarize_milliseconds(claiming), summarize_milliseconds(handing)
    return {f"claim {name}": value for name, value in claim.items()} | {
        f"hand in {name}": value for name, value in hand_in.items()
    }


def measure_judgements(place: str, log: Path) -> float:
    """Measure the processor milliseconds of a real server for each judgement of one person."""
    with Store(place) as store:
        made = (item("supported", number) for number in range(JUDGEMENTS + 20))
        labelling_queue.add_items(store, made, "first", 3)
        token = accounts.create_invite(store, "lena", "labeller", "ada")
    port = find_free_port()
    command = [sys.executable, "-m", "rookery", "serve", "--store", place, "--port", str(port)]
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out)
    address = f"http://127.0.0.1:{port}"
    try:
        with httpx2.Client(base_url=address, follow_redirects=True, timeout=60) as client:
            while not _is_ready(client):
                assert server.poll() is None, log.read_text()
                time.sleep(0.1)
            client.post(f"/enter/{token}").raise_for_status()
            visitor: Any = client  # of the same kind as the test client that Visit names
            visit = Visit(visitor, "lena").begin("supported")
            for _ in range(10):
                visit.send(FILLED)
            before = measure_cpu(server.pid)
            for _ in range(JUDGEMENTS):
                visit.send(FILLED)
                assert "said=done" in visit.at, visit.html
            return (measure_cpu(server.pid) - before) / JUDGEMENTS * 1000
    finally:
        server.terminate()
        server.wait()


FILLED = {"plausible.0": "yes", "plausible.1": "yes", "preferred": "0"}
FILLED |= {"supported.0": "yes", "supported.1": "no"}


def _is_ready(client: httpx2.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.desk", description=__doc__)
    parser.add_argument("--runs", type=int, default=choose_size(20, 1))
    runs = parser.parse_args().runs
    if binaries() is None:
        skip_bench("PostgreSQL's programs are not installed: apt-get install postgresql")
    numbers = count()
    with tempfile.TemporaryDirectory() as folder, serving() as server:

        def sqlite() -> str:
            """Create an empty SQLite store."""
            return make_store(str(Path(folder) / f"store{next(numbers)}.sqlite"))

        def postgresql() -> str:
            """Create an empty PostgreSQL store."""
            return make_store(server.database())

        databases = {"SQLite": sqlite, "PostgreSQL": postgresql}
        wrong = {
            f"{way}, {name}": run_crowd(fresh, runs, way)
            for way in ("slots", "look, then write")
            for name, fresh in databases.items()
        }
        times = {
            f"{name}, {size:,} items": time_one_by_one(fresh, size)
            for name, fresh in databases.items()
            for size in SIZES
        }
        repeats = [
            {
                name: measure_judgements(fresh(), Path(folder) / "log")
                for name, fresh in databases.items()
            }
            for _ in range(REPEATS)
        ]
    judged = {name: median(each[name] for each in repeats) for name in databases}
    for number, each in enumerate(repeats):
        print_table([*databases], {f"processor ms a judgement, server {number}": each})
    print_table(list(judged), {"processor ms a judgement, median": judged})
    for rows in (wrong, times):
        print_table(list(next(iter(rows.values()))), rows)
    shape = {"runs": runs, "people": PEOPLE, "items": ITEMS, "places": PLACES}
    shape |= {"target_ms": TARGET_MS, "target_cpu_ms": TARGET_CPU_MS}
    write_results("desk", {**shape, "wrong": wrong, "times": times, "judgement_cpu_ms": judged})


def make_store(place: str) -> str:
    """Create a store and return its place."""
    initialize_store(place)
    return place


if __name__ == "__main__":
    main()

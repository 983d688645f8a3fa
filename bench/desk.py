"""The desk's labelling queue under load: items given to too many people or twice to one, and
milliseconds per action.

Needs PostgreSQL's programs. In each run twelve people, in two tabs each and four processes, fill
the places of 20 items, three each; one lease in ten is abandoned (tests/judge/crowd.py). Beside it
runs a version that looks first and writes then, which must go wrong. Then one person after the
other claims and submits, with 1,000 and 50,000 items queued. Prints tables and writes
bench/results/desk.json.

    python -m bench.desk [--runs N]
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

from bench.report import (
    ROOT,
    choose_size,
    print_table,
    skip_bench,
    stopwatch,
    summarize_milliseconds,
    write_results,
)
from rookery.judge import accounts, labelling_queue
from rookery.judge.labelling_records import LabellingItem
from rookery.judge.store import Store, initialize_store
from rookery.records import Question

sys.path.insert(0, str(ROOT / "tests" / "judge"))

from crowd import ITEMS, PEOPLE, PLACES, WORK, by_counting, by_slots, crowd, run
from stores import binaries, serving

SIZES = choose_size((1_000, 50_000), (20, 40))
CLAIMS = choose_size(600, 20)
TARGET_MS = 5.0

Fresh = Callable[[], str]


def run_crowd(fresh: Fresh, runs: int, way: str) -> dict[str, float]:
    """Run the crowd several times and sum what went wrong."""
    tab = {"slots": by_slots, "look, then write": by_counting}[way]
    with crowd() as pool:
        seen = [run(fresh(), pool, tab, seed) for seed in range(runs)]
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
    for rows in (wrong, times):
        print_table(list(next(iter(rows.values()))), rows)
    shape = {"runs": runs, "people": PEOPLE, "items": ITEMS, "places": PLACES}
    write_results("desk", {**shape, "target_ms": TARGET_MS, "wrong": wrong, "times": times})


def make_store(place: str) -> str:
    """Create a store and return its place."""
    initialize_store(place)
    return place


if __name__ == "__main__":
    main()

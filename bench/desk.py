"""Does the desk ever hand an item to too many, or twice to one person, and how long does it take?

Needs PostgreSQL's programs. In each run twelve people, in two tabs each and four processes, fill
the places of 20 items, three each; of ten leases one is walked away from (tests/judge/crowd.py).
Beside it the same by looking first and writing then, which must go wrong. Then one person after
the other claims and hands in, with 1,000 and 50,000 items at the desk. Prints tables and writes
bench/results/desk.json.

    python -m bench.desk [--runs N]
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

from bench.report import ROOT, milliseconds, show, sized, skip, stopwatch, write
from rookery.judge import handing_in, handout, people
from rookery.judge.store import Store, init
from rookery.judge.work import Item
from rookery.records import Question

sys.path.insert(0, str(ROOT / "tests" / "judge"))

from crowd import ITEMS, PEOPLE, PLACES, WORK, by_counting, by_slots, crowd, run
from stores import binaries, serving

SIZES = sized((1_000, 50_000), (20, 40))
CLAIMS = sized(600, 20)
TARGET_MS = 5.0

Fresh = Callable[[], str]


def together(fresh: Fresh, runs: int, way: str) -> dict[str, float]:
    """What went wrong, and what came late, in all runs."""
    tab = {"slots": by_slots, "look, then write": by_counting}[way]
    with crowd() as pool:
        seen = [run(fresh(), pool, tab, seed) for seed in range(runs)]
    return {name: sum(getattr(one, name) for one in seen) for name in seen[0]._fields}


def alone(fresh: Fresh, size: int) -> dict[str, float]:
    """Milliseconds to claim and to hand in, one person after the other."""
    claiming: list[float] = []
    handing: list[float] = []
    with Store(fresh()) as store:
        names = [f"p{number}" for number in range(PEOPLE)]
        for name in names:
            people.add_person(store, name, "labeller")
        found = (Item("compare", Question(str(number), "Why?")) for number in range(size))
        handout.add(store, found, "a batch", PLACES)
        for number in range(CLAIMS):
            with stopwatch(claiming):
                lease = handout.claim(store, names[number % PEOPLE])
            assert lease is not None
            with stopwatch(handing):
                handing_in.submit(store, lease.token, lease.person, WORK)
    claim, hand_in = milliseconds(claiming), milliseconds(handing)
    return {f"claim {name}": value for name, value in claim.items()} | {
        f"hand in {name}": value for name, value in hand_in.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.desk", description=__doc__)
    parser.add_argument("--runs", type=int, default=sized(20, 1))
    runs = parser.parse_args().runs
    if binaries() is None:
        skip("PostgreSQL's programs are not installed: apt-get install postgresql")
    numbers = count()
    with tempfile.TemporaryDirectory() as folder, serving() as server:

        def sqlite() -> str:
            return made(str(Path(folder) / f"store{next(numbers)}.sqlite"))

        def postgresql() -> str:
            return made(server.database())

        databases = {"SQLite": sqlite, "PostgreSQL": postgresql}
        wrong = {
            f"{way}, {name}": together(fresh, runs, way)
            for way in ("slots", "look, then write")
            for name, fresh in databases.items()
        }
        times = {
            f"{name}, {size:,} items": alone(fresh, size)
            for name, fresh in databases.items()
            for size in SIZES
        }
    for rows in (wrong, times):
        show(list(next(iter(rows.values()))), rows)
    shape = {"runs": runs, "people": PEOPLE, "items": ITEMS, "places": PLACES}
    write("desk", {**shape, "target_ms": TARGET_MS, "wrong": wrong, "times": times})


def made(place: str) -> str:
    init(place)
    return place


if __name__ == "__main__":
    main()

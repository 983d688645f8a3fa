"""Data loss of demonstrations when their server is killed with `kill -9`.

A real server over a SQLite store is killed at random moments while somebody follows a script of
sixteen forms, 200 times; acknowledged commands are then looked for in the store, and the next
server's page is compared with the one shown before (tests/helpers/killing.py). Prints a table and
writes bench/results/killed.json.

    python -m bench.killed [--kills N]
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from bench.report import ROOT, choose_size, print_table, write_results
from rookery.desk.store import initialize_store

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from commands import surroundings
from demonstrating import desk
from killing import killed


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=choose_size(200, 2))
    kills = parser.parse_args().kills
    with tempfile.TemporaryDirectory() as home:
        os.environ |= surroundings(Path(home))
        template = Path(home) / "empty.sqlite"
        initialize_store(str(template))
        with desk(template, Path(home)) as here:
            count = killed(here, Path(home), kills)
    said = {tuple(step.said.text for step in each.steps) for each in count.episodes}
    figures = {
        "kills": count.kills,
        "actions": count.acknowledged,
        "actions lost": count.lost,
        "pages that differed afterwards": count.other,
        "demonstrations finished": len(count.episodes),
        "demonstrations that differ": len(said) - 1,
    }
    print_table(("times",), {name: {"times": number} for name, number in figures.items()})
    write_results("killed", figures)


if __name__ == "__main__":
    main()

"""CPU time of reading files by two checkouts of Rookery, in turn.

    python -m bench.reading_time OLD NEW FILE_OR_FOLDER... [--rounds N]

OLD and NEW are folders of checkouts, from version 0.3 on. Every file is read by a process of each,
OLD first in every second round; of each the least of the rounds counts. Prints the ratio NEW / OLD
of the sums for each ending of file names and for all, and the largest of a single file.
"""

import argparse
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

READER = """
import sys, time
from pathlib import Path
from rookery.errors import Failed
from rookery.pages.page_reader import read_page
for line in sys.stdin:
    path = Path(line.rstrip("\\n"))
    data, before = path.read_bytes(), time.process_time()
    try:
        read_page(data, path.as_uri())
    except Failed:
        pass
    print(time.process_time() - before, flush=True)
"""


def start_reader(checkout: Path) -> subprocess.Popen[str]:
    """Start a process that reads each file whose path it is sent, and answers its CPU seconds."""
    return subprocess.Popen(
        [sys.executable, "-c", READER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=checkout,  # first in the path of modules
        env={**os.environ, "PYTHONPATH": str(checkout.absolute()), "OMP_NUM_THREADS": "1"},
    )


def time_reading(reader: subprocess.Popen[str], path: Path) -> float:
    """Return the CPU seconds that a reader takes for a file."""
    assert reader.stdin is not None
    assert reader.stdout is not None
    reader.stdin.write(f"{path}\n")
    reader.stdin.flush()
    return float(reader.stdout.readline())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("places", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    files = [
        file.absolute()
        for place in options.places
        for file in (sorted(place.rglob("*")) if place.is_dir() else [place])
        if file.is_file()
    ]
    readers = [start_reader(options.old), start_reader(options.new)]
    least: dict[tuple[int, Path], float] = defaultdict(lambda: float("inf"))
    for number in range(options.rounds):
        for file in files:
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                seconds = time_reading(readers[side], file)
                least[side, file] = min(least[side, file], seconds)
    for reader in readers:
        reader.kill()
    ratios = {file: least[1, file] / max(least[0, file], 1e-6) for file in files}
    groups = {file.suffix: [each for each in files if each.suffix == file.suffix] for file in files}
    for name, group in [*sorted(groups.items()), ("all", files)]:
        old, new = (sum(least[side, file] for file in group) for side in (0, 1))
        worst = max(group, key=ratios.__getitem__)
        print(
            f"{name:8} {len(group):5} files  {old:8.2f} s -> {new:8.2f} s  {new / old:.2f} times, "
            f"{ratios[worst]:.2f} at most ({worst.name})"
        )


if __name__ == "__main__":
    main()

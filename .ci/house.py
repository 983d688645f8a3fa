"""Print the lines of code and the files of each package beside their limits: `python .ci/house.py`.

The limits, and the reasons of those that rose, stand in `tests/test_house.py`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from test_house import MOST_CODE_LINES, SIZE_LIMITS, measure_packages


def main() -> None:
    """Print a row for each package, and their sums."""
    sizes = measure_packages()
    print(f"{'package':10} {'lines':>7} {'limit':>7} {'files':>6} {'limit':>6}")
    for name in sorted({*sizes, *SIZE_LIMITS}):
        (lines, files), (most_lines, most_files) = (
            each.get(name, (0, 0)) for each in (sizes, SIZE_LIMITS)
        )
        print(f"{name:10} {lines:7,} {most_lines:7,} {files:6} {most_files:6}")
    lines, files = (sum(column) for column in zip(*sizes.values(), strict=True))
    print(f"{'all':10} {lines:7,} {MOST_CODE_LINES:7,} {files:6}")


if __name__ == "__main__":
    main()

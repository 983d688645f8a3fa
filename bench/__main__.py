"""`python -m bench [NAME ...] [--small] [--tables]`: run benchmarks, then write docs/figures.md.

Each runs in a process of its own, so that none warms another's caches. One that lacks data, a
package or a program is skipped with a sentence, and its last figures stay. A small round takes
seconds per benchmark, needs no data, and prints its tables instead of writing them: it checks that
the code runs, and its figures mean nothing.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import figures, report, small

NAMES = [name for name, *_ in figures.SECTIONS]


def run_bench(name: str, home: str, published: Sequence[str], pages: Sequence[str] = ()) -> bool:
    """Run one benchmark in a new process; return False if it failed (skipped is not failed). `home`
    is the folder of a small round, or empty; `published` are folders of published benchmarks,
    `pages` those of more real pages."""
    print(f"\n== {name}", flush=True)
    command = [sys.executable, "-m", f"bench.{name}"]
    if name == "pages":
        command += [f"--benchmark={Path(folder).absolute()}" for folder in published]
    if name == "hidden":
        command += [f"--pages={Path(folder).absolute()}" for folder in pages]
    environment = os.environ | {"BENCH_SMALL": home}
    code = subprocess.run(command, cwd=report.ROOT, env=environment, check=False).returncode
    if code not in (0, report.SKIPPED):
        print(f"{name} failed: its figures are those of an earlier run, or none", flush=True)
    return code in (0, report.SKIPPED)


def run_small_round(names: Sequence[str]) -> bool:
    """Run a small round of these benchmarks and print their parts of the page of figures; return
    False if one failed."""
    with tempfile.TemporaryDirectory(prefix="rookery-bench") as home:
        small.write_data(Path(home) / "data")
        published = [f"{home}/data/{name}" for name in small.PUBLISHED]
        went = [run_bench(name, home, published) for name in names]
        results = Path(home) / "results"
        for name, title, section in figures.SECTIONS:
            if (found := report.read_results(name, results)) is not None:
                print(f"\n## {title}\n", *section(found), sep="\n")
    return all(went)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; or all")
    parser.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="FOLDER",
        help="for pages: a clone of scrapinghub/article-extraction-benchmark or adbar/trafilatura",
    )
    parser.add_argument(
        "--pages",
        action="append",
        default=[],
        metavar="FOLDER",
        help="for hidden: .html and .html.gz files, beside the pages that it has",
    )
    parser.add_argument("--small", action="store_true", help="a round of seconds, on made data")
    parser.add_argument("--tables", action="store_true", help="run nothing, write docs/figures.md")
    options = parser.parse_args()
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no bench {', '.join(unknown)}; there are {', '.join(NAMES)}")
    names = [] if options.tables else options.names or NAMES
    if options.small:
        sys.exit(0 if run_small_round(names) else 1)
    went = [run_bench(name, "", options.benchmark, options.pages) for name in names]
    figures.write_page()
    print("\ndocs/figures.md is written")
    sys.exit(0 if all(went) else 1)


if __name__ == "__main__":
    main()

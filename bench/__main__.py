"""`python -m bench [NAME ...] [--tables]`: run the benches, then write docs/figures.md.

Each runs in a process of its own, so that none warms another's caches. One whose data is not
beside the repository is skipped with a sentence, and its last figures stay.
"""

import argparse
import subprocess
import sys

from bench import figures, report

DATA = {
    "pages": "readability",
    "browser": "readability",
    "sessions": "",
    "demonstrations": "squad",
    "desk": "",
    "killed": "",
    "installed": "",
    "serve": "squad",
    "decline": "",
    "sides": "boolq",
    "constraint": "squad",
    "local": "",
    "search": "squad",
    "answers": "squad",
    "ask": "squad",
    "cranfield": "cranfield",
    "dense": "squad",
    "retrieve": "squad",
    "optimum": "",
    "learning": "",
}
"""each bench and the folder of ../shared/data that it reads, if any"""


def run(name: str) -> bool:
    """Whether this bench went well, or could not be expected to."""
    print(f"\n== {name}", flush=True)
    folder = report.ROOT.parent / "shared" / "data" / DATA[name]
    if DATA[name] and not folder.exists():
        print(f"skipped: ../shared/data/{DATA[name]} is absent", flush=True)
        return True
    command = [sys.executable, "-m", f"bench.{name}"]
    if subprocess.run(command, cwd=report.ROOT, check=False).returncode:
        print(f"{name} failed: its figures are those of an earlier run, or none", flush=True)
        return False
    found = report.read(name)
    if found is not None:
        report.write(name, {key: value for key, value in found.items() if key != "run"})
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(DATA)}; or all")
    parser.add_argument("--tables", action="store_true", help="run nothing, write docs/figures.md")
    options = parser.parse_args()
    if unknown := set(options.names) - DATA.keys():
        parser.error(f"there is no bench {', '.join(unknown)}; there are {', '.join(DATA)}")
    names = [] if options.tables else options.names or list(DATA)
    went = [run(name) for name in names]
    figures.write()
    print("\ndocs/figures.md is written")
    sys.exit(0 if all(went) else 1)


if __name__ == "__main__":
    main()
